"""How much of a long sweep runs daily: every kind of check runs daily; the remaining cases run at night."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

RANDOMS = st.randoms(use_true_random=False)
"""Generators of random numbers, which shrink."""

is_night = False  # whether the run selects nightly tests, too


def daily(cases: Iterable[Any], share: int) -> list[Any]:
    """Parameters for `parametrize`: every `share`-th case runs daily, the others at night, marked `nightly`."""
    if not is_night:
        return list(cases)[::share]
    return [case if k % share == 0 else _nightly(case) for k, case in enumerate(cases)]


def turned(rows: Iterable[Any], columns: Sequence[Any], share: int) -> list[Any]:
    """Parameters of pairs: by day every `share`-th column to each row, and another first column to the next row."""
    count = len(columns)
    pairs = [(row, columns[(number + turn) % count]) for number, row in enumerate(rows) for turn in range(count)]
    return daily(pairs, share)


def sampled(
    few: int, many: int, *strategies: Any, shows: Collection[object] = ()
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Hypothesis' `given`, with `few` examples daily and `many` at night, the same on every machine.

    Parameters
    ----------
    shows: labels that must occur among the results of the test, a label or a set of labels each, so that a test does
        not pass because its examples show nothing.
    """

    return swept({"": (few, many, strategies, shows)})


def swept(rows: Mapping[str, tuple[Any, ...]]) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """`sampled` for several strategies, a row each.

    Parameters
    ----------
    rows: by name the numbers of examples, daily and at night, the strategy (or several, in a tuple), and the labels
        that must occur, if any; fixed arguments precede drawn arguments. A row of 0 is for the night.
    """
    cases = [(name, row[0]) for name, row in rows.items() if row[0]]
    cases += [_nightly((name, row[1])) for name, row in rows.items()] if is_night else []

    def decorated(test: Callable[..., object]) -> Callable[..., None]:
        @pytest.mark.parametrize(("name", "examples"), cases)
        def run(name: str, examples: int) -> None:
            _, _, drawn, shows, *options = (*rows[name], ()) if len(rows[name]) == 3 else rows[name]
            shown: set[object] = set()

            @functools.wraps(test)
            def one(*values: Any, **named: Any) -> None:
                labels = test(*values, **named)
                shown.update(labels if isinstance(labels, (set, frozenset)) else {labels})

            strategies = drawn if isinstance(drawn, tuple) else (drawn,)
            settings(max_examples=examples, derandomize=True)(given(*strategies)(one))(*options)
            assert shown >= set(shows), f"no example shows {set(shows) - shown}"

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorated


def _nightly(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
