"""`Presburger`: an isl set with the meaning of its parameters; its ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from intset.domains.certified.enumeration import runs
from intset.domains.isl.checked import end_of_dim, solving
from intset.domains.isl.session import MAX_BITS, budget, budget_aside, context, isl, named, read_set, val, whole
from intset.domains.isl.to_expr import pieces_of, pw_aff_to_expr, simplified
from intset.domains.isl.translate import param_name
from intset.domains.sets.ends import End, as_end
from intset.errors import BudgetError
from intset.expr.dag import free_vars, opaque_terms, substitute
from intset.expr.node import Expr, IntLike, Var, constant_value
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer
from intset.simplify.cost import cost

if TYPE_CHECKING:
    from islpy import PwAff, Set

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
    """Replace the parameter called `name` by `new`; returns the set and the parameters of `new`."""
    m = isl()
    form = Normalizer({}).form(new)
    for e in form.terms:
        if result.find_dim_by_name(m.dim_type.param, param_name(e)) < 0:
            result = result.add_dims(m.dim_type.param, 1)
            result = result.set_dim_name(m.dim_type.param, result.dim(m.dim_type.param) - 1, param_name(e))
    equation = m.Constraint.alloc_equality(m.LocalSpace.from_space(result.get_space()))
    position = result.find_dim_by_name(m.dim_type.param, name)
    equation = equation.set_coefficient_val(m.dim_type.param, position, val(-1))
    equation = equation.set_constant_val(val(form.const))
    for e, k in form.terms.items():
        place = result.find_dim_by_name(m.dim_type.param, param_name(e))
        equation = equation.set_coefficient_val(m.dim_type.param, place, val(k))
    result = result.add_constraint(equation).project_out(m.dim_type.param, position, 1)
    return result, list(form.terms)


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
    """The end of the set without constraints that declared bounds imply; `None` where it has none, or the same one.

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
