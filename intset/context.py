"""`Context`: variables with ranges, facts with provenance, and every question that can be asked of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from intset import config as configuration
from intset.assuming import Assuming, within_blocks
from intset.domains.base import Bounds, IntSet, bounds_of
from intset.domains.query import Query
from intset.domains.region import Region
from intset.domains.registry import domain_named
from intset.domains.relation import Relation
from intset.errors import ContradictionWarning, InputError
from intset.expr.definedness import definedness, embedded_claims
from intset.expr.digits import shown
from intset.expr.length import as_width
from intset.expr.node import Cond, Expr, IntLike, Node, Var, as_cond, as_expr, truth
from intset.expr.range import Range
from intset.expr.walk import conjuncts
from intset.facts import ASSERTED, ASSUMED, DERIVED, Fact
from intset.linear.canonical import Normalizer
from intset.linear.refine import narrow
from intset.prover.asked import AskedBounds
from intset.prover.cache import prove_once
from intset.prover.proof import Proof
from intset.ranges import base_normalizer, checked_ranges, checked_var, occupied
from intset.stated import stated_as_ranges

if TYPE_CHECKING:
    from intset.prover.explain import Explanation

MAX_CACHED_ANSWERS = 4096


class Frame:
    """One scope: the facts that hold in it, canonical forms under them, and the answers found in it.

    `defined` are conditions under which the question and the facts have a value; `requires` those of them, side
    conditions of an answer, that do not follow from what is known.

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
        self._fingerprint: tuple[Any, ...] | None = None
        self._reading: Frame | None = None
        self.base = base_normalizer(ranges) if base is None else base
        multiples = [(var % step).eq(0) for var in ranges if (step := var.declared()[2]) > 1]
        full = occupied(ranges, self.base) if self.base.knowledge.limits else ()
        if not facts and not defined and not multiples and not full:
            self.conditions: tuple[Cond, ...] = ()
            self.known = self.base
            self.answers: dict[Any, Any] = {}
            self.verdicts: dict[tuple[object, ...], str] = {}
            return
        stated = tuple(fact.condition for fact in facts)
        held = [cond for cond in (*multiples, *full, *stated, *defined) if not _is_true(self.base, cond)]
        if self.base.met_partial:  # a fact holds where it is defined
            held += [need for need in definedness((*full, *stated)) if not _is_true(self.base, need)]
        self.conditions = tuple(dict.fromkeys(held))
        self.known = narrow(self.base, self.conditions) if self.conditions else self.base
        self.answers = {}
        self.verdicts = {}

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """Ranges and facts as a key: equal for frames that state the same. Its parts are compared by identity."""
        found = self._fingerprint
        if found is None:
            parts: list[Any] = [len(self.ranges)]
            for var, limits in self.ranges.items():
                parts += (var, limits.min, limits.extent)
            for fact in self.facts:
                parts += (fact.condition, fact.provenance)
            found = self._fingerprint = tuple(parts)
        return found

    def stating(self, facts: tuple[Fact, ...]) -> Frame:
        """The frame of the same ranges under other facts."""
        return Frame(self.ranges, facts)

    @property
    def reading(self) -> Frame:
        """The same points, with facts that could have been ranges as ranges; this frame where there are none."""
        found = self._reading
        if found is None:
            found = self._reading = self._read()
        return found

    def _read(self) -> Frame:
        narrower = stated_as_ranges(self.ranges, self.facts, self.base) if self.facts else None
        return self if narrower is None else Frame(*narrower, self.defined, self.requires)

    def query(self, exprs: Sequence[Expr], keep: Sequence[Var], config: configuration.Config) -> Query:
        """The question for the values of `exprs` at the points of this frame."""
        asked = Query(exprs, self.ranges, self.conditions, keep, self.base, self.known, config)
        asked.verdicts = self.verdicts
        return asked

    def where_defined(self, roots: Sequence[Node]) -> Frame:
        """This frame with the conditions under which `roots` are defined as facts."""
        known = self.known
        for root in roots:
            known.cond(root) if isinstance(root, Cond) else known.form(root)  # type: ignore[arg-type]
        if not known.met_partial:
            return self
        key = ("defined", tuple(roots))
        found = self.answers.get(key)
        if found is None:
            found = self.remember(key, _where_defined(self, roots))
        return found  # type: ignore[no-any-return]

    def remember(self, key: Any, answer: Any) -> Any:
        if len(self.answers) >= MAX_CACHED_ANSWERS:
            self.answers.clear()
        self.answers[key] = answer
        return answer


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
        table, ends = checked_ranges(ranges or {})
        self.domain = None if domain is None else configuration.checked("domain", domain, "Context(domain=)")
        facts = (*ends, *(part for given in _listed(assume) for part in _facts_of(given, ASSUMED)))
        self._root = root = Frame(table, facts)
        root.fingerprint  # noqa: B018  # made here, so that the first question need not
        if root.known.empty and (excluding := _contradiction(root)):
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
        given = (vars,) if isinstance(vars, Var) else vars
        if isinstance(given, (str, Set)) or not isinstance(given, Iterable):  # a set has no order of its own
            raise InputError(f"vars must be a sequence of variables, not {shown(vars)}")
        return cls(dict.fromkeys(checked_var(var) for var in given), conditions, domain)

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def ranges(self) -> Mapping[Var, Range]:
        """The range of each variable that has one."""
        return dict(self._frame.ranges)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts in force, oldest first."""
        return self._frame.facts

    @property
    def contradiction(self) -> tuple[Fact, ...]:
        """Facts that exclude one another whatever the ranges are, as far as that is known; empty when none do."""
        return _contradiction(self._frame)

    def assuming(self, *conditions: Cond | Fact, provenance: str = ASSUMED) -> Assuming:
        """Facts that hold inside the `with` block only; nothing derived from them outlives it.

        They hold in the thread or task that enters the block, until the block ends, in whatever order blocks end; the
        end of a block removes its own facts only. Other threads and tasks, those started inside of the block included,
        do not have them. (A generator that is suspended in a block has not left it.) `extended`, `renamed` and a
        pickled copy take over what is in force where they are made, for good.

        A condition that contradicts what is known makes the block unreachable: there everything is proved, `vacuous`.
        """
        return Assuming(self, tuple(part for given in conditions for part in _facts_of(given, provenance)))

    def extended(
        self,
        ranges: Mapping[Var, Range | None] | None = None,
        facts: Iterable[Cond | Fact] = (),
        provenance: str = DERIVED,
    ) -> Context:
        """A new context with further variables and facts; this one is not changed."""
        frame = self._frame
        table, ends = checked_ranges({**frame.ranges, **(ranges or {})})
        added = tuple(part for given in _listed(facts) for part in _facts_of(given, provenance))
        new = Context.__new__(type(self))
        new.domain = self.domain
        new._root = Frame(table, (*frame.facts, *ends, *added))
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
        from intset.renaming import renamed

        return renamed(self, replacements, ranges or {})

    # -- questions ----------------------------------------------------------------------------------------------

    def bounds(self, e: IntLike, keep: Sequence[Var] = (), domain: str | None = None) -> Bounds:
        """The two ends of the values of `e`.

        Parameters
        ----------
        e: the expression.
        keep: variables that stay symbolic in the answer although they have a range.
        domain: name of the domain to ask, instead of the configured one.
        """
        return self._ask("bounds", (as_expr(e, "the expression"),), keep, domain)  # type: ignore[no-any-return]

    def value_set(self, e: IntLike, keep: Sequence[Var] = (), domain: str | None = None) -> IntSet:
        """The set of values of `e`; parameters as for `bounds`."""
        return self._ask("image", (as_expr(e, "the expression"),), keep, domain)  # type: ignore[no-any-return]

    def image(self, exprs: Sequence[IntLike], keep: Sequence[Var] = (), domain: str | None = None) -> Region:
        """The points that the tuple `exprs` reaches; parameters as for `bounds`."""
        if isinstance(exprs, Node) or not isinstance(exprs, Sequence):
            raise InputError(f"image takes a tuple of expressions, not {shown(exprs)}")
        return self._ask("region", tuple(as_expr(e, "an expression") for e in exprs), keep, domain)  # type: ignore[no-any-return]

    def relation(
        self,
        sources: Sequence[IntLike],
        targets: Sequence[IntLike],
        keep: Sequence[Var] = (),
        domain: str | None = None,
    ) -> Relation:
        """The pairs that the tuples `sources` and `targets` reach together; parameters as for `bounds`."""
        for given in (sources, targets):
            if isinstance(given, Node) or not isinstance(given, Sequence):
                raise InputError(f"relation takes two tuples of expressions, not {given!r}")
        return Relation(self.image((*sources, *targets), keep, domain), len(sources))

    def prove(self, condition: Cond) -> Proof:
        """Whether `condition` holds at every point of this context: proved, refuted by a counterexample, or unknown."""
        goal = condition if isinstance(condition, Cond) else as_cond(condition, "the condition to prove")
        chosen = configuration.current(self.domain)
        frame = self._frame
        found = frame.answers.get((goal, chosen))
        if found is not None:
            return found  # type: ignore[no-any-return]
        return prove_once(frame, goal, chosen)

    def simplify(self, e: Any) -> Any:
        """A canonical, usually shorter, expression (or condition) that is equal wherever `e` is defined."""
        if isinstance(e, Cond):
            return self._frame.where_defined((e,)).known.cond(e)
        expr = as_expr(e, "the expression")
        known = self._frame.where_defined((expr,)).known
        return known.regroup(known.form(expr)).expr()

    def fits(self, e: IntLike, bits: int = 32) -> Proof:
        """Whether `e`, computed step by step in signed registers of `bits` bits, never overflows."""
        from intset.prover.width import fits

        width = as_width(bits, "bits")
        return fits(self, as_expr(e, "the expression"), width)

    def explain(self, question: Any) -> Explanation:
        """Why the answer to a condition (`prove`) or an expression (`bounds`) is what it is, in words."""
        from intset.prover.explain import explain

        return explain(self, question)

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _frame(self) -> Frame:
        """The scope that a question asked here is asked in: what the context was made with, and the blocks."""
        return within_blocks(self) if Assuming.entered.get() else self._root

    def _ask(self, what: str, exprs: tuple[Expr, ...], keep: Sequence[Var], domain: str | None) -> Any:
        chosen = configuration.current(self.domain if domain is None else domain)
        kept = tuple(checked_var(var) for var in ((keep,) if isinstance(keep, Var) else keep)) if keep != () else ()
        key = (what, exprs, kept, chosen)
        frame = self._frame.where_defined(exprs).reading
        found = frame.answers.get(key)
        if found is not None:
            return found
        query = frame.query(exprs, kept, chosen)
        if what == "region" and frame is not self._frame.reading:
            query.alone = tuple(self._frame.where_defined((e,)).reading.query((e,), kept, chosen) for e in exprs)
        answering = domain_named(chosen.domain)
        if what == "image":
            return frame.remember(key, answering.image(query))
        method = getattr(answering, what, None)
        if what == "bounds":
            ends = method(query) if callable(method) else bounds_of(answering.image(query))
            asked = AskedBounds(exprs[0], frame.ranges, frame.facts, frame.defined, kept, chosen)
            return frame.remember(key, ends.answering(asked))
        if callable(method):
            return frame.remember(key, method(query))
        from intset.domains.box import region_of_sets

        return frame.remember(key, region_of_sets(query, answering))

    def __reduce__(self) -> tuple[Any, ...]:
        frame = self._frame
        return (Context, (dict(frame.ranges), frame.facts, self.domain))

    def __repr__(self) -> str:
        frame = self._frame
        variables = ", ".join(f"{v.name} in [{r.min}, {r.max}]" for v, r in frame.ranges.items())
        facts = "; ".join(map(repr, frame.facts))
        return f"<Context {variables or 'no variables'}{' | ' + facts if facts else ''}>"


def _contradiction(frame: Frame) -> tuple[Fact, ...]:
    found = frame.answers.get("contradiction")
    if found is None:
        found = frame.remember("contradiction", contradicting(frame.facts))
    return found  # type: ignore[no-any-return]


def undecided(reason: str) -> Proof:
    """The answer to a question that could not be asked: `reason` says why."""
    return Proof(truth(False), "unknown", "", reason=reason)


def _is_true(base: Normalizer, condition: Cond) -> bool:
    return not base.clauses(condition)


def contradicting(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Facts of which none can be left out and that no values of the variables satisfy; empty when none are found."""
    if not facts or not Frame({}, tuple(facts)).known.empty:
        return ()
    kept = list(facts)
    for fact in facts:
        fewer = [other for other in kept if other is not fact]
        if fewer and Frame({}, tuple(fewer)).known.empty:
            kept = fewer
    return tuple(kept)


def report(facts: Sequence[Fact]) -> None:
    text = "; ".join(repr(fact) for fact in facts)
    warnings.warn(f"the facts exclude one another: {text}", ContradictionWarning, stacklevel=3)


def _where_defined(frame: Frame, roots: Sequence[Node]) -> Frame:
    """`frame` restricted to the points where the roots have a value: their assertions hold, no divisor is 0."""
    needs = [need for need in definedness(roots) if not _is_true(frame.known, need)]
    if not needs:
        return frame
    claims = dict.fromkeys(part for claim in embedded_claims(roots) for part in conjuncts(claim))
    asserted = tuple(Fact(claim, ASSERTED) for claim in claims)
    inside = Frame(frame.ranges, (*frame.facts, *asserted), frame.defined, base=frame.base) if asserted else frame
    open_needs = tuple(need for need in needs if not _is_true(inside.known, need))
    if not open_needs:
        return inside
    return Frame(frame.ranges, inside.facts, (*frame.defined, *open_needs), open_needs, frame.base)


def _listed(conditions: Any) -> Iterable[Any]:
    if isinstance(conditions, (Cond, Fact)):
        return (conditions,)
    if isinstance(conditions, str) or not isinstance(conditions, Iterable):
        raise InputError(f"conditions are given as a list of them, not as {shown(conditions)}")
    return conditions


def _facts_of(given: Any, provenance: str) -> Iterator[Fact]:
    if isinstance(given, Fact):
        condition, provenance = given.condition, given.provenance
    else:
        condition = as_cond(given, "a fact")
    for part in conjuncts(condition):
        yield Fact(part, provenance)
