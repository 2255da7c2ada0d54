"""Facts that a C compiler must be told: storage to initialise, loops that may run as vectors, arrays that are apart.

Outlining tells it the latter: a nest becomes a function with `restrict` parameters. Compilers believe `restrict` of the
parameters of a function, even once it is inlined. Some forget it for pointers declared in a block, such as those into
an arena, and test before every inner loop whether arrays overlap. The same happens to captured parameters: OpenMP
outlines a parallel region with one pointer to all captured variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from bound.tensor import Tensor
from bound.tir import walk
from intset.expr import ops
from intset.expr.node import Expr, constant_value
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from lowering.codegen.c_words import defined_once, storage_type
from lowering.codegen.emitter import indented
from lowering.nest.ir import Allocate, Assert, Evaluate, For, If, LoopKind, Seq, Stmt, Store
from lowering.nest.walk import folded, free_variables, is_combining, operands, range_ends, statements, touched
from lowering.passes.values.index_width import offset

_REDUCTIONS: Final = {ops.ADD: "+", ops.MUL: "*", ops.MIN: "min", ops.MAX: "max"}  # OpenMP's words


def conditional_scalars(root: Stmt) -> frozenset[Tensor]:
    """The allocations of one element that a C compiler may believe to be read before they are stored.

    Stores under a condition or in a possibly empty loop, or no store at all: a copy of a nest loses its stores if a
    false condition guards the reads.
    """
    allocated = {stmt.tensor for stmt in statements(root) if isinstance(stmt, Allocate)}
    branches = (stmt for stmt in statements(root) if isinstance(stmt, If))
    guarded = {inner.tensor for stmt in branches for inner in statements(stmt) if isinstance(inner, Store)}
    certain: set[Tensor] = set()

    def surely_stored(stmt: Stmt, inside: Sequence[frozenset[Tensor]]) -> frozenset[Tensor]:
        """The tensors that a statement stores to whenever it runs; storage allocated before such a store is certain."""
        if isinstance(stmt, Store):
            return frozenset((stmt.tensor,))
        if isinstance(stmt, Seq):
            stored = frozenset[Tensor]().union(*inside)
            certain.update(stored.intersection(inner.tensor for inner in stmt.stmts if isinstance(inner, Allocate)))
            return stored
        if isinstance(stmt, For):
            return inside[0] if (constant_value(range_ends(stmt.range)[1]) or 0) > 0 else frozenset()
        if isinstance(stmt, If) and stmt.orelse is not None:
            return inside[0] & inside[1]
        return frozenset()

    folded(root, surely_stored)
    return frozenset((guarded & allocated) | (allocated - certain))


def is_simd(loop: For, shapes: Mapping[Tensor, Sequence[Expr]]) -> bool:
    """Whether iterations of a vectorized loop may run side by side.

    Guarantee: the loop holds stores alone, and no two iterations touch an element that one of them stores.

    Parameters
    ----------
    shapes: extents of tensors as they are stored.
    """
    if loop.kind is not LoopKind.VECTORIZED or loop.carried:
        return False
    inside = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    if len(stores) < len(inside):
        return False
    forms = Normalizer({})
    for tensor in dict.fromkeys(stmt.tensor for stmt in stores):
        stored = [s.indices for s in stores if s.tensor is tensor]
        nodes = (node for stmt in stores for node in walk.nodes(*operands(stmt)))
        read = [walk.read_indices(node) for node in nodes if walk.loaded_tensor(node) is tensor]
        accesses = [forms.form(offset(indices, shapes[tensor])) for indices in (*stored, *read)]
        if not all(_is_apart(loop, store, accesses) for store in accesses[: len(stored)]):
            return False
    return True


def _is_apart(loop: For, store: Linear, accesses: Sequence[Linear]) -> bool:
    """Prove a store independent of accesses in other iterations: each distance is a constant between multiples of the
    stride, or exceeds the loop's length."""
    stride = store.terms.get(loop.var, 0)
    if not stride or any(loop.var in atom.free_vars() for atom in store.terms if atom is not loop.var):
        return False
    _, extent = range_ends(loop.range)
    length = Normalizer({}).form(extent).scale(abs(stride))
    distances = [access.minus(store) for access in accesses]
    return all(
        (distance.is_const and (distance.const == 0 or distance.const % stride != 0))
        or any((beyond := distance.scale(sign).minus(length)).is_const and beyond.const >= 0 for sign in (1, -1))
        for distance in distances
    )


def reduction_of(loop: For) -> tuple[str, Tensor] | None:
    """The operator, as OpenMP spells it, and the tensor of a loop that only combines floats into one fixed element.

    Reordering its iterations changes rounding alone.
    """
    store = loop.body
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED) or loop.carried or not isinstance(store, Store):
        return None
    value = store.value
    if not is_combining(store) or value.op not in _REDUCTIONS or any(constant_value(i) is None for i in store.indices):
        return None
    if any(walk.loaded_tensor(node) is store.tensor for node in walk.nodes(value.args[1])):
        return None
    return _REDUCTIONS[value.op], store.tensor


def is_outlined(stmt: Stmt, stored: Collection[Tensor], stack: Collection[Allocate], is_in_parallel: bool) -> bool:
    """Whether a statement becomes a function: a nest over several arrays, one of them allocated or all of them seen
    from a parallel loop.

    Parameters
    ----------
    stored: visible tensors on the heap or in the arena.
    stack: the allocations on the stack.
    is_in_parallel: whether an enclosing loop is parallel.
    """
    if not isinstance(stmt, (For, If)):
        return False
    arrays = touched(stmt)
    if len(arrays) < 2 or not (is_in_parallel or any(t in stored for t in arrays)):
        return False
    inside = list(statements(stmt))
    if any(isinstance(s, (Assert, Evaluate)) or (isinstance(s, Allocate) and s not in stack) for s in inside):
        return False
    return any(isinstance(s, For) and constant_value(range_ends(s.range)[1]) != 1 for s in inside)


def outlined(
    label: str,
    stmt: Stmt,
    lines: list[str],
    name_of: Callable[[Any], str],
    addresses: Mapping[Tensor, str],
    shapes: Mapping[Tensor, Sequence[Expr]],
    types: Callable[[Any], str],
    scalars: Collection[Tensor],
    undefined: str,
) -> tuple[list[str], str]:
    """The definition of a function with the body `lines`, the text of a statement; and the call of it.

    The function's name contains a stored tensor and a checksum of its text: equal names mean equal functions, so a
    preprocessor guard deduplicates them across concatenated files.

    Parameters
    ----------
    label: the prefix of the name.
    name_of: the identifier of a tensor or variable.
    addresses: address texts of arrays without a declared pointer.
    shapes: extents of arrays as they are stored; indices of several dimensions are computed with them.
    types: the C type of a variable.
    scalars: tensors that are plain variables.
    undefined: identifier of the division flag; empty if the body never sets it.
    """
    allocated = {s.tensor for s in statements(stmt) if isinstance(s, Allocate)}
    written = dict.fromkeys(s.tensor for s in statements(stmt) if isinstance(s, Store))
    outer = [t for t in touched(stmt) if t not in allocated]
    params: list[str] = []
    for tensor in outer:
        const = "" if tensor in written else "const "
        pointer = "" if tensor in scalars else "*restrict "
        params.append(f"{const}{storage_type(tensor.dtype, tensor.name)} {pointer}{name_of(tensor)}")
    args = [addresses.get(tensor, name_of(tensor)) for tensor in outer]
    text = "\n".join(lines)
    strides = (v for t in touched(stmt) for e in shapes.get(t, ())[1:] for v in e.free_vars())
    names = {name_of(var): var for var in (*free_variables(stmt), *strides)}
    used = [name for name in names if re.search(rf"\b{name}\b", text)]  # others occur in addresses of allocations
    params += [f"{types(names[name])} {name}" for name in used]
    args += used
    if undefined:
        params.append(f"int *restrict {undefined}")
        args.append(undefined)
    rest = [f"({', '.join(params)}) {{", *indented(lines), "}"]
    target = next((t.name for t in written if t not in allocated), "part")
    checksum = crc32("\n".join(rest).encode()) & 0xFFFFFF
    name = re.sub(r"\W", "_", f"{label}_{target}_{checksum:06x}", flags=re.ASCII)
    return defined_once(name, [f"static void {name}{rest[0]}", *rest[1:]]), f"{name}({', '.join(args)});"
