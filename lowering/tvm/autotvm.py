"""`tvm.autotvm`: templates of operators with the configuration that they fall back to; nothing is tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from bound.itervar import IterVar
from bound.schedule import Schedule
from bound.tensor import Operation, Tensor
from intset.errors import InputError
from intset.expr import Expr, dag


@dataclass
class SplitEntity:
    """A factorization of an axis: extents of the loops, outermost first; the first is -1, whatever is left."""

    size: list[int]

    def apply(self, sch: Schedule, op: Any, axis: IterVar) -> list[IterVar]:
        """Split an axis of a stage."""
        loops: list[IterVar] = []
        for level in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, prod(self.size[level:]))
            loops.append(outer)
        return [*loops, axis]


@dataclass
class ReorderEntity:
    """An order of loops, by number."""

    perm: list[int]

    def apply(self, sch: Schedule, op: Any, axes: Sequence[IterVar]) -> list[IterVar]:
        order = [axes[k] for k in self.perm if k < len(axes)]
        sch[op].reorder(*order)
        return order


@dataclass
class AnnotateEntity:
    """Annotations of loops, "none" for no one; or numbers of loops, at which stages are attached."""

    anns: Sequence[Any]

    def apply(self, sch: Schedule, op: Any, axes: Any, source: Any = None, **_: object) -> list[IterVar]:
        if source is not None:
            for tensors, level in zip(source, self.anns, strict=True):
                for tensor in tensors:
                    sch[tensor].compute_at(sch[op], axes[level])
            return list(axes)
        for axis, kind in zip(axes, self.anns, strict=True):
            if kind in ("vec", "unroll", "parallel"):
                getattr(sch[op], {"vec": "vectorize"}.get(kind, kind))(axis)
        return list(axes)


@dataclass
class OtherOptionEntity:
    """The value of a knob."""

    val: Any


@dataclass(frozen=True, eq=False)
class VirtualAxis:
    """The extent of an axis in a template."""

    length: int
    name: str = "axis"


def get_factors(n: int) -> list[int]:
    """The divisors of a number, ascending."""
    return [k for k in range(1, n + 1) if n % k == 0]


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to a number."""
    return [1 << k for k in range(n.bit_length())]


class FallbackConfigEntity:
    """A configuration without tuning: each option has the first value of its space."""

    is_fallback: ClassVar[bool] = True

    def __init__(self) -> None:
        self.entities: dict[str, Any] = {}
        self.lengths: dict[str, int] = {}
        self.flop = 0.0
        self.template_key = None

    def axis(self, var: Any) -> VirtualAxis:
        if isinstance(var, VirtualAxis):
            return var
        extent: Any = var.dom.extent if isinstance(var, IterVar) and var.dom is not None else var
        is_known = isinstance(extent, int) or (isinstance(extent, Expr) and extent.is_const)
        return VirtualAxis(int(extent) if is_known else 1)

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **more: Any) -> list[VirtualAxis]:
        parts, length = int(more.get("num_outputs", 2)), self.axis(axis).length
        self.lengths.setdefault(name, length)
        if name not in self.entities:
            allowed = more.get("filter", lambda entity: True)
            sizes = more["candidate"] if policy == "candidate" else _splits(length, parts, policy, more)
            found = next((entity for entity in map(SplitEntity, map(list, sizes)) if allowed(entity)), None)
            self.entities[name] = found or SplitEntity([-1] + [1] * (parts - 1))
        return [VirtualAxis(length if k == 0 else 1) for k in range(parts)]

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **more: Any) -> list[Any]:
        order = list(range(len(axes)))
        if policy == "candidate":
            order = [list(axes).index(axis) for axis in more["candidate"][0]]
        elif policy in ("interleave", "interleave_cuda"):
            order = _interleaved(list(axes), more["spatial"], more["reduce"], policy == "interleave_cuda")
        self.entities.setdefault(name, ReorderEntity(order))
        return list(axes)

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **more: Any) -> list[Any]:
        first: Sequence[Any] = ["none" if policy.startswith(("try", "none")) else policy.split("_")[0]] * len(axes)
        if policy == "locate_cache":
            first = range(int(more["num_anchor"]))
        self.entities.setdefault(name, AnnotateEntity(first))
        return list(axes)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        self.entities.setdefault(name, OtherOptionEntity(candidate[0]))

    def add_flop(self, flop: Any) -> None:
        self.flop += float(flop) if isinstance(flop, (int, float)) else 0

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose the sizes of a split, innermost first: the largest divisor of the remaining extent in its constraint.

        -1 is no constraint.
        """
        left, size = self.lengths[name], []
        for limit in reversed(constraints):
            size.append(max(f for f in get_factors(left) if limit == -1 or f <= max(limit, 1)))
            left //= size[-1]
        self.entities[name] = SplitEntity(size[::-1])

    def fallback_with_reference_log(self, ref_log: object) -> None:
        """Do nothing: there is no log of tuning."""

    def raise_error(self, msg: str) -> None:
        """Refuse a configuration."""
        raise InputError(msg)

    def __getitem__(self, name: str) -> Any:
        if name not in self.entities:
            raise InputError(f"the template has no option {name!r}: it has {', '.join(self.entities) or 'none'}")
        return self.entities[name]

    def __setitem__(self, name: str, entity: Any) -> None:
        self.entities[name] = entity

    def __contains__(self, name: object) -> bool:
        return name in self.entities


def _splits(length: int, parts: int, policy: str, more: dict[str, Any]) -> Iterator[list[int]]:
    """The splits of a space, in TVM's order; "all" is the older name of "factors"."""
    powers, factors = get_pow2s(length), get_factors(length)
    known = {"factors": factors, "all": factors, "power2": powers, "verbose": sorted({*factors, *powers})}
    sizes = [f for f in known[policy] if f <= more.get("max_factor", length)]
    is_exact = more.get("no_tail", policy in ("factors", "all"))
    for chosen in product(sizes, repeat=parts - 1):
        inner = prod(chosen)
        if length % inner == 0 or (not is_exact and inner < length):
            yield [-1, *reversed(chosen)]


def _interleaved(
    axes: list[Any], spatial: Sequence[Sequence[Any]], reduce: Sequence[Sequence[Any]], for_threads: bool
) -> list[int]:
    """The first order of a space that keeps the order within each chain of loops."""

    def merged(chains: Sequence[Sequence[Any]]) -> list[int]:
        waiting, order = [list(chain) for chain in chains], []
        while any(waiting):
            longest = max(range(len(waiting)), key=lambda k: (len(waiting[k]), -k))
            order.append(axes.index(waiting[longest].pop(0)))
        return order

    outer = merged([chain[:-1] for chain in spatial])
    if for_threads:
        return [*outer, *merged(reduce), *(axes.index(chain[-1]) for chain in spatial)]
    return [*outer, *merged([*(chain[-1:] for chain in spatial), *reduce])]


ConfigEntity = ConfigSpace = FallbackConfigEntity
GLOBAL_SCOPE = SimpleNamespace(in_tuning=False)
_STATE: list[FallbackConfigEntity] = []
_OF_OPERATION: WeakKeyDictionary[Operation, dict[str, FallbackConfigEntity]] = WeakKeyDictionary()


def get_config() -> FallbackConfigEntity:
    """The configuration of the template that runs."""
    return _STATE[-1] if _STATE else FallbackConfigEntity()


def _within(config: FallbackConfigEntity, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    _STATE.append(config)
    try:
        return func(*args, **kwargs)
    finally:
        _STATE.pop()


def _tensors(result: Any) -> list[Tensor]:
    return [t for t in (result if isinstance(result, (list, tuple)) else (result,)) if isinstance(t, Tensor)]


def _decorated(call: Callable[..., Any], func: Callable[..., Any] | None) -> Any:
    """The function whose calls are `call(func, ...)`; without a function, the decorator that makes it."""
    return partial(_decorated, call) if func is None else wraps(func)(partial(call, func))


def register_topi_compute(task_name: Any, func: Callable[..., Any] | None = None) -> Any:
    """Decorate a computation `f(cfg, ...)`: calls leave out the configuration, which its schedule gets as well."""

    def compute(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        config = FallbackConfigEntity()
        result = _within(config, f, config, *args, **kwargs)
        for tensor in _tensors(result):
            _OF_OPERATION.setdefault(tensor.op, {})[str(task_name)] = config
            tensor.op.attrs["workload"] = args_to_workload(args, str(task_name))
        return result

    return _decorated(compute, func)


def register_topi_schedule(task_name: Any, func: Callable[..., Any] | None = None) -> Any:
    """Decorate a schedule `f(cfg, outs, ...)`: a call without a configuration receives the computation's."""

    def schedule(f: Callable[..., Any], outs: Any, *args: Any, **kwargs: Any) -> Any:
        config = _config_of(outs, str(task_name))
        return _within(config, f, config, outs, *args, **kwargs)

    return _decorated(schedule, func)


def _config_of(outs: Any, task_name: str) -> FallbackConfigEntity:
    """The configuration used by an operation upstream of the outputs, or a new one."""
    operations = dag.reachable([t.op for t in _tensors(outs)], lambda op: [t.op for t in op.input_tensors])
    configs = next((_OF_OPERATION[op] for op in operations if op in _OF_OPERATION), None)
    if configs is None:
        return FallbackConfigEntity()
    return configs.get(task_name) or next(reversed(configs.values()))


def template(task_name: Any, func: Callable[..., Any] | None = None) -> Any:
    """Decorate a template; calls use the configuration without tuning."""
    return _decorated(lambda f, *args, **kwargs: _within(FallbackConfigEntity(), f, *args, **kwargs), func)


class DispatchContext:
    """Where configurations come from: the one of the template that runs."""

    current: ClassVar[DispatchContext]

    def query(self, target: object, workload: object) -> FallbackConfigEntity:
        return get_config()

    def update(self, target: object, workload: object, cfg: object) -> None:
        """Do nothing: nothing is looked up by workload."""

    def __enter__(self) -> DispatchContext:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class ApplyGraphBest(DispatchContext):
    """A log of tuning, which is not here."""


FallbackContext = DispatchContext
DispatchContext.current = DispatchContext()


def args_to_workload(args: Sequence[Any], task_name: str) -> tuple[Any, ...]:
    """The name of a task with its arguments; tensors by shape and type."""
    return (task_name, *(("TENSOR", tuple(a.shape), a.dtype) if isinstance(a, Tensor) else a for a in args))


tophub = SimpleNamespace(load_reference_log=lambda *_: [])
