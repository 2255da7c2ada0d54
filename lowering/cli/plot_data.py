"""Data of `intset plot`: the regions of one tensor in one instance, by several domains."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bound.infer import BoundsMap, StageRegion, infer_bound
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Stage
from bound.tensor import Tensor
from intset import Expr, InputError, Range, Var, evaluate
from intset.domains.sets.region import Elements, Region, Side, elements_of
from intset.errors import BudgetError
from intset.expr.printer import Drawn, shown
from lowering.cli.inputs import ScriptSchedule

DOMAINS = ("interval", "stride", "isl", "auto")
MAX_BLOCKS = 160_000  # beyond it a block stands for several elements
MAX_OPERATIONS = 100_000_000  # of a domain, per region
MAX_INSTANCES = 4096  # searched for one with a nonempty region


@dataclass(frozen=True, slots=True)
class Panel:
    """One domain's required and computed elements and its storage; `box` is along the axes drawn."""

    domain: str
    required: Elements
    computed: Elements
    box: tuple[Side, ...]
    extents: tuple[int, ...]
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Picture(Drawn):
    """One tensor in one instance of its attach path; `axes` are drawn, `hidden` are projected away."""

    schedule: str
    stage: str
    tensor: str
    axes: tuple[str, ...]
    hidden: tuple[str, ...]
    instance: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]
    panels: tuple[Panel, ...]


def picture_of(
    entry: ScriptSchedule,
    sizes: Mapping[str, int],
    domains: Sequence[str] = DOMAINS,
    stage: str | None = None,
    axes: Sequence[str] = (),
    instance: Mapping[str, int] | None = None,
    compute: str = "exact",
) -> Picture:
    """Infer the regions of one stage.

    Parameters
    ----------
    domains: one panel each; the last one picks the instance.
    stage: name of a stage or tensor; default: the first stage computed inside another's loops.
    axes: one or two names or numbers, the first drawn downwards; default: the last two of extent above 1.
    instance: values of loops of the attach path, by name; default: the first instance with a nonempty region.

    Raises
    ------
    InputError: an unknown name or value, or a symbolic size.
    """
    assert entry.schedule is not None
    answers = [infer_bound(entry.schedule, at=dict(sizes) or None, domain=d, compute=compute) for d in domains]
    chosen = _find(answers[-1], stage)
    names = _axis_names(chosen)
    if not names:
        raise InputError(f"stage {chosen.op.name} is a scalar: it has no axes to draw")
    values, labels = _instance(answers[-1], chosen, instance or {})
    storage = answers[-1].storage(chosen)
    if storage.flat is None:
        extents = [side.extent for side in storage.allocated]
    else:
        extents = [side.extent for side in answers[-1].computed(chosen).box]
    drawn = _axes(names, axes, extents)
    return Picture(
        entry.name,
        chosen.op.name,
        chosen.name,
        tuple(names[k] for k in drawn),
        tuple(name for k, name in enumerate(names) if k not in drawn),
        tuple(zip(labels, values, strict=True)),
        tuple(sizes.items()),
        _merged(
            _panel(bounds, name, _find(bounds, chosen.name), values, drawn)
            for name, bounds in zip(domains, answers, strict=True)
        ),
    )


def _merged(panels: Iterable[Panel]) -> tuple[Panel, ...]:
    """Panels that show different pictures; equal ones become one, under the names of all their domains."""
    merged: dict[Panel, list[str]] = {}
    for panel in panels:
        merged.setdefault(replace(panel, domain=""), []).append(panel.domain)
    return tuple(replace(panel, domain=", ".join(domains)) for panel, domains in merged.items())


# -- names --------------------------------------------------------------------------------------------------------


def _find(bounds: BoundsMap, name: str | None) -> Tensor:
    """A tensor by its name, or the first tensor of a stage by the stage's name."""
    stages = [stage for stage in bounds.schedule.stages if stage.attach_type is not AttachType.INLINED_ALREADY]
    if name is None:
        made = [stage for stage in stages if not isinstance(stage.op, PlaceholderOp)]
        tests: list[Callable[[Stage], bool]] = [
            lambda stage: stage.attach_type is AttachType.SCOPE,
            lambda stage: not stage.is_output,
            lambda stage: True,
        ]
        return next(stage.op.output(0) for test in tests for stage in made if test(stage))
    tensors = {stage.name: stage.op.output(0) for stage in stages}
    tensors |= {tensor.name: tensor for stage in stages for tensor in stage.op.outputs}
    if name not in tensors:
        inlined = any(stage.name == name for stage in bounds.schedule.stages)
        known = ", ".join(dict.fromkeys(stage.name for stage in stages))
        raise InputError(f"--stage: {'inlined' if inlined else 'unknown'} stage {shown(name)}; there are: {known}")
    return tensors[name]


def _axis_names(tensor: Tensor) -> list[str]:
    """The names of a tensor's axes; `axis 0`, ... without unique names."""
    axes = [axis.name for axis in getattr(tensor.op, "axis", ())]
    dims = len(tensor.shape)
    return axes if len(axes) == dims == len(set(axes)) else [f"axis {k}" for k in range(dims)]


def _axes(names: Sequence[str], given: Sequence[str], extents: Sequence[Any]) -> tuple[int, ...]:
    """The positions of the axes to draw."""
    if not given:
        longer = [k for k, extent in enumerate(extents) if not (extent.is_const and int(extent) == 1)]
        picked = longer[-2:] if len(longer) > 1 else [*(k for k in range(len(names)) if k not in longer), *longer][-2:]
        return tuple(sorted(picked))
    numbers = {str(k): k for k in range(len(names))} | {name: k for k, name in enumerate(names)}
    for name in given:
        if name not in numbers:
            raise InputError(f"--axes: unknown axis {name!r}; there are: {', '.join(names)}, or their numbers from 0")
    found = tuple(numbers[name] for name in given)
    if len(found) > 2 or len(set(found)) < len(found):
        raise InputError(f"--axes takes one axis, or two different ones, not {shown(','.join(given))}")
    return found


# -- instances ----------------------------------------------------------------------------------------------------


def _instance(bounds: BoundsMap, tensor: Tensor, given: Mapping[str, int]) -> tuple[tuple[int, ...], list[str]]:
    """The values and names of the loops around a stage, outermost first."""
    region = bounds.required(tensor)
    named: dict[Var, str] = {leaf: bounds.loop_name(stage, leaf) for stage, leaf in bounds.attach_path(tensor)}
    labels = [named.get(v, v.name) for v in region.fixed]
    fixed: dict[Var, int] = {}
    for name, value in given.items():
        found = [v for v, label in zip(region.fixed, labels, strict=True) if name in (label, v.name)]
        if len(found) != 1:
            known = f"there are: {', '.join(labels)}" if labels else f"{tensor.name} has one instance"
            raise InputError(f"--instance: {'ambiguous' if found else 'unknown'} loop {shown(name)}; {known}")
        fixed[found[0]] = value
    chosen: dict[Var, int] | None = None
    for values in itertools.islice(_instances(bounds, region.fixed, fixed), MAX_INSTANCES):
        chosen = values if chosen is None else chosen
        if not _at(region, values, tensor).is_empty:
            chosen = values
            break
    if chosen is None:
        listed = ", ".join(f"{name}={value}" for name, value in given.items())
        raise InputError(f"--instance: no iteration has {listed}" if given else f"{tensor.name} has no instance")
    return tuple(chosen[v] for v in region.fixed), labels


def _instances(bounds: BoundsMap, loops: Sequence[Any], given: Mapping[Var, int]) -> Iterator[dict[Var, int]]:
    """All joint values of nested loops, innermost fastest; an inner range may depend on outer loops."""
    if not loops:
        yield {}
        return
    for outer in _instances(bounds, loops[:-1], given):
        low, extent = _side(bounds[loops[-1]], outer, loops[-1].name)
        value = given.get(loops[-1])
        for x in range(low, low + extent) if value is None else [value] if low <= value < low + extent else []:
            yield {**outer, loops[-1]: x}


def _at(region: StageRegion, values: Mapping[Var, int], tensor: Tensor) -> Region:
    found = region.at({v: values[v] for v in (*region.params, *region.fixed) if v in values})
    _refuse_sizes(tensor.name, found.params)
    return found


def _side(side: Range, values: Mapping[Var, int], name: str) -> Side:
    ends = [end for end in (side.min, side.extent) if isinstance(end, Expr)]
    _refuse_sizes(name, [v for end in ends for v in end.free_vars() if v not in values])
    low, extent = (evaluate(end, dict(values)) for end in ends)
    return int(low), max(int(extent), 0)


def _refuse_sizes(name: str, free: Sequence[Var]) -> None:
    if free:
        listed = " ".join(f"--at {v.name}=VALUE" for v in dict.fromkeys(free))
        raise InputError(f"{name} depends on sizes: fix them with {listed}")


# -- regions ------------------------------------------------------------------------------------------------------


def _panel(bounds: BoundsMap, domain: str, tensor: Tensor, values: Sequence[int], drawn: Sequence[int]) -> Panel:
    needed = bounds.required(tensor)
    given: dict[Var, int] = dict(zip(needed.fixed, values, strict=True))
    required, computed = (_at(region, given, tensor) for region in (needed, bounds.computed(tensor)))
    seen = _drawn_elements(required, drawn)
    sides = [_side(side, given, tensor.name) for side in bounds.allocated(tensor)]
    shown = [sides[k] for k in drawn]
    storage = bounds.storage(tensor)
    for place, k in enumerate(drawn):
        if storage.is_circular and storage.folds[k] is not None:  # a circular window is drawn at its elements
            shown[place] = (seen.box[place][0], sides[k][1])
        elif storage.flat is not None and k in storage.flat.dims:  # no box of the tensor
            shown[place] = seen.box[place]
    return Panel(
        domain,
        seen,
        seen if computed == required else _drawn_elements(computed, drawn),
        tuple(shown),
        tuple(extent for _, extent in sides),
        needed.is_exact,
    )


def _drawn_elements(region: Region, drawn: Sequence[int]) -> Elements:
    try:
        return elements_of(region, drawn, MAX_BLOCKS, MAX_OPERATIONS)
    except BudgetError as error:
        raise InputError(f"the region cannot be drawn: {error}") from error
