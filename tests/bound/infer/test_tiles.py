"""Tiles of unknown size: answers are those at numbers, sizes are asserted to be positive, for the whole corpus."""

import itertools
import pickle
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from benchmarks.tiles import Compared, again, compared, drawn, inferred, names, tiled, written
from benchmarks.tilings import CASES, Tiled, expressions, measure, product
from bound import infer_bound, te
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.infer.phases import propagate
from bound.infer.phases.propagate import Propagation
from bound.schedule import AttachType
from bound.tensor import PlaceholderOp
from intset import Context, Range, ShapeVar, Var
from intset.domains.sets.answers import image_in_instances
from intset.errors import CountError, InputError, UndefinedError
from intset.expr import ops
from intset.expr.dag import opaque_terms, operations
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, as_expr
from lowering import lower, run
from lowering.errors import CheckError
from tests.bound.corpus import can_run
from tests.bound.oracle import check, check_claims
from tests.lowering.lowered import check_run
from tests.strategies.written import Written
from tests.sweeps import daily

IN_TILES = "C split i t; B compute_at C i.outer"
PADDED = f"B = pointwise(A)\nC[i:{{}}] = B[maximum(minimum(i - {{}}, {{}}), 0)]\n{IN_TILES}"
TILED = {  # a program with tiles of t, values of t, and whether storage is as long as at each number, or at least
    "a stencil in parts": (
        """
        A = given(30); B = pointwise(A)
        C[i:28] = B[i] + B[i + 1] + B[i + 2]
        C split i nparts=t; B compute_at C i.outer""",
        (1, 2, 3, 5, 14, 27, 28, 29, 100), False,
    ),
    "a stencil": (
        f"A = given(30); B = pointwise(A)\nC[i:28] = B[i] + B[i + 1] + B[i + 2]\n{IN_TILES}",
        (1, 2, 3, 5, 14, 27, 28, 29, 100), True,
    ),
    "where another stage has no work": (  # the range of a loop of X says nothing about tiles in which B alone is read
        f"""
        A = given(8); B = pointwise(A); X = pointwise(A)
        C[i:16] = where(i < 8, X[i], B[i - 8])
        {IN_TILES}; X compute_at C i.outer""",
        range(1, 20), False,
    ),
    **{  # up- and downsampling, and rows of a flattened tensor
        f"rows by quotients, {index}": (
            f"A = given(60); B = pointwise(A)\nC[i:23] = B[{index}] + B[({index}) + {reach}]\n{IN_TILES}",
            (1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 22, 23, 40), True,
        )
        for index, reach in (
            ("i // 2", 1), ("(i * 2 + 1) // 3", 2), ("(i + 3) // 4", 0), ("(i * 2 + 3) // 4", 1), ("(i + 2) // 6", 2)
        )
    },
    **{  # a tile in the padding reads one element; storage is as long as the longest read, for small tiles
        f"clamped, {size}": (
            f"A = given({size}); {PADDED.format(size + low + high, low, size - 1)}", range(1, size // 2 + 1), True,
        )
        for size, low, high in ((12, 2, 2), (7, 4, 1), (10, 3, 0))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", daily(TILED, 2))
def test_storage_of_tiles_is_that_at_numbers(name: str) -> None:
    text, values, is_equal = TILED[name]
    t = ShapeVar("t")
    p = Written(text, t=t)
    symbolic, f = infer_bound(p.s), lower(p.s)
    for n in values:
        numeric = Written(text, t=n)
        for tensor, its in ((p.B, numeric.B), *([(p.X, numeric.X)] if "X" in p.names else [])):
            said = evaluate(as_expr(symbolic.allocated(tensor)[0].extent), {t: n})
            need = int(infer_bound(numeric.s).allocated(its)[0].extent)
            assert said == need if is_equal else said >= need
        check_run(f, p.s, {"t": n})


def test_sizes_of_splits_are_positive() -> None:
    def stencil(t: Expr) -> Written:
        return Written(TILED["a stencil"][0], t=t)

    s, a, c = stencil(ShapeVar("t"))("s A C")
    with pytest.raises(CheckError, match="the size t of a split is at least 1"):
        run(lower(s, [a, c]), {"A": np.zeros(30, "float32"), "C": np.zeros(28, "float32")}, {"t": 0})
    with pytest.raises(ScheduleError, match="factor of i must be positive, not 0"):
        infer_bound(s).at({"t": 0})
    with pytest.raises(ScheduleError, match="declared to be at most 0"):
        stencil(ShapeVar("u", upper=0))
    v = Var("v")
    with pytest.raises(ScheduleError, match="must be positive"):
        infer_bound(stencil(v).s, Context({v: Range(0, 1)}))


SKEWED = """
    A = given(40, 40); B = pointwise(A)
    C[i:13, j:11] = B[i + j, i * 2] + B[i + j + 3, i * 2 + 1]
    C tile i j t u; B compute_at C i.inner"""


def test_counts_without_a_closed_form_are_functions_of_sizes() -> None:
    """Sides that share loops, and sides over two loops: a term that evaluates, computes, compares and pickles."""
    t, u = ShapeVar("t", lower=1), ShapeVar("u", lower=1)
    p = Written(SKEWED, t=t, u=u)
    region = infer_bound(p.s).required(p.B)
    counts = [region.count_max(), region.count_total()]
    assert all(isinstance(count, Expr) and opaque_terms(count) for count in counts)
    assert region.count_total() is counts[1]
    most, total = (as_expr(count) for count in pickle.loads(pickle.dumps(counts)))
    for first, second in ((1, 1), (2, 5), (4, 3), (13, 11), (20, 7)):
        q = Written(SKEWED, t=first, u=second)
        numeric = infer_bound(q.s).required(q.B)
        point = {t: first, u: second}
        assert evaluate(most, point) == numeric.count_max()
        assert evaluate(total, point) == numeric.count_total()
        assert evaluate(total * 4 <= 4 * numeric.count_total(), point)  # type: ignore[operator]
    with pytest.raises(UndefinedError):
        evaluate(total, {t: 0, u: 1})


PADDING = """
    A = given(m // 3, n, dtype="int32"); B = pointwise(A)
    C[i:m // 3, j:n] = where(tir.all(i >= 2, j >= 3), B[i - 2, j - 3], 0)"""


@pytest.mark.parametrize("calls", ["", "B compute_at C i"])
def test_storage_of_what_no_guard_admits_has_extent_0(calls: str) -> None:
    """Elements before a padding of 2 and 3: none at small sizes, where the differences are negative."""
    m, n = te.size_var("m"), te.size_var("n")
    bounds = infer_bound(Written(f"{PADDING}\n{calls}", m=m, n=n).s)
    for sizes in itertools.product((0, 3, 7, 12), range(6)):
        check(bounds, dict(zip((m, n), sizes, strict=True)), exact=False)


COUNTED = {  # a program over m, n and t, and values of these: an exact region has the counts of its elements
    **{  # ends of boxes divide by a size of 0, where no element is read
        f"flattened tiles, stride {stride}, {word}": (
            f"""
        A = given(m * {stride}, n, dtype="int32"); B = pointwise(A)
        C[q:m * n] = B[q // n * {stride}, q % n]
        C split q {word}=t; B compute_at C q.outer""",
            [*itertools.product(range(3), (0, 1, 3), (1, 5))],
        )
        for stride in (1, 2)
        for word in ("factor", "nparts")
    },
    **{  # at values of t a quotient by t is one by a number, which constraints define
        f"quotients by sizes, {m} and {k}": (
            f"""
        A = given(30, {k}, dtype="int32")
        C[i:30, j:{k}] = A[i // t * {m}, j] + A[i // t // {k}, j]
        B = s.cache_read(A, "local", [C])
        C split i 4; B compute_at C i.outer""",
            [(1, 1, size * m) for size in (m, 7, 15)],
        )
        for m, k in ((2, 2), (3, 2), (2, 3), (5, 2))
    },
    "fused tiles of tiles": (  # ends with products of quotients
        """
        A = given(m, 2, dtype="int32"); B = pointwise(A)
        C[q:m * 2] = B[q // 2, q % 2]
        C split q nparts=t; C split q.inner t; C fuse q.outer q.inner.outer
        B compute_at C q.outer.q.inner.outer.fused""",
        [(5, 1, 2), (5, 1, 3), (0, 1, 1), (4, 1, 7)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_counts_of_tiles_are_those_at_sizes(name: str) -> None:
    text, values = COUNTED[name]
    variables = te.size_var("m"), te.size_var("n"), ShapeVar("t", lower=1)
    p = Written(text, **dict(zip("mnt", variables, strict=True)))
    bounds = infer_bound(p.s)
    for sizes in values:
        check_claims(bounds, dict(zip(variables, sizes, strict=True)))
    if "stride 2" in name:
        counts = [count() for r in map(bounds.required, (p.A, p.B)) for count in (r.count_max, r.count_total)]
        assert any(isinstance(count, Expr) and ops.SELECT in operations(count) for count in counts)


@pytest.mark.parametrize("name", ["tile_fuse_inner_split", "split_fuse_split_mixed"])
def test_fused_tiles_of_unknown_sizes_have_the_same_regions_with_fewer_sets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = list(tiled(name))[-1]
    asked: list[object] = []
    monkeypatch.setattr(
        propagate, "image_in_instances", lambda *given: asked.append(given) or image_in_instances(*given)
    )

    def regions() -> tuple[list[str], int]:
        asked.clear()
        b, _ = inferred(again(case))
        assert isinstance(b, BoundsMap)
        return [str(b.required(stage.op.outputs[0]).box) for stage in b.schedule.stages], len(asked)

    boxes, sets = regions()
    monkeypatch.setattr(Propagation, "_quotients_by_sizes", lambda *_: [])
    same_boxes, more_sets = regions()
    assert boxes == same_boxes and sets < more_sets
    result = compared(case, range(4))
    assert result is not None and not result.unsound


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_of_a_symbolic_extent_are_read_exactly(parts: int) -> None:
    """Starts of parts are `part * ceildiv(n, parts)`: a choice among a few numbers, which sets can express."""
    n = ShapeVar("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], nparts=parts)
    s[b].compute_at(s[c], outer)
    bounds = infer_bound(s)
    assert all(region.is_exact for region in (bounds.required(a), bounds.computed(b)))


def test_tiles_of_tiles_of_unknown_sizes_are_exact() -> None:
    """The guard of the outer split follows from that of the inner one, whose sum of loops is then one variable."""
    for case in tiled("nested_split_outer_30_3_4"):
        b, _ = inferred(case)
        assert isinstance(b, BoundsMap)
        consumer = next(stage for stage in b.schedule.stages if stage.is_output)
        read = b.required(consumer.op.input_tensors[0])
        assert read.is_exact and not read.notes, case.title
        result = compared(case, range(4))
        assert result is not None and not result.unsound and not result.loose, case.title


ON_THREADS = """
    A = given(64); B = pointwise(A)
    C[i:64] = B[i] * 2.0
    C split i t; C bind i.inner threadIdx.x; B compute_at C i.outer; B split i0 u; B bind i0.inner threadIdx.x"""


def on_threads(first: Expr | int, second: Expr | int) -> Written:
    """A copy to shared memory by tiles of `second` threads, for a consumer with tiles of `first`."""
    return Written(ON_THREADS, t=first, u=second)


def test_unknown_tiles_on_one_thread_axis_are_equal_or_asserted_to_be() -> None:
    t = ShapeVar("t", lower=1, upper=64)
    p = on_threads(t, t)
    symbolic, f = infer_bound(p.s), lower(p.s)
    assert symbolic.equations == ()
    for n in (1, 7, 16, 64):
        assert evaluate(as_expr(symbolic.allocated(p.B)[0].extent), {t: n}) == n
        check_run(f, p.s, {"t": n})
    t, u = ShapeVar("t", lower=1, upper=8), ShapeVar("u", lower=9)
    with pytest.raises(ScheduleError, match=r"never the extent t .* t == 16"):
        infer_bound(on_threads(t, 16).s)
    with pytest.raises(ScheduleError, match="no sizes satisfy"):
        infer_bound(on_threads(t, u).s)
    with pytest.raises(ScheduleError, match="no sizes satisfy"):
        infer_bound(on_threads(ShapeVar("v") * 2, 15).s)
    t, u = ShapeVar("t"), ShapeVar("u")
    for first, second, sizes in ((t, 16, {t: 16}), (16, t, {t: 16}), (t, u, {t: 8, u: 8}), (t * 2, 16, {t: 8})):
        p = on_threads(first, second)
        symbolic, f = infer_bound(p.s), lower(p.s, [p.A, p.C])
        assert [evaluate(cond, sizes) for cond in symbolic.equations] == [True]
        numeric = on_threads(*(evaluate(as_expr(e), sizes) for e in (first, second)))
        assert symbolic.at(sizes).equations == ()
        need = int(infer_bound(numeric.s).allocated(numeric.B)[0].extent)
        assert evaluate(as_expr(symbolic.allocated(p.B)[0].extent), sizes) == need
        check_run(f, p.s, {v.name: n for v, n in sizes.items()})
        wrong = sizes | {t: sizes[t] + 1}
        with pytest.raises(CheckError, match="loops on one thread axis have equal extents"):
            run(f, {"A": np.zeros(64, "float32"), "C": np.zeros(64, "float32")}, wrong)
        with pytest.raises(ScheduleError, match=r"runs on threadIdx.x with extent"):
            symbolic.at(wrong)
        assert symbolic.required(p.B).at(wrong).is_empty


@pytest.mark.parametrize("made", CASES, ids=lambda case: case.__name__)
def test_tables_equal_inference_with_numbers(made: Callable[[], Tiled]) -> None:
    b, tiles, tensors = made()
    space = b.space({t: range(71) for t in tiles})
    assert space.count() == 70 ** len(tiles)  # no tile is 0
    table = space.table(expressions(b, tensors))
    assert all(column.dtype.kind == "i" for column in table.values())
    rng = random.Random(made.__name__)
    for row in rng.sample(range(space.count()), 6):
        values = {t: int(table[t.name][row]) for t in tiles}
        numeric = expressions(b.at(values), tensors)
        assert {name: int(table[name][row]) for name in numeric} == {name: int(e) for name, e in numeric.items()}


def test_the_benchmark_compares_what_it_tabulates() -> None:
    assert measure(product, 12, 3).startswith("product      1728 tilings in ")


def test_conditions_and_facts_select_tiles() -> None:
    b, (tm, _, tk), _ = product()
    values = {tm: [8, 16, 32, 64], "tn": [8, 16, 32], tk: [4, 8]}
    space = b.space(values, where=[b.bytes("shared") <= 1024, "tm % 16 == 0 or tk == 4"])
    expected = [
        (m, n, k)
        for m in values[tm]
        for n in values["tn"]
        for k in values[tk]
        if 4 * k * (m + n) <= 1024 and (m % 16 == 0 or k == 4)
    ]
    assert sorted(tuple(row.values()) for row in space) == expected and len(expected) > 3
    assert (8, 8, 4) in space and (64, 32, 8) not in space
    n, t = ShapeVar("n"), ShapeVar("t", upper=8, multiple_of=2)
    b = small_stencil(Context({n: Range(4, 60)}, assume=[(n % t).eq(0), n <= 40]), t, n)
    members = sorted(tuple(row.values()) for row in b.space({n: range(64), t: range(0, 9, 2)}))
    assert members == [(k, m) for k in range(64) for m in (2, 4, 6, 8) if 4 <= k <= 40 and k % m == 0]
    fixed = b.at({n: 24})
    assert [row["t"] for row in fixed.space({t: range(0, 9, 2)})] == [2, 4, 6, 8]
    with pytest.raises(InputError):
        b.space({t: [3]})  # it declares multiples of 2


def small_stencil(ctx: Context | None, t: Var, n: Var) -> BoundsMap:
    p = Written(f"A = given(n + 2); B = pointwise(A)\nC[i:n] = B[i] + B[i + 2]\n{IN_TILES}", t=t, n=n)
    return infer_bound(p.s, ctx)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (lambda t, n: {"stages": [1, 2]}, "'stages' is no symbolic size of this schedule; those are: n, t"),
        (lambda t, n: {Var("t"): [1, 2]}, "t is no symbolic size of this schedule; those are: n, t"),
        (lambda t, n: {t: [1, 2], "t": [3]}, "a size has values twice, by its variable and by its name"),
        (lambda t, n: [t], "the values of a space must be a mapping {size: values}, not [t] of type list"),
    ],
)
def test_what_is_no_size_is_refused(keys: Callable[[Var, Var], Mapping[Any, Any]], message: str) -> None:
    n, t = ShapeVar("n"), ShapeVar("t")
    with pytest.raises(InputError) as refused:
        small_stencil(None, t, n).space(keys(t, n))
    assert str(refused.value) == message


@pytest.mark.parametrize(("every", "seeds", "share"), daily([(17, 3, 0.9), (1, 16, 0.95)], 2))
def test_answers_are_those_at_numbers(every: int, seeds: int, share: float) -> None:
    """In most regions, counts and storage included; no region lacks elements or leaves the box of all tiles."""
    total = Compared()
    for name in names()[::every]:
        for case in tiled(name):
            total.add(compared(case, range(seeds)) or Compared())
    assert not total.unsound and not total.looser
    assert total.regions > 20 * seeds and total.equal >= share * total.regions


def answers(b: BoundsMap) -> list[object]:
    """What an inference says of all tensors and nests, in comparable form."""
    said: list[object] = [str(b.outside)]
    for stage in b.schedule.stages:
        if stage.attach_type is AttachType.INLINED_ALREADY:
            continue
        for tensor in stage.op.outputs:
            for region in (b.required(tensor), b.computed(tensor)):
                said += [str(region), str(region.box), region.is_exact, region.is_tight, region.is_empty, region.notes]
                said += [count_of(region.count_max), count_of(region.count_total)]
            said += [tensor.name, str(b.allocated(tensor)), str(b.storage(tensor))]
        if not isinstance(stage.op, PlaceholderOp):
            nest = b.nest(stage)
            said += [(loop.iv.name, str(loop.range), loop.kind) for loop in nest.loops]
            said += [[str(guard) for guard in nest.guards], [str(e) for e in nest.values.values()]]
    return said


def count_of(count: Callable[[], object]) -> str:
    try:
        return str(count())
    except CountError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("name", daily(names(), 40))
def test_symbolic_tiles_of_the_corpus(name: str) -> None:
    """`at` gives the inference with numbers; the loops and the nest, run at sizes, fulfil their claims."""
    for case in tiled(name):
        b, _ = inferred(case)
        if not isinstance(b, BoundsMap):
            continue
        f = lower(case.schedule)
        for seed in range(2):
            values = drawn(case, seed)
            try:
                numeric = answers(infer_bound(written(case, values), at=case.sizes or None))
            except ScheduleError:
                with pytest.raises(ScheduleError):
                    b.at(values)
                continue
            assert answers(b.at(values)) == numeric
            if seed == 0:
                assert answers(b.at({t.name: n for t, n in values.items()})) == numeric
            if can_run(case.schedule):
                check(b, values, exact=False)
            check_run(f, case.schedule, {**case.sizes, **{t.name: n for t, n in values.items()}})


@pytest.mark.parametrize(
    ("reads", "nparts", "level", "extent"),
    [
        ("B[i // 2] + where(i >= 1, B[i - 1], 0.0)", 3, "outer", lambda n: n - 1 + -n // 3),
        ("B[i] + B[i // 2]", 4, "inner", lambda n: -(((n - 1) // 4 * 4 + n * 5) // -8) - (n - 1) // 4),
        ("B[n - 1 - i] + B[i]", 4, "outer", lambda n: n),
    ],
)
def test_storage_of_reads_in_a_part_is_that_of_the_part(
    reads: str, nparts: int, level: str, extent: Callable[[int], int]
) -> None:
    """The ends of these regions have two divisions, and take 30,000 to 120,000 operations of isl."""
    n = te.var("n")
    calls = f"C split i nparts={nparts}; B compute_at C i.{level}"
    p = Written(f"A = given(n + 2); B = pointwise(A)\nC[i:n] = {reads}\n{calls}", n=n)
    (stored,) = infer_bound(p.s).allocated(p.B)
    assert evaluate(stored.extent, {n: 6_000}) == extent(6_000)
