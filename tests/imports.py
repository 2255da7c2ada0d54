"""The imports between modules of this project, read from the code: at the top of a file, inside functions, and by name.

A text names a module if it is the module's full name, also as `package.module:name`; a docstring names none.
"""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("intset", "bound", "lowering")  # lowest first
AROUND = ("benchmarks", "docs", "examples", "tests")  # folders above all packages
LOADERS = ("import_module", "__import__")
GROUP = ("intset.config", "intset.domains")  # the text names a group of entry points, not the package


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
_AROUND = {module_name(path) for folder in AROUND for path in (ROOT / folder).rglob("*.py")}


class Import(NamedTuple):
    module: str  # that imports
    target: str  # what it imports: a module of this project
    line: int
    is_late: bool  # below module level, or by name
    is_typing: bool = False  # under `if TYPE_CHECKING`


@functools.cache
def text(name: str) -> str:
    return FILES[name].read_text(encoding="utf-8")


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(text(name))


@functools.cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """The syntax nodes of a module."""
    return tuple(ast.walk(tree(name)))


@functools.cache
def imports(name: str) -> tuple[Import, ...]:
    """The imports of a module that happen when it runs; those for types alone are `type_imports`."""
    return (*(one for one in _statements(name, tree(name), False) if not one.is_typing), *_named(name))


def type_imports(name: str) -> tuple[Import, ...]:
    """The imports under `if TYPE_CHECKING`."""
    return tuple(one for one in _statements(name, tree(name), False) if one.is_typing)


@functools.cache
def every_import() -> tuple[Import, ...]:
    return tuple(one for name in FILES for one in imports(name))


def _statements(name: str, part: ast.AST, late: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(part):
        if not isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue  # no statement stands in an expression
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for_types = _statements(name, ast.Module(node.body, []), late)
            yield from (one._replace(is_typing=True) for one in for_types)
            yield from _statements(name, ast.Module(node.orelse, []), late)
        elif isinstance(node, ast.Import):
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
            yield from _statements(name, node, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _named(name: str) -> Iterator[Import]:
    """What the texts of a module name, and the first argument of a call that loads a module, parts of it included."""
    documentation = {id(node.value) for node in nodes(name) if isinstance(node, ast.Expr)}
    loaded: set[int] = set()
    for call in (node for node in nodes(name) if isinstance(node, ast.Call) and node.args):
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in LOADERS:
            loaded |= {id(part) for part in ast.walk(call.args[0])}
    for node in nodes(name):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documentation:
            continue
        dotted = node.value.partition(":")[0].strip(".")
        if (name, dotted) == GROUP:
            continue
        if (dotted in FILES or dotted in _AROUND) and ("." in dotted or id(node) in loaded):
            yield from _target(name, dotted, node.lineno, True)


def _target(name: str, dotted: str, line: int, late: bool) -> Iterator[Import]:
    if dotted.partition(".")[0] in AROUND:
        yield Import(name, dotted, line, late)
        return
    while dotted and dotted not in FILES:
        dotted = dotted.rpartition(".")[0]
    if dotted and dotted != name:
        yield Import(name, dotted, line, late)


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
