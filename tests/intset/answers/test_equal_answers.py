"""Equal questions get equal answers in any order, concurrently, and after interrupts at any line; under tiny budgets
every operation has typed answers only, and sound ones.
"""

import copy
import json
import pickle
import random
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from intset import Context, CountError, InputError, IntSet, Range, Region, ShapeVar, UndecidedError, Var, select, using
from intset.domains.sets.base import ShapeSet
from intset.domains.sets.region import region_of_shape
from intset.errors import IntSetError
from intset.expr.node import as_expr
from intset.prover.proof import PROOFS
from intset.testing.contexts import expression
from tests.intset.answers.repeatable import PER_SCENE, Scene, alone, answers, scene
from tests.intset.elsewhere import in_threads, ran
from tests.intset.oracle import ALGEBRA, Claims, answered
from tests.strategies.contexts import EVERY, Drawn, Expressions, world
from tests.sweeps import daily, turned

expected = cache(alone)


def differences(seed: int, of: Scene, found: list[str]) -> list[tuple[Any, ...]]:
    return [
        (seed, number, of.questions[number], first, second)
        for number, (first, second) in enumerate(zip(expected(seed), found, strict=True))
        if first != second
    ]


@pytest.mark.parametrize("seed", daily(range(210), 53))
def test_in_any_order(seed: int) -> None:
    """Permute the questions within one context; repeat them in a wider context."""
    rng = random.Random(seed)
    fresh = scene(seed)
    order = rng.sample(range(PER_SCENE), PER_SCENE)
    assert not differences(seed, fresh, answers(fresh, fresh.context(), order)), order
    untouched, fresh = scene(seed), scene(seed)
    wide = answers(fresh, fresh.wider_context())
    assert not differences(seed, fresh, answers(fresh, fresh.context()))
    answers(untouched, untouched.context())
    assert answers(untouched, untouched.wider_context()) == wide


@pytest.mark.parametrize("seed", daily(range(0, 12, 3), 4))
def test_in_eight_threads_on_one_context(seed: int) -> None:
    shared = scene(seed)
    ctx = shared.context()

    def work(number: int) -> list[str]:
        return answers(shared, ctx, random.Random(number).sample(range(PER_SCENE), PER_SCENE))

    for found in in_threads(work, 8):
        assert not differences(seed, shared, found)


@pytest.mark.parametrize("seeds", daily([range(8), range(200)], 2))
def test_a_set_is_shown_alike_in_every_thread(seeds: range) -> None:
    """Text of isl-backed sets is thread-independent, although each thread parses its own isl object."""
    shown = 0
    with ThreadPoolExecutor(1) as other:
        for seed in seeds:
            drawn = scene(seed)
            ctx, rng = drawn.context(), random.Random(seed)
            for _ in range(6):
                with suppress(IntSetError):  # a set that isl refuses
                    found = ctx.value_set(expression(rng, list(drawn.ranges), 3), domain="isl")
                    here = repr(found)
                    assert other.submit(repr, found).result() == here == repr(found)
                    shown += 1
    assert shown > 3 * len(seeds)


def test_a_need_that_its_guard_implies_is_none() -> None:
    """Definedness conditions of an earlier question do not leak into a later one."""
    found = []
    for is_first in (True, False):
        i, l, j, k, x, y = (Var(name) for name in "iljkxy")
        ctx = Context({i: Range(-2, ShapeVar("n")), l: Range(i, i), j: Range(0, i + 2), k: Range(-j, j - 3 + j)})
        if not is_first:
            ctx.prove((x // y).eq(3))
        found.append(repr(ctx.prove(select(k * 3 + (k + 1) >= 3, k // k, k // 2) >= 3)))
    assert found[0] == found[1]


@pytest.mark.parametrize("seeds", daily([range(8), range(400)], 2))
def test_what_a_question_is_about_is_no_news_to_others(seeds: range) -> None:
    """Unranged sizes and divisions of one question do not influence another."""
    for seed in seeds:
        rng = random.Random(seed)
        i, j, k, n, stranger, size = Var("i"), Var("j"), Var("k"), ShapeVar("n", lower=1), Var("x"), ShapeVar("y")
        box = {v: Range(rng.randint(-2, 4), rng.randint(1, 5)) for v in (i, j)}
        e = Expressions(rng, (i, j), "sums products choices quotients").integer(2)
        ((low,), *_) = sorted(world(box).values(e)[()])
        sized = {**box, k: Range(0, n)}
        goals = (
            (box, e >= low),
            (sized, (e // (n - k)) * (n - k) <= e),
            (sized, (i * k + j) % (n * j - k * j + 1) >= low),
        )
        for ranges, goal in goals:
            found = []
            for is_first in (True, False):
                PROOFS.clear()
                ctx = Context(ranges)
                if not is_first:
                    ctx.bounds(e * stranger // size)
                    ctx.prove(stranger // (size - 3) >= 5)
                with using(tiers=("linear", "isl", "points")):
                    proof = ctx.prove(goal)
                found.append(f"{proof!r} {proof.requires} {proof.vacuous}")
            assert found[0] == found[1]


@pytest.mark.parametrize(("seed", "tries"), daily([(0, 12), (1000, 1500)], 2))
def test_the_same_question_gets_the_same_answer_after_interrupts(seed: int, tries: int) -> None:
    ran("-m", "tests.intset.answers.repeatable", "interrupted", seed, tries)


IN_AN_IMPORT = """
import signal, sys
from intset import Context, Range, Var

def interrupt(*_):
    raise KeyboardInterrupt

i, j = Var("i"), Var("j")
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]), 1.0)  # again: Python itself loses one in an import
try:
    while True:
        Context({i: Range(0, 2000), j: Range(0, i)}, assume=[i * 3 + j < 40]).image((i + j, i - j)).count()
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
found = Context({i: Range(0, 2000), j: Range(0, i)}, assume=[i * 3 + j < 40]).image((i + j, i - j)).count()
print(found)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
def test_a_signal_while_islpy_is_imported_for_the_first_time() -> None:
    for delay in (0.005, 0.03, 0.06):
        assert ran("-c", IN_AN_IMPORT, delay) == "67\n", delay


COUNTED = """
import random, signal, sys, time
from intset import Context, Range, ShapeVar, Var

sent = caught = 0
lost = []
sys.unraisablehook = lambda given: lost.append(repr(given.object)) if given.exc_type is KeyboardInterrupt else None

def interrupt(*_):
    global sent
    sent += 1
    raise KeyboardInterrupt

def ask():
    ctx = Context({i: Range(0, n), j: Range(0, m)})
    told = [ctx.prove(i * m + j < n * m).status, ctx.bounds(i * m + j), ctx.prove((i * i).ne(j + 5)).status]
    told += [proof.certificate().kind for proof in (ctx.prove(i * i < n * n), ctx.prove((n * (n + 1) % 2).eq(0)))]
    small = Context({i: Range(0, 20), j: Range(0, i)}, assume=[i * 3 + j < 40])
    return [*told, small.image((i + j, i - j)).count(), small.bounds((i * 7 + j) % 5)]

def ask_until_interrupted(seconds):  # a function: in Python 3.13 the end of a loop is not in the `try` around it
    before = sent
    signal.setitimer(signal.ITIMER_REAL, seconds)
    while sent == before:
        ask()

i, j, n, m = Var("i"), Var("j"), ShapeVar("n"), ShapeVar("m")
first = str(ask())  # loads what it needs
signal.signal(signal.SIGALRM, interrupt)
rng, end = random.Random(0), time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    try:
        ask_until_interrupted(rng.uniform(0.0005, 0.02))
    except KeyboardInterrupt:
        caught += 1
print(caught > 5, sent == caught, lost, str(ask()) == first)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
@pytest.mark.parametrize("seconds", daily([0.5, 60.0], 2))
def test_no_interrupt_is_lost(seconds: float) -> None:
    """Interrupts during questions propagate, and leave the answers as they were; none is lost in a destructor, where
    Python prints and drops it."""
    assert ran("-c", COUNTED, seconds) == "True True [] True\n"


# -- budgets ----------------------------------------------------------------------------------------------------------


BUDGETS: list[dict[str, Any]] = [
    {"isl_operations": 1, "points": 0},
    {"isl_operations": 1},
    {"isl_operations": 10, "points": 1},
    {"isl_operations": 100, "points": 0},
    {"isl_operations": 400, "points": 1},
    {"isl_operations": 1000, "points": 0},
    {"isl_operations": 4000, "points": 0},
    {},
]
NOT_KNOWN = object()
# What may be refused, and how; everything else must answer.
REFUSALS: dict[str, Any] = {
    **dict.fromkeys(("count", "count_max", "count_total"), CountError),
    **dict.fromkeys(("condition", "conditions", "constraints", "in_instances"), UndecidedError),
    **dict.fromkeys(("lexmin", "lexmax", "sample", "pieces"), UndecidedError),
    "to_text": (UndecidedError, InputError),  # InputError: a size in a product
    "__contains__": (UndecidedError, InputError),  # of what depends on sizes
}
DATA = {
    "by", "dims", "where", "shape", "sets", "value", "values", "low", "high", "offset", "steps", "decided",
}  # attributes, not operations  # fmt: skip


def answer(name: str, ask: Callable[[], Any]) -> Any:
    """The result of an operation, or `NOT_KNOWN` for its documented refusals."""
    try:
        return ask()
    except REFUSALS.get(name, ()):
        return NOT_KNOWN


def asked(s: IntSet | Region, other: Any, point: Any, values: dict[Var, int]) -> dict[str, Any]:
    """The answers of all operations that `s` has; a new one has no row here, and fails."""
    asks: dict[str, Callable[[], Any]] = {
        "__contains__": lambda: point in s,
        "__or__": lambda: s | other,
        "__and__": lambda: s & other,
        "__sub__": lambda: s - other,
        "project": lambda: s.project((0,)),
        "__le__": lambda: s <= other,
        "__ge__": lambda: s >= other,
        "__eq__": lambda: s == other,
        "__repr__": lambda: repr(s),
        "__reduce__": lambda: pickle.loads(pickle.dumps(s)),
        "at": lambda: s.at(values),
        "substituted": lambda: s.substituted({v: as_expr(x) for v, x in values.items()}),
        "contains": lambda: s.contains(point),
        "condition": lambda: s.condition(point),
        "constraints": lambda: s.constraints(point),
        "to_text": lambda: s.to_text("isl"),
        "point_of": lambda: s.point_of(point, lambda x, what: x),
        "in_instances": lambda: s.in_instances(),
        "conditions": lambda: s.conditions(point if isinstance(s, Region) else (as_expr(point),)),
        "outer_box": lambda: s.outer_box().pairs,
    }
    methods = ("count", "count_max", "count_total", "describe", "ends", "bounds", "knows_where_empty")
    for name in (*methods, "hull", "lexmin", "lexmax", "sample", "pieces"):
        asks[name] = lambda name=name: getattr(s, name)()
    for name in (
        "min", "max", "params", "is_empty", "is_everything", "is_single_point", "is_tight", "is_exact", "box", "notes",
        "coordinate_bounds", "point", "mentioned", "base", "strides", "extents", "modulus", "remainder",
    ):  # fmt: skip
        asks[name] = lambda name=name: getattr(s, name)
    own = {"__contains__", "__or__", "__and__", "__le__", "__ge__", "__eq__", "__repr__", "__reduce__"}
    known = {name for name in dir(s) if not name.startswith("_") or name in own and hasattr(s, name)} - DATA
    assert known <= set(asks), f"not tried here: {known - set(asks)}"
    return {name: answer(name, asks[name]) for name in sorted(known)}


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize(("budget", "domain"), turned(BUDGETS, ["auto", "isl", "stride"], 2))
@pytest.mark.parametrize("seed", daily(range(40), 40))
def test_sets_and_regions_answer_under_any_budget(budget: dict[str, Any], domain: str, seed: int) -> None:
    """A set made under the default budget answers under a small one, and so does a set made under the small one."""
    drawn = Drawn(f"{seed} {domain} {budget}", EVERY, "box sized", sizes=1, exprs=2, facts=40)
    claims, (e, f) = Claims(drawn.setting, seed=seed), drawn.exprs
    truth, sizes = claims.setting.values(e, f), dict.fromkeys(drawn.sizes, 3)
    early = [claims.ctx.value_set(one, domain=domain) for one in (e, f)], claims.ctx.image((e, f), domain=domain)
    with using(**budget):
        claims.about(e, domain)
        answered(lambda: claims.joined(f, domain))
        for name in ("itself", [*ALGEBRA][1 + len(f"{domain} {budget}") % 9]):
            answered(lambda name=name: claims.algebra((e, f), [name], domain))
        late = [claims.ctx.value_set(one, domain=domain) for one in (e, f)], claims.ctx.image((e, f), domain=domain)
        for (first, second), region in (early, late):
            found = asked(first, second, claims.rng.randint(-3, 9), sizes)
            if not drawn.sizes and first.is_exact and second.is_exact:
                assert not found["__le__"] or set(*claims.truth(e).values()) <= set(*claims.truth(f).values())
            assert drawn.sizes or not truth or not first.is_exact or first.is_tight or found["notes"] or first.notes
            assert not region.is_exact or region.is_tight or region.notes or not truth
            point = next(iter(next(iter(truth.values()), {(-1000, 3)})))
            verdict = asked(region, region, point, sizes)["__contains__"]
            assert verdict in (True, NOT_KNOWN) or point not in truth.get((), ())


@pytest.mark.parametrize("budget", daily(BUDGETS[:-1], 2), ids=str)
def test_symbolic_regions_answer_under_any_budget(budget: dict[str, Any]) -> None:
    i, j, n, q = Var("i"), Var("j"), ShapeVar("n", lower=1, upper=40), ShapeVar("q", lower=1)
    claims = Claims(world({i: Range(1, 7), j: Range(0, n)}, sizes=[n, q]))
    for exprs in (((q | -8) + i % q, (i - q) | 10), ((i * j) // 3, j % 5 + i), (i // n + j, j // 4 - i % 3)):
        with using(**budget):
            answered(lambda exprs=exprs: claims.algebra(exprs, ["itself"]))
            region = claims.ctx.image(exprs)
            for there in [region.at({n: size, q: size}) for size in (1, 7)]:
                found = asked(there, region, (3, 3), {})
                assert not there.is_exact or there.is_tight or there.notes
                assert found["pieces"] is NOT_KNOWN or all(piece.outer_box().pairs for piece in found["pieces"])
            assert asked(region, region, (i, j), {n: 3})
            for s in map(claims.ctx.value_set, exprs):
                assert (s | s).is_exact <= s.is_exact and s <= s and repr(s.at({n: 3}))


def test_an_operation_that_gives_up_says_so() -> None:
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 100), j: Range(0, 100)})
    region = ctx.image((i // 3 + j % 7, i % 11 - j // 2))
    with using(isl_operations=1):
        small = region_of_shape(region.shape, True, (), region.outer_box())
        assert region.is_exact and region.is_tight and not region.notes, "budgets are those that it was made under"
        assert (0, 0) in region
    assert small.is_exact and not small.is_tight and "given up" in small.notes[0]
    assert [(int(r.min), int(r.max)) for r in small.box] == [(0, 39), (-49, 10)]
    with pytest.raises(UndecidedError):
        (0, 0) in small  # noqa: B015
    assert region.is_tight and not region.notes


def test_copies_and_fresh_processes_answer_alike() -> None:
    i = Var("i")
    s = Context({i: Range(0, 300)}).value_set(i // 7 + i % 5, domain="isl")
    for again in (copy.copy(s), pickle.loads(pickle.dumps(s))):
        with using(isl_operations=1):
            assert (int(again.min), int(again.max)) == (0, 46)
            assert pickle.loads(pickle.dumps(s)).count() == s.count(), "a copy keeps its budgets"
            with pytest.raises(CountError):
                ShapeSet(s.shape, s.by, is_exact=True).count()
        assert again == s and again.count() == s.count()
    printed = json.loads(ran("-m", "tests.intset.answers.repeatable", "answers", 2, 4, PYTHONHASHSEED="4711"))
    for seed, found in zip(range(2, 5), printed, strict=True):
        assert not differences(seed, scene(seed), found)
