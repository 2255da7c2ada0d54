"""Random nests about laziness: conditions that mix elements with `and`, `or` and `select`, guards around accesses and
traps, remainders, sizes, data in ranges, assumptions on what was stored."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lowering import parse_nest
from lowering.nest.ir import Function
from tests.lowering.plain_interpreter import Array, TrapError, ran

SIZE = 8
ARRAYS = "ABCD"
MAX_SIZE = 4
DRAWS = 2  # of what the arrays hold


class LazyNest:
    """A nest without traps, with arrays and sizes for it.

    Parameters
    ----------
    is_small: whether it is a loop or two behind stores of known values, which decide much in it.

    Attributes
    ----------
    text, f: the nest.
    expected: the arrays after each run: of every value of the size, on `DRAWS` draws of the arrays.
    """

    def __init__(self, seed: int, is_small: bool = False) -> None:
        self.rng = random.Random(seed)
        self.is_small = is_small
        for _ in range(400):
            self.text = self._function()
            self.f = parse_nest(self.text)
            self.inputs = [(self._arrays(), {"n": n}) for n in range(MAX_SIZE + 1) for _ in range(DRAWS)]
            try:
                self.expected = [ran(self.f, arrays, sizes) for arrays, sizes in self.inputs]
            except TrapError:
                continue
            return
        raise AssertionError(f"no nest without traps from seed {seed}")

    def check(self, f: Function) -> None:
        """Fail unless a function computes what the nest does, without a trap, for all inputs."""
        for (arrays, sizes), expected in zip(self.inputs, self.expected, strict=True):
            try:
                found = ran(f, arrays, sizes)
            except TrapError as trap:
                raise AssertionError(f"{sizes}: {trap}") from trap
            for name, array in expected.items():
                assert found[name] == array, f"{sizes}, {name}: {found[name]} instead of {array}"

    # -- text ---------------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, Array]:
        rng = self.rng
        flat: dict[str, Array] = {name: {(k,): rng.randint(-1, 3) for k in range(SIZE)} for name in ARRAYS}
        return {**flat, "M": {(k, j): rng.randint(-1, 3) for k in range(4) for j in range(SIZE)}}

    def _function(self) -> str:
        rng = self.rng
        self.names = 0
        lines: list[str] = []
        if self.is_small:
            lines = [*self._known(), *self._known(), *self._decided()]
            return self._headed(lines)
        for _ in range(rng.randint(0, 2)):
            lines += self._known()
        for _ in range(rng.randint(1, 3)):
            lines += self._stmt(0, [])
        return self._headed(lines)

    def _headed(self, lines: list[str]) -> str:
        head = ", ".join(f"{name}: int32[{SIZE}]" for name in ARRAYS)
        return f"def f({head}, M: int32[4, {SIZE}], n):\n" + "\n".join(f"    {line}" for line in lines)

    def _fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def _known(self) -> list[str]:
        """Stores of values that a pass can know."""
        rng = self.rng
        name, v = rng.choice(ARRAYS), self._fresh("v")
        if rng.random() < 0.4:
            return [f"{name}[{rng.randint(0, SIZE - 1)}] = {rng.randint(-1, 2)}"]
        low, high = rng.choice((0, 0, 0, 2)), rng.choice((SIZE, SIZE, 5))
        value = rng.choice((v, "0", f"{v} % 2", f"3 - {v}", f"select({v} < 3, 0, {v})"))
        guard = [f"    if {self._plain([v])}:"] if rng.random() < 0.25 else []
        return [f"for {v} in [{low}, {high}):", *guard, f"{'    ' * (1 + len(guard))}{name}[{v}] = {value}"]

    def _decided(self) -> list[str]:
        """A loop over a branch, or a store of a choice, that known values may decide."""
        rng = self.rng
        v, name = self._fresh("i"), rng.choice(ARRAYS)
        held = f"{name}[{v}]"
        lines = rng.choice(
            (
                [f"if {self._condition([v])}:", f"    {self._store([v])}"],
                [f"{held} = select({self._condition([v])}, {held}, {self._value([v])})"],
                [f"{held} = select({self._condition([v])}, {self._value([v])}, {held})"],
                [f"if {self._condition([v])}:", f"    {held} = {self._value([v])}"],
            )
        )
        return [f"for {v} in [0, {rng.choice((5, SIZE))}):", *(f"    {line}" for line in lines)]

    def _stmt(self, depth: int, loops: Sequence[str]) -> list[str]:
        rng = self.rng
        draw = rng.random()
        if depth < 2 and (draw < 0.35 or depth == 0):
            return self._loop(depth, loops)
        if draw < 0.65 and depth < 3:
            return self._branch(depth, loops)
        if draw < 0.7:
            return self._assumption(loops)
        if draw < 0.74 and depth < 2:
            return self._local(depth, loops)
        return [self._store(loops)]

    def _body(self, depth: int, loops: Sequence[str]) -> list[str]:
        lines = [line for _ in range(self.rng.choice((1, 1, 2))) for line in self._stmt(depth, loops)]
        return [f"    {line}" for line in lines]

    def _loop(self, depth: int, loops: Sequence[str]) -> list[str]:
        rng = self.rng
        v = self._fresh("ijk"[depth])
        ends = ["[0, 5)", f"[0, {SIZE})", "[1, 6)", "[0, n)", "[0, n + 2)", "[2, 4)", "[0, 1)"]
        ends += [f"[0, {w} + 1)" for w in loops[-1:]] + [f"[{w}, 5)" for w in loops[-1:]]
        if rng.random() < 0.12:
            e = f"{rng.choice(ARRAYS)}[{rng.randint(0, 2)}]"
            ends = [f"[0, {e})", f"[{e}, 4)", f"[{e}, {e} + 1)", f"[0, minimum({e}, 4))"]
        within = rng.choice(ends)
        found = [f"for {v} in {within}:", *self._body(depth + 1, [*loops, v])]
        if rng.random() < 0.25:
            w = self._fresh("ijk"[depth])
            found += [f"for {w} in {within}:", *self._body(depth + 1, [*loops, w])]
        return found

    def _branch(self, depth: int, loops: Sequence[str]) -> list[str]:
        lines = [f"if {self._condition(loops)}:", *self._body(depth + 1, loops)]
        return [*lines, "else:", *self._body(depth + 1, loops)] if self.rng.random() < 0.25 else lines

    def _local(self, depth: int, loops: Sequence[str]) -> list[str]:
        name, v = self._fresh("T"), self._fresh("t")
        w = self._fresh("t")
        return [
            f"allocate {name}: int32[{SIZE}]",
            f"for {v} in [0, {self.rng.choice((SIZE, 5))}):",
            f"    {name}[{v}] = {self._value([*loops, v])}",
            f"for {w} in [0, {self.rng.choice((SIZE, 4, 'n'))}):",
            f"    if {self._condition([*loops, w])} and {name}[{w}] >= {self.rng.randint(0, 2)}:",
            f"        {self._store([*loops, w])}",
        ]

    def _assumption(self, loops: Sequence[str]) -> list[str]:
        """An assumption that follows from a store before it."""
        target, value = f"{self.rng.choice(ARRAYS)}[{self._index(loops)}]", self.rng.randint(0, 2)
        cond = self._condition(loops)
        said = self.rng.choice((f"{cond} or {target} == {value}", f"{target} >= {value}", f"{target} == {value}"))
        mark = self.rng.choice(("", ', "proved"'))
        if self.rng.random() < 0.5:
            return [f"{target} = {value}", f"assume {said}{mark}", self._store(loops)]
        return [f"if not ({cond}):", f"    {target} = {value}", f"assume {cond} or {target} == {value}{mark}"]

    def _store(self, loops: Sequence[str]) -> str:
        rng = self.rng
        if rng.random() < 0.12:
            return f"M[{rng.choice(('0', '1', *loops))}, {self._index(loops)}] = {self._value(loops)}"
        name, index = rng.choice(ARRAYS), self._index(loops)
        held = f"{name}[{index}]"
        value = self._value(loops)
        draw = rng.random()
        if draw < 0.12:
            value = held
        elif draw < 0.3:
            value = f"select({self._condition(loops)}, {held}, {value})"
        elif draw < 0.4:
            value = f"select({self._condition(loops)}, {value}, {held})"
        return f"{held} = {value}"

    # -- operands -----------------------------------------------------------------------------------------------

    def _index(self, loops: Sequence[str]) -> str:
        rng = self.rng
        if not loops or rng.random() < 0.2:
            return str(rng.randint(0, SIZE - 1))
        v = rng.choice(loops)
        return rng.choice((v, v, v, f"{v} + 1", f"{SIZE - 1} - {v}", f"{v} % 4", f"{v} // 2", f"{v} * 2"))

    def _value(self, loops: Sequence[str], depth: int = 0) -> str:
        rng = self.rng
        v = rng.choice((*loops, "n"))
        draw = rng.random()
        if draw < 0.25:
            return str(rng.randint(-1, 3))
        if draw < 0.4:
            return v
        if draw < 0.7 or depth > 1:
            return self._read(loops)
        if draw < 0.8:
            return f"{self._read(loops)} + {self._value(loops, depth + 1)}"
        if draw < 0.9:
            cond = self._condition(loops, depth + 1)
            return f"select({cond}, {self._value(loops, depth + 1)}, {self._value(loops, depth + 1)})"
        guard, value = self._guarded(loops)
        return f"select({guard}, {value}, {rng.randint(0, 3)})"

    def _read(self, loops: Sequence[str]) -> str:
        rng = self.rng
        if rng.random() < 0.08:
            return f"M[{rng.randint(0, 3)}, {self._index(loops)}]"
        return f"{rng.choice(ARRAYS)}[{self._index(loops)}]"

    def _guarded(self, loops: Sequence[str]) -> tuple[str, str]:
        """A condition, and a value that may be none without it."""
        rng = self.rng
        v = rng.choice((*loops, "n"))
        k = rng.randint(0, 3)
        name = rng.choice(ARRAYS)
        return rng.choice(
            (
                (f"{v} != {k}", f"{rng.randint(2, 7)} // ({v} - {k})"),
                (f"{v} > {k}", f"{name}[{v} - {k} - 1]"),
                (f"{v} < {k + 1}", f"{name}[{v} + {SIZE - 1 - k}]"),
                (f"{name}[{k}] != 0", f"5 % {name}[{k}]"),
                (f"{v} % 2 == 0 and {v} < {2 * SIZE}", f"{name}[{v} // 2]"),
            )
        )

    def _plain(self, loops: Sequence[str]) -> str:
        rng = self.rng
        v, w = rng.choice((*loops, "n")), rng.choice((*loops, "n"))
        c = rng.randint(0, 4)
        forms = (f"{v} < {c}", f"{v} >= {c}", f"{v} == {c}", f"{v} != {c}", f"{v} % 3 == {c % 3}", f"{v} + {w} < {c}")
        return rng.choice((*forms, f"{v} % 2 != 0", f"({v} + 3) % 4 < 2", f"n > {c}", f"{v} < {w}"))

    def _condition(self, loops: Sequence[str], depth: int = 0) -> str:
        rng = self.rng
        draw = rng.random()
        if draw < 0.25 or depth > 2:
            return self._plain(loops)
        if draw < 0.45:
            return f"{self._read(loops)} {rng.choice(('<', '==', '>=', '!='))} {rng.randint(-1, 3)}"
        a, b = self._condition(loops, depth + 1), self._condition(loops, depth + 1)
        if draw < 0.6:
            return f"({a} and {b})"
        if draw < 0.75:
            return f"({a} or {b})"
        if draw < 0.8:
            return f"not ({a})"
        guard, value = self._guarded(loops)
        test = f"{value} {rng.choice(('<', '==', '>='))} {rng.randint(0, 3)}"
        if draw < 0.87:
            return f"({guard} and {test})"
        if draw < 0.94:
            return f"(not ({guard}) or {test})"
        return f"select({a}, {self._read(loops)}, {rng.randint(0, 2)}) == {rng.randint(0, 2)}"
