"""`evaluate`: the reference semantics of expressions, over the integers and at a fixed width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intset.errors import BudgetError, InputError, MachineOverflowError, UndefinedError
from intset.expr import ops
from intset.expr.digits import number_text, short_number, shown
from intset.expr.given import mapped, refusal
from intset.expr.length import as_width
from intset.expr.node import Node, Var, as_int
from intset.expr.ops import Op, wrap
from intset.expr.walk import opaque_terms

# An entry of the work stack: a node to start, or the node again with the argument whose value decides how it goes on.
_START, _APPLY, _DECIDE = 0, 1, 2


def settled(node: Node) -> Any:
    """The value of a node over constants alone; `None` where variables or opaque terms occur."""
    return None if node.free_vars() or opaque_terms(node) else evaluate(node)


def evaluate(node: Node, env: Mapping[Any, Any] | None = None, bits: int | None = None) -> Any:
    """The value of an expression (`int`) or of a condition (`bool`) at a point.

    Parameters
    ----------
    node: the expression or condition.
    env: the point, `{Var: int}`. An opaque term takes its value from the key that is the term itself, or from its
        symbol: a callable of the indices, a mapping from index tuples, or an array indexed by them.
    bits: when given, every step is a signed two's complement operation of that width, C's: a result that does not fit
        raises `MachineOverflowError` (an input or constant that does not fit as well).

    Raises
    ------
    InputError: a variable has no value, or one that is not an integer.
    UndefinedError: a division by 0, a negative shift, or an assertion that does not hold.
    BudgetError: a shift to the left gives a number of more than 2**31 bits.

    `select`, `&` and `|` are lazy: what is not needed is not evaluated, so it cannot raise.
    """
    if not isinstance(node, Node):
        raise InputError(f"evaluate takes an expression or a condition, not {shown(node)}")
    width = None if bits is None else as_width(bits, "bits")
    point: Mapping[Any, Any] = {} if env is None else mapped(env, "env", "a mapping {Var: int}")
    values: dict[Node, Any] = {}
    stack: list[tuple[int, Node]] = [(_START, node)]
    while stack:
        state, top = stack.pop()
        if top in values:
            continue
        op = top.op
        if state == _START:
            if op is ops.CONST or op is ops.BOOL:
                values[top] = _fit(top.data, top, width)
            elif op is ops.VAR:
                values[top] = _fit(_lookup(top, point), top, width)
            elif op in _LAZY:
                stack.extend(((_DECIDE, top), (_START, top.args[0])))
            else:
                waiting = [(_START, arg) for arg in top.args if not _is_at_hand(arg, values, point, width)]
                if waiting:
                    stack.append((_APPLY, top))
                    waiting.reverse()
                    stack.extend(waiting)
                else:
                    values[top] = _fit(_apply(op, top, values, point, width), top, width)
        elif state == _DECIDE:
            first = values[top.args[0]]
            if op is ops.AND or op is ops.OR:
                if first is (op is ops.OR):
                    values[top] = first
                    continue
                chosen = top.args[1]
            elif op is ops.SELECT:
                chosen = top.args[1 if first else 2]
            else:
                if not first:
                    raise UndefinedError(f"the assertion {shown(top.args[0])} does not hold")
                chosen = top.args[1]
            if chosen in values:
                values[top] = values[chosen]
            else:
                stack.extend(((_DECIDE, top), (_START, chosen)))
        else:
            values[top] = _fit(_apply(op, top, values, point, width), top, width)
    return values[node]


_LONGEST = 1 << 31  # bits that a shift may add
_LAZY = frozenset((ops.SELECT, ops.AND, ops.OR, ops.ASSERTING))


def _is_at_hand(node: Node, values: dict[Node, Any], point: Mapping[Any, Any], width: int | None) -> bool:
    """Whether the value is known, or is one of those that need no step and cannot be refused; it is known then."""
    if node in values:
        return True
    if width is not None:
        return False
    value = node.data if node.op is ops.CONST else point.get(node) if node.op is ops.VAR else None
    if type(value) is not int:
        return False
    values[node] = value
    return True


def _apply(op: Op, node: Node, values: dict[Node, Any], point: Mapping[Any, Any], width: int | None) -> Any:
    args = [values[arg] for arg in node.args]
    if op is ops.CAST:
        return wrap(args[0], *node.data)
    if op is ops.LOAD:
        return _load(node, args, point)
    if width is not None and op in (ops.SHL, ops.SHR) and not 0 <= args[1] < width:
        raise MachineOverflowError(f"a shift by {number_text(args[1])} at {width} bits: {shown(node)}")
    if width is not None and op in (ops.FLOORMOD, ops.TRUNCMOD) and args[1] == -1 and args[0] == -(1 << (width - 1)):
        raise MachineOverflowError(f"{number_text(args[0])} % -1 traps at {width} bits: {shown(node)}")
    assert op.meaning is not None
    if op is ops.SHL and args[1] > _LONGEST and args[0]:
        raise BudgetError(f"a shift by {short_number(args[1])} gives a number too long to compute: {shown(node)}")
    try:
        return op.meaning(*args)
    except ZeroDivisionError:
        what = "a negative shift" if op in (ops.SHL, ops.SHR) else "a division by 0"
        raise UndefinedError(f"{what}: {shown(node)}") from None


def _fit(value: Any, node: Node, width: int | None) -> Any:
    if (
        width is not None
        and value is not True
        and value is not False
        and not -(1 << (width - 1)) <= value < 1 << (width - 1)
    ):
        raise MachineOverflowError(f"{number_text(value)} does not fit in {width} bits: {shown(node)}")
    return value


def _lookup(var: Node, point: Mapping[Any, Any]) -> int:
    assert isinstance(var, Var)
    try:
        value = point[var]
    except KeyError:
        raise InputError(f"the variable {var.name} has no value") from None
    return as_int(value, f"the value of {var.name}")


def _load(node: Node, indices: list[int], point: Mapping[Any, Any]) -> int:
    symbol = node.data
    if node in point:
        return as_int(point[node], f"the value of {node!r}")
    if symbol not in point:
        raise InputError(f"the opaque symbol {symbol.name} has no value")
    source = point[symbol]
    if indices and not (callable(source) or isinstance(source, Mapping) or hasattr(source, "shape")):
        raise refusal(f"the value of {symbol.name}", "a function, a mapping or an array", source)
    try:
        if hasattr(source, "shape") and any(index < 0 for index in indices):
            raise IndexError  # an array would count from its end
        if not indices and not callable(source) and not isinstance(source, Mapping):
            value = source[()] if hasattr(source, "shape") else source
        else:
            value = source(*indices) if callable(source) else source[tuple(indices)]
    except (KeyError, IndexError) as error:
        raise InputError(f"{symbol.name} has no element {shown(tuple(indices))}") from error
    return as_int(value, f"the value of {node!r}")
