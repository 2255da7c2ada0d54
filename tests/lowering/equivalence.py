"""Random nests with inputs and their results: the oracle for passes and layouts, with a reference interpreter.

`PlainRuns` compares nests of int32 in the reference interpreter, for every size; `NumpyRuns` compares nests of all
types in the interpreter on numpy arrays. Both strategies reject nests that trap.
"""

import itertools
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from bound.tensor import Tensor
from bound.tir.value import NUMBER, PARAM
from intset import IntSetError, evaluate
from intset.expr import ops
from lowering import parse_nest, run
from lowering.nest.ir import Allocate, Assert, Assume, For, Function, If, Let, Padding, Seq, Stmt, Store, is_undef
from tests.strategies.nests import EVERYTHING, INTEGERS, MAX_SIZE, Nest

Place = tuple[int, ...]
Array = dict[Place, Any]


class TrapError(Exception):
    """An evaluation without a value."""


class Storage:
    """Elements of one array; bounds of its indices."""

    def __init__(self, limits: list[tuple[int, int]], elements: Array, padding: Padding | None) -> None:
        self.limits, self.elements, self.padding = limits, elements, padding

    def places(self) -> list[Place]:
        return list(itertools.product(*(range(low, high) for low, high in self.limits)))


def ran(f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int], most: int = 100_000) -> dict[str, Array]:
    """The arrays, by name, after the function ran on copies of `arrays`, in at most so many iterations.

    Raises
    ------
    TrapError: something that is evaluated has no value.
    """
    interpreter = Interpreter(f, arrays, sizes)
    interpreter.left = most
    interpreter.run()
    return {t.name: interpreter.storage[t].elements for t in f.params}


class Interpreter:
    """One run of a function. A subclass observes it through `store`, `load` and `assume`.

    Attributes
    ----------
    env: the values of sizes, names and loop variables in force.
    storage: the arrays in force, by tensor.
    loops: the loops around the current statement, outermost first.
    path: the position of the current statement in the tree.
    """

    def __init__(self, f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        self.f, self.left = f, 100_000
        self.env: dict[Any, Any] = {v: sizes[v.name] for v in f.sizes}
        self.storage: dict[Tensor, Storage] = {}
        self.loops: list[Any] = []
        self.path: tuple[int, ...] = ()
        for t in f.params:
            limits = [(0, self.value(e)) for e in t.extents]
            self.storage[t] = Storage(limits, dict(arrays[t.name]), f.padding.get(t))

    def run(self) -> None:
        self._run(self.f.body, ())

    # -- what a subclass may observe ----------------------------------------------------------------------------------

    def store(self, tensor: Tensor, place: Place, value: Any) -> None:
        self.storage[tensor].elements[place] = value

    def load(self, node: Any, tensor: Tensor, place: Place) -> Any:
        elements = self.storage[tensor].elements
        if place not in elements:
            raise TrapError(f"{tensor.name}{place} holds nothing")
        return elements[place]

    def allocate(self, stmt: Allocate) -> None:
        limits = [(low := self.value(r.min), low + self.value(r.extent)) for r in stmt.ranges]
        self.storage[stmt.tensor] = Storage(limits, {}, stmt.padding)

    def assume(self, stmt: Assume | Assert) -> None:
        if not self.known(stmt.cond):
            raise TrapError(f"false: {stmt.cond!r}")

    # -- statements ---------------------------------------------------------------------------------------------------

    def _run(self, stmt: Stmt, path: tuple[int, ...]) -> None:
        if isinstance(stmt, Seq):
            outer = dict(self.env), dict(self.storage)  # names and storage reach to the end of the sequence
            for k, part in enumerate(stmt.stmts):
                self._run(part, (*path, k))
            self.env, self.storage = outer
            return
        self.path = path
        if isinstance(stmt, For):
            self._loop(stmt, path)
        elif isinstance(stmt, If):
            if self.known(stmt.cond):
                self._run(stmt.then, (*path, 0))
            elif stmt.orelse is not None:
                self._run(stmt.orelse, (*path, 1))
        elif isinstance(stmt, Store):
            place = self._place(stmt.tensor, stmt.indices)
            self.store(stmt.tensor, place, wrapped(self.value(stmt.value), stmt.tensor.dtype))
        elif isinstance(stmt, (Assume, Assert)):
            self.assume(stmt)
        elif isinstance(stmt, Let):
            self.env[stmt.var] = self.value(stmt.value)
        elif isinstance(stmt, Allocate):
            self.allocate(stmt)
        else:
            raise NotImplementedError(type(stmt).__name__)

    def _loop(self, stmt: For, path: tuple[int, ...]) -> None:
        low, extent = self.known(stmt.range.min), self.known(stmt.range.extent)
        carried = {c.var: self.value(c.first) for c in stmt.carried}
        self.loops.append(stmt.var)
        for k in range(low, low + extent):
            self.left -= 1
            if self.left < 0:
                raise TrapError("too many iterations")
            outer = self.env
            self.env = {**outer, stmt.var: k, **carried}
            self._run(stmt.body, (*path, 0))
            carried = {c.var: self.value(c.following) for c in stmt.carried}
            self.env = outer
        self.loops.pop()

    def _place(self, tensor: Tensor, indices: Any) -> Place:
        storage = self.storage[tensor]
        at = tuple(self.known(e) for e in indices)
        if not all(low <= k < end for k, (low, end) in zip(at, storage.limits, strict=True)):
            raise TrapError(f"{tensor.name}{at} is outside")
        if storage.padding is not None:
            outer = self.env
            self.env = {**outer, **dict(zip(storage.padding.indices, at, strict=True))}
            if self.known(storage.padding.cond):
                raise TrapError(f"{tensor.name}{at} is in the padding")
            self.env = outer
        return at

    # -- operands -----------------------------------------------------------------------------------------------------

    def known(self, e: Any) -> Any:
        """The value of a condition, an index or an end of a range."""
        value = self.value(e)
        if value is None:
            raise TrapError(f"{e!r} depends on an undef()")
        return value

    def value(self, e: Any) -> Any:
        """Evaluate an operand; None is `undef()`."""
        if isinstance(e, int):
            return e
        op, args = e.op, e.args
        if op in (ops.CONST, ops.BOOL, NUMBER):
            return e.data
        if is_undef(e):
            return None
        if op in (ops.VAR, PARAM):
            return self.env[e]
        if op is ops.SELECT:
            return self.value(args[1] if self.known(args[0]) else args[2])
        if op is ops.AND:
            return all(self.known(arg) for arg in args)
        if op is ops.OR:
            return any(self.known(arg) for arg in args)
        if op is ops.LOAD:
            return self.load(e, e.data.tensor, self._place(e.data.tensor, args))
        if op is ops.ASSERTING:
            if not self.known(args[0]):
                raise TrapError("an asserted condition is false")
            return self.value(args[1])
        values = [self.value(arg) for arg in args]
        if None in values:
            return None
        if op in _DIVISIONS:
            if values[1] == 0:
                raise TrapError("a division by 0")
            return _DIVISIONS[op](*values)
        if op is ops.CAST:
            bits, signed = e.data
            return wrapped(values[0], f"{'' if signed else 'u'}int{bits}")
        return _TOTAL[op](*values)


def wrapped(value: Any, dtype: str) -> Any:
    """The value that an element of an integer type holds."""
    if value is None:
        return None
    bits = int("".join(c for c in dtype if c.isdigit()))
    low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
    return (value - low) % (1 << bits) + low


_DIVISIONS: dict[Any, Any] = {
    ops.FLOORDIV: lambda a, b: a // b,
    ops.FLOORMOD: lambda a, b: a % b,
    ops.CEILDIV: lambda a, b: -(-a // b),
    ops.TRUNCDIV: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ops.TRUNCMOD: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}
_TOTAL: dict[Any, Any] = {
    ops.ADD: lambda a, b: a + b, ops.SUB: lambda a, b: a - b, ops.MUL: lambda a, b: a * b, ops.NEG: lambda a: -a,
    ops.MIN: min, ops.MAX: max, ops.ABS: abs, ops.BITAND: lambda a, b: a & b, ops.BITOR: lambda a, b: a | b,
    ops.BITXOR: lambda a, b: a ^ b, ops.BITNOT: lambda a: ~a, ops.SHL: lambda a, b: a << b,
    ops.SHR: lambda a, b: a >> b, ops.LT: lambda a, b: a < b, ops.LE: lambda a, b: a <= b, ops.GT: lambda a, b: a > b,
    ops.GE: lambda a, b: a >= b, ops.EQ: lambda a, b: a == b, ops.NE: lambda a, b: a != b, ops.NOT: lambda a: not a,
}  # fmt: skip


def same_results(f: Function, *others: Function, most: int = 4, draws: int = 60) -> None:
    """Fail unless functions of int32 do the same to drawn arrays, for sizes from 0 to 5; some runs do not trap."""
    rng, done = random.Random(0), 0
    for draw in range(draws):
        sizes = dict.fromkeys(f.sizes, draw % 6)
        arrays = {
            t.name: {place: rng.randint(-1, most) for place in np.ndindex(*(evaluate(e, sizes) for e in t.extents))}
            for t in f.params
        }
        named = {v.name: size for v, size in sizes.items()}
        try:
            expected = ran(f, arrays, named)
        except TrapError:
            continue
        done += 1
        for other in others:
            assert ran(other, arrays, named) == expected, f"{named}, {arrays}\n{f}\n{other}"
    assert done > draws // 6


DRAWS = 2  # of the elements, for each size


class PlainRuns:
    """A nest of int32 arrays with its results for all sizes, twice each.

    Attributes
    ----------
    text, f: the nest.
    expected: the elements after each run; None is any value.

    Raises
    ------
    TrapError: the nest has no meaning for some input.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest, self.text, self.f = nest, nest.text, parse_nest(nest.text)
        draws = random.Random(nest.rng.randrange(10**6))
        self.inputs = [(self._arrays(draws), {"n": n}) for n in range(MAX_SIZE + 1) for _ in range(DRAWS)]
        self.expected = [ran(self.f, arrays, sizes, most=2000) for arrays, sizes in self.inputs]

    def _arrays(self, draws: random.Random) -> dict[str, Array]:
        arrays = {}
        for name, shape in self.nest.shapes.items():
            places = np.ndindex(*(e or 0 for e in shape))
            arrays[name] = {place: draws.randint(-1, 3) for place in places}
        if self.nest.padding is not None:
            limit, value = self.nest.padding
            arrays["M"] = {(p, q): value if p * 4 + q >= limit else k for (p, q), k in arrays["M"].items()}
        return arrays

    def agrees(self, f: Function, draw: int = 0) -> None:
        """Fail unless a function computes what the nest does, without a trap, for all inputs."""
        for (arrays, sizes), expected in zip(self.inputs, self.expected, strict=True):
            try:
                found = ran(f, arrays, sizes)
            except TrapError as trap:
                raise AssertionError(f"{sizes}: {trap}") from trap
            for name, array in expected.items():
                same = all(value is None or found[name][place] == value for place, value in array.items())
                assert same, f"{sizes}, {name}: {found[name]} instead of {array}"


def mixed(array: Any, k: int) -> Any:
    """A number that depends on all elements."""
    numbers = np.nan_to_num(array.astype("float64"), posinf=1, neginf=2).reshape(-1)
    return np.asarray((int(sum((j + 3) * x for j, x in enumerate(numbers))) * 7919 + k) % 2039)


def bump(array: Any, k: int) -> None:
    """A host function that stores one element, made of all."""
    flat = array.reshape(-1)
    if flat.size:
        flat[k % flat.size] = mixed(array, k).astype(array.dtype)


def move(source: Any, target: Any) -> None:
    """A host function of two arrays."""
    if source.size and target.size:
        target.reshape(-1)[0] = mixed(source, 0).astype(target.dtype)


class NumpyRuns:
    """A nest with arrays for one size, and its results for three draws of the `undef()`s.

    Attributes
    ----------
    text, f: the nest.
    n: the size.
    arrays: the initial elements of each parameter.
    expected: the arrays after each run.

    Raises
    ------
    IntSetError: the nest has no meaning for these arrays.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest, self.text, self.f = nest, nest.text, parse_nest(nest.text)
        self.n = nest.rng.choice((0, 1, 1, 2, MAX_SIZE))
        draws = np.random.default_rng(nest.rng.randrange(10**6))
        self.arrays: dict[str, Any] = {}
        for name, shape in nest.shapes.items():
            low = 0 if nest.types[name] == "uint8" else -3
            extents = [self.n if e is None else e for e in shape]
            self.arrays[name] = draws.integers(low, 5, extents).astype(nest.types[name])
        if nest.padding is not None:
            limit, value = nest.padding
            self.arrays["M"].reshape(-1)[limit:] = value
        self.expected = [self.ran(self.f, k) for k in range(3)]

    def ran(self, f: Function, draw: int) -> dict[str, Any]:
        """The arrays after a run; every `undef()` depends on `draw`."""
        return self.after(lambda given, undef: run(f, given, {"n": self.n}, _HOST, undef=undef), f, draw)

    def after(self, step: Callable[[dict[str, Any], Any], object], f: Function, draw: int) -> dict[str, Any]:
        """Apply a step to copies of the arrays; gives the copies."""
        drawn = random.Random(draw)
        copies = {name: array.copy() for name, array in self.arrays.items()}
        with np.errstate(all="ignore"):
            step({t.name: copies[t.name] for t in f.params}, lambda dtype: drawn.randint(-2000, 2000))
        return copies

    def agrees(self, f: Function, draw: int = 17) -> None:
        """Fail unless a function computes what the nest does, wherever that does not depend on an `undef()`."""
        self.compare(self.ran(f, draw), f)

    def compare(self, found: dict[str, Any], f: object) -> None:
        for name, array in found.items():
            first, *others = (expected[name] for expected in self.expected)
            # draws of an undef() that overflow look alike
            is_known = np.all([np.equal(first, other) for other in others], axis=0) & np.isfinite(first)
            same = np.equal(array, first) | ~is_known
            assert np.all(same), f"{name}\n{self.text}\n{f}\n{array} {first}"


_HOST = {"bump": bump, "move": move}
Runs = PlainRuns | NumpyRuns


def runs_of(nest: Nest, kind: Callable[[Nest], Any]) -> Any:
    """A nest with its results; rejects one that traps."""
    try:
        return kind(nest)
    except (TrapError, IntSetError):
        return reject()


@st.composite
def plain_runs(draw: st.DrawFn, kinds: Collection[str] = INTEGERS, **options: Any) -> PlainRuns:
    nest = Nest(draw(st.randoms(use_true_random=False)), kinds, **options)
    made: PlainRuns = runs_of(nest, PlainRuns)
    return made


@st.composite
def numpy_runs(
    draw: st.DrawFn, kinds: Collection[str] = EVERYTHING, kind: Callable[[Nest], Any] = NumpyRuns, **options: Any
) -> Any:
    return runs_of(Nest(draw(st.randoms(use_true_random=False)), kinds, **options), kind)
