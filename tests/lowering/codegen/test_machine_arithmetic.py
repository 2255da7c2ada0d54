"""Operations on values have their type's arithmetic in both backends: numpy's, after TVM's promotion."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import dtypes, te, tir
from intset import UndefinedError
from lowering import lower, run

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


def test_operations_on_bytes() -> None:
    """A slice of the exhaustive sweep below: every operation, at edges."""
    for k, (name, types) in enumerate(itertools.product(BINARY, itertools.product(BYTES, BYTES))):
        if k % 4 == 0:
            check(name, list(AFTER)[k // 4 % 4], types, list(itertools.product(EDGES[types[0]], EDGES[types[1]])))


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
