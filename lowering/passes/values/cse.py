"""Common subexpression elimination of indices: names for expressions, and their inverse.

    for i.inner in [0, 32):                                  for i.inner in [0, 32):
        for k in [0, 16):                              ->        i = i.outer * 32 + i.inner
            C[i.outer * 32 + i.inner] = ...                      for k in [0, 16):
                                                                     C[i] = ...

A name stands in the body of the innermost loop that its expression mentions, so that inner loops reuse it.
`profitability.py` counts the operations that a name saves; `labels.py` chooses the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.node import Expr, Var, constant_value
from intset.expr.walk import is_small, opaque_terms, postorder
from lowering.nest.driver import Descent, StmtRules, each_operand, rewritten
from lowering.nest.ir import Allocate, Assume, For, Function, If, Let, Seq, Stmt, flat, is_empty, seq
from lowering.nest.walk import (
    Old,
    OnOperand,
    children,
    map_operands,
    operands,
    range_ends,
    rebuilt,
    replaced,
    statements,
    transform,
    with_children,
)
from lowering.passes.profitability import Counts, Uses
from lowering.passes.values.labels import Labels, label
from lowering.passes.values.reassociation import Order, regrouped

FEWEST: Final = 2  # operations of what gets a name; a division counts twice
_NOT_MOVED: Final = (ops.LOAD, ops.CAST, ops.ASSERTING)


def name_values(f: Function) -> Function:
    """Name index expressions that would be computed more often than they change.

    Guarantee: equal values, and fewer operations if each branch is taken half of the time. Only total expressions get
    names, so a name may precede unreached uses. Ranges of loops keep their expressions, which carry facts. Sums are
    ordered from the outermost loop to the innermost, so that invariant parts become common subexpressions.
    """
    around = _Bound({}, frozenset(v.name for v in f.sizes))
    rules: StmtRules[_Bound] = {Stmt: (_order_sums,), For: (_Values(f).name_in_body,)}
    return f.with_body(rewritten(f.body, around, leave=rules))


class _Bound(Descent):
    """The variables in sight with the depths of their loops, and the reserved names."""

    __slots__ = ("order", "taken")

    def __init__(self, order: Order, taken: frozenset[str]) -> None:
        self.order, self.taken = order, taken

    def binding(self, *variables: Parameter) -> _Bound:
        order = {**self.order, **dict.fromkeys(variables, len(self.order))}
        return _Bound(order, self.taken.union(map(label, variables)))

    def inside(self, loop: For) -> _Bound:
        return self.binding(*own_variables(loop))

    def after(self, old: Stmt, new: Stmt) -> _Bound:
        return self.binding(old.var) if isinstance(old, Let) else self


def own_variables(loop: For) -> tuple[Var, ...]:
    """The variables that change from one iteration of a loop to the next."""
    return (loop.var, *(c.var for c in loop.carried))


def _order_sums(stmt: Stmt, around: _Bound) -> Stmt:
    return _changed(stmt, lambda e: regrouped(e, around.order))


class _Values:
    def __init__(self, f: Function) -> None:
        self.params = frozenset(f.params)
        self.counts = Counts()

    def name_in_body(self, loop: For, around: _Bound) -> For:
        """Name expressions of a loop variable, in the body of its loop."""
        inside = around.inside(loop)
        return replace(loop, body=self.named(loop.body, own_variables(loop), inside.order, inside.taken))

    def named(self, body: Stmt, own: Sequence[Var], order: Order, taken: frozenset[str]) -> Stmt:
        """The body of a loop over `own` with names for what this loop decides."""
        stmts = _with_known(flat(body))
        uses = Uses(self.counts, stmts)
        deeper = {v for stmt in stmts for v in _bound_in(stmt)}
        here = {*own, *(stmt.var for stmt in stmts if isinstance(stmt, Let))}
        known = {stmt.value for stmt in stmts if isinstance(stmt, Let)}
        candidates = [e for e in uses.of if e not in known and self.may_be_named(e, here, deeper)]
        if not candidates:
            return seq(*stmts)
        labels = Labels(stmts, self.params, order, {*taken, *map(label, (*deeper, *here))})
        names: dict[Expr, Var] = {}
        for e in sorted(candidates, key=self.counts.work, reverse=True):
            if uses.of[e] > 1:
                names[e] = Var(labels.of(e))
                uses.name(e)
        return _with_lets(stmts, names, names) if names else seq(*stmts)

    def may_be_named(self, e: Expr, here: set[Parameter], deeper: set[Parameter]) -> bool:
        free = e.free_vars()
        if not any(v in here for v in free) or any(v in deeper for v in free):
            return False
        if e.op in (ops.ADD, ops.SUB) and constant_value(e.args[1]) is not None:
            return False  # its other part serves as well
        if self.counts.work_inside(e, here, FEWEST) < FEWEST:
            return False
        return not any(node.op in _NOT_MOVED for node in postorder((e,))) and not definedness((e,))


def _with_known(stmts: Sequence[Stmt]) -> list[Stmt]:
    """Reuse names that the statements define already."""
    new: list[Stmt] = []
    known: dict[Operand, Operand] = {}
    for stmt in stmts:
        new.append(_rewritten(stmt, known) if known else stmt)
        if isinstance(stmt, Let) and isinstance(stmt.value, Expr) and stmt.value.args and not opaque_terms(stmt.value):
            known[stmt.value] = stmt.var
    return new


def _with_lets(stmts: Sequence[Stmt], names: Mapping[Expr, Var], wanted: Collection[Expr]) -> Stmt:
    """Define the `wanted` names, each in front of the first statement that uses it.

    A name that only one branch uses is defined in that branch.
    """
    found = [dict.fromkeys(e for e in _named_in(stmt, names) if e in wanted) for stmt in stmts]
    times = Counter(e for used in found for e in used)
    new: list[Stmt] = []
    done: set[Expr] = set()
    for stmt, used in zip(stmts, found, strict=True):
        inside: dict[Expr, None] = {}
        if isinstance(stmt, If):
            then, orelse = (set(_named_in(part, names)) for part in (stmt.then, stmt.orelse or Seq()))
            tested = {node for node in walk.nodes(stmt.cond) if node in names}
            inside = {e: None for e in used if times[e] == 1 and e not in tested and (e in then) != (e in orelse)}
        for e in used:
            if e not in inside and e not in done:
                done.add(e)
                new.append(Let(names[e], walk.rewrite(e, {o: var for o, var in names.items() if o is not e})))
        if isinstance(stmt, If) and inside:
            parts = [_with_lets(flat(part), names, inside) for part in children(stmt)]
            stmt = with_children(map_operands(stmt, lambda e: walk.rewrite(e, names)), tuple(parts))
        else:
            stmt = _rewritten(stmt, names)
        new.append(stmt)
    return seq(*new)


def _named_in(root: Stmt, names: Mapping[Expr, Var]) -> Iterator[Expr]:
    """The named expressions in a statement, subexpressions first."""
    for stmt in statements(root):
        for operand in _shown(stmt):
            for e in postorder((operand,)):
                if isinstance(e, Expr) and e in names:
                    yield e


def _rewritten(root: Stmt, names: Mapping[Old, Operand]) -> Stmt:
    return rebuilt(root, lambda stmt: _changed(stmt, lambda e: walk.rewrite(e, names)))


def _shown(stmt: Stmt) -> tuple[Operand, ...]:
    """The operands of a statement that may use names."""
    if isinstance(stmt, Allocate):
        return stmt.origin or ()
    return () if isinstance(stmt, (For, Assume)) else operands(stmt)


def _changed(stmt: Stmt, change: OnOperand) -> Stmt:
    """Apply a change to each operand that may use names."""
    if isinstance(stmt, Allocate):
        return stmt if stmt.origin is None else replace(stmt, origin=tuple(map(change, stmt.origin)))
    return stmt if isinstance(stmt, (For, Assume)) else map_operands(stmt, change)


def _bound_in(stmt: Stmt) -> set[Parameter]:
    """The variables bound inside a statement; a `Let` itself binds in its surroundings."""
    found: set[Parameter] = set()
    for inner in statements(stmt) if not isinstance(stmt, Let) else ():
        if isinstance(inner, For):
            found |= {inner.var, *(c.var for c in inner.carried)}
        elif isinstance(inner, Let):
            found.add(inner.var)
    return found


MAX_NODES: Final = 9  # expressions of more nodes, and selects, get a name
_RING: Final = (ops.VAR, ops.CONST, ops.NEG, ops.ADD, ops.SUB, ops.MUL)


def name_minima(f: Function) -> Function:
    """Name long minima of allocations, at the head of the enclosing sequence.

    Loops and indices after the name use it, too.

    Guarantee: equal values.
    """
    return f.with_body(rewritten(f.body, Descent(), leave={Seq: (_name_long_minima,)}))


def _name_long_minima(block: Stmt, _: Descent) -> Stmt:
    """A sequence with a name for each long minimum of its allocations; the names stand first."""
    assert isinstance(block, Seq)
    lets: list[Stmt] = []
    names: dict[Expr, Var] = {}
    for inner in block.stmts:
        if isinstance(inner, Allocate):
            for k, r in enumerate(inner.ranges):
                low = range_ends(r)[0]
                if low not in names and _is_long(low):
                    var = Var(f"{inner.tensor.name}.min{k}")
                    lets.append(Let(var, walk.rewrite(low, dict(names))))
                    names[low] = var
    return seq(*lets, transform(block, lambda e: walk.rewrite(e, dict(names)))) if names else block


def _is_long(e: Expr) -> bool:
    nodes = list(postorder((e,)))
    if all(node.op in _RING for node in nodes):
        return False  # a polynomial cancels against the indices, its name would not
    return len(nodes) > MAX_NODES or any(node.op is ops.SELECT for node in nodes)


MOST: Final = 9  # the largest inlined expression, in nodes


def inline_values(f: Function, most: int = MOST) -> Function:
    """Replace names of integer expressions of at most `most` nodes by the expressions; the inverse of `name_values`.

    Splitting and C compilers look at the form of indices, and find invariant parts by themselves. Names of selects, of
    long expressions and of loads stay.

    Guarantee: equal values.
    """
    return f.with_body(with_inlined_names(f.body, lambda value: _is_short(value, most)))


def with_inlined_names(root: Stmt, is_inlined: Callable[[Operand], bool]) -> Stmt:
    """A nest without the names of integer variables whose values, names inlined, satisfy a condition."""
    enter = {Stmt: (each_operand(_use_values),), Let: (_drop_inlined_name,)}
    return rewritten(root, _Inlining({}, is_inlined), enter)


def _is_short(value: Operand, most: int) -> bool:
    if not isinstance(value, Expr) or not is_small(most, (value,)) or opaque_terms(value):
        return False
    return not definedness((value,)) and not any(node.op is ops.SELECT for node in postorder((value,)))


class _Inlining(Descent):
    """The inlined values of the names in sight.

    Invariant: values hold no name that is inlined.
    """

    __slots__ = ("is_inlined", "known")

    def __init__(self, known: dict[Parameter, Operand], is_inlined: Callable[[Operand], bool]) -> None:
        self.known, self.is_inlined = known, is_inlined

    def after(self, old: Stmt, new: Stmt) -> _Inlining:
        if not isinstance(old, Let) or not is_empty(new):
            return self
        return _Inlining({**self.known, old.var: replaced(old.value, self.known)}, self.is_inlined)


def _drop_inlined_name(stmt: Let, names: _Inlining) -> Stmt:
    value = replaced(stmt.value, names.known)
    return Seq() if isinstance(stmt.var, Var) and names.is_inlined(value) else replace(stmt, value=value)


def _use_values(operand: Operand, names: _Inlining) -> Operand:
    return replaced(operand, names.known) if names.known else operand
