"""A nest as the dataflow sees it: loops, and inside of them reads and writes in the order of the text.

Branches and sequences are gone: what a guard says is a condition of every access under it. What is no condition on
integers is left out, and the access is then not certain to happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.expr import ops
from intset.expr.build import opaque
from intset.expr.node import Cond, Expr, Var
from intset.expr.walk import opaque_terms
from lowering.dataflow.accesses import Names, Way, bounds, definitions, indices_of, meaning, reads_of
from lowering.nest.ir import (
    Allocate,
    Assert,
    Assume,
    Carry,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Padding,
    Seq,
    Stmt,
    Store,
)
from lowering.nest.printer import Line, function_lines
from lowering.nest.undef import has_undef, is_undef
from lowering.nest.walk import operands, range_ends

_END = 1 << 30  # after all items of a loop


class Loop:
    """A loop, or the whole function: the accesses and loops directly inside, in order.

    Attributes
    ----------
    vars: the variables of this loop and of those around it, outermost first.
    position: its number among the items of `parent`.
    ranges: that each of `vars` is in its range, as far as that is a condition on integers.
    limits: first value and extent.
    """

    def __init__(
        self, parent: Loop | None, var: Var | None, ranges: tuple[Cond, ...], limits: tuple[Expr, Expr] | None
    ) -> None:
        self.parent, self.limits = parent, limits
        self.ranges: tuple[Cond, ...] = (*(() if parent is None else parent.ranges), *ranges)
        self.vars: tuple[Var, ...] = () if parent is None or var is None else (*parent.vars, var)
        self.position = 0 if parent is None else len(parent.items)
        self.items: list[Write | Loop] = []
        self.writes: dict[Storage, list[Write]] = {}
        if parent is not None:
            parent.items.append(self)

    @property
    def depth(self) -> int:
        return len(self.vars)

    def around(self) -> Iterator[Loop]:
        """This loop and those around it, the innermost first."""
        loop: Loop | None = self
        while loop is not None:
            yield loop
            loop = loop.parent


class Storage:
    """Where the elements of a tensor lie: new for each iteration of the loops around its `allocate`."""

    def __init__(self, tensor: Tensor, loop: Loop | None, padding: Padding | None) -> None:
        self.tensor, self.loop, self.padding = tensor, loop, padding
        self.position = 0 if loop is None else len(loop.items)

    @property
    def is_param(self) -> bool:
        return self.loop is None


class Place:
    """A statement, with what has to hold for it to be reached.

    Attributes
    ----------
    way: the conditions, and whether they are all of them.
    meanings: what names of the nest stand for.
    reads: by the element as the statement has it, or by the tensor that a host call reads.
    """

    def __init__(self, line: Line, number: int, loop: Loop, way: Way, meanings: Names) -> None:
        self.line, self.number, self.loop, self.way, self.meanings = line, number, loop, way, meanings
        self.reads: dict[Operand | Tensor, Read] = {}
        self.writes: list[Write] = []

    @property
    def stmt(self) -> Stmt:
        assert self.line.stmt is not None
        return self.line.stmt

    def meaning(self, operand: Operand) -> Operand:
        """An operand over loop variables and sizes."""
        return meaning(operand, self.meanings)


class Access:
    """Some elements that a statement reads or writes.

    Attributes
    ----------
    position: how many items of `loop` come before.
    indices: `None` for an index that may be any.
    ways: the access happens where the conditions of one of them hold, besides those of the place.
    """

    def __init__(self, place: Place, storage: Storage, indices: tuple[Expr | None, ...], ways: tuple[Way, ...]) -> None:
        self.place, self.storage, self.indices, self.ways = place, storage, indices, ways
        self.loop, self.position = place.loop, len(place.loop.items)


class Read(Access):
    """A read; `node` is the element as the statement has it, `None` where a host call reads the whole tensor."""

    node: Operand | None = None


class Write(Access):
    """A write of a value; where it only says what is there, it is an assumption.

    Attributes
    ----------
    kind: "store", "call" or "assume".
    value: over the variables of the loops; `None` where nobody knows it.
    """

    kind = "store"
    value: Operand | None = None


class Bound(Write):
    """What an assumption says of an element without giving it a value; it is among no writes but those of its loops.

    Attributes
    ----------
    held, relations: the element, and the comparisons it stands in, over the variables of the loops.
    """

    kind = "bound"
    held: Operand
    relations: Sequence[Operand] = ()


class Visit(NamedTuple):
    """A statement that is to be noted: its path, the loop it stands in, the way to it, and what names mean there."""

    stmt: Stmt
    path: tuple[int, ...]
    loop: Loop
    way: Way
    names: dict[Parameter, Operand]


class Program:
    """The loops, statements and accesses of a function."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.root = Loop(None, None, (), None)
        self.storages: list[Storage] = []
        self.lines = list(function_lines(f))
        self.places: dict[int, Place] = {}
        self.reads: dict[Storage, list[Read]] = {}
        self.writes: dict[Storage, list[Write]] = {}
        self.bounds: dict[Storage, list[Bound]] = {}
        self._numbers = {line.path: k for k, line in enumerate(self.lines, 1) if line.stmt is not None}
        self._in_sight: dict[Tensor, Storage] = {t: self._storage(t, None, f.padding.get(t)) for t in f.params}
        self._build()

    def _storage(self, tensor: Tensor, loop: Loop | None, padding: Padding | None) -> Storage:
        found = Storage(tensor, loop, padding)
        self.storages.append(found)
        self.reads[found], self.writes[found] = [], []
        return found

    # -- the walk -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        waiting: list[Visit] = [Visit(self.f.body, (), self.root, Way((), True), {})]
        while waiting:
            visit = waiting.pop()
            if isinstance(visit.stmt, Seq) and visit.stmt.stmts:
                waiting.extend(reversed(self._sequence(visit.stmt.stmts, visit)))
            else:
                waiting.extend(reversed(self._statement(visit)))

    def _sequence(self, stmts: tuple[Stmt, ...], at: Visit) -> list[Visit]:
        """The statements of a sequence; assertions and names reach to its end."""
        found = []
        way, names = at.way, at.names
        for k, stmt in enumerate(stmts):
            found.append(Visit(stmt, (*at.path, k), at.loop, way, names))
            if isinstance(stmt, Assert):
                way = way.also(meaning(stmt.cond, names))
            elif isinstance(stmt, Let):
                names = {**names, stmt.var: _named(stmt, names)}
        return found

    def _statement(self, at: Visit) -> list[Visit]:
        """Note what a statement reads and writes; the statements inside of it."""
        stmt, path, loop, way, names = at
        place = self._place(at)
        if isinstance(stmt, For):
            low, extent = range_ends(stmt.range)
            self._read(place, low, extent, *(c.first for c in stmt.carried))
            first, size = meaning(low, names), meaning(extent, names)
            limits = way.also((stmt.var >= first) & (stmt.var < first + size))
            inner = Loop(loop, stmt.var, limits.conditions[len(way.conditions) :], (first, size))
            inside = {v: e for v, e in names.items() if v is not stmt.var}
            inside |= {c.var: _carried(c, stmt.var, first, names) for c in stmt.carried}
            after = Visit(stmt.body, (*path, 0), inner, limits, inside)
            if stmt.carried:
                self._carry(stmt, place, after)
            return [after]
        if isinstance(stmt, If):
            self._read(place, stmt.cond)
            cond = meaning(stmt.cond, names)
            then = Visit(stmt.then, (*path, 0), loop, way.also(cond), names)
            if stmt.orelse is None:
                return [then]
            return [then, Visit(stmt.orelse, (*path, 1), loop, way.also(cond, False), names)]
        if isinstance(stmt, Store):
            self._read(place, *stmt.indices, stmt.value)
            indices = indices_of([meaning(e, names) for e in stmt.indices])
            self._write(place, stmt.tensor, indices, Way((), True), "store", meaning(stmt.value, names))
        elif isinstance(stmt, Evaluate):
            for tensor in stmt.reads:
                self._note(Read(place, self._in_sight[tensor], (None,) * tensor.ndim, (Way((), True),)), tensor)
            self._read(place, *operands(stmt))
            for tensor in stmt.writes:
                self._write(place, tensor, (None,) * tensor.ndim, Way((), False), "call", None)
        elif isinstance(stmt, Assume):
            if not has_undef(stmt.cond):  # else it says what may be read
                self._read(place, stmt.cond)
            for where, tensor, indices, value in definitions(meaning(stmt.cond, names)):
                self._write(place, tensor, indices, where, "assume", value)
            same: dict[tuple[Operand, Way], list[Operand]] = {}
            for where, held, relation in bounds(meaning(stmt.cond, names)):
                same.setdefault((held, where), []).append(relation)
            for (held, where), relations in same.items():
                self._bound(place, held, where, relations)
        else:
            self._read(place, *operands(stmt))
            if isinstance(stmt, Allocate):
                self._in_sight[stmt.tensor] = self._storage(stmt.tensor, loop, stmt.padding)
        return []

    def _carry(self, stmt: For, place: Place, inside: Visit) -> None:
        """What a loop computes for the variables it carries, after each iteration."""
        around = Place(place.line, place.number, inside.loop, inside.way, inside.names)
        for carry in stmt.carried:
            for node, tensor, indices, ways in reads_of([carry.following], around.meaning):
                read = Read(around, self._in_sight[tensor], (None,) * len(indices), ways)
                read.node, read.position = node, _END
                self._note(read, node)
                place.reads.setdefault(node, read)

    def _place(self, at: Visit) -> Place:
        number = self._numbers[at.path]
        found = self.places[number] = Place(self.lines[number - 1], number, at.loop, at.way, at.names)
        return found

    def _read(self, place: Place, *values: Operand) -> None:
        for node, tensor, indices, ways in reads_of(values, place.meaning):
            read = Read(place, self._in_sight[tensor], indices, ways)
            read.node = node
            self._note(read, node)

    def _note(self, read: Read, key: Operand | Tensor) -> None:
        read.place.reads[key] = read
        self.reads[read.storage].append(read)

    def _bound(self, place: Place, held: Operand, way: Way, relations: list[Operand]) -> None:
        """Note what an assumption says of an element without giving it a value."""
        tensor = loaded_tensor(held)
        assert tensor is not None
        bound = Bound(place, self._in_sight[tensor], indices_of(read_indices(held)), (way,))
        bound.held, bound.relations = held, relations
        self.bounds.setdefault(bound.storage, []).append(bound)
        self._append(bound)

    def _write(
        self, place: Place, tensor: Tensor, indices: tuple[Expr | None, ...], way: Way, kind: str, value: Operand | None
    ) -> None:
        write = Write(place, self._in_sight[tensor], indices, (way,))
        write.kind, write.value = kind, value
        place.writes.append(write)
        self.writes[write.storage].append(write)
        self._append(write)

    def _append(self, write: Write) -> None:
        write.loop.items.append(write)
        for loop in write.loop.around():
            loop.writes.setdefault(write.storage, []).append(write)


def _named(stmt: Let, names: Names) -> Operand:
    """What a name stands for: its value, if that stays what it is; an integer from data is one that nobody knows."""
    value = meaning(stmt.value, names)
    if not any(loaded_tensor(node) is not None or is_undef(node) for node in nodes(value)):
        return value
    return opaque(stmt.var.name) if isinstance(stmt.var, Var) else stmt.var


def _carried(carry: Carry, var: Var, low: Expr, names: Names) -> Operand:
    """The value of a carried variable, where it moves by the same step each time; else one that nobody knows."""
    first, following = meaning(carry.first, names), carry.following
    if following.op is ops.ADD and following.args[0] is carry.var and not opaque_terms(first):
        step = following.args[1]
        if isinstance(step, Expr) and step.is_const:
            return first + (var - low) * step
    return opaque(carry.var.name)
