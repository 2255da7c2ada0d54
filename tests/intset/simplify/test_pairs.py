"""Pairs that a reader would write, from the kinds that compilers' own simplifier tests are made of."""

from __future__ import annotations

from typing import Any

import pytest

import intset
from intset import Context, Var, const
from intset.expr.node import truth
from intset.simplify import Pricing
from tests import ROOT
from tests.sweeps import daily

ROWS = [
    row
    for row in (ROOT / "benchmarks" / "data" / "simplifier_pairs.txt").read_text(encoding="utf-8").splitlines()
    if row and not row.startswith("#")
]


def pair(row: str) -> tuple[Any, Any, list[Any]]:
    """(expression, a form that a reader would write, facts)."""
    names: dict[str, Any] = {name: getattr(intset, name) for name in intset.__all__}
    names |= {v: Var(v) for v in "xyzwumn"} | {"true": truth(True), "false": truth(False)}
    e, expected, *facts = (eval(part, names) for part in row.split(";"))
    given = facts[0] if facts else ()
    return (
        e,
        const(expected) if isinstance(expected, int) else expected,
        list(given) if isinstance(given, tuple) else [given],
    )


def operations(e: Any) -> int:
    return Pricing().price(e)[1]


def test_there_are_hundreds() -> None:
    assert len(ROWS) > 2_000


@pytest.mark.parametrize("row", daily(ROWS, 6))
def test_no_longer_than_a_reader_would_write(row: str) -> None:
    e, expected, facts = pair(row)
    ctx = Context(assume=facts)
    new = ctx.simplify(e)
    assert operations(new) <= min(operations(e), operations(expected))
    assert ctx.simplify(new) is new


@pytest.mark.parametrize("row", daily(ROWS, 40))
def test_every_step_is_proved(row: str) -> None:
    e, _, facts = pair(row)
    ctx = Context(assume=facts)
    why = ctx.simplify(e, steps=True)
    assert why.expr is ctx.simplify(e)
    assert bool(why.steps) is (why.expr is not e)
    for step in why.steps:
        assert step.proof and step.proof.certificate().check()
        assert step.before is not step.after


def test_a_step_names_its_divisor() -> None:
    x, y = Var("x"), Var("y")
    why = Context().simplify((x * y) // y, steps=True)
    assert why.expr is x
    assert why.requires == (y.ne(0),)


@pytest.mark.parametrize("row", ["(x*y + z)%y", "(x*z)%(y*z)", "truncmod(x*z, y*z)", "(x*y + x*z)//(y + z)"])
def test_steps_through_symbolic_remainders(row: str) -> None:
    e, _, _ = pair(f"{row} ; 0")
    why = Context().simplify(e, steps=True)
    assert why.expr is Context().simplify(e) is not e
    for step in why.steps:
        assert step.proof and step.proof.certificate().check()
