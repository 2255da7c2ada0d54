"""Checked answers of isl, with alternative computations for wrong ones.

isl 0.27 and 0.28 compute a wrong lexicographic optimum of some sets whose constraints are not in isl's own order.
`ordered` restores the order, which removes every known wrong answer; the checks are a second line of defence. They use
emptiness and inclusion only, which isl decides by another algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from intset.domains.isl.session import budget, context, is_limited, isl, read_set, val, weighed
from intset.errors import BudgetError
from intset.regions.derived import remark

if TYPE_CHECKING:
    from islpy import BasicSet, Constraint, Map, Point, PwAff, PwMultiAff, Set

EXTREMUM: Final = 16  # weight of a lexicographic extremum of a set with divisions: parametric integer programming
EXTREMUM_OF_LONG: Final = 32  # weight of one with long numbers
# operations of dropping the implied constraints of one set with divisions, whatever a question may spend
GIST_OPERATIONS: Final = 10_000
PIECEWISE_END: Final = 2  # weight of an end of a set as a function of parameters
# weight of an end, a point or the emptiness of a set with divisions and long numbers: integer programming
INTEGER_PROGRAM: Final = 8
# operations of one integer program over a set with divisions, whatever a question may spend
PROGRAM_OPERATIONS: Final = 40_000
DIFFERENCE: Final = 2  # weight of a difference of sets, which tests each part for emptiness

Answer = TypeVar("Answer")
_NO_END = "a region without end has no lexicographic extremum"


class UncheckedError(BudgetError):
    """The check refused every computed answer of isl."""


# -- lexicographic extrema --------------------------------------------------------------------------------------------


def lexicographic_extremum(points: Set, side: int, others: Sequence[Callable[[], Set]] = ()) -> Set:
    """The lexicographically smallest (`side` -1) or largest (+1) point of a set, for each value of its parameters.

    Guarantee: the answer passed `is_extremum`.

    Parameters
    ----------
    others: alternatives to isl's algorithm, tried last.

    Raises
    ------
    BudgetError: the set is unbounded, or no alternative passed the check.
    """
    if not points.dim(isl().dim_type.set):
        return points  # its own extremum; isl can abort on such a set with divisions of parameters
    ways = [*_on_representations(points, lambda current: _lexopt(current, side)), *others]
    what = f"lex{'min' if side < 0 else 'max'}"
    with optimizing(points):
        found: Set = _first_right(what, ways, lambda found: is_extremum(points, found, side))
    return found


def is_extremum(points: Set, found: Set, side: int) -> bool:
    """Whether `found` is, for each value of the parameters, the lexicographically smallest (`side` -1) or largest (+1)
    point of `points`.

    Three conditions: `found` is a subset of `points`; both are empty for the same parameters; no point of `points` lies
    beyond a point of `found`. They imply that `found` has one point for each value of the parameters.
    """
    inside = isl().ordered(points)
    with solving(inside):
        at_one_point = _is_extreme_point(inside, found, side)
    if at_one_point is not None:
        return at_one_point
    if not found.is_subset(inside) or not inside.params().is_subset(found.params()):
        return False
    beyond: Map = inside.lex_lt_set(found) if side < 0 else found.lex_lt_set(inside)
    return bool(beyond.is_empty())


def _is_extreme_point(points: Set, found: Set, side: int) -> bool | None:
    """`is_extremum` for sets without parameters, coordinate by coordinate; `None` if `found` is not a plain point."""
    kinds = isl().dim_type
    if points.dim(kinds.param) or found.n_basic_set() != 1:
        return None
    for k in range(points.dim(kinds.set)):
        value: Any = found.plain_get_val_if_fixed(kinds.set, k)
        if type(value) is not int:
            return None
        beyond = (
            points.upper_bound_val(kinds.set, k, val(value - 1))
            if side < 0
            else points.lower_bound_val(kinds.set, k, val(value + 1))
        )
        if not beyond.is_empty():
            return False
        points = points.fix_val(kinds.set, k, val(value))
    return not (points.is_empty() or found.is_empty())


def _lexopt(current: Set, side: int) -> Set:
    found: Set = current.lexmin() if side < 0 else current.lexmax()
    return found


def _end_of_line(line: Set, side: int) -> PwAff:
    with weighed(PIECEWISE_END):
        found: PwAff = line.dim_min(0) if side < 0 else line.dim_max(0)
    return found


def end_of_dim(points: Set, position: int, side: int) -> PwAff | None:
    """The first (`side` -1) or last (+1) value along a dimension as a function of the parameters; `None` if the
    dimension is unbounded for some parameter values.

    Guarantee: its graph passed `is_extremum` for the set projected onto the dimension.

    Raises
    ------
    BudgetError: no alternative passed the check.
    """
    kinds = isl().dim_type
    dims = points.dim(kinds.set)
    line = points.project_out(kinds.set, position + 1, dims - position - 1).project_out(kinds.set, 0, position)
    # Project first: inside `dim_min`, isl would project without sorting the constraints.
    ways = _on_representations(line, lambda current: _end_of_line(current, side))
    try:
        found: PwAff = _first_right(
            f"dim_{'min' if side < 0 else 'max'}",
            ways,
            lambda end: is_extremum(line, isl().Set.from_pw_aff(end), side),
        )
    except UncheckedError:
        raise
    except BudgetError as error:
        if str(error) == _NO_END:
            return None
        raise
    return found


# -- functions and points ---------------------------------------------------------------------------------------------


def function_of(pairs: Map) -> PwMultiAff:
    """A single-valued relation as a function.

    Guarantee: the graph of the function is the relation.

    Raises
    ------
    BudgetError: isl's function is another.
    """
    found: PwMultiAff = isl().PwMultiAff.from_map(pairs).coalesce()
    if not isl().Map.from_pw_multi_aff(found).is_equal(pairs):
        raise UncheckedError("isl's function of a relation is another relation")
    return found


def sample_of(points: Set) -> Point:
    """A point of a set, void only where the set is empty.

    Raises
    ------
    BudgetError: isl's sample is no point of the set, or is void although the set is not empty.
    """
    with solving(points):
        found: Point = points.sample_point()
        is_right = points.is_empty() if found.is_void() else isl().Set.from_point(found).is_subset(points)
    if not is_right:
        raise UncheckedError("isl's sample is no point of the set")
    return found


# -- sets -------------------------------------------------------------------------------------------------------------


def difference_of(points: Set, other: Set) -> Set:
    """The difference of two sets.

    Guarantee: every point lies in the left set and outside the right one. Completeness is not checked: the check costs
    as much as the difference.

    Raises
    ------
    BudgetError: isl's difference has other points.
    """
    with weighed(DIFFERENCE):
        found: Set = points.subtract(other)
    if not (found.is_disjoint(other) and found.is_subset(points)):
        raise UncheckedError("isl's difference of two sets has points that do not belong to it")
    return found


def gist_of(points: Set, within: Set) -> Set:
    """The same points inside `within`, in fewer constraints; the set itself where isl's answer fails its check.

    isl's own `gist` of sets with divisions can end the process, with and without a limit, and is not asked.

    Parameters
    ----------
    within: a set over the same space, or over its parameters.
    """
    if within.is_params() and not points.is_params():
        if not (points.involves_locals() or within.involves_locals()):
            return points.gist_params(within)
        within = isl().Set.universe(points.get_space()).intersect_params(within)
    if points.involves_locals() or within.involves_locals():
        try:
            with budget(GIST_OPERATIONS):
                return _without_implied(points, within)
        except BudgetError:
            return points
    found: Set = points.gist(within)
    if found.intersect(within).is_equal(points.intersect(within)):
        return found
    remark("isl's gist was another set, and was not used")
    return points


def _without_implied(points: Set, within: Set) -> Set:
    """A set without disjuncts outside `within`, and without constraints that the others and `within` imply."""
    universe: Set = isl().Set.universe(points.get_space())
    found: Set = isl().Set.empty(points.get_space())
    for part in points.get_basic_sets():
        inside = part.to_set()
        if inside.is_disjoint(within):
            continue
        if _is_implicit(part):
            found = found.union(inside)
            continue
        stated = [c for c in part.get_constraints() if not c.is_div_constraint()]
        sets = [universe.add_constraint(c) for c in sorted(stated, key=_divisions_in, reverse=True)]
        later = [universe]  # the last constraints together, fewer first
        for one in reversed(sets):
            later.append(later[-1].intersect(one))
        rest, others = universe, within
        for k, one in enumerate(sets, 1):
            if not others.intersect(later[-1 - k]).is_subset(one):
                rest, others = rest.intersect(one), others.intersect(one)
        if rest.is_equal(universe):
            return universe
        found = found.union(rest)
    return found


def _divisions_in(constraint: Constraint) -> int:
    """The number of divisions in a constraint."""
    div = isl().dim_type.div
    return sum(bool(constraint.involves_dims(div, k, 1)) for k in range(constraint.dim(div)))


def simple_hull_of(union: Set) -> Set:
    """A convex set around a union, of constraints of its disjuncts.

    Raises
    ------
    BudgetError: isl's hull leaves points out.
    """
    found: Set = union.simple_hull().to_set()
    if not union.is_subset(found):
        raise UncheckedError("isl's hull of a set leaves points of it out")
    return found


def affine_hull_of(part: BasicSet) -> BasicSet:
    """The smallest affine lattice around a basic set, or a larger one.

    Raises
    ------
    BudgetError: isl's hull leaves points out.
    """
    found: BasicSet = part.affine_hull()
    if not part.to_set().is_subset(found.to_set()):
        raise UncheckedError("isl's affine hull of a set leaves points of it out")
    return found


# -- what is slow -----------------------------------------------------------------------------------------------------


def solving(current: Set) -> AbstractContextManager[None]:
    """The budget of integer programs over a set; with divisions, and more so with long numbers, an operation costs more
    time."""
    if not is_limited() or not current.involves_locals():
        return nullcontext()
    return weighed(INTEGER_PROGRAM) if has_long_numbers(current) else budget(PROGRAM_OPERATIONS)


def optimizing(current: Set) -> AbstractContextManager[None]:
    """The budget of a parametric lexicographic extremum of a set, and of its check."""
    if not is_limited() or not current.involves_locals():
        return nullcontext()
    return weighed(EXTREMUM_OF_LONG if has_long_numbers(current) else EXTREMUM)


def has_long_numbers(current: Set) -> bool:
    """Whether a coefficient exceeds 32 bits, so that tableau entries become multi-word numbers."""
    # Beyond the budget, isl can abort while printing.
    return bool(isl().works(context())) and _LONG_NUMBER.search(str(current)) is not None


_LONG_NUMBER: Final = re.compile(r"[0-9]{10}")


# -- ways -------------------------------------------------------------------------------------------------------------


def _on_representations(points: Set, answer: Callable[[Set], Answer]) -> list[Callable[[], Answer]]:
    """One query on three representations of a set: ordered constraints, parsed text, explicit divisions."""
    return [
        lambda: answer(isl().ordered(points)),
        lambda: answer(read_set(str(points))),
        lambda: answer(isl().ordered(points.compute_divs().make_disjoint())),
    ]


def _first_right(what: str, ways: Sequence[Callable[[], Any]], is_right: Callable[[Any], bool]) -> Any:
    """The first answer that passes its check, with a remark on refused ones.

    Raises
    ------
    BudgetError: no alternative gives a correct answer, or isl reports an unbounded end.
    """
    refused = 0
    failure = "isl failed"
    for found in _answers(ways):
        if isinstance(found, Exception):
            failure = str(found)
            continue
        try:
            if is_right(found):
                if refused:
                    remark(f"isl's {what} was wrong and was found in another way")
                return found
            refused += 1
        except isl().Error as error:
            failure = str(error)
    if refused:
        raise UncheckedError(f"isl's {what} was wrong, and no other way gave a right one")
    raise BudgetError(failure)


def _answers(ways: Sequence[Callable[[], Any]]) -> Iterator[Any]:
    """Yield the answer, or the error, of each alternative in turn.

    Raises
    ------
    BudgetError: isl reports an unbounded end, or the budget is exhausted; isl could abort in a further attempt.
    """
    for number, way in enumerate(ways):
        if number and not isl().works(context()):  # maybe by a check
            raise BudgetError("isl gave up")
        try:
            yield way()
        except isl().Error as error:
            if "unbounded" in str(error) or "bounded optimum" in str(error):
                raise BudgetError(_NO_END) from None
            yield error
        except BudgetError as error:
            yield error


def coalesced(union: Set) -> Set:
    """The same set with fewer disjuncts, if isl finds any.

    isl can abort when it coalesces disjuncts with different quantified variables, so `align_divs` gives all disjuncts
    the same divisions first. A union with an undefined quantified variable (as projections leave them) is returned
    unchanged. A union with fewer disjuncts is compared with the original, which replaces a wrong one, with a remark.
    """
    if union.n_basic_set() == 1:
        return union.coalesce()
    parts = union.get_basic_sets()
    if any(map(_is_implicit, parts)):
        return union
    try:
        found: Set = (union.align_divs() if any(map(_divisions, parts)) else union).coalesce()
    except isl().Error:  # isl 0.27 trips over its own divisions here and there
        if not isl().works(context()):
            raise  # out of budget
        remark("isl could not coalesce a union, which was used as it is")
        return union
    if found.n_basic_set() < len(parts) and not found.is_equal(union):
        remark("isl's coalesced set was another set, and was not used")
        return union
    return found


def _divisions(part: BasicSet) -> int:
    count: int = part.dim(isl().dim_type.div)
    return count


def _is_implicit(part: BasicSet) -> bool:
    """Whether a quantified variable has no definition. (isl may not terminate when it removes such variables.)"""
    space = part.get_local_space()
    try:
        for k in range(_divisions(part)):
            space.get_div(k)
    except isl().Error:
        return True
    return False
