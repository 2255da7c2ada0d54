"""A client under strict typing: questions about indices."""

from collections.abc import Callable
from typing import Literal, assert_type

from intset import (
    Bounds,
    Cond,
    Context,
    Converter,
    Expr,
    IntSet,
    Opaque,
    Proof,
    Range,
    ShapeVar,
    Var,
    annotate_shapes,
    evaluate,
    fold,
    from_json,
    maximum,
    ops,
    parse,
    select,
    to_json,
    using,
)


def questions() -> None:
    i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1, upper=4096)
    ctx = Context({i: Range(0, n), j: Range(0, 4)}, assume=[i * 4 + j < 14])
    assert_type(ctx.bounds(i * 4 + j), Bounds)
    assert_type(ctx.value_set(i % 3), IntSet)
    proof = ctx.prove((i < n) & (j >= 0))
    assert_type(proof, Proof)
    assert_type(proof.status, Literal["proved", "refuted", "unknown"])
    if proof.status == "refuted":
        print(proof.counterexample)
    assert_type(ctx.simplify(maximum(i, i + 1)), Expr)
    assert_type(ctx.simplify(i < 3), Cond)
    print(ctx.explain(i < n), ctx.explain(proof), ctx.explain(i + 1))
    with using(domain="isl", points=100), ctx.assuming(i < 3):
        low, high = ctx.bounds(i)
        print(low, high)


def expressions() -> None:
    i, table = Var("i"), Opaque("table", 1)
    e = parse("i * 4 + 1", {"i": i}, kind=Expr)
    assert_type(e, Expr)
    assert_type(parse("i < 4", {"i": i}, kind=Cond), Cond)
    either = parse("i + 1", {"i": i})
    assert_type(either, Expr | Cond)
    if isinstance(either, Expr):
        print(either + e)
    assert_type(evaluate(e, {i: 3}), int)
    assert_type(evaluate(i < 4, {i: 3}, bits=8), bool)
    assert_type(evaluate(e + table[i], {i: 3, table: _element}), int)
    assert_type(annotate_shapes(e, i), Expr)
    assert_type(annotate_shapes([i < 3], {i: Range(0, 8)}), list[Cond])
    assert_type(e.substitute({i: i + 1}), Expr)
    assert_type(select(i < 3, i, 0), Expr)
    assert_type(from_json(to_json(e))[0], Expr | Cond)


def conversions() -> None:
    i = Var("i")
    depths: dict[ops.Op, Callable[..., int]] = {ops.VAR: _leaf, ops.CONST: _leaf, ops.MUL: _deeper, ops.ADD: _deeper}
    assert_type(fold(i * 2 + i, depths), int)
    text = Converter[Expr | Cond, str]({ops.CONST: str, ops.ADD: _sum_text}, var=lambda v: str(v), variables={i: "i"})
    assert_type(text(i + 1), str)


def _leaf(e: Expr) -> int:
    return 0


def _deeper(e: Expr, a: int, b: int) -> int:
    return max(a, b) + 1


def _element(k: int) -> int:
    return k


def _sum_text(e: Expr, a: str, b: str) -> str:
    return f"(+ {a} {b})"
