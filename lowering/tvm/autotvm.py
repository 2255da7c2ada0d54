"""`tvm.autotvm`: templates of operators with the configuration that they fall back to; nothing is tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bound.itervar import IterVar
from bound.schedule import Schedule
from intset.errors import InputError
from intset.expr.node import Expr


@dataclass(frozen=True)
class SplitEntity:
    """A factorization of an axis: extents of the loops, outermost first; the first is -1, whatever is left."""

    size: list[int]

    def apply(self, sch: Schedule, op: Any, axis: IterVar) -> list[IterVar]:
        """Split an axis of a stage."""
        loops: list[IterVar] = []
        for size in reversed(self.size[1:]):
            axis, inner = sch[op].split(axis, size)
            loops.append(inner)
        return [axis, *reversed(loops)]


@dataclass(frozen=True)
class ReorderEntity:
    """An order of loops, by number."""

    perm: list[int]

    def apply(self, sch: Schedule, op: Any, axes: Sequence[IterVar]) -> list[IterVar]:
        order = [axes[k] for k in self.perm]
        sch[op].reorder(*order)
        return order


@dataclass(frozen=True)
class AnnotateEntity:
    """Annotations of loops, "none" for no one."""

    anns: list[str]

    def apply(self, sch: Schedule, op: Any, axes: Sequence[IterVar], **more: object) -> list[IterVar]:
        for axis, kind in zip(axes, self.anns, strict=True):
            if kind in ("vec", "unroll", "parallel"):
                getattr(sch[op], {"vec": "vectorize"}.get(kind, kind))(axis)
        return list(axes)


@dataclass(frozen=True)
class OtherOptionEntity:
    """The value of a knob."""

    val: Any


@dataclass(frozen=True)
class VirtualAxis:
    """The extent of an axis in a template."""

    length: int
    name: str = "axis"


class FallbackConfigEntity:
    """A configuration without tuning: splits keep the axis whole, knobs have their first value."""

    is_fallback: ClassVar[bool] = True

    def __init__(self) -> None:
        self.entities: dict[str, Any] = {}
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
        parts = int(more.get("num_outputs", 2))
        self.entities.setdefault(name, SplitEntity([-1] + [1] * (parts - 1)))
        return [VirtualAxis(self.axis(axis).length if k == 0 else 1) for k in range(parts)]

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **more: Any) -> list[Any]:
        self.entities.setdefault(name, ReorderEntity(list(range(len(axes)))))
        return list(axes)

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **more: Any) -> list[Any]:
        self.entities.setdefault(name, AnnotateEntity(["none"] * len(axes)))
        return list(axes)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        self.entities.setdefault(name, OtherOptionEntity(candidate[0]))

    def add_flop(self, flop: Any) -> None:
        self.flop += float(flop) if isinstance(flop, (int, float)) else 0

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose the sizes of a split: each at most its constraint; -1 is no constraint."""
        self.entities[name] = SplitEntity([-1, *(max(1, c) for c in constraints[1:])])

    def fallback_with_reference_log(self, ref_log: object) -> None:
        """Do nothing: there is no log of tuning."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.entities:
            raise InputError(f"the template has no option {name!r}: it has {', '.join(self.entities) or 'none'}")
        return self.entities[name]

    def __setitem__(self, name: str, entity: Any) -> None:
        self.entities[name] = entity

    def __contains__(self, name: object) -> bool:
        return name in self.entities


ConfigEntity = FallbackConfigEntity
_STATE: list[FallbackConfigEntity] = []


def get_config() -> FallbackConfigEntity:
    """The configuration of the template that runs."""
    return _STATE[-1] if _STATE else FallbackConfigEntity()


def _configured(func: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        config = FallbackConfigEntity()
        _STATE.append(config)
        try:
            return func(config, *args, **kwargs)
        finally:
            _STATE.pop()

    call.__name__ = call.__qualname__ = func.__name__
    return call


def register_topi_compute(task_name: Any, func: Callable[..., Any] | None = None) -> Any:
    """Decorate a computation `f(cfg, ...)`: calls leave out the configuration."""
    return (lambda f: _configured(f)) if func is None else _configured(func)


register_topi_schedule = register_topi_compute


def template(task_name: Any, func: Callable[..., Any] | None = None) -> Any:
    """Decorate a template; calls use the configuration without tuning."""

    def plain(f: Callable[..., Any]) -> Callable[..., Any]:
        return _configured(lambda _, *args, **kwargs: f(*args, **kwargs))

    return plain if func is None else plain(func)
