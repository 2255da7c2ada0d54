"""isl's sets and maps, both ways: drawn texts beside isl's own membership and equality."""

import itertools
import random
from collections.abc import Callable

import islpy
import pytest

from intset import Context, InputError, Range, UndecidedError, Var, evaluate, logical_and, parse, using
from intset.adapters.islpy import piecewise, region, relation, to_isl
from intset.adapters.mlir import affine_set
from tests.intset.domains.isl_sets import condition
from tests.strategies.refusals import refused
from tests.sweeps import daily

n, m, i, j = Var("n"), Var("m"), Var("i"), Var("j")


def drawn(seed: int, shape: str, names: str) -> str:
    rng = random.Random(seed)
    parts = [
        " and ".join(condition(rng, f"{names}n", part, 3) for part in range(rng.randint(1, 3)))
        for _ in range(rng.randint(1, 2))
    ]
    return f"[n] -> {{ {'; '.join(f'{shape} : {part}' for part in parts)} }}"


def fixed(points: islpy.Set, size: int) -> islpy.Set:
    """The instance at one value of the parameter."""
    return points.fix_val(islpy.dim_type.param, 0, size).project_out(islpy.dim_type.param, 0, 1)


@pytest.mark.parametrize("seed", daily(range(60), 2))
def test_drawn_sets(seed: int) -> None:
    text = drawn(seed, "S[a, b]", "ab")
    theirs = islpy.Set(text).reset_tuple_id()
    ours = region(theirs, {"n": n})
    assert ours.is_exact
    assert to_isl(ours).is_equal(theirs)
    assert islpy.Set(ours.to_text("isl")).is_equal(theirs)
    for size in (0, 3):
        at = fixed(theirs, size)
        instance = ours.at({n: size}) if ours.params else ours
        for point in itertools.product(range(-2, 5), repeat=2):
            here = islpy.Set(f"{{ [{point[0]}, {point[1]}] }}")
            assert (point in instance) is not at.intersect(here).is_empty()


@pytest.mark.parametrize("seed", range(40))
def test_drawn_maps(seed: int) -> None:
    theirs = islpy.Map(drawn(seed, "A[a] -> B[b, a + b]", "ab"))
    ours = relation(theirs)
    assert (ours.sources, ours.targets) == (1, 2)
    plain = theirs.reset_tuple_id(islpy.dim_type.in_).reset_tuple_id(islpy.dim_type.out)
    assert to_isl(ours).is_equal(plain)
    assert to_isl(ours.inverse()).is_equal(plain.reverse())
    assert to_isl(ours.domain()).is_equal(plain.domain())


def test_regions_of_contexts_and_nested_tuples() -> None:
    ctx = Context({i: Range(0, n), j: Range(0, 4)})
    expected = islpy.Set("[n] -> { [x, y] : exists i, j: 0 <= i < n and 0 <= j < 4 and x = 2i + j and y = floor(i/3) }")
    assert to_isl(ctx.image((i * 2 + j, i // 3))).is_equal(expected)
    evens = ctx.image((i * 2,))
    holds = logical_and(*evens.constraints((j,)))
    assert [k for k in range(-9, 9) if evaluate(holds, {j: k, n: 3})] == [0, 2, 4]
    read = affine_set(evens.to_text("mlir"), [j], [n])
    assert [k for k in range(-9, 9) if evaluate(logical_and(*read.constraints), {j: k, n: 3})] == [0, 2, 4]
    with pytest.raises(InputError, match="have no 'and'"):
        (evens | ctx.image((i * 2 + 9,))).to_text("mlir")
    assert region("{ [A[i] -> B[j]] : 0 <= i < 2 and 0 <= j < 3 }").count() == 6
    assert region("{ [i, j] : false }").is_empty
    assert region("{ [] }").count() == 1
    assert to_isl(region("{ [i] : i < 0 and i > 0 }")).is_empty()
    diagonal = Context({i: Range(0, 9)}).image((i, i // 2))
    x, y = Var("d0"), Var("d1")
    condition = parse(diagonal.to_text(), {"d0": x, "d1": y})
    for a, b in itertools.product(range(-1, 10), range(-1, 6)):
        assert evaluate(condition, {x: a, y: b}) is ((a, b) in diagonal)


@pytest.mark.parametrize("name", ["d0", "d1", "d_0", "exists", "Max", "floord", "a b", "1x", "n.outer", "é", "p'"])
def test_any_name_of_a_parameter(name: str) -> None:
    size = Var(name)
    triangle = Context({i: Range(0, size), j: Range(i, size)}).image((i, j))
    again = region(to_isl(triangle), dict.fromkeys(to_isl(triangle).get_var_names(islpy.dim_type.param), size))
    assert again == triangle and again.params == (size,)


def test_a_set_that_no_condition_describes_goes_back_as_it_is() -> None:
    text = (
        "[d1] -> { [i, k] : exists a, b, c : 3a + 5b = i + k and 7c + 2a <= k + d1 and 0 <= i < 9 and c >= b - 2 "
        "and 0 <= 5a - 2b + 11c <= 31 and 4b + 9c <= 2i + 7 }"
    )
    size = Var("d1")
    with using(isl_operations=2_000):
        points = region(text, {"d1": size})
        found = to_isl(points)
        with pytest.raises(UndecidedError):
            points.constraints()
    expected = islpy.Set(text)
    for at in range(-4, 5):
        both = [fixed(s, at) for s in (found, expected)]
        assert islpy.Set(str(both[0]).replace("d0", "i").replace("d1", "k")).is_equal(both[1])


REFUSED: dict[str, Callable[[], object]] = {
    "a text that is none": lambda: region("{ [i] : i = "),
    "two spaces": lambda: region("{ A[i]; B[i] }"),
    "a map as a set": lambda: region("{ [i] -> [i] }"),
    "a number": lambda: region(3),  # type: ignore[arg-type]
    "a number to isl": lambda: to_isl(3),  # type: ignore[call-overload]
    "a superset": lambda: to_isl(Context({i: Range(0, 9)}, domain="interval").image((i * 2,))),
    "a function of other dimensions": lambda: piecewise("{ [i] -> [i] }", [i, j]),
    "a parameter that is no variable": lambda: region("[n] -> { [i] : i < n }", {"n": 3}),  # type: ignore[dict-item]
    "a set as a map": lambda: relation(islpy.Set("{ [i] }")),  # type: ignore[arg-type]
    "rational points": lambda: region("{ rat: [i] : 2i = 1 }"),
    "a fraction": lambda: piecewise("{ [i] -> [(i/2)] }", [i]),
    "no number": lambda: piecewise("{ [i] -> [NaN] }", [i]),
    "a function that is defined nowhere": lambda: piecewise(islpy.PwAff("{ [i] -> [(i)] : false }"), [i]),
    "a key that is no name": lambda: region("[n] -> { [i] : i < n }", {n: n}),  # type: ignore[dict-item]
    "a name that is none": lambda: to_isl(Context({i: Range(0, n)}).image((i,)), {n: 3}),  # type: ignore[dict-item]
    "a name of isl": lambda: to_isl(Context({i: Range(0, n)}).image((i,)), {n: "exists"}),
    "a name for two": lambda: to_isl(Context({i: Range(0, n), j: Range(0, m)}).image((i, j)), {n: "k", m: "k"}),
    "an unknown language": lambda: Context({i: Range(0, 9)}).image((i,)).to_text("c"),  # type: ignore[arg-type]
}
test_what_is_none_is_refused = refused(REFUSED, InputError, UndecidedError)
