"""Terms of one z3 context, made by z3's C interface.

z3's Python layer converts and compares the sorts of all arguments and counts references for each term it hands out,
which takes ten times as long as the term. Here sorts are right by construction, and terms live as long as their
context, which answers one question.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from intset.errors import BudgetError
from intset.expr.text import decimal, number_of
from intset.loading import load

Like: TypeAlias = "Term | int"
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


class Terms:
    """Makes terms in one context, integers and conditions, and lets go of them when it is dropped itself."""

    def __init__(self, context: Any) -> None:
        self._models: list[Any] = []
        self._asts: list[Any] = []  # a context that is left with terms in it takes long to clear away
        self.core: Final = load_z3().z3core
        self._drop: Final = self.core.Z3_dec_ref
        self.context: Final = context  # z3 frees what is in it when this is dropped
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

    def _term(self, ast: Any) -> Term:
        self.core.Z3_inc_ref(self.ref, ast)
        self._asts.append(ast)
        return Term(self, ast)

    def integer(self, value: int) -> Term:
        """A constant."""
        if -_SMALL < value < _SMALL:
            return self._term(self.core.Z3_mk_int64(self.ref, value, self._integers))
        return self._term(self.core.Z3_mk_numeral(self.ref, decimal(value), self._integers))

    def truth(self, value: bool) -> Term:
        make = self.core.Z3_mk_true if value else self.core.Z3_mk_false
        return self._term(make(self.ref))

    def unknown_integer(self, name: str) -> Term:
        return self._unknown(name, self._integers)

    def unknown_condition(self, name: str) -> Term:
        return self._unknown(name, self._conditions)

    def _unknown(self, name: str, sort: Any) -> Term:
        return self._term(self.core.Z3_mk_const(self.ref, self.core.Z3_mk_string_symbol(self.ref, name), sort))

    def function(self, name: str, arity: int) -> Function:
        """A function of integers to an integer, of which nothing is known."""
        symbol = self.core.Z3_mk_string_symbol(self.ref, name)
        domain = (load_z3().Sort * arity)(*[self._integers] * arity)
        made = self.core.Z3_mk_func_decl(self.ref, symbol, arity, domain, self._integers)
        return Function(self, self._kept(made, self.core.Z3_func_decl_to_ast))

    def applied(self, function: Any, arguments: Sequence[Term]) -> Term:
        return self._term(self.core.Z3_mk_app(self.ref, function, len(arguments), self._array(arguments)))

    def _array(self, terms: Sequence[Term]) -> Any:
        length = len(terms)
        kind = self._arrays[length] if length < len(self._arrays) else self._ast * length
        return kind(*[term.ast for term in terms])

    def of_many(self, make: Any, *terms: Like) -> Term:
        """What a function of the interface makes that takes a list."""
        return self._term(make(self.ref, len(terms), self._array([self.term(t) for t in terms])))

    def of_one(self, make: Any, term: Term) -> Term:
        return self._term(make(self.ref, term.ast))

    def of_two(self, make: Any, a: Like, b: Like) -> Term:
        return self._term(make(self.ref, self.term(a).ast, self.term(b).ast))

    def model_of(self, solver: Any) -> Any:
        """Values by which everything is true that the solver was told; they live as long as the terms."""
        model = self.core.Z3_solver_get_model(self.ref, solver)
        self.core.Z3_model_inc_ref(self.ref, model)
        self._models.append(model)
        return model

    def value(self, model: Any, term: Term) -> int:
        """The value of an integer term; one that the model leaves open is free."""
        found = (self._ast * 1)()
        self.core.Z3_model_eval(self.ref, model, term.ast, True, found)
        return number_of(self.core.Z3_get_numeral_string(self.ref, found[0]))

    def unsat_core(self, solver: Any) -> set[int]:
        """The numbers of the assumptions that contradict one another and what the solver was told."""
        core, ref = self.core, self.ref
        terms = core.Z3_solver_get_unsat_core(ref, solver)
        core.Z3_ast_vector_inc_ref(ref, terms)
        size = core.Z3_ast_vector_size(ref, terms)
        found = {core.Z3_get_ast_id(ref, core.Z3_ast_vector_get(ref, terms, k)) for k in range(size)}
        core.Z3_ast_vector_dec_ref(ref, terms)
        return found

    def term(self, given: Like) -> Term:
        return self.integer(given) if isinstance(given, int) else given

    def both(self, *conditions: Term) -> Term:
        return self.of_many(self.core.Z3_mk_and, *conditions)

    def either(self, *conditions: Term) -> Term:
        return self.of_many(self.core.Z3_mk_or, *conditions)

    def negated(self, condition: Term) -> Term:
        return self.of_one(self.core.Z3_mk_not, condition)

    def implied(self, premise: Term, conclusion: Term) -> Term:
        return self.of_two(self.core.Z3_mk_implies, premise, conclusion)

    def choice(self, condition: Term, if_true: Like, if_false: Like) -> Term:
        chosen = self.term(if_true), self.term(if_false)
        return self._term(self.core.Z3_mk_ite(self.ref, condition.ast, *(term.ast for term in chosen)))

    def bits_of_both(self, a: Term, b: Term, width: int, signed: bool) -> Term:
        """`a & b` where both fit in so many bits."""
        core, ref = self.core, self.ref
        bits = [self._term(core.Z3_mk_int2bv(ref, width, term.ast)) for term in (a, b)]
        return self._term(core.Z3_mk_bv2int(ref, self.of_two(core.Z3_mk_bvand, *bits).ast, signed))


class Term:
    """An integer or a condition; the operators of integers are z3's, so `/` and `%` are Euclidean."""

    __slots__ = ("_terms", "ast")

    def __init__(self, terms: Terms, ast: Any) -> None:
        self._terms, self.ast = terms, ast

    @property
    def ref(self) -> Any:
        """The term for z3's Python layer."""
        return load_z3().ExprRef(self.ast, self._terms.context)

    def __add__(self, other: Like) -> Term:
        return self._terms.of_many(self._terms.core.Z3_mk_add, self, other)

    def __sub__(self, other: Like) -> Term:
        return self._terms.of_many(self._terms.core.Z3_mk_sub, self, other)

    def __mul__(self, other: Like) -> Term:
        return self._terms.of_many(self._terms.core.Z3_mk_mul, self, other)

    def __rmul__(self, other: int) -> Term:
        return self._terms.of_many(self._terms.core.Z3_mk_mul, other, self)

    def __neg__(self) -> Term:
        return self._terms.of_one(self._terms.core.Z3_mk_unary_minus, self)

    def __truediv__(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_div, self, other)

    def __mod__(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_mod, self, other)

    def __lt__(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_lt, self, other)

    def __le__(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_le, self, other)

    def __gt__(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_gt, self, other)

    def __ge__(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_ge, self, other)

    def eq(self, other: Like) -> Term:
        return self._terms.of_two(self._terms.core.Z3_mk_eq, self, other)

    def ne(self, other: Like) -> Term:
        return self._terms.of_many(self._terms.core.Z3_mk_distinct, self, other)


class Function:
    """A function of integers that z3 does not know."""

    __slots__ = ("_terms", "declaration")

    def __init__(self, terms: Terms, declaration: Any) -> None:
        self._terms, self.declaration = terms, declaration

    def __call__(self, *arguments: Term) -> Term:
        return self._terms.applied(self.declaration, arguments)
