"""Loops in pieces, over digits, without divisions, in parallel: every form computes what the nest computes."""

import random
import re
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from bound.errors import ScheduleError
from intset import Range, ShapeVar, Var, const, evaluate, maximum, minimum
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Expr
from lowering import CheckError, lower, lower_division, lower_divisions, narrow, parse_nest, run, strength_reduce, to_c
from lowering.nest.ir import Assert, Carry, For, Function, If, Let, Seq, Store, seq, with_fields
from lowering.nest.walk import operands, statements, substitute
from lowering.passes.estimates import Loops
from lowering.passes.loops import fusion
from lowering.passes.loops import index_set_splitting as partition
from lowering.passes.loops.fusion import races
from lowering.passes.loops.index_set_splitting import partition_loops
from lowering.passes.loops.interchange import run_over_digits
from lowering.passes.simplify import decided, drop_single_iterations
from tests.lowering.lowered import check, check_c, check_run
from tests.strategies.written import Written
from tests.sweeps import RANDOMS, daily, sampled


def comparisons(f: Function) -> int:
    """The comparisons in a nest."""
    below: Any = postorder([e for s in statements(f.body) if not isinstance(s, Assert) for e in operands(s)])
    return sum(node.op in ops.COMPARISONS or str(node.op) in ("<", "<=", ">", ">=") for node in below)


@pytest.mark.parametrize("ends", [("2", "5"), ("1", "A[0]")])
def test_a_nest_with_nothing_to_decide_is_itself(ends: tuple[str, str]) -> None:
    low, extent = ends
    f = parse_nest(f"""
def F(A: int32[9], B: int32[99]):
    for i in [{low}, {extent}):
        for j in [0, 4):
            B[i * 4 + j] = select(A[j] < 3, 1, A[i])
""")
    assert partition_loops(f).body is f.body


def padded(n: Any, kind: str = "") -> Any:
    text = """
        A = given(n, n)
        INSIDE = lambda y, x: tir.all(y >= 1, y < n + 1, x >= 2, x < n + 2)
        B[y:n + 2, x:n + 4] = where(INSIDE(y, x), A[y - 1, x - 2], 0.0)
        """
    return Written(text + {"": "", "parallel": "B parallel y", "vectorize": "B vectorize x"}[kind], n=n).s


@pytest.mark.parametrize("kind", ["", "vectorize", "parallel"])
def test_the_interior_of_a_padded_image_has_no_condition(kind: str) -> None:
    for n in (20, te.size_var("n")):
        f = partition_loops(lower(padded(n, kind)))
        assert comparisons(f) == (2 if kind == "parallel" else 0), f
        given = np.arange(49, dtype="float32").reshape(7, 7) + 1
        if not isinstance(n, int):
            assert (run(f, {"A": given})["B"] == np.pad(given, ((1, 1), (2, 2)))).all()
            assert run(f, {"A": np.zeros((0, 0), "float32")})["B"].shape == (2, 4)


def test_what_a_variable_is_not_is_decided_by_what_it_is_between() -> None:
    i = Var("i")
    loops = Loops().inside(i, (const(1),), (const(7),))
    assert [loops.decided(i.ne(k)) for k in (0, 1, 4, 7, 8)] == [True, None, None, None, True]
    assert loops.decided((i * 0).ne(0)) is False


@pytest.mark.parametrize("seed", range(60))
def test_a_nest_decides_what_its_ends_alone_decide(seed: int) -> None:
    """Remembered answers about surrounding loops change no answer."""
    draw = random.Random(seed)
    variables = [Var(f"v{k}") for k in range(5)]

    def expression(among: list[Var], depth: int = 2) -> Expr:
        if depth == 0 or not among or draw.random() < 0.2:
            return draw.choice([*among, const(draw.randint(-4, 9))])
        a, b = expression(among, depth - 1), expression(among, depth - 1)
        return draw.choice([a + b, a - b, a * draw.randint(-3, 3), minimum(a, b), maximum(a, b)])

    loops = Loops()
    conditions = [expression(variables) <= expression(variables) for _ in range(12)]
    for k, var in enumerate(variables):
        low, end = expression(variables[:k]), expression(variables[:k])
        loops = loops.inside(var, (low,), (end, low + draw.randint(0, 6))[: draw.randint(1, 2)])
        alone = Loops(loops.ends)
        for c in (*conditions, *(variables[k] >= low + d for d in (-1, 0, 1))):
            assert loops.decided(c) is alone.decided(c)


def test_a_loop_may_hide_the_variable_of_a_loop_around_it() -> None:
    f = parse_nest("""
def f(B: int32[10]):
    for i in [0, 4):
        for j in [0, 10):
            B[j] = select(j < 4, 1, 2)
""")
    outer: Any = f.body
    inner = substitute(with_fields(outer.body, var=outer.var), {outer.body.var: outer.var})
    parted = partition_loops(f.with_body(with_fields(outer, body=inner)))
    assert comparisons(parted) == 0
    values = np.zeros(10, np.int32)
    run(parted, {"B": values}, {})
    assert list(values) == [1] * 4 + [2] * 6


@sampled(60, 2_000, RANDOMS)
def test_what_holds_in_one_subrange_is_not_decided_in_another(rng: random.Random) -> None:
    n, shape = te.size_var("n"), (rng.randint(4, 12), rng.randint(4, 12))

    def drawn(i: Any, j: Any, depth: int) -> Any:
        left, right = rng.sample([i, j, n, i + n, const(rng.randint(0, 9)), const(rng.randint(2, 6))], 2)
        cond = rng.choice([left < right, left <= right, left.eq(right)])
        arms = (drawn(i, j, depth - 1) if depth and rng.random() < 0.5 else rng.randint(0, 99) for _ in range(2))
        return tir.if_then_else(cond, *arms)

    B = te.compute(shape, lambda i, j: drawn(i, j, 2) + drawn(i, j, 1), name="B")
    s = te.create_schedule(B.op)
    if rng.random() < 0.5:
        s[B].split(rng.choice(B.op.axis), rng.randint(2, 5))
    f = lower(s, [B, n])
    parted = partition_loops(partition_loops(partition_loops(f)))
    for size in (0, 1, 3, 7, 20):
        expected, found = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        run(f, {"B": expected}, {"n": size})
        run(parted, {"B": found}, {"n": size})
        assert (expected == found).all()


def test_a_triangle_beside_a_border_is_right_in_c() -> None:
    B = te.compute((64, 64), lambda i, j: tir.if_then_else(j < 20, 1, 2) + tir.if_then_else(i < j, 10, 20), name="B")
    s = te.create_schedule(B.op)
    check_c(lower(s, [B]), s)


def test_interiors_over_a_product_of_sizes_end_without_clamps() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].fuse(*B.op.axis), 4)
    text = check_c(lower(s, [A, B]), s, {"n": 3, "m": 5})
    assert "< ((n * m) >> 2)" in text


def test_serial_loops_of_one_iteration_are_dropped_and_annotated_loops_stay() -> None:
    f = parse_nest("""
def f(B: int32[3]):
    for i in [2, 3):
        for j in [0, 1) parallel:
            B[i + j] = 1
""")
    text = str(drop_single_iterations(f))
    assert "for i " not in text and "for j in [0, 1) parallel:" in text and "B[j + 2] = 1" in text
    kept = f.with_body(with_fields(f.body, annotations=(("pragma", 1),)))
    assert "for i " in str(drop_single_iterations(kept))


def test_a_sum_loses_what_it_adds_and_subtracts() -> None:
    i, j = Var("i"), Var("j")
    assert decided(i + j - j) is i
    assert decided(minimum(i, i)) is decided(maximum(i, i)) is i
    assert decided(i + j - i) == i + j - i


@pytest.mark.parametrize("backend", ["python", "c"])
def test_no_end_divides_in_front_of_an_empty_loop(backend: str) -> None:
    f = parse_nest("""
def f(B: int32[12], n, m):
    assert n >= 0
    for i in [0, n):
        B[i % 12] = select(i + i <= truncdiv(n, m), i, 2)
""")
    values = np.zeros(12, np.int32)
    run(partition_loops(f), {"B": values}, {"n": 0, "m": 0}, backend=backend)
    assert not values.any()
    run(partition_loops(f), {"B": values}, {"n": 5, "m": 1}, backend=backend)
    assert list(values[:5]) == [0, 1, 2, 2, 2]


@pytest.mark.parametrize(("m", "text"), [(1, "n < 3"), (2, "(n < 3) | (k < 5)")])
def test_a_condition_loses_what_a_constant_decides(m: int, text: str) -> None:
    n, k, size = Var("n"), Var("k"), Var("m")
    cond = (n < 3) & (size < 3) | (k < 5) & (size >= 2)
    assert str(decided(cond.substitute({size: const(m)}))) == text


def minima(f: Function) -> int:
    found = [e for s in statements(f.body) if not isinstance(s, Assert) for e in operands(s)]
    return sum(str(e).count("minimum") + str(e).count("maximum") for e in found)


def test_short_loops_of_whole_tiles_have_a_constant_length() -> None:
    """Parts of a vector that are too many, a ragged tile of a matrix, and an index that is kept inside."""
    s = Written("A = given(100); B = pointwise(A)\nB split i0 nparts=40").s
    assert (
        f"{partition_loops(lower(s, nests='ends'))}\n"
        == """\
def B(A: float32[100], B: float32[100]):
    for i0.outer in [0, 33):
        for i0.inner in [0, 3):
            B[i0.outer * 3 + i0.inner] = A[i0.outer * 3 + i0.inner] + 1.0
    B[33 * 3 + 0] = A[33 * 3 + 0] + 1.0
"""
    )
    clamped = "A = given(n, 37)\nC[i:n, j:37] = A[te.max(te.min(i - 2, n - 1), 0), j]"
    n = te.size_var("n")
    s = Written(f"{clamped}\nC tile i j 4 8", n=n).s
    f = lower(s)
    inner = [s for s in statements(partition_loops(f).body) if isinstance(s, For) and "inner" in s.var.name]
    assert {(s.var.name, str(s.range.extent)) for s in inner} >= {("i.inner", "4"), ("j.inner", "8")}
    given = {"A": np.arange(11 * 37, dtype="float32").reshape(11, 37)}
    np.testing.assert_array_equal(run(partition_loops(f), given)["C"], run(f, given)["C"])
    g = partition_loops(lower(Written(clamped, n=n).s))
    assert minima(g) <= 4, g  # in the ends of the pieces alone


def test_code_grows_within_a_budget() -> None:
    a = te.placeholder((64,), name="A")

    def at(*axes: Any) -> Any:
        value: Any = 0.0
        for k, axis in enumerate(axes):
            for c in range(3):
                value = value + tir.if_then_else(axis >= c + k, a[axis], 1.0)
        return value

    s = te.create_schedule(te.compute((9, 9, 9, 9), at, name="B").op)
    f = lower(s)
    parted = partition_loops(f)
    before, after = (sum(not isinstance(s, Seq) for s in statements(g.body)) for g in (f, parted))
    most = sum(max(partition.FEWEST, times * before) for times in (partition.TIMES, partition.INNERMOST))
    assert before < after <= before + most
    given = {"A": np.arange(64, dtype="float32")}
    np.testing.assert_array_equal(run(parted, given)["B"], run(f, given)["B"])


# -- loops without divisions ---------------------------------------------------------------------------------------


n, m = te.size_var("n"), te.size_var("m")


def divisions_in_loops(f: Function) -> int:
    """Count divisions by nonconstant divisors inside loops."""
    inside = {s for loop in statements(f.body) if isinstance(loop, For) for s in statements(loop.body)}
    inside |= {c for loop in statements(f.body) if isinstance(loop, For) for c in loop.carried}
    found = 0
    for part in inside:
        below: Any = postorder([part.following] if isinstance(part, Carry) else operands(part))
        found += sum(node.op in ops.DIVISIONS and not node.args[1].is_const for node in below)
    return found


PROGRAMS = {
    "flatten": "B[i:n * n] = A[i % n, i // n]",
    "factor": "B[i:n] = A[(i * 3 + 1) % n, 0]",
    "offset": "B[i:n] = A[(i + 7) % n, (i + 7) // n % n]",
    "negative start": "B[i:n] = A[(i - 3) % n, 0]",
    "reversed": "B[i:n * n] = A[(n * n - 1 - i) % n, (n * n - 1 - i) // n]",
    "split": "B[i:n * n] = A[i % n, i // n]\nB split i 4",
    "parts": "B[i:n * n] = A[i % n, i // n]\nB split i nparts=4",
    "parts in tiles": "B[i:n * m] = A[i % n, i // n % n]\nB split i nparts=4; B split i.inner 3",
    "fused": "B[i:n, j:m] = A[(i * m + j) % n, (i * m + j) // n * 0]\nB fuse i j",
    "two loops": "B[i:n, j:m] = A[(i * m + j) % n, (i * m + j) // n * 0]",
    "rows of a reshape": "B[i:n, j:m] = A[(i * m + j) % n, (i * m + j) // n % n]",
    "other divisor": "B[i:m] = A[(i % (n + 1)) * 0, (i // (n + 1)) * 0]",
}


def sized(text: str) -> Any:
    return Written(text, n=n, m=m).s


@pytest.mark.parametrize("name", daily(PROGRAMS, 4))
def test_no_division_is_left_in_a_loop(name: str) -> None:
    s = sized("A = given(n, n)\n" + PROGRAMS[name])
    f = lower(s, strength=True)
    assert divisions_in_loops(f) == 0, f
    for sizes in ({"n": 1, "m": 4}, {"n": 2, "m": 3}, {"n": 7, "m": 5}, {"n": 0, "m": 0}):
        check_run(f, s, sizes)
    check_c(f, s, {"n": 6, "m": 5}, sanitize=True)


def test_what_is_written_or_asserted_is_not_taken_for_granted_before_a_loop() -> None:
    index = 'I = given(n, dtype="int32", value_range=(-50, 1000))'
    s = sized(f"{index}; A = given(n)\nB[i:n, j:m] = A[(I[i] + j) % n]")
    f = lower(s, strength=True)
    assert divisions_in_loops(f) == 1 and "with r = " in str(f)  # the first remainder of each row
    check_run(f, s, {"n": 5, "m": 9})
    check_c(f, s, {"n": 5, "m": 9}, sanitize=True)
    check_c(f, s, {"n": 5, "m": 0}, sanitize=True)
    k, i, j = te.placeholder((8,), "int32", name="K"), Var("i"), Var("j")
    size = ShapeVar("s", lower=1)
    inner = For(j, Range(0, 8), Store(k, (j,), (k[i] + j) % size))
    f = Function("f", (k,), (k,), (size,), (), For(i, Range(0, 8), inner))
    reduced = strength_reduce(f)
    assert "with" not in str(reduced)
    given = {"K": np.arange(8, dtype="int32") * 5}
    np.testing.assert_array_equal(run(reduced, dict(given), {"s": 3})["K"], run(f, dict(given), {"s": 3})["K"])
    i, size = Var("i"), Var("n")
    a = te.placeholder((5,), "int64", name="A")
    checked = seq(Assert(size.ne(0), "n is not 0"), Store(a, (i,), 7 // size))
    f = Function("f", (a,), (a,), (size,), (), For(i, Range(0, 5), checked))
    assert "hoisted" not in str(strength_reduce(f))
    with pytest.raises(CheckError):
        run(strength_reduce(f), {"A": np.zeros(5, "int64")}, {"n": 0})
    plain = f.with_body(For(i, Range(0, 5), Store(a, (i,), 7 // size)))
    assert "hoisted" in str(strength_reduce(plain))


def test_nothing_overflows_that_the_nest_does_not_evaluate() -> None:
    # Below the guard i * 2**61 is small; beyond the guard it overflows 64 bits.
    i, size = Var("i"), ShapeVar("s", lower=1)
    a = te.placeholder((100,), "int64", name="A")
    guarded = If(i < 3, Store(a, (i,), (i * 2**61) % size))
    f = Function("f", (a,), (a,), (size,), (), For(i, Range(0, 100), guarded))
    assert "with" not in str(strength_reduce(f))
    harmless = f.with_body(For(i, Range(0, 100), If(i < 3, Store(a, (i,), (i * 4) % size))))
    assert "with" in str(strength_reduce(harmless))
    # The product n * m overflows only if the loop has no iteration.
    i, n_, m_, k = Var("i"), ShapeVar("n"), ShapeVar("m"), ShapeVar("k")
    a = te.placeholder((k,), "int64", name="A")
    f = Function("f", (a,), (a,), (n_, m_, k), (), For(i, Range(0, k), Store(a, (i,), (i + 5) // (n_ * m_))))
    g = strength_reduce(f)
    (carry,) = (c for stmt in statements(g.body) if isinstance(stmt, For) for c in stmt.carried if c.var.name == "q")
    point = {n_: 2**40, m_: 2**40, k: 0}
    assert evaluate(lower_division(carry.first, bits=64).expr, point, bits=64) == 0
    short = f.with_body(For(i, Range(0, k), If(i < 3, Store(a, (i,), i // (n_ * m_)))))
    assert "with" not in str(strength_reduce(short))
    # x = i + s is representable in every iteration, and not one iteration later.
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


def test_patches_and_carried_variables_take_no_division() -> None:
    s = Written(f"A = given(n, n)\n{PROGRAMS['flatten']}", n=ShapeVar("n", upper=100)).s
    f = lower(s, strength=True)
    text = check_c(f, s, {"n": 11}, sanitize=True)
    assert narrow(f).bits == 32 and "int32_t q" in text and " / " not in text and " % " not in text
    assert "select(r == n - 1, 0, r + 1)" in str(f)
    s = Written("""
        A = given(4, 8, 8); W = given(36, 5); k = axis(0, 36)
        P[p:36, q:36] = A[q // 9, p // 6 + q // 3 % 3, p % 6 + q % 3]
        B[p:36, f:5] = sum_(P[p, k] * W[k, f], axis=k)
        B split p 6; P compute_at B p.outer""").s
    f = check(s)
    text = re.sub(r"/\*.*?\*/", "", to_c(f), flags=re.DOTALL)
    assert " / 9" not in text and " / 3" not in text and "% 3" not in text
    check_c(f, s, sanitize=True)


NEST = """\
def F(A: int32[80], B: int32[80]):
    for i in [0, 2):
        for q in [0, {}){}:
            B[q] = A[{}] + q"""


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


# -- parallel loops whose iterations touch one element -------------------------------------------------------------


SCAN = """
    X = given(8, 4); STATE = given(8, 4)
    FIRST[_:1, i:4] = X[0, i]
    NEXT[t:8, i:4] = STATE[t - 1, i] + X[t, i]
    RESULT = te.scan(FIRST, NEXT, STATE, inputs=[X], name="result")
    schedule RESULT
    """


def test_scans_are_not_parallel_and_elements_chosen_by_data_are_the_word_of_the_user() -> None:
    with pytest.raises(ScheduleError, match=r"stage result: iterations of result.idx run in parallel, but .* result\["):
        lower(Written(SCAN + "RESULT parallel result.idx").s)
    assert "parallel" in str(lower(Written(SCAN + "NEXT parallel i").s))
    text = 'AT = given(8, dtype="int32", value_range=(0, 15)); A = given(16)\nB[i:8] = A[AT[i]]\nB parallel i'
    assert "parallel" in str(lower(Written(text).s))
    scattered = "def f(at: int32[8], B: float32[16]):\n    for i in [0, 8) parallel:\n        B[at[i]] = 1.0\n"
    assert not list(races(parse_nest(scattered)))


@pytest.mark.parametrize("seed", daily(range(300), 10))
def test_random_loops_against_their_elements(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is refused for two iterations that meet; what is not has none. Also without the first answer."""
    rng = random.Random(seed)
    n, m = rng.randint(1, 6), rng.randint(1, 4)

    def index(*names: str) -> str:
        terms = [f"{rng.choice((0, 0, 1, 1, 1, 2, m, -1))} * {name}" for name in names]
        text = " + ".join((*terms, str(rng.randint(10, 14))))
        return rng.choice((text, text, f"({text}) // 2", f"({text}) % 5", f"min({text}, 13)"))

    store, load = (tuple(index("i", "j", "o") for _ in range(2)) for _ in range(2))
    guard = rng.choice(("", f"if j < {rng.randint(0, 3)}:", f"if i + j >= {rng.randint(0, 3)}:"))
    pad = "            " + ("    " if guard else "")
    lines = ["def F(A: float32[64, 64]):", "    for o in [0, 2):", f"        for i in [0, {n}) parallel:"]
    lines += [f"            for j in [0, {rng.choice((str(m), 'i + 1', f'min({m}, {n} - i)'))}):"]
    lines += [f"                {guard}"] if guard else []
    lines.append(f"    {pad}A[{', '.join(store)}] = A[{', '.join(load)}] + 1.0")
    f = parse_nest("\n".join(lines) + "\n")

    def value(text: str, i: int, j: int, o: int) -> int:
        return int(eval(text, {"i": i, "j": j, "o": o, "min": min}))

    end = lines[3].split("[0, ")[1][:-2]
    met: set[Any] = set()
    for o in range(2):
        stores: dict[Any, set[int]] = {}
        touches: dict[Any, set[int]] = {}
        for i in range(n):
            for j in range(value(end, i, 0, o)):
                if guard and not value(guard[3:-1], i, j, o):
                    continue
                at, read = (tuple(value(e, i, j, o) for e in place) for place in (store, load))
                stores.setdefault(at, set()).add(i)
                touches.setdefault(at, set()).add(i)
                touches.setdefault(read, set()).add(i)
        met |= {(p, a, b) for p, who in stores.items() for a in who for b in touches[p] if a != b}
    for _ in range(2):
        found = list(races(f))
        assert len(found) == bool(met), f
        for race in found:
            if race.element is not None and race.iterations is not None:
                a, b = race.iterations
                assert {(race.element, a, b), (race.element, b, a)} & met
        monkeypatch.setattr(fusion, "_is_apart", lambda loop: False)
