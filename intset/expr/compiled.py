"""Expressions as Python functions, for evaluation at many points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from intset.errors import UndefinedError
from intset.expr import ops
from intset.expr.digits import number_text
from intset.expr.evaluate import evaluate
from intset.expr.node import Node, Var, constant_value
from intset.expr.walk import postorder

MAX_TEXT = 4000  # of one function: longer, or deeper, parts become functions of their own
MAX_DEPTH = 60
MAX_CALLS = 60  # such functions inside one another; beyond that, expressions are evaluated node by node
MAX_STATEMENTS = 1000  # parts that are computed beforehand
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
    writer = _Writer(variables)
    text = writer.written(node)
    if text is None:
        return lambda *values: evaluate(node, dict(zip(variables, values, strict=True)))
    return writer.function(text)


class _Writer:
    """Python text for one expression.

    A part that is used more than once is computed once, beforehand, where it has a value everywhere and that takes no
    long numbers: else it is only computed where it is needed, each time. What is too long for one function is put into
    the scope as a function of its own.
    """

    def __init__(self, variables: Sequence[Var]) -> None:
        self.names: dict[Any, str] = {var: f"v{k}" for k, var in enumerate(variables)}
        self.parameters = ",".join(self.names.values())
        self.scope: dict[str, Any] = dict(_NAMES)
        self.statements: list[str] = []

    def function(self, text: str) -> Callable[..., Any]:
        if not self.statements:
            short: Callable[..., Any] = eval(f"lambda {self.parameters}: {text}", self.scope)
            return short
        lines = "\n ".join((*self.statements, f"return {text}"))
        made: dict[str, Callable[..., Any]] = {}
        exec(f"def function({self.parameters}):\n {lines}", self.scope, made)
        return made["function"]

    def written(self, root: Node) -> str | None:
        """The text of an expression; `None` for one that is evaluated node by node."""
        order = list(postorder((root,)))
        uses = Counter(arg for node in order for arg in node.args)
        texts: dict[Node, _Text] = {}
        for node in order:
            made = self._of(node, [texts[arg] for arg in node.args])
            if made is None or made.calls > MAX_CALLS or made.nodes > max(MAX_TEXT, MAX_SHARED * len(texts)):
                return None
            if uses[node] > 1 and made.is_total and made.nodes > 2:
                made = self._beforehand(made)
            if len(self.statements) > MAX_STATEMENTS:
                return None
            texts[node] = made
        return texts[root].text

    def _of(self, node: Node, args: list[_Text]) -> _Text | None:
        if node.op is ops.CONST:
            return _Text(f"({number_text(node.data)})", is_total=True)
        if node.op is ops.BOOL:
            return _Text(str(node.data), is_total=True)
        if node.op is ops.VAR:
            return _Text(self.names[node], is_total=True) if node in self.names else None
        if node.op is ops.LOAD:
            return None
        form = f"wrap({{}},{node.data[0]},{node.data[1]})" if node.op is ops.CAST else _FORMATS[node.op]
        made = _Text.of(form, args, _is_total(node))
        return made if made.fits() else _Text.of(form, [self._outlined(arg) for arg in args], _is_total(node))

    def _beforehand(self, part: _Text) -> _Text:
        name = f"t{len(self.statements)}"
        self.statements.append(f"{name}={part.text}")
        return _Text(name, is_total=True, is_local=True)

    def _outlined(self, part: _Text) -> _Text:
        """The part computed elsewhere; what is short is left as it is."""
        call = f"f{len(self.scope)}({self.parameters})"
        if part.depth < 4 or len(part.text) <= 2 * len(call):
            return part
        if part.is_total:
            return self._beforehand(part)
        if part.is_local:
            name = f"t{len(self.statements)}"
            self.statements.append(f"{name}=lambda: {part.text}")
            return part._replace(text=f"{name}()", depth=1, calls=part.calls + 1)
        self.scope[call.partition("(")[0]] = eval(f"lambda {self.parameters}: {part.text}", self.scope)
        return part._replace(text=call, depth=1, calls=part.calls + 1)


def _is_total(node: Node) -> bool:
    """Whether the operation has a value for all arguments, not much longer than they are."""
    if node.op in ops.DIVISIONS:
        return bool(constant_value(node.args[1]))
    if node.op is ops.MUL:
        return bool(node.args[0].is_const or node.args[1].is_const)
    return node.op not in (ops.SHL, ops.SHR, ops.ASSERTING)


class _Text(NamedTuple):
    """An expression as Python: how deep it is, how many functions are called inside one another, the nodes computed;
    whether it has a value everywhere, and whether it names what was computed beforehand."""

    text: str
    depth: int = 1
    calls: int = 0
    nodes: int = 1
    is_total: bool = False
    is_local: bool = False

    @staticmethod
    def of(form: str, args: Sequence[_Text], is_total: bool) -> _Text:
        return _Text(
            form.format(*(arg.text for arg in args)),
            1 + max(arg.depth for arg in args),
            max(arg.calls for arg in args),
            1 + sum(arg.nodes for arg in args),
            is_total and all(arg.is_total for arg in args),
            any(arg.is_local for arg in args),
        )

    def fits(self) -> bool:
        return len(self.text) <= MAX_TEXT and self.depth <= MAX_DEPTH
