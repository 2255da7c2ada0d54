"""Every public object answers every question again after it was pickled or copied, here and in another process."""

import contextlib
import copy
import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from intset import IntSetError
from tests.project.asked import (
    TABLES,
    UNPICKLED,
    Answers,
    Calls,
    Made,
    answers,
    drawn,
    elsewhere,
    pickled,
    public_classes,
    samples,
    scheduled,
)
from tests.sweeps import daily

pytestmark = pytest.mark.filterwarnings("ignore")


class Asked(NamedTuple):
    """Samples, their pickle before the first question, and their answers."""

    samples: dict[str, Made]
    before: bytes
    answers: Answers


@pytest.fixture(scope="module")
def asked() -> Asked:
    found = samples()
    before = pickled(found)
    return Asked(found, before, {label: answers(made) for label, made in found.items()})


def test_every_public_class_has_a_sample(asked: Asked) -> None:
    its = [made.it for made in asked.samples.values()]
    missing = [kind.__name__ for kind in public_classes() if not any(isinstance(it, kind) for it in its)]
    assert sorted(missing) == sorted(UNPICKLED)


def test_another_process_gives_the_same_answers(asked: Asked) -> None:
    before, after = elsewhere([asked.before, pickled(asked.samples)])
    assert different(asked.answers, before) + different(asked.answers, after) == []


@pytest.mark.parametrize("number", daily(range(len(TABLES)), len(TABLES)))
def test_calls_with_pickled_names_give_the_same_answers(number: int) -> None:
    names, lines = Calls(number).pickled()
    (found,) = elsewhere([(number, names, lines)])
    assert different({number: Calls(number).answers(lines)}, {number: found}) == []
    assert len(lines) > 50


def _pickled(it: Any) -> Any:
    return pickle.loads(pickle.dumps(it))


def _cloudpickled(it: Any) -> Any:
    return pickle.loads(pytest.importorskip("cloudpickle").dumps(it))


@pytest.mark.parametrize("again", daily([copy.deepcopy, copy.copy, _pickled, _cloudpickled], 4))
def test_copies_give_the_same_answers(again: Callable[[Any], Any], asked: Asked) -> None:
    found = {}
    for label, made in asked.samples.items():
        if again is copy.copy:
            it, given = copy.copy(made.it), made.given
        else:
            it, given = again((made.it, dict(made.given)))  # the arguments name the same variables
        found[label] = answers(Made(it, [], given))
    assert different(asked.answers, found) == []


@pytest.mark.nightly
@pytest.mark.parametrize(("draw", "seeds"), [(drawn, 1_200), (scheduled, 9_000)])
def test_ten_thousand_questions_of_each_class(draw: Callable[[int], dict[str, Made]], seeds: int) -> None:
    number: Counter[str] = Counter()
    for first in range(0, seeds, 50):
        some: dict[str, Made] = {}
        for seed in range(first, first + 50):
            with contextlib.suppress(IntSetError):  # a schedule that is refused
                some |= {f"{label} {seed}": made for label, made in draw(seed).items()}
        before = pickled(some)
        wanted = {label: answers(made) for label, made in some.items()}
        for label, texts in wanted.items():
            number[label.rpartition(" ")[0]] += len(texts)
        for found in elsewhere([before, pickled(some)]):
            assert different(wanted, found) == []
        if min(number.values()) >= 10_000:
            break
    assert min(number.values()) >= 10_000


def different(wanted: Mapping[Any, Mapping[str, str]], found: Mapping[Any, Mapping[str, str]]) -> list[Any]:
    """The questions with other answers, with both."""
    return [
        (label, name, text, found[label].get(name))
        for label in wanted
        for name, text in wanted[label].items()
        if found[label].get(name) != text
    ]
