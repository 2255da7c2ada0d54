"""Turn the cheapest search state into a plan: assign unknown padding values and record padding states."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import rewrite
from lowering.padding.call_alternatives import CallAlternatives
from lowering.padding.moves import Move
from lowering.padding.partial_evaluation import as_operand
from lowering.padding.plan import Plan
from lowering.padding.search_states import SearchState
from lowering.padding.states import NOTHING, UNDEF, UNTOUCHED, PadState, PadValue, State, folded

if TYPE_CHECKING:
    from lowering.padding.graph import Graph


def resolved(graph: Graph, alternatives: CallAlternatives, search_state: SearchState, note: str) -> Plan:
    """Build the plan of a search state."""
    moves = search_state.moves()
    values = _values(alternatives, search_state)
    read = _read(moves)
    states: dict[int, PadState | None] = {}
    found: list[Move] = []
    for move in moves:
        step, made = move.step, alternatives.versions[move.makes]
        planned = made.state if made.grid is not None else None
        if planned is None or isinstance(planned, State):
            state: PadState | None = planned
        else:
            state = _closed(alternatives, rewrite(planned, values), made.tensor.dtype)
        if step.kind in ("pad", "copy", "fill"):
            if isinstance(state, State):
                state = UNDEF if step.kind == "fill" or move.makes in read else UNTOUCHED
            step = replace(step, value=None if state is UNTOUCHED else state)
        elif step.kind == "crop":
            step = replace(step, value=states[move.reads[0]])
        states[move.makes] = state
        found.append(replace(move, step=step))
    outputs = tuple(search_state.results[t.number] for t in graph.outputs)
    passed = {t: k for k, t in enumerate(graph.inputs)}
    versions = {k: (alternatives.versions[k].grid, state) for k, state in states.items()}
    versions.update((k, (None, None)) for k in passed.values())
    return Plan(graph, tuple(found), outputs, versions, passed, search_state.cost, note)


def _values(alternatives: CallAlternatives, search_state: SearchState) -> dict[Parameter, Operand]:
    """Compute the final value of every bound unknown; free unknowns inside them become 0."""
    values: dict[Parameter, Operand] = {}
    chain = search_state.bound
    while chain is not None:
        chain, bound, renames = chain
        for unknown, expr in bound.items():
            left = [other for other in alternatives.unknowns.within(expr) if other not in values]
            if left and renames:
                continue
            values.update((other, as_operand(0, alternatives.unknowns.known[other].dtype)) for other in left)
            known = rewrite(expr, values)
            short = folded(known, alternatives.unknowns.known[unknown].dtype)
            values[unknown] = short.expr if isinstance(short, PadValue) else known
    return values


def _closed(alternatives: CallAlternatives, expr: Operand, dtype: str) -> PadState:
    """Fold a state; states with free unknowns are `UNDEF`."""
    return UNDEF if alternatives.unknowns.within(expr) else folded(expr, dtype)


def _read(moves: list[Move]) -> set[int]:
    """Collect the versions whose padding some call requires."""
    found: set[int] = set()
    for move in moves:
        if move.option is not None:
            for number, port in zip(move.reads, move.option.inputs, strict=True):
                if port.grid is not None and port.state is not NOTHING:
                    found.add(number)
    return found
