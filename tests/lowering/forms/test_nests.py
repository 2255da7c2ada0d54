"""Several nests for one stage: they compute what the guarded nest does, each element once, and are chosen by cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bound import infer_bound, tir
from bound.errors import InputError
from bound.infer import BoundsMap, StageNest
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.expr.node import Var
from lowering import Function, lower
from lowering.cli import app
from tests.bound.oracle import Run, value
from tests.lowering.lowered import check, check_c
from tests.strategies.schedules import Program, programs, reading
from tests.strategies.written import Written
from tests.sweeps import swept


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


# -- what it looks like -----------------------------------------------------------------------------------------------

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
    "triangle": (
        lambda: reading((40, 40), lambda T, i, j: tir.if_then_else(i >= j, T[i, j], 0.0)),
        {},
        """\
allocate T: float32[40, 40]
for i0 in [0, 40):
    for i1 in [0, i0 + 1):
        T[i0, i1] = A[i0, i1] + 1.0""",
    ),
    "stride": (
        lambda: reading((10,), lambda T, i: T[3 * i + 1] + T[3 * i + 7], (40,), 5),
        {},
        """\
allocate T: float32[19] at [i0.outer * 15 + 1]
for i0 in [0, 7):
    T[i0 * 3] = A[i0.outer * 15 + i0 * 3 + 1] + 1.0""",
    ),
    "stride, compact": (
        lambda: reading((10,), lambda T, i: T[3 * i + 1] + T[3 * i + 7], (40,), 5),
        {"compact": True},
        """\
allocate T: float32[7] holding T[i0.outer * 15 + 1 + y0 * 3]
for i0 in [0, 7):
    T[i0] = A[i0.outer * 15 + i0 * 3 + 1] + 1.0""",
    ),
    "diagonal, compact": (
        lambda: reading((10,), lambda T, i: T[i, i]),
        {"compact": True},
        """\
allocate T: float32[10, 1] holding T[y0, y0]
for i0 in [0, 10):
    T[i0, 0] = A[i0, i0] + 1.0""",
    ),
    "skewed tile": (
        lambda: reading((8, 10), lambda T, i, j: T[i + j, i - j + 9], at=4),
        {},
        """\
allocate T: float32[13, 13] at [i0.outer * 4, i0.outer * 4]
for i0 in [0, 4):
    i0.base = i0.outer * 4 + i0
    for i1 in [0, 10):
        T[i0 - i1 + 9, i0 + i1] = A[i0.base - i1 + 9, i0.base + i1] + 1.0""",
    ),
    "every third twice": (
        lambda: reading((4, 2), lambda T, i, j: T[3 * i + j], (40,)),
        {},
        """\
allocate T: float32[11]
for i0 in [0, 4):
    T[i0 * 3] = A[i0 * 3] + 1.0
for i0 in [0, 4):
    T[i0 * 3 + 1] = A[i0 * 3 + 1] + 1.0""",
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
    "far slices": (
        lambda: reading((3,), lambda T, i: T[i] + T[i + 30], (40,)),
        {},
        """\
allocate T: float32[33]
for i0 in [0, 3):
    T[i0] = A[i0] + 1.0
for i0 in [0, 3):
    T[i0 + 30] = A[i0 + 30] + 1.0""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_nests(name: str) -> None:
    made, options, text = TEXTS[name]
    s, _ = made()
    f = check(s, **options)
    assert body(f) == text
    check_c(f, s)


def test_two_boxes_compute_eight_elements() -> None:
    s, T = two_boxes()
    b = infer_bound(s)
    assert b.computed(T).count() == 8
    found = b.pieces(T, 8)
    assert found is not None
    assert [sum(1 for _ in points_of(piece.nest, {})) for piece in found] == [4, 4]
    assert b.pieces(T, 1) is None


def test_the_choice_can_be_forced() -> None:
    s, _ = two_boxes()
    assert "if " in body(check(s, nests="guard"))
    assert body(check(s, nests="split")) == body(check(s, nests="auto")) == body(lower(s))
    with pytest.raises(InputError, match="nests must be one of auto, guard, ends, split, partition, not"):
        lower(s, nests="many")


# -- where it is allowed ----------------------------------------------------------------------------------------------


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
    "A = given(20)\nTU[i:20] = (A[i] + 1.0, A[i] * 2.0)\nT, U = TU\nC[i:3] = T[i] + U[i + 12]": 2,
}


@pytest.mark.parametrize("text", PIECES)
def test_pieces(text: str) -> None:
    p = Written(text)
    check(p.s, nests="split")
    found = infer_bound(p.s).pieces(p.T, 8)
    assert (0 if found is None else len(found)) == PIECES[text]


def test_a_box_has_no_pieces() -> None:
    s, T = reading((10,), lambda T, i: T[i] + T[i + 1], (40,))
    assert infer_bound(s).pieces(T, 8) is None
    s, T = two_boxes()
    assert infer_bound(s, compute="box").pieces(T, 8) is None


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


# -- random programs --------------------------------------------------------------------------------------------------


def points_of(nest: StageNest, env: Mapping[Var, int]) -> Iterator[tuple[int, ...]]:
    """Enumerate the elements that one instance of a nest computes, with repetitions."""
    axes = nest.stage.op.axis

    def run(depth: int, here: dict[Var, int]) -> Iterator[tuple[int, ...]]:
        if depth == len(nest.loops):
            if all(value(guard, here) for guard in nest.guards):
                yield tuple(value(nest.values[iv], here) for iv in axes)
            return
        loop = nest.loops[depth]
        first, count = value(loop.range.min, here), value(loop.range.extent, here)
        for k in range(first, first + max(count, 0)):
            yield from run(depth + 1, {**here, loop.iv: k})

    yield from run(0, dict(env))


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
    "strided": (8, 2000, programs(reads="lattice"), {True}),
    "strided, of symbolic sizes": (2, 1000, programs(reads="lattice", symbolic=True)),
    "of all kinds": (14, 3000, programs(also="caches others", most=4), {True}),
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


@swept({"": (0, 300, programs(reads="lattice"))})
def test_strided_programs_in_c(program: Program) -> None:
    folded = program.inferred(compact=True)
    if folded is not None:
        check_c(lower(program.schedule, bounds=folded, nests="split"), program.schedule)
