"""Expressions as affine forms over F2, one for each bit, above them an integer-linear rest.

    i in [0, n), j in [0, 64):   (i*128 + j*2) ^ ((i & 7) << 4)

    bit   1: j0    2: j1    3: j2    4: j3 + i0    5: j4 + i1    6: j5 + i2    7: i0    8: i1   ...

A *column* is a bit of a variable; column 0 is the constant 1. A variable without a constant end is its low bits plus a
power of two times a *tail*, the number above these bits. `^`, shifts, and products, quotients and remainders by powers
of two permute, cut and add rows; `&` and `|` with a number select them; a sum or difference is exact where no bit
carries. Each further term with a known interval gets separate columns: a *fresh* term, known by its
width alone.

Invariant of a form: its value is `sum(2**p * rows[p])` plus `sum(c * tail)`, and `2**len(rows)` divides each `c`.

A row is an integer whose bit `k` is the coefficient of column `k`: `0b101` is `1 + x2`. Sums of rows are `^`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from intset.check.bit_rows import BIT_WIDTH, TAIL_BITS
from intset.expr import Expr, Node, Var, const, dag, ops, shown
from intset.linear.bounds import Interval

BITWISE_NODES: Final = 64  # nodes of an equation between bitwise expressions


class ReducedRow(NamedTuple):
    """A row of a reduced basis: it alone has its pivot column. `made_of`: a mask: the given rows whose sum it is."""

    row: int
    made_of: int


class RowBasis:
    """A reduced basis of the space that rows span, by Gauss and Jordan.

    Attributes
    ----------
    rows: by pivot, the highest column of a row; that column is zero in all other basis rows.
    relations: masks of given rows that sum to a constant, with that constant: 0, or 1 for a contradiction.
    """

    def __init__(self, rows: Iterable[int] = ()) -> None:
        self.rows: dict[int, ReducedRow] = {}
        self.relations: list[tuple[int, int]] = []
        self._given = 0
        for row in rows:
            self.add(row)

    def add(self, row: int) -> None:
        """Add a row to the space."""
        left, how = self.reduced(row)
        how ^= 1 << self._given
        self._given += 1
        if left < 2:
            self.relations.append((how, left))
            return
        pivot = left.bit_length() - 1
        for other, (kept, made_of) in self.rows.items():
            if kept >> pivot & 1:
                self.rows[other] = ReducedRow(kept ^ left, made_of ^ how)
        self.rows[pivot] = ReducedRow(left, how)

    def reduced(self, row: int) -> ReducedRow:
        """The row without pivot columns, and the mask of given rows that were added to it."""
        how = 0
        for pivot, (kept, made_of) in self.rows.items():
            if row >> pivot & 1:
                row, how = row ^ kept, how ^ made_of
        return ReducedRow(row, how)

    @property
    def rank(self) -> int:
        return len(self.rows)


def rank(rows: Iterable[int]) -> int:
    """The rank of the linear parts of rows."""
    return RowBasis(row & ~1 for row in rows).rank


def kernel_vector(rows: Sequence[int], columns: int) -> int | None:
    """A nonzero assignment of columns 1 and up that zeroes all linear parts; `None` if none exists."""
    basis = RowBasis(row & ~1 for row in rows)
    free = next((c for c in range(1, columns + 1) if c not in basis.rows), None)
    if free is None:
        return None
    return 1 << free | sum(1 << pivot for pivot, (row, _) in basis.rows.items() if row >> free & 1)


def extreme(rows: Sequence[int], side: int) -> int:
    """The smallest (`side` -1) or largest number whose bit `p` is `rows[p]`, over all values of the columns.

    From the highest bit on, each bit takes the better value that the bits above it leave open.
    """
    chosen: list[tuple[int, int]] = []  # pivots, and rows that vanish under the choices
    value = 0
    for p in reversed(range(len(rows))):
        row = rows[p]
        for pivot, zero in chosen:
            if row >> pivot & 1:
                row ^= zero
        bit = row if row < 2 else int(side > 0)
        if row >= 2:
            chosen.append((row.bit_length() - 1, row ^ bit))
        value |= bit << p
    return value


BITWISE: Final = frozenset((ops.BITXOR, ops.BITAND, ops.BITOR, ops.SHL, ops.SHR))
_QUOTIENTS: Final = frozenset((ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV, ops.TRUNCMOD))


def speaks_of_bits(roots: Sequence[Node]) -> bool:
    """Whether a bit operation, or a division by a power of two, occurs below the roots."""
    present = frozenset[object]().union(*map(dag.operations, roots))
    if not BITWISE.isdisjoint(present):
        return True
    return not _QUOTIENTS.isdisjoint(present) and any(
        node.op in _QUOTIENTS and _exponent(node.args[1]) is not None for node in dag.postorder(roots)
    )


class BitForm(NamedTuple):
    """The rows of a number from its lowest bit on, and the multiples of tails above them."""

    rows: tuple[int, ...]
    high: Mapping[Expr, int] = {}

    @property
    def width(self) -> int | None:
        """The number of bits; `None` with a tail."""
        return None if self.high else len(self.rows)


class CarryError(Exception):
    """A term is no form; the message gives the reason."""


class Columns:
    """The columns for one question's terms, and the forms over them.

    Attributes
    ----------
    terms: for each column but the first its term and bit.
    places: the columns of each term, from bit 0 on.
    offsets: for variables that start at a multiple of a power of two that covers them, that start.
    tails: for terms without a constant end, the number of bits below the tail.
    fresh: terms known by their width alone, each with the reason.
    is_whole: whether the columns take all values, since each extent is a power of two.
    """

    def __init__(self, bounds: Callable[[Expr], Interval]) -> None:
        self._bounds = bounds
        self.terms: list[tuple[Expr, int]] = []
        self.places: dict[Expr, range] = {}
        self.offsets: dict[Expr, int] = {}
        self.tails: dict[Expr, int] = {}
        self.fresh: dict[Expr, str] = {}
        self.is_whole = True
        self._forms: dict[Expr, BitForm | str] = {}

    @property
    def count(self) -> int:
        return len(self.terms)

    def form(self, root: Expr) -> BitForm:
        """The form of an expression.

        Raises
        ------
        CarryError: the form may be negative, or the width of a term is unknown.
        """
        for node in dag.postorder((root,)):
            if isinstance(node, Expr) and node not in self._forms:
                self._forms[node] = self._read(node)
        found = self._forms[root]
        if isinstance(found, str):
            raise CarryError(found)
        return found

    def _read(self, node: Expr) -> BitForm | str:
        if isinstance(node, Var):
            try:
                return self._variable(node)
            except CarryError as error:
                return str(error)
        try:
            row = _ROWS.get(node.op)
            if row is None:
                raise CarryError(f"{node.op.name} of bits")
            return row(node, *(self._operand(node, k) for k in range(len(node.args))))
        except CarryError as error:
            return self._own_columns(node, str(error))

    def _operand(self, node: Expr, k: int) -> BitForm:
        arg = node.args[k]
        is_mixed = node.op in _WITH_NEGATIVE and any(not other.is_const for other in node.args)
        if is_mixed and arg.is_const and arg.data < 0 and not (node.op is ops.SUB and k == 0):
            return BitForm(())  # the operation reads the number itself
        found = self._forms[arg]
        if isinstance(found, str):
            raise CarryError(found)
        return found

    def _variable(self, v: Var) -> BitForm:
        low, high = self._bounds(v)
        if low is None or low < 0:
            raise CarryError(f"{v} may be negative")
        if high is None:
            self.is_whole = False
            self.tails[v] = TAIL_BITS
            rows = self._add(v, TAIL_BITS)
            return BitForm(rows, {v: 1 << TAIL_BITS})
        bits = (high - low).bit_length()
        self.is_whole = self.is_whole and high - low == (1 << bits) - 1 and not low % (1 << bits)
        if low % (1 << bits):
            low, bits = 0, high.bit_length()
        if bits > BIT_WIDTH:
            raise CarryError(f"{v} has more than {BIT_WIDTH} bits")
        rows = self._add(v, bits)
        if not low:
            return BitForm(rows)
        self.offsets[v] = low
        return _sum(BitForm(rows), _number(low))

    def _own_columns(self, node: Expr, reason: str) -> BitForm | str:
        """A fresh term, if its interval is known and has no negative number."""
        low, high = self._bounds(node)
        if low is None or low < 0 or high is None or high.bit_length() > BIT_WIDTH:
            return reason
        self.fresh[node] = reason
        self.is_whole = False
        return BitForm(self._add(node, high.bit_length()))

    def _add(self, term: Expr, bits: int) -> tuple[int, ...]:
        first = len(self.terms) + 1
        self.places[term] = range(first, first + bits)
        self.terms += [(term, b) for b in range(bits)]
        return tuple(1 << column for column in self.places[term])

    def values(self, assignment: int) -> dict[Expr, int]:
        """The values of the terms where the columns have these bits, tails 0."""
        return {
            term: sum((assignment >> column & 1) << b for b, column in enumerate(places)) + self.offsets.get(term, 0)
            for term, places in self.places.items()
        }


_WITH_NEGATIVE: Final = frozenset((ops.ADD, ops.SUB, ops.BITAND))


# -- operations --------------------------------------------------------------------------------------------------------


def _exponent(e: Expr) -> int | None:
    """The exponent of a constant power of two."""
    if not e.is_const or e.data <= 0 or e.data & (e.data - 1):
        return None
    return int(e.data).bit_length() - 1


def _number(value: int) -> BitForm:
    if value < 0:
        raise CarryError(f"the negative number {shown(value)}")
    return BitForm(tuple(value >> p & 1 for p in range(value.bit_length())))


def _trimmed(rows: Sequence[int], high: Mapping[Expr, int]) -> BitForm:
    last = len(rows)
    if not high:
        while last and not rows[last - 1]:
            last -= 1
    return BitForm(tuple(rows[:last]), high)


def aligned(a: BitForm, b: BitForm) -> list[tuple[int, int]]:
    """The rows of two forms bit by bit, up to where a tail begins; `CarryError` where rows meet the other's tail."""
    bits = [len(form.rows) for form in (a, b) if form.high]
    width = min(bits) if bits else max(len(a.rows), len(b.rows))
    if any(any(form.rows[width:]) for form in (a, b)):
        raise CarryError("bits beside a tail")
    return [(a.rows[p] if p < len(a.rows) else 0, b.rows[p] if p < len(b.rows) else 0) for p in range(width)]


def sum_of_tails(a: BitForm, b: BitForm, sign: int = 1) -> dict[Expr, int]:
    """The tail of `a + sign*b`."""
    total = {v: a.high.get(v, 0) + sign * b.high.get(v, 0) for v in {**a.high, **b.high}}
    return {v: factor for v, factor in total.items() if factor}


def _sum(a: BitForm, b: BitForm) -> BitForm:
    rows = aligned(a, b)
    if any(x and y for x, y in rows):
        raise CarryError("a sum that may carry")
    return _trimmed([x | y for x, y in rows], sum_of_tails(a, b))


def _difference(a: BitForm, b: BitForm) -> BitForm:
    rows = aligned(a, b)
    if any(y and x != y and x != 1 for x, y in rows):
        raise CarryError("a difference that may borrow")
    return _trimmed([x ^ y for x, y in rows], sum_of_tails(a, b, -1))


def xor(a: BitForm, b: BitForm) -> BitForm:
    """The form of `a ^ b`."""
    if a.high and b.high and a.high != b.high:
        raise CarryError("^ of two tails")
    high = {} if a.high and b.high else {**a.high, **b.high}
    return _trimmed([x ^ y for x, y in aligned(a, b)], high)


def _masked(a: BitForm, mask: int) -> BitForm:
    if mask < 0:
        if (~mask).bit_length() > len(a.rows) and a.high:
            raise CarryError("bits of a tail")
        return _trimmed([row if mask >> p & 1 else 0 for p, row in enumerate(a.rows)], a.high)
    if a.high and mask.bit_length() > len(a.rows):
        raise CarryError("bits of a tail")
    return _trimmed([row if mask >> p & 1 else 0 for p, row in enumerate(a.rows)], {})


def _shifted_right(a: BitForm, by: int) -> BitForm:
    if a.high and by > len(a.rows):
        raise CarryError("bits of a tail")
    return BitForm(a.rows[by:], {v: factor >> by for v, factor in a.high.items()})


def _shifted_left(a: BitForm, by: int) -> BitForm:
    if by > BIT_WIDTH:
        raise CarryError("a shift beyond the width")
    return BitForm((*[0] * by, *a.rows), {v: factor << by for v, factor in a.high.items()}) if a.rows or a.high else a


def _times(a: BitForm, factor: int) -> BitForm:
    if factor < 0 or factor.bit_length() > BIT_WIDTH:
        raise CarryError(f"the factor {shown(factor)}")
    total = BitForm(())
    for p in range(factor.bit_length()):
        if factor >> p & 1:
            total = _sum(total, _shifted_left(a, p))
    return total


def _by_number(combined: Callable[[BitForm, int], BitForm]) -> Callable[..., BitForm]:
    """Reads an operation with a number as one operand, a symmetric one on either side."""

    def row(node: Expr, a: BitForm, b: BitForm) -> BitForm:
        left, right = node.args
        if right.is_const:
            return combined(a, int(right.data))
        if left.is_const and node.op in (ops.MUL, ops.BITAND):
            return combined(b, int(left.data))
        raise CarryError(f"{node.op.name} of two terms")

    return row


def _by_power(combined: Callable[[BitForm, int], BitForm]) -> Callable[..., BitForm]:
    def row(node: Expr, a: BitForm, b: BitForm) -> BitForm:
        by = _exponent(node.args[1])
        if by is None:
            raise CarryError("a division by no power of two")
        return combined(a, by)

    return row


def _added(node: Expr, a: BitForm, b: BitForm) -> BitForm:
    for arg, other in ((node.args[0], b), (node.args[1], a)):
        if arg.is_const and arg.data < 0:
            return _difference(other, _number(-arg.data))
    return _sum(a, b)


def _subtracted(node: Expr, a: BitForm, b: BitForm) -> BitForm:
    right = node.args[1]
    return _sum(a, _number(-right.data)) if right.is_const and right.data < 0 else _difference(a, b)


def _joined(node: Expr, a: BitForm, b: BitForm) -> BitForm:
    for arg, other in ((node.args[0], b), (node.args[1], a)):
        if arg.is_const:
            return _sum(_masked(other, ~int(arg.data)), _number(int(arg.data)))
    if a.high and b.high:
        raise CarryError("| of two tails")
    return _sum(a, b)


def _nonnegative(a: BitForm) -> BitForm:
    """The form itself; `CarryError` where a tail is subtracted, so that the number may be negative."""
    if any(factor < 0 for factor in a.high.values()):
        raise CarryError("a difference that may be negative")
    return a


def _cast(node: Expr, a: BitForm) -> BitForm:
    bits, is_signed = node.data
    if a.high or len(a.rows) > bits - is_signed:
        raise CarryError("a cast that may wrap")
    return a


def _shifted(by: int) -> int:
    if by < 0:
        raise CarryError("a negative shift")
    return by


_ROWS: Final[Mapping[ops.Op, Callable[..., BitForm]]] = {
    ops.CONST: lambda node: _number(node.data),
    ops.ADD: _added,
    ops.SUB: _subtracted,
    ops.BITXOR: lambda node, a, b: xor(a, b),
    ops.BITOR: _joined,
    ops.BITAND: _by_number(_masked),
    ops.MUL: _by_number(_times),
    ops.SHL: _by_number(lambda a, by: _shifted_left(a, _shifted(by))),
    ops.SHR: _by_number(lambda a, by: _shifted_right(a, _shifted(by))),
    ops.FLOORDIV: _by_power(_shifted_right),
    ops.TRUNCDIV: _by_power(lambda a, by: _shifted_right(_nonnegative(a), by)),
    ops.FLOORMOD: _by_power(lambda a, by: _masked(a, (1 << by) - 1)),
    ops.TRUNCMOD: _by_power(lambda a, by: _masked(_nonnegative(a), (1 << by) - 1)),
    ops.CAST: _cast,
}


# -- expressions -------------------------------------------------------------------------------------------------------


class Diagonal(NamedTuple):
    """The bits of a term in `mask`, moved down by `shift` (up if negative)."""

    term: Expr
    shift: int
    mask: int
    width: int | None  # of the term; `None` without an end


def expression(form: BitForm, columns: Columns) -> Expr:
    """The form as `^` of shifted and masked terms; `CarryError` where a sum of tails is no such form."""
    masks: dict[tuple[Expr, int], int] = {}
    flip = 0
    for p, row in enumerate(form.rows):
        flip |= (row & 1) << p
        for column in range(1, row.bit_length()):
            if row >> column & 1:
                term, b = columns.terms[column - 1]
                masks[term, b - p] = masks.get((term, b - p), 0) | 1 << b
    for v, factor in form.high.items():
        if len(form.high) > 1 or factor <= 0 or factor & (factor - 1):
            raise CarryError("a sum or a multiple of tails")
        shift = columns.tails[v] - (factor.bit_length() - 1)
        masks[v, shift] = masks.get((v, shift), 0) | -1 << columns.tails[v]
    parts = []
    for (term, shift), mask in masks.items():
        width = None if term in columns.tails else len(columns.places[term])
        if term in columns.offsets:
            width = None  # its higher bits are those of the offset
        parts.append(Diagonal(term, shift, mask, width))
    return combined(parts, flip)


def combined(parts: Sequence[Diagonal], flip: int = 0) -> Expr:
    """The `^` of diagonals and a number, the widest one first."""
    total: Expr | None = None
    for part in sorted(parts, key=lambda part: -part.mask.bit_length() if part.mask >= 0 else -1 << 30):
        e = _moved(part)
        total = e if total is None else total ^ e
    if total is None:
        return const(flip)
    return total ^ flip if flip else total


def _moved(part: Diagonal) -> Expr:
    term, shift, mask, width = part
    whole = -1 if width is None else (1 << width) - 1
    below = (1 << max(shift, 0)) - 1
    if (mask | below) & whole == whole | below & whole:
        return term >> shift if shift > 0 else term << -shift if shift < 0 else term
    if shift >= 0:
        return ((term >> shift) if shift else term) & (mask >> shift)
    return (term & mask) << -shift
