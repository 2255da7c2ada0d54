"""The walk of `lower_division`: each division by the cheapest rule that is proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from intset.context import Context
from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import logical_not, logical_or
from intset.expr.node import Cond, Expr, Node, as_int, const, constant_value, make, truth
from intset.expr.walk import postorder, postorder_until
from intset.prover.proof import PROVED, Proof
from intset.prover.width import fit_conditions
from intset.simplify.cost import DIVISION, DIVISION_BY_CONSTANT, machine_cost
from lowering.division.rules import RULES, WITHIN, Rule
from lowering.division.scope import Scope, root_scope
from lowering.division.share import share
from lowering.division.site import Site

MAX_SCOPES: Final = 4  # a shared node is lowered under this many sets of branch conditions; under more, without any
MAX_SIMPLIFIED: Final = 400  # nodes, counted as a tree: larger divisions are not given to the linear form as a whole
QUOTIENTS: Final = (ops.FLOORDIV, ops.CEILDIV, ops.TRUNCDIV)
REMAINDERS: Final = (ops.FLOORMOD, ops.TRUNCMOD)


class Step(NamedTuple):
    """One rewrite: `before` is an expression as it was written, `after` the same lowered."""

    rule: str
    proof: Proof
    before: Node
    after: Node

    def __repr__(self) -> str:
        why = "" if self.proof.goal.op is ops.BOOL else f"  because {self.proof.goal}"
        return f"{self.rule}: {self.before} -> {self.after}{why}{' (vacuous)' if self.proof.vacuous else ''}"


def checked(e: Any, bits: Any) -> tuple[Node, int]:
    """The arguments as a node and a width, or `InputError`."""
    width = as_int(bits, "bits")
    if width < 2:
        raise InputError(f"bits must be at least 2, not {width}")
    if isinstance(e, Node):
        return e, width
    return const(as_int(e, "the expression")), width


Key = tuple[Node, Scope, bool]  # True: the linear form may be tried on it


class Choice(NamedTuple):
    """How a division was lowered."""

    site: Site
    scope: Scope
    cost: int
    rule: Rule


class Result(NamedTuple):
    """The lowered expression, what was done, and of each divisor the proof that it is not 0, or of what that needs."""

    expr: Any
    steps: tuple[Step, ...]
    divisors: tuple[tuple[Proof, Cond], ...]


class Plan(NamedTuple):
    """What a key waits for, and how it is finished then."""

    children: tuple[Key, ...]
    finish: Callable[[list[Any]], Any]


class Lowering:
    """One run of `lower_division`. Each node is visited once for each of at most `MAX_SCOPES` + 1 scopes."""

    def __init__(self, ctx: Context | None, root: Node, bits: int) -> None:
        self.bits = bits
        self.root, self.given = root, ctx
        self.top = root_scope(ctx, root, bits)
        self.done: dict[Key, Any] = {}
        self.plans: dict[Key, Plan] = {}
        self.uses: dict[Key, tuple[Key, ...]] = {}
        self.step: dict[Key, Step] = {}
        self.choices: dict[Key, Choice] = {}
        self.nonzero: dict[Key, tuple[Proof, Cond]] = {}
        self._scopes: dict[Node, list[Scope]] = {}
        self._tree: dict[Node, int] = {}  # nodes counted as a tree, up to a bound
        self._work: dict[Node, bool] = {}  # whether there is anything to do below
        self._pairs: set[tuple[Node, ...]] = set()
        self._measure(root)

    def result(self) -> Result:
        """Lower everything, with what quotients and remainders of one pair share computed once."""
        key = self.run()
        expr, shared = share(self.done[key])
        used = self.reached(key)
        steps = [self.step[k] for k in used if k in self.step]
        steps += [Step("shared quotient", Proof(truth(True), PROVED, "linear"), *pair) for pair in shared]
        divisors = tuple(self.nonzero[k] for k in used if k in self.nonzero)
        return Result(expr, tuple(steps), divisors)

    def run(self) -> Key:
        """Lower everything; the key of the root."""
        first = self._key(self.root, self.top, True)
        stack = [first]
        while stack:
            key = stack[-1]
            if key in self.done:
                stack.pop()
                continue
            if key not in self.plans:
                self.plans[key] = self._plan(key)
                self.uses[key] = self.plans[key].children
            plan = self.plans[key]
            waiting = [child for child in plan.children if child not in self.done]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            self.done[key] = plan.finish([self.done[child] for child in plan.children])
            stack.pop()
        return first

    def reached(self, root: Key) -> list[Key]:
        """The keys that the result is made of, those used before their users."""
        order: list[Key] = []
        seen: set[Key] = set()
        stack: list[tuple[Key, bool]] = [(root, False)]
        while stack:
            key, leaving = stack.pop()
            if leaving:
                order.append(key)
            elif key not in seen:
                seen.add(key)
                stack.append((key, True))
                stack.extend((child, False) for child in reversed(self.uses.get(key, ())))
        return order

    # -- the walk -----------------------------------------------------------------------------------------------

    def _measure(self, root: Node) -> None:
        for node in postorder_until(root, self._work):
            own = node.op in ops.DIVISIONS or node.op is ops.ASSERTING
            self._work[node] = own or any(self._work[arg] for arg in node.args)
            self._tree[node] = min(1 + sum(self._tree[arg] for arg in node.args), 1 << 30)
        divided = {REMAINDERS: set[tuple[Node, ...]](), QUOTIENTS: set[tuple[Node, ...]]()}
        for node in postorder((root,)):
            for kind, args in divided.items():
                if node.op in kind:
                    args.add(node.args)
        self._pairs |= divided[REMAINDERS] & divided[QUOTIENTS]

    def _key(self, node: Node, scope: Scope, simplify: bool) -> Key:
        if not self._work[node]:
            return (node, self.top, False)
        seen = self._scopes.setdefault(node, [])
        if scope not in seen:
            if len(seen) < MAX_SCOPES:
                seen.append(scope)
            else:
                scope = self.top
        return (node, scope, simplify or node.op in ops.DIVISIONS)

    def _plan(self, key: Key) -> Plan:
        node, scope, simplify = key
        if not self._work[node]:
            return Plan((), lambda args: node)
        if simplify and isinstance(node, Expr) and self._tree[node] <= MAX_SIMPLIFIED:
            shorter = self._shorter(node, scope)
            if shorter is not None:
                self.step[key] = shorter
                self._measure(shorter.after)
                return Plan((self._key(shorter.after, scope, False),), lambda args: args[0])
        children = self._children(node, scope)
        if node.op in ops.DIVISIONS:
            return Plan(children, lambda args: self._divide(key, args[0], args[1]))
        if node.op is ops.ASSERTING:
            return Plan(children, lambda args: args[0])
        return Plan(children, lambda args: self._rebuilt(key, children, args))

    def _children(self, node: Node, scope: Scope) -> tuple[Key, ...]:
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
        arms = ((arm, scope.inside(where, arm) if self._work[arm] else scope) for arm, where in branches)
        return (first, *(self._key(arm, inner, True) for arm, inner in arms))

    def _rebuilt(self, key: Key, children: tuple[Key, ...], args: list[Any]) -> Node:
        node = key[0]
        if len(args) == 2:
            for position in (0, 1):
                special = self._within(key, children, args, position)
                if special is not None:
                    return special
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        return node if same else make(node.op, tuple(args), node.data)

    # -- the linear form ----------------------------------------------------------------------------------------

    def _shorter(self, e: Expr, scope: Scope) -> Step | None:
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
        return Step("exact cancellation", proof, e, s) if proof else None

    # -- the rules ----------------------------------------------------------------------------------------------

    def candidates(self, key: Key, x: Expr, y: Expr) -> list[tuple[int, int, Rule, Site]]:
        """(cost, number in the table, rule, site) of the rules for this divisor, cheapest first."""
        node, scope, _ = key
        a, b = node.args
        c = constant_value(b)
        y = y if c is None else const(c)
        shiftable = c is not None and c > 1 and c & c - 1 and node.op not in _C_OWN
        low = scope.lower_bound(a, self._tree[a]) if shiftable else None
        site = Site(node.op, a, b, x, y, self.bits, low)
        paired = node.args in self._pairs
        rules = enumerate(RULES[node.op])
        found = [(rule.cost(site, paired), k, rule, site) for k, rule in rules if rule.divisor(site)]
        return sorted(found, key=lambda one: one[:2])

    def _divide(self, key: Key, x: Expr, y: Expr) -> Expr:
        node, scope, _ = key
        for price, _, rule, site in self.candidates(key, x, y):
            proof = self._justified(rule, site, scope, node)
            if proof is None:
                continue
            after = rule.rewrite(site)
            self.choices[key] = Choice(site, scope, price, rule)
            if node.op not in _C_OWN or after.op is not node.op:
                self.step[key] = Step(rule.name, proof, node, after)
            if not site.c:
                self._divides(key, site.b)
            return after
        raise AssertionError(f"no rule for {node.op.name}")  # the last rule of each operation has no side condition

    def _justified(self, rule: Rule, site: Site, scope: Scope, node: Node) -> Proof | None:
        for need in rule.needs(site):
            proof = scope.justify(node, need, self._tree[node])
            if proof is not None:
                return proof
        return None

    def _divides(self, key: Key, b: Expr) -> None:
        node, scope, _ = key
        while b.op is ops.ASSERTING:
            b = b.args[1]
        nonzero = b.ne(0)
        proof = scope.prove(nonzero, self._tree[node])
        guarded = logical_or(*(logical_not(guard) for guard in scope.guards), nonzero)
        self.nonzero[key] = (proof, guarded)

    def _within(self, key: Key, children: tuple[Key, ...], args: list[Any], position: int) -> Node | None:
        """`node` with its argument at `position` divided more cheaply than it would be alone, if there is a way."""
        node = key[0]
        choice = self.choices.get(children[position])
        if choice is None:
            return None
        other = node.args[1 - position]
        for rule in WITHIN:
            if rule.outer is not node.op or rule.op is not choice.site.op:
                continue
            part = rule.rewrite(choice.site)
            if machine_cost(part, {choice.site.x, choice.site.y}) >= choice.cost:
                continue
            for need in rule.needs(choice.site, other):
                proof = choice.scope.justify(children[position][0], need, self._tree[node])
                if proof is None:
                    continue
                after = list(args)
                after[position] = part
                result: Node = make(node.op, tuple(after), node.data)
                self.step[key] = Step(rule.name, proof, node, result)
                self.uses[key] = (*self.uses[children[position]], children[1 - position])
                if children[position] in self.nonzero:
                    self.nonzero[key] = self.nonzero[children[position]]
                return result
        return None


_C_OWN: Final = (ops.TRUNCDIV, ops.TRUNCMOD)


def _division_weight(root: Node) -> int:
    """What the divisions below `root` cost at least, each once."""
    total = 0
    for node in postorder((root,)):
        if node.op in ops.DIVISIONS:
            c = constant_value(node.args[1])
            total += DIVISION if c is None else DIVISION_BY_CONSTANT if abs(c) & abs(c) - 1 else 1
    return total
