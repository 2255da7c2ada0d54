"""The walls between modules: imports without circles, also inside functions, and few of those."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("intset", "bound", "lowering")
HEAVY = {"islpy", "z3", "numpy", "matplotlib"}
DOTTED = re.compile(r"(?:intset|bound|lowering)(?:\.\w+)+")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


class Import(NamedTuple):
    module: str  # that imports
    target: str  # what it imports: a module of this project
    line: int
    is_late: bool  # below module level


def imports(name: str) -> Iterator[Import]:
    """Every import of a module of this project, but for those that only types need; a module that calls `importlib`
    imports each module that its strings name."""
    yield from _found(name, TREES[name], False)
    if "import_module" in ast.unparse(TREES[name]):
        for node in ast.walk(TREES[name]):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value.partition(":")[0]
                if DOTTED.fullmatch(text) and text in FILES:
                    yield Import(name, text, node.lineno, True)


def _found(name: str, tree: ast.AST, late: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _target(name, alias.name, node.lineno, late)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                own = name.split(".") if FILES[name].name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*own[: len(own) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                yield from _target(name, f"{base}.{alias.name}", node.lineno, late)
        else:
            yield from _found(name, node, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))


def _target(name: str, dotted: str, line: int, late: bool) -> Iterator[Import]:
    while dotted and dotted not in FILES:
        dotted = dotted.rpartition(".")[0]
    if dotted and dotted != name:
        yield Import(name, dotted, line, late)


ALL = [one for name in FILES for one in imports(name)]


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach one another: Tarjan's strongly connected components of more than one module."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: list[list[str]] = []
    for root in graph:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        open_.append(root)
        path = [(root, iter(sorted(graph[root])))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    open_.append(target)
                    path.append((target, iter(sorted(graph[target]))))
                    break
                if target in open_:
                    low[node] = min(low[node], number[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    k = open_.index(node)
                    if len(open_) - k > 1:
                        found.append(sorted(open_[k:]))
                    del open_[k:]
    return found


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles(graph) == [["b", "c"]] and circles({"a": {"b"}, "b": set()}) == []


def test_imports_inside_functions_are_seen() -> None:
    """islpy's own module is imported by nobody else; what a table of strings names is imported by who loads it."""
    late = {(one.module, one.target) for one in ALL if one.is_late}
    assert ("bound.te_schedule", "lowering.tvm") in late and ("intset", "intset.context") in late


MOST_IN_A_CIRCLE = 0


def test_no_circle_of_imports() -> None:
    graph: dict[str, set[str]] = {name: set() for name in FILES}
    for one in ALL:
        if (one.module, one.target) != ("bound.te_schedule", "lowering.tvm"):  # TVM's face, found by name
            graph[one.module].add(one.target)
    found = circles(graph)
    assert sum(map(len, found)) <= MOST_IN_A_CIRCLE, found
