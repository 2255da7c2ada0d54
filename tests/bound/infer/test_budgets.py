"""Budgets and growth of InferBound: one shared account, no BudgetError, cost linear in the number of stages."""

import itertools
from contextlib import AbstractContextManager

import pytest

from benchmarks.calls import counted
from benchmarks.growth import FAMILIES
from bound import infer_bound, te
from bound.infer.environment import LoopEnvironment
from bound.infer.footprint import FOOTPRINT_ENDS
from intset import ShapeVar
from intset.domains.isl.session import budget, context, isl
from intset.errors import BudgetError
from intset.regions.shape import Account
from tests.bound.oracle import check
from tests.lowering.lowered import check as check_nest
from tests.strategies.written import Written
from tests.sweeps import daily


def give_up(account: Account, operations: int) -> None:
    """A question that takes more operations."""
    with pytest.raises(BudgetError), budget(operations, account):  # noqa: PT012  # some step of these
        hard = isl().Set.read_from_str(
            context(),
            "[n, m] -> { [x, y, z] : exists a, b, c: x = 3a + 5b and y = 7b - 2c and z = 11c + a"
            " and 0 <= a < n and 0 <= b < m and 0 <= c < n and (x + y) mod 13 < 5 and (y - z) mod 17 > 3 }",
        )
        for k in range(3):
            hard = hard.union(hard.apply(isl().Map.read_from_str(context(), f"{{ [x, y, z] -> [y + {k}, z, x] }}")))
            hard = hard.subtract(hard.apply(isl().Map.read_from_str(context(), "{ [x, y, z] -> [x + 1, y, z] }")))


def test_what_is_given_up_is_charged_and_later_steps_get_what_is_left() -> None:
    account, closed, outer = (Account(50_000, least=2_000) for _ in range(3))
    with budget(40_000, account):  # cheap steps are not charged
        assert not isl().Set.read_from_str(context(), "{ [x] : 0 <= x < 10 }").is_empty()
    assert account.left == 50_000
    give_up(account, 40_000)
    assert account.left == 10_000 and account.allowed(40_000) == 10_000
    give_up(account, 40_000)
    assert account.left == 0 and account.allowed(40_000) == 2_000 and account.allowed(100) == 100
    closed.close()
    give_up(closed, 40_000)
    assert closed.left == 50_000
    with budget(20_000, outer):  # a budget inside of another is charged once
        give_up(outer, 10_000)
    assert 10_000 <= 50_000 - outer.left < 20_000  # what the inner one used, and little else


def test_a_region_whose_condition_takes_long_to_write_is_answered() -> None:
    s = Written("""
        A = given(9); r = axis(0, 2)
        B[i:2, j:4] = A[te.min(j, i) + 6]
        read = lambda i, j: B[tir.truncdiv(j - 4, 2) + 2, te.max(te.min(i * 2 + 1, 3), 0)] * 2.0
        C[i:6, j:2] = sum_(B[r, (j + r) % 4 + 1] + read(i, j), axis=r)
        D[i:6, j:4] = C[te.min(i * 2, 5), te.min((j + i) % 4, 1)] + C[(j * 4 + i) // 3, i % 2] * 2.0
        E[i:4] = D[i % 3, te.min(i + i, 3)] + C[i // 2, i % 2] * 2.0
        local = s.cache_write(C, "local")
        local split r 2
        partial = s.rfactor(local, s[local].leaf_iter_vars[-2])
        E split i nparts=3 tail=shift_inwards; E fuse i.outer i.inner
        D compute_at E i.outer.i.inner.fused; D fuse i j; C compute_at E i.outer.i.inner.fused; C split i 3
        C reorder i.inner j i.outer
        final = next(stage.op.output(0) for stage in s.stages if stage.name.endswith("repl"))
        final compute_at C i.inner
        s[final].split(s[final].op.reduce_axis[0], nparts=4)
        s[B].compute_at(s[partial], s[partial].leaf_iter_vars[-1])""").s
    b = infer_bound(s)
    check(b, exact=not any(b.required(t).notes for stage in b.schedule.stages for t in stage.op.outputs))


SPENDING = {
    # a reduction over a tensor of unknown size, its producer inside fused tiles; no end is a number
    "fused tiles": """
        A = given(4, 4, n, dtype="int32"); r = axis(0, 2)
        P[i:4, j:4, k:n] = A[i, j, k] * 3
        C[i:4, j:4, k:n] = sum_(P[(i + r) % 4, j, k], axis=r)
        C fuse i j; C split i.j.fused 3 tail=shrink; P compute_at C i.j.fused.outer""",
    # rows of a tensor of unknown size that are kept for the next iterations
    "sliding rows": """
        A = given(n + 4, dtype="int32")
        P[i:n + 3] = A[i] + A[i + 1]
        Q[i:n + 1] = where(i > 1, P[i], P[i + 2])
        C[i:n] = Q[i] + Q[i + 1] * P[i]
        C split i 4; P compute_at C i.inner; P store_at C i.outer; Q compute_at C i.inner""",
    "tiles of unknown size": """
        A = given(13, 9, dtype="int32")
        P[i:13, j:9] = A[i, j] + 1
        C[i:12, j:9] = P[i, j] + P[i + 1, 8 - j]
        C split i n; P compute_at C i.outer""",
}
SPENT = itertools.product(SPENDING, (FOOTPRINT_ENDS, None), (False, True))


@pytest.mark.parametrize(("name", "spent", "compact"), daily(SPENT, 3))
def test_a_budget_that_is_spent_leaves_an_answer(
    name: str, spent: int | None, compact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One operation as the limit of a budget, or of every budget: the nest computes what it should."""
    whole = LoopEnvironment.budget

    def budget_of(env: LoopEnvironment, operations: int) -> AbstractContextManager[None]:
        return whole(env, 1 if spent is None or operations == spent else operations)

    monkeypatch.setattr(LoopEnvironment, "budget", budget_of)
    s = Written(SPENDING[name], n=ShapeVar("n", lower=1) if "unknown" in name else te.size_var("n")).s
    b = infer_bound(s, compact=compact)
    for stage in b.schedule.stages:
        for t in stage.op.outputs:
            assert b.explain(t) and len(b.required(t).box) == t.ndim
    check_nest(s, {"n": 5}, bounds=b)


def calls(name: str, n: int) -> int:
    """Function calls of one inference: a machine-independent cost."""
    schedule = FAMILIES[name](n)
    return counted(lambda: infer_bound(schedule)).total()


@pytest.mark.parametrize("times", daily([4, 8], 2))
@pytest.mark.parametrize("name", FAMILIES)
def test_so_many_times_the_stages_cost_so_many_times_as_much(name: str, times: int) -> None:
    calls(name, 5)  # imports and caches
    assert calls(name, 10 * times) <= 1.1 * times * calls(name, 10)


def counted_down(n: int) -> te.Tensor:
    """The last of n tensors, each two elements shorter than the one before, by a size that the script writes on."""
    size = te.var("n") + 2 * n
    x = te.placeholder((size,), name="A")
    for k in range(n):
        size = size - 2
        x = te.compute((size,), lambda i, x=x: x[i] + x[i + 2], name=f"T{k}")
    assert str(x.shape[0]) == "n"
    return x


def test_a_size_that_a_script_writes_on_is_read_once_a_step() -> None:
    counted_down(5)
    short, long = (counted(lambda n=n: counted_down(n)).total() for n in (10, 80))
    assert long <= 1.1 * 8 * short
