"""Ends in texts and boxes are written as a reader would: no cancelling terms, no cases of what ranges decide."""

from __future__ import annotations

import pytest

from bound import infer_bound, te
from intset import Context, Range, ShapeVar, Var, minimum
from intset.expr import ops
from intset.expr.dag import operations
from lowering import lower

a, b, n, m = ShapeVar("a"), ShapeVar("b"), ShapeVar("n"), ShapeVar("m")
i, j = Var("i"), Var("j")


@pytest.mark.parametrize(
    ("limits", "last"),
    [
        (Range(a, b - a + 1), b),
        (Range(a, b - a), b - 1),
        (Range(a, b - a + 3), b + 2),
        (Range(a, b - a - 1), b - 2),
        (Range(a, b), a + b - 1),
        (Range(a, minimum(n, b) - a), minimum(n, b) - 1),
    ],
)
def test_the_last_element_cancels_the_first(limits, last):
    assert limits.max is last


def test_regions_are_written_by_their_ends():
    ctx = Context({i: Range(a, b - a + 1), j: Range(i, n - i)})
    assert repr(ctx) == "<Context i in [a, b], j in [i, n - 1]>"
    assert "[a, minimum(b, n - 1)]" in repr(ctx.image((i,)))


def _window(size, factor):
    A = te.placeholder((size,), name="A")
    B = te.compute((size,), lambda k: A[k] * 2.0, name="B")
    C = te.compute((size - 2,), lambda k: B[k] + B[k + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=factor)
    s[B].compute_at(s[C], outer)
    return s, (A, B, C)


@pytest.mark.parametrize("size", [ShapeVar("N"), ShapeVar("N", lower=3), ShapeVar("N", upper=4096), 58])
@pytest.mark.parametrize("factor", [4, ShapeVar("t", lower=1), ShapeVar("t", lower=1, upper=32)])
def test_a_window_has_no_cases(size, factor):
    s, (A, B, C) = _window(size, factor)
    bounds = infer_bound(s)
    for side in (*bounds.required(B).box, *bounds.allocated(B)):
        assert ops.SELECT not in operations(side.min) | operations(side.extent)
    text = repr(bounds.required(B))
    assert "select" not in text and text.count("minimum") <= 1
    assert "select" not in str(lower(s, [A, C]))


def test_the_text_of_a_window():
    s, (_, B, _) = _window(ShapeVar("N"), 4)
    assert repr(infer_bound(s).required(B)).startswith("<StageRegion [k.outer * 4, minimum(N, k.outer * 4 + 6) - 1]")
