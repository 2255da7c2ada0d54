"""The site: its reference has every public name with an example, and what it adds to its pages."""

import ast
import doctest
import importlib
import importlib.util
import json
import re
from pathlib import Path

import pytest

from lowering.cli.app import app
from tests import ROOT
from tests.project.test_guide import PAGES, blocks

DOCS = ROOT / "docs"
MODULES = ("intset", "intset.check", "intset.testing", "bound", "bound.te", "bound.tir", "bound.replay", "lowering")
ADAPTERS = sorted(
    path
    for pattern in ("intset/adapters/*.py", "lowering/adapters/*.py", "lowering/adapters/*/__init__.py")
    for path in ROOT.glob(pattern)
    if "__all__" in path.read_text(encoding="utf-8")
)
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}


def names_in(code: str) -> set[str]:
    """The identifiers that the examples of a piece of code use."""
    sources = [example.source for example in doctest.DocTestParser().get_examples(code)]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def shown(text: str) -> set[str]:
    """The names that a page documents: names from its directives and from its tables."""
    directives = re.findall(r"^::: [\w.]*?(\w+)$", text, flags=re.MULTILINE)
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {*directives, *(name for row in rows for name in re.findall(r"`(\w+)`", row))}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference_with_an_example(module: str) -> None:
    text = TEXTS[f"docs/reference/{'te' if module == 'bound' else module.rpartition('.')[2]}.md"]
    modules = {"te", "tir", "replay"}  # they have pages of their own
    public = set(importlib.import_module(module).__all__) - (modules if module == "bound" else set())
    assert sorted(public - shown(text)) == []
    used = set().union(*(names_in(code) for page in PAGES for code in blocks(page) if ">>>" in code))
    assert sorted(public - used) == []


def test_every_command_and_option_is_in_the_guide() -> None:
    page = TEXTS["docs/guide-command-line.md"]
    rows = [line for line in page.splitlines() if line.startswith("| `-")]
    for name, command in app.commands.items():
        assert f"intset {name} " in page
        for option in (word for param in command.params for word in param.opts if word.startswith("-")):
            of = [row for row in rows if f"`{option}`" in row.split("|")[1]]
            assert of, f"{name} {option}"


def public_names(path: Path) -> set[str]:
    """The classes and functions that an adapter offers; its library need not be installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (stated,) = (node for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.dump(node.targets[0]))
    names = set(ast.literal_eval(stated.value))
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return names if path.name == "__init__.py" else names & defined


def test_every_adapter_says_what_it_offers() -> None:
    silent = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/adapters/*.py") if path not in ADAPTERS}
    shared = {"intset/adapters/__init__.py", "lowering/adapters/__init__.py"}
    assert silent == shared


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.relative_to(ROOT).with_suffix("").as_posix())
def test_every_adapter_is_in_the_reference_with_an_example(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    names = public_names(path)
    pages = [page for page, text in TEXTS.items() if f"::: {module}." in text]
    assert names and len(pages) == 1
    assert {name for name in names if f"::: {module}.{name}\n" not in TEXTS[pages[0]]} == set()
    assert names - names_in("".join(blocks(pages[0]))) == set()


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.(?:md|ipynb)", config.partition("\nnav:")[2].partition("\nexclude_docs")[0]))
    pages = {path.relative_to(DOCS).as_posix() for kind in ("*.md", "*.ipynb") for path in DOCS.rglob(kind)}
    assert named == pages


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


def test_raw_formulas_and_wide_code_are_faults() -> None:
    wide = "x" * (site.COLUMN + 1)
    assert [fault.partition(":")[0] for fault in site.faults(f"<p>{FORMULA}</p><pre><b>{wide}</b></pre>")] == [
        "raw TeX",
        f"{len(wide)} characters of code in a line",
    ]
    assert site.faults(f"<p>$x$ costs $3</p><code>{FORMULA}</code><pre>{wide[1:]}\n&lt;&lt;</pre><p>{wide}</p>") == []


def test_parameters_need_a_signature() -> None:
    heads = [f'<h3 id="{name}" class="doc doc-heading">{name}</h3>' for name in ("Var", "Context", "NEG_INF")]
    bodies = [
        '<div class="doc-signature"></div><p><strong>Parameters</strong></p>',
        "<p><strong>Parameters</strong></p>",
        "",
    ]
    (fault,) = site.faults("".join(head + body for head, body in zip(heads, bodies, strict=True)))
    assert fault.startswith("no signature:") and "Context" in fault


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml", reason="the site needs it")
    page = site.with_mathml(f"<p>$a$</p>{FORMULA}")
    assert page.startswith("<p>$a$</p>") and "<mfrac>" in page and site.faults(page) == []


def test_what_is_fetched_is_a_fault() -> None:
    for page, fetched in (
        ('<script src="https://x.org/a.js">', "https://x.org/a.js"),
        ('<link rel="a" href="//x.org/b">', "//x.org/b"),
        ('<pre class="mermaid">x</pre>', 'class="mermaid"'),
    ):
        assert site.faults(page) == [f"fetched: {fetched}"]
    assert site.faults('<script src="../a.js"></script><a href="https://x.org/">there</a>') == []


def test_the_picture_of_imports_is_a_table() -> None:
    """Every arrow of the picture is listed in a row."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tables = site.with_tables(page)
    rows = [line for line in tables.splitlines() if re.match(r"\| `(?:intset|bound|lowering)\.", line)]
    assert "mermaid" not in tables and "| `bound.te` | `bound.declare`, `bound.te_schedule` |" in rows
    assert sum(row.partition("` | ")[2].count("`") // 2 for row in rows) == page.count(" --> ")


def test_public_names_come_first_in_the_search() -> None:
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


def test_the_code_of_the_pages_fits_its_column() -> None:
    tutorial = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in tutorial["cells"] if cell["cell_type"] == "code"]
    codes = [code for page in PAGES for code in blocks(page, r"\w*")]
    assert len(codes) > 200 and len(cells) > 10
    for parts, most in ((cells, site.CELL), (codes, site.COLUMN)):
        assert [line for part in parts for line in part.splitlines() if len(line) > most] == []
