"""z3 contexts, solvers and terms through z3's C interface: one context per question.

z3 numbers the terms of a context, and its search order, and so what a budget suffices for, depends on these numbers.
So no two questions share a context. A context takes milliseconds to create; a thread prepares the next one while the
current question runs.

z3's Python layer checks sorts and counts references per term, at ten times the cost of the term. Here sorts are right
by construction and terms live as long as their context.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import ArgumentError
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from intset.errors import BudgetError
from intset.expr.printer import decimal, number_of
from intset.installation import load

SOLVER_RLIMIT: Final = 1_000_000  # z3's units where a caller names none: about 0.1 to 0.2 s

Z3Operand: TypeAlias = "Z3Term | int"
_SMALL: Final = 1 << 62


@cache
def load_z3() -> Any:
    """The z3 module: the one place that imports it.

    Raises
    ------
    BudgetError: it cannot be imported: what needs it is not known.
    """
    try:
        load("z3")
        import z3
    except ImportError as error:
        raise BudgetError(f"z3 cannot be imported: {error}") from None
    return z3


class Z3Terms:
    """A factory of integer and Boolean terms in one context.

    Invariant: every term lives as long as the factory, which releases all of them when it dies.
    """

    def __init__(self, context: Any) -> None:
        self._models: list[Any] = []
        self._asts: list[Any] = []  # released explicitly: clearing a context full of terms is slow
        self.core: Final = load_z3().z3core
        self._drop: Final = self.core.Z3_dec_ref
        self.context: Final = context  # dropping it frees its terms
        self.ref: Final = context.ref()
        self._integers = self._kept(self.core.Z3_mk_int_sort(self.ref), self.core.Z3_sort_to_ast)
        self._conditions = self._kept(self.core.Z3_mk_bool_sort(self.ref), self.core.Z3_sort_to_ast)
        ast = load_z3().Ast
        self._arrays: Final = [ast * length for length in range(4)]
        self._ast: Final = ast

    def __del__(self) -> None:
        for model in self._models:
            self.core.Z3_model_dec_ref(self.ref, model)
        for ast in self._asts:
            self._drop(self.ref, ast)

    def _kept(self, made: Any, as_ast: Any) -> Any:
        self._term(as_ast(self.ref, made))
        return made

    def _term(self, ast: Any) -> Z3Term:
        self.core.Z3_inc_ref(self.ref, ast)
        self._asts.append(ast)
        return Z3Term(self, ast)

    def integer(self, value: int) -> Z3Term:
        """An integer constant."""
        if -_SMALL < value < _SMALL:
            return self._term(self.core.Z3_mk_int64(self.ref, value, self._integers))
        return self._term(self.core.Z3_mk_numeral(self.ref, decimal(value), self._integers))

    def truth(self, value: bool) -> Z3Term:
        make = self.core.Z3_mk_true if value else self.core.Z3_mk_false
        return self._term(make(self.ref))

    def unknown_integer(self, name: str) -> Z3Term:
        return self._unknown(name, self._integers)

    def unknown_condition(self, name: str) -> Z3Term:
        return self._unknown(name, self._conditions)

    def _unknown(self, name: str, sort: Any) -> Z3Term:
        return self._term(self.core.Z3_mk_const(self.ref, self.core.Z3_mk_string_symbol(self.ref, name), sort))

    def function(self, name: str, arity: int) -> Callable[..., Z3Term]:
        """An uninterpreted function from `arity` integers to an integer."""
        symbol = self.core.Z3_mk_string_symbol(self.ref, name)
        domain = (load_z3().Sort * arity)(*[self._integers] * arity)
        made = self.core.Z3_mk_func_decl(self.ref, symbol, arity, domain, self._integers)
        declaration = self._kept(made, self.core.Z3_func_decl_to_ast)

        def applied(*arguments: Z3Term) -> Z3Term:
            return self._term(self.core.Z3_mk_app(self.ref, declaration, len(arguments), self._array(arguments)))

        return applied

    def _array(self, terms: Sequence[Z3Term]) -> Any:
        length = len(terms)
        kind = self._arrays[length] if length < len(self._arrays) else self._ast * length
        return kind(*[term.ast for term in terms])

    def of_many(self, make: Any, *terms: Z3Operand) -> Z3Term:
        """A term made by a C function that takes a list of terms."""
        return self._term(make(self.ref, len(terms), self._array([self.term(t) for t in terms])))

    def of_one(self, make: Any, term: Z3Term) -> Z3Term:
        return self._term(make(self.ref, term.ast))

    def of_two(self, make: Any, a: Z3Operand, b: Z3Operand) -> Z3Term:
        return self._term(make(self.ref, self.term(a).ast, self.term(b).ast))

    def model_of(self, solver: Any) -> Any:
        """A model of the solver's assertions, alive as long as the terms."""
        model = self.core.Z3_solver_get_model(self.ref, solver)
        self.core.Z3_model_inc_ref(self.ref, model)
        self._models.append(model)
        return model

    def value(self, model: Any, term: Z3Term) -> int:
        """The value of an integer term in a model; model completion assigns unconstrained terms."""
        cell = (self._ast * 1)()
        self.core.Z3_model_eval(self.ref, model, term.ast, True, cell)
        return number_of(self.core.Z3_get_numeral_string(self.ref, cell[0]))

    def unsat_core(self, solver: Any) -> set[int]:
        """AST ids of the assumptions in the unsatisfiable core."""
        core, ref = self.core, self.ref
        terms = core.Z3_solver_get_unsat_core(ref, solver)
        core.Z3_ast_vector_inc_ref(ref, terms)
        size = core.Z3_ast_vector_size(ref, terms)
        ids = {core.Z3_get_ast_id(ref, core.Z3_ast_vector_get(ref, terms, k)) for k in range(size)}
        core.Z3_ast_vector_dec_ref(ref, terms)
        return ids

    def term(self, given: Z3Operand) -> Z3Term:
        return self.integer(given) if isinstance(given, int) else given

    def both(self, *conditions: Z3Term) -> Z3Term:
        return self.of_many(self.core.Z3_mk_and, *conditions)

    def either(self, *conditions: Z3Term) -> Z3Term:
        return self.of_many(self.core.Z3_mk_or, *conditions)

    def negated(self, condition: Z3Term) -> Z3Term:
        return self.of_one(self.core.Z3_mk_not, condition)

    def implied(self, premise: Z3Term, conclusion: Z3Term) -> Z3Term:
        return self.of_two(self.core.Z3_mk_implies, premise, conclusion)

    def choice(self, condition: Z3Term, if_true: Z3Operand, if_false: Z3Operand) -> Z3Term:
        chosen = self.term(if_true), self.term(if_false)
        return self._term(self.core.Z3_mk_ite(self.ref, condition.ast, *(term.ast for term in chosen)))

    def bits_of_both(self, a: Z3Term, b: Z3Term, width: int, signed: bool) -> Z3Term:
        """`a & b` for integers of at most `width` bits."""
        core, ref = self.core, self.ref
        bits = [self._term(core.Z3_mk_int2bv(ref, width, term.ast)) for term in (a, b)]
        return self._term(core.Z3_mk_bv2int(ref, self.of_two(core.Z3_mk_bvand, *bits).ast, signed))


_Binary: TypeAlias = "Callable[[Z3Term, Z3Operand], Z3Term]"


def _of_many(make: str) -> _Binary:
    """An operation by a C function that takes a list of terms."""
    return lambda self, other: self._terms.of_many(getattr(self._terms.core, make), self, other)


def _of_two(make: str) -> _Binary:
    return lambda self, other: self._terms.of_two(getattr(self._terms.core, make), self, other)


class Z3Term:
    """An integer or Boolean term; `/` and `%` are z3's Euclidean division and remainder."""

    __slots__ = ("_terms", "ast")

    def __init__(self, terms: Z3Terms, ast: Any) -> None:
        self._terms, self.ast = terms, ast

    @property
    def ref(self) -> Any:
        """The term as an object of z3's Python layer."""
        return load_z3().ExprRef(self.ast, self._terms.context)

    def __rmul__(self, other: int) -> Z3Term:
        return self._terms.of_many(self._terms.core.Z3_mk_mul, other, self)

    def __neg__(self) -> Z3Term:
        return self._terms.of_one(self._terms.core.Z3_mk_unary_minus, self)

    __add__ = _of_many("Z3_mk_add")
    __sub__ = _of_many("Z3_mk_sub")
    __mul__ = _of_many("Z3_mk_mul")
    ne = _of_many("Z3_mk_distinct")
    __truediv__ = _of_two("Z3_mk_div")
    __mod__ = _of_two("Z3_mk_mod")
    __lt__ = _of_two("Z3_mk_lt")
    __le__ = _of_two("Z3_mk_le")
    __gt__ = _of_two("Z3_mk_gt")
    __ge__ = _of_two("Z3_mk_ge")
    eq = _of_two("Z3_mk_eq")


# -- solvers -----------------------------------------------------------------------------------------------------------


_NEVER: Final = (1 << 32) - 1  # milliseconds, as z3 says it


@dataclass(slots=True)
class Workbench:
    """A fresh z3 context with its term factory and its solver, limited to `rlimit` z3 units."""

    terms: Z3Terms
    solver: Any
    rlimit: int

    def limit(self, rlimit: int, timeout_ms: int = 0) -> None:
        """Set the budget of a check: z3 units, and milliseconds unless `timeout_ms` is 0."""
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
    """Re-raise an interrupt during a z3 call as KeyboardInterrupt; ctypes reports it as an ArgumentError."""
    try:
        yield
    except ArgumentError as failure:
        if "KeyboardInterrupt" in str(failure):
            raise KeyboardInterrupt from None
        raise


def new_workbench(rlimit: int) -> Workbench:
    """A workbench in its initial state, identical for every question and thread."""
    z3 = load_z3()
    context = z3.Context()
    # Errors are polled after each call: a Python error handler would swallow interrupts.
    z3.Z3_set_error_handler(context.ref(), 0)
    z3.Z3_enable_concurrent_dec_ref(context.ref())  # garbage collection runs in any thread
    # SimpleSolver is z3's incremental core; Solver() tries tactics first, at 4 times the cost of a query.
    solver = z3.SimpleSolver(ctx=context)
    # ctrl_c: z3 would swallow the signal; this way Python raises KeyboardInterrupt when z3 returns.
    solver.set(random_seed=0, ctrl_c=False, rlimit=rlimit)
    z3.Z3_solver_get_num_scopes(context.ref(), solver.solver)  # forces construction of the solver
    return Workbench(Z3Terms(context), solver, rlimit)


class _WorkbenchPool:
    """Prepares one workbench ahead of each question, and destroys used ones in a background thread.

    Guarantee: safe under threads, interrupts and forks; in the worst case a caller creates or destroys its own
    workbench.
    """

    def __init__(self) -> None:
        self._ready: list[Workbench] = []
        self._used: list[Workbench] = []
        self._maker: threading.Thread | None = None
        self._rlimit = SOLVER_RLIMIT

    def take(self, rlimit: int) -> Workbench:
        """A workbench for a question with this budget."""
        self._rlimit = rlimit  # prediction for the next question
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
        """Hand a used workbench to the background thread for destruction.

        z3's destructors are Python code, and an interrupt inside a destructor is lost.
        """
        self._used.append(bench)

    def _prepare(self) -> threading.Thread | None:
        """Start the background thread unless a workbench is ready; returns the running thread."""
        if self._maker is None and not self._ready:
            self._maker = threading.Thread(target=self._make, name="intset z3 context")
            try:
                self._maker.start()
            except RuntimeError:  # interpreter shutdown, or thread limit reached
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
        """Wait for the background thread before a fork: the child would inherit z3's locked mutexes."""
        maker = self._maker
        if maker is not None and maker.is_alive():
            maker.join()


WORKBENCHES: Final = _WorkbenchPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=WORKBENCHES.pause)
