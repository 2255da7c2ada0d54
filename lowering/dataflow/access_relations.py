"""Accesses as integer sets and relations: instances, elements, and the dependences of one statement.

A dependence is a pair of accesses that share an element, with at least one write. Sets are computed on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Final, TypeAlias

from bound.tensor import Tensor
from intset.domains.registry import strongest
from intset.errors import BudgetError
from intset.expr.build import logical_and, logical_or
from intset.expr.dag import substitute
from intset.expr.node import Cond, Expr, PlainVar, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import is_affine
from intset.regions.shape import Account, Shape
from lowering.dataflow.accesses import AccessGuard
from lowering.dataflow.program import Access, LoopNode, Program, WriteAccess
from lowering.errors import LayoutError
from lowering.nest.ir import Allocate, Evaluate, Function, Stmt
from lowering.nest.scope import Scope
from lowering.nest.tensors import element_accesses
from lowering.nest.walk import statements

DEPENDENCE: Final = 1_000_000  # operations for the meetings of two accesses
INSTANCES: Final = 200_000  # operations for the instances at which a condition holds

NumericEnds: TypeAlias = "tuple[int | None, int | None]"
"""Lower and upper bound; `None` where there is none."""


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
        self._keyed: dict[tuple[int, bool], Shape] = {}

    @property
    def instances(self) -> int:
        """The number of coordinates of an instance."""
        return self.depth + len(self.free)

    def keyed(self, shared: int, is_first: bool) -> Shape:
        """The points with their join key, the first `shared` loops and the element, last, or first if `is_first`."""
        keyed = self._keyed.get((shared, is_first))
        if keyed is None:
            key = [*range(shared), *range(self.instances, self.instances + self.dims)]
            rest = range(shared, self.instances)
            order = [*key, *rest] if is_first else [*rest, *key]
            is_ordered = order == [*range(self.instances + self.dims)]
            keyed = self._keyed[shared, is_first] = self.points if is_ordered else self.points.project(order)
        return keyed


class InstanceSets:
    """The sets of a program.

    Guarantee: each contains the true set; flags say whether it equals that.
    """

    def __init__(self, program: Program, account: Account | None = None) -> None:
        self.program, self._account = program, account
        self.kind: Shape = strongest().everything(0)
        self._relations: dict[Access, AccessRelation] = {}
        self._domains: dict[tuple[tuple[Var, ...], tuple[Cond, ...]], tuple[Shape, bool]] = {}
        self._boxes: dict[Access, list[NumericEnds]] = {}
        self._orders: dict[tuple[int, int, int], Shape] = {}
        self._lexicographic: dict[tuple[int, int], Shape] = {}
        self._normalizers: dict[LoopNode, Normalizer] = {}
        self._sizes: Shape | None = None
        self._coordinates: list[Var] = []
        self._filters: dict[tuple[int, Cond], Shape | BudgetError] = {}

    # -- conditions ---------------------------------------------------------------------------------------------

    @property
    def sizes(self) -> Shape:
        """The sizes that the context of the function permits, as a set without coordinates."""
        if self._sizes is None:
            ctx = self.program.f.ctx
            conditions: list[Cond] = [fact.condition for fact in ctx.facts]
            for v, limits in ctx.ranges.items():
                conditions += [v >= limits.min] if isinstance(limits.min, Expr) else []
                conditions += [v <= limits.max] if isinstance(limits.max, Expr) else []
            self._sizes, _ = self._filtered((), conditions)
        return self._sizes

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
        renamed: Cond = substitute(cond, dict(zip(point, names, strict=True)))
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

    def domain(self, loop: LoopNode, guard: AccessGuard) -> tuple[Shape, bool]:
        """Loop instances satisfying a guard, and an exactness flag."""
        key = (loop.vars, guard.conditions)
        if key not in self._domains:
            shape, is_exact = self._filtered(loop.vars, guard.conditions)
            self._domains[key] = shape.intersect_params(self.sizes), is_exact
        shape, is_exact = self._domains[key]
        return shape, is_exact and guard.is_complete

    def iterations(self, loop: LoopNode) -> Shape:
        """The instances of the loops, by their ranges alone."""
        return self.domain(loop, AccessGuard(loop.ranges))[0]

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
        guard = access.site.guard.joined(AccessGuard((either,), all(one.is_complete for one in access.guards)))
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

    def _box(self, access: Access) -> list[NumericEnds]:
        """Numeric bounds of each index."""
        if access not in self._boxes:
            linear = self._normalizer(access.loop)
            self._boxes[access] = [(None, None) if e is None else linear.bounds(linear.form(e)) for e in access.indices]
        return self._boxes[access]

    def _normalizer(self, loop: LoopNode) -> Normalizer:
        """The linear forms inside a loop, with numeric bounds of its variables."""
        if loop not in self._normalizers:
            if loop.parent is None or loop.limits is None:
                self._normalizers[loop] = Normalizer({})
            else:
                outer = self._normalizer(loop.parent)
                low, extent = loop.limits
                first, _ = outer.bounds(outer.form(low))
                _, last = outer.bounds(outer.form(low + extent - 1))
                self._normalizers[loop] = Normalizer({**outer.ranges, loop.vars[-1]: (first, last)})
        return self._normalizers[loop]

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
        for (low, high), (first, last) in zip(self._box(a), self._box(b), strict=True):
            if (high is not None and first is not None and high < first) or (
                last is not None and low is not None and last < low
            ):
                return True
        return False

    # -- order --------------------------------------------------------------------------------------------------

    def order(self, dims: int, earlier: int, later: int) -> Shape:
        """Points with `dims` coordinates, filtered by `x[earlier] < x[later]`."""
        key = (dims, earlier, later)
        if key not in self._orders:
            point = [PlainVar(f"x{k}") for k in range(dims)]
            self._orders[key] = self.kind.where(point, point[earlier] < point[later])
        return self._orders[key]

    def lexicographic(self, before: int, length: int) -> Shape:
        """The points `(*a, *x, *b)` with `before` coordinates x, at which b precedes a lexicographically."""
        key = (before, length)
        if key not in self._lexicographic:
            point = [PlainVar(f"x{k}") for k in range(before + 2 * length)]
            self._lexicographic[key] = self.kind.where(point, precedes(point[before + length :], point[:length]))
        return self._lexicographic[key]


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

    def __init__(self, f: Function, stmt: Stmt, scope: Scope) -> None:
        used: dict[Tensor, None] = {}
        own = {inner.tensor for inner in statements(stmt) if isinstance(inner, Allocate)}
        for inner in statements(stmt):
            if isinstance(inner, Evaluate):
                used.update(dict.fromkeys((*inner.reads, *inner.writes)))
            used.update((access.tensor, None) for access in element_accesses(inner))
        params = tuple(t for t in used if t not in own)
        self.program = Program(replace(f, params=params, outputs=(), body=stmt, ctx=scope.ctx))
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
