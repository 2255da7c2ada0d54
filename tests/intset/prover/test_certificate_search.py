"""Certificate search: its budgets, and a certificate for every proof that uses facts."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from intset import Cond, Context, Expr, Range, ShapeVar, Var, asserting, bounded, nonneg, truncmod
from intset.check.certificate import Certificate
from intset.check.evidence import Expander
from intset.check.solvers import unsat_text
from intset.prover import certify
from intset.prover.combination import SearchBudget, SearchSpentError

i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")
m = ShapeVar("m", 2, 14, 4)


@pytest.fixture
def charged(asked_anew: None) -> Iterator[list[int]]:
    """The steps that searches take meanwhile."""
    steps: list[int] = []
    charge = SearchBudget.charge

    def counted(effort: SearchBudget, more: int) -> None:
        steps.append(min(more, effort.left))
        charge(effort, more)

    with patch.object(SearchBudget, "charge", counted):
        yield steps


def test_steps_run_out() -> None:
    effort = SearchBudget(10)
    effort.charge(10)
    with pytest.raises(SearchSpentError, match="10 steps"):
        effort.charge(1)


@pytest.mark.parametrize(
    ("ctx", "e"),
    [
        (Context({i: Range(m * 7, 1)}, assume=[m <= 10]), truncmod(i * 7, 5) % 5),
        (Context({k: Range(i * 5, 3), i: Range(10 - n, 3)}, assume=[n >= -3, n <= 6]), (k % 8) // 5 + k - i * 8),
        (Context({i: Range(0, 56), j: Range(0, 3), k: Range(0, 7)}), ((i * 21 + j * 7 + k) % 13 * 5 + i) // 3 % 4),
    ],
)
def test_what_others_can_show_is_not_searched_for_long(charged: list[int], ctx: Context, e: Expr) -> None:
    found = ctx.bounds(e).certificate()
    assert found.check(ctx)
    assert sum(charged) < 6 * certify.CERTIFY_SOON + certify.CERTIFY_STEPS // 10


def test_a_search_ends(charged: list[int]) -> None:
    goal = (i * i * j + j * j * k + k * k * i) % 7 * (i - j) * (j - k) * (k - i) <= 6 * 20**3
    ctx = Context({i: Range(0, 20), j: Range(0, n), k: Range(0, 20)}, assume=[n <= 20, i + j <= k + n])
    proof = ctx.prove(goal)
    with patch.object(certify, "_FINDERS", {**certify._FINDERS, **dict.fromkeys(("isl", "points", "z3"), _nothing)}):
        claims = [certify.claim_of(goal, proof.basis, proof.basis.facts)] * 3
        certify.first_accepted(claims, proof.basis, ("linear", "isl"), SearchBudget(2 * certify.CERTIFY_SOON))
    assert 0 < sum(charged) < 4 * certify.CERTIFY_SOON


def _nothing(*_: object) -> Iterator[object]:
    return iter(())


@pytest.mark.parametrize(
    ("ctx", "goal"),
    [
        (Context({i: Range(0, n)}), n >= 1),
        (Context({i: Range(3, n - 3)}), n >= 4),
        (Context({i: Range(3, n // 2)}), n >= 2),
        (Context({i: Range(n, 7 - n), j: Range(0, 3)}), n <= 6),
        (Context({i: Range(0, n), j: Range(0, k)}), n + k >= 2),
    ],
)
def test_that_no_range_is_empty_is_a_premise(ctx: Context, goal: Cond) -> None:
    proof = ctx.prove(goal)
    assert proof and proof.certificate().check(ctx) and not proof.certificate().check(Context({}))


@pytest.mark.parametrize(
    "goal",
    [
        asserting(i <= 2, asserting(j <= 3, i + j)) <= 5,
        asserting(i <= 2, asserting(i.ne(j), j)) <= 5,
        nonneg(nonneg(i) - j) <= 3,
        bounded(nonneg(i) - 1, 0, 2) + j <= 7,
        asserting((i <= 1) & (j <= 2), asserting(i >= 0, asserting(j >= i, i * 3 + j))) <= 5,
    ],
)
def test_what_is_asserted_inside_of_an_assertion_belongs_to_the_goal(goal: Cond) -> None:
    ctx = Context({i: Range(-2, 6), j: Range(0, 7)})
    proof = ctx.prove(goal)
    assert proof.status != "unknown" and proof.certificate().check(ctx)
    for side in goal.args:
        if not side.is_const:
            assert ctx.bounds(side).certificate().check(ctx)


def test_what_only_one_branch_asserts_does_not_belong_to_the_goal() -> None:
    ctx = Context({i: Range(-2, 6)})
    there = (i < 0) | (asserting(i <= 2, i) >= 0)
    cert = Context({i: Range(-2, 6)}, assume=[i <= 2]).prove(i <= 2).certificate()
    assert cert.check() and not cert.check(ctx)
    assert ctx.prove(there).certificate().check(ctx)


@pytest.mark.parametrize("squarings", [5, 20])
def test_z3_is_not_handed_products_of_a_high_degree(squarings: int) -> None:
    """z3 expands products outside its unit count."""
    e: Expr = i
    for _ in range(squarings):
        e = e * e
    asked = [Certificate("z3", goal) for goal in (e >= -1, (j // e).eq(j), e % j >= 0)]
    assert [unsat_text(cert) is None for cert in asked] == [squarings > 5] * 3


def test_conjunctions_are_written_in_the_order_in_which_operands_were_met() -> None:
    written = set()
    for _ in range(40):  # where variables lie, and so how a set of them is ordered, differs
        a, b, c = (Var(name) for name in "abc")
        expander = Expander()
        expander.poly((a ^ b) & (b | c) ^ c & a)
        written.add(tuple(str(node) for node in expander.nodes.values()))
    assert len(written) == 1
