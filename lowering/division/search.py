"""The walk of `lower_division`: each division by the cheapest rule that is proved; quotients shared with remainders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from intset.context import Context
from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import logical_not, logical_or
from intset.expr.dag import postorder, postorder_by, postorder_until
from intset.expr.node import Cond, Expr, Node, as_int, const, constant_value, make, truth
from intset.prover.proof import PROVED, Proof, fit_conditions
from intset.simplify.cost import DIVISION, DIVISION_BY_CONSTANT, machine_cost
from lowering.division.rules import OPERAND_RULES, RULES, DivisionRule
from lowering.division.scope import DivisionScope, root_scope
from lowering.division.site import Site, truncdiv

MAX_SCOPES: Final = 4  # a shared node is lowered under this many sets of branch conditions; under more, without any
MAX_SIMPLIFIED: Final = 400  # nodes, counted as a tree: larger divisions are not given to the linear form as a whole
_QUOTIENTS: Final = (ops.FLOORDIV, ops.CEILDIV, ops.TRUNCDIV)
_C_OWN: Final = (ops.TRUNCDIV, ops.TRUNCMOD)


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


class Result(NamedTuple):
    """The lowered expression, its steps, and a proof of nonzeroness for each divisor with that condition."""

    expr: Any
    steps: tuple[LoweringStep, ...]
    divisors: tuple[tuple[Proof, Cond], ...]


class _Deferred(NamedTuple):
    """The keys that a key depends on, and the function that computes it from their results."""

    children: tuple[Key, ...]
    finish: Callable[[list[Any]], Any]


class DivisionLowering:
    """One run of `lower_division`.

    Invariant: the walk visits each node at most once per scope, in at most `MAX_SCOPES` + 1 scopes.

    Attributes
    ----------
    done, deferred, uses: for each key its lowered node, what it depends on, and the keys whose steps it consists of.
    step, sites, nonzero: keyed by division: its step, its rule, and the proof of a nonzero divisor.
    """

    def __init__(self, ctx: Context | None, root: Node, bits: int) -> None:
        self.bits, self.root = bits, root
        self.top = root_scope(ctx, root, bits)
        self.done: dict[Key, Any] = {}
        self.deferred: dict[Key, _Deferred] = {}
        self.uses: dict[Key, tuple[Key, ...]] = {}
        self.step: dict[Key, LoweringStep] = {}
        self.sites: dict[Key, LoweredSite] = {}
        self.nonzero: dict[Key, tuple[Proof, Cond]] = {}
        self._scopes: dict[Node, list[DivisionScope]] = {}
        self._tree: dict[Node, int] = {}  # nodes counted as a tree, up to a bound
        self._has_divisions: dict[Node, bool] = {}  # or assertions to be taken out
        self._pairs: set[tuple[Node, ...]] = set()  # operands of both a quotient and a remainder
        self._measure(root)

    def result(self) -> Result:
        """The lowered expression, with quotients shared by remainders."""
        key = self.run()
        expr, shared = share(self.done[key])
        used = self.reached(key)
        steps = [self.step[k] for k in used if k in self.step]
        steps += [LoweringStep("shared quotient", Proof(truth(True), PROVED, "linear"), *pair) for pair in shared]
        return Result(expr, tuple(steps), tuple(self.nonzero[k] for k in used if k in self.nonzero))

    def run(self) -> Key:
        """Lower every node; returns the key of the root."""
        first = self._key(self.root, self.top, True)
        stack = [first]
        while stack:
            key = stack[-1]
            if key in self.done:
                stack.pop()
                continue
            if key not in self.deferred:
                self.deferred[key] = self._expanded(key)
                self.uses[key] = self.deferred[key].children
            children, finish = self.deferred[key]
            waiting = [child for child in children if child not in self.done]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            self.done[key] = finish([self.done[child] for child in children])
            stack.pop()
        return first

    def reached(self, root: Key) -> list[Key]:
        """The keys that the result consists of, operands first."""
        return postorder_by((root,), lambda key: self.uses.get(key, ()))

    # -- the walk -----------------------------------------------------------------------------------------------

    def _measure(self, root: Node) -> None:
        for node in postorder_until(root, self._has_divisions):
            own = node.op in ops.DIVISIONS or node.op is ops.ASSERTING
            self._has_divisions[node] = own or any(self._has_divisions[arg] for arg in node.args)
            self._tree[node] = min(1 + sum(self._tree[arg] for arg in node.args), 1 << 30)
        divisions = [node for node in postorder((root,)) if node.op in ops.DIVISIONS]
        quotients = {node.args for node in divisions if node.op in _QUOTIENTS}
        self._pairs |= quotients & {node.args for node in divisions if node.op not in _QUOTIENTS}

    def _key(self, node: Node, scope: DivisionScope, simplify: bool) -> Key:
        if not self._has_divisions[node]:
            return (node, self.top, False)
        seen = self._scopes.setdefault(node, [])
        if scope not in seen:
            if len(seen) < MAX_SCOPES:
                seen.append(scope)
            else:
                scope = self.top
        return (node, scope, simplify or node.op in ops.DIVISIONS)

    def _expanded(self, key: Key) -> _Deferred:
        node, scope, simplify = key
        if not self._has_divisions[node]:
            return _Deferred((), lambda args: node)
        if simplify and isinstance(node, Expr) and self._tree[node] <= MAX_SIMPLIFIED:
            shorter = self._shorter(node, scope)
            if shorter is not None:
                self.step[key] = shorter
                self._measure(shorter.after)
                return _Deferred((self._key(shorter.after, scope, False),), lambda args: args[0])
        children = self._children(node, scope)
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
        before = _division_weight(e)
        if not before:
            return None
        s = scope.ctx.simplify(e, bits=self.bits)
        if s is e or _division_weight(s) >= before:
            return None
        size = self._tree[e]
        needs = fit_conditions(scope.premised(e), s, self.bits)
        if not all(scope.prove_at(e, need, size) for need in needs):
            return None
        proof = scope.prove(e.eq(s), size)
        return LoweringStep("exact cancellation", proof, e, s) if proof else None

    # -- the rules ----------------------------------------------------------------------------------------------

    def candidates(self, key: Key, x: Expr, y: Expr) -> list[tuple[int, int, DivisionRule, Site]]:
        """The applicable rules, cheapest first, as tuples (cost, number in the table, rule, site)."""
        node, scope, _ = key
        a, b = node.args
        c = constant_value(b)
        y = y if c is None else const(c)
        shiftable = c is not None and c > 1 and c & c - 1 and node.op not in _C_OWN
        low = scope.lower_bound(a, self._tree[a]) if shiftable else None
        site = Site(node.op, a, b, x, y, self.bits, low)
        paired = node.args in self._pairs
        rules = enumerate(RULES[node.op])
        priced = [(rule.cost(site, paired), k, rule, site) for k, rule in rules if rule.divisor(site)]
        return sorted(priced, key=lambda one: one[:2])

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
            after = list(args)
            after[position] = part
            result: Node = make(node.op, tuple(after), node.data)
            self.step[key] = LoweringStep(rule.name, proof, node, result)
            self.uses[key] = (*self.uses[child], children[1 - position])
            if child in self.nonzero:
                self.nonzero[key] = self.nonzero[child]
            return result
        return None


def _division_weight(root: Node) -> int:
    """A lower bound of the machine cost of the divisions below `root`, each counted once."""
    total = 0
    for node in postorder((root,)):
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
    order = postorder((root,))
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
