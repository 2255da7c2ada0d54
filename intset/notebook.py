"""Representations in notebooks: formulas, tables, pictures of sets. A class loads this module when one is shown.

Guarantee: a representation never raises; it is well formed, and whatever a user named is escaped. Budgets
bound its length and the operations spent on it; a note counts omitted rows and characters.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from html import escape
from math import prod
from typing import Any, Final

from intset.check.certificate import BoundsCertificate, Certificate
from intset.context import Context
from intset.domains.auto import FEW_POINTS
from intset.domains.sets.base import IntSet
from intset.domains.sets.ends import Bounds
from intset.domains.sets.region import Elements, Region, Relation, Side, elements_of
from intset.errors import IntSetError
from intset.expr import Cond, Expr, Infinity, Node, dag, shown
from intset.expr.convert import ELIDED
from intset.expr.convert import latex as latex_of
from intset.expr.printer import SHOWN_NAME, SHOWN_ROWS, short_number, to_text, visible
from intset.itermap.itermap import IterMap
from intset.prover.explain import Explanation
from intset.prover.proof import Proof
from intset.regions.shape import coordinates
from intset.spaces.space import Space
from intset.trace import Trace

SHOWN_TEXT: Final = 2_000  # characters of a text
SHOWN_NODES: Final = 1_000  # nodes of an expression that is counted or proved again to be shown
DRAWN_BLOCKS: Final = 4_096  # cells of a picture of a set
DRAWN_OPERATIONS: Final = 1_000_000  # operations of the domain for one picture

Cell = str  # HTML, escaped
_STYLE = "text-align:left;vertical-align:top"
_FILL, _OUTLINE, _INK = "#1f5f9e", "#dd6b10", "#5b6570"
_LONGEST, _CELL, _THINNEST = 420, 16.0, 12.0  # pixels: a side of a picture, of a cell, of a thin picture
_MARGIN = 44


# -- the entries -------------------------------------------------------------------------------------------------------


def formula(node: Node) -> str:
    """An expression or condition for a notebook, between dollar signs."""
    assert isinstance(node, (Expr, Cond))
    text = latex_of(node)
    if ELIDED in text:
        text += rf"\quad\mathrm{{(shortened;\ {dag.size(node)}\ operations)}}"
    return f"${text}$"


def html(value: object) -> str:
    """A value for a notebook, as a `div`; plain text if its class has no table or the table fails."""
    try:
        body = fragment(value)
    except Exception as error:  # a foreign domain failed, or a budget ended
        body = note(f"shown as text alone: {type(error).__name__}: {error}") + pre(shown(value))
    return f'<div class="intset">{body}</div>'


def svg(value: object) -> str | None:
    """The picture of a value; `None` if it has none or drawing fails."""
    try:
        return picture(value)
    except Exception:  # as above
        return None


@singledispatch
def fragment(value: object) -> Cell:
    """The tables and pictures of a value, without the `div` around them; other packages register their classes."""
    return pre(str(value))


# -- HTML --------------------------------------------------------------------------------------------------------------


def escaped(value: object, limit: int = SHOWN_TEXT) -> Cell:
    """A text in HTML, cut at `limit` characters; a note counts the omitted ones."""
    text = value if isinstance(value, str) else to_text(value, limit) if isinstance(value, Node) else shown(value)
    rest = len(text) - limit
    cut = text if rest <= 0 else f"{text[:limit]}… ({rest:,} characters left out)"
    return escape(visible(cut, keep="\n\t"))


def code(value: object, limit: int = SHOWN_NAME) -> Cell:
    return f"<code>{escaped(value, limit)}</code>"


def pre(text: str, limit: int = SHOWN_TEXT) -> Cell:
    return f'<pre style="line-height:1.25">{escaped(text, limit)}</pre>'


def note(text: str) -> Cell:
    return f"<div><em>{escaped(text)}</em></div>"


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], total: int | None = None) -> Cell:
    """A table of the first `SHOWN_ROWS` rows.

    Parameters
    ----------
    head: texts above the columns; none for a table of facts, whose first column is bold.
    total: the number of rows, if `rows` is only a part.
    """
    waiting = iter(rows)
    first = list(itertools.islice(waiting, SHOWN_ROWS))
    left = (total - len(first)) if total is not None else sum(1 for _ in waiting)
    top = "".join(f'<th style="{_STYLE}">{escaped(text, SHOWN_NAME)}</th>' for text in head)
    body = ""
    for row in first:
        tags = ["th" if not head and not k else "td" for k in range(len(row))]
        cells = (f'<{tag} style="{_STYLE}">{cell}</{tag}>' for tag, cell in zip(tags, row, strict=True))
        body += f"<tr>{''.join(cells)}</tr>"
    more = note(f"{left:,} more rows") if left > 0 else ""
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>{more}"


def known(answer: Callable[[], object]) -> Cell:
    """An answer, or why there is none."""
    try:
        return code(answer())
    except IntSetError as error:
        return f"<em>not known: {escaped(error.args[0] if error.args else error, SHOWN_NAME)}</em>"


def conditions(conds: Sequence[Cond]) -> Cell:
    """Conditions, one a line; beyond `SHOWN_ROWS` their number."""
    return "".join(f"<div>{code(cond)}</div>" for cond in conds[:SHOWN_ROWS]) + _rest(conds, "and {:,} more")


def _rest(listed: Sequence[object], text: str) -> Cell:
    """A note on the number of items beyond the first `SHOWN_ROWS`."""
    number = len(listed) - SHOWN_ROWS
    return note(text.format(number)) if number > 0 else ""


def claim(value: IntSet | Region | Relation) -> str:
    """How a set relates to the true one."""
    return f"{'exact' if value.is_exact else 'a superset'}, by {str(value.by)[:SHOWN_NAME]}"


def notes(texts: Sequence[str]) -> Cell:
    return "".join(map(note, texts[:SHOWN_ROWS])) + _rest(texts, "and {:,} more notes")


# -- pictures ----------------------------------------------------------------------------------------------------------


@singledispatch
def picture(value: object) -> str | None:
    """The picture of a value as SVG; other packages register their classes."""
    return None


@picture.register
def _(value: IntSet | Region) -> str | None:
    """`None` for parameters, unbounded sides, and more than two dimensions."""
    if value.dims not in (1, 2) or value.params:
        return None
    ends = (value.ends(),) if isinstance(value, IntSet) else tuple((side.min, side.max) for side in value.box)
    if value.is_empty or any(isinstance(end, Infinity) for pair in ends for end in pair):
        return None
    try:
        seen = elements_of(value, range(value.dims), DRAWN_BLOCKS, DRAWN_OPERATIONS)
    except IntSetError:  # the elements take too many operations: the box alone
        box = tuple((int(low), int(high) - int(low) + 1) for low, high in ends)
        return _svg(Elements(None, box, (1,) * value.dims, None), f"the box of a region, {claim(value)}", False)
    number = "" if seen.count is None else f"{seen.count:,} points, "
    blocks = " x ".join(map(str, seen.block))
    coarse = f"; a cell with a point stands for {blocks}" if max(seen.block) > 1 else ""
    return _svg(seen, f"{number}{claim(value)}{coarse}", True)


def _svg(seen: Elements, caption: str, is_filled: bool) -> str:
    """The elements as cells: the first coordinate runs down, the second to the right; a single one to the right."""
    rows, columns = ((0, 1), seen.box[0]) if len(seen.box) == 1 else seen.box
    scale = min(_CELL, _LONGEST / max(rows[1], columns[1]))
    width, height = (max(side[1] * scale, _THINNEST) for side in (columns, rows))
    left, top = (_MARGIN + 8 * max(len(_tick(x)) for x in _ends_of(rows)) if len(seen.box) > 1 else _MARGIN), 10
    right = left + width + max(_MARGIN, 4 * len(_tick(_ends_of(columns)[-1])))
    whole = (max(right, 8.0 * len(caption) * 0.75 + 20), top + height + 58)
    across, down = width / columns[1], height / rows[1]
    parts = [f"<title>{escaped(caption)}</title>"]
    frame = f'x="{left}" y="{top}" width="{width:.2f}" height="{height:.2f}" fill="none"'
    if is_filled:
        parts.append(f'<path d="{_cells_path(seen, left, top, across, down)}" fill="{_FILL}"/>')
        if min(across, down) >= 6:
            upright = (f"M{left + k * across:.2f} {top}v{rows[1] * down:.2f}" for k in range(1, columns[1]))
            level = (f"M{left} {top + k * down:.2f}h{columns[1] * across:.2f}" for k in range(1, rows[1]))
            parts.append(f'<path d="{"".join((*upright, *level))}" stroke="#ccd4db" stroke-width="0.5"/>')
    dashed = "" if is_filled else ' stroke-dasharray="4"'
    parts.append(f'<rect {frame} stroke="{_OUTLINE}"{dashed}/>')
    ink = f'fill="{_INK}" font-family="sans-serif" font-size="11"'
    for x in _ticks(columns, across):
        at = left + (x - columns[0] + 0.5) * across
        parts.append(f'<text x="{at:.2f}" y="{top + height + 14:.2f}" text-anchor="middle" {ink}>{_tick(x)}</text>')
    if len(seen.box) > 1:
        for y in _ticks(rows, down):
            at = top + (y - rows[0] + 0.5) * down + 4
            parts.append(f'<text x="{left - 6}" y="{at:.2f}" text-anchor="end" {ink}>{_tick(y)}</text>')
        parts.append(f'<text x="4" y="{top + height / 2 + 4:.2f}" {ink} font-weight="bold">d0</text>')
    axis = f"d{len(seen.box) - 1}"
    parts.append(f'<text x="{left + width / 2:.2f}" y="{top + height + 29:.2f}" {ink} font-weight="bold">{axis}</text>')
    parts.append(f'<text x="4" y="{top + height + 48:.2f}" {ink}>{escaped(caption)}</text>')
    size = f'width="{whole[0]:.0f}" height="{whole[1]:.0f}" viewBox="0 0 {whole[0]:.0f} {whole[1]:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _cells_path(seen: Elements, left: float, top: float, across: float, down: float) -> str:
    """The path around all cells with an element, each run of neighbours in a row as one rectangle."""
    rows, columns = ((0, 1), seen.box[0]) if len(seen.box) == 1 else seen.box
    if seen.blocks is None:
        return _rectangle(left, top, columns[1] * across, rows[1] * down)
    height, width = (1, *seen.block) if len(seen.box) == 1 else seen.block
    cells = sorted((0, *block) if len(block) == 1 else block for block in seen.blocks)
    runs: list[list[int]] = []
    for y, x in cells:
        if runs and runs[-1][0] == y and runs[-1][2] == x:
            runs[-1][2] += 1
        else:
            runs.append([y, x, x + 1])
    return "".join(
        _rectangle(
            left + first * width * across,
            top + y * height * down,
            (min(last * width, columns[1]) - first * width) * across,
            (min((y + 1) * height, rows[1]) - y * height) * down,
        )
        for y, first, last in runs
    )


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.2f} {y:.2f}h{width:.2f}v{height:.2f}h{-width:.2f}z"


def _ends_of(side: Side) -> tuple[int, ...]:
    return (side[0],) if side[1] == 1 else (side[0], side[0] + side[1] - 1)


def _ticks(side: Side, scale: float) -> tuple[int, ...]:
    """The ends, and multiples of 1, 2 or 5 times a power of 10 between them, as far apart as their labels."""
    low, extent = side
    room = max(len(_tick(x)) for x in _ends_of(side)) * 7 + 14
    steps = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
    step = next(step for step in steps if step * scale >= room)
    ends = _ends_of(side)
    middle = range(-(-(low + 1) // step) * step, low + extent - 1, step) if step < extent else ()
    clear = (x for x in middle if min(x - ends[0], ends[-1] - x) * scale >= room)
    return tuple(sorted({*(ends if (extent - 1) * scale >= room or len(ends) == 1 else ends[:1]), *clear}))


def _tick(x: int) -> str:
    return str(x) if abs(x) < 10**9 else f"{float(x):.3g}" if x.bit_length() < 1000 else "…"


# -- what is shown of each class ---------------------------------------------------------------------------------------


@fragment.register
def _(value: Bounds) -> Cell:
    tight = "yes: both are attained" if value.is_tight else "not known"
    rows = [("lower end", code(value[0])), ("upper end", code(value[1])), ("tight", tight), ("by", escaped(value.by))]
    return table((), rows) + notes(value.notes)


@fragment.register
def _(value: IntSet) -> Cell:
    low, high = value.ends()
    is_short = dag.is_small(SHOWN_NODES, [end for end in (low, high) if isinstance(end, Expr)])
    rows = [
        ("elements", known(value.describe) if is_short else "those between the ends"),
        ("lower end", code(low)),
        ("upper end", code(high)),
        ("number", known(value.count) if is_short else "not counted: the ends are long"),
        ("claim", escaped(f"{claim(value)}{', both ends attained' if value.is_tight else ''}")),
    ]
    if value.params:
        rows.append(("depends on", names_of(value.params)))
    return (svg(value) or "") + table((), rows) + notes(value.notes)


@fragment.register
def _(value: Region) -> Cell:
    rows = [("points", known(value.count)), ("claim", escaped(claim(value)))]
    if value.params:
        rows.append(("depends on", names_of(value.params)))
    picture = svg(value)
    if picture is not None:
        return picture + notes(value.notes)
    sides = ([f"<code>d{k}</code>", code(side.min), code(side.max)] for k, side in enumerate(value.box))
    ends = table(("axis", "first", "last"), sides, value.dims) if value.dims else ""
    return table((), [("region", "empty"), *rows] if value.is_empty else rows) + ends + notes(value.notes)


@fragment.register
def _(value: Relation) -> Cell:
    own = list(coordinates(value.sources + value.targets))
    rows = [
        ("pairs", known(value.pairs.count)),
        ("from", f"{value.sources} coordinates"),
        ("to", f"{value.targets} coordinates"),
        ("claim", escaped(claim(value))),
        ("condition", known(lambda: value.condition(own[: value.sources], own[value.sources :]))),
    ]
    picture = svg(value.pairs) if (value.sources, value.targets) == (1, 1) else None
    said = note("d0 is the source, d1 the target") if picture else ""
    return table((), rows) + (picture or "") + said + notes(value.notes)


@fragment.register
def _(value: Proof) -> Cell:
    rows = [("condition", code(value.goal, SHOWN_TEXT)), ("status", f"<strong>{value.status}</strong>")]
    if value.by:
        rows.append(("by", escaped(value.by)))
    if value.reason:
        rows.append(("reason", escaped(value.reason)))
    if value.counterexample is not None:
        points = [(code(e), code(k)) for e, k in itertools.islice(value.counterexample.items(), SHOWN_ROWS)]
        at = table(("variable", "value"), points, len(value.counterexample)) if points else "the only point"
        return table((), [*rows, ("fails at", at)])
    if not value:
        return table((), rows)
    used, found = value.at_hand() if dag.is_small(SHOWN_NODES, (value.goal,)) else (None, None)
    if value.decided_vacuous:
        rows.append(("vacuous", "no point satisfies the ranges and facts"))
    if used is not None:
        facts = [(code(fact.condition), escaped(fact.provenance)) for fact in used]
        rows.append(("facts used", table((), facts) if facts else "none"))
    if value.basis.requires:
        rows.append(("where", conditions(value.basis.requires)))
    rows.append(("certificate", "not asked for yet: see certificate()" if found is None else fragment(found)))
    return table((), rows)


@fragment.register
def _(value: Certificate) -> Cell:
    lines = value.words()
    told = pre("\n".join(lines[:SHOWN_ROWS])) + _rest(lines, "{:,} more lines")
    return f"<div>by {escaped(value.kind)}</div>{told}"


@fragment.register
def _(value: BoundsCertificate) -> Cell:
    rows = [("expression", code(value.expr)), ("lower end", code(value.low)), ("upper end", code(value.high))]
    for side, part, at in (("lower", value.lower, value.at_lower), ("upper", value.upper, value.at_upper)):
        if part is not None:
            point = "" if at is None else f", attained at {at!r}"
            rows.append((f"{side} end holds", f"{escaped(f'by {part.kind}{point}', SHOWN_TEXT)}"))
    if value.empty is not None:
        rows.append(("empty", escaped(f"by {value.empty.kind}")))
    return table((), rows)


@fragment.register
def _(value: Context) -> Cell:
    ranges, facts = value.ranges, value.facts
    listed = ((code(v.name), code(r.min), code(r.max)) for v, r in itertools.islice(ranges.items(), SHOWN_ROWS))
    stated = [(code(fact.condition), escaped(fact.provenance)) for fact in facts[:SHOWN_ROWS]]
    known_facts = table(("fact", "provenance"), stated, len(facts)) if facts else ""
    return (table(("variable", "first", "last"), listed, len(ranges)) if ranges else note("no ranges")) + known_facts


@fragment.register
def _(value: IterMap) -> Cell:
    images = ((code(e), code(r.min), code(r.max)) for e, r in zip(value.exprs, value.ranges, strict=True))
    verdicts = [("injective", known(lambda: value.injective)), ("surjective", known(lambda: value.surjective))]
    return table(("index", "first", "last"), images, len(value.exprs)) + table((), verdicts)


@fragment.register
def _(value: Space) -> Cell:
    values = value.values
    texts = {name: ", ".join(map(repr, own[:12])) + (", …" if len(own) > 12 else "") for name, own in values.items()}
    rows = ((code(name), f"{len(own):,}", code(texts[name])) for name, own in values.items())
    candidates = prod(len(own) for own in values.values())
    uncounted = f"of {short_number(candidates)} candidates; see count()"
    counted = known(value.count) if candidates <= FEW_POINTS**2 else uncounted
    members = table((), [("members", counted), ("where", conditions(value.where) or "always")])
    return table(("name", "number", "values"), rows, len(values)) + members


fragment.register(Explanation, lambda value: pre("\n".join(value.lines)))


@fragment.register
def _(value: Trace) -> Cell:
    shown_records = value.outermost()
    rows = [
        (
            "&#160;" * 4 * record.depth + f"{escaped(record.what)} {code(record.question)}",
            code(record.answer),
            escaped(record.answerer),
            f"{record.seconds * 1000:.3f}",
            escaped(record.times),
            "<br/>".join(escaped(line, SHOWN_NAME) for line in record.losses),
        )
        for record in shown_records
    ]
    head = ("question", "answer", "by", "ms", "tiers", "gave up")
    asked = table(head, rows, len(value.records) + value.omitted)
    totals = (
        (escaped(name), str(t.asked), str(t.answered), str(t.gave_up), f"{t.seconds * 1000:.3f}")
        for name, t in value.totals.items()
    )
    return asked + table(("tier", "asked", "answered", "gave up", "ms"), totals)


def names_of(variables: Sequence[Any]) -> Cell:
    rest = len(variables) - SHOWN_ROWS
    return ", ".join(code(v.name) for v in variables[:SHOWN_ROWS]) + (f" and {rest:,} more" if rest > 0 else "")
