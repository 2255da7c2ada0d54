"""`intset plot` draws the regions of a stage, as do notebooks. It imports matplotlib only when it draws."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import ceil, prod
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset import InputError, notebook
from intset.domains.sets.region import Elements, Side
from intset.installation import install_advice
from lowering.cli.inputs import load_script
from lowering.cli.plot_data import DOMAINS, Panel, Picture, picture_of
from lowering.cli.tables import prose, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    path: Path,
    domains: Sequence[str],
    at: Mapping[str, int],
    schedule: str | None,
    stage: str | None,
    axes: Sequence[str],
    instance: Mapping[str, int],
    compute: str,
    output: str | None,
) -> None:
    """Draw one stage of a script's schedule to a file."""
    target = None if output is None else check_output(output)
    require_matplotlib()
    entries = load_script(path)
    named = [entry for entry in entries if schedule in (None, entry.name)]
    if not named:
        known = ", ".join(entry.name for entry in entries)
        raise InputError(f"--schedule: unknown schedule {schedule!r}; there are: {known}")
    entry = next((entry for entry in named if entry.schedule is not None), named[0])
    if entry.schedule is None:
        raise InputError(entry.refused)
    domains = domains or DOMAINS
    picture = picture_of(entry, {**entry.sizes, **at}, domains, stage, axes, instance, compute)
    target = target or Path(f"{path.stem}-{picture.tensor}.png".replace("/", "-"))
    save(picture, target)
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


def require_matplotlib() -> Any:
    """The module `matplotlib`; raises `InputError` with install instructions if it is missing."""
    try:
        import matplotlib
    except ImportError:
        raise InputError(f"intset plot needs matplotlib: {install_advice('plot')}") from None
    return matplotlib


def save(picture: Picture, path: Path) -> None:
    """Draw a picture to a file."""
    with require_matplotlib().rc_context(STYLE):
        saved(draw(picture), path)


def saved(figure: Figure, path: Path) -> None:
    """Write a figure to a file."""
    options: dict[str, Any] = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {"dpi": 160}
    with require_matplotlib().rc_context(STYLE):
        try:
            figure.savefig(path, facecolor="white", **options)
        except OSError as error:
            raise InputError(f"--output: {path}: cannot be written: {error.strerror}") from None


@notebook.picture.register
def _(picture: Picture) -> str | None:
    """The picture as SVG; `None` without matplotlib."""
    target = io.BytesIO()
    try:
        with require_matplotlib().rc_context(STYLE):
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
    lines = [part for line in _title(picture) for part in wrap(visible(line), int(size[0] * 72 / _POINTS))]
    figure.suptitle("\n".join([*lines, ""]), x=0.015, ha="left", fontsize=10, linespacing=1.5)
    same = all(panel.required == panel.computed for panel in picture.panels)
    _draw_legend(figure, same and not view.is_fine)
    write_out(figure)
    return figure


def write_out(figure: Figure) -> None:
    """Have the texts of a figure drawn as they are: names are no formulas, control characters are escaped."""
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
    return (
        (7.0, max(7.0 / ratio, 1.2))
        if ratio > 2
        else (4.2, 4.2 / ratio)
        if ratio >= 1
        else (max(4.2 * ratio, 2.6), 4.2)
    )


def _draw_frame(axes: Any, picture: Picture, view: _View) -> None:
    from matplotlib.ticker import MaxNLocator

    for side, limit, axis in ((view.columns, axes.set_xlim, axes.xaxis), (view.rows, axes.set_ylim, axes.yaxis)):
        low, extent = side
        room = 0.1 + 0.012 * extent
        ends = (low - 0.5 - room, low + extent - 0.5 + room)
        limit(*(reversed(ends) if axis is axes.yaxis else ends))
        ticks = MaxNLocator(nbins=8, integer=True, min_n_ticks=1, steps=[1, 2, 4, 5, 8, 10]).tick_values(
            low, low + extent
        )
        axis.set_ticks([int(tick) for tick in ticks if low <= tick < low + extent])
    if not view.is_strip and max(view.columns[1], view.rows[1]) <= 5 * min(view.columns[1], view.rows[1]):
        axes.set_aspect("equal")
    axes.tick_params(length=0, labelsize=8)
    axes.set_xlabel(picture.axes[-1], labelpad=2, fontsize=10, fontweight="bold")
    if view.is_strip:
        axes.yaxis.set_visible(False)
    else:
        axes.set_ylabel(
            picture.axes[0], labelpad=4, fontsize=10, fontweight="bold", rotation=0, ha="right", va="center"
        )
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_panel(axes: Any, panel: Panel, view: _View) -> None:
    from matplotlib.patches import Rectangle

    for elements, colour, name, inset, order in (
        (panel.computed, _COMPUTED, "computed", 1.0, 2.0),
        (panel.required, _REQUIRED, "required", _INSET, 3.0),
    ):
        _fill(axes, elements, colour, name, inset, order, view)
    rows, columns = _two(panel.box)
    if rows[1] and columns[1]:
        corner = (columns[0] - 0.5, rows[0] - 0.5)
        axes.add_patch(Rectangle(corner, columns[1], rows[1], facecolor=_SPARE, zorder=0.5))
        if view.is_fine:
            (top, left), (height, width) = zip(rows, columns, strict=True)
            axes.vlines(
                [left + k + 0.5 for k in range(width - 1)], top - 0.5, top + height - 0.5, "white", lw=0.7, zorder=1
            )
            axes.hlines(
                [top + k + 0.5 for k in range(height - 1)], left - 0.5, left + width - 0.5, "white", lw=0.7, zorder=1
            )
        outline = Rectangle(
            corner, columns[1], rows[1], fill=False, edgecolor=_ALLOCATED, linewidth=2, zorder=4, joinstyle="miter"
        )
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


def _fill(axes: Any, elements: Elements, colour: str, name: str, inset: float, order: float, view: _View) -> None:
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
    rows, columns = _two(elements.box)
    if elements.blocks is None:
        from matplotlib.patches import Rectangle

        corner = (columns[0] - 0.5, rows[0] - 0.5)
        axes.add_patch(Rectangle(corner, columns[1], rows[1], facecolor=colour, edgecolor="none", zorder=order))
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
