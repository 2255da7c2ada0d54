"""`lower_division`: each division by the cheapest rule proved in its scope; the facts that a cheaper one lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, overload

import intset
from intset.config import CHEAPEST, Configured, Effort, all_as_configured, current, memoized, tiers_within
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, IntLike, Node, Range, Var, arguments, const, constant_value, dag, ops
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.definedness import embedded_claims
from intset.expr.node import Kind_co, as_int, truth
from intset.facts import ASSERTED, DERIVED, Fact
from intset.linear.signs import Member
from intset.prover.explain import ways_to_state
from intset.prover.proof import PROVED, REFUTED, UNKNOWN, Proof, fit_conditions
from intset.simplify.engine import DIVISION, DIVISION_BY_CONSTANT, machine_cost
from lowering.division.rules import OPERAND_RULES, RULES, DivisionRule, Fits, Need, Needs, Site, prices, truncdiv

DIVISION_Z3: Final = 100_000  # lowering asks many small questions: each gets a small share
DIVISION_ISL: Final = 6_000  # isl's operations for each of them

MAX_GUARDS: Final = 8  # the innermost branch conditions that are used
MAX_PREMISES: Final = 16  # subterms of a division that are assumed to be representable
MAX_GUARD: Final = 200  # nodes, counted as a tree: a larger branch condition is not used
MAX_TREE: Final = 1000  # nodes, counted as a tree: larger operands are given to the linear tier alone
MAX_ASKED: Final = 100_000  # still larger ones to no tier
NONLINEAR: Final = 20  # divides the budget of questions with products of unknowns: z3's units take that much longer
MAX_SCOPES: Final = 4  # a shared node is lowered under this many sets of branch conditions; under more, without any
MAX_SIMPLIFIED: Final = 400  # nodes, counted as a tree: larger divisions are not given to the linear form as a whole
_QUOTIENTS: Final = (ops.FLOORDIV, ops.CEILDIV, ops.TRUNCDIV)
_C_OWN: Final = (ops.TRUNCDIV, ops.TRUNCMOD)


class DivisionScope:
    """The caller's context with the branch conditions around one part of an expression.

    Guarantee: `prove` is right at every point of the caller's context at which that part is evaluated and the whole
    expression has a value; `prove_at` where moreover every evaluated subterm is representable in `bits` bits.

    Parameters
    ----------
    points: counterexamples that earlier questions of the same lowering found. Each new one is appended.
    """

    def __init__(
        self, ctx: Context, bits: int, guards: tuple[Cond, ...], claims: tuple[Cond, ...], points: list[Member]
    ) -> None:
        self._given, self.bits, self.guards, self._claims, self._points = ctx, bits, guards, claims, points

    @cached_property
    def ctx(self) -> Context:
        facts = [Fact(guard, DERIVED) for guard in self.guards]
        facts += [Fact(part, ASSERTED) for claim in self._claims for part in dag.conjuncts(claim)]
        return self._given.extended(facts=facts) if facts else self._given

    @memoized
    def inside(self, condition: Cond, branch: Node) -> DivisionScope:
        """The scope of a lazily evaluated branch, guarded by a condition."""
        new = [condition] if is_small(condition) else []
        guards = tuple(dict.fromkeys((*self.guards, *new)))[-MAX_GUARDS:]
        new = [claim for claim in embedded_claims((branch,)) if is_small(claim)]
        claims = tuple(dict.fromkeys((*self._claims, *new)))[-MAX_GUARDS:]
        same = guards == self.guards and claims == self._claims
        return self if same else DivisionScope(self._given, self.bits, guards, claims, self._points)

    def prove(self, cond: Cond, size: int = 0) -> Proof:
        """Prove a condition; `size` counts the tree nodes of its expressions."""
        if size > MAX_ASKED:
            return _decided(cond) or Proof(cond, UNKNOWN, "", reason="the expression is too large to be asked about")
        return self._proof(None, cond, size > MAX_TREE)

    def prove_at(self, root: Node, cond: Cond, size: int = 0) -> Proof:
        """The proof of `cond` with the premise that the evaluated subterms of `root` are representable."""
        if size > MAX_TREE:  # every root has a context of its own
            return self.prove(cond, size)
        return self._proof(root, cond, False)

    @memoized
    def _proof(self, root: Node | None, cond: Cond, is_large: bool) -> Proof:
        """The proof of a condition, with the premise of `prove_at` for a root."""
        decided = _decided(cond)
        if decided is not None:
            return decided
        ctx = self.ctx if root is None else self.premised(root)
        facts = ctx.frame.facts
        if any(at.term(cond) is False and all(at.term(fact.condition) for fact in facts) for at in self._points):
            return Proof(cond, REFUTED, "linear")
        with _budget(is_large, cond):
            proof = ctx.prove(cond)
        if proof.counterexample is not None:
            ranges = self._given.frame.known.ranges
            point: dict[Expr, int] = {var: low for var, (low, _) in ranges.items() if low is not None}
            self._points.append(Member(point | proof.counterexample, 0))
        return proof

    @memoized
    def premised(self, root: Node) -> Context:
        """The context with the facts that the operands below `root` are representable."""
        least, most = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        facts = [Fact(limit, DERIVED) for e in _operands(root) for limit in (e >= least, e <= most)]
        return self.ctx.extended(facts=facts)

    def justify_any(self, root: Node, needs: Needs, size: int) -> Proof | None:
        """The proof of the first alternative that is proved."""
        proofs = (self.justify(root, need, size) for need in needs)
        return next((proof for proof in proofs if proof is not None), None)

    def justify(self, root: Node, need: Need, size: int = 0) -> Proof | None:
        """One proof of a conjunction; `None` if a part is not proved. Parts that numbers decide need none."""
        parts: list[Proof] = []
        for item in need:
            proof = self.prove_at(root, item.cond, size) if isinstance(item, Fits) else self.prove(item, size)
            if not proof:
                return None
            parts += [] if _decided(proof.goal) else [proof]
        goal = logical_and(*(item.cond if isinstance(item, Fits) else item for item in need))
        if len(parts) == 1:
            return Proof(goal, PROVED, parts[0].by, parts[0].decided_vacuous, basis=parts[0].basis)
        fits = any(isinstance(item, Fits) for item in need)
        proof = self.prove_at(root, goal, size) if fits else self.prove(goal, size)
        return proof or None


def root_scope(ctx: Context | None, root: Node, bits: int) -> DivisionScope:
    """The scope of a whole expression: the context, the ranges of its loop variables, and its embedded assertions."""
    given = Context() if ctx is None else ctx
    carried: dict[Var, Range | None] = {}
    pending = list(dag.free_vars(root))
    ends: list[Expr] = []
    sizes: list[Cond] = []
    while pending:
        var = pending.pop()
        sizes += [size >= 0 for size in getattr(var, "sizes", ())]
        limits = getattr(var, "dom", None)
        if var in given.ranges or var in carried or not isinstance(limits, Range):
            continue
        carried[var] = limits
        ends += [end for end in (limits.min, limits.extent) if isinstance(end, Expr)]
        pending += limits.free_vars()
    given = given.extended(ranges=carried) if carried else given
    claims = (*sizes, *(claim for claim in embedded_claims((root, *ends)) if is_small(claim)))
    return DivisionScope(given, bits, (), tuple(dict.fromkeys(claims)), [])


def _budget(is_large: bool, cond: Cond) -> AbstractContextManager[object]:
    config = current()
    remainder = cond.args[0] if cond.op is ops.EQ and cond.args[0].op is ops.FLOORMOD else None
    # z3 hardly ever decides that an unknown divides a term; linear forms and facts do
    effort = Effort.FULL if remainder is None or remainder.args[1].op is ops.CONST else Effort.DEFAULT
    tiers = tiers_within(Effort.FAST if is_large else effort)
    units = min(config.z3_rlimit, DIVISION_Z3 // NONLINEAR if dag.is_nonlinear((cond,)) else DIVISION_Z3)
    return intset.using(z3_rlimit=units, isl_operations=min(config.isl_operations, DIVISION_ISL), tiers=tiers)


def is_small(cond: Cond) -> bool:
    """Whether the tree of a condition has at most `MAX_GUARD` nodes."""
    count, stack = 0, [cond]
    while stack and count <= MAX_GUARD:
        count += 1
        stack.extend(stack.pop().args)
    return count <= MAX_GUARD


def _decided(cond: Cond) -> Proof | None:
    """The proof of a comparison of constants, or of the empty conjunction."""
    if cond.op is ops.BOOL and cond.data:
        return Proof(cond, PROVED, "linear")
    if cond.op in ops.COMPARISONS:
        a, b = (constant_value(arg) for arg in cond.args)
        if a is not None and b is not None and cond.op.meaning is not None and cond.op.meaning(a, b):
            return Proof(cond, PROVED, "linear")
    return None


def _operands(root: Node) -> list[Expr]:
    """Variables, loads and subterms that are evaluated whenever `root` is, the nearest first; not `root` itself."""
    evaluated: dict[Node, None] = {}
    level: list[Node] = [root]
    while level and len(evaluated) < MAX_PREMISES:
        below: dict[Node, None] = {}
        for node in level:
            lazy = node.op in (ops.SELECT, ops.AND, ops.OR)
            args = node.args[:1] if lazy else node.args[1:] if node.op is ops.ASSERTING else node.args
            below.update(dict.fromkeys(arg for arg in args if arg not in evaluated))
        evaluated.update(below)
        level = list(below)
    return [node for node in evaluated if isinstance(node, Expr) and node.op is not ops.CONST]


class LoweringStep(NamedTuple):
    """One rewrite: `before` is an expression as it was written, `after` the same lowered."""

    rule: str
    proof: Proof
    before: Node
    after: Node

    def __repr__(self) -> str:
        why = "" if self.proof.goal.op is ops.BOOL else f"  because {self.proof.goal}"
        return f"{self.rule}: {self.before} -> {self.after}{why}{' (vacuous)' if self.proof.vacuous else ''}"


def checked(e: Any, bits: Any) -> tuple[Node, int]:
    """The arguments of `lower_division` as a node and a width; raises `InputError`."""
    width = as_int(bits, "bits")
    if width < 2:
        raise InputError(f"bits must be at least 2, not {width}")
    if isinstance(e, Node):
        return e, width
    return const(as_int(e, "the expression")), width


Key = tuple[Node, DivisionScope, bool]  # the last: whether the linear form may simplify the node


class LoweredSite(NamedTuple):
    """A lowered division: its rule and machine cost."""

    site: Site
    scope: DivisionScope
    cost: int
    rule: DivisionRule


class _Deferred(NamedTuple):
    """The keys that a key depends on, and the function that computes it from their results."""

    children: tuple[Key, ...]
    finish: Callable[[list[Any]], Any]


class DivisionLowering:
    """One run of `lower_division`.

    Invariant: the walk visits each node at most once per scope, in at most `MAX_SCOPES` + 1 scopes.

    Attributes
    ----------
    done, uses: for each key its lowered node, and the keys whose steps it consists of.
    step, sites, nonzero: keyed by division: its step, its rule, and the proof of a nonzero divisor.
    """

    def __init__(self, ctx: Context | None, root: Node, bits: int) -> None:
        self.bits, self.root = bits, root
        self.top = root_scope(ctx, root, bits)
        self.done: dict[Key, Any] = {}
        self.uses: dict[Key, tuple[Key, ...]] = {}
        self.step: dict[Key, LoweringStep] = {}
        self.sites: dict[Key, LoweredSite] = {}
        self.nonzero: dict[Key, tuple[Proof, Cond]] = {}
        self._scopes: dict[Node, set[DivisionScope]] = {}
        self._irreducible: set[tuple[Node, DivisionScope]] = set()  # simplified alone or in a node around
        self._tree: dict[Node, int] = {}  # nodes counted as a tree, up to a bound
        self._has_divisions: dict[Node, bool] = {}  # or assertions to be taken out
        self._pairs: set[tuple[Node, ...]] = set()  # operands of both a quotient and a remainder
        self._measure(root)

    def result(self) -> tuple[Any, tuple[LoweringStep, ...], tuple[tuple[Proof, Cond], ...]]:
        """The lowered expression, where remainders share quotients; its steps; proved conditions that divisors differ
        from 0, with their proofs."""
        key = self.run()
        expr, shared = share(self.done[key])
        used = self.reached(key)
        steps = [self.step[k] for k in used if k in self.step]
        steps += [LoweringStep("shared quotient", Proof(truth(True), PROVED, "linear"), *pair) for pair in shared]
        return expr, tuple(steps), tuple(self.nonzero[k] for k in used if k in self.nonzero)

    def run(self) -> Key:
        """Lower every node; returns the key of the root."""
        first = self._key(self.root, self.top, True)
        for key in dag.postorder_by((first,), lambda key: self._expanded(key).children):
            self.uses[key], finish = self._expanded(key)
            self.done[key] = finish([self.done[child] for child in self.uses[key]])
        return first

    def reached(self, root: Key) -> list[Key]:
        """The keys that the result consists of, operands first."""
        return dag.postorder_by((root,), lambda key: self.uses.get(key, ()))

    # -- the walk -----------------------------------------------------------------------------------------------

    def _measure(self, root: Node) -> None:
        for node in dag.postorder_until(root, self._has_divisions):
            own = node.op in ops.DIVISIONS or node.op is ops.ASSERTING
            self._has_divisions[node] = own or any(self._has_divisions[arg] for arg in node.args)
            self._tree[node] = min(1 + sum(self._tree[arg] for arg in node.args), 1 << 30)
        divisions = [node for node in dag.postorder((root,)) if node.op in ops.DIVISIONS]
        quotients = {node.args for node in divisions if node.op in _QUOTIENTS}
        self._pairs |= quotients & {node.args for node in divisions if node.op not in _QUOTIENTS}

    def _key(self, node: Node, scope: DivisionScope, simplify: bool) -> Key:
        if not self._has_divisions[node]:
            return (node, self.top, False)
        seen = self._scopes.setdefault(node, set())
        scope = scope if scope in seen or len(seen) < MAX_SCOPES else self.top
        seen.add(scope)
        return (node, scope, simplify or node.op in ops.DIVISIONS)

    @memoized
    def _expanded(self, key: Key) -> _Deferred:
        node, scope, simplify = key
        if not self._has_divisions[node]:
            return _Deferred((), lambda args: node)
        if simplify and isinstance(node, Expr) and (node, scope) not in self._irreducible:
            shorter = self._shorter(node, scope)
            if shorter is not None:
                self.step[key] = shorter
                self._measure(shorter.after)
                return _Deferred((self._key(shorter.after, scope, False),), lambda args: args[0])
        children = self._children(node, scope)
        if (node, scope) in self._irreducible:  # then its operands were simplified with it
            self._irreducible.update(child[:2] for child in children)
        if node.op in ops.DIVISIONS:
            return _Deferred(children, lambda args: self._divide(key, args[0], args[1]))
        if node.op is ops.ASSERTING:
            return _Deferred(children, lambda args: args[0])
        return _Deferred(children, lambda args: self._rebuilt(key, children, args))

    def _children(self, node: Node, scope: DivisionScope) -> tuple[Key, ...]:
        args = node.args
        if node.op is ops.ASSERTING:
            return (self._key(args[1], scope, False),)
        if node.op is ops.SELECT:
            branches = [(args[1], args[0]), (args[2], logical_not(args[0]))]
        elif node.op is ops.AND:
            branches = [(args[1], args[0])]
        elif node.op is ops.OR:
            branches = [(args[1], logical_not(args[0]))]
        else:
            whole = node.op is ops.LOAD or node.op in ops.COMPARISONS
            return tuple(self._key(arg, scope, whole) for arg in args)
        first = self._key(args[0], scope, False)
        arms = ((arm, scope.inside(where, arm) if self._has_divisions[arm] else scope) for arm, where in branches)
        return (first, *(self._key(arm, inner, True) for arm, inner in arms))

    def _rebuilt(self, key: Key, children: tuple[Key, ...], args: list[Any]) -> Node:
        node = key[0]
        for position in (0, 1) if len(args) == 2 else ():
            cheaper = self._by_operand_rule(key, children, args, position)
            if cheaper is not None:
                return cheaper
        return node.with_args(tuple(args))

    # -- the linear form ----------------------------------------------------------------------------------------

    def _shorter(self, e: Expr, scope: DivisionScope) -> LoweringStep | None:
        """The canonical form of `e`, if its divisions cost less and each of its steps is representable."""
        before = _division_weight(e) if self._tree[e] <= MAX_SIMPLIFIED else 0
        if not before:
            return None
        s = scope.ctx.simplify(e, bits=self.bits)
        if s is e:
            self._irreducible.add((e, scope))
        if _division_weight(s) >= before:
            return None
        size = self._tree[e]
        proof = scope.prove(e.eq(s), size)
        if not proof:
            return None
        fits = all(scope.prove_at(e, need, size) for need in fit_conditions(scope.premised(e), s, self.bits))
        return LoweringStep("exact cancellation", proof, e, s) if fits else None

    # -- the rules ----------------------------------------------------------------------------------------------

    def candidates(self, key: Key, x: Expr, y: Expr) -> list[tuple[int, int, DivisionRule, Site]]:
        """The applicable rules, cheapest first, as tuples (cost, number in the table, rule, site)."""
        node, scope, _ = key
        a, b = node.args
        c = constant_value(b)
        y = y if c is None else const(c)
        low = None
        if c is not None and c > 1 and c & c - 1 and node.op not in _C_OWN and self._tree[a] <= MAX_TREE:
            known = scope.ctx.frame.known
            low = known.bounds(known.form(a))[0]
            if low is not None and low < 0:  # only a negative dividend may be shifted by its least value
                least = scope.ctx.bounds(a, over="sizes", domain=CHEAPEST)[0]
                low = constant_value(least) if isinstance(least, Expr) else None
        site = Site(node.op, a, b, x, y, self.bits, low)
        return [(cost, k, RULES[node.op][k], site) for cost, k in prices(site, node.args in self._pairs)]

    def _divide(self, key: Key, x: Expr, y: Expr) -> Expr:
        node, scope, _ = key
        for price, _, rule, site in self.candidates(key, x, y):
            proof = scope.justify_any(node, rule.needs(site), self._tree[node])
            if proof is None:
                continue
            after = rule.rewrite(site)
            self.sites[key] = LoweredSite(site, scope, price, rule)
            if node.op not in _C_OWN or after.op is not node.op:
                self.step[key] = LoweringStep(rule.name, proof, node, after)
            if not site.c:
                self._require_nonzero(key, site.b)
            return after
        raise AssertionError(f"no rule for {node.op.name}")  # the last rule of each operation has no side condition

    def _require_nonzero(self, key: Key, divisor: Expr) -> None:
        node, scope, _ = key
        while divisor.op is ops.ASSERTING:
            divisor = divisor.args[1]
        nonzero = divisor.ne(0)
        guarded = logical_or(*(logical_not(guard) for guard in scope.guards), nonzero)
        self.nonzero[key] = (scope.prove(nonzero, self._tree[node]), guarded)

    def _by_operand_rule(self, key: Key, children: tuple[Key, ...], args: list[Any], position: int) -> Node | None:
        """The node with its argument at `position` divided more cheaply than alone; `None` if no rule applies."""
        node, child = key[0], children[position]
        lowered = self.sites.get(child)
        if lowered is None:
            return None
        for rule in OPERAND_RULES:
            if rule.outer is not node.op or rule.op is not lowered.site.op:
                continue
            part = rule.rewrite(lowered.site)
            if machine_cost(part, {lowered.site.x, lowered.site.y}) >= lowered.cost:
                continue
            needs = rule.needs(lowered.site, node.args[1 - position])
            proof = lowered.scope.justify_any(child[0], needs, self._tree[node])
            if proof is None:
                continue
            result = node.with_args(tuple(part if k == position else arg for k, arg in enumerate(args)))
            self.step[key] = LoweringStep(rule.name, proof, node, result)
            self.uses[key] = (*self.uses[child], children[1 - position])
            if child in self.nonzero:
                self.nonzero[key] = self.nonzero[child]
            return result
        return None


def _division_weight(root: Node) -> int:
    """A lower bound of the machine cost of the divisions below `root`, each counted once."""
    total = 0
    for node in dag.postorder((root,)):
        if node.op in ops.DIVISIONS:
            c = constant_value(node.args[1])
            total += DIVISION if c is None else DIVISION_BY_CONSTANT if abs(c) & abs(c) - 1 else 1
    return total


# -- quotient and remainder of one pair -------------------------------------------------------------------------


def share(root: Node) -> tuple[Node, tuple[tuple[Node, Node], ...]]:
    """`root` with `a - (a / b) * b` for `a rem b` wherever `a / b` is evaluated anyway; and the pairs replaced.

    Guarantee: equal values, and no new overflow or trap. The product lies between 0 and a, and `root` evaluates every
    shared quotient already.
    """
    order = dag.postorder((root,))
    pairs = {pair for node in order if (pair := _remainder_of(node)) is not None}
    bit = {node: 1 << k for k, node in enumerate(n for n in order if n.op is ops.TRUNCDIV and n.args in pairs)}
    if not bit:
        return root, ()
    evaluated = _evaluated_quotients(root, order, bit)
    new: dict[Node, Any] = {}
    replaced: list[tuple[Node, Node]] = []
    for node in order:
        args = tuple(new[arg] for arg in node.args)
        new[node] = node.with_args(args)
        pair = _remainder_of(node)
        if pair is not None and evaluated[node] & bit.get(truncdiv(*pair), 0):
            before, (a, b) = new[node], (new[e] for e in pair)
            new[node] = a - truncdiv(a, b) * b
            replaced.append((before, new[node]))
    return new[root], tuple(replaced)


def _remainder_of(node: Node) -> tuple[Expr, Expr] | None:
    """(a, b) of `a rem b`, or of the guarded `a rem (b == -1 ? 1 : b)`; `None` where C compilers make a mask of it."""
    if node.op is not ops.TRUNCMOD:
        return None
    a, b = node.args
    if b.op is ops.SELECT and b.args[0].op is ops.EQ and b.args[1] is const(1):
        left, right = b.args[0].args
        if left is b.args[2] and right is const(-1):
            b = left
    c = constant_value(b)
    return None if c is not None and abs(c) & abs(c) - 1 == 0 else (a, b)


def _evaluated_quotients(root: Node, order: list[Node], bit: Mapping[Node, int]) -> dict[Node, int]:
    """For each node the quotients, one bit each, that are evaluated wherever the node is."""
    inside: dict[Node, int] = {}  # those that evaluating the node itself evaluates
    for node in order:
        bits = bit.get(node, 0)
        for child, lazy in _children(node):
            bits |= 0 if lazy else inside[child]
        inside[node] = bits
    evaluated = {root: inside[root]}
    for node in reversed(order):  # users before operands
        known = evaluated[node]
        for child, lazy in _children(node):
            own = known | inside[child] if lazy else known
            evaluated[child] = evaluated[child] & own if child in evaluated else own
    return evaluated


def _children(node: Node) -> list[tuple[Node, bool]]:
    """Each argument, paired with its laziness."""
    lazy = node.op in (ops.SELECT, ops.AND, ops.OR, ops.ASSERTING)
    return [(arg, lazy and k > 0) for k, arg in enumerate(node.args)]


@all_as_configured
@dataclass(eq=False, repr=False)
class Lowered(Configured, Generic[Kind_co]):
    """The result of `lower_division`.

    Guarantee: at every point of the context at which the expression has a value and each of its evaluated subterms is
    representable in `bits` signed bits, `evaluate(expr, point, bits=bits)` gives that value. So no step overflows or
    traps there; that includes `MIN % -1`, which is 0. (`MIN // -1` is not representable, so such points are excluded.)

    Attributes
    ----------
    expr: the lowered expression, without assertions.
    steps: the rewrites, operands first.
    bits: the width.
    asked: the expression as written, and its context.
    """

    expr: Kind_co
    steps: tuple[LoweringStep, ...]
    bits: int
    _divisors: tuple[tuple[Proof, Cond], ...]
    asked: tuple[Node, Context | None]

    @cached_property
    def requires(self) -> tuple[Cond, ...]:
        """Side conditions: divisors not proved to be nonzero, and assumed facts that proofs used."""
        required = [proof.requires if proof else (nonzero,) for proof, nonzero in self._divisors]
        required += [step.proof.requires for step in self.steps]
        return tuple(dict.fromkeys(cond for conditions in required for cond in conditions))

    @property
    def cost(self) -> int:
        """The machine cost of the expression."""
        return machine_cost(self.expr)

    @cached_property
    def missing(self) -> tuple[MissingFact, ...]:
        """The facts that cheaper forms lack, and how to state them."""
        return missing_facts(*self.asked, self.bits)

    def explain(self) -> str:
        """The steps with their reasons, the side conditions, and the facts that cheaper forms lack."""
        lines = [f"{self.asked[0]} becomes {self.expr} at {self.bits} bits."]
        lines += [f"{step!r}" for step in self.steps]
        lines += [f"It requires {cond}." for cond in self.requires]
        named: set[Cond] = set()
        for missing in self.missing:
            line = f"For {missing.rule} of {missing.division}, {missing.fact} is missing"
            if missing.fact in named:
                lines.append(f"{line}, as above.")
                continue
            named.add(missing.fact)
            lines += [f"{line}. To state it:", *(f"  {name}: {way}" for name, way in missing.ways.items())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Lowered at {self.bits} bits: {self.expr}>"


@overload
def lower_division(e: Cond, ctx: Context | None = None, bits: int = 32) -> Lowered[Cond]: ...
@overload
def lower_division(e: IntLike, ctx: Context | None = None, bits: int = 32) -> Lowered[Expr]: ...
def lower_division(e: IntLike | Cond, ctx: Context | None = None, bits: int = 32) -> Lowered[Cond] | Lowered[Expr]:
    """Lower every floor and ceiling division and remainder of `e` to C operations of `bits` bits.

    Each division becomes the cheapest form, by `intset.simplify.engine.MACHINE_COST`, whose side condition is proved.

    Parameters
    ----------
    e: the expression, or a condition. Facts of its variables (`ShapeVar`, the range of an `IterVar`) and embedded facts
        (`nonneg`, `bounded`, `asserting`) need no context.
    ctx: further ranges and facts. A branch of `select`, `&` or `|` may use its condition.
    bits: the width of the machine operations, at least 2.

    Raises
    ------
    InputError: `e` is not an expression; `bits` is less than 2.

    Example
    -------
    >>> from intset import Range, ShapeVar, Var
    >>> i, n = Var("i"), ShapeVar("n")
    >>> lower_division(i % n, Context({i: Range(0, n * n)})).expr
    truncmod(i, n)
    """
    root, width = checked(e, bits)
    if ctx is not None:
        # a copy: `missing` may be asked after the caller's blocks end
        ctx = arguments.of_kind(Context, ctx, "ctx").extended()
    expr, steps, divisors = DivisionLowering(ctx, root, width).result()
    return Lowered(expr, steps, width, divisors, (root, ctx))


# -- missing facts ---------------------------------------------------------------------------------------------


class MissingFact(NamedTuple):
    """A fact that a cheaper lowering of a division needs and nothing known implies.

    Attributes
    ----------
    fact: the condition.
    how: how to state it, in words.
    division: the division, as written.
    rule: the rule that applies once all missing facts of this division are known.
    saves: the difference in machine cost.
    """

    fact: Cond
    how: str
    division: Node
    rule: str
    saves: int

    @property
    def ways(self) -> dict[str, str]:
        """The ways to state it, by name."""
        return ways_to_state(self.fact)

    def __str__(self) -> str:
        return f"{self.fact}: {self.how}"


def missing_facts(e: Any, ctx: Context | None = None, bits: int = 32) -> tuple[MissingFact, ...]:
    """The unproved side conditions of the cheapest rule that could apply to each division of `e`.

    Parameters are those of `lower_division`. Rules that need nonpositive operands are tried last; rules for exact
    divisions are not. A condition on a compound expression becomes signs of its variables where these imply it.

    >>> [str(m) for m in missing_facts(Var("i") % 5)]
    ["i >= 0: declare ShapeVar('i') or assume it"]
    """
    root, width = checked(e, bits)
    run = DivisionLowering(ctx, root, width)
    facts: dict[tuple[Cond, Node], MissingFact] = {}
    for key in run.reached(run.run()):
        for missing in _missing_for(run, key):
            facts.setdefault((missing.fact, missing.division), missing)
    return tuple(facts.values())


def _missing_for(run: DivisionLowering, key: Key) -> list[MissingFact]:
    lowered = run.sites.get(key)
    if lowered is None:
        return []
    site = lowered.site
    cheaper = [entry for entry in run.candidates(key, site.x, site.y) if entry[0] < lowered.cost]
    for unusual in ((ops.LE, ops.LT, ops.EQ), (ops.EQ,)):
        for price, _, rule, _ in cheaper:
            alternatives = (_unproved_of(key, need, unusual) for need in rule.needs(site))
            facts = next(filter(None, alternatives), None)  # the first alternative that may hold
            if facts is not None:
                saves = lowered.cost - price
                return [MissingFact(fact, how_to_state(fact), key[0], rule.name, saves) for fact in facts]
    return []


def _unproved_of(key: Key, need: Need, unusual: tuple[ops.Op, ...]) -> list[Cond] | None:
    node, scope, _ = key
    facts: dict[Cond, None] = {}
    for item in need:
        cond, ctx = (item.cond, scope.premised(node)) if isinstance(item, Fits) else (item, scope.ctx)
        if ctx.prove(cond):
            continue
        if ctx.prove(~cond) or (cond is item and cond.op in unusual):
            return None
        facts.update(dict.fromkeys(_signs(ctx, cond)))
    of_loops = [fact for fact in facts if all(var in scope.ctx.ranges for var in dag.free_vars(fact))]
    is_settled = any(scope.ctx.prove(fact).status == "refuted" for fact in of_loops)  # no user can state it
    return None if is_settled else list(facts)


def _signs(ctx: Context, cond: Cond) -> list[Cond]:
    """A minimal set of signs of variables that implies `cond`; `cond` itself if all signs do not."""
    signs = [var >= 0 for var in dag.free_vars(cond) if not ctx.prove(var >= 0)]
    together = ctx.extended(facts=signs).prove(cond) if signs else None
    if not together or together.vacuous:
        simple: Cond = ctx.canonical(cond)
        return [simple if simple.op in ops.COMPARISONS and simple.args[1].op is ops.CONST else cond]
    for sign in tuple(signs):
        fewer = [other for other in signs if other is not sign]
        if ctx.extended(facts=fewer).prove(cond):
            signs = fewer
    return signs


def how_to_state(fact: Cond) -> str:
    """The words that tell a user how to state a fact."""
    if fact.op in (ops.GE, ops.LE):
        e, k = fact.args[0], constant_value(fact.args[1])
        if isinstance(e, Var) and k is not None:
            limit = f"upper={k}" if fact.op is ops.LE else f"lower={k}" if k else ""
            return f"declare ShapeVar({e.name!r}{', ' * bool(limit)}{limit}) or assume it"
        if isinstance(e, Expr) and k == 0 and fact.op is ops.GE:
            return f"write nonneg({e}) or assume it"
    return "assume it, or give its variables ranges that imply it"
