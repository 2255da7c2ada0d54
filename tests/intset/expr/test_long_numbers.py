"""Long numbers, expressions that share parts at every level, and weak tables."""

import contextlib
import gc
import pickle
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import intset
from bound import te, tir
from intset import (
    Context,
    CountError,
    Expr,
    InputError,
    IntSetError,
    Opaque,
    Range,
    ShapeVar,
    Var,
    const,
    evaluate,
    from_json,
    maximum,
    parse,
    select,
    to_json,
)
from intset.check import Certificate
from intset.expr.dag import WeakTable, postorder
from intset.expr.evaluate import LONGEST_VALUE, some_may_be_long
from intset.expr.node import POS_INF
from intset.expr.printer import decimal, number_of, number_text
from lowering import lower_division
from tests.strategies.refusals import refused_with_words
from tests.sweeps import daily

i, j = Var("i"), Var("j")
I = Var("i")
EDGES = [lead * 10 ** (digits - 1) for digits in (1, 599, 600, 601, 1200, 4300, 4301, 10_000) for lead in (1, 9)]
LONG_OR_SHORT = st.sampled_from(EDGES) | st.integers(-(10**30), 10**30) | st.integers(0, 40_000).map(lambda k: 1 << k)


@given(LONG_OR_SHORT, st.sampled_from((-1, 0, 1)) | st.integers(0, 1 << 64))
def test_numbers_of_any_length_are_written_and_read_back(value: int, off: int) -> None:
    for number in (value + off, -value - off):
        assert int(number_text(number), 0) == number == number_of(decimal(number))
        assert number.bit_length() > 10_000 or decimal(number) == str(number)


@pytest.mark.parametrize("wrong", ["", "-", "--1", "1_0", "0x10", " 1", "１"])  # noqa: RUF001
def test_what_is_no_decimal_integer_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="no decimal integer"):
        number_of(wrong)


LONG = 10**10_000  # more digits than Python converts, more bits than isl is given


def long_questions() -> dict[str, intset.Expr]:
    return {
        "end": j, "sum": i + j, "product": i * const(LONG) // 3, "remainder": (j * i) % LONG, "short": j % 7,
        "quotient": (i + j) // (LONG - 1), "absolute": abs(j - LONG // 2), "mixed": i % 2 * const(LONG) + j // 3,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(long_questions()))
@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "modular", "isl", "points", "interval*modular"])
def test_questions_about_long_numbers_are_answered(name: str, domain: str) -> None:
    e, ctx = long_questions()[name], Context({i: Range(0, 8), j: Range(0, LONG)})
    for point in ({i: 0, j: 0}, {i: 7, j: LONG - 1}, {i: 3, j: LONG // 2}):
        value = evaluate(e, point)
        found, elements = ctx.bounds(e, domain=domain), ctx.value_set(e, domain=domain)
        region = ctx.image((e, i), domain=domain)
        assert found[0] <= value <= found[1] and elements.contains(value)
        assert all(bool(side.min <= v) and bool(v <= side.max) for side, v in zip(region.box, (value, point[i])))  # noqa: B905
        with contextlib.suppress(CountError):
            assert elements.count() >= 1 and region.count() >= 8
        assert found.is_tight or domain != "auto" or name in ("quotient", "absolute", "mixed", "remainder")
        assert repr(found) and repr(elements) and repr(region)


SLOW = {"quotient", "absolute", "mixed", "remainder"}  # seconds each: certificates of long numbers


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.nightly] * (n in SLOW)) for n in long_questions()])
def test_proofs_about_long_numbers_say_what_they_mean(name: str) -> None:
    e, ctx = long_questions()[name], Context({i: Range(0, 8), j: Range(0, LONG)})
    for goal in (e > -LONG, e < 5, e <= 8 * LONG):
        proof = ctx.prove(goal)
        assert repr(proof) and str(ctx.explain(goal))
        if proof.counterexample is not None:
            assert evaluate(goal, proof.counterexample) is False
        with contextlib.suppress(InputError):  # no certificate is found for all of them
            certificate = proof.certificate()
            assert certificate.check(ctx) and Certificate.from_text(certificate.to_text()).check(ctx)
            assert certificate.words()


def test_isl_and_certificates_are_not_given_long_numbers() -> None:
    ctx = Context({i: Range(0, 8), j: Range(0, LONG)})
    answer = ctx.value_set(i % 2 * const(LONG) + j // 3, domain="isl")
    assert answer.notes == ("isl gave up: a number of 33220 bits",) and not answer.is_exact
    assert LONG not in Context({i: Range(0, 8)}).value_set(i * i % 5, domain="isl")
    # Checking all points of a box would compute numbers of millions of digits: another kind is found.
    e: Expr = i
    for _ in range(20):
        e = e * e
    found = Context({i: Range(0, 1000)}).bounds(e).certificate()
    assert found.lower is not None and found.lower.kind != "points"
    assert found.upper is None and found.at_upper is None and found.check()


REFUSED: list[Callable[[], object]] = [
    lambda: ShapeVar("n", lower=LONG, upper=5),
    lambda: ShapeVar("n", multiple_of=-LONG),
    lambda: Range(0, -LONG),
    lambda: Context({i: (0, LONG)}),
    lambda: Context({LONG: Range(0, 8)}),
    lambda: Context(assume=[LONG]),
    lambda: Context().fits(i, bits=LONG),
    lambda: Context().fits(i, bits=-LONG),
    lambda: evaluate(i, {i: 1}, bits=LONG),
    lambda: evaluate(i, {i: LONG}, bits=8),
    lambda: intset.using(isl_operations=-LONG),
    lambda: intset.using(tiers=LONG),
    lambda: parse(LONG),
    lambda: parse("i", LONG),
]
test_refusals_name_long_numbers = refused_with_words([("", one) for one in REFUSED], IntSetError)


STEPS: dict[str, Callable[[Expr, Var], Expr]] = {
    "squares": lambda e, i: e * e,
    "squares and a term": lambda e, i: e * e + i,
    "rounded": lambda e, i: e * e // 7,
    "neighbours": lambda e, i: e * (e + 1),
    "choices": lambda e, i: select(e > 3, e * e, e + 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_towers_of_products_end_at_a_known_length(name: str) -> None:
    i = Var("i")
    e: Expr = i
    for _ in range(24):
        e = STEPS[name](e, i)
    ctx = Context({i: Range(0, 1000)})
    bounds = ctx.bounds(e)
    assert bounds[1] is POS_INF and not bounds.is_tight and bounds.notes
    assert not ctx.value_set(e).is_exact


def test_the_length_is_never_underestimated() -> None:
    i = Var("i")
    for k, step in enumerate(STEPS.values()):
        e: Expr = i
        for _ in range(30):
            e = step(e, i)
            if some_may_be_long(postorder((e,)), {i: 3}):
                break
            assert evaluate(e, {i: 5}).bit_length() <= LONGEST_VALUE
        else:
            raise AssertionError(f"step {k} was to become too long")


def test_points_of_long_numbers_are_shown():
    big = 10**10000
    x = Var("x")
    proof = Context({x: None}).prove(x * 3 < const(big))
    assert proof.status == "refuted" and proof.counterexample == {x: proof.counterexample[x]}
    bounds = Context({x: Range(0, big)}).bounds(x * 3)
    certificate = bounds.certificate()
    for shown in (proof.counterexample, proof.certificate(), certificate):
        assert len(repr(shown)) < 400 and "\n" not in repr(shown)
    assert "bits" in repr(proof.counterexample) and str(certificate) and str(proof.certificate())


# -- towers of products ------------------------------------------------------------------------------------------------

LEVELS: dict[str, Callable[[Expr], Expr]] = {
    "square": lambda e: e * e,
    "quotient": lambda e: e + e // 3,
    "maximum": lambda e: maximum(e, e + 1),
    "select": lambda e: select(e > 0, e, -e),
    "remainder": lambda e: e % 7 * e,
}
MOST = {24: 2_000_000, 60: 2_000_000, 200: 8_000_000}  # calls, those of first imports included
UP_TO_1000 = Context({I: Range(0, 4)})
QUESTIONS: dict[str, Callable[[Expr], Any]] = {
    "simplify": UP_TO_1000.simplify,
    "bounds": UP_TO_1000.bounds,
    "value_set": UP_TO_1000.value_set,
    "image": lambda e: UP_TO_1000.image((e, I)),
    "prove": lambda e: UP_TO_1000.prove(e >= -5),
    "fits": lambda e: UP_TO_1000.fits(e, 32),
    "explain": lambda e: UP_TO_1000.explain(e < 3),
    "canonical": UP_TO_1000.canonical,
    "repr": repr,
    "pickle": lambda e: pickle.loads(pickle.dumps(e)) is e,
    "json": lambda e: from_json(to_json(e), [I]),
    "evaluate": lambda e: evaluate(e, {I: 1}),
    "substitute": lambda e: e.substitute({I: I + 1}),
    "lower_division": lambda e: lower_division(e // 3, UP_TO_1000),
}


def doubled(kind: str, depth: int) -> Expr:
    e: Expr = I
    for _ in range(depth):
        e = LEVELS[kind](e)
    return e


class TooManyCallsError(Exception):
    """More calls than a walk of the shared nodes makes."""


def calls(question: Callable[[Expr], Any], e: Expr, most: int) -> int:
    """The number of Python calls of a question; an error beyond `most`."""
    number = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal number
        number += event == "call"
        if number > most:
            raise TooManyCallsError

    sys.setprofile(count)
    try:
        question(e)
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize("depth", daily([24, 60, 200], 3))
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_do_not_double_with_each_level(name: str, depth: int) -> None:
    for kind in LEVELS:
        calls(QUESTIONS[name], doubled(kind, depth), MOST[depth])


class Thing:
    __slots__ = ("__weakref__",)


def test_rows_live_as_long_as_their_values() -> None:
    table: WeakTable[str, Thing] = WeakTable()
    a, b = Thing(), Thing()
    table.put("a", a)
    table.put("b", b)
    assert table.get("a") is a and "b" in table and "c" not in table and len(table) == 2
    del a
    assert "a" not in table and table.get("a") is None and table.get("b") is b and len(table) == 1
    table: WeakTable[str, Thing] = WeakTable()
    first = Thing()
    table.put("a", first)
    again = Thing()
    table.put("a", again)  # before the first died
    del first
    other = Thing()
    table.put("b", other)
    assert table.get("a") is again and table.get("b") is other and len(table) == 2
    # A chain of rows, each value the key of the next row, dies together.
    table: WeakTable[Any, Thing] = WeakTable()
    last = Thing()
    table.put(None, last)
    for _ in range(5_000):
        new = Thing()
        table.put(last, new)
        last = new
    assert len(table) == 5_001
    del last, new
    assert len(table) == 0


def question(domain: str) -> Any:
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 8), j: Range(0, i + 1)}, domain=domain)
    return ctx, ctx.value_set(i * 3 + j // 2), ctx.image((i, i + j)), ctx.bounds(i % 3 + j)


def schedule() -> Any:
    n = te.var("n")
    a = te.placeholder((n, 7), "int32", name="A")
    b = te.compute((n,), lambda i: tir.exp(a[a[i, 2], i % 7].astype("float32")), name="B")
    return te.create_schedule(b.op)


DYING: dict[str, Callable[[], Any]] = {
    "variable": lambda: Var("x"),
    "size": lambda: ShapeVar("n"),
    "expression": lambda: Var("x") * 3 + 1,
    "condition": lambda: (Var("x") < 4) & (Var("y") * 2).eq(7),
    "load": lambda: Opaque("T", 2)[Var("x"), 3] + 5,
    "schedule": schedule,
    **{f"question to {name}": lambda name=name: question(name) for name in ("auto", "isl", "interval", "stride")},
}


@pytest.mark.parametrize("kind", DYING)
def test_no_line_of_python_runs_when_something_dies(kind: str) -> None:
    """An interrupt inside a finalizer would be printed and lost."""
    held = [DYING[kind]()]
    entered = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.append(f"{frame.f_code.co_filename}: {frame.f_code.co_qualname}")

    gc.disable()
    try:
        sys.setprofile(seen)
        held.clear()
        sys.setprofile(None)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert entered == []
