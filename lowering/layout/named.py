"""Layouts by letters, such as NCHW16c: a capital letter is an axis, a small one with its factor the inner part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bound.tir.build import const
from intset.errors import InputError
from intset.expr import as_expr, constant_value

__all__ = ["LayoutMap", "NamedLayout", "bijective_layout", "layout"]


@dataclass(frozen=True)
class NamedLayout:
    """A layout; `layout("NCHW16c")` makes one.

    Attributes
    ----------
    name: the text.
    axes: letters, outermost first.
    factors: of each small letter.
    """

    name: str
    axes: tuple[str, ...]
    factors: dict[str, int]

    def __len__(self) -> int:
        return len(self.axes)

    def __getitem__(self, index: int) -> str:
        return self.axes[index]

    def __contains__(self, axis: object) -> bool:
        return axis in self.axes

    def index_of(self, axis: str) -> int:
        """The dimension of an axis, -1 for none."""
        return self.axes.index(axis) if axis in self.axes else -1

    def factor_of(self, axis: str) -> int:
        """The factor of an axis' inner part, -1 for none."""
        return self.factors.get(axis.lower(), -1)

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)


def layout(text: str | NamedLayout, dtype: str = "int32") -> NamedLayout:
    """A layout by its text.

    Raises
    ------
    InputError: the text has no letters, one of them twice, or a lower-case letter without a factor or without its axis.
    """
    if isinstance(text, NamedLayout):
        return text
    parts = re.findall(r"(\d*)([A-Za-z])", text) if isinstance(text, str) else []
    axes = tuple(letter for _, letter in parts)
    factors = {letter: int(factor) for factor, letter in parts if factor}
    inner = [letter for letter in axes if letter.islower()]
    is_whole = bool(parts) and "".join(map("".join, parts)) == text and len({*axes}) == len(axes)
    if not is_whole or inner != [*factors] or 0 in factors.values() or any(c.upper() not in axes for c in inner):
        raise InputError(f"a layout is a text such as NCHW16c, not {text!r}")
    return NamedLayout(text, axes, factors)


@dataclass(frozen=True)
class LayoutMap:
    """The map between two layouts of the same axes; `bijective_layout` makes one."""

    src_layout: NamedLayout
    dst_layout: NamedLayout

    def forward_index(self, index: Sequence[Any]) -> list[Any]:
        """Where an element stands in the target."""
        return _indices(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Sequence[Any]) -> list[Any]:
        """The place in the source of an element of the target."""
        return _indices(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the target."""
        return _shape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the source."""
        return _shape(self.dst_layout, self.src_layout, shape)


def _parts(source: NamedLayout, values: Sequence[Any]) -> dict[str, Any]:
    if len(values) != len(source):
        raise InputError(f"the layout {source} has {len(source)} dimensions, not {len(values)}")
    return dict(zip(source.axes, map(as_expr, values), strict=True))


def _indices(source: NamedLayout, target: NamedLayout, index: Sequence[Any]) -> list[Any]:
    parts = _parts(source, index)
    for inner, factor in source.factors.items():
        parts[inner.upper()] = parts[inner.upper()] * factor + parts.pop(inner)
    for inner, factor in target.factors.items():
        whole = parts[inner.upper()]
        parts |= {inner.upper(): whole // factor, inner: whole % factor}
    return [parts[axis] for axis in target.axes]


def _shape(source: NamedLayout, target: NamedLayout, shape: Sequence[Any]) -> list[Any]:
    parts = _parts(source, shape)
    for inner, factor in source.factors.items():
        parts[inner.upper()] = parts[inner.upper()] * factor
    for inner, factor in target.factors.items():
        axis = inner.upper()
        parts |= {axis: _divided(axis, parts[axis], factor), inner: as_expr(factor)}
    return [parts[axis] for axis in target.axes]


def _divided(axis: str, extent: Any, factor: int) -> Any:
    count = constant_value(extent)
    if count is None:
        return extent // factor
    if count % factor:
        raise InputError(f"axis {axis} of {count} elements has no inner part of {factor}")
    return const(count // factor)


def bijective_layout(src_layout: str | NamedLayout, dst_layout: str | NamedLayout) -> LayoutMap:
    """The map between two layouts.

    Raises
    ------
    InputError: they have different axes.
    """
    source, target = layout(src_layout), layout(dst_layout)
    axes = [sorted(filter(str.isupper, one.axes)) for one in (source, target)]
    if axes[0] != axes[1]:
        raise InputError(f"the layouts {source} and {target} have different axes")
    return LayoutMap(source, target)
