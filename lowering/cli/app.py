"""The commands, their arguments, and the checks of arguments that several commands share.

Guarantee: an error is one line on stderr, with exit status 2; a reader of the output may leave early, as in
`intset bounds ... | head`.
"""

import os
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias, TypeVar, cast

import click
from click.core import ParameterSource

from intset import InputError, IntSetError, core
from intset.config import check_name
from intset.expr import shown
from intset.expr.printer import visible
from intset.installation import library_version
from lowering.cli import reports
from lowering.cli.inputs import CorpusRow, load_script, read_rows
from lowering.cli.reports import JsonObject, OfSchedule, SizeValues, write_report

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


class AtLeast(click.IntRange):
    """An option type: integers greater than or equal to a number."""

    name = "integer"


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
    names = tuple(check_name(part, "--domain") for part in parts)
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"--domain names {shown(name)} {'twice' if times == 2 else f'{times} times'}")
    return names


TRACEBACK: Final = "traceback"


def traceback_option() -> click.Option:
    """The option that prints the source of an error before its message."""

    def note(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            context.find_root().obj[TRACEBACK] = True

    words = "Print where an error comes from, before its line."
    return click.Option(["--traceback"], is_flag=True, is_eager=True, expose_value=False, callback=note, help=words)


AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, complete and stable.")
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
        return files(domain(AS_JSON(AT(command))))

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


class Messages:
    """A stream of messages. Guarantee: a reader that has closed its end changes neither answers nor the exit status."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            discard(self._stream)
        return len(text)


def discard(stream: TextIO) -> None:
    """Send what a stream holds, and all that follows, nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


OfRows: TypeAlias = Callable[[Sequence[CorpusRow]], JsonObject]
Show: TypeAlias = Callable[[JsonObject], None]


def _report(
    of_schedule: OfSchedule, of_rows: OfRows, show: Show, files: Sequence[Path], as_json: bool, at: SizeValues
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
        reports.print_json({"files": found})
    return found


_COMPACT = click.option("--compact", is_flag=True, help="Fold strides and diagonals out of the storage.")

# -- commands -----------------------------------------------------------------------------------------------------

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, context_settings=_SETTINGS, no_args_is_help=True)
@click.version_option(library_version(), prog_name="intset", message=f"%(prog)s %(version)s (core: {core})")
def app() -> None:
    """Bounds, regions, proofs and division lowering for tensor compilers.

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
      The configurations of a space, and what is measured at each:
        intset space examples/conv_tilings.py
        intset explore examples/conv_tilings.py --out results --jobs 4 --by bytes

    \b
    Domains:
      auto              the cheapest certified answer (the default)
      interval          ends alone, symbolic where sizes are
      stride            intervals with strides, exact on tiled loops
      modular           congruences
      interval*modular  their reduced product; 'a*b' is one for any two
      isl               exact Presburger sets
      points            enumeration of small boxes

    Plugins may add more; `intset domains` lists all. The environment variable INTSET_DOMAIN, or 'domain' in the table
    [tool.intset] of pyproject.toml, sets the default.

    An access outside its tensor is an error: 'bounds' and 'explain' list each with a point at which it is outside,
    'lower' refuses the schedule, unless --unsafe is given. What depends on sizes becomes an assertion at the head
    of the function, what depends on data a check before the access.

    \b
    Exit status:
      0    done
      1    compare found a wrong answer; with --strict, explore a failure
      2    bad input, named in one line on stderr
      130  interrupted
    """


@app.command()
@common(ONE_DOMAIN)
@_COMPACT
def bounds(domain: str | None, compact: bool, **asked: Any) -> None:
    """Print the bounds of schedules and of corpus rows.

    For a schedule: the range of each axis and, for each tensor, the elements required and computed in one instance, and
    the storage allocated; then lists every access that may leave its tensor, with an example point.

    For a corpus: both ends of each index expression by the chosen domain, and whether they are proved attained; a
    condition is always true, always false, or both.

    \b
    Examples:
      intset bounds examples/matmul_cached.py
      intset bounds --domain interval --json corpus.json
    """
    _report(
        lambda schedule, sizes: reports.schedule_bounds(schedule, sizes, domain, compact),
        lambda rows: reports.row_bounds(rows, domain),
        reports.show_bounds,
        **asked,
    )


@app.command()
@common(MANY_DOMAINS)
@click.option("--report", metavar="DIR", help="Write a row for each question and domain or peer, as Parquet and HTML.")
def compare(domains: tuple[str, ...], report: str | None, **asked: Any) -> int:
    """Compare domains.

    On a corpus: the share of exact hulls, the mean ratio of the hull returned to the true one, the share of value sets
    represented exactly, the time, and the number of wrong answers, which must be 0. Of conditions: the share decided,
    with every counterexample checked. Rows with sizes are checked at several concrete sizes.

    On a schedule: what each domain allocates, and what is really required.

    --report writes DIR/tightness.parquet and DIR/tightness.html: a row for each index expression or tensor and each
    domain, plug-ins included, with the ratio of its answer to the true one; TVM and Halide, where they are installed,
    are asked about the index expressions at constant bounds. Needs pyarrow: pip install '.[sweep]' in a clone.

    \b
    Examples:
      intset compare benchmarks/data/index_expressions.json --report results
      intset compare benchmarks/data/index_expressions.json
      intset compare --domain interval,auto examples/resnet_conv3x3.py
    """
    every = () if report is None else reports.default_domains()
    found = _report(
        lambda schedule, sizes: reports.schedule_comparison(schedule, sizes, domains or every),
        lambda rows: reports.row_comparison(rows, domains, with_peers=report is not None),
        reports.show_comparison,
        **asked,
    )
    if report is not None:
        page, number = write_report(found, Path(report))
        print(f"{page}: {number:,} rows", file=sys.stderr)
    return 1 if any(report.get("violations") for report in found) else 0


@app.command()
@common(ONE_DOMAIN)
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
    domain: str | None, with_main: bool, files: list[Path], as_json: bool, at: SizeValues, **options: Any
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
      intset lower --emit c --main examples/matmul_cached.py > matmul.c
      cc -O3 matmul.c -lm && ./a.out
      intset lower --strength examples/flatten_symbolic.py
    """
    if with_main:
        if options["emit"] != "c":
            raise click.UsageError("--main is a program in C: it goes with --emit c")
        options["emit"] = "main"
    _report(
        lambda schedule, sizes: reports.schedule_nest(schedule, sizes, domain, **options),
        lambda rows: reports.row_divisions(rows, domain),
        reports.show_lowered,
        files,
        as_json,
        at,
    )


@app.command()
@common(ONE_DOMAIN)
def explain(domain: str | None, **asked: Any) -> None:
    """Explain answers: derivations, facts used, and precision lost.

    For a schedule each tensor's region is traced through the phases of bounds inference. Each division in the loop nest
    follows with its lowered form and facts; for a corrected division, the missing fact and how to state it. Accesses
    that leave their tensors come last. For a corpus each expression is traced through the tiers tried.

    \b
    Example:
      intset explain examples/flatten_symbolic.py
    """
    _report(
        lambda schedule, sizes: reports.schedule_explanation(schedule, sizes, domain),
        lambda rows: reports.row_explanations(rows, domain),
        reports.show_explained,
        **asked,
    )


@app.command()
@click.argument(
    "file",
    metavar="FILE|DIR",
    callback=checked(lambda name: Path(name) if Path(name).is_dir() else readable(name, suffixes=(".py",))),
)
@click.option("--stage", metavar="NAME", help="The stage; default: the first one computed inside another's loops.")
@click.option(
    "--axes",
    metavar="I,J",
    callback=checked(lambda text: listed([text or ""])),
    help="Axes of its tensor, down and across; default: the last two.",
)
@click.option(
    "--instance",
    metavar="LOOP=VALUE,...",
    multiple=True,
    callback=checked(lambda texts: integers(listed(texts), "--instance")),
    help="The loops around it; default: first in need.",
)
@click.option(
    "-d",
    "--domain",
    "domains",
    metavar="NAME",
    multiple=True,
    callback=checked(domain_list),
    help="One panel each; repeatable.",
)
@AT
@click.option("--schedule", metavar="NAME", help="One of several schedules of the script; default: the first.")
@click.option(
    "--compute",
    type=click.Choice(["exact", "box"]),
    default="exact",
    help="Nests guarded to what is required (default), or over its box.",
)
@click.option("--by", metavar="COLUMN", help="Of a DIR: the value drawn over --axes; default: the first one.")
@click.option(
    "--pareto",
    metavar="A,B",
    callback=checked(lambda text: listed([text or ""])),
    help="Of a DIR: two values whose Pareto front is drawn.",
)
@click.option("-o", "--output", metavar="FILE", help="A .png or .svg file; default: SCRIPT-STAGE.png or DIR.png, here.")
def plot(file: Path, by: str | None, pareto: list[str], **options: Any) -> None:
    """Draw what a stage needs and stores, or an exploration's results.

    Of a script: two axes of the stage's tensor at a time, in one instance of the loops around it, one panel a domain
    (interval, stride, isl and auto unless --domain names others). Other axes are projected away; the counts are of all
    axes. Axes may be named, or numbered from 0. Needs matplotlib: pip install '.[plot]' in a clone.

    Of a folder that `intset explore` wrote: a heat map of --by over two names, the least over all other names, or the
    Pareto front of two values.

    \b
    Examples:
      intset plot examples/resnet_conv3x3.py --stage pad --axes y,x -o pad.png
      intset plot examples/softmax_dynamic.py --at n=40 --at rows=8 -o max.svg
      intset plot results --axes ty,tx --by cost -o cost.png
      intset plot results --pareto bytes,cost
    """
    if file.is_dir():
        refuse("stage", "instance", "domains", "at", "schedule", "compute", why="is of a script, and FILE is a folder")
        from lowering.cli.plot import plot_results

        plot_results(file, options["axes"], by, pareto, options["output"])
        return
    refuse("by", "pareto", why="is of a folder of results, and FILE is a script")
    from lowering.cli import plot as drawing

    drawing.plot(file, **options)


_SPACE_FILE = checked(partial(readable, suffixes=(".py",), of="defines a space"))


@app.command()
@click.argument("file", metavar="FILE", callback=_SPACE_FILE)
@click.option("--sample", type=AtLeast(0), default=5, help="Members drawn uniformly; default: 5.")
@click.option("--seed", type=int, default=0, help="The seed of the sample.")
@click.option("--best", type=AtLeast(1), default=10, help="With --by: the number of members listed.")
@click.option("--by", metavar="EXPRESSION", help="List the members with the least value of an expression of the names.")
@AS_JSON
def space(file: Path, sample: int, seed: int, best: int, by: str | None, as_json: bool) -> None:
    """Print a space: its count, the values left, a sample, the best.

    FILE is a Python script that defines `space = Space({...}, where=[...])`. The conditions leave
    each name the values printed. For an empty space the contradictory conditions are listed.

    \b
    Examples:
      intset space examples/conv_tilings.py
      intset space --by "ty * tx" --best 3 examples/conv_tilings.py
    """
    if by is None:
        refuse("best", why="counts the members least in an expression: it goes with --by")
    report = reports.space_report(file, sample, seed, best, by)
    (reports.print_json if as_json else reports.show_space)(report)


@app.command()
@click.argument("file", metavar="FILE", callback=_SPACE_FILE)
@click.option("--out", metavar="DIR", required=True, help="The folder of the results.")
@click.option("--jobs", type=AtLeast(1), help="Processes; default: this one alone.")
@click.option("--dask", metavar="ADDRESS", help="The scheduler of a Dask cluster, such as tcp://10.0.0.1:8786.")
@click.option("--best", type=AtLeast(1), default=10, help="Rows listed at the end; default: 10.")
@click.option("--by", metavar="COLUMN", help="The value that is least in the best rows; default: the first one.")
@click.option("--largest", is_flag=True, help="The greatest values of --by are best.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if a configuration failed.")
@click.option("--fresh", is_flag=True, help="Delete the results that are there.")
@AS_JSON
def explore(file: Path, as_json: bool, **options: Any) -> int:
    """Measure every configuration of a space into a folder.

    The folder has Parquet files. FILE is a Python script that defines `space`, `make(configuration)`, and
    `measure(made)` unless `make` gives the numbers itself. Run again, it goes on where it stopped; an interrupt writes
    what is done. Results of other functions in the same folder are refused. Needs pyarrow:
    pip install '.[sweep]' in a clone, '.[dask]' with --dask.

    \b
    Examples:
      intset explore examples/conv_tilings.py --out results --jobs 4 --by bytes
      intset plot results --axes ty,tx --by bytes -o bytes.png
    """
    report, is_good = reports.explored(file, **options)
    (reports.print_json if as_json else reports.show_explored)(report)
    return 0 if is_good else 1


@app.command()
@AS_JSON
def domains(as_json: bool) -> None:
    """List the domains: where from, and what each is exact on.

    Domains of other packages are plugins; one that fails to import is named with the reason, and skipped.

    \b
    Example:
      intset domains
    """
    (reports.print_json if as_json else reports.show_domains)(reports.all_domains())


for _command in (app, *app.commands.values()):
    _command.params.append(traceback_option())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `intset bounds ... >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # as long as the process
    words = list(sys.argv[1:] if arguments is None else arguments)
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # integers of any length are read and printed
    try:
        with warnings.catch_warnings(), redirect_stderr(cast("TextIO", Messages(sys.stderr))):
            warnings.showwarning = _warn
            status = _run(words)
            sys.stdout.flush()
            return status
    except (BrokenPipeError, SystemExit):  # stdout was closed: `intset bounds ... | head`; click then raises SystemExit
        discard(sys.stdout)
        return 0
    finally:
        sys.set_int_max_str_digits(digits)


def _run(words: list[str]) -> int:
    asked: dict[str, bool] = {}
    try:
        status = app.main(words, prog_name="intset", standalone_mode=False, obj=asked)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        raise
    except (click.ClickException, IntSetError, OSError) as error:
        if asked.get(TRACEBACK):
            traceback.print_exc()
        message = message_of(error)
        for word in words:  # a file's name may break a line, of which only the first is printed
            message = message.replace(word, visible(word)) if word else message
        return _fail(message)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    lines = str(message).splitlines()
    print("intset: warning:", visible(lines[0] if lines else ""), file=sys.stderr)


def _fail(message: str, status: int = 2) -> int:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    print("intset: error:", visible(lines[0]) if lines else "failed", file=sys.stderr)
    return status
