"""Ends of chains of remainders: the search proves true ends only, and proves most of them."""

from __future__ import annotations

import itertools
import random
import time

from intset import Context, Expr, Range, Var, evaluate
from intset.config import current
from intset.domains.certified.end_search import attained_ends


def chain(rnd: random.Random, names: list[Var], length: int) -> Expr:
    e: Expr = rnd.choice(names)
    for _ in range(length):
        a = rnd.choice(names)
        if rnd.random() < 0.5:
            e = (e * rnd.randrange(2, 9) - a) % rnd.randrange(2, 30)
        else:
            e = e * 3 + a if rnd.random() < 0.5 else (e + a) // rnd.randrange(2, 5)
    return e


def test_ends_are_those_of_enumeration() -> None:
    rnd, attained, dependent = random.Random(3), 0, 0
    for k in range(60):
        names = [Var(f"v{n}") for n in range(3)]
        ranges = {v: Range(0, 6) for v in names}
        if k % 2:
            ranges[names[2]] = Range(names[0], names[1] + 1)
        ctx = Context(ranges, assume=[names[0] + names[1] > 1])
        e = chain(rnd, names, 5)
        points = (dict(zip(names, values, strict=True)) for values in itertools.product(range(12), repeat=3))
        inside = [p for p in points if p[names[0]] < 6 and p[names[1]] < 6 and p[names[0]] + p[names[1]] > 1]
        inside = [
            p for p in inside if (p[names[0]] <= p[names[2]] <= p[names[0]] + p[names[1]] if k % 2 else p[names[2]] < 6)
        ]
        values = [evaluate(e, p) for p in inside]
        query = ctx.frame.query((e,), (), current())
        ends = min(values), max(values)
        assert attained_ends(query, ends[0], ends[1] + 1) in (None, ends)
        assert attained_ends(query, ends[0] - 1, ends[1]) in (None, ends)
        certified = attained_ends(query, *ends) == ends
        attained += certified
        dependent += certified and k % 2
    assert attained > 15 and dependent > 5


def test_long_chains() -> None:
    rnd = random.Random(1)
    names = [Var(f"v{k}") for k in range(6)]
    ctx = Context({v: Range(0, 16) for v in names})
    tight, start = 0, time.process_time()
    for _ in range(20):
        e: Expr = names[rnd.randrange(6)]
        for _ in range(16):
            a = names[rnd.randrange(6)]
            is_remainder = rnd.random() < 0.3
            e = (e * rnd.randrange(2, 9) + a) % rnd.randrange(2, 99) if is_remainder else e * 3 + a
        tight += ctx.bounds(e).is_tight
    assert tight == 20
    assert time.process_time() - start < 2.5


def test_ends_that_no_corner_takes() -> None:
    """Branch and bound: the remainder and the other terms peak at different points."""
    v = [Var(f"v{k}") for k in range(6)]
    inner = (v[0] * 22 + v[2] * 24 + v[4] * 7) % 39 * 8 + v[3] * 4 + v[0] * 5
    chain = (inner // 2 * 3 + v[5]) % 77 * 6561 + v[0] * 243 + v[2] * 9 + v[3] * 2214 + v[4] * 729 + v[5] * 85
    bounds = Context({x: Range(0, 6) for x in v}).bounds(chain)
    values = [
        evaluate(chain, dict(zip(v, (a, 0, *p), strict=True)))
        for a in range(6)
        for p in itertools.product(range(6), repeat=4)
    ]
    assert bounds.is_tight and bounds.ints() == (min(values), max(values))
