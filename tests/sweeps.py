"""How much of a long sweep runs daily: every kind of check does, the rest of its cases is for the night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], share: int) -> list[Any]:
    """Parameters for `parametrize`: every `share`-th case runs daily, the others are marked `nightly`."""
    return [case if k % share == 0 else _nightly(case) for k, case in enumerate(cases)]


def _nightly(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
