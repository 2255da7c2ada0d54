"""`intset plot`: the data of each panel against the regions, files, one line for bad input; what notebooks show."""

import itertools
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bound import infer_bound, te, tir
from intset import Context, Range, Space, Var, evaluate
from intset.domains.sets.region import Elements, elements_of
from lowering import Exploration, IndexMap, contract, explore, lower, lower_division, parse_nest
from lowering.cli.inputs import ScriptSchedule
from lowering.cli.plot import DOMAINS, MAX_BLOCKS, MAX_OPERATIONS, Picture, picture_of
from lowering.notebook import SHOWN_LINES
from tests import ROOT
from tests.intset.answers.test_notebook import checked, texts
from tests.lowering.cli.conftest import CommandLine

SCRIPT = """
from bound import te
A = te.placeholder((64, 64), name="A")
B = te.compute((64, 64), lambda i, j: A[i, j] + 1, name="B")
C = te.compute((60, 60), lambda i, j: B[i, j] + B[i + 2, j + 2] + B[i + 4, j], name="C")
s = te.create_schedule(C.op)
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 8)
s[B].compute_at(s[C], yo)
n = te.size_var("n")
D = te.compute((n,), lambda k: k * 2, name="D")
E = te.compute((n,), lambda k: D[k] + D[n - 1 - k], name="E")
t = te.create_schedule(E.op)
ko, ki = t[E].split(E.op.axis[0], 4)
t[D].compute_at(t[E], ko)
"""


@pytest.fixture
def script(cli: CommandLine) -> str:
    return cli.write("tiles.py", SCRIPT)


def tiles() -> tuple[te.Schedule, Any]:
    """Three reads of B in a tile: their union is no box. The second consumer starts late."""
    namespace: dict[str, Any] = {}
    exec(SCRIPT, namespace)
    return namespace["s"], namespace["B"]


def drawn(elements: Elements) -> set[tuple[int, ...]]:
    assert all(extent == 1 for extent in elements.block)
    return {tuple(low for low, _ in cell) for cell in elements.cells()}


def points(region: Any) -> set[tuple[int, ...]]:
    """All points of a region, by its condition."""
    spans = [range(int(evaluate(r.min, {})), int(evaluate(r.min + r.extent, {}))) for r in region.box]
    return {point for point in itertools.product(*spans) if point in region}


@pytest.mark.parametrize("compute", ["exact", "box"])
@pytest.mark.parametrize("instance", [{}, {"i.outer": 7, "C.j.outer": 7}, {"j.outer": 3}])
def test_the_panels_hold_the_points_of_the_regions(compute: str, instance: dict[str, int]) -> None:
    s, B = tiles()
    picture = picture_of(ScriptSchedule("s", s), {}, DOMAINS, "B", (), instance, compute)
    assert [name for panel in picture.panels for name in panel.domain.split(", ")] == list(
        DOMAINS
    )  # equal ones are one
    assert (picture.axes, picture.hidden, picture.tensor) == (("i", "j"), (), "B")
    at = {name.removeprefix("C."): value for name, value in instance.items()}
    assert picture.instance == (("C.i.outer", at.get("i.outer", 0)), ("C.j.outer", at.get("j.outer", 0)))
    assert len({(p.required, p.computed, p.box) for p in picture.panels}) == len(picture.panels)
    values = [value for _, value in picture.instance]
    sizes = []
    for name, panel in [(name, one) for one in picture.panels for name in one.domain.split(", ")]:
        b = infer_bound(s, domain=name, compute=compute)
        fixed = dict(zip(b.required(B).fixed, values, strict=True))
        for elements, region in ((panel.required, b.required(B)), (panel.computed, b.computed(B))):
            expected = points(region.at({v: fixed[v] for v in region.params}))
            assert drawn(elements) == expected and elements.count == len(expected) > 0
        sides = [(evaluate(r.min, fixed), evaluate(r.extent, {})) for r in b.allocated(B)]
        assert list(panel.box) == sides and panel.extents == tuple(extent for _, extent in sides)
        assert drawn(panel.required) <= drawn(panel.computed)
        assert all(low <= x < low + e for p in drawn(panel.computed) for x, (low, e) in zip(p, panel.box, strict=True))
        sizes.append(panel.required.count)
    if not instance:
        assert sizes == [120, 120, 112, 112]  # two boxes of 8 columns, one of 10: only a union is exact


def test_one_axis_is_a_projection_and_two_may_be_exchanged() -> None:
    s, _ = tiles()

    def required(*axes: str) -> tuple[Picture, Elements]:
        picture = picture_of(ScriptSchedule("s", s), {}, ("isl",), "B", axes)
        return picture, picture.panels[0].required

    for axis, name, extent in (("j", "j", 10), ("1", "j", 10), ("0", "i", 12)):
        picture, elements = required(axis)
        assert picture.axes == (name,) and len(picture.hidden) == 1
        assert drawn(elements) == {(x,) for x in range(extent)} and elements.count == 112
    assert drawn(required("j", "i")[1]) == {(j, i) for i, j in drawn(required("i", "j")[1])}


def test_the_first_instance_with_a_need_is_drawn_along_long_axes() -> None:
    A = te.compute((32,), lambda k: k * 1, name="A")
    late = te.compute((32,), lambda k: tir.if_then_else(k >= 20, A[k], 0), name="late")
    s = te.create_schedule(late.op)
    outer, _ = s[late].split(late.op.axis[0], 8)
    s[A].compute_at(s[late], outer)
    picture = picture_of(ScriptSchedule("s", s), {}, ("isl", "auto"))
    assert picture.instance == (("late.k.outer", 2),)
    assert all(drawn(panel.required) == {(k,) for k in range(20, 24)} for panel in picture.panels)
    nothing = picture_of(ScriptSchedule("s", s), {}, ("auto",), instance={"k.outer": 0}).panels[0]
    assert nothing.required.is_empty and nothing.required.count == 0 and drawn(nothing.required) == set()
    A = te.compute((1, 6, 1, 5, 1), lambda a, b, c, d, e: a + b + c + d * e, name="A")
    s = te.create_schedule(A.op)
    assert picture_of(ScriptSchedule("s", s), {}, ("interval",)).axes == ("b", "d")
    B = te.compute((1, 1, 7), lambda a, b, c: a + b + c, name="B")
    assert picture_of(ScriptSchedule("s", te.create_schedule(B.op)), {}, ("interval",)).axes == ("b", "c")


def test_large_regions_are_blocks_that_cover_every_point() -> None:
    i, j = Var("i"), Var("j")
    region = Context({i: Range(0, 30), j: Range(0, 40)}).image((i * 3 + j, j * 2 - 5), domain="isl")
    exact = elements_of(region, (0, 1), MAX_BLOCKS, MAX_OPERATIONS)
    coarse = elements_of(region, (0, 1), 200, MAX_OPERATIONS)
    covered = {
        point for cell in coarse.cells() for point in itertools.product(*(range(low, low + e) for low, e in cell))
    }
    there = drawn(exact)
    assert there == {(3 * a + b, 2 * b - 5) for a in range(30) for b in range(40)}
    assert there < covered and coarse.blocks is not None and len(coarse.blocks) <= 200
    assert coarse.count == exact.count == 1200
    assert all(any(p in there for p in itertools.product(*(range(x, x + e) for x, e in c))) for c in coarse.cells())
    box = Context({i: Range(0, 10**6), j: Range(5, 10**6)}).image((i, j), domain="isl")
    filled = elements_of(box, (0, 1), MAX_BLOCKS, MAX_OPERATIONS)
    assert filled.blocks is None and filled.box == ((0, 10**6), (5, 10**6)) and filled.count == 10**12


def test_an_svg_holds_names_and_counts_and_a_png_is_drawn(script: str, cli: CommandLine) -> None:
    pytest.importorskip("matplotlib")
    words = ["plot", script, "--stage", "B", "--instance", "i.outer=1", "-o"]
    printed = cli(*words, "b.svg", "--axes", "i,j")
    assert printed.startswith("b.svg") and "C.i.outer=1, C.j.outer=0" in printed
    text = (cli.folder / "b.svg").read_text(encoding="utf-8")
    for label in (
        *DOMAINS, "required 112", "computed 120", "12 \N{MULTIPLICATION SIGN} 10 = 120", "stage B", "C.i.outer = 1",
        "a superset", ">i<", ">j<", ">required<", ">computed<", ">allocated<",
    ):  # fmt: skip
        assert label in text
    cli(*words, "again.svg")
    assert (cli.folder / "again.svg").read_text(encoding="utf-8") == text
    pytest.importorskip("matplotlib")
    cli("plot", script, "--schedule", "t", "--at", "n=50", "-d", "interval", "-d", "isl,auto")
    assert (cli.folder / "tiles-D.png").read_bytes().startswith(b"\x89PNG")


def test_names_are_drawn_as_text_and_a_picture_has_few_parts(tmp_path: Path) -> None:
    # A `$` begins no formula, and a control character does not make the SVG unreadable.
    pytest.importorskip("matplotlib")
    from lowering.cli.plot import draw

    s, _ = tiles()
    picture = replace(picture_of(ScriptSchedule("$\\frac{$\x1b[2J", s), {}, ("isl",), "B"), stage="$\\undefined{$")
    path = tmp_path / "names.svg"
    draw(picture).savefig(path)
    ElementTree.parse(path)
    pytest.importorskip("matplotlib")
    from lowering.cli.plot import draw

    F = te.compute((4000, 1500), lambda i, j: i + j, name="F")
    G = te.compute((500, 500), lambda i, j: F[i * 3 + j, j * 2], name="G")
    picture: Picture = picture_of(ScriptSchedule("s", te.create_schedule(G.op)), {}, ("interval", "isl"), "F")
    figure = draw(picture)
    assert len(figure.axes) == 2
    assert all(len(axes.get_children()) < 40 for axes in figure.axes)
    assert len(figure.axes[1].images) == 2  # rasters; the interval's is a box
    assert len(figure.axes[0].images) == 0
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["required", "computed (the same elements)", "allocated"]


@pytest.mark.parametrize("outer", [1, 4, 9])
def test_a_title_is_inside_its_figure(outer: int) -> None:
    """However many loops stand around the stage."""
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from lowering.cli.plot import draw

    A = te.placeholder((4,) * outer, name="A")
    B = te.compute((4,) * outer, lambda *at: A[at] + 1, name="B")
    C = te.compute((4,) * outer, lambda *at: B[at] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[-1])
    figure = draw(picture_of(ScriptSchedule("s", s), {}, ("interval",), "B"))
    FigureCanvasAgg(figure).draw()
    (title,) = (text for text in figure.texts if "instance" in text.get_text())
    extent = title.get_window_extent()
    assert extent.x0 >= 0 and extent.x1 <= figure.bbox.width
    assert extent.y1 <= figure.bbox.height


@pytest.mark.parametrize("example", ["resnet_conv3x3", "matmul_cached"])
def test_the_examples(example: str, cli: CommandLine) -> None:
    pytest.importorskip("matplotlib")
    cli("plot", ROOT / "examples" / f"{example}.py", "-o", "x.png")
    assert (cli.folder / "x.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stage", "Q"], "unknown stage 'Q'; there are: A, B, C"),
        (["--axes", "i,k"], "unknown axis 'k'; there are: i, j"),
        (["--axes", "2"], "unknown axis '2'"),
        (["--axes", "i,i"], "--axes takes one axis, or two"),
        (["--axes", "i,j,0"], "--axes takes one axis, or two"),
        (["--domain", "octagon"], "unknown domain 'octagon'"),
        (["--domain", "isl,octagon"], "unknown domain 'octagon'"),
        (["--instance", "k.outer=1"], "unknown loop 'k.outer'; there are: C.i.outer, C.j.outer"),
        (["--instance", "i.outer=8"], "no iteration has i.outer=8"),
        (["--instance", "i.outer"], "--instance takes NAME=VALUE"),
        (["--schedule", "u"], "unknown schedule 'u'; there are: s, t"),
        (["--schedule", "t"], "--at n=VALUE"),
        (["--at", "m=3"], "'m'"),
        (["-o", "x.gif"], ".png or .svg"),
        (["-o", "nowhere/x.png"], "no such folder"),
        (["--compute", "none"], "'none'"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, script: str, cli: CommandLine) -> None:
    pytest.importorskip("matplotlib")
    target = [] if "-o" in arguments else ["-o", "x.png"]
    assert message in cli.refusal("plot", script, *arguments, *target)
    assert not list(cli.folder.glob("*.png"))


def test_what_is_no_script_and_a_plot_without_matplotlib(
    script: str, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    assert "a Python script" in cli.refusal("plot", cli.write("corpus.json", "[]"))
    assert "no such file" in cli.refusal("plot", "nowhere.py")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install '.[plot]' in a clone of inferbound" in cli.refusal("plot", script)


# -- notebooks --------------------------------------------------------------------------------------------------------


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


def test_long_nests_layouts_contracts_and_divisions_are_shown() -> None:
    lines = [f"    for i{k} in [0, 16):\n        A[i{k}] = i{k} + {k}" for k in range(5_000)]
    f = parse_nest("def f(A: int32[16]):\n" + "\n".join(lines))
    start = time.process_time()
    shown = f._repr_html_()
    assert time.process_time() - start < 20 and len(shown) < 40_000  # an analysis of the nest takes minutes
    assert texts(checked(shown)).count("\n") < SHOWN_LINES + 2 and f"the first {SHOWN_LINES} lines" in shown
    i = Var("i<")
    m = IndexMap(lambda i: (i // 4, i % 4), (16,))
    f = parse_nest("def f(A: int32[4, 4], B: int32[16]):\n    for i in [0, 14):\n        B[i] = A[i // 4, i % 4] + 1")
    lowered = lower_division(i // 3, Context({i: Range(0, 100)}))
    for value, part in ((m, "// 4"), (contract(f, {"A": m}), "padding of f"), (lowered, "i<")):
        assert part in texts(checked(value._repr_html_()))


def test_pictures_of_a_stage_are_svg_or_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    picture = picture_of(ScriptSchedule("s", stencil(18)[0]), {}, ("interval", "auto"))
    shown = picture._repr_svg_()
    assert shown is not None and ElementTree.fromstring(shown).tag.endswith("svg") and "allocated" in shown
    checked(picture._repr_html_())
    picture = picture_of(ScriptSchedule("s", stencil(18)[0]), {}, ("auto",))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert picture._repr_svg_() is None and "Picture(" in texts(checked(picture._repr_html_()))


def test_an_exploration_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    space = Space({"tile": list(range(1, 101)), "kind": ["<a>", "b"]})
    found: Exploration = explore(
        lambda c: c["tile"], space, lambda made: {"cost": made * 3.0}, out=tmp_path / "r", progress=False
    )
    shown = texts(checked(found._repr_html_()))
    assert "200 configurations" in shown and "<a>" in shown and "the 40 best by cost" in shown
