"""Texts in C: as few parentheses as a reader needs, and user names that inject nothing."""

import pickle
import re
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bound import te, tir
from intset.errors import InputError
from lowering import lower, parse_nest, run, to_c
from lowering.codegen.c import program_text
from lowering.codegen.c_words import BUILT_IN, FILE_SCOPE, KEYWORDS, MACROS, SIZE_HELPERS
from lowering.codegen.emitter import Identifiers, comment, infix
from tests.compilers import compilers, need_compiler
from tests.lowering.lowered import compile_c
from tests.strategies.written import Written
from tests.sweeps import daily, sampled


@pytest.mark.parametrize(
    ("left", "op", "right", "text"),
    [
        ("(a * b)", "+", "c", "(a * b + c)"),
        ("(a + b)", "*", "c", "((a + b) * c)"),
        ("(a + b)", "-", "(c - d)", "(a + b - (c - d))"),
        ("(a - b)", "+", "(c * d)", "(a - b + c * d)"),
        ("a", "*", "(b * c)", "(a * (b * c))"),
        ("(a / b)", "*", "c", "((a / b) * c)"),
        ("(a * b)", "/", "c", "((a * b) / c)"),
        ("(a % b)", "+", "c", "(a % b + c)"),
        ("(a & b)", "==", "c", "((a & b) == c)"),
        ("(a + b)", "&", "c", "((a + b) & c)"),
        ("(a + 1)", "<", "(b * 2)", "(a + 1 < b * 2)"),
        ("(a < b)", "<", "c", "((a < b) < c)"),
        ("((a < b) && (c < d))", "&&", "(e == f)", "((a < b) && (c < d) && e == f)"),
        ("(a || b)", "&&", "c", "((a || b) && c)"),
        ("(a ? b : c)", "+", "d", "((a ? b : c) + d)"),
        ("(-a)", "-", "(-b)", "((-a) - (-b))"),
        ("(a + b)", ">>", "c", "((a + b) >> c)"),
        ("f(a, b + c)", "*", "x[(a + b)]", "(f(a, b + c) * x[(a + b)])"),
        ("(int64_t)(a + b)", "*", "((int64_t)a + b)", "((int64_t)(a + b) * ((int64_t)a + b))"),
    ],
)
def test_operands_keep_the_parentheses_that_they_need(left: str, op: str, right: str, text: str) -> None:
    assert infix(left, op, right) == text


def test_constants_and_combined_indices_are_written_as_a_reader_writes_them() -> None:
    w = Written("""
        n = var(); A = given(7, n + 3); k = axis(0, 3)
        B[i:A.extents[0] + 2 - 2, j:A.extents[1] - 3] = A[i, j] + A[i, j + 3]
        C[i:7, j:n] = sum_(A[i, j + k], axis=k)
        C unroll k""")
    assert [str(e) for e in w.B.extents] == ["7", "n"]
    text = re.sub(r"/\*.*?\*/", "", to_c(lower(w.s)), flags=re.DOTALL)
    assert "+ 0]" not in text and "* 1" not in text and "- 2" not in text
    assert re.search(r"\+ j\w*\]", text) and re.search(r"\+ \(j\w* \+ 2\)\]", text)
    text = to_c(lower(Written(REDUCTIONS).s))
    assert re.search(r"float (\w+) = 0\.0f;\n *for [^\n]*\n *\1 \+= A\[i \* 1000 \+ k\];\n *}\n *S\[i\] = \1;", text)
    assert "[0]" not in text and "[1]" not in text


REDUCTIONS = """
    A = given(6, 1000); k = axis(0, 1000); m = axis(0, 1000); p = axis(0, 1000); q = axis(0, 1000)
    S[i:6] = sum_(A[i, k], axis=k)
    M[i:6] = max_(A[i, m], axis=m)
    N[i:6] = sum_(tir.const(3, "int32"), axis=p)
    P[i:6] = sum_(A[i, q] * A[5 - i, q], axis=q)
    P split q 7"""


def test_sums_of_floats_keep_their_order_unless_told() -> None:
    s = Written(REDUCTIONS).s
    plain, told = lower(s), lower(s, reassociate=True)
    assert "reduction(" not in to_c(plain)
    text = to_c(told)
    found = re.findall(r"simd reduction\((\S+):\w+\)", text)
    assert found == ["+", "max", "+", "+"]  # the last sum is divided: whole rows of seven, the rest
    rng = np.random.default_rng(0)
    given = rng.standard_normal((6, 1000), "float32")
    ours, exact = run(plain, {"A": given}, backend="c"), run(plain, {"A": given})
    np.testing.assert_array_equal(ours["S"], np.add.accumulate(given, axis=1)[:, -1])  # one after another, in float32
    for name in "SMNP":
        np.testing.assert_allclose(run(told, {"A": given}, backend="c")[name], exact[name], rtol=1e-3, atol=1e-3)
    assert pickle.loads(pickle.dumps(told)).reassociate


def test_names_are_given_again_where_they_are_not_in_sight() -> None:
    text = to_c(
        lower(
            Written("""
            n = var(); A = given(n, 5, 7)
            B[i:n, j:5, k:7] = A[i, j + 2 - 2, k] + 1
            C[i:n, j:5] = B[i, j, 3] * B[i, j, 4]
            C unroll j""").s
        )
    )
    loops = re.findall(r"for \(\w+ (\w+) = 0", text)
    assert set(loops) == {"i", "j", "k"} and loops.count("i") > 1
    assert not re.search(r"\w [*+-] \d+ [*+-] \d+\]|[+-] 0\b", text) and "const int32_t t = " in text
    names = Identifiers()
    assert [names.fresh("x"), names.fresh("x"), names.local("x")] == ["x", "x_1", "x_2"]
    begun = names.begin()
    key = object()
    assert names.local("x", key) == names.of(key, "y") == "x_3" and names.local("t") == "t"
    kept = names.fresh("t")
    names.end(begun)
    assert (names.local("x"), names.local("t"), kept) == ("x_3", "t", "t_1") and names.fresh("t") == "t_2"
    assert names.of(key, "y") == "y"


@pytest.mark.parametrize(
    ("body", "is_apart"),
    [
        ("B[x * 2] = A[x]\n        B[x * 2 + 1] = A[x + 1]", True),
        ("B[x * 2] = A[x]\n        B[x * 2 + 2] = A[x + 1]", False),
        ("B[x * 3 + 2] = A[x]\n        B[x * 3] = A[x] + B[x * 3 + 1]", True),
        ("B[x * 3 + 2] = A[x]\n        B[x * 3] = A[x] + B[x * 3 + 5]", False),
        ("B[x] = B[x + 1] + A[x]", False),
        ("B[x] = B[n] + A[x]", False),
        ("B[3] = A[x]", False),
        ("B[x // 2] = A[x]", False),
        ("B[9 - x] = B[9 - x] + A[x]", True),
    ],
)
def test_vectors_where_no_two_iterations_meet(body: str, is_apart: bool) -> None:
    f = parse_nest(f"def f(A: float32[40], B: float32[40], n):\n    for x in [0, 9) vectorized:\n        {body}\n")
    assert ("#pragma omp simd" in to_c(f)) is is_apart


def test_ragged_tiles_of_symbolic_products_read_as_written_by_hand() -> None:
    s = Written("""
        m = var(); n = var(); k = var(); A = given(m, k); B = given(k, n); r = axis(0, k)
        C[i:m, j:n] = sum_(A[i, r] * B[r, j], axis=r)
        D[i:m, j:n] = C[i, j] + 1
        D tile i j 24 64; D vectorize j.inner; C compute_at D j.outer; C reorder r i j; C vectorize j""").s
    f = lower(s)
    assert "minimum(n, 64))" not in str(f).replace("minimum(n, 64)] at", "")  # of two ends one is the other's
    text = to_c(f)
    assert "float C[1536];" in text and "malloc" not in text
    assert "j_outer < (n >> 6); ++j_outer" in text and "j_outer = n >> 6; j_outer < (((n - 1) >> 6) + 1)" in text
    given = {"A": np.ones((25, 3), "float32"), "B": np.ones((3, 130), "float32")}
    assert (run(f, given, backend="c")["D"] == 4).all() if compilers() else True


HOSTILE = [
    "*\\\n/ int injected(void) { return 1; } /*",
    "*??/\n/ int injected(void) { return 1; } /*",
    "*/ int injected(void) { return 1; } /*",
    "*\\\r\n/ int injected(void) { return 1; } /*",
    *"x\\ x??/ // /* * / \" '".split(),
    "\n#include </etc/passwd>",
    "\n#pragma GCC poison malloc",
    "\x00",
    "\x1b[2J",
    "\u2028",
    "\ud800",
    " ",
    "9 lives",
    *"%s%n 1 __LINE__ _Bool asm linux unix NULL INT32_MAX INT8_C min min_i32 main next sum i code printf".split(),
    *"time_t INTSET_THREAD omp_get_thread_num größe \u0430".split(),
]
names = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from((*KEYWORDS, *MACROS, *FILE_SCOPE, *BUILT_IN)),
    st.text(min_size=1, max_size=12),
    st.text("*/\\?\n\r\"' ab", min_size=1, max_size=8),
)


def compiles(text: str, *options: str) -> None:
    compile_c(text, need_compiler(), ("-Wall", "-Wextra", "-Werror", "-c", *options))


def program(labels: list[str]):
    """A nest with a size, a local buffer and loops, all named by `labels`."""
    size, source, middle, result, function = labels
    n = te.size_var(size)
    A = te.placeholder((n, 4), name=source)
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name=middle)
    C = te.compute((n,), lambda i: B[i, 0] + B[i, 3], name=result)
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    s[C].parallel(outer)
    return A, C, lower(s, [A, C], name=function)


def without_comments(text: str) -> str:
    """Preprocess a text, trigraphs included."""
    return subprocess.run(
        [need_compiler(), "-E", "-P", "-std=c99", "-x", "c", "-"],
        input=text.encode("ascii"),
        capture_output=True,
        check=True,
    ).stdout.decode("ascii")


@pytest.mark.parametrize("options", daily(["-std=c99 -fopenmp", "", "-trigraphs"], 3))
def test_every_hostile_name_compiles(options):
    """Compile nests with hostile names, under each option."""
    for k in range(0, len(HOSTILE) - 4, 9):
        _, _, f = program([*HOSTILE[k : k + 4], HOSTILE[(k + 4) % len(HOSTILE)]])
        text = to_c(f)
        compiles(text, *options.split())
        assert "injected(" not in without_comments(text)


@pytest.mark.parametrize("name", ["memcpy", "strlen", "toupper", "cabs", "index", "imaxabs", "exp10"])
def test_a_function_named_like_one_that_the_compiler_knows_compiles(name):
    f = parse_nest(f"def {name}(A: int32[8], B: int32[8]):\n    for i in [0, 8):\n        B[i] = A[i] + i\n")
    compiles(to_c(f), "-std=c99")


@pytest.mark.parametrize("name", SIZE_HELPERS)
def test_a_tensor_does_not_hide_the_helpers_of_the_arena(name):
    A = te.placeholder((te.size_var("n"), 4), name=name)
    text = to_c(lower(Written("B = pointwise(A)\nC[i:n] = B[i, 0] + B[n - 1 - i, 3]", A=A, n=A.shape[0]).s))
    assert "aligned_start(" in text
    compiles(text, "-std=c99")


@sampled(4, 600, st.lists(names, min_size=5, max_size=5), st.sampled_from(["-std=c99", "-trigraphs", "-fopenmp"]))
def test_any_names_compile_run_and_are_read_back(labels: list[str], option: str) -> None:
    A, C, f = program(labels)
    compiles(program_text(f), option)
    compiles(to_c(f))
    assert str(parse_nest(str(f))) == str(f)
    a, out = np.arange(20, dtype="float32").reshape(5, 4), np.zeros(5, "float32")
    run(f, {A: a, C: out})
    assert (out == a[:, 0] * 2 + a[:, 3] * 2).all()


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_a_comment_ends_where_its_text_does(lines):
    assert comment("f(n * 4 // 3)", "returns 1: i < n") == "/* f(n * 4 // 3)\n   returns 1: i < n */"
    text = comment(*lines)
    assert all(char == "\n" or " " <= char <= "~" for char in text)
    assert text.index("*/") == len(text) - 2 and text.rindex("/*") == 0
    assert "\\" not in text and "??" not in text and text.count("\n") == len(lines) - 1


@pytest.mark.parametrize("name", ["int", "NULL", "größe", "__asm__", "a b", "main"])
def test_functions_that_c_cannot_declare_are_refused(name):
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", name, A[i]), name="B")
    with pytest.raises(InputError):
        to_c(lower(te.create_schedule(B.op), [A, B]))


def test_a_function_keeps_its_name_beside_a_tensor_of_that_name():
    A = te.placeholder((4,), name="twice")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", "twice", A[i]), name="B")
    compiles(to_c(lower(te.create_schedule(B.op), [A, B], name="twice")))
