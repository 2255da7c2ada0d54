"""The C compiler, and a cache of what it built.

A library is kept in the user's own cache folder under a name made of everything it depends on: the text, the flags,
the compiler and its version, and the processor (`-march=native` means another machine elsewhere). It is built under a
name of its own and renamed into place at once, so two processes that build the same library do not meet, and a build
that is interrupted leaves nothing that could be loaded.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from intset.expr.text import shown
from lowering.errors import CompilerError

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
