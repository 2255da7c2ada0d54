"""Closed counts: integer matrices, quasi-polynomials of chambers, and counts of drawn sets against enumeration."""

import random
from itertools import product

import pytest

from bound import infer_bound, te
from intset import Context, ShapeVar, Var
from intset.adapters.islpy import region
from intset.domains.isl import count as counting
from intset.domains.isl.cones import Chamber, chambers
from intset.errors import CountError
from intset.expr.dag import opaque_terms
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, as_expr
from intset.linear.form import Linear
from intset.linear.lattice import integer_inverse
from tests.sweeps import daily

i, j, k = Var("i"), Var("j"), Var("k")
n, m = ShapeVar("n"), ShapeVar("m")


# -- integer matrices --------------------------------------------------------------------------------------------------


def matrices(size: int, number: int) -> list[list[list[int]]]:
    rng = random.Random(size)
    return [[[rng.randint(-9, 9) for _ in range(size)] for _ in range(size)] for _ in range(number)]


def product_of(a, b):
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_an_integer_inverse_times_its_matrix_is_the_determinant(size):
    singular = 0
    for matrix in [*matrices(size, 200), [[0] * size] * size]:
        inverse, determinant = integer_inverse(matrix)
        if not determinant:
            singular += 1
            continue
        assert determinant > 0
        scaled = [[determinant * (r == c) for c in range(size)] for r in range(size)]
        assert product_of(matrix, inverse) == scaled == product_of(inverse, matrix)
    assert 1 <= singular < 60


# -- chambers ----------------------------------------------------------------------------------------------------------


def test_a_wrong_form_is_never_an_answer(monkeypatch):
    def wrong(*given):
        return [Chamber(c.zero, c.nonneg, c.congruences, c.numerator.plus(Linear(1, {})), 1) for c in chambers(*given)]

    monkeypatch.setattr(counting, "chambers", wrong)
    with pytest.raises(AssertionError, match="a closed count is"):
        Context.from_constraints([i, j], [i >= 0, j >= 0, i * 3 + j * 2 <= n]).image((i, j)).count()


# -- sets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "conditions", "image", "text"),
    [
        ((i, j), (i >= 0, j >= i, j < n), (i, j), "(n + n * n) // 2"),
        ((i, j), (i >= 0, i < n, j >= 0, j < 4), (i, j), "n * 4"),
        ((i, j, k), (i >= 0, j >= i, k >= j, k < n), (i, j, k), "(n * 2 + n * n * 3 + n * n * n) // 6"),
        ((i,), (i >= 0, i * 3 <= n), (i,), "n // 3 + 1"),
        ((i, j), (i >= 0, j >= 0, i * 3 + j * 2 <= n), (i, j), None),
        ((i, j, k), (i >= 0, j >= 0, k >= 0, (i * 2 + j * 3 + k * 5).eq(n)), (i, j, k), None),
        ((i, j), (i >= 0, j >= i, j <= n, ((i + j * 2) % 5).eq(3)), (i, j), None),
        ((i, j), (i >= 0, j >= 0, i < n, j < n), (i * 3 + j * 5,), None),
    ],
)
def test_closed_counts_of_known_sets(variables, conditions, image, text):
    count = Context.from_constraints(variables, conditions).image(image).count()
    assert isinstance(count, Expr) and not opaque_terms(count)
    assert text is None or str(count) == text
    for size in range(13):
        points = set()
        for at in product(range(max(size + 1, 4)), repeat=len(variables)):
            env = {n: size, **dict(zip(variables, at, strict=True))}
            if all(evaluate(cond, env) for cond in conditions):
                points.add(tuple(evaluate(e, env) for e in image))
        assert evaluate(count, {n: size}) == len(points), size


def drawn_set(rng: random.Random) -> tuple[str, list[str]]:
    """A bounded set of two to four coordinates over one or two sizes, with coefficients up to 7."""
    dims, sizes = list("ijkl")[: rng.choice((2, 2, 3, 3, 4))], ["n", "m"][: rng.randint(1, 2)]

    def sum_of_some() -> str:
        return " + ".join(f"{rng.randint(-7, 7)}{x}" for x in rng.sample(dims, rng.randint(1, min(3, len(dims)))))

    def part() -> str:
        total = " + ".join(f"{rng.randint(1, 7 if len(dims) < 4 else 3)}{x}" for x in dims)
        rows = [f"{x} >= {rng.randint(-2, 1)}" for x in dims]
        rows.append(f"{total} <= {rng.randint(1, 2)}{rng.choice(sizes)} + {rng.randint(-3, 6)}")
        for _ in range(rng.randint(0, 2)):
            more = (
                f"{sum_of_some()} <= {rng.choice(sizes)} + {rng.randint(-3, 5)}",
                f"({sum_of_some()}) mod {rng.randint(2, 5)} = {rng.randint(0, 1)}",
                f"{sum_of_some()} + {rng.randint(-3, 3)} >= 0",
                f"{sum_of_some()} = {rng.choice(sizes)}",
            )
            rows += [rng.choice(more)]
        return " and ".join(rows)

    kind = rng.random()
    inside = part() if kind < 0.5 else f"({part()}) or ({part()})"
    head = dims if kind < 0.8 else dims[1:]
    quantified = "" if kind < 0.8 else f"exists {dims[0]}: "
    return f"[{', '.join(sizes)}] -> {{ [{', '.join(head)}] : {quantified}({inside}) }}", sizes


@pytest.mark.parametrize("first", daily(range(0, 1200, 8), 150))
def test_counts_of_drawn_sets(first):
    closed = 0
    for seed in range(first, first + 8):
        text, sizes = drawn_set(random.Random(seed))
        variables = {name: ShapeVar(name) for name in sizes}
        points = region(text, params=variables)
        try:
            count = as_expr(points.count())
        except CountError:
            continue
        closed += 1
        values = range(0, 26, 2) if len(sizes) == 1 else (0, 1, 4, 9)
        for at in product(values, repeat=len(sizes)):
            env = dict(zip(variables.values(), at, strict=True))
            true = points.at({v: x for v, x in env.items() if v in points.params}).count()
            assert evaluate(count, env) == true, (text, env)
    assert closed >= 7


def test_what_was_exceeded_is_named():
    text = "[n] -> { [a, b, c, d, e, f, g, h, i] : a, b, c, d, e, f, g, h, i >= 0 and a+b+c+d+e+f+g+2h+3i <= n }"
    with pytest.raises(CountError, match=r"no closed form here \(a set of 9 dimensions has no closed count\)"):
        region(text, params={"n": n}).count()


# -- counts over the instances of a stage ----------------------------------------------------------------------------


def stencil(size, stride, tile, fused=False):
    A = te.placeholder((size, size), name="A")
    B = te.compute((size, size), lambda y, x: A[y, x] + 1, name="B")
    side = (size - 3) // stride + 1
    C = te.compute((side, side), lambda y, x: B[y * stride, x * stride] + B[y * stride + 2, x * stride + 2], name="C")
    s = te.create_schedule(C.op)
    if fused:
        outer, _ = s[C].split(C.op.axis[0], tile)
        s[B].compute_at(s[C], outer)
    else:
        _, x, _, _ = s[C].tile(*C.op.axis, tile, tile)
        s[B].compute_at(s[C], x)
    return infer_bound(s), A, B


@pytest.mark.parametrize(
    ("stride", "tile", "fused"), [(2, 8, False), (1, 5, True), *daily([(1, 8, False), (3, 4, False), (2, 7, True)], 9)]
)
def test_totals_over_constant_tiles_of_symbolic_lengths_are_closed_forms(stride, tile, fused):
    size = te.size_var("size")
    b, A, B = stencil(size, stride, tile, fused)
    total, traffic = b.required(B).count_total(), b.traffic(A, "loads")
    assert not opaque_terms(as_expr(total)) and not opaque_terms(as_expr(traffic))
    for length in (3, 4, 7, 10, 11, 18, 35, 70):
        fixed, A_fixed, B_fixed = stencil(length, stride, tile, fused)
        assert evaluate(total, {size: length}) == fixed.required(B_fixed).count_total(), length
        assert evaluate(traffic, {size: length}) == evaluate(fixed.traffic(A_fixed, "loads"), {}), length
