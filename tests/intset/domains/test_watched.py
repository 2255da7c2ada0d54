"""Sets, regions and shapes of a domain from outside that do not keep the contract: named whoever asks them."""

from __future__ import annotations

import copy
import pickle

import pytest

from intset import Context, DomainError, IntSet, Range, Var, const, register
from intset.domains.isl.engine import Isl
from intset.domains.protocols import Points
from intset.domains.registry import unregister
from intset.domains.sets.base import ShapeSet
from intset.domains.sets.region import Region
from intset.errors import BudgetError, CountError, InputError, UndecidedError
from intset.expr.build import logical_and
from tests.intset.regions.core_shape import CoreShape
from tests.sweeps import daily

I, J, E = Var("i"), Var("j"), Var("e")
CTX = Context({I: Range(0, 4), J: Range(0, 3)})


class Evens(IntSet):
    """The even numbers from 0 to 6."""

    def __init__(self):
        super().__init__("outside", False, True)

    def ends(self):
        return const(0), const(6)

    def condition(self, e):
        e = const(0) + e
        return (e >= 0) & (e <= 6) & (e % 2).eq(0)

    def count(self):
        return 4


class Grid(Region):
    """The points `(x, y)` with `x` from 0 to 3 and `y` from 0 to 2."""

    by, is_exact, notes, dims = "outside", True, (), 2
    params, is_empty = (), False

    @property
    def box(self):
        return Range(0, 4), Range(0, 3)

    def count(self):
        return 12

    def at(self, values):
        return self

    def condition(self, point):
        x, y = point
        return logical_and(const(0) + x >= 0, const(0) + x <= 3, const(0) + y >= 0, const(0) + y <= 2)


class Outside(CoreShape):
    """A shape that isl keeps."""


class Sets:
    name, of = "outside", Evens

    def image(self, query):
        return self.of()


class Regions(Sets):
    name, of_region = "outside", Grid

    def region(self, query):
        return self.of_region()


class Shapes(Sets):
    strength, of_shape = 1, Outside

    def everything(self, dims):
        return self.of_shape(Isl().everything(dims))

    def points(self, query):
        shape, notes = Isl().points(query)
        return Points(self.of_shape(shape), notes)

    def image(self, query):
        shape, notes = self.points(query)
        return ShapeSet(shape, "outside", is_exact=not notes)


def asks(name):
    """Questions about one set and one region."""
    s = CTX.value_set(I * 2, domain=name)
    t = CTX.value_set(I + J)
    r, q = CTX.image((I, J), domain=name), CTX.image((J, I))
    relation = CTX.relation((I,), (J,), domain=name)
    return [
        lambda: s | t, lambda: s & t, lambda: t | s, lambda: s <= t, lambda: t <= s, lambda: s == t, lambda: 4 in s,
        lambda: s.contains(E), lambda: s.count(), lambda: (s.min, s.max), lambda: s.at({I: 3}), lambda: s.is_empty,
        lambda: s.is_everything, lambda: s.params, lambda: str(s), lambda: s.describe(), lambda: s.is_single_point,
        lambda: CTX.value_set(I * 2, domain=f"{name}*modular"), lambda: CTX.bounds(I * 2, domain=f"interval*{name}"),
        lambda: r | q, lambda: r & q, lambda: q - r, lambda: r - q, lambda: r <= q, lambda: q <= r, lambda: (1, 1) in r,
        lambda: r.count(), lambda: r.count_max(), lambda: r.project([1]).count(), lambda: r.hull(), lambda: r.lexmin(),
        lambda: r.sample(), lambda: r.pieces(), lambda: r.box, lambda: r.condition((I, J)), lambda: r.at({I: 3}),
        lambda: r.is_empty, lambda: str(r), lambda: relation.domain().count(), lambda: relation.inverse() <= relation,
        lambda: relation.then(relation), lambda: relation.lexmin(),
        lambda: CTX.image((I, J), domain=f"{name}*modular").count(),
    ]  # fmt: skip


MISUSED = {
    Sets: (Evens, "of", "ends condition count is_empty __contains__ at shape __or__ describe contains min"),
    Regions: (Grid, "of_region", "box condition count params is_empty at shape project hull lexmin sample pieces"),
    Shapes: (Outside, "of_shape", ("union intersect subtract project restricted is_empty condition end everything "
        "count lexmin sample pieces variables hull like coalesced")),
}  # fmt: skip
CASES = [(kind, method) for kind, (_, _, methods) in MISUSED.items() for method in methods.split()]
NONSENSE = [3, None, "x", -3, (1,)]
ERRORS = [ValueError("inside"), InputError("inside"), RecursionError()]
RIGHT = [("count", 3), ("describe", "x"), ("sample", None), ("lexmin", None), ("pieces", None)]
OF_THE_USER = ("__contains__", "project", "pieces")  # these may refuse what they are given


def misused(kind, method, answer, asked):
    """A domain of which one method gives this, as soon as the border was passed."""
    of, place, _ = MISUSED[kind]

    def run(self, *given):
        if not asked:
            if hasattr(of, method):
                return (
                    getattr(of, method).__get__(self)(*given) if callable(getattr(of, method)) else getattr(of, method)
                )
            raise AttributeError(method)
        asked.append(method)
        if isinstance(answer, Exception):
            raise answer
        return answer

    is_read = isinstance(getattr(of, method, None), (property, tuple, bool))
    broken = type(of.__name__, (of,), {method: property(run) if is_read else run})
    return type("Domain", (kind,), {place: broken})


def outcome(ask):
    try:
        return type(ask())
    except Exception as error:
        return error


@pytest.fixture
def registered():
    yield lambda of: register(of, "outside")
    unregister("outside")


@pytest.mark.parametrize(("k", "kind", "method"), daily([(k, *case) for k, case in enumerate(CASES)], 8))
def test_a_method_that_does_not_keep_the_contract_is_named(k, kind, method, registered):
    for answer in (NONSENSE[k % 5], ERRORS[k % 3]):
        asked = []
        registered(misused(kind, method, answer, asked))
        for ask in asks("outside"):
            asked[:] = ["from now on"]
            found = outcome(ask)
            if len(asked) > 1 and (method, answer) not in RIGHT:
                if not (isinstance(answer, InputError) and method in OF_THE_USER):
                    assert isinstance(found, DomainError) and "domain 'outside': " in str(found), (
                        method,
                        answer,
                        found,
                    )
                    assert method in str(found) or "image " in str(found)
            elif isinstance(found, Exception):
                assert isinstance(found, (InputError, UndecidedError))
            asked.clear()


@pytest.mark.parametrize("kind", MISUSED)
def test_what_keeps_it_is_what_it_was(kind, registered):
    registered(kind)
    assert [found for found in map(outcome, asks("outside")) if isinstance(found, Exception)] == []
    s, r = CTX.value_set(I * 2, domain="outside"), CTX.image((I, J), domain="outside")
    assert s == CTX.value_set(I * 2) and s.count() == 4
    assert kind is Sets or (r == CTX.image((I, J)) and r.count() == 12)
    for found in (s, r):
        for other in (pickle.loads(pickle.dumps(found)), copy.copy(found)):
            assert other.count() == found.count() and str(other) == str(found)
    if kind is Sets:
        assert type(s).__qualname__ == "Evens" and isinstance(s, Evens) and type(pickle.loads(pickle.dumps(s))) is Evens


def test_a_refusal_passes(registered):
    for error in (BudgetError("too long"), CountError("not today")):
        asked = []
        registered(misused(Sets, "count", error, asked))
        s = CTX.value_set(I * 2, domain="outside")
        asked.append("from now on")
        with pytest.raises(type(error), match=str(error)):
            s.count()
