"""Loop bound tightening: guards become ends of loops.

`reduce_loop_extents` shortens loops to their effective iterations and reports on each loop; `follow_guards` is the
cheap form that `lower` runs: it solves guards that are linear in the loop variable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Final, TypeVar

import intset
from bound.infer.accesses import loads
from bound.schedule import simple
from bound.tensor import Tensor
from bound.tir.value import Truth
from intset.config import Effort, tiers_within
from intset.expr import Cond, Expr, Node, Range, Var, as_expr, constant_value, dag, ops
from intset.expr.build import logical_and, maximum, minimum
from intset.linear.canonical import form_of
from intset.linear.form import Linear
from lowering.nest import driver, ir
from lowering.nest.printer import Entry, PassReport, range_between, range_text
from lowering.nest.scope import Scope, parts_of_condition, proves, written_in
from lowering.nest.walk import bound_in, occurring, operands, range_ends, statements
from lowering.passes.estimates import says, without
from lowering.passes.simplify import drop_idle_loop, shortened
from lowering.passes.stores.reaching_values import check_assumptions
from lowering.passes.values.cse import with_inlined_names

Known = TypeVar("Known", Expr, Cond)
MAX_SIZE = 24  # operations in an end of a loop
MAX_LEAVES = 64  # statements in a loop that are looked at


def reduce_loop_extents(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Shorten loops to the hull of the iterations that do something, and drop conditions that this implies.

    Iterations are effective where a condition on integers lets a statement run. The ends of a loop may use the loops
    around it.

    Guarantee: the same stores in the same order.

    Parameters
    ----------
    report: receives one `Entry` per loop.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "reduce_loop_extents")
    check_assumptions(f)
    rules = _HullRules(PassReport(f))
    enter: driver.StmtRules[driver.Cursor] = {ir.For: (rules.shorten_to_hull,)}
    leave: driver.StmtRules[driver.Cursor] = {ir.For: (drop_idle_loop,), ir.If: (rules.drop_implied,)}
    shorter = driver.rewritten_function(f, enter, leave)
    rules.report.give(report)
    return shorter


class _HullRules:
    """The rules of `reduce_loop_extents`. Only conditions inside shortened loops are examined."""

    def __init__(self, report: PassReport) -> None:
        self.report = report
        self._shortened: set[ir.For] = set()

    def shorten_to_hull(self, loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
        """Shorten a loop to the hull of its effective iterations; drop it if none is effective."""
        shorter = _reduced(loop, cursor, self.report)
        if shorter is None:
            return ir.Seq()
        if shorter is not loop:
            self._shortened.add(shorter)
        return shorter

    def drop_implied(self, branch: ir.If, cursor: driver.Cursor) -> ir.Stmt:
        """Drop the parts of a condition that the shortened loops imply."""
        scope = cursor.scope
        if self._shortened.isdisjoint(cursor.loops):
            return branch
        if branch.orelse is None:
            kept = _needed(parts_of_condition(branch.cond), scope)
            return ir.guarded(branch.then, *kept)
        if isinstance(branch.cond, Cond):
            if proves(scope, branch.cond):
                return branch.then
            if proves(scope, ~branch.cond):
                return branch.orelse
        return branch


def _needed(parts: list[Truth], scope: Scope) -> list[Truth]:
    kept = []
    for part in parts:
        if not proves(scope, part):
            kept.append(part)
            scope = scope.where(part)
    return kept


def _reduced(loop: ir.For, cursor: driver.Cursor, report: PassReport) -> ir.For | None:
    """The loop over the hull of its effective iterations; `None` if none is effective."""
    scope = cursor.scope
    hull: tuple[Expr, Expr] | str | None
    if loop.kind not in ir.MOVABLE:
        hull = f"a loop that is {loop.kind} stays as it is"
    elif loop.carried:
        hull = "the loop carries values from one iteration to the next"
    else:
        hull = _hull(loop, scope, [around.var for around in cursor.loops])
    if isinstance(hull, str):
        report.say(cursor.path, False, hull)
        return loop
    if hull is None:
        report.say(cursor.path, True, "no iteration does anything")
        return None
    low, extent = range_ends(loop.range)
    first, end = hull
    is_first, is_last = proves(scope, first.eq(low)), proves(scope, end.eq(low + extent))
    if is_first and is_last:
        report.say(cursor.path, False, "the first and the last iteration do something")
        return loop
    # the hull is arbitrary where no iteration is effective: never extend the loop
    first = low if is_first else first if proves(scope, first >= low) else maximum(first, low)
    end = low + extent if is_last else end if proves(scope, end <= low + extent) else minimum(end, low + extent)
    with intset.using(tiers=tiers_within(Effort.FAST)):
        shorter = range_between(scope.ctx.simplify(first), scope.ctx.simplify(end))
    report.say(cursor.path, True, f"only iterations in {range_text(shorter)} do something")
    return replace(loop, range=shorter)


class _GuardedScope(driver.Descent):
    """The scope inside a loop, by conditions on integers alone."""

    __slots__ = ("scope",)

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def inside(self, loop: ir.For) -> _GuardedScope:
        return _GuardedScope(self.scope.inside(replace(loop, carried=())))

    def then(self, branch: ir.If) -> _GuardedScope:
        parts = parts_of_condition(branch.cond)
        on_integers = [part for part in parts if isinstance(part, Cond) and not dag.opaque_terms(part)]
        return _GuardedScope(self.scope.where(*on_integers))

    def otherwise(self, branch: ir.If) -> _GuardedScope:
        return _GuardedScope(self.scope.otherwise(branch))


def _hull(loop: ir.For, scope: Scope, around: list[Var]) -> tuple[Expr, Expr] | str | None:
    """The first effective iteration and the one after the last; `None` if no iteration is effective.

    Returns the reason as text if no short expressions for both are known.
    """
    hulls: list[tuple[Expr, Expr]] = []
    own = bound_in(loop.body)
    leaves = 0
    body = with_inlined_names(loop.body, lambda value: True)
    for stmt, here in driver.walked(body, _GuardedScope(scope.inside(loop))):
        if isinstance(stmt, (ir.Seq, ir.For, ir.If, ir.Let, ir.Allocate)):
            continue
        leaves += 1
        ends = _ends(loop.var, here.scope, around, own)
        if isinstance(ends, str):
            return ends
        if ends is not None and not any(ends[0] is a and ends[1] is b for a, b in hulls):
            hulls.append(ends)
        if leaves > MAX_LEAVES:
            return f"the loop has more than {MAX_LEAVES} statements to look at: the budget is spent"
    if not hulls:
        return None
    first, end = hulls[0]
    for low, stop in hulls[1:]:
        first = first if proves(scope, first <= low) else low if proves(scope, low <= first) else minimum(first, low)
        end = end if proves(scope, end >= stop) else stop if proves(scope, stop >= end) else maximum(end, stop)
    return first, end


def _ends(var: Var, here: Scope, around: list[Var], own: set[Var]) -> tuple[Expr, Expr] | str | None:
    """First and one-past-last value of a variable at a position; `None` if the position is unreachable."""
    values = here.ctx.value_set(var, keep=tuple(around))
    if values.is_empty:
        return None
    short = [end for end in (values.min, values.max) if isinstance(end, Expr) and dag.size(end) <= MAX_SIZE]
    if len(short) < 2 or dag.opaque_terms(*short) or own.intersection(dag.free_vars(*short)):
        return "the first and the last iteration that does something are not known as short expressions"
    low, high = short
    with intset.using(tiers=tiers_within(Effort.DEFAULT)):
        first = here.ctx.simplify(low)
    if not own.union((var,)).isdisjoint(first.free_vars()):  # a guard may equate the end with the variable itself
        first = low
    return first, _after(high)


def _after(high: Expr) -> Expr:
    """`high + 1`, distributed over minimum and maximum."""
    if high.op is ops.MIN:
        return minimum(_after(high.args[0]), _after(high.args[1]))
    if high.op is ops.MAX:
        return maximum(_after(high.args[0]), _after(high.args[1]))
    return form_of(high + 1).expr()


def decide_multiples(f: ir.Function) -> ir.Function:
    """Simplify minima and maxima of a size and its multiple: `minimum(n * m, m)` is `m` in a loop over `n * m` values.

    Guarantee: equal values wherever the range is evaluated.
    """

    def decided(r: Range, scope: Scope) -> Range:
        return Range(*(_without_multiples(e, scope) for e in range_ends(r)))

    def of_loop(loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
        return replace(loop, range=decided(loop.range, cursor.scope))

    def of_storage(stmt: ir.Allocate, cursor: driver.Cursor) -> ir.Stmt:
        return replace(stmt, ranges=tuple(decided(r, cursor.scope) for r in stmt.ranges))

    if occurring(f.body).operations.isdisjoint((ops.MIN, ops.MAX)):
        return f
    ends = [e for stmt in statements(f.body) if isinstance(stmt, (ir.For, ir.Allocate)) for e in operands(stmt)]
    if not any(_multiple(node) for node in dag.postorder(ends) if node.op is ops.MIN or node.op is ops.MAX):
        return f
    return driver.rewritten_function(f, enter={ir.For: (of_loop,), ir.Allocate: (of_storage,)})


def _multiple(node: Node) -> tuple[Expr, Expr, Expr] | None:
    """Of a minimum or maximum of `a` and `a * e` the operands `a`, `a * e` and `e`."""
    if node.op not in (ops.MIN, ops.MAX):
        return None
    for one, product in permutations(node.args):
        if product.op is ops.MUL and not one.is_const and any(arg is one for arg in product.args):
            return one, product, product.args[1] if product.args[0] is one else product.args[0]
    return None


def _without_multiples(e: Expr, scope: Scope) -> Expr:
    new: dict[Node, Node] = {}
    for node in dag.postorder((e,)):
        parts = _multiple(node)
        if parts is not None and scope.ctx.prove(logical_and(parts[0] >= 0, parts[2] >= 1)):
            new[node] = dag.rewrite(parts[0] if node.op is ops.MIN else parts[1], new)
    return dag.rewrite(e, new) if new else e


FREE: Final = (ir.LoopKind.SERIAL, ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZED)
MOST: Final = 12  # ends that meet in one loop: more are tested inside


@dataclass
class GuardParts:
    """The parts of a guard: tested before the loop, ends of the loop (inclusive), tested inside."""

    before: list[Cond] = field(default_factory=list)
    lows: list[Expr] = field(default_factory=list)
    highs: list[Expr] = field(default_factory=list)
    inside: list[Cond] = field(default_factory=list)


def follow_guards(f: ir.Function, kept: Collection[Var] = ()) -> ir.Function:
    """Move guards into the ends of the loops around them, and in front of loops that do not change them.

        for x in [0, 8):                              for x in [0, minimum(8, 20 - x0)):
            if x0 + x < 20 and y < x:       becomes       ...      (and [y + 1, ...) for the second part)
                ...

    A part of a guard becomes an end if it is linear in the loop variable, and each element that it reads is provably
    one of a tensor that the loop neither writes nor allocates; the others stay. Loops on threads and unrolled loops
    keep their ends; parts that read data move in front of unrolled loops that do not change them.

    Guarantee: the same stores in the same order.

    Parameters
    ----------
    kept: loops that keep their ends.
    """

    def follow(loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
        if loop.var in kept:
            return _until_vacant(_with_one_guard(loop))
        return _following(loop, cursor.scope, storage)

    if ir.If not in occurring(f.body).kinds and all(
        constant_value(range_ends(stmt.range)[1]) is not None for stmt in statements(f.body) if type(stmt) is ir.For
    ):
        return f
    storage = {tensor: [(as_expr(0), extent) for extent in tensor.extents] for tensor in f.params}
    for stmt in statements(f.body):
        if isinstance(stmt, ir.Allocate):
            storage[stmt.tensor] = [range_ends(r) for r in stmt.ranges]
    with intset.using(tiers=tiers_within(Effort.FAST)):
        return driver.rewritten_function(f, leave={ir.For: (follow,)})


Storages = dict[Tensor, list[tuple[Expr, Expr]]]  # by tensor, the first index and the extent of each dimension


def _unwritten(loop: ir.For, storage: Storages) -> Storages:
    """The tensors that a loop neither writes nor allocates."""
    allocated = {stmt.tensor for stmt in statements(loop.body) if isinstance(stmt, ir.Allocate)}
    own = written_in(loop) | allocated
    return {tensor: ends for tensor, ends in storage.items() if tensor not in own}


def _following(loop: ir.For, scope: Scope, storage: Storages) -> ir.Stmt:
    """A loop whose ends follow the guard of its body, if the guard allows it."""
    loop = _until_vacant(_with_one_guard(loop))
    body = loop.body
    if isinstance(body, ir.For) and loop.kind in FREE and not loop.carried:
        return _until_data_ends(loop, scope, storage)
    if not isinstance(body, ir.If) or body.orelse is not None or not isinstance(body.cond, Cond):
        return loop
    if loop.kind not in (*FREE, ir.LoopKind.UNROLLED) or loop.carried:
        return loop
    parts = _parts(body.cond, loop.var, scope, _unwritten(loop, storage) if dag.opaque_terms(body.cond) else {})
    if loop.kind is ir.LoopKind.UNROLLED:  # only what data decides, and no iteration changes, is tested before
        before = [cond for cond in parts.before if dag.opaque_terms(cond)]
        parts = GuardParts(before, inside=[cond for cond in dag.conjuncts(body.cond) if cond not in before])
    return _followed(loop, parts, body.then, scope)


def _with_one_guard(loop: ir.For) -> ir.For:
    body = _under_one_guard(loop.body)
    return loop if body is loop.body else replace(loop, body=body)


def _under_one_guard(body: ir.Stmt) -> ir.Stmt:
    """Merge equal guards of all statements of a body into one guard."""
    parts = body.stmts if isinstance(body, ir.Seq) else ()
    guarded = [part for part in parts if isinstance(part, ir.If) and part.orelse is None]
    rest = [part for part in parts if isinstance(part, (ir.Let, ir.Allocate))]
    if len(guarded) < 2 or len(guarded) + len(rest) < len(parts):
        return body
    cond = guarded[0].cond
    if not isinstance(cond, Cond) or dag.opaque_terms(cond) or any(part.cond is not cond for part in guarded):
        return body
    if any(isinstance(part, ir.Let) and part.var in cond.free_vars() for part in rest):
        return body
    return ir.If(cond, ir.seq(*(part.then if isinstance(part, ir.If) else part for part in parts)))


def _until_vacant(loop: ir.For) -> ir.For:
    """Drop the last iterations if all inner loops are empty in them: whole tiles beyond the end of an axis."""
    low, extent = range_ends(loop.range)
    first, count = constant_value(low), constant_value(extent)
    inner = ir.flat(loop.body)
    loops = [part for part in inner if isinstance(part, ir.For)]
    if first is None or count is None or loop.carried or loop.kind not in FREE or not loops:
        return loop
    if any(not isinstance(part, (ir.For, ir.Let, ir.Allocate)) for part in inner):
        return loop
    ends = [_last_in(part, loop.var) for part in loops]
    last = None if None in ends else max(end for end in ends if end is not None)
    if last is None or last >= first + count - 1:
        return loop
    return replace(loop, range=Range(low, max(last - first + 1, 0)))


def _until_data_ends(loop: ir.For, scope: Scope, storage: Storages) -> ir.For:
    """Drop the last iterations in which, because of data, nothing inside of nested loops runs: whole tiles."""
    low, extent = range_ends(loop.range)
    casts = NamedCasts((loop.var, *bound_in(loop.body)))
    needs = _needs_of_data(loop.body, casts)
    constant = _unwritten(loop, storage) if needs else {}
    end = simple.add(low, extent)
    for need in needs:
        step, rest = without(need, loop.var)  # rest + step * var >= 0 in an iteration that does something
        last = casts.written(rest.expr())
        if step < 0 and loop.var not in last.free_vars() and _reads_only(last, scope, constant):
            end = minimum(end, last // -step + 1)
    return loop if end is simple.add(low, extent) else replace(loop, range=Range(low, simple.sub(end, low)))


def _needs_of_data(body: ir.Stmt, casts: NamedCasts) -> list[Linear]:
    """Forms over data that are nonnegative if something runs in nested loops, at some values of their variables."""
    needs: list[Linear] = []
    inner: list[tuple[Var, Expr, Expr]] = []
    while isinstance(body, ir.For) and not body.carried:
        first, extent = range_ends(body.range)
        needs += [form_of(casts.named(e)).shift(-1) for e in dag.chain(ops.MIN, extent) if dag.opaque_terms(e)]
        inner.append((body.var, first, extent))
        body = body.body
    if inner and isinstance(body, ir.If) and body.orelse is None and isinstance(body.cond, Cond):
        needs += [
            form
            for cond in dag.conjuncts(body.cond)
            if dag.opaque_terms(cond)
            for form in says(casts.named(cond), of_data=True) or ()
        ]
    for var, first, extent in reversed(inner):
        needs = [form for need in needs if (form := _at_best(need, var, first, extent)) is not None]
    return needs


def _at_best(form: Linear, var: Var, first: Expr, extent: Expr) -> Linear | None:
    """The largest value of a form over a loop; `None` where its last iteration is not a number."""
    step, rest = without(form, var)
    if any(var in e.free_vars() for e in rest.terms):
        return None
    if step <= 0:
        return rest.plus(form_of(first), step)
    return rest.plus(form_of(first + extent - 1), step) if extent.is_const else None


def _last_in(loop: ir.For, var: Var) -> int | None:
    """A value of `var` beyond which a loop is empty."""
    lasts: list[int] = []
    for part in dag.chain(ops.MIN, range_ends(loop.range)[1]):
        form = form_of(part)
        step = form.terms.get(var, 0)
        if step < 0 and len(form.terms) == 1:  # const + step * var >= 1
            lasts.append((form.const - 1) // -step)
    return min(lasts, default=None)


def _followed(loop: ir.For, parts: GuardParts, body: ir.Stmt, scope: Scope) -> ir.Stmt:
    if not (parts.before or parts.lows or parts.highs):
        return loop
    low, extent = range_ends(loop.range)
    first, end = maximum(low, *parts.lows), minimum(simple.add(low, extent), *(high + 1 for high in parts.highs))
    new_low, new_end = shortened(first, scope), shortened(end, scope)
    new_extent = new_end if constant_value(new_low) == 0 else simple.sub(new_end, new_low)
    inner = ir.guarded(body, *parts.inside)
    return ir.guarded(replace(loop, range=Range(new_low, _positive(new_extent)), body=inner), *parts.before)


def _positive(extent: Expr) -> Expr:
    """A constant extent below 0 is 0."""
    return extent if not extent.is_const or extent.data >= 0 else extent - extent.data


def _reads_only(cond: Node, scope: Scope, constant: Storages) -> bool:
    """Whether a condition or an end can be evaluated outside of the loop: it reads elements of `constant` tensors."""
    for read in loads((cond,)):
        if read.tensor not in constant:
            return False
        for index, (low, extent) in zip(read.indices, constant[read.tensor], strict=True):
            if not (proves(scope, index >= low) and proves(scope, index < low + extent)):
                return False
    return True


def _parts(guard: Cond, var: Var, scope: Scope, constant: Storages) -> GuardParts:
    """The parts of a guard of a loop over `var`, whose body does not write the `constant` tensors."""
    parts = GuardParts()
    for cond in dag.conjuncts(guard):
        if dag.opaque_terms(cond) and not _reads_only(cond, scope, constant):
            parts.inside.append(cond)
        elif var not in cond.free_vars():
            parts.before.append(cond)
        else:
            ends = _ends_of_guard(cond, var)
            if ends is None or len(parts.lows) + len(parts.highs) + len(ends) > MOST:
                parts.inside.append(cond)
                continue
            for is_low, end in ends:
                (parts.lows if is_low else parts.highs).append(end)
    return parts


def _ends_of_guard(cond: Cond, var: Var) -> list[tuple[bool, Expr]] | None:
    """The ends of `var` stated by a condition, each marked lower or upper; `None` for other conditions."""
    ends, casts = [], NamedCasts((var,))
    for form in says(casts.named(cond), of_data=True) or ():
        k, rest = without(form, var)  # k * var + rest >= 0
        if k == 0 or any(var in e.free_vars() for e in rest.terms):
            return None
        if k > 0:
            ends.append((True, rest.scale(-1).expr() if k == 1 else rest.scale(-1).shift(k - 1).expr() // k))
        else:
            ends.append((False, rest.expr() if k == -1 else rest.expr() // -k))
    return [(is_low, casts.written(end)) for is_low, end in ends] or None


class NamedCasts:
    """Names of the casts without certain variables, so that a cast is one term of a linear form.

    As a form of its operand it would be divided by a power of two that no machine word holds.
    """

    def __init__(self, own: Collection[Var]) -> None:
        self._own = frozenset(own)
        self._names: dict[Node, Node] = {}

    def named(self, part: Known) -> Known:
        """The part with the names."""
        for e in dag.postorder((part,)):
            if e.op is ops.CAST and e not in self._names and self._own.isdisjoint(dag.free_vars(e)):
                self._names[e] = Var(f"cast{len(self._names)}")
        return dag.rewrite(part, dict(self._names))

    def written(self, e: Expr) -> Expr:
        """The expression with the casts."""
        return dag.rewrite(e, {name: cast for cast, name in self._names.items()})
