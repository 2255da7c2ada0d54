"""`Context.solve`, `narrow` and `solve_equations`.

A condition is solved for one variable, or narrowed to the weakest sufficient condition over kept variables.

A system of linear equations is solved by unimodular changes of variables: `a1*v1 + ... + ak*vk = c` becomes `g*t = c`
by Euclid's algorithm on the coefficients (Pugh, The Omega Test, 1991). Each step replaces the variable with the
smallest coefficient by a fresh one minus multiples of the others. The last variable equals `c // g` if g divides c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.domains.sets.base import IntSet
from intset.errors import InputError, IntSetError
from intset.expr import Cond, Expr, Var, arguments, as_cond, dag, ops, shown
from intset.expr.build import logical_and
from intset.expr.definedness import where_it_holds
from intset.expr.node import truth
from intset.facts import checked_var, listed_vars
from intset.linear.form import Linear, atom, constant
from intset.trace import traced

if TYPE_CHECKING:
    from intset.context import Context
    from intset.linear.canonical import Normalizer

VARIABLE_CHANGES: Final = 400  # changes of variables for one system of equations


class Narrowed(NamedTuple):
    """The answer of `ctx.narrow`.

    Attributes
    ----------
    cond: a sufficient condition over the kept variables.
    is_exact: whether it is proved the weakest one.
    notes: reasons if it is not.
    """

    cond: Cond
    is_exact: bool
    notes: tuple[str, ...] = ()


@traced("solve", lambda ctx, cond, x: cond)
def solutions(ctx: Context, cond: object, x: object) -> IntSet:
    """The values of `x` that satisfy `cond`; see `Context.solve`."""
    goal, var = as_cond(cond, "the condition to solve"), checked_var(x)
    frame = ctx.frame
    ranges = None if var in frame.ranges else {var: None}
    inside = ctx.extended(ranges=ranges, facts=[goal])
    mentioned = dag.free_vars(goal, *(fact.condition for fact in frame.facts))
    kept = [v for v in dict.fromkeys((*frame.ranges, *mentioned)) if v is not var and v in inside.ranges]
    return inside.value_set(var, keep=kept)


@traced("narrow", lambda ctx, cond, keep: cond)
def narrowed(ctx: Context, cond: object, keep: object) -> Narrowed:
    """The weakest condition over `keep` that implies `cond`; see `Context.narrow`."""
    goal = as_cond(cond, "the condition to narrow")
    kept = listed_vars(keep, "keep")
    if ctx.frame.known.empty:
        return Narrowed(truth(True), True)
    if dag.opaque_terms(goal):
        return Narrowed(truth(False), False, ("the condition reads elements of which nothing is known",))
    sure = where_it_holds(goal)
    inside = ctx.extended(ranges={v: None for v in (*kept, *dag.free_vars(goal)) if v not in ctx.ranges}, facts=[~sure])
    if not kept:
        proof = ctx.prove(sure)
        exact = proof.status != "unknown"
        return Narrowed(truth(bool(proof)), exact, () if exact else (proof.reason,))
    try:
        failing = inside.image(kept)
        if failing.params:
            return Narrowed(truth(False), False, (f"the answer depends on {failing.params[0]}, which is not kept",))
        bad = failing.condition(kept)
    except IntSetError as error:
        return Narrowed(truth(False), False, (str(error),))
    weakest = truth(not bad.data) if bad.op is ops.BOOL else ctx.simplify(~bad)
    return Narrowed(weakest, failing.is_exact, failing.notes)


class Solved(NamedTuple):
    """The answer of `ctx.solve_equations`.

    Attributes
    ----------
    values: each variable as an expression over fresh variables, which parametrize the solutions one to one.
    context: ranges and facts of the old variables, over the fresh ones.
    cond: the solvability condition on all other variables.
    """

    values: Mapping[Var, Expr]
    context: Context
    cond: Cond


def solved_equations(ctx: Context, conds: Sequence[Cond], variables: Sequence[Var]) -> Solved:
    """See `Context.solve_equations`."""
    system = _Equations(ctx.frame.base, listed_vars(variables, "variables"))
    equations = (conds,) if isinstance(conds, Cond) else arguments.listed(conds, "conds", "a list of equations")
    for equation in (part for one in equations for part in dag.conjuncts(as_cond(one, "an equation"))):
        system.add(equation)
    texts = {v: value.expr() for v, value in system.values.items()}
    fresh = [v for v in system.free if isinstance(v, Var)]
    known_of = {v: e for v, e in texts.items() if v in ctx.ranges}
    return Solved(
        {v: ctx.simplify(e) for v, e in texts.items()},
        ctx.renamed(known_of, dict.fromkeys(fresh)) if known_of else ctx.extended(dict.fromkeys(fresh)),
        ctx.simplify(logical_and(*system.needed)) if system.needed else truth(True),
    )


class _Equations:
    """Linear equations, solved one after another.

    Attributes
    ----------
    free: the variables that parametrize the solutions.
    values: each unknown as a form over `free`.
    needed: conditions on other variables, under which the equations have solutions.
    """

    def __init__(self, known: Normalizer, unknowns: Sequence[Var]) -> None:
        self._known, self._unknowns, self._changes = known, unknowns, 0
        self.free: dict[Expr, None] = {Var(v.name): None for v in unknowns}
        self.values = {v: atom(t) for v, t in zip(unknowns, self.free, strict=True)}
        self.needed: list[Cond] = []

    def add(self, equation: Cond) -> None:
        """Take an equation into the solution."""
        if equation.op is not ops.EQ:
            raise InputError(f"solve_equations takes equations, not {shown(equation)}")
        form = self._known.form(equation.args[0]).minus(self._known.form(equation.args[1]))
        if any(e.op is not ops.VAR and not set(e.free_vars()).isdisjoint(self._unknowns) for e in form.terms):
            raise InputError(f"solve_equations takes equations that are linear in its variables, not {shown(equation)}")
        form = _put_in(form, self.values)
        while len(own := {e: k for e, k in form.terms.items() if e in self.free}) > 1:
            form = self._with_smaller_coefficients(form, own)
        rest = Linear(-form.const, {e: -k for e, k in form.terms.items() if e not in own})
        if not own:
            self.needed.append(rest.expr().eq(0))
            return
        ((e, g),) = own.items()
        rest = rest if g > 0 else rest.scale(-1)
        if abs(g) > 1:
            self.needed.append((rest.expr() % abs(g)).eq(0))
            rest = self._known.form(rest.expr() // abs(g))
        del self.free[e]
        self._replace(e, rest)

    def _with_smaller_coefficients(self, form: Linear, own: Mapping[Expr, int]) -> Linear:
        """One step of Euclid's algorithm: a fresh variable takes the place of that with the smallest coefficient."""
        self._changes += 1
        if self._changes > VARIABLE_CHANGES:
            raise InputError(f"the equations take more than {VARIABLE_CHANGES} changes of variables")
        pivot = min(own, key=lambda e: abs(own[e]))
        new = Var(str(pivot))
        replaced = atom(new)
        for e, k in own.items():
            if e is not pivot:
                replaced = replaced.plus(atom(e), -(k // own[pivot]))
        del self.free[pivot]
        self.free[new] = None
        self._replace(pivot, replaced)
        return _put_in(form, {pivot: replaced})

    def _replace(self, e: Expr, value: Linear) -> None:
        self.values = {v: _put_in(form, {e: value}) for v, form in self.values.items()}


def _put_in(form: Linear, replacements: Mapping[Any, Linear]) -> Linear:
    total = constant(form.const)
    for e, k in form.terms.items():
        total = total.plus(replacements.get(e) or atom(e), k)
    return total
