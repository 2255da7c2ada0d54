"""Hulls and pieces of isl sets: products of intervals, bounding boxes, lattices, disjoint convex sets, loop nests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

from intset.domains.isl.checked import affine_hull_of, coalesced, end_of_dim, simple_hull_of
from intset.domains.isl.presburger import Presburger
from intset.domains.isl.session import context, isl, number, val, whole
from intset.domains.isl.to_expr import Reader, pw_aff_to_expr, set_to_cond, simplified
from intset.domains.isl.translate import param_name
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.node import Expr, Var
from intset.linear.form import Linear, atom
from intset.linear.lattice import Lattice, Vector, everything
from intset.regions.derived import Product, has_select, parts_of

if TYPE_CHECKING:
    from islpy import Aff, BasicSet, PwAff, Set

OVERLAPPING_PIECES: Final = 4  # examined sets for each piece of a partition
PIECE_VALUES: Final = 64  # values of a quotient or remainder by which a piece is split


def box_shape(sides: Sequence[tuple[Iterable[Linear], Iterable[Linear]]], where: Iterable[Linear]) -> Presburger:
    """A product of intervals with affine ends, as an isl set over the variables of the ends as parameters."""
    m = isl()
    rows: list[tuple[int | None, int, Linear]] = [(None, 0, form) for form in where]
    for k, (lows, highs) in enumerate(sides):
        rows += [(k, 1, form.scale(-1)) for form in lows] + [(k, -1, form) for form in highs]
    params = list(dict.fromkeys(e for _, _, form in rows for e in form.terms))
    space = m.Space.set_alloc(context(), len(params), len(sides))
    place = {}
    for index, param in enumerate(params):
        space = space.set_dim_name(m.dim_type.param, index, param_name(param))
        place[param] = index
    local = m.LocalSpace.from_space(space)
    result = m.BasicSet.universe(space)
    for dim, sign, form in rows:
        constraint = m.Constraint.alloc_inequality(local).set_constant_val(val(form.const))
        if dim is not None:
            constraint = constraint.set_coefficient_val(m.dim_type.set, dim, val(sign))
        for e, k in form.terms.items():
            constraint = constraint.set_coefficient_val(m.dim_type.param, place[e], val(k))
        result = result.add_constraint(constraint)
    return Presburger(m.Set.from_basic_set(result), params)


def as_product(shape: Presburger) -> Product | None:
    """The set as an exact product of intervals; `None` if no such product is found."""
    current = coalesced(shape.get())
    params = shape.ordered_params(current)
    found = _written_product(current, params)
    return _product_of_ends(current, params) if found is None else found


def _written_product(current: Set, params: Sequence[Expr]) -> Product | None:
    """The product read off the constraints of a single disjunct."""
    if current.n_basic_set() != 1:
        return None
    m = isl()
    explicit = current.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    part = explicit.get_basic_sets()[0].remove_redundancies()
    dims = [Var(f"x{k}") for k in range(part.dim(m.dim_type.set))]
    reader = Reader(part, m.dim_type.set, dims, params)
    result = Product([([], []) for _ in dims], [], [])
    place = {x: k for k, x in enumerate(dims)}
    for constraint in part.get_constraints():
        if constraint.is_div_constraint():
            continue
        form = reader.form(constraint, m.dim_type.set)
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
    m = isl()
    kinds = m.dim_type
    ends = []
    hull = None
    for k in range(current.dim(kinds.set)):
        if not (current.dim_has_lower_bound(kinds.set, k) and current.dim_has_upper_bound(kinds.set, k)):
            return None
        try:
            low, high = _end(current, k, "min").coalesce(), _end(current, k, "max").coalesce()
        except BudgetError:
            return None
        between = _beyond(low, ">=").intersect(_beyond(high, "<="))
        hull = between if hull is None else hull.flat_product(between)
        ends.append((low, high))
    if hull is None or not hull.is_subset(current):
        return None
    alive = current.params()
    result = Product([], [], [])
    for low, high in ends:
        written = [pw_aff_to_expr(end, (), params, alive) for end in (low, high)]
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


def ends_of(shape: Presburger) -> list[tuple[Expr, Expr]]:
    """The first and last value along each dimension of nonempty instances.

    Raises
    ------
    BudgetError: an end is infinite or has no expression.
    """
    m = isl()
    kinds = m.dim_type
    current = shape.get()
    found = []
    for k in range(current.dim(kinds.set)):
        if not (current.dim_has_lower_bound(kinds.set, k) and current.dim_has_upper_bound(kinds.set, k)):
            raise BudgetError("a region without end")
        pair = []
        for end in (_end(current, k, "min"), _end(current, k, "max")):
            written = pw_aff_to_expr(end.coalesce(), (), shape.ordered_params(end), current.params())
            if written is None:
                raise BudgetError("an empty region has no ends")
            pair.append(written)
        found.append((pair[0], pair[1]))
    return found


def hull_shape(shape: Presburger) -> Presburger | None:
    """The bounding box of each instance; `None` for an unbounded set."""
    m = isl()
    kinds = m.dim_type
    current = shape.get()
    hull = None
    for k in range(current.dim(kinds.set)):
        if not (current.dim_has_lower_bound(kinds.set, k) and current.dim_has_upper_bound(kinds.set, k)):
            return None
        between = _beyond(_end(current, k, "min"), ">=").intersect(_beyond(_end(current, k, "max"), "<="))
        hull = between if hull is None else hull.flat_product(between)
    return shape if hull is None else Presburger(coalesced(hull), shape.params)


def _end(current: Set, k: int, which: str) -> PwAff:
    """The first or last value along a dimension, as a function of the parameters.

    Raises
    ------
    BudgetError: the dimension is unbounded for some parameter values.
    """
    found = end_of_dim(current, k, -1 if which == "min" else 1)
    if found is None:
        raise BudgetError("a region without end")
    return found


def _beyond(end: PwAff, relation: str) -> Set:
    """The set of numbers x with `x relation end`, for a function `end` of the parameters."""
    m = isl()
    found: Set = m.Set.from_pw_aff(end).apply(m.Map.read_from_str(context(), f"{{ [v] -> [x] : x {relation} v }}"))
    return found


def widest(shape: Presburger, position: int, instances: Collection[Expr]) -> Expr | None:
    """The largest extent of the set along a dimension over all values of the parameters in `instances`.

    Returns an expression over the other parameters, valid if some instance is nonempty; `None` for an unbounded extent
    or one without an expression. An empty set has the extent 0.
    """
    m = isl()
    kinds = m.dim_type
    line = shape.get()
    dims = line.dim(kinds.set)
    line = line.project_out(kinds.set, position + 1, dims - position - 1).project_out(kinds.set, 0, position)
    if line.is_empty():
        return Linear(0, {}).expr()
    distance = m.Map.read_from_str(context(), "{ [x, y] -> [x - y] }")
    differences = line.flat_product(line).apply(distance)
    names = {param_name(e) for e in instances}
    for k in reversed(range(differences.dim(kinds.param))):
        if differences.get_dim_name(kinds.param, k) in names:
            differences = differences.project_out(kinds.param, k, 1)
    if not differences.dim_has_upper_bound(kinds.set, 0):
        return None
    most = _end(differences, 0, "max").add_constant_val(val(1)).coalesce()
    return pw_aff_to_expr(most, (), shape.ordered_params(most), differences.params())


def simplified_in(shape: Presburger, within: Presburger) -> Presburger:
    """The set with fewer constraints, equal inside `within`."""
    return Presburger(
        coalesced(simplified(shape.get(), within.get())), tuple(dict.fromkeys((*shape.params, *within.params)))
    )


def lattice_of(shape: Presburger) -> tuple[Lattice, list[Expr]] | None:
    """A lattice that contains the points `(params, dims)` of a set, and the parameters; `None` for the empty set.

    The join over disjuncts of the lattices that their equations and divisions define. A superset only loses strides.
    """
    kinds = isl().dim_type
    current = shape.get()
    found: Lattice | None = None
    for part in current.get_basic_sets():
        hull = affine_hull_of(part)
        if hull.is_empty():
            continue
        one = _of_equations(hull)
        if one is not None:
            found = one if found is None else found.joined(one)
    if found is None:
        return None
    assert len(found.origin) == current.dim(kinds.param) + current.dim(kinds.set)
    return found, shape.ordered_params(current)


def _of_equations(part: BasicSet) -> Lattice | None:
    """The lattice of a disjunct without inequalities.

    Quantified variables are projected out, also undefined ones: isl keeps a variable whose definition the hull lost.
    """
    kinds = isl().dim_type
    rows = part.equalities_matrix(kinds.param, kinds.set, kinds.div, kinds.cst)
    dims = sum(part.dim(kind) for kind in (kinds.param, kinds.set, kinds.div))
    found: Lattice | None = everything(dims)
    for k in range(rows.rows()):
        *row, constant = (number(rows.get_element_val(k, column)) for column in range(dims + 1))
        found = None if found is None else found.filter(row, constant)
    return None if found is None else found.projected(part.dim(kinds.param) + part.dim(kinds.set))


def in_coordinates(shape: Presburger, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> Presburger:
    """Change of basis to a lattice: the coordinates of a point `(params, dims)` become multiples of the vectors.

    The parameters keep their meaning.

    Parameters
    ----------
    vectors: each with its dimension in the result; `None` for a vector that only positions the lattice relative to the
        parameters. Dimensions without a vector are 0.
    """
    m = isl()
    kinds = m.dim_type
    current = shape.get()
    params, dims = current.dim(kinds.param), current.dim(kinds.set)
    others = sum(1 for place, _ in vectors if place is None)
    lifted = current.add_dims(kinds.set, dims + others)
    uncounted = iter(range(2 * dims, 2 * dims + others))
    columns = [(next(uncounted) if place is None else dims + place, vector) for place, vector in vectors]
    local = m.LocalSpace.from_space(lifted.get_space())
    for k in range(params + dims):  # coordinate == origin + sum of what is counted
        row = m.Constraint.alloc_equality(local).set_constant_val(val(-origin[k]))
        own = (kinds.param, k) if k < params else (kinds.set, k - params)
        row = row.set_coefficient_val(*own, val(1))
        for column, vector in columns:
            if vector[k]:
                row = row.set_coefficient_val(kinds.set, column, val(-vector[k]))
        lifted = lifted.add_constraint(row)
    counted = {place for place, _ in vectors}
    for k in range(dims):
        if k not in counted:
            lifted = lifted.fix_val(kinds.set, dims + k, val(0))
    lifted = lifted.project_out(kinds.set, 2 * dims, others).project_out(kinds.set, 0, dims)
    return Presburger(coalesced(lifted), shape.params)


# -- pieces ---------------------------------------------------------------------------------------------------------


def disjoint_pieces(shape: Presburger, most: int) -> list[Presburger] | None:
    """Partition a set into at most `most` convex sets on lattices, sorted by smallest coordinates; `None` beyond."""
    current = coalesced(shape.get())
    whole = _filled(current)
    if whole is not None:
        parts = [whole]
    elif current.n_basic_set() > OVERLAPPING_PIECES * most:
        return None
    else:
        parts = [part.to_set() for part in coalesced(current.make_disjoint()).get_basic_sets() if not part.is_empty()]
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
    return [Presburger(part, shape.params) for part in sorted(parts, key=_corner)]


def _without_division(part: Set, most: int) -> list[Set] | None:
    """Split a set by values or remainders of a division in its bounds; `None` without such a division.

    The smaller split wins: `i % 8 >= 6` holds on two lattices, `(i + 3) % 16 < 4` for `0 <= i < 16` on two intervals.
    """
    kinds = isl().dim_type
    explicit = part.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    basic = explicit.get_basic_sets()[0]
    bounding = [c for c in basic.get_constraints() if not c.is_equality() and not c.is_div_constraint()]
    # All divisions first: a query may make isl drop a redundant division of shared data.
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
    """Split a set by the values of a function; `None` for more than `most` of them."""
    m = isl()
    span = m.Map.from_pw_aff(m.PwAff.from_aff(function).intersect_domain(part)).range()
    span = span.project_out(m.dim_type.param, 0, span.dim(m.dim_type.param))
    low, high = whole(span.dim_min_val(0)), whole(span.dim_max_val(0))
    if low is None or high is None or high - low > PIECE_VALUES:
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


def _corner(part: Set) -> list[tuple[bool, int]]:
    """The sort key of a set: the smallest value of each coordinate over all parameters, unbounded ones first."""
    ends = [whole(part.dim_min_val(k)) for k in range(part.dim(isl().dim_type.set))]
    return [(False, 0) if end is None else (True, end) for end in ends]


def permuted(shape: Presburger, order: Sequence[int]) -> Presburger:
    """Permute dimensions: dimension `k` of the result is dimension `order[k]` of the set."""
    if list(order) == list(range(len(order))):
        return shape
    before = ", ".join(f"x{k}" for k in range(len(order)))
    after = ", ".join(f"x{k}" for k in order)
    return Presburger(
        shape.get().apply(isl().Map.read_from_str(context(), f"{{ [{before}] -> [{after}] }}")), shape.params
    )


def loops_of(shape: Presburger, names: Sequence[Var]) -> list[Product] | None:
    """The set as a loop nest: a single-sided `Product` a dimension, over parameters and outer dimensions `names`.

    Guarantee: for given outer coordinates, each coordinate takes exactly the values of its interval. `where` and `also`
    of the first product restrict the nest; those of the others follow from outer ones. `None` for other sets.
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
