"""`run`: how arrays and sizes are bound, what is refused, functions between processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from intset.errors import InputError, UndefinedError
from lowering import CheckError, lower, parse_nest, run, simplify


def program() -> Any:
    n, m = te.var("n"), te.size_var("m")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m + 2,), name="B")
    c = te.compute((n, m), lambda i, j: a[i, j] + b[j + 2], name="C")
    return lower(te.create_schedule(c.op), [a, b, c])


X, Y = np.ones((3, 4), np.float32), np.arange(6, dtype=np.float32)


def test_outputs_are_written_in_place_or_made() -> None:
    f = program()
    out = np.zeros((3, 4), np.float32)
    result = run(f, {"A": X, "B": Y, "C": out})
    assert result["C"] is out
    np.testing.assert_array_equal(out, X + Y[2:])
    np.testing.assert_array_equal(run(f, {"A": X, "B": Y})["C"], X + Y[2:])
    np.testing.assert_array_equal(run(f, {f.params[0]: X, f.params[1]: Y})["C"], X + Y[2:])
    fortran = np.asfortranarray(np.zeros((3, 4), np.float32))
    run(f, {"A": np.asfortranarray(X), "B": Y[::1], "C": fortran})
    np.testing.assert_array_equal(fortran, X + Y[2:])
    run(f, {"A": X.astype(np.float64), "B": [0.0, 1, 2, 3, 4, 5], "C": out}, checked=False)
    np.testing.assert_array_equal(out, X + Y[2:])


def test_sizes_come_from_shapes() -> None:
    m = te.var("m")
    b = te.placeholder((m * 2 + 1,), name="B")
    c = te.compute((m,), lambda i: b[2 * i + 1], name="C")
    f = lower(te.create_schedule(c.op))
    np.testing.assert_array_equal(run(f, {"B": np.arange(7, dtype=np.float32)})["C"], [1, 3, 5])
    with pytest.raises(InputError, match="the size m is not determined"):
        run(f, {"B": np.arange(6, dtype=np.float32)})
    square = te.placeholder((m * m,), name="S")
    d = te.compute((m,), lambda i: square[i * m], name="D")
    g = lower(te.create_schedule(d.op))
    np.testing.assert_array_equal(run(g, {"S": np.arange(9, dtype=np.float32)})["D"], [0, 3, 6])
    e = te.compute((m,), lambda i: tir.const(1.0, "float32") * i, name="E")
    h = lower(te.create_schedule(e.op))
    np.testing.assert_array_equal(run(h, {}, sizes={"m": 3})["E"], [0, 1, 2])
    np.testing.assert_array_equal(run(h, {}, sizes={m: 2})["E"], [0, 1])
    np.testing.assert_array_equal(run(h, {"E": np.zeros(4, np.float32)})["E"], [0, 1, 2, 3])


def test_what_does_not_fit_is_refused() -> None:
    f = program()
    with pytest.raises(InputError, match="the array for B is missing"):
        run(f, {"A": X})
    with pytest.raises(InputError, match="'D' is no parameter of C: the parameters are A, B, C"):
        run(f, {"A": X, "B": Y, "D": Y})
    with pytest.raises(InputError, match="the array for A has 1 dimensions, not 2"):
        run(f, {"A": Y, "B": Y})
    with pytest.raises(CheckError, match=r"an assertion does not hold: extent 0 of B is m \+ 2"):
        run(f, {"A": X, "B": Y[:5]})
    with pytest.raises(CheckError, match="an assertion does not hold: extent 1 of C is m"):
        run(f, {"A": X, "B": Y, "C": np.zeros((3, 5), np.float32)})
    with pytest.raises(InputError, match="the array for A has the type int64, not float32"):
        run(f, {"A": X.astype(np.int64), "B": Y})
    with pytest.raises(InputError, match="the array for C is written: it must be a numpy array, not a list"):
        run(f, {"A": X, "B": Y, "C": [[0.0] * 4] * 3})
    a = te.placeholder((4,), name="A")
    g = lower(te.create_schedule(te.compute((4,), lambda i: a[i] + 1, name="B").op))
    with pytest.raises(InputError, match="extent 0 of the array for A is 5, not 4"):
        run(g, {"A": Y[:5]})


def test_a_size_among_the_arrays_is_sent_to_the_third_argument() -> None:
    d, x = te.size_var("d"), te.var("x", "float32")
    A = te.placeholder((d,), name="A")
    B = te.compute((d,), lambda i: A[i] * x, name="B")
    f = lower(te.create_schedule(B.op), [A, B, x])
    for key, name in (("d", "d"), (d, "d"), ("x", "x"), (x, "x")):
        with pytest.raises(InputError, match=rf"{name} is no array: B takes .* third argument, as in run\(f, arrays, "):
            run(f, {"A": np.ones(3, np.float32), key: 0})
    assert run(f, {"A": np.ones(3, np.float32)}, {"d": 3, "x": 2})["B"].tolist() == [2.0] * 3


def test_a_division_by_zero_is_reported() -> None:
    a = te.placeholder((4,), "int32", name="A")
    f = lower(te.create_schedule(te.compute((4,), lambda i: 12 // a[i], name="B").op))
    np.testing.assert_array_equal(run(f, {"A": np.array([1, 2, -5, 12], np.int32)})["B"], [12, 6, -3, 1])
    with pytest.raises(UndefinedError, match="B divides an integer by 0"):
        run(f, {"A": np.array([1, 2, 0, 12], np.int32)})


def test_scalar_parameters() -> None:
    n, scale = te.var("n"), te.var("scale", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * scale, name="B")
    f = lower(te.create_schedule(b.op), [n, scale, a, b])
    np.testing.assert_array_equal(run(f, {"A": Y}, sizes={"scale": 0.5})["B"], Y * 0.5)
    with pytest.raises(InputError, match="the scalar scale has no value"):
        run(f, {"A": Y})


def test_empty_arrays() -> None:
    f = program()
    assert run(f, {"A": np.zeros((0, 4), np.float32), "B": Y})["C"].shape == (0, 4)
    assert run(f, {"A": np.zeros((2, 0), np.float32), "B": Y[:2]})["C"].shape == (2, 0)


def test_names_that_are_words_of_python() -> None:
    a, b = te.placeholder((4,), name="lambda"), te.placeholder((4,), name="for")
    s = te.create_schedule(te.compute((4,), lambda i: a[i] + b[i], name="class").op)
    np.testing.assert_array_equal(run(lower(s), {"lambda": Y[:4], "for": Y[:4]})["class"], 2 * Y[:4])


def test_what_was_not_computed_shows() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    f = lower(te.create_schedule(b.op))
    from lowering.nest.ir import Seq

    assert np.isnan(run(f.with_body(Seq()), {"A": Y})["B"]).all()


def test_a_function_is_pickled_with_its_tensors():
    text = """
def f(n, A: int32[n], F: float32[n], B: int32[n]):
    allocate T: int32[n]
    for i in [0, n):
        T[i] = A[i] + 1
    for j in [0, n):
        B[j] = T[j] + int32(F[j])
"""
    f = parse_nest(text)
    again = pickle.loads(pickle.dumps(f))
    assert str(again) == str(f)
    assert list(run(again, {"A": np.arange(3), "F": np.ones(3)})["B"]) == [2, 3, 4]


TEXT = """
def f(A: int32[n], idx: int32[n], x: float32[n], B: int32[n], n):
    for i in [0, n):
        B[i] = A[idx[i]] + int32(x[i] * 2.0)
    for i in [0, n):
        if A[i] > 3:
            B[i] = B[i] * undef() * 0 + B[i]
"""


def test_elements_and_functions_of_data_are_those_of_the_pickled_tensors() -> None:
    f = parse_nest(TEXT)
    g = pickle.loads(pickle.dumps(f))
    assert str(g) == str(f)
    given = {
        "A": np.arange(5, dtype="int32"),
        "idx": np.array([4, 0, 3, 1, 2], "int32"),
        "x": np.linspace(0, 2, 5, dtype="float32"),
    }
    assert run(g, given)["B"].tolist() == run(f, given)["B"].tolist()
    assert run(simplify(g), given)["B"].tolist() == run(f, given)["B"].tolist()


@pytest.mark.nightly
def test_another_process_reads_what_was_pickled() -> None:
    code = (
        "import pickle, sys, numpy as np\n"
        "from lowering import run\n"
        "f = pickle.load(sys.stdin.buffer)\n"
        "print(f); print(run(f, {'A': np.arange(3, dtype='int32'), 'idx': np.zeros(3, 'int32'),"
        " 'x': np.ones(3, 'float32')})['B'].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(parse_nest(TEXT)), capture_output=True)
    assert done.stdout.decode() == f"{parse_nest(TEXT)}\n[2, 2, 2]\n", done.stderr.decode()
