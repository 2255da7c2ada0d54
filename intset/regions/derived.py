"""What methods of a `Shape` return and take: counts of instances, products of intervals, fresh coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from intset.errors import CountError
from intset.expr import ops
from intset.expr.dag import chain, postorder
from intset.expr.node import Cond, Expr, Var
from intset.infinity import Infinity
from intset.linear.assumptions import narrow
from intset.linear.bounds import meet
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear


class PerInstance(NamedTuple):
    """The largest and the total number of points of the instances of a set."""

    max: int | Infinity
    total: int | Infinity


def coordinates(dims: int, letter: str = "x") -> list[Var]:
    """Fresh variables for the coordinates."""
    return [Var(f"{letter}{k}") for k in range(dims)]


def instance_spans(alive: Cond, varying: Sequence[Var]) -> list[range]:
    """Values of each variable under a condition and its declared bounds; `CountError` for an unbounded variable."""
    known = narrow(Normalizer(dict.fromkeys(varying, (None, None))), (alive,))
    spans = []
    for v in varying:
        first, last, step = v.declared()
        low, high = meet(known.atom_bounds(v), (first, last))
        if low is None or high is None:
            raise CountError(f"the instances of the region are not bounded: {v} is not")
        spans.append(range(low + -low % step, high + 1, step))
    return spans


Sides = tuple[list[Linear], list[Linear]]


class Product(NamedTuple):
    """A product of intervals, each from the maximum of its lower forms to the minimum of its upper forms.

    Empty unless all forms `where` are at least 0 and all conditions `also` hold.
    """

    sides: list[Sides]
    where: list[Linear]
    also: list[Cond]


def has_select(e: Expr) -> bool:
    """Whether an expression contains a `select`."""
    return any(node.op is ops.SELECT for node in postorder((e,)))


def parts_of(e: Expr, op: ops.Op) -> list[Linear]:
    """The linear forms of a chain of maxima or minima."""
    plain = Normalizer({})
    return [plain.form(part) for part in chain(op, e)]
