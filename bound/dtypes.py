"""Element types by name: `float16` to `float64`, `bfloat16`, `bool`, and integers of up to 64 bits, `int8` to `uint64`.

`float8_e4m3fn` and `float8_e5m2` are types of storage: their elements are converted on load, and no arithmetic uses the
type.

Analyses accept integers of any width up to 64 (`int3`); executed code has elements of 8, 16, 32 or 64 bits.
"""

import math
import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from intset.errors import InputError
from intset.expr import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Numeric: TypeAlias = "int | float | bool"
Array: TypeAlias = "NDArray[np.bool | np.number]"  # an array of elements of these types

_PATTERN: Final = re.compile(
    r"(?:(u?int)([1-9]|[1-5][0-9]|6[0-4])|(float)(16|32|64)|(bool)|bfloat16|float8_e4m3fn|float8_e5m2)\Z"
)


class FloatFormat(NamedTuple):
    """A binary floating-point format.

    Attributes
    ----------
    digits: bits of a significand, with the first.
    least: the exponent of the least number above 0.
    highest: the largest finite value.
    has_infinity: whether larger numbers become infinite; else NaN.
    """

    bits: int
    digits: int
    least: int
    highest: float
    has_infinity: bool = True


_FLOATS: Final = {
    "float64": FloatFormat(64, 53, -1074, 1.7976931348623157e308),
    "float32": FloatFormat(32, 24, -149, 3.4028234663852886e38),
    "float16": FloatFormat(16, 11, -24, 65504.0),
    "bfloat16": FloatFormat(16, 8, -133, 3.3895313892515355e38),
    "float8_e4m3fn": FloatFormat(8, 4, -9, 448.0, False),
    "float8_e5m2": FloatFormat(8, 3, -16, 57344.0),
}
OF_STORAGE: Final = ("float8_e4m3fn", "float8_e5m2")  # stored and converted, not computed with
NARROW: Final = ("float16", "bfloat16", *OF_STORAGE)
_OF_ML_DTYPES: Final = ("bfloat16", *OF_STORAGE)  # numpy has them from the package ml_dtypes

_IN_MEMORY: Final = (8, 16, 32, 64)
_PACKED: Final = {"float16": struct.Struct("e"), "float32": struct.Struct("f")}  # IEEE binary16, binary32
_EXACT: Final = 53  # bits of a whole number that a Python float holds

INDEX: Final = "int32"
DEFAULT: Final = "float32"


_SHORT: Final = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "uint": "uint32"}


def check(dtype: object, what: str = "dtype") -> str:
    """Return the name of a type; TVM's short names such as "float" are those of the 32-bit types.

    Raises
    ------
    InputError: it is no name of a type; names `what`.
    """
    if isinstance(dtype, str):
        dtype = _SHORT.get(dtype, dtype)
    if not isinstance(dtype, str) or _PATTERN.match(dtype) is None:
        raise InputError(f"{what} must be a type such as 'int32', 'float32' or 'bool', not {shown(dtype)}")
    return dtype


def check_executed(dtype: str, what: str) -> None:
    """Raise `InputError` for integer types without a machine representation; names `what`."""
    if is_int(dtype) and bits(dtype) not in _IN_MEMORY:
        raise InputError(f"{what} holds {dtype}: only integers of 8, 16, 32 or 64 bits are executed")
    if dtype in _OF_ML_DTYPES:
        try:
            import ml_dtypes  # noqa: F401  # it tells numpy of its types
        except ModuleNotFoundError:
            raise InputError(f"{what} holds {dtype}: arrays of it need the package ml_dtypes") from None


def is_int(dtype: str) -> bool:
    """Return whether values of the type are integers, and so `intset` expressions."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    return dtype in _FLOATS


def bits(dtype: str) -> int:
    """Return the width in bits; 1 for `bool`."""
    if dtype in _FLOATS:
        return _FLOATS[dtype].bits
    return 1 if dtype == "bool" else int(dtype.lstrip("uint"))


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


def of_number(number: int) -> str:
    """The type of a Python integer: `int32`, or the first of `int64` and `uint64` that holds it; `int64` beyond."""
    return next((t for t in (INDEX, "int64", "uint64") if holds(t, number)), "int64")


def float_format(dtype: str) -> FloatFormat:
    """Return the format of a float type."""
    return _FLOATS[dtype]


def register(dtype: str) -> tuple[int, bool]:
    """Return the width of an integer type, and whether it has a sign."""
    return bits(dtype), signed(dtype)


def holds(dtype: str, number: int) -> bool:
    """Return whether an integer type has the number."""
    low, high = int_range(dtype)
    return low <= number <= high


def lowest(dtype: str) -> int | float:
    """Return the smallest finite value."""
    return int_range(dtype)[0] if is_int(dtype) else -_FLOATS[dtype].highest


def highest(dtype: str) -> int | float:
    """Return the largest finite value."""
    return int_range(dtype)[1] if is_int(dtype) else _FLOATS[dtype].highest


def least(dtype: str) -> int | float:
    """Return the identity of `max`: at most every value of the type."""
    return int_range(dtype)[0] if is_int(dtype) else -math.inf


def greatest(dtype: str) -> int | float:
    """Return the identity of `min`: at least every value of the type."""
    return int_range(dtype)[1] if is_int(dtype) else math.inf


def rounded(number: float, dtype: str) -> float:
    """Round a Python float, or an integer of any size, once to a float type; ties to even, overflow to infinity.

    `float8_e4m3fn` has no infinity: what is too large becomes NaN.
    """
    if isinstance(number, int):
        number = _nearest(number) if dtype == "float64" else _to_odd(number)
    if dtype == "float64":
        return number
    form = _FLOATS[dtype]
    if not math.isfinite(number):
        return number if form.has_infinity else math.nan
    packed = _PACKED.get(dtype)
    try:
        if packed is not None:
            nearest: float = packed.unpack(packed.pack(number))[0]
            return nearest
    except OverflowError:
        return math.copysign(math.inf, number)
    unit = max(math.frexp(number)[1] - form.digits, form.least)
    nearest = math.copysign(math.ldexp(round(math.ldexp(number, -unit)), unit), number)
    if abs(nearest) <= form.highest:
        return nearest
    return math.copysign(math.inf, number) if form.has_infinity else math.nan


def _nearest(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _to_odd(number: int) -> float:
    """Round an integer to odd as a float, so that rounding it again to 32 or 16 bits rounds the integer correctly.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57 (2008): with two bits more than the target, rounding to odd loses nothing.
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

    Signed with unsigned of equal width promotes to unsigned.
    """
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if bits(a) != bits(b):
        return a if bits(a) > bits(b) else b
    if is_float(a):  # float16 before bfloat16
        return min(a, b, key=list(_FLOATS).index)
    return b if signed(a) else a
