"""Multi-stride sets by structure: sums of terms over disjoint sets of freely running variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from intset.domains import multistride
from intset.domains.query import Query
from intset.expr import ops
from intset.expr.node import Expr, Var
from intset.expr.walk import free_vars, opaque_terms
from intset.linear.form import Linear


def steps_of(query: Query, form: Linear) -> tuple[Linear, multistride.MultiStride] | None:
    """(what does not depend on relaxed variables, the steps of what does)."""
    fixed: dict[Expr, int] = {}
    base = form.const
    terms: list[multistride.Term] = []
    seen: set[Var] = set()
    for e, k in form.terms.items():
        own = [v for v in free_vars(e) if query.is_relaxed(v)]
        if not own and not _has_load(e):
            fixed[e] = k
            continue
        if any(v in seen for v in own):
            return None
        seen.update(own)
        steps = steps_of_atom(query, e)
        if steps is None:
            return None
        base += k * steps[0]
        terms.extend((k * s, extent) for s, extent in steps[1])
    return Linear(0, fixed), multistride.make(base, terms)


def _has_load(e: Expr) -> bool:
    return e.op is not ops.VAR and bool(opaque_terms(e))


def steps_of_atom(query: Query, e: Any) -> multistride.MultiStride | None:
    """The values of an atom, where structure shows that they are a multi-stride set."""
    if e.op is ops.VAR:
        limits = query.ranges[e].constant()
        if limits is None or e.declared()[2] != 1:
            return None
        low, high = query.known.atom_bounds(e)
        if low is None or high is None:
            return None
        return multistride.make(low, _run(1, high - low + 1))
    if e.op in (ops.FLOORDIV, ops.FLOORMOD) and e.args[1].op is ops.CONST and e.args[1].data > 0:
        inner = steps_of(query, query.known.form(e.args[0]))
        if inner is None or not inner[0].is_const:
            return None
        steps = multistride.translate(inner[1], inner[0].const)
        by = multistride.floordiv if e.op is ops.FLOORDIV else multistride.floormod
        return by(steps, e.args[1].data)
    return None


def _run(step: int, extent: int) -> Iterable[multistride.Term]:
    return ((step, extent),)
