"""Strided intervals `{x : lo <= x <= hi, x = r mod m}`: lattice, sums, divisions, order, as pure functions on tuples.

A value is `(lo, hi, m, r)`: the x with `lo <= x <= hi` and `x % m == r`. An end is `None` where the set is unbounded;
without ends it is a congruence. It is the reduced product of an interval `v[:2]` and a congruence `v[2:]` (P. Granger,
Static analysis of arithmetical congruences, 1989), and `make` is the reduction:

- a finite end is an element, so `lo % m == hi % m == r`;
- a single point is `(x, x, 0, x)`, and `m == 0` holds for nothing else; otherwise `m > 0` and `0 <= r < m`;
- `TOP = (None, None, 1, 0)`, and `BOTTOM = None` is the empty set.

Invariant: each set has exactly one value, so `==` compares sets. Functions that take values pass `BOTTOM` on.

Guarantee: a transfer function contains the true image over the points where the operation is defined (divisors nonzero,
shift amounts nonnegative), is `BOTTOM` where there is none, and is optimal where `OPTIMAL` says so.

Source: the transformers for a constant divisor are our own, checked against enumeration; the general shape is that of
T. Reps, G. Balakrishnan, J. Lim, Intermediate-representation recovery from low-level code, 2006.

Bit operations, shifts and `TRANSFER`, the table of all transfer functions, come last. Known bits follow LLVM and the
Linux verifier.
"""

from collections.abc import Callable, Iterable
from math import gcd
from typing import Final, TypeAlias

from intset.expr import ops
from intset.expr.ops import Op

FEW_OPERANDS: Final = 16  # divisors of one sign that are enumerated, for the best answer

End: TypeAlias = int | None
StridedInterval: TypeAlias = tuple[End, End, int, int]
Strided: TypeAlias = StridedInterval | None
Residue: TypeAlias = tuple[int, int]
"""`(m, r)`: the integers that leave the remainder `r` modulo `m`; `(0, r)` is the single point `r`."""

TOP: Final = (None, None, 1, 0)
BOTTOM: Final = None


# --- making values ----------------------------------------------------------------------------------------------------


def make(lo: End, hi: End, m: int = 1, r: int = 0) -> Strided:
    """The value of `{x : lo <= x <= hi, x = r mod m}` for any arguments; `m == 0` means `x == r`."""
    if m == 0:
        return (r, r, 0, r) if (lo is None or lo <= r) and (hi is None or r <= hi) else None
    m = abs(m)
    r %= m
    if lo is not None:
        lo += (r - lo) % m
    if hi is not None:
        hi -= (hi - r) % m
    if lo is None or hi is None or lo < hi:
        return (lo, hi, m, r)
    return (lo, lo, 0, lo) if lo == hi else None


def const(x: int) -> StridedInterval:
    return (x, x, 0, x)


def without_ends(a: Strided) -> Strided:
    """The smallest congruence that contains `a`; a single point stays one."""
    return a if a is None or a[2] == 0 else (None, None, a[2], a[3])


def at_least(a: Strided, end: int) -> Strided:
    """The elements that are `>= end`."""
    return a if a is None or (a[0] is not None and a[0] >= end) else make(end, a[1], a[2], a[3])


def at_most(a: Strided, end: int) -> Strided:
    """The elements that are `<= end`."""
    return a if a is None or (a[1] is not None and a[1] <= end) else make(a[0], end, a[2], a[3])


# --- the lattice ------------------------------------------------------------------------------------------------------


def count(a: Strided) -> int | None:
    """The number of elements; None if infinite."""
    if a is None:
        return 0
    lo, hi, m, _ = a
    return None if lo is None or hi is None else (hi - lo) // m + 1 if m else 1


def join(a: Strided, b: Strided) -> Strided:
    """The smallest value that contains both."""
    if a is None or b is None:
        return b if a is None else a
    (al, ah, m, r), (bl, bh, n, s) = a, b
    lo = None if al is None or bl is None else min(al, bl)
    hi = None if ah is None or bh is None else max(ah, bh)
    m = gcd(m, n, r - s)
    return (lo, hi, m, r % m if m else r)


def meet(a: Strided, b: Strided) -> Strided:
    """The intersection itself."""
    if a is None or b is None:
        return None
    both = _common_residue(a[2:], b[2:])
    if both is None:
        return None
    (al, ah), (bl, bh) = a[:2], b[:2]
    lo = al if bl is None or (al is not None and al > bl) else bl
    hi = ah if bh is None or (ah is not None and ah < bh) else bh
    return make(lo, hi, *both)


def _common_residue(a: Residue, b: Residue) -> Residue | None:
    """The intersection of two congruences, by the Chinese remainder theorem: 2Z and 3Z+1 meet in 6Z+4."""
    (m, r), (n, s) = a, b
    if m == 0:
        return a if r == s or (n and (r - s) % n == 0) else None
    if n == 0:
        return b if (s - r) % m == 0 else None
    return chinese(m, r, n, s)


def chinese(m: int, r: int, n: int, s: int) -> tuple[int, int] | None:
    """(lcm, value) of two congruences; `None` where they contradict each other."""
    g = gcd(m, n)
    if (s - r) % g:
        return None
    lcm = m // g * n
    return lcm, (r + m * ((s - r) // g * pow(m // g, -1, n // g))) % lcm


def nearest(x: int, m: int) -> int:
    """The residue of `x` modulo `m` that is nearest to 0."""
    r = x % m
    return r - m if 2 * r > m else r


# --- sums and products ------------------------------------------------------------------------------------------------


def add(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    (al, ah, m, r), (bl, bh, n, s) = a, b
    lo = None if al is None or bl is None else al + bl
    hi = None if ah is None or bh is None else ah + bh
    m = gcd(m, n)
    return (lo, hi, m, (r + s) % m if m else r + s)


def sub(a: Strided, b: Strided) -> Strided:
    return add(a, neg(b))


def neg(a: Strided) -> Strided:
    if a is None:
        return None
    lo, hi, m, r = a
    return (None if hi is None else -hi, None if lo is None else -lo, m, -r % m if m else -r)


def bitnot(a: Strided) -> Strided:
    return sub(const(-1), a)  # ~a = -1 - a


def scale(a: Strided, c: int) -> Strided:
    """a * c for an integer c."""
    if a is None or c == 0:
        return None if a is None else (0, 0, 0, 0)
    lo, hi, m, r = a
    if c < 0:
        lo, hi = hi, lo
    m, r = m * abs(c), r * c
    return (None if lo is None else lo * c, None if hi is None else hi * c, m, r % m if m else r)


def mul(a: Strided, b: Strided) -> Strided:
    """(m*i + r)(n*j + s) = m*n*i*j + m*s*i + n*r*j + r*s, between two of the four corners."""
    if a is None or b is None:
        return None
    (al, ah, m, r), (bl, bh, n, s) = a, b
    if m == 0 or n == 0:
        return scale(b, r) if m == 0 else scale(a, s)
    g = gcd(m * n, m * s, n * r)
    if al is None or ah is None or bl is None or bh is None:
        return _unbounded_mul(a, b, g, r * s % g)
    w, x, y, z = al * bl, al * bh, ah * bl, ah * bh
    return (min(w, x, y, z), max(w, x, y, z), g, r * s % g)


def _unbounded_mul(a: StridedInterval, b: StridedInterval, m: int, r: int) -> StridedInterval:
    """Corners with infinite ends: as pairs (sign of infinity, value) they compare as numbers do, and 0 * inf = 0."""
    if a[0] is not None and b[0] is not None and a[0] > 0 and b[0] > 0:
        return (a[0] * b[0], None, m, r)
    ends_of_a, ends_of_b = (
        ((-1, 0) if v[0] is None else (0, v[0]), (1, 0) if v[1] is None else (0, v[1])) for v in (a, b)
    )
    corners = [
        (0, x * y) if p == q == 0 else ((p or _sign(x)) * (q or _sign(y)), 0)
        for p, x in ends_of_a
        for q, y in ends_of_b
    ]
    (low, lo), (high, hi) = min(corners), max(corners)
    return (None if low else lo, None if high else hi, m, r)


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)


# --- divisions --------------------------------------------------------------------------------------------------------


def floordiv(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    if b[2] == 0:
        return floordiv_by(a, b[3])
    return join(_floordiv_positive(a, at_least(b, 1)), _floordiv_positive(neg(a), neg(at_most(b, -1))))


def floordiv_by(a: Strided, c: int) -> Strided:
    """Two quotients in a row differ by `q` or `q + 1`, where q = m // c; count how often by `q + 1`."""
    if c < 0:
        a, c = neg(a), -c
    if a is None or c == 0:
        return None
    lo, hi, m, r = a
    if m == 0:
        return (r // c, r // c, 0, r // c)
    q, rest = divmod(m, c)
    if lo is None or hi is None:
        step = 1 if rest else q
        return (None if lo is None else lo // c, None if hi is None else hi // c, step, r // c % step)
    n = (hi - lo) // m
    longer = (lo % c + n * rest) // c
    lo, hi = lo // c, hi // c
    if lo == hi:
        return (lo, lo, 0, lo)
    step = q if longer == 0 else q + 1 if longer == n else 1
    return (lo, hi, step, lo % step)


def _floordiv_positive(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    lo, hi, m, r = b
    assert lo is not None
    few = hi is not None and hi - lo < FEW_OPERANDS * m
    return floordiv_by(a, r) if m == 0 else quotients(a, lo, hi, range(lo, hi + 1, m) if few and hi else ())


def quotients(a: StridedInterval, smallest: int, largest: End, divisors: Iterable[int]) -> Strided:
    """a // d for positive d, monotone in a and in d; listed `divisors` determine the stride."""
    lo, hi = a[:2]
    if lo is not None:
        lo = lo // smallest if lo < 0 else 0 if largest is None else lo // largest
    if hi is not None:
        hi = hi // smallest if hi >= 0 else -1 if largest is None else hi // largest
    union: Strided = None
    for d in divisors:
        union = join(union, floordiv_by(a, d))
        if union is None or union[2] == 1:
            break
    return make(lo, hi) if union is None else make(lo, hi, *union[2:])


def ceildiv(a: Strided, b: Strided) -> Strided:
    return neg(floordiv(neg(a), b))  # ceil(x) = -floor(-x)


def truncdiv(a: Strided, b: Strided) -> Strided:
    """Floor where the signs of `a` and `b` agree, ceiling where they differ."""
    if a is None or b is None:
        return None
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] > 0:
        return floordiv(a, b)
    return join(_truncdiv_nonneg(at_least(a, 0), b), neg(_truncdiv_nonneg(neg(at_most(a, -1)), b)))


def _truncdiv_nonneg(a: Strided, b: Strided) -> Strided:
    return join(floordiv(a, at_least(b, 1)), neg(floordiv(a, neg(at_most(b, -1)))))


def floormod(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    if b[2] == 0:
        return floormod_by(a, b[3])
    return join(_floormod_positive(a, at_least(b, 1)), neg(_floormod_positive(neg(a), neg(at_most(b, -1)))))


def floormod_by(a: Strided, c: int) -> Strided:
    """Two remainders in a row differ by `m % c`, or by `m % c - c` where they wrap; count the wraps."""
    if c < 0:
        return neg(floormod_by(neg(a), -c))
    if a is None or c == 0:
        return None
    lo, hi, m, r = a
    step, start = m % c, r % c
    if step == 0:
        return (start, start, 0, start)
    g = gcd(step, c)
    if lo is None or hi is None or hi - lo >= (c // g - 1) * m:
        return (start % g, start % g + c - g, g, start % g)  # every residue of the class
    n = (hi - lo) // m
    start = lo % c
    wraps = (start + n * step) // c
    if wraps == 0:
        return (start, start + n * step, step, start % step)
    if wraps == n:
        step = c - step
        return (start - n * step, start, step, start % step)
    return (smallest_mod(step, start, c, n), largest_mod(step, start, c, n), g, start % g)


def _floormod_positive(a: Strided, b: Strided) -> Strided:
    """0 <= a % d < d; a % d <= a where a >= 0; and a % d = a - q*d where the quotient q is known."""
    if a is None or b is None:
        return None
    lo, hi, m, r = b
    assert lo is not None
    if m == 0:
        return floormod_by(a, r)
    quotient = quotients(a, lo, hi, ())
    if quotient is not None and quotient[2] == 0:
        return sub(a, scale(b, quotient[3]))
    if hi is not None and hi - lo < FEW_OPERANDS * m:
        return _remainders(a, range(hi, lo - 1, -m))
    end = None if hi is None else hi - 1
    if a[0] is not None and a[0] >= 0 and a[1] is not None and (end is None or a[1] < end):
        end = a[1]
    return make(0, end, gcd(a[2], m, r), a[3])


def _remainders(a: StridedInterval, divisors: range) -> Strided:
    """The join of a % d over divisors in descending order."""
    union: Strided = None
    for d in divisors:
        union = join(union, floormod_by(a, d))
        if union == (0, divisors[0] - 1, 1, 0):
            break
    return union


def truncmod(a: Strided, b: Strided) -> Strided:
    """The sign is that of `a`; the sign of `b` does not matter."""
    if a is None or b is None:
        return None
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] > 0:
        return floormod(a, b)
    return join(_truncmod_nonneg(at_least(a, 0), b), neg(_truncmod_nonneg(neg(at_most(a, -1)), b)))


def _truncmod_nonneg(a: Strided, b: Strided) -> Strided:
    return join(floormod(a, at_least(b, 1)), floormod(a, neg(at_most(b, -1))))


def smallest_mod(a: int, b: int, m: int, n: int) -> int:
    """The minimum of `(a*i + b) % m` over `0 <= i <= n`, in O(log m) steps.

    Walking up by a < m, a new minimum can only occur just after a wrap, and just after the k-th wrap the value is
    `(b - k*m) % a`: the same question modulo `a`. Walking backwards where a > m/2 halves the modulus in each step;
    without it the number of steps is linear.
    """
    best = m
    while True:
        a %= m
        b %= m
        if 2 * a > m:
            a, b = m - a, (a * n + b) % m
        best = min(best, b)
        wraps = (a * n + b) // m
        if wraps == 0:
            return best
        a, b, m, n = -m, b - m, a, wraps - 1


def largest_mod(a: int, b: int, m: int, n: int) -> int:
    """The maximum of `(a*i + b) % m` over `0 <= i <= n`: -1 - x turns the residues around."""
    return m - 1 - smallest_mod(-a, -1 - b, m, n)


# --- order ------------------------------------------------------------------------------------------------------------


def minimum(a: Strided, b: Strided) -> Strided:
    """The elements of each operand up to the other operand's largest element."""
    return neg(maximum(neg(a), neg(b)))


def maximum(a: Strided, b: Strided) -> Strided:
    """Elements of either operand from the smallest element of the other."""
    if a is None or b is None:
        return None
    return join(a if b[0] is None else at_least(a, b[0]), b if a[0] is None else at_least(b, a[0]))


def absolute(a: Strided) -> Strided:
    return join(at_least(a, 0), neg(at_most(a, -1)))


Bits: TypeAlias = tuple[int, int]
"""`(unknown, value)`: two's complement masks of endless width; `value` is 0 at the unknown bits."""

WIDEST_SHIFT: Final = 4096
"""A shift to the left by more than this many bits is not carried out: the answer is then sound, not optimal."""


def bitand(a: Strided, b: Strided) -> Strided:
    """A mask of consecutive bits is a division; otherwise known bits, and the ends sign by sign."""
    if a is None or b is None:
        return None
    for x, y in ((a, b), (b, a)):
        if y[2] == 0:
            c = y[3]
            low = c & -c
            if c < 0 and c == -low:
                return scale(floordiv_by(x, low), low)  # x & -2**k
            width = c // low + 1 if c else 1
            if c >= 0 and width & (width - 1) == 0:  # c = (2**n - 1) * 2**k
                return scale(floormod_by(floordiv_by(x, low or 1), width), low)
    known = _from_bits(_and_bits(_known_bits(a), _known_bits(b)))
    return const(known[1]) if known[0] == 0 else _by_sign(_and_ends, a, b, known)


def bitor(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    if _disjoint(a, b):
        return add(a, b)
    return bitnot(bitand(bitnot(a), bitnot(b)))  # de Morgan


def bitxor(a: Strided, b: Strided) -> Strided:
    if a is None or b is None:
        return None
    if (-1, -1, 0, -1) in (a, b):
        return bitnot(a if b[3] == -1 and b[2] == 0 else b)
    if _disjoint(a, b):
        return add(a, b)
    return _by_sign(_xor_ends, a, b, _from_bits(_xor_bits(_known_bits(a), _known_bits(b))))


def _disjoint(a: StridedInterval, b: StridedInterval) -> bool:
    """Whether no bit can be 1 in both: then a | b = a ^ b = a + b."""
    (u, v), (w, z) = _known_bits(a), _known_bits(b)
    return (u | v) & (w | z) == 0


def _known_bits(a: StridedInterval) -> Bits:
    """The low bits from the stride, the high bits from what the two ends have in common."""
    lo, hi, m, r = a
    unknown, value = _residue_bits((m, r))
    if lo is None or hi is None or lo ^ hi < 0:
        return unknown, value
    unknown &= (1 << (lo ^ hi).bit_length()) - 1
    return unknown, lo & ~unknown


def _residue_bits(a: Residue) -> Bits:
    """A modulus 2**k * odd leaves the low k bits known."""
    m, r = a
    low = m & -m
    return (-low, r & (low - 1)) if m else (0, r)


def _from_bits(known: Bits) -> Residue:
    """The congruence given by the known bits below the lowest unknown bit."""
    unknown, value = known
    low = unknown & -unknown
    return (low, value & (low - 1)) if unknown else (0, value)


def _and_bits(a: Bits, b: Bits) -> Bits:
    """Known bits of x & y: unknown where both operands' bits may be 1 and one is unknown."""
    (u, v), (w, z) = a, b
    return (u | w) & (u | v) & (w | z), v & z


def _xor_bits(a: Bits, b: Bits) -> Bits:
    """Known bits of x ^ y: unknown where an operand's bit is."""
    unknown = a[0] | b[0]
    return unknown, (a[1] ^ b[1]) & ~unknown


_SignRule: TypeAlias = Callable[[End, End, End, End], tuple[End, End]]


def _by_sign(ends: _SignRule, a: StridedInterval, b: StridedInterval, known: tuple[int, int]) -> Strided:
    """The join of `ends` over the parts of one sign, rounded to the congruence `known`."""
    result: Strided = None
    for x in (at_least(a, 0), at_most(a, -1)):
        for y in (at_least(b, 0), at_most(b, -1)):
            if x is not None and y is not None:
                result = join(result, make(*ends(x[0], x[1], y[0], y[1]), *known))
    return result


def _and_ends(a: End, b: End, c: End, d: End) -> tuple[End, End]:
    """The ends of x & y over x in [a, b] and y in [c, d], each of one sign. `None` stands for that sign's infinity."""
    x_negative, y_negative = b is not None and b < 0, d is not None and d < 0
    below = x_negative and y_negative and (a is None or c is None)
    above = (b is None and (y_negative or d is None)) or (d is None and x_negative)
    top = _beyond(a, b, c, d)
    a, c = -top if a is None else a, -top if c is None else c
    b, d = top - 1 if b is None else b, top - 1 if d is None else d
    return None if below else _min_and(a, b, c, d, top), None if above else _max_and(a, b, c, d, top)


def _xor_ends(a: End, b: End, c: End, d: End) -> tuple[End, End]:
    """The ends of x ^ y over x in [a, b] and y in [c, d], each of one sign: ~x ^ y = ~(x ^ y) makes both positive."""
    flipped = False
    if a is None or a < 0:
        a, b, flipped = None if b is None else ~b, None if a is None else ~a, not flipped
    if c is None or c < 0:
        c, d, flipped = None if d is None else ~d, None if c is None else ~c, not flipped
    assert a is not None and c is not None
    ones = _beyond(a, b, c, d) - 1
    lo = _min_xor(a, ones if b is None else b, c, ones if d is None else d)
    # x ^ y is greatest where x ^ ~y is least
    hi = None if b is None or d is None else ones ^ _min_xor(a, b, ones ^ d, ones ^ c)
    return (None if hi is None else ~hi, ~lo) if flipped else (lo, hi)


def _beyond(*ends: End) -> int:
    """A power of two with a bit to spare above every finite end: what infinity can be replaced with."""
    return 2 << max(e.bit_length() for e in ends if e is not None)


# The three ends below follow H. S. Warren, Hacker's Delight, section 4-3: scan bits from the top; at the first bit that
# an operand can change within its interval, change it and choose its lower bits freely.


def _min_and(a: int, b: int, c: int, d: int, top: int) -> int:
    """Minimum of x & y: a bit that both lower ends lack may be set in one, to clear its lower bits."""
    free = ~(a | c) & (top - 1)
    while free:
        bit = 1 << (free.bit_length() - 1)
        if (x := (a | bit) & -bit) <= b:
            return x & c
        if (y := (c | bit) & -bit) <= d:
            return a & y
        free ^= bit
    return a & c


def _max_and(a: int, b: int, c: int, d: int, top: int) -> int:
    """Maximum of x & y: a bit of one upper end alone may be cleared, to set its lower bits."""
    odd = (b ^ d) & (top - 1)
    while odd:
        bit = 1 << (odd.bit_length() - 1)
        if b & bit:
            if (x := (b ^ bit) | (bit - 1)) >= a:
                return x & d
        elif (y := (d ^ bit) | (bit - 1)) >= c:
            return b & y
        odd ^= bit
    return b & d


def _min_xor(a: int, b: int, c: int, d: int) -> int:
    """Minimum of x ^ y: a bit of one lower end alone is set in the other, if its interval allows."""
    odd = a ^ c
    while odd:
        bit = 1 << (odd.bit_length() - 1)
        if a & bit:
            if (y := (c | bit) & -bit) <= d:
                c = y
        elif (x := (a | bit) & -bit) <= b:
            a = x
        odd = (a ^ c) & (bit - 1)
    return a ^ c


def shl(a: Strided, b: Strided) -> Strided:
    """a * 2**b: the powers 2**s, 2**(s+n), 2**(s+2n), ... lie in 2**s*(2**n - 1)*Z + 2**s."""
    amount = at_least(b, 0)
    if amount is None:
        return None
    low, high, step, _ = amount
    assert low is not None
    widest = WIDEST_SHIFT
    lo = 1 << min(low, widest)
    hi = None if high is None or high > widest else 1 << high
    return mul(a, make(lo, hi, lo * ((1 << step) - 1) if low <= widest and step <= widest else lo, lo))


def shr(a: Strided, b: Strided) -> Strided:
    """a // 2**b: no bit is left to shift beyond the widest of a's numbers."""
    amount = at_least(b, 0)
    if a is None or amount is None:
        return None
    low, high, step, _ = amount
    assert low is not None
    widest = max(x.bit_length() for x in a if x is not None)
    low, high = min(low, widest), widest if high is None else min(high, widest)
    if low == high:
        return floordiv_by(a, 1 << low)
    amounts = (*range(low, high, step), high) if high - low < FEW_OPERANDS * step else ()
    return quotients(a, 1 << low, 1 << high, (1 << k for k in amounts))


TRANSFER: Final[dict[Op, Callable[..., Strided]]] = {
    ops.ADD: add,
    ops.SUB: sub,
    ops.MUL: mul,
    ops.NEG: neg,
    ops.FLOORDIV: floordiv,
    ops.FLOORMOD: floormod,
    ops.CEILDIV: ceildiv,
    ops.TRUNCDIV: truncdiv,
    ops.TRUNCMOD: truncmod,
    ops.MIN: minimum,
    ops.MAX: maximum,
    ops.ABS: absolute,
    ops.BITAND: bitand,
    ops.BITOR: bitor,
    ops.BITXOR: bitxor,
    ops.BITNOT: bitnot,
    ops.SHL: shl,
    ops.SHR: shr,
    ops.SELECT: join,  # of the two branches
}

OPTIMAL: Final[dict[Op, str]] = {
    ops.ADD: "always",
    ops.SUB: "always",
    ops.MUL: "always",
    ops.NEG: "always",
    ops.FLOORDIV: "few divisors; bounds",
    ops.FLOORMOD: "few divisors",
    ops.CEILDIV: "few divisors; bounds",
    ops.TRUNCDIV: "few divisors; bounds",
    ops.TRUNCMOD: "few divisors",
    ops.MIN: "always",
    ops.MAX: "always",
    ops.ABS: "always",
    ops.BITAND: "bounds of intervals",
    ops.BITOR: "bounds of intervals",
    ops.BITXOR: "bounds of intervals",
    ops.BITNOT: "always",
    ops.SHL: "always",  # up to WIDEST_SHIFT
    ops.SHR: "few divisors; bounds",
    ops.SELECT: "always",
}
"""Where the result is the best one. "few divisors": at most `FEW_OPERANDS` of each sign, the constant divisor among
them; "bounds": the ends are, for every operand; "of intervals": for operands whose stride is 0 or 1."""
