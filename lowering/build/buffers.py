"""Storage that differs from its tensor: compact and circular storage (`fold`), double buffers (`doubled`).

Double buffers overlap the fill of one half with reads of the other:

    for i in [0, n):                    allocate B twice
        allocate B                      if n > 0: fill half 0 for i = 0
        fill B for i            ->      for i in [0, n):
        use B                               if i + 1 < n: fill half (i + 1) % 2 for i + 1
                                            use half i % 2

The fill of the next half precedes the use of the current one, so both may overlap in time. Producers that serve the
buffer alone move with its fill. Only serial and unrolled loops have a next iteration: `double_buffer` is refused in
other loops and outside of loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bound.errors import ScheduleError
from bound.infer import Storage
from bound.infer.answers.live_storage import filled_ahead
from bound.tensor import Tensor
from intset.expr import Cond, Range, Var, const
from intset.linear.canonical import Normalizer
from lowering.nest import driver, ir
from lowering.nest.scope import Indices, redirected
from lowering.nest.walk import operands, range_ends, rebuilt, statements, substitute, tensors_read, written_by


def fold(root: ir.Stmt, storages: Mapping[Tensor, Storage]) -> ir.Stmt:
    """Redirect every access of these tensors to its storage index (`Storage.numbers`)."""
    if not storages:
        return root

    def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        return (tensor, storages[tensor].numbers(indices)) if tensor in storages else None

    def change(stmt: ir.Stmt) -> ir.Stmt:
        new = redirected(stmt, move)
        if not isinstance(new, ir.Allocate) or new.tensor not in storages:
            return new
        storage = storages[new.tensor]
        if storage.is_circular or storage.is_flat:  # indices are no steps through the tensor
            return replace(new, ranges=storage.ranges)
        return replace(new, ranges=storage.ranges, origin=storage.offset, steps=storage.steps)

    return rebuilt(root, change)


_FORMS: Final = Normalizer({})
_IN_TURN: Final = (ir.LoopKind.SERIAL, ir.LoopKind.UNROLLED)


def doubled(root: ir.Stmt, tensors: frozenset[Tensor]) -> ir.Stmt:
    """Double the storage of these tensors in the loops that allocate them.

    Raises
    ------
    ScheduleError: an input of a double buffer has other readers in the same loop; or the loop is neither serial nor
        unrolled.
    """
    if not tensors:
        return root

    def double_in_loop(loop: ir.For, _: driver.Descent) -> ir.Stmt:
        if loop.kind not in _IN_TURN:
            _refuse(loop.body, tensors, f"those of {loop.var.name} do not run one after another")
            return loop
        return _in_loop(loop, tensors)

    _refuse(root, tensors, "compute_at places it in a loop")
    # on the way down: a loop inside the nest that fills a buffer is doubled in both of its copies
    return driver.rewritten(root, driver.Descent(), enter={ir.For: (double_in_loop,)})


def _refuse(place: ir.Stmt, tensors: frozenset[Tensor], reason: str) -> None:
    """Refuse double buffers that are allocated where no next iteration exists."""
    for stmt in _directly(place):
        if isinstance(stmt, ir.Allocate) and stmt.tensor in tensors:
            raise ScheduleError(f"stage {stmt.tensor.name}: double_buffer has no next iteration to fill: {reason}")


@dataclass
class _LoopBody:
    """A loop body, divided into statements that fill buffers, statements that use them, and allocations."""

    fill: list[ir.Stmt] = field(default_factory=list)
    use: list[ir.Stmt] = field(default_factory=list)
    buffers: list[ir.Allocate] = field(default_factory=list)

    def below(self, cond: Cond, inner: _LoopBody) -> None:
        self.fill += [ir.If(cond, ir.seq(*inner.fill))] if inner.fill else []
        self.use += [ir.If(cond, ir.seq(*inner.use))] if inner.use else []
        self.buffers += inner.buffers


def _in_loop(loop: ir.For, tensors: frozenset[Tensor]) -> ir.Stmt:
    found = [stmt.tensor for stmt in _directly(loop.body) if isinstance(stmt, ir.Allocate)]
    wanted = frozenset(t for t in found if t.ndim and t in tensors)
    if not wanted:
        return loop
    parts = _LoopBody()
    _part(loop.body, wanted, parts)
    _check(parts, wanted, loop)
    low, extent = range_ends(loop.range)
    halves = {stmt.tensor: stmt for stmt in parts.buffers}
    fill, use = (_in_halves(ir.seq(*body), halves, loop.var) for body in (parts.fill, parts.use))
    following = ir.If(loop.var + 1 < low + extent, substitute(fill, {loop.var: loop.var + 1}))
    first = ir.If(extent > 0, substitute(fill, {loop.var: low}))
    storage = [replace(stmt, ranges=_twice(stmt), origin=None, steps=None) for stmt in parts.buffers]
    return ir.seq(*storage, first, replace(loop, body=ir.seq(following, use)))


def _directly(body: ir.Stmt) -> Iterable[ir.Stmt]:
    """Yield the statements of a body outside of inner loops and of branches with `else`."""
    if isinstance(body, ir.Seq):
        for stmt in body.stmts:
            yield from _directly(stmt)
    elif isinstance(body, ir.If) and body.orelse is None:
        yield from _directly(body.then)
    else:
        yield body


def _part(stmt: ir.Stmt, wanted: frozenset[Tensor], parts: _LoopBody) -> None:
    """Divide statements into those that fill buffers (`filled_ahead`) and those that use them."""
    if isinstance(stmt, ir.If) and isinstance(stmt.cond, Cond) and _allocates(stmt, wanted):
        inner = _LoopBody()
        _part(stmt.then, wanted, inner)
        parts.below(stmt.cond, inner)
        return
    level = list(stmt.stmts) if isinstance(stmt, ir.Seq) else [stmt]
    made = [{part.tensor} if isinstance(part, ir.Allocate) else _stored(part) for part in level]
    accesses = [(_read(part), [] if _allocates(part, wanted) else made[k]) for k, part in enumerate(level)]
    ahead = filled_ahead(accesses, wanted)
    for k, part in enumerate(level):
        if isinstance(part, ir.Allocate) and part.tensor in wanted:
            parts.buffers.append(part)
        elif _allocates(part, wanted):
            _part(part, wanted, parts)
        elif isinstance(part, ir.Let):
            parts.fill.append(part)
            parts.use.append(part)
        else:
            (parts.fill if k in ahead else parts.use).append(part)


def _allocates(stmt: ir.Stmt, wanted: frozenset[Tensor]) -> bool:
    return any(isinstance(inner, ir.Allocate) and inner.tensor in wanted for inner in _directly(stmt))


def _stored(root: ir.Stmt) -> list[Tensor]:
    return [tensor for stmt in statements(root) for tensor in written_by(stmt)]


def _read(root: ir.Stmt) -> list[Tensor]:
    """The tensors that statements read, without those they update in place."""
    made = set(_stored(root))
    found: list[Tensor] = []
    for stmt in statements(root):
        found += stmt.reads if isinstance(stmt, ir.Evaluate) else ()
        found += [t for t in tensors_read(*operands(stmt)) if t not in made]
    return found


def _check(parts: _LoopBody, wanted: frozenset[Tensor], loop: ir.For) -> None:
    """Refuse to fill ahead if the fill depends on the current iteration."""
    ahead, use = ir.seq(*parts.fill), ir.seq(*parts.use)
    late = [t for t in (*_read(ahead), *_stored(ahead)) if t in set(_stored(use))]
    early = [t for t in _stored(ahead) if t not in wanted and t in {*_read(use), *_stored(use)}]
    for t in (*late, *early):
        name = next(iter(sorted(b.name for b in wanted)))
        raise ScheduleError(
            f"stage {name}: double_buffer computes it an iteration of {loop.var.name} ahead, "
            f"but {t.name} is computed in the same loop, and for others as well"
        )


def _twice(stmt: ir.Allocate) -> tuple[Range, ...]:
    extents = [range_ends(r)[1] for r in stmt.ranges]
    return (Range(0, extents[0] * 2), *(Range(0, e) for e in extents[1:]))


def _in_halves(root: ir.Stmt, halves: dict[Tensor, ir.Allocate], var: Var) -> ir.Stmt:
    """Redirect accesses of buffers to the half of the current iteration, counted from 0."""

    def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        if tensor not in halves:
            return None
        ends = [range_ends(r) for r in halves[tensor].ranges]
        found = [_FORMS.form(i).minus(_FORMS.form(low)).expr() for i, (low, _) in zip(indices, ends, strict=True)]
        return tensor, (found[0] + var % const(2) * ends[0][1], *found[1:])

    return rebuilt(root, lambda stmt: redirected(stmt, move))
