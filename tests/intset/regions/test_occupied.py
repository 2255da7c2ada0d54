"""Regions are empty at sizes with an empty range: in differences, comparisons and substitution."""

from __future__ import annotations

import itertools

import pytest

from intset import Context, Range, Var, const

DOMAINS = ("auto", "isl", "interval", "stride", "modular")
i, j, n = Var("i"), Var("j"), Var("n")
WHOLE = Context({j: Range(0, 10)})


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("first", [0, -3])
def test_a_difference_loses_no_point(domain: str, first: int) -> None:
    b = WHOLE.image((j,), domain=domain)
    whole = Context({i: Range(first, n - first), j: Range(0, 10)}).image((j,), domain=domain)
    single = Context({i: Range(first, n - first)}).image((const(5),), domain=domain)
    for size in (first - 2, first, first + 1, 4):
        extent = size - first
        for taken, points in ((whole, set(range(10))), (single, {5})):
            rest = (b - taken).at({n: size})
            truth = set(range(10)) - (points if extent > 0 else set())
            assert all(((x,) in rest) or x not in truth for x in range(-2, 12)), (taken, size)
            if rest.is_exact:
                assert {x for x in range(-2, 12) if (x,) in rest} == truth
            there = taken.at({n: size})
            assert not there.is_exact or {x for x in range(-2, 12) if (x,) in there} == (
                points if extent > 0 else set()
            )
    assert not b <= whole and not (b - whole).is_empty


@pytest.mark.parametrize("domain", DOMAINS)
def test_joined_regions(domain: str) -> None:
    single = Context({i: Range(0, n)}).image((const(5),), domain=domain)
    other = Context({j: Range(0, 1)}).image((j + 20,), domain=domain)
    for size in (-1, 0, 1, 3):
        for joined, truth in (
            (other | single, {20} | ({5} if size > 0 else set())),
            (WHOLE.image((j,)) & single, {5} if size > 0 else set()),
        ):
            found = {x for x in range(25) if (x,) in joined.at({n: size})}
            assert found >= truth and (not joined.is_exact or found == truth)


def test_stores_that_never_ran() -> None:
    stores = Context({i: Range(0, n), j: Range(0, 4)}).relation((j,), (j * 2,))
    loads = Context({j: Range(0, 4)}).relation((j,), (j * 2,))
    assert not stores.at({n: 0}).contains((1,), (2,)) and stores.at({n: 1}).contains((1,), (2,))
    sources = loads.then(stores.inverse())
    assert sources.at({n: 0}).domain().count() == 0 and sources.at({n: 2}).domain().count() == 4


def test_kept_variables() -> None:
    ctx = Context({i: Range(0, 3), j: Range(0, i)})
    seven = ctx.image((j * 0 + 7,), keep=[i])
    b = WHOLE.image((j,))
    for value, x in itertools.product(range(3), range(10)):
        assert ((x,) in (b - seven).at({i: value})) == (x != 7 or value == 0)
