"""`transform_layout` and caches: printed nests, values of padding, refusals."""

import math
import pickle
from typing import Any

import numpy as np
import pytest

from intset import Context, InputError, IntSetError, ShapeVar, Var, evaluate
from lowering import (
    CheckError,
    IndexMap,
    LayoutError,
    add_constraint,
    cache_read,
    cache_write,
    element,
    parse_nest,
    remove_branching_through_overcompute,
    run,
    sequential_buffer_access,
    simplify,
    transform_layout,
    undef,
)
from lowering.nest.ir import Store
from lowering.nest.walk import statements
from lowering.padding.states import number_of
from tests.strategies.refusals import refused_with_words
from tests.sweeps import daily

ARRAY = np.arange(10, 24, dtype="int32")
COPY = """
def f(A: int32[14], B: int32[14]):
    for i in [0, 14):
        B[i] = A[i] + 1
"""
TWICE = COPY + "    for i in [0, 7):\n        B[i] = B[i] + 1\n"
ROWS = """
def rows(A: {dtype}[16, 14], B: {dtype}[16]):
    for i in [0, 16):
        B[i] = {start}
        for j in [0, 14):
            B[i] = {step}
"""


def tiles(i: Any) -> list[Any]:
    return [i // 4, i % 4]


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("A", 5, "assume (a0 * 4 + a1 < 14) | (A[a0, a1] == 5)"),
        ("A", None, "padding A[i, j] where i * 4 + j >= 14"),
        ("A", undef(), "A[a0, a1] == undef()"),
        ("B", -2, "B[b0, b1] = -2"),
        ("B", None, "padding B[i, j] where i * 4 + j >= 14"),
        ("B", undef(), "B[b0, b1] = undef()"),
    ],
)
def test_padding_is_assumed_of_an_input_and_stored_after_each_nest_of_an_output(
    name: str, value: Any, printed: str
) -> None:
    g = transform_layout(parse_nest(TWICE), name, tiles, value)
    assert str(g).count(printed) == (2 if name == "B" and value is not None else 1)
    assert str(parse_nest(str(g))) == str(g)
    a, b = ARRAY, np.full((4, 4), 77, "int32")
    if name == "A":
        a, b = g.layouts["A"].pack(ARRAY, 5), np.zeros(14, "int32")
    run(g, {"A": a, "B": b}, undef=lambda dtype: 99)
    assert (b if name == "A" else g.layouts["B"].unpack(b)).tolist() == [*range(12, 19), *range(18, 25)]
    if name == "B":
        assert b[3, 2:].tolist() == {-2: [-2, -2], None: [77, 77]}.get(value, [99, 99])
    elif value == 5:
        with pytest.raises(CheckError):
            run(g, {"A": g.layouts["A"].pack(ARRAY, 4)})


def test_undef_and_no_number_may_be_read_and_stored() -> None:
    g = transform_layout(transform_layout(parse_nest(COPY), "A", tiles, undef()), "B", tiles, undef())
    h = remove_branching_through_overcompute(sequential_buffer_access(g, "B"))
    assert "B[b0, b1] = A[b0, b1] + 1\n    for b0 in [0, 4):" in str(h) and str(h).count("if ") == 1
    for one in (g, h):
        b = run(one, {"A": g.layouts["A"].pack(ARRAY, 0)}, undef=lambda dtype: 99)["B"]
        assert b.reshape(-1).tolist() == [*range(11, 25), 99, 99]
    text = "def f(A: float32[3], B: float32[3]):\n    for i in [0, 3):\n        B[i] = A[i]"
    g = transform_layout(parse_nest(text), "A", lambda i: [i // 2, i % 2], math.nan)
    a = np.array([[1, 2], [3, math.nan]], "float32")
    assert "isnan(A[a0, a1])" in str(g) and run(g, {"A": a})["B"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda io, ii: io * 10 + ii, [32, 33]),
        (lambda io, ii: undef() if ii == 2 else 4, [99, 4]),
        (lambda io, ii: 5 if (ii % 2).eq(0) else [(ii.eq(3) & (io > 1), 6)], [5, 6]),
        (lambda io, ii: 5 if (io - 1) % 2 == 0 and ii in (0, 2) else abs(-ii), [5, 3]),
        (lambda *place: sum(place[1:], 1), [3, 4]),
        (lambda io, ii: [(ii.eq(2), 1), (ii >= 0, undef())], [1, 99]),
        (lambda io, ii: [40, 50, 60, 70][int(ii)], [60, 70]),
        (np.int64(3), [3, 3]),
        (4.0, [4, 4]),
    ],
)
def test_values_of_many_kinds(value: Any, expected: list[int]) -> None:
    g = transform_layout(parse_nest(COPY), "B", tiles, value)
    b = run(g, {"A": np.arange(14, dtype="int32")}, undef=lambda dtype: 99)["B"]
    assert b[3, 2:].tolist() == expected and pickle.loads(pickle.dumps(g)).layouts["B"](13) == (3, 1)


@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        ("float32", 0.1, np.float32(0.1)),
        ("float32", -math.inf, -math.inf),
        ("float16", 3, 3.0),
        ("int8", -128, -128),
        ("uint8", lambda io, ii: io * 80 + ii, 243),
        ("int8", lambda io, ii: element("B", (3, 1)) * 20, (13 * 20 + 128) % 256 - 128),
        ("bool", True, True),
        ("float64", lambda io, ii: io + ii, 6.0),
    ],
)
def test_types(dtype: str, value: Any, held: Any) -> None:
    text = f"def f(A: {dtype}[14], B: {dtype}[14]):\n    for i in [0, 14):\n        B[i] = A[i]"
    g = transform_layout(parse_nest(text), "B", tiles, value)
    a = np.arange(14).astype(dtype)
    assert run(parse_nest(str(g)), {"A": a})["B"][3, 3] == held
    if not callable(value):
        h = transform_layout(parse_nest(text), "A", tiles, value)
        assert (run(h, {"A": h.layouts["A"].pack(a, held)})["B"] == a).all()


@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        ("bfloat16", 1, 1.0),
        ("bfloat16", 1 + 2**-9, 1.0),
        ("bfloat16", -math.inf, -math.inf),
        ("float8_e4m3fn", 448, 448.0),
        ("float16", 65519, 65504.0),
        ("bfloat16", 1e39, None),
        ("float8_e4m3fn", 500.0, None),
        ("float8_e4m3fn", math.inf, None),
        ("float16", 65520, None),
        ("float64", 10**400, None),
    ],
)
def test_a_float_is_rounded_once_and_refused_beyond_its_type(dtype: str, value: float, held: float | None) -> None:
    f = parse_nest(f"def f(A: {dtype}[14], B: {dtype}[14]):\n    for i in [0, 14):\n        B[i] = A[i]")
    if held is None:
        with pytest.raises(LayoutError, match=f"which {dtype} does not hold"):
            transform_layout(f, "B", tiles, value)
    else:
        stores = [s.value for s in statements(transform_layout(f, "B", tiles, value).body) if isinstance(s, Store)]
        assert number_of(stores[-1], {}, dtype) == held


NEUTRAL: list[tuple[Any, ...]] = [
    ("int32", "0", "B[i] + A[i, j]", 0, "0"),
    ("int32", "1", "B[i] * A[i, j]", 1, "1"),
    ("int32", "-2147483648", "max(B[i], A[i, j])", -(2**31), "-2147483648"),
    ("int8", "-128", "max(B[i], A[i, j])", -128, "-128"),
    ("float32", "1.0", "B[i] * A[i, j]", 1.0, "1.0"),
    ("float32", "0.0", "B[i] + A[i, j]", 0, "0.0"),
    ("float32", "-inf", "max(B[i], A[i, j])", -math.inf, "-inf"),
]


@pytest.mark.parametrize(("dtype", "start", "step", "neutral", "printed"), daily(NEUTRAL, 2))
def test_a_neutral_element_drops_the_guard(dtype: str, start: str, step: str, neutral: Any, printed: str) -> None:
    f = parse_nest(ROWS.format(dtype=dtype, start=start, step=step))
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (16, 14)).astype(dtype)
    expected = run(f, {"A": a})["B"]
    for value in (neutral, None, undef(), 5):
        g = transform_layout(f, "A", lambda i, j: [i, j // 4, j % 4], value)
        report: list[Any] = []
        h = remove_branching_through_overcompute(sequential_buffer_access(g, "A"), report=report)
        fill = value if isinstance(value, (int, float)) else 3
        assert (run(h, {"A": g.layouts["A"].pack(a, fill)})["B"] == expected).all()
        if value is neutral:
            assert "if " not in str(h) and f"A[a0, a1, a2] == {printed}" in str(h)
        else:
            assert "if a1 * 4 + a2 < 14" in str(h) and report[0].point == (0, 3, 2)


SIZED = "def f(A: int32[N], B: int32[N], N):\n    for i in [0, N):\n        B[i] = A[i]"
CALL = "def f(A: int32[14], B: int32[14]):\n    fill(A, B)"


@pytest.mark.parametrize(
    ("text", "name", "m", "value", "message"),
    [
        (COPY, "X", tiles, 0, "'X' must be one array of f"),
        (COPY, "A", lambda i: [i // 4, i % 2], 0, "layout of A in f cannot be used: the map has no inverse"),
        (COPY, "A", lambda i, j: [i, j], 0, "layout of A in f cannot be used: a map of 1 old indices"),
        (COPY, "A", lambda i: [i * 0.5], 0, "layout of A in f cannot be used: new index 0 must be an integer"),
        (COPY, "A", tiles, lambda i, j: 1 // 0, "the padding of A in f has no value at .3, 2."),
        (COPY, "A", 3, 0, "layout of A in f cannot be used: a map is a function"),
        (COPY, "A", IndexMap(tiles, (15,)), 0, "the layout of A in f has extent 0, 14, that of the map is 15"),
        (COPY, "A", IndexMap(lambda i, j: [i, j], (14, 1)), 0, "is for 1 indices, the map takes 2"),
        (COPY, "A", IndexMap(tiles, (14,)).inverse(), 0, "is for 1 indices"),
        (COPY, "A", tiles, 0.5, "the padding of A in f cannot be 0.5, which int32 does not hold"),
        (COPY, "A", tiles, 2**31, "cannot be 2147483648, which int32 does not hold"),
        (COPY, "A", tiles, True, "cannot be True"),
        (COPY, "A", tiles, math.inf, "cannot be inf"),
        (COPY, "A", tiles, np.zeros(2), "the padding of A in f is a number, undef"),
        (COPY, "A", tiles, "0", "the padding of A in f is a number, undef"),
        (COPY, "A", tiles, lambda i: 0, "the padding of A in f has 2 indices: pad_value must be a function"),
        (COPY, "A", tiles, lambda i, j: element("B", (0, 0)), "may only read A itself, not 'B'"),
        (COPY, "A", tiles, lambda i, j: element("A", (0,)), "has 2 indices, not those of"),
        (COPY, "A", tiles, lambda i, j: element("A", (3, 3)), "would read padding: A.3, 3."),
        (COPY, "B", tiles, lambda i, j: element("B", (i, j)), "would read padding: B.i, j."),
        (COPY, "A", tiles, lambda i, j: element("A", (9, 0)), "would read padding"),
        (COPY, "A", tiles, lambda i, j: Var("q") + 1, "depends on q, which is neither"),
        (COPY, "A", tiles, lambda i, j: "x", "is a number, undef"),
        (COPY, "A", tiles, lambda i, j: 5 // (j - 2), "has no value at .3, 2.|not known to have a value"),
        (SIZED, "A", tiles, lambda i, j: 5 // (i - 1), "is 5 // .i - 1., which is not known to have a value"),
        (SIZED, "A", tiles, lambda i, j: [(5 % (i - 1) > 2, 3)], "which is not known to have a value where i - 1 != 0"),
        (COPY, "A", tiles, lambda i, j: [0, 1], "pairs of a condition and a value"),
        (COPY.replace("i] = A", "i + 0] = A"), "B", tiles, lambda i, j: i * 2.5, "cannot be|is not known"),
        (CALL, "A", tiles, 0, "fill is a host call on A of f"),
        ("def f(B: int32[6]):\n    B[0] = 1", "B", tiles, lambda i, j: element("B", (0, 1)), "may hold nothing yet"),
    ],
)
def test_what_is_refused(text: str, name: str, m: Any, value: Any, message: str) -> None:
    f = parse_nest(text)
    before = str(f)
    with pytest.raises(IntSetError, match=message) as error:
        transform_layout(f, name, m, value)
    assert isinstance(error.value, InputError) and str(f) == before and "\n" not in str(error.value)


@pytest.mark.parametrize("stride", [2, 3, 7])
def test_the_extent_of_a_strided_layout_is_no_choice_on_emptiness(stride: int) -> None:
    n = ShapeVar("n")
    m = IndexMap(lambda x: (x * stride,), (n,), Context())
    (extent,) = m.new_shape
    assert "select" not in str(extent)
    for size in range(6):
        assert evaluate(extent, {n: size}) == max(0, (size - 1) * stride + 1)


def test_copies_have_names_and_layouts_of_their_own() -> None:
    f = parse_nest(COPY)
    g = cache_write(cache_read(f, "A"), "B")
    for name, value in (("AC", 0), ("BC", undef())):
        g = transform_layout(g, name, tiles, value)
    assert list(g.layouts) == ["AC", "BC"] and [t.name for t in g.params] == ["A", "B"]
    a = np.arange(14, dtype="int32")
    assert (run(g, {"A": a})["B"] == run(f, {"A": a})["B"]).all()
    assert "AC[a0 // 4, a0 % 4] = A[a0]" in str(g) and "B[b0] = BC[b0 // 4, b0 % 4]" in str(g)
    f = parse_nest("def f(A: int32[4], AC: int32[4]):\n    for i in [0, 4):\n        AC[i] = A[i]")
    assert "allocate AC_1: int32[4]" in str(cache_read(f, "A")) and "allocate T: int32[4]" in str(
        cache_write(f, "AC", "T")
    )
    for bad in ("A", 3, "no name"):
        with pytest.raises(LayoutError, match="the name"):
            cache_read(f, "A", bad)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="only while pad_value is asked"):
        element("A", (0, 0))


CACHED = parse_nest(COPY + "    allocate T: int32[1]\n    T[0] = 0\n    B[0] = T[0]")
test_refusals = refused_with_words(
    [
        ("f stores to B: cache_write", lambda: cache_read(CACHED, "B")),
        ("f does not store to A: cache_read", lambda: cache_write(CACHED, "A")),
        ("'X' must be one array of f", lambda: cache_read(CACHED, "X")),
        ("T is no parameter of f", lambda: cache_read(CACHED, "T")),
    ],
    IntSetError,
)


TOTAL = """
def total(A: int32[4, 4], B: int32[1]):
    B[0] = 0
    for i in [0, 4):
        for j in [0, 4):
            if i * 4 + j < 14:
                B[0] = B[0] + A[i, j]
"""


def test_what_is_assumed_and_what_follows_is_said() -> None:
    f = parse_nest(TOTAL)
    g = add_constraint(f, "A", lambda i, j: i * 4 + j >= 14, 0)
    assert "if" not in str(remove_branching_through_overcompute(g))
    a = np.ones((4, 4), "int32")
    with pytest.raises(CheckError):
        run(g, {"A": a})
    a[3, 2:] = 0
    assert run(g, {"A": a})["B"] == [14]
    assert "A[a0, a1] == undef()" in str(add_constraint(f, "A", lambda i, j: i > 2, undef()))
    assert "== a1 + 2" in str(add_constraint(f, "A", lambda i, j: i > 2, lambda i, j: j + 2))
    f = transform_layout(parse_nest(COPY), "B", tiles, 3)
    g = add_constraint(f, "B", lambda i, j: i * 4 + j >= 14, 3)
    assert '(B[b0, b1] == 3), "proved"' in str(g)
    assert run(g, {"A": np.zeros(14, "int32")})["B"].sum() == 20
    for cond, value in ((lambda i, j: i * 4 + j >= 13, 3), (lambda i, j: i * 4 + j >= 14, 4)):
        with pytest.raises(
            LayoutError, match=r"the constraint on B in f does not follow: B.b0, b1. is not known to be"
        ):
            add_constraint(f, "B", cond, value)
    local = parse_nest(
        """
def f(A: int32[8], B: int32[8]):
    for k in [0, 2):
        allocate T: int32[8]
        for i in [0, 8):
            T[i] = i * 2
        for i in [0, 8):
            if T[i] == i * 2:
                B[i] = A[i]
"""
    )
    h = add_constraint(local, "T", lambda i: i >= 0, lambda i: i * 2)
    assert 'assume T[t0] == t0 * 2, "proved"' in str(h) and "if" not in str(simplify(h))


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (3, 0, "function of indices"),
        (lambda i: i > 2, 0, "has 2 indices"),
        (lambda i, j: i + j, 0, "a condition on indices"),
        (lambda i, j: i > 2 and j > 2, 0, "fails for symbolic indices: the truth value"),
        (lambda i, j: i > 2, None, "says nothing"),
        (lambda i, j: i > Var("q"), 0, "the constraint on A in .* depends on q, which is neither one of its indices"),
        (lambda i, j: i > 2, lambda i, j: Var("q"), "the constraint on A in .* depends on q, which is neither one"),
        (lambda i, j: i > 2, 0.5, "cannot be 0.5"),
        (lambda i, j: i > 2, lambda i, j: element("B", (0,)), "may only read A itself"),
        (lambda i, j: i > 2, lambda i, j: element("A", (i + 1, j)), "would read padding"),
    ],
)
def test_bad_constraints(where: Any, value: Any, message: str) -> None:
    with pytest.raises(IntSetError, match=message) as error:
        add_constraint(parse_nest(TOTAL), "A", where, value)
    assert isinstance(error.value, InputError)


def test_what_may_not_be_touched_is_not_spoken_of() -> None:
    f = transform_layout(parse_nest(COPY), "A", tiles)
    with pytest.raises(LayoutError, match=r"is about \(3, [23]\), which may not be touched"):
        add_constraint(f, "A", lambda i, j: i * 4 + j >= 13, 0)
    assert "assume" in str(add_constraint(f, "A", lambda i, j: (i.eq(3)) & (j < 2), 0))
