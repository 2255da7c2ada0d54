"""Guards of nests: every point runs once, and no guard is implied by loops and other guards."""

import itertools
import math
import random

import pytest

from bound import infer_bound, te
from bound.infer.environment import LoopEnvironment, Violations, create_account
from bound.infer.phases.guards import MIXED_INSTANCES
from intset import Context, Range, ShapeVar, Var, ceildiv, minimum, select
from intset.expr.evaluate import compiled
from tests.bound.oracle import check, iterations, points_of, value
from tests.strategies.written import Written
from tests.sweeps import daily

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


@pytest.mark.parametrize(
    ("size", "facts", "guards"),
    [
        ("n", "", 1),
        ("n", "(n % 8).eq(0)", 0),
        ("n", "(n % 24).eq(0)", 0),
        ("n", "(n % 4).eq(0)", 1),
        ("n", "(n % 8).eq(4)", 1),
        ("n * 8", "", 0),
    ],
)
def test_a_fact_about_divisibility_removes_its_guard(size, facts, guards):
    p = Written(f"n = var(); A = given({size}); T = pointwise(A)\nT split i0 8\nfacts = [{facts}]")
    assert len(infer_bound(p.s, ctx=Context(assume=p.facts)).nest(p.T).guards) == guards


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


def test_loops_that_do_not_run_need_no_guard():
    """A running loop over n implies n > 0, as do outer loops."""
    p = Written("""
        n = var(); A = given(n); r = axis(0, n)
        T[i:3] = A[i] + 1
        U[i:n, j:3] = T[j] * A[i]
        V[i:1] = sum_(A[r] + i, axis=r)
        W[i:n] = V[0] + A[i]
        T compute_at U i; V reorder r i""")
    b = infer_bound(p.s)
    assert [b.nest(x).guards for x in p("T U V W")] == [(), (), (), ()]
    start = b.nest(p.V).start
    assert start is not None and [str(guard) for guard in start.guards] == ["n - 1 >= 0"]


def test_a_reduction_starts_where_its_data_guards_hold():
    p = Written("A = given(6, 5); T = reduced(A)\nT fuse i0 r1; T split i0.r1.fused 4")
    nest = infer_bound(p.s).nest(p.T)
    points = list(points_of(nest, {}, axes=(*p.T.op.axis, *p.T.op.reduce_axis)))
    assert sorted(points) == sorted(itertools.product(range(6), range(5)))


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
