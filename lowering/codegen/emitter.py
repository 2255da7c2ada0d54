"""The common part of emitters: one rule for each kind of statement, applied by the driver, gives lines of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeAlias

from bound import dtypes
from bound.tir.value import Operand
from intset.expr.node import Expr, const, constant_value
from intset.expr.ops import wrap
from lowering.codegen.straight_line import Syntax, straight_line
from lowering.nest.driver import D, Synthesis, SynthesisRule, synthesized
from lowering.nest.ir import If, Stmt

Emission: TypeAlias = Synthesis[D, list[str]]
EmissionRules: TypeAlias = Mapping[type[Stmt], SynthesisRule[D, list[str]]]


class Emitter(ABC, Generic[D]):
    """The statements of a nest in a target language.

    Invariant: rules run in the order of the text; lines are relative to the block of their statement.
    """

    syntax: Syntax

    @property
    @abstractmethod
    def rules(self) -> EmissionRules[D]:
        """The rule for each kind of statement."""

    def emitted(self, root: Stmt, descent: D) -> list[str]:
        """The lines of a nest."""
        return synthesized(root, descent, self.rules)

    def operands(self, descent: D, *operands: Operand) -> tuple[list[str], list[str]]:
        """The lines that operands need first, and their texts."""
        return straight_line(self.syntax, operands)

    def branch(self, stmt: If, descent: D) -> Emission[D]:
        before, (cond,) = self.operands(descent, stmt.cond)
        then = yield stmt.then, descent.then(stmt)
        orelse = [] if stmt.orelse is None else (yield stmt.orelse, descent.otherwise(stmt))
        return [*before, *self.syntax.branch(cond, then, orelse)]


def as_stored(value: Operand, dtype: str) -> Operand:
    """The value as an element of the type represents it: a constant integer wraps; the machine wraps all others."""
    number = constant_value(value) if isinstance(value, Expr) else None
    if number is None or not dtypes.is_int(dtype):
        return value
    return const(wrap(number, dtypes.bits(dtype), dtypes.signed(dtype)))
