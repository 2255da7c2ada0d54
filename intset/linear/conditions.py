"""Conditions in canonical form: comparisons of a linear form against 0, decided where its bounds decide them.

A comparison has two representations. A `Clause` `(kind, form)` denotes `form >= 0`, `== 0` or `!= 0`; facts are
processed as clauses. The canonical condition is an expression with positive terms on the left and negative terms on the
right, built on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from intset.expr import ops
from intset.expr.node import Cond, Node, make, truth
from intset.expr.walk import conjuncts
from intset.linear.form import Linear, accumulate, reads_positive

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

Clause = tuple[ops.Op, Linear]  # (GE or EQ or NE, form against 0)


def clauses(known: Normalizer, cond: Cond) -> tuple[Clause | Cond, ...]:
    """The undecided conjuncts of `cond`: comparisons as clauses, others as canonical conditions.

    A condition proved true has no conjuncts left; a condition proved false has the conjunct `truth(False)`.
    """
    if cond.op in DIFFERENCES:
        verdict = _judged_comparison(known, cond)
        return () if verdict is True else (truth(False),) if verdict is False else (verdict,)
    parts = list(conjuncts(known.cond(cond)))
    return tuple([known.compared.get(part, part) for part in parts if part.op is not ops.BOOL or not part.data])


def judged(known: Normalizer, kind: ops.Op, form: Linear) -> Clause | bool:
    """The clause `form >= 0`, `== 0` or `!= 0` in lowest terms, or its truth value."""
    if not form.terms:
        return form.const >= 0 if kind is ops.GE else (form.const == 0) is (kind is ops.EQ)
    g = form.content()
    if kind is ops.GE:
        if g > 1:
            form = Linear(form.const // g, {t: k // g for t, k in form.terms.items()})
        low, high = known.bounds(form)
        if low is not None and low >= 0:
            return True
        return False if high is not None and high < 0 else (kind, form)
    low, high = known.bounds(form)
    if low is not None and low > 0 or high is not None and high < 0 or (g and form.const % g):
        return kind is ops.NE
    if low == 0 and high == 0:
        return kind is ops.EQ
    if g > 1:
        form = form.divided(g)
    return (kind, form if form.ordered()[0][1] > 0 else form.scale(-1))


def compare(known: Normalizer, kind: ops.Op, form: Linear) -> Cond:
    """The canonical condition `form >= 0`, `== 0` or `!= 0`."""
    return _stated(known, judged(known, kind, form))


def _stated(known: Normalizer, verdict: Clause | bool) -> Cond:
    if isinstance(verdict, bool):
        return truth(verdict)
    kind, form = verdict
    positive = Linear(max(form.const, 0), {t: k for t, k in form.terms.items() if k > 0 or reads_positive(t, k)})
    negative = Linear(max(-form.const, 0), {t: -k for t, k in form.terms.items() if k < 0 and not reads_positive(t, k)})
    cond: Cond = make(kind, (positive.expr(), negative.expr()))
    known.compared[cond] = verdict
    known.conds[cond] = cond
    return cond


# -- rules: one for each operation ------------------------------------------------------------------------------

# a <op> b is `kind` of (b - a where swapped, else a - b) + offset against 0
DIFFERENCES: dict[ops.Op, tuple[ops.Op, bool, int]] = {
    ops.GE: (ops.GE, False, 0),
    ops.LE: (ops.GE, True, 0),
    ops.GT: (ops.GE, False, -1),
    ops.LT: (ops.GE, True, -1),
    ops.EQ: (ops.EQ, False, 0),
    ops.NE: (ops.NE, False, 0),
}


def is_chain(cond: Cond, junction: ops.Op) -> bool:
    """Whether `cond` consists of comparisons joined by `junction` alone."""
    stack = [cond]
    while stack:
        part = stack.pop()
        if part.op is junction:
            stack.extend(part.args)
        elif part.op not in DIFFERENCES:
            return False
    return True


def _judged_comparison(known: Normalizer, node: Node) -> Clause | bool:
    kind, swapped, offset = DIFFERENCES[node.op]
    a, b = known.form(node.args[0]), known.form(node.args[1])
    if swapped:
        a, b = b, a
    terms = a.terms
    if b.terms:
        terms = dict(terms)
        accumulate(terms, b, -1)
    return judged(known, kind, Linear(a.const - b.const + offset, terms))


def _comparison(known: Normalizer, node: Node) -> Cond:
    return _stated(known, _judged_comparison(known, node))


def _junction(known: Normalizer, node: Node) -> Cond:
    absorbing = node.op is ops.OR
    a, b = (known.conds[arg] for arg in node.args)
    for x, y in ((a, b), (b, a)):
        if x.op is ops.BOOL:
            return x if x.data is absorbing else y
    return a if a is b else make(node.op, (a, b))


def _negation(known: Normalizer, node: Node) -> Cond:
    """The canonical negation, pushed down to the comparisons."""
    root = known.conds[node.args[0]]
    done: dict[Node, Cond] = {}
    for below in _junctions_below(root):
        if below.op is ops.BOOL:
            done[below] = truth(not below.data)
        elif below.op is ops.AND or below.op is ops.OR:
            flipped = ops.OR if below.op is ops.AND else ops.AND
            done[below] = make(flipped, (done[below.args[0]], done[below.args[1]]))
        else:
            kind, form = known.compared[below]
            if kind is ops.GE:  # not (f >= 0)  is  -f - 1 >= 0
                done[below] = compare(known, ops.GE, form.scale(-1).shift(-1))
            else:
                done[below] = compare(known, ops.NE if kind is ops.EQ else ops.EQ, form)
    return done[root]


def _junctions_below(root: Cond) -> Iterator[Any]:
    stack: list[tuple[Any, bool]] = [(root, False)]
    seen: set[Node] = set()
    while stack:
        node, left = stack.pop()
        if left:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node.op is ops.AND or node.op is ops.OR:
                stack.extend((arg, False) for arg in node.args)


RULES: dict[ops.Op, Callable[[Normalizer, Node], Cond]] = {
    **dict.fromkeys(DIFFERENCES, _comparison),
    ops.AND: _junction,
    ops.OR: _junction,
    ops.NOT: _negation,
}
