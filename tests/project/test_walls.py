"""Imports between modules have no cycles, also inside functions."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("intset", "bound", "lowering")
HEAVY = {"islpy", "z3", "numpy", "matplotlib", "pyarrow"}
DOTTED = re.compile(r"(?:intset|bound|lowering)(?:\.\w+)+")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


@functools.cache
def text(name: str) -> str:
    return FILES[name].read_text(encoding="utf-8")


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text(name)) for name in FILES}


@functools.cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """The syntax nodes of a module, cached for all tests."""
    return tuple(ast.walk(trees()[name]))


class Import(NamedTuple):
    module: str  # that imports
    target: str  # what it imports: a module of this project
    line: int
    is_late: bool  # below module level
    is_typing: bool = False  # under `if TYPE_CHECKING`


def imports(name: str) -> Iterator[Import]:
    """The imports between modules of this project, without those for types alone. A call of `importlib` imports each
    module that the strings of its caller name."""
    yield from (one for one in _found(name, trees()[name], False) if not one.is_typing)
    if "import_module" in text(name):
        for node in nodes(name):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                dotted = node.value.partition(":")[0]
                if DOTTED.fullmatch(dotted) and dotted in FILES:
                    yield Import(name, dotted, node.lineno, True)


def _found(name: str, tree: ast.AST, late: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue  # no import stands in an expression
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                yield from (one._replace(is_typing=True) for one in _found(name, ast.Module([statement]), late))
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
            yield from _found(name, node, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _target(name: str, dotted: str, line: int, late: bool) -> Iterator[Import]:
    while dotted and dotted not in FILES:
        dotted = dotted.rpartition(".")[0]
    if dotted and dotted != name:
        yield Import(name, dotted, line, late)


@functools.cache
def every_import() -> tuple[Import, ...]:
    return tuple(one for name in FILES for one in imports(name))


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
    """A table of module names counts as imports of the module that loads them."""
    late = {(one.module, one.target) for one in every_import() if one.is_late}
    assert ("bound.te_schedule", "lowering.tvm") in late and ("intset", "intset.context") in late


HOOKS = {  # loaded by name: the interface of TVM, the cost model of loops, and what notebooks show
    ("intset.expr.printer", "intset.notebook"),
    ("bound.infer.infer_bound", "bound.tables"),
    ("bound.te_schedule", "lowering.tvm"),
    ("bound.infer.infer_bound", "lowering.forms.choose"),
}


def test_no_circle_of_imports() -> None:
    graph: dict[str, set[str]] = {name: set() for name in FILES}
    for one in every_import():
        if (one.module, one.target) not in HOOKS:
            graph[one.module].add(one.target)
    assert circles(graph) == []


def test_few_imports_below_module_level() -> None:
    """Late imports load heavy modules, or keep `import intset` light."""
    late = [one for one in every_import() if one.is_late]
    assert len(late) <= 44, late
    for one in late:
        assert one.module == "intset" or (one.module, one.target) in HOOKS or is_heavy(one.target), one


@functools.cache
def is_heavy(name: str) -> bool:
    """Whether a module imports a heavy library at module level, directly or through others."""
    seen, waiting = {name}, [name]
    while waiting:
        top = waiting.pop()
        for node in nodes(top):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if HEAVY & {one.partition(".")[0] for one in named}:
                return True
        new = {one.target for one in every_import() if one.module == top and not one.is_late} - seen
        seen |= new
        waiting += new
    return False


def test_types_know_one_another_in_small_knots() -> None:
    """Imports for types count: at most 9 modules reach one another."""
    graph = {name: {one.target for one in _found(name, trees()[name], False)} for name in FILES}
    assert max(map(len, circles(graph))) <= 9


def test_isl_is_named_by_the_registry_alone() -> None:
    """Only two modules of the registry and islpy's adapter import the isl domain, and no other string names it."""
    inside = "intset.domains.isl"
    importers = {one.module for one in every_import() if one.target.startswith(inside)}
    assert {name for name in importers if not name.startswith(inside)} == {
        "intset.domains.ranked",
        "intset.domains.registry",
        "intset.adapters.islpy",
    }
    for name in FILES:
        if name == "intset.check.isl_text" or name.startswith(inside):
            continue
        strings = {node.value for node in nodes(name) if isinstance(node, ast.Constant)}
        assert not {"islpy", inside} & {text for text in strings if isinstance(text, str)}, name


def test_names_of_domains_are_not_compared() -> None:
    """Only the registry knows domains by name; other code asks their types."""
    from intset.names import BUILT_IN

    wrong = []
    for name in FILES:
        if name in {"intset.names", "intset.domains.registry"} or name.startswith("intset.check"):
            continue
        for node in nodes(name):
            parts: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                parts = list(ast.walk(node))
            elif isinstance(node, ast.keyword) and node.arg in {"domain", "by", "tiers"}:
                if name.startswith("intset") and node.arg == "tiers":
                    continue
                parts = list(ast.walk(node.value))
            elif isinstance(node, ast.Call) and "domain_named" in {
                getattr(node.func, key, "") for key in ("id", "attr")
            }:
                parts = list(node.args)
            named = {part.value for part in parts if isinstance(part, ast.Constant)}  # a tier may be called as a domain
            if named & set(BUILT_IN) - {name.rpartition(".")[2]} and (
                not isinstance(node, ast.Compare) or re.search(r"\bdomain\b|\bby\b", ast.unparse(node))
            ):
                wrong.append(f"{name}:{getattr(node, 'lineno', '?')}")
    assert wrong == []


def own_names(name: str) -> set[str]:
    """The names with an underscore that a module defines, anywhere."""
    found = set()
    for node in nodes(name):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # of __slots__
    return found


PUBLIC_ALL_THE_SAME = {"_replace", "_asdict", "_fields"}  # of named tuples


def test_private_names_stay_private() -> None:
    wrong = []
    for name in FILES:
        own = own_names(name) | PUBLIC_ALL_THE_SAME
        for node in nodes(name):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
                wrong += [f"{name}: {a.name}" for a in node.names if a.name.startswith("_")]
            elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                if node.attr in own or getattr(node.value, "id", "") in {"self", "cls", "os", "sys"}:
                    continue
                wrong.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


# What `bound` and `lowering` stand on; see "What is public" in docs/architecture.md.
PUBLIC = re.compile(
    r"intset(\.(adapters\.\w+|budgets|config|configured|context|deprecation|errors|facts|infinity|installation|names"
    r"|notebook|trace"
    r"|expr(\.\w+)?|linear(\.\w+)?|regions(\.\w+)?"
    r"|itermap(\.\w+)?|spaces\.space|simplify(\.\w+)?|prover\.(proof|explain)|domains\.(protocols|query|registry"
    r"|certified\.consistency|sets\.(answers|base|bounds|elements|region))))?"
)


def test_what_is_built_on_intset_uses_what_is_public() -> None:
    used = {
        one.target for one in every_import() if not one.module.startswith("intset") and one.target.startswith("intset")
    }
    assert len(used) > 20 and [name for name in sorted(used) if not PUBLIC.fullmatch(name)] == []
