"""The check of kind "isl": the violating points as a set in isl's language, whose emptiness isl verifies.

Conditions are translated as written, without the canonical form. Operations unknown to isl become fresh coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from intset.check.premises import CheckBudget, premises_of, stated
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Cond, Expr, Node, constant_value
from intset.expr.printer import decimal
from intset.installation import load

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

CHECK_STEPS_PER_ISL_OPERATION: Final = 3  # steps that one of isl's operations takes
CHECK_ISL_TEXT: Final = 60_000  # characters of a text for isl
CHECK_ISL_BITS: Final = 8_192  # bits of a constant for isl

_INFIX = {ops.ADD: "+", ops.SUB: "-"}
_COMPARED = {ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "=", ops.NE: "!="}


def emptiness_text(holds: Sequence[Cond], fails: Cond | None) -> str | None:
    """The set that satisfies `holds` and violates `fails`, as text; None beyond `CHECK_ISL_TEXT` characters.

    Guarantee: it projects onto a superset of the violating points, so emptiness proves the claim.
    """
    writer = _IslTextWriter()
    parts = [writer.text(cond) for cond in holds]
    if fails is not None:
        parts.append(f"not ({writer.text(fails)})")
    if writer.overflow:
        return None
    body = " and ".join(f"({part})" for part in [*writer.extra, *parts]) or "true"
    text = f"{{ [{', '.join(writer.names.values())}] : {body} }}"
    return text if len(text) <= CHECK_ISL_TEXT else None


def check_isl(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the text equals the translation of the statement, and isl proves it empty."""
    budget.spend_nodes(*stated(cert))
    text = emptiness_text(premises_of(cert), None if cert.vacuous else cert.goal)
    if text is None or cert.text != text:
        return False
    return is_empty_text(text, budget.left // CHECK_STEPS_PER_ISL_OPERATION, budget)


def is_empty_text(text: str, max_operations: int, budget: CheckBudget | None = None) -> bool:
    """Whether a fresh isl context proves the set empty within `max_operations`."""
    try:
        load("islpy")
        import islpy as m
    except ImportError:
        return False  # unverified
    context = m.Context()
    context.set_on_error(m.on_error.CONTINUE)
    context.set_max_operations(max_operations)
    try:
        return bool(m.Set.read_from_str(context, text).is_empty())
    except m.Error as error:
        if budget is not None and "operations" in str(error):
            budget.spend(budget.left + 1)
        return False


class _IslTextWriter:
    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.extra: list[str] = []
        self.overflow = False
        self._texts: dict[Node, str] = {}

    def text(self, root: Node) -> str:
        for node in postorder((root,)):
            if node not in self._texts:
                written = "0" if self.overflow else self._of(node, [self._texts[arg] for arg in node.args])
                self.overflow |= len(written) > CHECK_ISL_TEXT
                self._texts[node] = "0" if self.overflow else written
        return self._texts[root]

    def _of(self, node: Node, args: list[str]) -> str:
        op = node.op
        if op is ops.CONST and node.data.bit_length() > CHECK_ISL_BITS:
            self.overflow = True
            return "0"
        if op is ops.CONST:
            return f"({decimal(node.data)})" if node.data < 0 else decimal(node.data)
        if op is ops.BOOL:
            return "true" if node.data else "false"
        if op in _COMPARED:
            return f"{args[0]} {_COMPARED[op]} {args[1]}"
        if op in (ops.AND, ops.OR):
            return f"(({args[0]}) {op.name} ({args[1]}))"
        if op is ops.NOT:
            return f"(not ({args[0]}))"
        assert isinstance(node, Expr)
        return self._integer(node, args)

    def _integer(self, e: Expr, args: list[str]) -> str:
        op = e.op
        if op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op is ops.NEG:
            return f"(-{args[0]})"
        if op is ops.ASSERTING:
            return args[1]
        if op in (ops.MIN, ops.MAX):
            return f"{'min' if op is ops.MIN else 'max'}({args[0]}, {args[1]})"
        if op is ops.ABS:
            return f"max({args[0]}, (-{args[0]}))"
        if op is ops.SELECT:
            s = self._name(e)
            self.extra.append(f"(({args[0]}) and {s} = {args[1]}) or ((not ({args[0]})) and {s} = {args[2]})")
            return s
        if op is ops.MUL:
            for k, x in ((constant_value(e.args[0]), args[1]), (constant_value(e.args[1]), args[0])):
                if k is not None:
                    return f"({k}*{x})" if k >= 0 else f"(-{-k}*{x})"
        if op is ops.CAST:
            bits, signed = e.data
            half = 1 << (bits - 1)
            return f"((({args[0]} + {half}) mod {1 << bits}) - {half})" if signed else f"(({args[0]}) mod {1 << bits})"
        c = constant_value(e.args[1]) if op in ops.DIVISIONS else None
        return self._divided(e, args[0], c) if c else self._name(e)

    def _divided(self, e: Expr, x: str, c: int) -> str:
        op, negated = e.op, f"(-{x})"
        over = x if c > 0 else negated
        if op in (ops.FLOORDIV, ops.FLOORMOD):
            quotient = f"floor(({over})/{abs(c)})"
        elif op is ops.CEILDIV:
            return f"(-floor(({negated if c > 0 else x})/{abs(c)}))"
        else:
            quotient = self._name((ops.TRUNCDIV, e.args))
            up, down = f"{quotient} = floor(({x})/{abs(c)})", f"{quotient} = -floor(({negated})/{abs(c)})"
            side = f"({x} >= 0 and {up}) or ({x} < 0 and {down})"
            if side not in self.extra:
                self.extra.append(side)
            quotient = quotient if c > 0 else f"(-{quotient})"
        if op in (ops.FLOORDIV, ops.TRUNCDIV):
            return quotient
        return f"({x} - {c}*{quotient})" if c > 0 else f"({x} + {-c}*{quotient})"

    def _name(self, key: object) -> str:
        """The coordinate of a variable or uninterpreted term."""
        if key not in self.names:
            self.names[key] = f"x{len(self.names)}"
        return self.names[key]
