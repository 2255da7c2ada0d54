"""Random tensor programs with random schedules: one generator for the tests of InferBound, storage and lowering.

`programs(...)` is a Hypothesis strategy, which shrinks; `Program(seed, ...)` draws the same programs by a number. In
every choice the simplest alternative comes first, so that shrinking drops stages, loops and features.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from hypothesis import strategies as st

from bound import BoundsMap, infer_bound, te, tir
from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.schedule import Schedule, Stage
from bound.tensor import ComputeOp, Tensor
from intset import ShapeVar, const, maximum, minimum
from intset.expr.evaluate import compiled
from intset.expr.node import Expr, Var

TAILS = ("guard", "guard", "shrink", "shift_inwards", "round_up")
WHOLE = ("guard", "shift_inwards", "round_up")
SIZES = (1, 2, 3, 4, 5, 7, 9)

Row = tuple[tuple[int, ...], int]  # coefficients of the axes, constant


@st.composite
def programs(draw: st.DrawFn, **options: Any) -> Program:
    """Programs with the options of `Program`."""
    return Program(draw(st.randoms(use_true_random=False)), **options)


def reading(
    shape: Any, reads: Callable[..., Any], source: Any = (40, 40), at: int | None = None, tail: str = "guard"
) -> tuple[Schedule, Tensor]:
    """`T` of shape `source` is read by `C`, inside a tile of `at` of its first axis."""
    A = te.placeholder(source, name="A")
    T = te.compute(source, lambda *i: A(*i) + 1.0, name="T")
    C = te.compute(shape, lambda *i: reads(T, *i), name="C")
    s = te.create_schedule(C.op)
    if at is not None:
        outer, _ = s[C].split(C.op.axis[0], at, tail=tail)
        s[T].compute_at(s[C], outer)
    return s, T


def state_of(s: Schedule) -> list[Any]:
    """The state of a schedule in comparable form: a refused call changes no part of the state."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return [(plain(k), plain(v)) for k, v in x.items()]
        if isinstance(x, (list, tuple, set, frozenset)):
            return [plain(v) for v in x]
        if isinstance(x, IterVar):
            return id(x), id(x.dom), tuple(map(id, x.sizes))
        return id(x) if isinstance(x, (Expr, Stage, Schedule)) else x

    stages = [{k: plain(v) for k, v in vars(stage).items()} for stage in (*s.stages, *s.groups)]
    return [stages, [plain(v) for k, v in vars(s).items() if k != "_reach"]]


def chance(rng: random.Random, percent: int) -> bool:
    """Whether an event of this probability happens; shrinks to no."""
    return rng.randrange(100) >= 100 - percent


def random_step(
    rng: random.Random, stage: Stage, tails: tuple[str, ...] = TAILS, most: int = 6, annotate: bool = True
) -> None:
    """Split, fuse, reorder or annotate loops of a stage once; a step that the schedule refuses raises."""
    leaves = list(stage.leaf_iter_vars)
    iv = rng.choice(leaves)
    what = rng.choice(("factor", "factor", "factor", "nparts", "fuse", "reorder", *(["annotate"] if annotate else [])))
    if what in ("factor", "nparts"):
        moves = not iv.is_reduce and not getattr(stage.op, "reduce_axis", ())
        stage.split(iv, **{what: rng.randint(1, most)}, tail=rng.choice(tails) if moves else "guard")
    elif what == "fuse" and len(leaves) > 1:
        k = rng.randrange(len(leaves) - 1)
        stage.fuse(leaves[k], leaves[k + 1])
    elif what == "reorder" and len(leaves) > 1:
        stage.reorder(*rng.sample(leaves, rng.randint(2, len(leaves))))
    elif what == "annotate" and not iv.is_reduce:
        rng.choice((stage.unroll, stage.parallel, stage.vectorize))(iv)


class Program:
    """A DAG of tensors with a schedule.

    Parameters
    ----------
    rng: makes every choice; a number is a seed.
    symbolic: whether extents are in terms of sizes.
    reads: `inside` (every index stays in its tensor), `lattice` (strides, diagonals and shifts, all inside) or `loose`
        (an index may leave its tensor).
    most: the largest number of stages.
    also: features, separated by blanks: `caches` (cache_read, cache_write, rfactor), `threads` (blocks, cooperative
        fetching), `stored` (store_at, store_root), `doubled` (double_buffer), `copies` (unrolled loops, stages attached
        to them), `data` (indices and conditions from a tensor), `others` (stages attached where it may be refused),
        `tiles` (splits by sizes, which are variables too), `whole` (more splits whose last tile is whole).

    Attributes
    ----------
    inputs, stages: placeholders and computed tensors, in dataflow order; `outputs` are the stages that none reads.
    choices: a few values of the sizes, by name; one empty choice without sizes.
    """

    def __init__(
        self,
        rng: random.Random | int | str,
        symbolic: bool = False,
        reads: str = "inside",
        most: int = 5,
        also: str = "",
    ) -> None:
        self.rng = rng if isinstance(rng, random.Random) else random.Random(rng)
        self.symbolic, self.reads, self.most, self.also = symbolic, reads, most, also.split()
        self.variables: list[Var] = []
        self.inputs: list[Tensor] = []
        self.stages: list[Tensor] = []
        {"inside": self._inside, "lattice": self._lattice, "loose": self._loose}[reads]()
        read = {t for stage in self.stages for t in stage.op.input_tensors}
        self.outputs = [t for t in self.stages if t not in read]
        values = (0, *SIZES[:6]) if reads == "loose" else SIZES
        self.tiles = [ShapeVar(f"t{k}") for k in range(2)] if "tiles" in self.also else []
        picked = [self.rng.sample(values, 4) for _ in self.variables]
        picked += [self.rng.sample((1, 2, 3, 4, 5, 8), 4) for _ in self.tiles]
        self.variables += self.tiles
        self.choices = [
            {v.name: numbers[k] for v, numbers in zip(self.variables, picked, strict=True)}
            for k in range(4 if self.variables else 1)
        ]
        self.schedule: Schedule = te.create_schedule([t.op for t in self.outputs])
        self._schedule()

    @property
    def sizes(self) -> dict[str, int]:
        return self.choices[0]

    def values(self, sizes: dict[str, int] | None = None) -> dict[Var, int]:
        """Values of the variables, by default the first choice."""
        return {v: (sizes or self.sizes)[v.name] for v in self.variables}

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.inputs, *self.stages]

    def __repr__(self) -> str:
        formulas = "; ".join(f"{t.name}{list(t.shape)} = {t.op.body[0]!r}" for t in self.stages)
        loops = "; ".join(f"{stage.name}: {stage.leaf_iter_vars} {stage.relations}" for stage in self.schedule.stages)
        return f"{formulas}\n{loops}"

    def inferred(self, **options: Any) -> BoundsMap | None:
        """The bounds; None if the schedule is refused."""
        try:
            return infer_bound(self.schedule, **options)
        except ScheduleError:
            return None

    def _chance(self, percent: int) -> bool:
        return chance(self.rng, percent)

    # -- stages -------------------------------------------------------------------------------------------------------

    def _stage(self, name: str, shape: tuple[Any, ...], sources: list[Tensor], read: Callable[..., Any]) -> Tensor:
        """A stage that sums reads, sometimes under a condition or reduced over an axis."""
        rng = self.rng
        axis_r = te.reduce_axis(self._reduced(), "r") if self._chance(30) else None
        reducer = te.max if self._chance(30) else te.sum

        def formula(*axis: Any) -> Any:
            variables = [*axis, *([] if axis_r is None else [axis_r])]
            total = read(sources[0], variables)
            more = [s for s in sources if self._chance(30)] if self.reads == "inside" else []
            for source in (*sources[1:], *more):
                total = total + read(source, variables) * 2.0
            if self._chance(30):
                select = rng.choice((tir.if_then_else, tir.Select))
                total = select(self._condition(variables), total, tir.const(0.5, "float32"))
            if axis_r is None:
                return total + 1.0
            where = (axis[0] + axis_r) % 2 < 1 if reducer is te.sum and self._chance(30) else None
            return reducer(total, axis=axis_r, where=where)

        named: Callable[..., Any] = (lambda i: formula(i)) if len(shape) == 1 else (lambda i, j: formula(i, j))
        return te.compute(shape, named, name=name)

    def _reduced(self) -> Any:
        low = self.rng.randint(0, 1)
        return low, low + self.rng.randint(1, 3)

    def _condition(self, variables: list[Any]) -> Any:
        rng = self.rng
        x, y, c = rng.choice(variables), rng.choice(variables), rng.randint(1, 6)
        return rng.choice((x >= 1, x < c, x + y >= c, x <= y, (x % 2).eq(0), x.eq(c), x >= y * 2 - 1))

    def _sources(self) -> list[Tensor]:
        recent = self.tensors[-3:][::-1]
        return [recent[0], *([self.rng.choice(recent)] if self._chance(40) else [])]

    # -- reads that stay inside ---------------------------------------------------------------------------------------

    def _inside(self) -> None:
        rng = self.rng
        if self.symbolic:
            return self._stencils()
        for k in range(rng.randint(1, 2)):
            self.inputs.append(te.placeholder(self._shape(2, 14, 9), name=f"A{k}"))
        for k in range(rng.randint(1, self.most)):
            self.stages.append(self._stage(f"T{k}", self._shape(1, 12, 6), self._sources(), self._read_inside))
        return None

    def _shape(self, least: int, most: int, most_of_two: int) -> tuple[int, ...]:
        dims = self.rng.choice((1, 1, 2))
        return tuple(self.rng.randint(least, most if dims == 1 else most_of_two) for _ in range(dims))

    def _read_inside(self, source: Tensor, variables: list[Any]) -> Any:
        index: list[Any] = [self._index_inside(int(e), variables) for e in source.shape]
        if not self._chance(20):
            return source(*index)
        d = self.rng.randrange(len(index))  # a padded access
        index[d] = index[d] - 1
        return tir.if_then_else(tir.all(index[d] >= 0, index[d] < source.shape[d]), source(*index), 0.0)

    def _index_inside(self, extent: int, variables: list[Any]) -> Any:
        """An index within `[0, extent)` for every value of the variables."""
        rng = self.rng
        x, y, c = rng.choice(variables), rng.choice(variables), rng.randint(0, 3)
        e = rng.choice(
            (
                lambda: x, lambda: x, lambda: x + c, lambda: x * 2 + c // 2, lambda: x + y, lambda: x - y,
                lambda: x // 2, lambda: x % 3, lambda: x * 3 + y, lambda: 5 - x, lambda: maximum(x - 2, 0),
                lambda: minimum(x, y), lambda: (x * 4 + y) // 3, lambda: (x + y) % 4, lambda: const(c),
                lambda: tir.truncdiv(x - 4, 2),
            )
        )()  # fmt: skip
        used = e.free_vars()
        value = compiled(e, used)
        spans = [range(int(v.dom.min), int(v.dom.min + v.dom.extent)) for v in used]
        values = [value(*point) for point in itertools.product(*spans)]
        low, high = min(values), max(values)
        if high - low < extent:
            slack = extent - 1 - (high - low)
            return e if low >= 0 and high < extent and not self._chance(50) else e - low + rng.randint(0, slack)
        return rng.choice((lambda: (e - low) % extent, lambda: maximum(minimum(e, extent - 1), 0)))()

    def _stencils(self) -> None:
        """Stencils, halves, reversals and selects with sizes in terms of `n`, no stage longer than the one before."""
        rng = self.rng
        n = te.var("n")
        self.variables.append(n)
        rest: tuple[Any, ...] = rng.choice(((), (), (3,), (te.var("m"),)))
        self.variables += [e for e in rest if isinstance(e, Var)]
        pads = [rng.randint(0, 2) for _ in range(rng.randint(1, self.most))]
        for k in range(rng.randint(1, 2)):
            self.inputs.append(te.placeholder((n + sum(pads), *rest), name=f"A{k}"))
        for k, pad in enumerate(pads):
            extent = n + sum(pads[k + 1 :])

            def read(source: Tensor, variables: list[Any], extent: Expr = extent, pad: int = pad) -> Any:
                i, others = variables[0], variables[1 : source.ndim]
                at = rng.choice((i, i, i + pad, i + pad, i // 2, extent - 1 - i, None))
                if at is not None:
                    return source(at, *others)
                back = i - (variables[-1] if len(variables) > source.ndim else rng.randint(1, 2))
                return tir.if_then_else(back >= 0, source(back, *others), 0.0)

            self.stages.append(self._stage(f"T{k}", (extent, *rest), self._sources(), read))

    # -- reads on lattices --------------------------------------------------------------------------------------------

    def _lattice(self) -> None:
        """A chain made from the last stage to the first: each reads the one before at a few affine points."""
        rng = self.rng
        shape: tuple[Any, ...] = tuple(rng.randint(1, 8) for _ in range(rng.choice((1, 1, 2))))
        if self.symbolic:
            self.variables.append(te.var("n"))
            shape = (self.variables[0], *shape[1:])
        plans = []
        for _ in range(rng.randint(1, min(self.most, 1 if self.symbolic else 3))):
            points = self._points(len(shape))
            plans.append((shape, points))
            spans = [[_span(p[k], shape) for p in points] for k in range(len(points[0]))]
            shape = tuple(
                _end(te.max, (h for _, h in ends)) - _end(te.min, (low for low, _ in ends)) + 1 for ends in spans
            )
        plans.append((shape, [tuple((tuple(int(j == k) for j in range(len(shape))), 0) for k in range(len(shape)))]))
        self.inputs.append(te.placeholder(shape, name="A"))
        for k, (shape, points) in enumerate(reversed(plans)):
            self.stages.append(self._lattice_stage(f"T{k}", self.tensors[-1], shape, points))

    def _points(self, dims: int) -> list[tuple[Row, ...]]:
        """The same matrix at several shifts, now and then another matrix too."""
        rng = self.rng
        ndim = rng.choice((1, 1, 2)) if dims == 1 else rng.choice((1, 2, 2, 2))
        matrix = [tuple(rng.choice((1, 0, 1, 2, 3, -1, -2)) for _ in range(dims)) for _ in range(ndim)]
        points = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            if self._chance(15):
                matrix = [tuple(rng.choice((1, 2, -1)) for _ in range(dims)) for _ in range(ndim)]
            unit = rng.choice((1, 2, 2, 3))
            points.append(tuple((row, unit * rng.randint(0, 3)) for row in matrix))
        return points

    def _lattice_stage(
        self, name: str, source: Tensor, shape: tuple[Any, ...], points: list[tuple[Row, ...]]
    ) -> Tensor:
        starts = [_end(te.min, (_span(p[k], shape)[0] for p in points)) for k in range(source.ndim)]

        def read(source: Tensor, variables: list[Any]) -> Any:
            total: Any = 0.5
            for point in points:
                at = (sum((x * c for x, c in zip(variables, row, strict=False) if c), shift) for row, shift in point)
                total = total + source(*(index - start for index, start in zip(at, starts, strict=True)))
            return total

        return self._stage(name, shape, [source], read)

    # -- reads that may leave their tensors ---------------------------------------------------------------------------

    def _loose(self) -> None:
        rng = self.rng
        self.variables += [te.size_var("n"), te.size_var("m")] if self.symbolic else []
        self.data = te.placeholder((self._extent(),), name="idx", dtype="int32") if "data" in self.also else None
        for k in range(2):
            self.inputs.append(te.placeholder([self._extent() for _ in range(rng.randint(1, 2))], name=f"A{k}"))
        for k in range(rng.randint(1, min(self.most, 3))):
            shape = tuple(self._extent() for _ in range(rng.randint(1, 2)))
            self.stages.append(self._loose_stage(f"T{k}", shape, self._sources()))

    def _extent(self) -> Any:
        rng = self.rng
        if self.variables and self._chance(70):
            var = rng.choice(self.variables)
            return rng.choice((var, var, var + rng.randint(1, 3)))
        return rng.randint(2, 8)

    def _loose_stage(self, name: str, shape: tuple[Any, ...], sources: list[Tensor]) -> Tensor:
        rng = self.rng
        low = rng.randint(0, 2)
        high = rng.choice(self.variables) if self.variables and self._chance(40) else low + rng.randint(1, 3)
        axis_r = te.reduce_axis((low, high), "r") if self._chance(30) else None

        def formula(*axis: Any) -> Any:
            variables = [*axis, *([] if axis_r is None else [axis_r])]
            total = self._read_loose(sources[0], variables)
            for source in sources[1:]:
                total = total + self._read_loose(source, variables) * 2.0
            if axis_r is None:
                return total
            return te.sum(total, axis=axis_r, where=(axis[0] + axis_r) % 2 < 1 if self._chance(30) else None)

        return te.compute(shape, formula, name=name)

    def _read_loose(self, tensor: Tensor, variables: list[Any]) -> Any:
        rng = self.rng
        index = [self._index_loose(variables) for _ in range(tensor.ndim)]
        value, d = tensor(*index), rng.randrange(len(index))
        what = rng.choice(("plain", "plain", "guarded", "clamped", "data", "parity"))
        if what == "guarded":  # sometimes one off
            low, high = index[d] >= rng.choice((0, 0, -1)), index[d] < tensor.extents[d] + rng.choice((0, 0, 1))
            return tir.if_then_else(tir.all(low, high), value, 0.0)
        if what == "clamped":
            index[d] = te.max(te.min(index[d], tensor.extents[d] - 1), 0)
            return tensor(*index)
        if what == "data" and self.data is not None:
            return tir.if_then_else(self._datum(variables) > 0, value, 1.0)
        return tir.if_then_else(variables[0] % 2 < 1, value, value * 2.0) + 1.0 if what == "parity" else value

    def _index_loose(self, variables: list[Any]) -> Any:
        rng = self.rng
        a = rng.choice(variables)
        if self.data is not None and self._chance(30):
            a = self._datum(variables) + rng.choice((0, 0, a))
        e = rng.choice((a, a, a, a + rng.randint(-1, 2), a // 2, a * 2, (a + 3) % 5))
        if len(variables) > 1 and self._chance(30):
            e = e + rng.choice(variables)
        if self.variables and self._chance(15):
            e = rng.choice((self.variables[0] - 1 - a, e + self.variables[1] - 2))
        return e

    def _datum(self, variables: list[Any]) -> Any:
        assert self.data is not None
        return self.data(self.rng.choice(variables) % 2)

    # -- schedules ----------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if "caches" in self.also:
            self._cache()
        threaded = self._on_threads() if "threads" in self.also else None
        for stage in reversed(list(self.schedule.stages)):
            if not isinstance(stage.op, ComputeOp) or stage.op is threaded:
                continue
            if not stage.is_output:
                if self._chance(10) and stage.op.reduction is None:
                    stage.compute_inline()
                    continue
                if self._chance(70):
                    self._attach(stage)
                if threaded is not None and self._fetched_together(stage):
                    continue
                if self._chance(20):
                    self._try(lambda stage=stage: stage.set_scope(self.rng.choice(("local", "shared"))))
            for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
                self._try(lambda stage=stage: self._step(stage))

    def _try(self, step: Callable[[], object]) -> None:
        """Skip a step that the schedule refuses."""
        try:
            step()
        except ScheduleError:
            return

    def _step(self, stage: Stage) -> None:
        rng = self.rng
        if self.tiles and self._chance(60):
            by = {rng.choice(("factor", "factor", "nparts")): rng.choice(self.tiles)}
            stage.split(rng.choice(list(stage.leaf_iter_vars)), **by)
            return None
        if "copies" not in self.also or self._chance(15):
            return random_step(rng, stage, WHOLE if "whole" in self.also else TAILS)
        iv = rng.choice(list(stage.leaf_iter_vars))
        what = rng.choice(("split", "split", "unroll", "unroll", "vectorize", "parallel"))
        if what == "split":
            _, inner = stage.split(iv, factor=rng.randint(2, 6), tail=rng.choice(TAILS))
            if self._chance(60):
                stage.unroll(inner)
        elif not iv.is_reduce or what == "unroll":
            getattr(stage, what)(iv)
        return None

    def _attach(self, producer: Stage) -> None:
        """Attach a stage around all its consumers; with `others` sometimes at a place that may be refused."""
        rng, s = self.rng, self.schedule
        loops = [
            (stage, iv)
            for stage in s.stages
            if isinstance(stage.op, ComputeOp) and stage.attach_type.name != "INLINE" and stage is not producer
            for iv in stage.leaf_iter_vars
            if s.is_consumer(stage, producer)
        ]
        copied = [(c, iv) for c, iv in loops if iv in c.iter_var_attrs and c.iter_var_attrs[iv].iter_type is not None]
        if "copies" in self.also and copied and self._chance(60):
            loops = copied
        rng.shuffle(loops)
        for stage, iv in loops[:12]:
            producer.compute_at(stage, iv)
            if "others" in self.also and self._chance(30):
                break
            try:
                s.normalize()
                break
            except ScheduleError:
                producer.compute_root()
        if producer.attach_stage is None:
            return
        if "doubled" in self.also or ("copies" in self.also and self._chance(15)):
            self._try(producer.double_buffer)
        if "stored" in self.also and self._chance(90):
            readers = [(c, iv) for c in s.stages if s.is_consumer(c, producer) for iv in c.leaf_iter_vars]
            where = rng.choice(readers)
            self._try(producer.store_root if self._chance(50) else lambda: producer.store_at(*where))

    def _cache(self) -> None:
        """Apply cache_read, cache_write and rfactor at random."""
        rng, s = self.rng, self.schedule
        if self._chance(25):
            tensor = rng.choice(self.tensors[:-1])
            readers = [c.op for c in s.stages if tensor in c.op.input_tensors]
            if readers:
                scope = rng.choice(("global", "local", "shared"))
                s.cache_read(tensor, scope, rng.sample(readers, rng.randint(1, len(readers))))
        computed = [c for c in s.stages if isinstance(c.op, ComputeOp)]
        if self._chance(20):
            stage = rng.choice(computed)
            if self._chance(50) and not stage.op.reduction:
                stage.split(stage.op.axis[0], factor=rng.randint(2, 4))
            s.cache_write(stage.op.output(0), rng.choice(("global", "local")))
        reductions = [c for c in s.stages if isinstance(c.op, ComputeOp) and c.op.reduction is not None]
        if reductions and self._chance(30):
            stage = rng.choice(reductions)
            axis = stage.op.reduce_axis[0]
            parts = stage.split(axis, factor=2) if self._chance(60) else (axis,)
            s.rfactor(stage.op.output(0), rng.choice(parts))

    def _on_threads(self) -> Any:
        """Blocks of threads over the first axis of an output, whose operation is returned."""
        stage = self.schedule[self.schedule.outputs[0].output(0)]
        self.thread, self.count = te.thread_axis("threadIdx.x"), self.rng.randint(2, 4)
        outer, inner = stage.split(stage.op.axis[0], factor=self.count)
        stage.bind(outer, te.thread_axis("blockIdx.x"))
        stage.bind(inner, self.thread)
        return stage.op

    def _fetched_together(self, stage: Stage) -> bool:
        """A storage scope, and sometimes the threads of the output to compute it together."""
        rng = self.rng
        stage.set_scope(rng.choice(("", "shared", "shared", "local", "warp", "global")))
        if not self._chance(50) or stage.scope not in ("shared", "warp") or stage.attach_stage is None:
            return False
        fused = stage.fuse(*stage.op.axis) if self._chance(50) else stage.op.axis[0]
        by = rng.choice(("factor", "nparts"))
        outer, inner = stage.split(fused, **{by: self.count})
        stage.bind(inner if by == "factor" else outer, self.thread)
        return True


def _span(row: Row, extents: tuple[Any, ...]) -> tuple[Any, Any]:
    low = high = row[1]
    for c, extent in zip(row[0], extents, strict=True):
        low, high = (low, high + (extent - 1) * c) if c > 0 else (low + (extent - 1) * c, high)
    return low, high


def _end(pick: Callable[..., Any], ends: Iterable[Any]) -> Any:
    """The smallest or largest end; a number if all ends are numbers."""
    values = list(ends)
    by_number = min if pick is te.min else max
    return reduce(pick, values) if any(isinstance(e, Expr) for e in values) else by_number(values)
