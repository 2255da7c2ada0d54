"""The tiers of the prover, cheapest first; the first that decides answers.

linear   the canonical condition is true, in a few cases if need be, or a guessed point refutes it
isl      the points where it fails form an empty set, or a sample of them refutes it
points   the box is small: every point is tried
z3       what is nonlinear or mixed

A counterexample is evaluated before it is reported, so a tier may propose points that come from a relaxation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from intset.config import Config
from intset.domains.query import Query
from intset.domains.witness import Point, aim, complete, in_domain
from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr import ops
from intset.expr.definedness import definedness, embedded_claims
from intset.expr.evaluate import evaluate
from intset.expr.length import may_be_long
from intset.expr.node import Cond, Expr, Node, Var, truth
from intset.expr.walk import conjuncts, free_vars, opaque_terms, without_assertions
from intset.facts import DECLARED, Fact
from intset.frame import Frame
from intset.linear.canonical import Normalizer
from intset.prover.basis import PROVED, REFUTED, UNKNOWN, Basis, Decided
from intset.prover.cases import holds_by_cases

T = TypeVar("T")


@dataclass(slots=True)
class Verdict:
    """What one tier says: a status, and a counterexample or a reason; `vacuous` when no point exists at all.

    `by_clock`: it was stopped by the clock, and on another machine may say more.
    """

    status: str
    point: Point | None = None
    reason: str = ""
    vacuous: bool = False
    by_clock: bool = False


class Question:
    """A goal in a frame: what the tiers work on."""

    def __init__(self, frame: Frame, goal: Cond, config: Config) -> None:
        self.frame, self.goal, self.config = frame, goal, config
        self.canonical = frame.known.cond(goal)
        self.query = Query((), frame.ranges, frame.conditions, (), frame.base, frame.known, config)
        self.query.verdicts = frame.verdicts

    @property
    def symbolic_ranges(self) -> list[Var]:
        """The variables whose ranges may be empty for some sizes: a counterexample has values for them, too."""
        return [var for var, limits in self.frame.ranges.items() if limits.ends is None]

    def refutes(self, point: Point) -> bool:
        """Whether `point`, completed, is a point of the domain at which the goal is defined and false."""
        view = self.query
        everyone = (*_value_roots(self.goal), *view.ranges, *free_vars(*(fact.condition for fact in self.frame.facts)))
        probe = Query(everyone, view.ranges, view.facts, (), view.base, view.known, self.config)
        try:
            complete(probe, point)
            agree_on_loads((self.goal, *view.facts), point)
            if may_be_long((self.goal, *probe.facts), {leaf: value.bit_length() for leaf, value in point.items()}):
                return False
            return in_domain(probe, point) and evaluate(self.goal, point) is False
        except (EvaluationError, InputError):
            return False


def agree_on_loads(roots: Sequence[Node], point: Point) -> None:
    """Make loads of one symbol with equal indices at `point` have one value: the one that was chosen first.

    A load whose indices have no value is not reached, or the point is none of the domain.
    """
    seen: dict[tuple[object, ...], int] = {}
    for term in opaque_terms(*roots):
        try:
            key = (term.data, *(evaluate(index, point) for index in term.args))
        except EvaluationError:
            continue
        point[term] = seen.setdefault(key, point[term])


def _value_roots(goal: Cond) -> tuple[Expr, ...]:
    """The integer expressions that the goal compares."""
    found: dict[Expr, None] = {}
    stack = [goal]
    while stack:
        node = stack.pop()
        for arg in node.args:
            if isinstance(arg, Expr):
                found[arg] = None
            else:
                stack.append(arg)
    return tuple(found)


def at_once(frame: Frame, goal: Cond, config: Config) -> Decided | None:
    """The answer to a goal that the linear form shows to hold wherever it has a value; `None` where it does not."""
    known = frame.known
    if known.empty or config.tiers[:1] != ("linear",):
        return None
    for clause in known.clauses(goal):
        if isinstance(clause, Cond) or clause[0] is not ops.GE or not known.is_nonneg(clause[1]):
            return None
    side: tuple[Cond, ...] = ()
    if known.met_partial:
        found = _side_conditions(known, goal)
        if found is None:
            return None
        side = found
    basis = Basis(frame.ranges, frame.facts, (*frame.defined, *side) if side else frame.defined, side, config)
    return Decided(PROVED, "linear", basis=basis)


def _side_conditions(known: Normalizer, goal: Cond) -> tuple[Cond, ...] | None:
    """What is not known of the conditions under which `goal` has a value; `None` where more is to be said of them."""
    if known.met_claim and embedded_claims((goal,)):
        return None
    side: list[Cond] = []
    for need in definedness((goal,)):
        clauses = known.clauses(need)
        if any(isinstance(part, Cond) and part.op is ops.BOOL for part in clauses):
            return None  # it has no value anywhere
        side += [need] if clauses else []
    return tuple(side)


def nowhere() -> None:
    """There is no other place to look for a proof."""


def decide(frame: Frame, goal: Cond, config: Config, elsewhere: Callable[[], T | None] = nowhere) -> Decided | T:
    """Decide `goal` over the points of `frame`, within the budgets of `config`.

    `elsewhere` is asked before the first tier that costs more than a look-up; what it has is the answer.
    """
    basis = Basis(frame.ranges, frame.facts, frame.defined, frame.requires, config)
    read = frame.reading
    if frame.known.empty or read.known.empty:
        return Decided(PROVED, "linear", True, basis=basis._replace(requires=()))
    question = Question(read, goal, config)
    last = Verdict(UNKNOWN, reason="no tier is enabled")
    by = stopped = ""
    is_asked = False
    for tier in config.tiers:
        if not is_asked and tier != "linear":
            is_asked = True
            known = elsewhere()
            if known is not None:
                return known
        verdict = TIERS[tier](question)
        by, last = tier, verdict
        stopped = verdict.reason if verdict.by_clock else stopped
        if verdict.status != UNKNOWN:
            break
    if last.status == REFUTED:
        assert last.point is not None
        return Decided(REFUTED, by, counterexample=last.point, reason=stopped, basis=basis)
    if last.status == PROVED:
        return Decided(PROVED, by, last.vacuous, reason=stopped, basis=basis)
    return Decided(UNKNOWN, by, reason=last.reason)


# -- tiers --------------------------------------------------------------------------------------------------------


def linear_tier(question: Question) -> Verdict:
    canonical = question.canonical
    if canonical.op is ops.BOOL and canonical.data:
        return Verdict(PROVED)
    if _all_nonneg(question, canonical):
        return Verdict(PROVED)
    for point in _guesses(question, canonical):
        if question.refutes(point):
            return Verdict(REFUTED, point)
    if holds_by_cases(question.frame.known, canonical):
        return Verdict(PROVED)
    return Verdict(UNKNOWN, reason="the linear form does not decide it")


def _all_nonneg(question: Question, canonical: Cond) -> bool:
    """Whether the goal is a conjunction of comparisons `form >= 0` that follow from ranges and signs of sizes."""
    known = question.frame.known
    for part in conjuncts(canonical):
        if part.op is ops.BOOL and part.data:
            continue
        kind, form = known.compared.get(part, (ops.NE, None))
        if kind is not ops.GE or form is None or not known.is_nonneg(form):
            return False
    return True


def _guesses(question: Question, canonical: Cond) -> Iterator[Point]:
    """Corners at which some comparison of the goal is most likely to fail."""
    known = question.frame.known
    yielded = 0
    stack = [canonical]
    while stack and yielded < 4:
        node = stack.pop(0)
        if node.op in (ops.AND, ops.OR):
            stack.extend(node.args)
        elif node in known.compared:
            kind, form = known.compared[node]
            sides = (-1,) if kind is ops.GE else (-1, 1)
            for side in sides:
                yielded += 1
                yield aim(known, known.regroup(form), side)
        else:
            yielded += 1
            yield {}


def isl_tier(question: Question) -> Verdict:
    from intset.domains.isl.domain import consistency, domain_sample
    from intset.domains.isl.session import budget
    from intset.domains.isl.translate import Translation

    try:
        with budget(question.config.isl_operations):
            translation = Translation(question.query, roots=(question.canonical,), seeds=question.symbolic_ranges)
            holds = translation.cond(question.frame.known, question.canonical)
            fails = translation.domain.subtract(holds)
            if fails.is_empty():
                leftover = consistency(question.query, translation.leftover)
                vacuous = leftover == "empty" or (translation.domain.is_empty())
                return Verdict(PROVED, vacuous=bool(vacuous))
            if consistency(question.query, translation.leftover) == "empty":
                return Verdict(PROVED, vacuous=True)
            for part in _first_parts(fails):
                point = domain_sample(translation, part)
                if point is None:
                    continue
                candidate = {e: k for e, k in point.items() if e.op in (ops.VAR, ops.LOAD)}
                if translation.leftover:
                    _add_rest(question, translation.leftover, candidate)
                if question.refutes(candidate):
                    return Verdict(REFUTED, candidate)
    except BudgetError as error:
        return Verdict(UNKNOWN, reason=f"isl gave up: {error}")
    return Verdict(UNKNOWN, reason="it is not affine, and the points where it may fail are not real")


def _first_parts(fails: object) -> list[object]:
    """The set itself, then its first few disjuncts: each may give another sample."""
    parts = [fails]
    basic = fails.get_basic_sets()  # type: ignore[attr-defined]
    if 1 < len(basic) <= 8:
        parts += [b.to_set() for b in basic]
    return parts


def _add_rest(question: Question, leftover: list[Cond], point: Point) -> None:
    """Values for variables that only the facts beside the question mention."""
    from intset.domains.isl.domain import domain_sample
    from intset.domains.isl.translate import Translation

    view = question.query
    alone = Query((), view.ranges, leftover, (), view.base, view.known, question.config)
    rest = domain_sample(Translation(alone, seeds=leftover))
    for e, k in (rest or {}).items():
        if e.op in (ops.VAR, ops.LOAD):
            point.setdefault(e, k)


def points_tier(question: Question) -> Verdict:
    from intset.domains.points import false_point

    found = false_point(question.query, question.goal)
    if found is None:
        return Verdict(UNKNOWN, reason="the box is too large to enumerate")
    status, point = found
    if status == "never":
        return Verdict(PROVED, vacuous=True)
    if point is None:
        return Verdict(PROVED)
    if question.refutes(point):
        return Verdict(REFUTED, point)
    return Verdict(UNKNOWN, reason="the variables beside the question have no values that were found")


def z3_tier(question: Question) -> Verdict:
    from intset.prover.z3_tier import decide

    return decide(question)


TIERS: dict[str, Callable[[Question], Verdict]] = {
    "linear": linear_tier,
    "isl": isl_tier,
    "points": points_tier,
    "z3": z3_tier,
}


# -- what a proof rests on ----------------------------------------------------------------------------------------


def is_without_points(basis: Basis) -> bool:
    """Whether the tiers show that there is no point at which something could be false."""
    return decide(Frame(basis.ranges, basis.facts, basis.defined), truth(False), basis.config).status == PROVED


def needed_facts(goal: Cond, basis: Basis) -> tuple[Fact, ...]:
    """A subset of the facts that is enough and of which none can be left out: each is dropped in turn.

    The bounds that a `ShapeVar` declares count as facts: it is replaced by a plain variable to see whether they matter.
    """
    goal = without_assertions(goal)  # what it asserts is among the facts
    kept = list(basis.facts)
    for fact in tuple(kept):
        fewer = [other for other in kept if other is not fact]
        if decide(Frame(basis.ranges, tuple(fewer), basis.defined), goal, basis.config).status == PROVED:
            kept = fewer
    return (*kept, *_needed_declarations(kept, goal, basis))


def _needed_declarations(kept: list[Fact], goal: Cond, basis: Basis) -> Iterator[Fact]:
    roots = (goal, *(fact.condition for fact in kept))
    sizes = dict.fromkeys(free_vars(*roots))
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
            yield from declared_facts(var)


def declared_facts(var: Var) -> Iterator[Fact]:
    """What a variable says of itself, as facts."""
    low, high, step = var.declared()
    if low is not None:
        yield Fact(var >= low, DECLARED)
    if high is not None:
        yield Fact(var <= high, DECLARED)
    if step > 1:
        yield Fact((var % step).eq(0), DECLARED)
