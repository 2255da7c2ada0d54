"""Calls of the project's own functions behind one question: `python -m benchmarks.calls [--where] [NAME ...]`.

Each question is asked in a fresh process. Every entry of a Python function, generator or comprehension of `intset`,
`bound` and `lowering` counts as one call, and every file with such an entry as one file; imports are done before.
`--where` lists the functions with their number of calls.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = tuple(f"{ROOT / name}/" for name in ("intset", "bound", "lowering"))

Count = Counter[CodeType]


def counted(question: Callable[[], object]) -> Count:
    """The project's functions that `question` enters, with the number of entries."""
    calls: Count = Counter()

    def enter(frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            calls[frame.f_code] += 1

    sys.setprofile(enter)
    try:
        question()
    finally:
        sys.setprofile(None)
    return calls


def bounds() -> Count:
    """The ends of `(i*4 + j)//3 % 5` over 8 times 4 points, context and expression included."""
    from intset import Context, Range, Var  # loads the modules of a question

    i, j = Var("i"), Var("j")
    return counted(lambda: Context({i: Range(0, 8), j: Range(0, 4)}).bounds((i * 4 + j) // 3 % 5))


def certificate() -> Count:
    """The certificate of these ends, after them."""
    from intset import Context, Range, Var  # loads the modules of a question

    i, j = Var("i"), Var("j")
    ends = Context({i: Range(0, 8), j: Range(0, 4)}).bounds((i * 4 + j) // 3 % 5)
    return counted(ends.certificate)


QUESTIONS: Final = {"bounds": bounds, "certificate": certificate}


def report(name: str, is_long: bool) -> None:
    calls = QUESTIONS[name]()
    files = Counter[str]()
    for code, count in calls.items():
        files[code.co_filename] += count
    print(f"{name}: {len(files)} files, {sum(calls.values())} calls", flush=True)
    for code, count in calls.most_common() if is_long else ():
        print(f"  {count:6} {Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno} {code.co_qualname}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(QUESTIONS))
    parser.add_argument("--where", action="store_true", help="list the functions")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.names or QUESTIONS:
        if options.here:
            report(name, options.where)
        else:
            more = ["--where"] if options.where else []
            subprocess.run([sys.executable, "-m", "benchmarks.calls", "--here", name, *more], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
