"""Reductions from any minimum, of one value or of several, factored, cached, attached, with known ranges."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.tensor import Tensor
from intset import Var
from lowering import lower, run
from tests.bound.oracle import check_claims
from tests.bound.reference import evaluate
from tests.lowering.lowered import check, random_array
from tests.sweeps import daily


def argmax(first_of_equals: bool = True) -> Any:
    def larger(x: Any, y: Any) -> Any:
        left = x[1] > y[1]
        if first_of_equals:
            left = tir.any(left, tir.all(x[1] >= y[1], x[0] < y[0]))
        return tir.Select(left, x[0], y[0]), tir.Select(left, x[1], y[1])

    return te.comm_reducer(larger, lambda a, b: (tir.const(-1, a), te.min_value(b)), "argmax")


def sums() -> Any:
    """A reducer of a sum, a product and a second sum."""
    return te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1], x[2] + y[2]),
        lambda a, b, c: (tir.const(0, a), tir.const(1, b), tir.const(0, c)),
        "sums",
    )


class Reduction:
    """A random reduction that some stage reads one output of, and a random schedule of both.

    Parameters
    ----------
    seed: chooses everything.
    """

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.sizes: dict[Var, int] = {}
        self.n = rng.randint(1, 7)
        self.source = te.placeholder((14, 14, 14), name="A")
        self.axes = [self._axis(f"k{d}") for d in range(rng.choice((1, 1, 2)))]
        self.outputs = self._reduction()
        self.read = rng.choice(self.outputs)
        self.out = te.compute((self.n,), lambda i: self.read[i] * 2 + self.read[self.n - 1 - i], name="out")
        self.s = te.create_schedule(self.out.op)
        self._schedule()

    def _axis(self, name: str) -> Any:
        """A reduction from -3 or more; its extent may be a size."""
        low, extent = self.rng.randint(-3, 5), self.rng.randint(1, 5)
        if self.rng.random() < 0.3:
            size = te.size_var(name + "_n")
            self.sizes[size] = extent
            return te.reduce_axis((low, low + size), name)
        return te.reduce_axis((low, low + extent), name)

    def _reduction(self) -> tuple[Tensor, ...]:
        rng, axes = self.rng, self.axes
        kind = rng.choice(("sum", "max", "argmax", "sums", "sums"))
        where = rng.choice((None, None, (axes[0] + 1) % 3 > 0, axes[-1] >= 1))

        def element(i: Any, step: int = 1) -> Any:
            place = (i, axes[0] + 3, axes[-1] * step + 3)
            return self.source[tuple(te.max(te.min(x, 13), 0) for x in place)]

        def formula(i: Any) -> Any:
            if kind == "argmax":
                return argmax()((axes[0] - axes[0] // 7, element(i)), axis=axes, where=where)
            if kind == "sums":
                terms = (element(i), element(i, 0) * 0.5 + 1.0, element(i) + i)
                return sums()(terms, axis=axes, where=where)
            return (te.sum if kind == "sum" else te.max)(element(i), axis=axes, where=where)

        made = te.compute((self.n,), formula, name="R")
        return made if isinstance(made, tuple) else (made,)

    def _schedule(self) -> None:
        rng, s = self.rng, self.s
        stage = s[self.read]
        leaves: list[Any] = list(self.axes)
        for _ in range(rng.randint(0, 2)):
            axis = leaves.pop(rng.randrange(len(leaves)))
            by = rng.choice(("factor", "nparts"))
            leaves += stage.split(axis, **{by: rng.randint(1, 4)})
        if len(leaves) > 1 and rng.random() < 0.3:
            stage.reorder(*leaves)
            leaves = [stage.fuse(leaves[0], leaves[1]), *leaves[2:]]
        partial: Any = None
        if rng.random() < 0.7:
            made = s.rfactor(self.read, rng.choice(leaves), factor_axis=rng.choice((0, 1, -1)))
            partial = made if isinstance(made, Tensor) else made[0]
        elif rng.random() < 0.3:
            cached = s.cache_write(list(self.outputs) if len(self.outputs) > 1 else self.read, "local")
            partial = cached if isinstance(cached, Tensor) else cached[0]
        if rng.random() < 0.6:
            outer, _ = s[self.out].split(self.out.op.axis[0], factor=rng.randint(1, 4))
            s[self.read].compute_at(s[self.out], rng.choice((outer, *s[self.out].leaf_iter_vars)))
        if partial is not None and rng.random() < 0.6:
            s[partial].compute_at(s[self.read], rng.choice(list(s[self.read].leaf_iter_vars)))


def holds(seed: int) -> bool:
    """Draw a schedule and compare its results with numpy; `False` for a schedule that is refused."""
    try:
        program = Reduction(seed)
        bounds = infer_bound(program.s)
    except ScheduleError:
        return False
    given = {"A": random_array(program.source, {}, seed)}
    expected = evaluate(program.out, given, program.sizes)
    f = lower(program.s, bounds=bounds)
    actual = run(f, given, program.sizes)["out"]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    check_claims(bounds, program.sizes)
    return True


@pytest.mark.parametrize(
    ("seeds", "least"), daily([(range(6), 2), *((range(k, k + 500), 250) for k in range(1000, 21000, 500))], 50)
)
def test_random_reductions(seeds: range, least: int) -> None:
    assert sum(map(holds, seeds)) >= least


@pytest.mark.parametrize("read", range(3))
def test_of_independent_results_only_what_is_read_is_kept(read: int) -> None:
    a = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((2, 5), "k")
    made = te.compute((4,), lambda i: sums()((a[i, k], a[i, k] + 1.0, a[i, k] * 2.0), axis=k), name="R")
    out = te.compute((4,), lambda i: made[read][i] + 1.0, name="out")
    s = te.create_schedule(out.op)
    f = check(s)
    assert [f"R.v{n}" in str(f) for n in range(3)] == [n == read for n in range(3)]


A = te.placeholder((9,), name="A", dtype="int32")


def larger(a: Any, b: Any) -> Any:
    return tir.Select(a[1] >= b[1], a[0], b[0]), tir.Select(a[1] >= b[1], a[1], b[1])


def test_a_finished_element_is_known_and_an_unfinished_one_is_not() -> None:
    k, x = te.reduce_axis((0, 3), "k"), Var("x")
    out = te.compute((4,), lambda i: te.max(k.var + i, axis=k), name="out")
    assert (out.element.lower, out.element.upper) == (0, 5)
    assert out.unfinished.lower == -(2**31) and out.unfinished.upper == 5
    total = te.compute((4,), lambda i: te.sum(k.var + i, axis=k), name="total")
    assert total.unfinished is total.element and str(out.unfinished(x)) == str(out[x])
