"""SMT queries: does a condition follow from facts? Proofs come with an unsatisfiable core, refutations with a point.

Guarantee: "proved" holds for all points; "refuted" comes with a counterexample confirmed by `evaluate`. Only "unknown"
depends on the budget, counted in z3 units.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from intset.budgets import SOLVER_RLIMIT, Z3_SHIFT
from intset.errors import BudgetError, UndefinedError
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, Var
from intset.prover.smt_encode import BoundsHint, Carrier, Encoder
from intset.prover.z3_solver import WORKBENCHES, Z3Term, Z3Terms, keeping_interrupts, load_z3

CORE_Z3: Final = 20_000  # z3's units for leaving one fact out of a proof
Z3_MODELS: Final = 10  # models examined per query
Z3_CHEAP_MODELS: Final = 3  # models examined before definitions of bit operations are asserted
CORE_TRIALS: Final = 16  # deletion attempts per core

LabelledFact: TypeAlias = tuple[Cond, Any]  # a true condition, and its label in `core`
Model: TypeAlias = dict[Expr, int]
Taught: TypeAlias = tuple[Node, tuple[int, ...]]  # a bit operation, and arguments with an asserted value


@dataclass(frozen=True, slots=True)
class SmtResult:
    """The answer to `SmtSession.check`.

    Guarantees
    ----------
    proved: the goal is true at every point where all facts in `core` hold, the variables and opaque terms in
        `declared` keep what they declare, and the goal has a value (facts are true there, not undefined).
    refuted: at `model` the goal is false and all facts are true, by `evaluate`. `model` gives every variable and opaque
        term of goal and facts a value within its declaration.
    unknown: `reason` is one of 'rlimit', 'timeout' (only where a session has one), 'incomplete' (z3 gave up),
        'candidate' (z3's models rest on a bit operation it cannot compute), or a text that says why the question was
        not put to z3.

    `smtlib()` is the query as SMT-LIB 2 text, for another solver: unsatisfiable when proved.
    """

    status: Literal["proved", "refuted", "unknown"]
    smtlib: Callable[[], str]
    model: Model | None = None
    core: tuple[Any, ...] = ()
    declared: tuple[Expr, ...] = ()
    reason: str = ""


def effort(*roots: Node) -> int:
    """Estimated z3 effort: nonlinear products and divisions count 1, divisions by constants 1/4."""
    quarters = 0
    for node in postorder(roots):
        if node.op is ops.MUL:
            quarters += 0 if node.args[0].is_const or node.args[1].is_const else 4
        elif node.op in ops.DIVISIONS:
            quarters += 1 if node.args[1].is_const else 4
    return quarters // 4


def nesting(root: Node) -> int:
    """Nesting depth of divisions; each level lengthens z3's numbers, which z3 units do not measure."""
    depth: dict[Node, int] = {}
    for node in postorder((root,)):
        depth[node] = max((depth[arg] for arg in node.args), default=0) + (node.op in ops.DIVISIONS)
    return depth[root]


class SmtSession:
    """Independent SMT queries.

    Guarantee: answers depend on query and budget alone. Each query has its own z3 context, so sessions work
    in any thread and after forks, and an interrupted query leaves no state.

    Parameters
    ----------
    timeout_ms: wall-clock limit per check, 0 for none. On expiry `reason` is "timeout": the result is
    machine-dependent.
    """

    def __init__(self, timeout_ms: int = 0) -> None:
        self._timeout_ms = timeout_ms

    def check(
        self,
        goal: Cond,
        facts: Sequence[LabelledFact] = (),
        rlimit: int = SOLVER_RLIMIT,
        bounds: BoundsHint | None = None,
        core: bool = True,
        points: bool = True,
    ) -> SmtResult:
        """Decide whether `goal` is true at every point that satisfies `facts` and defines `goal`.

        Parameters
        ----------
        goal: the condition.
        facts: (condition, label) pairs.
        rlimit: z3's budget for one attempt, in its own units, 5 to 10 million to a second; 0 for none.
        bounds: a hint, `node -> (low, high)` with `None` for unknown, asked for the operands of `&`, `|`, `^` and for
            shift amounts. Wrong hints cost precision, never soundness. It must not query this session.
        core: minimize the unsatisfiable core of a proof.
        points: search for another counterexample if evaluation rejects z3's model; False asks for a proof alone.
        """
        query = _SmtQuery(goal, tuple(facts), bounds)
        with keeping_interrupts():
            try:
                engine = _SmtEngine(rlimit, self._timeout_ms, core, points)
            except BudgetError as refusal:  # there is no z3
                return query.unknown(str(refusal))
            try:
                return engine.answer(query, rlimit)
            finally:
                WORKBENCHES.give_back(engine.bench)


@dataclass(frozen=True, slots=True)
class _SmtQuery:
    goal: Cond
    facts: tuple[LabelledFact, ...]
    bounds: BoundsHint | None

    def unknown(self, reason: str, taught: Sequence[Taught] = ()) -> SmtResult:
        return SmtResult("unknown", self.smtlib(taught), reason=reason)

    def smtlib(self, taught: Sequence[Taught]) -> Callable[[], str]:
        """A closure that writes the query as text, free of z3 objects, so it may outlive the session."""
        return partial(_smtlib, self, tuple(taught))

    def confirms(self, model: Model, carriers: Sequence[Carrier]) -> bool:
        """Whether evaluation and declarations confirm the point as a counterexample."""
        try:
            return (
                all(_keeps_declaration(term, value) for term, value in model.items())
                and all(_affordable(carrier.node, model) for carrier in carriers)
                and all(evaluate(fact, model) for fact, _ in self.facts)
                and not evaluate(self.goal, model)
            )
        except UndefinedError:
            return False


class _SmtEngine:
    """The state of one query: its context, encoder, and asserted side facts."""

    def __init__(self, rlimit: int, timeout_ms: int, core: bool, points: bool) -> None:
        self.z3 = load_z3()
        self.timeout_ms, self.core, self.points = timeout_ms, core, points
        self.bench = WORKBENCHES.take(rlimit)
        self.terms = self.bench.terms
        self.ref, self.solver = self.terms.ref, self.bench.solver.solver
        self.encoder = Encoder(self.terms)
        self.asserted: dict[Carrier, None] = {}  # insertion-ordered, for determinism

    def answer(self, query: _SmtQuery, rlimit: int) -> SmtResult:
        """The result of `decide`; "unknown" if the query is not encodable."""
        try:
            return self.decide(query, rlimit)
        except BudgetError as refusal:
            return query.unknown(str(refusal))
        except self.z3.Z3Exception as failure:
            return query.unknown(f"z3: {failure}")

    def decide(self, query: _SmtQuery, rlimit: int) -> SmtResult:
        facts = [self.encoder.encode(fact, query.bounds) for fact, _ in query.facts]
        goal = self.encoder.encode(query.goal, query.bounds)
        names: dict[Z3Term, Any] = {}
        for number, (fact, (_, label)) in enumerate(zip(facts, query.facts, strict=True)):
            self._assert_facts_of(fact.carriers)
            name = self.terms.unknown_condition(f"fact {number}")
            names[name] = label
            self._tell(self.encoder.or_true(self.encoder.all_of(fact.defined, fact.value)), name)
        self._assert_facts_of(goal.carriers)
        self._tell(self.encoder.or_true(goal.defined))
        self._tell(self.terms.negated(goal.value))
        return self._search(query, names, list(self.asserted), rlimit)

    def _assert_facts_of(self, carriers: Sequence[Carrier]) -> None:
        """Assert the side facts of new carriers."""
        for carrier in carriers:
            if carrier not in self.asserted:
                self.asserted[carrier] = None
                for fact in carrier.facts:
                    self._tell(fact, carrier.literal)

    def _tell(self, condition: Z3Term, name: Z3Term | None = None) -> None:
        """Assert a condition, guarded by the literal `name` if given."""
        told = condition if name is None else self.terms.implied(name, condition)
        self.z3.Z3_solver_assert(self.ref, self.solver, told.ast)

    def _search(self, query: _SmtQuery, names: dict[Z3Term, Any], carriers: list[Carrier], rlimit: int) -> SmtResult:
        declared: dict[Z3Term, Any] = {
            carrier.literal: carrier.node for carrier in carriers if carrier.literal is not None
        }
        literals = [*names, *declared]
        taught: list[Taught] = []
        for attempt in range(Z3_MODELS):
            verdict, reason = self._ask(literals, rlimit)
            if verdict == self.z3.unknown:
                return query.unknown(reason, taught)
            if verdict == self.z3.unsat:
                core = self._minimal(self._unsat_core(literals)) if self.core else set(literals)
                return SmtResult(
                    "proved",
                    query.smtlib(taught),
                    core=tuple(dict.fromkeys(label for literal, label in names.items() if literal in core)),
                    declared=tuple(node for literal, node in declared.items() if literal in core),
                )
            values = self.terms.model_of(self.solver)
            model = self._counterexample(query, carriers, values)
            if model is None and attempt == Z3_CHEAP_MODELS:
                for carrier in carriers:
                    if carrier.definition is not None:
                        self._tell(carrier.definition)
                model = self._small_counterexample(query, carriers, literals, rlimit) if self.points else None
            if model is not None:
                return SmtResult("refuted", query.smtlib(taught), model)
            if not self._teach(values, carriers, taught):
                break
        return query.unknown("candidate", taught)

    def _counterexample(self, query: _SmtQuery, carriers: Sequence[Carrier], values: Any) -> Model | None:
        """The point of a z3 model, if evaluation confirms it; else None."""
        model = {c.node: self.terms.value(values, c.term) for c in carriers if c.window is None}
        return model if query.confirms(model, carriers) else None

    def _small_counterexample(
        self, query: _SmtQuery, carriers: Sequence[Carrier], literals: Sequence[Z3Term], rlimit: int
    ) -> Model | None:
        """A counterexample with all bit operations inside the windows of their definitions."""
        self.z3.Z3_solver_push(self.ref, self.solver)
        for carrier in carriers:
            if carrier.window is not None:
                self._tell(carrier.window)
        is_sat = self._ask(literals, rlimit)[0] == self.z3.sat
        model = self._counterexample(query, carriers, self.terms.model_of(self.solver)) if is_sat else None
        self.z3.Z3_solver_pop(self.ref, self.solver, 1)
        return model

    def _ask(self, literals: Sequence[Z3Term], rlimit: int) -> tuple[Any, str]:
        self.bench.limit(rlimit, self.timeout_ms)
        start = time.monotonic()
        assumed = (self.z3.Ast * len(literals))(*[literal.ast for literal in literals])
        verdict = self.z3.CheckSatResult(
            self.z3.Z3_solver_check_assumptions(self.ref, self.solver, len(literals), assumed)
        )
        if verdict != self.z3.unknown:
            return verdict, ""
        if "cancel" not in self.z3.Z3_solver_get_reason_unknown(self.ref, self.solver):
            return verdict, "incomplete"
        # z3 says "canceled" in both cases
        late = self.timeout_ms and (time.monotonic() - start) * 1000 >= self.timeout_ms
        return verdict, "timeout" if late else "rlimit"

    def _unsat_core(self, literals: Sequence[Z3Term]) -> list[Z3Term]:
        """Literals in z3's unsatisfiable core."""
        used = self.terms.unsat_core(self.solver)
        return [literal for literal in literals if self.z3.Z3_get_ast_id(self.ref, literal.ast) in used]

    def _minimal(self, core: Sequence[Z3Term]) -> set[Z3Term]:
        """Shrink an unsatisfiable core by deletion, with `CORE_TRIALS` cheap checks."""
        needed = sorted(core, key=lambda literal: self.z3.Z3_get_ast_id(self.ref, literal.ast))
        for literal in needed[:CORE_TRIALS]:
            rest = [other for other in needed if other is not literal]
            if len(rest) < len(needed) and self._ask(rest, CORE_Z3)[0] == self.z3.unsat:
                needed = rest
        return set(needed)

    def _teach(self, values: Any, carriers: Sequence[Carrier], taught: list[Taught]) -> bool:
        """Assert true values of bit operations at the model's arguments; returns whether a lemma was new."""
        known = len(taught)
        for carrier in carriers:
            arguments = tuple(self.terms.value(values, term) for term in carrier.arguments)
            lemma = self.encoder.lemma(carrier, arguments) if arguments else None
            if lemma is not None and (carrier.node, arguments) not in taught:
                self._tell(lemma)
                taught.append((carrier.node, arguments))
        return len(taught) > known


def _keeps_declaration(term: Expr, value: int) -> bool:
    low, high, step = term.declared() if isinstance(term, Var) else (term.data.lower, term.data.upper, 1)
    return (low is None or low <= value) and (high is None or value <= high) and value % step == 0


def _affordable(node: Node, model: Model) -> bool:
    """Whether a shift is evaluable at a point, with an amount of at most `Z3_SHIFT` bits."""
    try:
        return node.op not in (ops.SHL, ops.SHR) or evaluate(node.args[1], model) <= Z3_SHIFT
    except UndefinedError:
        return True


def _smtlib(query: _SmtQuery, taught: tuple[Taught, ...]) -> str:
    """The query alone, as SMT-LIB 2 text: unsatisfiable when the goal is proved."""
    # z3's term order, and so the text, depends on the context's history: use a new context.
    encoder = Encoder(Z3Terms(load_z3().Context()))
    encodings = [encoder.encode(cond, query.bounds) for cond in (*(fact for fact, _ in query.facts), query.goal)]
    *facts, goal = encodings
    carriers = dict.fromkeys(carrier for encoding in encodings for carrier in encoding.carriers)
    solver = load_z3().SimpleSolver(ctx=encoder.terms.context)
    told: list[Z3Term | None] = [fact for carrier in carriers for fact in carrier.facts]
    told += [carrier.definition for carrier in carriers]
    told += [encoder.lemma(carrier, values) for node, values in taught for carrier in carriers if carrier.node is node]
    told += [encoder.all_of(fact.defined, fact.value) for fact in facts]
    told += [encoder.or_true(goal.defined), encoder.terms.negated(goal.value)]
    solver.add([condition.ref for condition in told if condition is not None])
    answer: str = solver.to_smt2()
    return answer
