"""Spaces against the enumeration of every candidate by `evaluate`."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from intset import Cond, Expr, Space, Var, evaluate, logical_and, logical_not, logical_or, maximum, minimum, select
from intset.errors import EvaluationError

Point = tuple[Any, ...]


class Drawn:
    """A random space, with its members by brute force."""

    def __init__(self, seed: int, most: int = 8, room: int = 3000) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.names = [Var(name) for name in "abcdefgh"[: draw.randint(1, most)]]
        self.values: dict[Var, list[int]] = {}
        for var in self.names:
            low = draw.choice((0, 1, 1, -3, 7))
            self.values[var] = draw.choice(
                (
                    list(range(low, low + draw.randint(1, 9))),
                    [1, 2, 4, 8, 16][: draw.randint(1, 5)],
                    [draw.randint(-9, 99)],
                )
            )
            draw.shuffle(self.values[var])
        while len(list(itertools.product(*self.values.values()))) > room:
            longest = max(self.values.values(), key=len)
            longest.pop()
        self.where = [self.condition(draw.randint(0, 3)) for _ in range(draw.randint(0, 4))]
        self.space = Space(self.values, self.where)

    def expression(self, depth: int) -> Expr:
        draw = self.random
        if depth == 0:
            return draw.choice(self.names) if draw.random() < 0.8 else draw.choice(self.names) * draw.randint(-3, 9)
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        kind = draw.randrange(9)
        if kind == 8:
            return select(self.condition(depth - 1), a, b)
        if kind == 7:
            return a // b if draw.random() < 0.5 else a % b
        if kind == 6:
            return a // draw.randint(1, 5) if draw.random() < 0.5 else a % draw.randint(1, 5)
        return (a + b, a - b, a * b, a * draw.randint(-4, 4), minimum(a, b), maximum(a, b))[kind]

    def condition(self, depth: int) -> Cond:
        draw = self.random
        if depth == 0:
            a, b = self.expression(draw.randint(0, 2)), self.expression(draw.randint(0, 1))
            side = b if draw.random() < 0.4 else draw.randint(-5, 60)
            kind = draw.randrange(6)
            if kind == 5:
                return (a % draw.randint(1, 6)).eq(draw.randint(0, 2))
            return (a < side, a <= side, a > side, a.ne(side), a >= side)[kind]
        kind = draw.randrange(4)
        if kind == 3:
            return logical_not(self.condition(depth - 1))
        return (logical_and, logical_or, logical_or)[kind](self.condition(depth - 1), self.condition(depth - 1))

    def members(self) -> list[Point]:
        return [point for point in itertools.product(*self.values.values()) if self.holds(point)]

    def holds(self, point: Point) -> bool:
        at = dict(zip(self.names, point, strict=True))
        try:
            return all(evaluate(cond, at) for cond in self.where)
        except EvaluationError:
            return False


def rows(space: Space) -> list[Point]:
    return [tuple(point.values()) for point in space]


def check(seed: int) -> None:
    drawn = Drawn(seed)
    expected = drawn.members()
    space = drawn.space
    listed = rows(space)
    assert listed == expected, seed  # in the order of nested loops
    assert space.count() == len(space) == len(expected), seed
    assert bool(space) is bool(expected)
    columns = space.columns()
    assert list(zip(*(columns[var.name].tolist() for var in drawn.names), strict=True)) == listed
    for point in drawn.random.sample(sorted(itertools.product(*drawn.values.values())), k=1):
        assert (point in space) is (point in set(expected)), (seed, point)


@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_of_any_size_and_early_conditions(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that every step takes many and conditions are asked before all their names have values."""
    monkeypatch.setattr("intset.spaces.diagram.SPACE_BLOCK", block)
    monkeypatch.setattr("intset.spaces.diagram._FEW", 2)
    monkeypatch.setattr("intset.spaces.diagram._LARGE", 0)
    for seed in range(80_000 + block, 80_000 + block + 60):
        check(seed)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_drawn_spaces(first: int) -> None:
    for seed in range(first, first + 25):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(90_000, 92_000, 250))
def test_many_early_conditions(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intset.spaces.diagram.SPACE_BLOCK", 5)
    monkeypatch.setattr("intset.spaces.diagram._FEW", 2)
    monkeypatch.setattr("intset.spaces.diagram._LARGE", 0)
    for seed in range(first, first + 250):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(300, 5300, 250))
def test_many_drawn_spaces(first: int) -> None:
    for seed in range(first, first + 250):
        check(seed)
