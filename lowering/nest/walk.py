"""Walks over nests without recursion, and what statements compute with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.build import ExternCall
from bound.tir.reduce import Parameter
from bound.tir.value import PARAM, IntFunction, Operand, Value, integer
from intset.expr import NEG_INF, POS_INF, Expr, Node, Range, constant_value, dag, ops
from lowering.nest import ir

R = TypeVar("R")
Old = TypeVar("Old", bound=Operand)
S = TypeVar("S", bound=ir.Stmt)
Visit: TypeAlias = "Generator[Any, Any, R]"
Recursion: TypeAlias = "Generator[Any, Any, R]"
"""A recursive function for `drive` over anything but statements, whose walks are the driver's."""
OnOperand: TypeAlias = "Callable[[Any], Any]"
Path: TypeAlias = "tuple[int, ...]"
"""A position in a nest: indices into `children`, from the body of the function."""


def drive(root: Visit[R], visit: Callable[[Any], Any] | None = None) -> R:
    """Run a recursive generator: each `yield child` gives the result of `visit(child)`, at any depth.

    Parameters
    ----------
    visit: the generator of a child's result, or the result itself; by default the child is its generator.
    """
    waiting: list[Visit[Any]] = [root]  # outer ones first
    value: Any = None
    while True:
        try:
            child = waiting[-1].send(value)
        except StopIteration as stop:
            waiting.pop()
            value = stop.value
            if not waiting:
                answer: R = value
                return answer
        else:
            value = child if visit is None else visit(child)
            if type(value) is GeneratorType:
                waiting.append(value)
                value = None


_COMPOUND: Final = (ir.Seq, ir.For, ir.If)  # the kinds with statements inside


def children(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements directly inside."""
    if type(stmt) is ir.Seq:
        return stmt.stmts
    if type(stmt) is ir.For:
        return (stmt.body,)
    if type(stmt) is ir.If:
        return (stmt.then,) if stmt.orelse is None else (stmt.then, stmt.orelse)
    return ()


def statements(root: ir.Stmt) -> Iterator[ir.Stmt]:
    """Every statement, outer ones before those inside, in the order of the text."""
    stack = [root]
    while stack:
        stmt = stack[-1]
        del stack[-1]
        yield stmt
        while type(stmt) is ir.For:
            stmt = stmt.body
            yield stmt
        if type(stmt) is ir.Seq:
            stack += stmt.stmts[::-1]
        elif type(stmt) is ir.If:
            stack += children(stmt)[::-1]


class Occurring(NamedTuple):
    """What occurs in a nest: a pass for other things returns at once."""

    kinds: frozenset[type[ir.Stmt]]
    operations: frozenset[ops.Op]


_OCCURRING: Final[WeakKeyDictionary[ir.Stmt, Occurring]] = WeakKeyDictionary()


def occurring(root: ir.Stmt) -> Occurring:
    """The kinds of the statements in a nest, and the operations in their operands; found once for each nest."""
    found = _OCCURRING.get(root)
    if found is None:
        stmts = list(statements(root))
        roots = dict.fromkeys(operand for stmt in stmts for operand in operands(stmt))
        _OCCURRING[root] = found = Occurring(frozenset(map(type, stmts)), walk.operations(*roots))
    return found


def range_ends(r: Range) -> tuple[Expr, Expr]:
    """Minimum and extent of a bounded range."""
    low: Any = r.min
    extent: Any = r.extent
    assert low is not NEG_INF and extent is not POS_INF
    return low, extent


def is_scalar(stmt: ir.Allocate) -> bool:
    """Whether storage holds a single element."""
    return all(constant_value(range_ends(r)[1]) == 1 for r in stmt.ranges)


def constant_limit(extent: Expr) -> int | None:
    """The least constant of an extent of the form `minimum(..., constant)`; `None` without one."""
    numbers = [n for part in dag.chain(ops.MIN, extent) if (n := constant_value(part)) is not None]
    return min(numbers, default=None)


class OperandFields(dict[type, tuple[str, ...]]):
    """The fields with operands by the kind of statement or part; a subclass has those of its base."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        self[kind] = found = next((self[base] for base in kind.__mro__[1:] if base in self), ())
        return found


_OPERANDS: Final = OperandFields(
    {
        ir.For: ("range", "carried"),
        ir.If: ("cond",),
        ir.Store: ("indices", "value"),
        ir.Assert: ("cond",),
        ir.Assume: ("cond",),
        ir.Let: ("value",),
        ir.Allocate: ("ranges", "origin", "padding"),
        ir.Evaluate: ("call",),
        ir.Carry: ("first", "following"),
        ir.Padding: ("cond",),
        ExternCall: ("args",),
    }
)


def operands(stmt: ir.Stmt) -> tuple[Operand, ...]:
    """The operands of the statement, nested statements aside, in the order in which `map_operands` changes it."""
    if type(stmt) is ir.Store:  # frequent kinds first
        return (*stmt.indices, stmt.value)
    if type(stmt) is ir.For and not stmt.carried:
        return range_ends(stmt.range)
    found: list[Any] = []
    _collect(stmt, found)
    return tuple(found)


def _collect(part: Any, found: list[Any]) -> None:
    """Append the operands of a statement or of its part."""
    for name in _OPERANDS[type(part)]:
        field: Any = getattr(part, name)
        for inner in field if isinstance(field, tuple) else (field,):
            if isinstance(inner, _OPERAND):
                found.append(inner)
            elif type(inner) is Range:
                found += range_ends(inner)
            elif inner is not None:
                _collect(inner, found)


_OPERAND: Final = (Value, Node)


def is_operand(arg: object) -> TypeGuard[Operand]:
    """Whether the argument of a host call is computed by the nest."""
    return isinstance(arg, _OPERAND)


def map_operands(stmt: S, change: OnOperand) -> S:
    """Apply `change` to each operand of the statement itself; the same statement if no operand changes."""
    part: Any = stmt
    changed = {}
    for name in _OPERANDS[type(part)]:
        field = getattr(part, name)
        if field is None or type(field) is tuple and not field:
            continue  # no origin, nothing carried
        new = change(field) if isinstance(field, _OPERAND) else _changed(field, change)
        if new is not field:
            changed[name] = new
    return ir.with_fields(stmt, **changed) if changed else stmt


def _changed(field: Any, change: OnOperand) -> Any:
    """A field of a statement, no operand itself, with its operands changed; the same object if none changes."""
    if type(field) is Range:
        return _changed_range(field, change)
    if not isinstance(field, tuple):
        return map_operands(field, change)
    new = [change(inner) if isinstance(inner, _OPERAND) else _changed(inner, change) for inner in field]
    return field if all(map(operator.is_, new, field)) else tuple(new)


def _changed_range(r: Range, change: OnOperand) -> Range:
    old_low, old_extent = range_ends(r)
    low, extent = change(old_low), change(old_extent)
    if low is old_low and extent is old_extent:
        return r
    number = constant_value(extent)
    return Range(low, extent if number is None or number >= 0 else 0)  # a negative extent is empty too


def with_children(stmt: ir.Stmt, new: Sequence[ir.Stmt]) -> ir.Stmt:
    """The statement with other statements inside, as many as `children` gives; the same statement if none changes."""
    if all(map(operator.is_, new, children(stmt))):
        return stmt
    if isinstance(stmt, ir.Seq):
        return ir.Seq(tuple(new))
    if isinstance(stmt, ir.For):
        return ir.with_fields(stmt, body=new[0])
    if isinstance(stmt, ir.If):
        return ir.If(stmt.cond, new[0], new[1] if len(new) > 1 else None)
    return stmt


def rebuilt(root: ir.Stmt, change: Callable[[ir.Stmt], ir.Stmt]) -> ir.Stmt:
    """Apply `change` to every statement, bottom-up."""
    done: list[ir.Stmt] = []
    for stmt, count in _bottom_up(root):
        if count == 0:
            done.append(change(stmt))
            continue
        inner = done[-count:]
        if type(stmt) is ir.Seq:
            inner = [part for new in inner for part in ir.flat(new)]
            same = len(inner) == count and all(map(operator.is_, inner, stmt.stmts))
            stmt = stmt if same else ir.Seq(tuple(inner))
        else:
            stmt = with_children(stmt, inner)
        done[-count:] = [change(stmt)]
    return done[0]


def folded(root: ir.Stmt, combine: Callable[[ir.Stmt, Sequence[R]], R]) -> R:
    """The value of a statement, computed from the values of the statements directly inside, bottom-up."""
    values: list[R] = []
    for stmt, count in _bottom_up(root):
        first = len(values) - count
        values[first:] = [combine(stmt, values[first:])]
    return values[0]


def _bottom_up(root: ir.Stmt) -> Iterator[tuple[ir.Stmt, int]]:
    """All statements, inner ones first, in the order of the text, each with the number of its children."""
    order: list[tuple[ir.Stmt, int]] = []
    stack = [root]
    while stack:
        stmt = stack.pop()
        inside = children(stmt) if type(stmt) in _COMPOUND else ()
        order.append((stmt, len(inside)))
        stack += inside
    return reversed(order)


def transform(root: ir.Stmt, change: OnOperand) -> ir.Stmt:
    """The nest with `change` applied to every operand."""
    return rebuilt(root, lambda stmt: map_operands(stmt, change))


def replaced(root: walk.Part, replacements: Mapping[Old, Operand]) -> walk.Part:
    """`root` with variables and parameters replaced, also inside the integer functions of data below it."""
    if root.op is ops.CONST or root.op is ops.VAR:
        given: Any = replacements
        answer: walk.Part = given.get(root, root)
        return answer
    is_entered = ops.LOAD in dag.operations(root)
    inner: dict[Operand, Operand] = {old: new for old, new in replacements.items() if is_entered and old.op is PARAM}
    if not inner:
        return walk.rewritten(root, replacements)
    new: dict[Operand, Operand] = dict(replacements.items())
    for call in [n for n in walk.nodes(root) if n.op is ops.LOAD and isinstance(n.data, IntFunction)]:
        mapping = {p: walk.rewritten(a, new) for p, a in zip(call.data.params, call.args, strict=True)}
        body = replaced(call.data.body, {**inner, **mapping})
        assert isinstance(body, Value)
        new[call] = integer(body)
    return walk.rewritten(root, new)


def without_assumptions(root: ir.Stmt) -> ir.Stmt:
    """The nest without its `assume` statements."""
    return rebuilt(root, lambda stmt: ir.Seq() if isinstance(stmt, ir.Assume) else ir.seq(stmt))


def substitute(root: ir.Stmt, replacements: Mapping[Old, Operand]) -> ir.Stmt:
    """Replace variables in every operand. Precondition: the nest binds none of them."""
    return transform(root, lambda e: replaced(e, replacements)) if replacements else root


def elements_read(*values: Operand) -> Iterator[tuple[Operand, Tensor]]:
    """The elements that operands read, each once, with their tensors."""
    below = walk.nodes(*walk.reading(values))
    return ((node, tensor) for node in below if (tensor := walk.loaded_tensor(node)) is not None)


def tensors_read(*values: Operand) -> tuple[Tensor, ...]:
    """The tensors read in operands."""
    return walk.tensors_below(*values)


def read_by(stmt: ir.Stmt) -> tuple[Tensor, ...]:
    """The tensors that a statement itself reads, those that a host call reads last."""
    kind = type(stmt)
    if kind is ir.Seq or (kind is ir.For and stmt.range.ends is not None and not stmt.carried):
        return ()
    read = tensors_read(*operands(stmt))
    return (*read, *stmt.reads) if kind is ir.Evaluate else read


def written_by(stmt: ir.Stmt) -> tuple[Tensor, ...]:
    """The tensors that a statement, nested ones aside, may write to."""
    return (stmt.tensor,) if type(stmt) is ir.Store else stmt.writes if type(stmt) is ir.Evaluate else ()


def touched(root: ir.Stmt) -> tuple[Tensor, ...]:
    """The tensors of which the nest reads or writes elements, in the order of their first use; host calls come last."""
    stmts = sorted(statements(root), key=lambda stmt: isinstance(stmt, ir.Evaluate))
    return tuple(dict.fromkeys(t for stmt in stmts for t in (*read_by(stmt), *written_by(stmt))))


def variables(*values: Operand) -> tuple[Parameter, ...]:
    """The integer variables and the parameters below operands, in the order of their first use.

    Formal parameters of integer functions of data are excluded.
    """
    found: dict[Parameter, None] = {}
    roots: tuple[Any, ...] = values
    for value in roots:
        if value.op is ops.VAR:
            found[value] = None
        elif value.op is ops.CONST:
            continue
        elif isinstance(value, Node) and not dag.opaque_terms(value):
            found.update(dict.fromkeys(value.free_vars()))
        else:
            for node in dag.postorder((value,)):
                if node.op is ops.VAR or node.op is PARAM:
                    found[node] = None
                elif node.op is ops.LOAD and isinstance(node.data, IntFunction):
                    below = walk.nodes(node.data.body)
                    found.update({p: None for p in below if isinstance(p, Value) and p.op is PARAM})
    return tuple(found)


def free_variables(root: ir.Stmt) -> tuple[Parameter, ...]:
    """Variables and parameters that the nest uses and does not bind, in the order of their first use."""
    bound, operands_of = bound_in(root), dict[Operand, None]()
    for stmt in statements(root):
        if type(stmt) is ir.Allocate and stmt.padding is not None:
            bound.update(stmt.padding.indices)
        operands_of.update(dict.fromkeys(operands(stmt)))
    return tuple([v for v in variables(*operands_of) if v not in bound])


def calls(root: ir.Stmt) -> tuple[ir.Evaluate, ...]:
    """The calls of host functions in a nest."""
    return tuple(stmt for stmt in statements(root) if isinstance(stmt, ir.Evaluate))


def binders(root: ir.Stmt) -> list[Any]:
    """The variables, names and arrays that the statements of a nest bind. One that is bound twice occurs twice."""
    found: list[Any] = []
    for stmt in statements(root):
        if isinstance(stmt, ir.For):
            found += (stmt.var, *(c.var for c in stmt.carried))
        elif isinstance(stmt, ir.Allocate):
            found.append(stmt.tensor)
        elif isinstance(stmt, ir.Let):
            found.append(stmt.var)
    return found


def bound_in(root: ir.Stmt) -> set[Any]:
    """The variables, names and arrays that a statement makes."""
    return set(binders(root))


# -- stores that combine an element with a value, `C[i] = C[i] + x` ---------------------------------------------

_UPDATES: Final = {ops.ADD: "+", ops.SUB: "-", ops.MUL: "*"}


def update_of(store: ir.Store) -> tuple[str, Operand] | None:
    """The operator and the operand of C's `element += operand`, which rounds as `element = element + operand` does."""
    value = store.value
    if not is_combining(store) or value.op not in _UPDATES:
        return None
    return _UPDATES[value.op], value.args[1]


def is_combining(store: ir.Store) -> bool:
    """Whether a store combines its float element with another value."""
    value: Any = store.value
    if not isinstance(value, Value) or len(value.args) != 2 or not dtypes.is_float(store.tensor.dtype):
        return False
    first = value.args[0]
    return walk.loaded_tensor(first) is store.tensor and walk.read_indices(first) == store.indices
