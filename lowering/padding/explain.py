"""Explain a plan in prose: consumers of each step, justification of each assumption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bound.tir.value import Operand
from lowering.nest.ir import Assume, Function
from lowering.nest.text import text
from lowering.nest.undef import has_undef
from lowering.nest.walk import statements, tensors_read
from lowering.padding.interface import Port
from lowering.padding.moves import Move
from lowering.padding.states import NOTHING, READABLE, UNTOUCHED, PadState, PadValue
from lowering.passes.stores.assumptions import with_checked_claims

States = Mapping[int, PadState | None]


def explained(moves: Sequence[Move], states: States, results: Sequence[int]) -> Iterator[str]:
    """Yield one line per step, followed by indented requirements and assumptions."""
    readers: dict[int, list[str]] = {}
    for move in moves:
        for number in dict.fromkeys(move.reads):
            readers.setdefault(number, []).append(_name(move))
    for number in results:
        readers.setdefault(number, []).append("the results")
    makers = {move.makes: move for move in moves}
    for move in moves:
        whom = " and ".join(dict.fromkeys(readers.get(move.makes, ())))
        yield f"{_what(move, states)}{f', for {whom}' if whom else ''}"
        if move.option is not None:
            ports = {port.tensor: port for port in move.option.inputs if port.grid is not None}
            for port, number in zip(move.option.inputs, move.reads, strict=True):
                if port.grid is not None:
                    yield f"    {_need(port, number, makers, states)}"
            for cond in _assumptions(move.option.function):
                of = [t for t in tensors_read(cond) if t in ports and _is_said(ports[t], cond)]
                why = f"of the padding of {of[0].name}, as is said above" if of else "on the word of the user"
                yield f"    keeps the assumption {text(cond)}, {why}"


def _is_said(port: Port, cond: Operand) -> bool:
    """Whether the port's contract covers an assumption: a required value or a read permission."""
    return isinstance(port.state, PadValue) or (port.state is READABLE and has_undef(cond))


def _name(move: Move) -> str:
    if move.option is not None:
        return move.option.function.name
    return f"the {move.step.kind} of {move.step.tensor}"


def _what(move: Move, states: States) -> str:
    step = move.step
    if move.option is not None:
        given = states.get(move.makes)
        tail = "" if given is None else f", whose padding is {_said(given)}"
        return f"call {move.option.function.name}, which makes {step.tensor}{tail}"
    if step.kind == "crop":
        return f"crop {step.tensor} ({step.elements} elements)"
    with_ = "leaving its padding unwritten" if step.value is None else f"with {_said(step.value)} in its padding"
    return f"{step.kind} {step.tensor} ({step.elements} elements) {with_}"


def _said(state: PadState) -> str:
    if isinstance(state, PadValue):
        return str(state)
    return "partly unwritten" if state is UNTOUCHED else "arbitrary values"


def _need(port: Port, number: int, makers: Mapping[int, Move], states: States) -> str:
    if port.state is NOTHING:
        return f"reads nothing of the padding of {port.name}"
    assert port.grid is not None
    if not port.grid.padding:
        return f"finds no padding in {port.name}"
    maker = makers.get(number)
    by = "" if maker is None else f" by {_name(maker)}"
    if port.state is READABLE:
        return f"reads the padding of {port.name}, whatever it holds: it is written{by}"
    state = states.get(number)
    told = "" if state is None else f": it is {_said(state)}"
    return f"needs {port.state} in the padding of {port.name}{told}{by}"


def _assumptions(f: Function) -> Iterator[Operand]:
    """Yield unproved assumptions of a function, deduplicated by text."""
    nests = [with_checked_claims(f).body, *(r.nest for r in f.requires)]
    found = [s.cond for nest in nests for s in statements(nest) if isinstance(s, Assume) and not s.proved]
    yield from {text(cond): cond for cond in found}.values()
