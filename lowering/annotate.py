"""`annotate_shapes` for whole functions: a fact about a size becomes an assertion above everything else."""

from __future__ import annotations

from typing import Any

from bound import shapes as below
from intset.expr.annotate import size_claims
from intset.expr.node import Expr, Var
from intset.expr.walk import conjuncts
from lowering.nest.ir import Assert, Function, Stmt, seq
from lowering.nest.walk import statements


def annotate_shapes(x: Any, shapes: Any = None) -> Any:
    """What `bound.shapes.annotate_shapes` does, also for a function that lost the facts about its sizes.

    Parameters
    ----------
    x: a `Function`, or whatever `bound.shapes.annotate_shapes` takes.
    shapes: which variables are sizes, as for `intset.annotate_shapes`; for a function, by default those in the shapes
        of its arrays.

    The function gets an assertion for each fact that it does not assert yet, in front of its body.
    """
    if not isinstance(x, Function):
        return below.annotate_shapes(x, shapes)
    sizes = _declared(x) if shapes is None else {}
    claims = size_claims([tensor.shape for tensor in x.params] if shapes is None else shapes) | sizes
    known = {stmt.cond for stmt in statements(x.body) if isinstance(stmt, Assert)}
    stated = [cond for form in claims.values() if form.args for cond in conjuncts(form.args[0])]
    checks: list[Stmt] = [Assert(cond, f"{cond}") for cond in stated if cond not in known]
    return x.with_body(seq(*checks, x.body)) if checks else x


def _declared(f: Function) -> dict[Var, Expr]:
    sizes = [var for var in f.sizes if var.declared() != (None, None, 1)]
    return size_claims({var: var for var in sizes})
