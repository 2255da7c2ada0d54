"""The checks of kind "bits": expressions as affine forms over F2, read by code of its own.

A row is the set of columns whose sum a bit is: pairs of a variable and a bit, and `ONE` for the constant. Sums of rows
are symmetric differences. Widths come from premises that compare a variable with a number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from intset.check.evidence import CheckBudget, premises_of
from intset.expr import Cond, Expr, Range, Var, as_expr, dag, ops
from intset.expr.node import make
from intset.expr.range import range_conditions

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

BIT_WIDTH: Final = 128  # bits of one term, and of a shift
TAIL_BITS: Final = 24  # bits of a variable without a constant end that are columns

Column = tuple[Expr, int]
Row = frozenset[Column]
ONE: Final[Column] = (as_expr(1), 0)
NOTHING: Final[Row] = frozenset()


class _UnreadError(Exception):
    """An expression is no form, or evidence does not fit."""


class BitRows:
    """Expressions as rows and tails, under premises.

    Attributes
    ----------
    low, high: the ends of variables that premises state as numbers.
    """

    def __init__(self, premises: Iterable[Cond]) -> None:
        self.low: dict[Expr, int] = {}
        self.high: dict[Expr, int] = {}
        for part in (part for cond in premises for part in dag.conjuncts(cond)):
            self._read_end(part)
        self._known: dict[Expr, Any] = {}  # `None`: a negative number, which operations read themselves

    def _read_end(self, part: Cond) -> None:
        sides = part.args
        if part.op in (ops.GT, ops.GE):
            sides = sides[::-1]
        elif part.op not in (ops.LT, ops.LE):
            return
        strict = int(part.op in (ops.LT, ops.GT))
        small, large = sides
        if isinstance(small, Var) and large.is_const:
            end = int(large.data) - strict
            self.high[small] = min(end, self.high.get(small, end))
        elif isinstance(large, Var) and small.is_const:
            end = int(small.data) + strict
            self.low[large] = max(end, self.low.get(large, end))

    def read(self, root: Expr) -> tuple[tuple[Row, ...], dict[Expr, int]]:
        """The rows of an expression from bit 0 on, and its multiples of tails.

        Raises
        ------
        _UnreadError: it is no such form.
        """
        for node in dag.postorder((root,)):
            if isinstance(node, Expr) and node not in self._known:
                self._known[node] = self._of(node)
        found: _Form | None = self._known[root]
        if found is None:
            raise _UnreadError
        return found

    def _of(self, e: Expr) -> _Form | None:
        if isinstance(e, Var):
            return self._variable(e)
        if e.is_const:
            return _rows_of_number(int(e.data)) if e.data >= 0 else None
        if e.op not in _READ:
            raise _UnreadError
        negative = [k for k, arg in enumerate(e.args) if self._known[arg] is None]
        if negative and (len(negative) == 2 or e.op not in _WITH_NEGATIVE or (e.op is ops.SUB and negative == [0])):
            raise _UnreadError
        rows, tails = _READ[e.op](e, *(self._known[arg] for arg in e.args))
        while rows and not rows[-1] and not tails:
            rows = rows[:-1]
        return rows, tails

    def _variable(self, v: Var) -> tuple[tuple[Row, ...], dict[Expr, int]]:
        low, high = self.low.get(v), self.high.get(v)
        if low is None or low < 0:
            raise _UnreadError
        if high is None:
            return tuple(frozenset({(v, b)}) for b in range(TAIL_BITS)), {v: 1 << TAIL_BITS}
        bits = max(high - low, 0).bit_length()
        if low % (1 << bits):
            low, bits = 0, high.bit_length()
        if bits > BIT_WIDTH:
            raise _UnreadError
        rows: tuple[Row, ...] = tuple(frozenset({(v, b)}) for b in range(bits))
        return _added((rows, {}), _rows_of_number(low))

    def is_whole(self, v: Var) -> bool:
        """Whether a variable runs over a power of two of numbers from a multiple of it on."""
        low, high = self.low.get(v), self.high.get(v)
        if low is None or high is None or high < low:
            return False
        extent = high - low + 1
        return not extent & (extent - 1) and not low % extent


_Form = tuple[tuple[Row, ...], dict[Expr, int]]


def _rows_of_number(value: int) -> _Form:
    return tuple(frozenset({ONE}) if value >> p & 1 else NOTHING for p in range(value.bit_length())), {}


def _row(form: _Form, p: int) -> Row:
    if p < len(form[0]):
        return form[0][p]
    if form[1]:
        raise _UnreadError
    return NOTHING


def _both(a: _Form, b: _Form) -> int:
    """The number of rows of a sum; no row may stand beside a tail."""
    ends = [len(form[0]) for form in (a, b) if form[1]]
    width = min(ends) if ends else max(len(a[0]), len(b[0]))
    if any(row for form in (a, b) for row in form[0][width:]):
        raise _UnreadError
    return width


def _low_row(form: _Form, p: int) -> Row:
    return form[0][p] if p < len(form[0]) else NOTHING


def _added(a: _Form, b: _Form, sign: int = 1) -> _Form:
    width, rows = _both(a, b), []
    for p in range(width):
        x, y = _low_row(a, p), _low_row(b, p)
        if sign > 0 and x and y:
            raise _UnreadError  # it may carry
        if sign < 0 and y and x != y and x != frozenset({ONE}):
            raise _UnreadError  # it may borrow
        rows.append(x ^ y)
    tails = {v: a[1].get(v, 0) + sign * b[1].get(v, 0) for v in {**a[1], **b[1]}}
    return tuple(rows), {v: factor for v, factor in tails.items() if factor}


def _number(e: Expr) -> int:
    if not e.is_const:
        raise _UnreadError
    return int(e.data)


def _sum(e: Expr, a: _Form, b: _Form) -> _Form:
    left, right = e.args
    sign = 1 if e.op is ops.ADD else -1
    if right.is_const and right.data < 0:
        return _added(a, _rows_of_number(-int(right.data)), -sign)
    if left.is_const and left.data < 0 and sign > 0:
        return _added(b, _rows_of_number(-int(left.data)), -1)
    return _added(a, b, sign)


def _xored(e: Expr, a: _Form, b: _Form) -> _Form:
    if a[1] and b[1] and a[1] != b[1]:
        raise _UnreadError
    rows = tuple(_low_row(a, p) ^ _low_row(b, p) for p in range(_both(a, b)))
    return rows, {} if a[1] and b[1] else {**a[1], **b[1]}


def _masked(a: _Form, mask: int) -> _Form:
    if mask >= 0:
        return tuple(_row(a, p) if mask >> p & 1 else NOTHING for p in range(mask.bit_length())), {}
    if a[1] and (~mask).bit_length() > len(a[0]):
        raise _UnreadError
    return tuple(row if mask >> p & 1 else NOTHING for p, row in enumerate(a[0])), a[1]


def _joined(e: Expr, a: _Form, b: _Form) -> _Form:
    for arg, other in ((e.args[0], b), (e.args[1], a)):
        if arg.is_const:
            return _added(_masked(other, ~int(arg.data)), _rows_of_number(int(arg.data)))
    if a[1] and b[1]:
        raise _UnreadError  # tails may have common bits
    return _added(a, b)


def _up(a: _Form, by: int) -> _Form:
    if not 0 <= by <= BIT_WIDTH:
        raise _UnreadError
    return (*[NOTHING] * by, *a[0]), {v: factor << by for v, factor in a[1].items()}


def _down(a: _Form, by: int) -> _Form:
    if by < 0 or (a[1] and by > len(a[0])):
        raise _UnreadError
    return a[0][by:], {v: factor >> by for v, factor in a[1].items()}


def _nonnegative(a: _Form) -> _Form:
    if any(factor < 0 for factor in a[1].values()):
        raise _UnreadError
    return a


def _power(e: Expr) -> int:
    return _exponent(_number(e))


def _multiple(a: _Form, factor: int) -> _Form:
    if not 0 <= factor < 1 << BIT_WIDTH:
        raise _UnreadError
    parts = [_up(a, p) for p in range(factor.bit_length()) if factor >> p & 1]
    total: _Form = ((), {})
    for part in parts:
        total = _added(total, part)
    return total


def _with_number(combined: Callable[[_Form, int], _Form]) -> Callable[..., _Form]:
    def read(e: Expr, a: _Form, b: _Form) -> _Form:
        left, right = e.args
        return combined(a, _number(right)) if right.is_const else combined(b, _number(left))

    return read


_READ: Final[Mapping[ops.Op, Callable[..., _Form]]] = {
    ops.ADD: _sum,
    ops.SUB: _sum,
    ops.BITXOR: _xored,
    ops.BITOR: _joined,
    ops.BITAND: _with_number(_masked),
    ops.MUL: _with_number(_multiple),
    ops.SHL: lambda e, a, b: _up(a, _number(e.args[1])),
    ops.SHR: lambda e, a, b: _down(a, _number(e.args[1])),
    ops.FLOORDIV: lambda e, a, b: _down(a, _power(e.args[1])),
    ops.TRUNCDIV: lambda e, a, b: _down(_nonnegative(a), _power(e.args[1])),
    ops.FLOORMOD: lambda e, a, b: _masked(a, (1 << _power(e.args[1])) - 1),
    ops.TRUNCMOD: lambda e, a, b: _masked(_nonnegative(a), (1 << _power(e.args[1])) - 1),
}


_WITH_NEGATIVE: Final = frozenset((ops.ADD, ops.SUB, ops.BITAND))


def summed(rows: Iterable[Row]) -> Row:
    return reduce(lambda a, b: a ^ b, rows, NOTHING)


# -- proofs ------------------------------------------------------------------------------------------------------------


def check_bits(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the stated sums of rows make each way in which the goal could fail impossible.

    The text is a list: for each conjunct of the goal, the number of an assumed inequation or null, and for each of its
    bits (for null: once) the pairs of an assumed equation and a bit that sum to it (for null: to 1).
    """
    premises = premises_of(cert)
    budget.spend_nodes(cert.goal, *premises)
    budget.spend(len(cert.text))
    rows = BitRows(premises)
    stated = [part for fact in cert.facts for part in dag.conjuncts(fact.condition) if part.op in (ops.EQ, ops.NE)]
    goals = list(dag.conjuncts(cert.goal))
    try:
        cases = json.loads(cert.text)
        if cert.vacuous or not isinstance(cases, list) or len(cases) != len(goals):
            return False
        return all(
            _is_impossible([*stated, *_negated(part)], case, rows, budget)
            for part, case in zip(goals, cases, strict=True)
        )
    except (_UnreadError, ValueError, TypeError, IndexError, KeyError, RecursionError):
        return False


def _negated(part: Cond) -> list[Cond]:
    """The equations and inequations that hold where a disjunction fails, in the order of its operands."""
    if part.op is ops.OR:
        return [literal for operand in part.args for literal in _negated(operand)]
    if part.op is ops.NOT and part.args[0].op in (ops.EQ, ops.NE):
        return [part.args[0]]
    return [make(ops.NEGATED[part.op], part.args)] if part.op in (ops.EQ, ops.NE) else []


def _is_impossible(literals: Sequence[Cond], case: Any, rows: BitRows, budget: CheckBudget) -> bool:
    number, sums = case

    def difference(k: Any) -> _Form:
        if type(k) is not int or not 0 <= k < len(literals):
            raise _UnreadError
        a, b = (rows.read(side) for side in literals[k].args)
        width = _both(a, b)
        tails = {v: a[1].get(v, 0) - b[1].get(v, 0) for v in {**a[1], **b[1]}}
        found = tuple(_low_row(a, p) ^ _low_row(b, p) for p in range(width))
        return found, {v: factor for v, factor in tails.items() if factor}

    def total(pairs: Any) -> Row:
        budget.spend(len(pairs) * BIT_WIDTH)
        chosen = []
        for k, p in pairs:
            form = difference(k)
            if literals[k].op is not ops.EQ or type(p) is not int or not 0 <= p < len(form[0]):
                raise _UnreadError
            chosen.append(form[0][p])
        return summed(chosen)

    if number is None:
        return len(sums) == 1 and total(sums[0]) == frozenset({ONE})
    goal, tails = difference(number)
    if literals[number].op is not ops.NE or len(sums) != len(goal):
        return False
    if not all(total(pairs) == row for pairs, row in zip(sums, goal, strict=True)):
        return False
    known = [difference(k)[1] for pairs in sums for k, _ in pairs]
    return not tails or any(_is_multiple(tails, one) for one in known)


def _is_multiple(a: Mapping[Expr, int], b: Mapping[Expr, int]) -> bool:
    if a.keys() != b.keys():
        return False
    v = next(iter(a))
    return all(a[v] * b[u] == b[v] * a[u] for u in a)


# -- addresses ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankEvidence:
    """The rank of some rows.

    Attributes
    ----------
    pivots: for each of `rank` rows a set of rows, and a column that its sum alone among these sums has.
    dependencies: each other row, with the rows of `pivots` that sum to it; linear parts alone.
    """

    pivots: tuple[tuple[tuple[int, ...], Column], ...]
    dependencies: tuple[tuple[int, tuple[int, ...]], ...]

    def is_rank_of(self, rows: Sequence[Row]) -> bool:
        """Whether the evidence proves that the rows have the rank `len(pivots)`."""
        linear = [row - {ONE} for row in rows]
        sums = [summed(linear[k] for k in chosen) for chosen, _ in self.pivots]
        columns = [column for _, column in self.pivots]
        if any((column in total) != (i == k) for i, total in enumerate(sums) for k, column in enumerate(columns)):
            return False
        depends = dict(self.dependencies)
        free = [k for k in range(len(rows)) if linear[k] and k not in depends]
        used = {k for chosen, _ in self.pivots for k in chosen} | {k for ks in depends.values() for k in ks}
        return (
            len(free) == len(self.pivots)
            and used <= set(free)
            and all(linear[k] == summed(linear[m] for m in ks) for k, ks in depends.items())
        )


@dataclass(frozen=True)
class AddressCertificate:
    """Evidence for a property of all values of a byte address.

    Guarantee: if `check()` accepts, the claim is true; with `is_exact`, `value` is the largest such number (for
    alignment and contiguity), or the number of words (for conflicts).

    Attributes
    ----------
    claim: "conflicts", "contiguity" or "alignment".
    address: in bytes.
    ranges: of its variables.
    variables: the lanes, or the variable that runs.
    sizes: banks and bytes of a word, or the step in bytes.
    value, is_exact: the answer.
    ranks: of the rows of words and of banks.
    """

    claim: str
    address: Expr
    ranges: tuple[tuple[Var, Range], ...]
    variables: tuple[Var, ...]
    sizes: tuple[int, ...]
    value: int
    is_exact: bool
    ranks: tuple[RankEvidence, ...] = ()

    def check(self) -> bool:
        """Whether the checker accepts; it reads the address by its own code."""
        conditions = [cond for v, limits in self.ranges for cond in range_conditions(v, limits)]
        rows = BitRows(conditions)
        try:
            form = rows.read(self.address)
            moving = self.variables if self.claim == "conflicts" else self.address.free_vars()
            if self.is_exact and not all(map(rows.is_whole, moving)):
                return False
            if self.claim == "contiguity":
                return self._contiguity(form, rows)
            return {"conflicts": self._conflicts, "alignment": self._alignment}[self.claim](form)
        except (_UnreadError, KeyError, ValueError, TypeError, IndexError):
            return False

    def _conflicts(self, form: _Form) -> bool:
        banks, width = map(_exponent, self.sizes)
        if any(v in form[1] for v in self.variables):
            return False
        words = [_of(row, self.variables) for row in form[0][width:]]
        of_words, of_banks = self.ranks
        if not of_words.is_rank_of(words) or not of_banks.is_rank_of(words[:banks]):
            return False
        return self.value == 1 << len(of_words.pivots) - len(of_banks.pivots)

    def _alignment(self, form: _Form) -> bool:
        bits = _exponent(self.value)
        if any(form[0][:bits]):
            return False
        if any(factor % self.value for factor in form[1].values()):
            return False
        return not self.is_exact or bool(_row(form, bits))

    def _contiguity(self, form: _Form, rows: BitRows) -> bool:
        (v,), (step,) = self.variables, self.sizes
        bits, shift = _exponent(self.value), _exponent(step)
        if not all(_is_step(form, v, b, shift + b) for b in range(bits)):
            return False
        low, high = rows.low.get(v), rows.high.get(v)
        if low is not None and high is not None and not _has_run(low, max(low, high), self.value):
            return False
        flipped = sum((v, bits) in row for row in form[0])  # several may add a power of two as well
        return not self.is_exact or flipped <= 1 and not _is_step(form, v, bits, shift + bits)


def _has_run(low: int, high: int, length: int) -> bool:
    """Whether [low, high] contains `length` numbers from a multiple of it on."""
    return -(-low // length) * length + length - 1 <= high


def _exponent(size: int) -> int:
    """The exponent of a power of two.

    Raises
    ------
    _UnreadError: it is none.
    """
    if type(size) is not int or size < 1 or size & (size - 1):
        raise _UnreadError
    return size.bit_length() - 1


def _of(row: Row, variables: Collection[Var]) -> Row:
    return frozenset(column for column in row if column[0] in variables)


def _is_step(form: _Form, v: Var, b: int, p: int) -> bool:
    """Whether bit `b` of a variable is bit `p` of a number, and nothing else."""
    column: Column = (v, b)
    rows = form[0]
    return p < len(rows) and rows[p] == {column} and sum(column in row for row in rows) == 1
