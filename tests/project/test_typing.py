"""Types as clients see them: no `Any` in a public signature, and client files that pass strict checkers and run."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import bound
import intset
import lowering
from bound import replay, te, tir
from tests import ROOT

CLIENTS = sorted(path.stem for path in (ROOT / "tests" / "typing_clients").glob("[a-z]*.py"))
PACKAGES = ("intset", "bound", "lowering")
PUBLIC = (intset, intset.ops, bound, te, tir, replay, lowering)
# The operands and payload of a node depend on its operation: `fold` and `Converter` are their typed views.
NODE_FIELDS = frozenset(("args", "data"))
# What `==` gives a type checker must be `Any` or a boolean; Python calls the others.
PLUMBING = frozenset(("__eq__", "__ne__", "__new__", "__setstate__", "__reduce__", "__getattr__", "__get__"))
_ANY = re.compile(r"\bAny\b")


def signatures(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Each annotation of the public names of a module and of the public methods and fields of its classes."""
    names = getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")])
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing):
            yield from members(f"{module.__name__}.{name}", thing)
        elif inspect.isfunction(thing):
            yield from annotations(f"{module.__name__}.{name}", thing)


def members(where: str, cls: type) -> Iterator[tuple[str, str]]:
    for base in cls.__mro__:
        if base.__module__.split(".")[0] not in PACKAGES:
            continue
        for name, member in vars(base).items():
            if name.startswith("_") and (not name.endswith("__") or name in PLUMBING):
                continue
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(function):
                yield from annotations(f"{where}.{name}", function)
        for name, kind in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_") and name not in NODE_FIELDS:
                yield f"{where}.{name}", str(kind)


def annotations(where: str, function: object) -> Iterator[tuple[str, str]]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    for name, parameter in signature.parameters.items():
        yield f"{where}({name})", str(parameter.annotation)
    yield f"{where} ->", str(signature.return_annotation)


def test_no_public_signature_has_any() -> None:
    found = [pair for module in PUBLIC for pair in signatures(module)]
    assert len(found) > 900
    assert [f"{where}: {kind}" for where, kind in found if _ANY.search(kind)] == []

    def lax(x: list[Any], y: int) -> None:  # type: ignore[name-defined]  # noqa: F821
        """An argument of no known type."""

    assert [where for where, kind in annotations("lax", lax) if _ANY.search(kind)] == ["lax(x)"]


def test_client_files_pass_mypy_strict() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "tests/typing_clients"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_client_files_pass_pyright_strict(tmp_path: Path) -> None:
    checker = shutil.which("pyright") or shutil.which("basedpyright")
    if checker is None:
        pytest.skip("neither pyright nor basedpyright is installed")
    settings = {
        "typeCheckingMode": "strict",
        "include": [str(ROOT / "tests" / "typing_clients")],
        "extraPaths": [str(ROOT)],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [checker, "-p", str(tmp_path / "pyrightconfig.json"), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", CLIENTS)
def test_client_files_run(name: str, tmp_path: Path) -> None:
    client = importlib.import_module(f"tests.typing_clients.{name}")
    functions = [f for f in vars(client).values() if inspect.isfunction(f) and f.__module__ == client.__name__]
    calls = 0
    for function in functions:
        parameters = list(inspect.signature(function).parameters)
        if not function.__name__.startswith("_") and parameters in ([], ["folder"]):
            if parameters:
                pytest.importorskip("pyarrow")
            function(*[tmp_path / "results" for _ in parameters])
            calls += 1
    assert calls
