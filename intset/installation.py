"""The distribution name of this project, a warning about others with the same import names, and libraries on demand.

`intset` 1.1.0 and `bound` 1.0.1 on the package index are other people's distributions with modules of these names:
whichever is installed last overwrites files of the other.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

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
