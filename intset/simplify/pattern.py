"""Rewrite rules as data: a pattern, its replacement, and side conditions; matching and instantiation.

Rules are written in the package's own expressions over pattern variables: X, Y, Z, W match integer expressions, A, B,
C, D match integer constants, P, Q, R match conditions. Commutative operations match in both operand orders. Comparisons
also match mirrored (`y > x` for `x < y`), and then the replacement is mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

from intset.expr import ops
from intset.expr.node import Cond, Node, Var, const, make, truth
from intset.expr.ops import Op

PATTERN_VARIANTS: Final = 64  # orders of operands that a pattern is tried on
FOLDED_SHIFT: Final = 4_096  # bits of a shift that is folded


X, Y, Z, W = (Var(name) for name in "xyzw")
A, B, C, D = (Var(name) for name in "abcd")
P, Q, R = (Var(name).ne(0) for name in "pqr")
CONSTANTS: Final = (A, B, C, D)
CONDITIONS: Final = (P, Q, R)
COMMUTATIVE: Final = frozenset(
    (ops.ADD, ops.MUL, ops.MIN, ops.MAX, ops.BITAND, ops.BITOR, ops.BITXOR, ops.AND, ops.OR, ops.EQ, ops.NE)
)
MIRRORED: Final = {ops.LT: ops.GT, ops.LE: ops.GE, ops.GT: ops.LT, ops.GE: ops.LE}

Binding = dict[Node, Node]


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` equals `result` wherever `pattern` is defined and the conditions `when` hold.

    Attributes
    ----------
    name: what a step calls it.
    pattern, result: the two sides.
    when: side conditions, all of which must be proved; conditions on constants are evaluated.
    swapped: match commutative operations in both orders; False where the order guards an operand.
    total: pattern variables that must be total, because the result evaluates them where the pattern may not.
    plain: the result reads better but costs a machine more; skipped when a bit width is given.
    """

    name: str
    pattern: Node
    result: Node
    when: tuple[Cond, ...] = ()
    swapped: bool = True
    total: tuple[Node, ...] = ()
    plain: bool = False


class _RuleRow(NamedTuple):
    below: tuple[Op | None, ...]  # required operations of the operands; None matches any
    pattern: Node
    result: Node
    rule: Rule
    often: Set[Node]


class RuleTable:
    """Rules indexed by the root operation of their patterns and the operations of its operands."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: Final = tuple(rules)
        self._by_root: Final[dict[Op, list[_RuleRow]]] = {}
        self._by_shape: Final[dict[tuple[Op, ...], tuple[_RuleRow, ...]]] = {}  # found as it is asked for
        for rule in self.rules:
            often = frozenset(cond for cond in CONDITIONS if _occurrences(rule.pattern, cond) > 1)
            for pattern, result in variants(rule):
                below = tuple(
                    None if arg.op is ops.NOT and arg.args[0] in often else _fixed(arg) for arg in pattern.args
                )
                self._by_root.setdefault(pattern.op, []).append(_RuleRow(below, pattern, result, rule, often))

    def __add__(self, other: RuleTable) -> RuleTable:
        return RuleTable((*self.rules, *other.rules))

    def matches(self, e: Node) -> Iterator[tuple[Rule, Node, Binding]]:
        """Yield (rule, result pattern, variable binding) for each rule whose pattern matches `e`."""
        args = e.args
        have = (e.op, *[arg.op for arg in args])
        rows = self._by_shape.get(have)
        if rows is None:
            rows = self._by_shape[have] = self._possible(have)
        for _, pattern, result, rule, often in rows:
            binding: Binding = {}
            if all(matched(p, arg, binding, often) for p, arg in zip(pattern.args, args, strict=True)):
                yield rule, result, binding

    def _possible(self, have: tuple[Op, ...]) -> tuple[_RuleRow, ...]:
        """Rules compatible with a root operation and the operations of its operands."""
        return tuple(
            row
            for row in self._by_root.get(have[0], ())
            if all(want is None or want is own for want, own in zip(row.below, have[1:], strict=True))
        )


def _occurrences(pattern: Node, one: Node) -> int:
    return 1 if pattern is one else sum(_occurrences(arg, one) for arg in pattern.args)


def _fixed(pattern: Node) -> Op | None:
    """The operation required by a pattern node; None for a pattern variable."""
    if pattern.op is ops.VAR:
        return ops.CONST if any(pattern is one for one in CONSTANTS) else None
    return None if any(pattern is one for one in CONDITIONS) else pattern.op


def matched(pattern: Node, e: Node, binding: Binding, often: Set[Node] = frozenset()) -> bool:
    """Whether `e` matches the pattern; extends `binding` with the values of its variables.

    often: condition variables that occur repeatedly in the pattern; their negation matches the opposite comparison.
    """
    if pattern.op is ops.VAR or any(pattern is one for one in CONDITIONS):
        bound = binding.get(pattern)
        if bound is not None:
            return bound is e
        if e.op.boolean is (pattern.op is ops.VAR) or _fixed(pattern) is ops.CONST and e.op is not ops.CONST:
            return False
        binding[pattern] = e
        return True
    if pattern.op is not e.op:
        return pattern.op is ops.NOT and _is_negation(pattern.args[0], e, binding, often)
    if not pattern.args:
        return pattern is e
    return all(matched(p, arg, binding, often) for p, arg in zip(pattern.args, e.args, strict=True))


def _is_negation(cond: Node, e: Node, binding: Binding, often: Set[Node]) -> bool:
    """Whether the comparison `e` negates the value of a condition variable that occurs repeatedly."""
    if cond not in often or e.op not in ops.NEGATED:
        return False
    other = make(ops.NEGATED[e.op], e.args)
    bound = binding.setdefault(cond, other)
    return bound is other or other.op in MIRRORED and bound is make(MIRRORED[other.op], other.args[::-1])


def variants(rule: Rule) -> list[tuple[Node, Node]]:
    """(pattern, result) pairs for all operand orders of commutative operations and comparisons."""
    swapped = _swapped(rule.pattern) if rule.swapped else [rule.pattern]
    by_pattern: dict[Node, Node] = {}
    for pattern in swapped[:PATTERN_VARIANTS]:
        result = rule.result
        if pattern.op is not rule.pattern.op and isinstance(result, Cond) and result.op in MIRRORED:
            result = make(MIRRORED[result.op], result.args[::-1])
        by_pattern.setdefault(pattern, result)
    return list(by_pattern.items())


def _swapped(pattern: Node) -> list[Node]:
    if not pattern.args or any(pattern is one for one in CONDITIONS):
        return [pattern]
    ways = [make(pattern.op, args, pattern.data) for args in product(*map(_swapped, pattern.args))]
    if pattern.op in COMMUTATIVE:
        ways += [make(pattern.op, way.args[::-1]) for way in ways]
    elif pattern.op in MIRRORED:
        ways += [make(MIRRORED[pattern.op], way.args[::-1]) for way in ways]
    return list(dict.fromkeys(ways))


def instance(pattern: Node, binding: Mapping[Node, Node]) -> Any:
    """Instantiate a pattern and fold constants; None if a folded constant is undefined."""
    bound = binding.get(pattern)
    if bound is not None:
        return bound
    if not pattern.args:
        return pattern
    args = []
    for arg in pattern.args:
        operand = instance(arg, binding)
        if operand is None:
            return None
        args.append(operand)
    return folded(pattern.op, tuple(args), pattern.data)


def folded(op: Op, args: tuple[Any, ...], data: Any = None) -> Any:
    """The node, constant-folded if all operands are constants; None if the value is undefined."""
    if op.meaning is not None and all(arg.op is ops.CONST or arg.op is ops.BOOL for arg in args):
        if op is ops.SHL and args[1].data > FOLDED_SHIFT:
            return make(op, args)
        try:
            value = op.meaning(*(arg.data for arg in args))
        except ZeroDivisionError:
            return None
        return truth(bool(value)) if op.boolean else const(value)
    return make(op, args, data)


Decide = Callable[[Cond], bool]


def holds(rule: Rule, binding: Mapping[Node, Node], decide: Decide) -> bool:
    """Whether all side conditions of a rule are proved for a binding."""
    for need in rule.when:
        condition = instance(need, binding)
        if condition is None or (condition.op is ops.BOOL and not condition.data):
            return False
        if condition.op is not ops.BOOL and not decide(condition):
            return False
    return True
