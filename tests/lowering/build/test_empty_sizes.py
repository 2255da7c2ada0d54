"""Lowered schedules at all small sizes, 0 among them: arguments equal their formulas.

Programs are drawn, any of their stages among the arguments; scans have one to three states of different shapes. Arrays
for results are marked before a call: the mark shows unstored elements, and stores outside an empty array.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.errors import InputError, ScheduleError
from intset.errors import UndefinedError
from lowering import AccessError, CheckError, Function, lower, run
from tests.bound.reference import evaluate
from tests.lowering.lowered import random_array, shape_at
from tests.strategies import schedules
from tests.strategies.written import Written
from tests.sweeps import daily

MARK = -77.0
REFUSED = {"cannot be an argument: it is computed inside": "part", "which reads it, is outside that loop": "illegal"}


@dataclass
class Program:
    """A schedule, its arguments and sizes.

    Attributes
    ----------
    inlined: arguments that nothing writes.
    states: all states of a scan, which are computed together.
    """

    s: Any
    inputs: list[Any]
    results: list[Any]
    sizes: Sequence[str]
    inlined: list[Any] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)

    def points(self, most: int) -> Iterator[dict[str, int]]:
        for values in itertools.product(range(most + 1), repeat=len(self.sizes)):
            yield dict(zip(self.sizes, values, strict=True))


def pipeline(seed: int) -> Program:
    """A drawn program whose arguments are its outputs and some of its other stages."""
    rng = random.Random(seed)
    drawn = schedules.Program(rng, symbolic=True, reads=rng.choice(("inside", "loose", "loose")), most=3)
    s = drawn.schedule
    kept = [t for t in drawn.stages if t not in drawn.outputs and rng.random() < 0.6]
    inlined = [t for t in kept if s[t].attach_type.name == "INLINE"]
    results = [*drawn.outputs, *(t for t in kept if t not in inlined)]
    return Program(s, [t for t in drawn.inputs if t in s], results, [v.name for v in drawn.variables], inlined)


def scanned(seed: int) -> Program:
    rng = random.Random(seed)
    sizes = {name: te.var(name) for name in ("m", "n", "l")}
    m, rows = sizes["m"], rng.choice([1, 1, 2, 3])
    widths = [tuple(rng.choice([sizes["n"], sizes["l"], 2]) for _ in range(rng.choice([0, 1, 1, 2]))) for _ in range(3)]
    widths = widths[: rng.choice([1, 2, 2, 3])]
    X = te.placeholder((m, *widths[0]), name="X")
    states = [te.placeholder((m, *w), name=f"s{k}") for k, w in enumerate(widths)]
    inits, updates = [], []
    for k, (w, state) in enumerate(zip(widths, states, strict=True)):
        reads_x = k == 0 and rng.random() < 0.7
        inits.append(
            te.compute((rows, *w), lambda *i, r=reads_x: X[i] if r else tir.const(2.0, "float32"), name=f"i{k}")
        )
        other = rng.choice(states)
        back = rng.randint(1, rows)
        way = rng.choice(["none", "same", "sum", "first"])

        def step(t: Any, *i: Any, state: Any = state, w: Any = w, o: Any = other, b: int = back, way: str = way) -> Any:
            e = state[(t - 1, *i)] * 0.5
            if state is states[0]:
                e = e + X[(t, *i)]
            if way == "same" and o.shape[1:] == w:
                e = e + o[(t - b, *i)]
            elif way == "first":
                e = e + o[(t - b, *(0 for _ in o.shape[1:]))]
            return e

        if way == "sum" and len(other.shape) > 1:
            r = te.reduce_axis((0, other.shape[1]), f"r{k}")
            total = te.compute(
                (m, *w),
                lambda t, *i, o=other, b=back, r=r: te.sum(o[(t - b, r, *(0 for _ in o.shape[2:]))], axis=r),
                name=f"total{k}",
            )
            updates.append(te.compute((m, *w), lambda t, *i, g=step, q=total: g(t, *i) + q[(t, *i)], name=f"u{k}"))
        else:
            updates.append(te.compute((m, *w), step, name=f"u{k}"))
    outs = te.scan(inits, updates, states, inputs=[X], name="scan")
    outs = [outs] if len(widths) == 1 else list(outs)
    results: list[Any] = list(outs)
    last: Any = outs[0].op
    if rng.random() < 0.3:
        out = te.compute(outs[0].shape, lambda *i: outs[0][i] + 1.0, name="out")
        last, results = out.op, [out, *(t for t in outs if rng.random() < 0.7)]
    s = te.create_schedule(last)
    for k, u in enumerate(updates):
        if len(u.shape) > 1 and rng.random() < 0.4:
            s[u].split(u.op.axis[1], rng.choice([2, 3]))
        if rng.random() < 0.3 and inits[k] in s:
            s[inits[k]].split(inits[k].op.axis[-1], 2)
    results += [t for t in inits if rng.random() < 0.15]
    return Program(s, [X] if X in s else [], results, list(sizes), states=outs)


def marked(tensor: Any, sizes: dict[str, int]) -> Any:
    return np.full(shape_at(tensor, sizes), MARK, tensor.dtype)


def expected(program: Program, given: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any] | None:
    """What the arguments hold after a call; `None` if an element of some stage is undefined."""
    try:
        values = evaluate([*program.results, *program.states], given, sizes)
    except UndefinedError:
        return None
    return {t.name: value for t, value in zip(program.results, values, strict=False)}


def check_sizes(f: Function, program: Program, sizes: dict[str, int], backends: Sequence[str]) -> str:
    """Call a function at these sizes, and compare; says what it showed."""
    given = {t.name: random_array(t, sizes) for t in program.inputs}
    wanted = expected(program, given, sizes)
    for backend in backends:
        arrays: dict[Any, Any] = {t: marked(t, sizes) for t in (*program.results, *program.inlined)}
        named = {t: given[t.name] for t in program.inputs}
        scalars = {v: sizes[v.name] for v in f.sizes if not any(v in t.extents for t in f.params)}
        try:
            run(f, {**arrays, **named}, scalars, backend=backend)
        except CheckError:
            assert wanted is None, (sizes, backend, str(f))
            return "refused"
        assert wanted is not None or backend == "c" or not program.results, (sizes, str(f))
        for t in program.inlined:
            assert (arrays[t] == MARK).all(), (t.name, sizes, str(f))
        for t in program.results if wanted is not None else ():
            value = wanted[t.name]
            assert np.allclose(arrays[t], value, 1e-4, 1e-4), (t.name, sizes, backend, arrays[t], value, str(f))
    return "empty" if 0 in sizes.values() else "equal"


def check_program(program: Program, most: int, backends: Sequence[str], **options: Any) -> set[str]:
    args = [*program.inputs, *program.results, *program.inlined]
    try:
        f = lower(program.s, args, **options)
    except ScheduleError as error:
        (reason,) = (label for text, label in REFUSED.items() if text in str(error))
        return {reason}
    except AccessError:
        return {"outside"}
    return {check_sizes(f, program, sizes, backends) for sizes in program.points(most)}


def shown(make: Any, seeds: Sequence[int], most: int, backends: Sequence[str]) -> set[str]:
    return set().union(*(check_program(make(seed), most, backends) for seed in seeds))


@pytest.mark.parametrize("make", [pipeline, scanned])
@pytest.mark.parametrize("start", daily(range(0, 400, 5), 41))
def test_random_programs(make: Any, start: int) -> None:
    assert shown(make, range(start, start + 5), 2, ["python"]) >= {"empty", "equal"}


@pytest.mark.parametrize("make", [pipeline, scanned])
def test_compiled(make: Any) -> None:
    assert shown(make, range(2000, 2004), 2, ["c"]) >= {"empty", "equal"}


@pytest.mark.nightly
@pytest.mark.parametrize("make", [pipeline, scanned])
@pytest.mark.parametrize("start", range(3000, 5000, 50))
def test_many_random_programs(make: Any, start: int) -> None:
    assert shown(make, range(start, start + 50), 3, ["python", "c"]) >= {"empty", "equal"}


def test_states_of_a_scan_have_one_length() -> None:
    m, n = te.var("m"), te.var("n")
    a, b = te.placeholder((m,), name="a"), te.placeholder((n,), name="b")
    ia, ib = (te.compute((rows,), lambda i: tir.const(0.0, "float32"), name="i") for rows in (1, 2))
    ua, ub = te.compute((m,), lambda t: a[t - 1], name="ua"), te.compute((n,), lambda t: b[t - 1], name="ub")
    with pytest.raises(InputError, match="equally long, not m and n"):
        te.scan([ia, ia], [ua, ub], [a, b])
    with pytest.raises(InputError, match="equally many rows, not 1 and 2"):
        te.scan([ia, ib], [ua, ua], [a, a])
    wide = te.compute((1, 4), lambda i, j: tir.const(0.0, "float32"), name="wide")
    c = te.placeholder((m, 3), name="c")
    with pytest.raises(InputError, match=r"not \(1, 4\) and \(m, 3\)"):
        te.scan(wide, te.compute((m, 3), lambda t, j: c[t - 1, j], name="uc"), c)


def partly_read() -> tuple[Any, Any, Any]:
    A, B, C = Written("A = given(20); B = pointwise(A)\nC[i:10] = B[i + 5] * 2")("A B C")
    return A, B, C


@pytest.mark.parametrize("compute", ["exact", "box", "auto"])
@pytest.mark.parametrize("backend", ["python", "c"])
def test_an_intermediate_argument_is_computed_whole(compute: str, backend: str) -> None:
    A, B, C = partly_read()
    f = lower(te.create_schedule(C.op), [A, B, C], compute=compute)
    a = np.arange(20, dtype="float32")
    arrays = {A: a, B: np.full(20, MARK, "float32"), C: np.full(10, MARK, "float32")}
    run(f, arrays, backend=backend)
    np.testing.assert_array_equal(arrays[B], a + 1)
    np.testing.assert_array_equal(arrays[C], (a[5:15] + 1) * 2)


def test_bounds_say_whether_a_tensor_is_whole() -> None:
    A, B, C = partly_read()
    s = te.create_schedule(C.op)
    b = infer_bound(s)
    assert not b.computes_whole(B) and b.computes_whole(C) and not b.computes_whole(A)
    with pytest.raises(ScheduleError, match=r"B cannot be an argument: .* infer them with whole=\[B\]"):
        lower(s, [A, B, C], bounds=b)
    whole = infer_bound(s, whole=[B])
    assert whole.computes_whole(B) and whole.required(B).count_total() == 20
    assert "the caller receives it" in whole.explain(B) and whole.bytes() == 0 != b.bytes()
    assert run(lower(s, [A, B, C], bounds=whole), {A: np.ones(20, "float32")})["B"].tolist() == [2.0] * 20
    with pytest.raises(InputError, match="whole"):
        infer_bound(s, whole=[3])  # type: ignore[list-item]


@pytest.mark.parametrize("backend", ["python", "c"])
def test_an_end_behind_a_total_name_is_total(backend: str) -> None:
    """Rows of a flat tile start at `x // n`, which is 0 at `n == 0`: it no longer implies `n != 0` for the ends."""
    text = """
        A = given(n, n, dtype="int32"); T = pointwise(A); C = pointwise(T)
        C fuse i0 i1; C split i0.i1.fused nparts=3; T compute_at C i0.i1.fused.outer"""
    f = lower(Written(text, n=te.size_var("n")).s)
    for size in range(4):
        values = np.arange(size * size, dtype=np.int32).reshape(size, size)
        found = np.zeros_like(values)
        run(f, {"A": values, "C": found}, backend=backend)
        np.testing.assert_array_equal(found, values + 2)


RECURRENCE = """
    STATE = given(n, 3, dtype="int32")
    FIRST[t:1, i:3] = (i + 1).astype("int32")
    PART[t:n, i:3] = {0} * 2
    UPDATE[t:n, i:3] = PART[t, i] + {0}
    SCAN = te.scan(FIRST, UPDATE, STATE, name="scan")
    schedule {1}"""  # a row is three times the row before it; the update has two stages


@pytest.mark.parametrize("outputs", ["SCAN UPDATE", "SCAN PART", "PART SCAN UPDATE"])
@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_what_a_step_of_a_scan_computes_is_no_output(outputs: str, is_cached: bool, guarded: bool) -> None:
    before = "where(t >= 1, STATE[t - 1, i], 0)" if guarded else "STATE[t - 1, i]"
    p = Written(RECURRENCE.format(before, outputs), n=te.size_var("n"))
    if is_cached:
        p.s.cache_read(p.STATE, "local", [p.PART])
    with pytest.raises(ScheduleError, match="cannot be an output: a step of the scan scan computes it"):
        lower(p.s)
