"""The budgets of isl: the cost of a query depends on no earlier one, and some operations count several times."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from intset import Context, IntSet, Range, ShapeVar, UndecidedError, Var, cast, using
from intset.domains.isl.session import budget, context, isl, weighed
from intset.errors import BudgetError

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


# -- operations that count several times -------------------------------------------------------------------------------


def work(times: int) -> None:
    for _ in range(times):
        isl().works(context())  # one operation each


def runs(times: int, limit: int, weight: int, after: int = 0) -> bool:
    try:
        with budget(limit):
            with weighed(weight):
                work(times)
            work(after)
    except BudgetError:
        return False
    return True


@pytest.mark.parametrize("weight", [1, 2, 8])
def test_operations_count_several_times(weight: int) -> None:
    assert runs(700 // weight, 1_000, weight)
    assert not runs(1_300 // weight, 1_000, weight)


def test_they_are_charged_to_the_budget_around() -> None:
    assert runs(100, 1_000, 2, after=500)
    assert not runs(100, 1_000, 8, after=500)


def test_without_a_budget_nothing_changes() -> None:
    with weighed(16):
        work(1_000)
    work(10)


def test_a_budget_goes_on_after_a_block_that_was_refused() -> None:
    with pytest.raises(BudgetError), budget(1_000), weighed(8):
        work(1_000)
    assert runs(10, 1_000, 1)


def test_extrema_over_ranges_that_depend_on_others_are_refused_soon() -> None:
    i, j, n = Var("i"), Var("j"), ShapeVar("n")
    region = Context({i: Range(n + 1, 8), j: Range(i * 2 + 1, 5)}).image((j % 6, cast(j, 32)))
    start = time.process_time()
    for ask in (region.lexmin, region.lexmax):
        with pytest.raises(UndecidedError):
            ask()
    assert time.process_time() - start < 30  # not a measurement: without a budget it would not end


def test_a_budget_inside_a_weighed_block_keeps_its_weight() -> None:
    """A nested budget ends with the limit of the weighed block around it, not with that of the budget outside."""

    def nested() -> None:
        with budget(1_600), weighed(16):
            with budget(50):
                pass
            work(150)

    with pytest.raises(BudgetError):
        nested()


def test_a_set_is_printed_after_the_budget_is_spent() -> None:
    """isl can end the process when it meets its limit while it prints."""
    points = isl().Set.read_from_str(context(), "[n] -> { [i] : exists e : 0 <= i < n and i = 7e + 3 }")
    texts = [str(points)]

    def printed() -> None:
        with budget(50):
            work(60)
            texts.append(str(points))

    with pytest.raises(BudgetError):
        printed()
    assert texts[0] == texts[1]
