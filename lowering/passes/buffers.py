"""`simplify`: what ranges, conditions and elements tell, put to use."""

from __future__ import annotations

from lowering.nest.ir import Function, checked_function
from lowering.passes.branches import merge_branches, settle_branches
from lowering.passes.places import Entry, Report
from lowering.passes.refuted import check_assumptions
from lowering.passes.simplify import plain


def simplify(f: Function, buffers: bool = True, report: list[Entry] | None = None) -> Function:
    """The same function with fewer loops, branches and operations.

    Loops of one iteration, conditions that always or never hold, shorter indices; with `buffers`, also branches that
    are decided by what elements hold, branches of which both sides do the same, and branches one after another whose
    conditions are equivalent or opposite, unless what they read changes between them.

    Parameters
    ----------
    report: gets an `Entry` for each branch that is considered; with `buffers` only.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "simplify")
    checked = check_assumptions(f)
    if not buffers:
        return plain(f)
    said = Report(f)
    joined, lines = merge_branches(f, said)
    settled = Report(joined, lines)
    f = settle_branches(joined, settled, checked if joined is f else None)
    said.give(report, settled)
    return plain(f)
