"""Random contexts with expressions and conditions, and all their points: one generator for the tests of `intset`.

`contexts(...)` is a Hypothesis strategy, which shrinks; `Drawn(seed, ...)` draws the same by a number, and
`Expressions` draws over given variables. `world(...)` enumerates a context that a test writes down. In every choice the
simplest alternative comes first, so that shrinking drops operations, facts and sizes.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from intset import (
    POS_INF,
    Cond,
    Context,
    ContradictionWarning,
    Expr,
    Opaque,
    Range,
    ShapeVar,
    Var,
    asserting,
    bounded,
    cast,
    ceildiv,
    const,
    evaluate,
    maximum,
    minimum,
    nonneg,
    select,
    truncdiv,
    truncmod,
)
from intset.errors import EvaluationError
from intset.expr.evaluate import compiled, value_or_none
from intset.testing import Setting
from tests.strategies.schedules import chance

WINDOW = range(-9, 13)  # where open ends are cut
AFFINE = "sums sums multiples"
PRESBURGER = f"{AFFINE} quotients quotients choices choices"
NONLINEAR = f"{PRESBURGER} products divisors"
PARTIAL = "sums sums quotients divisors divisors choices claims"
EVERY = f"{NONLINEAR} sums bits shifts casts"
TABLE = Opaque("table", rank=1, lower=-2, upper=2)


def element(index: int) -> int:
    """The element of `TABLE` at an index; the table ends before 5, as a tensor does."""
    if not -4 <= index <= 4:
        raise EvaluationError(f"no element {index}")
    return (index * 7) % 5 - 2


def value(e: Any, point: Mapping[Any, Any]) -> Any:
    """The value at a point; `None` where there is none."""
    return value_or_none(evaluate, e, point)


@st.composite
def contexts(draw: st.DrawFn, **options: Any) -> Drawn:
    """Contexts with the options of `Drawn`."""
    return Drawn(draw(st.randoms(use_true_random=False)), **options)


class Expressions:
    """Draws integers and conditions over given leaves.

    Parameters
    ----------
    kinds: kinds of operations, separated by blanks, a kind that is named twice is drawn twice as often: `sums`,
        `multiples` (by a number or a size), `products`, `quotients` (by a number), `divisors` (by an expression or a
        size), `choices` (minimum, maximum, abs, select), `bits`, `shifts`, `casts`, `claims` (nonneg, bounded,
        asserting), `loads` (elements of `TABLE`).
    sizes: what else may stand in factors and divisors.
    shared: percentage of operands that are parts drawn before.
    """

    def __init__(
        self,
        rng: random.Random,
        leaves: Sequence[Expr],
        kinds: str = PRESBURGER,
        sizes: Sequence[Expr] = (),
        shared: int = 0,
        constants: Sequence[int] = (0, 1, 2, -1, 3, -2, 4, 5, -3),
        divisors: Sequence[int] = (2, 3, 4, 5, 8, -2, -3),
    ) -> None:
        self.rng, self.leaves, self.kinds, self.shared = rng, list(leaves), kinds.split(), shared
        self.constants, self.divisors = constants, divisors
        self.sizes = [*sizes, *(f for n in sizes for f in (n + 1, -n, n * 2, n - 1))]
        self.made: list[Expr] = []
        self.conditions: list[Cond] = []

    def constant(self) -> Expr:
        return const(self.rng.choice(self.constants))

    def leaf(self) -> Expr:
        return self.constant() if chance(self.rng, 25) else self.rng.choice(self.leaves)

    def integer(self, depth: int) -> Expr:
        if self.made and chance(self.rng, self.shared):
            return self.rng.choice(self.made)
        if depth <= 0 or chance(self.rng, 15):
            return self.leaf()
        self.made.append(getattr(self, f"_{self.rng.choice(self.kinds)}")(depth - 1))
        return self.made[-1]

    def sum(self, depth: int, most: int = 3) -> Expr:
        """A sum of up to `most` terms with factors."""
        total = self.integer(depth)
        for _ in range(self.rng.randrange(most)):
            total = total + self.integer(depth) * self.rng.choice((1, 1, -1, 2, *self.sizes[:1]))
        return total

    def condition(self, depth: int) -> Cond:
        if self.conditions and chance(self.rng, self.shared):
            return self.rng.choice(self.conditions)
        rng = self.rng
        if depth <= 0 or not chance(rng, 40):
            a, b, c = self.integer(depth), self.integer(rng.choice((0, depth - 1))), rng.choice((2, 3, 4))
            found = rng.choice(
                (a < b, a <= b, a >= b, a > b, a.eq(b), a.ne(b), (a % c).eq(rng.randrange(c)), (a + b) % c <= 1)
            )
        else:
            p, q = self.condition(depth - 1), self.condition(depth - 1)
            found = rng.choice((p & q, p & q, p | q, p | q, ~(p & q), (p & q) | (~p & self.condition(depth - 1))))
        self.conditions.append(found)
        return found

    def goal(self, e: Expr) -> Cond:
        """A claim about an expression, most often a bound by a number or a size."""
        end = self.rng.choice((*map(const, range(-3, 9)), *self.sizes))
        return self.rng.choice((e <= end, e >= end - 4, e.ne(end)))

    def _sums(self, depth: int) -> Expr:
        a, b, k = self.integer(depth), self.integer(self.rng.randint(0, depth)), self.constant()
        return self.rng.choice((a + b, a + b, a - b, a + k, k - a, -a))

    def _multiples(self, depth: int) -> Expr:
        a, b, k = self.integer(depth), self.leaf(), self.rng.choice((2, 3, -1, 4, -2, *self.sizes))
        return self.rng.choice((a * k, a * k + b))

    def _products(self, depth: int) -> Expr:
        a, b = self.integer(depth), self.integer(self.rng.randint(0, depth))
        return self.rng.choice((a * b, a * a, a * (b - 1)))

    def _quotients(self, depth: int) -> Expr:
        rng, a, b = self.rng, self.integer(depth), self.leaf()
        c, d = rng.choice(self.divisors), rng.choice((2, 3))
        return rng.choice(
            (
                lambda: a // c, lambda: a % c, lambda: (a + b) // c, lambda: (a + b) % c, lambda: a // c * c,
                lambda: a - a // c * c, lambda: a % (c * d) // c, lambda: a % (c * d) % c, lambda: (a * c + b) // c,
                lambda: (a * c + b) % d, lambda: ceildiv(a, c), lambda: truncdiv(a, c), lambda: truncmod(a, c),
            )
        )()  # fmt: skip

    def _divisors(self, depth: int) -> Expr:
        rng, a = self.rng, self.integer(depth)
        d = rng.choice(self.sizes) if self.sizes and chance(rng, 60) else self.integer(rng.randint(0, depth))
        if d is const(0):
            return a
        found = rng.choice((a.__floordiv__, a.__mod__))(d)
        odd = rng.choice((truncdiv, truncmod, ceildiv))(a, d)
        return rng.choice((found, found, odd, select(d.ne(0), found, self.leaf()), found * 0))

    def _choices(self, depth: int) -> Expr:
        rng, a, b, k = self.rng, self.integer(depth), self.integer(self.rng.randint(0, depth)), self.constant()
        return rng.choice(
            (
                lambda: minimum(a, b), lambda: maximum(a, b), lambda: minimum(a, k), lambda: maximum(a, k),
                lambda: abs(a), lambda: abs(a - b), lambda: select(self.condition(depth), a, b),
                lambda: select(self.condition(depth), a, k), lambda: minimum(a, b) - maximum(a, b),
            )
        )()  # fmt: skip

    def _bits(self, depth: int) -> Expr:
        a, b, m = self.integer(depth), self.integer(0), self.rng.choice((1, 3, 6, -2, -4))
        return self.rng.choice((a & m, a | m, a ^ m, a & b, a | b, a ^ b, ~a))

    def _shifts(self, depth: int) -> Expr:
        a, b, k = self.integer(depth), self.integer(0), self.rng.choice((1, 2, 0))
        return self.rng.choice((a << k, a >> k, a << maximum(b, 0), a >> abs(b)))

    def _casts(self, depth: int) -> Expr:
        return cast(self.integer(depth), self.rng.choice((3, 8, 2)), self.rng.choice((True, False)))

    def _claims(self, depth: int) -> Expr:
        a = self.integer(depth)
        return self.rng.choice(
            (lambda: nonneg(a), lambda: bounded(a, -1, 4), lambda: asserting(self.condition(depth), a))
        )()

    def _loads(self, depth: int) -> Expr:
        return TABLE[self.integer(depth)]


class Drawn:
    """A context, and expressions over its variables.

    Parameters
    ----------
    rng: makes every choice; a number is a seed.
    kinds, shared: as for `Expressions`.
    ranges: what ranges are, separated by blanks: `box` (constant ends), `empty` (constant, maybe without a value),
        `dependent` (on outer variables), `sized` (in terms of sizes), `divided` (the last value is undefined at some
        sizes), `shifted` (the first is), `open` (without an end or two).
    variables: the largest number of variables.
    sizes: the number of sizes, plain and declared ones.
    facts, kept: percentages: of a fact, twice; of a variable that is kept.
    stated: whether ranges are stated as facts, in one of several spellings, instead.
    depth: nesting of the expressions; facts have one level less.
    exprs: how many expressions, of one coordinate each.

    Attributes
    ----------
    ctx: the context; exprs, goals: what to ask of it; setting: the same table with all points and windows of sizes.
    """

    def __init__(
        self,
        rng: random.Random | int | str,
        kinds: str = PRESBURGER,
        ranges: str = "box",
        variables: int = 2,
        sizes: int = 0,
        facts: int = 30,
        kept: int = 0,
        depth: int = 2,
        exprs: int = 1,
        shared: int = 0,
        stated: bool = False,
    ) -> None:
        self.rng = rng = rng if isinstance(rng, random.Random) else random.Random(rng)
        self.sizes = [self._size(name) for name in "nm"[:sizes]]
        self.ranges: dict[Var, Range] = {}
        for name in "ijkl"[: rng.randint(1, variables)]:
            self.ranges[Var(name)] = getattr(self, f"_{rng.choice(ranges.split())}")()
        variables_ = list(self.ranges)
        self.expressions = Expressions(rng, [*variables_, *variables_, *self.sizes], kinds, self.sizes, shared)
        self.facts = [self.expressions.condition(depth - 1) for _ in range(2) if chance(rng, facts)]
        self.exprs = tuple(self.expressions.sum(depth, 2) for _ in range(exprs))
        self.goals = [*map(self.expressions.goal, self.exprs), self.expressions.condition(depth)]
        self.keep = tuple(v for v in variables_ if chance(rng, kept))
        self.window = range(-10, 24) if stated else WINDOW  # all that the ranges may have been
        for var in variables_ if stated else ():
            self.facts += self._stated(var, self.ranges.pop(var))
            self.ranges[var] = Range.everything()
        rng.shuffle(self.facts)

    @property
    def setting(self) -> Setting:
        return world(self.ranges, self.facts, self.sizes, self.keep, self.exprs, self.goals, self.window)

    @property
    def ctx(self) -> Context:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictionWarning)  # facts are drawn, and may exclude every point
            return Context(self.ranges, assume=self.facts)

    def points(self) -> Iterator[dict[Any, Any]]:
        """All points, with `TABLE`."""
        setting = world(self.ranges, [], self.sizes)
        for point in itertools.chain(*setting.points.values()):
            at = {TABLE: element, **dict(zip(setting.everything, point, strict=True))}
            if all(value(fact, at) is True for fact in self.facts):
                yield at

    def __repr__(self) -> str:
        return f"{self.setting.text()}; goals {self.goals}"

    def _stated(self, var: Var, limits: Range) -> list[Cond]:
        low, end = const(0) + limits.min, const(1) + limits.max
        first = (var >= low, low <= var, var > low - 1, 2 * var - 2 * low >= -1)
        last = (var < end, end > var, var + 1 <= end, end - var > 0, -var > -end, ~(var >= end))
        found = [self.rng.choice(first), self.rng.choice(last)]
        return [found[0] & found[1]] if chance(self.rng, 20) else found

    def _size(self, name: str) -> Var:
        rng, lower = self.rng, self.rng.choice((1, 0, 2))
        declared = ShapeVar(name, lower=lower, upper=rng.choice((None, lower + 4)))
        return rng.choice((declared, declared, Var(name)))

    def _low(self) -> int:
        return self.rng.choice((0, 0, 0, 1, -1, -3, 2))

    def _box(self) -> Range:
        return Range(self._low(), self.rng.randint(1, 6))

    def _empty(self) -> Range:
        return Range(self._low(), self.rng.randint(0, 4))

    def _open(self) -> Range:
        return self.rng.choice((Range(self._low(), POS_INF), Range.everything(), Range.up_to(const(self._low() + 4))))

    def _sized(self) -> Range:
        rng = self.rng
        if not self.sizes:
            return self._box()
        n, m, k = rng.choice(self.sizes), rng.choice(self.sizes), rng.randint(-2, 3)
        ends: tuple[Any, ...] = (
            n, n, n + k, n * 2, 4 - n if m is n else m - n + 3, minimum(n, 3), n // 2, maximum(n, k),
        )  # fmt: skip
        return Range(rng.choice((0, 0, self._low(), n, 1 - m)), rng.choice(ends))

    def _divided(self) -> Range:
        rng = self.rng
        if not self.sizes:
            return self._box()
        n, m = rng.choice(self.sizes), rng.choice(self.sizes)
        ends = (6 // n, m // n, select(n.ne(0), 6 // n, 2), minimum(4, 7 // (n - m + 1)), select(n >= 2, 3, 1))
        return Range(self._low(), rng.choice(ends))

    def _shifted(self) -> Range:
        return Range(6 // self.rng.choice(self.sizes) - 2, 2) if self.sizes else self._box()

    def _dependent(self) -> Range:
        rng = self.rng
        if not self.ranges:
            return self._sized()
        other, k = rng.choice(list(self.ranges)), rng.randint(-3, 3)
        more = rng.choice([*self.ranges, *self.sizes])
        ends = (
            other + k, 4 - other, minimum(other, k + 2), maximum(other, k) - 1, more - other, other * 2 - k, other // 2,
            other % 3 + 1, abs(other) - 1,
        )  # fmt: skip
        return rng.choice(
            (
                Range(0, other + 1),
                Range(0, rng.choice(ends)),
                Range(rng.choice((other, -other, other + k, other // 2)), rng.randint(1, 4)),
                Range(rng.choice((self._low(), other)), rng.choice(ends) - k),
            )
        )


# -- points ------------------------------------------------------------------------------------------------------------


def world(
    ranges: Mapping[Var, Range],
    facts: Iterable[Cond] = (),
    sizes: Iterable[Var] = (),
    keep: Iterable[Var] = (),
    exprs: Iterable[Expr] = (),
    goals: Iterable[Cond] = (),
    window: range = WINDOW,
) -> Setting:
    """A context that is written down, with all its points, by what ranges, declarations and facts mean.

    Open ends, and sizes without declared ends, are cut: ends to `window`, sizes to 7 values.
    """
    windows = {
        v: _declared(v, range(-2, 6) if v.declared()[0] is None else range(v.declared()[0], 99))[:7] for v in sizes
    }
    setting = Setting(0, windows, dict(ranges), list(facts), tuple(keep), tuple(exprs), list(goals))  # type: ignore[arg-type]
    order, rows = [*windows], list(itertools.product(*windows.values()))
    left = dict(ranges)
    while left:
        var = next(v for v, r in left.items() if not left.keys() & r.free_vars())
        limits = left.pop(var)
        ends = [compiled(e, order) if isinstance(e, Expr) else None for e in (limits.min, limits.max)]
        rows = [
            (*row, x)
            for row in rows
            for x in _declared(var, _between([end and value_or_none(end, *row) for end in ends], ends, window))
        ]
        order.append(var)
    guards = [compiled(fact, order) for fact in setting.facts]
    shown, kept = ([order.index(v) for v in some] for some in (setting.everything, setting.params))
    for row in rows:
        if all(value_or_none(guard, *row) is True for guard in guards):
            setting.points.setdefault(tuple(row[k] for k in kept), []).append(tuple(row[k] for k in shown))
    return setting


def _between(ends: Sequence[int | None], stated: Sequence[object], window: range) -> range:
    """The values between two ends; none where a stated end is undefined."""
    if any(end is None and there is not None for end, there in zip(ends, stated, strict=True)):
        return range(0)
    low, high = ends
    return range(window[0] if low is None else low, (window[-1] if high is None else high) + 1)


def _declared(var: Var, values: range) -> list[int]:
    low, high, step = var.declared()
    return [x for x in values if (low is None or x >= low) and (high is None or x <= high) and x % step == 0]
