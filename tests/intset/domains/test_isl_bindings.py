"""isl's C interface: islpy's signatures, no leaks, the same answers; under limits no call ends its process by a signal.

isl meets a limit as a failed allocation. `_sweep` fails one allocation after the other, in every call of the table of
signatures that asks something of sets; what ends a child is marked in that table and not ended by a limit.
"""

import ctypes
import gc
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import islpy
import pytest

from intset import Context, Range, ShapeVar, Var, using
from intset.adapters.islpy import region
from intset.domains.isl import session
from intset.domains.isl.bindings import Error, signatures
from intset.domains.isl.session import budget, context, end_of_dim, isl, number, val
from intset.errors import BudgetError
from tests.intset.domains.isl_sets import affine, condition, read
from tests.intset.elsewhere import in_threads
from tests.strategies.contexts import PRESBURGER, Drawn
from tests.sweeps import daily

LINES = [line for line in signatures() if not line.of.endswith("List")]
NUMBERED = [
    x for x in LINES if x.of in ("Set", "Aff", "Constraint") and x.is_method and x.arguments[-1] == ("Val", True)
]
WITHOUT = {"get_basic_set_list", "get_constraint_list"}  # islpy visits these
PLAIN = {"int": "int", "long": "int", "text": "str"}
RESULTS = {"truth": "bool", "size": "int", "text": "str", "name": "str | None", "number": "Val", "void": "None"}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.function)
def test_the_table_says_what_islpy_says(line: Any) -> None:
    if line.method in WITHOUT:
        return
    shown = getattr(getattr(islpy, line.of), line.method).__doc__ or ""
    written = re.match(rf"{line.method}\((.*?)\) -> ([^\n]*)", shown)
    assert written, shown
    parameters = [part for part in re.split(r", (?=\w+: |\w+$)", written[1]) if part and part != "self"]
    arguments = line.arguments[1:] if line.is_method else line.arguments
    if arguments and arguments[-1].kind in ("points", "pieces", "multi_pieces"):
        return
    assert len(parameters) == len(arguments), shown
    for told, argument in zip(parameters, arguments, strict=True):
        kinds = told.partition(": ")[2].replace("islpy._isl.", "").split(" | ")
        assert PLAIN.get(argument.kind, argument.kind) in kinds or kinds == ["dim_type"] or kinds == ["on_error"], told
    result = RESULTS.get(line.result, PLAIN.get(line.result, line.result))
    assert written[2].replace("islpy._isl.", "") == result or line.result == "void", shown


def test_what_is_taken_over_is_copied_and_numbers_of_any_size_are_read() -> None:
    a, b = read("[n] -> { [x] : 0 <= x < n }"), read("{ [x] : x mod 3 = 1 }")
    before = str(a), str(b)
    both = a.union(b).intersect(a).coalesce()
    assert (str(a), str(b)) == before and both.is_equal(a)
    local = isl().LocalSpace.from_space(a.get_space())
    zero = isl().Aff.zero_on_domain(local)
    long = zero.set_coefficient_val(isl().dim_type.in_, 0, 1 << 40).set_constant_val(val(1 << 80))
    assert str(zero.scale_down_val(2).floor()) == str(zero) == "[n] -> { [x] -> [(0)] }"
    assert str(long) == f"[n] -> {{ [x] -> [({1 << 80} + {1 << 40}x)] }}"
    relation = isl().Map.read_from_str(context(), "{ [x] -> [y] }")
    with pytest.raises(ctypes.ArgumentError, match=r"wrong type|cannot be interpreted"):
        read("{ [x] : x > 0 }").union(relation)
    for n in (0, 1, -1, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63), 2**63, 10**30, -(10**30)):
        told = read("{ [x] }").fix_val(isl().dim_type.set, 0, val(n)).dim_max_val(0)
        assert number(told) == n
    assert session.whole(read("{ [x] : x > 0 }").dim_max_val(0)) is None
    assert session.whole(read("{ [x] : x > 0 and x < 0 }").dim_max_val(0)) is None


@pytest.mark.parametrize("line", NUMBERED, ids=lambda line: line.function)
def test_a_number_is_the_same_in_either_way(line: Any) -> None:
    """An `int` is the isl value of that number."""
    points = read("{ [x] }")
    local = isl().LocalSpace.from_space(points.get_space())
    aff = isl().Aff.zero_on_domain(local)
    start = {"Set": points, "Aff": aff, "Constraint": isl().Constraint.alloc_inequality(local)}[line.of]
    is_divided = line.method in ("scale_down_val", "mod_val")
    if is_divided:
        start = start.set_coefficient_val(isl().dim_type.in_, 0, 1)
    kind = isl().dim_type.in_ if line.of == "Aff" else isl().dim_type.set
    place = (kind, 0) if len(line.arguments) == 4 else ()
    for n in (1, 2, 3, 2**30, 2**31, 2**32, 2**62, 2**63 - 1):
        for k in {n - 1, n, n + 1, -n - 1, -n, 1 - n} if not is_divided else {n}:
            if abs(k) < 2**63:
                whole = isl().Val.int_from_si(context(), k)
                one, other = (getattr(start, line.method)(*place, number) for number in (k, whole))
                if line.of == "Constraint":
                    one, other = (isl().BasicSet.universe(points.get_space()).add_constraint(c) for c in (one, other))
                    one, other = isl().Set.from_basic_set(one), isl().Set.from_basic_set(other)
                elif line.of == "Aff":
                    one, other = (isl().Map.from_aff(f).range() for f in (one, other))
                assert str(one) == str(other), k  # also a number that wrapped around is written so: it is compared
                assert one.is_equal(other) and one.complement().is_disjoint(other), k


def test_what_is_called_back_may_raise() -> None:
    def stop(point: Any) -> None:
        raise KeyboardInterrupt

    points = read("{ [x, y] : 0 <= x < 5 and 0 <= y < x }")
    with pytest.raises(KeyboardInterrupt):
        points.foreach_point(stop)
    seen: list[Any] = []
    points.foreach_point(seen.append)
    assert len({str(point) for point in seen}) == len(seen) == 10
    with pytest.raises(BudgetError), budget(30):
        points.foreach_point(seen.append)


def test_objects_outlive_their_thread_and_its_context_is_used_again() -> None:
    kept: list[Any] = []

    def work(_: int) -> None:
        kept.append(read("{ [x] : 0 <= x < 7 }"))
        with pytest.raises(BudgetError), budget(5):
            read("{ [x, y] : x > y }").complement().lexmin()
        kept.append(context().value)

    for _ in range(2):
        in_threads(work, 1)
        gc.collect()  # the caught error references objects of its thread
    assert [str(one) for one in kept[::2]] == ["{ [x] : 0 <= x <= 6 }"] * 2
    assert kept[1] == kept[3] != context().value


# -- in processes of their own ----------------------------------------------------------------------------------------

ASK = """
from intset import Context, Range, ShapeVar, Var, minimum, select, using
from intset.errors import IntSetError
def text(asked):
    try:
        return str(asked())
    except IntSetError as error:
        return type(error).__name__
def ask():
    i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)
    with using(domain="isl"):
        ctx = Context({i: Range(0, n), j: Range(0, 7)}, assume=[i * 3 + j < 40])
        for e in (i * 7 + j, (i + 3 * j) % 5, minimum(i, j * 2) // 3, select(i < j, i, j + n), i + 2**40 * j):
            found, region = ctx.value_set(e), ctx.image((e, i))
            for one in (
                lambda: (str(found.min), str(found.max)), lambda: region.box, lambda: region.count(),
                lambda: region | region.project((1, 0)), lambda: region.at({n: 5}).count(),
                lambda: ctx.prove(e < 20).status, lambda: region.pieces(),
            ):
                yield text(one)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ASK + code], capture_output=True, text=True, check=False)


def test_nothing_is_left_in_a_context() -> None:
    """isl complains when a context is freed that something still belongs to."""
    done = run(
        "import ctypes, gc\n"
        "from intset.domains.isl import bindings, presburger, session\n"
        "library = bindings.shared_object()\n"
        "def told():\n"
        "    list(ask()); gc.collect()\n"
        "    ctx = session.context()\n"
        "    session._SESSION.names.clear(); presburger._prototype.cache_clear()\n"
        "    ctx.set_on_error(0); gc.collect()\n"
        "    library.isl_ctx_free(ctypes.c_void_p(ctx.value))\n"
        "    session._SESSION.context = None\n"
        "told(); bindings._IDLE.clear(); print('freed', flush=True)\n"
        "session.context().set_on_error(0)\n"
        "kept = session.isl().Set.read_from_str(session.context(), '{ [x] }')\n"
        "library.isl_ctx_free(ctypes.c_void_p(session.context().value)); import os; os._exit(0)"
    )
    assert done.stdout == "freed\n", done.stderr
    assert done.stderr.count("still reference it") == 1, done.stderr  # that of `kept`: the test can fail


# -- under limits of operations, in forked children --------------------------------------------------------------------


_SECONDS = 60  # of one piece of work in a child; what takes longer is left out


def signals(work: list[Callable[[], object]]) -> list[tuple[int, str]]:
    """The pieces of work, by number, that ended a forked child, with the signal."""
    if not hasattr(os, "fork"):
        pytest.skip("needs forked children")
    ended = []
    start = 0
    while start < len(work):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            with suppress(BaseException):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                for number in range(start, len(work)):
                    os.write(writer, number.to_bytes(4, "big"))
                    signal.alarm(_SECONDS)
                    with suppress(Exception):
                        work[number]()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            last = int.from_bytes(pipe.read()[-4:], "big")
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM:
            ended.append((last, signal.Signals(os.WTERMSIG(status)).name))
        start = last + 1
    return ended


# -- calls ------------------------------------------------------------------------------------------------------------

_NAMES = "ijn"
_UNARY = (
    "align_divs coalesce complement compute_divs count_val drop_unused_params is_bounded is_empty lexmax lexmin "
    "make_disjoint params sample_point simple_hull"
).split()
_BINARY = "gist intersect is_disjoint is_equal is_subset lex_lt_set subtract union".split()
_AT_0 = "dim_has_lower_bound dim_is_bounded dim_max dim_max_val dim_min dim_min_val get_stride".split()
_PIECEWISE = "add eq_set ge_set max min sub union_add".split()


def _where(rng: random.Random) -> str:
    parts = []
    for part in range(rng.randint(1, 3)):
        bounds = [f"{-rng.randint(0, 9)} <= {x} <= {rng.choice(('9', 'n + 5'))}" for x in "ij"] + ["0 <= n <= 22"]
        parts.append(" and ".join([*bounds, *(condition(rng, _NAMES, part) for _ in range(rng.randint(1, 3)))]))
    return " or ".join(f"({part})" for part in parts)


def _calls(rng: random.Random, ctx: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls on drawn sets and functions, by name."""
    m = isl()
    read, function = m.Set.read_from_str, m.PwAff.read_from_str
    sets = [read(ctx, f"[n] -> {{ [i, j] : {_where(rng)} }}") for _ in range(2)]
    projected = read(ctx, f"[n] -> {{ [i, j, k] : -9 <= 2k + i <= 9 and ({_where(rng)}) }}")
    sets.append(projected.project_out(m.dim_type.set, 2, 1))
    within = rng.choice(sets).params()
    first, second = (
        function(ctx, f"[n] -> {{ [i, j] -> [({affine(rng, 'ijn')})] : {_where(rng)} }}") for _ in range(2)
    )
    for name in _UNARY:
        yield name, partial(getattr(m.Set, name), rng.choice(sets))
    for name in _BINARY:
        yield name, partial(getattr(m.Set, name), *rng.sample(sets, 2))
    for name in _AT_0:
        yield (
            name,
            partial(getattr(m.Set, name), rng.choice(sets), *([3] if "_is_" in name or "_has_" in name else []), 0),
        )
    for name in _PIECEWISE:
        yield name, partial(getattr(m.PwAff, name), first, second)
    for one in (sets[0], first):
        yield "gist_params", partial(one.gist_params, within)
        yield "str", one.to_str


def _sweep(seed: int, most: int) -> None:
    """End each call of drawn sets at each of `most` numbers of operations, and at as many larger ones."""
    m, rng = isl(), random.Random(seed)
    ctx = m.Context()
    ctx.set_on_error(1)
    for _, call in _calls(rng, ctx):
        for limit in (*range(1, most), *sorted(rng.randrange(most, 20_000) for _ in range(most))):
            m.without_blocks(ctx)
            ctx.reset_operations()
            ctx.set_max_operations(limit)
            with suppress(Error):
                call()
            works = m.works(ctx)
            ctx.set_max_operations(0)
            if works:
                break


@pytest.mark.parametrize("seed", daily(range(40), 40))
def test_no_call_ends_its_process(seed: int) -> None:
    assert signals([partial(_sweep, seed, 6 if seed == 0 else 60)]) == []


def test_children_that_end_by_a_signal_are_reported() -> None:
    assert signals([lambda: None, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None]) == [(1, "SIGKILL")]
    assert signals([_of_a_remainder, _count_of_a_union]) == []


# -- questions --------------------------------------------------------------------------------------------------------


def _question(seed: int) -> None:
    """A question about sums, quotients and cases over ranges that depend on a size, under a small limit."""
    drawn = Drawn(f"limits {seed}", PRESBURGER, "sized dependent box", sizes=1, facts=50, exprs=2, depth=3)
    ctx, (e, f), rng = drawn.ctx, drawn.exprs, drawn.rng
    questions = (
        lambda: str(ctx.bounds(e)),
        lambda: str(ctx.value_set(e)),
        lambda: ctx.prove(e < f),
        lambda: ctx.image((e, f)).count(),
        lambda: (ctx.image((e,)) | ctx.image((f,))).box,
    )
    with using(isl_operations=rng.randint(200, 20_000), domain=rng.choice(("auto", "isl"))):
        rng.choice(questions)()


@pytest.mark.parametrize("first", daily(range(0, 20_000, 100), 200))
def test_no_question_ends_its_process(first: int) -> None:
    many = 20 if first == 0 else 100
    assert signals([partial(_question, seed) for seed in range(first, first + many)]) == []


def _of_a_remainder() -> None:
    n, i = ShapeVar("n", lower=2, upper=22), Var("i")
    str(Context({i: Range(n - 4, 6)}, assume=[i >= 0]).bounds((i - 1) // 2 % -7))


def _count_of_a_union() -> None:
    text = """[n] -> { [i,j] : (i>=-2 and j>=-2 and 3i+4j<=-2 and 3n<=-5i+6j-8 and (-3i+j+3n) mod 4 = 0)
        or (i>=0 and j>=0 and 3i+4j<=2n-6 and 2<=j+2n and (2j+n) mod 3 = 0) }"""
    region(text, params={"n": ShapeVar("n", lower=0)}).count()


def test_a_call_that_no_limit_may_end_is_charged_afterwards() -> None:
    m = isl()
    ctx = m.Context()
    ctx.set_on_error(1)
    points = m.Set.read_from_str(ctx, "[n] -> { [i] : exists e: 0 <= i <= n and 2e <= i and 3e >= i - n }")
    m.without_blocks(ctx)
    ctx.reset_operations()
    ctx.set_max_operations(5)
    assert points.compute_divs() is not None
    assert not m.works(ctx)
    with pytest.raises(Error):
        points.compute_divs()
    ctx.set_max_operations(0)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_set_with_divisions_and_no_end_has_no_end_under_a_limit(side: int) -> None:
    points = isl().Set.read_from_str(context(), "[n] -> { [x] : x % 7 = n and x % 5 >= n }")
    with budget(60_000):
        assert end_of_dim(points, 0, side) is None
