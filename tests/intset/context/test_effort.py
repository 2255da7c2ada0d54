"""Effort of questions and lists of questions: tiers entered, budgets in force, sound answers."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from bound import infer_bound, te
from intset import Context, Proof, Range, ShapeVar, Var, using
from intset.config import FAST_POINTS, ISL_OPERATIONS, POINTS, TIERS, Z3_RLIMIT, Config, Effort, current, pinned
from intset.domains.sets.ends import Bounds
from intset.errors import InputError
from tests.intset.oracle import Claims
from tests.strategies.contexts import EVERY, Drawn

i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)
BOX = Context({i: Range(0, 1000), j: Range(0, 900)}, assume=[i * 7 + j * 5 < 4000])
HARD = (i * 3 + j * 2) % 101 * 4 - i // 7  # dependent terms over a large box


@pytest.mark.parametrize(
    ("effort", "points", "operations", "rlimit", "tiers"),
    [
        ("fast", FAST_POINTS, ISL_OPERATIONS, Z3_RLIMIT, ("linear",)),
        ("default", POINTS, ISL_OPERATIONS, Z3_RLIMIT, TIERS),
        ("full", 10 * POINTS, 10 * ISL_OPERATIONS, 10 * Z3_RLIMIT, TIERS),
    ],
)
def test_an_effort_is_budgets_and_tiers(effort, points, operations, rlimit, tiers, monkeypatch):
    def is_in_force() -> bool:
        own = current()
        return (own.points, own.isl_operations, own.z3_rlimit, own.tiers) == (points, operations, rlimit, tiers)

    with using(effort=effort):
        assert is_in_force()
    with pinned(Config(effort=effort)):
        assert is_in_force()
    with using(effort="full"), using(effort=effort):
        assert is_in_force()
    monkeypatch.setenv("INTSET_EFFORT", effort)
    assert is_in_force()


def test_what_is_stated_wins_wherever_it_is_stated(monkeypatch):
    monkeypatch.setenv("INTSET_POINTS", "77")
    with using(effort="full", z3_rlimit=5):
        assert (current().points, current().z3_rlimit) == (77, 5)
        assert current().isl_operations == 10 * ISL_OPERATIONS
        with using(effort="fast"), using(points=POINTS):
            assert (current().points, current().z3_rlimit, current().tiers) == (POINTS, 5, ("linear",))
        with pinned(Config(tiers=TIERS[:2])), using(effort="fast"):
            assert (current().points, current().tiers) == (FAST_POINTS, TIERS[:2])


def test_every_question_takes_an_effort():
    asked = {
        "bounds": (HARD,),
        "value_set": (HARD,),
        "image": ((i, HARD),),
        "relation": ((i,), (HARD,)),
        "prove": (HARD < 400,),
        "fits": (HARD, 16),
        "solve": (HARD < 5, i),
        "narrow": (i + j < 10, [i]),
        "explain": (HARD < 400,),
        "bounds_many": ([HARD],),
        "prove_many": ([HARD < 400],),
    }
    for name, given in asked.items():
        question = getattr(BOX, name)
        for effort in Effort:
            with using(effort=effort):
                inside = question(*given)
            assert repr(question(*given, effort=effort)) == repr(inside), name
        with pytest.raises(InputError, match=r"effort= *: effort is fast, default, full, not 'quick'"):
            question(*given, effort="quick")


def test_a_fast_answer_is_sound_and_says_what_was_not_asked():
    bounds, exact = BOX.bounds(HARD, effort="fast"), BOX.bounds(HARD)
    assert exact.is_tight and not bounds.is_tight and "effort is fast" in bounds.notes[0]
    assert int(bounds[0]) <= int(exact[0]) and int(exact[1]) <= int(bounds[1])
    found, region = BOX.value_set(HARD, effort="fast"), BOX.image((i, HARD), effort="fast")
    assert not found.is_exact and "effort is fast" in found.notes[-1] and BOX.value_set(HARD, effort="full") <= found
    assert not region.is_exact and any("effort is fast" in note for note in region.notes)
    assert BOX.prove(HARD < 401, effort="fast").by in ("linear", "") and BOX.prove(i < 1000, effort="fast")


@pytest.mark.parametrize("number", range(60))
def test_drawn_fast_answers_are_true(number):
    drawn = Drawn(f"fast {number}", kinds=EVERY, ranges="box sized dependent", sizes=1, exprs=3, facts=30)
    with using(effort="fast"):
        claims = Claims(drawn.setting)
        for e in drawn.exprs:
            claims.about(e)
        claims.region(None)
        claims.goals()


def test_fast_questions_load_no_library():
    """Nor do bounds of a plain box under the default effort."""
    script = """
import sys
from intset import *
i, j, n = Var("i"), Var("j"), ShapeVar("n")
assert Context({i: Range(0, 64), j: Range(0, 4)}).bounds((i * 4 + j) // 8 % 4).ints() == (0, 3)
with using(effort="fast"):
    for ctx in (Context({i: Range(0, 1000), j: Range(0, n)}, assume=[i * 7 + j * 5 < n]), Context({i: Range(0, n)})):
        for e in ((i * 3 + j * 2) % 101 - i // 7, i * j % 17, (i ^ 5) + n // 3, i * i - j * n, minimum(i, j) // n):
            ctx.bounds(e), ctx.value_set(e).is_exact, ctx.image((i, e)).box, ctx.prove(e < 5), ctx.simplify(e)
            ctx.fits(e), ctx.bounds_many([e, e + 1]), repr(ctx.value_set(e)), ctx.prove(e < n).used
assert not {"islpy", "z3", "numpy"} & sys.modules.keys(), {"islpy", "z3", "numpy"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_list_of_questions_is_answered_as_each_alone():
    exprs = [HARD, i * 4 + j, (i * 4 + j) // 8 % 4 * 16 + (i * 4 + j) % 8, (i - j) * (i - j), i * n, n // (i + 1)]
    for ctx in (Context({i: Range(0, 64), j: Range(0, 4)}), BOX, Context({i: Range(0, n), j: Range(0, 4)})):
        assert list(map(repr, ctx.bounds_many(exprs))) == [repr(Context(*_parts(ctx)).bounds(e)) for e in exprs]
        assert [b.notes for b in ctx.bounds_many(exprs, domain="interval")] == [  # type: ignore[union-attr]
            ctx.bounds(e, domain="interval").notes for e in exprs
        ]
        goals = [e < 30 for e in exprs]
        assert [p.status for p in ctx.prove_many(goals)] == [ctx.prove(goal).status for goal in goals]  # type: ignore[union-attr]


def _parts(ctx: Context):
    return dict(ctx.ranges), ctx.facts


def test_an_error_stands_in_its_place():
    first, second, third = BOX.bounds_many([i, "i", j])
    assert isinstance(first, Bounds) and isinstance(third, Bounds) and isinstance(second, InputError)
    proof, wrong = BOX.prove_many([i < 1000, i])
    assert isinstance(proof, Proof) and isinstance(wrong, InputError)
    assert BOX.bounds_many([]) == BOX.prove_many([]) == [] and len(BOX.bounds_many(e for e in (i, j))) == 2
    for wrong_list in ("i", 5, i):
        with pytest.raises(InputError, match="exprs"):
            BOX.bounds_many(wrong_list)  # type: ignore[arg-type]


def test_a_fast_answer_stays_fast_after_pickling():
    found = BOX.value_set(HARD, effort="fast")
    again = pickle.loads(pickle.dumps(found))
    assert repr(again) == repr(found) and again._config.effort == "fast"


def test_bounds_of_a_schedule_under_an_effort():
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda x: A[x] + 1, name="B")
    C = te.compute((60,), lambda x: B[x] + B[x + 4], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 7)
    s[B].compute_at(s[C], outer)
    with using(effort="fast"):
        fast = infer_bound(s)
    assert fast.allocated(B) == infer_bound(s).allocated(B)
