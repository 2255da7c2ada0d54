"""The cost of a query in isl's operations is independent of earlier queries, so budgets are reproducible."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from intset import Context, IntSet, Range, ShapeVar, Var, using
from intset.domains.isl.bindings import bindings

Question = Callable[[], IntSet]


def box() -> IntSet:
    i, j = Var("i"), Var("j")
    return Context({i: Range(0, 50), j: Range(0, 7)}).value_set((i * 7 + j * 3) % 40 // 3 + j, domain="isl")


def sized() -> IntSet:
    i, n, m = Var("i"), ShapeVar("n"), ShapeVar("m")
    return Context({i: Range(0, n)}, assume=[i * 3 <= m]).value_set(i // 2 + m % 5, domain="isl")


def many() -> IntSet:
    variables = [Var(f"x{k}") for k in range(5)]
    total = sum((var * (k + 2) for k, var in enumerate(variables)), variables[0] % 3)
    return Context({var: Range(k, 4) for k, var in enumerate(variables)}).value_set(total % 11, domain="isl")


QUESTIONS: tuple[Question, ...] = (box, sized, many)


@pytest.fixture(autouse=True)
def _nothing_is_collected_meanwhile() -> Iterator[None]:
    """Disable garbage collection: memory freed inside a query saves counted allocations."""
    gc.disable()
    yield
    gc.enable()


def least(question: Question) -> int:
    """The smallest budget in which isl answers."""
    low, high = 1, 1 << 14
    while low < high:
        middle = (low + high) // 2
        with using(isl_operations=middle):
            enough = not any("gave up" in note for note in question().notes)
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


@pytest.mark.skipif(bindings() is None, reason="islpy does not show what clears isl's blocks of memory")
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_least_budget_is_the_same_first_and_last(question: Question) -> None:
    found = set()
    for before in (0, 40):
        with ThreadPoolExecutor(1) as other:  # with an isl context of its own
            kept = [Var("other") for _ in range(before)]
            first = other.submit(least, question).result()
            held = [other.submit(ask).result() for ask in (*QUESTIONS, *QUESTIONS[::-1])]
            found |= {first, other.submit(least, question).result()}
            del held, kept
    assert len(found) == 1 and 100 < min(found) < 1 << 14
