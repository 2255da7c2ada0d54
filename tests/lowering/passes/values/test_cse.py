"""Names for indices, and unswitched rows: printed nests, operation counts, unchanged results."""

from __future__ import annotations

import pytest

from benchmarks.executed import Counter
from bound import te
from lowering import lower, parse_nest, to_c
from lowering.nest.ir import Function
from lowering.passes import decide_rows, name_ends, name_values
from tests.lowering.equivalence import PlainRuns, plain_runs
from tests.sweeps import sampled

HEAD = "def F(A: float32[64, 64], B: float32[64, 64], I: int32[64], n):\n"


def nest(body: str) -> Function:
    return parse_nest(HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines()))


def text(f: Function) -> str:
    return "\n".join(line[4:] for line in str(f).splitlines()[1:])


# what is written, and what becomes of it; `None`: it stays as it is
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
    "read once, where it is decided": (
        """
for y in [0, 8):
    for x in [0, 8):
        A[y, y * 4 + x] = 1.0""",
        None,
    ),
    "of one branch among several": (
        """
for y in [0, 8):
    A[y, 0] = select(B[y, 0] > 0.0, B[y, y * 3 + 1], B[y, y * 5 + 2])""",
        None,
    ),
    "data": (
        """
for y in [0, 8):
    for x in [0, 8):
        A[I[y] * 3 % 8, x] = B[I[y] * 3 % 8, x]""",
        None,
    ),
    "a quotient by a size, which may be 0": (
        """
for y in [0, 8):
    for x in [0, n):
        A[truncdiv(y * 8, n), x] = B[truncdiv(y * 8, n), x]""",
        None,
    ),
    "a quotient by a size, which each iteration needs": (
        """
for t in [0, 64):
    if truncdiv(t, n) < 8:
        A[truncdiv(t, n), 0] = B[t, truncdiv(t, n)]""",
        """
for t in [0, 64):
    t.div = truncdiv(t, n)
    if t.div < 8:
        A[t.div, 0] = B[t, t.div]""",
    ),
    "a quotient by a size, which a later statement needs": (
        """
for t in [0, 64):
    if t < n:
        A[truncdiv(t, n), 0] = B[t, truncdiv(t, n)]
    A[0, truncdiv(t, n)] = 1.0""",
        None,
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_names(name: str) -> None:
    before, after = NAMED[name]
    f = nest(before)
    named = name_values(f)
    assert text(named) == text(nest(before if after is None else after))
    assert str(parse_nest(str(named))) == str(named)


def test_a_variable_that_a_loop_carries_decides_as_its_own_does() -> None:
    f = nest("""
for y in [0, 8) with q = 0, then q + 2:
    for x in [0, 8):
        A[q * 3 + y, x] = B[q * 3 + y, x]""")
    assert "for x" in text(name_values(f)).split(" = q * 3 + y\n")[1]


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


def test_c_reads_indices_as_they_are_made() -> None:
    """What gcc hoists by itself is no text of C: only names that stand for much stay."""
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].tile(*b.op.axis, 4, 4)
    assert "i_outer * 4 + i_inner" in to_c(lower(s)) and "const int32_t i =" not in to_c(lower(s))


@sampled(6, 1000, plain_runs(kinds={"shared", "loop", "name"}))
def test_names_in_ends_keep_the_results(runs: PlainRuns) -> None:
    f = name_ends(name_values(runs.f))
    runs.agrees(f)
    assert str(name_ends(f)) == str(f)
