"""What the site has beyond Markdown: formulas as MathML, imports as tables, an order of search.

`mkdocs.yml` names it as a hook. The build fails on a page that a browser shows badly: raw TeX, parameters without a
signature, code wider than its column on a screen of 1,280 pixels, or anything fetched from another machine.
"""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

COLUMN = 122  # characters of code on a screen of 1,280 pixels, by docs/site.css
CELL = 107  # characters of code in a notebook's cell
BOOST = 10  # of a public name in the search, over sentences and attributes with the same word

_LATEX = re.compile(r'(<div class="jp-RenderedLatex[^>]*>)\s*\$+(.*?)\$+\s*(</div>)', re.DOTALL)
_CODE = re.compile(r"<(pre|code|script|style)\b[^>]*>(.*?)</\1>", re.DOTALL)
_RAW = re.compile(r"\$[^$<>]*\\[a-z]+[^$<>]*\$")
_FLOWCHART = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"|(class="mermaid")')
_NAME = re.compile(r"reference/[\w-]+/#(?:intset|bound|lowering)(?:\.[a-z]\w*)*\.(\w+)")


def with_mathml(html: str) -> str:
    """A page with the formulas of its notebook as MathML, which needs no script."""
    from latex2mathml.converter import convert

    return _LATEX.sub(lambda found: f"{found[1]}{convert(unescape(found[2]))}{found[3]}", html)


def with_tables(markdown: str) -> str:
    """A page with its flowcharts as tables of imports, one a package: a browser would fetch what draws them."""
    return _FLOWCHART.sub(lambda found: _tables(found[1]), markdown)


def _tables(flowchart: str) -> str:
    packages: dict[str, list[str]] = {}
    full: dict[str, str] = {}
    for package, body in re.findall(r"subgraph (\w+)\n(.*?)    end\n", flowchart, re.DOTALL):
        boxes = re.findall(r"(\w+)\[(.*?)\]", body)
        packages[package] = [key for key, _ in boxes]
        full |= {key: f"{package}.{label}" for key, label in boxes}
    arrows = re.findall(r"(\w+) --> (\w+)", flowchart)
    lines: list[str] = []
    for package, keys in packages.items():
        lines += ["", f"| `{package}` | imports |", "|---|---|"]
        for key in keys:
            targets = (f"`{full[b]}`" for a, b in arrows if a == key)
            lines.append(f"| `{full[key]}` | {', '.join(targets)} |")
    return "\n".join([*lines, ""])


def boosted(index: dict[str, Any], public: frozenset[str]) -> dict[str, Any]:
    """A search index that ranks the sections of public names above others with the same words."""
    docs = [
        {**doc, "boost": BOOST} if (name := _NAME.fullmatch(doc["location"])) and name[1] in public else doc
        for doc in index["docs"]
    ]
    return {**index, "docs": docs}


def faults(html: str) -> list[str]:
    """Missing signatures and external resources of a page."""
    named = [part for part in html.split('class="doc doc-heading"')[1:] if "<strong>Parameters</strong>" in part]
    bare = [re.sub(r"<[^>]*>|\s+", " ", part)[:60] for part in named if "doc-signature" not in part]
    raw = _RAW.findall(_CODE.sub("", html))
    blocks = [unescape(re.sub(r"<[^>]+>", "", code)) for tag, code in _CODE.findall(html) if tag == "pre"]
    most = CELL if "jp-Cell" in html else COLUMN
    lines = [line for block in blocks for line in block.splitlines() if len(line) > most]
    return (
        [f"no signature: {text}" for text in bare]
        + [f"raw TeX: {text}" for text in raw]
        + [f"fetched: {address or text}" for address, text in _FETCHED.findall(html)]
        + [f"{len(line)} characters of code in a line: {line}" for line in lines]
    )


def on_page_markdown(markdown: str, **_: Any) -> str:
    return with_tables(markdown)


def on_page_content(html: str, **_: Any) -> str:
    return with_mathml(html)


def on_post_build(config: Any, **_: Any) -> None:
    from mkdocs.exceptions import PluginError

    folder = Path(config["site_dir"])
    file = folder / "search" / "search_index.json"
    index = boosted(json.loads(file.read_text(encoding="utf-8")), public_names())
    file.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
    found = [
        f"{page.relative_to(folder)}: {fault}"
        for page in sorted(folder.rglob("index.html"))
        for fault in faults(page.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("\n".join(found))


def public_names() -> frozenset[str]:
    """The public names of the packages, without the names of their modules."""
    import bound
    import intset
    import lowering
    from bound import te, tir

    return frozenset(name for module in (intset, bound, lowering, te, tir) for name in module.__all__)
