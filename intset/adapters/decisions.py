"""Decisions about many conditions in one context: always true, never true, or neither was proved."""

from collections.abc import Mapping
from typing import Final

from intset.config import current, using
from intset.context import Context
from intset.expr import Cond, Expr
from intset.expr.evaluate import all_hold, point_value
from intset.expr.node import is_declared

KNOWN_POINTS: Final = 12  # points of a context, kept for later conditions


class Decisions:
    """Decides conditions in a context, and keeps points that refuted earlier ones.

    A condition that holds at a known point cannot be refuted, so its negation is skipped:
    points save time and change no answer.

    Parameters
    ----------
    points: points that may lie in the context; the others are dropped.
    """

    def __init__(self, context: Context, *points: Mapping[Expr, int]) -> None:
        self._context = context
        self._points: list[Mapping[Expr, int]] = []
        for point in points:
            if all(is_declared(e, value) for e, value in point.items()):
                self._points += [point] if all_hold([fact.condition for fact in context.facts], point) else []

    def __call__(self, goal: Cond) -> bool | None:
        """True if the goal is proved, False if its negation is, else `None`.

        Both goals try the first tier before either tries another.
        """
        values = {point_value(goal, point) for point in self._points}
        waiting = [(part, sign) for part, sign in ((goal, True), (~goal, False)) if (not sign) not in values]
        tiers = current().tiers
        for some in filter(None, (tiers[:1], tiers[1:]) if len(waiting) > 1 else (tiers,)):
            with using(tiers=some):
                for part, sign in tuple(waiting):
                    proof = self._context.prove(part)
                    if proof.status == "proved":
                        return sign
                    if proof.counterexample is not None:
                        waiting.remove((part, sign))
                        self._points = [proof.counterexample, *self._points[: KNOWN_POINTS - 1]]
        return None


__all__ = ["Decisions"]
