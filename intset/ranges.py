"""What ranges are given, and what they say of other variables.

A range is two facts, `min <= v` and `v <= max`, about everything that they mention. Where nothing else speaks of `v`,
they may be forgotten but for one thing: that they hold together for some `v`, a condition on what the ends mention.
These conditions are facts of every frame, unless they are known to hold, so that no domain has to look for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import maximum, minimum
from intset.expr.definedness import definedness
from intset.expr.digits import shown
from intset.expr.given import listed, mapped, of_kind, refusal
from intset.expr.node import Cond, Expr, PlainVar, Var, as_expr
from intset.expr.range import Range
from intset.facts import DECLARED, Fact
from intset.infinity import NEG_INF
from intset.linear.bounds import EVERYTHING, Interval, meet
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.knowledge import Knowledge


def checked_var(var: object) -> Var:
    if not isinstance(var, Var):
        raise InputError(f"a range belongs to a variable, not to {shown(var)}")
    return var


def listed_vars(given: object, what: str) -> tuple[Var, ...]:
    """Variables as a user lists them; one alone stands for the list of it."""
    if isinstance(given, Var):
        return (given,)
    if isinstance(given, Set) or not isinstance(given, Iterable):  # a set has no order of its own
        raise refusal(what, "a sequence of variables", given)
    parts = listed(given, what, "a sequence of variables")
    return tuple(dict.fromkeys(of_kind(Var, part, f"a part of {what}", "a variable") for part in parts))


def checked_ranges(ranges: Mapping[Var, Range | None] | None) -> tuple[dict[Var, Range], tuple[Fact, ...]]:
    """The table of ranges, and what it cannot say: the last element of a range that has no first one."""
    table: dict[Var, Range] = {}
    constant = True
    for var, limits in as_ranges(ranges).items():
        if limits is None:
            limits, constant = Range.everything(), False
        elif not isinstance(limits, Range):
            raise InputError(f"the range of {shown(var)} must be a Range(min, extent), not {shown(limits)}")
        elif limits.ends is None:
            constant = False
        table[var if isinstance(var, Var) else checked_var(var)] = limits
    if constant:
        return table, ()
    _refuse_cycles(table)
    ends = {var: limits.max for var, limits in table.items() if limits.min is NEG_INF}
    facts = [Fact(var <= last, DECLARED) for var, last in ends.items() if isinstance(last, Expr)]
    return {**table, **dict.fromkeys(ends, Range.everything())} if facts else table, tuple(facts)


def as_ranges(ranges: Mapping[Var, Range | None] | None) -> Mapping[Var, Range | None]:
    return {} if ranges is None else mapped(ranges, "ranges", "a mapping {Var: Range}")


def _refuse_cycles(table: Mapping[Var, Range]) -> None:
    done: set[Var] = set()
    for root in table:
        path: list[Var] = []
        stack: list[tuple[Var, bool]] = [(root, False)]
        while stack:
            var, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(var)
            elif var in done or var not in table:
                continue
            elif var in path:
                raise InputError(f"the range of {var.name} depends on {var.name} itself")
            else:
                path.append(var)
                stack.append((var, True))
                stack.extend((v, False) for v in table[var].free_vars())


def occupied(ranges: Mapping[Var, Range], base: Normalizer) -> tuple[Cond, ...]:
    """The conditions under which no range that depends on other variables with ranges, or on data, is empty, and its
    ends have a value.

    A range that depends on sizes alone gives none: where it is empty, no answer says anything.
    """
    limits = {var: ranges[var] for var in base.knowledge.limits}
    dependent = [var for var, r in limits.items() if any(v in ranges for v in r.free_vars()) or r.loads()]
    found = [cond for var in dependent for cond in (*has_ends((ranges[var],)), *is_occupied(var, ranges[var]))]
    return tuple(cond for cond in found if not is_known(base, cond))


def is_known(base: Normalizer, cond: Cond) -> bool:
    """Whether signs tell that a condition holds."""
    return all(isinstance(part, tuple) and _is_clear(base, *part) for part in base.clauses(cond))


def _is_clear(base: Normalizer, kind: ops.Op, form: Linear) -> bool:
    return not base.may_be_zero(form) if kind is ops.NE else kind is ops.GE and base.is_nonneg(form)


def has_ends(limits: Iterable[Range]) -> tuple[Cond, ...]:
    """That the ends of ranges have a value."""
    return definedness([end for r in limits for end in (r.min, r.max) if isinstance(end, Expr)])


def is_occupied(var: Var, limits: Range) -> Iterator[Cond]:
    """That some integer lies in the range and within what the variable declares."""
    first, last = limits.min, limits.max
    low, high, _ = var.declared()
    if isinstance(limits.extent, Expr):
        yield limits.extent >= 1
    if low is not None and isinstance(last, Expr):
        yield last >= low
    if high is not None and isinstance(first, Expr):
        yield first <= high


def base_normalizer(ranges: Mapping[Var, Range]) -> Normalizer:
    """Canonical forms under what the ranges say of their own variables."""
    numeric: dict[Var, Interval] = {}
    symbolic: dict[Var, Range] = {}
    empty = False
    for var, limits in ranges.items():
        ends = limits.ends
        if ends is None:
            symbolic[var] = limits
        else:
            low, high = numeric[var] = ends if type(var) is PlainVar else _within_declared(var, ends)
            empty |= low > high
    if not symbolic:
        return Normalizer(numeric, empty=empty)
    return _with_symbolic_ranges(numeric, symbolic, empty)


def _within_declared(var: Var, ends: tuple[int, int]) -> tuple[int, int]:
    low, high, _ = var.declared()
    return (ends[0] if low is None else max(low, ends[0]), ends[1] if high is None else min(high, ends[1]))


def _meeting_declared(var: Var, first: Any, last: Any) -> tuple[Any, Any]:
    """The ends of a range, met with what the variable declares."""
    low, high, _ = var.declared()
    if low is not None:
        first = maximum(first, low) if isinstance(first, Expr) else as_expr(low)
    if high is not None:
        last = minimum(last, high) if isinstance(last, Expr) else as_expr(high)
    return first, last


def _with_symbolic_ranges(numeric: dict[Var, Interval], symbolic: dict[Var, Range], empty: bool) -> Normalizer:
    """Numeric ends of symbolic ranges, outer variables first; the symbolic ends are kept beside them."""
    limits: dict[Var, tuple[Linear | None, Linear | None]] = {}
    pending = dict(symbolic)
    while pending:
        normalizer = Normalizer(dict(numeric), Knowledge(limits=dict(limits)))
        ready = [v for v in pending if not any(w in pending for w in pending[v].free_vars())]
        for var in ready:
            span = pending.pop(var)
            least, most = span.min, span.max
            if type(var) is not PlainVar:
                least, most = _meeting_declared(var, least, most)
            first = normalizer.form(least) if isinstance(least, Expr) else None
            last = normalizer.form(most) if isinstance(most, Expr) else None
            low = None if first is None else normalizer.bounds(first)[0]
            high = None if last is None else normalizer.bounds(last)[1]
            numeric[var] = (low, high)
            limits[var] = (first, last)
            empty |= low is not None and high is not None and low > high
    sizes: dict[Expr, Interval] = {}
    for first, last in limits.values():
        if first is not None and last is not None:
            _learn_size(last.minus(first), numeric, sizes)
    empty = empty or any(low is not None and high is not None and low > high for low, high in sizes.values())
    return Normalizer(numeric, Knowledge(atoms=sizes, limits=limits), empty=empty)


def _learn_size(width: Linear, numeric: Mapping[Var, Interval], sizes: dict[Expr, Interval]) -> None:
    """At every point of the domain no range is empty, `width >= 0`; of `[0, n)` that says `n >= 1`."""
    if len(width.terms) != 1:
        return
    ((size, k),) = width.terms.items()
    if not isinstance(size, Var) or size in numeric:
        return
    own: Interval = (-(width.const // k), None) if k > 0 else (None, width.const // -k)
    sizes[size] = meet(meet(size.declared()[:2], sizes.get(size, EVERYTHING)), own)
