"""The tests of `intset` see it alone: float operands are refused, also where another test has loaded `bound`."""

import pytest

from intset.expr.node import FLOATS


@pytest.fixture(autouse=True)
def integers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FLOATS, "binary", None)
