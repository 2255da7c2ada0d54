"""The plain way: exact ends of an expression over a box of integers, in one pass over its nodes.

Every node gets a row. Operands without a common variable combine by one rule an operation. Where they share variables,
a sum falls into parts that share none, and the first and last period of each variable are enumerated: a sum
x // 8 * 3 + x % 8 grows by 3 whenever `x` grows by 8, so its ends are at the first and last 8 values of `x`.

Where periods are long, a sum is written over independent digits (`x // 8 % 4` and `x % 8` are two digits of `x`), after
equal terms have cancelled. Digits are dependent where the range of `x` ends inside a block; a sum of them that rises or
falls with `x` is evaluated at the ends of `x`. Small boxes of dependent terms are enumerated.

    (i*4 + j) // 8 % 4 * 16 + (i*4 + j) % 8         i in [0, 16), j in [0, 4)
    x = i*4 + j     [0, 63], every integer: one contiguous variable
    x // 8 % 4      the digit of x between 8 and 32: [0, 3]
    x % 8           the digit of x below 8: [0, 7]        independent of the other, so 3*16 + 7 is attained
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from math import gcd, prod
from operator import or_
from typing import Any, NamedTuple, TypeAlias

from intset.expr import Node, Range, const, ops
from intset.expr.node import PlainVar, ShapeVar, make
from intset.expr.ops import Op
from intset.expr.storage import plain_ends

MOST_NODES = 128  # of an expression whose sums are taken apart
MOST_POINTS = 1 << 18
FEW_POINTS = 1 << 11  # points of a box that is enumerated whole
SAMPLES = 1 << 9  # points at which the ends of dependent operands are looked for
STEPS = 1 << 21  # points times nodes of one enumeration
LONGEST = 1 << 256  # an end beyond takes the general road, which has a budget for long numbers
SHORT_ARRAY = 1 << 9  # numbers whose remainders numpy takes one by one, which costs less than three operations
WIDE = 1 << 40  # the largest number in an enumeration: sums of multiples stay within 63 bits

ValueRow: TypeAlias = tuple[int, int, int, int, int, int, int]
"""The values of a node over the box: (low, high, gap, step, free, least, most).

Invariant: all values lie in [low, high], are congruent to `low` modulo `step` (0: one value) and depend on the
variables of the mask `free` alone. A positive `gap` says that both ends are attained and that neighbouring values
differ by at most `gap`; `gap == step` is an arithmetic progression, `gap == 1` every integer between the ends. A gap of
0 says nothing. `least` and `most` are corners of the box that attain `low` and `high`; `UNKNOWN` says nothing.

Each variable has two bits: `free` has both; a corner has the first where the variable is at its low end, the second
where it is at its high end, and none where its value does not matter.
"""

UNKNOWN = -1  # no corner; joined with any corner it is none
MOST_BITS = 4096  # of variables
FIRST_BITS = ((1 << MOST_BITS) - 1) // 3  # of the two bits of each variable


class ValueRows(dict[Node, ValueRow]):
    """The rows of nodes over one box. `bits`: those given to variables so far; `points`: of these variables."""

    __slots__ = ("bits", "points")

    def __init__(self) -> None:
        self.bits, self.points = 0, 1

    def variable(self, low: int, high: int) -> ValueRow:
        """The row of a variable with all values of [low, high]."""
        if low == high:
            return low, low, 1, 0, 0, 0, 0
        bits = self.bits
        if bits == MOST_BITS:
            raise NoRuleError
        self.bits, self.points = bits + 2, self.points * (high - low + 1)
        return low, high, 1, 1, 3 << bits, 1 << bits, 2 << bits


BoxRanges: TypeAlias = Mapping[Any, Range]


class NoRuleError(Exception):
    """An operation or a range outside the tables; never leaves this module."""


def ends(
    root: Node, ranges: BoxRanges, points: int = MOST_POINTS, shared: ValueRows | None = None
) -> tuple[int, int, bool] | None:
    """Attained lower and upper end of `root`, and whether interval arithmetic found both; a condition counts as 0 or 1.

    Parameters
    ----------
    points: the budget of evaluated points.
    shared: rows of earlier expressions over the same box, which this one adds to.

    Guarantee: both are attained. `None`: an operation without a rule, a range without numbers, an empty range, or a
    box of dependent terms too large to enumerate.
    """
    if plain_ends is not None and (decided := plain_ends(root, ranges, points)) is not None:
        return decided
    rows = ValueRows() if shared is None else shared
    try:
        row = rows.get(root) or _row(root, rows, ranges)
        low, high, gap, _, _, least, most = row
        if gap or (least >= 0 and most >= 0):
            return low, high, True
        if rows is shared:
            return ends(root, ranges, points)  # whose further steps depend on the number of rows
        found = None if rows.points <= FEW_POINTS else _ends_of_parts(root, rows, ranges, points)
        found = found or _ends_of_periods(root, rows, points)
        if found is None and points >= SAMPLES and _attained_at_samples(root, rows):
            return low, high, True
        if found is None and (exact := _of_dependent(root, rows, points)) is not None:
            found = exact[:2]
    except (NoRuleError, RecursionError):
        return None
    return None if found is None else (*found, found == (low, high))


def progression(root: Node, ranges: BoxRanges, points: int) -> tuple[int, int, int] | None:
    """(first, step, number) of the values of `root`, if they are proved to be an arithmetic progression."""
    rows = ValueRows()
    try:
        row = _row(root, rows, ranges)
        exact = row if row[2] else _of_dependent(root, rows, points)
    except (NoRuleError, RecursionError):
        return None
    if exact is None or (exact[3] and exact[2] != exact[3]):
        return None
    low, high, _, step, _, _, _ = exact
    return low, step or 1, (high - low) // (step or 1) + 1


def _row(node: Node, rows: ValueRows, ranges: BoxRanges) -> ValueRow:
    """Compute the row of a node from its operands' rows."""
    op = node.op
    if op is ops.CONST or op is ops.BOOL:
        value = int(node.data)
        row: ValueRow = (value, value, 1, 0, 0, 0, 0)
    elif op is ops.VAR:
        limits = ranges.get(node)
        is_free = type(node) is PlainVar or not isinstance(node, ShapeVar)  # the quicker test first
        span = limits.ends if limits is not None and is_free else None
        if span is None or span[0] > span[1]:
            raise NoRuleError
        row = rows.variable(span[0], span[1])
    else:
        rule = RULES.get(op)
        if rule is None:
            raise NoRuleError
        args = node.args
        if len(args) == 2:
            a, b = args
            left, right = rows.get(a) or _row(a, rows, ranges), rows.get(b)
            if right is None:
                if b.op is ops.CONST:  # most right operands
                    right = rows[b] = b.data, b.data, 1, 0, 0, 0, 0
                else:
                    right = _row(b, rows, ranges)
            row = rule(left, right)
        else:
            row = rule(*[rows.get(arg) or _row(arg, rows, ranges) for arg in args])
        if row[0] < -LONGEST or row[1] > LONGEST:
            raise NoRuleError
    rows[node] = row
    return row


def _single(value: int) -> ValueRow:
    return value, value, 1, 0, 0, 0, 0


# -- one rule an operation, from the rows of its operands ------------------------------------------------------------


def _joined(
    low: int, high: int, gap: int, step: int, x: ValueRow, y: ValueRow, least: int = UNKNOWN, most: int = UNKNOWN
) -> ValueRow:
    """The row of a result whose ends are attained if both operands' are and they share no variable, or at corners.

    `gap`: that of operands without a common variable. `least`, `most`: the corners joined, of which some may clash.
    """
    if low == high:
        return low, low, 1, 0, 0, 0, 0
    if least & least >> 1 & FIRST_BITS:
        least = UNKNOWN
    if most & most >> 1 & FIRST_BITS:
        most = UNKNOWN
    if not (x[2] and y[2]) or x[4] & y[4]:
        gap = 0
    return low, high, gap, step, x[4] | y[4], least, most


def _add(x: ValueRow, y: ValueRow) -> ValueRow:
    low, high, gap, step, free, least, most = x
    first, last, other, stride, also, lower, upper = y
    if not stride:
        return low + first, high + first, gap, step, free, least, most
    if not step:
        return low + first, low + last, other, stride, also, lower, upper
    least |= lower
    if least & least >> 1 & FIRST_BITS:
        least = UNKNOWN
    most |= upper
    if most & most >> 1 & FIRST_BITS:
        most = UNKNOWN
    apart = gap and other and not free & also  # then: one operand's set, shifted by each element of the other set
    gap = min(max(other, gap - last + first), max(gap, other - high + low)) if apart else 0
    return low + first, high + last, gap, gcd(step, stride), free | also, least, most


def _neg(x: ValueRow) -> ValueRow:
    return -x[1], -x[0], x[2], x[3], x[4], x[6], x[5]


def _sub(x: ValueRow, y: ValueRow) -> ValueRow:
    if not y[3]:
        return x[0] - y[0], x[1] - y[0], x[2], x[3], x[4], x[5], x[6]
    return _add(x, _neg(y))


def _mul(x: ValueRow, y: ValueRow) -> ValueRow:
    if not y[3]:
        return _scaled(x, y[0])
    if not x[3]:
        return _scaled(y, x[0])
    corners = [(x[a] * y[b], x[a + 5] | y[b + 5]) for a in (0, 1) for b in (0, 1)]
    (low, least), (high, most) = min(corners), max(corners)
    return _joined(low, high, high - low, gcd(x[3] * y[3], x[3] * y[0], y[3] * x[0]), x, y, least, most)


def _scaled(x: ValueRow, k: int) -> ValueRow:
    low, high, gap, step, free, least, most = x
    if not step or not k:
        return _single(low * k)
    if k > 0:
        return low * k, high * k, gap * k, step * k, free, least, most
    return high * k, low * k, gap * -k, step * -k, free, most, least


def _floordiv(x: ValueRow, y: ValueRow) -> ValueRow:
    low, high, gap, step, free, least, most = x
    c = _divisor(y)
    first, last = low // c, high // c
    if first == last:
        return _single(first)
    return first, last, -(-gap // c), 1 if step % c else step // c, free, least, most


def _ceildiv(x: ValueRow, y: ValueRow) -> ValueRow:
    return _neg(_floordiv(_neg(x), y))


def _divisor(y: ValueRow) -> int:
    if y[3] or y[0] <= 0:
        raise NoRuleError
    return y[0]


def _floormod(x: ValueRow, y: ValueRow) -> ValueRow:
    low, high, gap, step, free, at_low, at_high = x
    c = _divisor(y)
    first, last = low % c, high % c
    if low // c == high // c:
        return first, last, gap, step, free, at_low, at_high
    common = gcd(step, c)
    lowest = low % common
    highest = c - common + lowest
    if lowest == highest:
        return _single(lowest)
    least = at_low if first == lowest else at_high if last == lowest else UNKNOWN
    most = at_high if last == highest else at_low if first == highest else UNKNOWN
    if gap != step:  # some terms of the progression may be missing
        return lowest, highest, 0, common, free, least, most
    if high - low >= step * (c // common - 1):
        return lowest, highest, common, common, free, least, most
    if common == step:  # one wrap: from `lowest` up, then up to `highest`
        return lowest, highest, max(step, first - last), step, free, least, most
    return lowest, highest, 0, common, free, least, most


def _truncated(rule: Callable[[ValueRow, ValueRow], ValueRow]) -> Callable[[ValueRow, ValueRow], ValueRow]:
    """The rule of a division that rounds to 0: nonnegative dividends have the rule of floor division."""

    def row(x: ValueRow, y: ValueRow) -> ValueRow:
        if x[0] < 0:
            raise NoRuleError
        return rule(x, y)

    return row


def _minimum(x: ValueRow, y: ValueRow) -> ValueRow:
    return _neg(_maximum(_neg(x), _neg(y)))


def _maximum(x: ValueRow, y: ValueRow) -> ValueRow:
    if x[0] >= y[1] or y[0] >= x[1]:
        return x if x[0] >= y[1] else y
    low, high = max(x[0], y[0]), max(x[1], y[1])
    most = max(x[6], y[6]) if x[1] == y[1] else x[6] if x[1] == high else y[6]
    return _joined(low, high, max(x[2], y[2]), gcd(x[3], y[3], x[0] - y[0]), x, y, x[5] | y[5], most)


def _select(chosen: ValueRow, x: ValueRow, y: ValueRow) -> ValueRow:
    if not chosen[3]:
        return x if chosen[0] else y
    low, high = min(x[0], y[0]), max(x[1], y[1])
    if low == high:
        return _single(low)
    least = chosen[6] | x[5] if x[0] == low else chosen[5] | y[5]
    most = chosen[6] | x[6] if x[1] == high else chosen[5] | y[6]
    gap = 0
    if x[2] and y[2]:
        gap = max(x[2], y[2], max(x[0], y[0]) - min(x[1], y[1]))  # the last: between two sets that lie apart
    both = low, high, gap, 0, x[4] | y[4], 0, 0
    return _joined(low, high, gap, gcd(x[3], y[3], x[0] - y[0]), chosen, both, least, most)


def _compared(
    always: bool, never: bool, x: ValueRow, y: ValueRow, least: int = UNKNOWN, most: int = UNKNOWN
) -> ValueRow:
    if always or never:
        return _single(int(always))
    return _joined(0, 1, 1, 1, x, y, least, most)


def _lt(x: ValueRow, y: ValueRow) -> ValueRow:
    return _compared(x[1] < y[0], x[0] >= y[1], x, y, x[6] | y[5], x[5] | y[6])


def _le(x: ValueRow, y: ValueRow) -> ValueRow:
    return _compared(x[1] <= y[0], x[0] > y[1], x, y, x[6] | y[5], x[5] | y[6])


def _eq(x: ValueRow, y: ValueRow) -> ValueRow:
    step = gcd(x[3], y[3])
    apart = x[1] < y[0] or y[1] < x[0] or bool(step and (x[0] - y[0]) % step)
    row = _compared(x[0] == x[1] == y[0] == y[1], apart, x, y)
    return row if not row[3] or _meets(x, y) or _meets(y, x) else (0, 1, 0, 1, row[4], UNKNOWN, UNKNOWN)


def _meets(x: ValueRow, y: ValueRow) -> bool:
    """Whether an end of `y` is a value of `x`."""
    return any(end == x[0] or end == x[1] or (x[2] == 1 and x[0] < end < x[1]) for end in y[:2])


def _not(x: ValueRow) -> ValueRow:
    return 1 - x[1], 1 - x[0], x[2], x[3], x[4], x[6], x[5]


ZERO = _single(0)
RULES: Mapping[Op, Callable[..., ValueRow]] = {
    ops.ADD: _add,
    ops.SUB: _sub,
    ops.NEG: _neg,
    ops.MUL: _mul,
    ops.FLOORDIV: _floordiv,
    ops.FLOORMOD: _floormod,
    ops.CEILDIV: _ceildiv,
    ops.TRUNCDIV: _truncated(_floordiv),
    ops.TRUNCMOD: _truncated(_floormod),
    ops.MIN: _minimum,
    ops.MAX: _maximum,
    ops.SELECT: _select,
    ops.LT: _lt,
    ops.LE: _le,
    ops.GT: lambda x, y: _lt(y, x),
    ops.GE: lambda x, y: _le(y, x),
    ops.EQ: _eq,
    ops.NE: lambda x, y: _not(_eq(x, y)),
    ops.AND: _minimum,
    ops.OR: _maximum,
    ops.NOT: _not,
}
COMPARED = frozenset((ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE))


# -- dependent operands ----------------------------------------------------------------------------------------------

LEAVES = frozenset((ops.CONST, ops.BOOL, ops.VAR))
LINEAR = frozenset((ops.ADD, ops.SUB, ops.NEG, ops.MUL))
LinearSum: TypeAlias = tuple[dict[Node, int], int]
"""Multiples of terms that are no sums, and a constant: a linear form."""


class _DigitTerm(NamedTuple):
    """A term of a sum: `k * term`, where `term == base // first % width`; a width of 0 for no remainder."""

    term: Node
    first: int
    width: int
    k: int


def _of_dependent(root: Node, rows: ValueRows, points: int) -> ValueRow | None:
    """The exact row of a node of moderate size whose operands share variables.

    Sums are cancelled; then points are enumerated.
    """
    if len(rows) > MOST_NODES:
        return None
    return _Dependent(rows, points).row(root)


class _Dependent:
    """The exact rows of nodes whose operands share variables.

    Parameters
    ----------
    points: the budget of one enumeration; 0 for none.
    """

    def __init__(self, rows: ValueRows, points: int) -> None:
        self.rows, self.points = rows, points
        self.forms: dict[Node, LinearSum] = {}

    def row(self, root: Node) -> ValueRow | None:
        """The exact row of a node, by the first way that decides it.

        Sums below it are cancelled, innermost first; then the whole is enumerated; then its parts, innermost first.
        """
        row = self.cancelled(root) or _listed([(root, 1)], self.rows, self.points)
        return row or self.cancelled(root, listing=True)

    def cancelled(self, root: Node, listing: bool = False) -> ValueRow | None:
        """The exact row of a node after sums below it are cancelled and, if `listing`, other nodes are enumerated."""
        rows = self.rows
        for node in tuple(rows):  # operands first
            if node.op not in LEAVES and not rows[node][2]:
                rows[node] = self._again(node, node is root, listing)
        return rows[root] if rows[root][2] else None

    def _again(self, node: Node, is_root: bool, listing: bool) -> ValueRow:
        """Apply the rule of a node again, after its operands became exact sums."""
        rows, args, is_linear = self.rows, node.args, node.op in LINEAR
        below = [rows[arg] for arg in args]
        if (node.op is ops.FLOORDIV or node.op is ops.FLOORMOD) and node not in self.form(node)[0]:
            return self.summed([(node, 1)]) or rows[node]
        if node.op in COMPARED and below[0][4] & below[1][4]:  # a < b as a - b < 0
            apart = self.summed([(args[0], 1), (args[1], -1)])
            below = below if apart is None else [apart, ZERO]
        elif not is_linear:
            for k, arg in enumerate(args):
                if not below[k][2] and arg.op in LINEAR:
                    below[k] = rows[arg] = self.summed([(arg, 1)]) or below[k]
        row = RULES[node.op](*below)
        if row[2]:
            return row
        if is_linear and is_root:
            return self.summed([(node, 1)]) or row
        return (_listed([(node, 1)], rows, self.points) if listing and not is_linear else None) or row

    def summed(self, pairs: Sequence[tuple[Node, int]]) -> ValueRow | None:
        """The exact row of a sum of multiples of nodes: equal terms cancel, digits join, dependent terms are listed."""
        rows, offset = self.rows, 0
        while True:
            terms, added = self.form_of(pairs)
            offset += added
            groups: dict[Node, list[_DigitTerm]] = {}
            for term, k in terms.items():
                base, first, width = _digit(term, rows)
                groups.setdefault(base, []).append(_DigitTerm(term, first, width, k))
            pieces = {base: _pieces(digits) for base, digits in groups.items()}
            whole = [
                (base, cut[0][2])
                for base, cut in pieces.items()
                if base.op in LINEAR and base not in terms and cut and cut[0][:2] == (1, 0)
            ]
            if not whole:
                break
            base, k = whole[0]  # its digits add up to the sum: expand it
            pairs = [(digit.term, digit.k) for other in groups if other is not base for digit in groups[other]]
            pairs.append((base, k))
        total = _single(offset)
        for part in _components({base: rows[base][4] for base in groups}):
            alone = len(part) == 1
            cut = pieces[part[0]] if alone else None
            row = None if cut is None else _sum_of_pieces(rows[part[0]], cut)
            if row is None and self.points:
                own = [(digit.term, digit.k) for base in part for digit in groups[base]]
                row = _listed(own, rows, self.points, part if alone else ())
            if row is None:
                return None
            total = _add(total, row)
        return total

    def form(self, node: Node) -> LinearSum:
        """The linear form of a node; quotients and remainders of sums are taken apart."""
        known = self.forms.get(node)
        if known is not None:
            return known
        rows, op, args = self.rows, node.op, node.args
        found: LinearSum = {node: 1}, 0
        if not rows[node][3]:
            found = {}, rows[node][0]
        elif op is ops.ADD or op is ops.SUB:
            found = self.form_of(((args[0], 1), (args[1], 1 if op is ops.ADD else -1)))
        elif op is ops.NEG:
            found = self.form_of(((args[0], -1),))
        elif op is ops.MUL and not (rows[args[0]][3] and rows[args[1]][3]):
            at = 0 if rows[args[0]][3] else 1
            found = self.form_of(((args[at], rows[args[1 - at]][0]),))
        elif (op is ops.FLOORDIV or op is ops.FLOORMOD) and (split := self._split(op, *args)) is not None:
            terms, constant, tail = split
            found = terms if tail is None else {**terms, tail: terms.get(tail, 0) + 1}, constant
        self.forms[node] = found
        return found

    def form_of(self, pairs: Iterable[tuple[Node, int]]) -> LinearSum:
        """The linear form of a sum of multiples of nodes."""
        total: dict[Node, int] = {}
        offset = 0
        for node, k in pairs:
            terms, constant = self.form(node)
            offset += k * constant
            for term, scale in terms.items():
                total[term] = total.get(term, 0) + k * scale
        return {term: k for term, k in total.items() if k}, offset

    def _split(self, op: Op, x: Node, divisor: Node) -> tuple[dict[Node, int], int, Node | None] | None:
        """A quotient or remainder of a sum without its multiples of the divisor `c`; `None` without gain.

        With x == c*q + r: x // c == q + r // c and x % c == r % c; where r lies in one block of `c`, r // c is a
        number and r % c a sum. Returned are a linear form, its constant, and the node for r // c or r % c, if needed.
        """
        rows = self.rows
        c = rows[divisor][0]
        terms, offset = self.form(x)
        rest = {term: k for term, k in terms.items() if k % c}
        low = high = offset % c
        for term, k in rest.items():
            least, most = _scaled(rows[term], k)[:2]
            low, high = low + least, high + most
        block = low // c
        quotient = {term: k // c for term, k in terms.items() if not k % c}
        if block == high // c:
            return (quotient, offset // c + block, None) if op is ops.FLOORDIV else (rest, offset % c - block * c, None)
        if not quotient:
            return None
        tail = self._made(op, self.sum_of(rest, offset % c), divisor)
        return (quotient, offset // c, tail) if op is ops.FLOORDIV else ({}, 0, tail)

    def sum_of(self, terms: Mapping[Node, int], offset: int) -> Node:
        """The node of a linear form, with its row."""
        total: Node | None = None
        for term, k in terms.items():
            part = term if k == 1 else self._made(ops.MUL, term, const(k))
            total = part if total is None else self._made(ops.ADD, total, part)
        assert total is not None
        total = total if not offset else self._made(ops.ADD, total, const(offset))
        if not self.rows[total][2]:
            self.rows[total] = self.summed([(total, 1)]) or self.rows[total]
        return total

    def _made(self, op: Op, x: Node, y: Node) -> Node:
        """A new node of two operands, with its row."""
        node: Node = make(op, (x, y))
        rows = self.rows
        if y not in rows:
            rows[y] = _single(y.data)
        if node not in rows:
            rows[node] = RULES[op](rows[x], rows[y])
        return node


def _digit(node: Node, rows: ValueRows) -> tuple[Node, int, int]:
    """(base, first, width) with `node == base // first % width`; a width of 0 for no remainder."""
    chain: list[tuple[Op, int, Node]] = []
    while (node.op is ops.FLOORDIV or node.op is ops.FLOORMOD) and not rows[node.args[1]][3]:
        chain.append((node.op, rows[node.args[1]][0], node))
        node = node.args[0]
    base, first, width = node, 1, 0
    for op, c, whole in reversed(chain):
        if op is ops.FLOORDIV and width % c == 0:
            first, width = first * c, width // c
        elif op is ops.FLOORMOD and (not width or width % c == 0):
            width = c
        elif op is ops.FLOORDIV or c % width:
            base, first, width = whole, 1, 0
    return base, first, width


def _components(free: Mapping[Node, int]) -> list[list[Node]]:
    """The nodes in groups that share no bit of the masks given."""
    groups: list[tuple[int, list[Node]]] = []
    for node, bits in free.items():
        own, apart = [node], []
        for group in groups:
            if bits & group[0]:
                bits, own = bits | group[0], group[1] + own
            else:
                apart.append(group)
        groups = [*apart, (bits, own)]
    return [own for _, own in groups]


DigitPieces: TypeAlias = list[tuple[int, int, int]]
"""Digits of a base, each with its multiple: (from, up to or 0 for no end, multiple)."""


def _pieces(parts: Sequence[_DigitTerm]) -> DigitPieces | None:
    """The digits of one base cut at every boundary, proportional neighbours joined; `None` if the cuts are no chain."""
    if len(parts) == 1:
        _, first, width, k = parts[0]
        return [(first, first * width, k)]
    cuts = sorted({cut for d in parts for cut in ((d.first, d.first * d.width) if d.width else (d.first,))})
    if any(b % a for a, b in pairwise(cuts)):
        return None
    pieces: DigitPieces = []
    for first, end in zip(cuts, [*cuts[1:], 0], strict=True):
        k = sum(
            [d.k * (first // d.first) for d in parts if d.first <= first and (not d.width or first < d.first * d.width)]
        )
        if k and pieces and pieces[-1][1] == first and pieces[-1][2] * (first // pieces[-1][0]) == k:
            pieces[-1] = (pieces[-1][0], end, pieces[-1][2])
        elif k:
            pieces.append((first, end, k))
    return pieces


def _sum_of_pieces(x: ValueRow, pieces: DigitPieces) -> ValueRow | None:
    """The exact row of a sum of multiples of digits of one base with row `x`.

    Several digits of a base that takes every integer are independent in whole blocks of the largest boundary.
    """
    if len(pieces) > 1:
        block = pieces[-1][1] or pieces[-1][0]
        if x[2] != 1 or x[0] % block or (x[1] + 1) % block:
            return _sum_by_steps(x, pieces)
    total = ZERO
    for first, end, k in pieces:
        row = x if first == 1 else _floordiv(x, _single(first))
        if end:
            row = _floormod(row, _single(end // first))
        if not row[2]:
            return None
        if len(pieces) == 1:
            return _scaled(row, k)
        total = _add(total, (*_scaled(row, k)[:4], 0, UNKNOWN, UNKNOWN))
    return *total[:4], x[4], UNKNOWN, UNKNOWN


def _sum_by_steps(x: ValueRow, pieces: DigitPieces) -> ValueRow | None:
    """The row of a sum of multiples of digits that rises, or falls, with its base; or whose base takes every integer.

    From one integer to the next, the digits below a boundary return to 0 and the digit above it grows by 1: a step of
    the sum for each boundary. Where all steps have one sign, the ends of the base attain the ends of the sum. The
    longest step bounds the distance of neighbouring values.
    """
    levels: list[tuple[int, int]] = []  # (boundary, multiple of the digit above it)
    for first, end, k in pieces:
        if levels and levels[-1][0] == first:
            levels.pop()
        levels += [(first, k), (end, 0)] if end else [(first, k)]
    steps, below = [], 0  # below a boundary the digits lose `below`
    for (c, k), (above, _) in zip(levels, [*levels[1:], (0, 0)], strict=True):
        steps.append(k - below)
        below += k * (above // c - 1)
    gap, step = max(map(abs, steps)) * x[2], gcd(*(k for _, k in levels))
    rises, falls = min(steps) >= 0, max(steps) <= 0
    if x[2] and (rises or falls):
        first, last = (_ends_of_digits(end, end, levels[::-1], 0)[0] for end in x[:2])
        low, high, least, most = (first, last, *x[5:]) if rises else (last, first, *x[:4:-1])
    elif x[2] == 1:
        (low, high), least, most = _ends_of_digits(x[0], x[1], levels[::-1], 0), UNKNOWN, UNKNOWN
    else:
        return None
    return (low, high, gap, step, x[4], least, most) if low < high else _single(low)


def _ends_of_digits(low: int, high: int, levels: Sequence[tuple[int, int]], above: int) -> tuple[int, int]:
    """Both ends of the sum of `k` times the digit of `x` from `c` on, over `x` in [low, high].

    Parameters
    ----------
    levels: the pairs `(c, k)`, largest first; each `c` divides the one before.
    above: the divisor of which all `x` are remainders, the next larger boundary; 0 for none.
    """
    if not levels:
        return 0, 0
    if low == 0 and high + 1 == above:  # a whole block: the digits are independent
        widths = [c // d for c, d in pairwise((above, *(c for c, _ in levels)))]
        sums = [k * (width - 1) for width, (_, k) in zip(widths, levels, strict=True)]
        return sum([n for n in sums if n < 0]), sum([n for n in sums if n > 0])
    (c, k), *rest = levels
    first, last = low // c, high // c
    if first == last:
        least, most = _ends_of_digits(low % c, high % c, rest, c)
        return k * first + least, k * last + most
    blocks = [(first, _ends_of_digits(low % c, c - 1, rest, c)), (last, _ends_of_digits(0, high % c, rest, c))]
    if last - first > 1:
        whole = _ends_of_digits(0, c - 1, rest, c)
        blocks += [(first + 1, whole), (last - 1, whole)]
    return min(k * q + ends[0] for q, ends in blocks), max(k * q + ends[1] for q, ends in blocks)


# -- parts and periods -----------------------------------------------------------------------------------------------


def _ends_of_parts(root: Node, rows: ValueRows, ranges: BoxRanges, points: int) -> tuple[int, int] | None:
    """Both ends of a sum of parts that share no variable, or only different digits of one."""
    if root.op not in LINEAR or len(rows) > MOST_NODES:
        return None
    dependent = _Dependent(rows, 0)
    terms, offset = dependent.form(root)
    cuts: dict[Node, int] = {}
    for node in rows:
        if (node.op is ops.FLOORDIV or node.op is ops.FLOORMOD) and node.args[0].op is ops.VAR:
            var, c = node.args[0], rows[node.args[1]][0]
            if not rows[node.args[1]][3] and not rows[var][0] % c and not (rows[var][1] + 1) % c:
                cuts.setdefault(var, c)
    groups = _components({term: _digits_below(term, cuts, rows) for term in terms})
    if len(groups) == 1:
        return None
    least = most = offset
    for own in groups:
        found = ends(dependent.sum_of({term: terms[term] for term in own}, 0), ranges, points)
        if found is None:
            return None
        least, most = least + found[0], most + found[1]
    return least, most


def _digits_below(term: Node, cuts: Mapping[Node, int], rows: ValueRows) -> int:
    """The mask of the variables that a node depends on: two bits a variable, one where one digit decides the node.

    `v // c` and `v % c` are the digits of a variable with the cut `c`, whose range is whole blocks.
    """
    free = rows[term][4]
    order: list[Node] = []
    for var, c in cuts.items():
        bits = rows[var][4]
        if not free & bits:
            continue
        order = order or _needed((term,), (), rows)
        uses = [node for node in order if any([arg is var for arg in node.args])]  # noqa: C419  # hot
        if uses and all(node.op is ops.FLOORDIV and not rows[node.args[1]][0] % c for node in uses):
            free &= ~bits | bits & bits << 1
        else:
            period, growth = _period(var, order, rows)
            if not growth and not c % period:
                free &= ~bits | bits & bits >> 1
    return free


def _ends_of_periods(root: Node, rows: ValueRows, points: int) -> tuple[int, int] | None:
    """Both ends of a node by evaluation over the first or last period of each variable; `None` beyond the budget.

    Where f(v + p) == f(v) + k for all values of the other variables, an end is attained at the first `p` values of `v`
    or at its last, by the sign of `k`. A small box is evaluated as a whole.
    """
    is_small = rows.points <= FEW_POINTS
    if len(rows) > MOST_NODES and not is_small:
        return None
    order, lower, upper = list(rows) if is_small else _needed((root,), (), rows), {}, {}
    size = 1
    for var in _variables(rows):
        low, high = rows[var][:2]
        period, growth = (high - low + 1, 0) if is_small else _period(var, order, rows)
        size *= period
        if size > points or size * len(order) > STEPS:
            return None
        first, last = (low, period), (high - period + 1 if growth else low, period)
        lower[var], upper[var] = (first, last) if growth >= 0 else (last, first)
    if not _fits([rows[node] for node in order]):
        return None
    import numpy as np

    found = []
    for box in (lower,) if lower == upper else (lower, upper):
        axes = {var: _axis(low, low + extent - 1, k) for k, (var, (low, extent)) in enumerate(box.items())}
        values = _evaluated(order, axes, rows)[root]
        found.append((int(np.minimum.reduce(values, None)), int(np.maximum.reduce(values, None))))
    return found[0][0], found[-1][1]


def _period(var: Node, order: Sequence[Node], rows: ValueRows) -> tuple[int, int]:
    """(p, k) with f(v + p) == f(v) + k for the last node `f` and a variable `v`; (its extent, 0) without a smaller one.

    `order`: the nodes below `f`, operands first.
    """
    low, high, _, _, bits, _, _ = rows[var]
    period = 1
    growth: dict[Node, int] = {var: 1}  # of each node above `var`, when `var` grows by the period
    for node in order:
        if not rows[node][4] & bits or node is var:
            continue
        op, args = node.op, node.args
        k, other = growth.get(args[0], 0), growth.get(args[-1], 0)
        if op is ops.ADD:
            k += other
        elif op is ops.SUB:
            k -= other
        elif op is ops.NEG:
            k = -k
        elif op is ops.MUL and not rows[args[1]][3]:
            k *= rows[args[1]][0]
        elif op is ops.MUL and not rows[args[0]][3]:
            k = other * rows[args[0]][0]
        elif op is ops.FLOORDIV or op is ops.FLOORMOD:
            c = rows[args[1]][0]
            more = c // gcd(k, c)
            period *= more
            if period > high - low:
                return high - low + 1, 0
            if more > 1:
                growth = {below: more * by for below, by in growth.items()}
            k = more * k // c if op is ops.FLOORDIV else 0
        elif (op in COMPARED or op is ops.MIN or op is ops.MAX) and k == other:
            k = 0 if op in COMPARED else k
        elif any(growth.get(arg) for arg in args):
            return high - low + 1, 0
        growth[node] = k
    return period, growth.get(order[-1], 0)


# -- enumeration -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _axis(low: int, high: int, k: int) -> Any:
    """The values of a variable along axis `k`, counted from the last: arrays of different axes broadcast."""
    import numpy as np

    values = np.arange(low, high + 1).reshape((-1, *(1,) * k))
    values.flags.writeable = False
    return values


def _variables(rows: ValueRows) -> list[Node]:
    """The variables with several values, in the order of their first occurrence."""
    return [node for node in rows if node.op is ops.VAR and rows[node][3]]


def _attained_at_samples(root: Node, rows: ValueRows) -> bool:
    """Whether both ends of a row are values at fixed points: mostly ends of variables, the others spread by a hash."""
    if not _fits(rows.values()):
        return False
    import numpy as np

    points: dict[Node, Any] = {}
    for k, var in enumerate(_variables(rows)):
        low, high = rows[var][:2]
        is_end, is_high, spread = _samples(k)
        points[var] = np.where(is_end, np.where(is_high, high, low), spread % (high - low + 1) + low)
    values = _evaluated(rows, points, rows)[root]
    return int(values.min()) == rows[root][0] and int(values.max()) == rows[root][1]


def _fits(rows: Iterable[ValueRow]) -> bool:
    for row in rows:  # noqa: SIM110  # a generator is slower here
        if row[0] < -WIDE or row[1] > WIDE:
            return False
    return True


@lru_cache(maxsize=64)
def _samples(k: int) -> tuple[Any, Any, Any]:
    """For variable `k` at each sample: whether its value is an end, whether the high one, and else a number."""
    import numpy as np

    number = np.arange(SAMPLES, dtype=np.uint64)
    spread = (number * 0x9E3779B1 + (k + 1) * 0x85EBCA77) & 0xFFFFFFFF
    spread = ((spread ^ (spread >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    spread ^= spread >> 12
    is_high = (number ^ np.where(number & 4, spread >> 5, 0).astype(np.uint64)) & 1
    is_end = spread & np.where(number & 2, 1, 3).astype(np.uint64)
    return is_end != 0, is_high != 0, (spread >> 3).astype(np.int64)


def _progressions(axes: Iterable[Node], rows: ValueRows) -> dict[Node, Any]:
    """All values of some nodes: arrays that broadcast, each along an axis of its own."""
    import numpy as np

    values: dict[Node, Any] = {}
    for k, node in enumerate(axes):  # arrays of increasing rank: each axis is the first of its array
        low, high, _, step = rows[node][:4]
        values[node] = np.arange(low, high + 1, step).reshape((-1, *(1,) * k))
    return values


def _evaluated(order: Iterable[Node], given: Mapping[Node, Any], rows: ValueRows) -> dict[Node, Any]:
    """The values of nodes, operands first, from the values of some: arrays that broadcast, or numbers."""
    import numpy as np

    table = _MEANINGS or _meanings(np)
    values = dict(given)
    for node in order:
        if node not in values:
            row, args = rows[node], node.args
            if not row[3]:
                values[node] = row[0]
            elif len(args) == 2:
                values[node] = table[node.op](values[args[0]], values[args[1]])
            else:
                values[node] = table[node.op](*[values[arg] for arg in args])
    return values


def _listed(
    pairs: Sequence[tuple[Node, int]], rows: ValueRows, most: int, bases: Sequence[Node] = ()
) -> ValueRow | None:
    """The exact row of a sum of multiples of nodes, by evaluation at every point; `None` beyond the budget.

    `bases`: nodes to enumerate in place of their variables, if their rows are progressions.
    """
    if any(not rows[base][2] or rows[base][2] != rows[base][3] for base in bases):
        bases = ()
    given = dict.fromkeys(bases)
    order = _needed([node for node, _ in pairs], given, rows)
    axes = [node for node in order if rows[node][3] and (node.op is ops.VAR or node in given)]
    points = prod([(rows[node][1] - rows[node][0]) // rows[node][3] + 1 for node in axes])
    if points > most or points * len(order) > STEPS or not _fits([rows[node] for node in order]):
        return None
    if sum(abs(k) for _, k in pairs) >> 20:
        return None
    import numpy as np

    values = _evaluated(order, _progressions(axes, rows), rows)
    ascending = np.sort(sum(values[node] * k for node, k in pairs), axis=None)
    low, high = int(ascending[0]), int(ascending[-1])
    if low == high:
        return _single(low)
    apart = np.diff(ascending)
    apart = apart[apart > 0]
    free = reduce(or_, [rows[node][4] for node in axes])
    return low, high, int(apart.max()), int(np.gcd.reduce(apart)), free, UNKNOWN, UNKNOWN


def _needed(roots: Iterable[Node], leaves: Container[Node], rows: ValueRows) -> list[Node]:
    """The nodes whose values the roots need, operands first. Leaves and constants need none."""
    needed = set(roots)
    for node in reversed(rows):  # a row follows those of its operands
        if node in needed and node not in leaves and rows[node][3]:
            needed.update(node.args)
    return [node for node in rows if node in needed]


def _meanings(np: Any) -> Mapping[Op, Callable[..., Any]]:
    if not _MEANINGS:
        names = {"minimum": "minimum", "maximum": "maximum", "neg": "negative", "select": "where"}
        names |= {"add": "add", "sub": "subtract", "mul": "multiply", "eq": "equal", "ne": "not_equal", "lt": "less"}
        names |= {"le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "logical_and", "or": "logical_or"}
        names["not"] = "logical_not"
        _MEANINGS.update({ops.OPS[name]: getattr(np, function) for name, function in names.items()})
        _MEANINGS[ops.CEILDIV] = lambda a, b: -(-a // b)
        _MEANINGS[ops.FLOORDIV] = _MEANINGS[ops.TRUNCDIV] = _quotients
        _MEANINGS[ops.FLOORMOD] = _MEANINGS[ops.TRUNCMOD] = _remainders
    return _MEANINGS


def _quotients(array: Any, c: int) -> Any:
    return array // c if c & c - 1 else array >> c.bit_length() - 1


def _remainders(array: Any, c: int) -> Any:
    if not c & c - 1:
        return array & c - 1
    return array % c if array.size <= SHORT_ARRAY else array - array // c * c


_MEANINGS: dict[Op, Callable[..., Any]] = {}  # by numpy, of arrays; truncated division of numbers from 0 on
