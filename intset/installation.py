"""The distribution name of this project, a warning about others with the same import names, and modules on demand.

`intset` 1.1.0 and `bound` 1.0.1 on the package index are other people's distributions with modules of these names:
whichever is installed last overwrites files of the other.
"""

import importlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

DISTRIBUTION = "inferbound"
IMPORT_NAMES = ("intset", "bound", "lowering")


def install_advice(extra: str) -> str:
    """How to install the libraries of an extra; the distribution is on no package index yet."""
    return f"pip install '.[{extra}]' in a clone of {DISTRIBUTION}"


def library_version() -> str:
    """The version of the installed distribution; "(not installed)" for a checkout on the import path."""
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "(not installed)"


class InstallationWarning(UserWarning):
    """Another installed distribution owns a module that this project imports."""


def namesakes(path: Iterable[str]) -> tuple[str, ...]:
    """Other distributions on `path` that own one of the import names, sorted, each as `name version`.

    Reads `top_level.txt` or `RECORD` of each distribution's metadata folder; unreadable metadata is skipped.
    """
    return tuple(sorted({label for folder in path for label in _namesakes_in(folder or ".")}))


def warn_of_namesakes() -> None:
    """Warn in one line, at import, when another installed distribution owns one of the import names."""
    if others := namesakes(sys.path):
        warnings.warn(
            f"{', '.join(others)} owns modules named like those of {DISTRIBUTION}: "
            f"uninstall it, then reinstall {DISTRIBUTION}",
            InstallationWarning,
            stacklevel=3,
        )


def _namesakes_in(folder: str) -> Iterator[str]:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return
    for entry in entries:
        name, _, version = entry.name.rpartition(".")[0].partition("-")
        if re.sub(r"[-_.]+", "-", name).lower() != DISTRIBUTION and _owns_import_name(entry.path):
            yield f"{name} {version}".strip()


def _owns_import_name(metadata: str) -> bool:
    """Whether a metadata folder lists a module with one of the import names."""
    if (modules := _text(metadata, "top_level.txt")) is not None:
        return not set(IMPORT_NAMES).isdisjoint(modules.split())
    files = _text(metadata, "RECORD") or ""
    return re.search(rf"^(?:{'|'.join(IMPORT_NAMES)})(?:/|\.py,)", files, re.MULTILINE) is not None


def _text(metadata: str, name: str) -> str | None:
    try:
        with open(os.path.join(metadata, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


T = TypeVar("T")


def load(name: str) -> None:
    """Import a module once.

    Guarantee: an interrupt raises in the caller while the import completes in the background, because interrupting the
    initialization of an extension module may abort the process.
    """
    if name not in sys.modules:
        uninterrupted(partial(importlib.import_module, name))


def uninterrupted(work: Callable[[], T]) -> T:
    """Run `work` in another thread and return or raise its outcome.

    Guarantee: an interrupt raises in the caller and never inside `work`, since Python runs signal handlers in the main
    thread. Temporaries of `work` die in its thread, where finalizers cannot swallow an interrupt.
    """
    outcome: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="intset uninterrupted", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return outcome[0]


class Later:
    """A placeholder for an object of another module, which its first use loads."""

    __slots__ = ("_name", "_space", "_table")

    def __init__(self, name: str, space: dict[str, Any], table: Mapping[str, str]) -> None:
        self._name, self._space, self._table = name, space, table

    def _loaded(self) -> Any:
        for name, module in self._table.items():
            if isinstance(self._space[name], Later):
                self._space[name] = getattr(importlib.import_module(module), name)
        return self._space[self._name]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._loaded()(*args, **named)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loaded(), attribute)


def load_later(space: dict[str, Any], modules: Mapping[str, tuple[str, ...]]) -> None:
    """Put placeholders into the namespace of a module; the first use of one loads the objects of all.

    Parameters
    ----------
    space: `globals()` of the module.
    modules: names by the module that defines them. Type checkers read them from imports for type checking.
    """
    table = {name: module for module, names in modules.items() for name in names}
    space.update({name: Later(name, space, table) for name in table})


class ModuleLater:
    """A placeholder for a module, which the first use of a name in it loads."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
