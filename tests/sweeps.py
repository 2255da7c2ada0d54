"""How much of a long sweep runs daily: every kind of check runs daily; the remaining cases run at night."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest
from hypothesis import given, settings

is_night = False  # whether the run selects nightly tests, too


def daily(cases: Iterable[Any], share: int) -> list[Any]:
    """Parameters for `parametrize`: every `share`-th case runs daily, the others at night, marked `nightly`."""
    if not is_night:
        return list(cases)[::share]
    return [case if k % share == 0 else _nightly(case) for k, case in enumerate(cases)]


def sampled(
    few: int, many: int, *strategies: Any, shows: Collection[object] = ()
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Hypothesis' `given`, with `few` examples daily and `many` at night, the same on every machine.

    Parameters
    ----------
    shows: labels that must occur among the results of the test, a label or a set of labels each, so that a test does
        not pass because its examples show nothing.
    """

    def decorated(test: Callable[..., object]) -> Callable[..., None]:
        @pytest.mark.parametrize("examples", daily([few, many], 2))
        def run(examples: int) -> None:
            shown: set[object] = set()

            @functools.wraps(test)
            def one(*drawn: Any, **named: Any) -> None:
                labels = test(*drawn, **named)
                shown.update(labels if isinstance(labels, (set, frozenset)) else {labels})

            settings(max_examples=examples, derandomize=True)(given(*strategies)(one))()
            assert shown >= set(shows), f"no example shows {set(shows) - shown}"

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorated


def _nightly(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
