"""isl, loaded on first use: one context a thread, budgets in isl's operations, integers of any size.

Invariant: all objects of one operation belong to the context of the current thread; isl does not check this.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

from intset.domains.isl.bindings import bindings
from intset.errors import BudgetError, InputError
from intset.expr.printer import number_of
from intset.installation import load
from intset.regions.derived import Account

if TYPE_CHECKING:
    from islpy import Context, Set, Val

NAME = "isl"  # of the domain
_LONG = 1 << 63
_CHUNK_BITS = 62
_NEGLIGIBLE = 32  # accounts ignore less than 1/32 of a budget: measuring it costs more
_MAX_KEPT = 16  # largest dimension of cached spaces
_MAX_NAMES = 256  # cached names
_ZERO = ("LocalSpace.from_space",), ("Aff.zero_on_domain",)
MAX_BITS = 4_096  # of a number passed to isl


class IslError(BudgetError):
    """isl refused an operation for a reason other than its budget, usually a defect of the caller.

    It is a `BudgetError`, so that callers fall back to answers without isl.
    """


class SpentError(BudgetError):
    """The enclosing budget was exhausted before a `budget_aside` block began."""


@cache
def isl() -> Any:
    """isl's classes under islpy's names: by its C interface, else the module `islpy`.

    Raises
    ------
    BudgetError: islpy cannot be imported.
    """
    if (found := bindings()) is not None:
        return found
    try:
        load("islpy")
        import islpy
    except ImportError as error:
        raise BudgetError(f"islpy cannot be imported: {error}") from None
    return SimpleNamespace(
        **vars(islpy),
        applied=_applied,
        numbered=_numbered,
        duplicate=_read_again,
        ordered=_read_again,
        works=_still_works,
        name=lambda ctx, text: islpy.Id(text, context=ctx),
        without_blocks=lambda ctx: None,  # not shown by islpy
    )


def _applied(start: Any, steps: Iterable[tuple[Any, ...]]) -> Any:
    """Apply methods in sequence, such as `("floor",)` and `("Map.from_aff",)`."""
    for name, *given in steps:
        of, _, static = name.partition(".")
        start = getattr(getattr(isl(), of), static)(start, *given) if static else getattr(start, name)(*given)
    return start


def _read_again(points: Any) -> Any:
    return read_set(str(points))


def read_set(text: str) -> Set:
    """The set that a text of isl denotes, in the context of this thread.

    isl names the dimensions of each disjunct by the text, and refuses to rename dimensions that have a name in some
    disjuncts alone, as in `{ [i0] : i0 < 3; [5] }`. So the names are dropped.
    """
    m = isl()
    found: Set = m.Set.read_from_str(context(), text)
    kind, number = m.dim_type.set, found.dim(m.dim_type.set)
    return found.reset_space(found.get_space().drop_dims(kind, 0, number).add_dims(kind, number))


def _numbered(start: Any, rows: Iterable[tuple[str, Any, int, Any]], constant: Any = 0) -> Any:
    """Apply methods that set the number of a dimension: `("lower_bound_val", kind, position, number)`."""
    if type(constant) is not int or constant:
        start = start.set_constant_val(constant)
    for name, kind, position, value in rows:
        start = getattr(start, name)(kind, position, value)
    return start


class _Session(threading.local):
    """State of a thread: its context, and the open budgets, innermost last."""

    context: Context | None = None

    def __init__(self) -> None:
        self.running: list[weakref.ref[Budget]] = []
        self.spaces: list[tuple[Any, Any, Any]] = []
        self.names: dict[str, Any] = {}


_SESSION = _Session()


def context() -> Context:
    """The isl context of this thread. It never prints; a forked child uses its copy."""
    ctx: Context | None = _SESSION.context
    if ctx is None:
        ctx = isl().Context()
        ctx.set_on_error(isl().on_error.CONTINUE)
        _SESSION.spaces = [_origin(ctx, dims) for dims in range(_MAX_KEPT)]
        many = [
            isl().name(ctx, f"_{k}") for k in range(_MAX_NAMES)
        ]  # isl's table of names grows here, outside any budget
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
        spent = bool(self.limit) and not _works(self._context)
        if self._account is not None and self._outer is None:  # else the enclosing budget charges it
            self._account.charge(self._spent(spent))
        self._leave()
        failure: BaseException
        if spent and (error is None or isinstance(error, Exception)):
            failure = BudgetError(f"isl gave up after {self._own or self.limit} operations", "isl_operations")
        elif not isinstance(error, isl().Error):
            return
        elif "<no message>" in str(error):
            # An interrupted callback: islpy swallows the interrupt and reports a failure without a message.
            failure = KeyboardInterrupt()
        else:
            failure = IslError(str(error))
        try:
            raise failure
        except BaseException:
            # islpy's errors cannot be compared by `==`, which breaks tools that walk the chain of errors.
            failure.__context__ = None if isinstance(error, isl().Error) else error
            raise

    def _spent(self, is_all: bool) -> int:
        """The operations that the block used; 0 for a negligible share of its budget."""
        assert self._own is not None
        before = self._own - self.limit  # used before a `budget_aside` block reset the counter
        few = self._own // _NEGLIGIBLE - before
        if is_all:
            return self._own
        if few > 0:
            self._context.set_max_operations(few)
            if _works(self._context):
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
            spent = not _works(self._context)
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


def origin(dims: int) -> tuple[Any, Any, Any]:
    """The space of `dims` dimensions without parameters, its universe and its zero function; cached."""
    ctx = context()
    return _SESSION.spaces[dims] if dims < _MAX_KEPT else _origin(ctx, dims)


def _origin(ctx: Context, dims: int) -> tuple[Any, Any, Any]:
    m = isl()
    space = m.Space.set_alloc(ctx, 0, dims)
    return space, m.Set.universe(space), m.applied(space, _ZERO)


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


def zero_on(space: Any) -> Any:
    """The zero function on a space."""
    return isl().applied(space, _ZERO)


def is_limited() -> bool:
    """Whether this thread has an open budget."""
    return bool(_SESSION.running)


def _works(ctx: Context) -> bool:
    """Whether isl still computes; beyond the limit, every operation fails."""
    found: bool = isl().works(ctx)
    return found


def _still_works(ctx: Context) -> bool:
    try:
        isl().Val.int_from_si(ctx, 0)
    except isl().Error:
        return False
    return True


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
        if _works(ctx):
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
