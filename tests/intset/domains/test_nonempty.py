"""Every answer is empty at sizes and kept values without points, even at those that the answer does not mention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pytest

from intset import Context, Opaque, Range, ShapeVar, Var, const, maximum, minimum
from intset.domains.sets.base import IntervalSet, IntSet
from intset.domains.sets.region import Region
from intset.errors import CountError, InputError
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import Cond, Expr
from intset.testing import claims

DOMAINS = ("auto", "isl", "interval", "stride", "modular", "interval*modular", "points")
SIZES = (-2, 0, 1, 2, 3, 5)
i, j, k, x, n, m, ELEMENT = Var("i"), Var("j"), Var("k"), Var("x"), Var("n"), ShapeVar("m"), Var("element")

Ranges = Mapping[Var, Range]
CONTEXTS: dict[str, tuple[Ranges, Sequence[Cond]]] = {
    "one range": ({i: Range(0, n), x: Range(0, 4)}, ()),
    "a range that starts elsewhere": ({i: Range(-3, n + 1), x: Range(-2, 4)}, ()),
    "a chain": ({i: Range(0, n), j: Range(0, i), x: Range(0, 4)}, ()),
    "a chain through a fact": ({i: Range(0, 5), j: Range(0, 5), x: Range(0, 4)}, (j > i, j < n)),
    "a chain of facts": ({i: Range(0, n), j: Range(0, 4), k: Range(2, 2), x: Range(0, 2)}, (i >= j, j >= k)),
    "a fact on a size": ({x: Range(0, 4)}, (n >= 3,)),
    "facts on sizes and a range": ({i: Range(0, n), x: Range(1, 3)}, (n.ne(2), m + n <= 4)),
    "two sizes": ({i: Range(0, n), j: Range(n, m - n), x: Range(0, 3)}, ()),
    "every other size": ({i: Range(0, 6), x: Range(0, 2)}, ((i * 2).eq(n),)),
    "a product of a size": ({i: Range(0, n * n - 4), x: Range(0, 2)}, ()),
    "a square": ({i: Range(0, 6), j: Range(0, 4), x: Range(0, 2)}, ((i * i).eq(n + j * 3),)),
    "a divisor": ({i: Range(0, 4), x: Range(0, 4)}, ((i % n).eq(1),)),
    "a quotient": ({i: Range(6 // n, 2), x: Range(0, 4)}, ()),
    "what it mentions itself": ({x: Range(0, n)}, (n >= 2,)),
}
EXPRS = {"2x + 1": x * 2 + 1, "five": const(5), "min": minimum(x, 2), "x + n": x + n}


def points(ranges: Ranges, facts: Sequence[Cond], sizes: Mapping[Var, int]) -> Iterator[dict[Var, int]]:
    """The points at given sizes, by what ranges and facts mean."""
    found = [dict(sizes)]
    for v, r in ranges.items():  # outer variables come first
        assert isinstance(r.min, Expr) and isinstance(r.extent, Expr)
        ends = [(env, defined(r.min, env), defined(r.min + r.extent, env)) for env in found]
        found = [
            {**env, v: value}
            for env, low, high in ends
            if low is not None and high is not None
            for value in range(low, high)
        ]
    return (env for env in found if all(holds(fact, env) for fact in facts))


def defined(e: Expr, env: Mapping[Var, int]) -> int | None:
    try:
        return evaluate(e, env)
    except ArithmeticError:
        return None


def holds(fact: Cond, env: Mapping[Var, int]) -> bool:
    try:
        return bool(evaluate(fact, env))
    except ArithmeticError:
        return False


TRUTHS: dict[str, dict[tuple[int, int], list[dict[Var, int]]]] = {}


def truth(name: str) -> dict[tuple[int, int], list[dict[Var, int]]]:
    if name not in TRUTHS:
        ranges, facts = CONTEXTS[name]
        sizes = [(a, b) for a in SIZES for b in ((0, 5) if "m" in str(CONTEXTS[name]) else (0,))]
        TRUTHS[name] = {(a, b): list(points(ranges, facts, {n: a, m: b})) for a, b in sizes}
    return TRUTHS[name]


def elements(s: IntSet) -> set[int]:
    inside = compiled(s.condition(ELEMENT), [ELEMENT])
    return {value for value in range(-12, 30) if inside(value)}


def claimed(s: IntSet, taken: set[int], what: object) -> None:
    """What a set without parameters says is true."""
    found = elements(s)
    assert found >= taken, what
    if s.is_exact:
        assert found == taken and s.is_empty is (not taken) and s.count() == len(taken), what
        assert all((value in s) is (value in taken) for value in (-1, 0, 1, 5)), what
    if s.is_tight:
        assert s.is_empty or taken and (int(s.min), int(s.max)) == (min(taken), max(taken)), what  # type: ignore[arg-type]


ASKED = [
    (domain, name)
    for (a, domain), (b, name) in itertools.product(enumerate(DOMAINS), enumerate(CONTEXTS))
    if domain == "auto" or (a + b) % 5 == 0
]


@pytest.mark.parametrize(("domain", "name"), ASKED)
def test_nothing_is_there_where_nothing_runs(domain: str, name: str) -> None:
    ranges, facts = CONTEXTS[name]
    ctx = Context(ranges, assume=facts)
    other = IntervalSet(20, 21, is_exact=True)
    empty = 0
    for text, e in EXPRS.items():
        s, region = ctx.value_set(e, domain=domain), ctx.image((e, const(7)), domain=domain)
        assert s.is_exact or domain not in ("auto", "isl") or s.notes
        joined, met = s | other, s & IntervalSet(0, 3, is_exact=True)
        number = counted(s)
        assert s.is_exact or number is None
        for turn, ((a, b), there) in enumerate(truth(name).items()):
            env = {n: a, m: b}
            taken = {evaluate(e, point) for point in there}
            empty += not taken
            what = (name, domain, text, env, s)
            claimed(s.at(env) if a % 2 else s.at({m: b}).at({n: a}), taken, what)
            if text != "min" and (turn + turn // 2) % 2:  # one of the two, in turn
                claimed(joined.at(env), taken | {20, 21}, what)
            elif text != "min":
                claimed(met.at(env), taken & {0, 1, 2, 3}, what)
            assert number is None or evaluate(number, env) == len(taken) or not allowed(facts, env), what
            placed = region.at(env)
            assert not placed.is_exact or placed.count() == len(taken), what
            assert all((value, 7) in placed for value in taken), what
    assert empty


def counted(s: IntSet) -> Expr | None:
    try:
        number = s.count()
    except CountError:
        return None
    return const(number) if isinstance(number, int) else number if isinstance(number, Expr) else None


def allowed(facts: Sequence[Cond], env: Mapping[Var, int]) -> bool:
    """Whether the facts on sizes alone hold: a count relies on them."""
    return all(holds(fact, env) for fact in facts if set(fact.free_vars()) <= {n, m})


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_order_knows_where_nothing_is(domain: str) -> None:
    whole = Context({x: Range(0, 4)}).value_set(x, domain=domain)
    for name in ("a chain", "a fact on a size"):
        ranges, facts = CONTEXTS[name]
        some = Context({v: r for v, r in ranges.items() if v is not x} | {x: Range(0, 4)}, assume=facts)
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


@pytest.mark.parametrize("domain", DOMAINS)
def test_kept_variables_have_their_ranges(domain: str) -> None:
    ctx = Context({i: Range(0, n), j: Range(i, 3), x: Range(0, 4)})
    for e in (x, x + i, j):
        s, region = ctx.value_set(e, keep=[i], domain=domain), ctx.image((e,), keep=[i], domain=domain)
        for size, value in itertools.product((0, 1, 4), range(-1, 6)):
            env = {n: size, i: value}
            runs = {**env, x: 0}
            taken = {evaluate(e, {**runs, x: a, j: b}) for a in range(4) for b in range(value, value + 3)}
            taken = taken if 0 <= value < size else set()
            claimed(s.at(env), taken, (e, env, s))
            assert not region.is_exact or {a for a in range(-3, 12) if (a,) in region.at(env)} == taken


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
