"""User names in C: no name ends a comment, injects text, or collides with C's own names."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bound import te
from intset.errors import InputError
from lowering import lower, parse_nest, run, to_c
from lowering.codegen.c import program_text
from lowering.codegen.c_words import BUILT_IN, FILE_SCOPE, KEYWORDS, MACROS, SIZE_HELPERS
from lowering.codegen.emitter import comment
from tests.compilers import need_compiler
from tests.sweeps import daily

HOSTILE = [
    "*\\\n/ int injected(void) { return 1; } /*",
    "*??/\n/ int injected(void) { return 1; } /*",
    "*/ int injected(void) { return 1; } /*",
    "*\\\r\n/ int injected(void) { return 1; } /*",
    "x\\",
    "x??/",
    "//",
    "/*",
    "*",
    "/",
    '"',
    "'",
    "\n#include </etc/passwd>",
    "\n#pragma GCC poison malloc",
    "\x00",
    "\x1b[2J",
    "\u2028",
    "\ud800",
    " ",
    "%s%n",
    "1",
    "9 lives",
    "__LINE__",
    "_Bool",
    "asm",
    "linux",
    "unix",
    "NULL",
    "INT32_MAX",
    "INT8_C",
    "min",
    "min_i32",
    "main",
    "next",
    "sum",
    "i",
    "code",
    "printf",
    "time_t",
    "INTSET_THREAD",
    "omp_get_thread_num",
    "größe",
    "\u0430",
]
names = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from((*KEYWORDS, *MACROS, *FILE_SCOPE, *BUILT_IN)),
    st.text(min_size=1, max_size=12),
    st.text("*/\\?\n\r\"' ab", min_size=1, max_size=8),
)
FLAGS = ["-Wall", "-Wextra", "-Werror", "-c", "-x", "c", "-", "-o", "/dev/null", "-pipe"]


def compiles(text: str, *options: str) -> None:
    done = subprocess.run(
        [need_compiler(), *FLAGS, *options], input=text.encode("ascii"), capture_output=True, timeout=60
    )
    assert done.returncode == 0, (done.stderr.decode(), text)


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
    n = te.size_var("n")
    A = te.placeholder((n, 4), name=name)
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i, 0] + B[n - 1 - i, 3], name="C")
    text = to_c(lower(te.create_schedule(C.op), [A, C]))
    assert "aligned_start(" in text
    compiles(text, "-std=c99")


def test_any_function_name_runs():
    _, _, f = program(["n", "A", "B", "C", "f\x00\n"])
    a = np.ones((5, 4), "float32")
    assert run(f, {"A": a})["C"].tolist() == [4.0] * 5


@settings(max_examples=4, deadline=None)
@given(st.lists(names, min_size=5, max_size=5))
def test_any_names_compile(labels):
    _, _, f = program(labels)
    compiles(program_text(f), "-std=c99")
    compiles(to_c(f))


@pytest.mark.nightly
@settings(max_examples=600, deadline=None)
@given(st.lists(names, min_size=5, max_size=5), st.sampled_from(["-std=c99", "-trigraphs", "-fopenmp"]))
def test_any_names_compile_at_length(labels, option):
    _, _, f = program(labels)
    compiles(program_text(f), option)
    compiles(to_c(f))


@settings(max_examples=8, deadline=None)
@given(st.lists(names, min_size=5, max_size=5))
def test_nests_read_back_and_run_under_any_names(labels):
    A, C, f = program(labels)
    assert str(parse_nest(str(f))) == str(f)
    a, out = np.arange(20, dtype="float32").reshape(5, 4), np.zeros(5, "float32")
    run(f, {A: a, C: out})
    assert (out == a[:, 0] * 2 + a[:, 3] * 2).all()


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_a_comment_ends_where_its_text_does(lines):
    text = comment(*lines)
    assert all(char == "\n" or " " <= char <= "~" for char in text)
    assert text.index("*/") == len(text) - 2 and text.rindex("/*") == 0
    assert "\\" not in text and "??" not in text and text.count("\n") == len(lines) - 1


def test_ordinary_text_stands_in_a_comment_as_it_is():
    assert (
        comment("f(A: float32[n * 4 // 3])", "returns 1: i < n")
        == "/* f(A: float32[n * 4 // 3])\n   returns 1: i < n */"
    )


@pytest.mark.parametrize("name", ["int", "NULL", "größe", "__asm__", "a b", "main"])
def test_functions_that_c_cannot_declare_are_refused(name):
    from bound import tir

    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", name, A[i]), name="B")
    with pytest.raises(InputError):
        to_c(lower(te.create_schedule(B.op), [A, B]))


def test_a_function_keeps_its_name_beside_a_tensor_of_that_name():
    from bound import tir

    A = te.placeholder((4,), name="twice")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", "twice", A[i]), name="B")
    compiles(to_c(lower(te.create_schedule(B.op), [A, B], name="twice")))
