"""What facts are worth at run time: `python -m benchmarks.runtime [program ...] [--repeat N] [--scale K] [--json]`.

Four programs are lowered three times, compiled as C at -O2 by every compiler that is found (gcc, clang, else cc), and
run on the same arrays; all results are compared with numpy.

plain      sizes are variables of which nothing is known
facts      sizes are `ShapeVar`s with an upper bound, so indices have 32 bits; the gather's indices have a range
strength   the same, and loops carry quotients and remainders instead of dividing

flatten    B[i] = A[i % n, i // n]                                       the example of TVM's RFC
reshape    B[i, j] = A[t // (m*p), t // p % m, t % p], t = i*(n*m) + j    (n, m, p) to (p, n*m)
shuffle    B[c, y, x] = A[(c*r + y % r)*r + x % r, y // r, x // r]        pixel shuffle by r
gather     B[t, j] = A[(t + s) % w, (I[t] + j) % n]                       slots of a ring of w, indices modulo n

Sizes are parameters of the C functions, so the compiler cannot fold them. The variants take turns, and of each the
fastest repetition counts; a ratio is the time without facts over that with them.
"""

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bound import te
from bound.tensor import Tensor
from intset import Range, ShapeVar, Var, evaluate
from lowering import Function, lower_divisions, narrow, strength_reduce, to_c
from lowering.nest.ir import For, Store

VARIANTS = ("plain", "facts", "strength")
COMPILERS = ("gcc", "clang")
UPPER = {"c": 64, "h": 512, "w": 512, "r": 8, "n": 1024, "m": 1024, "p": 1024, "k": 4096, "s": 4096}


@dataclass(frozen=True)
class Program:
    """A nest before its divisions are lowered, the sizes it is run at, and what numpy says.

    `nest(size, known)`: the nest; `size(name)` makes a size, `known` says whether elements may have a declared range.
    """

    nest: Callable[[Callable[[str], Any], bool], Function]
    sizes: Callable[[int], dict[str, int]]
    expected: Callable[[Mapping[str, Any], Mapping[str, int]], Any]


def _function(name: str, inputs: Sequence[Tensor], output: Tensor, axes: Sequence[Any], value: Any) -> Function:
    """The loops over all elements of `output`, each of which is `value`."""
    body: Any = Store(output, tuple(axes), value)
    for axis, extent in reversed(list(zip(axes, output.extents, strict=True))):
        body = For(axis, Range(0, extent), body)
    params = (*inputs, output)
    sizes = dict.fromkeys(v for t in params for e in t.extents for v in e.free_vars())
    used = dict.fromkeys(v for e in (*axes, value) for v in getattr(e, "free_vars", tuple)() if v not in axes)
    return Function(name, params, (output,), tuple(dict.fromkeys((*sizes, *used))), (), body)


def _flatten(size: Callable[[str], Any], known: bool) -> Function:
    n, i = size("n"), Var("i")
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n * n,), name="B")
    return _function("flatten", [a], b, [i], a[i % n, i // n])


def _reshape(size: Callable[[str], Any], known: bool) -> Function:
    n, m, p, i, j = size("n"), size("m"), size("p"), Var("i"), Var("j")
    a, b = te.placeholder((n, m, p), name="A"), te.placeholder((p, n * m), name="B")
    t = i * (n * m) + j
    return _function("reshape", [a], b, [i, j], a[t // (m * p), t // p % m, t % p])


def _shuffle(size: Callable[[str], Any], known: bool) -> Function:
    c, h, w, r = size("c"), size("h"), size("w"), size("r")
    i, y, x = Var("i"), Var("y"), Var("x")
    a, b = te.placeholder((c * r * r, h, w), name="A"), te.placeholder((c, h * r, w * r), name="B")
    return _function("shuffle", [a], b, [i, y, x], a[(i * r + y % r) * r + x % r, y // r, x // r])


def _gather(size: Callable[[str], Any], known: bool) -> Function:
    k, m, n, w, s = size("k"), size("m"), size("n"), size("w"), size("s")
    t, j = Var("t"), Var("j")
    limits = (0, 1 << 20) if known else None
    a, index = te.placeholder((w, n), name="A"), te.placeholder((k,), "int32", name="I", value_range=limits)
    b = te.placeholder((k, m), name="B")
    f = _function("gather", [a, index], b, [t, j], a[(t + s) % w, (index[t] + j) % n])
    return replace(f, sizes=tuple(dict.fromkeys((*f.sizes, s))))


def _reshaped(given: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    return given["A"].reshape(sizes["p"], sizes["n"] * sizes["m"])


def _shuffled(given: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    c, h, w, r = (sizes[name] for name in "chwr")
    return given["A"].reshape(c, r, r, h, w).transpose(0, 3, 1, 4, 2).reshape(c, h * r, w * r)


def _gathered(given: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    t, j = np.ogrid[: sizes["k"], : sizes["m"]]
    return given["A"][(t + sizes["s"]) % sizes["w"], (given["I"][:, None] + j) % sizes["n"]]


PROGRAMS: dict[str, Program] = {
    "flatten": Program(_flatten, lambda k: {"n": 15 * k}, lambda given, _: given["A"].T.reshape(-1)),
    "reshape": Program(_reshape, lambda k: {"n": 8 * k, "m": 24, "p": 20 * k}, _reshaped),
    "shuffle": Program(_shuffle, lambda k: {"c": 4, "h": 16 * k, "w": 16 * k, "r": 3}, _shuffled),
    "gather": Program(_gather, lambda k: {"k": 64 * k, "m": 64 * k, "n": 1000, "w": 7, "s": 3}, _gathered),
}


@cache
def variants(program: Program) -> dict[str, Function]:
    """The program lowered without facts, with them, and with carried quotients too."""
    bare = program.nest(te.var, False)
    known = program.nest(lambda name: ShapeVar(name, lower=1, upper=UPPER[name]), True)
    bits = narrow(known).bits
    made = (lower_divisions(bare), lower_divisions(known, bits), lower_divisions(strength_reduce(known, bits), bits))
    return {label: replace(f, name=f"{f.name}_{label}") for label, f in zip(VARIANTS, made, strict=True)}


def compilers() -> list[str]:
    """The C compilers that are found."""
    found = [name for name in COMPILERS if shutil.which(name)]
    return found or [name for name in ("cc",) if shutil.which(name)]


def compiled(functions: Mapping[str, Function], compiler: str, folder: Path) -> dict[str, Callable[..., int]]:
    """The functions as machine code, by label."""
    source = folder / f"{'_'.join(f.name for f in functions.values())}_{compiler}.c"
    source.write_text("\n".join(map(to_c, functions.values())))
    target = source.with_suffix(".so")
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", str(source), "-o", str(target), "-lm"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(target))
    return {label: getattr(library, f.name) for label, f in functions.items()}


def arrays_of(f: Function, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Random arrays for the parameters."""
    rng = np.random.default_rng(1)
    found = {}
    for tensor in f.params:
        at = {v: sizes[v.name] for e in tensor.shape for v in e.free_vars()}
        shape = tuple(int(evaluate(e, at)) for e in tensor.shape)
        is_index = tensor.dtype == "int32"
        made = rng.integers(0, 1 << 20, shape) if is_index else rng.standard_normal(shape)
        found[tensor.name] = np.ascontiguousarray(made, tensor.dtype)
    return found


def measure(name: str, compiler: str, repeat: int, scale: int, folder: Path) -> dict[str, Any]:
    """One program under one compiler: seconds of each variant, and the ratios."""
    program = PROGRAMS[name]
    sizes = program.sizes(scale)
    functions = variants(program)
    code = compiled(functions, compiler, folder)
    index = {label: ctypes.c_int32 if narrow(f).bits == 32 else ctypes.c_int64 for label, f in functions.items()}
    best = dict.fromkeys(VARIANTS, float("inf"))
    first = functions["plain"]
    arrays = arrays_of(first, sizes)
    expected = program.expected(arrays, sizes)
    for turn in range(repeat + 1):  # the first warms up
        for label, run in code.items():
            f = functions[label]
            arrays["B"].fill(0)
            args: list[Any] = [arrays[t.name].ctypes.data_as(ctypes.c_void_p) for t in f.params]
            args += [index[label](sizes[v.name]) for v in f.sizes]
            begin = perf_counter()
            status = run(*args)
            seconds = perf_counter() - begin
            if status != 0 or not np.array_equal(arrays["B"], expected):
                raise SystemExit(f"{name}, {label}, {compiler}: the result is not numpy's")
            if turn:
                best[label] = min(best[label], seconds)
    ratios = {f"plain / {label}": best["plain"] / best[label] for label in VARIANTS[1:]}
    return {"program": name, "compiler": compiler, "sizes": sizes, "seconds": best, "ratios": ratios}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--repeat", type=int, default=9, help="repetitions of each variant")
    parser.add_argument("--scale", type=int, default=16, help="how large the arrays are")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    unknown = [name for name in options.programs if name not in PROGRAMS]
    if unknown:
        print(f"no program is named {unknown[0]!r}; there are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    found = compilers()
    if not found:
        print("no C compiler was found on PATH: gcc, clang or cc is needed to run this benchmark", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="runtime-") as folder:
        names = options.programs or list(PROGRAMS)
        rows = [measure(n, c, options.repeat, options.scale, Path(folder)) for c in found for n in names]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    print(
        f"{'program':10}{'compiler':10}"
        + "".join(f"{label:>12}" for label in VARIANTS)
        + "   plain/facts  plain/strength"
    )
    for row in rows:
        times = "".join(f"{row['seconds'][label] * 1e3:>9.2f} ms" for label in VARIANTS)
        print(
            f"{row['program']:10}{row['compiler']:10}{times}" + "".join(f"{r:>14.2f}" for r in row["ratios"].values())
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
