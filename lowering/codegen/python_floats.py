"""The operations on floats that the source of a nest refers to: those of C, for each float type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

from bound import dtypes
from bound.arrays import call_table

Function = Callable[..., Any]
Rounding = Callable[[float], float]

_EXACT_INTEGERS: Final = 1 << 53  # up to here a Python float holds every integer
_NARROW: Final = ("float16", "float32")
_MATH: Final = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "tanh": math.tanh, "sin": math.sin, "cos": math.cos,
}  # fmt: skip


def float32_rounding() -> Rounding:
    """A function that rounds to `float32`, fast; not for several threads at once."""
    cell = memoryview(bytearray(4)).cast("f")

    def rounding(x: float) -> float:
        cell[0] = x
        return cell[0]

    return rounding


def of_rounding(to_float32: Rounding) -> dict[str, Function]:
    """What rounds, by the names that the source has for it."""
    roundings: dict[str, Rounding] = {"float16": partial(dtypes.rounded, dtype="float16"), "float32": to_float32}
    table: dict[str, Function] = {f"round_{dtype}": rounding for dtype, rounding in roundings.items()}

    def conversion(dtype: str, rounding: Rounding) -> Function:
        def converted(n: int) -> float:
            return rounding(n) if -_EXACT_INTEGERS <= n <= _EXACT_INTEGERS else dtypes.rounded(n, dtype)

        return converted

    return table | {f"to_{dtype}": conversion(dtype, rounding) for dtype, rounding in roundings.items()}


@cache
def float_functions() -> dict[str, Function]:
    """Operations and functions on floats, by the names that the source has for them."""
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
    for dtype in _NARROW:
        # several roundings on the way: each in the type
        table[f"float_floordiv_{dtype}"] = _in_type(np.floor_divide, dtype)
        table[f"float_floormod_{dtype}"] = _in_type(np.mod, dtype)
    calls = dict(_calls())
    table |= {f"call_{name}": function for name, function in calls.items()}
    composed = _composed(calls)
    for dtype in _NARROW:
        rounding = table[f"round_{dtype}"]
        for name, function in calls.items():
            table[f"call_{name}_{dtype}"] = _rounded(function, rounding)
        table |= {f"call_{name}_{dtype}": partial(function, rounding) for name, function in composed.items()}
        table[f"call_nextafter_{dtype}"] = _in_type(np.nextafter, dtype)
    return table


def host_functions(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Functions of the host, by the names that the source has for them; one may stand for a known function."""
    known = float_functions()
    table = {f"call_{name}": function for name, function in functions.items()}
    for name, function in functions.items():
        for dtype in _NARROW:
            if f"call_{name}_{dtype}" in known:
                table[f"call_{name}_{dtype}"] = _rounded(function, known[f"round_{dtype}"])
    return table


def _calls() -> Iterator[tuple[str, Function]]:
    """The known functions on doubles."""
    import numpy as np

    for name, array in call_table().items():
        exact = _MATH.get(name)
        yield name, _in_type(array, "float64") if exact is None else _safe(exact, getattr(np, name))
    yield "erf", math.erf


def _composed(calls: dict[str, Function]) -> dict[str, Function]:
    """Functions that C computes in several steps, each of which rounds: the rounding, then the arguments."""
    import numpy as np

    divide = _safe(lambda a, b: a / b, np.divide)
    exp, exp2, sqrt = calls["exp"], calls["exp2"], calls["sqrt"]
    return {
        "rsqrt": lambda r, x: r(divide(1.0, r(sqrt(x)))),
        "sigmoid": lambda r, x: r(divide(1.0, r(1 + r(exp(-x))))),
        "ldexp": lambda r, x, e: r(x * r(exp2(e))),
    }


def _safe(exact: Function, array: Function) -> Function:
    """A function of Python, and numpy's where Python's raises."""
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


def _rounded(function: Function, rounding: Rounding) -> Function:
    return lambda *args: rounding(float(function(*args)))
