"""Traces and the log: recorded steps, their threads, and answers equal to untraced ones."""

import asyncio
import json
import logging
import pickle
import random
import re
import threading
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

from bound import infer_bound, te
from intset import Context, DomainError, InputError, Opaque, Range, ShapeVar, Trace, Var, trace, using
from intset.config import Config
from intset.domains import ranked
from intset.errors import BudgetError
from intset.prover.tiers import TIERS
from lowering import lower
from tests import ROOT
from tests.intset.answers.test_notebook import checked, texts
from tests.intset.elsewhere import in_threads, ran
from tests.strategies.contexts import EVERY, Drawn
from tests.sweeps import daily

i, j, n = Var("i"), Var("j"), ShapeVar("n")
SMALL = {i: Range(0, 8), j: Range(0, 4)}


def hard() -> Context:
    return Context({i: Range(0, 10**6), j: Range(0, 10**6)}, assume=[(i * 3 + j * 7) % 11 < 5, i * j < 10**9])


def refusals(t: Trace) -> set[str]:
    return {one.budget for record in t.records for one in record.gave_up}


def test_each_question_has_a_record_of_its_tiers_and_the_budgets_that_ended() -> None:
    ctx = Context(SMALL)
    with ctx.trace() as t:
        ctx.bounds(i * 4 + j)
        ctx.value_set(i * 3 + j * 7)
        ctx.image((i + j, j))
        ctx.prove(i < 8)
        ctx.simplify((i * 4 + j) // 4)
        ctx.bounds(i * 4 + j)
    first = [(r.what, r.question, r.answer, r.by) for r in t.records if r.depth == 0 and r.question != "i"]
    assert first == [
        ("bounds", "i * 4 + j", "(0, 31)", "linear"),
        ("value_set", "i * 3 + j * 7", "exact", "stride"),
        ("image", "(i + j, j)", "exact", "isl"),
        ("prove", "i < 8", "proved", "linear"),
        ("simplify", "(i * 4 + j) // 4", "i", "simplify"),
        ("bounds", "i * 4 + j", "(0, 31)", "linear"),
    ]
    assert [tier.name for tier in t.records[-1].tiers] == ["cache"] and " by cache, " in str(t.records[-1])
    assert t.totals["linear"].answered == 2 and t.totals["cache"].asked == 1
    ctx = hard()
    with ctx.trace() as t:
        ctx.bounds((i * 7 + j * 3) % 13 // 2)
    (record,) = [r for r in t.records if r.depth == 0]
    assert [tier.name for tier in record.tiers][:2] == ["linear", "bits"] and "isl" in t.totals
    assert {"FEW_POINTS", "points"} <= refusals(t)
    with ctx.trace() as t, using(isl_operations=10, tiers="linear,isl"):
        ctx.prove((i * 7 + j * 3) % 13 < 11)
        ctx.image((i * 3 + j, j * 5 % 7))
    proof, region = t.records[0], t.records[1]
    outcomes = {tier.name: tier.outcome for tier in proof.tiers}
    assert outcomes == {"linear": "unknown", "isl": "unknown", **dict.fromkeys(("bits", "points", "z3"), "skipped")}
    assert "isl_operations" in refusals(t) and "isl gave up after 10 operations" in str(proof)
    assert region.answer == "a superset" and region.by == "interval" and region.tiers[0].name == "isl"
    cube = (i * i * i + j * j * j).ne(n * n * n + 5)
    with ctx.trace() as t, using(z3_rlimit=1, points=0):
        Context({i: Range(1, 10**5), j: Range(1, 10**5)}).prove(cube)
    assert "z3_rlimit" in refusals(t)
    assert [tier.name for tier in t.records[0].tiers] == ["linear", "bits", "isl", "points", "z3"]
    files = (file.read_text() for file in (ROOT / "intset").rglob("*.py"))
    constants = {name for text in files for name in re.findall(r"^([A-Z]\w+): Final", text, re.MULTILINE)}
    assert refusals(t) <= {*Config.__annotations__, *constants, ""}


@pytest.mark.parametrize("seed", daily(range(25), 2))
def test_answers_are_the_same_inside(seed: int) -> None:
    def asked(is_traced: bool) -> list[Any]:
        drawn = Drawn(seed, EVERY, "box dependent sized open", sizes=1, facts=40)
        ctx, (e,) = drawn.ctx, drawn.exprs
        with ctx.trace() if is_traced else using():
            answers = [ctx.bounds(e), ctx.value_set(e), ctx.image((e, e + 1)), ctx.simplify(e)]
            return [*map(repr, answers), *map(repr, map(ctx.prove, drawn.goals))]

    assert asked(True) == asked(False)


def test_an_exception_keeps_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = Context(SMALL)
    t = ctx.trace()
    with suppress(ZeroDivisionError), t:
        ctx.prove(i < 7)
        raise ZeroDivisionError
    assert [r.answer for r in t.records] == ["refuted"] and trace.TRACES == [] and trace.OPEN == []

    def broken(question: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(TIERS, "linear", broken)
    t = ctx.trace()
    with pytest.raises(MemoryError), t:
        ctx.prove((i * 4 + j) % 7 < 5)
    (record,) = t.records
    assert record.answer == "raised MemoryError" and record.by == "" and record.tiers[0].outcome == "raised MemoryError"
    assert trace.OPEN == [] and "raised" in str(t) and checked(t._repr_html_()) is not None


def test_a_block_inside_records_into_both_and_ends_alone() -> None:
    ctx, other = Context(SMALL), Context({j: Range(0, 3)})
    outer, inner = ctx.trace(), other.trace()
    with outer:
        ctx.prove(i < 8)
        with inner:
            other.prove(j < 3)
        ctx.prove(i < 7)
    ctx.prove(i < 6)
    assert [r.question for r in outer.records] == ["i < 8", "j < 3", "i < 7"]
    assert [r.question for r in inner.records] == ["j < 3"]
    with outer:  # goes on
        ctx.prove(i < 5)
    assert len(outer.records) == 4
    with outer, pytest.raises(InputError):
        outer.__enter__()
    outer.__exit__(None, None, None)  # no harm
    assert trace.TRACES == []


def test_threads_and_tasks() -> None:
    def work(goal: int) -> Trace:
        with Context(SMALL).trace() as t:
            for k in range(40):
                Context(SMALL).prove(i + k < goal)
        return t

    with Context(SMALL).trace() as outside:
        traces = in_threads(work, 4)
        assert outside.records == ()
        copied = threading.Thread(target=copy_context().run, args=(Context(SMALL).prove, i < 3))
        copied.start()
        copied.join()
        assert [r.question for r in outside.records] == ["i < 3"]

        async def task() -> None:
            await asyncio.sleep(0)
            Context(SMALL).prove(i < 2)

        async def tasks() -> None:
            await asyncio.gather(task(), task())

        asyncio.run(tasks())
    assert [r.depth for r in outside.records] == [0, 0, 0]
    assert all(len(t.records) == 40 and {r.what for r in t.records} == {"prove"} for t in traces)
    assert trace.OPEN == [] and trace.TRACES == []


def test_infer_bound_and_lower_are_records_with_their_questions_inside() -> None:
    A = te.placeholder((64, 48), name="A")
    B = te.compute((64, 48), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((60, 40), lambda i, j: B[i, j] + B[i + 1, j + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], outer)
    with Context().trace() as t:
        b = infer_bound(s)
        f = lower(s, [A, C])
    assert str(f) == str(lower(s, [A, C])) and repr(b[B.op.axis[0]]) == repr(infer_bound(s)[B.op.axis[0]])
    kinds = [(r.what, r.depth) for r in t.records]
    assert kinds[0] == ("infer_bound", 0) and ("lower", 0) in kinds and ("pass", 1) in kinds and ("stage", 1) in kinds
    assert {r.question for r in t.records if r.what == "stage"} == {"B", "C"}
    assert {"follow_guards", "lower_divisions", "unique_names"} <= {r.question for r in t.records if r.what == "pass"}
    for record in t.records:
        assert record.seconds >= record.inside >= 0
        assert sum(tier.seconds for tier in record.tiers) <= record.seconds * 1.01 + 1e-4
    whole = sum(r.seconds for r in t.records if r.depth == 0)
    assert sum(total.seconds for total in t.totals.values()) <= whole * 1.01 + 1e-3  # no second counts twice


def test_a_trace_is_short_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "TRACED_RECORDS", 100)
    rng, table = random.Random(0), Opaque("<b>", 1)
    with Context(SMALL).trace() as t:
        for k in range(150):
            Context(SMALL).prove(table[i] * rng.randrange(9) + k < 9 * i)
    assert len(t.records) == 100 and t.omitted >= 50 and repr(t) == f"<Trace of {100 + t.omitted} questions>"
    lines = str(t).splitlines()
    assert len(lines) < 200 and f"... {t.omitted + 60:,} more questions" in lines
    shown = checked(t._repr_html_())
    assert "<b>" in texts(shown) and "more rows" in texts(shown)
    e = i
    for k in range(3_000):
        e = e * 3 + j * k
    with Context(SMALL).trace() as t:
        Context(SMALL).bounds(e)
    assert len(t.records[0].question) < 200 and len(str(t)) < 3_000
    with Context().trace() as t:
        pass
    assert "no questions" in str(t) and checked(t._repr_html_()) is not None


def test_json() -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    schema = validator(json.loads((ROOT / "docs/schemas/trace.json").read_text()))
    ctx = hard()
    with ctx.trace() as t:
        ctx.bounds((i * 7 + j * 3) % 13 // 2)
        ctx.prove(i * 2 < n)
    plain = json.loads(json.dumps(t.to_json()))
    schema.validate(plain)
    with using(isl_operations=1), ctx.trace() as ended:
        ctx.bounds((i * 5 + j) % 7)
        with pytest.raises(InputError):
            ctx.prove("i < 3")  # type: ignore[arg-type]
    schema.validate(json.loads(json.dumps(ended.to_json())))
    assert [r["question"] for r in plain["records"]] == [r.question for r in t.records]
    assert {"tier", "outcome", "seconds", "gave_up"} == set(plain["records"][0]["tiers"][0])
    assert {row["tier"] for row in plain["tiers"]} == set(t.totals)


def test_the_log(caplog: pytest.LogCaptureFixture) -> None:
    ctx = Context({i: Range(0, 8), j: Range(0, 5)})
    ctx.prove(i < 8)
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, logger="intset"):
        ctx.bounds(i * 5 + j)
        ctx.prove(i < 7)
        with using(isl_operations=10):
            hard().image((i * 3 + j, j * 5 % 7))
        BudgetError("outside of a question", "points")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("bounds i * 5 + j: (0, 39) by linear, ")
    assert lines[1].startswith("prove i < 7: refuted by linear, ")
    assert "isl gave up after 10 operations [isl_operations]" in lines[2]
    assert lines[-1].startswith("operation on a set: ") and "outside of a question [points]" in lines[-1]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG} and trace.OPEN == []


def test_a_trace_pickles_and_records_operations_that_give_up() -> None:
    ctx = hard()
    with ctx.trace() as t:
        ctx.bounds((i * 7 + j * 3) % 13 // 2)
        ctx.prove(i < 3)
    copy: Trace = pickle.loads(pickle.dumps(t))
    assert str(copy) == str(t) and copy.to_json() == t.to_json()
    error: BudgetError = pickle.loads(pickle.dumps(BudgetError("too long", "points")))
    assert (str(error), error.budget) == ("too long", "points")
    with copy:
        ctx.prove(i < 4)
    assert len(copy.records) == len(t.records) + 1
    ctx = Context({i: Range(0, 10**6), j: Range(0, 10**6)})
    with using(isl_operations=20), ctx.trace() as t:
        first, last = ctx.image((i * 2, j)), ctx.image((i, j * 3))
        asked = len(t.records)
        with using(isl_operations=20):
            union = first | last
    assert not union.is_exact and asked == 2
    assert [r.what for r in t.records[asked:]][:1] == ["operation"] and "isl_operations" in refusals(t)


class Broken:
    """An entry point whose plug-in cannot be loaded."""

    name, value = "broken", "nowhere:Broken"

    def load(self) -> Any:
        raise DomainError("the domain 'broken' cannot be loaded")


def test_a_plugin_that_is_skipped_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked, "entry_points", lambda: (Broken(),))
    monkeypatch.setattr(ranked, "_chosen", [])
    with caplog.at_level(logging.DEBUG, logger="intset"), Context().trace() as t:
        Context({i: Range(0, 9), j: Range(0, 3)}).image((i * j, i + j))
    assert any("broken was skipped" in record.getMessage() for record in caplog.records)
    assert t.totals["broken"].asked == 0 and t.totals["broken"].gave_up == 1


def test_without_a_trace_nothing_is_recorded() -> None:
    code = """
import sys, intset
assert "intset.trace" not in sys.modules and "logging" not in sys.modules
from intset import Context, Range, Var
i, j = Var("i"), Var("j")
names = []
def heard(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.endswith("intset/trace.py"):
        names.append(frame.f_code.co_name)
with Context().trace():
    Context({i: Range(0, 8)}).prove(i < 8)  # which loads what answers
sys.setprofile(heard)
ctx = Context({i: Range(0, 8), j: Range(0, 4)})
ctx.bounds((i * 4 + j) // 3 % 5), ctx.prove(i < 8), ctx.value_set(i), ctx.image((i, j)), ctx.simplify(i * 2 // 2)
sys.setprofile(None)
assert set(names) <= {"tried"}, names
import logging
assert logging.getLogger("intset").handlers == []
"""
    assert ran("-c", code) == ""
