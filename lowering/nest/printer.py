"""Nests as text, one statement a line, four spaces a level.

    def C(A: float32[10], C: float32[10]):
        for i.outer in [0, 3):
            allocate B: float32[4] at [i.outer * 4]
            for i in [0, 4):
                if i.outer * 4 + i < 10:
                    B[i] = A[i.outer * 4 + i] + 1.0
            for i.inner in [0, 4) parallel:
                ...

- A range is written `[first, end)`. A loop that is not serial ends in its kind, a loop on threads in its tag:
  `for i.inner in [0, 16) on threadIdx.x:`. Variables carried by a loop follow, as in `with q = 0, then q + 1`.
- `allocate T: type[extents] in scope at [origin]` is storage up to the end of its block; `scope` and `origin` are left
  out when the scope is not set and when the storage begins at element 0. Before `rebase`, the extents are ranges.
  Of storage that leaves elements out, `holding T[y0 * 2]` says which one is kept at the place `[y0]`.
- `assert condition, "message"` is checked when it is reached. `x = value` names a value.
- Sizes stand after the tensors in the head: `def f(A: float32[n], n):`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from intset.expr.node import Expr, Var, constant_value
from lowering.nest.ir import Allocate, Assert, Evaluate, For, Function, If, Let, LoopKind, Seq, Stmt, Store
from lowering.nest.text import range_text, text

_INDENT = "    "


def function_text(f: Function) -> str:
    """The whole function."""
    params = [f"{t.name}: {t.dtype}[{', '.join(map(text, t.extents))}]" for t in f.params]
    params += [v.name for v in f.sizes] + [f"{p.data[0]}: {p.dtype}" for p in f.scalars]
    return "\n".join([f"def {f.name}({', '.join(params)}):", *_lines(f.body, 1)])


def stmt_text(stmt: Stmt) -> str:
    """A statement with all inside it."""
    return "\n".join(_lines(stmt, 0))


def _lines(root: Stmt, level: int) -> Iterator[str]:
    stack: list[tuple[Stmt | str, int]] = [(root, level)]
    while stack:
        item, depth = stack.pop()
        indent = _INDENT * depth
        if isinstance(item, str):
            yield indent + item
        elif isinstance(item, Seq):
            if item.stmts:
                stack.extend((stmt, depth) for stmt in reversed(item.stmts))
            else:
                yield indent + "pass"
        elif isinstance(item, For):
            yield indent + _loop(item)
            stack.append((item.body, depth + 1))
        elif isinstance(item, If):
            yield f"{indent}if {text(item.cond)}:"
            if item.orelse is not None:
                stack.append((item.orelse, depth + 1))
                stack.append(("else:", depth))
            stack.append((item.then, depth + 1))
        else:
            yield indent + _simple(item)


def _loop(loop: For) -> str:
    on = ""
    if loop.thread:
        on = f" on {loop.thread}"
    elif loop.kind is not LoopKind.SERIAL:
        on = f" {loop.kind}"
    carried = [f"{c.var} = {text(c.first)}, then {text(c.following)}" for c in loop.carried]
    return f"for {loop.var} in {range_text(loop.range)}{on}{' with ' + '; '.join(carried) if carried else ''}:"


def _simple(stmt: Stmt) -> str:
    if isinstance(stmt, Store):
        return f"{stmt.tensor.name}[{', '.join(map(text, stmt.indices))}] = {text(stmt.value)}"
    if isinstance(stmt, Assert):
        return f'assert {text(stmt.cond)}, "{stmt.message}"'
    if isinstance(stmt, Let):
        name = stmt.var.name if isinstance(stmt.var, Var) else stmt.var.data[0]
        return f"{name} = {text(stmt.value)}"
    if isinstance(stmt, Evaluate):
        return f"{stmt.call.name}({', '.join(map(_argument, stmt.call.args))})"
    if isinstance(stmt, Allocate):
        return _allocation(stmt)
    return repr(type(stmt).__name__)


def _argument(arg: Any) -> str:
    return str(getattr(arg, "name", None) or arg)


def _allocation(stmt: Allocate) -> str:
    parts = []
    for r in stmt.ranges:
        is_from_zero = isinstance(r.min, Expr) and r.min.is_const and r.min.data == 0
        parts.append(str(r.extent) if is_from_zero else f"{r.min} : + {r.extent}")
    scope = f" in {stmt.scope}" if stmt.scope else ""
    origin = stmt.origin or ()
    if stmt.steps is not None:
        held = ", ".join(_held(start, row) for start, row in zip(origin, stmt.steps, strict=True))
        at = f" holding {stmt.tensor.name}[{held}]"
    else:
        is_zero = all(e.is_const and e.data == 0 for e in origin)
        at = "" if is_zero else f" at [{', '.join(map(text, origin))}]"
    return f"allocate {stmt.tensor.name}: {stmt.tensor.dtype}[{', '.join(parts)}]{scope}{at}"


def _held(start: Expr, row: Sequence[int]) -> str:
    """A coordinate of the element at the place `y0, y1, ...`."""
    total = start
    for k, step in enumerate(row):
        if step:
            place = Var(f"y{k}")
            term = place if abs(step) == 1 else place * abs(step)
            total = total - term if step < 0 else term if constant_value(total) == 0 else total + term
    return text(total)
