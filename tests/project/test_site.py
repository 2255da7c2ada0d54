"""What the site adds to its pages; the strict build in CI refuses pages with faults."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

from tests import ROOT
from tests.project.test_guide import PAGES, blocks

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
    pages = ['<script src="https://x.org/a.js">', '<link rel="a" href="//x.org/b">', '<pre class="mermaid">x</pre>']
    assert [site.faults(page) for page in pages] == [
        ["fetched: https://x.org/a.js"],
        ["fetched: //x.org/b"],
        ['fetched: class="mermaid"'],
    ]
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
