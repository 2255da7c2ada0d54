"""isl under limits of operations, in forked children: no call and no question ends its process by a signal.

isl meets a limit as a failed allocation. `_sweep` fails one allocation after the other, in every call of the table of
signatures that asks something of sets; what ends a child is marked in that table and not ended by a limit.
"""

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from intset import Context, Range, ShapeVar, Var, using
from intset.adapters.islpy import region
from intset.domains.isl.bindings import Error, isl
from intset.domains.isl.session import budget, context, end_of_dim
from tests.strategies.contexts import PRESBURGER, Drawn
from tests.sweeps import daily

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forked children")

_SECONDS = 60  # of one piece of work in a child; what takes longer is left out


def signals(work: list[Callable[[], object]]) -> list[tuple[int, str]]:
    """The pieces of work, by number, that ended a forked child, with the signal."""
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

_NAMES = ("i", "j", "n")
_UNARY = (
    "align_divs coalesce complement compute_divs count_val drop_unused_params is_bounded is_empty lexmax lexmin "
    "make_disjoint params sample_point simple_hull"
).split()
_BINARY = "gist intersect is_disjoint is_equal is_subset lex_lt_set subtract union".split()
_AT_0 = "dim_has_lower_bound dim_is_bounded dim_max dim_max_val dim_min dim_min_val get_stride".split()
_PIECEWISE = "add eq_set ge_set max min sub union_add".split()


def _affine(rng: random.Random) -> str:
    return " + ".join(f"{rng.randint(-7, 7)}{name}" for name in _NAMES) + f" + {rng.randint(-12, 12)}"


def _condition(rng: random.Random, part: int) -> str:
    """A condition, with quantified variables and divisions."""
    return rng.choice(
        (
            lambda: f"{_affine(rng)} >= 0",
            lambda: f"({_affine(rng)}) mod {rng.randint(2, 7)} <= {rng.randint(0, 2)}",
            lambda: f"{_affine(rng)} >= {rng.randint(1, 7)}*floor(({_affine(rng)})/{rng.randint(2, 14)})",
            lambda: f"(exists e{part}: {rng.randint(2, 5)}e{part} <= {_affine(rng)} and 4e{part} >= {_affine(rng)})",
        )
    )()


def _where(rng: random.Random) -> str:
    parts = []
    for part in range(rng.randint(1, 3)):
        bounds = [f"{-rng.randint(0, 9)} <= {x} <= {rng.choice(('9', 'n + 5'))}" for x in "ij"] + ["0 <= n <= 22"]
        parts.append(" and ".join([*bounds, *(_condition(rng, part) for _ in range(rng.randint(1, 3)))]))
    return " or ".join(f"({part})" for part in parts)


def _calls(rng: random.Random, ctx: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls on drawn sets and functions, by name."""
    m = isl()
    read, function = m.Set.read_from_str, m.PwAff.read_from_str
    sets = [read(ctx, f"[n] -> {{ [i, j] : {_where(rng)} }}") for _ in range(2)]
    projected = read(ctx, f"[n] -> {{ [i, j, k] : -9 <= 2k + i <= 9 and ({_where(rng)}) }}")
    sets.append(projected.project_out(m.dim_type.set, 2, 1))
    within = rng.choice(sets).params()
    first, second = (function(ctx, f"[n] -> {{ [i, j] -> [({_affine(rng)})] : {_where(rng)} }}") for _ in range(2))
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


def test_a_child_that_ends_by_a_signal_is_reported() -> None:
    assert signals([lambda: None, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None]) == [(1, "SIGKILL")]


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


def test_questions_that_ended_their_process() -> None:
    assert signals([_of_a_remainder, _count_of_a_union]) == []


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
