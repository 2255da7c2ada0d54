"""The documents: their code prints what they show; the guide for domain authors is followed from an empty folder."""

import ast
import contextlib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from intset import Config
from intset.domains.registry import domain_names, unregister
from tests import ROOT

ADAPTERS = ("sympy", "torch", "jax", "tinygrad", "loopy", "tvm")  # each with a page, which needs that library
NEEDED = {"docs/guide-exploring.md": "pyarrow", "docs/from-sympy.md": "sympy"}  # the optional library of a page
NEEDED |= {f"docs/reference/adapter-{name}.md": name for name in ADAPTERS}
ELSEWHERE = {"docs/adapters.md"}  # its sections run in the tests of the adapters, where their libraries are installed
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))

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


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ELSEWHERE and any(">>>" in code for code in blocks(page))]
)
def test_the_code_of_a_page_is_true(page: str) -> None:
    """A page's blocks form one session, executed in order."""
    if page in NEEDED:
        pytest.importorskip(NEEDED[page], reason=f"{page} needs it")
    assert failures(page, ["".join(blocks(page))]) == []


def test_the_pages_with_code_are_these() -> None:
    guides = {page for page in PAGES if page.startswith("docs/guide-") and page != "docs/guide-command-line.md"}
    assert len(guides) >= 7 and all(any(">>>" in code for code in blocks(page)) for page in guides)


def shown(outputs: list[dict[str, Any]]) -> str:
    """The text outputs of a notebook cell, without pictures."""
    said = [output["text"] for output in outputs if output["output_type"] == "stream"]
    values = [output["data"] for output in outputs if "data" in output]
    return "".join("".join(part) for part in (*said, *(v["text/plain"] for v in values if "image/png" not in v)))


def test_the_tutorial_shows_what_its_cells_print() -> None:
    """Its cells are one session; the value of a last expression is printed, except for a picture."""
    pytest.importorskip("matplotlib", reason="the tutorial has pictures").use("Agg")
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    session: dict[str, Any] = {}
    pictures = 0
    for cell in cells:
        *statements, last = ast.parse("".join(cell["source"])).body
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(ast.Module(statements, []), "tutorial", "exec"), session)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "tutorial", "eval"), session)
            else:
                value = exec(compile(ast.Module([last], []), "tutorial", "exec"), session)
        if type(value).__name__ == "Figure":
            pictures += 1
            assert any("image/png" in output["data"] for output in cell["outputs"])
        elif value is not None:
            said.write(repr(value))
        assert shown(cell["outputs"]).split() == said.getvalue().split(), cell["source"]
    assert len(cells) >= 15 and pictures >= 3


def test_the_settings_in_the_guide_are_the_defaults() -> None:
    table = tomllib.loads(blocks("docs/guide-answers.md", "toml")[0])["tool"]["intset"]
    assert {**table, "stated": None, "tiers": tuple(table["tiers"])} == {**asdict(Config()), "stated": None}


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


@pytest.mark.parametrize(("name", "most", "questions"), [("residues", 60, 60), ("boxes", 900, 20)])
def test_the_programs_pass_the_public_suite(name: str, most: int, questions: int, tmp_path: Path) -> None:
    if name == "boxes":
        shutil.copytree(BOXES, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        assert set(files()) == {"residues.py", "pyproject.toml"}
        for file, text in files().items():
            (tmp_path / file).write_text(text, encoding="utf-8")
    assert 0 < sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tmp_path.rglob("*.py")) <= most
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
