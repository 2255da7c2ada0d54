"""`run(..., backend="c")`: a nest compiled by the C compiler that is found, cached, loaded and called on numpy arrays.

A library is kept in the user's own cache folder under a hash of all that it depends on: text, flags, compiler and
version, and processor (`-march=native` differs between machines). It is built under a temporary name and renamed
atomically, so concurrent builds of one library do not interfere, and an interrupted build leaves nothing to load.
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
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from bound.tensor import Tensor
from bound.tir.build import negation
from intset.errors import InputError, UndefinedError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Var, const, truth
from intset.expr.text import shown
from intset.expr.walk import postorder, substitute
from lowering.codegen.c import CFile, c_file
from lowering.codegen.c_nest import divides_by_0
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
    """The compiler with the options it is always called with: what `CC` says, else the first that is found.

    Raises
    ------
    CompilerError: there is none, or `CC` names something that cannot be run.
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
    CompilerError: there is no compiler, it refuses the text, or the cache folder is not the user's own.
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
    """The folder of built libraries; it belongs to the user, and nobody else may read it."""
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
    """Whether a library is there and was written by this user: what somebody else put there is not loaded."""
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
    """What `-march=native` depends on: the name of the processor and what it can do."""
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
