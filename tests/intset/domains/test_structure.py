"""The steps and the congruence of sets: the same fields on every set, true of all elements."""

from __future__ import annotations

import itertools

import pytest

from intset import Context, IntSet, Range, ShapeVar, Var, evaluate
from intset.expr.node import as_expr
from intset.infinity import Infinity
from tests.strategies.contexts import PRESBURGER, Drawn, contexts
from tests.sweeps import sampled

DOMAINS = ("auto", "interval", "stride", "modular", "interval*modular", "points", "isl")
i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)


def holds_of(s: IntSet, taken: set[int], at: dict[Var, int]) -> set[str]:
    """Check the fields of a set against its elements; the fields that it knows."""
    known = set()
    if s.modulus is not None:
        assert s.remainder is not None and s.modulus >= 0
        assert all((x - s.remainder) % s.modulus == 0 if s.modulus else x == s.remainder for x in taken), s
        assert s.modulus == 0 or 0 <= s.remainder < s.modulus
        known.add("congruence")
    assert (s.remainder is None) is (s.modulus is None)
    if s.base is not None and s.strides is not None and s.extents is not None and taken:
        first = evaluate(s.base, at)
        open_end = max(taken) - first + 2
        extents = [open_end if isinstance(e, Infinity) else evaluate(as_expr(e), at) for e in s.extents]
        steps = [range(0, stride * extent, stride) for stride, extent in zip(s.strides, extents, strict=True)]
        reached = {first + sum(parts) for parts in itertools.product(*steps)}
        assert taken <= reached and (not s.is_exact or taken == reached), (s, taken, reached)
        assert list(s.strides) == sorted(s.strides)
        known.add("steps")
    assert (s.base is None) is (s.strides is None) is (s.extents is None)
    return known


@sampled(40, 1500, contexts(kinds=PRESBURGER, ranges="box", facts=20), shows={"congruence", "steps"})
def test_the_fields_are_true_of_all_elements(drawn: Drawn) -> frozenset[str]:
    e, known = drawn.exprs[0], set()
    taken = {x for own in drawn.setting.values(e).values() for (x,) in own}
    for domain in DOMAINS:
        known |= holds_of(drawn.ctx.value_set(e, domain=domain), taken, {})
    return frozenset(known)


@pytest.mark.parametrize("domain", DOMAINS)
def test_fields_of_sets_with_sizes(domain: str) -> None:
    for ctx, e in (
        (Context({i: Range(0, n)}), i + 2),
        (Context({i: Range(n, 4)}), i * 6 + 1),
        (Context({i: Range(0, 4), j: Range(0, n)}), i * 8),
    ):
        s = ctx.value_set(e, domain=domain)
        for size in range(1, 5):
            ends = [[evaluate(as_expr(end), {n: size}) for end in (r.min, r.extent)] for r in ctx.ranges.values()]
            spans = [range(first, first + extent) for first, extent in ends]
            points = [dict(zip(ctx.ranges, row, strict=True)) for row in itertools.product(*spans)]
            holds_of(s, {evaluate(e, {**point, n: size}) for point in points}, {n: size})


def test_named_fields() -> None:
    ctx = Context({i: Range(0, 8), j: Range(0, 2)})
    modular = ctx.value_set(i * 4 + 1, domain="modular")
    assert (modular.modulus, modular.remainder, modular.base, modular.strides, modular.extents) == (
        4,
        1,
        None,
        None,
        None,
    )
    both = ctx.value_set(i * 4 + 1, domain="interval*modular")
    assert (both.base, both.strides, both.extents, both.modulus, both.remainder) == (1, (4,), (8,), 4, 1)
    tiles = ctx.value_set(i * 16 + j * 4 + 2)
    assert (tiles.base, tiles.strides, tiles.extents, tiles.modulus, tiles.remainder) == (2, (4, 16), (2, 8), 4, 2)
    one = Context({i: Range(3, 1)}).value_set(i)
    assert (one.base, one.strides, one.extents, one.modulus, one.remainder) == (3, (), (), 0, 3)
    nothing = Context({i: Range(3, 0)}).value_set(i)
    assert nothing.base is nothing.modulus is nothing.remainder is None
