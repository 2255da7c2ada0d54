"""Inputs of the commands: Python scripts that build schedules or define spaces, and corpora of index expressions.

A corpus is a JSON file, a list of rows. A row is an object with the fields

    op, kind    where it comes from; kind is "store", "load" (index expressions) or "pred" (conditions)
    vars        [name, min, extent] of each iteration variable; min and extent are texts, possibly over sizes
    params      the names of sizes, each at least 1
    conds       conditions that hold
    exprs       what is asked about, in Python's expression syntax
    truth       one entry per expression: [min, max, ...] of an index (texts where symbolic), null where unknown;
                "true", "false" or "both" of a condition
"""

import contextlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from bound.schedule import Schedule
from intset import Cond, Context, Expr, InputError, IntSetError, Range, ShapeVar, Var, parse
from intset.expr import shown
from lowering.explore.measures import source_of

_MODULE = "intset_script"
Read = TypeVar("Read", bound="Cond | Expr")


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
    namespace = executed(path, script_text(path))
    cases = list(_listed(path, namespace.get("CASES")))
    seen: dict[int, ScriptSchedule] = {}
    for name, value in namespace.items():
        if isinstance(value, Schedule):
            seen.setdefault(id(value), ScriptSchedule(name, value))
    cases += seen.values()
    for name, value in namespace.items():
        if (name == "schedule" or name.startswith("schedule_")) and inspect.isfunction(value):
            cases.append(_built(path, name, value, {}))
    if not cases:
        raise InputError(
            f"{path}: no schedule found: define a Schedule such as `s`, a function `schedule()`, or a list CASES"
        )
    return cases


def script_text(path: Path) -> str:
    """The text of a Python script; raises `InputError` if it is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a Python script: it is no UTF-8 text (byte {error.start})") from None


def executed(path: Path, source: str) -> dict[str, Any]:
    """The names that a script defines; the path serves messages and relative imports.

    Raises
    ------
    InputError: it is no Python, or it fails; the message names the line.
    """
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = getattr(error, "msg", None) or str(error)
        raise InputError(f"{path}{f':{line}' if line else ''}: not a Python script: {message}") from None
    module = ModuleType(_MODULE)
    module.__file__ = str(path)
    sys.modules[_MODULE] = module
    with _running(path):
        exec(code, module.__dict__)
    return module.__dict__


@contextlib.contextmanager
def _running(path: Path) -> Iterator[None]:
    """Put the script's folder first on the import path, redirect its stdout to stderr, and convert its exceptions to an
    `InputError` that names the script's line."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f":{frames[-1].lineno}" if frames else ""
        text = str(error).strip()
        message = f": {text.splitlines()[0]}" if text else ""
        raise InputError(f"{path}{line}: the script raised {type(error).__name__}{message}") from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


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


def _built(path: Path, name: str, function: Callable[[], object], sizes: Mapping[str, int]) -> ScriptSchedule:
    """Call a function for its schedule; an error of the schedule language gives a refused one."""
    try:
        with _running(path):
            result = function()
    except InputError as error:
        if isinstance(error.__cause__, IntSetError):
            return ScriptSchedule(name, None, sizes, str(error))
        raise
    schedule = result[0] if isinstance(result, tuple) and result else result
    if not isinstance(schedule, Schedule):
        raise InputError(f"{path}: {name}() must return a Schedule, not {type(schedule).__name__}")
    return ScriptSchedule(name, schedule, sizes)


@dataclass(frozen=True)
class ScriptFunction:
    """A function of a script. Workers receive the script's text and execute it once each."""

    path: str
    text: str
    name: str

    def source_text(self) -> str:
        """The text of the function alone, so that results stay when the space of the script changes."""
        return source_of(_namespace(self.path, self.text)[self.name])

    def __call__(self, given: Any) -> Any:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the report's
            return _namespace(self.path, self.text)[self.name](given)


@lru_cache(maxsize=4)
def _namespace(path: str, text: str) -> Mapping[str, Any]:
    return executed(Path(path), text)


def load_space(path: Path) -> tuple[Any, ScriptFunction | None, ScriptFunction | None]:
    """A script's `space`, with its optional `make` and `measure`.

    Raises
    ------
    InputError: the script cannot be read or fails, has no space, or something else by one of these names.
    """
    text = script_text(path)
    namespace = _namespace(str(path), text)
    if "space" not in namespace:
        raise InputError(f"{path}: a space is expected: define space = Space(...), and make and measure to explore it")
    functions = {name: namespace.get(name) for name in ("make", "measure")}
    for name, value in functions.items():
        if value is not None and not callable(value):
            raise InputError(f"{path}: {name} must be a function, not {shown(value)}")
    make, measure = (value and ScriptFunction(str(path), text, name) for name, value in functions.items())
    return namespace["space"], make, measure


_FIELDS = {"op": str, "kind": str, "vars": list, "params": list, "conds": list, "exprs": list, "truth": list}
_KINDS = ("store", "load", "pred")
_JSON_NAMES = {str: "a string", list: "a list"}


@dataclass(frozen=True, slots=True)
class CorpusRow:
    """One row as it is written. `number` counts from 0; `file` is for messages."""

    file: str
    number: int
    op: str
    kind: str
    variables: tuple[tuple[str, str, str], ...]
    params: tuple[str, ...]
    conditions: tuple[str, ...]
    exprs: tuple[str, ...]
    truth: tuple[Any, ...]

    @property
    def where(self) -> str:
        return f"{self.file}: row {self.number} ({self.op})"

    @property
    def is_predicate(self) -> bool:
        return self.kind == "pred"


def read_rows(path: Path) -> list[CorpusRow]:
    """The rows of a corpus file.

    Raises
    ------
    InputError: the file is not JSON, not a list, or a row lacks a field; the message names file, row and field.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON: it is no UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InputError(f"{path}: not a corpus: the JSON is nested too deep") from None
    if not isinstance(data, list):
        raise InputError(f"{path}: not a corpus: a list of rows is expected, not {_kind_of(data)}")
    return [_row(str(path), number, entry) for number, entry in enumerate(data)]


def _row(file: str, number: int, entry: object) -> CorpusRow:
    where = f"{file}: row {number}"
    if not isinstance(entry, dict):
        raise InputError(f"{where}: an object is expected, not {_kind_of(entry)}")
    if isinstance(entry.get("op"), str):
        where += f" ({entry['op']})"
    for name, kind in _FIELDS.items():
        if name not in entry:
            raise InputError(f"{where}: the field {shown(name)} is missing")
        if not isinstance(entry[name], kind):
            raise InputError(f"{where}: {shown(name)} must be {_JSON_NAMES[kind]}, not {_kind_of(entry[name])}")
    if entry["kind"] not in _KINDS:
        raise InputError(f"{where}: unknown kind {shown(entry['kind'])}; known: {', '.join(_KINDS)}")
    for name in ("params", "conds", "exprs"):
        for k, text in enumerate(entry[name]):
            if not isinstance(text, str):
                raise InputError(f"{where}: {name}[{k}] must be a string, not {_kind_of(text)}")
    if len(entry["truth"]) != len(entry["exprs"]):
        raise InputError(f"{where}: {len(entry['exprs'])} exprs but {len(entry['truth'])} entries in 'truth'")
    for k, truth in enumerate(entry["truth"]):
        _check_truth(f"{where}: truth[{k}]", truth, entry["kind"] == "pred")
    variables = tuple(_variable(f"{where}: vars[{k}]", variable) for k, variable in enumerate(entry["vars"]))
    lists = (tuple(entry[name]) for name in ("params", "conds", "exprs", "truth"))
    return CorpusRow(file, number, entry["op"], entry["kind"], variables, *lists)


def _variable(where: str, entry: object) -> tuple[str, str, str]:
    if not isinstance(entry, list) or len(entry) != 3:
        raise InputError(f"{where}: [name, min, extent] is expected")
    if not isinstance(entry[0], str) or not all(type(part) in (str, int) for part in entry[1:]):
        raise InputError(f"{where}: a name and two texts (or integers) are expected")
    return entry[0], str(entry[1]), str(entry[2])


def _check_truth(where: str, truth: object, predicate: bool) -> None:
    if truth is None:
        return
    if predicate and truth not in ("true", "false", "both"):
        raise InputError(f'{where}: a condition is "true", "false" or "both"')
    if not predicate and not (isinstance(truth, list) and len(truth) >= 2):
        raise InputError(f"{where}: [min, max, ...] or null is expected")


def _kind_of(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


class Problem:
    """A row as objects of `intset`: fresh variables, the conditions, and the expressions.

    Raises
    ------
    InputError: a text that cannot be read; the message names row, field and position.
    """

    def __init__(self, row: CorpusRow) -> None:
        self.row = row
        self.sizes = tuple(ShapeVar(name, lower=1) for name in row.params)
        self.env: dict[str, Var] = {size.name: size for size in self.sizes}
        self.ranges: dict[Var, Range] = {}
        for k, (name, low, extent) in enumerate(row.variables):
            if name in self.env:
                raise InputError(f"{row.where}: vars[{k}]: the name {shown(name)} is taken")
            limits = [self._read(Expr, f"vars[{k}]", text) for text in (low, extent)]
            var = self.env[name] = Var(name)
            try:
                self.ranges[var] = Range(*limits)
            except InputError as error:
                raise InputError(f"{row.where}: vars[{k}]: {error}") from None
        self.conditions = tuple(self._read(Cond, f"conds[{k}]", text) for k, text in enumerate(row.conditions))
        asked: type[Cond | Expr] = Cond if row.is_predicate else Expr
        self.exprs: tuple[Any, ...] = tuple(self._read(asked, f"exprs[{k}]", text) for k, text in enumerate(row.exprs))

    def _read(self, kind: type[Read], where: str, text: str) -> Read:
        try:
            found = parse(text, self.env)
        except IntSetError as error:
            position = getattr(error, "position", None)  # of a text that is not parsed
            place = "" if position is None else f", position {position}"
            first = str(error).splitlines()[0]
            raise InputError(f"{self.row.where}, {where}{place}: {first} in {shown(text)}") from None
        if not isinstance(found, kind):
            wanted = "an integer expression" if kind is Expr else "a condition"
            raise InputError(f"{self.row.where}, {where}: {wanted} is expected, not {shown(text)}")
        return found

    def context(self, domain: str | None = None) -> Context:
        """A fresh context with the row's ranges and conditions."""
        try:
            return Context(self.ranges, assume=self.conditions, domain=domain)
        except IntSetError as error:
            raise InputError(f"{self.row.where}: {error}") from None
