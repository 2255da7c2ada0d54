"""Oracle of InferBound: run the loop nests one iteration at a time and record reads, stores and live elements.

It uses no regions and no domains: loops are Python loops, guards and indices are evaluated, formulas are walked. The
regions that `infer_bound` returns are compared with the record.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from operator import itemgetter
from typing import Any

from bound.infer import BoundsMap, StageNest, StageRegion
from bound.itervar import IterVar
from bound.schedule import AttachType, Stage
from bound.tensor import ComputeOp, PlaceholderOp, Tensor
from bound.tir.reduce import condition, sources
from bound.tir.value import REDUCE, Value
from bound.tir.walk import loaded_tensor
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr import ops
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range

Point = tuple[int, ...]
Instance = tuple[int, ...]


@cache
def function(e: Any) -> Callable[[Mapping[Var, int]], Any]:
    """An expression as a function of an environment."""
    if isinstance(e, Var):
        return itemgetter(e)
    variables = e.free_vars()
    call = compiled(e, variables)
    if len(variables) < 2:
        return lambda env: call(*(env[v] for v in variables))
    values = itemgetter(*variables)
    return lambda env: call(*values(env))


def value(e: Any, env: Mapping[Var, int]) -> Any:
    return function(e)(env)


def iterations(loops: Sequence[tuple[Var, Range]], env: Mapping[Var, int]) -> Iterator[dict[Var, int]]:
    """All values of nested loops, each with an environment's values."""
    if not loops:
        yield dict(env)
        return
    (v, limits), *inner = loops
    first = value(limits.min, env)
    for k in range(first, first + value(limits.extent, env)):
        yield from iterations(inner, {**env, v: k})


def points_of(
    nest: StageNest, env: Mapping[Var, int], guards: Sequence[Cond] | None = None, axes: Sequence[Var] = ()
) -> Iterator[Point]:
    """The elements that one instance of a nest computes, with repetitions; with other guards, or by other axes."""
    for point in iterations([(loop.iv, loop.range) for loop in nest.loops], env):
        if all(value(guard, point) for guard in (nest.guards if guards is None else guards)):
            yield tuple(value(nest.values[iv], point) for iv in axes or nest.stage.op.axis)


Read = Callable[[Tensor, Point], None]
Reader = Callable[[Mapping[Var, int], Read], None]


class Readers(dict[Any, Reader | None]):
    """For each formula a function that tells what evaluating it reads; `None` where that is nothing."""

    def __missing__(self, node: Any) -> Reader | None:
        made = self[node] = self._made(node)
        return made

    def _made(self, node: Any) -> Reader | None:
        if node.op is ops.SELECT and isinstance(node.args[0], Cond):
            holds, branches = function(node.args[0]), {True: self[node.args[1]], False: self[node.args[2]]}

            def chosen(env: Mapping[Var, int], read: Read) -> None:
                branch = branches[holds(env)]
                if branch is not None:
                    branch(env, read)

            return chosen if any(branches.values()) else None
        if node.op is REDUCE:
            where = condition(node)
            always, below = not isinstance(where, Cond), self.all(sources(node))
            return below and (lambda env, read: below(env, read) if always or value(where, env) else None)
        inside = self.all(arg for arg in node.args if isinstance(arg, (Value, Expr)) and arg.op is not ops.VAR)
        tensor = loaded_tensor(node)
        if tensor is None:
            return inside
        index = [function(e) for e in node.args]

        def loaded(env: Mapping[Var, int], read: Read) -> None:
            read(tensor, tuple(e(env) for e in index))
            if inside is not None:
                inside(env, read)

        return loaded

    def all(self, nodes: Iterable[Any]) -> Reader | None:
        parts = [part for node in nodes if (part := self[node]) is not None]

        def each(env: Mapping[Var, int], read: Read) -> None:
            for part in parts:
                part(env, read)

        return each if len(parts) > 1 else parts[0] if parts else None


@dataclass
class Happened:
    """Record of a run for one tensor, by instance of its stage."""

    read: dict[Instance, set[Point]] = field(default_factory=lambda: defaultdict(set))
    computed: dict[Instance, set[Point]] = field(default_factory=lambda: defaultdict(set))
    instances: set[Instance] = field(default_factory=set)


class Run:
    """All nests of a schedule, run once.

    Parameters
    ----------
    sizes: values of the sizes that are symbolic.
    """

    def __init__(self, b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> None:
        self.b = b
        self.seen: dict[Tensor, Happened] = defaultdict(Happened)
        self.env: dict[Var, int] = {**b.sizes, **(sizes or {})}
        self.nests: dict[Stage, StageNest] = {}
        self.fixed: dict[Stage, tuple[Var, ...]] = {}
        self.inside: dict[tuple[Stage, IterVar], tuple[Stage, ...]] = {}
        self.readers = Readers()
        for stage in b.schedule.stages:
            if stage.attach_type is AttachType.INLINED_ALREADY:
                continue
            self.fixed[stage] = b.required(stage.op.outputs[0]).fixed
            if isinstance(stage.op, PlaceholderOp):
                continue
            self.nests[stage] = b.nest(stage)
            for loop in self.nests[stage].loops:
                self.inside[stage, loop.iv] = b.attached(stage, loop.iv)
        for stage in b.roots():
            self.run(stage)

    def run(self, stage: Stage) -> None:
        for tensor in stage.op.outputs:
            self.seen[tensor].instances.add(self.instance(stage))
        self.loop(stage, self.nests[stage], 0)

    def instance(self, stage: Stage) -> Instance:
        return tuple(self.env[v] for v in self.fixed[stage])

    def loop(self, stage: Stage, nest: StageNest, depth: int) -> None:
        if depth == len(nest.loops):
            self.body(stage, nest)
            return
        loop = nest.loops[depth]
        try:
            first, extent = value(loop.range.min, self.env), value(loop.range.extent, self.env)
        except ZeroDivisionError:  # a range without a value is empty, as in a lowered nest
            first = extent = 0
        for k in range(first, first + max(extent, 0)):
            self.env[loop.iv] = k
            for inner in self.inside[stage, loop.iv]:
                self.run(inner)
            self.loop(stage, nest, depth + 1)
        self.env.pop(loop.iv, None)

    def body(self, stage: Stage, nest: StageNest) -> None:
        if not all(value(guard, self.env) for guard in nest.guards):
            return
        op = stage.op
        assert isinstance(op, ComputeOp)
        roots = {iv: value(e, self.env) for iv, e in nest.values.items()}
        point = tuple(roots[iv] for iv in op.axis)
        for tensor in op.outputs:
            self.seen[tensor].computed[self.instance(stage)].add(point)
        env = {**self.env, **roots}
        for formula in op.body:
            reader = self.readers[formula]
            if reader is not None:
                reader(env, self.read)

    def read(self, tensor: Tensor, point: Point) -> None:
        self.seen[tensor].read[self.instance(self.b.stage(tensor))].add(point)


def box_of(points: set[Point]) -> list[tuple[int, int]]:
    return [(min(axis), max(axis)) for axis in zip(*points, strict=True)]


def hull_extents(by_instance: Mapping[Instance, set[Point]], dims: int) -> list[int]:
    """The largest extents of the bounding boxes."""
    extents = [0] * dims
    for points in by_instance.values():
        for k, (low, high) in enumerate(box_of(points)):
            extents[k] = max(extents[k], high - low + 1)
    return extents


class Members:
    """Enumerates the points of a region of one instance, inside a box."""

    def __init__(self, region: Any, around: Sequence[range]) -> None:
        coordinates = [Var(f"x{k}") for k in range(region.dims)]
        inside = region.condition(coordinates)
        self.others = [v for v in inside.free_vars() if v not in coordinates]
        self.inside: Callable[..., Any] = compiled(inside, [*self.others, *coordinates])
        self.around = around

    def at(self, values: Mapping[Var, int]) -> set[Point]:
        inside, instance = self.inside, [values[v] for v in self.others]
        return {point for point in itertools.product(*self.around) if inside(*instance, *point)}


def check_places(b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> Run:
    """Run the nests: elements read are computed, places of an instance are distinct, inside, and lead back."""
    sizes = dict(sizes or {})
    done = Run(b, sizes)
    for stage in done.nests:
        for tensor in stage.op.outputs:
            happened, storage = done.seen[tensor], b.storage(tensor)
            point = [Var(f"x{k}") for k in range(tensor.ndim)]
            place, back = storage.index(point), storage.coordinates(point)
            room = [value(r.extent, sizes) for r in storage.ranges]
            for instance, points in happened.computed.items():
                assert happened.read[instance] <= points, (tensor, instance)
                env = {**sizes, **dict(zip(done.fixed[stage], instance, strict=True))}
                places = set()
                for x in points:
                    at = tuple(value(e, {**env, **dict(zip(point, x, strict=True))}) for e in place)
                    assert all(0 <= y < n for y, n in zip(at, room, strict=True)), (tensor, x, at, storage)
                    assert tuple(value(e, {**env, **dict(zip(point, at, strict=True))}) for e in back) == x
                    places.add(at)
                assert len(places) == len(points)
    return done


def check(b: BoundsMap, sizes: Mapping[Var, int] | None = None, exact: bool = True, regions: bool = True) -> Run:
    """Run the nests and compare regions with the record; with `exact`, no region may be larger.

    For every computed tensor: outputs are complete; elements read were computed in the same instance and lie in the
    allocation; the required region contains the elements read (equals them, if exact); the computed region equals the
    elements computed; counts and allocation agree with the record.
    """
    done = Run(b, sizes)
    env = dict(sizes or {})
    for stage in b.schedule.stages:
        if stage not in done.nests:
            continue
        for tensor in stage.op.outputs:
            _check_tensor(b, done, stage, tensor, env, exact, regions)
    return done


def _check_tensor(
    b: BoundsMap, done: Run, stage: Stage, tensor: Tensor, env: dict[Var, int], exact: bool, regions: bool
) -> None:
    happened, fixed = done.seen[tensor], done.fixed[stage]
    shape = [value(e, {**b.sizes, **env}) for e in tensor.shape]
    everything = set(itertools.product(*map(range, shape)))
    if stage.is_output:
        assert all(happened.computed[i] == everything for i in happened.instances), f"{tensor.name}: not whole"
    stored = b.allocated(tensor)
    extents = [value(r.extent, env) for r in stored]
    assert all(e >= 0 for e in extents), f"{tensor.name}: allocated {extents}"
    for instance, points in happened.read.items():
        missing = points - happened.computed[instance]
        assert not missing, f"{tensor.name}{instance}: read but not computed: {sorted(missing)[:4]}"
    for instance, points in happened.computed.items():
        values = {**env, **dict(zip(fixed, instance, strict=True))}
        mins = [value(r.min, values) for r in stored]
        for point in points:
            offsets = [x - low for x, low in zip(point, mins, strict=True)]
            inside = all(0 <= x < e for x, e in zip(offsets, extents, strict=True))
            assert inside, f"{tensor.name}{instance}: {point} is outside of the allocation {stored}"
        assert points <= everything, f"{tensor.name}{instance}: computed outside of the tensor"
    if exact and not stage.is_output:
        hull = hull_extents({i: p for i, p in happened.computed.items() if p}, tensor.ndim)
        is_nothing = not any(hull) and 0 in extents
        assert extents == hull or is_nothing, f"{tensor.name}: allocated {extents}, needed {hull}"
        sizes_now = [len(p) for p in happened.computed.values()]
        needed = [len(p) for p in happened.read.values()]
        if not env:
            region = b.computed(tensor)
            assert (region.count_max(), region.count_total()) == (max(sizes_now, default=0), sum(sizes_now))
            region = b.required(tensor)
            assert (region.count_max(), region.count_total()) == (max(needed, default=0), sum(needed))
    if regions:
        for region, truth in _claimed(b, done, stage, tensor):
            _check_region(b, tensor, region, truth, fixed, env, exact, counts=False)


# -- claims of regions ------------------------------------------------------------------------------------------------


def check_claims(
    b: BoundsMap, sizes: Mapping[Var, int] | None = None, done: Run | None = None, counts: bool = True
) -> int:
    """Hold each claim of each region against one run of the nests; gives how many regions claimed to be exact."""
    done = done or Run(b, sizes)
    env = dict(sizes or {})
    exact = 0
    for stage, fixed in done.fixed.items():
        for tensor in stage.op.outputs:
            for region, truth in _claimed(b, done, stage, tensor):
                exact += _check_region(b, tensor, region, truth, fixed, env, False, counts)
    return exact


Truth = Mapping[Instance, set[Point]]
Told = Callable[[], str]


def _claimed(b: BoundsMap, done: Run, stage: Stage, tensor: Tensor) -> Iterator[tuple[StageRegion, Truth]]:
    """The regions of a tensor, each with the elements that the run read or computed, by instance."""
    happened, is_input = done.seen[tensor], isinstance(stage.op, PlaceholderOp)
    instances = happened.instances or ({()} if is_input else set())
    if not stage.is_output:
        yield b.required(tensor), {i: happened.read.get(i, set()) for i in instances}
    if not is_input:
        yield b.computed(tensor), {i: happened.computed.get(i, set()) for i in instances}


def _check_region(
    b: BoundsMap,
    tensor: Tensor,
    region: StageRegion,
    truth: Truth,
    fixed: tuple[Var, ...],
    env: Mapping[Var, int],
    exact: bool,
    counts: bool,
) -> bool:
    """Hold a region against what happened; whether it claims to be exact, as it is held to be with `exact`."""
    what = partial("{} by {}: {}".format, tensor.name, b.domain, region)  # written where a claim is false
    if counts:
        numbers = [len(points) for points in truth.values()]
        _check_counts(region, max(numbers, default=0), sum(numbers), what, {**b.sizes, **env})
    assert not region.is_empty or not any(truth.values()), what()
    assert region.params or not region.at({}).params, f"{what()}: what depends on nothing does so at no values"
    shape = [value(e, {**b.sizes, **env}) for e in tensor.shape]
    try:
        members: Any = Members(region, [range(-2, e + 2) for e in shape])
    except (BudgetError, UndecidedError):  # the condition of membership is too long to be written
        return region.is_exact
    for instance, points in truth.items():
        values = {**env, **dict(zip(fixed, instance, strict=True))}
        said = members.at(values)
        assert points <= said, f"{what()} at {instance}: {sorted(points - said)[:4]} are missing"
        is_exact = exact or region.is_exact
        assert not is_exact or said == points, f"{what()} at {instance}: {sorted(said - points)[:4]} are too many"
        if points:
            sides = [(value(r.min, values), value(r.max, values)) for r in region.box]
            needed = box_of(points)
            assert all(a <= x and y <= c for (a, c), (x, y) in zip(sides, needed, strict=True)), f"{what()} {instance}"
            assert not region.is_tight or sides == needed, f"{what()} at {instance}: box {sides}, needed {needed}"
    return region.is_exact


def _check_counts(region: StageRegion, most: int, total: int, what: Told, sizes: Mapping[Var, int]) -> None:
    """Counts equal those of the enumerated region if the region is exact, and are upper bounds otherwise."""
    for said, true in zip(_counts(region), (most, total), strict=True):
        if said is None:
            assert sizes or not region.is_exact, f"{what()}: not counted"
            continue
        number = said if isinstance(said, int) else value(said, sizes)
        assert number >= true, f"{what()}: counts {said}, not {true}"
        assert not region.is_exact or number == true, f"{what()}: counts {said}, not {true}"


def _counts(region: StageRegion) -> list[Any]:
    found: list[Any] = []
    for count in (region.count_max, region.count_total):
        try:
            found.append(count())
        except CountError:
            found.append(None)
    return found
