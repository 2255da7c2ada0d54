"""`intset.plain`: rows against enumeration; and the optional core in C: equal answers; builds that fail."""

import gc
import importlib
import os
import pickle
import random
import shutil
import subprocess
import sys
import weakref
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intset
import intset.plain as plain
from bound.itervar import IterVar
from intset import Context, Expr, Range, ShapeVar, Var, evaluate, maximum, minimum, select, sum_of
from intset.expr import storage
from intset.expr.node import Node
from intset.spaces.vectors import to_numpy
from tests import ROOT
from tests.intset.elsewhere import ran
from tests.sweeps import daily

DIVISORS = (2, 3, 4, 6, 8, 12)


def drawn(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    """An expression of operations with a rule."""

    def below() -> Expr:
        return drawn(rng, variables, depth - 1)

    if not depth or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.8 else rng.randint(-6, 20) + 0 * variables[0]
    a, c = below(), rng.choice(DIVISORS)
    makers = [
        *[lambda: a + below()] * 4,
        *[lambda: a - below()] * 2,
        *[lambda: a * rng.choice((2, 3, 4, -1, -5))] * 3,
        *[lambda: a // c] * 3,
        *[lambda: a % c] * 3,
        lambda: minimum(a, below()),
        lambda: maximum(a, below()),
        lambda: -(-a // c),
        lambda: a * below(),
        lambda: select(rng.choice((a < below(), a.eq(below()), ~(a >= 3) | (below() > 1))), a, below()),
    ]
    return rng.choice(makers)()


def values_of(e: Node, ranges: dict[Var, Range]) -> list[int]:
    """The values of `e` over the box, ascending."""
    spans = [range(limits.ends[0], limits.ends[1] + 1) for limits in ranges.values() if limits.ends]
    return sorted({int(evaluate(e, dict(zip(ranges, point, strict=True)))) for point in product(*spans)})


def at_corner(corner: int, rows: plain.ValueRows, ranges: dict[Var, Range]) -> dict[Var, Range]:
    """The part of the box represented by a row's corner."""
    inside = dict(ranges)
    for v, limits in ranges.items():
        if v in rows and limits.ends and (bits := corner & rows[v][4]):
            inside[v] = Range(limits.ends[bits == rows[v][6]], 1)
    return inside


def check(seed: int) -> None:
    rng = random.Random(seed)
    variables = [Var(f"v{k}") for k in range(rng.randint(1, 3))]
    ranges = {v: Range(rng.choice((0, 0, 0, -3, 5)), rng.choice((1, 2, 3, 4, 6, 8, 12))) for v in variables}
    e: Node = drawn(rng, variables, rng.randint(1, 5))
    if rng.random() < 0.2:
        e = rng.choice((e < drawn(rng, variables, 2), e.eq(drawn(rng, variables, 2)), e.ne(rng.randint(-3, 9))))
    values = values_of(e, ranges)
    for ways, points in ((3, plain.MOST_POINTS), (2, plain.MOST_POINTS), (2, 40), (1, plain.MOST_POINTS), (1, 0)):
        with pytest.MonkeyPatch.context() as patch:
            if ways < 3:
                patch.setattr(plain, "plain_ends", None)
            if ways == 2:
                patch.setattr(plain, "FEW_POINTS", 0)
            if ways < 2:  # the steps for boxes that are too large otherwise
                patch.setattr(plain, "_ends_of_parts", lambda *_: None)
                patch.setattr(plain, "_ends_of_periods", lambda *_: None)
            found = plain.ends(e, ranges, points)
            assert found is None or found[:2] == (values[0], values[-1]), (seed, e, ranges)
            assert found is not None or points < plain.MOST_POINTS, (seed, e, ranges)
            if (terms := plain.progression(e, ranges, points)) is not None:
                first, step, number = terms
                assert list(range(first, first + step * number, step)) == values, (seed, e, ranges)
    rows = plain.ValueRows()
    plain._row(e, rows, ranges)
    for node, (low, high, gap, step, free, least, most) in rows.items():
        own = values_of(node, ranges)
        assert low <= own[0] and own[-1] <= high and not free >> rows.bits, (seed, node)
        for corner, end in ((least, low), (most, high)):
            assert corner < 0 or values_of(node, at_corner(corner, rows, ranges)) == [end], (seed, node)
        assert all((value - low) % step == 0 for value in own) if step else own == [low] == [high], (seed, node)
        if gap:
            assert (low, high) == (own[0], own[-1]), (seed, node)
            assert all(b - a <= gap for a, b in pairwise(own)), (seed, node)


@given(st.integers(0, 10**9))
def test_rows_and_ends_are_those_of_enumeration(seed: int) -> None:
    check(seed)


def test_digits_of_a_variable_are_parts_where_it_occurs_in_digits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    i, j = Var("i"), Var("j")
    box = {i: Range(0, 56), j: Range(0, 8)}
    monkeypatch.setattr(plain, "plain_ends", None)
    for apart, e in (
        (True, i // 4 * 5 - (i * 3 + j * 4) % 4),
        (True, i // 8 - i % 8 + i // 8 % 3),
        (False, i * 2 - i % 4),
        (False, i // 4 * 5 - i % 8),
        (False, i // 8 - (i * 3) % 16),
        (False, j * 7 + i // 4 * i - i % 4),
    ):
        values, rows = values_of(e, box), plain.ValueRows()
        plain._row(e, rows, box)
        assert apart == (plain._ends_of_parts(e, rows, box, 0) == (values[0], values[-1])), e
        assert (plain.ends(e, box) or ())[:2] == (values[0], values[-1]), e


@pytest.mark.nightly
def test_rows_and_ends_of_many_expressions() -> None:
    for seed in range(20_000):
        check(seed)


def test_a_large_index_and_a_deep_chain_are_decided() -> None:
    names = dict.fromkeys("abcdefg")
    a, b, c, d, f, p, q = (Var(name) for name in names)
    x = a * 16 + (f * 4 + p * 2 + q) % 16
    y = b * 32 + c * 2 + f // 4
    e = x // 49 * 50176 + y // 112 * 448 + x % 49 // 7 * 224 + y % 112 * 2 + x % 7 - 675
    box = {v: Range(0, n) for v, n in zip((a, b, c, d, f, p, q), (10, 392, 16, 9, 8, 2, 2), strict=True)}
    assert plain.ends(e, box, 1 << 12) == (-675, 200032, False)
    i = Var("i")
    e = i + 0
    for _ in range(50_000):
        e = e + 1
    assert Context({i: Range(0, 8)}).bounds(e) == (50_000, 50_007)


@pytest.mark.parametrize("seed", range(40))
def test_ends_of_sums_of_digits_whose_outer_blocks_are_cut(seed: int) -> None:
    """The sum rises or falls with its base, or the base takes every integer; the box is not enumerated."""
    r = random.Random(seed)
    i, j, k = Var("i"), Var("j"), Var("k")
    c, is_dense = r.choice((3, 5, 14, 28)), r.random() < 0.5
    d = r.choice((c, c + 2, 2 * c, -c, -c - 3)) if not is_dense else r.choice((1, 5, -2, c + 1))
    extents = [r.choice((7, 16, 28, 50)) for _ in range(3)]
    x = (i * extents[1] + j) * extents[2] + k + r.randint(-9, 9)
    x = x if is_dense else x * 16 + i
    e = x // c * d + x % c * r.choice((1, 1, -1)) + r.choice((0, 7))
    bounds = Context(dict(zip((i, j, k), (Range(0, n) for n in extents), strict=True))).bounds(e)
    grid = np.meshgrid(*map(np.arange, extents), indexing="ij")
    found = to_numpy(e, dict(zip((i, j, k), ((0, n - 1) for n in extents), strict=True)))(
        dict(zip((i, j, k), grid, strict=True))
    )
    assert bounds.is_tight and bounds.ints() == (found.min(), found.max())


@pytest.mark.parametrize("seed", daily(range(400), 20))
def test_the_row_of_a_sum_of_digits_tells_of_every_value(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(50):
        cuts = [r.choice((1, 1, 2, 3))]
        for _ in range(r.randint(1, 3)):
            cuts.append(cuts[-1] * r.randint(2, 5))
        every = [
            (a, b or r.choice((0, a * 3)), r.choice((1, -1, 2, -5, 7, a, 2 * a, -a))) for a, b in pairwise((*cuts, 0))
        ]
        pieces = [piece for piece in every if r.random() < 0.8]
        xs = [r.randint(-30, 40)]
        gap = r.choice((1, 1, 2, 7))
        for _ in range(r.randint(1, 40)):
            xs.append(xs[-1] + (r.randint(1, gap) if gap > 1 else 1))
        row = plain._sum_by_steps((xs[0], xs[-1], gap, 1, 3, 1, 2), pieces) if len(pieces) > 1 else None
        if row is None:
            assert gap > 1 or len(pieces) < 2
            continue
        values = {x: sum(n * (x // a % (b // a) if b else x // a) for a, b, n in pieces) for x in xs}
        low, high, apart, step, _, least, most = row
        assert (low, high) == (min(values.values()), max(values.values()))
        assert all(after - before <= apart for before, after in pairwise(sorted(values.values())))
        assert all(value == low if step == 0 else (value - low) % step == 0 for value in values.values())
        corners = {1: values[xs[0]], 2: values[xs[-1]]}
        assert corners.get(least, low) == low and corners.get(most, high) == high


needs_core = pytest.mark.skipif(intset.core != "c", reason="the core was not built, or INTSET_PURE is set")

TRANSCRIPT = """
import pickle, random, sys
import intset
from intset import Context, IntSetError, Opaque, Range, ShapeVar, Var, maximum, select
from intset.expr.dag import ORIGIN
from tests.intset.test_plain import drawn

ORIGIN.token = 1  # the same variables in both processes
WRONG = (None, 1.5, "i", True, [], 0, Opaque("t")(), 1 << 70)

def told(question, *args, **named):
    try:
        answer = question(*args, **named)
    except (IntSetError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    names = ("by", "is_tight", "notes", "status", "used", "counterexample")
    extra = [repr(getattr(answer, name, "")) for name in names]
    return f"{answer!r} {extra}"

for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
    rng = random.Random(seed)
    variables = [Var(f"v{k}") for k in range(rng.randint(1, 4))]
    extents = (1, 2, 3, 4, 6, 8, 12, 100, 4096, 1 << 38, 1 << 300)
    most = rng.choice((7, 11))
    ranges = {v: Range(rng.choice((0, 0, -3, 5, 1 << 39)), rng.choice(extents[:most])) for v in variables}
    e, f = drawn(rng, variables, rng.randint(1, 5)), drawn(rng, variables, 2)
    if rng.random() < 0.1:
        e = e * ShapeVar("n")
    ctx = Context(ranges)
    cond = rng.choice((e < f, e <= f, e > f, e >= f, e.eq(f)))
    print(e, cond, pickle.dumps((e, cond)).hex(), hash(e) == hash(pickle.loads(pickle.dumps(e))))
    print(told(ctx.bounds, e), told(ctx.prove, cond), told(ctx.simplify, e), told(ctx.bounds_many, [e, f, e + f]))
    wrong = rng.choice(WRONG)
    for apply in (
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a // b, lambda a, b: a % b,
        lambda a, b: (-a, b), lambda a, b: a.__radd__(b), lambda a, b: a.__floordiv__(b),
    ):
        print(told(apply, e, wrong), told(apply, wrong, e) if wrong is not None else "")
"""


def transcript(pure_build: bool, first: int, count: int) -> list[str]:
    return ran("-c", TRANSCRIPT, first, count, INTSET_PURE=str(int(pure_build)), PYTHONHASHSEED="0").splitlines()


@needs_core
@pytest.mark.parametrize("part", daily(range(20), 20))
def test_both_builds_give_one_transcript(part: int) -> None:
    both = [transcript(pure_build, part * 60, 60) for pure_build in (False, True)]
    assert len(both[0]) == len(both[1]) == 10 * 60
    assert all(a == b for a, b in zip(*both, strict=True)), next((a, b) for a, b in zip(*both, strict=True) if a != b)


@needs_core
@pytest.mark.parametrize("part", daily(range(50), 50))
def test_the_pass_in_c_decides_as_the_one_in_python(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decide: Any = storage.plain_ends
    monkeypatch.setattr(plain, "plain_ends", None)
    decided = 0
    for seed in range(part * 400, part * 400 + 400):
        rng = random.Random(seed)
        variables = [Var(f"v{k}") for k in range(rng.randint(1, 4))]
        extents = (1, 2, 3, 4, 6, 8, 12, 100, 4096, 10**7, 1 << 39)[: rng.choice((7, 11))]
        ranges = {v: Range(rng.choice((0, 0, -3, 5, -(10**6))), rng.choice(extents)) for v in variables}
        e: Any = drawn(rng, variables, rng.randint(1, 6))
        if rng.random() < 0.3:
            f = drawn(rng, variables, 3)
            e = rng.choice((e < f, e <= f, e > f, e >= f))
        for points in (0, 50, plain.MOST_POINTS):
            if (found := decide(e, ranges, points)) is not None:
                decided += 1
                assert found == plain.ends(e, ranges, points), (seed, points)
                assert list(map(type, found)) == [int, int, bool]
    assert decided > 400


@needs_core
def test_what_the_pass_in_c_leaves_to_python() -> None:
    decide: Any = storage.plain_ends
    i, j = Var("i"), Var("j")
    ranges = {i: Range(0, 8), j: Range(0, 1 << 80)}
    deep = i
    for k in range(300):
        deep = deep * 2 - k
    for e in (j, i + (1 << 70), i // j, i // -2, Var("k"), deep, abs(i), i * i, object(), None):
        assert decide(e, ranges, 100) is None
    assert decide(i, {}, 100) is decide(i, [], 100) is decide(i, ranges, None) is None
    e = i % 3 - i % 5
    assert decide(e, ranges, 100) == (-3, 2, False) and decide(e, ranges, 7) is None


def test_storage_has_the_same_slots_on_both_builds() -> None:
    assert {"args", "data", "op", *storage.REMEMBERED} <= set(dir(storage.StoredNode)) and len(storage.OPERATIONS) == 14
    assert intset.core == ("python" if storage.is_pure(os.environ) else intset.core) and intset.core in ("c", "python")
    for text, expected in (("", False), ("0", False), ("1", True)):
        assert storage.is_pure({"INTSET_PURE": text}) == expected
    for wrong in ((), (int, intset.ops.ADD, (), None), (intset.Expr, intset.ops.ADD, [], None)):
        with pytest.raises(TypeError):
            storage.intern(*wrong)  # type: ignore[call-overload,unused-ignore]


@pytest.mark.parametrize("number", [30_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_dropped_nodes_leave_nothing(number: int) -> None:
    i, gone = Var("i"), []
    gc.collect()
    before = storage.count()
    many = [(i + 10_000 + k) * (k + 300) for k in range(number)]
    assert storage.count() >= before + 2 * len(many)
    weakref.finalize(many[7], gone.append, 7)
    chain = sum_of(i * (k % 7) for k in range(200_000))
    assert pickle.loads(pickle.dumps(chain)) is chain
    del many, chain
    gc.collect()
    assert storage.count() <= before and gone == [7]


def test_nodes_that_remember_or_make_others_are_collected() -> None:
    i = Var("i")
    gc.collect()
    before = storage.count()
    node = i + 12_345
    node.remember("glance", [node])
    del node
    gc.collect()
    assert storage.count() <= before
    i, kept = Var("i"), []

    class Payload:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            gc.collect(0)
            kept.append(i * 9_999)
            return isinstance(other, int)

    first = storage.intern(intset.Expr, intset.ops.LOAD, (i,), Payload())
    assert first is not storage.intern(intset.Expr, intset.ops.LOAD, (i,), Payload())


# the build


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The core built from a copy of the sources."""
    (folder / "intset").mkdir()
    for name in ("setup.py", "intset/_core.c"):
        shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "out"]
    clean = {name: value for name, value in os.environ.items() if name not in ("INTSET_PURE", "CC")}
    return subprocess.run(
        command, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=120, check=True
    )


@pytest.mark.parametrize(
    "environment",
    [{"CC": "/bin/false"}, {"CC": "no-such-compiler"}, {"CFLAGS": "-DPy_PYTHON_H"}, {"INTSET_PURE": "1"}],
    ids=["failing", "missing", "without headers", "pure"],
)
def test_a_build_without_the_core_ends_well(tmp_path: Path, environment: dict[str, str]) -> None:
    done = build(tmp_path, **environment)
    said = [line for line in done.stderr.splitlines() if "the core in C was left out" in line]
    assert len(said) == 1 and not list(tmp_path.rglob("_core*.so")), done.stderr


@needs_core
def test_the_core_builds_from_its_one_file(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert "left out" not in done.stderr
    (built,) = (tmp_path / "out" / "intset").glob(f"_core*{EXTENSION_SUFFIXES[-1]}")
    lines = (ROOT / "intset" / "_core.c").read_text(encoding="utf-8").splitlines()
    assert built.stat().st_size > 10_000 and len(lines) <= 400


def test_a_core_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Built:
        revision = storage.REVISION + 1

    monkeypatch.setattr(importlib, "import_module", lambda name: Built)
    monkeypatch.delenv("INTSET_PURE", raising=False)
    assert storage._core_in_c() is None
    Built.revision = storage.REVISION
    assert storage._core_in_c() is Built
    monkeypatch.setenv("INTSET_PURE", "1")
    assert storage._core_in_c() is None and Context({Var("i"): Range(0, 2)}).ranges


def test_axes_take_the_plain_way_and_sizes_keep_the_bounds_they_declare() -> None:
    axis, size = IterVar(Range(0, 8), "i"), ShapeVar("n", lower=2, upper=5)
    for var, ends in ((axis, (1, 22)), (size, (7, 16))):
        ctx = Context({var: Range(0, 8)})
        assert ctx.bounds(var * 3 + 1) == ends
        assert (plain.ends(var * 3 + 1, {var: Range(0, 8)}) is None) is (var is size)
