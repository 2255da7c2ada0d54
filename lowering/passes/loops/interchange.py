"""`sequential_buffer_access`: loops that access an array become one loop per axis, complete and in order.

    for i in [0, 14):                      for a0 in [0, 4):
        A[i // 4, i % 4] = f(i)    ->          for a1 in [0, 4):
                                                   if a0 * 4 + a1 < 14:
                                                       A[a0, a1] = f(a0 * 4 + a1)

Distribution first gives each statement loops of its own (the start of a reduction and its updates, for instance); loop
interchange then makes the axes of the array the outer loops. The indices of the accesses map loops to axes; the map is
inverted (`IterMap`, with the axes as ranges). A guard excludes elements that the map does not reach. A loop whose range
depends on another loop runs over its whole hull, under a condition. Loops that the indices do not mention become inner
loops. The dataflow's sets decide that no two dependent accesses change their order; sums of integers may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from bound import dtypes
from bound.tensor import Tensor, element, unfinished
from bound.tir.build import logical, together
from bound.tir.value import Operand, ValueOp
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.errors import BudgetError, UndecidedError
from intset.expr import ops
from intset.expr.node import Cond, Expr, PlainVar, Var
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import conjuncts, free_vars, opaque_terms
from intset.itermap.itermap import IterMap, iter_map
from lowering.dataflow.accesses import always_read
from lowering.dataflow.program import Access
from lowering.errors import LayoutError
from lowering.nest.driver import Cursor, done, rewritten
from lowering.nest.ir import Allocate, Assume, Evaluate, For, Function, If, Let, Seq, Stmt, Store, checked_function, seq
from lowering.nest.scope import Scope, proof_of
from lowering.nest.tensors import in_storage, storage_of, tensor_named
from lowering.nest.walk import (
    bound_in,
    children,
    map_operands,
    operands,
    range_ends,
    rebuilt,
    replaced,
    statements,
    substitute,
)
from lowering.passes.loops.dependence import Meeting, StaysError, earlier
from lowering.passes.loops.distribution import Nest, check_split, nests_of, stored_indices, touches
from lowering.passes.report import Entry, PassReport
from lowering.passes.simplify import plain
from lowering.passes.stores.assumptions import check_assumptions


def sequential_buffer_access(f: Function, name: str, report: list[Entry] | None = None) -> Function:
    """Run every nest that accesses an array over all of its axes, in order.

    Guards exclude elements that no old iteration accessed. Loops that the indices do not mention, such as reductions,
    become inner loops. If the function stores to the array, nests that only read or assume it follow where possible
    and stay otherwise. Loops other than serial and parallel ones stay.

    Guarantee: no result changes.

    Parameters
    ----------
    name: the array.
    report: receives one `Entry` per nest that accesses it.

    Raises
    ------
    LayoutError: a result might change, or the indices have no inverse.
    InputError: the function has no array, or several arrays, of this name; an assumption is proved false.
    """
    checked_function(f, "sequential_buffer_access")
    tensor = tensor_named(f, name)
    axes = tuple(storage_of(f, tensor))
    check_assumptions(f)
    said = PassReport(f)
    is_stored = _stores(f.body, tensor)

    def run_in_order(loop: For, cursor: Cursor) -> Stmt:
        if not touches(loop, tensor) or _allocates(loop, tensor):
            return loop
        return done(_in_order(f, loop, cursor, tensor, axes, is_stored, said))

    body = rewritten(f.body, Cursor.root(f), enter={For: (run_in_order,)})
    said.give(report)
    return f.with_body(body)


def _stores(root: Stmt, tensor: Tensor) -> bool:
    """Whether a statement writes elements of an array."""
    return any(
        stmt.tensor is tensor if isinstance(stmt, Store) else isinstance(stmt, Evaluate) and tensor in stmt.writes
        for stmt in statements(root)
    )


def _allocates(root: Stmt, tensor: Tensor) -> bool:
    return any(isinstance(stmt, Allocate) and stmt.tensor is tensor for stmt in statements(root))


def _in_order(
    f: Function, loop: For, place: Cursor, tensor: Tensor, axes: tuple[Axis, ...], is_stored: bool, said: PassReport
) -> Stmt:
    """The nests over the axes of an array that replace a loop that touches it."""
    try:
        nests = nests_of(loop, tensor)
        if len(nests) > 1:
            check_split(f, loop, place.scope, nests)
        found = [_turned(f, nest, tensor, axes, place, is_stored) for nest in nests]
    except StaysError as why:
        said.say(place.path, False, str(why))
        return loop
    except LayoutError as error:
        if is_stored and not _stores(loop, tensor):
            said.say(place.path, False, str(error))
            return loop
        raise
    reasons = [one for one in found if isinstance(one, str)]
    alone = sum(touches(nest.body, tensor) for nest in nests) < 2
    if len(reasons) == len(found) and (alone or any(reasons)):
        said.say(place.path, False, next((why for why in reasons if why), "it touches the array in order already"))
        return loop
    made = [nest.stmt() if isinstance(new, str) else new for nest, new in zip(nests, found, strict=True)]
    said.say(place.path, True, f"it runs over {tensor.name}, whole and in order")
    return seq(*made)


def _turned(
    f: Function, nest: Nest, tensor: Tensor, axes: tuple[Axis, ...], place: Cursor, is_stored: bool
) -> Stmt | str:
    """The nest over the axes of the array, or the reason against it; an empty reason if the order is right already."""
    if not touches(nest.body, tensor):
        return ""
    only_reads = is_stored and not _stores(nest.body, tensor)
    only_assumes = all(isinstance(stmt, (Assume, Seq)) for stmt in statements(nest.body))
    try:
        return turned(f, nest, tensor, axes, place.scope)
    except LayoutError as error:
        if only_reads or only_assumes:
            return str(error)
        raise


# -- loop interchange ------------------------------------------------------------------------------------------------


Axis: TypeAlias = "tuple[Expr, Expr]"


def turned(f: Function, nest: Nest, tensor: Tensor, axes: Sequence[Axis], scope: Scope) -> Stmt | str:
    """The nest with the axes of the tensor as its outer loops; nothing where it has them already.

    Parameters
    ----------
    axes: where each axis begins, and its extent.
    scope: what is known where the nest stands.

    Raises
    ------
    LayoutError: results would change, or the indices cannot be turned round.
    StaysError: that is out of the budget.
    """
    indices = _indices(nest.body, tensor)
    limits = [Range(low, extent) for low, extent in axes]
    used = [loop for loop in nest.loops if any(loop.var in e.free_vars() for e in indices)]
    rest = [loop for loop in nest.loops if loop not in used]
    boxes, conditions = _boxes(nest, used, scope, tensor)
    conditions += [part for guard in nest.guards for part in conjuncts(guard)]
    around = scope
    for loop, box in zip(used, boxes, strict=True):
        around = around.inside(replace(loop, range=box, body=Seq()))
    inner = {loop.var for loop in rest}
    outer = {loop.var for loop in used}
    # `iter_map` takes conditions without its loops as facts and would not repeat them as guards.
    usable = [c for c in conditions if outer.intersection(c.free_vars()) and not inner.intersection(c.free_vars())]
    found = iter_map(around.where(*usable).ctx, [loop.var for loop in used], indices, limits)
    if not found.injective:
        points = found.injective.points
        raise LayoutError(f"the indices of {tensor.name} do not tell the loops: {found.why_no_inverse()}", points)
    if _is_same(nest, found, indices, rest, boxes):
        return ""
    held = element(tensor, indices)
    _check_arrives(nest, held, axes, scope)
    _check_order(Meeting(f, nest.stmt(), scope), nest, held, rest)
    made = _made(nest, found, rest, limits, [c for c in conditions if c not in usable], held)
    return plain(replace(f, body=made, ctx=scope.ctx)).body


def _boxes(nest: Nest, used: Sequence[For], scope: Scope, tensor: Tensor) -> tuple[list[Range], list[Cond]]:
    """Ranges of the loops independent of other loops of the nest, and the conditions that they drop."""
    own = {loop.var for loop in nest.loops}
    boxes: list[Range] = []
    conditions: list[Cond] = []
    inside = scope
    for loop in nest.loops:
        inside = inside.inside(loop)
    keep = tuple(v for v in inside.ctx.ranges if v not in own)
    for loop in used:
        low, extent = range_ends(loop.range)
        if scope.may_change(low, extent):
            raise LayoutError(f"what the loop {loop.var} over {tensor.name} runs over depends on data that change")
        if not own.intersection(free_vars(low, extent)):
            boxes.append(loop.range)
            continue
        first, last = inside.ctx.bounds(loop.var, keep=keep)
        if not isinstance(first, Expr) or not isinstance(last, Expr) or own.intersection(free_vars(first, last)):
            raise LayoutError(f"what the loop {loop.var} over {tensor.name} runs over is not known")
        boxes.append(Range(first, inside.ctx.canonical(last - first + 1)))
        conditions += [loop.var >= low, loop.var < low + extent]
    return boxes, conditions


def _indices(body: Stmt, tensor: Tensor) -> tuple[Expr, ...]:
    """The common index tuple of the accesses to a tensor; that of its stores, if it has any."""
    read: dict[tuple[Expr, ...], None] = {}
    for stmt in statements(body):
        for node in nodes(*operands(stmt)):
            if loaded_tensor(node) is tensor:
                read[read_indices(node)] = None
        if isinstance(stmt, Evaluate):
            raise LayoutError(f"a host call touches all of {tensor.name}, or would be made in another order")
    found = list(stored_indices(body, tensor) or read)
    if len(found) != 1:
        raise LayoutError(f"{tensor.name} is accessed at {len(found)} different indices in one loop nest")
    own = bound_in(body)
    if any(opaque_terms(e) or own.intersection(free_vars(e)) for e in found[0]):
        raise LayoutError(f"the indices of {tensor.name} depend on data")
    return found[0]


def _check_arrives(nest: Nest, held: Operand, axes: Sequence[Axis], scope: Scope) -> None:
    """Refuse a nest with iterations that do something and arrive at no element: loops over the axes would lose them.

    An iteration that certainly accesses `held` arrives, or the program is in error. One that accesses it under a
    condition on data, or in a branch of a choice, may lie outside the axes: all of these must be inside.

    Raises
    ------
    LayoutError: an iteration may miss the axes; carries loop values of a counterexample, if any.
    """
    if _arrives(nest.body, held):
        return
    inside = scope
    for loop in nest.loops:
        inside = inside.inside(loop)
    inside = inside.where(*nest.guards)
    for in_bounds in in_storage(read_indices(held), axes):
        proof = proof_of(inside, in_bounds)
        if not proof:
            values = [v for loop in nest.loops if (v := (proof.counterexample or {}).get(loop.var)) is not None]
            points = (tuple(values),) if len(values) == len(nest.loops) else ()
            what = f"{held!r} is accessed in some iterations only, and others may lie outside of its axes: "
            raise LayoutError(what + "loops over these would leave them out", points)


def _arrives(stmt: Stmt, held: Operand) -> bool:
    """Whether a statement accesses an element whenever it does anything."""
    if isinstance(stmt, (Let, Allocate)) or _accesses(stmt, held):
        return True
    return isinstance(stmt, (Seq, If, For)) and all(_arrives(inner, held) for inner in children(stmt))


def _accesses(stmt: Stmt, held: Operand) -> bool:
    """Whether a statement accesses an element whenever it runs."""
    if isinstance(stmt, Seq):
        return any(_accesses(inner, held) for inner in stmt.stmts)
    if isinstance(stmt, Assume):
        return held in always_read(stmt.cond)
    if isinstance(stmt, If):
        if held in always_read(stmt.cond):
            return True
        return stmt.orelse is not None and _accesses(stmt.then, held) and _accesses(stmt.orelse, held)
    if isinstance(stmt, Store):
        is_stored = element(stmt.tensor, stmt.indices) is held
        return is_stored or held in always_read(*stmt.indices, stmt.value)
    return False


def _is_same(
    nest: Nest, found: IterMap, indices: tuple[Expr, ...], rest: Sequence[For], boxes: Sequence[Range]
) -> bool:
    """Whether the loops are the axes already."""
    names = [loop.var for loop in nest.loops]
    if not all(any(e is v for v in names) for e in indices) or [*indices, *(loop.var for loop in rest)] != names:
        return False
    if any(box is not loop.range for box, loop in zip(boxes, nest.loops, strict=False)):
        return False
    return _truth(found.padding) is False


def _truth(cond: Cond) -> bool | None:
    return bool(cond.data) if cond.op is ops.BOOL else None


def _check_order(meeting: Meeting, nest: Nest, held: Operand, rest: Sequence[For]) -> None:
    """Refuse an interchange that reorders dependent accesses.

    Accesses to the element whose indices determine the loops meet within one iteration of these, where order is kept.
    """
    indices = read_indices(held)
    own = [loop.var for loop in nest.loops]
    depth = len(own)

    def time(x: Sequence[Var]) -> list[Expr]:
        values = dict(zip(own, x, strict=False))
        return [*(replaced(e, values) for e in indices), *(values[loop.var] for loop in rest)]

    def swapped(x: Sequence[Var], y: Sequence[Var]) -> Cond:
        a, b = x[:depth], y[:depth]
        return (earlier(a, b) & earlier(time(b), time(a))) | (earlier(b, a) & earlier(time(a), time(b)))

    for a, b in meeting.conflicts():
        if a.loop.depth < depth or b.loop.depth < depth:
            raise LayoutError(f"the range of a loop reads {a.storage.tensor.name}, which the loop writes")
        if a.place is b.place and _adds_up(a.place.stmt) or _is_of(a, held) and _is_of(b, held):
            continue
        point = meeting.met(a, b, swapped)
        if point is not None:
            line = b.place.line.text.strip()
            raise LayoutError(f"the order of iterations would change, and that of {shown(line)} matters", (point,))


def _is_of(access: Access, held: Operand) -> bool:
    """Whether an access is of this element."""
    return loaded_tensor(held) is access.storage.tensor and access.indices == held.args


def _adds_up(stmt: Stmt) -> bool:
    """Whether a store adds an integer to its element: in whatever order, the sum is the same."""
    if not isinstance(stmt, Store) or not isinstance(stmt.value, Expr) or stmt.value.op is not ops.ADD:
        return False
    if not dtypes.is_int(stmt.tensor.dtype):
        return False
    held: Operand = unfinished(stmt.tensor, stmt.indices)
    a, b = stmt.value.args
    added = b if a is held else a if b is held else None
    return added is not None and all(loaded_tensor(node) is not stmt.tensor for node in nodes(added))


def _made(
    nest: Nest, found: IterMap, rest: Sequence[For], axes: Sequence[Range], inner: Sequence[Cond], held: Operand
) -> Stmt:
    """The new loops around the body.

    Parameters
    ----------
    inner: the conditions that depend on the loops that stay inside.
    held: the element that is met in order.
    """
    tensor = loaded_tensor(held)
    assert tensor is not None
    places = tuple(PlainVar(f"{tensor.name}{k}".lower()) for k in range(len(axes)))
    try:
        back = found.inverse(places)
        guard = found.arriving_at(places)
    except (UndecidedError, BudgetError) as error:
        raise LayoutError(f"the indices of {tensor.name} cannot be turned round: {error}") from error
    values: dict[Operand, Operand] = dict(back.items())
    body = substitute(_placed(nest.body, held, element(tensor, places)), values)
    if inner:
        body = If(together(*(replaced(cond, values) for cond in inner)), body)
    for loop in reversed(rest):
        low, extent = (replaced(e, values) for e in range_ends(loop.range))
        body = replace(loop, range=Range(low, extent), body=body)
    if _truth(guard) is not True:
        body = _assumed(body, found.padding_at(places)) if isinstance(body, Assume) else If(guard, body)
    for var, axis in zip(reversed(places), reversed(axes), strict=True):
        body = For(var, axis, body)
    return body


def _assumed(stmt: Assume, unless: Cond) -> Assume:
    """Weaken an assumption by a condition, as a guard around it would."""
    return replace(stmt, cond=logical(ValueOp.OR, unless, stmt.cond))


def _placed(root: Stmt, held: Operand, new: Operand) -> Stmt:
    """A statement with one element replaced by another."""

    def change(stmt: Stmt) -> Stmt:
        changed = map_operands(stmt, lambda operand: replaced(operand, {held: new}))
        is_stored = isinstance(stmt, Store) and element(stmt.tensor, stmt.indices) is held
        return replace(changed, indices=read_indices(new)) if is_stored and isinstance(changed, Store) else changed

    return rebuilt(root, change)
