"""Compiled nests: the C of a function built by the compiler that is found, kept in the user's cache, and called."""

from lowering.native.call import run_native
from lowering.native.compiler import FLAGS, compiled_library

__all__ = ["FLAGS", "compiled_library", "run_native"]
