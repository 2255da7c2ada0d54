"""The operators of examples/operators equal numpy under every schedule: interpreted, in C, and under the sanitizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from examples.operators import FAMILIES, OPERATORS
from lowering import run, to_c
from lowering.nest.ir import Function
from tests.compilers import need_compiler
from tests.lowering.lowered import run_sanitized

CASES = [(name, schedule) for name, operator in OPERATORS.items() for schedule in operator.schedules]
SLOW = {(name, "cuda") for name in OPERATORS if "conv2d" in name}  # several seconds each
COMPILED = [(next(iter(family)), schedule) for family in FAMILIES.values() for schedule in ("x86", "cuda")]


def problem(name: str, schedule: str) -> tuple[Function, dict[str, Any], dict[str, Any]]:
    """The nest, arrays for its inputs, and numpy's outputs, by name."""
    operator = OPERATORS[name]
    s, args = operator.scheduled(schedule)
    f = tvm.lower(s, args, name=name)
    generator = np.random.default_rng(sum(map(ord, name)))
    arrays = [
        generator.standard_normal(shape).astype(dtype)
        if dtype.startswith("float")
        else generator.integers(0, operator.below, shape).astype(dtype)
        for shape, dtype in operator.inputs
    ]
    outputs = operator.reference(*arrays)
    expected = dict(zip((t.name for t in f.outputs), [outputs] if len(f.outputs) == 1 else outputs, strict=True))
    return f, {t.name: a for t, a in zip(args, arrays, strict=False)}, expected


def close(results: Any, expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("name", "schedule"), [pytest.param(*case, marks=[pytest.mark.nightly] * (case in SLOW)) for case in CASES]
)
def test_an_operator_equals_numpy(name: str, schedule: str) -> None:
    f, given, expected = problem(name, schedule)
    close(run(f, given), expected)


@pytest.mark.parametrize(("name", "schedule"), COMPILED)
def test_an_operator_in_c_equals_numpy(name: str, schedule: str) -> None:
    need_compiler()
    f, given, expected = problem(name, schedule)
    close(run(f, given, backend="c"), expected)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_an_operator_under_the_sanitizers_equals_numpy(name: str, schedule: str) -> None:
    need_compiler()
    f, given, expected = problem(name, schedule)
    close(run_sanitized(f, to_c(f), given, expected, {}), expected)
