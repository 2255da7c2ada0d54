"""sympy's terms, both ways: drawn expressions beside sympy's own evaluation; a shape environment's questions."""

import itertools
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from intset import InputError, ShapeVar, Var, evaluate
from intset.expr.node import Expr
from tests.intset.adapters.documented import check_examples
from tests.strategies.contexts import Expressions, value
from tests.strategies.refusals import refused
from tests.sweeps import daily

sympy = pytest.importorskip("sympy")
import intset.adapters.sympy as adapter  # noqa: E402
from intset.adapters.sympy import Environment, exporter, from_sympy, importer, to_sympy  # noqa: E402

i, j = Var("i"), Var("j")
n = ShapeVar("n", 1, 64)
k, m = sympy.symbols("k m", integer=True)
s, t = sympy.symbols("s t", positive=True, integer=True)


def value_in_sympy(term: Any, point: dict[Any, int]) -> int | bool:
    found = term.subs(point)
    return bool(found) if found in (sympy.true, sympy.false) else int(found)


@pytest.mark.parametrize("seed", daily(range(40), 2))
def test_drawn_expressions_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    drawn = Expressions(rng, (i, j), "sums products quotients divisors choices claims", sizes=(n,), shared=40)
    there = exporter()
    for root in (drawn.integer(3), drawn.condition(2)):
        term = there(root)
        back = importer(there.sources)(term)
        for _ in range(4):
            point = {i: rng.randint(-9, 9), j: rng.randint(-9, 9), n: rng.randint(1, 9)}
            expected = value(root, point)
            if expected is not None:
                assert value_in_sympy(term, {there.variables[v]: point[v] for v in root.free_vars()}) == expected
                assert evaluate(back, point) == expected


FLOOR = [
    sympy.floor((k + 1) / 4), sympy.ceiling(k / 3), sympy.floor(k / 2 + sympy.Rational(1, 3)), sympy.Mod(k, 3),
    sympy.Mod(k * 2 + m, -3), sympy.floor(k * m / 6 + k / 4), sympy.Min(k, m, 3), sympy.Max(k, m, -1), k**3 - 2 * m,
    sympy.Abs(k - m), sympy.Piecewise((k, k > 0), (m, sympy.Eq(m, 2)), (0, True)), sympy.floor(k / sympy.Integer(-4)),
    sympy.ceiling((k - m) / 5) * sympy.floor(m / 2), sympy.Mod(sympy.floor(k / 3), 4),
]  # fmt: skip
CONDITIONS = [
    k < m, sympy.Eq(sympy.Mod(k, 2), 0), sympy.Ne(k, m), sympy.Or(k > 3, m > k), sympy.Not(k > m),
    sympy.Xor(k > 0, m > 0),
    sympy.sign(k) < m, sympy.And(k >= m, m <= 2, k > -3), sympy.ITE(k > 0, m > 0, m < 0), sympy.Implies(k > 0, m > 0),
]  # fmt: skip


@pytest.mark.parametrize("term", [*FLOOR, *CONDITIONS], ids=str)
def test_terms_of_sympy(term: Any) -> None:
    there = importer()
    e = there(term)
    for a, b in itertools.product(range(-7, 8), range(-4, 5)):
        point = {there.variables[x]: c for x, c in ((k, a), (m, b)) if x in there.variables}
        assert evaluate(e, point) == value_in_sympy(term, {k: a, m: b})


def function(name: str) -> Any:
    return type(name, (sympy.Function,), {})


@pytest.mark.parametrize(
    ("name", "arity", "meaning"),
    [
        ("FloorDiv", 2, lambda a, b: a // b),
        ("CleanDiv", 2, lambda a, b: a // b),
        ("CeilDiv", 2, lambda a, b: -(-a // b)),
        ("PythonMod", 2, lambda a, b: a % b),
        ("ModularIndexing", 3, lambda a, b, c: a // b % c),
        ("LShift", 2, lambda a, b: a << b),
        ("RShift", 2, lambda a, b: a >> b),
        ("BitwiseFn_bitwise_and", 2, lambda a, b: a & b),
        ("BitwiseFn_bitwise_or", 2, lambda a, b: a | b),
        ("BitwiseFn_bitwise_xor", 2, lambda a, b: a ^ b),
    ],
)
def test_functions_of_symbolic_shapes_by_name(name: str, arity: int, meaning: Callable[..., int]) -> None:
    x, y, z = sympy.symbols("x y z", integer=True)
    there = importer()
    e = there(function(name)(*(x, y, z)[:arity]) + 1)
    for point in itertools.product(range(-5, 6), range(1, 4), range(1, 4)):
        at = {there.variables[v]: c for v, c in zip((x, y, z)[:arity], point, strict=False)}
        assert evaluate(e, at) == meaning(*point[:arity]) + 1


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("FloorToInt", math.floor), ("CeilToInt", math.ceil), ("TruncToInt", math.trunc), ("RoundToInt", round)],
)
def test_quotients_that_are_rounded(name: str, meaning: Callable[[Fraction], int]) -> None:
    there = importer()
    e = there(function(name)(function("IntTrueDiv")(k, m)))
    for a, b in itertools.product(range(-7, 8), (-3, -2, -1, 1, 2, 4)):
        assert evaluate(e, {there.variables[k]: a, there.variables[m]: b}) == meaning(Fraction(a, b))


@dataclass
class ShapeEnv:
    """The attributes of PyTorch's class of this name that are read."""

    var_to_range: dict[Any, Any] = field(default_factory=dict)
    replacements: dict[Any, Any] = field(default_factory=dict)
    guards: list[Any] = field(default_factory=list)
    deferred_runtime_asserts: dict[Any, Any] = field(default_factory=dict)


def test_an_environment_of_a_shape_environment_and_its_runtime_assertions() -> None:
    unit = sympy.Symbol("u", integer=True)
    far = SimpleNamespace(lower=2, upper=sympy.Integer(2**63 - 1))
    shape_env = ShapeEnv(
        {s: far, t: SimpleNamespace(lower=2, upper=sympy.oo), unit: SimpleNamespace(lower=-sympy.oo, upper=sympy.oo)},
        {unit: s * 4},
        [SimpleNamespace(expr=sympy.Eq(sympy.Mod(s, 8), 0)), SimpleNamespace(expr=s <= 128)],
    )
    env = Environment.of(shape_env)
    assert env.guard_holds(sympy.Eq(sympy.Mod(s * t, 8), 0)) is True
    assert env.guard_holds(unit > 512) is False
    assert env.guard_holds(t > s) is None
    assert env.value_range(unit) == (32, 512)
    assert env.value_range(s * t)[1] == sympy.oo
    assert env.simplify_index(sympy.Mod(s * t + 3, 8)) == 3
    assert env.simplify_index(unit - 4 * s + t) == t
    assert not env.prove(s < 100) and "2 symbols" not in repr(env)
    real = sympy.Symbol("x", real=True, integer=False)
    shape_env = ShapeEnv(
        {
            s: SimpleNamespace(lower=2, upper=sympy.oo, is_int=True),
            real: SimpleNamespace(lower=-sympy.oo, upper=sympy.oo, is_int=False),
        },
        {},
        [SimpleNamespace(expr=real > 2), SimpleNamespace(expr=s < 100)],
        {s: [SimpleNamespace(expr=sympy.Eq(sympy.Mod(s, 4), 0)), SimpleNamespace(expr=s >= 5)]},
    )
    env = Environment.of(shape_env)
    assert env.left_out == (real > 2,)
    assert env.value_range(s) == (8, 96)


def test_answers_are_written_as_asked() -> None:
    floor_div, far = function("FloorDiv"), sympy.Symbol("far")
    env = Environment({s: (2, None)}, functions={"FloorDiv": floor_div}, infinity=far)
    assert env.value_range(-s) == (-far, -2)
    assert env.simplify_index(sympy.floor((s + 0) / 3) + s) == s + floor_div(s, 3)
    assert str(to_sympy(i // 3 + i % 2, functions={"FloorDiv": floor_div})) == "FloorDiv(i, 3) + Mod(i, 2)"


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((s, t, 3), (3 * t, 3, 1), True),
        ((s, 1, t), (t, k, 1), True),
        ((s, t), (1, s), False),
        ((k, t), (t, 1), True),
        ((s, t), (k, 1), None),
        ((0, t), (5, 7), True),
        ((), (), True),
    ],
)
def test_contiguity(sizes: Any, strides: Any, expected: bool | None) -> None:
    env = Environment({s: (2, None), t: (2, 64), k: (0, None)})
    assert env.is_contiguous(sizes, strides) is expected


REFUSED: dict[str, Callable[[], object]] = {
    "a text": lambda: from_sympy("x"),
    "a text to sympy": lambda: to_sympy("x"),  # type: ignore[arg-type]
    "a number": lambda: from_sympy(3),
    "a fraction": lambda: from_sympy(k / 2),
    "a fraction of symbols": lambda: from_sympy(k / m),
    "an unknown function": lambda: from_sympy(sympy.sin(k)),
    "a real symbol": lambda: from_sympy(sympy.Symbol("x", integer=False)),
    "a number that is no integer": lambda: from_sympy(sympy.pi + k),
    "an open power": lambda: from_sympy(k**m),
    "a condition as an index": lambda: Environment({}).simplify_index(k > 3),
    "an index as a guard": lambda: Environment({}).guard_holds(k),
    "an index as a guard of the environment": lambda: Environment({}, [k]),
    "replacements in a circle": lambda: Environment({}, replacements={k: m + 1, m: k}),
    "sizes and strides of other numbers": lambda: Environment({}).is_contiguous([s], []),
    "two variables of a name": lambda: to_sympy(i + Var("i")),
    "a number for a variable": lambda: to_sympy(i, {i: 3}),  # type: ignore[dict-item]
    "a name for a symbol": lambda: from_sympy(k, {"k": i}),  # type: ignore[dict-item]
    "a text as a variable": lambda: from_sympy(k, {k: "x"}),  # type: ignore[dict-item]
    "a text to evaluate": lambda: Environment({}).value_range("__import__('os').getcwd()"),  # type: ignore[arg-type]
    "a float": lambda: from_sympy(k + 1.0),
    "a root": lambda: from_sympy(sympy.sqrt(k)),
    "a minimum of fractions": lambda: from_sympy(sympy.Min(k / 2, 3)),
    "a remainder of a fraction": lambda: from_sympy(sympy.Mod(k / 2, 3)),
    "infinity": lambda: from_sympy(sympy.oo),
    "a comparison with a float": lambda: from_sympy(k < 2.5),
    "a comparison with a fraction of symbols": lambda: from_sympy(k / 2 < s / m),
    "a range that is a number": lambda: Environment({k: 3}),  # type: ignore[dict-item]
    "a range of one end": lambda: Environment({k: (3,)}),  # type: ignore[dict-item]
    "a range from infinity": lambda: Environment({k: (sympy.oo, None)}),
    "a range of a name": lambda: Environment({"k": (1, 2)}),  # type: ignore[dict-item]
    "no shape environment": lambda: Environment.of(3),  # type: ignore[arg-type]
    "sizes that are no list": lambda: Environment({}).is_contiguous(k, [k]),  # type: ignore[arg-type]
    "a range to a name": lambda: Environment({k: (0, "s")}),  # type: ignore[dict-item]
}
test_what_has_no_counterpart_is_refused = refused(REFUSED)


def test_terms_too_deep_fractions_and_powers_are_refused() -> None:
    deep: Expr = i
    for step in range(6_000):
        deep = (deep + step) // 3
    limit = sys.getrecursionlimit()  # other libraries raise it, and sympy's time grows with the square of it
    sys.setrecursionlimit(450)
    try:
        with pytest.raises(InputError, match="too deeply"):
            to_sympy(deep)
    finally:
        sys.setrecursionlimit(limit)
    for term, message in {
        sympy.sqrt(k): "sqrt(k): a power with the exponent 1/2 has no counterpart",
        k ** sympy.Rational(2, 3): "k**(2/3): a power with the exponent 2/3 has no counterpart",
        3**k: "3**k: a power with the exponent k has no counterpart",
        k / 2: "k/2 is a fraction: write floor, FloorDiv or CleanDiv",
        1 / (k * m): "1/(k * m) is a fraction: write floor, FloorDiv or CleanDiv",
    }.items():
        with pytest.raises(InputError) as error:
            from_sympy(term)
        assert str(error.value) == message


def test_comparisons_may_have_fractions() -> None:
    half = sympy.Rational(1, 2)
    for condition in (
        k / 2 < m / 3, sympy.Eq(k / 2, m), sympy.Ne(k * half + half, m), k * half >= sympy.Rational(5, 3) - m / 7,
        sympy.Le(sympy.floor(k / 2) + k / 4, m), sympy.Gt(-k / 3, half), sympy.Not(k / 5 - m > half),
        sympy.Ne(m, k / 2), sympy.Eq(m, k / 2), m > k / 2, sympy.Eq(m / 4, k),
    ):  # fmt: skip
        there = importer()
        cond = there(condition)
        for a, b in itertools.product(range(-5, 6), repeat=2):
            point = {v: {k: a, m: b}[term] for term, v in there.variables.items()}
            assert evaluate(cond, point) is bool(condition.subs({k: a, m: b}))


def test_what_sympy_knows_of_a_symbol_is_declared() -> None:
    for known, declared in {
        "positive": (1, None, 1), "nonnegative": (0, None, 1), "negative": (None, -1, 1), "nonpositive": (None, 0, 1),
        "even": (None, None, 2), "zero": (0, 0, 2), "integer": (None, None, 1),
    }.items():  # fmt: skip
        symbol = sympy.Symbol("x", **{"integer": True, known: True})
        there = importer()
        variable = there(symbol)
        assert isinstance(variable, Var) and variable.declared() == declared
        again = to_sympy(variable)
        assert all(getattr(again, f"is_{fact}") for fact in (known, "integer")) or known == "zero"


def test_examples() -> None:
    check_examples(adapter, "sympy and PyTorch")


def test_ranges_may_end_at_other_symbols() -> None:
    s, x, y = sympy.symbols("s x y", integer=True)
    env = Environment({s: (2, 64), x: (0, 127), y: (0, s - 1)})
    assert env.simplify_index(sympy.floor((s * x + y) / s)) == x and env.simplify_index(sympy.Mod(s * x + y, s)) == y
    assert env.value_range(y) == (0, 63) and env.guard_holds(y < s) is True and env.guard_holds(y > s) is False
    both = Environment({s: (2, None), x: (s, s * 2), y: (-s, s - x)})
    assert both.guard_holds(x + y <= s) is True and both.guard_holds(x >= 2) is True and both.guard_holds(x > 2) is None
