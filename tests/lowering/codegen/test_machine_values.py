"""Values of every machine type: the interpreter, compiled C, numpy and ml_dtypes give the same bits."""

import itertools
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import dtypes, te, tir
from bound.tensor import Tensor
from intset import InputError, UndefinedError
from lowering import lower, parse_nest, run, simplify, to_c
from lowering.padding.states import number_of
from tests.bound.reference import evaluate
from tests.compilers import compilers
from tests.lowering.equivalence import wrapped
from tests.lowering.lowered import BACKENDS, compile_c, elementwise, in_both, run_sanitized
from tests.strategies.written import Written
from tests.sweeps import daily

LENGTH = 8
INTEGERS = tuple(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))
SPECIAL = (0.0, -0.0, 1.0, -1.5, 2.5, -0.5, 0.1, 1 / 3, 2048.0, 2049.0, 16777216.0, 3e38, -3e38, 1e-40, 1e-7)
UNORDERED = (math.inf, -math.inf, math.nan)
INFIX = (operator.add, operator.sub, operator.mul)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
DIVISIONS = (tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod)
EXACT_CALLS = (tir.floor, tir.ceil, tir.trunc, tir.round, tir.nearbyint, tir.sqrt, tir.rsqrt)


def _with_sign(a: Any, b: Any) -> Any:
    """A number with the sign of another; machines disagree about the sign of NaN."""
    return tir.copysign(a, tir.Select(b == b + 0.0, b, tir.const(1.0, b.dtype)))


class Values:
    """Formulas at an index `i` over vectors of each type, with values at the ends of the types.

    Divisions by 0, shifts by the width and conversions of numbers that are too large do not occur.
    """

    def __init__(self, seed: int, floats: tuple[str, ...]) -> None:
        self.rng = random.Random(seed)
        self.floats = floats
        self.tensors: dict[str, Tensor] = {}

    def tensor(self, dtype: str) -> Tensor:
        if dtype not in self.tensors:
            self.tensors[dtype] = te.placeholder((LENGTH,), dtype, name=f"X_{dtype}")
        return self.tensors[dtype]

    def data(self) -> dict[str, Any]:
        """An array for each vector."""
        return {
            t.name: np.array([self._number(dtype) for _ in range(LENGTH)], dtype) for dtype, t in self.tensors.items()
        }

    def _number(self, dtype: str) -> Any:
        rng = self.rng
        if dtype == "bool":
            return rng.random() < 0.5
        if dtypes.is_float(dtype):
            return dtypes.rounded(rng.choice((*SPECIAL, *UNORDERED, rng.uniform(-9, 9))), dtype)
        low, high = dtypes.int_range(dtype)
        return rng.choice(
            (low, low + 1, high, high - 1, 0, 1, 5, rng.randint(low, high), rng.randint(max(low, -50), 50))
        )

    def float(self, i: Any, dtype: str, depth: int) -> Any:
        pick = self.rng.choice
        if depth <= 0:
            return tir.const(pick(SPECIAL), dtype) if self.rng.random() < 0.3 else self.tensor(dtype)[i]

        def inner() -> Any:
            return self.float(i, dtype, depth - 1)

        ways: list[Callable[[], Any]] = [
            *[lambda: pick(INFIX)(inner(), inner())] * 3,
            lambda: pick((operator.truediv, *DIVISIONS))(inner(), inner()),
            lambda: pick((te.min, te.max))(inner() + 0.0, inner() + 0.0),  # numpy returns -0.0 or 0.0 for either
            lambda: pick((operator.neg, abs, *EXACT_CALLS))(inner()),
            lambda: pick((_with_sign, tir.nextafter, tir.fmod))(inner(), inner()),
            lambda: self.float(i, pick(self.floats), depth - 1).astype(dtype),
            lambda: self.integer(i, depth - 1).astype(dtype),
            lambda: tir.Select(self.condition(i, depth - 1), inner(), inner()),
        ]
        return pick(ways)()

    def integer(self, i: Any, depth: int) -> Any:
        pick = self.rng.choice
        if depth <= 0:
            return i if self.rng.random() < 0.15 else self.tensor(pick(INTEGERS))[i]

        def inner() -> Any:
            return self.integer(i, depth - 1)

        ones = (operator.neg, abs, operator.invert, lambda a: a >> 2, lambda a: a << 3, tir.popcount)
        ways: list[Callable[[], Any]] = [
            *[lambda: pick(INFIX)(inner(), inner())] * 2,
            lambda: pick(DIVISIONS)(inner(), pick((3, -3, 7, 1, 2, -8))),
            lambda: pick((te.min, te.max))(inner(), inner()),
            lambda: pick(ones)(inner()),
            lambda: pick((operator.and_, operator.or_, operator.xor))(inner(), inner()),
            lambda: pick((operator.lshift, operator.rshift))(inner(), inner() & 7),
            lambda: inner().astype(pick(INTEGERS)),
            lambda: self.converted(i, depth - 1),
            lambda: tir.Select(self.condition(i, depth - 1), inner(), inner()),
        ]
        return pick(ways)()

    def converted(self, i: Any, depth: int) -> Any:
        """A float as an integer; 7 beyond the integer type."""
        dtype, target = self.rng.choice(self.floats), self.rng.choice(INTEGERS)
        x = self.float(i, dtype, depth)
        most = 1000.0 if dtypes.bits(target) > 8 else 128.0
        least = tir.const(-1.0 if target.startswith("u") else -most, dtype)
        return tir.Select(tir.all(x > least, x < most), x, tir.const(7.5, dtype)).astype(target)

    def condition(self, i: Any, depth: int) -> Any:
        pick = self.rng.choice
        if depth <= 0:
            return self.tensor("bool")[i]
        dtype, below = pick(self.floats), depth - 1
        ways: list[Callable[[], Any]] = [
            lambda: pick((tir.all, tir.any))(self.condition(i, below), self.condition(i, below)),
            lambda: pick(COMPARISONS)(self.float(i, dtype, below), self.float(i, dtype, below)),
            lambda: pick(COMPARISONS)(self.integer(i, below), self.integer(i, below)),
            lambda: self.tensor("bool")[i],
        ]
        return pick(ways)()

    def formula(self, i: Any, depth: int) -> Any:
        """A value of any type."""
        dtype = self.rng.choice((*self.floats, *INTEGERS))
        return self.float(i, dtype, depth) if dtypes.is_float(dtype) else self.integer(i, depth).astype(dtype)


FORMULAS = 16
NARROW_AND_WIDE = ("float32", "float64")


@pytest.fixture
def narrow_floats() -> None:
    pytest.importorskip("ml_dtypes", reason="the package ml_dtypes gives numpy bfloat16 and 8-bit floats")


def equal(actual: Any, expected: Any, zeros: bool = False) -> bool:
    """Compare arrays bitwise, but all NaNs are equal. `zeros`: so are both zeros, because numpy may give either."""
    if actual.dtype != expected.dtype or actual.dtype.kind in "biu":
        return bool(actual.dtype == expected.dtype and np.array_equal(actual, expected))
    with np.errstate(invalid="ignore"):
        a, b = actual.astype(float), expected.astype(float)
    signs = np.isnan(a) | (np.signbit(a) == np.signbit(b)) | zeros
    return bool(np.array_equal(a, b, equal_nan=True) and signs.all())


def agree(seed: int, floats: tuple[str, ...]) -> None:
    """Compare random formulas."""
    values = Values(seed, floats)
    outs = te.compute((LENGTH,), lambda i: tuple(values.formula(i, 1 + k % 4) for k in range(FORMULAS)), name="out")
    f = lower(te.create_schedule(outs[0].op), [*values.tensors.values(), *outs])
    given = values.data()
    expected = evaluate(list(outs), given)
    for backend in BACKENDS:
        found = run(f, dict(given), backend=backend)
        for out, wanted in zip(outs, expected, strict=True):
            assert equal(found[out.name], wanted), (seed, backend, out.op.body[out.value_index], given)


@pytest.mark.parametrize("floats", [NARROW_AND_WIDE, ("float16", *NARROW_AND_WIDE)], ids=len)
@pytest.mark.parametrize("seed", daily(range(1200), 600))  # at night 38,400 formulas
def test_random_values_are_those_of_numpy_in_both_backends(seed: int, floats: tuple[str, ...]) -> None:
    agree(seed, floats)


def ran(text: str, **arrays: Any) -> dict[str, list[Any]]:
    """Run both backends, assert equal results, and return them."""
    f = parse_nest(text)
    both = []
    for backend in BACKENDS:
        result = run(f, {name: array.copy() for name, array in arrays.items()}, backend=backend)
        both.append({name: array.tolist() for name, array in result.items()})
    assert both[0] == both[-1]
    return both[0]


ONE, TENTH = np.array([1, 2, 3], np.float32), np.float32(0.1)
LARGE, UNSIGNED = np.array([2**40, -5, 2**62, -(2**63)]), np.array([2**64 - 1 - 2**30, 2**63 + 3, 7], np.uint64)
NESTS: dict[str, tuple[str, str, Any, dict[str, Any]]] = {  # the head, a body, array A, expected other arrays
    "a half is widened before it is multiplied": (
        "A: float16[2], B: float32[2], C: float64[2]",
        "B[i] = float32(A[i]) * 1000.0\nC[i] = float64(A[i]) / 3.0",
        np.array([1000, 1], np.float16),
        {"B": [1e6, 1e3], "C": [1000 / 3, 1 / 3]},
    ),
    "every sum of singles is rounded": (
        "A: float32[3], B: float32[3], C: float32[3], D: float64[3]",
        (
            "B[i] = A[i] + 16777216.0 - 16777216.0\n"
            "x = A[i] * 0.1\nC[i] = x / 0.1\nD[i] = float64(x) - float64(float32(0.1))"
        ),
        ONE,
        {"B": [0.0, 2.0, 4.0], "C": ONE * TENTH / TENTH, "D": (ONE * TENTH).astype(float) - float(TENTH)},
    ),
    "integers without a sign become floats and come back": (
        "A: uint64[3], B: float32[3], D: uint64[3]",
        "B[i] = float32(A[i])\nD[i] = uint64(float64(A[i]))",
        UNSIGNED,
        {"B": UNSIGNED.astype(np.float32), "D": UNSIGNED.astype(float).astype(np.uint64)},
    ),
    "a name for data has all of its bits": (
        "A: int64[4], B: int64[4], C: int64[4]",
        "x = A[i]\nB[i] = max(x, 3) // 2\nC[i] = (x + x) // 3 + abs(x) // -1",
        LARGE,
        {"B": np.maximum(LARGE, 3) // 2, "C": (LARGE + LARGE) // 3 - np.abs(LARGE)},
    ),
}


@pytest.mark.parametrize("name", NESTS)
def test_a_nest_of_values(name: str) -> None:
    head, body, given, expected = NESTS[name]
    lines = [f"def f({head}):", f"    for i in [0, {len(given)}):", *(f"        {line}" for line in body.split("\n"))]
    assert ran("\n".join(lines), A=given) == {out: np.array(values).tolist() for out, values in expected.items()}


def first(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a)


OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {  # and numpy's operation, if numpy rounds as C does
    "+": (lambda a, b: a + b, np.add),
    "-": (lambda a, b: a - b, np.subtract),
    "*": (lambda a, b: a * b, np.multiply),
    "/": (lambda a, b: a / b, np.divide),
    "fma": (lambda a, b: a * b + a, lambda a, b: a * b + a),
    "max": (te.max, np.maximum),
    "min": (te.min, np.minimum),
    "sqrt": (first(te.sqrt), lambda a, b: np.sqrt(a)),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "nextafter": (tir.nextafter, np.nextafter),
    "rsqrt": (first(tir.rsqrt), None),
    "sigmoid": (first(tir.sigmoid), None),
    "1 / sqrt": (lambda a, b: 1 / tir.sqrt(a), None),
    "1 / (1 + exp)": (lambda a, b: 1 / (1 + tir.exp(-a)), None),
    "power": (tir.power, None),
    "fmod": (te.fmod, None),
    "atan2": (te.atan2, None),
    "isnan": (lambda a, b: tir.Select(te.isnan(a), b, a), lambda a, b: np.where(np.isnan(a), b, a)),
    **{name: (getattr(tir, name), None) for name in "floordiv floormod truncdiv truncmod".split()},
    **{
        name: (first(getattr(tir, name)), None)
        for name in "exp exp2 exp10 log log2 log10 tanh sin cos tan erf atan sinh cosh round trunc floor ceil".split()
    },
}
COMPOSED = {"rsqrt": "1 / sqrt", "sigmoid": "1 / (1 + exp)"}  # each step is rounded


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize(("bits", "plain"), daily([(800, 400), (3000, 3000)], 2))
def test_each_operation_gives_a_number_of_its_type(dtype: str, bits: int, plain: int) -> None:
    """Each result is rounded before a conversion to double; of so many of any bits and so many plain numbers."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 256, (bits, np.dtype(dtype).itemsize)).astype("uint8").view(dtype).reshape(bits)
    a = np.concatenate([drawn, rng.uniform(0.1, 3.0, plain).astype(dtype)])
    b = np.roll(a, 7)

    def values(i: Any, A: Any, B: Any) -> tuple[Any, ...]:
        made = [of(A[i], B[i]) for of, _ in OPERATIONS.values()]
        return (*made, *(x.astype("float64") for x in made))

    python, c = in_both(values, A=a, B=b)
    wide = python[len(OPERATIONS) :]
    for (name, (_, reference)), found, compiled, double in zip(OPERATIONS.items(), python, c, wide, strict=False):
        assert equal(double, found.astype(float), zeros=True), name
        assert dtype == "float32" or equal(found, compiled, zeros=True), name
        if reference is not None:
            with np.errstate(all="ignore"):
                assert equal(found, reference(a, b), zeros=True), name
    for name, steps in COMPOSED.items():
        assert equal(*(python[[*OPERATIONS].index(one)] for one in (name, steps)), zeros=True)


def test_constants_scalars_and_functions_give_numbers_of_their_types() -> None:
    assert tir.const(0.1, "float32").data == float(np.float32(0.1))
    assert repr(tir.const(0.1, "float32")) == "0.1"
    assert tir.const(1e39, "float32").data == np.inf
    large = (1 << 60) + (1 << 36) + 1  # rounded to a double first, it would lie between two singles
    assert tir.const(large, "float32").data == float(np.array(large).astype(np.float32))
    assert number_of(tir.const(0.1, "float32").astype("float64"), {}, "float64") == float(np.float32(0.1))

    def formulas(i: Any, A: Any) -> tuple[Any, ...]:
        byte = tir.const(100, "int8") * tir.const(2, "int8")
        below = tir.const(1, "uint32") - tir.const(2, "uint32")
        return (tir.const(9, "uint8") << 5).astype("float32"), byte + 0.5, below.astype("float64"), byte * te.exp(0.0)

    for found in in_both(formulas, A=np.zeros(1)):
        assert [value[0] for value in found] == [32.0, -55.5, 2.0**32 - 1, -56.0]
    f = parse_nest("def f(s: float32, B: float64[1]):\n    B[0] = float64(s)")
    for backend in BACKENDS:
        assert run(f, {}, {"s": 0.1}, backend=backend)["B"][0] == float(np.float32(0.1))
    with pytest.raises(InputError, match="the scalar s has the type float32: 'x' is no such number"):
        run(f, {}, {"s": "x"})
    f = parse_nest("def f(A: float32[1], B: float64[1]):\n    B[0] = float64(float32.third(A[0]) * 3.0)")
    found = run(f, {"A": np.ones(1, np.float32)}, functions={"third": lambda x: np.float64(x) / 3})
    assert found["B"][0] == float(np.float32(1) / np.float32(3) * np.float32(3))
    f = parse_nest("def f(A: float32[1], B: float64[1]):\n    B[0] = float64(float32.third(A[0]))")
    found = run(f, {"A": np.ones(1, np.float32)}, functions={"third": lambda x: np.float64(x) / 3})
    assert found["B"][0] == float(np.float32(1 / 3))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rounding_and_its_text_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(5)
    drawn = rng.standard_normal(3000) * 10.0 ** rng.integers(-50, 50, 3000)
    with np.errstate(over="ignore"):
        middles = (drawn.astype(dtype).astype(float) + np.nextafter(drawn.astype(dtype), np.inf).astype(float)) / 2
    count = 0
    for x in (*drawn, *middles[np.isfinite(middles)]):
        held = dtypes.rounded(float(x), dtype)
        text = dtypes.decimal(held, dtype)
        with np.errstate(over="ignore"):
            assert held == float(np.dtype(dtype).type(x))
            assert dtypes.rounded(float(text), dtype) == held == float(np.dtype(dtype).type(text))
        count += 1
    assert count > 4000


def test_an_accumulator_keeps_its_type_and_an_integer_is_rounded_once() -> None:
    rng = np.random.default_rng(6)
    shifts = rng.integers(25, 39, 2000)
    numbers = [
        int(m) << int(k) | 1 << int(k) - 1 | int(b)
        for m, k, b in zip(rng.integers(1 << 23, 1 << 24, 2000), shifts, rng.integers(0, 2, 2000), strict=True)
    ]
    for n in (*numbers, *(-n for n in numbers)):
        assert dtypes.rounded(n, "float32") == float(np.array(n, np.int64).astype(np.float32))
    given = np.array(numbers[:64], np.int64)
    found = ran("def f(A: int64[64], B: float32[64]):\n    for i in [0, 64):\n        B[i] = float32(A[i])", A=given)
    assert found["B"] == given.astype(np.float32).tolist()
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


def test_shifts_and_integers_are_decided_in_their_types() -> None:
    given, places = np.array([-(2**63), 2**63 - 1, -1, 5, -7, 1]), np.array([0, 1, 63, 64, 200, 33])
    text = """
def f(A: int64[6], S: int64[6], B: int64[6], C: int64[6]):
    for i in [0, 6):
        B[i] = (A[i] << S[i]) // 3
        C[i] = A[i] >> S[i]
"""
    found = ran(text, A=given, S=places)
    assert found["B"] == (np.left_shift(given, places) // 3).tolist()
    assert found["C"] == np.right_shift(given, places).tolist()
    with pytest.raises(UndefinedError, match="a shift by -1 places has no value"):
        run(parse_nest(text), {"A": given, "S": -places})
    f = parse_nest("def f(A: float64[1], B: int32[1]):\n    B[0] = int32(A[0])")
    for value in (2.0**64, -(2.0**70)):
        with pytest.raises(UndefinedError, match="has an integer part outside"):
            run(f, {"A": np.array([value])})
    # 16777217 rounds to the `float32` 16777216.
    f = parse_nest(DECIDED.format(dtype="float32", stored="16777216.0", comparison="==", number="float32(16777217)"))
    assert "B[0] = 2" not in str(simplify(f))
    for function in (f, simplify(f)):
        assert run(function, {"F": np.zeros(1, np.float32), "B": np.zeros(1, np.int32)})["B"].tolist() == [1]
    # A slice of the exhaustive sweeps below: every operation, at edges, of bytes and of two wider types.
    every = [*itertools.product(BYTES, BYTES), *itertools.pairwise(INTEGERS)]
    for k, name in enumerate(BINARY):
        types = every[k * 3 % len(every)]
        check(name, list(AFTER)[k % 4], types, list(itertools.product(EDGES[types[0]], EDGES[types[1]])))


DECIDED = """
def f(F: {dtype}[1], B: int32[1]):
    F[0] = {stored}
    if F[0] {comparison} {number}:
        B[0] = 1
    else:
        B[0] = 2
"""


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_comparison_with_a_stored_number_is_decided_in_its_type(dtype: str) -> None:
    """0.1 rounds to the nearest `float32`, as element and as constant."""
    rng = random.Random(dtype)
    cases = [("0.1", "==", "0.1"), ("0.1", "==", "0.10001"), ("0.1", "<", "0.1"), ("0.3", ">=", "0.30001")]
    for _ in range(20):
        x = rng.choice((0.1, 1 / 3, 2.7, -1e-3))
        number = x * (1 + rng.choice((0.0, 1e-9, 1e-5, -1e-5, 1e-3)))
        cases.append((repr(x), rng.choice(("==", "!=", "<", ">=")), repr(number)))
    answers = set()
    for stored, comparison, number in cases:
        f = parse_nest(DECIDED.format(dtype=dtype, stored=stored, comparison=comparison, number=number))
        kind = np.dtype(dtype).type
        wanted = 1 if eval(f"a {comparison} b", {"a": kind(float(stored)), "b": kind(float(number))}) else 2
        g = simplify(f)
        assert "if " not in str(g), (f, g)
        for function in (f, g):
            arrays = {"F": np.zeros(1, dtype), "B": np.zeros(1, np.int32)}
            assert run(function, arrays)["B"].tolist() == [wanted], (f, g)
        answers.add(wanted)
    assert answers == {1, 2}


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_an_index_below_0_is_converted_to_a_type_without_a_sign(dtype: str) -> None:
    def values(i: Any, A: Any) -> tuple[Any, ...]:
        below, inside = A[i] // 2 < tir.Select(i < 4, i - 3, 5), tir.Select(i < 4, i - 3, A[i])
        return tir.Select(A[i] >= i - 3, 1, 0), tir.Select(below, 1, 0), tir.min(A[i], i - 3), inside

    x = np.array([0, 1, 5, np.iinfo(dtype).max, 2**31, 7], dtype)
    i = np.arange(6)
    index = (i - 3).astype(dtype)
    expected = (x >= index, x // 2 < np.where(i < 4, index, 5), np.minimum(x, index), np.where(i < 4, index, x))
    for found in in_both(values, A=x):
        for values_of, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(values_of, wanted)


EQUALITIES: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "equal": lambda a, b: a.equal(b),
    "not equal": lambda a, b: ~a.equal(b),
}


@pytest.mark.parametrize("name", EQUALITIES)
def test_an_integer_equals_a_float_of_its_value(name: str) -> None:
    def values(i: Any, A: Any, B: Any) -> tuple[Any, ...]:
        pairs = ((A[i], 2.0), (A[i], B[i]), (B[i], A[i]), (i, B[i]))
        return tuple(tir.Select(EQUALITIES[name](*pair), 1, 0) for pair in pairs)

    x, y = np.array([0, 1, 2, 3, 2, 5], "int32"), np.array([0.0, 1.5, 2.0, 3.0, 2.5, 4.0], "float32")
    for found in in_both(values, A=x, B=y):
        for truths, wanted in zip(found, (x == 2, x == y, x == y, np.arange(6) == y), strict=True):
            np.testing.assert_array_equal(truths, wanted ^ (name in ("!=", "not equal")))


# -- floats of 8 and 16 bits ---------------------------------------------------------------------------------------


WARNINGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-c")
HALVES = ("float16", "bfloat16")


@pytest.mark.usefixtures("narrow_floats")
@pytest.mark.parametrize("target", dtypes.NARROW)
def test_every_bit_pattern_is_read_and_written_by_one_rounding(target: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.standard_normal(2000) * 2.0 ** rng.integers(-140, 130, 2000), [0.0, -0.0, np.inf, np.nan]])
    k = rng.integers(-(2**63), 2**63 - 1, len(x)) >> rng.integers(0, 60, len(x))
    expected = [np.array([dtypes.rounded(v, target) for v in given.tolist()]).astype(target) for given in (x, k)]
    for found in in_both(lambda i, X, K: (X[i].astype(target), K[i].astype(target)), X=x, K=k):
        assert all(map(equal, found, expected))
    bits = dtypes.bits(target)
    a = np.arange(1 << bits, dtype=f"uint{bits}").view(target)
    text = f"""
def f(A: {target}[{len(a)}], B: float32[{len(a)}], C: {target}[{len(a)}]):
    for i in [0, {len(a)}):
        B[i] = float32(A[i])
        C[i] = {target}(float32(A[i]))
"""
    for backend in BACKENDS:
        found = run(parse_nest(text), {"A": a}, backend=backend)
        assert equal(found["B"], a.astype("float32")) and equal(found["C"], a)


@pytest.mark.usefixtures("narrow_floats")
def test_nothing_is_computed_in_types_of_storage() -> None:
    A = te.placeholder((3,), "float8_e5m2", name="A")
    with pytest.raises(InputError, match="nothing is computed in float8_e5m2"):
        te.compute((3,), lambda i: A[i] + A[i])
    given = np.array([1.5, -3.0, 1e-5]).astype("float8_e5m2")
    for (found,) in in_both(lambda i, A: (A[i].astype("float16") * 2.0).astype("float8_e5m2"), A=given):
        assert equal(found, (given.astype("float16") * 2).astype("float8_e5m2"))


@pytest.mark.usefixtures("narrow_floats")
@pytest.mark.parametrize("dtype", HALVES)
def test_a_softmax_is_that_of_its_type(dtype: str) -> None:
    f = lower(
        Written(f"""
        X = given(64, dtype="{dtype}"); k = axis(0, 64); m = axis(0, 64)
        TOP[_:1] = max_(X[m], axis=m)
        GROWN[i:64] = te.exp(X[i] - TOP[0])
        TOTAL[_:1] = sum_(GROWN[k], axis=k)
        S[i:64] = GROWN[i] / TOTAL[0]""").s
    )
    x = (np.random.default_rng(6).standard_normal(64) * 3).astype(dtype)
    exps = np.exp(x - x.max())
    sum_of = x.dtype.type(0)
    for e in exps:
        sum_of = x.dtype.type(sum_of + e)
    for backend in BACKENDS:
        assert equal(run(f, {"X": x}, backend=backend)["S"], exps / sum_of)
    for compiler in compilers():
        compile_c(to_c(f), compiler, WARNINGS)


# -- integers over the whole range of their types ------------------------------------------------------------------


BYTES = ("int8", "uint8")


def edges(dtype: str) -> list[int]:
    low, high = dtypes.int_range(dtype)
    near = (low, low + 1, -3, -1, 0, 1, 2, 7, 9, 31, high // 2, high // 2 + 1, high - 1, high)
    return [x for x in near if low <= x <= high]


EDGES = {dtype: edges(dtype) for dtype in INTEGERS}


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

    def value(i: Any, A: Any, B: Any) -> Any:
        return follow(formula(A[i], B[i]))

    def arrays(pairs: list[tuple[int, int]]) -> dict[str, Any]:
        return {key: np.array([pair[k] for pair in pairs], types[k]) for k, key in enumerate("AB")}

    for (got,) in in_both(value, **arrays(defined)):
        want = [wrapped(x, str(got.dtype)) for x in expected]
        wrong = [(*pair, x, y) for pair, x, y in zip(defined, got.tolist(), want, strict=True) if x != y]
        assert not wrong, (name, after, types, wrong[:5])
    if undefined:
        has_no_value(value, *(arrays([pair]) for pair in undefined[:: max(1, len(undefined) // 4)]))


def has_no_value(formula: Callable[..., Any], *cases: dict[str, Any]) -> None:
    """Fail unless both backends report, for each of these arrays, an element without a value."""
    f, _ = elementwise(formula, cases[0])
    for backend, arrays in itertools.product(BACKENDS, cases):
        with pytest.raises(UndefinedError):
            run(f, arrays, backend=backend)


@pytest.mark.nightly
@pytest.mark.parametrize("name", BINARY)
def test_operations_on_all_bytes_and_wide_integers(name: str) -> None:
    for after, types in itertools.product(AFTER, itertools.product(BYTES, BYTES)):
        every = itertools.product(*(range(dtypes.int_range(t)[0], dtypes.int_range(t)[1] + 1) for t in types))
        check(name, after, types, list(every))
    rng = np.random.default_rng(5)
    for after, types in itertools.product(AFTER, itertools.product(EDGES, EDGES)):
        pairs = list(itertools.product(EDGES[types[0]], EDGES[types[1]]))
        drawn = [[int(x) for x in rng.integers(*dtypes.int_range(t), 60, dtype=t, endpoint=True)] for t in types]
        check(name, after, types, [*pairs, *zip(*drawn, strict=True)])


@pytest.mark.parametrize("dtype", daily(["uint8", "uint32", "int64", "int8"], 2))
def test_a_python_number_is_int32_or_takes_the_type_of_the_bits_it_meets(dtype: str) -> None:
    """`A_uint8[i] - 128` is int32, as in TVM; of bit operations and shifts the value gives the type."""
    numbers = (-300, -128, -1, 1, 3, 7, 127, 128, 300)
    column = EDGES[dtype]
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
    for found in in_both(lambda i, A: tuple(f(A[i]) for f in formulas), A=np.array(column, dtype)):
        for got, (name, number, expected) in zip(found, wanted, strict=True):
            assert got.tolist() == expected, (name, dtype, number)


@pytest.mark.parametrize("source", daily(["float64", "float32"], 2))
def test_a_float_becomes_an_integer_that_its_type_holds(source: str) -> None:
    columns = {}
    for dtype in INTEGERS:
        low, high = dtypes.int_range(dtype)
        exact = [low - 1, low - 0.5, low, -1, -0.75, 0.75, high / 2, high, high + 0.5, high + 1, *UNORDERED]
        values = [np.dtype(source).type(x) for x in exact]
        held = [x for x in values if np.isfinite(x) and low <= int(x) <= high]
        columns[dtype] = np.resize(held, len(exact))
        has_no_value(lambda i, X, t=dtype: X[i].astype(t), *({"X": np.array([x])} for x in values if x not in held))
    together = {f"X_{dtype}": column for dtype, column in columns.items()}
    for found in in_both(lambda i, *X: tuple(x[i].astype(t) for x, t in zip(X, columns, strict=True)), **together):
        assert [column.tolist() for column in found] == [[*map(int, column)] for column in columns.values()]


@pytest.mark.parametrize("dtype", daily(["int64", "int32", "int8"], 2))
def test_the_least_integer_by_minus_one(dtype: str) -> None:
    """C traps or leaves the quotient undefined, and may trap at the remainder, which is 0."""
    given = {"A": np.array([dtypes.int_range(dtype)[0]], dtype), "B": np.array([-1], dtype)}
    divisors = (lambda b: b, lambda b: tir.const(-1, dtype))
    for of, divide in itertools.product(divisors, (tir.floordiv, tir.truncdiv, te.ceildiv)):
        has_no_value(lambda i, A, B, of=of, divide=divide: divide(A[i], of(B[i])), given)
    rests = [*itertools.product(divisors, (tir.floormod, tir.truncmod))]
    for found in in_both(lambda i, A, B: tuple(rest(A[i], of(B[i])) for of, rest in rests), **given):
        assert [rest.tolist() for rest in found] == [[0]] * 4
