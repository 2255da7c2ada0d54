"""Arguments that several commands share, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from intset import InputError
from intset.expr.printer import shown
from intset.names import check_name
from lowering.cli.reports import SizeValues

_Command = TypeVar("_Command", bound=Callable[..., Any])


def checked(check: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    return lambda context, parameter, value: check(value)


def listed(texts: Sequence[str]) -> list[str]:
    """The parts of texts with commas between."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def integers(texts: Sequence[str], option: str) -> SizeValues:
    """The values of texts such as `n=1024`."""
    values: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value.strip().removeprefix("-").isdecimal():
            raise InputError(f"{option} takes NAME=VALUE with an integer, not {shown(text)}")
        if name.strip() in values:
            raise InputError(f"{option} {name.strip()} is given twice: {values[name.strip()]} and {value.strip()}")
        values[name.strip()] = int(value)
    return values


def readable(name: str, suffixes: Sequence[str] = (".py", ".json")) -> Path:
    """The path of a readable script or corpus."""
    path = Path(name)
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        raise InputError(f"{name}: not a file")
    if path.suffix not in (".py", ".json"):
        raise InputError(f"{name}: a Python script (.py) or a corpus (.json) is expected")
    if path.suffix not in suffixes:
        raise InputError(f"{name}: a Python script that builds schedules is expected")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    return path


def domain_list(texts: str | Sequence[str] | None) -> tuple[str, ...]:
    parts = listed([texts] if isinstance(texts, str) else texts or ())
    return tuple(check_name(part, "--domain") for part in parts)


TRACEBACK: Final = "traceback"


def traceback_option() -> click.Option:
    """The option that prints where an error comes from, before its line."""

    def note(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            context.find_root().obj[TRACEBACK] = True

    words = "Print where an error comes from, before its line."
    return click.Option(["--traceback"], is_flag=True, is_eager=True, expose_value=False, callback=note, help=words)


AT = click.option(
    "--at",
    metavar="NAME=VALUE",
    multiple=True,
    callback=checked(partial(integers, option="--at")),
    help="Fix a size of schedules; repeatable.",
)
ONE_DOMAIN = click.option(
    "-d",
    "--domain",
    metavar="NAME",
    callback=checked(lambda name: None if name is None else check_name(name, "--domain")),
    help="The domain that answers; default: auto.",
)
MANY_DOMAINS = click.option(
    "-d",
    "--domain",
    "domains",
    metavar="NAME",
    callback=checked(domain_list),
    help="The domains to compare, with commas between; default: all.",
)


def common(domain: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """The arguments that most commands share."""

    def decorate(command: _Command) -> _Command:
        files = click.argument(
            "files",
            metavar="FILE...",
            nargs=-1,
            required=True,
            callback=checked(lambda names: [readable(name) for name in names]),
        )
        as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and stable.")
        return files(domain(as_json(AT(command))))

    return decorate
