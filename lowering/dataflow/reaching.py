"""Dependences as relations, reaching definitions of a read, and the values that they leave.

An access is a set of instances and a relation to elements. A dependence is a pair of accesses that share an element,
with at least one write. Sets are computed on first use.

Reaching definitions are found by a walk of the nest backwards from the read. The walk goes back in time: the items in
front of the read in its innermost loop, the earlier iterations of that loop, the items in front of the loop, and so on
to the beginning or to the `allocate`. For each such *segment*, the last write of each element is a lexicographic
maximum over loop values and text positions; instances with a write leave the walk. Source: Feautrier, Dataflow analysis
of array and scalar references, 1991.

Invariant: an uncertain write, or one of unknown elements, hides no earlier write; it may be the one that is read.

`WrittenValues` gives the values of writes, over the loops around them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import build
from bound.tir.value import PARAM, Operand, Value
from bound.tir.walk import loaded_tensor, nodes
from intset.config import memoized
from intset.domains.registry import strongest
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Range, Var, dag, ops
from intset.expr.build import logical_and, logical_or
from intset.expr.node import PlainVar
from intset.expr.range import range_conditions
from intset.linear.canonical import Normalizer
from intset.linear.form import is_affine
from intset.regions.shape import Account, Shape
from lowering.dataflow import program as programs
from lowering.dataflow.program import Access, WriteAccess
from lowering.errors import LayoutError
from lowering.nest import ir
from lowering.nest.scope import Scope, element_accesses, limits_of_elements
from lowering.nest.walk import elements_read, replaced, statements

if TYPE_CHECKING:
    from lowering.dataflow.flow import Source

REACHING: Final = 1_000_000  # operations for the writes that reach one read, and for their conditions


DEPENDENCE: Final = 1_000_000  # operations for the meetings of two accesses
INSTANCES: Final = 200_000  # operations for the instances at which a condition holds


class AccessRelation:
    """An access relation: instances of an access paired with elements.

    Attributes
    ----------
    points: tuples `(*loops, *free, *element)`.
    free: dimensions with an unknown, unconstrained index.
    is_exact: whether the access reaches exactly these elements; otherwise a subset.
    """

    def __init__(self, points: Shape, depth: int, free: tuple[int, ...], dims: int, is_exact: bool) -> None:
        self.points, self.depth, self.free, self.dims, self.is_exact = points, depth, free, dims, is_exact

    @property
    def instances(self) -> int:
        """The number of coordinates of an instance."""
        return self.depth + len(self.free)

    @memoized
    def keyed(self, shared: int, is_first: bool) -> Shape:
        """The points with their join key, the first `shared` loops and the element, last, or first if `is_first`."""
        key = [*range(shared), *range(self.instances, self.instances + self.dims)]
        rest = range(shared, self.instances)
        order = [*key, *rest] if is_first else [*rest, *key]
        return self.points if order == [*range(self.instances + self.dims)] else self.points.project(order)


class InstanceSets:
    """The sets of a program.

    Guarantee: each contains the true set; flags say whether it equals that.
    """

    def __init__(self, program: programs.Program, account: Account | None = None) -> None:
        self.program, self._account = program, account
        self.kind: Shape = strongest().everything(0)
        self._relations: dict[Access, AccessRelation] = {}
        self._coordinates: list[Var] = []
        self._filters: dict[tuple[int, Cond], Shape | BudgetError] = {}

    # -- conditions ---------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> Shape:
        """The sizes that the context of the function permits, as a set without coordinates."""
        ctx = self.program.f.ctx
        conditions = [fact.condition for fact in ctx.facts]
        conditions += [cond for v, limits in ctx.ranges.items() for cond in range_conditions(v, limits)]
        return self._filtered((), conditions)[0]

    def _filtered(self, point: Sequence[Var], conditions: Sequence[Cond]) -> tuple[Shape, bool]:
        """The points at which all expressible conditions hold; whether all conditions are expressible."""
        with suppress(BudgetError):
            return self._filter(point, logical_and(*conditions)), True
        total, expressible = self.kind.everything(len(point)), 0
        for cond in conditions:
            if self._is_expressible(point, cond):
                total, expressible = total.intersect(self._filter(point, cond)), expressible + 1
        return total, expressible == len(conditions)

    def _filter(self, point: Sequence[Var], cond: Cond) -> Shape:
        """The points at which a condition holds, cached independently of their names."""
        while len(self._coordinates) < len(point):
            self._coordinates.append(PlainVar(f"x{len(self._coordinates)}"))
        names = self._coordinates[: len(point)]
        renamed: Cond = dag.substitute(cond, dict(zip(point, names, strict=True)))
        key = (len(point), renamed)
        answer = self._filters.get(key)
        if answer is None:
            universe = self.kind.everything(len(point))
            is_limited = universe.is_limited()
            try:
                with nullcontext() if is_limited else universe.budget(INSTANCES, self._account):
                    answer = universe.filter(names, renamed)
            except BudgetError as error:
                if is_limited:
                    raise  # refused by an outer budget: no answer to cache
                answer = error
            self._filters[key] = answer
        if isinstance(answer, BudgetError):
            raise BudgetError(str(answer))
        return answer

    def domain(self, loop: programs.LoopNode, guard: programs.AccessGuard) -> tuple[Shape, bool]:
        """Loop instances satisfying a guard, and an exactness flag."""
        shape, is_exact = self._where(loop.vars, guard.conditions)
        return shape, is_exact and guard.is_complete

    @memoized
    def _where(self, point: tuple[Var, ...], conditions: tuple[Cond, ...]) -> tuple[Shape, bool]:
        shape, is_exact = self._filtered(point, conditions)
        return shape.intersect_params(self.sizes), is_exact

    def iterations(self, loop: programs.LoopNode) -> Shape:
        """The instances of the loops, by their ranges alone."""
        return self.domain(loop, programs.AccessGuard(loop.ranges))[0]

    def reached(self, access: Access) -> tuple[Shape, bool]:
        """The instances of an access; whether it certainly happens at all of them."""
        if access in self._relations and not self._relations[access].free:
            relation = self._relations[access]
            return relation.points.project(range(relation.depth)), relation.is_exact
        domains = [self.domain(access.loop, access.site.guard.joined(guard)) for guard in access.guards]
        return domains[0][0].union_all([shape for shape, _ in domains[1:]]), all(is_exact for _, is_exact in domains)

    # -- accesses -----------------------------------------------------------------------------------------------

    def relation(self, access: Access) -> AccessRelation:
        """The relation of an access; it has a budget of its own."""
        if access not in self._relations:
            self._relations[access] = self._relation(access)
        return self._relations[access]

    def _relation(self, access: Access) -> AccessRelation:
        loops = access.loop.vars
        element = [PlainVar(f"e{k}") for k in range(len(access.indices))]
        either = logical_or(*(logical_and(*guard.conditions) for guard in access.guards))
        guard = access.site.guard.joined(programs.AccessGuard((either,), all(one.is_complete for one in access.guards)))
        free = tuple(k for k, e in enumerate(access.indices) if e is None)
        while True:
            names = [PlainVar(f"f{k}") for k in free]
            equations = [
                e.eq(names[free.index(k)] if k in free or index is None else index)
                for k, (e, index) in enumerate(zip(element, access.indices, strict=True))
            ]
            point = [*loops, *names, *element]
            conditions = [*guard.conditions, *equations]
            shape, is_exact = self._filtered(point, conditions)
            if not is_exact:
                lost = [k for k, eq in enumerate(equations) if k not in free and not self._is_expressible(point, eq)]
                if lost:
                    free = tuple(sorted({*free, *lost}))
                    continue
            is_exact = is_exact and guard.is_complete and not free
            return AccessRelation(shape.intersect_params(self.sizes), len(loops), free, len(element), is_exact)

    def _is_expressible(self, point: Sequence[Var], cond: Cond) -> bool:
        try:
            self._filter(point, cond)
        except BudgetError:
            return False
        return True

    def elements_of(self, extents: Sequence[Expr], is_touchable: Callable[[Sequence[Expr]], Cond]) -> AccessRelation:
        """A read of every touchable element of a parameter; the elements are its instances."""
        dims = len(extents)
        element = [PlainVar(f"e{k}") for k in range(dims)]
        free = [PlainVar(f"f{k}") for k in range(dims)]
        same = [e.eq(v) for e, v in zip(element, free, strict=True)]
        inside = [(e >= 0) & (e < extent) for e, extent in zip(element, extents, strict=True)]
        shape, _ = self._filtered([*free, *element], [*same, *inside, is_touchable(element)])
        return AccessRelation(shape.intersect_params(self.sizes), 0, tuple(range(dims)), dims, False)

    # -- without sets -------------------------------------------------------------------------------------------

    @memoized
    def _box(self, access: Access) -> list[tuple[float, float]]:
        """Numeric bounds of each index."""
        linear = self._normalizer(access.loop)
        ends = [(None, None) if e is None else linear.bounds(linear.form(e)) for e in access.indices]
        return [(-inf if low is None else low, inf if high is None else high) for low, high in ends]

    @memoized
    def _normalizer(self, loop: programs.LoopNode) -> Normalizer:
        """The linear forms inside a loop, with numeric bounds of its variables."""
        if loop.parent is None or loop.limits is None:
            return Normalizer({})
        outer = self._normalizer(loop.parent)
        low, extent = loop.limits
        first, _ = outer.bounds(outer.form(low))
        _, last = outer.bounds(outer.form(low + extent - 1))
        return Normalizer({**outer.ranges, loop.vars[-1]: (first, last)})

    def is_determined(self, access: Access, shared: int) -> bool:
        """Whether the element determines the loops beyond the first `shared`: each is alone in an affine index."""
        own = set(access.loop.vars[shared:])
        linear = self._normalizer(access.loop)
        alone = set()
        for form in (linear.form(e) for e in access.indices if e is not None):
            inside = [v for v in form.terms if v in own]
            if len(inside) == 1 and is_affine(form):
                alone.add(inside[0])
        return len(alone) == len(own)

    def are_apart(self, a: Access, b: Access) -> bool:
        """Whether numeric bounds of the indices show that two accesses have no element in common."""
        boxes = zip(self._box(a), self._box(b), strict=True)
        return any(high < first or last < low for (low, high), (first, last) in boxes)

    # -- order --------------------------------------------------------------------------------------------------

    @memoized
    def order(self, dims: int, earlier: int, later: int) -> Shape:
        """Points with `dims` coordinates, filtered by `x[earlier] < x[later]`."""
        point = [PlainVar(f"x{k}") for k in range(dims)]
        return self.kind.where(point, point[earlier] < point[later])

    @memoized
    def lexicographic(self, before: int, length: int) -> Shape:
        """The points `(*a, *x, *b)` with `before` coordinates x, at which b precedes a lexicographically."""
        point = [PlainVar(f"x{k}") for k in range(before + 2 * length)]
        return self.kind.where(point, precedes(point[before + length :], point[:length]))


def precedes(x: Sequence[Expr], y: Sequence[Expr]) -> Cond:
    """The condition that one point precedes another in lexicographic order."""
    less = [logical_and(*(a.eq(b) for a, b in zip(x[:k], y[:k], strict=True)), x[k] < y[k]) for k in range(len(x))]
    return logical_or(*less)


ExecutionOrder: TypeAlias = "Callable[[Sequence[Var], Sequence[Var]], Cond]"
"""A condition on the loops around two accesses, outermost first."""


class Dependences:
    """The dependences of a statement of a function.

    Storage that is allocated inside is left out.

    Parameters
    ----------
    scope: the scope in front of the statement.
    """

    def __init__(self, f: ir.Function, stmt: ir.Stmt, scope: Scope) -> None:
        used: dict[Tensor, None] = {}
        own = {inner.tensor for inner in statements(stmt) if isinstance(inner, ir.Allocate)}
        for inner in statements(stmt):
            if isinstance(inner, ir.Evaluate):
                used.update(dict.fromkeys((*inner.reads, *inner.writes)))
            used.update((access.tensor, None) for access in element_accesses(inner))
        params = tuple(t for t in used if t not in own)
        self.program = programs.Program(replace(f, params=params, outputs=(), body=stmt, ctx=scope.ctx))
        self._sets = InstanceSets(self.program)

    def pairs(self) -> Iterator[tuple[Access, Access]]:
        """Access pairs with possibly overlapping elements and at least one write."""
        for storage in (s for s in self.program.storages if s.is_param):
            writes = [w for w in self.program.writes[storage] if w.kind != "assume"]
            every: list[Access] = [*self.program.reads[storage], *writes]
            for k, a in enumerate(every):
                for b in every[k:]:
                    is_write = isinstance(a, WriteAccess) or isinstance(b, WriteAccess)
                    if is_write and not self._sets.are_apart(a, b):
                        yield a, b

    def text(self, access: Access) -> str:
        """The printed line of the statement of an access."""
        return self.program.lines[access.site.path].text.strip()

    def is_exact(self, access: Access) -> bool:
        """Whether an access certainly happens, to known elements."""
        return self._sets.relation(access).is_exact

    def meetings(self, a: Access, b: Access, order: ExecutionOrder, with_element: bool = False) -> Shape | None:
        """The values `(*x, *y)` of the loops around two accesses to one element, in some order; `None` for none.

        Guarantee: a superset; equal if both accesses are exact.

        Parameters
        ----------
        with_element: whether the indices of the element follow.

        Raises
        ------
        LayoutError: sets cannot express the order.
        BudgetError: the answer is out of the budget.
        """
        x = [PlainVar(v.name) for v in a.loop.vars]
        y = [PlainVar(v.name) for v in b.loop.vars]
        element = [PlainVar(f"e{k}") for k in range(len(a.indices) if with_element else 0)]
        try:
            ordered = self._sets.kind.where([*x, *y, *element], order(x, y))
        except BudgetError as error:
            raise LayoutError(f"whether the order of accesses matters is not known: {error}") from error
        try:
            first, second = self._sets.relation(a), self._sets.relation(b)
            other = first.instances + first.dims
            key = range(first.instances, first.instances + len(element))
            with first.points.budget(DEPENDENCE):
                joined = first.keyed(0, False).product_with(second.keyed(0, True), first.dims)
                loops = [*range(first.depth), *range(other, other + second.depth)]
                shape = joined.project([*loops, *key]).intersect(ordered)
                return None if shape.is_empty() else shape
        except BudgetError as error:
            raise _undecided(error) from error

    def witness(self, a: Access, b: Access, order: ExecutionOrder) -> tuple[int, ...] | None:
        """A point of `meetings`; `None` if two accesses never meet in this order.

        Raises
        ------
        LayoutError, BudgetError: as `meetings`.
        """
        shape = self.meetings(a, b, order)
        try:
            return None if shape is None else shape.sample()
        except BudgetError as error:
            raise _undecided(error) from error


def _undecided(error: BudgetError) -> BudgetError:
    return BudgetError(f"whether the order of accesses matters is out of the budget: {error}")


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

    def __init__(self, program: programs.Program, sources: Callable[[programs.ReadAccess], Sequence[Source]]) -> None:
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
        if value is None or ir.has_undef(value):
            return None
        below = list(nodes(value))
        if len(below) > VALUE_NODES:
            return None
        scalars = set(self._program.f.scalars)
        if any(isinstance(n, Value) and n.op is PARAM and n not in scalars for n in below):
            return None
        contents: dict[Operand, Operand] = {}
        for node, tensor in elements_read(value):
            if not self._is_constant(tensor):
                content = self._content(write, node)
                if content is None:
                    return None
                contents[node] = content
        value = replaced(value, contents) if contents else value
        terms: list[Operand] = dag.postorder((value,))
        if any(term.op is ops.LOAD and loaded_tensor(term) is None for term in terms):
            return None
        return self._converted(value, write)

    def _is_constant(self, tensor: Tensor) -> bool:
        """Whether the nest never writes a tensor."""
        return not any(
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
        if any(loaded_tensor(term) is None for term in dag.opaque_terms(value)):
            return False
        ranges: dict[Var, Range | None] = {}
        for loop in reversed(list(write.loop.around())):
            if loop.limits is not None and not dag.opaque_terms(*loop.limits):
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
    loop: programs.LoopNode
    position: int
    storage: programs.TensorStorage
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


def segments(loop: programs.LoopNode, position: int, storage: programs.TensorStorage) -> Iterator[Segment]:
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
        self, read: ReadInstances, kinds: tuple[str, ...], bound: programs.AssumedBound | None = None
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
