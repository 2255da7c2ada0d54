"""Tiles of unknown size: answers are those at numbers, sizes are asserted to be positive, for the whole corpus."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Mapping
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from benchmarks.tiles import Compared, again, compared, drawn, inferred, names, tiled, written
from benchmarks.tilings import CASES, Tiled, expressions, measure, product
from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.infer.accesses import accesses
from bound.infer.answers.region import MAX, TOTAL, InstanceCount
from bound.infer.phases import propagate
from bound.infer.phases.propagate import Propagation
from bound.schedule import AttachType, Schedule
from bound.tensor import ComputeOp, PlaceholderOp, Tensor
from intset import Context, Range, ShapeVar, Var, ceildiv
from intset.budgets import REGION_POINTS
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError, CountError, InputError, UndefinedError
from intset.expr import ops
from intset.expr.dag import opaque_terms, operations
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, as_expr
from lowering import lower, run
from lowering.errors import CheckError
from tests.bound.oracle import check, check_claims
from tests.lowering.lowered import check_run
from tests.sweeps import daily

SIZES = (1, 2, 3, 5, 14, 27, 28, 29, 100)


def stencil(size: Expr | int, word: str = "factor") -> tuple[Schedule, Tensor, Tensor, Tensor]:
    a = te.placeholder((30,), name="A")
    b = te.compute((30,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((28,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], **{word: size})
    s[b].compute_at(s[c], outer)
    return s, a, b, c


@pytest.mark.parametrize("word", ["factor", "nparts"])
def test_a_stencil_at_every_size(word: str) -> None:
    t = ShapeVar("t")
    s, a, b, c = stencil(t, word)
    symbolic = infer_bound(s)
    f = lower(s, [a, c])
    x = np.arange(30, dtype="float32")
    for n in SIZES:
        result = np.zeros(28, "float32")
        run(f, {"A": x, "C": result}, {t: n})
        assert np.array_equal(result, 2 * (x[:-2] + x[1:-1] + x[2:]))
        numeric = symbolic.at({t: n})
        its, mine = stencil(n, word), numeric
        other = infer_bound(its[0])
        assert [r.extent.data for r in mine.allocated(b)] == [r.extent.data for r in other.allocated(its[2])]  # type: ignore[union-attr]
        assert numeric.required(b).count_total() == other.required(its[2]).count_total()
        extent = evaluate(as_expr(symbolic.allocated(b)[0].extent), {t: n})
        assert extent >= evaluate(as_expr(numeric.allocated(b)[0].extent))
        assert word == "nparts" or extent == min(n + 2, 30)


def test_sizes_of_splits_are_positive() -> None:
    t = ShapeVar("t")
    s, a, _, c = stencil(t)
    f = lower(s, [a, c])
    with pytest.raises(CheckError, match="the size t of a split is at least 1"):
        run(f, {"A": np.zeros(30, "float32"), "C": np.zeros(28, "float32")}, {t: 0})
    with pytest.raises(ScheduleError, match="factor of i must be positive, not 0"):
        infer_bound(s).at({t: 0})
    with pytest.raises(ScheduleError, match="declared to be at most 0"):
        stencil(ShapeVar("u", upper=0))
    v = Var("v")
    with pytest.raises(ScheduleError, match="must be positive"):
        infer_bound(stencil(v)[0], Context({v: Range(0, 1)}))


def test_storage_is_no_smaller_where_another_stage_has_no_work() -> None:
    """The range of a loop of X says nothing about tiles in which Y alone is read."""
    a, b = te.placeholder((8,), name="A"), te.placeholder((8,), name="B")
    x = te.compute((8,), lambda i: a[i] + 1.0, name="X")
    y = te.compute((8,), lambda i: b[i] + 1.0, name="Y")
    c = te.compute((16,), lambda i: te.if_then_else(i < 8, x[i], y[i - 8]), name="C")
    s = te.create_schedule(c.op)
    t = ShapeVar("t")
    outer, _ = s[c].split(c.op.axis[0], factor=t)
    s[x].compute_at(s[c], outer)
    s[y].compute_at(s[c], outer)
    symbolic = infer_bound(s)
    for n in range(1, 20):
        numeric = symbolic.at({t: n})
        for tensor in (x, y):
            extent = evaluate(as_expr(symbolic.allocated(tensor)[0].extent), {t: n})
            assert extent >= evaluate(as_expr(numeric.allocated(tensor)[0].extent))


def test_counts_without_a_closed_form_are_functions_of_sizes() -> None:
    """Sides that share loops, and sides over two loops: a term that evaluates, computes, compares and pickles."""
    t, u = ShapeVar("t", lower=1), ShapeVar("u", lower=1)

    def skewed(first: Expr | int, second: Expr | int) -> tuple[Schedule, Tensor]:
        a = te.placeholder((40, 40), name="A")
        b = te.compute((40, 40), lambda i, j: a[i, j] * 2.0, name="B")
        c = te.compute((13, 11), lambda i, j: b[i + j, i * 2] + b[i + j + 3, i * 2 + 1], name="C")
        s = te.create_schedule(c.op)
        _, _, inner, _ = s[c].tile(*c.op.axis, first, second)
        s[b].compute_at(s[c], inner)
        return s, b

    s, b = skewed(t, u)
    region = infer_bound(s).required(b)
    counts = [region.count_max(), region.count_total()]
    assert all(isinstance(count, Expr) and opaque_terms(count) for count in counts)
    assert region.count_total() is counts[1]
    most, total = (as_expr(count) for count in pickle.loads(pickle.dumps(counts)))
    for first, second in ((1, 1), (2, 5), (4, 3), (13, 11), (20, 7)):
        schedule, tensor = skewed(first, second)
        numeric = infer_bound(schedule).required(tensor)
        point = {t: first, u: second}
        assert evaluate(most, point) == numeric.count_max()
        assert evaluate(total, point) == numeric.count_total()
        assert evaluate(total * 4 <= 4 * numeric.count_total(), point)  # type: ignore[operator]
    with pytest.raises(UndefinedError):
        evaluate(total, {t: 0, u: 1})


@pytest.mark.parametrize("inner", [False, True])
def test_storage_of_what_no_guard_admits_has_extent_0(inner: bool) -> None:
    """Elements before a padding of 2 and 3: none at small sizes, where the differences are negative."""
    m, n = te.size_var("m"), te.size_var("n")
    a = te.placeholder((m // 3, n), "int32", name="A")
    b = te.compute((m // 3, n), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((m // 3, n), lambda i, j: tir.if_then_else(tir.all(i >= 2, j >= 3), b[i - 2, j - 3], 0), name="C")
    s = te.create_schedule(c.op)
    if inner:
        s[b].compute_at(s[c], c.op.axis[0])
    bounds = infer_bound(s)
    for sizes in itertools.product((0, 3, 7, 12), range(6)):
        check(bounds, dict(zip((m, n), sizes, strict=True)), exact=False)
    sides = bounds.storage(b).allocated
    assert sides == bounds.allocated(b)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("word", ["factor", "nparts"])
def test_counts_of_flattened_tiles_have_a_value_at_every_size(stride: int, word: str) -> None:
    """Ends of boxes divide by a size of 0, where no element is read."""
    m, n, t = te.size_var("m"), te.size_var("n"), ShapeVar("t", lower=1)
    a = te.placeholder((m * stride, n), "int32", name="A")
    b = te.compute((m * stride, n), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((m * n,), lambda q: b[q // n * stride, q % n], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], **{word: t})[0])
    bounds = infer_bound(s)
    for sizes in itertools.product(range(3), range(4), (1, 2, 5)):
        check_claims(bounds, dict(zip((m, n, t), sizes, strict=True)))
    counts = [count() for r in map(bounds.required, (a, b)) for count in (r.count_max, r.count_total)]
    assert stride == 1 or any(isinstance(count, Expr) and ops.SELECT in operations(count) for count in counts)


@pytest.mark.parametrize(("m", "k"), [(2, 2), (3, 2), (2, 3), (5, 2)])
def test_elements_of_quotients_by_sizes_are_counted_as_at_numbers(m: int, k: int) -> None:
    """At values of `t` a quotient by `t` is one by a number, which constraints define."""
    t = ShapeVar("t", lower=1)
    a = te.placeholder((30, k), "int32", name="A")
    c = te.compute((30, k), lambda i, j: a[i // t * m, j] + a[i // t // k, j], name="C")
    s = te.create_schedule(c.op)
    copy = s.cache_read(a, "local", [c])
    s[copy].compute_at(s[c], s[c].split(c.op.axis[0], 4)[0])
    bounds = infer_bound(s)
    for size in (m, 7, 15):
        check_claims(bounds, {t: size * m})


def test_counts_of_fused_tiles_of_tiles_are_those_at_sizes() -> None:
    """Ends with products of quotients: an exact region has the counts of its elements."""
    m, t = te.size_var("m"), te.size_var("t")
    a = te.placeholder((m, 2), "int32", name="A")
    b = te.compute((m, 2), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((m * 2,), lambda q: b[q // 2, q % 2], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], nparts=t)
    middle, _ = s[c].split(inner, factor=t)
    s[b].compute_at(s[c], s[c].fuse(outer, middle))
    bounds = infer_bound(s)
    for sizes in ((5, 2), (5, 3), (0, 1), (4, 7)):
        check_claims(bounds, dict(zip((m, t), sizes, strict=True)))


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


def test_instances_are_counted_as_by_enumeration() -> None:
    random = Random(25)
    t = ShapeVar("t", lower=1)
    o, i = Var("o"), Var("i")
    counted = 0
    for _ in range(60):
        sides = [
            tuple(
                random.randint(-3, 9) + o * random.randint(-2, 2) + i * random.randint(-2, 2) - t * random.randint(0, 1)
                for _ in range(random.randint(1, 3))
            )
            for _ in range(random.randint(0, 2))
        ]
        where = (o + i < random.randint(2, 9),) if random.random() < 0.5 else ()
        loops = ((o, as_expr(0), ceildiv(9, t)), (i, o, random.randint(0, 2) + t))
        for n in (1, 2, 4, 11):
            numbers = []
            for x in range(-(-9 // n)):
                for y in range(x, x + evaluate(loops[1][2], {t: n})):
                    point = {t: n, o: x, i: y}
                    inside = all(evaluate(cond, point) for cond in where)
                    extents = [max(0, min(evaluate(as_expr(e), point) for e in side)) for side in sides]
                    numbers.append(prod(extents) if inside else 0)
            for word, number in ((MAX, max(numbers, default=0)), (TOTAL, sum(numbers))):
                assert InstanceCount(word, (t,), loops, tuple(sides), where)(n) == number
                counted += number > 0
    assert counted > 200
    with pytest.raises(BudgetError):
        InstanceCount(MAX, (t,), ((o, as_expr(0), t),), (), ())(REGION_POINTS + 1)


def on_threads(first: Expr | int, second: Expr | int) -> tuple[Schedule, Tensor, Tensor, Tensor]:
    """A copy to shared memory by tiles of `second` threads, for a consumer with tiles of `first`."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((64,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=first)
    thread = te.thread_axis("threadIdx.x")
    s[c].bind(inner, thread)
    s[b].compute_at(s[c], outer)
    _, own = s[b].split(b.op.axis[0], factor=second)
    s[b].bind(own, thread)
    return s, a, b, c


def test_one_unknown_tile_on_a_thread_axis_is_equal_to_itself() -> None:
    t = ShapeVar("t", lower=1, upper=64)
    s, a, b, c = on_threads(t, t)
    symbolic = infer_bound(s)
    assert symbolic.equations == ()
    for n in (1, 7, 16, 64):
        assert evaluate(as_expr(symbolic.allocated(b)[0].extent), {t: n}) == n
        result = np.zeros(64, "float32")
        run(lower(s, [a, c]), {"A": np.arange(64, dtype="float32"), "C": result}, {t: n})
        assert np.array_equal(result, 2 * np.arange(64) + 1)


def test_unknown_tiles_on_one_thread_axis_are_asserted_to_be_equal() -> None:
    t, u = ShapeVar("t"), ShapeVar("u")
    for first, second, sizes in ((t, 16, {t: 16}), (16, t, {t: 16}), (t, u, {t: 8, u: 8}), (t * 2, 16, {t: 8})):
        s, a, b, c = on_threads(first, second)
        symbolic = infer_bound(s)
        assert [evaluate(cond, sizes) for cond in symbolic.equations] == [True]
        numeric = infer_bound(on_threads(*(evaluate(as_expr(e), sizes) for e in (first, second)))[0])
        assert symbolic.at(sizes).equations == ()
        tensor = numeric.schedule.stages[1].op.outputs[0]
        assert evaluate(as_expr(symbolic.allocated(b)[0].extent), sizes) == numeric.allocated(tensor)[0].extent.data  # type: ignore[union-attr]
        f = lower(s, [a, c])
        result = np.zeros(64, "float32")
        run(f, {"A": np.arange(64, dtype="float32"), "C": result}, sizes)
        assert np.array_equal(result, 2 * np.arange(64) + 1)
        wrong = {v: n + 1 for v, n in list(sizes.items())[:1]} | dict(list(sizes.items())[1:])
        with pytest.raises(CheckError, match="loops on one thread axis have equal extents"):
            run(f, {"A": np.zeros(64, "float32"), "C": result}, wrong)
        with pytest.raises(ScheduleError, match=r"runs on threadIdx.x with extent"):
            symbolic.at(wrong)
        assert symbolic.required(b).at(wrong).is_empty


def test_an_equation_that_no_size_of_a_tile_satisfies_is_refused() -> None:
    t, u = ShapeVar("t", lower=1, upper=8), ShapeVar("u", lower=9)
    with pytest.raises(ScheduleError, match=r"never the extent t .* t == 16"):
        infer_bound(on_threads(t, 16)[0])
    with pytest.raises(ScheduleError, match="no sizes satisfy"):
        infer_bound(on_threads(t, u)[0])
    with pytest.raises(ScheduleError, match="no sizes satisfy"):
        infer_bound(on_threads(ShapeVar("v") * 2, 15)[0])


@pytest.mark.parametrize("divisor", [2, 3, 4, 6])
def test_storage_of_rows_that_tiles_read_by_quotients(divisor: int) -> None:
    """Up- and downsampling, and rows of a flattened tensor: the extent is the largest over the tiles of numbers."""
    random = Random(divisor)
    equal = asked = 0
    for _ in range(4):
        step, ahead, reach = random.choice((1, 1, 2)), random.randint(0, 3), random.randint(0, 2)

        def tiles(size: Expr | int, a: int = step, c: int = ahead, r: int = reach) -> tuple[Schedule, Tensor]:
            x = te.placeholder((60,), name="A")
            b = te.compute((60,), lambda i: x[i] * 2.0, name="B")
            c_ = te.compute((23,), lambda i: b[(i * a + c) // divisor] + b[(i * a + c) // divisor + r], name="C")
            s = te.create_schedule(c_.op)
            outer, _ = s[c_].split(c_.op.axis[0], factor=size)
            s[b].compute_at(s[c_], outer)
            return s, b

        t = ShapeVar("t", lower=1)
        s, b = tiles(t)
        extent = as_expr(infer_bound(s).allocated(b)[0].extent)
        for n in (1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 22, 23, 40):
            schedule, tensor = tiles(n)
            need = infer_bound(schedule).allocated(tensor)[0].extent.data  # type: ignore[union-attr]
            said = evaluate(extent, {t: n})
            assert said >= need
            asked, equal = asked + 1, equal + (said == need)
    assert equal >= 0.95 * asked


@pytest.mark.parametrize(("size", "low", "high"), [(12, 2, 2), (7, 4, 1), (10, 3, 0)])
def test_storage_of_clamped_tiles_is_exact_at_small_sizes(size: int, low: int, high: int) -> None:
    """A tile in the padding reads one element; storage is as long as the longest read, for small tiles."""

    def clamped(factor: Expr | int) -> tuple[Schedule, Tensor]:
        a = te.placeholder((size,), name="A")
        b = te.compute((size,), lambda i: a[i] + 1.0, name="B")
        shape = (size + low + high,)
        p = te.compute(shape, lambda i: b[te.max(te.min(i - low, size - 1), 0)], name="P")
        s = te.create_schedule(p.op)
        outer, _ = s[p].split(p.op.axis[0], factor=factor)
        s[b].compute_at(s[p], outer)
        return s, b

    t = ShapeVar("t", lower=1)
    s, b = clamped(t)
    (symbolic,) = infer_bound(s).allocated(b)
    for number in range(1, size // 2 + 1):
        its, b = clamped(number)
        (exact,) = infer_bound(its).allocated(b)
        assert evaluate(as_expr(symbolic.extent), {t: number}) == as_expr(exact.extent).data


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


def test_conditions_select_tiles() -> None:
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


def small_stencil(ctx: Context | None, t: Var, n: Var) -> BoundsMap:
    a = te.placeholder((n + 2,), name="A")
    p = te.compute((n + 2,), lambda i: a[i] + 1.0, name="P")
    c = te.compute((n,), lambda i: p[i] + p[i + 2], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=t)
    s[p].compute_at(s[c], outer)
    return infer_bound(s, ctx)


def test_what_is_known_of_sizes_holds_in_their_space() -> None:
    n, t = ShapeVar("n"), ShapeVar("t", upper=8, multiple_of=2)
    b = small_stencil(Context({n: Range(4, 60)}, assume=[(n % t).eq(0), n <= 40]), t, n)
    members = sorted(tuple(row.values()) for row in b.space({n: range(64), t: range(0, 9, 2)}))
    assert members == [(k, m) for k in range(64) for m in (2, 4, 6, 8) if 4 <= k <= 40 and k % m == 0]
    fixed = b.at({n: 24})
    assert [row["t"] for row in fixed.space({t: range(0, 9, 2)})] == [2, 4, 6, 8]
    with pytest.raises(InputError):
        b.space({t: [3]})  # it declares multiples of 2


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


def is_executable(b: BoundsMap) -> bool:
    """Whether the reference run knows all operations, and no index is read from a tensor."""
    ops = [stage.op for stage in b.schedule.stages]
    indices = [e for op in ops for access in accesses(op) for e in access.indices]
    return all(isinstance(op, (ComputeOp, PlaceholderOp)) for op in ops) and not opaque_terms(*indices)


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


@pytest.mark.parametrize("name", daily(names(), 20))
def test_symbolic_tiles_of_the_corpus(name: str) -> None:
    """`at` gives the inference with numbers; the loops and the nest, run at sizes, do what is said of them."""
    for case in tiled(name):
        b, _ = inferred(case)
        if not isinstance(b, BoundsMap):
            continue
        f = lower(case.schedule)
        for seed in range(4):
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
            if is_executable(b):
                check(b, values, exact=False)
            check_run(f, case.schedule, {**case.sizes, **{t.name: n for t, n in values.items()}})


@pytest.mark.parametrize(
    ("reads", "nparts", "level", "extent"),
    [
        (lambda T, i, n: T[i // 2] + tir.if_then_else(i >= 1, T[i - 1], 0.0), 3, 0, lambda n: n - 1 + -n // 3),
        (lambda T, i, n: T[i] + T[i // 2], 4, 1, lambda n: -(((n - 1) // 4 * 4 + n * 5) // -8) - (n - 1) // 4),
        (lambda T, i, n: T[n - 1 - i] + T[i], 4, 0, lambda n: n),
    ],
)
def test_storage_of_reads_in_a_part_is_that_of_the_part(
    reads: Callable[..., Any], nparts: int, level: int, extent: Callable[[int], int]
) -> None:
    """The ends of these regions have two divisions, and take 30,000 to 120,000 operations of isl."""
    n = te.var("n")
    A = te.placeholder((n + 5,), name="A")
    T = te.compute((n + 2,), lambda i: A[i] + 1.0, name="T")
    C = te.compute((n,), lambda i: reads(T, i, n), name="C")
    s = te.create_schedule(C.op)
    s[T].compute_at(s[C], s[C].split(C.op.axis[0], nparts=nparts)[level])
    (stored,) = infer_bound(s).allocated(T)
    assert evaluate(stored.extent, {n: 6_000}) == extent(6_000)
