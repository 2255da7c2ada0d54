"""Conditions as cases of affine forms, for `filter` and `image` of a shape written in Python.

A disjunction, `!=`, a minimum or a select splits into cases. A quotient by a constant becomes a fresh variable
with two defining inequalities. Guarantee: the condition is equivalent to the disjunction of its cases.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import logical_not
from intset.expr.dag import substitute
from intset.expr.node import Cond, Expr, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

CONDITION_CASES: Final = 100  # cases of one condition


class AffineCase(NamedTuple):
    """The points with all `forms >= 0`, where `quotients` are existential variables of unique value."""

    forms: list[Linear]
    quotients: tuple[Var, ...]


def cases_of(condition: Cond, running: Collection[Var]) -> list[AffineCase]:
    """The cases of a condition; it holds exactly where one of them does.

    Quotients without variables of `running` stay terms of the forms; `definition` gives their inequalities.

    Raises
    ------
    BudgetError: the condition is not affine, or has too many cases.
    """
    cases: list[AffineCase] = []
    waiting: list[tuple[list[Cond], list[Linear], dict[Expr, Var]]] = [([condition], [], {})]
    while waiting:
        conds, forms, quotients = waiting.pop()
        if len(waiting) + len(cases) > CONDITION_CASES:
            raise BudgetError(f"a condition of more than {CONDITION_CASES} cases", "CONDITION_CASES")
        forms = [form for form in forms if form.terms or form.const < 0]
        if any(not form.terms for form in forms):
            continue
        if conds:
            waiting += [(conds[:-1] + more, [*forms, *new], quotients) for more, new in _split(conds[-1])]
            continue
        atom = next((e for form in forms for e in form.terms if not _is_plain(e, running)), None)
        if atom is None:
            cases.append(AffineCase(forms, tuple(quotients.values())))
        elif atom.op is ops.FLOORDIV:
            known = quotients.get(atom)  # already named: a nested quotient repeats
            q = Var("q") if known is None else known
            new = [form.minus(Linear(0, {atom: k, q: -k})) if (k := form.terms.get(atom)) else form for form in forms]
            new += definition(atom, q) if known is None else []
            waiting.append(([], new, {**quotients, atom: q}))
        else:
            for guard, value in _choices(atom):
                chosen = [Normalizer({}).form(substitute(form.expr(), {atom: value})) for form in forms]
                waiting.append(([guard], chosen, quotients))
    return cases


def definition(quotient: Expr, q: Expr) -> list[Linear]:
    """The forms that are all nonnegative exactly if `q` equals the quotient `e // c`."""
    dividend, divisor = quotient.args
    if not divisor.is_const or divisor.data <= 0:
        raise BudgetError(f"{quotient} is not affine")
    rest = Normalizer({}).form(dividend).plus(Linear(0, {q: divisor.data}), -1)
    return [rest, rest.scale(-1).shift(divisor.data - 1)]


def _is_plain(e: Expr, running: Collection[Var]) -> bool:
    if isinstance(e, Var):
        return True
    if e.op is not ops.FLOORDIV or not e.args[1].is_const or any(v in running for v in e.free_vars()):
        return False
    return all(_is_plain(t, running) for t in Normalizer({}).form(e.args[0]).terms)


def _split(cond: Cond) -> list[tuple[list[Cond], list[Linear]]]:
    """One step of a condition into cases, each of remaining conditions and nonnegative forms."""
    cases: list[tuple[list[Cond], list[Linear]]] = [([], [])]
    for part in Normalizer({}).clauses(cond):
        if isinstance(part, tuple):
            kind, form = part
            back = form.scale(-1)
            ways = [[form]] if kind is ops.GE else [[form, back]]
            if kind is ops.NE:
                ways = [[form.shift(-1)], [back.shift(-1)]]
            cases = [(conds, [*forms, *way]) for conds, forms in cases for way in ways]
        elif part.op is ops.OR:
            cases = [([*conds, arg], forms) for conds, forms in cases for arg in part.args]
        else:
            return []  # the constant False
    return cases


def _choices(atom: Expr) -> list[tuple[Cond, Expr]]:
    """The guarded values of a select, absolute value, minimum or maximum."""
    if atom.op is ops.SELECT:
        condition, yes, no = atom.args
        return [(condition, yes), (logical_not(condition), no)]
    if atom.op is ops.ABS:
        (e,) = atom.args
        return [(e >= 0, e), (e < 0, -e)]
    if atom.op is ops.MIN or atom.op is ops.MAX:
        a, b = atom.args
        first = a <= b if atom.op is ops.MIN else a >= b
        return [(first, a), (logical_not(first), b)]
    raise BudgetError(f"{atom} is not affine")
