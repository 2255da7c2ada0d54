"""What bounds remember of their question: enough to find their certificate later, and nothing that was cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from intset.config import Config
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.facts import Fact

if TYPE_CHECKING:
    from intset.check.ends import BoundsCertificate
    from intset.domains.base import Bounds


class AskedBounds(NamedTuple):
    """A question about the bounds of `expr`; the fields are those of the frame it was asked in."""

    expr: Expr
    ranges: Mapping[Var, Range]
    facts: tuple[Fact, ...]
    defined: tuple[Cond, ...]
    keep: tuple[Var, ...]
    config: Config

    def certificate(self, answer: Bounds) -> BoundsCertificate:
        """The certificate of the answer; `InputError` where none is found."""
        from intset.prover.ends import certify_bounds  # with all that searches: only when it is asked for

        return certify_bounds(self, answer)
