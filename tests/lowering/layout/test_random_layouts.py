"""Random functions through layouts and passes: equal where elements are, paddings as promised."""

from __future__ import annotations

import random

import pytest

from lowering import LayoutError, sequential_buffer_access
from lowering.nest.ir import Function
from lowering.nest.tensors import tensors_of
from tests.lowering.layout.random_layouts import Laid
from tests.lowering.test_passes_random import OLD, PASSES


def in_order(f: Function, rng: random.Random) -> Function:
    """Loops over an array that may be in a layout."""
    names = [t.name for t in tensors_of(f)]
    name = rng.choice([n for n in names if names.count(n) == 1])
    try:
        return sequential_buffer_access(f, name)
    except LayoutError:
        return f


def check(seed: int, most: int) -> None:
    laid = Laid(seed)
    rng = random.Random(seed)
    laid.transform(rng.randint(1, 2))
    done: list[str] = []
    f = laid.g
    try:
        laid.agrees(f, seed)
        for _ in range(rng.randint(1, most)):
            name = rng.choice(["in order", "remove_branching_through_overcompute", *PASSES, *OLD])
            done.append(name)
            if name == "in order":
                f = in_order(f, rng)
            else:
                f = PASSES[name](f, report=[]) if name in PASSES else OLD[name](f)
            laid.agrees(f, seed + 17)
    except Exception as error:
        layers = {name: [(layer.map, layer.kind) for layer in some] for name, some in laid.layers.items()}
        raise AssertionError(f"seed {seed}: {layers}, {done}: {error}\n{laid.text}\n{laid.g}\n{f}") from error


@pytest.mark.parametrize("start", range(0, 50, 10))
def test_layouts_keep_the_meaning(start: int) -> None:
    for seed in range(start, start + 10):
        check(seed, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(1000, 2000, 50))
def test_layouts_keep_the_meaning_of_many(start: int) -> None:
    for seed in range(start, start + 50):
        check(seed, 5)
