"""Element types by name: `float16` ... `float64`, `bool`, and integers of up to 64 bits, `int8` ... `uint64`.

Analyses accept integers of any width up to 64 (`int3`); executed code has elements of 8, 16, 32 or 64 bits.
"""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from intset.errors import InputError
from intset.expr.printer import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Numeric: TypeAlias = "int | float | bool"
Array: TypeAlias = "NDArray[np.bool | np.number]"  # an array of elements of these types

_PATTERN: Final = re.compile(r"(?:(u?int)([1-9]|[1-5][0-9]|6[0-4])|(float)(16|32|64)|(bool))\Z")
_FLOAT_MAX: Final = {16: 65504.0, 32: 3.4028234663852886e38, 64: 1.7976931348623157e308}

_IN_MEMORY: Final = (8, 16, 32, 64)
_PACKED: Final = {16: struct.Struct("e"), 32: struct.Struct("f")}  # IEEE binary16, binary32
_EXACT: Final = 53  # bits of a whole number that a Python float holds

INDEX: Final = "int32"
INDICES: Final = ("int32", "int64")  # of indices, which are integers of any size
DEFAULT: Final = "float32"


def check(dtype: object, what: str = "dtype") -> str:
    """Return `dtype` if it names a type.

    Raises
    ------
    InputError: it does not; names `what`.
    """
    if not isinstance(dtype, str) or _PATTERN.match(dtype) is None:
        raise InputError(f"{what} must be a type such as 'int32', 'float32' or 'bool', not {shown(dtype)}")
    return dtype


def check_executed(dtype: str, what: str) -> None:
    """Raise `InputError` for integer types without a machine representation; names `what`."""
    if is_int(dtype) and bits(dtype) not in _IN_MEMORY:
        raise InputError(f"{what} holds {dtype}: only integers of 8, 16, 32 or 64 bits are executed")


def is_int(dtype: str) -> bool:
    """Return whether values of the type are integers, and so `intset` expressions."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def bits(dtype: str) -> int:
    """Return the width in bits; 1 for `bool`."""
    return 1 if dtype == "bool" else int(dtype.lstrip("uintfloa"))


def storage_bytes(dtype: str) -> int:
    """Return the bytes of an element in memory."""
    return max(1, bits(dtype) // 8)


def signed(dtype: str) -> bool:
    return dtype.startswith("int")


def int_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    width = bits(dtype)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed(dtype) else (0, (1 << width) - 1)


def int_named(width: int, is_signed: bool) -> str:
    """Return the integer type of a width."""
    return f"{'' if is_signed else 'u'}int{width}"


def register(dtype: str) -> tuple[int, bool]:
    """Return the width of an integer type, and whether it has a sign."""
    return bits(dtype), signed(dtype)


def holds(dtype: str, number: int) -> bool:
    """Return whether an integer type has the number."""
    low, high = int_range(dtype)
    return low <= number <= high


def lowest(dtype: str) -> int | float:
    """Return the smallest finite value."""
    return int_range(dtype)[0] if is_int(dtype) else -_FLOAT_MAX[bits(dtype)]


def highest(dtype: str) -> int | float:
    """Return the largest finite value."""
    return int_range(dtype)[1] if is_int(dtype) else _FLOAT_MAX[bits(dtype)]


def least(dtype: str) -> int | float:
    """Return the identity of `max`: at most every value of the type."""
    return int_range(dtype)[0] if is_int(dtype) else -math.inf


def greatest(dtype: str) -> int | float:
    """Return the identity of `min`: at least every value of the type."""
    return int_range(dtype)[1] if is_int(dtype) else math.inf


def rounded(number: float, dtype: str) -> float:
    """Round a Python float, or an integer of any size, once to a float type; ties to even, overflow to infinity."""
    packed = _PACKED.get(bits(dtype))
    if isinstance(number, int):
        number = _to_odd(number) if packed is not None else _nearest(number)
    if packed is None or not math.isfinite(number):
        return number
    try:
        nearest: float = packed.unpack(packed.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return nearest


def _nearest(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _to_odd(number: int) -> float:
    """Round an integer to odd as a float, so that rounding it again to 32 or 16 bits rounds the integer correctly.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd",
    IEEE Transactions on Computers 57 (2008): with two bits more than the target, rounding to odd loses nothing.
    """
    excess = number.bit_length() - _EXACT
    if excess <= 0:
        return float(number)
    size = abs(number)
    kept = size >> excess | (size & (1 << excess) - 1 != 0)
    try:
        magnitude = math.ldexp(kept, excess)
    except OverflowError:
        magnitude = math.inf
    return magnitude if number > 0 else -magnitude


def decimal(number: float, dtype: str) -> str:
    """Return the shortest usual text of a value of a float type.

    Guarantee: parsing it as this type, directly or through a Python float, yields `number`.
    """
    text = repr(number)
    if dtype == "float64" or not math.isfinite(number):
        return text
    for digits in range(1, 18):
        short = repr(float(f"{number:.{digits}g}"))
        # a neighbour on each side that is rounded alike: the text lies off the middle between two values of the type
        around = (math.nextafter(float(short), side) for side in (-math.inf, math.inf))
        if all(rounded(near, dtype) == number for near in around):
            return short
    return text


def promote(a: str, b: str) -> str:
    """Return the common type of two operands, as TVM's: floats win over integers, wider types over narrower ones.

    A signed and an unsigned type of the same width give the unsigned one.
    """
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if bits(a) != bits(b):
        return a if bits(a) > bits(b) else b
    return b if signed(a) else a
