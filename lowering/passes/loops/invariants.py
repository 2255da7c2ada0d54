"""What a loop does not change moves in front of it: conditions (loop unswitching), names, divisions, selects.

    for j in [0, 4):                 if i < 2:
        if j < 3 and i < 2:   ->         for j in [0, 4):
            S                                if j < 3:
                                                 S

A condition with an `else` becomes two loops, one per branch. `decide_rows` does the same for selects:

    for x in [0, 16):                                        if y < 9:
        P[y, x] = select((y < 9) & (x < 9), A[y, x], 0)  ->      for x in [0, 16):
                                                                     P[y, x] = select(x < 9, A[y, x], 0)
                                                             else:
                                                                 for x in [0, 16):
                                                                     P[y, x] = 0

Divisions and selects in indices: compilers do not vectorize a loop with a select in its indices, and repeat divisions
that they cannot prove safe.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, TypeAlias, TypeGuard

from bound.tensor import Tensor
from bound.tir import build
from bound.tir.reduce import Parameter
from bound.tir.value import NUMBER, IntFunction, Operand, Truth
from bound.tir.walk import loaded_tensor, nodes, rewrite
from intset.config import Effort
from intset.errors import InputError
from intset.expr import Cond, Expr, Node, Var, arguments, as_expr, constant_value, dag, ops, shown
from intset.expr.build import logical_and, select
from intset.expr.definedness import definedness
from intset.expr.node import truth
from lowering.nest import driver, ir, walk
from lowering.nest.names import label_of, with_fresh_names
from lowering.nest.printer import Entry, PassReport
from lowering.nest.scope import Scope, parts_of_condition, proof_of, proves, written_in
from lowering.passes.definedness import why_not_total, with_decided_selects
from lowering.passes.estimates import difference
from lowering.passes.stores.reaching_values import check_assumptions

CONDITIONS: Final = ("if", "select", "boolean")
LETS: Final = ("required", "statement")
MAX_STATEMENTS: Final = 200  # in a loop that is written twice


def hoist_expression(
    f: ir.Function,
    conditions: Sequence[str] = CONDITIONS,
    lets: Sequence[str] = LETS,
    report: list[Entry] | None = None,
) -> ir.Function:
    """Unswitch loops: test loop-invariant conditions in front of them.

    Guarantee: the same stores in the same order; what moves is proved to have a value in front of the loop.

    Parameters
    ----------
    conditions: "if": conditions of branches; "select": conditions of selects; "boolean": also the loop-invariant parts
    of a
        conjunction without `else`.
    lets: "required": names that such a condition mentions move with it; "statement": all loop-invariant names move.
    report: receives one `Entry` per loop and condition.

    Raises
    ------
    InputError: an unknown word, or an assumption of the nest that is proved false.
    """
    ir.checked_function(f, "hoist_expression")
    for words, known, what in ((conditions, CONDITIONS, "conditions"), (lets, LETS, "lets")):
        if any(word not in known for word in arguments.listed(words, what, "a list of words")):
            raise InputError(f"{what} are some of {', '.join(known)}, not {shown(words)}")
    check_assumptions(f)
    rules = _Unswitching(f, frozenset(conditions), frozenset(lets))
    unswitched = driver.rewritten_function(f, leave={ir.For: (rules.unswitch,)})
    rules.decisions.give(report)
    return unswitched


_Unswitched: TypeAlias = "tuple[Truth, ir.Stmt, ir.Stmt | None, list[ir.Let]]"


class _Unswitching:
    """The rule of `hoist_expression`.

    Attributes
    ----------
    readable: the parameters whose elements may be read before any loop, each with its untouchable padding.
    """

    def __init__(self, f: ir.Function, conditions: frozenset[str], lets: frozenset[str]) -> None:
        self.conditions, self.lets, self.decisions = conditions, lets, PassReport(f)
        self.readable = {tensor: f.padding.get(tensor) for tensor in f.inputs}

    def unswitch(self, loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
        """Move names and conditions that a loop does not change before it, the outermost condition first."""
        moved: list[ir.Let] = []
        if "statement" in self.lets:
            moved, loop = self.names(loop, cursor)
        split = self.condition(loop, cursor)
        if split is None:
            return ir.seq(*moved, loop)
        cond, then, orelse, needed = split
        scope = reduce(Scope.after, (*moved, *needed), cursor.scope)
        if isinstance(then, ir.For):
            then = self.unswitch(then, cursor.moved(scope=scope.where(cond)))
        if isinstance(orelse, ir.For):
            orelse = self.unswitch(orelse, cursor.moved(scope=scope))
        return ir.seq(*moved, *needed, ir.If(cond, then, orelse))

    # -- names --------------------------------------------------------------------------------------------------

    def names(self, loop: ir.For, cursor: driver.Cursor) -> tuple[list[ir.Let], ir.For]:
        """Split a loop into its loop-invariant names and the loop without them."""
        stmts = ir.flat(loop.body)
        moved = self.movable(stmts, loop, cursor) if loop.kind in ir.MOVABLE else []
        if not moved:
            return [], loop
        names = ", ".join(label_of(let.var) for let in moved)
        self.decisions.say(cursor.path, True, f"{names} is named before the loop", what="names")
        return moved, replace(loop, body=ir.seq(*(stmt for stmt in stmts if stmt not in moved)))

    def movable(
        self, stmts: list[ir.Stmt], loop: ir.For, cursor: driver.Cursor, among: Container[Parameter] | None = None
    ) -> list[ir.Let]:
        """The loop-invariant names that statements at the start of a loop define; `among`: those that are wanted."""
        moved: list[ir.Let] = []
        scope, changed, is_reached = cursor.scope, self.changed(loop), True
        for stmt in stmts:
            is_reached = is_reached and not isinstance(stmt, ir.Assert)
            if not isinstance(stmt, ir.Let) or not (among is None or stmt.var in among):
                continue
            if self.why_not(stmt.value, changed, loop, scope, is_reached) is None:
                moved.append(stmt)
                changed.discard(stmt.var)
                scope = scope.after(stmt)
        return moved

    def changed(self, loop: ir.For) -> set[Parameter | Tensor]:
        """The variables and arrays that an iteration of a loop may change."""
        return {loop.var, *(c.var for c in loop.carried), *walk.bound_in(loop.body), *written_in(loop.body)}

    def why_not(
        self, operand: Operand, changed: set[Parameter | Tensor], loop: ir.For, scope: Scope, is_first: bool
    ) -> str | None:
        """Why an operand cannot be computed in front of the loop, else `None`.

        Parameters
        ----------
        is_first: whether every iteration computes the operand before anything else.
        """
        if ir.has_undef(operand):
            return "it is another value each time"
        if any(v in changed for v in walk.variables(operand)):
            return "the loop changes it"
        read: Iterable[Tensor] = walk.tensors_read(operand)
        for tensor in read:
            if tensor in changed:
                return f"the loop writes {tensor.name}"
        if is_first and proves(scope, walk.range_ends(loop.range)[1] >= 1):
            return None
        missing = why_not_total(operand, scope, self.readable)
        return None if missing is None else f"before the loop {missing}"

    # -- conditions ---------------------------------------------------------------------------------------------

    def condition(self, loop: ir.For, cursor: driver.Cursor) -> _Unswitched | None:
        """A condition to test in front of the loop, both branches, and the names that it requires."""
        stmts = ir.flat(loop.body)
        offers = ((k, stmt, *offer) for k, stmt in enumerate(stmts) for offer in self.offered(stmt))
        for k, stmt, cond, kind in offers:
            is_alone = all(isinstance(s, ir.Let) for s in stmts[:k]) and k == len(stmts) - 1
            is_first = k == 0 and kind == "if"
            if loop.kind not in ir.MOVABLE:
                self.decisions.say(cursor.path, False, f"a loop that is {loop.kind} stays as it is")
                return None
            needed = self.required(cond, loop, stmts[:k], cursor)
            changed = self.changed(loop) - {let.var for let in needed}
            scope = reduce(Scope.after, needed, cursor.scope)
            rest = [s for s in stmts if s not in needed]
            is_split = isinstance(stmt, ir.If) and kind == "if" and stmt.orelse is None and is_alone
            if isinstance(stmt, ir.If) and is_split:
                out, kept = self.split(parts_of_condition(stmt.cond), changed, loop, scope, is_first)
                if out:
                    first = build.together(*out)
                    self.decisions.say(cursor.path, True, f"{first!r} is tested before the loop", what=repr(cond))
                    left = ir.seq(*(s for s in rest if s is not stmt), ir.guarded(stmt.then, *kept))
                    return first, replace(loop, body=left), None, needed
            why = self.why_not(cond, changed, loop, scope, is_first)
            if is_split or why is not None:
                reason = f"{cond!r} stays in the loop: {why}"
            elif sum(1 for _ in walk.statements(loop.body)) > MAX_STATEMENTS:
                reason = "the loop is too long to be written twice: the budget is spent"
            elif any(isinstance(s, (ir.Assert, ir.Assume, ir.Evaluate)) for s in walk.statements(loop.body)):
                reason = "a check, an assumption or a host call would be written twice"
            else:
                reason = f"{cond!r} is tested before the loop, which is written for both cases"
                self.decisions.say(cursor.path, True, reason, what=repr(cond))
                yes, no = (replace(loop, body=ir.seq(*(_decided(s, cond, way) for s in rest))) for way in (True, False))
                return cond, yes, no, needed
            self.decisions.say(cursor.path, False, reason, what=repr(cond))
        return None

    def offered(self, stmt: ir.Stmt) -> list[tuple[Truth, str]]:
        """The conditions tested by a statement directly inside a loop."""
        offers: list[tuple[Truth, str]] = []
        if isinstance(stmt, ir.If):
            if "if" in self.conditions:
                offers.append((stmt.cond, "if"))
            for branch in (stmt.then, stmt.orelse):
                inner = [] if branch is None else ir.flat(branch)
                offers += [(s.cond, "branch") for s in inner if isinstance(s, ir.If) and "if" in self.conditions]
        elif "select" in self.conditions and not isinstance(stmt, ir.For):
            for operand in walk.operands(stmt):
                selects = (node for node in nodes(operand) if node.op is ops.SELECT)
                offers += [(build.truth_value(node.args[0]), "select") for node in selects]
        return offers

    def required(self, cond: Truth, loop: ir.For, before: list[ir.Stmt], cursor: driver.Cursor) -> list[ir.Let]:
        """The movable names that a condition requires."""
        if not self.lets:
            return []
        lets = {s.var: s for s in before if isinstance(s, ir.Let)}
        required = dag.reachable(
            walk.variables(cond), lambda var: walk.variables(lets[var].value) if var in lets else ()
        )
        return self.movable(before, loop, cursor, required)

    def split(
        self, parts: list[Truth], changed: set[Parameter | Tensor], loop: ir.For, scope: Scope, is_first: bool
    ) -> tuple[list[Truth], list[Truth]]:
        """Split a conjunction into the parts that move and the parts that stay."""
        out: list[Truth] = []
        kept: list[Truth] = []
        for part in parts:
            # `and` is lazy: a later part is computed only if the parts that stay hold
            if self.why_not(part, changed, loop, scope, is_first and not kept) is None:
                out.append(part)
                scope = scope.where(part)
            else:
                kept.append(part)
        if kept and "boolean" not in self.conditions:
            return [], parts
        return out, kept


def _decided(stmt: ir.Stmt, cond: Truth, holds: bool) -> ir.Stmt:
    """A statement with one condition decided, branches directly inside included."""
    if isinstance(stmt, ir.If):
        if stmt.cond is cond:
            branch = stmt.then if holds else stmt.orelse
            return ir.Seq() if branch is None else branch
        parts = [stmt.then, *([] if stmt.orelse is None else [stmt.orelse])]
        return walk.with_children(stmt, tuple(ir.seq(*(_decided(s, cond, holds) for s in ir.flat(p))) for p in parts))
    if isinstance(stmt, ir.For):
        return stmt
    return walk.map_operands(stmt, lambda operand: _chosen(operand, cond, holds))


def _chosen(operand: Operand, cond: Truth, holds: bool) -> Operand:
    if operand is cond:
        return truth(holds)
    return with_decided_selects(operand, lambda tested: holds if tested is cond else None)


_TAKEN: Final = (ir.LoopKind.SERIAL, ir.LoopKind.VECTORIZED, ir.LoopKind.UNROLLED)


def decide_rows(f: ir.Function, is_all: bool = False) -> ir.Function:
    """Unswitch loops whose only store is a select guarded by loop-invariant conditions.

    The select's other value must be a constant, so that the loop's copy is short; with `is_all` it may be a
    load.

    Guarantee: the same elements get the same values.
    """
    if ops.SELECT not in walk.occurring(f.body).operations:
        return f
    return f.with_body(walk.rebuilt(f.body, lambda stmt: _unswitched_store(stmt, is_all)))


def _unswitched_store(loop: ir.Stmt, is_all: bool) -> ir.Stmt:
    if not isinstance(loop, ir.For):
        return loop
    store = loop.body
    if not isinstance(store, ir.Store) or loop.kind not in _TAKEN or loop.carried:
        return loop
    value = store.value
    if value.op is not ops.SELECT:
        return loop
    cond, taken, other = value.args
    is_number = other.op in (ops.CONST, NUMBER)
    if not isinstance(cond, Cond) or not (is_number or (is_all and loaded_tensor(other) is not None)):
        return loop
    is_same = {  # those that no iteration changes, and that have a value whatever their variables are
        part: loop.var not in part.free_vars() and not dag.opaque_terms(part) and not definedness((part,))
        for part in dag.conjuncts(cond)
    }
    same, rest = ([part for part, own in is_same.items() if own is way] for way in (True, False))
    if not same:
        return loop
    row = replace(loop, body=replace(store, value=_choice(rest, taken, other)))
    return ir.If(logical_and(*same), row, with_fresh_names(replace(loop, body=replace(store, value=other))))


def _choice(parts: list[Cond], taken: Operand, other: Operand) -> Operand:
    if not parts:
        return taken
    cond = logical_and(*parts)
    if isinstance(taken, Expr) and isinstance(other, Expr):
        return select(cond, taken, other)
    return build.select(cond, taken, other)


def hoist(loop: ir.For, scope: Scope) -> tuple[list[ir.Let], ir.For]:
    """Move loop-invariant divisions in front of a loop; returns their names, and the loop that uses them.

    Only divisions by nonconstant divisors that every iteration reaches are moved.

    Guarantee: a moved division is computed only if the loop runs, so its divisor is nonzero there.
    """
    inside = walk.bound_in(loop)
    lets: list[ir.Let] = []
    kept: list[ir.Stmt] = []
    for stmt in ir.flat(loop.body):
        if isinstance(stmt, ir.Let) and _is_movable(stmt, inside):
            lets.append(ir.Let(stmt.var, _where_it_runs(as_expr(stmt.value), loop, scope)))
            inside.discard(stmt.var)
        else:
            kept.append(stmt)
    names: dict[Expr, Var] = {}
    for e in always_evaluated(ir.seq(*kept)):
        if _is_division(e) and not inside & set(dag.free_vars(e)) and not dag.opaque_terms(e):
            names[e] = Var("hoisted")
    outer = {e: var for e, var in names.items() if not any(e in dag.postorder(o.args) for o in names if o is not e)}
    lets += [ir.Let(var, _where_it_runs(e, loop, scope)) for e, var in outer.items()]
    if not lets:
        return [], loop
    body = walk.transform(ir.seq(*kept), lambda operand: rewrite(operand, dict(outer)))
    return lets, ir.with_fields(loop, body=body)


def _is_movable(let: ir.Let, inside: set[Parameter]) -> bool:
    """Whether a `Let` defines a loop-invariant division."""
    if not isinstance(let.var, Var) or not isinstance(let.value, Expr) or dag.opaque_terms(let.value):
        return False
    divides = any(_is_division(node) for node in dag.postorder((let.value,)))
    return divides and not inside & set(dag.free_vars(let.value))


def _is_division(node: Node) -> bool:
    return node.op in ops.DIVISIONS and constant_value(node.args[1]) is None


def _where_it_runs(e: Expr, loop: ir.For, scope: Scope) -> Expr:
    runs = walk.range_ends(loop.range)[1] >= 1
    return e if proof_of(scope, runs, Effort.FAST) else select(runs, e, 0)


def always_evaluated(body: ir.Stmt) -> dict[Expr, None]:
    """The integer expressions that are evaluated whenever the statement is executed, users before what they use."""
    evaluated: dict[Expr, None] = {}
    stack: list[ir.Stmt] = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, ir.Seq):
            reached = next((k for k, inner in enumerate(stmt.stmts) if isinstance(inner, ir.Assert)), len(stmt.stmts))
            stack.extend(reversed(stmt.stmts[: reached + 1]))  # behind an assertion, only where it holds
        elif isinstance(stmt, ir.For):
            firsts = [c.first for c in stmt.carried]
            evaluated |= dict.fromkeys(node for e in (*walk.range_ends(stmt.range), *firsts) for node in _strict(e))
            count = constant_value(walk.range_ends(stmt.range)[1])
            if count is not None and count >= 1:
                stack.append(stmt.body)
        elif not isinstance(stmt, ir.Assume):  # which nothing computes
            evaluated |= dict.fromkeys(node for e in walk.operands(stmt) for node in _strict(e))
    return evaluated


def _strict(operand: Operand) -> Iterator[Expr]:
    """The integer nodes below an operand, itself included, that its evaluation always reaches."""

    def always(node: Operand) -> Sequence[Operand]:
        if node.op is ops.LOAD and isinstance(node.data, IntFunction):
            return ()  # its arguments are evaluated where its formula uses them
        return node.args[:1] if node.op in ops.LAZY else node.args

    return (node for node in dag.reachable([operand], always) if isinstance(node, Expr))


def name_choices(f: ir.Function) -> ir.Function:
    """Name loop-invariant selects in indices of innermost loops, in front of the loop."""
    if ops.SELECT not in walk.occurring(f.body).operations:
        return f
    rules: driver.StmtRules[driver.Descent] = {ir.For: (_name_choices_of_ends,)}
    return f.with_body(
        driver.rewritten(f.body, driver.Descent(), enter=rules, leave={ir.For: (_name_choices_of_body,)})
    )


def _name_choices_of_ends(loop: ir.For, _: driver.Descent) -> ir.Stmt:
    """Name selects in the ends of a loop that recur in its body, so that ends and body compare equal."""
    ends = list(_choices(walk.range_ends(loop.range)))
    used = list(_choices_in(loop.body)) if ends else []
    if not any(choice is known or _beyond(known, choice) is not None for known in ends for choice in used):
        return loop
    inside = {v for choice in used for v in choice.free_vars()} - set(loop.range.free_vars())
    lets, names = _named(loop.var, [*ends, *used], inside)
    return ir.seq(*lets, walk.transform(loop, lambda e: rewrite(e, dict(names))))


def _name_choices_of_body(loop: ir.For, _: driver.Descent) -> ir.Stmt:
    """Name loop-invariant selects in the body of an innermost loop."""
    if any(isinstance(inner, ir.For) for inner in walk.statements(loop.body)):
        return loop
    lets, names = _named(loop.var, _choices_in(loop.body), walk.bound_in(loop))
    if not names:
        return loop
    body = walk.transform(loop.body, lambda e: rewrite(e, dict(names)))
    return ir.seq(*lets, ir.with_fields(loop, body=body))


def _named(var: Var, choices: Iterable[Expr], inside: Collection[Parameter]) -> tuple[list[ir.Let], dict[Expr, Expr]]:
    """Name selects that depend on nothing `inside`; returns the names and the replacement of each select."""
    defined: dict[Expr, Var] = {}
    names: dict[Expr, Expr] = {}
    for choice in choices:
        if choice in names or not set(choice.free_vars()).isdisjoint(inside):
            continue
        if definedness((choice,)) or dag.opaque_terms(choice):  # undefined selects must not precede an empty loop
            continue
        near = ((name, k) for known, name in defined.items() if (k := _beyond(known, choice)) is not None)
        name, k = next(near, (None, 0))
        if name is None:
            names[choice] = defined[choice] = Var(f"{var.name}.choice")
        else:
            names[choice] = name + k if k > 0 else name - -k
    return [ir.Let(name, choice) for choice, name in defined.items()], names


def _beyond(known: Expr, choice: Expr) -> int | None:
    """The constant difference between selects with equal conditions, else `None`."""
    if known.args[0] is not choice.args[0]:
        return None
    first, second = (difference(as_expr(a), as_expr(b)) for a, b in zip(known.args[1:], choice.args[1:], strict=True))
    return first if first == second else None


def _choices_in(body: ir.Stmt) -> Iterator[Expr]:
    return _choices(e for stmt in walk.statements(body) for e in walk.operands(stmt))


def _choices(roots: Iterable[Operand]) -> Iterator[Expr]:
    """The outermost integer selects, the last first."""

    def is_choice(node: Operand) -> TypeGuard[Expr]:
        return node.op is ops.SELECT and isinstance(node, Expr)

    starts = [root for root in roots if ops.SELECT in dag.operations(root)]
    below = dag.reachable(starts[::-1], lambda node: () if is_choice(node) else node.args[::-1])
    return filter(is_choice, below)
