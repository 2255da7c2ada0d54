"""What is read off an isl set: products of intervals, bounding boxes, disjoint convex pieces, lattices of equations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING, Final

from intset.domains.isl import session
from intset.domains.isl.bindings import CST, DIV, PARAM, SET
from intset.domains.isl.translate import Reader, pw_aff_to_expr, set_to_cond
from intset.errors import BudgetError
from intset.expr import Expr, Var, ops
from intset.linear.form import Linear, atom
from intset.linear.lattice import Lattice, everything
from intset.regions.shape import Product, has_select, parts_of

if TYPE_CHECKING:
    from islpy import Aff, BasicSet, PwAff, Set

OVERLAPPING_PIECES: Final = 4  # examined sets for each piece of a partition
PIECE_VALUES: Final = 64  # values of a quotient or remainder by which a piece is split


# -- boxes ------------------------------------------------------------------------------------------------------------


def product_of(current: Set, params: Sequence[Expr]) -> Product | None:
    """The set as an exact product of intervals; `None` if no such product is found."""
    found = _written_product(current, params)
    return _product_of_ends(current, params) if found is None else found


def _written_product(current: Set, params: Sequence[Expr]) -> Product | None:
    """The product read off the constraints of a single disjunct."""
    if current.n_basic_set() != 1:
        return None
    with session.optimizing(current):  # a quantified variable without a definition is an extremum
        explicit = current.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    part = explicit.get_basic_sets()[0].remove_redundancies()
    dims = [Var(f"x{k}") for k in range(part.dim(SET))]
    reader = Reader(part, SET, dims, params)
    result = Product([([], []) for _ in dims], [], [])
    place = {x: k for k, x in enumerate(dims)}
    for constraint in part.get_constraints():
        if constraint.is_div_constraint():
            continue
        form = reader.form(constraint, SET)
        if form is None or not _enter(result, form, constraint.is_equality(), place):
            return None
    return result if all(lows and highs for lows, highs in result.sides) else None


def _enter(result: Product, form: Linear, is_equality: bool, place: dict[Var, int]) -> bool:
    """Add `form >= 0` (or `== 0`) to a product; `False` if it relates several dimensions."""
    own = [e for e in form.terms if isinstance(e, Var) and e in place]
    if any(e.op is not ops.VAR and any(v in place for v in e.free_vars()) for e in form.terms) or len(own) > 1:
        return False
    if not own:
        result.where.append(form)
        if is_equality:
            result.where.append(form.scale(-1))
        return True
    k = form.terms[own[0]]
    rest = Linear(form.const, {e: c for e, c in form.terms.items() if e is not own[0]})
    if is_equality and abs(k) != 1:
        return False
    lows, highs = result.sides[place[own[0]]]
    if is_equality:
        value = rest.scale(-k)
        lows.append(value)
        highs.append(value)
    elif k > 0:  # x >= ceil(-rest / k) = -floor(rest / k)
        lows.append(_quotient(rest, k).scale(-1))
    else:
        highs.append(_quotient(rest, -k))
    return True


def _quotient(form: Linear, k: int) -> Linear:
    if k == 1:
        return form
    return Linear(form.const // k, {}) if form.is_const else atom(form.expr() // k)


def _product_of_ends(current: Set, params: Sequence[Expr]) -> Product | None:
    """The product of the extents along each dimension, if it equals the set."""
    try:
        ends = [_ends_along(current, k) for k in range(current.dim(SET))]
    except BudgetError:
        return None
    hull = _between(ends)
    if hull is None or not hull.is_subset(current):
        return None
    alive = current.params()
    result = Product([], [], [])
    for pair in ends:
        written = [pw_aff_to_expr(end, (), params, alive) for end in pair]
        if any(e is None or has_select(e) for e in written):
            return None
        first, last = written
        assert first is not None and last is not None
        result.sides.append((parts_of(first, ops.MAX), parts_of(last, ops.MIN)))
    where = set_to_cond(alive, (), params)
    if where is None:
        return None
    if not (where.op is ops.BOOL and where.data):
        result.also.append(where)
    return result


def box_around(current: Set) -> Set | None:
    """The bounding box of each instance; `None` without dimensions.

    Raises
    ------
    BudgetError: a dimension is unbounded for some parameter values.
    """
    return _between([_ends_along(current, k) for k in range(current.dim(SET))])


def _ends_along(current: Set, k: int) -> tuple[PwAff, PwAff]:
    """The first and last value along a dimension, as functions of the parameters; raises as `box_around` does."""
    kind = SET
    if current.dim_has_lower_bound(kind, k) and current.dim_has_upper_bound(kind, k):
        low = session.end_of_dim(current, k, -1)
        high = None if low is None else session.end_of_dim(current, k, 1)
        if low is not None and high is not None:
            return low, high
    raise BudgetError("a region without end")


def _between(ends: Sequence[tuple[PwAff, PwAff]]) -> Set | None:
    """The product of the intervals between functions of the parameters; `None` for none."""
    m = session.isl()
    above, below = (
        m.Map.read_from_str(session.context(), f"{{ [v] -> [x] : x {relation} v }}") for relation in (">=", "<=")
    )
    sides = [m.Set.from_pw_aff(a).apply(above).intersect(m.Set.from_pw_aff(b).apply(below)) for a, b in ends]
    return reduce(lambda box, side: box.flat_product(side), sides) if sides else None


# -- lattices ---------------------------------------------------------------------------------------------------------


def lattice_of_equations(part: BasicSet) -> Lattice | None:
    """The lattice of a disjunct without inequalities.

    Quantified variables are projected out, also undefined ones: isl keeps a variable whose definition the hull lost.
    """
    rows = part.equalities_matrix(PARAM, SET, DIV, CST)
    dims = sum(part.dim(kind) for kind in (PARAM, SET, DIV))
    found: Lattice | None = everything(dims)
    for k in range(rows.rows()):
        *row, constant = (session.number(rows.get_element_val(k, column)) for column in range(dims + 1))
        found = None if found is None else found.filter(row, constant)
    return None if found is None else found.projected(part.dim(PARAM) + part.dim(SET))


# -- pieces ---------------------------------------------------------------------------------------------------------


def disjoint_pieces(points: Set, most: int) -> list[Set] | None:
    """Partition a set into at most `most` convex sets on lattices, sorted by smallest coordinates; `None` beyond."""
    current = session.coalesced(points)
    filled = _filled(current)
    if filled is not None:
        parts = [filled]
    elif current.n_basic_set() > OVERLAPPING_PIECES * most:
        return None
    else:
        parts = [
            part.to_set() for part in session.coalesced(current.make_disjoint()).get_basic_sets() if not part.is_empty()
        ]
        parts = _merged(parts) if len(parts) <= OVERLAPPING_PIECES * most else parts
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

    def corner(part: Set) -> list[tuple[bool, int]]:
        """The smallest value of each coordinate over all parameters, unbounded ones first."""
        ends = [session.whole(part.dim_min_val(k)) for k in range(part.dim(SET))]
        return [(False, 0) if end is None else (True, end) for end in ends]

    return sorted(parts, key=corner)


def _without_division(part: Set, most: int) -> list[Set] | None:
    """Split a set by values or remainders of a division in its bounds; `None` without such a division.

    The smaller split wins: `i % 8 >= 6` holds on two lattices, `(i + 3) % 16 < 4` for `0 <= i < 16` on two intervals.
    """
    explicit = part.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    basic = explicit.get_basic_sets()[0]
    bounding = [c for c in basic.get_constraints() if not c.is_equality() and not c.is_div_constraint()]
    # All divisions first: a query may make isl drop a redundant division of shared data.
    places = [k for k in range(basic.dim(DIV)) if any(c.involves_dims(DIV, k, 1) for c in bounding)]
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
    """Split a set by the values of a function; `None` for more than `most` of them."""
    m = session.isl()
    span = m.Map.from_pw_aff(m.PwAff.from_aff(function).intersect_domain(part)).range()
    span = span.project_out(PARAM, 0, span.dim(PARAM))
    low, high = session.whole(span.dim_min_val(0)), session.whole(span.dim_max_val(0))
    if low is None or high is None or high - low > PIECE_VALUES:
        return None
    found: list[Set] = []
    for value in range(low, high + 1):
        if len(found) > most:
            return None
        here = part.intersect(m.Set.from_basic_set(function.add_constant_val(session.val(-value)).zero_basic_set()))
        found += [] if here.is_empty() else [here]
    return found if len(found) <= most else None


def _filled(union: Set) -> Set | None:
    """The union as one convex set; `None` if no such set is found."""
    if union.n_basic_set() == 1:
        return union
    hull = session.simple_hull_of(union)
    return hull if hull.is_subset(union) else None


def _merged(parts: list[Set]) -> list[Set]:
    """Merge pairs of disjoint convex sets with a convex union; stronger than isl's `coalesce`."""
    left, done = list(parts), []
    while left:
        part = left.pop(0)
        both = next(((k, one) for k, other in enumerate(left) if (one := _filled(part.union(other))) is not None), None)
        if both is None:
            done.append(part)
        else:
            left[both[0]] = both[1]
    return done
