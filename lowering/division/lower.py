"""`lower_division`: an expression whose divisions are machine operations, each by the cheapest rule that is proved."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.expr.arguments import of_kind
from intset.expr.node import Cond, Node
from intset.prover.proof import Proof
from intset.simplify.cost import machine_cost
from lowering.division.missing import MissingFact, missing_facts
from lowering.division.search import Lowering, Step, checked


@all_as_configured
class Lowered(Configured):
    """The answer of `lower_division`.

    Guarantee: at every point of the context at which the expression has a value and each of its evaluated subterms is
    representable in `bits` signed bits, `evaluate(expr, point, bits=bits)` gives that value. So no step overflows or
    traps there; that includes `MIN % -1`, which is 0. (`MIN // -1` is not representable, so such points are excluded.)

    Attributes
    ----------
    expr: the lowered expression; assertions are taken out of it.
    steps: what was done, operands first.
    bits: the width.
    asked: the expression, and the context it was lowered in.
    """

    def __init__(
        self,
        expr: Any,
        steps: tuple[Step, ...],
        bits: int,
        divisors: tuple[tuple[Proof, Cond], ...],
        asked: tuple[Node, Context | None],
    ) -> None:
        self.expr, self.steps, self.bits = expr, steps, bits
        self.asked = asked
        self._divisors = divisors

    @cached_property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions: divisors that are not known to differ from 0, and the facts used that were only assumed."""
        found: dict[Cond, None] = {}
        for proof, nonzero in self._divisors:
            found.update(dict.fromkeys(proof.requires if proof else (nonzero,)))
        for step in self.steps:
            found.update(dict.fromkeys(step.proof.requires))
        return tuple(found)

    @property
    def cost(self) -> int:
        """What the expression costs, by the cost model."""
        return machine_cost(self.expr)

    @cached_property
    def missing(self) -> tuple[MissingFact, ...]:
        """The facts for want of which divisions are not lowered to their cheapest form, and how to state them."""
        return missing_facts(*self.asked, self.bits)

    def explain(self) -> str:
        """What was done and why, what it rests on, and what is missing for a cheaper form."""
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


def lower_division(e: Any, ctx: Context | None = None, bits: int = 32) -> Lowered:
    """`e` with every floor and ceiling division and remainder as C operations of `bits` bits.

    Parameters
    ----------
    e: the expression, or a condition. Facts that its variables carry (`ShapeVar`, an `IterVar`'s range) and that are
        embedded in it (`nonneg`, `bounded`, `asserting`) are used without a context as well.
    ctx: what else is known. A branch of `select`, `&` or `|` may use its condition.
    bits: the width of the machine operations, at least 2.

    Every division becomes the cheapest form, by `intset.simplify.cost.MACHINE_COST`, whose side condition is proved.

    Raises
    ------
    InputError: `e` is no expression, or `bits` is less than 2.

    Example
    -------
    >>> from intset import Range, ShapeVar, Var
    >>> i, n = Var("i"), ShapeVar("n")
    >>> lower_division(i % n, Context({i: Range(0, n * n)})).expr
    truncmod(i, n)
    """
    root, width = checked(e, bits)
    if ctx is not None:
        ctx = of_kind(Context, ctx, "ctx").extended()  # of its own: `missing` is found after the caller's blocks end
    found = Lowering(ctx, root, width).result()
    return Lowered(found.expr, found.steps, width, found.divisors, (root, ctx))
