"""The benchmark that counts what nests execute: against counts by hand, and against every loop run to its end."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.executed import Counter, Work
from lowering import parse_nest
from lowering.nest.ir import Stmt
from tests.bound.corpus import CASES
from tests.lowering.lowered import of_corpus
from tests.sweeps import daily

HEAD = "def C(A: float32[16], C: float32[16]):\n"
BY_HAND = {
    "for i in [0, 8):\n  if i < 5:\n    C[i] = A[(i + 1) % 8]": Work(5, 8, 5),
    "for i in [0, 8):\n  C[i] = select((i >= 2) & (i < 6), A[i - 2], 0.0)": Work(4, 14, 0),
    "for i in [0, 4):\n  for j in [0, i + 1):\n    C[i * 4 + j] = A[j]": Work(24, 0, 0),
    "for i in [0, 4):\n  for j in [0, 3):\n    C[i >> 1] = A[i & 1]": Work(0, 0, 24),
    "for i in [0, 4):\n  m = i // 2\n  if m > 0:\n    C[i] = A[m + 1]": Work(2, 4, 4),
    "for i in [0, 9):\n  if A[i] > 0.0:\n    C[i] = A[i + 1]": Work(9, 0, 0),
}


@pytest.mark.parametrize("text", BY_HAND)
def test_by_hand(text: str) -> None:
    body = "".join(f"    {line}\n" for line in text.replace("  ", "    ").splitlines())
    assert Counter({}).stmt(parse_nest(HEAD + body).body, {}) == BY_HAND[text]


class EachInTurn(Counter):
    """Remembers nothing and multiplies nothing: every iteration of every loop is executed."""

    def stmt(self, stmt: Stmt, point: dict[Any, int]) -> Work:
        return self._stmt(stmt, point)

    def decides(self, moving: tuple[Any, ...], body: Stmt) -> bool:
        return True


@pytest.mark.parametrize("name", daily([n for n in CASES if n.startswith(("fuse", "flatten", "triangular"))], 2))
def test_loops_that_decide_nothing_are_multiplied(name: str) -> None:
    _, f = of_corpus(name)
    sizes = CASES[name]["sub"]
    quick = Counter(sizes).stmt(f.body, {})
    assert quick == EachInTurn(sizes).stmt(f.body, {})
