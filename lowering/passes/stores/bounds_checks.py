"""`with_bounds_checks`: assertions in front of statements whose accesses are not proved to lie in their tensors.

Guarantee: a nest that returns touched nothing outside of its tensors. A branch of `select`, `and` or `or` is checked
only where it is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from bound.tensor import element
from bound.tir.build import negation, together
from bound.tir.value import Operand, Truth
from bound.tir.walk import loaded_tensor, read_indices
from intset.expr.build import logical_and
from intset.prover.proof import PROVED, REFUTED
from lowering.dataflow.flow import located_accesses
from lowering.dataflow.program import GUARD_VISITS, Program, lazy_branches, read_arguments
from lowering.errors import AccessError
from lowering.nest.ir import Assert, Function, If, Seq, Stmt, Store, seq
from lowering.nest.printer import text
from lowering.nest.scope import in_storage, storage_of
from lowering.nest.walk import operands, rebuilt

Conditions: TypeAlias = "tuple[Truth, ...]"


def with_bounds_checks(f: Function) -> Function:
    """The function with a check in front of each access that is not proved.

    Raises
    ------
    AccessError: an access is outside at given values of its loops, whatever the sizes and the tensors are.
    """
    unproved: dict[tuple[object, ...], dict[Operand, bool]] = {}
    sizes = set(map(str, f.sizes))
    for stmt, node, access in located_accesses(Program(f)):
        if access.status == REFUTED and not sizes & set(access.point or ()):
            at = ", ".join(f"{name} = {value}" for name, value in (access.point or {}).items())
            verb = "stores" if access.is_store else "reads"
            raise AccessError(f"{f.name} {verb} {access.access} outside of its tensor{at and ' at ' + at}")
        if access.status != PROVED:
            unproved.setdefault(_key(stmt), {})[node] = access.is_store

    def check(stmt: Stmt) -> Stmt:
        wanted = {} if isinstance(stmt, Seq) else unproved.get(_key(stmt), {})
        found = [(conditions, node) for conditions, node in _reads(stmt) if node in wanted] if wanted else []
        return seq(*(_asserted(f, conditions, node, wanted[node]) for conditions, node in found), stmt)

    return f.with_body(rebuilt(f.body, check)) if unproved else f


def _accessed(stmt: Stmt) -> list[Operand]:
    """The operands of a statement, then the element that it stores."""
    return [*operands(stmt), *([element(stmt.tensor, stmt.indices)] if isinstance(stmt, Store) else [])]


def _key(stmt: Stmt) -> tuple[object, ...]:
    """A key of the accesses of a statement, which a change of the statements inside keeps."""
    return (type(stmt), *_accessed(stmt))


def _asserted(f: Function, conditions: Conditions, node: Operand, is_store: bool) -> Stmt:
    tensor = loaded_tensor(node)
    assert tensor is not None
    verb = "stores" if is_store else "reads"
    inside = logical_and(*in_storage(read_indices(node), storage_of(f, tensor)))
    check = Assert(inside, f"{f.name} {verb} {text(node)} inside {tensor.name}")
    return If(together(*conditions), check) if conditions else check


def _reads(stmt: Stmt) -> Iterator[tuple[Conditions, Operand]]:
    """The elements that a statement reads, then the stored one. Elements in an index precede the indexed element."""
    pending: list[tuple[Operand, Conditions, bool]] = [(root, (), False) for root in reversed(_accessed(stmt))]
    seen: set[tuple[Operand, Conditions]] = set()
    while pending:
        node, conditions, is_left = pending.pop()
        if is_left:
            yield conditions, node
            continue
        if (node, conditions) in seen or (node, ()) in seen:
            continue
        seen.add((node, conditions))
        if loaded_tensor(node) is not None:
            pending.append((node, conditions, True))
        branches = lazy_branches(node) if len(seen) < GUARD_VISITS else None
        for arg, cond, holds in reversed(branches or [(arg, None, True) for arg in read_arguments(node)]):
            more = () if cond is None else (cond if holds else negation(cond),)
            pending.append((arg, (*conditions, *more), False))
