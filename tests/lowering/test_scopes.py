"""The contexts that lowering makes: few, and shared by passes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bound import te
from bound.schedule import Schedule
from intset.context import Context
from intset.expr.node import Var
from intset.expr.range import Range
from intset.frame import Frame
from intset.linear.canonical import Normalizer
from lowering import lower, to_c
from lowering.nest.ir import For, Seq
from lowering.nest.scope import Scope

FRAMES, NORMALIZERS = 14, 62  # a fifth of what two symbolic stages took with a context for each pass


def scaled_row_sums() -> Schedule:
    """Row sums of an n x m array that is scaled inside of them, outer loop split by 4."""
    n, m = te.var("n"), te.var("m")
    read = te.placeholder((n, m), name="A")
    scaled = te.compute((n, m), lambda i, j: read[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, m), name="k")
    sums = te.compute((n,), lambda i: te.sum(scaled[i, k], axis=k), name="C")
    s = te.create_schedule(sums.op)
    _, inner = s[sums].split(sums.op.axis[0], factor=4)
    s[scaled].compute_at(s[sums], inner)
    return s


def test_two_symbolic_stages_make_few_frames_and_normalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lower` and `to_c` stay below the ceilings of contexts."""
    made = Counter[str]()

    def counted(kind: type[Any]) -> None:
        plain = kind.__init__

        def init(self: Any, *given: Any, **named: Any) -> None:
            made[kind.__name__] += 1
            plain(self, *given, **named)

        monkeypatch.setattr(kind, "__init__", init)

    s = scaled_row_sums()
    counted(Frame)
    counted(Normalizer)
    to_c(lower(s))
    assert 0 < made["Frame"] <= FRAMES
    assert 0 < made["Normalizer"] <= NORMALIZERS


def test_a_scope_is_the_same_context_whoever_asks_first() -> None:
    """A context extended in one step equals a context extended loop by loop, and both are cached."""
    n, i, j = Var("n"), Var("i"), Var("j")
    loops = [For(i, Range(0, n), Seq()), For(j, Range(0, n - i), Seq())]
    root = Context(assume=[n <= 100])
    outer = Scope(None, {}, (), frozenset(), root).inside(loops[0])
    at_once = outer.inside(loops[1]).where(i >= 3)
    bounds = at_once.ctx.bounds(i + j)
    assert outer.ctx.bounds(i) == Context({i: Range(0, n)}, assume=[n <= 100]).bounds(i)
    stepwise = outer.inside(loops[1]).where(i >= 3)
    assert stepwise.ctx.bounds(i + j) == bounds
    again = Scope(None, {}, (), frozenset(), root).inside(loops[0]).inside(loops[1]).where(i >= 3)
    assert again.ctx is stepwise.ctx
