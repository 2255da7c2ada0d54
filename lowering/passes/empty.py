"""Loops that never run, left out."""

from __future__ import annotations

import intset
from intset.config import Effort, tiers_within
from lowering.nest.driver import Cursor, rewritten
from lowering.nest.ir import For, Function, Seq, Stmt
from lowering.nest.walk import range_ends
from lowering.passes.dead import drop_dead


def drop_empty(f: Function) -> Function:
    """The function without the loops that are proved to have no iteration, and without what was computed for them.

    What a loop knows is what stands around it. The proof is by linear forms: it is asked of each loop.
    """

    def leave_out(loop: For, cursor: Cursor) -> Stmt:
        _, extent = range_ends(loop.range)
        return Seq() if cursor.scope.ctx.prove(extent <= 0) else loop

    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        return drop_dead(f.with_body(rewritten(f.body, Cursor.root(f), leave={For: (leave_out,)})))
