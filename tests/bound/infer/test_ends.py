"""Ends of boxes: arithmetic, quotients, remainders, and how they are written; the guards of splits and tails."""

import itertools
import math
import random
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from benchmarks import tiles
from bound import infer_bound, te
from bound.errors import ScheduleError
from bound.infer import footprint
from bound.infer.environment import LoopEnvironment, Violations, create_account
from bound.infer.extents import max_extent
from bound.infer.footprint import Box
from bound.infer.phases.gather import _is_nothing
from bound.infer.phases.guards import MIXED_INSTANCES
from intset import Context, Range, ShapeVar, Var, ceildiv, evaluate, minimum, select
from intset.expr import ops
from intset.expr.dag import operations
from intset.expr.evaluate import compiled
from intset.linear.form import Linear
from intset.linear.signs import is_refuted
from lowering import lower
from tests.bound.oracle import check, iterations, points_of, value
from tests.strategies.written import Written
from tests.sweeps import daily

SIZES, OUTER = range(5), range(4)
Elements = set[tuple[int, ...]]


class Drawn:
    """Random boxes over a size `n`, a loop `i` of extent 4, and a loop `j` up to `i`."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.has_sizes = seed % 2 == 0
        self.n, self.i, self.j = te.var("n"), Var("i"), Var("j")
        self.env = LoopEnvironment(Context(), (self.n,), "isl", create_account(1))
        self.env.add(self.i, Range(0, len(OUTER)))
        self.env.add(self.j, Range(0, self.i + 1))
        self.points = [{self.n: n, self.i: i, self.j: j} for n in SIZES for i in OUTER for j in range(i + 1)]

    def form(self) -> Linear:
        r = self.r
        terms: dict[Any, int] = {v: k for v in (self.n, self.i, self.j) if (k := r.choice((0, 0, 0, 0, 1, 1, 2, -1)))}
        if not self.has_sizes:
            terms.pop(self.n, None)
        found = Linear(r.randint(-2, 5), terms)
        return found if r.random() < 0.85 else found.scale(2).shift(1)

    def side(self) -> footprint.SymbolicInterval:
        lows = [self.form() for _ in range(self.r.choice((1, 1, 1, 2)))]
        if self.r.random() < 0.6:  # as long in every instance, or nearly so
            highs = [lows[0].shift(self.r.randint(-1, 4)), *([self.form()] if self.r.random() < 0.2 else [])]
        else:
            highs = [self.form() for _ in range(self.r.choice((1, 1, 2)))]
        return footprint.SymbolicInterval(tuple(lows), tuple(highs))

    def boxes(self) -> list[Box]:
        """Boxes with small differences, some guarded."""
        r, sides = self.r, (self.side(), self.side())
        where = (self.form(),) if r.random() < 0.4 else ()
        also = ((self.n % 2).eq(0),) if r.random() < 0.3 else ()
        found = [Box(sides, where, also)]
        for _ in range(r.randint(1, 2)):
            k, shift = r.randrange(2), self.form() if r.random() < 0.2 else Linear(r.randint(-3, 3), {})
            moved = footprint.SymbolicInterval(
                *(tuple(f.plus(shift) for f in side) for side in (sides[k].lows, sides[k].highs))
            )
            if r.random() < 0.3:
                moved = self.side()
            own = (self.form(),) if r.random() < 0.4 else where
            found.append(Box((moved, sides[1]) if k == 0 else (sides[0], moved), own, also if r.random() < 0.7 else ()))
        if r.random() < 0.3:  # a stencil: most combinations of offsets
            steps = [sorted({0, r.randint(1, 3), r.randint(-2, 3)}) for _ in sides]
            stencil = [tuple(s.moved(k) for s, k in zip(sides, by, strict=True)) for by in product(*steps)]
            return [Box(moved, where, also) for moved in stencil[: None if r.random() < 0.7 else -1]]
        return found


def value_of(form: Linear, at: Any) -> int:
    return form.const + sum(k * (at[e] if e in at else evaluate(e, at)) for e, k in form.terms.items())


def span(side: footprint.SymbolicInterval, at: Any) -> range:
    return range(max(value_of(f, at) for f in side.lows), min(value_of(f, at) for f in side.highs) + 1)


def elements(box: Box, at: Any) -> Elements:
    if any(value_of(f, at) < 0 for f in box.where) or not all(evaluate(cond, at) for cond in box.also):
        return set()
    return set(product(*(span(side, at) for side in box.sides)))


def agree(seed: int) -> int:
    """Whether boxes were joined."""
    case = Drawn(seed)
    env, boxes = case.env, case.boxes()
    joined = footprint.union_boxes(env, boxes)
    around, is_tight = footprint.hull(env, boxes)
    for at in case.points:
        wanted: Elements = set().union(*(elements(box, at) for box in boxes))
        assert set().union(*(elements(box, at) for box in joined)) == wanted, (seed, boxes, joined, at)
        assert wanted <= elements(around, at), (seed, boxes, around, at)
        if is_tight and all(elements(box, at) for box in boxes):
            ends = [(min(axis), max(axis)) for axis in zip(*wanted, strict=True)]
            assert [(s[0], s[-1]) for s in (span(side, at) for side in around.sides)] == ends, (seed, boxes, around, at)
    one, form = boxes[0], case.form()
    assert not footprint.is_empty(env, one) or not any(elements(one, at) for at in case.points)
    first, second = one.sides[0], boxes[1].sides[0]
    both = footprint.interval(env, (*first.lows, *second.lows), (*first.highs, *second.highs))
    conditional = footprint.with_conditions(
        env, footprint.with_where(env, one, (form,)), (case.i >= 1, case.j.eq(case.n))
    )
    for at in case.points:
        if both is not None:
            assert set(span(both, at)) == set(span(first, at)) & set(span(second, at))
        inside = value_of(form, at) >= 0 and at[case.i] >= 1 and at[case.j] == at[case.n]
        assert elements(conditional, at) == (elements(one, at) if inside else set())
    for outer, inner in product((*boxes, conditional), repeat=2):
        if footprint.contains(env, outer, inner):
            assert all(elements(inner, at) <= elements(outer, at) for at in case.points), (seed, outer, inner)
    plain = Box(one.sides, one.where)
    for k in (0, 1):
        most = max_extent(env, footprint.Footprint(2, plain), k, (case.i, case.j), case.n + 40)
        assert not {case.i, case.j} & set(most.free_vars())
        for n in SIZES:
            lengths = [len(span(plain.sides[k], at)) for at in case.points if at[case.n] == n and elements(plain, at)]
            assert not lengths or evaluate(most, {case.n: n}) >= max(lengths), (seed, plain, k, n)
    return len(joined) < len(boxes)


@pytest.mark.parametrize("start", daily(range(0, 24_000, 50), 480))
def test_drawn_boxes(start: int) -> None:
    assert sum(map(agree, range(start, start + 50))) > 3


def test_a_box_contains_those_with_more_conditions_and_closer_ends() -> None:
    case = Drawn(0)
    ends = [(0, 4), (0, 3), (1, 4), (1, 3)]
    sides = [
        footprint.SymbolicInterval((Linear(low, {case.i: 1}),), (Linear(high, {case.i: 1}),)) for low, high in ends
    ]
    for (a, outer), (b, inner) in product(zip(ends, sides, strict=True), repeat=2):
        assert footprint.contains(case.env, Box((outer,)), Box((inner,))) is (a[0] <= b[0] and a[1] >= b[1])
    where, also = (Linear(-1, {case.n: 1}),), (case.i.eq(case.n),)
    for some, more in (((), where), (where, where)):
        for few, many in (((), also), (also, also)):
            assert footprint.contains(case.env, Box((sides[0],), some, few), Box((sides[3],), more, many))
    assert not footprint.contains(case.env, Box((sides[0],), where), Box((sides[3],)))
    assert not footprint.contains(case.env, Box((sides[0],), (), also), Box((sides[3],)))
    length = (Linear(-2, {case.n: 1}),)  # implied where the inner box has an element
    guarded = footprint.SymbolicInterval((Linear(2, {}),), (Linear(0, {case.n: 1}),))
    assert footprint.contains(
        case.env, Box((footprint.SymbolicInterval((Linear(0, {}),), guarded.highs),), length), Box((guarded,))
    )


def test_a_guard_that_is_a_constant_is_empty_below_0_only_and_data_guards_start_reductions() -> None:
    case = Drawn(1)
    side = footprint.SymbolicInterval((Linear(0, {}),), (Linear(3, {}),))
    for constant in (-1, 0, 1):
        guarded = footprint.Footprint(1, Box((side,), (Linear(constant, {}),)))
        assert _is_nothing(guarded) is (constant < 0)
        assert bool(footprint.with_where(case.env, Box((side,)), (Linear(constant, {}),)).where) is (constant < 0)
    p = Written("A = given(6, 5); T = reduced(A)\nT fuse i0 r1; T split i0.r1.fused 4")
    nest = infer_bound(p.s).nest(p.T)
    points = list(points_of(nest, {}, axes=(*p.T.op.axis, *p.T.op.reduce_axis)))
    assert sorted(points) == sorted(itertools.product(range(6), range(5)))


CASES = "doc_ex6_fuse_split8 repeat_mod nested_split_outer_30_3_4 thread_warp_const stencil_chain_relax_root"


@pytest.mark.parametrize("name", CASES.split())
def test_no_derived_sign_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[Linear] = []
    is_nonneg = LoopEnvironment.is_nonneg

    def recorded(env: LoopEnvironment, form: Linear, assumed: Iterable[Linear] = ()) -> bool:
        answer = is_nonneg(env, form, assumed)
        if answer and not assumed:
            derived.append(form)
            assert not is_refuted(env.normalizer, form), form
        return answer

    monkeypatch.setattr(LoopEnvironment, "is_nonneg", recorded)
    for case in tiles.tiled(name):
        try:
            infer_bound(case.schedule, at=case.sizes or None)
        except ScheduleError:
            continue
    assert derived


def test_instances_satisfy_facts_and_run_every_loop() -> None:
    n, t = ShapeVar("n", lower=1), ShapeVar("t", lower=2, upper=9)
    o, i = Var("o"), Var("i")
    env = LoopEnvironment(Context({}, assume=[n % 4 == 0, t <= n]), [n], "auto", create_account(1))
    form = env.form
    assert is_refuted(env.normalizer, form(n - 30)) and not is_refuted(env.normalizer, form(n - t))
    env.add(o, Range(0, (n - 1) // t))
    env.add(i, Range(o * t, t))
    assert not is_refuted(env.normalizer, form(i - o * t)) and not is_refuted(env.normalizer, form(o * t + t - 1 - i))
    assert is_refuted(env.normalizer, form(o - 1)) and is_refuted(env.normalizer, form(i - o * t - 1))
    n = ShapeVar("n", lower=1)
    context = Context({}, assume=[n >= 5]).extended(facts=[n <= 3])
    env = LoopEnvironment(context, [n], "auto", create_account(1))
    assert not is_refuted(env.normalizer, Linear(-1, {}))


a, b, n = ShapeVar("a"), ShapeVar("b"), ShapeVar("n")
i, j = Var("i"), Var("j")


def test_regions_are_written_by_their_ends() -> None:
    ctx = Context({i: Range(a, b - a + 1), j: Range(i, n - i)})
    assert repr(ctx) == "<Context i in [a, b], j in [i, n - 1]>"
    assert "[a, minimum(b, n - 1)]" in repr(ctx.image((i,)))
    t, o = ShapeVar("t", lower=1), Var("o")
    env = LoopEnvironment(Context(), [t], "auto", create_account(1))
    env.add(o, Range(0, 4))
    form = env.form
    sides = {v: footprint.SymbolicInterval((form(0),), (form(t - 1), form(7))) for v in (i, j)}
    for e in (i // 4 + i, (i + j) // 3 - j, i % 4 + i // 4, (o * t + i) // 3 * 3 + i, minimum(i, j)):
        assert footprint.independent_terms(env, form(e), sides) is None


SIZE, FACTOR = ShapeVar("N"), 4


EXTENTS = SIZE, ShapeVar("N", lower=3), ShapeVar("N", upper=4096), 58
FACTORS = FACTOR, ShapeVar("t", lower=1), ShapeVar("t", lower=1, upper=32)


@pytest.mark.parametrize(("size", "factor"), daily(product(EXTENTS, FACTORS), 2))
def test_a_window_has_no_cases(size, factor):
    p = Written("""
        A = given(size); B = pointwise(A)
        C[k:size - 2] = B[k] + B[k + 2]
        C split k factor=t; B compute_at C k.outer""", size=size, t=factor)  # fmt: skip
    bounds = infer_bound(p.s)
    for side in (*bounds.required(p.B).box, *bounds.allocated(p.B)):
        assert ops.SELECT not in operations(side.min) | operations(side.extent)
    text = repr(bounds.required(p.B))
    assert "select" not in text and text.count("minimum") <= 1
    assert "select" not in str(lower(p.s, [p.A, p.C]))
    if size is SIZE and factor is FACTOR:
        assert text.startswith("<StageRegion [k.outer * 4, minimum(N, k.outer * 4 + 6) - 1]")


# -- guards -----------------------------------------------------------------------------------------------------------


FACTS = {
    "none": (lambda n, m: (), lambda n, m: True),
    "n % 4": (lambda n, m: ((n % 4).eq(0),), lambda n, m: n % 4 == 0),
    "n % 6": (lambda n, m: ((n % 6).eq(0),), lambda n, m: n % 6 == 0),
    "odd": (lambda n, m: ((n % 2).eq(1),), lambda n, m: n % 2 == 1),
    "at most": (lambda n, m: (n <= 5, m >= 3), lambda n, m: n <= 5 and m >= 3),
    "n = 2m": (lambda n, m: (n.eq(m * 2),), lambda n, m: n == 2 * m),
}
AT = [(n, m) for n in (*range(1, 9), 12, 18, 24) for m in (1, 2, 3, 4, 5, 6, 9, 12)]


def transform(stage, rng, steps, most):
    """Random splits with factors up to `most`, fusions and reorders."""
    for _ in range(rng.randint(1, steps)):
        leaves = stage.leaf_iter_vars
        kind = rng.choice(("factor", "factor", "nparts", "fuse", "reorder"))
        if kind == "fuse" and len(leaves) > 1:
            k = rng.randrange(len(leaves) - 1)
            stage.fuse(leaves[k], leaves[k + 1])
        elif kind == "reorder" and len(leaves) > 1:
            stage.reorder(*rng.sample(list(leaves), 2))
        else:
            stage.split(rng.choice(leaves), **{"nparts" if kind == "nparts" else "factor": rng.randint(2, most)})


def chain(seed, symbolic):
    """A stage with random splits, fusions and reorders; returns its nest and the sizes to run it with."""
    rng = random.Random(seed)
    n, m = te.var("n"), te.var("m")
    if symbolic:
        shape = rng.choice(((n,), (n, m), (n, 3), (4, n), (n * 2,), (n + 1, m)))
    else:
        shape = tuple(rng.randint(2, 12) for _ in range(rng.choice((1, 1, 2))))
    a = te.placeholder(shape, name="A")
    t = te.compute(shape, lambda *i: a(*i) + 1, name="T")
    s = te.create_schedule(t.op)
    transform(s[t], rng, *((3, 4) if symbolic else (5, 5)))
    facts, holds = FACTS[rng.choice(list(FACTS)) if symbolic else "none"]
    nest = infer_bound(s, ctx=Context(assume=facts(n, m))).nest(t)
    return t, nest, [{n: x, m: y} for x, y in AT if holds(x, y)] if symbolic else [{}]


# symbolic ones are implied by products of sizes with loops, by quotients by sizes, by what facts say of sizes
@pytest.mark.parametrize(
    ("seeds", "symbolic", "least"),
    [
        *daily([(range(60), False, 21), (range(60, 3000), False, 1001)], 2),
        *((range(12), True, 5), ((2044, 2186), True, 2), ((5270, 5483), True, 1)),
        *daily([((), True, 0), (range(12, 600), True, 251), ((5383, 5536), True, 1)], 3)[1:],
    ],
)
def test_no_guard_can_be_removed(seeds, symbolic, least):
    """Every element is visited once, and dropping any guard visits some element twice."""
    seen = 0
    for seed in seeds:
        t, nest, sizes = chain(seed, symbolic)
        if not symbolic and math.prod(value(loop.range.extent, {}) for loop in nest.loops) > 4000:
            continue
        needed = set()
        for at in sizes:
            want = sorted(itertools.product(*(range(value(e, at)) for e in t.shape)))
            assert sorted(points_of(nest, at)) == want, (seed, at)
            for k in range(len(nest.guards)):
                fewer = [*nest.guards[:k], *nest.guards[k + 1 :]]
                if k not in needed and sum(1 for _ in points_of(nest, at, fewer)) > len(want):
                    needed.add(k)
        assert len(needed) == len(nest.guards), (seed, nest.guards)
        seen += len(nest.guards)
    assert seen >= least


@pytest.mark.parametrize(("outer", "t", "u"), list(itertools.product((4, None), (1, 2, 3, 7, 40), (1, 3, 5))))
def test_the_guard_of_a_tile_of_tiles_is_that_of_the_elements(outer, t, u):
    """`x < ceildiv(30, t)` follows from `x * t + i < 30`, whatever the tiles are."""
    tiles = [ShapeVar("t"), ShapeVar("u")]
    c = te.compute((30,), lambda i: te.const(1.0, "float32") * i, name="C")
    s = te.create_schedule(c.op)
    part, _ = s[c].split(c.op.axis[0], tiles[0])
    s[c].split(part, outer or tiles[1])
    nest = infer_bound(s).nest(c)
    assert len(nest.guards) == 1
    points = list(points_of(nest, dict(zip(tiles, (t, u), strict=True))))
    assert sorted(points) == [(k,) for k in range(30)]


@pytest.mark.parametrize(("rows", "width", "factor"), [(5, 4, 3), (8, 12, 10), (7, 5, 4), (6, 9, 2)])
def test_guards_have_the_one_case_that_others_leave_open(rows: int, width: int, factor: int) -> None:
    p = Written(f"""
        A = given({rows}, {width}); B = pointwise(A); C = pointwise(B)
        C fuse i0 i1; C split i0.i1.fused {factor}; B compute_at C i0.i1.fused.outer""")
    b = infer_bound(p.s)
    assert not any(side.op.name == "select" for guard in b.guard(p.B) for side in guard.args)
    check(b)


def drawn_guards(rng, loops):
    """Guards over loops, with remainders, minima and cases."""
    made = []
    for _ in range(rng.randint(2, 4)):
        e = sum(rng.randint(-3, 3) * v for v in loops) + rng.randint(-4, 4)
        f = rng.choice(loops) * rng.randint(1, 3)
        side = rng.choice((e % 3, e // 2, minimum(e, f), select(f > 2, e, f), e))
        made.append(side <= rng.randint(-2, 6))
    return list(dict.fromkeys(made))


@pytest.mark.parametrize(("seeds", "least"), daily([(range(40), 30), (range(40, 1500), 1000)], 2))
def test_drawn_violations_are_iterations_and_few_are_missed(seeds, least):
    """A guard said to fail alone fails alone at an iteration; of those that do, most are seen."""
    seen = real = 0
    for seed in seeds:
        rng = random.Random(seed)
        n, loops = ShapeVar("n", lower=1, upper=6), [Var(f"v{k}") for k in range(rng.randint(1, 3))]
        env = LoopEnvironment(Context(), (n,), "auto", create_account(1))
        for k, v in enumerate(loops):
            around = rng.choice((rng.randint(1, 5), ceildiv(n, 2), loops[k - 1] + 1 if k else 3))
            env.add(v, Range(rng.choice((0, 2)), around))
        guards = drawn_guards(rng, loops)
        violations = Violations(env, dict(env.ranges), guards, MIXED_INSTANCES)
        tests = [compiled(guard, [n, *loops]) for guard in guards]
        points = [point for size in range(1, 7) for point in iterations([*env.ranges.items()], {n: size})]
        everywhere = [[test(*point.values()) for test in tests] for point in points]
        for k, guard in enumerate(guards):
            others = [other for other in guards if other is not guard]
            alone = any(not truths[k] and sum(truths) == len(guards) - 1 for truths in everywhere)
            found = violations.has_alone(guard, others)
            assert alone or not found, (seed, str(guard))
            real += alone
            seen += found
    assert real >= least and seen >= 0.8 * real
