"""Random nests as text: loops to depth three, guards, local storage, undef, assumptions, choices, a symbolic size."""

from __future__ import annotations

import random

NAMES = "ijk"


class Writer:
    """Writes one nest. `exact`: whether all of it is quasi-affine, no guard or index from data."""

    def __init__(self, rng: random.Random, exact: bool) -> None:
        self.rng, self.exact = rng, exact
        self.lines: list[str] = []
        self.wraps = rng.random() < 0.35  # whether indices wrap, so that many instances share an element
        self.tensors = {"A": 8, "B": 6} if self.wraps else {"A": 32, "B": 32}
        self.two = "M"
        self.left = rng.randint(3, 9)
        self.local = 0

    def text(self) -> str:
        self.block(1, [])
        if not self.lines:
            self.lines.append("    A[0] = 1")
        a, b, m = (*self.tensors.values(), 4 if self.wraps else 32)
        return "\n".join([f"def f(A: int32[{a}], B: int32[{b}], M: int32[{m}, {m}], n):", *self.lines, ""])

    def line(self, level: int, text: str) -> None:
        self.lines.append("    " * level + text)

    # -- statements ---------------------------------------------------------------------------------------------

    def block(self, level: int, loops: list[str]) -> None:
        rng = self.rng
        known = dict(self.tensors)
        before = len(self.lines)
        for _ in range(rng.randint(1, 3 if level > 1 else 4)):
            kind = rng.random()
            if self.left <= 0:
                break
            if kind < 0.4 and len(loops) < (2 if self.wraps else 3):
                self.loop(level, loops)
            elif kind < 0.55 and level - len(loops) < 3:
                self.guard(level, loops)
            elif kind < 0.62:
                self.local += 1
                name, size = f"T{self.local}", rng.choice([1, 3, 4]) if self.wraps else 32
                self.line(level, f"allocate {name}: int32[{size}]")
                self.tensors[name] = size
                self.store(level, loops, name)
            elif kind < 0.68:
                self.assumption(level, loops)
            else:
                self.store(level, loops)
        if len(self.lines) == before or self.lines[-1].strip().startswith("allocate"):
            self.store(level, loops)
        self.tensors = known

    def loop(self, level: int, loops: list[str]) -> None:
        rng = self.rng
        v = next(c for c in NAMES if c not in loops)
        end = rng.choice(
            [
                "2",
                "3",
                "4",
                *(["2"] if self.wraps else ["n"]),
                *([f"{loops[-1]} + 1", f"{loops[-1]} + 2"] if loops else []),
            ]
        )
        low = rng.choice(["0", "0", "0", "1", *([loops[-1]] if loops and "+" not in end else [])])
        self.line(level, f"for {v} in [{low}, {end}):")
        self.block(level + 1, [*loops, v])

    def guard(self, level: int, loops: list[str]) -> None:
        self.line(level, f"if {self.condition(loops)}:")
        self.block(level + 1, loops)
        if self.rng.random() < 0.3:
            self.line(level, "else:")
            self.block(level + 1, loops)

    def store(self, level: int, loops: list[str], name: str | None = None) -> None:
        self.left -= 1
        target = self.element(loops, name)
        value = "undef()" if self.rng.random() < 0.08 else self.value(loops, 2)
        if self.rng.random() < 0.15:
            value = f"{target} + {value}"
        self.line(level, f"{target} = {value}")

    def assumption(self, level: int, loops: list[str]) -> None:
        target, number = self.element(loops), self.rng.randint(0, 3)
        guard = f"{self.affine_condition(loops)} or " if self.rng.random() < 0.5 else ""
        self.line(level, f"assume {guard}{target} == {number}")

    # -- operands -----------------------------------------------------------------------------------------------

    def condition(self, loops: list[str]) -> str:
        if not self.exact and self.rng.random() < 0.3:
            return f"{self.element(loops, self.rng.choice('AB'))} > 1"
        both = self.rng.random()
        first = self.affine_condition(loops)
        if both < 0.15:
            return f"{first} and {self.affine_condition(loops)}"
        return f"{first} or {self.affine_condition(loops)}" if both < 0.25 else first

    def affine_condition(self, loops: list[str]) -> str:
        rng = self.rng
        e = self.affine(loops)
        return f"{e} {rng.choice(['<', '>=', '==', '!='])} {rng.randint(0, 4)}"

    def affine(self, loops: list[str]) -> str:
        rng = self.rng
        if not loops:
            return rng.choice(["n", "0", "1", "n + 1"])
        v = rng.choice(loops)
        others = [w for w in loops if w != v]
        kind = rng.random()
        if kind < 0.5 or not others:
            return rng.choice([v, v, f"{v} + 1", f"{v} - 1", f"{v} * 2", f"{v} // 2", f"{v} % 2", f"3 - {v}"])
        return rng.choice([f"{v} + {others[0]}", f"{v} * 2 + {others[0]}", f"{v} - {others[0]} + 2"])

    def element(self, loops: list[str], name: str | None = None) -> str:
        rng = self.rng
        if name is None:
            name = rng.choice([*self.tensors, self.two])
        if name == self.two:
            return f"M[{self.index(loops, 4)}, {self.index(loops, 4)}]"
        size = self.tensors[name]
        if not self.exact and rng.random() < 0.1 and name != "B":
            return f"{name}[B[{rng.randint(0, 5)}] % {size}]"
        return f"{name}[{self.index(loops, size)}]" if rng.random() < 0.8 else f"{name}[{rng.randrange(min(size, 12))}]"

    def index(self, loops: list[str], size: int) -> str:
        """An index that is never outside."""
        return f"({self.affine(loops)}) % {size}" if self.wraps else f"{self.affine(loops)} + 4"

    def value(self, loops: list[str], depth: int) -> str:
        rng = self.rng
        kind = rng.random()
        if depth == 0 or kind < 0.25:
            return self.element(loops)
        if kind < 0.5:
            return str(rng.randint(0, 9)) if rng.random() < 0.5 else self.affine(loops)
        if kind < 0.6:
            return f"select({self.affine_condition(loops)}, {self.value(loops, depth - 1)}, {self.value(loops, 0)})"
        return f"{self.value(loops, depth - 1)} + {self.value(loops, depth - 1)}"


def random_nest(seed: int, exact: bool = True) -> str:
    return Writer(random.Random(seed), exact).text()
