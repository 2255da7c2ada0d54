"""isl, loaded on first use: one context a thread, budgets in isl's operations, integers of any size.

Invariant: all objects of one operation belong to the context of the current thread; isl does not check this.

Answers that were wrong in some release are checked, and refused where the check fails. isl 0.27 and
0.28 compute a wrong lexicographic optimum of some sets whose constraints are not in isl's own order. `ordered` restores
the order, which removes every known wrong answer; the checks are a second line of defence. They use emptiness and
inclusion only, which isl decides by another algorithm.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from intset.domains.isl.bindings import DIV, PARAM, SET
from intset.domains.isl.bindings import isl as isl
from intset.errors import BudgetError, InputError
from intset.expr.printer import number_of
from intset.regions.shape import Account, remark

if TYPE_CHECKING:
    from islpy import BasicSet, Context, Map, Point, PwAff, PwMultiAff, Set, Val

NAME = "isl"  # of the domain
_LONG = 1 << 63
_CHUNK_BITS = 62
_NEGLIGIBLE = 32  # accounts ignore less than 1/32 of a budget: measuring it costs more
_MAX_NAMES = 256  # cached names
MAX_BITS = 4_096  # of a number passed to isl


class IslError(BudgetError):
    """isl refused an operation for a reason other than its budget, usually a defect of the caller.

    It is a `BudgetError`, so that callers fall back to answers without isl.
    """


class SpentError(BudgetError):
    """The enclosing budget was exhausted before a `budget_aside` block began."""


def read_set(text: str) -> Set:
    """The set that a text of isl denotes, in the context of this thread.

    isl names the dimensions of each disjunct by the text, and refuses to rename dimensions that have a name in some
    disjuncts alone, as in `{ [i0] : i0 < 3; [5] }`. So the names are dropped.
    """
    m = isl()
    found: Set = m.Set.read_from_str(context(), text)
    kind, number = SET, found.dim(SET)
    return found.reset_space(found.get_space().drop_dims(kind, 0, number).add_dims(kind, number))


class _Session(threading.local):
    """State of a thread: its context, and the open budgets, innermost last."""

    context: Context | None = None

    def __init__(self) -> None:
        self.running: list[weakref.ref[Budget]] = []
        self.names: dict[str, Any] = {}


_SESSION = _Session()


def context() -> Context:
    """The isl context of this thread. It never prints; a forked child uses its copy."""
    ctx: Context | None = _SESSION.context
    if ctx is None:
        ctx = isl().Context()
        ctx.set_on_error(isl().on_error.CONTINUE)
        # isl's table of names grows here, outside any budget
        many = [isl().name(ctx, f"_{k}") for k in range(_MAX_NAMES)]
        _SESSION.names = {}
        _SESSION.context = ctx
        del many
    elif (running := _SESSION.running) and running[-1]() is None:
        _innermost()
    return ctx


def _innermost() -> Budget | None:
    """The budget in force. Cleans up behind budgets whose `__exit__` an interrupt prevented."""
    running = _SESSION.running
    if not running:
        return None
    alive = len(running)
    while alive and running[alive - 1]() is None:
        alive -= 1
    found = running[alive - 1]() if alive else None
    if alive < len(running):
        if _SESSION.context is not None:
            _SESSION.context.set_max_operations(found.limit if found else 0)
        del running[alive:]
    return found


class Budget:
    """One `with budget(...)` block."""

    __slots__ = ("__weakref__", "_account", "_apart", "_aside", "_context", "_outer", "_own", "limit")
    limit: int  # the value of isl's operation counter at which isl stops; 0 for none

    def __init__(self, max_operations: int | None, aside: bool = False, account: Account | None = None) -> None:
        if max_operations is not None and max_operations < 1:
            raise InputError(f"max_operations must be at least 1, not {max_operations}")
        self._own, self._account = max_operations, account
        self._aside, self._apart = aside, False

    def __enter__(self) -> None:
        self._context = context()
        self._outer = _innermost()
        self.limit = self._outer.limit if self._outer and not self._aside else 0
        _SESSION.running.append(weakref.ref(self))
        try:
            if self._aside and self._outer and self._outer.limit:
                self._set_apart(_count(self._context, self._outer))
            if self._own is not None:
                if self.limit:
                    used = _count(self._context, self)
                    self.limit = min(self.limit, used + self._own)
                else:
                    isl().without_blocks(self._context)
                    self._context.reset_operations()
                    self.limit = self._own
                self._context.set_max_operations(self.limit)
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spent = bool(self.limit) and not isl().works(self._context)
        if self._account is not None and self._outer is None:  # else the enclosing budget charges it
            self._account.charge(self._spent(spent))
        self._leave()
        if spent and (error is None or isinstance(error, Exception)):
            raise BudgetError(f"isl gave up after {self._own or self.limit} operations", "isl_operations")
        if isinstance(error, isl().Error):
            raise IslError(str(error)) from None

    def _spent(self, is_all: bool) -> int:
        """The operations that the block used; 0 for a negligible share of its budget."""
        assert self._own is not None
        before = self._own - self.limit  # used before a `budget_aside` block reset the counter
        few = self._own // _NEGLIGIBLE - before
        if is_all:
            return self._own
        if few > 0:
            self._context.set_max_operations(few)
            if isl().works(self._context):
                return 0
            self._context.set_max_operations(self.limit)
        return before + _count(self._context, self)

    def _set_apart(self, spent: int) -> None:
        """Reset isl's counter for a `budget_aside` block; the limits of outer blocks shrink by what they spent."""
        assert self._outer is not None
        if spent >= self._outer.limit:
            raise SpentError("isl has no operations left for a question beside")
        self._apart = True
        for outer in _limited():
            outer.limit -= spent

    def _leave(self) -> None:
        if self._apart:
            self._context.reset_operations()
        # The list last, so that `context` can clean up after an interrupt in between.
        self._context.set_max_operations(self._outer.limit if self._outer else 0)
        running = _SESSION.running
        while running and running.pop()() is not self:
            pass


def budget(max_operations: int | None, account: Account | None = None) -> Budget:
    """`with budget(n):` limits the block to `n` operations of isl (`None`: no limit of its own).

    Parameters
    ----------
    account: limits the block further, to its rest, and is charged for the operations of the block.

    10 000 operations take some 10 ms. isl counts allocations as operations; its memory cache is cleared when the
    outermost block begins, and names are allocated outside the count. Garbage collection inside a block may save about
    ten operations.

    Blocks nest: the nearer limit ends an inner block, and its operations count for the outer one. isl works again after
    the block, also after an exception.

    Raises
    ------
    BudgetError: at the end of a block that met its limit. Results of the block are then invalid: isl answers some
        queries wrongly without an error (`count_val`).
    IslError: isl refused an operation for another reason.
    """
    if account is not None and max_operations is not None:
        max_operations = max(1, account.allowed(max_operations))
    return Budget(max_operations, account=account)


def budget_aside(max_operations: int) -> Budget:
    """A block with a budget independent of enclosing blocks, for results that other queries share.

    Raises
    ------
    SpentError: at the beginning, if the enclosing budget is exhausted.
    """
    return Budget(max_operations, aside=True)


class weighed(Budget):  # noqa: N801  # read as a statement: `with weighed(...)`
    """Count isl's operations several times while the block runs: what solves integer programs takes longer for each.

    Guarantee: what the block does is charged `weight` times to the budgets around it, and stops where these would be
    spent, whatever budgets it enters itself. Without a budget in force it changes nothing.

    Raises
    ------
    BudgetError: at the end of a block that met its limit.
    """

    __slots__ = ("_allowance", "_weight")

    def __init__(self, weight: int) -> None:
        super().__init__(None)
        self._weight, self._allowance = weight, 0

    def __enter__(self) -> None:
        super().__enter__()
        if self._weight > 1 and self.limit:
            used = _count(self._context, self)
            self._allowance = max(1, (self.limit - used) // self._weight)
            self.limit = used + self._allowance
            self._context.set_max_operations(self.limit)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        extra = 0
        if self._allowance:
            spent = not isl().works(self._context)
            left = 0 if spent else self.limit - _count(self._context, self)
            extra = (self._allowance - left) * (self._weight - 1)
        self._leave()
        if not extra:
            return
        for outer in _limited():
            outer.limit = max(1, outer.limit - extra)
        assert self._outer is not None
        self._context.set_max_operations(self._outer.limit)
        if spent and (error is None or isinstance(error, isl().Error)):
            raise BudgetError(f"isl gave up: these operations count {self._weight} times", "isl_operations") from None


def named(name: str) -> str:
    """Intern a name in isl outside the budget, so that a first use costs a query nothing; returns the name."""
    ctx, names = context(), _SESSION.names
    if name not in names:
        if len(names) >= _MAX_NAMES:
            names.clear()
        running = _limited()
        for block in running:
            block.limit += 1
        if running:
            ctx.set_max_operations(running[-1].limit)
        names[name] = isl().name(ctx, name)
    return name


def is_limited() -> bool:
    """Whether this thread has an open budget."""
    return bool(_SESSION.running)


def _limited() -> list[Budget]:
    """The open blocks of this thread with a limit, their own or inherited."""
    running = [reference() for reference in _SESSION.running]
    return [found for found in running if found is not None and found.limit]


def _count(ctx: Context, block: Budget) -> int:
    """The value of isl's operation counter, at most the limit of the innermost `block`.

    isl has no getter: binary search over limits finds it. Each probe that succeeds costs one operation, which is
    refunded to the open blocks.
    """
    low, high, spent = 0, block.limit, 0
    while low < high:
        middle = (low + high) // 2
        ctx.set_max_operations(middle + spent + 1)
        if isl().works(ctx):
            high = middle
            spent += 1
        else:
            low = middle + 1
    for outer in _limited():
        outer.limit += spent
    return low + spent


def val(n: int, most: int = MAX_BITS) -> Val | int:
    """Convert an integer for isl: itself, or an isl value beyond 64 bits.

    Raises
    ------
    BudgetError: `n` has more than `most` bits; isl's operation count does not reflect the cost of long arithmetic.
    """
    if -_LONG <= n < _LONG:
        return n
    if n.bit_length() > most:
        raise BudgetError(f"a number of {n.bit_length()} bits")
    make, ctx = isl().Val.int_from_si, context()
    magnitude, base = abs(n), make(ctx, 1 << _CHUNK_BITS)
    total: Val = make(ctx, 0)
    for shift in reversed(range(0, magnitude.bit_length(), _CHUNK_BITS)):
        total = total.mul(base).add(make(ctx, magnitude >> shift & (1 << _CHUNK_BITS) - 1))
    return total if n > 0 else total.neg()


def whole(value: Val | int) -> int | None:
    """Convert an isl value to an integer; `None` for a fraction, infinity or NaN."""
    if type(value) is int:
        return value
    assert not isinstance(value, int)
    return number_of(value.to_str()) if value.is_int() else None


def number(value: Val | int) -> int:
    """Convert an integral isl value to an integer."""
    found = whole(value)
    assert found is not None
    return found


def coordinates(point: Point, kind: Any = SET) -> tuple[int, ...]:
    """The coordinates of a point; with the kind `PARAM`, its parameters."""
    return tuple(number(point.get_coordinate_val(kind, k)) for k in range(point.get_space().dim(kind)))


def unparametric(isl_set: Set) -> Set:
    """The union of all instances, without parameters."""
    return isl_set.project_out(PARAM, 0, isl_set.dim(PARAM))


EXTREMUM: Final = 16  # weight of a lexicographic extremum of a set with divisions: parametric integer programming
EXTREMUM_OF_LONG: Final = 32  # weight of one with long numbers
# operations of dropping the implied constraints of one set with divisions, whatever a question may spend
GIST_OPERATIONS: Final = 10_000
PIECEWISE_END: Final = 2  # weight of an end of a set as a function of parameters
MANY_DIVISIONS: Final = 2  # divisions of a set whose end is first looked for as a set
# operations of that search, whatever a question may spend: ends of tiles take up to 120,000
PROBED_END: Final = 150_000
# weight of an end, a point or the emptiness of a set with divisions and long numbers: integer programming
INTEGER_PROGRAM: Final = 8
# operations of one integer program over a set with divisions, whatever a question may spend
PROGRAM_OPERATIONS: Final = 40_000
DIFFERENCE: Final = 2  # weight of a difference of sets, which tests each part for emptiness

_NO_END = "a region without end has no lexicographic extremum"


class UncheckedError(BudgetError):
    """The check refused an answer of isl."""


# -- lexicographic extrema --------------------------------------------------------------------------------------------


@contextmanager
def _refusing() -> Iterator[None]:
    """A block whose refusals by isl are `BudgetError`."""
    try:
        yield
    except isl().Error as error:
        if "unbounded" in str(error) or "bounded optimum" in str(error):
            raise BudgetError(_NO_END) from None
        raise (IslError if isl().works(context()) else BudgetError)(str(error)) from None


def lexicographic_extremum(points: Set, side: int) -> Set:
    """The lexicographically smallest (`side` -1) or largest (+1) point of a set, for each value of its parameters.

    Guarantee: the answer passed `is_extremum`.

    Raises
    ------
    BudgetError: the set is unbounded, isl failed, or its answer was wrong.
    """
    if not points.dim(SET):
        return points  # its own extremum; isl can abort on such a set with divisions of parameters
    with _refusing(), optimizing(points):
        inside = isl().ordered(points)
        found: Set = inside.lexmin() if side < 0 else inside.lexmax()
        is_right = is_extremum(points, found, side)
    if not is_right:
        raise UncheckedError(f"isl's lex{'min' if side < 0 else 'max'} was wrong")
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
    if points.dim(PARAM) or found.n_basic_set() != 1:
        return None
    for k in range(points.dim(SET)):
        value: Any = found.plain_get_val_if_fixed(SET, k)
        if type(value) is not int:
            return None
        beyond = (
            points.upper_bound_val(SET, k, val(value - 1))
            if side < 0
            else points.lower_bound_val(SET, k, val(value + 1))
        )
        if not beyond.is_empty():
            return False
        points = points.fix_val(SET, k, val(value))
    return not (points.is_empty() or found.is_empty())


def end_of_dim(points: Set, position: int, side: int) -> PwAff | None:
    """The first (`side` -1) or last (+1) value along a dimension as a function of the parameters; `None` if the
    dimension is unbounded for some parameter values.

    Guarantee: its graph passed `is_extremum` for the set projected onto the dimension.

    Raises
    ------
    BudgetError: isl failed, or its answer was wrong.
    """
    dims = points.dim(SET)
    line = points.project_out(SET, position + 1, dims - position - 1).project_out(SET, 0, position)
    # Project first: inside `dim_min`, isl would project without sorting the constraints.
    try:
        with _refusing():
            inside = isl().ordered(line)
            if is_limited() and any(part.dim(DIV) >= MANY_DIVISIONS for part in inside.get_basic_sets()):
                # where this meets its limit, dim_max does too, but runs on for 200,000 operations (`bindings`)
                with budget_aside(PROBED_END), _refusing():
                    inside.lexmin() if side < 0 else inside.lexmax()
            with weighed(PIECEWISE_END):
                found: PwAff = inside.dim_min(0) if side < 0 else inside.dim_max(0)
            is_right = is_extremum(line, isl().Set.from_pw_aff(found), side)
    except BudgetError as error:
        if str(error) == _NO_END:
            return None
        raise
    if not is_right:
        raise UncheckedError(f"isl's dim_{'min' if side < 0 else 'max'} was wrong")
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
    within: a set over the same space or over its parameters alone.
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
    div = DIV
    within = within.align_params(points.get_space())  # once, not in each question
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
        stated.sort(key=lambda c: sum(bool(c.involves_dims(div, k, 1)) for k in range(c.dim(div))), reverse=True)
        sets = [universe.add_constraint(c) for c in stated]
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
    except isl().Error:  # isl 0.27 fails on some sets with divisions
        if not isl().works(context()):
            raise  # out of budget
        remark("isl could not coalesce a union, which was used as it is")
        return union
    if found.n_basic_set() < len(parts) and not found.is_equal(union):
        remark("isl's coalesced set was another set, and was not used")
        return union
    return found


def disjoint_parts(isl_set: Set) -> list[BasicSet]:
    """Disjoint basic sets with explicit divisions whose union is the set."""
    explicit = coalesced(isl_set).compute_divs()
    if explicit.n_basic_set() > 1:
        explicit = explicit.make_disjoint().compute_divs()
    return list(explicit.get_basic_sets())


def _divisions(part: BasicSet) -> int:
    count: int = part.dim(DIV)
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
