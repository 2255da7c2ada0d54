"""`tvm.ir`: structural comparison, ranges and maps."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from bound.tir.value import Value
from intset.errors import InputError
from intset.expr import range as ranges
from intset.expr.node import IntLike, Node, as_expr
from lowering.nest.ir import Function, Stmt
from lowering.passes import unique_names

Array, Map = Sequence, Mapping
container = SimpleNamespace(Array=Array, Map=Map)


class _RangeType:
    """`Range(begin, end)`, half-open, or `Range(extent)`; `isinstance` knows every range."""

    def __call__(self, begin: IntLike, end: IntLike | None = None, span: object = None) -> ranges.Range:
        low, high = (0, begin) if end is None else (begin, end)
        first, last = as_expr(low, "begin of a range"), as_expr(high, "end of a range")
        if first.is_const and last.is_const:
            return ranges.Range(first, int(last) - int(first))
        return ranges.Range(first, last if first.is_const and int(first) == 0 else last - first)

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, ranges.Range)

    def from_min_extent(self, min_value: IntLike, extent: IntLike, span: object = None) -> ranges.Range:
        """The range of `extent` numbers from `min_value` on."""
        return ranges.Range(min_value, extent)

    make_by_min_extent = from_min_extent


Range = _RangeType()


@dataclass(frozen=True)
class PrimType:
    """The type of a number."""

    dtype: str


@dataclass(frozen=True)
class PointerType:
    """The type of an address."""

    element_type: PrimType
    storage_scope: str = ""


def save_json(node: object) -> str:
    """Text from which `load_json` restores the object; it holds a pickle."""
    return json.dumps({"pickle": base64.b64encode(pickle.dumps(node)).decode("ascii")})


def load_json(json_str: str) -> Any:
    """The object of a text of `save_json`, with the trust that unpickling asks for.

    Raises
    ------
    InputError: another text.
    """
    try:
        text = json.loads(json_str)["pickle"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("load_json reads what save_json wrote here; JSON of TVM is not read") from error
    return pickle.loads(base64.b64decode(text))  # the caller's own text


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, nests or containers are the same up to the names of loops.

    Guarantee: nests count as equal only if their texts are, after loops got unique names in order.
    """
    if isinstance(lhs, (list, tuple)) and isinstance(rhs, (list, tuple)):
        return len(lhs) == len(rhs) and all(
            structural_equal(a, b, map_free_vars) for a, b in zip(lhs, rhs, strict=True)
        )
    if isinstance(lhs, (Node, Value)) or isinstance(rhs, (Node, Value)):
        return lhs is rhs or (not isinstance(lhs, Node) or not isinstance(rhs, Node)) and bool(lhs == rhs)
    if isinstance(lhs, Function) and isinstance(rhs, Function):
        return _text(lhs) == _text(rhs)
    if isinstance(lhs, Stmt) and isinstance(rhs, Stmt):
        return str(lhs) == str(rhs)
    return bool(lhs == rhs)


def _text(f: Function) -> str:
    return str(unique_names(f)).partition("\n")[2]


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise `ValueError` unless `structural_equal` holds."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"structurally different:\n{lhs}\nand\n{rhs}")
