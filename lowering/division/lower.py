"""`lower_division` and its answer; the facts that a cheaper lowering lacks, and how to state them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, NamedTuple, overload

from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.expr import ops
from intset.expr.arguments import of_kind
from intset.expr.dag import free_vars
from intset.expr.node import Cond, Expr, IntLike, Kind_co, Node, Var, constant_value
from intset.expr.ops import Op
from intset.prover.explain import ways_to_state
from intset.prover.proof import Proof
from intset.simplify.cost import machine_cost
from lowering.division.rules import DivisionRule
from lowering.division.search import DivisionLowering, Key, LoweringStep, checked
from lowering.division.site import Fits, Need, Site


@all_as_configured
class Lowered(Configured, Generic[Kind_co]):
    """The result of `lower_division`.

    Guarantee: at every point of the context at which the expression has a value and each of its evaluated subterms is
    representable in `bits` signed bits, `evaluate(expr, point, bits=bits)` gives that value. So no step overflows or
    traps there; that includes `MIN % -1`, which is 0. (`MIN // -1` is not representable, so such points are excluded.)

    Attributes
    ----------
    expr: the lowered expression, without assertions.
    steps: the rewrites, operands first.
    bits: the width.
    asked: the expression as written, and its context.
    """

    def __init__(
        self,
        expr: Kind_co,
        steps: tuple[LoweringStep, ...],
        bits: int,
        divisors: tuple[tuple[Proof, Cond], ...],
        asked: tuple[Node, Context | None],
    ) -> None:
        self.expr: Kind_co = expr
        self.steps, self.bits = steps, bits
        self.asked = asked
        self._divisors = divisors

    @cached_property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions: divisors not proved to be nonzero, and assumed facts that proofs used."""
        conditions: dict[Cond, None] = {}
        for proof, nonzero in self._divisors:
            conditions.update(dict.fromkeys(proof.requires if proof else (nonzero,)))
        for step in self.steps:
            conditions.update(dict.fromkeys(step.proof.requires))
        return tuple(conditions)

    @property
    def cost(self) -> int:
        """The machine cost of the expression."""
        return machine_cost(self.expr)

    @cached_property
    def missing(self) -> tuple[MissingFact, ...]:
        """The facts that cheaper forms lack, and how to state them."""
        return missing_facts(*self.asked, self.bits)

    def explain(self) -> str:
        """The steps with their reasons, the side conditions, and the facts that cheaper forms lack."""
        lines = [f"{self.asked[0]} becomes {self.expr} at {self.bits} bits."]
        lines += [f"{step!r}" for step in self.steps]
        lines += [f"It requires {cond}." for cond in self.requires]
        named: set[Cond] = set()
        for missing in self.missing:
            line = f"For {missing.rule} of {missing.division}, {missing.fact} is missing"
            if missing.fact in named:
                lines.append(f"{line}, as above.")
                continue
            named.add(missing.fact)
            lines += [f"{line}. To state it:", *(f"  {name}: {way}" for name, way in missing.ways.items())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Lowered at {self.bits} bits: {self.expr}>"


@overload
def lower_division(e: Cond, ctx: Context | None = None, bits: int = 32) -> Lowered[Cond]: ...
@overload
def lower_division(e: IntLike, ctx: Context | None = None, bits: int = 32) -> Lowered[Expr]: ...
def lower_division(e: IntLike | Cond, ctx: Context | None = None, bits: int = 32) -> Lowered[Cond] | Lowered[Expr]:
    """Lower every floor and ceiling division and remainder of `e` to C operations of `bits` bits.

    Each division becomes the cheapest form, by `intset.simplify.cost.MACHINE_COST`, whose side condition is proved.

    Parameters
    ----------
    e: the expression, or a condition. Facts of its variables (`ShapeVar`, the range of an `IterVar`) and embedded facts
        (`nonneg`, `bounded`, `asserting`) need no context.
    ctx: further ranges and facts. A branch of `select`, `&` or `|` may use its condition.
    bits: the width of the machine operations, at least 2.

    Raises
    ------
    InputError: `e` is not an expression; `bits` is less than 2.

    Example
    -------
    >>> from intset import Range, ShapeVar, Var
    >>> i, n = Var("i"), ShapeVar("n")
    >>> lower_division(i % n, Context({i: Range(0, n * n)})).expr
    truncmod(i, n)
    """
    root, width = checked(e, bits)
    if ctx is not None:
        ctx = of_kind(Context, ctx, "ctx").extended()  # a copy: `missing` may be asked after the caller's blocks end
    result = DivisionLowering(ctx, root, width).result()
    return Lowered(result.expr, result.steps, width, result.divisors, (root, ctx))


# -- missing facts ---------------------------------------------------------------------------------------------


class MissingFact(NamedTuple):
    """A fact that a cheaper lowering of a division needs and nothing known implies.

    Attributes
    ----------
    fact: the condition.
    how: how to state it, in words.
    division: the division, as written.
    rule: the rule that applies once all missing facts of this division are known.
    saves: the difference in machine cost.
    """

    fact: Cond
    how: str
    division: Node
    rule: str
    saves: int

    @property
    def ways(self) -> dict[str, str]:
        """The ways to state it, by name."""
        return ways_to_state(self.fact)

    def __str__(self) -> str:
        return f"{self.fact}: {self.how}"


def missing_facts(e: Any, ctx: Context | None = None, bits: int = 32) -> tuple[MissingFact, ...]:
    """The unproved side conditions of the cheapest rule that could apply to each division of `e`.

    Parameters are those of `lower_division`. Rules that need nonpositive operands are tried last; rules for exact
    divisions are not. A condition on a compound expression becomes signs of its variables where these imply it.

    >>> [str(m) for m in missing_facts(Var("i") % 5)]
    ["i >= 0: declare ShapeVar('i') or assume it"]
    """
    root, width = checked(e, bits)
    run = DivisionLowering(ctx, root, width)
    facts: dict[tuple[Cond, Node], MissingFact] = {}
    for key in run.reached(run.run()):
        for missing in _missing_for(run, key):
            facts.setdefault((missing.fact, missing.division), missing)
    return tuple(facts.values())


def _missing_for(run: DivisionLowering, key: Key) -> list[MissingFact]:
    lowered = run.sites.get(key)
    if lowered is None:
        return []
    site = lowered.site
    cheaper = [entry for entry in run.candidates(key, site.x, site.y) if entry[0] < lowered.cost]
    for unusual in ((ops.LE, ops.LT, ops.EQ), (ops.EQ,)):
        for price, _, rule, _ in cheaper:
            facts = _unproved(key, rule, site, unusual)
            if facts is not None:
                saves = lowered.cost - price
                return [MissingFact(fact, how_to_state(fact), key[0], rule.name, saves) for fact in facts]
    return []


def _unproved(key: Key, rule: DivisionRule, site: Site, unusual: tuple[Op, ...]) -> list[Cond] | None:
    """The missing facts of the first alternative of the side condition that is not known to fail."""
    return next(filter(None, (_unproved_of(key, need, unusual) for need in rule.needs(site))), None)


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
    """Whether the ranges of loop variables refute a fact, so no user can state it."""
    ranges = ctx.ranges
    return all(var in ranges for var in free_vars(fact)) and ctx.prove(fact).status == "refuted"


def _signs(ctx: Context, cond: Cond) -> list[Cond]:
    """A minimal set of signs of variables that implies `cond`; `cond` itself if all signs do not."""
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
    """The words that tell a user how to state a fact."""
    if fact.op in (ops.GE, ops.LE):
        e, k = fact.args[0], constant_value(fact.args[1])
        if isinstance(e, Var) and k is not None:
            limit = f"upper={k}" if fact.op is ops.LE else f"lower={k}" if k else ""
            return f"declare ShapeVar({e.name!r}{', ' * bool(limit)}{limit}) or assume it"
        if isinstance(e, Expr) and k == 0 and fact.op is ops.GE:
            return f"write nonneg({e}) or assume it"
    return "assume it, or give its variables ranges that imply it"
