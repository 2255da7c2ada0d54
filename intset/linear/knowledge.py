"""What is known of variables and terms beyond numeric ranges."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from intset.expr.node import Expr, Var
from intset.linear.bounds import Interval
from intset.linear.form import Linear

Limits = Mapping[Var, tuple[Linear | None, Linear | None]]  # (first, last), None where infinite
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Knowledge(NamedTuple):
    """What is known beyond numeric ranges."""

    nonneg: tuple[Linear, ...] = ()  # forms that are at least 0
    atoms: Mapping[Expr, Interval] = NOTHING  # intervals of atoms
    limits: Limits = NOTHING  # symbolic ends of variables


NO_KNOWLEDGE = Knowledge()
