"""The guide for domain authors, followed from an empty folder: its two programs, installed beside the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT

GUIDE = (ROOT / "docs" / "adding-a-domain.md").read_text(encoding="utf-8")
BOXES = ROOT / "examples" / "boxes"
QUESTION = (
    "import sys; from intset.testing import soundness; print(soundness(sys.argv[1], count=int(sys.argv[2])).wrong)"
)


def files() -> dict[str, str]:
    """The files that the guide says to write, by name."""
    return dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL))


def installed(folder: Path) -> None:
    """Write the metadata of an installed package into a folder."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (points,) = project["entry-points"].values()
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[intset.domains]\n{lines}")


def lines_of(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


@pytest.mark.parametrize(("name", "most", "questions"), [("residues", 60, 60), ("boxes", 500, 20)])
def test_the_programs_pass_the_public_suite(name: str, most: int, questions: int, tmp_path: Path) -> None:
    if name == "boxes":
        shutil.copytree(BOXES, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        assert set(files()) == {"residues.py", "pyproject.toml"}
        for file, text in files().items():
            (tmp_path / file).write_text(text, encoding="utf-8")
    assert 0 < lines_of(tmp_path) <= most
    installed(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", QUESTION, name, str(questions)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[]", done.stdout[-2000:] + done.stderr[-2000:]


def test_what_the_guide_shows_of_the_boxes_is_there() -> None:
    shown = re.search(r"^```py\nclass Boxes.*?^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    assert shown is not None
    code = (BOXES / "intset_boxes" / "__init__.py").read_text(encoding="utf-8")
    for line in shown.group().splitlines()[1:-1]:
        assert re.sub(r"\(self, dims\):", "(self, dims: int) -> Union:", line).strip() in code
