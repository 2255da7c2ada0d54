"""`to_c`: printed text, annotations and constants, compilation without warnings, results equal to those of numpy."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.schedule import Schedule
from intset import ShapeVar
from intset.errors import InputError
from lowering import Function, lower, narrow, run, to_c
from lowering.build.function import nest_of
from lowering.passes import Width
from tests.bound.corpus import CASES
from tests.bound.reference import evaluate as reference
from tests.compilers import compilers
from tests.lowering.lowered import (
    c_name,
    check_c,
    check_run,
    close,
    compile_c,
    in_both,
    of_corpus,
    problem,
    run_c,
    run_sanitized,
)
from tests.strategies.written import Written
from tests.sweeps import daily

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-c")


def conv(channels: int = 3, size: int = 12, tile: str = "5 4") -> Any:
    """A 3x3 convolution with padding of 1; the padding stage is attached inside the tiles."""
    return Written(f"""
        I = given(1, {channels}, {size}, {size}); W = given(4, {channels}, 3, 3)
        rc = axis(0, {channels}); ry = axis(0, 3); rx = axis(0, 3)
        INSIDE = lambda y, x: tir.all(y >= 1, y <= {size}, x >= 1, x <= {size})
        PAD[n:1, c:{channels}, y:{size + 2}, x:{size + 2}] = where(INSIDE(y, x), I[n, c, y - 1, x - 1], 0.0)
        O[n:1, f:4, y:{size}, x:{size}] = sum_(PAD[n, rc, y + ry, x + rx] * W[f, rc, ry, rx], axis=[rc, ry, rx])
        O tile y x {tile}
        O reorder n y.outer x.outer f rc ry rx y.inner x.inner
        PAD compute_at O x.outer""").s


def flatten() -> Any:
    return Written("A = given(n, n)\nB[i:n * n] = A[i % n, i // n]", n=te.size_var("n")).s


def softmax() -> Any:
    text = """
        A = given(m, n); k = axis(0, n); l = axis(0, n)
        TOP[i:m] = max_(A[i, k], axis=k)
        E[i:m, j:n] = te.exp(A[i, j] - TOP[i])
        TOTAL[i:m] = sum_(E[i, l], axis=l)
        O[i:m, j:n] = E[i, j] / TOTAL[i]
        TOTAL compute_at O i; E compute_at O i; TOP compute_at O i"""
    return Written(text, m=te.size_var("m"), n=te.size_var("n")).s


def joined() -> Any:
    """Two arrays end to end, in ragged tiles of which shifted tiles are made: inner loops end at values with names."""
    n = te.size_var("n")
    A, B = (te.placeholder((n,), name=name) for name in "AB")
    joined = te.compute((n + 1,), lambda i: tir.if_then_else(i < n, A[i], tir.if_then_else(i - n < n, B[i - n], 0.0)))
    s = te.create_schedule(joined.op)
    outer, _ = s[joined].split(joined.op.axis[0], 8)
    s[joined].split(outer, 8, tail="shift_inwards")
    return s


def divided(n: int = 50) -> Any:
    """Divisions of both signs, by constants, a variable and data."""
    d = te.var("d")
    a = te.placeholder((n,), "int32", name="A", value_range=(-40, 40))

    def formula(i: Any) -> Any:
        x = i - 25
        total = x // 7 + x % 7 * 3 + x // -3 + x % -4 + tir.truncdiv(x, 5) + tir.truncmod(x, 5) + te.ceildiv(x, 6)
        total = total + x // 8 + x % 16 + a[i] // 9 + a[i] % -5 + (x * 3) // (tir.max(a[i], 1) + 1)
        return total + tir.Select(d > 0, x // tir.max(d, 1) + x % tir.max(d, 1), 0) + (i ^ 5) + (i << 2) + tir.min(i, d)

    return te.create_schedule(te.compute((n,), formula, name="B").op)


PROGRAMS: dict[str, tuple[Any, dict[str, int]]] = {
    "conv": (conv, {}),
    "conv_wide": (lambda: conv(2, 9, "9 2"), {}),
    "flatten": (flatten, {"n": 13}),
    "softmax": (softmax, {"m": 4, "n": 19}),
    "softmax_empty": (softmax, {"m": 3, "n": 0}),
    "joined": (joined, {"n": 150}),
    "divided": (divided, {"d": 3}),
    "divided_negative": (divided, {"d": -3}),
    **{
        name: (CASES[name]["fn"], CASES[name]["sub"])
        for name in (
            "fuse_split_8x12_9", "attention_tile", "im2col_gemm_tile6", "gather_mod_window", "sym_matmul_cache",
            "sym_flatten_split", "thread_warp_const", "two_consumers_same_nest", "conv1d_transpose_dilate",
        )
    },
}  # fmt: skip


@cache
def program(name: str) -> tuple[Schedule, Function, dict[str, int]]:
    """A lowered program, cached for all tests."""
    make, sizes = PROGRAMS[name]
    s, f = of_corpus(name) if name in CASES else lowered(make)
    return s, f, sizes


@cache
def lowered(make: Any) -> tuple[Schedule, Function]:
    s = make()
    return s, lower(s)


@pytest.mark.parametrize("name", daily(PROGRAMS, 4))
def test_programs_equal_numpy_under_the_sanitizers(name: str) -> None:
    s, f, sizes = program(name)
    check_run(f, s, sizes)
    check_c(f, s, sizes, sanitize=True)


@pytest.mark.parametrize(("narrow_level", "wide_level"), daily([("-O2", "-O0"), ("-O0", "-O2")], 2))
@pytest.mark.parametrize("compiler", compilers())
def test_compilers_are_silent(compiler: str, narrow_level: str, wide_level: str) -> None:
    functions = list(dict.fromkeys(program(name)[1] for name in PROGRAMS))
    for level, widths in ((narrow_level, [narrow(f) for f in functions]), (wide_level, [Width(64)] * len(functions))):
        texts = [to_c(f, width) for f, width in zip(functions, widths, strict=True)]
        together = [text.replace(f" {c_name(text)}(", f" f{k}(") for k, text in enumerate(texts)]  # names of their own
        compile_c("\n".join(together), compiler, (*WARNINGS, level))


@pytest.mark.parametrize("compiler", compilers()[1:])
def test_another_compiler_gives_the_same(compiler: str) -> None:
    for name in ("conv", "divided_negative", "softmax"):
        s, f, sizes = program(name)
        given, expected = problem(s, sizes)
        close(run_sanitized(f, to_c(f), given, expected, sizes, compiler), expected)


def test_both_widths_compute_the_same_also_where_sizes_do_not_fit() -> None:
    for name in ("conv", "fuse_split_8x12_9"):
        s, f, sizes = program(name)
        given, expected = problem(s, sizes)
        assert "int32_t i" in to_c(f) or "int32_t y" in to_c(f)
        text = to_c(f, Width(64))
        assert "int32_t" not in text
        close(run_c(f, text, given, expected, sizes), expected)
    # A size beyond the 32-bit test selects the 64-bit version, which works.
    one, two = (tir.const(value, "float32") for value in (1.0, 2.0))
    text = "n = var(); A = given(8)\nB[i:8] = A[i] + tir.Select(n > 5, one, two)"
    s, *args = Written(text, one=one, two=two)("s A B n")
    f = lower(s, args)
    given = np.arange(8, dtype="float32")
    for size in (3, 6, (1 << 40), -(1 << 40)):
        assert (run(f, {"A": given}, {"n": size}, backend="c")["B"] == given + (1 if size > 5 else 2)).all()


def test_the_text() -> None:
    s = Written(
        """
        A = given(m, 8)
        B[i:m, j:8] = A[i, j] * 2
        C[i:m * 8] = B[i // 8, i % 8] + 1
        C split i 8; B compute_at C i.outer""",
        m=ShapeVar("m", lower=1, upper=1000),
    ).s
    assert (
        to_c(lower(s))
        == """\
/* C(A: float32[m, 8], C: float32[m * 8])
   int32: every index expression fits
   build: cc -std=c99 -O3 -march=native
   returns 1: not so that m is at least 1
   returns 2: not so that m is at most 1000 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Warray-bounds"
#endif
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

int C(const float *restrict A, float *restrict C, int32_t m);

int C(const float *restrict A, float *restrict C, int32_t m) {
    if (!(m >= 1)) return 1;
    if (!(m <= 1000)) return 2;
    /* the caller sees to it that extent 0 of C is m * 8 */
    for (int32_t i_outer = 0; i_outer < m; ++i_outer) {
        float B[8];
        for (int32_t j = 0; j < 8; ++j) {
            B[j] = A[i_outer * 8 + j] * 2.0f;
        }
        for (int32_t i_inner = 0; i_inner < 8; ++i_inner) {
            C[i_outer * 8 + i_inner] = B[i_inner] + 1.0f;
        }
    }
    return 0;
}
"""
    )


def test_large_and_symbolic_storage_is_in_one_arena_and_freed() -> None:
    s = Written(
        """
        A = given(n, 64); B = pointwise(A)
        G[i:100, j:100] = tir.Select(tir.all(i < n, j < 64), B[tir.min(i, n - 1), j % 64], 0.0)
        C[i:n, j:64] = G[i % 100, j] * 2""",
        n=te.size_var("n"),
    ).s
    text = check_c(lower(s), s, {"n": 9}, sanitize=True)  # a version of 32 bits and one of 64
    assert text.count("malloc(") == 2 and text.endswith("    free(storage);\n    return 0;\n}\n")
    check_c(lower(s), s, {"n": 0})


def test_names_of_c_are_not_taken_and_an_external_function_is_declared() -> None:
    a, b = te.placeholder((4,), name="int"), te.placeholder((4,), name="expf")
    c = te.compute((4,), lambda i: te.exp(a[i]) + b[i], name="double")
    d = te.compute((4,), lambda i: c[i] + 1, name="main")
    s = te.create_schedule(d.op)
    check_c(lower(s), s)
    text = to_c(lower(Written('A = given(4)\nB[i:4] = tir.call_pure_extern("float32", "twice", A[i])').s))
    assert "extern float twice(float);" in text and "twice(A[i])" in text
    compile_c(text, "gcc", WARNINGS)


def test_a_choice_between_data_and_an_index_is_wide() -> None:
    """A branch variable gets its type before the spans of its arms are entered."""
    n = ShapeVar("n", lower=1, upper=60)
    x = te.placeholder((60,), "int64", name="X", value_range=(-(2**62), 2**62))

    def formula(i: Any) -> Any:
        twice = i // tir.max(i - 3, 1)
        chosen = tir.Select(i % 3 > 0, x[i], twice * twice + twice)
        return chosen * 3 + i - chosen

    s = te.create_schedule(te.compute((n,), formula, name="B").op)
    f = lower(s)
    assert narrow(f).bits == 32
    text = check_c(f, s, {"n": 50}, sanitize=True)
    assert "int64_t t" in text and "wrap" in text
    for compiler in compilers():
        compile_c(text, compiler, WARNINGS)


@pytest.mark.parametrize("compiler", compilers())
def test_divisors_of_every_sign(compiler: str) -> None:
    """Unknown divisors: quotients and remainders of indices and of data, with every rounding."""
    d = te.var("d")
    a = te.placeholder((41,), "int32", name="A", value_range=(-(2**31), 2**31 - 1))

    def formula(i: Any) -> Any:
        x, y = i - 20, a[i]
        whole = x // d + 3 * (x % d) + 5 * te.ceildiv(x, d) + 7 * tir.truncdiv(x, d) + 11 * tir.truncmod(x, d)
        data = y // d + 13 * (y % d) + 17 * te.ceildiv(y, d) + tir.Select((y % d).eq(0), 1, 2)
        return tir.Select(d.ne(0), whole + data + tir.max(x // d, 0), 0)

    s = te.create_schedule(te.compute((41,), formula, name="B").op)
    f = lower(s)
    text = to_c(f)
    for value in (-(2**31), -7, -1, 0, 3, 2**31 - 1):
        sizes = {"d": value}
        given, expected = problem(s, sizes)
        given["A"][:4] = (-(2**31) + (value == -1), 2**31 - 1, 0, -1)
        expected = {"B": reference([s.outputs[0].output(0)], given, sizes)[0]}
        close(run_sanitized(f, text, given, expected, sizes, compiler), expected)


def test_several_functions_stand_in_one_file_and_storage_is_rebased() -> None:
    texts = [to_c(program(name)[1], Width(64)) for name in ("conv", "sym_matmul_cache", "softmax")]
    for name in ("first", "second"):
        s = Written(f'A = given(9, dtype="int32")\n{name}[i:9] = tir.max(A[i], i) + tir.min(i, 3)').s
        texts.append(to_c(lower(s), Width(64)))
    helper = "static inline int64_t max_i64"
    assert "".join(texts).count(helper) == "".join(texts).count("#define INTSET_MAX_I64") > 1
    for compiler in compilers():
        compile_c("\n".join(texts).replace("int O(", "int P(", 2), compiler, WARNINGS)
    s = CASES["doc_ex2_at_j"]["fn"]()
    with pytest.raises(InputError, match="the storage of C does not begin at 0: apply rebase before to_c"):
        to_c(nest_of(infer_bound(s)))


@pytest.mark.nightly
def test_a_whole_convolution_of_resnet() -> None:
    s = conv(64, 56, "14 14")
    check_c(lower(s), s)


# -- annotations and constants -------------------------------------------------------------------------------------


ROWS = [[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]


def matrix(i: Any, j: Any) -> Any:
    """An element of a constant matrix as schedules write it: nested selections."""
    now: Any = tir.const(0.0, "float32")
    for (r, row), c in product(enumerate(ROWS), range(4)):
        now = tir.Select(tir.all(i == r, j == c), tir.const(row[c], "float32"), now)
    return now


TRANSFORMED = """
    A = given(4, 64); k = axis(0, 4)
    M[i:4, j:4] = MATRIX(i, j)
    B[i:4, j:64] = sum_(M[i, k] * A[k, j], axis=k)
    M compute_inline"""
FORMS: dict[str, tuple[str, dict[str, int]]] = {  # a program, and how often its C has some words
    "a long loop stays a loop": ("A = given(1000); B = pointwise(A)\nB unroll i0", {"B[": 1}),
    "a vector": ("A = given(32, 40); B = pointwise(A)\nB vectorize i1", {"#pragma omp simd": 1}),
    "a vector of fused loops": ("A = given(32, 40); B = pointwise(A)\nB fuse i0 i1; B vectorize i0.i1.fused", {}),
    "a ragged vector has no guard inside": (
        "A = given(n); B = pointwise(A)\nB split i0 8; B vectorize i0.inner",
        {"if (i": 0, "#pragma omp simd": 4},
    ),
    "an unrolled loop with names in it is written out": (
        """
        A = given(11, 30)
        B[y:11, x:75] = A[y, x * 2 // 5] + A[tir.min(y + 1, 10), tir.min(x * 2 // 5 + 1, 29)]
        B split x 5; B unroll x.inner; B vectorize x.outer""",
        {"x_inner": 0, "#pragma omp simd": 2, "min_": 0},
    ),
    "copies of a body share its storage": (
        """
        A = given(24); B = pointwise(A)
        C[i:24] = B[i] * 3
        C split i 4; B compute_at C i.inner; C unroll i.inner""",
        {"float B": 1},
    ),
    "what is compared with itself": (
        """
        A = given(20, dtype="int32", value_range=(-9, 9))
        B[i:20] = tir.Select(i <= i, A[i], 0) + tir.Select(A[i] < A[i], 1, 2)""",
        {},
    ),
    "what only a remark mentions is unused": (
        "A = given(2 * n + 1)\nB[i:n] = where(i < 0, A[i], 1.0)",
        {"extent 0 of A": 2, "(void)A;": 2},
    ),
    "what gcc hoists by itself has no name": (
        "A = given(16, 16); B = pointwise(A)\nB tile i0 i1 4 4",
        {"const int32_t i": 0, "i0_outer * 4 + i0_inner": 1},
    ),
    "unfinished elements of a maximum have a wider range": (
        """
        A = given(4, 3, dtype="int32"); k = axis(0, 3)
        C[i:4, j:8] = max_(te.min(te.max(A[i, k], 0), 5) + j, axis=k)
        C reorder k i j""",
        {},
    ),
    "selections between constants are a table in rolled loops": (
        TRANSFORMED,
        {"static const float table[16]": 1, "?": 0, "==": 0},
    ),
    "selections between constants are decided in unrolled loops": (
        f"{TRANSFORMED}; B reorder i k j; B unroll i; B unroll k",
        {"table": 0, "==": 0, "for (": 4 + 16},
    ),
    "sizes that fit go to the version of 32 bits": (
        "n = var(); m = var(); A = given(n, m); B = pointwise(A)\nC[i:n, j:m] = B[n - 1 - i, j] * 2",
        {"int32 where n <= 32768": 1, "static int C_32(": 1, "return C_32(": 1},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form(name: str) -> None:
    text, counts = FORMS[name]
    s = Written(text, n=te.size_var("n"), MATRIX=matrix).s
    f = lower(s)
    sizes = {v.name: 13 for v in f.sizes}
    is_sanitized = "maximum" in name
    found = check_c(f, s, sizes, is_sanitized)
    assert {words: found.count(words) for words in counts} == counts
    for compiler in compilers() if is_sanitized else compilers()[1:]:  # gcc compiled it under all warnings
        compile_c(found, compiler, WARNINGS)


def test_least_and_greatest_keep_nan_and_signs_of_zero() -> None:
    zero, one = tir.const(0.0, "float32"), tir.const(1.0, "float32")

    def extrema(i: Any, A: Any, B: Any) -> tuple[Any, ...]:
        a, b = A[i], B[i]
        return tir.max(tir.min(a, one), -one), tir.max(a, b), tir.min(a, b), tir.max(a, zero), tir.min(zero, a)

    values = np.array([np.nan, -0.0, 0.0, -1.0, 1.0, np.inf, -np.inf, 3.0], "float32")
    python, c = in_both(extrema, A=np.repeat(values, 8), B=np.tile(values, 8))
    assert [x.tobytes() for x in python] == [x.tobytes() for x in c]
