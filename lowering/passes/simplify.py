"""`simplify`: loops, branches, claims and index expressions, by constants, ranges, conditions and element contents.

Other passes compose single rules; `plain` applies all rules that need no element contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bound.schedule import simple
from bound.tensor import Tensor
from bound.tir import build
from bound.tir.reduce import Parameter
from bound.tir.value import NUMBER, REDUCE, Operand, Value, fits_words
from bound.tir.walk import Part, nodes, operations, rewrite
from intset.config import Effort
from intset.context import Context
from intset.expr import Cond, Expr, Node, Range, arguments, as_expr, const, constant_value, dag, ops
from intset.expr import build as ints
from intset.expr.evaluate import evaluate
from intset.expr.node import make, truth
from intset.linear.signs import taken_values
from intset.simplify import Pricing, simplified
from intset.simplify.engine import no_wider
from intset.simplify.irreducible import settled
from lowering.nest import driver, ir, walk
from lowering.nest.printer import Entry, PassReport, end_of, range_between
from lowering.nest.scope import Scope, parts_of_condition, proof_of, proves, written_in
from lowering.passes.definedness import Whole, map_integers, with_decided_selects
from lowering.passes.stores.reaching_values import ReachingValues, check_assumptions

_ARITHMETIC: Final = {ops.ADD: simple.add, ops.SUB: simple.sub, ops.MUL: simple.mul}
LARGE: Final = 1 << 31  # constants from here on need 64 bits
_SIGNS: Final = {ops.ADD: 1, ops.SUB: -1}


def fold_constants(f: ir.Function) -> ir.Function:
    """Fold constants in every operand.

    Guarantee: equal values; no step is wider than the steps of the original.
    """
    return f.with_body(walk.transform(f.body, decided))


def decided(operand: Operand) -> Operand:
    """Fold constants, decided selections and conditions, `+ 0`, `* 1`, `x + y - y` and `minimum(x, x)`; `x + 2 - 1`
    becomes `x + 1`."""
    if not operand.args:
        return operand
    order: Iterable[Any] = dag.postorder((operand,)) if isinstance(operand, (Expr, Cond)) else nodes(operand)
    changed: Operand = _changed(operand, order, _with_constants)
    return changed


def _changed(operand: Operand, order: Iterable[Any], change: Callable[[Any, dict[Any, Any]], Any]) -> Any:
    """An operand with its nodes changed, arguments first; `None` from `change` keeps an operation."""
    new: dict[Any, Any] = {}
    for node in order:
        new_node = change(node, new) if node.args else node
        if new_node is None:
            new_node = _with_new(node, new)
        if new_node is not node:
            new[node] = new_node
    return new.get(operand, operand)


def _with_constants(node: Any, new: dict[Any, Any]) -> Any:
    if node.op in _JUNCTIONS:
        return _junction(node, new)
    if isinstance(node, Value):
        return _arm(node, new, constant_truth) if node.op is ops.SELECT else None
    if node.free_vars() or dag.opaque_terms(node):
        return _made(node, tuple(map(new.get, node.args, node.args)))
    return _constant(node)


def _arm(node: Any, new: Mapping[Any, Any], truth_of: Callable[[Any], bool | None]) -> Any:
    """The chosen arm of a selection; `None` if its condition is undecided."""
    holds = truth_of(new.get(node.args[0], node.args[0]))
    arm = node.args[2 if holds is False else 1]
    return None if holds is None else new.get(arm, arm)


def _with_new(node: Operand, new: Mapping[Operand, Operand]) -> Operand:
    """The operation on what replaces its operands."""
    if node.op is REDUCE:  # its combiner may refer to the program
        return rewrite(node, new) if new else node
    if new.keys().isdisjoint(node.args):
        return node
    args: Any = tuple(map(new.get, node.args, node.args))
    return node.with_args(args)


def _made(node: Expr | Cond, args: tuple[Any, ...]) -> Expr | Cond:
    """The operation on these operands."""
    if isinstance(node, Cond) or len(args) != 2:
        return node.with_args(args)
    made = _of_two(node.op, *args)
    return node.with_args(args) if made is None else made


def _of_two(op: ops.Op, left: Expr, right: Expr) -> Expr | None:
    """A shorter form of the operation on two integers; `None` if there is none."""
    if op in (ops.MIN, ops.MAX):
        return left if left is right else None
    if op not in _ARITHMETIC:
        return None
    if op is ops.SUB and left.op is ops.ADD and right is left.args[1]:  # x + y - y
        return as_expr(left.args[0])
    is_swapped = op is ops.ADD and left.is_const and not right.is_const
    if is_swapped:  # as one writes it: the number last
        left, right = right, left
    last = constant_value(right)
    if last is None:
        return _ARITHMETIC[op](left, right) if constant_value(left) in (0, 1) else None
    first = constant_value(left.args[1]) if left.op in _SIGNS and op in _SIGNS else None
    if first is not None:  # (x + first) - last
        total = _SIGNS[left.op] * first + _SIGNS[op] * last
        return simple.add(left.args[0], total) if total >= 0 else simple.sub(left.args[0], -total)
    if op is left.op is ops.MUL:  # x * factor * last
        factor = constant_value(left.args[1])
        if factor is not None and abs(factor * last) < LARGE:
            return simple.mul(left.args[0], factor * last)
    if op is ops.ADD and -LARGE < last < 0:
        return simple.sub(left, -last)
    is_shorter = is_swapped or last in (0, 1) or constant_value(left) in (0, 1)
    return _ARITHMETIC[op](left, right) if is_shorter else None


def _constant(node: Expr | Cond) -> Operand | None:
    """What a node without variables is; `None` where it has no value."""
    try:
        value = evaluate(node, {})
    except ArithmeticError:
        return None
    return truth(bool(value)) if isinstance(node, Cond) else const(value)


def constant_truth(cond: Operand) -> bool | None:
    """The value of `true` and `false`, else `None`."""
    return bool(cond.data) if cond.op is ops.BOOL else None


_JUNCTIONS: Final = {ops.AND: False, ops.OR: True}  # what decides each alone


FOLDED: Final = frozenset((*ops.COMPARISONS, *_JUNCTIONS, ops.SELECT, ops.NOT, ops.MIN, ops.MAX))


def folded(operand: Operand, decide: Callable[[Cond], bool | None]) -> Any:
    """Replace comparisons that `decide` knows by constants, and a minimum or maximum by its known smaller or larger
    operand.

    The dead branch of a selection disappears; laziness never evaluated it.
    """
    if FOLDED.isdisjoint(operations(operand)):
        return operand
    return _changed(operand, nodes(operand), lambda node, new: _folded(node, new, decide))


def order_of(node: Expr, is_moving: bool) -> Cond:
    """The comparison under which a minimum or maximum equals one operand.

    Parameters
    ----------
    is_moving: selects the operand with more variables; otherwise the other one.
    """
    a, b = node.args
    moving, still = (a, b) if len(a.free_vars()) > len(b.free_vars()) else (b, a)
    cond: Cond = make(ops.LE, (moving, still) if (node.op is ops.MIN) is is_moving else (still, moving))
    return cond


def deciding_nodes(operand: Operand) -> list[Expr | Cond]:
    """The comparisons, minima and maxima of an operand, arguments first."""
    if _DECIDING.isdisjoint(operations(operand)):
        return []
    return [node for node in nodes(operand) if node.op in _DECIDING and isinstance(node, (Expr, Cond))]


_DECIDING: Final = frozenset((*ops.COMPARISONS, ops.MIN, ops.MAX))


def _folded(node: Any, new: dict[Any, Any], decide: Callable[[Cond], bool | None]) -> Any:
    if node.op in ops.COMPARISONS and isinstance(node, Cond):
        holds = None if dag.opaque_terms(node) else decide(node)
        return None if holds is None else truth(holds)
    if node.op in _JUNCTIONS:
        return _junction(node, new)
    if node.op is ops.NOT:
        known = _truth(new.get(node.args[0]))
        return None if known is None else truth(not known)
    if node.op is ops.SELECT:
        return _arm(node, new, _truth)
    if node.op in (ops.MIN, ops.MAX) and isinstance(node, Expr):
        return _chosen(node, new, decide)
    return None


def _chosen(node: Expr, new: dict[Any, Any], decide: Callable[[Cond], bool | None]) -> Any:
    if dag.opaque_terms(node):
        return None
    a, b = node.args
    for is_moving in (False, True):
        cond = order_of(node, is_moving)
        holds = decide(cond)
        if holds is not None:
            chosen = a if ((cond.args[0] is a) is holds) is (node.op is ops.MIN) else b
            return new.get(chosen, chosen)
    return None


def _junction(node: Any, new: dict[Any, Any]) -> Any:
    if not any(arg in new for arg in node.args):
        return None
    args = [new.get(arg, arg) for arg in node.args]
    strong = _JUNCTIONS[node.op]
    if any(_truth(arg) is strong for arg in args):
        return truth(strong)
    rest = [arg for arg in args if _truth(arg) is None]
    if not rest:
        return truth(not strong)
    if len(rest) == 1:
        return rest[0]
    if all(isinstance(arg, Cond) for arg in rest):
        return ints.logical_or(*rest) if strong else ints.logical_and(*rest)
    return build.any_of(*rest) if strong else build.all_of(*rest)


def _truth(node: Any) -> bool | None:
    if node is None:
        return None
    if node.op is ops.BOOL or (isinstance(node, Value) and node.op is NUMBER and node.dtype == "bool"):
        return bool(node.data)
    return None


def simplify(f: ir.Function, buffers: bool = True, report: list[Entry] | None = None) -> ir.Function:
    """Simplify loops, branches and index expressions of a function.

    Loops of one iteration are inlined, decided conditions dropped, indices shortened, until nothing changes. With
    `buffers` branches are also decided by what elements hold, branches with equal sides become one side, and adjacent
    branches on equivalent or opposite conditions are joined unless what they read changes between them.

    Guarantee: parameters end with the same elements; no statement runs that did not.

    Parameters
    ----------
    report: receives one `Entry` per branch of `f`, with `buffers` only.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "simplify")
    check_assumptions(f)
    if not arguments.a_flag(buffers, "buffers"):
        return until_stable(plain, f)

    def once(g: ir.Function, report: list[Entry] | None = None) -> ir.Function:
        report_of_joins = PassReport(g)
        joined, lines = merge_branches(g, report_of_joins)
        report_of_decisions = PassReport(joined, lines)
        decided = decide_branches(joined, report_of_decisions)
        report_of_joins.give(report, report_of_decisions)
        return plain(decided)

    first = once(f, report)
    return f if str(first) == str(f) else until_stable(once, first)


OVERCOMPUTE_ROUNDS: Final = 8  # rounds of trying fewer guards; of a pass, until it changes nothing


def until_stable(once: Callable[[ir.Function], ir.Function], f: ir.Function) -> ir.Function:
    """Apply `once` until the text of the nest repeats; of nests that alternate, the one with the shortest text.

    Guarantee: a second call returns a nest of equal text. Beyond `OVERCOMPUTE_ROUNDS` calls: the nest that was given.
    """
    rounds, last = {str(f): f}, f
    for _ in range(OVERCOMPUTE_ROUNDS):
        last = once(last)
        text = str(last)
        if text in rounds:
            texts = list(rounds)
            return rounds[min(texts[texts.index(text) :], key=lambda each: (len(each), each))]
        rounds[text] = last
    return f


# -- decided branches ----------------------------------------------------------------------------------------------


def decide_branches(f: ir.Function, report: PassReport) -> ir.Function:
    """Drop the branches and choices that reaching values decide, and one of two equal branches."""
    rules = _BranchRules(ReachingValues(f), report)
    leave: driver.StmtRules[driver.Cursor] = {
        ir.Stmt: (rules.without_choices,),
        ir.If: (rules.apply_decision,),
        ir.For: (),
        ir.Seq: (),
    }
    return driver.rewritten_function(f, enter={ir.If: (rules.decide,)}, leave=leave)


class _BranchRules:
    """The rules of `decide_branches`.

    `decide` runs before the statements inside are walked, so nothing is reported of dead branches; `apply_decision`
    runs afterwards, because the condition of a branch is a fact inside it.
    """

    def __init__(self, reaching: ReachingValues, report: PassReport) -> None:
        self.reaching, self.report = reaching, report
        self.undecided: dict[walk.Path, list[Operand] | None] = {}  # `None`: the condition never holds

    def decide(self, stmt: ir.If, cursor: driver.Cursor) -> ir.Stmt:
        """Empty a dead side of a branch."""
        parts: list[Operand] = []
        here = cursor
        for part in parts_of_condition(stmt.cond):
            holds = self.reaching.decides(here, part)
            if holds is False:
                self.undecided[cursor.path] = None
                self.report.say(cursor.path, True, "the condition never holds")
                return ir.If(stmt.cond, ir.Seq(), stmt.orelse)
            if holds is None:
                parts.append(part)
                here = here.moved(scope=here.scope.where(part))
        self.undecided[cursor.path] = parts
        return stmt if parts else ir.If(stmt.cond, stmt.then)

    def apply_decision(self, stmt: ir.If, cursor: driver.Cursor) -> ir.Stmt:
        """Replace a branch by its live side, or drop the decided parts of its condition."""
        parts = self.undecided[cursor.path]
        if parts is None:
            return ir.Seq() if stmt.orelse is None else stmt.orelse
        if not parts:
            self.report.say(cursor.path, True, "the condition always holds")
            return stmt.then
        if stmt.orelse is not None and str(stmt.then) == str(stmt.orelse) and _free(stmt.then) == _free(stmt.orelse):
            self.report.say(cursor.path, True, "both branches do the same")
            return stmt.then
        if len(parts) < len(parts_of_condition(stmt.cond)):
            self.report.say(cursor.path, True, "a part of the condition always holds")
            return ir.If(build.together(*parts), stmt.then, stmt.orelse)
        self.report.say(cursor.path, False, *self.reaching.why_not_decided(cursor, parts[0]))
        return stmt

    def without_choices(self, stmt: ir.Stmt, cursor: driver.Cursor) -> ir.Stmt:
        """Replace choices in the operands of a statement by the operand that is always chosen."""
        return walk.map_operands(stmt, lambda operand: self._chosen(operand, cursor))

    def _chosen(self, operand: Operand, cursor: driver.Cursor) -> Operand:
        def decide(cond: Operand) -> bool | None:
            holds = self.reaching.decides(cursor, cond)
            if holds is not None:
                self.report.say(cursor.path, True, f"the choice by {cond!r} is always the same", what=repr(cond))
            return holds

        return with_decided_selects(operand, decide)


def _free(root: ir.Stmt) -> list[Any]:
    """The identities of the variables and tensors that a statement uses and does not bind."""
    own = walk.bound_in(root)
    used: list[Parameter | Tensor] = list(walk.free_variables(root))
    for stmt in walk.statements(root):
        used += [t for t in walk.tensors_read(*walk.operands(stmt)) if t not in own]
        used += [stmt.tensor] if isinstance(stmt, ir.Store) and stmt.tensor not in own else []
    return [id(thing) for thing in used]


# -- adjacent branches ---------------------------------------------------------------------------------------------


def merge_branches(f: ir.Function, report: PassReport) -> tuple[ir.Function, dict[walk.Path, int]]:
    """Join adjacent branches whose conditions are equivalent or opposite.

    Returns
    -------
    The function, and for each path of it the line that the statement has in the text of `f`; the first of two lines
    where branches were joined.
    """
    origins: dict[int, walk.Path] = {}

    def join(stmt: ir.Seq, cursor: driver.Cursor) -> ir.Stmt:
        return _with_joined_branches(stmt, cursor, report, origins)

    joined, paths = driver.traced(f, {ir.Seq: (join,)}, origins)
    if str(joined) == str(f):
        joined, paths = f, {cursor.path: cursor.path for cursor in driver.cursors(f)}
    return joined, {path: report.line(first) for path, first in paths.items()}


def _with_joined_branches(
    stmt: ir.Seq, cursor: driver.Cursor, report: PassReport, origins: dict[int, walk.Path]
) -> ir.Stmt:
    """Join each branch with its predecessor if their conditions allow it."""
    kept: list[tuple[ir.Stmt, driver.Cursor]] = []
    for part, here in driver.inside(stmt, cursor):
        before, there = kept[-1] if kept else (None, here)
        if isinstance(before, ir.If) and isinstance(part, ir.If):
            joined, reason = _joined(before, part, there.scope)
            if reason:
                report.say(here.path, joined is not None, reason, what="sequence")
            if joined is not None:
                origins[id(joined)] = there.path
                kept[-1] = (joined, there)
                continue
        kept.append((part, here))
    return stmt if len(kept) == len(stmt.stmts) else ir.seq(*(part for part, _ in kept))


def _joined(a: ir.If, b: ir.If, scope: Scope) -> tuple[ir.If | None, str]:
    """Two adjacent branches as one, and a reason; an empty reason if the conditions are unrelated."""
    is_same = a.cond is b.cond or _equivalent(a.cond, b.cond, scope)
    if not is_same and not _opposite(a.cond, b.cond, scope):
        return None, ""
    changed = written_in(a)
    data = [t.name for t in walk.tensors_read(b.cond) if t in changed]
    if data:
        return None, f"the condition is that of the branch before it, but {data[0]} may have changed"
    first, second = (b.then, b.orelse) if is_same else (b.orelse, b.then)
    then = ir.seq(a.then, *([] if first is None else [first]))
    sides = [side for side in (a.orelse, second) if side is not None]
    orelse = ir.seq(*sides) if sides else None
    relation = "is that" if is_same else "is the opposite of that"
    joined = ir.If(a.cond, then, None if orelse is None or ir.is_empty(orelse) else orelse)
    return joined, f"the condition {relation} of the branch before it"


def _equivalent(a: Operand, b: Operand, scope: Scope) -> bool:
    if not isinstance(a, Cond) or not isinstance(b, Cond):
        return False
    return proves(scope.where(a), b) and proves(scope.where(b), a)


def _opposite(a: Operand, b: Operand, scope: Scope) -> bool:
    if build.negation(a) is b or build.negation(b) is a:
        return True
    if not isinstance(a, Cond) or not isinstance(b, Cond):
        return False
    return proves(scope.where(a), ~b) and proves(scope.where(~a), b)


# -- rules -----------------------------------------------------------------------------------------------------------


MAX_NODES: Final = 200  # larger expressions are left as they are
INDEX_BITS: Final = 32  # simplification keeps indices within this width
COMPARED_FORMS: Final = 1_500  # linear forms examined for order in one operand: the corpus needs 550


def plain(f: ir.Function) -> ir.Function:
    """Apply the rules of this module: what ranges, conditions and assertions alone tell.

    Guarantee: parameters end with the same elements; no statement runs that did not.
    """
    return driver.rewritten_function(f, ENTER, LEAVE)


# -- loops -----------------------------------------------------------------------------------------------------------


def shorten_ends(loop: ir.For, cursor: driver.Cursor) -> ir.For:
    """Write the ends of a loop with fewer operations."""
    ends = walk.range_ends(loop.range)
    if ends[0] is const(0) and ends[1].is_const:
        return loop
    low, extent = (shortened(e, cursor.scope) for e in ends)
    return ir.with_fields(loop, range=_short_range(low, extent, cursor.scope))


def drop_empty_loop(loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
    """Drop a loop of nonpositive constant extent."""
    count = constant_value(walk.range_ends(loop.range)[1])
    return ir.Seq() if count is not None and count <= 0 else loop


def drop_single_iterations(f: ir.Function) -> ir.Function:
    """Replace serial loops of one iteration by their bodies. Loops of other kinds and annotated loops stay.

    Guarantee: the same stores in the same order.
    """

    def leave_out(loop: ir.For, cursor: driver.Descent) -> ir.Stmt:
        is_plain = loop.kind is ir.LoopKind.SERIAL and not loop.annotations
        return inline_single_iteration(loop, cursor) if is_plain else loop

    if not any(type(stmt) is ir.For and walk.range_ends(stmt.range)[1] is const(1) for stmt in walk.statements(f.body)):
        return f
    return fold_constants(f.with_body(driver.rewritten(f.body, driver.Descent(), leave={ir.For: (leave_out,)})))


def inline_single_iteration(loop: ir.For, cursor: driver.Descent) -> ir.Stmt:
    """Replace a loop of one iteration by its body.

    The loop stays if it carries variables, or if its body stores to elements that its start reads.
    """
    low, extent = walk.range_ends(loop.range)
    if constant_value(extent) != 1 or loop.carried or set(walk.tensors_read(low)) & written_in(loop.body):
        return loop
    return ir.Seq((walk.substitute(loop.body, {loop.var: low}),))


def drop_idle_loop(loop: ir.For, cursor: driver.Descent) -> ir.Stmt:
    """Drop a loop with nothing in it."""
    return ir.Seq() if ir.is_empty(loop.body) else loop


def _short_range(low: Expr, extent: Expr, scope: Scope) -> Range:
    """The range, with the extent from its end where that end is shorter than what the extent tells."""
    count = constant_value(extent)
    if count is not None or constant_value(low) == 0:
        return Range(low, extent if count is None or count >= 0 else 0)
    end = shortened(low + extent, scope)
    return range_between(low, end) if dag.size(end) < dag.size(end_of(low, extent)) else Range(low, extent)


# -- branches and claims ---------------------------------------------------------------------------------------------


def decide_branch(branch: ir.If, cursor: driver.Cursor) -> ir.Stmt:
    """Replace a branch by the side that is always taken; else shorten its condition and drop what always holds."""
    if not isinstance(branch.cond, Cond):
        return branch
    undecided: list[Cond] = []
    here = cursor.scope
    for part in dag.conjuncts(branch.cond):
        short = shortened(part, here)
        decided = _decided(short, here, Effort.DEFAULT)
        if decided is True:
            continue
        if decided is False:
            return ir.Seq() if branch.orelse is None else ir.Seq((branch.orelse,))
        undecided.append(short)
        here = here.where(short)
    return ir.with_fields(branch, cond=build.together(*undecided)) if undecided else ir.Seq((branch.then,))


def _decided(cond: Cond, here: Scope, effort: Effort) -> bool | None:
    """The proved truth value of a condition; both values at known points end the search."""
    frame = here.ctx.frame
    taken = taken_values(frame.known, cond, frame.conditions)
    if False not in taken and proof_of(here, cond, effort):
        return True
    return False if True not in taken and proof_of(here, ~cond, effort) else None


def join_nested_branches(branch: ir.If, cursor: driver.Cursor) -> ir.If:
    """Join a branch with the only statement inside, a branch too, where both conditions are on integers."""
    inner = branch.then
    if branch.orelse is not None or not isinstance(inner, ir.If) or inner.orelse is not None:
        return branch
    if not isinstance(branch.cond, Cond) or not isinstance(inner.cond, Cond):
        return branch
    return ir.If(build.together(branch.cond, inner.cond), inner.then)


def drop_idle_branch(branch: ir.If, cursor: driver.Descent) -> ir.Stmt:
    """Drop empty sides of a branch."""
    orelse = None if branch.orelse is None or ir.is_empty(branch.orelse) else branch.orelse
    if not ir.is_empty(branch.then):
        return branch if orelse is branch.orelse else ir.If(branch.cond, branch.then)
    return ir.Seq() if orelse is None else ir.If(build.negation(branch.cond), orelse)


def drop_proved_parts(stmt: ir.Assert, cursor: driver.Cursor) -> ir.Stmt:
    """Drop proved parts of an assertion on data. Assertions on sizes stay: they check declarations."""
    if not any(ir.tensor_of(term.data) is not None for term in dag.opaque_terms(stmt.cond)):
        return stmt
    parts = [part for part in dag.conjuncts(stmt.cond) if not proves(cursor.scope, part)]
    return ir.with_fields(stmt, cond=ints.logical_and(*parts)) if parts else ir.Seq()


def drop_implied_assumption(stmt: ir.Assume, cursor: driver.Cursor) -> ir.Stmt:
    """Drop an implied assumption."""
    return ir.Seq() if proves(cursor.scope, stmt.cond) else stmt


ENTER: Final[driver.StmtRules[driver.Cursor]] = {
    ir.Stmt: (driver.each_operand(lambda operand, cursor: shortened(operand, cursor.scope)),),
    ir.For: (shorten_ends, drop_empty_loop, inline_single_iteration),
    ir.If: (decide_branch,),
    ir.Assert: (drop_proved_parts,),
    ir.Assume: (drop_implied_assumption,),
}
LEAVE: Final[driver.StmtRules[driver.Cursor]] = {
    ir.For: (drop_idle_loop,),
    ir.If: (join_nested_branches, drop_idle_branch),
}


# -- operands --------------------------------------------------------------------------------------------------------


def shortened(operand: Part, scope: Scope) -> Part:
    """An operand whose integer parts are written with fewer operations where the linear form knows how."""

    def change(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        if not part.args or dag.size(part) > MAX_NODES:
            return part
        here = scope.where(*conditions)
        if isinstance(part, Cond):
            decided = _decided(part, here, Effort.FAST)
            if decided is not None:
                return truth(decided)
        new = shorter(part, here.ctx)
        return new if new is part or fits_words(new) or not fits_words(part) else part

    if not operand.args and operand.op is not ops.LOAD:
        return operand
    shorter_parts = map_integers(operand, change)
    return with_decided_selects(shorter_parts, constant_truth) if isinstance(operand, Value) else shorter_parts


def shorter(e: Whole, ctx: Context) -> Whole:
    """`e` simplified; of equally cheap integers the one in the canonical order of terms, which is easier to read.

    No step of the result needs a wider type than those of `e`.
    """
    frame, key = ctx.frame, ("shorter", e)
    found: Whole | None = frame.answers.get(key)
    return frame.remember(key, _shorter(e, ctx)) if found is None else found


def _shorter(e: Whole, ctx: Context) -> Whole:
    if isinstance(e, Cond):
        return mirrored(_walked(e, ctx))
    ordered: Whole = ctx.canonical(e)
    known, prices = ctx.frame.known, Pricing()
    if ordered is e and settled(e, known) is e:
        return ordered
    is_cheapest = settled(ordered, known) is ordered and prices.price(ordered) <= prices.price(e)
    if is_cheapest and no_wider(ordered, e, known, INDEX_BITS):
        return ordered
    new = _walked(e, ctx)
    return ordered if prices.price(ordered) == prices.price(new) else new


def _walked(e: Whole, ctx: Context) -> Any:
    """Simplify in one walk.

    `ctx.simplify` repeats the walk until nothing changes, which doubles the cost and hardly ever finds more.
    """
    frame = ctx.frame.where_defined((e,))
    seen = settled(e, frame.known, True)
    return simplified(e, frame.known, bits=INDEX_BITS, compared=COMPARED_FORMS) if seen is None else seen


def mirrored(cond: Cond) -> Cond:
    """The condition with constants on the right of its comparisons."""
    new: dict[Node, Node] = {}
    for node in dag.postorder((cond,)):
        left, right = map(constant_value, node.args) if node.op in ops.MIRRORED else (None, None)
        if left is not None and right is None:
            new[node] = make(ops.MIRRORED[node.op], (node.args[1], node.args[0]))
    return dag.rewrite(cond, new) if new else cond
