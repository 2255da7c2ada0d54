"""`tvm.lower`, `tvm.build`, and calls of what was built; `tvm.transform`: options of a build, passes over functions.

A function of `lower` has flat storage, decided guards and lowered divisions already, and loops keep their kinds until
code is printed; so most passes return the module unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Final

from bound import dtypes
from bound.schedule import Schedule
from bound.schedule.rewrites import broadcast
from bound.schedule.schedule import Opened
from bound.tensor import ExternOp, Tensor
from bound.tir.build import Buffer
from bound.tir.value import Value
from intset.errors import InputError
from intset.expr import Var, arguments, shown
from lowering import passes
from lowering.allocation import with_fixed_thread_storage
from lowering.codegen.c import to_c
from lowering.errors import CompilerError
from lowering.interpreter import compiler_command, run
from lowering.lower import lower as lowered
from lowering.nest import ir
from lowering.nest.walk import calls
from lowering.passes.stores.reaching_values import with_bounds_checks
from lowering.passes.values.cse import inline_values
from lowering.tvm.ir import BARRIER, ModuleFunction, as_prim_func, load_json, save_json
from lowering.tvm.runtime import NDArray, on_arrays
from lowering.tvm.target import Target


def lower(
    inputs: object, args: Any = None, name: str = "main", binds: Any = None, simple_mode: bool = False
) -> ModuleFunction:
    """The loop nest of a schedule: `lowering.lower` with the arguments of `tvm.lower`.

    Parameters
    ----------
    inputs: a schedule, or a nest, which is returned.
    args: tensors and variables, in the order of calls.
    binds: buffers of tensors; their layout is ignored, but "auto_broadcast".
    """
    if isinstance(inputs, ir.Function):
        return as_prim_func(inputs)
    if not isinstance(inputs, Schedule):
        raise InputError(f"tvm.lower takes a schedule or a nest, not {shown(inputs)}")
    order = None if args is None else _tensors(args, binds)
    widened = {t for t, b in dict(binds or {}).items() if getattr(b, "buffer_type", "") == "auto_broadcast"}
    wide = broadcast(inputs, widened) if widened else inputs
    f = inline_values(lowered(wide, order, name=name))  # TVM's nests name no index
    function = as_prim_func(with_fixed_thread_storage(f))
    is_checked = not any(isinstance(stage.op, ExternOp) for stage in inputs.stages)
    function = ir.with_fields(function, order=tuple(order or ()), is_checked=is_checked)
    for _, step in PassContext.current().config.get("tir.add_lower_pass", ()):
        function = step(function)
    return function


def _tensors(args: Sequence[Any], binds: Any) -> list[Any]:
    """The arguments, with tensors in the place of the buffers that `binds` gives them."""
    owners = {buffer: tensor for tensor, buffer in dict(binds or {}).items()}
    return [owners.get(a, a) if isinstance(a, Buffer) else a for a in arguments.listed(args, "args", "a list")]


@dataclass(frozen=True)
class TimedRuns:
    """The seconds of repeated calls."""

    results: tuple[float, ...]

    mean = property(lambda self: fmean(self.results))
    median = property(lambda self: median(self.results))
    min = property(lambda self: min(self.results))
    max = property(lambda self: max(self.results))


class BuiltModule:
    """A nest that is called with arrays, as `tvm.build` makes it.

    Attributes
    ----------
    function: the nest.
    backend: "c", or "python" where no compiler is, or where the nest calls a Python function.
    """

    def __init__(self, function: ir.Function, order: Sequence[Any], backend: str) -> None:
        self.function, self.order, self.backend = function, tuple(order), backend
        self.name = function.name
        self.entry_name, self.type_key = function.name, backend
        self.imported_modules: list[BuiltModule] = []
        self.others: dict[str, BuiltModule] = {}

    @property
    def entry_func(self) -> BuiltModule:
        return self

    def __getitem__(self, name: str) -> BuiltModule:
        if name in self.others:
            return self.others[name]
        if name not in (self.name, "default_function", "main"):
            raise InputError(f"the module has the function {self.name}, not {shown(name)}")
        return self

    get_function = __getitem__

    def __call__(self, *args: Any) -> None:
        """Run on arrays and numbers, in the order of the arguments of `build`; outputs are written in place."""
        if len(args) != len(self.order):
            raise InputError(f"{self.name} takes {len(self.order)} arguments, not {len(args)}")
        pairs = list(zip(self.order, args, strict=True))
        arrays = {p: _stored(p, a.data if isinstance(a, NDArray) else a) for p, a in pairs if isinstance(p, Tensor)}
        numbers = {p: a for p, a in pairs if not isinstance(p, Tensor)}
        run(self.function, arrays, numbers, on_arrays(), backend=self.backend)

    def time_evaluator(
        self, func_name: str, dev: object = None, number: int = 10, repeat: int = 1, **more: object
    ) -> Callable[..., TimedRuns]:
        """A function of the arguments that returns the seconds of a call, on average over `number` calls."""
        if number < 1:
            raise InputError(f"time_evaluator takes the number of calls to time, at least 1, not {number}")

        def measure(*args: Any) -> TimedRuns:
            self(*args)
            seconds = []
            for _ in range(repeat):
                start = perf_counter()
                for _ in range(number):
                    self(*args)
                seconds.append((perf_counter() - start) / number)
            return TimedRuns(tuple(seconds))

        return measure

    def save(self, path: str, *_: object, **__: object) -> None:
        """Write the nests to a file, from which `load_module` builds them again."""
        rows = [(module.function, module.order, module.backend) for module in (self, *self.others.values())]
        Path(path).write_text(save_json(rows), encoding="utf-8")

    export_library = save

    def get_source(self, fmt: str = "") -> str:
        """The C code of the nest, or its text where it calls a Python function."""
        return str(self.function) if calls(self.function.body) else to_c(self.function)

    def __repr__(self) -> str:
        return f"BuiltModule({self.name}, backend={self.backend!r})"


def _stored(tensor: Tensor, array: Any) -> Any:
    """The array of a tensor; TVM's arrays of `uint16` for a `bfloat16` tensor hold its bits.

    Raises
    ------
    InputError: the array has elements of another type: none is converted.
    """
    given = str(getattr(array, "dtype", tensor.dtype))
    if (given, tensor.dtype) == ("uint16", "bfloat16"):
        dtypes.check_executed(tensor.dtype, tensor.name)
        return array.view(tensor.dtype)
    if given != tensor.dtype:
        raise InputError(f"the array for {tensor.name} has the type {given}, not {tensor.dtype}")
    return array


def load_module(path: str, fmt: str = "") -> BuiltModule:
    """The module that `save` or `export_library` wrote to a file, with the trust that unpickling asks for."""
    first, *others = [BuiltModule(*row) for row in load_json(Path(path).read_text(encoding="utf-8", errors="replace"))]
    first.others.update({module.name: module for module in others})
    return first


def build(
    inputs: Any,
    args: Sequence[Any] | str | Target | None = None,
    target: object = None,
    target_host: object = None,
    name: str = "default_function",
    binds: object = None,
    **more: object,
) -> BuiltModule:
    """Build a schedule or a nest for calls on arrays; of several nests, `answer[name]` is one.

    `build(nest, target)` is as `build(nest, target=target)`.

    Raises
    ------
    CompilerError: the target is no processor.
    """
    if isinstance(args, (str, Target)):
        return build(inputs, None, args, target_host, name, binds)
    named = target if target is not None else Target.current()
    wanted = Target("llvm" if named is None else named)
    if isinstance(inputs, (list, tuple)):
        modules = [build(part, args, target, target_host, name, binds, **more) for part in inputs]
        if not modules:
            raise InputError("build takes a schedule or a nest, or several nests, not none")
        modules[0].others.update({module.name: module for module in modules[1:]})
        return modules[0]
    f = lower(inputs, args, name, binds)
    if not wanted.runs_here:
        raise CompilerError(f"{name} was lowered, but nothing runs on {wanted.kind} here: build it for 'llvm'")
    if any(call.call.name == BARRIER for call in calls(f.body)):
        raise CompilerError(
            f"{name} was lowered, but its threads exchange values in shared memory, and threads run one after another "
            "here: end their loop before other threads read, or write a stage in shared memory"
        )
    order = list(f.order or (*f.params, *f.scalars)) if args is None else _tensors(args, binds)
    for k, arg in enumerate(order):
        if not isinstance(arg, (Tensor, Var, Value)):
            raise InputError(f"argument {k} of build must be a tensor or a variable, not {shown(arg)}")
    backend = "python" if calls(f.body) else "c"
    try:
        compiler_command()
    except CompilerError:
        backend = "python"
    return BuiltModule(f if f.is_checked else with_bounds_checks(f), order, backend)


schedule_to_module = lower


class PassContext(Opened):
    """A block with options of TVM's passes.

    Of `config`, "te.keep_schedule_record" has a meaning here, and "tir.add_lower_pass", whose passes `lower` applies.

    Attributes
    ----------
    config: the options.
    """

    def __init__(self, *levels: object, config: Mapping[str, Any] | None = None, **options: object) -> None:
        self.config = dict(config or {})
        self.opt_level = levels[0] if levels else options.get("opt_level", 2)

    @classmethod
    def current(cls) -> PassContext:
        found: PassContext | None = super().current()
        return found or cls()


@dataclass(frozen=True)
class Pass:
    """A change of functions: a call with one gives the changed one."""

    name: str
    change: Callable[[Any], Any]

    @property
    def info(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.name, opt_level=0, required=[])

    def __call__(self, mod: ir.Function) -> Any:
        if not isinstance(mod, ir.Function):
            raise InputError(f"the pass {self.name} takes a function of tvm.lower, not {shown(mod)}")
        return as_prim_func(self.change(as_prim_func(mod)))


def Sequential(steps: Sequence[Pass], *_: object, name: str = "sequential", **__: object) -> Pass:
    """Passes one after another."""
    return Pass(name, lambda f: reduce(lambda changed, step: step(changed), steps, f))


def Apply(ftransform: Callable[[Any], Any]) -> Pass:
    """The pass of a Python function."""
    return Pass("Apply", ftransform)


def _pass_of(call: Callable[[Any, Any], Any], pass_func: Any, name: str | None) -> Any:
    def made(func: Any) -> Any:
        if isinstance(func, type):
            return lambda *args, **options: made(func(*args, **options))
        change = getattr(func, "transform_function", getattr(func, "transform_module", func))
        arguments.a_function(change, "a pass")
        return Pass(name or str(getattr(change, "__name__", "pass")), lambda f: call(change, f))

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


globals().update({name: lambda *_, name=name, **__: Pass(name, CHANGES[name]) for name in CHANGES})
