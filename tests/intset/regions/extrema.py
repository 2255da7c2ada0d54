"""Random regions and relations held against enumeration: extrema, `then` and `inverse`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from intset import Context, Range, ShapeVar, Var, ceildiv, const, evaluate, maximum, minimum, select
from intset.errors import BudgetError, UndecidedError
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr

T = TypeVar("T")
Point = tuple[int, ...]
SIZES = range(1, 6)
MANY = 40  # beyond so many points, a relation is not composed with its inverse


class World(NamedTuple):
    """A tuple of expressions over a few variables, whose ranges and facts may mention the size `n`."""

    variables: list[Var]
    ranges: dict[Var, Range]
    facts: list[Cond]
    exprs: list[Expr]
    size: ShapeVar | None

    def points(self, n: int) -> set[Point]:
        """The points that the tuple reaches where the size is `n`."""
        names = (*self.variables, *(() if self.size is None else (self.size,)))
        tail = () if self.size is None else (n,)
        places: list[Point] = [()]
        for limits in self.ranges.values():
            ends = [compiled(const(0) + end, names) for end in (limits.min, limits.min + limits.extent)]
            rest = (0,) * (len(self.variables) - len(places[0]) - 1)
            inner = []
            for x in places:
                inside = (*x, 0, *rest, *tail)
                inner += [(*x, value) for value in range(*(end(*inside) for end in ends))]
            places = inner
            if not places:
                return set()
        guards = [compiled(fact, names) for fact in self.facts]
        values = [compiled(e, names) for e in self.exprs]
        return {
            tuple(value(*x, *tail) for value in values) for x in places if all(guard(*x, *tail) for guard in guards)
        }


def world(rng: random.Random) -> World:
    """Quasi-affine tuples, as accesses are: scaled variables beside quotients and remainders of the same variables."""
    variables = [Var(name) for name in "xy"[: rng.choice((1, 1, 2))]]
    size = ShapeVar("n", lower=SIZES[0], upper=SIZES[-1]) if rng.random() < 0.3 else None
    ranges: dict[Var, Range] = {}
    for k, v in enumerate(variables):
        extent: Expr | int = rng.randint(2, 9 if k == 0 else 5)
        if size is not None and rng.random() < 0.7:
            extent = size * rng.choice((1, 2)) if rng.random() < 0.7 else size + rng.randint(0, 5)
        elif k and rng.random() < 0.2:
            extent = variables[0] + 4
        ranges[v] = Range(rng.choice((0, 0, 0, 1, -2, 3)), extent)

    def linear() -> Expr:
        total: Expr = const(rng.choice((0, 0, 0, 1, -1, 2, 3)))
        for v in variables:
            total = total + v * rng.choice((0, 1, 1, 2, 3, 4, 8, -1, -2))
        return total

    def term() -> Expr:
        e, d = linear(), rng.choice((2, 3, 4, 5, 7, 8))
        makers: tuple[Callable[[], Expr], ...] = (
            lambda: e,
            lambda: rng.choice(variables) * rng.choice((1, 2, 3, 4, 6, 8)),
            lambda: e // d,
            lambda: ceildiv(e, d),
            lambda: e % d,
            lambda: e // d * rng.choice((2, 3, 4)) + linear(),
            lambda: (minimum if rng.random() < 0.5 else maximum)(e, linear()),
            lambda: select((linear() % d).eq(1), e, linear()),
        )
        return rng.choice(makers)()

    facts: list[Cond] = []
    if rng.random() < 0.4:
        d = rng.choice((2, 3, 5, 7))
        facts.append(rng.choice(((linear() % d).ne(rng.randrange(d)), linear() <= rng.randint(0, 9))))
    return World(variables, ranges, facts, [term() for _ in range(rng.choice((1, 2, 2, 3)))], size)


def check(seed: int) -> int:
    """Ask one world; returns how many questions were answered.

    Raises
    ------
    AssertionError: an answer is wrong.
    """
    rng = random.Random(seed)
    drawn = world(rng)
    truth = {n: drawn.points(n) for n in (SIZES if drawn.size is not None else (0,))}
    if not all(truth.values()):
        return 0
    ctx = Context(drawn.ranges, assume=drawn.facts)
    region = ctx.image(drawn.exprs)
    answers = 0
    for side, ask in ((min, region.lexmin), (max, region.lexmax)):
        end = _answered(ask)
        if end is not None:
            answers += 1
            for n, points in truth.items():
                at = {} if drawn.size is None else {drawn.size: n}
                assert tuple(evaluate(e, at) for e in end) == side(points), (seed, drawn, n, end, side(points))
    return answers + _check_relations(seed, drawn, ctx, truth, rng)


def _check_relations(seed: int, drawn: World, ctx: Context, truth: dict[int, set[Point]], rng: random.Random) -> int:
    exprs, first = drawn.exprs, rng.randint(0, len(drawn.exprs))
    relation = ctx.relation(exprs[:first], exprs[first:])
    expected: dict[str, Callable[[set[Point]], set[Point]]] = {
        "lexmin": lambda points: {min(group) for group in _by_source(points, first)},
        "lexmax": lambda points: {max(group) for group in _by_source(points, first)},
        "inverse": lambda points: {(*x[first:], *x[:first]) for x in points},
        "then": lambda points: {(*a[:first], *b[:first]) for a in points for b in points if a[first:] == b[first:]},
        "last source": lambda points: {
            max(group) for group in _by_source({(*x[first:], *x[:first]) for x in points}, len(exprs) - first)
        },
    }
    ask = {
        "lexmin": relation.lexmin,
        "lexmax": relation.lexmax,
        "inverse": relation.inverse,
        "then": lambda: relation.then(relation.inverse()),
        "last source": lambda: relation.inverse().lexmax(),
    }
    answers = 0
    if max(map(len, truth.values())) > MANY:
        del ask["then"]
    for name in rng.sample([*ask], 2):
        question = ask[name]
        found = _answered(question)
        if found is None or not found.is_exact:
            continue
        answers += 1
        n = rng.choice([*truth])
        at = {} if drawn.size is None else {drawn.size: n}
        listed = _answered(lambda found=found, at=at: set(found.at(at).pairs.shape.listed()))  # type: ignore[misc]
        assert listed is None or listed == expected[name](truth[n]), (seed, drawn, name, first, n)
    return answers


def _by_source(points: Iterable[Point], first: int) -> list[list[Point]]:
    groups: dict[Point, list[Point]] = {}
    for x in points:
        groups.setdefault(x[:first], []).append(x)
    return [*groups.values()]


def _answered(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except (BudgetError, UndecidedError):
        return None
