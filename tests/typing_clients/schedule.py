"""A client under strict typing: a schedule, its bounds, its nest; formulas are lambdas."""

from __future__ import annotations

from typing import assert_type

import numpy as np

from bound import infer_bound, te, tir
from bound.infer import BoundsMap
from bound.te import TensorSlice
from bound.tensor import Comparison, Loaded
from bound.tir.value import Number, Operand, Value
from intset import Cond, Context, Expr, Range, Region, Var, evaluate
from lowering import Function, IndexMap, lower, lower_division, run, to_c, transform_layout


def formulas() -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    n = te.size_var("n")
    a = te.placeholder((n, 64), name="A")
    b: te.Tensor = te.compute((n, 64), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    k = te.reduce_axis((0, 64), name="k")
    total = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    assert_type(total, te.Tensor)
    both = te.compute((n,), lambda i: (total[i] + 1.0, total[i] * 2.0), name="D")
    assert_type(both, tuple[te.Tensor, ...])
    deep = te.compute((2, 2, 2, 2), lambda x, y, z, w: tir.if_then_else(x > 0, a[x, y], a[z, w]), name="E")
    assert_type(deep, te.Tensor)

    def more(*indices: te.IterVar) -> Operand:
        return tir.exp(b(*indices))

    named: te.Tensor = te.compute((n, 64), more, name="F")
    print(named.shape)
    peak = te.comm_reducer(_larger, _least, name="peak")
    assert_type(te.compute((n,), lambda i: peak((i, b[i, k]), axis=k), name="P"), tuple[te.Tensor, ...])
    outside = te.extern((n,), [total], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="G")
    assert_type(outside, te.Tensor)
    return te.create_schedule(total.op), a, total


def elements() -> None:
    n = te.size_var("n")
    a, b = te.placeholder((n, 64), name="A"), te.placeholder((n,), "int32", name="B", value_range=(0, 63))
    i, j = te.var("i"), te.var("j")
    assert_type(a[i, j], Loaded)
    assert_type(a(i, j), Loaded)
    assert_type(a[i, j] * 2.0 + 1.0, Loaded)
    assert_type(2 * a[i, j] - b[i], Loaded)
    assert_type(-abs(a[i, j]) / 3.0, Value)
    assert_type(a[0:4, 1], TensorSlice)
    assert_type(a[i][j], Loaded)
    value: Operand = a[i, b[i]]
    index: Expr = b[i] // 4 + b[i] % 4
    both = (a[i, j] > 0.5) & (b[i] < n) | ~(a[i, j] <= b[i])
    assert_type(both, Comparison)
    print(value, index, both, Context({i: Range(0, n)}).bounds(b[i] * 2))
    gather: te.Tensor = te.compute((n,), lambda x: a[b[x] // 2, x % 64] + a[x, 0] * 0.5, name="G")
    relu = te.compute((n, 64), lambda x, y: te.max(a[x, y], 0.0), name="R")

    def difference(*indices: te.IterVar) -> Operand:
        return a[indices] - gather[indices[0]]

    spread: te.Tensor = te.compute((n, 64), difference, name="S")
    chosen = te.compute((n,), lambda x: tir.Select(b[x] >= 3, gather[x], -gather[x]), name="H")
    guarded = te.compute((n,), lambda x: te.if_then_else(te.all(b[x] > 0, x < 9), a[x, b[x]], 0.0), name="I")
    k = te.reduce_axis((0, 64), "k")
    dot = te.compute((n,), lambda x: te.sum(a[x, k] * spread[x, k], axis=k, where=a[x, k] > 0.0), name="T")
    cast = te.compute((n,), lambda x: a[x, 3].astype("float64") * b[x].astype("float64"), name="U")
    made: list[te.Tensor] = [gather, relu, spread, chosen, guarded, dot, cast]
    print(made)


def lowered() -> None:
    i = Var("i")
    division = lower_division(i // 3, Context({i: Range(0, 9)}))
    assert_type(division.expr, Expr)
    assert_type(lower_division((i // 3).eq(2)).expr, Cond)
    ctx = Context({i: Range(0, 9)})
    assert_type(ctx.simplify(i // 9, steps=True).expr, Expr)
    assert_type(ctx.simplify(i < 9, steps=True).expr, Cond)
    print(evaluate(division.expr, {i: 5}), division.expr + 1, division.steps[0].rule)


def bounds_and_nest() -> None:
    s, a, c = formulas()
    (axis,) = s[c].op.axis
    outer, _inner = s[c].split(axis, factor=8)
    b = infer_bound(s, at={"n": 128})
    assert_type(b, BoundsMap)
    assert_type(b[outer], Range)
    required: Region = b.required(a)
    print(required.box, b.at({"n": 64}).allocated(a))
    f = lower(s, [a, c], at={"n": 128})
    assert_type(f, Function)
    out = run(f, {a: np.ones((128, 64), np.float32)})
    print(out["C"].shape, out["C"].sum(), to_c(f))
    print(lower_division(axis // 3).explain())
    m = IndexMap(lambda i, j: (i // 4, j, i % 4), (128, 64))
    print(m.pack(np.ones((128, 64)), 0.0).shape, transform_layout(f, "A", lambda i, j: (j, i)))


def caches() -> None:
    s, _, c = formulas()
    assert_type(s.cache_write(c, "local"), te.Tensor)
    assert_type(s.cache_write([c], "local"), list[te.Tensor])


def _larger(x: tuple[Number, ...], y: tuple[Number, ...]) -> tuple[Operand, Operand]:
    return tir.if_then_else(x[1] >= y[1], x[0], y[0]), tir.max(x[1], y[1])


def _least(index: str, value: str) -> tuple[Operand, Operand]:
    return tir.const(-1, index), tir.min_value(value)
