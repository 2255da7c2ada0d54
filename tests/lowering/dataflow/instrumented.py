"""A run of a nest that records the writer of each element, and whether each stored value is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bound.tensor import Tensor
from intset import Var, evaluate
from lowering import Function
from lowering.dataflow.program import definitions, expanded
from lowering.nest.ir import Allocate, Assert, Assume
from lowering.nest.printer import statement_lines, text
from lowering.nest.undef import has_undef
from tests.lowering.plain_interpreter import Array, Interpreter, Place, TrapError


class Written(NamedTuple):
    """Who wrote an element: kind, line, and the values of its loops."""

    kind: str
    line: int | None
    at: tuple[int, ...] | None


class Read(NamedTuple):
    """A read that happened.

    Attributes
    ----------
    line, label: the statement and the text of the read.
    env: the values of the loop variables.
    source: who wrote the element.
    said: the last assumption about its value since; None without one.
    value: the value that was read.
    """

    line: int
    label: str
    env: dict[Var, int]
    source: Written
    said: Written | None
    value: Any


class Run(Interpreter):
    """A run in which assumptions are made true, and unwritten elements are undefined.

    Attributes
    ----------
    reads: the reads, in order.
    stored: whether the value of a store, by line and loops, is read or remains at the end.
    """

    def __init__(self, f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        super().__init__(f, arrays, sizes)
        self.lines = statement_lines(f)
        self.reads: list[Read] = []
        self.stored: dict[tuple[int, tuple[int, ...]], bool] = {}
        self.writers: dict[tuple[Tensor, Place], tuple[Written, Written | None]] = {}
        for t in f.params:
            self._reset(t, "entry")
        self.run()
        for t in f.params:
            for place in self.storage[t].places():
                self._used(self.writers[t, place][0])

    def _reset(self, tensor: Tensor, kind: str) -> None:
        for place in self.storage[tensor].places():
            self.writers[tensor, place] = Written(kind, None, None), None

    def _used(self, written: Written) -> None:
        if written.kind == "store":
            assert written.line is not None and written.at is not None
            self.stored[written.line, written.at] = True

    def _at(self) -> tuple[int, ...]:
        return tuple(self.env[v] for v in self.loops)

    def store(self, tensor: Tensor, place: Place, value: Any) -> None:
        super().store(tensor, place, value)
        line = self.lines[self.path]
        self.stored[line, self._at()] = False
        self.writers[tensor, place] = Written("store", line, self._at()), None

    def allocate(self, stmt: Allocate) -> None:
        super().allocate(stmt)
        self.storage[stmt.tensor].elements = dict.fromkeys(self.storage[stmt.tensor].places())
        self._reset(stmt.tensor, "unwritten")

    def load(self, node: Any, tensor: Tensor, place: Place) -> Any:
        value = super().load(node, tensor, place)
        written, said = self.writers[tensor, place]
        self._used(written)
        env = {v: self.env[v] for v in self.loops}
        self.reads.append(Read(self.lines[self.path], text(node), env, written, said, value))
        return value

    def assume(self, stmt: Assume | Assert) -> None:
        """Make an assumption true; two that contradict each other are a trap."""
        found = [(w, t, i, v) for w, t, i, v in definitions(expanded(stmt.cond, {})) if w.is_complete]
        if not has_undef(stmt.cond):
            self.value(stmt.cond)
        for way, tensor, indices, value in found:
            if all(evaluate(c, self._integers(c)) for c in way.conditions):
                place = tuple(int(evaluate(e, self._integers(e))) for e in indices if e is not None)
                held = None if value is None else self.value(value)
                if (tensor, place) in self.writers:
                    written, said = self.writers[tensor, place]
                    if said is not None and self.storage[tensor].elements[place] != held:
                        raise TrapError("two assumptions contradict each other")
                    self.storage[tensor].elements[place] = held
                    self.writers[tensor, place] = written, Written("assume", self.lines[self.path], self._at())

    def _integers(self, node: Any) -> dict[Var, int]:
        return {v: self.env[v] for v in node.free_vars()}
