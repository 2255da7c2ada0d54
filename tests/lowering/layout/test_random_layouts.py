"""Random functions through layouts and passes: equal where elements are, paddings as promised."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from intset import Var
from intset.expr.dag import substitute
from lowering import (
    IndexMap,
    LayoutError,
    cache_read,
    cache_write,
    hoist_layouts,
    parse_nest,
    run,
    sequential_buffer_access,
    transform_layout,
    undef,
)
from lowering.layout.index_map import IndexNumber
from lowering.nest.ir import Function
from lowering.nest.scope import tensors_of
from tests.lowering.equivalence import numpy_runs
from tests.lowering.layout.random_layouts import PACKED, Laid, random_layer
from tests.lowering.passes.test_passes_random import OLD, PASSES
from tests.sweeps import sampled

RANDOM = st.randoms(use_true_random=False)
LAID = numpy_runs(kinds=PACKED, kind=Laid)


def in_order(f: Function, rng: random.Random) -> Function:
    """Try `sequential_buffer_access` on a random array."""
    names = [t.name for t in tensors_of(f)]
    name = rng.choice([n for n in names if names.count(n) == 1])
    try:
        return sequential_buffer_access(f, name)
    except LayoutError:
        return f


@sampled(10, 3000, LAID, RANDOM)
def test_layouts_keep_the_results(laid: Laid, rng: random.Random) -> None:
    """Passes over random layouts keep all elements, the promised padding, and which tensors have padding."""
    laid.transform(rng.randint(1, 2))
    done: list[str] = []
    f = laid.g
    try:
        laid.agrees(f)
        for _ in range(rng.randint(1, 2)):
            name = rng.choice(["in order", "remove_branching_through_overcompute", *PASSES, *OLD])
            done.append(name)
            if name == "in order":
                f = in_order(f, rng)
            else:
                f = PASSES[name](f, report=[]) if name in PASSES else OLD[name](f)
            laid.agrees(f)
            assert {t.name for t in f.padding} == {t.name for t in laid.g.padding}
    except Exception as error:
        layers = {name: [(layer.map, layer.kind) for layer in some] for name, some in laid.layers.items()}
        raise AssertionError(f"{layers}, {done}: {error}\n{laid.text}\n{laid.g}\n{f}") from error


@sampled(3, 500, LAID, RANDOM)
def test_copies_at_the_border_keep_the_results(laid: Laid, rng: random.Random) -> None:
    """Random layouts of cached copies, and hoisted layouts, keep all results."""
    f = laid.f
    for t in laid.f.params:
        try:
            f = (cache_write if t in f.outputs else cache_read)(f, t.name)
        except LayoutError:  # which elements are stored to depends on data
            continue
        if rng.random() < 0.8:
            f, _ = random_layer(f, f"{t.name}C", rng)
    laid.agrees(f)
    h = hoist_layouts(f)
    for draw in range(2):
        laid.compare(laid.after(lambda given, undef: h.run(given, {"n": laid.n}, undef=undef), laid.f, draw), h)


SYMBOLIC = (
    "for i in [0, N):\n        B[i] = A[i] + 1",
    "for i in [0, N):\n        B[N - 1 - i] = A[i]\n    for i in [0, N):\n        B[i] = B[i] * 2",
    "for i in [0, N):\n        B[i] = A[0] + i\n        if i > 0:\n            B[i] = B[i - 1] + A[i]",
    "allocate T: int32[N]\n    for i in [0, N):\n        T[i] = A[i]\n    for j in [0, N):\n        B[j] = T[N-1-j]",
)


@sampled(4, 250, RANDOM)
def test_layouts_of_any_size_keep_the_results(rng: random.Random) -> None:
    f = parse_nest(f"def f(A: int32[N], B: int32[N], N):\n    {rng.choice(SYMBOLIC)}")
    n = f.sizes[0]
    c, o = rng.randint(2, 4), rng.randint(0, 3)
    maps: list[Any] = [
        lambda i: [i // c, i % c], lambda i: [(i + o) // c, (i + o) % c], lambda i: [n - 1 - i], lambda i: [i * c + o],
        lambda i: [i - o], lambda i: [i // (2 * c), i // c % 2, i % c],
    ]  # fmt: skip
    g, layers = f, {}
    for name in rng.sample([t.name for t in tensors_of(f)], 2):
        m = rng.choice(maps)
        value = rng.choice([None, 0, undef(), lambda *place: place[0] + n, lambda *place: [(place[0] > 1, 4)]])
        layers[name] = (m, value)
        g = transform_layout(g, name, m, value)
    for _ in range(2):
        name = rng.choice(["remove_branching_through_overcompute", *PASSES])
        g = in_order(g, rng) if name == "sequential_buffer_access" else PASSES[name](g, report=[])
    for size in (0, 1, 2, 5, 8):
        a = np.arange(3, 3 + size, dtype="int32")
        b = run(f, {"A": a})["B"]
        given = _packed(layers["A"], a, n, size) if "A" in layers else a
        result = run(g, {"A": given}, {"N": size}, undef=lambda dtype: 999)["B"]
        if "B" in layers:
            m, value = layers["B"]
            layout = at_size(m, n, size)
            found = _packed(layers["B"], b, n, size)
            if isinstance(value, int) or callable(value):
                told = layout.pack(np.zeros(size, "bool"), True) & (found != 777)
                assert (result == found)[told].all(), (size, str(g))
            result = layout.unpack(result)
        assert (result == b).all(), (size, str(g))


def _packed(layer: tuple[Any, Any], array: Any, n: Var, size: int) -> Any:
    """Pack an array at one size; padding without a stated value is 777."""
    m, value = layer
    layout = at_size(m, n, size)
    found = layout.pack(array, value if isinstance(value, int) else 777)
    if callable(value):
        for at in np.argwhere(layout.pack(np.zeros(size, "bool"), True)):
            told = value(*map(IndexNumber, map(int, at)))
            if isinstance(told, list):
                found[tuple(at)] = 4 if at[0] > 1 else 777
            else:
                found[tuple(at)] = int(at[0]) + size
    return found


def at_size(m: Any, n: Var, size: int) -> IndexMap:
    """Substitute one size in a map."""
    return IndexMap(lambda i: [substitute(e, {n: size}) for e in m(i)], (size,))
