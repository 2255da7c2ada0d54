"""What a question was asked under, and how it was decided, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from intset.config import Config
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.facts import Fact

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"


class Basis(NamedTuple):
    """What a question was asked under.

    Attributes
    ----------
    ranges, facts: those of the context.
    defined: conditions under which the goal has a value, and that are not facts.
    requires: those of them that are side conditions of the answer.
    config: the budgets.
    """

    ranges: Mapping[Var, Range] = {}
    facts: tuple[Fact, ...] = ()
    defined: tuple[Cond, ...] = ()
    requires: tuple[Cond, ...] = ()
    config: Config = Config()


NOTHING = Basis()


class Decided(NamedTuple):
    """The answer to a question; the fields are those of `Proof`. A tier that proves a goal need not look for a point:
    `vacuous` says that none is known to exist."""

    status: str
    by: str
    vacuous: bool = False
    counterexample: Mapping[Expr, int] | None = None
    reason: str = ""
    basis: Basis = NOTHING
