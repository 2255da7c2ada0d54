"""The arithmetic of multi-stride sets: `{base + s1*t1 + s2*t2 + ... : 0 <= tk < ek}`, as pure functions on tuples.

A value is `(base, ((s1, e1), (s2, e2), ...))` with `0 < s1 < s2 < ...` and each extent `ek >= 2`: the image of a box
under an affine expression, exactly. A single point is `(x, ())`, and `BOTTOM` is the empty set. `make` also fuses runs:
`s*[0, e) + s*k*[0, f)` is the longer run `s*[0, e + k*(f-1))` where `k <= e`, so no two terms of a value fuse.

Where every stride exceeds what the strides before it reach together, each element has one representation, and
everything is cheap. Elsewhere questions take search or a bitmap, bounded by a budget counted in steps or bits, and
`None` says that the budget did not suffice (or, for a division, that the image is not shown to be a multi-stride set).

The one-stride case is `strided`, whose transformers the divisions fall back on.
"""

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Final, TypeAlias

from intset.arithmetic import strided

MEMBER_SUMS: Final = 10_000  # partial sums of a membership search
MEMBER_BITS: Final = 1 << 20  # bits of a bitmap that counts elements

StrideTerm: TypeAlias = tuple[int, int]
MultiStride: TypeAlias = tuple[int, tuple[StrideTerm, ...]]

BOTTOM: Final[MultiStride] = (0, ((0, 0),))


def make(base: int, terms: Iterable[StrideTerm] = ()) -> MultiStride:
    """The value of `{base + sum(s*t)}`, `0 <= t < e`, for any `(s, e)`. An extent below 1 makes it empty."""
    extents: dict[int, int] = {}
    for s, e in terms:
        if e < 1:
            return BOTTOM
        if s < 0:
            base, s = base + s * (e - 1), -s  # walked from the other end
        if s and e > 1:
            extents[s] = extents.get(s, 1) + e - 1
    runs: list[StrideTerm] = []
    pending = sorted(extents.items())
    while pending:
        s, e = pending[0]
        apart = []
        for t, f in pending[1:]:
            k, rest = divmod(t, s)
            if rest or k > e:
                apart.append((t, f))
            else:
                e += k * (f - 1)
        runs.append((s, e))
        pending = apart
    return base, tuple(runs)


# --- what a set looks like --------------------------------------------------------------------------------------------


def reach(terms: Iterable[StrideTerm]) -> int:
    """The largest sum the terms make."""
    return sum(s * (e - 1) for s, e in terms)


def lowest(a: MultiStride) -> int | None:
    return None if a == BOTTOM else a[0]


def highest(a: MultiStride) -> int | None:
    return None if a == BOTTOM else a[0] + reach(a[1])


def enclosing(a: MultiStride) -> strided.Strided:
    """The smallest strided interval that contains the set."""
    base, terms = a
    return None if a == BOTTOM else strided.make(base, base + reach(terms), gcd(*(s for s, _ in terms)), base)


# --- elements ---------------------------------------------------------------------------------------------------------


def contains(a: MultiStride, x: int, steps: int = MEMBER_SUMS) -> bool | None:
    """Membership of `x`; `None` after `steps` partial sums, which one or two terms never need.

    Search by descending strides: the rest must lie within reach of the smaller strides, in a residue class of their
    greatest common divisor. A stride beyond the reach of all smaller ones leaves at most one choice.
    """
    base, terms = a
    if not terms or a == BOTTOM:
        return a != BOTTOM and x == base
    below, divisors = [0], [0]
    for s, e in terms:
        below.append(below[-1] + s * (e - 1))
        divisors.append(gcd(divisors[-1], s))
    todo = [(len(terms) - 1, x - base)]
    seen = set(todo)
    while todo:
        k, rest = todo.pop()
        s, e = terms[k]
        if k == 0:
            if rest % s == 0 and 0 <= rest < s * e:
                return True
            continue
        g = gcd(s, divisors[k])
        if rest % g:
            continue
        period = divisors[k] // g
        first = max(0, -((below[k] - rest) // s))
        first += (rest // g * pow(s // g, -1, period) - first) % period
        for t in range(first, min(e - 1, rest // s) + 1, period):
            if k == 1:
                return True  # the one stride left divides the rest and reaches it
            if steps == 0:
                return None
            steps -= 1
            part = (k - 1, rest - s * t)
            if part not in seen:
                seen.add(part)
                todo.append(part)
    return False


def count(a: MultiStride, bits: int = MEMBER_BITS) -> int | None:
    """The number of elements. None where terms overlap, reach more than `bits` multiples, and are three or more.

    The terms split where all the larger strides are multiples of more than the smaller ones reach: both halves count
    by themselves.
    """
    if a == BOTTOM:
        return 0
    total = 1
    for group in _groups(a[1]):
        n = _count_group(group, bits)
        if n is None:
            return None
        total *= n
    return total


def _groups(terms: tuple[StrideTerm, ...]) -> Iterator[tuple[StrideTerm, ...]]:
    divisors = [0]  # of the strides from k on
    for s, _ in reversed(terms):
        divisors.append(gcd(divisors[-1], s))
    divisors.reverse()
    start = below = 0
    for k, (s, e) in enumerate(terms):
        if k > start and divisors[k] > below:
            yield terms[start:k]
            start = k
        below += s * (e - 1)
    if terms:
        yield terms[start:]


def _count_group(terms: tuple[StrideTerm, ...], bits: int) -> int | None:
    g = gcd(*(s for s, _ in terms))
    if len(terms) == 1:
        return terms[0][1]
    if len(terms) == 2:  # (t1 + s2, t2 - s1) is the same element: each line of n points of the box counts once
        (s, e), (t, f) = terms
        return e * f - max(0, e - t // g) * max(0, f - s // g)
    return _bitmap(terms, g).bit_count() if reach(terms) < bits * g else None


def _bitmap(terms: Iterable[StrideTerm], g: int = 1) -> int:
    """Bit i is set where `g*i` is a sum; each term doubles its run of copies until it is long enough."""
    bitmap = 1
    for s, e in terms:
        done = 1
        while done < e:
            more = min(done, e - done)
            bitmap |= bitmap << (s // g * more)
            done += more
    return bitmap


# --- images that are always exact -------------------------------------------------------------------------------------


def scale(a: MultiStride, c: int) -> MultiStride:
    """{c*x : x in a}."""
    return a if a == BOTTOM else make(a[0] * c, [(s * c, e) for s, e in a[1]])


# --- division by a constant: exact, or None ---------------------------------------------------------------------------


def floordiv(a: MultiStride, c: int) -> MultiStride | None:
    """{x // c : x in a}; `None` unless proved to be a multi-stride set, BOTTOM for c == 0.

    The multiples of `c` leave the division: (x + c*y) // c = x // c + y. For the rest, (x // d) // (c // d) = x // c
    drops the small terms that stay in one window of a divisor `d`.
    """
    if c < 0:
        a, c = scale(a, -1), -c
    if c == 0 or a == BOTTOM:
        return BOTTOM
    base, terms = a
    done: list[StrideTerm] = []
    rest: list[StrideTerm] = []
    for s, e in _split(terms, c):
        if s % c:
            rest.append((s, e))
        else:
            done.append((s // c, e))
    while True:
        if not rest or base % c + reach(rest) < c:
            return make(base // c, done)
        if _widest_gap(rest) <= c:  # no quotient is left out
            return make(base // c, [(1, (base + reach(rest)) // c - base // c + 1), *done])
        d = _window(base, rest, c)
        if d == 1:
            break
        base, c, rest = base // d, c // d, [(s // d, e) for s, e in rest if s % d == 0]
    image = strided.floordiv(enclosing(make(base, rest)), strided.const(c))
    return _progression(image, rest, done)


def _progression(image: strided.Strided, terms: list[StrideTerm], rest: list[StrideTerm]) -> MultiStride | None:
    """`image` of a single term, each of whose elements goes to another one, plus `rest`; None if it is not that."""
    if image is None or len(terms) > 1 or strided.count(image) != terms[0][1]:
        return None
    assert image[0] is not None
    return make(image[0], [(image[2], terms[0][1]), *rest])


def _split(terms: Iterable[StrideTerm], c: int) -> list[StrideTerm]:
    """A run over whole periods modulo c is one period, and the multiples of it: s*[0, p*f) = s*[0, p) + s*p*[0, f)."""
    runs: list[StrideTerm] = []
    for s, e in terms:
        period = c // gcd(s, c)
        runs += [(s, period), (s * period, e // period)] if 1 < period < e and e % period == 0 else [(s, e)]
    return runs


def _widest_gap(terms: Iterable[StrideTerm]) -> int:
    """A bound on the distance of two neighbours: that of two neighbours so far, or of the last to the next copy."""
    gap = below = 0
    for s, e in sorted(terms):
        gap = max(gap, s - below)
        below += s * (e - 1)
    return gap


def _window(base: int, terms: Iterable[StrideTerm], c: int) -> int:
    """The largest divisor d of c such that the terms d does not divide never leave the window `base` is in."""
    d = c
    while d > 1:
        small = [(s, e) for s, e in terms if s % d]
        if base % d + reach(small) < d:
            return d
        d = gcd(d, max(small)[0])
    return 1


def floormod(a: MultiStride, c: int) -> MultiStride | None:
    """{x % c : x in a}; `None` unless proved to be a multi-stride set, BOTTOM for c == 0.

    Only the strides' residues matter. A term that runs through all the multiples of its divisor g modulo c leaves a
    remainder modulo g, plus all the multiples: x % c = x % g + g*[0, c//g). What then stays in one window is exact.
    """
    if c < 0:
        inner = floormod(scale(a, -1), -c)
        return None if inner is None else scale(inner, -1)
    if c == 0 or a == BOTTOM:
        return BOTTOM
    whole: list[StrideTerm] = []
    while True:
        a = make(a[0], [(strided.nearest(s, c), e) for s, e in a[1]])
        for s, e in a[1]:
            cycle = gcd(s, c)
            if e >= c // cycle:
                break
        else:
            break
        whole.append((cycle, c // cycle))
        c = cycle
    base, terms = a[0], list(a[1])
    if base % c + reach(terms) < c:
        return make(base % c, terms + whole)
    return _progression(strided.floormod(enclosing(a), strided.const(c)), terms, whole)
