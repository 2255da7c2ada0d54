"""Bank conflicts and addresses against enumeration; contexts that lowering makes."""

import pickle
import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from intset import Context, InputError, Range, ShapeVar, Var, const, evaluate
from intset.frame import Frame
from intset.linear.canonical import Normalizer
from lowering import alignment, bank_conflicts, contiguity, lower, to_c
from lowering.nest.ir import For, Seq
from lowering.nest.scope import Scope
from tests.strategies.refusals import refused_with_words
from tests.strategies.written import Written
from tests.sweeps import daily

i, j, k = (Var(name) for name in "ijk")
n = ShapeVar("n", lower=1)
A = i * 128 + j * 2
SWIZZLED = A ^ ((A >> 3) & 112)


@pytest.mark.parametrize("count", [8, 32, 256, n], ids=str)
def test_a_swizzled_tile(count):
    ctx = Context({i: Range(0, count), j: Range(0, 64)})
    assert alignment(SWIZZLED, ctx).value == 2
    assert contiguity(SWIZZLED, j, ctx, step=2).value == 8
    if count is not n:
        rows = Context({i: Range(0, 8), j: Range(0, 64), k: Range(0, count)})
        chunk = (SWIZZLED + k * 1024).substitute({j: j // 8 * 8})
        straight = (A + k * 1024).substitute({j: j // 8 * 8})
        assert bank_conflicts(chunk, [i], rows).value == 1
        assert bank_conflicts(straight, [i], rows).value == 8


def test_lanes_count_once_and_carries_are_not_claimed():
    ctx = Context({i: Range(0, n), k: Range(0, 4), j: Range(0, 8)})
    found = bank_conflicts((i * 1024 + k * 128 + j * 16) ^ (k * 32), [k, j], ctx)
    assert (found.value, found.is_exact) == (4, True)
    assert found.certificate().check()
    ctx = Context({i: Range(0, 8)})
    for e in (i ^ ((i + 1) * 8), ((i + i) & 2) ^ i, i + i * 3 * 16, (i * 2) ^ (i ^ 1)):
        found = contiguity(e, i, ctx)
        assert (found.value, found.is_exact) == (1, False), e
    assert bank_conflicts(i * 128, [i, i], ctx).value == 8
    assert bank_conflicts(i * 4, [j], Context({i: Range(0, 8), j: Range.of_extent(0, n)})).value == 1


EIGHT = Context({i: Range(0, 8)})
test_what_is_not_made_of_bits_is_refused = refused_with_words(
    [
        ("not known: a sum that may carry", lambda: bank_conflicts(i * 12, [i], EIGHT)),
        ("no constant end", lambda: bank_conflicts(j * 4, [j], Context({j: Range.of_extent(0, n)}))),
        ("power of two", lambda: bank_conflicts(i * 4, [i], EIGHT, banks=12)),
        ("power of two", lambda: contiguity(i * 4, i, EIGHT, step=3)),
        ("always 0", lambda: alignment(const(0), EIGHT)),
        ("may borrow", lambda: alignment(i - 9, EIGHT)),
        ("a Context", lambda: alignment(i, {})),
    ]
)


def test_an_answer_is_pickled_and_its_certificate_refuses_a_change():
    ctx = Context({i: Range(0, 32), j: Range(0, 64)})
    found = bank_conflicts(SWIZZLED, [i], ctx)
    copy = pickle.loads(pickle.dumps(found))
    assert (copy.value, repr(copy)) == (found.value, repr(found)) and copy.certificate().check()
    cert = found.certificate()
    assert not replace(cert, value=cert.value * 2).check()
    words, banks = cert.ranks
    (chosen, column), *rest = words.pivots
    broken = replace(words, pivots=(((*chosen, chosen[0]), column), *rest))
    assert not replace(cert, ranks=(broken, banks)).check()


@pytest.mark.parametrize(
    ("e", "low", "extent", "value"),
    [(i * 2, 0, 5, 4), (i * 2, 5, 4, 2), (i * 2, 3, 5, 4), (i * 2, 7, 1, 1), (i * 2, 0, 8, 8), (i * 2, 8, 9, 8)],
)
def test_a_run_lies_within_the_range(e, low, extent, value):
    found = contiguity(e, i, Context({i: Range(low, extent)}), step=2)
    assert found.value == value
    assert found.certificate().check()
    longer = replace(found.certificate(), value=value * 2)
    assert not longer.check()


def test_sizes_of_a_certificate_are_powers_of_two():
    ctx = Context({i: Range(0, 32)})
    cert = bank_conflicts(i * 128, [i], ctx).certificate()
    for sizes in ((63, 4), (32, 7), (48, 4), (0, 4), (-32, 4)):
        assert not replace(cert, sizes=sizes).check(), sizes
    run = contiguity(i * 2, i, ctx, step=2).certificate()
    assert not replace(run, sizes=(3,)).check()
    assert not replace(run, value=31).check()


def is_run(length, step, v, addresses, variables):
    """Whether addresses of blocks of `length` values of `v` are `step` apart."""
    place = variables.index(v)
    for point, address in addresses.items():
        after = (*point[:place], point[place] + 1, *point[place + 1 :])
        if point[place] % length < length - 1 and addresses.get(after, address + step) - address != step:
            return False
    return True


@pytest.mark.parametrize("first", daily(range(0, 2_000, 50), 10))
def test_drawn_addresses_against_enumeration(first):
    for seed in range(first, first + 50):
        rng = random.Random(seed)
        variables = [i, j, k][: rng.randint(1, 3)]
        powers = rng.random() < 0.7
        extents = {v: 1 << rng.randint(0, 4) if powers else rng.randint(1, 12) for v in variables}
        ctx = Context({v: Range(0, extent) for v, extent in extents.items()})
        e = const(0)
        for v in variables:
            e = e + v * (1 << rng.choice([0, 1, 2, 5, 7])) if rng.random() < 0.5 else e ^ (v << rng.choice([1, 2, 6]))
        if rng.random() < 0.7:
            e = e ^ ((e >> rng.randint(1, 5)) & rng.choice([112, 7, 96]))
        points = [dict(zip(variables, at, strict=True)) for at in product(*map(range, extents.values()))]
        addresses = {tuple(point.values()): int(evaluate(e, point)) for point in points}
        lanes = rng.sample(variables, rng.randint(1, len(variables)))
        banks, width = rng.choice([4, 8, 32]), rng.choice([1, 4])
        try:
            found = bank_conflicts(e, lanes, ctx, banks, width)
        except InputError:
            continue
        words: dict[tuple[object, ...], set[int]] = defaultdict(set)
        for point, address in zip(points, addresses.values(), strict=True):
            others = tuple(point[v] for v in variables if v not in lanes)
            words[(*others, address // width % banks)].add(address // width)
        worst = max(map(len, words.values()))
        assert found.value == worst if found.is_exact else found.value >= worst, (seed, e)
        if any(addresses.values()):
            aligned = alignment(e, ctx)
            assert all(address % aligned.value == 0 for address in addresses.values())
            assert not aligned.is_exact or any(address % (aligned.value * 2) for address in addresses.values())
        v, step = rng.choice(variables), rng.choice([1, 2, 4])
        run = contiguity(e, v, ctx, step)

        assert run.value <= extents[v]
        assert is_run(run.value, step, v, addresses, variables), (seed, e)
        if run.is_exact and run.value * 2 <= extents[v]:
            assert not is_run(run.value * 2, step, v, addresses, variables), (seed, e)


FRAMES, NORMALIZERS = 14, 62  # a fifth of what two symbolic stages took with a context for each pass


ROW_SUMS = """
    n = var(); m = var(); A = given(n, m); k = axis(0, m)
    B[i:n, j:m] = A[i, j] * 2
    C[i:n] = sum_(B[i, k], axis=k)
    C split i 4; B compute_at C i.inner"""


def test_two_symbolic_stages_make_few_frames_and_normalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lower` and `to_c` stay below the ceilings of contexts."""
    made = Counter[str]()

    def counted(kind: type[Any]) -> None:
        plain = kind.__init__

        def init(self: Any, *given: Any, **named: Any) -> None:
            made[kind.__name__] += 1
            plain(self, *given, **named)

        monkeypatch.setattr(kind, "__init__", init)

    s = Written(ROW_SUMS).s
    counted(Frame)
    counted(Normalizer)
    to_c(lower(s))
    assert 0 < made["Frame"] <= FRAMES
    assert 0 < made["Normalizer"] <= NORMALIZERS


def test_a_scope_is_the_same_context_whoever_asks_first() -> None:
    """A context extended in one step equals a context extended loop by loop, and both are cached."""
    n, i, j = Var("n"), Var("i"), Var("j")
    loops = [For(i, Range(0, n), Seq()), For(j, Range(0, n - i), Seq())]
    root = Context(assume=[n <= 100])
    outer = Scope(None, {}, (), frozenset(), root).inside(loops[0])
    at_once = outer.inside(loops[1]).where(i >= 3)
    bounds = at_once.ctx.bounds(i + j)
    assert outer.ctx.bounds(i) == Context({i: Range(0, n)}, assume=[n <= 100]).bounds(i)
    stepwise = outer.inside(loops[1]).where(i >= 3)
    assert stepwise.ctx.bounds(i + j) == bounds
    again = Scope(None, {}, (), frozenset(), root).inside(loops[0]).inside(loops[1]).where(i >= 3)
    assert again.ctx is stepwise.ctx
