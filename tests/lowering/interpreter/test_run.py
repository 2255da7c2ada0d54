"""`run`: how arrays and sizes are bound, what is refused; compiled nests match the interpreter and free all storage."""

import ctypes
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from bound.schedule import Schedule
from intset import ShapeVar
from intset.errors import InputError, UndefinedError
from lowering import CheckError, CompilerError, lower, parse_nest, run, simplify, to_c
from lowering.interpreter import compiled_library
from lowering.nest.ir import Seq
from tests.compilers import needs_compiler
from tests.lowering.lowered import BACKENDS, close, compile_c, inputs_of, problem, random_array, shape_at, status
from tests.strategies.written import Written


def program() -> Any:
    s, *args = Written(
        "n = var(); A = given(n, m); B = given(m + 2)\nC[i:n, j:m] = A[i, j] + B[j + 2]", m=te.size_var("m")
    )("s A B C")
    return lower(s, args)


X, Y = np.ones((3, 4), np.float32), np.arange(6, dtype=np.float32)


def test_arrays_are_written_in_place_or_made_also_empty_ones() -> None:
    f = program()
    out = np.zeros((3, 4), np.float32)
    result = run(f, {"A": X, "B": Y, "C": out})
    assert result["C"] is out
    np.testing.assert_array_equal(out, X + Y[2:])
    np.testing.assert_array_equal(run(f, {"A": X, "B": Y})["C"], X + Y[2:])
    np.testing.assert_array_equal(run(f, {f.params[0]: X, f.params[1]: Y})["C"], X + Y[2:])
    fortran = np.asfortranarray(np.zeros((3, 4), np.float32))
    run(f, {"A": np.asfortranarray(X), "B": Y[::1], "C": fortran})
    np.testing.assert_array_equal(fortran, X + Y[2:])
    run(f, {"A": X.astype(np.float64), "B": [0.0, 1, 2, 3, 4, 5], "C": out}, checked=False)
    np.testing.assert_array_equal(out, X + Y[2:])
    f = program()
    assert run(f, {"A": np.zeros((0, 4), np.float32), "B": Y})["C"].shape == (0, 4)
    assert run(f, {"A": np.zeros((2, 0), np.float32), "B": Y[:2]})["C"].shape == (2, 0)
    a, b = te.placeholder((4,), name="lambda"), te.placeholder((4,), name="for")
    s = te.create_schedule(te.compute((4,), lambda i: a[i] + b[i], name="class").op)
    np.testing.assert_array_equal(run(lower(s), {"lambda": Y[:4], "for": Y[:4]})["class"], 2 * Y[:4])


def test_sizes_come_from_shapes_and_scalars_are_given() -> None:
    m = te.var("m")
    f = lower(Written("B = given(m * 2 + 1)\nC[i:m] = B[2 * i + 1]", m=m).s)
    np.testing.assert_array_equal(run(f, {"B": np.arange(7, dtype=np.float32)})["C"], [1, 3, 5])
    with pytest.raises(InputError, match="the size m is not determined"):
        run(f, {"B": np.arange(6, dtype=np.float32)})
    g = lower(Written("S = given(m * m)\nD[i:m] = S[i * m]", m=m).s)
    np.testing.assert_array_equal(run(g, {"S": np.arange(9, dtype=np.float32)})["D"], [0, 3, 6])
    h = lower(Written('E[i:m] = tir.const(1.0, "float32") * i', m=m).s)
    np.testing.assert_array_equal(run(h, {}, sizes={"m": 3})["E"], [0, 1, 2])
    np.testing.assert_array_equal(run(h, {}, sizes={m: 2})["E"], [0, 1])
    np.testing.assert_array_equal(run(h, {"E": np.zeros(4, np.float32)})["E"], [0, 1, 2, 3])
    text = 'n = var(); scale = var("float32"); A = given(n)\nB[i:n] = A[i] * scale'
    s, *args = Written(text)("s n scale A B")
    f = lower(s, args)
    np.testing.assert_array_equal(run(f, {"A": Y}, sizes={"scale": 0.5})["B"], Y * 0.5)
    with pytest.raises(InputError, match="the scalar scale has no value"):
        run(f, {"A": Y})


def test_what_does_not_fit_is_refused_and_a_size_among_the_arrays() -> None:
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"A": X}, InputError, "the array for B is missing"),
        ({"A": X, "B": Y, "D": Y}, InputError, "'D' is no parameter of C: the parameters are A, B, C"),
        ({"A": Y, "B": Y}, InputError, "the array for A has 1 dimensions, not 2"),
        ({"A": X, "B": Y[:5]}, CheckError, r"an assertion does not hold: extent 0 of B is m \+ 2"),
        ({"A": X, "B": Y, "C": np.zeros((3, 5), np.float32)}, CheckError, "does not hold: extent 1 of C is m"),
        ({"A": X.astype(np.int64), "B": Y}, InputError, "the array for A has the type int64, not float32"),
        ({"A": X, "B": Y, "C": [[0.0] * 4] * 3}, InputError, "C is written: it must be a numpy array, not a list"),
    ]
    for arrays, error, words in refused:
        with pytest.raises(error, match=words):
            run(program(), arrays)
    with pytest.raises(InputError, match="extent 0 of the array for A is 5, not 4"):
        run(lower(Written("A = given(4); B = pointwise(A)").s), {"A": Y[:5]})
    d, x = te.size_var("d"), te.var("x", "float32")
    s, *args = Written("A = given(d)\nB[i:d] = A[i] * x", d=d, x=x)("s A B x")
    f = lower(s, args)
    for key, name in (("d", "d"), (d, "d"), ("x", "x"), (x, "x")):
        with pytest.raises(InputError, match=rf"{name} is no array: B takes .* third argument, as in run\(f, arrays, "):
            run(f, {"A": np.ones(3, np.float32), key: 0})
    assert run(f, {"A": np.ones(3, np.float32)}, {"d": 3, "x": 2})["B"].tolist() == [2.0] * 3


def test_a_division_by_zero_is_reported_and_what_was_not_computed_shows() -> None:
    f = lower(Written('A = given(4, dtype="int32")\nB[i:4] = 12 // A[i]').s)
    np.testing.assert_array_equal(run(f, {"A": np.array([1, 2, -5, 12], np.int32)})["B"], [12, 6, -3, 1])
    with pytest.raises(UndefinedError, match="B divides an integer by 0"):
        run(f, {"A": np.array([1, 2, 0, 12], np.int32)})
    f = lower(Written("n = var(); A = given(n)\nB[i:n] = A[i]").s)
    assert np.isnan(run(f.with_body(Seq()), {"A": Y})["B"]).all()


TEXT = """
def f(A: int32[n], idx: int32[n], x: float32[n], B: int32[n], n):
    allocate T: int32[n]
    for i in [0, n):
        T[i] = A[idx[i]] + int32(x[i] * 2.0)
    for i in [0, n):
        B[i] = T[i]
    for i in [0, n):
        if A[i] > 3:
            B[i] = B[i] * undef() * 0 + B[i]
"""


def test_elements_and_functions_of_data_are_those_of_the_pickled_tensors() -> None:
    f = parse_nest(TEXT)
    g = pickle.loads(pickle.dumps(f))
    assert str(g) == str(f)
    given = {
        "A": np.arange(5, dtype="int32"),
        "idx": np.array([4, 0, 3, 1, 2], "int32"),
        "x": np.linspace(0, 2, 5, dtype="float32"),
    }
    assert run(g, given)["B"].tolist() == run(f, given)["B"].tolist()
    assert run(simplify(g), given)["B"].tolist() == run(f, given)["B"].tolist()


@pytest.mark.nightly
def test_another_process_reads_what_was_pickled() -> None:
    code = (
        "import pickle, sys, numpy as np\n"
        "from lowering import run\n"
        "f = pickle.load(sys.stdin.buffer)\n"
        "print(f); print(run(f, {'A': np.arange(3, dtype='int32'), 'idx': np.zeros(3, 'int32'),"
        " 'x': np.ones(3, 'float32')})['B'].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(parse_nest(TEXT)), capture_output=True)
    assert done.stdout.decode() == f"{parse_nest(TEXT)}\n[2, 2, 2]\n", done.stderr.decode()


# -- compiled nests ------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "intset"


def doubled(n: Any = 6) -> Any:
    return Written("A = given(n, 4)\nB[i:n, j:4] = A[i, j] * 2 + 1", n=n).s


def test_parallel_loops_with_storage_of_their_own() -> None:
    s = Written("""
        A = given(64, 300); B = pointwise(A)
        C[i:64, j:298] = B[i, j] + B[i, j + 1] + B[i, j + 2]
        D[i:64, j:298] = C[i, j] * C[63 - i, j]
        C split i 32; B compute_at C i.outer; C parallel i.outer""").s
    f = lower(s)
    given, expected = problem(s, {})
    for _ in range(3):
        close(run(f, given, backend="c"), expected)


def test_assertions_and_shapes_are_checked_alike() -> None:
    f = lower(doubled(ShapeVar("n", lower=3, multiple_of=5)))
    for backend in BACKENDS:
        for size, words in ((2, "n is at least 3"), (6, "n is a multiple of 5")):
            with pytest.raises(CheckError, match=words):
                run(f, {"A": np.zeros((size, 4), "float32")}, backend=backend)
        with pytest.raises(InputError, match="extent 1"):
            run(f, {"A": np.zeros((5, 5), "float32")}, backend=backend)
        out = np.full((5, 4), 7, "float32")
        assert run(f, {"A": np.ones((5, 4), "float32"), "B": out}, backend=backend)["B"] is out and (out == 3).all()
    g = lower(Written("k = var(); X = given(k, k * 2); Y = pointwise(X)").then("schedule Y").s)
    for backend in BACKENDS:
        with pytest.raises(CheckError, match="extent 1 of X"):
            run(g, {"X": np.zeros((2, 5), "float32")}, {"k": 2}, backend=backend)


@needs_compiler
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


@needs_compiler
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


@needs_compiler
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

    for backend in BACKENDS:
        with pytest.raises(CheckError, match=r"^an assumption does not hold: A\[i\] < 3 or F\[i\] > 0.5$"):
            run(f, given(0.1), backend=backend)
        assert run(f, given(0.7), backend=backend)["A"].tolist() == [0, 0, 1, 1]
    with pytest.raises(InputError, match="C code draws no values for undef"):
        run(f, given(0.7), undef=lambda dtype: 7, backend="c")


def test_divisors_that_are_known_not_to_be_0_are_not_looked_at() -> None:
    data = 'm = var(); A = given(30, dtype="int32", value_range=(1, 9))\n'
    s = Written(f"{data}C[i:30, j:n] = A[i] * 7 // A[29 - i] + (i + j) % n", n=te.size_var("n")).s
    assert "nonzero" not in to_c(lower(s))
    f = lower(Written(f"{data}C[i:30] = A[i] + i // m").s)
    given = {"A": np.ones(30, "int32")}
    for size in (-4, 3):
        assert (run(f, given, {"m": size}, backend="c")["C"] == run(f, given, {"m": size})["C"]).all()
    for backend in BACKENDS:
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
    code = status(f, text, library, {**given, **outputs}, sizes)
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
