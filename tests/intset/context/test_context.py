"""Contexts: ends, refusals, facts that are ranges, annotation, substitution, the cache of proofs."""

import itertools
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bound
import intset
import lowering
from bound import te
from intset import (
    Context,
    Fact,
    InputError,
    Range,
    ShapeVar,
    Var,
    annotate_shapes,
    evaluate,
    floordiv,
    floormod,
    frame,
    nonneg,
    select,
)
from intset.expr.node import NEG_INF, truth
from intset.frame import Frame
from intset.prover.proof import PROOFS, Lru
from lowering import lower
from lowering.nest.ir import Assert
from lowering.nest.walk import statements
from tests.intset.elsewhere import in_threads
from tests.strategies.contexts import AFFINE, Drawn
from tests.strategies.refusals import refused_with_words

i, j, k, x, y = (Var(name) for name in "ijkxy")
n, m, p = ShapeVar("n"), ShapeVar("m"), ShapeVar("p")


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("must be a Range", lambda: Context({i: (0, 4)})),
    ("belongs to a variable", lambda: Context({"i": Range(0, 4)})),
    ("must not be negative", lambda: Range(0, -1)),
    ("must be an integer", lambda: Range(0, 2.5)),
    ("depends on", lambda: Context({i: Range(0, j), j: Range(0, i)})),
    ("must be a condition", lambda: Context({}, assume=[True])),
    ("must be a condition", lambda: Context({}, assume=[i])),
    ("must be a condition", lambda: Context({}).prove(i)),
    ("must be an integer", lambda: Context({}).bounds(1.5)),
    ("truth value", lambda: Context({}).bounds(True)),
    ("takes a tuple", lambda: Context({}).image(i)),
    *(
        ("", lambda wrong=wrong: Context({}).bounds(i, **wrong))
        for wrong in ({"keep": np.int64(3)}, {"over": np.array([1])})
    ),
    ("", lambda: Context({}, assume=np.int64(3))),
    ("keep must be a variable", lambda: Context({}).bounds(i, keep=("i",))),
    ("must be an integer", lambda: i + 1.5),
    ("truth value", lambda: i + np.bool_(True)),
    ("must be a condition", lambda: select(True, i, j)),
    ("truth value of the condition", lambda: bool(i < 3)),
    ("has no value", lambda: ShapeVar("n", lower=5, upper=3)),
    ("at least 1", lambda: Context({}).fits(i, bits=0)),
    ("did you mean 'isl'", lambda: Context({}, domain="isll")),
    ("mapping", lambda: Context([i])),
    ("unknown domain", lambda: Context.from_constraints([i], [], domain="octagon")),
    *(("sequence of variables", lambda v=v: Context.from_constraints(v, [])) for v in (3, "ij", None, {i, j})),
    *(("vars must be a variable", lambda v=v: Context.from_constraints([v], [])) for v in (3, i + 1)),
    *(("list of them", lambda c=c: Context.from_constraints([i], c)) for c in (3, None, "i < 3")),
    *(("must be a condition", lambda c=c: Context.from_constraints([i], [c])) for c in (3, True, i, None)),
    ("", lambda: annotate_shapes("n", n)),
    ("", lambda: annotate_shapes(x, "n")),
    ("", lambda: annotate_shapes(x, {3: (0, 1)})),
    ("", lambda: annotate_shapes(x, {x: 3})),
    ("", lambda: bound.annotate_shapes(3.5, n)),
]
test_bad_input_gets_one_clear_error = refused_with_words(REFUSED)


def test_contexts_pickle_are_made_from_constraints_and_keep_their_facts():
    ctx = Context({i: Range(0, n)}, assume=[i < 9])
    again = pickle.loads(pickle.dumps(ctx))
    assert again.bounds(i * 2) == ctx.bounds(i * 2)
    assert repr(ctx) == "<Context i in [0, n - 1] | assumed: i < 9>"
    assert Context.from_constraints(I, I < 3).bounds(I).by
    assert Context.from_constraints((v for v in (I, J)), (c for c in (I.eq(3), J.eq(4)))).bounds(I + J).ints() == (7, 7)
    assert Context.from_constraints([I], [I >= 0, I < 4], domain="interval").bounds(I).by == "interval"
    ctx = Context({I: None, J: None}, assume=[I >= 0, Fact(I < N, "asserted"), J >= 0, M > J])
    assert ctx.ranges[I].min is NEG_INF and len(ctx.facts) == 4
    proof = ctx.prove(I * M + J < N * M)
    assert proof and {"asserted", "assumed"} <= {fact.provenance for fact in proof.used}
    assert Fact(I < N, "asserted") in proof.used and (J < M) not in proof.requires and (M > J) in proof.requires
    assert ctx.prove(I < N + 5).used == (Fact(I < N, "asserted"),)
    assert ctx.bounds(I * M + J).is_tight
    with ctx.assuming(I < 3):
        assert repr(ctx.bounds(I)) == "(0, minimum(2, n - 1))" or ctx.bounds(I)[1].free_vars() == (N,)
    assert repr(ctx.bounds(I)) == "(0, n - 1)"
    assert repr(ctx.extended(facts=[N < 5]).bounds(I)) in ("(0, n - 1)", "(0, minimum(n - 1, 3))")


I, J = Var("i"), Var("j")
N, M = Var("n"), ShapeVar("m", lower=1)


@pytest.mark.parametrize("ranges", ["box", "box sized"])
def test_facts_are_answered_like_ranges(ranges):
    for seed in range(10):
        options = {"sizes": 2, "facts": 0, "kept": 20, "depth": 1}
        plain, stated = (Drawn(f"stated {seed}", AFFINE, ranges, stated=flag, **options) for flag in (False, True))
        for ask in (
            lambda drawn: drawn.ctx.bounds(drawn.exprs[0], keep=drawn.keep),
            lambda drawn: drawn.ctx.value_set(drawn.exprs[0], keep=drawn.keep),
            lambda drawn: drawn.ctx.image((drawn.exprs[0], next(iter(drawn.ranges))), keep=drawn.keep),
            lambda drawn: drawn.ctx.prove(drawn.exprs[0] < 4).status,
        ):
            assert repr(ask(stated)) == repr(ask(plain)), plain


@pytest.mark.parametrize("declared", [False, True], ids=["a range", "a size"])
def test_values_that_a_fact_excludes_at_an_end(declared: bool) -> None:
    """`k*x + c != 0` shortens a range at either end, again and again, and leaves holes inside alone."""
    shortened = 0
    for low, high in ((0, 0), (0, 3), (1, 2), (2, 6)):
        for k, c in itertools.product((-3, -2, -1, 1, 2, 3), range(-13, 14)):
            for more in ((), (low,), (high,), (low + 1,), (low, high)):
                x = ShapeVar("x", lower=low, upper=high) if declared else Var("x")
                left = [v for v in range(low, high + 1) if k * v + c != 0 and v not in more]
                if not left:
                    continue
                facts = [(x * k + c).ne(0), *(x.ne(v) for v in more)]
                ctx = Context({} if declared else {x: Range(low, high - low + 1)}, assume=facts)
                ends = ctx.bounds(x * 2 + 1, keep=()) if not declared else ctx.frame.known.atom_bounds(x)
                expected = (left[0], left[-1]) if declared else (2 * left[0] + 1, 2 * left[-1] + 1)
                assert tuple(map(int, ends)) == expected, (low, high, facts, ends)
                shortened += len(left) < high - low + 1
    assert shortened > 100


NESTED = 200  # more than `NESTED_CHOICES`


@pytest.mark.parametrize("cases", [40, 600])
def test_disjunctions_nest_deep(cases: int) -> None:
    """Chains of either nesting tighten ranges; of disjunctions inside of conjunctions only so many levels do."""
    left = right = between = I.eq(0) & J.eq(0)
    for k in range(1, cases):
        case = I.eq(3 * k) & J.eq(k % 7)
        left, right = left | case, case | right
        between = case | ((k % 3 <= J) & between) if k < NESTED else between
    ranges = {I: Range(0, 4096), J: Range(0, 8)}
    for fact in (left, right):
        ctx = Context(ranges, assume=[fact])
        assert tuple(map(int, ctx.bounds(I, effort="fast"))) == (0, 3 * (cases - 1))
        assert ctx.prove(3 * (cases - 1) >= I) and ctx.prove(J < 7)
    ctx = Context(ranges, assume=[between])
    low, high = map(int, ctx.bounds(I, effort="fast"))
    last = min(cases, NESTED)
    taken = [3 * k for k in range(last) if all(k % 7 >= other % 3 for other in range(k + 1, last))]
    assert low <= taken[0] and taken[-1] <= high and not ctx.prove(taken[0] < I)
    assert cases > NESTED or (low, high) == (taken[0], taken[-1])


def flatten(size):
    """The flatten of an n by n array; its result and its axis."""
    a = te.placeholder((size, size), name="A")
    b = te.compute((size * size,), lambda i: a[floormod(i, size), floordiv(i, size)], name="B")
    return a, b, b.op.axis[0]


# -- annotate_shapes --------------------------------------------------------------------------------------------------


def test_annotate_shapes_states_more_than_a_sign_of_all_that_is_built():
    a = Var("a")
    for known in (Range(1, 64), (1, 64), ShapeVar("s", lower=1, upper=64), (a >= 1) & (a <= 64)):
        assert Context().prove(annotate_shapes(100 // a, {a: known}) >= 1)
    eight = annotate_shapes((a + 3) // 8, {a: ShapeVar("s", multiple_of=8)})
    assert Context().prove((eight * 8).eq(annotate_shapes(a, {a: a.ne(a + 1) & (a % 8).eq(0)})))
    twice = annotate_shapes(nonneg(a), {a: (None, 7)})
    assert Context().prove((twice >= 0) & (twice <= 7))
    size = te.var("n")
    a, b, _ = flatten(size)
    assert "nonneg(n)" in str(bound.annotate_shapes(b, a)) and "nonneg" not in str(b.op.body[0])
    assert bound.te.annotate_shapes([size * 2], a) == [nonneg(size) * 2]
    f = lower(te.create_schedule(b.op), [a, b])
    bare = f.with_body(next(stmt for stmt in f.body.stmts if not isinstance(stmt, Assert)))
    again = lowering.annotate_shapes(bare)
    conds = [stmt.cond for stmt in statements(again.body) if isinstance(stmt, Assert)]
    assert conds == [size >= 0]
    assert lowering.annotate_shapes(again) is again


# -- facts survive ----------------------------------------------------------------------------------------------------


def test_renamed_keeps_what_is_known():
    io, ii = Var("io"), Var("ii")
    ctx = Context({i: Range(0, n), k: Range(0, i + 1)}, assume=[Fact(i % 2 + n >= 1, "asserted"), n <= 100])
    tiled = ctx.renamed({i: io * 4 + ii}, {io: Range(0, (n + 3) // 4), ii: Range(0, 4)})
    assert tiled.prove(io * 4 + ii < n) and tiled.prove(io * 4 + ii >= 0)
    assert tiled.prove(k <= io * 4 + ii)
    assert {fact.provenance for fact in tiled.facts} == {"asserted", "assumed", "derived"}
    assert tiled.prove(io <= 24).requires == (n <= 100,)
    assert not tiled.prove(io * 4 + ii < n - 1)
    size = ShapeVar("s", lower=8, upper=64, multiple_of=8)
    ctx = Context({i: Range(0, size)}).renamed({size: x * 2, i: j})
    assert ctx.ranges[j] == Range(0, x * 2)
    assert ctx.prove(x >= 4) and ctx.prove((x % 4).eq(0)) and ctx.prove(j < 64)
    assert {fact.provenance for fact in ctx.prove(x >= 4).used} == {"declared"}
    with pytest.warns(intset.ContradictionWarning):
        assert Context({}, assume=[x > 3]).renamed({x: intset.const(2)}).prove(truth(False)).vacuous
    with pytest.raises(InputError):
        ctx.renamed({x + 1: y})


# -- the cache of proofs ----------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_cache():
    PROOFS.clear()
    yield PROOFS
    PROOFS.clear()


def test_a_repeated_question_is_looked_up_and_an_unknown_or_a_budget_is_asked_again(fresh_cache):
    goal = i * i < n * n * n * n
    first = Context({i: Range(0, n * n)}).prove(goal)
    assert Context({i: Range(0, n * n)}).prove(goal) is first
    beside = Context({i: Range(0, n * n), j: Range(0, 9), k: None}, assume=[j < 5])
    assert beside.prove(goal) is first  # what shares no variable with the question does not matter
    assert fresh_cache.hits == 2
    goal = ((i * 7) % 9).ne(3)
    first = Context({i: Range(0, 9)}).prove(goal)
    size = ShapeVar("s", lower=3, multiple_of=4)
    ctx = Context({i: Range(0, 9), j: Range(5, 9), y: None}, assume=[j > 2, size <= 12])
    hits = fresh_cache.hits
    second = ctx.prove(goal)
    assert fresh_cache.hits == hits + 1 and first.status == second.status == "refuted"
    assert set(second.counterexample) >= {i, j, y, size}
    assert all(evaluate(fact.condition, second.counterexample) for fact in ctx.facts)
    assert size.lower <= second.counterexample[size] and second.counterexample[size] % 4 == 0
    goal = (x * x * x + y * y * y).ne(114 * 4 * 4 * 4 + 33)
    ctx, large = Context({i: Range(0, n * n)}), i * i < n * n * n * n
    with intset.using(tiers="linear", points=0):
        assert ctx.prove(large).status == "unknown"
    first = ctx.prove(large)
    with intset.using(z3_rlimit=3_000_000):
        assert ctx.prove(large).basis.config.z3_rlimit == 3_000_000
    assert first and ctx.prove(large) is first
    for tier in ("linear", "z3"):
        with intset.using(tiers=tier):
            assert ctx.prove(i <= n * n).by == tier
    with intset.using(z3_rlimit=1000):
        small = Context({}).prove(goal)
    assert small.status in ("unknown", "refuted")


def test_nothing_leaks_through_the_cache(fresh_cache):
    ctx = Context({i: Range(0, 100)})
    goal = i < 8
    for _ in range(2):
        assert ctx.prove(goal).status == "refuted"
        with ctx.assuming(i < 8):
            assert ctx.prove(goal)
            with pytest.raises(RuntimeError), ctx.assuming(i < 3):  # noqa: PT012
                assert ctx.prove(i < 3)
                raise RuntimeError
            assert ctx.prove(i < 3).status == "refuted"
        with ctx.assuming(i < 9):
            assert ctx.prove(goal).status == "refuted"
    assert Context({i: Range(0, 8)}).prove(goal) and Context({}).prove(goal).status == "refuted"
    # facts that exclude one another, about other variables, prove everything in their own context alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intset.ContradictionWarning)
        odd = Context({i: Range(0, 100)}, assume=[x > 3, x < 2])
        assert odd.prove(goal).vacuous
        assert Context({i: Range(0, 100), j: Range(0, 0)}).prove(goal).vacuous
        assert Context({i: Range(0, 100)}, assume=[(x % 2).eq(0), (x % 4).eq(1)]).prove(goal).vacuous
    assert Context({i: Range(0, 100), x: None}, assume=[x > 3]).prove(goal).status == "refuted"
    maybe = Context({i: Range(0, 100), j: Range(0, n)}).prove(n >= 1)
    assert maybe and Context({i: Range(0, 100)}).prove(n >= 1).status == "refuted"
    # provenance distinguishes facts with equal conditions
    assumed = Context({}, assume=[x >= 3]).prove(x >= 2)
    asserted = Context({}, assume=[Fact(x >= 3, "asserted")]).prove(x >= 2)
    assert assumed.requires == (x >= 3,) and asserted.requires == ()


def test_the_cache_is_bounded_and_safe_for_threads(fresh_cache):
    cache = Lru(3)
    proof = Context({}).prove(truth(True))
    for number in range(5):
        cache.put(number, proof)
        cache.get(2)
    assert len(cache) == 3 and cache.get(2) is proof and cache.get(0) is None

    def work(number: int) -> None:
        for k in range(60):
            last = (k * (number + 1)) % 7
            assert bool(Context({i: Range(0, 5)}).prove(i <= last)) is (last >= 4)

    in_threads(work, 4)


X, Y, Z = (Var(name) for name in "xyz")


def stated(seed: int) -> tuple[dict[Var, Range], list[Any]]:
    """Ranges of numbers, and comparisons of a variable with a number; rarely others."""
    r = random.Random(seed)
    ranges = {v: Range(r.randint(-3, 5), r.choice((1, 2, 5, 9))) for v in (X, Y, Z)[: r.randint(1, 3)]}
    facts = []
    for _ in range(r.randint(1, 4)):
        v, c = r.choice(list(ranges)), r.randint(-4, 14)
        facts.append(r.choice((v < c, v <= c, v > c, v >= c, v.eq(c), v.ne(c) if r.random() < 0.2 else v < c)))
    return ranges, facts


def read(ranges: dict[Var, Range], facts: list[Any]) -> tuple[object, ...]:
    scope: Frame = Context(ranges, assume=facts).frame
    known = scope.known
    intervals = None if known.empty else dict(known.ranges)
    return intervals, known.empty, known.depth, known.is_box, repr(known.assumptions), scope.conditions, scope.running


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
def test_as_the_general_way_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [stated(seed) for seed in range(400)]
    at_once = [read(*one) for one in drawn]
    count = sum(frame._within_ends(Frame.of(r).base, f) is not None for r, f in drawn)
    assert count > 80
    monkeypatch.setattr(frame, "_within_ends", lambda base, facts: None)
    assert at_once == [read(*one) for one in drawn]
