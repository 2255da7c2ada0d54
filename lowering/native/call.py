"""`run(..., backend="c")`: a nest compiled, loaded, and called on numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from bound.tensor import Tensor
from bound.tir.build import negation
from intset.errors import InputError, UndefinedError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Var, const, truth
from intset.expr.walk import postorder, substitute
from lowering.codegen.c import CFile, c_file
from lowering.codegen.c_nest import divides_by_0
from lowering.errors import CheckError, CompilerError
from lowering.native.compiler import FLAGS, OPENMP, compiled_library, supports
from lowering.nest.driver import Descent, rewritten
from lowering.nest.ir import Assert, Assume, Function, If, Seq, ShapeOf, Stmt
from lowering.nest.text import text
from lowering.nest.undef import has_undef
from lowering.nest.walk import calls, children

_ASSUMED: Final = "an assumption does not hold:"

_SCALARS: Final = {
    "bool": ctypes.c_bool,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{f"{u}int{b}": getattr(ctypes, f"c_{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)},
}


def run_native(
    f: Function,
    given: Mapping[Tensor, Any],
    values: tuple[Any, ...],
    shapes: Mapping[Tensor, tuple[int, ...]],
) -> None:
    """Call the compiled function on arrays of the very types, by rows; outputs are written in place.

    Parameters
    ----------
    given: an array for each parameter.
    values: those of `f.sizes`, then of `f.scalars`.
    shapes: of the arrays.

    Raises
    ------
    CompilerError: there is no compiler, or the nest calls a function of the host, or has elements that C has not.
    CheckError: an assertion or an assumption of the nest does not hold.
    InputError: a size does not fit into the integers of the function.
    UndefinedError: an integer is divided by 0.
    MemoryError: the function found no storage.
    """
    host = calls(f.body)
    if host:
        raise CompilerError(f"{f.name} calls {host[0].call.name}, a function of the host: C code cannot call it")
    _check_shapes(f, values, shapes)
    file, function = _loaded(f)
    limit = 1 << (file.bits - 1)
    sizes = values[: len(f.sizes)]
    for var, size in zip(f.sizes, sizes, strict=True):
        if not -limit <= size < limit:
            raise InputError(f"the size {var.name} is {size}: it does not fit into {file.bits} bits")
    index = ctypes.c_int32 if file.bits == 32 else ctypes.c_int64
    args: list[Any] = [given[t].ctypes.data_as(ctypes.c_void_p) for t in f.params]
    args += [index(size) for size in sizes]
    scalars = zip(f.scalars, values[len(f.sizes) :], strict=True)
    args += [_SCALARS[p.dtype](value) for p, value in scalars]
    code = function(*args)
    if code > 0:
        message = file.messages[code - 1]
        if message == divides_by_0(f):
            raise UndefinedError(message)
        is_assumed = message.startswith(_ASSUMED)
        raise CheckError(message if is_assumed else f"an assertion does not hold: {message}")
    if code < 0:
        raise MemoryError(f"{f.name} found no storage for its tensors")


@lru_cache(maxsize=64)
def _loaded(f: Function) -> tuple[CFile, Any]:
    try:
        file = c_file(f.with_body(_with_checks(f.body)))
    except InputError as error:
        raise CompilerError(str(error)) from None
    flags = (*FLAGS, OPENMP) if "#pragma omp" in file.text and supports(OPENMP) else FLAGS
    function = getattr(ctypes.CDLL(str(compiled_library(file.text, flags))), file.entry)
    function.restype = ctypes.c_int
    return file, function


def _with_checks(root: Stmt) -> Stmt:
    """The nest with a check in the place of each assumption."""

    def check(stmt: Assume, _: Descent) -> Stmt:
        if has_undef(stmt.cond):  # it says what may be read
            return Seq()
        return If(negation(stmt.cond), Assert(truth(False), f"{_ASSUMED} {text(stmt.cond)}"))

    return rewritten(root, Descent(), leave={Assume: (check,)})


def _check_shapes(f: Function, values: tuple[Any, ...], shapes: Mapping[Tensor, tuple[int, ...]]) -> None:
    """The assertions on shapes of arrays, which C leaves to its caller."""
    known: dict[Any, Any] = {v: const(k) for v, k in zip(f.sizes, values[: len(f.sizes)], strict=True)}
    for stmt in (f.body, *children(f.body)):
        if not isinstance(stmt, Assert):
            continue
        loads = [n for n in postorder((stmt.cond,)) if n.op is ops.LOAD and isinstance(n.data, ShapeOf)]
        if not loads:
            continue
        extents = {n: const(shapes[n.data.tensor][n.args[0].data]) for n in loads}
        cond = substitute(stmt.cond, {**known, **extents})
        if isinstance(cond, Cond) and not any(isinstance(v, Var) for v in cond.free_vars()) and not evaluate(cond, {}):
            raise CheckError(f"an assertion does not hold: {stmt.message}")
