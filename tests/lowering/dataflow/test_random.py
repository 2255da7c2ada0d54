"""Sources, values and dead instances of random nests, against instrumented runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from bound.tensor import Tensor
from intset import Var, evaluate
from intset.expr.dag import opaque_terms
from intset.expr.node import Expr
from lowering import dataflow, parse_nest
from tests.lowering.dataflow.instrumented import Read, Run, Written
from tests.lowering.plain_interpreter import TrapError
from tests.strategies.nests import AFFINE, Nest, nests
from tests.sweeps import sampled


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


@sampled(16, 1500, nests(kinds=AFFINE, most=7, size=8), shows={True})
def test_sources_and_dead_stores_of_affine_nests(nest: Nest) -> bool:
    return check(nest) > 30


@sampled(16, 1500, nests(kinds=AFFINE | {"data"}, most=7, size=8), shows={True})
def test_sources_and_dead_stores_of_nests_with_data(nest: Nest) -> bool:
    return check(nest) > 30
