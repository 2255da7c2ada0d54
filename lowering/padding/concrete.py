"""The concrete interpreter of nests, and one expression for all contents of a padding.

Loops run on numbers, padding elements are symbols, data is unknown. Anti-unification generalizes the values of all
padding elements to a single expression over the element's indices. `lowering.run` requires input arrays, and dataflow
yields conditions instead of values; neither proves `0 * A[i] == 0` for arbitrary padding of `A`. Branches on data
execute both sides and join stored contents. Execution follows program order, unsupported by the rule driver, hence this
module's own recursion over statements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.build import select
from bound.tir.reduce import Parameter
from bound.tir.value import CALL, CONVERT, NUMBER, READ, Operand, Truth, Value, make
from bound.tir.walk import loaded_tensor, nodes
from intset.errors import BudgetError
from intset.expr import build, ops
from intset.expr.build import logical_and, logical_or, sum_of
from intset.expr.node import Cond, Expr, const
from intset.expr.node import make as make_node
from lowering.nest.ir import Allocate, Assume, Evaluate, For, Function, If, Let, Seq, Stmt, Store
from lowering.nest.scope import parts_of_condition
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import Recursion, drive, operands, range_ends
from lowering.padding.partial_evaluation import (
    UNKNOWN,
    Content,
    Data,
    Element,
    PartialEvaluator,
    as_element,
    as_number,
    is_number,
    taint_of,
)
from lowering.padding.states import PLACE, Packed, Place

Places = Sequence[tuple[int, ...]]
MAX_PIECES: Final = 8
MAX_PLACES: Final = 64  # elements that a piecewise value lists explicitly


def generalized(values: Sequence[Operand], places: Places) -> Operand | None:
    """Generalize values to one operand over `PLACE`; `None` if no common form exists.

    Guarantee: at `places[k]` the operand equals `values[k]`.

    Integer constants become affine functions of `PLACE`; all other nodes must agree. A load index equal to the
    element's own index becomes that index; any other constant of a single place stays constant.
    """
    known: dict[tuple[object, ...], Operand | None] = {}

    def visit(nodes: tuple[Operand, ...], axis: int | None) -> Recursion[Operand | None]:
        key = (*nodes, axis)
        if key not in known:
            known[key] = yield generalized_node(nodes, axis)
            integers = [node for node in nodes if isinstance(node, Expr)]
            for op, split in _PARTS if known[key] is None and len(integers) == len(nodes) else ():
                parts = [split(node) for node in integers]
                bases = [base for base, _ in parts if base is not None]
                if len(bases) < len(nodes) or all(map(operator.is_, bases, nodes)):
                    continue
                base = yield visit(tuple(bases), None)
                number = _fitted([number for _, number in parts], places, None)
                if base is not None and number is not None:
                    known[key] = make_node(op, (base, number))
                    break
        return known[key]

    def generalized_node(nodes: tuple[Operand, ...], axis: int | None) -> Recursion[Operand | None]:
        first = nodes[0]
        if all(isinstance(node, Expr) and node.is_const for node in nodes):
            return _fitted([int(node.data) for node in nodes], places, axis)
        if all(node is first for node in nodes) and not first.args:
            return first
        if any(not _is_like(node, first) for node in nodes):
            return None
        is_element = loaded_tensor(first) is not None
        args = []
        for k in range(len(first.args)):
            arg = yield visit(tuple(node.args[k] for node in nodes), k if is_element else None)
            if arg is None:
                return None
            args.append(arg)
        return first.with_args(tuple(args))

    return drive(visit(tuple(values), None))


def piecewise(values: Sequence[Operand], places: Places) -> Operand | None:
    """Generalize by groups and join the groups with `select`; `None` beyond `MAX_PIECES` or `MAX_PLACES`."""
    groups: list[tuple[list[Operand], list[tuple[int, ...]], Operand | None]] = []
    for value, place in zip(values, places, strict=True):
        for k, (some, where, _) in enumerate(groups):
            together = generalized([*some, value], [*where, place])
            if together is not None:
                groups[k] = ([*some, value], [*where, place], together)
                break
        else:
            if len(groups) == MAX_PIECES:
                return None
            groups.append(([value], [place], generalized([value], [place])))
    groups.sort(key=lambda group: len(group[1]))
    if sum(len(where) for _, where, _ in groups[:-1]) > MAX_PLACES:
        return None
    joined = groups[-1][2]
    for _, where, there in reversed(groups[:-1]):
        if joined is None or there is None:
            return None
        joined = select(logical_or(*map(_is_at, where)), there, joined)
    return joined


def _is_at(place: tuple[int, ...]) -> Cond:
    return logical_and(*(PLACE[k].eq(i) for k, i in enumerate(place)))


def _summand(node: Expr) -> tuple[Expr | None, int]:
    """Split `base + constant`; the constant is 0 if folding dropped the addition, the base `None` for a constant."""
    if node.op in (ops.ADD, ops.SUB) and node.args[1].is_const:
        return node.args[0], int(node.args[1].data) * (1 if node.op is ops.ADD else -1)
    return (None, 0) if node.is_const else (node, 0)


def _factor(node: Expr) -> tuple[Expr | None, int]:
    """Split `base * constant`; the constant is 1 if folding dropped the product, the base `None` for a constant."""
    if node.op is ops.MUL and node.args[1].is_const:
        return node.args[0], int(node.args[1].data)
    return (None, 0) if node.is_const else (node, 1)


_PARTS: Final = ((ops.ADD, _summand), (ops.MUL, _factor))


def _is_like(node: Operand, other: Operand) -> bool:
    is_same = type(node) is type(other) and node.op is other.op and len(node.args) == len(other.args)
    if not is_same or (isinstance(node, Value) and isinstance(other, Value) and node.dtype != other.dtype):
        return False
    return node.data is other.data or bool(node.data == other.data)


def _fitted(numbers: list[int], places: Places, axis: int | None) -> Expr | None:
    """Fit an affine function of `PLACE` through the numbers; `None` if there is none."""
    if axis is not None and axis < len(places[0]) and all(n == p[axis] for n, p in zip(numbers, places, strict=True)):
        return PLACE[axis]
    if len(set(numbers)) == 1:
        return const(numbers[0])
    coefficients = _affine(numbers, places)
    if coefficients is None:  # an index equal in all places duplicates the constant term: retry without its fractions
        same = [len({p[k] for p in places}) == 1 for k in range(len(places[0]))]
        reduced = [tuple(0 if s else i for s, i in zip(same, p, strict=True)) for p in places]
        coefficients = _affine(numbers, reduced)
    if coefficients is None:
        return None
    terms = [PLACE[k] * int(c) if c != 1 else PLACE[k] for k, c in enumerate(coefficients[1:]) if c]
    total = sum_of(terms)
    offset = int(coefficients[0])
    return total if not offset else total + offset if offset > 0 or not terms else total - abs(offset)


def _affine(numbers: list[int], places: Places) -> list[Fraction] | None:
    """Solve `c[0] + c[1] * p[0] + ... = n` over all places for integers c, by Gauss-Jordan elimination."""
    width = len(places[0]) + 1
    rows: list[tuple[int, list[Fraction]]] = []
    for number, place in zip(numbers, places, strict=True):
        row = [Fraction(1), *map(Fraction, place), Fraction(number)]
        for pivot, other in rows:
            if row[pivot]:
                row = [a - row[pivot] * b for a, b in zip(row, other, strict=True)]
        lead = next((k for k in range(width - 1, -1, -1) if row[k]), None)
        if lead is None:
            if row[-1]:
                return None
            continue
        row = [a / row[lead] for a in row]
        rows = [(p, [a - other[lead] * b for a, b in zip(other, row, strict=True)]) for p, other in rows]
        rows.append((lead, row))
    coefficients = [Fraction(0)] * width
    for pivot, row in rows:
        coefficients[pivot] = row[-1]
    return coefficients if all(c.denominator == 1 for c in coefficients) else None


TRACE_STEPS: Final = 400_000  # nodes of operands that are evaluated

Permission = tuple[tuple[Truth, ...], Tensor, tuple[Expr, ...]]


def exceeds_budget(f: Function) -> bool:
    """Whether the constant loops alone exceed `TRACE_STEPS` steps, counting unconditional stores only."""
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


class ConcreteRun:
    """Interprets a function once, recording stored contents and accesses to padding.

    Parameters
    ----------
    packed: parameters with layouts.
    fixed: initial contents of padding elements, from assumptions of an earlier run.

    Attributes
    ----------
    memory: final stored contents, keyed by tensor and indices (new indices of the map if packed).
    read: padding elements read before any store to them.
    unfixed: padding elements read before an assumption fixed their content.
    fixed: maps padding elements to contents fixed by assumptions.
    restricted: maps padding elements to conditions constraining them without fixing a value.
    permitted: padding elements declared readable by assumptions.
    passed: parameters with some element read before being stored.

    Raises
    ------
    BudgetError: the run takes more than `TRACE_STEPS` steps, or a loop's range depends on data.
    """

    def __init__(self, f: Function, packed: Mapping[Tensor, Packed], fixed: Mapping[Element, Any]) -> None:
        self.f, self.packed = f, packed
        self.fixed: dict[Element, Any] = dict(fixed)
        self.read: dict[Element, None] = {}
        self.unfixed: set[Element] = set()
        self.restricted: dict[Element, Truth] = {}
        self.permitted: dict[Element, None] = {}
        self.passed: dict[Tensor, None] = {}
        self.memory: dict[Tensor, dict[Place, Content]] = {t: {} for t in f.params}
        self._params = frozenset(f.params)
        self._evaluator = PartialEvaluator(self._load, named=True)
        self._env: dict[Parameter, Content] = {}
        self._path_condition: list[Content] = []  # undecided conditions of enclosing branches
        self._undo: list[dict[Element, Content | None]] = []  # per enclosing branch, overwritten contents
        self._assuming = False  # assumptions evaluate unstored elements symbolically
        self._assumptions: dict[int, list[tuple[Truth, bool, Permission | None]]] = {}  # by statement
        for requirement in f.requires:
            self._run(requirement.nest)
        self._run(f.body)

    # -- statements ---------------------------------------------------------------------------------------------

    def _run(self, stmt: Stmt) -> None:
        if self._evaluator.steps > TRACE_STEPS:
            self._give_up()
        if isinstance(stmt, Store):
            self._store(stmt)
        elif isinstance(stmt, If):
            self._branch(stmt)
        elif isinstance(stmt, For):
            self._loop(stmt)
        elif isinstance(stmt, Seq):
            for inner in stmt.stmts:
                self._run(inner)
        elif isinstance(stmt, Let):
            self._env[stmt.var] = self._value(stmt.value)
        elif isinstance(stmt, Allocate):
            self.memory[stmt.tensor] = {}
        elif isinstance(stmt, Assume):
            self._assume(stmt)
        elif isinstance(stmt, Evaluate):
            self._call(stmt)

    def _give_up(self) -> None:
        raise BudgetError(f"{self.f.name} takes too many steps to interpret element by element")

    def _value(self, operand: Operand) -> Content:
        return self._evaluator(operand, self._env)

    def _loop(self, loop: For) -> None:
        low, extent = (self._value(e) for e in range_ends(loop.range))
        if not isinstance(low, int) or not isinstance(extent, int):
            raise BudgetError(f"the range of the loop over {loop.var.name} in {self.f.name} depends on data")
        carried = [self._value(c.first) for c in loop.carried]
        for i in range(low, low + extent):
            self._env[loop.var] = i
            self._env.update(zip((c.var for c in loop.carried), carried, strict=True))
            self._run(loop.body)
            carried = [self._value(c.following) for c in loop.carried]

    def _branch(self, stmt: If) -> None:
        decided = self._value(stmt.cond)
        if is_number(decided):
            if decided:
                self._run(stmt.then)
            elif stmt.orelse is not None:
                self._run(stmt.orelse)
            return
        self._path_condition.append(decided)
        stored = []
        for inner in (stmt.then, stmt.orelse):
            self._undo.append({})
            if inner is not None:
                self._run(inner)
            stored.append(self._undone())
        self._path_condition.pop()
        for tensor, place in dict.fromkeys((*stored[0], *stored[1])):
            old = self._old(tensor, place)
            self._put(tensor, place, self._joined(*(one.get((tensor, place), old) for one in stored), decided))

    def _undone(self) -> dict[Element, Content]:
        """Undo a branch's stores; returns their contents."""
        stored = {}
        for (tensor, place), old in self._undo.pop().items():
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
            value = as_element(value, stmt.tensor.dtype)
        indices = self._evaluator.indices(stmt.indices, self._env)
        if isinstance(indices, tuple):
            self._put(stmt.tensor, self._place(stmt.tensor, indices), value)
            return
        for place in self._places(stmt.tensor):
            self._put(stmt.tensor, place, self._joined(self._old(stmt.tensor, place), value, *indices))

    def _put(self, tensor: Tensor, place: Place, value: Content) -> None:
        elements = self.memory.setdefault(tensor, {})
        if self._undo:
            self._undo[-1].setdefault((tensor, place), elements.get(place))
        elements[place] = value

    def _old(self, tensor: Tensor, place: Place) -> Content:
        """The stored content; possibly unwritten data if absent."""
        return self.memory.setdefault(tensor, {}).get(place, Data(written=False))

    def _joined(self, a: Content, b: Content, *reasons: Content) -> Content:
        """Join two contents selected by `reasons`: their taints propagate to the result."""
        if a is b or (is_number(a) and is_number(b) and a == b):
            return a
        return Data(taint_of(a, b, *reasons), all(c.written for c in (a, b) if isinstance(c, Data)))

    def _call(self, stmt: Evaluate) -> None:
        taint = taint_of(*self._path_condition, *(self._value(e) for e in operands(stmt)))
        for tensor in stmt.reads:
            for place in self._places(tensor):
                taint = taint_of(Data(taint), self._content(tensor, place))
        for tensor in stmt.writes:
            for place in self._places(tensor):
                self._put(tensor, place, Data(taint))

    # -- elements -----------------------------------------------------------------------------------------------

    def _place(self, tensor: Tensor, indices: tuple[Any, ...]) -> Place:
        packed = self.packed.get(tensor)
        return indices if packed is None else packed.grid.place(indices)

    def _places(self, tensor: Tensor) -> list[Place]:
        """All elements of a constant-shape tensor; only stored elements for symbolic shapes."""
        extents = [e.data for e in tensor.extents if e.is_const]
        if len(extents) < tensor.ndim:
            return list(self.memory.get(tensor, {}))
        self._evaluator.steps += math.prod(extents)
        if self._evaluator.steps > TRACE_STEPS:
            self._give_up()
        places: list[Place] = [()]
        for e in extents:
            places = [(*place, k) for place in places for k in range(e)]
        return [self._place(tensor, place) for place in places]

    def _load(self, tensor: Tensor, indices: Sequence[Content]) -> Content:
        if all(isinstance(i, int) for i in indices):
            return self._content(tensor, self._place(tensor, tuple(indices)))
        taint = taint_of(*indices)
        for place in self._places(tensor):
            taint = taint_of(Data(taint), self._content(tensor, place))
        return Data(taint)

    def _content(self, tensor: Tensor, place: Place) -> Content:
        """Load an element's content; records reads of unmodified parameters and padding."""
        elements = self.memory.get(tensor)
        stored = None if elements is None else elements.get(place)
        if stored is not None:
            return of_type(stored, tensor.dtype) if isinstance(stored, (Expr, Cond, Value)) else stored
        if tensor not in self._params:
            return UNKNOWN
        if self._assuming:
            return element(tensor, tuple(map(const, place)))
        self.passed[tensor] = None
        packed = self.packed.get(tensor)
        if packed is None or not packed.grid.is_padding(place):
            return UNKNOWN
        key = (tensor, place)
        self.read[key] = None
        if key in self.fixed:
            content = self.fixed[key]
            return content if is_number(content) else UNKNOWN
        self.unfixed.add(key)
        return element(tensor, tuple(map(const, place)))

    # -- assumptions --------------------------------------------------------------------------------------------

    def _assume(self, stmt: Assume) -> None:
        if self._path_condition:
            return
        parts = self._assumptions.get(id(stmt))
        if parts is None:
            parts = [(part, has_undef(part), permission(part)) for part in parts_of_condition(stmt.cond)]
            self._assumptions[id(stmt)] = parts
        self._assuming = True
        for part, is_unknown, permitted in parts:
            if permitted is not None:
                self._permit(*permitted)
            elif not is_unknown:
                self._fix(part)
        self._assuming = False

    def _permit(self, guards: Sequence[Truth], tensor: Tensor, indices: tuple[Expr, ...]) -> None:
        if any(self._value(guard) is not False for guard in guards):
            return
        at = self._evaluator.indices(indices, self._env)
        if isinstance(at, tuple):
            self.permitted[tensor, self._place(tensor, at)] = None

    def _fix(self, cond: Truth) -> None:
        """Record the padding element fixed by an equality or `isnan`; otherwise mark padding elements restricted."""
        content = self._value(cond)
        if not isinstance(content, (Cond, Value)):
            return
        sides: Any = ()
        if content.op is ops.EQ:
            sides = content.args
        elif content.op is CALL and content.data == "isnan":
            sides = (content.args[0], math.nan)
        for node, value in (sides, sides[::-1]) if sides else ():
            key = self._passed_padding(node)
            if key is not None:
                number = value if is_number(value) else value.data if value.op in _CONSTANT else value
                self.fixed.setdefault(key, number)
                return
        for node in nodes(content):
            key = self._passed_padding(node)
            if key is not None:
                self.restricted.setdefault(key, content)

    def _passed_padding(self, node: Operand) -> Element | None:
        """The padding element loaded by a node; `None` for other nodes and overwritten elements."""
        tensor = loaded_tensor(node)
        packed = None if tensor is None else self.packed.get(tensor)
        if tensor is None or packed is None:
            return None
        place = tuple(int(arg.data) for arg in node.args)
        is_stored = place in self.memory.get(tensor, {})
        return (tensor, place) if packed.grid.is_padding(place) and not is_stored else None


_CONSTANT: Final = (ops.CONST, NUMBER)


def of_type(content: Operand, dtype: str, held_as_is: Container[object] = ()) -> Operand:
    """Convert a symbolic operand to a tensor's element type: integers wrap, floats round.

    Parameters
    ----------
    held_as_is: operands returned unchanged.
    """
    if content in held_as_is or as_number(content) is not None or loaded_tensor(content) is not None:
        return content
    if isinstance(content, Expr) and dtypes.is_int(dtype):
        wrapped: Expr = build.cast(content, dtypes.bits(dtype), dtypes.signed(dtype))
        return wrapped
    if isinstance(content, Value) and content.op not in _EXACT and dtypes.is_float(dtype):
        return make(CONVERT, (make(CONVERT, (content,), "float64"),), dtype)
    return content


_EXACT: Final = (READ, CONVERT, ops.MIN, ops.MAX, ops.NEG, ops.ABS, ops.SELECT)
