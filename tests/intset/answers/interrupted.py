"""Interrupt a question at a random line of the program or its libraries, then repeat it, and ask another.

`python -m tests.intset.answers.interrupted SEED TRIES`: each try forks a process before any import, so that interrupts
may hit the first import of islpy or z3. Prints answers that changed.
"""

import json
import os
import random
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from intset import Context, Range, ShapeVar, Var
from tests import ROOT

FOLDERS = (str(ROOT / "intset"), f"{os.sep}islpy{os.sep}", f"{os.sep}z3{os.sep}")
FIRST_LINES = 9_000  # of what a question runs, the imports of libraries included


def questions() -> list[Callable[[], str]]:
    i, j, x, y = (Var(name) for name in "ijxy")
    n, m = ShapeVar("n"), ShapeVar("m")
    c = Context({i: Range(0, n), j: Range(0, m)}, assume=[i < m + 3])
    d = Context({i: Range(0, 20), j: Range(0, i)}, assume=[i * 3 + j < 40])
    e = Context({x: None, y: None})
    return [
        lambda: repr(c.bounds(i * m + j)),
        lambda: str(c.value_set(i + j * 2).ends()),
        lambda: repr(c.image((i + j, i // 3)).box),
        lambda: repr(c.prove(i * m + j < n * m)),
        lambda: repr(d.bounds((i * 7 + j) % 5)),
        lambda: repr(d.value_set(i * 7 + j * 3).count()),
        lambda: repr(d.prove((i * 5 + j) // 3 < 24)),
        lambda: repr(e.prove(x * x + y * y >= 2 * x * y)),
        lambda: repr(e.prove((x * x * x).ne(x * y * y + 5))),
        lambda: repr(c.simplify((i * m + j) // m)),
        lambda: c.prove(i * m + j < n * m).certificate().kind,
        lambda: repr(d.image((i + j, i - j)).count()),
        lambda: repr(c.value_set(j).at({"n": 0}).is_empty),
    ]


def interrupted(ask: Callable[[], str], at: int) -> None:
    """Run `ask` with an interrupt at line number `at`, if execution reaches it."""
    lines = 0

    def within(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines == at and event == "line":
            raise KeyboardInterrupt
        return within

    def entered(frame: FrameType, _: str, __: Any) -> Any:
        return within if any(folder in frame.f_code.co_filename for folder in FOLDERS) else None

    sys.settrace(entered)
    try:
        ask()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)


def apart(work: Callable[[], Any]) -> Any:
    """Run `work` in a forked process and return its result."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            found = work()
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(data) if data else f"it ended with status {status}"


def main(seed: int, tries: int) -> int:
    warnings.simplefilter("ignore")
    truth = apart(lambda: [ask() for ask in questions()])
    wrong = 0
    for number in range(seed, seed + tries):
        rng = random.Random(number)
        k, other = rng.randrange(len(truth)), rng.randrange(len(truth))
        places = [rng.randrange(1, rng.choice((FIRST_LINES, 90))) for _ in range(rng.choice((1, 1, 2)))]

        def again(k: int = k, other: int = other, places: list[int] = places) -> list[str]:
            asked = questions()
            for place in places:
                interrupted(asked[k], place)
            return [asked[k](), asked[other]()]

        found = apart(again)
        if found != [truth[k], truth[other]]:
            wrong += 1
            print(
                f"{number}: question {k} interrupted at {places}, then {other}: {found}, not {truth[k], truth[other]}"
            )
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
