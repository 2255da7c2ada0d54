"""The points of a nest as sets and relations: instances of loops, and the elements that accesses reach from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import reduce

from intset.budgets import INSTANCES
from intset.domains.registry import strongest
from intset.errors import BudgetError
from intset.expr.build import logical_and, logical_or
from intset.expr.node import Cond, Expr, PlainVar, Var
from intset.expr.walk import substitute
from intset.linear.canonical import Normalizer
from intset.linear.form import is_affine
from intset.regions.account import Account
from intset.regions.shape import Shape
from lowering.dataflow.accesses import Way
from lowering.dataflow.program import Access, Loop, Program

Interval = tuple[int | None, int | None]


class Graph:
    """The instances of an access with the elements they reach.

    Attributes
    ----------
    points: `(*loops, *free, *element)`; `free` are those coordinates of the element that may be any.
    free: their numbers.
    is_exact: whether the access reaches just these; else there may be fewer.
    """

    def __init__(self, points: Shape, depth: int, free: tuple[int, ...], dims: int, is_exact: bool) -> None:
        self.points, self.depth, self.free, self.dims, self.is_exact = points, depth, free, dims, is_exact
        self._keyed: dict[tuple[int, bool], Shape] = {}

    @property
    def instances(self) -> int:
        """The number of coordinates of an instance."""
        return self.depth + len(self.free)

    def keyed(self, shared: int, is_first: bool) -> Shape:
        """The points with the first `shared` loops and the element last (or first, in `is_first`), to be joined on."""
        found = self._keyed.get((shared, is_first))
        if found is None:
            key = [*range(shared), *range(self.instances, self.instances + self.dims)]
            rest = range(shared, self.instances)
            order = [*key, *rest] if is_first else [*rest, *key]
            plain = [*range(self.instances + self.dims)]
            found = self.points if order == plain else self.points.project(order)
            self._keyed[shared, is_first] = found
        return found


class Points:
    """The sets of a program, each made when it is first asked for."""

    def __init__(self, program: Program, account: Account | None = None) -> None:
        self.program, self._account = program, account
        self.kind: Shape = strongest().everything(0)
        self._graphs: dict[Access, Graph] = {}
        self._domains: dict[tuple[tuple[Var, ...], tuple[Cond, ...]], tuple[Shape, bool]] = {}
        self._boxes: dict[Access, list[Interval]] = {}
        self._orders: dict[tuple[int, int, int], Shape] = {}
        self._lexicographic: dict[tuple[int, int], Shape] = {}
        self._readers: dict[Loop, Normalizer] = {}
        self._known: Shape | None = None
        self._coordinates: list[Var] = []
        self._conditions: dict[tuple[int, Cond], Shape | BudgetError] = {}

    # -- conditions ---------------------------------------------------------------------------------------------

    @property
    def known(self) -> Shape:
        """What is known of the sizes, as a set without coordinates."""
        if self._known is None:
            ctx = self.program.f.ctx
            given: list[Cond] = [fact.condition for fact in ctx.facts]
            for v, limits in ctx.ranges.items():
                given += [v >= limits.min] if isinstance(limits.min, Expr) else []
                given += [v <= limits.max] if isinstance(limits.max, Expr) else []
            self._known, _ = self._where((), given)
        return self._known

    def _where(self, point: Sequence[Var], conditions: Sequence[Cond]) -> tuple[Shape, bool]:
        """The points at which conditions hold, as far as they can be said; whether that is all."""
        try:
            return self._said(point, logical_and(*conditions)), True
        except BudgetError:
            pass
        parts: list[Shape] = []
        for cond in conditions:
            with suppress(BudgetError):
                parts.append(self._said(point, cond))
        everything = self.kind.everything(len(point))
        return reduce(lambda total, part: total.intersect(part), parts, everything), len(parts) == len(conditions)

    def _said(self, point: Sequence[Var], cond: Cond) -> Shape:
        """The points at which a condition holds; said once for all points that are called otherwise."""
        while len(self._coordinates) < len(point):
            self._coordinates.append(PlainVar(f"x{len(self._coordinates)}"))
        names = self._coordinates[: len(point)]
        asked: Cond = substitute(cond, dict(zip(point, names, strict=True)))
        key = (len(point), asked)
        found = self._conditions.get(key)
        if found is None:
            everything = self.kind.everything(len(point))
            try:
                # Inside of another budget, what that has no more for is no answer to be kept.
                with nullcontext() if everything.is_limited() else everything.budget(INSTANCES, self._account):
                    found = everything.filter(names, asked)
            except BudgetError as error:
                found = error
            self._conditions[key] = found
        if isinstance(found, BudgetError):
            raise BudgetError(str(found))
        return found

    def domain(self, loop: Loop, way: Way) -> tuple[Shape, bool]:
        """The instances of the loops at which the conditions of a way hold; whether these are all the conditions."""
        key = (loop.vars, way.conditions)
        found = self._domains.get(key)
        if found is None:
            shape, is_all = self._where(loop.vars, way.conditions)
            found = self._domains[key] = shape.intersect_params(self.known), is_all
        return found[0], found[1] and way.is_all

    def reached(self, access: Access) -> tuple[Shape, bool]:
        """The instances of an access; whether it is known to happen at all of them."""
        if access in self._graphs and not self._graphs[access].free:
            graph = self._graphs[access]
            return graph.points.project(range(graph.depth)), graph.is_exact
        found = [self.domain(access.loop, access.place.way.joined(way)) for way in access.ways]
        return found[0][0].union_all([shape for shape, _ in found[1:]]), all(is_all for _, is_all in found)

    # -- accesses -----------------------------------------------------------------------------------------------

    def graph(self, access: Access) -> Graph:
        found = self._graphs.get(access)
        if found is None:
            found = self._graphs[access] = self._graph(access)
        return found

    def _graph(self, access: Access) -> Graph:
        loops = access.loop.vars
        element = [PlainVar(f"e{k}") for k in range(len(access.indices))]
        conditions = logical_or(*(logical_and(*way.conditions) for way in access.ways))
        way = access.place.way.joined(Way((conditions,), all(way.is_all for way in access.ways)))
        open_ = [k for k, e in enumerate(access.indices) if e is None]
        while True:
            free = tuple(open_)
            names = [PlainVar(f"f{k}") for k in free]
            reached = [
                e.eq(names[free.index(k)] if k in free or index is None else index)
                for k, (e, index) in enumerate(zip(element, access.indices, strict=True))
            ]
            point = [*loops, *names, *element]
            try:
                shape, is_all = self._said(point, logical_and(*way.conditions, *reached)), True
            except BudgetError:
                shape, is_all = self._where(point, [*way.conditions, *reached])
                lost = [k for k, cond in enumerate(reached) if k not in free and not self._can_say(point, cond)]
                if lost:
                    open_ = sorted({*open_, *lost})
                    continue
            return Graph(
                shape.intersect_params(self.known), len(loops), free, len(element), is_all and way.is_all and not free
            )

    def _can_say(self, point: Sequence[Var], cond: Cond) -> bool:
        try:
            self._said(point, cond)
        except BudgetError:
            return False
        return True

    def box(self, access: Access) -> list[Interval]:
        """Numbers between which each index lies."""
        found = self._boxes.get(access)
        if found is None:
            reader = self.reader(access.loop)
            ends = [(None, None) if e is None else reader.bounds(reader.form(e)) for e in access.indices]
            found = self._boxes[access] = ends
        return found

    def reader(self, loop: Loop) -> Normalizer:
        """What reads expressions inside of a loop, with numbers between which its variables lie."""
        found = self._readers.get(loop)
        if found is None:
            if loop.parent is None or loop.limits is None:
                found = Normalizer({})
            else:
                outer = self.reader(loop.parent)
                low, extent = loop.limits
                first, _ = outer.bounds(outer.form(low))
                _, last = outer.bounds(outer.form(low + extent - 1))
                found = Normalizer({**outer.ranges, loop.vars[-1]: (first, last)})
            self._readers[loop] = found
        return found

    def is_told(self, access: Access, shared: int) -> bool:
        """Whether the element tells the values of the loops beyond the first ones: each stands alone in an index."""
        own = set(access.loop.vars[shared:])
        reader = self.reader(access.loop)
        alone = set()
        for form in (reader.form(e) for e in access.indices if e is not None):
            inside = [v for v in form.terms if v in own]
            if len(inside) == 1 and is_affine(form):
                alone.add(inside[0])
        return len(alone) == len(own)

    def are_apart(self, a: Access, b: Access) -> bool:
        """Whether it is plain that two accesses have no element in common."""
        for (low, high), (first, last) in zip(self.box(a), self.box(b), strict=True):
            if (high is not None and first is not None and high < first) or (
                last is not None and low is not None and last < low
            ):
                return True
        return False

    # -- order --------------------------------------------------------------------------------------------------

    def order(self, dims: int, earlier: int, later: int) -> Shape:
        """The points with so many coordinates of which one is less than another."""
        found = self._orders.get((dims, earlier, later))
        if found is None:
            point = [PlainVar(f"x{k}") for k in range(dims)]
            found = self.kind.everything(dims).filter(point, point[earlier] < point[later])
            self._orders[dims, earlier, later] = found
        return found

    def lexicographic(self, before: int, length: int) -> Shape:
        """The points `(*a, *x, *b)` with `before` coordinates x, of which b comes before a in lexicographic order."""
        found = self._lexicographic.get((before, length))
        if found is None:
            point = [PlainVar(f"x{k}") for k in range(before + 2 * length)]
            a, b = point[:length], point[before + length :]
            less = [
                logical_and(*(p.eq(q) for p, q in zip(a[:k], b[:k], strict=True)), b[k] < a[k]) for k in range(length)
            ]
            found = self.kind.everything(len(point)).filter(point, logical_or(*less))
            self._lexicographic[before, length] = found
        return found

    def everything_of(self, extents: Sequence[Expr], is_touchable: Callable[[Sequence[Expr]], Cond]) -> Graph:
        """A read of every element of a parameter that may be touched: its instances are the elements."""
        dims = len(extents)
        element = [PlainVar(f"e{k}") for k in range(dims)]
        free = [PlainVar(f"f{k}") for k in range(dims)]
        same = [e.eq(v) for e, v in zip(element, free, strict=True)]
        inside = [(e >= 0) & (e < extent) for e, extent in zip(element, extents, strict=True)]
        shape, _ = self._where([*free, *element], [*same, *inside, is_touchable(element)])
        return Graph(shape.intersect_params(self.known), 0, tuple(range(dims)), dims, False)
