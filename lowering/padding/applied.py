"""Values of paddings put into the expressions that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.value import Operand
from bound.tir.walk import nodes, rewrite
from intset.expr.node import Expr
from lowering.padding.partial_evaluation import Content, Data, Number, PartialEvaluator, as_element, as_operand
from lowering.padding.registers import without_registers
from lowering.padding.states import PLACE, UNDEF, PadState, PadValue

_PLACES = frozenset(PLACE)


def applied(state: PadState, given: Mapping[Tensor, PadState], dtype: str) -> PadState:
    """The state of a padding that holds elements of `dtype`, once it is known what those hold that it is made of.

    What is made of something nobody knows is `UNDEF`; tensors that are not in `given` stay in the expression.
    """
    if not isinstance(state, PadValue):
        return state
    known = [given[t] for t in state.inputs if t in given]
    values = {t: s for t, s in given.items() if isinstance(s, PadValue)}
    if any(not isinstance(s, PadValue) for s in known):
        return UNDEF
    expr = rewrite(state.expr, on_load=lambda t, at: values[t].at(*at) if t in values else None)
    return folded(expr, dtype)


def folded(expr: Operand, dtype: str) -> PadState:
    """The value, computed as far as it does not depend on elements or places."""
    content = PartialEvaluator(_itself)(expr, {})
    if isinstance(content, Data):
        return UNDEF
    if isinstance(content, (bool, int, float)):
        number = number_of(expr, {}, dtype)
        return UNDEF if number is None else PadValue(as_operand(number, dtype))
    return PadValue(
        without_registers(content, dtypes.bits(dtype))
        if dtypes.is_int(dtype) and isinstance(content, Expr)
        else content
    )


def number_of(expr: Operand, given: Mapping[Operand, Any], dtype: str) -> Number | None:
    """The number that an element of the type holds of an expression, whose variables have these values."""
    content = PartialEvaluator(_itself)(expr, given)
    return as_element(content, dtype) if isinstance(content, (bool, int, float)) else None


def numbers_at(expr: Operand, places: Sequence[Sequence[int]], dtype: str) -> list[Number | None]:
    """The number in each of the places, `None` where it is not known."""
    if not any(v in _PLACES for v in nodes(expr)):
        return [number_of(expr, {}, dtype)] * len(places)
    return [number_of(expr, dict(zip(PLACE, place, strict=False)), dtype) for place in places]


def number_value(number: int | float | bool, dtype: str) -> PadValue:
    """The number everywhere."""
    return PadValue(as_operand(as_element(number, dtype), dtype))


def _itself(tensor: Tensor, indices: Sequence[Content]) -> Content:
    if any(isinstance(i, Data) for i in indices):
        return Data()
    found: Content = element(tensor, tuple(i if not isinstance(i, int) else as_operand(i, "int32") for i in indices))  # type: ignore[misc]  # no data left
    return found
