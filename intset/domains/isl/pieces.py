"""Partition of an isl set into disjoint convex sets, and a convex set as a loop nest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from intset.domains.isl.checked import coalesced, simple_hull_of
from intset.domains.isl.hulls import as_product
from intset.domains.isl.presburger import Presburger
from intset.domains.isl.session import context, isl, val, whole
from intset.domains.isl.translate import param_name
from intset.expr.node import Var
from intset.regions.derived import Product

if TYPE_CHECKING:
    from islpy import Aff, Set

_MAX_OVERLAPPING = 4  # sets for each piece that are looked at
_MAX_VALUES = 64  # of a quotient or remainder that are tried


def disjoint_pieces(shape: Presburger, most: int) -> list[Presburger] | None:
    """The set as at most `most` convex sets on lattices, without common points; `None` where it takes more.

    They come in the order of their smallest coordinates.
    """
    current = coalesced(shape.get())
    whole = _filled(current)
    if whole is not None:
        parts = [whole]
    elif current.n_basic_set() > _MAX_OVERLAPPING * most:
        return None
    else:
        parts = [part.to_set() for part in coalesced(current.make_disjoint()).get_basic_sets() if not part.is_empty()]
        parts = _merged(parts) if len(parts) <= _MAX_OVERLAPPING * most else parts
    waiting, parts = parts, []
    while waiting and len(waiting) + len(parts) <= most:
        part = waiting.pop(0)
        finer = _without_division(part, most)
        if finer is None:
            parts.append(part)
        else:
            waiting += finer
    if waiting or len(parts) > most:
        return None
    if not all(a.is_disjoint(b) for a, b in combinations(parts, 2)):
        return None
    return [Presburger(part, shape.params) for part in sorted(parts, key=_corner)]


def _without_division(part: Set, most: int) -> list[Set] | None:
    """The set in parts in each of which a division that bounds it has one value, or one remainder; `None`: it has none.

    `i % 8 >= 6` holds on two lattices, `(i + 3) % 16 < 4` for `0 <= i < 16` in two intervals: whichever are fewer.
    """
    kinds = isl().dim_type
    explicit = part.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    basic = explicit.get_basic_sets()[0]
    bounding = [c for c in basic.get_constraints() if not c.is_equality() and not c.is_div_constraint()]
    # all at once: isl may drop a superfluous division of a set that shares its data while that is asked about
    places = [k for k in range(basic.dim(kinds.div)) if any(c.involves_dims(kinds.div, k, 1) for c in bounding)]
    for division in [basic.get_div(k) for k in places]:
        if division.is_nan():
            continue
        divisor = division.get_denominator_val()
        found = [
            _values(part, division.floor(), most),
            _values(part, division.scale_val(divisor).mod_val(divisor), most),
        ]
        finer = min((parts for parts in found if parts is not None), key=len, default=None)
        if finer is not None and len(finer) > 1:
            return finer
    return None


def _values(part: Set, function: Aff, most: int) -> list[Set] | None:
    """The parts of a set on which a function has one value each; `None` where there are more than `most`."""
    m = isl()
    span = m.Map.from_pw_aff(m.PwAff.from_aff(function).intersect_domain(part)).range()
    span = span.project_out(m.dim_type.param, 0, span.dim(m.dim_type.param))
    low, high = whole(span.dim_min_val(0)), whole(span.dim_max_val(0))
    if low is None or high is None or high - low > _MAX_VALUES:
        return None
    found: list[Set] = []
    for value in range(low, high + 1):
        if len(found) > most:
            return None
        here = part.intersect(m.Set.from_basic_set(function.add_constant_val(val(-value)).zero_basic_set()))
        found += [] if here.is_empty() else [here]
    return found if len(found) <= most else None


def _filled(union: Set) -> Set | None:
    """The union as one convex set; `None` if no such set is found."""
    if union.n_basic_set() == 1:
        return union
    hull = simple_hull_of(union)
    return hull if hull.is_subset(union) else None


def _merged(parts: list[Set]) -> list[Set]:
    """Disjoint convex sets with the same union, two made one where that is convex: more than isl's `coalesce` sees."""
    left, done = list(parts), []
    while left:
        part = left.pop(0)
        both = next(((k, one) for k, other in enumerate(left) if (one := _filled(part.union(other))) is not None), None)
        if both is None:
            done.append(part)
        else:
            left[both[0]] = both[1]
    return done


def _corner(part: Set) -> list[tuple[bool, int]]:
    """The smallest value of each coordinate for any parameters, those without one first."""
    ends = [whole(part.dim_min_val(k)) for k in range(part.dim(isl().dim_type.set))]
    return [(False, 0) if end is None else (True, end) for end in ends]


def permuted(shape: Presburger, order: Sequence[int]) -> Presburger:
    """The set with its dimensions in another order: dimension `k` of the result is `order[k]` of the set."""
    if list(order) == list(range(len(order))):
        return shape
    before = ", ".join(f"x{k}" for k in range(len(order)))
    after = ", ".join(f"x{k}" for k in order)
    return Presburger(
        shape.get().apply(isl().Map.read_from_str(context(), f"{{ [{before}] -> [{after}] }}")), shape.params
    )


def loops_of(shape: Presburger, names: Sequence[Var]) -> list[Product] | None:
    """The set as nested intervals: one `Product` of one side a dimension, its ends over parameters and the dimensions
    before it, which are called `names`; `None` where it is no such nest.

    Given the coordinates before it, each coordinate runs over all of its interval and nothing else; what a `Product`
    says in `where` and `also` matters for the first alone, for the others it follows from those before.
    """
    kinds = isl().dim_type
    whole = shape.get()
    dims, first = whole.dim(kinds.set), whole.dim(kinds.param)
    found = []
    for k in range(dims):
        line = whole.project_out(kinds.set, k + 1, dims - k - 1)
        line = line.move_dims(kinds.param, first, kinds.set, 0, k)
        for j, name in enumerate(names[:k]):
            line = line.set_dim_name(kinds.param, first + j, param_name(name))
        side = as_product(Presburger(line, (*shape.params, *names[:k])))
        if side is None:
            return None
        found.append(side)
    return found
