"""A nest followed element by element, paddings as unknowns: what every element holds in the end.

Of data nothing is known but the paddings that went into it. A statement whose execution depends on data may or may not
happen: what it stores is one of both.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Truth, Value, ValueOp, make
from bound.tir.walk import loaded_tensor, nodes
from intset.budgets import TRACE_STEPS
from intset.errors import BudgetError
from intset.expr import build, ops
from intset.expr.node import Cond, Expr, const
from lowering.nest.ir import Allocate, Assume, Evaluate, For, Function, If, Let, Seq, Stmt, Store
from lowering.nest.scope import parts_of_condition
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import Visit, drive, operands, range_ends
from lowering.padding.arithmetic import as_number, held
from lowering.padding.packed import Packed, Place
from lowering.padding.partial import Content, Data, Element, Partial, is_number, taint_of


def is_too_long(f: Function) -> bool:
    """Whether it is seen at once that a nest takes more steps than there are: what no branch may leave out."""
    steps = 0
    waiting: list[tuple[Stmt, int]] = [(f.body, 1)]
    while waiting and steps <= TRACE_STEPS:
        stmt, times = waiting.pop()
        if isinstance(stmt, Seq):
            waiting += [(inner, times) for inner in stmt.stmts]
        elif isinstance(stmt, For):
            extent = range_ends(stmt.range)[1]
            waiting.append((stmt.body, times * max(0, int(extent.data)) if extent.is_const else 0))
        elif isinstance(stmt, Store):
            steps += times * (1 + len(stmt.indices))
    return steps > TRACE_STEPS


class Trace:
    """One run of a nest.

    Parameters
    ----------
    packed: the parameters with a layout.
    fixed: what assumptions are known to say of paddings of what is passed.

    Attributes
    ----------
    memory: what was stored, by tensor and indices; of a packed tensor, the new indices of its map.
    read: the elements of paddings that were read as they were passed.
    fixed: what assumptions say, all of them after the run.
    restricted: what assumptions say of elements of paddings without fixing them.
    permitted: the elements that assumptions permit to read.
    passed: the parameters of which an element was read as it was passed.
    """

    def __init__(self, f: Function, packed: Mapping[Tensor, Packed], fixed: Mapping[Element, Any]) -> None:
        self.f, self.packed = f, packed
        self.fixed: dict[Element, Any] = dict(fixed)
        self.read: dict[Element, None] = {}
        self.restricted: dict[Element, Truth] = {}
        self.permitted: dict[Element, None] = {}
        self.passed: dict[Tensor, None] = {}
        self.memory: dict[Tensor, dict[Place, Content]] = {t: {} for t in f.params}
        self._params = frozenset(f.params)
        self._partial = Partial(self._load, named=True)
        self._env: dict[Parameter, Content] = {}
        self._doubts: list[Content] = []  # the conditions around that depend on data
        self._before: list[dict[Element, Content | None]] = []  # of the branches around: what elements held before
        self._says = False  # inside an assumption: elements are themselves, and not read
        for said in f.requires:
            drive(self._run(said.nest))
        drive(self._run(f.body))

    # -- statements ---------------------------------------------------------------------------------------------

    def _run(self, stmt: Stmt) -> Visit[None]:
        if self._partial.steps > TRACE_STEPS:
            raise BudgetError(f"{self.f.name} is too long to be followed element by element")
        if isinstance(stmt, Seq):
            for inner in stmt.stmts:
                yield self._run(inner)
        elif isinstance(stmt, For):
            yield self._loop(stmt)
        elif isinstance(stmt, If):
            yield self._branch(stmt)
        elif isinstance(stmt, Store):
            self._store(stmt)
        elif isinstance(stmt, Let):
            self._env[stmt.var] = self._value(stmt.value)
        elif isinstance(stmt, Allocate):
            self.memory[stmt.tensor] = {}
        elif isinstance(stmt, Assume):
            self._assume(stmt)
        elif isinstance(stmt, Evaluate):
            self._call(stmt)

    def _value(self, operand: Operand) -> Content:
        return self._partial(operand, self._env)

    def _loop(self, loop: For) -> Visit[None]:
        low, extent = (self._value(e) for e in range_ends(loop.range))
        if not isinstance(low, int) or not isinstance(extent, int):
            raise BudgetError(f"the range of the loop over {loop.var.name} in {self.f.name} depends on data")
        carried = [self._value(c.first) for c in loop.carried]
        for i in range(low, low + extent):
            self._env[loop.var] = i
            self._env.update(zip((c.var for c in loop.carried), carried, strict=True))
            yield self._run(loop.body)
            carried = [self._value(c.following) for c in loop.carried]

    def _branch(self, stmt: If) -> Visit[None]:
        decided = self._value(stmt.cond)
        if is_number(decided):
            if decided:
                yield self._run(stmt.then)
            elif stmt.orelse is not None:
                yield self._run(stmt.orelse)
            return
        self._doubts.append(decided)
        found = []
        for inner in (stmt.then, stmt.orelse):
            self._before.append({})
            if inner is not None:
                yield self._run(inner)
            found.append(self._undone())
        self._doubts.pop()
        for tensor, place in dict.fromkeys((*found[0], *found[1])):
            old = self._old(tensor, place)
            self._put(tensor, place, self._joined(*(one.get((tensor, place), old) for one in found), decided))

    def _undone(self) -> dict[Element, Content]:
        """What a branch stored, after everything is as it was before."""
        stored = {}
        for (tensor, place), old in self._before.pop().items():
            elements = self.memory[tensor]
            stored[tensor, place] = elements[place]
            if old is None:
                del elements[place]
            else:
                elements[place] = old
        return stored

    def _store(self, stmt: Store) -> None:
        value = self._value(stmt.value)
        if isinstance(value, (bool, int, float)):
            value = held(value, stmt.tensor.dtype)
        indices = [self._value(e) for e in stmt.indices]
        if all(isinstance(i, int) for i in indices):
            self._put(stmt.tensor, self._place(stmt.tensor, indices), value)
            return
        for place in self._all(stmt.tensor):
            self._put(stmt.tensor, place, self._joined(self._old(stmt.tensor, place), value, *indices))

    def _put(self, tensor: Tensor, place: Place, value: Content) -> None:
        elements = self.memory.setdefault(tensor, {})
        if self._before:
            self._before[-1].setdefault((tensor, place), elements.get(place))
        elements[place] = value

    def _old(self, tensor: Tensor, place: Place) -> Content:
        """What an element holds, or that it may hold nothing."""
        return self.memory.setdefault(tensor, {}).get(place, Data(written=False))

    def _joined(self, a: Content, b: Content, *why: Content) -> Content:
        """One of both, nobody knows which."""
        if a is b or (is_number(a) and is_number(b) and a == b):
            return a
        return Data(taint_of(a, b, *why), all(c.written for c in (a, b) if isinstance(c, Data)))

    def _call(self, stmt: Evaluate) -> None:
        taint = taint_of(*self._doubts, *(self._value(e) for e in operands(stmt)))
        for tensor in stmt.reads:
            for place in self._all(tensor):
                taint = taint_of(Data(taint), self._held(tensor, place))
        for tensor in stmt.writes:
            for place in self._all(tensor):
                self._put(tensor, place, Data(taint))

    # -- elements -----------------------------------------------------------------------------------------------

    def _place(self, tensor: Tensor, indices: Sequence[Any]) -> Place:
        one = self.packed.get(tensor)
        return tuple(indices) if one is None else one.grid.place(tuple(indices))

    def _all(self, tensor: Tensor) -> list[Place]:
        """Every element of a parameter, or what an allocated array is known to hold."""
        extents = [e.data for e in tensor.extents if e.is_const]
        if len(extents) < tensor.ndim:
            return list(self.memory.get(tensor, {}))
        count = 1
        for e in extents:
            count *= e
        self._partial.steps += count
        if self._partial.steps > TRACE_STEPS:
            raise BudgetError(f"{self.f.name} is too long to be followed element by element")
        found: list[Place] = [()]
        for e in extents:
            found = [(*place, k) for place in found for k in range(e)]
        return [self._place(tensor, place) for place in found]

    def _load(self, tensor: Tensor, indices: Sequence[Content]) -> Content:
        if all(isinstance(i, int) for i in indices):
            return self._held(tensor, self._place(tensor, indices))
        taint = taint_of(*indices)
        for place in self._all(tensor):
            taint = taint_of(Data(taint), self._held(tensor, place))
        return Data(taint)

    def _held(self, tensor: Tensor, place: Place) -> Content:
        """What an element holds."""
        stored = self.memory.get(tensor, {}).get(place)
        if stored is not None:
            return of_type(stored, tensor.dtype) if isinstance(stored, (Expr, Cond, Value)) else stored
        if tensor not in self._params:
            return Data()
        key = (tensor, place)
        if self._says:
            return element(tensor, tuple(map(const, place)))
        self.passed[tensor] = None
        one = self.packed.get(tensor)
        if one is None or not one.grid.is_padding(place):
            return Data()
        self.read[key] = None
        if key in self.fixed:
            known = self.fixed[key]
            return known if is_number(known) else Data()
        return element(tensor, tuple(map(const, place)))

    # -- assumptions --------------------------------------------------------------------------------------------

    def _assume(self, stmt: Assume) -> None:
        if self._doubts:
            return
        self._says = True
        for part in parts_of_condition(stmt.cond):
            if has_undef(part):
                self._permit(part)
            else:
                self._define(part)
        self._says = False

    def _permit(self, cond: Truth) -> None:
        found = permission(cond)
        if found is None:
            return
        guards, tensor, indices = found
        if any(self._value(guard) is not False for guard in guards):
            return
        place = [self._value(i) for i in indices]
        if all(isinstance(i, int) for i in place):
            self.permitted[tensor, self._place(tensor, place)] = None

    def _define(self, cond: Truth) -> None:
        """An element of which the condition says that it equals something, or is no number; else, what it is about."""
        content = self._value(cond)
        if not isinstance(content, (Cond, Value)):
            return
        args: Any = ()
        if content.op in (ops.EQ, ValueOp.EQ):
            args = content.args
        elif content.op is ValueOp.CALL and content.data == "isnan":
            args = (content.args[0], math.nan)
        for held_, value in (args, args[::-1]) if args else ():
            place = self._passed_padding(held_)
            if place is not None:
                number = value if is_number(value) else value.data if value.op in _CONSTANT else value
                self.fixed.setdefault(place, number)
                return
        for node in nodes(content):
            place = self._passed_padding(node)
            if place is not None:
                self.restricted.setdefault(place, content)

    def _passed_padding(self, node: Operand) -> Element | None:
        """The element of a padding, as it is passed, that a node is."""
        tensor = loaded_tensor(node)
        one = None if tensor is None else self.packed.get(tensor)
        if tensor is None or one is None:
            return None
        place = _indices(node)
        is_stored = place in self.memory.get(tensor, {})
        return (tensor, place) if one.grid.is_padding(place) and not is_stored else None


_CONSTANT: Final = (ops.CONST, ValueOp.CONST)


def _indices(node: Operand) -> Place:
    return tuple(int(arg.data) for arg in node.args)


def of_type(content: Operand, dtype: str, held_as_is: Container[object] = ()) -> Operand:
    """What an element holds of a value over paddings: integers wrap, floats are rounded; what is held is as it is."""
    if content in held_as_is or as_number(content) is not None or loaded_tensor(content) is not None:
        return content
    if isinstance(content, Expr) and dtypes.is_int(dtype):
        wrapped: Expr = build.cast(content, dtypes.bits(dtype), dtypes.signed(dtype))
        return wrapped
    if isinstance(content, Value) and content.op not in _EXACT and dtypes.is_float(dtype):
        return make(ValueOp.CAST, (make(ValueOp.CAST, (content,), "float64"),), dtype)
    return content


_EXACT: Final = (ValueOp.LOAD, ValueOp.CAST, ValueOp.MIN, ValueOp.MAX, ValueOp.NEG, ValueOp.ABS, ValueOp.SELECT)
