"""Arithmetic of machine types in both backends: numpy's, over the whole range of integers."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import dtypes, te, tir
from intset import UndefinedError
from lowering import lower, run, to_c
from tests.lowering.lowered import run_sanitized

BYTES = ("int8", "uint8")
INTEGERS = tuple(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))


def edges(dtype: str) -> list[int]:
    low, high = dtypes.int_range(dtype)
    near = (low, low + 1, -3, -1, 0, 1, 2, 7, 9, 31, high // 2, high // 2 + 1, high - 1, high)
    return [x for x in near if low <= x <= high]


EDGES = {dtype: edges(dtype) for dtype in INTEGERS}


def wrapped(x: int, dtype: str) -> int:
    low, high = dtypes.int_range(dtype)
    return (x - low) % (high - low + 1) + low


def quotient(round_to: Callable[[int, int], int]) -> Callable[[int, int, str], int | None]:
    def of(a: int, b: int, dtype: str) -> int | None:
        return None if b == 0 or not dtypes.holds(dtype, round_to(a, b)) else round_to(a, b)

    return of


def truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def places(shift: Callable[[int, int], int]) -> Callable[[int, int, str], int | None]:
    return lambda a, b, dtype: shift(a, b) if 0 <= b < dtypes.bits(dtype) else None


# name: (formula, exact result of two operands of the common type; `None` where there is none)
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int, str], int | None]]] = {
    "add": (lambda a, b: a + b, lambda a, b, _: a + b),
    "sub": (lambda a, b: a - b, lambda a, b, _: a - b),
    "mul": (lambda a, b: a * b, lambda a, b, _: a * b),
    "floordiv": (te.floordiv, quotient(lambda a, b: a // b)),
    "floormod": (te.floormod, lambda a, b, _: None if b == 0 else a % b),
    "truncdiv": (te.truncdiv, quotient(truncated)),
    "truncmod": (te.truncmod, lambda a, b, _: None if b == 0 else a - b * truncated(a, b)),
    "min": (te.min, lambda a, b, _: min(a, b)),
    "max": (te.max, lambda a, b, _: max(a, b)),
    "and": (lambda a, b: a & b, lambda a, b, _: a & b),
    "or": (lambda a, b: a | b, lambda a, b, _: a | b),
    "xor": (lambda a, b: a ^ b, lambda a, b, _: a ^ b),
    "shl": (lambda a, b: a << b, places(lambda a, b: a << b)),
    "shr": (lambda a, b: a >> b, places(lambda a, b: a >> b)),
    "lt": (lambda a, b: tir.Select(a < b, 1, 0), lambda a, b, _: a < b),
    "ge": (lambda a, b: tir.Select(a >= b, 1, 0), lambda a, b, _: a >= b),
    "eq": (lambda a, b: tir.Select(a.equal(b) if isinstance(a, tir.Value) else a.eq(b), 1, 0), lambda a, b, _: a == b),
}
# what is computed with a result: it shows whether the result has wrapped
AFTER: dict[str, tuple[Callable[[Any], Any], Callable[[int, str], int]]] = {
    "": (lambda x: x, lambda x, _: x),
    "halved": (lambda x: x >> 1, lambda x, _: x >> 1),
    "widened": (lambda x: x.astype("int64"), lambda x, _: wrapped(x, "int64")),
    "compared": (lambda x: tir.Select(x > 3, 1, 0), lambda x, _: int(x > 3)),
}


def promoted(a: str, b: str) -> str:
    """TVM's rule: the wider type, of two types of one width the unsigned one."""
    return max(a, b, key=lambda t: (dtypes.bits(t), t.startswith("u")))


def check(name: str, after: str, types: tuple[str, str], operands: list[tuple[int, int]]) -> None:
    formula, meaning = BINARY[name]
    follow, then = AFTER[after]
    common = promoted(*types)
    expected: list[int] = []
    defined: list[tuple[int, int]] = []
    undefined: list[tuple[int, int]] = []
    for a, b in operands:
        exact = meaning(wrapped(a, common), wrapped(b, common) if name not in ("shl", "shr") else b, common)
        (undefined if exact is None else defined).append((a, b))
        if exact is not None:
            is_truth = isinstance(exact, bool)
            result = int(exact) if is_truth else wrapped(exact, common)
            expected.append(then(result, common))
    f, dtype = nest(formula, follow, types, len(defined))
    want = [wrapped(x, dtype) for x in expected]
    arrays = {"A": np.array([a for a, _ in defined], types[0]), "B": np.array([b for _, b in defined], types[1])}
    for backend in ("python", "c"):
        got = run(f, arrays, backend=backend)["C"].tolist()
        wrong = [(*pair, x, y) for pair, x, y in zip(defined, got, want, strict=True) if x != y]
        assert not wrong, (name, after, types, backend, wrong[:5], str(f))
    f, _ = nest(formula, follow, types, 1)
    for a, b in undefined[:: max(1, len(undefined) // 4)]:
        for backend in ("python", "c"):
            with pytest.raises(UndefinedError):
                run(f, {"A": np.array([a], types[0]), "B": np.array([b], types[1])}, backend=backend)


def nest(formula: Any, follow: Any, types: tuple[str, str], n: int) -> tuple[Any, str]:
    A, B = (te.placeholder((n,), types[k], name="AB"[k]) for k in range(2))
    C = te.compute((n,), lambda i: follow(formula(A[i], B[i])), name="C")
    return lower(te.create_schedule(C.op), [A, B, C]), C.dtype


def test_operations_on_integers() -> None:
    """A slice of the exhaustive sweeps below: every operation, at edges, of bytes and of two wider types."""
    every = [*itertools.product(BYTES, BYTES), *itertools.pairwise(INTEGERS)]
    for k, name in enumerate(BINARY):
        types = every[k * 3 % len(every)]
        check(name, list(AFTER)[k % 4], types, list(itertools.product(EDGES[types[0]], EDGES[types[1]])))


@pytest.mark.nightly
@pytest.mark.parametrize("name", BINARY)
def test_operations_on_all_bytes(name: str) -> None:
    for after, types in itertools.product(AFTER, itertools.product(BYTES, BYTES)):
        every = itertools.product(*(range(dtypes.int_range(t)[0], dtypes.int_range(t)[1] + 1) for t in types))
        check(name, after, types, list(every))


@pytest.mark.nightly
@pytest.mark.parametrize("name", BINARY)
def test_operations_on_wide_integers(name: str) -> None:
    rng = np.random.default_rng(5)
    for after, types in itertools.product(AFTER, itertools.product(EDGES, EDGES)):
        pairs = list(itertools.product(EDGES[types[0]], EDGES[types[1]]))
        drawn = [[int(x) for x in rng.integers(*dtypes.int_range(t), 60, dtype=t, endpoint=True)] for t in types]
        check(name, after, types, [*pairs, *zip(*drawn, strict=True)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
def test_a_python_number_is_int32_or_takes_the_type_of_the_bits_it_meets(dtype: str) -> None:
    """`A_uint8[i] - 128` is int32, as in TVM; of bit operations and shifts the value gives the type."""
    numbers = (-300, -128, -1, 1, 3, 7, 127, 128, 300)
    column = EDGES[dtype]
    A = te.placeholder((len(column),), dtype, name="A")
    formulas: list[Callable[[Any], Any]] = []  # of one kernel
    wanted: list[tuple[str, int, list[int]]] = []
    for name, (formula, meaning) in BINARY.items():
        is_of_bits = name in ("and", "or", "xor", "shl", "shr")
        for number in numbers:
            common = dtype if is_of_bits and dtypes.holds(dtype, number) else promoted(dtype, "int32")
            second = number if name in ("shl", "shr") else wrapped(number, common)
            exact = [meaning(wrapped(a, common), second, common) for a in column]
            if None not in exact:
                is_truth = isinstance(exact[0], bool)
                expected = [int(x) if is_truth else wrapped(x, common) for x in exact if x is not None]
                formulas.append(lambda x, f=formula, k=number: f(x, k))  # type: ignore[misc]
                wanted.append((name, number, expected))
    C = te.compute(A.shape, lambda i: tuple(f(A[i]) for f in formulas), name="C")
    f = lower(te.create_schedule(C[0].op), [A, *C])
    for backend in ("python", "c"):
        got = run(f, {"A": np.array(column, dtype)}, backend=backend)
        for out, (name, number, expected) in zip(C, wanted, strict=True):
            assert got[out.name].tolist() == expected, (name, dtype, number, backend)


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_float_becomes_an_integer_that_its_type_holds(source: str, dtype: str) -> None:
    low, high = dtypes.int_range(dtype)
    x = te.placeholder((1,), source, name="X")
    out = te.compute((1,), lambda i: x[i].astype(dtype), name="out")
    f = lower(te.create_schedule(out.op))
    for exact in (
        low - 1, low - 0.5, low, -1, -0.75, 0.75, high / 2, high, high + 0.5, high + 1, np.nan, np.inf, -np.inf,
    ):  # fmt: skip
        value = np.dtype(source).type(exact)
        is_held = bool(np.isfinite(value)) and low <= int(value) <= high
        for backend in ("python", "c"):
            if is_held:
                assert int(run(f, {"X": np.array([value])}, backend=backend)["out"][0]) == int(value)
            else:
                with pytest.raises(UndefinedError):
                    run(f, {"X": np.array([value])}, backend=backend)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_the_least_integer_by_minus_one(dtype: str) -> None:
    """C traps or leaves the quotient undefined, and may trap at the remainder, which is 0."""
    least = dtypes.int_range(dtype)[0]
    a, b = (te.placeholder((1,), name=name, dtype=dtype) for name in "AB")
    for of in (lambda i: b[i], lambda _: tir.const(-1, dtype)):
        for op in (tir.floordiv, tir.truncdiv, te.ceildiv, tir.floormod, tir.truncmod):
            c = te.compute((1,), lambda i, op=op, of=of: op(a[i], of(i)), name="C")
            f = lower(te.create_schedule(c.op), [a, b, c])
            for backend in ("python", "c"):
                given = {"A": np.array([least], dtype), "B": np.array([-1], dtype)}
                if op in (tir.floormod, tir.truncmod):
                    assert run(f, given, backend=backend)["C"].tolist() == [0]
                else:
                    with pytest.raises(UndefinedError):
                        run(f, given, backend=backend)


def test_an_accumulator_keeps_its_type() -> None:
    a = np.array([2, 174, 9, 250], "uint8")
    A = te.placeholder((4,), "uint8", name="A")
    outs, expected = [], {}
    for name, combine, reference in (("least", te.min, np.min), ("most", te.max, np.max)):
        for k, (of, typed) in enumerate(((lambda x: -x, -a), (lambda x: x << 1, a << 1), (lambda x: -x >> 1, -a >> 1))):
            axis = te.reduce_axis((0, 4), "k")
            outs.append(te.compute((1,), lambda _, f=combine, g=of, r=axis: f(g(A[r]), axis=r), name=f"{name}{k}"))
            expected[f"{name}{k}"] = np.array([reference(typed)], "uint8")
    f = lower(te.create_schedule([t.op for t in outs]), [A, *outs])
    for found in (run(f, {"A": a}), run_sanitized(f, to_c(f), {"A": a}, expected, {}, "gcc")):
        assert all(found[name].dtype == "uint8" and found[name] == wanted for name, wanted in expected.items())
