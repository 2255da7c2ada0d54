"""One soundness suite for all domains, also from outside; a sound one is never blamed; the boxes of the guide."""

import itertools
import json
import os
import pickle
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import intset
from examples.boxes.intset_boxes import Boxes
from examples.boxes.intset_boxes.elimination import WORK, System, also, cases_of, is_feasible, tidy, without
from intset import (
    NEG_INF,
    POS_INF,
    Bounds,
    Context,
    CountError,
    DomainError,
    Expr,
    IntervalSet,
    IntSet,
    Range,
    Region,
    ShapeVar,
    UndecidedError,
    Var,
    evaluate,
    logical_and,
    logical_or,
    maximum,
    minimum,
    parse,
    select,
)
from intset.config import Config
from intset.domains.interval import IntervalDomain
from intset.domains.query import Query
from intset.domains.registry import domain_named
from intset.domains.sets.region import ProductRegion
from intset.domains.stride import StridedDomain
from intset.errors import BudgetError
from intset.expr.node import Cond
from intset.linear.form import Linear
from intset.testing import soundness
from tests import ROOT
from tests.intset.domains.outside import KnownBits, registered
from tests.intset.elsewhere import ran
from tests.intset.oracle import Claims, answered
from tests.strategies.contexts import Drawn, value
from tests.sweeps import daily

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
BUILT_IN = ("auto", "interval", "stride", "modular", "interval*modular", "bits", "isl", "points", "interval*isl")


@pytest.fixture
def known_bits():
    with registered(KnownBits) as name:
        yield name


@pytest.mark.parametrize("count", daily([25, 10_000], 2))
@pytest.mark.parametrize("domain", BUILT_IN)
def test_every_domain_is_sound(domain, count):
    report = soundness(domain, count)
    assert report.wrong == []
    assert report.tally["asked"] == count
    if domain == "auto" and count == 25:
        assert report.tally["exact hull"] == report.tally["exact set"] == 25


def test_a_domain_from_outside_passes_the_same_suite(known_bits):
    assert soundness(known_bits, 120).wrong == []
    i = Var("i")
    found = Context({i: Range(0, 100)}).value_set(i * 8 + 5, domain=known_bits)
    assert 13 in found and 12 not in found  # the low three bits are 101


class Counted(IntervalSet):
    """A superset that counts its elements."""

    def count(self):
        return 77


LIES = {
    "is counted: 77": lambda s: Counted(s.min, s.max, s.by),
    "lacks": lambda s: IntervalSet(s.max, s.max, s.by) if s.min is not NEG_INF else s,
    "are called tight": lambda s: IntervalSet(s.min - 1, s.max, s.by, is_tight=True) if s.min is not NEG_INF else s,
    "elements instead of": lambda s: IntervalSet(s.min, s.max, s.by, is_exact=True),
    "is empty where": lambda s: IntervalSet(POS_INF, NEG_INF, s.by, is_exact=True),
}


@pytest.mark.parametrize("found", LIES)
def test_the_suite_finds_what_is_false(found):
    class Liar(IntervalDomain):
        name = "liar"

        def image(self, query):
            answer = IntervalDomain().image(query)
            return answer if answer.is_empty else LIES[found](answer)

        def bounds(self, query):
            answer = self.image(query)
            return Bounds(*answer.ends(), answer.is_tight)

    with registered(Liar):
        assert any(found in line for line in soundness("liar", 30).wrong)


def test_the_suite_finds_a_congruence_that_is_read_wrongly():
    class Rest(StridedDomain):
        name = "rest"

        def congruent(self, m, r):
            return self.constant(r)

    with registered(Rest):
        assert soundness("rest", 120).wrong


i, j = Var("i"), Var("j")


@pytest.mark.parametrize("operations", daily([2_000, Config().isl_operations], 2))
def test_a_region_that_is_hard_to_count_is_refused(operations):
    n = ShapeVar("n")
    with intset.using(isl_operations=operations):
        hard = Context({i: Range(0, n), j: Range(0, n)}).image(((i * 7 + j) % 9, (i + j * 5) % 7))
        with pytest.raises(CountError):
            hard.count()


# -- drawn domains -----------------------------------------------------------------------------------------------------

NAME = "thirdparty"
INNER = ("interval", "stride", "isl", "auto", "points", "modular")


def moved(end: Any, by: int) -> Any:
    return end + by if isinstance(end, Expr) else end


class Slack:
    """A sound domain: widened ends of another domain, with chosen optional methods."""

    name = NAME

    def __init__(self, inner: str, slack: int) -> None:
        self.inner, self.slack = domain_named(inner), slack

    def image(self, query: Query) -> IntSet:
        low, high = self.inner.image(query).ends()
        return IntervalSet(moved(low, -self.slack), moved(high, self.slack), NAME)


def bounds(self: Slack, query: Query) -> Bounds:
    return Bounds(*self.image(query).ends(), False, NAME)


def region(self: Slack, query: Query) -> Region:
    return ProductRegion([self.image(query.of(e)) for e in query.exprs], NAME, False)


def sound_domain(rng: random.Random) -> Slack:
    methods: dict[str, Any] = {"bounds": bounds} if rng.random() < 0.5 else {}
    if rng.random() < 0.5:
        methods["region"] = region
    if rng.random() < 0.3:
        isl: Any = domain_named("isl")  # it has regions
        methods |= {"points": lambda _, query: isl.points(query), "everything": lambda _, dims: isl.everything(dims)}
    return type("Drawn", (Slack,), methods)(rng.choice(INNER), rng.choice([0, 0, 1, 5]))


def drawn_context(rng: random.Random, **options: Any) -> Drawn:
    """A context whose ranges are empty at some or all sizes."""
    return Drawn(rng, ranges="empty sized sized dependent", sizes=2, exprs=2, **options)


def put(claims: Claims, exprs: tuple[Expr, ...], domain: str) -> None:
    """Questions to a sound domain: it answers them truly, or a refusal comes instead."""
    for name in ("about", "joined"):
        answered(lambda name=name: getattr(claims, name)(exprs[0], domain))
    answered(lambda: claims.algebra(exprs, ["itself", "union"], domain))


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 1600, 5), 320))
def test_a_sound_domain_is_never_blamed(start: int) -> None:
    for seed in [*range(start, start + 5), *([299] if not start else [])]:
        rng = random.Random(seed)
        with registered(sound_domain(rng)):
            drawn = drawn_context(rng, variables=3, kept=15)
            put(Claims(drawn.setting), drawn.exprs, rng.choice([NAME, NAME, NAME, f"{NAME}*modular", "auto"]))


class Crossing(Slack):
    """A domain whose ends cross by `gap`, whatever the question is."""

    gap = 1
    how = "image"

    def _ends(self, query: Query) -> tuple[Any, Any]:
        low, high = self.inner.image(query).ends()
        return (low, high) if low is POS_INF else (moved(high, self.gap), moved(low, 0))

    def image(self, query: Query) -> IntSet:
        low, high = self._ends(query) if self.how == "image" else (NEG_INF, POS_INF)
        return IntervalSet(low, high, NAME)

    def bounds(self, query: Query) -> Bounds:
        low, high = self._ends(query) if self.how == "bounds" else (NEG_INF, POS_INF)
        return Bounds(low, high, False, NAME)


@pytest.mark.parametrize("start", daily(range(0, 1600, 20), 80))
def test_ends_that_cross_are_blamed_exactly_where_there_is_a_point(start: int) -> None:
    blamed = 0
    for seed in range(start, start + 20):
        rng = random.Random(seed)
        how = rng.choice(["image", "bounds"])
        drawn = drawn_context(rng, facts=15, depth=1)
        ctx, e = drawn.ctx, drawn.exprs[0]
        is_constant = all(isinstance(end, Expr) and end.is_const for end in ctx.bounds(e, domain="interval"))
        error = None
        with registered(type("Wrong", (Crossing,), {"how": how, "gap": rng.choice([1, 4])})("interval", 0)):
            try:
                (ctx.bounds if how == "bounds" else ctx.value_set)(e, domain=NAME)
            except DomainError as caught:
                error = caught
        has_point = any(value(e, at) is not None for at in drawn.points())
        assert error is None or (has_point and "a lower and an upper end" in str(error)), (seed, error)
        assert error is not None or not (has_point and is_constant), seed
        blamed += error is not None
    assert blamed > 3


# -- the boxes of the guide: the public suite, the command line, threads -----------------------------------------------

n = ShapeVar("n", lower=1)


@pytest.fixture
def boxes() -> Iterator[str]:
    with registered(Boxes) as name:
        yield name


@pytest.mark.parametrize("seed", daily(range(0, 4000, 30), 200))
@pytest.mark.parametrize("factor", ["", "*modular"])
def test_the_public_suite(boxes: str, factor: str, seed: int) -> None:
    report = soundness(boxes + factor, count=30, seed=seed)
    assert report.wrong == [] and report.tally["exact set"] > 5


def test_what_boxes_cannot_say_is_answered_by_more(boxes: str) -> None:
    square = Context({i: Range(0, 4), j: Range(0, 4)}, domain=boxes).image((i, j))
    diagonal = Context({i: Range(0, n)}, domain=boxes).image((i, i))
    assert not diagonal.is_exact and "boxes gave up" in diagonal.notes[0]
    rest = square - diagonal
    assert not rest.is_exact and rest.project((0,)).box == (Range(0, 4),) and "nothing was" in rest.notes[-1]
    for refused in (diagonal.lexmin, diagonal.sample, rest.count):
        with pytest.raises((UndecidedError, CountError)):
            refused()


def test_regions_are_pickled_and_answer_in_other_threads(boxes: str) -> None:
    r = Context({i: Range(0, n), j: Range(0, 4)}, domain=boxes).image((i // 2, j * 3))
    sent = pickle.loads(pickle.dumps(r))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: (r.at({n: 1 + k % 5}).count(), sent.at({n: 1 + k % 5}).count()), range(16)))
    wanted = [len({(a // 2, 3 * b) for a in range(1 + k % 5) for b in range(4)}) for k in range(16)]
    assert found == [(w, w) for w in wanted]


def test_the_command_line_finds_it_by_its_entry_point(tmp_path: Path) -> None:
    """With package metadata as after installation, and the domain named by the environment."""
    info = tmp_path / "intset_boxes-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: intset-boxes\nVersion: 0.1\n")
    table = (ROOT / "examples" / "boxes" / "pyproject.toml").read_text().partition('"intset.domains"]\n')[2]
    name, _, target = table.splitlines()[0].partition(" = ")
    (info / "entry_points.txt").write_text(f"[intset.domains]\n{name} = {target.strip(chr(34))}\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "examples" / "boxes"), str(ROOT)])
    script = tmp_path / "corners.py"
    script.write_text("""
from bound import te
a = te.placeholder((4, 4), name="A")
t = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="T")
c = te.compute((2, 2), lambda i, j: t[i, j] + t[i + 2, j + 2], name="C")
s = te.create_schedule(c.op)
""")
    program = "import sys; from lowering.cli import main; sys.exit(main())"
    told = ran("-c", program, "bounds", script, "--json", PYTHONPATH=path, INTSET_DOMAIN="boxes")
    (report,) = json.loads(told)["files"]
    stages = report["schedules"][0]["stages"]
    (needed,) = [t["required"] for stage in stages for t in stage["tensors"] if t["tensor"] == "T"]
    assert needed["is_exact"] and needed["count_total"] == 8


# -- affine cases and elimination of variables, against enumeration ----------------------------------------------------

WINDOW = range(-4, 5)
X, Y, Z = Var("x"), Var("y"), Var("z")


def holds_at(system: System, point: dict[Expr, int]) -> bool:
    def value(form: Linear) -> int:
        return form.const + sum(c * point[t] for t, c in form.terms.items())

    return all(value(f) >= 0 for f in system.least) and all(value(f) % m == 0 for m, f in system.steps)


def drawn(rng: random.Random) -> System | None:
    """A system with all points inside the window."""

    def form() -> Linear:
        return Linear(rng.randint(-5, 5), {v: c for v in (X, Y, Z) if (c := rng.randint(-3, 3))})

    inside = [Linear(4, {v: sign}) for v in (X, Y, Z) for sign in (1, -1)]
    steps = [(rng.randint(2, 4), form()) for _ in range(rng.randint(0, 2))]
    return tidy([*inside, *(form() for _ in range(rng.randint(0, 3)))], steps)


@pytest.mark.parametrize("seed", daily(range(400), 100))
def test_what_is_left_of_a_system_without_a_variable(seed: int) -> None:
    system = drawn(random.Random(seed))
    if system is None:
        return
    points = [p for p in itertools.product(WINDOW, repeat=3) if holds_at(system, dict(zip((X, Y, Z), p, strict=True)))]
    assert is_feasible(system) == bool(points)
    wanted = {p[:2] for p in points}
    cases = without(system, Z)
    assert all(Z not in case.variables() for case in cases)
    found = {p for p in itertools.product(WINDOW, repeat=2) if any(holds_at(c, {X: p[0], Y: p[1]}) for c in cases)}
    assert found == wanted


CONDITIONS: list[Cond] = [
    (X // 3).eq(Y) & (X % 2).eq(1), (X - Y).ne(0), minimum(X, Y * 2) >= maximum(Y, -1), select(X > Y, X, Y - 3).eq(1),
    logical_or(X > 2, logical_and(Y < -1, X.ne(0))), parse("(x + 2*y) % 5 >= 3", {"x": X, "y": Y}),
    (X % -5 % 3).eq(Y % 2), (X % 4 + X // 4 % 3) % 2 >= (X - Y) % 4 % 3,
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_a_condition_is_its_cases(condition: Cond) -> None:
    split = cases_of(condition, {X, Y})
    assert all(t in (X, Y, *case.quotients) for case in split for form in case.forms for t in form.terms)
    cases = [tidy(case.forms) for case in split]
    for x, y in itertools.product(WINDOW, repeat=2):
        here = [Linear(-x, {X: 1}), Linear(x, {X: -1}), Linear(-y, {Y: 1}), Linear(y, {Y: -1})]
        reached = [s for case in cases if (s := also(case, here)) is not None and is_feasible(s)]
        assert bool(reached) == evaluate(condition, {X: x, Y: y}), (x, y)


def test_what_takes_too_many_steps_is_refused() -> None:
    least = [Linear(40, {X: 7, Y: -5}), Linear(40, {X: -7, Y: 3}), Linear(9, {Z: 1, X: 2})]
    system = tidy(least, [(6, Linear(1, {X: 1}))])
    assert system is not None
    with pytest.raises(BudgetError, match="elimination gave up"), WORK.budget(10):
        without(system, X)
    assert without(system, X)
