"""Names for index expressions, after the axes that they index and the variables that they mention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.reduce import Parameter
from intset.expr import ops
from intset.expr.node import Expr, Var, constant_value
from lowering.nest.ir import Allocate, Stmt, seq
from lowering.nest.tensors import element_accesses
from lowering.nest.walk import operands, statements
from lowering.passes.values.reassociation import Order

_SUFFIX: Final = {
    ops.MIN: "min",
    ops.MAX: "max",
    ops.SELECT: "choice",
    ops.TRUNCDIV: "div",
    ops.SHR: "div",
    ops.TRUNCMOD: "mod",
    ops.BITAND: "mod",
}
_WHOLE: Final = (*ops.DIVISIONS, *ops.COMPARISONS, ops.SHR, ops.BITAND)  # operations on whole indices


class Labels:
    """Names for expressions in the body of a loop.

    In this order: the axis of a parameter that the expression indexes; the start of storage (`B.min0`); the axis of
    other storage (`B.i`); the common prefix of its variables (`i.outer * 4 + i.inner` is `i`), with `.at` if that name
    is taken and `.base` for parts of an index.

    Parameters
    ----------
    taken: names already in sight.
    """

    def __init__(self, stmts: Sequence[Stmt], params: frozenset[Tensor], order: Order, taken: set[str]) -> None:
        self.order, self.taken = order, taken
        self.whole: set[Expr] = set()
        axes: dict[Expr, str] = {}
        origins: dict[Expr, str] = {}
        local: dict[Expr, str] = {}
        for stmt in statements(seq(*stmts)):
            if isinstance(stmt, Allocate):
                for k, low in enumerate(stmt.origin or ()):
                    origins.setdefault(low, f"{stmt.tensor.name}.min{k}")
                continue
            for tensor, indices, _ in element_accesses(stmt):
                self.whole.update(map(_without_number, indices))
                names = [axis.var.name for axis in getattr(tensor.op, "axis", ())]
                for index, name in zip(indices, names, strict=False):
                    if tensor in params:
                        axes.setdefault(index, name)
                    else:
                        local.setdefault(index, f"{tensor.name}.{name}")
            self.whole.update(
                _without_number(arg)
                for node in walk.nodes(*operands(stmt))
                if node.op in _WHOLE
                for arg in node.args
                if isinstance(arg, Expr)
            )
        self.known = {**local, **origins, **axes}
        self.reserved = set(axes.values())

    def of(self, e: Expr) -> str:
        """A name for an expression; it is taken from now on."""
        own = self.known.get(e)
        names = [name for name in self._offered(e, own) if name == own or name not in self.reserved]
        name = next((name for name in names if name not in self.taken), names[-1])
        self.taken.add(name)
        return name

    def _offered(self, e: Expr, own: str | None) -> Iterable[str]:
        if own is not None:
            yield own
        stem = _stem([v.name for v in sorted(e.free_vars(), key=lambda v: self.order.get(v, -1))])
        if e.op in _SUFFIX:
            yield f"{stem}.{_SUFFIX[e.op]}"
        elif e in self.whole or e.op not in (ops.ADD, ops.SUB, ops.MUL):
            yield from (stem, f"{stem}.at")
        else:
            yield f"{stem}.base"


def label(var: Parameter) -> str:
    """The name of a variable or parameter."""
    return var.name if isinstance(var, Var) else str(var.data[0])


def _without_number(e: Expr) -> Expr:
    return e.args[0] if e.op in (ops.ADD, ops.SUB) and constant_value(e.args[1]) is not None else e


def _stem(names: Sequence[str]) -> str:
    """What the parts of all names begin with, else the last name without what a split added."""
    common: list[str] = []
    for parts in zip(*(name.split(".") for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common) if common else names[-1].removesuffix(".inner").removesuffix(".outer")
