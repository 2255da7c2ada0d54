"""SMT queries: does a condition follow from facts? Proofs come with an unsatisfiable core, refutations with a point.

Guarantee: "proved" holds for all points; "refuted" comes with a counterexample confirmed by `evaluate`. Only "unknown"
depends on the budget, counted in z3 units.

`Encoder` writes expressions and conditions as z3 terms over the mathematical integers.

Guarantee of the encoding: every assignment at which `evaluate` defines a node extends to a model of its encoding, in
which the node's term has the evaluated value, `defined` is true and all side facts hold. So an unsatisfiable encoding
is impossible. The converse fails for two uninterpreted functions, constrained by side facts: `&` of two variables, and
powers of 2 with variable exponents. Models that use them are candidates, which `Encoder.lemma` corrects
(counterexample-guided instantiation).

z3 is imported by the first `Encoder`. Its `/` and `%` are Euclidean (nonnegative remainder), uninterpreted for divisor
0.
"""

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from intset.errors import BudgetError, UndefinedError
from intset.expr import Cond, Expr, Node, Var, constant_value, dag, ops
from intset.expr.build import Opaque
from intset.expr.evaluate import evaluate
from intset.expr.node import is_declared
from intset.expr.ops import Op
from intset.prover.z3_solver import SOLVER_RLIMIT, WORKBENCHES, Z3Term, Z3Terms, keeping_interrupts, load_z3

Z3_SHIFT: Final = 4_096  # largest exponent of a literal power of 2

Z3_NODES: Final = 20_000  # nodes of a question to z3
Z3_DEPTH: Final = 1_500  # nesting of a question to z3, which recurses
Z3_DEGREE: Final = 24  # degree of a product
Z3_DEGREE_DIVIDED: Final = 8  # `Z3_DEGREE` for a division by a term: z3 multiplies it out, uncounted
Z3_CONSTANT_BITS: Final = 1 << 16  # bits of a constant
Z3_TABLE: Final = 64  # table entries of a shift by a variable
Z3_MASK_RUNS: Final = 16  # runs of ones in an arithmetically encoded mask
Z3_WIDTH: Final = 64  # bits of the bit-vectors that define `&`

HintedInterval: TypeAlias = tuple[int | None, int | None]
BoundsHint: TypeAlias = Callable[[Node], HintedInterval]

# Beyond these z3 overflows the C stack (nested ite) or stops heeding its limits (nested products).

_LEAVES: Final = (ops.VAR, ops.LOAD)  # assigned by a model


@dataclass(frozen=True, slots=True, eq=False)
class Carrier:
    """A node with side facts: a variable, an opaque term, or an application of an uninterpreted function.

    Attributes
    ----------
    term: the term that a model assigns.
    facts, literal: side facts; `literal` names declarations, so that cores may mention them. Unnamed facts are valid
    for
        all integers.
    window, definition: for uninterpreted functions. `definition` is a valid but expensive fact under which the value is
        exact inside `window`.
    arguments: the arguments of the function.
    """

    node: Any
    term: Z3Term
    facts: tuple[Z3Term, ...]
    literal: Z3Term | None = None
    window: Z3Term | None = None
    definition: Z3Term | None = None
    arguments: tuple[Z3Term, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """The encoding of one expression or condition.

    `value` is meaningful where `defined` holds (None: everywhere); `carriers` lists side facts, operands first.
    """

    value: Z3Term
    defined: Z3Term | None
    carriers: tuple[Carrier, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _EncodedNode:
    value: Z3Term
    defined: Z3Term | None
    carrier: Carrier | None
    depth: int
    degree: int


class Encoder:
    """Encodes nodes for one z3 context, each node once.

    Interval hints passed to `encode` size the tables of bit operations; soundness does not depend on them.
    """

    def __init__(self, terms: Z3Terms) -> None:
        self.terms: Final = terms
        self._and = self.terms.function("bitand", 2)
        self._pow2 = self.terms.function("pow2", 1)
        self._true = self.terms.truth(True)
        self._entries: dict[Node, _EncodedNode] = {}
        self._encodings: dict[Node, Encoding] = {}
        self._functions: dict[Opaque, Callable[..., Z3Term]] = {}
        self._serial = itertools.count()
        self._bounds: BoundsHint = lambda _: (None, None)
        self._degree, self._max_degree = 0, Z3_DEGREE
        self._carriers: dict[Node, Carrier] = {}  # carriers awaiting `_enter`

    def encode(self, root: Node, bounds: BoundsHint | None = None) -> Encoding:
        """The encoding of `root`.

        Raises BudgetError when it is so large, or of so high a degree, that z3 could not be trusted to stop.
        """
        known = self._encodings.get(root)
        if known is not None:
            return known
        self._bounds = bounds or (lambda _: (None, None))
        carriers = []
        for count, node in enumerate(dag.postorder((root,))):
            if count >= Z3_NODES:
                raise BudgetError(f"more than {Z3_NODES} terms", "Z3_NODES")
            entry = self._entries.get(node) or self._enter(node)
            if entry.carrier is not None:
                carriers.append(entry.carrier)
        encoding = self._encodings[root] = Encoding(entry.value, entry.defined, tuple(carriers))
        return encoding

    def lemma(self, carrier: Carrier, values: Sequence[int]) -> Z3Term | None:
        """The true value of an uninterpreted function at the arguments `values`, as a fact; `None` if too large."""
        if len(carrier.arguments) == 2:
            truth = values[0] & values[1]
        elif 0 <= values[0] <= Z3_SHIFT:
            truth = 1 << values[0]
        else:
            return None
        there = [arg.eq(self.integer(value)) for arg, value in zip(carrier.arguments, values, strict=True)]
        return self.terms.implied(self.terms.both(*there), carrier.term.eq(self.integer(truth)))

    def integer(self, value: int) -> Z3Term:
        """An integer constant of at most `Z3_CONSTANT_BITS` bits; else BudgetError."""
        if value.bit_length() > Z3_CONSTANT_BITS + 1:
            raise BudgetError(f"a constant of {value.bit_length()} bits", "Z3_CONSTANT_BITS")
        return self.terms.integer(value)

    def power(self, exponent: int) -> Z3Term:
        """2 to the power of `exponent`."""
        if exponent > Z3_CONSTANT_BITS:
            raise BudgetError(f"a constant of {exponent} bits", "Z3_CONSTANT_BITS")
        return self.integer(1 << exponent)

    def or_true(self, condition: Z3Term | None) -> Z3Term:
        return self._true if condition is None else condition

    def all_of(self, *conditions: Z3Term | None) -> Z3Term | None:
        """The conjunction of z3 conditions; None stands for true."""
        some = [condition for condition in conditions if condition is not None]
        return self.terms.both(*some) if len(some) > 1 else some[0] if some else None

    def _enter(self, node: Node) -> _EncodedNode:
        below = [self._entries[arg] for arg in node.args]
        depth = 1 + max((entry.depth for entry in below), default=0)
        degrees = [entry.degree for entry in below]
        degree = sum(degrees) if node.op is ops.MUL else 1 if node.op in _LEAVES else max(degrees, default=0)
        if depth > Z3_DEPTH:
            raise BudgetError(f"terms nested {depth} deep", "Z3_DEPTH")
        self._degree = max(self._degree, degree)
        if node.op in ops.DIVISIONS and node.args[1].op is not ops.CONST:
            self._max_degree = Z3_DEGREE_DIVIDED
        if self._degree > self._max_degree:
            raise BudgetError(f"a product of degree {self._degree}", "Z3_DEGREE")
        values = [entry.value for entry in below]
        value = _VALUES[node.op](self, node, values)
        conditions = [entry.defined for entry in below]
        rule = _DEFINED.get(node.op)
        defined = self.all_of(*conditions) if rule is None else rule(self, node, values, conditions)
        carrier = self._carriers.pop(node, None)
        entry = self._entries[node] = _EncodedNode(value, defined, carrier, depth, degree)
        return entry

    def _name(self, label: str) -> str:
        return f"{re.sub(r'[^A-Za-z0-9_]', '_', label)}!{next(self._serial)}"

    def _declare(
        self, node: Node, term: Z3Term, label: str, low: int | None, high: int | None, step: int = 1
    ) -> Z3Term:
        facts = [] if low is None else [term >= self.integer(low)]
        facts += [] if high is None else [term <= self.integer(high)]
        facts += [] if step == 1 else [(term % self.integer(step)).eq(0)]
        literal = self.terms.unknown_condition(f"declared {label}") if facts else None
        self._carriers[node] = Carrier(node, term, tuple(facts), literal)
        return term

    def variable(self, node: Node) -> Z3Term:
        """The z3 constant of a variable; what the variable declares about itself becomes a side fact."""
        assert isinstance(node, Var)
        name = self._name(node.name)
        return self._declare(node, self.terms.unknown_integer(name), name, *node.declared())

    def load(self, node: Node, indices: list[Z3Term]) -> Z3Term:
        """An opaque term: its symbol is a function, so equal indices give equal values."""
        symbol: Opaque = node.data
        if symbol not in self._functions:
            self._functions[symbol] = self.terms.function(self._name(symbol.name), symbol.rank)
        term = self._functions[symbol](*indices)
        return self._declare(node, term, self._name(symbol.name), symbol.lower, symbol.upper)

    def bit_and(self, node: Node, a: Z3Term, b: Z3Term) -> Z3Term:
        """`a & b`: arithmetic when one is a constant, else a function defined as far as the bounds allow."""
        left, right = node.args
        if left is right:
            return a
        for mask, x in ((constant_value(right), a), (constant_value(left), b)):
            if mask is not None and len(_runs(mask if mask >= 0 else ~mask)) <= Z3_MASK_RUNS:
                return self._masked(x, mask) if mask >= 0 else x - self._masked(x, ~mask)
        terms, term = self.terms, self._and(a, b)
        facts = (
            terms.implied(a >= 0, terms.both(term >= 0, term <= a)),
            terms.implied(b >= 0, terms.both(term >= 0, term <= b)),
            terms.implied(terms.both(a < 0, b < 0), terms.both(term <= a, term <= b, term > a + b)),
            (term % 2).eq(terms.choice((a % 2).eq(1), b % 2, 0)),
        )
        # The window does not assume the hinted bounds, so proofs that need the bounds name their facts.
        signed, width = _window(self._bounds(left), self._bounds(right))
        low, high = (-self.power(width - 1), self.power(width - 1)) if signed else (self.integer(0), self.power(width))
        inside = terms.both(low <= a, a < high, low <= b, b < high)
        definition = terms.implied(inside, term.eq(terms.bits_of_both(a, b, width, signed)))
        self._carriers[node] = Carrier(node, term, facts, window=inside, definition=definition, arguments=(a, b))
        return term

    def _masked(self, x: Z3Term, mask: int) -> Z3Term:
        """`x & mask` for mask >= 0, as a sum over runs of ones of shifted remainders."""
        total = self.integer(0)
        for start, length in _runs(mask):
            field = (x / self.power(start) if start else x) % self.power(length)
            total = total + (field * self.power(start) if start else field)
        return total

    def shift(self, node: Node, apply: Callable[[Z3Term, Z3Term], Z3Term], x: Z3Term, amount: Z3Term) -> Z3Term:
        """`x` times, or divided by, a power of 2."""
        known = constant_value(node.args[1])
        if known is not None and known <= Z3_SHIFT:
            return apply(x, self.power(max(known, 0)))
        low, high = _shift_window(self._bounds(node.args[1]))
        terms, term = self.terms, self._pow2(amount)
        grows = terms.implied(amount > 0, terms.both(term > amount, (term % 2).eq(0)))
        inside = terms.both(amount >= low, amount <= high)
        self._carriers[node] = Carrier(node, term, (term >= 1, grows), window=inside, arguments=(amount,))
        value = apply(x, term)
        for k in range(low, high + 1):
            value = terms.choice(amount.eq(k), apply(x, self.power(k)), value)
        return value

    def floor_div(self, node: Node, a: Z3Term, b: Z3Term) -> Z3Term:
        """`a // b`; Euclidean division equals floor division for positive divisors, so negative ones are negated."""
        known = constant_value(node.args[1])
        if known is not None:
            return a / b if known >= 0 else -a / self.integer(-known)
        return self.terms.choice(b > 0, a / b, -a / -b)

    def floor_mod(self, node: Node, a: Z3Term, b: Z3Term) -> Z3Term:
        """`a % b`, with the sign of `b`."""
        known = constant_value(node.args[1])
        if known is not None:
            return a % b if known >= 0 else -(-a % self.integer(-known))
        return self.terms.choice(b > 0, a % b, -(-a % -b))

    def cast(self, node: Node, x: Z3Term) -> Z3Term:
        """`x` modulo 2 ** bits, moved to the signed range if need be."""
        bits, signed = node.data
        if not signed:
            return x % self.power(bits)
        half = self.power(bits - 1)
        return (x + half) % self.power(bits) - half


def _runs(mask: int) -> list[tuple[int, int]]:
    """(start, length) of each run of ones in the binary digits of `mask >= 0`."""
    return [(run.start(), len(run[0])) for run in re.finditer("1+", bin(mask)[:1:-1])]


def _window(a: HintedInterval, b: HintedInterval) -> tuple[bool, int]:
    """(signed, bits) of the narrowest bit-vector that holds both ranges; a byte if there is no small one."""
    ends = [end for end in (*a, *b) if end is not None]
    signed = min(ends, default=-1) < 0
    width = max((end.bit_length() for end in ends), default=0) + signed
    return (signed, max(width, 1)) if len(ends) == 4 and width <= Z3_WIDTH else (True, 8)


def _shift_window(amount: HintedInterval) -> tuple[int, int]:
    """The amounts to write out: all, or the smallest few."""
    low, high = max(amount[0] or 0, 0), amount[1]
    few = high is not None and high - low < Z3_TABLE and high <= Z3_SHIFT
    return (low, high) if high is not None and few else (min(low, Z3_SHIFT - 8), min(low, Z3_SHIFT - 8) + 8)


ValueEncoder: TypeAlias = Callable[[Encoder, Node, list[Z3Term]], Z3Term]
DefinedEncoder: TypeAlias = Callable[[Encoder, Node, list[Z3Term], list[Z3Term | None]], Z3Term | None]


def _selects(e: Encoder, node: Node, values: list[Z3Term], defined: list[Z3Term | None]) -> Z3Term | None:
    first, if_true, if_false = defined
    if if_true is None and if_false is None:
        return first
    return e.all_of(first, e.terms.choice(values[0], e.or_true(if_true), e.or_true(if_false)))


def _shifts(e: Encoder, node: Node, values: list[Z3Term], defined: list[Z3Term | None]) -> Z3Term | None:
    known = constant_value(node.args[1])
    return e.all_of(*defined, None if known is not None and known >= 0 else values[1] >= 0)


# Where an operation has a value. Other operations have one where their operands do.
_DEFINED: Final[dict[Op, DefinedEncoder]] = {
    **dict.fromkeys(ops.DIVISIONS, lambda e, n, v, d: e.all_of(*d, None if constant_value(n.args[1]) else v[1].ne(0))),
    ops.SHL: _shifts,
    ops.SHR: _shifts,
    ops.SELECT: _selects,
    ops.ASSERTING: lambda e, n, v, d: e.all_of(d[0], v[0], d[1]),
    # the second operand is evaluated only where the first one does not decide
    ops.AND: lambda e, n, v, d: e.all_of(d[0], None if d[1] is None else e.terms.implied(v[0], d[1])),
    ops.OR: lambda e, n, v, d: e.all_of(d[0], None if d[1] is None else e.terms.either(v[0], d[1])),
}


def _by_operator(meaning: Callable[..., Any]) -> ValueEncoder:
    return lambda e, n, v: meaning(*v)


_BY_OPERATOR: Final = (ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.LT, ops.LE, ops.GT, ops.GE)
_VALUES: Final[dict[Op, ValueEncoder]] = {
    **{op: _by_operator(op.meaning) for op in _BY_OPERATOR if op.meaning is not None},
    ops.CONST: lambda e, n, v: e.integer(n.data),
    ops.VAR: lambda e, n, v: e.variable(n),
    ops.LOAD: lambda e, n, v: e.load(n, v),
    ops.FLOORDIV: lambda e, n, v: e.floor_div(n, v[0], v[1]),
    ops.FLOORMOD: lambda e, n, v: e.floor_mod(n, v[0], v[1]),
    ops.CEILDIV: lambda e, n, v: -e.floor_div(n, -v[0], v[1]),  # ceil(a / b) == -floor(-a / b)
    # |a| divided, the sign follows; |a| % |b|, with the sign of a
    ops.TRUNCDIV: lambda e, n, v: e.terms.choice(v[0] >= 0, v[0] / v[1], -(-v[0] / v[1])),
    ops.TRUNCMOD: lambda e, n, v: e.terms.choice(v[0] >= 0, v[0] % v[1], -(-v[0] % v[1])),
    ops.MIN: lambda e, n, v: e.terms.choice(v[0] <= v[1], v[0], v[1]),
    ops.MAX: lambda e, n, v: e.terms.choice(v[0] >= v[1], v[0], v[1]),
    ops.ABS: lambda e, n, v: e.terms.choice(v[0] >= 0, v[0], -v[0]),
    ops.BITAND: lambda e, n, v: e.bit_and(n, v[0], v[1]),
    ops.BITOR: lambda e, n, v: v[0] + v[1] - e.bit_and(n, v[0], v[1]),  # a + b == (a | b) + (a & b)
    ops.BITXOR: lambda e, n, v: v[0] + v[1] - 2 * e.bit_and(n, v[0], v[1]),  # a | b == (a ^ b) + (a & b)
    ops.BITNOT: lambda e, n, v: -v[0] - 1,
    ops.SHL: lambda e, n, v: e.shift(n, lambda x, power: x * power, v[0], v[1]),
    ops.SHR: lambda e, n, v: e.shift(n, lambda x, power: x / power, v[0], v[1]),
    ops.CAST: lambda e, n, v: e.cast(n, v[0]),
    ops.SELECT: lambda e, n, v: e.terms.choice(v[0], v[1], v[2]),
    ops.ASSERTING: lambda e, n, v: v[1],
    ops.BOOL: lambda e, n, v: e.terms.truth(n.data),
    ops.EQ: lambda e, n, v: v[0].eq(v[1]),
    ops.NE: lambda e, n, v: v[0].ne(v[1]),
    ops.AND: lambda e, n, v: e.terms.both(v[0], v[1]),
    ops.OR: lambda e, n, v: e.terms.either(v[0], v[1]),
    ops.NOT: lambda e, n, v: e.terms.negated(v[0]),
}


CORE_Z3: Final = 20_000  # z3's units for leaving one fact out of a proof
Z3_MODELS: Final = 10  # models examined per query
Z3_CHEAP_MODELS: Final = 3  # models examined before definitions of bit operations are asserted
CORE_TRIALS: Final = 16  # deletion attempts per core

LabelledFact: TypeAlias = tuple[Cond, Any]  # a true condition, and its label in `core`
Model: TypeAlias = dict[Expr, int]


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
    """

    status: Literal["proved", "refuted", "unknown"]
    model: Model | None = None
    core: tuple[Any, ...] = ()
    declared: tuple[Expr, ...] = ()
    reason: str = ""


def effort(*roots: Node) -> int:
    """Estimated z3 effort: nonlinear products and divisions count 1, divisions by constants 1/4."""
    quarters = 0
    for node in dag.postorder(roots):
        if node.op is ops.MUL:
            quarters += 0 if node.args[0].is_const or node.args[1].is_const else 4
        elif node.op in ops.DIVISIONS:
            quarters += 1 if node.args[1].is_const else 4
    return quarters // 4


def nesting(root: Node) -> int:
    """Nesting depth of divisions; each level lengthens z3's numbers, which z3 units do not measure."""
    depth: dict[Node, int] = {}
    for node in dag.postorder((root,)):
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
        with keeping_interrupts():
            try:
                engine = _SmtEngine(goal, facts, rlimit, self._timeout_ms)
            except BudgetError as refusal:  # there is no z3
                return SmtResult("unknown", reason=str(refusal))
            try:
                return engine.decide(bounds, core, points)
            except BudgetError as refusal:  # it is not encodable
                return SmtResult("unknown", reason=str(refusal))
            except engine.z3.Z3Exception as failure:
                return SmtResult("unknown", reason=f"z3: {failure}")
            finally:
                WORKBENCHES.give_back(engine.bench)


class _SmtEngine:
    """The state of one query: its context, encoder, and asserted side facts."""

    def __init__(self, goal: Cond, facts: Sequence[LabelledFact], rlimit: int, timeout_ms: int) -> None:
        self.z3 = load_z3()
        self.goal, self.facts, self.rlimit, self.timeout_ms = goal, facts, rlimit, timeout_ms
        self.bench = WORKBENCHES.take(rlimit)
        self.terms = self.bench.terms
        self.ref, self.solver = self.terms.ref, self.bench.solver.solver
        self.encoder = Encoder(self.terms)
        self.carriers: dict[Carrier, None] = {}  # those whose side facts are asserted, in this order

    def decide(self, bounds: BoundsHint | None, core: bool, points: bool) -> SmtResult:
        encoded = [self.encoder.encode(fact, bounds) for fact, _ in self.facts]
        goal = self.encoder.encode(self.goal, bounds)
        names: dict[Z3Term, Any] = {}
        for number, (fact, (_, label)) in enumerate(zip(encoded, self.facts, strict=True)):
            self._assert_facts_of(fact.carriers)
            name = self.terms.unknown_condition(f"fact {number}")
            names[name] = label
            self._tell(self.encoder.or_true(self.encoder.all_of(fact.defined, fact.value)), name)
        self._assert_facts_of(goal.carriers)
        self._tell(self.encoder.or_true(goal.defined))
        self._tell(self.terms.negated(goal.value))
        return self._search(names, core, points)

    def _assert_facts_of(self, carriers: Sequence[Carrier]) -> None:
        """Assert the side facts of new carriers."""
        for carrier in carriers:
            if carrier not in self.carriers:
                self.carriers[carrier] = None
                for fact in carrier.facts:
                    self._tell(fact, carrier.literal)

    def _tell(self, condition: Z3Term, name: Z3Term | None = None) -> None:
        """Assert a condition, guarded by the literal `name` if given."""
        told = condition if name is None else self.terms.implied(name, condition)
        self.z3.Z3_solver_assert(self.ref, self.solver, told.ast)

    def _search(self, names: Mapping[Z3Term, Any], is_core: bool, points: bool) -> SmtResult:
        declared = {carrier.literal: carrier.node for carrier in self.carriers if carrier.literal is not None}
        literals = [*names, *declared]
        taught: set[tuple[Node, tuple[int, ...]]] = set()
        for attempt in range(Z3_MODELS):
            verdict, reason = self._ask(literals, self.rlimit)
            if verdict == self.z3.unknown:
                return SmtResult("unknown", reason=reason)
            if verdict == self.z3.unsat:
                core = self._minimal_core(literals) if is_core else set(literals)
                return SmtResult(
                    "proved",
                    core=tuple(dict.fromkeys(label for literal, label in names.items() if literal in core)),
                    declared=tuple(node for literal, node in declared.items() if literal in core),
                )
            values = self.terms.model_of(self.solver)
            model = self._counterexample(values)
            if model is None and attempt == Z3_CHEAP_MODELS:
                for carrier in self.carriers:
                    if carrier.definition is not None:
                        self._tell(carrier.definition)
                model = self._small_counterexample(literals) if points else None
            if model is not None:
                return SmtResult("refuted", model)
            if not self._teach(values, taught):
                break
        return SmtResult("unknown", reason="candidate")

    def _counterexample(self, values: Any) -> Model | None:
        """The point of a z3 model, if evaluation and declarations confirm it; else None."""
        model = {c.node: self.terms.value(values, c.term) for c in self.carriers if c.window is None}
        try:
            is_confirmed = (
                all(is_declared(term, value) for term, value in model.items())
                and all(_affordable(carrier.node, model) for carrier in self.carriers)
                and all(evaluate(fact, model) for fact, _ in self.facts)
                and not evaluate(self.goal, model)
            )
        except UndefinedError:
            return None
        return model if is_confirmed else None

    def _small_counterexample(self, literals: Sequence[Z3Term]) -> Model | None:
        """A counterexample with all bit operations inside the windows of their definitions."""
        self.z3.Z3_solver_push(self.ref, self.solver)
        for carrier in self.carriers:
            if carrier.window is not None:
                self._tell(carrier.window)
        is_sat = self._ask(literals, self.rlimit)[0] == self.z3.sat
        model = self._counterexample(self.terms.model_of(self.solver)) if is_sat else None
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

    def _minimal_core(self, literals: Sequence[Z3Term]) -> set[Z3Term]:
        """Shrink z3's unsatisfiable core by deletion, with `CORE_TRIALS` cheap checks."""
        used = self.terms.unsat_core(self.solver)
        core = {self.z3.Z3_get_ast_id(self.ref, literal.ast): literal for literal in literals}
        needed = [core[number] for number in sorted(core) if number in used]
        for literal in needed[:CORE_TRIALS]:
            rest = [other for other in needed if other is not literal]
            if len(rest) < len(needed) and self._ask(rest, CORE_Z3)[0] == self.z3.unsat:
                needed = rest
        return set(needed)

    def _teach(self, values: Any, taught: set[tuple[Node, tuple[int, ...]]]) -> bool:
        """Assert true values of bit operations at the model's arguments; returns whether a lemma was new."""
        known = len(taught)
        for carrier in self.carriers:
            arguments = tuple(self.terms.value(values, term) for term in carrier.arguments)
            lemma = self.encoder.lemma(carrier, arguments) if arguments else None
            if lemma is not None and (carrier.node, arguments) not in taught:
                self._tell(lemma)
                taught.add((carrier.node, arguments))
        return len(taught) > known


def _affordable(node: Node, model: Model) -> bool:
    """Whether a shift is evaluable at a point, with an amount of at most `Z3_SHIFT` bits."""
    try:
        return node.op not in (ops.SHL, ops.SHR) or evaluate(node.args[1], model) <= Z3_SHIFT
    except UndefinedError:
        return True
