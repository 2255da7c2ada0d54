"""Parentheses in C: as few as a reader needs, and nothing regrouped."""

import re

import pytest

from bound import te
from lowering import lower, to_c
from lowering.codegen.text import infix


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


def test_extents_and_unrolled_indices_are_constants_where_they_can_be() -> None:
    n = te.var("n")
    a = te.placeholder((7, n + 3), name="A")
    padded = te.compute((a.extents[0] + 2 - 2, a.extents[1] - 3), lambda i, j: a[i, j] + a[i, j + 3], name="B")
    assert [str(e) for e in padded.extents] == ["7", "n"]
    k = te.reduce_axis((0, 3), "k")
    c = te.compute((7, n), lambda i, j: te.sum(a[i, j + k], axis=k), name="C")
    s = te.create_schedule([padded.op, c.op])
    s[c].unroll(c.op.reduce_axis[0])
    text = re.sub(r"/\*.*?\*/", "", to_c(lower(s, [a, padded, c])), flags=re.DOTALL)
    assert "+ 0]" not in text and "* 1" not in text and "- 2" not in text
    assert re.search(r"\+ j\w*\]", text) and re.search(r"\+ \(j\w* \+ 2\)\]", text)
