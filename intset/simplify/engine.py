"""The simplifier, which replaces every node by its cheapest known equal until nothing changes, and its tables of costs.

Guarantee of `Simplifier.run`: the result equals the input wherever the input is defined and the facts hold; neither its
cost nor its operation count exceeds the input's; a second run returns it unchanged.

Operands come first. A node is *finished* when no candidate is cheaper. A cheaper candidate replaces the node and is
simplified in turn, so results consist of finished nodes. Termination: each replacement lowers the cost or the operation
count. After `SIMPLIFY_STEPS` nodes the rest stays unchanged.

Before any search, `at_once` replaces operands bottom-up by irreducible ones that syntax and ranges alone give
(`irreducible.py`); most index expressions end there.

Candidates come from the linear form, sum rewrites (`sum_rewrites.py`), rule tables (`rules.py`) and decided conditions
(`conditions.py`). Candidates are themselves simplified at level 1, which tries no candidate that first grows.

Costs: there are two tables, both indexed by operation, because they answer two questions:

`COST`          what a reader pays: a weight for each operation as written. Simplification extracts the cheapest form by
                it (Tate et al., *Equality saturation*, POPL 2009). Users may replace weights (`simplify(e, cost=...)`).
`MACHINE_COST`  what a general-purpose 32- or 64-bit processor pays, in units of one addition. Division lowering picks
                rules by it. The C compiler turns a division by a constant into a multiplication by a magic number, a
                shift and an addition (Granlund and Montgomery, PLDI 1994): hence 5, not 25. A remainder by a constant
                adds `a - q*b`.

Leaves (variables, constants, truth values) are free in both. `Pricing` and `cost` count the tree: a shared part counts
once per occurrence. `machine_cost` counts the graph: shared parts are computed once. All run in time linear in the
graph. `lowering/forms/model.py` counts the work of whole loop nests, in fitted kinds of work rather than operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from intset.errors import InputError
from intset.expr import Cond, Expr, IntLike, Node, arguments, const, constant_value, dag, ops, shown
from intset.expr.node import as_int, make, truth
from intset.expr.ops import Op
from intset.linear.bitforms import BITWISE, CarryError, Columns, expression
from intset.linear.canonical import Normalizer
from intset.linear.form import ZERO, Linear, is_sum, order_key, spine
from intset.simplify import choices, conditions, sum_rewrites, sums
from intset.simplify.choices import OrderDecider
from intset.simplify.irreducible import IntervalScope, PartialBox, settled, shape_of
from intset.simplify.rules import ALL, Rule, folded, holds, instance
from intset.simplify.sum_rewrites import bit_candidates, division_candidates
from intset.simplify.sums import TermSum

SIMPLIFY_ROUNDS: Final = 8  # runs until a fixed point, so that simplify is idempotent

LEAVES: Final = frozenset((ops.CONST, ops.VAR, ops.BOOL))
_WEIGHTS: Final = {**dict.fromkeys(ops.DIVISIONS, 6), ops.SELECT: 3, ops.MIN: 2, ops.MAX: 2, ops.ABS: 2, ops.LOAD: 4}

COST: Final[Mapping[str, int]] = MappingProxyType(
    {name: _WEIGHTS.get(op, 1) for name, op in ops.OPS.items() if op not in LEAVES}
)
"""The weight of each operation, by name: divisions, selects, minima and maxima weigh more than the rest."""

DIVISION: Final = 25  # by a variable: the processor's divide instruction
DIVISION_BY_CONSTANT: Final = 5
REMAINDER_BY_CONSTANT: Final = 9

MACHINE_COST: Final[Mapping[Op, int]] = MappingProxyType(
    {
        **dict.fromkeys(ops.OPS.values(), 1),
        **dict.fromkeys((*LEAVES, ops.CAST, ops.ASSERTING), 0),
        **dict.fromkeys((ops.SELECT, ops.MIN, ops.MAX, ops.ABS), 2),
        ops.MUL: 3,
        ops.LOAD: 4,
        **dict.fromkeys(ops.DIVISIONS, DIVISION),
    }
)
"""Additions per operation on a processor; `operation_cost` refines divisions by constants."""

ExprCost: TypeAlias = "tuple[int, int]"  # (sum of the weights, number of operations)
COMPARED_STEPS: Final = 8  # old steps compared with a new step
SIMPLIFY_STEPS: Final = 4_000  # pairs of a node and a normalizer that are simplified
PRICED_STEPS: Final = 128  # nodes of a tree that are priced before each distinct node is priced once
SIMPLIFIED_NODES: Final = 300  # nodes of a graph; a larger one is replaced by its linear form or stays unchanged
TIE_OPERATIONS: Final = 40  # operations of candidates whose ties are broken by text
CANONICAL_OPERATIONS: Final = 64  # operations of nodes whose linear form is a candidate
NESTED_CANDIDATES: Final = 6  # nested simplifications of candidates
LINEAR_GROWTH: Final = 4  # cost by which a linear form may exceed the node, before it is simplified
PLAIN_NESTING: Final = 4  # nested operands that plain candidates replace
PLAIN_OPERATIONS: Final = 75  # operations of a tree whose operands they replace
NESTED_GROWTH: Final = 1  # cost by which an expression within a candidate may grow, likewise
GROWTH: Final = {"congruent dividend": 0, "quotient negated": -1}
"""What a candidate by a rule may cost more than the node, before it is simplified: none of these shrinks by that."""


def weights(overrides: Mapping[str, int] | None) -> Mapping[str, int]:
    """`COST` updated with `overrides`, a mapping from operation names to weights.

    Raises
    ------
    InputError: an unknown operation name, or a weight other than a positive integer.
    """
    if overrides is None:
        return COST
    table = dict(COST)
    for name, value in arguments.mapped(overrides, "cost", "a mapping from names of operations to weights").items():
        if name not in COST:
            raise InputError(f"cost: there is no operation {shown(name)}; it is one of {', '.join(COST)}")
        weight = as_int(value, f"the weight of {name}")
        if weight < 1:
            raise InputError(f"the weight of {name} must be at least 1, not {weight}")
        table[name] = weight
    return table if overrides else COST


def _by_operation(table: Mapping[str, int]) -> dict[Op, int]:
    return {ops.OPS[name]: weight for name, weight in table.items()}


_BY_OPERATION: Final = _by_operation(COST)


class Pricing:
    """Tree costs of expressions by one weight table.

    Invariant: an object prices each requested expression once, and each distinct node of a large one.
    """

    __slots__ = ("_costs", "_weights")

    def __init__(self, table: Mapping[str, int] = COST) -> None:
        self._weights = _BY_OPERATION if table is COST else _by_operation(table)
        self._costs: dict[Node, ExprCost] = {}

    def price(self, root: Node) -> ExprCost:
        """(sum of weights, number of operations) over the tree of `root`."""
        costs, weights = self._costs, self._weights
        known = costs.get(root)
        if known is not None:
            return known
        total, count = (0, 0) if root.op in LEAVES else (weights[root.op], 1)
        stack = [root]
        for _ in range(PRICED_STEPS):
            for arg in stack.pop().args:
                if arg.op in LEAVES:
                    continue
                below = costs.get(arg)
                if below is None:
                    stack.append(arg)
                    total += weights[arg.op]
                    count += 1
                else:
                    total += below[0]
                    count += below[1]
            if not stack:
                costs[root] = total, count
                return total, count
        for node in dag.postorder_until(root, costs):
            own = (0, 0) if node.op in LEAVES else (weights[node.op], 1)
            parts = [own, *[costs[arg] for arg in node.args]]
            costs[node] = sum([part[0] for part in parts]), sum([part[1] for part in parts])
        return costs[root]


def cost(e: IntLike | Cond, table: Mapping[str, int] | None = None) -> int:
    """The sum of operation weights over the tree of `e`; leaves are free.

    Parameters
    ----------
    e: an expression or a condition.
    table: weights by operation name that override those of `COST`.

    Raises
    ------
    InputError: `e` is no expression or condition; the table names an unknown operation or has a weight below 1.

    Example
    -------
    >>> x = Var("x")
    >>> cost(x // 8 + 1), cost(x // 8 + 1, {"floordiv": 1})
    (7, 2)
    """
    if not isinstance(e, Node):
        as_int(e, "the expression")
        return 0
    return Pricing(weights(table)).price(e)[0]


def operation_cost(node: Node) -> int:
    """The machine cost of the operation at the root of `node`, without its operands."""
    if node.op not in ops.DIVISIONS or constant_value(node.args[1]) is None:
        return MACHINE_COST.get(node.op, 1)
    return REMAINDER_BY_CONSTANT if node.op in (ops.FLOORMOD, ops.TRUNCMOD) else DIVISION_BY_CONSTANT


def machine_cost(root: Node, available: Collection[Node] = ()) -> int:
    """The machine cost of computing `root`, each distinct node once; nodes in `available` are computed already."""
    total, seen, stack = 0, set(available), [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            total += operation_cost(node)
            stack.extend(node.args)
    return total


class Rewrite(NamedTuple):
    """One replacement of `before` by `after` under the assumptions of `known`; `rule` names the rewrite."""

    rule: str
    before: Node
    after: Node
    known: Normalizer


Key = tuple[Node, Normalizer, int]  # level 0: everything is tried; 1: inside a candidate


class Simplifier:
    """The state of one simplification: costs, remaining steps, and the replacement of each node."""

    def __init__(
        self,
        table: Mapping[str, int] = COST,
        bits: int | None = None,
        banned: Set[tuple[Node, Node]] = frozenset(),
        compared: list[int] | None = None,
    ) -> None:
        self.pricing = Pricing(table)
        self.bits = bits
        self.steps_left = SIMPLIFY_STEPS
        self.done: dict[Key, Node] = {}
        self.next: dict[Key, Key] = {}  # replacement of a node
        self.uses: dict[Key, list[Key]] = {}
        self.rewrites: dict[Key, Rewrite] = {}
        self.banned = banned  # forbidden (before, after) pairs
        self.where: dict[Normalizer, tuple[Cond, ...]] = {}  # what a branch adds to what is known
        self.compared = compared  # linear forms that may still be examined for order; None: no limit over all
        self._skips_irreducible = table is COST  # irreducibility is relative to these weights
        self._orders: dict[int, OrderDecider] = {}
        self._written: dict[Expr, tuple[TermSum, Expr]] = {}
        self._irreducible: dict[tuple[Node, Normalizer], Node | None] = {}
        self._depth = 0
        self.is_cut = False  # whether a budget ended the search: a second run may find more

    def anew(self, banned: Set[tuple[Node, Node]]) -> Simplifier:
        """A fresh simplifier with equal costs and width, without the `banned` replacements."""
        other = Simplifier(bits=self.bits, banned=banned, compared=self.compared)
        other.pricing, other._skips_irreducible = self.pricing, self._skips_irreducible
        return other

    def order(self, known: Normalizer) -> OrderDecider:
        decider = self._orders.get(id(known))
        if decider is None:
            # the decider keeps `known`, so its id stays its own
            decider = self._orders[id(known)] = OrderDecider(known, self.compared)
        return decider

    @property
    def is_nested(self) -> bool:
        return self._depth > 0

    def price(self, e: Node) -> ExprCost:
        return self.pricing.price(e)

    @staticmethod
    def is_better(a: ExprCost, b: ExprCost) -> bool:
        return a[0] <= b[0] and a[1] <= b[1] and a != b

    def rank(self, e: Node, have: Set[Node]) -> tuple[Any, ...]:
        """The tie-break among equally cheap candidates: fewest new nodes, then text."""
        if self.price(e)[1] > TIE_OPERATIONS:
            return (0, "", order_key(e))
        return (sum(1 for node in dag.postorder((e,)) if node not in have), str(e), order_key(e))

    # -- the walk -----------------------------------------------------------------------------------------------

    def run(self, root: Node, known: Normalizer, level: int = 0) -> Any:
        """The cheapest equal of `root` under the assumptions of `known`; see the module's guarantee."""
        first: Key = (root, known, level)
        stack = [first]
        done = self.done
        while stack:
            key = stack[-1]
            if key in done:
                stack.pop()
                continue
            after = self.next.get(key)
            if after is not None:
                if after in done:
                    done[key] = done[after]
                    stack.pop()
                else:
                    stack.append(after)
                continue
            node = key[0]
            if key[1].empty:  # a branch or a scope without points: every node equals every other there
                done[key] = node
                stack.pop()
                continue
            if not node.args:
                leaf = done[key] = self._leaf(node, key[1])
                if leaf is not node:
                    self.rewrites[key] = Rewrite("one value", node, leaf, key[1])
                stack.pop()
                continue
            if self._skips_irreducible and key not in self.uses:
                irreducible = self._by_shape(node, key[1])
                if irreducible is node or level and irreducible is not None:
                    done[key] = irreducible
                    stack.pop()
                    continue
                # a remainder in a sum keeps its dividend, by which it joins a quotient
                is_plain = not level and (node.op is not ops.FLOORMOD or key == first)
                if is_plain and (plain := self._plainly(node, key[1], key == first)) is not None:
                    self.next[key] = (plain.after, key[1], level)
                    self.rewrites[key] = plain
                    continue
            waiting = [child for child in self._children(key) if child not in done]
            if node.op is not ops.SELECT:  # its condition decides which arm comes next
                waiting = [child for child in waiting if not self._is_own_result(child)]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            new = self._finished(key)
            if new is node:
                done[key] = node
                stack.pop()
            else:
                self.next[key] = (new, key[1], level)
        found = done[first]
        if level:  # it may depend on a node under construction
            while (further := done.get((found, known, 1), found)) is not found:
                found = further
        return found

    def _by_shape(self, node: Node, known: Normalizer) -> Node | None:
        """The result of a node by its shape alone, or `None`; each node is asked once."""
        key = node, known
        if key not in self._irreducible:
            self._irreducible[key] = settled(node, known, self.bits is not None)
        return self._irreducible[key]

    def _is_own_result(self, key: Key) -> bool:
        """Note the result of an operand that is a leaf or irreducible; whether it is one."""
        node, known, level = key
        if known.empty:
            return False
        result: Node | None = None
        if not node.args:
            result = self._leaf(node, known)
        elif self._skips_irreducible:
            result = self._by_shape(node, known)
        if result is not node and not (level and node.args and result is not None):
            return False
        self.done[key] = result
        return True

    def _plainly(self, node: Any, known: Normalizer, is_whole: bool) -> Rewrite | None:
        if self.bits is not None:
            return None
        for rule, candidate in irreducible_candidates(node, known, self.pricing, is_whole):
            if (node, candidate) not in self.banned:
                return Rewrite(rule, node, candidate, known)
        return None

    def _leaf(self, node: Any, known: Normalizer) -> Node:
        if node.op is ops.VAR:
            form = known.variable(node)
            if form.is_const and (node, const(form.const)) not in self.banned:
                return const(form.const)
        answer: Node = node
        return answer

    def _children(self, key: Key) -> list[Key]:
        """Keys to finish before this one; arms of a select follow its condition."""
        node, known, level = key
        children: list[Key]
        if is_sum(node):
            children = [(leaf, known, level) for leaf in spine(node)[1] if leaf.args or leaf.op is ops.VAR]
        elif node.op is ops.SELECT:
            cond: Key = (node.args[0], known, level)
            if cond not in self.done:
                return [cond]
            decided = self.done[cond]
            if decided.op is ops.BOOL:
                children = [cond, (node.args[1 if decided.data else 2], known, level)]
            else:
                yes, no = choices.readers(known, node)
                around = self.where.get(known, ())
                for reader, holds_there in ((yes, node.args[0]), (no, ~node.args[0])):
                    if reader is not known:
                        self.where.setdefault(reader, (*around, holds_there))
                children = [cond, (node.args[1], yes, level), (node.args[2], no, level)]
        elif node.op is ops.AND or node.op is ops.OR:
            children = [(part, known, level) for part in dag.chain(node.op, node)]
        else:
            children = [(arg, known, level) for arg in node.args]
        self.uses[key] = children
        return children

    def _finished(self, key: Key) -> Any:
        """The node rebuilt from finished operands, or, if rebuilding changes nothing, its best candidate."""
        node, known, level = key
        self.steps_left -= 1
        new = self._rebuilt(key)
        if new is not node:
            if level == 0:
                plain = self._as_it_stands(key)
                if plain is not new:
                    self.rewrites[key] = Rewrite("computed", plain, new, known)
            return new
        if self.steps_left < 0:
            self.is_cut = True
            return node
        done, inside = self.done, (node, known, 1)
        done.setdefault(inside, node)  # where a candidate leads back to the node, it ends
        best = self._best(key)
        if best is not node:
            del done[inside]
        return best

    def _best(self, key: Key) -> Any:
        """The cheapest candidate for a node; the node itself if none is cheaper."""
        node, known, level = key
        here = self.price(node)
        best = node
        best_price = here
        best_rule = ""
        have: Set[Node] = frozenset()
        for rule, candidate in self._candidates(node, known, level):
            if candidate is None or candidate is node or (self.banned and (node, candidate) in self.banned):
                continue
            price = self.price(candidate)
            if not self.is_better(price, here) or candidate is best or price > best_price:
                continue
            if price == best_price:
                have = have or frozenset(dag.postorder((node,)))
                if self.rank(candidate, have) >= self.rank(best, have):
                    continue
            if self.bits is not None and level == 0 and not no_wider(candidate, node, known, self.bits):
                continue
            best, best_price, best_rule = candidate, price, rule
            if level or not candidate.args or node.op in _JUNCTIONS and rule not in conditions.DROPPED:
                break  # a junction that was merged is searched as it now is
        if best is not node and level == 0:
            self.rewrites[key] = Rewrite(best_rule, node, best, known)
        return best

    def _rebuilt(self, key: Key) -> Any:
        node, known, level = key
        done = self.done
        if is_sum(node):
            new: dict[Node, Node] = {child[0]: done[child] for child in self.uses[key]}
            return node if all(new[e] is e for e in new) else dag.rewrite(node, new)
        if node.op is ops.SELECT:
            children = self.uses[key]
            cond = done[children[0]]
            if cond.op is ops.BOOL:
                return done[children[1]]
            yes, no = (done[child] for child in children[1:])
            if _has_no_value(yes) or _has_no_value(no):
                return no if _has_no_value(yes) else yes
            return folded(ops.SELECT, (cond, yes, no))
        if node.op is ops.AND or node.op is ops.OR:
            parts: list[Any] = [done[child] for child in self.uses[key]]
            same = all(part is child[0] for part, child in zip(parts, self.uses[key], strict=True))
            return node if same else conditions.joined(node.op, parts)
        if node.op is ops.ASSERTING:
            return done[(node.args[1], known, level)]
        args = tuple([done[(arg, known, level)] for arg in node.args])
        if node.op in ops.MIRRORED and args[0].op is ops.CONST and args[1].op is not ops.CONST:
            return make(ops.MIRRORED[node.op], args[::-1])
        if (node.op is ops.MIN or node.op is ops.MAX) and args[0].op is ops.CONST and args[1].op is not ops.CONST:
            return make(node.op, args[::-1])  # constants stand on the right
        if all(a is b for a, b in zip(args, node.args, strict=True)) and any(arg.op is not ops.CONST for arg in args):
            return node
        rebuilt = folded(node.op, args, node.data)
        return node if rebuilt is None else rebuilt

    def _as_it_stands(self, key: Key) -> Any:
        """The node with finished operands, without folding."""
        node = key[0]
        new: dict[Node, Node] = {}
        for child in self.uses[key]:
            new.setdefault(child[0], self.done[child])
        if node.op is ops.SELECT:
            return make(ops.SELECT, tuple(new.get(arg, arg) for arg in node.args))
        return dag.rewrite(node, new)

    def listed(self, root: Node, known: Normalizer) -> list[Rewrite]:
        """The replacements that led from `root`, which was run, to its result: those of operands first."""
        rewrites: list[Rewrite] = []
        seen: set[Key] = set()
        stack: list[tuple[Key, bool]] = [((root, known, 0), False)]
        while stack:
            key, leaving = stack.pop()
            if leaving:
                if key in self.rewrites:
                    rewrites.append(self.rewrites[key])
            elif key not in seen:
                seen.add(key)
                if key in self.next:
                    stack.append((self.next[key], False))
                stack.append((key, True))
                stack.extend((child, False) for child in reversed(self.uses.get(key, ())))
        return rewrites

    # -- candidates ---------------------------------------------------------------------------------------------

    def _candidates(self, node: Any, known: Normalizer, level: int) -> Iterator[tuple[str, Node]]:
        order = self.order(known)
        if isinstance(node, Cond):
            decided = order.decided(node) if node.op is not ops.NOT else None
            if decided is not None:
                yield "decided", truth(decided)
                return
            yield from self._by_rules(node, known, level)
            yield from conditions.condition_candidates(self, node, known, level)
            return
        form = known.form(node)
        if form.is_const:
            yield "constant", const(form.const)
            return
        yield from self._by_rules(node, known, level)
        if is_sum(node):
            total, collected = self._collected(node)
            yield "terms collected", collected
            if level == 0:
                if (whole := self._plain_form(node, collected, order)) is not None:
                    yield "linear form", whole
                    return
                for rule, candidate in sum_rewrites.sum_candidates(total, order):
                    yield rule, self.trial(candidate, node, known, GROWTH.get(rule))
        elif node.op is ops.MIN or node.op is ops.MAX:
            for rule, candidate in choices.bound_candidates(node, order):
                if level == 0 and self.bits is not None and not no_wider(candidate, node, known, self.bits):
                    continue  # a search hardly ever finds a narrower equal
                yield rule, self.trial(candidate, node, known)
        elif node.op in ops.DIVISIONS:
            for rule, candidate in division_candidates(node, known, self.bits is not None):
                yield rule, self.trial(candidate, node, known, GROWTH.get(rule))
        elif node.op is ops.SELECT:
            for rule, candidate in (*choices.select_candidates(node), *choices.by_equation(node, known)):
                yield rule, self.trial(candidate, node, known)
            if level == 0:
                for rule, candidate in choices.as_bound(node, known):
                    yield rule, self.trial(candidate, node, known)
        elif node.op is ops.BITAND or node.op is ops.CAST:
            for rule, candidate in bit_candidates(node, known):
                yield rule, self.trial(candidate, node, known)
        for rule, candidate in choices.into_branches(node):
            yield rule, self.trial(candidate, node, known)
        if level == 0:
            for whole in self._linear_forms(node, known):
                yield "linear form", self.trial(whole, node, known, LINEAR_GROWTH)
            if not BITWISE.isdisjoint(dag.operations(node)):
                yield "bits", _by_bits(node, known)

    def _by_rules(self, node: Node, known: Normalizer, level: int) -> Iterator[tuple[str, Node]]:
        for rule, result, binding in ALL.matches(node):
            if self.applies(rule, binding, known):
                replacement = instance(result, binding)
                if replacement is not None:
                    yield rule.name, self.trial(replacement, node, known)

    def applies(self, rule: Rule, binding: Mapping[Node, Node], known: Normalizer) -> bool:
        """Whether the side conditions of a rule hold."""
        if rule.plain and self.bits is not None:
            return False
        if not all(choices.is_total(binding[part]) for part in rule.total):
            return False
        return holds(rule, binding, self.order(known).holds)

    def _linear_forms(self, node: Expr, known: Normalizer) -> list[Expr]:
        """The linear form with remainders, and without where that reads shorter: `x//8*3 + x%8` is `x - x//8*5`."""
        count = self.price(node)[1]
        form = known.form(node)
        if count > CANONICAL_OPERATIONS or len(form.terms) > 2 * count + 4:
            return []
        regrouped = known.regroup(form)
        forms = [regrouped.expr()]
        if self.bits is None and regrouped is not form and self.is_better(self.price(form.expr()), self.price(node)):
            forms.append(form.expr())
        return forms

    def _plain_form(self, node: Expr, collected: Expr, order: OrderDecider) -> Expr | None:
        """The linear form or one rewrite of it, if irreducible and shorter than the node; else `None`."""
        known = order.known
        for whole in sorted(() if self.bits is not None else self._linear_forms(node, known), key=self.price):
            if not self.is_better(self.price(whole), self.price(node)):
                continue
            best, rewrites = whole, list[Expr]()
            if is_sum(whole):
                total, best = self._collected(whole)
                if self._by_shape(best, known) is None:  # else no rewrite is shorter
                    rewrites = [e for _, e in sum_rewrites.sum_candidates(total, order)]
            best = min([best, *rewrites], key=self.price)
            is_final = self._by_shape(best, known) is best and (node, best) not in self.banned
            if is_final and self.is_better(self.price(best), self.price(collected)):
                return best
        return None

    def _collected(self, node: Expr) -> tuple[TermSum, Expr]:
        """A sum, read, and with equal terms together and common factors outside."""
        found = self._written.get(node)
        if found is None:
            total = sums.read(node)
            found = self._written[node] = total, sums.write(total)
        return found

    def trial(self, candidate: Any, node: Node, known: Normalizer, growth: int | None = None) -> Any:
        """Simplify a candidate for `node` at level 1; `None` if it costs more than the node plus `growth`."""
        if candidate is None or candidate is node:
            return None
        if self._depth and not node.op.boolean:
            growth = NESTED_GROWTH if growth is None else growth - 1
        if growth is not None and self.price(candidate)[0] > self.price(node)[0] + growth:
            return None
        if self._depth < NESTED_CANDIDATES and self.steps_left > 0:
            self._depth += 1
            candidate = self.run(candidate, known, 1)
            self._depth -= 1
        else:
            self.is_cut = True
        return candidate


def irreducible_candidates(
    node: Any, known: IntervalScope, pricing: Pricing, is_whole: bool = True
) -> Iterator[tuple[str, Expr]]:
    """The cheaper and irreducible ones of the candidates that need no linear form and no search."""
    if node.op.boolean:
        return
    for rule, candidate in sum_rewrites.plain_candidates(node, known, is_whole):
        if candidate is None:
            return
        if not Simplifier.is_better(pricing.price(candidate), pricing.price(node)):
            continue
        if settled(candidate, known) is candidate:
            yield rule, candidate
        elif known.is_part:  # other points may decide
            return


def at_once(root: Node, known: IntervalScope, bits: int | None = None, changes: bool = True) -> Node | None:
    """The answer of `simplified`, if the expression or one of its plain candidates is irreducible; else `None`.

    changes: whether plain candidates are tried.
    """
    if type(known) is PartialBox and known.fixed and not known.fixed.isdisjoint(root.free_vars()):
        return None  # where variables are fixed, irreducible expressions look reducible
    seen: Node | None = settled(root, known, bits is not None)
    if seen is None and changes and bits is None and not known.empty:
        pricing = Pricing()
        is_short = pricing.price(root)[1] <= PLAIN_OPERATIONS
        seen = _made_irreducible(root, known, pricing, PLAIN_NESTING if is_short else 0, True)
        seen = seen if seen is None or is_short or _is_small(root, pricing) else None
    return seen


def _made_irreducible(
    node: Any, known: IntervalScope, pricing: Pricing, nesting: int, is_whole: bool = False
) -> Node | None:
    """The first irreducible plain candidate for a node, or for the node over operands that are replaced so."""
    seen: Node | None
    candidates = irreducible_candidates(node, known, pricing, is_whole)
    if (first := next(candidates, None)) is not None:
        seen = first[1]
        if not is_whole and node.op is ops.FLOORMOD:  # of equally cheap candidates, a search may choose another
            is_cheapest = all(pricing.price(seen) < pricing.price(other) for _, other in candidates)
            return seen if is_cheapest and _is_in_order(seen.args[0]) else None
        return seen
    flat = sum_rewrites.flat(node)
    if flat is None:
        flat = _opened_difference(node, known, pricing)
    elif settled(node.args[0], known) is None:
        flat = None  # the operand is replaced first
    if flat is not None:
        seen = settled(flat, known)
        seen = _made_irreducible(flat, known, pricing, 0, is_whole) if seen is None else seen
        if seen is not None:
            return seen
    is_equation = (node.op is ops.EQ or node.op is ops.NE) and node.args[0].op is not ops.FLOORMOD  # taken apart
    if not nesting or is_equation or node.op is ops.SELECT:
        return None
    new: dict[Node, Any] = {}
    for operand in _operands(node):
        if operand.op is not ops.CONST:
            equal: Any = settled(operand, known)
            equal = _made_irreducible(operand, known, pricing, nesting - 1) if equal is None else equal
            if equal is None:
                return None
            new[operand] = equal
    if all([e is equal for e, equal in new.items()]):  # noqa: C419  # hot
        return None
    if node.op in _JUNCTIONS:
        after: Node = conditions.joined(node.op, [*new.values()])
    else:
        after = dag.rewrite(node, new)
    seen = settled(after, known)
    if is_sum(node):  # terms of common variables may join as they were
        return None if seen is None or shape_of(after).is_shared else seen
    return _made_irreducible(after, known, pricing, nesting - 1, is_whole) if seen is None else seen


def _opened_difference(node: Any, known: IntervalScope, pricing: Pricing) -> Cond | None:
    """An inequality of two sums by their difference, with `x % c` as `x - x // c * c` where it has that quotient."""
    if node.op not in ops.MIRRORED or node.op is ops.EQ or node.op is ops.NE or node.args[1].op is ops.CONST:
        return None
    total = sums.read(node.args[0]).plus(sums.read(node.args[1]), -1)
    opened = sum_rewrites.opened_remainders(total, known)
    if opened is None or opened is total:
        return None
    form = conditions.against_0(node.op, opened)
    return conditions.stated(pricing, node.op, ops.GE, conditions.sum_of_form(Linear(form.const, form.terms)))


def _is_in_order(e: Expr) -> bool:
    """Whether a sum is written as its linear form."""
    total = sums.read(e)
    return Linear(total.const, total.terms).expr() is e


def _operands(node: Any) -> Collection[Any]:
    """The operands of a chain: summands, parts of a junction; of any other node, its arguments."""
    if is_sum(node):
        return spine(node)[1]
    return dag.chain(node.op, node) if node.op in _JUNCTIONS else node.args


def _is_small(root: Node, pricing: Pricing) -> bool:
    """Whether a graph has at most `SIMPLIFIED_NODES` nodes."""
    # an operation has at most three operands, so a tree of few operations is small
    return pricing.price(root)[1] <= SIMPLIFIED_NODES // 4 or dag.is_small(SIMPLIFIED_NODES, (root,))


def simplified(
    root: Node, known: Normalizer, table: Mapping[str, int] = COST, bits: int | None = None, compared: int | None = None
) -> Node:
    """The cheapest expression or condition equal to `root` under the assumptions of `known`, as `Simplifier.run`.

    Guarantee: without `compared`, a second call with the result returns it unchanged.

    Parameters
    ----------
    compared: linear forms examined for order in all, beyond which nothing more is known to be ordered.
    """
    left = None if compared is None else [compared]
    for _ in range(SIMPLIFY_ROUNDS):
        simplifier = Simplifier(table, bits, compared=left)
        new: Node = run(simplifier, root, known)
        if new is root or not simplifier.is_cut:
            return new
        root = new
    return root


def run(simplifier: Simplifier, root: Any, known: Normalizer) -> Any:
    """Simplify `root`; a graph beyond `SIMPLIFIED_NODES` becomes its linear form if that is cheaper."""
    if known.empty:
        return root  # no point at which it has a value: everything equals it
    while not _is_small(root, simplifier.pricing):
        whole = known.cond(root) if isinstance(root, Cond) else known.regroup(known.form(root)).expr()
        if not simplifier.is_better(simplifier.price(whole), simplifier.price(root)):
            return root
        root = whole
    return simplifier.run(root, known)


def _by_bits(node: Expr, known: Normalizer) -> Any:
    """The `^` of shifted and masked terms that an expression is, bit by bit."""
    columns = Columns(lambda term: known.bounds(known.form(term)))
    try:
        return expression(columns.form(node), columns)
    except CarryError:
        return None


def _has_no_value(e: Node) -> bool:
    return e.op in ops.DIVISIONS and e.args[1].op is ops.CONST and e.args[1].data == 0


_JUNCTIONS = (ops.AND, ops.OR)
_CHOOSING = (ops.MIN, ops.MAX, ops.SELECT)  # fit if their operands fit


def no_wider(new: Node, old: Node, known: Normalizer, bits: int) -> bool:
    """Whether every step of `new` fits in `bits` signed bits, or in any wider type that fits all steps of `old`.

    A new step is safe if its interval fits, if an old step has the same value, or if its value lies between two old
    values (0 counts as one). `min(x, y - z) + z` as `min(x + z, y)` may overflow: x + z is a new value.
    """
    have = _below(old)
    most = (1 << (bits - 1)) - 1
    values: list[Linear] | None = None
    stack = [new]
    seen = set(have)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        stack.extend(e.args)
        if not isinstance(e, Expr) or e.op is ops.VAR or e.op in _CHOOSING:
            continue
        form = known.form(e)
        low, high = known.bounds(form)
        if low is not None and high is not None and -most - 1 <= low and high <= most:
            continue
        if values is None:
            values = [known.form(step) for step in have if isinstance(step, Expr) and step.op is not ops.CONST]
        if any(form.same(value) for value in values):
            continue
        if not (_reached(form, values, known, 1) and _reached(form, values, known, -1)):
            return False
    return True


def _below(root: Node) -> dict[Node, None]:
    nodes: dict[Node, None] = {root: None}
    stack = [root]
    while stack:
        for arg in stack.pop().args:
            if arg not in nodes:
                nodes[arg] = None
                stack.append(arg)
    return nodes


def _reached(form: Linear, values: list[Linear], known: Normalizer, sign: int) -> bool:
    """Whether a value, or 0, bounds `form` from above (from below for sign -1)."""
    return any(known.is_nonneg(value.minus(form).scale(sign)) for value in (ZERO, *values[:COMPARED_STEPS]))
