"""`IslSet` and `IslRegion`: exact Presburger sets behind the common interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from intset.domains.base import End, IntSet, Region, as_end
from intset.domains.isl.coalesced import coalesced
from intset.domains.isl.session import budget, context, isl, number, val
from intset.domains.isl.to_expr import pw_aff_to_expr
from intset.domains.isl.translate import param_name
from intset.errors import BudgetError, CountError
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int, constant_value
from intset.expr.range import Range
from intset.expr.walk import free_vars, substitute
from intset.infinity import NEG_INF, POS_INF, Infinity

COUNT_BUDGET = 40_000
END_BUDGET = 200_000  # isl operations for the ends, the print or the count of one set


class Presburger:
    """An isl set together with the meaning of its parameters, usable from every thread and picklable.

    An isl object belongs to the context of one thread; in another thread it is read again from its text.
    """

    __slots__ = ("_context", "_set", "params")

    def __init__(self, isl_set: Any, params: Sequence[Expr]) -> None:
        self._set = isl_set
        self._context = context()
        self.params = tuple(params)

    def get(self) -> Any:
        here = context()
        if self._context is not here:
            self._set, self._context = isl().Set.read_from_str(here, str(self._set)), here
        return self._set

    def __reduce__(self) -> tuple[Callable[..., Presburger], tuple[Any, ...]]:
        names = tuple(param_name(p) for p in self.params)
        return (_restore, (str(self._set), names, self.params))

    def ordered_params(self, isl_object: Any) -> list[Expr]:
        """The parameters of `isl_object` in its own order."""
        m = isl()
        by_name = {param_name(p): p for p in self.params}
        space = isl_object.get_space()
        return [by_name[space.get_dim_name(m.dim_type.param, k)] for k in range(space.dim(m.dim_type.param))]

    def join(self, other: Presburger, operation: str) -> Presburger:
        with budget(END_BUDGET):
            result = coalesced(getattr(self.get(), operation)(other.get()))
        return Presburger(result, dict.fromkeys((*self.params, *other.params)))  # type: ignore[arg-type]

    def at(self, values: Mapping[Var, IntLike]) -> Presburger:
        m = isl()
        result = self.get()
        kept: list[Expr] = []
        for param in self.params:
            position = result.find_dim_by_name(m.dim_type.param, param_name(param))
            if position < 0:
                continue
            new = _simplified(substitute(param, values))
            number = constant_value(new)
            if number is not None:
                result = result.fix_val(m.dim_type.param, position, val(number))
                result = result.project_out(m.dim_type.param, position, 1)
            elif new is param:
                kept.append(param)
            else:
                result, more = _renamed(result, position, new)
                kept.extend(more)
        return Presburger(result, dict.fromkeys(kept))  # type: ignore[arg-type]

    def free_params(self) -> tuple[Var, ...]:
        """The variables that the set really depends on."""
        m = isl()
        current = self.get()
        used = [
            p
            for p in self.params
            if (k := current.find_dim_by_name(m.dim_type.param, param_name(p))) >= 0
            and current.involves_dims(m.dim_type.param, k, 1)
        ]
        return free_vars(*used)


def _simplified(e: Expr) -> Expr:
    from intset.linear.canonical import Normalizer

    return Normalizer({}).form(e).expr()


def _renamed(result: Any, position: int, new: Expr) -> tuple[Any, list[Expr]]:
    """`result` with the parameter at `position` standing for `new`, an expression over other parameters."""
    from intset.linear.canonical import Normalizer

    m = isl()
    form = Normalizer({}).form(new)
    name = result.get_dim_name(m.dim_type.param, position)
    atoms = list(form.terms)
    for e in atoms:
        if result.find_dim_by_name(m.dim_type.param, param_name(e)) < 0:
            result = result.add_dims(m.dim_type.param, 1)
            result = result.set_dim_name(m.dim_type.param, result.dim(m.dim_type.param) - 1, param_name(e))
    equation = m.Constraint.alloc_equality(m.LocalSpace.from_space(result.get_space()))
    position = result.find_dim_by_name(m.dim_type.param, name)
    equation = equation.set_coefficient_val(m.dim_type.param, position, val(-1))
    equation = equation.set_constant_val(val(form.const))
    for e, k in form.terms.items():
        place = result.find_dim_by_name(m.dim_type.param, param_name(e))
        if place == position:
            equation = equation.set_coefficient_val(m.dim_type.param, position, val(k - 1))
        else:
            equation = equation.set_coefficient_val(m.dim_type.param, place, val(k))
    result = result.add_constraint(equation)
    if not any(param_name(e) == name for e in atoms):
        result = result.project_out(m.dim_type.param, position, 1)
    return result, atoms


def _restore(text: str, names: tuple[str, ...], params: tuple[Expr, ...]) -> Presburger:
    """A pickled set: its parameters have new names in this process."""
    m = isl()
    result = m.Set.read_from_str(context(), text)
    for name, param in zip(names, params, strict=True):
        position = result.find_dim_by_name(m.dim_type.param, name)
        if position >= 0:
            result = result.set_dim_name(m.dim_type.param, position, "_" + param_name(param))
    for param in params:
        position = result.find_dim_by_name(m.dim_type.param, "_" + param_name(param))
        if position >= 0:
            result = result.set_dim_name(m.dim_type.param, position, param_name(param))
    return Presburger(result, params)


def declared(shape: Presburger) -> Any:
    """The isl set of parameters that keep what they declare: outside it no answer need be right."""
    m = isl()
    result = m.Set.universe(shape.get().get_space().params())
    for k, param in enumerate(shape.ordered_params(result)):
        low, high, _ = param.declared() if isinstance(param, Var) else (None, None, 1)
        if low is not None:
            result = result.lower_bound_val(m.dim_type.param, k, val(low))
        if high is not None:
            result = result.upper_bound_val(m.dim_type.param, k, val(high))
    return result


def end_of(shape: Presburger, position: int, side: int) -> End:
    """The smallest (`side` -1) or largest (+1) value of a dimension; crossed infinities when the set is empty."""
    with budget(END_BUDGET):
        current = shape.get()
        if not shape.free_params():
            return constant_end(current, position, side)
        if current.is_empty():
            return POS_INF if side < 0 else NEG_INF
        bounded = current.dim_has_lower_bound if side < 0 else current.dim_has_upper_bound
        m = isl()
        if not bounded(m.dim_type.set, position):
            return NEG_INF if side < 0 else POS_INF
        try:
            piecewise = current.dim_min(position) if side < 0 else current.dim_max(position)
        except isl().Error as error:
            if "unbounded" not in str(error):
                raise
            return NEG_INF if side < 0 else POS_INF  # for some parameters there is no end
        params = shape.ordered_params(piecewise)
        found = pw_aff_to_expr(piecewise.coalesce(), (), params, context=current.params())
    if found is None:
        return POS_INF if side < 0 else NEG_INF
    return found


def constant_end(isl_set: Any, position: int, side: int) -> End:
    """The end of a set without parameters, disjunct by disjunct.

    isl's own answer for the union is wrong when a disjunct is empty and was found to be (isl 0.27: NaN counts as 0).
    """
    best: int | None = None
    for part in isl_set.get_basic_sets():
        whole = part.to_set()
        value = whole.dim_min_val(position) if side < 0 else whole.dim_max_val(position)
        if value.is_nan():
            continue
        if not value.is_int():
            if whole.is_empty():
                continue
            return NEG_INF if side < 0 else POS_INF
        found = number(value)
        best = found if best is None else min(best, found) if side < 0 else max(best, found)
    if best is None:
        return POS_INF if side < 0 else NEG_INF
    return as_end(best)


class IslSet(IntSet):
    """A one-dimensional Presburger set, parametric in `params`.

    `enumerate_points` counts in another way, where isl's budget does not suffice: it gives the number, or `None`.
    """

    def __init__(self, shape: Presburger, by: str = "isl", **flags: Any) -> None:
        self._enumerate = flags.pop("enumerate_points", None)
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.shape = shape
        self._ends: tuple[End, End] | None = None

    def ends(self) -> tuple[End, End]:
        if self._ends is None:
            self._ends = (end_of(self.shape, 0, -1), end_of(self.shape, 0, 1))
        return self._ends

    @property
    def is_empty(self) -> bool:
        return bool(self.shape.get().is_empty())

    @property
    def params(self) -> tuple[Var, ...]:
        return self.shape.free_params()

    def condition(self, e: IntLike) -> Cond:
        return condition_of(self.shape, (as_expr(e),))

    def __contains__(self, value: object) -> bool:
        if self.params:
            return super().__contains__(value)
        current = self.shape.get()
        with budget(END_BUDGET):
            return not current.fix_val(isl().dim_type.set, 0, val(as_int(value, "an element"))).is_empty()

    def count(self) -> int | Infinity | Expr:
        return count_of(self.shape, self._enumerate)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_enumerate": None}

    def describe(self) -> str:
        return text_of(self.shape)


def condition_of(shape: Presburger, point: Sequence[Expr]) -> Cond:
    from intset.domains.isl.to_expr import set_to_cond

    with budget(END_BUDGET):
        current = shape.get()
        found = set_to_cond(current, point, shape.ordered_params(current), context=declared(shape))
    if found is None:
        raise BudgetError("the set has no quantifier-free condition within the budget")
    return found


def count_of(shape: Presburger, enumerate_points: Callable[[], int | None] | None = None) -> int | Infinity | Expr:
    from intset.domains.isl.count import count as count_points
    from intset.domains.isl.count import count_symbolic

    try:
        current = shape.get()
        if shape.free_params():
            found = count_symbolic(current, shape.ordered_params(current), context=declared(shape))
            if found is None:
                raise CountError(f"the number of points of {current} has no closed form here: use at(...) to fix sizes")
            return found
        plain = current.project_out(isl().dim_type.param, 0, current.dim(isl().dim_type.param))
        with budget(COUNT_BUDGET):
            return count_points(plain)
    except BudgetError as error:
        listed = None if enumerate_points is None else enumerate_points()
        if listed is not None:
            return listed
        raise CountError(f"counting is out of budget: {error}") from error


def text_of(shape: Presburger) -> str:
    """isl's own notation, with the parameters' real names."""
    text = str(shape.get())
    for param in shape.params:
        text = text.replace(param_name(param), param.name if isinstance(param, Var) else f"({param})")
    return text


class IslRegion(Region):
    """An n-dimensional Presburger set, parametric in `params`."""

    def __init__(
        self,
        shape: Presburger,
        by: str = "isl",
        is_exact: bool = True,
        notes: Sequence[str] = (),
        dims: int | None = None,
    ) -> None:
        self.shape, self.by, self.is_exact, self.notes = shape, by, is_exact, tuple(notes)
        self.dims = shape.get().dim(isl().dim_type.set) if dims is None else dims
        self._box: tuple[Range, ...] | None = None

    @property
    def params(self) -> tuple[Var, ...]:
        return self.shape.free_params()

    @property
    def is_empty(self) -> bool:
        return bool(self.shape.get().is_empty())

    @property
    def is_tight(self) -> bool:
        return self.is_exact

    @property
    def box(self) -> tuple[Range, ...]:
        if self._box is None:
            self._box = tuple(
                range_between(end_of(self.shape, k, -1), end_of(self.shape, k, 1)) for k in range(self.dims)
            )
        return self._box

    def count(self) -> int | Infinity | Expr:
        return count_of(self.shape)

    def at(self, values: Mapping[Var, IntLike]) -> IslRegion:
        return IslRegion(self.shape.at(values), self.by, self.is_exact, self.notes)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return condition_of(self.shape, [as_expr(v) for v in point])

    def count_max(self) -> int | Infinity:
        return self._over_instances()[0]

    def count_total(self) -> int | Infinity:
        return self._over_instances()[1]

    def _over_instances(self) -> tuple[int | Infinity, int | Infinity]:
        from intset.domains.isl.instances import max_over

        m = isl()
        current = self.shape.get()
        if any(not isinstance(p, Var) for p in self.shape.params):
            raise CountError("the region depends on a product of sizes: use at(...) to fix them")
        instances = current.dim(m.dim_type.param)
        try:
            lifted = current.move_dims(m.dim_type.set, 0, m.dim_type.param, 0, instances)
            return max_over(lifted, instances)
        except BudgetError as error:
            raise CountError(f"counting is out of budget: {error}") from error


def range_between(low: End, high: End) -> Range:
    """The `Range` from `low` to `high`, both included; empty when they cross as infinities."""
    if low is POS_INF or high is NEG_INF:
        return Range(0, 0)
    if isinstance(low, Infinity):
        return Range.everything()
    if isinstance(high, Infinity):
        return Range(low, POS_INF)
    return Range(low, _simplified(high - low + 1))
