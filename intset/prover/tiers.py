"""The tiers of the prover, cheapest first; the first tier that decides gives the answer.

linear   the canonical condition is true, if need be case by case, or a guessed point refutes it
bits     rows over F2: a sum of rows that are 0 is 1, or both sides of an inequation have equal rows
isl      the violating points form an empty set, or a sample of them refutes the goal
points   the box is small: every point is evaluated; or local search among sizes finds a point that refutes the goal
z3       nonlinear and mixed goals

Guarantee: every counterexample was evaluated, so a tier may propose points of a relaxation.

`Basis`: ranges, facts, definedness conditions and budgets. `Decided`: status, tier and counterexample of an answer.
`ProofQuestion`: a goal in a scope, with the test that every tier applies to a proposed counterexample.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from intset.check.evidence import BITWISE, Expander
from intset.config import Config
from intset.domains.query import Deciding, Query, Regions, TierVerdict
from intset.domains.ranked import strongest
from intset.domains.witness import Point, aim, repaired, value_there, verdict_of_points
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Node, Range, Var, dag, ops
from intset.expr.build import logical_not
from intset.expr.definedness import definedness, embedded_claims, is_partial
from intset.expr.evaluate import evaluate
from intset.expr.node import truth
from intset.expr.range import declared_conditions, range_conditions
from intset.facts import DECLARED, Fact
from intset.frame import Frame, coalesced
from intset.linear.bitforms import BITWISE_NODES, speaks_of_bits
from intset.linear.bounds import first_of
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.signs import is_met
from intset.plain import ends
from intset.prover.bit_proofs import bit_proof, covers_all_values, follows_by_bits, holds_by_cases, holds_by_signs
from intset.prover.smt import SmtSession, effort, nesting
from intset.trace import OPEN, skipped, tried

Status: TypeAlias = Literal["proved", "refuted", "unknown"]
PROVED: Final = "proved"
REFUTED: Final = "refuted"
UNKNOWN: Final = "unknown"


class Basis(NamedTuple):
    """The assumptions and budgets of a question.

    Attributes
    ----------
    ranges, facts: the context's.
    defined: definedness conditions of the goal beyond the facts.
    requires: the unproved definedness conditions, reported as side conditions.
    config: tiers and budgets.
    """

    ranges: Mapping[Var, Range] = {}
    facts: tuple[Fact, ...] = ()
    defined: tuple[Cond, ...] = ()
    requires: tuple[Cond, ...] = ()
    config: Config = Config()


NOTHING = Basis()


class Decided(NamedTuple):
    """An answer as data, with the fields of `Proof`.

    vacuous: the tier found the domain empty; tiers need not look.
    """

    status: Status
    by: str
    vacuous: bool = False
    counterexample: Mapping[Expr, int] | None = None
    reason: str = ""
    basis: Basis = NOTHING


class ProofQuestion:
    """A goal in a frame, in the forms that the tiers use: canonical condition, query, counterexample test.

    is_underivable: signs and cases have failed to prove the goal in a context of which the frame is the relevant part:
        they learn nothing from the rest.
    """

    def __init__(self, frame: Frame, goal: Cond, config: Config, is_underivable: bool = False) -> None:
        self.frame, self.goal, self.config = frame, goal, config
        self.is_underivable = is_underivable
        self.canonical = frame.known.cond(goal)
        self.query = Query((), frame.ranges, frame.conditions, (), frame.base, frame.known, config)
        self.query.verdicts = frame.verdicts

    @property
    def symbolic_ranges(self) -> list[Var]:
        """Variables with symbolic ranges, possibly empty; counterexamples assign them too."""
        return [var for var, limits in self.frame.ranges.items() if limits.ends is None]

    @cached_property
    def _probe(self) -> tuple[Query, list[Node]]:
        """The query over all variables of a counterexample, and the nodes to evaluate in postorder."""
        view = self.query
        stated = dag.free_vars(*(fact.condition for fact in self.frame.facts))
        everyone = (*_value_roots(self.goal), *view.ranges, *stated)
        probe = Query(everyone, view.ranges, view.facts, (), view.base, view.known, self.config)
        return probe, dag.postorder((self.goal, *view.facts))

    def refutes(self, point: Point) -> bool:
        """Whether the completed `point` lies in the domain and evaluates the goal to False."""
        probe, nodes = self._probe
        return value_there(probe, nodes, self.goal, point) is False


def _value_roots(goal: Cond) -> tuple[Expr, ...]:
    """Integer operands of the goal's comparisons."""
    conditions = dag.reachable((goal,), lambda node: [arg for arg in node.args[::-1] if isinstance(arg, Cond)])
    return tuple(dict.fromkeys(arg for node in conditions for arg in node.args if isinstance(arg, Expr)))


Z3_EFFORT: Final = 32  # on more, z3 spends seconds that its units do not count
Z3_NESTING: Final = 16  # nesting of divisions; where it is deeper, z3's units take longer, and it gets fewer
Z3_FACTS_EFFORT: Final = 96  # facts beyond are not told: what follows from fewer follows

T = TypeVar("T")
LIBRARIES = ("isl", "z3")  # tiers that trust a library
FAR = 1 << 20  # beyond every range at the sizes tried


def at_once(frame: Frame, goal: Cond, config: Config) -> Decided | None:
    """A linear-tier proof without building a question; None if the linear form alone does not prove the goal."""
    known = frame.known
    if known.empty or config.tiers[:1] != ("linear",):
        return None
    if not frame.facts and not frame.defined and (found := ends(goal, frame.ranges, 0)) is not None and found[0]:
        return Decided(PROVED, "linear", basis=Basis(frame.ranges, (), (), (), config))
    for clause in known.clauses(goal):
        if isinstance(clause, Cond):
            if not covers_all_values(known, clause):
                return None
        elif clause[0] is not ops.GE or not known.is_nonneg(clause[1]):
            return None
    side = _side_conditions(known, goal) if is_partial(goal) else ()
    if side is None:
        return None
    basis = Basis(frame.ranges, frame.facts, (*frame.defined, *side) if side else frame.defined, side, config)
    return Decided(PROVED, "linear", basis=basis)


def _side_conditions(known: Normalizer, goal: Cond) -> tuple[Cond, ...] | None:
    """Unproved definedness conditions of `goal`; None if they need the full procedure."""
    if ops.ASSERTING in dag.operations(goal) and any(known.clauses(claim) for claim in embedded_claims((goal,))):
        return None
    side = tuple(need for need in definedness((goal,)) if not is_met(known, need))
    parts = [part for need in side for part in known.clauses(need)]
    return None if any(part is truth(False) for part in parts) else side  # undefined everywhere


def decide(
    frame: Frame,
    goal: Cond,
    config: Config,
    elsewhere: Callable[[bool], T | None] = lambda _: None,
    is_underivable: bool = False,
) -> Decided | T:
    """Decide `goal` over the points of `frame`, within the budgets of `config`.

    Parameters
    ----------
    elsewhere: called before the first tier after "linear", with the truth value of whether that tier has failed; a
        result other than None is the answer.
    is_underivable: as in `ProofQuestion`.
    """
    basis = Basis(frame.ranges, frame.facts, frame.defined, frame.requires, config)
    read = frame.bounded
    if frame.known.empty or read.known.empty:
        return Decided(PROVED, "linear", True, basis=basis._replace(requires=()))
    question = ProofQuestion(read, goal, config, is_underivable)
    last = TierVerdict(UNKNOWN, reason="no tier is enabled")
    by = stopped = ""
    is_asked = False
    for tier in config.tiers:
        if not is_asked and tier != "linear":
            is_asked = True
            known = elsewhere(by == "linear")
            if known is not None:
                return known
        verdict = tried(tier, TIERS[tier], question)
        by, last = tier, verdict
        stopped = verdict.reason if verdict.by_clock else stopped
        if verdict.status == PROVED and tier in LIBRARIES and "linear" not in config.tiers:
            verdict = last = _contradicted(question, tier) or verdict
        if verdict.status != UNKNOWN:
            break
    if last.status == REFUTED:
        assert last.point is not None
        return Decided(REFUTED, by, counterexample=last.point, reason=stopped or last.reason, basis=basis)
    if last.status == PROVED:
        return Decided(PROVED, by, last.vacuous, reason=stopped, basis=basis)
    if OPEN:
        for tier in (tier for tier in TIERS if tier not in config.tiers):
            skipped(tier, "it is not among the tiers of the configuration")
    return Decided(UNKNOWN, by, reason=last.reason)


# -- tiers --------------------------------------------------------------------------------------------------------


def linear_tier(question: ProofQuestion) -> TierVerdict:
    if _holds_by_signs(question) or _is_identity(question.goal):
        return TierVerdict(PROVED)
    for point in _guesses(question):
        if question.refutes(point):
            return TierVerdict(REFUTED, point)
    if not question.is_underivable and holds_by_cases(question.frame.known, question.canonical):
        return TierVerdict(PROVED)
    if question.frame.facts and (verdict := _without_equated_sizes(question)) is not None:
        return verdict
    if question.frame.facts and (simpler := coalesced(question.frame, (question.goal,), ())) is not None:
        frame, (goal,) = simpler
        if not frame.known.empty and _holds_by_signs(ProofQuestion(frame, goal, question.config)):
            return TierVerdict(PROVED)
    return TierVerdict(UNKNOWN, reason="the linear form does not decide it")


def _without_equated_sizes(question: ProofQuestion) -> TierVerdict | None:
    """The linear tier's verdict where sizes that facts equate with expressions are replaced; `None` if it has none."""
    solved = question.frame.solved
    if solved is None:
        return None
    frame, values = solved
    if frame.known.empty:
        return TierVerdict(PROVED, vacuous=True)
    simpler = ProofQuestion(frame, question.goal.substitute(values), question.config, question.is_underivable)
    if _holds_by_signs(simpler) or not simpler.is_underivable and holds_by_cases(frame.known, simpler.canonical):
        return TierVerdict(PROVED)
    for point in _guesses(simpler):
        if simpler.refutes(point):
            whole = _with_equated_sizes(frame, values, point)
            if question.refutes(whole):
                return TierVerdict(REFUTED, whole)
    return None


def _with_equated_sizes(frame: Frame, values: Mapping[Var, Expr], point: Point) -> Point:
    """A point of a solved frame with the values of the sizes that it eliminates."""
    for v in dag.free_vars(*values.values()):
        if v not in point:
            point[v] = first_of(frame.known.atom_bounds(v))
    return {**point, **{v: evaluate(e, point) for v, e in values.items()}}


def _holds_by_signs(question: ProofQuestion) -> bool:
    """Whether ranges, facts and signs prove the goal, a conjunction of comparisons."""
    if question.canonical.op is ops.BOOL:
        return bool(question.canonical.data)
    return not question.is_underivable and holds_by_signs(question.frame.known, question.canonical)


def _is_identity(goal: Cond) -> bool:
    """Whether both sides of a bitwise equation have the same normal form."""
    if goal.op is not ops.EQ or not dag.is_small(BITWISE_NODES, (goal,)):
        return False
    if not any(node.op in BITWISE for node in dag.postorder((goal,))):
        return False
    try:
        difference, is_zero = Expander().sides(goal)
    except BudgetError:
        return False  # multiplied out, it is too long
    return is_zero and not difference


def _guesses(question: ProofQuestion) -> Iterator[Point]:
    """Corner points likely to violate a comparison of the goal."""
    known = question.frame.known
    yielded = 0
    stack = [question.canonical]
    while stack and yielded < 4:
        node = stack.pop(0)
        if node.op in (ops.AND, ops.OR):
            stack.extend(node.args)
        elif node in known.compared:
            kind, form = known.compared[node]
            sides = (-1,) if kind is ops.GE else (-1, 1)
            for side in sides:
                yielded += 1
                goal = known.regroup(form)
                point = aim(known, goal, side)
                yield dict(point)
                if question.symbolic_ranges:
                    yield {**point, **_stretched(question, goal, side)}
        else:
            yielded += 1
            yield {}


def _contradicted(question: ProofQuestion, tier: str) -> TierVerdict | None:
    """A counterexample to a library's proof, among the guesses of the linear tier, which is disabled here."""
    for point in _guesses(question):
        if question.refutes(point):
            return TierVerdict(REFUTED, point, reason=f"{tier} proved it, wrongly")
    return None


def _stretched(question: ProofQuestion, form: Linear, side: int) -> Point:
    """Coordinates that extend `aim` under symbolic ranges.

    Sizes become large enough for nonempty ranges; variables with a symbolic end go to `FAR`, where `complete` clips
    them.
    """
    known, ranges = question.frame.known, question.frame.ranges
    step = max((abs(k) for k in form.terms.values()), default=0)
    sizes = dict.fromkeys(v for var in question.symbolic_ranges for v in ranges[var].free_vars())
    last = {v: known.assumptions.limits.get(v, (None, None))[1] for v in sizes}
    ends = {v: known.atom_bounds(v) for v in sizes if last[v] is None}
    point: Point = {v: low + 1 + step for v, (low, high) in ends.items() if low is not None and high is None}
    for e, k in form.terms.items():
        if e in ranges and known.atom_bounds(e)[k * side > 0] is None:
            point[e] = FAR if k * side > 0 else -FAR
    return point


def bits_tier(question: ProofQuestion) -> TierVerdict:
    """Decide by rows over F2 (`intset.prover.bit_proofs`)."""
    if not speaks_of_bits((question.goal, *question.query.facts)):
        return TierVerdict(UNKNOWN, reason="no bits are spoken of")
    if bit_proof(question.frame, question.goal) is not None or follows_by_bits(question.frame, question.goal):
        return TierVerdict(PROVED)
    return TierVerdict(UNKNOWN, reason="rows of bits do not decide it")


def regions_tier(question: ProofQuestion) -> TierVerdict:
    engine = strongest()
    if isinstance(engine, Deciding):
        return engine.decide(question.query, question.canonical, question.symbolic_ranges, question.refutes)
    return _by_points(question, engine)


def _by_points(question: ProofQuestion, engine: Regions) -> TierVerdict:
    """Decide by emptiness of the violating points, in the shape algebra of a domain."""
    query, goal = question.query, logical_not(question.goal)
    variables = dict.fromkeys((*dag.free_vars(goal, *query.facts), *question.symbolic_ranges))
    relaxed = [v for v in variables if query.is_quantified(v)]
    violating = Query(relaxed, query.ranges, (*query.facts, goal), (), query.base, query.base, query.config)
    try:
        with engine.everything(0).budget(query.config.isl_operations):
            fails = engine.points(violating).shape
            if fails.is_empty():
                return TierVerdict(PROVED)
            sizes = fails.variables()
            sample = fails.params_to_dims(sizes).sample()
    except BudgetError as error:
        return TierVerdict(UNKNOWN, reason=f"{engine.name} gave up: {error}", budget=error.budget)
    point: Point = {} if sample is None else dict(zip((*sizes, *relaxed), sample, strict=True))
    if point and question.refutes(point):
        return TierVerdict(REFUTED, point)
    return TierVerdict(UNKNOWN, reason="the points where it may fail are not real")


def points_tier(question: ProofQuestion) -> TierVerdict:
    searched = verdict_of_points(question.query, question.goal)
    if searched is None:
        if (point := _repaired(question)) is not None:
            return TierVerdict(REFUTED, point)
        return TierVerdict(UNKNOWN, reason="the box is too large to enumerate", budget="points")
    if searched.point is None or question.refutes(searched.point):
        return searched
    return TierVerdict(UNKNOWN, reason="the variables beside the question have no values that were found")


def _repaired(question: ProofQuestion) -> Point | None:
    """A counterexample among sizes that facts relate, by local search."""
    frame, values = question.frame.solved or (question.frame, {})
    conditions = [logical_not(question.goal.substitute(values)), *frame.conditions]
    conditions += [cond for v, limits in frame.ranges.items() for cond in range_conditions(v, limits)]
    point = repaired(conditions, {v: frame.known.atom_bounds(v) for v in dag.free_vars(*conditions)})
    if point is None:
        return None
    whole = _with_equated_sizes(frame, values, point)
    return whole if question.refutes(whole) else None


# -- z3 ----------------------------------------------------------------------------------------------------------------


def z3_tier(question: ProofQuestion) -> TierVerdict:
    """Decide by z3 whether ranges and facts imply the goal."""
    frame = question.frame
    if effort(question.goal) > Z3_EFFORT:
        return TierVerdict(
            UNKNOWN, reason="there are too many products and divisions of terms for z3", budget="Z3_EFFORT"
        )
    facts: list[tuple[Cond, Any]] = [(fact.condition, fact) for fact in frame.facts]
    stated = [cond for cond, _ in facts]
    for var in ranged(frame.ranges, (*dag.free_vars(question.goal, *stated), *question.symbolic_ranges)):
        facts += [(cond, var) for cond in range_conditions(var, frame.ranges[var])]
    config = question.config
    session = SmtSession(config.z3_timeout_ms)
    rlimit = config.z3_rlimit * Z3_NESTING**2 // max(nesting(question.goal), Z3_NESTING) ** 2

    def bounds(node: Node) -> tuple[int | None, int | None]:
        return frame.known.bounds(frame.known.form(node)) if isinstance(node, Expr) else (None, None)

    answer = session.check(question.goal, _affordable(facts), max(rlimit, 1), bounds, core=False)
    if answer.status == PROVED:
        return TierVerdict(PROVED)
    if answer.status == REFUTED and answer.model is not None:
        point = dict(answer.model)
        if question.refutes(point):
            return TierVerdict(REFUTED, point)
    if answer.reason == "timeout":
        reason = f"z3 was stopped by the clock (z3_timeout_ms={config.z3_timeout_ms})"
        return TierVerdict(UNKNOWN, reason=reason, by_clock=True, budget="z3_timeout_ms")
    budget = "z3_rlimit" if answer.reason == "rlimit" else ""
    return TierVerdict(
        UNKNOWN, reason=f"z3 gave up: {answer.reason or 'no counterexample could be confirmed'}", budget=budget
    )


def _affordable(facts: list[tuple[Cond, Any]]) -> list[tuple[Cond, Any]]:
    """A prefix-greedy selection of facts within `Z3_FACTS_EFFORT`."""
    if effort(*(cond for cond, _ in facts)) <= Z3_FACTS_EFFORT:
        return facts
    left, kept = Z3_FACTS_EFFORT, []
    for fact in facts:
        cost = effort(fact[0])
        if cost <= left:
            left -= cost
            kept.append(fact)
    return kept


def ranged(ranges: Mapping[Var, Range], variables: Iterable[Var]) -> list[Var]:
    """The variables with a range, closed under range ends, nearest first."""
    reached: dict[Var, None] = {}
    waiting = list(variables)
    for var in waiting:  # grows meanwhile
        if var in ranges and var not in reached:
            reached[var] = None
            waiting.extend(ranges[var].free_vars())
    return list(reached)


TIERS: dict[str, Callable[[ProofQuestion], TierVerdict]] = {
    "linear": linear_tier,
    "bits": bits_tier,
    "isl": regions_tier,
    "points": points_tier,
    "z3": z3_tier,
}


# -- what a proof rests on ----------------------------------------------------------------------------------------


def is_without_points(basis: Basis) -> bool:
    """Whether the tiers prove the domain empty."""
    return decide(Frame(basis.ranges, basis.facts, basis.defined), truth(False), basis.config).status == PROVED


def needed_facts(goal: Cond, basis: Basis) -> tuple[Fact, ...]:
    """An irredundant subset of the facts that proves the goal, by dropping each fact in turn.

    Declared bounds of a `ShapeVar` count as facts; replacing it by a plain variable tests whether they matter.
    """
    goal = dag.without_assertions(goal)  # what it asserts is among the facts
    kept = list(basis.facts)
    for fact in tuple(kept):
        fewer = [other for other in kept if other is not fact]
        if decide(Frame(basis.ranges, tuple(fewer), basis.defined), goal, basis.config).status == PROVED:
            kept = fewer
    return (*kept, *_needed_declarations(kept, goal, basis))


def _needed_declarations(kept: list[Fact], goal: Cond, basis: Basis) -> Iterator[Fact]:
    roots = (goal, *(fact.condition for fact in kept))
    sizes = dict.fromkeys(dag.free_vars(*roots))
    for var in tuple(sizes):
        if var in basis.ranges:
            sizes.update(dict.fromkeys(basis.ranges[var].free_vars()))
    for var in sizes:
        low, high, step = var.declared()
        if low is None and high is None and step == 1:
            continue
        plain = {var: Var(var.name)}
        ranges = {
            v: type(r)(*(end.substitute(plain) if isinstance(end, Expr) else end for end in (r.min, r.extent)))
            for v, r in basis.ranges.items()
        }
        facts = tuple(Fact(fact.condition.substitute(plain), fact.provenance) for fact in kept)
        defined = tuple(need.substitute(plain) for need in basis.defined)
        if decide(Frame(ranges, facts, defined), goal.substitute(plain), basis.config).status != PROVED:
            yield from (Fact(cond, DECLARED) for cond in declared_conditions(var))
