"""`dataflow`: what every element holds where it is read, and which stores nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bound.tensor import Tensor
from bound.tir.value import Operand
from intset.budgets import BOUNDS_OF_ELEMENT, DATAFLOW, DATAFLOW_LEAST, DATAFLOW_PER_STATEMENT, REACHING
from intset.config import Configured, all_as_configured, as_configured
from intset.domains.sets.region import Region, region_of_shape
from intset.errors import BudgetError, InputError
from intset.expr.build import logical_and, logical_not
from intset.expr.node import Cond, Expr, PlainVar, truth
from intset.expr.text import shown
from intset.regions.account import Account
from intset.regions.shape import Shape
from lowering.dataflow.accesses import Way
from lowering.dataflow.points import Points
from lowering.dataflow.program import Access, Bound, Place, Program, Read, Storage, Write
from lowering.dataflow.reaching import Answer, Reaching, Reader
from lowering.dataflow.values import Values
from lowering.nest.ir import Function, Store, checked_function
from lowering.nest.tensors import is_outside
from lowering.nest.text import text
from lowering.nest.walk import replaced, statements

_STORES = ("store", "call")
_ALL = ("store", "call", "assume")
_END = 1 << 30


@dataclass(frozen=True, eq=False)
class Source:
    """Where the value comes from that a read meets.

    Attributes
    ----------
    where: for which values of the reader's loops; the sources of a read do not overlap, and are together all that is
        reached. Where a guard depends on data they may be more than that.
    kind: "store"; "entry", what a parameter was given; "unwritten"; "assume", an assumption says it; "unknown".
    line: of the writer, or of the assumption; `None` for entry and unwritten, and where it may be one of several.
    at: the values of the writer's loops, outermost first, over the reader's loops; `None` where they are not known.
    value: what is read, over the reader's loops, as the element holds it; `None` where that is not known or no
        expression. An element in it is one that nothing in the nest writes.
    """

    where: Cond
    kind: str
    line: int | None = None
    at: tuple[Expr, ...] | None = None
    value: Operand | None = None


@all_as_configured
class Dataflow(Configured):
    """The dataflow of a function. Lines are those of `str(f)`; its head is line 1.

    Everything is exact where conditions, indices and ranges are quasi-affine in loops and sizes, sizes within what they
    declare and the context of the function says. What depends on data is "unknown", and nothing uncertain is dead.

    Example
    -------
    >>> from lowering import dataflow, parse_nest
    >>> d = dataflow(parse_nest('''
    ... def f(A: int32[16]):
    ...     for i in [0, 4):
    ...         for j in [0, 4):
    ...             if i * 4 + j > 0:
    ...                 A[i * 4 + j] = A[i * 4 + j - 1]
    ... '''))
    >>> for source in d.sources(5)["A[i * 4 + j - 1]"]:
    ...     print(source.kind, source.at)
    store (i, j - 1)
    store (i - 1, 3)
    entry None
    """

    def __init__(self, f: Function, account: Account | None = None) -> None:
        checked_function(f, "dataflow")
        self.f, self._account = f, account
        self._program = Program(replace(f, ctx=f.ctx.extended()))  # no block that is entered later bears on it
        self._points = Points(self._program, account)
        self._reaching = Reaching(self._points, account)
        self._answers: dict[tuple[Read | Storage, bool], Answer | None] = {}
        self._live: dict[Storage, dict[Write, Shape] | None] = {}
        self._dead: dict[Place, Cond] = {}
        self._held: dict[Place, Read] = {}
        self._sources: dict[Read, tuple[Source, ...]] = {}
        self._values = Values(self._program, self._points, self._of)

    # -- questions ----------------------------------------------------------------------------------------------

    def sources(self, line: int) -> dict[str, tuple[Source, ...]]:
        """For each element that a line reads, by its text, where its value comes from; a host call reads whole tensors,
        by their names.

        Raises
        ------
        InputError: no statement begins in this line.
        """
        place = self._place(line)
        found: dict[str, tuple[Source, ...]] = {}
        for key, read in place.reads.items():
            names = place.line.names
            label = names.get(key, key.name) if isinstance(key, Tensor) else text(key, names)
            found[label] = self._of(read)
        return found

    def by_element(self, line: int) -> dict[Operand | Tensor, tuple[Source, ...]]:
        """What `sources` tells, by the element itself, or the tensor, instead of its text."""
        return {key: self._of(read) for key, read in self._place(line).reads.items()}

    def held(self, line: int) -> tuple[Source, ...]:
        """What the element that the store in a line is to holds before it.

        Raises
        ------
        InputError: no store begins in this line.
        """
        return self._of(self._before(line))

    def assumed(self, line: int) -> dict[Operand, list[tuple[Cond, Operand]]]:
        """What assumptions say of the elements that a line reads without giving them a value: where, and a comparison.

        An assumption holds until its element is stored; of several that say something of an element all are told.
        """
        found: dict[Operand, list[tuple[Cond, Operand]]] = {}
        for node, read in self._place(line).reads.items():
            for bound in self._program.bounds.get(read.storage, ())[:BOUNDS_OF_ELEMENT]:
                if bound.place is not read.place and not isinstance(node, Tensor):
                    found.setdefault(node, []).extend(self._said_of(node, read, bound))
        return found

    def _said_of(self, node: Operand, read: Read, bound: Bound) -> list[tuple[Cond, Operand]]:
        if self._points.are_apart(read, bound) or self._points.graph(read).free:
            return []
        said = []
        try:
            answer = self._reaching(self._reader(read), _STORES, bound)
            with self._points.graph(read).points.budget(REACHING, self._account):
                for one in answer.told:
                    for domain, values in one.pairs.functions(read.loop.vars) if one.write is bound else ():
                        at = (*read.loop.vars[: one.shared], *values)
                        names: dict[Operand, Operand] = dict(
                            zip((*bound.loop.vars, bound.held), (*at, node), strict=True)
                        )
                        where = self._condition(domain, read.place)
                        said += [(where, replaced(relation, names)) for relation in bound.relations]
        except BudgetError:
            return []
        return said

    def not_told(self, line: int) -> Iterator[Cond]:
        """Where an element that the store in a line reads and the nest writes, or the one that it is to, holds what
        nothing in the nest wrote, or one knows not what: asked first, it spares the rest."""
        before = self._before(line)
        writes = self._program.writes
        reads = (r for r in before.place.reads.values() if writes[r.storage] or not r.storage.is_param)
        return (self._not_told(read) for read in (*reads, before))

    @as_configured
    def _not_told(self, read: Read) -> Cond:
        """Where no write, and no assumption, tells what a read meets."""
        answer = None if self._points.graph(read).free else self._answer(read, True)
        try:
            if answer is not None:
                return self._condition(answer.open.union(answer.unknown), read.place)
        except BudgetError:
            pass
        return self._whole(read)

    def _before(self, line: int) -> Read:
        """The element that a store is to, as if it was read before."""
        place = self._place(line)
        if not isinstance(place.stmt, Store):
            raise InputError(f"line {line} stores nothing: {place.line.text.strip()}")
        if place not in self._held:
            (write,) = place.writes
            self._held[place] = read = Read(place, write.storage, write.indices, write.ways)
            read.position = write.position
        return self._held[place]

    def dead(self, line: int, ignoring: Mapping[int, Cond] | None = None) -> Cond:
        """For which values of the loops around the store in a line its value is never read: by no statement, dead or
        not, and, where it is kept in a parameter, by nobody after the end.

        Parameters
        ----------
        ignoring: for lines of statements, a condition on the loops around: what they read there does not count.

        Raises
        ------
        InputError: no store begins in this line.
        """
        place = self._place(line)
        if not isinstance(place.stmt, Store):
            raise InputError(f"line {line} stores nothing: {place.line.text.strip()}")
        if ignoring:
            (write,) = place.writes
            return self._found_dead(place, self._found_living(write.storage, ignoring))
        if place not in self._dead:
            (write,) = place.writes
            self._dead[place] = self._found_dead(place, self._living(write.storage))
        return self._dead[place]

    def _found_dead(self, place: Place, live: dict[Write, Shape] | None) -> Cond:
        (write,) = place.writes
        if live is None:
            return truth(False)
        box, _ = self._points.domain(place.loop, Way(place.loop.ranges, True))
        try:
            with box.budget(REACHING, self._account):
                reached, _ = self._points.reached(write)
                dead = reached.subtract(live[write]) if write in live else reached
                return self._condition(dead, place)
        except BudgetError:
            return truth(False)

    def touched(self, name: str) -> tuple[Region, Region]:
        """The elements of a tensor that are read, and those that are written, at any time; guards are respected.

        Raises
        ------
        InputError: the function has no tensor of this name.
        """
        storages = [s for s in self._program.storages if s.tensor.name == name]
        if not storages:
            known = ", ".join(dict.fromkeys(s.tensor.name for s in self._program.storages))
            raise InputError(f"{shown(name)} is no tensor of {self.f.name}: the tensors are {known}")
        read: list[Access] = [access for s in storages for access in self._program.reads[s]]
        written: list[Access] = [a for s in storages for a in self._program.writes[s] if a.kind != "assume"]
        return self._region(storages[0], read), self._region(storages[0], written)

    # -- inside -------------------------------------------------------------------------------------------------

    def _place(self, line: int) -> Place:
        if isinstance(line, bool) or not isinstance(line, int):
            raise InputError(f"a line is a number, not {shown(line)}")
        found = self._program.places.get(line)
        if found is None:
            raise InputError(f"no statement begins in line {shown(line)} of {self.f.name}")
        return found

    def _condition(self, shape: Shape, place: Place) -> Cond:
        """The condition for the loops of a place to be in a set, within their ranges."""
        box, _ = self._points.domain(place.loop, Way(place.loop.ranges, True))
        if shape.is_empty():
            return truth(False)
        if shape.includes(box):
            return truth(True)
        return shape.simplified(box).condition(place.loop.vars)

    def _reader(self, read: Read) -> Reader:
        graph = self._points.graph(read)
        names = (*read.loop.vars, *(PlainVar(f"f{k}") for k in graph.free))
        return Reader(graph, names, read.loop, read.position, read.storage, read)

    def _at_end(self, storage: Storage) -> Reader:
        graph = self._points.everything_of(storage.tensor.extents, self._is_touchable(storage))
        names = tuple(PlainVar(f"f{k}") for k in graph.free)
        return Reader(graph, names, self._program.root, _END, storage)

    def _answer(self, asked: Read | Storage, with_assumptions: bool) -> Answer | None:
        """What reaches a read, or the end; `None` where it is out of the budget."""
        storage = asked.storage if isinstance(asked, Read) else asked
        has_assumptions = any(w.kind == "assume" for w in self._program.writes[storage])
        key = (asked, with_assumptions and has_assumptions)
        if key not in self._answers:
            reader = self._reader(asked) if isinstance(asked, Read) else self._at_end(asked)
            try:
                self._answers[key] = self._reaching(reader, _ALL if key[1] else _STORES)
            except BudgetError:
                self._answers[key] = None
        return self._answers[key]

    def _living(self, storage: Storage) -> dict[Write, Shape] | None:
        """The instances of each write of a storage whose value may be read; `None` where that is not known."""
        if storage not in self._live:
            self._live[storage] = self._found_living(storage, {})
        return self._live[storage]

    def _found_living(self, storage: Storage, ignoring: Mapping[int, Cond]) -> dict[Write, Shape] | None:
        asked: list[Read | Storage] = [*self._program.reads[storage], *([storage] if storage.is_param else [])]
        parts: dict[Write, list[Shape]] = {}
        for one in asked:
            answer = self._answer(one, False)
            if answer is None:
                return None
            size = self._points.graph(one).instances if isinstance(one, Read) else storage.tensor.ndim
            counting = self._counting(one, ignoring) if isinstance(one, Read) else None
            for write, shared, found in answer.live:
                pairs = found if counting is None else counting.product_with(found, size)
                own = range(size, size + write.loop.depth - shared)
                parts.setdefault(write, []).append(pairs.project([*range(shared), *own]))
        return {write: shapes[0].union_all(shapes[1:]) for write, shapes in parts.items()}

    def _counting(self, read: Read, ignoring: Mapping[int, Cond]) -> Shape | None:
        """The instances of a read that are not ignored; `None` where that is all of them."""
        cond = ignoring.get(read.place.number)
        if cond is None or self._points.graph(read).free:
            return None
        shape, is_all = self._points.domain(read.loop, Way((*read.loop.ranges, logical_not(cond)), True))
        return shape if is_all else None

    # -- sources ------------------------------------------------------------------------------------------------

    def _of(self, read: Read) -> tuple[Source, ...]:
        if read not in self._sources:
            self._sources[read] = self._found_sources(read)
        return self._sources[read]

    def _found_sources(self, read: Read) -> tuple[Source, ...]:
        graph = self._points.graph(read)
        answer = None if graph.free else self._answer(read, True)
        self._points.domain(read.place.loop, Way(read.place.loop.ranges, True))  # before the budget
        try:
            if answer is not None:
                with graph.points.budget(REACHING, self._account):
                    return tuple(self._told(read, answer))
        except BudgetError:
            pass
        return (Source(self._whole(read), "unknown"),)

    def _whole(self, read: Read) -> Cond:
        reached, _ = self._points.reached(read)
        try:
            return self._condition(reached, read.place)
        except BudgetError:
            return logical_and(*read.place.way.conditions)

    def _told(self, read: Read, answer: Answer) -> list[Source]:
        place, found = read.place, []
        for one in answer.told:
            for domain, values in one.pairs.functions(read.loop.vars):
                at = (*read.loop.vars[: one.shared], *values)
                value = self._values.at(one.write, at, read, domain)
                kind = one.write.kind
                found.append(Source(self._condition(domain, place), kind, one.write.place.number, at, value))
        if not answer.unknown.is_empty():
            lines = {write.place.number for write in answer.doubts}
            line = next(iter(lines)) if len(lines) == 1 else None
            found.append(Source(self._condition(answer.unknown, place), "unknown", line))
        if not answer.open.is_empty():
            kind = "entry" if read.storage.is_param else "unwritten"
            found.append(Source(self._condition(answer.open, place), kind))
        return found

    # -- regions ------------------------------------------------------------------------------------------------

    def _region(self, storage: Storage, accesses: list[Access]) -> Region:
        tensor = storage.tensor
        dims = tensor.ndim
        nothing = self._points.kind.everything(dims)
        nothing = nothing.subtract(nothing)
        shapes, is_exact = [], True
        for access in accesses:
            graph = self._points.graph(access)
            shapes.append(graph.points.project(range(graph.instances, graph.instances + dims)))
            is_whole = isinstance(access, Write) and access.kind == "call" or access.indices and None in access.indices
            _, is_all = self._points.reached(access)
            is_exact = is_exact and is_all and (not graph.free or bool(is_whole and self._is_call(access)))
        found = nothing.union_all(shapes) if shapes else nothing
        notes = () if is_exact else ("what depends on data is taken for all that it may be",)
        return region_of_shape(self._inside(storage, found), is_exact, notes)

    def _is_call(self, access: Access) -> bool:
        return isinstance(access, Write) and access.kind == "call" or isinstance(access, Read) and access.node is None

    def _inside(self, storage: Storage, shape: Shape) -> Shape:
        """The points inside a parameter, and of any storage those outside its padding: the nest touches no others."""
        point = [PlainVar(f"e{k}") for k in range(shape.dims)]
        extents = zip(point, storage.tensor.extents, strict=True)
        inside = [(e >= 0) & (e < extent) for e, extent in extents] if storage.is_param else []
        try:
            return shape.filter(point, logical_and(*inside, self._is_touchable(storage)(point)))
        except BudgetError:
            return shape

    def _is_touchable(self, storage: Storage) -> Callable[[Sequence[Expr]], Cond]:
        padding = storage.padding
        return lambda point: is_outside(padding, point)


def account_of(f: Function) -> Account:
    """What a pass over a function may spend on the dataflow, of this function and of those it makes of it."""
    size = sum(1 for _ in statements(f.body))
    return Account(DATAFLOW + DATAFLOW_PER_STATEMENT * size, DATAFLOW_LEAST)


def dataflow(f: Function, account: Account | None = None) -> Dataflow:
    """The dataflow of a function, see `Dataflow`, which caches its answers.

    Parameters
    ----------
    account: the operations that all questions share. Without an account each question has its own budget, which makes
        answers independent of earlier questions.
    """
    return Dataflow(f, account)
