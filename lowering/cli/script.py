"""Execution of Python scripts that build schedules, and collection of these schedules."""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from bound.schedule import Schedule
from intset import InputError, IntSetError

_MODULE = "intset_script"


@dataclass(slots=True)
class ScriptSchedule:
    """One schedule of a script.

    Attributes
    ----------
    name: the name of its variable, function or entry in `CASES`.
    schedule: `None` if the schedule language refused it.
    sizes: values of symbolic sizes, by name (`sub` of an entry in `CASES`).
    refused: the reason for a refusal, in one line.
    """

    name: str
    schedule: Schedule | None
    sizes: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""


def load_script(path: Path) -> list[ScriptSchedule]:
    """Execute a Python script and return its schedules.

    These are module-level `Schedule` objects, results of functions `schedule` and `schedule_...` without arguments,
    and entries of a list `CASES` (dicts with `name`, `fn` and optionally `sub`).

    Raises
    ------
    InputError: the script cannot be read, fails, or defines no schedule; the message names file and line.
    """
    namespace = _executed(path)
    cases = [*_listed(path, namespace.get("CASES")), *_objects(namespace), *_functions(path, namespace)]
    if not cases:
        raise InputError(
            f"{path}: no schedule found: define a Schedule such as `s`, a function `schedule()`, or a list CASES"
        )
    return cases


def _executed(path: Path) -> dict[str, object]:
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a Python script: it is no UTF-8 text (byte {error.start})") from None
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = getattr(error, "msg", None) or str(error)
        raise InputError(f"{path}{f':{line}' if line else ''}: not a Python script: {message}") from None
    module = ModuleType(_MODULE)
    module.__file__ = str(path)
    sys.modules[_MODULE] = module
    with _script_environment(path), _one_line(path):
        exec(code, module.__dict__)
    return module.__dict__


@contextlib.contextmanager
def _script_environment(path: Path) -> Iterator[None]:
    """Put the script's folder first on the import path, and redirect its stdout to stderr."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Convert exceptions of a script to an `InputError` that names the script's line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f":{frames[-1].lineno}" if frames else ""
        text = str(error).strip()
        message = f": {text.splitlines()[0]}" if text else ""
        raise InputError(f"{path}{line}: the script raised {type(error).__name__}{message}") from error


def _listed(path: Path, entries: object) -> Iterator[ScriptSchedule]:
    if entries is None:
        return
    if not isinstance(entries, (list, tuple)):
        raise InputError(f"{path}: CASES must be a list, not {type(entries).__name__}")
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not callable(entry.get("fn")):
            raise InputError(f"{path}: CASES[{number}] must be a dict with a function 'fn'")
        name = str(entry.get("name") or getattr(entry["fn"], "__name__", f"case {number}"))
        yield _built(path, name, entry["fn"], entry.get("sub") or {})


def _objects(namespace: Mapping[str, Any]) -> Iterator[ScriptSchedule]:
    seen: list[Schedule] = []
    for name, value in namespace.items():
        if isinstance(value, Schedule) and not any(value is other for other in seen):
            seen.append(value)
            yield ScriptSchedule(name, value)


def _functions(path: Path, namespace: Mapping[str, Any]) -> Iterator[ScriptSchedule]:
    for name, value in namespace.items():
        if (name == "schedule" or name.startswith("schedule_")) and inspect.isfunction(value):
            yield _built(path, name, value, {})


def _built(path: Path, name: str, function: Callable[[], object], sizes: Mapping[str, int]) -> ScriptSchedule:
    """Call a function for its schedule; an error of the schedule language gives a refused one."""
    try:
        with _script_environment(path), _one_line(path):
            result = function()
    except InputError as error:
        if isinstance(error.__cause__, IntSetError):
            return ScriptSchedule(name, None, sizes, str(error))
        raise
    schedule = result[0] if isinstance(result, tuple) and result else result
    if not isinstance(schedule, Schedule):
        raise InputError(f"{path}: {name}() must return a Schedule, not {type(schedule).__name__}")
    return ScriptSchedule(name, schedule, sizes)
