"""`Context`: variables with ranges, facts with provenance, and the queries that users ask."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar, overload

from intset import config as configuration
from intset import facts as statements
from intset.config import AUTO, CACHED_ANSWERS
from intset.domains.sets.ends import Bounds
from intset.errors import ContradictionWarning, InputError, IntSetError
from intset.expr import Cond, Expr, IntLike, Node, Range, Var, arguments, as_cond, as_expr, shown
from intset.expr.evaluate import as_width
from intset.expr.node import Kind, ShapeVar
from intset.expr.printer import Displayed
from intset.facts import ASSUMED, DERIVED, Assuming, Fact, VarEnds, within_blocks
from intset.installation import load_later
from intset.plain import ValueRows, ends
from intset.trace import DEBUG, LOG, TRACES, Trace, from_cache, recorded, tried

if TYPE_CHECKING:
    from intset.cache import StoredQuestion
    from intset.check.certificate import BoundsCertificate
    from intset.domains.registry import domain_named
    from intset.domains.sets.answers import ASKED, CALLED, RankedDomain, at_sizes, better, bounds_at_once, is_certified
    from intset.domains.sets.base import IntSet
    from intset.domains.sets.region import Region, Relation
    from intset.domains.sets.where import nonempty_at, where_nonempty
    from intset.frame import Frame, coalesced
    from intset.itermap.itermap import IterMap, PreimageCount, iter_map, whole_box
    from intset.prover.certify_bounds import AskedBounds, Simplified, simplified_in_steps
    from intset.prover.explain import Explanation, explain
    from intset.prover.proof import Proof, fits, prove_once
    from intset.ranges import renamed
    from intset.simplify.engine import COST, SIMPLIFY_ROUNDS, at_once, simplified, weights
    from intset.simplify.irreducible import IntervalBox, part_of
    from intset.solving import Narrowed, Solved, narrowed, solutions, solved_equations
else:
    _FIRST_OFF_THE_PLAIN_WAY = {
        "intset.cache": ("StoredQuestion",),
        "intset.domains.registry": ("domain_named",),
        "intset.domains.sets.answers": (
            "ASKED",
            "CALLED",
            "RankedDomain",
            "at_sizes",
            "better",
            "bounds_at_once",
            "is_certified",
        ),
        "intset.domains.sets.region": ("Relation",),
        "intset.domains.sets.where": ("nonempty_at", "where_nonempty"),
        "intset.frame": ("Frame", "coalesced"),
        "intset.itermap.itermap": ("PreimageCount", "iter_map", "whole_box"),
        "intset.prover.certify_bounds": ("AskedBounds", "simplified_in_steps"),
        "intset.prover.explain": ("explain",),
        "intset.prover.proof": ("fits", "prove_once"),
        "intset.ranges": ("renamed",),
        "intset.simplify.engine": ("COST", "SIMPLIFY_ROUNDS", "at_once", "simplified", "weights"),
        "intset.simplify.irreducible": ("IntervalBox", "part_of"),
        "intset.solving": ("narrowed", "solutions", "solved_equations"),
    }
    load_later(globals(), _FIRST_OFF_THE_PLAIN_WAY)

P = ParamSpec("P")
T = TypeVar("T")
Over: TypeAlias = Sequence[Var] | Mapping[Var, IntLike] | str  # sizes that a question quantifies, or fixes

NOTHING: Final = ()  # the default of `keep` and `over`; another empty list takes the general road


class Context(Displayed):
    """Ranges of variables and facts, the assumptions of an analysis.

    Parameters
    ----------
    ranges: `{Var: Range}`, where `Range(min, extent)` is half-open, `[min, min + extent)`; `None` means all integers. A
        variable without an entry is a parameter: it stays symbolic in answers, within its declared bounds.
    assume: conditions that become *assumed* facts, as those of `assuming`; those of `extended(facts=)` are *derived*.
        A `Fact` keeps its own provenance.
    domain: name of the domain, overriding the configured one.

    Raises
    ------
    InputError: wrong type of a key, range or assumption; a range that depends on itself.

    Contradictory facts are no error: every condition is then proved `vacuous`, and a `ContradictionWarning` lists the
    facts when the contradiction is found.

    Guarantee: returned sets are supersets of the true sets, and proofs and refutations are correct, under every
    configuration and budget.

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
        self.domain = None if domain is None else configuration.checked("domain", domain, "Context(domain=)")
        stated: tuple[Fact, ...] = ()
        if not isinstance(assume, (tuple, list)) or assume:
            stated = statements.facts_of(assume, ASSUMED)
        table, ends = statements.checked_ranges(ranges)
        box = None if ends else _numeric(table)
        if not stated and not ends and (box is not None or all(_is_free(limits, table) for limits in table.values())):
            self._box, self._met, self._plain_answers = table, box, {}
            return
        self._stated = table, (*ends, *stated)
        met = None if box is None else statements.ends_met(box, [fact.condition for fact in stated])
        if met is not None:
            self._met = met[1]
            return
        self._part = None if ends else part_of(table, [fact.condition for fact in stated])
        if self._part is None and self._root.known.empty and (excluding := self._root.contradiction):
            report(excluding)

    _box: Mapping[Var, Range] | None = None  # the ranges, if nothing else was stated
    _met: dict[Var, VarEnds] | None = None  # numeric ends of variables, if each fact states an end
    _part: IntervalBox | None = None  # some points that satisfy ranges and facts, which do not contradict each other
    _plain_answers: dict[tuple[Expr, configuration.Config], Bounds]

    _scope: Frame | None = None
    _stated: tuple[Mapping[Var, Range], tuple[Fact, ...]] = {}, ()

    @property
    def _root(self) -> Frame:
        """The scope outside all blocks, made by the first question that takes the general road."""
        root = self._scope
        if root is None:
            root = self._scope = Frame(*self._stated) if self._box is None else Frame(self._box, ())
        return root

    @classmethod
    def from_constraints(
        cls, vars: Sequence[Var], conditions: Iterable[Cond | Fact], domain: str | None = None
    ) -> Context:
        """The context of the integer points that satisfy all conditions.

        Parameters
        ----------
        vars: the coordinates of these points; all other variables are parameters.
        conditions: `i >= 0`, `i < n`, `i + j <= 7`, ...; conditions that bound one variable become its range.
        domain: as for `Context`.

        Example
        -------
        >>> i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
        >>> Context.from_constraints([i, j], [0 <= i, i < n, 0 <= j, j < m]).bounds(i * m + j)
        (0, n * m - 1)
        """
        return cls(dict.fromkeys(statements.listed_vars(vars, "vars")), conditions, domain)

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def ranges(self) -> Mapping[Var, Range]:
        """The range of each variable that has one."""
        return dict(self.frame.ranges)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The active facts, oldest first."""
        return self.frame.facts

    @property
    def contradiction(self) -> tuple[Fact, ...]:
        """A minimal set of facts found contradictory without the ranges; empty if none is found."""
        return self.frame.contradiction

    def assuming(self, *conditions: Cond | Fact, provenance: str = ASSUMED) -> Assuming[Context]:
        """Assume facts inside a `with` block; nothing derived from them outlives the block.

        The facts are active in the thread or task that enters the block; tasks started inside it do not inherit them.
        Blocks may end in any order; the end removes the block's own facts. A suspended generator stays inside its
        block. `extended`, `renamed` and pickling copy the active facts permanently.

        A condition that contradicts the context makes the block unreachable: every condition is proved `vacuous`.
        """
        return Assuming(self, self._root, statements.facts_of(conditions, provenance))

    def extended(
        self,
        ranges: Mapping[Var, Range | None] | None = None,
        facts: Iterable[Cond | Fact] = (),
        provenance: str = DERIVED,
    ) -> Context:
        """A new context with further variables and facts; conditions become *derived* facts by default."""
        frame = self.frame
        added = statements.facts_of(facts, provenance)
        return self._within(frame.extended(statements.as_ranges(ranges), added))

    def coalesced(self, exprs: Sequence[IntLike], keep: Sequence[Var] = ()) -> tuple[Context, tuple[Expr, ...]] | None:
        """A context and expressions with equal values, over fewer variables; see `intset.frame`.

        Example
        -------
        >>> io, ii, n = Var("io"), Var("ii"), ShapeVar("n")
        >>> split = Context({io: Range(0, ceildiv(n, 4)), ii: Range(0, 4)}, assume=[io * 4 + ii < n])
        >>> split.coalesced([io * 8 + ii * 2])
        (<Context 'ii+io' in [0, n - 1] | derived: ceildiv(n, 4) >= 1>, ('ii+io' * 2,))
        """
        roots = _tuple_of_exprs(exprs, "coalesced takes a tuple")
        simpler = coalesced(self.frame, roots, statements.listed_vars(keep, "keep"))
        if simpler is None:
            return None
        return self._within(simpler[0]), simpler[1]

    def renamed(self, replacements: Mapping[Var, IntLike], ranges: Mapping[Var, Range | None] | None = None) -> Context:
        """The context under a substitution of variables; facts keep their provenance.

        Parameters
        ----------
        replacements: an expression for each replaced variable: `{i: io * 4 + ii}`.
        ranges: ranges of new variables.

        Ranges and declarations of old variables become derived and declared facts about the expressions. A plain
        variable without a range inherits the range of the variable it replaces.

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

    def bounds(
        self,
        e: IntLike,
        keep: Sequence[Var] = (),
        domain: str | None = None,
        over: Over = (),
        effort: str | None = None,
    ) -> Bounds:
        """Both ends of the values of `e`, inclusive.

        Parameters
        ----------
        e: the expression.
        keep: variables with ranges that stay symbolic in the answer.
        domain: name of the domain, overriding the configured one.
        over: sizes, variables without a range, that the answer eliminates by their declared bounds and the facts; or
            "sizes" for all. The ends are then the least and the greatest over all allowed sizes with a nonempty set.
            A mapping fixes sizes instead: `{n: 64}`, or by name `{"n": 64}`.
        effort: "fast", "default" or "full", overriding the configured one; see `intset.config.Config`.

        Example
        -------
        >>> i, n, t = Var("i"), ShapeVar("n"), ShapeVar("t", lower=1, upper=64)
        >>> ctx = Context({i: Range(0, n)}, assume=[n <= t * 2])
        >>> ctx.bounds(i * 3), ctx.bounds(i * 3, over=[n]), ctx.bounds(i * 3, over="sizes")
        ((0, n * 3 - 3), (0, t * 6 - 3), (0, 381))
        >>> ctx.bounds(i * 3, over={n: 8})
        (0, 21)
        """
        if effort is not None:
            return configuration.asked_with(effort, self.bounds, e, keep, domain, over)
        return self._bounds(e, keep, domain, over)

    def _bounds(
        self, e: IntLike, keep: Sequence[Var], domain: str | None, over: Over, shared: ValueRows | None = None
    ) -> Bounds:
        root = as_expr(e, "the expression")
        is_plain = self._box is not None and keep is NOTHING is over
        plain = self._plain_bounds(root, domain, shared) if is_plain else None
        answer: Bounds = self._ask("bounds", (root,), keep, domain, over) if plain is None else plain
        return answer

    def bounds_many(
        self,
        exprs: Iterable[IntLike],
        keep: Sequence[Var] = (),
        domain: str | None = None,
        over: Over = (),
        effort: str | None = None,
    ) -> list[Bounds | IntSetError]:
        """The answers of `bounds` for each expression, in their order; a question that fails has its error there.

        Terms that several expressions share are read once.

        Example
        -------
        >>> i, j = Var("i"), Var("j")
        >>> Context({i: Range(0, 8), j: Range(0, 4)}).bounds_many([i * 4 + j, (i * 4 + j) // 8, "i"])
        [(0, 31), (0, 3), InputError('the expression must be an expression, not the text "i": ...
        """
        if effort is not None:
            return configuration.asked_with(effort, self.bounds_many, exprs, keep, domain, over)
        rows = ValueRows()
        items = arguments.listed(exprs, "exprs", "expressions")
        return [_answer_or_error(self._bounds, e, keep, domain, over, rows) for e in items]

    def prove_many(self, conditions: Iterable[Cond], effort: str | None = None) -> list[Proof | IntSetError]:
        """The answers of `prove` for each condition, in their order; a question that fails has its error there.

        Example
        -------
        >>> i = Var("i")
        >>> [proof.status for proof in Context({i: Range(0, 8)}).prove_many([i < 8, i < 7])]
        ['proved', 'refuted']
        """
        if effort is not None:
            return configuration.asked_with(effort, self.prove_many, conditions)
        return [_answer_or_error(self.prove, cond) for cond in arguments.listed(conditions, "conditions", "conditions")]

    def value_set(
        self,
        e: IntLike,
        keep: Sequence[Var] = (),
        domain: str | None = None,
        over: Over = (),
        effort: str | None = None,
    ) -> IntSet:
        """The set of values of `e`; parameters as for `bounds`."""
        if effort is not None:
            return configuration.asked_with(effort, self.value_set, e, keep, domain, over)
        answer: IntSet = self._ask("image", (as_expr(e, "the expression"),), keep, domain, over)
        return answer

    def image(
        self, exprs: Sequence[IntLike], keep: Sequence[Var] = (), domain: str | None = None, effort: str | None = None
    ) -> Region:
        """The image of the context under the tuple `exprs`; parameters as for `bounds`."""
        if effort is not None:
            return configuration.asked_with(effort, self.image, exprs, keep, domain)
        point = _tuple_of_exprs(exprs, "image takes a tuple")
        answer: Region = self._ask("region", point, keep, domain)
        answer.point = point
        if not answer.is_exact:
            answer = copy(answer)  # the kept one must not hold the context
            answer._preimage = PreimageCount(self._within(self.frame), point, tuple(keep))
        return answer

    def relation(
        self,
        sources: Sequence[IntLike],
        targets: Sequence[IntLike],
        keep: Sequence[Var] = (),
        domain: str | None = None,
        effort: str | None = None,
    ) -> Relation:
        """The relation between the tuples `sources` and `targets`; parameters as for `bounds`."""
        first, last = (_tuple_of_exprs(exprs, "relation takes two tuples") for exprs in (sources, targets))
        return Relation(self.image((*first, *last), keep, domain, effort), len(first))

    def as_iter_map(self, exprs: Sequence[IntLike]) -> IterMap:
        """The map from the variables with ranges to a tuple of indices; see `IterMap` for its properties, inverse and
        padding.

        >>> i, j = Var("i"), Var("j")
        >>> Context({i: Range(0, 4), j: Range(0, 3)}).as_iter_map([i * 4 + j]).surjective.points
        ((3,),)
        """
        return iter_map(self, tuple(self.frame.ranges), exprs)

    def prove(self, condition: Cond, effort: str | None = None) -> Proof:
        """Prove `condition` for all points of this context, refute it by a counterexample, or answer unknown.

        Parameters
        ----------
        effort: "fast", "default" or "full", overriding the configured one; see `intset.config.Config`.
        """
        if effort is not None:
            return configuration.asked_with(effort, self.prove, condition)
        goal = condition if isinstance(condition, Cond) else as_cond(condition, "the condition to prove")
        chosen = configuration.current(self.domain)
        frame = self.frame if Assuming.entered.get() else self._root
        cached: Proof | None = frame.answers.get((goal, chosen, configuration.generation))
        if cached is not None:
            return from_cache("prove", goal, cached) if TRACES else cached
        return prove_once(frame, goal, chosen)

    @overload
    def simplify(
        self,
        e: Cond,
        cost: Mapping[str, int] | None = None,
        steps: Literal[False] = False,
        bits: int | None = None,
        effort: str | None = None,
    ) -> Cond: ...
    @overload
    def simplify(
        self,
        e: IntLike,
        cost: Mapping[str, int] | None = None,
        steps: Literal[False] = False,
        bits: int | None = None,
        effort: str | None = None,
    ) -> Expr: ...
    @overload
    def simplify(
        self,
        e: Kind,
        cost: Mapping[str, int] | None = None,
        *,
        steps: Literal[True],
        bits: int | None = None,
        effort: str | None = None,
    ) -> Simplified[Kind]: ...
    def simplify(
        self,
        e: IntLike | Node,
        cost: Mapping[str, int] | None = None,
        steps: bool = False,
        bits: int | None = None,
        effort: str | None = None,
    ) -> Node | Simplified[Node]:
        """The cheapest expression (or condition) found equal to `e` wherever `e` is defined.

        Parameters
        ----------
        e: the expression or condition.
        cost: weights of operations by name, at least 1, overriding `intset.COST`.
        steps: return a `Simplified` with `.expr`, `.steps` and `.requires`; only certified replacements are applied.
        bits: register width; excludes forms whose intermediate values may overflow it, unless `e` itself may.
        effort: "fast", "default" or "full", overriding the configured one; see `intset.config.Config`.

        Guarantee: neither cost (`intset.cost`) nor number of operations exceeds that of `e`, and simplification is
        idempotent. Definedness may grow but never shrink: a partial operation never leaves its branch.

        Raises
        ------
        InputError: `cost` has an unknown operation or a weight below 1.

        Example
        -------
        >>> x, y = Var("x"), Var("y")
        >>> Context({x: Range(0, 8)}).simplify(minimum(x + y, y + 7) - y)
        x
        """
        if effort is not None:
            ask: Any = self.simplify
            answer: Node | Simplified[Node] = configuration.asked_with(effort, ask, e, cost, steps, bits)
            return answer
        root = e if isinstance(e, Cond) else as_expr(e, "the expression")
        table = COST if cost is None else weights(cost)
        width = None if bits is None else as_width(bits, "bits")
        if steps is not False and arguments.a_flag(steps, "steps"):
            return simplified_in_steps(self.frame, root, table, width, configuration.current(self.domain))
        is_observed = bool(TRACES) or LOG.isEnabledFor(DEBUG)
        if table is COST:
            box = self._intervals()
            seen = None if box is None else at_once(root, box, width, not is_observed)
            if seen is None and (box is None or box.is_part):
                seen = at_once(root, self.frame.known, width, not is_observed)
            if seen is not None:
                return seen
        scope = self.frame
        frame = scope.where_defined((root,))
        for _ in range(SIMPLIFY_ROUNDS):  # until a fixed point
            key = ("simplify", root, None if table is COST else tuple(table.items()), width)
            cached = frame.answers.get(key)
            new: Any = cached
            if cached is None:
                ask = partial(simplified, root, frame.known, table, width)
                new = frame.remember(key, recorded("simplify", root, ask) if is_observed else ask())
            # what equals a total expression is total: only a partial one may lose conditions of its definedness
            inside = frame if new is root or frame is scope else scope.where_defined((new,))
            root = new
            if inside is frame:
                break
            frame = inside
        return root

    @overload
    def canonical(self, e: Cond) -> Cond: ...
    @overload
    def canonical(self, e: IntLike) -> Expr: ...
    def canonical(self, e: IntLike | Cond) -> Node:
        """The linear form of `e` as an expression (or the canonical condition), unique for expressions of that form.

        Equal to `e` wherever `e` is defined. It may be longer than `e`: use it to compare and prove, and `simplify` to
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

    def solve(self, cond: Cond, x: Var, effort: str | None = None) -> IntSet:
        """The values of `x` that satisfy `cond`, with ends over the other variables; exact or a superset.

        Example
        -------
        >>> x, n = Var("x"), ShapeVar("n")
        >>> Context({x: Range(0, n)}).solve((x * 4 + 3 < n) & (x > 2), x)
        <ShapeSet [n] -> { [i0] : n > 0 and 3 <= i0 < n and 4i0 <= -4 + n } exact by isl>
        """
        if effort is not None:
            return configuration.asked_with(effort, self.solve, cond, x)
        return solutions(self, cond, x)

    def narrow(self, cond: Cond, keep: Sequence[Var], effort: str | None = None) -> Narrowed:
        """The weakest condition over `keep` that implies `cond` for all values of the other variables.

        `.cond` is sufficient, `truth(False)` at worst; `.is_exact` tells whether it is proved weakest.

        Example
        -------
        >>> x, y = Var("x"), Var("y")
        >>> Context({y: Range(0, 4)}).narrow(x + y < 10, [x]).cond
        x < 7
        """
        if effort is not None:
            return configuration.asked_with(effort, self.narrow, cond, keep)
        return narrowed(self, cond, keep)

    def solve_equations(self, conds: Sequence[Cond], variables: Sequence[Var]) -> Solved:
        """The integer solutions of equations that are linear in `variables`.

        `.values` expresses each variable over fresh variables, `.context` has the ranges and facts of these, and
        `.cond` is the solvability condition on all other variables.

        Raises
        ------
        InputError: a condition is not an equation linear in the variables.

        Example
        -------
        >>> x, y, n = Var("x"), Var("y"), Var("n")
        >>> found = Context().solve_equations([(x * 4 + y * 6).eq(n)], [x, y])
        >>> found.cond
        n % 2 == 0
        """
        return solved_equations(self, conds, variables)

    def fits(self, e: IntLike, bits: int = 32, effort: str | None = None) -> Proof:
        """Prove that no intermediate value of `e` overflows signed registers of `bits` bits."""
        if effort is not None:
            return configuration.asked_with(effort, self.fits, e, bits)
        width = as_width(bits, "bits")
        return fits(self, as_expr(e, "the expression"), width)

    def explain(self, question: Cond | Proof | IntLike, effort: str | None = None) -> Explanation:
        """Explain the answer for a condition (`prove`) or an expression (`bounds`) in words."""
        if effort is not None:
            return configuration.asked_with(effort, self.explain, question)
        return explain(self, question)

    def trace(self) -> Trace:
        """Record the questions of a block: `with ctx.trace() as t: ...`, then `print(t)`; see `Trace`.

        The trace has all questions of this thread or task in the block, also those of other contexts, `infer_bound`
        and `lower`. Tracing changes no answer.

        Example
        -------
        >>> i = Var("i")
        >>> ctx = Context({i: Range(0, 8)})
        >>> with ctx.trace() as t:
        ...     proof = ctx.prove(i * i < 50)
        >>> [(record.what, record.question, record.answer, record.by) for record in t.records]
        [('prove', 'i * i < 50', 'proved', 'linear')]
        """
        return Trace()

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The immutable scope of queries: this context with the blocks entered by this thread or task."""
        return within_blocks(self, self._root) if Assuming.entered.get() else self._root

    def _intervals(self) -> IntervalBox | None:
        """The ranges as intervals, or a box of some points; `None` without either, or once the scope is built."""
        if self._scope is not None or (Assuming.entered.get() and Assuming.in_force()):
            return None
        if self._met is not None:
            return IntervalBox(self._met)
        if self._part is None and self._box is not None:
            self._part = part_of(self._box)
        return self._part

    def _within(self, scope: Frame) -> Context:
        """A context with another scope."""
        new = Context.__new__(type(self))
        new.domain, new._scope = self.domain, scope
        return new

    def _plain_bounds(self, root: Expr, domain: str | None, shared: ValueRows | None) -> Bounds | None:
        """The ends over a box, in one pass; `None` where the general road is needed or observed."""
        if TRACES or (Assuming.entered.get() and Assuming.in_force()) or LOG.isEnabledFor(DEBUG):
            return None
        chosen = configuration.current(self.domain if domain is None else domain)
        if chosen.cache or chosen.domain != AUTO:
            return None
        ranges, known = self._box or {}, self._plain_answers
        answer = known.get((root, chosen))
        if answer is None and (found := ends(root, ranges, chosen.points, shared)) is not None:
            answer = Bounds(found[0], found[1], True, "linear" if found[2] else "points")
            answer.asked = tuple.__new__(AskedOfBox, (root, ranges, chosen))  # hot: without its constructor
            if len(known) >= CACHED_ANSWERS:
                known.clear()
            known[root, chosen] = answer
        return answer

    def _ask(
        self,
        what: str,
        exprs: tuple[Expr, ...],
        keep: Sequence[Var],
        domain: str | None,
        over: Over = (),
        is_recorded: bool = False,
    ) -> Any:
        chosen = configuration.current(self.domain if domain is None else domain)
        kept = () if keep is NOTHING else statements.listed_vars(keep, "keep")
        registered = configuration.generation
        scope = self.frame
        if isinstance(over, Mapping):
            scope, exprs = at_sizes(scope, exprs, kept, over)
        elif over is not NOTHING:
            scope = scope.over_sizes(exprs, kept, over)
        stated = scope.where_defined(exprs)
        frame = stated.bounded
        key = (what, exprs, kept, chosen, registered)
        cached = frame.answers.get(key)
        if cached is not None:
            return from_cache(CALLED[what], exprs if what == "region" else exprs[0], cached) if TRACES else cached
        if not is_recorded and (TRACES or LOG.isEnabledFor(DEBUG)):
            again = partial(self._ask, what, exprs, keep, domain, over, True)
            return recorded(CALLED[what], exprs if what == "region" else exprs[0], again)
        stored = StoredQuestion(what, frame, exprs, kept, chosen) if chosen.cache and what == "bounds" else None
        answer: Any = stored and tried("disk", stored.bounds)
        if answer is None and what == "bounds" and frame.facts and not frame.speaks_of_sizes:
            answer = bounds_at_once(frame.query(exprs, kept, chosen), domain_named(chosen.domain))
        if answer is None:
            simpler = coalesced(frame, exprs, kept) if frame.facts else None
            if what == "bounds" and simpler is None and not frame.known.empty and frame.tightened is not None:
                within = frame.tightened.query(exprs, kept, chosen)  # facts that are ends over sizes
                answer = bounds_at_once(within, domain_named(chosen.domain))
            answer = answer or self._answered(what, *(simpler or (frame, exprs)), kept, chosen)
            if what == "region" and not (answer.is_exact or kept or chosen.effort == configuration.Effort.FAST):
                inside, images = simpler or (frame, exprs)
                ranked = isinstance(domain_named(chosen.domain), RankedDomain)
                answer = whole_box(self._within(inside), answer, images) if ranked else answer
            if simpler is not None and not is_certified(answer):
                answer = better(self._answered(what, frame, exprs, kept, chosen), answer)
            if not is_certified(answer) and (narrower := frame.tightened) is not None:
                answer = better(answer, self._answered(what, narrower, exprs, kept, chosen))
        others = statements.namesakes(exprs, scope.ranges, scope.facts)
        if what == "bounds":
            if stored:
                stored.keep_bounds(answer)
            question = AskedBounds(exprs[0], stated.ranges, stated.facts, stated.defined, kept, chosen)
            return frame.remember(key, answer.answering(question, others))
        if others:
            answer.notes = (*answer.notes, *others)
        return frame.remember(key, where_nonempty(answer, nonempty_at(frame, kept, chosen, registered)))

    def _answered(
        self, what: str, frame: Frame, exprs: tuple[Expr, ...], kept: tuple[Var, ...], chosen: configuration.Config
    ) -> Any:
        """The answer of the domain in one frame."""
        query = frame.query(exprs, kept, chosen)
        if what == "region" and (stated := self.frame.where_defined(exprs)) is not self.frame:
            alone = [self.frame.where_defined((e,)).bounded for e in exprs]
            if frame is not stated.bounded:
                alone = [one.tightened or one for one in alone]
            query.alone = tuple(one.query((e,), kept, chosen) for one, e in zip(alone, exprs, strict=True))
        return ASKED[what](query, domain_named(chosen.domain))

    def __reduce__(self) -> tuple[object, ...]:
        frame = self.frame
        return (Context, (dict(frame.ranges), frame.facts, self.domain))

    def __repr__(self) -> str:
        frame = self.frame
        variables = ", ".join(f"{v} in [{r.min}, {r.max}]" for v, r in frame.ranges.items())
        facts = "; ".join(map(repr, frame.facts))
        return f"<Context {variables or 'no variables'}{' | ' + facts if facts else ''}>"


class AskedOfBox(NamedTuple):
    """A question about the bounds of an expression over a box, which nothing else states."""

    expr: Expr
    ranges: Mapping[Var, Range]
    config: configuration.Config

    def certificate(self, answer: Bounds) -> BoundsCertificate:
        """The checked certificate of the answer; InputError if the search fails."""
        return AskedBounds(self.expr, self.ranges, (), (), (), self.config).certificate(answer)


def _is_free(limits: Range, table: Mapping[Var, Range]) -> bool:
    """Whether a range has an element whatever the values of other ranged variables."""
    span = limits.ends
    return span[0] <= span[1] if span is not None else not any([v in table for v in limits.free_vars()])  # noqa: C419


def _numeric(table: Mapping[Var, Range]) -> dict[Var, VarEnds] | None:
    """The ends of nonempty numeric ranges; `None` if another range occurs, or a variable that declares bounds."""
    numeric: dict[Var, VarEnds] = {}
    for var, limits in table.items():
        ends = limits.ends
        if ends is None or ends[0] > ends[1] or isinstance(var, ShapeVar):
            return None
        numeric[var] = ends
    return numeric


def report(facts: Sequence[Fact]) -> None:
    text = "; ".join(repr(fact) for fact in facts)
    warnings.warn(f"the facts exclude one another: {text}", ContradictionWarning, stacklevel=3)


def _answer_or_error(question: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | IntSetError:
    try:
        return question(*args, **named)
    except IntSetError as error:
        return error


def _tuple_of_exprs(given: object, wanted: str) -> tuple[Expr, ...]:
    if isinstance(given, (Node, str, bytes)) or not isinstance(given, Sequence):
        raise InputError(f"{wanted} of expressions, not {shown(given)}")
    return tuple(as_expr(e, "an expression") for e in given)
