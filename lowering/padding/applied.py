"""Values of paddings put into the expressions that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.walk import rewrite
from lowering.padding.arithmetic import as_operand, held
from lowering.padding.partial import Content, Data, Partial
from lowering.padding.registers import without_registers
from lowering.padding.states import UNDEF, Padding, PadValue


def applied(state: Padding, given: Mapping[Tensor, Padding], dtype: str) -> Padding:
    """The state of a padding that holds elements of `dtype`, once it is known what those hold that it is made of.

    What is made of something nobody knows is `UNDEF`; tensors that are not in `given` stay in the expression.
    """
    if not isinstance(state, PadValue):
        return state
    known = [given[t] for t in state.inputs if t in given]
    values = {t: s.expr for t, s in given.items() if isinstance(s, PadValue)}
    if any(not isinstance(s, PadValue) for s in known):
        return UNDEF
    expr = rewrite(state.expr, on_load=lambda t, at: given[t].at(*at) if t in values else None)  # type: ignore[union-attr]
    return folded(expr, dtype)


def folded(expr: Any, dtype: str) -> Padding:
    """The value, computed as far as it does not depend on elements or places."""
    content = Partial(_itself)(expr, {})
    if isinstance(content, Data):
        return UNDEF
    if isinstance(content, (bool, int, float)):
        return PadValue(as_operand(held(content, dtype), dtype))
    return PadValue(without_registers(content, dtypes.bits(dtype)) if dtypes.is_int(dtype) else content)


def number_value(number: int | float | bool, dtype: str) -> PadValue:
    """The number everywhere."""
    return PadValue(as_operand(held(number, dtype), dtype))


def _itself(tensor: Tensor, indices: Sequence[Content]) -> Content:
    if any(isinstance(i, Data) for i in indices):
        return Data()
    found: Content = element(tensor, tuple(i if not isinstance(i, int) else as_operand(i, "int32") for i in indices))  # type: ignore[misc]
    return found
