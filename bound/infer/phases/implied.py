"""Whether a guard is implied by others: asked of the domain, also where sizes are multiplied with loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from bound.infer.needs.known import Known
from intset import config
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import postorder, substitute

_OPERATIONS: Final = 60_000  # of the domain, for one guard
_MAX_CASES: Final = 16  # values of loops that are tried one by one


def is_implied(known: Known, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether a guard holds wherever the loops run and all others hold.

    Asked are, in this order, the domain; where there are products, the domain with loops and sizes in them given values
    one by one; and whether that the guard fails, multiplied by the sizes in products, contradicts the rest.
    """
    context = known.context.extended(dict(ranges), others)
    if context.frame.known.empty:
        return False  # the body never runs: some guard has to say so
    with config.using(tiers=config.tiers_within(config.Effort.SETS), isl_operations=known.account.allowed(_OPERATIONS)):
        if context.prove(guard):
            return True
        terms: tuple[Expr | Cond, ...] = (guard, *others, *map(_extent, ranges.values()))
        products = set(_in_products(terms))
        solved = _solved(known, products)
        cases = _cases(ranges, products, terms)
        if (solved or len(cases) > 1) and all(
            _is_proved(known, {**solved, **case}, ranges, guard, others) for case in cases
        ):
            return True
        return _is_refuted(known, ranges, guard, others)


def _is_proved(
    known: Known,
    instead: Mapping[Expr, Expr],
    ranges: Mapping[Var, Range],
    guard: Cond,
    others: Sequence[Cond],
) -> bool:
    """Whether a guard holds where variables have other values, each an expression that they are equal to."""
    inside: dict[Var, Range | None] = {
        v: Range(substitute(finite(r.min), instead), substitute(_extent(r), instead))
        for v, r in ranges.items()
        if v not in instead
    }
    new = (u for e in instead.values() for u in e.free_vars() if u not in known.context.ranges and u not in inside)
    inside |= dict.fromkeys(new)
    limits = [
        cond for v, r in ranges.items() if v in instead for cond in (v >= finite(r.min), v < finite(r.min) + _extent(r))
    ]
    told = [v.eq(e) for v, e in instead.items() if v not in ranges]
    context = known.context.extended(inside, [*told, *(substitute(cond, instead) for cond in (*limits, *others))])
    return context.frame.known.empty or bool(context.prove(substitute(guard, instead)))


def _in_products(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in products of two that are not constant, and in divisors."""
    found: dict[Var, None] = {}
    for node in postorder(tuple(terms)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            found.update(dict.fromkeys(node.free_vars()))
    return list(found)


def _cases(
    ranges: Mapping[Var, Range], products: Collection[Var], terms: Iterable[Expr | Cond]
) -> list[dict[Expr, Expr]]:
    """The values, together, of loops of few iterations that occur in products: with these the products are linear.

    A loop of which a remainder occurs has a case for each remainder.
    """
    cases: list[dict[Expr, Expr]] = [{}]
    remainders = {node.args[0]: node.args[1] for node in postorder(tuple(terms)) if node.op is ops.FLOORMOD}
    for v in ranges:
        low, extent = constant_value(finite(ranges[v].min)), constant_value(_extent(ranges[v]))
        divisor = constant_value(remainders[v]) if v in remainders else None
        values: list[Expr] = []
        if low is not None and extent is not None:
            values = [as_expr(value) for value in range(low, low + min(extent, _MAX_CASES + 1))]
        elif divisor is not None and divisor > 0:
            quotient = Var(f"{v.name}.part")
            values = [quotient * divisor + k for k in range(min(divisor, _MAX_CASES + 1))]
        if v in products and values and len(cases) * len(values) <= _MAX_CASES:
            cases = [{**case, v: value} for case in cases for value in values]
    return cases


def _solved(known: Known, products: Collection[Var]) -> dict[Expr, Expr]:
    """Sizes in products that a fact says what they are: a remainder more than a multiple, or a form of other sizes."""
    found: dict[Expr, Expr] = {}
    for fact in known.context.frame.conditions:
        if fact.op is not ops.EQ:
            continue
        left, right = fact.args
        if isinstance(left, Var) and left in products and left not in found and left not in right.free_vars():
            if not any(v in found for v in right.free_vars()):
                found[left] = right
        elif left.op is ops.FLOORMOD and right.is_const and left.args[1].is_const:
            v = left.args[0]
            if isinstance(v, Var) and v in products and v not in found:
                found[v] = Var(f"{v.name}.part") * left.args[1] + right
    return found


def finite(end: object) -> Expr:
    """An end of a range.

    Raises
    ------
    InputError: it is open.
    """
    if not isinstance(end, Expr):
        raise InputError("an open end")
    return end


def _extent(r: Range) -> Expr:
    return finite(r.extent)


def _is_refuted(known: Known, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether it is a contradiction that the guard fails, also multiplied by each size that products hold.

    With products as variables that is linear: of `o >= 4`, `c >= 0` and `4*c >= n` the first times the second says what
    `o*c <= n - 1` denies. Quotients by sizes are variables, of which the remainders say where they are.
    """
    quotients = _Quotients(known, ranges)
    goal, rest = quotients.without(guard), [quotients.without(other) for other in others]
    forms = known.forms_of(goal)
    if forms is None or len(forms) != 1 or forms[0][0] != "ge":
        return False
    below = forms[0][1].scale(-1).expr() - 1
    loops = {*ranges, *quotients.made}
    factors = [e for e in _sizes_in_products((goal, *rest, *quotients.facts), loops) if known.is_nonneg(known.form(e))]
    if not factors:
        return False
    inside: dict[Var, Range | None] = {**ranges, **dict.fromkeys(quotients.made)}
    facts = [*rest, *quotients.facts, below >= 0, *(below * e >= 0 for e in factors)]
    context = known.context.extended(inside, facts)
    return context.frame.known.empty or bool(context.prove(goal))


class _Quotients:
    """Divisions by sizes that are not constant, with a variable for each quotient.

    Attributes
    ----------
    made: the variables.
    facts: that the remainders are what remainders are. A size that is 0 divides nothing: no loop runs there.
    """

    def __init__(self, known: Known, ranges: Mapping[Var, Range]) -> None:
        self.made: list[Var] = []
        self.facts: list[Cond] = []
        self._known, self._ranges = known, ranges
        self._instead: dict[Expr, Expr] = {}
        self._of: dict[tuple[Expr, Expr], Var] = {}

    def without(self, cond: Cond) -> Cond:
        """The condition over the variables."""
        for node in postorder((cond,)):
            if not isinstance(node, Expr) or node.op not in (ops.FLOORDIV, ops.FLOORMOD) or node in self._instead:
                continue
            divisor = node.args[1]
            if divisor.is_const or any(v in self._ranges for v in divisor.free_vars()):
                continue
            if not self._known.is_nonneg(self._known.form(divisor)):
                continue
            of = substitute(node.args[0], self._instead)
            q = self._quotient(of, divisor)
            self._instead[node] = q if node.op is ops.FLOORDIV else of - divisor * q
        return substitute(cond, self._instead)

    def _quotient(self, of: Expr, divisor: Expr) -> Var:
        found = self._of.get((of, divisor))
        if found is None:
            found = self._of[of, divisor] = Var(f"q{len(self.made)}")
            self.made.append(found)
            rest = of - divisor * found
            self.facts += [divisor >= 1, rest >= 0, rest <= divisor - 1]
        return found


def _sizes_in_products(conditions: Sequence[Cond], loops: Collection[Var]) -> list[Expr]:
    """The factors of products that no loop is in."""
    found: dict[Expr, None] = {}
    for node in postorder(tuple(conditions)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            found.update((e, None) for e in node.args if not any(v in loops for v in e.free_vars()))
    return list(found)
