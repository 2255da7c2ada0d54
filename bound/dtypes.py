"""Element types by name: `int8` ... `uint64`, `float16` ... `float64`, `bool`."""

from __future__ import annotations

import math
import re
from typing import Final

from intset.errors import InputError
from intset.expr.digits import shown

_PATTERN: Final = re.compile(r"(?:(u?int)([1-9][0-9]*)|(float)(16|32|64)|(bool))\Z")
_FLOAT_MAX: Final = {16: 65504.0, 32: 3.4028234663852886e38, 64: 1.7976931348623157e308}

INDEX: Final = "int32"
DEFAULT: Final = "float32"


def check(dtype: object, what: str = "dtype") -> str:
    """`dtype` when it names a type, else an error that names `what`."""
    if not isinstance(dtype, str) or _PATTERN.match(dtype) is None:
        raise InputError(f"{what} must be a type such as 'int32', 'float32' or 'bool', not {shown(dtype)}")
    return dtype


def is_int(dtype: str) -> bool:
    """Whether values of the type are integers, and so `intset` expressions."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def bits(dtype: str) -> int:
    """The width; `bool` has 1."""
    return 1 if dtype == "bool" else int(dtype.lstrip("uintfloa"))


def signed(dtype: str) -> bool:
    return dtype.startswith("int")


def int_range(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    width = bits(dtype)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed(dtype) else (0, (1 << width) - 1)


def lowest(dtype: str) -> int | float:
    """The smallest finite value."""
    return int_range(dtype)[0] if is_int(dtype) else -_FLOAT_MAX[bits(dtype)]


def highest(dtype: str) -> int | float:
    """The largest finite value."""
    return int_range(dtype)[1] if is_int(dtype) else _FLOAT_MAX[bits(dtype)]


def least(dtype: str) -> int | float:
    """What `max` starts from: below or equal to every value of the type."""
    return int_range(dtype)[0] if is_int(dtype) else -math.inf


def greatest(dtype: str) -> int | float:
    """What `min` starts from: above or equal to every value of the type."""
    return int_range(dtype)[1] if is_int(dtype) else math.inf


def promote(a: str, b: str) -> str:
    """The type in which values of both types are combined: floats win over integers, wider over narrower.

    A signed and an unsigned type of the same width give the signed one, as in TVM.
    """
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if bits(a) != bits(b):
        return a if bits(a) > bits(b) else b
    return a if signed(a) else b
