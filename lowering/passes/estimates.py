"""What passes ask without a context: ends of loops as linear forms, comparisons these decide, and operation counts.

Splitting asks these of every condition of a nest, several times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final, TypeAlias

from bound.schedule import simple
from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value
from intset.config import memoized
from intset.expr import Cond, Expr, Node, Var, const, constant_value, dag, ops
from intset.expr.build import maximum, minimum
from intset.expr.node import make
from intset.linear.canonical import form_of
from intset.linear.form import Linear, add, atom, factors
from lowering.nest import ir
from lowering.nest.printer import end_of
from lowering.nest.walk import children, constant_limit, operands, range_ends, statements

MOST_ENDS: Final = 4  # of a loop on one side: what is known besides is not looked at
MOST_TRIED: Final = 32  # ways to eliminate the loops of a condition
# What each comparison says of `form = left - right`, as pairs (sign, offset): sign * form + offset >= 0 for all.
SAYS: Final[dict[ops.Op, tuple[tuple[int, int], ...]]] = {
    ops.GE: ((1, 0),),
    ops.GT: ((1, -1),),
    ops.LE: ((-1, 0),),
    ops.LT: ((-1, -1),),
    ops.EQ: ((1, 0), (-1, 0)),
}

Ends: TypeAlias = "tuple[tuple[Linear, ...], tuple[Linear, ...]]"  # least values and greatest values, each of them true
ITERATIONS: Final = 24  # assumed iterations of a loop of symbolic extent
UNENDING: Final = 1 << 62  # iterations that no longer make a difference; floats hold what is made of them
RARE: Final = 0.5  # how often a branch is taken
COMPARED: Final = 24  # nodes of two ends whose minima and maxima are compared by their operands
MAX_NODES: Final = 500  # larger operands are left as they are
_DIVISIONS: Final = (*ops.DIVISIONS, ops.SHR, ops.BITAND)

Times: TypeAlias = "Mapping[Expr, float]"


class Loops:
    """The enclosing loops, outermost first, each with linear lower and upper bounds of its variable.

    A condition without the innermost variable is asked of the outer loops, once a nest: ends of
    outer loops never mention an inner variable.
    """

    __slots__ = ("_around", "_decided", "_innermost", "_order", "ends")

    def __init__(self, ends: Mapping[Var, Ends] | None = None) -> None:
        self.ends: dict[Var, Ends] = dict(ends or {})
        self._order = tuple(reversed(self.ends))
        self._around: Loops | None = None
        self._innermost: Var | None = None
        self._decided: dict[Cond, bool | None] = {}

    def inside(self, var: Var, lows: Iterable[Expr], highs: Iterable[Expr], *, within: Ends = ((), ())) -> Loops:
        """Add a loop; `highs` are last values.

        Parameters
        ----------
        within: further bounds, of the whole loop that a subrange belongs to.
        """
        ends = (
            _distinct((form for low in lows for form in _below(form_of(low), -1)), within[0]),
            _distinct((form for high in highs for form in _below(form_of(high), 1)), within[1]),
        )
        inner = Loops({**self.ends, var: ends})
        if var not in self.ends:
            inner._around, inner._innermost = self, var
        return inner

    def within(self, *loops: ir.For) -> Loops:
        """Add whole loops, outermost first."""
        known = self
        for loop in loops:
            low, extent = range_ends(loop.range)
            known = known.inside(loop.var, (low,), (end_of(low, extent) - 1,))
        return known

    def least(self, form: Linear, among: Sequence[Var] | None = None) -> Iterator[Linear]:
        """Forms that `form` is not below, free of the variables `among` (else of all loops in sight).

        Not all of them may be free: a variable inside a product or a division stays.
        """
        return (Linear(number, terms) for number, terms in self._ends_of(form, among))

    def _ends_of(self, form: Linear, among: Sequence[Var] | None = None) -> list[tuple[int, dict[Expr, int]]]:
        """The constants and terms of `least`."""
        found = [(form.const, form.terms)]
        for var in self._order:
            if among is None or var in among:
                for _, terms in found:
                    if var in terms:
                        found = self._each_without(found, var)
                        break
        return found

    def _each_without(self, forms: list[tuple[int, dict[Expr, int]]], var: Var) -> list[tuple[int, dict[Expr, int]]]:
        """The forms with a variable replaced by each of its ends; at most `MOST_TRIED`."""
        found: list[tuple[int, dict[Expr, int]]] = []
        for number, terms in forms:
            step = terms.get(var, 0)
            if not step:
                found.append((number, terms))
            else:
                lows, highs = self.ends[var]
                for end in lows if step > 0 else highs:
                    total = dict(terms)
                    del total[var]
                    if end.terms:
                        add(total, end.terms, step)
                    found.append((number + step * end.const, total))
            if len(found) >= MOST_TRIED:
                return found[:MOST_TRIED]
        return found

    def is_at_least_0(self, form: Linear) -> bool:
        """Whether bounds of its variables show that a form is at least 0."""
        return any([n >= 0 and (not terms or self._are_products(terms)) for n, terms in self._ends_of(form)])  # noqa: C419  # hot

    def _are_products(self, terms: Mapping[Expr, int]) -> bool:
        """Whether no term can be negative: each multiplies variables that are at least 0, with a positive factor."""
        return all(
            k > 0 and e.op is ops.MUL and all(v.op is ops.VAR and self.is_at_least_0(atom(v)) for v in factors(e))
            for e, k in terms.items()
        )

    def decided(self, cond: Cond) -> bool | None:
        """The constant truth of a comparison over all iterations; `None` if unknown."""
        try:
            return self._decided[cond]
        except KeyError:
            around = self._around
            is_outer = around is not None and self._innermost not in cond.free_vars()
            known = self._decided[cond] = around.decided(cond) if around and is_outer else self._judged(cond)
            return known

    def _judged(self, cond: Cond) -> bool | None:
        if cond.op is ops.NE:
            known = self.decided(make(ops.EQ, cond.args))
            return None if known is None else not known
        forms = says(cond)
        if forms is None:
            return None
        if all(self.is_at_least_0(form) for form in forms):
            return True
        return False if any(self.is_at_least_0(form.scale(-1).shift(-1)) for form in forms) else None


def _distinct(own: Iterable[Linear], known: Sequence[Linear]) -> tuple[Linear, ...]:
    """New bounds of a loop, then known ones, without duplicates."""
    bounds = {form.key(): form for form in islice(own, MOST_ENDS)}
    bounds.update((form.key(), form) for form in known[:MOST_ENDS] if form.key() not in bounds)
    return tuple(bounds.values())


def without(form: Linear, var: Var) -> tuple[int, Linear]:
    """The coefficient of a variable, and the rest of the form."""
    rest = dict(form.terms)
    return rest.pop(var, 0), Linear(form.const, rest)


def says(cond: Cond, of_data: bool = False) -> tuple[Linear, ...] | None:
    """The linear forms whose nonnegativity is equivalent to a comparison; `None` if it is not affine.

    Parameters
    ----------
    of_data: whether the forms may contain elements of tensors.
    """
    if cond.op not in SAYS or (not of_data and dag.opaque_terms(cond)):
        return None
    left, right = cond.args
    if not isinstance(left, Expr) or not isinstance(right, Expr):
        return None
    form = form_of(left).minus(form_of(right))
    return tuple(form.scale(sign).shift(offset) for sign, offset in SAYS[cond.op])


def _below(form: Linear, sign: int) -> Iterator[Linear]:
    """Linear forms that bound an end of a loop: each operand of a minimum or maximum.

    Parameters
    ----------
    sign: 1 for upper bounds, -1 for lower bounds.
    """
    choices: list[list[tuple[Linear, int]]] = []
    rest: dict[Expr, int] = {}
    for term, k in form.terms.items():
        if term.op is (ops.MIN if k * sign > 0 else ops.MAX):
            choices.append([(form_of(arg), k) for arg in dag.chain(term.op, term)])
        else:
            rest[term] = k
    for chosen in islice(product(*choices), MOST_ENDS):
        total = Linear(form.const, rest)
        for part, k in chosen:
            total = total.plus(part, k)
        yield total


def quotient(form: Linear, by: int, known: Loops) -> Linear:
    """The form divided, rounded down."""
    if all(k % by == 0 for k in form.terms.values()):
        return Linear(form.const // by, {t: k // by for t, k in form.terms.items()})
    whole = form.const // by
    rest = form.shift(-whole * by)
    if by & (by - 1) == 0:
        return Linear(whole, {make(ops.SHR, (rest.expr(), const(by.bit_length() - 1))): 1})
    if known.is_at_least_0(rest):
        return Linear(whole, {make(ops.TRUNCDIV, (rest.expr(), const(by))): 1})
    return form_of(simple.floordiv(rest.expr(), by)).shift(whole)


def clamped(at: Expr, low: Expr, end: Expr, loops: Loops) -> Expr:
    """`at` clamped to the ends; `end` where these have crossed."""
    raised = at if is_in_order(low, at, loops) else low if is_in_order(at, low, loops) else maximum(at, low)
    return (
        raised if is_in_order(raised, end, loops) else end if is_in_order(end, raised, loops) else minimum(raised, end)
    )


_CHOICES: Final = frozenset((ops.MIN, ops.MAX))


def is_in_order(a: Expr, b: Expr, loops: Loops) -> bool:
    """Whether `a <= b` is known by bounds of loops. Short minima and maxima are compared by their operands."""
    if not _CHOICES.isdisjoint((a.op, b.op)) and dag.is_small(COMPARED, (a, b)):
        if a.op is ops.MAX:
            return all(is_in_order(e, b, loops) for e in a.args)
        if b.op is ops.MIN:
            return all(is_in_order(a, e, loops) for e in b.args)
        if a.op is ops.MIN:
            return any(is_in_order(e, b, loops) for e in a.args)
        return any(is_in_order(a, e, loops) for e in b.args)
    left, right = form_of(a), form_of(b)
    if loops.is_at_least_0(right.minus(left)):
        return True
    by = next((_divided(f, loops)[1] for f in (left, right) if _divided(f, loops)[1] > 1), 1)
    (x, c), (y, d) = (_divided(f, loops, by) for f in (left, right))
    # x // c is at most y // c where x is at most y, and where y is a multiple of c so is x - (c - 1)
    slack = by - 1 if right.is_const else 0
    return 1 < by == c == d and loops.is_at_least_0(y.minus(x).shift(slack))


def _divided(form: Linear, loops: Loops, by: int = 1) -> tuple[Linear, int]:
    """A form as a quotient by a number, rounded down: that of its one term, else `by`."""
    if form.is_const:
        return form.scale(by), by
    term, k = next(iter(form.terms.items()))
    if len(form.terms) > 1 or k != 1 or len(term.args) != 2:
        return form, 1
    number = constant_value(term.args[1])
    if number is None or number < 1 or (term.op is ops.SHR and number > 30):
        return form, 1
    dividend = form_of(term.args[0])
    if term.op is ops.TRUNCDIV and not loops.is_at_least_0(dividend):
        return form, 1
    number = 1 << number if term.op is ops.SHR else number
    is_quotient = term.op in (ops.SHR, ops.FLOORDIV, ops.TRUNCDIV)
    return (dividend.shift(form.const * number), number) if is_quotient else (form, 1)


def is_same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two index tuples have equal linear forms."""
    return all(x is y or form_of(x).same(form_of(y)) for x, y in zip(a, b, strict=True))


def difference(low: Expr, end: Expr) -> int | None:
    """The constant difference `end - low`, else `None`."""
    form = form_of(end).minus(form_of(low))
    return form.const if form.is_const else None


def extent(low: Expr, end: Expr) -> Expr:
    """The number of iterations, written such that the end is seen."""
    known = difference(low, end)
    if known is not None:
        return const(max(0, known))
    return end if constant_value(low) == 0 else end - low


class Counts:
    """Counts of expressions of some operations, shared by all loops of a nest.

    Parameters
    ----------
    fewest: the operations from which on expressions are counted.
    """

    def __init__(self, fewest: int) -> None:
        self._fewest = fewest
        self._work: dict[Operand, int] = {}

    @memoized
    def times(self, root: Operand) -> Times:
        """Evaluation counts of the integers below an operand, per evaluation of it; branches count half."""
        below = dag.postorder((root,))
        integers = [node for node in below if node.args and isinstance(node, Node)]
        counted = {node for node in integers if isinstance(node, Expr) and self.work(node) >= self._fewest}
        if not counted or len(below) > MAX_NODES:
            return {}
        times: dict[Operand, float] = {root: 1.0}
        for node in reversed(below):
            for k, arg in enumerate(node.args):
                share = RARE * times[node] if k and node.op in ops.LAZY else times[node]
                times[arg] = times.get(arg, 0.0) + share
        return {node: k for node, k in times.items() if isinstance(node, Expr) and node in counted}

    def work(self, e: Operand) -> int:
        """The operations of an expression; a division counts twice."""
        works = self._work
        for node in dag.postorder((e,)) if e not in works else ():
            if node not in works:
                works[node] = _own(node) + sum([works[arg] for arg in node.args]) if node.args else 0
        return works[e]

    def work_inside(self, e: Expr, here: Collection[Parameter]) -> int:
        """The operations of an expression that are not named further outside: variables in `here` decide the rest."""
        works: dict[Operand, int] = {}
        for node in walk.nodes(e):
            if isinstance(node, (Expr, Cond)) and not any(v in here for v in node.free_vars()):
                work = self.work(node)
                works[node] = work if work < self._fewest else 0
            else:
                works[node] = _own(node) + sum(works[arg] for arg in node.args)
        return works[e]


class Uses:
    """How often counted expressions are evaluated in statements, once each is executed, names taken into account."""

    def __init__(self, counts: Counts, stmts: Iterable[ir.Stmt]) -> None:
        self.counts = counts
        self.of: dict[Expr, float] = {}
        waiting = [(stmt, 1.0) for stmt in reversed(tuple(stmts))]
        while waiting:
            stmt, times = waiting.pop()
            if isinstance(stmt, ir.For):
                waiting.append((stmt.body, times * _iterations(stmt, ITERATIONS)))
                continue
            for e in () if isinstance(stmt, (ir.Allocate, ir.Assume)) else operands(stmt):
                for node, k in counts.times(e).items():
                    self.of[node] = self.of.get(node, 0.0) + k * times
            share = RARE * times if isinstance(stmt, ir.If) else times
            waiting.extend((inner, share) for inner in reversed(children(stmt)))

    def name(self, e: Expr) -> None:
        """From now on `e` is evaluated once."""
        saved = self.of[e] - 1.0
        for node, k in self.counts.times(e).items():
            self.of[node] -= k * saved


def _own(e: Operand) -> int:
    return 2 if e.op in _DIVISIONS and isinstance(e, Expr) else 1 if e.args else 0


def _iterations(loop: ir.For, unknown: int) -> int:
    """About how many iterations a loop has; `unknown` of a symbolic extent."""
    limit = constant_limit(range_ends(loop.range)[1])
    return unknown if limit is None else max(0, min(limit, UNENDING))


SHORT: Final = 128  # simple operations of a loop beside which a number of iterations that is not constant costs
WORTH: Final = 150  # simple operations beside which finding the ends of pieces costs nothing
ENTER: Final = 300  # simple operations that entering a loop in pieces costs whose ends are found each time
SMALL: Final = 0.1  # the largest share of a loop's work that entering pieces may cost
TRIPS: Final = 64  # assumed iterations of a loop of symbolic extent
VECTOR: Final = 6  # iterations of an innermost loop that run at a time

LoopWork: TypeAlias = "Mapping[Var, float]"  # work of each enclosing loop, per iteration of the innermost one


class Worth:
    """Operation counts of the statements of a nest, each computed once."""

    @memoized
    def work(self, stmt: ir.Stmt) -> float:
        """The operations of a statement, about."""
        if isinstance(stmt, ir.For):
            is_innermost = not any(isinstance(s, (ir.For, ir.If)) for s in statements(stmt.body))
            return _iterations(stmt, TRIPS) * self.work(stmt.body) / (VECTOR if is_innermost else 1)
        if isinstance(stmt, ir.Store):
            return 1.0 + sum(1 for node in walk.nodes(stmt.value) if node.args and isinstance(node, Value))
        return sum(self.work(inner) for inner in children(stmt))

    def is_short(self, loop: ir.For) -> bool:
        """Whether a loop gains much from a constant number of iterations."""
        return self.work(loop) <= SHORT

    def decides(self, loop: ir.For, free: set[Var], around: LoopWork) -> bool:
        """Whether splitting this loop for a condition on the variables `free` pays, unless an inner loop decides it.

        It pays if the breakpoint is a constant, or if computing it costs little beside the loop, or beside the work of
        the next enclosing loop that mentions a variable of `free`.
        """
        if loop.var not in free:
            return False
        if free == {loop.var} or self.work(loop) >= WORTH:
            return True
        nearest = next((work for var, work in reversed(list(around.items())) if var in free), 0.0)
        return SMALL * nearest >= ENTER

    def inside(self, around: LoopWork, loop: ir.For) -> LoopWork:
        """The loops around the body of a loop."""
        count = max(_iterations(loop, TRIPS), 1)
        return {**{var: work / count for var, work in around.items()}, loop.var: self.work(loop) / count}

    def entered(self, path: Sequence[ir.For], around: LoopWork) -> Iterator[tuple[ir.For, LoopWork]]:
        """Nested loops, each with the loops around it."""
        for loop in path:
            yield loop, around
            around = self.inside(around, loop)
