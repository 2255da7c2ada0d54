"""A reference interpreter of integer nests: a walk over statements on Python ints sharing no code with `run`.

Arrays are dictionaries from indices to integers. `and`, `or` and `select` are lazy. The value None stands for
`undef()`; it propagates. Whatever has no value raises `TrapError` as soon as it is evaluated: a division by 0, an
access outside an array or in its padding, an element that nothing wrote, a false assumption or check, a condition or an
index that is None.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from bound.tensor import Tensor
from bound.tir.value import NUMBER, PARAM
from intset.expr import ops
from lowering.nest.ir import Allocate, Assert, Assume, For, Function, If, Let, Padding, Seq, Stmt, Store
from lowering.nest.undef import is_undef

Place = tuple[int, ...]
Array = dict[Place, Any]


class TrapError(Exception):
    """An evaluation without a value."""


class Storage:
    """Elements of one array; bounds of its indices."""

    def __init__(self, limits: list[tuple[int, int]], elements: Array, padding: Padding | None) -> None:
        self.limits, self.elements, self.padding = limits, elements, padding

    def places(self) -> list[Place]:
        return list(itertools.product(*(range(low, high) for low, high in self.limits)))


def ran(f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int], most: int = 100_000) -> dict[str, Array]:
    """The arrays after the function ran on copies of `arrays`.

    Parameters
    ----------
    arrays: the elements of each parameter, by its name.
    sizes: the value of each size, by its name.
    most: the largest number of iterations; further ones are an error.

    Raises
    ------
    TrapError: something that is evaluated has no value.
    """
    interpreter = Interpreter(f, arrays, sizes)
    interpreter.left = most
    interpreter.run()
    return {t.name: interpreter.storage[t].elements for t in f.params}


class Interpreter:
    """One run of a function. A subclass observes it through `store`, `load` and `assume`.

    Attributes
    ----------
    env: the values of sizes, names and loop variables in force.
    storage: the arrays in force, by tensor.
    loops: the loops around the current statement, outermost first.
    path: the position of the current statement in the tree.
    """

    def __init__(self, f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        self.f, self.left = f, 100_000
        self.env: dict[Any, Any] = {v: sizes[v.name] for v in f.sizes}
        self.storage: dict[Tensor, Storage] = {}
        self.loops: list[Any] = []
        self.path: tuple[int, ...] = ()
        for t in f.params:
            limits = [(0, self.value(e)) for e in t.extents]
            self.storage[t] = Storage(limits, dict(arrays[t.name]), f.padding.get(t))

    def run(self) -> None:
        self._run(self.f.body, ())

    # -- what a subclass may observe ----------------------------------------------------------------------------------

    def store(self, tensor: Tensor, place: Place, value: Any) -> None:
        self.storage[tensor].elements[place] = value

    def load(self, node: Any, tensor: Tensor, place: Place) -> Any:
        elements = self.storage[tensor].elements
        if place not in elements:
            raise TrapError(f"{tensor.name}{place} holds nothing")
        return elements[place]

    def allocate(self, stmt: Allocate) -> None:
        limits = [(low := self.value(r.min), low + self.value(r.extent)) for r in stmt.ranges]
        self.storage[stmt.tensor] = Storage(limits, {}, stmt.padding)

    def assume(self, stmt: Assume | Assert) -> None:
        if not self.known(stmt.cond):
            raise TrapError(f"false: {stmt.cond!r}")

    # -- statements ---------------------------------------------------------------------------------------------------

    def _run(self, stmt: Stmt, path: tuple[int, ...]) -> None:
        if isinstance(stmt, Seq):
            outer = dict(self.env), dict(self.storage)  # names and storage reach to the end of the sequence
            for k, part in enumerate(stmt.stmts):
                self._run(part, (*path, k))
            self.env, self.storage = outer
            return
        self.path = path
        if isinstance(stmt, For):
            self._loop(stmt, path)
        elif isinstance(stmt, If):
            if self.known(stmt.cond):
                self._run(stmt.then, (*path, 0))
            elif stmt.orelse is not None:
                self._run(stmt.orelse, (*path, 1))
        elif isinstance(stmt, Store):
            place = self._place(stmt.tensor, stmt.indices)
            self.store(stmt.tensor, place, wrapped(self.value(stmt.value), stmt.tensor.dtype))
        elif isinstance(stmt, (Assume, Assert)):
            self.assume(stmt)
        elif isinstance(stmt, Let):
            self.env[stmt.var] = self.value(stmt.value)
        elif isinstance(stmt, Allocate):
            self.allocate(stmt)
        else:
            raise NotImplementedError(type(stmt).__name__)

    def _loop(self, stmt: For, path: tuple[int, ...]) -> None:
        low, extent = self.known(stmt.range.min), self.known(stmt.range.extent)
        carried = {c.var: self.value(c.first) for c in stmt.carried}
        self.loops.append(stmt.var)
        for k in range(low, low + extent):
            self.left -= 1
            if self.left < 0:
                raise TrapError("too many iterations")
            outer = self.env
            self.env = {**outer, stmt.var: k, **carried}
            self._run(stmt.body, (*path, 0))
            carried = {c.var: self.value(c.following) for c in stmt.carried}
            self.env = outer
        self.loops.pop()

    def _place(self, tensor: Tensor, indices: Any) -> Place:
        storage = self.storage[tensor]
        at = tuple(self.known(e) for e in indices)
        if not all(low <= k < end for k, (low, end) in zip(at, storage.limits, strict=True)):
            raise TrapError(f"{tensor.name}{at} is outside")
        if storage.padding is not None:
            outer = self.env
            self.env = {**outer, **dict(zip(storage.padding.indices, at, strict=True))}
            if self.known(storage.padding.cond):
                raise TrapError(f"{tensor.name}{at} is in the padding")
            self.env = outer
        return at

    # -- operands -----------------------------------------------------------------------------------------------------

    def known(self, e: Any) -> Any:
        """The value of a condition, an index or an end of a range."""
        value = self.value(e)
        if value is None:
            raise TrapError(f"{e!r} depends on an undef()")
        return value

    def value(self, e: Any) -> Any:
        """Evaluate an operand; None is `undef()`."""
        if isinstance(e, int):
            return e
        op, args = e.op, e.args
        if op in (ops.CONST, ops.BOOL, NUMBER):
            return e.data
        if is_undef(e):
            return None
        if op in (ops.VAR, PARAM):
            return self.env[e]
        if op is ops.SELECT:
            return self.value(args[1] if self.known(args[0]) else args[2])
        if op is ops.AND:
            return all(self.known(arg) for arg in args)
        if op is ops.OR:
            return any(self.known(arg) for arg in args)
        if op is ops.LOAD:
            return self.load(e, e.data.tensor, self._place(e.data.tensor, args))
        if op is ops.ASSERTING:
            if not self.known(args[0]):
                raise TrapError("an asserted condition is false")
            return self.value(args[1])
        values = [self.value(arg) for arg in args]
        if None in values:
            return None
        if op in _DIVISIONS:
            if values[1] == 0:
                raise TrapError("a division by 0")
            return _DIVISIONS[op](*values)
        if op is ops.CAST:
            bits, signed = e.data
            return wrapped(values[0], f"{'' if signed else 'u'}int{bits}")
        return _TOTAL[op](*values)


def wrapped(value: int | None, dtype: str) -> int | None:
    """The value that an element of an integer type holds."""
    if value is None:
        return None
    bits = int("".join(c for c in dtype if c.isdigit()))
    low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


_DIVISIONS: dict[Any, Any] = {
    ops.FLOORDIV: lambda a, b: a // b,
    ops.FLOORMOD: lambda a, b: a % b,
    ops.CEILDIV: lambda a, b: -(-a // b),
    ops.TRUNCDIV: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ops.TRUNCMOD: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
_TOTAL: dict[Any, Any] = {
    ops.ADD: lambda a, b: a + b, ops.SUB: lambda a, b: a - b, ops.MUL: lambda a, b: a * b, ops.NEG: lambda a: -a,
    ops.MIN: min, ops.MAX: max, ops.ABS: abs, ops.BITAND: lambda a, b: a & b, ops.BITOR: lambda a, b: a | b,
    ops.BITXOR: lambda a, b: a ^ b, ops.BITNOT: lambda a: ~a, ops.SHL: lambda a, b: a << b,
    ops.SHR: lambda a, b: a >> b, ops.LT: lambda a, b: a < b, ops.LE: lambda a, b: a <= b, ops.GT: lambda a, b: a > b,
    ops.GE: lambda a, b: a >= b, ops.EQ: lambda a, b: a == b, ops.NE: lambda a, b: a != b, ops.NOT: lambda a: not a,
}  # fmt: skip
