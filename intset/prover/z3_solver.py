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
from dataclasses import dataclass
from typing import Any, Final

from intset.prover.z3_terms import Terms, load_z3

_NEVER: Final = (1 << 32) - 1  # milliseconds, as z3 says it
DEFAULT_RLIMIT: Final = 1_000_000  # about 0.1 to 0.2 s


@dataclass(slots=True)
class Workbench:
    """A context in which nothing was done yet, which makes terms, and its solver, which heeds `rlimit`."""

    terms: Terms
    solver: Any
    rlimit: int

    def limit(self, rlimit: int, timeout_ms: int = 0) -> None:
        """How much a check may take, in z3's units and, where that is not 0, by the clock."""
        if rlimit == self.rlimit and not timeout_ms:
            return
        z3 = load_z3()
        ref = self.terms.ref
        chosen = z3.Z3_mk_params(ref)
        z3.Z3_params_inc_ref(ref, chosen)
        for name, value in (("rlimit", rlimit), ("timeout", timeout_ms or _NEVER)):
            z3.Z3_params_set_uint(ref, chosen, z3.Z3_mk_string_symbol(ref, name), value)
        z3.Z3_solver_set_params(ref, self.solver.solver, chosen)
        z3.Z3_params_dec_ref(ref, chosen)
        self.rlimit = rlimit


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """An interrupt in the middle of a call of z3 stays one: ctypes turns it into an error about an argument."""
    try:
        yield
    except ArgumentError as failure:
        if "KeyboardInterrupt" in str(failure):
            raise KeyboardInterrupt from None
        raise


def new_workbench(rlimit: int) -> Workbench:
    """The same for every question, whoever makes it and when."""
    z3 = load_z3()
    context = z3.Context()
    # Errors are asked for after each call; what z3 would call meanwhile is Python, out of which no interrupt comes.
    z3.Z3_set_error_handler(context.ref(), 0)
    z3.Z3_enable_concurrent_dec_ref(context.ref())  # the garbage collector may run in another thread
    # SimpleSolver is z3's incremental core; Solver() tries tactics first, at 4 times the cost of a query.
    solver = z3.SimpleSolver(ctx=context)
    # ctrl_c: z3 would swallow the signal; this way Python raises KeyboardInterrupt when z3 returns.
    solver.set(random_seed=0, ctrl_c=False, rlimit=rlimit)
    z3.Z3_solver_get_num_scopes(context.ref(), solver.solver)  # it is built by the first call, which may as well be now
    return Workbench(Terms(context), solver, rlimit)


class _Supply:
    """Keeps one workbench ready, and clears away those that are done with.

    Safe for threads, interrupts and forks: at worst one is made anew, or cleared away by who used it.
    """

    def __init__(self) -> None:
        self._ready: list[Workbench] = []
        self._used: list[Workbench] = []
        self._maker: threading.Thread | None = None
        self._rlimit = DEFAULT_RLIMIT

    def take(self, rlimit: int) -> Workbench:
        """A workbench for a question with this budget."""
        self._rlimit = rlimit  # the next question is likely to have it too
        bench = self._next()
        if bench is None:
            maker = self._prepare()
            if maker is not None and maker.is_alive():
                maker.join()
            bench = self._next() or new_workbench(rlimit)
        self._prepare()
        bench.limit(rlimit)
        return bench

    def _next(self) -> Workbench | None:
        try:
            return self._ready.pop()
        except IndexError:
            return None

    def give_back(self, bench: Workbench) -> None:
        """It is done with, and nobody else will use it. What z3's objects do when they die is written in Python, so
        they die in the maker's thread: an interrupt that fell into it would be lost."""
        self._used.append(bench)

    def _prepare(self) -> threading.Thread | None:
        """See to it that one is made where none is ready; gives who makes one."""
        if self._maker is None and not self._ready:
            self._maker = threading.Thread(target=self._make, name="intset z3 context")
            try:
                self._maker.start()
            except RuntimeError:  # the interpreter ends, or may have no more threads
                self._maker = None
                self._used.clear()
            except BaseException:
                self._maker = None
                raise
        return self._maker

    def _make(self) -> None:
        try:
            self._used.clear()
            self._ready.append(new_workbench(self._rlimit))
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
