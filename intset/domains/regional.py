"""`ShapeDomain`: the base of domains whose sets are shapes of one class; sets and bounds of a domain with regions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import ClassVar

from intset.domains.query import Points, Query, Regions
from intset.domains.sets.answers import bounds_of_points, set_of_points
from intset.domains.sets.base import IntSet, outer_ends
from intset.domains.sets.ends import Bounds
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Var, dag
from intset.expr.range import conditions_between, range_conditions
from intset.regions.shape import Shape


class AnswersByPoints:
    """Mixin: `image` and `bounds` by the points of a domain with regions."""

    def image(self: Regions, query: Query) -> IntSet:
        """The set of values of the query's only expression."""
        return set_of_points(query, self)

    def bounds(self: Regions, query: Query) -> Bounds:
        """The ends of `image`."""
        return bounds_of_points(query, self)


class ShapeDomain(AnswersByPoints, ABC):
    """Images as shapes of one class.

    Guarantee: exact where the shape refuses nothing. Otherwise a superset with a note: a refused condition is dropped,
    a refused expression ranges between its ends, and finally the set is a box.

    >>> class Lists(ShapeDomain):  # doctest: +SKIP
    ...     name, strength = "lists", 10
    ...
    ...     def everything(self, dims):
    ...         return Listed(dims)
    """

    name: ClassVar[str]
    strength: ClassVar[int] = 0

    @abstractmethod
    def everything(self, dims: int) -> Shape:
        """The universe of `dims` coordinates."""

    def points(self, query: Query) -> Points:
        """The image of the expressions, over the quantified variables under ranges and facts."""
        canonical = [form.expr() for form in query.forms]
        loads = _loads(query, canonical)
        exprs: list[Expr] = [dag.substitute(e, loads) for e in canonical]
        running, shape, beside, notes = self._where(query, [*canonical, *query.also], loads)
        if beside:
            _, others, _, left_out = self._where(query, beside, {})
            if others.is_empty():
                return Points(shape.listing((), (), len(exprs)), ())
            notes += ["facts on other variables may exclude one another"] if left_out else []
        try:
            return Points(shape.image(running, exprs), tuple(notes))
        except BudgetError as error:
            notes.append(f"for an expression its ends were used: {error}")
        return Points(self._between_ends(query, running, shape, exprs), tuple(notes))

    def _where(
        self, query: Query, roots: Sequence[Expr | Cond], loads: Mapping[Expr, Var]
    ) -> tuple[list[Var], Shape, list[Cond], list[str]]:
        """(relevant quantified variables with those of `loads`, their points, irrelevant facts, notes)."""
        facts = [query.base.cond(fact) for fact in query.facts]
        asked = Query((), query.ranges, facts, tuple(query.keep), query.base, query.known, query.config)
        running, kept, own, beside = asked.split_relevant(roots)
        given = dict.fromkeys((*running, *kept))
        waiting = [*(cond for v in given if v in query.ranges for cond in _inside(query, v, given.keys())), *own]
        waiting = [dag.substitute(cond, loads) for cond in waiting]
        for term, v in loads.items():
            waiting += conditions_between(v, *query.base.atom_bounds(term))
            running = [*running, v]
        shape, refused = self.everything(len(running)), {}
        for _ in range(2):  # a refused condition may succeed under the others
            waiting, again = [], waiting
            for cond in dict.fromkeys(again):
                try:
                    shape = shape.filter(running, cond)
                except BudgetError as error:
                    waiting.append(cond)
                    refused[cond] = f"a condition was left out: {error}"
        notes = [refused[cond] for cond in waiting]
        symbols = [term.data for term in loads]
        notes += [
            f"of {symbol.name} a range was used" for symbol in dict.fromkeys(symbols) if symbols.count(symbol) > 1
        ]
        return running, shape, beside, notes

    def _between_ends(self, query: Query, running: Sequence[Var], shape: Shape, exprs: Sequence[Expr]) -> Shape:
        """The image with each refused expression replaced by a variable between its ends."""
        extra: list[Var] = []
        for k, e in enumerate(exprs):
            try:
                shape.image(running, (e,))
            except BudgetError:
                extra.append(Var(f"e{k}"))
                exprs = [*exprs[:k], extra[-1], *exprs[k + 1 :]]
        if not extra:
            raise BudgetError("the expressions together are more than this domain can say")
        whole = shape.product_with(shape.everything(len(extra)), 0)
        every = [*running, *extra]
        for k, e in enumerate(exprs):
            if e in extra:
                low, high = outer_ends(query, k)
                if isinstance(low, Expr):
                    whole = whole.filter(every, e >= low)
                if isinstance(high, Expr):
                    whole = whole.filter(every, e <= high)
        return whole.image(every, exprs)


def _inside(query: Query, v: Var, given: Set[Var]) -> list[Cond]:
    """The range of a variable as conditions, if its ends mention only `given` variables."""
    limits = query.ranges[v]
    return list(range_conditions(v, limits)) if given >= set(limits.free_vars()) else []


def _loads(query: Query, exprs: Sequence[Expr]) -> dict[Expr, Var]:
    """A fresh variable for each opaque term of the expressions and facts."""
    facts = [query.base.cond(fact) for fact in query.facts]
    return {term: Var(f"data{k}") for k, term in enumerate(dag.opaque_terms(*exprs, *facts))}
