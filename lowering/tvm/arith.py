"""`tvm.arith`: `Analyzer`, questions about integers with facts that grow; intervals, and conditions solved for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from bound.tir.value import ScriptVar, Value
from bound.tir.walk import substitute
from intset.context import Context
from intset.errors import InputError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, Range, Var, arguments, as_expr, const, dag
from intset.expr.build import logical_and
from intset.expr.node import truth


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
        low, high = self.min_value, self.max_value
        if low is POS_INF or high is NEG_INF:
            return True
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
ProofStrength = SimpleNamespace(DEFAULT=0, SYMBOLIC_BOUND=1)  # every proof has the same strength here


pos_inf, neg_inf = (lambda: POS_INF), (lambda: NEG_INF)


class FreeVariables:
    """Twins of the variables of `te.var`, which are sizes in nests, but may have any value in questions."""

    def __init__(self) -> None:
        self.twins: dict[Any, Var] = {}

    def free(self, x: Any) -> Any:
        """An expression or condition with the twins."""
        for v in dag.free_vars(x):
            if isinstance(v, ScriptVar) and v not in self.twins:
                self.twins[v] = Var(v.name) if v.upper is None else ScriptVar.of(v.name, v.type_name, is_size=False)
        return substitute(x, self.twins)

    def named(self, x: Any) -> Any:
        """An answer with the script's own variables."""
        return substitute(x, {twin: v for v, twin in self.twins.items()}) if isinstance(x, (Expr, Cond)) else x


class Analyzer(FreeVariables):
    """TVM's analyzer: a `Context` whose ranges and facts are added by calls."""

    def __init__(self) -> None:
        super().__init__()
        self._ranges: dict[Var, Range] = {}
        self._facts: list[Cond] = []
        self._bound: dict[Var, Any] = {}

    @property
    def context(self) -> Context:
        """The context of the present facts."""
        return Context(self._ranges, assume=list(self._facts))

    def bind(self, var: Var, expr: Any) -> None:
        """State the range of a variable, or its value; another one than before is refused."""
        twin = self.free(var)
        expr = expr if isinstance(expr, Range) else as_expr(expr)
        before = self._bound.setdefault(twin, expr)
        if before is not expr and before != expr:
            raise InputError(f"{var} is bound to {before} already: update it, or ask another Analyzer, not {expr}")
        if isinstance(expr, Range):
            self._ranges[twin] = Range(self.free(as_expr(expr.min)), self.free(as_expr(expr.extent)))
        else:
            self._facts.append(twin.eq(self.free(expr)))

    def update(self, var: Var, info: ConstIntBound | ModularSet, override: bool = False) -> None:
        """State constant ends of a variable, or its remainder."""
        twin = self.free(var)
        if override:
            self._facts = [fact for fact in self._facts if dag.free_vars(fact) != (twin,)]
        if isinstance(info, ModularSet):
            self._facts.append((twin % info.coeff).eq(info.base) if info.coeff else twin.eq(info.base))
            return
        low, high = (None if abs(end) == info.POS_INF else end for end in (info.min_value, info.max_value))
        ends = ([] if low is None else [twin >= low]) + ([] if high is None else [twin <= high])
        self._facts += ends

    @contextmanager
    def constraint_scope(self, constraint: Cond) -> Iterator[None]:
        """A block in which a condition holds."""
        before = list(self._facts)
        self._facts.append(self.free(constraint))
        try:
            yield
        finally:
            self._facts = before

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """The expression simplified; values other than integers as they are."""
        if isinstance(expr, (Value, float)):
            return expr
        return self.named(self.context.simplify(self.free(as_expr(expr) if isinstance(expr, int) else expr)))

    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, cond: Any, strength: object = None) -> bool:
        """Whether a condition always holds."""
        return cond if isinstance(cond, bool) else bool(self.context.prove(self.free(cond)))

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        return self.can_prove(as_expr(lhs).eq(rhs))

    def can_prove_greater_equal(self, expr: Any, lower: int) -> bool:
        return self.can_prove(as_expr(expr) >= lower)

    def can_prove_less(self, expr: Any, upper: int) -> bool:
        return self.can_prove(as_expr(expr) < upper)

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The smallest and the largest value."""
        low, high = self.context.bounds(self.free(as_expr(expr)), over="sizes")
        return ConstIntBound(_end(low, ConstIntBound.NEG_INF), _end(high, ConstIntBound.POS_INF))

    def modular_set(self, expr: Any) -> ModularSet:
        """The remainder of all values."""
        found = self.context.value_set(self.free(as_expr(expr)), domain="modular")
        modulus: Any = getattr(found, "modulus", 1)
        rest: Any = 0 if modulus == 1 else found.remainder
        return ModularSet(modulus, rest)

    def int_set(self, expr: Any, dom_map: Mapping[Var, ScriptInterval] | None = None) -> ScriptInterval:
        """The smallest interval found around the values, for variables in their sets; others stay in its ends."""
        e, sets = self.free(as_expr(expr)), _freed(self, dom_map)
        if any(s.is_nothing() for s in sets.values()):
            return NOTHING
        keep = [v for v in dag.free_vars(e) if v not in sets]
        return ScriptInterval(*map(self.named, _within(self.context, sets).bounds(e, keep=keep)))


def _end(value: Any, otherwise: int) -> int:
    return otherwise if isinstance(value, Infinity) or not (isinstance(value, Expr) and value.is_const) else int(value)


def _freed(twins: FreeVariables, sets: Mapping[Var, ScriptInterval] | None) -> dict[Var, ScriptInterval]:
    """Sets of the twins of variables."""
    ends = {v: (s.min_value, s.max_value) for v, s in (sets or {}).items()}
    freed = {v: [end if isinstance(end, Infinity) else twins.free(end) for end in pair] for v, pair in ends.items()}
    return {twins.free(v): ScriptInterval(*pair) for v, pair in freed.items()}


def _within(ctx: Context, sets: Mapping[Var, ScriptInterval]) -> Context:
    """The context with variables in sets."""
    free = {v: None for v in sets if v not in ctx.ranges}
    return ctx.extended(ranges=free, facts=[s.holds(v) for v, s in sets.items()])


def deduce_bound(
    var: Var, cond: Any, hint_map: Mapping[Var, ScriptInterval], relax_map: Mapping[Var, ScriptInterval]
) -> ScriptInterval:
    """An interval of `var` in which `cond` holds for all values of the relaxed variables.

    Guarantee: the hints prove the condition for this set; it is empty where no interval was found.
    """
    if not isinstance(cond, Cond):
        return NOTHING
    twins = FreeVariables()
    var, cond, hints, relaxing = twins.free(var), twins.free(cond), _freed(twins, hint_map), _freed(twins, relax_map)
    relaxed = _within(Context(), {v: s for v, s in relaxing.items() if v is not var})
    hinted = {v: s for v, s in hints.items() if v is not var and v not in relaxing}
    kept = [v for v in dag.free_vars(cond) if v is var or v not in relaxing]
    found = _solved(var, relaxed.narrow(cond, [var, *(v for v in kept if v is not var)]).cond, hinted)
    return ScriptInterval(twins.named(found.min_value), twins.named(found.max_value))


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
    e, ctx, var_list = as_expr(expr), Context(), arguments.listed(var_list, "var_list")
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
    arguments.of_kind(Cond, expr, "what clips variables", "a condition")
    twins = FreeVariables()
    var_list = [twins.free(arguments.of_kind(Var, v, "a variable")) for v in arguments.listed(var_list, "var_list")]
    parts: dict[Var, list[Cond]] = {v: [] for v in var_list}
    for part in dag.conjuncts(twins.free(expr)):
        inside = [v for v in var_list if v in dag.free_vars(part)]
        if len(inside) != 1:
            return []
        parts[inside[0]].append(part)
    sets = [_solved(v, logical_and(truth(True), *conds), {}) for v, conds in parts.items()]
    if any(s is NOTHING for s in sets):
        return []
    ends = [twins.named(end) for s in sets for end in (s.min_value, s.max_value)]
    return [None if isinstance(end, Infinity) else end for end in ends]
