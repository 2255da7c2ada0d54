"""The key of an exploration: source texts of `make` and `measure`, the library's configuration and its version.

Two runs with equal keys continue one another; results of another key are never mixed with theirs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol, runtime_checkable

from intset.config import current
from intset.installation import library_version

_PLAIN = (int, float, str, bytes, bool, type(None))


@runtime_checkable
class HasSource(Protocol):
    """A callable that says itself what its results depend on."""

    def source_text(self) -> str: ...


def settings() -> dict[str, Any]:
    """The library's configuration in force, without the cache of answers, which changes none."""
    return {name: value for name, value in asdict(current()).items() if name != "cache"}


def key_of(make: Any, measure: Any) -> dict[str, str]:
    """The key, as texts by what they describe."""
    return {
        "make": source_of(make),
        "measure": "" if measure is None else source_of(measure),
        "configuration": ", ".join(f"{name}={value!r}" for name, value in settings().items()),
        "version": library_version(),
    }


def source_of(function: Any) -> str:
    """What a callable computes, as text: its source, and the plain constants that it takes from outside.

    Functions that it calls are told by their names alone: who changes one of these names another folder.
    """
    if isinstance(function, HasSource) and not inspect.isclass(function):
        return function.source_text()
    if isinstance(function, functools.partial):
        given = [*map(repr, function.args), *(f"{name}={value!r}" for name, value in function.keywords.items())]
        return f"partial({source_of(function.func)}, {', '.join(given)})"
    if isinstance(function, MethodType):
        return f"{_state(function.__self__)}.{source_of(function.__func__)}"
    if isinstance(function, FunctionType):
        return "\n".join([_source(function), *_constants(function)])
    if inspect.isclass(function):
        return _source(function)
    return f"{_state(function)}\n{_source(type(function))}"


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return f"{thing.__module__}.{thing.__qualname__}" if code is None else "\n".join(_compiled(code))


def _compiled(code: CodeType) -> Iterator[str]:
    """A function without source text, such as one typed at a prompt."""
    yield f"{code.co_name} {code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _compiled(constant)
        else:
            yield repr(constant)


def _constants(function: FunctionType) -> Iterator[str]:
    """The plain values of variables from outside: closures, defaults and globals."""
    outside = dict(inspect.getclosurevars(function).nonlocals)
    outside |= inspect.getclosurevars(function).globals
    for k, value in enumerate(function.__defaults__ or ()):
        outside[f"default {k}"] = value
    outside |= {f"default {name}": value for name, value in (function.__kwdefaults__ or {}).items()}
    for name, value in sorted(outside.items()):
        if _is_plain(value):
            yield f"{name} = {value!r}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)


def _state(thing: Any) -> str:
    """An object by its type and plain attributes."""
    names = [field.name for field in fields(thing)] if is_dataclass(thing) else sorted(getattr(thing, "__dict__", {}))
    plain = ", ".join(f"{name}={value!r}" for name in names if _is_plain(value := getattr(thing, name)))
    return f"{type(thing).__module__}.{type(thing).__qualname__}({plain})"
