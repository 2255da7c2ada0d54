"""Loops whose iterations may run side by side on vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import ValueOp
from intset.expr.node import Expr, constant_value
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from lowering.nest.combine import is_combining
from lowering.nest.ir import For, LoopKind, Seq, Store
from lowering.nest.walk import operands, range_ends
from lowering.passes.values.index_width import offset

_REDUCTIONS: Final = {ValueOp.ADD: "+", ValueOp.MUL: "*", ValueOp.MIN: "min", ValueOp.MAX: "max"}  # OpenMP's words


def is_simd(loop: For, shapes: Mapping[Tensor, Sequence[Expr]]) -> bool:
    """Whether iterations of a vectorized loop may run side by side: no two touch one element that one of them stores,
    and there is nothing but stores inside.

    Parameters
    ----------
    shapes: of tensors as they are stored.
    """
    if loop.kind is not LoopKind.VECTORIZED or loop.carried:
        return False
    inside = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    if len(stores) < len(inside):
        return False
    forms = Normalizer({})
    for tensor in dict.fromkeys(stmt.tensor for stmt in stores):
        stored = [s.indices for s in stores if s.tensor is tensor]
        touched = stored + [
            walk.read_indices(node)
            for stmt in stores
            for node in walk.nodes(*operands(stmt))
            if walk.loaded_tensor(node) is tensor
        ]
        places = [forms.form(offset(indices, shapes[tensor])) for indices in touched]
        if not all(_is_apart(loop, place, places) for place in places[: len(stored)]):
            return False
    return True


def _is_apart(loop: For, first: Linear, places: Sequence[Linear]) -> bool:
    """Whether two iterations never meet, one at the first place, the other at one of these: they differ by constants
    between strides, or by more than the loop is long."""
    stride = first.terms.get(loop.var, 0)
    if not stride or any(loop.var in atom.free_vars() for atom in first.terms if atom is not loop.var):
        return False
    _, extent = range_ends(loop.range)
    length = Normalizer({}).form(extent).scale(abs(stride))
    gaps = [place.minus(first) for place in places]
    return all(
        (gap.is_const and (gap.const == 0 or gap.const % stride != 0)) or _is_beyond(gap, length) for gap in gaps
    )


def _is_beyond(gap: Linear, length: Linear) -> bool:
    """Whether places are further apart than a loop is long."""
    return any((far := gap.scale(sign).minus(length)).is_const and far.const >= 0 for sign in (1, -1))


def reduction_of(loop: For) -> tuple[str, Tensor] | None:
    """What a loop does that only combines floats into one element that stays the same: the operator, in OpenMP's words,
    and the tensor. In which order it does so is of no importance but for rounding."""
    store = loop.body
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED) or loop.carried or not isinstance(store, Store):
        return None
    value = store.value
    if not is_combining(store) or value.op not in _REDUCTIONS or any(constant_value(i) is None for i in store.indices):
        return None
    if any(walk.loaded_tensor(node) is store.tensor for node in walk.nodes(value.args[1])):
        return None
    return _REDUCTIONS[value.op], store.tensor
