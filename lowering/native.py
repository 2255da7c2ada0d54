"""`run(..., backend="c")`: a nest compiled by the C compiler that is found, cached, loaded and called on numpy arrays.

The user's private cache folder keeps libraries under a hash of text, flags, compiler version and processor
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
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import negation
from intset.errors import InputError, UndefinedError
from intset.expr import ops
from intset.expr.dag import postorder, substitute
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Var, const, truth
from intset.expr.printer import shown
from lowering.codegen.c import CFile, c_file, divides_by_0
from lowering.errors import CheckError, CompilerError
from lowering.nest.driver import Descent, rewritten
from lowering.nest.ir import Assert, Assume, Function, If, Seq, ShapeOf, Stmt
from lowering.nest.text import text
from lowering.nest.undef import has_undef
from lowering.nest.walk import calls, children

FLAGS: Final = ("-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
OPENMP: Final = "-fopenmp"
COMPILERS: Final = ("cc", "gcc", "clang")
_PRIVATE: Final = 0o700


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


def supports(flag: str) -> bool:
    """Whether the compiler builds and links with a flag."""
    return _supports(compiler_command(), flag)


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
            done = subprocess.run(
                [*command, str(source), "-o", str(built), "-lm"], capture_output=True, text=True, check=False
            )
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
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.write_text("int empty(void);\nint empty(void) { return 0; }\n")
        words = [*command, flag, "-fPIC", "-shared", str(source), "-o", str(Path(folder) / "empty.so")]
        try:
            return subprocess.run(words, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


# -- calls -----------------------------------------------------------------------------------------------------

_ASSUMED: Final = "an assumption does not hold:"

_SCALARS: Final = {
    "bool": ctypes.c_bool,
    **dict.fromkeys((*dtypes.NARROW, "float32"), ctypes.c_float),
    "float64": ctypes.c_double,
    **{f"{u}int{b}": getattr(ctypes, f"c_{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)},
}


def run_native(
    f: Function,
    buffers: Mapping[Tensor, Any],
    values: tuple[Any, ...],
    shapes: Mapping[Tensor, tuple[int, ...]],
) -> None:
    """Compile a function, or load it from the cache, and call it; outputs are written in place.

    Parameters
    ----------
    buffers: a row-major array of the parameter's type for each parameter.
    values: the values of `f.sizes`, then of `f.scalars`.
    shapes: the shapes of the arrays.

    Raises
    ------
    CompilerError: no compiler is installed, the nest calls a host function, or C lacks an element type.
    CheckError: an assertion or assumption is violated.
    InputError: a size exceeds the function's integer type.
    UndefinedError: an integer is divided by 0.
    MemoryError: allocation failed.
    """
    native_call(f, buffers, values, shapes)()


def native_call(
    f: Function,
    buffers: Mapping[Tensor, Any],
    values: tuple[Any, ...],
    shapes: Mapping[Tensor, tuple[int, ...]],
) -> Callable[[], None]:
    """The compiled function with its arguments bound, for repeated calls; parameters and errors as for `run_native`."""
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


def _raise(f: Function, file: CFile, code: int) -> None:
    """The error that a nonzero code of the compiled function stands for."""
    if code < 0:
        raise MemoryError(f"{f.name} found no storage for its tensors")
    message = file.messages[code - 1]
    if message == divides_by_0(f):
        raise UndefinedError(message)
    is_assumed = message.startswith(_ASSUMED)
    raise CheckError(message if is_assumed else f"an assertion does not hold: {message}")


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
    """Replace assumptions by runtime checks."""

    def check(stmt: Assume, _: Descent) -> Stmt:
        if has_undef(stmt.cond):  # it says what may be read
            return Seq()
        return If(negation(stmt.cond), Assert(truth(False), f"{_ASSUMED} {text(stmt.cond)}"))

    return rewritten(root, Descent(), leave={Assume: (check,)})


def _check_shapes(f: Function, values: tuple[Any, ...], shapes: Mapping[Tensor, tuple[int, ...]]) -> None:
    """Check assertions on array shapes, which C code leaves to its caller."""
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
