"""Configuration: an argument wins over a `with using(...)` block, that over the environment, that over a file.

Environment: `INTSET_DOMAIN`, `INTSET_ISL_OPERATIONS`, ...: `INTSET_` and the field's name in capitals. File: the table
`[tool.intset]` of the nearest `pyproject.toml` at or above the working directory.
"""

from __future__ import annotations

import contextvars
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from intset.errors import InputError
from intset.expr.node import as_int


@dataclass(frozen=True, slots=True, eq=False)
class Config:
    """What a query may choose and spend. Budgets count operations, so that answers do not depend on the machine.

    Attributes
    ----------
    domain: name of the domain that answers (see `intset.domain_names()`).
    isl_operations: isl's own operations for one query.
    points: points of a box that may be enumerated for one query.
    z3_rlimit: z3's resource units for one question.
    tiers: the tiers the prover may climb, cheapest first.
    """

    domain: str = "auto"
    isl_operations: int = 60_000
    points: int = 40_000
    z3_rlimit: int = 2_000_000
    tiers: tuple[str, ...] = ("linear", "isl", "points", "z3")


_FIELDS = {field.name: field for field in fields(Config)}
TIERS: tuple[str, ...] = Config().tiers
_current: contextvars.ContextVar[Config | None] = contextvars.ContextVar("intset_config", default=None)


def current(domain: str | None = None) -> Config:
    """The configuration in force here; `domain` is the argument of the call."""
    config = _current.get()
    if config is None:
        config = _ambient(_environment_key(), os.getcwd())
    return config if domain is None or domain == config.domain else _answered_by(config, domain)


@lru_cache(maxsize=64)
def _answered_by(config: Config, domain: str) -> Config:
    """`config` with another domain: the same object every time, so that it serves as a key."""
    return replace(config, domain=checked("domain", domain, "the argument domain="))


@contextmanager
def using(**choices: Any) -> Iterator[Config]:
    """Choose fields of `Config` for a block: `with using(domain="isl"): ...`."""
    config = replace(current(), **{name: checked(name, value, "using(...)") for name, value in choices.items()})
    token = _current.set(config)
    try:
        yield config
    finally:
        _current.reset(token)


def checked(name: str, value: Any, where: str) -> Any:
    """`value` as field `name` wants it; the error names `where` it came from."""
    if name not in _FIELDS:
        raise InputError(f"{where}: unknown setting {name!r}; known: {', '.join(_FIELDS)}")
    if name == "domain":
        from intset.domains.registry import check_name

        return check_name(value, where)
    if name == "tiers":
        tiers = tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)
        unknown = [tier for tier in tiers if tier not in TIERS]
        if unknown:
            raise InputError(f"{where}: unknown tier {unknown[0]!r}; known: {', '.join(TIERS)}")
        return tiers
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    number = as_int(number, f"{where}: {name}")
    if number < 0:
        raise InputError(f"{where}: {name} must not be negative: {number}")
    return number


_VARIABLES = tuple((name, f"INTSET_{name.upper()}") for name in _FIELDS)
# Every query asks whether the environment says something. CPython keeps it in a plain dict under encoded names, and
# five look-ups there cost a tenth of five in `os.environ`; other interpreters take the public way.
_RAW = getattr(os.environ, "_data", None)
_ENCODED = () if _RAW is None else tuple(os.environ.encodekey(variable) for _, variable in _VARIABLES)


def _environment_key() -> tuple[tuple[str, str], ...]:
    if _RAW is not None:
        for variable in _ENCODED:
            if variable in _RAW:
                break
        else:
            return ()
    return tuple((name, os.environ[variable]) for name, variable in _VARIABLES if variable in os.environ)


def _project_file(folder: str) -> Path | None:
    for candidate in (Path(folder), *Path(folder).parents):
        if (candidate / "pyproject.toml").is_file():
            return candidate / "pyproject.toml"
    return None


@lru_cache(maxsize=64)
def _ambient(environment: tuple[tuple[str, str], ...], folder: str) -> Config:
    config, file = Config(), _project_file(folder)
    if file is not None:
        config = _with(config, _file_table(file), f"[tool.intset] in {file}")
    return _with(config, dict(environment), "the environment (INTSET_...)")


def _file_table(file: Path) -> Mapping[str, Any]:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}  # not ours to report: a broken pyproject.toml has other readers
    table = data.get("tool", {}).get("intset", {})
    return table if isinstance(table, dict) else {}


def _with(config: Config, table: Mapping[str, Any], where: str) -> Config:
    return replace(config, **{name: checked(name, value, where) for name, value in table.items()})
