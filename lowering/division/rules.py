"""The table of rules. The cheapest one whose side condition is proved is applied; of equally cheap ones the first.

Names in the identities: a, b the operands; `/` and `rem` C's division and remainder; q = a / b, r = a rem b; `>>` the
arithmetic shift; w the width, s(e) = e >> (w-1), which is -1 where e < 0 and 0 elsewhere; m = 2^k - 1; MIN, MAX the
ends of the width. Every identity holds at every a, b in [MIN, MAX] with b != 0 that meet the side condition and whose
result lies in [MIN, MAX], and there no step leaves [MIN, MAX] or traps: `tests/lowering/division/test_rules.py` proves
the first by z3 over the integers and both by trying all operands at 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from intset.expr import ops
from intset.expr.build import select
from intset.expr.node import Cond, Expr, const, make
from intset.expr.ops import Op
from intset.simplify.cost import machine_cost
from lowering.division.site import ALWAYS, Need, Needs, Site, plus, truncdiv, truncmod


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to compute `op(a, b)`.

    Attributes
    ----------
    name: what steps and explanations call it.
    op: the operation it lowers.
    divisor: the divisors it is for.
    needs: the side condition: alternatives, each a tuple of conditions to be proved.
    rewrite: the machine operations.
    mates: the remainder of the same operands can use the quotient that the rewrite computes.
    """

    name: str
    op: Op
    divisor: Callable[[Site], bool]
    needs: Callable[[Site], Needs]
    rewrite: Callable[[Site], Expr]
    mates: bool = False

    def cost(self, site: Site, paired: bool = False) -> int:
        """What the rewrite costs beyond its operands.

        `paired`: the remainder of the same operands is computed too, so `site.rest` is there for a rule that `mates`,
        and another rule is charged the division that the remainder then needs for itself.
        """
        after = self.rewrite(site)
        operands = {site.x, site.y}
        if not paired or site.op not in (ops.FLOORDIV, ops.CEILDIV):
            return machine_cost(after, operands)
        if self.mates:
            return machine_cost(after, operands | {site.rest, site.rest.args[1]})
        shifts_only = site.c != 0 and site.c & -site.c == abs(site.c)
        return machine_cost(after, operands) + (0 if shifts_only else machine_cost(site.q, operands))


# -- kinds of divisors ------------------------------------------------------------------------------------------


def one(s: Site) -> bool:
    return s.c == 1


def minus_one(s: Site) -> bool:
    return s.c == -1


def pow2(s: Site) -> bool:
    return 1 < s.c <= s.most and s.c & s.c - 1 == 0


def neg_pow2(s: Site) -> bool:
    return s.least <= s.c < -1 and -s.c & -s.c - 1 == 0


def neg_pow2_inner(s: Site) -> bool:
    return neg_pow2(s) and s.c > s.least


def bounded_below(s: Site) -> bool:
    return s.c > 1 and s.low is not None and s.low < 0


def every(s: Site) -> bool:
    return True


# -- side conditions --------------------------------------------------------------------------------------------


def always(s: Site) -> Needs:
    return ALWAYS


def not_least(s: Site) -> Needs:
    return ((s.not_least,),)


def _lifted(s: Site, extra: int) -> Need:
    """a + K is representable and not negative, K = b*c + extra; K itself is representable."""
    offset = s.c * s.lift + extra
    return (s.a >= -offset, s.at_most(s.a + offset), s.at_most(const(offset)))


def _same_signs(s: Site) -> Needs:
    return ((s.a >= 0, s.b >= 0), (s.a <= 0, s.b <= 0), (_exact(s),))


def _opposite_signs(s: Site) -> Needs:
    return ((s.a >= 0, s.b <= 0), (s.a <= 0, s.b >= 0), (_exact(s),))


def _exact(s: Site) -> Cond:
    divisible: Cond = make(ops.FLOORMOD, (s.a, s.b)).eq(0)
    return divisible


def _no_trap(s: Site, *others: Cond) -> Needs:
    """a rem b is defined by the hardware: not MIN rem -1."""
    return ((*others, s.not_least), (*others, s.b <= -2))


# -- the branch-free corrections --------------------------------------------------------------------------------


def _disagree(s: Site, r: Expr) -> Expr:
    """-1 where r and b are on opposite sides of 0, for r >= 0: only b < 0 < r."""
    return s.sign(s.y & -r)


def _opposed(s: Site, r: Expr) -> Cond:
    return ((r < 0) & (s.y > 0)) | ((r > 0) & (s.y < 0))


def _alike(s: Site, r: Expr) -> Cond:
    return ((r > 0) & (s.y > 0)) | ((r < 0) & (s.y < 0))


def _carried(s: Site) -> Expr:
    """ceil(a / 2^k) without overflow: the shift, and 1 where any bit is lost."""
    return (s.x >> s.k) + (((s.x & s.mask) + s.mask) >> s.k)


def _folded(s: Site, into: int, out: int, negated: bool) -> Expr:
    t = s.sign(-s.x) if negated else s.sign(s.x)
    dividend = s.x + t if into > 0 else s.x - t
    return truncdiv(dividend, s.y) + t if out > 0 else truncdiv(dividend, s.y) - t


def _remainder(s: Site, divisor: Expr) -> Expr:
    r = truncmod(s.x, divisor)
    return select(_opposed(s, r), r + s.y, r)


def _never_minus_one(s: Site) -> Expr:
    return select(s.y.eq(-1), const(1), s.y)


def _below(s: Site) -> Expr:
    """1 - b, for the dividend of a quotient that is rounded down."""
    return plus(-s.y, 1) if s.c == 0 else const(1 - s.c)


def _up(s: Site, amount: int) -> Expr:
    return plus(s.y, amount) if s.c == 0 else const(s.c + amount)


def _plus(x: Expr, e: Expr) -> Expr:
    return plus(x, e.data) if e.op is ops.CONST else x + e


D, M, C = ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV
TD, TM = ops.TRUNCDIV, ops.TRUNCMOD

FLOORDIV_RULES: Final = (
    Rule("floordiv by 1", D, one, always, lambda s: s.x),  # a // 1 = a
    Rule("floordiv by -1", D, minus_one, always, lambda s: -s.x),  # a // -1 = -a
    Rule("floordiv shift", D, pow2, always, lambda s: s.x >> s.k),  # a // 2^k = a >> k
    Rule("floordiv negated shift", D, neg_pow2, not_least, lambda s: -s.x >> s.k),  # a // -2^k = -a >> k; a > MIN
    # a // -2^k = -ceil(a / 2^k)
    Rule("floordiv negated ceiling", D, neg_pow2_inner, always, lambda s: -_carried(s)),
    # a // b = a / b                          where a, b have one sign, or b divides a
    Rule("floordiv truncated", D, every, _same_signs, lambda s: s.q, mates=True),
    # a // b = (a+1)/b - 1                    where a < 0 <= b
    Rule("floordiv of negative", D, every, lambda s: ((s.a < 0, s.b >= 0),), lambda s: truncdiv(plus(s.x, 1), s.y) - 1),
    # a // b = (a-1)/b - 1                    where b <= 0 < a
    Rule(
        "floordiv by negative", D, every, lambda s: ((s.a > 0, s.b <= 0),), lambda s: truncdiv(plus(s.x, -1), s.y) - 1
    ),
    # a // b = (a + (1-b)) / b                where a <= 0 <= b, a + 1 - b >= MIN
    Rule(
        "floordiv lowered",
        D,
        every,
        lambda s: ((s.a <= 0, s.b >= 0, s.at_least(s.a + 1 - s.b)),),
        lambda s: truncdiv(_plus(s.x, _below(s)), s.y),
    ),
    # a // b = (a + b*c)/b - c                where 0 <= a + b*c <= MAX; b, c constants
    Rule(
        "floordiv shifted",
        D,
        bounded_below,
        lambda s: (_lifted(s, 0),),
        lambda s: plus(truncdiv(plus(s.x, s.c * s.lift), s.y), -s.lift),
        mates=True,
    ),
    # a // b = (a + b)/b - 1                  where 0 <= a + b <= MAX, b >= 0
    Rule(
        "floordiv wrapped once",
        D,
        every,
        lambda s: ((s.b >= 0, s.a + s.b >= 0, s.at_most(s.a + s.b)),),
        lambda s: truncdiv(_plus(s.x, s.y), s.y) - 1,
        mates=True,
    ),
    # a // b = (a - s(a))/b + s(a)            where b >= 0
    Rule("floordiv folded", D, every, lambda s: ((s.b >= 0,),), lambda s: _folded(s, -1, 1, False)),
    # a // b = (a + s(-a))/b + s(-a)          where b <= 0, a > MIN
    Rule(
        "floordiv folded, divisor <= 0",
        D,
        every,
        lambda s: ((s.b <= 0, s.not_least),),
        lambda s: _folded(s, 1, 1, True),
    ),
    # a // b = q + s(r)                       where b >= 0
    Rule("floordiv corrected", D, every, lambda s: ((s.b >= 0,),), lambda s: s.q + s.sign(s.rest), mates=True),
    # a // b = q + s(-r)                      where b <= 0
    Rule(
        "floordiv corrected, divisor <= 0",
        D,
        every,
        lambda s: ((s.b <= 0,),),
        lambda s: s.q + s.sign(-s.rest),
        mates=True,
    ),
    # a // b = q + s(b & -r)                  where a >= 0
    Rule(
        "floordiv corrected, dividend >= 0",
        D,
        every,
        lambda s: ((s.a >= 0,),),
        lambda s: s.q + _disagree(s, s.rest),
        mates=True,
    ),
    # a // b = q - 1 if r and b lie on opposite sides of 0 else q
    Rule("floordiv general", D, every, always, lambda s: select(_opposed(s, s.rest), s.q - 1, s.q), mates=True),
)

CEILDIV_RULES: Final = (
    Rule("ceildiv by 1", C, one, always, lambda s: s.x),  # ceil(a / 1) = a
    Rule("ceildiv by -1", C, minus_one, always, lambda s: -s.x),  # ceil(a / -1) = -a
    # ceil(a / 2^k) = (a + m) >> k            where a + m <= MAX
    Rule("ceildiv shift", C, pow2, lambda s: ((s.at_most(s.a + s.mask),),), lambda s: plus(s.x, s.mask) >> s.k),
    # ceil(a / 2^k) = ((a-1) >> k) + 1        where a > MIN
    Rule("ceildiv shift of one less", C, pow2, not_least, lambda s: (plus(s.x, -1) >> s.k) + 1),
    # ceil(a / 2^k) = (a >> k) + (((a & m) + m) >> k)
    Rule("ceildiv shift and carry", C, pow2, always, _carried),
    Rule("ceildiv negated shift", C, neg_pow2, always, lambda s: -(s.x >> s.k)),  # ceil(a / -2^k) = -(a >> k)
    # ceil(a / b) = a / b                     where a, b have opposite signs, or b divides a
    Rule("ceildiv truncated", C, every, _opposite_signs, lambda s: s.q, mates=True),
    # ceil(a / b) = (a + (b-1)) / b           where a, b >= 0, a + b - 1 <= MAX
    Rule(
        "ceildiv raised",
        C,
        every,
        lambda s: ((s.a >= 0, s.b >= 0, s.at_most(s.a + s.b - 1)),),
        lambda s: truncdiv(_plus(s.x, _up(s, -1)), s.y),
    ),
    # ceil(a / b) = (a + (b+1)) / b           where a, b <= 0, a + b + 1 >= MIN
    Rule(
        "ceildiv raised, both <= 0",
        C,
        every,
        lambda s: ((s.a <= 0, s.b <= 0, s.at_least(s.a + s.b + 1)),),
        lambda s: truncdiv(_plus(s.x, _up(s, 1)), s.y),
    ),
    # ceil(a / b) = (a-1)/b + 1               where a > 0, b >= 0
    Rule("ceildiv of positive", C, every, lambda s: ((s.a > 0, s.b >= 0),), lambda s: truncdiv(plus(s.x, -1), s.y) + 1),
    # ceil(a / b) = (a+1)/b + 1               where a < 0, b <= 0
    Rule("ceildiv of negative", C, every, lambda s: ((s.a < 0, s.b <= 0),), lambda s: truncdiv(plus(s.x, 1), s.y) + 1),
    # ceil(a / b) = (a + b*c + b-1)/b - c     where 0 <= a + b*c, a + b*c + b-1 <= MAX; b, c constants
    Rule(
        "ceildiv shifted",
        C,
        bounded_below,
        lambda s: (_lifted(s, s.c - 1),),
        lambda s: plus(truncdiv(plus(s.x, s.c * s.lift + s.c - 1), s.y), -s.lift),
    ),
    # ceil(a / b) = (a + s(-a))/b - s(-a)     where b >= 0, a > MIN
    Rule("ceildiv folded", C, every, lambda s: ((s.b >= 0, s.not_least),), lambda s: _folded(s, 1, -1, True)),
    # ceil(a / b) = (a - s(a))/b - s(a)       where b <= 0
    Rule("ceildiv folded, divisor <= 0", C, every, lambda s: ((s.b <= 0,),), lambda s: _folded(s, -1, -1, False)),
    # ceil(a / b) = q - s(-r)                 where b >= 0
    Rule("ceildiv corrected", C, every, lambda s: ((s.b >= 0,),), lambda s: s.q - s.sign(-s.rest), mates=True),
    # ceil(a / b) = q - s(r)                  where b <= 0
    Rule(
        "ceildiv corrected, divisor <= 0",
        C,
        every,
        lambda s: ((s.b <= 0,),),
        lambda s: s.q - s.sign(s.rest),
        mates=True,
    ),
    # ceil(a / b) = q + 1 if r and b lie on the same side of 0 else q
    Rule("ceildiv general", C, every, always, lambda s: select(_alike(s, s.rest), s.q + 1, s.q), mates=True),
)

FLOORMOD_RULES: Final = (
    Rule("floormod by 1", M, one, always, lambda s: const(0)),  # a % 1 = 0
    Rule("floormod by -1", M, minus_one, always, lambda s: const(0)),  # a % -1 = 0
    Rule("floormod mask", M, pow2, always, lambda s: s.x & s.mask),  # a % 2^k = a & m
    Rule("floormod negated mask", M, neg_pow2, always, lambda s: -(-(s.x & s.mask) & s.mask)),  # a % -2^k = -(-a & m)
    Rule("floormod exact", M, every, lambda s: ((_exact(s),),), lambda s: const(0)),  # a % b = 0; b divides a
    # a % b = r                               where a, b have one sign, not MIN rem -1
    Rule(
        "floormod truncated",
        M,
        every,
        lambda s: ((s.a >= 0, s.b >= 0), *_no_trap(s, s.a <= 0, s.b <= 0)),
        lambda s: s.r,
    ),
    # a % b = (a + b*c) rem b                 where 0 <= a + b*c <= MAX; b, c constants
    Rule(
        "floormod shifted",
        M,
        bounded_below,
        lambda s: (_lifted(s, 0),),
        lambda s: truncmod(plus(s.x, s.c * s.lift), s.y),
    ),
    # a % b = (a + b) rem b                   where 0 <= a + b <= MAX, b >= 0
    Rule(
        "floormod wrapped once",
        M,
        every,
        lambda s: ((s.b >= 0, s.a + s.b >= 0, s.at_most(s.a + s.b)),),
        lambda s: truncmod(_plus(s.x, s.y), s.y),
    ),
    # a % b = r + (b & s(r))                  where b >= 0
    Rule("floormod corrected", M, every, lambda s: ((s.b >= 0,),), lambda s: s.r + (s.y & s.sign(s.r))),
    # a % b = r + (b & s(-r))                 where b <= 0, not MIN rem -1
    Rule(
        "floormod corrected, divisor <= 0",
        M,
        every,
        lambda s: _no_trap(s, s.b <= 0),
        lambda s: s.r + (s.y & s.sign(-s.r)),
    ),
    # a % b = r + (b & s(b & -r))             where a >= 0
    Rule(
        "floormod corrected, dividend >= 0",
        M,
        every,
        lambda s: ((s.a >= 0,),),
        lambda s: s.r + (s.y & _disagree(s, s.r)),
    ),
    # a % b = r + b if r and b lie on opposite sides of 0 else r; not MIN rem -1
    Rule("floormod general", M, every, lambda s: ((s.not_least,), (s.b.ne(-1),)), lambda s: _remainder(s, s.y)),
    # a % b = the same with the divisor 1 where b = -1: both remainders are 0
    Rule("floormod guarded", M, every, always, lambda s: _remainder(s, _never_minus_one(s))),
)

TRUNCDIV_RULES: Final = (
    Rule("truncdiv by 1", TD, one, always, lambda s: s.x),  # a / 1 = a
    Rule("truncdiv by -1", TD, minus_one, always, lambda s: -s.x),  # a / -1 = -a
    Rule("truncdiv shift", TD, pow2, lambda s: ((s.a >= 0,),), lambda s: s.x >> s.k),  # a / 2^k = a >> k; a >= 0
    Rule("truncdiv kept", TD, every, always, lambda s: s.q),  # C's own
)

TRUNCMOD_RULES: Final = (
    Rule("truncmod by 1", TM, one, always, lambda s: const(0)),  # a rem 1 = 0
    Rule("truncmod by -1", TM, minus_one, always, lambda s: const(0)),  # a rem -1 = 0
    Rule("truncmod mask", TM, pow2, lambda s: ((s.a >= 0,),), lambda s: s.x & s.mask),  # a rem 2^k = a & m; a >= 0
    Rule("truncmod kept", TM, every, always, lambda s: s.r),  # C's own
)

RULES: Final[dict[Op, tuple[Rule, ...]]] = {
    D: FLOORDIV_RULES,
    C: CEILDIV_RULES,
    M: FLOORMOD_RULES,
    TD: TRUNCDIV_RULES,
    TM: TRUNCMOD_RULES,
}


# -- rules for a division inside an operation that does not see the correction -----------------------------------


@dataclass(frozen=True, slots=True)
class Within:
    """`outer(op(a, b), k)`, k a constant or an expression, may use `rewrite` in place of `op(a, b)`."""

    name: str
    outer: Op
    op: Op
    needs: Callable[[Site, Expr], Needs]
    rewrite: Callable[[Site], Expr]


def _zero_no_trap(s: Site, k: Expr) -> Needs:
    return tuple((k.eq(0), *need) for need in ((s.not_least,), (s.b.ne(-1),)))


def _zero(s: Site, k: Expr) -> Needs:
    return ((k.eq(0),),)


def _guarded(s: Site) -> Expr:
    return truncmod(s.x, _never_minus_one(s))


WITHIN: Final = (
    Within(
        "maximum of floordiv", ops.MAX, D, lambda s, k: ((k >= 0,),), lambda s: s.q
    ),  # max(a//b, k) = max(a/b, k); k >= 0
    Within(
        "minimum of ceildiv", ops.MIN, C, lambda s, k: ((k <= 0,),), lambda s: s.q
    ),  # min(ceil(a/b), k) = min(a/b, k); k <= 0
    Within("floormod equal to 0", ops.EQ, M, _zero_no_trap, lambda s: s.r),  # a % b == 0 is r == 0; not MIN rem -1
    Within("floormod unequal to 0", ops.NE, M, _zero_no_trap, lambda s: s.r),  # a % b != 0 is r != 0; not MIN rem -1
    Within("floormod equal to 0, guarded", ops.EQ, M, _zero, _guarded),  # the same with the divisor 1 where b = -1
    Within("floormod unequal to 0, guarded", ops.NE, M, _zero, _guarded),  # the same with the divisor 1 where b = -1
)
