"""Drawn instances that refute signs: each is an instance; signs derived without them remain."""

from __future__ import annotations

import pytest

from benchmarks import tiles
from bound import infer_bound
from bound.errors import ScheduleError
from bound.infer.footprints.environment import LoopEnvironment, Witnesses, create_account
from intset import Context, Range, ShapeVar, Var
from intset.linear.form import Linear

CASES = (
    "doc_ex6_fuse_split8",
    "repeat_mod",
    "nested_split_outer_30_3_4",
    "thread_warp_const",
    "stencil_chain_relax_root",
)


@pytest.mark.parametrize("name", CASES)
def test_no_derived_sign_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[LoopEnvironment, Linear]] = []
    follows = LoopEnvironment._follows

    def recorded(env: LoopEnvironment, form: Linear) -> bool:
        if env.witnesses.refute(form):
            asked.append((env, form))
            assert not env.normalizer.is_nonneg(form), form
        return follows(env, form)

    monkeypatch.setattr(LoopEnvironment, "_follows", recorded)
    for case in tiles.tiled(name):
        try:
            infer_bound(case.schedule, at=case.sizes or None)
        except ScheduleError:
            continue
    assert asked


def test_instances_satisfy_facts_and_run_every_loop() -> None:
    n, t = ShapeVar("n", lower=1), ShapeVar("t", lower=2, upper=9)
    o, i = Var("o"), Var("i")
    env = LoopEnvironment(Context({}, assume=[n % 4 == 0, t <= n]), [n], "auto", create_account(1))
    form = env.form
    assert env.witnesses.refute(form(n - 30)) and not env.witnesses.refute(form(n - t))
    env.add(o, Range(0, (n - 1) // t))
    env.add(i, Range(o * t, t))
    assert not env.witnesses.refute(form(i - o * t)) and not env.witnesses.refute(form(o * t + t - 1 - i))
    assert env.witnesses.refute(form(o - 1)) and env.witnesses.refute(form(i - o * t - 1))


def test_contradictory_facts_leave_no_instance() -> None:
    n = ShapeVar("n", lower=1)
    context = Context({}, assume=[n >= 5]).extended(facts=[n <= 3])
    witnesses = Witnesses(context, lambda v: (1, None), {})
    assert not witnesses.refute(Linear(-1, {}))
