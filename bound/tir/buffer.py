"""Buffers: what the body of an extern operation or of an intrinsic is written against."""

from __future__ import annotations

from dataclasses import dataclass

from bound import dtypes
from intset.expr.arguments import a_name, of_kind
from intset.expr.node import Expr, as_expr


@dataclass(frozen=True, eq=False)
class Buffer:
    """Storage with a name, a shape and an element type."""

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    scope: str = "global"


def decl_buffer(
    shape: object, dtype: str = dtypes.DEFAULT, name: str = "buffer", scope: str = "global", **layout: object
) -> Buffer:
    """A buffer; strides, alignment and offsets are accepted and do not matter to the analysis."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    a_name(name, "the name of a buffer")
    return Buffer(
        name,
        tuple(as_expr(e, f"the shape of {name}") for e in extents),
        dtypes.check(dtype),
        of_kind(str, scope, f"scope of {name}", "a text"),
    )
