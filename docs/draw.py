"""Draws the picture in `architecture.md` from the imports of the code: `python docs/draw.py`, or `--check` in CI.

Boxes are folders and the top-level files of packages. Arrows are imports, at the top of a file, inside a function or by
name in a text; arrows implied by others are left out, except inside import cycles.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.imports import FILES, imports  # noqa: E402  # of this checkout, installed or not

DOCUMENT = ROOT / "docs" / "architecture.md"
PACKAGES = ("lowering", "bound", "intset")
PICTURE = re.compile(r"(?<=<!-- drawn by docs/draw\.py -->\n).*?(?=<!-- end -->)", re.DOTALL)

Arrows = dict[str, set[str]]


def arrows() -> Arrows:
    """What each box imports from. The public names of a package, gathered from everywhere, are no box."""
    box = {module: _box(module) for module in FILES if module not in PACKAGES}
    found: Arrows = {name: set() for name in sorted(set(box.values()))}
    for module, own in box.items():
        found[own] |= {box[one.target] for one in imports(module) if one.target in box} - {own}
    return found


def _box(module: str) -> str:
    parent = module.rpartition(".")[0]
    return module if parent in PACKAGES or ROOT.joinpath(*module.split(".")).is_dir() else parent


def reached(graph: Arrows) -> Arrows:
    """The transitive imports of each box."""
    found: Arrows = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        found[start] = seen
    return found


def reduced(graph: Arrows) -> Arrows:
    """The arrows that do not follow from others."""
    below = reached(graph)
    return {
        a: {
            b
            for b in direct
            if a in below[b] or not any(b in below[c] and a not in below[c] and c not in below[b] for c in direct - {b})
        }
        for a, direct in graph.items()
    }


def picture() -> str:
    """The graph as Mermaid text."""
    shown = reduced(arrows())
    lines = ["```mermaid", "flowchart TD"]
    for package in PACKAGES:
        lines.append(f"    subgraph {package}")
        own = [name for name in shown if name.partition(".")[0] == package]
        lines += [f"        {_id(name)}[{name.partition('.')[2]}]" for name in own]
        lines.append("    end")
    lines += [f"    {_id(a)} --> {_id(b)}" for a in shown for b in sorted(shown[a])]
    return "\n".join([*lines, "```", ""])


def _id(name: str) -> str:
    return name.replace(".", "_")


def main(arguments: list[str]) -> int:
    text = DOCUMENT.read_text(encoding="utf-8")
    drawn = PICTURE.sub(lambda _: picture(), text)
    if "--check" in arguments:
        if drawn != text:
            print("docs/architecture.md is out of date: run python docs/draw.py")
        return int(drawn != text)
    DOCUMENT.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
