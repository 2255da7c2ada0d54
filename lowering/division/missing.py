"""`missing_facts`: what would have to be known for a cheaper lowering, and how to say it."""

from __future__ import annotations

from typing import Any, NamedTuple

from intset.context import Context
from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var, constant_value
from intset.expr.ops import Op
from intset.expr.walk import free_vars
from intset.prover.explain import ways_to_state
from lowering.division.rules import Rule
from lowering.division.search import Key, Lowering, checked
from lowering.division.site import Fits, Need, Site


class MissingFact(NamedTuple):
    """A fact that nothing known implies.

    Attributes
    ----------
    fact: the condition.
    how: how to state it, in words.
    division: the division it is missing for, as it was written.
    rule: the rule that would apply if all facts missing for this division were known.
    saves: what that rule costs less, in units of `cost.py`.
    """

    fact: Cond
    how: str
    division: Node
    rule: str
    saves: int

    @property
    def ways(self) -> dict[str, str]:
        """How to state it in each of the ways there are, by name."""
        return ways_to_state(self.fact)

    def __str__(self) -> str:
        return f"{self.fact}: {self.how}"


def missing_facts(e: Any, ctx: Context | None = None, bits: int = 32) -> tuple[MissingFact, ...]:
    """The facts for want of which divisions of `e` are not lowered to their cheapest form.

    Parameters are as for `lower_division`. For each division the cheapest rule that could apply is taken, and what of
    its side condition is not proved; that something is not positive is asked for last, that a division leaves no
    remainder never. A condition on a compound expression is traced back to signs of variables where these are enough.

    >>> [str(m) for m in missing_facts(Var("i") % 5)]
    ["i >= 0: declare ShapeVar('i') or assume it"]
    """
    root, width = checked(e, bits)
    run = Lowering(ctx, root, width)
    found: dict[tuple[Cond, Node], MissingFact] = {}
    for key in run.reached(run.run()):
        for missing in _missing_for(run, key):
            found.setdefault((missing.fact, missing.division), missing)
    return tuple(found.values())


def _missing_for(run: Lowering, key: Key) -> list[MissingFact]:
    choice = run.choices.get(key)
    if choice is None:
        return []
    site = choice.site
    cheaper = [entry for entry in run.candidates(key, site.x, site.y) if entry[0] < choice.cost]
    for unusual in ((ops.LE, ops.LT, ops.EQ), (ops.EQ,)):  # that something is not positive is asked for last
        for price, _, rule, _ in cheaper:
            facts = _unproved(key, rule, site, unusual)
            if facts is not None:
                saves = choice.cost - price
                return [MissingFact(fact, how_to_state(fact), key[0], rule.name, saves) for fact in facts]
    return []


def _unproved(key: Key, rule: Rule, site: Site, unusual: tuple[Op, ...]) -> list[Cond] | None:
    """What is missing of the first alternative of the side condition that is not known to fail."""
    for need in rule.needs(site):
        facts = _unproved_of(key, need, unusual)
        if facts:
            return facts
    return None


def _unproved_of(key: Key, need: Need, unusual: tuple[Op, ...]) -> list[Cond] | None:
    node, scope, _ = key
    facts: dict[Cond, None] = {}
    for item in need:
        cond, ctx = (item.cond, scope.premised(node)) if isinstance(item, Fits) else (item, scope.ctx)
        if ctx.prove(cond):
            continue
        if ctx.prove(~cond) or (cond is item and cond.op in unusual):
            return None
        facts.update(dict.fromkeys(_signs(ctx, cond)))
    return None if any(_is_settled(scope.ctx, fact) for fact in facts) else list(facts)


def _is_settled(ctx: Context, fact: Cond) -> bool:
    """Whether the ranges of loops make a fact false at some point: then there is nothing to state."""
    ranges = ctx.ranges
    return all(var in ranges for var in free_vars(fact)) and ctx.prove(fact).status == "refuted"


def _signs(ctx: Context, cond: Cond) -> list[Cond]:
    """Signs of variables that imply `cond`, none of which can be left out; `cond` itself when they do not."""
    signs = [var >= 0 for var in free_vars(cond) if not ctx.prove(var >= 0)]
    together = ctx.extended(facts=signs).prove(cond) if signs else None
    if not together or together.vacuous:
        return [_tidy(ctx, cond)]
    for sign in tuple(signs):
        fewer = [other for other in signs if other is not sign]
        if ctx.extended(facts=fewer).prove(cond):
            signs = fewer
    return signs


def _tidy(ctx: Context, cond: Cond) -> Cond:
    simple: Cond = ctx.canonical(cond)
    return simple if simple.op in ops.COMPARISONS and simple.args[1].op is ops.CONST else cond


def how_to_state(fact: Cond) -> str:
    """How a user can make `fact` known."""
    if fact.op in (ops.GE, ops.LE):
        e, k = fact.args[0], constant_value(fact.args[1])
        if isinstance(e, Var) and k is not None:
            limit = f"upper={k}" if fact.op is ops.LE else f"lower={k}" if k else ""
            return f"declare ShapeVar({e.name!r}{', ' * bool(limit)}{limit}) or assume it"
        if isinstance(e, Expr) and k == 0 and fact.op is ops.GE:
            return f"write nonneg({e}) or assume it"
    return "assume it, or give its variables ranges that imply it"
