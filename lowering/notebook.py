"""Representations of nests, plans and results in notebooks; see `intset.notebook`."""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from intset.expr import Node
from intset.expr.printer import SHOWN_NAME, SHOWN_ROWS
from intset.notebook import Cell, code, conditions, escaped, fragment, note, pre, table
from lowering.division.lower import Lowered
from lowering.explore.dataset import Exploration
from lowering.layout.index_map import IndexMap
from lowering.nest import ir
from lowering.nest.printer import PrintedLine, function_lines, stmt_lines
from lowering.padding.contract import Contract
from lowering.padding.plan import Plan

SHOWN_LINES: Final = 400  # lines of a nest

_WORDS = re.compile(r"\b(def|for|in|if|else|allocate|assert|assume|padding|holding|where|with|then)\b")
_LINE = 400  # characters of a line of a nest


def _nest(printed: Iterator[PrintedLine]) -> Cell:
    lines = list(itertools.islice(printed, SHOWN_LINES + 1))
    texts = (_WORDS.sub(r"<b>\1</b>", escaped(line.text, _LINE)) for line in lines[:SHOWN_LINES])
    more = note(f"the first {SHOWN_LINES} lines; str() has all") if len(lines) > SHOWN_LINES else ""
    return f'<pre style="line-height:1.25">{chr(10).join(texts)}</pre>{more}'


fragment.register(ir.Function, lambda value: _nest(function_lines(value)))
fragment.register(ir.Stmt, lambda value: _nest(stmt_lines(value)))
fragment.register(IndexMap, lambda value: pre(repr(value)))
fragment.register(Plan, lambda value: pre(value.explain()))


@fragment.register
def _(value: Exploration) -> Cell:
    names = (*value.names, *value.values)
    best = value.best(SHOWN_ROWS)
    rows = ([escaped(str(row[name]), SHOWN_NAME) for name in names] for row in best)
    first = f"the {len(best)} best by {value.checked_column(None)}" if best else "no row has a value"
    return f"<div>{escaped(f'{value.folder}: {value.summary}; {first}')}</div>" + table(names, rows)


@fragment.register
def _(value: Contract) -> Cell:
    rows = [("needs", code(name), code(str(state))) for name, state in value.needs.items()]
    rows += [("gives", code(name), code(str(state))) for name, state in value.gives.items()]
    return f"<div>padding of {code(value.f.name)}</div>" + table(("", "tensor", "padding"), rows)


@fragment.register(Lowered)
def _(value: Lowered[Node]) -> Cell:
    steps = ((code(step.rule), code(step.before), code(step.after)) for step in value.steps)
    rows = [
        ("expression", code(value.asked[0])),
        (f"at {value.bits} bits", code(value.expr)),
        ("requires", conditions(value.requires) or "nothing"),
    ]
    return table((), rows) + table(("rule", "before", "after"), steps, len(value.steps))
