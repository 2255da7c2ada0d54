"""`store_at`: new elements of an iteration and their storage, against nests that run one iteration at a time.

The oracle runs on storage of the size that `b.storage` claims: a cell contains the element stored last, and a read
checks that its element is still stored. It is independent of the analysis.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from bound import infer_bound, te
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.schedule import Split, Stage, Tail
from bound.tensor import ComputeOp, Tensor
from intset.expr.evaluate import compiled
from intset.expr.node import Var
from tests.bound.oracle import Instance, Point, Run, value
from tests.strategies.refusals import refused_by
from tests.strategies.schedules import Program, programs, state_of
from tests.strategies.written import Written
from tests.sweeps import daily, swept

Happens: TypeAlias = "tuple[set[Point], set[Point]]"  # what is computed, and what is read


class SlidingRun(Run):
    """A run that checks, for each read, that the cell still contains the element.

    Attributes
    ----------
    stores: number of computations of each element, per instance of its storage.
    iterations: elements computed and read by each instance of a stage, in order, per instance of storage.
    """

    def __init__(self, b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> None:
        self.held: dict[tuple[Tensor, Instance], dict[Point, Point]] = defaultdict(dict)
        self.stores: dict[tuple[Tensor, Instance], dict[Point, int]] = defaultdict(lambda: defaultdict(int))
        self.iterations: dict[tuple[Tensor, Instance], dict[Instance, Happens]] = defaultdict(dict)
        self._places: dict[Tensor, Callable[..., Point]] = {}
        self._kept: dict[Stage, tuple[Var, ...]] = {}
        super().__init__(b, sizes)

    def storage_of(self, tensor: Tensor) -> tuple[Tensor, Instance]:
        stage = self.b.stage(tensor)
        if stage not in self._kept:
            slid = self.b.slid(stage) if stage in self.nests else ()
            self._kept[stage] = tuple(v for v in self.fixed[stage] if v not in slid)
        return tensor, tuple(self.env[v] for v in self._kept[stage])

    def place(self, tensor: Tensor, point: Point) -> Point:
        if tensor not in self._places:
            coordinates = [Var(f"x{k}") for k in range(tensor.ndim)]
            index = self.b.storage(tensor).index(coordinates)
            others = list(dict.fromkeys(v for e in index for v in e.free_vars() if v not in coordinates))
            functions = [compiled(e, [*others, *coordinates]) for e in index]
            extents = [r.extent for r in self.b.allocated(tensor)]

            def found(point: Point) -> Point:
                at = tuple(int(f(*(self.env[v] for v in others), *point)) for f in functions)
                limits = [value(e, self.env) for e in extents]
                inside = all(0 <= x < limit for x, limit in zip(at, limits, strict=True))
                assert inside, f"{tensor.name}{point} is at {at}, outside of {limits}"
                return at

            self._places[tensor] = found
        return self._places[tensor](point)

    def body(self, stage: Stage, nest: Any) -> None:
        if not all(value(guard, self.env) for guard in nest.guards):
            return
        super().body(stage, nest)
        roots = {iv: value(e, self.env) for iv, e in nest.values.items()}
        assert isinstance(stage.op, ComputeOp)
        point = tuple(roots[iv] for iv in stage.op.axis)
        if all(roots[iv] == value(iv.dom.min, self.env) for iv in stage.op.reduce_axis if iv.dom is not None):
            for tensor in stage.op.outputs:
                self.held[self.storage_of(tensor)][self.place(tensor, point)] = point
                self.stores[self.storage_of(tensor)][point] += 1
                self.iteration(tensor)[0].add(point)

    def read(self, tensor: Tensor, point: Point) -> None:
        if self.b.stage(tensor) in self.nests:
            there = self.held[self.storage_of(tensor)].get(self.place(tensor, point))
            assert there == point, f"{tensor.name}{point} is read where {there} is kept"
            self.iteration(tensor)[1].add(point)
        super().read(tensor, point)

    def iteration(self, tensor: Tensor) -> Happens:
        """What is computed and read in the instance of a stage that runs now."""
        instances = self.iterations[self.storage_of(tensor)]
        return instances.setdefault(self.instance(self.b.stage(tensor)), (set(), set()))

    def smallest_modulus(self, tensor: Tensor, k: int) -> int:
        """The least number of places along axis `k` at which no two elements meet that are kept at the same time."""
        apart: set[int] = set()
        for (which, _), instances in self.iterations.items():
            steps = list(instances.values()) if which is tensor else []
            for n, (made, _) in enumerate(steps):
                computed = set().union(*(m for m, _ in steps[: n + 1]))
                live = made | (computed & set().union(*(r for _, r in steps[n:])))
                lines: dict[Point, list[int]] = defaultdict(list)
                for x in live:
                    lines[*x[:k], *x[k + 1 :]].append(x[k])
                apart |= {y - x for line in lines.values() for x in line for y in line}
        return next(f for f in range(1, max(apart, default=0) + 2) if not any(d and d % f == 0 for d in apart))


def check_sliding(b: BoundsMap, sizes: Mapping[Var, int] | None = None, exact: bool = True) -> SlidingRun:
    """Run the nests. With `exact`, check that a stage computes each element once, and none that is not read."""
    done = SlidingRun(b, sizes)
    for stage in done.nests if exact else ():
        if stage.is_output or not b.slid(stage):
            continue
        # a last tile may overlap its predecessor or exceed the read elements
        tails = {r.tail for r in stage.relations if isinstance(r, Split)} & {Tail.SHIFT_INWARDS, Tail.ROUND_UP}
        read = {point for t in stage.op.outputs for points in done.seen[t].read.values() for point in points}
        for tensor in stage.op.outputs:
            made = {point for points in done.seen[tensor].computed.values() for point in points}
            assert Tail.ROUND_UP in tails or made <= read, f"{tensor.name}: not read: {sorted(made - read)[:4]}"
            counts = [count for (one, _), counts in done.stores.items() if one is tensor for count in counts.values()]
            assert tails or max(counts, default=1) == 1, f"{tensor.name}: computed twice"
    return done


SUM3 = "three rows"
READERS = {  # what C reads of B at y and x, how many rows more B has, and how many of them a row of C needs anew
    SUM3: ("B[y, x] + B[y + 1, x] + B[y + 2, x]", 2, 1),
    "one row ahead of a gap": ("B[y, x] + B[y + 5, x]", 5, 1),
    "strided": ("B[2 * y, x] + B[2 * y + 1, x] + B[2 * y + 2, x]", 3, 2),
    "skips": ("B[3 * y, x] + B[3 * y + 1, x]", 2, 3),
    "even rows": ("B[2 * y, x] + B[2 * y + 4, x]", 5, 2),
    "downwards": ("B[12 - y, x] + B[13 - y, x] + B[14 - y, x]", 2, 1),
    "to and fro": ("B[te.max(y, 12 - y), x] + B[y, x]", 0, 1),
    "the same rows": ("B[y % 4, x]", 0, 1),
    "now and then": ("where(y % 3 < 1, B[y, x] + B[y + 1, x], 0.0)", 1, 1),
    "upsampled": ("B[y // 2, x] + B[y // 2 + 1, x]", 1, 1),
    "skewed": ("B[y + x // 2, x] + B[y + 1, x]", 3, 1),
}


def program(kind: str, calls: str) -> Written:
    read, margin, step = READERS[kind]
    return Written(f"""
        A = given({step * 12 + 1 + margin}, 5); B = pointwise(A)
        C[y:13, x:5] = {read}
        {calls}""")


PLACES = {
    "rows": "B compute_at C y; B store_root",
    "tiles": "C split y 5; B compute_at C y.inner; B store_at C y.outer",
    "points": "B compute_at C x; B store_root",
    "columns": "C reorder x y; B compute_at C y; B store_at C x",
}
TURNS = [(kind, [*PLACES][(a + b) % 4]) for a, kind in enumerate(READERS) for b in range(4)]


def elements(instances: Any) -> set[Any]:
    return {point for made, _ in instances.values() for point in made}


def total(b: BoundsMap, tensor: Any) -> Any:
    return b.computed(tensor).count_total()


@pytest.mark.parametrize(("kind", "place"), daily(TURNS, 4))
def test_every_element_is_computed_once(kind: str, place: str) -> None:
    s, B = program(kind, PLACES[place])("s B")
    b = infer_bound(s)
    done = check_sliding(b)
    counts = [count for stored in done.stores.values() for count in stored.values()]
    assert max(counts) == 1
    made = sum(len(stored) for (tensor, _), stored in done.stores.items() if tensor.name == "B")
    assert total(b, B) == made, "what the regions say is what was computed"
    assert b.computed(B).is_exact and not b.computed(B).notes
    if place != "points":
        instances = [values for (tensor, _), values in done.iterations.items() if tensor.name == "B"]
        extent = max(max(p[0] for p in e) - min(p[0] for p in e) for e in map(elements, instances)) + 1
        assert int(b.allocated(B)[0].extent) == min(done.smallest_modulus(b.schedule.current(B), 0), extent)


SUMS = """
    A = given(17, 4); B = pointwise(A)
    C[y:15, x:4] = B[y, x] + B[y + 1, x] + B[y + 2, x]
    D[y:13, x:4] = C[y, x] + C[y + 2, x]"""


def slid_tiles(tile: int) -> int:
    """How many rows of C the tiles of D compute."""
    return sum(t + 2 if t > 1 else 2 for t in (min(tile, 13 - k) for k in range(0, 13, tile)))


# a program, elements computed in all, extents of storage
SLIDING: dict[str, tuple[str, dict[str, int], dict[str, str]]] = {
    **{
        f"chains in which each stage slides, tiles of {tile}": (
            f"""{SUMS}
        D split y {tile}; B compute_at D y.inner; B store_at D y.outer; C compute_at D y.inner; C store_at D y.outer""",
            {"C": slid_tiles(tile) * 4}, {},
        )
        for tile in (1, 3, 4, 13, 20)
    },
    "a stage in the loops of one that slides itself": (
        f"{SUMS}\n    C compute_at D y; C store_root; B compute_at C y; B store_root", {"B": 17 * 4, "C": 15 * 4}, {}
    ),
    "several readers at different places": (
        """
        A = given(16, 4); B = pointwise(A)
        C[y:14, x:4] = B[y, x] + B[y + 2, x]
        D[y:13, x:4] = C[y, x] + C[y + 1, x] + B[y + 3, x]
        B compute_at D y; B store_root; C compute_at D y; C store_root""",
        {"B": 16 * 4, "C": 14 * 4}, {},
    ),
    "reductions slide and are slid over": (  # rows 3 to 10: minima other than 0
        """
        A = given(20, 4); k = axis(0, 2); r = axis(3, 9)
        B[y:18, x:4] = sum_(A[y + k, x], axis=k)
        C[x:4] = sum_(B[r, x] * B[r + 2, x], axis=r)
        C reorder r x; B compute_at C r; B store_root""",
        {"B": 8 * 4}, {},
    ),
    **{
        # difference counts below and above the limit of single tests
        f"a window of one far element keeps all between, {reach}": (
            f"""
        A = given({2 * reach}); B = pointwise(A)
        C[i:{reach}] = B[i] + B[i + {reach - 1}]
        B compute_at C i; B store_root""",
            {}, {"B": str(reach)},
        )
        for reach in (4, 2100)
    },
}  # fmt: skip


CHAINS = [name for name in SLIDING if "chains" in name]


@pytest.mark.parametrize("name", [*daily(CHAINS, 2), *(name for name in SLIDING if name not in CHAINS)])
def test_a_case(name: str) -> None:
    text, totals, extents = SLIDING[name]
    p = Written(text)
    b = infer_bound(p.s)
    if totals:
        check_sliding(b)
    assert {t: total(b, p.names[t]) for t in totals} == totals
    assert {t: str(b.allocated(p.names[t])[0].extent) for t in extents} == extents
    assert "chains" not in name or b.required(p.C).count_total() == 13 * 2 * 4


@pytest.mark.parametrize(
    "calls", ["B compute_at C y; B store_root", "C split y 4; B compute_at C y.inner; B store_at C y.outer"]
)
def test_a_window_as_wide_as_a_size(calls: str) -> None:
    n, r = te.size_var("n"), te.size_var("r")
    text = "A = given(n + r, 2); B = pointwise(A); k = axis(0, r + 1)\nC[y:n, x:2] = sum_(B[y + k, x], axis=k)"
    p = Written(f"{text}\n{calls}", n=n, r=r)
    b = infer_bound(p.s)
    assert str(b.allocated(p.B)[0].extent) == "r + 1"
    for sizes in ({n: 0, r: 0}, {n: 1, r: 3}, {n: 9, r: 0}, {n: 9, r: 2}, {n: 6, r: 11}):
        check_sliding(b, sizes)


WINDOW = "A = given(15, 5); B = pointwise(A)\nC[y:13, x:5] = B[y, x] + B[y + 1, x] + B[y + 2, x]\nC split y 5"
KEPT = "B compute_at C y.inner; B store_at C y.outer"
OUTER = "B compute_at C x; B store_at C y.outer"


def test_a_level_is_kept_by_copies_and_follows_its_axis() -> None:
    p = Written(f"{WINDOW}; {KEPT}")
    s, other = p.s, p.s.copy()
    yo = s[p.C].leaf_iter_vars[0]
    assert other[p.B].store_stage is other[p.C] and other[p.B].store_ivar is yo
    other[p.B].compute_root()
    assert other[p.B].store_type is None and s[p.B].store_ivar is yo
    again, tensor = pickle.loads(pickle.dumps((s, p.B)))
    assert total(infer_bound(again), tensor) == total(infer_bound(s), p.B) == (7 + 7 + 5) * 5
    p = Written(f"{WINDOW}; {OUTER}; C split x 2; C split y.outer 2")
    b = infer_bound(p.s)
    assert [iv.name for iv in b.slid(p.B)] == ["y.inner", "x.outer", "x.inner"]
    check_sliding(b)
    p = Written(f"{WINDOW}; B compute_at C y.inner; B store_at C y.inner")
    assert infer_bound(p.s).slid(p.B) == ()


REFUSED = {  # calls, and the beginning of the refusal message
    "B compute_at C y.inner; B store_at C x": "stage B: it is stored at x of C, which is inside y.inner of C",
    f"C parallel y.inner; {OUTER}": "keep what iterations of y.inner of C compute, .* runs in parallel",
    f"C vectorize y.inner; {OUTER}": "y.inner of C compute, but that loop is one vector operation",
    f"C bind y.inner threadIdx.x; {OUTER}": "y.inner of C compute, but that loop runs on threadIdx.x",
    "B store_at C y.outer": "stage B: it is stored at y.outer of C, but computed at",
    "C store_root": "stage C: store_root is not for an output",
    "s[B].store_at(s[C], C.op.axis[0])": "store_at of B of y, which is no loop any more",
    "A store_at C y.outer": "stage A: store_at is for operations made by te.comp",
    "B store_at B i0": "B does not read B",
    "s[B].store_at(C, s[C].leaf_iter_vars[0])": "stage B: store_at needs a stage of the same schedule",
    "B compute_inline; B store_root": "stage B: store_root of a stage that is",
    "B double_buffer; B store_root": "store_root of a stage with double_b",
    f"{KEPT}; B double_buffer": "double_buffer of a stage that keeps what",
    f"{KEPT}; s.cache_write(C, 'local')": "cache_write would remove",
}


test_what_is_refused_names_stage_and_loop = refused_by(
    lambda calls: infer_bound(Written(f"{WINDOW}; {calls}").s), REFUSED, ScheduleError
)


@pytest.mark.parametrize(
    ("accepted", "refused"), [("", "B store_at C x"), ("; C parallel y.inner", "B store_at C y.outer")]
)
def test_a_refused_call_changes_nothing(accepted: str, refused: str) -> None:
    p = Written(f"{WINDOW}; B compute_at C y.inner{accepted}")
    before = state_of(p.s)
    with pytest.raises(ScheduleError):
        p.then(refused)
    assert state_of(p.s) == before


@swept({
    "numbers": (25, 1200, programs(also="stored", most=4), {True}, {}),
    "sizes": (6, 600, programs(also="stored", symbolic=True), (), {}),
    "boxes": (9, 600, programs(also="stored"), {True}, {"compute": "box"}),
})  # fmt: skip
def test_random_programs(options: dict[str, str], program: Program) -> bool:
    """Programs by execution; reports whether a stage keeps elements over a loop."""
    b = program.inferred(**options)
    stored = [stage for stage in program.schedule.stages if stage.store_type is not None]
    if b is None or not any(b.slid(stage) for stage in stored):
        return False
    notes = [n for stage in b.schedule.stages if b.is_computed(stage) for n in b.computed(stage.op.output(0)).notes]
    check_sliding(b, program.values(), exact=not notes and not options)
    return True
