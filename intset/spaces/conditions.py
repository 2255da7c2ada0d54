"""Conditions of a space, and expressions over its names: objects of this project, or their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from intset.errors import InputError, ParseError, UndefinedError
from intset.expr import ops
from intset.expr.dag import conjuncts, opaque_terms
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, as_expr, const, truth
from intset.expr.parser import ExprParser, ParsedOperand, Pending, Token
from intset.expr.printer import shown
from intset.spaces.axes import LABELS, TRUTHS, SpaceAxis


def read_conditions(axes: Sequence[SpaceAxis], where: object) -> tuple[Cond, ...]:
    """Read conditions or texts as a list of conjuncts, without constants.

    Guarantee: the conjuncts hold at the same configurations as the given conditions; a conjunction holds where each
    part has a value and is true.

    Raises
    ------
    InputError: a part is not a condition, or has a name that is unknown or stands for strings.
    """
    given: Iterable[Any] = (where,) if isinstance(where, (str, Node)) else _parts(where)
    parts: dict[Cond, None] = {}
    for item in given:
        cond = _condition(axes, item)
        parts.update(dict.fromkeys(part for part in conjuncts(cond) if part is not truth(True)))
    return tuple(parts)


def _parts(where: object) -> Iterable[Any]:
    if isinstance(where, bool) or not isinstance(where, Iterable):
        raise InputError(f"where= takes conditions, a list of them or of their texts, not {shown(where)}")
    return where


def _condition(axes: Sequence[SpaceAxis], item: object) -> Cond:
    node = _parsed(axes, item) if isinstance(item, str) else item
    if isinstance(node, bool):
        raise InputError(f"a condition of a space is an expression, not Python's {node}: was it made by 'in' or 'and'?")
    if isinstance(node, Expr):
        is_negated = node.op is ops.BITNOT
        flag = node.args[0] if is_negated else node
        axis = next((axis for axis in axes if axis.var is flag), None)
        if axis is None or axis.kind is not TRUTHS:
            raise InputError(f"a condition of a space is a comparison or a truth value, not the integer {shown(node)}")
        node = axis.var.eq(0) if is_negated else axis.var.ne(0)
    if not isinstance(node, Cond):
        raise InputError(f"a condition of a space is an expression or a text, not {shown(node)}")
    _check(axes, node, "the condition")
    return node


def read_expression(axes: Sequence[SpaceAxis], item: object, what: str) -> Expr:
    """An expression over the names of a space; a condition counts as 0 or 1.

    Raises
    ------
    InputError: `item` is not an expression, or has a name that is unknown or stands for strings.
    """
    node = _parsed(axes, item) if isinstance(item, str) else item
    if isinstance(node, Cond):
        raise InputError(f"{what} is an integer, not the condition {shown(node)}: use select(condition, 1, 0)")
    e = as_expr(node, what)
    _check(axes, e, what)
    return e


def _check(axes: Sequence[SpaceAxis], node: Node, what: str) -> None:
    own = {axis.var: axis for axis in axes}
    for var in node.free_vars():
        axis = own.get(var)
        if axis is not None and axis.kind is not LABELS:
            continue
        what = f"{what} {shown(node)}"
        if axis is None:
            known = ", ".join(axis.name for axis in axes)
            twin = any(axis.name == var.name for axis in axes)
            hint = ", but by another variable: write the text, or make the variable the key" if twin else ""
            raise InputError(f"{what} mentions {var.name}, which is no name of the space ({known}){hint}")
        if axis.kind is LABELS:
            raise InputError(f"{what} mentions {var.name}, whose values are strings: choose among them instead")
    unknown = [term for term in opaque_terms(node) if term.data.value_at is None]
    if unknown:
        raise InputError(f"{what} has the unknown {shown(unknown[0])}: a space knows its names only")


def _parsed(axes: Sequence[SpaceAxis], text: str) -> Any:
    """The meaning of a text, with errors of one line."""
    try:
        return SpaceParser(text, axes).run()
    except ParseError as error:
        raise InputError(f"{str(error).partition(chr(10))[0]}, in the text {shown(text)}") from None


class SpaceParser(ExprParser):
    """Reads expressions over the names of a space.

    A name of truth values is a condition where one is expected, and 0 or 1 elsewhere; so are `True` and `False`.
    """

    def __init__(self, text: str, axes: Sequence[SpaceAxis]) -> None:
        super().__init__(text, {axis.name: axis.var for axis in axes})
        self.truths = {axis.var for axis in axes if axis.kind is TRUTHS}

    def quoted(self, token: Token) -> bool:
        """Process a quoted name; any other string is refused."""
        try:
            return super().quoted(token)
        except ParseError:
            if token.text[1:-1] in self.names:
                raise
            reason = "a condition over strings is not possible: choose among the values instead"
            raise self.error(reason, token.position) from None

    def as_condition(self, operand: ParsedOperand) -> ParsedOperand:
        value = operand.value
        return operand._replace(value=value.ne(0)) if value in self.truths else operand

    def as_number(self, operand: ParsedOperand) -> ParsedOperand:
        value = operand.value
        return operand._replace(value=const(int(value.data))) if value.op is ops.BOOL else operand

    def binary(self, symbol: str, a: ParsedOperand, b: ParsedOperand, position: int) -> None:
        if symbol in ("and", "or") or isinstance(a.value, Cond) or isinstance(b.value, Cond):
            a, b = self.as_condition(a), self.as_condition(b)
        super().binary(symbol, a, b, position)

    def prefix(self, symbol: str, operand: ParsedOperand, position: int) -> None:
        super().prefix(symbol, self.as_condition(operand) if symbol in ("not", "~") else operand, position)

    def choice(self, if_true: ParsedOperand, condition: ParsedOperand, if_false: ParsedOperand) -> None:
        super().choice(if_true, self.as_condition(condition), if_false)

    def chain(self, operator: Pending) -> None:
        first = len(self.operands) - len(operator.symbols) - 1
        self.operands[first:] = map(self.as_number, self.operands[first:])
        super().chain(operator)


def contains(conditions: Iterable[Cond], point: Mapping[Any, int]) -> bool:
    """Whether every condition has a value at a point and is true."""
    try:
        return all(evaluate(cond, point) for cond in conditions)
    except UndefinedError:
        return False
