"""Caches of a context hold no reference cycles: they are freed with the context, without garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from intset import Context, Range, ShapeVar, Var, select

i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)

CONTEXTS: dict[str, Callable[[], Context]] = {
    "ranges": lambda: Context({i: Range(0, 8), j: Range(0, 4)}),
    "facts": lambda: Context({i: Range(0, 8), j: Range(0, 4)}, assume=[i + j < 6]),
    "symbolic": lambda: Context({i: Range(0, n), j: Range(0, 4)}),
    "dependent": lambda: Context({i: Range(0, 8), j: Range(i, 4)}),
    "stated": lambda: Context.from_constraints([i, j], [i >= 0, i < n, j >= 0, j < 5]),
}


def _assuming(ctx: Context) -> Any:
    with ctx.assuming(i < 2):
        return ctx.bounds(i + j)


QUESTIONS: dict[str, Callable[[Context], Any]] = {
    "bounds": lambda ctx: ctx.bounds(i * 4 + j),
    "bounds by isl": lambda ctx: ctx.bounds(i * 4 + j, domain="isl"),
    "bounds where defined": lambda ctx: ctx.bounds(i // j),
    "certificate": lambda ctx: ctx.bounds(i * 4 + j).certificate(),
    "set": lambda ctx: ctx.value_set(i * 3 + j // 2),
    "set by isl": lambda ctx: ctx.value_set(i * 3 + j // 2, domain="isl"),
    "image": lambda ctx: ctx.image((i, i + j)).box,
    "image where defined": lambda ctx: ctx.image((i // j, i)),
    "proved": lambda ctx: ctx.prove(i < 9),
    "refuted": lambda ctx: ctx.prove(i < 3),
    "nonlinear": lambda ctx: ctx.prove(i * j * j * n >= 0),
    "simplify": lambda ctx: ctx.simplify(select(i < 3, j, i * 2)),
    "assuming": _assuming,
    "fits": lambda ctx: ctx.fits(i * 4),
    "explain": lambda ctx: str(ctx.explain(i < 9)),
}


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collector")
@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_context_is_freed_when_it_is_dropped(kind: str) -> None:
    for name, ask in QUESTIONS.items():
        ctx = CONTEXTS[kind]()
        frames = [weakref.ref(ctx._root), weakref.ref(ctx._root.bounded)]
        ask(ctx)
        del ctx
        assert [ref() for ref in frames] == [None, None], name
