"""The optional core in C: answers, texts, pickles and errors of Python's storage, and a build that may fail."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

import pytest

import intset
from intset import Context, Range, Var, sum_of
from intset import plain as plain_way
from intset.expr import storage
from tests.intset.test_plain import drawn
from tests.sweeps import daily

ROOT = Path(__file__).parents[2]
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
    environment = {**os.environ, "INTSET_PURE": str(int(pure_build)), "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-c", TRANSCRIPT, str(first), str(count)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


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
    monkeypatch.setattr(plain_way, "plain_ends", None)
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
        for points in (0, 50, plain_way.MOST_POINTS):
            if (found := decide(e, ranges, points)) is not None:
                decided += 1
                assert found == plain_way.ends(e, ranges, points), (seed, points)
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
    for given in ((), (int, intset.ops.ADD, (), None), (intset.Expr, intset.ops.ADD, [], None)):
        with pytest.raises(TypeError):
            storage.intern(*given)  # type: ignore[call-overload,unused-ignore]


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


def test_nodes_that_remember_themselves_are_collected() -> None:
    i = Var("i")
    gc.collect()
    before = storage.count()
    node = i + 12_345
    node.remember("glance", [node])
    del node
    gc.collect()
    assert storage.count() <= before


def test_a_payload_whose_comparison_makes_nodes() -> None:
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
