"""Expressions that share a part at every level: each question visits a node once, or ends within its budget."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from intset import Context, Expr, Range, Var, evaluate, from_json, maximum, select, to_json
from lowering import lower_division
from tests.sweeps import daily

I = Var("i")
LEVELS: dict[str, Callable[[Expr], Expr]] = {
    "square": lambda e: e * e,
    "quotient": lambda e: e + e // 3,
    "maximum": lambda e: maximum(e, e + 1),
    "select": lambda e: select(e > 0, e, -e),
    "remainder": lambda e: e % 7 * e,
}
MOST = {24: 2_000_000, 60: 2_000_000, 200: 8_000_000}  # calls, those of first imports included
CTX = Context({I: Range(0, 4)})
QUESTIONS: dict[str, Callable[[Expr], Any]] = {
    "simplify": CTX.simplify,
    "bounds": CTX.bounds,
    "value_set": CTX.value_set,
    "image": lambda e: CTX.image((e, I)),
    "prove": lambda e: CTX.prove(e >= -5),
    "fits": lambda e: CTX.fits(e, 32),
    "explain": lambda e: CTX.explain(e < 3),
    "canonical": CTX.canonical,
    "repr": repr,
    "pickle": lambda e: pickle.loads(pickle.dumps(e)) is e,
    "json": lambda e: from_json(to_json(e), [I]),
    "evaluate": lambda e: evaluate(e, {I: 1}),
    "substitute": lambda e: e.substitute({I: I + 1}),
    "lower_division": lambda e: lower_division(e // 3, CTX),
}


def doubled(kind: str, depth: int) -> Expr:
    e: Expr = I
    for _ in range(depth):
        e = LEVELS[kind](e)
    return e


class TooManyCallsError(Exception):
    """More calls than a walk of the shared nodes makes."""


def calls(question: Callable[[Expr], Any], e: Expr, most: int) -> int:
    """The number of Python calls of a question; an error beyond `most`."""
    number = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal number
        number += event == "call"
        if number > most:
            raise TooManyCallsError

    sys.setprofile(count)
    try:
        question(e)
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize("depth", daily([24, 60, 200], 3))
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_do_not_double_with_each_level(name: str, depth: int) -> None:
    for kind in LEVELS:
        calls(QUESTIONS[name], doubled(kind, depth), MOST[depth])
