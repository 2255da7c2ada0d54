"""When each allocation is in use, in positions of the text.

Positions count the statements in the order of the text. What is allocated outside of a loop and used inside of it may
be read again by the next iteration, so it lives for the whole loop; what is allocated inside begins anew each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bound.tensor import Tensor
from lowering.nest.ir import Allocate, For, Stmt, Store
from lowering.nest.walk import children, operands, tensors_read


@dataclass(eq=False)
class Life:
    """An allocation with the positions of its first and last use, and the parallel loop it is inside of.

    `first` is beyond `last` where nobody uses it.
    """

    allocate: Allocate
    parallel: For | None
    depth: int
    first: int = 1 << 62
    last: int = -1


@dataclass(eq=False)
class Lives:
    """All allocations of a nest, and the first and last position inside each parallel loop."""

    found: list[Life] = field(default_factory=list)
    spans: dict[For, tuple[int, int]] = field(default_factory=dict)


def lives_of(root: Stmt, parallel: frozenset[For]) -> Lives:
    """When the allocations of a nest are in use. `parallel`: the loops whose iterations run at the same time."""
    lives = Lives()
    live: dict[Tensor, Life] = {}
    loops: list[tuple[For, int]] = []
    used: list[dict[Life, None]] = []
    position = 0
    for stmt, is_end in _walk(root):
        if is_end:
            if isinstance(stmt, For):
                _, start = loops.pop()
                inside = used.pop()
                for life in inside:
                    if life.depth <= len(loops):
                        life.first, life.last = min(life.first, start), max(life.last, position)
                    if used:
                        used[-1][life] = None
                if stmt in parallel:
                    lives.spans[stmt] = (start, position)
            continue
        position += 1
        if isinstance(stmt, Allocate):
            outermost = next((loop for loop, _ in loops if loop in parallel), None)
            live[stmt.tensor] = life = Life(stmt, outermost, len(loops))
            lives.found.append(life)
            continue
        for tensor in _used(stmt):
            found = live.get(tensor)
            if found is not None:
                found.first, found.last = min(found.first, position), max(found.last, position)
                if used:
                    used[-1][found] = None
        if isinstance(stmt, For):
            loops.append((stmt, position))
            used.append({})
    return lives


def _walk(root: Stmt) -> Iterator[tuple[Stmt, bool]]:
    """Each statement before what is inside of it, and once more behind that."""
    stack = [(root, False)]
    while stack:
        stmt, is_end = stack.pop()
        yield stmt, is_end
        if not is_end:
            stack.append((stmt, True))
            stack.extend((child, False) for child in reversed(children(stmt)))


def _used(stmt: Stmt) -> tuple[Tensor, ...]:
    read = tensors_read(*operands(stmt))
    return (*read, stmt.tensor) if isinstance(stmt, Store) else read
