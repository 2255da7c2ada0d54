"""Storage of a function's allocations: on the stack, in one arena where disjoint lifetimes share bytes, or on the heap.

In the arena, blocks that live at one time must not overlap, and the end of the last block is minimized. First fit, each
block at the lowest offset free during its lifetime, is optimal for some order of the blocks. Up to `EXHAUSTIVE` blocks
all orders are tried; beyond that a few usual orders (Gergov 1999 proves constant factors), and the best is improved by
exchanging pairs, within a budget. The maximum of bytes that live at one time is a lower bound; reaching it ends the
search.

An invocation allocates one arena on entry and frees it on every exit. An allocation moves there if its size depends on
the sizes of the function alone, so loops allocate nothing. Two allocations with disjoint lifetimes may share bytes.
Allocations inside a parallel loop lie in a private part of the arena, one for each thread.

Small arrays of constant size are on the stack, up to `STACK_TOTAL` bytes that live at one time. Larger ones among them
move to the arena if that lowers the sum of arena and stack, for example because they live while the arena has free
bytes. An allocation whose size depends on a loop stays in place, on the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import prod
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import Operand
from intset.expr import Expr, Range, constant_value, dag, ops
from lowering.nest import ir
from lowering.nest.scope import Scope, scope_behind_head
from lowering.nest.walk import children, constant_limit, range_ends, read_by, rebuilt, replaced, statements, written_by

EXHAUSTIVE: Final = 6
EXCHANGES: Final = 2_000
ALIGNMENT: Final = 64


@dataclass(frozen=True)
class StorageBlock:
    """`size` bytes with a lifetime from `first` to `last`, inclusive."""

    size: int
    first: int
    last: int

    def meets(self, other: StorageBlock) -> bool:
        """Whether the lifetimes intersect."""
        return self.first <= other.last and other.first <= self.last


def placed(blocks: Sequence[StorageBlock]) -> tuple[list[int], int]:
    """An offset for each block, a multiple of `ALIGNMENT`, and the end of the last block."""
    least = lower_bound(blocks)
    best: tuple[list[int], int] = ([], 0)
    for k, order in enumerate(_orders(blocks)):
        found = _first_fit(blocks, order)
        if k == 0 or found[1] < best[1]:
            best = found
            chosen = list(order)
        if best[1] <= least:
            return best
    if len(blocks) > EXHAUSTIVE:
        best = _improved(blocks, chosen, best, least)
    return best


def lower_bound(blocks: Sequence[StorageBlock]) -> int:
    """The maximum of bytes that live at one time."""
    return max((sum(b.size for b in blocks if b.first <= a.first <= b.last) for a in blocks), default=0)


def _orders(blocks: Sequence[StorageBlock]) -> Iterable[Sequence[int]]:
    numbers = range(len(blocks))
    if len(blocks) <= EXHAUSTIVE:
        return permutations(numbers)
    return [
        sorted(numbers, key=lambda k: (-blocks[k].size, blocks[k].first)),
        sorted(numbers, key=lambda k: (-blocks[k].size * (blocks[k].last - blocks[k].first + 1), blocks[k].first)),
        sorted(numbers, key=lambda k: (blocks[k].first, -blocks[k].size)),
        sorted(numbers, key=lambda k: (blocks[k].first - blocks[k].last, -blocks[k].size)),
    ]


def _first_fit(blocks: Sequence[StorageBlock], order: Sequence[int]) -> tuple[list[int], int]:
    offsets = [0] * len(blocks)
    done: list[int] = []
    end = 0
    for k in order:
        block = blocks[k]
        around = sorted((offsets[j], offsets[j] + blocks[j].size) for j in done if blocks[j].meets(block))
        place = 0
        for start, stop in around:
            if place + block.size <= start:
                break
            place = max(place, -(-stop // ALIGNMENT) * ALIGNMENT)
        offsets[k] = place
        end = max(end, place + block.size)
        done.append(k)
    return offsets, end


def _improved(
    blocks: Sequence[StorageBlock], order: list[int], best: tuple[list[int], int], least: int
) -> tuple[list[int], int]:
    """Improve a placement by exchanging pairs in the order; an exchange stays unless it raises the end."""
    state = 1
    for _ in range(EXCHANGES // max(1, len(blocks) // 16)):
        state = (state * 1_103_515_245 + 12_345) % (1 << 31)  # deterministic
        i, j = (state >> 8) % len(order), (state >> 19) % len(order)
        order[i], order[j] = order[j], order[i]
        found = _first_fit(blocks, order)
        if found[1] > best[1]:
            order[i], order[j] = order[j], order[i]
            continue
        best = found
        if best[1] <= least:
            break
    return best


def slotted(lifetimes: Sequence[StorageBlock], sizes: Sequence[object]) -> list[list[int]]:
    """Assign blocks of unknown sizes to a minimum of slots: greedily by start, which is optimal for intervals.

    Parameters
    ----------
    lifetimes: blocks whose sizes are ignored.
    sizes: keys that are equal for blocks of equal size, which share a slot if they can.

    Returns
    -------
    The numbers of the blocks in each slot, whose lifetimes are disjoint; a slot is as large as its largest block.
    """
    slots: list[list[int]] = []
    for k in sorted(range(len(lifetimes)), key=lambda k: lifetimes[k].first):
        free = [inside for inside in slots if not any(lifetimes[j].meets(lifetimes[k]) for j in inside)]
        if free:
            next((inside for inside in free if any(sizes[j] == sizes[k] for j in inside)), free[0]).append(k)
        else:
            slots.append([k])
    return slots


@dataclass(frozen=True)
class Size:
    """A number of bytes: `width` times the product of the extents; negative extents count as 0."""

    width: int
    extents: tuple[Expr, ...]

    @property
    def bytes(self) -> int | None:
        """The number if it is constant, else `None`."""
        known = [constant_value(e) for e in self.extents]
        counts = [max(0, k) for k in known if k is not None]
        return self.width * prod(counts) if len(counts) == len(known) else None


@dataclass(eq=False)
class Lifetime:
    """The lifetime of an allocation.

    Attributes
    ----------
    parallel: the outermost parallel loop around it.
    depth: the number of loops around it.
    first, last: positions of the first and last use; `first > last` if unused.
    size: over the sizes of the function; `None` if it depends on anything else, or may be undefined on entry.
    """

    allocate: ir.Allocate
    parallel: ir.For | None
    depth: int
    first: int = 1 << 62
    last: int = -1
    size: Size | None = None

    def use(self, position: int) -> None:
        """Extend the lifetime to a position."""
        self.first, self.last = min(self.first, position), max(self.last, position)

    def block(self, size: int = 0) -> StorageBlock:
        return StorageBlock(size, self.first, self.last)


def lifetimes_of(root: ir.Stmt, parallel: frozenset[ir.For]) -> list[Lifetime]:
    """Lifetimes of a nest's allocations in text order, measured in text positions.

    A tensor allocated outside of a loop and used inside lives for the whole loop, as the next iteration may read it.

    Parameters
    ----------
    parallel: loops whose iterations run concurrently.
    """
    lifetimes: list[Lifetime] = []
    if not any(isinstance(stmt, ir.Allocate) for stmt in statements(root)):
        return lifetimes
    live: dict[Tensor, Lifetime] = {}
    loops: list[tuple[ir.For, int, dict[Lifetime, None]]] = []  # open loops: their positions, the lifetimes used inside
    position = 0
    waiting: list[ir.Stmt | None] = [root]  # `None` is the end of the innermost open loop
    while waiting:
        stmt = waiting.pop()
        if stmt is None:
            _, start, used = loops.pop()
            for lifetime in used:
                if lifetime.depth <= len(loops):
                    lifetime.use(start)
                    lifetime.use(position)
                if loops:
                    loops[-1][2][lifetime] = None
            continue
        position += 1
        if isinstance(stmt, ir.Allocate):
            outermost = next((loop for loop, _, _ in loops if loop in parallel), None)
            live[stmt.tensor] = lifetime = Lifetime(stmt, outermost, len(loops))
            lifetimes.append(lifetime)
            continue
        for lifetime in [live[tensor] for tensor in (*read_by(stmt), *written_by(stmt)) if tensor in live]:
            lifetime.use(position)
            if loops:
                loops[-1][2][lifetime] = None
        if isinstance(stmt, ir.For):
            loops.append((stmt, position, {}))
            waiting.append(None)
        waiting += children(stmt)[::-1]
    return lifetimes


STACK_ARRAY: Final = 16 * 1024  # maximal bytes of a stack array
STACK_TOTAL: Final = 256 * 1024  # maximal bytes of simultaneously live stack arrays
STACK_TINY: Final = 256  # bytes up to which an array always stays on the stack, or in registers
_MOVES: Final = 8  # arrays tried in the arena instead of on the stack


@dataclass(eq=False)
class Arena:
    """Storage for several allocations.

    Attributes
    ----------
    fixed: bytes of its constant part.
    slots: parts of unknown size, aligned, behind the constant part; each the maximum of some sizes.
    offsets: offsets of allocations in the constant part.
    slot_of: slot numbers of the other allocations.
    shared: allocations that share bytes with others.
    """

    fixed: int = 0
    slots: tuple[tuple[Size, ...], ...] = ()
    offsets: dict[ir.Allocate, int] = field(default_factory=dict)
    slot_of: dict[ir.Allocate, int] = field(default_factory=dict)
    shared: frozenset[ir.Allocate] = frozenset()

    def __contains__(self, stmt: object) -> bool:
        return stmt in self.offsets or stmt in self.slot_of

    def __bool__(self) -> bool:
        return bool(self.offsets or self.slot_of)


@dataclass(eq=False)
class StoragePlan:
    """The storage of a function.

    Attributes
    ----------
    stack: allocations on the stack.
    arena: the arena of the function.
    private: arenas of parallel loops, per thread; they lie behind `arena`.
    in_place: allocations that stay in place, on the heap.
    stack_peak: the maximum of bytes on the stack at one time.
    """

    stack: frozenset[ir.Allocate]
    arena: Arena
    private: Mapping[ir.For, Arena]
    in_place: frozenset[ir.Allocate]
    stack_peak: int

    @property
    def peak(self) -> int | None:
        """Bytes of arena and stack together, for one thread; `None` if they depend on sizes."""
        arenas = [self.arena, *self.private.values()]
        if self.in_place or any(arena.slots for arena in arenas):
            return None
        return self.arena.fixed + max((a.fixed for a in self.private.values()), default=0) + self.stack_peak


def parallel_plan(f: ir.Function) -> tuple[frozenset[ir.For], StoragePlan]:
    """Decide which loops run in parallel; returns them with the storage plan.

    A loop of kind parallel runs sequentially if it is inside another one, carries variables, or may leave the function:
    by an assertion, or by a failing allocation in place.
    """
    loops, inside = set[ir.For](), set[ir.Stmt]()
    for stmt in statements(f.body):  # outer loops first
        if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL and not stmt.carried and stmt not in inside:
            below = list(statements(stmt))
            if not any(isinstance(inner, ir.Assert) for inner in below):
                loops.add(stmt)
                inside.update(below)
    plan = plan_storage(f, loops)
    leaving = {loop for loop in loops if any(stmt in plan.in_place for stmt in statements(loop))}
    kept = frozenset(loops - leaving)
    return (kept, plan_storage(f, kept) if leaving else plan)


def plan_storage(f: ir.Function, parallel: Iterable[ir.For] = ()) -> StoragePlan:
    """Plan the storage of a function whose allocations begin at 0.

    Parameters
    ----------
    parallel: loops whose iterations run concurrently; none is inside another.
    """
    lives = lifetimes_of(f.body, frozenset(parallel))
    if not lives:
        return StoragePlan(frozenset(), Arena(), {}, frozenset(), 0)
    head = scope_behind_head(f)
    lets = {s.var: s.value for s in statements(f.body) if isinstance(s, ir.Let)}
    for life in lives:
        life.size = _size(f, head, lets, life.allocate)
    chosen = _balanced(_on_stack(lives), lives)
    stack = frozenset(life.allocate for life in chosen)
    rest = [life for life in lives if life.allocate not in stack]
    hoisted: dict[ir.For | None, list[Lifetime]] = {None: []}
    for life in rest:
        if life.size is not None:
            hoisted.setdefault(life.parallel, []).append(life)
    arena = _arena(hoisted.pop(None))
    private = {loop: _arena(inside) for loop, inside in hoisted.items() if loop is not None}
    in_place = frozenset(life.allocate for life in rest if life.size is None)
    return StoragePlan(stack, arena, private, in_place, _peak(chosen))


def _size(f: ir.Function, head: Scope, lets: Mapping[Any, Operand], stmt: ir.Allocate) -> Size | None:
    """The size of an allocation, as `Lifetime` has it."""
    extents: list[Expr] = []
    for r in stmt.ranges:
        extent: Any = range_ends(r)[1]
        for _ in range(len(lets) + 1):
            named = [v for v in extent.free_vars() if v in lets]
            if not named:
                break
            extent = replaced(extent, {v: lets[v] for v in named})
        if not isinstance(extent, Expr) or set(extent.free_vars()) - set(f.sizes) or dag.opaque_terms(extent):
            return None
        divisors = (n.args[1] for n in dag.postorder((extent,)) if n.op in ops.DIVISIONS and not n.args[1].is_const)
        if not all(head.ctx.prove(d.ne(0)) for d in divisors):
            return None
        extents.append(extent)
    return Size(dtypes.storage_bytes(stmt.tensor.dtype), tuple(e for e in extents if constant_value(e) != 1))


def _counted(lives: Sequence[Lifetime]) -> dict[Lifetime, int]:
    """The allocations of constant size, each with its bytes."""
    sizes = ((life, life.size.bytes) for life in lives if life.size is not None)
    return {life: count for life, count in sizes if count is not None}


def _on_stack(lives: Sequence[Lifetime]) -> dict[Lifetime, int]:
    chosen: dict[Lifetime, int] = {}
    for life, count in _counted(lives).items():
        if count <= STACK_ARRAY and _peak({**chosen, life: count}) <= STACK_TOTAL:
            chosen[life] = count
    return chosen


def _balanced(chosen: dict[Lifetime, int], lives: Sequence[Lifetime]) -> dict[Lifetime, int]:
    """Move arrays from the stack to the arena where that saves bytes, the largest first."""
    sized = _counted(lives)
    least = _peak(sized)

    def total(stack: Mapping[Lifetime, int]) -> int:
        return placed([life.block(count) for life, count in sized.items() if life not in stack])[1] + _peak(stack)

    best, fewest = chosen, total(chosen)
    movable = [life for life, count in chosen.items() if count > STACK_TINY and life.parallel is None]
    tried = dict(chosen)
    for life in sorted(movable, key=lambda life: chosen[life])[: -_MOVES - 1 : -1]:
        if fewest <= least:
            break
        del tried[life]
        now = total(tried)
        if now < fewest:
            best, fewest = dict(tried), now
    return best


def _peak(sized: Mapping[Lifetime, int]) -> int:
    return lower_bound([life.block(count) for life, count in sized.items()])


def _arena(lives: Sequence[Lifetime]) -> Arena:
    fixed = _counted(lives)
    symbolic = [
        (life.allocate, life.size, life.block()) for life in lives if life.size is not None and life not in fixed
    ]
    blocks = [life.block(count) for life, count in fixed.items()]
    offsets, end = placed(blocks)
    slots = slotted([block for _, _, block in symbolic], [size for _, size, _ in symbolic])
    shared = {life.allocate for k, life in enumerate(fixed) if _overlaps(blocks, offsets, k)}
    shared |= {symbolic[k][0] for inside in slots if len(inside) > 1 for k in inside}
    return Arena(
        -(-end // ALIGNMENT) * ALIGNMENT if slots else end,
        tuple(tuple(dict.fromkeys(symbolic[k][1] for k in inside)) for inside in slots),
        {life.allocate: offset for life, offset in zip(fixed, offsets, strict=True)},
        {symbolic[k][0]: slot for slot, inside in enumerate(slots) for k in inside},
        frozenset(shared),
    )


def _overlaps(blocks: Sequence[StorageBlock], offsets: Sequence[int], k: int) -> bool:
    start, stop = offsets[k], offsets[k] + blocks[k].size
    return any(j != k and offsets[j] < stop and start < offsets[j] + block.size for j, block in enumerate(blocks))


def with_fixed_storage(f: ir.Function) -> ir.Function:
    """Give allocations with a small constant bound on their extents constant extents.

        allocate C: float32[minimum(m, 24), minimum(n, 64)]    becomes    allocate C: float32[24, 64]

    Rows then have a constant stride, and the array is on the stack.
    """
    return _with_limits(f, _is_small)


def _is_small(stmt: ir.Allocate) -> bool:
    ends = [range_ends(r) for r in stmt.ranges]
    if any(constant_value(low) != 0 for low, _ in ends) or all(constant_value(e) is not None for _, e in ends):
        return False
    known = [max(0, limit) for _, extent in ends if (limit := constant_limit(extent)) is not None]
    return len(known) == len(ends) and dtypes.storage_bytes(stmt.tensor.dtype) * prod(known) <= STACK_ARRAY


_OF_THREADS: Final = ("shared", "warp", "local", "wmma")  # memories of a device, which has constant sizes alone


def with_fixed_thread_storage(f: ir.Function) -> ir.Function:
    """Give storage of threads the constant of an extent `minimum(constant, size)`."""
    return _with_limits(f, lambda stmt: stmt.scope.partition(".")[0] in _OF_THREADS)


def _with_limits(f: ir.Function, is_wanted: Callable[[ir.Allocate], bool]) -> ir.Function:
    """Constant limits in the place of extents, in wanted allocations."""

    def limited(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.Allocate) or stmt.padding is not None or not is_wanted(stmt):
            return stmt
        limits = [constant_limit(range_ends(r)[1]) for r in stmt.ranges]
        pairs = zip(stmt.ranges, limits, strict=True)
        return replace(stmt, ranges=tuple(r if limit is None else Range(r.min, max(0, limit)) for r, limit in pairs))

    return f.with_body(rebuilt(f.body, limited))


__all__ = ["StoragePlan", "plan_storage"]
