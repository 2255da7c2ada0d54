"""Operators that move elements: dilate, gather, scatter, flip, strided_slice, concatenate."""

from typing import Any

import numpy as np

from examples.operators.common import INJECTIVE, Operator
from lowering.tvm import te, tir


def dilate(data: te.Tensor) -> te.Tensor:
    """Elements with zeros between them: rows at a distance of 2, columns of 3."""
    m, n = data.shape
    return te.compute(
        ((m - 1) * 2 + 1, (n - 1) * 3 + 1),
        lambda i, j: tir.if_then_else(
            tir.all(tir.indexmod(i, 2).equal(0), tir.indexmod(j, 3).equal(0)),
            data[tir.indexdiv(i, 2), tir.indexdiv(j, 3)],
            tir.const(0.0, data.dtype),
        ),
        name="dilate",
        tag="injective,dilate",
    )


def gather(data: te.Tensor, places: te.Tensor) -> te.Tensor:
    """`data[places[i, j], j]`, as numpy's take_along_axis; a place outside gives the element at the border."""
    rows = data.shape[0]
    return te.compute(
        places.shape, lambda i, j: data[te.max(te.min(places[i, j], rows - 1), 0), j], name="gather", tag="injective"
    )


def scatter(data: te.Tensor, places: te.Tensor, updates: te.Tensor) -> te.Tensor:
    """The data with `updates[k]` at `places[k]`: each element selects the last update of its place."""
    count = int(places.shape[0])

    def element(i: Any) -> Any:
        chosen = data[i]
        for k in range(count):
            chosen = tir.Select(places[k].equal(i), updates[k], chosen)
        return chosen

    return te.compute(data.shape, element, name="scatter", tag="injective")


def flip(data: te.Tensor) -> te.Tensor:
    """The columns in reverse."""
    m, n = data.shape
    return te.compute((m, n), lambda i, j: data[i, n - 1 - j], name="flip", tag="injective")


def strided_slice(data: te.Tensor) -> te.Tensor:
    """`data[1::2, ::-3]`."""
    m, n = data.shape
    return te.compute(
        (m // 2, (n + 2) // 3), lambda i, j: data[1 + i * 2, n - 1 - j * 3], name="slice", tag="injective"
    )


def concatenate(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
    """Three matrices side by side."""
    first, second = a.shape[1], a.shape[1] + b.shape[1]
    return te.compute(
        (a.shape[0], second + c.shape[1]),
        lambda i, j: tir.if_then_else(
            j < first, a[i, j], tir.if_then_else(j < second, b[i, j - first], c[i, j - second])
        ),
        name="concatenate",
        tag="injective",
    )


def _dilated(a: Any) -> Any:
    out = np.zeros(((a.shape[0] - 1) * 2 + 1, (a.shape[1] - 1) * 3 + 1), a.dtype)
    out[::2, ::3] = a
    return out


def _scattered(a: Any, places: Any, updates: Any) -> Any:
    out = a.copy()
    for place, update in zip(places, updates, strict=True):
        out[place] = update
    return out


F, WHOLE = "float32", "int32"
OPERATORS = {
    "dilate": Operator(dilate, (((4, 5), F),), ((256, 256),), _dilated, INJECTIVE),
    "gather": Operator(
        gather,
        (((5, 6), F), ((4, 6), WHOLE)),
        ((256, 256), (256, 256)),
        lambda a, p: np.take_along_axis(a, p, axis=0),
        INJECTIVE,
    ),
    "scatter": Operator(scatter, (((9,), F), ((5,), WHOLE), ((5,), F)), ((4096,), (5,), (5,)), _scattered, INJECTIVE),
    "flip": Operator(flip, (((4, 11), F),), ((256, 256),), lambda a: a[:, ::-1], INJECTIVE),
    "strided_slice": Operator(strided_slice, (((7, 11), F),), ((256, 256),), lambda a: a[1::2, ::-3], INJECTIVE),
    "concatenate": Operator(
        concatenate,
        (((4, 3), F), ((4, 5), F), ((4, 2), F)),
        ((256, 64), (256, 128), (256, 64)),
        lambda *parts: np.concatenate(parts, axis=1),
        INJECTIVE,
    ),
}
