"""Converters, the structural export and compiled expressions: equal by evaluation and by identity."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from intset import Cond, Converter, InputError, ShapeVar, Var, fold, from_json, ops, select, to_json
from intset.errors import UndefinedError
from intset.expr import evaluate as module
from intset.expr.dag import free_vars, postorder, symbols
from intset.expr.evaluate import INTERPRETED, applied, compiled, evaluate, repeatable
from intset.expr.node import Expr, Node, const, make, truth
from intset.expr.ops import OPS
from tests import ROOT
from tests.strategies.contexts import Expressions
from tests.sweeps import daily

KINDS = "sums multiples products quotients divisors choices bits shifts claims casts loads"
i, j = Var("i"), Var("j")
n = ShapeVar("n", 1, 64, 4)


def drawn(seed: int) -> tuple[Expr, Cond]:
    rng = random.Random(seed)
    expressions = Expressions(rng, (i, j, n), KINDS, sizes=(n,), shared=40)
    return expressions.integer(4), expressions.condition(3)


def test_fold_visits_each_node_once_by_rows_of_its_kind() -> None:
    visits = 0

    def add(node: Expr, a: int, b: int) -> int:
        nonlocal visits
        visits += 1
        return max(a, b) + 1

    e: Expr = i
    for _ in range(50_000):
        e = e + e
    assert fold(e, {ops.VAR: lambda v: 0, ops.ADD: add}) == visits == 50_000
    with pytest.raises(InputError, match=r"no row for 'mul', the operation of i \* j"):
        fold(i * j + 1, {ops.VAR: str, ops.CONST: str})

    class Leaf:
        args = ()

    class Special(Leaf): ...

    class Pair:
        def __init__(self, *args: object) -> None:
            self.args = args

    convert: Converter[Any, str] = Converter(
        {Leaf: lambda term: "leaf"}, var=lambda term: str(id(term)), opaque=lambda term, *args: "?" + "".join(args)
    )
    assert convert(Pair(Special(), Pair(Leaf()))) == "?leaf?leaf"
    assert convert(term := object()) == str(id(term))
    assert convert.sources == {str(id(term)): term}


def test_every_operation_has_its_operands_and_is_in_the_schema() -> None:
    assert len(OPS) > 30
    for name, op in OPS.items():
        assert op.name == name and op.doc
        assert op.operands is None or set(op.operands) <= {"i", "c"}
    for seed in range(40):
        for node in postorder(drawn(seed)):
            if node.op.operands is not None:
                assert "".join("c" if isinstance(arg, Cond) else "i" for arg in node.args) == node.op.operands
                assert isinstance(node, Cond) == node.op.boolean
    schema = json.loads((ROOT / "docs/schemas/expression.json").read_text())
    rows = schema["properties"]["nodes"]["items"]["properties"]
    assert rows["op"]["enum"] == list(OPS)
    written = {field for seed in range(60) for row in to_json(*drawn(seed))["nodes"] for field in row}  # type: ignore[union-attr]
    assert written <= set(rows)
    assert set(to_json(i)) == set(schema["required"]) == set(schema["properties"])


TO_TUPLES: dict[Any, Callable[..., object]] = {
    op: lambda node, *args: (node.op.name, node.data, *args) for op in OPS.values() if op is not ops.VAR
}


def from_tuple(term: Any, *args: Any) -> Any:
    op, data, leaves = OPS[term[0]], term[1], {ops.CONST: const, ops.BOOL: truth}
    return leaves[op](data) if op in leaves else make(op, args, data)


@pytest.mark.parametrize("seed", range(60))
def test_a_converter_its_inverse_and_json_give_back_the_expression(seed: int) -> None:
    there: Converter[Node, Any] = Converter(TO_TUPLES, var=lambda v: f"%{v}")
    back: Converter[Any, Node] = Converter(
        dict.fromkeys(OPS, from_tuple),
        kind=lambda term: term[0] if isinstance(term, tuple) else "leaf",
        operands=lambda term: term[2:] if isinstance(term, tuple) else (),
        variables=there.sources,
    )
    for root in drawn(seed):
        foreign = there(root)
        back.variables.update(there.sources)
        assert back(foreign) is root
        assert there(root) is foreign
        assert set(there.variables) >= set(root.free_vars())
    roots = drawn(seed)
    table = json.loads(json.dumps(to_json(*roots)))
    again = from_json(table, free_vars(*roots))
    if not symbols(*roots):
        assert all(a is b for a, b in zip(again, roots, strict=True))
    assert list(map(str, again)) == list(map(str, roots))
    assert to_json(*from_json(table)) == table
    new = from_json(table)
    assert [v.declared() for v in free_vars(*new)] == [v.declared() for v in free_vars(*roots)]


def test_two_variables_never_become_one() -> None:
    by_name: Converter[Node, str] = Converter({ops.ADD: lambda e, a, b: a + b}, var=lambda v: v.name)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="i and i would both become 'i'"):
        by_name(i + Var("i"))
    with pytest.raises(InputError, match="no conversion of"):
        by_name(i * j)
    twin = Var("i")
    table = to_json(i - twin)
    with pytest.raises(InputError, match="2 variables have the name 'i'"):
        from_json(table, {"i": i})
    assert from_json(table, [i, twin])[0] is i - twin
    with pytest.raises(InputError, match="2 variables are needed, not 1"):
        from_json(table, [i])


WRONG: dict[str, tuple[Mapping[str, Any], str]] = {
    "no table": ([], "must be a table"),  # type: ignore[dict-item]
    "another format": ({"format": "x"}, "must be a table"),
    "another version": ({"version": 2}, "version 1, not 2"),
    "a forward reference": ({"nodes": [{"op": "neg", "args": [0]}]}, "earlier node, not 0"),
    "an unknown operation": ({"nodes": [{"op": "pow"}]}, "unknown operation 'pow'"),
    "too few operands": ({"nodes": [{"op": "const", "value": 1}, {"op": "add", "args": [0]}]}, "other operands"),
    "a condition as a number": (
        {"nodes": [{"op": "bool", "value": True}, {"op": "neg", "args": [0]}]}, "other operands",
    ),
    "a truth value as a number": ({"nodes": [{"op": "const", "value": True}]}, "must be an integer"),
    "a number as a truth value": ({"nodes": [{"op": "bool", "value": 1}]}, "true or false"),
    "no such variable": ({"nodes": [{"op": "var", "variable": 0}]}, "names no row"),
    "a variable without a name": ({"variables": [{}]}, "has no name"),
    "a division by 0": (
        {"nodes": [{"op": "const", "value": 0}, {"op": "floordiv", "args": [0, 0]}]}, "division by the constant 0",
    ),
    "a wide cast": ({"nodes": [{"op": "const", "value": 0}, {"op": "cast", "args": [0], "bits": 0}]}, "at least 1"),
    "rows that are no tables": ({"nodes": [3]}, "must be a list of tables"),
    "no such root": ({"roots": [0]}, "a root must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_json_that_is_none_is_refused(name: str) -> None:
    change, message = WRONG[name]
    table = change if isinstance(change, list) else {"format": "intset.expression", "version": 1, "roots": [], **change}
    with pytest.raises(InputError, match=message) as error:
        from_json(table)
    assert "\n" not in str(error.value)


def outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except (UndefinedError, ZeroDivisionError):
        return "undefined"


@pytest.mark.parametrize(("length", "depth"), [(60, 5), (200, 8), (4000, 60)])
@pytest.mark.parametrize("seeds", daily([range(120), range(120, 1500)], 2))
def test_parts_that_are_functions(length: int, depth: int, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEXT", length)
    monkeypatch.setattr(module, "MAX_DEPTH", depth)
    variables, undefined = [Var("a"), Var("b"), Var("c")], 0
    for seed in seeds:
        rng = random.Random(seed)
        drawn = Expressions(rng, variables, "sums sums divisors choices choices", shared=60)
        for node in [(drawn.integer(2), drawn.condition(2)) for _ in range(12)][-1]:
            function = compiled(node, variables)
            for _ in range(4):
                point = [rng.randint(-6, 6) for _ in variables]
                expected = outcome(evaluate, node, dict(zip(variables, point, strict=True)))
                assert outcome(function, *point) == expected, (node, point)
                undefined += expected == "undefined"
    assert undefined > 20


def test_evaluations_agree_before_and_after_the_translation() -> None:
    a, b = Var("a"), Var("b")
    function = repeatable((a // b).eq(2) & (a % b >= 1), [a, b])
    points = [(7, 3), (6, 3), (0, 0)] * (INTERPRETED + 2)
    for x, y in points:
        if y:
            assert function(x, y) is bool(x // y == 2 and x % y >= 1)
        else:
            with pytest.raises(ArithmeticError):
                function(x, y)
    a, b = Var("a"), Var("b")
    assert applied(a // b, [7, 2]) == 3
    assert applied(a // b, [7, 0]) is None
    assert applied(a + b, [None, 1]) is None
    assert applied(select(a < b, a, b), [True, 4, None]) == 4
    assert applied((a < b) & (b < 9), [False, None]) is False


def test_long_and_shared_expressions_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Var("a")
    e = a // 3
    for k in range(200):
        e = (e + k) // 5 + e % 7
    assert compiled(e, [a])(1000) == evaluate(e, {a: 1000})
    # Conditions of thousands of clauses are compiled, not interpreted, and stay lazy.
    a, b = Var("a"), Var("b")
    cond = a < 0
    for k in range(1, 3000):
        cond = cond | ((a >= 7 * k) & (a * 3 + b // (a - 7 * k) <= k))
    function = compiled(cond, [a, b])
    monkeypatch.delattr(module, "evaluate")
    for point in ((-1, 0), (3, 5), (14, 2), (20_000, -90_000)):
        assert outcome(function, *point) == outcome(evaluate, cond, dict(zip((a, b), point, strict=True)))
