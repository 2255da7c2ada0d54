"""Random nests with inputs and their results: the oracle for passes and layouts.

`PlainRuns` compares nests of int32 in the reference interpreter, for every size; `NumpyRuns` compares nests of all
types in the interpreter on numpy arrays. Both strategies reject nests that trap.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from intset import IntSetError
from lowering import parse_nest, run
from lowering.nest.ir import Function
from tests.lowering.plain_interpreter import Array, TrapError, ran
from tests.strategies.nests import EVERYTHING, INTEGERS, MAX_SIZE, Nest

DRAWS = 2  # of the elements, for each size


class PlainRuns:
    """A nest of int32 arrays with its results for all sizes, twice each.

    Attributes
    ----------
    text, f: the nest.
    expected: the elements after each run; None is any value.

    Raises
    ------
    TrapError: the nest has no meaning for some input.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest, self.text, self.f = nest, nest.text, parse_nest(nest.text)
        draws = random.Random(nest.rng.randrange(10**6))
        self.inputs = [(self._arrays(draws), {"n": n}) for n in range(MAX_SIZE + 1) for _ in range(DRAWS)]
        self.expected = [ran(self.f, arrays, sizes, most=2000) for arrays, sizes in self.inputs]

    def _arrays(self, draws: random.Random) -> dict[str, Array]:
        arrays = {}
        for name, shape in self.nest.shapes.items():
            places = np.ndindex(*(e or 0 for e in shape))
            arrays[name] = {place: draws.randint(-1, 3) for place in places}
        if self.nest.padding is not None:
            limit, value = self.nest.padding
            arrays["M"] = {(p, q): value if p * 4 + q >= limit else k for (p, q), k in arrays["M"].items()}
        return arrays

    def agrees(self, f: Function, draw: int = 0) -> None:
        """Fail unless a function computes what the nest does, without a trap, for all inputs."""
        for (arrays, sizes), expected in zip(self.inputs, self.expected, strict=True):
            try:
                found = ran(f, arrays, sizes)
            except TrapError as trap:
                raise AssertionError(f"{sizes}: {trap}") from trap
            for name, array in expected.items():
                same = all(value is None or found[name][place] == value for place, value in array.items())
                assert same, f"{sizes}, {name}: {found[name]} instead of {array}"


def mixed(array: Any, k: int) -> Any:
    """A number that depends on all elements."""
    numbers = np.nan_to_num(array.astype("float64"), posinf=1, neginf=2).reshape(-1)
    return np.asarray((int(sum((j + 3) * x for j, x in enumerate(numbers))) * 7919 + k) % 2039)


def bump(array: Any, k: int) -> None:
    """A host function that stores one element, made of all."""
    flat = array.reshape(-1)
    if flat.size:
        flat[k % flat.size] = mixed(array, k).astype(array.dtype)


def move(source: Any, target: Any) -> None:
    """A host function of two arrays."""
    if source.size and target.size:
        target.reshape(-1)[0] = mixed(source, 0).astype(target.dtype)


class NumpyRuns:
    """A nest with arrays for one size, and its results for three draws of the `undef()`s.

    Attributes
    ----------
    text, f: the nest.
    n: the size.
    arrays: the initial elements of each parameter.
    expected: the arrays after each run.

    Raises
    ------
    IntSetError: the nest has no meaning for these arrays.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest, self.text, self.f = nest, nest.text, parse_nest(nest.text)
        self.n = nest.rng.choice((0, 1, 1, 2, MAX_SIZE))
        draws = np.random.default_rng(nest.rng.randrange(10**6))
        self.arrays: dict[str, Any] = {}
        for name, shape in nest.shapes.items():
            low = 0 if nest.types[name] == "uint8" else -3
            extents = [self.n if e is None else e for e in shape]
            self.arrays[name] = draws.integers(low, 5, extents).astype(nest.types[name])
        if nest.padding is not None:
            limit, value = nest.padding
            self.arrays["M"].reshape(-1)[limit:] = value
        self.expected = [self.ran(self.f, k) for k in range(3)]

    def ran(self, f: Function, draw: int) -> dict[str, Any]:
        """The arrays after a run; every `undef()` depends on `draw`."""
        return self.after(lambda given, undef: run(f, given, {"n": self.n}, _HOST, undef=undef), f, draw)

    def after(self, step: Callable[[dict[str, Any], Any], object], f: Function, draw: int) -> dict[str, Any]:
        """Apply a step to copies of the arrays; gives the copies."""
        drawn = random.Random(draw)
        copies = {name: array.copy() for name, array in self.arrays.items()}
        with np.errstate(all="ignore"):
            step({t.name: copies[t.name] for t in f.params}, lambda dtype: drawn.randint(-2000, 2000))
        return copies

    def agrees(self, f: Function, draw: int = 17) -> None:
        """Fail unless a function computes what the nest does, wherever that does not depend on an `undef()`."""
        self.compare(self.ran(f, draw), f)

    def compare(self, found: dict[str, Any], f: object) -> None:
        for name, array in found.items():
            first, *others = (expected[name] for expected in self.expected)
            # draws of an undef() that overflow look alike
            is_known = np.all([np.equal(first, other) for other in others], axis=0) & np.isfinite(first)
            same = np.equal(array, first) | ~is_known
            assert np.all(same), f"{name}\n{self.text}\n{f}\n{array} {first}"


_HOST = {"bump": bump, "move": move}
Runs = PlainRuns | NumpyRuns


def runs_of(nest: Nest, kind: Callable[[Nest], Any]) -> Any:
    """A nest with its results; rejects one that traps."""
    try:
        return kind(nest)
    except (TrapError, IntSetError):
        return reject()


@st.composite
def plain_runs(draw: st.DrawFn, kinds: Collection[str] = INTEGERS, **options: Any) -> PlainRuns:
    nest = Nest(draw(st.randoms(use_true_random=False)), kinds, **options)
    made: PlainRuns = runs_of(nest, PlainRuns)
    return made


@st.composite
def numpy_runs(
    draw: st.DrawFn, kinds: Collection[str] = EVERYTHING, kind: Callable[[Nest], Any] = NumpyRuns, **options: Any
) -> Any:
    return runs_of(Nest(draw(st.randoms(use_true_random=False)), kinds, **options), kind)
