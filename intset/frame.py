"""`Frame`: one scope, in which every question is asked: what is known in it, and what was answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from intset.config import Config
from intset.domains.query import Query
from intset.expr import ops
from intset.expr.definedness import asserted_parts, definedness, is_partial
from intset.expr.node import Cond, Expr, Node, PlainVar, Var
from intset.expr.range import Range
from intset.facts import ASSERTED, Fact
from intset.linear.assumptions import narrow
from intset.linear.canonical import Normalizer
from intset.ranges import base_normalizer, checked_ranges, is_known, occupied, stated_as_ranges
from intset.scopes import Block, entered_blocks

MAX_CACHED_ANSWERS = 4096
T = TypeVar("T")


class Frame:
    """One scope: the facts that hold in it, canonical forms under them, and the answers found in it.

    `defined` lists the conditions under which the question and the facts have a value; `requires` the side conditions
    among them that do not follow from facts. `running` lists the conditions that no fact states: `defined`, and
    nonempty symbolic ranges.

    A frame is never changed after it is made; leaving a scope drops the frame with everything that was cached in it.
    """

    def __init__(
        self,
        ranges: Mapping[Var, Range],
        facts: tuple[Fact, ...],
        defined: tuple[Cond, ...] = (),
        requires: tuple[Cond, ...] = (),
        base: Normalizer | None = None,
    ) -> None:
        self.ranges = ranges
        self.facts = facts
        self.defined = defined
        self.requires = requires
        self._fingerprint: tuple[object, ...] | None = None
        self._sized: bool | None = None
        # `None` where it is this frame itself, which would be a circle; nothing before it was looked for.
        self._reading: tuple[Frame | None, ...] = ()
        self._narrowest: tuple[Frame | None, ...] = ()
        self._contradiction: tuple[Fact, ...] | None = None
        self._defined: dict[tuple[Node, ...], tuple[Frame | None]] = {}
        self.base = base_normalizer(ranges) if base is None else base
        multiples = [
            (var % step).eq(0) for var in ranges if type(var) is not PlainVar and (step := var.declared()[2]) > 1
        ]
        full = occupied(ranges, self.base) if self.base.assumptions.limits else ()
        self.running: tuple[Cond, ...] = ()
        if not facts and not defined and not multiples and not full:
            self.conditions: tuple[Cond, ...] = ()
            self.known = self.base
            self.answers: dict[object, Any] = {}
            self.verdicts: dict[tuple[object, ...], str] = {}
            return
        stated = tuple(fact.condition for fact in facts)
        self.running = tuple(cond for cond in (*full, *defined) if cond not in stated)
        held = [cond for cond in (*multiples, *full, *stated, *defined) if not _is_true(self.base, cond)]
        partial = [cond for cond in (*full, *stated) if is_partial(cond)]
        if partial:  # a fact holds where it is defined
            held += [need for need in definedness(partial) if not is_met(self.base, need)]
        self.conditions = tuple(dict.fromkeys(held))
        self.known = narrow(self.base, self.conditions) if self.conditions else self.base
        self.answers = {}
        self.verdicts = {}

    @classmethod
    def of(cls, ranges: Mapping[Var, Range | None], facts: Iterable[Fact] = ()) -> Frame:
        """The scope of ranges that may have no first element, and facts."""
        table, ends = checked_ranges(ranges)
        return cls(table, (*ends, *facts))

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Ranges and facts as a key: equal for frames that state the same. Its parts are compared by identity."""
        found = self._fingerprint
        if found is None:
            parts: list[object] = [len(self.ranges)]
            for var, limits in self.ranges.items():
                parts += (var, limits.min, limits.extent)
            for fact in self.facts:
                parts += (fact.condition, fact.provenance)
            found = self._fingerprint = tuple(parts)
        return found

    def extended(self, ranges: Mapping[Var, Range | None], facts: tuple[Fact, ...]) -> Frame:
        """The frame with further variables and facts; this one where there are none."""
        if not ranges and not facts:
            return self
        table, ends = checked_ranges({**self.ranges, **ranges})
        return Frame(table, (*self.facts, *ends, *facts))

    def stating(self, facts: tuple[Fact, ...]) -> Frame:
        """The frame of the same ranges under other facts."""
        return Frame(self.ranges, facts)

    @property
    def speaks_of_sizes(self) -> bool:
        """Whether ranges or facts mention a variable that has no range, or other variables with one."""
        found = self._sized
        if found is None:
            limits, ranges = self.base.assumptions.limits, self.ranges
            found = self._sized = bool(limits) or any(v not in ranges for c in self.conditions for v in c.free_vars())
        return found

    @property
    def reading(self) -> Frame:
        """The same points, with facts that could have been ranges as ranges; this frame where there are none."""
        if not self.facts:
            return self
        found = self._reading
        if not found:
            narrower = stated_as_ranges(self.ranges, self.facts, self.base)
            found = self._reading = (None if narrower is None else Frame(*narrower, self.defined, self.requires),)
        return found[0] or self

    @property
    def narrowest(self) -> Frame | None:
        """The same points, with facts also as ends of ranges that have some; `None` where no fact over sizes is one."""
        if not self._narrowest:
            sized = any(v not in self.ranges for fact in self.facts for v in fact.condition.free_vars())
            found = stated_as_ranges(self.ranges, self.facts, self.base, also_closed=True) if sized else None
            self._narrowest = (None if found is None else Frame(*found, self.defined, self.requires),)
        return self._narrowest[0]

    def query(self, exprs: Sequence[Expr], keep: Sequence[Var], config: Config) -> Query:
        """The question for the values of `exprs` at the points of this frame."""
        asked = Query(exprs, self.ranges, self.conditions, keep, self.base, self.known, config)
        asked.verdicts = self.verdicts
        return asked

    def where_defined(self, roots: Sequence[Node]) -> Frame:
        """This frame with the conditions under which `roots` are defined as facts."""
        for root in roots:
            if is_partial(root):
                break
        else:
            return self
        key = tuple(roots)
        found = self._defined.get(key)
        if found is None:
            if len(self._defined) >= MAX_CACHED_ANSWERS:
                self._defined.clear()
            inside = _where_defined(self, roots)
            found = self._defined[key] = (None if inside is self else inside,)
        return found[0] or self

    def canonical(self, e: Expr) -> Expr:
        """The linear form of `e` as an expression: equal to `e` wherever that is defined."""
        known = self.where_defined((e,)).known
        return known.regroup(known.form(e)).expr()

    @property
    def contradiction(self) -> tuple[Fact, ...]:
        """Facts that exclude one another whatever the ranges are, as far as that is known; empty when none do."""
        if self._contradiction is None:
            self._contradiction = _contradicting(self.facts)
        return self._contradiction

    def remember(self, key: object, answer: T) -> T:
        """Keep an answer to give again."""
        if len(self.answers) >= MAX_CACHED_ANSWERS:
            self.answers.clear()
        self.answers[key] = answer
        return answer


def _is_true(base: Normalizer, condition: Cond) -> bool:
    return not base.clauses(condition)


def is_met(known: Normalizer, need: Cond) -> bool:
    """Whether a need always holds: one of a branch, `not guard or need`, where its guard implies it."""
    if need.op is ops.OR:
        return _is_true(known, need) or is_met(known.narrowed(~need.args[0]), need.args[1])
    return is_known(known, need)


def _contradicting(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Facts of which none can be left out and that no values of the variables satisfy; empty when none are found."""
    if not facts or not Frame({}, tuple(facts)).known.empty:
        return ()
    kept = list(facts)
    for fact in facts:
        fewer = [other for other in kept if other is not fact]
        if fewer and Frame({}, tuple(fewer)).known.empty:
            kept = fewer
    return tuple(kept)


def _where_defined(frame: Frame, roots: Sequence[Node]) -> Frame:
    """`frame` restricted to the points where the roots have a value: their assertions hold, no divisor is 0."""
    needs = [need for need in definedness(roots) if not is_met(frame.known, need)]
    if not needs:
        return frame
    asserted = tuple(Fact(claim, ASSERTED) for claim in asserted_parts(roots))
    inside = Frame(frame.ranges, (*frame.facts, *asserted), frame.defined, base=frame.base) if asserted else frame
    open_needs = tuple(need for need in needs if not is_met(inside.known, need))
    if not open_needs:
        return inside
    return Frame(frame.ranges, inside.facts, (*frame.defined, *open_needs), open_needs, frame.base)


class Assuming(Block[T]):
    """The facts of one `with ctx.assuming(...)` block.

    Parameters
    ----------
    given: the context that the block belongs to; `as` gives it.
    root: the scope of the context outside of all blocks. Contexts may share one: it does not identify a context.
    """

    entered = entered_blocks("intset_assuming")
    inherited = False

    def __init__(self, given: T, root: Frame, facts: tuple[Fact, ...]) -> None:
        self._given, self.root, self.facts = given, root, facts
        self._made: tuple[tuple[Fact, ...], Frame] | None = None

    def enter(self) -> T:
        self.frame((*within_blocks(self._given, self.root).facts, *self.facts))
        return self._given

    def frame(self, facts: tuple[Fact, ...]) -> Frame:
        """The scope while this is the innermost block and `facts` hold; kept until there are others."""
        made = self._made
        if made is None or made[0] != facts:
            made = self._made = (facts, self.root.stating(facts))
        return made[1]


def within_blocks(context: object, root: Frame) -> Frame:
    """The scope of a context inside the blocks of that context that this thread or task has entered.

    Parameters
    ----------
    root: the scope of the context outside of all blocks.
    """
    if not Assuming.entered.get():
        return root
    entered: tuple[Assuming[Any], ...] = Assuming.in_force()
    blocks = [block for block in entered if block._given is context]
    if not blocks:
        return root
    return blocks[-1].frame((*root.facts, *(fact for block in blocks for fact in block.facts)))
