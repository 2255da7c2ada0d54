"""Programs for the tests of replay: small ones, what their schedules show, and random ones that share axes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from bound import replay, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule, Stage
from bound.tensor import Tensor
from lowering import lower, run
from tests.bound.reference import evaluate
from tests.lowering.lowered import check
from tests.strategies.written import Written, broadcast, pointwise, reduced


def given(*shape, name="T0"):
    return te.placeholder(shape, name=name)


def positions(s: Schedule, *tensors: Tensor) -> list[int]:
    return [s[t].compute_at_position for t in tensors]


def depths(s: Schedule, *tensors: Tensor) -> list[int]:
    return [s[t].max_producer_position for t in tensors]


def loops(s: Schedule, *tensors: Tensor) -> list[str]:
    """What `replay.domain` prints, without the name of the tensor."""
    return [str(replay.domain(s, t)).removeprefix(t.op.name) for t in tensors]


def lowered(s: Schedule, sizes: Mapping[str, int] | None = None, **how: Any) -> str:
    """Lower a schedule, compare a run with the reference; gives the nest."""
    return str(check(s, sizes, **how))


def refusal(s: Schedule, *args: Any, call: Any = replay.compute_at) -> replay.ReplayError:
    with pytest.raises(replay.ReplayError) as info:
        call(s, *args)
    return info.value


def kinds(error: replay.ReplayError) -> list[str]:
    return [repair.kind for repair in error.repairs]


def rules(outcome: Any) -> list[str]:
    return [reason.rule for reason in outcome.reasons]


SHOWN = {f.__name__: f for f in (positions, depths, loops)}


def written(text: str, **names: Any) -> Written:
    """A program from text; its calls are the functions of `replay`."""
    calls = {name: getattr(replay, name) for name in replay.__all__ if name[0].islower()}
    return Written(text, **calls, lowered=lowered, refusal=refusal, kinds=kinds, rules=rules, **names)


def check_shown(p: Written, expected: Mapping[str, object]) -> None:
    """Compare what a program shows: `positions T1 T2` and its like, or expressions over the names of the text."""
    for asked, value in expected.items():
        what, _, tensors = asked.partition(" ")
        if what in SHOWN:
            assert SHOWN[what](p.s, *p(tensors)) == value, asked
        else:
            p.shows({asked: value})


def two_reductions():
    """T1, read by two reductions, whose results one tensor reads."""
    t1 = pointwise("T1", given(8, 9))
    t2, t3 = reduced("T2", t1, 1, te.max), reduced("T3", t1, 1, te.min)
    t4 = pointwise("T4", t2, t3)
    return te.create_schedule(t4.op), (t1, t2, t3, t4)


KINDS = (
    *("pointwise", "pointwise", "join", "join", "join", "reduce", "reduce", "reduce_all", "best", "broadcast"),
    *("broadcast", "squeeze", "transpose", "two", "window", "repeat", "spread"),
)
TAILS = ("guard", "guard", "guard", "shrink", "round_up", "shift_inwards")
MODES = ("standard", "best_effort", "most_inlined")


class Dag:
    """Tensors of integers: pointwise, reductions, broadcasts, squeezes, transpositions, several outputs at once.

    Parameters
    ----------
    most: the largest number of operations.
    symbolic: whether some sizes are variables.
    """

    def __init__(
        self, seed: int, most: int = 7, symbolic: bool = False, ranks: tuple[int, ...] = (1, 2, 2, 2, 3)
    ) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        dims, sizes = rng.choice(ranks), (2, 3, 4, 5)
        numbers = [rng.choice(sizes) for _ in range(dims)]
        shape: list[Any] = list(numbers)
        if symbolic:
            for name, d in zip("nm", rng.sample(range(dims), min(dims, rng.choice((1, 1, 2)))), strict=False):
                shape[d] = te.var(name)
        self.tensors: list[Tensor] = [te.placeholder(shape, name="A", dtype="int32")]
        for k in range(rng.randint(2, most)):
            self.tensors += self._more(f"T{k + 1}")
        self.input = np.random.default_rng(seed).integers(-4, 5, numbers).astype("int32")
        self._finish()

    def _finish(self) -> None:
        rng = self.rng
        computed = self.tensors[1:]
        read = {t for c in computed for t in c.op.input_tensors}
        outputs = [t for t in computed if t not in read or rng.random() < 0.15]
        rng.shuffle(outputs)
        self.outputs = list(dict.fromkeys(t.op for t in outputs))
        self.wanted = {t: evaluate(t, {"A": self.input}) for op in self.outputs for t in op.outputs}

    def _more(self, name: str) -> list[Tensor]:
        rng = self.rng
        t = rng.choice(self.tensors[-3:]) if rng.random() < 0.8 else rng.choice(self.tensors)
        made: Callable[[str, Tensor], list[Tensor]] = getattr(self, f"_{rng.choice(KINDS)}")
        return made(name, t)

    def _pointwise(self, name: str, t: Tensor) -> list[Tensor]:
        return [pointwise(name, t)]

    def _reduce(self, name: str, t: Tensor, by: Any = None) -> list[Tensor]:
        if t.ndim < 2:
            return self._pointwise(name, t)
        made = reduced(name, t, self.rng.randrange(t.ndim), by or self.rng.choice((te.sum, te.max)))
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _reduce_all(self, name: str, t: Tensor) -> list[Tensor]:
        """A reduction over two axes, the rest kept."""
        if t.ndim < 3:
            return self._reduce(name, t)
        kept = self.rng.randrange(t.ndim)
        shape = _shape(t)
        rs = [te.reduce_axis((0, e), f"r{k}") for k, e in enumerate(shape) if k != kept]
        return [te.compute((shape[kept],), lambda i: te.sum(t(*rs[:kept], i, *rs[kept:]), axis=rs), name=name)]

    def _best(self, name: str, t: Tensor) -> list[Tensor]:
        """A reduction with two results."""
        best = te.comm_reducer(
            lambda x, y: (tir.Select(x[0] >= y[0], x[0], y[0]), x[1] + y[1]),
            lambda a, b: (te.min_value(a), tir.const(0, b)),
            name="best",
        )
        return self._reduce(name, t, lambda e, axis: best((e, e * 2), axis=axis))

    def _broadcast(self, name: str, t: Tensor) -> list[Tensor]:
        if t.ndim > 3:
            return self._pointwise(name, t)
        return [broadcast(name, t, self.rng.randint(0, t.ndim))]

    def _repeat(self, name: str, t: Tensor) -> list[Tensor]:
        """Add an axis that occurs in no index of the read."""
        if t.ndim > 2:
            return self._pointwise(name, t)
        d, n, shape = self.rng.randint(0, t.ndim), self.rng.choice((2, 3)), _shape(t)
        return [te.compute([*shape[:d], n, *shape[d:]], lambda *i: t(*i[:d], *i[d + 1 :]) + i[d], name=name)]

    def _spread(self, name: str, t: Tensor) -> list[Tensor]:
        """An axis of one element, which a second tensor repeats."""
        if t.ndim > 2:
            return self._pointwise(name, t)
        d, n, shape = self.rng.randint(0, t.ndim), self.rng.choice((2, 3, 5)), _shape(t)
        one = broadcast(f"{name}b", t, d)
        out = [*shape[:d], n, *shape[d:]]
        return [one, te.compute(out, lambda *i: one(*i[:d], 0, *i[d + 1 :]) * 3 + i[d], name=name)]

    def _squeeze(self, name: str, t: Tensor) -> list[Tensor]:
        shape = _shape(t)
        ones = [k for k, e in enumerate(shape) if _is_one(e)]
        if not ones or t.ndim < 2:
            return self._pointwise(name, t)
        d = self.rng.choice(ones)
        return [te.compute([*shape[:d], *shape[d + 1 :]], lambda *i: t(*i[:d], 0, *i[d:]) + 1, name=name)]

    def _transpose(self, name: str, t: Tensor) -> list[Tensor]:
        if t.ndim < 2:
            return self._pointwise(name, t)
        order, (a, b), shape = list(range(t.ndim)), self.rng.sample(range(t.ndim), 2), _shape(t)
        order[a], order[b] = order[b], order[a]
        return [te.compute([shape[k] for k in order], lambda *i: t(*(i[k] for k in order)) + 1, name=name)]

    def _two(self, name: str, t: Tensor) -> list[Tensor]:
        return list(te.compute(_shape(t), lambda *i: (t(*i) + 1, t(*i) * 2), name=name))

    def _window(self, name: str, t: Tensor) -> list[Tensor]:
        """Reads at neighbours."""
        shape = _shape(t)
        d = self.rng.randrange(t.ndim)
        if not isinstance(shape[d], int) or shape[d] < 3:
            return self._pointwise(name, t)
        out = [*shape[:d], shape[d] - 1, *shape[d + 1 :]]
        return [te.compute(out, lambda *i: t(*i) - t(*i[:d], i[d] + 1, *i[d + 1 :]), name=name)]

    def _join(self, name: str, t: Tensor) -> list[Tensor]:
        """A tensor of several, those of one element along an axis repeated along it."""
        shape = _shape(t)

        def fits(o: Tensor) -> bool:
            pairs = zip(_shape(o), shape, strict=True)
            return all(a is b or _is_one(a) or _is_one(b) or (isinstance(a, int) and a == b) for a, b in pairs)

        others = [o for o in self.tensors[1:] if o is not t and o.ndim == t.ndim and fits(o)]
        if not others:
            return self._repeat(name, t) if self.rng.random() < 0.5 else self._pointwise(name, t)
        o = self.rng.choice(others)
        out = [b if _is_one(a) else a for a, b in zip(shape, _shape(o), strict=True)]

        def read(x: Tensor, i: Any) -> Any:
            pairs = zip(i, _shape(x), out, strict=True)
            return x(*(0 if _is_one(e) and not _is_one(n) else v for v, e, n in pairs))

        return [te.compute(out, lambda *i: read(t, i) + read(o, i), name=name)]

    @classmethod
    def wide(cls, seed: int) -> Dag:
        """Make a tensor with elementwise consumers and consumers that have an additional axis."""
        d = cls(seed, 2, seed % 4 == 0, ranks=(1, 2))
        rng = d.rng
        first = d.tensors[0]
        root = te.compute(_shape(first), lambda *i: first(*i) * 2 + 1, name="R")
        d.tensors.append(root)
        kinds = [rng.choice(("pointwise", "reduce", "best", "two", "spread")) for _ in range(rng.randint(1, 2))]
        for k, kind in enumerate([*kinds, "spread"]):
            d.tensors += getattr(d, f"_{kind}")(f"S{k}", root)
        d.tensors += d._more("L")
        d._finish()
        return d

    def schedule(self) -> Schedule:
        return te.create_schedule(self.outputs)

    def computed(self) -> list[Tensor]:
        return self.tensors[1:]

    # -- transforms ---------------------------------------------------------------------------------------------------

    def transform(self, s: Schedule, times: int, others: bool = False, tails: tuple[str, ...] = TAILS) -> None:
        """Calls of the schedule language; what is refused is left out.

        Parameters
        ----------
        others: whether stages are placed and annotated, too.
        tails: of splits; the last one is not for reductions.
        """
        rng = self.rng
        for _ in range(times):
            stage = s[rng.choice([t for t in self.computed() if t in s])]
            leaves = stage.leaf_iter_vars
            if not leaves:
                continue
            kind = rng.choice(("split", "split", "split", "fuse", "fuse", "reorder", "reorder", "unroll", "place"))
            try:
                if kind == "split":
                    tail = rng.choice(tails[:-1] if stage.op.reduce_axis else tails)
                    how = {"factor": rng.choice((2, 3))} if rng.random() < 0.7 else {"nparts": rng.choice((2, 2, 3))}
                    stage.split(rng.choice(leaves), tail=tail, **how)
                elif kind == "fuse" and len(leaves) > 1:
                    k = rng.randrange(len(leaves) - 1)
                    stage.fuse(leaves[k], leaves[k + 1])
                elif kind == "reorder" and len(leaves) > 1:
                    stage.reorder(*rng.sample(list(leaves), 2))
                elif kind == "place" and others:
                    self._place(s, stage)
                elif kind == "unroll" and rng.random() < 0.2:
                    stage.unroll(rng.choice(leaves))
            except ScheduleError:
                pass

    def _place(self, s: Schedule, stage: Stage) -> None:
        """A call of the schedule language that says where a stage is computed, or how a loop runs."""
        rng = self.rng
        kind = rng.choice(("at", "at", "inline", "parallel", "vectorize", "root"))
        leaf = rng.choice(stage.leaf_iter_vars)
        if kind == "at":
            below = [s[t] for t in self.computed() if t in s and stage.op.outputs[0] in behind(s, t)]
            if below:
                rng.choice(below).compute_at(stage, leaf)
        elif kind == "inline":
            stage.compute_inline()
        elif kind == "parallel":
            stage.parallel(leaf)
        elif kind == "vectorize":
            stage.vectorize(stage.leaf_iter_vars[-1])
        else:
            stage.compute_root()

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, s: Schedule) -> Any:
        """One call of replay; a refusal is returned."""
        rng = self.rng
        inside = [t for t in self.tensors if t in s]
        kind = rng.choice(("at", "at", "at", "inline", "all", "most", "propagate"))
        mode = rng.choice(MODES)
        try:
            if kind == "most":
                return replay.inline_most(s)
            t = rng.choice([t for t in inside if t in self.computed()])
            depth = len(s[t].leaf_iter_vars)
            pos = rng.randint(-depth - 1, depth)
            if kind == "inline":
                return replay.inline_at(s, t, pos, mode)
            if kind == "all":
                return replay.inline_all_at(s, t, pos, mode)
            if kind == "propagate":
                return replay.propagate(s, t, pos, rng.choice((None, rng.sample(inside, len(inside) // 2))))
            above = [p for p in inside if t in behind(s, p)]
            if not above:
                return None
            repair = rng.choice((None, None, None, "recompute"))
            return replay.compute_at(s, rng.choice(above), t, pos, mode, repair)
        except replay.ReplayError as error:
            return error
        except ScheduleError as error:  # a stage that cannot be moved
            return str(error)

    def check(self, s: Schedule, backend: Any = "python", **how: Any) -> str:
        """Lower, run and compare; gives the nest."""
        f = lower(s, **how)
        arrays = {"A": self.input}
        for t, wanted in self.wanted.items():
            arrays[s.current(t).name] = np.full(wanted.shape, -999, "int32")
        given = {p.name: arrays[p.name] for p in f.params if p.name in arrays}
        run(f, given, backend=backend)
        for t, wanted in self.wanted.items():
            np.testing.assert_array_equal(given[s.current(t).name], wanted, str(f))
        return str(f)


def _shape(t: Tensor) -> list[Any]:
    """The extents, those that are constant as integers."""
    return [int(e) if e.is_const else e for e in t.extents]


def _is_one(e: Any) -> bool:
    return isinstance(e, int) and e == 1


def behind(s: Schedule, p: Tensor, without: Tensor | None = None) -> set[Tensor]:
    """All tensors that depend on a tensor, paths around another tensor included."""
    found = {p}
    for stage in s.stages:
        if found & set(stage.op.input_tensors):
            found.update(t for t in stage.op.outputs if t is not without)
    return found - {p}
