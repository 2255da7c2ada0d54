"""Every rewrite rule: proved over all integers by z3, and enumerated on a window that includes undefined operands.

The result must be defined and equal wherever the pattern is defined, which forbids new evaluations of guarded operands.
All operand orders of a pattern are covered.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import z3

from intset.expr import ops
from intset.expr.dag import free_vars
from intset.expr.node import Cond, Expr, Node, Var, const, make
from intset.prover.smt import SmtSession
from intset.simplify.rules import ALL, BITS, CONDITIONS, CONSTANTS, Rule, variants
from tests.sweeps import daily

NOTHING = object()
WINDOW = (NOTHING, -3, -2, -1, 0, 1, 2, 3)
CONSTANT_WINDOW = (-4, -2, -1, 0, 1, 2, 3, 4)


def value(e: Any, point: dict[Any, Any]) -> Any:
    """The value of an expression at a point, or `NOTHING`; lazy where expressions are."""
    if e in point:
        return point[e]
    if e.op in (ops.CONST, ops.BOOL):
        return e.data
    first = value(e.args[0], point)
    if first is NOTHING:
        return NOTHING
    if e.op is ops.SELECT:
        return value(e.args[1 if first else 2], point)
    if e.op is ops.AND or e.op is ops.OR:
        return value(e.args[1], point) if first is (e.op is ops.AND) else first
    args = [first, *(value(arg, point) for arg in e.args[1:])]
    if any(arg is NOTHING for arg in args):
        return NOTHING
    try:
        return e.op.meaning(*args)
    except ZeroDivisionError:
        return NOTHING


def unknowns(rule: Rule) -> tuple[Any, ...]:
    """What the pattern is written in: integers, constants, conditions."""
    marks = {cond.args[0]: cond for cond in CONDITIONS}
    return tuple(marks.get(v, v) for v in free_vars(rule.pattern))


def points(rule: Rule) -> Iterator[dict[Any, Any]]:
    names = unknowns(rule)
    kinds = [
        (NOTHING, True, False) if isinstance(v, Cond) else CONSTANT_WINDOW if v in CONSTANTS else WINDOW for v in names
    ]
    for values in product(*kinds):
        yield dict(zip(names, values, strict=True))


def name_of(rule: Rule) -> str:
    return rule.name


def test_names_are_unique() -> None:
    assert len({rule.name for rule in ALL.rules}) == len(ALL.rules) > 80


@pytest.mark.parametrize("rule", ALL.rules, ids=name_of)
def test_window(rule: Rule) -> None:
    ways = variants(rule)
    tried = 0
    for point in points(rule):
        if any(point[part] is NOTHING for part in rule.total):
            continue
        if not all(value(need, point) is True for need in rule.when):
            continue
        for pattern, result in ways:
            before = value(pattern, point)
            if before is NOTHING:
                continue
            assert value(result, point) == before, (pattern, result, point)
            tried += 1
    assert tried >= 2


def equivalence(a: Any, b: Any) -> Cond:
    if isinstance(a, Cond):
        return (a & b) | (~a & ~b)
    return make(ops.EQ, (a, b))


INTEGER_RULES = [rule for rule in ALL.rules if rule not in BITS.rules]
x, y, z, q, r, k, p, s, t = (Var(name) for name in "xyzqrkpst")


def is_remainder(a: Expr, b: Expr, quotient: Expr, rest: Expr, truncated: bool) -> Cond:
    """What makes `rest` the remainder of `a` by `b`: it is short of `b`, on the side of `b`, or else of `a`."""
    side = a if truncated else b
    sides = ((rest >= 0) & (side >= 0)) | ((rest <= 0) & (side <= 0))
    return a.eq(quotient * b + rest) & sides & (abs(rest) < abs(b))


Claim = tuple[list[Cond], tuple[Expr, Expr, Expr, Expr]]  # facts, and what follows: a, b, quotient, remainder
EQUAL_REMAINDERS: list[Claim] = [
    ([is_remainder(x, z, q, r, False), is_remainder(y, z, p, r, False)], (x - y, z, q - p, const(0))),
    ([is_remainder(y, z, p, r, False), (x - y).eq(k * z)], (x, z, p + k, r)),
]
STEPS: dict[str, list[Claim]] = {
    "common factor, %": [([is_remainder(x, y, q, r, False), z.ne(0)], (x * z, y * z, q, r * z))],
    "common factor, truncmod": [([is_remainder(x, y, q, r, True), z.ne(0)], (x * z, y * z, q, r * z))],
    "truncated remainder of a multiple": [([is_remainder(x, y, q, r, True), k > 0, z.eq(k * y)], (x * k, z, q, r * k))],
    "truncated remainder of a remainder": [
        ([is_remainder(x, y, q, r, True), y.eq(k * z), is_remainder(r, z, p, s, True)], (x, z, q * k + p, s))
    ],
    "equal remainders": EQUAL_REMAINDERS,
    "unequal remainders": EQUAL_REMAINDERS,
    "quotient of a remainder by a multiple": [  # x = q*(y*z) + p*z + s: x // z is q*y + p, of which p is the remainder
        ([y > 0, is_remainder(x, y * z, q, r, False), is_remainder(r, z, p, s, False)], (x, z, q * y + p, s)),
        ([y > 0, is_remainder(x, y * z, q, r, False), is_remainder(r, z, p, s, False)], (q * y + p, y, q, p)),
    ],
}


def proved(facts: list[Cond], goal: Cond) -> bool:
    return SmtSession().check(goal, [(fact, fact) for fact in facts], 20_000_000).status == "proved"


@pytest.mark.parametrize("rule", daily([rule for rule in INTEGER_RULES if rule.name not in STEPS], 6), ids=name_of)
def test_over_all_integers(rule: Rule) -> None:
    nonzero = [node.args[1].ne(0) for node in (rule.pattern, *below(rule.pattern)) if node.op in ops.DIVISIONS]
    assert proved([*rule.when, *nonzero], equivalence(rule.pattern, rule.result))


@pytest.mark.parametrize("name", STEPS)
def test_in_steps(name: str) -> None:
    """Rules that z3 proves in two steps: r is the remainder of a by b; hence a % b equals r."""
    for facts, (a, b, quotient, rest) in STEPS[name]:
        assert proved(facts, is_remainder(a, b, quotient, rest, "trunc" in name))
    assert name in {rule.name for rule in INTEGER_RULES}


@pytest.mark.parametrize("truncated", [False, True])
def test_there_is_one_remainder(truncated: bool) -> None:
    """Uniqueness of remainders: two candidates differ by a multiple smaller than the divisor."""
    side = x if truncated else y
    both = [((one >= 0) & (side >= 0)) | ((one <= 0) & (side <= 0)) for one in (r, s)]
    assert proved([side.ne(0), *both, abs(r) < abs(y), abs(s) < abs(y)], abs(r - s) < abs(y))
    assert proved([(k * y).eq(t), abs(t) < abs(y)], k.eq(0))


def below(root: Node) -> list[Any]:
    found: list[Any] = []
    for arg in root.args:
        found += [arg, *below(arg)]
    return found


@pytest.mark.parametrize("rule", BITS.rules, ids=name_of)
def test_of_bits(rule: Rule) -> None:
    """Bit-precise proof for 16-bit operands in 32-bit registers, where shifts lose no bits."""
    names = {v: z3.SignExt(16, z3.BitVec(str(v), 16)) for v in unknowns(rule)}
    shifted = {arg for e in (rule.pattern, rule.result, *below(rule.pattern)) if e.op in SHIFTS for arg in [e.args[1]]}
    amounts = [v < 8 for e, v in names.items() if e in shifted]
    solver = z3.Solver()
    solver.add(*(in_bits(cond, names) for cond in rule.when))
    solver.add(*amounts, in_bits(rule.pattern, names) != in_bits(rule.result, names))
    assert solver.check() == z3.unsat


def in_bits(e: Any, names: dict[Any, Any]) -> Any:
    if e in names:
        return names[e]
    if e.op is ops.CONST:
        return z3.BitVecVal(e.data, 32)
    if e.op is ops.BOOL:
        return z3.BoolVal(e.data)
    args = [in_bits(arg, names) for arg in e.args]
    return MEANINGS.get(e.op, e.op.meaning)(*args)


SHIFTS = (ops.SHL, ops.SHR)
MEANINGS = {
    ops.SHL: lambda a, b: a << b,
    ops.SHR: lambda a, b: a >> b,
    ops.MIN: lambda a, b: z3.If(a <= b, a, b),
    ops.MAX: lambda a, b: z3.If(a >= b, a, b),
}
