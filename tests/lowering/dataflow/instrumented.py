"""A run of a nest that remembers for each element who wrote it, and what became of each value stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import ValueOp
from bound.tir.walk import loaded_tensor
from intset import Var, evaluate
from intset.expr import ops
from intset.expr.ops import wrap
from lowering import Function
from lowering.dataflow.accesses import definitions, expanded
from lowering.nest.ir import Allocate, Assert, Assume, Evaluate, For, If, Let, Seq, Stmt, Store
from lowering.nest.printer import statement_lines
from lowering.nest.text import text
from lowering.nest.undef import has_undef, is_undef
from lowering.nest.walk import operands, range_ends


class Written(NamedTuple):
    """Who wrote an element: kind, line, and the values of its loops."""

    kind: str
    line: int | None
    at: tuple[int, ...] | None


class Read(NamedTuple):
    """A read that happened: line, text, values of loops by variable, who wrote it, what an assumption said of it after
    that, and the value."""

    line: int
    label: str
    env: dict[Var, int]
    source: Written
    said: Written | None
    value: Any


class Stop(Exception):  # noqa: N818  # no error: the program is not one that may be run
    """The run met what no program may do: storage never written in a condition or an index, or an access outside."""


class Run:
    """The run of a function of integer arrays, from sizes and entries; everything that was read and stored."""

    def __init__(self, f: Function, sizes: dict[Var, int], entry: dict[str, list[int]]) -> None:
        self.f, self.sizes = f, sizes
        self.numbers = statement_lines(f)
        self.reads: list[Read] = []
        self.stored: dict[tuple[int, tuple[int, ...]], bool] = {}  # whether the value was read, or kept
        self.storage: dict[Tensor, dict[tuple[int, ...], tuple[Any, Written, Written | None]]] = {}
        self.extents: dict[Tensor, tuple[int, ...]] = {}
        for t in f.params:
            shape = tuple(max(0, int(evaluate(e, sizes))) for e in t.extents)
            values = entry[t.name]
            places = _places(shape)
            self.extents[t] = shape
            self.storage[t] = {
                p: (values[k % len(values)], Written("entry", None, None), None) for k, p in enumerate(places)
            }
        self.env: dict[Any, Any] = dict(sizes)
        self.loops: list[Var] = []
        self._run(f.body, ())
        for t in f.params:
            for _, written, _ in self.storage[t].values():
                self._used(written)

    def _used(self, written: Written) -> None:
        if written.kind == "store":
            assert written.line is not None and written.at is not None
            self.stored[written.line, written.at] = True

    def _at(self) -> tuple[int, ...]:
        return tuple(self.env[v] for v in self.loops)

    # -- statements ---------------------------------------------------------------------------------------------

    def _run(self, stmt: Stmt, path: tuple[int, ...]) -> None:
        if isinstance(stmt, Seq):
            for k, inner in enumerate(stmt.stmts):
                self._run(inner, (*path, k))
            return
        line = self.numbers[path]
        if isinstance(stmt, For):
            low, extent = (self.value(e, line) for e in range_ends(stmt.range))
            for x in range(low, low + extent):
                self.env[stmt.var] = x
                self.loops.append(stmt.var)
                self._run(stmt.body, (*path, 0))
                self.loops.pop()
                del self.env[stmt.var]
        elif isinstance(stmt, If):
            if self.value(stmt.cond, line):
                self._run(stmt.then, (*path, 0))
            elif stmt.orelse is not None:
                self._run(stmt.orelse, (*path, 1))
        elif isinstance(stmt, Store):
            place = tuple(self._known(e, line) for e in stmt.indices)
            value = (
                None if has_undef(stmt.value) and self._reads_only(stmt.value, line) else self.value(stmt.value, line)
            )
            if not all(0 <= x < n for x, n in zip(place, self.extents[stmt.tensor], strict=True)):
                raise Stop
            if isinstance(value, int):
                value = wrap(value, dtypes.bits(stmt.tensor.dtype), dtypes.signed(stmt.tensor.dtype))
            self.stored[line, self._at()] = False
            self.storage[stmt.tensor][place] = value, Written("store", line, self._at()), None
        elif isinstance(stmt, Allocate):
            for e in operands(stmt):
                self.value(e, line)
            shape = tuple(int(evaluate(range_ends(r)[1], self._integers())) for r in stmt.ranges)
            self.extents[stmt.tensor] = shape
            self.storage[stmt.tensor] = {p: (None, Written("unwritten", None, None), None) for p in _places(shape)}
        elif isinstance(stmt, Assume):
            self._assume(stmt, line)
        elif isinstance(stmt, Let):
            self.env[stmt.var] = self.value(stmt.value, line)
        elif isinstance(stmt, (Assert, Evaluate)):
            for e in operands(stmt):
                self.value(e, line)

    def _reads_only(self, value: Any, line: int) -> bool:
        """Evaluate for the reads alone."""
        self.value(value, line)
        return True

    def _assume(self, stmt: Assume, line: int) -> None:
        """What an assumption says is made true: a program is run where it is."""
        found = [(w, t, i, v) for w, t, i, v in definitions(expanded(stmt.cond, {})) if w.is_complete]
        if not has_undef(stmt.cond):
            self.value(stmt.cond, line)
        for way, tensor, indices, value in found:
            if all(evaluate(c, self._integers(c)) for c in way.conditions):
                place = tuple(int(evaluate(e, self._integers(e))) for e in indices if e is not None)
                held = None if value is None else self.value(value, line)
                if place in self.storage[tensor]:
                    before, written, said = self.storage[tensor][place]
                    if said is not None and before != held:
                        raise Stop  # two assumptions that cannot both be true
                    self.storage[tensor][place] = held, written, Written("assume", line, self._at())

    def _integers(self, node: Any = None) -> dict[Var, int]:
        found = {v: k for v, k in self.env.items() if isinstance(v, Var)}
        return found if node is None else {v: found[v] for v in node.free_vars()}

    # -- operands -----------------------------------------------------------------------------------------------

    def value(self, node: Any, line: int) -> Any:
        """The value of an operand, as lazily as the language is."""
        op, args = node.op, node.args
        if op is ops.CONST or op is ValueOp.CONST or op is ops.BOOL:
            return node.data
        if op is ops.VAR or op is ValueOp.PARAM:
            return self.env[node]
        if is_undef(node):
            return None
        tensor = loaded_tensor(node)
        if tensor is not None:
            return self._load(node, tensor, line)
        if op in (ops.SELECT, ValueOp.SELECT):
            return self.value(args[1] if self._known(args[0], line) else args[2], line)
        if op in (ops.AND, ValueOp.AND):
            return all(self._known(a, line) for a in args)
        if op in (ops.OR, ValueOp.OR):
            return any(self._known(a, line) for a in args)
        values = [self.value(a, line) for a in args]
        if None in values:
            if op.boolean if isinstance(op, ops.Op) else False:
                raise Stop
            return None
        names = [Var(f"x{k}") for k in range(len(values))]
        from intset.expr.node import make

        return evaluate(make(op, tuple(names), node.data), dict(zip(names, values, strict=True)))

    def _known(self, node: Any, line: int) -> Any:
        found = self.value(node, line)
        if found is None:
            raise Stop
        return found

    def _load(self, node: Any, tensor: Tensor, line: int) -> Any:
        place = tuple(self._known(a, line) for a in node.args)
        if place not in self.storage[tensor]:
            raise Stop
        value, written, said = self.storage[tensor][place]
        self._used(written)
        env = {v: self.env[v] for v in self.loops}
        self.reads.append(Read(line, text(node), env, written, said, value))
        return value


def _places(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    from itertools import product

    return product(*map(range, shape))
