"""Proofs that accesses of a function lie in their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bound.tensor import element
from intset.expr.build import logical_and
from intset.expr.dag import opaque_terms
from intset.expr.node import Expr
from intset.prover.proof import PROVED, REFUTED, UNKNOWN
from lowering.dataflow.accesses import ALWAYS, ElementReads, reads_of
from lowering.dataflow.program import Program, StmtSite
from lowering.nest.driver import Cursor, cursors
from lowering.nest.ir import Store
from lowering.nest.scope import proof_of
from lowering.nest.tensors import in_storage, storage_of
from lowering.nest.text import text
from lowering.nest.walk import operands, range_ends


class CheckedAccess(NamedTuple):
    """A read or a store of one element.

    Attributes
    ----------
    line: number of the line in `str(f)`, where the head is line 1.
    access: its text.
    is_store: whether it is the target of a store.
    status: "proved" to lie in the tensor's storage, "refuted", or "unknown".
    point: of a refuted access, values of loops and sizes at which it happens outside.
    reason: why the status is unknown.
    """

    line: int
    access: str
    is_store: bool
    status: str
    point: dict[str, int] | None = None
    reason: str = ""


def checked_accesses(program: Program) -> Iterator[CheckedAccess]:
    """Every access of a function in text order, with its proof if one exists.

    Guarantee: a proved access is in bounds at every execution that fulfils the assumptions. A refuted one leaves its
    storage at `point`, whatever tensors hold.
    """
    for cursor in cursors(program.f):
        site = program.sites.get(cursor.path)
        if site is None:
            continue
        found = list(reads_of(operands(cursor.stmt), lambda operand: operand))
        if isinstance(cursor.stmt, Store):
            node = element(cursor.stmt.tensor, cursor.stmt.indices)
            found.append(ElementReads(node, cursor.stmt.tensor, cursor.stmt.indices, (ALWAYS,)))
        for k, access in enumerate(found, 1):
            is_store = k == len(found) and isinstance(cursor.stmt, Store)
            yield _checked(program, site, cursor, access, is_store)


def _checked(program: Program, site: StmtSite, cursor: Cursor, access: ElementReads, is_store: bool) -> CheckedAccess:
    names, line = program.lines[cursor.path].names, program.line_numbers[cursor.path]
    shown = CheckedAccess(line, text(access.node, names), is_store, PROVED)
    indices = [e for e in access.node.args if isinstance(e, Expr)]
    inside = logical_and(*in_storage(indices, storage_of(program.f, access.tensor)))
    ends = [end for loop in cursor.loops for end in range_ends(loop.range)]
    on_data = not site.guard.is_complete or bool(opaque_terms(*map(site.expanded, (*indices, *ends))))
    known = (*(loop.var for loop in cursor.loops), *program.f.sizes)
    for guard in access.guards:
        proof = proof_of(cursor.scope.where(*guard.conditions), inside)
        if proof.status == REFUTED and guard.is_complete and not on_data:
            found = proof.counterexample or {}
            point = {str(var): found[var] for var in known if var in found}
            return shown._replace(status=REFUTED, point=point)
        if proof.status != PROVED:
            reason = proof.reason if proof.status == UNKNOWN else "it depends on the contents of tensors"
            return shown._replace(status=UNKNOWN, reason=reason)
    return shown
