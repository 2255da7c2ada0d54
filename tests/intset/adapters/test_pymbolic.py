"""pymbolic's expressions, both ways: drawn expressions and texts beside pymbolic's own evaluation."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from intset import Opaque, Var, evaluate
from tests.intset.adapters.documented import check_examples
from tests.strategies.contexts import Expressions, value
from tests.strategies.refusals import refused

pymbolic = pytest.importorskip("pymbolic")
import pymbolic.primitives as p  # noqa: E402

from intset.adapters import pymbolic as adapter  # noqa: E402
from intset.adapters.pymbolic import exporter, from_pymbolic, importer, to_pymbolic  # noqa: E402

i, j, n = Var("i"), Var("j"), Var("n")


@pytest.mark.parametrize("seed", range(60))
def test_drawn_expressions_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    drawn = Expressions(
        rng, (i, j), "sums products quotients divisors choices claims bits casts", sizes=(n,), shared=40
    )
    for root in (drawn.integer(4), drawn.condition(3)):
        term = to_pymbolic(root)
        back = from_pymbolic(term, {"i": i, "j": j, "n": n})
        for _ in range(6):
            point = {v: rng.randint(-9, 9) for v in (i, j, n)}
            expected = value(root, point)
            if expected is not None:
                assert pymbolic.evaluate(term, {v.name: k for v, k in point.items()}) == expected
                assert evaluate(back, point) == expected


TEXTS = [
    "i // 3 + j % 4 - (i - j) // (-5)", "min(i, j, 3) * max(i, -j) + abs(i - j)", "i**3 - 2 * j**2",
    "(i << 2) + (j >> 1) + (i & 7) - (j | 4) + (i ^ j) + ~i", "i + 1 if i < j else a[i] - a[j - i] * 2",
    "i < j and not j == 3 or i >= 2", "i <= j and i != -2 and i > -5",
    "(i // 2 if i % 2 == 0 else 3 * i + 1) * (i > j)", "(i > 0 and j > 0) if i > j else (i < 0)", "True",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text: str) -> None:
    term = pymbolic.parse(text)
    there = importer({"i": i, "j": j})
    e: Any = there(term)
    again = exporter()(e)
    array: dict[Any, int] = {k: (k * 7) % 5 for k in range(-30, 30)}
    array |= {(k,): v for k, v in array.items()}  # pymbolic indexes by one-element tuples
    for a, b in itertools.product(range(-6, 7), repeat=2):
        names = {"i": a, "j": b, "a": array}
        names |= {"min": min, "max": max, "abs": abs}
        point: dict[Any, Any] = {i: a, j: b}
        point |= dict.fromkeys(symbols(e), array.__getitem__)
        assert pymbolic.evaluate(term, names) == evaluate(e, point) == pymbolic.evaluate(again, names)


def symbols(e: Any) -> set[Opaque]:
    from intset.expr.dag import postorder

    return {node.data for node in postorder((e,)) if isinstance(node.data, Opaque)}


def test_names() -> None:
    outer = Var("i.outer")
    assert str(to_pymbolic(outer + i, {outer: "i_outer"})) == "i_outer + i"
    e = from_pymbolic(pymbolic.parse("q*2 + q"))
    assert [v.name for v in e.free_vars()] == ["q"]
    assert str(from_pymbolic(pymbolic.parse("q + r"), {"q": i * 2, "r": i * 2})) == "i * 2 + i * 2"


REFUSED: dict[str, Callable[[], object]] = {
    "a fraction": lambda: from_pymbolic(pymbolic.parse("i / 2")),
    "a float": lambda: from_pymbolic(pymbolic.parse("i + 1.5")),
    "a function": lambda: from_pymbolic(pymbolic.parse("sin(i)")),
    "an attribute": lambda: from_pymbolic(pymbolic.parse("i.x")),
    "an element of an expression": lambda: from_pymbolic(pymbolic.parse("f(i)[j]")),
    "a text": lambda: from_pymbolic("i + 1"),  # type: ignore[arg-type]
    "an open power": lambda: from_pymbolic(pymbolic.parse("i**j")),
    "abs of two": lambda: from_pymbolic(pymbolic.parse("abs(i, j)")),
    "two variables of a name": lambda: to_pymbolic(i + Var("i")),
    "two symbols of a name": lambda: to_pymbolic(Opaque("T", 1)(i) + Opaque("T", 1)(i)),
    "a symbol and a variable of a name": lambda: to_pymbolic(Opaque("i", 0)() + i),
    "a minimum of nothing": lambda: from_pymbolic(p.Min(())),
    "a wildcard": lambda: from_pymbolic(p.DotWildcard("x")),
    "a number for a variable": lambda: from_pymbolic(p.Variable("i"), {"i": 3}),  # type: ignore[dict-item]
    "a term for a name": lambda: from_pymbolic(p.Variable("i"), {p.Variable("i"): i}),  # type: ignore[dict-item]
    "a number for a name": lambda: to_pymbolic(i, {i: 3}),  # type: ignore[dict-item]
}

test_what_has_no_counterpart_is_refused = refused(REFUSED)


def test_the_examples_of_the_documentation() -> None:
    check_examples(adapter)
