"""Every rule of the division table: z3 proves its identity over the integers, and all operands are tried at 8 bits.

Both check the machine operations that the rule makes: at the points that meet the side condition and whose result is
representable, the value is right, no step leaves the width, nothing traps.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from intset.expr import ops
from intset.expr.build import select, truncmod
from intset.expr.node import Expr, Node, Var, const, make
from lowering.division.rules import OPERAND_RULES, RULES, DivisionRule, Fits, Need, Needs, Site, bounded_below, every
from tests.sweeps import daily

BITS = 8
MIN, MAX = -(1 << (BITS - 1)), (1 << (BITS - 1)) - 1
a, b, k = Var("a"), Var("b"), Var("k")
ALL = [rule for rules in RULES.values() for rule in rules]
NAMES = [rule.name for rule in ALL]


# -- a vectorised machine ----------------------------------------------------------------------------------------


def _trunc(x: Any, y: Any) -> Any:
    q = np.abs(x) // np.maximum(np.abs(y), 1)
    return np.where((x < 0) == (y < 0), q, -q)


_NUMPY: dict[ops.Op, Any] = {
    ops.ADD: np.add, ops.SUB: np.subtract, ops.MUL: np.multiply, ops.NEG: np.negative,
    ops.SHR: np.right_shift, ops.SHL: np.left_shift, ops.BITAND: np.bitwise_and, ops.MIN: np.minimum,
    ops.MAX: np.maximum, ops.TRUNCDIV: _trunc, ops.TRUNCMOD: lambda x, y: x - _trunc(x, y) * y,
    ops.FLOORDIV: lambda x, y: x // np.where(y == 0, 1, y), ops.FLOORMOD: lambda x, y: x % np.where(y == 0, 1, y),
    ops.CEILDIV: lambda x, y: -(-x // np.where(y == 0, 1, y)),
    ops.LT: np.less, ops.LE: np.less_equal, ops.GT: np.greater, ops.GE: np.greater_equal, ops.EQ: np.equal,
    ops.NE: np.not_equal, ops.AND: np.logical_and, ops.OR: np.logical_or, ops.NOT: np.logical_not,
}  # fmt: skip


class Machine:
    """Evaluates at many points at once. `hazard` marks those at which some step overflows or traps at `bits` bits."""

    def __init__(self, env: dict[Expr, Any], bits: int | None) -> None:
        self.env, self.bits = env, bits
        self.shape = np.broadcast(*env.values()).shape
        self.hazard = np.zeros(self.shape, bool)

    def value(self, node: Node, active: Any) -> Any:
        if node.op in (ops.CONST, ops.BOOL):
            result: Any = np.full(self.shape, node.data)
        elif node.op is ops.VAR:
            result = self.env[node]
        elif node.op is ops.SELECT:
            test = self.value(node.args[0], active)
            yes, no = self.value(node.args[1], active & test), self.value(node.args[2], active & ~test)
            return np.where(test, yes, no)
        elif node.op in (ops.AND, ops.OR):
            first = self.value(node.args[0], active)
            second = self.value(node.args[1], active & (first if node.op is ops.AND else ~first))
            return _NUMPY[node.op](first, second)
        else:
            args = [self.value(arg, active) for arg in node.args]
            if node.op in ops.DIVISIONS:
                trap = (args[1] == 0) | ((args[1] == -1) & (args[0] == -(1 << (self.bits - 1))) if self.bits else False)
                self.hazard |= active & trap
            if node.op in (ops.SHL, ops.SHR):
                self.hazard |= active & ((args[1] < 0) | (args[1] >= (self.bits or 63)))
            result = _NUMPY[node.op](*args)
        if self.bits is not None and not node.op.boolean:
            self.hazard |= active & ((result < -(1 << (self.bits - 1))) | (result >= 1 << (self.bits - 1)))
        return result


def mathematical(node: Node, env: dict[Expr, Any]) -> Any:
    return Machine(env, None).value(node, np.ones(np.broadcast(*env.values()).shape, bool))


def wrong_or_hazardous(before: Expr, after: Node, env: dict[Expr, Any], where: Any) -> tuple[int, int, int]:
    """(points tried, points with a wrong value, points with a hazard), among those whose result is representable."""
    truth = mathematical(before, env)
    if not before.op.boolean:
        where = where & (truth >= MIN) & (truth <= MAX)
    machine = Machine(env, BITS)
    found = machine.value(after, where)
    wrong = where & (found != truth) & ~machine.hazard
    return int(where.sum()), int(wrong.sum()), int((where & machine.hazard).sum())


def operands() -> tuple[Any, Any]:
    x, y = np.meshgrid(np.arange(MIN, MAX + 1), np.arange(MIN, MAX + 1), indexing="ij")
    return x.ravel()[y.ravel() != 0], y.ravel()[y.ravel() != 0]


def met(needs: Needs | Need, env: dict[Expr, Any]) -> Any:
    """Where the side condition holds."""
    shape = np.broadcast(*env.values()).shape
    if not needs or not isinstance(needs[0], tuple) or isinstance(needs[0], Fits):
        result = np.ones(shape, bool)
        for item in needs:
            result &= mathematical(item.cond if isinstance(item, Fits) else item, env)
        return result
    return np.logical_or.reduce([met(need, env) for need in needs])


def sites(rule: DivisionRule) -> Iterator[tuple[Site, dict[Expr, Any]]]:
    """Sites of a rule with all operands: every accepted constant divisor, and the variable divisor if accepted."""
    x, y = operands()
    plain = Site(rule.op, a, b, a, b, BITS)
    if rule.divisor(plain):
        yield plain, {a: x, b: y}
    dividends = np.arange(MIN, MAX + 1)
    for c in range(MIN, MAX + 1):
        lows = range(-1, MIN - 1, -c) if rule.divisor is bounded_below and c > 1 else (None,)
        for low in lows:
            site = Site(rule.op, a, const(c), a, const(c), BITS, low)
            if c and rule.divisor(site):
                yield site, {a: dividends}


@pytest.mark.parametrize("rule", ALL, ids=NAMES)
def test_right_and_safe_for_all_operands_at_8_bits(rule: DivisionRule) -> None:
    tried = 0
    for site, env in sites(rule):
        before = make(rule.op, (site.a, site.b))
        where = met(rule.needs(site), env)
        if rule.op in (ops.TRUNCMOD, ops.TRUNCDIV) and rule.name.endswith("kept"):
            where = where & ~((env[a] == MIN) & (env.get(b, np.int64(site.c)) == -1))  # the original's own trap
        count, wrong, hazards = wrong_or_hazardous(before, rule.rewrite(site), env, where)
        assert (wrong, hazards) == (0, 0), (rule.name, site.b)
        tried += count
    assert tried >= 255, "the test must not be empty"
    if rule.divisor is every:
        assert tried > 5_000  # thousands of pairs for a general divisor


@pytest.mark.parametrize("rule", OPERAND_RULES, ids=[rule.name for rule in OPERAND_RULES])
def test_rules_inside_another_operation_at_8_bits(rule: Any) -> None:
    x, y = operands()
    for other in (-128, -127, -7, -1, 0, 1, 5, 126, 127):
        site = Site(rule.op, a, b, a, b, BITS)
        env: dict[Expr, Any] = {a: x, b: y, k: np.full(x.shape, other)}
        before = make(rule.outer, (make(rule.op, (a, b)), k))
        after = make(rule.outer, (rule.rewrite(site), k))
        representable = mathematical(make(rule.op, (a, b)), env)
        where = met(rule.needs(site, k), env) & (representable >= MIN) & (representable <= MAX)
        count, wrong, hazards = wrong_or_hazardous(before, after, env, where)
        assert (wrong, hazards) == (0, 0)
        assert (count > 60_000) == bool(mathematical(rule.needs(site, k)[0][0], env)[0])


def test_the_shared_quotient_at_8_bits() -> None:
    # a rem b = a - (a / b) * b wherever a / b is representable
    x, y = operands()
    where = ~((x == MIN) & (y == -1))
    site = Site(ops.FLOORMOD, a, b, a, b, BITS)
    assert wrong_or_hazardous(truncmod(a, b), site.rest, {a: x, b: y}, where) == (65_279, 0, 0)
    guarded = truncmod(a, select(b.eq(-1), 1, b))
    assert wrong_or_hazardous(guarded, site.rest, {a: x, b: y}, where) == (65_279, 0, 0)


# -- z3, over the integers -----------------------------------------------------------------------------------------


class Encoder:
    """Rewrites as z3 terms over the integers. Quotients are their definitions, shifts by `bits - 1` are signs."""

    def __init__(self, bits: int) -> None:
        self.z3 = pytest.importorskip("z3")
        self.bits, self.facts, self.steps = bits, [], []
        self.known: dict[Node, Any] = {e: self.z3.Int(e.name) for e in (a, b)}

    def term(self, node: Node) -> Any:
        if node not in self.known:
            self.known[node] = self.made(node)
        return self.known[node]

    def made(self, node: Node) -> Any:
        z3, args = self.z3, node.args
        if node.op is ops.CONST:
            return z3.IntVal(node.data)
        if node.op is ops.SHR and args[1] is const(self.bits - 1):
            negative = [self.term(arg) < 0 for arg in (args[0].args if args[0].op is ops.BITAND else args[:1])]
            return z3.If(z3.And(negative), z3.IntVal(-1), z3.IntVal(0))
        if node.op is ops.SHR:
            return self.term(args[0]) / (1 << args[1].data)
        if node.op is ops.BITAND and args[1].op is ops.CONST:
            assert args[1].data & args[1].data + 1 == 0
            return self.term(args[0]) % (args[1].data + 1)
        if node.op is ops.BITAND:  # the second is 0 or -1
            assert args[1].op is ops.SHR
            return z3.If(self.term(args[1]) == 0, z3.IntVal(0), self.term(args[0]))
        if node.op in ops.DIVISIONS:
            return self.divided(node)
        x = [self.term(arg) for arg in args]
        simple = {
            ops.ADD: lambda: x[0] + x[1], ops.SUB: lambda: x[0] - x[1], ops.MUL: lambda: x[0] * x[1],
            ops.NEG: lambda: -x[0], ops.SELECT: lambda: z3.If(*x), ops.AND: lambda: z3.And(*x),
            ops.OR: lambda: z3.Or(*x), ops.LT: lambda: x[0] < x[1], ops.LE: lambda: x[0] <= x[1],
            ops.GT: lambda: x[0] > x[1], ops.GE: lambda: x[0] >= x[1], ops.EQ: lambda: x[0] == x[1],
            ops.NE: lambda: x[0] != x[1],
        }  # fmt: skip
        return simple[node.op]()

    def divided(self, node: Node) -> Any:
        """Quotient and remainder by their definition: x = q*y + r, |r| < |y|, and where r lies."""
        z3 = self.z3
        x, y = (self.term(arg) for arg in node.args)
        q, r = z3.FreshInt("q"), z3.FreshInt("r")
        smaller = z3.And(z3.If(y > 0, -y, y) < r, r < z3.If(y > 0, y, -y))
        side = {
            ops.FLOORDIV: z3.If(y > 0, r >= 0, r <= 0), ops.CEILDIV: z3.If(y > 0, r <= 0, r >= 0),
            ops.TRUNCDIV: z3.If(x >= 0, r >= 0, r <= 0),
        }  # fmt: skip
        whole = {ops.FLOORMOD: ops.FLOORDIV, ops.TRUNCMOD: ops.TRUNCDIV}.get(node.op, node.op)
        self.facts += [z3.Implies(y != 0, z3.And(x == q * y + r, smaller, side[whole]))]
        self.known[make(whole, node.args)] = q
        self.known[make({ops.FLOORDIV: ops.FLOORMOD, ops.TRUNCDIV: ops.TRUNCMOD}.get(whole, ops.ABS), node.args)] = r
        return r if node.op in (ops.FLOORMOD, ops.TRUNCMOD) else q


def _z3_answer(rule: DivisionRule, site: Site) -> str:
    """Whether z3 finds a point where the rule is wrong: "unsat" when it proves the identity."""
    encoder = Encoder(site.bits)
    z3 = encoder.z3
    before, after = encoder.term(make(rule.op, (site.a, site.b))), encoder.term(rule.rewrite(site))
    goal = [encoder.known[a] >= site.least, encoder.known[a] <= site.most, encoder.term(site.b) != 0]
    goal += [before >= site.least, before <= site.most]
    alternatives = [[item.cond if isinstance(item, Fits) else item for item in need] for need in rule.needs(site)]
    needs = [[encoder.term(cond) for cond in conds] for conds in alternatives]
    solver = z3.SolverFor("QF_NIA") if site.c == 0 else z3.Solver()
    solver.set("timeout", 30_000)
    if site.c == 0 and rule.op is ops.FLOORMOD:  # proved by "floordiv general": the two quotients differ by at most 1
        floor = encoder.known[make(ops.FLOORDIV, (a, b))]
        for e, q in tuple(encoder.known.items()):
            if e.op is ops.TRUNCDIV and e.args[0] is a:
                solver.add(z3.Implies(encoder.term(e.args[1]) == encoder.term(b), z3.Or(floor == q, floor == q - 1)))
    solver.add(*goal, z3.Or([z3.And(need) for need in needs]), *encoder.facts, before != after)
    return str(solver.check())


Z3_DIVISORS = (1, -1, 2, 8, 1 << 30, -2, -8, -(1 << 31), 3, 5, 7, 1000, 2**31 - 1, -3, -5, -1000, -(2**31) + 1)


@pytest.mark.parametrize("rule", daily(ALL, 4))
def test_z3_proves_the_identity_at_32_bits(rule: DivisionRule) -> None:
    """Dividends are universally quantified; so are divisors of rules for variable divisors."""
    proved = 0
    for divisor in (b, *map(const, Z3_DIVISORS)):
        lows = (-1, -10, -12345) if rule.divisor is bounded_below else (None,)
        for low in lows:
            site = Site(rule.op, a, divisor, a, divisor, 32, low)
            if rule.divisor(site):
                assert _z3_answer(rule, site) == "unsat", (rule.name, divisor)
                proved += 1
    assert proved > len(Z3_DIVISORS) * (rule.divisor is every)


def test_z3_refutes_what_is_wrong() -> None:
    wrong = DivisionRule("wrong", ops.FLOORDIV, lambda s: s.q, lambda s: ((s.a >= -1, s.b >= 0),))
    for divisor in (b, const(5)):
        assert _z3_answer(wrong, Site(ops.FLOORDIV, a, divisor, a, divisor, 32)) == "sat"


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_side_conditions_are_needed(rule: Any) -> None:
    """Dropping a side condition makes the rule wrong or hazardous at some point."""
    conditional = False
    for site, env in sites(rule):
        if rule.needs(site) == ((),):
            continue
        conditional = True
        before = make(rule.op, (site.a, site.b))
        everywhere = np.ones(env[a].shape, bool)
        _, wrong, hazards = wrong_or_hazardous(before, rule.rewrite(site), env, everywhere)
        if wrong or hazards:
            return
    assert not conditional
