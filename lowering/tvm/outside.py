"""Install the package as `tvm`, with modules in place of the parts of TVM that are absent.

A script that imports an absent module is told in one line what serves instead. The operator library imports many and
uses few: it gets modules whose functions are refused by name when they are called. A name `f` of `tvm.topi.cpp.nn` is
the function registered as `topi.nn.f`: by `tvm.register_func`, or in `LIBRARY` for what schedules call.
"""

import operator
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module, util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from itertools import product
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, Final, NoReturn

from bound.declare import compute, extern
from bound.itervar import reduce_axis
from bound.schedule import Schedule, create_schedule
from bound.te import prod
from bound.te import sum as total
from bound.te_schedule import AutoInlineInjective
from bound.tensor import Tensor
from bound.tir import call_packed, floor
from bound.tir.build import all_of, cast, const, select
from bound.tir.reduce import max_of, min_of
from intset.errors import InputError, IntSetError
from intset.expr import arguments, as_expr
from lowering.tvm.runtime import PACKED, register_func

_HERE: Final = __name__.rpartition(".")[0]
NOT_HERE: Final = {  # absent modules, and what serves
    "relay": "lowering.Graph holds graphs of operators, te and lowering.lower single ones",
    "contrib": "tvm.register_func and tir.call_packed call libraries from Python",
    "auto_scheduler": "lowering.explore measures schedules of a space",
    "meta_schedule": "lowering.explore measures schedules of a space",
    "rpc": "nothing runs on another machine; lowering.explore takes any concurrent.futures.Executor",
    "micro": "lowering.to_c prints C99 for any device",
    "script": "lowering.parse_nest reads nests, lowering.adapters.tvm today's TensorIR",
    "relax": "lowering.Graph holds graphs of operators",
}
_OF_CONTRIB: Final = ("contrib", *(f"contrib.{name}" for name in ("utils", "cblas", "cc", "clang", "nvcc")))  # is here


def outside(name: str) -> Any:
    """What an import of an absent name gives the operator library; anything else is told what serves instead.

    Raises
    ------
    ImportError: the library does not ask.
    """
    if asked_by_library():
        return OutsideName(f"tvm.{name}")
    raise ImportError(f"tvm.{name} is not here: {NOT_HERE[name.partition('.')[0]]}", name=f"tvm.{name}")


TVMError = InternalError = RPCError = IntSetError
OpError = OpNotImplemented = OpAttributeInvalid = DiagnosticError = InputError

INSTEAD: Final = {  # names of modules, and what serves
    name: text
    for names, text in {
        "te.trace": "tir.call_packed calls a Python function on tensors",
        "tir.Schedule tir.schedule": "a te schedule, or lowering.passes on the nest",
        "tir.usmp": "lowering.lower plans storage",
        "tir.ret": "a function writes its outputs",
        "tir.undef": "lowering.parse_nest reads undef()",
        "tir.tvm_tuple": "an operation of several outputs: te.compute of a tuple",
        "tir.type_annotation": "tir.decl_buffer declares a type",
        "tir.BlockScope tir.BufferRegion tir.MatchBufferRegion tir.StmtSRef": "write the nest with tir.ir_builder",
        "transform.*": "lowering.passes has the passes of nests, lowering.lower runs them",
        "ir.GlobalVar": "a function is its own module: f['main']",
        "ir.Span": "nodes have no place in a source",
        "arith.solve_linear_inequalities arith.solve_linear_equations arith.estimate_region_lower_bound "
        "arith.estimate_region_upper_bound arith.estimate_region_strict_bound": "ask intset.Context: value_set, solve, "
        "narrow",
        "arith.detect_iter_map arith.normalize_to_iter_sum": "intset.Context.as_iter_map",
        "runtime.load_param_dict runtime.save_param_dict": "numpy.load and numpy.save",
        "parser": "lowering.parse_nest reads the text of a nest",
        "topi": "install(topi=FOLDER) names a copy of its Python half",
        "autotvm.create autotvm.tuner autotvm.measure_option autotvm.LocalBuilder autotvm.LocalRunner autotvm.callback "
        "autotvm.apply_history_best": "lowering.explore measures schedules of a space",
    }.items()
    for name in names.split()
}


def missing(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module: it says what serves instead of a name."""

    def refuse(name: str) -> NoReturn:
        full = f"{module}.{name}".removeprefix("tvm.").replace("building.", "transform.")
        general = INSTEAD.get(f"{full.partition('.')[0]}.*", "docs/from-tvm.md lists what is there")
        raise AttributeError(f"tvm.{full} is not here: {INSTEAD.get(full, general)}")

    return refuse


_ABSENT: Final = (  # features of devices and tuners
    *(f"contrib.{name}" for name in ("thrust.can_use_thrust", "thrust.can_use_rocthrust")),
    *(f"contrib.nvcc.have_{name}" for name in ("int8", "fp16", "tensorcore")),
    *(f"{name}.is_{name}_enabled" for name in ("auto_scheduler", "meta_schedule")),
    "relay.ty.is_dynamic",
)
ANSWERS: Final[dict[str, Callable[..., Any]]] = {  # what operators ask before they choose
    "tvm.contrib.pickle_memoize.memoize": lambda *_, **__: lambda function: function,
    **{f"tvm.{name}": lambda *_, **__: False for name in _ABSENT},
}


class OutsideName:
    """A name of a missing module; calls are refused."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise InputError(f"{self.name} is not here: {NOT_HERE[self.name.split('.')[1]]}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.name}.{name}"
        return ANSWERS[full] if full in ANSWERS else OutsideName(full)


class OutsideModule(ModuleType):
    """An absent module, as the operator library imports it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(OutsideName(self.__name__), name)


def asked_by_library() -> bool:
    """Whether the code that imports is the operator library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib", _HERE)):
            return f"{name}.".startswith("tvm.topi.")
        frame = frame.f_back
    return False


def forget_outside(package: ModuleType) -> None:
    """Remove what the library imported, so that scripts are told."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, OutsideModule):
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            sys.modules.get(parent, package).__dict__.pop(last, None)


libinfo = SimpleNamespace(__version__="0.19.0")
support = SimpleNamespace(
    libinfo=lambda: {f"USE_{name}": "OFF" for name in "CUDA LLVM METAL OPENCL ROCM VULKAN".split()}
)


def register_object(name: Any = None) -> Any:
    """Return a decorated class as it is."""
    return name if isinstance(name, type) else lambda cls: cls


def _is_empty_shape(shape: Sequence[Any]) -> bool:
    return any(as_expr(extent) is as_expr(0) for extent in shape)


def _schedule(outs: Tensor | Sequence[Tensor]) -> Schedule:
    return create_schedule([t.op for t in ([outs] if isinstance(outs, Tensor) else outs)])


def _fused(s: Schedule, out: Tensor) -> Schedule:
    if out.op.axis:
        s[out].fuse(*out.op.axis)
    return s


def _schedule_injective(target: object, outs: Tensor | Sequence[Tensor]) -> Schedule:
    """Inline the elementwise stages, and fuse the loops of the others."""
    s = _schedule(outs)
    AutoInlineInjective(s)
    for out in [outs] if isinstance(outs, Tensor) else outs:
        if hasattr(out.op, "axis") and not _is_empty_shape(out.shape):
            _fused(s, out)
    return s


def _reduction(combine: Callable[..., Any]) -> Callable[..., Tensor]:
    """The function that reduces a tensor along axes, by default all."""

    def reduced(data: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
        given = range(data.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        over = {int(a) % data.ndim: reduce_axis((0, data.shape[int(a)]), f"k{int(a) % data.ndim}") for a in given}
        kept = [a for a in range(data.ndim) if keepdims or a not in over]

        def formula(*place: Any) -> Any:
            index: dict[int, Any] = {**dict(zip(kept, place, strict=True)), **over}
            return combine(data(*(index[a] for a in range(data.ndim))), [*over.values()])

        shape = [1 if a in over else data.shape[a] for a in kept]
        return compute(shape, formula, f"{data.name}_red", tag="comm_reduce")

    return reduced


def _bilinear(layout: str) -> Callable[..., Any]:
    """The function that samples an image between its pixels, 0 around it, which the operators of regions call."""

    def sample(data: Tensor, indices: Sequence[Any], max_y: Any, max_x: Any) -> Any:
        point = dict(zip(layout, indices, strict=True))
        sides = []
        for axis in "HW":
            near: Any = cast("int32", floor(point[axis]))
            part = point[axis] - near
            sides.append(((near, 1.0 - part), (near + 1, part)))
        total: Any = const(0.0, data.dtype)
        for (y, weight_y), (x, weight_x) in product(*sides):
            pixel = data(*({**point, "H": y, "W": x}[axis] for axis in layout))
            inside = all_of(y >= 0, y <= max_y, x >= 0, x <= max_x)
            total = total + select(inside, weight_y * weight_x * pixel, const(0.0, data.dtype))
        return total

    return sample


LIBRARY: Final[dict[str, Callable[..., Any]]] = {
    "topi.utils.is_empty_shape": _is_empty_shape,
    "topi.utils.bilinear_sample_nchw": _bilinear("NCHW"),
    "topi.utils.bilinear_sample_nhwc": _bilinear("NHWC"),
    **{f"topi.{name}": _reduction(f) for name, f in {"sum": total, "prod": prod, "max": max_of, "min": min_of}.items()},
    "topi.add": operator.add,
    "topi.subtract": operator.sub,
    "topi.multiply": operator.mul,
    "topi.elemwise_sum": lambda tensors: compute(
        tensors[0].shape, lambda *i: reduce(operator.add, [t(*i) for t in tensors]), "T_sum", tag="elemwise"
    ),
    "topi.generic.default_schedule": lambda target, outs: _schedule(outs),
    "topi.generic.default_schedule_auto_inline": _schedule_injective,
    "topi.generic.schedule_extern": _schedule_injective,
    "topi.generic.schedule_injective": _schedule_injective,
    "topi.generic.schedule_injective_from_existing": _fused,
}


def native(name: str) -> Callable[..., Any]:
    """The function registered under a name; without one, a function that refuses its call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found = PACKED.get(name, LIBRARY.get(name))
        if found is None:
            told = f"tvm.register_func({name!r}, f) gives it a Python function"
            raise InputError(f"{name} is of TVM's C++ half, which is not here: {told}")
        return found(*args, **kwargs)

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    return call


def _init_api(namespace: str, target_module_name: str | None = None) -> None:
    """Give a module the functions of a namespace."""
    module = sys.modules[target_module_name or namespace]
    is_package = hasattr(module, "__path__")

    def named(name: str) -> Any:
        if name.startswith("_") or (is_package and util.find_spec(f"{module.__name__}.{name}") is not None):
            raise AttributeError(name)  # the import system asks before it loads a module of that name
        return native(f"{namespace}.{name}")

    module.__dict__["__getattr__"] = named


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
        if top in NOT_HERE and rest not in _OF_CONTRIB:
            return ModuleSpec(outside(rest).name, self, origin=fullname, is_package=True)
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
            holder.__dict__.update(vars(found))
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


# -- contrib ------------------------------------------------------------------------------------------------------

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


class ContribModule(ModuleType):
    """`tvm.contrib`: temporary folders, libraries of saved modules, products by numpy, and what CUDA would have.

    The other modules of it are absent.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return outside(f"contrib.{name}")


register_func(_PRODUCT, _product)
contrib = ContribModule(f"{_HERE}.contrib")
contrib.__dict__.update(
    cblas=SimpleNamespace(matmul=_matmul),
    utils=SimpleNamespace(tempdir=TempDirectory, TempDirectory=TempDirectory),
    cc=SimpleNamespace(create_shared=create_shared),
    clang=SimpleNamespace(create_llvm=_as_written),
    nvcc=SimpleNamespace(**{name.rpartition(".")[2]: answer for name, answer in ANSWERS.items() if ".nvcc." in name}),
)
