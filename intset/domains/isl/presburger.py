"""`Presburger`: an isl set with the meaning of its parameters; its ends.

Hulls and pieces of isl sets: products of intervals, bounding boxes, lattices, disjoint convex sets, loop nests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from intset.domains.certified.witness import runs
from intset.domains.isl.session import (
    MAX_BITS,
    affine_hull_of,
    budget,
    budget_aside,
    coalesced,
    context,
    end_of_dim,
    isl,
    named,
    number,
    optimizing,
    read_set,
    simple_hull_of,
    solving,
    val,
    whole,
)
from intset.domains.isl.translate import Reader, param_name, pieces_of, pw_aff_to_expr, set_to_cond, simplified
from intset.domains.sets.ends import End, as_end
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms, substitute
from intset.expr.node import Expr, IntLike, Var, constant_value
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom
from intset.linear.lattice import Lattice, Vector, everything
from intset.regions.shape import Product, has_select, parts_of
from intset.simplify.engine import cost

if TYPE_CHECKING:
    from islpy import Aff, BasicSet, PwAff, Set

PLAINER_END: Final = 60_000  # operations for an end without the constraints that declared bounds imply
LISTING: Final = 2_000_000  # operations for the set of points in a list


class Presburger:
    """An isl set together with the meaning of its parameters, usable from every thread and picklable.

    Invariant: the text of the set never changes.

    An isl object belongs to the context of one thread; another thread reads the set again from its text. isl rewrites a
    set in place during some queries, and later answers depend on the representation. Therefore each query gets a copy
    (`get`), except queries that leave the representation alone (`shared`).
    """

    __slots__ = ("_held", "_read", "params", "written")

    def __init__(self, isl_set: Set, params: Sequence[Expr], text: str | None = None) -> None:
        # One tuple, so that no thread sees the set of one context with another context.
        self._held = (context(), isl_set)
        self._read: tuple[Any, Set] | None = None  # the set in the thread of the last query
        self.written = text  # of a set that was read: isl may write it in other words
        self.params = tuple(params)

    def get(self) -> Set:
        """A copy of the set, for one query."""
        found: Set = isl().duplicate(self.shared())
        return found

    def shared(self) -> Set:
        """The set itself, for methods of isl that do not rewrite it (a test covers those in use)."""
        here = context()
        owner, held = self._held
        if owner is here:
            return held
        read = self._read
        if read is None or read[0] is not here:
            read = self._read = (here, read_set(self.text()))
        return read[1]

    def afresh(self) -> Set:
        """The set parsed from its text: the same representation in every thread, for printed answers."""
        return read_set(self.text())

    def text(self) -> str:
        """The set in isl's notation, the same in every thread."""
        return str(isl().duplicate(self._held[1])) if self.written is None else self.written

    def __reduce__(self) -> tuple[Callable[..., Presburger], tuple[Any, ...]]:
        names = tuple(param_name(p) for p in self.params)
        return (_restore, (self.text(), names, self.params))

    def ordered_params(self, isl_object: Set | PwAff) -> list[Expr]:
        """The parameters of `isl_object` in its own order."""
        m = isl()
        by_name: dict[str | None, Expr] = {param_name(p): p for p in self.params}
        space = isl_object.get_space()
        return [by_name[space.get_dim_name(m.dim_type.param, k)] for k in range(space.dim(m.dim_type.param))]

    def placed(self, values: Mapping[Var, IntLike]) -> Presburger:
        """Substitute parameters simultaneously; empty if a parameter that is a term becomes undefined."""
        m = isl()
        result = self.get()
        kept: list[Expr] = []
        moved: list[tuple[str, Expr]] = []
        for param in self.params:
            position = result.find_dim_by_name(m.dim_type.param, param_name(param))
            if position < 0:
                continue
            new = simplified_expr(substitute(param, values))
            number = constant_value(new)
            if number is not None:
                result = result.fix_val(m.dim_type.param, position, val(number))
                result = result.project_out(m.dim_type.param, position, 1)
            elif new is param:
                kept.append(param)
            elif not new.free_vars() and not opaque_terms(new):  # a division by 0
                return Presburger(m.Set.empty(self.shared().get_space()), self.params)
            else:
                moved.append((named(f"_{param_name(param)}"), new))
                result = result.set_dim_name(m.dim_type.param, position, moved[-1][0])
        for name, new in moved:
            result, more = _standing_for(result, name, new)
            kept.extend(more)
        return Presburger(result, tuple(dict.fromkeys(kept)))

    def used_params(self) -> tuple[Expr, ...]:
        """The parameters that the constraints involve."""
        if not self.params:
            return ()
        m = isl()
        current = self.shared()
        return tuple(
            p
            for p in self.params
            if (k := current.find_dim_by_name(m.dim_type.param, param_name(p))) >= 0
            and current.involves_dims(m.dim_type.param, k, 1)
        )

    def free_params(self) -> tuple[Var, ...]:
        """The variables of the parameters that the constraints involve."""
        return free_vars(*self.used_params())


def simplified_expr(e: Expr) -> Expr:
    return Normalizer({}).form(e).expr()


def _standing_for(result: Set, name: str, new: Expr) -> tuple[Set, list[Expr]]:
    """Replace the parameter called `name` by `new`; returns the set and the parameters of `new`.

    Quotients by numbers are no parameters: constraints define them.
    """
    m = isl()
    kind = m.dim_type.param
    form = Normalizer({}).form(new)
    dividends, leaves = _quotients_of(form)
    for e in leaves:
        if result.find_dim_by_name(kind, param_name(e)) < 0:
            result = result.add_dims(kind, 1)
            result = result.set_dim_name(kind, result.dim(kind) - 1, param_name(e))
    position = result.find_dim_by_name(kind, name)
    place = {e: result.find_dim_by_name(kind, param_name(e)) for e in leaves}
    local = m.LocalSpace.from_space(result.get_space().params())
    equation = m.Aff.var_on_domain(local, kind, position).eq_set(_value(local, form, place, dividends))
    return result.intersect_params(equation).project_out(kind, position, 1), leaves


def _value(local: Any, form: Linear, place: Mapping[Expr, int], dividends: Sequence[tuple[Expr, Linear]]) -> Aff:
    """A form as a function of the parameters at these places; quotients after those that they are made of."""
    m = isl()
    values: dict[Expr, Aff] = {e: m.Aff.var_on_domain(local, m.dim_type.param, k) for e, k in place.items()}

    def total(of: Linear) -> Aff:
        result: Aff = m.Aff.val_on_domain(local, val(of.const))
        for e, k in of.terms.items():
            result = result.add(values[e].scale_val(val(k)))
        return result

    for e, dividend in dividends:
        values[e] = total(dividend).scale_down_val(val(e.args[1].data)).floor()
    return total(form)


def _quotients_of(form: Linear) -> tuple[list[tuple[Expr, Linear]], list[Expr]]:
    """The quotients by positive numbers in a form with their dividends, inner ones first; and all other terms."""
    dividends: dict[Expr, Linear] = {}
    leaves: dict[Expr, None] = {}
    finished: dict[Expr, None] = {}
    waiting = list(form.terms)
    while waiting:
        e = waiting[-1]
        if e.op is not ops.FLOORDIV or e.args[1].op is not ops.CONST or e.args[1].data <= 0:
            leaves[waiting.pop()] = None
            continue
        if e not in dividends:
            dividends[e] = Normalizer({}).form(e.args[0])
        inner = [t for t in dividends[e].terms if t not in finished and t not in leaves]
        if inner:
            waiting += inner
        else:
            finished[waiting.pop()] = None
    return [(e, dividends[e]) for e in finished], list(leaves)


def _restore(text: str, names: tuple[str, ...], params: tuple[Expr, ...]) -> Presburger:
    """Unpickle a set; its parameters get new names in this process."""
    new = dict(zip(names, map(param_name, params), strict=True))
    text = re.sub(r"[A-Za-z_]\w*", lambda word: new.get(word[0], word[0]), text)
    return Presburger(read_set(text), params, text)


def declared(shape: Presburger, *others: Presburger) -> Set:
    """The isl set of parameter values within declared bounds and steps; answers hold inside it."""
    m = isl()
    kind = m.dim_type.param
    result: Set = m.Set.universe(shape.shared().get_space().params())
    for other in others:
        result = result.align_params(other.shared().get_space())
    known: dict[str | None, Expr] = {param_name(p): p for one in (shape, *others) for p in one.params}
    for k in range(result.dim(kind)):
        param = known[result.get_dim_name(kind, k)]
        low, high, step = (*Normalizer({}).atom_bounds(param), 1) if not isinstance(param, Var) else param.declared()
        if low is not None:
            result = result.lower_bound_val(kind, k, val(low))
        if high is not None:
            result = result.upper_bound_val(kind, k, val(high))
        if step > 1:
            local = m.LocalSpace.from_space(result.get_space())
            value = m.Aff.var_on_domain(local, kind, k)
            result = result.intersect(value.mod_val(val(step)).eq_set(m.Aff.zero_on_domain(local)))
    return result


def extreme_of(shape: Presburger, position: int, side: int) -> End:
    """The smallest (`side` -1) or largest (+1) value of a dimension; crossed infinities when the set is empty.

    Raises
    ------
    BudgetError: the end has no expression.
    """
    if not shape.free_params():
        return constant_end(shape.shared(), position, side)
    if shape.shared().is_empty():
        return POS_INF if side < 0 else NEG_INF
    current = shape.afresh()
    if not _has_end(current, position, side):
        current = _without_empty_parts(current)  # isl finds no end where a disjunct is empty
        if not _has_end(current, position, side):
            return NEG_INF if side < 0 else POS_INF
    piecewise = end_of_dim(current, position, side)
    if piecewise is None:  # unbounded for some parameter values, maybe outside declared bounds
        current = current.intersect_params(declared(shape))
        piecewise = end_of_dim(current, position, side)
    if piecewise is None:
        return NEG_INF if side < 0 else POS_INF
    params = shape.ordered_params(piecewise)
    found = pw_aff_to_expr(piecewise.coalesce(), (), params, context=current.params())
    if found is None:
        return POS_INF if side < 0 else NEG_INF
    # the end may be simpler beyond the declared range of a size, such as t >= 1
    if len(pieces_of(piecewise)) > 1 and any(v.declared()[1] is not None for e in params for v in e.free_vars()):
        plainer = _beyond_declared(shape, current, position, side)
        found = found if plainer is None else min(found, plainer, key=cost)
    return found


def _beyond_declared(shape: Presburger, current: Set, position: int, side: int) -> Expr | None:
    """The end of the set without constraints that declared bounds imply; `None` without a set, or with that same set.

    Guarantee: equal to the end of the set itself within declared bounds.
    """
    try:
        with budget_aside(PLAINER_END):
            wider = simplified(current, declared(shape))
            same = wider.is_equal(current) or not _has_end(wider, position, side)
            piecewise = None if same else end_of_dim(wider, position, side)
            if piecewise is None:
                return None
            params = shape.ordered_params(piecewise)
            return pw_aff_to_expr(piecewise.coalesce(), (), params, context=wider.params())
    except BudgetError:
        return None


def are_attained(shape: Presburger, position: int, ends: tuple[End, End]) -> bool:
    """Whether every nonempty instance has the `ends` that `extreme_of` returned; some may lack an infinite end."""
    sides = [side for end, side in zip(ends, (-1, 1), strict=True) if isinstance(end, Infinity)]
    if not sides or not shape.free_params():
        return True
    parts = _without_empty_parts(shape.get()).get_basic_sets()
    return not any(_has_end(part.to_set(), position, side) for part in parts for side in sides)


def _has_end(current: Set, position: int, side: int) -> bool:
    kind = isl().dim_type.set
    return bool(
        current.dim_has_lower_bound(kind, position) if side < 0 else current.dim_has_upper_bound(kind, position)
    )


def _without_empty_parts(current: Set) -> Set:
    parts = [part.to_set() for part in current.get_basic_sets()]
    kept = [part for part in parts if not part.is_empty()]
    if len(kept) == len(parts):
        return current
    result: Set = isl().Set.empty(current.get_space())
    for part in kept:
        result = result.union(part)
    return result


def disjuncts(isl_set: Set) -> list[Set]:
    """The disjuncts of a set, as sets."""
    if isl_set.n_basic_set() == 1:
        return [isl_set]
    return [part.to_set() for part in isl_set.get_basic_sets()]


def constant_end(isl_set: Set, position: int, side: int) -> End:
    """The end of a set without parameters, disjunct by disjunct.

    isl 0.27 answers wrongly for a union with a disjunct that is known to be empty: NaN counts as 0.
    """
    best: int | None = None
    for part in disjuncts(isl_set):
        with solving(part):
            found = whole(part.dim_min_val(position) if side < 0 else part.dim_max_val(position))
        if found is None:
            if part.is_empty():
                continue
            return NEG_INF if side < 0 else POS_INF
        best = found if best is None else min(best, found) if side < 0 else max(best, found)
    if best is None:
        return POS_INF if side < 0 else NEG_INF
    return as_end(best)


def listed_shape(
    points: Sequence[tuple[int, ...]], params: Sequence[Expr], max_operations: int = LISTING
) -> Presburger:
    """The set of listed points, in sorted order; the first coordinates are values of `params`.

    An arithmetic progression along the last coordinate becomes one constraint.

    Raises
    ------
    BudgetError: coalescing exceeds `max_operations`, or a coordinate exceeds `MAX_BITS`.
    """
    if any(v.bit_length() > MAX_BITS for point in points for v in point):
        raise BudgetError(f"a coordinate of more than {MAX_BITS} bits")
    m = isl()
    names = [param_name(p) for p in params]
    head = f"[{', '.join(names)}] -> " if names else ""
    dims = len(points[0]) - len(params) if points else 0
    coordinates = [f"x{k}" for k in range(dims)]
    parts = []
    for prefix, steps in _runs(points):
        equal = [f"{name} = {v}" for name, v in zip((*names, *coordinates), prefix, strict=False)]
        for first, last, step in steps:
            inside = [f"{first} <= {coordinates[-1]} <= {last}"] if dims else []
            if step > 1:
                inside.append(f"({coordinates[-1]} - {first}) mod {step} = 0")
            parts.append(" and ".join((*equal, *inside)))
    body = " or ".join(f"({part})" for part in parts) if parts else "1 = 0"
    with budget(max_operations):
        result = m.Set.read_from_str(context(), f"{head}{{ [{', '.join(coordinates)}] : {body} }}").coalesce()
    return Presburger(result, tuple(params))


def _runs(points: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], list[tuple[int, int, int]]]]:
    """Group points by all coordinates but the last, each group as arithmetic progressions of the last."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for point in points:
        groups.setdefault(point[:-1], []).append(point[-1])
    return [(prefix, list(runs(values))) for prefix, values in groups.items()]


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
    with optimizing(current):  # a quantified variable without a definition is an extremum
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
