"""The simplex method: agrees with z3 on feasibility, and its weights satisfy the equations."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from unittest.mock import patch

import pytest
import z3

from intset import Context, InputError, Range, ShapeVar, Var
from intset.check.certificate import Certificate
from intset.prover import certify
from intset.prover.combination import RIGHT, SearchBudget, SearchSpentError, combinations, weights
from intset.prover.tiers import Basis

Rows = Sequence[Mapping[int, int]]


def adds_up(rows: Rows, free: Collection[int], found: Mapping[int, Fraction]) -> bool:
    held = all(weight >= 0 for key, weight in found.items() if key not in free)
    return held and all(
        sum(k * found.get(key, 0) for key, k in row.items() if key >= 0) == row.get(RIGHT, 0) for row in rows
    )


def has_weights(rows: Rows, free: Collection[int], count: int) -> bool:
    """What z3 says."""
    solver, unknown = z3.SolverFor("QF_LRA"), [z3.Real(f"w{number}") for number in range(count)]
    solver.add([weight >= 0 for number, weight in enumerate(unknown) if number not in free])
    for row in rows:
        solver.add(z3.Sum([unknown[key] * k for key, k in row.items() if key >= 0]) == row.get(RIGHT, 0))
    return bool(solver.check() == z3.sat)


def system(seed: int) -> tuple[Rows, set[int], int]:
    rng = random.Random(seed)
    count, most = rng.randint(1, 9), rng.choice((1, 2, 7, 10**9))
    rows = []
    for number in range(rng.randint(1, 7)):
        row = {key: rng.randint(-most, most) for key in rng.sample(range(count), rng.randint(1, count))}
        row[RIGHT] = -1 if number == 0 else rng.choice((0, 0, 0, rng.randint(-most, most)))
        rows.append({key: k for key, k in row.items() if k})
    return rows, {key for key in range(count) if rng.random() < 0.2}, count


def test_as_z3_says() -> None:
    answers = []
    for seed in range(300):
        rows, free, count = system(seed)
        found = weights(rows, free, SearchBudget(10**6))
        assert (found is not None) == has_weights(rows, free, count), seed
        assert found is None or adds_up(rows, free, found), seed
        answers.append(found is not None)
    assert 60 < sum(answers) < 240


@pytest.mark.parametrize(
    ("rows", "free", "expected"),
    [
        ([{0: 2, RIGHT: 3}], (), {0: Fraction(3, 2)}),
        ([{0: 2, RIGHT: -3}], (), None),
        ([{0: 2, RIGHT: -3}], (0,), {0: Fraction(-3, 2)}),
        ([{RIGHT: 1}], (), None),
        ([{}], (), {}),
        ([{0: 1, 1: -1, RIGHT: 1}, {0: 1, 1: -1, RIGHT: 2}], (0, 1), None),  # contradictory free rows
    ],
)
def test_small_systems(rows: Rows, free: Collection[int], expected: dict[int, Fraction] | None) -> None:
    assert weights(rows, free, SearchBudget(1000)) == expected


def test_degenerate_pivots_come_to_an_end() -> None:
    """Beale's example, on which the rule of the steepest column walks in a circle."""
    rows = [
        {0: 1, 3: 25, 4: -60 * 100, 5: -4, 6: 900},
        {1: 1, 3: 50, 4: -90 * 100, 5: -2, 6: 300},
        {2: 1, 5: 1, RIGHT: 1},
        {3: 75, 4: -15000, 5: 2, 6: -600, 7: -1, RIGHT: 5},
    ]
    found = weights(rows, (), SearchBudget(10**5))
    assert (found is not None) == has_weights(rows, (), 8)
    assert found is None or adds_up(rows, (), found)


def test_a_budget_ends_it() -> None:
    rows, free, _ = next(
        one for one in map(system, range(300)) if weights(one[0], one[1], SearchBudget(10**6)) and len(one[0]) > 3
    )
    with pytest.raises(SearchSpentError):
        weights(rows, free, SearchBudget(3))


def test_cases_are_split_on_a_fractional_coordinate_by_the_same_method() -> None:
    """Splits use no z3 object, whose destructor could lose an interrupt."""
    i, j, k = Var("i"), Var("j"), Var("k")
    ranges = ((i, Range(0, 4)), (j, Range(0, 4)), (k, Range(0, 4)))
    split = 0
    with patch.dict(sys.modules, {"z3": None}):
        for a, b, c in ((2, 3, 5), (5, 3, 4), (4, 5, 3)):
            e = i * a + j * b - k * c
            values = {x * a + y * b - z * c for x, y, z in itertools.product(range(4), repeat=3)}
            for gap in [v for v in range(min(values), max(values)) if v not in values][:3]:
                found = combinations(Certificate("", e.ne(gap), ranges=ranges), SearchBudget(10**6))
                if found is not None:
                    assert Certificate("linear", e.ne(gap), ranges=ranges, combinations=found).check()
                    split += any(one.on is not None for one in found)
    assert split > 2


def test_a_search_that_fails_tries_each_claim_once(asked_anew: None) -> None:
    k, m = Var("k"), ShapeVar("m")
    tried: list[tuple[object, ...]] = []

    def nothing(claim: Certificate, basis: Basis, effort: SearchBudget) -> Iterator[Certificate]:
        tried.append((claim.goal, claim.vacuous, claim.facts, claim.ranges))
        return iter(())

    for ranges in ({k: Range(0, 9)}, {k: Range(0, m)}, {k: Range(0, m), Var("j"): Range(k, m)}):
        proof = Context(ranges).prove(k * k >= k)
        tried.clear()
        with (
            patch.object(certify, "_FINDERS", dict.fromkeys(certify._FINDERS, nothing)),
            pytest.raises(InputError, match="no certificate"),
        ):
            proof.certificate()
        assert tried and len(tried) == 4 * len({str(claim) for claim in tried})
