"""A client under strict typing: conversions to and from other tools."""

from typing import assert_type

from intset import Cond, Context, Expr, Range, Region, Relation, Var
from intset.adapters import islpy as isl
from intset.adapters import mlir


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
