"""`IslSet` and `IslRegion`: exact Presburger sets behind the common interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from intset.domains.base import End, IntervalSet, IntSet
from intset.domains.isl.presburger import SHARE, Ends, declared, own_budget, simplified_expr
from intset.domains.isl.presburger import Presburger as Presburger
from intset.domains.isl.session import isl
from intset.domains.isl.translate import param_name
from intset.domains.outline import Outline
from intset.domains.region import Region
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int
from intset.expr.range import Range
from intset.infinity import NEG_INF, POS_INF, Infinity


class IslSet(IntSet):
    """A one-dimensional Presburger set, parametric in `params`.

    `outline` answers where isl's budget does not suffice: then the ends are looser, and `is_tight` is false.
    """

    def __init__(self, shape: Presburger, by: str = "isl", **flags: Any) -> None:
        self.outline: Outline | None = flags.pop("outline", None)
        self.shape = shape
        self._ends = Ends(shape, self.outline)
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)

    def ends(self) -> tuple[End, End]:
        return self._ends.sides(1)[0]

    @property
    def is_tight(self) -> bool:
        """Looked into when it is asked for: an end that only some parameters have is not attained for the others."""
        return self._claims_tight and self._ends.are_attained(1)

    @is_tight.setter
    def is_tight(self, claim: bool) -> None:
        self._claims_tight = claim

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._ends.notes_so_far())

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._notes = notes

    @property
    def is_empty(self) -> bool:
        return self.shape.is_empty()

    @property
    def params(self) -> tuple[Var, ...]:
        return self.shape.free_params()

    def condition(self, e: IntLike) -> Cond:
        return public_condition(self.shape, (as_expr(e),))

    def __contains__(self, value: object) -> bool:
        if self.params:
            return super().__contains__(value)
        return self.shape.has((as_int(value, "an element"),))

    def count(self) -> int | Infinity | Expr:
        return count_of(self.shape, self.outline)

    def substituted(self, values: Mapping[Var, Expr]) -> IntSet:
        outline = None if self.outline is None else self.outline.at(values)
        try:
            shape = self.shape.at(values)
        except BudgetError as error:
            low, high = (NEG_INF, POS_INF) if outline is None else outline.sides[0]
            notes = (*self.notes, f"the values were put into the ends alone: {error}")
            return IntervalSet(low, high, self.by, notes=notes)
        flags = {"is_exact": self.is_exact, "is_tight": self._claims_tight, "notes": self._notes}
        return IslSet(shape, self.by, outline=outline, **flags)

    def describe(self) -> str:
        return text_of(self.shape)

    def __repr__(self) -> str:
        flag = "exact" if self.is_exact else "tight" if self._claims_tight else "superset"
        return f"<{type(self).__name__} {self.describe()} {flag} by {self.by}>"


def summary_of(found: IslSet) -> tuple[tuple[End, End], bool, tuple[str, ...]]:
    """The ends, whether they are attained, and the notes: what bounds consist of."""
    sides, given_up = found._ends.found(1)
    is_tight = found._claims_tight and not given_up and found._ends.are_attained(1)
    return sides[0], is_tight, (*found._notes, *given_up)


def condition_of(shape: Presburger, point: Sequence[Expr]) -> Cond:
    from intset.domains.isl.to_expr import set_to_cond

    with own_budget():
        current = shape.get()
        found = set_to_cond(current, point, shape.ordered_params(current), context=declared(shape))
    if found is None:
        raise BudgetError("the set has no quantifier-free condition within the budget")
    return found


def public_condition(shape: Presburger, point: Sequence[Expr]) -> Cond:
    """As `condition_of`, for who may not know of budgets."""
    try:
        return condition_of(shape, point)
    except BudgetError as error:
        raise UndecidedError(f"the set has no condition that could be written: {error}") from error


def count_of(shape: Presburger, outline: Outline | None = None) -> int | Infinity | Expr:
    """The number of points, by isl; where its budget does not suffice, by listing; then by isl under a larger one."""
    try:
        return _counted(shape, 1)
    except BudgetError:
        listed = None if outline is None else outline.counted()
    if listed is not None:
        return listed
    try:
        return _counted(shape, 2 * SHARE)
    except BudgetError as error:
        raise CountError(f"counting is out of budget: {error}") from error


def _counted(shape: Presburger, share: int) -> int | Infinity | Expr:
    from intset.domains.isl.count import count as count_points
    from intset.domains.isl.count import count_symbolic

    with own_budget(share):
        current = shape.get()
        if shape.free_params():
            found = count_symbolic(current, shape.ordered_params(current), context=declared(shape))
            if found is None:
                raise CountError(f"the number of points of {current} has no closed form here: use at(...) to fix sizes")
            return found
        plain = current.project_out(isl().dim_type.param, 0, current.dim(isl().dim_type.param))
        return count_points(plain)


def text_of(shape: Presburger) -> str:
    """isl's own notation, with the parameters' real names."""
    text = str(shape.get())
    for param in shape.params:
        text = text.replace(param_name(param), param.name if isinstance(param, Var) else f"({param})")
    return text


class IslRegion(Region):
    """An n-dimensional Presburger set, parametric in `params`; `outline` as for `IslSet`."""

    def __init__(
        self,
        shape: Presburger,
        by: str = "isl",
        is_exact: bool = True,
        notes: Sequence[str] = (),
        dims: int | None = None,
        outline: Outline | None = None,
    ) -> None:
        self.shape, self.by, self.is_exact, self.outline = shape, by, is_exact, outline
        self._ends = Ends(shape, outline)
        self.notes = tuple(notes)
        self.dims = shape.get().dim(isl().dim_type.set) if dims is None else dims

    @property
    def params(self) -> tuple[Var, ...]:
        return self.shape.free_params()

    @property
    def is_empty(self) -> bool:
        return self.shape.is_empty()

    @property
    def is_tight(self) -> bool:
        return self.is_exact and self._ends.are_attained(self.dims)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._ends.notes_so_far())

    @notes.setter
    def notes(self, notes: tuple[str, ...]) -> None:
        self._notes = notes

    @property
    def box(self) -> tuple[Range, ...]:
        return tuple(range_between(*self._side(k, ends)) for k, ends in enumerate(self._ends.sides(self.dims)))

    def _side(self, k: int, ends: tuple[End, End]) -> tuple[End, End]:
        is_best = self.is_exact and not self._ends.notes(self.dims) and not any(isinstance(e, Infinity) for e in ends)
        return ends if self.sides is None or is_best else self.sides.within(k, ends)

    def count(self) -> int | Infinity | Expr:
        return count_of(self.shape, self.outline)

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        outline = None if self.outline is None else self.outline.at(values)
        try:
            found = IslRegion(self.shape.at(values), self.by, self.is_exact, self._notes, self.dims, outline)
            found.sides = None if self.sides is None else self.sides.at(values)
            return found
        except BudgetError as error:
            from intset.domains.box import product_of

            sides = [(NEG_INF, POS_INF)] * self.dims if outline is None else outline.sides
            return product_of(sides, self.by, (*self.notes, f"the values were put into the box alone: {error}"))

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return public_condition(self.shape, [as_expr(v) for v in point])

    def __contains__(self, point: Sequence[SupportsIndex]) -> bool:
        if self.params or len(point) != self.dims:
            return super().__contains__(point)
        return self.shape.has([as_int(v, "a coordinate") for v in point])

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
            with own_budget(2 * SHARE):
                lifted = current.move_dims(m.dim_type.set, 0, m.dim_type.param, 0, instances)
                return max_over(lifted, instances)
        except BudgetError as error:
            raise CountError(f"counting is out of budget: {error}") from error


def range_between(low: End, high: End) -> Range:
    """The `Range` from `low` to `high`, both included; empty when they cross as infinities."""
    if low is POS_INF or high is NEG_INF:
        return Range(0, 0)
    if isinstance(low, Infinity):
        return Range.up_to(high)
    if isinstance(high, Infinity):
        return Range(low, POS_INF)
    return Range(low, simplified_expr(high - low + 1))
