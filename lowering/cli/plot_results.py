"""`intset plot DIR`: a heat map of a value over two names, or the Pareto front of two values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intset import InputError
from lowering.cli.plot import check_output, require_matplotlib, saved, write_out
from lowering.cli.tables import prose
from lowering.explore import Exploration

Rows = Sequence[Mapping[str, Any]]


def plot_results(folder: Path, axes: Sequence[str], by: str | None, pareto: Sequence[str], output: str | None) -> None:
    """Draw the results in a folder to a file.

    Parameters
    ----------
    axes: two names of the configuration, down and across; default: the first two.
    by: the value of the heat map, the least over all other names; default: the first one.
    pareto: two values; then their Pareto front is drawn in place of the heat map, the least of both being best.

    Raises
    ------
    InputError: an unknown name, no rows to draw, or no results.
    """
    target = check_output(output or f"{folder.name or 'results'}.png")
    require_matplotlib()
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
    down, across = _axes(results, axes)
    column = results.checked_column(by)
    rows = _complete(results, (down, across, column))
    saved(_heat_figure(rows, down, across, column, str(folder)), target)
    prose(f"{target}: {column} over {down} and {across}, the least of {len(rows):,} configurations in each cell")


def _axes(results: Exploration, axes: Sequence[str]) -> tuple[str, str]:
    named = tuple(axes) or results.names[:2]
    if len(named) != 2 or named[0] == named[1] or not set(named) <= set(results.names):
        raise InputError(f"--axes takes two of the names {', '.join(results.names)}")
    return named[0], named[1]


def _complete(results: Exploration, columns: Sequence[str]) -> Rows:
    """The rows without an error that have finite values in the columns."""
    table = results.to_arrow()
    rows: Rows = [row for row in table.to_pylist() if row["error"] is None]
    finite = [row for row in rows if all(_is_finite(row[name]) for name in columns)]
    if not finite:
        raise InputError(f"{results.folder}: no row has {' and '.join(columns)}")
    return finite


def _is_finite(value: Any) -> bool:
    return isinstance(value, str) or (value is not None and abs(value) < float("inf"))


def pareto_front(rows: Rows, first: str, second: str) -> list[Mapping[str, Any]]:
    """The rows that no other row beats in one value without being worse in the other, in the order of the first."""
    front: list[Mapping[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row[first], row[second])):
        if not front or row[second] < front[-1][second] or (row[first], row[second]) == _pair(front[-1], first, second):
            front.append(row)
    return front


def _pair(row: Mapping[str, Any], first: str, second: str) -> tuple[Any, Any]:
    return row[first], row[second]


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
