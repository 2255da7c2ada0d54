"""`infer_bound`: examples of the InferBound document, tails of splits, sizes, errors, explanations."""

from typing import Any

import pytest

from bound import infer_bound, te
from bound.infer import BoundsMap
from bound.schedule.stage import ScheduleError
from bound.tensor import Tensor
from intset import Context, InputError, Range, ShapeVar, evaluate
from intset.errors import BudgetError
from tests.bound.oracle import check
from tests.strategies.refusals import refused_by
from tests.strategies.schedules import Program, state_of
from tests.strategies.written import Written


def texts(b: BoundsMap, tensor: Tensor) -> list[tuple[str, str]]:
    """Root ranges of a stage as text, in the document's (min, extent) notation."""
    return [(str(b[iv].min), str(b[iv].extent)) for iv in tensor.op.axis]


def stored(b: BoundsMap, tensor: Tensor) -> list[int]:
    return [int(r.extent) for r in b.allocated(tensor)]


NAMES = {"infer": infer_bound, "check": check, "texts": texts, "stored": stored, "Range": Range}
WHOLE, POINT, ROW = [("0", "5"), ("0", "16")], [("i", "1"), ("j", "1")], [("i", "1"), ("0", "16")]
TWO = """
    C[i:5, j:16] = tir.const(5, "int32")
    D[i:5, j:16] = C[i, j] * 2"""  # stages C and D of the document
ON_THREADS = """
    A = given(64); B = pointwise(A)
    C[i:64] = B[i] * 2
    C split i 16; C bind i.outer blockIdx.x; C bind i.inner threadIdx.x"""
TWO_READS = """
    A = given(20); B = pointwise(A)
    C[i:4] = B[i] + B[i + 12]"""
TAIL = """
    A = given({0}); B = pointwise(A)
    C[i:{0}] = B[i] * 2
    D[i:10] = C[i] + 3
    C split i 4 tail={1}; B compute_at C i.{2}"""
SIZED = """
    A = given(n); B = pointwise(A)
    C[i:n] = B[i] * 2
    C split i 4; B compute_at C i.outer"""

CASES: dict[str, tuple[str, dict[str, object]]] = {
    # -- the document
    "example 1": (f"{TWO}\nb = infer(s)", {"texts(b, C)": WHOLE, "texts(b, D)": WHOLE, "len(b.roots())": 2}),
    "example 2": (
        f"{TWO}\nC compute_at D j; b = infer(s)",
        {
            "texts(b, C)": POINT, "b.required(C).count_total()": 80,
            "b.required(C).at(dict(zip(D.op.axis, (2, 7)))).box": (Range(2, 1), Range(7, 1)),
        },
    ),
    "example 3": (
        f"{TWO}\nC compute_at D i; b = infer(s)",
        {
            "texts(b, C), b.required(C).count_max()": (ROW, 16), "[x.name for x in b.roots()]": ["D"],
            "[stage.name for stage in b.attached(D, b.nest(D).loops[0].iv)]": ["C"],
            "[(stage.name, iv.name) for stage, iv in b.attach_path(C)]": [("D", "i")],
        },
    ),
    "example 4 has an unused axis in its path": (
        """
        C[i:5, j:16] = tir.const(5, "int32")
        D[di:4, dj:5, dk:16] = C[dj, dk] * 2
        C compute_at D dk; b = infer(s)""",
        {
            "texts(b, C)": [("dj", "1"), ("dk", "1")], "[iv.name for _, iv in b.attach_path(C)]": ["dk", "dj", "di"],
            "b.required(C).count_total()": 4 * 5 * 16, "[v.name for v in b.required(C).params]": ["dj", "dk"],
        },
    ),
    "example 5, split": (
        f"{TWO}\nD split j 8; C compute_at D j.inner; b = infer(s)",
        {
            "texts(b, C)": [("i", "1"), ("j.outer * 8 + j.inner", "1")],
            "[iv.name for _, iv in b.attach_path(C)]": ["j.inner", "j.outer", "i"],
        },
    ),
    "example 6, fuse then split, is one row": (
        """
        A = given(4, 4)
        B[i:4, j:4] = A[i, j] + 2
        C[i:4, j:4] = B[i, j] * 3
        C fuse i j; C split i.j.fused 4; B compute_at C i.j.fused.outer; b = infer(s); check(b)""",
        {"texts(b, B)": [("i.j.fused.outer", "1"), ("0", "4")]},
    ),
    "nested attachments and the relax set": (
        f"""{TWO}
        E[i:5, j:16] = D[i, j] * 4
        D compute_at E j; first = texts(infer(s), C); C compute_at D j; b = infer(s)""",
        {
            "first": WHOLE, "texts(b, C)": POINT, "texts(b, D)": POINT,
            "[iv.name for _, iv in b.attach_path(C)]": ["j", "i", "j", "i"],
        },
    ),
    "disjoint requests are a union": (
        """
        A = given(4, 4); T = pointwise(A)
        X[i:2, j:2] = T[i, j] * 2
        Y[i:2, j:2] = T[i + 2, j + 2] * 3
        b = infer(s); box = infer(s, compute="box"); hull = infer(s, domain="interval"); check(b)""",
        {
            "b.required(T).count(), b.computed(T).count()": (8, 8), "texts(b, T)": [("0", "4"), ("0", "4")],
            "bool(b.guard(T)), (0, 0) in b.required(T), (0, 2) in b.required(T)": (True, True, False),
            "box.computed(T).count(), box.guard(T)": (16, ()),
            "hull.required(T).count(), hull.required(T).is_exact": (16, False),
        },
    ),
    **{
        # 20 elements, split by 16: the second iteration of the outer loop has an inner loop of 4
        f"the split that the document wishes for, {tail}": (
            f"""
        A = given(20)
        C[i:20] = A[i] + 1
        C split i 16 tail={tail}; b = infer(s); check(b)""",
            {"[str(b[iv].extent) for iv in s[C].leaf_iter_vars]": ["2", extent], "len(b.guard(C))": tail == "guard"},
        )
        for tail, extent in (("guard", "16"), ("shrink", "minimum(16, 20 - i.outer * 16)"))
    },
    # -- tails
    **{
        f"the tail of a consumer and what its producer must give, {tail}": (
            f"{TAIL.format(16, tail, 'outer')}; b = infer(s); check(b, exact={tail != 'round_up'})",
            {
                "b.required(C).count(), b.computed(C).count()": (10, computed),
                "b.required(B).count_total(), stored(b, B)": (total, [4]),
            },
        )
        for tail, computed, total in (
            ("guard", 10, 10), ("shrink", 10, 10), ("round_up", 12, 12), ("shift_inwards", 10, 12)
        )
    },
    "whole tiles end with the tensor": (
        f"{TAIL.format(11, 'round_up', 'outer')}; b = infer(s); check(b, exact=False)",
        {"b.computed(C).count(), b.required(B).count_total(), len(b.guard(C))": (11, 11, 1)},
    ),
    # -- other operations
    "an extern needs its inputs whole": (
        """
        A = given(10); B = pointwise(A)
        E = te.extern((10,), [B], lambda i, o: tir.call_packed("f", i[0], o[0]), name="E", dtype="float32")
        D[i:4] = E[i + 2]
        b = infer(s)""",
        {
            "b.required(B).count(), b.required(E).count(), b.computed(E).count()": (10, 4, 10), "stored(b, E)": [10],
        },
    ),
    "a scan needs the range of its state": (
        """
        X = given(6, 8); S = given(6, 8)
        init[_:1, i:8] = X[0, i]
        update[t:6, i:8] = S[t - 1, i] + X[t, i]
        scan = te.scan(init, update, S, inputs=[X], name="scan")
        last[i:8] = scan[5, i]
        b = infer(s)""",
        {
            "b.required(scan).count(), b.computed(scan).count(), b.required(init).count()": (8, 48, 8),
            "b.required(update).count_max(), b.required(update).count_total(), b.required(X).count()": (8, 40, 48),
        },
    ),
    **{
        f"storage by threads serves them all, {scope}": (
            f"{ON_THREADS}; B set_scope {scope}; B compute_at C i.inner; b = infer(s)",
            {"stored(b, B), b.required(B).count_total()": ([extent], 64 * extent // divisor)},
        )
        for scope, extent, divisor in (("shared", 16, 16), ("local", 1, 1))
    },
    # a producer outside the thread loop serves the union over all threads
    "storage of a thread filled outside of its loop serves every thread": (
        f"{ON_THREADS}; B set_scope local; B compute_at C i.outer; b = infer(s); check(b)",
        {"stored(b, B), 'threadIdx.x' in [v.name for v in b.required(B).params]": ([16], False)},
    ),
    # threads of an axis, a reduction, an attached stage; idle threads do nothing
    "more threads than work set the range": (
        """
        A = given(6, 28); B = pointwise(A); k = axis(0, 28)
        C[i:6] = sum_(B[i, k], axis=k)
        T = te.thread_axis((0, 32), "threadIdx.x")
        B set_scope shared; B compute_at C i; B bind i1 T; C bind k T; b = infer(s); check(b)""",
        {"int(b[B.op.axis[1]].extent), int(b[k].extent), b.computed(B).count_total()": (32, 32, 6 * 28)},
    ),
    # a stage in local memory beside its reader, whose loop is on threads: each thread keeps its own element
    "private storage of another stage is filled by its thread": (
        """
        A = given(64); B = pointwise(A)
        C[i:64] = B[i] * 2
        D[i:64] = C[i] + C[63 - i]
        D split i 16; D bind i.inner threadIdx.x; C set_scope shared; C compute_at D i.outer; C split i 16
        C bind i.inner threadIdx.x; B set_scope local; B compute_at D i.outer; b = infer(s); check(b)""",
        {"stored(b, B)": [1]},
    ),
    "conditions narrow what is needed": (
        """
        A = given(12, 12); B = pointwise(A)
        C[i:12, j:12] = where(j <= i, B[i, j], 0.0)
        B compute_at C i; b = infer(s)""",
        {
            "texts(b, B)": [("i", "1"), ("0", "i + 1")], "stored(b, B)": [1, 12],
            "b.guard(B), b.required(B).count_total()": ((), 78),
        },
    ),
    # odd rows of a tensor of which only even rows are read
    "conditions that exclude one another store nothing": (
        """
        A = given(12); B = pointwise(A)
        C[i:10] = where((i % 2).eq(0), B[i] + B[i + 2], 0.0)
        D[i:3] = C[4 * i + 1]
        C compute_at D i; B compute_at D i; b = infer(s); check(b)""",
        {"b.required(B).is_empty, stored(b, B)": (True, [0])},
    ),
    **{
        # TVM leaves an expression here: the tile of a reversed, clamped and divided index
        f"an extent with one value is a number, {read}": (
            f"""
        A = given(20); B = pointwise(A)
        C[i:20] = B[{read}]
        C split i 4; B compute_at C i.outer; b = infer(s); check(b)""",
            {"b[B.op.axis[0]].extent.is_const": True},
        )
        for read in ("19 - i", "i // 2", "(i + 4) % 20")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_case(name: str) -> None:
    text, expected = CASES[name]
    Written(text, **NAMES).shows(expected)


# -- sizes and facts --------------------------------------------------------------------------------------------------


def symbolic() -> Written:
    return Written(SIZED, n=te.var("n"))


def test_sizes_stay_symbolic_or_are_fixed_or_known() -> None:
    n, s, b_, c = symbolic()("n s B C")
    b = infer_bound(s)
    assert str(b.allocated(b_)[0].extent) == "minimum(4, n)" and str(b[c.op.axis[0]].extent) == "n"
    for size in (1, 5, 8):
        assert evaluate(b.required(b_).count_total(), {n: size}) == size
        assert evaluate(b.required(b_).count_max(), {n: size}) == min(size, 4)
        check(b, {n: size}, exact=False)
        check(infer_bound(s, at={n: size}))
    assert b.required(b_).at({n: 13}).count_total() == 13 and b.required(b_).at({n: 13}).count_max() == 4
    fixed = infer_bound(s, at={"n": 1024})
    assert fixed.sizes == {n: 1024} and fixed.required(b_).count_total() == 1024 and fixed.guard(c) == ()
    declared = Written(SIZED, n=ShapeVar("n", lower=8, upper=100))
    for known in (
        infer_bound(s, ctx=Context({n: Range(64, 1000)})).allocated(b_),
        infer_bound(s, ctx=Context(assume=[n >= 100])).allocated(b_),
        infer_bound(declared.s).allocated(declared.B),
    ):
        assert int(known[0].extent) == 4


BAD: list[tuple[dict[str, Any], str]] = [
    ({"at": {"m": 3}}, "no size of this schedule is named 'm'; the sizes are: n"),
    ({"at": {"n": 2.5}}, "n"),
    ({"at": {"n": -1}}, "the size n cannot be -1"),
    ({"at": {3: 3}}, "variables or their names"),
    ({"compute": "all"}, "compute must be one of exact, box"),
    ({"ctx": {}}, "ctx must be a Context"),
    ({"domain": "octagon"}, "octagon"),
]


def test_bad_arguments_get_one_clear_sentence() -> None:
    s = symbolic().s
    for options, message in BAD:
        with pytest.raises(InputError, match=message):
            infer_bound(s, **options)
    with pytest.raises(InputError, match="create_schedule"):
        infer_bound(3)  # type: ignore[arg-type]
    b = infer_bound(s)
    with pytest.raises(InputError, match="k is no axis"):
        b[te.reduce_axis((0, 3), "k")]
    with pytest.raises(InputError, match="a tensor is needed"):
        b.required(s)


TOTAL = "A = given(10); k = axis(0, 10)\nC[i:4] = sum_(A[k], axis=k)\nC split"
REFUSED = {  # the tail of a reduction, a tail inside of one, and a declared thread extent
    f"{TOTAL} k 4 tail=shift_inwards": r"stage C: the split of k cannot shift .* twice",
    f"{TOTAL} i 3 tail=shift_inwards; C reorder k i.outer i.inner": r"split of i cannot shift .* reduction loop k",
    f"{TWO}\nT = te.thread_axis((0, 8), 'threadIdx.x')\nD bind j T": r"stage D: j runs .* with extent 16, .* 8",
}
test_a_refusal = refused_by(lambda text: infer_bound(Written(text).s), REFUSED, ScheduleError)


def test_a_reduction_is_counted_once_and_an_inlined_stage_stores_nothing() -> None:
    p = Written(f"{TOTAL} k 4 tail=round_up")
    nest = infer_bound(p.s).nest(p.C)
    reducing = {loop.iv for loop in nest.loops if loop.iv.is_reduce}
    assert [bool(reducing & set(guard.free_vars())) for guard in nest.guards] == [True]
    s, c, d = Written(f"{TWO}\nC compute_inline")("s C D")
    b = infer_bound(s)
    with pytest.raises(ScheduleError, match="stage C is inlined"):
        b.required(c)
    with pytest.raises(InputError, match="stage C has no loops"):
        b.nest(c)
    assert b.required(d).count() == 80


# -- what it tells ----------------------------------------------------------------------------------------------------

TOLD: dict[str, tuple[str, str, str, str]] = {  # program, question, expected texts, excluded texts
    "who asked for what": (
        TAIL.format(16, "guard", "outer"), "infer(s).explain(C)",
        "C: computed at the root | D reads C[i] | asks for [0, 9] | : [0, 9]: 10 elements | computed: what is required",
        "",
    ),
    "where": (
        TAIL.format(16, "guard", "outer"), "infer(s).explain(B)",
        "B: computed inside C.i.outer | loops fixed: C.i.outer; relaxed: C.i.inner | at most 4 elements at a time, 10",
        "given up",
    ),
    "storage": (
        TAIL.format(16, "guard", "outer"), "infer(s).explain(B)",
        "stored in 4 from C.i.outer * 4, anew in every iteration of C.i.outer", "",
    ),
    "an output": (TAIL.format(16, "guard", "outer"), "infer(s).explain(D)", "it is an output", ""),
    "slices": (
        """
        A = given(64); B = pointwise(A)
        E = te.extern((4,), [B], lambda i, o: tir.call_packed("f", i[0], o[0]), name="E", dtype="float32")""",
        "infer(s).explain(B)", "E reads B[0 : + 64]", "loops fixed",
    ),
    "some of a box": (
        "A = given(64); B = pointwise(A)\nC[i:8, j:8] = B[i * j]\nB compute_at C i", "infer(s).explain(B)",
        "some of [0, C.i * 7]: at most 8 elements at a time, 57 in all", "",
    ),
    "a precision that a domain gives up": (
        TWO_READS, "infer(s, domain='interval').explain(B)",
        "given up: the box around several needs | leave out domain=", "",
    ),
    "no precision given up": (TWO_READS, "infer(s).explain(B)", "", "given up"),
    "what is not affine": (
        """
        m = var(); w = var(); p = var(); A = given(m, w); B = pointwise(A)
        C[i:m, j:w] = B[i, j] * 2
        C fuse i j; C split i.j.fused p; B compute_at C i.j.fused.outer""",
        "infer(s).explain(B)", "is not affine | at=...", "",
    ),
    "what is affine at sizes": (
        """
        m = var(); w = var(); p = var(); A = given(m, w); B = pointwise(A)
        C[i:m, j:w] = B[i, j] * 2
        C fuse i j; C split i.j.fused p; B compute_at C i.j.fused.outer""",
        "infer(s, at={m: 6, w: 5, p: 4}).explain(B)", "", "given up",
    ),
    "what a range would help": (
        'm = var(); w = var(); A = given(m, w); I = given(4, dtype="int32"); B = pointwise(A)\nC[i:4] = B[I[i], 0]',
        "infer(s).explain(B)", "declare value_range= of I", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_an_explanation(name: str) -> None:
    program, asked, there, absent = TOLD[name]
    text = eval(asked, Written(program, **NAMES).names)
    assert all(part in text for part in there.split(" | ")), text
    assert not absent or absent not in text
    assert name != "some of a box" or max(map(len, text.splitlines())) < 400


def test_explain_tells_loops_of_one_name_apart() -> None:
    p = Written("""
        A = given(64); B = pointwise(A)
        C[i:64] = where(i >= 8, B[i - 8], 0.0)
        D[i:64] = C[i] + B[0]
        C compute_at D i""")
    s, b_ = p("s B")
    text = infer_bound(s).explain(b_)
    assert "C, inside D.i, reads B[i - 8] where i >= 8" in text and "loops fixed: none; relaxed: D.i, C.i" in text
    p.then("B compute_at D i")
    text = infer_bound(s).explain(b_)
    assert "C, inside D.i, reads B[i - 8]" in text and "loops fixed: D.i; relaxed: C.i" in text
    assert "asks for [D.i - 8, D.i - 8] where D.i - 8 >= 0" in text
    assert "the body" not in text and "B.i" in text  # the guard of B names its own loop


def test_where_no_guard_can_be_written_the_box_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise BudgetError("isl gave up after 1 operations")

    s, b_ = Written(TWO_READS)("s B")
    assert infer_bound(s).computed(b_).count() == 8
    monkeypatch.setattr("bound.infer.phases.pass_down.membership_guards", fails)
    b = infer_bound(s)
    assert b.computed(b_).count() == 16 and b.required(b_).count() == 8 and not b.computed(b_).is_exact
    assert "the guard could not be written, the box is computed" in b.explain(b_) and b.guard(b_) == ()
    check(b, exact=False)


def test_answers_and_the_order_of_guards_are_the_same_twice() -> None:
    program = Program(3, also="caches")
    s = program.schedule
    before = state_of(s)
    first, second = infer_bound(s), infer_bound(s)
    for tensor in program.stages:
        if first.stage(tensor).attach_type.name != "INLINED_ALREADY":
            assert [r.extent for r in first.allocated(tensor)] == [r.extent for r in second.allocated(tensor)]
            assert first.required(tensor).count_total() == second.required(tensor).count_total()
            assert len(first.guard(tensor)) == len(second.guard(tensor))
    assert state_of(s) == before
    # Whatever the addresses of the axes are.

    def guards() -> tuple[str, ...]:
        b = infer_bound(Program(0, symbolic=True).schedule, compute="box")
        return tuple(str(b.nest(stage).guards) for stage in b.schedule.stages if b.is_computed(stage))

    assert len({guards() for _ in range(4)}) == 1
