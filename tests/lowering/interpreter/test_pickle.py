"""Functions between processes: what is pickled runs as before."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from lowering import parse_nest, run, simplify

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
