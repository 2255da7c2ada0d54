"""The shape environment of PyTorch itself: torch's facts arrive, and answers consist of torch's classes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
sympy = pytest.importorskip("sympy")
from torch._dynamo.source import ConstantSource  # noqa: E402
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv  # noqa: E402
from torch.utils._sympy.functions import CeilDiv, FloorDiv, Max, Min, Mod, ModularIndexing, PythonMod  # noqa: E402
from torch.utils._sympy.numbers import int_oo  # noqa: E402

from intset import ShapeVar, Var, evaluate  # noqa: E402
from intset.adapters.sympy import Environment, exporter, importer  # noqa: E402
from intset.adapters.torch import torch_names  # noqa: E402


def size(shape_env: Any, name: str, hint: int) -> Any:
    return shape_env.create_symbol(hint, source=ConstantSource(name), dynamic_dim=DimDynamic.DYNAMIC)


def test_backed_and_unbacked_symbols_with_all_that_is_known() -> None:
    shape_env: Any = ShapeEnv()
    a, b, c = (size(shape_env, name, hint) for name, hint in (("a", 16), ("b", 16), ("c", 28)))
    assert shape_env.evaluate_expr(sympy.Eq(Mod(a, 8), 0))
    assert shape_env.evaluate_expr(sympy.Eq(b, a)) and shape_env.evaluate_expr(sympy.Eq(c, a + 12))
    u = shape_env.create_unbacked_symint()
    torch._check(u >= 3)
    torch._check(u <= 100)
    torch._check(u % 4 == 0)
    number, flag = shape_env.create_unbacked_symfloat(), shape_env.create_unbacked_symbool()
    torch._check(number < 2.5)
    free = u.node.expr
    env = Environment.of(shape_env)
    assert env.guard_holds(sympy.Eq(Mod(a * c, 32), 0)) is True
    assert env.guard_holds(sympy.Eq(Mod(b, 8), 0)) is True
    assert env.guard_holds(sympy.Ne(c, a)) is True
    assert env.guard_holds(sympy.Eq(PythonMod(free, 4), 1)) is False
    assert env.guard_holds(free > c) is None
    assert env.value_range(free) == (4, 100) and env.value_range(a) == (8, int_oo)
    assert env.value_range(-c) == (-int_oo, -20)
    assert env.guard_holds(flag.node.expr | sympy.Not(flag.node.expr)) is True
    assert [str(fact) for fact in env.left_out] == [str(number.node.expr < 2.5)]


def test_answers_are_written_with_its_classes() -> None:
    shape_env: Any = ShapeEnv()
    a, b = size(shape_env, "a", 16), size(shape_env, "b", 10)
    env = Environment.of(shape_env)
    assert env.simplify_index(FloorDiv(a, 3) * 1 + b - b) == FloorDiv(a, 3)
    assert env.simplify_index(Mod(a * b, 3) + Mod(b, a) * 0) == Mod(a * b, 3)
    assert env.simplify_index(Min(a, b) + Max(a + 1, a)) == Min(a, b) + a + 1


def test_its_functions_keep_their_values() -> None:
    i, n = Var("i"), ShapeVar("n", 1)
    there = exporter(functions=torch_names())
    terms = [there(e) for e in (i // 3 + i % 4, -(-n // 3), n % 5, (n * i) // n, (i + n) % n)]
    x = there(i)
    terms += [CeilDiv(x, 4), ModularIndexing(x, 2, 3), Max(x, 3, -x), Mod(there(n), 4)]
    back = importer(there.sources)
    for a in range(-7, 8):
        for b in (1, 2, 5):
            for term in terms:
                assert evaluate(back(term), {i: a, n: b}) == int(term.subs({x: a, there(n): b}))
