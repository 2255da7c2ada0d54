"""What methods of a `Shape` return, take and record.

Counts of instances, upper bounds of polynomials, products of intervals and fresh coordinates; the operations spent by
the budgets of one question, and the wrong answers of a library that were refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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


class Ceiling(NamedTuple):
    """An upper bound of a polynomial over the points of a set, for some values of its parameters.

    Attributes
    ----------
    where: the condition on the parameters; those of several ceilings exclude one another.
    values: the bound is their maximum; each with whether it is a value of the polynomial at all these parameters.
    """

    where: Cond
    values: dict[Expr, bool]


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


class Account:
    """A number of operations shared by several budgets.

    Invariant: a budget gets the remaining operations, at least `least`.

    Example
    -------
    >>> account = Account(1_000_000, least=5_000)
    >>> with shape.budget(200_000, account):  # doctest: +SKIP
    ...     shape.includes(other)
    """

    __slots__ = ("_is_open", "least", "left")

    def __init__(self, operations: int, least: int) -> None:
        self.left, self.least, self._is_open = operations, least, True

    def allowed(self, max_operations: int) -> int:
        """The operations granted to a budget of `max_operations`."""
        return min(max_operations, max(self.left, self.least))

    @property
    def is_spent(self) -> bool:
        """Whether budgets get no more than the least."""
        return self.left <= self.least

    def charge(self, operations: int) -> None:
        if self._is_open:
            self.left -= operations

    def close(self) -> None:
        """Stop charging, so that later questions get the same answers in any order."""
        self._is_open = False


_COLLECTED: ContextVar[dict[str, None] | None] = ContextVar("intset_remarks", default=None)


def remark(text: str) -> None:
    """Record a remark in every open `collected` block."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected[text] = None


@contextmanager
def collected() -> Iterator[dict[str, None]]:
    """Collect the distinct remarks of a `with` block, in order; outer blocks receive them, too."""
    outer, own = _COLLECTED.get(), dict[str, None]()
    token = _COLLECTED.set(own)
    try:
        yield own
    finally:
        _COLLECTED.reset(token)
        if outer is not None:
            outer.update(own)
