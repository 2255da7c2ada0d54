"""Runtime library of generated Python: C's float functions, machine integers, access checks, unknown values.

Guarantee: float functions round like their C counterparts, for each float type.
"""

import builtins
import keyword
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NoReturn

from bound import dtypes
from bound.tir.machine import Trapping
from intset.errors import InputError, UndefinedError
from intset.expr.ops import CEILDIV, trunc_div, trunc_mod
from lowering.errors import AccessError, CheckError

Function = Callable[..., Any]
Functions = Mapping[str, Function]
Rounding = Callable[[float], float]
Numbers = Sequence[int]

_EXACT_INTEGERS: Final = 1 << 53  # a Python float represents every integer up to this one
_NARROW: Final = ("float16", "bfloat16", "float32")  # narrower than Python's floats
_MATH: Final = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "tanh": math.tanh, "sin": math.sin, "cos": math.cos,
}  # fmt: skip


@cache
def environment() -> dict[str, Any]:
    """Global names of generated Python that are independent of the run."""
    return {
        **float_functions(),
        "allocate": lambda dtype, count: flat_view(_template(dtype, count).copy()),
        "failed": partial(_refuse, CheckError, "an assertion does not hold: {}"),
        "refuted": partial(_refuse, CheckError, "an assumption does not hold: {}"),
        "outside": _outside,
        "unread": _unread,
        "filled": filled,
        "opaque": partial(_refuse, InputError, "the opaque symbol {} has no value"),
        "ceildiv": CEILDIV.meaning,
        "shl": lambda a, b: a << min(_shift(b), 64),  # shifts beyond 64 places leave the same low 64 bits
        "shr": lambda a, b: a >> _shift(b),
        "whole": _whole,
        "reinterpret": lambda x, source, target: struct.unpack(_CODES[target], struct.pack(_CODES[source], x))[0],
        **{f"checked_{function}": partial(_checked, function) for function in Trapping},
        "truncdiv": trunc_div,
        "truncmod": trunc_mod,
    }


@cache
def reserved_names() -> frozenset[str]:
    """Names reserved in generated Python, for its runtime."""
    own = "kernel shapes storage values states evaluate undef".split()
    return frozenset((*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *of_unknown(environment()), *own))


# -- storage and checks -----------------------------------------------------------------------------------------


def poison(dtype: str) -> Any:
    """The conspicuous value of elements before they are computed."""
    if dtype == "bool":
        return False
    if dtypes.is_float(dtype):
        return math.nan
    low, high = dtypes.int_range(dtype)
    return high - 22 if low == 0 else low + 23


def flat_view(array: Any) -> Any:
    """A view of Python numbers; of floats that memory views do not have, the flat numpy array."""
    flat = array.reshape(-1)
    return flat if str(array.dtype) in dtypes.NARROW else memoryview(flat)


@cache
def _template(dtype: str, count: int) -> Any:
    import numpy as np

    return np.full(count, poison(dtype), dtype)


def _outside(name: str, how: str, indices: Numbers, extents: Numbers, origin: Numbers) -> NoReturn:
    point = ", ".join(str(i + o) for i, o in zip(indices, origin, strict=True))
    if all(0 <= i < e for i, e in zip(indices, extents, strict=True)):
        raise AccessError(f"{name}[{point}] is {how}, and lies in the padding of {name}, which may not be touched")
    storage = ", ".join(f"{o}:{o + e}" for o, e in zip(origin, extents, strict=True))
    raise AccessError(f"{name}[{point}] is {how} outside the storage {name}[{storage}]")


def _unread(name: str, indices: Numbers, extents: Numbers, origin: Numbers) -> NoReturn:
    if any(not 0 <= i < e for i, e in zip(indices, extents, strict=True)):
        _outside(name, "read", indices, extents, origin)
    point = ", ".join(str(i + o) for i, o in zip(indices, origin, strict=True))
    raise AccessError(f"{name}[{point}] is read before it is written")


def _refuse(error: type[Exception], message: str, what: str) -> NoReturn:
    raise error(message.format(what))


# -- integers ---------------------------------------------------------------------------------------------------


_CODES: Final = {  # of the bits of a number
    **dict(zip((f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)), "bhiqBHIQ", strict=True)),
    "float32": "f",
    "float64": "d",
}


def _whole(x: float, low: int, high: int) -> int:
    """A float without its fraction.

    Raises
    ------
    UndefinedError: the float is infinite, NaN, or its integer part outside the ends.
    """
    if not math.isfinite(x):
        raise UndefinedError(f"{x} has no integer part")
    number = int(x)
    if not low <= number <= high:
        raise UndefinedError(f"{x} has an integer part outside [{low}, {high}]")
    return number


def _checked(function: Trapping, a: int, b: int, limit: int) -> int:
    """The value of a trapping function. `limit`: bits of a shifted type, or the type's least number for divisions."""
    is_shift = function in (Trapping.SHIFT_LEFT, Trapping.SHIFT_RIGHT)
    if (is_shift and not 0 <= b < limit) or (not is_shift and b == -1 and a == limit):
        raise UndefinedError(f"{function} of {a} and {b} has no value in its type")
    meaning = function.op.meaning
    assert meaning is not None
    return meaning(a, b)


def _shift(b: int) -> int:
    if b < 0:
        raise UndefinedError(f"a shift by {b} places has no value")
    return b


# -- floats -----------------------------------------------------------------------------------------------------


def float32_rounding() -> Rounding:
    """A fast function that rounds to `float32`; not for several threads at once."""
    cell = memoryview(bytearray(4)).cast("f")

    def rounding(x: float) -> float:
        cell[0] = x
        return cell[0]

    return rounding


def of_rounding(to_float32: Rounding) -> dict[str, Function]:
    """The functions that round or convert to a narrow float type."""
    roundings: dict[str, Rounding] = {name: partial(dtypes.rounded, dtype=name) for name in dtypes.NARROW}
    roundings["float32"] = to_float32
    table: dict[str, Function] = {f"round_{dtype}": rounding for dtype, rounding in roundings.items()}

    def conversion(dtype: str, rounding: Rounding) -> Function:
        def converted(n: int) -> float:
            return rounding(n) if -_EXACT_INTEGERS <= n <= _EXACT_INTEGERS else dtypes.rounded(n, dtype)

        return converted

    return table | {f"to_{dtype}": conversion(dtype, rounding) for dtype, rounding in roundings.items()}


@cache
def float_functions() -> dict[str, Function]:
    """Operations and functions on floats."""
    import numpy as np

    table = of_rounding(lambda x: dtypes.rounded(x, "float32"))
    table |= {
        "to_float64": float,
        "divide": _safe(lambda a, b: a / b, np.divide),
        "fmod": _safe(math.fmod, np.fmod),
        "float_floordiv": _safe(lambda a, b: a // b, np.floor_divide),
        "float_floormod": _safe(lambda a, b: a % b, np.mod),
        "truncated": lambda x: math.copysign(math.trunc(x), x) if math.isfinite(x) else x,
        "float_min": lambda a, b: a if a < b or a != a else b,
        "float_max": lambda a, b: a if a > b or a != a else b,
    }
    calls = _calls()
    table |= {f"call_{name}": function for name, function in calls.items()}
    composed = _composed(calls)
    for dtype in _NARROW:
        rounding = table[f"round_{dtype}"]
        # of singles and of narrower types numpy computes these in singles
        table[f"float_floordiv_{dtype}"] = _rounded(_in_type(np.floor_divide, "float32"), rounding)
        table[f"float_floormod_{dtype}"] = _rounded(_in_type(np.mod, "float32"), rounding)
        table |= {f"call_{name}_{dtype}": _rounded(function, rounding) for name, function in calls.items()}
        table |= {f"call_{name}_{dtype}": partial(function, rounding) for name, function in composed.items()}
        table[f"call_nextafter_{dtype}"] = partial(_next_after, dtype)
    return table


def host_functions(functions: Functions) -> dict[str, Function]:
    """Functions of the host, by their names in the source; one may replace a known function."""
    known = float_functions()
    table = {f"call_{name}": function for name, function in functions.items()}
    for name, function in functions.items():
        for dtype in _NARROW:
            if f"call_{name}_{dtype}" in known:
                table[f"call_{name}_{dtype}"] = _rounded(function, known[f"round_{dtype}"])
    return table


def _calls() -> dict[str, Function]:
    """The known functions on doubles."""
    import numpy as np

    arrays = {name: _in_type(array, "float64") for name, array in call_table().items()}
    exact = {name: _safe(function, getattr(np, name)) for name, function in _MATH.items()}
    return arrays | exact | {"erf": math.erf}


def _composed(calls: dict[str, Function]) -> dict[str, Function]:
    """Functions that C computes in several rounded steps; they take the rounding before their arguments."""
    import numpy as np

    divide = _safe(lambda a, b: a / b, np.divide)
    exp, exp2, sqrt = calls["exp"], calls["exp2"], calls["sqrt"]
    return {
        "rsqrt": lambda r, x: r(divide(1.0, r(sqrt(x)))),
        "sigmoid": lambda r, x: r(divide(1.0, r(1 + r(exp(-x))))),
        "ldexp": lambda r, x, e: r(x * r(exp2(e))),
    }


def _safe(exact: Function, array: Function) -> Function:
    """A function of Python; numpy's where Python's raises."""
    import numpy as np

    def function(*args: float) -> Any:
        try:
            return exact(*args)
        except (ValueError, OverflowError, ZeroDivisionError):
            return array(*(np.float64(a) for a in args)).item()

    return function


def _in_type(array: Function, dtype: str) -> Function:
    """A function of numpy on numbers of a type."""
    import numpy as np

    kind = np.dtype(dtype).type
    return lambda *args: np.asarray(array(*(kind(a) for a in args))).item()


def _next_after(dtype: str, x: float, y: float) -> float:
    """The next number of a type from `x` towards `y`."""
    import numpy as np

    dtypes.check_executed(dtype, "nextafter")
    kind = np.dtype(dtype).type
    return float(np.nextafter(kind(x), kind(y)))


def _rounded(function: Function, rounding: Rounding) -> Function:
    return lambda *args: rounding(float(function(*args)))


# -- unknown values ---------------------------------------------------------------------------------------------

WRITTEN: Final = 1  # states of elements; 0 before anything is written
UNKNOWN: Final = 2


class Unknown:
    """A number or truth value computed from an `undef()`.

    Invariant: operations propagate `Unknown`; conditions, indices and loop bounds reject it.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return bool(self.value)


def plain(x: Any) -> Any:
    """Unwrap an `Unknown` to its drawn number."""
    return x.value if isinstance(x, Unknown) else x


def lifted(function: Function) -> Function:
    """The function on numbers and `Unknown`s."""

    def lift(*args: Any) -> Any:
        if not any(isinstance(a, Unknown) for a in args):
            return function(*args)
        return Unknown(function(*map(plain, args)))

    return lift


def _operator(name: str) -> None:
    function = lifted(getattr(operator, name))
    setattr(Unknown, name, lambda self, other: function(self, other))
    if name not in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        setattr(Unknown, f"__r{name[2:]}", lambda self, other: function(other, self))


for _name in "add sub mul floordiv mod truediv and or xor lshift rshift lt le gt ge eq ne".split():
    _operator(f"__{_name}__")
for _name in ("__neg__", "__invert__", "__abs__"):
    setattr(Unknown, _name, lifted(getattr(operator, _name)))


def known(index: Any) -> Any:
    """An index, or the end of a range."""
    if isinstance(index, Unknown):
        raise CheckError("an index, or the end of a range, depends on an undef()")
    return index


def decided(cond: Any) -> bool:
    """A condition that controls execution."""
    if isinstance(cond, Unknown):
        raise CheckError("a condition depends on an undef()")
    return bool(cond)


def both(a: Any, b: Callable[[], Any]) -> Any:
    """`a and b`."""
    if isinstance(a, Unknown):
        return Unknown(bool(a.value and plain(b())))
    return a and b()


def either(a: Any, b: Callable[[], Any]) -> Any:
    """`a or b`."""
    if isinstance(a, Unknown):
        return Unknown(bool(a.value or plain(b())))
    return a or b()


def store(elements: Any, states: bytearray | None, index: int, value: Any) -> None:
    """Put a value into an element, and note its state."""
    elements[index] = plain(value)
    if states is not None:
        states[index] = UNKNOWN if isinstance(value, Unknown) else WRITTEN


def permit(states: bytearray, index: int) -> None:
    """Let an element be read before it is written."""
    states[index] = states[index] or UNKNOWN


def filled(states: bytearray) -> None:
    """Note that a host call has written every element."""
    states[:] = bytes([WRITTEN]) * len(states)


def of_unknown(names: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a source whose values may be unknown."""
    return {
        **{name: lifted(f) if callable(f) and name not in _PLAIN else f for name, f in names.items()},
        **{f.__name__: lifted(f) for f in (min, max, abs, float)},
        "range": lambda *ends: range(*map(known, ends)),
        "known": known,
        "decided": decided,
        "both": both,
        "either": either,
        "negated": lifted(operator.not_),
        "popcount": lifted(int.bit_count),
        "keep": lambda value, state: Unknown(value) if state == UNKNOWN else value,
        "store": store,
        "permit": permit,
    }


_PLAIN: Final = frozenset(("allocate", "failed", "refuted", "outside", "unread", "opaque", "filled"))


def _away_from_0(x: Any) -> Any:
    """Round to the nearest integer, ties away from 0."""
    import numpy as np

    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


@cache
def call_table() -> dict[str, Any]:
    import numpy as np

    same = ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    others = ("floor", "ceil", "trunc", "fmod", "hypot", "copysign", "nextafter", "isnan", "isfinite", "isinf")
    table: dict[str, Any] = {name: getattr(np, name) for name in same + others}
    return table | {
        "exp10": lambda x: np.power(x.dtype.type(10), x),
        "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
        "sigmoid": lambda x: x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x)),
        "erf": np.vectorize(math.erf, otypes=[float]),
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "asinh": np.arcsinh,
        "acosh": np.arccosh,
        "atanh": np.arctanh,
        "pow": np.power,
        "round": _away_from_0,
        "nearbyint": np.rint,
        "ldexp": lambda x, e: x * np.exp2(e),
    }
