"""`tvm.transform` and `tvm.tir.transform`: options of a build, and passes over functions.

A function of `lower` has flat storage, decided guards and lowered divisions already, and loops keep their kinds until
code is printed; so these passes return the module unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Final

from intset.errors import InputError
from intset.expr.printer import shown
from lowering import passes
from lowering.nest.ir import Function
from lowering.tvm.function import as_prim_func


class PassContext:
    """A block with options of TVM's passes; `config["te.keep_schedule_record"]` alone has a meaning here.

    Attributes
    ----------
    config: the options.
    """

    _open: ClassVar[list[PassContext]] = []

    def __init__(self, *levels: object, config: Mapping[str, Any] | None = None, **options: object) -> None:
        self.config = dict(config or {})
        self.opt_level = levels[0] if levels else options.get("opt_level", 2)

    @classmethod
    def current(cls) -> PassContext:
        return cls._open[-1] if cls._open else cls()

    def __enter__(self) -> PassContext:
        self._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.pop()


@dataclass(frozen=True)
class Pass:
    """A change of functions: a call with one gives the changed one."""

    name: str
    change: Callable[[Any], Any]

    @property
    def info(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.name, opt_level=0, required=[])

    def __call__(self, mod: Function) -> Any:
        if not isinstance(mod, Function):
            raise InputError(f"the pass {self.name} takes a function of tvm.lower, not {shown(mod)}")
        return as_prim_func(self.change(as_prim_func(mod)))


def Sequential(steps: Sequence[Pass], *_: object, name: str = "sequential", **__: object) -> Pass:
    """Passes one after another."""

    def change(f: Any) -> Any:
        for step in steps:
            f = step(f)
        return f

    return Pass(name, change)


def Apply(ftransform: Callable[[Any], Any]) -> Pass:
    """The pass of a Python function."""
    return Pass("Apply", ftransform)


def _pass_of(call: Callable[[Any, Any], Any], pass_func: Any, name: str | None) -> Any:
    def made(func: Any) -> Any:
        if isinstance(func, type):
            return lambda *args, **options: made(func(*args, **options))
        change = getattr(func, "transform_function", getattr(func, "transform_module", func))
        return Pass(name or change.__name__, lambda f: call(change, f))

    return made if pass_func is None else made(pass_func)


def prim_func_pass(pass_func: Any = None, opt_level: int = 0, name: str | None = None, **_: object) -> Any:
    """Make a pass of `f(function, module, context)`, or of a class with `transform_function`; a decorator."""
    return _pass_of(lambda change, f: change(f, f, PassContext.current()), pass_func, name)


def module_pass(pass_func: Any = None, opt_level: int = 0, name: str | None = None, **_: object) -> Any:
    """Make a pass of `f(module, context)`, or of a class with `transform_module`; a decorator."""
    return _pass_of(lambda change, f: change(f, PassContext.current()), pass_func, name)


CHANGES: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(
        "BF16Legalize BindTarget CoProcSync CombineContextCall DecorateDeviceScope FlattenBuffer HoistIfThenElse "
        "InjectCopyIntrin InjectDoubleBuffer InjectPrefetch InjectVirtualThread InstrumentBoundCheckers LoopPartition "
        "LowerCustomDatatypes LowerInitBlock LowerIntrin LowerMatchBuffer LowerTVMBuiltin LowerWarpMemory "
        "NarrowDataType RewriteUnsafeSelect SkipAssert StorageFlatten StorageRewrite TextureFlatten UnrollLoop "
        "VectorizeLoop VerifyMemory AnnotateEntryFunc InferFragment CommonSubexprElimTIR "
        "LowerDeviceStorageAccessInfo".split(),
        lambda f: f,
    ),
    "RemoveNoOp": passes.remove_no_op,
    "Simplify": passes.simplify,
    "ConvertSSA": passes.unique_names,
}


def _maker(name: str) -> Callable[..., Pass]:
    return lambda *_, **__: Pass(name, CHANGES[name])


globals().update({name: _maker(name) for name in CHANGES})
