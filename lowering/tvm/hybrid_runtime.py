"""`tvm.te.hybrid.runtime`: what the names of a hybrid script mean when it runs on numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final

_FLOATS: Final[Mapping[str, Callable[..., Any]]] = {
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "power": math.pow,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sqrt": math.sqrt,
    "tanh": math.tanh,
}
_TYPES: Final = (
    *(f"{unsigned}int{bits}" for unsigned in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)


def _array(shape: Any, dtype: str = "float32", scope: str = "") -> Any:
    import numpy as np

    return np.zeros(tuple(map(int, shape)), dtype)


def _typed(dtype: str) -> Callable[[Any], Any]:
    def convert(x: Any) -> Any:
        import numpy as np

        return np.dtype(dtype).type(x)

    return convert


HYBRID_GLOBALS: Final[dict[str, Any]] = {
    **_FLOATS,
    **{dtype: _typed(dtype) for dtype in _TYPES},
    **dict.fromkeys(("const_range", "parallel", "serial", "unroll", "vectorize"), range),
    "allocate": _array,
    "bind": lambda tag, extent: range(extent),
    "ceil_div": lambda a, b: -(-a // b),
    "likely": lambda cond: cond,
    "max_num_threads": lambda allow_none=True: 1,
    "output_tensor": _array,
    "popcount": lambda x: int(x).bit_count(),
}


def emulated(func: Any) -> Callable[..., Any]:
    """The function with these names beside its own."""
    names = {**func.__globals__, **HYBRID_GLOBALS}
    return FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)


__all__ = ["HYBRID_GLOBALS", "emulated"]
