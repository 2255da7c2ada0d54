"""Imports are light, point down and have no cycles, also inside functions and by name; one name is one thing."""

import ast
import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests import ROOT
from tests.imports import (
    AROUND,
    FILES,
    LOADERS,
    PACKAGES,
    circles,
    every_import,
    imports,
    nodes,
    text,
    tree,
    type_imports,
)
from tests.intset.elsewhere import ran

HEAVY = {"islpy", "z3", "numpy", "matplotlib", "pyarrow"}
GATES = ("intset", "bound", "lowering", "lowering.cli")  # packages, which load what they offer on first use
PLAIN = ("intset.context", "intset.domains.sets.ends")  # load what the plain way does not need, by `load_later`
ENTRY = ("intset.__main__", "lowering.cli.app")  # `python -m intset` and the command: the one import that points up


def test_circles_are_found_and_there_are_none() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles(graph) == [["b", "c"]] and circles({"a": {"b"}, "b": set()}) == []
    # Every module alone, with each import that may happen when it runs.
    assert circles({name: {one.target for one in imports(name)} & {*FILES} for name in FILES}) == []
    # Imports for types count: at most 9 modules reach one another.
    graph = {name: {one.target for one in (*imports(name), *type_imports(name))} & {*FILES} for name in FILES}
    assert max(map(len, circles(graph))) <= 9


WAYS = {  # to import lowering.lower from bound.te
    "at the top": "import lowering.lower\n",
    "a name of it": "from lowering.lower import lower\n",
    "in a function": "def f():\n    from lowering import lower\n",
    "in an else": "if TYPE_CHECKING:\n    pass\nelse:\n    import lowering.lower\n",
    "by its name": "importlib.import_module('lowering.lower')\n",
    "by a table": "TABLE = {'lower': 'lowering.lower'}\n",
    "a name of it by name": "HOME = 'lowering.lower:lower'\n",
    "by a part of its name": "def f(name):\n    return import_module(f'lowering.lower.{name}')\n",
    "by a call": "__import__('lowering.lower')\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_import_is_seen(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f'"""As lowering.lower does."""\n{WAYS[way]}'
    monkeypatch.setattr("tests.imports.tree", lambda name: ast.parse(code))
    monkeypatch.setattr("tests.imports.nodes", lambda name: tuple(ast.walk(parsed)))
    parsed = ast.parse(code)
    assert {one.target for one in imports.__wrapped__("bound.te")} == {"lowering.lower"}


def test_texts_name_modules_in_full_alone_and_an_import_points_down() -> None:
    # A docstring names none, and neither does the name of a package outside of a call that loads it.
    assert not [one for one in imports("intset.errors") if one.target.startswith("lowering")]
    assert not [one for one in imports("intset.installation") if one.target in PACKAGES]
    # Also inside functions and by name; the folders around the packages rank above all packages.
    height = {name: k for k, name in enumerate((*PACKAGES, *AROUND))}
    up = [
        one
        for one in (*every_import(), *(late for name in FILES for late in type_imports(name)))
        if height[one.module.partition(".")[0]] < height[one.target.partition(".")[0]]
    ]
    assert [(one.module, one.target) for one in up] == [ENTRY]


def test_modules_are_loaded_by_name_or_late_in_few_places() -> None:
    # The gates of packages, and libraries that are optional; a computed name would escape the tests above.
    loading = {name for name in FILES if any(loader in text(name) for loader in LOADERS)}
    assert loading == {  # libraries and what the plain way does not need; the core in C; tvm under another name
        "intset", "intset.__main__", "intset.adapters.torch", "intset.expr.storage", "intset.installation",
        "intset.spaces.space", "lowering.explore.dataset", "lowering.tvm.outside",
    }  # fmt: skip
    # Late imports load heavy modules, or keep a package light.
    late = [one for one in every_import() if one.is_late and (one.module, one.target) != ENTRY]
    assert len([one for one in late if one.module not in PLAIN]) <= 45, late
    for one in late:
        assert one.module in (*GATES, *PLAIN) or is_heavy(one.target), one


@functools.cache
def libraries(name: str) -> frozenset[str]:
    """The top-level packages that a module imports anywhere, inside functions too."""
    found: set[str] = set()
    for node in nodes(name):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


@functools.cache
def is_heavy(name: str) -> bool:
    """Whether a module imports a heavy library at module level, directly or through others."""
    seen, waiting = {name}, [name]
    while waiting:
        top = waiting.pop()
        if HEAVY & libraries(top):
            return True
        new = {one.target for one in every_import() if one.module == top and not one.is_late} - seen
        seen |= new
        waiting += new
    return False


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
        if name == "intset.check.solvers" or name.startswith(inside):
            continue
        strings = {node.value for node in nodes(name) if isinstance(node, ast.Constant)}
        assert not {"islpy", inside} & {text for text in strings if isinstance(text, str)}, name


def test_names_of_domains_are_not_compared() -> None:
    """Only the registry knows domains by name; other code asks their types."""
    from intset.config import BUILT_IN

    wrong = []
    for name in FILES:
        if name in {"intset.config", "intset.domains.registry"} or name.startswith("intset.check"):
            continue
        if name == "lowering.tvm.arith":  # `modular_set` of scripts is the question of one domain
            continue
        others = set(BUILT_IN) - {name.rpartition(".")[2]}
        for node in nodes(name):
            parts: list[ast.AST] = []
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
            if named & others and (
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
    r"intset(\.(adapters\.\w+|config|configured|context|errors|facts|installation|names"
    r"|notebook|trace|check\.bit_rows"
    r"|expr(\.\w+)?|linear(\.\w+)?|regions(\.\w+)?"
    r"|itermap(\.\w+)?|spaces\.(space|vectors)|simplify(\.\w+)?|prover\.(proof|explain)|domains\.(query|registry|ranked"
    r"|sets\.(answers|base|bounds|region))))?"
)


def test_what_is_public_is_used_and_engines_have_owners() -> None:
    used = {
        one.target for one in every_import() if not one.module.startswith("intset") and one.target.startswith("intset")
    }
    assert len(used) > 20 and [name for name in sorted(used) if not PUBLIC.fullmatch(name)] == []
    owners = {
        "islpy": ("intset.domains.isl", "intset.check.solvers", "intset.adapters.islpy", "lowering.adapters.loopy"),
        "z3": ("intset.prover", "intset.check.solvers", "intset.adapters.z3"),
    }
    for module in FILES:
        for name in libraries(module) & set(owners):
            assert module.startswith(owners[name]), f"{module} imports {name}"


def modules_after(code: str) -> set[str]:
    """The modules loaded in a fresh interpreter after `code`."""
    return set(ran("-c", f"{code}\nimport sys\nprint(*sorted(sys.modules))").splitlines()[-1].split())


def test_little_is_loaded_before_it_is_needed() -> None:
    loaded = modules_after("import intset")
    assert not loaded & {"z3", "islpy", "numpy", "bound", "lowering", "rich", "click"}
    assert "intset.expr.node" in loaded and "intset.context" not in loaded  # what answers comes when it is named
    assert "intset.context" in modules_after("from intset import Context")
    code = "from intset.testing import soundness\nassert not soundness('interval', count=5).wrong"
    assert not modules_after(code) & {"hypothesis", "pytest", "bound", "lowering", "numpy"}
    code = "from intset import *\ni = Var('i')\nassert Context({i: Range(0, 8)}).bounds(i * 2)[1] is const(14)"
    assert not modules_after(code) & {"z3", "islpy", "numpy"}
    code = "from intset import Context, Range, Var\ni, j = Var('i'), Var('j')\n"
    code += "ctx = Context({i: Range(0, 8), j: Range(0, 4)})"
    loaded = modules_after(f"{code}\nassert ctx.bounds((i * 4 + j) // 8 % 4 * 16 + (i * 4 + j) % 8) == (0, 55)")
    late = {"frame", "linear.canonical", "domains.registry", "prover.proof", "simplify.engine", "cache"}
    assert not loaded & {*(f"intset.{name}" for name in late), "importlib.metadata", "numpy", "islpy", "z3"}
    assert {f"intset.{name}" for name in late} < modules_after(f"{code}\nassert ctx.prove(i < 8)")


def test_import_borders_are_kept_and_ignored_types_have_reasons() -> None:
    pytest.importorskip("importlinter")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    ignores = [line for name in FILES for line in text(name).splitlines() if "type: ignore" in line]
    assert len(ignores) <= 30
    assert [line for line in ignores if not re.search(r"# type: ignore\[[\w, -]+\]  # \w", line)] == []


def test_every_package_is_distributed_and_settings_name_tests_that_exist() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in FILES.values()}
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()] == []
    scripts = [ROOT / "pyproject.toml", *(ROOT / ".ci").iterdir()]
    named = {
        one for path in scripts for one in re.findall(r"\btests/[\w/]+(?:\.py)?", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20 and [one for one in sorted(named) if not (ROOT / one).exists()] == []


# -- names ------------------------------------------------------------------------------------------------------------


def classes_and_aliases(name: str) -> Iterator[str]:
    """The classes of a module, and its type aliases at module level, without leading underscores."""
    for node in nodes(name):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for node in tree(name).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias"):
            assert isinstance(node.target, ast.Name)
            yield node.target.id.lstrip("_")


def test_names_mean_one_thing_and_none_is_retired() -> None:
    definitions: dict[str, set[str]] = defaultdict(set)
    for module in FILES:
        for name in classes_and_aliases(module):
            definitions[name].add(module)
    assert len(definitions) > 300
    assert {name for name, modules in definitions.items() if len(modules) > 1} == set()
    stems: dict[str, set[str]] = defaultdict(set)
    for module, path in FILES.items():
        if path.name not in {"__init__.py", "errors.py"}:
            stems[path.stem].add(module)
    assert {stem for stem, modules in stems.items() if len(modules) > 2} == set()
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


def test_nests_are_walked_by_the_driver() -> None:
    """No function but the driver walks statements by generators of its own."""
    walkers = {
        module
        for module in FILES
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef) and node.returns is not None and "Visit[" in ast.unparse(node.returns)
    }
    assert not walkers


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


def test_the_glossary_defines_each_term_once_and_the_walks_have_ten_stops_at_most() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\*\*(.+?)\*\*", glossary, re.MULTILINE)
    assert len(terms) > 40 and len(terms) == len(set(terms))
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = text.partition("## Four walks")[2].partition("## Rooms")[0]
    assert walks.count("\n1. ") == 4 and "\n11. " not in walks


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
