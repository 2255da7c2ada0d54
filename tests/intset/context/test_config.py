"""Settings by every source of configuration, and the effort of questions: tiers entered, budgets in force."""

import itertools
import json
import os

import pytest

import intset
from intset import Context, InputError, Range, ShapeVar, Var, using
from intset.config import FAST_POINTS, ISL_OPERATIONS, POINTS, TIERS, Z3_RLIMIT, Config, Effort, current, pinned
from tests.intset.elsewhere import ran

I = Var("i")

GOOD = {
    "domain": ("isl", "isl", '"isl"'),
    "effort": ("fast", "fast", '"fast"'),
    "isl_operations": (777, "777", "777"),
    "points": (0, "0", "0"),
    "z3_rlimit": (4321, " 4321 ", "4321"),
    "z3_timeout_ms": (250, "250", "250"),
    "cache": ("answers.db", "answers.db", '"answers.db"'),
    "tiers": (("linear", "z3"), "linear, z3", '["linear", "z3"]'),
}  # as an argument of `using`, as text of the environment, as TOML
BAD = {
    "domain": [3, None, "octagon", "", ["isl"], ("isl",), True, {"isl": 1}, b"isl"],
    "effort": [3, None, "quick", "", "FAST", ["fast"], True],
    "isl_operations": [0, -1, None, "many", "", 1.5, True, [1], 10**30, b"5"],
    "points": [-1, None, "x", 2.0, False, [], "1e3"],
    "z3_rlimit": [0, -5, None, "", 1.5, True, 2**32],
    "z3_timeout_ms": [-1, None, "", 1.5, True, 2**32],
    "cache": [3, None, True, ["answers.db"], b"answers.db"],
    "tiers": [3, None, "magic", "", "linear,", ["magic"], [3], [None], True, {"linear": 1}, {"linear"}, 1.5],
}


def test_every_setting_has_samples():
    assert set(GOOD) == set(BAD) == set(Config.__dataclass_fields__) - {"stated"}


def ask():
    return Context({I: Range(0, 3)}).bounds(I)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Change to a fresh project directory with this pyproject.toml; configuration files are cached."""
    made = itertools.count()

    def enter(text, encoding="utf-8"):
        folder = tmp_path / str(next(made))
        folder.mkdir()
        (folder / "pyproject.toml").write_text(text, encoding=encoding)
        monkeypatch.chdir(folder)

    enter("")
    return enter


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_is_taken(name, project, monkeypatch):
    value, text, toml = GOOD[name]
    assert getattr(Config(**{name: value}), name) == value and Config(tiers="isl").tiers == ("isl",)
    with intset.using(**{name: value}) as config:
        assert getattr(config, name) == getattr(current(), name) == value
    project(f"[tool.intset]\n{name} = {toml}\n")
    assert getattr(current(), name) == value
    project("")
    monkeypatch.setenv(f"INTSET_{name.upper()}", text)
    assert getattr(current(), name) == value


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]])
def test_what_is_wrong_is_refused_in_a_block_and_in_a_configuration(name, value):
    with pytest.raises(InputError, match=r"Config\(\.\.\.\)"):
        Config(**{name: value})
    with pytest.raises(InputError, match=r"using\(") as caught, intset.using(**{name: value}):
        pass
    assert name in str(caught.value) or "tier" in str(caught.value)
    assert "\n" not in str(caught.value)


def toml_of(value):
    """The value as TOML, which is JSON but for tables; None where it has none."""
    text = json.dumps(value, default=lambda _: None)
    return None if "null" in text else text.replace(":", " =")


@pytest.mark.parametrize(("name", "value"), [(name, v) for name in BAD for v in BAD[name] if toml_of(v) is not None])
def test_what_is_wrong_in_a_file_names_the_file(name, value, project):
    project(f"[tool.intset]\n{name} = {toml_of(value)}\n")
    for question in (ask, current):
        with pytest.raises(InputError, match=r"\[tool.intset\] in .*pyproject.toml"):
            question()


@pytest.mark.parametrize(("name", "text"), [(n, v) for n in BAD for v in BAD[n] if isinstance(v, str)] + [
    ("points", "9" * 5000), ("isl_operations", "0"), ("isl_operations", "-3"), ("z3_rlimit", "1.5"), ("points", "true"),
    ("domain", "3"), ("tiers", "3"), ("tiers", "linear,linear2"),
])  # fmt: skip
def test_what_is_wrong_in_the_environment_names_the_variable(name, text, project, monkeypatch):
    monkeypatch.setenv(f"INTSET_{name.upper()}", text)
    for question in (ask, current):
        with pytest.raises(InputError, match=f"environment variable INTSET_{name.upper()}"):
            question()


def test_unknown_settings_are_refused(project, monkeypatch):
    with pytest.raises(InputError, match=r"using\(.*unknown setting 'budget'"), intset.using(budget=3):
        pass
    project("[tool.intset]\nbudget = 3\n")
    with pytest.raises(InputError, match=r"pyproject.toml: unknown setting 'budget'; known: domain"):
        ask()
    project("")
    ask()
    monkeypatch.setenv("INTSET_FOO", "1")  # also when the same question was answered before
    with pytest.raises(InputError, match="unknown variable INTSET_FOO; known: INTSET_DOMAIN"):
        ask()
    monkeypatch.delenv("INTSET_FOO")
    ask()
    assert {name for name in os.environ if name.startswith("INTSET_")} <= {"INTSET_PURE"}


NO_TABLES = ('tool = "x"', "tool = 3", "[[tool]]\na = 1", "[tool]\nintset = 3", '[tool]\nintset = "x"',
             "[[tool.intset]]\npoints = 1")  # fmt: skip
CUT = ("[tool.intset]\npoints = ", "[tool.intset]\npoints = 1\n[build", "[tool.intset\n")
UNREADABLE = dict.fromkeys(NO_TABLES, r"tool(\.intset)? in .*pyproject.toml must be a table")
UNREADABLE |= dict.fromkeys(CUT, r"\[tool.intset\] in .*toml cannot be read: .*(line|end of document)")


@pytest.mark.parametrize("text", UNREADABLE)
def test_settings_that_cannot_be_read_are_refused(text, project):
    project(text)
    with pytest.raises(InputError, match=UNREADABLE[text]):
        ask()


@pytest.mark.parametrize("text", ["[tool", "\xff\xfe", "a = " + "[" * 5000])
def test_a_file_that_is_no_toml_has_other_readers(text, project):
    project(text, "latin-1")
    assert ask().ints() == (0, 2)


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


def test_every_question_takes_an_effort():
    asked = {
        "bounds": (HARD,),
        "value_set": (HARD,),
        "image": ((i, HARD),),
        "relation": ((i,), (HARD,)),
        "prove": (HARD < 400,),
        "fits": (HARD, 16),
        "simplify": (HARD, {"floordiv": 9}, True, 32),
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


def test_fast_questions_load_no_library():
    """Nor do bounds of a plain box under the default effort."""
    script = """
import sys
import intset.domains.isl.count, intset.domains.isl.translate, intset.prover.smt
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
    assert ran("-c", script) == ""


def test_a_list_of_questions_is_answered_as_each_alone():
    exprs = [HARD, i * 4 + j, (i * 4 + j) // 8 % 4 * 16 + (i * 4 + j) % 8, (i - j) * (i - j), i * n, n // (i + 1)]
    for ctx in (Context({i: Range(0, 64), j: Range(0, 4)}), BOX, Context({i: Range(0, n), j: Range(0, 4)})):
        alone = [Context(ctx.ranges, assume=ctx.facts).bounds(e) for e in exprs]
        assert list(map(repr, ctx.bounds_many(exprs))) == list(map(repr, alone))
        assert [b.notes for b in ctx.bounds_many(exprs, domain="interval")] == [  # type: ignore[union-attr]
            ctx.bounds(e, domain="interval").notes for e in exprs
        ]
        goals = [e < 30 for e in exprs]
        assert [p.status for p in ctx.prove_many(goals)] == [ctx.prove(goal).status for goal in goals]  # type: ignore[union-attr]
