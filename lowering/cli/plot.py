"""`intset plot`: the regions of one tensor in one instance, by several domains; results of an exploration.

Results are a heat map of a value over two names, or the Pareto front of two values. Notebooks draw the same. matplotlib
is imported only when something is drawn.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bound.infer import BoundsMap, StageRegion, infer_bound
from bound.schedule import AttachType
from bound.tensor import PlaceholderOp, Tensor
from intset import Expr, InputError, Range, Var, evaluate, notebook
from intset.domains.sets.region import Elements, Region, Side, elements_of
from intset.errors import BudgetError
from intset.expr import shown
from intset.expr.printer import Drawn, visible
from lowering.cli.inputs import ScriptSchedule, load_script
from lowering.cli.reports import prose
from lowering.explore.dataset import Exploration, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    panels: dict[Panel, list[str]] = {}  # equal ones become one, under the names of all their domains
    for name, bounds in zip(domains, answers, strict=True):
        panels.setdefault(_panel(bounds, _find(bounds, chosen.name), values, drawn), []).append(name)
    return Picture(
        entry.name,
        chosen.op.name,
        chosen.name,
        tuple(names[k] for k in drawn),
        tuple(name for k, name in enumerate(names) if k not in drawn),
        tuple(zip(labels, values, strict=True)),
        tuple(sizes.items()),
        tuple(replace(panel, domain=", ".join(by)) for panel, by in panels.items()),
    )


# -- names --------------------------------------------------------------------------------------------------------


def _find(bounds: BoundsMap, name: str | None) -> Tensor:
    """A tensor by its name, or the first tensor of a stage by the stage's name."""
    stages = [stage for stage in bounds.schedule.stages if not stage.is_inlined]
    if name is None:
        made = (stage for stage in stages if not isinstance(stage.op, PlaceholderOp))
        first = min(made, key=lambda stage: (stage.attach_type is not AttachType.SCOPE, stage.is_output))
        return first.op.output(0)
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
    every = itertools.islice(_instances(bounds, region.fixed, fixed), MAX_INSTANCES)
    first = next(every, None)
    if first is None:
        listed = ", ".join(f"{name}={value}" for name, value in given.items())
        raise InputError(f"--instance: no iteration has {listed}" if given else f"{tensor.name} has no instance")
    needing = (values for values in itertools.chain([first], every) if not _at(region, values, tensor).is_empty)
    chosen = next(needing, first)
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


def _panel(bounds: BoundsMap, tensor: Tensor, values: Sequence[int], drawn: Sequence[int]) -> Panel:
    """The panel of a domain, without its name."""
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
        "",
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


SUFFIXES = (".png", ".svg")
MAX_CELLS = 64  # along one axis; larger views show rasters and boxes instead of cells

_COMPUTED, _REQUIRED, _ALLOCATED = "#b5d3ec", "#1f5f9e", "#dd6b10"
_SPARE, _TEXT, _FAINT = "#fcebdb", "#1b1f24", "#5b6570"
_TIMES = " \N{MULTIPLICATION SIGN} "
_POINTS = 6.0  # the width of a character of a title
_INSET = 0.62  # the side of a required element, as a share of its cell
STYLE: Final = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _TEXT,
    "axes.edgecolor": "#b9c0c7",
    "axes.labelcolor": _TEXT,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "intset",  # equal pictures give equal files
}


class _View(NamedTuple):
    """The visible rows and columns of all panels; a picture of one axis has a single row."""

    rows: Side
    columns: Side
    is_strip: bool

    @property
    def ratio(self) -> float:
        """Width over height of a panel, clamped to a legible range."""
        return min(max(self.columns[1] / self.rows[1], 0.4), 5.0)

    @property
    def is_fine(self) -> bool:
        """Whether elements are drawn as single cells."""
        return max(self.rows[1], self.columns[1]) <= MAX_CELLS


def plot(
    path: Path, domains: Sequence[str], at: Mapping[str, int], schedule: str | None, output: str | None, **options: Any
) -> None:
    """Draw one stage of a script's schedule to a file; the options are those of `picture_of`."""
    target = None if output is None else check_output(output)
    style = require("matplotlib", "plot").rc_context(STYLE)
    entries = load_script(path)
    named = [entry for entry in entries if schedule in (None, entry.name)]
    if not named:
        known = ", ".join(entry.name for entry in entries)
        raise InputError(f"--schedule: unknown schedule {schedule!r}; there are: {known}")
    entry = next((entry for entry in named if entry.schedule is not None), named[0])
    if entry.schedule is None:
        raise InputError(entry.refused)
    domains = domains or DOMAINS
    picture = picture_of(entry, {**entry.sizes, **at}, domains, **options)
    target = target or Path(f"{path.stem}-{picture.tensor}.png".replace("/", "-"))
    with style:
        saved(draw(picture), target)
    where = ", ".join(f"{name}={value}" for name, value in picture.instance)
    prose(f"{target}: {picture.tensor} of {entry.name}{f' at {where}' if where else ''}, by {', '.join(domains)}")


def check_output(name: str) -> Path:
    """The path of a picture; raises `InputError` unless it ends in .png or .svg and its folder exists."""
    path = Path(name)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output: {name}: a name ending in {' or '.join(SUFFIXES)} is expected")
    if not path.parent.is_dir():
        raise InputError(f"--output: {name}: no such folder")
    return path


def saved(figure: Figure, path: Path) -> None:
    """Write a figure to a file."""
    options: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {"dpi": 160}
    with require("matplotlib", "plot").rc_context(STYLE):
        try:
            figure.savefig(path, facecolor="white", **options)
        except OSError as error:
            raise InputError(f"--output: {path}: cannot be written: {error.strerror}") from None


@notebook.picture.register
def _(picture: Picture) -> str | None:
    """The picture as SVG; `None` without matplotlib."""
    target = io.BytesIO()
    try:
        with require("matplotlib", "plot").rc_context(STYLE):
            draw(picture).savefig(target, format="svg", facecolor="white", metadata={"Date": None})
    except InputError:
        return None
    text = target.getvalue().decode("utf-8")
    return text[text.index("<svg") :]


@notebook.fragment.register
def _(picture: Picture) -> str:
    """The picture; without matplotlib its data as text."""
    return notebook.svg(picture) or notebook.pre(repr(picture))


def draw(picture: Picture) -> Figure:
    """A figure with one panel per domain on equal axes, a title and a legend."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    view, number = _view(picture), len(picture.panels)
    columns = 1 if view.is_strip or view.ratio > 2 else min(number, 4 if view.ratio < 0.6 else 2 if number > 3 else 3)
    rows = ceil(number / columns)
    width, height = _panel_size(view)
    size = (max(columns * (width + 0.75), 6.4), rows * (height + 1.05) + 1.15)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.03, hspace=0.05))
    for k, panel in enumerate(picture.panels):
        axes = figure.add_subplot(rows, columns, k + 1)
        _draw_frame(axes, picture, view)
        _draw_panel(axes, panel, view)
    lines = [part for line in _title(picture) for part in wrap(visible(line, keep="\n\t"), int(size[0] * 72 / _POINTS))]
    figure.suptitle("\n".join([*lines, ""]), x=0.015, ha="left", fontsize=10, linespacing=1.5)
    same = all(panel.required == panel.computed for panel in picture.panels)
    _draw_legend(figure, same and not view.is_fine)
    write_out(figure)
    return figure


def write_out(figure: Figure) -> None:
    """Draw the texts of a figure unchanged: names are no formulas, control characters are escaped."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set(parse_math=False, usetex=False, text=visible(text.get_text(), keep="\n"))


# -- the parts ----------------------------------------------------------------------------------------------------


def _view(picture: Picture) -> _View:
    sides = []
    for k in range(len(picture.axes)):
        shown = [elements.box[k] for p in picture.panels for elements in (p.required, p.computed) if elements.box[k][1]]
        shown += [panel.box[k] for panel in picture.panels if panel.box[k][1]]
        low = min((first for first, _ in shown), default=0)
        sides.append((low, max((first + extent for first, extent in shown), default=1) - low))
    return _View((0, 1), sides[0], True) if len(sides) == 1 else _View(sides[0], sides[1], False)


def _panel_size(view: _View) -> tuple[float, float]:
    """Width and height in inches."""
    if view.is_strip:
        return 7.5, 0.55
    ratio = view.ratio
    if ratio > 2:
        return 7.0, max(7.0 / ratio, 1.2)
    return (4.2, 4.2 / ratio) if ratio >= 1 else (max(4.2 * ratio, 2.6), 4.2)


def _draw_frame(axes: Any, picture: Picture, view: _View) -> None:
    from matplotlib.ticker import MaxNLocator

    for side, limit, axis in ((view.columns, axes.set_xlim, axes.xaxis), (view.rows, axes.set_ylim, axes.yaxis)):
        low, extent = side
        room = 0.1 + 0.012 * extent
        ends = (low - 0.5 - room, low + extent - 0.5 + room)
        limit(*(reversed(ends) if axis is axes.yaxis else ends))
        locator = MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=[1, 2, 4, 5, 8, 10])
        ticks = locator.tick_values(low, low + extent)
        axis.set_ticks([int(tick) for tick in ticks if low <= tick < low + extent])
    if not view.is_strip and max(view.columns[1], view.rows[1]) <= 5 * min(view.columns[1], view.rows[1]):
        axes.set_aspect("equal")
    axes.tick_params(length=0, labelsize=8)
    bold: dict[str, Any] = {"fontsize": 10, "fontweight": "bold"}
    axes.set_xlabel(picture.axes[-1], labelpad=2, **bold)
    if view.is_strip:
        axes.yaxis.set_visible(False)
    else:
        axes.set_ylabel(picture.axes[0], labelpad=4, rotation=0, ha="right", va="center", **bold)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _rectangle(box: tuple[Side, ...], **style: Any) -> Any:
    """A rectangle around the cells of a box."""
    from matplotlib.patches import Rectangle

    rows, columns = _two(box)
    return Rectangle((columns[0] - 0.5, rows[0] - 0.5), columns[1], rows[1], **style)


def _draw_panel(axes: Any, panel: Panel, view: _View) -> None:
    _fill(axes, panel.computed, _COMPUTED, 1.0, 2.0, view)
    _fill(axes, panel.required, _REQUIRED, _INSET, 3.0, view)
    rows, columns = _two(panel.box)
    if rows[1] and columns[1]:
        axes.add_patch(_rectangle(panel.box, facecolor=_SPARE, zorder=0.5))
        if view.is_fine:
            (top, left), (height, width) = zip(rows, columns, strict=True)
            style: dict[str, Any] = {"colors": "white", "lw": 0.7, "zorder": 1}
            axes.vlines([left + k + 0.5 for k in range(width - 1)], top - 0.5, top + height - 0.5, **style)
            axes.hlines([top + k + 0.5 for k in range(height - 1)], left - 0.5, left + width - 0.5, **style)
        outline = _rectangle(panel.box, fill=False, edgecolor=_ALLOCATED, linewidth=2, zorder=4, joinstyle="miter")
        outline.set_gid(f"{panel.domain}-allocated")
        axes.add_patch(outline)
    storage = _TIMES.join(f"{extent:,}" for extent in panel.extents)
    size = f"{storage} = {prod(panel.extents):,}" if len(panel.extents) > 1 else storage
    counts = f"required {_number(panel.required)} · computed {_number(panel.computed)}\nallocated {size}"
    blocks = {elements.block for elements in (panel.required, panel.computed) if max(elements.block) > 1}
    if blocks:
        counts += f" · in blocks of {_TIMES.join(map(str, max(blocks)))}"
    above = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(counts, (0, 1), (0, 5), **above, fontsize=8.5, color=_FAINT, va="bottom", linespacing=1.35)
    name = f"{panel.domain}  ({'exact' if panel.is_exact else 'a superset'})"
    axes.annotate(name, (0, 1), (0, 32), **above, fontsize=11, fontweight="bold", va="bottom")


def _fill(axes: Any, elements: Elements, colour: str, inset: float, order: float, view: _View) -> None:
    """Fill elements as single cells, one box or a raster."""
    if elements.is_empty:
        return
    if view.is_fine and all(extent == 1 for extent in elements.block):
        from matplotlib.collections import PolyCollection

        squares = []
        for cell in elements.cells():
            (y, _), (x, _) = _two(cell)
            h = inset / 2
            squares.append([(x - h, y - h), (x + h, y - h), (x + h, y + h), (x - h, y + h)])
        edge = {"edgecolors": "white", "linewidths": 0.7} if inset == 1 else {"edgecolors": "none"}
        axes.add_collection(PolyCollection(squares, facecolors=colour, **edge, zorder=order), autolim=False)
        return
    if elements.blocks is None:
        axes.add_patch(_rectangle(elements.box, facecolor=colour, edgecolor="none", zorder=order))
        return
    _raster(axes, elements, colour, order)


def _raster(axes: Any, elements: Elements, colour: str, order: float) -> None:
    """Fill blocks as an image with one pixel per block."""
    import numpy as np
    from matplotlib.colors import to_rgba

    assert elements.blocks is not None
    sides, strip = _two(elements.box), len(elements.box) == 1
    sizes = (1, *elements.block) if strip else elements.block
    shape = [ceil(extent / size) for (_, extent), size in zip(sides, sizes, strict=True)]
    pixels = np.zeros((*shape, 4))
    for block in elements.blocks:
        pixels[(0, *block) if strip else block] = to_rgba(colour)
    (top, _), (left, _) = sides
    ends = (left - 0.5, left - 0.5 + shape[1] * sizes[1], top - 0.5 + shape[0] * sizes[0], top - 0.5)
    limits = axes.get_xlim(), axes.get_ylim(), axes.get_aspect()
    axes.imshow(pixels, extent=ends, interpolation="nearest", zorder=order)
    axes.set_xlim(*limits[0])
    axes.set_ylim(*limits[1])
    axes.set_aspect(limits[2])


def _draw_legend(figure: Any, same: bool) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=_REQUIRED, label="required"),
        Patch(facecolor=_COMPUTED, label="computed (the same elements)" if same else "computed"),
        Patch(facecolor=_SPARE, edgecolor=_ALLOCATED, linewidth=1.6, label="allocated"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, handlelength=1.4, fontsize=9)


def _two(box: tuple[Side, ...]) -> tuple[Side, Side]:
    """Rows and columns of a box; a box of one axis is a single row."""
    return ((0, 1), box[0]) if len(box) == 1 else (box[0], box[1])


def _number(elements: Elements) -> str:
    return "not counted" if elements.count is None else f"{elements.count:,}"


def _title(picture: Picture) -> tuple[str, str]:
    tensor = "" if picture.tensor == picture.stage else f", tensor {picture.tensor}"
    where = ", ".join(f"{name} = {value}" for name, value in picture.instance)
    title = f"stage {picture.stage}{tensor} of schedule {picture.schedule}"
    if picture.sizes:
        title += f", with {', '.join(f'{name} = {value}' for name, value in picture.sizes)}"
    where = f"in the instance {where}" if where else "in its only instance"
    return title, where + (f"; projected along {', '.join(picture.hidden)}" if picture.hidden else "")


Rows = Sequence[Mapping[str, Any]]


def plot_results(folder: Path, axes: Sequence[str], by: str | None, pareto: Sequence[str], output: str | None) -> None:
    """Draw the results in a folder to a file.

    Parameters
    ----------
    axes: two names of the configuration, down and across; default: the first two.
    by: the value of the heat map, minimized over all other names; default: the first one.
    pareto: two values; then their Pareto front is drawn in place of the heat map, the least of both being best.

    Raises
    ------
    InputError: an unknown name, no rows to draw, or no results.
    """
    target = check_output(output or f"{folder.name or 'results'}.png")
    require("matplotlib", "plot")
    results = Exploration(folder)
    if pareto:
        if len(pareto) != 2:
            raise InputError(f"--pareto takes two values, not {len(pareto)}")
        first, second = (results.checked_column(name) for name in pareto)
        rows = _complete(results, (first, second))
        front = pareto_front(rows, first, second)
        saved(_front_figure(rows, front, first, second, str(folder)), target)
        prose(f"{target}: {len(front)} of {len(rows):,} configurations are best in {first} or {second}")
        return
    named = tuple(axes) or results.names[:2]
    if len(named) != 2 or named[0] == named[1] or not set(named) <= set(results.names):
        raise InputError(f"--axes takes two of the names {', '.join(results.names)}")
    down, across = named
    column = results.checked_column(by)
    rows = _complete(results, (down, across, column))
    saved(_heat_figure(rows, down, across, column, str(folder)), target)
    prose(f"{target}: {column} over {down} and {across}, the least of {len(rows):,} configurations in each cell")


def _complete(results: Exploration, columns: Sequence[str]) -> Rows:
    """The rows without an error that have finite values in the columns."""

    def is_finite(value: Any) -> bool:
        return isinstance(value, str) or (value is not None and abs(value) < float("inf"))

    rows = [row for row in results.to_arrow().to_pylist() if row["error"] is None]
    finite = [row for row in rows if all(is_finite(row[name]) for name in columns)]
    if not finite:
        raise InputError(f"{results.folder}: no row has {' and '.join(columns)}")
    return finite


def pareto_front(rows: Rows, first: str, second: str) -> list[Mapping[str, Any]]:
    """The Pareto-optimal rows, ordered by the first value."""
    front: list[Mapping[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row[first], row[second])):
        last = front[-1] if front else None
        is_equal = last is not None and (row[first], row[second]) == (last[first], last[second])
        if last is None or row[second] < last[second] or is_equal:
            front.append(row)
    return front


def least_by_cell(rows: Rows, down: str, across: str, column: str) -> tuple[list[Any], list[Any], list[list[float]]]:
    """The values along both axes, sorted, and the least value of the column in each cell; NaN where no row is."""
    sides = [sorted({row[name] for row in rows}) for name in (down, across)]
    cells = [[float("nan")] * len(sides[1]) for _ in sides[0]]
    places = [{value: k for k, value in enumerate(side)} for side in sides]
    for row in rows:
        y, x = places[0][row[down]], places[1][row[across]]
        value = float(row[column])
        if not cells[y][x] <= value:
            cells[y][x] = value
    return sides[0], sides[1], cells


def _heat_figure(rows: Rows, down: str, across: str, column: str, title: str) -> Any:
    from matplotlib.figure import Figure

    ys, xs, cells = least_by_cell(rows, down, across, column)
    figure = Figure(figsize=(min(3 + 0.35 * len(xs), 14), min(2 + 0.3 * len(ys), 12)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(cells, aspect="auto", cmap="viridis_r", interpolation="nearest")
    figure.colorbar(image, label=f"least {column}")
    for values, axis, name in ((ys, axes.yaxis, down), (xs, axes.xaxis, across)):
        step = -(-len(values) // 24)
        axis.set_ticks(range(0, len(values), step), [str(value) for value in values[::step]])
        axis.set_label_text(name)
    axes.set_title(title, fontsize=9, loc="left")
    write_out(figure)
    return figure


def _front_figure(rows: Rows, front: Rows, first: str, second: str, title: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.scatter([row[first] for row in rows], [row[second] for row in rows], s=8, color="#b5d3ec", label="all")
    ends = [row[first] for row in front], [row[second] for row in front]
    axes.step(*ends, where="post", color="#1f5f9e", lw=1)
    axes.scatter(*ends, s=18, color="#1f5f9e", label="Pareto front")
    axes.set_xlabel(first)
    axes.set_ylabel(second)
    axes.legend(frameon=False)
    axes.set_title(title, fontsize=9, loc="left")
    write_out(figure)
    return figure
