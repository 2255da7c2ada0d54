"""Strength reduction of `x // n` and `x % n` in a loop that changes x by a constant amount.

The loop carries the quotient and the remainder from one iteration to the next and needs no division:

    q' = q + 1, r' = 0        if r == n - 1        else  q' = q, r' = r + 1            step 1
    q' = q - 1, r' = n - 1    if r == 0            else  q' = q, r' = r - 1            step -1
    q' = q + dq + 1, r' = r - (n - dr)   if r >= n - dr   else  q' = q + dq, r' = r + dr

with dq = step // n and dr = step % n, computed once. From 0 <= r < n and 0 <= dr < n follows 0 <= r' < n, and every
step lies in [-n, n], so nothing but the quotient can overflow, and the quotient only where `x // n` itself would.
(Cooper, Simpson and Vick, "Operator strength reduction", TOPLAS 2001, for the general technique.)
"""

from __future__ import annotations

from dataclasses import dataclass

from intset.context import Context
from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import floordiv, floormod, logical_and, select
from intset.expr.dag import free_vars
from intset.expr.node import Cond, Expr, Node, Var, const, constant_value
from intset.expr.printer import shown
from intset.expr.range import Range
from intset.prover.proof import Proof
from lowering.division.rules import plus


@dataclass(frozen=True, slots=True, eq=False)
class CarriedDivision:
    """A quotient and a remainder that a loop carries.

    Protocol: assign `first_quotient` and `first_remainder` before the loop, and simultaneously `next_quotient` and
    `next_remainder` *between* two iterations.

    Guarantee: every iteration with a nonzero divisor sees `dividend // divisor` and `dividend % divisor`. The update
    does not overflow at widths that represent dividend, quotient and remainder in every iteration.

    Attributes
    ----------
    dividend, divisor: the operands; the divisor is a loop invariant and never negative.
    quotient, remainder: the carried variables.
    first_quotient, first_remainder: their values in the first iteration, free of the loop variable. Their floor
        divisions are defined even where the divisor is 0 or the loop does not run.
    next_quotient, next_remainder: their values in the next iteration, over both and loop invariants.
    invariants: further variables, to be computed once before the loop.
    update_after_last: the proof that the update does not overflow after the last iteration either.
    proof: that the divisor is not negative.
    """

    dividend: Expr
    divisor: Expr
    quotient: Var
    remainder: Var
    first_quotient: Expr
    first_remainder: Expr
    next_quotient: Expr
    next_remainder: Expr
    invariants: dict[Var, Expr]
    update_after_last: Proof
    proof: Proof

    @property
    def replacements(self) -> dict[Expr, Expr]:
        """The variables that replace the two divisions in the loop."""
        return {
            floordiv(self.dividend, self.divisor): self.quotient,
            floormod(self.dividend, self.divisor): self.remainder,
        }

    @property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions of the proof: assumed facts among them."""
        return self.proof.requires


def induction(e: Expr, var: Var, limits: Range, ctx: Context | None = None, bits: int = 32) -> CarriedDivision | None:
    """The quotient and remainder that a loop over `var` carries for the division `e`; `None` if it cannot.

    Parameters
    ----------
    e: `x // n` or `x % n`, x affine in `var` with a loop-invariant coefficient, n invariant and proved not negative.
    var: the loop variable; it grows by 1.
    limits: its range, with a finite first value.
    ctx: ranges and facts outside of the loop.
    bits: the width of `update_after_last`.

    Raises
    ------
    InputError: `e` is neither a floor division nor its remainder.
    """
    if e.op not in (ops.FLOORDIV, ops.FLOORMOD):
        raise InputError(f"induction takes x // n or x % n, not {shown(e)}")
    x, n = e.args
    outer = Context() if ctx is None else ctx
    first, extent = limits.min, limits.extent
    if not isinstance(first, Expr) or not isinstance(extent, Expr) or any(_varies(e, var) for e in (n, first, extent)):
        return None
    runs = extent >= 1
    inner = outer.extended(ranges={var: limits}, facts=[runs])
    step = inner.canonical(x.substitute({var: var + 1}) - x)
    proof = inner.prove(n >= 0)
    if not proof or _varies(step, var):
        return None
    unsafe = [cond for cond in dict.fromkeys((runs, n >= 1)) if not outer.prove(cond)]
    invariants: dict[Var, Expr] = {}

    def outside(value: Expr) -> Expr:
        """`value` computed before the loop; 0 for an empty loop or a zero divisor."""
        simple = outer.canonical(value)
        if not simple.args:
            answer: Expr = simple
            return answer
        return select(logical_and(*unsafe), value, 0) if unsafe else value

    def invariant(name: str, value: Expr) -> Expr:
        value = outside(value)
        if not value.args:
            return value
        fresh = Var(name)
        invariants[fresh] = value
        return fresh

    q, r = Var("q"), Var("r")
    amount = constant_value(step)
    parts: tuple[Cond, Expr, Expr, Expr, Expr]
    if amount == 1:
        parts = (r.eq(plus(n, -1)), q + 1, const(0), q, r + 1)
    elif amount == -1:
        parts = (r.eq(0), q - 1, plus(n, -1), q, r - 1)
    else:
        dq, dr = invariant("dq", step // n), invariant("dr", step % n)
        left = plus(n, -dr.data) if dr.op is ops.CONST else n - dr
        parts = (r >= left, q + plus(dq, 1), r - left, plus(q, dq), plus(r, dr))
    wraps, up, over, stay, back = parts
    start = outer.canonical(x.substitute({var: first}))
    return CarriedDivision(
        x,
        n,
        q,
        r,
        outside(start // n),
        outside(start % n),
        select(wraps, up, stay),
        select(wraps, over, back),
        invariants,
        _update_after_last(outer, x, n, var, limits, bits),
        proof,
    )


def _update_after_last(outer: Context, x: Expr, n: Expr, var: Var, limits: Range, bits: int) -> Proof:
    """The proof that x is representable one iteration after the last if x and its inputs are in all iterations."""
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert isinstance(limits.min, Expr) and isinstance(limits.extent, Expr)
    end = outer.canonical(limits.min + limits.extent)
    after, last = (outer.canonical(x.substitute({var: value})) for value in (end, end - 1))
    inputs = dict.fromkeys((limits.extent, outer.canonical(end - 1), last, *free_vars(x, limits.extent, limits.min)))
    facts = [limit for e in inputs if e is not var and not e.is_const for limit in (e >= least, e <= most)]
    ctx = outer.extended(facts=[limits.extent >= 1, n >= 1, *facts])
    return ctx.prove((after >= least) & (after <= most))


def _varies(e: Node, var: Var) -> bool:
    return var in free_vars(e)
