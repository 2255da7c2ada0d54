"""What the linear tier proves of sizes: sums of facts, points that refute signs, sums that one variable stands for."""

import random
from itertools import pairwise

import pytest

from benchmarks.calls import counted
from intset import Context, Expr, Opaque, Range, ShapeVar, Var, ceildiv, evaluate, maximum, minimum, using
from intset.errors import IntSetError
from intset.expr.build import NumericFunction
from intset.expr.node import Cond
from intset.frame import coalesced
from intset.linear import signs, symbolic
from intset.linear.canonical import Normalizer
from intset.linear.form import VISITED_MONOMIALS
from intset.linear.signs import FoundMembers, is_refuted
from tests.intset.oracle import Claims
from tests.strategies.contexts import Expressions, world
from tests.sweeps import daily

a, b, c, d, s, t = (ShapeVar(name, lower=1) for name in "abcdst")
x, y, z, q = Var("x"), Var("y"), ShapeVar("z"), ShapeVar("q", multiple_of=8)
out = (s + 2 - 3) // 2 + 1


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        ([], s * t >= s),
        ([], s * t // t <= s),
        ([], (s * 64 % 64).eq(0)),
        ([], (s - 1) // 2 + 1 <= s),
        ([], ((s - 1) // 2 + 1).eq(ceildiv(s, 2))),
        ([], ceildiv(z, 8).eq((z + 7) // 8)),
        ([], z // 3 <= ceildiv(z, 3)),
        ([], z // 16 + ceildiv(z, 16) <= z),
        ([], z // 2 + ceildiv(z, 2) >= z),
        ([], ceildiv(s, 8) * 8 * t >= s * t),
        ([], ceildiv(s, t) * t < s + t),
        ([], ceildiv(s, t) * t >= s),
        ([], z % ceildiv(s, t) <= z * t),
        ([], s // t <= s),
        ([], z >= z % 3),
        ([s <= 4096, t <= 128], s % t < t),
        ([s <= 4096, t <= 128], s - s % t >= 0),
        ([s >= 2], out >= 1),
        ([], maximum(out, 0) * a <= (s + 2) * a),
        ([a < b], a * s <= b * s),
        ([a < b, b < c, c <= d], a + 2 <= d),
        ([a < b, b < c, c <= d], a * s <= d * s),
        ([s.ne(1)], s >= 2),
        ([a * b >= 1], b * s >= s),
        ([a.eq(b)], (a * s).eq(b * s)),
        ([a.eq(b)], (a * s // b).eq(s)),
        ([a.eq(b * 4)], (a * s // b).eq(s * 4)),
        ([a.eq(b * 4)], (a * s % 4).eq(0)),
        ([a.eq(b * 4)], a > b),
        ([a.eq(b * c)], (a * s % c).eq(0)),
        ([a.eq(b * c)], a >= c),
        ([a.eq(b + c)], a * s >= c * s),
        ([a.eq((s - 1) // 2 + 1)], a <= s),
        ([(a * b).eq(c * d)], (a * b * s).eq(c * d * s)),
        ([(s % t).eq(0)], s >= t),
        ([(s % 8).eq(0)], s >= 8),
        ([(s % 8).eq(0)], (s * 16 * t // 16).eq(s * t)),
        ([(s % t).eq(0)], (s * a * b // a // b).eq(s)),
        # divisibility: what equals 0 is stated as a term
        ([s % d, t % d], ((s + t) % d).eq(0)),
        ([s % d, t % d], (s * t % d).eq(0)),
        ([s % d], (s * t % d).eq(0)),
        ([s % d, t % d], ((c * s - a * t) % d).eq(0)),
        ([s % d], (s // d * d).eq(s)),
        ([s % d, t % d], ((s + t) // d).eq(s // d + t // d)),
        ([s % d], ((s + t) // d).eq(s // d + t // d)),
        ([a % d, s % a], (s % d).eq(0)),
        ([a % d, s % a, t % s], ((t + s) % d).eq(0)),
        ([a % d, s % a, t % s, c % t], (c % d).eq(0)),
        ([a % d, s % a], (s // d).eq(a // d * (s // a))),
        ([s % d, t % d], ((3 * s - 5 * t) // d).eq(s // d * 3 - t // d * 5)),
        ([s % d, t % d], (s * t // d).eq(s // d * t)),
        ([s % d, t % d], (s * t // d).eq(t // d * s)),
        ([s % d, t % d, c % d], (s // d * t * c).eq(s * t * c // d)),
        ([s % d, t % a], (s * t % (d * a)).eq(0)),
        ([x % 8], (x % 12).eq(0) | (x % 12).eq(4) | (x % 12).eq(8)),
        ([x % 8 - 3], (x % 12).eq(3) | (x % 12).eq(7) | (x % 12).eq(11)),
        ([x % 6], (x % 4).eq(0) | (x % 4).eq(2)),
        ([x % 8], (x % 4).eq(0)),
        ([x % 8], (x // 4).eq(x // 8 * 2)),
        ([x % 8], (x // 16).eq((x + 2) // 16)),
        ([x % 8], ((x + 3) // 8).eq(x // 8)),
        ([x % 8, y % 12], ((x + y) % 4).eq(0)),
        ([x % 8 - 3], (x % 4).eq(3)),
        ([x % 3 - 2, x % 5 - 4], (x % 15).eq(14)),
        ([(x + y) % 8], ((x + y * 9) % 8).eq(0)),
        ([(3 * x) % 8], (x % 8).eq(0)),
        ([s * t % d], (s * t * c % d).eq(0)),
        ([s % (d + 1)], ((s + t * d + t) % (d + 1)).eq(0)),
        ([x - 8 * y], (x // 8).eq(y)),
        ([], ((q + 3) % 8).eq(3)),
        ([], (q // 8 * 8 * s).eq(q * s)),
        ([q % 12], (q % 24).eq(0)),
    ],
    ids=str,
)
def test_what_shape_compilers_ask_is_proved_by_the_linear_tier(facts: list[Cond | Expr], goal: Cond) -> None:
    ctx = Context(assume=[fact if isinstance(fact, Cond) else fact.eq(0) for fact in facts])
    with using(tiers=("linear",)):
        proof = ctx.prove(goal)
        assert proof.status == "proved", proof
        assert ctx.prove(~goal).status != "proved"
    assert proof.certificate().check()


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("first", daily(range(0, 2_000, 20), 50))
def test_verdicts_of_drawn_goals_hold_at_every_point(first: int) -> None:
    decided = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        parts = Expressions(rng, (a, b, c, z), "sums multiples products quotients divisors", (a, b), divisors=(2, 3, 4))
        facts = [parts.condition(rng.choice((0, 0, 1))) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        ranges, sizes = ({z: Range(0, 5)}, (a, b, c)) if rng.random() < 0.3 else ({}, (a, b, c, z))
        claims = Claims(world(ranges, facts, sizes))
        with using(tiers=("linear", "points")):
            for _ in range(6):
                claims.goal(parts.condition(1))
        decided += claims.tally["proved"] + claims.tally["refuted"]
    assert decided >= 10


def drawn(rng: random.Random) -> tuple[Context, list[Var]]:
    """A scope with sizes, tiled loops over the sizes, and facts about both."""
    sizes: list[Var] = [
        ShapeVar(name, lower=rng.choice((None, 0, 1, 2)), upper=rng.choice((None, None, 9)), multiple_of=step)
        for name, step in zip("nmk", rng.choices((1, 1, 1, 4), k=3), strict=True)
    ]
    n, m, k = sizes
    t = rng.choice((3, 4))
    outer, inner, last, free = (Var(name) for name in ("o", "i", "j", "x"))
    tiled = ceildiv(rng.choice((n, n * m)), t)
    ranges = {outer: Range(0, tiled), inner: Range(0, t), last: Range(outer, rng.choice((m, k + 1))), free: Range(0, 6)}
    chosen = rng.sample(list(ranges), rng.randint(1, 4))
    ranges = {v: r for v, r in ranges.items() if v in chosen or v is outer}
    facts: list[Cond] = [
        outer * t + free < n, n >= m, n.eq(k + m), k.eq(m * 2), (n % 3).eq(0), (m % k).eq(1), n * m >= 4, n * m <= 12,
        minimum(n, m) >= 2, n // maximum(m, 1) <= 3, n.ne(4),
    ]  # fmt: skip
    chosen_facts = [f for f in rng.sample(facts, rng.randint(0, 3)) if free in ranges or free not in f.free_vars()]
    return Context(ranges).extended(facts=chosen_facts), [*sizes, *ranges]


CLAIMED = "multiples products quotients divisors choices"


@pytest.mark.parametrize("seed", daily(range(0, 600, 10), 30))
def test_members_satisfy_their_scope_and_refute_nothing_that_is_proved(seed: int) -> None:
    found = 0
    for number in range(seed, seed + 10):
        rng = random.Random(number)
        try:
            ctx, variables = drawn(rng)
        except IntSetError:  # facts that contradict one another
            continue
        known = ctx.frame.known
        members = tuple(signs._members(known))
        found += bool(members)
        for member in members:
            point = {**dict.fromkeys(variables, 9), **member.point}
            for v in variables:
                low, high, step = v.declared()
                stated = v not in ctx.ranges
                assert not stated or v not in member.point or point[v] % step == 0
                assert low is None or not stated or point[v] >= low
                assert high is None or not stated or point[v] <= high
            for v, r in ctx.ranges.items():
                low_end = evaluate(r.min, point)
                assert low_end <= point[v] < low_end + evaluate(r.extent, point), (number, v)
            for fact in ctx.facts:
                if fact.condition.op.name not in ("ne", "or"):  # others are no assumption of the linear tier
                    assert evaluate(fact.condition, point), (number, fact)
        alone = Normalizer(known.ranges, known.assumptions, known.depth, known.empty)
        alone.members = FoundMembers((), (), (), {}, (), {}, len(known.ranges))
        drawn_claims = Expressions(rng, variables, CLAIMED, variables[:3])
        for _ in range(20):
            e = drawn_claims.sum(1)
            form = known.form(e)
            proved = alone.is_nonneg(alone.form(e))
            assert known.is_nonneg(form) is proved, (number, str(e))
            assert not (proved and is_refuted(known, form)), (number, str(e))
    assert found >= 5


i, j = Var("i"), Var("j")
n, m = ShapeVar("n", 1), ShapeVar("m", 1)


def test_members_have_values_of_opaque_sizes() -> None:
    """An extent that no fact equates with a size takes any number in its interval; a function keeps its values."""
    extent, square = Opaque("A.shape", 1)(0), NumericFunction("square", 1, lambda k: k * k)(3)
    known = Context({i: Range(0, n)}, assume=[extent >= 6, square >= 6]).frame.known
    assert is_refuted(known, known.form(extent - 100)) and not is_refuted(known, known.form(extent - 6))
    assert not is_refuted(known, known.form(square - 9)) and not is_refuted(known, known.form(9 - square))


def test_members_do_not_depend_on_earlier_questions() -> None:
    """A question gives values to variables without assumptions; these values do not enter the members."""
    n, m, other, i = ShapeVar("n", lower=1), ShapeVar("m", lower=1), ShapeVar("other", lower=1), Var("i")
    asked, fresh = (Context({i: Range(0, n)}, assume=[n % 4 <= m, n * m <= 90]).frame.known for _ in range(2))
    assert is_refuted(asked, asked.form(other - i - 99)) and not is_refuted(asked, asked.form(other - 1))
    assert not is_refuted(fresh, fresh.form(n - i - 1))
    assert asked.members is not None and fresh.members is not None
    assert [one.point for one in asked.members.found] == [one.point for one in fresh.members.found]


# -- sums of facts that signs are derived from: few are tried, and none that a member refutes --------------------------


@pytest.mark.parametrize("seed", daily(range(60), 4))
def test_a_sign_from_few_sums_of_facts_is_one_from_many(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller budget proves less, never something else, and leaves nothing in caches that a subquestion reads."""
    answers = []
    for most in (1, 3, 40, 100_000):
        monkeypatch.setattr(symbolic, "TRIED_RESTS", most)
        rng = random.Random(seed)
        ctx, variables = drawn(rng)
        known = ctx.frame.known
        drawn_claims = Expressions(rng, variables, CLAIMED, variables[:3])
        forms = [known.form(drawn_claims.sum(1)) for _ in range(12)]
        answers.append([not known.empty and known.is_nonneg(form) for form in forms])
        assert symbolic.is_outermost() and not symbolic.SPENT.consulting and not symbolic.SPENT.proofs
        for form, holds in zip(forms, answers[-1], strict=True):
            assert not holds or not any((member.value(form) or 0) < 0 for member in signs._members(known))
    for few, more in pairwise(answers):
        assert all(b or not a for a, b in zip(few, more, strict=True))


@pytest.mark.parametrize("seed", [20, 23, 43, 37])
def test_a_question_that_facts_do_not_answer_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts about quotients by sizes: each sum of them asks for forms, whose signs ask for sums of facts again."""
    rng, m = random.Random(seed), ShapeVar("m", lower=0)
    outer, inner, a, b = (Var(name) for name in "oiab")
    x = outer * 8 + inner
    q = x // (m * m)
    terms = [q, q * m, x, a, b, b * m, m, m * m, q // 2, x // m, a * m]
    facts: list[Cond] = []
    for _ in range(9):
        left, right = rng.choice(terms) * rng.choice((1, 2)), rng.choice(terms)
        facts.append(left <= right + rng.choice(terms) * rng.choice((0, 1)) + rng.randint(0, 2))
    ranges = {outer: Range(0, ceildiv(m * m * 3, 8)), inner: Range(0, 8), a: Range(0, m + 1), b: Range(a, m * 2)}
    known = Context(ranges).extended(facts=facts).frame.known
    tried: list[int] = []
    try_rests = symbolic.try_rests

    def counted(number: int) -> None:
        tried.append(symbolic.SPENT.rests)
        try_rests(number)

    monkeypatch.setattr(signs, "try_rests", counted)
    monkeypatch.setattr(signs, "is_refuted", lambda *_: False)  # a member would end it sooner
    for e in (q * m * m + q + m * 2 - x - a, m * m * 3 - q * m - b):
        known.is_nonneg(known.form(e))
    assert symbolic.TRIED_RESTS - 2 <= max(tried) <= symbolic.TRIED_RESTS and len(tried) < 2_000


def test_an_open_quotient_is_bounded_once() -> None:
    known = Context({x: Range(0, 10)}, assume=[y <= 11]).frame.known
    end = symbolic.highest(known, known.form((x * 9 - y + 11) // 12), lambda _: True)
    assert end.form is None and symbolic.SPENT.left > VISITED_MONOMIALS - 20


io, ii, im, jo, k = (Var(name) for name in ("io", "ii", "im", "jo", "k"))


@pytest.mark.parametrize("e", [k * 4 + jo, ii * 2 + k, io * 4 + ii], ids=str)
def test_ends_that_a_point_attains_cost_no_coalescing(e: Expr) -> None:
    ranges = {io: Range(0, 8), ii: Range(0, 4), jo: Range(0, 16), k: Range(0, 2)}
    ctx = Context(ranges, assume=[io * 4 + ii < 17, jo * 4 + k < 19])
    calls = counted(lambda: ctx.bounds(e))
    assert not any(code.co_filename.endswith("coalescing.py") for code in calls)
    assert Claims(world(ranges, ctx.frame.conditions)).bounds(e, None).is_tight


class SplitLoops:
    """Random loops that were split, some with guards, over sizes; and an index over the split axes."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.ranges: dict[Var, Range] = {}
        self.facts = []
        axes: list[Expr] = []
        for name in "ij"[: rng.choice((1, 2))]:
            size = rng.choice((n, m, n + 1, rng.randrange(2, 9)))
            axes.append(self._axis(rng, name, size, rng.choice((1, 1, 2))))
        e = axes[0]
        for axis in axes[1:]:
            e = e * rng.choice((m, n, 5)) + axis
        self.e = rng.choice((e, e, e * m + rng.choice((0, 2)), e // 3, e % 4, axes[0] - axes[-1] * 2, -e))

    def _axis(self, rng: random.Random, name: str, size, depth: int) -> Expr:
        factor = rng.choice((2, 3, 4, t))
        inner: Expr = Var(f"{name}{depth}")
        if depth > 1 and isinstance(factor, int) and rng.random() < 0.6:
            inner = self._axis(rng, name, factor, 1)
        else:
            self.ranges[inner] = Range(0, factor)
        outer = Var(f"{name}{depth}o")
        self.ranges[outer] = Range(0, ceildiv(size, factor))
        total = outer * factor + inner
        if rng.random() < 0.8:
            self.facts.append(total < size if rng.random() < 0.9 else total < size - 1)
        if rng.random() < 0.15:
            self.facts.append(rng.choice((outer >= 1, total >= 1, total + outer <= size + 3)))
        return total


@pytest.mark.parametrize("first", daily(range(0, 600, 10), 60))
def test_random_splits_against_enumeration(first: int) -> None:
    tight = 0
    for seed in range(first, first + 10):
        loops = SplitLoops(seed)
        claims = Claims(world(loops.ranges, loops.facts, [n, m, t]), places=12)
        claims.values(loops.e, None)
        tight += claims.bounds(loops.e, None).is_tight
    assert tight >= 5


@pytest.mark.parametrize("seed", daily(range(40), 40))
def test_one_variable_takes_the_values_of_the_sum_and_no_others(seed: int) -> None:
    """Strides around the runs below them: the run's length, shorter, and longer by one and two, which leaves a gap."""
    rng, replaced, left = random.Random(seed), 0, 0
    for _ in range(30):
        inner, outer = rng.choice((2, 3, t, t + 1)), rng.randint(1, 3)
        stride, sign = inner + rng.choice((-1, 0, 0, 1, 2)), rng.choice((1, -1))
        ranges = {ii: Range(rng.choice((0, 1, -2)), inner), io: Range(rng.choice((0, -1)), outer)}
        total: Expr = io * stride * sign + ii
        if rng.random() < 0.4:
            ranges[im] = Range(0, 2)
            total = total + im * (stride * outer + rng.choice((-1, 0, 0, 1)))
        frame = Context(ranges, assume=[rng.choice((total < n, total >= -n, total <= 4))]).frame
        roots = (rng.choice((total, total * 2 + 1, -total, total * m, total // 2)),)
        found = coalesced(frame, roots, ())
        if found is None:
            left += 1
            continue
        replaced += 1
        before = world(frame.ranges, frame.conditions, [n, m, t]).values(*roots)
        after = world(found[0].ranges, found[0].conditions, [n, m, t]).values(*found[1])
        assert before == after, (ranges, frame.conditions, roots, found)
    assert replaced >= 6 and left >= 4
