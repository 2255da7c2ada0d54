"""What a nest evaluates in any case has a value: ends, extents and names that divide by a size of 0."""

from __future__ import annotations

import numpy as np
import pytest

from intset.errors import UndefinedError
from lowering import parse_nest, run
from lowering.passes.definedness import with_total_ends

NESTS = {
    "an end": "for i in [0, 12 // n):\n    A[i] = A[i] + 1",
    "an inner end": "for i in [0, 3):\n    for j in [0, i + 4 // n):\n        A[i] = A[i] + j",
    "an end of two sizes": "for i in [0, 24 // (n * m)):\n    A[i % 12] = A[i % 12] + 1",
    "a first iteration": "for i in [6 // n, 12 // m):\n    A[i] = 7",
    "a condition": "if 8 // n > 3:\n    A[0] = 5",
    "a name": "for i in [0, 3):\n    q = 8 // n\n    for j in [0, n):\n        A[i] = A[i] + q",
    "an extent": "allocate T: int32[12 // n]\nfor i in [0, n):\n    T[0] = i\n    A[i] = T[0] + 1",
}


@pytest.mark.parametrize("name", NESTS)
def test_what_divides_by_a_size_of_0_is_not_evaluated(name: str) -> None:
    body = "\n".join("    " + line for line in NESTS[name].split("\n"))
    f = parse_nest(f"def f(A: int32[12], n, m):\n    assert n >= 0\n    assert m >= 0\n{body}\n")
    total = with_total_ends(f)
    start = np.arange(12, dtype=np.int32)
    undefined = 0
    for n in range(5):
        for m in range(5):
            sizes = {"n": n, "m": m}
            result = run(total, {"A": start}, sizes)["A"]
            try:
                expected = run(f, {"A": start}, sizes)["A"]
            except UndefinedError:
                undefined += 1
                expected = start
            np.testing.assert_array_equal(result, expected)
    assert undefined >= 5
    assert str(with_total_ends(total)) == str(total)


def test_what_is_known_to_have_a_value_stays() -> None:
    f = parse_nest(
        "def f(A: int32[12], n, m):\n    assert n >= 1\n    for i in [0, 12 // n):\n        A[i] = 1\n"
        "    for j in [0, m):\n        if m <= 12:\n            for k in [0, 12 // m):\n                A[k] = 2\n"
    )
    assert with_total_ends(f) == f or str(with_total_ends(f)) == str(f)
