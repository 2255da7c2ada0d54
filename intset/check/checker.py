"""`check_certificate`: is a certificate well formed, is it about this context, does its evidence hold?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from intset.check.budget import CheckBudget
from intset.check.isl_text import check_isl
from intset.check.linear import check_linear
from intset.check.points import check_point, check_points
from intset.check.smt_text import check_z3
from intset.check.wellformed import is_well_formed
from intset.errors import BudgetError
from intset.expr.arguments import refusal
from intset.expr.definedness import asserted_parts
from intset.facts import ASSERTED

if TYPE_CHECKING:
    from intset.check.certificate import Certificate
    from intset.check.ends import Stated
    from intset.context import Context

_CHECKS: Mapping[str, Callable[[Certificate, CheckBudget], bool]] = {
    "linear": check_linear,
    "isl": check_isl,
    "points": check_points,
    "z3": check_z3,
    "point": check_point,
}


def check_certificate(
    cert: Certificate, ctx: Context | Stated | None = None, budget: CheckBudget | None = None
) -> bool:
    """Whether a certificate is right; with `ctx`, also whether what it states is stated by the context.

    Of a goal that holds, facts and ranges must be some of the context's. Where it fails, they must be all of them: a
    point outside a range that was left out refutes nothing. What cannot be checked within the budget is not right;
    `budget.is_spent` tells it from what is wrong.
    """
    if not hasattr(cert, "combinations"):
        raise refusal("what is checked", "a Certificate", cert)
    checked_context(ctx)
    if not is_well_formed(cert):
        return False
    budget = CheckBudget() if budget is None else budget
    try:
        return (ctx is None or belongs(cert, ctx)) and _CHECKS[cert.kind](cert, budget)
    except BudgetError:
        budget.is_spent = True
        return False


def checked_context(ctx: object) -> None:
    """Refuse what has no ranges and facts to compare with."""
    if ctx is not None and not (hasattr(ctx, "ranges") and hasattr(ctx, "facts")):
        raise refusal("ctx", "a Context", ctx)


def belongs(cert: Certificate, ctx: Context | Stated) -> bool:
    """Whether the ranges and facts of the certificate are those of the context, or asserted by the goal itself."""
    ranges, facts = ctx.ranges, set(ctx.facts)
    stated = tuple(fact.condition for fact in facts)
    evaluated = stated if cert.vacuous else (cert.goal, *stated)
    asserted = asserted_parts(evaluated)
    if not all(fact in facts or (fact.provenance == ASSERTED and fact.condition in asserted) for fact in cert.facts):
        return False
    if not all(ranges.get(var) == limits for var, limits in cert.ranges):
        return False
    return cert.kind != "point" or (facts <= set(cert.facts) and len(cert.ranges) == len(ranges))
