"""Random nests through random sequences of all passes: each equals the nest it was made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from lowering import (
    drop_dead,
    hoist_expression,
    lower_divisions,
    merge_adjacent_loops,
    parse_nest,
    rebase,
    reduce_loop_extents,
    remove_assume,
    remove_branching_through_overcompute,
    remove_no_op,
    remove_overcompute_through_branching,
    remove_undef,
    sequential_buffer_access,
    simplify,
    strength_reduce,
    unique_names,
)
from lowering.errors import LayoutError
from lowering.nest.ir import Function
from tests.lowering.random_nests import Nest
from tests.lowering.wild_nests import Wild

PASSES: dict[str, Callable[..., Any]] = {
    "simplify": simplify,
    "remove_no_op": remove_no_op,
    "hoist_expression": hoist_expression,
    "reduce_loop_extents": reduce_loop_extents,
    "merge_adjacent_loops": merge_adjacent_loops,
    "remove_branching_through_overcompute": remove_branching_through_overcompute,
    "remove_overcompute_through_branching": remove_overcompute_through_branching,
    "remove_undef": remove_undef,
    "sequential_buffer_access": lambda f, report: in_order(f, report),
}
OLD: dict[str, Callable[[Function], Function]] = {
    "plain": lambda f: simplify(f, buffers=False),
    "drop_dead": drop_dead,
    "rebase": rebase,
    "unique_names": unique_names,
    "lower_divisions": lower_divisions,
    "strength_reduce": strength_reduce,
    "text": lambda f: parse_nest(str(f)),
}


def in_order(f: Function, report: list[Any]) -> Function:
    """The first array along which the nest can run."""
    for name in "ABC":
        try:
            return sequential_buffer_access(f, name, report=report)
        except LayoutError:
            continue
    return f


def check(seed: int, kind: type[Nest] = Nest) -> None:
    nest = kind(seed)
    rng = random.Random(seed)
    f = nest.f
    done: list[str] = []
    for _ in range(rng.randint(2, 5)):
        name = rng.choice([*PASSES, *PASSES, *OLD])
        done.append(name)
        if name in PASSES:
            report: list[Any] = []
            lines = len(str(f).split("\n"))
            g = PASSES[name](f, report=report)
            assert all(1 < entry.line <= lines and entry.reason for entry in report)
            assert str(g) == str(f) or any(entry.done for entry in report) or name in ("simplify", "remove_no_op"), done
            f = g
        else:
            f = OLD[name](f)
        assert str(parse_nest(str(f))) == str(f), done
        try:
            nest.agrees(f, seed + 17)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {done}: {error}\n{nest.text}\n{f}") from error
    nest.agrees(remove_assume(f), seed + 18)
    nest.agrees(nest.f, seed + 19)


@pytest.mark.parametrize("seed", range(100))
def test_passes_keep_the_meaning(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(40))
def test_passes_keep_the_meaning_of_wild_nests(seed: int) -> None:
    check(seed, Wild)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(1000, 6000, 100))
def test_passes_keep_the_meaning_of_many_wild_nests(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed, Wild)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(1000, 6000, 100))
def test_passes_keep_the_meaning_of_many(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)
