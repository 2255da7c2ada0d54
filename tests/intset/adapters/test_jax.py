"""JAX's symbolic dimensions, both ways; comparisons and bounds beside its own, and beside every small size."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from intset import InputError, ShapeVar, Var, evaluate, select
from tests.intset.adapters.documented import check_examples
from tests.strategies.contexts import Expressions, value
from tests.strategies.refusals import refused

jax_export = pytest.importorskip("jax.export")
from jax._src.export import shape_poly  # noqa: E402

import intset.adapters.jax as adapter  # noqa: E402
from intset.adapters.jax import SymbolicDimensions, exporter, from_jax, importer, to_jax  # noqa: E402

SIZES = {"a": 9, "b": 9, "c": 5}
MEANING = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "max": max, "min": min}

# the kinds of functions whose shapes are polymorphic in JAX's tests, by the dimensions that they compute
DIMENSIONS = """
a | a + b | a - b | 2*a - 3 | -a + 4 | a*b | a*b - a | a*b*c | a^2 | a^3 - 2*a^2 + a | 3*a*b - 2*b*a + b
floordiv(a, 2) | floordiv(a, b) | floordiv(a + 1, 2) | floordiv(4*a + 2*b, 2) | floordiv(a - 3, 2) | floordiv(a*b, b)
floordiv(a*b, 2*b) | floordiv(-a, 2) | floordiv(a, -2) | floordiv(a + b - 1, b)*b | floordiv(floordiv(a, 2), 3)
floordiv(a - 1, 2) + 1 | floordiv(a + 2 - 3, 2) + 1 | floordiv(a + 2*b - 2, b + 1) | 2*floordiv(a, 2) + mod(a, 2)
mod(a, 2) | mod(a, b) | mod(-a, 3) | mod(a, -3) | mod(a + b, 3) - mod(a, 3) | a - mod(a, 4) | mod(4*a + 3, 2)
mod(mod(a, 6), 3) | mod(a*b, b + 1) | mod(2*a, 4) + mod(2*b, 4) | mod(a, 3)*mod(b, 3)
max(a, b) | max(a, 0) | max(a - 3, 0) | min(a, b) | min(a, 8) - 1 | max(a, b) - min(a, b) | max(a - b, b - a)
max(0, a - b) + min(a, b) - a | min(max(a, 2), 6) | max(floordiv(a, 2), 3) | max(a, max(b, c)) - a
max(0, floordiv(a + b - 4, 3)) | min(a*b, c) - c | a + max(b - a, 0) - b | mod(max(a, b), 2) | floordiv(min(a, 7), 2)
max(floordiv(a + 3, 4), 2*b) - b | a*max(b, 2) - a | 3*max(a, b) - 3*b | min(a, b)*c - a*c | max(1, mod(a, 3)) - 1
floordiv(a, 2) - floordiv(a + 1, 2) | floordiv(3*a, 2) - a | mod(a + 5, 4) - mod(a + 1, 4) | a*a - a
"""
CONSTRAINTS: list[tuple[str, ...]] = [
    (), ("a >= b",), ("mod(a, 2) == 0",), ("a <= 6", "b >= 3"), ("floordiv(a, b) == c",), ("a >= 2*b + 1", "b <= c"),
    ("mod(a, 4) == 0", "a >= b", "b >= 2"), ("a + b <= 10",), ("a*b >= 12",), ("max(a, b) >= 5", "min(a, b) <= 3"),
    ("a == 2*c",),
]  # fmt: skip


PRODUCTS = """
mod(a, 3)*mod(b, 3)*mod(c, 5) | mod(a, c)*mod(b, c)*mod(a, b) | mod(a, b)*mod(b, c) | c*mod(a, b)
2*a - b*floordiv(a, b) | floordiv(a + b - 1, b)*b - a | floordiv(a*c, b)*b | b*floordiv(a, b) + c | a*floordiv(b, c)*c
floordiv(a + c, b*c)*b*c | floordiv(a, b)*floordiv(b, c)*c | floordiv(a + b - 1, b)*floordiv(c + 3, 4)*b - 1
"""


def texts(lines: str = DIMENSIONS) -> list[str]:
    return [text.strip() for line in lines.strip().splitlines() for text in line.split("|")]


def computed(dimension: Any, at: dict[str, int]) -> int:
    """The value of a dimension, from its text."""
    return int(eval(str(dimension).replace("^", "**"), dict(MEANING), at))


def points(constraints: tuple[str, ...]) -> Iterator[dict[str, int]]:
    for numbers in itertools.product(*(range(1, last + 1) for last in SIZES.values())):
        at = dict(zip(SIZES, numbers, strict=True))
        if all(eval(part, dict(MEANING), at) for part in constraints):
            yield at


def scoped(constraints: tuple[str, ...], lines: str = DIMENSIONS) -> tuple[Any, list[Any]]:
    scope = jax_export.SymbolicScope(constraints)
    return scope, [jax_export.symbolic_shape(text, scope=scope)[0] for text in texts(lines)]


def test_dimensions_keep_their_values_both_ways() -> None:
    assert len(texts()) >= 50
    scope, dimensions = scoped(())
    there, back = importer(), exporter(scope)
    for text, dimension in zip(texts(), dimensions, strict=True):
        e = there(dimension)
        again = back(e)
        for at in points(()):
            expected = computed(text.replace("^", "**"), at)
            assert evaluate(e, {v: at[v.name] for v in e.free_vars()}) == computed(again, at) == expected, text


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_bounds_hold_and_are_never_looser_than_its_own(constraints: tuple[str, ...]) -> None:
    lines = DIMENSIONS.rstrip() + PRODUCTS
    scope, dimensions = scoped(constraints, lines)
    ours = SymbolicDimensions(scope)
    worlds = list(points(constraints))
    assert worlds
    for text, dimension in zip(texts(lines), dimensions, strict=True):
        low, high = ours.bounds(dimension)
        values = [computed(text.replace("^", "**"), at) for at in worlds]
        assert low <= min(values) and max(values) <= high, text
        first, last = shape_poly._bounds_decision(dimension, shape_poly.BoundsPrecision.BEST)
        assert low >= first and high <= last, (text, (low, high), (first, last))


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_comparisons_agree_and_decide_what_it_finds_inconclusive(constraints: tuple[str, ...]) -> None:
    scope, dimensions = scoped(constraints)
    ours = SymbolicDimensions(scope)
    worlds = list(points(constraints))
    drawn = random.Random(str(constraints))
    inconclusive = decided = 0
    for _ in range(40):
        k, m = drawn.sample(range(len(dimensions)), 2)
        first, second = dimensions[k], drawn.choice((dimensions[m], 0, 1, 2))
        text = texts()[m] if second is dimensions[m] else str(second)
        found = ours.holds(first, ">=", second)
        truths = {computed(texts()[k].replace("^", "**"), at) >= computed(text.replace("^", "**"), at) for at in worlds}
        assert found is None or truths == {found}, (texts()[k], text)
        try:
            theirs: bool | None = bool(first >= second)
        except shape_poly.InconclusiveDimensionOperation:
            theirs = None
        assert theirs is None or found is theirs, (texts()[k], text)
        inconclusive += theirs is None
        decided += theirs is None and found is not None
    assert decided * 10 >= inconclusive


def test_questions_that_it_leaves_open() -> None:
    a, b, c = jax_export.symbolic_shape("a, b, c", constraints=["a >= b", "mod(c, 8) == 0"])
    ours = SymbolicDimensions(a.scope)
    assert ours.holds(b, ">=", b % 3) is True
    assert ours.holds(a * c, ">=", b * c) is True
    assert ours.holds((a * c) % 8, "==", 0) is True
    assert ours.holds(a * b, "!=", a * b + (c % 4) + 1) is True
    assert ours.holds(a, "<", b) is False and ours.holds(a, "==", b) is None
    assert ours.holds(3, "<=", 2) is False
    assert ours.bounds(c) == (8, math.inf)
    assert ours.prove(c, ">", 8).counterexample == {ours.expr(c): 8, **dict.fromkeys((ours.expr(a), ours.expr(b)), 1)}
    assert ours.simplify((a * b + b) // b - 1) == a
    assert repr(ours) == f"<SymbolicDimensions under {len(ours.context.facts)} constraints>"


@pytest.mark.parametrize("seed", range(20))
def test_drawn_expressions_keep_their_values(seed: int) -> None:
    n, m = ShapeVar("n", 1), ShapeVar("m", 1)
    rng = random.Random(seed)
    e = Expressions(rng, (n, m), "sums products quotients", sizes=(), shared=40).integer(3)
    try:
        dimension = to_jax(e)
    except InputError:
        return
    again = from_jax(dimension, {"n": n, "m": m})
    for x, y in itertools.product(range(1, 6), repeat=2):
        expected = value(e, {n: x, m: y})
        if expected is not None:
            assert evaluate(again, {n: x, m: y}) == expected == computed(dimension, {"n": x, "m": y})


REFUSED: dict[str, Callable[[], object]] = {
    "a choice": lambda: to_jax(select(Var("i") > 0, 1, 2)),
    "a name": lambda: to_jax(Var("i.outer")),
    "two variables of a name": lambda: to_jax(Var("i") + Var("i")),
    "a text": lambda: from_jax("a"),  # type: ignore[arg-type]  # refused on purpose
    "a dimension of another scope": lambda: SymbolicDimensions().expr(jax_export.symbolic_shape("a")[0]),
    "two scopes in one converter": lambda: [*map(importer(), [jax_export.symbolic_shape("a")[0] for _ in "ab"])],
    "a number as a name": lambda: to_jax(Var("1") + 1),
    "a term as a name": lambda: to_jax(Var("2*a")),
    "a name in parentheses": lambda: to_jax(Var("(a)") - Var("a")),
    "a name with a space": lambda: to_jax(Var("a ")),
    "a truth value": lambda: from_jax(True),
    "a variable for a dimension": lambda: from_jax(jax_export.symbolic_shape("a")[0], {"a": "x"}),  # type: ignore[dict-item]
    "no scope": lambda: to_jax(Var("i"), "a"),  # type: ignore[arg-type]
    "no scope of dimensions": lambda: SymbolicDimensions("a"),  # type: ignore[arg-type]
    "a sign": lambda: SymbolicDimensions().holds(1, "=<", 2),
}  # fmt: skip

test_what_has_no_counterpart_is_refused = refused(REFUSED)


def test_examples() -> None:
    check_examples(adapter, "JAX")
