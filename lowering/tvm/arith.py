"""`tvm.arith`: `Analyzer`, questions about integers with facts that grow; intervals, and conditions solved for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bound.tir.value import Value
from bound.tir.walk import substitute
from intset.context import Context
from intset.expr.build import logical_and
from intset.expr.dag import conjuncts, free_vars
from intset.expr.node import Cond, Expr, Var, as_expr, const, truth
from intset.expr.range import Range
from intset.infinity import NEG_INF, POS_INF, Infinity


@dataclass(frozen=True)
class ConstIntBound:
    """Constant ends of an expression, both included; `None` is no end.

    `POS_INF` and `NEG_INF` are TVM's numbers for no end.
    """

    min_value: int
    max_value: int
    POS_INF = (1 << 63) - 1
    NEG_INF = -(1 << 63) + 1


@dataclass(frozen=True)
class ModularSet:
    """The numbers `base + coeff * k` for integers k; a coefficient of 0 is the number `base` alone."""

    coeff: int
    base: int


@dataclass(frozen=True)
class ScriptInterval:
    """The integers from `min_value` to `max_value`, both included; an end is an expression or infinite."""

    min_value: Any
    max_value: Any

    def __post_init__(self) -> None:
        for name in ("min_value", "max_value"):
            end = getattr(self, name)
            object.__setattr__(self, name, end if isinstance(end, Infinity) else as_expr(end, f"{name} of a set"))

    def is_nothing(self) -> bool:
        """Whether it is known to be empty."""
        return self.min_value is POS_INF or self.max_value is NEG_INF or self._is_crossed()

    def _is_crossed(self) -> bool:
        low, high = self.min_value, self.max_value
        return isinstance(low, Expr) and isinstance(high, Expr) and bool(Context().prove(low > high))

    def is_everything(self) -> bool:
        """Whether neither end is finite."""
        return self.min_value is NEG_INF and self.max_value is POS_INF

    @staticmethod
    def single_point(point: Any) -> ScriptInterval:
        """The set of one number."""
        return ScriptInterval(point, point)

    def holds(self, x: Expr) -> Cond:
        """The condition that `x` lies in the set."""
        low = truth(self.min_value is not POS_INF) if isinstance(self.min_value, Infinity) else x >= self.min_value
        high = truth(self.max_value is not NEG_INF) if isinstance(self.max_value, Infinity) else x <= self.max_value
        return logical_and(low, high)


IntSet = IntervalSet = ScriptInterval
NOTHING = ScriptInterval(POS_INF, NEG_INF)


pos_inf, neg_inf = (lambda: POS_INF), (lambda: NEG_INF)


class Analyzer:
    """TVM's analyzer: a `Context` whose ranges and facts are added by calls."""

    def __init__(self) -> None:
        self._ranges: dict[Var, Range] = {}
        self._facts: list[Cond] = []

    @property
    def context(self) -> Context:
        """The context of the present facts."""
        return Context(self._ranges, assume=list(self._facts))

    def bind(self, var: Var, expr: Any) -> None:
        """State the range of a variable, or its value."""
        self._ranges[var] = expr if isinstance(expr, Range) else Range(as_expr(expr), 1)

    def update(self, var: Var, info: ConstIntBound | ModularSet, override: bool = False) -> None:
        """State constant ends of a variable, or its remainder."""
        if isinstance(info, ModularSet):
            self._facts.append((var % info.coeff).eq(info.base) if info.coeff else var.eq(info.base))
            return
        self._ranges[var] = Range(info.min_value, info.max_value - info.min_value + 1)

    @contextmanager
    def constraint_scope(self, constraint: Cond) -> Iterator[None]:
        """A block in which a condition holds."""
        self._facts.append(constraint)
        try:
            yield
        finally:
            self._facts.pop()

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """The expression simplified; values other than integers as they are."""
        if isinstance(expr, (Value, float)):
            return expr
        return self.context.simplify(as_expr(expr) if isinstance(expr, int) else expr)

    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, cond: Any, strength: object = None) -> bool:
        """Whether a condition always holds."""
        return cond if isinstance(cond, bool) else bool(self.context.prove(cond))

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        return self.can_prove(as_expr(lhs).eq(rhs))

    def can_prove_greater_equal(self, expr: Any, lower: int) -> bool:
        return self.can_prove(as_expr(expr) >= lower)

    def can_prove_less(self, expr: Any, upper: int) -> bool:
        return self.can_prove(as_expr(expr) < upper)

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The smallest and the largest value."""
        low, high = self.context.bounds(as_expr(expr))
        return ConstIntBound(_end(low, ConstIntBound.NEG_INF), _end(high, ConstIntBound.POS_INF))

    def modular_set(self, expr: Any) -> ModularSet:
        """The remainder of all values."""
        found = self.context.value_set(as_expr(expr), domain="modular")
        modulus: Any = getattr(found, "modulus", 1)
        rest: Any = 0 if modulus == 1 else found.remainder
        return ModularSet(modulus, rest)

    def int_set(self, expr: Any, dom_map: Mapping[Var, ScriptInterval] | None = None) -> ScriptInterval:
        """The smallest interval found around the values, for variables in their sets; others stay in its ends."""
        e, sets = as_expr(expr), dict(dom_map or {})
        if any(s.is_nothing() for s in sets.values()):
            return NOTHING
        keep = [v for v in free_vars(e) if v not in sets]
        return ScriptInterval(*_within(self.context, sets).bounds(e, keep=keep))


def _end(value: Any, otherwise: int) -> int:
    return otherwise if isinstance(value, Infinity) or not (isinstance(value, Expr) and value.is_const) else int(value)


def _within(ctx: Context, sets: Mapping[Var, ScriptInterval]) -> Context:
    """The context with variables in sets."""
    return ctx.extended(
        ranges={v: None for v in sets if v not in ctx.ranges}, facts=[s.holds(v) for v, s in sets.items()]
    )


def deduce_bound(
    var: Var, cond: Cond, hint_map: Mapping[Var, ScriptInterval], relax_map: Mapping[Var, ScriptInterval]
) -> ScriptInterval:
    """An interval of `var` in which `cond` holds for all values of the relaxed variables.

    Guarantee: the condition is proved for it, under the hints; it is empty where no interval was found.
    """
    relaxed = _within(Context(), {v: s for v, s in relax_map.items() if v is not var})
    hinted = {v: s for v, s in hint_map.items() if v is not var and v not in relax_map}
    kept = [v for v in free_vars(cond) if v is var or v not in relax_map]
    return _solved(var, relaxed.narrow(cond, [var, *(v for v in kept if v is not var)]).cond, hinted)


def _solved(var: Var, cond: Cond, facts: Mapping[Var, ScriptInterval]) -> ScriptInterval:
    """The interval of a variable's values that satisfy a condition, if they provably form one."""
    found = Context().solve(cond, var)
    answer = ScriptInterval(found.min, found.max)
    if answer.is_nothing():
        return NOTHING
    inside = Context(assume=[answer.holds(var), *(s.holds(v) for v, s in facts.items())])
    return answer if inside.prove(cond) else NOTHING


def detect_linear_equation(expr: Any, var_list: Sequence[Var]) -> list[Any]:
    """The coefficients of the variables and the rest, with `expr` their sum; an empty list if none are found."""
    e, ctx = as_expr(expr), Context()
    rest = ctx.simplify(substitute(e, dict.fromkeys(var_list, const(0))))
    parts = [ctx.simplify(substitute(e, {v: const(int(v is w)) for v in var_list}) - rest) for w in var_list]
    total = rest
    for v, part in zip(var_list, parts, strict=True):
        total = total + v * part
    return [*parts, rest] if ctx.prove(total.eq(e)) else []


def detect_clip_bound(expr: Cond, var_list: Sequence[Var]) -> list[Any]:
    """The smallest and the largest value of each variable under a conjunction; `None` is no end.

    The list is empty where a part of the conjunction does not limit exactly one of the variables.
    """
    parts: dict[Var, list[Cond]] = {v: [] for v in var_list}
    for part in conjuncts(expr):
        inside = [v for v in var_list if v in free_vars(part)]
        if len(inside) != 1:
            return []
        parts[inside[0]].append(part)
    sets = [_solved(v, logical_and(truth(True), *conds), {}) for v, conds in parts.items()]
    if any(s is NOTHING for s in sets):
        return []
    return [None if isinstance(end, Infinity) else end for s in sets for end in (s.min_value, s.max_value)]
