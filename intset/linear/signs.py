"""Signs: whether a form is nonnegative, by the ends of its variables, of its quotients, and by facts.

    a*s <= d*s       from  a < b, b < c, c <= d      facts added up, times a monomial that is nonnegative
    ceildiv(s, t)*t < s + t                          quotients at the ends of their rational values

A sign may lead to further questions about signs and ends (`symbolic.py`); all share one budget.

A claimed sign is refuted at *members* of the scope, points that satisfy its assumptions, before it is derived: a proved
sign holds at every member, so a form that is negative at a member needs no derivation. Most questions about signs have
the answer no, and failing derivations cost most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from intset.errors import IntSetError
from intset.expr import Cond, Expr, Node, Var, dag, ops
from intset.expr.evaluate import applied, evaluate
from intset.linear import form as forms
from intset.linear.bounds import EVERYTHING, Interval, meet
from intset.linear.form import Linear
from intset.linear.multiples import step_of
from intset.linear.symbolic import SPENT, Relaxed, SpentSignError, eliminated, is_outermost, obvious_sign, try_rests

if TYPE_CHECKING:
    from intset.linear.assumptions import Assumptions
    from intset.linear.canonical import Normalizer

RELAXED_DIVISORS: Final = 3  # divisors whose quotients are replaced by the ends of their rational values
PRODUCT_DEGREE: Final = 32  # factors of a product; with more it stays one atom

DRAWN_MEMBERS: Final = 12  # points that are drawn for a scope that contains no regular one
MEMBERS: Final = 12  # points of a scope at which a sign is refuted before it is derived

_SIZES: Final = (7, 3, 5, 2, 11, 4, 13, 6)  # of the sizes of a scope, in turn
_OTHERS: Final = (9, -1_000_003, 1_000_003)  # of a variable that no assumption mentions, in turn
_FREE: Final = (ops.VAR, ops.LOAD)

Place = Callable[[int, int, int], int]  # maps the ends of a range and the variable number to a value
Pattern = tuple[tuple[int, ...], Place]


def _first(first: int, last: int, _: int) -> int:
    return first


def _last(first: int, last: int, _: int) -> int:
    return last


def _inside(place: Place, variables: int = 1) -> Place:
    """The first variables in the middle of their ranges, such as whole tiles, others at this place."""
    return lambda first, last, k: place(first, last, k) if k >= variables else (first + last) // 2


_PATTERNS: Final[tuple[Pattern, ...]] = (
    (tuple(k * 60 for k in _SIZES), _last),  # tiles divide these
    (_SIZES[::-1], _first),
    (tuple(k * 60 + 1 for k in reversed(_SIZES)), lambda first, last, _: (first + last) // 2),
    (_SIZES, _last),
    ((1 << 64,), _first),  # beyond any machine type
    ((-1_000_003,), _last),  # origins of regions, which have no lower end
    ((2, 3), _last),
    ((3, 2), _inside(_first)),
    ((5, 3), _inside(_last)),
    ((7, 5), _inside(_last, 3)),
    ((4, 1), _first),
)


def _drawn(seed: int) -> Pattern:
    """Small sizes, and places that differ from variable to variable: the same for a seed."""

    def number(k: int) -> int:
        return (seed * 0x9E3779B1 ^ k * 0x85EBCA6B) % 0xFFFFFFFB >> 5

    def place(first: int, last: int, k: int) -> int:
        return (first, last, first + number(k) % (last - first + 1))[number(k + 97) % 3]

    return tuple(1 + number(k + 31) % (4, 12, 40)[seed % 3] for k in range(8)), place


_ALL: Final = (*_PATTERNS, *map(_drawn, range(1, DRAWN_MEMBERS + 1)))


class Member:
    """A point of a scope, and the values of terms there met so far; `None` for a term without a value.

    Parameters
    ----------
    other: the value of each variable that no assumption mentions, within its declared bounds.
    """

    __slots__ = ("_unshared", "other", "point", "values")

    def __init__(self, point: dict[Expr, int], other: int) -> None:
        self.point, self.other = point, other
        self.values: dict[Node, Any] = {}
        self._unshared = iter((True,))  # `next` gives this to one caller, of several threads too; a lock has no pickle

    def value(self, form: Linear) -> int | None:
        """The value of a form at the point; `None` where it has none."""
        total, values = form.const, self.values
        for e, k in form.terms.items():
            value = values[e] if e in values else self.term(e)
            if value is None:
                return None
            total += k * value
        return total

    def term(self, e: Node) -> int | None:
        """The value of a term at the point; `None` where it has none."""
        if e not in self.values:
            self._evaluate(e)
        value: int | None = self.values[e]
        return value

    def open_to(self, new: Collection[Var]) -> Member:
        """The point for a scope that adds variables.

        The first such scope shares the remembered values, if no term among them depends on a new variable. Other
        scopes, perhaps in other threads, get a copy of the point alone.
        """
        member = Member({}, self.other)
        if self.values.keys().isdisjoint(new) and next(self._unshared, False):
            member.point, member.values = self.point, self.values
        else:
            member.point.update(self.point)
            member.values.update(self.point.items())
        return member

    def enter(self, e: Expr, value: int) -> None:
        """Set the value of a variable or opaque term."""
        self.point[e] = self.values[e] = value

    def _evaluate(self, root: Node) -> None:
        values, value_of = self.values, self.values.__getitem__
        for e in dag.postorder((root,)):
            if e in values:
                continue
            if e.op is ops.VAR or e.op is ops.LOAD:
                values[e] = self._of_leaf(e)
            elif e.op is ops.CONST or e.op is ops.BOOL:
                values[e] = e.data
            else:
                values[e] = applied(e, tuple(map(value_of, e.args)))

    def _of_leaf(self, e: Any) -> int | None:
        if e in self.point:
            return self.point[e]
        if isinstance(e, Var):  # no part of the point, which the scope alone determines
            low, high, step = e.declared()
            return _nearest(self.other, (low, high), step, 0)
        try:
            return int(evaluate(e, self.values))
        except IntSetError:
            return None


class FoundMembers(NamedTuple):
    """The state of a search for members.

    Attributes
    ----------
    found: points that satisfy ranges and assumptions.
    left: indices of the patterns not tried yet (`_ALL`): numbers for the sizes, a place in each range. Indices pickle
        and compare by value, patterns do neither.
    sizes, solved: sizes to be numbered, opaque ones too, and sizes equated with terms by facts. A recursive equation
        such as `n == n // t * t` puts n into both: its number is rounded to that term.
    order: the ranged variables, each after those that its ends mention.
    closing: facts by the variable that gets its value last.
    entered: the number of ranges of the scope; the table of a schedule's loops grows.
    """

    found: tuple[Member, ...]
    left: range
    sizes: tuple[Any, ...]
    solved: Mapping[Expr, Linear]
    order: tuple[Var, ...]
    closing: Mapping[Var, tuple[Linear, ...]]
    entered: int

    @classmethod
    def of(cls, known: Normalizer) -> FoundMembers:
        """The search for members of a scope, before its first step."""
        if known.empty:
            return cls((), range(0), (), {}, (), {}, len(known.ranges))
        order, solved = tuple(_outermost_first(known)), _solved(known)
        free = (v for v in _mentioned(known) if v not in known.ranges)
        sizes = tuple(dict.fromkeys(v for v in free if v not in solved or _has_itself(v, solved[v])))
        left = range(len(_PATTERNS) if sizes or order else len(_OTHERS))
        closing = _closing(known, (*sizes, *order), solved)
        return cls((), left, sizes, solved, order, closing, len(known.ranges))

    def grown(self, known: Normalizer) -> FoundMembers:
        """The search after ranges were added to the scope: each found point gets the new variables."""
        limits = known.assumptions.limits
        new = [*islice(reversed(known.ranges), len(known.ranges) - self.entered)][::-1]
        ends = [end for v in new for end in limits.get(v, ()) if end is not None]
        mentioned = {v for end in ends for e in end.terms for v in e.free_vars()}
        if any(v not in known.ranges and v not in limits and v not in self.sizes for v in mentioned):
            return FoundMembers.of(known)
        found: list[Member] = []
        for k, member in enumerate(self.found):
            at: Member | None = member.open_to(new)
            for number, v in enumerate(new, len(self.order)):
                at = at and _within_limits(known, at, v, _placed(*_ALL[k], number), ())
            if at is not None and _is_member(known.assumptions, at):
                found.append(at)
        return self._replace(found=tuple(found), order=(*self.order, *new), entered=len(known.ranges))

    def with_next(self, known: Normalizer) -> FoundMembers:
        """Try the next pattern; its point is added unless it lies outside the scope or is known."""
        other = _OTHERS[self.left[0] % len(_OTHERS)]
        member = _member(known, self, other, *_ALL[self.left[0]])
        met = [one.point for one in self.found if one.point or one.other == other]
        if member is None or member.point in met:
            is_last = self.left[0] == len(_PATTERNS) - 1
            return self._replace(left=range(len(_PATTERNS), len(_ALL)) if is_last else self.left[1:])
        found = (*self.found, member)
        return self._replace(found=found, left=self.left[1:] if len(found) < MEMBERS else range(0))


def is_refuted(known: Normalizer, form: Linear) -> bool:
    """Whether `form` is negative at a member of the scope, so that `form >= 0` cannot be proved.

    Members are found while they are needed: the first one refutes most claims.
    """
    for member in _members(known):
        value = member.value(form)
        if value is not None and value < 0:
            return True
    return False


def is_known(base: Normalizer, cond: Cond) -> bool:
    """Whether a condition is proved by bounds and signs."""
    return all(isinstance(part, tuple) and _is_clear(base, *part) for part in base.clauses(cond))


def _is_clear(base: Normalizer, kind: ops.Op, form: Linear) -> bool:
    if kind is ops.NE:
        return not base.may_be_zero(form)
    # a member refutes what a fact says anew, for less than a proof costs to fail
    return kind is ops.GE and not (base.assumptions.limits and is_refuted(base, form)) and base.is_nonneg(form)


def is_met(known: Normalizer, need: Cond) -> bool:
    """Whether a definedness condition always holds; a guarded one, `not guard or need`, under its guard."""
    if need.op is ops.OR:
        return not known.clauses(need) or is_met(known.narrowed(~need.args[0]), need.args[1])
    return is_known(known, need)


def taken_values(known: Normalizer, root: Node, conditions: Iterable[Cond] = (), most: int = 2) -> frozenset[int]:
    """At most `most` values of a term or condition at members of the scope that satisfy `conditions`.

    Each value that a condition takes refutes a proof of the opposite value.
    """
    taken: set[int] = set()
    conditions = tuple(conditions)
    for member in _members(known):
        value = member.term(root)
        if value is not None and all(map(member.term, conditions)):
            taken.add(value)
            if len(taken) == most:
                break
    return frozenset(taken)


def _members(known: Normalizer) -> Iterator[Member]:
    members = known.members
    if members is None:
        members = known.members = FoundMembers.of(known)
    elif members.entered != len(known.ranges):
        members = known.members = members.grown(known)
    tried = 0
    while True:
        for member in members.found[tried:]:
            tried += 1
            yield member
        if not members.left:
            return
        members = known.members = members.with_next(known)  # of several threads, each finds the same


def has_member(known: Normalizer) -> bool:
    """Whether a point of the scope is found: it refutes `-1 >= 0`."""
    return is_refuted(known, forms.constant(-1))


def _solved(known: Normalizer) -> Mapping[Expr, Linear]:
    """Sizes that facts equate with other terms: the extents of arrays, for example."""
    solved: dict[Expr, Linear] = {}
    seen: set[object] = set()
    for fact in known.assumptions.nonneg:
        seen.add(fact.key())
        if fact.scale(-1).key() not in seen:
            continue
        free = [e for e, k in fact.terms.items() if abs(k) == 1 and e.op in _FREE and e not in known.ranges]
        e = max(free, key=lambda e: e.op is ops.LOAD, default=None)
        if e is not None and e not in solved:
            solved[e] = fact.scale(-fact.terms[e]).plus(forms.atom(e))
    return solved


def _has_itself(e: Expr, form: Linear) -> bool:
    return any(e in term.free_vars() for term in form.terms)


def _mentioned(known: Normalizer) -> Iterator[Any]:
    """The variables that assumptions mention, and the opaque sizes of which they give an interval."""
    assumptions = known.assumptions
    for ends in assumptions.limits.values():
        for end in ends:
            if end is not None:
                for e in end.terms:
                    yield from e.free_vars()
    for fact in assumptions.nonneg:
        for e in fact.terms:
            yield from e.free_vars()
    for e in assumptions.atoms:
        yield from e.free_vars()
        if e.op is ops.LOAD and e.data.value_at is None and all(arg.op is ops.CONST for arg in e.args):
            yield e  # the extent of an array takes any number, and only this term reads it


def _outermost_first(known: Normalizer) -> Iterator[Var]:
    """The ranged variables, each after those that its ends mention."""
    limits = known.assumptions.limits
    yield from (v for v in known.ranges if v not in limits)
    yield from limits  # entered outermost first


def _closing(
    known: Normalizer, order: Sequence[Var], solved: Mapping[Expr, Linear]
) -> Mapping[Var, tuple[Linear, ...]]:
    """The facts by the last of their variables in this order, with equated sizes replaced by their terms."""
    place = {v: k for k, v in enumerate(order)}
    closing: dict[Var, tuple[Linear, ...]] = {}
    for fact in known.assumptions.nonneg:
        for e in solved:
            if e in fact.terms and e not in place:
                k = fact.terms[e]
                fact = fact.plus(forms.atom(e), -k).plus(solved[e], k)
        used = {v for e in fact.terms for v in e.free_vars()}
        if used and all(v in place for v in used) and not dag.opaque_terms(*fact.terms):
            last = max(used, key=place.__getitem__)
            closing[last] = (*closing.get(last, ()), fact)
    return closing


def _entered(
    known: Normalizer, member: Member, v: Var, ends: Interval, place: Callable[[Interval], int], facts: Iterable[Linear]
) -> Member | None:
    """The point with one more variable, at a value that satisfies the facts; `None` if none is found.

    A fact that is affine in the variable limits its values. Other facts are tested at a few values; without them the
    variable enters the given point itself.

    Parameters
    ----------
    place: the value for given ends, near which others are tried.
    """
    open_facts = []
    for fact in facts:
        k = fact.terms.get(v, 0)
        others = Linear(fact.const, {e: times for e, times in fact.terms.items() if e is not v})
        if not k or any(v in e.free_vars() for e in others.terms):
            open_facts.append(fact)
            continue
        rest = member.value(others)
        if rest is None:
            return None
        ends = meet(ends, (-(rest // k), None) if k > 0 else (None, rest // -k))
    low, high = ends
    if low is not None and high is not None and low > high:
        return None
    step, offset = step_of(known, v)
    first = _nearest(place(ends), ends, step, offset)
    if not open_facts and step == 1:
        member.enter(v, first)
        return member
    for value in dict.fromkeys((first, first - step, first + step, low, high, 2 * first)) if open_facts else (first,):
        if value is None or (value - offset) % step or meet(ends, (value, value)) != (value, value):
            continue
        found = Member({**member.point, v: value}, member.other)
        found.values = {**member.values, v: value}
        if all((one := found.value(fact)) is not None and one >= 0 for fact in open_facts):
            return found
    return None


def _member(
    known: Normalizer, search: FoundMembers, other: int, numbers: tuple[int, ...], place: Place
) -> Member | None:
    """The point with these sizes and this place in each range; `None` if an assumption excludes it."""
    closing = search.closing

    def size(number: int) -> Callable[[Interval], int]:
        return lambda _: numbers[number % len(numbers)]

    member = Member({}, other)
    for number, v in enumerate(search.sizes):
        found = _entered(known, member, v, known.atom_bounds(v), size(number), closing.get(v, ()))
        if found is None:
            return None
        member = found
    waiting = dict(search.solved)
    for v in search.sizes:
        if v in waiting:
            value = member.value(waiting.pop(v))
            if value is None:
                return None
            member = Member({**member.point, v: value}, member.other)
    later = set(search.order)
    for number, v in enumerate(search.order):
        if waiting and not _settled(known, member, waiting, later):
            return None
        later.discard(v)
        found = _within_limits(known, member, v, _placed(numbers, place, number), closing.get(v, ()))
        if found is None:
            return None
        member = found
    if waiting and (not _settled(known, member, waiting, later) or waiting):
        return None
    return member if _is_member(known.assumptions, member) else None


def _within_limits(
    known: Normalizer, member: Member, v: Var, place: Callable[[Interval], int], facts: Iterable[Linear]
) -> Member | None:
    """The point with a ranged variable, whose symbolic ends have values there; `None` if none is found."""
    low, high = known.ranges.get(v, EVERYTHING)
    for end, is_low in zip(known.assumptions.limits.get(v, (None, None)), (True, False), strict=True):
        if end is None:
            continue
        value = member.value(end)
        if value is None:
            return None
        if is_low:
            low = value if low is None else max(low, value)
        else:
            high = value if high is None else min(high, value)
    return _entered(known, member, v, (low, high), place, facts)


def _placed(numbers: tuple[int, ...], place: Place, number: int) -> Callable[[Interval], int]:
    """The value of a ranged variable in a pattern: its place in a finite range, else a number."""

    def chosen(ends: Interval) -> int:
        low, high = ends
        return numbers[number % len(numbers)] if low is None or high is None else place(low, high, number)

    return chosen


def _settled(known: Normalizer, member: Member, waiting: dict[Expr, Linear], later: Collection[Expr]) -> bool:
    """Enter values of equated sizes; `False` if a term has no value, or a value outside the range of its size.

    Parameters
    ----------
    waiting: the remaining equated sizes; each entered size is removed.
    later: variables without a value so far.
    """
    for _ in range(len(waiting)):  # one may use others
        for e, form in list(waiting.items()):
            if any(v in later or v in waiting for term in form.terms for v in term.free_vars()):
                continue
            value = member.value(form)
            if value is None:
                return False
            if isinstance(e, Var) and value != _nearest(value, known.atom_bounds(e), *step_of(known, e)):
                return False
            member.enter(e, value)
            del waiting[e]
    return True


def _is_member(assumptions: Assumptions, member: Member) -> bool:
    for e, (low, high) in assumptions.atoms.items():
        value = member.term(e)
        if value is None or low is not None and value < low or high is not None and value > high:
            return False
    for fact in assumptions.nonneg:
        value = member.value(fact)
        if value is None or value < 0:
            return False
    multiples = () if assumptions.multiples is None else assumptions.multiples.by_term.values()
    for one in (multiple for some in multiples for multiple in some):
        if member.value(one.divisor.times(one.quotient).plus(one.rest)) != member.term(one.term):
            return False
    return True


def _nearest(value: int, interval: Interval, step: int, offset: int) -> int:
    """A number with this remainder near a value, inside the interval if the interval contains such a number."""
    low, high = interval
    if low is not None:
        value = max(value, low)
    value += (offset - value) % step
    if high is not None and value > high:
        value = high - (high - offset) % step
    return value


CONSULTED_FACTS: Final = 3  # nested uses of facts: a fact may contain the term whose sign it helps to derive
FACT_CHAIN: Final = 3  # facts that are added up for one sign, as in `a < b`, `b < c`, `c < d`
CHAINED_RESTS: Final = 48  # rests tried for one sign
DERIVED_SIGNS: Final = 4  # nested derivations of signs

_Rest: TypeAlias = "tuple[int, int, frozenset[tuple[Expr, int]]]"  # the remaining facts, and the form


def is_nonneg(known: Normalizer, form: Linear) -> bool:
    """Prove `form >= 0` from ranges, symbolic ends and facts; False means unknown.

    Eliminates all variables with a range. The coefficients over the remaining parameters, each measured from its lower
    bound, must then be nonnegative.
    """
    spent = SPENT
    if spent.open:  # an answer that depends on the remaining budget is not cached
        return spent.proofs < DERIVED_SIGNS and _derived(known, form)
    key = (form.const, frozenset(form.terms.items()))
    found = known.signs.get(key)
    outermost = is_outermost()
    if found is not None:
        if not outermost:
            try_rests(found[1])  # what the answer took counts, whoever asked first
        return found[0]
    if outermost:
        spent.rests = 0
    before, spent.left = spent.rests, forms.VISITED_MONOMIALS
    try:
        sign = _derived(known, form)
    except SpentSignError:
        if not outermost:
            raise
        sign = False
    known.signs[key] = sign, spent.rests - before
    return sign


def _derived(known: Normalizer, form: Linear) -> bool:
    spent = SPENT
    spent.open += 1
    spent.proofs += 1
    try:
        return _follows(known, form)
    finally:
        spent.proofs -= 1
        spent.open -= 1


def _follows(known: Normalizer, form: Linear) -> bool:
    facts, spent = known.assumptions.nonneg, SPENT
    if known.members is None and spent.open == 1:  # members cost more than a first question that is plainly true
        if _lowest_is_nonneg(known, form):
            return True
        spent.left = forms.VISITED_MONOMIALS  # members do not change the answer
    if is_refuted(known, form):
        return False
    if _is_sure(known, form):
        return True
    if not facts or spent.consulting >= CONSULTED_FACTS:
        return False
    spent.consulting += 1
    try:
        return _beside_facts(known, form, facts, FACT_CHAIN if spent.open == 1 else 1, set())
    finally:
        spent.consulting -= 1


def _beside_facts(known: Normalizer, form: Linear, facts: Sequence[Linear], chain: int, seen: set[_Rest]) -> bool:
    """Whether `form = c1*f1 + ... + rest` for at most `chain` facts `f >= 0`, factors `c >= 0`, and `rest >= 0`.

    Parameters
    ----------
    seen: the rests tried so far, which the same facts in another order lead to again; grows up to `CHAINED_RESTS`.
    """
    open_ends: list[Linear] = []
    for fact in facts:
        factor = _cancelling_factor(known, form, fact)
        if factor is None:
            continue
        rest = form.minus(factor.times(fact))
        key = (chain, rest.const, frozenset(rest.terms.items()))
        if key in seen:
            continue
        if len(seen) == CHAINED_RESTS:
            return False
        seen.add(key)
        if is_refuted(known, rest):  # so is each rest of it
            continue
        try_rests(1)
        left = SPENT.left
        if _is_sure(known, rest):
            return True
        if chain > 1:
            SPENT.left = left - len(fact.terms)
            if len(rest.terms) <= len(form.terms) + 1:
                open_ends.append(rest)
    return any(_beside_facts(known, rest, facts, chain - 1, seen) for rest in open_ends)


def _is_sure(known: Normalizer, form: Linear) -> bool:
    """Prove `form >= 0` from ends of variables and atoms, or of the quotients in it."""
    if _lowest_is_nonneg(known, form):
        return True
    relaxed = form
    for _ in range(RELAXED_DIVISORS):
        step = without_quotients(known, relaxed)
        if step is None:
            return False
        relaxed = step
        if _lowest_is_nonneg(known, relaxed):
            return True
    return False


def without_quotients(known: Normalizer, form: Linear) -> Linear | None:
    """A form f without the quotients by one divisor d of the given one, such that `form >= 0` follows from `f >= 0`.

    It is `d * form` with each `d * (x // d)` at its least in [x - d + 1, x]. As `form` is an integer, it is nonnegative
    where `d * form > -d`. Where `form` has the factor d beside each quotient, it need not be multiplied.

    `None` without a quotient by a positive divisor, or with a quotient beside a factor of unknown sign.
    """
    divisor: Expr | None = None
    found: list[tuple[Expr, int, Expr, list[Expr]]] = []
    for e, k in form.terms.items():
        others = forms.factors(e)
        for q in others:
            if q.op is ops.FLOORDIV and (divisor is None or q.args[1] is divisor):
                divisor = q.args[1]
                forms.take_out(others, q)
                found.append((e, k, q, others))
                break
    if divisor is None:
        return None
    d = known.form(divisor)
    if not known.is_positive(d):
        return None
    own = forms.factors(next(iter(d.terms))) if not d.const and list(d.terms.values()) == [1] else None
    less = [None if own is None else _without(others, own) for *_, others in found]
    multiply = None in less
    total = Linear(form.const, {e: k for e, k in form.terms.items() if all(e is not part for part, *_ in found)})
    if multiply:
        if forms.degree(total, PRODUCT_DEGREE) + forms.degree(d, PRODUCT_DEGREE) > PRODUCT_DEGREE:
            return None
        total = total.times(d).plus(d).shift(-1)
    for (_, k, q, others), left in zip(found, less, strict=True):
        parts = others if multiply or left is None else left
        beside = forms.atom(forms.monomial_of(parts)) if parts else forms.constant(1)
        low = known.bounds(beside)[0]
        if low is None or low < 0:
            return None
        x = known.form(q.args[0])
        total = total.plus(beside.times(x.minus(d).shift(1) if k > 0 else x), k)
    return total


def _without(parts: list[Expr], taken: list[Expr]) -> list[Expr] | None:
    """The factors without those to take out; `None` if one is missing."""
    left = list(parts)
    return left if all([forms.take_out(left, e) for e in taken]) else None  # noqa: C419  # every factor is taken out


def _lowest_is_nonneg(known: Normalizer, form: Linear) -> bool:
    """Prove `form >= 0` from ends of variables and atoms.

    Different sums of facts often leave equal rests. A scope keeps each answer with its cost, and repeats the answer
    where the budget still has that cost.
    """
    spent = SPENT
    depth = (spent.open, spent.consulting, spent.proofs, spent.own_budgets)
    key = (form.const, frozenset(form.terms.items()), depth)
    found = known.lowest.get(key)
    left, rests = spent.left, spent.rests
    if found is not None and found[1] <= left:
        spent.left = left - found[1]
        try_rests(found[2])
        return found[0]
    answer = _is_lowest_nonneg(known, form)
    if spent.left >= 0:
        known.lowest[key] = answer, left - spent.left, spent.rests - rests
    return answer


def _is_lowest_nonneg(known: Normalizer, form: Linear) -> bool:
    limits, ranges, atoms = known.assumptions.limits, known.ranges, known.assumptions.atoms
    negated = forms.scaled(forms.poly_of(known.regroup(form)), -1)
    quotients = any(e.op is ops.FLOORDIV for e in forms.atoms_in(negated))

    def is_least(relaxed: Relaxed) -> bool:
        highest, _ = eliminated(known, negated, relaxed, 1, 0)
        if highest is None:
            return False
        least = forms.scaled(highest, -1)
        return _nonneg_over_parameters(known, least) or not quotients and _beside_its_quotients(known, least)

    def everything(v: Var) -> bool:
        return v in limits or v in ranges or v in atoms

    def inner(v: Var) -> bool:
        """Whether a variable is no size. Sizes stay symbolic: `n` beside `n // 4` bounds better than its ends."""
        ends = ranges.get(v)
        return v in limits if ends is None else None not in ends or any(map(_depends, limits.get(v, ())))

    if atoms:
        return is_least(inner) or is_least(everything)
    return is_least(everything) or not all(map(inner, ranges)) and is_least(inner)


def _beside_its_quotients(known: Normalizer, least: forms.Poly) -> bool:
    """Prove `least >= 0` from the quotients that it has as ends of variables: `t*o` up to `(ceildiv(n, t) - 1)*t`."""
    if not any(e.op is ops.FLOORDIV for e in forms.atoms_in(least)):
        return False
    relaxed = without_quotients(known, forms.linear_of(least))
    return relaxed is not None and _nonneg_over_parameters(known, forms.poly_of(relaxed))


def _depends(end: Linear | None) -> bool:
    return end is not None and not end.is_const


def _cancelling_factor(known: Normalizer, form: Linear, fact: Linear) -> Linear | None:
    """A monomial c >= 0 such that a term of `form - c*fact` cancels; `None` without one."""
    for monomial, coefficient in fact.terms.items():
        have = form.terms.get(monomial, 0)
        if have and have % coefficient == 0 and have // coefficient > 0:
            return forms.constant(have // coefficient)
    if all([e.op is not ops.MUL for e in form.terms]):  # noqa: C419  # hot
        return None
    for monomial, coefficient in fact.terms.items():
        own = forms.factors(monomial)
        for e, k in form.terms.items():
            if e.op is ops.MUL and k % coefficient == 0 and k // coefficient > 0:
                others = _without(forms.factors(e), own)
                if others:
                    beside = forms.monomial_of(others)
                    low = known.atom_bounds(beside)[0]
                    if low is not None and low >= 0:
                        return Linear(0, {beside: k // coefficient})
    return None


def _nonneg_over_parameters(known: Normalizer, p: forms.Poly) -> bool:
    if obvious_sign(known, p) > 0:
        return True
    around = _around_ends(known, p)
    if around is None:
        return False
    if all(k >= 0 for k in around.values()):
        return True
    low = known.bounds(forms.linear_of(p))[0] if any(e.op is ops.FLOORDIV for e in forms.atoms_in(p)) else None
    return low is not None and low >= 0


def _around_ends(known: Normalizer, p: forms.Poly) -> forms.Poly | None:
    """`p` with each atom denoting its distance from a numeric end; `None` where one has no end."""
    for e in forms.atoms_in(p):
        low, high = known.atom_bounds(e)
        if low is None and high is None:
            return None
        if low != 0:
            p = forms.shifted(p, e, 1, low) if low is not None else forms.shifted(p, e, -1, high or 0)
    return p


def ends_of_products(known: Normalizer, form: Linear) -> Interval:
    """An end of a form with products, attained at the ends of all atoms.

    `a*b - a - b + 1` over a, b >= 2 is `(a - 2)*(b - 2) + (a - 2) + (b - 2) + 1`.
    """
    if ops.MUL not in [e.op for e in form.terms] or (
        len(form.terms) << forms.degree(form, PRODUCT_DEGREE) > forms.VISITED_MONOMIALS
    ):
        return EVERYTHING
    around = _around_ends(known, forms.poly_of(form))
    if around is None:
        return EVERYTHING
    least = around.pop((), 0)
    return (
        least if all(k >= 0 for k in around.values()) else None,
        least if all(k <= 0 for k in around.values()) else None,
    )
