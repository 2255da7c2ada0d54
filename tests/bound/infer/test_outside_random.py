"""Accesses outside their tensors in random programs: reports against execution."""

from __future__ import annotations

from collections import Counter

import pytest

from bound import infer_bound
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from intset import UndefinedError
from intset.expr.evaluate import evaluate
from lowering import AccessError, CheckError, lower, run
from tests.bound.outside_programs import Program, leaves_a_tensor, stored_whole
from tests.lowering.lowered import close
from tests.sweeps import daily


def points_are_outside(b: BoundsMap) -> int:
    """Check that counterexamples leave their tensors; returns their number."""
    found = 0
    for one in b.outside:
        if one.point is None:
            continue
        values = {v: one.point[v] for e in (one.index[one.dim], one.extent) for v in e.free_vars()}
        loads = {e: k for e, k in one.point.items() if e not in values}
        place = evaluate(one.index[one.dim], {**values, **loads})
        assert not 0 <= place < evaluate(one.extent, values), str(one)
        found += 1
    return found


def outcomes(seeds: range, symbolic: bool, data: bool) -> Counter[str]:
    """Execute each program at several sizes and compare accesses with its reports."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        program = Program(seed, symbolic, data)
        try:
            b = infer_bound(program.schedule)
            whole, unsafe = stored_whole(program, b), lower(program.schedule, bounds=b, unsafe=True)
        except ScheduleError:
            continue
        seen["points"] += 0 if data else points_are_outside(b)
        runs = [(sizes, program.arrays(sizes, seed)) for sizes in program.sizes]
        happens = [leaves_a_tensor(whole, arrays, sizes) for sizes, arrays in runs]
        assert b.outside or not any(happens), f"{seed}: an access outside was not found in {program}"
        try:
            f = lower(program.schedule, bounds=b)
        except AccessError:
            assert symbolic or data or all(happens), f"{seed}: {program} is refused, and is right"
            seen["refused"] += 1
            seen["refused, and happened"] += any(happens)
            continue
        for (sizes, arrays), expected in zip(runs, happens, strict=True):
            try:
                close(run(f, arrays, sizes), run(unsafe, arrays, sizes) if not expected else {})
                failed = False
            except CheckError:
                failed = True
            except UndefinedError:  # a split of an empty axis into a number of parts divides by 0
                with pytest.raises(UndefinedError):
                    run(unsafe, arrays, sizes)
                continue
            assert failed == expected, f"{seed} at {sizes}: {program}\n{f}\n{b.outside}"
            seen["outside" if expected else "inside"] += 1
    return seen


@pytest.mark.parametrize("start", daily(range(0, 60, 15), 4))
def test_constant_sizes(start: int) -> None:
    seen = outcomes(range(start, start + 15), symbolic=False, data=False)
    assert seen["refused"] >= 1 and seen["inside"] >= 1, seen


@pytest.mark.parametrize("start", daily([2, *range(0, 60, 5)], 13))
def test_symbolic_sizes(start: int) -> None:
    seen = outcomes(range(start, start + 5), symbolic=True, data=False)
    assert seen["outside"] >= 1 and seen["inside"] >= 1, seen


@pytest.mark.parametrize("start", daily(range(0, 60, 10), 6))
def test_data(start: int) -> None:
    seen = outcomes(range(start, start + 10), symbolic=False, data=True)
    assert seen["outside"] >= 1 and seen["inside"] >= 1, seen


@pytest.mark.parametrize("start", daily(range(0, 30, 5), 6))
def test_sizes_and_data(start: int) -> None:
    seen = outcomes(range(start, start + 5), symbolic=True, data=True)
    assert seen["outside"] >= 1 and seen["inside"] >= 1, seen


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(1000, 9000, 500))
def test_many(start: int) -> None:
    kind = start // 500 % 4
    assert outcomes(range(start, start + 500), symbolic=kind % 2 == 1, data=kind >= 2).total() >= 500
