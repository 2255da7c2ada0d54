"""Random schedules of copies: unrolled loops, lengths that their factors do not divide, stages attached inside."""

from __future__ import annotations

from typing import Any

from bound.errors import ScheduleError
from lowering import Function, lower
from tests.bound.random_schedules import TAILS, Program

NESTS = ("auto", "guard", "ends", "split", "partition")


class Copied(Program):
    """A `Program` whose stages are mostly attached to loops that are split and unrolled."""

    def _schedule(self, tensor: Any) -> None:
        rng, s = self.rng, self.schedule
        for _ in range(rng.randint(1, 4)):
            try:
                self._step(s[tensor])
            except ScheduleError:
                continue
        if tensor in self.outputs or rng.random() < 0.15:
            return
        consumers = [c for c in self.stages if tensor in c.op.input_tensors]
        consumer = s[rng.choice(consumers)]
        leaves = consumer.leaf_iter_vars
        kinds = consumer.iter_var_attrs
        copied = [iv for iv in leaves if iv in kinds and kinds[iv].iter_type is not None]
        try:
            s[tensor].compute_at(consumer, rng.choice(copied if copied and rng.random() < 0.6 else leaves))
            if rng.random() < 0.15:
                s[tensor].double_buffer()
        except ScheduleError:
            return

    def _step(self, stage: Any) -> None:
        rng = self.rng
        iv = rng.choice(list(stage.leaf_iter_vars))
        what = rng.choice(("split", "split", "unroll", "unroll", "vectorize", "parallel", "other"))
        if what == "split":
            _, inner = stage.split(iv, factor=rng.randint(2, 6), tail=rng.choice(TAILS))
            if rng.random() < 0.6:
                stage.unroll(inner)
        elif what == "other":
            super()._step(stage)
        elif not iv.is_reduce or what == "unroll":
            getattr(stage, what)(iv)


def drawn(seed: int) -> tuple[Copied, Function] | None:
    """The program of a seed with its nest, or `None` where the schedule is refused."""
    program = Copied(seed, symbolic=seed % 3 == 2)
    try:
        return program, lower(program.schedule, nests=NESTS[seed % len(NESTS)])
    except ScheduleError:
        return None
