"""The oracle of claims: answers about a context against the enumerated points of the context.

`intset.testing.claims` holds bounds, sets, regions and proofs; `Claims` adds what only tests ask: the algebra of
regions, extrema, counts over instances, conditions narrowed and solved, and answers at sizes that facts exclude.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from intset import Cond, Context, Expr, IntervalSet, IntSet, Range, Region, Relation, Var, evaluate, select
from intset.errors import BudgetError, CountError, EvaluationError, UndecidedError
from intset.expr.dag import conjuncts
from intset.expr.definedness import embedded_claims
from intset.expr.evaluate import compiled
from intset.expr.node import Infinity
from intset.itermap.itermap import IterMap
from intset.simplify import Pricing
from intset.testing import Setting
from intset.testing.claims import Oracle
from lowering import lower_division
from tests.strategies.contexts import value

T = TypeVar("T")
Points = set[tuple[int, ...]]
Reached = dict[tuple[int, ...], list[tuple[int, ...]]]
REFUSALS = (BudgetError, UndecidedError, CountError)
I, J = Var("i"), Var("j")
CORNER = Context({I: Range(0, 2), J: Range(0, 3)}).image((I, J))
IN_CORNER: Points = set(itertools.product(range(2), range(3)))
FAR, NEAR = IntervalSet(40, 41, is_exact=True), IntervalSet(0, 3, is_exact=True)
NOTHING = Context({I: Range(0, 2), J: Range(I + 2, -I)}).image((I, J), domain="stride")


def answered(ask: Callable[[], T]) -> T | None:
    """The answer; `None` where it is refused."""
    try:
        return ask()
    except REFUSALS:
        return None


def box(points: Points) -> Points:
    """The points of the smallest box around some."""
    return set(itertools.product(*(range(min(c), max(c) + 1) for c in zip(*points, strict=True)))) if points else set()


# Operations on a region of two dimensions, and the same operations on its points.
ALGEBRA: dict[str, tuple[Callable[[Region], Region], Callable[[Points], Points]]] = {
    "itself": (lambda r: r, lambda p: p),
    "union": (lambda r: r | CORNER, lambda p: p | IN_CORNER),
    "intersection": (lambda r: r & CORNER, lambda p: p & IN_CORNER),
    "difference": (lambda r: r - CORNER, lambda p: p - IN_CORNER),
    "taken away": (lambda r: CORNER - r, lambda p: IN_CORNER - p),
    "projection": (lambda r: r.project((1,)), lambda p: {(y,) for _, y in p}),
    "interchange": (lambda r: r.project((1, 0)), lambda p: {(y, x) for x, y in p}),
    "hull": (lambda r: r.hull(), box),
    "union with nothing": (lambda r: r | NOTHING, lambda p: p),
    "nothing joined": (lambda r: NOTHING | r, lambda p: p),
}


def extremes(points: Points, first: int, best: Callable[[list[tuple[int, ...]]], tuple[int, ...]]) -> Points:
    """One target for each source of a relation whose sources have `first` coordinates."""
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for x in points:
        groups.setdefault(x[:first], []).append(x)
    return {best(group) for group in groups.values()}


def inverted(points: Points, first: int) -> Points:
    return {(*x[first:], *x[:first]) for x in points}


# Operations on a relation with `first` source coordinates, and the same operations on its pairs.
RELATIONS: dict[str, tuple[Callable[[Relation], Relation], Callable[[Points, int], Points]]] = {
    "lexmin": (lambda r: r.lexmin(), lambda p, first: extremes(p, first, min)),
    "lexmax": (lambda r: r.lexmax(), lambda p, first: extremes(p, first, max)),
    "inverse": (lambda r: r.inverse(), inverted),
    "last source": (
        lambda r: r.inverse().lexmax(),
        lambda p, first: extremes(inverted(p, first), len(next(iter(p), ())) - first, max),
    ),
    "composed": (
        lambda r: r.then(r.inverse()),
        lambda p, first: {(*a[:first], *b[:first]) for a in p for b in p if a[first:] == b[first:]},
    ),
}


class Claims(Oracle):
    """Questions about one setting; a false answer raises `FalseClaimError`, which names it.

    Parameters
    ----------
    places: at how many values of sizes and kept variables an answer is looked at.
    """

    def __init__(self, setting: Setting, places: int = 3, seed: int = 0, tally: Counter[str] | None = None) -> None:
        ctx = Context(setting.ranges, assume=setting.facts)
        super().__init__(setting, ctx, Counter() if tally is None else tally, random.Random(seed))
        self.places, self.known = places, dict[Expr, Any]()

    def truth(self, e: Expr) -> dict[tuple[int, ...], set[int]]:
        if e not in self.known:
            self.known[e] = super().truth(e)
        found: dict[tuple[int, ...], set[int]] = self.known[e]
        return found

    def some(self, truth: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
        return [*truth.items()] if len(truth) <= self.places else self.rng.sample([*truth.items()], self.places)

    def about(self, e: Expr, domain: str | None = None) -> None:
        """Bounds and set of one expression; an empty point set attains no end."""
        self.tally["asked"] += 1
        bounds, found = self.bounds(e, domain), self.values(e, domain)
        self.tally["tight bounds"] += bounds.is_tight
        if not self.truth(e) and not self.setting.params:
            self.require(bounds.is_empty or not bounds.is_tight, "tight, and there is no value", domain, e, bounds)
            self.require(found.is_empty or not found.is_exact, "exact, and there is no value", domain, e, found)

    def nowhere(self, truth: Mapping[Any, Any]) -> list[dict[Var, int]]:
        """A sample of sizes and kept values without points."""
        if not self.setting.keep or not truth:
            return super().nowhere(truth)[: max(1, self.places // 2)]
        ends = [range(min(own) - 1, max(own) + 2) for own in zip(*truth, strict=True)]
        spans = [*self.setting.sizes.values(), *ends[len(self.setting.sizes) :]]
        left = [params for params in itertools.product(*spans) if params not in truth]
        return [self.setting.env(params) for params in self.rng.sample(left, min(max(1, self.places // 2), len(left)))]

    def joined(self, e: Expr, domain: str | None) -> None:
        """Unions and intersections with far and near sets."""
        found, truth = self.ctx.value_set(e, keep=self.setting.keep, domain=domain), self.truth(e)
        for made, points in ((found | FAR, lambda own: own | {40, 41}), (found & NEAR, lambda own: own & {0, 1, 2, 3})):
            for params in self.some(self.setting.points):
                there, own = made.at(self.setting.env(params[0])), points(truth.get(params[0], set()))
                inside = {x for x in (*range(-3, 7), 40, 41) if x in there}
                near = {x for x in own if x in (*range(-3, 7), 40, 41)}
                self.require(near <= inside and (inside == near or not made.is_exact), "joined", e, domain, made, there)

    def contains(self, e: Expr, domain: str) -> None:
        """Bounds and set of an expression where ranges are cut: they contain what is left."""
        bounds, found = self.ctx.bounds(e, domain=domain), self.ctx.value_set(e, domain=domain)
        for params, own in self.some(self.truth(e)):
            env = self.setting.env(params)
            self._around(tuple(self.at(end, env) for end in bounds), False, own, (domain, e, bounds, env))  # type: ignore[arg-type]
            there = found.at(env)
            self.require(all(x in there for x in own), "lacks an element", domain, e, found, env, own)

    def over(self, e: Expr) -> None:
        """Bounds over all sizes contain the values at all sizes; tight ends are attained where sizes are enumerated."""
        bounds, values = self.ctx.bounds(e, over="sizes"), {x for own in self.truth(e).values() for x in own}
        self.require(tuple(self.ctx.bounds(e, over=list(self.setting.sizes))) == tuple(bounds), "over", e, bounds)
        if not values:
            return
        self.tally["tight over sizes"] += bounds.is_tight
        declared = [(size.declared(), window) for size, window in self.setting.sizes.items()]
        is_whole = all(None not in (low, high) and high in window for (low, high, _), window in declared)
        ends = tuple(end if isinstance(end, Infinity) else int(end) for end in bounds)
        self._around(ends, bounds.is_tight and is_whole, values, ("over", e, bounds))  # type: ignore[arg-type]

    def canonical(self, e: Expr) -> None:
        """The linear form has the values of its expression."""
        self.is_refined(e, self.ctx.frame.canonical(e))

    def is_refined(self, e: Any, new: Any) -> None:
        """Equal wherever the first has a value."""
        for row, before, after in zip(self.rows, self.at_points(e), self.at_points(new), strict=True):
            self.require(before in (None, after), "another value", e, new, row)

    def goal(self, goal: Cond) -> None:
        """A proof; and where the goal is undefined, one of its requirements fails."""
        super().goal(goal)
        proof = self.ctx.prove(goal)
        if proof and not proof.vacuous and not embedded_claims((goal,)):
            needs = [self.at_points(need) for need in proof.requires]
            for row, holds, *needed in zip(self.rows, self.at_points(goal), *needs, strict=True):
                is_excluded = any(need is not True for need in needed)
                self.require(holds is not None or is_excluded, "no value, and nothing is required", goal, proof, row)

    # -- regions ------------------------------------------------------------------------------------------------------

    def algebra(self, exprs: tuple[Expr, ...], names: list[str], domain: str | None = None) -> None:
        """The image of two expressions under each operation of `ALGEBRA`."""
        keep, truth = self.setting.keep, self.setting.values(*exprs)
        region = self.ctx.image(exprs, keep=keep, domain=domain)
        every = {params: truth.get(params, set()) for params in self.setting.points}
        for name in names:
            make, points = ALGEBRA[name]
            found = answered(lambda make=make: make(region))  # type: ignore[misc]
            if found is not None:
                made = {params: points(own) for params, own in every.items()}
                self.region_of(found, made, (name, domain, exprs), counts=not points(set()))

    def relation(self, exprs: tuple[Expr, ...], first: int, names: Iterable[str]) -> None:
        """A relation between two tuples under each operation of `RELATIONS`."""
        truth = self.setting.values(*exprs)
        relation = self.ctx.relation(exprs[:first], exprs[first:])
        for name in names:
            make, pairs = RELATIONS[name]
            found = answered(lambda make=make: make(relation))  # type: ignore[misc]
            if found is None or not found.is_exact or max(map(len, truth.values()), default=0) > 60:
                continue
            self.tally["exact relation"] += 1
            for params, own in self.some(truth):
                pairs_there = found.at(self.setting.env(params)).pairs
                listed = answered(lambda there=pairs_there: set(there.shape.listed()))  # type: ignore[misc]
                self.require(listed is None or listed == pairs(own, first), name, exprs, first, params, found)

    def region_of(
        self, region: Region, truth: Mapping[Any, Points], what: tuple[object, ...], counts: bool = True
    ) -> None:
        """A region against its points at each value of the parameters: elements, ends, pieces; samples and counts,
        unless it has points at sizes where the setting has none."""
        least, most, parts = (answered(ask) for ask in (region.lexmin, region.lexmax, region.pieces))
        self.require(not region.is_empty or not any(truth.values()), "is not empty", *what, region)
        self.tally["exact region"] += region.is_exact
        for params, own in self.some(truth):
            env, there = self.setting.env(params), region.at(self.setting.env(params))
            self.same_points(there, own, (*what, region, env))
            if not own:
                continue
            for k, side in enumerate(region.box):
                self._around(
                    tuple(self.at(end, env) for end in (side.min, side.max)),  # type: ignore[arg-type]
                    getattr(region, "is_tight", False), {point[k] for point in own}, (*what, k, env),
                )  # fmt: skip
            for ends, extreme in ((least, min(own)), (most, max(own))) if region.is_exact else ():
                self.require(ends is None or tuple(evaluate(e, env) for e in ends) == extreme, "extremum", *what, ends)
            if parts is not None:
                placed = [part.at(env) for part in parts]
                held = Counter(point for part in placed for point in around(own) if point in part)
                inside = {point for point in around(own) if point in there}
                self.require(held.keys() == inside and set(held.values()) <= {1}, "pieces", *what, env, parts)
        if counts:
            self._numbers(region, truth, what)

    def same_points(self, there: Region, own: Points, what: tuple[object, ...]) -> None:
        """A region without parameters contains the points, and an exact region contains no other point."""
        if not own:
            self.require(there.is_empty or not there.is_exact, "is not empty", *what, there)
            return
        names = [Var(f"x{k}") for k in range(there.dims)]
        inside_at = compiled(there.condition(names), names)
        inside = {point for point in around(own) if inside_at(*point)}
        self.require(own <= inside and (inside == own or not there.is_exact), "points", *what, there, own, inside)

    def _numbers(self, region: Region, truth: Mapping[Any, Points], what: tuple[object, ...]) -> None:
        """Counts, over instances too, and a sample; a superset is counted where it is an injective image."""
        setting = self.setting
        places = [k for k, v in enumerate(setting.params) if v in region.params]
        instances: dict[tuple[int, ...], Points] = {}
        for params, own in truth.items():
            instances.setdefault(tuple(params[k] for k in places), set()).update(own)
        numbers = [len(own) for own in instances.values()]
        most, total, number = (answered(ask) for ask in (region.count_max, region.count_total, region.count))
        self.tally["counted"] += number is not None
        if all(len(window) < 7 for window in setting.sizes.values()):  # all sizes are enumerated
            sample = answered(region.sample)
            self.require(sample is None or any(sample in own for own in truth.values()), "sample", *what, sample)
            self.require(most in (None, max(numbers, default=0)), "count_max", *what, most, numbers)
            self.require(total in (None, sum(numbers)), "count_total", *what, total, numbers)
        for params, own in truth.items() if number is not None else ():
            there = evaluate(number, setting.env(params)) if isinstance(number, Expr) else number
            self.require(there == len(own), "count", *what, number, setting.env(params))

    # -- conditions ---------------------------------------------------------------------------------------------------

    def narrow(self, cond: Cond) -> None:
        """The projection implies the condition for all other variables; an exact one is implied by it."""
        for keep in ([], list(self.setting.ranges)[:1], list(self.setting.ranges)):
            answer = self.ctx.narrow(cond, keep)
            groups: dict[tuple[int, ...], bool] = {}
            for place, holds in zip(self.columns(keep), self.at_points(cond), strict=True):
                groups[place] = groups.get(place, True) and holds is True
            for place, true in groups.items():
                found = value(answer.cond, dict(zip(keep, place, strict=True)))
                self.require(found is not None and (true or not found), "narrowed", cond, keep, place, answer)
                self.require(found or not true or not answer.is_exact, "not exact", cond, keep, place, answer)

    def solve(self, cond: Cond) -> None:
        """The values of the first variable, for each choice of the other variables."""
        first, *others = self.setting.ranges
        found = self.ctx.solve(cond, first)
        truth: dict[tuple[int, ...], set[int]] = {}
        for place, (own,), holds in zip(self.columns(others), self.columns([first]), self.at_points(cond), strict=True):
            truth.setdefault(place, set()).update([own] if holds is True else [])
        for place, true in truth.items():
            there = found.at(dict(zip(others, place, strict=True)))
            listed = {x for x in range(-5, 9) if x in there}
            self.require(true <= listed and (listed == true or not found.is_exact), "solved", cond, place, there)

    def simplified(self, e: Any) -> None:
        """Equal wherever the input has a value, by any cost and with its steps."""
        for new in (self.ctx.simplify(e), self.ctx.simplify(e, {"floordiv": 9}), self.ctx.simplify(e, steps=True).expr):
            self.is_refined(e, new)

    def map(self, exprs: Sequence[Expr], padded: int = 2000) -> IterMap:
        """An index map: injectivity and surjectivity, with witness points; its sides, inverse, and
        padding, at so many places."""
        found, first = self.ctx.as_iter_map([*exprs]), len(self.setting.sizes)
        every = self.setting.points if self.setting.facts else itertools.product(*self.setting.sizes.values())
        for sizes, env in self.some({sizes: self.setting.env(sizes) for sizes in every}):
            reached: Reached = {}
            for row in self.setting.points.get(sizes, ()):
                at = dict(zip(self.setting.everything, row, strict=True))
                reached.setdefault(tuple(evaluate(e, at) for e in exprs), []).append(row[first:])
            one, both = found.injective, {*found.injective.points}
            self.require(not one or all(len(own) == 1 for own in reached.values()), one, exprs, env)
            if one.status == "refuted" and env.items() >= one.sizes.items():
                self.require(len(both) == 2 and any(both <= {*own} for own in reached.values()), one, exprs, env)
            if not any(isinstance(e, Infinity) for r in found.ranges for e in (r.min, r.extent)):
                self._places(found, env, reached, (exprs, env), padded)
        return found

    def _places(self, found: IterMap, env: Mapping[Var, int], reached: Reached, what: tuple[Any, ...], n: int) -> None:
        ends = [tuple(int(evaluate(e, env)) for e in (r.min, r.extent)) for r in found.ranges]
        sides = [range(low, low + extent) for low, extent in ends]
        inside, onto = set(itertools.islice(itertools.product(*sides), 2000)), found.surjective
        missed = onto.points if env.items() >= onto.sizes.items() else ()
        within = all(x in side for new in (*reached, *missed) for x, side in zip(new, sides, strict=True))
        self.require(within and not reached.keys() & {*missed}, "sides", onto, *what)
        self.require(not onto or inside <= reached.keys(), onto, *what)
        padding = answered(lambda: found.padding) if n else None
        for place in itertools.islice(inside, n) if padding is not None else ():
            is_padding = evaluate(padding, {**env, **dict(zip(found.places, place, strict=True))})
            self.require(is_padding == (place not in reached), "padding", padding, *what, place)
        back = answered(lambda: found.inverse(found.places)) if found.injective else None
        for place, (row,) in reached.items() if back is not None else ():
            at = {**env, **dict(zip(found.places, place, strict=True))}
            self.require(tuple(evaluate(back[v], at) for v in found.variables) == row, "inverse", back, *what, place)

    def never_raises(self, cond: Cond, e: Expr) -> None:
        """Explanations, division lowering and widths of a partial expression."""
        e = select(cond, e // 3, e % 3)
        self.ctx.explain(cond), self.ctx.explain(e), lower_division(e, self.ctx)
        self.require(self.ctx.fits(e, 8).status != "refuted" or self.rows, "there is no point", e)

    @cached_property
    def rows(self) -> list[tuple[int, ...]]:
        """All points."""
        return [*itertools.chain(*self.setting.points.values())]

    def columns(self, variables: list[Var]) -> list[tuple[int, ...]]:
        """The values of some variables at each point."""
        places = [self.setting.everything.index(v) for v in variables]
        return [tuple(row[k] for k in places) for row in self.rows]

    def at_points(self, e: Any) -> list[Any]:
        """The value of an expression or condition at each point, `None` where it is undefined."""
        return valued(e, self.setting.everything, self.rows)

    # -- sizes --------------------------------------------------------------------------------------------------------

    def excluded(self, found: IntSet | Region, truth: Mapping[Any, Any]) -> None:
        """At values that facts exclude the answer is empty, with a note that names the fact; a count is right at all
        others."""
        number = answered(found.count) if found.is_exact else None
        setting = self.setting
        spans = [*setting.sizes.values(), *([range(-1, 4)] * len(setting.keep))]
        every = list(itertools.product(*spans))
        for params in self.rng.sample(every, min(30, len(every))):
            env = setting.env(params)
            there, own = found.at(env), truth.get(params, set())
            allowed = self.is_allowed(env)
            if allowed is None:
                continue
            if not allowed:
                is_noted = any(" is excluded by " in text for text in there.notes)
                self.require(there.is_empty and there.count() == 0 and is_noted, "is excluded", found, env, there.notes)
                continue
            if found.is_exact:
                self.require(there.count() == len(own), "count at a size", found, env, there, own)
            counted = value(number, env) if isinstance(number, Expr) else number
            self.require(number is None or counted == len(own), "count", number, env, own)

    def is_allowed(self, env: Mapping[Var, int]) -> bool | None:
        """Whether facts about sizes and kept variables hold; `None` where a kept variable depends on others."""
        for v in self.setting.keep:
            if not set(self.setting.ranges[v].free_vars()) <= env.keys():
                return None
            low, high = (value(end, env) for end in (self.setting.ranges[v].min, self.setting.ranges[v].max))
            if low is None or high is None or not low <= env[v] <= high:
                return False
        facts = [fact for fact in self.setting.facts if set(fact.free_vars()) <= env.keys()]
        return all(value(part, env) is True for fact in facts for part in conjuncts(fact))

    def total(self, found: Region) -> None:
        """The condition of membership is defined everywhere, so it may be negated."""
        names = [Var(f"x{k}") for k in range(found.dims)]
        condition, sizes = found.condition(names), list(self.setting.sizes)
        every = [*itertools.product(*self.setting.sizes.values(), *[range(-3, 6, 2)] * found.dims)]
        some = self.rng.sample(every, min(200, len(every)))
        said, denied = (valued(cond, [*sizes, *names], some) for cond in (condition, ~condition))
        for row, inside, outside in zip(some, said, denied, strict=True):
            self.require(inside is not None and outside is (not inside), "no value", condition, row)


def simplified(e: Any, ctx: Context, points: Iterable[Mapping[Any, Any]]) -> Any:
    """The simplified form: never dearer, and equal at every point where the input has a value."""
    new = ctx.simplify(e)
    before, after = (Pricing().price(one) for one in (e, new))
    assert after[0] <= before[0] and after[1] <= before[1], (e, new)
    for at in points if new is not e else ():
        expected = value(e, at)
        if expected is not None:
            found = evaluate(new, at)
            assert found == expected and type(found) is type(expected), (e, new, at)
    return new


def around(points: Points) -> list[tuple[int, ...]]:
    """The points of a box with a margin of one around some points."""
    return list(itertools.product(*(range(min(c) - 1, max(c) + 2) for c in zip(*points, strict=True))))


def valued(e: Any, variables: Sequence[Var], rows: Iterable[tuple[int, ...]]) -> list[Any]:
    """The values at points, `None` where it is undefined."""
    function, found = compiled(e, variables), []
    for row in rows:
        try:
            found.append(function(*row))
        except (EvaluationError, ZeroDivisionError):
            found.append(None)
    return found
