"""Random programs that share axes, with random transforms and calls of replay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from bound import replay, te
from bound.errors import ScheduleError
from bound.reference import evaluate
from bound.schedule import Schedule
from bound.tensor import Tensor
from lowering import lower, run

KINDS = ("pointwise", "pointwise", "join", "join", "reduce", "broadcast", "squeeze", "transpose", "two")
TAILS = ("guard", "guard", "guard", "shrink", "round_up", "shift_inwards")
MODES = ("standard", "best_effort", "most_inlined")


class Dag:
    """Tensors of integers: pointwise, reductions, broadcasts, squeezes, transpositions, several outputs at once."""

    def __init__(self, seed: int, most: int = 7, sizes: tuple[int, ...] = (2, 3, 4, 5), symbolic: bool = False) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        dims = rng.choice((1, 2, 2, 2, 3))
        numbers = [rng.choice(sizes) for _ in range(dims)]
        shape: list[Any] = list(numbers)
        if symbolic:
            shape[rng.randrange(dims)] = te.var("n")
        self.tensors: list[Tensor] = [te.placeholder(shape, name="A", dtype="int32")]
        for k in range(rng.randint(2, most)):
            self.tensors += self._more(f"T{k + 1}")
        computed = self.tensors[1:]
        read = {t for c in computed for t in c.op.input_tensors}
        outputs = [t for t in computed if t not in read or rng.random() < 0.15]
        rng.shuffle(outputs)
        self.outputs = list(dict.fromkeys(t.op for t in outputs))
        self.input = np.random.default_rng(seed).integers(-4, 5, numbers).astype("int32")

    def _more(self, name: str) -> list[Tensor]:
        rng = self.rng
        t = rng.choice(self.tensors[-3:]) if rng.random() < 0.8 else rng.choice(self.tensors)
        shape = [_number(e) for e in t.extents]
        kind = rng.choice(
            ("pointwise", "pointwise", "join", "join", "reduce", "broadcast", "squeeze", "transpose", "two")
        )
        if kind == "reduce" and t.ndim > 1:
            d = rng.randrange(t.ndim)
            r = te.reduce_axis((0, shape[d]), "r")
            rest = [e for k, e in enumerate(shape) if k != d]
            by = rng.choice((te.sum, te.max))
            return [te.compute(rest, lambda *i: by(t(*i[:d], r, *i[d:]), axis=r), name=name)]
        if kind == "broadcast" and t.ndim < 4:
            d = rng.randint(0, t.ndim)
            return [te.compute([*shape[:d], 1, *shape[d:]], lambda *i: t(*i[:d], *i[d + 1 :]) * 2, name=name)]
        if kind == "squeeze" and any(map(_is_one, shape)) and t.ndim > 1:
            d = next(k for k, e in enumerate(shape) if _is_one(e))
            return [te.compute([*shape[:d], *shape[d + 1 :]], lambda *i: t(*i[:d], 0, *i[d:]) + 1, name=name)]
        if kind == "transpose" and t.ndim > 1:
            a, b = rng.sample(range(t.ndim), 2)
            shape[a], shape[b] = shape[b], shape[a]

            def swapped(*i: Any) -> Any:
                j = list(i)
                j[a], j[b] = j[b], j[a]
                return t(*j) + 1

            return [te.compute(shape, swapped, name=name)]
        if kind == "two":
            return list(te.compute(shape, lambda *i: (t(*i) + 1, t(*i) * 2), name=name))
        if kind == "join":
            return [self._join(name, t, shape)]
        return [te.compute(shape, lambda *i: t(*i) + 3, name=name)]

    def _join(self, name: str, t: Tensor, shape: list[int]) -> Tensor:
        """A tensor of several, those of one element along an axis repeated along it; or read with rows left out."""
        rng = self.rng
        others = []
        for o in self.tensors[1:]:
            its = [_number(e) for e in o.extents]
            fits = len(its) == len(shape) and all(
                a is b or _is_one(a) or _is_one(b) or (isinstance(a, int) and a == b)
                for a, b in zip(its, shape, strict=True)
            )
            if o is not t and fits:
                others.append(o)
        if not others:
            if rng.random() < 0.5 and t.ndim < 3:  # an axis that it has not
                d, n = rng.randint(0, t.ndim), rng.choice((2, 3))
                return te.compute([*shape[:d], n, *shape[d:]], lambda *i: t(*i[:d], *i[d + 1 :]) + i[d], name=name)
            return te.compute(shape, lambda *i: t(*i) - 1, name=name)
        o = rng.choice(others)
        out = [_number(b) if _is_one(a) else a for a, b in zip(shape, o.extents, strict=True)]

        def read(x: Tensor, i: Any) -> Any:
            pairs = zip(i, map(_number, x.extents), out, strict=True)
            return x(*(0 if _is_one(e) and not _is_one(n) else v for v, e, n in pairs))

        return te.compute(out, lambda *i: read(t, i) + read(o, i), name=name)

    def schedule(self) -> Schedule:
        return te.create_schedule(self.outputs)

    def computed(self) -> list[Tensor]:
        return self.tensors[1:]

    def transform(self, s: Schedule, times: int, others: bool = False) -> None:
        rng = self.rng
        for _ in range(times):
            stage = s[rng.choice([t for t in self.computed() if t in s])]
            leaves = stage.leaf_iter_vars
            if not leaves:
                continue
            kind = rng.choice(("split", "split", "split", "fuse", "fuse", "reorder", "reorder", "unroll", "place"))
            try:
                if kind == "split":
                    tails = TAILS if not stage.op.reduce_axis else TAILS[:-1]
                    tail = rng.choice(tails)
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

    def _place(self, s: Schedule, stage: Any) -> None:
        """A call of the schedule language that says where a stage is computed."""
        rng = self.rng
        kind = rng.choice(("at", "at", "inline", "parallel", "root"))
        leaf = rng.choice(stage.leaf_iter_vars)
        if kind == "at":
            below = [s[t] for t in self.computed() if t in s and stage.op.outputs[0] in _behind(s, t)]
            if below:
                rng.choice(below).compute_at(stage, leaf)
        elif kind == "inline":
            stage.compute_inline()
        elif kind == "parallel":
            stage.parallel(leaf)
        else:
            stage.compute_root()

    def call(self, s: Schedule) -> Any:
        """One call of replay; a refusal is returned."""
        rng = self.rng
        inside = [t for t in self.tensors if t in s]
        kind = rng.choice(("at", "at", "at", "inline", "all", "most"))
        mode = rng.choice(MODES)
        try:
            if kind == "most":
                return replay.inline_most(s)
            t = rng.choice([t for t in inside if t in self.computed()])
            pos = rng.randint(-len(s[t].leaf_iter_vars) - 1, len(s[t].leaf_iter_vars))
            if kind == "inline":
                return replay.inline_at(s, t, pos, mode)
            if kind == "all":
                return replay.inline_all_at(s, t, pos, mode)
            above = [p for p in inside if t in _behind(s, p)]
            if not above:
                return None
            return replay.compute_at(s, rng.choice(above), t, pos, mode)
        except replay.ReplayError as error:
            return error
        except ScheduleError as error:  # a stage that cannot be moved
            return str(error)

    def check(self, s: Schedule, **how: Any) -> str:
        """Lower, run and compare; gives the nest."""
        wanted = {t: evaluate(t, {"A": self.input}) for op in self.outputs for t in op.outputs}
        arrays = {"A": self.input}
        compute = how.pop("compute", "exact")
        bounds = None
        if compute != "exact":
            from bound import infer_bound

            bounds = infer_bound(s, compute=compute)
        f = lower(s, bounds=bounds, **how)
        for t in wanted:
            now = s.current(t)
            arrays[now.name] = np.zeros(wanted[t].shape, "int32")
        given = {k: v for k, v in arrays.items() if any(p.name == k for p in f.params)}
        run(f, given)
        for t in wanted:
            np.testing.assert_array_equal(given[s.current(t).name], wanted[t], str(f))
        return str(f)


def _number(e: Any) -> Any:
    return int(e) if e.is_const else e


def _is_one(e: Any) -> bool:
    return isinstance(e, int) and e == 1


def _behind(s: Schedule, p: Tensor) -> set[Tensor]:
    found = {p}
    for stage in s.stages:
        for t in stage.op.outputs:
            if found & set(stage.op.input_tensors):
                found.add(t)
    return found - {p}
