"""Accesses outside their tensors in random programs: reports against execution.

The oracle is the nest itself before any pass, in coordinates of the tensors, with every tensor stored whole. The
interpreter checks every access, so a program either runs through at given sizes and data, or leaves a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bound import infer_bound
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from intset import Range, UndefinedError
from intset.expr.evaluate import evaluate
from lowering import AccessError, CheckError, Function, lower, run
from lowering.build.function import nest_of
from lowering.nest.ir import Allocate, Stmt
from lowering.nest.walk import Visit, children, drive, with_children
from tests.lowering.lowered import close, inputs_of, random_array
from tests.strategies.schedules import Program, programs
from tests.sweeps import sampled


def stored_whole(b: BoundsMap) -> Function:
    """Lower a program without checks, with all tensors stored completely."""
    f = nest_of(b, unsafe=True)

    def visit(stmt: Stmt) -> Visit[Stmt]:
        inner: list[Stmt] = []
        for child in children(stmt):
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        new = with_children(stmt, tuple(inner))
        return (
            Allocate(new.tensor, tuple(Range(0, e) for e in new.tensor.extents)) if isinstance(new, Allocate) else new
        )

    return f.with_body(drive(visit(f.body)))


def leaves_a_tensor(f: Function, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    """Whether a nest makes an access outside a storage."""
    try:
        run(f, arrays, sizes)
    except AccessError:
        return True
    return False


def points_are_outside(b: BoundsMap) -> None:
    """Check that counterexamples leave their tensors."""
    for one in b.outside:
        if one.point is None:
            continue
        values = {v: one.point[v] for e in (one.index[one.dim], one.extent) for v in e.free_vars()}
        loads = {e: k for e, k in one.point.items() if e not in values}
        place = evaluate(one.index[one.dim], {**values, **loads})
        assert not 0 <= place < evaluate(one.extent, values), str(one)


def outcomes(program: Program) -> set[str]:
    """Execute a program at several sizes and compare accesses with its reports; gives what happened."""
    try:
        b = infer_bound(program.schedule)
        whole, unsafe = stored_whole(b), lower(program.schedule, bounds=b, unsafe=True)
    except ScheduleError:
        return set()
    if program.data is None:
        points_are_outside(b)
    runs = [
        (sizes, {t.name: random_array(t, sizes) % 10 - 2 for t in inputs_of(program.schedule)})
        for sizes in program.choices
    ]
    happens = [leaves_a_tensor(whole, arrays, sizes) for sizes, arrays in runs]
    assert b.outside or not any(happens), f"an access outside was not found in {program}"
    try:
        f = lower(program.schedule, bounds=b)
    except AccessError:
        assert program.variables or program.data is not None or all(happens), f"{program} is refused, and is right"
        return {"refused"}
    seen = set()
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
        assert failed == expected, f"at {sizes}: {program}\n{f}\n{b.outside}"
        seen.add("outside" if expected else "inside")
    return seen


@sampled(16, 3000, programs(reads="loose", also="caches"), shows={"refused", "inside"})
def test_constant_sizes(program: Program) -> set[str]:
    return outcomes(program)


@sampled(6, 3000, programs(reads="loose", also="caches", symbolic=True), shows={"inside", "outside"})
def test_symbolic_sizes(program: Program) -> set[str]:
    return outcomes(program)


@sampled(10, 3000, programs(reads="loose", also="caches data"), shows={"inside", "outside"})
def test_data(program: Program) -> set[str]:
    return outcomes(program)


@sampled(3, 3000, programs(reads="loose", also="caches data", symbolic=True), shows={"outside"})
def test_sizes_and_data(program: Program) -> set[str]:
    return outcomes(program)
