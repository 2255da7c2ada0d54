"""What notebooks show of schedules, bounds, nests, layouts, pictures and explorations."""

import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bound import infer_bound, te
from intset import Context, Range, Var
from lowering import Exploration, IndexMap, contract, explore, lower, lower_division, parse_nest
from lowering.cli.inputs import ScriptSchedule
from lowering.cli.plot import picture_of
from lowering.notebook import SHOWN_LINES
from tests.intset.answers.test_notebook import checked, texts

NAME = 'A<b>&"'


def stencil(size: Any) -> tuple[Any, ...]:
    A = te.placeholder((size + 2,), name=NAME)
    B = te.compute((size + 2,), lambda i: A[i] + 1, name="B</pre>")
    C = te.compute((size,), lambda i: B[i] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    xo, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], xo)
    return s, A, B, C


@pytest.mark.parametrize("size", [18, te.var("<n>")])
def test_schedules_bounds_and_nests(size: Any) -> None:
    s, A, B, C = stencil(size)
    b = infer_bound(s)
    f = lower(s, [A, C])
    assert "i.outer" in texts(checked(s._repr_html_()))
    table = texts(checked(b._repr_html_()))
    assert "B</pre>" in table and "required" in table and "i.outer * 4" in table
    for value in (b.required(B), b.storage(B), b.nest(C), f.body):
        assert "shown as text alone" not in texts(checked(value._repr_html_()))
    shown = checked(f._repr_html_())
    assert "for i.outer in" in texts(shown) and texts(shown).strip() == str(f)
    assert {"def", "for", "in", "allocate"} <= {node.text for node in shown.iter("b")}


def test_a_long_nest_is_cut_at_once() -> None:
    lines = [f"    for i{k} in [0, 16):\n        A[i{k}] = i{k} + {k}" for k in range(5_000)]
    f = parse_nest("def f(A: int32[16]):\n" + "\n".join(lines))
    start = time.process_time()
    shown = f._repr_html_()
    assert time.process_time() - start < 20 and len(shown) < 40_000  # an analysis of the nest takes minutes
    assert texts(checked(shown)).count("\n") < SHOWN_LINES + 2 and f"the first {SHOWN_LINES} lines" in shown


def test_layouts_contracts_and_divisions() -> None:
    i = Var("i<")
    m = IndexMap(lambda i: (i // 4, i % 4), (16,))
    f = parse_nest("def f(A: int32[4, 4], B: int32[16]):\n    for i in [0, 14):\n        B[i] = A[i // 4, i % 4] + 1")
    lowered = lower_division(i // 3, Context({i: Range(0, 100)}))
    for value, part in ((m, "// 4"), (contract(f, {"A": m}), "padding of f"), (lowered, "i<")):
        assert part in texts(checked(value._repr_html_()))


def test_a_picture_of_a_stage_is_svg() -> None:
    pytest.importorskip("matplotlib")
    picture = picture_of(ScriptSchedule("s", stencil(18)[0]), {}, ("interval", "auto"))
    shown = picture._repr_svg_()
    assert shown is not None and ET.fromstring(shown).tag.endswith("svg") and "allocated" in shown
    checked(picture._repr_html_())


def test_a_picture_without_matplotlib_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = picture_of(ScriptSchedule("s", stencil(18)[0]), {}, ("auto",))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert picture._repr_svg_() is None and "Picture(" in texts(checked(picture._repr_html_()))


def test_an_exploration_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from intset import Space

    space = Space({"tile": list(range(1, 101)), "kind": ["<a>", "b"]})
    found: Exploration = explore(
        lambda c: c["tile"], space, lambda made: {"cost": made * 3.0}, out=tmp_path / "r", progress=False
    )
    shown = texts(checked(found._repr_html_()))
    assert "200 configurations" in shown and "<a>" in shown and "the 40 best by cost" in shown
