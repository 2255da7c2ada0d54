"""The house: light imports, borders between packages, and a README whose commands are true."""

import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.imports import module_name, nodes
from tests.project.test_guide import blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("intset", "bound", "lowering")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def modules_after(code: str) -> set[str]:
    """The modules loaded in a fresh interpreter after `code`."""
    command = [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


# -- imports ------------------------------------------------------------------------------------------------------


def test_import_intset_is_light() -> None:
    loaded = modules_after("import intset")
    assert not loaded & {"z3", "islpy", "numpy", "bound", "lowering", "rich", "click"}
    assert "intset.expr.node" in loaded and "intset.context" not in loaded  # what answers comes when it is named
    assert "intset.context" in modules_after("from intset import Context")


def test_the_tests_for_domains_need_no_more_than_the_package() -> None:
    code = "from intset.testing import soundness\nassert not soundness('interval', count=5).wrong"
    assert not modules_after(code) & {"hypothesis", "pytest", "bound", "lowering", "numpy"}


def test_a_question_of_the_linear_form_loads_no_engine() -> None:
    code = "from intset import *\ni = Var('i')\nassert Context({i: Range(0, 8)}).bounds(i * 2)[1] is const(14)"
    assert not modules_after(code) & {"z3", "islpy", "numpy"}


def test_a_plain_question_loads_no_general_road() -> None:
    code = "from intset import Context, Range, Var\ni, j = Var('i'), Var('j')\n"
    code += "ctx = Context({i: Range(0, 8), j: Range(0, 4)})"
    loaded = modules_after(f"{code}\nassert ctx.bounds((i * 4 + j) // 8 % 4 * 16 + (i * 4 + j) % 8) == (0, 55)")
    late = {"frame", "linear.canonical", "domains.registry", "prover.proof", "simplify.engine", "cache"}
    assert not loaded & {*(f"intset.{name}" for name in late), "importlib.metadata", "numpy", "islpy", "z3"}
    assert {f"intset.{name}" for name in late} < modules_after(f"{code}\nassert ctx.prove(i < 8)")


@functools.cache
def imported_packages(path: Path) -> frozenset[str]:
    """The top-level packages that a file imports anywhere, inside functions too."""
    found: set[str] = set()
    for node in nodes(module_name(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


def test_only_their_owners_import_the_engines() -> None:
    owners = {
        "islpy": (
            "intset/domains/isl",
            "intset/check/solvers.py",
            "intset/adapters/islpy.py",
            "lowering/adapters/loopy.py",
        ),
        "z3": ("intset/prover", "intset/check/solvers.py", "intset/adapters/z3.py"),
    }
    for path in SOURCES:
        for name in imported_packages(path) & set(owners):
            assert path.relative_to(ROOT).as_posix().startswith(owners[name]), f"{path} imports {name}"


def test_import_borders_are_kept() -> None:
    pytest.importorskip("importlinter")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]


# -- sources ------------------------------------------------------------------------------------------------------


def test_what_the_type_checker_is_told_to_ignore_is_little_and_has_a_reason() -> None:
    ignores = [
        line for path in SOURCES for line in path.read_text(encoding="utf-8").splitlines() if "type: ignore" in line
    ]
    assert len(ignores) <= 30
    assert [line for line in ignores if not re.search(r"# type: ignore\[[\w, -]+\]  # \w", line)] == []


def test_every_package_is_distributed() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in SOURCES}
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()] == []


# -- the README ---------------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_the_readme_opens_with_two_commands() -> None:
    first, second = blocks("README.md", "sh")[:2]
    assert README.index(first) < README.index(second) < README.index("```python")
    for command in (first, second):
        assert command.count("\n") == 1 and command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert "intset bounds" in first and "intset lower" in first and "pytest" in second


def test_the_files_that_the_readme_names_exist() -> None:
    names = set(re.findall(r"\b(?:examples|docs|benchmarks)/[\w./-]*\w", README)) | {".ci/run"}
    assert len(names) >= 4
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
    for module in re.findall(r"python -m (benchmarks\.\w+)", README):
        assert (ROOT / (module.replace(".", "/") + ".py")).exists()


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


def test_the_commands_need_what_is_declared() -> None:
    assert PROJECT["project"]["scripts"] == {"intset": "intset.__main__:main"}
    assert {"test", "dev"} <= set(PROJECT["project"]["optional-dependencies"])
    license_text = (ROOT / PROJECT["project"]["license-files"][0]).read_text(encoding="utf-8")
    assert license_text.strip().startswith("Apache License")


def test_the_library_tour_runs() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "examples/library_tour.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert "(0, n * m - 1)" in done.stdout and "proved" in done.stdout
