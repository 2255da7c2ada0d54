"""`Context`: variables with ranges, facts with provenance, and every question that can be asked of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Literal, overload

from intset import config as configuration
from intset.domains.protocols import Domain
from intset.domains.query import Query
from intset.domains.registry import domain_named
from intset.domains.sets.answers import bounds_by, region_by
from intset.domains.sets.base import IntSet
from intset.domains.sets.ends import Bounds, MetSides
from intset.domains.sets.nonempty import Nonempty
from intset.domains.sets.region import Region
from intset.domains.sets.relation import Relation
from intset.domains.sets.where_nonempty import where_nonempty
from intset.errors import ContradictionWarning, InputError
from intset.expr.arguments import listed
from intset.expr.length import as_width
from intset.expr.node import Cond, Expr, IntLike, Node, Var, as_cond, as_expr
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import conjuncts
from intset.facts import ASSUMED, DERIVED, PROVENANCES, Fact
from intset.frame import Assuming, Frame, within_blocks
from intset.itermap.itermap import IterMap, iter_map
from intset.names import generation
from intset.prover.certify_bounds import AskedBounds
from intset.prover.explain import Explanation, explain
from intset.prover.proof import Proof, prove_once
from intset.prover.simplify_steps import Simplified, simplified_in_steps
from intset.prover.width import fits
from intset.ranges import as_ranges, checked_ranges, listed_vars, renamed
from intset.simplify.cost import COST, weights
from intset.simplify.engine import MAX_ROUNDS, simplified
from intset.simplify.irreducible import settled
from intset.solving import Narrowed, Solved, narrowed, solutions, solved_equations


class Context:
    """Variables with ranges, and facts: what an analysis may rely on.

    Parameters
    ----------
    ranges: `{Var: Range}`; `None` in place of a range means every integer. A variable without an entry stays symbolic
        in every answer, within the bounds it declares.
    assume: conditions that hold, on the user's word; `Fact`s keep their own provenance.
    domain: name of the domain that answers, instead of the configured one.

    Raises
    ------
    InputError: a key that is no variable, a range that depends on itself, a condition that is not one.

    Facts that exclude one another are no error: everything is proved, `vacuous`, and a `ContradictionWarning` names
    them as soon as that is found.

    Example
    -------
    >>> i, j = Var("i"), Var("j")
    >>> ctx = Context({i: Range(0, 8), j: Range(0, 4)}, assume=[i * 4 + j < 14])
    >>> ctx.bounds(i * 4 + j)
    (0, 13)
    """

    def __init__(
        self,
        ranges: Mapping[Var, Range | None] | None = None,
        assume: Iterable[Cond | Fact] = (),
        domain: str | None = None,
    ) -> None:
        table, ends = checked_ranges(ranges)
        self.domain = None if domain is None else configuration.checked("domain", domain, "Context(domain=)")
        facts = (*ends, *(part for given in _listed(assume) for part in _facts_of(given, ASSUMED)))
        self._root = root = Frame(table, facts)
        root.fingerprint  # noqa: B018  # made here, so that the first question need not
        if root.known.empty and (excluding := root.contradiction):
            report(excluding)

    @classmethod
    def from_constraints(
        cls, vars: Sequence[Var], conditions: Iterable[Cond | Fact], domain: str | None = None
    ) -> Context:
        """The context of the integer points at which all the conditions hold.

        Parameters
        ----------
        vars: the variables that run over these points; every other variable of the conditions is a parameter.
        conditions: `i >= 0`, `i < n`, `i + j <= 7`, ...; those that bound one variable serve as its range.
        domain: as for `Context`.

        Example
        -------
        >>> i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
        >>> Context.from_constraints([i, j], [0 <= i, i < n, 0 <= j, j < m]).bounds(i * m + j)
        (0, n * m - 1)
        """
        return cls(dict.fromkeys(listed_vars(vars, "vars")), conditions, domain)

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def ranges(self) -> Mapping[Var, Range]:
        """The range of each variable that has one."""
        return dict(self.frame.ranges)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts in force, oldest first."""
        return self.frame.facts

    @property
    def contradiction(self) -> tuple[Fact, ...]:
        """Facts that exclude one another whatever the ranges are, as far as that is known; empty when none do."""
        return self.frame.contradiction

    def assuming(self, *conditions: Cond | Fact, provenance: str = ASSUMED) -> Assuming[Context]:
        """Facts that hold inside the `with` block only; nothing derived from them outlives it.

        They hold in the thread or task that enters the block, until the block ends, in whatever order blocks end; the
        end of a block removes its own facts only. Other threads and tasks, those started inside of the block included,
        do not have them. (A generator that is suspended in a block has not left it.) `extended`, `renamed` and a
        pickled copy take over what is in force where they are made, for good.

        A condition that contradicts what is known makes the block unreachable: there everything is proved, `vacuous`.
        """
        return Assuming(self, self._root, tuple(part for given in conditions for part in _facts_of(given, provenance)))

    def extended(
        self,
        ranges: Mapping[Var, Range | None] | None = None,
        facts: Iterable[Cond | Fact] = (),
        provenance: str = DERIVED,
    ) -> Context:
        """A new context with further variables and facts; this one is not changed."""
        frame = self.frame
        new = Context.__new__(type(self))
        new.domain = self.domain
        added = tuple(part for given in _listed(facts) for part in _facts_of(given, provenance))
        new._root = frame.extended(as_ranges(ranges), added)
        return new

    def renamed(self, replacements: Mapping[Var, IntLike], ranges: Mapping[Var, Range | None] | None = None) -> Context:
        """The context in which expressions stand in the place of variables; every fact survives, with its provenance.

        Parameters
        ----------
        replacements: what stands for each variable: `{i: io * 4 + ii}`.
        ranges: the ranges of the new variables.

        What the old variables' ranges and declarations say becomes facts about the expressions (derived and declared).
        A plain variable that replaces another and has no range takes over its range.

        Example
        -------
        >>> i, io, ii = Var("i"), Var("io"), Var("ii")
        >>> tiled = Context({i: Range(0, 30)}).renamed({i: io * 4 + ii}, {io: Range(0, 8), ii: Range(0, 4)})
        >>> tiled.bounds(io * 4 + ii)
        (0, 29)
        """
        frame = self.frame
        table, facts = renamed(frame.ranges, frame.facts, replacements, ranges)
        return Context(table, facts, self.domain)

    # -- questions ----------------------------------------------------------------------------------------------

    def bounds(self, e: IntLike, keep: Sequence[Var] = (), domain: str | None = None) -> Bounds:
        """The two ends of the values of `e`.

        Parameters
        ----------
        e: the expression.
        keep: variables that stay symbolic in the answer although they have a range.
        domain: name of the domain to ask, instead of the configured one.
        """
        answer: Bounds = self._ask("bounds", (as_expr(e, "the expression"),), keep, domain)
        return answer

    def value_set(self, e: IntLike, keep: Sequence[Var] = (), domain: str | None = None) -> IntSet:
        """The set of values of `e`; parameters as for `bounds`."""
        answer: IntSet = self._ask("image", (as_expr(e, "the expression"),), keep, domain)
        return answer

    def image(self, exprs: Sequence[IntLike], keep: Sequence[Var] = (), domain: str | None = None) -> Region:
        """The points that the tuple `exprs` reaches; parameters as for `bounds`."""
        answer: Region = self._ask("region", _tuple_of_exprs(exprs, "image takes a tuple"), keep, domain)
        return answer

    def relation(
        self,
        sources: Sequence[IntLike],
        targets: Sequence[IntLike],
        keep: Sequence[Var] = (),
        domain: str | None = None,
    ) -> Relation:
        """The pairs that the tuples `sources` and `targets` reach together; parameters as for `bounds`."""
        first, last = (_tuple_of_exprs(given, "relation takes two tuples") for given in (sources, targets))
        return Relation(self.image((*first, *last), keep, domain), len(first))

    def as_iter_map(self, exprs: Sequence[IntLike]) -> IterMap:
        """The map from the variables that have ranges here to a tuple of indices: its split-and-fuse structure, whether
        it is injective and surjective, its inverse, and what it leaves out; see `IterMap`.

        >>> i, j = Var("i"), Var("j")
        >>> Context({i: Range(0, 4), j: Range(0, 3)}).as_iter_map([i * 4 + j]).surjective.points
        ((3,),)
        """
        return iter_map(self, tuple(self.frame.ranges), exprs)

    def prove(self, condition: Cond) -> Proof:
        """Whether `condition` holds at every point of this context: proved, refuted by a counterexample, or unknown."""
        goal = condition if isinstance(condition, Cond) else as_cond(condition, "the condition to prove")
        chosen = configuration.current(self.domain)
        frame = self.frame if Assuming.entered.get() else self._root
        found = frame.answers.get((goal, chosen, generation()))
        if found is not None:
            answer: Proof = found
            return answer
        return prove_once(frame, goal, chosen)

    @overload
    def simplify(
        self, e: Cond, cost: Mapping[str, int] | None = None, steps: Literal[False] = False, bits: int | None = None
    ) -> Cond: ...
    @overload
    def simplify(
        self, e: IntLike, cost: Mapping[str, int] | None = None, steps: Literal[False] = False, bits: int | None = None
    ) -> Expr: ...
    @overload
    def simplify(
        self, e: IntLike | Cond, cost: Mapping[str, int] | None = None, *, steps: Literal[True], bits: int | None = None
    ) -> Simplified: ...
    def simplify(
        self, e: IntLike | Cond, cost: Mapping[str, int] | None = None, steps: bool = False, bits: int | None = None
    ) -> Node | Simplified:
        """The cheapest expression (or condition) that is found to be equal to `e` wherever `e` is defined.

        Parameters
        ----------
        e: the expression or condition.
        cost: weights of operations by name, each at least 1, in place of those of `intset.COST`.
        steps: whether to say why: the answer is a `Simplified` with `.expr`, `.steps` and `.requires`. A replacement
            for which no proof with a certificate is found is not done.
        bits: a width; no form is taken one of whose steps may need more bits than that, where none of `e` does.

        Neither its cost (`intset.cost`) nor its number of operations is above that of `e`; simplified again, it stays
        as it is. What `e` needs to be defined may be dropped, never added to: what stands under a branch stays there.

        Raises
        ------
        InputError: `cost` names an operation that does not exist, or a weight below 1.

        Example
        -------
        >>> x, y = Var("x"), Var("y")
        >>> Context({x: Range(0, 8)}).simplify(minimum(x + y, y + 7) - y)
        x
        """
        root = e if isinstance(e, Cond) else as_expr(e, "the expression")
        table = weights(cost)
        width = None if bits is None else as_width(bits, "bits")
        if steps:
            return simplified_in_steps(self.frame, root, table, width, configuration.current(self.domain))
        seen: Node | None = settled(root, self.frame.known) if table is COST else None
        if seen is not None:
            return seen
        for _ in range(MAX_ROUNDS):  # what a round leaves alone is the answer
            frame = self.frame.where_defined((root,))
            key = ("simplify", root, None if table is COST else tuple(table.items()), width)
            found = frame.answers.get(key)
            new: Any = frame.remember(key, simplified(root, frame.known, table, width)) if found is None else found
            if new is root:
                break
            root = new
        return root

    @overload
    def canonical(self, e: Cond) -> Cond: ...
    @overload
    def canonical(self, e: IntLike) -> Expr: ...
    def canonical(self, e: IntLike | Cond) -> Node:
        """The linear form of `e` as an expression (or the canonical condition): one for all that have that form.

        It equals `e` wherever `e` is defined, and may be longer: it is for comparing and proving. `simplify` is for
        print.

        Example
        -------
        >>> x, y = Var("x"), Var("y")
        >>> Context().canonical((x + y) * 2 - y), Context().canonical(x + (x + y))
        (x * 2 + y, x * 2 + y)
        """
        if isinstance(e, Cond):
            return self.frame.where_defined((e,)).known.cond(e)
        return self.frame.canonical(as_expr(e, "the expression"))

    def solve(self, cond: Cond, x: Var) -> IntSet:
        """The values of `x` for which `cond` can hold, with ends in the other variables; a superset, as every set.

        Example
        -------
        >>> x, n = Var("x"), ShapeVar("n")
        >>> Context({x: Range(0, n)}).solve((x * 4 + 3 < n) & (x > 2), x)
        <ShapeSet [n] -> { [i0] : n > 0 and 3 <= i0 < n and 4i0 <= -4 + n } exact by isl>
        """
        return solutions(self, cond, x)

    def narrow(self, cond: Cond, keep: Sequence[Var]) -> Narrowed:
        """The weakest condition over `keep` that implies `cond` for all values that the other variables may take.

        `.cond` is never weaker than that, `truth(False)` at worst; `.is_exact` says whether it is the very one.

        Example
        -------
        >>> x, y = Var("x"), Var("y")
        >>> Context({y: Range(0, 4)}).narrow(x + y < 10, [x]).cond
        x < 7
        """
        return narrowed(self, cond, keep)

    def solve_equations(self, conds: Sequence[Cond], variables: Sequence[Var]) -> Solved:
        """The integer solutions of equations that are linear in `variables`.

        `.values` says what each variable is, over fresh variables; `.context` what the ranges and facts say of these;
        `.cond` what must hold of all other variables for a solution to exist.

        Raises
        ------
        InputError: a condition is no equation, or not linear in the variables.

        Example
        -------
        >>> x, y, n = Var("x"), Var("y"), Var("n")
        >>> found = Context().solve_equations([(x * 4 + y * 6).eq(n)], [x, y])
        >>> found.cond
        n % 2 == 0
        """
        return solved_equations(self, conds, variables)

    def fits(self, e: IntLike, bits: int = 32) -> Proof:
        """Whether `e`, computed step by step in signed registers of `bits` bits, never overflows."""
        width = as_width(bits, "bits")
        return fits(self, as_expr(e, "the expression"), width)

    def explain(self, question: Any) -> Explanation:
        """Why the answer to a condition (`prove`) or an expression (`bounds`) is what it is, in words."""
        return explain(self, question)

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The scope that a question asked here is asked in: what the context was made with, and the blocks that this
        thread or task has entered. It never changes."""
        return within_blocks(self, self._root) if Assuming.entered.get() else self._root

    def _ask(self, what: str, exprs: tuple[Expr, ...], keep: Sequence[Var], domain: str | None) -> Any:
        chosen = configuration.current(self.domain if domain is None else domain)
        kept = () if keep == () else listed_vars(keep, "keep")
        registered = generation()
        key = (what, exprs, kept, chosen, registered)
        stated = self.frame.where_defined(exprs)
        frame = stated.reading
        found = frame.answers.get(key)
        if found is not None:
            return found
        answer = self._answered(what, frame, exprs, kept, chosen)
        if not _is_certified(answer) and (narrower := frame.narrowest) is not None:
            answer = _better(answer, self._answered(what, narrower, exprs, kept, chosen))
        if what == "bounds":
            asked = AskedBounds(exprs[0], stated.ranges, stated.facts, stated.defined, kept, chosen)
            return frame.remember(key, answer.answering(asked))
        return frame.remember(key, where_nonempty(answer, _nonempty(frame, kept, chosen, registered)))

    def _answered(
        self, what: str, frame: Frame, exprs: tuple[Expr, ...], kept: tuple[Var, ...], chosen: configuration.Config
    ) -> Any:
        """What the domain says at the points of a frame."""
        query = frame.query(exprs, kept, chosen)
        if what == "region" and (stated := self.frame.where_defined(exprs)) is not self.frame:
            alone = [self.frame.where_defined((e,)).reading for e in exprs]
            if frame is not stated.reading:
                alone = [one.narrowest or one for one in alone]
            query.alone = tuple(one.query((e,), kept, chosen) for one, e in zip(alone, exprs, strict=True))
        return _ASKED[what](query, domain_named(chosen.domain))

    def __reduce__(self) -> tuple[object, ...]:
        frame = self.frame
        return (Context, (dict(frame.ranges), frame.facts, self.domain))

    def __repr__(self) -> str:
        frame = self.frame
        variables = ", ".join(f"{v} in [{r.min}, {r.max}]" for v, r in frame.ranges.items())
        facts = "; ".join(map(repr, frame.facts))
        return f"<Context {variables or 'no variables'}{' | ' + facts if facts else ''}>"


def _is_certified(answer: Any) -> bool:
    return bool(answer.is_tight if isinstance(answer, Bounds) else answer.is_exact)


def _better(answer: Any, other: Any) -> Any:
    """Of two sound answers the one that is certified for more; the box of a region is no looser than that of either."""
    if _is_certified(other) or (isinstance(other, IntSet) and other.is_tight and not answer.is_tight):
        return other
    if isinstance(answer, Region) and other.sides is not None:
        answer = copy(answer)
        answer.sides = other.sides if answer.sides is None else MetSides(answer.sides, other.sides)
    return answer


def _image_by(query: Query, domain: Domain) -> IntSet:
    return domain.image(query)


_ASKED: dict[str, Callable[[Query, Domain], Any]] = {"bounds": bounds_by, "image": _image_by, "region": region_by}


def _nonempty(frame: Frame, kept: tuple[Var, ...], chosen: configuration.Config, registered: int) -> Nonempty | None:
    """Where the parameters leave a point, if any are spoken of: one object for all questions of a scope."""
    if not kept and not frame.speaks_of_sizes:
        return None
    key = ("nonempty", kept, chosen, registered)
    known = frame.answers.get(key)
    if known is None:
        stated = [fact.condition for fact in frame.facts]
        known = frame.remember(key, Nonempty(frame.ranges, frame.conditions, kept, chosen, frame.running, stated))
    found: Nonempty = known
    return None if found.is_settled() else found


def report(facts: Sequence[Fact]) -> None:
    text = "; ".join(repr(fact) for fact in facts)
    warnings.warn(f"the facts exclude one another: {text}", ContradictionWarning, stacklevel=3)


def _tuple_of_exprs(given: object, wanted: str) -> tuple[Expr, ...]:
    if isinstance(given, (Node, str, bytes)) or not isinstance(given, Sequence):
        raise InputError(f"{wanted} of expressions, not {shown(given)}")
    return tuple(as_expr(e, "an expression") for e in given)


def _listed(conditions: Any) -> tuple[Any, ...]:
    return (conditions,) if isinstance(conditions, (Cond, Fact)) else listed(conditions, "conditions", "a list of them")


def _facts_of(given: Any, provenance: str) -> Iterator[Fact]:
    if isinstance(given, Fact):
        given, provenance = given.condition, given.provenance
    if provenance not in PROVENANCES:
        raise InputError(f"provenance must be one of {', '.join(PROVENANCES)}, not {shown(provenance)}")
    for part in conjuncts(as_cond(given, "a fact")):
        yield Fact(part, provenance)
