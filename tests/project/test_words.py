"""One name, one thing: class names, file names, walkers over statements, and identifiers that were retired.

No exception is left; a new duplicate is a name with too little meaning.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from tests import ROOT
from tests.imports import FILES, nodes, tree


def classes_and_aliases(name: str) -> Iterator[str]:
    """The classes of a module, and its type aliases at module level, without leading underscores."""
    for node in nodes(name):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for node in tree(name).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias"):
            assert isinstance(node.target, ast.Name)
            yield node.target.id.lstrip("_")


def defined_twice(definitions: Mapping[str, set[str]]) -> set[str]:
    return {name for name, modules in definitions.items() if len(modules) > 1}


def test_a_class_name_means_one_thing() -> None:
    definitions: dict[str, set[str]] = defaultdict(set)
    for module in FILES:
        for name in classes_and_aliases(module):
            definitions[name].add(module)
    assert len(definitions) > 300
    assert defined_twice(definitions) == set()


def test_a_file_name_stands_for_two_things_at_most() -> None:
    stems: dict[str, set[str]] = defaultdict(set)
    for module, path in FILES.items():
        if path.name not in {"__init__.py", "errors.py"}:
            stems[path.stem].add(module)
    assert {stem for stem, modules in stems.items() if len(modules) > 2} == set()


def test_nests_are_walked_by_the_driver() -> None:
    """Generators that walk statements for `drive` stand in `lowering.nest.walk` alone."""
    walkers = {
        module
        for module in FILES
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef) and node.returns is not None and "Visit[" in ast.unparse(node.returns)
    }
    assert walkers == {"lowering.nest.walk"}


# Private words that the field has names for; docs/glossary.md has those. Each entry: the old word and what to write.
RETIRED = {
    "gap_free": "contiguous",
    "enclosure": "outer box",
    "fibred": "coordinates become parameters (`dims_to_params`)",
    "worlds": "search states",
    "serving": "call alternatives",
    "turned": "loop interchange",
    "own_share": "the stage's iteration domain of a shared loop",
    "noop": "no-op",
    "alike": "anti-unification",
}


def test_no_retired_identifier_is_left() -> None:
    used = set()
    for module in FILES:
        identifiers = set(re.findall(r"[A-Za-z_]\w*", module))
        for node in nodes(module):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.arg)):
                identifiers.add(node.name if not isinstance(node, ast.arg) else node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                identifiers.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                identifiers.add(node.attr)
        used |= {word for word in RETIRED for one in identifiers if word in one.lower().split("_") or word == one}
        used |= {word for word in RETIRED if "_" in word and any(word in one for one in identifiers)}
    assert used == set()


def test_the_glossary_defines_each_term_once() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*", text_of_glossary(), re.MULTILINE)
    assert len(terms) > 40 and len(terms) == len(set(terms))


@pytest.mark.parametrize(
    "name",
    [
        *(f"docs/{page}.md" for page in ("architecture", "glossary", "adding-a-pass", "adding-a-rule")),
        "CONTRIBUTING.md",
    ],
)
def test_documents_name_files_that_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = re.findall(r"`((?:intset|bound|lowering|tests)/[\w/.]+?)/?`", text)
    assert named and [one for one in named if not (ROOT / one).exists()] == []
    modules = {
        path.name
        for folder in ("intset", "bound", "lowering", "tests", "docs")
        for path in ROOT.glob(f"{folder}/**/*.py")
    }
    assert [one for one in re.findall(r"`(\w+\.py)`", text) if one not in modules | {"setup.py"}] == []


def test_the_walks_have_ten_stops_at_most() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = text.partition("## Four walks")[2].partition("## Rooms")[0]
    assert walks.count("\n1. ") == 4 and "\n11. " not in walks


def text_of_glossary() -> str:
    return (FILES["intset"].parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
