"""`annotate_shapes` for lowered functions: facts about sizes become leading assertions."""

from __future__ import annotations

from typing import Any, overload

from bound import declare as below
from bound.declare import Annotated
from bound.tensor import Tensor
from bound.tir.value import Operand
from intset.expr.annotate import size_claims
from intset.expr.dag import conjuncts
from intset.expr.node import Expr, Var
from lowering.nest.ir import Assert, Function, Stmt, seq
from lowering.nest.walk import statements


@overload
def annotate_shapes(x: Function, shapes: object = None) -> Function: ...
@overload
def annotate_shapes(x: Tensor, shapes: object) -> Operand: ...
@overload
def annotate_shapes(x: Annotated, shapes: object) -> Annotated: ...
@overload
def annotate_shapes(x: list[Operand | Tensor], shapes: object) -> list[Operand]: ...
@overload
def annotate_shapes(x: tuple[Operand | Tensor, ...], shapes: object) -> tuple[Operand, ...]: ...
def annotate_shapes(x: object, shapes: object = None) -> object:
    """Extend `bound.declare.annotate_shapes` to lowered functions.

    Each missing fact about a size becomes an assertion before the body of the function.

    Parameters
    ----------
    x: a `Function`, or any argument of `bound.declare.annotate_shapes`.
    shapes: the size variables, as in `intset.annotate_shapes`; default for functions: the variables of array shapes.
    """
    if not isinstance(x, Function):
        other: Any = x
        return below.annotate_shapes(other, shapes)
    sizes = _declared(x) if shapes is None else {}
    claims = size_claims([tensor.shape for tensor in x.params] if shapes is None else shapes) | sizes
    known = {stmt.cond for stmt in statements(x.body) if isinstance(stmt, Assert)}
    stated = [cond for form in claims.values() if form.args for cond in conjuncts(form.args[0])]
    checks: list[Stmt] = [Assert(cond, f"{cond}") for cond in stated if cond not in known]
    return x.with_body(seq(*checks, x.body)) if checks else x


def _declared(f: Function) -> dict[Var, Expr]:
    sizes = [var for var in f.sizes if var.declared() != (None, None, 1)]
    return size_claims({var: var for var in sizes})
