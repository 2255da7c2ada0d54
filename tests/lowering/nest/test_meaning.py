"""What nests mean where values are unknown or missing: `undef()`, `assume`, unwritten storage, types of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intset import InputError
from lowering import AccessError, CheckError, parse_nest, run, to_c
from tests.lowering.lowered import compile_c

ARRAY = np.arange(4, dtype="int32")


def ran(body: str, head: str = "A: int32[4], B: int32[4]", **options: Any) -> dict[str, list[Any]]:
    f = parse_nest(f"def f({head}):\n" + "\n".join(f"    {line}" for line in body.split("\n")))
    given = {"A": ARRAY, **options.pop("given", {})}
    results = run(f, given, undef=lambda dtype: 7, **options)
    return {name: array.tolist() for name, array in results.items()}


ERRORS = {
    "an output that holds nothing": ("B[0] = B[1]", AccessError, r"B\[1\] is read before it is written"),
    "storage": ("allocate T: int32[2]\nT[0] = 1\nB[0] = T[1]", AccessError, r"T\[1\] is read before"),
    "storage of each iteration": (
        "for i in [0, 2):\n    allocate T: int32[1]\n    if i < 1:\n        T[0] = 1\n    B[i] = T[0]",
        AccessError,
        r"T\[0\] is read before",
    ),
    "a condition": ("B[0] = undef()\nif B[0] < 3:\n    B[1] = 1", CheckError, "a condition depends on an undef"),
    "a choice": ("B[0] = undef()\nB[1] = select(B[0] < 3, 1, 2)", CheckError, "a condition depends"),
    "an assumption": ("B[0] = undef() * 0\nassume B[0] == 0", CheckError, "a condition depends"),
    "an index": ("B[0] = undef()\nB[A[0] + B[0]] = 1", CheckError, "an index, or the end of a range"),
    "an index that is read": ("B[0] = undef()\nB[1] = A[B[0]]", CheckError, "an index, or the end of a range"),
    "a range": ("B[0] = undef()\nfor i in [0, B[0]):\n    B[1] = 1", CheckError, "an index, or the end of a range"),
    "a false assumption": ("B[0] = 1\nassume A[1] == 0", CheckError, r"an assumption does not hold: A\[1\] == 0"),
    "an access outside": ("B[4] = 1", AccessError, "written outside"),
    "an access outside what is tracked": ("B[0] = 1\nB[1] = B[0 - 1]", AccessError, r"B\[-1\] is read outside"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_of_the_program(what: str) -> None:
    body, error, message = ERRORS[what]
    with pytest.raises(error, match=message):
        ran(body)


def test_a_value_made_of_undef_is_readable_and_unknown() -> None:
    assert ran("B[0] = undef()\nB[1] = B[0] - B[0]\nB[2] = B[1] + undef() * 0") == {"B": [7, 0, 0, -2147483625]}


def test_a_choice_counts_the_branch_taken() -> None:
    assert ran("B[0] = undef()\nB[1] = select(A[0] == 0, A[1], B[0])\nif B[1] < 3:\n    B[2] = 5")["B"][1:3] == [1, 5]


def test_an_undef_that_is_overwritten_is_gone() -> None:
    assert ran("B[0] = undef()\nB[0] = 3\nif B[0] == 3:\n    B[1] = 1")["B"][:2] == [3, 1]


def test_truth_values_are_unknown_too() -> None:
    head = "A: int32[4], C: bool[3]"
    assert ran("C[0] = undef() < 9\nC[1] = not C[0] or A[0] == 1\nC[2] = C[0] and A[0] == 0", head)["C"] == [
        True,
        False,
        True,
    ]
    with pytest.raises(CheckError, match="a condition depends"):
        ran("C[0] = undef() < 9\nC[1] = A[0] == 0 and C[0]\nif C[1]:\n    C[2] = C[1]", head)


def test_an_assumption_of_undef_lets_read() -> None:
    body = "allocate T: int32[4]\nfor i in [0, 4):\n    assume i < 2 or T[i] == undef()\nB[0] = T[3] * 0"
    assert ran(body)["B"][0] in (0, -0)
    with pytest.raises(AccessError, match=r"T\[1\] is read before"):
        ran(body.replace("T[3]", "T[1]"))


def test_parameters_hold_what_they_were_given() -> None:
    assert ran("B[0] = B[1] + 1", given={"B": np.full(4, 5, "int32")}) == {"B": [6, 5, 5, 5]}


def test_a_host_call_writes_what_it_names() -> None:
    def host(a: Any, b: Any, k: int) -> None:
        b[:] = a * k

    body = "allocate T: int32[4]\nfor i in [0, 1):\n    fill(A, T, i + 2)\nB[1] = T[1]"
    assert ran(body, functions={"fill": host})["B"][1] == 2


def test_elements_hold_what_their_type_holds() -> None:
    body = (
        "B[0] = 300\nB[1] = A[3] * 100\nC[0] = 300\nC[1] = A[3] + 255\nF[0] = 0.1\nF[1] = select(F[0] == 0.1, 1.0, 2.0)"
    )
    found = ran(body, "A: int32[4], B: int8[2], C: uint8[2], F: float32[2]")
    assert found == {"B": [44, 44], "C": [44, 2], "F": [np.float32(0.1), 1.0]}


def test_arrays_of_one_size_have_one_shape() -> None:
    with pytest.raises(InputError, match="extent 0 of the array for B is 5, not 4"):
        ran("B[0] = 1", "A: int32[n], B: int32[n], n", given={"B": np.zeros(5, "int32")})


def test_c_takes_any_value() -> None:
    text = (
        "def f(A: int32[4], B: float32[4], C: bool[2], D: int8[2]):\n"
        "    allocate T: int32[2]\n    for i in [0, 4):\n        assume T[0] == undef()\n        B[i] = undef() + 1.0\n"
        "    C[0] = undef()\n    D[0] = undef() - A[0]\n    D[1] = 300\n    assume A[0] == 3\n"
    )
    code = to_c(parse_nest(text))
    compile_c(code)
    assert "T" not in code.split("{")[1] and "= 44" in code
