"""Index maps with and without split-and-fuse structure, against enumeration."""

import itertools
import random
from contextlib import suppress
from typing import Any

import pytest

from intset import Cond, Context, Expr, InputError, Range, ShapeVar, UndecidedError, Var, evaluate, minimum, select
from intset.errors import BudgetError
from intset.expr.node import Infinity
from tests.strategies.contexts import world
from tests.sweeps import daily

i, j, k = Var("i"), Var("j"), Var("k")
n, m = ShapeVar("n"), ShapeVar("m", lower=1)


def check(ctx: Context, exprs: list[Expr], *sizes: dict[Var, int]) -> None:
    """Compare an index map with enumeration of its context at fixed sizes."""
    found = ctx.as_iter_map(exprs)
    for values in sizes or ({},):
        check_at(ctx, exprs, found, values)


def check_at(ctx: Context, exprs: list[Expr], found: Any, values: dict[Var, int]) -> None:
    reached: dict[tuple[int, ...], dict[Var, int]] = {}
    collide = False
    setting = world({**{v: Range(x, 1) for v, x in values.items()}, **ctx.ranges}, [f.condition for f in ctx.facts])
    for row in setting.points.get((), ()):
        old = dict(zip(setting.everything, row, strict=True))
        new = tuple(evaluate(e, old) for e in exprs)
        collide = collide or new in reached
        reached[new] = old
    assert not (collide and found.injective)
    if found.injective.status == "refuted" and values.items() >= found.injective.sizes.items():
        assert collide
    if any(isinstance(e, Infinity) for r in found.ranges for e in (r.min, r.extent)):
        return
    sides = []
    for limits in found.ranges:
        low, extent = (int(evaluate(e, values)) for e in (limits.min, limits.extent))
        sides.append(range(low, low + extent))
    assert all(all(x in side for x, side in zip(new, sides, strict=True)) for new in reached)
    with suppress(UndecidedError, BudgetError):
        padding = found.padding
        for place in itertools.islice(itertools.product(*sides), 2000):
            at = {**values, **dict(zip(found.places, place, strict=True))}
            assert evaluate(padding, {v: at[v] for v in padding.free_vars()}) == (place not in reached), (exprs, place)
    if found.injective:
        with suppress(UndecidedError, BudgetError):
            back = found.inverse(found.places)
            for new, old in reached.items():
                at = {**values, **dict(zip(found.places, new, strict=True))}
                assert all(evaluate(e, {u: at[u] for u in e.free_vars()}) == old[v] for v, e in back.items())
    if found.surjective:
        assert all(place in reached for place in itertools.product(*sides))
    elif found.surjective.points and values.items() >= found.surjective.sizes.items():
        missed = found.surjective.points[0]
        assert missed not in reached and all(x in side for x, side in zip(missed, sides, strict=True))


FOUND: list[tuple[dict[Var, Range], list[Expr]]] = [
    ({i: Range(0, 16)}, [i // 4, i % 4]),
    ({i: Range(3, 13)}, [i // 4, i % 4]),
    ({i: Range(0, 16)}, [(i + 2) // 8, (i + 2) // 4 % 2, (i + 2) % 4]),
    ({i: Range(0, 5), j: Range(0, 6)}, [(i * 6 + j) // 4, (i * 6 + j) % 4]),
    ({i: Range(0, 5), j: Range(0, 4)}, [(i * 4 + j) // 4, j]),
    ({i: Range(0, 4), j: Range(0, 16)}, [(i * 16 + j) // 32, (i * 16 + j) // 8 % 4, (i * 16 + j) % 8]),
    ({i: Range(0, 4), j: Range(0, 3)}, [i * 4 + j]),
    ({i: Range(0, 4), j: Range(-1, 3)}, [30 - i * 5 - j * 2]),
    ({i: Range(0, 12)}, [i % 6 // 2 * 2 + i // 6 * 10, 1 - i % 2]),
    ({i: Range(0, 1), j: Range(0, 7)}, [j, i]),
    ({i: Range(0, 27)}, [i // 9, i // 3 % 3, i % 3]),
    ({i: Range(0, n)}, [i // 4, i % 4]),
    ({i: Range(0, n), j: Range(0, m)}, [i * m + j]),
    ({i: Range(0, n), j: Range(0, m)}, [(i * m + j) // 4, (i * m + j) % 4]),
    ({i: Range(0, n * m)}, [i % m, i // m]),
    ({i: Range(0, n)}, [i // m, i % m]),
    ({i: Range(0, n)}, [n - 1 - i]),
    ({i: Range(2, n)}, [(i + 1) // 3, (i + 1) % 3]),
]
SIZES = [{n: a, m: b} for a, b in itertools.product((0, 1, 3, 6), (1, 2, 3))]


@pytest.mark.parametrize(("ranges", "exprs"), FOUND)
def test_structure_is_found(ranges: dict[Var, Range], exprs: list[Expr]) -> None:
    found = Context(ranges).as_iter_map(exprs)
    is_sized = any(limits.free_vars() for limits in ranges.values())
    assert found.found and not found.reason and (found.injective or is_sized)
    check(Context(ranges), exprs, *(SIZES if is_sized else ()))


def drawn(seed: int) -> tuple[Context, list[Expr], list[dict[Var, int]]]:
    """Random indices over up to three variables, with structure or almost, under ranges and facts."""
    r = random.Random(seed)
    sizes = r.choice((0, 0, 1, 2))
    own = [i, j, k][: r.choice((1, 2, 2, 3))]
    ranges: dict[Any, Range] = {}
    for v in own:
        extent: Any = r.choice((1, 2, 3, 4, 5, 6, 7, 8))
        if sizes and r.random() < 0.5:
            extent = r.choice((n, m, n + 1, m * 2) if sizes == 2 else (n,))
        elif ranges and r.random() < 0.15:
            extent = r.choice(list(ranges)) + r.randint(-1, 2)
        ranges[v] = Range(r.choice((0, 0, 0, 0, 1, -2, 3)), extent)

    def step() -> Any:
        return m if sizes == 2 and r.random() < 0.3 else r.choice((2, 2, 3, 4, 5, 6, 8))

    flat: Any = own[0]
    for v in own[1:]:
        scale = ranges[v].extent if r.random() < 0.8 and not set(own) & set(ranges[v].extent.free_vars()) else step()
        flat = flat * scale + (v - ranges[v].min if r.random() < 0.5 else v if r.random() < 0.9 else -v)
    flat = flat + r.choice((0, 0, 0, 1, 3, -1))
    exprs: list[Any] = []
    if r.random() < 0.6:
        lower: Any = 1
        for _ in range(r.randint(0, 2)):
            by = step()
            exprs.append(flat // lower % by)
            lower = lower * by
        exprs.append(flat // lower)
        if r.random() < 0.15:
            exprs.append(r.choice(own))
    else:
        for _ in range(r.randint(1, 3)):
            a, b, c, d = r.choice(own), r.choice(own), step(), step()
            forms = (a, a // c, a % c, a * c + b, a + b, a - b, (a + b) % c, 10 - a * 2, a // c % d, a * a)
            exprs.append(r.choice((*forms, select(a < 3, a, a + 2), minimum(a, b), (a * c + b) // d, a % c * d + b)))
    r.shuffle(exprs)
    facts = []
    if r.random() < 0.25:
        a, b = r.choice(own), r.choice(own)
        facts = [r.choice((a + b < r.randint(1, 8), a <= b + 1, (a % 2).eq(0), a.ne(2), flat < r.randint(2, 20)))]
    at = [{n: a, m: b} for a in (0, 1, 2, 5) for b in ((1, 3) if sizes == 2 else (1,))] if sizes else [{}]
    if sizes and r.random() < 0.3:
        fact = r.choice((n < 2, n <= 2, (n % 2).eq(0), n.ne(2)))
        facts, at = [*facts, fact], [values for values in at if evaluate(fact, values)]
    return Context(ranges, assume=facts), exprs, at


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 2000, 20), 100))
def test_what_is_drawn(start: int) -> None:
    for seed in range(start, start + 20):
        ctx, exprs, at = drawn(seed)
        check(ctx, exprs, *at)


def test_the_answers_are_conditions_and_values_of_what_is_passed() -> None:
    found = Context({i: Range(0, 14)}).as_iter_map([i // 4, i % 4])
    o, r = Var("o"), Var("r")
    assert isinstance(found.padding, Cond) and str(found.padding_at((o, r))) == "o * 4 + r >= 14"
    assert str(found.inverse((o, r))) == "{i: o * 4 + r}"
    assert evaluate(found.inverse((o, 1))[i], {o: 2}) == 9
    assert "split and fuse" in repr(found)


def test_bad_questions() -> None:
    ctx = Context({i: Range(0, 16)})
    for exprs in ([], i, "i", [1.5]):
        with pytest.raises(InputError):
            ctx.as_iter_map(exprs)
    found = ctx.as_iter_map([i // 4])
    with pytest.raises(InputError, match="arrive at one place"):
        found.inverse(found.places)
    with pytest.raises(InputError, match="1 new indices"):
        found.padding_at((1, 2))
