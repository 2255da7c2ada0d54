"""Claims where ranges may be empty or contradict facts, ends as numbers, sizes that are fixed, bounds over sizes."""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intset import (
    NEG_INF,
    POS_INF,
    Bounds,
    Cond,
    Context,
    Expr,
    InputError,
    Range,
    ShapeVar,
    UndefinedError,
    Var,
    ceildiv,
    const,
    evaluate,
    minimum,
    opaque,
    select,
)
from intset.expr.build import Opaque
from intset.expr.definedness import is_partial, total
from intset.expr.node import truth
from intset.testing.claims import DOMAINS, claims
from tests.intset.oracle import Claims
from tests.strategies.contexts import NONLINEAR, PRESBURGER, Drawn, contexts, value, world
from tests.strategies.refusals import refused_with_words
from tests.sweeps import daily, sampled

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
i, j, k = Var("i"), Var("j"), Var("k")


# -- boxes --------------------------------------------------------------------------------------------------------


def test_boxes_are_narrow_and_a_division_of_a_little_below_zero_is_a_number():
    c, c1, c2 = ShapeVar("c", lower=1), ShapeVar("c1", lower=1), ShapeVar("c2", lower=1)
    flat = Context({i: Range(0, 4), j: Range(0, c)})
    (side,) = flat.image((i * c + j,)).box
    assert str(side) == "Range(min=0, extent=c * 4)"
    split = Context({i: Range(0, c1 * c2)})
    region = split.image((i // c1, i % c1))
    assert list(map(str, region.box)) == ["Range(min=0, extent=c2)", "Range(min=0, extent=c1)"]
    assert [(int(s.min), int(s.extent)) for s in region.at({c1: 3, c2: 5}).box] == [(0, 5), (0, 3)]
    assert str(split.bounds(i // c1)) == "(0, c2 - 1)"
    c = ShapeVar("c", lower=4)
    ctx = Context({i: Range(0, 4)})
    assert int(ctx.simplify(const(-1) // c)) == int(ctx.simplify((i - 4) // c)) == -1
    assert str(ctx.simplify((i - 5) // c)) != "-1"
    assert str(Context().simplify(const(-1) // Var("d"))) != "-1"
    assert str(ctx.simplify((minimum(i, 2) - c) // c)) == "-1"


# -- random -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "seed"), daily([(90, 0), (20_000, 1000)], 2))
def test_no_claim_is_false(count, seed):
    found = claims(count, seed)
    assert found.wrong == [] and found.tally["contexts"] > 0.9 * count
    tally = found.tally
    assert tally["with points"] > 25 and tally["exact"] > 12 and tally["tight"] > 30 and tally["exact region"] > 1
    assert tally["proved"] > 5 and tally["refuted"] > 5
    assert min(tally[part] for part in ("ordered", "together", "blocks", "again")) > 2


@pytest.mark.nightly
def test_no_domain_makes_a_false_claim():
    found = claims(600, domains=DOMAINS, thorough=True)
    assert found.wrong == [] and found.tally["contexts"] > 500


# -- what random contexts found -----------------------------------------------------------------------------------


def test_vacuous_is_what_enumeration_says():
    asked = 0
    for low, extent, fact in itertools.product(range(-2, 3), range(4), (i % 4 >= 3, i * i >= 2, i // 2 > 0, i.ne(0))):
        ctx = Context({i: Range(low, extent), j: Range(0, 3)}, assume=[fact])
        points = [a for a in range(low, low + extent) if evaluate(fact, {i: a})]
        for goal in (j >= 0, i % 4 < 4, i * i + j >= 0, i <= 9):
            proof = ctx.prove(goal)
            assert proof and proof.vacuous is not bool(points)
            asked += 1
    assert asked == 5 * 4 * 4 * 4


n = ShapeVar("n")
QUESTIONS: dict[str, Callable[[Context, Any, Cond], bool]] = {
    "bounds": lambda ctx, e, cond: ctx.bounds(e) == (POS_INF, NEG_INF),
    "value_set": lambda ctx, e, cond: ctx.value_set(e).is_empty and ctx.value_set(e).count() == 0,
    "image": lambda ctx, e, cond: ctx.image((e, i)).is_empty and ctx.image((e, i)).count() == 0,
    "prove": lambda ctx, e, cond: all(ctx.prove(goal).vacuous for goal in (cond, ~cond, truth(False))),
    "explain": lambda ctx, e, cond: bool(str(ctx.explain(cond))),
    "fits": lambda ctx, e, cond: bool(ctx.fits(e, 2)),
    "simplify": lambda ctx, e, cond: ctx.simplify(e) is not None and ctx.simplify(cond) is not None,
    "contradiction": lambda ctx, e, cond: set(ctx.contradiction) <= set(ctx.facts),
    "solve": lambda ctx, e, cond: ctx.solve(cond, i) is not None,
    "narrow": lambda ctx, e, cond: ctx.narrow(cond, [i]) is not None,
    "as_iter_map": lambda ctx, e, cond: ctx.as_iter_map([e, i % -3]).injective.status == "proved",
    "ranges of a map": lambda ctx, e, cond: len(ctx.as_iter_map([e, i % 4, i % -3]).ranges) == 3,
    "extended": lambda ctx, e, cond: ctx.extended({Var("k"): Range(0, 4)}).bounds(e).is_empty,
    "renamed": lambda ctx, e, cond: ctx.renamed({j: j + 1}).bounds(i).is_empty,
}


@pytest.mark.parametrize(
    ("ranges", "facts"),
    [
        ({i: Range(0, 5), j: Range(3, 4)}, [(i % 4).eq(3), j > i + 5]),
        ({i: None, j: None}, [i >= 0, i < 3, j >= i - 1, j < i + 1, (j - 6).eq(i + i)]),
        ({i: Range(0, n), j: Range(0, 4)}, [i * 4 + j >= n * 4]),
        ({i: Range(0, 4), j: Range(0, 4)}, [n < 3, n > 5]),
    ],
    ids=str,
)
def test_facts_that_contradict_are_no_error(ranges: dict[Var, Any], facts: list[Cond]) -> None:
    ctx, e, cond = Context(ranges, assume=facts), i * 2 + j, i + j < 4
    for name, answered in QUESTIONS.items():
        assert answered(ctx, e, cond), name


@sampled(60, 1500, contexts(kinds=PRESBURGER, ranges="box dependent", facts=60), shows={"empty"})
def test_a_drawn_context_without_points_answers_as_an_empty_one(drawn: Drawn) -> str:
    variables = list(drawn.ranges)
    limits = [drawn.ranges[v] for v in variables]
    far = variables[0] * 3 + variables[-1] >= 40 + sum(int(end) for r in limits for end in r.ends or ())
    ctx = Context(drawn.ranges, assume=[*drawn.facts, far])
    if any(drawn.setting.under(far).points.values()):
        return "points"
    e, cond = drawn.exprs[0], drawn.goals[-1]
    assert ctx.bounds(e).is_empty and ctx.value_set(e).is_empty and ctx.image((e, variables[0])).is_empty
    assert ctx.prove(cond).vacuous and ctx.prove(~cond).vacuous
    assert ctx.simplify(e) is not None and ctx.as_iter_map([e, variables[0] % -3]).ranges
    return "empty"


@pytest.mark.parametrize("size", [-4, 0, 3])
def test_a_range_whose_extent_is_computed_is_empty_below_0(size: int) -> None:
    ctx = Context({i: Range(0, n)}, assume=[i < n]).renamed({n: size})
    assert ctx.bounds(i).is_empty is (size <= 0) and ctx.value_set(i).count() == max(size, 0)
    assert Range.of_extent(2, size).ends == (2, 1 + max(size, 0))


# -- partial conditions, and facts that contradict ---------------------------------------------------------------------

free = Var("n")


def test_total() -> None:
    e: Expr = 6 // free
    assert is_partial(e) and total(i + free) is i + free
    assert [value(total(e), {free: k}) for k in (-1, 0, 4)] == [-6, 0, 1]
    assert total(select(free.ne(0), e, 1)) is select(free.ne(0), e, 1)  # its own guard is its need


io, ii, jo, ji = (Var(name) for name in ("io", "ii", "jo", "ji"))
rows, columns = ShapeVar("n", lower=1), ShapeVar("m", lower=1)
RUN = Context({i: Range(0, rows)})
POWERS = [
    i * i, i * i // rows, (i * i + i) // rows, i * i * i - i, i * i // (rows + 1) * 2, 3 - i * i, i * i - i * columns,
    (i + columns) * (i + 1) // columns, i * (i + 1) // 2 // rows, i * i * columns - i * 3,
]  # fmt: skip


@pytest.mark.parametrize("e", POWERS, ids=str)
def test_powers_of_a_variable_have_ends_over_sizes(e: Expr) -> None:
    low, high = ends = Claims(world({i: Range(0, rows)}, sizes=[rows, columns])).bounds(e, None)
    assert RUN.prove(e <= high) and RUN.prove(e >= low) and (ends.is_tight or columns in e.free_vars())
    for first in (-2, 1):
        shifted = Claims(world({i: Range(first, rows), k: Range(0, i + 3)}, sizes=[rows, columns]))
        for one in (e, e - i * k, e + k * k):
            shifted.bounds(one, None)


TILES = [io * 4 + ii < rows, jo * 32 + ji < columns]
FLAT = (io * 4 + ii) * columns + (jo * 32 + ji)


@pytest.mark.parametrize(
    "ctx",
    [
        Context.from_constraints([io, ii, jo, ji], [ii >= 0, ii < 4, ji >= 0, ji < 32, io >= 0, jo >= 0, *TILES]),
        Context({io: None, ii: Range(0, 4), jo: None, ji: Range(0, 32)}, assume=[io >= 0, jo >= 0, *TILES]),
        Context(
            {io: Range(0, ceildiv(rows, 4)), ii: Range(0, 4), jo: None, ji: Range(0, 32)}, assume=[jo >= 0, *TILES]
        ),
    ],
    ids=["from_constraints", "open ends", "one open end"],
)
def test_guards_of_splits_are_ends_of_open_loops(ctx: Context) -> None:
    bounds = ctx.bounds(FLAT)
    assert bounds.is_tight and bounds[0] == 0 and ctx.prove(bounds[1].eq(rows * columns - 1))  # type: ignore[union-attr]
    assert ctx.bounds(FLAT, over={rows: 6, columns: 40}).ints() == (0, 239)


def test_a_mapping_fixes_sizes() -> None:
    t = ShapeVar("t", lower=1, upper=64)
    ctx = Context({i: Range(0, rows)}, assume=[rows <= t * 2])
    assert ctx.bounds(i * 3, over={rows: 8}) == (0, 21) == ctx.bounds(i * 3, over={"n": 8, t: 9})
    assert ctx.value_set(i * 3, over={"n": 8}).count() == 8 and ctx.bounds(i * rows, over={rows: t}) == ctx.bounds(
        i * t, over={rows: t}
    )
    for excluded in ({rows: 0}, {t: 65}, {rows: 8, t: 3}):
        assert ctx.bounds(i * 3, over=excluded).is_empty and ctx.value_set(i, over=excluded).is_empty


@sampled(25, 800, contexts(kinds=NONLINEAR, ranges="box sized", sizes=1, facts=20), shows={"sized"})
def test_sizes_fixed_before_and_after_agree(drawn: Drawn) -> str:
    ctx, (e,) = drawn.ctx, drawn.exprs
    truth: dict[Any, set[int]] = {params: {x for (x,) in taken} for params, taken in drawn.setting.values(e).items()}
    for params, taken in list(truth.items())[:3]:
        bounds = ctx.bounds(e, over=(at := drawn.setting.env(params)))
        assert bounds[0] <= min(taken) and bounds[1] >= max(taken)
        assert not bounds.is_tight or tuple(bounds) == (min(taken), max(taken))
        assert all(x in ctx.value_set(e, over=at) for x in taken)
    return "sized" if drawn.sizes and truth else ""


I, N = Var("i"), ShapeVar("n", lower=1)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge)
EXTENDED = st.one_of(st.integers(-5, 5), st.integers(-(10**30), 10**30), st.sampled_from((NEG_INF, POS_INF)))


def as_float(value):
    return float(value) if value in (NEG_INF, POS_INF) else value


@given(EXTENDED, EXTENDED, st.booleans(), st.booleans())
def test_constants_and_infinities_compare_as_numbers(a, b, wrap_a, wrap_b):
    left = const(a) if wrap_a and isinstance(a, int) else a
    right = const(b) if wrap_b and isinstance(b, int) else b
    for compare in COMPARISONS:
        assert bool(compare(left, right)) is compare(as_float(a), as_float(b))
    assert bool(left == right) is (as_float(a) == as_float(b))


def test_what_is_not_constant_has_no_truth_value_and_no_ints():
    table = Opaque("table", rank=1)
    for cond in (I < 3, N >= 1, const(3) < N, (const(1) < 2) & (I < 3), table[0] > 2, opaque("t", 0, 5) >= 0):
        with pytest.raises(InputError, match="truth value"):
            bool(cond)
    with pytest.raises(UndefinedError):
        bool(const(1) // (const(2) - 2) < 3)
    for other in ("3", None, [1]):
        for compare in COMPARISONS:
            with pytest.raises(TypeError):
                compare(POS_INF, other)
    assert Context({I: Range(2, 6)}).bounds(I).ints() == (2, 7)
    assert all(type(end) is int for end in Context({I: Range(2, 6)}).bounds(I).ints())
    assert Bounds(-const(3), const(2) + 2, True).ints() == (-3, 4)
    symbolic = Context({I: Range(0, N)})
    for bounds, words in (
        (symbolic.bounds(I), "upper end n - 1 depends on n"),
        (symbolic.bounds(-I), "lower end .* depends on n"),
        (Context({I: Range(0, POS_INF)}).bounds(I), "upper end is POS_INF"),
        (Context({I: Range(0, POS_INF)}).bounds(-I), "lower end is NEG_INF"),
        (Context({I: Range(0, 0)}).bounds(I), "empty"),
    ):
        with pytest.raises(InputError, match=words):
            bounds.ints()


# -- bounds over all allowed sizes; drawn ones are in test_claims_drawn ------------------------------------------------

p, q, u = ShapeVar("n"), ShapeVar("m"), ShapeVar("u", lower=2, upper=128)
a, b = ShapeVar("a", lower=1), ShapeVar("b", lower=1)


@pytest.mark.parametrize(
    ("e", "facts", "ends"),
    [
        (p // (q + 1), [], (0, POS_INF)),
        (a - q % a, [], (1, POS_INF)),
        (u * 4 + 3, [], (11, 515)),
        (p * p - p, [], (0, POS_INF)),
        (p * (p - 1) // 2, [], (0, POS_INF)),
        (p * p - p * 4, [], (-4, POS_INF)),
        (minimum(p, u) - u, [], (-128, 0)),
        (p * q, [p * q <= 4096], (0, 4096)),
        (a * b - a - b, [], (-1, POS_INF)),
        (p // a - p, [], (NEG_INF, 0)),
        (p - p // a * a, [], (0, POS_INF)),
        (ceildiv(p, a) * a - p, [], (0, POS_INF)),
        (p - q, [p.eq(q * 3)], (0, POS_INF)),
        (p % 3, [p.eq(q * 3)], (0, 0)),
        (ShapeVar("q", lower=1, upper=100, multiple_of=8) * 3, [], (24, 288)),
        (ShapeVar("q", lower=-3, upper=9, multiple_of=4) // 3, [], (0, 2)),
        (ShapeVar("q", lower=2, upper=13, multiple_of=4) % 5, [], (2, 4)),
        (p * q - q * p, [], (0, 0)),
    ],
)
def test_ends_of_what_sizes_make(e, facts, ends):
    bounds = Context(assume=facts).bounds(e, over="sizes")
    assert tuple(map(str, bounds)) == tuple(map(str, ends)) and bounds.is_tight
    assert bounds.certificate().check()


def over(sizes: Any, keep: tuple[Var, ...] = ()) -> Callable[[], object]:
    return lambda: Context({i: Range(0, p)}).bounds(i + p, keep=keep, over=sizes)


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("over takes sizes, variables without a range, not i", over([i])),
    ("over and keep both list i", over([p, i], (i,))),
    ("over and keep both list n", over([p], (p,))),
    ("over must be a list of sizes or", over("size")),
    ("", over({i: 3}, (i,))),
    *(("", over(wrong)) for wrong in ([p + 1], ["n"], 3, {p}, {i: 3}, {"other": 3}, {p: "x"})),
]
test_what_over_is_not = refused_with_words(REFUSED)
