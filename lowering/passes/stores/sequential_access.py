"""`sequential_buffer_access`: loops that access an array become one loop per axis, complete and in order.

    for i in [0, 14):                      for a0 in [0, 4):
        A[i // 4, i % 4] = f(i)    ->          for a1 in [0, 4):
                                                   if a0 * 4 + a1 < 14:
                                                       A[a0, a1] = f(a0 * 4 + a1)

Distribution first gives each statement loops of its own (the start of a reduction and its updates, for instance);
interchange then makes the axes of the array the outer loops.
"""

from __future__ import annotations

from bound.tensor import Tensor
from lowering.errors import LayoutError
from lowering.nest.driver import Cursor, done, rewritten
from lowering.nest.ir import Allocate, Assume, Evaluate, For, Function, Seq, Stmt, Store, checked_function, seq
from lowering.nest.tensors import storage_of, tensor_named
from lowering.nest.walk import statements
from lowering.passes.loops.dependence import StaysError
from lowering.passes.loops.distribution import Nest, check_split, nests_of, touches
from lowering.passes.loops.interchange import Axis, turned
from lowering.passes.report import Entry, Report
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
    said = Report(f)
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
    f: Function, loop: For, place: Cursor, tensor: Tensor, axes: tuple[Axis, ...], is_stored: bool, said: Report
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
