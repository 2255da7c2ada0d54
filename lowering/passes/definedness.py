"""Definedness of operands at a position of a nest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bound.tensor import Tensor
from bound.tir.opaque import IntFunction
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.expr import ops
from lowering.nest.ir import Function, Padding
from lowering.nest.scope import Scope, proves
from lowering.nest.tensors import is_outside

_TOTAL: Final = frozenset(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid erf sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh floor ceil trunc round nearbyint fmod atan2 hypot copysign nextafter ldexp pow isnan isfinite isinf "
    "popcount".split()
)


def why_not_total(operand: Operand, scope: Scope, readable: Mapping[Tensor, Padding | None] | None) -> str | None:
    """The reason why an operand may be undefined: a trap, an out-of-bounds access, or uninitialized storage; else
    `None`.

    Parameters
    ----------
    readable: initialized tensors, each with its untouchable padding; `None` skips checks of elements.
    """
    for node in nodes(operand):
        tensor = loaded_tensor(node)
        if tensor is not None and readable is None:
            continue
        if tensor is not None and readable is not None:
            if tensor not in readable:
                return f"{node!r} may be read before it is written"
            if not proves(scope, is_outside(readable[tensor], read_indices(node))):
                return f"{node!r} may be in the padding of {tensor.name}"
            for index, extent in zip(node.args, tensor.extents, strict=True):
                if not proves(scope, (index >= 0) & (index < extent)):
                    return f"{node!r} may be outside {tensor.name}"
        elif node.op in ops.DIVISIONS:
            if not proves(scope, node.args[1].ne(0)):
                return f"{node!r} may divide by 0"
        elif node.op in (ops.SHL, ops.SHR):
            if not proves(scope, node.args[1] >= 0):
                return f"{node!r} may shift by a negative amount"
        elif node.op is ops.ASSERTING:
            if not proves(scope, node.args[0]):
                return f"{node!r} may not hold what it claims"
        elif node.op is ValueOp.CAST and isinstance(node.args[0], Value) and "int" in node.dtype:
            return f"{node.dtype}({node.args[0]!r}) has no value where that is no number"
        elif node.op is ValueOp.CALL and node.data not in _TOTAL:
            return f"{node.data} is a function that is not known here"
        elif node.op is ops.LOAD and not isinstance(node.data, IntFunction) and node.args:
            return f"{node!r} is not known to have a value"
    return None


def given_inputs(f: Function) -> dict[Tensor, Padding | None]:
    """Read-only parameters, which are initialized, each with its untouchable padding."""
    return {t: f.padding.get(t) for t in f.inputs}
