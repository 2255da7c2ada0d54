"""Renamed public names answer under the old name with a warning, until 1.0."""

from __future__ import annotations

import doctest
import importlib
import sys
from collections.abc import Sequence

import pytest

import intset
from intset import deprecation
from intset.deprecation import RenamedMethod, renamed
from intset.expr.node import Cond, Var
from intset.regions.listed import ListedPoints


class Box:
    def lexmin(self, axis: int) -> int:
        return axis

    @property
    def extent(self) -> int:
        return 4

    smallest = RenamedMethod("lexmin")
    size = RenamedMethod("extent")


def test_the_example_runs() -> None:
    assert doctest.testmod(deprecation).failed == 0


def test_methods_and_properties_keep_their_old_names() -> None:
    with pytest.warns(DeprecationWarning, match=r"Box\.smallest is now Box\.lexmin") as caught:
        assert Box().smallest(3) == 3
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"Box\.size is now Box\.extent"):
        assert Box().size == 4


def test_a_name_of_another_module_is_served() -> None:
    get = renamed({"__name__": "shop"}, {"gcd": "math:gcd"})
    with pytest.warns(DeprecationWarning, match=r"shop\.gcd is now math\.gcd"):
        assert get("gcd")(4, 6) == 2
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'lcm'"):
        get("lcm")


def test_shapes_of_others_may_use_old_names() -> None:
    with pytest.warns(DeprecationWarning, match=r"Old\.restricted is now Old\.filter"):

        class Old(ListedPoints):
            def restricted(self, point: Sequence[Var], condition: Cond) -> Old:
                return self

    x, shape = Var("x"), Old(1, [(1,)])
    assert shape.filter([x], x > 5) is shape
    with pytest.warns(DeprecationWarning, match=r"Shape\.within is now Shape\.intersect_params"):
        assert ListedPoints.within is ListedPoints.intersect_params


@pytest.mark.parametrize("old", sorted(intset._MOVED))
def test_a_moved_module_is_served(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {intset._MOVED[old]}"):
        assert importlib.import_module(old) is importlib.import_module(intset._MOVED[old])
