"""`intset space`, `intset explore` and `intset plot DIR`."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from lowering.cli import main
from lowering.cli.plot import least_by_cell, pareto_front
from tests import ROOT

SCRIPT = """
from intset import Space
space = Space({"a": range(1, 7), "b": [1, 2, 4], "wide": [False, True]}, where=["a * b <= 12", "a % b == 0 or wide"])
BASE = 100

def make(config):
    if config["a"] == 5:
        raise ValueError("five")
    return config

def measure(config):
    return {"cost": BASE - config["a"] * config["b"], "size": config["a"] + config["b"]}
"""
MEMBERS = [
    (a, b, wide)
    for a, b, wide in itertools.product(range(1, 7), (1, 2, 4), (False, True))
    if a * b <= 12 and (a % b == 0 or wide)
]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def answered(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> Any:
    assert main([str(word) for word in words]) == status, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_space_is_counted_and_its_best_listed(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = answered(capsys, "space", script, "--json", "--by", "a * b - wide", "--best", 4)
    assert report["count"] == len(MEMBERS) and report["names"]["b"] == [1, 2, 4]
    values = [row["a"] * row["b"] - row["wide"] for row in report["best"]]
    assert values == sorted(a * b - wide for a, b, wide in MEMBERS)[:4]
    assert all((row["a"], row["b"], row["wide"]) in MEMBERS for row in report["sample"]) and len(report["sample"]) == 5
    assert main(["space", str(script)]) == 0 and f"{len(MEMBERS)} configurations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 3", "define space = Space"),
        ("space = 3", "space must be a Space, not 3"),
        ("space = 1 +", "not a Python script"),
        ("space = 1 // 0", "ZeroDivisionError"),
    ],
)
def test_a_script_without_a_space_is_told(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text(text)
    assert main(["space", str(tmp_path / "bad.py")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_an_empty_space_names_its_contradiction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.py"
    path.write_text("from intset import Space\nspace = Space({'a': [1, 2]}, where=['a > 5'])\n")
    report = answered(capsys, "space", path, "--json", "--by", "a")
    assert report["count"] == 0 and report["contradiction"] and report["best"] == report["sample"] == []


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]])
def test_an_exploration_ends_with_its_best(
    jobs: list[str], script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    words = ["explore", script, "--out", out, "--json", "--best", 3, *jobs]
    report = answered(capsys, *words)
    good = [(a, b, wide) for a, b, wide in MEMBERS if a != 5]
    assert (report["configurations"], report["failed"]) == (len(MEMBERS), len(MEMBERS) - len(good))
    assert [row["cost"] for row in report["best"]] == sorted(100 - a * b for a, b, _ in good)[:3]
    assert report["failures"][0]["error"] == "ValueError: five"
    assert answered(capsys, *words)["added"] == 0
    assert answered(capsys, *words, "--strict", status=1)["failed"] == report["failed"]
    assert [r["size"] for r in answered(capsys, *words, "--by", "size", "--largest")["best"]] == [8, 8, 7]
    script.write_text(SCRIPT.replace("range(1, 7)", "range(1, 8)"))  # another space, the same functions
    assert answered(capsys, *words)["added"] > 0
    script.write_text(SCRIPT.replace("BASE = 100", "BASE = 200"))
    assert main([str(word) for word in words]) == 2
    assert "has results of another measure" in capsys.readouterr().err
    assert answered(capsys, *words, "--fresh")["best"][0]["cost"] == min(200 - a * b for a, b, _ in good)
    assert main([str(word) for word in words if word != "--json"]) == 0
    assert "the best by cost" in capsys.readouterr().out


def test_results_are_drawn(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    answered(capsys, "explore", script, "--out", out, "--json")
    for words, name in ((["--axes", "a,b", "--by", "size"], "heat.svg"), (["--pareto", "cost,size"], "front.png")):
        assert main(["plot", str(out), *words, "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 2000
    assert "least size" in (tmp_path / "heat.svg").read_text()
    for words, message in (
        (["--axes", "a"], "--axes takes two of the names a, b, wide"),
        (["--by", "nothing"], "unknown column"),
        (["--pareto", "cost"], "--pareto takes two values"),
    ):
        assert main(["plot", str(out), *words, "-o", str(tmp_path / "x.png")]) == 2
        assert message in capsys.readouterr().err
    assert main(["plot", str(tmp_path), "-o", str(tmp_path / "x.png")]) == 2
    assert "no exploration is there" in capsys.readouterr().err


def test_the_pareto_front_equals_pairwise_comparison() -> None:
    rng = random.Random(7)
    for _ in range(200):
        rows = [{"x": rng.randrange(8), "y": rng.randrange(8), "k": k} for k in range(rng.randrange(1, 30))]

        def beaten(row: dict[str, int], rows: list[dict[str, int]] = rows) -> bool:
            others = ((other["x"] - row["x"], other["y"] - row["y"]) for other in rows)
            return any(dx <= 0 and dy <= 0 and (dx, dy) != (0, 0) for dx, dy in others)

        wanted = {row["k"] for row in rows if not beaten(row)}
        assert {row["k"] for row in pareto_front(rows, "x", "y")} == wanted
        ys, xs, cells = least_by_cell(rows, "y", "x", "k")
        for y, x in itertools.product(range(len(ys)), range(len(xs))):
            inside = [row["k"] for row in rows if (row["y"], row["x"]) == (ys[y], xs[x])]
            assert cells[y][x] == min(inside) if inside else cells[y][x] != cells[y][x]


def test_the_example_of_the_manual_has_a_space(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys, "space", ROOT / "examples" / "conv_tilings.py", "--json")["count"] == 60


def test_a_script_that_prints_leaves_the_json_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the script prints goes to stderr; numbers that JSON lacks are null."""
    (tmp_path / "chatty.py").write_text(
        "space = [{'a': k} for k in range(3)]\n"
        "def make(config):\n    print('here')\n    return {'x': config['a'], 'far': float('inf'), 'no': float('nan')}\n"
    )
    report = answered(capsys, "explore", tmp_path / "chatty.py", "--out", tmp_path / "out", "--json", "--best", 1)
    assert report["best"] == [{"a": 0, "x": 0, "far": None, "no": None}]
