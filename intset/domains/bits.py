"""The `bits` domain: values as affine spaces over F2 (`intset.linear.bitforms`)."""

from collections.abc import Sequence
from functools import reduce
from operator import xor
from typing import Any, ClassVar

from intset.domains.query import Query
from intset.domains.sets.base import End, IntSet, as_end, check_countable, empty_set, outer_interval
from intset.expr import Cond, Expr, IntLike, as_expr, dag
from intset.expr.build import logical_and
from intset.linear.bitforms import CarryError, Columns, RowBasis, extreme


class BitSet(IntSet):
    """The numbers `start ^ (sum of some of the directions)`, where sums are `^`."""

    def __init__(self, rows: Sequence[int], by: str, **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.rows = tuple(rows)

    @property
    def start(self) -> int:
        """An element: the one of all columns 0."""
        return sum((row & 1) << p for p, row in enumerate(self.rows))

    def directions(self) -> RowBasis:
        """The differences of elements, as rows over the bits of the number, from column 1 on."""
        columns = max((row.bit_length() for row in self.rows), default=0)
        return RowBasis(
            sum((row >> column & 1) << p + 1 for p, row in enumerate(self.rows)) for column in range(1, columns)
        )

    def ends(self) -> tuple[End, End]:
        return as_end(extreme(self.rows, -1)), as_end(extreme(self.rows, 1))

    def condition(self, e: IntLike) -> Cond:
        x, start = as_expr(e), self.start
        parts = [x >= 0, x < 1 << len(self.rows)]
        fixed = 0
        basis = self.directions()
        for p in range(len(self.rows)):
            if p + 1 in basis.rows:
                continue
            others = [pivot - 1 for pivot, (row, _) in basis.rows.items() if row >> p + 1 & 1]
            if not others:
                fixed |= 1 << p
                continue
            parity = reduce(xor, (x >> q if q else x for q in (p, *others)))
            parts.append((parity & 1).eq(sum(start >> q & 1 for q in (p, *others)) % 2))
        if fixed:
            parts.append((x & fixed).eq(start & fixed))
        return logical_and(*parts)

    def count(self) -> int:
        check_countable(self)
        return 1 << self.directions().rank

    def _congruence(self) -> tuple[int, int]:
        low = next((p for p, row in enumerate(self.rows) if row > 1), None)
        return (0, self.start) if low is None else (1 << low, self.start % (1 << low))

    def describe(self) -> str:
        basis = self.directions()
        steps = ", ".join(str(row >> 1) for _, (row, _) in sorted(basis.rows.items()))
        return f"{{{self.start} ^ any of {steps}}}" if steps else f"{{{self.start}}}"


class BitDomain:
    """Affine spaces over F2.

    Guarantee: exact on `^`, shifts, masks and products, quotients and remainders by powers of two of variables whose
    extents are powers of two, on sums without carries, and on one-to-one images of whole bits; else a superset.
    """

    name: ClassVar[str] = "bits"
    exact_on: ClassVar[str] = "bit operations and divisions by powers of two, over extents that are powers of two"

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        e = query.exprs[0]
        columns = Columns(lambda term: query.known.bounds(query.known.form(term)))
        try:
            form = columns.form(e)
        except CarryError as error:
            return outer_interval(query, self.name, f"no bits: {error}")
        if form.high:
            return outer_interval(query, self.name, "a term without a constant end")
        reasons = tuple(f"{term} is known by its width alone: {why}" for term, why in columns.fresh.items())
        if not reasons and not _is_whole(query, e, columns):
            reasons = ("an extent is no power of two, or a fact or another variable limits a variable",)
        return BitSet(form.rows, self.name, is_exact=not reasons, notes=reasons)


def _is_whole(query: Query, e: Expr, columns: Columns) -> bool:
    """Whether the variables cover the product of their columns' values."""
    if not columns.is_whole or query.keep:
        return False
    relaxed, params, facts, _ = query.split_relevant((e,))
    return not params and not facts and all(query.ranges[v].ends is not None for v in (*relaxed, *dag.free_vars(e)))
