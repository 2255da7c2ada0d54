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
from lowering.nest.walk import without_assumptions
from lowering.passes import (
    accumulate,
    decide_rows,
    follow_guards,
    inline_values,
    name_choices,
    name_minima,
    name_values,
    partition_loops,
    profitability,
)
from lowering.passes.loops.delinearization import run_over_digits
from lowering.passes.loops.unrolling import unroll
from lowering.passes.stores import scalar_replacement
from lowering.passes.stores.copy_elimination import forward_copies
from lowering.passes.stores.dead_code import drop_identities
from lowering.passes.values.constant_folding import fold_constants
from lowering.storage.fixed import with_fixed_storage
from tests.lowering.random_nests import Nest
from tests.lowering.wild_nests import Wild
from tests.sweeps import daily

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
    "decide_rows": decide_rows,
    "name_values": name_values,
    "inline_values": inline_values,
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


@pytest.mark.parametrize("seed", daily(range(70), 7))
def test_passes_keep_the_meaning(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", daily(range(30), 6))
def test_passes_keep_the_meaning_of_wild_nests(seed: int) -> None:
    check(seed, Wild)


FOR_C: dict[str, Callable[[Function], Function]] = {  # in the order in which C has them
    "forward_copies": forward_copies,
    "with_fixed_storage": with_fixed_storage,
    "run_over_digits": run_over_digits,
    "unroll": unroll,
    "partition_loops": partition_loops,
    "drop_identities": drop_identities,
    "decide_rows": lambda f: decide_rows(f, is_all=True),
    "accumulate": accumulate,
    "fold_constants": fold_constants,
    "drop_dead": drop_dead,
}
BEFORE: list[Callable[[Function], Function]] = [
    *(unique_names, unique_names, lower_divisions, follow_guards, name_choices, name_minima),
    lambda f: lower_divisions(strength_reduce(f)),
]


def check_for_c(seed: int, kind: type[Nest], monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline before C keeps the meaning of a nest, at zero profitability thresholds too."""
    nest = kind(seed)
    rng = random.Random(seed)
    if rng.random() < 0.5:
        monkeypatch.setattr(profitability, "WORTH", 0.0)
        monkeypatch.setattr(scalar_replacement, "FEWEST", 1)
    f = unique_names(nest.f)
    f = rng.choice(BEFORE)(inline_values(drop_dead(f.with_body(without_assumptions(f.body)))))
    for step in FOR_C.values():
        f = step(f)
    monkeypatch.undo()
    try:
        nest.agrees(f, seed + 17)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}\n{nest.text}\n{f}") from error


@pytest.mark.parametrize("start", daily(range(0, 1600, 8), 100))
@pytest.mark.parametrize("kind", [Nest, Wild])
def test_what_c_is_made_of_keeps_the_meaning(start: int, kind: type[Nest], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(start, start + 8):
        check_for_c(seed, kind, monkeypatch)


PLANTED = {  # by pass: statements inserted into a nest, and text that the pass must remove
    "remove_no_op": (
        "for px in [0, 12):\n    {a}[px] = {u}\nfor py in [0, 12):\n    {a}[py] = {v}",
        "px",
    ),
    "remove_branching_through_overcompute": (
        "for px in [0, 12):\n    if px < 10:\n        {a}[px] = {u}\nfor py in [10, 12):\n    {a}[py] = {v}",
        "if px",
    ),
    "merge_adjacent_loops": (
        "for px in [0, 12):\n    {a}[px] = {u}\nfor py in [0, 12):\n    {a}[py] = {a}[py] + {a}[py]",
        "for py",
    ),
    "reduce_loop_extents": (
        "for px in [0, 12):\n    if 3 <= px and px < 7:\n        {a}[px] = {u}",
        "if",
    ),
    "simplify": ("{a}[3] = {u}\nif {a}[3] == {u}:\n    {a}[4] = {v}", "if {a}[3] == {u}"),
}


def check_planted(seed: int, kind: type[Nest] = Nest) -> None:
    """Insert statements into a nest; the pass must remove them."""
    nest = kind(seed)
    rng = random.Random(seed)
    array = rng.choice("ABC")
    words = (
        {"a": array, "u": "5", "v": "7"} if "float" not in nest.types[array] else {"a": array, "u": "0.5", "v": "1.5"}
    )
    lines = nest.text.split("\n")
    starts = [k for k, line in enumerate(lines) if k and line[4] != " " and not line.startswith("    else")]
    place = rng.choice([*starts, len(lines)])
    for name, (text, gone) in PLANTED.items():
        plant = [f"    {line}" for line in text.format(**words).split("\n")]
        f = parse_nest("\n".join([*lines[:place], *plant, *lines[place:]]))
        before = str(f).count(gone.format(**words))
        after = str(PASSES[name](f, report=[]))
        assert after.count(gone.format(**words)) < before, f"seed {seed}, {name}\n{f}\n{after}"


@pytest.mark.parametrize("seed", range(2))
def test_what_is_planted_goes(seed: int) -> None:
    check_planted(seed)


@pytest.mark.nightly
def test_what_is_planted_in_many_nests_goes() -> None:
    for seed in range(2000, 2400):
        check_planted(seed)
        check_planted(seed, Wild)


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
