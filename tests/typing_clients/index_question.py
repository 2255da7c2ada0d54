"""A client under strict typing: questions about indices, regions and spaces; conversions to other tools."""

from collections.abc import Callable, Mapping
from pathlib import Path
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
    Region,
    Relation,
    ShapeVar,
    Space,
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
from intset.adapters import islpy as isl
from intset.adapters import mlir
from lowering import Exploration, explore


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


def regions() -> None:
    i, j, n = Var("i"), Var("j"), ShapeVar("n")
    ctx = Context({i: Range(0, n), j: Range(0, 4)})
    r = ctx.image((i * 4 + j, i))
    assert_type(r, Region)
    assert_type(r.box, tuple[Range, ...])
    assert_type(r | r, Region)
    fixed = r.at({n: 5})
    print(fixed.count(), fixed.is_exact, len(r.params))
    step = ctx.relation((i,), (i + 1,))
    assert_type(step, Relation)
    assert_type(ctx.value_set(i).contains(j), Proof)


def tiles() -> Space:
    t, n = Var("t"), ShapeVar("n", lower=1)
    space = Space({t: [8, 16, 32], n: [64, 128]}, where=[t * 2 <= n, "n % t == 0"])
    print(space.count(), space.nearest({t: 9, n: 64}), space.columns()["t"].shape)
    print(Space({"mode": ["a", "b"], "pad": [False, True]}).names)
    return space


def cost(configuration: Mapping[str, int | bool | str]) -> dict[str, float]:
    return {"cost": float(len(configuration))}


def explored(folder: Path) -> Exploration:
    results = explore(cost, [{"t": 8}, {"t": 16}], out=folder, progress=False)
    print(results.best(1), results.summary.rows)
    return results


def through_mlir() -> None:
    i = Var("i")
    found = mlir.affine_map("affine_map<(d0)[s0] -> (d0 floordiv 4, d0 mod 4 + s0)>")
    assert_type(found.results, tuple[Expr, ...])
    assert_type(found.dims, tuple[Var, ...])
    print(mlir.map_text([i * 4 + 1], [i]), mlir.set_text(i < 3, [i]))
    constraints: tuple[Cond, ...] = mlir.affine_set("(d0) : (d0 >= 0)").constraints
    print(constraints)


def through_isl() -> None:
    n = Var("n")
    assert_type(isl.region("[n] -> { [i] : 0 <= i < n }", {"n": n}), Region)
    assert_type(isl.relation("{ [i] -> [i + 1] : 0 <= i < 4 }"), Relation)
    i = Var("i")
    print(isl.to_isl(Context({i: Range(0, 8)}).image((i,))))


def _leaf(e: Expr) -> int:
    return 0


def _deeper(e: Expr, a: int, b: int) -> int:
    return max(a, b) + 1


def _element(k: int) -> int:
    return k


def _sum_text(e: Expr, a: str, b: str) -> str:
    return f"(+ {a} {b})"
