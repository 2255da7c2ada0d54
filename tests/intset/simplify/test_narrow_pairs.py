"""Conditions narrowed to hold for all values of a parameter: the pairs that TVM tested, and the two it got wrong."""

from __future__ import annotations

import pytest

from intset import Context, Range, Var, evaluate, parse
from intset.expr.build import opaque

PAIRS = {
    "i < 14": "i < 14",
    "i > n": "i > 7",
    "i >= n": "i >= 7",
    "i < n": "i < 0",
    "i <= n": "i <= 0",
    "n > i": "i < 0",
    "n >= i": "i <= 0",
    "n < i": "i > 7",
    "n <= i": "i >= 7",
    "i == n": "False",
    "n == i": "False",
    "i != n": "i < 0 or i > 7",
    "n != i": "i < 0 or i > 7",
    "i // 4 > n": "i // 4 > 7",
    "n < i // 4": "i // 4 > 7",
    "(i + n) // 4 > 0": "i // 4 > 0",
    "(i + n) // 4 == 0": "(i + 7) // 4 <= 0 and 0 <= i // 4",
    "(i + n) // 4 != 1": "(i + 7) // 4 < 1 or i // 4 > 1",
    "i + n < 10": "i + 7 < 10",
    "i - n < 10": "i < 10",
    "i + n * (-2) <= 5": "i <= 5",  # not i - 14 <= 5
    "not (i < n)": "i >= 7",
    "not (i <= n)": "i > 7",
    "not (i > n)": "i <= 0",
    "not (i == n)": "i < 0 or i > 7",
    "not (i > n and i < n + 4)": "i <= 0 or i > 10",
    "i % 8 == n": "False",
    "i // 8 == n": "False",
    "i > n and i < 12": "i > 7 and i < 12",
    "i > n or i < 3": "i > 7 or i < 3",
    "i > n or n > 4": "i > 4",
    "i < n or i > n": "i < 0 or i > 7",
    "minimum(i, n) < 4": "i < 4",
    "maximum(i, n) < 9": "i < 9",
}
BEYOND = ("i // (n + 1) <= 2", "i // (n + 1) == 0", "i % (n + 1) == 0", "n * i < 20")  # no sets: what is said is enough


@pytest.mark.parametrize("text", [*PAIRS, *BEYOND])
def test_what_holds_for_all_values(text: str) -> None:
    i, n = Var("i"), Var("n")
    cond = parse(text, {"i": i, "n": n})
    answer = Context({n: Range(0, 8)}).narrow(cond, [i])
    assert answer.is_exact or text in BEYOND
    assert not any(v is n for v in answer.cond.free_vars())
    for x in range(-40, 60):
        always = all(evaluate(cond, {i: x, n: k}) for k in range(8))
        found = bool(evaluate(answer.cond, dict.fromkeys(answer.cond.free_vars(), x)))
        assert found is always if answer.is_exact else not found or always
        if text in PAIRS:
            assert found is bool(evaluate(parse(PAIRS[text], {"i": i}), {i: x} if "i" in PAIRS[text] else {}))


def test_data_stay() -> None:
    i, n = Var("i"), Var("n")
    held = opaque("buf[i]")
    answer = Context({n: Range(0, 8)}).narrow((held > 0) | (i <= n), [i])
    for x in range(-3, 10):
        found = evaluate(answer.cond, dict.fromkeys(answer.cond.free_vars(), x))
        assert found <= (x <= 0)  # whatever is in the buffer
