"""The C compilers of this machine, and a skip by name for what needs one."""

import shutil

import pytest


def compilers() -> list[str]:
    return [name for name in ("gcc", "clang") if shutil.which(name)]


def need_compiler(name: str = "gcc") -> str:
    """The name of a compiler; a machine without it skips the test."""
    if shutil.which(name) is None:
        pytest.skip(f"no C compiler: {name} is not installed")
    return name


needs_compiler = pytest.mark.skipif(not compilers(), reason="no C compiler")
