"""Contracts of random nests in random layouts hold at run time, whether interpreted or inferred by dataflow."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bound.tensor import Tensor
from intset.errors import ParseError
from lowering import CheckError, Function, LayoutError, PadValue, contract, parse_nest, remove_undef, run
from lowering.padding.partial_evaluation import Content, PartialEvaluator, as_element
from lowering.padding.states import PLACE, Grid
from lowering.passes import remove_branching_through_overcompute
from tests.lowering.equivalence import runs_of
from tests.lowering.layout.random_layouts import PACKED, Laid
from tests.lowering.layout.test_random_layouts import in_order
from tests.strategies.nests import Nest, nests
from tests.sweeps import sampled


def random_function(nest: Nest, rng: random.Random) -> tuple[Function, dict[str, Any]]:
    """Bring a nest of constant size into random layouts; gives it with its logical arrays."""
    laid = runs_of(nest, Laid)
    laid.f = laid.g = parse_nest(re.sub(r"\bn\b", str(laid.n), laid.text).replace(f", {laid.n}):", "):", 1))
    laid.transform(rng.randint(1, 3))
    f: Function = laid.g
    for _ in range(rng.randint(0, 2)):
        change = rng.choice([lambda g: in_order(g, rng), remove_branching_through_overcompute, remove_undef])
        f = change(f)
    return f, laid.arrays


def value_at(value: PadValue, place: tuple[int, ...], arrays: dict[str, Any], grids: dict[str, Grid]) -> Any:
    """Evaluate a padding value at one element; loads read the arrays."""

    def load(tensor: Tensor, at: Sequence[Content]) -> Content:
        element: Content = arrays[tensor.name][grids[tensor.name].storage(tuple(at))].item()  # type: ignore[arg-type]
        return element

    return PartialEvaluator(load)(value.expr, dict(zip(PLACE, place, strict=False)))


@sampled(6, 600, nests(kinds=PACKED), st.randoms(use_true_random=False), st.booleans(), shows={True})
def test_contracts_hold(nest: Nest, rng: random.Random, by_dataflow: bool) -> bool:
    try:
        f, first = random_function(nest, rng)
    except ParseError:  # a range of this size is empty
        return False
    with pytest.MonkeyPatch.context() as patch:
        if by_dataflow:
            patch.setattr("lowering.padding.concrete.TRACE_STEPS", -1)
        try:
            c = contract(f)
        except LayoutError:  # a result depends on padding
            return False
    grids = {t.name: Grid(f.layouts[t.name]) for t in f.params if t.name in f.layouts}
    draws = np.random.default_rng(0)
    results: list[dict[str, Any]] = []
    for _ in range(2):  # draws arbitrary paddings twice
        arrays: dict[str, Any] = {}
        for t in f.params:
            array = first[t.name].astype(t.dtype)
            if t.name in grids:
                array = grids[t.name].layout.pack(array, array.dtype.type(0))
                for place in grids[t.name].padding:
                    need = c.needs.get(t.name)
                    value = value_at(need, place, {t.name: array}, grids) if isinstance(need, PadValue) else None
                    array[grids[t.name].storage(place)] = draws.integers(0, 50) if value is None else value
            arrays[t.name] = array
        given = {name: array.copy() for name, array in arrays.items()}
        draw = random.Random(5)
        try:
            run(f, arrays, undef=lambda dtype, draw=draw: draw.randrange(-20, 20))
        except CheckError:
            return False  # the nest assumes something false
        for t in f.outputs:
            state = c.gives.get(t.name)
            for place in grids[t.name].padding if isinstance(state, PadValue) else ():
                wanted = as_element(value_at(state, place, given, grids), t.dtype)
                np.testing.assert_equal(arrays[t.name][grids[t.name].storage(place)].item(), wanted)
        names = [t.name for t in f.outputs]
        results.append({n: grids[n].layout.unpack(arrays[n]) if n in grids else arrays[n] for n in names})
    for name, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][name], f"{f}\n{c}")
    return True
