"""The reference evaluator against numpy, and rewrites of a schedule against the reference evaluator."""

from typing import Any

import numpy as np
import pytest

from bound import te, tir
from intset.errors import InputError, UndefinedError
from tests.bound.corpus import CASES
from tests.bound.reference import evaluate
from tests.lowering.lowered import inputs_of, random_array


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_a_reduction_over_some_of_its_points() -> None:
    a = te.placeholder((3, 37), name="A")
    k = te.reduce_axis((2, 35), "k")
    c = te.compute((3,), lambda i: te.max(a[i, k] * 2, axis=k, where=tir.floormod(k, 3) != 1), name="C")
    x = random_array(a, {})
    kept = [r for r in range(2, 35) if r % 3 != 1]
    close(evaluate(c, {a: x}), (x[:, kept] * 2).max(1))


def test_gather_and_what_is_undefined() -> None:
    a = te.placeholder((20,), name="A")
    idx = te.placeholder((8,), "int32", name="IDX", value_range=(-3, 24))
    safe = te.compute((8,), lambda i: a[te.max(te.min(idx[i], 7), 4)], name="C")
    x, at = random_array(a, {}), np.array([-3, 0, 4, 5, 7, 8, 24, 6], np.int32)
    close(evaluate(safe, {a: x, idx: at}), x[np.clip(at, 4, 7)])
    raw = te.compute((8,), lambda i: a[idx[i]], name="R")
    with pytest.raises(UndefinedError, match=r"R\[0\] is undefined"):
        evaluate(raw, {a: x, idx: at})
    guarded = te.compute((8,), lambda i: tir.if_then_else(tir.all(idx[i] >= 0, idx[i] < 20), raw[i], 0.0), name="G")
    close(evaluate(guarded, {a: x, idx: at}), np.where((at >= 0) & (at < 20), x[np.clip(at, 0, 19)], 0))
    with pytest.raises(InputError, match="the array for A has shape"):
        evaluate(safe, {a: x[:3], idx: at})
    with pytest.raises(InputError, match="the tensor IDX has no value"):
        evaluate(safe, {a: x})


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("reject_attach")])
def test_rewrites_of_the_corpus_keep_its_meaning(name: str) -> None:
    """Outputs stay equal under caching, rfactor and inlining."""
    case = CASES[name]
    schedule = case["fn"]()
    normal = schedule.normalize()
    inputs = {t: random_array(t, case["sub"]) for t in inputs_of(schedule)}
    functions = {"f": lambda source, target: np.copyto(target, source)}
    before = [stage.origin_op.output(0) for stage in schedule.stages if stage.is_output and stage.origin_op]
    after = [op.output(0) for op in normal.outputs]
    expected, actual = (evaluate(tensors, inputs, case["sub"], functions) for tensors in (before, after))
    for a, b in zip(actual, expected, strict=True):
        close(a, b)
