"""Index maps with and without split-and-fuse structure, against enumeration."""

from typing import Any

import pytest

from intset import Cond, Context, Expr, InputError, Range, ShapeVar, Var, evaluate
from tests.intset.oracle import Claims
from tests.strategies.contexts import Drawn, world
from tests.sweeps import daily

i, j, k = Var("i"), Var("j"), Var("k")
n, m = ShapeVar("n"), ShapeVar("m", lower=1)


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


@pytest.mark.parametrize(("ranges", "exprs"), FOUND)
def test_structure_is_found(ranges: dict[Var, Range], exprs: list[Expr]) -> None:
    sizes = (n, m) if any(limits.free_vars() for limits in ranges.values()) else ()
    found = Claims(world(ranges, sizes=sizes), places=12).map(exprs)
    assert found.found and not found.reason and (found.injective or sizes)


def drawn(seed: int) -> tuple[Drawn, list[Expr]]:
    """Random indices over up to three variables, with structure or almost, under ranges and facts."""
    kinds, sizes = "multiples quotients quotients choices products", seed % 4 // 2 * (seed % 2 + 1)
    drawn = Drawn(seed, kinds, "box box box sized dependent", 3, sizes, 15, depth=1)
    r, own = drawn.rng, list(drawn.ranges)

    def step() -> Any:
        return drawn.sizes[-1] if sizes == 2 and r.random() < 0.3 else r.choice((2, 2, 3, 4, 5, 6, 8))

    flat: Any = own[0]
    for v in own[1:]:
        limits = drawn.ranges[v]
        scale = limits.extent if r.random() < 0.8 and not {*own} & {*limits.extent.free_vars()} else step()
        flat = flat * scale + (v - limits.min if r.random() < 0.5 else v if r.random() < 0.9 else -v)
    flat = flat + r.choice((0, 0, 0, 1, 3, -1))
    if r.random() < 0.4:
        return drawn, [drawn.expressions.sum(1, 2) for _ in range(r.randint(1, 3))]
    exprs, lower = [], 1
    for _ in range(r.randint(0, 2)):
        exprs.append(flat // lower % (by := step()))
        lower = lower * by
    exprs += [flat // lower, *([r.choice(own)] if r.random() < 0.15 else [])]
    return drawn, r.sample(exprs, len(exprs))


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 2000, 20), 100))
def test_what_is_drawn(start: int) -> None:
    for seed in range(start, start + 20):
        context, exprs = drawn(seed)
        Claims(context.setting).map(exprs)


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
