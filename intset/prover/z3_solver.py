"""A z3 solver in a context of its own, for one question.

A context remembers what was done in it: the numbers of its terms decide in what order z3 looks at them, and so what a
budget is enough for. Therefore no two questions share one. A context takes some milliseconds to make, most of them to
clear its memory, and nothing of the question is needed for that: while a question is answered, the solver of the next
is made in another thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import ArgumentError
from typing import Any, Final, NamedTuple

from intset.errors import BudgetError


class Workbench(NamedTuple):
    """A context in which nothing was done yet, and its solver."""

    context: Any
    solver: Any

    def limit(self, **limits: int) -> None:
        """Set z3's `rlimit` or `timeout`."""
        z3 = load_z3()
        chosen = z3.ParamsRef(self.context)
        for name, value in limits.items():
            chosen.set(name, value)
        z3.Z3_solver_set_params(self.context.ref(), self.solver.solver, chosen.params)


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """An interrupt in the middle of a call of z3 stays one: ctypes turns it into an error about an argument."""
    try:
        yield
    except ArgumentError as failure:
        if "KeyboardInterrupt" in str(failure):
            raise KeyboardInterrupt from None
        raise


def load_z3() -> Any:
    """The z3 module: the one place that imports it.

    Raises
    ------
    BudgetError: it cannot be imported: what needs it is not known.
    """
    try:
        import z3
    except ImportError as error:
        raise BudgetError(f"z3 cannot be imported: {error}") from None
    return z3


def new_workbench() -> Workbench:
    """The same for every question, whoever makes it and when."""
    z3 = load_z3()
    context = z3.Context()
    z3.Z3_enable_concurrent_dec_ref(context.ref())  # the garbage collector may run in another thread
    # SimpleSolver is z3's incremental core; Solver() tries tactics first, at 4 times the cost of a query.
    solver = z3.SimpleSolver(ctx=context)
    # ctrl_c: z3 would swallow the signal; this way Python raises KeyboardInterrupt when z3 returns.
    solver.set(random_seed=0, ctrl_c=False)
    return Workbench(context, solver)


class _Supply:
    """Keeps one workbench ready. Safe for threads, interrupts and forks: at worst one is made anew."""

    def __init__(self) -> None:
        self._ready: list[Workbench] = []
        self._maker: threading.Thread | None = None

    def take(self) -> Workbench:
        try:
            return self._ready.pop()
        except IndexError:
            return new_workbench()
        finally:
            self._prepare()

    def _prepare(self) -> None:
        if self._maker is None and not self._ready:
            self._maker = threading.Thread(target=self._make, name="intset z3 context")
            try:
                self._maker.start()
            except BaseException as failure:
                self._maker = None
                if not isinstance(failure, RuntimeError):  # the interpreter ends, or may have no more threads
                    raise

    def _make(self) -> None:
        try:
            self._ready.append(new_workbench())
        finally:
            self._maker = None

    def pause(self) -> None:
        """Wait until no thread is inside of z3 on our behalf: a child must not inherit the locks it holds."""
        maker = self._maker
        if maker is not None and maker.is_alive():
            maker.join()


SUPPLY: Final = _Supply()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=SUPPLY.pause)
