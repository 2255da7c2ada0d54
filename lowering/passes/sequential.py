"""`sequential_buffer_access`: the loops that store to an array become one loop an axis of it, whole and in order.

    for i in [0, 14):                      for a0 in [0, 4):
        A[i // 4, i % 4] = f(i)    ->          for a1 in [0, 4):
                                                   if a0 * 4 + a1 < 14:
                                                       A[a0, a1] = f(a0 * 4 + a1)

The old loops are what the inverse of the map from loops to elements says. Loops that the element does not depend on, as
those of a reduction, stay inside, in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bound.tensor import Tensor
from bound.tir.build import together
from bound.tir.walk import loaded_tensor, nodes
from intset.errors import BudgetError, UndecidedError
from intset.expr.build import logical_and, logical_not
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import conjuncts, free_vars
from intset.itermap.itermap import iter_map
from lowering.errors import LayoutError
from lowering.nest.ir import For, Function, If, LoopKind, Seq, Stmt, Store, seq
from lowering.nest.scope import Scope
from lowering.nest.tensors import storage_of, tensor_named
from lowering.nest.walk import (
    Visit,
    children,
    drive,
    range_ends,
    replaced,
    statements,
    with_children,
)
from lowering.passes.merge import conflict
from lowering.passes.places import MOVABLE, Place, Report, flat, parts_of_condition, proof_of, proves, root_of
from lowering.passes.reading import in_reading_order, touches
from lowering.passes.refuted import check_assumptions
from lowering.passes.simplify import shortened


def sequential_buffer_access(f: Function, name: str, report: list[Any] | None = None) -> Function:
    """The function in which every nest that stores to an array runs over all of it, a loop an axis, in order; and so
    does every nest that reads it, if nothing stores to it, else where that is possible.

    Where no old iteration arrives at an element, a guard says so. Statements of one nest, as the start of a reduction
    and the reduction, get a nest each.

    Parameters
    ----------
    name: of the array.
    report: gets an `Entry` for each nest that stores to it.

    Raises
    ------
    LayoutError: a result would change, or is not known not to; or the loops are not of a kind that can be moved.
    InputError: the function has no array of this name, or more than one; an assumption of it is proved false.
    """
    tensor = tensor_named(f, name)
    check_assumptions(f)
    said = Report(f)
    is_stored = _stores(f.body, tensor)

    def visit(place: Place) -> Visit[Stmt]:
        stmt = place.stmt
        if isinstance(stmt, For) and _stores(stmt, tensor):
            made = seq(*(_reordered(one, place, tensor, f) for one in _apart(stmt, place, tensor)))
            said.say(place.path, True, f"it runs over {tensor.name}, whole and in order")
            return made
        if isinstance(stmt, For) and touches(stmt, tensor):
            try:
                return in_reading_order(f, stmt, tensor, place.scope, said, place.path)
            except LayoutError as error:
                if not is_stored:
                    raise
                said.say(place.path, False, str(error))
                return stmt
        inner: list[Stmt] = []
        for child in place.inside():
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        if isinstance(stmt, Seq):
            return seq(*inner)
        return with_children(stmt, tuple(inner)) if inner else stmt

    body = drive(visit(root_of(f)))
    said.give(report)
    return f.with_body(body)


def _stores(root: Stmt, tensor: Tensor) -> bool:
    return any(isinstance(stmt, Store) and stmt.tensor is tensor for stmt in statements(root))


# -- one statement a nest -----------------------------------------------------------------------------------------


def _apart(loop: For, place: Place, tensor: Tensor) -> list[For]:
    """The loop as loops with one statement in each, which do the same one after another."""
    parts: list[list[Stmt]] = []
    (inside,) = place.inside() if place.stmt is loop else Place(loop, place.path, place.scope, place.loops).inside()
    stmts = list(inside.inside()) if isinstance(inside.stmt, Seq) else [inside]
    for one in stmts:
        if isinstance(one.stmt, For):
            parts += [[part] for part in _apart(one.stmt, one, tensor)]
        elif isinstance(one.stmt, (Store, If)):
            parts.append([one.stmt])
        else:
            raise LayoutError(f"a nest that stores to {tensor.name} does more than loop, test and store")
    loops = [replace(loop, body=seq(*part)) for part in parts]
    for k, first in enumerate(loops):
        for second in loops[k + 1 :]:
            a, b = (Place(one, place.path, place.scope, place.loops) for one in (first, second))
            found = conflict(a, b)
            if found is not None:
                raise LayoutError(f"the statements that store to {tensor.name} cannot be told apart: {found[0]}")
    return loops


# -- its loops ----------------------------------------------------------------------------------------------------


def _reordered(nest: For, place: Place, tensor: Tensor, f: Function) -> Stmt:
    if not _stores(nest, tensor):
        return nest
    loops: list[For] = []
    guards: list[Any] = []
    stmt: Stmt = nest
    while not isinstance(stmt, Store):
        inner = flat(children(stmt)[0]) if children(stmt) else []
        if isinstance(stmt, For) and stmt.kind in MOVABLE and not stmt.carried and len(inner) == 1:
            loops.append(stmt)
        elif isinstance(stmt, If) and stmt.orelse is None and len(inner) == 1:
            guards += parts_of_condition(stmt.cond)
        else:
            raise LayoutError(f"a nest that stores to {tensor.name} is more than loops, guards and one store")
        stmt = inner[0]
    return _rewritten(stmt, loops, guards, place.scope, f)


def _rewritten(store: Store, loops: list[For], guards: list[Any], scope: Scope, f: Function) -> Stmt:
    tensor = store.tensor
    used = set(free_vars(*store.indices))
    moved = [loop for loop in loops if loop.var in used]
    kept = [loop for loop in loops if loop.var not in used]
    _refuse_ranges(loops, moved, kept, tensor)
    _refuse_order(store, loops, moved, kept, guards, scope)
    storage = [Range(low, extent) for low, extent in storage_of(f, tensor)]
    axes = [Var(f"{tensor.name}{k}".lower()) for k in range(len(storage))]
    if moved:
        within, values = _turned(store, moved, axes, scope)
    else:
        within, values = logical_and(*(axis.eq(e) for axis, e in zip(axes, store.indices, strict=True))), {}
    here = scope
    outer = [For(axis, limits, Seq()) for axis, limits in zip(axes, storage, strict=True)]
    for loop in outer:
        here = here.inside(loop)
    inner = here
    for loop in kept:
        inner = inner.inside(loop)
    inner = inner.where(within)
    body: Stmt = Store(tensor, tuple(axes), shortened(replaced(store.value, values), inner))
    if guards:
        body = If(together(*(shortened(replaced(g, values), inner) for g in guards)), body)
    for loop in reversed(kept):
        body = replace(loop, body=body, kind=LoopKind.SERIAL)
    needed = [part for part in conjuncts(here.ctx.simplify(within)) if not proves(here, part)]
    if needed:
        body = If(together(*needed), body)
    for loop in reversed(outer):
        body = replace(loop, body=body)
    return body


def _turned(store: Store, moved: list[For], axes: list[Var], scope: Scope) -> tuple[Cond, dict[Var, Expr]]:
    """Where an iteration arrives at an element, and the values of the loops there."""
    around = scope
    for loop in moved:
        around = around.inside(loop)
    found = iter_map(around.ctx, [loop.var for loop in moved], store.indices)
    if not found.injective:
        raise LayoutError(found.why_no_inverse(), found.injective.points)
    arrives = []
    for axis, r in zip(axes, found.ranges, strict=True):
        if not isinstance(r.min, Expr) or not isinstance(r.max, Expr):
            raise LayoutError(f"the elements of {store.tensor.name} that are stored to have no end that is known")
        arrives.append((axis >= r.min) & (axis <= r.max))
    try:
        return logical_and(*arrives, logical_not(found.padding_at(axes))), found.inverse(axes)
    except (UndecidedError, BudgetError) as error:
        raise LayoutError(f"the indices of {store.tensor.name} cannot be turned round: {error}") from error


def _refuse_ranges(loops: list[For], moved: list[For], kept: list[For], tensor: Tensor) -> None:
    own = {loop.var for loop in loops}
    for loop in moved:
        if own & set(free_vars(*range_ends(loop.range))):
            raise LayoutError(
                f"the range of {loop.var} depends on another loop of the nest that stores to {tensor.name}"
            )
    outer = {loop.var for loop in moved}
    for loop in kept:
        if outer & set(free_vars(*range_ends(loop.range))):
            raise LayoutError(f"the range of {loop.var} depends on a loop over {tensor.name}")


def _refuse_order(
    store: Store, loops: list[For], moved: list[For], kept: list[For], guards: list[Any], scope: Scope
) -> None:
    """Refuse where an iteration meets what another one stored, unless both orders agree."""
    inside = scope
    for loop in loops:
        inside = inside.inside(loop)
    others = []
    for operand in (*store.indices, store.value, *guards, *(e for loop in loops for e in range_ends(loop.range))):
        for node in nodes(operand):
            if loaded_tensor(node) is store.tensor:
                same = all(proves(inside, a.eq(b)) for a, b in zip(node.args, store.indices, strict=True))
                others += [] if same else [node]
    if any(loaded_tensor(node) is store.tensor for e in store.indices for node in nodes(e)):
        raise LayoutError(f"which element of {store.tensor.name} is stored to depends on its elements")
    if not others:
        return
    if kept or not _keeps_order(store, moved, scope):
        raise LayoutError(
            f"{others[0]!r} is another element of {store.tensor.name}, and the order of iterations would change"
        )


def _keeps_order(store: Store, loops: list[For], scope: Scope) -> bool:
    """Whether a later iteration stores to a later element."""
    late = {loop.var: Var(f"{loop.var.name}'") for loop in loops}
    here = scope
    for loop in loops:
        here = here.inside(loop)
    for loop in loops:
        here = here.inside(replace(loop, var=late[loop.var], body=Seq()))
    after = [replaced(e, late) for e in store.indices]
    for k, loop in enumerate(loops):
        before = [outer.var.eq(late[outer.var]) for outer in loops[:k]]
        earlier = here.where(*before, loop.var < late[loop.var])
        if not proof_of(earlier, _less(list(store.indices), after)):
            return False
    return True


def _less(a: list[Expr], b: list[Expr]) -> Cond:
    """Lexicographic order."""
    found = a[-1] < b[-1]
    for x, y in zip(reversed(a[:-1]), reversed(b[:-1]), strict=True):
        found = (x < y) | (x.eq(y) & found)
    return found
