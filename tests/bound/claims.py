"""What regions claim of themselves, against what happens when the nests are run: for any domain, any tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bound.infer import BoundsMap, StageRegion
from bound.operation import PlaceholderOp
from bound.tensor import Tensor
from intset.errors import BudgetError, CountError
from intset.expr.node import Var
from tests.bound.oracle import Instance, Members, Point, Run, box_of, value


def check_claims(b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> int:
    """Hold each claim of each region against one run of the nests; gives how many regions claimed to be exact."""
    done = Run(b, sizes)
    env = dict(sizes or {})
    exact = 0
    for stage, fixed in done.fixed.items():
        for tensor in stage.op.outputs:
            happened = done.seen[tensor]
            instances = happened.instances or ({()} if isinstance(stage.op, PlaceholderOp) else set())
            if not stage.is_output:
                truth = {i: happened.read.get(i, set()) for i in instances}
                exact += _check_region(b, tensor, b.required(tensor), truth, fixed, env)
            if not isinstance(stage.op, PlaceholderOp):
                truth = {i: happened.computed.get(i, set()) for i in instances}
                exact += _check_region(b, tensor, b.computed(tensor), truth, fixed, env)
    return exact


def _check_region(
    b: BoundsMap,
    tensor: Tensor,
    region: StageRegion,
    truth: Mapping[Instance, set[Point]],
    fixed: tuple[Var, ...],
    env: Mapping[Var, int],
) -> bool:
    what = f"{tensor.name} by {b.domain}: {region}"
    counts = [len(points) for points in truth.values()]
    _check_counts(region, max(counts, default=0), sum(counts), what, {**b.sizes, **env})
    assert not region.is_empty or not any(truth.values()), what
    assert region.params or not region.at({}).params, f"{what}: what depends on nothing does so at no values"
    shape = [value(e, {**b.sizes, **env}) for e in tensor.shape]
    try:
        members: Any = Members(region, [range(-2, e + 2) for e in shape])
    except BudgetError:
        return region.is_exact
    for instance, points in truth.items():
        values = {**env, **dict(zip(fixed, instance, strict=True))}
        said = members.at(values)
        assert points <= said, f"{what} at {instance}: {sorted(points - said)[:4]} are missing"
        assert not region.is_exact or said == points, f"{what} at {instance}: {sorted(said - points)[:4]} are too many"
        if points:
            sides = [(value(r.min, values), value(r.max, values)) for r in region.box]
            needed = box_of(points)
            assert all(a <= x and y <= c for (a, c), (x, y) in zip(sides, needed, strict=True)), f"{what} at {instance}"
            assert not region.is_tight or sides == needed, f"{what} at {instance}: box {sides}, needed {needed}"
    return region.is_exact


def _check_counts(region: StageRegion, most: int, total: int, what: str, sizes: Mapping[Var, int]) -> None:
    """Counts equal those of the enumerated region if the region is exact, and are upper bounds otherwise."""
    for said, true in zip(_counts(region), (most, total), strict=True):
        if said is None:
            assert sizes or not region.is_exact, f"{what}: not counted"
            continue
        number = said if isinstance(said, int) else value(said, sizes)
        assert number >= true, f"{what}: counts {said}, not {true}"
        assert not region.is_exact or number == true, f"{what}: counts {said}, not {true}"


def _counts(region: StageRegion) -> list[Any]:
    found: list[Any] = []
    for count in (region.count_max, region.count_total):
        try:
            found.append(count())
        except CountError:
            found.append(None)
    return found


__all__ = ["check_claims"]
