"""Products of intervals whose ends are affine: what loops can run over."""

from __future__ import annotations

from typing import NamedTuple

from intset.expr import ops
from intset.expr.node import Cond, Expr
from intset.expr.walk import chain, postorder
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

Sides = tuple[list[Linear], list[Linear]]


class Product(NamedTuple):
    """A product of intervals: in each dimension from the largest of the first forms to the smallest of the second.

    It is empty where one of the forms `where` is below 0 or one of the conditions `also` does not hold.
    """

    sides: list[Sides]
    where: list[Linear]
    also: list[Cond]


def has_select(e: Expr) -> bool:
    """Whether an end is written by cases."""
    return any(node.op is ops.SELECT for node in postorder((e,)))


def parts_of(e: Expr, op: ops.Op) -> list[Linear]:
    """The forms whose maximum (minimum) the expression is."""
    plain = Normalizer({})
    return [plain.form(part) for part in chain(op, e)]
