"""`run`: a nest executed on numpy arrays, as generated Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NoReturn

from bound import dtypes
from bound.tensor import Tensor
from intset.errors import InputError, UndefinedError
from intset.expr.arguments import a_name, mapped
from intset.expr.ops import trunc_div, trunc_mod, wrap
from intset.expr.text import shown
from lowering.binding import bound_values, by_tensor
from lowering.codegen.python_floats import float32_rounding, float_functions, host_functions, of_rounding
from lowering.codegen.python_nest import PythonNest
from lowering.errors import AccessError, CheckError
from lowering.native.call import run_native
from lowering.nest.ir import Allocate, Evaluate, Function, checked_function
from lowering.nest.undef import has_undef
from lowering.nest.walk import is_operand, operands, statements
from lowering.unknown import Unknown, filled, of_unknown, plain

BACKENDS: Final = ("python", "c")
_SOURCES: dict[Any, Any] = {}
Numbers = Sequence[int]


def run(
    f: Function,
    arrays: Mapping[Any, Any],
    sizes: Mapping[Any, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    checked: bool = True,
    undef: Callable[[str], Any] | None = None,
    backend: str = "python",
) -> dict[str, Any]:
    """Execute a lowered function.

    Loops on threads run one after another. A stage that threads share is computed whole by each of them, so no barrier
    is needed and every order gives the same result.

    Parameters
    ----------
    f: what `lower` gave.
    arrays: a numpy array for each parameter, by tensor or by name. Outputs are written in place; an output without an
        array gets a new one. Inputs are converted to the type of their tensor.
    sizes: values of variables and scalar parameters, by themselves or by name, where no shape tells them.
    functions: what extern calls do, by name: called with arrays for the tensors, it fills those it computes.
    checked: whether every access is checked against the storage of its tensor and what was written there. Unchecked,
        an access outside may give any value, but never touches memory outside the storage.
    undef: gives a value of a type for each `undef()` that is executed; without it, 0.
    backend: "python", the checked interpreter; or "c": the function is compiled (by `CC`, else the compiler that is
        found), kept in the user's cache, and called. Shapes, assertions and assumptions are checked alike, accesses are
        not, and `undef()` is 0.

    Returns
    -------
    The arrays of the outputs, by name (where a rewrite of the schedule renamed one, by both names).

    Raises
    ------
    InputError: an array or size is missing, or has another shape or type than its tensor; or `undef` is given for a
        nest with `undef()` that is to run as C.
    CheckError: an assertion or an assumption of the nest does not hold, or a condition, an index or the end of a range
        gets an `undef()` from memory.
    AccessError: an access outside the storage of a tensor or in its `padding`, or a read of an element that holds
        nothing yet; the message names the tensor and the indices.
    UndefinedError: an integer is divided by 0.
    CompilerError: `backend="c"` without a compiler, or for a nest that calls a function of the host.
    """
    checked_function(f, "run")
    import numpy as np

    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, not {shown(backend)}")
    if backend == "c" and undef is not None and any(has_undef(*operands(stmt)) for stmt in statements(f.body)):
        raise InputError('C code draws no values for undef(): run it with backend="python", or without undef')
    made = (stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate))
    for tensor in (*f.params, *made):
        dtypes.check_executed(tensor.dtype, tensor.name)
    passed = {t: checked_array(t.name, t.dtype, array, t in f.outputs) for t, array in by_tensor(f, arrays).items()}
    hosts = {} if functions is None else mapped(functions, "functions", "a mapping from names to functions")
    for name in hosts:
        a_name(name, "a name in functions")
    values, shapes = bound_values(f, passed, sizes)
    given = {tensor: _array(tensor, passed.get(tensor), shapes[tensor]) for tensor in f.params}
    if backend == "c":
        run_native(f, given, values, shapes)
    else:
        flat = {tensor: _flat(array, tensor.dtype) for tensor, array in given.items()}
        kernel = _kernel(f, checked, hosts, undef)
        states = {t: bytearray([t in passed]) * len(flat[t]) for t in f.params}
        try:
            with np.errstate(all="ignore"):
                kernel(shapes, flat, values, states)
        except ZeroDivisionError:
            raise UndefinedError(f"{f.name} divides an integer by 0") from None
    results: dict[str, Any] = {}
    for tensor in f.outputs:
        target = passed.get(tensor, given[tensor])
        if target is not given[tensor]:
            target[...] = given[tensor]
        results.update({key: target for key, t in f.labels.items() if t is tensor and isinstance(key, str)})
        results[tensor.name] = target
    return results


def _kernel(f: Function, checked: bool, functions: Mapping[str, Callable[..., Any]], draw: Any) -> Any:
    key = (f, checked)
    if key not in _SOURCES:
        if len(_SOURCES) > 64:
            _SOURCES.clear()
        nest = PythonNest(f, checked)
        source = nest.source()
        _SOURCES[key] = (compile(source, f"<nest {f.name!a}>", "exec"), nest.constants, nest.is_unknown)
    code, constants, is_unknown = _SOURCES[key]
    env: dict[str, Any] = {**environment(), **of_rounding(float32_rounding()), **host_functions(functions)}
    if is_unknown:
        env = of_unknown(env)
    env |= constants
    env["evaluate"] = lambda stmt, given, storage: _evaluate(stmt, [*map(plain, given)], storage, functions)
    env["undef"] = lambda dtype: Unknown(_drawn(draw, dtype)) if is_unknown else _drawn(draw, dtype)
    exec(code, env)
    return env["kernel"]


def checked_array(name: str, dtype: str, given: Any, is_output: bool = False) -> Any:
    """What was given for a tensor as a numpy array, if it is one and its type goes with the tensor's.

    Raises
    ------
    InputError: it is no array, has another kind of type, or is to be written and no numpy array.
    """
    import numpy as np

    if is_output and not isinstance(given, np.ndarray):
        what = type(given).__name__
        raise InputError(f"the array for {name} is written: it must be a numpy array, not a {what}")
    try:
        array = np.asarray(given)
    except ValueError:
        raise InputError(f"the array for {name} is no array: its rows have different lengths") from None
    is_whole = dtypes.is_int(dtype) or dtype == "bool"
    if array.dtype.kind not in ("iub" if is_whole else "f"):
        raise InputError(f"the array for {name} has the type {array.dtype}, not {dtype}")
    return array


def _array(tensor: Tensor, given: Any, shape: tuple[int, ...]) -> Any:
    """An array of the very type, by rows."""
    import numpy as np

    if given is None:
        return np.full(shape, poison(tensor.dtype), tensor.dtype)
    return np.ascontiguousarray(given, tensor.dtype).reshape(shape)


def _flat(array: Any, dtype: str) -> Any:
    """A view that gives and takes Python numbers; of float16, which views do not have, the numpy array."""
    flat = array.reshape(-1)
    return flat if dtype == "float16" else memoryview(flat)


def poison(dtype: str) -> Any:
    """What an element holds before it is computed: something that shows."""
    if dtype == "bool":
        return False
    if dtypes.is_float(dtype):
        return math.nan
    low, high = dtypes.int_range(dtype)
    return high - 22 if low == 0 else low + 23


def _allocate(dtype: str, count: int) -> Any:
    return memoryview(_template(dtype, count).copy()) if dtype != "float16" else _template(dtype, count).copy()


@cache
def _template(dtype: str, count: int) -> Any:
    import numpy as np

    return np.full(count, poison(dtype), dtype)


def _outside(name: str, how: str, indices: Numbers, extents: Numbers, origin: Numbers) -> NoReturn:
    place = ", ".join(str(i + o) for i, o in zip(indices, origin, strict=True))
    if all(0 <= i < e for i, e in zip(indices, extents, strict=True)):
        raise AccessError(f"{name}[{place}] is {how}, and lies in the padding of {name}, which may not be touched")
    storage = ", ".join(f"{o}:{o + e}" for o, e in zip(origin, extents, strict=True))
    raise AccessError(f"{name}[{place}] is {how} outside the storage {name}[{storage}]")


def _unread(name: str, indices: Numbers, extents: Numbers, origin: Numbers) -> NoReturn:
    if any(not 0 <= i < e for i, e in zip(indices, extents, strict=True)):
        _outside(name, "read", indices, extents, origin)
    place = ", ".join(str(i + o) for i, o in zip(indices, origin, strict=True))
    raise AccessError(f"{name}[{place}] is read before it is written")


def _failed(message: str) -> NoReturn:
    raise CheckError(f"an assertion does not hold: {message}")


def _refuted(condition: str) -> NoReturn:
    raise CheckError(f"an assumption does not hold: {condition}")


def _drawn(draw: Callable[[str], Any] | None, dtype: str) -> Any:
    """A value for an `undef()`."""
    if draw is None:
        return 0.0 if dtypes.is_float(dtype) else dtype != "bool" and 0
    return as_element(draw(dtype), dtype)


def as_element(value: Any, dtype: str) -> Any:
    """A number as an element of the type holds it; integers of 64 bits have a sign."""
    if dtypes.is_float(dtype):
        return dtypes.rounded(float(value), dtype)
    if dtype == "bool":
        return bool(value)
    return wrap(int(value), dtypes.bits(dtype), dtypes.signed(dtype) or dtypes.bits(dtype) >= 64)


def _opaque(name: str) -> NoReturn:
    raise InputError(f"the opaque symbol {name} has no value")


def _evaluate(
    stmt: Evaluate, given: Any, storage: Mapping[Tensor, Any], functions: Mapping[str, Callable[..., Any]]
) -> None:
    import numpy as np

    if stmt.call.name not in functions:
        raise InputError(f"the nest calls {stmt.call.name}, which is not known: pass it in functions")
    arrays = {t: np.asarray(flat).reshape(shape) for t, (flat, shape) in storage.items()}
    computed = iter(given)
    args = [arrays[a] if isinstance(a, Tensor) else next(computed) if is_operand(a) else a for a in stmt.call.args]
    functions[stmt.call.name](*args)


def _whole(x: float) -> int:
    """A float without its fraction.

    Raises
    ------
    UndefinedError: it has none, or one that 64 bits do not hold, with a sign or without.
    """
    if not math.isfinite(x):
        raise UndefinedError(f"{x} has no integer part")
    if not -(2.0**63) <= x < 2.0**64:
        raise UndefinedError(f"{x} has an integer part that 64 bits do not hold")
    return int(x)


def _shl(a: int, b: int) -> int:
    """`a << b`; shifts beyond 64 places leave the same low 64 bits."""
    return a << min(_places(b), 64)


def _shr(a: int, b: int) -> int:
    return a >> _places(b)


def _places(b: int) -> int:
    if b < 0:
        raise UndefinedError(f"a shift by {b} places has no value")
    return b


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@cache
def environment() -> dict[str, Any]:
    """What the source of a nest refers to, besides what belongs to one run."""
    return {
        **float_functions(),
        "allocate": _allocate,
        "failed": _failed,
        "refuted": _refuted,
        "outside": _outside,
        "unread": _unread,
        "filled": filled,
        "opaque": _opaque,
        "ceildiv": _ceildiv,
        "shl": _shl,
        "shr": _shr,
        "whole": _whole,
        "truncdiv": trunc_div,
        "truncmod": trunc_mod,
    }
