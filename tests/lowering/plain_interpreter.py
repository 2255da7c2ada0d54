"""A reference interpreter of integer nests: a walk over statements on Python ints sharing no code with `run`.

Arrays are dictionaries from indices to integers. `and`, `or` and `select` are lazy. Whatever has no value raises
`TrapError` as soon as it is evaluated: a division by 0, an access outside an array or in its padding, an element that
nothing wrote, a false assumption or check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intset.expr import ops
from lowering.nest.ir import Allocate, Assert, Assume, For, Function, If, Let, Padding, Seq, Stmt, Store

Array = dict[tuple[int, ...], int]


class TrapError(Exception):
    """The error of a program that has no meaning for the given arrays."""


class _Storage:
    """The elements of one array with the bounds of its indices."""

    def __init__(self, limits: list[tuple[int, int]], elements: Array, padding: Padding | None) -> None:
        self.limits, self.elements, self.padding = limits, elements, padding


def ran(f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """The arrays after the function ran on copies of `arrays`.

    Parameters
    ----------
    arrays: the elements of each parameter, by its name.
    sizes: the value of each size, by its name.

    Raises
    ------
    TrapError: something that is evaluated has no value.
    """
    copies = {name: dict(array) for name, array in arrays.items()}
    env: dict[Any, Any] = {v: sizes[v.name] for v in f.sizes}
    for t in f.params:
        limits = [(0, _value(e, env)) for e in t.extents]
        env[t] = _Storage(limits, copies[t.name], f.padding.get(t))
    _run(f.body, env)
    return copies


def _run(stmt: Stmt, env: dict[Any, Any]) -> None:
    if isinstance(stmt, Seq):
        inner = dict(env)  # storage and names reach to the end of the sequence
        for part in stmt.stmts:
            if isinstance(part, Let):
                inner[part.var] = _value(part.value, inner)
            elif isinstance(part, Allocate):
                limits = [(_value(r.min, inner), _value(r.min, inner) + _value(r.extent, inner)) for r in part.ranges]
                inner[part.tensor] = _Storage(limits, {}, part.padding)
            else:
                _run(part, inner)
    elif isinstance(stmt, For):
        low, extent = _value(stmt.range.min, env), _value(stmt.range.extent, env)
        carried = {c.var: _value(c.first, env) for c in stmt.carried}
        for k in range(low, low + extent):
            inner = {**env, stmt.var: k, **carried}
            _run(stmt.body, inner)
            carried = {c.var: _value(c.following, inner) for c in stmt.carried}
    elif isinstance(stmt, If):
        if _value(stmt.cond, env):
            _run(stmt.then, env)
        elif stmt.orelse is not None:
            _run(stmt.orelse, env)
    elif isinstance(stmt, Store):
        at, storage = _place(env[stmt.tensor], stmt.indices, env)
        storage.elements[at] = _wrapped(_value(stmt.value, env), stmt.tensor.dtype)
    elif isinstance(stmt, (Assume, Assert)):
        if not _value(stmt.cond, env):
            raise TrapError(f"false: {stmt.cond!r}")
    elif not isinstance(stmt, (Let, Allocate)):
        raise NotImplementedError(type(stmt).__name__)


def _place(storage: _Storage, indices: Any, env: dict[Any, Any]) -> tuple[tuple[int, ...], _Storage]:
    at = tuple(_value(e, env) for e in indices)
    if not all(low <= k < end for k, (low, end) in zip(at, storage.limits, strict=True)):
        raise TrapError(f"{at} is outside")
    if storage.padding is not None:
        inner = {**env, **dict(zip(storage.padding.indices, at, strict=True))}
        if _value(storage.padding.cond, inner):
            raise TrapError(f"{at} is in the padding")
    return at, storage


def _wrapped(value: int, dtype: str) -> int:
    bits = int("".join(c for c in dtype if c.isdigit()))
    low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


def _value(e: Any, env: dict[Any, Any]) -> Any:
    if isinstance(e, int):
        return e
    op, args = e.op, e.args
    if op in (ops.CONST, ops.BOOL):
        return e.data
    if op is ops.VAR:
        return env[e]
    if op is ops.SELECT:
        return _value(args[1] if _value(args[0], env) else args[2], env)
    if op is ops.AND:
        return all(_value(arg, env) for arg in args)
    if op is ops.OR:
        return any(_value(arg, env) for arg in args)
    if op is ops.LOAD:
        at, storage = _place(env[e.data.tensor], args, env)
        if at not in storage.elements:
            raise TrapError(f"{at} holds nothing")
        return storage.elements[at]
    if op is ops.ASSERTING:
        if not _value(args[0], env):
            raise TrapError("an asserted condition is false")
        return _value(args[1], env)
    values = [_value(arg, env) for arg in args]
    if op in _DIVISIONS:
        a, b = values
        if b == 0:
            raise TrapError("a division by 0")
        return _DIVISIONS[op](a, b)
    if op is ops.CAST:
        bits, signed = e.data
        return _wrapped(values[0], f"{'' if signed else 'u'}int{bits}")
    return _TOTAL[op](*values)


_DIVISIONS: dict[Any, Any] = {
    ops.FLOORDIV: lambda a, b: a // b,
    ops.FLOORMOD: lambda a, b: a % b,
    ops.CEILDIV: lambda a, b: -(-a // b),
    ops.TRUNCDIV: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ops.TRUNCMOD: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
_TOTAL: dict[Any, Any] = {
    ops.ADD: lambda a, b: a + b,
    ops.SUB: lambda a, b: a - b,
    ops.MUL: lambda a, b: a * b,
    ops.NEG: lambda a: -a,
    ops.MIN: min,
    ops.MAX: max,
    ops.ABS: abs,
    ops.BITAND: lambda a, b: a & b,
    ops.BITOR: lambda a, b: a | b,
    ops.BITXOR: lambda a, b: a ^ b,
    ops.BITNOT: lambda a: ~a,
    ops.SHL: lambda a, b: a << b,
    ops.SHR: lambda a, b: a >> b,
    ops.LT: lambda a, b: a < b,
    ops.LE: lambda a, b: a <= b,
    ops.GT: lambda a, b: a > b,
    ops.GE: lambda a, b: a >= b,
    ops.EQ: lambda a, b: a == b,
    ops.NE: lambda a, b: a != b,
    ops.NOT: lambda a: not a,
}
