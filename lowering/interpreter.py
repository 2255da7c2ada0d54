"""`run`: a nest executed on numpy arrays, as generated Python or as C that is compiled, cached and loaded.

C: the user's private cache folder keeps libraries under a hash of text, flags, compiler version and processor
(`-march=native` differs between machines). A build uses a temporary name and an atomic rename, so concurrent builds of
one library do not interfere, and an interrupted build leaves nothing to load.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import negation
from bound.tir.value import Number
from intset.errors import InputError, UndefinedError
from intset.expr import Cond, Expr, Var, arguments, const, dag, ops, shown
from intset.expr.evaluate import evaluate
from intset.expr.node import as_int, truth
from lowering.codegen import python_runtime as runtime
from lowering.codegen.c import CFile, c_file, divides_by_0
from lowering.codegen.python import PythonNest
from lowering.errors import CheckError, CompilerError
from lowering.nest import ir
from lowering.nest.names import label_of
from lowering.nest.printer import text
from lowering.nest.walk import calls, children, is_operand, operands, rebuilt, statements

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


FLAGS: Final = ("-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
OPENMP: Final = "-fopenmp"
COMPILERS: Final = ("cc", "gcc", "clang")
_PRIVATE: Final = 0o700
Parameter = TypeVar("Parameter", bound=Tensor | str)  # mappings are invariant in their keys
Scalar = TypeVar("Scalar", bound="Number | str")
BACKENDS: Final = ("python", "c")
_SEARCHED: Final = 1 << 16  # values that are tried for a size whose extent is nonlinear
_SOURCES: dict[Any, Any] = {}
Shapes = dict[Tensor, tuple[int, ...]]


def compiler_command() -> tuple[str, ...]:
    """The compiler's path and options, from `CC`, else the first installed one of `COMPILERS`.

    Raises
    ------
    CompilerError: no compiler is installed, or `CC` is not executable.
    """
    named = shlex.split(os.environ.get("CC", ""))
    for words in [named] if named else [[name] for name in COMPILERS]:
        found = shutil.which(words[0])
        if found is not None:
            return (found, *words[1:])
    if named:
        raise CompilerError(f"CC names {shown(named[0])}, which cannot be run")
    raise CompilerError(f"no C compiler is found: install one of {', '.join(COMPILERS)}, or name it in CC")


def compiled_library(text: str, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared library of a C text, built unless it is in the cache.

    Raises
    ------
    CompilerError: no compiler is installed, it rejects the text, or another user owns the cache folder.
    """
    command = (*compiler_command(), *flags)
    key = hashlib.sha256("\0".join((text, *command, _version(command[0]), _processor())).encode()).hexdigest()
    folder = cache_folder()
    target = folder / f"{key}.so"
    if not _is_own(target):
        _build(command, text, target)
    return target


def cache_folder() -> Path:
    """The private folder of built libraries, readable by its owner alone."""
    folder = _user_cache() / "intset"
    try:
        folder.mkdir(_PRIVATE, parents=True, exist_ok=True)
        if os.name == "posix":
            state = folder.stat()
            if state.st_uid != os.getuid():
                raise CompilerError(f"the cache folder {folder} belongs to somebody else")
            if stat.S_IMODE(state.st_mode) != _PRIVATE:
                folder.chmod(_PRIVATE)
    except OSError as error:
        raise CompilerError(f"the cache folder {folder} cannot be used: {error.strerror}") from None
    return folder


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _is_own(target: Path) -> bool:
    """Whether a library exists and belongs to this user; foreign files are never loaded."""
    try:
        state = target.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and (os.name != "posix" or state.st_uid == os.getuid())


def _build(command: tuple[str, ...], text: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        source, built = Path(folder) / "nest.c", Path(folder) / "nest.so"
        source.write_text(text)
        try:
            words = [*command, str(source), "-o", str(built), "-lm"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            raise CompilerError(f"{command[0]} cannot be run: {error.strerror}") from None
        if done.returncode != 0:
            raise CompilerError(f"{command[0]} refuses the text:\n{done.stderr.strip()}")
        built.replace(target)


@cache
def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


@cache
def _processor() -> str:
    """The model and features of the processor, which determine code for `-march=native`."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features")
    return "\n".join(next((line for line in lines if line.startswith(name)), "") for name in wanted)


@cache
def _supports(command: tuple[str, ...], flag: str) -> bool:
    """Whether the compiler builds and links with a flag."""
    with tempfile.TemporaryDirectory() as folder:
        text = "int empty(void);\nint empty(void) { return 0; }\n"
        try:
            _build((*command, flag, "-fPIC", "-shared"), text, Path(folder) / "empty.so")
        except CompilerError:
            return False
    return True


# -- calls -----------------------------------------------------------------------------------------------------

_ASSUMED: Final = "an assumption does not hold:"

_SCALARS: Final = {
    "bool": ctypes.c_bool,
    **dict.fromkeys((*dtypes.NARROW, "float32"), ctypes.c_float),
    "float64": ctypes.c_double,
    **{f"{u}int{b}": getattr(ctypes, f"c_{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)},
}


def native_call(
    f: ir.Function, buffers: Mapping[Tensor, Any], values: tuple[Any, ...], shapes: Mapping[Tensor, tuple[int, ...]]
) -> Callable[[], None]:
    """The compiled function with its arguments bound: compiled, or loaded from the cache. Calls write outputs in place.

    Parameters
    ----------
    buffers: a row-major array of the parameter's type for each parameter.
    values: the values of `f.sizes`, then of `f.scalars`.
    shapes: the shapes of the arrays.

    Raises
    ------
    CompilerError: no compiler is installed, the nest calls a host function, or C lacks an element type.
    CheckError: of a call, an assertion or assumption is violated.
    InputError: a size exceeds the function's integer type.
    UndefinedError: of a call, an integer is divided by 0.
    MemoryError: of a call, allocation failed.
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
    args: list[Any] = [buffers[t].ctypes.data_as(ctypes.c_void_p) for t in f.params]
    args += [index(size) for size in sizes]
    scalars = zip(f.scalars, values[len(f.sizes) :], strict=True)
    args += [_SCALARS[p.dtype](value) for p, value in scalars]

    def call() -> None:
        if code := function(*args):
            _raise(f, file, code)

    return call


def _raise(f: ir.Function, file: CFile, code: int) -> None:
    """The error that a nonzero code of the compiled function stands for."""
    if code < 0:
        raise MemoryError(f"{f.name} found no storage for its tensors")
    message = file.messages[code - 1]
    if message == divides_by_0(f):
        raise UndefinedError(message)
    is_assumed = message.startswith(_ASSUMED)
    raise CheckError(message if is_assumed else f"an assertion does not hold: {message}")


@lru_cache(maxsize=64)
def _loaded(f: ir.Function) -> tuple[CFile, Any]:
    try:
        file = c_file(f.with_body(_with_checks(f.body)))
    except InputError as error:
        raise CompilerError(str(error)) from None
    flags = (*FLAGS, OPENMP) if "#pragma omp" in file.text and _supports(compiler_command(), OPENMP) else FLAGS
    library = compiled_library(file.text, flags)
    try:
        function = getattr(ctypes.CDLL(str(library)), file.entry)
    except OSError as error:  # it calls what is not there
        raise CompilerError(f"{f.name} is not loaded: {str(error).partition(': ')[2]}") from None
    function.restype = ctypes.c_int
    return file, function


def _with_checks(root: ir.Stmt) -> ir.Stmt:
    """Replace assumptions by runtime checks."""

    def check(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.Assume):
            return stmt
        if ir.has_undef(stmt.cond):  # it says what may be read
            return ir.Seq()
        return ir.If(negation(stmt.cond), ir.Assert(truth(False), f"{_ASSUMED} {text(stmt.cond)}"))

    return rebuilt(root, check)


def _check_shapes(f: ir.Function, values: tuple[Any, ...], shapes: Mapping[Tensor, tuple[int, ...]]) -> None:
    """Check assertions on array shapes, which C code leaves to its caller."""
    known: dict[Any, Any] = {v: const(k) for v, k in zip(f.sizes, values[: len(f.sizes)], strict=True)}
    for stmt in (f.body, *children(f.body)):
        if not isinstance(stmt, ir.Assert):
            continue
        extents = {n: const(shapes[n.data.tensor][n.args[0].data]) for n in ir.shapes_in(stmt.cond)}
        if not extents:
            continue
        cond = dag.substitute(stmt.cond, {**known, **extents})
        if isinstance(cond, Cond) and not any(isinstance(v, Var) for v in cond.free_vars()) and not evaluate(cond, {}):
            raise CheckError(f"an assertion does not hold: {stmt.message}")


def run(
    f: ir.Function,
    arrays: Mapping[Parameter, ArrayLike],
    sizes: Mapping[Scalar, dtypes.Numeric] | None = None,
    functions: Mapping[str, Callable[..., object]] | None = None,
    checked: bool = True,
    undef: Callable[[str], dtypes.Numeric] | None = None,
    backend: str = "python",
) -> dict[str, dtypes.Array]:
    """Execute a lowered function.

    Loops on threads run one after another. Each thread computes a shared stage as a whole, so no barrier is needed and
    every order gives the same result.

    Parameters
    ----------
    f: the result of `lower`, or of a pass.
    arrays: a numpy array for each parameter, by tensor or by name. Outputs are written in place; missing
        outputs are allocated. Inputs are converted to the type of their tensor.
    sizes: values of scalar parameters and undetermined sizes, by object or by name.
    functions: extern functions by name; each is called with arrays for its tensors, and fills those it computes.
    checked: whether every access is checked against the storage of its tensor and the elements written so far.
        An unchecked access outside may give any value, but never touches memory outside the storage.
    undef: draws a value of a type for each executed `undef()`; by default 0.
    backend: "python", the checked interpreter; or "c": the function is compiled (by `CC`, else the compiler that is
        found), kept in the user's cache, and called. Shapes, assertions and assumptions are checked alike, accesses are
        not, and `undef()` is 0.

    Returns
    -------
    The arrays of the outputs, by name (where a rewrite of the schedule renamed one, by both names).

    Raises
    ------
    InputError: an array or size is missing or mismatched, or C code would have to draw values for `undef()`.
    CheckError: an assertion or assumption is violated, or an `undef()` reaches a condition, an index or a loop bound.
    AccessError: an access outside a tensor's storage or inside its `padding`, or a read of an unwritten element; the
        message names tensor and indices.
    UndefinedError: an integer is divided by 0.
    CompilerError: `backend="c"` without a compiler, or for a nest that calls a function of the host.
    """
    ir.checked_function(f, "run")
    import numpy as np

    arguments.one_of(BACKENDS, backend, "backend")
    if backend == "c" and undef is not None and any(ir.has_undef(*operands(stmt)) for stmt in statements(f.body)):
        raise InputError('C code draws no values for undef(): run it with backend="python", or without undef')
    allocated = (stmt.tensor for stmt in statements(f.body) if isinstance(stmt, ir.Allocate))
    for tensor in (*f.params, *allocated):
        dtypes.check_executed(tensor.dtype, tensor.name)
    passed = {t: checked_array(t.name, t.dtype, array, t in f.outputs) for t, array in by_tensor(f, arrays).items()}
    hosts = {} if functions is None else arguments.mapped(functions, "functions", "a mapping from names to functions")
    for name in hosts:
        arguments.a_name(name, "a name in functions")
    values, shapes = bound_values(f, passed, sizes)
    buffers = {tensor: _array(tensor, passed.get(tensor), shapes[tensor]) for tensor in f.params}
    if backend == "c":
        native_call(f, buffers, values, shapes)()
    else:
        flat = {tensor: runtime.flat_view(array) for tensor, array in buffers.items()}
        kernel = _kernel(f, arguments.a_flag(checked, "checked"), hosts, undef)
        states = {t: bytearray([t in passed]) * len(flat[t]) for t in f.params}
        try:
            with np.errstate(all="ignore"):
                kernel(shapes, flat, values, states)
        except ZeroDivisionError:
            raise UndefinedError(f"{f.name} divides an integer by 0") from None
    results: dict[str, dtypes.Array] = {}
    for tensor in f.outputs:
        target = passed.get(tensor, buffers[tensor])
        if target is not buffers[tensor]:
            target[...] = buffers[tensor]
        results.update({key: target for key, t in f.labels.items() if t is tensor and isinstance(key, str)})
        results[tensor.name] = target
    return results


def _kernel(f: ir.Function, checked: bool, functions: Mapping[str, Callable[..., Any]], draw: Any) -> Any:
    key = (f, checked)
    if key not in _SOURCES:
        if len(_SOURCES) > 64:
            _SOURCES.clear()
        nest = PythonNest(f, checked)
        source = nest.source()
        _SOURCES[key] = (compile(source, f"<nest {f.name!a}>", "exec"), nest.constants, nest.is_unknown)
    code, constants, is_unknown = _SOURCES[key]
    env: dict[str, Any] = {
        **runtime.environment(),
        **runtime.of_rounding(runtime.float32_rounding()),
        **runtime.host_functions(functions),
    }
    if is_unknown:
        env = runtime.of_unknown(env)
    env |= constants
    env["evaluate"] = lambda stmt, args, storage: _evaluate(stmt, [*map(runtime.plain, args)], storage, functions)
    env["undef"] = lambda dtype: runtime.Unknown(_drawn(draw, dtype)) if is_unknown else _drawn(draw, dtype)
    exec(code, env)
    missing = [n for n in env["kernel"].__code__.co_names if n.startswith("call_") and n not in env]
    if missing:
        raise InputError(f"the nest calls {missing[0][5:]}, which is not known: pass it in functions")
    return env["kernel"]


def checked_array(name: str, dtype: str, value: Any, is_output: bool = False) -> Any:
    """An argument of the user as a numpy array whose type converts to the tensor's.

    Raises
    ------
    InputError: an argument is not an array, its type does not convert, or an output is not a numpy array.
    """
    import numpy as np

    if is_output and not isinstance(value, np.ndarray):
        what = type(value).__name__
        raise InputError(f"the array for {name} is written: it must be a numpy array, not a {what}")
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"the array for {name} is no array: its rows have different lengths") from None
    is_whole = dtypes.is_int(dtype) or dtype == "bool"
    if array.dtype.kind not in ("iub" if is_whole else "f") and str(array.dtype) != dtype:
        raise InputError(f"the array for {name} has the type {array.dtype}, not {dtype}")
    return array


def _array(tensor: Tensor, passed: Any, shape: tuple[int, ...]) -> Any:
    """A row-major array of the tensor's type; new if the user passed none."""
    import numpy as np

    if passed is None:
        return np.full(shape, runtime.poison(tensor.dtype), tensor.dtype)
    return np.ascontiguousarray(passed, tensor.dtype).reshape(shape)


def _drawn(draw: Callable[[str], Any] | None, dtype: str) -> Any:
    """A value for an `undef()`."""
    if draw is None:
        return 0.0 if dtypes.is_float(dtype) else dtype != "bool" and 0
    return as_element(draw(dtype), dtype)


def as_element(value: Any, dtype: str) -> Any:
    """A number converted to a type."""
    if dtypes.is_float(dtype):
        return dtypes.rounded(float(value), dtype)
    if dtype == "bool":
        return bool(value)
    return ops.wrap(int(value), dtypes.bits(dtype), dtypes.signed(dtype))


def _evaluate(
    stmt: ir.Evaluate, numbers: Any, storage: Mapping[Tensor, Any], functions: Mapping[str, Callable[..., Any]]
) -> None:
    """Call a function of the host on arrays and numbers."""
    import numpy as np

    if stmt.call.name not in functions:
        raise InputError(f"the nest calls {stmt.call.name}, which is not known: pass it in functions")
    arrays = {t: np.asarray(flat).reshape(shape) for t, (flat, shape) in storage.items()}
    computed = iter(numbers)
    args = [arrays[a] if isinstance(a, Tensor) else next(computed) if is_operand(a) else a for a in stmt.call.args]
    functions[stmt.call.name](*args)


# -- values of sizes and scalars -------------------------------------------------------------------------------


def by_tensor(f: ir.Function, arrays: Mapping[Any, Any]) -> dict[Tensor, Any]:
    """The arrays by parameter; a key is the parameter, its name, or the tensor of the user's script."""
    if not isinstance(arrays, Mapping):
        raise InputError(f"run takes arrays by tensor or name, a mapping, not a {type(arrays).__name__}")
    names: dict[Any, Tensor] = {**f.labels, **{t.name: t for t in f.params}, **{t: t for t in f.params}}
    known: dict[Tensor, Any] = {}
    for key, array in arrays.items():
        if key not in names:
            label = key.name if isinstance(key, Tensor) else shown(key)
            parameters = ", ".join(t.name for t in f.params)
            others = {v.name: v for v in f.sizes} | {v.data[0]: v for v in f.scalars}
            if other := next((name for name, v in others.items() if key is v or key == name), None):
                raise InputError(
                    f"{other} is no array: {f.name} takes sizes and scalars in the third argument, as in "
                    f"run(f, arrays, {{{other!r}: 4}})"
                )
            raise InputError(f"{label} is no parameter of {f.name}: the parameters are {parameters}")
        known[names[key]] = array
    return known


def bound_values(
    f: ir.Function, arrays: Mapping[Tensor, Any], sizes: Mapping[Any, Any] | None
) -> tuple[tuple[Any, ...], Shapes]:
    """The values of `f.sizes` and `f.scalars`, and the shape of each parameter.

    Sizes come from the argument `sizes`, then from plain extents, then from extents with a single unknown.

    Raises
    ------
    InputError: an array has the wrong number of dimensions or a wrong constant extent, or a size is not determined.
    """
    sizes = {} if sizes is None else arguments.mapped(sizes, "sizes", "a mapping {size: integer}")
    actual_shapes: Shapes = {}
    for tensor in f.params:
        if tensor in arrays:
            actual_shapes[tensor] = _shape_of(tensor, arrays[tensor])
        elif tensor not in f.outputs:
            raise InputError(f"the array for {tensor.name} is missing")
    known = {var: as_int(value, f"the size {var.name}") for var in f.sizes if (value := _find(var, sizes)) is not None}
    pairs = [
        (dag.without_assertions(e), actual)
        for t, shape in actual_shapes.items()
        for e, actual in zip(t.extents, shape, strict=True)
    ]
    for extent, actual in pairs:
        if isinstance(extent, Var) and extent not in known:
            known[extent] = actual
    progress = True
    while progress:
        progress = False
        for extent, actual in pairs:
            unknown = [var for var in extent.free_vars() if var not in known]
            if len(unknown) == 1 and (value := _solved(extent, unknown[0], known, actual)) is not None:
                known[unknown[0]] = value
                progress = True
    missing = [var.name for var in f.sizes if var not in known]
    if missing:
        raise InputError(f"the size {missing[0]} is not determined by the shapes of the arrays: pass it in sizes")
    shapes = {t: actual_shapes[t] if t in actual_shapes else _computed(t, known) for t in f.params}
    _compare(f, actual_shapes, known)
    scalars = [_scalar(p, sizes) for p in f.scalars]
    return (*(known[var] for var in f.sizes), *scalars), shapes


def _compare(f: ir.Function, actual_shapes: Shapes, known: Mapping[Var, int]) -> None:
    """Refuse arrays whose shapes differ from their tensors', unless the nest itself asserts the shape."""
    checks = (stmt for stmt in statements(f.body) if isinstance(stmt, ir.Assert))
    asserted = {extent.data.tensor for check in checks for extent in ir.shapes_in(check.cond)}
    for tensor, shape in actual_shapes.items():
        if tensor not in asserted:
            for k, (extent, actual) in enumerate(zip(_computed(tensor, known), shape, strict=True)):
                if extent != actual:
                    raise InputError(f"extent {k} of the array for {tensor.name} is {actual}, not {shown(extent)}")


def _shape_of(tensor: Tensor, array: Any) -> tuple[int, ...]:
    shape = tuple(int(k) for k in getattr(array, "shape", ()))
    if len(shape) != tensor.ndim:
        raise InputError(f"the array for {tensor.name} has {len(shape)} dimensions, not {tensor.ndim}")
    for k, (extent, actual) in enumerate(zip(tensor.extents, shape, strict=True)):
        if extent.is_const and extent.data != actual:
            raise InputError(f"extent {k} of the array for {tensor.name} is {actual}, not {extent.data}")
    return shape


def _find(var: Any, sizes: Mapping[Any, Any]) -> Any:
    """The value of a size or a scalar that the user passed; `None` without one."""
    for key, value in sizes.items():
        size = dag.without_assertions(key) if isinstance(key, Expr) else key  # an extent of `T.shape` asserts n >= 0
        if size is var or (isinstance(size, str) and size == label_of(var)):
            return value
    return None


def _scalar(param: Any, sizes: Mapping[Any, Any]) -> float | bool:
    """The value of a scalar, converted to its type."""
    name, value = label_of(param), _find(param, sizes)
    if value is None:
        raise InputError(f"the scalar {name} has no value: pass it in sizes")
    try:
        return bool(value) if param.dtype == "bool" else dtypes.rounded(float(value), param.dtype)
    except (TypeError, ValueError):
        raise InputError(f"the scalar {name} has the type {param.dtype}: {shown(value)} is no such number") from None


def _solved(extent: Expr, var: Var, known: Mapping[Var, int], actual: int) -> int | None:
    """Solve an extent for one size, by linear interpolation, else by trial; `None` without a unique solution."""

    def at(value: int) -> int:
        return int(evaluate(extent, {**{v: known[v] for v in extent.free_vars() if v is not var}, var: value}))

    try:
        start, step = at(0), at(1) - at(0)
        if step and at(2) == start + 2 * step and at(-3) == start - 3 * step:
            value, rest = divmod(actual - start, step)
            return None if rest else value
        solutions = [value for value in range(min(actual, _SEARCHED) + 1) if at(value) == actual]
    except ArithmeticError:
        return None
    return solutions[0] if len(solutions) == 1 else None


def _computed(tensor: Tensor, known: Mapping[Var, int]) -> tuple[int, ...]:
    return tuple(max(0, evaluate(e, {v: known[v] for v in e.free_vars()})) for e in tensor.extents)
