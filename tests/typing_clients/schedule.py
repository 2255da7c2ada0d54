"""A client under strict typing: a schedule, its bounds, its nest; formulas are lambdas."""

from typing import assert_type

import numpy as np

from bound import infer_bound, te, tir
from bound.infer import BoundsMap
from bound.tir.value import Number, Operand
from intset import Range, Region
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
