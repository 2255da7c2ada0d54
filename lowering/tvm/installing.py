"""`install()`: the package as `tvm`, so that scripts run with the import lines they have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module, util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from intset.errors import InputError
from lowering.tvm.outside import NOT_HERE, OutsideModule, asked_by_library, forget_outside

_HERE: Final = __name__.rpartition(".")[0]


class TvmFinder(MetaPathFinder, Loader):
    """Finds `tvm` and its modules here, and `tvm.topi` in the folder of a user.

    Attributes
    ----------
    topi: the folder of the operator library, or `None`.
    """

    def __init__(self, topi: Path | None) -> None:
        self.topi = topi

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first, _, rest = fullname.partition(".")
        if first != "tvm":
            return None
        top = rest.partition(".")[0]
        if top in NOT_HERE:
            if self.topi is not None and asked_by_library():
                return ModuleSpec(fullname, self, origin=fullname, is_package=True)
            raise ImportError(NOT_HERE[top], name=fullname)
        if top != "topi":
            here = f"{_HERE}.{rest}" if rest else _HERE
            return ModuleSpec(fullname, self, origin=here, is_package=True)
        if self.topi is None:
            raise ImportError("tvm.topi is not here: install(topi=FOLDER) names a copy of its Python half")
        if rest != "topi":
            return PathFinder.find_spec(fullname, path)
        start = self.topi / "__init__.py"
        return util.spec_from_file_location(fullname, start, submodule_search_locations=[str(self.topi)])

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        here = str(spec.origin)
        if here.partition(".")[0] == "tvm":
            return OutsideModule(here)
        try:
            return import_module(here)
        except ModuleNotFoundError as error:
            found: object = sys.modules[_HERE]
            for name in here.removeprefix(f"{_HERE}.").split("."):
                found = getattr(found, name, None)
            if found is None:
                raise ImportError(f"{spec.name} is not here: docs/from-tvm.md lists what is there") from error
            if isinstance(found, ModuleType):
                return found
            holder = ModuleType(here)
            holder.__dict__.update({key: getattr(found, key) for key in dir(found) if key not in dir(object)})
            return holder

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module was executed under its own name."""


def install(topi: str | Path | None = None) -> None:
    """Make this package `tvm`: scripts run with their own import lines.

    Parameters
    ----------
    topi: the folder of the operator library `topi` of TVM, Python half, which becomes `tvm.topi`.

    Raises
    ------
    InputError: `tvm` was already imported from elsewhere, or the folder contains no Python package.
    """
    package = sys.modules[_HERE]
    if sys.modules.get("tvm") not in (None, package):
        raise InputError("apache-tvm is imported already: call lowering.tvm.install() before `import tvm`")
    folder = None if topi is None else Path(topi)
    if folder is not None and not (folder / "__init__.py").is_file():
        raise InputError(f"topi={str(folder)!r} is no folder of a Python package: it has no __init__.py")
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, TvmFinder)]
    finder = TvmFinder(folder)
    sys.meta_path.insert(0, finder)
    for name, module in list(sys.modules.items()):
        if name == _HERE or name.startswith(f"{_HERE}."):
            sys.modules["tvm" + name[len(_HERE) :]] = module
            module.__dict__.setdefault("__path__", [])  # tvm.te.hybrid: names of a module are imported like modules
    if folder is not None:
        package.__dict__["topi"] = import_module("tvm.topi")
        forget_outside(package)
