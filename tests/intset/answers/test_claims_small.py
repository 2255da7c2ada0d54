"""Exhaustive claims about small questions, to kill every mutant that falsifies a structural claim.

All expressions of a few shapes over all small boxes, for every domain with structural claims, against enumeration.
Shapes: sums whose coefficients leave gaps, overlap or fit exactly; quotients, remainders and minima of such sums; sums
of terms with and without shared variables, under several facts.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from intset import Cond, Expr, Range, Var, maximum, minimum, select, using
from tests.intset.oracle import Claims
from tests.strategies.contexts import world

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
i, j, k = Var("i"), Var("j"), Var("k")

BOXES = [
    (Range(0, 2), Range(0, 2)),
    (Range(0, 2), Range(-2, 4)),
    (Range(-1, 3), Range(0, 3)),
    (Range(0, 3), Range(-2, 3)),
    (Range(2, 1), Range(1, 4)),
]


def shapes() -> Iterator[Expr]:
    """Every shape of a sum, over one or two variables."""
    for p, q, k in itertools.product((1, 2, -3), (1, -2, 3, 4), (0, 2)):
        yield (e := i * p + j * q + k)
        for c in (2, 3, 5, 6):
            yield e // c
            yield e % c
        yield e % 3 + i
        yield e // 2 - j
        yield e % 4 + e // 4
        yield minimum(e, j + 1)
        yield maximum(e, i * 2)
        yield (e // 2) % 3
        yield (e % 6) // 2
        yield minimum(e % 3, i) * 2 + j
    for c, d in itertools.product((2, 3, 4, 5), (1, 2, 3)):
        yield (i * d) % c + (j * 3 + 1) % c
        yield (i * c) // d + j // c
        yield (i % c) * d + j % d
        yield (i * c + j) // c * d
        yield (i // c) * c + i % c + j * d
        yield minimum(i * c, 4) - maximum(j, d)
        yield minimum(i, d) * c + j
        yield maximum(minimum(i + j, c), d - i)
        yield (i * j) % c + d
        yield i * j * c - d
        yield (i * i + j) % c
        yield (i * i * d + i) % c
        yield (j * j * d + j) % c
        yield (i * j * d + j) % c
        yield (i + 9) % (j + c + d)
        yield abs(i * c - d) + j
        yield i % (j + c + 2) * d
        yield (i * c + 1) // (j * j + d)
        yield select(i < 1, j * c, i + d)
        yield select(j < d, i * c, j) + i
        yield (i + j * c) % -d
        yield (i + j) // -c
        yield (i + j * d) % c + j % 2
        yield (j * j * d + j * d + i) % c


SHAPES = tuple(shapes())


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_boxes(box: tuple[Range, Range]) -> None:
    """By the domains that claim by structure alone."""
    claims = Claims(world(dict(zip((i, j), box, strict=True))))
    for e, domain in itertools.product(SHAPES, ("interval", "stride")):
        claims.about(e, domain)
    assert claims.tally["asked"] > 1_200 and claims.tally["tight"] > 800 and claims.tally["exact"] > 200, claims.tally


FACTS: dict[str, list[Cond]] = {
    "a sum": [i + j <= 2],
    "a hole": [i.ne(1)],
    "a stride": [((i + j) % 2).eq(0)],
    "a choice": [(i < 1) | (j > 0)],
    "a tie": [(j - i * 2).eq(0)],
    "a division": [6 // i > 1],
    "a division without a value at a corner": [6 // (i * i + j * j - 2) >= -4],
    "ends that are not reached": [i * 2 + j * 2 <= 3, i + j >= -1],
    "one of another variable": [k <= 2, k >= i],
}
QUESTIONS = (
    i, j, i + j, i - j, i * 2 + j, j - i * 3, i * j, (i + j) % 3, (i * 3 + j) // 2, minimum(i, j), maximum(i * 2, j),
    abs(j), abs(i - j), (i + 3 * j + 2) % 5, i % 2 + j, select(i < 1, j, i * 4), (i + j) // 2 - j % 2, j * j, i * 4 + 1,
    minimum(i + j, 2) * 2 - j, (i * 2 + j * 3) % 4, i // 2 + j // 2, maximum(i, 1) - minimum(j, 1), (i - 1) * (j + 1),
)  # fmt: skip


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points"])
@pytest.mark.parametrize("name", FACTS)
def test_facts(name: str, domain: str) -> None:
    """Under facts, attained ends need a witness that satisfies the facts."""
    for first, second in (BOXES[0], BOXES[3], BOXES[4]):
        claims = Claims(world({i: first, j: second, k: Range(0, 3)}, FACTS[name]))
        for e in QUESTIONS:
            claims.about(e, domain)
        exact = claims.tally["exact"] == claims.tally["asked"] or not claims.rows
        assert domain not in ("auto", "points") or exact, claims.tally


PAIRS = [
    (i, j), (i + j, j), (i, i), (i * 2, j + 1), (i + j, i - j), (i % 2, j), (i // 2, i % 2), (i * 3 + j, j % 2), (j, i),
    (minimum(i, j), i), (i * j, j),
]  # fmt: skip


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points"])
@pytest.mark.parametrize("facts", [(), (i + j <= 2,), (k <= 1,), (i.eq(j),)], ids=str)
def test_regions(domain: str, facts: tuple[Cond, ...]) -> None:
    """A product of sets is exact only where the coordinates are independent."""
    exact = 0
    for first, second in (BOXES[0], BOXES[3], BOXES[4]):
        claims = Claims(world({i: first, j: second, k: Range(0, 3)}, facts))
        for pair in PAIRS:
            claims.algebra(pair, ["itself"], domain)
        exact += claims.tally["exact region"]
    assert exact > 0 or facts or domain == "interval"


GOALS: tuple[Callable[[int], Cond], ...] = (
    lambda c: i + j < c, lambda c: i * 2 - j >= c, lambda c: (i * 3 + j) % 4 <= c, lambda c: minimum(i, j) < c,
    lambda c: select(i < 1, j, i * 2) <= c, lambda c: maximum(i, j) - minimum(i, j) < c, lambda c: (i * j).ne(c),
    lambda c: (i < c) | (j < c), lambda c: select(i < j, select(j < c, i, j), i + c) >= c - 1, lambda c: abs(i - j) < c,
)  # fmt: skip


@pytest.mark.parametrize("tiers", [("linear",), ("linear", "points"), ("linear", "isl")], ids=str)
def test_proofs(tiers: tuple[str, ...]) -> None:
    """Proved is true at every point; refuted fails at the counterexample; what is certified passes its check."""
    tally: Counter[str] = Counter()
    with using(tiers=tiers):
        for (first, second), facts in itertools.product((BOXES[0], BOXES[3], BOXES[4]), ((), (i + j <= 2,), (i <= j,))):
            claims = Claims(world({i: first, j: second}, facts), tally=tally)
            for goal, c in itertools.product(GOALS, range(-3, 6)):
                claims.goal(goal(c))
    assert min(tally["proved"], tally["refuted"]) > 60, tally
