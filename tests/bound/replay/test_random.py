"""Random programs, transforms and calls: what is accepted lowers and equals numpy, what is refused can be repaired.

What calls cost: over chains, over ladders of diamonds with 2^n chains, over blocks that part loops.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.calls import counted
from bound import infer_bound, replay, te
from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.schedule import AttachType, Schedule
from bound.tensor import Tensor
from intset import Context
from intset.expr import as_expr
from tests.bound.oracle import iterations, value
from tests.bound.replay.programs import MODES, Dag, behind, given, pointwise, reduced
from tests.compilers import compilers
from tests.strategies.schedules import random_step, state_of
from tests.sweeps import daily

HOW = (
    *({}, {"nests": "split"}, {"compute": "exact"}, {"compact": True}, {"compute": "box"}, {"nests": "guard"}),
    {"compute": "exact", "compact": True},
)


def shared(s: Schedule) -> dict[Any, tuple[int, int, list[IterVar]]]:
    """For each stage, the number of loops shared with consumers and with producers, and those loops.

    A tensor without consumers shares none: its position may shrink when its loops change.
    """
    found = {}
    read = {t.op for stage in s.stages for t in stage.op.input_tensors}
    for stage in s.stages:
        pair = stage.compute_at_position if stage.op in read else 0, stage.max_producer_position
        found[stage.origin_op] = (*pair, list(stage.leaf_iter_vars[: stage.shared_loops]))
    return found


def kept(s: Schedule, before: Any, after: Any) -> None:
    """A call keeps the loops that earlier calls made shared; the position of a stage without readers shares none."""
    read_by_some = {t.op for stage in s.stages for t in stage.op.input_tensors}
    for op, (own, read, loops) in before.items():
        assert (after[op][0] >= own or op not in read_by_some) and after[op][1] >= read, op
        assert all(a is b for a, b in zip(loops, after[op][2], strict=False)), op


def asked(d: Dag, s: Schedule) -> None:
    """Questions change nothing, and answer twice alike."""
    before = state_of(s)
    t = d.rng.choice([t for t in d.tensors if t in s])
    questions = [
        lambda: str(replay.domain(s, t)),
        lambda: [repr(edge) for edge in replay.spanning_tree(s, t)],
        lambda: replay.use_chains(s, t),
        lambda: replay.common_consumers(s, t),
        lambda: [[replay.common_consumer(s, t, c), replay.dependency_chains(s, t, c)] for c in behind(s, t) if c in s],
        lambda: [
            (
                replay.matched_producer_position(here, there, pos),
                replay.matched_consumer_position(there, here, pos) if pos <= here.depth else None,
                str(replay.replay_producer_as_consumer(here, there, pos)),
                str(replay.replay_consumer_as_producer(there, here, min(pos, here.depth))),
            )
            for c in replay.consumers(s, t)
            for here, there in [(replay.domain(s, t), replay.domain(s, c))]
            for pos in range(there.depth + 1)
        ],
    ]
    for question in questions:
        assert question() == question()
    assert state_of(s) == before


def repaired(d: Dag, s: Schedule, error: replay.ReplayError) -> None:
    """Each repair works on what was refused."""
    assert error.reasons and error.repairs
    for reason in error.reasons:
        assert reason.consumer is not reason.tensor and 0 <= reason.allowed < reason.asked
    for repair in error.repairs:
        copied = s.copy()
        repair.apply(copied)
        kept(s, shared(s), shared(copied))
        d.check(copied)


def bounded(s: Schedule) -> None:
    """Each stage runs once per iteration of a shared loop. A stage that shares all loops keeps at most one element."""
    b = infer_bound(s)
    read = {t.op for stage in s.stages for t in stage.op.input_tensors}
    for stage in s.stages:
        for iv in stage.leaf_iter_vars[: stage.compute_at_position if stage.op in read else 0]:
            assert str(b[iv].extent) == "1", (stage, iv.name)
        assert stage.attach_type is AttachType.INLINE or all(iv in b for iv in stage.all_iter_vars), stage
        for t in stage.op.outputs if stage.attach_type is not AttachType.INLINE else ():
            assert b.required(t) <= b.computed(t), t
            if stage.op in read and not stage.is_output and 0 < len(stage.leaf_iter_vars) == stage.compute_at_position:
                assert all(Context().prove(as_expr(r.extent) <= 1) for r in b.allocated(t)), t


def is_legal(s: Schedule) -> bool:
    """Return whether all stages enclose their consumers, as `normalize` demands."""
    try:
        s.normalize()
    except ScheduleError:
        return False
    return True


def tried(seed: int, most: int, others: bool = False) -> tuple[int, int]:
    """One program with a few calls; gives how many loops are shared, and how many calls were refused."""
    d = Dag(seed, most, symbolic=seed % 3 == 0)
    s = d.schedule()
    d.transform(s, d.rng.randint(0, 6), others)
    if others and not is_legal(s):
        return 0, 0
    refused = 0
    for k in range(d.rng.randint(1, 4)):
        if (seed + k) % 5 == 0:
            asked(d, s)
        before, state = state_of(s), shared(s)
        o = d.call(s)
        if isinstance(o, (replay.ReplayError, str)):
            assert state_of(s) == before
        if isinstance(o, replay.ReplayError):
            refused += 1
            repaired(d, s, o)
            assert state_of(s) == before
        kept(s, state, shared(s))
        assert all(max(t.compute_at_position, t.max_producer_position) <= len(t.leaf_iter_vars) for t in s.stages)
        if d.rng.random() < 0.4:
            d.transform(s, 2)
            if others and not is_legal(s):
                return 0, refused
    d.check(s, "c" if seed % 5 == 3 and compilers() else "python", **HOW[seed % len(HOW)])
    if seed % 4 == 0:
        bounded(s)
    return sum(stage.compute_at_position for stage in s.stages), refused


@pytest.mark.parametrize(
    ("seeds", "most", "share", "least"),
    daily([(range(12), 4, 0.5, 1), *((range(k, k + 500), 12, 0.502, 21) for k in range(1000, 4000, 500))], 9),
)
def test_programs(seeds, most, share, least):
    found = [tried(seed, most) for seed in seeds]
    assert sum(1 for loops, _ in found if loops) >= share * len(found)
    assert sum(refused for _, refused in found) >= least


@pytest.mark.parametrize("seeds", daily([range(25), *(range(k, k + 500) for k in range(1000, 4000, 500))], 9))
def test_whole_tiles_of_shared_loops(seeds):
    """In a shared loop, no tile passes the end of an axis, though one does in a stage alone."""
    for seed in seeds:
        d = Dag(seed, 5, symbolic=seed % 3 == 0)
        s = d.schedule()
        d.transform(s, 5, tails=("guard", "round_up", "shift_inwards"))
        for _ in range(2):
            d.call(s)
        bounded(s)
        if seed % 7 == 0:
            d.check(s)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(4000, 5000, 250))
def test_programs_with_stages_that_are_placed_nightly(start):
    """Some stages are inlined, computed at others, parallel or vectorized before."""
    found = [tried(seed, 9, others=True) for seed in range(start, start + 250)]
    assert sum(1 for loops, _ in found if loops) > 100


def widened(seed: int) -> int:
    """Share loops in a program with consumers that have additional axes; returns the number of shared loops."""
    d = Dag.wide(seed)
    s, rng = d.schedule(), d.rng
    root = next(t for t in d.tensors if t.name == "R")
    spread = [t for t in d.computed() if t.name.startswith("S") and t.ndim > root.ndim and not t.name.endswith("b")]
    stage = s[rng.choice(spread)]
    for _ in range(rng.randint(1, 4)):
        random_step(rng, stage, ("guard", "guard", "shrink"), most=4, annotate=False)
    before = state_of(s)
    try:
        replay.compute_at(s, root, stage.op.output(0), rng.randint(1, len(stage.leaf_iter_vars)), rng.choice(MODES))
    except replay.ReplayError as error:
        assert state_of(s) == before
        repaired(d, s, error)
    d.check(s, **HOW[seed % len(HOW)])
    if seed % 3 == 0:
        bounded(s)
    return sum(stage.compute_at_position for stage in s.stages)


@pytest.mark.parametrize(("seeds", "least"), daily([(range(1, 8, 2), 2), (range(12, 600), 301)], 2))
def test_loops_longer_than_those_of_a_stage(seeds, least):
    assert sum(widened(seed) > 0 for seed in seeds) >= least


def concerned(s: Schedule, producer: Tensor, consumer: Tensor) -> tuple[set[Any], set[Any]]:
    """The operations whose positions a call may raise, and those whose loops it may change; found by other means."""
    tensors = [t for stage in s.stages for t in stage.op.outputs]
    after = behind(s, producer)
    ends = {t for t in after if not behind(s, t)}
    later = after & {consumer, *behind(s, consumer)}
    on_every_way = (t for t in tensors if t in later and not (ends - {t}) & behind(s, producer, t))
    first = next(on_every_way, None)
    ways = {producer} | after
    inside = {t for t in ways if first in behind(s, t)} if first is not None else ways - ends
    ops = {t.op for t in inside}
    return ops, ops | {t.op for t in tensors if any(read.op in ops for read in t.op.input_tensors)}


@pytest.mark.parametrize(("seeds", "most", "least"), daily([(range(40), 8, 21), (range(40, 1500), 12, 1001)], 2))
def test_loops_change_only_up_to_the_common_consumer(seeds, most, least):
    changed = 0
    for seed in seeds:
        d = Dag(seed, most) if seed % 2 else Dag.wide(seed)
        s = d.schedule()
        d.transform(s, 4)
        pairs = [(p, c) for p in d.tensors if p in s for c in behind(s, p) if c in d.computed() and c in s]
        producer, consumer = d.rng.choice(sorted(pairs, key=lambda pair: (pair[0].name, pair[1].name)))
        raised, moved = concerned(s, producer, consumer)
        before = {stage.op: (str(replay.domain(s, stage.op.output(0))), shared(s)[stage.op]) for stage in s.stages}
        try:
            pos = d.rng.randint(0, len(s[consumer].leaf_iter_vars))
            replay.compute_at(s, producer, consumer, pos, MODES[seed % 3])
        except replay.ReplayError:
            continue
        for stage in s.stages:
            loops, (own, *_) = before[stage.op]
            is_same = str(replay.domain(s, stage.op.output(0))) == loops
            assert is_same or stage.op in moved, (seed, stage)
            assert stage.compute_at_position == own or stage.op in raised, (seed, stage)
            changed += not is_same
    assert changed >= least


def loops_of(d: Dag, s: Schedule) -> list[Any]:
    inside = [t for t in d.computed() if t in s]
    return [(t.name, str(replay.domain(s, t)), s[t].compute_at_position, s[t].max_producer_position) for t in inside]


def said(o: Any) -> Any:
    """What a call gave, by names."""
    if isinstance(o, replay.ReplayError):
        return [str(reason) for reason in o.reasons], [(repair.kind, repair.text) for repair in o.repairs]
    if isinstance(o, replay.Outcome):
        return o.position, [str(reason) for reason in o.reasons], [(t.name, c.name) for t, c in o.clones.items()]
    return sorted(map(str, o)) if isinstance(o, tuple) else o


def history(seed: int, order: int) -> tuple[list[Any], int]:
    """Collect all answers about a program for one order of its outputs; returns them with the number of outputs."""
    d = Dag(seed, 8, symbolic=seed % 3 == 0)
    if order:
        random.Random(seed + order).shuffle(d.outputs)
    s = d.schedule()
    d.transform(s, d.rng.randint(0, 5))
    t = d.rng.choice([t for t in d.tensors if t in s])
    found: list[Any] = [[repr(edge) for edge in replay.spanning_tree(s, t)]]
    for _ in range(3):
        found += [said(d.call(s)), loops_of(d, s)]
    return found, len(d.outputs)


@pytest.mark.parametrize(("seeds", "least"), daily([(range(20), 13), (range(100, 1500), 901)], 2))
def test_the_order_of_outputs_changes_nothing(seeds, least):
    several = 0
    for seed in seeds:
        (first, outputs), *others = [history(seed, order) for order in range(3)]
        assert all(other == first for other, _ in others), seed
        several += outputs > 1
    assert several >= least


def test_of_operations_of_one_name_the_earlier_stage():
    """The documented rule, where paths carry the same information."""
    t0 = given(8)
    left, right = pointwise("T", t0), pointwise("T", t0)
    last = te.compute((8,), lambda i: left[i] + right[i], name="U")
    for outputs in ([left.op, right.op, last.op], [right.op, left.op, last.op]):
        s = te.create_schedule(outputs)
        targets = [edge.target for edge in replay.spanning_tree(s, last)]
        assert targets[:2] == [op.output(0) for op in outputs[:2]]
    names = [edge.target.name for edge in replay.spanning_tree(te.create_schedule(last.op), last)]
    assert names == ["T", "T", "T0"]


@pytest.mark.parametrize(
    ("seeds", "most", "least"),
    [
        *((range(20), 8, 101), (range(240, 241), 8, 1), (range(1118, 1119), 10, 1)),
        pytest.param(range(60, 3000), 12, 15_001, marks=pytest.mark.nightly),
    ],
)
def test_as_many_loops_as_can_be(seeds, most, least):
    """After `inline_most` no single tensor can share another loop."""
    loops = 0
    for seed in seeds:
        d = Dag(seed, most) if seed % 3 else Dag.wide(seed)
        s = d.schedule()
        d.transform(s, 4)
        replay.inline_most(s)
        loops += sum(stage.compute_at_position for stage in s.stages)
        for t in (stage.op.output(0) for stage in s.stages if stage.op.input_tensors):
            again = s.copy()
            position = again[t].compute_at_position
            replay.inline_at(again, t, -1, "best_effort")
            assert again[t].compute_at_position == position, (seed, t)
    assert loops >= least


SIZES = [(n, m) for n in (0, 1, 2, 3, 4, 5, 7) for m in (1, 2, 3, 6)]
MOST = 30_000  # iterations that are looked at


@pytest.mark.parametrize(
    ("seeds", "least"),
    daily([((*range(8), 5298, 6186, 7074), 5), *((range(k, k + 500), 151) for k in range(5000, 8000, 500))], 9),
)
def test_no_guard_can_be_removed(seeds, least):
    """Each of them alone excludes some iteration."""
    seen = 0
    for seed in seeds:
        d = Dag(seed, 8, symbolic=seed % 3 == 0)
        s = d.schedule()
        d.transform(s, 5)
        for _ in range(2):
            d.call(s)
        b = infer_bound(s)
        names = sorted({v for e in d.tensors[0].extents for v in e.free_vars()}, key=lambda v: v.name)
        sizes = [dict(zip(names, pair, strict=False)) for pair in SIZES] if names else [{}]
        for stage in filter(b.is_computed, b.schedule.stages):
            guards = b.nest(stage).guards
            around = [(iv, b[iv]) for _, iv in reversed(b.attach_path(stage))]
            loops = around + [(loop.iv, loop.range) for loop in b.nest(stage).loops] if guards else []
            needed: set[int] = set()
            looked = 0
            for at in sizes:
                for point in iterations(loops, at) if len(needed) < len(guards) and looked < MOST else ():
                    fails = [k for k, guard in enumerate(guards) if not value(guard, point)]
                    needed |= set(fails) if len(fails) == 1 else set()
                    looked += 1
            assert len(needed) == len(guards) or looked >= MOST, (seed, stage, guards)
            seen += len(guards)
    assert seen >= least


def grown(more: Callable[[list[Any], int], list[Any]]) -> Callable[[int], list[Any]]:
    """Chains of n tensors, to which `more` adds a few at a time."""

    def made(n: int) -> list[Any]:
        ts = [pointwise("T0", given(64, n + 64, name="A"))]
        while len(ts) < n:
            ts += more(ts, len(ts))
        return ts

    return made


@grown
def chain(ts, k):
    return [pointwise(f"T{k}", ts[-1])]


@grown
def ladder(ts, k):
    left, right = pointwise(f"T{k}", ts[-1]), pointwise(f"T{k + 1}", ts[-1])
    return [left, right, pointwise(f"T{k + 2}", left, right)]


@grown
def softmaxes(ts, k):
    """Each stage reads its input and a reduction of its rows."""
    most = reduced(f"T{k}", ts[-1], by=te.max)
    e = te.compute(ts[-1].shape, lambda i, j: ts[-1][i, j] - most[i], name=f"T{k + 1}")
    total = reduced(f"T{k + 2}", e)
    return [most, e, total, te.compute(e.shape, lambda i, j: e[i, j] * total[i], name=f"T{k + 3}")]


@grown
def turned(ts, k):
    """Stages that read their input directly and transposed, which prevents sharing of both loops."""
    a = pointwise(f"T{k}", ts[-1])
    b = pointwise(f"T{k + 1}", a)
    c = te.compute((64, 64), lambda i, j: b[j, i] + 1, name=f"T{k + 2}")
    return [a, b, c, te.compute((64, 64), lambda i, j: a[i, j] + c[i, j], name=f"T{k + 3}")]


@grown
def windows(ts, k):
    """Each has an extent that no other has."""
    t, width = ts[-1], int(ts[-1].shape[1]) - 1
    return [te.compute((64, width), lambda i, j: t[i, j] + t[i, j + 1], name=f"T{k}")]


def at_two(s, ts):
    o = replay.compute_at(s, ts[0], ts[-1], 2)
    assert o.position == 2 and all(s[t].compute_at_position == 2 for t in ts[:-1])


CALLS = {
    "compute_at": lambda s, ts: replay.compute_at(s, ts[0], ts[-1], -1, "best_effort"),
    "most_inlined": lambda s, ts: replay.compute_at(s, ts[0], ts[-1], -1, "most_inlined"),
    "inline_at": lambda s, ts: replay.inline_at(s, ts[0], -1, "best_effort"),
    "inline_all_at": lambda s, ts: replay.inline_all_at(s, ts[-1], -1, "best_effort"),
    "inline_most": lambda s, ts: replay.inline_most(s),
    "propagate": lambda s, ts: replay.propagate(s, ts[-1]),
    "spanning_tree": lambda s, ts: replay.spanning_tree(s, ts[-1]),
    "common_consumer": lambda s, ts: replay.common_consumer(s, ts[0], ts[-1]),
}


def calls(make, n, call):
    """How many functions a call calls: the same number whatever else runs on the machine."""
    ts = make(n)
    s = te.create_schedule(ts[-1].op)
    if call is at_two:
        s[ts[-1]].split(s[ts[-1]].fuse(*ts[-1].op.axis), 16)
    return counted(lambda: call(s, ts)).total()


PARTED = [(make, CALLS["inline_most"], 1.15) for make in (softmaxes, turned, windows)]  # where loops part


@pytest.mark.parametrize(("make", "call", "slack"), [(chain, at_two, 1.05), (ladder, at_two, 1.05), *PARTED])
def test_calls_grow_linearly(make, call, slack):
    assert calls(make, 60, call) <= 3 * slack * calls(make, 20, call)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("make", [chain, ladder, softmaxes, turned, windows])
def test_every_call_grows_linearly(make, name):
    assert calls(make, 500, CALLS[name]) <= 5 * 1.3 * calls(make, 100, CALLS[name])
