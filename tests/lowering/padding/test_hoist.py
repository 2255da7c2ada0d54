"""`hoist_layouts` moves pads and crops out of functions."""

from __future__ import annotations

import doctest
import pickle
from typing import Any

import numpy as np
import pytest

import lowering.padding.hoist
from lowering import (
    UNDEF,
    UNTOUCHED,
    Function,
    LayoutError,
    cache_read,
    cache_write,
    contract,
    hoist_layouts,
    parse_nest,
    remove_branching_through_overcompute,
    run,
    sequential_buffer_access,
    transform_layout,
)

GRID = "    for io in [0, 4):\n        for ii in [0, 4):\n"
HEAD = "def addone(A: int32[14], B: int32[14]):\n"
PAD = "    allocate AC: int32[4, 4]\n" + GRID
ONLY_VALID = PAD + "            if 4 * io + ii < 14:\n                AC[io, ii] = A[4 * io + ii]\n"
ZEROS = PAD + "            AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], 0)\n"
ANYTHING = PAD + "            AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], undef())\n"
PART = "    allocate BC: int32[4, 4]\n    for i in [0, 14):\n        BC[i // 4, i % 4] = AC[i // 4, i % 4] + 1\n"
WHOLE = "    allocate BC: int32[4, 4]\n" + GRID + "            BC[io, ii] = AC[io, ii] + 1\n"
FORGET = GRID + "            if 4 * io + ii >= 14:\n                BC[io, ii] = undef()\n"
CROP = "    for i in [0, 14):\n        B[i] = BC[i // 4, i % 4]"
A = np.arange(14, dtype="int32")


@pytest.mark.parametrize(
    ("lines", "pad", "needs", "gives", "promise"),
    [
        (ONLY_VALID + PART, None, "NOTHING", "UNTOUCHED", UNTOUCHED),
        (ZEROS + PART, 0, "NOTHING", "UNTOUCHED", UNTOUCHED),
        (ANYTHING + WHOLE, UNDEF, "READABLE", "AC + 1", UNDEF),
        (ZEROS + WHOLE, 0, "READABLE", "AC + 1", 1),
        (ZEROS + WHOLE + FORGET, 0, "READABLE", "UNDEF", UNDEF),
    ],
)
def test_the_functions_of_the_discussion(lines: str, pad: Any, needs: str, gives: str, promise: Any) -> None:
    h = hoist_layouts(parse_nest(HEAD + lines + CROP))
    ((a, m, value),) = h.pads
    ((b, k, promised),) = h.crops
    assert (a, b, value, promised) == ("A", "B", pad, promise) and m(13) == k(13) == (3, 1) and m.new_shape == (4, 4)
    c = contract(h.packed)
    assert (str(c.needs["AC"]), str(c.gives["BC"])) == (needs, gives)
    assert [t.name for t in h.packed.params] == ["AC", "BC"] and list(h.packed.layouts) == ["AC", "BC"]
    b_array = np.zeros(14, "int32")
    for one in (h, pickle.loads(pickle.dumps(h))):
        assert one.run({"A": A, "B": b_array}, undef=lambda dtype: 77)["B"] is b_array
        assert b_array.tolist() == [*range(1, 15)]
    assert one.run({"A": A})["B"].tolist() == [*range(1, 15)]


def test_a_function_without_copies_stays() -> None:
    f = parse_nest(HEAD + "    for i in [0, 14):\n        B[i] = A[i] + 1")
    h = hoist_layouts(f)
    assert (h.pads, h.crops, h.packed) == ((), (), f) and h.run({"A": A})["B"].tolist() == [*range(1, 15)]


def built(text: str, *layouts: tuple[str, Any, Any]) -> Function:
    """Build a function with layout copies at entry and exit."""
    f = parse_nest(text)
    for t in f.params:
        f = (cache_write if t in f.outputs else cache_read)(f, t.name)
    for name, m, value in layouts:
        f = transform_layout(f, name, m, value)
    return f


TOTAL = "def total(A: int32[14], B: int32[1]):\n    B[0] = 0\n    for i in [0, 14):\n        B[0] = B[0] + A[i]"


def test_a_result_that_depends_on_what_a_pad_puts_there_assumes_it() -> None:
    f = built(TOTAL, ("AC", lambda i: [i // 4, i % 4], 0))
    bare = hoist_layouts(f)
    assert "assume" not in str(bare.packed) and str(contract(bare.packed).needs["AC"]) == "NOTHING"
    dropped = remove_branching_through_overcompute(sequential_buffer_access(f, "AC"))
    assert "BC[0] = AC[ac0, ac1] + BC[0]" in str(dropped) or "BC[0] = BC[0] + AC[ac0, ac1]" in str(dropped)
    assert str(contract(hoist_layouts(dropped).packed).needs["AC"]) == "0"
    text = """def total(A: int32[14], B: int32[1]):
    allocate AC: int32[4, 4]
    for io in [0, 4):
        for ii in [0, 4):
            AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], 0)
    B[0] = 0
    for io in [0, 4):
        for ii in [0, 4):
            B[0] = B[0] + AC[io, ii]"""
    h = hoist_layouts(parse_nest(text))
    assert str(contract(h.packed).needs["AC"]) == "0" and "AC[ac0, ac1] == 0)" in str(h.packed)
    assert h.run({"A": A})["B"] == [91] and h.crops == ()
    bad = hoist_layouts(parse_nest(text.replace("AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], 0)", "pass")))
    assert bad.pads == ()


STARTED = "    allocate AC: int32[4, 4]\n    AC[0, 0] = A[0]\n    B[0] = AC[0, 0]\n"


@pytest.mark.parametrize(
    "lines",
    [
        STARTED + ZEROS.split("\n", 1)[1] + PART,  # read during the copy
        ZEROS.replace("< 14", "< 13") + PART,  # not all of it
        ZEROS.replace("ii], 0", "ii] + 1, 0") + PART,  # more than a copy
        ZEROS + "    AC[3, 2] = undef()\n" + PART,  # mixed padding
        ZEROS + "    AC[0, 0] = 3\n" + PART,  # another store
        "    B[0] = 0\n" + ZEROS.replace("A[", "B[").replace("AC[io, ii] = s", "AC[io, ii] = s") + PART,  # no input
    ],
)
def test_what_is_no_pad_stays(lines: str) -> None:
    f = parse_nest(HEAD + lines + CROP)
    h = hoist_layouts(f)
    assert h.pads == () and (h.run({"A": A, "B": A.copy()})["B"] == run(f, {"A": A, "B": A.copy()})["B"]).all()


@pytest.mark.parametrize(
    "end",
    [
        CROP + "\n    BC[0, 0] = 0",  # stored after the crop
        CROP + "\n    B[0] = B[0] + 1",  # the output is read
        CROP.replace("[0, 14)", "[0, 13)"),  # not all of it
        CROP.replace("i % 4]", "i % 4] + 1"),  # more than a copy
        CROP.replace("i % 4]", "0]"),  # duplicate elements
    ],
)
def test_what_is_no_crop_stays(end: str) -> None:
    f = parse_nest(HEAD + ZEROS + WHOLE + end)
    h = hoist_layouts(f)
    assert h.crops == () and len(h.pads) == 1
    assert (h.run({"A": A, "B": A.copy()})["B"] == run(f, {"A": A, "B": A.copy()})["B"]).all()


def test_the_example_and_bad_input() -> None:
    found = doctest.testmod(lowering.padding.hoist, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted and not found.failed
    with pytest.raises(LayoutError, match="takes a Function"):
        hoist_layouts("f")  # type: ignore[arg-type]
