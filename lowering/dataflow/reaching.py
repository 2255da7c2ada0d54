"""Reaching definitions of a read: the nest walked backwards from it.

The walk goes back in time: the items in front of the read in its innermost loop, the earlier iterations of that loop,
the items in front of the loop, and so on to the beginning or to the `allocate`. For each such *segment*, the last write
of each element is a lexicographic maximum over loop values and text positions; instances with a write leave the walk.
Source: Feautrier, Dataflow analysis of array and scalar references, 1991.

Invariant: an uncertain write, or one of unknown elements, hides no earlier write; it may be the one that is read.

`WrittenValues` gives the values of writes over the loops around them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bound import dtypes
from bound.tir import build
from bound.tir.value import PARAM, Operand, Value
from bound.tir.walk import loaded_tensor, nodes
from intset.budgets import REACHING
from intset.expr import ops
from intset.expr.dag import opaque_terms, postorder
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.regions.shape import Account, Shape
from lowering.dataflow.access_relations import AccessRelation, InstanceSets
from lowering.dataflow.program import Access, AssumedBound, LoopNode, Program, ReadAccess, TensorStorage, WriteAccess
from lowering.nest.tensors import limits_of_elements
from lowering.nest.undef import has_undef
from lowering.nest.walk import replaced

if TYPE_CHECKING:
    from lowering.dataflow.flow import Source

DOUBTFUL_REACHING: Final = 600_000  # `REACHING` for reads whose answer will be uncertain
VALUE_NODES: Final = 400  # nodes of a value that is written out
VALUE_CHAIN: Final = 8  # nested reads of a value that are replaced by their contents


class WrittenValues:
    """The values of the writes of a program.

    Guarantee: values include conversion to the tensor's type, and read only tensors without writes in the nest.

    Parameters
    ----------
    sources: the sources of a read.
    """

    def __init__(self, program: Program, sources: Callable[[ReadAccess], Sequence[Source]]) -> None:
        self._program, self._sources = program, sources
        self._values: dict[WriteAccess, Operand | None] = {}
        self._depth = 0

    def at(self, write: WriteAccess, instance: Sequence[Expr]) -> Operand | None:
        """The value of an instance of a write; `None` if unknown."""
        value = self._of(write)
        return None if value is None else replaced(value, dict(zip(write.loop.vars, instance, strict=True)))

    def _of(self, write: WriteAccess) -> Operand | None:
        """The value over the loops of the write."""
        if write not in self._values:
            self._values[write] = None  # the value of a recurrence is unknown
            if self._depth < VALUE_CHAIN:
                self._depth += 1
                try:
                    self._values[write] = self._computed(write)
                finally:
                    self._depth -= 1
        return self._values[write]

    def _computed(self, write: WriteAccess) -> Operand | None:
        value = write.value
        if value is None or has_undef(value):
            return None
        below = list(nodes(value))
        if len(below) > VALUE_NODES:
            return None
        scalars = set(self._program.f.scalars)
        if any(isinstance(n, Value) and n.op is PARAM and n not in scalars for n in below):
            return None
        contents: dict[Operand, Operand] = {}
        for node in below:
            if loaded_tensor(node) is not None and not self._is_constant(node):
                content = self._content(write, node)
                if content is None:
                    return None
                contents[node] = content
        value = replaced(value, contents) if contents else value
        terms: list[Operand] = postorder((value,))
        if any(term.op is ops.LOAD and loaded_tensor(term) is None for term in terms):
            return None
        return self._converted(value, write)

    def _is_constant(self, node: Operand) -> bool:
        """Whether the tensor of an element has no writes in the nest."""
        tensor = loaded_tensor(node)
        return tensor is not None and not any(
            storage.tensor is tensor and (writes or not storage.is_param)
            for storage, writes in self._program.writes.items()
        )

    def _content(self, write: WriteAccess, node: Operand) -> Operand | None:
        """Content of an element read by a written value; `None` if instances disagree."""
        read = next((read for read in write.site.reads.values() if read.node is node), None)
        if read is None:
            return None
        values = {id(source.value): source.value for source in self._sources(read)}
        return next(iter(values.values())) if len(values) == 1 else None

    def _converted(self, value: Operand, write: WriteAccess) -> Operand | None:
        """Convert a value to the type of the tensor; `None` if conversion may change it."""
        dtype = write.storage.tensor.dtype
        if write.kind == "assume":
            return value
        if isinstance(value, Expr):
            if dtypes.is_int(dtype):
                return value if self._fits(value, write, *dtypes.int_range(dtype)) else None
            if dtypes.is_float(dtype):
                exact = {"float16": 11, "float32": 24, "float64": 53}[dtype]
                return build.cast(dtype, value) if self._fits(value, write, -(1 << exact), 1 << exact) else None
            return None
        if isinstance(value, Cond):
            return value if dtype == "bool" else None
        return value if value.dtype == dtype else None

    def _fits(self, value: Expr, write: WriteAccess, low: int, high: int) -> bool:
        """Whether an integer is between two numbers at every instance of a write."""
        if any(loaded_tensor(term) is None for term in opaque_terms(value)):
            return False
        ranges: dict[Var, Range | None] = {}
        for loop in reversed(list(write.loop.around())):
            if loop.limits is not None and not opaque_terms(*loop.limits):
                ranges[loop.vars[-1]] = Range(*loop.limits)
        only = write.guards[0].conditions if len(write.guards) == 1 else ()
        facts = [*write.site.guard.conditions, *only, *limits_of_elements(value)]
        ctx = self._program.f.ctx.extended(ranges=ranges, facts=facts)
        return bool(ctx.prove((value >= low) & (value <= high)))


class ReadInstances(NamedTuple):
    """The instances of a read, with their position.

    Attributes
    ----------
    names: variables for the coordinates of an instance.
    access: `None` for the read of a parameter by the caller, at the end.
    """

    relation: AccessRelation
    names: tuple[Var, ...]
    loop: LoopNode
    position: int
    storage: TensorStorage
    access: Access | None = None


class Segment(NamedTuple):
    """Writes in front of a read, in the same iteration of the first `shared` loops; if `is_earlier`, in an earlier
    iteration of the next loop."""

    writes: Sequence[WriteAccess]
    shared: int
    is_earlier: bool


class ReachingWrite(NamedTuple):
    """A write and its pairs of read and write instances, `(*read, *loops beyond the shared)`.

    Both have equal values of the first `shared` loops.
    """

    write: WriteAccess
    shared: int
    pairs: Shape


class ReachingWrites(NamedTuple):
    """The writes that reach a read.

    Attributes
    ----------
    live: candidate writes with their possible pairs; all other writes are hidden.
    told: the writes that are read, as functions of disjoint sets of instances of the read.
    unknown: instances that read an undetermined write of the nest.
    doubts: the writes that these may read.
    open: the instances that no write reaches.
    """

    live: list[ReachingWrite]
    told: list[ReachingWrite]
    unknown: Shape
    doubts: list[WriteAccess]
    open: Shape


def segments(loop: LoopNode, position: int, storage: TensorStorage) -> Iterator[Segment]:
    """The segments in front of a position, nearest first."""
    while True:
        start = storage.position if loop is storage.loop else 0
        for item in reversed(loop.items[start:position]):
            if isinstance(item, WriteAccess):
                if item.storage is storage:
                    yield Segment([item], loop.depth, False)
            elif storage in item.writes:
                yield Segment(item.writes[storage], loop.depth, False)
        if loop is storage.loop or loop.parent is None:
            return
        if storage in loop.writes:
            yield Segment(loop.writes[storage], loop.depth - 1, True)
        loop, position = loop.parent, loop.position


class ReachingAnalysis:
    """The backward walk, for one program.

    Guarantee: `told`, `unknown` and `open` partition the instances of the read; `live` covers all that may be read.
    """

    def __init__(self, sets: InstanceSets, account: Account | None = None) -> None:
        self.sets, self._account = sets, account

    def __call__(
        self, read: ReadInstances, kinds: tuple[str, ...], bound: AssumedBound | None = None
    ) -> ReachingWrites:
        """The writes of some kinds, and one assumed bound, that reach a read.

        Raises
        ------
        BudgetError: the answer is out of the budget.
        """
        writes = dict.fromkeys(w for w in self.sets.program.writes[read.storage] if w.kind in kinds)
        writes.update({} if bound is None else {bound: None})
        # Relations come first, under budgets of their own.
        relations = [self.sets.relation(write) for write in writes if not self._are_apart(read, write)]
        if read.access is not None:
            relations.append(read.relation)
        limit = REACHING if all(relation.is_exact for relation in relations) else DOUBTFUL_REACHING
        with read.relation.points.budget(limit, self._account):
            return self._reaching(read, writes)

    def _reaching(self, read: ReadInstances, writes: Container[WriteAccess]) -> ReachingWrites:
        size = read.relation.instances
        own = range(size)
        # `left`: instances that no certain write has reached; `untold`: those without a doubtful write, either.
        untold = left = read.relation.points.project(own)
        nothing = unknown = left.subtract(left)
        live: list[ReachingWrite] = []
        told: list[ReachingWrite] = []
        doubts: list[WriteAccess] = []
        for segment in segments(read.loop, read.position, read.storage):
            certain, doubtful = self._last(read, left, segment, writes)
            live += [*certain, *doubtful]
            if doubtful:
                doubts += [one.write for one in doubtful]
                doubt = nothing.union_all([one.pairs.project(own) for one in doubtful]).intersect(untold)
                unknown, untold = unknown.union(doubt), untold.subtract(doubt)
            if not certain:
                continue
            is_same = untold is left
            if is_same:
                told += certain
            else:
                inside = [one._replace(pairs=untold.product_with(one.pairs, size)) for one in certain]
                told += [one for one in inside if not one.pairs.is_empty()]
            covered = nothing.union_all([one.pairs.project(own) for one in certain])
            left = left.subtract(covered)
            untold = left if is_same else untold.subtract(covered)
            if left.is_empty():
                break
        return ReachingWrites(live, told, unknown, doubts, untold)

    def _are_apart(self, read: ReadInstances, write: WriteAccess) -> bool:
        return read.access is not None and self.sets.are_apart(read.access, write)

    # -- one segment --------------------------------------------------------------------------------------------

    def _last(
        self, read: ReadInstances, left: Shape, segment: Segment, writes: Container[WriteAccess]
    ) -> tuple[list[ReachingWrite], list[ReachingWrite]]:
        """The last certain writes of a segment, and the doubtful writes after them."""
        certain: list[ReachingWrite] = []
        doubtful: list[ReachingWrite] = []
        for write in segment.writes:
            if write not in writes or self._are_apart(read, write):
                continue
            is_exact = self.sets.relation(write).is_exact
            if write.kind in ("assume", "bound") and not is_exact:
                continue
            pairs = self._pairs(read, write, left, segment)
            if pairs is None:
                continue
            one = ReachingWrite(write, segment.shared, pairs)
            if is_exact:
                # The maximum comes before the join, because `left` may have many disjuncts.
                latest = self._latest_instances(read, one)
                certain.append(latest._replace(pairs=left.product_with(latest.pairs, read.relation.instances)))
            else:
                doubtful.append(one)
        if len(certain) > 1:
            certain = self._latest_writes(read, segment, certain)
        if certain and doubtful:
            doubtful = self._not_hidden(read, segment, certain, doubtful)
        return certain, doubtful

    def _pairs(self, read: ReadInstances, write: WriteAccess, left: Shape, segment: Segment) -> Shape | None:
        """Join read and write instances on their element; `None` if the join is empty.

        A certain write joins all read instances, a doubtful write only `left`.
        """
        mine, theirs, shared = read.relation, self.sets.relation(write), segment.shared
        joined = mine.keyed(shared, False).product_with(theirs.keyed(shared, True), shared + mine.dims)
        rest = mine.instances - shared
        at = rest + shared + mine.dims  # where the other loops of the write begin
        if segment.is_earlier:
            joined = joined.intersect(self.sets.order(joined.dims, at, 0))
        own = range(at, at + theirs.depth - shared)
        every = joined.project([*range(rest, rest + shared), *range(rest), *own])
        near = left.product_with(every, mine.instances)
        if near.is_empty():
            return None
        return every if theirs.is_exact else near

    def _latest_instances(self, read: ReadInstances, one: ReachingWrite) -> ReachingWrite:
        """Pair each read instance with the last write instance, by a lexicographic maximum."""
        if one.write.loop.depth == one.shared or self.sets.is_determined(one.write, one.shared):
            return one
        pairs, names = one.pairs, read.names
        return one._replace(
            pairs=pairs.dims_to_params(names).lexmax().params_to_dims(names) if names else pairs.lexmax()
        )

    def _latest_writes(self, read: ReadInstances, segment: Segment, some: list[ReachingWrite]) -> list[ReachingWrite]:
        """The last of the last instances of several writes: each write where no other comes later."""
        size = read.relation.instances
        own = range(size)
        best: Shape | None = None  # the latest times so far; mostly those of the last write in the text
        kept: list[tuple[ReachingWrite, Shape]] = []
        for one in reversed(some):
            time = self._times(read, one, segment)
            if best is None:
                best = time
            else:
                wins = time.project(own).subtract(self._earlier(size, time, best).project(own))
                if wins.is_empty():
                    continue
                rest = best.project(own).subtract(wins)
                best = rest.product_with(best, size).union(wins.product_with(time, size))
            kept.append((one, time))
        if best is None or len(kept) == 1:
            return [one for one, _ in kept]
        latest = [self._at_times(read, one, best.intersect(time)) for one, time in reversed(kept)]
        return [one for one in latest if not one.pairs.is_empty()]

    def _not_hidden(
        self, read: ReadInstances, segment: Segment, certain: list[ReachingWrite], doubtful: list[ReachingWrite]
    ) -> list[ReachingWrite]:
        """The doubtful writes that no certain write follows."""
        size = read.relation.instances
        times = [self._times(read, one, segment) for one in certain]
        last = times[0].union_all(times[1:])
        visible = []
        for one in doubtful:
            time = self._times(read, one, segment)
            rest = self._at_times(read, one, time.subtract(self._earlier(size, time, last)))
            if not rest.pairs.is_empty():
                visible.append(rest)
        return visible

    # -- times: loop values and text positions, alternating -----------------------------------------------------

    def _times(self, read: ReadInstances, one: ReachingWrite, segment: Segment) -> Shape:
        """The pairs, with the time of the write instead of its other loops.

        Invariant: times of one segment have equally many coordinates; their lexicographic order is that of execution.
        """
        size = read.relation.instances
        longest = max(write.loop.depth for write in segment.writes) - one.shared
        own = one.write.loop.depth - one.shared
        positions: list[int] = []
        position = one.write.position
        for loop in list(one.write.loop.around())[:own]:
            positions.insert(0, position)
            position = loop.position
        padding = [0] * (2 * (longest - own))
        tail = self.sets.kind.listing([(*positions, *padding)], (), own + len(padding))
        wide = one.pairs.product_with(tail, 0)
        turns = [k for j in range(own) for k in (size + j, size + own + j)]
        return wide.project([*range(size), *turns, *range(size + 2 * own, wide.dims)])

    def _at_times(self, read: ReadInstances, one: ReachingWrite, times: Shape) -> ReachingWrite:
        """The inverse of `_times`."""
        size = read.relation.instances
        own = one.write.loop.depth - one.shared
        return one._replace(pairs=times.project([*range(size), *(size + 2 * j for j in range(own))]))

    def _earlier(self, size: int, times: Shape, than: Shape) -> Shape:
        """Pairs of instance and time, filtered by a later time `than` of the same instance."""
        first = than.project([*range(size, than.dims), *range(size)])
        both = first.product_with(times, size).intersect(self.sets.lexicographic(size, than.dims - size))
        return both.project(range(than.dims - size, both.dims))
