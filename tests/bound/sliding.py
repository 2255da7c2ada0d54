"""Oracle of sliding windows: run the nests one iteration at a time on storage of the size that `b.storage` claims.

A cell contains the element stored last; a read checks that its element is still stored. Independent of the analysis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from bound import te
from bound.infer import BoundsMap
from bound.operation import ComputeOp
from bound.schedule import Schedule, Split, Stage, Tail
from bound.tensor import Tensor
from intset.expr.evaluate import compiled
from intset.expr.node import Var
from tests.bound.oracle import Instance, Point, Run, value

Happens: TypeAlias = "tuple[set[Point], set[Point]]"  # what is computed, and what is read


class SlidingRun(Run):
    """A run that checks, for each read, that the cell still contains the element.

    Attributes
    ----------
    stores: number of computations of each element, per instance of its storage.
    iterations: elements computed and read by each instance of a stage, in order, per instance of storage.
    """

    def __init__(self, b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> None:
        self.held: dict[tuple[Tensor, Instance], dict[Point, Point]] = defaultdict(dict)
        self.stores: dict[tuple[Tensor, Instance], dict[Point, int]] = defaultdict(lambda: defaultdict(int))
        self.iterations: dict[tuple[Tensor, Instance], dict[Instance, Happens]] = defaultdict(dict)
        self._places: dict[Tensor, Callable[..., Point]] = {}
        self._kept: dict[Stage, tuple[Var, ...]] = {}
        super().__init__(b, sizes)

    def storage_of(self, tensor: Tensor) -> tuple[Tensor, Instance]:
        stage = self.b.stage(tensor)
        if stage not in self._kept:
            slid = self.b.slid(stage) if stage in self.nests else ()
            self._kept[stage] = tuple(v for v in self.fixed[stage] if v not in slid)
        return tensor, tuple(self.env[v] for v in self._kept[stage])

    def place(self, tensor: Tensor, point: Point) -> Point:
        if tensor not in self._places:
            coordinates = [Var(f"x{k}") for k in range(tensor.ndim)]
            index = self.b.storage(tensor).index(coordinates)
            others = list(dict.fromkeys(v for e in index for v in e.free_vars() if v not in coordinates))
            functions = [compiled(e, [*others, *coordinates]) for e in index]
            extents = [r.extent for r in self.b.allocated(tensor)]

            def found(point: Point) -> Point:
                at = tuple(int(f(*(self.env[v] for v in others), *point)) for f in functions)
                limits = [value(e, self.env) for e in extents]
                inside = all(0 <= x < limit for x, limit in zip(at, limits, strict=True))
                assert inside, f"{tensor.name}{point} is at {at}, outside of {limits}"
                return at

            self._places[tensor] = found
        return self._places[tensor](point)

    def body(self, stage: Stage, nest: Any) -> None:
        if not all(value(guard, self.env) for guard in nest.guards):
            return
        super().body(stage, nest)
        roots = {iv: value(e, self.env) for iv, e in nest.values.items()}
        assert isinstance(stage.op, ComputeOp)
        point = tuple(roots[iv] for iv in stage.op.axis)
        if all(roots[iv] == value(iv.dom.min, self.env) for iv in stage.op.reduce_axis if iv.dom is not None):
            for tensor in stage.op.outputs:
                self.held[self.storage_of(tensor)][self.place(tensor, point)] = point
                self.stores[self.storage_of(tensor)][point] += 1
                self.iteration(tensor)[0].add(point)

    def read(self, tensor: Tensor, point: Point) -> None:
        if self.b.stage(tensor) in self.nests:
            there = self.held[self.storage_of(tensor)].get(self.place(tensor, point))
            assert there == point, f"{tensor.name}{point} is read where {there} is kept"
            self.iteration(tensor)[1].add(point)
        super().read(tensor, point)

    def iteration(self, tensor: Tensor) -> Happens:
        """What is computed and read in the instance of a stage that runs now."""
        instances = self.iterations[self.storage_of(tensor)]
        return instances.setdefault(self.instance(self.b.stage(tensor)), (set(), set()))

    def smallest_modulus(self, tensor: Tensor, k: int) -> int:
        """The least number of places along axis `k` at which no two elements meet that are kept at the same time."""
        apart: set[int] = set()
        for (which, _), instances in self.iterations.items():
            steps = list(instances.values()) if which is tensor else []
            for n, (made, _) in enumerate(steps):
                computed = set().union(*(m for m, _ in steps[: n + 1]))
                live = made | (computed & set().union(*(r for _, r in steps[n:])))
                lines: dict[Point, list[int]] = defaultdict(list)
                for x in live:
                    lines[*x[:k], *x[k + 1 :]].append(x[k])
                apart |= {y - x for line in lines.values() for x in line for y in line}
        return next(f for f in range(1, max(apart, default=0) + 2) if not any(d and d % f == 0 for d in apart))


def check_sliding(b: BoundsMap, sizes: Mapping[Var, int] | None = None, exact: bool = True) -> SlidingRun:
    """Run the nests. With `exact`, check that a stage computes each element once, and none that is not read."""
    done = SlidingRun(b, sizes)
    for (tensor, instance), counts in done.stores.items():
        stage = b.stage(tensor)
        if not exact or stage.is_output or not b.slid(stage) or _overlap(stage):
            continue
        twice = [point for point, count in counts.items() if count > 1]
        assert not twice, f"{tensor.name}{instance}: computed twice: {twice[:4]}"
    for stage in b.schedule.stages:
        if not exact or stage not in done.nests or stage.is_output or not b.slid(stage):
            continue
        read = {point for t in stage.op.outputs for points in done.seen[t].read.values() for point in points}
        for tensor in stage.op.outputs:
            made = {point for points in done.seen[tensor].computed.values() for point in points}
            assert made <= read, f"{tensor.name}: computed, but never read: {sorted(made - read)[:4]}"
    return done


def _overlap(stage: Stage) -> bool:
    """Return whether the last tile of a stage overlaps the one before."""
    return any(isinstance(r, Split) and r.tail is Tail.SHIFT_INWARDS for r in stage.relations)


def rows(read: Callable[..., Any], shape: tuple[int, int], needs: tuple[int, int], dtype: str = "float32") -> Any:
    """`C[y, x] = read(B, y, x)` over `shape` with `B` as large as `needs`; gives the schedule and (A, B, C)."""
    A = te.placeholder(needs, name="A", dtype=dtype)
    B = te.compute(needs, lambda y, x: A[y, x] * 2, name="B")
    C = te.compute(shape, lambda y, x: read(B, y, x), name="C")
    s: Schedule = te.create_schedule(C.op)
    return s, A, B, C
