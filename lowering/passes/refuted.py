"""Assumptions that cannot hold."""

from __future__ import annotations

from intset.errors import InputError
from intset.expr.node import Cond
from intset.expr.text import shown
from lowering.nest.ir import Assume, Function
from lowering.nest.scope import written_in
from lowering.nest.undef import has_undef
from lowering.nest.walk import statements, tensors_read
from lowering.passes.known import Known
from lowering.passes.places import places, proof_of


def check_assumptions(f: Function) -> Known | None:
    """Refuse an assumption that cannot hold where it stands; the dataflow of the function, if that was asked.

    Raises
    ------
    InputError: one is proved to be false.
    """
    if not any(isinstance(stmt, Assume) for stmt in statements(f.body)):
        return None
    written = written_in(f.body)
    known: Known | None = None
    for place in places(f):
        stmt = place.stmt
        if not isinstance(stmt, Assume) or has_undef(stmt.cond):
            continue
        is_false = False
        if any(t in written for t in tensors_read(stmt.cond)):
            known = known or Known(f)
            is_false = known.refutes(place, stmt.cond)
        elif isinstance(stmt.cond, Cond):
            proof = proof_of(place.scope, ~stmt.cond)
            is_false = bool(proof) and not proof.vacuous
        if is_false:
            raise InputError(f"the assumption {shown(stmt.cond)} is false wherever it is reached")
    return known
