"""Sample points satisfy all assumptions, so they refute no true order."""

from __future__ import annotations

import random

import pytest

from intset import Context, Range, ShapeVar, Var
from intset.linear.form import constant
from intset.simplify.samples import SamplePoints
from tests.intset.simplify.expressions import Maker, random_case
from tests.sweeps import daily


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(3_000), 40))
def test_what_is_known_is_not_refuted(seed: int) -> None:
    r = random.Random(seed)
    case = random_case(r)
    known = Context(case.ranges, assume=case.facts).frame.known
    witnesses = SamplePoints(known)
    maker = Maker(r, list(case.ranges))
    for _ in range(8):
        form = known.form(maker.integer(2))
        low, _ = known.bounds(form)
        if low is not None:
            assert known.empty or not witnesses.is_negative(form.minus(constant(low)))


def test_what_fails_is_refuted_below_symbolic_ends_and_facts() -> None:
    n, i, j = ShapeVar("n", lower=1), Var("i"), Var("j")
    ctx = Context({i: Range(0, n), j: Range(0, 8)}, assume=[i + j < 12])
    known = ctx.frame.known
    witnesses = SamplePoints(known)
    assert witnesses.is_negative(known.form(i // 4 - j))
    assert not witnesses.is_negative(known.form(n - i - 1))
    assert not witnesses.is_negative(known.form(11 - i - j))
