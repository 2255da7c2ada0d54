"""The commands: what the user types; errors become one line and exit status 2."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, TypeVar

import click

from intset import IntSetError
from intset.installation import DISTRIBUTION
from lowering.cli import commands
from lowering.cli.lowered import Lowering
from lowering.cli.tables import visible

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

try:
    version = metadata.version(DISTRIBUTION)
except metadata.PackageNotFoundError:
    version = "(not installed)"

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(help=_MANUAL, context_settings=_SETTINGS, no_args_is_help=True)
@click.version_option(version, prog_name="intset", message="%(prog)s %(version)s")
def app() -> None:
    pass


def _common(domain_help: str) -> Callable[[_Command], _Command]:
    """The arguments that all commands share."""

    def decorate(command: _Command) -> _Command:
        decorators = (
            click.argument("files", metavar="FILE...", nargs=-1, required=True),
            click.option("-d", "--domain", metavar="NAME", help=domain_help),
            click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and stable."),
            click.option(
                "--at", "at", metavar="NAME=VALUE", multiple=True, help="Fix a size of schedules; repeatable."
            ),
        )
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


_ONE_DOMAIN = "The domain that answers; default: auto."
_COMPACT = "Fold strides and diagonals out of the storage."
_MANY_DOMAINS = "The domains to compare, with commas between; default: all."


@app.command()
@_common(_ONE_DOMAIN)
@click.option("--compact", is_flag=True, help=_COMPACT)
def bounds(files: tuple[str, ...], domain: str | None, as_json: bool, at: tuple[str, ...], compact: bool) -> None:
    """Print bounds: of every stage of a schedule, of every row of a corpus.

    For a schedule: the range of each axis and, for each tensor, the elements required and computed in one instance, and
    the storage allocated; then the accesses that leave their tensors, or may, each at a point where it does.

    For a corpus: the two ends of each index expression by the chosen domain, and whether they are known to be attained;
    for a condition whether it is always true, always false, or both occur.

    \b
    Examples:
      intset bounds examples/matmul_cached.py
      intset bounds --domain interval --json corpus.json
    """
    commands.bounds(files, domain, as_json, at, compact)


@app.command()
@_common(_MANY_DOMAINS)
def compare(files: tuple[str, ...], domain: str | None, as_json: bool, at: tuple[str, ...]) -> int:
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
    return commands.compare(files, domain, as_json, at)


@app.command()
@_common(_ONE_DOMAIN)
@click.option("--emit", type=click.Choice(["nest", "c"]), default="nest", help="Print the loop nest (default), or C.")
@click.option("--compact", is_flag=True, help=_COMPACT)
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
    files: tuple[str, ...],
    domain: str | None,
    as_json: bool,
    at: tuple[str, ...],
    emit: str,
    compact: bool,
    nests: str,
    strength: bool,
    unsafe: bool,
    compute: str | None,
    reassociate: bool,
    with_main: bool,
) -> None:
    """Lower schedules to loop nests.

    Divisions are lowered to truncating ones where that is proved right, and corrected where it is not; `intset explain`
    says which fact is missing. With --strength, a loop in which i // n and i % n change by a fixed amount carries them
    from one iteration to the next, and what it does not change is divided before it. Division by a constant is left to
    the C compiler.

    A schedule with an access outside its tensor is refused; where that depends on sizes, the function asserts them at
    its head; where it depends on data, the access is checked before it is made. --unsafe leaves all of them unchecked.

    The C is C99: one function of pointers to the elements, then of the sizes; it returns 0, or the number of the
    assertion that does not hold, or -1 without memory. Indices have 32 bits where that is proved to be enough. With
    --main a program follows, which takes the sizes as arguments, fills its inputs, and prints seconds a call and a
    checksum.

    A corpus has no loops: of its index expressions each is printed with its divisions lowered, and the rules that were
    used; --emit, --compact, --nests, --strength, --unsafe and --at have no effect on it.

    \b
    Examples:
      intset lower examples/resnet_conv3x3.py
      intset lower --emit c --main examples/matmul_cached.py > matmul.c && cc -O3 matmul.c -lm && ./a.out
      intset lower --strength examples/flatten_symbolic.py
    """
    if with_main and emit != "c":
        raise click.UsageError("--main is a program in C: it goes with --emit c")
    options = Lowering("main" if with_main else emit, compact, nests, strength, unsafe, compute, reassociate)
    commands.lower(files, domain, as_json, at, options)


@app.command()
@_common(_ONE_DOMAIN)
def explain(files: tuple[str, ...], domain: str | None, as_json: bool, at: tuple[str, ...]) -> None:
    """Say why: the way to each answer, the facts used, and what was given up.

    For a schedule each tensor's region is traced through the phases of bounds inference; then of each division in its
    loop nest, what it becomes, by which facts, and where it needs a correction, which fact is missing and how to state
    it; last, the accesses that leave their tensors. For a corpus each expression is traced through the tiers that were
    tried.

    \b
    Example:
      intset explain examples/flatten_symbolic.py
    """
    commands.explain(files, domain, as_json, at)


@app.command()
@click.argument("file", metavar="FILE")
@click.option("--stage", metavar="NAME", help="The stage; default: the first one computed inside another's loops.")
@click.option("--axes", metavar="I,J", default="", help="Axes of its tensor, down and across; default: the last two.")
@click.option(
    "--instance", metavar="LOOP=VALUE,...", multiple=True, help="The loops around it; default: first in need."
)
@click.option("-d", "--domain", "domains", metavar="NAME", multiple=True, help="One panel each; repeatable.")
@click.option("--at", metavar="NAME=VALUE", multiple=True, help="Fix a size of the schedule; repeatable.")
@click.option("--schedule", metavar="NAME", help="One of several schedules of the script; default: the first.")
@click.option(
    "--compute",
    type=click.Choice(["exact", "box"]),
    default="exact",
    help="Nests guarded to what is required (default), or over its box.",
)
@click.option("-o", "--output", metavar="FILE", help="A .png or .svg file; default: SCRIPT-STAGE.png, here.")
def plot(
    file: str,
    stage: str | None,
    axes: str,
    instance: tuple[str, ...],
    domains: tuple[str, ...],
    at: tuple[str, ...],
    schedule: str | None,
    compute: str,
    output: str | None,
) -> None:
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

    drawing.plot(file, domains, at, schedule, stage, axes, instance, compute, output)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # numbers of a file are read and printed whatever their length
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return _run(given)
    finally:
        sys.set_int_max_str_digits(digits)


def _run(given: list[str]) -> int:
    try:
        status = app.main(given, prog_name="intset", standalone_mode=False)
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
    except BrokenPipeError:  # the reader went away: `intset bounds ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status if isinstance(status, int) else 0


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    lines = str(message).splitlines()
    print("intset: warning:", visible(lines[0] if lines else "", keep=""), file=sys.stderr)


def _fail(message: str, status: int = 2) -> int:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    print("intset: error:", visible(lines[0], keep="") if lines else "failed", file=sys.stderr)
    return status
