"""Breakpoints of minima and maxima, signs of quotients and products, against enumeration."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from intset import Context, Range, ShapeVar, Var, ceildiv, evaluate
from intset.linear.symbolic import greatest_of_pieces, minimum_pieces, sum_of_pieces, value_at
from tests.sweeps import sampled

T, U = ShapeVar("t", lower=1), ShapeVar("u", lower=1)
O = Var("o")


@st.composite
def sums(draw: st.DrawFn) -> tuple[object, list[object]]:
    total, more = draw(st.integers(1, 20)), draw(st.integers(0, 4))
    forms = [T + more, total + more - T * O, draw(st.integers(-3, 12)) + 0 * T, draw(st.integers(-6, 6)) + U * O]
    forms += [draw(st.integers(-4, 20)) - U * O, T * O + T - draw(st.integers(0, 9)), U + draw(st.integers(-3, 3))]
    chosen = draw(st.lists(st.sampled_from(forms), min_size=1, max_size=3, unique_by=str))
    return draw(st.sampled_from([ceildiv(total, T), total + 0 * T, U + 1])), chosen


@sampled(60, 800, sums(), shows={"closed"})
def test_the_sum_and_the_maximum_are_those_of_all_iterations(case: tuple[object, list[object]]) -> str:
    number, exprs = case
    known = Context({O: Range(0, number)}).frame.known  # type: ignore[arg-type]
    forms = [known.form(e) for e in exprs]  # type: ignore[arg-type]
    pieces = minimum_pieces(known, forms, O, known.form(O * 0), known.form(number))  # type: ignore[arg-type]
    if pieces is None:
        return "open"
    total = sum_of_pieces(known, pieces)
    for t, u in product(range(1, 8), range(1, 5)):
        at = {T: t, U: u}
        count = evaluate(known.form(number).expr(), at)  # type: ignore[arg-type]
        values = [max(0, min(evaluate(f.expr(), {**at, O: o}) for f in forms)) for o in range(count)]
        assert evaluate(total, at) == sum(values)
        tops = [
            evaluate(value_at(known, line, place).expr(), at)
            for length, line, place in greatest_of_pieces(pieces)
            if evaluate(length.expr(), at) > 0
        ]
        assert max([0, *tops]) == max([0, *values])
    return "closed"


@sampled(
    80, 1500, st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 7)), min_size=1, max_size=3), st.integers(-9, 9)
)
def test_signs_of_quotients_and_products_are_true(terms: list[tuple[int, int]], rest: int) -> None:
    n = ShapeVar("n", upper=9)
    atoms = [T * O, T * (n // T), n // T, (n + 3) // T, ceildiv(n, T), n % T, T, U * (O // U)]
    e = sum((k * atoms[which] for k, which in terms), n * 0 + rest)
    known = Context({O: Range(0, ceildiv(n, T))}).frame.known
    if known.is_nonneg(known.form(e)):
        for t, u, size in product(range(1, 7), range(1, 4), range(10)):
            for o in range(-(-size // t)):
                assert evaluate(e, {T: t, U: u, n: size, O: o}) >= 0


def test_tiles_end_where_their_axis_ends() -> None:
    n = ShapeVar("n")
    for size in (56, n):
        known = Context({O: Range(0, ceildiv(size, T))}).frame.known
        assert known.is_nonneg(known.form(size - 1 - T * O))
        assert not known.is_nonneg(known.form(size - 2 - T * O))
    assert known.is_nonneg(known.form(ceildiv(56, T) - 56 // T))
    assert known.is_nonneg(known.form(1 - 56 // T + 55 // T))
