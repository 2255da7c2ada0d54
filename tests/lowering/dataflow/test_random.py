"""Sources, values and dead instances of random nests, against instrumented runs."""

from __future__ import annotations

import random

import pytest

from intset import Var, evaluate
from intset.expr.node import Expr
from intset.expr.walk import opaque_terms
from lowering import dataflow, parse_nest
from tests.lowering.dataflow.instrumented import Read, Run, Stop, Written
from tests.lowering.dataflow.random_nests import random_nest
from tests.sweeps import daily


def holds(cond: object, env: dict[Var, int]) -> bool:
    return bool(evaluate(cond, {v: env[v] for v in cond.free_vars()}))


def check(text: str, seed: int, exact: bool) -> int:
    f = parse_nest(text)
    d = dataflow(f)
    rng = random.Random(seed)
    checked = 0
    for size in (0, 1, 3, 4):
        sizes = dict.fromkeys(f.sizes, size)
        entry = {t.name: [rng.randint(0, 3) for _ in range(16)] for t in f.params}
        try:
            run = Run(f, sizes, entry)
        except Stop:
            continue
        for read in run.reads:
            check_read(d.sources(read.line)[read.label], read, sizes, exact)
            checked += 1
        for (line, at), was_read in run.stored.items():
            cond = d.dead(line)
            loops = list(d._site(line).loop.vars)
            is_dead = holds(cond, {**sizes, **dict(zip(loops, at, strict=True))})
            if exact:
                assert is_dead is not was_read, (line, at, cond)
            else:
                assert not (is_dead and was_read), (line, at, cond)
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


def check_seed(seed: int, exact: bool) -> int:
    text = random_nest(seed, exact)
    try:
        return check(text, seed, exact)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, exact {exact}: {error}\n{text}") from error


@pytest.mark.parametrize("seeds", daily([8, 20], 2))
def test_random_nests(seeds: int) -> None:
    assert sum(check_seed(seed, True) for seed in range(seeds)) > 40 * seeds


@pytest.mark.parametrize("seeds", daily([6, 15], 2))
def test_random_nests_with_data(seeds: int) -> None:
    assert sum(check_seed(seed, False) for seed in range(seeds)) > 33 * seeds


@pytest.mark.nightly
@pytest.mark.parametrize("exact", [True, False])
def test_many_random_nests(exact: bool) -> None:
    assert sum(check_seed(seed, exact) for seed in range(1000, 2500)) > 50_000
