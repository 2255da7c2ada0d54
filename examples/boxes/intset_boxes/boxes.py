"""Finite unions of boxes with strides, as shapes of `intset`: each coordinate of a box is bounded by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from intset import (
    NEG_INF,
    POS_INF,
    Cond,
    Context,
    CountError,
    Expr,
    Var,
    ceildiv,
    const,
    floordiv,
    logical_and,
    logical_or,
    maximum,
    minimum,
    select,
)
from intset.expr.dag import substitute
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.regions.shape import End, Product, Shape

from .elimination import (
    EVERYTHING,
    WORK,
    System,
    VariableBounds,
    also,
    cases_of,
    declared,
    is_feasible,
    lines,
    minus,
    opened,
    renamed,
    shadows,
    tidy,
)
from .joining import MAX_SYSTEMS, boxed, covered, eliminated, joined, refuse_more_than

TRUE = logical_and()
MAX_CHOICES = 8  # of values, of which is asked whether they are always there


def fresh(number: int) -> list[Var]:
    return [Var(f"x{k}") for k in range(number)]


class Union(Shape):
    """The points of any of the systems, in which no condition mentions two of the coordinates, which are `names`."""

    by = "boxes"

    def __init__(self, names: Sequence[Var], parts: Iterable[System | None]) -> None:
        self.names, self.dims = tuple(names), len(names)
        self.systems = tuple({s.key(): s for s in parts if s is not None and is_feasible(s)}.values())
        refuse_more_than(MAX_SYSTEMS, len(self.systems))

    # -- the core ---------------------------------------------------------------------------------------------------

    def union(self, other: Shape) -> Union:
        return Union(self.names, [*self.systems, *self._of(other)]).coalesced()

    def intersect(self, other: Shape) -> Union:
        return Union(self.names, [also(a, *b) for a in self.systems for b in self._of(other)])

    def subtract(self, other: Shape) -> Union:
        left = list(self.systems)
        for part in self._of(other):
            left = [piece for system in left for piece in minus(system, part)]
            refuse_more_than(MAX_SYSTEMS, len(left))
        return Union(self.names, left).coalesced()

    def project(self, dims: Sequence[int]) -> Union:
        return self._where([self.names[k] for k in dims])

    def filter(self, point: Sequence[Var], condition: Cond) -> Union:
        return self._where(self.names, substitute(condition, dict(zip(point, self.names, strict=True))))

    def is_empty(self) -> bool:
        return not self.systems

    def condition(self, point: Sequence[Expr]) -> Cond:
        return logical_or(*(written(system, dict(zip(self.names, point, strict=True))) for system in self.systems))

    def end(self, k: int, side: int) -> End:
        choices: list[tuple[list[System], Expr]] = []
        for system in self.project((k,)).systems:
            for line in lines(system, self.names[k]):
                alive = [s for s in shadows(line) if is_feasible(s)]
                ends = [quotient(end, side) for end in (line.lows if side < 0 else line.highs)]
                if alive and not ends:
                    return NEG_INF if side < 0 else POS_INF
                if alive:
                    end = maximum(*ends) if side < 0 else minimum(*ends)
                    choices.append((joined(alive, ()), line.offset.expr() + end * line.stride))
        if not choices:
            return POS_INF if side < 0 else NEG_INF
        return Context().canonical(chosen(choices, side))

    def everything(self, dims: int) -> Union:
        return Union(fresh(dims), [EVERYTHING])

    # -- where there is a better way than the default -----------------------------------------------------------------

    def budget(self, operations: int, account: Any = None) -> AbstractContextManager[None]:
        return WORK.budget(operations, account)

    def disjuncts(self) -> int:
        return len(self.systems)

    def variables(self) -> tuple[Var, ...]:
        found = dict.fromkeys(v for s in self.systems for t in s.variables() for v in t.free_vars())
        return tuple(v for v in found if v not in self.names)

    def coalesced(self) -> Union:
        return Union(self.names, joined(self.systems, self.names))

    def disjoint(self) -> Union:
        found: list[System] = []
        for system in self.systems:
            rest = [system]
            for other in found:
                rest = [piece for s in rest for piece in minus(s, other)]
            found += rest
        return Union(self.names, found)

    def params_to_dims(self, params: Sequence[Var]) -> Union:
        new = fresh(len(params))
        return self._where([*new, *self.names], table=dict(zip(params, new, strict=True)))

    def without(self, params: Collection[Expr]) -> Union:
        return self._where(self.names, table={v: Var(v.name) for v in self.variables() if v in params})

    def at(self, values: Mapping[Var, Any]) -> Union:
        table = {v: Var(v.name) for v in values}
        return self._where(self.names, logical_and(*(table[v].eq(e) for v, e in values.items())), table)

    def image(self, point: Sequence[Var], exprs: Sequence[Expr]) -> Union:
        new, table = fresh(len(exprs)), dict(zip(point, self.names, strict=True))
        return self._where(new, logical_and(*(y.eq(substitute(e, table)) for y, e in zip(new, exprs, strict=True))))

    def listing(self, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> Union:
        point, parts = fresh(dims), []
        for box in covered(points, len(names) + dims):
            sides = list(zip((*names, *point), box, strict=True))
            ends = [form for x, (low, high, _) in sides for form in (Linear(-low, {x: 1}), Linear(high, {x: -1}))]
            parts.append(tidy(ends, [(max(step, 1), Linear(-low, {x: 1})) for x, (low, _, step) in sides]))
        return Union(point, parts)

    def product(self) -> Product | None:
        parts = self.coalesced().systems
        if len(parts) != 1 or any(t in self.names for _, f in parts[0].steps for t in f.terms):
            return None
        plain, sides, rest = Normalizer({}), [], parts[0]
        for x in self.names:
            (line,) = lines(rest, x)
            rest = line.rest
            ends = [[plain.form(quotient(e, side)) for e in own] for side, own in ((-1, line.lows), (1, line.highs))]
            if not all(ends):
                return None
            sides.append((ends[0], ends[1]))
        return Product(sides, list(rest.least), [written(System((), (step,)), {}) for step in rest.steps])

    def pieces(self, most: int) -> list[Shape] | None:
        parts = self.coalesced().disjoint().systems
        found: list[Shape] = [Union(self.names, [s]) for s in parts]
        if len(found) > most or any(t in self.names for s in parts for _, f in s.steps for t in f.terms):
            return None
        if len(found) <= 1:
            return found
        corners = [[shape.end(k, -1) for k in range(self.dims)] for shape in found]
        if not all(isinstance(e, Expr) and e.is_const for corner in corners for e in corner):
            return None
        return [shape for _, shape in sorted(zip(corners, found, strict=True), key=lambda pair: [*map(int, pair[0])])]

    def count(self) -> Any:
        total: Expr = const(0)
        for system in self.disjoint().systems:
            cases: list[tuple[System, Expr]] = [(system, const(1))]
            for x in self.names:
                cases = [(line.rest, number * length(line)) for s, number in cases for line in lines(s, x)]
            for guard, number in cases:
                total = total + select(written(guard, {}), number, 0)
        found = Context().canonical(total)
        return found.data if found.is_const else found

    # -- inside --------------------------------------------------------------------------------------------------------

    def _of(self, other: Shape) -> list[System]:
        found = other if isinstance(other, Union) else other.like(self)
        assert isinstance(found, Union)
        return [renamed(s, dict(zip(found.names, self.names, strict=True))) for s in found.systems]

    def _where(self, names: Sequence[Var], condition: Cond = TRUE, table: Mapping[Var, Var] | None = None) -> Union:
        """The values of `names` where a condition holds, with variables that run in the place of some parameters."""
        table, found = table or {}, []
        running = {*self.names, *names, *table.values()}
        known = self.systems if not table else [t for s in self.systems if (t := also(s, *declared(s))) is not None]
        parts = [opened(system, table) for system in known]
        for forms, inner in cases_of(condition, running):
            for part, quotients in parts:
                both = also(renamed(part, table), forms)
                found += [] if both is None else eliminated([both], {*inner, *quotients, *running} - {*names})
        return Union(names, boxed(found, names)).coalesced()


def written(system: System, table: Mapping[Var, Expr]) -> Cond:
    """The condition that a system holds, with expressions in the place of coordinates."""
    parts = []
    for form in system.least:
        x = next((t for t in form.terms if t in table), None)
        k = form.terms.get(x, 0)
        rest = Linear(form.const, {t: c for t, c in form.terms.items() if t is not x}).scale(-1 if k > 0 else 1).expr()
        value = table[x] * abs(k) if abs(k) > 1 else table.get(x)
        parts.append(rest >= 0 if value is None else value >= rest if k > 0 else value <= rest)
    for m, form in system.steps:
        parts.append((Normalizer({}).form(substitute(form.expr(), table)).expr() % m).eq(0))
    return logical_and(*parts)


def quotient(end: tuple[int, Linear], side: int) -> Expr:
    """The first (`side` -1) or last (+1) integer beside an end `(c, f)` of `c*t`."""
    c, e = end[0], end[1].expr()
    return e if c == 1 else ceildiv(e, c) if side < 0 else floordiv(e, c)


def length(line: VariableBounds) -> Expr:
    if not line.lows or not line.highs:
        raise CountError("a union of boxes without end")
    lows, highs = [quotient(e, -1) for e in line.lows], [quotient(e, 1) for e in line.highs]
    return maximum(minimum(*highs) - maximum(*lows) + 1, 0)


def chosen(choices: list[tuple[list[System], Expr]], side: int) -> Expr:
    """The smallest (`side` -1) or largest of several values, each of which is there where one of its systems holds."""
    every = [system for guards, _ in choices for system in guards]
    common = set.intersection(*({f.key() for f in system.least} for system in every))

    def is_always(guards: list[System]) -> bool:
        rest = list(every)
        for guard in guards:
            rest = [piece for s in rest for piece in minus(s, guard)]
        return not rest

    best, there = None, None  # where `best` is a value; `None`: everywhere
    known = [(len(every) <= MAX_CHOICES and is_always(guards), guards, value) for guards, value in choices]
    for always, guards, value in sorted(known, key=lambda choice: not choice[0]):
        own = logical_or(
            *(written(System(tuple(f for f in g.least if f.key() not in common), g.steps), {}) for g in guards)
        )
        if best is None:
            best, there = value, None if always else own
            continue
        gap = Normalizer({}).form(value - best)
        if there is None and gap.is_const and gap.const * side <= 0:
            continue
        both = minimum(value, best) if side < 0 else maximum(value, best)
        both = both if there is None else select(there, both, value)
        best, there = both if always else select(own, both, best), None if there is None else logical_or(own, there)
    return best
