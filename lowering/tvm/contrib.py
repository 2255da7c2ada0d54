"""`tvm.contrib`: temporary folders, libraries of saved modules, products by numpy, and what CUDA would have.

The other modules of it are absent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from bound.declare import extern
from bound.tensor import Tensor
from bound.tir import call_packed
from intset.errors import InputError
from intset.expr import arguments
from lowering.tvm.outside import ANSWERS, outside
from lowering.tvm.runtime import register_func

_PRODUCT: Final = "tvm.contrib.cblas.matmul"


class TempDirectory(tempfile.TemporaryDirectory[str]):
    """A temporary folder, the value of a `with` block; `remove()` or the end of its object deletes it."""

    temp_dir = path = property(lambda self: self.name)
    remove = tempfile.TemporaryDirectory.cleanup

    def __enter__(self) -> Any:
        return self

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.name, name)

    def listdir(self) -> list[str]:
        """The names of its files."""
        return os.listdir(self.name)


def create_shared(output: str, objects: str | Sequence[str], *_: object, **__: object) -> None:
    """A library of one saved module, which `tvm.runtime.load_module` reads.

    Raises
    ------
    InputError: several modules.
    """
    files = [objects] if isinstance(objects, str) else arguments.listed(objects, "objects")
    if len(files) != 1:
        raise InputError(f"a library has one saved module here, not {len(files)}")
    shutil.copyfile(files[0], output)


def _as_written(inputs: str | Sequence[str], output: str | None = None, *_: object, **__: object) -> str:
    """The code that `create_llvm` is given: nothing links it, as an intrinsic runs by the formula that it declares."""
    code = inputs if isinstance(inputs, str) else "\n".join(inputs)
    if output is not None:
        Path(output).write_text(code, encoding="utf-8")
    return code


def _product(a: Any, b: Any, out: Any, transa: bool, transb: bool) -> None:
    x, y = a.numpy(), b.numpy()
    out.copyfrom((x.T if transa else x) @ (y.T if transb else y))


def _matmul(lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False) -> Any:
    """The product of two matrices, each transposed if asked, as an operation that numpy computes."""
    shape = (lhs.shape[int(transa)], rhs.shape[int(not transb)])
    return extern(shape, [lhs, rhs], lambda ins, outs: call_packed(_PRODUCT, *ins, *outs, transa, transb), "C")


register_func(_PRODUCT, _product)
cblas = SimpleNamespace(matmul=_matmul)
utils = SimpleNamespace(tempdir=TempDirectory, TempDirectory=TempDirectory)
cc, clang = SimpleNamespace(create_shared=create_shared), SimpleNamespace(create_llvm=_as_written)
nvcc = SimpleNamespace(**{name.rpartition(".")[2]: answer for name, answer in ANSWERS.items() if ".nvcc." in name})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return outside(f"contrib.{name}")
