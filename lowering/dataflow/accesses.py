"""Accesses in operands: the elements read and their conditions; what assumptions say about elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from bound.tensor import Tensor
from bound.tir.opaque import IntFunction
from bound.tir.reduce import Parameter
from bound.tir.value import NUMBER, Operand, Value
from bound.tir.walk import Part, loaded_tensor, nodes, read_indices
from intset.expr import ops
from intset.expr.dag import conjuncts, opaque_terms
from intset.expr.node import Cond, Expr, as_expr
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import has_undef
from lowering.nest.walk import replaced

GUARD_VISITS: Final = 4_000  # nodes of an operand, each once under each guard
ACCESS_GUARDS: Final = 8  # guards of one element that are told apart

NamedOperands: TypeAlias = "Mapping[Parameter, Operand]"
"""The value of each name and loop-carried variable."""
IntegerIndices: TypeAlias = "tuple[Expr | None, ...]"
"""The indices of an access; `None` for one that depends on data."""


class AccessGuard(NamedTuple):
    """A conjunction of integer conditions that is necessary for an access.

    Attributes
    ----------
    is_complete: whether it is sufficient, too; otherwise the access also depends on data.
    """

    conditions: tuple[Cond, ...] = ()
    is_complete: bool = True

    def joined(self, other: AccessGuard) -> AccessGuard:
        """The conjunction of two guards."""
        return AccessGuard((*self.conditions, *other.conditions), self.is_complete and other.is_complete)


ALWAYS = AccessGuard()
SOMETIMES = AccessGuard((), False)


class ElementReads(NamedTuple):
    """The reads of one element in operands; they happen where one of the guards holds."""

    node: Operand
    tensor: Tensor
    indices: IntegerIndices
    guards: tuple[AccessGuard, ...]


class ElementDefinition(NamedTuple):
    """An element definition implied by an assumption; value `None` means `undef()`."""

    guard: AccessGuard
    tensor: Tensor
    indices: IntegerIndices
    value: Operand | None


def expanded(operand: Part, names: NamedOperands) -> Part:
    """An operand with names replaced by their values, and shapes of parameters by their declared extents."""
    values: dict[Operand, Operand] = dict(names.items())
    for node in nodes(operand):
        if isinstance(node, Expr) and isinstance(node.data, ShapeOf) and node.args[0].is_const:
            values[node] = node.data.tensor.extents[node.args[0].data]
    return replaced(operand, values) if values else operand


def guard_of(cond: Operand, holds: bool = True) -> AccessGuard:
    """The integer conjuncts of a condition, or of its negation."""
    conditions: list[Cond] = []
    is_complete = True
    stack: list[tuple[Operand, bool]] = [(cond, holds)]
    while stack:
        node, positive = stack.pop()
        if node.op is ops.NOT:
            stack.append((node.args[0], not positive))
        elif node.op in ((ops.AND,) if positive else (ops.OR,)):
            stack += [(node.args[1], positive), (node.args[0], positive)]
        elif isinstance(node, Cond) and not opaque_terms(node):
            conditions += conjuncts(node if positive else ~node)
        elif not (isinstance(node, Value) and node.op is NUMBER and bool(node.data) is positive):
            is_complete = False
    return AccessGuard(tuple(conditions), is_complete)


def reads_of(operands: Sequence[Operand], expand: Callable[[Operand], Operand]) -> Iterator[ElementReads]:
    """The elements that operands read.

    Invariant: lazy operations (`and`, `or`, `select`) read a branch only where their conditions select it.

    Parameters
    ----------
    expand: replaces names in indices and guards; nodes stay as written.
    """
    guards_of: dict[Operand, list[AccessGuard]] = {}
    done: set[tuple[Operand, AccessGuard]] = set()
    stack: list[tuple[Operand, AccessGuard]] = [(operand, ALWAYS) for operand in reversed(operands)]
    visits = 0
    while stack:
        node, guard = stack.pop()
        if (node, guard) in done or (node, ALWAYS) in done:
            continue
        done.add((node, guard))
        visits += 1
        if visits > GUARD_VISITS:
            guard = SOMETIMES
        if loaded_tensor(node) is not None:
            guards_of.setdefault(node, []).append(guard)
        branches = _branches(node)
        if branches is None or visits > GUARD_VISITS:
            stack.extend((arg, guard) for arg in reversed(_arguments(node)))
            continue
        for arg, cond, holds in reversed(branches):
            stack.append((arg, guard if cond is None else guard.joined(guard_of(expand(cond), holds))))
    for node, guards in guards_of.items():
        tensor = loaded_tensor(node)
        assert tensor is not None
        told = (ALWAYS,) if ALWAYS in guards else tuple(guards) if len(guards) <= ACCESS_GUARDS else (SOMETIMES,)
        yield ElementReads(node, tensor, indices_of([as_expr(expand(e)) for e in read_indices(node)]), told)


def always_read(*operands: Operand) -> set[Operand]:
    """The elements read whenever operands are computed, outside branches of `and`, `or` and `select`."""
    return {read.node for read in reads_of(operands, lambda operand: operand) if read.guards == (ALWAYS,)}


def indices_of(args: Sequence[Expr]) -> IntegerIndices:
    """IntegerIndices, with `None` for each that depends on data."""
    return tuple(None if opaque_terms(e) else e for e in args)


def _arguments(node: Operand) -> Sequence[Operand]:
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        body = replaced(node.data.body, dict(zip(node.data.params, node.args, strict=True)))
        return (body, *node.args)
    return node.args


def _branches(node: Operand) -> list[tuple[Operand, Operand | None, bool]] | None:
    """Arguments of a lazy operation, paired with their selecting condition and its required truth."""
    args = node.args
    if node.op is ops.SELECT:
        return [(args[0], None, True), (args[1], args[0], True), (args[2], args[0], False)]
    if node.op is ops.AND and len(args) == 2:
        return [(args[0], None, True), (args[1], args[0], True)]
    if node.op is ops.OR and len(args) == 2:
        return [(args[0], None, True), (args[1], args[0], False)]
    return None


# -- assumptions -----------------------------------------------------------------------------------------------------


def definitions(cond: Operand) -> list[ElementDefinition]:
    """The values that an assumption gives to elements: `i < n or A[i] == 0` defines `A[i]` where `i >= n`."""
    return [defined for node, guard in _consequences(cond) for defined in _equation(node, guard)]


def bounds(cond: Operand) -> list[tuple[AccessGuard, Operand, Operand]]:
    """The comparisons of one element that an assumption implies, except definitions.

    Returns
    -------
    Guard, element and comparison of each.
    """
    found: list[tuple[AccessGuard, Operand, Operand]] = []
    for node, guard in _consequences(cond):
        elements = [part for part in nodes(node) if loaded_tensor(part) is not None]
        is_bound = node.op in ops.COMPARISONS and len(elements) == 1 and not has_undef(node)
        if is_bound and not _equation(node, guard) and None not in indices_of(read_indices(elements[0])):
            found.append((guard, elements[0], node))
    return found


def _consequences(cond: Operand) -> Iterator[tuple[Operand, AccessGuard]]:
    """Split an assumption into guarded conjuncts."""
    stack: list[tuple[Operand, AccessGuard]] = [(cond, ALWAYS)]
    while stack:
        node, guard = stack.pop()
        if node.op is ops.AND:
            stack += [(arg, guard) for arg in reversed(node.args)]
        elif node.op is ops.OR:
            for k, arg in enumerate(node.args):
                others = [guard_of(other, False) for j, other in enumerate(node.args) if j != k]
                unless = reduce(AccessGuard.joined, others, ALWAYS)
                if unless.is_complete:
                    stack.append((arg, guard.joined(unless)))
        else:
            yield node, guard


def _equation(node: Operand, guard: AccessGuard) -> list[ElementDefinition]:
    if node.op is not ops.EQ:
        return []
    for element, value in (node.args, node.args[::-1]):
        tensor = loaded_tensor(element)
        if tensor is None:
            continue
        indices = indices_of(read_indices(element))
        if None in indices:
            continue
        if has_undef(value):
            return [ElementDefinition(guard, tensor, indices, None)]
        if not any(loaded_tensor(part) is not None for part in nodes(value)):
            return [ElementDefinition(guard, tensor, indices, value)]
    return []
