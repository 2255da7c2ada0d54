"""Values of every machine type: the interpreter, compiled C and numpy give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import dtypes, te, tir
from bound.reference import evaluate
from intset.errors import InputError, UndefinedError
from lowering import lower, parse_nest, run
from lowering.padding.applied import number_of
from tests.lowering.random_values import LENGTH, Values

FORMULAS = 16
NARROW_AND_WIDE = ("float32", "float64")


def equal(actual: Any, expected: Any) -> bool:
    """Whether two arrays hold the same bits, but for which bits say that something is no number."""
    if actual.dtype.kind != "f":
        return bool(np.array_equal(actual, expected))
    signs = np.isnan(actual) | (np.signbit(actual) == np.signbit(expected))
    return bool(np.array_equal(actual, expected, equal_nan=True) and signs.all())


def agree(seed: int, floats: tuple[str, ...]) -> int:
    """Compare random formulas; gives how many elements were compared."""
    values = Values(seed, floats)
    outs = te.compute((LENGTH,), lambda i: tuple(values.formula(i, 1 + k % 4) for k in range(FORMULAS)), name="out")
    f = lower(te.create_schedule(outs[0].op), [*values.tensors.values(), *outs])
    given = values.data()
    expected = evaluate(list(outs), given)
    backends = ("python",) if "float16" in floats else ("python", "c")  # C99 has no float16
    for backend in backends:
        found = run(f, dict(given), backend=backend)
        for out, wanted in zip(outs, expected, strict=True):
            assert equal(found[out.name], wanted), (seed, backend, out.op.body[out.value_index], given)
    return FORMULAS * LENGTH * len(backends)


@pytest.mark.parametrize("seed", range(3))
def test_random_values_are_those_of_numpy_in_both_backends(seed: int) -> None:
    assert agree(seed, NARROW_AND_WIDE) == 2 * FORMULAS * LENGTH


@pytest.mark.parametrize("seed", range(3))
def test_random_values_with_halves_are_those_of_numpy(seed: int) -> None:
    assert agree(seed, ("float16", *NARROW_AND_WIDE)) == FORMULAS * LENGTH


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 300))
def test_more_random_values(seed: int) -> None:
    agree(seed, NARROW_AND_WIDE)
    agree(-seed, ("float16", *NARROW_AND_WIDE))


def ran(text: str, **arrays: Any) -> dict[str, list[Any]]:
    """What both backends give, where it is the same; the interpreter alone for halves."""
    f = parse_nest(text)
    both = []
    for backend in ("python",) if "float16" in text else ("python", "c"):
        result = run(f, {name: array.copy() for name, array in arrays.items()}, backend=backend)
        both.append({name: array.tolist() for name, array in result.items()})
    assert both[0] == both[-1]
    return both[0]


def test_a_half_is_widened_before_it_is_multiplied() -> None:
    found = ran(
        """
def f(A: float16[2], B: float32[2], C: float64[2]):
    for i in [0, 2):
        B[i] = float32(A[i]) * 1000.0
        C[i] = float64(A[i]) / 3.0
""",
        A=np.array([1000, 1], np.float16),
    )
    assert found == {"B": [1e6, 1e3], "C": [1000 / 3, 1 / 3]}


def test_every_sum_of_singles_is_rounded() -> None:
    found = ran(
        """
def f(A: float32[3], B: float32[3], C: float32[3], D: float64[3]):
    for i in [0, 3):
        B[i] = A[i] + 16777216.0 - 16777216.0
        x = A[i] * 0.1
        C[i] = x / 0.1
        D[i] = float64(x) - float64(float32(0.1))
""",
        A=np.array([1, 2, 3], np.float32),
    )
    one, tenth = np.array([1, 2, 3], np.float32), np.float32(0.1)
    assert found["B"] == [0.0, 2.0, 4.0]
    assert found["C"] == (one * tenth / tenth).tolist()
    assert found["D"] == ((one * tenth).astype(float) - float(tenth)).tolist()


def test_a_constant_is_a_number_of_its_type() -> None:
    assert tir.const(0.1, "float32").data == float(np.float32(0.1))
    assert repr(tir.const(0.1, "float32")) == "0.1"
    assert tir.const(1e39, "float32").data == np.inf
    large = (1 << 60) + (1 << 36) + 1  # rounded to a double first, it would lie between two singles
    assert tir.const(large, "float32").data == float(np.array(large).astype(np.float32))
    assert number_of(tir.const(0.1, "float32").astype("float64"), {}, "float64") == float(np.float32(0.1))


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


def test_an_integer_is_rounded_once() -> None:
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


def test_integers_without_a_sign_become_floats_and_come_back() -> None:
    given = np.array([2**64 - 1 - 2**30, 2**63 + 3, 7], np.uint64)
    found = ran(
        """
def f(A: uint64[3], B: float32[3], D: uint64[3]):
    for i in [0, 3):
        B[i] = float32(A[i])
        D[i] = uint64(float64(A[i]))
""",
        A=given,
    )
    assert found == {"B": given.astype(np.float32).tolist(), "D": given.astype(float).astype(np.uint64).tolist()}


def test_a_name_for_data_has_all_of_its_bits() -> None:
    given = np.array([2**40, -5, 2**62, -(2**63)])
    found = ran(
        """
def f(A: int64[4], B: int64[4], C: int64[4]):
    for i in [0, 4):
        x = A[i]
        B[i] = max(x, 3) // 2
        C[i] = (x + x) // 3 + abs(x) // -1
""",
        A=given,
    )
    with np.errstate(over="ignore"):
        assert found["B"] == (np.maximum(given, 3) // 2).tolist()
        assert found["C"] == ((given + given) // 3 + np.abs(given) // -1).tolist()


def test_shifts_by_more_places_than_a_number_has() -> None:
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


def test_what_64_bits_do_not_hold_is_no_integer() -> None:
    f = parse_nest("def f(A: float64[1], B: int32[1]):\n    B[0] = int32(A[0])")
    for value in (2.0**64, -(2.0**70)):
        with pytest.raises(UndefinedError, match="has an integer part that 64 bits do not hold"):
            run(f, {"A": np.array([value])})


def test_a_scalar_is_a_number_of_its_type() -> None:
    f = parse_nest("def f(s: float32, B: float64[1]):\n    B[0] = float64(s)")
    for backend in ("python", "c"):
        assert run(f, {}, {"s": 0.1}, backend=backend)["B"][0] == float(np.float32(0.1))
    with pytest.raises(InputError, match="the scalar s has the type float32: 'x' is no such number"):
        run(f, {}, {"s": "x"})


def test_a_function_of_the_host_gives_a_number_of_its_type() -> None:
    f = parse_nest("def f(A: float32[1], B: float64[1]):\n    B[0] = float64(float32.third(A[0]) * 3.0)")
    found = run(f, {"A": np.ones(1, np.float32)}, functions={"third": lambda x: np.float64(x) / 3})
    assert found["B"][0] == float(np.float32(1) / np.float32(3) * np.float32(3))


def test_sums_of_singles_are_rounded_in_reductions() -> None:
    A = te.placeholder((64,), "float32", name="A")
    k = te.reduce_axis((0, 64), "k")
    out = te.compute((1,), lambda i: te.sum(A[k] * A[k] + 1e8 - 1e8, axis=k), name="out")
    f = lower(te.create_schedule(out.op))
    given = np.linspace(0, 9, 64, dtype=np.float32)
    total = np.float32(0)
    for x in given:
        total += x * x + np.float32(1e8) - np.float32(1e8)
    for backend in ("python", "c"):
        assert run(f, {"A": given}, backend=backend)["out"][0] == total
