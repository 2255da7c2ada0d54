"""What a context states: its table of ranges, checked, and the facts of blocks, with what these need of a scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Protocol, Self, TypeVar

from intset.config import ScopedBlock, entered_blocks
from intset.errors import InputError
from intset.expr.arguments import listed, mapped, of_kind, refusal
from intset.expr.node import Expr, Var
from intset.expr.printer import shown
from intset.expr.range import Range
from intset.facts import DECLARED, Fact
from intset.infinity import NEG_INF

T = TypeVar("T")
S = TypeVar("S", bound="FactsScope")


def checked_var(var: object) -> Var:
    if not isinstance(var, Var):
        raise InputError(f"a range belongs to a variable, not to {shown(var)}")
    return var


def listed_vars(given: object, what: str) -> tuple[Var, ...]:
    """Distinct variables of a sequence; a single variable counts as a sequence of one."""
    if isinstance(given, Var):
        return (given,)
    if isinstance(given, Set) or not isinstance(given, Iterable):  # sets are unordered
        raise refusal(what, "a sequence of variables", given)
    parts = listed(given, what, "a sequence of variables")
    return tuple(dict.fromkeys(of_kind(Var, part, f"a part of {what}", "a variable") for part in parts))


def as_ranges(ranges: Mapping[Var, Range | None] | None) -> Mapping[Var, Range | None]:
    return {} if ranges is None else mapped(ranges, "ranges", "a mapping {Var: Range}")


def checked_ranges(ranges: Mapping[Var, Range | None] | None) -> tuple[dict[Var, Range], tuple[Fact, ...]]:
    """The validated table of ranges; a lower half line becomes all integers and a fact `v <= last`."""
    table: dict[Var, Range] = {}
    constant = True
    for var, limits in (ranges if type(ranges) is dict else as_ranges(ranges)).items():
        if limits is None:
            limits, constant = Range.everything(), False
        elif not isinstance(limits, Range):
            raise InputError(f"the range of {shown(var)} must be a Range(min, extent), not {shown(limits)}")
        elif limits.ends is None:
            constant = False
        table[var if isinstance(var, Var) else checked_var(var)] = limits
    if constant:
        return table, ()
    _refuse_cycles(table)
    ends = {var: limits.max for var, limits in table.items() if limits.min is NEG_INF}
    facts = [Fact(var <= last, DECLARED) for var, last in ends.items() if isinstance(last, Expr)]
    return {**table, **dict.fromkeys(ends, Range.everything())} if facts else table, tuple(facts)


def _refuse_cycles(table: Mapping[Var, Range]) -> None:
    done: set[Var] = set()
    for root in table:
        path: list[Var] = []
        stack: list[tuple[Var, bool]] = [(root, False)]
        while stack:
            var, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(var)
            elif var in done or var not in table:
                continue
            elif var in path:
                raise InputError(f"the range of {var.name} depends on {var.name} itself")
            else:
                path.append(var)
                stack.append((var, True))
                stack.extend((v, False) for v in table[var].free_vars())


class FactsScope(Protocol):
    """A block's questions to the surrounding scope."""

    facts: tuple[Fact, ...]

    def stating(self, facts: tuple[Fact, ...]) -> Self: ...


class Assuming(ScopedBlock[T]):
    """The facts of one `with ctx.assuming(...)` block.

    Parameters
    ----------
    context: the owner of the block and the value of `as`.
    root: the scope of the context outside all blocks. Several contexts may share it.
    """

    entered = entered_blocks("intset_assuming")
    inherited = False

    def __init__(self, context: T, root: FactsScope, facts: tuple[Fact, ...]) -> None:
        self._context, self.root, self.facts = context, root, facts
        self._cached: tuple[tuple[Fact, ...], FactsScope] | None = None

    def enter(self) -> T:
        self.frame((*within_blocks(self._context, self.root).facts, *self.facts))
        return self._context

    def frame(self, facts: tuple[Fact, ...]) -> Any:
        """The scope inside this block as the innermost one, cached for the last `facts`."""
        cached = self._cached
        if cached is None or cached[0] != facts:
            cached = self._cached = (facts, self.root.stating(facts))
        return cached[1]


def within_blocks(context: object, root: S) -> S:
    """The scope of a context inside its blocks entered by this thread or task; `root` is its scope outside."""
    if not Assuming.entered.get():
        return root
    entered: tuple[Assuming[Any], ...] = Assuming.in_force()
    blocks = [block for block in entered if block._context is context]
    if not blocks:
        return root
    inside: S = blocks[-1].frame((*root.facts, *(fact for block in blocks for fact in block.facts)))
    return inside
