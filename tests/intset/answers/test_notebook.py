"""What notebooks show: well formed, escaped, short, never an error; a picture has the elements of its set."""

import itertools
import random
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

import intset
from intset import (
    NEG_INF,
    POS_INF,
    Context,
    IntervalSet,
    IntSet,
    Opaque,
    Proof,
    Range,
    Region,
    ShapeVar,
    Space,
    Var,
    maximum,
    minimum,
    using,
)
from intset.domains.sets.ends import Bounds
from intset.expr.node import Cond
from intset.notebook import SHOWN_ROWS, formula, html, svg
from intset.prover.explain import Explanation
from tests.intset.elsewhere import ran
from tests.sweeps import daily

HOSTILE = ["i.outer", "<b>&\"'", "</div>", "]]>", "a\x00b\x1b[0m", "$x$", "\udcff", "é" * 300, "&amp;"]
NAMES = daily(["".join(HOSTILE), *HOSTILE], 10)
LONGEST = 60_000
j, n = Var("j"), ShapeVar("n")


def shapes(i: Var) -> dict[str, Callable[[], Any]]:
    """Questions whose answers are empty, unbounded, symbolic, huge or given up."""
    small, none = Context({i: Range(0, 6), j: Range(0, 4)}), Context({i: Range(0, 0), j: Range(0, 2)})
    large = Context({i: Range(0, 10**6), j: Range(0, 10**6)})
    free, sized = Context({i: None, j: Range(0, POS_INF)}), Context({i: Range(0, n), j: Range(0, 4)}, assume=[n < 99])
    hard = Context({i: Range(0, 10**6), j: Range(0, 10**6)}, assume=[(i * 3 + j * 7) % 11 < 5, i * j < 10**9])
    table = Opaque(i.name, 1)
    contexts = {"small": small, "none": none, "large": large, "free": free, "sized": sized, "hard": hard}
    questions: dict[str, Callable[[Context], Any]] = {
        "bounds": lambda c: c.bounds(i * 4 + j),
        "maximum": lambda c: c.bounds(maximum(i, minimum(j, 3)) // 2),
        "set": lambda c: c.value_set(i * 3 + j * 5),
        "load": lambda c: c.value_set(table[i] + j),
        "region": lambda c: c.image((i, i + j)),
        "line": lambda c: c.image((i * 2,)),
        "point": lambda c: c.image(()),
        "cube": lambda c: c.image((i, j, i - j)),
        "product": lambda c: c.image((i * j, i % 7)),
        "relation": lambda c: c.relation((i,), (i + j,)),
        "pairs": lambda c: c.relation((i, j), (i // 2,)),
        "proof": lambda c: c.prove((i >= 0) & (i < 10**7)),
        "refuted": lambda c: c.prove(i * 3 + j < 7),
        "unknown": lambda c: c.prove((i * i * i + j * j * j).ne(table[3] * table[4] * table[5])),
        "context": lambda c: c,
        "map": lambda c: c.as_iter_map([i, j]),
        "explanation": lambda c: c.explain(i < 9),
        "constraint": lambda c: c.solve(i * 3 < j, i),
    }
    return {
        f"{where} {what}": lambda ask=ask, c=c: ask(c)
        for (where, c), (what, ask) in itertools.product(contexts.items(), questions.items())
    }


def checked(shown: str) -> ET.Element:
    assert len(shown) < LONGEST and shown.encode("utf-8")
    root = ET.fromstring(shown)
    assert "shown as text alone" not in texts(root) or "cannot be shown" in texts(root), texts(root)
    return root


def texts(root: ET.Element) -> str:
    return "".join(root.itertext())


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_shown(name: str) -> None:
    kinds = set()
    for ask in shapes(Var(name)).values():
        answer = ask()
        checked(answer._repr_html_())
        kinds.add(type(answer).__name__)
        picture = answer._repr_svg_() if hasattr(answer, "_repr_svg_") else None
        if picture is not None:
            assert ET.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert {"Bounds", "Proof", "Relation", "Context", "IterMap", "Explanation", "ShapeRegion"} <= kinds


@pytest.mark.parametrize("budget", [1, 40, 2_000])
def test_an_exhausted_budget_is_no_error(budget: int) -> None:
    with using(isl_operations=budget, points=budget, z3_rlimit=budget):
        for ask in shapes(Var("i")).values():
            checked(ask()._repr_html_())


def cells(picture: str, box: tuple[tuple[int, int], ...]) -> set[tuple[int, ...]]:
    """The points that the filled rectangles of a picture cover."""
    root = ET.fromstring(picture)
    tag = "{http://www.w3.org/2000/svg}"
    frame = root.find(f"{tag}rect")
    path = root.find(f"{tag}path")
    assert frame is not None and path is not None
    left, top, width, height = (float(frame.attrib[key]) for key in ("x", "y", "width", "height"))
    (y0, rows), (x0, columns) = ((0, 1), *box) if len(box) == 1 else box
    found = set()
    for x, y, across, down in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z", path.attrib["d"]):
        first, last = (round((float(x) + k - left) * columns / width) for k in (0.0, float(across)))
        upper, lower = (round((float(y) + k - top) * rows / height) for k in (0.0, float(down)))
        for a, b in itertools.product(range(upper, lower), range(first, last)):
            found.add((x0 + b,) if len(box) == 1 else (y0 + a, x0 + b))
    return found


def box_of(points: set[tuple[int, ...]]) -> tuple[tuple[int, int], ...]:
    """The first value and the number of values of each coordinate."""
    return tuple((min(x), max(x) - min(x) + 1) for x in zip(*points, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_a_picture_has_the_points(seed: int) -> None:
    rng = random.Random(seed)
    i = Var("i")
    a, b = rng.randrange(1, 7), rng.randrange(1, 7)
    ctx = Context({i: Range(rng.randrange(-5, 5), a), j: Range(rng.randrange(-5, 5), b)})
    points = list(itertools.product(*(range(int(r.min), int(r.min) + int(r.extent)) for r in ctx.ranges.values())))
    p, q, r = (rng.randrange(-4, 5) for _ in range(3))
    pair = {(x * p + y, (x - y * q) // 2 + r) for x, y in points}
    region = ctx.image((i * p + j, (i - j * q) // 2 + r), domain=rng.choice(["auto", "isl"]))
    line = ctx.value_set(i * p + j * q)
    for answer, true in ((region, pair), (line, {(x * p + y * q,) for x, y in points})):
        picture = answer._repr_svg_()
        assert picture is not None and answer.is_exact
        assert cells(picture, box_of(true)) == true
        assert f"{len(true):,} points, exact" in texts(ET.fromstring(picture))


def test_a_union_of_many_boxes_is_drawn_point_by_point_or_in_blocks() -> None:
    i = Var("i")
    region, true = Context({i: Range(0, 3), j: Range(0, 3)}).image((i, j)), set(itertools.product(range(3), range(3)))
    for k in range(1, 40):
        a, b = k * 7, k * k % 91
        region = region | Context({i: Range(a, 3), j: Range(b, 4)}).image((i, j))
        true |= set(itertools.product(range(a, a + 3), range(b, b + 4)))
    picture, box = svg(region), box_of(true)
    assert picture is not None and f"{len(true)} points, exact" in picture
    covered = cells(picture, box)
    blocks = re.search(r"stands for (\d+) x (\d+)", picture)
    assert blocks is not None
    places = [(low, int(size)) for (low, _), size in zip(box, blocks.groups(), strict=True)]

    def block(point: tuple[int, ...]) -> tuple[int, ...]:
        return tuple((x - low) // size for x, (low, size) in zip(point, places, strict=True))

    assert {*map(block, covered)} == {*map(block, true)}


def test_what_has_no_picture_and_a_foreign_set_that_fails() -> None:
    i = Var("i")
    sized = Context({i: Range(0, n)})
    for value in (sized.value_set(i), sized.image((i, i)), Context({i: None}).value_set(i), Context({i: Range(0, 0)})):
        assert not hasattr(value, "_repr_svg_") or value._repr_svg_() is None
    assert "n - 1" in sized.image((i, i))._repr_html_()
    shown = texts(checked(Failing("mine", False, False)._repr_html_()))
    assert "RuntimeError: <no> ends" in shown and "a Failing that cannot be shown" in shown
    assert Failing("mine", False, False)._repr_svg_() is None


def test_what_is_left_out_is_said() -> None:
    variables = [Var(f"v{k}") for k in range(5_000)]
    shown = texts(checked(Context({v: Range(0, 4) for v in variables})._repr_html_()))
    assert "v3903" in shown and "v4003" not in shown and f"{5_000 - SHOWN_ROWS:,} more rows" in shown
    bound = Bounds(0, 1, False, "isl", [f"note {k}" for k in range(1000)])
    assert "960 more notes" in texts(checked(bound._repr_html_()))
    i = Var("i")
    e = i
    for k in range(30_000):
        e = e + e if k % 2 else e * 3 + j
    start = time.process_time()
    long = (Bounds(e, POS_INF, False), Proof(e >= 0, "proved", "linear"), IntervalSet(NEG_INF, e), IntervalSet(e, e))
    for value in long:
        checked(value._repr_html_())
    assert time.process_time() - start < 20
    assert len(formula(e)) < 2_000
    assert "characters left out" in html(Explanation(("x" * 10_000,), None))
    proof = Proof(i < 3, "refuted", "linear", counterexample=dict.fromkeys(variables, 10**3000))
    assert "4,960 more rows" in texts(checked(proof._repr_html_()))


class Failing(IntSet):
    """A set of another package that answers nothing."""

    def ends(self) -> Any:
        raise RuntimeError("<no> ends")

    def condition(self, e: Any) -> Cond:
        raise ValueError

    def count(self) -> Any:
        raise OSError

    def __repr__(self) -> str:
        raise KeyError


def test_a_proof_shows_its_certificate_soon_and_a_refutation_its_point() -> None:
    i = Var("i")
    ctx = Context({i: Range(0, n)}, assume=[n <= 8])
    proved = texts(checked(ctx.prove(i < 8)._repr_html_()))
    assert "proved" in proved and "n <= 8" in proved and "assumed" in proved and "certificateby" in proved
    point = ctx.prove(i < 5).counterexample
    assert point is not None
    refuted = texts(checked(ctx.prove(i < 5)._repr_html_()))
    assert all(f"{v}{k}" in refuted for v, k in point.items())
    # What is shown is found anew with little effort; the proof itself learns nothing by it.
    i, k = Var("i"), Var("k")
    ctx = Context({i: Range(0, n), j: Range(0, 4), k: Range(1, 9)}, assume=[n <= 8, n % 4 == 0, k < n])
    for goal in (i * j < 40, (i * 4 + j) // 4 < 8, (i * j * k) % 4 <= 3, i * i * k < 600):
        first, other = ctx.prove(goal), Context(ctx.ranges, assume=ctx.facts).prove(goal)
        assert first.status == "proved"
        shown = first._repr_html_()
        assert shown == first._repr_html_() and set(first.used) == set(other.used)
        assert first.certificate().check()


def test_every_class_that_is_displayed_has_what_it_promises() -> None:
    """No public class of `intset` has half a representation; the module is loaded by the first one alone."""
    code = "import sys, intset; from intset import Context, Var; i = Var('i'); c = Context({i: None})\n"
    code += "assert 'intset.notebook' not in sys.modules and 'html' not in sys.modules\n"
    code += "c._repr_html_(); assert 'intset.notebook' in sys.modules and 'matplotlib' not in sys.modules"
    assert ran("-c", code) == ""
    for kind in (intset.Bounds, intset.Context, IntSet, Proof, Region, intset.Relation, Space):
        assert callable(kind._repr_html_)
    for kind in (intset.Expr, Cond, Var):
        assert callable(kind._repr_latex_) and not hasattr(kind, "_repr_html_")
