"""Lowering, feature by feature: programs as text, predicates on threads, reductions of one value or of several."""

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import Context, Var
from intset.errors import InputError
from lowering import lower, run, to_c
from tests.bound.oracle import check_claims
from tests.lowering.lowered import check, check_c, check_run, random_array
from tests.strategies.refusals import refused_by
from tests.strategies.written import Written
from tests.sweeps import RANDOMS, daily, sampled

CHAIN = """
    A = given(20); B = pointwise(A)
    C[i:18] = B[i] + B[i + 2]"""
ROUNDED = """
    A = given(20); B = pointwise(A)
    C[i:18] = B[i] * 2
    {}; B split i0 4 tail=round_up"""
SCAN = """
    X = given(9, 5); S = given(9, 5)
    INIT[_:1, i:5] = X[0, i]
    U[t:9, i:5] = S[t - 1, i] * 0.5
    V[t:9, i:5] = U[t, i] + X[t, i]
    SCAN = te.scan(INIT, V, S, inputs=[X], name="SCAN")
    OUT[t:9, i:5] = SCAN[t, 4 - i] + 1"""
PRODUCT = """
    A = given(12, 10); B = given(10, 14); k = axis(0, 10)
    C[i:12, j:14] = sum_(A[i, k] * B[k, j], axis=k)"""
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64", "bool")
CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {  # a program, what its nest shows and shows not
    **{
        f"{name} with a tail that is rounded up": (
            ROUNDED.format(calls), ("B: float32[20]",) * (not k), ("if ",) * (not k)
        )
        for k, (name, calls) in enumerate({
            "a stage": "B compute_root",
            **{f"tiles of {n}": f"C split i {n}; B compute_at C i.outer" for n in (3, 7, 19)},
        }.items())
    },
    "reductions with conditions and initial values": (
        """
        A = given(7, 7); B = given(7); k = axis(1, 7)
        C[i:7] = sum_(A[i, k], axis=k, where=k <= i, init=2.0)
        D[i:7] = max_(C[i] * B[k], axis=k, where=B[k] > 0)
        C compute_at D i; C fuse i k; C split i.k.fused 4""", (), (),
    ),
    "a scan": (SCAN, (), ()),
    "a scan with a part inside": (f"{SCAN}\n    U compute_at V i; V split i 2", (), ()),
    "threads run one after another and each computes what they share": (
        """
        A = given(60); B = pointwise(A)
        C[i:60] = B[59 - i] * 2
        C split i 16; C bind i.outer blockIdx.x; C bind i.inner threadIdx.x; B set_scope shared
        B compute_at C i.inner; B split i0 nparts=16; B bind i0.outer threadIdx.x""",
        ("on threadIdx.x", "in shared"), (),
    ),
    "a reduction over threads stores once": (
        """
        A = given(6, 32); k = axis(0, 32)
        B[i:6] = sum_(A[i, k], axis=k)
        B split k 8
        P = s.rfactor(B, s[B].leaf_iter_vars[-1])
        T = te.thread_axis("threadIdx.x")
        B bind k.inner.v T; P compute_at B k.inner.v
        s[B].set_store_predicate(T.var.eq(0))""", (), (),
    ),
    "tensor intrinsics": (
        """
        p = given(4); q = given(4); r = axis(0, 4); A = given(8, 12); B = given(12); k = axis(0, 3)
        dot[i:1] = sum_(p[r] * q[r], axis=r)
        call = te.decl_tensor_intrin(dot.op, lambda ins, outs: None, name="dot")
        PRE[i:8, j:12] = A[i, j] + 1
        C = te.compute((8, 1), lambda i: call(PRE[i, k * 4 : k * 4 + 4], B[k * 4 : k * 4 + 4], reduce_axis=k), name="C")
        schedule C
        PRE compute_at C i""", (), (),
    ),
    "integers that wrap when they are stored": (
        """
        A = given(16, dtype="int8", value_range=(-128, 127))
        B[i:16] = (A[i] * 5).astype("int8")
        C[i:16] = B[i].astype("int32") * 1000003 * B[i].astype("int32")
        D[i:16] = tir.floordiv(C[i], 7) + tir.truncmod(C[i], -5)
        schedule C D""", (), (),
    ),
    **{
        f"elements of {dtype}": (
            f"""
        A = given(5, dtype="{dtype}")
        B[i:5] = {"tir.all(A[i], i < 3)" if dtype == "bool" else f"(A[i] + 1).astype('{dtype}')"}
        C[i:5] = B[4 - i]
        B compute_at C i""", (), (),
        )
        for dtype in TYPES
    },
    "a float of data in an index": (
        """
        A = given(9); X = given(7)
        B[i:7] = A[te.max(te.min(te.floor(X[i] * 2).astype("int32") + 4, 8), 0)]
        B split i 3""", (), (),
    ),
    "loops of extent one and kinds of loops": (
        """
        A = given(1, 8, 6)
        B[n:1, i:8, j:6] = A[n, i, j] + 1
        B parallel i; B split j 2; B unroll j.outer; B vectorize j.inner""",
        ("for i in [0, 8) parallel:", "unrolled:", "vectorized:"), ("for n",),
    ),
    "caches": (
        f"""{PRODUCT}
        L = s.cache_write(C, "local")
        C tile i j 5 4; L compute_at C j.outer; L split k 3; L reorder k.outer i.c j.c
        Bs = s.cache_read(B, "shared", [L])
        Bs compute_at L k.outer""",
        ("B.shared", "C.local"), (),
    ),
    **{
        f"a cache written after {calls} of ({shape})": (
            f"""
            A = given({shape}); B = pointwise(A)
            C[i:{shape.split(", ")[0]}, j:{shape.split(", ")[1]}] = B[i, j] * 2
            B {calls}
            s.cache_write(B, "local")""", (), (),
        )
        for shape, calls in (
            ("3, 0", "split i1 nparts=3"), ("3, 0", "split i1 nparts=3; B split i1.inner nparts=2"),
            ("3, 7", "split i1 3 tail=shift_inwards"), ("3, 7", "fuse i0 i1; B split i0.i1.fused 4 tail=shift_inwards"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_case(name: str) -> None:
    text, there, absent = CASES[name]
    s = Written(text).s
    f = check(s)
    assert all(part in str(f) for part in there) and not any(part in str(f) for part in absent), f
    check_c(f, s, sanitize="wrap" in name or "float of data" in name)


@pytest.mark.parametrize(
    ("level", "factor", "tail"),
    daily(product(("outer", "inner"), (25, 4, 3, 7), ("guard", "shrink", "shift_inwards")), 4),
)
def test_tails(tail: str, factor: int, level: str) -> None:
    s = Written(f"""{CHAIN}
        C split i {factor} tail={tail}; B compute_at C i.{level}; B split i0 4 tail={tail}""").s
    f = check(s)
    check_c(f, s)
    if tail == "shrink" and factor == 4 and level == "outer":
        assert "for i.inner in [0, minimum(" in str(f) and "if " not in str(f)


def test_arrays_by_name_and_by_tensor_and_functions_of_the_host() -> None:
    s, a, b, c = Written(f"""{PRODUCT}
        C split k 4
        P = s.rfactor(C, s[C].leaf_iter_vars[-1])
        P compute_at C ax0""")("s A B C")
    f = lower(s, [a, b, c])
    x, y = (random_array(t, {}) for t in (a, b))
    z = np.zeros((12, 14), np.float32)
    run(f, {"A": x, "B": y, "C": z})
    np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-4)
    run(f, {a: x, b: y, c: z})
    s = Written("""
        A = given(6); B = pointwise(A)
        E = te.extern((6,), [B], lambda i, o: tir.call_packed("sort", i[0], o[0]), name="E", dtype="float32")
        C[i:6] = E[5 - i]""").s
    f = check(s, functions={"sort": lambda x, y: y.__setitem__(Ellipsis, np.sort(x))})
    assert "sort(B, E)" in str(f)
    with pytest.raises(InputError, match=r"C calls sort, a function of the host"):
        to_c(f)
    with pytest.raises(InputError, match=r"the nest calls sort, which is not known"):
        run(f, {"A": np.zeros(6, np.float32)})


def test_a_store_predicate_is_on_data_or_on_an_axis_of_its_stage() -> None:
    s, a, b = Written("""
        A = given(8); B = pointwise(A)
        T = te.thread_axis("threadIdx.x")
        B bind i0 T
        s[B].set_store_predicate(T < 4)""")("s A B")
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run(lower(s, [a, b]), {"A": x, "B": y})
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 0, 0, 0, 0])
    s = Written(STAGED + "s[B].set_store_predicate((B.op.axis[1] < 12) & (T < 2))").s
    stored = np.isfinite(run(lower(s), {"A": np.ones((6, 32), np.float32)}, checked=False)["C"])
    np.testing.assert_array_equal(stored, np.broadcast_to(np.arange(32) < 12, (6, 32)))


def test_facts_of_a_context_and_of_loops_spare_guards() -> None:
    s, n = Written("n = var(); A = given(n); B = pointwise(A)\nB split i0 4")("s n")
    assert "if" in str(lower(s, nests="guard")) and "minimum" in str(lower(s))
    assert "if" not in str(lower(s, ctx=Context(assume=[n.eq(Var("q") * 4)])))
    # It runs where both are at least 1: no guard of a divisor, no minimum of a size and its multiple, no flag in C.
    text = "A = given(n, m); B = pointwise(A)\nC[i:n, j:m] = B[i, j] * 2\nC fuse i j; C split i.j.fused 4"
    s = Written(f"{text}; B compute_at C i.j.fused.outer", n=te.size_var("n"), m=te.size_var("m")).s
    f = lower(s)
    text = str(f)
    assert " if " not in text and "minimum(n * m, m)" not in text and "for i1 in [0, m):" in text
    for sizes in ({"n": 3, "m": 5}, {"n": 5, "m": 1}, {"n": 4, "m": 0}, {"n": 0, "m": 4}):
        check_run(f, s, sizes)
    assert "undefined" not in check_c(f, s, {"n": 3, "m": 5})


REFUSED: dict[str, tuple[type[Exception], str]] = {
    "lower(s, [C])": (ScheduleError, "A must be among the arguments: it is an input of the schedule"),
    "lower(s, [A, 3, C])": (InputError, "argument 1 of lower must be a tensor or a variable, not 3"),
    "lower(s, [A, A, C])": (InputError, "argument 1 of lower is A, which is among the arguments before it"),
    "lower(s, at={'n': 3})": (InputError, "at"),
    "lower(s, bounds=infer_bound(s), at={'n': 3})": (InputError, "not both"),
    "lower(C)": (InputError, "lower needs a schedule"),
}


def test_arguments_are_checked() -> None:
    p = Written(CHAIN, lower=lower, infer_bound=infer_bound)
    p.shows({
        "[t.name for t in lower(s, [C, A]).params]": ["C", "A"],
        "[t.name for t in lower(s, [A]).params]": ["A"],  # the output is allocated inside, and dropped
        "[t.name for t in lower(s, [A, B, C]).outputs]": ["C", "B"],
    })  # fmt: skip
    for call, (error, message) in REFUSED.items():
        with pytest.raises(error, match=message):
            eval(call, p.names)


def test_deep_nests_and_long_formulas() -> None:
    shape = (2,) * 5 + (1, 2) * 3 + (1,) * 14 + (2, 2)
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1, name="B")
    s = te.create_schedule(b.op)
    for axis in b.op.axis[:9]:
        s[b].split(axis, 2)
    check_c(check(s), s)
    deep = te.compute((2,) * 12, lambda *i: a(*(i[0],) * 2, *(0,) * len(shape[2:])) + i[11], name="D")
    s = te.create_schedule(deep.op)
    for axis in deep.op.axis:
        s[deep].split(axis, 1, tail="guard")
    check(s)
    wide = te.compute((2,) * 14, lambda *i: a(*(i[0],) * 2, *(0,) * len(shape[2:])) + i[13], name="W")
    check_c(check(te.create_schedule(wide.op)), te.create_schedule(wide.op))
    a = te.placeholder((4,), name="A")

    def formula(i: Any) -> Any:
        x = a[i]
        for k in range(60):
            x = tir.Select(x > k, x * 0.5, x + x * 0.25)
        total = x
        for k in range(400):
            total = total + a[(i + k) % 4]
        return total

    s = te.create_schedule(te.compute((4,), formula, name="B").op)
    f = check(s)
    assert len(check_c(f, s)) < 100_000


STAGED = """
    A = given(6, 32)
    B[i:6, j:32] = A[i, j] * 2
    C[i:6, j:32] = B[i, j] + 1
    T = te.thread_axis("threadIdx.x")
    C bind i blockIdx.x; C split j 8; C bind j.inner T; B compute_at C j.outer; B set_scope shared
    """  # a stage around the threads of its consumer


test_what_is_no_loop_is_refused = refused_by(
    lambda predicate: lower(Written(f"{STAGED}s[B].set_store_predicate({predicate})").s),
    {
        "te.reduce_axis((0, 4), 'r') < 2": "stage B: its store predicate is on r, which is no loop around it",
        "te.thread_axis('threadIdx.y').eq(0)": "on threadIdx.y, on which no loop runs",
    },
    ScheduleError,
)


# -- reductions ----------------------------------------------------------------------------------------------------


def larger(x: Any, y: Any) -> Any:
    """Of two pairs of a place and a value, that of the larger value; of equal ones the first."""
    left = tir.any(x[1] > y[1], tir.all(x[1] >= y[1], x[0] < y[0]))
    return tir.Select(left, x[0], y[0]), tir.Select(left, x[1], y[1])


ARGMAX = te.comm_reducer(larger, lambda a, b: (tir.const(-1, a), te.min_value(b)), "argmax")
SUMS = te.comm_reducer(  # a sum, a product and a second sum
    lambda x, y: (x[0] + y[0], x[1] * y[1], x[2] + y[2]),
    lambda a, b, c: (tir.const(0, a), tir.const(1, b), tir.const(0, c)),
    "sums",
)


def reduction(rng: random.Random) -> tuple[Schedule, dict[Var, int]]:
    """A reduction over indices from -3 up, of one or several values, a stage that reads one value, and sizes."""
    sizes: dict[Var, int] = {}
    n, axes, source = rng.randint(1, 7), [], te.placeholder((14, 14, 14), name="A")
    for name in ("k", "m")[: rng.choice((1, 1, 2))]:
        low, extent, size = rng.randint(-3, 5), rng.randint(1, 5), te.size_var(f"{name}_n")
        if rng.random() < 0.3:
            sizes[size] = extent
        axes.append(te.reduce_axis((low, low + (size if size in sizes else extent)), name))
    kind = rng.choice(("sum", "max", "argmax", "sums", "sums"))
    where = rng.choice((None, None, (axes[0] + 1) % 3 > 0, axes[-1] >= 1))

    def element(i: Any, step: int = 1) -> Any:
        return source[tuple(te.max(te.min(x, 13), 0) for x in (i, axes[0] + 3, axes[-1] * step + 3))]

    def formula(i: Any) -> Any:
        if kind == "argmax":
            return ARGMAX((axes[0] - axes[0] // 7, element(i)), axis=axes, where=where)
        if kind == "sums":
            return SUMS((element(i), element(i, 0) * 0.5 + 1.0, element(i) + i), axis=axes, where=where)
        return (te.sum if kind == "sum" else te.max)(element(i), axis=axes, where=where)

    made: Any = te.compute((n,), formula, name="R")
    read = rng.choice(made) if isinstance(made, tuple) else made
    out = te.compute((n,), lambda i: read[i] * 2 + read[n - 1 - i], name="out")
    s = te.create_schedule(out.op)
    leaves: list[Any] = list(axes)
    for _ in range(rng.randint(0, 2)):
        axis = leaves.pop(rng.randrange(len(leaves)))
        leaves += s[read].split(axis, **{rng.choice(("factor", "nparts")): rng.randint(1, 4)})
    if len(leaves) > 1 and rng.random() < 0.3:
        s[read].reorder(*leaves)
        leaves = [s[read].fuse(leaves[0], leaves[1]), *leaves[2:]]
    partial: Any = None
    if rng.random() < 0.7:
        partial = s.rfactor(read, rng.choice(leaves), factor_axis=rng.choice((0, 1, -1)))
    elif rng.random() < 0.3:
        partial = s.cache_write(list(made) if isinstance(made, tuple) else made, "local")
    if rng.random() < 0.6:
        outer, _ = s[out].split(out.op.axis[0], factor=rng.randint(1, 4))
        s[read].compute_at(s[out], rng.choice((outer, *s[out].leaf_iter_vars)))
    if partial is not None and rng.random() < 0.6:
        first = partial if isinstance(partial, Tensor) else partial[0]
        s[first].compute_at(s[read], rng.choice(list(s[read].leaf_iter_vars)))
    return s, sizes


@sampled(6, 10_000, RANDOMS, shows={True})
def test_random_reductions(rng: random.Random) -> bool:
    """Reductions equal the reference; gives whether the schedule is accepted."""
    try:
        s, sizes = reduction(rng)
        bounds = infer_bound(s)
    except ScheduleError:
        return False
    check(s, {v.name: value for v, value in sizes.items()}, bounds=bounds)
    check_claims(bounds, sizes)
    return True


@pytest.mark.parametrize("read", range(3))
def test_of_independent_results_only_what_is_read_is_kept(read: int) -> None:
    text = f"""
        A = given(4, 6); k = axis(2, 5)
        R[i:4] = SUMS((A[i, k], A[i, k] + 1, A[i, k] * 2), axis=k)
        OUT[i:4] = R[{read}][i] + 1
        schedule OUT"""
    f = check(Written(text, SUMS=SUMS).s)
    assert [f"R.v{n}" in str(f) for n in range(3)] == [n == read for n in range(3)]


def test_a_finished_element_is_known_and_an_unfinished_one_is_not() -> None:
    k, x = te.reduce_axis((0, 3), "k"), Var("x")
    out = te.compute((4,), lambda i: te.max(k.var + i, axis=k), name="out")
    assert (out.element.lower, out.element.upper) == (0, 5)
    assert out.unfinished.lower == -(2**31) and out.unfinished.upper == 5
    total = te.compute((4,), lambda i: te.sum(k.var + i, axis=k), name="total")
    assert total.unfinished is total.element and str(out.unfinished(x)) == str(out[x])
