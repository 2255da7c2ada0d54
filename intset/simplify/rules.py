"""Rewrite rules as data, one line each: patterns, matching, and the tables of rules by kind.

A line reads: name, pattern, result, side conditions. Side conditions are decided under the assumptions in force at the
matched node. Guarantee: the result is defined and equal wherever the pattern is defined, so operands guarded by a
branch stay guarded.

Rules are written in the package's own expressions over pattern variables: X, Y, Z, W match integer expressions, A, B,
C, D match integer constants, P, Q, R match conditions. Commutative operations match in both operand orders. Comparisons
also match mirrored (`y > x` for `x < y`), and then the replacement is mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

from intset.expr import Cond, Node, Var, const, ops
from intset.expr.build import ceildiv, select, truncdiv, truncmod
from intset.expr.build import maximum as max_
from intset.expr.build import minimum as min_
from intset.expr.node import make, truth
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
MIRRORED: Final = {op: other for op, other in ops.MIRRORED.items() if op is not other}

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
    inside: tuple[tuple[int, int, Op], ...]  # (k, n, operation): what operand n of operand k is required to be
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
                inside = [
                    (k, n, want)
                    for k, op in enumerate(below)
                    if op is not None
                    for n, part in enumerate(pattern.args[k].args)
                    if (want := None if part.op is ops.NOT else _fixed(part)) is not None
                ]
                row = _RuleRow(below, tuple(inside), pattern, result, rule, often)
                self._by_root.setdefault(pattern.op, []).append(row)

    def __add__(self, other: RuleTable) -> RuleTable:
        return RuleTable((*self.rules, *other.rules))

    def matches(self, e: Node) -> Iterator[tuple[Rule, Node, Binding]]:
        """Yield (rule, result pattern, variable binding) for each rule whose pattern matches `e`."""
        args = e.args
        have = (e.op, *[arg.op for arg in args])
        rows = self._by_shape.get(have)
        if rows is None:
            rows = self._by_shape[have] = self._possible(have)
        for _, inside, pattern, result, rule, often in rows:
            for k, n, op in inside:
                if args[k].args[n].op is not op:
                    break
            else:
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


LATTICE: Final = RuleTable((
    Rule("min of maxima with a common side", min_(max_(X, Y), max_(X, Z)), max_(X, min_(Y, Z))),
    Rule("max of minima with a common side", max_(min_(X, Y), min_(X, Z)), min_(X, max_(Y, Z))),
    Rule("min of minima with a common side", min_(min_(X, Y), min_(X, Z)), min_(min_(Y, Z), X)),
    Rule("max of maxima with a common side", max_(max_(X, Y), max_(X, Z)), max_(max_(Y, Z), X)),
    Rule("product of min and max", min_(X, Y) * max_(X, Y), X * Y),
    Rule("min of quotients", min_(X // Y, Z // Y), min_(X, Z) // Y, (Y > 0,)),
    Rule("max of quotients", max_(X // Y, Z // Y), max_(X, Z) // Y, (Y > 0,)),
    Rule("min of quotients, divisor < 0", min_(X // Y, Z // Y), max_(X, Z) // Y, (Y < 0,)),
    Rule("max of quotients, divisor < 0", max_(X // Y, Z // Y), min_(X, Z) // Y, (Y < 0,)),
    Rule("min of truncated quotients", min_(truncdiv(X, Y), truncdiv(Z, Y)), truncdiv(min_(X, Z), Y), (Y > 0,)),
    Rule("max of truncated quotients", max_(truncdiv(X, Y), truncdiv(Z, Y)), truncdiv(max_(X, Z), Y), (Y > 0,)),
    Rule("min of ceilings", min_(ceildiv(X, Y), ceildiv(Z, Y)), ceildiv(min_(X, Z), Y), (Y > 0,)),
    Rule("max of ceilings", max_(ceildiv(X, Y), ceildiv(Z, Y)), ceildiv(max_(X, Z), Y), (Y > 0,)),
    Rule("min of products", min_(X * Z, Y * Z), min_(X, Y) * Z, (Z >= 0,)),
    Rule("max of products", max_(X * Z, Y * Z), max_(X, Y) * Z, (Z >= 0,)),
    Rule("min of products, factor <= 0", min_(X * Z, Y * Z), max_(X, Y) * Z, (Z <= 0,)),
    Rule("max of products, factor <= 0", max_(X * Z, Y * Z), min_(X, Y) * Z, (Z <= 0,)),
    Rule("min of multiples and a constant", min_(X * A, B), min_(X, B // A) * A, (A > 0, (B % A).eq(0))),
    Rule("max of multiples and a constant", max_(X * A, B), max_(X, B // A) * A, (A > 0, (B % A).eq(0))),
    Rule("min of negative multiples", min_(X * A, B), max_(X, B // A) * A, (A < 0, (B % A).eq(0))),
    Rule("max of negative multiples", max_(X * A, B), min_(X, B // A) * A, (A < 0, (B % A).eq(0))),
    Rule("absolute value of a negative", abs(-X), abs(X)),
    Rule("absolute value of a product", abs(X * A), abs(X) * A, (A >= 0,)),
    Rule("absolute value of a negative product", abs(X * A), abs(X) * -A, (A < 0,)),
    Rule("absolute value twice", abs(abs(X)), abs(X)),
    Rule("product of absolute values", abs(X) * abs(Y), abs(X * Y)),
    Rule("square of an absolute value", abs(X) * abs(X), X * X),
    Rule("bound behind a bound, max", max_(min_(max_(X, Z), Y), W), max_(min_(X, Y), W), (W >= Z,)),
    Rule("bound behind a bound, min", min_(max_(min_(X, Z), Y), W), min_(max_(X, Y), W), (W <= Z,)),
    Rule("min of a quotient and a shifted one", min_(X // A, Y // A + B), min_(X, Y + B * A) // A, (A > 0,)),
    Rule("max of a quotient and a shifted one", max_(X // A, Y // A + B), max_(X, Y + B * A) // A, (A > 0,)),
    Rule("quotients of min and max", min_(X, Y) // Z + max_(X, Y) // Z, X // Z + Y // Z),
    Rule("remainders of min and max", min_(X, Y) % Z + max_(X, Y) % Z, X % Z + Y % Z),
))  # fmt: skip

_OF_TWO: Final = (abs(A - B).eq(1), min_(A, B) <= X, max_(A, B) >= X)  # x is one of two consecutive integers

CHOICES: Final = RuleTable((
    Rule("equal branches", select(P, X, X), X),
    Rule("negated condition", select(~P, X, Y), select(P, Y, X)),
    Rule("of two values the one asked for", select(X.eq(A), A, B), X, _OF_TWO),
    Rule("of two values the other one", select(X.eq(A), B, A), A + B - X, _OF_TWO),
    Rule("of two values the one not asked for", select(X.ne(A), B, A), X, _OF_TWO),
    Rule("of two values the one that is left", select(X.ne(A), A, B), A + B - X, _OF_TWO),
    Rule("nested, one outcome on both else", select(P, X, select(Q, X, Y)), select(P | Q, X, Y)),
    Rule("nested, one outcome on else and inside", select(P, select(Q, X, Y), Y), select(P & Q, X, Y)),
    Rule("nested, complement inside", select(P, select(Q, X, Y), X), select(P & ~Q, Y, X)),
    Rule("nested, complement behind", select(P, X, select(Q, Y, X)), select(P | ~Q, X, Y)),
    Rule(
        "two choices by one condition in order",
        select(P, select(Q, X, Y), select(Q, X, Z)), select(Q, X, select(P, Y, Z)),
    ),
    Rule("two choices by one condition", select(P, select(Q, X, Y), select(Q, Z, Y)), select(Q, select(P, X, Z), Y)),
    Rule("minimum spelled by <", select(X < Y, X, Y), min_(X, Y)),
    Rule("minimum spelled by <=", select(X <= Y, X, Y), min_(X, Y)),
    Rule("maximum spelled by <", select(X < Y, Y, X), max_(X, Y)),
    Rule("maximum spelled by <=", select(X <= Y, Y, X), max_(X, Y)),
    Rule("either of equals", select(X.eq(Y), X, Y), Y),
    Rule("either of equals, swapped", select(X.eq(Y), Y, X), X),
    Rule("other unless equal", select(X.ne(Y), X, Y), X),
    Rule("other unless equal, swapped", select(X.ne(Y), Y, X), Y),
    Rule("absolute value spelled by >=", select(X >= 0, X, -X), abs(X)),
    Rule("absolute value spelled by >", select(X > 0, X, -X), abs(X)),
    Rule("absolute value spelled by <", select(X < 0, -X, X), abs(X)),
    Rule("absolute value spelled by <=", select(X <= 0, -X, X), abs(X)),
    Rule("product of a choice and zero", select(P, X, 0) * Y, select(P, X * Y, 0)),
    Rule("common factor of branches", select(P, X * Z, Y * Z), select(P, X, Y) * Z),
    Rule("common divisor of branches", select(P, X // Z, Y // Z), select(P, X, Y) // Z),
    Rule("common modulus of branches", select(P, X % Z, Y % Z), select(P, X, Y) % Z),
    Rule("common dividend of branches", select(P, Z // A, Z // B), Z // select(P, A, B), (A.ne(0), B.ne(0))),
    Rule(
        "common truncating divisor of branches",
        select(P, truncdiv(X, Z), truncdiv(Y, Z)), truncdiv(select(P, X, Y), Z),
    ),
    Rule(
        "common truncating modulus of branches",
        select(P, truncmod(X, Z), truncmod(Y, Z)), truncmod(select(P, X, Y), Z),
    ),
    Rule("common bound of branches, min", select(P, min_(X, Z), min_(Y, Z)), min_(select(P, X, Y), Z)),
    Rule("common bound of branches, max", select(P, max_(X, Z), max_(Y, Z)), max_(select(P, X, Y), Z)),
    Rule("min of choices by one condition", min_(select(P, X, Y), select(P, Z, W)), select(P, min_(X, Z), min_(Y, W))),
    Rule("max of choices by one condition", max_(select(P, X, Y), select(P, Z, W)), select(P, max_(X, Z), max_(Y, W))),
    Rule("absolute value of branches", select(P, abs(X), abs(Y)), abs(select(P, X, Y))),
    Rule(
        "min of choices by opposite conditions",
        min_(select(P, X, Y), select(~P, Z, W)), select(P, min_(X, W), min_(Y, Z)),
    ),
    Rule(
        "max of choices by opposite conditions",
        max_(select(P, X, Y), select(~P, Z, W)), select(P, max_(X, W), max_(Y, Z)),
    ),
    Rule(
        "product of choices by opposite conditions",
        select(P, X, Y) * select(~P, Z, W), select(P, X * W, Y * Z),
    ),
    Rule("product of choices by one condition", select(P, X, Y) * select(P, Z, W), select(P, X * Z, Y * W)),
))  # fmt: skip

CONDITIONS_TABLE: Final = RuleTable((
    Rule("twice negated", ~~P, P),
    Rule(
        "quotient and remainder",
        ((X // A).eq(Y)) & ((X % A).eq(Z)), X.eq(Y * A + Z), (Z >= 0, A > Z), total=(Y, Z),
    ),
    Rule(
        "truncated quotient and remainder",
        (truncdiv(X, A).eq(B)) & (truncmod(X, A).eq(C)), X.eq(B * A + C),
        (A.ne(0), truncdiv(B * A + C, A).eq(B)),
    ),
    Rule(
        "no such truncated quotient and remainder",
        (truncdiv(X, A).eq(B)) & (truncmod(X, A).eq(C)), truth(False),
        (A.ne(0), truncdiv(B * A + C, A).ne(B)),
    ),
    Rule("same quotient and remainder", ((X // A).eq(Y // A)) & ((X % A).eq(Y % A)), X.eq(Y)),
    Rule("common condition of alternatives", (P & Q) | (P & R), P & (Q | R), swapped=False),
    Rule("common alternative of conditions", (P | Q) & (P | R), P | (Q & R), swapped=False),
    Rule("common last condition of alternatives", (Q & P) | (R & P), (Q | R) & P, swapped=False),
    Rule("common last alternative of conditions", (Q | P) & (R | P), (Q & R) | P, swapped=False),
    Rule("common condition of alternatives, anywhere", (P & Q) | (R & P), P & (Q | R), total=(P, Q, R)),
    Rule("common alternative of conditions, anywhere", (P | Q) & (R | P), P | (Q & R), total=(P, Q, R)),
    Rule("absorbed conjunction", P | (P & Q), P),
    Rule("absorbed disjunction", P & (P | Q), P),
    Rule("negated first of a disjunction", P | (~P & Q), P | Q),
    Rule("negated first of a conjunction", P & (~P | Q), P & Q),
    Rule("minimum equals a side", min_(X, Y).eq(X), X <= Y),
    Rule("minimum differs from a side", min_(X, Y).ne(X), Y < X),
    Rule("maximum equals a side", max_(X, Y).eq(X), X >= Y),
    Rule("maximum differs from a side", max_(X, Y).ne(X), Y > X),
    Rule("maximum equals more than a side", max_(X, A).eq(B), X.eq(B), (B > A,)),
    Rule("maximum differs from more than a side", max_(X, A).ne(B), X.ne(B), (B > A,)),
    Rule("minimum equals less than a side", min_(X, A).eq(B), X.eq(B), (B < A,)),
    Rule("minimum differs from less than a side", min_(X, A).ne(B), X.ne(B), (B < A,)),
    Rule("indicator", select(P, 1, 0).eq(1), P),
    Rule("indicator is not zero", select(P, 1, 0).ne(0), P),
    Rule("indicator is zero", select(P, 1, 0).eq(0), ~P),
    Rule("equal remainders", (X % A).eq(Y % A), ((X - Y) % A).eq(0)),
    Rule("unequal remainders", (X % A).ne(Y % A), ((X - Y) % A).ne(0)),
    Rule("product is zero", (X * A).eq(0), X.eq(0), (A.ne(0),)),
    Rule("product is not zero", (X * A).ne(0), X.ne(0), (A.ne(0),)),
    Rule("remainder by the factor", (X // Y * Y).eq(X), (X % Y).eq(0)),
    Rule("no remainder by the factor", (X // Y * Y).ne(X), (X % Y).ne(0)),
    Rule("whole multiple reaches it", X // Y * Y >= X, (X % Y).eq(0), (Y > 0,)),
    Rule("whole multiple falls short", X // Y * Y < X, (X % Y).ne(0), (Y > 0,)),
    Rule("truncated quotient below, <", truncdiv(X, A) < B, X < B * A, (A > 0, B > 0)),
    Rule("truncated quotient below 0, <", truncdiv(X, A) < B, X <= (B - 1) * A, (A > 0, B <= 0)),
    Rule("truncated quotient below, <=", truncdiv(X, A) <= B, X < (B + 1) * A, (A > 0, B >= 0)),
    Rule("truncated quotient below 0, <=", truncdiv(X, A) <= B, X <= B * A, (A > 0, B < 0)),
    Rule("truncated quotient above, >", truncdiv(X, A) > B, X >= (B + 1) * A, (A > 0, B >= 0)),
    Rule("truncated quotient above less than 0, >", truncdiv(X, A) > B, X > B * A, (A > 0, B < 0)),
    Rule("truncated quotient above, >=", truncdiv(X, A) >= B, X >= B * A, (A > 0, B > 0)),
    Rule("truncated quotient above less than 0, >=", truncdiv(X, A) >= B, X > (B - 1) * A, (A > 0, B <= 0)),
    Rule("whole truncated multiple, ==", (truncdiv(X, Y) * Y).eq(X), truncmod(X, Y).eq(0)),
    Rule("whole truncated multiple, !=", (truncdiv(X, Y) * Y).ne(X), truncmod(X, Y).ne(0)),
    Rule("whole truncated multiple, <", truncdiv(X, Y) * Y < X, truncmod(X, Y) > 0),
    Rule("whole truncated multiple, <=", truncdiv(X, Y) * Y <= X, truncmod(X, Y) >= 0),
    Rule("whole truncated multiple, >", truncdiv(X, Y) * Y > X, truncmod(X, Y) < 0),
    Rule("whole truncated multiple, >=", truncdiv(X, Y) * Y >= X, truncmod(X, Y) <= 0),
    Rule("minimum below maximum", min_(X, Y) < max_(X, Y), X.ne(Y)),
    Rule("minimum not below maximum", min_(X, Y) >= max_(X, Y), X.eq(Y)),
    Rule("minimum is maximum", min_(X, Y).eq(max_(X, Y)), X.eq(Y)),
    Rule("minimum is not maximum", min_(X, Y).ne(max_(X, Y)), X.ne(Y)),
    Rule("below both", (X < Y) & (X < Z), min_(Y, Z) > X, total=(Y, Z), plain=True),
    Rule("below one", (X < Y) | (X < Z), max_(Y, Z) > X, total=(Y, Z), plain=True),
    Rule("above both", (Y < X) & (Z < X), max_(Y, Z) < X, total=(Y, Z), plain=True),
    Rule("above one", (Y < X) | (Z < X), min_(Y, Z) < X, total=(Y, Z), plain=True),
    Rule("at most both", (X <= Y) & (X <= Z), min_(Y, Z) >= X, total=(Y, Z), plain=True),
    Rule("at most one", (X <= Y) | (X <= Z), max_(Y, Z) >= X, total=(Y, Z), plain=True),
    Rule("at least both", (Y <= X) & (Z <= X), max_(Y, Z) <= X, total=(Y, Z), plain=True),
    Rule("at least one", (Y <= X) | (Z <= X), min_(Y, Z) <= X, total=(Y, Z), plain=True),
    Rule("absolute value is below 1", abs(X) < 1, X.eq(0)),
    Rule("absolute value is at least 1", abs(X) >= 1, X.ne(0)),
    Rule("absolute value is zero", abs(X).eq(0), X.eq(0)),
    Rule("absolute value is at most 0", abs(X) <= 0, X.eq(0)),
    Rule("absolute value is positive", abs(X) > 0, X.ne(0)),
    Rule("absolute value is not zero", abs(X).ne(0), X.ne(0)),
))  # fmt: skip

QUOTIENTS: Final = RuleTable((
    Rule("divided by itself, //", X // X, const(1)),
    Rule("divided by itself, ceildiv", ceildiv(X, X), const(1)),
    Rule("divided by itself, truncdiv", truncdiv(X, X), const(1)),
    Rule("no remainder by itself, %", X % X, const(0)),
    Rule("no remainder by itself, truncmod", truncmod(X, X), const(0)),
    Rule("multiple divided, //", (X * Z) // Z, X),
    Rule("multiple divided, ceildiv", ceildiv(X * Z, Z), X),
    Rule("multiple divided, truncdiv", truncdiv(X * Z, Z), X),
    Rule("no remainder of a multiple, %", (X * Z) % Z, const(0)),
    Rule("no remainder of a multiple, truncmod", truncmod(X * Z, Z), const(0)),
    Rule("square of 0 or 1", X * X, X, (X >= 0, X <= 1)),
    Rule("product of 0 or 1 and its complement", X * (1 - X), const(0), (X >= 0, X <= 1)),
    Rule("half of a parity and one", (X % 2 + 1) // 2, X % 2),
    Rule("common factor, //", (X * Z) // (Y * Z), X // Y),
    Rule("common factor, %", (X * Z) % (Y * Z), X % Y * Z),
    Rule("common factor, truncdiv", truncdiv(X * Z, Y * Z), truncdiv(X, Y)),
    Rule("common factor, truncmod", truncmod(X * Z, Y * Z), truncmod(X, Y) * Z),
    Rule("common factor, ceildiv", ceildiv(X * Z, Y * Z), ceildiv(X, Y)),
    Rule("truncated twice", truncdiv(truncdiv(X, Y), Z), truncdiv(X, Y * Z)),
    Rule("truncated negative", truncdiv(-X, Y), -truncdiv(X, Y)),
    Rule("truncated remainder of a negative", truncmod(-X, Y), -truncmod(X, Y)),
    Rule("truncated, divisor negative", truncdiv(X, -Y), -truncdiv(X, Y)),
    Rule("truncated remainder, divisor negative", truncmod(X, -Y), truncmod(X, Y)),
    Rule("both negative, //", (-X) // (-Y), X // Y),
    Rule("both negative, %", (-X) % (-Y), -(X % Y)),
    Rule("both negative, truncdiv", truncdiv(-X, -Y), truncdiv(X, Y)),
    Rule("remainder twice, truncmod", truncmod(truncmod(X, Y), Y), truncmod(X, Y)),
    Rule("remainder twice, %", (X % Y) % Y, X % Y),
    Rule("quotient of a remainder by a multiple", X % (Y * Z) // Z, X // Z % Y, (Y > 0, Z > 0)),
    Rule("ceiling as a negated floor", -((-X) // Y), ceildiv(X, Y)),
    Rule("floor as a negated ceiling", -ceildiv(-X, Y), X // Y),
    Rule("truncated remainder of a remainder", truncmod(truncmod(X, A), B), truncmod(X, B), (B.ne(0), (A % B).eq(0))),
    Rule("truncated quotient of a multiple", truncdiv(X * A, B), truncdiv(X, B // A), (A > 0, (B % A).eq(0))),
    Rule(
        "truncated remainder of a multiple",
        truncmod(X * A, B), truncmod(X, B // A) * A, (A > 0, (B % A).eq(0), B.ne(0)),
    ),
))  # fmt: skip

BITS: Final = RuleTable((
    Rule("and with itself", X & X, X),
    Rule("or with itself", X | X, X),
    Rule("exclusive or with itself", X ^ X, X - X),
    Rule("complement twice", ~~X, X),
    Rule("and of a part", X & (X & Y), X & Y),
    Rule("or of a part", X | (X | Y), X | Y),
    Rule("and absorbs or", X & (X | Y), X),
    Rule("or absorbs and", X | (X & Y), X),
    Rule("two masks", (X & A) & B, X & (A & B)),
    Rule("two set masks", (X | A) | B, X | (A | B)),
    Rule("two flips", (X ^ A) ^ B, X ^ (A ^ B)),
    Rule("and of complements", ~X & ~Y, ~(X | Y)),
    Rule("or of complements", ~X | ~Y, ~(X & Y)),
    Rule("flipped twice", (X ^ Y) ^ Y, X),
    Rule("common operand, or of ands", (X & Y) | (X & Z), X & (Y | Z)),
    Rule("common operand, and of ors", (X | Y) & (X | Z), X | (Y & Z)),
    Rule("two parts of bits", (X & A) + (X & B), X & (A | B), ((A & B).eq(0),)),
    Rule("all but some bits", X - (X & A), X & ~A),
    Rule("shifted right and back", (X >> A) << A, X & -(const(1) << A), (A >= 0,)),
    Rule("bits that are set", (X | A).eq(B), truth(False), ((A & B).ne(A),)),
    Rule("bits that are masked", (X & A).eq(B), truth(False), ((A & B).ne(B),)),
    Rule("and of complements of one", X & ~X, X - X),
    Rule("or with the complement", X | ~X, const(-1)),
    Rule("exclusive or with the complement", X ^ ~X, const(-1)),
    Rule("masked bits shifted out, &", (X & A) >> B, X >> B, (B >= 0, (A >> B).eq(-1))),
    Rule("set bits shifted out, |", (X | A) >> B, X >> B, (B >= 0, (A >> B).eq(0))),
    Rule("shifted left, further right", (X << A) >> B, X >> (B - A), (A >= 0, B >= A)),
    Rule("shifted left, less far right", (X << A) >> B, X << (A - B), (B >= 0, A >= B)),
    Rule("shifted part of a sum", ((X << A) + Y) >> A, X + (Y >> A), (A >= 0,)),
    Rule("shifted part below a mask", ((X << A) | Y) & B, Y & B, (A >= 0, (B >> A).eq(0))),
    Rule("mask of a shifted mask", ((X & A) >> B) & C, (X >> B) & ((A >> B) & C), (B >= 0,)),
    Rule("mask between shifts", ((X >> A) & B) << A, X & (B << A), (A >= 0,)),
    Rule("min of right shifts", min_(X >> A, Y >> A), min_(X, Y) >> A, (A >= 0,)),
    Rule("max of right shifts", max_(X >> A, Y >> A), max_(X, Y) >> A, (A >= 0,)),
    Rule("right shifts add up", (X >> A) >> B, X >> (A + B), (A >= 0, B >= 0)),
    Rule("left shifts add up", (X << A) << B, X << (A + B), (A >= 0, B >= 0)),
))  # fmt: skip

ALL: Final = LATTICE + CHOICES + CONDITIONS_TABLE + QUOTIENTS + BITS
