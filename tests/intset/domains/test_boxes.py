"""The boxes of the guide as a domain: the public suite, its command line, and what it shares with other threads."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from examples.boxes.intset_boxes import Boxes
from intset import Context, CountError, Range, ShapeVar, UndecidedError, Var, register
from intset.domains.registry import unregister
from intset.testing import soundness
from tests import ROOT

i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)


@pytest.fixture(autouse=True)
def boxes() -> Iterator[None]:
    register(Boxes)
    yield
    unregister("boxes")


@pytest.mark.parametrize("domain", ["boxes", "boxes*modular"])
def test_the_public_suite(domain: str) -> None:
    report = soundness(domain, count=30)
    assert report.wrong == [] and report.tally["exact set"] > 15


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(0, 4000, 400))
def test_the_public_suite_long(seed: int) -> None:
    assert soundness("boxes", count=400, seed=seed).wrong == []


def test_symbolic_sets() -> None:
    ctx = Context({i: Range(0, n), j: Range(0, 4)}, domain="boxes")
    s = ctx.value_set(i * 6 + j)
    assert s.is_exact and s.by == "boxes" and str(s.count()) == "n * 4" and str(s.max) == "n * 6 - 3"
    assert sorted(v for v in range(-3, 20) if v in s.at({n: 3})) == [6 * a + b for a in range(3) for b in range(4)]
    assert str(ctx.bounds(i // 3)) == "(0, (n - 1) // 3)" or str(ctx.bounds(i // 3)[1]) == "(n + 2) // 3 - 1"


def test_the_algebra_of_two_corners() -> None:
    """`T[0:2, 0:2]` and `T[2:4, 2:4]`: every name of a region's algebra, asked as a third party's user would."""
    ctx = Context({i: Range(0, 2), j: Range(0, 2)}, domain="boxes")
    r, q = ctx.image((i, j)), ctx.image((i + 2, j + 2))
    both = r | q
    assert both.by == "boxes" and both.is_exact and both.count() == 8 and both.box == (Range(0, 4), Range(0, 4))
    assert (
        (r & q).is_empty and both - q == r and r <= both and not both <= r and pickle.loads(pickle.dumps(both)) == both
    )
    assert both.lexmin() == (0, 0) and both.lexmax() == (3, 3) and both.sample() in both and both.hull().count() == 16
    assert [piece.lexmin() for piece in both.pieces((1, 0))] == [(0, 0), (2, 2)] and both.project((1,)).count() == 4
    loads, stores = ctx.relation((i, j), (i * 2 + j - 1,)), ctx.relation((i, j), (i * 2 + j,))
    source = loads.then(stores.inverse())
    assert source.is_exact and source.by == "boxes" and source.domain().count() == 3
    assert source.lexmin() == source == source.lexmax() and source.contains((1, 0), (0, 1))


def test_what_boxes_cannot_say_is_answered_by_more() -> None:
    square = Context({i: Range(0, 4), j: Range(0, 4)}, domain="boxes").image((i, j))
    diagonal = Context({i: Range(0, n)}, domain="boxes").image((i, i))
    assert not diagonal.is_exact and "boxes gave up" in diagonal.notes[0]
    rest = square - diagonal
    assert not rest.is_exact and rest.project((0,)).box == (Range(0, 4),) and "nothing was" in rest.notes[-1]
    for refused in (diagonal.lexmin, diagonal.sample, rest.count):
        with pytest.raises((UndecidedError, CountError)):
            refused()


def test_regions_are_pickled_and_answer_in_other_threads() -> None:
    r = Context({i: Range(0, n), j: Range(0, 4)}, domain="boxes").image((i // 2, j * 3))
    sent = pickle.loads(pickle.dumps(r))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: (r.at({n: 1 + k % 5}).count(), sent.at({n: 1 + k % 5}).count()), range(16)))
    wanted = [len({(a // 2, 3 * b) for a in range(1 + k % 5) for b in range(4)}) for k in range(16)]
    assert found == [(w, w) for w in wanted]


def test_the_command_line_finds_it_by_its_entry_point(tmp_path: Path) -> None:
    """With package metadata as after installation, and the domain named by the environment."""
    info = tmp_path / "intset_boxes-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: intset-boxes\nVersion: 0.1\n")
    table = (ROOT / "examples" / "boxes" / "pyproject.toml").read_text().partition('"intset.domains"]\n')[2]
    name, _, target = table.splitlines()[0].partition(" = ")
    (info / "entry_points.txt").write_text(f"[intset.domains]\n{name} = {target.strip(chr(34))}\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "examples" / "boxes"), str(ROOT)])
    script = tmp_path / "corners.py"
    script.write_text("""
from bound import te
a = te.placeholder((4, 4), name="A")
t = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="T")
c = te.compute((2, 2), lambda i, j: t[i, j] + t[i + 2, j + 2], name="C")
s = te.create_schedule(c.op)
""")
    program = "import sys; from lowering.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "bounds", str(script), "--json"],
        env={**os.environ, "PYTHONPATH": path, "INTSET_DOMAIN": "boxes"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["files"]
    stages = report["schedules"][0]["stages"]
    (needed,) = [t["required"] for stage in stages for t in stage["tensors"] if t["tensor"] == "T"]
    assert needed["is_exact"] and needed["count_total"] == 8
