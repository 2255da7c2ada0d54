"""Facts equivalent to ranges give the answers of these ranges; checked by enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import Context, Fact, InputError, Range, ShapeVar, Var
from intset.expr.node import as_expr
from intset.infinity import NEG_INF

I, J = Var("i"), Var("j")
N, M = Var("n"), ShapeVar("m", lower=1)


def phrased(rng, var, low, high):
    """A random spelling of `low <= var < high`."""
    lower = rng.choice((lambda: var >= low, lambda: low <= var, lambda: var > low - 1, lambda: 2 * var - 2 * low >= -1))
    upper = rng.choice(
        (lambda: var < high, lambda: high > var, lambda: var + 1 <= high, lambda: high - var > 0, lambda: -var > -high)
    )
    if rng.random() < 0.2:
        return [lower() & upper()]
    return [lower(), upper()]


EXPRS = (I, I + J, I * M + J, I * 3 + J, (I * M + J) // M, J - I, I * J, I % 3, (I * 4 + J) % 5, I * M * N, J * 2)
ENDS = ((0, N), (0, M), (N, M), (0, 5), (N, N + 3), (-M, M), (1, N * M), (0, N + M), (2, 7))


def test_facts_are_answered_like_ranges():
    rng = random.Random(0)
    equal = 0
    for _ in range(40):
        (a, b), (c, d) = rng.choice(ENDS), rng.choice(ENDS)
        conditions = [*phrased(rng, I, as_expr(a), as_expr(b)), *phrased(rng, J, as_expr(c), as_expr(d))]
        rng.shuffle(conditions)
        stated = Context.from_constraints([I, J], conditions)
        extents = [Context().simplify(as_expr(high) - low) for low, high in ((a, b), (c, d))]
        ranges = Context({I: Range(a, extents[0]), J: Range(c, extents[1])})
        e = rng.choice(EXPRS)
        keep = rng.choice(((), (), (J,)))
        for ask in (
            lambda ctx: ctx.bounds(e, keep=keep),  # noqa: B023
            lambda ctx: ctx.value_set(e, keep=keep),  # noqa: B023
            lambda ctx: ctx.image((e, J), keep=keep),  # noqa: B023
            lambda ctx: ctx.prove(e < 4).status,  # noqa: B023
        ):
            assert repr(ask(stated)) == repr(ask(ranges)), (conditions, e)
            equal += 1
    assert equal == 160


def test_the_facts_stay_facts():
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


@pytest.mark.parametrize(
    ("variables", "conditions", "words"),
    [
        (3, [], "sequence of variables"),
        ("ij", [], "sequence of variables"),
        (None, [], "sequence of variables"),
        ({I, J}, [], "sequence of variables"),
        ([I, 3], [], "vars must be a variable"),
        ([I + 1], [], "vars must be a variable"),
        ([I], 3, "list of them"),
        ([I], None, "list of them"),
        ([I], "i < 3", "list of them"),
        ([I], [3], "must be a condition"),
        ([I], [True], "must be a condition"),
        ([I], [I], "must be a condition"),
        ([I], [None], "must be a condition"),
    ],
)
def test_bad_constraints_are_refused(variables, conditions, words):
    with pytest.raises(InputError, match=words):
        Context.from_constraints(variables, conditions)


def test_from_constraints_takes_what_a_context_takes():
    assert Context.from_constraints(I, I < 3).bounds(I).by
    assert Context.from_constraints((v for v in (I, J)), (c for c in (I.eq(3), J.eq(4)))).bounds(I + J).ints() == (7, 7)
    assert Context.from_constraints([I], [I >= 0, I < 4], domain="interval").bounds(I).by == "interval"
    with pytest.raises(InputError, match="unknown domain"):
        Context.from_constraints([I], [], domain="octagon")
    with pytest.raises(InputError, match="mapping"):
        Context([I])


def test_the_certificate_of_bounds_is_about_the_context_that_was_asked():
    for ctx in (
        Context({I: Range(0, 100), J: Range(0, M)}, assume=[I < N]),
        Context({I: None, J: None}, assume=[I >= 0, I < N, J >= 0, J < M]),
    ):
        bounds = ctx.bounds(I * M + J)
        certificate = bounds.certificate()
        assert bounds.is_tight and certificate.check(ctx) and certificate.ranges == tuple(ctx.ranges.items())
        assert certificate.at_lower is not None and certificate.at_upper is not None


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


def test_a_fact_alternates_deeply() -> None:
    fact = I < 4
    for k in range(1_000):
        fact = ~((fact | (k % 5 < J)) & (I + k >= k - 3))
    assert Context({I: Range(0, 8), J: Range(0, 9)}, assume=[fact]).bounds(I + J) == (0, 11)
