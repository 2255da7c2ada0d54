"""Systems of linear equations over the integers, solved by unimodular changes of variables.

`a1*v1 + ... + ak*vk = c` becomes `g*t = c` by Euclid's algorithm on the coefficients (as in W. Pugh, The Omega Test,
1991): the variable with the smallest coefficient is replaced by a fresh one minus multiples of the others, until one
is left. It is `c // g`, where g divides c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.digits import shown
from intset.expr.given import listed
from intset.expr.node import Cond, Expr, Var, as_cond, truth
from intset.expr.walk import conjuncts
from intset.linear.form import Linear, atom, constant
from intset.ranges import listed_vars

if TYPE_CHECKING:
    from intset.context import Context

MAX_CHANGES: Final = 400  # of variables, for one system


class Solved(NamedTuple):
    """The answer of `ctx.solve_equations`.

    Attributes
    ----------
    values: what each variable is, over fresh variables; every solution is met by one choice of these.
    context: the context of the fresh variables: what the ranges of the old ones say of them.
    cond: what must hold of the rest for a solution to exist.
    """

    values: Mapping[Var, Expr]
    context: Context
    cond: Cond


def solved_equations(ctx: Context, conds: Sequence[Cond], variables: Sequence[Var]) -> Solved:
    """See `Context.solve_equations`."""
    known = ctx.frame.base
    given = listed_vars(variables, "variables")
    free: dict[Expr, None] = {Var(v.name): None for v in given}
    values = {v: atom(t) for v, t in zip(given, free, strict=True)}
    left: list[Cond] = []
    changes = 0
    equations = (conds,) if isinstance(conds, Cond) else listed(conds, "conds", "a list of equations")
    for equation in (part for one in equations for part in conjuncts(as_cond(one, "an equation"))):
        if equation.op is not ops.EQ:
            raise InputError(f"solve_equations takes equations, not {shown(equation)}")
        form = known.form(equation.args[0]).minus(known.form(equation.args[1]))
        if any(e.op is not ops.VAR and not set(e.free_vars()).isdisjoint(given) for e in form.terms):
            raise InputError(f"solve_equations takes equations that are linear in its variables, not {shown(equation)}")
        form = _put_in(form, values)
        while True:
            own = {e: k for e, k in form.terms.items() if e in free}
            if len(own) <= 1:
                break
            changes += 1
            if changes > MAX_CHANGES:
                raise InputError(f"the equations take more than {MAX_CHANGES} changes of variables")
            pivot = min(own, key=lambda e: abs(own[e]))
            new = Var(str(pivot))
            replaced = atom(new)
            for e, k in own.items():
                if e is not pivot:
                    replaced = replaced.plus(atom(e), -(k // own[pivot]))
            del free[pivot]
            free[new] = None
            values = {v: _put_in(value, {pivot: replaced}) for v, value in values.items()}
            form = _put_in(form, {pivot: replaced})
        rest = Linear(-form.const, {e: -k for e, k in form.terms.items() if e not in own})
        if not own:
            left.append(rest.expr().eq(0))
            continue
        ((e, g),) = own.items()
        rest = rest if g > 0 else rest.scale(-1)
        if abs(g) > 1:
            left.append((rest.expr() % abs(g)).eq(0))
            rest = known.form(rest.expr() // abs(g))
        del free[e]
        values = {v: _put_in(value, {e: rest}) for v, value in values.items()}
    texts = {v: value.expr() for v, value in values.items()}
    fresh = [v for v in free if isinstance(v, Var)]
    known_of = {v: e for v, e in texts.items() if v in ctx.ranges}
    return Solved(
        {v: ctx.simplify(e) for v, e in texts.items()},
        ctx.renamed(known_of, dict.fromkeys(fresh)) if known_of else ctx.extended(dict.fromkeys(fresh)),
        ctx.simplify(logical_and(*left)) if left else truth(True),
    )


def _put_in(form: Linear, replacements: Mapping[Any, Linear]) -> Linear:
    total = constant(form.const)
    for e, k in form.terms.items():
        total = total.plus(replacements.get(e) or atom(e), k)
    return total
