"""The table of division rules. The cheapest rule with a proved side condition is applied; of equals the first.

Names in the identities: a, b the operands; `/` and `rem` C's division and remainder; q = a / b, r = a rem b; `>>` the
arithmetic shift; w the width, s(e) = e >> (w-1), which is -1 where e < 0 and 0 elsewhere; m = 2^k - 1; MIN, MAX the
ends of the width.

Guarantee: an identity holds at every a, b in [MIN, MAX] with b != 0 that meet the side condition and whose result lies
in [MIN, MAX]; there no step leaves [MIN, MAX] or traps. `tests/lowering/division/test_rules.py` proves identities by
z3 over the integers, and both parts by trying all operands at 8 bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from intset.config import CACHED_ANSWERS
from intset.expr import Cond, Expr, Var, const, constant_value, ops
from intset.expr.build import select
from intset.expr.node import make
from intset.simplify.engine import machine_cost

# -- kinds of divisors ------------------------------------------------------------------------------------------


class Fits(NamedTuple):
    """A condition about the width, proved with the premise that inputs and subterms are representable."""

    cond: Cond


Need = tuple[Cond | Fits, ...]  # a conjunction to be proved
Needs = tuple[Need, ...]  # alternatives, any of which suffices
ALWAYS: Needs = ((),)


@dataclass(frozen=True, slots=True)
class Site:
    """One division `op(a, b)` at `bits` bits.

    Attributes
    ----------
    a, b: the operands as written; side conditions are proved of them.
    x, y: the lowered operands, from which rewrites are made. `x` equals `a`, `y` equals `b`.
    low: a constant lower bound of `a`; only some rules need one.
    """

    op: ops.Op
    a: Expr
    b: Expr
    x: Expr
    y: Expr
    bits: int
    low: int | None = None

    # -- the width ----------------------------------------------------------------------------------------------

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def most(self) -> int:
        return (1 << (self.bits - 1)) - 1

    @property
    def not_least(self) -> Fits:
        """a > MIN: so -a and a - 1 are representable."""
        return Fits(self.a > self.least)

    def at_most(self, e: Expr) -> Fits:
        return Fits(e <= self.most)

    def at_least(self, e: Expr) -> Fits:
        return Fits(e >= self.least)

    # -- the divisor --------------------------------------------------------------------------------------------

    @property
    def c(self) -> int:
        """The constant divisor; 0 if the divisor is no constant."""
        return constant_value(self.b) or 0

    @property
    def k(self) -> int:
        """The exponent k of a divisor 2^k or -2^k."""
        return abs(self.c).bit_length() - 1

    @property
    def mask(self) -> int:
        return abs(self.c) - 1

    @property
    def lift(self) -> int:
        """The smallest c >= 0 such that a + b*c >= 0, for a constant b > 0 and a known lower bound."""
        return 0 if self.low is None else max(0, -(self.low // self.c))

    # -- operations ---------------------------------------------------------------------------------------------

    @property
    def q(self) -> Expr:
        return truncdiv(self.x, self.y)

    @property
    def r(self) -> Expr:
        return truncmod(self.x, self.y)

    @property
    def rest(self) -> Expr:
        """`r` computed from `q`: r = a - q*b, and q*b lies between 0 and a, so neither step overflows."""
        return self.x - self.q * self.y

    def sign(self, e: Expr) -> Expr:
        """-1 where e < 0, else 0: an arithmetic shift."""
        return e >> (self.bits - 1)


def truncdiv(a: Expr, b: Expr) -> Expr:
    """C's quotient, also by the constant 0: a division that is never reached is kept."""
    answer: Expr = make(ops.TRUNCDIV, (a, b))
    return answer


def truncmod(a: Expr, b: Expr) -> Expr:
    """C's remainder, also by the constant 0."""
    answer: Expr = make(ops.TRUNCMOD, (a, b))
    return answer


def plus(e: Expr, amount: int | Expr) -> Expr:
    """`e + amount`, written without `+ -1` and `+ 0`."""
    amount = amount.data if isinstance(amount, Expr) and amount.op is ops.CONST else amount
    if isinstance(amount, Expr):
        return e + amount
    if e.op is ops.CONST:
        return const(e.data + amount)
    return e if amount == 0 else e + amount if amount > 0 else e - -amount


def every(s: Site) -> bool:
    return True


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


# -- side conditions --------------------------------------------------------------------------------------------


def always(s: Site) -> Needs:
    return ALWAYS


def not_least(s: Site) -> Needs:
    return ((s.not_least,),)


def dividend_nonneg(s: Site) -> Needs:
    return ((s.a >= 0,),)


def divisor_nonneg(s: Site) -> Needs:
    return ((s.b >= 0,),)


def divisor_nonpos(s: Site) -> Needs:
    return ((s.b <= 0,),)


def same_signs(s: Site) -> Needs:
    return ((s.a >= 0, s.b >= 0), (s.a <= 0, s.b <= 0), (_divides(s),))


def opposite_signs(s: Site) -> Needs:
    return ((s.a >= 0, s.b <= 0), (s.a <= 0, s.b >= 0), (_divides(s),))


def exact(s: Site) -> Needs:
    return ((_divides(s),),)


def wraps_once(s: Site) -> Needs:
    """0 <= a + b <= MAX, b >= 0."""
    return ((s.b >= 0, s.a + s.b >= 0, s.at_most(s.a + s.b)),)


def _divides(s: Site) -> Cond:
    divisible: Cond = make(ops.FLOORMOD, (s.a, s.b)).eq(0)
    return divisible


def _lifted(s: Site, extra: int) -> Needs:
    """a + K is representable and not negative, K = b*c + extra; K itself is representable."""
    offset = s.c * s.lift + extra
    return ((s.a >= -offset, s.at_most(s.a + offset), s.at_most(const(offset))),)


def _no_trap(s: Site, *others: Cond) -> Needs:
    """The processor defines a rem b: not MIN rem -1."""
    return ((*others, s.not_least), (*others, s.b <= -2))


# -- parts of rewrites ------------------------------------------------------------------------------------------


def _disagree(s: Site, r: Expr) -> Expr:
    """-1 where r and b are on opposite sides of 0, for r >= 0: only b < 0 < r."""
    return s.sign(s.y & -r)


def _opposed(s: Site, r: Expr) -> Cond:
    return ((r < 0) & (s.y > 0)) | ((r > 0) & (s.y < 0))


def _agreeing(s: Site, r: Expr) -> Cond:
    return ((r > 0) & (s.y > 0)) | ((r < 0) & (s.y < 0))


def _shift_and_carry(s: Site) -> Expr:
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


def _divisor_plus(s: Site, amount: int) -> Expr:
    return plus(s.y, amount) if s.c == 0 else const(s.c + amount)


# -- the table --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DivisionRule:
    """One way to compute `op(a, b)`.

    Attributes
    ----------
    name: its name in steps and explanations.
    op: the operation it lowers.
    rewrite: the machine operations.
    needs: the side condition: alternatives, each a conjunction to be proved.
    divisor: whether the rule is for this divisor.
    mates: whether the remainder of the same operands can use the quotient that the rewrite computes.
    """

    name: str
    op: ops.Op
    rewrite: Callable[[Site], Expr]
    needs: Callable[[Site], Needs] = always
    divisor: Callable[[Site], bool] = every
    mates: bool = False

    def cost(self, site: Site, paired: bool = False) -> int:
        """The cost of the rewrite beyond its operands.

        Parameters
        ----------
        paired: whether the program computes the remainder of the same operands, too. Rules with `mates` share their
            quotient with it, so `site.rest` is free; other rules pay for its separate division.
        """
        after = self.rewrite(site)
        operands = {site.x, site.y}
        if not paired or site.op not in (ops.FLOORDIV, ops.CEILDIV):
            return machine_cost(after, operands)
        if self.mates:
            return machine_cost(after, operands | {site.rest, site.rest.args[1]})
        shifts_only = site.c != 0 and site.c & -site.c == abs(site.c)
        return machine_cost(after, operands) + (0 if shifts_only else machine_cost(site.q, operands))


def prices(site: Site, paired: bool) -> Sequence[tuple[int, int]]:
    """The costs of the rules for this divisor, cheapest first, each with its number in the table.

    All variable dividends have one price under a constant divisor. Under a variable divisor, those without its
    variables have one price.
    """
    x, divisors = site.x, site.y.free_vars()
    if not x.is_const and (site.c or (divisors and set(divisors).isdisjoint(x.free_vars()))):
        return _prices_of_any(site.op, site.c, site.bits, site.low, paired)
    return _priced(site, paired)


@lru_cache(CACHED_ANSWERS)
def _prices_of_any(op: ops.Op, c: int, bits: int, low: int | None, paired: bool) -> Sequence[tuple[int, int]]:
    x, y = Var("x"), const(c) if c else Var("y")
    return _priced(Site(op, x, y, x, y, bits, low), paired)


def _priced(site: Site, paired: bool) -> Sequence[tuple[int, int]]:
    return sorted((rule.cost(site, paired), k) for k, rule in enumerate(RULES[site.op]) if rule.divisor(site))


R = DivisionRule
D, M, C, TD, TM = ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV, ops.TRUNCDIV, ops.TRUNCMOD

FLOORDIV_RULES: Final = (
    # a // 1 = a
    R("floordiv by 1", D, lambda s: s.x, divisor=one),
    # a // -1 = -a
    R("floordiv by -1", D, lambda s: -s.x, divisor=minus_one),
    # a // 2^k = a >> k
    R("floordiv shift", D, lambda s: s.x >> s.k, divisor=pow2),
    # a // -2^k = -a >> k                     where a > MIN
    R("floordiv negated shift", D, lambda s: -s.x >> s.k, not_least, neg_pow2),
    # a // -2^k = -ceil(a / 2^k)
    R("floordiv negated ceiling", D, lambda s: -_shift_and_carry(s), divisor=neg_pow2_inner),
    # a // b = a / b                          where a, b have one sign, or b divides a
    R("floordiv truncated", D, lambda s: s.q, same_signs, mates=True),
    # a // b = (a+1)/b - 1                    where a < 0 <= b
    R("floordiv of negative", D, lambda s: truncdiv(plus(s.x, 1), s.y) - 1, lambda s: ((s.a < 0, s.b >= 0),)),
    # a // b = (a-1)/b - 1                    where b <= 0 < a
    R("floordiv by negative", D, lambda s: truncdiv(plus(s.x, -1), s.y) - 1, lambda s: ((s.a > 0, s.b <= 0),)),
    # a // b = (a + (1-b)) / b                where a <= 0 <= b, a + 1 - b >= MIN
    R(
        "floordiv lowered", D, lambda s: truncdiv(plus(s.x, plus(-s.y, 1) if s.c == 0 else const(1 - s.c)), s.y),
        lambda s: ((s.a <= 0, s.b >= 0, s.at_least(s.a + 1 - s.b)),),
    ),
    # a // b = (a + b*c)/b - c                where 0 <= a + b*c <= MAX; b, c constants
    R(
        "floordiv shifted", D, lambda s: plus(truncdiv(plus(s.x, s.c * s.lift), s.y), -s.lift),
        lambda s: _lifted(s, 0), bounded_below, mates=True,
    ),
    # a // b = (a + b)/b - 1                  where 0 <= a + b <= MAX, b >= 0
    R("floordiv wrapped once", D, lambda s: truncdiv(plus(s.x, s.y), s.y) - 1, wraps_once, mates=True),
    # a // b = (a - s(a))/b + s(a)            where b >= 0
    R("floordiv folded", D, lambda s: _folded(s, -1, 1, False), divisor_nonneg),
    # a // b = (a + s(-a))/b + s(-a)          where b <= 0, a > MIN
    R(
        "floordiv folded, divisor <= 0", D, lambda s: _folded(s, 1, 1, True),
        lambda s: ((s.b <= 0, s.not_least),),
    ),
    # a // b = q + s(r)                       where b >= 0
    R("floordiv corrected", D, lambda s: s.q + s.sign(s.rest), divisor_nonneg, mates=True),
    # a // b = q + s(-r)                      where b <= 0
    R("floordiv corrected, divisor <= 0", D, lambda s: s.q + s.sign(-s.rest), divisor_nonpos, mates=True),
    # a // b = q + s(b & -r)                  where a >= 0
    R("floordiv corrected, dividend >= 0", D, lambda s: s.q + _disagree(s, s.rest), dividend_nonneg, mates=True),
    # a // b = q - 1 if r and b lie on opposite sides of 0 else q
    R("floordiv general", D, lambda s: select(_opposed(s, s.rest), s.q - 1, s.q), mates=True),
)  # fmt: skip

CEILDIV_RULES: Final = (
    # ceil(a / 1) = a
    R("ceildiv by 1", C, lambda s: s.x, divisor=one),
    # ceil(a / -1) = -a
    R("ceildiv by -1", C, lambda s: -s.x, divisor=minus_one),
    # ceil(a / 2^k) = (a + m) >> k            where a + m <= MAX
    R("ceildiv shift", C, lambda s: plus(s.x, s.mask) >> s.k, lambda s: ((s.at_most(s.a + s.mask),),), pow2),
    # ceil(a / 2^k) = ((a-1) >> k) + 1        where a > MIN
    R("ceildiv shift of one less", C, lambda s: (plus(s.x, -1) >> s.k) + 1, not_least, pow2),
    # ceil(a / 2^k) = (a >> k) + (((a & m) + m) >> k)
    R("ceildiv shift and carry", C, _shift_and_carry, divisor=pow2),
    # ceil(a / -2^k) = -(a >> k)
    R("ceildiv negated shift", C, lambda s: -(s.x >> s.k), divisor=neg_pow2),
    # ceil(a / b) = a / b                     where a, b have opposite signs, or b divides a
    R("ceildiv truncated", C, lambda s: s.q, opposite_signs, mates=True),
    # ceil(a / b) = (a + (b-1)) / b           where a, b >= 0, a + b - 1 <= MAX
    R(
        "ceildiv raised", C, lambda s: truncdiv(plus(s.x, _divisor_plus(s, -1)), s.y),
        lambda s: ((s.a >= 0, s.b >= 0, s.at_most(s.a + s.b - 1)),),
    ),
    # ceil(a / b) = (a + (b+1)) / b           where a, b <= 0, a + b + 1 >= MIN
    R(
        "ceildiv raised, both <= 0", C, lambda s: truncdiv(plus(s.x, _divisor_plus(s, 1)), s.y),
        lambda s: ((s.a <= 0, s.b <= 0, s.at_least(s.a + s.b + 1)),),
    ),
    # ceil(a / b) = (a-1)/b + 1               where a > 0, b >= 0
    R("ceildiv of positive", C, lambda s: truncdiv(plus(s.x, -1), s.y) + 1, lambda s: ((s.a > 0, s.b >= 0),)),
    # ceil(a / b) = (a+1)/b + 1               where a < 0, b <= 0
    R("ceildiv of negative", C, lambda s: truncdiv(plus(s.x, 1), s.y) + 1, lambda s: ((s.a < 0, s.b <= 0),)),
    # ceil(a / b) = (a + b*c + b-1)/b - c     where 0 <= a + b*c, a + b*c + b-1 <= MAX; b, c constants
    R(
        "ceildiv shifted", C, lambda s: plus(truncdiv(plus(s.x, s.c * s.lift + s.c - 1), s.y), -s.lift),
        lambda s: _lifted(s, s.c - 1), bounded_below,
    ),
    # ceil(a / b) = (a + s(-a))/b - s(-a)     where b >= 0, a > MIN
    R("ceildiv folded", C, lambda s: _folded(s, 1, -1, True), lambda s: ((s.b >= 0, s.not_least),)),
    # ceil(a / b) = (a - s(a))/b - s(a)       where b <= 0
    R("ceildiv folded, divisor <= 0", C, lambda s: _folded(s, -1, -1, False), divisor_nonpos),
    # ceil(a / b) = q - s(-r)                 where b >= 0
    R("ceildiv corrected", C, lambda s: s.q - s.sign(-s.rest), divisor_nonneg, mates=True),
    # ceil(a / b) = q - s(r)                  where b <= 0
    R("ceildiv corrected, divisor <= 0", C, lambda s: s.q - s.sign(s.rest), divisor_nonpos, mates=True),
    # ceil(a / b) = q + 1 if r and b lie on the same side of 0 else q
    R("ceildiv general", C, lambda s: select(_agreeing(s, s.rest), s.q + 1, s.q), mates=True),
)  # fmt: skip

FLOORMOD_RULES: Final = (
    # a % 1 = 0
    R("floormod by 1", M, lambda s: const(0), divisor=one),
    # a % -1 = 0
    R("floormod by -1", M, lambda s: const(0), divisor=minus_one),
    # a % 2^k = a & m
    R("floormod mask", M, lambda s: s.x & s.mask, divisor=pow2),
    # a % -2^k = -(-a & m)
    R("floormod negated mask", M, lambda s: -(-(s.x & s.mask) & s.mask), divisor=neg_pow2),
    # a % b = 0                               where b divides a
    R("floormod exact", M, lambda s: const(0), exact),
    # a % b = r                               where a, b have one sign, not MIN rem -1
    R(
        "floormod truncated", M, lambda s: s.r,
        lambda s: ((s.a >= 0, s.b >= 0), *_no_trap(s, s.a <= 0, s.b <= 0)),
    ),
    # a % b = (a + b*c) rem b                 where 0 <= a + b*c <= MAX; b, c constants
    R(
        "floormod shifted", M, lambda s: truncmod(plus(s.x, s.c * s.lift), s.y),
        lambda s: _lifted(s, 0), bounded_below,
    ),
    # a % b = (a + b) rem b                   where 0 <= a + b <= MAX, b >= 0
    R("floormod wrapped once", M, lambda s: truncmod(plus(s.x, s.y), s.y), wraps_once),
    # a % b = r + (b & s(r))                  where b >= 0
    R("floormod corrected", M, lambda s: s.r + (s.y & s.sign(s.r)), divisor_nonneg),
    # a % b = r + (b & s(-r))                 where b <= 0, not MIN rem -1
    R(
        "floormod corrected, divisor <= 0", M, lambda s: s.r + (s.y & s.sign(-s.r)),
        lambda s: _no_trap(s, s.b <= 0),
    ),
    # a % b = r + (b & s(b & -r))             where a >= 0
    R("floormod corrected, dividend >= 0", M, lambda s: s.r + (s.y & _disagree(s, s.r)), dividend_nonneg),
    # a % b = r + b if r and b lie on opposite sides of 0 else r; not MIN rem -1
    R("floormod general", M, lambda s: _remainder(s, s.y), lambda s: ((s.not_least,), (s.b.ne(-1),))),
    # a % b = the same with the divisor 1 where b = -1: both remainders are 0
    R("floormod guarded", M, lambda s: _remainder(s, _never_minus_one(s))),
)  # fmt: skip

TRUNCDIV_RULES: Final = (
    # a / 1 = a
    R("truncdiv by 1", TD, lambda s: s.x, divisor=one),
    # a / -1 = -a
    R("truncdiv by -1", TD, lambda s: -s.x, divisor=minus_one),
    # a / 2^k = a >> k                        where a >= 0
    R("truncdiv shift", TD, lambda s: s.x >> s.k, dividend_nonneg, pow2),
    R("truncdiv kept", TD, lambda s: s.q),
)

TRUNCMOD_RULES: Final = (
    # a rem 1 = 0
    R("truncmod by 1", TM, lambda s: const(0), divisor=one),
    # a rem -1 = 0
    R("truncmod by -1", TM, lambda s: const(0), divisor=minus_one),
    # a rem 2^k = a & m                       where a >= 0
    R("truncmod mask", TM, lambda s: s.x & s.mask, dividend_nonneg, pow2),
    R("truncmod kept", TM, lambda s: s.r),
)

RULES: Final[dict[ops.Op, tuple[DivisionRule, ...]]] = {
    D: FLOORDIV_RULES,
    C: CEILDIV_RULES,
    M: FLOORMOD_RULES,
    TD: TRUNCDIV_RULES,
    TM: TRUNCMOD_RULES,
}


# -- rules for a division whose user does not see the correction -------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperandRule:
    """`outer(op(a, b), k)` may use `rewrite` for `op(a, b)`; k is any expression."""

    name: str
    outer: ops.Op
    op: ops.Op
    rewrite: Callable[[Site], Expr]
    needs: Callable[[Site, Expr], Needs]


def _zero(s: Site, k: Expr) -> Needs:
    return ((k.eq(0),),)


def _zero_no_trap(s: Site, k: Expr) -> Needs:
    return tuple((k.eq(0), *need) for need in ((s.not_least,), (s.b.ne(-1),)))


def _guarded(s: Site) -> Expr:
    return truncmod(s.x, _never_minus_one(s))


OPERAND_RULES: Final = (
    # max(a // b, k) = max(a / b, k)          where k >= 0
    OperandRule("maximum of floordiv", ops.MAX, D, lambda s: s.q, lambda s, k: ((k >= 0,),)),
    # min(ceil(a / b), k) = min(a / b, k)     where k <= 0
    OperandRule("minimum of ceildiv", ops.MIN, C, lambda s: s.q, lambda s, k: ((k <= 0,),)),
    # a % b == 0 is r == 0                    not MIN rem -1
    OperandRule("floormod equal to 0", ops.EQ, M, lambda s: s.r, _zero_no_trap),
    OperandRule("floormod unequal to 0", ops.NE, M, lambda s: s.r, _zero_no_trap),
    # the same with the divisor 1 where b = -1
    OperandRule("floormod equal to 0, guarded", ops.EQ, M, _guarded, _zero),
    OperandRule("floormod unequal to 0, guarded", ops.NE, M, _guarded, _zero),
)
