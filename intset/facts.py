"""Facts, conditions with provenance; what a context states: its table of ranges, checked, and the facts of blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from intset.config import ScopedBlock, entered_blocks
from intset.errors import InputError
from intset.expr import NEG_INF, Cond, Expr, IntLike, Node, Range, Var, arguments, as_cond, dag, ops, shown
from intset.expr.node import ShapeVar

T = TypeVar("T")
S = TypeVar("S", bound="FactsScope")


class NamesakeNote(str):
    """A note on two variables of one name; texts of answers show it."""

    __slots__ = ()


def namesakes(roots: Sequence[Node], ranges: Collection[Var], facts: Sequence[Fact]) -> tuple[NamesakeNote, ...]:
    """Notes on free variables of `roots` whose names belong to other variables of the context."""
    free = [v for root in roots for v in root.free_vars() if v not in ranges]
    if not free:
        return ()
    stated = {*ranges, *(v for limits in facts for v in limits.condition.free_vars())}
    names = {v.name for v in stated}
    others = dict.fromkeys(v.name for v in free if v.name in names and v not in stated)
    return tuple([NamesakeNote(f"{x} is not the {x} of the context but another variable, free here") for x in others])


def shown_notes(notes: Iterable[str]) -> str:
    """The notes that the text of an answer shows."""
    return "".join([f", {note}" for note in notes if isinstance(note, NamesakeNote)])


DECLARED = "declared"  # carried by a variable (ShapeVar, a range)
ASSERTED = "asserted"  # a runtime check stands behind it
ASSUMED = "assumed"  # the user's word
DERIVED = "derived"  # follows from loops, guards, other facts
PROVENANCES = (DECLARED, ASSERTED, ASSUMED, DERIVED)


@dataclass(frozen=True, slots=True)
class Fact:
    """An assumed condition and its provenance, one of `PROVENANCES`."""

    condition: Cond
    provenance: str = ASSUMED

    def substitute(self, replacements: Mapping[Expr, IntLike]) -> Fact:
        """The fact under a substitution; keeps its provenance."""
        condition: Cond = self.condition.substitute(replacements)
        return self if condition is self.condition else Fact(condition, self.provenance)

    def __repr__(self) -> str:
        return f"{self.provenance}: {self.condition}"


def facts_of(conditions: Any, provenance: str) -> tuple[Fact, ...]:
    """The conjuncts of one or several conditions as facts; a `Fact` keeps its own provenance."""
    listed = [conditions] if isinstance(conditions, (Cond, Fact)) else conditions
    facts: list[Fact] = []
    for given in arguments.listed(listed, "conditions", "a list of them"):
        stated = given if isinstance(given, Fact) else Fact(given, provenance)
        arguments.one_of(PROVENANCES, stated.provenance, "provenance")
        facts += [Fact(part, stated.provenance) for part in dag.conjuncts(as_cond(stated.condition, "a fact"))]
    return tuple(facts)


def checked_var(var: object) -> Var:
    if not isinstance(var, Var):
        raise InputError(f"a range belongs to a variable, not to {shown(var)}")
    return var


def listed_vars(given: object, what: str) -> tuple[Var, ...]:
    """Distinct variables of a sequence; a single variable counts as a sequence of one."""
    if isinstance(given, Var):
        return (given,)
    if isinstance(given, Set) or not isinstance(given, Iterable):  # sets are unordered
        raise arguments.refusal(what, "a sequence of variables", given)
    parts = arguments.listed(given, what, "a sequence of variables")
    return tuple(dict.fromkeys(arguments.of_kind(Var, part, f"a part of {what}", "a variable") for part in parts))


def as_ranges(ranges: Mapping[Var, Range | None] | None) -> Mapping[Var, Range | None]:
    return {} if ranges is None else arguments.mapped(ranges, "ranges", "a mapping {Var: Range}")


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


ENDS: Final[Mapping[ops.Op, tuple[int | None, int | None]]] = {  # offsets from a number to an end
    ops.LT: (None, -1), ops.LE: (None, 0), ops.GT: (1, None), ops.GE: (0, None), ops.EQ: (0, 0),
}  # fmt: skip
VarEnds: TypeAlias = "tuple[int | None, int | None]"  # of a variable, `None` where infinite


def ends_met(
    ranges: Mapping[Var, VarEnds], facts: Iterable[Cond]
) -> tuple[tuple[Cond, ...], dict[Var, VarEnds]] | None:
    """The facts that numeric ranges do not imply, and the ranges that satisfy all facts.

    `None` unless every fact compares one variable of `ranges` with a number and some point remains.
    """
    met, conditions = dict(ranges), []
    for fact in facts:
        offsets = ENDS.get(fact.op)
        if offsets is None:
            return None
        var, number = fact.args
        if number.op is not ops.CONST or isinstance(var, ShapeVar) or var not in ranges:
            return None
        first, last = (None if offset is None else number.data + offset for offset in offsets)
        if _met(ranges[var], first, last) == ranges[var]:
            continue
        conditions.append(fact)
        low, high = met[var] = _met(met[var], first, last)
        if low is not None and high is not None and low > high:
            return None
    return tuple(dict.fromkeys(conditions)), met


def _met(ends: VarEnds, first: int | None, last: int | None) -> VarEnds:
    low, high = ends
    return (
        low if first is None or low is not None and first < low else first,
        high if last is None or high is not None and last > high else last,
    )


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
