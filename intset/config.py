"""Configuration: an argument overrides a `with using(...)` block, this the environment, then a file; names of domains.

Environment: `INTSET_DOMAIN`, `INTSET_ISL_OPERATIONS`, ...: `INTSET_` and the field's name in capitals. File: the table
`[tool.intset]` of the nearest `pyproject.toml` at or above the working directory.

`ScopedBlock` is a `with` statement whose effect is local to the thread or task that entered it. Blocks may end in any
order, also from another thread or task. Invariant: the end of a block undoes its own effect. So blocks save no previous
state; entered blocks are listed in a context variable, and readers ignore those that ended or that an interrupt
separated from their `with` statement.
"""

from __future__ import annotations

import copy
import itertools
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache, cached_property, lru_cache, wraps
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from intset.errors import InputError
from intset.expr import shown
from intset.expr.node import as_int
from intset.expr.printer import Displayed
from intset.expr.storage import PURE_VARIABLE

if TYPE_CHECKING:
    from importlib import metadata

ENTRY_POINTS: Final = "intset.domains"
BUILT_IN: Final = ("auto", "interval", "stride", "modular", "interval*modular", "bits", "isl", "points")
CHEAPEST: Final = "interval"
AUTO: Final = "auto"  # which asks the plain way first
_registered: dict[str, None] = {}
_changes = itertools.count(1)
generation = 0
"""A counter of changes to names; part of cache keys, since a name may be registered again for another domain."""
ISL_OPERATIONS = 60_000  # isl's operations for one query
POINTS = 40_000  # points of a box that one query may try
FAST_POINTS = 2_048  # the same with effort="fast": a block
CACHED_ANSWERS = 4_096  # answers that a scope keeps
Z3_RLIMIT = 2_000_000  # z3's resource units for one question

Owner: TypeAlias = tuple[int, object]  # thread and task
Entered: TypeAlias = tuple[weakref.ref[Any], ...]  # blocks, outermost first
T_co = TypeVar("T_co", covariant=True)


def announce(name: str) -> None:
    """Add a valid name."""
    _registered[name] = None
    _change()


def withdraw(name: str) -> None:
    """Remove a name added by `announce`."""
    _registered.pop(name, None)
    _change()


def _change() -> None:
    global generation
    generation = next(_changes)


def has_registered() -> bool:
    """Whether a domain is registered by a call in this process."""
    return bool(_registered)


def announced() -> tuple[str, ...]:
    """All names of domains: built in, registered, and of plugins not loaded yet."""
    return tuple(dict.fromkeys((*BUILT_IN, *_registered, *(point.name for point in entry_points()))))


@cache
def entry_points() -> tuple[metadata.EntryPoint, ...]:
    """The plugins that are installed."""
    from importlib import metadata  # slow to load, and needed where a name is not built in

    return tuple(metadata.entry_points(group=ENTRY_POINTS))


def check_name(name: object, where: str) -> str:
    """`name` if valid; raises `InputError` listing valid names."""
    if isinstance(name, str) and (name in BUILT_IN or name in _registered):
        return name
    known = announced()
    if isinstance(name, str):
        if name in known:
            return name
        parts = [part.strip() for part in name.split("*")]
        if len(parts) > 1 and all(part in known for part in parts):
            return name
    import difflib

    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else ()
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    names = ", ".join(known)
    raise InputError(f"{where}: unknown domain {shown(name)}{hint}; known: {names}, and products such as 'a*b'")


def entered_blocks(name: str) -> ContextVar[Entered]:
    """The list of entered blocks of one kind, one list for each thread, task and `contextvars.Context`."""
    return ContextVar(name, default=())


class ScopedBlock(ContextDecorator, Generic[T_co]):
    """One `with` block or decorator, reusable after it ended.

    Attributes
    ----------
    entered: the list of entered blocks of this kind.
    inherited: whether tasks started inside a block are inside it too, until it ends.
    """

    entered: ClassVar[ContextVar[Entered]]
    inherited: ClassVar[bool]
    _owner: Owner | None = None

    @property
    def is_entered(self) -> bool:
        """Whether the block is entered and not ended."""
        return self._owner is not None

    def enter(self) -> T_co:
        """Validate the block and return the value of `as`; called before the block takes effect."""
        raise NotImplementedError

    def __enter__(self) -> T_co:
        if self._owner is not None:
            raise InputError("this block has been entered and has not ended: make another one for inside of it")
        target = self.enter()
        self.entered.set((*_listed(self.entered.get()), weakref.ref(self)))
        self._owner = _here()  # active from here on
        return target

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self.entered.set(_listed(self.entered.get()))

    def _recreate_cm(self) -> Self:
        """A fresh block for each call of a decorated function."""
        block = copy.copy(self)
        block._owner = None
        return block

    @classmethod
    def in_force(cls) -> tuple[Self, ...]:
        """The active blocks of this thread or task, outermost first."""
        entered = cls.entered.get()
        if cls.inherited and len(entered) == 1:  # hot: runs for every query
            block = entered[0]()
            return () if block is None or block._owner is None else (block,)
        blocks = [block for ref in entered if (block := ref()) is not None]
        here = None if cls.inherited else _here()
        return tuple(block for block in blocks if (owner := block._owner) is not None and here in (None, owner))


def _listed(entered: Entered) -> Entered:
    """The blocks that have not ended."""
    return tuple(ref for ref in entered if (block := ref()) is not None and block._owner is not None)


def _here() -> Owner:
    current_task = getattr(sys.modules.get("asyncio"), "current_task", None)  # not imported: then there are no tasks
    try:
        return threading.get_ident(), current_task and current_task()
    except RuntimeError:  # no event loop runs in this thread
        return threading.get_ident(), None


TIERS: tuple[str, ...] = ("linear", "bits", "isl", "points", "z3")


class Effort(StrEnum):
    """How much work a question may be: linear in the expression, the usual budgets, or ten times these."""

    FAST = "fast"
    DEFAULT = "default"
    FULL = "full"


_BUDGETED: Mapping[Effort, Mapping[str, Any]] = {
    Effort.FAST: {"tiers": TIERS[:1], "points": FAST_POINTS},
    Effort.DEFAULT: {},
    Effort.FULL: {"isl_operations": 10 * ISL_OPERATIONS, "points": 10 * POINTS, "z3_rlimit": 10 * Z3_RLIMIT},
}


class Choices(TypedDict, total=False):
    """The fields of `Config` that a block chooses."""

    domain: str
    effort: str
    isl_operations: int
    points: int
    z3_rlimit: int
    z3_timeout_ms: int
    tiers: Sequence[str]
    cache: str


@dataclass(frozen=True, slots=True, eq=False)
class Config:
    """Choices and budgets of a query. Budgets count operations, so answers do not depend on the machine.

    Attributes
    ----------
    domain: name of the domain that answers (see `intset.domain_names()`).
    effort: "fast" is linear in the expression: `auto` asks neither isl nor z3 and evaluates a block of points at most;
        "default"; "full" has ten times the budgets. Budgets and tiers that are stated win, wherever they are stated.
    isl_operations: isl operations of one query.
    points: enumerated points of one query.
    z3_rlimit: z3 resource units of one proof.
    z3_timeout_ms: wall-clock limit of z3 in milliseconds, 0 for none. An answer after a timeout says so and is not
        cached, since a faster machine may decide it.
    tiers: tiers of the prover, cheapest first.
    cache: file of a cache of answers on disk (see `intset.cache`); empty for none.
    """

    domain: str = "auto"
    isl_operations: int = ISL_OPERATIONS
    points: int = POINTS
    z3_rlimit: int = Z3_RLIMIT
    z3_timeout_ms: int = 0
    tiers: tuple[str, ...] = TIERS
    cache: str = ""
    effort: str = "default"
    stated: tuple[str, ...] = field(default=(), repr=False)  # the budgets that the effort leaves alone

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value is not default:
                object.__setattr__(self, name, checked(name, value, "Config(...)"))
        budgets = {**{name: _DEFAULTS[name] for name in _BUDGETS}, **_BUDGETED[Effort(self.effort)]}
        for name, budget in budgets.items():
            value = getattr(self, name)
            if name in self.stated or value == budget:
                continue
            if value == _DEFAULTS[name]:
                object.__setattr__(self, name, budget)
            else:
                object.__setattr__(self, "stated", (*self.stated, name))

    def _having(self, choices: Mapping[str, object]) -> Config:
        """This configuration with other choices; budgets that nobody stated follow the effort."""
        stated = tuple(name for name in _BUDGETS if name in self.stated or name in choices)
        usual: dict[str, Any] = (
            {name: _DEFAULTS[name] for name in _BUDGETS if name not in stated} if "effort" in choices else {}
        )
        chosen: dict[str, Any] = {**usual, **choices}
        return replace(self, **chosen, stated=stated)


def tiers_within(effort: Effort) -> tuple[str, ...]:
    """The configured tiers that a pass may ask: the linear form alone (fast), sets as well, or every tier (full)."""
    if effort is Effort.FULL:
        return current().tiers
    cheap = TIERS[:1] if effort is Effort.FAST else TIERS[:3]
    return tuple(tier for tier in current().tiers if tier in cheap)


_DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(Config) if one.name != "stated"}
_BUDGETS = ("tiers", "isl_operations", "points", "z3_rlimit")


def current(domain: Any = None) -> Config:
    """The active configuration; `domain` is the argument of the query."""
    config = _ambient(_environment_key(), os.getcwd())
    if entered := using.entered.get():
        if len(entered) == 1 and (only := entered[0]()) is not None:
            config = only.alone(config)
        elif blocks := using.in_force():
            config = blocks[-1].config([block.choices for block in blocks], config)
    if domain is None or domain is config.domain:
        return config
    if not isinstance(domain, str):
        checked("domain", domain, "the argument domain=")
    return config if domain == config.domain else _answered_by(config, domain)


@lru_cache(maxsize=64)
def _answered_by(config: Config, domain: str) -> Config:
    """`config` with another domain, cached so that identity serves as a key."""
    return replace(config, domain=checked("domain", domain, "the argument domain="))


Chosen: TypeAlias = Mapping[str, object] | Config  # the fields that a block chooses, or all


class using(ScopedBlock[Config]):  # noqa: N801  # read as a statement: `with using(...)`
    """Choose fields of `Config` for a block: `with using(domain="isl"): ...`.

    The choice is active in the entering thread or task and in tasks started inside the block, until it ends. Blocks may
    end in any order; of two active blocks that choose one field, the innermost wins.

    Parameters
    ----------
    choices: fields of `Config`, by name.
    """

    entered = entered_blocks("intset_using")
    inherited = True

    def __init__(self, **choices: Unpack[Choices]) -> None:
        self.choices: Chosen = {name: checked(name, value, "using(...)") for name, value in choices.items()}
        self._cached: tuple[list[Chosen], Config, Config] | None = None
        self._alone: tuple[Config, Config] | None = None

    def enter(self) -> Config:
        return self.config(
            [*(block.choices for block in using.in_force()), self.choices], _ambient(_environment_key(), os.getcwd())
        )

    def alone(self, ambient: Config) -> Config:
        """The configuration inside this block without others; `ambient` after its end."""
        if self._owner is None:
            return ambient
        cached = self._alone
        if cached is None or cached[0] is not ambient:
            cached = self._alone = (ambient, self.config([self.choices], ambient))
        return cached[1]

    def config(self, choices: list[Chosen], ambient: Config) -> Config:
        """The configuration inside this block as the innermost one; one object for equal `choices`."""
        cached = self._cached
        if cached is None or cached[0] != choices or cached[1] is not ambient:
            inside = ambient
            for chosen in choices:
                inside = chosen if isinstance(chosen, Config) else inside._having(chosen)
            cached = self._cached = (choices, ambient, inside)
        return cached[2]


def is_in_force(config: Config) -> bool:
    """Whether `config` is the active configuration; cheap directly inside `pinned(config)`."""
    entered = using.entered.get()
    last = entered[-1]() if entered else None
    if type(last) is pinned and last._owner is not None:
        return last.whole is config
    return current() is config


def asked_with(effort: str, question: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The answer of a question under an effort, the argument `effort=` of questions."""
    with using(effort=checked_effort(effort, "the argument effort=")):
        return question(*args, **named)


class pinned(using):  # noqa: N801  # read as a statement: `with pinned(config): ...`
    """Activate a whole configuration for a block, overriding all outer blocks.

    Inner `using` blocks choose fields as usual.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.choices = self.whole = config

    def alone(self, ambient: Config) -> Config:
        return ambient if self._owner is None else self.whole

    def config(self, choices: list[Chosen], ambient: Config) -> Config:
        """The pinned object itself, so that identity serves as a key."""
        return self.whole


def checked(name: str, value: Any, where: str) -> Any:
    """`value` validated for field `name`; the error names its source `where`."""
    if name not in _DEFAULTS:
        raise InputError(f"{where}: unknown setting {shown(name)}; known: {', '.join(_DEFAULTS)}")
    check = {"domain": check_name, "effort": checked_effort, "cache": _checked_path, "tiers": _checked_tiers}.get(name)
    return _checked_number(name, value, where) if check is None else check(value, where)


def checked_effort(value: Any, where: str) -> str:
    if not isinstance(value, str) or value not in tuple(Effort):
        raise InputError(f"{where}: effort is {', '.join(Effort)}, not {shown(value)}")
    return str(value)


def _checked_tiers(value: Any, where: str) -> tuple[str, ...]:
    tiers = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(tiers, (list, tuple)):
        raise InputError(f"{where}: tiers must be a list of names, not {shown(value)} of type {type(value).__name__}")
    unknown = [tier for tier in tiers if not isinstance(tier, str) or tier not in TIERS]
    if unknown:
        raise InputError(f"{where}: unknown tier {shown(unknown[0])}; known: {', '.join(TIERS)}")
    return tuple(tiers)


def _checked_path(value: Any, where: str) -> str:
    if not isinstance(value, (str, os.PathLike)) or not isinstance(path := os.fspath(value), str) or "\0" in path:
        raise InputError(f"{where}: cache must name a file, not {shown(value)}")
    return path


# Valid budgets: isl and z3 treat 0, and numbers beyond their counters, as unlimited.
_LIMITS = {
    "isl_operations": (1, 2**62),
    "points": (0, None),
    "z3_rlimit": (1, 2**32 - 1),
    "z3_timeout_ms": (0, 2**32 - 1),
}


def _checked_number(name: str, value: Any, where: str) -> int:
    number = as_int(value, f"{where}: {name}")
    least, most = _LIMITS.get(name, (0, None))
    if number < least:
        wanted = f"be at least {least}" if least else "not be negative"
        raise InputError(f"{where}: {name} must {wanted}: {shown(number)}")
    if most is not None and number > most:
        raise InputError(f"{where}: {name} must be at most {most}")
    return number


_PREFIX = "INTSET_"
_VARIABLES = {f"{_PREFIX}{name.upper()}": name for name in _DEFAULTS}
# Every query checks the environment. CPython stores it in a plain dict under encoded names, ten times faster than
# `os.environ`; other interpreters use the public mapping.
_RAW = getattr(os.environ, "_data", None)
_ENCODED = () if _RAW is None else tuple(os.environ.encodekey(variable) for variable in _VARIABLES)


def _environment_key() -> tuple[int, tuple[tuple[str, str], ...]]:
    """The values of our variables, and the size of the environment, which reveals unknown `INTSET_` names."""
    if _RAW is not None and _RAW.keys().isdisjoint(_ENCODED):
        return (len(_RAW), ())
    named = tuple((variable, os.environ[variable]) for variable in _VARIABLES if variable in os.environ)
    return (len(os.environ), named)


def _project_file(folder: str) -> str | None:
    while True:
        candidate = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(candidate):
            return candidate
        outer = os.path.dirname(folder)
        if outer == folder:
            return None
        folder = outer


@lru_cache(maxsize=64)
def _ambient(environment: tuple[int, tuple[tuple[str, str], ...]], folder: str) -> Config:
    config, file = Config(), _project_file(folder)
    choices: dict[str, Any] = {}
    for name, value in ({} if file is None else _file_table(file)).items():
        choices[name] = checked(name, value, f"[tool.intset] in {file}")
    for variable in os.environ:
        if variable.startswith(_PREFIX) and variable not in _VARIABLES and variable != PURE_VARIABLE:
            raise InputError(f"the environment: unknown variable {variable}; known: {', '.join(_VARIABLES)}")
    for variable, text in environment[1]:
        name = _VARIABLES[variable]
        value = int(text) if _WHOLE.fullmatch(text.strip()) and name in _LIMITS else text
        choices[name] = checked(name, value, f"the environment variable {variable}")
    return config._having(choices) if choices else config


_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")


def _file_table(file: str) -> Mapping[str, Any]:
    text = ""
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        import tomllib  # slow to load

        table: Any = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if "tool.intset" in text:
            raise InputError(f"[tool.intset] in {file} cannot be read: {error}") from None
        return {}  # ignored: other tools report a broken pyproject.toml
    for k, key in enumerate(("tool", "intset")):
        table = table.get(key, {})
        if not isinstance(table, dict):
            key_path = ".".join(("tool", "intset")[: k + 1])
            raise InputError(f"{key_path} in {file} must be a table, not {shown(table)}")
    return dict(table)


K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Configured")
C = TypeVar("C", bound="type[Configured]")

# Special methods that may compute.
_SPECIAL = ("__call__", "__contains__", "__getitem__", "__repr__", "__eq__", "__le__", "__lt__", "__ge__", "__gt__")
_OPERATORS = ("__or__", "__and__", "__sub__")


class Configured(Displayed):
    """Base of lazy objects that store the configuration active at construction; copies and pickles keep it.

    Budgets and domain come from the stored configuration. Facts and ranges come from a private context
    (`Context.extended()`), out of reach of blocks entered on the caller's context.

    Guarantee: methods marked `as_configured` return one answer, independent of active blocks and of the order of calls.
    """

    __slots__ = ()
    _config: Config | None = None  # None: instance made without __new__; not pinned

    def __new__(cls, *args: Any, **named: Any) -> Self:
        make: Any = super().__new__
        instance: Self = make(cls) if make is object.__new__ else make(cls, *args, **named)
        object.__setattr__(instance, "_config", current())
        return instance


def as_configured(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to run under the stored configuration of its object."""

    @wraps(method)
    def asked(self: S, *args: P.args, **named: P.kwargs) -> T:
        config = self._config
        if config is None or is_in_force(config):
            return method(self, *args, **named)
        with pinned(config):
            return method(self, *args, **named)

    return cast(Callable[Concatenate[S, P], T], asked)


def memoized(method: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
    """A method whose answers stay in its object. Its arguments are hashable, and passed by position."""
    name, asked = f"_answers_of_{method.__name__}", cast(Callable[..., T], method)

    @wraps(method)
    def answer(self: K, /, *key: object) -> T:
        answers: dict[object, T] = self.__dict__.setdefault(name, {})
        if key not in answers:
            answers[key] = asked(self, *key)
        return answers[key]

    return cast(Callable[Concatenate[K, P], T], answer)


def all_as_configured(cls: C) -> C:
    """Apply `as_configured` to the public methods, operators and properties in the body of a class."""
    for name, member in tuple(vars(cls).items()):
        if name.startswith("_") and name not in _SPECIAL and name not in _OPERATORS:
            continue
        if isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(as_configured(member.fget), member.fset, member.fdel, member.__doc__))
        elif isinstance(member, cached_property):
            pinned_property: cached_property[Any] = cached_property(as_configured(member.func))
            pinned_property.__set_name__(cls, name)
            setattr(cls, name, pinned_property)
        elif callable(member) and not isinstance(member, type):
            setattr(cls, name, as_configured(member))
    return cls
