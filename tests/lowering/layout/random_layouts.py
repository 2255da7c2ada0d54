"""Random functions in random layouts with every kind of padding, their packed inputs and expected outputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bound import dtypes
from intset import const, evaluate, select
from lowering import Function, IndexMap, LayoutError, element, simplify, transform_layout, undef
from lowering.nest.ir import Seq
from lowering.nest.scope import padding_of, tensor_named, tensors_of
from tests.lowering.equivalence import NumpyRuns
from tests.strategies.nests import EVERYTHING, Nest

Place = tuple[int, ...]
ODD = 77  # in padding without a stated value
KINDS = ("none", "number", "undef", "indices", "element", "places", "pairs")
PACKED = EVERYTHING - {"sized", "host"}  # kinds of statements that see no array as a whole

# for each kind, the new indices without a stated value
UNTOLD: dict[str, Callable[[Place], bool]] = {
    **dict.fromkeys(("number", "undef", "indices", "element"), lambda place: False),
    "none": lambda place: True,
    "places": lambda place: place[0] % 2 != 0,
    "pairs": lambda place: place[-1] % 3 < 1 or 0 < place[0] <= 1,
}


class Layer(NamedTuple):
    """One change of a tensor's layout.

    Attributes
    ----------
    map: the map from its previous indices.
    kind: the kind of `pad_value`, one of `KINDS`.
    held: the stated value at new indices, given the packed array; `None` without one.
    """

    map: IndexMap
    kind: str
    held: Callable[[Place, Any], Any]


def random_map(rng: random.Random, shape: Place) -> IndexMap:
    """Draw an injective map; few have an obvious padding."""
    c, o = rng.randint(2, 5), rng.randint(-4, 5)
    one: list[Callable[..., Any]] = [
        lambda i: [i // c, i % c], lambda i: [(i + abs(o)) // c, (i + abs(o)) % c], lambda i: [i % c, i // c],
        lambda i: i * c + o, lambda i: o - i, lambda i: [i % 3, i % 4], lambda i: [i // 4, (i % 4 + i // 4) % 4],
        lambda i: [i // (2 * c), i // 2 % c, i % 2], lambda i: [select(i < 5, i, i + 3)],
    ]  # fmt: skip
    two: list[Callable[..., Any]] = [
        lambda i, j: [j, i], lambda i, j: [i // 3, i % 3, j], lambda i, j: [i * (shape[1] + abs(o)) + j],
        lambda i, j: [i, (i + j) % shape[1]], lambda i, j: [i + j, j], lambda i, j: [j // c, i - 2, j % c],
    ]  # fmt: skip
    fns = {1: one, 2: two}.get(len(shape))
    if fns is None or rng.random() < 0.1:
        return IndexMap(lambda *place: [*place[::-1]], shape)
    found = IndexMap(rng.choice(fns), shape)
    return found if found.injective else random_map(rng, shape)


def random_layer(f: Function, name: str, rng: random.Random) -> tuple[Function, Layer | None]:
    """Change the layout of one tensor, or return the function unchanged after a refusal. Only padding that reads
    elements may be refused."""
    tensor = tensor_named(f, name)
    shape = tuple(int(e.data) for e in tensor.extents)
    m = random_map(rng, shape)
    kind = rng.choice(KINDS)
    lowest = -np.inf if dtypes.is_float(tensor.dtype) else dtypes.int_range(tensor.dtype)[0]
    number = rng.choice([0, 0, 1, 5, lowest])
    first = m(*(0 for _ in shape))
    low = [int(r.min.data) for r in m.ranges]  # type: ignore[union-attr]

    def storage(place: Any) -> Place:
        return tuple(int(k) - start for k, start in zip(place, low, strict=True))

    values: dict[str, tuple[Any, Callable[[Place, Any], Any]]] = {
        "none": (None, lambda place, array: None),
        "number": (number, lambda place, array: number),
        "undef": (undef(tensor.dtype), lambda place, array: None),
        "indices": (lambda *place: sum(place, start=1), lambda place, array: sum(place) + 1),
        "element": (lambda *place: element(name, first), lambda place, array: array[storage(first)]),
        "places": (
            lambda *place: number if (place[0] % 2).eq(0) else None,
            lambda place, array: number if place[0] % 2 == 0 else None,
        ),
        "pairs": (
            lambda *place: [(place[-1] % 3 < 1, None), (place[0] > 1, number), (place[0] <= 0, undef(tensor.dtype))],
            lambda place, array: number if place[-1] % 3 >= 1 and place[0] > 1 else None,
        ),
    }
    given, held = values[kind]
    try:
        g = transform_layout(f, name, m, given)
    except LayoutError as error:
        if kind == "element" and "may hold nothing yet" in str(error):
            return f, None
        raise
    padding = padding_of(g, tensor_named(g, name))
    for at, place in places_of(m):
        is_untouched = padding is not None and bool(evaluate(padding.at([const(k) for k in at]), {}))
        # where contradictory guards leave no iteration, any condition describes the padding
        assert is_untouched is UNTOLD[kind](place) or not is_reached(f, name), f"{name}{place} of {g}"
    return g, Layer(m, kind, held)


def is_reached(f: Function, name: str) -> bool:
    """Whether a tensor is a parameter, or local storage that simplification keeps."""
    return any(t.name == name for g in (f.with_body(Seq(())), simplify(f)) for t in tensors_of(g))


def places_of(m: IndexMap) -> list[tuple[Place, Place]]:
    """The points of the padding, as indices into storage and as new indices."""
    mask = m.pack(np.zeros(m.shape, np.bool_), True)
    low = [int(r.min.data) for r in m.ranges]  # type: ignore[union-attr]
    return [
        (tuple(map(int, at)), tuple(int(k) + start for k, start in zip(at, low, strict=True)))
        for at in np.argwhere(mask)
    ]


class Laid(NumpyRuns):
    """A nest whose tensors are brought into layouts.

    Attributes
    ----------
    g: the function with layouts.
    layers: of each parameter, from the first on.
    """

    def __init__(self, nest: Nest) -> None:
        self.layers: dict[str, list[Layer]] = {}
        super().__init__(nest)
        self.g, self.rng = self.f, nest.rng

    def transform(self, times: int) -> None:
        """Change the layout of some tensors."""
        for _ in range(times):
            names = [t.name for t in tensors_of(self.g)]
            name = self.rng.choice([n for n in names if names.count(n) == 1])
            self.g, layer = random_layer(self.g, name, self.rng)
            if layer is not None and any(t.name == name for t in self.g.params):
                self.layers.setdefault(name, []).append(layer)

    def packed(self, name: str, array: Any, is_input: bool) -> Any:
        """Pack an array as the function expects it, with odd values in unconstrained padding."""
        for layer in self.layers.get(name, ()):
            array = layer.map.pack(array, ODD)
            for at, place in places_of(layer.map) if is_input else ():
                value = layer.held(place, array)
                array[at] = array[at] if value is None else value
        return array

    def unpacked(self, name: str, array: Any, is_input: bool) -> Any:
        """Check the padding of an array against its stated values, then unpack it."""
        for layer in reversed(self.layers.get(name, ())):
            for at, place in places_of(layer.map):
                value = layer.held(place, array)
                if layer.kind == "none" or (layer.kind == "places" and value is None):
                    assert array[at] == ODD, f"{name}{place} is touched"
                elif value is not None:
                    assert array[at] == value or is_input, f"{name}{place} holds {array[at]}, not {value}"
            array = layer.map.unpack(array)
        return array

    def after(self, step: Callable[[dict[str, Any], Any], object], f: Function, draw: int) -> dict[str, Any]:
        if f is self.f or not self.layers:
            return super().after(step, f, draw)
        first = self.arrays
        inputs = {t.name for t in f.params if t not in f.outputs}
        self.arrays = {name: self.packed(name, array, name in inputs) for name, array in first.items()}
        try:
            found = super().after(step, f, draw)
        finally:
            self.arrays = first
        return {name: self.unpacked(name, array, name in inputs) for name, array in found.items()}
