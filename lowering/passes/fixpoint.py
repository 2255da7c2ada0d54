"""`until_stable`: repeat a pass until it changes nothing; it is then idempotent."""

from __future__ import annotations

from collections.abc import Callable

from intset.budgets import OVERCOMPUTE_ROUNDS
from lowering.nest.ir import Function


def until_stable(once: Callable[[Function], Function], f: Function) -> Function:
    """Apply `once` until the text of the nest repeats; of nests that alternate, the one with the shortest text.

    Guarantee: a second call returns a nest of equal text. Beyond `OVERCOMPUTE_ROUNDS` calls: the nest that was given.
    """
    rounds, last = {str(f): f}, f
    for _ in range(OVERCOMPUTE_ROUNDS):
        last = once(last)
        text = str(last)
        if text in rounds:
            texts = list(rounds)
            return rounds[min(texts[texts.index(text) :], key=lambda each: (len(each), each))]
        rounds[text] = last
    return f
