"""Contracts of padded functions: required and promised padding; pads and crops moved out; random nests at run time."""

import pickle
import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bound.tir.build import popcount
from intset.errors import InputError, ParseError
from intset.expr import ops
from intset.expr.build import maximum, select
from intset.expr.node import as_expr, const, make
from lowering import (
    NOTHING,
    READABLE,
    UNDEF,
    UNTOUCHED,
    CheckError,
    Contract,
    Function,
    Graph,
    IndexMap,
    LayoutError,
    PadValue,
    cache_read,
    cache_write,
    contract,
    hoist_layouts,
    parse_nest,
    remove_branching_through_overcompute,
    remove_undef,
    run,
    sequential_buffer_access,
    transform_layout,
    undef,
)
from lowering.interpreter import as_element
from lowering.nest.ir import ShapeOf
from lowering.padding.states import PLACE, UNKNOWN, Grid, PartialEvaluator, loaded
from tests.lowering.equivalence import runs_of
from tests.lowering.layout.test_layouts import PACKED, Laid, in_order
from tests.strategies.nests import Nest, nests
from tests.strategies.refusals import refused_with_words
from tests.sweeps import sampled

TILES = IndexMap(lambda i: [i // 4, i % 4], (14,))
GRID = "    for io in [0, 4):\n        for ii in [0, 4):\n"


def packed(*lines: str, out: str = "BC: int32[4, 4]", dtype: str = "int32") -> Contract:
    f = parse_nest("\n".join([f"def f(AC: {dtype}[4, 4], {out}):", *lines]).replace("\n\n", "\n"))
    return contract(f, {t.name: TILES for t in f.params if t.ndim == 2})


def everywhere(value: str, dtype: str = "int32") -> Contract:
    return packed(GRID + f"            BC[io, ii] = {value}", out=f"BC: {dtype}[4, 4]", dtype=dtype)


def reduction(start: str, step: str, assume: str = "", dtype: str = "int32") -> Contract:
    said = (
        GRID.replace("io", "k").replace("ii", "l") + f"            assume k * 4 + l < 14 or {assume}" if assume else ""
    )
    text = f"def f(A: {dtype}[4, 4], B: {dtype}[1]):\n{said}\n    B[0] = {start}\n{GRID}            {step}"
    return contract(parse_nest(text.replace(":\n\n", ":\n")), {"A": TILES})


def test_a_need_is_what_assumptions_fix_read_or_not_and_what_cancels_is_none():
    assert reduction("0", "B[0] = B[0] + A[io, ii]", "A[k, l] == 0").needs == {"A": 0}
    guarded = "if io * 4 + ii < 14:\n                B[0] = B[0] + A[io, ii]"
    assert str(reduction("0", guarded, "A[k, l] == 7").needs["A"]) == "7"
    assert reduction("0", guarded, "A[k, l] == undef()").needs["A"] is READABLE
    assert reduction("0", guarded).needs["A"] is NOTHING
    with pytest.raises(LayoutError, match=r"assumes that A\[3, 2\] is -4, which is no uint8"):
        reduction("0", guarded, "A[k, l] == -4", dtype="uint8")
    assert str(reduction("0", guarded, "A[k, l] == k * 4 + l").needs["A"]) in ("i0 * 4 + i1", "i1 + i0 * 4")
    with pytest.raises(LayoutError, match=r"B\[0\] of f may depend on the padding of A, which nothing fixes") as e:
        reduction("0", "B[0] = B[0] + A[io, ii]")
    assert e.value.points == ((0,),)
    with pytest.raises(LayoutError, match="may depend on the padding"):  # readable, but of unknown value
        reduction("0", "B[0] = B[0] + A[io, ii]", "A[k, l] == undef()")
    with pytest.raises(LayoutError, match="may depend on the padding"):  # in a condition
        reduction("0", "if A[io, ii] > 3:\n                B[0] = B[0] + 1")
    assert reduction("0", "B[0] = B[0] + A[io, ii] * select(io * 4 + ii < 14, 1, 0)").needs["A"] is READABLE
    assert reduction("0", "B[0] = B[0] + select(io * 4 + ii < 14, A[io, ii], 0)").needs["A"] is NOTHING
    with pytest.raises(LayoutError):  # a float may be NaN
        reduction("0.0", "B[0] = B[0] + A[io, ii] * select(io * 4 + ii < 14, 1.0, 0.0)", dtype="float32")


def test_expressions_in_the_padding_of_inputs():
    assert str(everywhere("AC[io, ii] * 2 + 1").gives["BC"]) == "AC * 2 + 1"
    assert str(everywhere("exp(AC[io, ii])", "float32").gives["BC"]) == "exp(AC)"
    assert str(everywhere("AC[io, 0]").gives["BC"]) == "UNDEF"  # a logical element
    assert str(everywhere("io * 4 + ii").gives["BC"]) in ("i0 * 4 + i1", "i1 + i0 * 4")
    assert everywhere("7").gives["BC"] == 7
    assert everywhere("max(AC[io, ii], -2147483648)").promises({"AC": 3})["BC"] == 3
    assert everywhere("AC[io, ii] + 1").promises({"AC": 2147483647})["BC"] == -2147483648
    assert everywhere("AC[io, ii] / 3.0", "float32").promises({"AC": 1.0})["BC"] == 0.3333333432674408


@pytest.mark.parametrize(
    ("value", "pads", "needs", "gives"),
    [
        ("A[i] + 1", (None, None), "NOTHING", "UNTOUCHED"),
        ("A[i] + 1", (undef(), undef()), "READABLE", "A + 1"),
        ("A[i] * 2 + 1", (3, undef()), "3", "7"),
        ("A[i] + i", (undef(), 5), "READABLE", "5"),
        ("7", (0, undef()), "0", "7"),
    ],
)
def test_sizes_may_be_symbolic(value, pads, needs, gives):
    f = parse_nest(f"def f(n, A: int32[n], B: int32[n]):\n    for i in [0, n):\n        B[i] = {value}")
    for name, pad in zip("AB", pads, strict=True):
        f = transform_layout(f, name, lambda i: [i // 4, i % 4], pad)
    f = sequential_buffer_access(f, "B")
    c = contract(remove_undef(remove_branching_through_overcompute(f)))
    assert (str(c.needs["A"]), str(c.gives["B"])) == (needs, gives)


@pytest.mark.parametrize("n", [10, 1000])
def test_outputs_that_are_read_first_are_named(n):
    head = f"(A: int32[{n}, {n}], B: int32[{n}, {n}]):\n    for i in [0, {n}):\n        for j in [0, {n}):\n"
    add = "            B[i, j] = B[i, j] + A[i, j]\n"
    added = parse_nest(f"def added{head}{add}")
    summed = parse_nest("def summed" + head + "            B[i, j] = 0\n" + add)
    assert (contract(added).reads, contract(summed).reads) == (("B",), ())
    graph = Graph()
    x = graph.input("x", (n, n), "int32")
    graph.call(summed, x)
    with pytest.raises(InputError, match="added reads its output B before it writes it"):
        graph.call(added, x)


COPIED = parse_nest("def f(A: int32[4, 4], B: int32[4, 4]):\n" + GRID + "            B[io, ii] = A[io, ii]")
WIDE = IndexMap(lambda i: [i // 8, i % 8], (14,))
test_bad_input_is_refused_in_one_sentence = refused_with_words(
    [
        ("'C' is no parameter of f", lambda: contract(COPIED, {"C": TILES})),
        ("A of f has the shape", lambda: contract(COPIED, {"A": WIDE})),
        ("must be an IndexMap", lambda: contract(COPIED, {"A": lambda i: [i]})),
        ("contract takes a Function", lambda: contract("f")),
        ("layouts are a mapping", lambda: contract(COPIED, [TILES])),
        ("no packed parameter", lambda: contract(COPIED, {"A": TILES, "B": TILES}).promises({"C": 0})),
    ]
)


def test_states_and_contracts_are_pickled_and_print():
    c = everywhere("AC[io, ii] + ii")
    again = pickle.loads(pickle.dumps(c))
    assert repr(again) == repr(c) == "<contract of f: needs AC: READABLE; gives BC: AC + i1>"
    for state in (NOTHING, READABLE, UNTOUCHED, UNDEF):
        assert pickle.loads(pickle.dumps(state)) is state
        assert str(state) == repr(state)


@pytest.mark.parametrize("said", ["A[i, j] != 3", "A[i, j] >= 0", "A[i, j] == 0 or A[i, j] == 1", "A[i, j] * 2 == 4"])
def test_an_assumption_that_fixes_no_value_of_a_padding_is_refused(said: str) -> None:
    f = parse_nest(f"""
def f(A: int32[4, 4], B: int32[14]):
    for i in [0, 4):
        for j in [0, 4):
            assume i * 4 + j < 14 or ({said})
    for k in [0, 14):
        B[k] = A[k // 4, k % 4]
""")
    with pytest.raises(LayoutError, match="fixes no value there"):
        contract(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (14,))})


@pytest.mark.parametrize(
    ("said", "step", "contract_of"),
    [
        ("A[i, j] == 3", "B[i, j] = A[i, j] * 2", "needs A: 3; gives B: 6"),
        ("B[i, j] == 3", "B[i, j] = B[i, j] + A[i, j]", "needs A: READABLE, B: 3; gives B: 3 + A"),
        ("B[i, j] != 3", "B[i, j] = B[i, j] + A[i, j]", None),
        ("C[0] > 1 or A[i, j] == 3", "B[i, j] = A[i, j] * 2", None),  # data decides whether it is 3
        ("A[i, j] == 3 + C[0]", "B[i, j] = A[i, j]", None),
    ],
)
@pytest.mark.parametrize("size", ["", "n, "])
def test_what_is_assumed_of_a_padding_is_required_or_refused(
    said: str, step: str, contract_of: str | None, size: str
) -> None:
    """A branch on data in front, which the analysis makes two statements, leaves assumptions in their places."""
    rows, last = ("ceildiv(n, 4)", "n") if size else ("4", "14")
    nest = f"    for i in [0, {rows}):\n        for j in [0, 4):\n            "
    f = parse_nest(f"""
def f({size}A: int32[{rows}, 4], B: int32[{rows}, 4], C: int32[3], D: int32[1]):
    if D[0] > 1:
        C[1] = 2
        C[2] = 3
{nest}assume i * 4 + j < {last} or {said}
{nest}{step}
""")
    tiles = IndexMap(lambda i: [i // 4, i % 4], (f.sizes[0],)) if size else TILES
    if contract_of is None:
        with pytest.raises(LayoutError, match=r"fixes no value there|no function of its indices"):
            contract(f, {"A": tiles, "B": tiles})
    else:
        assert repr(contract(f, {"A": tiles, "B": tiles})) == f"<contract of f: {contract_of}>"


def random_function(nest: Nest, rng: random.Random) -> tuple[Function, dict[str, Any]]:
    """Bring a nest of constant size into random layouts; gives it with its logical arrays."""
    laid = runs_of(nest, Laid)
    laid.f = laid.g = parse_nest(re.sub(r"\bn\b", str(laid.n), laid.text).replace(f", {laid.n}):", "):", 1))
    laid.transform(rng.randint(1, 3))
    f: Function = laid.g
    for _ in range(rng.randint(0, 2)):
        change = rng.choice([lambda g: in_order(g, rng), remove_branching_through_overcompute, remove_undef])
        f = change(f)
    return f, laid.arrays


def test_values_are_evaluated_as_far_as_no_data_decides_them() -> None:
    i, j = PLACE[:2]
    f = parse_nest("def f(A: int32[4, 5], B: int32[4]):\n    for i in [0, 4):\n        B[i] = A[i, 0]")
    a = f.params[0]
    small, held = as_expr(i) < 2, loaded(a, (i, 0))
    cases: list[tuple[Any, dict[Any, Any], Any]] = [
        (select(j.ne(0), i // j, 7), {i: 3, j: 0}, 7),
        (i // j, {i: 3, j: 0}, UNKNOWN),
        (i * 2 + j, {j: 0}, i * 2),
        (select(small & (j < 1), 4, 5), {j: 2}, 5),
        (select(small & (j < 1), 4, 5), {j: 0}, select(small, 4, 5)),
        (select(small | (j < 1), 4, 5), {j: 0}, 4),
        (select(small | (j < 1), 4, 5), {j: 2}, select(small, 4, 5)),
        (select(small | (j < 1), 4, 5), {i: 3, j: 2}, 5),
        (select(small, 6, i - i + 6), {}, 6),
        (select(small, undef(), 3), {i: 5}, 3),
        (select(small, undef(), 3), {i: 1}, UNKNOWN),
        (maximum(held, -(2**31)), {}, held),
        (held * 0, {}, 0),
        (popcount(i + 4), {i: 3}, 3),
        (make(ops.LOAD, (const(1),), ShapeOf(a)), {}, 5),
    ]
    for value, known, wanted in cases:
        found = PartialEvaluator(loaded)(value, known)
        assert found is wanted or (isinstance(found, int) and found == wanted), (value, known, found)


def value_at(value: PadValue, place: tuple[int, ...], arrays: dict[str, Any], grids: dict[str, Grid]) -> Any:
    """Evaluate a padding value at one element; loads read the arrays."""
    evaluate = PartialEvaluator(lambda tensor, at: grids[tensor.name].held(arrays[tensor.name], at))
    return evaluate(value.expr, dict(zip(PLACE, place, strict=False)))


@sampled(6, 600, nests(kinds=PACKED), st.randoms(use_true_random=False), shows={True})
def test_contracts_hold(nest: Nest, rng: random.Random) -> bool:
    try:
        f, first = random_function(nest, rng)
    except ParseError:  # a range of this size is empty
        return False
    try:
        c = contract(f)
    except LayoutError:  # a result depends on padding
        return False
    grids = {t.name: Grid(f.layouts[t.name]) for t in f.params if t.name in f.layouts}
    draws = np.random.default_rng(0)
    results: list[dict[str, Any]] = []
    for _ in range(2):  # draws arbitrary paddings twice
        arrays: dict[str, Any] = {}
        for t in f.params:
            array = first[t.name].astype(t.dtype)
            if t.name in grids:
                array = grids[t.name].layout.pack(array, array.dtype.type(0))
                for place in grids[t.name].padding:
                    need = c.needs.get(t.name)
                    value = value_at(need, place, {t.name: array}, grids) if isinstance(need, PadValue) else None
                    array[grids[t.name].storage(place)] = draws.integers(0, 50) if value is None else value
            arrays[t.name] = array
        given = {name: array.copy() for name, array in arrays.items()}
        draw = random.Random(5)
        try:
            run(f, arrays, undef=lambda dtype, draw=draw: draw.randrange(-20, 20))
        except CheckError:
            return False  # the nest assumes something false
        for t in f.outputs:
            state = c.gives.get(t.name)
            for place in grids[t.name].padding if isinstance(state, PadValue) else ():
                wanted = as_element(value_at(state, place, given, grids), t.dtype)
                np.testing.assert_equal(arrays[t.name][grids[t.name].storage(place)].item(), wanted)
        names = [t.name for t in f.outputs]
        results.append({n: grids[n].layout.unpack(arrays[n]) if n in grids else arrays[n] for n in names})
    for name, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][name], f"{f}\n{c}")
    return True


# -- pads and crops moved out of functions -------------------------------------------------------------------------


HEAD = "def addone(A: int32[14], B: int32[14]):\n"
PAD = "    allocate AC: int32[4, 4]\n" + GRID
ONLY_VALID = PAD + "            if 4 * io + ii < 14:\n                AC[io, ii] = A[4 * io + ii]\n"
ZEROS = PAD + "            AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], 0)\n"
ANYTHING = PAD + "            AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], undef())\n"
PART = "    allocate BC: int32[4, 4]\n    for i in [0, 14):\n        BC[i // 4, i % 4] = AC[i // 4, i % 4] + 1\n"
WHOLE = "    allocate BC: int32[4, 4]\n" + GRID + "            BC[io, ii] = AC[io, ii] + 1\n"
FORGET = GRID + "            if 4 * io + ii >= 14:\n                BC[io, ii] = undef()\n"
CROP = "    for i in [0, 14):\n        B[i] = BC[i // 4, i % 4]"
ARRAY = np.arange(14, dtype="int32")


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
def test_functions_with_pads_and_crops_inside(lines: str, pad: Any, needs: str, gives: str, promise: Any) -> None:
    h = hoist_layouts(parse_nest(HEAD + lines + CROP))
    ((a, m, value),) = h.pads
    ((b, k, promised),) = h.crops
    assert (a, b, value, promised) == ("A", "B", pad, promise) and m(13) == k(13) == (3, 1) and m.new_shape == (4, 4)
    c = contract(h.packed)
    assert (str(c.needs["AC"]), str(c.gives["BC"])) == (needs, gives)
    assert [t.name for t in h.packed.params] == ["AC", "BC"] and list(h.packed.layouts) == ["AC", "BC"]
    b_array = np.zeros(14, "int32")
    for one in (h, pickle.loads(pickle.dumps(h))):
        assert one.run({"A": ARRAY, "B": b_array}, undef=lambda dtype: 77)["B"] is b_array
        assert b_array.tolist() == [*range(1, 15)]
    assert one.run({"A": ARRAY})["B"].tolist() == [*range(1, 15)]


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
    assert h.run({"A": ARRAY})["B"] == [91] and h.crops == ()
    bad = hoist_layouts(parse_nest(text.replace("AC[io, ii] = select(4 * io + ii < 14, A[4 * io + ii], 0)", "pass")))
    assert bad.pads == ()


STARTED = "    allocate AC: int32[4, 4]\n    AC[0, 0] = A[0]\n    B[0] = AC[0, 0]\n"


NO_PADS = [
    STARTED + ZEROS.split("\n", 1)[1] + PART,  # read during the copy
    ZEROS.replace("< 14", "< 13") + PART,  # not all of it
    ZEROS.replace("ii], 0", "ii] + 1, 0") + PART,  # more than a copy
    ZEROS + "    AC[3, 2] = undef()\n" + PART,  # mixed padding
    ZEROS + "    AC[0, 0] = 3\n" + PART,  # another store
    "    B[0] = 0\n" + ZEROS.replace("A[", "B[").replace("AC[io, ii] = s", "AC[io, ii] = s") + PART,  # no input
]
NO_CROPS = [
    CROP + "\n    BC[0, 0] = 0",  # stored after the crop
    CROP + "\n    B[0] = B[0] + 1",  # the output is read
    CROP.replace("[0, 14)", "[0, 13)"),  # not all of it
    CROP.replace("i % 4]", "i % 4] + 1"),  # more than a copy
    CROP.replace("i % 4]", "0]"),  # duplicate elements
]


@pytest.mark.parametrize(
    ("lines", "pads"), [*((part + CROP, 0) for part in NO_PADS), *((ZEROS + WHOLE + end, 1) for end in NO_CROPS)]
)
def test_what_is_no_pad_or_no_crop_stays(lines: str, pads: int) -> None:
    f = parse_nest(HEAD + lines)
    h = hoist_layouts(f)
    assert len(h.pads) == pads and (pads == 0 or h.crops == ())
    given = {"A": ARRAY, "B": ARRAY.copy()}
    assert (h.run(given)["B"] == run(f, {"A": ARRAY, "B": ARRAY.copy()})["B"]).all()


def test_a_function_without_copies_stays() -> None:
    with pytest.raises(LayoutError, match="takes a Function"):
        hoist_layouts("f")  # type: ignore[arg-type]
    f = parse_nest(HEAD + "    for i in [0, 14):\n        B[i] = A[i] + 1")
    h = hoist_layouts(f)
    assert (h.pads, h.crops, h.packed) == ((), (), f) and h.run({"A": ARRAY})["B"].tolist() == [*range(1, 15)]
