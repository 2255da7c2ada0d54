"""Arguments that several commands share, and their checks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from intset import InputError
from intset.expr.printer import shown
from intset.names import check_name
from lowering.cli.reports import SizeValues

_Command = TypeVar("_Command", bound=Callable[..., Any])


class OneEach(click.Command):
    """A command that refuses a repeated option with a value, unless the option is declared repeatable."""

    def make_parser(self, ctx: click.Context) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            found = parse(args)
            single = [param for param in found[2] if isinstance(param, click.Option) and not param.multiple]
            for param, times in Counter(single).items():
                if times > 1 and not param.is_flag:
                    raise click.UsageError(f"{param.opts[-1]} is given {'twice' if times == 2 else f'{times} times'}")
            return found

        parser.parse_args = parse_args  # type: ignore[method-assign]  # of this parser alone
        return parser


class Commands(click.Group):
    """The commands of `intset`."""

    command_class = OneEach


class _Integer(click.IntRange):
    name = "integer"


def at_least(least: int) -> click.IntRange:
    """An option type: integers greater than or equal to `least`."""
    return _Integer(least)


def refuse(*names: str, why: str) -> None:
    """Refuse options of these parameters if the command line contains one."""
    context = click.get_current_context()
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[-1]} {why}")


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


def readable(name: str, suffixes: Sequence[str] = (".py", ".json"), of: str = "builds schedules") -> Path:
    """The path of a readable script or corpus; `of` names the expected job of a script in the message."""
    if not name:
        raise InputError("FILE is empty: the name of a file is expected")
    path = Path(name)
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        raise InputError(f"{name}: not a file")
    if path.suffix not in (".py", ".json"):
        raise InputError(f"{name}: a Python script (.py) or a corpus (.json) is expected")
    if path.suffix not in suffixes:
        raise InputError(f"{name}: a Python script that {of} is expected")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    return path


def domain_list(texts: str | Sequence[str] | None) -> tuple[str, ...]:
    parts = listed([texts] if isinstance(texts, str) else texts or ())
    if texts and not parts:
        raise InputError("--domain names no domain")
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


# The arguments of `lower`, `infer_bound` and `explore` in messages, which are options here.
_KEYWORD = re.compile(r"\b(unsafe|compact|reassociate|strength|fresh)=True\b|(?:(?<=^)|(?<=: ))(at(?=: )|out(?= must))")


def message_of(error: Exception) -> str:
    """The message of an error, with options spelled as on the command line; for OSError, file and reason."""
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part is not None)
    else:
        text = str(error)
    return _KEYWORD.sub(lambda found: f"--{found[1] or found[2]}", text)
