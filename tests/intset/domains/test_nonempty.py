"""Where nothing is: sizes and kept values without points, even those that an answer does not mention, and sizes that
facts exclude. At the former answers are empty; at the latter a note names the fact as well.

Worlds and drawn contexts with such sizes are in `tests/intset/answers`.
"""

from __future__ import annotations

import pytest

from bound import infer_bound, te
from intset import Context, Range, ShapeVar, Var, select
from intset.domains.sets.base import IntervalSet
from intset.errors import InputError
from intset.expr.evaluate import evaluate
from intset.expr.node import as_expr
from tests.strategies import contexts

DOMAINS = ("auto", "isl", "interval", "stride", "modular", "interval*modular", "points")
i, j, k, x, n, m = Var("i"), Var("j"), Var("k"), Var("x"), Var("n"), ShapeVar("m")


@pytest.mark.parametrize("domain", DOMAINS)
def test_what_is_proved_of_elements(domain: str) -> None:
    some = Context({i: Range(0, n), x: Range(0, 4)}).value_set(x, domain=domain)
    inside = some.contains(3)
    assert inside.status == "refuted" and inside.counterexample is not None and inside.counterexample[n] <= 0
    under = Context({x: Range(0, 4)}, assume=[n >= 3]).value_set(x, domain=domain)
    assert under.contains(3) and 3 in under and under.params == ()
    with pytest.raises(InputError, match="depends on n"):
        _ = 3 in some


def test_the_conditions_that_are_shown() -> None:
    some = Context({i: Range(0, n), x: Range(0, 4)})
    assert repr(some.value_set(x)) == "<StrideSet {[0, 4)} exact by stride> where n >= 1"
    assert str(some.value_set(x).count()) == "select(n >= 1, 4, 0)" and some.value_set(x).params == (n,)
    assert Context({i: Range(0, n)}).value_set(i).count() == Context({i: Range(0, n)}).value_set(i + 1).count()
    assert not Context({i: Range(0, n), x: Range.everything()}).value_set(x).is_everything
    assert not some.value_set(x).is_everything and Context({x: Range.everything()}).value_set(x).is_everything
    sure = Context({i: Range(0, ShapeVar("s", lower=1)), x: Range(0, 4)}).value_set(x)
    assert sure.count() == 4 and 3 in sure and sure.params == ()


@pytest.mark.parametrize("domain", DOMAINS)
def test_parameters_may_be_named(domain: str) -> None:
    ctx = Context({i: Range(0, n), x: Range(0, 4)}, assume=[m >= 2])
    for s in (ctx.value_set(x + n, domain=domain), ctx.image((x, i), domain=domain), IntervalSet(n, n + 3)):
        by_name, by_variable = s.at({"n": 3}), s.at({n: 3})
        assert repr(by_name) == repr(by_variable) and n not in by_name.params
        for wrong in ({"q": 3}, {3: 3}, {"n": "x"}, {n: None}, {"n": 3, n: 3}, None, [(n, 3)], 5):
            with pytest.raises(InputError) as caught:
                s.at(wrong)  # type: ignore[arg-type]
            assert "\n" not in str(caught.value)
    other = Var("n")
    two = Context({x: Range(0, 4)}).value_set(x + n * other, domain=domain)
    if len(two.params) == 2:
        with pytest.raises(InputError, match="which parameter"):
            two.at({"n": 1})


# -- sizes that facts exclude ------------------------------------------------------------------------------------------


def test_one_rule_for_three_forms() -> None:
    stated = Context({i: Range(0, 4)}, assume=[n >= 2])
    assert stated.value_set(i).count() == 4 and stated.image((i, i)).count() == 4
    for found in (stated.value_set(i), stated.image((i, i)), stated.relation((i,), (i + 1,))):
        assert found.at({n: 1}).is_empty and found.at({n: 1}).notes == ("n = 1 is excluded by n >= 2",)
        assert not found.at({n: 2}).is_empty and not found.at({n: 2}).notes
        assert found.at({"n": 1}).is_empty
    assert stated.image((i, i)).at({n: 1}).box == (Range(0, 0),) * 2 or stated.image((i, i)).at({n: 1}).count() == 0
    ranged = Context({i: Range(0, n), j: Range(0, 4)})  # n = 0 is allowed, and leaves nothing
    number = ranged.value_set(j).count()
    assert [contexts.value(as_expr(number), {n: k}) for k in (-1, 0, 1)] == [0, 0, 4]  # type: ignore[arg-type]
    assert ranged.value_set(j).at({n: 0}).count() == 0 and not ranged.value_set(j).at({n: 0}).notes
    chosen = Context({i: Range(0, select(n >= 1, 4, 0))}).value_set(i)
    assert [chosen.at({n: k}).count() for k in (0, 1)] == [
        contexts.value(as_expr(chosen.count()), {n: k}) for k in (0, 1)
    ]  # type: ignore[arg-type]


def test_what_is_declared_excludes_too() -> None:
    size = ShapeVar("n", lower=1, upper=64)
    ctx = Context({i: Range(0, size), j: Range(0, 4)})
    assert ctx.value_set(j).count() == 4
    for found in (ctx.value_set(i), ctx.value_set(j), ctx.image((i, j)), ctx.image((j, j))):
        assert found.at({size: 0}).is_empty and found.at({size: 0}).notes == ("n = 0 is excluded by n >= 1",)
        assert found.at({size: 65}).is_empty and "n <= 64" in found.at({size: 65}).notes[-1]


def test_regions_of_bounds() -> None:
    size = te.size_var("n")
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda x: a[x] + 1, name="B")
    c = te.compute((size,), lambda x: b[x] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].op.axis[0])
    bounds = infer_bound(s, ctx=Context(assume=[size >= 3]))
    for tensor in (a, b, c):
        for region in (bounds.required(tensor), bounds.computed(tensor)):
            assert region.at({size: 2}).is_empty and "n >= 3" in region.at({size: 2}).notes[-1]
            assert not region.at({size: 3}).is_empty and not region.at({size: 3}).notes


@pytest.mark.parametrize("least", [None, 0, 1, 2, 4])
def test_a_count_speaks_of_the_sizes_that_facts_allow(least: int | None) -> None:
    facts = [] if least is None else [m >= least]
    stated = [i >= 0, i < 4, j >= 0, j < m]
    alone, beside = Context({i: Range(0, 4)}, assume=facts), Context({i: Range(0, 4), j: Range(0, m)}, assume=facts)
    for ctx, rows in ((alone, 1), (beside, 0), (Context.from_constraints([i, j], [*stated, *facts]), 0)):
        sets = [(ctx.value_set(i), 4), (ctx.image((i, i + 1)), 4), *([] if rows else [(ctx.image((i, j)), 4 * m)])]
        for answer, expected in sets:
            number = answer.count()
            for size in range(7):
                allowed, points = least is None or size >= least, rows or size
                there = answer.at({m: size}).count()
                assert there == (evaluate(as_expr(expected), {m: size}) if allowed and points else 0), (answer, size)
                assert not allowed or evaluate(as_expr(number), {m: size}) == there, (answer, number, size)
            needs_no_choice = expected == 4 and (rows or (least or 0) >= 1)
            assert not needs_no_choice or number == 4 and type(number) is int, (answer, number)
            assert (least or 0) < 1 or "select" not in str(number), (answer, number)
