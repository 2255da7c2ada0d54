"""Tests of refusals, from tables of calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from intset import InputError

Call = Callable[[], object]


def refused(calls: Mapping[str, Call], *errors: type[Exception]) -> Callable[[str, Call], None]:
    """A test of each call by its name: an error in one line, of type `InputError` unless others are named."""
    return refused_with_words([pytest.param("", call, id=name) for name, call in calls.items()], *errors)


def refused_by(
    ask: Callable[[Any], object], rows: Mapping[Any, str], *errors: type[Exception]
) -> Callable[[Any], None]:
    """A test of each row: `ask(key)` raises an error whose words match the pattern."""

    @pytest.mark.parametrize("asked", rows)
    def test(asked: Any) -> None:
        with pytest.raises(errors or InputError, match=rows[asked]):
            ask(asked)

    return test


def refused_with_words(rows: Sequence[Any], *errors: type[Exception]) -> Callable[[str, Call], None]:
    """A test of each pair of words and a call: its error, in one line, contains these words; `errors` as above."""

    @pytest.mark.parametrize(("words", "call"), rows)
    def test(words: str, call: Call) -> None:
        with pytest.raises(errors or InputError) as error:
            call()
        assert str(error.value) and words in str(error.value) and "\n" not in str(error.value)

    return test
