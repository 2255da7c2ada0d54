"""Expressions as Python functions, for evaluation at many points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from intset.errors import UndefinedError
from intset.expr import ops
from intset.expr.digits import number_text
from intset.expr.evaluate import evaluate
from intset.expr.node import Node, Var
from intset.expr.walk import postorder

MAX_TEXT = 4000  # of one function: longer, or deeper, parts become functions of their own
MAX_DEPTH = 60
MAX_CALLS = 60  # such functions inside one another; beyond that, expressions are evaluated node by node
MAX_SHARED = 20  # how often a node may be computed again, on average

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
    names = {var: f"v{k}" for k, var in enumerate(variables)}
    parameters = ",".join(names.values())
    scope: dict[str, Any] = dict(_NAMES)
    text = _to_python(node, names, parameters, scope)
    if text is None:
        return lambda *values: evaluate(node, dict(zip(variables, values, strict=True)))
    function: Callable[..., Any] = eval(f"lambda {parameters}: {text}", scope)
    return function


def _to_python(root: Node, names: dict[Any, str], parameters: str, scope: dict[str, Any]) -> str | None:
    """The text of an expression; parts that are too long for one function are put into `scope` as functions."""
    texts: dict[Node, _Text] = {}
    for node in postorder((root,)):
        if node.op is ops.CONST:
            texts[node] = _Text(f"({number_text(node.data)})")
        elif node.op is ops.BOOL:
            texts[node] = _Text(str(node.data))
        elif node.op is ops.VAR:
            if node not in names:
                return None
            texts[node] = _Text(names[node])
        elif node.op is ops.LOAD:
            return None
        else:
            form = f"wrap({{}},{node.data[0]},{node.data[1]})" if node.op is ops.CAST else _FORMATS[node.op]
            made = _Text.of(form, [texts[arg] for arg in node.args])
            if not made.fits():
                outlined = [_outlined(texts[arg], parameters, scope) for arg in node.args]
                made = _Text.of(form, outlined)
            if made.calls > MAX_CALLS or made.nodes > max(MAX_TEXT, MAX_SHARED * len(texts)):
                return None
            texts[node] = made
    return texts[root].text


class _Text(NamedTuple):
    """An expression as Python: how deep it is, how many functions are called inside one another, the nodes computed."""

    text: str
    depth: int = 1
    calls: int = 0
    nodes: int = 1

    @staticmethod
    def of(form: str, args: Sequence[_Text]) -> _Text:
        text = form.format(*(arg.text for arg in args))
        nodes = 1 + sum(arg.nodes for arg in args)
        return _Text(text, 1 + max(arg.depth for arg in args), max(arg.calls for arg in args), nodes)

    def fits(self) -> bool:
        return len(self.text) <= MAX_TEXT and self.depth <= MAX_DEPTH


def _outlined(part: _Text, parameters: str, scope: dict[str, Any]) -> _Text:
    """A call of a function that computes the part; what is short is left as it is."""
    call = f"f{len(scope)}({parameters})"
    if part.depth < 4 or len(part.text) <= 2 * len(call):
        return part
    scope[call.partition("(")[0]] = eval(f"lambda {parameters}: {part.text}", scope)
    return _Text(call, 1, part.calls + 1, part.nodes)
