"""z3's terms, both ways: drawn expressions beside z3's own evaluation, and z3's operations beside their definitions."""

import random
from collections.abc import Callable

import pytest
import z3

from intset import Opaque, Var, evaluate
from intset.adapters.z3 import exporter, from_z3, importer, to_z3
from intset.expr.dag import free_vars
from tests.strategies.contexts import Expressions, value
from tests.strategies.refusals import refused

i, j, n = Var("i"), Var("j"), Var("n")
x, y = z3.Ints("x y")


def value_in_z3(term: z3.ExprRef, point: dict[z3.ExprRef, int]) -> int | bool:
    substituted = z3.simplify(z3.substitute(term, *[(name, z3.IntVal(k)) for name, k in point.items()]))
    return substituted.as_long() if z3.is_int_value(substituted) else z3.is_true(substituted)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_expressions_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    drawn = Expressions(rng, (i, j), "sums products quotients divisors choices claims casts", sizes=(n,), shared=40)
    there = exporter()
    for root in (drawn.integer(4), drawn.condition(3)):
        term = there(root)
        back = importer({there.variables[v]: v for v in root.free_vars()})(term)
        for _ in range(6):
            point = {v: rng.randint(-9, 9) for v in (i, j, n)}
            expected = value(root, point)
            if expected is not None:
                assert value_in_z3(term, {there.variables[v]: point[v] for v in root.free_vars()}) == expected
                assert evaluate(back, point) == expected


OF_Z3: dict[str, tuple[Callable[[int, int], z3.ExprRef], Callable[[int, int], bool]]] = {
    "div": (lambda a, b: a / b, lambda a, b: b != 0),
    "mod": (lambda a, b: a % b, lambda a, b: b != 0),
    "rem": (lambda a, b: z3.ArithRef(z3.Z3_mk_rem(z3.main_ctx().ref(), a.ast, b.ast)), lambda a, b: b != 0),  # type: ignore[attr-defined]
    "abs": (lambda a, b: z3.Abs(a) - b, lambda a, b: True),
    "implies": (lambda a, b: z3.Implies(a > b, a == 2), lambda a, b: True),
    "xor": (lambda a, b: z3.Xor(a > b, a == 2), lambda a, b: True),
    "iff": (lambda a, b: (a > b) == (a == 2), lambda a, b: True),
    "distinct": (lambda a, b: z3.Distinct(a, b, z3.IntVal(3)), lambda a, b: True),
    "if of conditions": (lambda a, b: z3.If(a > 0, b > 0, a == b), lambda a, b: True),
    "many operands": (
        lambda a, b: z3.And(z3.Sum(a, b, 1) > 0, a * b * 2 < 9, z3.Or(a > b, a < b, b == 4)), lambda a, b: True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_Z3)
@pytest.mark.parametrize("divisor", [None, 3, -3])
def test_operations_of_z3(name: str, divisor: int | None) -> None:
    build, defined = OF_Z3[name]
    second = y if divisor is None else z3.IntVal(divisor)
    term = build(x, second)  # type: ignore[arg-type]
    there = importer()
    e = there(term)
    for a in range(-7, 8):
        for b in range(-4, 5) if divisor is None else (divisor,):
            if defined(a, b):
                point = {v: {"x": a, "y": b}[v.name] for v in free_vars(e)}
                assert evaluate(e, point) == value_in_z3(term, {x: a, y: b})


def test_functions_are_opaque_symbols_and_variables_are_mapped_both_ways() -> None:
    f = z3.Function("f", z3.IntSort(), z3.IntSort(), z3.IntSort())
    e = from_z3(f(x, y) + f(y, x) - f(x, y))
    assert str(e) == "f[x, y] + f[y, x] - f[x, y]"
    assert str(to_z3(Opaque("T", 1)[i] + 1)) == "T(i) + 1"
    there = exporter()
    back = importer(there.sources)  # the very mapping of results
    e = (i + j) // 3
    assert there(e) is there(e)
    back = importer({there.variables[v]: v for v in (i, j)})
    assert back(there(e)).free_vars() == (i, j)


REFUSED: dict[str, Callable[[], object]] = {
    "a text": lambda: from_z3("x"),
    "a text to z3": lambda: to_z3("x"),  # type: ignore[arg-type]
    "a number": lambda: from_z3(3),
    "a quantifier": lambda: from_z3(z3.ForAll([x], x > 0)),
    "a real": lambda: from_z3(z3.Real("r") + 1),
    "a truth value": lambda: from_z3(z3.Bool("p")),
    "an array": lambda: from_z3(z3.Select(z3.Array("a", z3.IntSort(), z3.IntSort()), x)),
    "a bit vector": lambda: from_z3(z3.BitVec("b", 8) + 1),
    "two variables of a name": lambda: to_z3(i + Var("i")),
    "a real number": lambda: from_z3(z3.If(x > 0, z3.RealVal(1), z3.RealVal(2))),
    "a term of another context": lambda: [*map(importer(), [x, z3.Int("y", ctx=z3.Context())])],
    "two symbols of a name": lambda: to_z3(Opaque("T", 1)(i) + Opaque("T", 1)(i)),
    "a symbol and a variable of a name": lambda: to_z3(Opaque("i", 0)() + i),
    "a number for a variable": lambda: to_z3(i, {i: 3}),  # type: ignore[dict-item]
    "a real for a variable": lambda: to_z3(i, {i: z3.Real("x")}),
    "a name for a variable": lambda: to_z3(i, {"i": x}),  # type: ignore[dict-item]
    "a name as a variable": lambda: from_z3(x, {x: "i"}),  # type: ignore[dict-item]
    "bits": lambda: to_z3(i & j),
    "a shift by a variable": lambda: to_z3(i << j),
}

test_what_has_no_counterpart_is_refused = refused(REFUSED)
