"""`Range`: the half-open interval a loop runs over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import evaluated
from intset.expr.dag import E, free_vars, opaque_terms, substitute
from intset.expr.node import NEG_INF, POS_INF, Cond, Expr, Infinity, IntLike, Var, as_expr, const, constant_value
from intset.expr.printer import shown


class Range:
    """The half-open interval `[min, min + extent)` of integers.

    `Range.everything()` has all integers, an extent of `POS_INF` is an upper half line and `Range.up_to(last)` a lower
    one with `max` equal to `last`.

    Parameters
    ----------
    min: the first integer, an expression.
    extent: the number of integers, an expression. A negative symbolic extent means empty; a negative constant extent
        raises `InputError`.
    """

    __slots__ = ("_last", "_loads", "_variables", "ends", "extent", "min")
    min: Expr | Infinity
    extent: Expr | Infinity
    _last: Expr | Infinity  # of a lower half line
    _variables: tuple[Var, ...]  # remembered by `free_vars`
    _loads: tuple[Expr, ...]  # remembered by `loads`
    ends: tuple[int, int] | None  # (first, last) when both are constants; empty when last < first

    def __init__(self, min: IntLike | Infinity, extent: IntLike | Infinity) -> None:
        if isinstance(min, Expr) and min.op is ops.CONST:
            min = min.data
        if isinstance(extent, Expr) and extent.op is ops.CONST:
            extent = extent.data
        if type(min) is int and type(extent) is int and extent >= 0:  # hot: the rest when it is asked for
            _set_ends(self, (min, min + extent - 1))
            return
        low = min if isinstance(min, Infinity) else evaluated(as_expr(min, "min of a Range"))
        stated = extent if isinstance(extent, Infinity) else as_expr(extent, "extent of a Range")
        width = stated if isinstance(stated, Infinity) else evaluated(stated)
        if low is POS_INF or width is NEG_INF or (low is NEG_INF and width is not POS_INF):
            raise InputError(f"no such range: min={shown(min)}, extent={shown(extent)}")
        number = None if isinstance(width, Infinity) else constant_value(width)
        if number is not None and number < 0:
            if isinstance(stated, Infinity) or constant_value(stated) is not None:
                raise InputError(f"the extent of a Range must not be negative: {shown(number)}")
            width, number = stated, None  # a difference that is below 0, kept as written: an empty range
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "extent", width)
        object.__setattr__(self, "_last", POS_INF)
        first = None if isinstance(low, Infinity) else constant_value(low)
        object.__setattr__(self, "ends", None if first is None or number is None else (first, first + number - 1))

    def __getattr__(self, name: str) -> Expr | Infinity:
        """A field that the constructor of a numeric range leaves out."""
        if name not in ("min", "extent", "_last") or self.ends is None:
            raise AttributeError(f"'Range' object has no attribute {name!r}", name=name, obj=self)
        first, last = self.ends
        object.__setattr__(self, "min", const(first))
        object.__setattr__(self, "extent", const(last - first + 1))
        object.__setattr__(self, "_last", POS_INF)
        found: Expr | Infinity = getattr(self, name)
        return found

    @classmethod
    def of_extent(cls, low: IntLike | Infinity, extent: IntLike | Infinity) -> Range:
        """The range of a computed extent: empty for one below 0, constant or not.

        >>> Range.of_extent(3, -2)
        Range(min=3, extent=0)
        """
        width = extent if isinstance(extent, Infinity) else evaluated(as_expr(extent, "extent of a Range"))
        number = None if isinstance(width, Infinity) else constant_value(width)
        return cls(low, width if number is None or number >= 0 else 0)

    @classmethod
    def everything(cls) -> Range:
        """All integers."""
        return cls(NEG_INF, POS_INF)

    @classmethod
    def up_to(cls, last: IntLike | Infinity) -> Range:
        """The integers up to `last`, included.

        >>> Range.up_to(7).min, Range.up_to(7).max
        (NEG_INF, 7)
        """
        if last is NEG_INF:
            raise InputError(f"no such range: up to {shown(last)}")
        half_line = cls(NEG_INF, POS_INF)
        object.__setattr__(
            half_line, "_last", last if isinstance(last, Infinity) else evaluated(as_expr(last, "end of a Range"))
        )
        return half_line

    @property
    def max(self) -> Expr | Infinity:
        """The last element, `min + extent - 1`; unspecified for an empty range."""
        if isinstance(self.min, Infinity) or isinstance(self.extent, Infinity):
            return self._last
        if self.ends is not None:
            return const(self.ends[1])
        low, width = constant_value(self.min), constant_value(self.extent)
        if low is None:
            if width is None:
                return _last_of(self.min, self.extent)
            return self.min + (width - 1) if width != 1 else self.min
        return self.extent - (1 - low) if low < 1 else self.extent + (low - 1) if low > 1 else self.extent

    def substitute(self, new: Mapping[E, Expr]) -> Range:
        """The range with variables replaced in its ends."""
        if self.ends is not None:
            return self
        own = (self.min, self.extent, self._last)
        low, extent, last = (substitute(end, new) if isinstance(end, Expr) else end for end in own)
        if low is self.min and extent is self.extent and last is self._last:
            return self
        return Range.up_to(last) if low is NEG_INF else Range.of_extent(low, extent)

    def constant(self) -> tuple[int, int] | None:
        """(first, last) when both ends are constants, else `None`; empty when last < first."""
        return self.ends

    def free_vars(self) -> tuple[Var, ...]:
        """The variables of both ends."""
        if self.ends is not None:
            return ()
        try:
            return self._variables
        except AttributeError:
            found = free_vars(*self._ends())
            object.__setattr__(self, "_variables", found)
            return found

    def loads(self) -> tuple[Expr, ...]:
        """The opaque terms of both ends."""
        if self.ends is not None:
            return ()
        try:
            return self._loads
        except AttributeError:
            found = opaque_terms(*self._ends())
            object.__setattr__(self, "_loads", found)
            return found

    @property
    def is_symbolic(self) -> bool:
        """Whether an end mentions a variable or an opaque term. Such a range may be empty."""
        return bool(self.free_vars() or self.loads())

    def _ends(self) -> Iterator[Expr]:
        return (end for end in (self.min, self.extent, self._last) if isinstance(end, Expr))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Range is immutable")

    def __reduce__(self) -> tuple[object, ...]:
        return (Range, (self.min, self.extent)) if self._last is POS_INF else (Range.up_to, (self._last,))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Range):
            return NotImplemented
        return self.min is other.min and self.extent is other.extent and self._last is other._last

    def __hash__(self) -> int:
        return hash((self.min, self.extent, self._last))

    def __repr__(self) -> str:
        if self._last is not POS_INF:
            return f"Range.up_to({self._last})"
        return f"Range(min={self.min}, extent={self.extent})"


def conditions_between(
    e: Expr, low: int | Expr | Infinity | None, high: int | Expr | Infinity | None, step: int = 1
) -> Iterator[Cond]:
    """The conditions that `e` is a multiple of `step` in `[low, high]`; `None` and an infinity are no ends."""
    if isinstance(low, (int, Expr)):
        yield e >= low
    if isinstance(high, (int, Expr)):
        yield e <= high
    if step > 1:
        yield (e % step).eq(0)


def range_conditions(e: Expr, limits: Range) -> Iterator[Cond]:
    """The conditions that `e` lies in a range."""
    return conditions_between(e, limits.min, limits.max)


def declared_conditions(e: Expr) -> Iterator[Cond]:
    """Declared bounds and divisibility of a variable or opaque term."""
    return conditions_between(e, *(e.declared() if isinstance(e, Var) else (e.data.lower, e.data.upper)))


_set_ends = Range.__dict__["ends"].__set__  # quicker than `object.__setattr__`


def _last_of(first: Expr, extent: Expr) -> Expr:
    """`first + extent - 1`; where the extent is written as `x - first + c`, `x + (c - 1)`."""
    rest, offset = extent, -1
    while rest.op is ops.ADD or rest.op is ops.SUB:
        number = constant_value(rest.args[1])
        if number is None:
            break
        offset += number if rest.op is ops.ADD else -number
        rest = rest.args[0]
    if rest.op is not ops.SUB or rest.args[1] is not first:
        return first + extent - 1
    last: Expr = rest.args[0]
    return last + offset if offset > 0 else last - -offset if offset else last
