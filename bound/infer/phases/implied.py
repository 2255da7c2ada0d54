"""Whether a guard is implied by others: asked of the domain, also where sizes are multiplied with loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bound.infer.needs.known import Known
from intset import config
from intset.context import Context
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import postorder, substitute
from intset.linear.canonical import Normalizer

_OPERATIONS: Final = 60_000  # of the domain, for one guard
_MAX_CASES: Final = 16  # values of loops that are tried one by one
_DIVISIONS: Final = (ops.FLOORDIV, ops.FLOORMOD)
_FORMS: Final = Normalizer({})


def is_implied(known: Known, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether a guard holds wherever the loops run and all others hold.

    The domain is asked. Where sizes are multiplied with loops, or divide them, it is asked again with what facts say of
    the sizes put in for these, and with few values of loops one by one; and whether that the guard fails contradicts
    the rest, also where all of it is multiplied by a size.
    """
    with config.using(tiers=config.tiers_within(config.Effort.SETS), isl_operations=known.account.allowed(_OPERATIONS)):
        asked = _Question(known.context, ranges, guard, tuple(others))
        if asked.is_proved():
            return True
        terms: tuple[Expr | Cond, ...] = (guard, *others, *map(_extent, ranges.values()))
        products = _in_products(terms)
        if not products and not _in_divisors(terms):
            return False
        solved = asked.at(_solved(known.context, ranges, terms))
        cases = [solved.at(case) for case in _cases(ranges, products, terms)]
        return all(case.is_proved() for case in cases) or solved.is_refuted()


@dataclass(frozen=True)
class _Question:
    """Whether a guard holds where the loops run and all others hold.

    Attributes
    ----------
    context: sizes, and what is known of them.
    """

    context: Context
    ranges: Mapping[Var, Range]
    guard: Cond
    others: tuple[Cond, ...]

    def at(self, instead: Mapping[Expr, Expr]) -> _Question:
        """The same where variables have other values, each an expression that they are equal to."""
        if not instead:
            return self
        ranges = {v: _moved(r, instead) for v, r in self.ranges.items() if v not in instead}
        new = (u for e in instead.values() for u in e.free_vars() if u not in self.context.ranges and u not in ranges)
        limits = [cond for v, r in self.ranges.items() if v in instead for cond in _within(v, r)]
        told = [v.eq(e) for v, e in instead.items() if isinstance(v, Var) and v not in self.ranges]
        context = self.context.extended(dict.fromkeys(new), told)
        guard, *others = (_FORMS.cond(substitute(cond, instead)) for cond in (self.guard, *limits, *self.others))
        return _Question(context, ranges, guard, tuple(others))

    def is_proved(self) -> bool:
        """Whether the domain says so."""
        context = self.context.extended(dict(self.ranges), self.others)
        return context.frame.known.empty or bool(context.prove(self.guard))

    def is_refuted(self) -> bool:
        """Whether it is a contradiction that the guard fails, also multiplied by each size that products hold.

        With products as variables that is linear: of `o >= 4`, `c >= 0` and `4*c >= n` the first times the second says
        what `o*c <= n - 1` denies. Quotients by sizes are variables, of which the remainders say where they are.
        """
        quotients = _Quotients(self.context, self.ranges)
        limits = [cond for v, r in self.ranges.items() for cond in _within(v, r)]
        goal, *rest = (quotients.without(cond) for cond in (self.guard, *limits, *self.others))
        facts = [*rest, *quotients.facts]
        loops = [*self.ranges, *quotients.made]
        factors = [e for e in _sizes_in_products((goal, *facts), loops) if self.context.prove(e >= 0)]
        differences = _differences((goal,))
        if len(differences) != 1 or not factors:
            return False
        below = -differences[0] - 1
        facts += [below >= 0, *(below * e >= 0 for e in factors)]
        more = [difference * e >= 0 for difference in _differences(facts) for e in factors]
        contexts = (self.context.extended(dict.fromkeys(loops), told) for told in (facts, [*facts, *more]))
        return any(context.frame.known.empty or bool(context.prove(goal)) for context in contexts)


def _moved(r: Range, instead: Mapping[Expr, Expr]) -> Range:
    low, extent = (_FORMS.form(substitute(end, instead)).expr() for end in (finite(r.min), _extent(r)))
    return Range(low, 0 if extent.is_const and extent.data < 0 else extent)


def _within(v: Var, r: Range) -> tuple[Cond, Cond]:
    return v >= finite(r.min), v < finite(r.min) + _extent(r)


def _differences(conditions: Iterable[Cond]) -> list[Expr]:
    """For each comparison that says so, what is at least 0."""
    found: list[Expr] = []
    for cond in conditions:
        if cond.op in (ops.GE, ops.LE, ops.GT, ops.LT):
            small, large = cond.args if cond.op in (ops.LE, ops.LT) else cond.args[::-1]
            found.append(large - small if cond.op in (ops.LE, ops.GE) else large - small - 1)
    return found


def _in_products(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in products of two that are not constant."""
    found: dict[Var, None] = {}
    for node in postorder(tuple(terms)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            found.update(dict.fromkeys(node.free_vars()))
    return list(found)


def _in_divisors(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in what something is divided by."""
    return [v for node in postorder(tuple(terms)) if node.op in _DIVISIONS for v in node.args[1].free_vars()]


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


def _solved(context: Context, loops: Collection[Var], terms: Iterable[Expr | Cond]) -> dict[Expr, Expr]:
    """Sizes that a fact says what they are: a remainder more than a multiple, or a form of other sizes."""
    sizes = {v for term in terms for v in term.free_vars() if v not in loops}
    found: dict[Expr, Expr] = {}
    for fact in context.frame.conditions:
        if fact.op is not ops.EQ:
            continue
        left, right = fact.args
        if isinstance(left, Var) and left in sizes and left not in found and left not in right.free_vars():
            if not any(v in found for v in right.free_vars()):
                found[left] = right
        elif left.op is ops.FLOORMOD and right.is_const and left.args[1].is_const:
            v = left.args[0]
            if isinstance(v, Var) and v in sizes and v not in found:
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


class _Quotients:
    """Divisions by sizes that are not constant, with a variable for each quotient.

    Attributes
    ----------
    made: the variables.
    facts: that the remainders are what remainders are. A size that is 0 divides nothing: no loop runs there.
    """

    def __init__(self, context: Context, loops: Collection[Var]) -> None:
        self.made: list[Var] = []
        self.facts: list[Cond] = []
        self._context, self._loops = context, loops
        self._instead: dict[Expr, Expr] = {}
        self._of: dict[tuple[Expr, Expr], Var] = {}

    def without(self, cond: Cond) -> Cond:
        """The condition over the variables."""
        for node in postorder((cond,)):
            if not isinstance(node, Expr) or node.op not in _DIVISIONS or node in self._instead:
                continue
            divisor = node.args[1]
            if divisor.is_const or any(v in self._loops for v in divisor.free_vars()):
                continue
            if not self._context.prove(divisor >= 0):
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
