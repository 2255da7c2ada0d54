"""The documents: their code prints what they show; the guide for domain authors is followed from an empty folder."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pytest

from intset import Config
from intset.domains.registry import domain_names, unregister
from tests import ROOT

NEEDED = {"docs/guide-exploring.md": "pyarrow"}  # the optional library of a page
SECTIONS = "docs/adapters.md"  # each section needs a library of its own: `tests/intset/adapters/documented.py` runs it
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES.remove(SECTIONS)

GUIDE = (ROOT / "docs" / "adding-a-domain.md").read_text(encoding="utf-8")
BOXES = ROOT / "examples" / "boxes"
QUESTION = (
    "import sys; from intset.testing import soundness; print(soundness(sys.argv[1], count=int(sys.argv[2])).wrong)"
)


def blocks(page: str, language: str = "python") -> list[str]:
    """The fenced blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def failures(name: str, codes: Iterable[str]) -> list[str]:
    """What pieces of code print that is not shown, each piece run alone."""
    said: list[str] = []
    before = {*domain_names()}
    try:
        for code in codes:
            test = doctest.DocTestParser().get_doctest(code, {}, name, name, 0)
            doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    finally:
        for domain in {*domain_names()} - before:
            unregister(domain)
    return said


def test_each_block_of_the_readme_runs_alone() -> None:
    codes = blocks("README.md")
    assert len(codes) >= 7 and all(">>>" in code for code in codes)
    assert failures("README.md", codes) == []


@pytest.mark.parametrize("page", [page for page in PAGES if any(">>>" in code for code in blocks(page))])
def test_the_code_of_a_page_is_true(page: str) -> None:
    """The blocks of a page are one session, from its top to its end."""
    if page in NEEDED:
        pytest.importorskip(NEEDED[page], reason=f"{page} needs it")
    assert failures(page, ["".join(blocks(page))]) == []


def test_the_pages_with_code_are_these() -> None:
    guides = {page for page in PAGES if page.startswith("docs/guide-") and page != "docs/guide-command-line.md"}
    assert len(guides) >= 7 and all(any(">>>" in code for code in blocks(page)) for page in guides)


def test_the_settings_in_the_guide_are_the_defaults() -> None:
    table = tomllib.loads(blocks("docs/guide-answers.md", "toml")[0])["tool"]["intset"]
    assert {**table, "tiers": tuple(table["tiers"])} == asdict(Config())


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
