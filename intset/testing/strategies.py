"""Hypothesis strategies for expressions, conditions, points and contexts with enumerated truth.

`expressions` and `conditions` draw over given variables, with every operation of `intset.expr.ops`, and with negative
constants and divisors; they shrink to a single small constant or variable.

>>> i, j = Var("i"), Var("j")
>>> @given(expressions([i, j]), points([i, j]))
... def test(e, point): ...

Common parameters
-----------------
variables: leaves besides constants: variables, or other expressions such as opaque terms.
depth: maximal nesting of operations.
nonlinear: when false, all drawn terms are piecewise quasi-affine: products, divisors, shifts and the like have a
    constant operand, and `&`, `|`, `^` on integers do not occur.
total: when true, every term has a value at every point: no assertions, no divisor but constants, no negative shift.
    By default terms may be undefined at some points, where `evaluate` raises `UndefinedError`.

Magnitudes stay small: shift amounts are at most 8, so evaluating a drawn expression is always cheap.
"""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from intset.expr import Cond, Expr, Var, const, ops
from intset.expr.build import asserting, bounded, cast, nonneg, select
from intset.expr.node import make, truth
from intset.expr.ops import Op
from intset.testing.contexts import Setting, drawn_setting

T = TypeVar("T")

UNARY_OPS = (ops.NEG, ops.BITNOT, ops.ABS)
AFFINE_OPS = (ops.ADD, ops.SUB, ops.MIN, ops.MAX)
SHIFT_OPS = (ops.SHL, ops.SHR)
BIT_OPS = (ops.BITAND, ops.BITOR, ops.BITXOR)
SPECIAL_OPS = (ops.SELECT, ops.CAST, ops.ASSERTING)

INTEGER_OPS = (*UNARY_OPS, *AFFINE_OPS, ops.MUL, *ops.DIVISIONS, *SHIFT_OPS, *SPECIAL_OPS, *BIT_OPS)
CONDITION_OPS = (*ops.COMPARISONS, ops.NOT, ops.AND, ops.OR)


def constants() -> st.SearchStrategy[int]:
    """Mostly small integers of both signs, some at the ends of machine words."""
    edges = [sign * 2**bits + off for bits in (7, 8, 31, 32, 63, 64) for sign in (-1, 1) for off in (-1, 0, 1)]
    return st.one_of(st.integers(-9, 9), st.integers(-9, 9), st.integers(-130, 130), st.sampled_from(edges))


def divisors() -> st.SearchStrategy[int]:
    """Constants other than 0."""
    return constants().filter(bool)


def points(variables: Sequence[Var], low: int = -20, high: int = 20) -> st.SearchStrategy[dict[Var, int]]:
    """A value in `low..high`, both included, for each variable."""
    return st.fixed_dictionaries({var: st.integers(low, high) for var in variables})


@st.composite
def expressions(
    draw: st.DrawFn, variables: Sequence[Expr], depth: int = 3, nonlinear: bool = True, total: bool = False
) -> Expr:
    """Integer expressions over `variables`; see the module's docstring for the parameters."""
    return _HypothesisDrawing(draw, variables, nonlinear, total).integer(depth)


@st.composite
def conditions(
    draw: st.DrawFn, variables: Sequence[Expr], depth: int = 3, nonlinear: bool = True, total: bool = False
) -> Cond:
    """Conditions over `variables`; see the module's docstring for the parameters."""
    return _HypothesisDrawing(draw, variables, nonlinear, total).condition(depth)


def from_random(generator: Callable[[random.Random], T]) -> st.SearchStrategy[T]:
    """A strategy from a seeded generator: Hypothesis makes each choice of its `Random`, so results shrink."""
    return st.randoms(use_true_random=False).map(generator)


def contexts() -> st.SearchStrategy[Setting]:
    """Contexts with dependent, symbolic and empty ranges, facts, kept variables and expressions, and all their
    points.
    """
    settings: st.SearchStrategy[Setting | None] = from_random(drawn_setting)
    return settings.filter(lambda one: one is not None)  # type: ignore[return-value]  # the filter removes None


def made(op: Op, *args: object) -> Expr:
    """An integer operation on operands of its kinds."""
    node: Expr = make(op, args)
    return node


def held(op: Op, *args: object) -> Cond:
    """A comparison or a connective on operands of its kinds."""
    node: Cond = make(op, args)
    return node


class _HypothesisDrawing:
    def __init__(self, draw: st.DrawFn, variables: Sequence[Expr], nonlinear: bool, total: bool) -> None:
        self.draw = draw
        self.variables = list(variables)
        self.nonlinear = nonlinear
        self.total = total
        refused = (() if nonlinear else BIT_OPS) + ((ops.ASSERTING,) if total else ())
        self.integer_ops = [op for op in INTEGER_OPS if op not in refused]

    def leaf(self) -> Expr:
        if len(self.variables) > 0 and self.draw(st.integers(0, 2)) > 0:
            return self.draw(st.sampled_from(self.variables))
        return const(self.draw(constants()))

    def integer(self, depth: int) -> Expr:
        if depth <= 0 or not self.draw(st.integers(0, 5)):
            return self.leaf()
        op = self.draw(st.sampled_from(self.integer_ops))
        if op in SPECIAL_OPS:
            return self.special(op, depth - 1)
        a = self.integer(depth - 1)
        if op in UNARY_OPS:
            return made(op, a)
        if op in ops.DIVISIONS:
            return made(op, a, self.divisor(depth - 1))
        if op in SHIFT_OPS:
            return made(op, a, self.amount(depth - 1))
        if op is ops.MUL and not self.nonlinear:
            factors = [a, const(self.draw(constants()))]
            return made(op, *(factors if self.draw(st.booleans()) else reversed(factors)))
        return made(op, a, self.integer(depth - 1))

    def special(self, op: Op, depth: int) -> Expr:
        a = self.integer(depth)
        if op is ops.CAST:
            return cast(a, self.draw(st.sampled_from((1, 3, 8, 32))), self.draw(st.booleans()))
        if op is ops.SELECT:
            return select(self.condition(depth), a, self.integer(depth))
        kind = self.draw(st.integers(0, 2))
        return nonneg(a) if kind == 0 else bounded(a, -5, 30) if kind == 1 else asserting(self.condition(depth), a)

    def divisor(self, depth: int) -> Expr:
        if self.nonlinear and not self.total and self.draw(st.booleans()):
            drawn = self.integer(depth)
            if drawn is not const(0):
                return drawn
        return const(self.draw(divisors()))

    def amount(self, depth: int) -> Expr:
        if self.nonlinear and self.draw(st.booleans()):
            return self.integer(depth) % 5
        return const(self.draw(st.integers(0 if self.total else -1, 8)))

    def condition(self, depth: int) -> Cond:
        if not self.draw(st.integers(0, 9)):
            return truth(self.draw(st.booleans()))
        if depth <= 0 or self.draw(st.booleans()):
            op = self.draw(st.sampled_from(ops.COMPARISONS))
            return held(op, self.integer(depth - 1), self.integer(depth - 1))
        op = self.draw(st.sampled_from((ops.NOT, ops.AND, ops.OR)))
        if op is ops.NOT:
            return held(op, self.condition(depth - 1))
        return held(op, self.condition(depth - 1), self.condition(depth - 1))
