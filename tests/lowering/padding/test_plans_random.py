"""Plans of random graphs match exhaustive enumeration in cost and numpy in results."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.lowering.padding.enumeration import least_cost, random_case
from tests.sweeps import daily


@pytest.mark.parametrize("seed", daily(range(2000), 160))
def test_no_plan_costs_less(seed):
    case = random_case(seed, 1 + seed % 5)
    plan = case.graph.plan()
    assert plan.is_cheapest
    found = least_cost(case, plan.cost)
    if found is None:
        pytest.skip("too many ways to try them all")
    assert found == plan.cost


@pytest.mark.parametrize("seed", daily(range(1000), 100))
def test_no_plan_costs_less_at_other_prices(seed):
    prices = dict(zip(("pad", "copy", "crop", "fill"), random.Random(seed).choices((1, 1, 2, 3, 9), k=4), strict=True))
    case = random_case(seed, 1 + seed % 4)
    plan = case.graph.plan(cost=lambda step: step.elements * prices.get(step.kind, 0))
    found = least_cost(case, plan.cost, prices)
    if found is None:
        pytest.skip("too many ways to try them all")
    assert found == plan.cost


@pytest.mark.parametrize("seed", daily(range(2000), 100))
def test_a_plan_computes_what_numpy_does(seed):
    """Run with poisoned unwritten memory and random `undef()` values; results equal the reference."""
    rng = random.Random(seed)
    dtype = rng.choice(("int8", "int32", "int16"))
    case = random_case(seed, 1 + seed % 8, dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.random.default_rng(seed).integers(low, high, 14, dtype, endpoint=True)
    plan = case.graph.plan()
    results = plan.run({"x": x}, undef=lambda dtype: rng.randrange(low, high + 1))
    for found, wanted in zip(results, case.reference(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
