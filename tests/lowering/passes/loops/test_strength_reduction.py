"""Loops without divisions: strength reduction, hoisting and loops over digits, with numpy's values."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import te
from intset import Range, ShapeVar, Var, evaluate
from intset.expr import ops
from intset.expr.dag import postorder
from lowering import (
    CheckError,
    Function,
    lower,
    lower_division,
    lower_divisions,
    narrow,
    parse_nest,
    run,
    strength_reduce,
    to_c,
)
from lowering.nest.ir import Assert, Carry, For, If, Let, Store, seq
from lowering.nest.walk import operands, statements
from lowering.passes.loops.interchange import run_over_digits
from tests.lowering.lowered import check, check_c, check_run
from tests.sweeps import daily

n, m, p = te.size_var("n"), te.size_var("m"), te.size_var("p")


def divisions_in_loops(f: Function) -> int:
    """Count divisions by nonconstant divisors inside loops."""
    inside = {s for loop in statements(f.body) if isinstance(loop, For) for s in statements(loop.body)}
    inside |= {c for loop in statements(f.body) if isinstance(loop, For) for c in loop.carried}
    found = 0
    for part in inside:
        below: Any = postorder([part.following] if isinstance(part, Carry) else operands(part))
        found += sum(node.op in ops.DIVISIONS and not node.args[1].is_const for node in below)
    return found


def one(formula: Callable[..., Any], shape: Any, split: int | None = None, nparts: int | None = None) -> Any:
    """The schedule of one stage that reads an n by n array."""
    a = te.placeholder((n, n), name="A")
    b = te.compute(shape, lambda *i: formula(a, *i), name="B", varargs_names=["i", "j"][: len(shape)])
    s = te.create_schedule(b.op)
    axis = b.op.axis[0]
    if nparts is not None:
        _, axis = s[b].split(axis, nparts=nparts)
    if split is not None:
        s[b].split(axis, factor=split)
    return s


def fused() -> Any:
    s = one(lambda a, i, j: a[(i * m + j) % n, (i * m + j) // n * 0], (n, m))
    (b,) = s.outputs[0].outputs
    s[b].fuse(*b.op.axis)
    return s


PROGRAMS: dict[str, Callable[[], Any]] = {
    "flatten": lambda: one(lambda a, i: a[i % n, i // n], (n * n,)),
    "factor": lambda: one(lambda a, i: a[(i * 3 + 1) % n, 0], (n,)),
    "offset": lambda: one(lambda a, i: a[(i + 7) % n, (i + 7) // n % n], (n,)),
    "negative start": lambda: one(lambda a, i: a[(i - 3) % n, 0], (n,)),
    "reversed": lambda: one(lambda a, i: a[(n * n - 1 - i) % n, (n * n - 1 - i) // n], (n * n,)),
    "split": lambda: one(lambda a, i: a[i % n, i // n], (n * n,), split=4),
    "parts": lambda: one(lambda a, i: a[i % n, i // n], (n * n,), nparts=4),
    "parts in tiles": lambda: one(lambda a, i: a[i % n, i // n % n], (n * m,), split=3, nparts=4),
    "fused": lambda: fused(),
    "two loops": lambda: one(lambda a, i, j: a[(i * m + j) % n, (i * m + j) // n * 0], (n, m)),
    "rows of a reshape": lambda: one(lambda a, i, j: a[(i * m + j) % n, (i * m + j) // n % n], (n, m)),
    "other divisor": lambda: one(lambda a, i: a[(i % (n + 1)) * 0, (i // (n + 1)) * 0], (m,)),
}


@pytest.mark.parametrize("name", daily(PROGRAMS, 4))
def test_no_division_is_left_in_a_loop(name: str) -> None:
    s = PROGRAMS[name]()
    f = lower(s, strength=True)
    assert divisions_in_loops(f) == 0, f
    for sizes in ({"n": 1, "m": 4}, {"n": 2, "m": 3}, {"n": 7, "m": 5}, {"n": 0, "m": 0}):
        check_run(f, s, sizes)
    check_c(f, s, {"n": 6, "m": 5}, sanitize=True)


def test_elements_that_nothing_writes_may_be_read_before_the_loop() -> None:
    index = te.placeholder((n,), "int32", name="I", value_range=(-50, 1000))
    a = te.placeholder((n,), name="A")
    b = te.compute((n, m), lambda i, j: a[(index[i] + j) % n], name="B")
    s = te.create_schedule(b.op)
    f = lower(s, strength=True)
    assert divisions_in_loops(f) == 1 and "with r = " in str(f)  # the first remainder of each row
    check(s, {"n": 5, "m": 9}, strength=True)
    check_c(f, s, {"n": 5, "m": 9}, sanitize=True)
    check_c(f, s, {"n": 5, "m": 0}, sanitize=True)


def test_what_the_nest_writes_is_not_read_before_the_loop() -> None:
    k, i, j = te.placeholder((8,), "int32", name="K"), Var("i"), Var("j")
    size = ShapeVar("s", lower=1)
    inner = For(j, Range(0, 8), Store(k, (j,), (k[i] + j) % size))
    f = Function("f", (k,), (k,), (size,), (), For(i, Range(0, 8), inner))
    reduced = strength_reduce(f)
    assert "with" not in str(reduced)
    given = {"K": np.arange(8, dtype="int32") * 5}
    np.testing.assert_array_equal(run(reduced, dict(given), {"s": 3})["K"], run(f, dict(given), {"s": 3})["K"])


def test_a_dividend_that_overflows_where_it_is_not_evaluated_is_not_carried() -> None:
    """Below the guard i * 2**61 is small; beyond the guard it overflows 64 bits."""
    i, size = Var("i"), ShapeVar("s", lower=1)
    a = te.placeholder((100,), "int64", name="A")
    guarded = If(i < 3, Store(a, (i,), (i * 2**61) % size))
    f = Function("f", (a,), (a,), (size,), (), For(i, Range(0, 100), guarded))
    assert "with" not in str(strength_reduce(f))
    harmless = f.with_body(For(i, Range(0, 100), If(i < 3, Store(a, (i,), (i * 4) % size))))
    assert "with" in str(strength_reduce(harmless))


def test_behind_an_assertion_nothing_is_taken_for_granted() -> None:
    i, size = Var("i"), Var("n")
    a = te.placeholder((5,), "int64", name="A")
    checked = seq(Assert(size.ne(0), "n is not 0"), Store(a, (i,), 7 // size))
    f = Function("f", (a,), (a,), (size,), (), For(i, Range(0, 5), checked))
    assert "hoisted" not in str(strength_reduce(f))
    with pytest.raises(CheckError):
        run(strength_reduce(f), {"A": np.zeros(5, "int64")}, {"n": 0})
    plain = f.with_body(For(i, Range(0, 5), Store(a, (i,), 7 // size)))
    assert "hoisted" in str(strength_reduce(plain))


def test_a_divisor_is_not_computed_where_the_loop_does_not_run() -> None:
    """The product n * m overflows only if the loop has no iteration."""
    i, n_, m_, k = Var("i"), ShapeVar("n"), ShapeVar("m"), ShapeVar("k")
    a = te.placeholder((k,), "int64", name="A")
    f = Function("f", (a,), (a,), (n_, m_, k), (), For(i, Range(0, k), Store(a, (i,), (i + 5) // (n_ * m_))))
    g = strength_reduce(f)
    (carry,) = (c for stmt in statements(g.body) if isinstance(stmt, For) for c in stmt.carried if c.var.name == "q")
    point = {n_: 2**40, m_: 2**40, k: 0}
    assert evaluate(lower_division(carry.first, bits=64).expr, point, bits=64) == 0
    guarded = f.with_body(For(i, Range(0, k), If(i < 3, Store(a, (i,), i // (n_ * m_)))))
    assert "with" not in str(strength_reduce(guarded))


def test_the_last_update_may_not_overflow() -> None:
    """x = i + s is representable in every iteration, and not one iteration later."""
    i, start, size = Var("i"), Var("s"), ShapeVar("n", lower=1, upper=9)
    a = te.placeholder((5,), "int64", name="A")
    f = Function("f", (a,), (a,), (start, size), (), For(i, Range(0, 5), Store(a, (i,), (i + start) // size)))
    g = lower_divisions(strength_reduce(f))
    text = to_c(g)
    assert "if (i + 1 < 5)" in text
    for first in (2**63 - 5, -(2**63)):
        result = run(g, {"A": np.zeros(5, "int64")}, {"s": first, "n": 1})["A"]
        assert [int(value) for value in result] == [first + k for k in range(5)]


def test_chains_of_every_step_stay_in_the_width() -> None:
    """x = i * c + s is divided by n, the quotient by m, all at 8 bits: no step of an update leaves the width."""
    i, c, start, n_, m_ = Var("i"), Var("c"), Var("s"), ShapeVar("n"), ShapeVar("m")
    k = ShapeVar("k")
    a = te.placeholder((k,), "int64", name="A")
    quotient = (i * c + start) // n_
    store = Store(a, (i,), quotient // m_ + quotient % m_)
    f = Function("f", (a,), (a,), (c, start, n_, m_, k), (), For(i, Range(0, k), store))
    g = strength_reduce(f, 8)
    assert divisions_in_loops(g) == 0
    lets = [stmt for stmt in statements(g.body) if isinstance(stmt, Let)]
    (loop,) = (stmt for stmt in statements(g.body) if isinstance(stmt, For))
    rng, done = random.Random(1), 0
    for _ in range(1500):
        point: dict[Any, int] = {c: rng.randint(-30, 30), start: rng.randint(-128, 127), k: rng.randint(0, 9)}
        point |= {size: rng.choice((1, 2, 3, 5, 7, 100, 127, rng.randint(1, 127))) for size in (n_, m_)}
        if not all(-128 <= j * point[c] <= 127 and -128 <= j * point[c] + point[start] <= 127 for j in range(point[k])):
            continue
        done += 1
        env = dict(point)
        for let in lets:
            env[let.var] = evaluate(let.value, env, bits=8)
        env |= {carry.var: evaluate(carry.first, env, bits=8) for carry in loop.carried}
        for j in range(point[k]):
            (inside,) = (stmt for stmt in statements(loop.body) if isinstance(stmt, Store))
            q = (j * point[c] + point[start]) // point[n_]
            assert evaluate(inside.value, {**env, i: j}) == q // point[m_] + q % point[m_]
            if j + 1 < point[k]:
                env |= {carry.var: evaluate(carry.following, {**env, i: j}, bits=8) for carry in loop.carried}
    assert done > 300


def test_carried_variables_fit_32_bits_where_the_sizes_do() -> None:
    size = ShapeVar("n", upper=100)
    a = te.placeholder((size, size), name="A")
    s = te.create_schedule(te.compute((size * size,), lambda i: a[i % size, i // size], name="B").op)
    f = lower(s, strength=True)
    assert narrow(f).bits == 32 and "int32_t q" in check_c(f, s, {"n": 11}, sanitize=True)
    assert "select(r == n - 1, 0, r + 1)" in str(f)


NEST = """\
def F(A: int32[80], B: int32[80]):
    for i in [0, 2):
        for q in [0, {}){}:
            B[q] = A[{}] + q"""


def test_patches_are_taken_without_a_division() -> None:
    a, w = te.placeholder((4, 8, 8), name="A"), te.placeholder((36, 5), name="W")
    patch = te.compute((36, 36), lambda p, q: a[q // 9, p // 6 + q // 3 % 3, p % 6 + q % 3], name="P")
    k = te.reduce_axis((0, 36), "k")
    b = te.compute((36, 5), lambda p, f: te.sum(patch[p, k] * w[k, f], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], 6)
    s[patch].compute_at(s[b], outer)
    f = check(s)
    text = re.sub(r"/\*.*?\*/", "", to_c(f), flags=re.DOTALL)
    assert " / 9" not in text and " / 3" not in text and "% 3" not in text
    check_c(f, s, sanitize=True)


@pytest.mark.parametrize(
    ("count", "index", "loops"),
    [
        (36, "truncdiv(q, 9)", 3),
        (36, "truncdiv(q, 9) + truncmod(truncdiv(q, 3), 3) * 5 + truncmod(q, 3)", 4),
        (32, "(q >> 3) + (q & 7)", 3),
        (32, "((q >> 1) & 3) * 2", 4),
        (36, "truncdiv(truncdiv(q, 2), 3)", 4),
        (36, "truncdiv(q + 1, 9)", 2),  # no digits of q
        (35, "truncdiv(q, 9)", 2),  # the last one is not whole
        (36, "truncdiv(q, 4) + truncmod(q, 6)", 2),  # 4 does not divide 6
        (36, "truncmod(q, 36)", 2),
        (36, "q", 2),
        (36, "truncmod(truncmod(q, 18), 6)", 4),
        (36, "truncdiv(truncmod(q, 18), 6)", 4),
        (36, "truncmod(truncmod(q, 6), 4)", 3),
    ],
)
def test_which_loops_have_digits(count: int, index: str, loops: int) -> None:
    for kind in ("", " vectorized"):
        f = parse_nest(NEST.format(count, kind, index))
        g = run_over_digits(f)
        assert sum(str(type(s).__name__) == "For" for s in statements(g.body)) == loops, g
        A = np.arange(80, dtype="int32") ** 2
        assert (run(f, {"A": A})["B"] == run(g, {"A": A})["B"]).all()


def test_random_digits() -> None:
    rng = random.Random(3)
    for _ in range(40):
        cuts = [1]
        for _ in range(rng.randint(1, 3)):
            cuts.append(cuts[-1] * rng.choice((2, 2, 3, 4)))
        count = cuts[-1] * rng.randint(1, 3)
        terms = []
        for _ in range(rng.randint(1, 3)):
            low = rng.choice(cuts)
            high = rng.choice([c for c in cuts if c >= low])
            quotient = "q" if low == 1 else f"truncdiv(q, {low})"
            terms.append(quotient if high == low else f"truncmod({quotient}, {high // low})")
        f = parse_nest(NEST.format(min(count, 80), "", f"truncmod({' + '.join(terms)}, 80)"))
        A = rng.sample(range(1000), 80)
        given = {"A": np.array(A, "int32")}
        assert (run(f, given)["B"] == run(run_over_digits(f), given)["B"]).all(), f
