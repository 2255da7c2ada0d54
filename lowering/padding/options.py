"""`pad_options` generates packed variants of a function under different padding contracts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import any_of, negation
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, rewrite
from intset.errors import InputError
from intset.expr.printer import shown
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.relocation import equals
from lowering.layout.transform import transform_layout
from lowering.nest.driver import Cursor, cursors, rewritten
from lowering.nest.ir import Allocate, Assume, Function, If, Let, Store
from lowering.nest.scope import scope_of
from lowering.nest.undef import deciding_tensors, has_undef, permission, undef
from lowering.nest.walk import operands, statements, tensors_read
from lowering.padding.contract import contract
from lowering.padding.partial_evaluation import as_operand
from lowering.padding.states import UNTOUCHED
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.stores.overcompute import remove_branching_through_overcompute
from lowering.passes.stores.reaching_values import same
from lowering.passes.stores.undef_removal import remove_undef


def pad_options(f: Function, layouts: Mapping[str, IndexMap]) -> list[Function]:
    """Generate packed variants of a function as options for a graph call.

    The first variant leaves padding alone and keeps every guard. The second accesses padding of unknown value and drops
    the guards this makes redundant. Further variants assume neutral input padding (0, 1, lowest or highest value; one
    input or all) and appear only if they drop another guard.

    Parameters
    ----------
    layouts: map from tensor names to index maps, see `transform_layout`.

    Raises
    ------
    InputError: `f` is not a function, `layouts` is empty, or a name is unknown.
    LayoutError: a layout has the wrong shape or no inverse.

    Example
    -------
    >>> from lowering import IndexMap, contract, parse_nest
    >>> f = parse_nest('''
    ... def total(A: int32[14], B: int32[1]):
    ...     B[0] = 0
    ...     for i in [0, 14):
    ...         B[0] = B[0] + A[i]
    ... ''')
    >>> for option in pad_options(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (14,))}):
    ...     print(contract(option).needs["A"])
    NOTHING
    0
    """
    if not isinstance(f, Function):
        raise InputError(f"pad_options takes a Function, not {shown(f)}")
    if not isinstance(layouts, Mapping) or not layouts:
        raise InputError(f"layouts are a mapping from names of tensors to maps, not {shown(layouts)}")
    is_unclear = any(has_undef(*operands(stmt)) for stmt in statements(f.body))
    kept = _in_layouts(f, layouts, dict.fromkeys(layouts))
    unknown = {name: undef(_dtype(f, name)) for name in layouts}
    free = _in_layouts(f, layouts, unknown)
    options = [kept]
    if _guards(free) < _guards(kept) or _promises_more(free, kept, layouts):
        options.append(free)
    inputs = [t for t in f.inputs if t.name in layouts]
    helpful: set[int] = set()  # neutral kinds that drop a guard with one input alone
    for tensors, kind in _neutral(inputs) if _guards(free) else ():
        values = {t.name: _neutral_value(t.dtype, kind) for t in tensors}
        if (len(tensors) > 1 and kind in helpful) or not _may_free_a_guard(free, values):
            continue
        neutral = _with_padding(free, values) if not is_unclear else _in_layouts(f, layouts, unknown | values)
        if _guards(neutral) < _guards(free):
            options.append(neutral)
            helpful.add(kind)
    return options


def _promises_more(free: Function, kept: Function, layouts: Mapping[str, IndexMap]) -> bool:
    """Test whether `free` promises more output padding than `kept`, which leaves padding untouched."""
    gives = contract(free).gives
    if not gives.keys() <= layouts.keys():
        return gives != contract(kept).gives
    return any(gives.get(t.name, UNTOUCHED) is not UNTOUCHED for t in kept.padding)


def _may_free_a_guard(f: Function, values: Mapping[str, Any]) -> bool:
    """Test whether known padding values may make a guard redundant.

    Three uses qualify: a guarded store becomes a no-op (adding 0), a guarded store reads padding through other tensors,
    or padding decides control flow. False skips the expensive transformation.

    Parameters
    ----------
    values: padding values by tensor name.
    """
    padded = {t: as_operand(values[t.name], t.dtype) for t in f.params if t.name in values}
    affected = _affected(f, padded)
    for cursor in cursors(f):
        stmt = cursor.stmt
        if not cursor.branches and not isinstance(stmt, Let):
            continue
        if any(t in affected for t in deciding_tensors(stmt)):
            return True
        if not isinstance(stmt, Store) or stmt.tensor not in (read := set(tensors_read(stmt.value))):
            continue
        if read & affected - padded.keys() - {stmt.tensor} or (read & affected and _keeps(f, stmt, cursor, padded)):
            return True
    return False


def _affected(f: Function, padded: Iterable[Tensor]) -> set[Tensor]:
    """Collect the tensors that may depend on `padded`, by a fixed point over stores."""
    affected, size = set(padded), -1
    while size != len(affected):
        size = len(affected)
        for stmt in statements(f.body):
            if isinstance(stmt, Store) and not affected.isdisjoint(tensors_read(stmt.value)):
                affected.add(stmt.tensor)
    return affected


def _keeps(f: Function, stmt: Store, cursor: Cursor, padded: Mapping[Tensor, Operand]) -> bool:
    """Test that a store is a no-op outside one of its guards, given the values of its loads."""
    loads = {node: t for node in nodes(stmt.value) if (t := loaded_tensor(node)) is not None and t in padded}
    loaded = {node: padded[t] for node, t in loads.items()}
    value = rewrite(stmt.value, loaded)
    scope = scope_of(f)
    for loop in cursor.loops:
        scope = scope.inside(loop)
    return any(same(stmt, value, scope.where(negation(branch.cond))) for branch, _ in cursor.branches)


def _in_layouts(f: Function, layouts: Mapping[str, IndexMap], pads: Mapping[str, Any]) -> Function:
    """Transform layouts, loop over the new axes, and remove guards that the padding values make redundant."""
    g = f
    for name, layout in layouts.items():
        g = transform_layout(g, name, layout, pads[name])
    outputs = [t.name for t in f.outputs]
    for name in sorted(layouts, key=lambda name: name not in outputs):
        try:
            g = sequential_buffer_access(g, name)
        except LayoutError:  # its iteration order matters
            continue
    g = remove_branching_through_overcompute(g)
    if any(has_undef(*operands(stmt)) for stmt in statements(f.body)):
        return g
    return remove_undef(g)  # drops stores that only permit overcompute


def _with_padding(free: Function, values: Mapping[str, Any]) -> Function:
    """Replace assumptions of unknown padding by known values and remove the guards this makes redundant."""

    def assume_value(stmt: Assume, cursor: Cursor) -> Assume:
        permitted = permission(stmt.cond)
        if permitted is None or permitted[1].name not in values:
            return stmt
        guards, tensor, indices = permitted
        equal = equals(tensor, indices, as_operand(values[tensor.name], tensor.dtype))
        return replace(stmt, cond=any_of(*guards, equal))

    body = rewritten(free.body, Cursor.root(free), leave={Assume: (assume_value,)})
    return remove_undef(remove_branching_through_overcompute(free.with_body(body)))


def _dtype(f: Function, name: str) -> str:
    tensors = (*f.params, *(stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)))
    return next((t.dtype for t in tensors if t.name == name), dtypes.INDEX)


def _neutral(inputs: list[Tensor]) -> Iterator[tuple[list[Tensor], int]]:
    """Yield input subsets with a kind of neutral value: single inputs first, then all inputs."""
    for some in [[t] for t in inputs] + ([inputs] if len(inputs) > 1 else []):
        for kind in range(4):
            yield some, kind


def _neutral_value(dtype: str, kind: int) -> int | float | bool:
    number = (0, 1, dtypes.least(dtype), dtypes.greatest(dtype))[kind] if dtype != "bool" else kind % 2
    return bool(number) if dtype == "bool" else float(number) if dtypes.is_float(dtype) else number


def _guards(f: Function) -> int:
    return sum(isinstance(stmt, If) for stmt in statements(f.body))
