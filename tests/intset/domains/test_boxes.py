"""The boxes of the guide as a domain: the public suite, its command line, threads, and its elimination of variables."""

import itertools
import json
import os
import pickle
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from examples.boxes.intset_boxes import Boxes
from examples.boxes.intset_boxes.elimination import WORK, System, also, cases_of, is_feasible, tidy, without
from intset import (
    Context,
    CountError,
    Range,
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
from intset.errors import BudgetError
from intset.expr.node import Cond, Expr
from intset.linear.form import Linear
from intset.testing import soundness
from tests import ROOT
from tests.intset.domains.outside import registered
from tests.intset.elsewhere import ran
from tests.sweeps import daily

i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)


@pytest.fixture(autouse=True)
def boxes() -> Iterator[None]:
    with registered(Boxes):
        yield


@pytest.mark.parametrize("seed", daily(range(0, 4000, 30), 200))
@pytest.mark.parametrize("domain", ["boxes", "boxes*modular"])
def test_the_public_suite(domain: str, seed: int) -> None:
    report = soundness(domain, count=30, seed=seed)
    assert report.wrong == [] and report.tally["exact set"] > 5


def test_what_boxes_cannot_say_is_answered_by_more() -> None:
    square = Context({i: Range(0, 4), j: Range(0, 4)}, domain="boxes").image((i, j))
    diagonal = Context({i: Range(0, n)}, domain="boxes").image((i, i))
    assert not diagonal.is_exact and "boxes gave up" in diagonal.notes[0]
    rest = square - diagonal
    assert not rest.is_exact and rest.project((0,)).box == (Range(0, 4),) and "nothing was" in rest.notes[-1]
    for refused in (diagonal.lexmin, diagonal.sample, rest.count):
        with pytest.raises((UndecidedError, CountError)):
            refused()


def test_regions_are_pickled_and_answer_in_other_threads() -> None:
    r = Context({i: Range(0, n), j: Range(0, 4)}, domain="boxes").image((i // 2, j * 3))
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
