"""The storage of a function: which allocations are arrays on the stack, and where the others lie in its arena.

One arena serves an invocation: it is taken when the function begins and given back on every way out. An allocation
moves there where its size follows from the sizes of the function alone, so nothing is taken or given back inside a
loop. Two allocations share bytes where their lives (`lowering.storage.lives`) do not meet. What is allocated inside a
parallel loop lies in a part of the arena that each thread has for itself.

Small arrays of constant size are on the stack, up to `STACK_TOTAL` bytes that live at one time. Those that are not tiny
lie in the arena instead where both together are smaller then: what lives at other times than the most of the arena has
its bytes for nothing there. What depends on a loop stays an allocation of its own at its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias

from bound import dtypes
from intset.expr import ops
from intset.expr.node import Expr, constant_value
from intset.expr.walk import opaque_terms, postorder
from lowering.nest.ir import Allocate, Assert, For, Function, Let, LoopKind, Seq, Stmt
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import children, range_ends, replaced, statements
from lowering.storage.lives import Life, lives_of
from lowering.storage.placement import ALIGNMENT, Block, placed, slotted

STACK_ARRAY: Final = 16 * 1024  # bytes up to which an array is on the stack
STACK_TOTAL: Final = 256 * 1024  # bytes of all arrays on the stack that live at one time
STACK_TINY: Final = 256  # bytes up to which an array stays there in any case: it may be kept in registers
_MOVES: Final = 8  # of arrays from the stack into the arena that are tried

Extents: TypeAlias = "tuple[Expr, ...]"


@dataclass(frozen=True)
class Size:
    """A number of bytes: `width` for each of the elements that the extents count; an extent below 0 counts as 0."""

    width: int
    extents: Extents

    @property
    def bytes(self) -> int | None:
        """The number, where it is constant."""
        known = [constant_value(e) for e in self.extents]
        counts = [max(0, k) for k in known if k is not None]
        return self.width * prod(counts) if len(counts) == len(known) else None


@dataclass(frozen=True)
class Slot:
    """A part of an arena behind its constant part, as large as the largest of `sizes`."""

    sizes: tuple[Size, ...]


@dataclass(eq=False)
class Arena:
    """Storage for several allocations.

    Attributes
    ----------
    fixed: the bytes of its constant part.
    slots: what lies behind that part, one after another, each aligned.
    offsets: of the allocations in the constant part.
    slot_of: the number of the slot of the others.
    shared: the allocations that do not have their bytes alone.
    """

    fixed: int = 0
    slots: tuple[Slot, ...] = ()
    offsets: dict[Allocate, int] = field(default_factory=dict)
    slot_of: dict[Allocate, int] = field(default_factory=dict)
    shared: frozenset[Allocate] = frozenset()

    def __contains__(self, stmt: object) -> bool:
        return stmt in self.offsets or stmt in self.slot_of

    def __bool__(self) -> bool:
        return bool(self.offsets or self.slot_of)


@dataclass(eq=False)
class Plan:
    """The storage of a function.

    Attributes
    ----------
    stack: the allocations that are arrays on the stack.
    arena: of the whole function.
    private: of each parallel loop, for one thread; it lies behind `arena`.
    in_place: the allocations that stay where they are, on the heap.
    stack_peak: the most bytes on the stack at one time.
    """

    stack: frozenset[Allocate]
    arena: Arena
    private: Mapping[For, Arena]
    in_place: frozenset[Allocate]
    stack_peak: int

    @property
    def peak(self) -> int | None:
        """The bytes of arena and stack together, with one thread; `None` where that depends on sizes."""
        arenas = [self.arena, *self.private.values()]
        if self.in_place or any(arena.slots for arena in arenas):
            return None
        return self.arena.fixed + max((a.fixed for a in self.private.values()), default=0) + self.stack_peak


def parallel_plan(f: Function) -> tuple[frozenset[For], Plan]:
    """The loops of a function that can run in parallel, and the storage that goes with it.

    A loop that is meant to does unless it is inside another such loop, carries variables, or may leave the function:
    by an assertion, or by an allocation that fails at its place.
    """
    loops = frozenset(_outermost(f.body))
    plan = plan_storage(f, loops)
    leaving = {loop for loop in loops if any(stmt in plan.in_place for stmt in statements(loop))}
    return (loops, plan) if not leaving else (loops - leaving, plan_storage(f, loops - leaving))


def _outermost(root: Stmt) -> Iterator[For]:
    stack = [root]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL and not stmt.carried and not _leaves(stmt):
            yield stmt
            continue
        stack.extend(children(stmt))


def _leaves(loop: For) -> bool:
    return any(isinstance(inner, Assert) for inner in statements(loop))


def plan_storage(f: Function, parallel: Iterable[For] = ()) -> Plan:
    """The storage of a function whose allocations begin at 0.

    Parameters
    ----------
    parallel: the loops whose iterations run at the same time; none is inside another.
    """
    lives = lives_of(f.body, frozenset(parallel))
    head = _head_of(f)
    sizes = {life.allocate: _size(f, head, life.allocate) for life in lives.found}
    stack, stack_peak = _on_stack(lives.found, sizes)
    rest = [life for life in lives.found if life.allocate not in stack]
    hoisted = [life for life in rest if sizes[life.allocate] is not None]
    private = {}
    for loop in lives.spans:
        inside = [life for life in hoisted if life.parallel is loop]
        if inside:
            private[loop] = _arena(inside, sizes)
    arena = _arena([life for life in hoisted if life.parallel is None], sizes)
    in_place = frozenset(life.allocate for life in rest if sizes[life.allocate] is None)
    return Plan(frozenset(stack), arena, private, in_place, stack_peak)


def _size(f: Function, head: Scope, stmt: Allocate) -> Size | None:
    """The size in the sizes of the function; `None` where it depends on anything else, or may have no value there."""
    lets = {s.var: s.value for s in statements(f.body) if isinstance(s, Let)}
    extents: list[Expr] = []
    for r in stmt.ranges:
        extent: Any = range_ends(r)[1]
        for _ in range(len(lets) + 1):
            named = [v for v in extent.free_vars() if v in lets]
            if not named:
                break
            extent = replaced(extent, {v: lets[v] for v in named})
        if not isinstance(extent, Expr) or set(extent.free_vars()) - set(f.sizes) or opaque_terms(extent):
            return None
        divisors = (n.args[1] for n in postorder((extent,)) if n.op in ops.DIVISIONS and not n.args[1].is_const)
        if not all(head.ctx.prove(d.ne(0)) for d in divisors):
            return None
        extents.append(extent)
    return Size(max(1, dtypes.bits(stmt.tensor.dtype) // 8), tuple(e for e in extents if constant_value(e) != 1))


def _head_of(f: Function) -> Scope:
    """What is known where the function has made the assertions that it begins with."""
    scope = scope_of(f)
    for stmt in children(f.body) if isinstance(f.body, Seq) else ():
        if not isinstance(stmt, (Assert, Let)):
            break
        scope = scope.after(stmt)
    return scope


def _on_stack(lives: Sequence[Life], sizes: Mapping[Allocate, Size | None]) -> tuple[set[Allocate], int]:
    chosen: list[tuple[Life, int]] = []
    for life in lives:
        size = sizes[life.allocate]
        count = None if size is None else size.bytes
        if count is None or count > STACK_ARRAY:
            continue
        tried = [*chosen, (life, count)]
        if _peak(tried) <= STACK_TOTAL:
            chosen = tried
    chosen = _balanced(chosen, lives, sizes)
    return {life.allocate for life, _ in chosen}, _peak(chosen)


def _balanced(
    chosen: list[tuple[Life, int]], lives: Sequence[Life], sizes: Mapping[Allocate, Size | None]
) -> list[tuple[Life, int]]:
    """The arrays on the stack without those that cost less in the arena; the largest are tried first."""
    known = [(life, size.bytes) for life in lives if (size := sizes[life.allocate]) is not None]
    sized = [(life, count) for life, count in known if count is not None]
    least = _peak(sized)

    def total(stack: Sequence[tuple[Life, int]]) -> int:
        there = {life for life, _ in stack}
        blocks = [Block(count, life.first, life.last) for life, count in sized if life not in there]
        return placed(blocks)[1] + _peak(stack)

    best, fewest = chosen, total(chosen)
    movable = sorted((n, k) for k, (life, n) in enumerate(chosen) if n > STACK_TINY and life.parallel is None)
    tried = list(chosen)
    for _, k in movable[: -_MOVES - 1 : -1]:
        if fewest <= least:
            break
        tried = [pair for pair in tried if pair[0] is not chosen[k][0]]
        now = total(tried)
        if now < fewest:
            best, fewest = tried, now
    return best


def _peak(sized: Sequence[tuple[Life, int]]) -> int:
    return max((sum(n for b, n in sized if b.first <= a.first <= b.last) for a, _ in sized), default=0)


def _arena(lives: Sequence[Life], sizes: Mapping[Allocate, Size | None]) -> Arena:
    fixed: list[tuple[Life, int]] = []
    symbolic: list[tuple[Life, Size]] = []
    for life in lives:
        size = sizes[life.allocate]
        assert size is not None
        count = size.bytes
        if count is None:
            symbolic.append((life, size))
        else:
            fixed.append((life, count))
    blocks = [Block(count, life.first, life.last) for life, count in fixed]
    offsets, end = placed(blocks)
    slots = slotted([Block(0, life.first, life.last) for life, _ in symbolic], [size for _, size in symbolic])
    shared = {fixed[k][0].allocate for k in range(len(fixed)) if _overlaps(blocks, offsets, k)}
    shared |= {symbolic[k][0].allocate for inside in slots.members if len(inside) > 1 for k in inside}
    return Arena(
        -(-end // ALIGNMENT) * ALIGNMENT if slots.members else end,
        tuple(Slot(tuple(dict.fromkeys(symbolic[k][1] for k in inside))) for inside in slots.members),
        {life.allocate: offset for (life, _), offset in zip(fixed, offsets, strict=True)},
        {life.allocate: slots.slot_of[k] for k, (life, _) in enumerate(symbolic)},
        frozenset(shared),
    )


def _overlaps(blocks: Sequence[Block], offsets: Sequence[int], k: int) -> bool:
    start, stop = offsets[k], offsets[k] + blocks[k].size
    return any(j != k and offsets[j] < stop and start < offsets[j] + block.size for j, block in enumerate(blocks))
