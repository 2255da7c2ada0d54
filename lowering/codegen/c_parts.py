"""Nests as functions of their own, so that the compiler knows that their arrays are apart.

Compilers believe `restrict` of the parameters of a function, also once it is inlined; of pointers that are declared in
a block, as those into an arena are, some forget it, and test in front of every inner loop whether arrays overlap. So
they do of parameters in a parallel region, which becomes a function of one pointer to all that it touches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from zlib import crc32

from bound.tensor import Tensor
from intset.expr.node import Expr, constant_value
from lowering.codegen.c_types import c_type
from lowering.nest.ir import Allocate, Assert, Evaluate, For, If, Stmt, Store
from lowering.nest.walk import free_variables, range_ends, statements, touched


def is_part(stmt: Stmt, stored: Collection[Tensor], stack: Collection[Allocate], is_in_parallel: bool) -> bool:
    """Whether a statement is to be a function of its own: a nest over several arrays, one of them allocated, or all of
    them seen from a parallel loop.

    Parameters
    ----------
    stored: the allocated tensors in sight that are not on the stack.
    stack: the allocations on the stack.
    is_in_parallel: whether a loop around it is parallel.
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


def part_of(
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
    """The definition of a function whose body is `lines`, the text of a statement, and the call that stands for it.

    Its name says which tensor it stores to, and depends on its text: several files that are put together have several
    functions of a name only where they are the same, and that is defined once.

    Parameters
    ----------
    label: what the name begins with.
    name_of: of a tensor or variable.
    addresses: of arrays that have no name where the call stands.
    shapes: of arrays as they are stored: an index of several dimensions is computed with them.
    types: of a variable.
    scalars: tensors that are plain variables.
    undefined: the name of what takes note of a division by 0, else empty.
    """
    made = {s.tensor for s in statements(stmt) if isinstance(s, Allocate)}
    written = dict.fromkeys(s.tensor for s in statements(stmt) if isinstance(s, Store))
    params, args = [], []
    for tensor in touched(stmt):
        if tensor not in made:
            const = "" if tensor in written else "const "
            pointer = "" if tensor in scalars else "*restrict "
            params.append(f"{const}{c_type(tensor.dtype, tensor.name)} {pointer}{name_of(tensor)}")
            args.append(addresses.get(tensor, name_of(tensor)))
    used = free_variables(stmt)
    text = "\n".join(lines)
    strides = dict.fromkeys(v for t in touched(stmt) for e in shapes.get(t, ())[1:] for v in e.free_vars())
    for var in dict.fromkeys((*used, *strides)):
        if not re.search(rf"\b{name_of(var)}\b", text):
            continue  # only the place of an allocation depends on it
        params.append(f"{types(var)} {name_of(var)}")
        args.append(name_of(var))
    if undefined:
        params.append(f"int *restrict {undefined}")
        args.append(undefined)
    rest = [f"({', '.join(params)}) {{", *(f"    {line}" for line in lines), "}"]
    stored = next((t.name for t in written if t not in made), "part")
    name = re.sub(r"\W", "_", f"{label}_{stored}_{crc32(chr(10).join(rest).encode()) & 0xFFFFFF:06x}", flags=re.ASCII)
    guard = f"INTSET_{name.upper()}"
    definition = [f"#ifndef {guard}", f"#define {guard}", f"static void {name}{rest[0]}", *rest[1:], "#endif"]
    return definition, f"{name}({', '.join(args)});"
