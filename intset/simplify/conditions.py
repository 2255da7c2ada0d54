"""Rewrites of comparisons, by the difference of both sides, and of conjunctions, disjunctions and negations of them.

    p & q = p                  where p implies q                  (x <= y) & (y <= x) = x == y
    p & q = False              where they exclude one another     (x <= y) & (x != y) = x < y
    p & q = p & q'             where q equals q' wherever p holds
    (x % 4 == 1) & (x % 6 == 3) = x % 12 == 9

Disjunctions are treated dually. Lazy evaluation lets each part assume its predecessors. Total successors are assumed
too; partial ones are not, because dropping a part lets successors run at more points.

    x + z <= y + z             = x <= y
    k*x + s <= k*y + c         = x <= y + q     where (c - s) // k is always q
    x // c <= y                = x < (y + 1) * c, c > 0
    g*x + s == 0               = (x + q == 0) & (s == g*q)     where s is a multiple of g for that q alone
    min(x, y) < z              = x < z          where y >= z;  = (x < z) | (y < z) in general
    select(p, x, y) < z        = p & (x < z)    where y >= z, and so on

The direction of the comparison is kept; strictness changes only for a shorter text; constants stand on the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.arithmetic.strided import chinese, nearest
from intset.expr import Cond, Expr, as_cond, const, dag, ops
from intset.expr.evaluate import evaluate
from intset.expr.node import folded_chain, make, truth
from intset.expr.ops import Op
from intset.linear.assumptions import Clause, sharpened
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom
from intset.simplify import choices, sums
from intset.simplify.choices import OrderDecider, is_as_total, is_total
from intset.simplify.rules import ALL, folded, instance
from intset.simplify.sums import TermSum

if TYPE_CHECKING:
    from intset.simplify.engine import Pricing, Simplifier


_OTHER_STRICTNESS: Final = {ops.LT: ops.LE, ops.LE: ops.LT, ops.GT: ops.GE, ops.GE: ops.GT}
_STRICT: Final = (ops.LT, ops.GT)
_UPWARD: Final = (ops.GT, ops.GE)
GROWTH: Final = {"difference of the sides": 4, "bound of a quotient": 4}  # cost that a candidate may have more
NESTED_GROWTH: Final = {"difference of the sides": 3}  # growth of the cost inside a candidate
Candidate = tuple[str, Cond]  # rule, condition
DROPPED: Final = ("implied by others", "implied by the others")  # the rest loses what this part tells it
JUNCTION_PARTS: Final = 12  # parts of a junction compared pairwise
NARROWED_NODES: Final = 60  # nodes of a junction whose parts are simplified under one another
ENUMERATED_VALUES: Final = 16  # values of a variable that are enumerated
NESTED_NARROWING: Final = 3  # nested narrowings of a normalizer
SUMMED_INEQUALITIES: Final = 64  # sums of inequalities that are tried
ADDED_INEQUALITIES: Final = 4  # inequalities in one sum


def clause_of(known: Normalizer, cond: Cond) -> Clause | None:
    """An undecided comparison as a clause: a kind (>=, ==, !=) and a form compared with 0."""
    if cond.op not in ops.COMPARISONS:
        return None
    clauses = known.clauses(cond)
    return clauses[0] if len(clauses) == 1 and isinstance(clauses[0], tuple) else None


def comparison_candidates(s: Simplifier, node: Cond, known: Normalizer) -> Iterator[Candidate]:
    """Rewrites of a comparison."""
    yield from _choices(s, node, known)
    clause = clause_of(known, node)
    if clause is None:
        return
    yield from _own_difference(s, node)
    yield from _congruence(node)
    kind, form = clause
    order = s.order(known)
    yield from _at_an_end(s, kind, form, order)
    for less in _without_factor(kind, form, order):
        yield "factor of one sign", stated(s, node.op, kind, sum_of_form(less), node)
    *opened, written = _readings(known, form)
    for one in (written, *opened):  # a form without remainders counts only where it is shorter than the node
        difference = stated(s, node.op, kind, sum_of_form(one), node)
        is_shorter = s.is_better(s.price(difference), s.price(node))
        if is_shorter or one is written and not _reads_as(difference, node):
            yield "difference of the sides", difference
    if kind is not ops.GE:
        yield from _digits(s, known, kind, form, node)
    else:
        coarser = _without_small_part(known, form)
        if coarser is not None:
            yield "part too small to matter", stated(s, node.op, kind, sum_of_form(coarser), node)
        for multiplied in _without_quotient(known, form):
            for one in _readings(known, multiplied):
                yield "bound of a quotient", stated(s, node.op, kind, sum_of_form(one), node)


def _reads_as(a: Cond, b: Cond) -> bool:
    """Whether two comparisons differ in the order of addends alone."""
    return a.op is b.op and all(sums.read(x) == sums.read(y) for x, y in zip(a.args, b.args, strict=True))


def _readings(known: Normalizer, form: Linear) -> tuple[Linear, ...]:
    regrouped = known.regroup(form)
    return (form,) if regrouped is form else (form, regrouped)


def sum_of_form(form: Linear) -> TermSum:
    return TermSum(form.const, dict(form.ordered()))


def _own_difference(s: Simplifier, node: Cond) -> Iterator[Candidate]:
    """Both sides as written, without common terms."""
    a, b = (sums.read(arg) for arg in node.args)
    difference = a.plus(b, -1)
    if len(difference.terms) + bool(difference.const) >= len(a.terms) + len(b.terms) + bool(a.const) + bool(b.const):
        return
    op = node.op
    if op in (ops.EQ, ops.NE):
        yield "common terms of the sides", stated(s, op, op, difference, node)
        return
    yield "common terms of the sides", stated(s, op, ops.GE, against_0(op, difference), node)


def against_0(op: Op, difference: TermSum) -> TermSum:
    """The form f for which an inequality, given by the difference of its sides, states `f >= 0`."""
    form = difference if op in _UPWARD else sums.scaled(difference, -1)
    return form.plus(TermSum(-1, {})) if op in _STRICT else form


def stated(s: Simplifier | Pricing, op: Op, kind: Op, form: TermSum, like: Cond | None = None) -> Cond:
    """Write `form >= 0`, `== 0` or `!= 0` in the direction of `op`, in the strictness with the shorter text."""
    if kind is not ops.GE:
        chosen: Op = kind
        return _equation(chosen, form, like)
    if op not in _OTHER_STRICTNESS:
        op = ops.GE
    first = _inequality(op, form)
    other = _inequality(_OTHER_STRICTNESS[op], form)
    return other if s.price(other) < s.price(first) else first


def _parts(form: TermSum) -> tuple[dict[Expr, int], dict[Expr, int]]:
    return ({t: k for t, k in form.terms.items() if k > 0}, {t: -k for t, k in form.terms.items() if k < 0})


def _inequality(op: Op, form: TermSum) -> Cond:
    """`form >= 0` by `op`: P + d >= N with the positive terms P and the negative ones N."""
    high, low = _parts(form)
    d = form.const + 1 if op in _STRICT else form.const
    if not low:
        upper, lower = TermSum(0, high), TermSum(-d, {})
    elif not high or d > 0:
        upper, lower = TermSum(d, high), TermSum(0, low)
    else:
        upper, lower = TermSum(0, high), TermSum(-d, low)
    left, right = (upper, lower) if op in _UPWARD else (lower, upper)
    return _constant_right(op, left, right)


def _equation(op: Op, form: TermSum, like: Cond | None) -> Cond:
    high, low = _parts(form)
    d = form.const
    if not low:
        return _constant_right(op, TermSum(0, high), TermSum(-d, {}))
    if not high:
        return _constant_right(op, TermSum(0, low), TermSum(d, {}))
    left, right = (TermSum(d, high), TermSum(0, low)) if d > 0 else (TermSum(0, high), TermSum(-d, low))
    first = next(iter(sums.read(like.args[0]).terms), None) if like is not None else None
    if first is not None and first in low and first not in high:
        left, right = right, left
    return _constant_right(op, left, right)


def _constant_right(op: Op, left: TermSum, right: TermSum) -> Cond:
    if not left.terms and right.terms:
        left, right, op = right, left, ops.MIRRORED[op]
    answer: Cond = make(op, (sums.write(left), sums.write(right)))
    return answer


# -- forms against 0 ----------------------------------------------------------------------------------------------


def _without_small_part(known: Normalizer, form: Linear) -> Linear | None:
    """`g*h + s >= 0` as `h + q >= 0`, where `s // g` is always q."""
    if len(form.terms) < 2:
        return None
    for g in sorted({abs(k) for k in form.terms.values() if abs(k) > 1}, reverse=True):
        fine = Linear(form.const, {t: k for t, k in form.terms.items() if k % g})
        if not fine.terms:
            continue
        low, high = known.bounds(fine)
        if low is not None and high is not None and low // g == high // g:
            return Linear(low // g, {t: k // g for t, k in form.terms.items() if k % g == 0})
    return None


def _digits(s: Simplifier, known: Normalizer, kind: Op, form: Linear, like: Cond) -> Iterator[Candidate]:
    """`g*h + s == 0` as `(h + q == 0) & (s == g*q)`, where s is a multiple of g for that q alone."""
    for g in sorted({abs(k) for k in form.terms.values() if abs(k) > 1}, reverse=True):
        fine = Linear(form.const, {t: k for t, k in form.terms.items() if k % g})
        if not 0 < len(fine.terms) < len(form.terms):
            continue
        low, high = known.bounds(fine)
        if low is None or high is None or -(-low // g) != high // g:
            continue
        q = high // g
        coarse = TermSum(q, {t: k // g for t, k in form.ordered() if k % g == 0})
        parts = (_equation(kind, coarse, like), _equation(kind, sum_of_form(fine.shift(-g * q)), like))
        yield "digit by digit", make(ops.AND if kind is ops.EQ else ops.OR, parts)


def _congruence(node: Cond) -> Iterator[Candidate]:
    """`(k*x + y + a) % c == b` with nothing added, and the first coefficient 1 where it has an inverse."""
    e, right = node.args
    if e.op is not ops.FLOORMOD or right.op is not ops.CONST or e.args[1].op is not ops.CONST:
        return
    c, r = e.args[1].data, right.data
    op = node.op
    if c == 2 and op in (ops.LT, ops.LE, ops.GT, ops.GE):  # one of two values
        low, high = (folded(op, (const(k), right)) for k in (0, 1))
        if low is high:
            return
        op, r = ops.EQ, 1 if high.data else 0
    if op not in (ops.EQ, ops.NE) or c < 2 or not 0 <= r < c:
        return
    total = sums.read(e.args[0])
    for unit in dict.fromkeys((1, *(k for k in total.terms.values() if gcd(k, c) == 1))):
        inverse = pow(unit, -1, c)
        terms = {t: nearest(k * inverse, c) for t, k in total.terms.items()}
        remainder = make(ops.FLOORMOD, (sums.write(sums.of(0, {t: k for t, k in terms.items() if k})), e.args[1]))
        yield "congruence", make(op, (remainder, const((r - total.const) * inverse % c)))


def _at_an_end(s: Simplifier, kind: Op, form: Linear, order: OrderDecider) -> Iterator[Candidate]:
    """`form == 0` as `form <= 0` where form is nowhere below 0, and the other way round; `!=` and `>` likewise."""
    bounds: list[tuple[Op, Linear]] = []
    if kind is ops.GE:
        if order.is_nonneg(form.scale(-1)):
            bounds.append((ops.EQ, form))
        elif order.is_nonneg(form.shift(1)):
            bounds.append((ops.NE, form.shift(1)))
    elif order.is_nonneg(form):
        bounds.append((ops.GE, form.scale(-1) if kind is ops.EQ else form.shift(-1)))
    elif order.is_nonneg(form.scale(-1)):
        bounds.append((ops.GE, form if kind is ops.EQ else form.scale(-1).shift(-1)))
    for other, bound in bounds:
        for one in _readings(order.known, bound):
            yield "end of what it may be", stated(s, ops.LE if other is ops.GE else other, other, sum_of_form(one))


def _without_factor(kind: Op, form: Linear, order: OrderDecider) -> Iterator[Linear]:
    """The form against 0 without a factor that is nowhere 0, divided by its sign: f*r >= 1 where r >= 1, f > 0."""
    strict = 1 if kind is ops.GE and form.const == -1 else 0
    for factor, rest in order.factored(form.shift(strict)):
        if order.known.is_positive(atom(factor)):
            yield rest.shift(-strict)
        elif order.known.is_positive(atom(factor).scale(-1)):
            yield rest.scale(-1).shift(-strict)


def _without_quotient(known: Normalizer, form: Linear) -> Iterator[Linear]:
    """`x//c + r >= 0` as `x + c*r >= 0`; `r - x//c >= 0` as `c*r + c - 1 - x >= 0`; c > 0."""
    for term, k in form.terms.items():
        if abs(k) != 1 or term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST:
            continue
        c = term.args[1].data
        if c < 1:
            continue
        rest = Linear(form.const, {t: w for t, w in form.terms.items() if t is not term})
        inner = known.form(term.args[0])
        if k > 0:
            yield inner.plus(rest, c)
        else:
            yield rest.scale(c).shift(c - 1).minus(inner)


# -- choices --------------------------------------------------------------------------------------------------------


def _choices(s: Simplifier, node: Cond, known: Normalizer) -> Iterator[Candidate]:
    """Resolve a choice on one side of a comparison by the operands whose comparison is decided."""
    for side in (0, 1):
        choice, other = node.args[side], node.args[1 - side]
        if choice.op is ops.MIN or choice.op is ops.MAX:
            if node.op not in _OTHER_STRICTNESS:
                continue
            parts = [_with(node, side, arg, other) for arg in choice.args]
            order = s.order(known)
            for k in (0, 1):
                verdict = order.decided(parts[k])
                if verdict is None:
                    continue
                is_least = (node.op in _UPWARD) is (side == 1)  # the choice is on the smaller side
                either = (choice.op is ops.MIN) is is_least
                if verdict is not either:
                    yield f"bounded side of {choice.op.name}", parts[1 - k]
        elif choice.op is ops.SELECT:
            yield from _by_branches(s, node, side, choice, other, known)


def _with(node: Cond, side: int, arg: Expr, other: Expr) -> Cond:
    return as_cond(make(node.op, (arg, other) if side == 0 else (other, arg)))


def _by_branches(
    s: Simplifier, node: Cond, side: int, choice: Expr, other: Expr, known: Normalizer
) -> Iterator[Candidate]:
    """`select(p, x, y) < z`, where p decides `x < z` or the negation of p decides `y < z`."""
    p = choice.args[0]
    parts = [_with(node, side, arm, other) for arm in choice.args[1:]]
    yes, no = (
        s.order(reader).decided(part) for reader, part in zip(choices.readers(known, choice), parts, strict=True)
    )
    rule = "a branch decides"
    if yes is not None and yes is no:
        yield rule, truth(yes)
        return
    if yes is True:
        yield rule, p if no is False else make(ops.OR, (p, parts[1]))
    elif yes is False:
        yield rule, make(ops.NOT, (p,)) if no is True else make(ops.AND, (make(ops.NOT, (p,)), parts[1]))
    elif no is True:
        yield rule, make(ops.OR, (make(ops.NOT, (p,)), parts[0]))
    elif no is False:
        yield rule, make(ops.AND, (p, parts[0]))


def joined(op: Op, parts: Sequence[Cond]) -> Cond:
    """The junction of the parts from left to right, without truth values and repetitions."""
    absorbing = op is ops.OR
    kept: dict[Cond, None] = {}
    for part in parts:
        if part.op is ops.BOOL:
            if part.data is not absorbing:
                continue
            if not kept:
                return part
            kept[part] = None
            break
        if part.op is op:
            kept.update(dict.fromkeys(dag.chain(part.op, part)))
        else:
            kept[part] = None
    if any(part.op is ops.BOOL for part in kept):
        return truth(absorbing)
    return folded_chain(op, kept) if kept else truth(not absorbing)


def condition_candidates(s: Simplifier, node: Cond, known: Normalizer, level: int) -> Iterator[tuple[str, Cond]]:
    """Rewrites of a condition."""
    if node.op in ops.COMPARISONS:
        for rule, candidate in comparison_candidates(s, node, known):
            yield rule, s.trial(candidate, node, known, (NESTED_GROWTH if s.is_nested else GROWTH).get(rule))
        if node.args[0].op is ops.CONST:
            return
    elif node.op is ops.NOT:
        yield "negation", s.trial(negated(node.args[0]), node, known)
    elif node.op is ops.AND or node.op is ops.OR:
        yield from _junction(s, node, known, level)


def negated(cond: Cond) -> Cond:
    """The negation in negation normal form, if that adds no operation; else `~cond`."""
    if cond.op is ops.BOOL:
        return truth(not cond.data)
    if cond.op in ops.NEGATED:
        return as_cond(make(ops.NEGATED[cond.op], cond.args))
    if cond.op is ops.NOT:
        return as_cond(cond.args[0])
    if cond.op is ops.AND or cond.op is ops.OR:
        parts = dag.chain(cond.op, cond)
        flips = sum(1 if part.op in ops.NEGATED or part.op is ops.NOT else -1 for part in parts)
        if flips >= -1:
            other = ops.OR if cond.op is ops.AND else ops.AND
            return joined(other, [negated(part) for part in parts])
    return ~cond


# -- junctions --------------------------------------------------------------------------------------------------------


def _junction(s: Simplifier, node: Cond, known: Normalizer, level: int) -> Iterator[tuple[str, Cond]]:
    parts = dag.chain(node.op, node)
    op = node.op
    if len(parts) > JUNCTION_PARTS:
        yield "parts once", joined(op, parts)
        return
    yield "parts once", joined(op, parts)
    total = [is_total(part) for part in parts]
    yield from _by_order(s, op, parts, total, known)
    is_narrow = known.depth < NESTED_NARROWING and dag.is_small(NARROWED_NODES, (node,))
    scopes = list(_scopes(op, parts, total, known)) if is_narrow else []
    yield from _decided_by_others(s, op, parts, scopes, known)
    yield from _merged(s, op, parts, total, known)
    if all(total):
        yield from _few_values(node, known)
    yield from _shorter_under_others(s, op, parts, scopes, known)


def _few_values(node: Cond, known: Normalizer) -> Iterator[tuple[str, Cond]]:
    """A junction over one variable as an equation (or inequation), or a truth value, by enumerating its values."""
    variables = dag.free_vars(node)
    if len(variables) != 1 or any(e.op is ops.LOAD for e in dag.postorder((node,))):
        return
    (var,) = variables
    inside = node.op is ops.AND
    low, high = known.narrowed(node if inside else negated(node)).atom_bounds(var)
    if low is None or high is None or not 0 <= high - low < ENUMERATED_VALUES:
        return
    hits = [v for v in range(low, high + 1) if evaluate(node, {var: v}) is inside]
    if not hits:
        yield "no value is left", truth(not inside)
    elif len(hits) == 1:
        only: Cond = make(ops.EQ if inside else ops.NE, (var, const(hits[0])))
        yield "one value is left", only


def _by_order(
    s: Simplifier, op: Op, parts: list[Cond], total: list[bool], known: Normalizer
) -> Iterator[tuple[str, Cond]]:
    """Drop inequalities implied by sums of others; detect contradictions and cycles that force equality.

    Disjunctions are treated through the negated clauses.
    """
    order = s.order(known)
    neutral = op is ops.AND
    clauses = [clause_of(known, part) for part in parts]
    if not neutral:
        clauses = [None if clause is None else _negated_clause(clause) for clause in clauses]
    if sum(clause is not None for clause in clauses) < 2:
        return
    inequalities = implied_inequalities(clauses)
    for form, places in inequalities:
        if len(places) > 1 and order.is_nonneg(form.scale(-1).shift(-1)):
            yield "parts exclude one another" if neutral else "parts complete one another", truth(not neutral)
            return
    for j, clause in enumerate(clauses):
        if clause is None or clause[0] is not ops.GE:
            continue
        for form, places in inequalities:
            last = max(places)
            stays = _may_go(total, j, last)
            if j in places or not (stays or total[last] and len(places) == 1):
                continue
            if order.is_nonneg(clause[1].minus(form)):
                new = list(parts)
                if not stays:
                    new[j] = parts[last]  # in its place, for what stands between
                yield (
                    "implied by others",
                    joined(op, [part for k, part in enumerate(new) if k != (j if stays else last)]),
                )
                return
    for form, places in inequalities:
        if len(places) > 2 and not form.terms and not form.const and all(total[k] for k in places):
            tight = dict.fromkeys(places)
            *kept, last = sorted(tight)
            new = list(parts)
            for k in kept:
                new[k] = _tight(s, op, clauses[k], parts[k])
            yield "no slack in a circle", joined(op, [part for k, part in enumerate(new) if k != last])
            return


def _tight(s: Simplifier, op: Op, clause: Clause | None, part: Cond) -> Cond:
    """Tighten an inequality to the equation form == 0; in a disjunction to form != 0."""
    assert clause is not None
    kind = ops.EQ if op is ops.AND else ops.NE
    return stated(s, part.op, kind, sum_of_form(clause[1]), part)


def _may_go(total: list[bool], k: int, last: int) -> bool:
    """Whether part k may be dropped if parts up to `last` imply it: the parts between must be total.

    Without part k, evaluation reaches those parts at points where it used to stop.
    """
    return all(total[k + 1 : last + 1])


_Scope = tuple[int, Normalizer, list[Cond], bool]  # part, its scope, informing parts before it, whether some come later


def _assumed(op: Op, parts: list[Cond], known: Normalizer) -> Normalizer:
    return known.narrowed(joined(ops.AND, parts if op is ops.AND else [negated(part) for part in parts]))


def _scopes(op: Op, parts: list[Cond], total: list[bool], known: Normalizer) -> Iterator[_Scope]:
    """The scope of each part that the others restrict, from the last part to the first."""
    for k in reversed(range(len(parts))):
        before, later = parts[:k], [part for n, part in enumerate(parts) if n > k and _may_go(total, k, n)]
        if not (before or later) or _says_nothing([*before, *later], parts[k], op is ops.AND, known):
            continue
        inner = _assumed(op, [*before, *later], known)
        if inner.empty or inner.ranges != known.ranges or inner.assumptions != known.assumptions:
            yield k, inner, before, bool(later)


def _decided_by_others(
    s: Simplifier, op: Op, parts: list[Cond], scopes: list[_Scope], known: Normalizer
) -> Iterator[Candidate]:
    """Drop a part that the others imply; detect contradictory parts. `_by_order` has added up their inequalities."""
    neutral = op is ops.AND
    for k, inner, _, _ in scopes:
        is_narrower = any(inner.atom_bounds(var) != known.atom_bounds(var) for var in parts[k].free_vars())
        is_told = is_narrower or inner.assumptions.multiples is not known.assumptions.multiples
        verdict = not neutral if inner.empty else s.order(inner).decided(parts[k]) if is_told else None
        if verdict is neutral:
            yield "implied by the others", joined(op, [*parts[:k], *parts[k + 1 :]])
        elif verdict is not None:
            yield "parts exclude one another" if neutral else "parts complete one another", truth(not neutral)


def _shorter_under_others(
    s: Simplifier, op: Op, parts: list[Cond], scopes: list[_Scope], known: Normalizer
) -> Iterator[Candidate]:
    """Shorten one part under the others."""
    for k, inner, before, is_late in scopes:
        new = s.run(parts[k], inner, 1)
        if is_late and not is_as_total(new, parts[k]):  # evaluation reaches it even if later parts fail
            new = s.run(parts[k], _assumed(op, before, known), 1) if before else parts[k]
        if new is not parts[k] and s.is_better(s.price(new), s.price(parts[k])):
            yield "shorter under the others", joined(op, [*parts[:k], new, *parts[k + 1 :]])


def _says_nothing(others: list[Cond], part: Cond, neutral: bool, known: Normalizer) -> bool:
    """Whether the others tell nothing about a part.

    They do not where fixed values of the variables that the part lacks make all others true (in a disjunction, false).
    """
    if not known.is_box or known.assumptions.limits or known.assumptions.multiples is not None:
        return False
    own, pinned = part.free_vars(), dict[Expr, int]()
    for other in others:
        clause = clause_of(known, other)
        if clause is not None and not neutral:
            clause = _negated_clause(clause)
        if clause is None or clause[0] is not ops.GE:
            return False
        least, inside = clause[1].const, {}
        for term, k in clause[1].terms.items():
            end = known.atom_bounds(term)[k > 0] if term.op is ops.VAR and term not in own else None
            if end is None:
                inside[term] = k
            elif pinned.setdefault(term, end) != end:
                return False
            else:
                least += k * end
        low = known.bounds(Linear(least, inside))[0]
        if low is None or low < 0:
            return False
    return True


def _merged(
    s: Simplifier, op: Op, parts: list[Cond], total: list[bool], known: Normalizer
) -> Iterator[tuple[str, Cond]]:
    """Merge two parts of a junction into one condition."""
    for j in range(1, len(parts)):
        for i in range(j):
            if j > i + 1 and not total[j]:
                continue  # what stands between may guard it
            left = [part for k, part in enumerate(parts) if k not in (i, j)]
            pair = make(op, (parts[i], parts[j]))
            merged = _one_comparison(s, op, parts[i], parts[j], known)
            if merged is not None:
                yield "two comparisons in one", joined(op, [*left[:i], merged, *left[i:]])
            merged = _one_congruence(op, parts[i], parts[j])
            if merged is not None:
                yield "two remainders in one", joined(op, [*left[:i], merged, *left[i:]])
            for p, q in ((parts[i], parts[j]), (parts[j], parts[i])):
                merged = _same_digits(op, p, q)
                if merged is not None:
                    yield "same quotient and remainder", joined(op, [*left[:i], merged, *left[i:]])
            if len(parts) > 2:
                for rule, result, binding in ALL.matches(pair):
                    if s.applies(rule, binding, known):
                        replacement = instance(result, binding)
                        if replacement is not None:
                            yield rule.name, joined(op, [*left[:i], replacement, *left[i:]])


def _one_comparison(s: Simplifier, op: Op, p: Cond, q: Cond, known: Normalizer) -> Cond | None:
    a, b = clause_of(known, p), clause_of(known, q)
    if a is None or b is None:
        return None
    if op is ops.OR:
        a, b = _negated_clause(a), _negated_clause(b)
    a, b = sharpened(known, *a), sharpened(known, *b)
    both = _both(a, b) or _both(b, a)
    if both is None:
        return None
    if op is ops.OR:
        both = _negated_clause(both)
    like = p if p.op in (ops.LT, ops.LE, ops.GT, ops.GE) else q
    return stated(s, like.op, both[0], sum_of_form(known.regroup(both[1])), p)


def _one_congruence(op: Op, p: Cond, q: Cond) -> Cond | None:
    """Merge two congruences of one expression by the Chinese remainder theorem; a contradiction gives a truth value."""
    kind = ops.EQ if op is ops.AND else ops.NE
    halves = _halves(p, q, ops.NE if op is ops.AND else ops.EQ)
    if halves is not None:
        return halves
    a, b = _congruence_of(kind, p), _congruence_of(kind, q)
    if a is None or b is None or a[0] is not b[0]:
        return None
    e, m, r = a
    _, n, t = b
    both = chinese(m, r, n, t)
    if both is None:
        return truth(op is ops.OR)
    congruence: Cond = make(kind, (make(ops.FLOORMOD, (e, const(both[0]))), const(both[1])))
    return congruence


def _same_digits(op: Op, p: Cond, q: Cond) -> Cond | None:
    """`(x//c == y//c) & ((x - y) % c == 0)` as `x == y`; of a disjunction, with `!=`."""
    kind = ops.EQ if op is ops.AND else ops.NE
    remainder = _congruence_of(kind, q)
    if p.op is not kind or remainder is None or remainder[2] or any(arg.op is not ops.FLOORDIV for arg in p.args):
        return None
    (x, c), (y, d) = (arg.args for arg in p.args)
    if c is not d or c.op is not ops.CONST or c.data != remainder[1]:
        return None
    difference, dividend = sums.read(x).plus(sums.read(y), -1), sums.read(remainder[0])
    if all(difference.plus(dividend, sign).divided(c.data) is None for sign in (1, -1)):
        return None
    same: Cond = make(kind, (x, y))
    return same


def _halves(p: Cond, q: Cond, kind: Op) -> Cond | None:
    """Either of two remainders that are half a period apart is one of half the period; neither likewise."""
    a, b = _congruence_of(kind, p), _congruence_of(kind, q)
    if a is None or b is None or a[:2] != b[:2] or 2 * abs(a[2] - b[2]) != a[1]:
        return None
    half: Cond = make(kind, (make(ops.FLOORMOD, (a[0], const(a[1] // 2))), const(min(a[2], b[2]))))
    return half


def _congruence_of(kind: Op, cond: Cond) -> tuple[Expr, int, int] | None:
    """(e, m, r) for `e % m` compared with r by `kind`."""
    if cond.op is not kind or cond.args[1].op is not ops.CONST or cond.args[0].op is not ops.FLOORMOD:
        return None
    e, divisor = cond.args[0].args
    if divisor.op is not ops.CONST or not 0 <= cond.args[1].data < divisor.data:
        return None
    return e, divisor.data, cond.args[1].data


def _negated_clause(clause: Clause) -> Clause:
    kind, form = clause
    if kind is ops.GE:
        return (ops.GE, form.scale(-1).shift(-1))
    return (ops.NE if kind is ops.EQ else ops.EQ, form)


def _both(a: Clause, b: Clause) -> Clause | None:
    """A single clause equivalent to `a` and `b`, or None."""
    if a[0] is not ops.GE:
        return None
    f, g = a[1], b[1]
    if b[0] is ops.GE and f.same(g.scale(-1)):
        return (ops.EQ, f)
    if b[0] is ops.NE and (f.same(g) or f.same(g.scale(-1))):
        return (ops.GE, f.shift(-1))
    return None


# -- sums of inequalities ----------------------------------------------------------------------------------------------


class ImpliedInequality(NamedTuple):
    """An inequality `form >= 0` implied by the clauses with the indices `places`."""

    form: Linear
    places: frozenset[int]


def implied_inequalities(clauses: Sequence[Clause | None]) -> list[ImpliedInequality]:
    """Inequalities of the clauses, plus sums of up to `ADDED_INEQUALITIES` inequalities with cancelling terms.

    (x < y) & (y < z) & (x < z) = (x < y) & (y < z)          (x < y) & (y < z) & (z < x) = False
    (x <= y) & (y <= z) & (z <= x) = (x == y) & (y == z)
    """
    single: list[ImpliedInequality] = []
    for index, clause in enumerate(clauses):
        if clause is not None and clause[0] is not ops.NE:
            single.append(ImpliedInequality(clause[1], frozenset((index,))))
            if clause[0] is ops.EQ:
                single.append(ImpliedInequality(clause[1].scale(-1), frozenset((index,))))
    implied = list(single)
    seen = {(one.form.key(), one.places) for one in implied}
    for a in implied:  # grows while it is walked
        if len(a.places) >= ADDED_INEQUALITIES:
            continue
        for b in single:
            if b.places <= a.places:
                continue
            form = a.form.plus(b.form)
            if len(form.terms) > max(len(a.form.terms), len(b.form.terms)) or not _cancels(a.form, b.form):
                continue
            one = ImpliedInequality(form, a.places | b.places)
            if (form.key(), one.places) not in seen:
                seen.add((form.key(), one.places))
                implied.append(one)
                if len(implied) >= SUMMED_INEQUALITIES:
                    return implied
    return implied


def _cancels(a: Linear, b: Linear) -> bool:
    return any(b.terms.get(t) == -k for t, k in a.terms.items())
