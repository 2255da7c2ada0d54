"""Random nests through random sequences of all passes: each result computes what the nest computes."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from intset import IntSetError
from lowering import (
    drop_dead,
    hoist_expression,
    lower_divisions,
    merge_adjacent_loops,
    parse_nest,
    passes,
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
from lowering.allocation import with_fixed_storage
from lowering.errors import LayoutError
from lowering.nest.ir import Function
from lowering.nest.walk import without_assumptions
from lowering.passes.loops.index_set_splitting import unroll
from lowering.passes.loops.interchange import run_over_digits
from lowering.passes.simplify import fold_constants
from lowering.passes.stores import placement
from lowering.passes.stores.dead_code import drop_identities
from lowering.passes.stores.placement import forward_copies
from tests.lowering.equivalence import NumpyRuns, PlainRuns, Runs, TrapError, numpy_runs, plain_runs
from tests.strategies.nests import EVERYTHING, Nest, nests
from tests.sweeps import daily, sampled

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
    "remove_assume": remove_assume,
    "plain": lambda f: simplify(f, buffers=False),
    "drop_dead": drop_dead,
    "rebase": rebase,
    "unique_names": unique_names,
    "lower_divisions": lower_divisions,
    "strength_reduce": strength_reduce,
    "decide_rows": passes.decide_rows,
    "name_values": passes.name_values,
    "inline_values": passes.inline_values,
    "text": lambda f: parse_nest(str(f)),
}


def in_order(f: Function, report: list[Any]) -> Function:
    """Run along the first array that changes the nest."""
    for name in "ABC":
        try:
            g = sequential_buffer_access(f, name, report=(entries := []))
        except LayoutError:
            continue
        if str(g) != str(f):
            report += entries
            return g
    return f


CHOICES = st.randoms(use_true_random=False)


def check(runs: Runs, names: list[str]) -> None:
    """Apply passes of the tables one after another; each keeps results, text and the form of its report."""
    f, done = runs.f, []
    for name in names:
        done.append(name)
        before = f
        try:
            f = reported(name, f) if name in PASSES else OLD[name](f)
            assert str(parse_nest(str(f))) == str(f)
            runs.agrees(f)
        except Exception as error:
            raise AssertionError(f"{done}: {error!r}\n{runs.text}\n{before}\n{f}") from error


def reported(name: str, f: Function) -> Function:
    """A pass whose report names statements, and whatever changed."""
    report: list[Any] = []
    lines = len(str(f).split("\n"))
    g: Function = PASSES[name](f, report=report)
    assert all(1 < entry.line <= lines and entry.reason for entry in report)
    assert str(g) == str(f) or any(entry.done for entry in report) or name in ("simplify", "remove_no_op")
    return g


def sequence(rng: random.Random) -> list[str]:
    return [rng.choice([*PASSES, *PASSES, *OLD]) for _ in range(rng.randint(1, 5))]


@sampled(10, 8000, numpy_runs(), CHOICES)
def test_passes_keep_the_results_of_all_types(runs: Runs, rng: random.Random) -> None:
    check(runs, sequence(rng))


@sampled(14, 20_000, plain_runs(), CHOICES)
def test_passes_keep_the_results_of_integers(runs: Runs, rng: random.Random) -> None:
    check(runs, sequence(rng))


@sampled(8, 8000, plain_runs(kinds={"known", "data", "traps"}, most=3, size=8))
def test_what_elements_hold_decides_rightly(runs: Runs) -> None:
    for name in ("simplify", "remove_no_op", "remove_branching_through_overcompute"):
        check(runs, [name])


def named(f: Function) -> Function:
    return passes.name_values(passes.decide_rows(f))


# for each pass, kinds of nests that it changes
AIMED: dict[str, set[str]] = {
    "simplify": {"known", "guard", "assumption", "traps"},
    "remove_no_op": {"known", "loop", "guard", "copy"},
    "hoist_expression": {"loop", "guard", "name"},
    "reduce_loop_extents": {"loop", "guard"},
    "merge_adjacent_loops": {"twins", "loop"},
    "remove_branching_through_overcompute": {"known", "loop", "guard", "assumption"},
    "remove_overcompute_through_branching": {"loop", "copy"},
    "remove_undef": {"undef", "storage", "loop"},
    "sequential_buffer_access": {"tiles", "guard"},
    "partition_loops": {"window", "loop"},
    "accumulate": {"window", "reduction", "loop", "host"},
    "forward_copies": {"copied", "host"},
    "name_values": {"shared", "loop"},
    "inline_values": {"shared", "name"},
}
BEFORE_IT = {"accumulate": passes.partition_loops, "inline_values": named}
STEPS: dict[str, Callable[[Function], Function]] = {
    **{name: lambda f, name=name: reported(name, f) for name in PASSES},
    "strength_reduce": strength_reduce,
    "partition_loops": passes.partition_loops,
    "accumulate": passes.accumulate,
    "forward_copies": forward_copies,
    "name_values": named,
    "inline_values": passes.inline_values,
}


STABLE = set(PASSES) - {"sequential_buffer_access"}  # running along one array prepares another

AIMED_NESTS = 12  # for each pass
SLOW = ("simplify", "remove_no_op", "remove_branching_through_overcompute", "remove_overcompute_through_branching")


@pytest.mark.parametrize("part", daily(range(60), 60))
@pytest.mark.parametrize("name", AIMED)
def test_a_pass_changes_its_nests_and_keeps_their_results(name: str, part: int) -> None:
    """Passes at zero profitability thresholds too. Nests by numbers: the same count, evenly drawn, for every pass."""
    count, changed = AIMED_NESTS // 4 if name in SLOW else AIMED_NESTS, 0
    for number in range(part * count, (part + 1) * count):
        is_plain, is_eager = number % 2 == 0, number % 4 > 1
        try:
            kinds = AIMED[name] - {"host"} if is_plain else AIMED[name] | {"floats"}
            nest = Nest(random.Random(f"{name} {number}"), kinds)
            runs: Runs = PlainRuns(nest) if is_plain else NumpyRuns(nest)
        except (TrapError, IntSetError):
            continue
        with pytest.MonkeyPatch.context() as patch:
            if is_eager:
                patch.setattr(passes.estimates, "WORTH", 0.0)
                patch.setattr(passes.estimates, "SHORT", 1e9)
            patch.setattr(placement, "FEWEST", 1)
            before = BEFORE_IT.get(name, unique_names)(runs.f)
            after = STEPS[name](before)
        assert str(parse_nest(str(after))) == str(after)
        runs.agrees(after)
        changed += str(after) != str(before)
        if name in STABLE and number % 3 == 0:
            assert str(STEPS[name](after)) == str(after), f"{before}\n{after}"
    assert changed >= count // 4


FOR_C: dict[str, Callable[[Function], Function]] = {  # in the order in which C has them
    "forward_copies": forward_copies,
    "with_fixed_storage": with_fixed_storage,
    "run_over_digits": run_over_digits,
    "unroll": unroll,
    "partition_loops": passes.partition_loops,
    "drop_identities": drop_identities,
    "decide_rows": lambda f: passes.decide_rows(f, is_all=True),
    "accumulate": passes.accumulate,
    "fold_constants": fold_constants,
    "drop_dead": drop_dead,
}
BEFORE: list[Callable[[Function], Function]] = [
    *(unique_names, unique_names, lower_divisions, passes.follow_guards, passes.name_choices, passes.name_minima),
    lambda f: lower_divisions(strength_reduce(f)),
]


def prepared(f: Function, rng: random.Random) -> Function:
    """The nest after the passes before C, at zero profitability thresholds too."""
    with pytest.MonkeyPatch.context() as patch:
        if rng.random() < 0.5:
            patch.setattr(passes.estimates, "WORTH", 0.0)
            patch.setattr(placement, "FEWEST", 1)
        f = unique_names(f)
        f = rng.choice(BEFORE)(passes.inline_values(drop_dead(f.with_body(without_assumptions(f.body)))))
        for step in FOR_C.values():
            f = step(f)
    return f


@sampled(14, 3000, st.one_of(numpy_runs(), plain_runs()), CHOICES)
def test_what_c_is_made_of_keeps_the_results(runs: Runs, rng: random.Random) -> None:
    f = prepared(runs.f, rng)
    runs.agrees(f)


PLANTED = {  # by pass: statements inserted into a nest, and text that the pass must remove
    "remove_no_op": ("for px in [0, 12):\n    {a}[px] = {u}\nfor py in [0, 12):\n    {a}[py] = {v}", "px"),
    "remove_branching_through_overcompute": (
        "for px in [0, 12):\n    if px < 10:\n        {a}[px] = {u}\nfor py in [10, 12):\n    {a}[py] = {v}",
        "if px",
    ),
    "merge_adjacent_loops": (
        "for px in [0, 12):\n    {a}[px] = {u}\nfor py in [0, 12):\n    {a}[py] = {a}[py] + {a}[py]",
        "for py",
    ),
    "reduce_loop_extents": ("for px in [0, 12):\n    if 3 <= px and px < 7:\n        {a}[px] = {u}", "if"),
    "simplify": ("{a}[3] = {u}\nif {a}[3] == {u}:\n    {a}[4] = {v}", "if {a}[3] == {u}"),
}


@sampled(2, 800, nests(kinds=EVERYTHING), CHOICES)
def test_what_is_planted_goes(nest: Nest, rng: random.Random) -> None:
    """Insert statements into a nest; the pass must remove them."""
    array = rng.choice("ABC")
    u, v = ("0.5", "1.5") if "float" in nest.types[array] else ("5", "7")
    lines = nest.text.rstrip().split("\n")
    starts = [k for k, line in enumerate(lines) if k and line[4] != " " and not line.startswith("    else")]
    place = rng.choice([*starts, len(lines)])
    for name, (text, gone) in PLANTED.items():
        plant = [f"    {line}" for line in text.format(a=array, u=u, v=v).split("\n")]
        f = parse_nest("\n".join([*lines[:place], *plant, *lines[place:]]))
        before = str(f).count(gone.format(a=array, u=u, v=v))
        after = str(PASSES[name](f, report=[]))
        assert after.count(gone.format(a=array, u=u, v=v)) < before, f"{name}\n{f}\n{after}"
