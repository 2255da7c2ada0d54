"""Weak tables: values die, and no Python code runs when they do, because it would swallow interrupts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from bound import te, tir
from intset import Context, Opaque, Range, ShapeVar, Var
from intset.expr.dag import WeakTable


class Thing:
    __slots__ = ("__weakref__",)


def test_a_row_is_there_while_its_value_lives() -> None:
    table: WeakTable[str, Thing] = WeakTable()
    a, b = Thing(), Thing()
    table.put("a", a)
    table.put("b", b)
    assert table.get("a") is a and "b" in table and "c" not in table and len(table) == 2
    del a
    assert "a" not in table and table.get("a") is None and table.get("b") is b and len(table) == 1


def test_a_dead_row_does_not_take_its_successor_along() -> None:
    table: WeakTable[str, Thing] = WeakTable()
    first = Thing()
    table.put("a", first)
    again = Thing()
    table.put("a", again)  # before the first died
    del first
    other = Thing()
    table.put("b", other)
    assert table.get("a") is again and table.get("b") is other and len(table) == 2


def test_what_a_dead_key_is_made_of_goes_with_it() -> None:
    """A chain of rows, each value the key of the next row, dies together."""
    table: WeakTable[Any, Thing] = WeakTable()
    last = Thing()
    table.put(None, last)
    for _ in range(5_000):
        new = Thing()
        table.put(last, new)
        last = new
    assert len(table) == 5_001
    del last, new
    assert len(table) == 0


def question(domain: str) -> Any:
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 8), j: Range(0, i + 1)}, domain=domain)
    return ctx, ctx.value_set(i * 3 + j // 2), ctx.image((i, i + j)), ctx.bounds(i % 3 + j)


def schedule() -> Any:
    n = te.var("n")
    a = te.placeholder((n, 7), "int32", name="A")
    b = te.compute((n,), lambda i: tir.exp(a[a[i, 2], i % 7].astype("float32")), name="B")
    return te.create_schedule(b.op)


DYING: dict[str, Callable[[], Any]] = {
    "variable": lambda: Var("x"),
    "size": lambda: ShapeVar("n"),
    "expression": lambda: Var("x") * 3 + 1,
    "condition": lambda: (Var("x") < 4) & (Var("y") * 2).eq(7),
    "load": lambda: Opaque("T", 2)[Var("x"), 3] + 5,
    "schedule": schedule,
    **{f"question to {name}": lambda name=name: question(name) for name in ("auto", "isl", "interval", "stride")},
}


@pytest.mark.parametrize("kind", DYING)
def test_no_line_of_python_runs_when_something_dies(kind: str) -> None:
    """An interrupt inside a finalizer would be printed and lost."""
    held = [DYING[kind]()]
    entered = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.append(f"{frame.f_code.co_filename}: {frame.f_code.co_qualname}")

    gc.disable()
    try:
        sys.setprofile(seen)
        held.clear()
        sys.setprofile(None)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert entered == []
