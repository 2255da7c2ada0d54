"""isl, loaded on first use: one context for each thread, budgets counted in isl's operations, integers of any size.

An isl object belongs to the context it was made in, so to one thread: two contexts in one operation make garbage.
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
from intset.expr.text import number_of
from intset.loading import load
from intset.regions.account import Account

if TYPE_CHECKING:
    from islpy import Context, Val

NAME = "isl"  # of the domain
_LONG = 1 << 63
_CHUNK_BITS = 62
_NEGLIGIBLE = 32  # an account leaves out what uses less than this part of its budget: finding out how much takes time
_MAX_KEPT = 16  # dimensions of spaces that are kept
_MAX_NAMES = 256  # that are kept
_ZERO = ("LocalSpace.from_space",), ("Aff.zero_on_domain",)
MAX_BITS = 4_096  # of a number that isl is given


class IslError(BudgetError):
    """isl refused an operation for a reason other than its budget: a defect of the caller. Whoever can answer without
    isl does so all the same."""


class SpentError(BudgetError):
    """The budget around a question that counts by itself was met before: what the outer block does will not count."""


@cache
def isl() -> Any:
    """isl's classes by islpy's names: of its C interface, or where that cannot be reached, the module `islpy`.

    Raises
    ------
    BudgetError: it cannot be imported: what needs it is not known.
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
    """What some methods make of an object, one after another, such as `("floor",)` and `("Map.from_aff",)`."""
    for name, *given in steps:
        of, _, static = name.partition(".")
        start = getattr(getattr(isl(), of), static)(start, *given) if static else getattr(start, name)(*given)
    return start


def _read_again(points: Any) -> Any:
    return isl().Set.read_from_str(context(), str(points))


def _numbered(start: Any, rows: Iterable[tuple[str, Any, int, Any]], constant: Any = 0) -> Any:
    """`start` with a number set for each dimension named: `("lower_bound_val", kind, position, number)`."""
    if type(constant) is not int or constant:
        start = start.set_constant_val(constant)
    for name, kind, position, value in rows:
        start = getattr(start, name)(kind, position, value)
    return start


class _Session(threading.local):
    """What a thread has: its context, and the budgets that are running, the innermost last."""

    context: Context | None = None

    def __init__(self) -> None:
        self.running: list[weakref.ref[Budget]] = []
        self.spaces: list[tuple[Any, Any, Any]] = []
        self.names: dict[str, Any] = {}


_SESSION = _Session()


def context() -> Context:
    """The isl context of this thread. It never prints; a forked child goes on with its own copy."""
    ctx: Context | None = _SESSION.context
    if ctx is None:
        ctx = isl().Context()
        ctx.set_on_error(isl().on_error.CONTINUE)
        _SESSION.spaces = [_origin(ctx, dims) for dims in range(_MAX_KEPT)]
        many = [isl().name(ctx, f"_{k}") for k in range(_MAX_NAMES)]  # the table of names grows now or never
        _SESSION.names = {}
        _SESSION.context = ctx
        del many
    elif (running := _SESSION.running) and running[-1]() is None:
        _innermost()
    return ctx


def _innermost() -> Budget | None:
    """The budget in force. One that died was left by an interrupt before it could clean up; that is done here."""
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
    limit: int  # in force: the value of isl's operation counter at which it stops; 0 for none

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
        if self._account is not None and self._outer is None:  # else this is charged by the budget around it
            self._account.charge(self._spent(spent))
        self._leave()
        failure: BaseException
        if spent and (error is None or isinstance(error, Exception)):
            failure = BudgetError(f"isl gave up after {self._own or self.limit} operations")
        elif not isinstance(error, isl().Error):
            return
        elif "<no message>" in str(error):
            # A callback was interrupted: islpy swallows the interrupt and reports a failure without a message.
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
        """The operations that were used; as none where they are too few to matter."""
        assert self._own is not None
        before = self._own - self.limit  # used when a question beside let isl count from 0
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
        """Outer blocks go on with what they have left, counted from 0: isl's counter starts again, here and after."""
        assert self._outer is not None
        if spent >= self._outer.limit:
            raise SpentError("isl has no operations left for a question beside")
        self._apart = True
        for outer in _limited():
            outer.limit -= spent

    def _leave(self) -> None:
        if self._apart:
            self._context.reset_operations()
        # The list last: interrupted in between, it still tells `context` that there is something to clean up.
        self._context.set_max_operations(self._outer.limit if self._outer else 0)
        running = _SESSION.running
        while running and running.pop()() is not self:
            pass


def budget(max_operations: int | None, account: Account | None = None) -> Budget:
    """`with budget(n):` lets isl do at most `n` operations in the block (`None`: no limit of its own). With an account
    it is at most what that has left; what the block used is charged.

    10 000 operations take some 10 ms. isl counts allocations, too: what it keeps of memory is let go of where the
    outermost block begins, names are made beside. Where Python's collector frees sets in the middle of a question, it
    takes some ten operations less.

    Blocks nest: an inner one ends at the nearer of both limits, and what it used counts for the outer one. After the
    block, however it is left, isl works again.

    Raises
    ------
    BudgetError: at the end of the block, when the limit was met inside: *whatever* the block computed or raised then
        does not count, for isl answers some questions wrongly without an error (`count_val` does).
    IslError: isl refused an operation for another reason.
    """
    if account is not None and max_operations is not None:
        max_operations = max(1, account.allowed(max_operations))
    return Budget(max_operations, account=account)


def budget_aside(max_operations: int) -> Budget:
    """A block whose operations do not count for the blocks around it, nor theirs for it: for what is kept for others.

    Raises
    ------
    SpentError: at its begin, where the blocks around it have nothing left.
    """
    return Budget(max_operations, aside=True)


class weighed(Budget):  # noqa: N801  # read as a statement: `with weighed(...)`
    """Count isl's operations several times while the block runs: what solves integer programs takes longer for each.

    Guarantee: what the block does is charged `weight` times to the budgets around it, and stops where these would be
    spent, whatever budgets it enters itself. Without a budget in force it changes nothing.

    Raises
    ------
    BudgetError: at the end of the block, as a budget does.
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
            raise BudgetError(f"isl gave up: these operations count {self._weight} times") from None


def origin(dims: int) -> tuple[Any, Any, Any]:
    """The space of so many dimensions without parameters, all its points, and its function 0: these are kept."""
    ctx = context()
    return _SESSION.spaces[dims] if dims < _MAX_KEPT else _origin(ctx, dims)


def _origin(ctx: Context, dims: int) -> tuple[Any, Any, Any]:
    m = isl()
    space = m.Space.set_alloc(ctx, 0, dims)
    return space, m.Set.universe(space), m.applied(space, _ZERO)


def named(name: str) -> str:
    """`name`, which isl is given next: that it has not met it before takes no operation of a question."""
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
    """The function 0 on a space."""
    return isl().applied(space, _ZERO)


def is_limited() -> bool:
    """Whether a budget is running in this thread."""
    return bool(_SESSION.running)


def _works(ctx: Context) -> bool:
    """Whether isl still computes: once the limit is met, everything fails."""
    found: bool = isl().works(ctx)
    return found


def _still_works(ctx: Context) -> bool:
    try:
        isl().Val.int_from_si(ctx, 0)
    except isl().Error:
        return False
    return True


def _limited() -> list[Budget]:
    """The blocks of this thread that have a limit of their own or from around them."""
    running = [reference() for reference in _SESSION.running]
    return [found for found in running if found is not None and found.limit]


def _count(ctx: Context, block: Budget) -> int:
    """The value of isl's operation counter, at most the limit of `block`, the innermost.

    isl does not tell it: it is searched, at one operation for each success, which the running blocks are given back.
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
    """The integer `n` as isl takes it: itself, or an isl value if it is long.

    Raises
    ------
    BudgetError: `n` has more than `most` bits: what isl then does takes long, and its operations do not count it.
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
    """The integer that isl told, of any size; `None` for what is none: a fraction, infinity, NaN."""
    if type(value) is int:
        return value
    assert not isinstance(value, int)
    return number_of(value.to_str()) if value.is_int() else None


def number(value: Val | int) -> int:
    """As `whole`, of what is known to be an integer."""
    found = whole(value)
    assert found is not None
    return found
