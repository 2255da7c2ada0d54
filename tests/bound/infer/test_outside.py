"""Accesses outside their tensors: counterexamples, refusals, assertions on sizes, random programs against execution."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.infer import BoundsMap, Outside
from intset import IntSetError, Range, UndefinedError
from intset.expr.evaluate import evaluate
from lowering import AccessError, CheckError, Function, lower, run, to_c
from lowering.build.function import nest_of
from lowering.cli import main
from lowering.nest.ir import Allocate, Stmt
from lowering.nest.walk import Visit, children, drive, with_children
from tests.lowering.lowered import c_name, close, compile_c, inputs_of, random_array
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import swept

A = te.placeholder((10,), name="A")
n, m = te.size_var("n"), te.size_var("m")
N = te.placeholder((n,), name="N")
IDX = te.placeholder((10,), name="idx", dtype="int32")


def schedule_of(shape: Any, formula: Any, split: int | None = None) -> Any:
    C = te.compute(shape, formula, name="C")
    s = te.create_schedule(C.op)
    if split is not None:
        s[C].split(C.op.axis[0], split)
    return s


def names(one: Outside) -> dict[str, int]:
    return {str(e): value for e, value in (one.point or {}).items()}


def test_an_access_outside_is_named_with_a_point_and_refused() -> None:
    s = schedule_of((10,), lambda i: A[i + 5])
    (one,) = infer_bound(s).outside
    assert (one.stage.name, one.tensor, str(one.index[0]), one.dim, one.depends) == ("C", A, "i + 5", 0, "always")
    assert names(one)["i"] + 5 >= 10
    with pytest.raises(AccessError, match=r"C reads A\[i \+ 5\] outside its extent 10 at i = "):
        lower(s)
    assert issubclass(AccessError, IntSetError)
    assert "assert" not in str(lower(s, unsafe=True))


@pytest.mark.parametrize("split", [None, 3, 4, 16])
@pytest.mark.parametrize(
    "formula",
    [
        lambda i: A[i],
        lambda i: A[9 - i],
        lambda i: tir.if_then_else(i + 5 < 10, A[i + 5], 0.0),
        lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), A[i + 1] + A[i - 1], 0.0),
        lambda i: tir.if_then_else(tir.any(i < 5, A[i - 5] > 0.0), 1.0, 0.0),
        lambda i: A[te.max(te.min(IDX[i], 9), 0)],
        lambda i: tir.if_then_else(tir.all(IDX[i] >= 0, IDX[i] < 10), A[IDX[i]], 0.0),
        lambda i: A[(i * 7 + 3) % 10],
    ],
)
def test_legal_programs_are_left_alone(formula: Any, split: int | None) -> None:
    s = schedule_of((10,), formula, split)
    assert infer_bound(s).outside == ()
    assert "assert" not in str(lower(s))


@pytest.mark.parametrize(
    ("shape", "formula", "requires"),
    [
        ((n,), lambda i: A[i], "n <= 10"),
        ((n,), lambda i: A[i + 5], "n <= 5"),
        ((m,), lambda i: N[i], "m <= n"),
        ((m,), lambda i: N[i] + N[i + 2], None),
        ((m,), lambda i: tir.if_then_else(i >= 1, N[i - 1], 0.0), "m <= n + 1"),
        ((n, m), lambda i, j: A[i], "(n <= 10) | (m == 0)"),
    ],
)
def test_what_depends_on_sizes_is_asserted(shape: Any, formula: Any, requires: str | None) -> None:
    s = schedule_of(shape, formula)
    found = infer_bound(s).outside
    assert found and all(one.depends == "sizes" for one in found)
    if requires is not None:
        assert str(found[0].requires) in (requires, " | ".join(reversed(requires.split(" | "))))
    text = str(lower(s))
    assert text.count("inside its extent") == 1, text  # what another assertion implies is not asserted


Report = tuple[str, str, dict[str, int]]
REPORTED: list[tuple[str, dict[str, int], Report | None]] = [
    # a program, values of its sizes, and of the only report: its index, what it depends on, its point
    ("C[i:n] = N[i + 1]", {}, ("i + 1", "always", {})),  # at n = 0 nothing is read, at every other size N[n] is
    ("M = given(n * m)\nC[i:n, j:m] = M[i * m + j + 1]", {}, ("i * m + j + 1", "always", {})),
    ("C[i:n] = A[i]", {"n": 10}, None),
    ("C[i:n] = A[i]", {"n": 12}, ("i", "always", {})),
    ("C[i:4] = A[i + m]", {"m": 8}, ("i + m", "always", {"m": 8})),
    ("C[i:10] = A[i - 1]", {}, ("i - 1", "always", {"i": 0})),
    ("C[i:0] = A[i + 100]", {}, None),
    ("r = axis(0, 0)\nC[i:10] = sum_(A[i + r + 100], axis=r)", {}, None),
    # what starts a reduction is read without its loops
    ("r = axis(0, 0)\nC[i:12] = sum_(A[0], axis=r, init=A[i])", {}, ("i", "always", {})),
    ("C[i:8] = A[i] + A[i + 3]", {}, ("i + 3", "always", {})),
]


@pytest.mark.parametrize(("text", "at", "expected"), REPORTED)
def test_the_only_access_outside(
    text: str, at: dict[str, int], expected: tuple[str, str, dict[str, int]] | None
) -> None:
    p = Written(f"n = var(); m = var(); A = given(10); N = given(n)\n{text}\nschedule C")
    b = infer_bound(p.s, at={p.names[name]: value for name, value in at.items()} or None)
    points_are_outside(b)
    found = [(str(one.index[0]), one.depends, names(one)) for one in b.outside]
    if expected is None:
        assert not found
    else:
        ((index, depends, point),) = found
        assert (index, depends) == expected[:2] and point.items() >= expected[2].items()


def test_an_inlined_access_is_that_of_its_consumer() -> None:
    short, long = (f"A = given(10)\nB[i:20] = A[i] * 2.0\nC[i:{length}] = B[i]" for length in (5, 20))
    assert infer_bound(Written(short).s).outside == ()  # B is computed where it is needed
    assert infer_bound(Written(f"{short}\nB compute_inline").s).outside == ()
    assert [one.stage.name for one in infer_bound(Written(f"{long}\nB compute_inline").s).outside] == ["C"]


def test_a_state_of_a_scan_read_before_its_first_row() -> None:
    scan = """
        state = given(8, 3)
        init[_:1, i:3] = tir.const(1.0, "float32")
        update[t:8, i:3] = state[t - {}, i] + 1.0
        scan = te.scan(init, update, state)"""
    assert infer_bound(Written(scan.format(1)).s).outside == ()
    assert [str(one.index[0]) for one in infer_bound(Written(scan.format(2)).s).outside] == ["t - 2"]


# -- data -----------------------------------------------------------------------------------------------------------


def gather(value_range: tuple[int, int] | None, offset: int = 0) -> Any:
    idx = te.placeholder((10,), name="idx", dtype="int32", value_range=value_range)
    return schedule_of((10,), lambda i: A[idx[i] + offset])


def called(f: Function, **arrays: Any) -> int:
    """The status of the compiled function."""
    text = to_c(f)
    function = getattr(ctypes.CDLL(str(compile_c(text))), c_name(text))
    return int(function(*(arrays[t.name].ctypes.data_as(ctypes.c_void_p) for t in f.params)))


@pytest.mark.parametrize("bad", [None, -1, 10, 2**31 - 1, -(2**31)])
def test_data_is_checked_before_the_access(bad: int | None) -> None:
    f = lower(gather(None))
    idx = np.arange(10, dtype="int32")[::-1].copy()
    if bad is not None:
        idx[7] = bad
    a, c = np.arange(10, dtype="float32"), np.zeros(10, "float32")
    if bad is None:
        np.testing.assert_array_equal(run(f, {"A": a, "idx": idx})["C"], a[::-1])
    else:
        with pytest.raises(CheckError, match=r"C reads A\[idx\[i\] \+ 0\] inside A|C reads A\[idx\[i\]\] inside A"):
            run(f, {"A": a, "idx": idx})
    assert called(f, A=a, idx=idx, C=c) == (0 if bad is None else 1)


def test_a_declared_range_proves_it() -> None:
    assert "assert" not in str(lower(gather((0, 9))))
    assert "assert" in str(lower(gather((0, 10))))
    assert "assert" not in str(lower(gather((0, 10)), unsafe=True))
    with pytest.raises(AccessError):  # whatever the data
        lower(gather((0, 9), offset=20))


def test_a_check_asks_only_where_the_access_happens() -> None:
    s = schedule_of((10,), lambda i: tir.if_then_else(A[i] > 0.0, A[IDX[i]], 0.0))
    f = lower(s)
    a, idx = -np.ones(10, "float32"), np.full(10, 99, "int32")
    np.testing.assert_array_equal(run(f, {"A": a, "idx": idx})["C"], np.zeros(10))
    a[3] = 1.0
    with pytest.raises(CheckError):
        run(f, {"A": a, "idx": idx})
    assert called(f, A=a, idx=idx, C=np.zeros(10, "float32")) == 1


def test_an_index_of_an_index() -> None:
    f = lower(schedule_of((10,), lambda i: A[IDX[IDX[i]]], split=4))
    a, idx = np.arange(10, dtype="float32"), np.arange(10, dtype="int32")
    np.testing.assert_array_equal(run(f, {"A": a, "idx": idx})["C"], a)
    idx[2] = 77  # read first: of the two checks the inner one fails
    with pytest.raises(CheckError, match=r"C reads idx\[idx\[i\]\]"):
        run(f, {"A": a, "idx": idx})


def test_a_loop_of_one_iteration_around_a_check() -> None:
    f = lower(schedule_of((10,), lambda i: A[IDX[i]], split=1))
    with pytest.raises(CheckError):
        run(f, {"A": np.zeros(10, "float32"), "idx": np.full(10, -3, "int32")})


def test_the_interpreter_names_every_index() -> None:
    P = te.placeholder((4, 5), name="P")
    f = lower(schedule_of((4,), lambda i: P[i + 4, i + 1]), unsafe=True)
    with pytest.raises(AccessError, match=r"P\[4, 1\] is read outside the storage"):
        run(f, {"P": np.zeros((4, 5), "float32")})


# -- the command line -----------------------------------------------------------------------------------------------

SCRIPT = """
from bound import te
A = te.placeholder((10,), name="A")
n = te.size_var("n")
C = te.compute({shape}, lambda i: A[i + 5], name="C")
s = te.create_schedule(C.op)
"""


def written(path: Path, shape: str) -> str:
    path.write_text(SCRIPT.format(shape=shape), encoding="utf-8")
    return str(path)


def test_the_commands_print_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "outside.py", "(10,)")
    for command in ("bounds", "explain"):
        assert main([command, path]) == 0
        assert "C reads A[i + 5] outside its extent 10 at i = 9" in capsys.readouterr().out
        assert main([command, "--json", path]) == 0
        entry = json.loads(capsys.readouterr().out)["files"][0]["schedules"][0]["outside"][0]
        assert (entry["stage"], entry["tensor"], entry["index"], entry["point"]) == ("C", "A", ["i + 5"], {"i": 9})
    assert main(["lower", path]) == 2
    assert "outside its extent" in capsys.readouterr().err
    assert main(["lower", "--unsafe", path]) == 0
    assert "assert" not in capsys.readouterr().out


def test_the_commands_name_the_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "sized.py", "(n,)")
    assert main(["bounds", path]) == 0
    assert "the function asserts n <= 5" in " ".join(capsys.readouterr().out.split())
    assert main(["lower", path]) == 0
    assert "assert n <= 5" in capsys.readouterr().out


def stored_whole(b: BoundsMap) -> Function:
    """Lower a program without checks, with all tensors stored completely."""
    f = nest_of(b, unsafe=True)

    def visit(stmt: Stmt) -> Visit[Stmt]:
        inner: list[Stmt] = []
        for child in children(stmt):
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        new = with_children(stmt, tuple(inner))
        return (
            Allocate(new.tensor, tuple(Range(0, e) for e in new.tensor.extents)) if isinstance(new, Allocate) else new
        )

    return f.with_body(drive(visit(f.body)))


def leaves_a_tensor(f: Function, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    """Whether a nest makes an access outside a storage."""
    try:
        run(f, arrays, sizes)
    except AccessError:
        return True
    return False


def points_are_outside(b: BoundsMap) -> None:
    """Check that counterexamples leave their tensors."""
    for one in b.outside:
        if one.point is None:
            continue
        values = {v: one.point[v] for e in (one.index[one.dim], one.extent) for v in e.free_vars()}
        loads = {e: k for e, k in one.point.items() if e not in values}
        place = evaluate(one.index[one.dim], {**values, **loads})
        assert not 0 <= place < evaluate(one.extent, values), str(one)


@swept({
    "numbers": (16, 3000, programs(reads="loose", also="caches"), {"refused", "inside"}),
    "sizes": (6, 3000, programs(reads="loose", also="caches", symbolic=True), {"inside", "outside"}),
    "data": (10, 3000, programs(reads="loose", also="caches data"), {"inside", "outside"}),
    "sizes and data": (3, 3000, programs(reads="loose", also="caches data", symbolic=True), {"outside"}),
})  # fmt: skip
def test_accesses_of_random_programs(program: Program) -> set[str]:
    """Execute a program at several sizes and compare accesses with its reports; gives what happened."""
    try:
        b = infer_bound(program.schedule)
        whole, unsafe = stored_whole(b), lower(program.schedule, bounds=b, unsafe=True)
    except ScheduleError:
        return set()
    if program.data is None:
        points_are_outside(b)
    runs = [
        (sizes, {t.name: random_array(t, sizes) % 10 - 2 for t in inputs_of(program.schedule)})
        for sizes in program.choices
    ]
    happens = [leaves_a_tensor(whole, arrays, sizes) for sizes, arrays in runs]
    assert b.outside or not any(happens), f"an access outside was not found in {program}"
    try:
        f = lower(program.schedule, bounds=b)
    except AccessError:
        assert program.variables or program.data is not None or all(happens), f"{program} is refused, and is right"
        return {"refused"}
    seen = set()
    for (sizes, arrays), expected in zip(runs, happens, strict=True):
        try:
            close(run(f, arrays, sizes), run(unsafe, arrays, sizes) if not expected else {})
            failed = False
        except CheckError:
            failed = True
        except UndefinedError:  # a split of an empty axis into a number of parts divides by 0
            with pytest.raises(UndefinedError):
                run(unsafe, arrays, sizes)
            continue
        assert failed == expected, f"at {sizes}: {program}\n{f}\n{b.outside}"
        seen.add("outside" if expected else "inside")
    return seen
