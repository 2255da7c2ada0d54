"""`run(..., backend="c")`: compiled nests match the interpreter in results and errors; returns free all storage."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bound import te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from intset import ShapeVar
from intset.errors import InputError, UndefinedError
from lowering import CheckError, CompilerError, lower, parse_nest, run, to_c
from lowering.interpreter import compiled_library
from tests.compilers import needs_compiler
from tests.lowering.lowered import c_name, close, compile_c, inputs_of, problem, random_array, shape_at
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import swept

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "intset"


def doubled(n: Any = 6) -> Any:
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    return te.create_schedule(b.op)


@swept({
    "numbers": (2, 6, (programs(), st.booleans())),
    "sizes": (1, 6, (programs(symbolic=True, most=3), st.booleans())),
})  # fmt: skip
def test_random_programs_give_what_the_reference_gives(program: Program, strength: bool) -> None:
    s = program.schedule
    given, expected = problem(s, program.sizes)
    try:
        f = lower(s, strength=strength)
    except ScheduleError:
        return
    close(run(f, given, program.sizes, backend="c"), expected)
    close(run(f, given, program.sizes), expected)


def test_parallel_loops_with_storage_of_their_own() -> None:
    a = te.placeholder((64, 300), name="A")
    b = te.compute((64, 300), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((64, 298), lambda i, j: b[i, j] + b[i, j + 1] + b[i, j + 2], name="C")
    d = te.compute((64, 298), lambda i, j: c[i, j] * c[63 - i, j], name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[c].split(c.op.axis[0], 32)
    s[b].compute_at(s[c], outer)
    s[c].parallel(outer)
    f = lower(s)
    given, expected = problem(s, {})
    for _ in range(3):
        close(run(f, given, backend="c"), expected)


def test_assertions_and_shapes_are_checked_alike() -> None:
    n = ShapeVar("n", lower=3)
    f = lower(doubled(n))
    for backend in ("python", "c"):
        with pytest.raises(CheckError, match="n is at least 3"):
            run(f, {"A": np.zeros((2, 4), "float32")}, backend=backend)
        with pytest.raises(InputError, match="extent 1"):
            run(f, {"A": np.zeros((5, 5), "float32")}, backend=backend)
        out = np.full((5, 4), 7, "float32")
        assert run(f, {"A": np.ones((5, 4), "float32"), "B": out}, backend=backend)["B"] is out and (out == 3).all()
    k = te.var("k")
    x = te.placeholder((k, k * 2), name="X")
    y = te.compute((k, k * 2), lambda i, j: x[i, j] + 1.0, name="Y")
    g = lower(te.create_schedule(y.op))
    for backend in ("python", "c"):
        with pytest.raises(CheckError, match="extent 1 of X"):
            run(g, {"X": np.zeros((2, 5), "float32")}, {"k": 2}, backend=backend)


def test_what_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lower(doubled())
    with pytest.raises(InputError, match="backend must be one of python, c, not 'rust'"):
        run(f, {"A": np.zeros((6, 4), "float32")}, backend="rust")
    a = te.placeholder((4,), name="A")
    e = te.extern((4,), [a], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    with pytest.raises(CompilerError, match="f, a function of the host"):
        run(lower(te.create_schedule(e.op)), {"A": np.zeros(4, "float32")}, backend="c")
    with pytest.raises(CompilerError, match="refuses the text"):
        compiled_library("int f(void) { return x; }\n")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match="CC names 'no-such-compiler'"):
        compiled_library("int f(void);\n")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompilerError, match="no C compiler is found"):
        compiled_library("int f(void);\n")


def test_the_cache_is_private_and_is_used(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiled_library("int f(void);\nint f(void) { return 1; }\n")
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700 and path.parent == own_cache
    built = path.stat().st_mtime_ns
    assert compiled_library("int f(void);\nint f(void) { return 1; }\n") == path and path.stat().st_mtime_ns == built
    assert compiled_library("int f(void);\nint f(void) { return 2; }\n") != path
    assert [p.suffix for p in own_cache.iterdir()] == [".so", ".so"]  # nothing else is left
    path.unlink()
    path.symlink_to("/dev/null")
    assert not compiled_library("int f(void);\nint f(void) { return 1; }\n").is_symlink()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_processes_at_once(own_cache: Path) -> None:
    f, children = lower(doubled()), []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                total = run(f, {"A": np.ones((6, 4), "float32")}, backend="c")["B"].sum()
                os._exit(0 if total == 72 else 1)
            finally:
                os._exit(2)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert len(list(own_cache.iterdir())) == 1


def test_assumptions_are_checked_and_undef_is_0() -> None:
    f = parse_nest(
        """
def f(A: int32[4], F: float32[4]):
    for i in [0, 4):
        assume A[i] < 3 or F[i] > 0.5
        A[i] = select(i < 2, undef(), 1)
"""
    )

    def given(value: float) -> dict[str, Any]:
        return {"A": np.arange(4, dtype="int32"), "F": np.full(4, value, "float32")}

    for backend in ("python", "c"):
        with pytest.raises(CheckError, match=r"^an assumption does not hold: A\[i\] < 3 or F\[i\] > 0.5$"):
            run(f, given(0.1), backend=backend)
        assert run(f, given(0.7), backend=backend)["A"].tolist() == [0, 0, 1, 1]
    with pytest.raises(InputError, match="C code draws no values for undef"):
        run(f, given(0.7), undef=lambda dtype: 7, backend="c")


def divided(dtype: str, lazily: bool, parallel: bool) -> Any:
    a, b = (te.placeholder((6, 5), dtype, name=name) for name in "AB")

    def at(i: Any, j: Any) -> Any:
        quotient = tir.floordiv(a[i, j], b[i, j]) + tir.floormod(a[i, j], b[i, j])
        return tir.if_then_else(b[i, j] != 0, quotient, 7) if lazily else quotient

    t = te.compute((6, 5), at, name="T")
    c = te.compute((6, 5), lambda i, j: t[i, j] + t[5 - i, j], name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(c.op.axis[1])
    if parallel:
        s[t].parallel(t.op.axis[0])
    return s


@pytest.mark.parametrize("parallel", [False, True])
def test_a_division_by_0_is_an_error_and_stops_nothing(parallel: bool) -> None:
    for dtype in ("int32", "int64"):
        a = np.arange(30, dtype=dtype).reshape(6, 5)
        for lazily in (False, True):
            f = lower(divided(dtype, lazily, parallel))
            for b in (a % 4 + 1, a % 4):
                results = []
                for backend in ("python", "c"):
                    try:
                        results.append(run(f, {"A": a, "B": b}, backend=backend)["C"].tolist())
                    except UndefinedError as error:
                        results.append(str(error))
                assert results[0] == results[1]
                assert ("divides an integer by 0" in results[0]) == (not lazily and bool((b == 0).any()))


def test_divisors_that_are_known_not_to_be_0_are_not_looked_at() -> None:
    n = te.size_var("n")
    a = te.placeholder((30,), "int32", name="A", value_range=(1, 9))
    s = te.create_schedule(te.compute((30, n), lambda i, j: a[i] * 7 // a[29 - i] + (i + j) % n, name="C").op)
    assert "nonzero" not in to_c(lower(s))
    m = te.var("m")
    f = lower(te.create_schedule(te.compute((30,), lambda i: a[i] + i // m, name="C").op))
    given = {"A": np.ones(30, "int32")}
    for size in (-4, 3):
        assert (run(f, given, {"m": size}, backend="c")["C"] == run(f, given, {"m": size})["C"]).all()
    for backend in ("python", "c"):
        with pytest.raises(UndefinedError, match="C divides an integer by 0"):
            run(f, given, {"m": 0}, backend=backend)


COUNTED = """
int taken, given, left = 1 << 30;
static void *counted(size_t n) { if (left-- <= 0) return NULL; taken++; return malloc(n); }
static void released(void *p) { given += p != NULL; free(p); }
#define malloc counted
#define free released
"""
STORED = {  # rows that are longer than an array on the stack
    "kept rows": """
        A = given(12, 5000); B = pointwise(A)
        C[y:10, x:5000] = B[y, x] + B[y + 2, x]
        B compute_at C y; B store_root""",
    "two halves": "A = given(12, 5000); B = pointwise(A); C = pointwise(B)\nB compute_at C i0; B double_buffer",
    "any size": "A = given(n, 5000); B = pointwise(A)\nC[y:n, x:5000] = B[n - 1 - y, x] + 1",
}
CHECKED = """
    A = given(12, 5000); K = given(12, dtype="int32"); B = pointwise(A)
    C[y:12, x:5000] = B[K[y], x] + 1"""


def stored(text: str) -> Schedule:
    s: Schedule = Written(text, n=te.size_var("n")).s
    return s


def called(s: Schedule, left: int | None = None, **arrays: Any) -> tuple[int, int, int]:
    """Run with `left` successful allocations; returns the code and the counts of mallocs and frees."""
    f = lower(s)
    text = to_c(f)
    place = text.rindex("#include")
    place = text.index("\n", place) + 1
    library = ctypes.CDLL(str(compile_c(text[:place] + COUNTED + text[place:])))
    sizes = {v.name: 9 for v in f.sizes}
    given = {t.name: random_array(t, sizes) for t in inputs_of(s)} | arrays
    outputs = {t.name: np.zeros(shape_at(t, sizes), t.dtype) for op in s.outputs for t in op.outputs}
    if left is not None:
        ctypes.c_int.in_dll(library, "left").value = left
    held = [np.ascontiguousarray({**given, **outputs}[t.name], t.dtype) for t in f.params]
    index = ctypes.c_int32 if "int32_t n" in text else ctypes.c_int64
    code = getattr(library, c_name(text))(
        *(a.ctypes.data_as(ctypes.c_void_p) for a in held), *(index(sizes[v.name]) for v in f.sizes)
    )
    return code, *(ctypes.c_int.in_dll(library, name).value for name in ("taken", "given"))


@pytest.mark.parametrize("name", STORED)
def test_what_is_taken_is_given_back_and_what_is_not_found_is_an_error(name: str) -> None:
    assert called(stored(STORED[name])) == (0, 1, 1)
    assert called(stored(STORED[name]), left=0) == (-1, 0, 0)


def test_a_check_that_fails_gives_back_what_was_taken() -> None:
    inside = np.arange(12, dtype="int32")
    assert called(stored(CHECKED), K=inside) == (0, 1, 1)
    outside = np.where(inside == 7, 12, inside)
    code, taken, given = called(stored(CHECKED), K=outside)
    assert code > 0 and taken == given == 1
