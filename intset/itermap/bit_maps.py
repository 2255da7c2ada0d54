"""Maps whose indices are affine forms over F2, such as swizzles: injectivity by rank, inverses by elimination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from intset.errors import EvaluationError
from intset.expr.build import logical_and
from intset.expr.dag import postorder, substitute
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var
from intset.itermap.general import YES, Verdict, no
from intset.linear.bitforms import BITWISE, BitForm, CarryError, Columns, Diagonal, combined
from intset.linear.f2 import RowBasis, kernel_vector

if TYPE_CHECKING:
    from intset.context import Context


class BitMap:
    """The rows of a map: those of its indices, one below the other.

    Attributes
    ----------
    variables: of the map, in order.
    forms: of the indices, over `columns`.
    """

    def __init__(self, variables: Sequence[Var], forms: Sequence[BitForm], columns: Columns) -> None:
        self.variables, self.forms, self.columns = tuple(variables), tuple(forms), columns

    @classmethod
    def of(cls, ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr]) -> BitMap | None:
        """The rows of a map with bit operations; `None` if a term is known by its width alone."""
        if not any(node.op in BITWISE for node in postorder(exprs)):
            return None
        known = ctx.frame.known
        columns = Columns(lambda term: known.bounds(known.form(term)))
        try:
            forms = [columns.form(e) for e in exprs]
            for v in variables:
                columns.form(v)
        except CarryError:
            return None
        if columns.fresh or set(columns.places) != set(variables):
            return None
        return cls(variables, forms, columns)

    @cached_property
    def _rows(self) -> list[tuple[int, int, int]]:
        """Each row with its index and bit."""
        return [(row, k, p) for k, form in enumerate(self.forms) for p, row in enumerate(form.rows)]

    @cached_property
    def _basis(self) -> RowBasis:
        return RowBasis(row for row, _, _ in self._rows)

    @cached_property
    def _tails(self) -> dict[Expr, tuple[int, int]] | None:
        """The index and the factor of each tail; `None` unless each is the only one of an index."""
        found: dict[Expr, tuple[int, int]] = {}
        for k, form in enumerate(self.forms):
            if len(form.high) == 1:
                ((v, factor),) = form.high.items()
                found.setdefault(v, (k, factor))
        return found if found.keys() == self.columns.tails.keys() else None

    def injective(self, ctx: Context) -> Verdict | None:
        """By rank: proved, or refuted by a point of the kernel; `None` if tails or other conditions decide."""
        if self._basis.rank == self.columns.count:
            return None if self._tails is None else YES
        kernel = kernel_vector([row for row, _, _ in self._rows], self.columns.count)
        if kernel is None or self.columns.tails:
            return None
        change = self.columns.values(kernel)
        one, two = {}, {}
        for v in self.variables:
            start = self.columns.offsets.get(v, 0)
            moved = change[v] - start
            top = 1 << moved.bit_length() - 1 if moved else 0
            one[v], two[v] = start + (top ^ moved), start + top
        points = tuple(sorted(tuple(int(point[v]) for v in self.variables) for point in (one, two)))
        return no(points, {}) if all(_is_inside(ctx, point) for point in (one, two)) else None

    def inverse(self, places: Sequence[Expr]) -> dict[Var, Expr] | None:
        """The variables as `^` of shifted and masked places; `None` unless the rank and the tails determine them."""
        if self._basis.rank < self.columns.count or self._tails is None:
            return None
        values = {}
        for v in self.variables:
            masks: dict[tuple[int, int], int] = {}
            flip = self.columns.offsets.get(v, 0)
            for b, column in enumerate(self.columns.places[v]):
                row, made_of = self._basis.rows[column]
                flip |= (row & 1) << b
                for given, (_, k, p) in enumerate(self._rows):
                    if made_of >> given & 1:
                        masks[k, p - b] = masks.get((k, p - b), 0) | 1 << p
            if v in self._tails:
                k, factor = self._tails[v]
                if factor <= 0 or factor & (factor - 1):
                    return None
                p = factor.bit_length() - 1
                key = k, p - self.columns.tails[v]
                masks[key] = masks.get(key, 0) | -1 << p
            parts = [Diagonal(places[k], shift, mask, self.forms[k].width) for (k, shift), mask in masks.items()]
            values[v] = combined(parts, flip)
        return values

    def is_onto(self, ctx: Context, there: Context, places: Sequence[Var], exprs: Sequence[Expr]) -> bool:
        """Whether the inverse is proved to lead from each place to a point of `ctx`, and back."""
        values = self.inverse(places)
        if values is None:
            return False
        inside: list[Cond] = [f.condition for f in ctx.facts]
        for v in self.variables:
            low, high = ctx.ranges[v].min, ctx.ranges[v].max
            if not isinstance(low, Expr) or not isinstance(high, Expr):
                return False
            inside += [v >= low, v <= high]
        arriving = [substitute(e, values).eq(y) for e, y in zip(exprs, places, strict=True)]
        return all(there.prove(cond) for cond in (*(substitute(cond, values) for cond in inside), *arriving))


def _is_inside(ctx: Context, point: Mapping[Var, int]) -> bool:
    """Whether a point satisfies the ranges and facts of a context."""
    conditions = [f.condition for f in ctx.facts]
    for v, value in point.items():
        low, high = ctx.ranges[v].min, ctx.ranges[v].max
        if not isinstance(low, Expr) or not isinstance(high, Expr):
            return False
        conditions += [low <= value, high >= value]
    try:
        return bool(evaluate(logical_and(*conditions), point))
    except EvaluationError:
        return False
