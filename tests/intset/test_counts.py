"""Sums over regions, upper bounds of counts, and closed counts, against enumeration."""

import itertools
import pickle
import random
from collections.abc import Callable
from itertools import product

import pytest

from bound import infer_bound, te
from intset import (
    POS_INF,
    Context,
    CountError,
    InputError,
    Range,
    ShapeVar,
    UpperBound,
    Var,
    const,
    evaluate,
    maximum,
    minimum,
    sum_over,
    upper_bound,
)
from intset.adapters.islpy import region
from intset.domains.isl import count as counting
from intset.domains.isl.cones import Chamber, chambers
from intset.expr.dag import opaque_terms
from intset.expr.node import Expr, as_expr
from intset.linear.form import Linear
from intset.linear.lattice import integer_inverse
from tests.strategies.contexts import Drawn, world
from tests.strategies.refusals import refused_with_words
from tests.sweeps import daily

i, j, k, t = Var("i"), Var("j"), Var("k"), Var("t")
n, m = ShapeVar("n"), ShapeVar("m")
TRIANGLE = Context({i: Range(0, n), j: Range(0, i + 1)})


def at(value: object, **sizes: int) -> int:
    return int(evaluate(as_expr(value), {v: sizes[v.name] for v in as_expr(value).free_vars()}))


# -- sums --------------------------------------------------------------------------------------------------------------


def test_coordinates_are_named_by_image_by_function_by_list_and_by_number():
    triangle = TRIANGLE.image([i, j])
    by_text = region("[n] -> { [i, j] : 0 <= j <= i < n }", params={"n": n})
    d0, d1, x, y = Var("d0"), Var("d1"), Var("x"), Var("y")
    sums = [
        sum_over(i * j, triangle),
        sum_over(lambda a, b: a * b, triangle),
        sum_over(x * y, triangle, [x, y]),
        sum_over(d0 * d1, TRIANGLE.image([i, j]).project([0, 1])),
        sum_over(Var("i") * Var("j"), by_text),
    ]
    assert [at(total, n=6) for total in sums] == [sum(a * b for a in range(6) for b in range(a + 1))] * 5


LINE = Context({i: Range(0, n)}).image([i])
NINE = "[n] -> { [a, b, c, d, e, f, g, h, i] : a, b, c, d, e, f, g, h, i >= 0 and a+b+c+d+e+f+g+2h+3i <= n }"
RECTANGLE = Context({i: Range(0, n), j: Range(0, m)})
REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("infinite", lambda: sum_over(i, Context({i: Range(0, POS_INF)}).image([i]))),
    ("undefined", lambda: sum_over(5 // i, LINE)),
    ("closed form", lambda: sum_over((i * m) // 3, LINE)),
    ("state the coordinates", lambda: sum_over(t, LINE.project([0]))),
    ("a region", lambda: sum_over(i, TRIANGLE)),  # type: ignore[arg-type]
    ("2 dimensions", lambda: sum_over(i, TRIANGLE.image([i, j]), [i])),
    *(("no coordinate", lambda over=over: sum_over(i, LINE_OF_FOUR.image(over))) for over in ([i * 2], [i + 1])),
    ("no coordinate", lambda: sum_over(k, LINE_OF_FOUR.image([i]))),
    ("Context", lambda: upper_bound(i, {i: Range(0, 8)})),  # type: ignore[arg-type]
    ("no closed form here (a set of 9 dimensions has no closed count)", lambda: region(NINE, params={"n": n}).count()),
    ("superset", lambda: RECTANGLE.image([i * j, j]).count()),
    ("superset", lambda: RECTANGLE.extended(facts=[(i * m).eq(j)]).image([j * j, j * j * m]).count()),
]
LINE_OF_FOUR = Context({i: Range(0, 4)})
test_what_has_no_sum_and_no_count_is_refused = refused_with_words(REFUSED, InputError, CountError)


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_upper_bounds_of_counts_over_tiles_sizes_and_pieces():
    assert upper_bound(TRIANGLE.image([i, j]).count(), Context({n: Range(0, 100)})) == (4950, True)
    found = upper_bound(t * (n - t), Context({t: Range(0, 8)}, [n >= 16]))
    copy = pickle.loads(pickle.dumps(found))
    assert found == copy == (n * 7 - 49, True) and isinstance(copy, UpperBound)
    tile = minimum(n - t * 8, 8)
    found = upper_bound(tile * tile, Context({t: Range(0, (n + 7) // 8)}))
    assert all(at(found.value, n=size) >= min(size, 8) ** 2 for size in range(1, 40))
    assert at(found.value, n=100) == 64
    # isl's own bound of such a choice leaves out the piece where it is 0, and its pieces of a union mix.
    ctx = Context({i: Range(-3, 5), j: Range(0, i + 4)})
    assert upper_bound(maximum(-3 - i - j, const(-3) + i * 0), ctx).value == 0
    apart = Context({i: Range(-2, 9), j: Range(0, 4)}, [i.ne(j)])
    product = (i * 2 - j - 3) * (j * 2 - i + 1)
    points = [(a, b) for a in range(-2, 7) for b in range(4) if a != b]
    found = upper_bound(product, apart)
    assert int(found.value) >= max((a * 2 - b - 3) * (b * 2 - a + 1) for a, b in points)


# -- both on drawn polynomials -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", daily(range(0, 400, 20), 10))
def test_drawn_polynomials_against_enumeration(first):
    tight = closed = 0
    for seed in range(first, first + 20):
        drawn = Drawn(f"sums {seed}", "sums sums products quotients choices", "sized box", sizes=1, facts=25, depth=1)
        ctx, (weight,), over = drawn.ctx, drawn.exprs, list(drawn.ranges)
        bound = upper_bound(weight, ctx)
        tight += bound.is_tight
        try:
            total = sum_over(weight, ctx.image(over))
        except (CountError, InputError):  # no closed form, or a plain size that the region does not mention
            continue
        closed += 1
        for params, points in drawn.setting.points.items():
            env = drawn.setting.env(params)
            values = [evaluate(weight, dict(zip(drawn.setting.everything, point, strict=True))) for point in points]
            assert evaluate(as_expr(total), env) == sum(values), (drawn, env)
            if bound.value is not POS_INF:
                most = evaluate(as_expr(bound.value), env)
                assert most >= max(values) and (not bound.is_tight or most == max(values)), (drawn, env)
        assert bound.is_tight or not ctx.bounds(weight).is_tight, drawn
    assert tight >= 10 and closed >= 15, (tight, closed)


# -- counts without a short form ---------------------------------------------------------------------------------------


def test_beyond_its_length_a_count_is_a_numeric_function(monkeypatch):
    points = "[n, m] -> { [i, j] : i >= 0 and j >= 0 and 3i + 5j <= n and 2i + 7j <= m }"
    short = region(points, params={"n": n, "m": m}).count()
    monkeypatch.setattr(counting, "COUNTED_NODES", 20)
    found = region(points, params={"n": n, "m": m}).count()
    assert opaque_terms(as_expr(found)) and not opaque_terms(as_expr(short))
    copy = pickle.loads(pickle.dumps(found))
    for a, b in ((0, 0), (-1, 4), (17, 30), (100, 3), (40, 40)):
        assert at(found, n=a, m=b) == at(copy, n=a, m=b) == at(short, n=a, m=b)


def test_overlapping_parts_are_counted_by_inclusion_and_exclusion_where_that_is_shorter():
    across = "0 <= i < n and 0 <= j <= 3 and 0 <= k <= 3"
    along = "0 <= i <= 3 and 0 <= j < n and 0 <= k <= 3"
    found = region(f"[n] -> {{ [i, j, k] : ({across}) or ({along}) }}", params={"n": n}).count()
    for size in (0, 1, 3, 4, 9):
        points = {(a, b) for a in range(size) for b in range(4)} | {(a, b) for a in range(4) for b in range(size)}
        assert at(found, n=size) == len(points) * 4


# -- images under injective maps ---------------------------------------------------------------------------------------

INJECTIVE = {
    "digits": ({i: Range(0, n * m)}, [i // m, i % m]),
    "row and column": ({i: Range(0, n), j: Range(0, m)}, [i * m + j, j]),
    "beside another variable": ({i: Range(0, n), j: Range(0, m), k: Range(0, 5)}, [i * m + j, i]),
    "a triangle": ({i: Range(0, n), j: Range(0, i + 1)}, [i * i * m + j, i]),
    "without a value at 0": ({i: Range(0, n), j: Range(0, m)}, [i * m + j, j, 6 // j]),
}


@pytest.mark.parametrize("name", INJECTIVE)
def test_an_image_under_an_injective_map_has_the_count_of_its_domain(name):
    ranges, exprs = INJECTIVE[name]
    image = Context(ranges).image(exprs)
    number = as_expr(pickle.loads(pickle.dumps(image)).count())
    values = world(ranges, sizes=[n, m]).values(*exprs)
    for height, width in itertools.product(range(4), repeat=2):
        assert evaluate(number, {n: height, m: width}) == len(values.get((height, width), ())), (height, width)


# -- closed counts: integer matrices -----------------------------------------------------------------------------------


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
