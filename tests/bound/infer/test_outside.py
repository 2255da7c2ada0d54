"""Accesses and their conditions; those outside tensors: counterexamples, refusals, assertions, random programs."""

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
from bound.infer.accesses import accesses
from intset import IntSetError, Range, UndefinedError
from intset.expr.dag import opaque_terms
from intset.expr.evaluate import evaluate
from lowering import AccessError, CheckError, Function, lower, run, to_c
from lowering.build.function import nest_of
from lowering.cli import main
from lowering.nest.ir import Allocate, Stmt
from lowering.nest.walk import Visit, children, drive, with_children
from tests.bound.infer.test_corpus import TENSORIZED
from tests.lowering.lowered import close, compile_c, inputs_of, random_array, status
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import swept


def written(text: str) -> Written:
    """A program over tensors of ten elements, of n elements, and of indices."""
    given = "A = given(10); N = given(n); I = given(10, dtype='int32')"
    text += "" if "schedule" in text else "\nschedule C"
    return Written(f"{given}\n{text}", n=te.size_var("n"), m=te.size_var("m"))


def names(one: Outside) -> dict[str, int]:
    return {str(e): value for e, value in (one.point or {}).items()}


def test_an_access_outside_is_named_with_a_point_and_refused() -> None:
    p = written("C[i:10] = A[i + 5]")
    (one,) = infer_bound(p.s).outside
    assert (one.stage.name, one.tensor, str(one.index[0]), one.dim, one.depends) == ("C", p.A, "i + 5", 0, "always")
    assert names(one)["i"] + 5 >= 10
    with pytest.raises(AccessError, match=r"C reads A\[i \+ 5\] outside its extent 10 at i = "):
        lower(p.s)
    assert issubclass(AccessError, IntSetError)
    assert "assert" not in str(lower(p.s, unsafe=True))
    f = lower(Written("P = given(4, 5)\nC[i:4] = P[i + 4, i + 1]").s, unsafe=True)
    with pytest.raises(AccessError, match=r"P\[4, 1\] is read outside the storage"):
        run(f, {"P": np.zeros((4, 5), "float32")})


LEGAL = (
    "A[i]", "A[9 - i]", "where(i + 5 < 10, A[i + 5], 0.0)", "A[(i * 7 + 3) % 10]", "A[te.max(te.min(I[i], 9), 0)]",
    "where(tir.all(i >= 1, i < 9), A[i + 1] + A[i - 1], 0.0)",
    "where(tir.any(i < 5, A[i - 5] > 0.0), 1.0, 0.0)",
    "where(tir.all(I[i] >= 0, I[i] < 10), A[I[i]], 0.0)",
)  # fmt: skip


@pytest.mark.parametrize("calls", ["", "C split i 3", "C split i 4", "C split i 16"])
@pytest.mark.parametrize("read", LEGAL)
def test_legal_programs_are_left_alone(read: str, calls: str) -> None:
    p = written(f"C[i:10] = {read}").then(calls)
    assert infer_bound(p.s).outside == ()
    assert "assert" not in str(lower(p.s))


@pytest.mark.parametrize(
    ("text", "requires"),
    [
        ("C[i:n] = A[i]", "n <= 10"),
        ("C[i:n] = A[i + 5]", "n <= 5"),
        ("C[i:m] = N[i]", "m <= n"),
        ("C[i:m] = N[i] + N[i + 2]", None),
        ("C[i:m] = where(i >= 1, N[i - 1], 0.0)", "m <= n + 1"),
        ("C[i:n, j:m] = A[i]", "(n <= 10) | (m == 0)"),
    ],
)
def test_what_depends_on_sizes_is_asserted(text: str, requires: str | None) -> None:
    s = written(text).s
    found = infer_bound(s).outside
    assert found and all(one.depends == "sizes" for one in found)
    if requires is not None:
        assert str(found[0].requires) in (requires, " | ".join(reversed(requires.split(" | "))))
    assert str(lower(s)).count("inside its extent") == 1  # what another assertion implies is not asserted


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
    # B is computed where it is needed, and an access of what is inlined is its consumer's
    ("B[i:20] = A[i] * 2.0\nC[i:5] = B[i]", {}, None),
    ("B[i:20] = A[i] * 2.0\nC[i:5] = B[i]\nschedule C\nB compute_inline", {}, None),
    ("B[i:20] = A[i] * 2.0\nC[i:20] = B[i]\nschedule C\nB compute_inline", {}, ("i", "always", {})),
]


@pytest.mark.parametrize(("text", "at", "expected"), REPORTED)
def test_the_only_access_outside(text: str, at: dict[str, int], expected: Report | None) -> None:
    p = written(text)
    b = infer_bound(p.s, at={p.names[name]: value for name, value in at.items()} or None)
    points_are_outside(b)
    found = [(str(one.index[0]), one.depends, names(one)) for one in b.outside]
    if expected is None:
        assert not found
    else:
        ((index, depends, point),) = found
        assert (index, depends) == expected[:2] and point.items() >= expected[2].items()
        assert b.outside[0].stage.name == "C"


# -- data -----------------------------------------------------------------------------------------------------------


ALL, COUNTED = np.arange(10, dtype="float32"), np.arange(10, dtype="int32")
ONE = np.where(COUNTED == 3, ALL, -1).astype("float32")
ON_DATA: list[tuple[str, Any, list[int], str | None]] = [  # a read, A, the indices, and the check that fails
    ("A[I[i]]", ALL, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0], None),
    *(
        ("A[I[i]]", ALL, [*range(7), bad, 8, 9], r"C reads A\[I\[i\]\] inside A")
        for bad in (-1, 10, 2**31 - 1, -(2**31))
    ),
    # it is asked only where the access happens
    ("where(A[i] > 0.0, A[I[i]], 0.0)", -ALL - 1, [99] * 10, None),
    ("where(A[i] > 0.0, A[I[i]], 0.0)", ONE, [99] * 10, r"C reads A\[I\[i\]\]"),
    ("A[I[I[i]]]", ALL, [*range(10)], None),
    ("A[I[I[i]]]", ALL, [0, 1, 77, *range(3, 10)], r"C reads I\[I\[i\]\]"),  # read first
]


@pytest.mark.parametrize("calls", ["", "C split i 4", "C split i 1"])
@pytest.mark.parametrize(("read", "a", "at", "message"), ON_DATA)
def test_data_is_checked_before_the_access(read: str, a: Any, at: list[int], message: str | None, calls: str) -> None:
    f = lower(written(f"C[i:10] = {read}").then(calls).s)
    given = {"A": a, "I": np.array(at, "int32")}
    if message is None:
        found = run(f, given)["C"]
        np.testing.assert_array_equal(found, a[given["I"]] if "where" not in read else 0 * a)
    else:
        with pytest.raises(CheckError, match=message):
            run(f, given)
    if not calls:
        library = ctypes.CDLL(str(compile_c(text := to_c(f))))
        assert status(f, text, library, given | {"C": np.zeros(10, "float32")}) == (message is not None)


def test_declared_ranges_and_rows_of_scans_prove_accesses() -> None:
    def gather(last: int, offset: int = 0) -> Any:
        text = f"A = given(10); J = given(10, dtype='int32', value_range=(0, {last}))"
        return Written(f"{text}\nC[i:10] = A[J[i] + {offset}]").s

    assert "assert" not in str(lower(gather(9)))
    assert "assert" in str(lower(gather(10)))
    assert "assert" not in str(lower(gather(10), unsafe=True))
    with pytest.raises(AccessError):  # whatever the data
        lower(gather(9, offset=20))
    scan = """
        state = given(8, 3)
        init[_:1, i:3] = tir.const(1.0, "float32")
        update[t:8, i:3] = state[t - {}, i] + 1.0
        scan = te.scan(init, update, state)"""
    assert infer_bound(Written(scan.format(1)).s).outside == ()
    assert [str(one.index[0]) for one in infer_bound(Written(scan.format(2)).s).outside] == ["t - 2"]


# -- the command line -----------------------------------------------------------------------------------------------

SCRIPT = """
from bound import te
A = te.placeholder((10,), name="A")
n = te.size_var("n")
C = te.compute({shape}, lambda i: A[i + 5], name="C")
s = te.create_schedule(C.op)
"""


def test_the_commands_print_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, sized = str(tmp_path / "outside.py"), str(tmp_path / "sized.py")
    Path(path).write_text(SCRIPT.format(shape="(10,)"), encoding="utf-8")
    Path(sized).write_text(SCRIPT.format(shape="(n,)"), encoding="utf-8")
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
    assert main(["bounds", sized]) == 0
    assert "the function asserts n <= 5" in " ".join(capsys.readouterr().out.split())
    assert main(["lower", sized]) == 0
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
    "numbers": (6, 3000, programs(reads="loose", also="caches"), {"refused", "inside"}),
    "sizes": (4, 3000, programs(reads="loose", also="caches", symbolic=True), {"inside", "outside"}),
    "data": (4, 3000, programs(reads="loose", also="caches data"), {"inside", "outside"}),
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


# -- accesses with their conditions ------------------------------------------------------------------------------------


A = te.placeholder((20,), name="A")
IDX = te.placeholder((20,), "int32", name="IDX", value_range=(-3, 30))


def of(formula: Any, n: int = 16) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    op = te.compute((n,), formula, name="C").op
    return [(a.tensor.name, tuple(map(str, a.indices)), tuple(map(str, a.conditions))) for a in accesses(op)]


def test_reads_have_the_conditions_under_which_they_happen() -> None:
    assert of(lambda i: A[i] + A[i + 1] + A[i]) == [("A", ("i",), ()), ("A", ("i + 1",), ())]
    assert of(lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), A[i - 1], A[i + 2])) == [
        ("A", ("i - 1",), ("i >= 1", "i < 9")),
        ("A", ("i + 2",), ("~((i >= 1) & (i < 9))",)),
    ]
    nested = of(lambda i: tir.Select(i < 8, tir.Select(i > 2, A[i], 0.0), A[i + 4]))
    assert nested == [("A", ("i",), ("i < 8", "i > 2")), ("A", ("i + 4",), ("~(i < 8)",))]
    both = of(lambda i: tir.Select(i < 3, A[i], 0.0) + tir.Select(i > 9, A[i], 0.0))
    assert sorted(both) == [("A", ("i",), ("i < 3",)), ("A", ("i",), ("i > 9",))]
    always = of(lambda i: tir.Select(i < 3, A[i], 0.0) + A[i])
    assert always == [("A", ("i",), ())]
    many = of(lambda i: sum((tir.Select(tir.all(i < 15, i >= k), A[i], 0.0) for k in range(9)), A[0]))
    assert many == [("A", ("0",), ()), ("A", ("i",), ("i < 15",))]
    mixed = of(lambda i: tir.Select(tir.all(i < 3, A[i] > 0), A[i + 1], A[i + 2]))
    assert mixed == [("A", ("i",), ("i < 3",)), ("A", ("i + 1",), ("i < 3",)), ("A", ("i + 2",), ())]
    by_index = of(lambda i: tir.if_then_else(IDX[i] < 4, A[IDX[i]], 0.0))
    assert by_index == [("IDX", ("i",), ()), ("A", ("IDX[i]",), ("IDX[i] < 4",))]


def test_reads_of_reductions_of_data_and_of_regions() -> None:
    k = te.reduce_axis((0, 12), "k")
    assert of(lambda i: te.sum(A[k], axis=k, where=k <= i)) == [("A", ("k",), ("k <= i",))]
    op = te.compute((16,), lambda i: A[i + tir.indexmod(IDX[i], 4)], name="C").op
    last = accesses(op)[-1]
    assert opaque_terms(*last.indices)
    assert [str(c) for c in last.inside()] == ["i + IDX[i] % 4 >= 0", "i + IDX[i] % 4 < 20"]
    through = te.compute((16,), lambda i: A[(A[i] * 3).astype("int32")], name="C").op
    assert len(accesses(through)) == 2 and str(accesses(through)[0].indices[0]) == "i"
    e = te.extern((20,), [A], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    (whole,) = accesses(e.op)
    assert whole.tensor is A and whole.indices == (whole.extra[0][0],) and int(whole.extra[0][1].extent) == 20
    (region,) = accesses(Written(f"{TENSORIZED}\nschedule C").C.op)
    assert str(region.indices[0]) == "i + B.d0" and [int(r.extent) for _, r in region.extra] == [3, 20]
