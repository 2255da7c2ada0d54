"""Random loop nests as text: one generator for the tests of passes, dataflow, layouts and contracts.

`nests(...)` is a Hypothesis strategy, which shrinks; `Nest(seed, ...)` draws the same nests by a number. In every
choice the simplest alternative comes first, so that shrinking drops statements, loops and operands. An index is inside
its array, and a divisor is not zero, wherever it is evaluated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

SIZE = 12
MAX_SIZE = 5  # of n
TYPES = ("int32", "int32", "int8", "uint8", "int64", "float32", "float16")

STATEMENTS = {  # weight of each kind of statement
    "store": 9, "loop": 9, "guard": 5, "storage": 2, "known": 2, "undef": 1, "assumption": 2, "claim": 1, "name": 1,
    "carried": 1, "reduction": 1, "copy": 1, "parallel": 1, "host": 1, "sized": 1, "tiles": 1, "window": 2, "shared": 1,
    "twins": 2, "copied": 1,
}  # fmt: skip
OPERANDS = ("data", "traps", "floats")

# The kinds that fit a purpose. An arbitrary claim holds in few runs; only dataflow takes it as true.
EVERYTHING = frozenset((*STATEMENTS, *OPERANDS)) - {"claim"}
INTEGERS = EVERYTHING - {"host", "parallel", "floats", "sized"}
AFFINE = frozenset(("store", "loop", "guard", "storage", "undef", "claim", "name"))


class Scope(NamedTuple):
    """The names in force at a statement.

    Attributes
    ----------
    ranges: the least and the largest value of each loop variable, name and size.
    arrays: the type and the extents of each array, for local storage those of its written part.
    depth: the number of loops around the statement.
    """

    ranges: Mapping[str, tuple[int, int]]
    arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    depth: int = 0

    def inside(self, name: str, low: int, high: int) -> Scope:
        """The scope inside a loop."""
        return Scope({**self.ranges, name: (low, high)}, self.arrays, self.depth + 1)

    def named(self, name: str, low: int, high: int) -> Scope:
        return Scope({**self.ranges, name: (low, high)}, self.arrays, self.depth)

    def holding(self, name: str, dtype: str, shape: tuple[int, ...]) -> Scope:
        return Scope(self.ranges, {**self.arrays, name: (dtype, shape)}, self.depth)

    @property
    def loops(self) -> list[str]:
        return [v for v in self.ranges if v != "n"]


class Nest:
    """The text of a loop nest over arrays `A`, `B`, `C`, `M` and a size `n`.

    Parameters
    ----------
    rng: makes every choice; a number is a seed.
    kinds: the kinds of statements and operands that may occur: names of `STATEMENTS`; `data` (conditions, indices and
        ends of loops read elements), `traps` (a condition guards a division by 0 or an access outside), `floats`
        (arrays of other types than int32).
    most: the largest number of statements, roughly.

    Attributes
    ----------
    text: the nest.
    types: the element type of each parameter.
    shapes: the extents of each parameter; None stands for `n`.
    padding: the elements of `M` from a flat position on hold one value, by an assumption; None without one.
    """

    def __init__(
        self, rng: random.Random | int, kinds: Collection[str] = EVERYTHING, most: int = 12, size: int = SIZE
    ) -> None:
        self.rng = rng if isinstance(rng, random.Random) else random.Random(rng)
        self.kinds, self.size, self.left, self.count = frozenset(kinds), size, self.rng.randint(2, most), 0
        self.exact = "data" not in kinds
        pick = self.rng.choice
        self.types = {name: pick(TYPES) if "floats" in self.kinds else "int32" for name in "ABC"}
        self.shapes: dict[str, tuple[int | None, ...]] = {**dict.fromkeys("ABC", (size,)), "M": (4, 4)}
        self.types["M"] = "int32"
        self.padding: tuple[int, int] | None = None
        arrays = {name: (self.types[name], (size,)) for name in "ABC"}
        lines: list[str] = []
        if "assumption" in self.kinds and self._chance(40):
            self.padding = limit, value = self.rng.randint(10, 15), pick((0, 0, 1))
            head = ["for p in [0, 4):", "    for q in [0, 4):"]
            lines += [*head, f"        assume p * 4 + q < {limit} or M[p, q] == {value}"]
        else:
            arrays["M"] = "int32", (4, 4)
        scope = Scope({"n": (0, MAX_SIZE)}, arrays)
        for _ in range(self.rng.randint(1, 4)):
            lines += self._statement(scope)
        if "sized" in self.kinds:
            self.types["Q"], self.shapes["Q"] = "int32", (None,)
        head = ", ".join(
            f"{name}: {self.types[name]}[{', '.join('n' if e is None else str(e) for e in shape)}]"
            for name, shape in self.shapes.items()
        )
        self.text = f"def f({head}, n):\n" + "\n".join(_in(lines)) + "\n"

    def __repr__(self) -> str:
        return self.text

    def _chance(self, percent: int) -> bool:
        return self.rng.randrange(100) >= 100 - percent

    def _fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _one_of(self, *ways: tuple[int, Callable[..., Any]]) -> Callable[..., Any]:
        """One of the functions, by their weights."""
        k = self.rng.randrange(sum(weight for weight, _ in ways))
        for weight, way in ways:
            if k < weight:
                return way
            k -= weight
        raise AssertionError

    # -- statements ---------------------------------------------------------------------------------------------------

    def _statement(self, scope: Scope) -> list[str]:
        self.left -= 1
        is_last = self.left <= 0 or scope.depth > 2
        kinds = [kind for kind in STATEMENTS if kind in self.kinds and not is_last] or ["store"]
        write = self._one_of(*((STATEMENTS[kind], getattr(self, f"_{kind}")) for kind in kinds))
        lines: list[str] = write(scope)
        return lines

    def _body(self, scope: Scope) -> list[str]:
        return _in([line for _ in range(self.rng.choice((1, 1, 2))) for line in self._statement(scope)])

    def _store(self, scope: Scope) -> list[str]:
        name = self.rng.choice(list(scope.arrays))
        target, dtype = self._element(scope, name), scope.arrays[name][0]
        value = self._value(scope, dtype)
        return [
            self._one_of(
                (60, lambda: f"{target} = {value}"),
                (12, lambda: f"{target} = {target} + {value}"),
                (8, lambda: f"{target} = {target}"),
                (10, lambda: f"{target} = select({self._condition(scope)}, {target}, {value})"),
                (10, lambda: f"{target} = select({self._condition(scope)}, {value}, {target})"),
            )()
        ]

    def _undef(self, scope: Scope) -> list[str]:
        return [f"{self._element(scope)} = undef(){self.rng.choice(('', ' + 1'))}"]

    def _loop(self, scope: Scope) -> list[str]:
        """A loop; sometimes a second one of the same range follows, to be merged."""
        rng, var = self.rng, self._fresh("ijk"[min(scope.depth, 2)])
        low, end, first, last = self._range(scope)
        kind = rng.choice(("", "", "", "", " unrolled")) if not self.exact else ""
        has_twin = self._chance(30)
        if has_twin:  # two shared arrays: dependent loops
            few = rng.sample(list(scope.arrays), min(2, len(scope.arrays)))
            scope = scope._replace(arrays={name: scope.arrays[name] for name in few})
        lines = [f"for {var} in [{low}, {end}){kind}:", *self._body(scope.inside(var, first, last))]
        if has_twin:
            other = self._fresh("i")
            lines += [f"for {other} in [{low}, {end}){kind}:", *_in(self._store(scope.inside(other, first, last)))]
        return lines

    def _twins(self, scope: Scope) -> list[str]:
        """Two loops over one range and two arrays, at indices that differ by an iteration or by none."""
        rng = self.rng
        low, end, first, last = self._range(scope)
        flat = [name for name, (_, shape) in scope.arrays.items() if len(shape) == 1 and -1 < first <= last < shape[0]]
        if len(flat) < 2:
            return self._loop(scope)
        few = scope._replace(arrays={name: scope.arrays[name] for name in rng.sample(flat, 2)})
        is_parallel = "parallel" in self.kinds and self._chance(20)
        lines: list[str] = []
        for _ in range(2):
            v = self._fresh("i")
            target, source = rng.sample(list(few.arrays), 2)
            dtype, read = few.arrays[target][0], source
            if not self._alike(few.arrays[source][0], dtype):
                read = target
            moves = [k for k in (0, 0, 0, 1, -1) if first + k >= 0 and last + k < few.arrays[target][1][0]]
            more = f" + {rng.choice((v, '1'))}" if "float" not in dtype else ""
            body = [f"{target}[{v}{_plus(rng.choice(moves))}] = {read}[{v}{_plus(rng.choice(moves))}]{more}"]
            if is_parallel:
                body = [f"{target}[{v}] = {target}[{v}]{more}"]
            elif self._chance(20):
                body = self._store(few.inside(v, first, last))
            if self._chance(25):
                body = [f"if {v} {rng.choice(('<', '>=', '!='))} {rng.randint(0, 3)}:", *_in(body)]
            lines += [f"for {v} in [{low}, {end}){' parallel' if is_parallel else ''}:", *_in(body)]
        return lines

    def _range(self, scope: Scope) -> tuple[str, str, int, int]:
        """Both ends of a loop as text, its least and its largest iteration."""
        rng = self.rng
        k = rng.randint(1, 5)
        ends: list[tuple[str, str, int, int]] = [("0", str(k), 0, k - 1)] * 4 + [("1", str(k + 1), 1, k)]
        ends += [("0", "n", 0, 4), ("2", "2", 2, 2)]
        if not self.exact:
            ends += [("0", "n + 2", 0, 6), ("0", str(self.size), 0, self.size - 1), ("-2", str(k), -2, k - 1)]
            ends += [("-3", f"{k} - n", -3, k - 1), ("-1", f"minimum({k}, n)", -1, k - 1)]
        for v in scope.loops[-1:]:
            low, high = scope.ranges[v]
            if high <= 8:
                ends += [("0", f"{v} + 1", 0, max(high, 0)), (v, "5", low, max(low, 4)), (v, f"{v} + 3", low, high + 2)]
        if "data" in self.kinds and self._chance(10) and (e := self._number(scope)):
            ends = [("0", f"minimum({e}, 4)", 0, 3), (f"maximum({e}, 0)", "5", 0, 4), (e, f"{e} + 1", -99, 99)]
        return rng.choice(ends)

    def _guard(self, scope: Scope) -> list[str]:
        """A branch; sometimes with `else`, or followed by a branch on the opposite condition."""
        cond = self._condition(scope)
        lines = [f"if {cond}:", *self._body(scope)]
        if self._chance(25):
            return [*lines, "else:", *self._body(scope)]
        return [*lines, f"if not ({cond}):", *self._body(scope)] if self._chance(15) else lines

    def _storage(self, scope: Scope) -> list[str]:
        """Local storage, stored to in whole or from 0 on, read by later statements, sometimes copied."""
        rng, name, var = self.rng, self._fresh("T"), self._fresh("t")
        dtype = rng.choice(("int32", "int16")) if not self.exact else "int32"
        high = rng.choice((self.size, self.size, 6))
        inner = scope.holding(name, dtype, (high,))
        value = rng.choice((self._value(scope.inside(var, 0, high - 1), dtype), var, "0", "undef()"))
        if self.exact and self._chance(50):  # other elements stay unwritten
            lines = [f"{name}[{self._index(scope, high)}] = {value.replace(var, '1')}"]
        else:
            lines = [f"for {var} in [0, {high}):", f"    {name}[{var}] = {value}"]
        after = [line for _ in range(rng.randint(1, 2)) for line in self._statement(inner)]
        same = [a for a in "ABC" if self.types[a] == dtype]
        if same and high == self.size and self._chance(35):
            after = [f"for {var}c in [0, {high}):", f"    {rng.choice(same)}[{var}c] = {name}[{var}c]"]
        return [f"allocate {name}: {dtype}[{self.size}]", *lines, *after]

    def _copied(self, scope: Scope) -> list[str]:
        """Local storage that is copied into an array, whole or in part, beside other accesses of both."""
        rng, name, v, c = self.rng, self._fresh("T"), self._fresh("t"), self._fresh("t")
        rows = [u for u in scope.loops if scope.ranges[u][0] >= 0 and scope.ranges[u][1] < 4]
        row = rng.choice(("", str(rng.randrange(4)), *rows))
        targets = [a for a in ("ABC" if not row else "M") if a in scope.arrays] or [
            a for a in "ABC" if a in scope.arrays
        ]
        if not targets:
            return self._store(scope)
        target = rng.choice(targets)
        row = row if target == "M" else ""
        dtype, shape = scope.arrays[target]
        size, put = min(4, shape[-1]), row and f"{row}, "
        own = "int8" if "floats" in self.kinds and "float" not in dtype and self._chance(20) else dtype
        local = scope.holding(name, own, (size,))
        other = row and rng.choice((f"{rng.randrange(4)}, ", f"({row} + 1) % 4, ", f"({row} + {v}) % 4, ", put))
        mine = f"{target}[{other}{rng.choice((v, f'{size - 1} - {v}', '0'))}]"
        value = rng.choice((mine, self._constant(dtype), self._read(scope.inside(v, 0, size - 1), dtype)))
        lines = [f"for {v} in [0, {size}):", f"    {name}[{v}] = {value if own == dtype else f'{v} * 100'}"]
        low, end = rng.choice(((0, size),) * 5 + ((1, size), (0, size - 1)))
        copy = [f"for {c} in [{low}, {end}):", f"    {target}[{put}{c}] = {name}[{c}]"]
        between = self._store(local) if self._chance(15) else []
        if "host" in self.kinds and not between and self._chance(20):
            between = [f"bump({target}, 1)"]
        k = rng.randrange(size)
        late = [f"{target}[{put}{k}] = {self._constant(dtype)}", f"{target}[{put}{size - 1 - k}] = {name}[{k}]"]
        after = rng.choice(([], [], [], [], self._store(local), late, late[1:]))
        return [f"allocate {name}: {own}[{size}]", *lines, *between, *copy, *after]

    def _known(self, scope: Scope) -> list[str]:
        """Stores of simple values, then a loop with conditions on them."""
        rng, w, lines = self.rng, self._fresh("w"), []
        flat = self._integers(scope, 1)
        if not flat:
            return self._store(scope)
        for name in rng.sample(flat, rng.randint(1, min(2, len(flat)))):
            lines += self._filled(name, scope.arrays[name][1][0])
        end = rng.choice((5, self.size))
        inner = scope.inside(w, 0, end - 1)
        test = f"{rng.choice(flat)}[{w}] {rng.choice(('==', '<', '>=', '!='))} {rng.randint(0, 3)}"
        test = self._condition(inner) if self._chance(70) else test
        held = f"{rng.choice(flat)}[{self._index(Scope({w: (0, end - 1)}, {}), 6)}]"
        decided = rng.choice(
            (
                [f"if {test}:", *_in(self._store(inner))],
                [f"{held} = select({test}, {held}, {self._value(inner, 'int32')})"],
                [f"{held} = select({test}, {self._value(inner, 'int32')}, {held})"],
            )
        )
        return [*lines, f"for {w} in [0, {end}):", *_in(decided)]

    def _filled(self, name: str, extent: int) -> list[str]:
        """Stores of simple values to one element or to many elements."""
        rng, v = self.rng, self._fresh("v")
        if self._chance(40):
            return [f"{name}[{rng.randrange(extent)}] = {rng.randint(0, 2)}"]
        value = rng.choice((v, "0", f"{v} % 2", f"3 - {v}", f"select({v} < 3, 0, {v})"))
        store = f"{name}[{v}] = {value}"
        lines = [f"if {self._plain(Scope({v: (0, extent), 'n': (0, MAX_SIZE)}, {}))}:", f"    {store}"]
        head = f"for {v} in [{rng.choice((0, 0, 2))}, {rng.choice((extent, extent, 5))}):"
        return [head, *_in(lines if self._chance(25) else [store])]

    def _assumption(self, scope: Scope) -> list[str]:
        """An assumption implied by a preceding store or guard."""
        rng, name = self.rng, self.rng.choice(self._integers(scope) or [""])
        cond = self._condition(scope)
        if not name or self._chance(20):
            return [f"if {cond}:", f"    assume {cond}", *_in(self._store(scope))]
        target, value = self._element(scope, name, plain=True), rng.randint(0, 3)
        mark = rng.choice(("", ', "proved"'))
        if self._chance(40):
            return [f"if not ({cond}):", f"    {target} = {value}", f"assume {cond} or {target} == {value}{mark}"]
        said = rng.choice(
            (f"{target} == {value}", f"{target} >= {value}", f"{target} != 77", f"{cond} or {target} == 1")
        )
        value = 1 if said.endswith("== 1") else value
        return [f"{target} = {value}", f"assume {said}{mark}", *self._statement(scope)]

    def _claim(self, scope: Scope) -> list[str]:
        """An assumption about an element, whatever it holds."""
        guard = f"{self._plain(scope)} or " if self._chance(50) else ""
        return [f"assume {guard}{self._element(scope)} == {self.rng.randint(0, 3)}"]

    def _name(self, scope: Scope) -> list[str]:
        name, v = self._fresh("x"), self.rng.choice(list(scope.ranges))
        low, high = scope.ranges[v]
        if "data" in self.kinds and self._chance(40) and (e := self._number(scope)):
            return [f"{name} = {e}", *self._statement(scope.named(name, -200, 200))]
        return [f"{name} = {v} * 2 + 1", *self._statement(scope.named(name, 2 * low + 1, 2 * high + 1))]

    def _carried(self, scope: Scope) -> list[str]:
        """A loop with a variable that each iteration computes for the next one."""
        var, q, step, high = self._fresh("c"), self._fresh("w"), self.rng.randint(1, 3), self.rng.randint(1, 4)
        inner = scope.inside(var, 0, high - 1).named(q, 1, 1 + step * (high - 1))
        return [f"for {var} in [0, {high}) with {q} = 1, then {q} + {step}:", *_in(self._statement(inner))]

    def _reduction(self, scope: Scope) -> list[str]:
        rng, i, k, target = self.rng, self._fresh("r"), self._fresh("k"), self.rng.choice("ABC")
        dtype = self.types[target]
        inner = Scope({**scope.ranges, i: (0, 3), k: (0, 3)}, scope.arrays, scope.depth)
        start = "0.0" if "float" in dtype else rng.choice(("0", "0", f"{target}[3]"))
        guard = [f"if {i} * 4 + {k} < {rng.randint(8, 16)}:"] if self._chance(50) else []
        read = self._read(inner, dtype) if "float" in dtype or self._chance(60) else f"M[{i}, {k}]"
        step = [f"{target}[{i}] = {target}[{i}] {rng.choice(('+', '+', '-'))} {read}"]
        loop = [f"for {k} in [0, 4):", *_in([*guard, *(_in(step) if guard else step)])]
        return [f"for {i} in [0, 4):", f"    {target}[{i}] = {start}", *_in(loop)]

    def _copy(self, scope: Scope) -> list[str]:
        """Elements copied into another array, or into themselves."""
        v, source = self._fresh("i"), self.rng.choice("ABC")
        target = self.rng.choice([name for name in "ABC" if self._alike(self.types[name], self.types[source])])
        return [f"for {v} in [0, {self.size}):", f"    {target}[{v}] = {source}[{v}]"]

    def _parallel(self, scope: Scope) -> list[str]:
        """A parallel loop whose iterations touch elements of their own."""
        rng, var = self.rng, self._fresh("p")
        target, other = rng.sample("ABC", 2)
        index = rng.choice((var, f"{self.size - 1} - {var}"))
        read = f"{other}[{var}]" if self._alike(self.types[other], self.types[target]) else f"{target}[{index}]"
        store = [f"{target}[{index}] = {rng.choice((read, f'{read} + {target}[{index}]', f'{target}[{index}]'))}"]
        guard = [f"if {var} {rng.choice(('<', '>='))} {rng.randint(0, 6)}:"] if self._chance(40) else []
        head = f"for {var} in [0, {rng.choice((self.size, 6, 'n'))}) parallel:"
        return [head, *_in([*guard, *(_in(store) if guard else store)])]

    def _host(self, scope: Scope) -> list[str]:
        a, b = self.rng.sample("ABC", 2)
        return [f"move({a}, {b})" if self._chance(30) else f"bump({a}, {self.rng.choice(list(scope.ranges))})"]

    def _sized(self, scope: Scope) -> list[str]:
        """Loops over the array of size `n`, which may be empty."""
        rng, v, w = self.rng, self._fresh("q"), self._fresh("q")
        value = rng.choice((v, f"Q[n - 1 - {v}]", f"Q[{v}] + M[0, 0]", "0"))
        lines = [f"for {v} in [0, n):", f"    Q[{v}] = {value}"]
        if self._chance(50):
            test = rng.choice((f"Q[{w}] == {value.replace(v, w)}", f"Q[{w}] >= 0", f"{w} < n - 1"))
            target = rng.choice(self._integers(scope, 1) or ["Q"])
            lines += [f"for {w} in [0, n):", f"    if {test}:", f"        {target}[{w}] = {w}"]
        return lines

    def _tiles(self, scope: Scope) -> list[str]:
        """Loops over the tiles of an array, some tiles cut off, overlapping, or walked backwards."""
        rng, flat, reach, names = self.rng, "0", 1, []
        for _ in range(rng.randint(1, 3)):
            e = rng.choice([k for k in (1, 2, 3, 4) if reach * k <= self.size])
            v = self._fresh("s")
            names.append((v, e))
            factor = e if not self._chance(20) else max(1, e - 1)
            flat = f"({flat}) * {factor} + " + rng.choice((v, v, f"{e - 1} - {v}"))
            reach *= e
        inner = Scope({**scope.ranges, **{v: (0, e - 1) for v, e in names}}, scope.arrays, 3)
        lines = self._tile(inner, flat, names)
        if self._chance(40):
            lines = [f"if {rng.choice(names)[0]} + {rng.choice(names)[0]} < {rng.randint(1, 4)}:", *_in(lines)]
        rng.shuffle(names)
        for k, (v, e) in enumerate(reversed(names)):
            ends = [("0", str(e))]
            for w, _ in names[: len(names) - 1 - k]:  # the loops around it
                ends += [("0", f"minimum({w} + 1, {e})"), (f"minimum({w}, {e - 1})", str(e)), ("0", f"{e} - {w} % {e}")]
            low, end = rng.choice(ends)
            lines = [f"for {v} in [{low}, {end}):", *_in(lines)]
        return lines

    def _tile(self, scope: Scope, flat: str, names: list[tuple[str, int]]) -> list[str]:
        """Statements on the element `flat`: one store, or two dependent stores; one read possibly outside."""
        rng = self.rng
        target, other = rng.sample("ABC", 2)
        dtype, (var, extent) = self.types[target], names[-1]
        plus = "" if "float" in dtype else f" + {var}"
        place, mine = f"{target}[{flat}]", f"{other}[{rng.choice(names)[0]}]"
        if not self._alike(self.types[other], dtype):
            return [f"{place} = {rng.choice((place, self._read(scope, dtype)))}{plus}"]
        return rng.choice(
            (
                [f"{place} = {rng.choice((place, self._read(scope, dtype)))}{plus}"],
                [f"{other}[{flat}] = {place}{plus}"],
                [f"{mine} = {mine} + {place}"],
                [f"{mine} = {place}", f"{place} = {mine}{plus}"],
                [f"{mine} = select({var} < {rng.randint(1, extent)}, {place}, {self._constant(self.types[other])})"],
                [f"{mine} = select({flat} < {self.size - 2}, {target}[{flat} + 2], {self._constant(dtype)})"],
            )
        )

    def _window(self, scope: Scope) -> list[str]:
        """A loop that reads elements where an affine index is inside, and a number elsewhere."""
        rng, v = self.rng, self._fresh("o")
        target = rng.choice("ABC")
        dtype = self.types[target]
        low, end, first, last = self._range(scope)
        inner = scope.inside(v, first, last)
        e = (
            " + ".join(
                [*(f"{rng.choice((-2, -1, 1, 1, 2))} * {w}" for w in (v, *scope.loops[-1:])), *rng.choice(((), ("n",)))]
            )
            + f" + {rng.randint(-3, 6)}"
        )
        inside = rng.choice((f"({e} >= 0) & ({e} < {self.size})", f"({e} > -1) & ~({e} >= {self.size})"))
        more = rng.choice(("", f" & ({v} >= {rng.randint(0, 3)})", f" & (~({v} == 2) | ({e} < 3))"))
        source = rng.choice([name for name in "ABC" if self._alike(self.types[name], dtype)])
        place = f"{target}[{self._index(inner, self.size)}]"
        old = rng.choice(("", f"{place} + "))
        line = f"{place} = {old}select({inside}{more}, {source}[{e}], {self._constant(dtype)})"
        kind = rng.choice(("", "", " vectorized" if place == f"{target}[{v}]" and not old and source != target else ""))
        return [f"for {v} in [{low}, {end}){kind}:", f"    {line}"]

    def _shared(self, scope: Scope) -> list[str]:
        """Stores whose indices share sums, quotients and choices."""
        rng, v, w = self.rng, self._fresh("a"), self._fresh("b")
        shared = rng.choice(
            (
                f"({v} * {rng.randint(2, 9)} + {w} + {rng.randint(0, 3)})",
                f"({v} + {w} * {rng.randint(2, 5)}) // {rng.randint(2, 4)}",
                f"select({v} < 2, {w} * 3, {v} + 5)",
                f"max({v} * 2 - 3, {w})",
            )
        )
        name = rng.choice("ABC")
        read = f"{name}[({shared} + {rng.choice((v, w))}) % {self.size}]"
        place = f"{name}[{shared} % {self.size}]"
        value = rng.choice((read, f"select(({w} >= 1) & ({shared} < 9), {read}, {self._constant(self.types[name])})"))
        inner = [f"for {w} in [0, {rng.choice(('3', '1', 'n'))}):", f"    {place} = {value}"]
        return [f"for {v} in [0, {rng.choice(('4', '1', 'n'))}):", *_in(inner)]

    # -- operands -----------------------------------------------------------------------------------------------------

    def _alike(self, a: str, b: str) -> bool:
        """Whether stores between two types need no conversion."""
        return a == b if "float" in a + b else True

    def _integers(self, scope: Scope, dims: int | None = None) -> list[str]:
        """The arrays in scope that hold integers."""
        held = scope.arrays.items()
        return [a for a, (t, shape) in held if "float" not in t and dims in (None, len(shape))]

    def _number(self, scope: Scope) -> str:
        """An element that is an integer; an empty text if no array holds integers."""
        names = self._integers(scope)
        return self._element(scope, self.rng.choice(names), plain=True) if names else ""

    def _constant(self, dtype: str) -> str:
        return self.rng.choice(("0.5", "1.0", "-inf") if "float" in dtype else ("0", "1", "3", "2"))

    def _element(self, scope: Scope, name: str | None = None, plain: bool = False) -> str:
        name = name or self.rng.choice(list(scope.arrays))
        return f"{name}[{', '.join(self._index(scope, e, plain) for e in scope.arrays[name][1])}]"

    def _index(self, scope: Scope, size: int, plain: bool = False) -> str:
        """An index inside `[0, size)`, `plain` without an element."""
        rng = self.rng
        forms: list[tuple[str, int, int]] = [("0", 0, 0), (str(k := rng.randrange(size)), k, k)]
        for v, (low, high) in scope.ranges.items():
            if v == "n" and (self.exact and scope.loops or self._chance(70)):
                continue
            forms += [(v, low, high)] * 3 + [(f"{v} + 1", low + 1, high + 1), (f"{v} * 2", 2 * low, 2 * high)]
            forms += [(f"{v} - 1", low - 1, high - 1), (f"{size - 1} - {v}", size - 1 - high, size - 1 - low)]
            forms += [(f"{v} // 2", low // 2, high // 2), (f"{v} % 4", 0, 3)]
            for w, (first, last) in scope.ranges.items():
                if w not in (v, "n"):
                    c = 1 if self.exact else 3
                    forms += [(f"{v} + {w}", low + first, high + last)]
                    forms += [(f"{v} * {c} + {w}", c * low + first, c * high + last)]
        text, low, high = rng.choice(forms)
        if "data" in self.kinds and not plain and self._chance(6) and (e := self._number(scope)):
            text, low = e, -1
        return text if low >= 0 and high < size else f"({text}) % {size}"

    def _read(self, scope: Scope, dtype: str) -> str:
        names = [name for name, (other, _) in scope.arrays.items() if self._alike(other, dtype)]
        return self._element(scope, self.rng.choice(names)) if names else self._constant(dtype)

    def _value(self, scope: Scope, dtype: str, depth: int = 0) -> str:
        rng = self.rng
        read = self._read(scope, dtype)
        v = rng.choice(list(scope.ranges))
        if "float" in dtype:
            simple = (read, self._constant(dtype), f"{dtype}({v})", "0.1")
            return rng.choice((*simple, f"{read} + 0.0", f"{read} * 1.0", f"max({read}, -inf)", f"{read} + {read}"))

        def more() -> str:
            return self._value(scope, dtype, depth + 1)

        ways: list[tuple[int, Callable[[], str]]] = [(25, lambda: read), (20, lambda: str(rng.randint(0, 3)))]
        ways.append((15, lambda: v))
        if "floats" in self.kinds:
            ways += [(5, lambda: f"{v} * 40"), (4, lambda: f"{read} * {v}")]
        if depth < 2:
            ways.append((12, lambda: f"{read} + {more()}"))
            ways.append((10, lambda: f"select({self._condition(scope, 1)}, {more()}, {more()})"))
        if "traps" in self.kinds:
            ways.append((10, lambda: self._lazily(scope)))
        return str(self._one_of(*ways)())

    def _lazily(self, scope: Scope) -> str:
        guard, value = self._guarded(scope)
        return f"select({guard}, {value}, {self.rng.randint(0, 3)})"

    def _guarded(self, scope: Scope) -> tuple[str, str]:
        """A possibly trapping value behind a preventing condition."""
        rng, v = self.rng, self.rng.choice(list(scope.ranges))
        k, e = rng.randint(0, 3), self._number(scope)
        ways = [(f"{v} != {k}", f"{rng.randint(2, 7)} // ({v} - {k})")]
        for name in self._integers(scope, 1):
            extent = scope.arrays[name][1][0]
            low, high = scope.ranges[v]
            for text, first, last in (
                (f"{v} - {k} - 1", low - k - 1, high - k - 1),
                (f"{v} + {extent - 1 - k}", low + extent - 1 - k, high + extent - 1 - k),
                (f"{v} // 2", low // 2, high // 2),
            ):
                ends = [f"{text} >= 0"] * (first < 0) + [f"{text} < {extent}"] * (last >= extent)
                ways.append((" and ".join(ends or [f"{v} % 2 == 0"]), f"{name}[{text}]"))
            ways += [(f"{e} >= 0 and {e} < {extent}", f"{name}[{e}]")] * ("data" in self.kinds)
        if "data" in self.kinds and e:
            ways += [(f"{e} != 0", f"{rng.choice(('5', v))} {rng.choice(('%', '//'))} {e}")] * 2
        return rng.choice(ways)

    def _plain(self, scope: Scope) -> str:
        """An affine comparison, or one of a remainder."""
        rng = self.rng
        v, w, c = rng.choice(scope.loops or ["n"]), rng.choice(list(scope.ranges)), rng.randint(0, 5)
        forms = (f"{v} < {c}", f"{v} >= {c}", f"{v} == {c}", f"{v} != {c}", f"{v} % 2 == 0", f"{v} + {w} < {c}")
        forms += (f"n > {c}", f"{v} < {w}", f"{v} != {w}")
        if not self.exact:
            forms += (f"{v} * 4 + {w} < {c * 3}", f"({v} + 3) % 4 < 2", f"{v} // 2 == {w}", f"{v} % 3 == {c % 3}")
        return rng.choice(forms)

    def _condition(self, scope: Scope, depth: int = 0) -> str:
        if self.exact:
            first = self._plain(scope)
            return f"{first} {self.rng.choice(('and', 'or'))} {self._plain(scope)}" if self._chance(25) else first

        def part() -> str:
            return self._condition(scope, depth + 1)

        def lazy() -> str:
            guard, value = self._guarded(scope)
            test = f"{value} {self.rng.choice(('<', '==', '>='))} {self.rng.randint(0, 3)}"
            return f"({guard} and {test})" if self._chance(50) else f"(not ({guard}) or {test})"

        ways: list[tuple[int, Callable[[], str]]] = [
            (30, lambda: self._plain(scope)),
            (20, lambda: self._compared(scope)),
        ]
        if depth < 3:
            ways += [(12, lambda: f"({part()} and {part()})"), (12, lambda: f"({part()} or {part()})")]
            ways += [(5, lambda: f"not ({part()})")]
            ways += [(5, lambda: f"select({part()}, {self._number(scope) or 'n'}, 1) == {self.rng.randint(0, 2)}")]
        if "traps" in self.kinds:
            ways.append((10, lazy))
        return str(self._one_of(*ways)())

    def _compared(self, scope: Scope) -> str:
        """A comparison of an element."""
        name = self.rng.choice(list(scope.arrays))
        is_float = "float" in scope.arrays[name][0]
        others = ("0.5", "0.1", "2.0") if is_float else (*scope.loops[-1:], "0", "1", "3", "-1")
        signs = ("<", ">=") if is_float else ("<", ">=", "==", "!=")
        return f"{self._element(scope, name)} {self.rng.choice(signs)} {self.rng.choice(others)}"


def _plus(number: int) -> str:
    return f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def nests(draw: st.DrawFn, **options: Any) -> Nest:
    """Nests with the options of `Nest`."""
    return Nest(draw(st.randoms(use_true_random=False)), **options)
