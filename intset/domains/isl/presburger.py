"""`IslShape`: a Presburger set as a `Shape`, an isl set with the meaning of its parameters; `Isl`: images, consistency
and decisions by isl, as shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from intset import config as configuration
from intset.domains.isl import session
from intset.domains.isl.bindings import IN, OUT, PARAM, SET
from intset.domains.isl.cones import Maximum, cases
from intset.domains.isl.count import count, count_symbolic, max_over
from intset.domains.isl.translate import (
    Translation,
    aff_to_expr,
    box_around,
    disjoint_pieces,
    image_of,
    lattice_of_equations,
    param_name,
    pieces_of,
    product_of,
    pw_aff_to_expr,
    set_to_cond,
    simplified,
)
from intset.domains.query import Points, Query, TierVerdict, notes_of_bounds
from intset.domains.sets.ends import End, as_end
from intset.domains.witness import facts_hold, runs, value_there
from intset.errors import BudgetError, CountError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, IntLike, Range, Var, constant_value, dag, ops
from intset.expr.build import logical_and, select
from intset.expr.definedness import definedness, is_partial, total
from intset.expr.node import PlainVar, truth
from intset.linear.canonical import Normalizer, form_of, unranged
from intset.linear.form import Linear
from intset.linear.lattice import Lattice, Vector
from intset.regions.shape import COUNTED_POINTS, Account, Ceiling, PerInstance, Product, Shape, coordinates, remark
from intset.simplify.engine import cost

if TYPE_CHECKING:
    from islpy import Aff, PwAff, Set

PLAINER_END: Final = 60_000  # operations for an end without the constraints that declared bounds imply
LISTING: Final = 2_000_000  # operations for the set of points in a list


class IslShape(Shape):
    """A Presburger set: exact in all of the algebra, under budgets of isl's operations, usable from every thread and
    picklable.

    Invariant: the text of the set never changes.

    An isl object belongs to the context of one thread; another thread reads the set again from its text. isl rewrites a
    set in place during some queries, and later answers depend on the representation. Therefore each query gets a copy
    (`get`), except queries that leave the representation alone (`shared`).

    Attributes
    ----------
    params: the meaning of the parameters, by `param_name`.
    """

    __slots__ = ("_held", "_read", "params", "written")
    by: ClassVar[str] = session.NAME

    def __init__(self, isl_set: Set, params: Sequence[Expr], text: str | None = None) -> None:
        # One tuple, so that no thread sees the set of one context with another context.
        self._held = (session.context(), isl_set)
        self._read: tuple[Any, Set] | None = None  # the set in the thread of the last query
        self.written = text  # of a set that was read: isl may write it in other words
        self.params = tuple(params)

    def get(self) -> Set:
        """A copy of the set, for one query."""
        found: Set = session.isl().duplicate(self.shared())
        return found

    def shared(self) -> Set:
        """The set itself, for methods of isl that do not rewrite it (a test covers those in use)."""
        here = session.context()
        owner, held = self._held
        if owner is here:
            return held
        read = self._read
        if read is None or read[0] is not here:
            read = self._read = (here, session.read_set(self.text()))
        return read[1]

    def afresh(self) -> Set:
        """The set parsed from its text: the same representation in every thread, for printed answers."""
        return session.read_set(self.text())

    def text(self) -> str:
        """The set in isl's notation, the same in every thread."""
        return str(session.isl().duplicate(self._held[1])) if self.written is None else self.written

    def __reduce__(self) -> tuple[Callable[..., IslShape], tuple[Any, ...]]:
        names = tuple(param_name(p) for p in self.params)
        return (_restore, (self.text(), names, self.params))

    def ordered_params(self, isl_object: Set | PwAff) -> list[Expr]:
        """The parameters of `isl_object` in its own order."""
        by_name: dict[str | None, Expr] = {param_name(p): p for p in self.params}
        space = isl_object.get_space()
        return [by_name[space.get_dim_name(PARAM, k)] for k in range(space.dim(PARAM))]

    @property
    def dims(self) -> int:  # type: ignore[override]  # computed from the isl set
        return int(self.shared().dim(SET))

    def _with(self, isl_set: Set, *others: IslShape) -> IslShape:
        """A result over the parameters of all operands."""
        return IslShape(isl_set, tuple(dict.fromkeys(p for shape in (self, *others) for p in shape.params)))

    # -- the core -----------------------------------------------------------------------------------------------

    def union(self, other: Shape) -> IslShape:
        both = of(other)
        return self._with(session.coalesced(self.get().union(both.get())), both)

    def intersect(self, other: Shape) -> IslShape:
        both = of(other)
        return self._with(session.coalesced(self.get().intersect(both.get())), both)

    def union_all(self, others: Sequence[Shape]) -> IslShape:
        total, more = self.get(), [of(other) for other in others]
        for other in more:
            total = total.union(other.get())
        return self._with(session.coalesced(total), *more)

    def subtract(self, other: Shape) -> IslShape:
        both = of(other)
        return self._with(session.coalesced(session.difference_of(self.get(), both.get())), both)

    def project(self, dims: Sequence[int]) -> IslShape:
        current = self.get()
        if not len(dims):
            return self._with(session.isl().Set.from_params(current.params()))
        end = current.dim(SET)
        for k in (*sorted(dims, reverse=True), -1):
            if k + 1 < end:
                current = current.project_out(SET, k + 1, end - k - 1)
            end = k
        left = sorted(dims)
        current = current if len(left) == self.dims else session.coalesced(current)
        if list(dims) != left:
            before, after = (", ".join(f"x{k}" for k in order) for order in (left, dims))
            current = current.apply(
                session.isl().Map.read_from_str(session.context(), f"{{ [{before}] -> [{after}] }}")
            )
        return self._with(current)

    def filter(self, point: Sequence[Var], condition: Cond) -> IslShape:
        inside = translated(point, condition)
        return self._with(session.coalesced(self.get().intersect(inside.get())), inside)

    def is_empty(self) -> bool:
        current = self.shared()
        with session.solving(current):
            return bool(current.is_empty() or (self.params and current.intersect_params(declared(self)).is_empty()))

    def condition(self, point: Sequence[Expr]) -> Cond:
        """The condition that a point belongs to the set.

        Guarantee: it is defined everywhere, so negation is sound. Where a parameter such as `6 // n` is undefined, the
        constraints decide independently of its value.
        """
        current = self.afresh()
        params = [total(param) for param in self.ordered_params(current)]
        found = set_to_cond(current, point, params, context=declared(self))
        if found is None:
            raise BudgetError("the set has no quantifier-free condition within the budget")
        return found

    def product_with(self, other: Shape, shared: int) -> IslShape:
        right = of(other)
        first, last = self.dims - shared, right.dims - shared
        left = self.get().add_dims(SET, last)
        return self._with(session.coalesced(left.intersect(right.get().insert_dims(SET, 0, first))), right)

    def everything(self, dims: int) -> IslShape:
        return universe(dims)

    def where(self, point: Sequence[Var], condition: Cond) -> IslShape:
        return translated(point, condition)

    def describe(self) -> str:
        """isl's own notation, with the parameters' real names."""
        text = self.text()
        for param in self.params:
            text = text.replace(param_name(param), param.name if isinstance(param, Var) else f"({param})")
        return text

    def is_limited(self) -> bool:
        return session.is_limited()

    # -- parameters ---------------------------------------------------------------------------------------------

    def budget(self, operations: int, account: Account | None = None) -> AbstractContextManager[None]:
        return session.budget(operations, account)

    def atoms(self) -> tuple[Expr, ...]:
        """The parameters that the constraints involve."""
        if not self.params:
            return ()
        current = self.shared()
        return tuple(
            p
            for p in self.params
            if (k := current.find_dim_by_name(PARAM, param_name(p))) >= 0 and current.involves_dims(PARAM, k, 1)
        )

    def variables(self) -> tuple[Var, ...]:
        return dag.free_vars(*self.atoms())

    def includes(self, other: Shape) -> bool:
        both = of(other)
        inside, around = both.shared(), self.shared()
        if inside.is_subset(around) or not (self.params or both.params):
            return bool(inside.is_subset(around))
        return bool(inside.intersect_params(declared(self, both)).is_subset(around))

    def at(self, values: Mapping[Var, IntLike]) -> IslShape:
        """Substitute parameters simultaneously.

        Where a parameter is a term that becomes undefined, the points that belong for every value of the term remain.
        """
        result = self.get()
        kept: list[Expr] = []
        moved: list[tuple[str, Expr]] = []
        undefined: list[str] = []
        for param in self.params:
            position = result.find_dim_by_name(PARAM, param_name(param))
            if position < 0:
                continue
            new = form_of(dag.substitute(param, values)).expr()
            number = constant_value(new)
            if number is not None:
                result = result.fix_val(PARAM, position, session.val(number))
                result = result.project_out(PARAM, position, 1)
            elif new is param:
                kept.append(param)
            elif not new.free_vars() and not dag.opaque_terms(new):  # a division by 0
                undefined.append(param_name(param))
            else:
                moved.append((session.named(f"_{param_name(param)}"), new))
                result = result.set_dim_name(PARAM, position, moved[-1][0])
        for name in undefined:  # not in the complement for any value
            position = result.find_dim_by_name(PARAM, name)
            result = result.complement().project_out(PARAM, position, 1).complement()
        for name, new in moved:
            result, more = _standing_for(result, name, new)
            kept.extend(more)
        return IslShape(result, tuple(dict.fromkeys(kept)))

    def intersect_params(self, allowed: Shape) -> IslShape:
        around = of(allowed)
        return self._with(self.get().intersect_params(around.get().params()), around)

    def params_to_dims(self, params: Sequence[Var]) -> IslShape:
        self._only_variables(params)
        current = self.get()
        for place, v in enumerate(params):
            position = current.find_dim_by_name(PARAM, param_name(v))
            current = current.insert_dims(SET, place, 1)
            if position >= 0:  # a moved dimension would keep its name, and isl distinguishes spaces by names
                current = current.equate(SET, place, PARAM, position)
                current = current.project_out(PARAM, position, 1)
        return IslShape(current, tuple(p for p in self.params if p not in params))

    def _only_variables(self, params: Collection[Expr]) -> None:
        """Refuse if a parameter such as `n*m` mentions a variable that becomes a dimension."""
        for e in self.atoms():
            if not isinstance(e, Var) and any(v in params for v in e.free_vars()) and e not in params:
                raise BudgetError(f"{e} is not affine")

    def dims_to_params(self, names: Sequence[Var]) -> IslShape:
        if not names:
            return self
        current = self.get()
        start = current.dim(PARAM)
        current = current.move_dims(PARAM, start, SET, 0, len(names))
        for k, v in enumerate(names):
            current = current.set_dim_name(PARAM, start + k, param_name(v))
        return IslShape(current, (*self.params, *names))

    def without(self, params: Collection[Expr]) -> IslShape:
        current = self.get()
        for e in params:
            position = current.find_dim_by_name(PARAM, param_name(e))
            if position >= 0:
                current = current.project_out(PARAM, position, 1)
        return IslShape(current, tuple(p for p in self.params if p not in params))

    # -- ends ---------------------------------------------------------------------------------------------------

    def end(self, k: int, side: int) -> End:
        if not self.variables():
            return constant_end(self.shared(), k, side)
        outward, crossed = (NEG_INF, POS_INF) if side < 0 else (POS_INF, NEG_INF)
        if self.shared().is_empty():
            return crossed
        current = self.afresh()
        if not _has_end(current, k, side):
            current = _without_empty_parts(current)  # isl finds no end where a disjunct is empty
            if not _has_end(current, k, side):
                return outward
        piecewise = session.end_of_dim(current, k, side)
        if piecewise is None:  # unbounded for some parameter values, maybe outside declared bounds
            current = current.intersect_params(declared(self))
            piecewise = session.end_of_dim(current, k, side)
        if piecewise is None:
            return outward
        params = self.ordered_params(piecewise)
        found = pw_aff_to_expr(piecewise.coalesce(), (), params, context=current.params())
        if found is None:
            return crossed
        # the end may be simpler beyond the declared range of a size, such as t >= 1
        if len(pieces_of(piecewise)) > 1 and any(v.declared()[1] is not None for e in params for v in e.free_vars()):
            plainer = self._end_beyond_declared(current, k, side)
            found = found if plainer is None else min(found, plainer, key=cost)
        return found

    def _end_beyond_declared(self, current: Set, k: int, side: int) -> Expr | None:
        """The end of the set without constraints that declared bounds imply; `None` for the same set, or without one.

        Guarantee: equal to the end of the set itself within declared bounds.
        """
        try:
            with session.budget_aside(PLAINER_END):
                wider = simplified(current, declared(self))
                same = wider.is_equal(current) or not _has_end(wider, k, side)
                piecewise = None if same else session.end_of_dim(wider, k, side)
                if piecewise is None:
                    return None
                params = self.ordered_params(piecewise)
                return pw_aff_to_expr(piecewise.coalesce(), (), params, context=wider.params())
        except BudgetError:
            return None

    def attains(self, k: int, ends: tuple[End, End]) -> bool:
        sides = [side for end, side in zip(ends, (-1, 1), strict=True) if isinstance(end, Infinity)]
        if not sides or not self.variables():
            return True
        parts = _without_empty_parts(self.get()).get_basic_sets()
        return not any(_has_end(part.to_set(), k, side) for part in parts for side in sides)

    # -- boxes --------------------------------------------------------------------------------------------------

    def box(self, sides: Sequence[tuple[Iterable[Linear], Iterable[Linear]]], where: Iterable[Linear] = ()) -> IslShape:
        """A product of intervals with affine ends, over the variables of the ends as parameters."""
        m = session.isl()
        rows: list[tuple[int | None, int, Linear]] = [(None, 0, form) for form in where]
        for k, (lows, highs) in enumerate(sides):
            rows += [(k, 1, form.scale(-1)) for form in lows] + [(k, -1, form) for form in highs]
        params = list(dict.fromkeys(e for _, _, form in rows for e in form.terms))
        space = m.Space.set_alloc(session.context(), len(params), len(sides))
        place = {}
        for index, param in enumerate(params):
            space = space.set_dim_name(PARAM, index, param_name(param))
            place[param] = index
        local = m.LocalSpace.from_space(space)
        result = m.BasicSet.universe(space)
        for dim, sign, form in rows:
            constraint = m.Constraint.alloc_inequality(local).set_constant_val(session.val(form.const))
            if dim is not None:
                constraint = constraint.set_coefficient_val(SET, dim, session.val(sign))
            for e, k in form.terms.items():
                constraint = constraint.set_coefficient_val(PARAM, place[e], session.val(k))
            result = result.add_constraint(constraint)
        return IslShape(m.Set.from_basic_set(result), params)

    def listing(self, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> IslShape:
        """The set of listed points; an arithmetic progression along the last coordinate becomes one constraint.

        Raises
        ------
        BudgetError: coalescing exceeds `LISTING`, or a coordinate exceeds `MAX_BITS`.
        """
        if not points:
            return IslShape(session.isl().Set.empty(universe(dims).get().get_space()), ())
        if any(v.bit_length() > session.MAX_BITS for point in points for v in point):
            raise BudgetError(f"a coordinate of more than {session.MAX_BITS} bits")
        m = session.isl()
        called = [param_name(p) for p in names]
        head = f"[{', '.join(called)}] -> " if called else ""
        axes = [f"x{k}" for k in range(dims)]
        places, parts = (*called, *axes), []
        if not places:
            return universe(0)
        groups: dict[tuple[int, ...], list[int]] = {}  # of points by all coordinates but the last
        for point in points:
            groups.setdefault(point[:-1], []).append(point[-1])
        for prefix, values in groups.items():
            equal = [f"{name} = {v}" for name, v in zip(places, prefix, strict=False)]
            for first, last, step in runs(values):
                inside = [f"{first} <= {places[-1]} <= {last}"]
                if step > 1:
                    inside.append(f"({places[-1]} - {first}) mod {step} = 0")
                parts.append(" and ".join((*equal, *inside)))
        body = " or ".join(f"({part})" for part in parts)
        with session.budget(LISTING):
            result = m.Set.read_from_str(session.context(), f"{head}{{ [{', '.join(axes)}] : {body} }}").coalesce()
        return IslShape(result, tuple(names))

    def hull(self) -> IslShape:
        found = box_around(self.get())
        return self if found is None else self._with(session.coalesced(found))

    def product(self) -> Product | None:
        current = session.coalesced(self.get())
        return product_of(current, self.ordered_params(current))

    def widest(self, k: int, varying: Collection[Expr]) -> Expr | None:
        """The largest extent, by the differences of all pairs of values; valid if some instance is nonempty."""
        m = session.isl()
        line = self.get()
        dims = line.dim(SET)
        line = line.project_out(SET, k + 1, dims - k - 1).project_out(SET, 0, k)
        if line.is_empty():
            return Linear(0, {}).expr()
        distance = m.Map.read_from_str(session.context(), "{ [x, y] -> [x - y] }")
        differences = line.flat_product(line).apply(distance)
        names = {param_name(e) for e in varying}
        for place in reversed(range(differences.dim(PARAM))):
            if differences.get_dim_name(PARAM, place) in names:
                differences = differences.project_out(PARAM, place, 1)
        if not differences.dim_has_upper_bound(SET, 0):
            return None
        most = session.end_of_dim(differences, 0, 1)
        if most is None:
            raise BudgetError("a region without end")
        most = most.add_constant_val(session.val(1)).coalesce()
        return pw_aff_to_expr(most, (), self.ordered_params(most), differences.params())

    def lattice(self) -> tuple[Lattice, tuple[Expr, ...]] | None:
        """The join of the lattices that the equations and divisions of the disjuncts define."""
        current = self.get()
        found: Lattice | None = None
        for part in current.get_basic_sets():
            hull = session.affine_hull_of(part)
            if hull.is_empty():
                continue
            one = lattice_of_equations(hull)
            if one is not None:
                found = one if found is None else found.joined(one)
        if found is None:
            return None
        assert len(found.origin) == current.dim(PARAM) + current.dim(SET)
        return found, tuple(self.ordered_params(current))

    def change_basis(self, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> IslShape:
        """The parameters keep their meaning: a vector without a dimension positions the lattice relative to them."""
        m = session.isl()
        current = self.get()
        params, dims = current.dim(PARAM), current.dim(SET)
        others = sum(1 for place, _ in vectors if place is None)
        lifted = current.add_dims(SET, dims + others)
        uncounted = iter(range(2 * dims, 2 * dims + others))
        columns = [(next(uncounted) if place is None else dims + place, vector) for place, vector in vectors]
        local = m.LocalSpace.from_space(lifted.get_space())
        for k in range(params + dims):  # coordinate == origin + sum of what is counted
            row = m.Constraint.alloc_equality(local).set_constant_val(session.val(-origin[k]))
            own = (PARAM, k) if k < params else (SET, k - params)
            row = row.set_coefficient_val(*own, session.val(1))
            for column, vector in columns:
                if vector[k]:
                    row = row.set_coefficient_val(SET, column, session.val(-vector[k]))
            lifted = lifted.add_constraint(row)
        counted = {place for place, _ in vectors}
        for k in range(dims):
            if k not in counted:
                lifted = lifted.fix_val(SET, dims + k, session.val(0))
        lifted = lifted.project_out(SET, 2 * dims, others).project_out(SET, 0, dims)
        return self._with(session.coalesced(lifted))

    def pieces(self, most: int) -> list[Shape] | None:
        found = disjoint_pieces(self.afresh(), most)  # the cuts depend on the representation
        return None if found is None else [self._with(part) for part in found]

    def disjuncts(self) -> int:
        return int(self.shared().n_basic_set())

    def coalesced(self) -> IslShape:
        if self.disjuncts() == 1:
            return self
        return self._with(session.coalesced(self.get()))

    def disjoint(self) -> IslShape:
        return self._with(session.coalesced(self.get().make_disjoint()))

    def simplified(self, within: Shape) -> IslShape:
        around = of(within)
        return self._with(session.coalesced(simplified(self.get(), around.get())), around)

    # -- points -------------------------------------------------------------------------------------------------

    def lexmin(self) -> IslShape:
        return self._extreme(-1)

    def lexmax(self) -> IslShape:
        return self._extreme(1)

    def _extreme(self, side: int) -> IslShape:
        """The checked extremum: by isl, else coordinate by coordinate.

        The set is parsed from text, so a copy in another process exhausts the budget at the same operation.
        """
        try:
            return self._with(session.lexicographic_extremum(self.afresh(), side))
        except (session.UncheckedError, session.IslError) as error:
            remark(f"{error}, and it was found by the ends")
            return of(self.lexicographic(side))

    def functions(self, names: Sequence[Var]) -> list[tuple[Shape, tuple[Expr, ...]]]:
        m = session.isl()
        pairs = m.Map.from_range(self.get()).move_dims(IN, 0, OUT, 0, len(names))
        if not pairs.is_single_valued():
            raise BudgetError("a relation that is no function")
        found: list[tuple[Shape, tuple[Expr, ...]]] = []
        parts: list[tuple[Any, Any]] = []
        session.function_of(pairs).foreach_piece(lambda domain, values: parts.append((domain, values)))
        for domain, values in parts:
            params = self.ordered_params(domain)
            exprs = [aff_to_expr(values.get_aff(k), names, params) for k in range(self.dims - len(names))]
            found.append((self._with(domain), tuple(exprs)))
        return found

    def sample(self) -> tuple[int, ...] | None:
        current = self.afresh()  # the choice of the point depends on the representation
        if self.params:
            current = current.intersect_params(declared(self))
        point = session.sample_of(current)
        if point.is_void():
            return None
        terms = [e for e in self.atoms() if not isinstance(e, Var) and e.free_vars()]
        if terms:  # sample again at values of their variables
            given = dict(zip(self.ordered_params(current), session.coordinates(point, PARAM), strict=True))
            found = self.at({v: given.get(v, _near_one(v)) for v in dag.free_vars(*terms)}).sample()
            if found is None:
                raise BudgetError(f"{terms[0]} is not affine")
            return found
        return session.coordinates(point)

    def has(self, point: Sequence[int]) -> bool:
        current = self.shared()
        for k, coordinate in enumerate(point):
            current = current.fix_val(SET, k, session.val(coordinate, max(session.MAX_BITS, coordinate.bit_length())))
        with session.solving(current):
            return not current.is_empty()

    def listed(self, most: int = COUNTED_POINTS) -> list[tuple[int, ...]]:
        found = []
        number_of_points = count(session.unparametric(self.get()))
        if not isinstance(number_of_points, int) or number_of_points > most:
            raise BudgetError(f"more than {most} points")
        self.get().foreach_point(lambda point: found.append(session.coordinates(point)))
        if len(set(found)) != number_of_points:
            raise BudgetError("isl visited another number of points than it counted")
        return sorted(found)

    def count(self) -> int | Infinity | Expr:
        if not self.variables():
            return count(session.unparametric(self.get()))
        current, reason = self.afresh(), ""
        try:
            found = count_symbolic(current, self.ordered_params(current), context=declared(self))
        except BudgetError as error:
            found, reason = None, f" ({error})"
        if found is None:
            raise CountError(f"the number of points has no closed form here{reason}: use at(...) to fix sizes")
        return found

    def counts(self, varying: Sequence[Var], most: int = COUNTED_POINTS) -> PerInstance:
        # Declared bounds restrict parameters only.
        named = universe(len(varying)).dims_to_params(varying)
        every = self._with(self.get().intersect_params(declared(self, named)), named).params_to_dims(varying)
        if free := every.variables():
            raise CountError(f"the count depends on {free[0]}: fix the sizes with at={{...}}")
        return max_over(session.unparametric(every.get()), len(varying), most)

    def ceilings(self, e: Expr, varying: Sequence[Var]) -> list[Ceiling]:
        found = Maximum()
        for case in cases(e):
            inside, names = self, (*varying, *case.extra)
            if case.conditions:
                cube = self.product_with(universe(len(case.extra)), 0)
                inside = cube.intersect(translated(names, logical_and(*case.conditions)))
            if not inside.is_empty():
                current = inside.get()
                found.add(case, current, inside.ordered_params(current), names)
        return found.ceilings()


def of(shape: Shape) -> IslShape:
    """Convert a shape to an `IslShape`, by its condition if it belongs to another domain."""
    if isinstance(shape, IslShape):
        return shape
    point = coordinates(shape.dims)
    return translated(point, shape.condition(point))


def _near_one(var: Var) -> int:
    """The smallest positive value within declared bounds, else the largest; 1 leaves products unchanged."""
    low, high, step = var.declared()
    least = 1 if low is None else max(low, 1)
    return least + -least % step if high is None or least + -least % step <= high else high - high % step


def universe(dims: int) -> IslShape:
    """The universe of `dims` coordinates."""
    return IslShape(session.isl().Set.universe(session.isl().Space.set_alloc(session.context(), 0, dims)), ())


def translated(point: Sequence[Var], condition: Cond) -> IslShape:
    """The set of points that satisfy a condition; an undefined condition is false.

    Raises
    ------
    BudgetError: the condition is not affine.
    """
    is_plain = all(type(var) is PlainVar for var in point)
    known = unranged() if is_plain else Normalizer(dict.fromkeys(point, (None, None)))
    ranges = dict.fromkeys(point, Range.everything())
    needs = definedness((condition,)) if is_partial(condition) else ()
    query = Query(point, ranges, needs, (), known, known, configuration.current())
    translation = Translation(query, conditions=(condition,), seeds=needs)
    if translation.relaxed_terms:
        raise BudgetError(f"{translation.relaxed_terms[0]} is not affine")
    return IslShape(image_of(translation), translation.params)


def _standing_for(result: Set, name: str, new: Expr) -> tuple[Set, list[Expr]]:
    """Replace the parameter called `name` by `new`; returns the set and the parameters of `new`.

    Quotients by numbers are no parameters: constraints define them.
    """
    m = session.isl()
    kind = PARAM
    form = form_of(new)
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
    m = session.isl()
    values: dict[Expr, Aff] = {e: m.Aff.var_on_domain(local, PARAM, k) for e, k in place.items()}

    def total(of: Linear) -> Aff:
        result: Aff = m.Aff.val_on_domain(local, session.val(of.const))
        for e, k in of.terms.items():
            result = result.add(values[e].scale_val(session.val(k)))
        return result

    for e, dividend in dividends:
        values[e] = total(dividend).scale_down_val(session.val(e.args[1].data)).floor()
    return total(form)


def _quotients_of(form: Linear) -> tuple[list[tuple[Expr, Linear]], list[Expr]]:
    """The quotients by positive numbers in a form with their dividends, inner ones first; and all other terms."""
    dividends: dict[Expr, Linear] = {}

    def inner(e: Expr) -> list[Expr]:
        if e.op is ops.FLOORDIV and e.args[1].op is ops.CONST and e.args[1].data > 0 and e not in dividends:
            dividends[e] = form_of(e.args[0])
        return list(dividends[e].terms)[::-1] if e in dividends else []

    terms = dag.postorder_by(list(form.terms)[::-1], inner)
    return [(e, dividends[e]) for e in terms if e in dividends], [e for e in terms if e not in dividends]


def _restore(text: str, names: tuple[str, ...], params: tuple[Expr, ...]) -> IslShape:
    """Unpickle a set; its parameters get new names in this process."""
    new = dict(zip(names, map(param_name, params), strict=True))
    text = re.sub(r"[A-Za-z_]\w*", lambda word: new.get(word[0], word[0]), text)
    return IslShape(session.read_set(text), params, text)


def declared(shape: IslShape, *others: IslShape) -> Set:
    """The isl set of parameter values within declared bounds and steps; answers hold inside it."""
    m = session.isl()
    kind = PARAM
    result: Set = m.Set.universe(shape.shared().get_space().params())
    for other in others:
        result = result.align_params(other.shared().get_space())
    known: dict[str | None, Expr] = {param_name(p): p for one in (shape, *others) for p in one.params}
    for k in range(result.dim(kind)):
        param = known[result.get_dim_name(kind, k)]
        low, high, step = (*unranged().atom_bounds(param), 1) if not isinstance(param, Var) else param.declared()
        if low is not None:
            result = result.lower_bound_val(kind, k, session.val(low))
        if high is not None:
            result = result.upper_bound_val(kind, k, session.val(high))
        if step > 1:
            local = m.LocalSpace.from_space(result.get_space())
            value = m.Aff.var_on_domain(local, kind, k)
            result = result.intersect(value.mod_val(session.val(step)).eq_set(m.Aff.zero_on_domain(local)))
    return result


def _has_end(current: Set, position: int, side: int) -> bool:
    kind = SET
    return bool(
        current.dim_has_lower_bound(kind, position) if side < 0 else current.dim_has_upper_bound(kind, position)
    )


def _without_empty_parts(current: Set) -> Set:
    parts = _parts(current)
    kept = [part for part in parts if not part.is_empty()]
    if len(kept) == len(parts):
        return current
    result: Set = session.isl().Set.empty(current.get_space())
    for part in kept:
        result = result.union(part)
    return result


def _parts(isl_set: Set) -> list[Set]:
    """The disjuncts of a set, as sets."""
    return [part.to_set() for part in isl_set.get_basic_sets()]


def constant_end(isl_set: Set, position: int, side: int) -> End:
    """The end of a set without parameters, disjunct by disjunct.

    isl 0.27 answers wrongly for a union with a disjunct that is known to be empty: NaN counts as 0.
    """
    best: int | None = None
    for part in [isl_set] if isl_set.n_basic_set() == 1 else _parts(isl_set):
        with session.solving(part):
            found = session.whole(part.dim_min_val(position) if side < 0 else part.dim_max_val(position))
        if found is None:
            if part.is_empty():
                continue
            return NEG_INF if side < 0 else POS_INF
        best = found if best is None else min(best, found) if side < 0 else max(best, found)
    if best is None:
        return POS_INF if side < 0 else NEG_INF
    return as_end(best)


@cache
def _prototype() -> IslShape:
    """The 0-dimensional universe, cached: every query opens its budget on it."""
    return universe(0)


class Isl:
    """Images and conditions as Presburger sets.

    Guarantee: the points contain the true image, and equal it if there are no notes.
    """

    name: ClassVar[str] = session.NAME

    strength: ClassVar[int] = 100

    def is_installed(self) -> bool:
        try:
            session.isl()
        except BudgetError:
            return False
        return True

    def everything(self, dims: int) -> Shape:
        return universe(dims) if dims else _prototype()

    def points(self, query: Query) -> Points:
        translation = Translation(query)
        found = IslShape(image_of(translation), translation.params)
        consistency, notes = judged(query, translation.leftover), notes_of_bounds(translation.relaxed_terms)
        if consistency == "empty":
            found = IslShape(found.get().subtract(found.get()), translation.params)
        elif consistency == "unknown":
            notes.append("facts on other variables may exclude one another")
        return Points(found, tuple(notes))

    def judge(self, query: Query, facts: Sequence[Cond]) -> str:
        return judged(query, facts)

    def decide(
        self, query: Query, goal: Cond, seeds: Sequence[Var], refutes: Callable[[dict[Expr, int]], bool]
    ) -> TierVerdict:
        try:
            with session.budget(query.config.isl_operations):
                translation = Translation(query, roots=(goal,), seeds=seeds)
                fails = translation.domain.subtract(translation.cond(query.known, goal))
                leftover = judged(query, translation.leftover)
                if leftover == "empty":
                    return TierVerdict("proved", vacuous=True)
                with session.solving(fails):
                    proved = fails.is_empty()
                if proved:
                    return TierVerdict("proved", vacuous=bool(translation.domain.is_empty()))
                basic = fails.get_basic_sets()  # each may have another sample
                parts = [fails, *(part.to_set() for part in basic)] if 1 < len(basic) <= 8 else [fails]
                points = [point for part in parts if (point := _sample(translation, part)) is not None]
                if translation.leftover:
                    real = [point for point in points if _is_real(translation, point, goal)]
                    elsewhere = _elsewhere(query, translation.leftover) if real else None
                    points = [] if elsewhere is None else [{**elsewhere, **point} for point in real]
                for point in points:  # `refutes` adds the variables that the goal lost
                    if refutes(point):
                        return TierVerdict("refuted", point)
        except BudgetError as error:
            return TierVerdict("unknown", reason=f"isl gave up: {error}", budget=error.budget)
        return TierVerdict("unknown", reason="it is not affine, and the points where it may fail are not real")


def _is_real(translation: Translation, point: Mapping[Expr, int], goal: Cond) -> bool:
    """Whether a sample satisfies the facts about its variables, whose products isl only bounds, but not the goal."""
    query, facts = translation.query, translation.facts
    near = Query([select(goal, 1, 0)], query.ranges, facts, (), query.base, query.known, query.config)
    return value_there(near, dag.postorder((goal, *facts)), goal, dict(point)) is False


def judged(query: Query, facts: Sequence[Cond]) -> str:
    """Satisfiability of facts that share no variable with the query: "holds", "empty" or "unknown".

    The verdict is cached for other queries, and therefore decided under a separate budget.
    """
    try:
        return _verdict(query, facts) if facts else "holds"
    except session.SpentError:
        return "unknown"


def _verdict(query: Query, facts: Sequence[Cond]) -> str:
    """The cached verdict on facts: that of their parts, which other questions share."""
    key = (session.NAME, tuple(facts), query.keep, query.config.isl_operations, query.config.points)
    found = query.verdicts.get(key)
    if found is None:
        alone = Query((), query.ranges, facts, tuple(query.keep), query.base, query.known, query.config)
        parts = list(_separate(alone))
        own = {_verdict(query, part) for part in parts} if len(parts) > 1 else {_satisfiable(alone)}
        found = query.verdicts[key] = "empty" if "empty" in own else "unknown" if "unknown" in own else "holds"
    return found


def _separate(query: Query) -> Iterator[list[Cond]]:
    """The facts of a question, in parts that share no variable."""
    left: Sequence[Cond] = query.facts
    while left:
        first, *others = left
        alone = Query((), query.ranges, others, tuple(query.keep), query.base, query.known, query.config)
        _, _, touching, left = alone.split_relevant((first,))
        yield [first, *touching]


def _satisfiable(query: Query) -> str:
    try:
        with session.budget_aside(query.config.isl_operations):
            translation = Translation(query, seeds=query.facts)
            with session.solving(translation.domain):
                empty = translation.domain.is_empty()
        found = "empty" if empty else "unknown" if translation.relaxed_terms else "holds"
    except session.SpentError:
        raise
    except BudgetError:
        found = "unknown"
    return facts_hold(query, query.facts) if found == "unknown" else found


def _elsewhere(query: Query, leftover: list[Cond]) -> dict[Expr, int] | None:
    """Values for the variables of irrelevant facts; `None` if a sample breaks one of these facts."""
    values: dict[Expr, int] = {}
    for part in _separate(Query((), query.ranges, leftover, (), query.base, query.known, query.config)):
        translation = Translation(Query((), query.ranges, part, (), query.base, query.known, query.config), seeds=part)
        point = _sample(translation, translation.domain) or {}
        if translation.relaxed_terms and not _is_real(translation, point, truth(False)):
            return None
        values |= point
    return values


def _sample(translation: Translation, points: Set) -> dict[Expr, int] | None:
    """Values of variables and loads at one of these points of the domain; `None` for the empty set."""
    inside = translation.domain.intersect(points)
    with session.solving(inside):
        point = inside.sample_point()
    if point.is_void():
        return None
    places = [(e, SET, k) for k, e in enumerate(translation.dims)]
    places += [(e, PARAM, k) for k, e in enumerate(translation.params)]
    named = [place for place in places if place[0].op in (ops.VAR, ops.LOAD)]
    return {e: session.number(point.get_coordinate_val(kind, k)) for e, kind, k in named}
