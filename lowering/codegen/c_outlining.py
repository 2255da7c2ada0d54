"""Outlining: a nest becomes a function whose `restrict` parameters tell the compiler that its arrays are apart.

Compilers believe `restrict` of the parameters of a function, even once it is inlined. Some forget it for pointers
declared in a block, such as those into an arena, and test before every inner loop whether arrays overlap. The same
happens to captured parameters: OpenMP outlines a parallel region with one pointer to all captured variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from zlib import crc32

from bound.tensor import Tensor
from intset.expr.node import Expr, constant_value
from lowering.codegen.c_words import c_type, defined_once
from lowering.codegen.spelling import indented
from lowering.nest.ir import Allocate, Assert, Evaluate, For, If, Stmt, Store
from lowering.nest.walk import free_variables, range_ends, statements, touched


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
        params.append(f"{const}{c_type(tensor.dtype, tensor.name)} {pointer}{name_of(tensor)}")
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
