"""`tvm.tir`: the values of `bound.tir`, TVM's classes as types, and what scripts find beside them."""

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from bound import tir as values
from bound.te import prod, sum
from bound.tensor import ScopeText
from bound.tir import *
from bound.tir.build import Buffer, Vector, cast, clz, lanes_of
from bound.tir.reduce import max_of, min_of
from intset.errors import InputError
from intset.expr import as_expr, constant_value
from lowering.layout import IndexMap
from lowering.nest import ir
from lowering.nest.walk import free_variables
from lowering.tvm import builders as ir_builder
from lowering.tvm import building as transform
from lowering.tvm import ir as stmt_functor
from lowering.tvm.ir import TYPES, call_intrin, structural_equal, with_truths

globals().update(TYPES)  # the table is the list of classes
CallEffectKind = SimpleNamespace(**{name: name for name in ("Pure", "ReadState", "UpdateState", "Opaque")})
ForKind = SimpleNamespace(**ir.LoopKind.__members__, THREAD_BINDING=ir.LoopKind.THREAD)
expr = stmt = SimpleNamespace(**TYPES)  # the modules that define them there
max, min = max_of, min_of  # type: ignore[assignment]  # with `axis` they reduce
stmt_list = ir.flat
call_llvm_intrin = call_llvm_pure_intrin = call_intrin
_ffi_api = SimpleNamespace(_cast=with_truths(lambda dtype, value, span=None: cast(dtype, value)))
analysis = SimpleNamespace(
    expr_deep_equal=structural_equal,
    undefined_vars=lambda node, defs=(): [v for v in free_variables(node) if v not in defs],
)
add, subtract, multiply = operator.add, operator.sub, operator.mul
generic = SimpleNamespace(
    __op_priority__=1,  # tensors broadcast here, so the operator library need not rebind these
    add=add,
    subtract=subtract,
    multiply=multiply,
    divide=operator.truediv,
    floordiv=operator.floordiv,
    cast=lambda value, dtype, span=None: cast(dtype, value),
)


def decl_buffer(  # type: ignore[no-redef]  # the star import brings the one without broadcasting
    shape: Any, dtype: str | None = "float32", *args: Any, buffer_type: str = "", **more: Any
) -> Buffer:
    """A buffer; one of the type "auto_broadcast" is read at 0 along dimensions of extent 1."""
    buffer = values.decl_buffer(shape, dtype, *args, **more)
    buffer.__dict__.update(scope=ScopeText(buffer.scope), buffer_type=buffer_type)
    return buffer


def const(value: Any, dtype: str | None = None, span: object = None) -> Any:
    """A constant; of a type such as "float32x4", one in every lane."""
    if dtype is None and hasattr(value, "item"):
        value, dtype = value.item(), str(value.dtype)
    element_type, count = (dtype, 1) if dtype is None else lanes_of(dtype)
    one = values.const(value, element_type)
    return Vector((one,) * count, str(element_type)) if count > 1 else one


all, any, if_then_else = (with_truths(f) for f in (values.all, values.any, values.if_then_else))


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Any:
    """`x * y * 2**(s - q)`, rounded to the nearest, ties up: a product with a number of `q` bits after the point."""
    return q_multiply_shift_per_axis(x, y, max_of(s, 0), max_of(-1 * s, 0), q, s, s)


def q_multiply_shift_per_axis(x: Any, y: Any, ls: Any, rs: Any, q: Any, *_: object) -> Any:
    """`q_multiply_shift` with two shifts: `ls` bits to the left before the product, `rs` to the right after it."""
    wide: list[Any] = [cast("int64", v) for v in (1, x, y, ls, rs + q)]
    one, x, y, left, right = wide
    return cast("int32", ((x << left) * y + (one << (right - 1))) >> right)


def reinterpret(dtype: str, value: Any, span: object = None) -> Any:
    """The bits of a value as another type; `value` itself where it has that type."""
    return call_intrin(dtype, "reinterpret", value)


# -- layouts by letters, such as NCHW16c: a capital letter is an axis, a small one with its factor the inner part -----


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
    if not is_whole or inner != [*factors] or 0 in factors.values() or not {c.upper() for c in inner} <= {*axes}:
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
    return as_expr(count // factor)


def bijective_layout(src_layout: str | NamedLayout, dst_layout: str | NamedLayout) -> LayoutMap:
    """The map between two layouts.

    Raises
    ------
    InputError: they have different axes.
    """
    source, target = layout(src_layout), layout(dst_layout)
    if {*filter(str.isupper, source.axes)} != {*filter(str.isupper, target.axes)}:
        raise InputError(f"the layouts {source} and {target} have different axes")
    return LayoutMap(source, target)
