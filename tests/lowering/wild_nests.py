"""Random nests with more in them: host calls, parallel loops, choices that keep from traps, negative ranges, names,
carried variables, assumptions on what is stored, arrays of a size that is 0 or 1, reductions in one another."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from lowering import run
from lowering.nest.ir import Function
from tests.lowering.random_nests import SIZE, Nest

TYPES = ("int32", "int8", "uint8", "float32", "int64", "float16")
Ranges = dict[str, tuple[int, int]]
Arrays = dict[str, str]


def mixed(array: Any, k: int) -> Any:
    """A number that depends on all elements and hardly ever is the same for others."""
    numbers = np.nan_to_num(array.astype("float64"), posinf=1, neginf=2).reshape(-1)
    return np.asarray((int(sum((j + 3) * x for j, x in enumerate(numbers))) * 7919 + k) % 2039)


def bump(array: Any, k: int) -> None:
    """A host function: what it does to an element depends on what all hold."""
    flat = array.reshape(-1)
    if flat.size:
        flat[k % flat.size] = mixed(array, k).astype(array.dtype)


def move(source: Any, target: Any) -> None:
    """A host function of two arrays."""
    if source.size and target.size:
        target.reshape(-1)[0] = mixed(source, 0).astype(target.dtype)


class Wild(Nest):
    """A nest as `Nest` makes one, with more kinds of statements."""

    def ran(self, f: Function, draw: int) -> dict[str, Any]:
        drawn = random.Random(draw)
        copies = {name: array.copy() for name, array in self.arrays.items()}
        given = {t.name: copies[t.name] for t in f.params}
        functions = {"bump": bump, "move": move}
        with np.errstate(all="ignore"):
            run(f, given, {"n": self.n}, functions, undef=lambda dtype: drawn.randint(-2000, 2000))
        return copies

    def _make(self) -> None:
        rng = self.rng
        self.n = rng.choice((0, 1, 1, 2, 5))
        self.types = {name: rng.choice(TYPES) for name in "ABC"}
        generator = np.random.default_rng(rng.randrange(10**6))
        self.arrays: dict[str, Any] = {}
        for name, dtype in self.types.items():
            low = 0 if dtype == "uint8" else -4
            self.arrays[name] = generator.integers(low, 5, SIZE).astype(dtype)
        self.arrays["Q"] = generator.integers(-3, 4, self.n).astype("int32")
        self.arrays["P"] = generator.integers(-3, 4, (4, 4)).astype("int32")
        self.local = 0
        self.count = 0
        lines = self._assumed()
        for _ in range(rng.randint(2, 4)):
            lines += self._stmt(0, {"n": (0, 5)}, dict(self.types))
        head = ", ".join(f"{name}: {dtype}[{SIZE}]" for name, dtype in self.types.items())
        self.text = f"def f({head}, Q: int32[n], P: int32[4, 4], n):\n" + "\n".join(f"    {line}" for line in lines)

    def _whole(self, name: str) -> bool:
        """Whether an array holds integers."""
        return "float" not in self.types.get(name, "int32")

    def _alike(self, a: str, b: str) -> bool:
        return self._kind(self.types.get(a, "int32")) == self._kind(self.types.get(b, "int32"))

    def _fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _stmt(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        rng = self.rng
        if self.count < 14 and rng.random() < 0.45:
            self.count += 1
            made = rng.choice(
                (
                    self._host,
                    self._parallel,
                    self._reduction,
                    self._named,
                    self._said,
                    self._sized,
                    self._trap,
                    self._carried,
                )
            )
            return made(depth, ranges, arrays)
        return super()._stmt(depth, ranges, arrays)

    def _loop(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        rng = self.rng
        if rng.random() < 0.7:
            return super()._loop(depth, ranges, arrays)
        var = self._fresh("g")
        low = rng.choice((-3, -2, -1, 2))
        high = low + rng.randint(1, 5)
        inner = {**ranges, var: (low, high - 1)}
        body = [line for _ in range(rng.randint(1, 2)) for line in self._stmt(depth + 1, inner, dict(arrays))]
        end = str(high)
        if rng.random() < 0.3:
            end = rng.choice((f"{high} - n", f"minimum({high}, n)", f"{low} + n"))
            if "+" in end:
                inner[var] = (low, low + 4)
        return [f"for {var} in [{low}, {end}):", *(f"    {line}" for line in body)]

    # -- more statements ----------------------------------------------------------------------------------------

    def _host(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        rng = self.rng
        if rng.random() < 0.7:
            return [f"bump({rng.choice('ABC')}, {rng.choice(list(ranges))})"]
        a, b = rng.sample("ABC", 2)
        return [f"move({a}, {b})"]

    def _parallel(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        """Iterations that touch elements of their own."""
        rng = self.rng
        var = self._fresh("p")
        target, other = rng.sample("ABC", 2)
        index = rng.choice((var, f"{SIZE - 1} - {var}"))
        read = f"{other}[{var}]" if self._alike(other, target) else f"{target}[{index}]"
        value = rng.choice((read, f"{read} + {target}[{index}]", f"{target}[{index}]"))
        lines = [f"for {var} in [0, {rng.choice((SIZE, 6, 'n'))}) parallel:"]
        if rng.random() < 0.4:
            lines.append(f"    if {var} {rng.choice(('<', '>='))} {rng.randint(0, 6)}:")
        return [*lines, f"{'    ' * len(lines)}{target}[{index}] = {value}"]

    def _reduction(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        rng = self.rng
        i, k = self._fresh("r"), self._fresh("k")
        target, other = rng.choice(list(arrays)), rng.choice("ABC")
        read = f"{other}[{k}]" if self._alike(other, target) else f"{target}[{k} + 4]"
        if self._whole(target) and rng.random() < 0.4:
            read = f"P[{i}, {k}]"
        start = f"{target}[{rng.choice(list(self._kept(ranges)))}]" if rng.random() < 0.2 else "0"
        guard = [f"if {i} * 4 + {k} < {rng.randint(8, 16)}:"] if rng.random() < 0.5 else []
        inner = [f"for {k} in [0, 4):", *(f"    {g}" for g in guard)]
        sign = rng.choice(("+", "+", "-"))
        if "float" in self.types.get(target, "int32"):
            start = "0.0"
        return [
            f"for {i} in [0, 4):",
            f"    {target}[{i}] = {start}",
            *(f"    {line}" for line in inner),
            f"        {'    ' * len(guard)}{target}[{i}] = {target}[{i}] {sign} {read}",
        ]

    def _kept(self, ranges: Ranges) -> list[str]:
        """Indices that are inside every array."""
        return [v for v, (low, high) in ranges.items() if low >= 0 and high < SIZE] + ["3"]

    def _named(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        rng = self.rng
        name = self._fresh("x")
        v = rng.choice(list(ranges))
        low, high = ranges[v]
        if rng.random() < 0.6:
            value, inner = f"{v} * 2 + 1", (2 * low + 1, 2 * high + 1)
            known = {**ranges, name: inner}
        else:
            source = rng.choice([a for a in arrays if self._whole(a)] or ["P"])
            index = rng.choice(self._kept(ranges))
            value = f"{source}[{index}]" if source != "P" else "P[0, 1]"
            known = {**ranges, name: (-200, 200)}
        return [f"{name} = {value}", *self._stmt(depth, known, dict(arrays))]

    def _said(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        """An assumption on what was just stored, or on what may be there."""
        rng = self.rng
        target = rng.choice("ABC")
        index = self._index(ranges)
        if not self._whole(target):
            return [f"assume {target}[{index}] < 1000.0 or {target}[{index}] >= 0.0"]
        value = str(rng.randint(0, 3)) if rng.random() < 0.5 else rng.choice(self._kept(ranges))
        cond = rng.choice(
            (f"{target}[{index}] == {value}", f"{target}[{index}] >= {value}", f"{target}[{index}] != 77")
        )
        guard = self._condition(ranges, arrays, True)
        said = rng.choice((f"assume {cond}", f"assume {guard} or {cond}"))
        return [f"{target}[{index}] = {value}", said, *self._stmt(depth, ranges, dict(arrays))]

    def _sized(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        """Loops over an array of the size."""
        rng = self.rng
        var = self._fresh("q")
        value = rng.choice((var, f"Q[n - 1 - {var}]", f"Q[{var}] + P[0, 0]", "0"))
        lines = [f"for {var} in [0, n):", f"    Q[{var}] = {value}"]
        if rng.random() < 0.5:
            test = rng.choice((f"Q[{var}] == {value}", f"Q[{var}] >= 0", f"{var} < n - 1"))
            targets = [a for a in arrays if self._whole(a)] or ["Q"]
            target = rng.choice(targets)
            other = self._fresh("q")
            text = test.replace(var, other)
            lines += [f"for {other} in [0, n):", f"    if {text}:", f"        {target}[{other}] = {other}"]
        return lines

    def _trap(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        """What only a condition keeps from a trap, an access outside or what holds nothing."""
        rng = self.rng
        v = rng.choice(list(ranges))
        target = next((a for a in arrays if self._whole(a)), "P")
        whole = [a for a in "ABC" if self._whole(a)]
        index = rng.choice(self._kept(ranges)) if target != "P" else "2, 1"
        source = f"{rng.choice(whole)}[{rng.choice(self._kept(ranges))}]" if whole else "P[1, 1]"
        form = rng.randint(0, 3)
        if form == 0:
            return [f"{target}[{index}] = select({source} != 0, 7 // {source}, {v})"]
        if form == 1:
            other = rng.choice(whole or ["P"])
            read = f"{other}[{v}]" if other != "P" else f"P[0, {v}]"
            limit = SIZE if other != "P" else 4
            return [f"{target}[{index}] = select({v} >= 0 and {v} < {limit}, {read}, 3)"]
        if form == 2:
            return [f"if {source} != 0:", f"    {target}[{index}] = {v} % {source}"]
        inner = whole or ["P"]
        other = rng.choice(inner)
        read = f"{other}[{source}]" if other != "P" else f"P[0, {source}]"
        limit = SIZE if other != "P" else 4
        return [f"if {source} >= 0 and {source} < {limit}:", f"    {target}[{index}] = {read}"]

    def _carried(self, depth: int, ranges: Ranges, arrays: Arrays) -> list[str]:
        rng = self.rng
        var, q = self._fresh("c"), self._fresh("w")
        step, high = rng.choice((1, 2, 3)), rng.randint(1, 4)
        inner = {**ranges, var: (0, high - 1), q: (1, 1 + step * (high - 1))}
        head = f"for {var} in [0, {high}) with {q} = 1, then {q} + {step}:"
        return [head, *(f"    {line}" for line in self._stmt(depth + 1, inner, dict(arrays)))]
