"""Small programs for the tests of replay, and what their schedules show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bound import replay, te
from bound.schedule import Schedule
from bound.tensor import Tensor
from tests.lowering.lowered import check
from tests.strategies.written import Written, pointwise, reduced


def given(*shape, name="T0"):
    return te.placeholder(shape, name=name)


def positions(s: Schedule, *tensors: Tensor) -> list[int]:
    return [s[t].compute_at_position for t in tensors]


def depths(s: Schedule, *tensors: Tensor) -> list[int]:
    return [s[t].max_producer_position for t in tensors]


def loops(s: Schedule, *tensors: Tensor) -> list[str]:
    """What `replay.domain` prints, without the name of the tensor."""
    return [str(replay.domain(s, t)).removeprefix(t.op.name) for t in tensors]


def lowered(s: Schedule, sizes: Mapping[str, int] | None = None, **how: Any) -> str:
    """Lower a schedule, compare a run with the reference; gives the nest."""
    return str(check(s, sizes, **how))


def refusal(s: Schedule, *args: Any, call: Any = replay.compute_at) -> replay.ReplayError:
    with pytest.raises(replay.ReplayError) as info:
        call(s, *args)
    return info.value


def kinds(error: replay.ReplayError) -> list[str]:
    return [repair.kind for repair in error.repairs]


def rules(outcome: Any) -> list[str]:
    return [reason.rule for reason in outcome.reasons]


SHOWN = {f.__name__: f for f in (positions, depths, loops)}


def written(text: str, **names: Any) -> Written:
    """A program from text; its calls are the functions of `replay`."""
    calls = {name: getattr(replay, name) for name in replay.__all__ if name[0].islower()}
    return Written(text, **calls, lowered=lowered, refusal=refusal, kinds=kinds, rules=rules, **names)


def check_shown(p: Written, expected: Mapping[str, object]) -> None:
    """Compare what a program shows: `positions T1 T2` and its like, or expressions over the names of the text."""
    for asked, value in expected.items():
        what, _, tensors = asked.partition(" ")
        if what in SHOWN:
            assert SHOWN[what](p.s, *p(tensors)) == value, asked
        else:
            p.shows({asked: value})


def two_reductions(outer=False):
    """T1, read by two reductions, whose results one tensor reads."""
    t1 = pointwise("T1", given(8, 9))
    axis = 0 if outer else 1
    t2, t3 = reduced("T2", t1, axis, te.max), reduced("T3", t1, axis, te.min)
    t4 = pointwise("T4", t2, t3)
    s = te.create_schedule(t4.op)
    if outer:
        for t in (t2, t3):
            s[t].reorder(t.op.reduce_axis[0], t.op.axis[0])
    return s, (t1, t2, t3, t4)
