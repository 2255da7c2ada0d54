"""`pad_options`: contracts of the variants of a function in new layouts."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from intset.errors import InputError
from lowering import Function, Graph, IndexMap, LayoutError, contract, pad_options, parse_nest
from tests.lowering.padding.functions import TILES

LOOP = "    for i in [0, 14):\n        "


def written(text: str) -> Function:
    return parse_nest(text)


ADDONE = written(f"def addone(A: int32[14], B: int32[14]):\n{LOOP}B[i] = A[i] * 2 + 1")
TOTAL = written(f"def total(A: int32[14], B: int32[1]):\n    B[0] = 0\n{LOOP}B[0] = B[0] + A[i]")
LARGEST = written(f"def largest(A: float32[14], B: float32[1]):\n    B[0] = -inf\n{LOOP}B[0] = max(B[0], A[i])")


def shown(f: Function, layouts: dict[str, IndexMap]) -> list[tuple[str, str, bool]]:
    """Summarize options: need of A, promise of B, presence of guards."""
    found = [(contract(g), "if " in str(g)) for g in pad_options(f, layouts)]
    return [(str(c.needs["A"]), str(c.gives.get("B")), has_guards) for c, has_guards in found]


def test_guards_stay_with_none_and_go_with_undef_or_a_neutral_element():
    both = {"A": TILES, "B": TILES}
    assert shown(ADDONE, both) == [("NOTHING", "UNTOUCHED", True), ("READABLE", "A * 2 + 1", False)]
    for f, neutral in [(TOTAL, "0"), (LARGEST, "-inf")]:
        assert shown(f, {"A": TILES}) == [("NOTHING", "None", True), (neutral, "None", False)]


def test_options_meet_in_a_graph():
    graph = Graph()
    x = graph.input("x", (14,), "int32")
    y = graph.call([ADDONE, *pad_options(ADDONE, {"A": TILES, "B": TILES})], x)
    graph.output(graph.call(pad_options(TOTAL, {"A": TILES}), y))
    plan = graph.plan()
    assert plan.cost == 16  # one pad, before guarded or unguarded variants; no fill
    assert plan.run({"x": np.arange(14)})[0] == 2 * 91 + 14


@pytest.mark.nightly
def test_sums_along_an_axis_have_guards_on_each():
    f = written(
        "def rows(A: int32[14, 6], B: int32[14]):\n    for i in [0, 14):\n        B[i] = 0\n"
        "        for j in [0, 6):\n            B[i] = B[i] + A[i, j]"
    )
    both = IndexMap(lambda i, j: [i // 4, i % 4, j // 4, j % 4], (14, 6))
    found = [contract(g) for g in pad_options(f, {"A": both, "B": TILES})]
    assert [(str(c.needs["A"]), str(c.gives["B"])) for c in found][-1] == ("0", "0")


def test_bad_input_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="takes a Function"):
        pad_options("f", {"A": TILES})
    with pytest.raises(InputError, match="layouts are a mapping"):
        pad_options(ADDONE, {})
    with pytest.raises(InputError, match="C"):
        pad_options(ADDONE, {"C": TILES})
    with pytest.raises(LayoutError):
        pad_options(ADDONE, {"A": IndexMap(lambda i: [i % 4], (14,))})


CONVOLUTION = """
def conv(A: float32[2, 5, 3, 3], O: float32[2, 5, 3, 3]):
    for n in [0, 2):
        for c in [0, 5):
            for y in [0, 3):
                for x in [0, 3):
                    O[n, c, y, x] = 0.0
                    for r in [0, 5):
                        O[n, c, y, x] = O[n, c, y, x] + A[n, r, y, x]
"""


def test_only_padding_that_may_free_a_guard_is_tried(monkeypatch):
    calls: Counter[str] = Counter()
    module = importlib.import_module("lowering.padding.contract")  # the package's name is the function

    def count(name: str, call: Any) -> None:
        def counted(*args: Any) -> Any:
            calls[name] += 1
            return call(*args)

        monkeypatch.setattr(module, name, counted)

    for name in ("transform_layout", "remove_branching_through_overcompute"):
        count(name, getattr(module, name))
    blocks = IndexMap(lambda n, c, h, w: [n, c // 4, h, w, c % 4], (2, 5, 3, 3))
    found = pad_options(written(CONVOLUTION), {"A": blocks, "O": blocks})
    assert [str(contract(g).needs["A"]) for g in found] == ["NOTHING", "READABLE", "0.0"]
    # Three variants: guarded, unconstrained padding, zero padding of A.
    assert calls == {"transform_layout": 4, "remove_branching_through_overcompute": 3}
