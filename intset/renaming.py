"""`Context.renamed`: facts follow a variable to what stands in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from intset.errors import InputError
from intset.expr.digits import shown
from intset.expr.given import mapped
from intset.expr.node import Expr, IntLike, PlainVar, Var, as_expr
from intset.expr.range import Range
from intset.facts import DECLARED, DERIVED, Fact
from intset.ranges import as_ranges


def renamed(
    own: Mapping[Var, Range],
    stated: Iterable[Fact],
    replacements: Mapping[Var, IntLike],
    ranges: Mapping[Var, Range | None] | None,
) -> tuple[dict[Var, Range | None], tuple[Fact, ...]]:
    """The ranges and facts of a context that has the ranges `own` and states these facts; see `Context.renamed`."""
    new: dict[Expr, Expr] = {}
    for var, value in mapped(replacements, "replacements", "a mapping {Var: expression}").items():
        if not isinstance(var, Var):
            raise InputError(f"only variables can be renamed, not {shown(var)}")
        new[var] = as_expr(value, f"what replaces {var.name}")
    given = as_ranges(ranges)
    table: dict[Var, Range | None] = {}
    facts = [fact.substitute(new) for fact in stated]
    for var, limits in own.items():
        moved = _range(limits, new)
        instead = new.get(var)
        if instead is None:
            table[var] = moved
        elif type(instead) is PlainVar and instead not in given and instead not in own:
            table[instead] = moved
        else:
            facts += _inside(instead, moved)
    for old, into in new.items():
        assert isinstance(old, Var)
        facts += declared_of(old, into)
    return {**table, **given}, tuple(dict.fromkeys(facts))


def _range(limits: Range, new: Mapping[Expr, Expr]) -> Range:
    low, extent = (end.substitute(dict(new)) if isinstance(end, Expr) else end for end in (limits.min, limits.extent))
    return limits if low is limits.min and extent is limits.extent else Range(low, extent)


def _inside(e: Expr, limits: Range) -> Iterator[Fact]:
    if isinstance(limits.min, Expr):
        yield Fact(e >= limits.min, DERIVED)
    if isinstance(limits.max, Expr):
        yield Fact(e <= limits.max, DERIVED)


def declared_of(var: Var, e: Expr) -> Iterator[Fact]:
    """What `var` says of itself, said of `e`."""
    low, high, step = var.declared()
    if low is not None:
        yield Fact(e >= low, DECLARED)
    if high is not None:
        yield Fact(e <= high, DECLARED)
    if step > 1:
        yield Fact((e % step).eq(0), DECLARED)
