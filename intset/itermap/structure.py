"""Split-and-fuse structure: index expressions as digits of fused variables, and the inverse map.

A *mark* is a number that runs through an interval: a variable or a fused variable (a positional sum of digits), plus
an offset. A *digit* of a mark is `mark // lower % extent`. A map has structure if each index is a positional sum of
digits and every mark is split into digits exactly once and completely. Then decoding reads digits off the new indices
from highest to lowest, and marks from digits, down to the variables. Compare `DetectIterMap` in TVM's arith (2020),
which has neither reversed digits nor gaps nor offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from intset.errors import BudgetError
from intset.expr import Cond, Expr, Var, as_expr, constant_value, dag, ops
from intset.expr.build import ceildiv

if TYPE_CHECKING:
    from intset.context import Context

INDEX_TERMS: Final = 32  # terms of one index
INDEX_NODES: Final = 2_000  # nodes of the index expressions together

Scalar: TypeAlias = "int | Expr"


class Scalars:
    """Arithmetic on sizes under a context. Guarantee: predicates answer True only if proved."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def short(self, x: Scalar) -> Scalar:
        """The number, as an `int` if constant."""
        if isinstance(x, int):
            return x
        value = constant_value(x)
        if value is not None:
            return value
        simple = self.ctx.canonical(x)
        value = constant_value(simple)
        return simple if value is None else value

    def plus(self, a: Scalar, b: Scalar) -> Scalar:
        return self.short(a + b)

    def times(self, a: Scalar, b: Scalar) -> Scalar:
        return self.short(a * b)

    def ceil(self, a: Scalar, b: Scalar) -> Scalar:
        return -(-a // b) if isinstance(a, int) and isinstance(b, int) else self.short(ceildiv(a, b))

    def ratio(self, a: Scalar, b: Scalar) -> Scalar | None:
        """The exact quotient `a / b`; `None` if divisibility is not proved."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b if a % b == 0 else None
        if self.same(a, 0):
            return 0
        quotient = self.short(as_expr(a) // b)
        return quotient if self.same(self.times(quotient, b), a) else None

    def same(self, a: Scalar, b: Scalar) -> bool:
        return self.short(a - b) == 0 if not isinstance(a, int) or not isinstance(b, int) else a == b

    def at_least(self, a: Scalar, b: Scalar) -> bool:
        """Whether `a >= b` is proved."""
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        gap = self.short(a - b)
        return gap >= 0 if isinstance(gap, int) else bool(self.ctx.prove(gap >= 0))

    def sign(self, a: Scalar) -> int:
        """1 or -1 if the number is proved positive or negative, else 0."""
        return 1 if self.at_least(a, 1) else -1 if self.at_least(-1, a) else 0


Interval = tuple[Scalar, Scalar]  # first, extent


class NoStructureError(BudgetError):
    """The indices have no split-and-fuse structure; the message gives the reason."""


class Mark:
    """The values `source + offset` of a source that runs through `[0, extent)`."""

    __slots__ = ("extent", "offset", "source")

    def __init__(self, source: Var | PositionalSum, extent: Scalar, offset: Scalar) -> None:
        self.source, self.extent, self.offset = source, extent, offset


class Digit(NamedTuple):
    """`mark // lower % extent`; the highest digit of a mark includes its last value."""

    mark: Mark
    lower: Scalar
    extent: Scalar


class ScaledDigit(NamedTuple):
    """A digit in a sum, times a positive `scale`; if `is_reversed`, the summand is `extent - 1 - digit`."""

    digit: Digit
    scale: Scalar
    is_reversed: bool


class PositionalSum(NamedTuple):
    """A sum of digits without overlap, lowest first, with values in `[base, base + span)`."""

    base: Scalar
    steps: tuple[ScaledDigit, ...]
    span: Scalar


class DigitSum(NamedTuple):
    """`base` plus digits times factors."""

    base: Scalar
    terms: dict[Digit, Scalar]


class Structure:
    """The digits of index expressions.

    Parameters
    ----------
    exprs: the indices.
    box: first value and extent of each variable; all extents are at least 1.
    scalars: arithmetic on sizes.
    whole: whether to fuse a dividend as a whole instead of first splitting off its multiples of the divisor.
    step: modulus of offsets; 0 for the first divisor of each source.

    Raises
    ------
    NoStructureError: no structure was found within the budget.
    """

    def __init__(
        self, exprs: Sequence[Expr], box: Mapping[Var, Interval], scalars: Scalars, whole: bool, step: int
    ) -> None:
        self.box, self.scalars, self._whole, self._step = box, scalars, whole, step
        self._marks: dict[object, Mark] = {}
        self._offsets: dict[object, Scalar] = {}  # of each source
        self._sums: dict[Expr, DigitSum] = {}
        for number, node in enumerate(dag.postorder(exprs)):
            if number > INDEX_NODES:
                raise NoStructureError("the indices are too long")
            if isinstance(node, Expr):
                self._sums[node] = self._sum(node)
        self.stacks = [self._stacked(self._sums[e]) for e in exprs]
        self.marks = self._used()  # a mark before the marks in its source

    # -- reading ------------------------------------------------------------------------------------------------

    def _sum(self, e: Expr) -> DigitSum:
        if not any(v in self.box for v in e.free_vars()):
            return DigitSum(self.scalars.short(e), {})
        if isinstance(e, Var):
            low, extent = self.box[e]
            if extent == 1:
                return DigitSum(low, {})
            return DigitSum(low, {Digit(self._mark(e, extent, 0), 1, extent): 1})
        args = [self._sums[arg] for arg in e.args if isinstance(arg, Expr)]
        if len(args) < len(e.args):
            raise NoStructureError(f"{e.op.name} is no sum of digits")
        if e.op is ops.ADD or e.op is ops.SUB:
            return self._plus(args[0], args[1], 1 if e.op is ops.ADD else -1)
        if e.op is ops.NEG:
            return self._plus(DigitSum(0, {}), args[0], -1)
        if e.op is ops.MUL and any(not arg.terms for arg in args):
            scaled, factor = (args[0], args[1].base) if not args[1].terms else (args[1], args[0].base)
            return self._plus(DigitSum(0, {}), scaled, factor)
        if e.op is ops.FLOORDIV or e.op is ops.FLOORMOD:
            if not args[1].terms and self.scalars.sign(args[1].base) > 0:
                return self._divided(args[0], args[1].base, e.op)
            raise NoStructureError(f"the divisor of {e} is not known to be a number above 0")
        raise NoStructureError(f"{e} is no sum of digits")

    def _plus(self, a: DigitSum, b: DigitSum, factor: Scalar) -> DigitSum:
        do = self.scalars
        terms = dict(a.terms)
        for digit, scale in b.terms.items():
            new = do.plus(terms.get(digit, 0), do.times(scale, factor))
            if do.same(new, 0):
                terms.pop(digit, None)
            else:
                terms[digit] = new
        if len(terms) > INDEX_TERMS:
            raise NoStructureError(f"an index has more than {INDEX_TERMS} digits")
        return DigitSum(do.plus(a.base, do.times(b.base, factor)), terms)

    def _divided(self, total: DigitSum, by: Scalar, op: ops.Op) -> DigitSum:
        """The quotient or the remainder of a sum."""
        do = self.scalars
        quotient, rest = DigitSum(0, {}), total
        if not self._whole:
            quotient, rest = self._taken_out(total, by)
        if not rest.terms:
            if op is ops.FLOORMOD:
                return DigitSum(do.short(as_expr(rest.base) % by), {})
            return self._plus(quotient, DigitSum(do.short(as_expr(rest.base) // by), {}), 1)
        stack = self._stacked(rest)
        if do.at_least(stack.base, 0) and do.at_least(by, do.plus(stack.base, stack.span)):
            return quotient if op is ops.FLOORDIV else rest
        whole, digit = self._cut(stack, by, op)
        digits: dict[Digit, Scalar] = {} if digit.extent == 1 else {digit: 1}
        return DigitSum(0, digits) if op is ops.FLOORMOD else self._plus(quotient, DigitSum(whole, digits), 1)

    def _taken_out(self, total: DigitSum, by: Scalar) -> tuple[DigitSum, DigitSum]:
        """(q, r) with `total = q*by + r`, q from the terms divisible by the divisor."""
        divided: dict[Digit, Scalar] = {}
        left: dict[Digit, Scalar] = {}
        for digit, scale in total.terms.items():
            ratio = self.scalars.ratio(scale, by)
            if ratio is None:
                left[digit] = scale
            else:
                divided[digit] = ratio
        if isinstance(total.base, int) and isinstance(by, int):
            times, base = divmod(total.base, by)
            return DigitSum(times, divided), DigitSum(base, left)
        ratio = self.scalars.ratio(total.base, by)
        return (
            (DigitSum(0, divided), DigitSum(total.base, left))
            if ratio is None
            else (DigitSum(ratio, divided), DigitSum(0, left))
        )

    def _cut(self, stack: PositionalSum, by: Scalar, op: ops.Op) -> tuple[Scalar, Digit]:
        """`stack // by` as a number plus a digit, or `stack % by` as a digit."""
        do = self.scalars
        single = stack.steps[0] if len(stack.steps) == 1 else None
        if single and single.scale == 1 and not single.is_reversed and do.same(stack.base, 0):
            mark, lower, extent = single.digit
            up = do.times(lower, by)
            is_top = do.at_least(do.times(lower, extent), do.plus(mark.offset, mark.extent))
            if is_top or do.ratio(extent, by) is not None:
                rest = do.ceil(extent, by)
                return 0, Digit(mark, up, rest) if op is ops.FLOORDIV else Digit(mark, lower, by)
        source: Var | PositionalSum = stack
        extent = stack.span
        if single and single.scale == 1 and not single.is_reversed and isinstance(single.digit.mark.source, Var):
            first, _, most = single.digit
            if first.offset == 0 and do.same(most, first.extent):
                source = first.source
        moved, whole = self._moved(source, stack.base, by)
        mark = self._mark(source, extent, moved)
        if op is ops.FLOORMOD:
            return 0, Digit(mark, 1, by)
        return whole, Digit(mark, by, do.ceil(do.plus(moved, extent), by))

    def _moved(self, source: Var | PositionalSum, base: Scalar, by: Scalar) -> tuple[Scalar, Scalar]:
        """The offset of the mark for a source with first value `base`, and `(base - offset) / by`."""
        do = self.scalars
        key = self._key(source)
        known = self._offsets.get(key)
        if known is None:
            moved = base % (self._step or by) if isinstance(base, int) and isinstance(by, int) else base
            if not do.at_least(moved, 0):
                raise NoStructureError("a dividend that may be negative by a number of sizes")
            self._offsets[key] = moved
        else:
            moved = known
        times = do.ratio(do.plus(base, do.times(moved, -1)), by)
        if times is None:
            raise NoStructureError("a dividend is cut at two offsets")
        return moved, times

    def _key(self, source: Var | PositionalSum) -> object:
        """A key of the source without its base."""
        return source if isinstance(source, Var) else source.steps

    def _mark(self, source: Var | PositionalSum, extent: Scalar, offset: Scalar) -> Mark:
        key = (self._key(source), offset)
        mark = self._marks.get(key)
        if mark is None:
            if isinstance(source, PositionalSum):
                source = source._replace(base=0)
            mark = self._marks[key] = Mark(source, extent, offset)
        return mark

    def _stacked(self, total: DigitSum) -> PositionalSum:
        """The sum with its digits in positional order."""
        do = self.scalars
        base, steps = total.base, []
        for digit, scale in total.terms.items():
            sign = do.sign(scale)
            if not sign:
                raise NoStructureError(f"whether {scale} is above 0 is not known")
            if sign < 0:
                base = do.plus(base, do.times(scale, do.plus(digit.extent, -1)))
            steps.append(ScaledDigit(digit, scale if sign > 0 else do.times(scale, -1), sign < 0))
        ordered: list[ScaledDigit] = []
        reach: Scalar = 1  # 1 + maximum of the lower digits
        while steps:
            lowest = next((s for s in steps if do.same(s.scale, reach)), None) or self._lowest(steps)
            if not do.at_least(lowest.scale, reach):
                raise NoStructureError("the digits of a sum overlap")
            steps = [s for s in steps if s is not lowest]
            ordered.append(lowest)
            reach = do.plus(reach, do.times(lowest.scale, do.plus(lowest.digit.extent, -1)))
        return PositionalSum(base, tuple(ordered), reach)

    def _lowest(self, steps: Sequence[ScaledDigit]) -> ScaledDigit:
        for step in steps:
            if all(self.scalars.at_least(other.scale, step.scale) for other in steps):
                return step
        raise NoStructureError("which digit of a sum is the lowest depends on the sizes")

    # -- completeness -------------------------------------------------------------------------------------------

    def _used(self) -> list[Mark]:
        digits: dict[Digit, None] = {}
        sources: dict[Var, None] = {}
        marks: dict[Mark, list[Digit]] = {}
        waiting = list(self.stacks)
        while waiting:
            for step in waiting.pop().steps:
                digit = step.digit
                if digit in digits:
                    raise NoStructureError("a digit is used twice")
                digits[digit] = None
                if digit.mark not in marks:
                    source = digit.mark.source
                    if isinstance(source, PositionalSum):
                        waiting.append(source)
                    elif source in sources:
                        raise NoStructureError(f"{source} is cut in two ways")
                    else:
                        sources[source] = None
                marks.setdefault(digit.mark, []).append(digit)
        lost = [v for v, (_, extent) in self.box.items() if v not in sources and extent != 1]
        if lost:
            raise NoStructureError(f"{lost[0]} does not reach the indices")
        self.digits = {mark: self._in_order(mark, found) for mark, found in marks.items()}
        creation_order = list(self._marks.values())
        return sorted(marks, key=creation_order.index, reverse=True)

    def _in_order(self, mark: Mark, digits: list[Digit]) -> list[Digit]:
        """All digits of a mark, lowest first."""
        do = self.scalars
        ordered: list[Digit] = []
        reach: Scalar = 1
        while digits:
            lowest = next((d for d in digits if do.same(d.lower, reach)), None)
            if lowest is None:
                raise NoStructureError("a part of a dividend does not reach the indices, or does twice")
            digits = [d for d in digits if d is not lowest]
            ordered.append(lowest)
            reach = do.times(reach, lowest.extent)
        if not do.at_least(reach, do.plus(mark.offset, mark.extent)):
            raise NoStructureError("the high part of a dividend does not reach the indices")
        return ordered

    # -- back ---------------------------------------------------------------------------------------------------

    def decoded(self, place: Sequence[Expr]) -> tuple[dict[Var, Expr], list[Cond]]:
        """The preimage of a place: values of the variables, and its existence conditions."""
        conditions: list[Cond] = []
        values: dict[Digit, Expr] = {}
        for stack, y in zip(self.stacks, place, strict=True):
            self._decode(stack, y, values, conditions)
        variables: dict[Var, Expr] = {v: as_expr(low) for v, (low, _) in self.box.items()}
        for mark in self.marks:
            total = as_expr(0)
            for digit in self.digits[mark]:
                value = values[digit]
                total = total + (value if digit.lower == 1 else value * digit.lower)
            source_value = total if mark.offset == 0 else total - mark.offset
            conditions += [source_value >= 0, source_value < mark.extent]
            if isinstance(mark.source, Var):
                low = self.box[mark.source][0]
                variables[mark.source] = source_value if low == 0 else source_value + low
            else:
                self._decode(mark.source, source_value, values, conditions)
        return variables, conditions

    def _decode(self, stack: PositionalSum, y: Expr, values: dict[Digit, Expr], conditions: list[Cond]) -> None:
        left = y if stack.base == 0 else y - stack.base
        for step in reversed(stack.steps):
            digit, scale, is_reversed = step
            value = left if scale == 1 else left // scale
            left = as_expr(0) if scale == 1 else left % scale
            conditions += [value >= 0, value < digit.extent]
            values[digit] = (as_expr(digit.extent) - 1) - value if is_reversed else value
        conditions.append(left.eq(0))


def structure_of(exprs: Sequence[Expr], box: Mapping[Var, Interval], scalars: Scalars) -> Structure:
    """The structure of index expressions.

    Raises
    ------
    NoStructureError: none was found.
    """
    divisors = [e.args[1] for e in dag.postorder(exprs) if e.op in (ops.FLOORDIV, ops.FLOORMOD)]
    numbers = [abs(e.data) for e in divisors if isinstance(e, Expr) and e.is_const and e.data]
    ways = [(True, 0), (False, 0)]
    if 1 < len(numbers) <= INDEX_TERMS:
        ways += [(True, lcm(*numbers)), (False, lcm(*numbers))]
    reasons: list[NoStructureError] = []
    for whole, step in ways:
        try:
            return Structure(exprs, box, scalars, whole, step)
        except NoStructureError as error:
            reasons.append(error)
    raise reasons[0]
