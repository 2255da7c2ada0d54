"""Where nothing is: sizes and kept values without points, even those that an answer does not mention, and sizes that
facts exclude. At the former answers are empty; at the latter a note names the fact as well.

Worlds and drawn contexts with such sizes are in `tests/intset/answers`.
"""

from __future__ import annotations

import itertools

import pytest

from bound import infer_bound, te
from intset import Context, Opaque, Range, ShapeVar, Var, maximum, select
from intset.domains.sets.base import IntervalSet
from intset.domains.sets.region import Region
from intset.errors import InputError
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, as_expr
from intset.testing import claims
from tests.intset.oracle import Claims
from tests.strategies import contexts
from tests.strategies.contexts import world

DOMAINS = ("auto", "isl", "interval", "stride", "modular", "interval*modular", "points")
i, j, k, x, n, m = Var("i"), Var("j"), Var("k"), Var("x"), Var("n"), ShapeVar("m")
WHOLE = Context({j: Range(0, 10)})


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_order_knows_where_nothing_is(domain: str) -> None:
    whole = Context({x: Range(0, 4)}).value_set(x, domain=domain)
    for some in (Context({i: Range(0, n), j: Range(0, i), x: Range(0, 4)}), Context({x: Range(0, 4)}, assume=[n >= 3])):
        part = some.value_set(x, domain=domain)
        assert part <= whole and not whole <= part and part != whole
        assert part == some.value_set(x + 1 - 1, domain=domain)
        assert (part & whole) == part and (part | whole) == whole
        region = some.image((x,), domain=domain)
        assert region <= Context({x: Range(0, 4)}).image((x,), domain=domain)


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


def test_a_value_that_is_written_in_a_variable_that_runs() -> None:
    some = Context({i: Range(0, n), j: Range(0, i), x: Range(0, 4)}).value_set(x)
    moved = some.at({n: i + 1})
    assert moved.params == (i,) and moved.at({i: 0}).is_empty and moved.at({i: 1}).count() == 4
    squares = Context({i: Range(0, 6), x: Range(0, 4)}, assume=[(i * i).eq(n)]).value_set(x)
    moved = squares.at({n: i + 1})
    assert 3 in moved.at({i: 3}) and moved.at({i: 4}).is_empty


def test_a_difference_of_regions_keeps_what_nothing_takes() -> None:
    whole = Context({x: Range(0, 4)}).image((x,))
    squares = Context({i: Range(0, 6), x: Range(0, 4)}, assume=[(i * i).eq(n)]).image((x,))
    assert isinstance(whole - squares, Region)
    rest = whole - squares
    assert all((value,) in rest.at({n: 3}) for value in range(4))
    assert not rest.is_exact or rest.at({n: 4}).count() == 0


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


@pytest.mark.parametrize("number", [231464, 235202, 340034, 443438])
def test_where_facts_never_hold_nothing_is_claimed(number: int) -> None:
    assert claims(1, number).wrong == []


def test_one_value_is_exact_only_where_facts_leave_a_point() -> None:
    n, i, j = ShapeVar("n", 1), Var("i"), Var("j")
    ctx = Context({i: Range(-1, 5), j: Range(0, maximum(i, 0) - 1)}, assume=[i <= j])
    assert not ctx.value_set(n, domain="interval").is_exact
    assert ctx.value_set(n).is_empty


@pytest.mark.parametrize("domain", ["auto", "interval", "isl"])
def test_a_kept_variable_outside_of_its_range_leaves_nothing(domain: str) -> None:
    """Its range and the facts on what it depends on exclude the value together, none of them alone."""
    i, k = Var("i"), Var("k")
    for size in (Var("u"), Opaque("t")(), Opaque("t", 0, -3, 3)()):
        ctx = Context({k: Range(size * 2, 1), i: Range(0, 4)}, assume=[size.ne(0)], domain=domain)
        for e in (i, i + k):
            found = ctx.value_set(e, keep=[k])
            left = [value for value in range(-5, 6) if not found.at({k: value}).is_empty]
            assert left == [-4, -2, 2, 4]


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


# -- relations and differences -----------------------------------------------------------------------------------------


def test_stores_that_never_ran() -> None:
    stores = Context({i: Range(0, n), j: Range(0, 4)}).relation((j,), (j * 2,))
    loads = Context({j: Range(0, 4)}).relation((j,), (j * 2,))
    assert not stores.at({n: 0}).contains((1,), (2,)) and stores.at({n: 1}).contains((1,), (2,))
    sources = loads.then(stores.inverse())
    assert sources.at({n: 0}).domain().count() == 0 and sources.at({n: 2}).domain().count() == 4


def test_a_difference_with_what_is_kept() -> None:
    ctx = Context({i: Range(0, 3), j: Range(0, i)})
    seven = ctx.image((j * 0 + 7,), keep=[i])
    b = WHOLE.image((j,))
    for size, a in itertools.product(range(3), range(10)):
        assert ((a,) in (b - seven).at({i: size})) == (a != 7 or size == 0)


SEPARATE = [
    (j * j < 0, k >= 3, True),
    ((j % 4).eq(2), (k * 3).eq(7), True),
    ((j % 4).eq(2), (k * 3).eq(9), False),
    ((j * n).eq(6), (k % 5).eq(j % 3), False),
    ((j * j).eq(3), (k * k).eq(4), True),
]


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize(("first", "second", "empty"), SEPARATE, ids=str)
@pytest.mark.parametrize("domain", ["auto", "isl"])
def test_facts_beside_a_question_are_judged_part_by_part(first: Cond, second: Cond, empty: bool, domain: str) -> None:
    claims = Claims(world({i: Range(0, 4), j: Range(0, 6), k: Range(0, 6), n: Range(1, 6)}, [first, second]))
    assert (not claims.rows) is empty
    for e in (i + 0, i * 2 + 1, k + i):
        claims.about(e, domain)


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


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("fact", [(n < j) & (i <= j), (i >= n) & (j >= 0), (i + n > 2) & (n < 2)])
def test_ranges_and_facts_that_exclude_each_other_only_together_leave_nothing_at_any_size(
    fact: Cond, domain: str
) -> None:
    """Here the ends of one variable and a fact about another contradict through a size that no answer mentions."""
    ctx = Context({i: Range(0, select(n < 3, n, 3)), j: Range(0, 1)}, assume=[fact])
    found, region = ctx.value_set(i * 4, domain=domain), ctx.image((i * 2, j), domain=domain)
    for size in (-4, 0, 2, 4):
        assert not found.is_exact or (found.at({n: size}).is_empty and 0 not in found.at({n: size}))
        assert not region.is_exact or region.at({n: size}).is_empty
    assert not found.is_exact or (found.is_empty and found.count() == 0 and 0 not in found)
    assert not region.is_exact or (region.is_empty and region.count() == 0)
