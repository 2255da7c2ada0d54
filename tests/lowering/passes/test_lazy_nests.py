"""Random nests about laziness through random sequences of all passes, against an interpreter of their own."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lowering import parse_nest, remove_assume
from lowering.nest.ir import Function
from tests.lowering.lazy_nests import LazyNest
from tests.lowering.passes.test_passes_random import BEFORE, FOR_C, OLD, PASSES
from tests.sweeps import daily

STEPS: dict[str, Callable[[Function], Function]] = {
    **{name: lambda f, one=one: one(f, report=[]) for name, one in PASSES.items()},
    **OLD,
    "remove_assume": remove_assume,
}
LIKELY = [*PASSES, *PASSES, *PASSES, *STEPS]


def check(seed: int) -> None:
    """Fail where a pass changes what a nest does, or makes a text that reads back as another nest."""
    nest = LazyNest(seed)
    rng = random.Random(seed)
    f, done = nest.f, []
    names = [rng.choice(LIKELY) for _ in range(rng.randint(2, 5))]
    steps = [(name, STEPS[name]) for name in names]
    if rng.random() < 0.15:
        steps += [("before C", rng.choice(BEFORE)), *FOR_C.items()]
    for name, step in steps:
        done.append(name)
        before = f
        try:
            f = step(f)
            nest.check(f)
            if name in STEPS:
                assert str(parse_nest(str(f))) == str(f)
        except Exception as error:
            raise AssertionError(f"seed {seed}, {done}: {error!r}\n{nest.text}\n{before}\n{f}") from error


def check_decisions(seed: int) -> None:
    """Fail where what elements hold decides something wrongly."""
    nest = LazyNest(seed, is_small=True)
    for name in ("simplify", "remove_no_op", "remove_branching_through_overcompute"):
        f = STEPS[name](nest.f)
        try:
            nest.check(f)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {name}: {error}\n{nest.text}\n{f}") from error


@pytest.mark.parametrize("start", daily(range(0, 8000, 80), 100))
def test_known_elements_decide_what_reads_them(start: int) -> None:
    for seed in range(start, start + 80):
        check_decisions(seed)


@pytest.mark.parametrize("start", daily(range(0, 20_000, 20), 1000))
def test_passes_keep_the_meaning_of_lazy_nests(start: int) -> None:
    for seed in range(start, start + 20):
        check(seed)
