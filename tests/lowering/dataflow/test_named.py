"""Dataflow of plain and of random nests; accesses proved or refuted to lie in their tensors."""

import itertools
import random
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import pytest

from bound.tensor import Tensor
from intset import InputError, Var, evaluate
from intset.expr.dag import opaque_terms
from intset.expr.node import Expr
from lowering import Dataflow, Function, Source, dataflow, parse_nest
from lowering.dataflow.program import definitions, expanded
from lowering.nest.ir import Allocate, Assert, Assume, has_undef
from lowering.nest.printer import statement_lines, text
from tests.lowering.equivalence import Array, Interpreter, Place, TrapError
from tests.strategies.nests import AFFINE, Nest, nests
from tests.sweeps import RANDOMS, sampled, swept


class Written(NamedTuple):
    """Who wrote an element: kind, line, and the values of its loops."""

    kind: str
    line: int | None
    at: tuple[int, ...] | None


class Read(NamedTuple):
    """A read that happened: where, in which iteration, who wrote the element, and the last assumption since."""

    line: int
    label: str
    env: dict[Var, int]
    source: Written
    said: Written | None
    value: Any


class Run(Interpreter):
    """A run in which assumptions are made true, and unwritten elements are undefined.

    Attributes
    ----------
    reads: the reads, in order.
    stored: whether the value of a store, by line and loops, is read or remains at the end.
    """

    def __init__(self, f: Function, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        super().__init__(f, arrays, sizes)
        self.lines = statement_lines(f)
        self.reads: list[Read] = []
        self.stored: dict[tuple[int, tuple[int, ...]], bool] = {}
        self.writers: dict[tuple[Tensor, Place], tuple[Written, Written | None]] = {}
        for t in f.params:
            self._reset(t, "entry")
        self.run()
        for t in f.params:
            for place in self.storage[t].places():
                self._used(self.writers[t, place][0])

    def _reset(self, tensor: Tensor, kind: str) -> None:
        for place in self.storage[tensor].places():
            self.writers[tensor, place] = Written(kind, None, None), None

    def _used(self, written: Written) -> None:
        if written.kind == "store":
            assert written.line is not None and written.at is not None
            self.stored[written.line, written.at] = True

    def _at(self) -> tuple[int, ...]:
        return tuple(self.env[v] for v in self.loops)

    def store(self, tensor: Tensor, place: Place, value: Any) -> None:
        super().store(tensor, place, value)
        line = self.lines[self.path]
        self.stored[line, self._at()] = False
        self.writers[tensor, place] = Written("store", line, self._at()), None

    def allocate(self, stmt: Allocate) -> None:
        super().allocate(stmt)
        self.storage[stmt.tensor].elements = dict.fromkeys(self.storage[stmt.tensor].places())
        self._reset(stmt.tensor, "unwritten")

    def load(self, node: Any, tensor: Tensor, place: Place) -> Any:
        value = super().load(node, tensor, place)
        written, said = self.writers[tensor, place]
        self._used(written)
        env = {v: self.env[v] for v in self.loops}
        self.reads.append(Read(self.lines[self.path], text(node), env, written, said, value))
        return value

    def assume(self, stmt: Assume | Assert) -> None:
        """Make an assumption true; two that contradict each other are a trap."""
        found = [(w, t, i, v) for w, t, i, v in definitions(expanded(stmt.cond, {})) if w.is_complete]
        if not has_undef(stmt.cond):
            self.value(stmt.cond)
        for way, tensor, indices, value in found:
            if all(evaluate(c, self._integers(c)) for c in way.conditions):
                place = tuple(int(evaluate(e, self._integers(e))) for e in indices if e is not None)
                held = None if value is None else self.value(value)
                if (tensor, place) in self.writers:
                    written, said = self.writers[tensor, place]
                    if said is not None and self.storage[tensor].elements[place] != held:
                        raise TrapError("two assumptions contradict each other")
                    self.storage[tensor].elements[place] = held
                    self.writers[tensor, place] = written, Written("assume", self.lines[self.path], self._at())

    def _integers(self, node: Any) -> dict[Var, int]:
        return {v: self.env[v] for v in node.free_vars()}


def told(sources: tuple[Source, ...]) -> list[str]:
    return [f"{s.kind} {s.line} {s.at} {s.value}" for s in sources]


def flow(text: str) -> Dataflow:
    return dataflow(parse_nest(text))


def test_a_recurrence_through_a_fused_index() -> None:
    d = flow("""
def f(A: int32[16]):
    for i in [0, 4):
        for j in [0, 4):
            if i * 4 + j > 0:
                A[i * 4 + j] = A[i * 4 + j - 1]
""")
    (sources,) = d.sources(5).values()
    assert told(sources) == ["store 5 (i, j - 1) None", "store 5 (i - 1, 3) None", "entry None None None"]
    i, j = sorted(sources[0].where.free_vars(), key=lambda v: v.name)
    for a in range(4):
        for b in range(4):
            met = [s for s in sources if evaluate(s.where, dict(zip((i, j), (a, b), strict=True)))]
            assert len(met) == (a * 4 + b > 0)
            if met:
                assert met[0].kind == ("entry" if a * 4 + b == 1 else "store")
    assert str(d.dead(5)) == "False"
    read, written = d.touched("A")
    assert read.is_exact and written.is_exact and (0,) in read and (0,) not in written and (15,) not in read


def test_bad_questions() -> None:
    d = flow("def f(A: int32[8]):\n    A[0] = 1\n    if A[0] > 1:\n        A[1] = 2\n    else:\n        A[1] = 3\n")
    for line in (0, 1, 5, 7, "2", True):
        with pytest.raises(InputError):
            d.sources(line)
    with pytest.raises(InputError, match="line 3 stores nothing"):
        d.dead(3)
    with pytest.raises(InputError, match="B"):
        d.touched("B")
    with pytest.raises(InputError):
        dataflow("def f(): pass")
    assert d.sources(2) == {} and [s.kind for s in d.sources(3)["A[0]"]] == ["store"]


@pytest.mark.parametrize(("rows", "columns"), [(2, 5), (4, 5), (3, 13), (2, 20)])
def test_stores_under_a_remainder_are_live_where_they_come_last(rows: int, columns: int) -> None:
    """isl's extremum of unsorted constraints dropped stores that are live."""
    nest = parse_nest(f"""
def f(M: int32[2, 4]):
    for i in [0, {rows}):
        for j in [0, {columns}):
            if (j + 3) % 7 != 5:
                M[j % 2, j % 4] = j
""")
    instances = [(i, j) for i in range(rows) for j in range(columns) if (j + 3) % 7 != 5]
    last = {(j % 2, j % 4): (i, j) for i, j in instances}
    dead = dataflow(nest).dead(5)
    names = {v.name: v for v in dead.free_vars()}
    found = {x for x in instances if evaluate(dead, {names[k]: v for k, v in zip("ij", x, strict=True) if k in names})}
    assert found == set(instances) - set(last.values())


def holds(cond: object, env: dict[Var, int]) -> bool:
    return bool(evaluate(cond, {v: env[v] for v in cond.free_vars()}))


def places(tensor: Tensor, size: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(evaluate(e, dict.fromkeys(e.free_vars(), size))) for e in tensor.extents))


def check(nest: Nest) -> int:
    """Compare dataflow with runs of several sizes; gives the number of comparisons."""
    f = parse_nest(nest.text)
    d = dataflow(f)
    entries = random.Random(len(nest.text))
    checked = 0
    for size in (0, 1, 3, 4):
        arrays = {t.name: {place: entries.randint(0, 3) for place in places(t, size)} for t in f.params}
        try:
            run = Run(f, arrays, dict.fromkeys("n", size))
        except TrapError:
            continue
        sizes = dict.fromkeys(f.sizes, size)
        for read in run.reads:
            check_read(d.sources(read.line)[read.label], read, sizes, nest.exact)
            checked += 1
        for (line, at), was_read in run.stored.items():
            loops = list(d._site(line).loop.vars)
            is_dead = holds(d.dead(line), {**sizes, **dict(zip(loops, at, strict=True))})
            assert not (is_dead and was_read), (line, at, d.dead(line))
            assert is_dead or was_read or not nest.exact, (line, at, d.dead(line))
            checked += 1
    return checked


def check_read(sources: tuple[object, ...], read: Read, sizes: dict[Var, int], exact: bool) -> None:
    env = {**sizes, **read.env}
    met = [s for s in sources if holds(s.where, env)]
    assert len(met) == 1, (read, met)
    (source,) = met
    if source.kind == "unknown":
        assert not exact, read
        return
    at = source.at if source.at is None else tuple(evaluate(e, {v: env[v] for v in e.free_vars()}) for e in source.at)
    expected = [read.said or read.source] if exact else [read.said, read.source]  # said under a guard from data: either
    assert Written(source.kind, source.line, at) in expected, (read, source)
    value = source.value
    if isinstance(value, Expr) and not opaque_terms(value):
        assert evaluate(value, {v: env[v] for v in value.free_vars()}) == read.value, (read, source)


@swept({
    "affine": (11, 1500, nests(kinds=AFFINE, most=7, size=8), {True}),
    "with data": (11, 1500, nests(kinds=AFFINE | {"data"}, most=7, size=8), {True}),
})  # fmt: skip
def test_sources_and_dead_stores_of_nests(nest: Nest) -> bool:
    return check(nest) > 30


def drawn(rng: Random) -> tuple[str, str, str, list[int]]:
    """An index and a guard over two loops, and the text of a nest with them."""
    i, j = rng.randint(1, 5), rng.randint(1, 4)
    a, b, c = rng.choice([-2, -1, 1, 2, 3]), rng.choice([-1, 0, 1, 2]), rng.randint(-2, 3)
    index = f"i * {a} + j * {b} + {c}"
    if rng.random() < 0.3:
        index = f"({index}) {rng.choice(['// 2', '% 5'])}"
    guard = rng.choice(["i >= 0", f"i + j < {rng.randint(1, 6)}", f"{index} >= 0", f"i % 2 == {rng.randint(0, 1)}"])
    text = f"def f(A: int32[9], B: int32[40]):\n    for i in [0, {i}):\n        for j in [0, {j}):\n"
    text += f"            if {guard}:\n                A[{index}] = B[i * 8 + j]\n"
    return text, index, guard, [i, j]


@sampled(60, 600, RANDOMS, shows={"refuted", "proved"})
def test_drawn_accesses_are_what_enumeration_says(rng: Random) -> str:
    text, index, guard, ends = drawn(rng)
    read, store = dataflow(parse_nest(text)).accesses()
    assert (read.access, read.status, read.is_store, store.is_store) == ("B[i * 8 + j]", "proved", False, True)
    points = [{"i": i, "j": j} for i, j in itertools.product(*map(range, ends))]
    outside = [p for p in points if eval(guard, {}, p) and not 0 <= eval(index, {}, p) < 9]
    assert (store.status, store.point is not None) == ("refuted" if outside else "proved", bool(outside))
    assert store.line == 5 and (not outside or store.point in outside)
    return store.status


def test_contents_of_tensors_leave_an_access_open() -> None:
    f = parse_nest(
        """
        def f(A: int32[8], I: int32[8], X: float32[8]):
            for i in [0, 8):
                if X[i] > 0.0:
                    A[i + 3] = I[I[i]]
            for i in [0, 8):
                k = I[i]
                if (k >= 0) & (k < 8):
                    A[k] = select(i > 0, I[i - 1], 0)
                A[k] = I[i - 2]
        """
    )
    found = {(a.line, a.access): a for a in dataflow(f).accesses()}
    assert {key: a.status for key, a in found.items()} == {
        (3, "X[i]"): "proved", (4, "I[I[i]]"): "unknown", (4, "I[i]"): "proved", (4, "A[i + 3]"): "unknown",
        (6, "I[i]"): "proved", (8, "I[i - 1]"): "proved", (8, "A[k]"): "proved", (9, "I[i - 2]"): "refuted",
        (9, "A[k]"): "unknown",
    }  # fmt: skip
    assert found[9, "I[i - 2]"].point in ({"i": 0}, {"i": 1})
    assert found[9, "A[k]"].reason == "it depends on the contents of tensors"
