"""Forms of a nest: chosen by cost, in one or several pieces; all compute what the guarded nest does."""

import itertools
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from benchmarks.executed import Counter, Work
from bound import infer_bound, te
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import Context
from intset.errors import InputError
from intset.expr.node import Var
from lowering import lower, parse_nest, run
from lowering.build.function import FunctionBuilder
from lowering.cli import app
from lowering.forms import modelled
from lowering.forms.choose import GAINED, chosen
from lowering.nest.ir import Function, Stmt
from lowering.passes.loops.index_set_splitting import partition_loops
from tests.bound.corpus import CASES
from tests.bound.oracle import Run, points_of, value
from tests.lowering.lowered import check, check_c, close, of_corpus, problem
from tests.strategies.schedules import Program, programs, reading
from tests.strategies.written import Written
from tests.sweeps import daily, swept


def stencil(stages: int, extent: Any, tile: int) -> Any:
    """Crosses of crosses, in tiles of the last."""
    lines, read, last = ["A = given(n, n)"], "A", f"S{stages - 1}"
    for k in range(stages):
        near = " + ".join(f"{read}[y + {dy}, x + {dx}]" for dy, dx in ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1)))
        read, side = f"S{k}", f"n - {2 * k + 2}"
        lines.append(f"{read}[y:{side}, x:{side}] = {near}")
    lines.append(f"{last} tile y x {tile} {tile}")
    lines += [f"S{k} compute_at {last} x.outer" for k in range(stages - 1)]
    return Written("\n".join(lines), n=extent).s


@pytest.mark.parametrize("extent", [400, te.var("n")])
def test_a_little_excess_is_computed_without_guards(extent: Any) -> None:
    f = lower(stencil(4, extent, 32))
    assert f.forms["S0"][0].compute == "box" and {form.compute for form in f.forms["S0"]} == {"box", "exact"}
    assert "if " not in str(f)


def test_a_large_excess_is_not_computed() -> None:
    """Two tiles at the corners of a large tensor: the box around them is a hundred times what is read."""
    text = "A = given(2000, 2000); T = pointwise(A)\nC[i:100, j:100] = T[i, j] + T[i + 1900, j + 1900]"
    f = lower(Written(text).s)
    cost = {form.compute: form.cost for form in reversed(f.forms["T"])}  # the cheapest of each
    assert f.forms["T"][0].compute == "exact" and set(cost) == {"exact", "box"}
    assert (cost["exact"] or 0) * 50 < (cost["box"] or 0)
    total = sum(modelled(partition_loops(f)).values())
    assert total == pytest.approx(sum(form[0].cost or 0 for form in f.forms.values()), rel=0.01)


APART = """
    A = given(2000, 2000); T = pointwise(A)
    U[i:600, j:600] = A[i, j] * 2
    C[i:500, j:500] = T[i, j] + T[i + 1500, j + 1500] + U[i, j] + U[i + 1, j + 1]
    C tile i j 8 8; U compute_at C j.outer; U vectorize j
    """  # the box of T is a hundred times its required region; all iterations of the outer loop have as many


def apart() -> Any:
    return Written(APART).s


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
    return Written(f"""
        A = given({extent}, {extent})
        T[i:{extent}, j:{extent}] = A[i, j] * 2
        U[i:{extent}, j:{extent}] = A[j, i] + 1
        C[i:{extent // 4}, d:8] = T[i, i + d] + U[3 * i, 2 * d] + U[3 * i + 1, 2 * d]""").s


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


def test_words_of_forms_and_nests_without_pieces() -> None:
    s = stencil(2, 40, 8)
    assert {form.compute for forms in lower(s, compute="box").forms.values() for form in forms} == {"box"}
    assert {form.nests for forms in lower(s, nests="guard").forms.values() for form in forms} == {"guard"}
    assert str(lower(s, compute="exact")) == str(lower(s, bounds=infer_bound(s)))
    with pytest.raises(InputError, match="compute must be one of auto, exact, box, not 'cheap'"):
        lower(s, compute="cheap")
    with pytest.raises(InputError, match="found with compute='exact'"):
        lower(s, bounds=infer_bound(s), compute="box")
    s, T = two_boxes()
    b = infer_bound(s)
    assert b.computed(T).count() == 8
    found = b.pieces(T, 8)
    assert found is not None
    assert [sum(1 for _ in points_of(piece.nest, {})) for piece in found] == [4, 4]
    assert b.pieces(T, 1) is None
    s, _ = two_boxes()
    assert "if " in body(check(s, nests="guard"))
    assert body(check(s, nests="split")) == body(check(s, nests="auto")) == body(lower(s))
    with pytest.raises(InputError, match="nests must be one of auto, guard, ends, split, partition, not"):
        lower(s, nests="many")
    s, T = reading((10,), lambda T, i: T[i] + T[i + 1], (40,))
    assert infer_bound(s).pieces(T, 8) is None
    s, T = two_boxes()
    assert infer_bound(s, compute="box").pieces(T, 8) is None


@swept({
    "numbers": (2, 6, (programs(), st.booleans())),
    "sizes": (1, 6, (programs(symbolic=True, most=3), st.booleans())),
})  # fmt: skip
def test_random_programs_in_both_forms_and_backends(program: Program, strength: bool) -> None:
    given, expected = problem(program.schedule, program.sizes)
    for compute, backend in (("auto", "c"), ("auto", "python"), ("box", "python")):
        try:
            f = lower(program.schedule, compute=compute, strength=strength)
        except ScheduleError:
            return
        close(run(f, given, program.sizes, backend=backend), expected)


def test_the_forms_of_a_schedule_ask_what_holds_at_a_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms share the frames of equal scopes, and no frame outlives the choice."""
    made: list[object] = []
    extended = Context.extended

    def counted(self: Context, *given: Any, **named: Any) -> Context:
        found = extended(self, *given, **named)
        made.append(found.frame.fingerprint)
        return found

    text = "A = given(40, dtype='int32'); B = pointwise(A)\nC[x:13] = B[x * 3]\nC split x 4; B compute_at C x.outer"
    s = Written(text).s
    b = infer_bound(s)
    monkeypatch.setattr(Context, "extended", counted)
    maker = FunctionBuilder()
    shown = str(chosen(s, maker, lambda _: b, "exact", "auto").function)
    alone = len(made)
    assert str(chosen(s, maker, lambda _: b, "exact", "auto").function) == shown
    assert alone and len(made) - alone < alone // 2  # most was made before


COPY = "def f(A: {0}[1048576], B: {0}[1048576]):\n    for i in [0, 1048576):\n        B[i] = A[i]\n"


def test_elements_of_one_byte_cost_the_same_whatever_digits_their_type_has_in_its_name() -> None:
    byte, *others = (modelled(parse_nest(COPY.format(dtype))) for dtype in ("int8", "float8_e5m2", "float8_e4m3fn"))
    assert others == [byte, byte]


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


# -- several nests for one stage -----------------------------------------------------------------------------------


def two_boxes() -> tuple[Schedule, Tensor]:
    return reading((2, 2), lambda T, i, j: T[i, j] + T[i + 2, j + 2])


def body(f: Function) -> str:
    """The nest that computes T, with its storage."""
    lines = str(f).splitlines()
    start = next(k for k, line in enumerate(lines) if "allocate T" in line)
    end = next((k for k, line in enumerate(lines) if k > start and line.strip().startswith("C[")), len(lines))
    indent = len(lines[start]) - len(lines[start].lstrip())
    while end > start and "T[" not in lines[end - 1]:
        end -= 1
    return "\n".join(line[indent:] for line in lines[start:end])


TEXTS = {
    "two boxes": (
        two_boxes,
        {},
        """\
allocate T: float32[4, 4]
for i0 in [0, 2):
    for i1 in [0, 2):
        T[i0, i1] = A[i0, i1] + 1.0
for i0 in [0, 2):
    for i1 in [0, 2):
        T[i0 + 2, i1 + 2] = A[i0 + 2, i1 + 2] + 1.0""",
    ),
    "stride, compact": (
        lambda: reading((10,), lambda T, i: T[3 * i + 1] + T[3 * i + 7], (40,), 5),
        {"compact": True},
        """\
allocate T: float32[7] holding T[i0.outer * 15 + 1 + y0 * 3]
for i0 in [0, 7):
    T[i0] = A[i0.outer * 15 + i0 * 3 + 1] + 1.0""",
    ),
    "wrapped around": (
        lambda: reading((16,), lambda T, i: T[(i + 3) % 16], (16,), 4),
        {"compact": True},
        """\
allocate T: float32[16] at [T.min0]
if i0.outer == 3:
    for i0 in [0, 3):
        T[i0] = A[i0] + 1.0
for i0 in [0, minimum(13 - i0.outer * 4, 4)):
    i0.at = i0.outer * 4 + i0
    T[i0.at - T.min0 + 3] = A[i0.at + 3] + 1.0""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_nests(name: str) -> None:
    made, options, text = TEXTS[name]
    s, _ = made()
    f = check(s, **options)
    assert body(f) == text
    check_c(f, s)


BOXES = "A = given(4, 4); T = pointwise(A)\nC[i:2, j:2] = T[i, j] + T[i + 2, j + 2]\n"
TRIANGLE = "A = given(40, 40); T = pointwise(A)\nC[i:40, j:40] = where(i >= j, T[i, j], 0.0)\n"
FAR = "A = given(40); T = pointwise(A)\nC[i:7] = T[i] + T[i + 20]\n"
TWICE = """
    A = given(8); U = pointwise(A); T = pointwise(U)
    C[i:2] = T[i] + T[i + 6]
    """
MOVED = """
    A = given(60, 60); U = pointwise(A)
    T[i:20, j:20] = U[2 * i, j] + U[2 * i + 2, j + 4]
    C[i:9] = T[2 * i + 1, 2 * i + 3]
    C split i 3; T compute_at C i.outer; U compute_at T {}"""
STARTED = """
    A = given(40, 8); k = axis(0, 8)
    T[i:40] = sum_(A[i, k], axis=k)
    C[i:5] = T[i] + T[i + 20]
    T reorder k i"""
INSTANCES = """
    A = given(40, 40); T = pointwise(A)
    C[a:6, i:2, j:2] = where(a * a < 10, T[a + i, j] + T[a + i + 2, j + 2], 0.0)
    T compute_at C a"""
PIECES = {  # a program, and into how many nests T is split; 0 where the guard stays
    BOXES + "T reorder i1 i0; T split i0 4; T vectorize i0.inner": 2,
    TRIANGLE + "T split i1 8": 1,
    TRIANGLE + "T split i1 8; T reorder i1.inner i1.outer i0": 1,  # the loops of j stand outside that of i
    BOXES + "T fuse i0 i1": 2,
    TRIANGLE + "T fuse i0 i1": 0,  # the length of a row changes
    TRIANGLE + "T vectorize i1": 0,
    TRIANGLE + "T unroll i1": 0,
    TRIANGLE + "T parallel i0": 1,
    TRIANGLE + "T split i0 8; T reorder i0.outer i1 i0.inner": 0,
    FAR + "T split i0 4 tail=shift_inwards": 0,
    FAR + "T split i0 4 tail=round_up": 0,
    FAR + "T split i0 4 tail=shrink": 2,
    BOXES + "T bind i0 threadIdx.x": 0,
    TWICE + "schedule C": 2,
    TWICE + "U compute_at T i0": 0,
    MOVED.format("i"): 1,
    f"{MOVED.format('j')}; T split i 2": 0,
    STARTED: 2,
    INSTANCES: 2,
    "A = given(40, 40); T = pointwise(A)\nC[i:20, j:4] = T[i, i + j]\nT vectorize i1": 1,
    "A = given(40, 40); T = pointwise(A)\nC[i:8, j:10] = T[i + j, i - j + 9]\nC split i 4; T compute_at C i.outer": 1,
    "A = given(20)\nTU[i:20] = (A[i] + 1.0, A[i] * 2.0)\nT, U = TU\nC[i:3] = T[i] + U[i + 12]": 2,
}


@pytest.mark.parametrize("text", PIECES)
def test_pieces(text: str) -> None:
    p = Written(text)
    check(p.s, nests="split")
    found = infer_bound(p.s).pieces(p.T, 8)
    assert (0 if found is None else len(found)) == PIECES[text]


def test_the_command_line(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "far.py"
    script.write_text(
        "from bound import te\n"
        "A = te.placeholder((40,), name='A')\n"
        "T = te.compute((40,), lambda i: A[i], name='T')\n"
        "C = te.compute((4,), lambda i: T[2 * i] + T[2 * i + 20], name='C')\n"
        "s = te.create_schedule(C.op)\n"
    )
    texts = {}
    for options in ((), ("--nests", "guard"), ("--compact",)):
        assert app.run(["lower", *options, str(script)]) == 0
        texts[options] = capsys.readouterr().out
    assert "if " not in texts[()] and "float32[27]" in texts[()]
    assert "if " in texts["--nests", "guard"]
    assert "allocate T: float32[14] holding T[y0 * 2]" in texts["--compact",]
    assert app.run(["bounds", "--compact", str(script)]) == 0
    assert "[0; 14]" in capsys.readouterr().out


def pieces_are_right(b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> int:
    """In each instance the pieces compute what the guarded nest does, no element twice; gives how many there were."""
    done = Run(b, sizes)
    number = 0
    for stage in done.nests:
        found = b.pieces(stage, 8)
        if found is None:
            continue
        number += len(found)
        repeats = 1
        for iv in stage.op.reduce_axis:
            repeats *= value(b[iv].extent, dict(sizes or {}))
        for instance, points in done.seen[stage.op.outputs[0]].computed.items():
            env: dict[Var, int] = {**(sizes or {}), **dict(zip(done.fixed[stage], instance, strict=True))}
            made = list(itertools.chain.from_iterable(points_of(piece.nest, env) for piece in found))
            assert set(made) == points, (stage.name, instance)
            assert len(made) == len(points) * repeats, (stage.name, instance)
        for instance in done.seen[stage.op.outputs[0]].instances - set(done.seen[stage.op.outputs[0]].computed):
            env = {**(sizes or {}), **dict(zip(done.fixed[stage], instance, strict=True))}
            assert not any(True for piece in found for _ in points_of(piece.nest, env))
    return number


@swept({
    "strided": (5, 2000, programs(reads="lattice", most=2), {True}),
    "strided, of symbolic sizes": (2, 1000, programs(reads="lattice", symbolic=True)),
    "of few stages": (8, 1000, programs(also="caches others", most=2), {True}),
    "of all kinds": (0, 3000, programs(also="caches others", most=4), {True}),
})  # fmt: skip
def test_programs_in_pieces(program: Program) -> bool:
    """Pieces by execution, and nests against the reference; gives whether there are any pieces."""
    b = program.inferred()
    if b is None:
        return False
    number = pieces_are_right(b, program.values())
    check(program.schedule, program.sizes, bounds=b)
    check(program.schedule, program.sizes, bounds=infer_bound(program.schedule, compact=True), nests="split")
    return number > 0


@swept({"": (1, 600, (programs(reads="lattice"), st.sampled_from(["auto", "split"])))})
def test_strided_programs_in_c(program: Program, nests: str) -> None:
    folded = program.inferred(compact=True)
    if folded is not None:
        check_c(lower(program.schedule, bounds=folded, nests=nests), program.schedule)
