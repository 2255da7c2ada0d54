"""The documents: their code prints what they show, their commands and names are true; the pages of the site."""

import ast
import contextlib
import doctest
import importlib
import importlib.util
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
from lowering.cli.app import app
from tests import ROOT

ADAPTERS = ("sympy", "torch", "jax", "tinygrad", "loopy", "tvm")  # each with a page, which needs that library
NEEDED = {"docs/guide-exploring.md": "pyarrow", "docs/from-sympy.md": "sympy"}  # the optional library of a page
NEEDED |= {f"docs/reference/adapter-{name}.md": name for name in ADAPTERS}
ELSEWHERE = {"docs/adapters.md"}  # its sections run in the tests of the adapters, where their libraries are installed
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))

TUTORIAL = [
    cell
    for cell in json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]
MODULES = ("intset", "intset.check", "intset.testing", "bound", "bound.te", "bound.tir", "bound.replay", "lowering")
OFFERING = sorted(  # files of adapters that have public names
    path
    for pattern in ("intset/adapters/*.py", "lowering/adapters/*.py", "lowering/adapters/*/__init__.py")
    for path in ROOT.glob(pattern)
    if "__all__" in path.read_text(encoding="utf-8")
)
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
README = (ROOT / "README.md").read_text(encoding="utf-8")
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


def test_the_readme_is_short_and_its_blocks_run_alone() -> None:
    codes = blocks("README.md")
    assert len(codes) >= 7 and all(">>>" in code for code in codes)
    assert failures("README.md", codes) == []
    guides = {page for page in PAGES if page.startswith("docs/guide-") and page != "docs/guide-command-line.md"}
    assert len(guides) >= 7 and all(any(">>>" in code for code in blocks(page)) for page in guides)
    assert len(README.splitlines()) <= 150
    first, second = blocks("README.md", "sh")[:2]
    assert README.index(first) < README.index(second) < README.index("```python")
    for command in (first, second):
        assert command.count("\n") == 1 and command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert "intset bounds" in first and "intset lower" in first and "pytest" in second
    names = set(re.findall(r"\b(?:examples|docs|benchmarks)/[\w./-]*\w", README)) | {".ci/run"}
    assert len(names) >= 4
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
    for module in re.findall(r"python -m (benchmarks\.\w+)", README):
        assert (ROOT / (module.replace(".", "/") + ".py")).exists()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ELSEWHERE and any(">>>" in code for code in blocks(page))]
)
def test_the_code_of_a_page_is_true(page: str) -> None:
    """A page's blocks form one session, executed in order."""
    if page in NEEDED:
        pytest.importorskip(NEEDED[page], reason=f"{page} needs it")
    assert failures(page, ["".join(blocks(page))]) == []


def shown(outputs: list[dict[str, Any]]) -> str:
    """The text outputs of a notebook cell, without pictures."""
    said = [output["text"] for output in outputs if output["output_type"] == "stream"]
    values = [output["data"] for output in outputs if "data" in output]
    return "".join("".join(part) for part in (*said, *(v["text/plain"] for v in values if "image/png" not in v)))


def test_the_tutorial_shows_what_its_cells_print() -> None:
    """Its cells are one session; the value of a last expression is printed, except for a picture."""
    pytest.importorskip("matplotlib", reason="the tutorial has pictures").use("Agg")
    session: dict[str, Any] = {}
    pictures = 0
    for cell in TUTORIAL:
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
    assert len(TUTORIAL) >= 15 and pictures >= 3


def test_the_settings_in_the_guide_are_the_defaults_and_the_commands_need_what_is_declared() -> None:
    table = tomllib.loads(blocks("docs/guide-answers.md", "toml")[0])["tool"]["intset"]
    assert {**table, "stated": None, "tiers": tuple(table["tiers"])} == {**asdict(Config()), "stated": None}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"intset": "intset.__main__:main"}
    assert {"test", "dev"} <= set(project["optional-dependencies"])
    license_text = (ROOT / project["license-files"][0]).read_text(encoding="utf-8")
    assert license_text.strip().startswith("Apache License")


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


# -- the README ---------------------------------------------------------------------------------------------------


def test_ci_begins_with_the_commands_of_the_readme(tmp_path: Path) -> None:
    """`.ci/readme` runs what README.md says, word for word: proved by a second README in a separate clone."""
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert run.index(".ci/readme") < min(run.index(word) for word in ("-m venv", "/pip", "-m pytest"))
    commands = ["echo one > out && cat out *.txt && pwd", "test ! -e out && echo 'two; $HOME'"]
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "readme", tmp_path / ".ci" / "readme")
    (tmp_path / "a.txt").write_text("of the clone\n")
    (tmp_path / "README.md").write_text("".join(f"Text.\n\n```sh\n{line}\n```\n" for line in (*commands, "false")))
    for words in ("init -q", "add -A", "-c user.name=n -c user.email=e commit -q -m all"):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / ".ci" / "readme"], capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "") and [line for line in said if line.startswith("== ")] == [
        f"== README: {command}" for command in commands
    ]
    assert said[1:3] == ["one", "of the clone"] and said[-1] == "two; $HOME"
    assert " " in said[3] and not said[3].startswith(str(tmp_path)) and not Path(said[3]).exists()


def test_the_library_tour_runs() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "examples/library_tour.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert "(0, n * m - 1)" in done.stdout and "proved" in done.stdout


@pytest.mark.parametrize(
    "module",
    [
        *("intset.expr.parser", "lowering.lower", "lowering.layout.index_map", "lowering.layout.transform"),
        "lowering.padding.hoist",
    ],
)
def test_examples_in_docstrings(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted and not found.failed


# -- the reference and the site ------------------------------------------------------------------------------------


def names_in(code: str) -> set[str]:
    """The identifiers that the examples of a piece of code use."""
    sources = [example.source for example in doctest.DocTestParser().get_examples(code)]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def documented(text: str) -> set[str]:
    """The names that a page documents: names from its directives and from its tables."""
    directives = re.findall(r"^::: [\w.]*?(\w+)$", text, flags=re.MULTILINE)
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {*directives, *(name for row in rows for name in re.findall(r"`(\w+)`", row))}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference_with_an_example(module: str) -> None:
    text = TEXTS[f"docs/reference/{'te' if module == 'bound' else module.rpartition('.')[2]}.md"]
    modules = {"te", "tir", "replay"}  # they have pages of their own
    public = set(importlib.import_module(module).__all__) - (modules if module == "bound" else set())
    assert sorted(public - documented(text)) == []
    used = set().union(*(names_in(code) for page in PAGES for code in blocks(page) if ">>>" in code))
    assert sorted(public - used) == []


def test_every_command_option_and_adapter_is_in_the_guide() -> None:
    page = TEXTS["docs/guide-command-line.md"]
    rows = [line for line in page.splitlines() if line.startswith("| `-")]
    for name, command in app.commands.items():
        assert f"intset {name} " in page
        for option in (word for param in command.params for word in param.opts if word.startswith("-")):
            of = [row for row in rows if f"`{option}`" in row.split("|")[1]]
            assert of, f"{name} {option}"
    silent = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/adapters/*.py") if path not in OFFERING}
    shared = {"intset/adapters/__init__.py", "lowering/adapters/__init__.py"}
    assert silent == shared


def public_names(path: Path) -> set[str]:
    """The classes and functions that an adapter offers; its library need not be installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (stated,) = (node for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.dump(node.targets[0]))
    names = set(ast.literal_eval(stated.value))
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return names if path.name == "__init__.py" else names & defined


@pytest.mark.parametrize("path", OFFERING, ids=lambda path: path.relative_to(ROOT).with_suffix("").as_posix())
def test_every_adapter_is_in_the_reference_with_an_example(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    names = public_names(path)
    pages = [page for page, text in TEXTS.items() if f"::: {module}." in text]
    assert names and len(pages) == 1
    assert {name for name in names if f"::: {module}.{name}\n" not in TEXTS[pages[0]]} == set()
    assert names - names_in("".join(blocks(pages[0]))) == set()


def test_pages_are_in_the_navigation_and_parameters_have_signatures() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.(?:md|ipynb)", config.partition("\nnav:")[2].partition("\nexclude_docs")[0]))
    pages = {
        path.relative_to(ROOT / "docs").as_posix()
        for kind in ("*.md", "*.ipynb")
        for path in (ROOT / "docs").rglob(kind)
    }
    assert named == pages
    heads = [f'<h3 id="{name}" class="doc doc-heading">{name}</h3>' for name in ("Var", "Context", "NEG_INF")]
    bodies = [
        '<div class="doc-signature"></div><p><strong>Parameters</strong></p>',
        "<p><strong>Parameters</strong></p>",
        "",
    ]
    (fault,) = site.faults("".join(head + body for head, body in zip(heads, bodies, strict=True)))
    assert fault.startswith("no signature:") and "Context" in fault


def text_of(path: Path) -> str:
    """The text of a page, or of the Markdown cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors that the site generates for a page's headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *PAGES, "docs/tutorial.ipynb"])
def test_links_lead_to_files_and_headings(name: str) -> None:
    path, broken = ROOT / name, []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        file, _, anchor = link.partition("#")
        if link.startswith("http"):
            continue
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


spec = importlib.util.spec_from_file_location("site_of_the_documents", ROOT / "docs" / "site.py")
assert spec is not None and spec.loader is not None
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)

FORMULA = r'<div class="jp-RenderedLatex jp-OutputArea-output" tabindex="0">\n$\dfrac{i \cdot 4}{7}$\n</div>'


def test_formulas_are_mathml_and_code_fits_its_column() -> None:
    wide = "x" * (site.COLUMN + 1)
    assert [fault.partition(":")[0] for fault in site.faults(f"<p>{FORMULA}</p><pre><b>{wide}</b></pre>")] == [
        "raw TeX",
        f"{len(wide)} characters of code in a line",
    ]
    assert site.faults(f"<p>$x$ costs $3</p><code>{FORMULA}</code><pre>{wide[1:]}\n&lt;&lt;</pre><p>{wide}</p>") == []
    for page, fetched in (
        ('<script src="https://x.org/a.js">', "https://x.org/a.js"),
        ('<link rel="a" href="//x.org/b">', "//x.org/b"),
        ('<pre class="mermaid">x</pre>', 'class="mermaid"'),
    ):
        assert site.faults(page) == [f"fetched: {fetched}"]
    assert site.faults('<script src="../a.js"></script><a href="https://x.org/">there</a>') == []
    pytest.importorskip("latex2mathml", reason="the site needs it")
    page = site.with_mathml(f"<p>$a$</p>{FORMULA}")
    assert page.startswith("<p>$a$</p>") and "<mfrac>" in page and site.faults(page) == []
    cells = ["".join(cell["source"]) for cell in TUTORIAL]
    codes = [code for page in PAGES for code in blocks(page, r"\w*")]
    assert len(codes) > 200 and len(cells) > 10
    for parts, most in ((cells, site.CELL), (codes, site.COLUMN)):
        assert [line for part in parts for line in part.splitlines() if len(line) > most] == []


def test_public_names_come_first_in_the_search_and_the_picture_of_imports_is_a_table() -> None:
    places = {
        "reference/intset/#intset.Context": True,
        "reference/te/#bound.infer_bound": True,
        "reference/adapter-loopy/#lowering.adapters.loopy.KernelNames.context": False,
        "reference/intset/#contexts-and-facts": False,
        "guide-facts/": False,
    }
    index = {"config": {}, "docs": [{"location": place, "title": "", "text": ""} for place in places]}
    after = site.boosted(index, site.public_names())
    assert {doc["location"]: "boost" in doc for doc in after["docs"]} == places and after["config"] == {}
    # Every arrow of the picture is listed in a row.
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tables = site.with_tables(page)
    rows = [line for line in tables.splitlines() if re.match(r"\| `(?:intset|bound|lowering)\.", line)]
    assert "mermaid" not in tables and "| `bound.te` | `bound.declare`, `bound.te_schedule` |" in rows
    assert sum(row.partition("` | ")[2].count("`") // 2 for row in rows) == page.count(" --> ")
