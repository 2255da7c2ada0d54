"""Random nests: loops to depth three, guards, buffers, local storage, undef, assumptions, symbolic sizes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from intset import IntSetError, ParseError
from lowering import parse_nest, run
from lowering.nest.ir import Function

SIZE = 12
TYPES = ("int32", "int32", "int32", "int8", "float32")


class Nest:
    """A nest that runs without errors, with arrays for it.

    Attributes
    ----------
    text, f: the nest.
    arrays: what it is given.
    n: the size.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        for _ in range(60):
            self._make()
            try:
                self.f: Function = parse_nest(self.text)
                self.expected = [self.ran(self.f, k) for k in range(3)]
            except ParseError as error:
                if "convert the value" not in str(error):  # of a type that does not go with the array
                    raise
            except IntSetError:  # an index outside, an element that holds nothing, a condition on an undef()
                continue
            return
        raise AssertionError(f"no nest from seed {seed}")

    def ran(self, f: Function, draw: int) -> dict[str, Any]:
        """What a function gives; every draw of `undef()` depends on `draw`."""
        drawn = random.Random(draw)
        copies = {name: array.copy() for name, array in self.arrays.items()}
        given = {t.name: copies[t.name] for t in f.params}
        run(f, given, {"n": self.n}, undef=lambda dtype: drawn.randint(-(10**6), 10**6))
        return copies

    def agrees(self, f: Function, draw: int) -> None:
        """Whether a function does what the nest does, wherever that does not depend on an `undef()`."""
        found = self.ran(f, draw)
        for name, array in found.items():
            runs = [expected[name] for expected in self.expected]
            # draws of an undef() that overflow look alike
            is_known = np.all([np.equal(runs[0], other) for other in runs[1:]], axis=0) & np.isfinite(runs[0])
            same = np.equal(array, runs[0]) | ~is_known
            assert np.all(same), f"{name}\n{self.text}\n{f}\n{array} {runs[0]}"

    # -- text ---------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        rng = self.rng
        self.n = rng.randint(0, 5)
        self.types = {name: rng.choice(TYPES) for name in "ABC"}
        self.arrays: dict[str, Any] = {}
        generator = np.random.default_rng(rng.randrange(10**6))
        for name, dtype in self.types.items():
            array = generator.integers(-4, 5, SIZE).astype(dtype)
            self.arrays[name] = array
        self.arrays["P"] = generator.integers(-3, 4, (4, 4)).astype("int32")
        self.local = 0
        self.count = 0
        lines = self._assumed()
        for _ in range(rng.randint(2, 4)):
            lines += self._stmt(0, {"n": (0, 5)}, dict(self.types))
        head = ", ".join(f"{name}: {dtype}[{SIZE}]" for name, dtype in self.types.items())
        self.text = f"def f({head}, P: int32[4, 4], n):\n" + "\n".join(f"    {line}" for line in lines)

    def _assumed(self) -> list[str]:
        """An assumption about the padding of P, which then is so."""
        rng = self.rng
        if rng.random() < 0.5:
            return []
        limit, value = rng.randint(10, 15), rng.choice((0, 0, 1))
        flat = self.arrays["P"].reshape(-1)
        flat[limit:] = value
        return [
            "for p in [0, 4):",
            "    for q in [0, 4):",
            f"        assume p * 4 + q < {limit} or P[p, q] == {value}",
        ]

    def _stmt(self, depth: int, ranges: dict[str, tuple[int, int]], arrays: dict[str, str]) -> list[str]:
        rng = self.rng
        self.count += 1
        choice = rng.random()
        if depth < 3 and choice < 0.42 and self.count < 14:
            return self._loop(depth, ranges, arrays)
        if choice < 0.6 and self.count < 16:
            return self._branch(depth, ranges, arrays)
        if choice < 0.66 and depth < 3 and self.local < 2:
            return self._storage(depth, ranges, arrays)
        if choice < 0.72:
            target = rng.choice(list(arrays))
            return [f"{target}[{self._index(ranges)}] = undef()" + rng.choice(("", " + 1"))]
        if choice < 0.76:
            cond = self._condition(ranges, arrays, True)
            return [f"if {cond}:", f"    assume {cond}", "    A[0] = A[0]"]
        return [self._store(ranges, arrays)]

    def _loop(self, depth: int, ranges: dict[str, tuple[int, int]], arrays: dict[str, str]) -> list[str]:
        rng = self.rng
        var = "ijk"[depth] + rng.choice(("", "", "x"))
        while var in ranges:
            var += "y"
        low = rng.choice((0, 0, 0, 1))
        high = rng.randint(low + 1, 5)
        end = str(high)
        if rng.random() < 0.15:
            end, high = "n", 5
        elif rng.random() < 0.15 and (outer := [v for v in ranges if v != "n"]):
            end, high = f"{outer[-1]} + 1", ranges[outer[-1]][1] + 1
        inner = {**ranges, var: (low, high - 1)}
        kind = rng.choice(("", "", "", "", " parallel", " unrolled"))
        kind = "" if kind == " parallel" else kind
        lines = [f"for {var} in [{low}, {end}){kind}:"]
        body = [line for _ in range(rng.randint(1, 2)) for line in self._stmt(depth + 1, inner, dict(arrays))]
        found = [*lines, *(f"    {line}" for line in body)]
        if rng.random() < 0.25:  # a loop like it, to be merged
            self.count += 1
            found += [*lines, f"    {self._store(inner, arrays)}"]
        return found

    def _branch(self, depth: int, ranges: dict[str, tuple[int, int]], arrays: dict[str, str]) -> list[str]:
        cond = self._condition(ranges, arrays, False)
        lines = [f"if {cond}:", *(f"    {line}" for line in self._stmt(depth, ranges, dict(arrays)))]
        if self.rng.random() < 0.2:
            lines += ["else:", *(f"    {line}" for line in self._stmt(depth, ranges, dict(arrays)))]
        elif self.rng.random() < 0.2:
            lines += [
                f"if {self._opposite(cond)}:",
                *(f"    {line}" for line in self._stmt(depth, ranges, dict(arrays))),
            ]
        return lines

    def _opposite(self, cond: str) -> str:
        return f"not ({cond})" if self.rng.random() < 0.7 else cond

    def _storage(self, depth: int, ranges: dict[str, tuple[int, int]], arrays: dict[str, str]) -> list[str]:
        name = f"T{self.local}"
        self.local += 1
        lines = [f"allocate {name}: {self.rng.choice(('int32', 'int16'))}[{SIZE}]"]
        arrays[name] = "int32"
        var = f"t{self.local}"
        high = self.rng.choice((SIZE, SIZE, 6))
        value = self.rng.choice((var, "0", "undef()", f"A[{var}]" if "float" not in self.types["A"] else "7"))
        lines += [f"for {var} in [0, {high}):", f"    {name}[{var}] = {value}"]
        for _ in range(self.rng.randint(1, 2)):
            lines += self._stmt(depth, ranges, arrays)
        return lines

    def _store(self, ranges: dict[str, tuple[int, int]], arrays: dict[str, str]) -> str:
        rng = self.rng
        target = rng.choice(list(arrays))
        dtype = self.types.get(target, "int32")
        index = self._index(ranges)
        choice = rng.random()
        if choice < 0.25:
            value = f"{target}[{index}] + " + rng.choice(("0", self._value(ranges, arrays, dtype)))
        elif choice < 0.35:
            value = f"{target}[{index}]"
        else:
            value = self._value(ranges, arrays, dtype)
        return f"{target}[{index}] = {value}"

    def _value(self, ranges: dict[str, tuple[int, int]], arrays: dict[str, str], dtype: str) -> str:
        rng = self.rng
        same = [name for name in arrays if self._kind(self.types.get(name, "int32")) == self._kind(dtype)]
        name = rng.choice(same) if same else None
        read = f"{name}[{self._index(ranges)}]" if name else "3"
        loops = list(ranges)
        if "float" in dtype:
            whole = f"{dtype}({rng.choice(loops)})"
            return rng.choice((read, f"{read} + 0.0", f"{read} * 1.0", f"max({read}, -inf)", "0.5", "0.1", whole))
        padded = f"P[{self._small(ranges)}, {self._small(ranges)}]"
        guard = self._condition(ranges, arrays, True)
        simple = (read, str(rng.randint(0, 3)), rng.choice(loops), f"{rng.choice(loops)} * 40", padded)
        return rng.choice(
            (
                *simple,
                read,
                f"{read} + {padded}",
                f"{read} * {rng.choice(loops)}",
                f"select({guard}, {simple[1]}, {read})",
            )
        )

    def _kind(self, dtype: str) -> str:
        """Types whose values go together."""
        return dtype if "float" in dtype else "int"

    def _small(self, ranges: dict[str, tuple[int, int]]) -> str:
        fit = [v for v, (low, high) in ranges.items() if low >= 0 and high < 4]
        return self.rng.choice([*fit, *fit, str(self.rng.randint(0, 3))])

    def _index(self, ranges: dict[str, tuple[int, int]]) -> str:
        rng = self.rng
        forms: list[tuple[str, int, int]] = [(str(k), k, k) for k in (0, rng.randint(0, SIZE - 1))]
        for v, (low, high) in ranges.items():
            if v == "n":
                continue
            forms += [(v, low, high)] * 3 + [(f"{v} + 1", low + 1, high + 1), (f"{v} * 2", 2 * low, 2 * high)]
            forms += [(f"{v} - 1", low - 1, high - 1), (f"{SIZE - 1} - {v}", SIZE - 1 - high, SIZE - 1 - low)]
            for w, (first, last) in ranges.items():
                if w not in (v, "n"):
                    forms.append((f"{v} * 3 + {w}", 3 * low + first, 3 * high + last))
        text, low, high = rng.choice(forms)
        return text if low >= 0 and high < SIZE else f"({text}) % {SIZE}"

    def _condition(self, ranges: dict[str, tuple[int, int]], arrays: dict[str, str], is_plain: bool) -> str:
        rng = self.rng
        loops = [v for v in ranges if v != "n"]
        v = rng.choice(loops or ["n"])
        w = rng.choice(list(ranges))
        forms = [f"{v} < {rng.randint(0, 5)}", f"{v} >= {rng.randint(0, 4)}", f"{v} == {rng.randint(0, 3)}", "n > 2"]
        forms += [f"{v} * 4 + {w} < {rng.randint(3, 15)}", f"{v} % 2 == 0", f"{v} != {w}", f"{v} < n"]
        if not is_plain:
            name = rng.choice(list(arrays))
            forms += [f"{name}[{self._index(ranges)}] {rng.choice(('<', '>=', '=='))} {rng.choice((v, '0', '1', '3'))}"]
            if "float" in self.types.get(name, "int32"):
                forms[-1] = f"{name}[{self._index(ranges)}] < {rng.choice(('0.5', '0.1', '2.0'))}"
            forms += [f"{forms[0]} and {rng.choice(forms[1:])}"]
        return rng.choice(forms)
