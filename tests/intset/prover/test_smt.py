"""The z3 tier: encodings against `evaluate`, checked models and cores, and nothing kept between questions."""

import itertools
import os
import random
import signal
import sys
import threading
from functools import reduce
from types import FrameType
from typing import Any

import pytest
import z3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import intset
from intset import Context, Range
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import (
    Opaque,
    asserting,
    cast,
    ceildiv,
    floordiv,
    floormod,
    logical_and,
    minimum,
    select,
    sum_of,
    truncdiv,
    truncmod,
)
from intset.expr.evaluate import evaluate, value_or_none
from intset.expr.node import Cond, Expr, ShapeVar, Var, const, make
from intset.prover.smt import Z3_DEPTH, Encoder, SmtResult, SmtSession
from intset.prover.z3_solver import Z3Terms
from intset.testing.strategies import conditions, expressions, points
from tests.intset.elsewhere import forked, in_threads
from tests.sweeps import daily

i, j, k = Var("i"), Var("j"), Var("k")
n, m, p = ShapeVar("n", lower=1), ShapeVar("m", lower=1), ShapeVar("p", lower=1)


DIVISIONS = dict(zip(ops.DIVISIONS, (floordiv, floormod, ceildiv, truncdiv, truncmod), strict=True))


@pytest.fixture(scope="module")
def session() -> SmtSession:
    """A module-wide session, which exposes state leaking between queries."""
    return SmtSession()


def labelled(*facts: Cond) -> list[tuple[Cond, Any]]:
    return [(fact, str(fact)) for fact in facts]


def within(var: Expr, low: int, high: int) -> Cond:
    return (var >= low) & (var <= high)


def proves(session: SmtSession, goal: Cond, *facts: Cond, **options: Any) -> bool:
    """Whether the goal is proved; a refutation is checked once more, and unknown fails the test."""
    answer = session.check(goal, labelled(*facts), **options)
    assert answer.status != "unknown", (goal, answer.reason)
    if answer.status == "refuted":
        assert answer.model is not None
        assert not evaluate(goal, answer.model)
        assert all(evaluate(fact, answer.model) for fact in facts)
    return answer.status == "proved"


def value_at(encoder: Encoder, e: Expr, point: dict[Expr, int]) -> int:
    replaced = [(encoder.encode(var).value.ref, encoder.integer(value).ref) for var, value in point.items()]
    return z3.simplify(z3.substitute(encoder.encode(e).value.ref, *replaced)).as_long()


@pytest.mark.parametrize("op", DIVISIONS, ids=repr)
def test_divisions_for_all_signs(op: ops.Op) -> None:
    encoder, cases = Encoder(Z3Terms(z3.Context())), 0
    build = DIVISIONS[op]
    assert op.meaning is not None
    for a, b in itertools.product(range(-7, 8), range(-5, 6)):
        if b:
            forms = (build(i, j), build(i, b), build(i, -const(-b)), build(a, j), build(a, b))
            assert {value_at(encoder, form, {i: a, j: b}) for form in forms} == {op.meaning(a, b)}, (a, b)
            cases += 1
    assert cases == 150


@pytest.mark.parametrize("mask", [0, 1, 7, 6, 5, 0b1011000, -1, -8, -7, -86])
def test_masks_are_arithmetic(mask: int) -> None:
    encoder = Encoder(Z3Terms(z3.Context()))
    for a in range(-130, 131, 3):
        forms: list[tuple[Expr, int]] = [(i & mask, a & mask), (mask | i, a | mask), (i ^ mask, a ^ mask), (~i, ~a)]
        assert all(value_at(encoder, form, {i: a}) == value for form, value in forms)


# the meaning of operations


@pytest.mark.parametrize("op", [ops.BITAND, ops.BITOR, ops.BITXOR], ids=repr)
@pytest.mark.parametrize(("low", "start"), daily([(low, start) for start in range(9) for low in (-4, 0)], 9))
def test_bit_operations_within_bounds(session: SmtSession, op: ops.Op, low: int, start: int) -> None:
    assert op.meaning is not None
    e = make(op, (i, j))
    for a, b in list(itertools.product(range(low, 4), repeat=2))[start::9]:
        facts = labelled(i.eq(a), j.eq(b))
        for bounds in (lambda node: (low, 3), lambda node: (None, None), lambda node: (0, 0)):  # right, none, wrong
            assert session.check(e.eq(op.meaning(a, b)), facts, bounds=bounds).status == "proved"
            assert session.check(e.ne(op.meaning(a, b)), facts, bounds=bounds).status == "refuted"


POINT_VARS = (i, j, n)
TABLE = Opaque("T", 1, -9, 9)
LEAVES = (*POINT_VARS, TABLE[i], TABLE[j])
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def full_points(draw: st.DrawFn) -> dict[Expr, int]:
    """Values for the leaves: sizes as declared, table elements in their range, and equal where the index is."""
    drawn: Any = draw(points((i, j), -9, 9))
    point: dict[Expr, int] = {**drawn, n: draw(st.integers(1, 9))}
    elements = {index: draw(st.integers(-9, 9)) for index in sorted({point[i], point[j]})}
    return {**point, TABLE[i]: elements[point[i]], TABLE[j]: elements[point[j]]}


@SLOW
@given(expressions(LEAVES), full_points())
def test_encodings_agree_with_evaluate(e: Expr, point: dict[Expr, int]) -> None:
    facts = labelled(*(leaf.eq(value) for leaf, value in point.items()))
    session, value = SmtSession(), value_or_none(evaluate, e, point)
    defined = session.check(e.ne(e + 0), facts)  # false wherever it is defined
    assert defined.status == ("proved" if value is None else "refuted"), defined.reason
    if value is not None:
        assert session.check(e.eq(value), facts).status == "proved"
        refuted = session.check(e.ne(value), facts)
        assert refuted.status == "refuted" and refuted.model is not None
        assert evaluate(e, refuted.model) == value


@SLOW
@given(conditions(LEAVES, depth=2), conditions(LEAVES, depth=2), st.lists(full_points(), min_size=5, max_size=5))
def test_answers_are_never_wrong(goal: Cond, fact: Cond, tried: list[dict[Expr, int]]) -> None:
    answer = SmtSession().check(goal, [(fact, "fact")], rlimit=100_000)
    holds = [value_or_none(evaluate, goal, point) for point in tried if value_or_none(evaluate, fact, point)]
    if answer.status == "proved":
        assert False not in holds
    if answer.status == "refuted":
        assert answer.model is not None
        assert evaluate(goal, answer.model) is False
        assert evaluate(fact, answer.model) is True
        assert n not in answer.model or answer.model[n] >= 1


# what z3 is for


def test_products_of_sizes(session: SmtSession) -> None:
    loop = (i >= 0, i < n, j >= 0, j < m)
    true: list[tuple[Cond, tuple[Cond, ...]]] = [
        (i - n * (i // n) >= 0, (i >= 0,)),
        (i // n < n, (i >= 0, i < n * n)),
        (i // m < n, (i >= 0, i < n * m)),
        (i * m + j < n * m, loop),
        (((i * m + j) // m).eq(i), loop),
        (((i * m + j) % m).eq(j), loop),
        ((i * m + j) * p + k < n * m * p, (*loop, k >= 0, k < p)),
        (((i // n) // m).eq(i // (n * m)), (i >= 0,)),
        ((n * (n + 1) % 2).eq(0), ()),
    ]
    false: list[tuple[Cond, tuple[Cond, ...]]] = [
        (i * m + j < n * m - 1, loop),
        (i // n < m, (i >= 0,)),
        (((i * m + j) // m).eq(i), loop[:3]),
        (((i * m + j) % n).eq(j), loop),
        (i // n < n, (i >= 0, i <= n * n)),
        ((n * (n + 1) % 3).eq(0), ()),
    ]
    assert [proves(session, goal, *facts) for goal, facts in true] == [True] * len(true)
    assert [proves(session, goal, *facts) for goal, facts in false] == [False] * len(false)


def test_no_fact_of_a_core_can_be_left_out(session: SmtSession) -> None:
    a, b, c, d, e = (Var(name) for name in "abcde")
    queries: list[tuple[Cond, list[Cond]]] = [
        (c % n <= a + 9, [a >= 3, c >= 3, c < a + 4, d >= -3, e >= 0, e < 9]),
        (e % n <= a + 9, [a >= -1, b >= -1, c < n, d >= 3, d < 9, e >= 0, e < a + 4]),
        (select(d < b, d, b) <= a + 12, [a < 5, b < a + 4, c >= 2, d >= -2, d < a + 4, e >= 1, e < 9]),
    ]
    for goal, facts in queries:
        core = session.check(goal, [(fact, fact) for fact in facts]).core
        assert core and proves(session, goal, *core)
        assert not any(proves(session, goal, *(fact for fact in core if fact is not left_out)) for left_out in core)


@pytest.mark.parametrize("bits", [63, 64, 200, 5_000, 40_000])
def test_constants_of_any_size(session: SmtSession, bits: int) -> None:
    big = 2**bits + 1
    assert proves(session, (i + big > big) & (i * big >= big) & (i - big <= 3 - big), within(i, 1, 3))
    answer = session.check(i.ne(big * 3 + j), labelled(j.eq(7)))
    assert answer.status == "refuted" and answer.model == {i: big * 3 + 7, j: 7}
    assert proves(session, (const(-big) // 2).eq(-(2 ** (bits - 1)) - 1))
    assert proves(session, cast(i, bits).eq(i), within(i, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


# limits, interruptions, threads


def cubes() -> tuple[Cond, list[tuple[Cond, str]]]:
    return (i * i * i + j * j * j + k * k * k).ne(114), labelled(i * j > k, i > 3)


def test_budgets_and_what_is_too_large(session: SmtSession) -> None:
    goal, facts = cubes()
    answer = session.check(goal, facts, rlimit=2_000)
    assert (answer.status, answer.reason) == ("unknown", "rlimit")
    assert SmtSession(timeout_ms=20).check(goal, facts, rlimit=0).reason in ("timeout", "incomplete")
    assert proves(session, i * m + j < n * m, i >= 0, i < n, j >= 0, j < m)
    power = reduce(lambda e, _: e * j + 1, range(64), i)  # z3 would not heed its limits
    assert session.check(power > 0).reason.startswith("a product of degree")
    wide = logical_and(*(i >= q for q in range(30)))
    assert proves(session, wide, i >= 29)
    many = sum_of(Var("x") for _ in range(1000))
    assert proves(session, many - many < 1)
    assert session.check(cast(i, 10**5) > 0).reason.startswith("a constant of")
    assert session.check(i < const(1 << 100_000)).status == "unknown"
    with pytest.raises(BudgetError):
        Encoder(Z3Terms(z3.Context())).encode(const(1 << 100_000))


@pytest.mark.parametrize(
    "step",
    [
        lambda e, q: select(e > q, e, j + q),
        lambda e, q: (e + q) // 3,
        lambda e, q: abs(minimum(e, -e + q)),
        lambda e, q: select(asserting(e > q, e) < 7 // e, e & j, e << j),
    ],
)
def test_deep_terms_do_not_crash(step: Any) -> None:
    """Near the limit z3 is asked, in a thread, whose stack may be smaller; beyond it is not."""

    def run(_: int) -> tuple[SmtResult, SmtResult]:
        near = SmtSession().check(reduce(step, range(Z3_DEPTH // 3), i) >= 0, labelled(j > 5), rlimit=10_000)
        return near, SmtSession().check(reduce(step, range(3 * Z3_DEPTH), i) >= 0, rlimit=10_000)

    ((near, beyond),) = in_threads(run, 1)
    assert beyond.status == "unknown" and beyond.reason.startswith("terms nested")
    assert near.status in ("unknown", "refuted", "proved")


class _Pulled(BaseException):
    """Not an Exception, as KeyboardInterrupt."""


def interrupted_at_line(number: int, session: SmtSession, goal: Cond, facts: list[tuple[Cond, Any]]) -> bool:
    """Ask, and raise before the `number`-th line that runs in this tier; whether there were so many lines."""
    lines = itertools.count(1)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if "intset/prover/smt" not in frame.f_code.co_filename.replace(os.sep, "/"):
            return None
        if event == "line" and next(lines) == number:
            raise _Pulled
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        session.check(goal, facts)
    except _Pulled:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("step", daily([47, 3], 2))
def test_an_interruption_anywhere_leaves_nothing(step: int) -> None:
    session = SmtSession()
    for goal in (i < 5, j + n > 7, (i & j) <= 4):
        for number in itertools.count(1, step):
            facts = labelled(i < 5, i > number % 7, j > 0)
            if not interrupted_at_line(number, session, goal, facts):
                break
            assert not proves(session, i < 8, j > 0)
            assert proves(session, i < 8, i < 8, j > 0)
            assert not proves(session, i > 3, i < 5, j > 0)
        assert number > 100


@pytest.mark.skipif(os.name == "nt", reason="no signals between processes")
def test_keyboard_interrupt_is_raised_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """z3's own handler would swallow the signal and report a cancelled query."""
    session = SmtSession(timeout_ms=100)
    check = z3.Z3_solver_check_assumptions
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let jobs in the background ignore it

    def interrupted(*given: Any) -> Any:
        """Sent while z3 works, and, however slow the machine, before its answer is read."""
        sender = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        sender.start()
        try:
            return check(*given)
        finally:
            sender.join()

    try:
        for _ in range(2):
            monkeypatch.setattr(z3, "Z3_solver_check_assumptions", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.check((i * i * i + j * j * j + k * k * k).ne(42), labelled(i > 100, j > 50), rlimit=0)
            monkeypatch.undo()
            assert not proves(session, i > 50)
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_share_a_session(session: SmtSession) -> None:
    def work(number: int) -> None:
        for turn in range(8):
            bound = number * 100 + turn
            true = session.check(i * m + j < n * m, labelled(i >= 0, i < n, j >= 0, j < m))
            false = session.check(i < bound, labelled(i <= bound))
            assert (true.status, false.status, false.model) == ("proved", "refuted", {i: bound}), (number, turn)

    in_threads(work, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_session_survives_a_fork(session: SmtSession) -> None:
    goal, facts = cubes()
    session.check(goal, facts, rlimit=10_000)
    assert forked(lambda: [proves(session, i < 3), proves(session, i * i >= 0)]) == [False, True]
    assert not proves(session, i < 3)


HARD: list[tuple[Cond, list[Cond]]] = [
    (truncmod(j * i * 32 * i * j, i * j).eq(0), []),
    ((j * i * 32 * (i * j) % (6 * i * j)).eq(i * j * 16 % 3 * (i * j * 2)), []),
    ((i * 32 * i % (i * j)).eq(i * 32 % j * i), []),
    (cubes()[0], [i * j > k, i > 3]),
    ((i & j) <= 12, [i >= 0, j >= 0, i + j < 40]),
    (i * m + j < n * m, [i >= 0, i < n, j >= 0, j < m]),
    ((n * m * 4) // (2 * m + 2) <= 2 * n, []),
]


@pytest.mark.parametrize("rlimit", [3_000, 40_000])
def test_an_answer_does_not_depend_on_what_was_asked_before(session: SmtSession, rlimit: int) -> None:
    """Near the limit, too, where the order in which z3 looks at its terms decides."""

    def answer(number: int) -> tuple[Any, ...]:
        goal, facts = HARD[number]
        found = session.check(goal, [(fact, fact) for fact in facts], rlimit)
        return (found.status, found.reason, found.core, found.declared, str(found.model))

    alone = [answer(number) for number in range(len(HARD))]
    rnd = random.Random(rlimit)
    for _ in range(2):
        for number in rnd.sample(range(len(HARD)), len(HARD)):
            assert answer(number) == alone[number]
    assert {status for status, *_ in alone} >= {"proved", "unknown"}


def test_the_clock_stops_z3_only_if_told_to() -> None:
    """Timed-out answers say so and are not cached; without a clock, budgets alone decide."""
    goal = HARD[1][0]
    ctx = Context({})
    with intset.using(z3_timeout_ms=1, tiers="z3"):
        stopped = ctx.prove(goal)
        assert stopped.status == "unknown" and "stopped by the clock (z3_timeout_ms=1)" in stopped.reason
    axes = Context({i: Range(0, n), j: Range(0, m), k: Range(0, p)})
    for timeout in (1, 600_000, 0):
        with intset.using(z3_timeout_ms=timeout, tiers="z3,linear"):
            proof = axes.prove((i * m + j) * p + k < n * m * p)
        # where many processes run, z3 may end before its own clock is given a turn
        was_stopped = timeout == 1 and proof.by == "linear"
        assert (proof.status, proof.by) == ("proved", "linear" if was_stopped else "z3")
        assert ("clock" in proof.reason) == was_stopped
    with intset.using(tiers="z3", z3_rlimit=3_000):
        assert ctx.prove(goal).reason == "z3 gave up: rlimit"
