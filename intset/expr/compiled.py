"""Expressions as Python functions, for evaluation at many points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from intset.errors import UndefinedError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Node, Var
from intset.expr.walk import postorder

MAX_TEXT = 4000  # longer, or deeper, expressions are evaluated node by node
MAX_DEPTH = 60

_FORMATS: dict[ops.Op, str] = {
    ops.ADD: "({}+{})",
    ops.SUB: "({}-{})",
    ops.MUL: "({}*{})",
    ops.NEG: "(-{})",
    ops.FLOORDIV: "({}//{})",
    ops.FLOORMOD: "({}%{})",
    ops.CEILDIV: "(-(-{}//{}))",
    ops.TRUNCDIV: "truncdiv({},{})",
    ops.TRUNCMOD: "truncmod({},{})",
    ops.MIN: "min({},{})",
    ops.MAX: "max({},{})",
    ops.ABS: "abs({})",
    ops.BITAND: "({}&{})",
    ops.BITOR: "({}|{})",
    ops.BITXOR: "({}^{})",
    ops.BITNOT: "(~{})",
    ops.SHL: "shl({},{})",
    ops.SHR: "shr({},{})",
    ops.SELECT: "({1} if {0} else {2})",
    ops.ASSERTING: "({1} if {0} else undefined())",
    ops.LT: "({}<{})",
    ops.LE: "({}<={})",
    ops.GT: "({}>{})",
    ops.GE: "({}>={})",
    ops.EQ: "({}=={})",
    ops.NE: "({}!={})",
    ops.AND: "({} and {})",
    ops.OR: "({} or {})",
    ops.NOT: "(not {})",
}


def _undefined() -> int:
    raise UndefinedError("an assertion does not hold")


_NAMES = {
    "truncdiv": ops.trunc_div,
    "truncmod": ops.trunc_mod,
    "shl": ops.shift_left,
    "shr": ops.shift_right,
    "wrap": ops.wrap,
    "undefined": _undefined,
}


def compiled(node: Node, variables: Sequence[Var]) -> Callable[..., Any]:
    """A function of the values of `variables`, in that order, equal to `evaluate` of `node`.

    Where `evaluate` raises `UndefinedError`, the function raises that or `ZeroDivisionError`. Opaque terms are refused
    by `InputError` when called.
    """
    text = _to_python(node, {var: f"v{k}" for k, var in enumerate(variables)})
    if text is None:
        return lambda *values: evaluate(node, dict(zip(variables, values, strict=True)))
    parameters = ",".join(f"v{k}" for k in range(len(variables)))
    function: Callable[..., Any] = eval(f"lambda {parameters}: {text}", dict(_NAMES))
    return function


def _to_python(root: Node, names: dict[Any, str]) -> str | None:
    texts: dict[Node, tuple[str, int]] = {}
    for node in postorder((root,)):
        if node.op is ops.CONST:
            texts[node] = (f"({node.data})", 1)
        elif node.op is ops.BOOL:
            texts[node] = (str(node.data), 1)
        elif node.op is ops.VAR:
            if node not in names:
                return None
            texts[node] = (names[node], 1)
        elif node.op is ops.LOAD:
            return None
        else:
            args = [texts[arg] for arg in node.args]
            form = f"wrap({{}},{node.data[0]},{node.data[1]})" if node.op is ops.CAST else _FORMATS[node.op]
            text, depth = form.format(*(arg[0] for arg in args)), 1 + max(arg[1] for arg in args)
            if len(text) > MAX_TEXT or depth > MAX_DEPTH:
                return None
            texts[node] = (text, depth)
    return texts[root][0]
