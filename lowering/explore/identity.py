"""The key of an exploration: source texts of `make`, `measure` and what they name, the configuration and the version.

Two runs with equal keys continue one another; results of another key are never mixed with theirs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

from intset.config import current
from intset.installation import library_version

MAX_KEY = 4000  # characters
_PLAIN = (int, float, str, bytes, bool, type(None))
_GENERATED = "<string>"  # the file of methods that dataclasses make
_LIBRARY = ("intset", "bound", "lowering")  # their version is in the key


@runtime_checkable
class HasSource(Protocol):
    """A callable that says itself what its results depend on."""

    def source_text(self) -> str: ...


def settings() -> dict[str, Any]:
    """The library's configuration in force, without the cache of answers, which changes none."""
    return {name: value for name, value in asdict(current()).items() if name not in ("cache", "stated")}


def key_of(make: Any, measure: Any) -> dict[str, str]:
    """The key, as texts by what they describe."""
    return {
        "make": _shortened(source_of(make)),
        "measure": "" if measure is None else _shortened(source_of(measure)),
        "configuration": ", ".join(f"{name}={value!r}" for name, value in settings().items()),
        "version": library_version(),
    }


def _shortened(text: str) -> str:
    """A text that every file can hold: the end of a long one is told by its digest."""
    if len(text) <= MAX_KEY:
        return text
    return f"{text[:MAX_KEY]}\n... {hashlib.blake2b(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def source_of(function: Any) -> str:
    """What a callable computes, as text: its source, and the sources and plain constants of what it names.

    Functions, classes and instances that are named by global, enclosing or default variables, or as attributes of
    modules, are followed, and so is what these name. Installed packages, the standard library, and what is looked up
    while the function runs (methods of an object that `make` is given) are not in the text.
    """
    return "\n".join(_Collector().texts(function))


class _Collector:
    """A walk over what a callable names, each thing once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # the objects are kept, so that no other gets their number

    def texts(self, thing: Any) -> Iterator[str]:
        if id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, HasSource) and not inspect.isclass(thing):
            yield thing.source_text()
        elif isinstance(thing, functools.partial):
            yield "partial"
            yield from self._of((thing.func, *thing.args, *thing.keywords.values()))
            yield ", ".join(thing.keywords)
        elif isinstance(thing, MethodType):
            yield _state(thing.__self__)
            yield from self.texts(thing.__func__)
        elif isinstance(thing, FunctionType):
            yield _source(thing)
            yield from self._outside(thing)
        elif inspect.isclass(thing):
            yield _source(thing)
            members = [getattr(member, "__func__", member) for _, member in sorted(vars(thing).items())]
            members += [member.fget for member in members if isinstance(member, property)]
            for member in members:
                yield from self._outside(_unwrapped(member))
            yield from self._of(base for base in thing.__bases__ if _is_own(base))
        elif (inner := _unwrapped(thing)) is not thing:  # such as a function with functools.cache
            yield from self.texts(inner)
        else:
            yield _state(thing)
            yield from self.texts(type(thing))

    def _outside(self, function: Any) -> Iterator[str]:
        if not isinstance(function, FunctionType) or function.__code__.co_filename == _GENERATED:
            return
        for name, value in sorted(_named(function).items()):
            if _is_plain(value):
                yield f"{name} = {value!r}"
            elif _is_own(value) and not isinstance(value, ModuleType):
                yield from self.texts(value)

    def _of(self, things: Iterable[Any]) -> Iterator[str]:
        for thing in things:
            if _is_plain(thing):
                yield repr(thing)
            else:
                yield from self.texts(thing)


def _named(function: FunctionType) -> dict[str, Any]:
    """What a function, and the functions inside it, take from outside, by name."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # a variable without a value yet
            found[name] = cell.cell_contents
    for owner, module in list(found.items()):
        if isinstance(module, ModuleType) and _is_own(module):
            found |= {f"{owner}.{name}": vars(module)[name] for name in names if name in vars(module)}
    given = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    return found | {f"default {name}": value for name, value in given.items()}


def _unwrapped(thing: Any) -> Any:
    """What a decorator of the standard library wraps; a module or a class is itself."""
    return thing if inspect.isclass(thing) or not callable(thing) else inspect.unwrap(thing)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(f"{os.path.realpath(paths[name])}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _is_own(thing: Any) -> bool:
    """Whether a function, a class, an instance or a module is of the user's files, not of a package with a version."""
    unwrapped = _unwrapped(thing)
    if isinstance(unwrapped, functools.partial):
        return True
    known = (FunctionType, MethodType, ModuleType)
    owner = unwrapped if isinstance(unwrapped, known) or inspect.isclass(unwrapped) else type(unwrapped)
    name = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    if not isinstance(name, str) or name.partition(".")[0] in _LIBRARY:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name == "__main__" or isinstance(owner, (FunctionType, MethodType))
    return not os.path.realpath(file).startswith(_installed())


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return f"{thing.__module__}.{thing.__qualname__}" if code is None else "\n".join(_compiled(code))


def _compiled(code: CodeType) -> Iterator[str]:
    """A function without source text, such as one typed at a prompt."""
    for part in _codes(code):
        constants = [repr(constant) for constant in part.co_consts if not isinstance(constant, CodeType)]
        yield f"{part.co_name} {part.co_code.hex()} {part.co_names} {part.co_varnames} {', '.join(constants)}"


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
