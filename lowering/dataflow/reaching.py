"""Which writes reach a read: the nest walked backwards from it.

From a read the walk goes back in time: what stands before it in its innermost loop, the earlier iterations of that
loop, what stands before the loop, and so on to the beginning or to where the storage was allocated. Each such *segment*
is asked for the last write of each element (a lexicographic maximum over loop values and places in the text); the
instances of the read that found theirs are done. Compare Feautrier, Dataflow analysis of array and scalar references
(1991).

A write that is not certain to happen, or whose element is not known, hides nothing; it may be what is read.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from intset.budgets import DOUBTFUL_REACHING, REACHING
from intset.expr.node import Var
from intset.regions.account import Account
from intset.regions.shape import Shape
from lowering.dataflow.points import Graph, Points
from lowering.dataflow.program import Access, Bound, Loop, Storage, Write


class Reader(NamedTuple):
    """What reads: its instances with the elements, where it stands, and which storage.

    Attributes
    ----------
    names: variables for the coordinates of an instance.
    access: `None` for what is read of a parameter at the end.
    """

    graph: Graph
    names: tuple[Var, ...]
    loop: Loop
    position: int
    storage: Storage
    access: Access | None = None


class Segment(NamedTuple):
    """Writes that come before a read: those under `items` of a loop, in the same iteration of the first `shared` loops;
    where `is_earlier`, in an earlier iteration of the next one."""

    writes: Sequence[Write]
    shared: int
    is_earlier: bool


class Reached(NamedTuple):
    """A write, and pairs of an instance of the read and one of the write, of whose loops the first `shared` have the
    values that the read's have: `(*reader, *other loops)`."""

    write: Write
    shared: int
    pairs: Shape


class Answer(NamedTuple):
    """What reaches a read.

    Attributes
    ----------
    live: each write that may be what is read, where it may; every other write is hidden.
    told: the write that is what is read, as functions of disjoint sets of instances of the read.
    unknown: the instances at which it is not known what is read, though something in the nest wrote it.
    doubts: the writes that may be it there.
    open: the instances that nothing in the nest reaches.
    """

    live: list[Reached]
    told: list[Reached]
    unknown: Shape
    doubts: list[Write]
    open: Shape


def segments(loop: Loop, position: int, storage: Storage) -> Iterator[Segment]:
    """What comes before a place, the nearest first."""
    while True:
        start = storage.position if loop is storage.loop else 0
        for item in reversed(loop.items[start:position]):
            if isinstance(item, Write):
                if item.storage is storage:
                    yield Segment([item], loop.depth, False)
            elif storage in item.writes:
                yield Segment(item.writes[storage], loop.depth, False)
        if loop is storage.loop or loop.parent is None:
            return
        if storage in loop.writes:
            yield Segment(loop.writes[storage], loop.depth - 1, True)
        loop, position = loop.parent, loop.position


class Reaching:
    """The walk, for one program."""

    def __init__(self, points: Points, account: Account | None = None) -> None:
        self.points, self._account = points, account

    def __call__(self, reader: Reader, kinds: tuple[str, ...], also: Bound | None = None) -> Answer:
        """The writes of these kinds, and what one assumption says, that reach a read.

        Raises
        ------
        BudgetError: they are out of the budget.
        """
        graph = reader.graph
        wanted = dict.fromkeys(w for w in self.points.program.writes[reader.storage] if w.kind in kinds)
        wanted.update({} if also is None else {also: None})
        # The graphs come first, under budgets of their own.
        graphs = [self.points.graph(write) for write in wanted if not self._is_apart(reader, write)]
        if reader.access is not None:
            graphs.append(graph)
        limit = REACHING if all(one.is_exact for one in graphs) else DOUBTFUL_REACHING
        with graph.points.budget(limit, self._account):
            return self._answer(reader, wanted)

    def _answer(self, reader: Reader, wanted: Container[Write]) -> Answer:
        size = reader.graph.instances
        mine = range(size)
        untold = left = reader.graph.points.project(mine)
        nothing = unknown = left.subtract(left)
        live: list[Reached] = []
        told: list[Reached] = []
        doubts: list[Write] = []
        for segment in segments(reader.loop, reader.position, reader.storage):
            certain, doubtful = self._last(reader, left, segment, wanted)
            live += [*certain, *doubtful]
            if doubtful:
                doubts += [one.write for one in doubtful]
                doubt = nothing.union_all([one.pairs.project(mine) for one in doubtful]).intersect(untold)
                unknown, untold = unknown.union(doubt), untold.subtract(doubt)
            if not certain:
                continue
            if untold is left:
                told += certain
            else:
                said = [one._replace(pairs=untold.product_with(one.pairs, size)) for one in certain]
                told += [one for one in said if not one.pairs.is_empty()]
            covered = nothing.union_all([one.pairs.project(mine) for one in certain])
            is_same = untold is left
            left = left.subtract(covered)
            untold = left if is_same else untold.subtract(covered)
            if left.is_empty():
                break
        return Answer(live, told, unknown, doubts, untold)

    def _is_apart(self, reader: Reader, write: Write) -> bool:
        """Whether it is plain that a write is of other elements."""
        return reader.access is not None and self.points.are_apart(reader.access, write)

    # -- a segment ----------------------------------------------------------------------------------------------

    def _last(
        self, reader: Reader, left: Shape, segment: Segment, wanted: Container[Write]
    ) -> tuple[list[Reached], list[Reached]]:
        """The last certain writes of a segment, and the doubtful ones after them."""
        certain: list[Reached] = []
        doubtful: list[Reached] = []
        for write in segment.writes:
            if write not in wanted or self._is_apart(reader, write):
                continue
            is_exact = self.points.graph(write).is_exact
            if write.kind in ("assume", "bound") and not is_exact:
                continue
            pairs = self._pairs(reader, write, left, segment)
            if pairs is None:
                continue
            one = Reached(write, segment.shared, pairs)
            if is_exact:
                # The maximum first: what is left may be in many parts.
                latest = self._latest(reader, one)
                certain.append(latest._replace(pairs=left.product_with(latest.pairs, reader.graph.instances)))
            else:
                doubtful.append(one)
        if len(certain) > 1:
            certain = self._latest_of(reader, segment, certain)
        if certain and doubtful:
            doubtful = self._not_before(reader, segment, certain, doubtful)
        return certain, doubtful

    def _pairs(self, reader: Reader, write: Write, left: Shape, segment: Segment) -> Shape | None:
        """The instances of the read with those of a write of the segment that touch their elements: all of them, or
        where the write is doubtful those that are left; `None` where none are left."""
        mine, theirs, shared = reader.graph, self.points.graph(write), segment.shared
        joined = mine.keyed(shared, False).product_with(theirs.keyed(shared, True), shared + mine.dims)
        rest = mine.instances - shared
        at = rest + shared + mine.dims  # where the other loops of the write begin
        if segment.is_earlier:
            joined = joined.intersect(self.points.order(joined.dims, at, 0))
        own = range(at, at + theirs.depth - shared)
        both = joined.project([*range(rest, rest + shared), *range(rest), *own])
        near = left.product_with(both, mine.instances)
        if near.is_empty():
            return None
        return both if theirs.is_exact else near

    def _latest(self, reader: Reader, one: Reached) -> Reached:
        own = one.write.loop.depth - one.shared
        if not own or self.points.is_told(one.write, one.shared):
            return one
        return one._replace(pairs=self._lexmax(reader, one.pairs))

    def _lexmax(self, reader: Reader, pairs: Shape) -> Shape:
        """Each instance of the read with the lexicographically largest of its partners."""
        names = reader.names
        return pairs.dims_to_params(names).lexmax().params_to_dims(names) if names else pairs.lexmax()

    def _latest_of(self, reader: Reader, segment: Segment, some: list[Reached]) -> list[Reached]:
        """Of the last instances of several writes the last of all: each write where no other comes later."""
        size = reader.graph.instances
        mine = range(size)
        best: Shape | None = None  # the latest times so far; what comes last in the text mostly has them all
        kept: list[tuple[Reached, Shape]] = []
        for one in reversed(some):
            time = self._time(reader, one, segment)
            if best is None:
                best = time
            else:
                wins = time.project(mine).subtract(self._earlier(size, time, best).project(mine))
                if wins.is_empty():
                    continue
                rest = best.project(mine).subtract(wins)
                best = rest.product_with(best, size).union(wins.product_with(time, size))
            kept.append((one, time))
        if best is None or len(kept) == 1:
            return [one for one, _ in kept]
        found = [self._of_time(reader, one, best.intersect(time)) for one, time in reversed(kept)]
        return [one for one in found if not one.pairs.is_empty()]

    def _earlier(self, size: int, times: Shape, than: Shape) -> Shape:
        """The pairs of an instance and a time that is before another time of the same instance."""
        first = than.project([*range(size, than.dims), *range(size)])
        both = first.product_with(times, size).intersect(self.points.lexicographic(size, than.dims - size))
        return both.project(range(than.dims - size, both.dims))

    # -- times: loop values and places in the text, by turns ----------------------------------------------------

    def _time(self, reader: Reader, one: Reached, segment: Segment) -> Shape:
        """The pairs with the time of the write in the place of its other loops: those with the same number of
        coordinates for all writes of a segment are compared in lexicographic order."""
        size = reader.graph.instances
        longest = max(write.loop.depth for write in segment.writes) - one.shared
        own = one.write.loop.depth - one.shared
        places: list[int] = []
        position = one.write.position
        for loop in list(one.write.loop.around())[:own]:
            places.insert(0, position)
            position = loop.position
        padding = [0] * (2 * (longest - own))
        tail = self.points.kind.listing([(*places, *padding)], (), own + len(padding))
        wide = one.pairs.product_with(tail, 0)
        turns = [k for j in range(own) for k in (size + j, size + own + j)]
        return wide.project([*range(size), *turns, *range(size + 2 * own, wide.dims)])

    def _of_time(self, reader: Reader, one: Reached, times: Shape) -> Reached:
        size = reader.graph.instances
        own = one.write.loop.depth - one.shared
        return one._replace(pairs=times.project([*range(size), *(size + 2 * j for j in range(own))]))

    def _not_before(
        self, reader: Reader, segment: Segment, certain: list[Reached], doubtful: list[Reached]
    ) -> list[Reached]:
        """The doubtful writes that are not followed by a certain one."""
        size = reader.graph.instances
        times = [self._time(reader, one, segment) for one in certain]
        last = times[0].union_all(times[1:])
        found = []
        for one in doubtful:
            time = self._time(reader, one, segment)
            rest = self._of_time(reader, one, time.subtract(self._earlier(size, time, last)))
            if not rest.pairs.is_empty():
                found.append(rest)
        return found
