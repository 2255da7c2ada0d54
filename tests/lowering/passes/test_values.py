"""Names for indices, unswitched rows, the width of indices, carried quotients."""

from itertools import product

import pytest
from hypothesis import strategies as st

from benchmarks.executed import Counter
from intset import Context, Expr, Range, ShapeVar, Var, evaluate, maximum, minimum, select, truncdiv, truncmod
from intset.errors import EvaluationError
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import const
from intset.expr.ops import Op
from intset.testing.strategies import expressions
from lowering import parse_nest
from lowering.nest.ir import Function
from lowering.passes import decide_rows, name_ends, name_values
from lowering.passes.values.index_width import Spans, fits_by_intervals
from tests.lowering.equivalence import PlainRuns, plain_runs
from tests.sweeps import sampled

HEAD = "def F(A: float32[64, 64], B: float32[64, 64], I: int32[64], n):\n"


def nest(body: str) -> Function:
    return parse_nest(HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines()))


def text(f: Function) -> str:
    return "\n".join(line[4:] for line in str(f).splitlines()[1:])


# what is written, and what becomes of it
NAMED = {
    "a row": (
        """
for yo in [0, 4):
    for y in [0, 8):
        for x in [0, 8):
            A[yo * 8 + y, x] = B[yo * 8 + y, x] + B[yo * 8 + y + 1, x]""",
        """
for yo in [0, 4):
    for y in [0, 8):
        y.at = yo * 8 + y
        for x in [0, 8):
            A[y.at, x] = B[y.at, x] + B[y.at + 1, x]""",
    ),
    "a sum whose terms stand in another order": (
        """
for a in [0, 4):
    for b in [0, 4):
        for c in [0, 4):
            A[c + a * 16 + b * 4, 0] = 1.0""",
        """
for a in [0, 4):
    for b in [0, 4):
        b.base = a * 16 + b * 4
        for c in [0, 4):
            A[b.base + c, 0] = 1.0""",
    ),
    "a quotient and its remainder": (
        """
for t in [0, 64):
    A[truncdiv(t, 6), truncmod(t, 6)] = B[truncdiv(t, 6), truncmod(t, 6)]""",
        """
for t in [0, 64):
    t.div = truncdiv(t, 6)
    t.mod = truncmod(t, 6)
    A[t.div, t.mod] = B[t.div, t.mod]""",
    ),
    "in the branch that uses it": (
        """
for y in [0, 8):
    if y < 5:
        for x in [0, 8):
            A[y * 7 % 8, x] = 1.0
    else:
        A[y, 0] = 0.0""",
        """
for y in [0, 8):
    if y < 5:
        y.at = y * 7 % 8
        for x in [0, 8):
            A[y.at, x] = 1.0
    else:
        A[y, 0] = 0.0""",
    ),
    "what a name stands for already": (
        """
for y in [0, 8):
    m = y * 3 % 8
    for x in [0, 8):
        A[y * 3 % 8, x] = B[m, x]""",
        """
for y in [0, 8):
    m = y * 3 % 8
    for x in [0, 8):
        A[m, x] = B[m, x]""",
    ),
}
UNNAMED = {  # what stays as it is
    "read once, where it is decided": """
for y in [0, 8):
    for x in [0, 8):
        A[y, y * 4 + x] = 1.0""",
    "of one branch among several": """
for y in [0, 8):
    A[y, 0] = select(B[y, 0] > 0.0, B[y, y * 3 + 1], B[y, y * 5 + 2])""",
    "data": """
for y in [0, 8):
    for x in [0, 8):
        A[I[y] * 3 % 8, x] = B[I[y] * 3 % 8, x]""",
    "a quotient by a size, which may be 0": """
for y in [0, 8):
    for x in [0, n):
        A[truncdiv(y * 8, n), x] = B[truncdiv(y * 8, n), x]""",
}


@pytest.mark.parametrize("name", [*NAMED, *UNNAMED])
def test_names(name: str) -> None:
    before, after = NAMED[name] if name in NAMED else (UNNAMED[name],) * 2
    f = nest(before)
    named = name_values(f)
    assert text(named) == text(nest(after))
    assert str(parse_nest(str(named))) == str(named)


def test_rows_are_decided_before_their_loop() -> None:
    f = nest("""
for y in [0, 8):
    for x in [0, 8):
        A[y, x] = select((x >= 1) & (y >= 2) & (y < 7), B[y - 2, x - 1], 0.0)""")
    assert (
        text(decide_rows(f))
        == """\
for y in [0, 8):
    if (y >= 2) & (y < 7):
        for x in [0, 8):
            A[y, x] = select(x >= 1, B[y - 2, x - 1], 0.0)
    else:
        for x in [0, 8):
            A[y, x] = 0.0"""
    )


@sampled(12, 400, plain_runs(kinds=("shared", "loop"), most=4))
def test_names_cost_nothing(runs: PlainRuns) -> None:
    """Named values never add operations to a nest without branches."""
    named = name_values(decide_rows(runs.f))
    if "if" not in runs.text and "select" not in runs.text:
        for n in (2, 4):
            old, new = (sum(Counter({"n": n}).stmt(g.body, {})) for g in (runs.f, named))
            assert new <= old, f"{runs.text}\n{named}"


@sampled(6, 1000, plain_runs(kinds={"shared", "loop", "name"}))
def test_names_in_ends_keep_the_results(runs: PlainRuns) -> None:
    f = name_ends(name_values(runs.f))
    runs.agrees(f)
    assert str(name_ends(f)) == str(f)


# -- the width of indices ------------------------------------------------------------------------------------------


x, y, i = Var("x"), Var("y"), Var("i")
n = ShapeVar("n", lower=1, upper=1024)


@pytest.mark.parametrize(
    ("e", "bits", "fits"),
    [
        ((i % n) * n + i // n, 32, True),  # multiplied out it is a difference of large terms
        (truncmod(i, n) * n + truncdiv(i, n), 32, True),
        (i * n, 32, True),
        (i * n * n, 32, False),
        (i * 2**11, 32, True),
        (i * 2**12, 32, False),
        (x, 64, False),  # nothing is known of x
        (select(i > 5, i, -i) * 2000, 32, True),
        (i >> 40, 32, False),  # no shift of 32 bits
        ((i - 7) % (n - 5), 32, True),
        (minimum(i, 3) - maximum(i, 9), 32, True),
    ],
)
def test_what_intervals_see(e: Expr, bits: int, fits: bool) -> None:
    assert fits_by_intervals(Context({i: Range(0, n * n)}), e, bits) is fits


def test_masks_remainders_names_and_carried_variables_have_intervals() -> None:
    # Masks bound loop variables, whose constant ends are the only knowledge.
    inside = Spans(Context({n: Range(1, 1024)}), 8).inside(i, const(0), n - 1).inside(x, const(-100), const(100))
    assert inside.span(x & 6) == (0, 6) and inside.span((x + 1 & 1) * 8 + (5 & x)) == (0, 13)
    assert inside.span(x & -128) == (-128, 0)
    assert not inside.fit(i & 7), "the operand itself does not fit"
    word = Context({x: Range(-128, 256), y: Range(-128, 256)})
    assert not fits_by_intervals(word, x % y, 8)
    assert not fits_by_intervals(word, truncmod(x, y), 8)
    assert fits_by_intervals(Context({x: Range(-127, 255), y: Range(-128, 256)}), truncmod(x, y), 8)
    assert fits_by_intervals(Context({x: Range(-128, 256), y: Range(0, 128)}), truncmod(x, y), 8)
    t, j = Var("t"), Var("j")
    spans = Spans(Context({i: Range(0, 100_000)}), 32)
    named = spans.inside(t, i % 1000, i % 1000)
    assert named.fit(t * 2_000_000) and not spans.fit(t * 2_000_000)
    assert named.inside(j, const(0), t).span(j) == (0, 999)
    f = nest("""
for y in [0, 8) with q = 0, then q + 2:
    for x in [0, 8):
        A[q * 3 + y, x] = B[q * 3 + y, x]""")
    assert "for x" in text(name_values(f)).split(" = q * 3 + y\n")[1]


ENDS = st.tuples(st.integers(-12, 12), st.integers(1, 21))  # the least value, and how many there are


SEEN = (ops.ADD, ops.MUL, ops.NEG, ops.MIN, ops.MAX, ops.SHR, ops.BITAND, ops.FLOORDIV, ops.FLOORMOD)


@sampled(120, 1500, expressions([x, y]), ENDS, ENDS, shows=SEEN)
def test_what_is_accepted_fits_everywhere(e: Expr, first: tuple[int, int], second: tuple[int, int]) -> set[Op]:
    """An expression that fits has equal values in machine words and in integers. Returns its operations."""
    ranges = {x: Range(*first), y: Range(*second)}
    if not fits_by_intervals(Context(ranges), e, 8):
        return set()
    for point in product(*(range(low, low + count) for low, count in (first, second))):
        at = dict(zip(ranges, point, strict=True))
        try:
            value = evaluate(e, at)
        except EvaluationError:
            continue
        assert evaluate(e, at, bits=8) == value
    return {node.op for node in postorder((e,))}
