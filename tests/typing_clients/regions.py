"""A client under strict typing: regions and relations."""

from typing import assert_type

from intset import Context, Proof, Range, Region, Relation, ShapeVar, Var


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
