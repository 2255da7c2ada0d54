"""The optional core in C; all else is in pyproject.toml."""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WITHOUT = "intset: the core in C was left out, nodes and plain questions run in Python:"


class OptionalBuild(build_ext):
    """Builds the core where a compiler and Python's headers are; else says in one line that it is left out."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            print(WITHOUT, " ".join(str(error).split())[:200], file=sys.stderr)


is_pure = os.environ.get("INTSET_PURE", "0") not in ("", "0")
if is_pure:
    print(WITHOUT, "INTSET_PURE is set", file=sys.stderr)
core = Extension(
    "intset._core", ["intset/_core.c"], extra_compile_args=[] if os.name == "nt" else ["-O3"], optional=True
)
setup(ext_modules=[] if is_pure else [core], cmdclass={"build_ext": OptionalBuild})
