"""`compute="auto"`: the cheaper of box and exact nests, and never a box whose extra elements cost more than counted."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest

from benchmarks.executed import Counter, Work
from bound import infer_bound, te
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from intset import Context
from intset.errors import InputError
from lowering import lower, parse_nest, run
from lowering.build.function import FunctionBuilder
from lowering.forms import modelled
from lowering.forms.choose import GAINED, chosen
from lowering.nest.ir import Function, Stmt
from lowering.passes.loops.index_set_splitting import partition_loops
from tests.bound.corpus import CASES
from tests.lowering.lowered import close, of_corpus, problem
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, swept


def stencil(stages: int, extent: Any, tile: int) -> Any:
    t = te.placeholder((extent, extent), name="A")
    made = []
    for k in range(stages):
        extent = extent - 2

        def cross(y: Any, x: Any, p: Any = t) -> Any:
            return p[y, x + 1] + p[y + 1, x] + p[y + 1, x + 1] + p[y + 1, x + 2] + p[y + 2, x + 1]

        t = te.compute((extent, extent), cross, name=f"S{k}")
        made.append(t)
    s = te.create_schedule(t.op)
    y, x = t.op.axis
    yo, yi = s[t].split(y, tile)
    xo, xi = s[t].split(x, tile)
    s[t].reorder(yo, xo, yi, xi)
    for stage in made[:-1]:
        s[stage].compute_at(s[t], xo)
    return s


@pytest.mark.parametrize("extent", [400, te.var("n")])
def test_a_little_excess_is_computed_without_guards(extent: Any) -> None:
    f = lower(stencil(4, extent, 32))
    assert f.forms["S0"][0].compute == "box" and {form.compute for form in f.forms["S0"]} == {"box", "exact"}
    assert "if " not in str(f)


def test_a_large_excess_is_not_computed() -> None:
    """Two tiles at the corners of a large tensor: the box around them is a hundred times what is read."""
    a = te.placeholder((2000, 2000), name="A")
    t = te.compute((2000, 2000), lambda i, j: a[i, j] + 1.0, name="T")
    c = te.compute((100, 100), lambda i, j: t[i, j] + t[i + 1900, j + 1900], name="C")
    f = lower(te.create_schedule(c.op))
    cost = {form.compute: form.cost for form in reversed(f.forms["T"])}  # the cheapest of each
    assert f.forms["T"][0].compute == "exact" and set(cost) == {"exact", "box"}
    assert (cost["exact"] or 0) * 50 < (cost["box"] or 0)
    total = sum(modelled(partition_loops(f)).values())
    assert total == pytest.approx(sum(form[0].cost or 0 for form in f.forms.values()), rel=0.01)


def apart() -> Any:
    """A program of two stages: the box of the second is a hundred times its required region."""
    a = te.placeholder((2000, 2000), name="A")
    t = te.compute((2000, 2000), lambda i, j: a[i, j] + 1.0, name="T")
    u = te.compute((600, 600), lambda i, j: a[i, j] * 2.0, name="U")
    c = te.compute((500, 500), lambda i, j: t[i, j] + t[i + 1500, j + 1500] + u[i, j] + u[i + 1, j + 1], name="C")
    s = te.create_schedule(c.op)
    s[c].tile(*c.op.axis, 8, 8)
    s[u].compute_at(s[c], s[c].leaf_iter_vars[1])
    s[u].vectorize(u.op.axis[1])  # all iterations of the outer loop have as many
    return s


def test_stages_are_chosen_apart() -> None:
    s = apart()
    f = lower(s)
    assert (f.forms["T"][0].compute, f.forms["U"][0].compute) == ("exact", "box")
    b = infer_bound(s, compute="auto")
    assert [stage.name for stage in b.boxed if stage.name in "TU"] == ["U"] and b.compute == "auto"
    assert str(lower(s, bounds=b)) == str(f)
    text = b.explain(b.schedule.stages[1].op.outputs[0])
    assert "chosen: exact" in text and "considered: box" in text
    named = infer_bound(s, compute={s.stages[2].op.outputs[0]: "box"})
    assert [stage.name for stage in named.boxed] == ["U"]
    with pytest.raises(InputError, match="compute of a stage must be one of exact, box, not 'cheap'"):
        infer_bound(s, compute={s.stages[2].op.outputs[0]: "cheap"})


def test_a_mixture_that_spares_nothing_is_not_inferred() -> None:
    """Boxes of some stages are inferred where the first two prices promise enough, whatever counts as enough."""
    asked: list[object] = []

    def infer(word: Any) -> BoundsMap:
        asked.append(word)
        return infer_bound(s, compute=word)

    for share, inferences in ((GAINED, 3), (1.0, 2)):
        s = apart()
        asked.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lowering.forms.choose.GAINED", share)
            words = {form[0].compute for form in chosen(s, FunctionBuilder(), infer, "auto", "auto").forms.values()}
        assert len(asked) == inferences and len(words) == inferences - 1


def a_band(extent: Any) -> Any:
    """A tensor of which the elements next to the diagonal are read, and one read with a stride."""
    a = te.placeholder((extent, extent), name="A")
    t = te.compute((extent, extent), lambda i, j: a[i, j] * 2.0, name="T")
    u = te.compute((extent, extent), lambda i, j: a[j, i] + 1.0, name="U")
    c = te.compute((extent // 4, 8), lambda i, d: t[i, i + d] + u[3 * i, 2 * d] + u[3 * i + 1, 2 * d], name="C")
    return te.create_schedule(c.op)


def test_storage_is_compact_where_memory_is_spared() -> None:
    """The required region is a small part of a box so large that its pages must be allocated."""
    f = lower(a_band(6000))
    first = f.forms["T"][0]
    assert (first.compute, first.storage) == ("exact", "compact") and "compact" in str(first)
    assert {form.storage for form in f.forms["T"]} == {"compact", "plain"}
    assert "allocate T: float32[1500, 8]" in str(f)
    assert [form.storage for form in lower(a_band(6000), compact=False).forms["T"]].count("compact") == 0
    assert "allocate T: float32[1500, 1507]" in str(lower(a_band(6000), compute="exact"))  # as it is inferred
    assert infer_bound(a_band(6000), compute="auto").compact is False


@pytest.mark.parametrize("seed", daily(range(8200, 8230), 15))
def test_the_chosen_form_is_the_cheapest_and_all_costs_are_there(seed: int) -> None:
    program = Program(seed, symbolic=seed % 2 == 0)
    try:
        f = lower(program.schedule)
    except ScheduleError:
        return
    for forms in f.forms.values():
        assert len({(form.compute, form.storage, form.nests) for form in forms}) == len(forms)
        assert all(form.cost is None or form.cost >= (forms[0].cost or 0) - 1e-3 for form in forms)


def test_no_nest_is_split_twice_for_its_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loop ends replace no guard of this schedule: the forms with ends and with guards are one nest."""
    split: list[Stmt] = []

    @wraps(partition_loops)
    def noted(f: Function) -> Function:
        split.append(f.body)
        return partition_loops(f)

    monkeypatch.setattr("lowering.forms.choose.partition_loops", noted)
    lower(Program(39, symbolic=True).schedule)
    assert split and len({id(body) for body in split}) == len(split)


def test_words() -> None:
    s = stencil(2, 40, 8)
    assert {form.compute for forms in lower(s, compute="box").forms.values() for form in forms} == {"box"}
    assert {form.nests for forms in lower(s, nests="guard").forms.values() for form in forms} == {"guard"}
    assert str(lower(s, compute="exact")) == str(lower(s, bounds=infer_bound(s)))
    with pytest.raises(InputError, match="compute must be one of auto, exact, box, not 'cheap'"):
        lower(s, compute="cheap")
    with pytest.raises(InputError, match="found with compute='exact'"):
        lower(s, bounds=infer_bound(s), compute="box")


@swept({"numbers": (2, 6, programs(most=4)), "sizes": (1, 6, programs(symbolic=True, most=3))})
def test_random_programs_in_both_forms(program: Program) -> None:
    given, expected = problem(program.schedule, program.sizes)
    for compute in ("auto", "box"):
        try:
            f = lower(program.schedule, compute=compute)
        except ScheduleError:
            return
        close(run(f, given, program.sizes), expected)


def test_the_forms_of_a_schedule_ask_what_holds_at_a_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms share the frames of equal scopes, and no frame outlives the choice."""
    made: list[object] = []
    extended = Context.extended

    def counted(self: Context, *given: Any, **named: Any) -> Context:
        found = extended(self, *given, **named)
        made.append(found.frame.fingerprint)
        return found

    source = te.placeholder((40,), name="A", dtype="int32")
    before = te.compute((40,), lambda x: source[x] + 1, name="B")
    after = te.compute((13,), lambda x: before[x * 3], name="C")
    s = te.create_schedule(after.op)
    s[before].compute_at(s[after], s[after].split(after.op.axis[0], 4)[0])
    b = infer_bound(s)
    monkeypatch.setattr(Context, "extended", counted)
    maker = FunctionBuilder()
    shown = str(chosen(s, maker, lambda _: b, "exact", "auto").function)
    alone = len(made)
    assert str(chosen(s, maker, lambda _: b, "exact", "auto").function) == shown
    assert alone and len(made) - alone < alone // 2  # most was made before


HEAD = "def C(A: float32[16], C: float32[16]):\n"
BY_HAND = {
    "for i in [0, 8):\n  if i < 5:\n    C[i] = A[(i + 1) % 8]": Work(5, 8, 5),
    "for i in [0, 8):\n  C[i] = select((i >= 2) & (i < 6), A[i - 2], 0.0)": Work(4, 14, 0),
    "for i in [0, 4):\n  for j in [0, i + 1):\n    C[i * 4 + j] = A[j]": Work(24, 0, 0),
    "for i in [0, 4):\n  for j in [0, 3):\n    C[i >> 1] = A[i & 1]": Work(0, 0, 24),
    "for i in [0, 4):\n  m = i // 2\n  if m > 0:\n    C[i] = A[m + 1]": Work(2, 4, 4),
    "for i in [0, 9):\n  if A[i] > 0.0:\n    C[i] = A[i + 1]": Work(9, 0, 0),
}


@pytest.mark.parametrize("text", BY_HAND)
def test_by_hand(text: str) -> None:
    body = "".join(f"    {line}\n" for line in text.replace("  ", "    ").splitlines())
    assert Counter({}).stmt(parse_nest(HEAD + body).body, {}) == BY_HAND[text]


class EachInTurn(Counter):
    """Remembers nothing and multiplies nothing: every iteration of every loop is executed."""

    def stmt(self, stmt: Stmt, point: dict[Any, int]) -> Work:
        return self._stmt(stmt, point)

    def decides(self, moving: tuple[Any, ...], body: Stmt) -> bool:
        return True


@pytest.mark.parametrize("name", daily([n for n in CASES if n.startswith(("fuse", "flatten", "triangular"))], 2))
def test_loops_that_decide_nothing_are_multiplied(name: str) -> None:
    _, f = of_corpus(name)
    sizes = CASES[name]["sub"]
    quick = Counter(sizes).stmt(f.body, {})
    assert quick == EachInTurn(sizes).stmt(f.body, {})
