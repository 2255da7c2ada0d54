"""Triton's linear layouts: for each input the images of its bits, its *bases*, in the outputs.

    {"register": [[0, 1], [0, 2]], "lane": [[1, 0], [2, 1]]}       register 1 is (0, 1), lane 2 is (2, 1)

The image of inputs is the `^` of the bases of the bits that are set: a map of indices with bit operations.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from intset.expr import Expr, Range, Var, arguments, as_expr, shown
from intset.expr.node import PlainVar
from intset.linear.bitforms import CarryError, Columns, Diagonal, combined
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap

Bases = dict[str, list[list[int]]]


def from_bases(bases: Mapping[str, Sequence[Sequence[int]]], sizes: Mapping[str, int]) -> IndexMap:
    """The map from the inputs, in order, to the outputs.

    Parameters
    ----------
    bases: per input the images of 1, 2, 4, ..., each image one number per output.
    sizes: for each output its size, a power of two; its index has the range below it.

    Raises
    ------
    LayoutError: an image with another number of outputs, or beyond their sizes; a size that is no power of two.

    >>> swizzled = from_bases({"x": [[1, 0], [2, 0]], "y": [[0, 1], [1, 2]]}, {"col": 4, "row": 4})
    >>> swizzled(1, 3), str(swizzled.exprs[0]), bool(swizzled.bijective)
    ((0, 3), 'x ^ (y & 2) >> 1', True)
    """
    outputs = {
        arguments.a_name(name, "an output"): arguments.as_int(size, f"the size of {name}")
        for name, size in arguments.mapped(sizes, "sizes").items()
    }
    for name, size in outputs.items():
        if size < 1 or size & (size - 1):
            raise LayoutError(f"the size of {name} must be a power of two, not {size}")
    given: Bases = {}
    for name, images in arguments.mapped(bases, "bases").items():
        given[arguments.a_name(name, "an input")] = [
            [arguments.as_int(x, f"a basis of {name}") for x in arguments.listed(image, f"a basis of {name}")]
            for image in arguments.listed(images, f"the bases of {name}")
        ]
        for image in given[name]:
            if len(image) != len(outputs):
                raise LayoutError(f"a basis of {name} has {len(image)} numbers for {len(outputs)} outputs")
            for x, (output, size) in zip(image, outputs.items(), strict=True):
                if not 0 <= x < size:
                    raise LayoutError(f"a basis of {name} is {x}, not below the size {size} of {output}")
    if not given or not outputs:
        raise LayoutError("a linear layout has inputs and outputs")
    variables = [PlainVar(name) for name in given]
    exprs = [_output(k, variables, list(given.values())) for k in range(len(outputs))]
    shape = tuple(1 << len(images) for images in given.values())

    def images_of(*index: Expr) -> list[Expr]:
        return [e.substitute(dict(zip(variables, index, strict=True))) for e in exprs]

    named = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in given if name.isidentifier()]
    if len(named) == len(given):
        images_of.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # names the old indices
    found = IndexMap(images_of, shape)
    return found.onto([Range(0, size) for size in outputs.values()])


def _output(k: int, variables: Sequence[Var], bases: Sequence[Sequence[Sequence[int]]]) -> Expr:
    """One output, by diagonals: the bits of an input that move equally far."""
    masks: dict[tuple[int, int], int] = {}
    for source, images in enumerate(bases):
        for b, image in enumerate(images):
            for p in range(image[k].bit_length()):
                if image[k] >> p & 1:
                    masks[source, b - p] = masks.get((source, b - p), 0) | 1 << b
    parts = [Diagonal(variables[v], shift, mask, len(bases[v])) for (v, shift), mask in masks.items()]
    return combined(parts)


def to_bases(index_map: IndexMap, outputs: Sequence[str] | None = None) -> tuple[Bases, dict[str, int]]:
    """The bases by input, and the sizes by output, of a map that is linear over F2.

    Parameters
    ----------
    outputs: names of the new indices; by default `dim0`, `dim1` and so on.

    Raises
    ------
    LayoutError: an extent is no power of two, or the map is not linear.

    >>> to_bases(IndexMap(lambda y, x: [y, x ^ (y % 2)], (4, 2)))
    ({'y': [[1, 1], [2, 0]], 'x': [[0, 1]]}, {'dim0': 4, 'dim1': 2})
    """
    source = arguments.of_kind(IndexMap, index_map, "what is written", "an IndexMap")
    ranges = {v: Range(0, extent) for v, extent in zip(source.variables, source.shape, strict=True)}
    known = source.ctx.extended(ranges=ranges).frame.known
    columns = Columns(lambda term: known.bounds(known.form(term)))
    try:
        inputs = [columns.form(v) for v in source.variables]
        forms = [columns.form(e) for e in source.exprs]
    except CarryError as error:
        raise LayoutError(f"the map is not linear over bits: {error}") from None
    if columns.fresh or not columns.is_whole or columns.offsets:
        reason = next(iter(columns.fresh.values()), "an extent is no power of two")
        raise LayoutError(f"the map is not linear over bits: {reason}")
    if any(row & 1 for form in forms for row in form.rows):
        raise LayoutError("the map is not linear over bits: the image of 0 is not 0")
    given = [f"dim{k}" for k in range(len(forms))] if outputs is None else outputs
    names = [arguments.a_name(x, "an output") for x in given]
    if len(set(names)) < len(names):
        raise LayoutError(f"two outputs have one name: {', '.join(names)}")
    if len(names) != len(forms):
        raise LayoutError(f"{len(names)} names for {len(forms)} new indices")
    bases: Bases = {}
    for v, form in zip(source.variables, inputs, strict=True):
        bases[v.name] = [
            [sum(1 << p for p, row in enumerate(out.rows) if row >> column & 1) for out in forms]
            for column in (row.bit_length() - 1 for row in form.rows)
        ]
    sizes: dict[str, Any] = {}
    for name, limits, e in zip(names, source.ranges, source.exprs, strict=True):
        ends = limits.ends
        if ends is None or ends[0]:
            raise LayoutError(f"the new index {shown(as_expr(e))} has no constant size")
        sizes[name] = 1 << ends[1].bit_length()
    return bases, sizes


__all__ = ["from_bases", "to_bases"]
