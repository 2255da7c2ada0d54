"""Expressions: hash-consing, results and errors of operators, reference semantics, conditions of definedness."""

import copy
import itertools
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from intset.errors import EvaluationError, InputError, MachineOverflowError, UndefinedError
from intset.expr import NEG_INF, POS_INF, ops
from intset.expr.build import (
    Opaque,
    asserting,
    bounded,
    cast,
    ceildiv,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    nonneg,
    opaque,
    select,
    sum_of,
    truncdiv,
    truncmod,
)
from intset.expr.dag import free_vars, postorder, size
from intset.expr.definedness import definedness, where_it_holds
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Equation, Expr, ShapeVar, Var, as_int, const, make, truth
from intset.expr.ops import Op
from intset.expr.range import Range
from intset.testing.strategies import conditions, expressions, points
from tests import ROOT
from tests.intset.elsewhere import in_threads
from tests.strategies.contexts import PARTIAL, Expressions
from tests.strategies.contexts import value as value_at
from tests.strategies.refusals import refused_with_words
from tests.sweeps import daily, sampled

i, j = Var("i"), Var("j")
n = ShapeVar("n", lower=1, upper=4096)
T = Opaque("T", 2)

# identity


def test_equal_structure_is_the_same_object_and_a_variable_is_itself() -> None:
    assert i + 1 is i + const(1)
    assert (i * 4 + j) // 7 % 3 is floormod(floordiv(i * 4 + j, 7), 3)
    assert i + j is not j + i
    assert i + (j + n) is not (i + j) + n
    assert T[i, j + 1] is T(i, j + 1)
    assert cast(i, 8) is not cast(i, 8, signed=False)
    assert (i < 3) & (j < 2) is logical_and(i < 3, j < 2)
    assert const(10**30) is const(10**30)
    assert const(-1) is not const(-2) and const(1) is not truth(True)
    assert +i is i
    assert (i + 0).op is ops.ADD and (i - i).op is ops.SUB and (const(2) + 3).op is ops.ADD
    assert (-const(3)).op is ops.NEG
    assert (2 - i).args == (const(2), i) and (2 // i).args == (const(2), i) and (2 << i).args == (const(2), i)
    assert sum_of([]) is const(0) and sum_of([i, j, 1]) is i + j + 1
    other = Var("i")
    assert other is not i and other.name == i.name and other.uid != i.uid
    assert not bool(i == other) and bool(i != other)
    assert free_vars(i + other) == (i, other)
    assert {i: 1, other: 2}[other] == 2
    assert opaque("x") is not opaque("x")
    assert isinstance(n, Var) and isinstance(i, Var) and not isinstance(i, ShapeVar)
    assert n.declared() == (1, 4096, 1) and i.declared() == (None, None, 1)
    assert ShapeVar("m").declared() == (0, None, 1)


@pytest.mark.parametrize(("a", "b"), [(i + 1, j), (i, n), (n, i), (n, j + 1), (i, j), (const(3), i), (const(3), n)])
def test_comparisons_keep_their_sides(a: Expr, b: Expr) -> None:
    # Python would ask an operand of a derived class first, and exchange the sides
    built = [a < b, a <= b, a > b, a >= b, a == b, a != b, a + b, a // b]
    assert [node.op for node in built] == [ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE, ops.ADD, ops.FLOORDIV]
    assert all(node.args[0] is a and node.args[1] is b for node in built)


IMPOSSIBLE: list[Callable[[], object]] = [
    lambda: Var(""), lambda: Var(3), lambda: ShapeVar("m", lower=5, upper=4),
    lambda: ShapeVar("m", lower=5, upper=7, multiple_of=4), lambda: ShapeVar("m", multiple_of=0),
    lambda: ShapeVar("m", lower=1.5), lambda: Opaque("T", 1, lower=3, upper=2), lambda: T[i], lambda: T[i, 1.5],
    lambda: Range(POS_INF, 1), lambda: Range(0, NEG_INF), lambda: Range(NEG_INF, 3), lambda: Range(0, -1),
    lambda: Range(0, -const(1)), lambda: Range(1.5, 2), lambda: Range(0, True), lambda: Range(i < 3, 1),
]  # fmt: skip
test_impossible_symbols_and_ranges_are_refused = refused_with_words([("", one) for one in IMPOSSIBLE])


@pytest.mark.parametrize("node", [i, n, i + 1, i < 3, i == j, const(3)])
def test_nodes_are_immutable(node: Any) -> None:
    for name in ("op", "args", "data", "name", "novel"):
        with pytest.raises(AttributeError):
            setattr(node, name, 1)
        with pytest.raises(AttributeError):
            delattr(node, name)


# copies


def deep(terms: int = 30_000) -> Expr:
    return sum_of(i * (k % 7) if k % 3 else j for k in range(terms))


@pytest.mark.parametrize("node", [i, n, i + n, T[i, j] % 3, select(i < 3, i, -j), i.eq(j), truth(True), cast(i, 8)])
def test_copies_are_the_object_itself(node: Any) -> None:
    assert copy.copy(node) is node
    assert copy.deepcopy([node, {node: node}])[0] is node
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(node, protocol)) is node
    assert pickle.loads(pickle.dumps(T)) is T and copy.deepcopy(T) is T and copy.copy(T) is T


def test_deep_expressions_neither_recurse_nor_explode_and_keep_identity_across_processes() -> None:
    e = deep()
    assert pickle.loads(pickle.dumps(e)) is e
    assert copy.deepcopy(e) is e
    assert free_vars(e) == (j, i) and size(e) > 30_000
    assert evaluate(e, {i: 1, j: 1}) == sum(k % 7 if k % 3 else 1 for k in range(30_000))
    assert e.substitute({i: j}).free_vars() == (j,)
    del e
    tower = i
    for _ in range(200):
        tower = tower * tower - tower
    assert size(tower) == 401
    assert pickle.loads(pickle.dumps(tower)) is tower
    assert evaluate(tower, {i: 2}) == 2
    assert tower.substitute({i: 2}).free_vars() == ()
    twin, m, symbol = Var("i"), ShapeVar("m", 2, 64, 2), Opaque("S", 1, lower=0)
    sent = pickle.dumps((i + twin, i < m, m, symbol, deep()))
    child = subprocess.run([sys.executable, "-c", CHILD], input=sent, capture_output=True, cwd=ROOT, check=False)
    assert child.returncode == 0, child.stderr.decode()
    *uids, product_, size_, term = pickle.loads(child.stdout)
    assert uids == [i.uid, twin.uid, symbol.uid]
    assert product_ is (i + twin) * m and size_ is m and term is symbol[i]


CHILD = """
import pickle, sys
e, cond, m, symbol, long = pickle.load(sys.stdin.buffer)
first, second = e.args
assert first is not second and first.name == second.name == "i" and first.uid != second.uid
assert cond.args[0] is first and m.declared() == (2, 64, 2) and symbol.lower == 0
assert len(long.free_vars()) == 2
pickle.dump((first.uid, second.uid, symbol.uid, e * cond.args[1], m, symbol[first]), sys.stdout.buffer)
"""


def test_threads_build_the_same_objects() -> None:
    def work(_: int) -> list[Any]:
        mine = []
        for k in range(1_000):
            mine.append(select((i * k < j) & (j > k), (i + k) // 7, T[i, k]))
            mine.append((i * (k + 1_000) + j) // (k + 300))
            i * (k + 10_000)  # dropped at once: its table entry dies while others may be building it
        return mine

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        built = in_threads(work, 8)
    finally:
        sys.setswitchinterval(interval)
    assert all(node is first for mine in built for node, first in zip(mine, built[0], strict=True))


# operators and their truth


def test_equality_is_a_condition_and_truth_is_of_what_is_decided() -> None:
    assert isinstance(i == j, Equation) and isinstance(i == 3, Equation) and (i == 3).args == (i, const(3))
    assert bool(i + 1 == i + 1) and not bool(i + 1 == 1 + i) and bool(i != j) and not bool(i + 1 != i + 1)
    assert (i == j) is i.eq(j) and (i != j) is i.ne(j) and i.eq(3) is (i == 3)
    assert i in [j, i] and i not in [j, n]
    assert (i == 3) is (i == 3)  # Python has no reflected form of its own
    assert (np.int64(3) == i) is (i == 3)
    for foreign in (None, "i", 1.5, True, object(), POS_INF):
        assert (i == foreign) is False and (i != foreign) is True
    for wrong in (1.5, True, None, "i", i < 3):
        with pytest.raises(InputError):
            i.eq(wrong)
    assert truth(True) and not truth(False)
    assert (i < POS_INF) is truth(True) and (i <= NEG_INF) is truth(False) and (i > NEG_INF) is truth(True)
    assert (i >= POS_INF) is truth(False)
    with pytest.raises(InputError):
        bool(i)
    with pytest.raises(InputError):
        0 <= i < 8  # noqa: B015
    with pytest.raises(TypeError):
        list(i)


@pytest.mark.parametrize("cond", [i < 3, i <= j, (i < 3) & i.eq(i), ~i.eq(i), i.eq(j) | (j > 2)])
def test_the_truth_of_a_condition_is_not_decided(cond: Cond) -> None:
    with pytest.raises(InputError, match="not known"):
        bool(cond)
    with pytest.raises(InputError, match="not known"):
        assert cond and True


class Foreign:
    """Neither an integer nor an expression."""

    def __repr__(self) -> str:
        return "Foreign()"


NOT_INTEGERS = [1.5, True, False, np.True_, np.float64(1), "1", None, Foreign(), np.array([1, 2]), i < 3, T, POS_INF]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a // b, lambda a, b: a % b,
    lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a << b, lambda a, b: a >> b, ceildiv,
    truncdiv, truncmod, minimum, maximum, lambda a, b: select(i < 3, a, b), lambda a, b: asserting(a < 3, b),
    lambda a, b: T[a, b],
]  # fmt: skip


@pytest.mark.parametrize("foreign", NOT_INTEGERS, ids=repr)
def test_what_is_no_integer_is_refused(foreign: Any) -> None:
    for build in BINARY:
        with pytest.raises(InputError):
            build(i, foreign)
    for refuse in (nonneg, const, as_int, lambda x: cast(i, x), lambda x: Range(0, x) and Range(x, 1)):
        if foreign is POS_INF and refuse is not nonneg:
            continue
        with pytest.raises(InputError):
            refuse(foreign)
    if foreign is not POS_INF:
        for compare in (lambda: i < foreign, lambda: i >= foreign):
            with pytest.raises(InputError):
                compare()


@pytest.mark.parametrize("foreign", [True, False, np.True_, 1, i, None, "i", 1.5])
def test_what_is_no_condition_is_refused(foreign: Any) -> None:
    for build in (
        lambda: (i < 3) & foreign, lambda: (i < 3) | foreign, lambda: foreign & (i < 3), lambda: select(foreign, 1, 2),
        lambda: asserting(foreign, i), lambda: logical_and(i < 3, foreign), lambda: logical_or(foreign),
        lambda: logical_not(foreign),
    ):  # fmt: skip
        with pytest.raises((InputError, TypeError)):
            build()


def test_divisions_that_can_never_be_and_powers_are_refused() -> None:
    for build in (floordiv, floormod, ceildiv, truncdiv, truncmod):
        with pytest.raises(InputError, match="division by the constant 0"):
            build(i, 0)
    for divide in (lambda: i / 2, lambda: 2 / i):
        with pytest.raises(InputError, match="'/' is not an integer operation"):
            divide()
    for nothing in (minimum, maximum):
        with pytest.raises(InputError):
            nothing()
    with pytest.raises(InputError):
        cast(i, 0)
    for power in (lambda: 2**i, lambda: i**i, lambda: const(2) ** i):
        with pytest.raises(InputError, match=r"the exponent of \*\* must be a number, not i: 1 << e is 2 to the power"):
            power()
    with pytest.raises(InputError, match=r"must be an integer, not 2\.0"):
        2.0**i
    assert 2 ** const(5) is const(2) ** 5
    assert evaluate(1 << i, {i: 5}) == evaluate(const(2) ** 5, {})


# the reference semantics

WINDOW = range(-17, 18)


def bits_of(a: int, b: int, joined: Callable[[bool, bool], bool]) -> int:
    """Bitwise operation, digit by digit in 8-bit two's complement."""
    digits = [joined(a % 256 >> k & 1 == 1, b % 256 >> k & 1 == 1) for k in range(8)]
    value = sum(1 << k for k, digit in enumerate(digits) if digit)
    return value - 256 if value > 127 else value


# Formulas over the rationals or over digits; None where there is no value.
FORMULAS: dict[Op, Callable[[int, int], int | bool | None]] = {
    ops.ADD: lambda a, b: sum((a, b)),
    ops.SUB: lambda a, b: sum((a, -b)),
    ops.MUL: lambda a, b: (1 if (a < 0) == (b < 0) else -1) * sum(abs(a) for _ in range(abs(b))),
    ops.FLOORDIV: lambda a, b: math.floor(Fraction(a, b)) if b else None,
    ops.FLOORMOD: lambda a, b: a - b * math.floor(Fraction(a, b)) if b else None,
    ops.CEILDIV: lambda a, b: math.ceil(Fraction(a, b)) if b else None,
    ops.TRUNCDIV: lambda a, b: math.trunc(Fraction(a, b)) if b else None,
    ops.TRUNCMOD: lambda a, b: a - b * math.trunc(Fraction(a, b)) if b else None,
    ops.MIN: lambda a, b: a if b - a > 0 else b,
    ops.MAX: lambda a, b: b if b - a > 0 else a,
    ops.BITAND: lambda a, b: bits_of(a, b, lambda x, y: x and y),
    ops.BITOR: lambda a, b: bits_of(a, b, lambda x, y: x or y),
    ops.BITXOR: lambda a, b: bits_of(a, b, lambda x, y: x is not y),
    ops.SHL: lambda a, b: a * 2**b if b >= 0 else None,
    ops.SHR: lambda a, b: math.floor(Fraction(a, 2**b)) if b >= 0 else None,
    ops.LT: lambda a, b: b - a > 0,
    ops.LE: lambda a, b: b - a > -1,
    ops.GT: lambda a, b: a - b > 0,
    ops.GE: lambda a, b: a - b > -1,
    ops.EQ: lambda a, b: a - b == 0,
    ops.NE: lambda a, b: abs(a - b) > 0,
}


@pytest.mark.parametrize("op", FORMULAS, ids=lambda op: op.name)
def test_every_binary_operation_means_its_formula(op: Op) -> None:
    node, formula = make(op, (i, j)), FORMULAS[op]
    tried = 0
    for a, b in product(WINDOW, WINDOW):
        expected = formula(a, b)
        if expected is None:
            with pytest.raises(UndefinedError):
                evaluate(node, {i: a, j: b})
        else:
            value = evaluate(node, {i: a, j: b})
            assert value == expected and type(value) is type(expected)
        tried += 1
    assert tried == 35**2


def test_casts_and_unary_operations_mean_their_formulas() -> None:
    for a in WINDOW:
        assert evaluate(-i, {i: a}) == 0 - a
        assert evaluate(~i, {i: a}) == bits_of(a, 0, lambda x, _: not x)
        assert evaluate(abs(i), {i: a}) == max(a, 0 - a)
        assert evaluate(~(i < 3), {i: a}) is (a >= 3)
    assert {ops.NEG, ops.BITNOT, ops.ABS, ops.NOT, *FORMULAS} == {op for op in ops.OPS.values() if op.meaning}
    for value in range(-700, 700):
        assert evaluate(cast(i, 8), {i: value}) == int(np.int64(value).astype(np.int8))
        assert evaluate(cast(i, 8, signed=False), {i: value}) == int(np.int64(value).astype(np.uint8))
        assert evaluate(cast(i, 1), {i: value}) == -(value % 2)
        assert evaluate(cast(i, 64), {i: value}) == value


def test_conditions_are_lazy_and_undefined_points_say_what_is_wrong() -> None:
    bad = 1 // i
    assert evaluate(select(i.eq(0), 5, bad), {i: 0}) == 5
    assert evaluate(select(i.ne(0), bad, 5), {i: 0}) == 5
    assert evaluate((i > 0) & (bad > 0), {i: 0}) is False
    assert evaluate(i.eq(0) | (bad > 0), {i: 0}) is True
    assert evaluate(select(i.eq(0), 5, bad) + 1, {i: 0}) == 6
    for eager in (select(bad > 0, 1, 2), (bad > 0) & (i > 0), (bad > 0) | i.eq(0), bad * 0, (i > -1) & (bad > 0)):
        with pytest.raises(UndefinedError):
            evaluate(eager, {i: 0})
    # a node shared by both branches is evaluated once, for the taken branch
    assert evaluate(select(i > 0, bad, 0) + select(i < 1, 3, bad), {i: 0}) == 3
    with pytest.raises(UndefinedError):
        evaluate(select(i > 0, bad, 0) + bad, {i: 0})
    for node in (i // j, i % j, ceildiv(i, j), truncdiv(i, j), truncmod(i, j)):
        with pytest.raises(UndefinedError, match="a division by 0"):
            evaluate(node, {i: 3, j: 0})
    for node in (i << j, i >> j):
        with pytest.raises(UndefinedError, match="a negative shift"):
            evaluate(node, {i: 3, j: -1})
    assert evaluate(nonneg(i), {i: 0}) == 0 and evaluate(bounded(i, 0, j), {i: 3, j: 3}) == 3
    assert bounded(i) is i
    for claim in (nonneg(i), bounded(i, 0, 9), bounded(i, lower=0), bounded(i, upper=-2), asserting(j > 3, i)):
        with pytest.raises(UndefinedError, match="does not hold"):
            evaluate(claim, {i: -1, j: 3})
    with pytest.raises(UndefinedError):  # the claim comes before the value
        evaluate(asserting(i > 0, 1 // i), {i: 0})


def test_points_and_tables_must_fit_the_expression() -> None:
    with pytest.raises(InputError, match=r"the variable j has no value$"):
        evaluate(i + j, {i: 1})
    for wrong in (1.5, True, "1", None, np.True_):
        with pytest.raises(InputError, match="the value of i"):
            evaluate(i, {i: wrong})
    with pytest.raises(InputError):
        evaluate(3)
    for bits in (0, -8, True, 1.5):
        with pytest.raises(InputError, match="bits"):
            evaluate(i, {i: 0}, bits=bits)
    assert evaluate(const(3) + 4) == 7 and evaluate(truth(True)) is True
    S, x = Opaque("S", 1), Opaque("x")
    array = np.arange(12).reshape(3, 4)
    assert evaluate(T[i, 2] + 1, {i: 1, T: array}) == 7
    assert evaluate(T[i, 2], {i: 1, T: lambda a, b: 10 * a + b}) == 12
    assert evaluate(T[i, 2], {i: 1, T: {(1, 2): 5}}) == 5
    assert evaluate(T[i, 2], {i: 1, T[i, 2]: 8, T: array}) == 8
    assert evaluate(S[S[i]], {i: 0, S: np.array([2, 1, 0])}) == 0
    assert [evaluate(x(), {x: value}) for value in (4, np.array(4), {(): 4}, lambda: 4)] == [4] * 4
    for source in (array, {(1, 2): 5}):
        for at in (-1, 3):  # an array does not count from its end
            with pytest.raises(InputError, match="no element"):
                evaluate(T[i, 2], {i: at, T: source})
    with pytest.raises(InputError, match="T has no value"):
        evaluate(T[i, 2], {i: 1})
    with pytest.raises(InputError, match="must be an integer"):
        evaluate(T[i, 2], {i: 1, T: array * 0.5})
    with pytest.raises(InputError, match="must be an integer"):
        evaluate(T[i, 2], {i: 1, T: array > 3})


# at a fixed width

EDGE = [*range(-128, -119), -65, -64, -63, *range(-9, 10), 62, 63, 64, 65, *range(120, 128)]

INT8: dict[Op, Callable[[Any, Any], Any]] = {
    ops.ADD: np.add, ops.SUB: np.subtract, ops.MUL: np.multiply, ops.FLOORDIV: np.floor_divide, ops.FLOORMOD: np.mod,
    ops.CEILDIV: lambda a, b: np.ceil(a / b).astype(np.int32),
    ops.TRUNCDIV: lambda a, b: np.trunc(a / b).astype(np.int32), ops.TRUNCMOD: np.fmod, ops.MIN: np.minimum,
    ops.MAX: np.maximum, ops.BITAND: np.bitwise_and, ops.BITOR: np.bitwise_or, ops.BITXOR: np.bitwise_xor,
    ops.SHL: np.left_shift, ops.SHR: np.right_shift,
}  # fmt: skip


def machine(op: Op, a: int, b: int) -> int | type[EvaluationError]:
    """The result of an 8-bit machine: computed in 32 bits, stored in 8."""
    if op in ops.DIVISIONS and b == 0:
        return UndefinedError
    if op in (ops.FLOORMOD, ops.TRUNCMOD) and (a, b) == (-128, -1):
        return MachineOverflowError  # the division instruction traps
    if op in (ops.SHL, ops.SHR) and not 0 <= b < 8:
        return MachineOverflowError
    wide = INT8[op](np.int32(a), np.int32(b))
    stored = wide.astype(np.int8)
    return int(stored) if stored == wide else MachineOverflowError


@pytest.mark.parametrize("op", INT8, ids=lambda op: op.name)
def test_every_step_is_an_8_bit_machine_operation(op: Op) -> None:
    node = make(op, (i, j))
    tried, failed = 0, 0
    for a, b in product(EDGE, EDGE):
        expected = machine(op, a, b)
        tried += 1
        if isinstance(expected, int):
            assert evaluate(node, {i: a, j: b}, bits=8) == expected
            continue
        failed += 1
        with pytest.raises(expected):
            evaluate(node, {i: a, j: b}, bits=8)
    assert tried == len(EDGE) ** 2
    assert (failed > 0) is (op not in (ops.MIN, ops.MAX, ops.BITAND, ops.BITOR, ops.BITXOR))


def test_width_counts_at_every_step() -> None:
    for node, value in ((-i, -128), (abs(i), -128), (i, 128), (i, -129), (i + 0, 300)):
        with pytest.raises(MachineOverflowError):
            evaluate(node, {i: value}, bits=8)
    with pytest.raises(MachineOverflowError):  # though the result would fit
        evaluate(i + 100 - 100, {i: 100}, bits=8)
    with pytest.raises(MachineOverflowError):
        evaluate(i * 0 + 200, {i: 1}, bits=8)
    assert evaluate(i + 100 - 100, {i: 100}, bits=9) == 100
    assert evaluate(~i, {i: -128}, bits=8) == 127 and evaluate(-i, {i: 127}, bits=8) == -127
    assert evaluate(cast(i, 4), {i: 127}, bits=8) == -1 and evaluate(i < 3, {i: 127}, bits=8) is False
    with pytest.raises(MachineOverflowError):
        evaluate(cast(i, 8, signed=False), {i: -1}, bits=8)
    assert evaluate(select(i < 100, i + 100, i), {i: 100}, bits=8) == 100  # the branch not taken cannot overflow
    assert evaluate(i, {i: 0}, bits=1) == 0 and evaluate(i, {i: -1}, bits=1) == -1


@sampled(40, 100, expressions([i, j], depth=4) | conditions([i, j], depth=4), points([i, j]))
def test_a_value_at_a_width_is_the_value(node: Any, point: dict[Var, int]) -> None:
    try:
        narrow = evaluate(node, point, bits=16)
    except EvaluationError:
        return
    wide = evaluate(node, point)
    assert narrow == wide and type(narrow) is type(wide) is (bool if isinstance(node, Cond) else int)


@sampled(40, 100, expressions([i, j], depth=4, total=True), conditions([i, j], depth=3, total=True), points([i, j]))
def test_total_terms_have_values_and_substitution_keeps_them(e: Expr, c: Cond, point: dict[Var, int]) -> None:
    node = select(c, e, -e)
    value = evaluate(node, point)
    assert evaluate(node.substitute(dict(point))) == value
    assert pickle.loads(pickle.dumps(node)) is node and copy.deepcopy(node) is node


@sampled(60, 200, expressions([i, j], depth=4, nonlinear=False))
def test_linear_strategies_draw_no_products(e: Expr) -> None:
    for node in postorder((e,)):
        assert node.op not in (ops.BITAND, ops.BITOR, ops.BITXOR)
        if node.op is ops.MUL:
            assert any(arg.is_const for arg in node.args)
        if node.op in (*ops.DIVISIONS, ops.SHL, ops.SHR):
            assert node.args[1].is_const


# Range


def test_ranges_are_values_of_a_least_element_and_an_extent() -> None:
    r = Range(2, 5)
    assert (r.min, r.extent) == (const(2), const(5)) and r.max is const(6) and r.constant() == (2, 6)
    assert Range(min=i, extent=n).max is i + n - 1 and Range(i, n).constant() is None
    assert Range(i, n + j).free_vars() == (i, n, j)
    assert Range(0, 0).constant() == (0, -1)
    assert Range(-const(3), 4).constant() == (-3, 0)
    everything = Range.everything()
    assert (everything.min, everything.max) == (NEG_INF, POS_INF) and everything.constant() is None
    assert Range(3, POS_INF).max is POS_INF and Range(3, POS_INF).free_vars() == ()
    assert repr(Range(0, n)) == "Range(min=0, extent=n)"
    assert repr(everything) == "Range(min=NEG_INF, extent=POS_INF)"
    assert Range(0, n) == Range(0, n) and hash(Range(0, n)) == hash(Range(0, n))
    assert Range(0, n) != Range(0, n + 0) and Range(0, 3) != 3
    for r in (Range(0, n), Range.everything(), Range(i, POS_INF)):
        assert pickle.loads(pickle.dumps(r)) == r and copy.deepcopy(r) == r
    with pytest.raises(AttributeError):
        Range(0, n).min = const(1)


@pytest.mark.parametrize("key", ["i", Var("i"), ShapeVar("i")])
def test_a_value_by_name_is_no_value_of_the_variable(key: Any) -> None:
    message = "^the variable i has no value: the key is its name, or another variable of that name$"
    with pytest.raises(InputError, match=message):
        evaluate(Var("i") + 1, {key: 2})


POINTS = [{i: a, j: b} for a, b in itertools.product(range(-3, 4), repeat=2)]


def check(cond: Cond) -> None:
    needs, holds = definedness((cond,)), where_it_holds(cond)
    for point in POINTS:
        read = itertools.takewhile(lambda found: found is True, (value_at(need, point) for need in needs))
        met = len(list(read))
        defined = value_at(cond, point) is not None
        assert defined is (met == len(needs)), (cond, needs, point)
        assert defined or value_at(needs[met], point) is False, (cond, needs, point)
        assert value_at(holds, point) is (value_at(cond, point) is True), (cond, holds, point)


@pytest.mark.parametrize("seed", daily(range(40_000), 400))
def test_drawn_conditions(seed: int) -> None:
    check(Expressions(random.Random(seed), (i, j), PARTIAL, shared=20).condition(3))


def test_many_ways_to_one_quotient_are_no_larger_than_the_expression() -> None:
    """Two paths from each level to the next, 2^60 in total."""
    e = i // j
    for k in range(60):
        e = select(i // (j - k) > k, e, e + 1)
    assert len(definedness((e,))) <= 200
