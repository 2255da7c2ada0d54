"""Loops over the digits of a variable compute what the loop computes, in its order, without a division."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from bound import te
from lowering import lower, parse_nest, run, to_c
from lowering.nest.walk import statements
from lowering.passes.loops.interchange import run_over_digits
from tests.lowering.lowered import check, check_c

NEST = """\
def F(A: int32[80], B: int32[80]):
    for i in [0, 2):
        for q in [0, {}){}:
            B[q] = A[{}] + q"""


def test_patches_are_taken_without_a_division() -> None:
    a, w = te.placeholder((4, 8, 8), name="A"), te.placeholder((36, 5), name="W")
    patch = te.compute((36, 36), lambda p, q: a[q // 9, p // 6 + q // 3 % 3, p % 6 + q % 3], name="P")
    k = te.reduce_axis((0, 36), "k")
    b = te.compute((36, 5), lambda p, f: te.sum(patch[p, k] * w[k, f], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], 6)
    s[patch].compute_at(s[b], outer)
    f = check(s)
    text = re.sub(r"/\*.*?\*/", "", to_c(f), flags=re.DOTALL)
    assert " / 9" not in text and " / 3" not in text and "% 3" not in text
    check_c(f, s, sanitize=True)


@pytest.mark.parametrize(
    ("count", "index", "loops"),
    [
        (36, "truncdiv(q, 9)", 3),
        (36, "truncdiv(q, 9) + truncmod(truncdiv(q, 3), 3) * 5 + truncmod(q, 3)", 4),
        (32, "(q >> 3) + (q & 7)", 3),
        (32, "((q >> 1) & 3) * 2", 4),
        (36, "truncdiv(truncdiv(q, 2), 3)", 4),
        (36, "truncdiv(q + 1, 9)", 2),  # no digits of q
        (35, "truncdiv(q, 9)", 2),  # the last one is not whole
        (36, "truncdiv(q, 4) + truncmod(q, 6)", 2),  # 4 does not divide 6
        (36, "truncmod(q, 36)", 2),
        (36, "q", 2),
        (36, "truncmod(truncmod(q, 18), 6)", 4),
        (36, "truncdiv(truncmod(q, 18), 6)", 4),
        (36, "truncmod(truncmod(q, 6), 4)", 3),
    ],
)
def test_which_loops_have_digits(count: int, index: str, loops: int) -> None:
    for kind in ("", " vectorized"):
        f = parse_nest(NEST.format(count, kind, index))
        g = run_over_digits(f)
        assert sum(str(type(s).__name__) == "For" for s in statements(g.body)) == loops, g
        A = np.arange(80, dtype="int32") ** 2
        assert (run(f, {"A": A})["B"] == run(g, {"A": A})["B"]).all()


def test_random_digits() -> None:
    rng = random.Random(3)
    for _ in range(40):
        cuts = [1]
        for _ in range(rng.randint(1, 3)):
            cuts.append(cuts[-1] * rng.choice((2, 2, 3, 4)))
        count = cuts[-1] * rng.randint(1, 3)
        terms = []
        for _ in range(rng.randint(1, 3)):
            low = rng.choice(cuts)
            high = rng.choice([c for c in cuts if c >= low])
            quotient = "q" if low == 1 else f"truncdiv(q, {low})"
            terms.append(quotient if high == low else f"truncmod({quotient}, {high // low})")
        f = parse_nest(NEST.format(min(count, 80), "", f"truncmod({' + '.join(terms)}, 80)"))
        A = rng.sample(range(1000), 80)
        given = {"A": np.array(A, "int32")}
        assert (run(f, given)["B"] == run(run_over_digits(f), given)["B"]).all(), f


def test_files_say_what_is_divided() -> None:
    a = te.placeholder((6, 40), name="A")
    b = te.compute((12, 80), lambda y, x: a[y // 2, x // 2] * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[1])
    f = check(s)
    text = to_c(f)
    assert "#pragma omp simd" in text and text.count("B[") == 2 and "x >> 1" not in text
    check_c(lower(s), s)


def test_loops_that_have_numbers_for_ends_only_in_pieces() -> None:
    """The last tile is shorter; in each piece every element of the row above is read for two."""
    a = te.placeholder((40,), name="A")
    c = te.compute((80,), lambda i: a[te.floordiv(i, 2)] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], 24)
    text = to_c(lower(s))
    assert "min_i32(" not in text and ">> 1" not in text
