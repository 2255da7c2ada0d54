"""The commands and their arguments. Guarantee: an error is one line on stderr, with exit status 2."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from bound.schedule import Schedule
from intset import InputError, IntSetError
from intset.expr.printer import shown
from intset.installation import library_version
from intset.names import check_name
from lowering.cli import reports, tables
from lowering.cli.inputs import CorpusRow, load_script, read_rows
from lowering.cli.reports import JsonObject, SizeValues

JSON_VERSION = 1

_Command = TypeVar("_Command", bound=Callable[..., Any])

_MANUAL = """
Bounds, regions, proofs and division lowering for tensor compilers.

Every command takes one or more FILEs. A FILE is

\b
  script.py    a Python script that builds schedules in the tensor-expression
               language (from bound import te, tir): a Schedule at module
               level (s = te.create_schedule(...)), a function schedule()
               that returns one, or a list CASES of such functions.
  corpus.json  a corpus: a list of rows, each with index expressions or
               conditions of an operator, the loops around them, and the
               true answers.

Answers go to stdout, as tables or, with --json, as JSON. Progress and errors go to stderr.

\b
Examples:
  What each stage of a convolution needs, computes and allocates:
    intset bounds examples/resnet_conv3x3.py
  The same for a softmax, with its size fixed:
    intset bounds --at n=1024 examples/softmax_dynamic.py
  The loop nest of a schedule, and its C:
    intset lower examples/resnet_conv3x3.py
    intset lower --emit c examples/matmul_cached.py
  The domains, held against the truth on real operators:
    intset compare benchmarks/data/index_expressions.json
  Why an answer is what it is:
    intset explain examples/flatten_symbolic.py
  A picture of what a stage requires, computes and allocates:
    intset plot examples/resnet_conv3x3.py --stage pad --axes y,x -o pad.png

\b
Domains:
  auto              the cheapest certified answer (the default)
  interval          ends alone, symbolic where sizes are
  stride            intervals with strides, exact on tiled loops
  modular           congruences
  interval*modular  their reduced product; 'a*b' is one for any two
  isl               exact Presburger sets
  points            enumeration of small boxes
  Plugins may add more. The environment variable INTSET_DOMAIN, or 'domain'
  in the table [tool.intset] of pyproject.toml, sets the default.

An access outside its tensor is an error: 'bounds' and 'explain' list each with a point at which it is outside, 'lower'
refuses the schedule, unless --unsafe is given. What depends on sizes becomes an assertion at the head of the function,
what depends on data a check before the access.

\b
Exit status:
  0  done
  1  compare found an answer that is wrong
  2  bad input, named in one line on stderr
"""

# -- arguments ----------------------------------------------------------------------------------------------------


def _checked(check: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    return lambda context, parameter, value: check(value)


def _listed(texts: Sequence[str]) -> list[str]:
    """The parts of texts with commas between."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _integers(texts: Sequence[str], option: str) -> SizeValues:
    """The values of texts such as `n=1024`."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value.strip().removeprefix("-").isdecimal():
            raise InputError(f"{option} takes NAME=VALUE with an integer, not {shown(text)}")
        values[name.strip()] = int(value)
    return values


def _readable(name: str, suffixes: Sequence[str] = (".py", ".json")) -> Path:
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


def _domain_names(texts: str | Sequence[str] | None) -> tuple[str, ...]:
    parts = _listed([texts] if isinstance(texts, str) else texts or ())
    return tuple(check_name(part, "--domain") for part in parts)


_AT = click.option(
    "--at",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_checked(partial(_integers, option="--at")),
    help="Fix a size of schedules; repeatable.",
)
_ONE_DOMAIN = click.option(
    "-d",
    "--domain",
    metavar="NAME",
    callback=_checked(lambda name: None if name is None else check_name(name, "--domain")),
    help="The domain that answers; default: auto.",
)
_MANY_DOMAINS = click.option(
    "-d",
    "--domain",
    "domains",
    metavar="NAME",
    callback=_checked(_domain_names),
    help="The domains to compare, with commas between; default: all.",
)


def _common(domain: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """The arguments that most commands share."""

    def decorate(command: _Command) -> _Command:
        files = click.argument(
            "files",
            metavar="FILE...",
            nargs=-1,
            required=True,
            callback=_checked(lambda names: [_readable(name) for name in names]),
        )
        as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and stable.")
        return files(domain(as_json(_AT(command))))

    return decorate


def _report(
    files: Sequence[Path],
    as_json: bool,
    at: SizeValues,
    of_schedule: Callable[[Schedule, SizeValues], JsonObject],
    of_rows: Callable[[Sequence[CorpusRow]], JsonObject],
    show: Callable[[JsonObject], None],
) -> list[JsonObject]:
    """Report on each file. JSON is printed once, at the end, so an error prints none."""
    found = []
    for path in files:
        report: JsonObject = {"file": str(path), "kind": "corpus" if path.suffix == ".json" else "script"}
        if path.suffix == ".json":
            report |= of_rows(read_rows(path))
        else:
            report |= reports.schedule_reports(str(path), load_script(path), at, of_schedule)
        found.append(report)
        if not as_json:
            show(report)
    if as_json:
        print(json.dumps({"version": JSON_VERSION, "files": found}, indent=1))
    return found


_COMPACT = click.option("--compact", is_flag=True, help="Fold strides and diagonals out of the storage.")

# -- commands -----------------------------------------------------------------------------------------------------

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(help=_MANUAL, context_settings=_SETTINGS, no_args_is_help=True)
@click.version_option(library_version(), prog_name="intset", message="%(prog)s %(version)s")
def app() -> None:
    pass


@app.command()
@_common(_ONE_DOMAIN)
@_COMPACT
def bounds(files: list[Path], domain: str | None, as_json: bool, at: SizeValues, compact: bool) -> None:
    """Print the bounds of schedules and of corpus rows.

    For a schedule: the range of each axis and, for each tensor, the elements required and computed in one instance, and
    the storage allocated; then every access that may leave its tensor, with an example point.

    For a corpus: both ends of each index expression by the chosen domain, and whether they are proved attained; a
    condition is always true, always false, or both.

    \b
    Examples:
      intset bounds examples/matmul_cached.py
      intset bounds --domain interval --json corpus.json
    """
    _report(
        files,
        as_json,
        at,
        lambda schedule, sizes: reports.schedule_bounds(schedule, sizes, domain, compact),
        lambda rows: reports.row_bounds(rows, domain),
        tables.show_bounds,
    )


@app.command()
@_common(_MANY_DOMAINS)
def compare(files: list[Path], domains: tuple[str, ...], as_json: bool, at: SizeValues) -> int:
    """Compare domains.

    On a corpus: the share of exact hulls, the mean ratio of the hull returned to the true one, the share of value sets
    represented exactly, the time, and the number of wrong answers, which must be 0. Of conditions: the share decided,
    with every counterexample checked. Rows with sizes are checked at several concrete sizes.

    On a schedule: what each domain allocates, and what is really required.

    \b
    Examples:
      intset compare benchmarks/data/index_expressions.json
      intset compare --domain interval,auto examples/resnet_conv3x3.py
    """
    found = _report(
        files,
        as_json,
        at,
        lambda schedule, sizes: reports.schedule_comparison(schedule, sizes, domains),
        lambda rows: reports.row_comparison(rows, domains),
        tables.show_comparison,
    )
    return 1 if any(report.get("violations") for report in found) else 0


@app.command()
@_common(_ONE_DOMAIN)
@click.option("--emit", type=click.Choice(["nest", "c"]), default="nest", help="Print the loop nest (default), or C.")
@_COMPACT
@click.option(
    "--nests",
    type=click.Choice(["auto", "guard", "ends", "split", "partition"]),
    default="auto",
    help="Of what guards say: the cheapest (default), guards, ends of loops, a nest a piece, loops taken apart.",
)
@click.option("--strength", is_flag=True, help="Let loops carry quotients and remainders instead of dividing.")
@click.option("--unsafe", is_flag=True, help="Leave accesses that may be outside their tensors unchecked.")
@click.option(
    "--compute",
    type=click.Choice(["auto", "exact", "box"]),
    help="What a stage computes: what is required, the box around it, or the cheaper (default without --nests).",
)
@click.option("--reassociate", is_flag=True, help="Let floats be combined in another order, which rounds otherwise.")
@click.option("--main", "with_main", is_flag=True, help="With --emit c: a program that fills its inputs and is timed.")
def lower(
    files: list[Path], domain: str | None, as_json: bool, at: SizeValues, with_main: bool, **options: Any
) -> None:
    """Lower schedules to loop nests.

    A floor division becomes a truncating one if that is proved equal, else a corrected one; `intset explain` names the
    missing fact. With --strength, a loop in which i // n and i % n change by a fixed amount carries them from one
    iteration to the next, and loop-invariant divisions move before the loop. Division by a constant is left to the C
    compiler.

    A schedule with an access outside its tensor is refused. If sizes decide, the function asserts them at its head; if
    data decides, a check precedes the access. --unsafe leaves all of them unchecked.

    The C is C99: one function. Its parameters are pointers to the elements, then sizes; it returns 0, the number of a
    failed assertion, or -1 without memory. Indices have 32 bits if that is proved sufficient. With --main a program
    follows, which takes the sizes as arguments, fills its inputs, and prints seconds a call and a checksum.

    A corpus has no loops: each index expression is printed with its divisions lowered, and the rules used; --emit,
    --compact, --nests, --strength, --unsafe and --at have no effect on it.

    \b
    Examples:
      intset lower examples/resnet_conv3x3.py
      intset lower --emit c --main examples/matmul_cached.py > matmul.c && cc -O3 matmul.c -lm && ./a.out
      intset lower --strength examples/flatten_symbolic.py
    """
    if with_main:
        if options["emit"] != "c":
            raise click.UsageError("--main is a program in C: it goes with --emit c")
        options["emit"] = "main"
    _report(
        files,
        as_json,
        at,
        lambda schedule, sizes: reports.schedule_nest(schedule, sizes, domain, reports.LowerOptions(**options)),
        lambda rows: reports.row_divisions(rows, domain),
        tables.show_lowered,
    )


@app.command()
@_common(_ONE_DOMAIN)
def explain(files: list[Path], domain: str | None, as_json: bool, at: SizeValues) -> None:
    """Explain answers: derivations, facts used, and precision lost.

    For a schedule each tensor's region is traced through the phases of bounds inference. Each division in the loop nest
    follows with its lowered form and facts; for a corrected division, the missing fact and how to state it. Accesses
    that leave their tensors come last. For a corpus each expression is traced through the tiers tried.

    \b
    Example:
      intset explain examples/flatten_symbolic.py
    """
    _report(
        files,
        as_json,
        at,
        lambda schedule, sizes: reports.schedule_explanation(schedule, sizes, domain),
        lambda rows: reports.row_explanations(rows, domain),
        tables.show_explained,
    )


@app.command()
@click.argument("file", metavar="FILE", callback=_checked(partial(_readable, suffixes=(".py",))))
@click.option("--stage", metavar="NAME", help="The stage; default: the first one computed inside another's loops.")
@click.option(
    "--axes",
    metavar="I,J",
    callback=_checked(lambda text: _listed([text or ""])),
    help="Axes of its tensor, down and across; default: the last two.",
)
@click.option(
    "--instance",
    metavar="LOOP=VALUE,...",
    multiple=True,
    callback=_checked(lambda texts: _integers(_listed(texts), "--instance")),
    help="The loops around it; default: first in need.",
)
@click.option(
    "-d",
    "--domain",
    "domains",
    metavar="NAME",
    multiple=True,
    callback=_checked(_domain_names),
    help="One panel each; repeatable.",
)
@_AT
@click.option("--schedule", metavar="NAME", help="One of several schedules of the script; default: the first.")
@click.option(
    "--compute",
    type=click.Choice(["exact", "box"]),
    default="exact",
    help="Nests guarded to what is required (default), or over its box.",
)
@click.option("-o", "--output", metavar="FILE", help="A .png or .svg file; default: SCRIPT-STAGE.png, here.")
def plot(file: Path, **options: Any) -> None:
    """Draw what a stage requires, computes and allocates.

    Two axes of the stage's tensor at a time, in one instance of the loops around it, one panel a domain (interval,
    stride, isl and auto unless --domain names others). Other axes are projected away; the counts are of all axes.
    Axes may be named, or numbered from 0. Needs matplotlib: pip install 'inferbound[plot]'.

    \b
    Examples:
      intset plot examples/resnet_conv3x3.py --stage pad --axes y,x -o pad.png
      intset plot examples/softmax_dynamic.py --at n=40 --at rows=8 -d interval -d auto -o softmax.svg
    """
    from lowering.cli import plot as drawing

    drawing.plot(file, **options)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # integers of any length are read and printed
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return _run(words)
    finally:
        sys.set_int_max_str_digits(digits)


def _run(words: list[str]) -> int:
    try:
        status = app.main(words, prog_name="intset", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except click.ClickException as error:
        return _fail(error.format_message())
    except IntSetError as error:
        return _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:  # stdout was closed: `intset bounds ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status if isinstance(status, int) else 0


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    lines = str(message).splitlines()
    print("intset: warning:", tables.visible(lines[0] if lines else "", keep=""), file=sys.stderr)


def _fail(message: str, status: int = 2) -> int:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    print("intset: error:", tables.visible(lines[0], keep="") if lines else "failed", file=sys.stderr)
    return status
