"""Divisions of a nest: machine operations by the facts at their position, or values that loops carry.

Strength reduction of `x // n` and `x % n`: a loop that changes x by a constant amount carries the quotient and the
remainder from one iteration to the next, and needs no division:

    q' = q + 1, r' = 0        if r == n - 1        else  q' = q, r' = r + 1            step 1
    q' = q - 1, r' = n - 1    if r == 0            else  q' = q, r' = r - 1            step -1
    q' = q + dq + 1, r' = r - (n - dr)   if r >= n - dr   else  q' = q + dq, r' = r + dr

with dq = step // n and dr = step % n, computed once. From 0 <= r < n and 0 <= dr < n follows 0 <= r' < n, and every
step lies in [-n, n], so nothing but the quotient can overflow, and the quotient only where `x // n` itself would.
(Cooper, Simpson and Vick, "Operator strength reduction", TOPLAS 2001, for the general technique.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

import intset
from bound.tir import walk
from bound.tir.value import fits_words
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Node, Range, Var, const, constant_value, dag, ops, shown
from intset.expr.build import floordiv, floormod, logical_and, select
from intset.facts import DERIVED, Fact
from intset.prover.proof import Proof
from lowering.division import Lowered, lower_division
from lowering.division.rules import plus
from lowering.nest import driver, ir
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import bound_in, map_operands, occurring, operands, range_ends, statements, transform
from lowering.passes.definedness import map_integers
from lowering.passes.loops.invariants import always_evaluated, hoist
from lowering.passes.simplify import drop_empty_loop
from lowering.passes.values.index_width import fits_by_intervals, product

STRENGTH_Z3: Final = 200_000  # z3's units for one question

Note: TypeAlias = Callable[[Lowered[Node]], object]  # told of every expression that is lowered
_LOWERED: Final = frozenset((*ops.DIVISIONS, ops.ASSERTING))
_CHANGING: Final = _LOWERED | {ops.LOAD}  # a load may be a function of data


def lower_divisions(f: ir.Function, bits: int = 64) -> ir.Function:
    """The function with the divisions of all indices, conditions and integer values lowered.

    Parameters
    ----------
    f: the nest. What a place knows is: the ranges of the loops around it, the conditions around it, the assertions
        above it, the facts of `f.ctx`, and what the variables carry.
    bits: the width in which indices are computed; each must be representable in it. What depends on data is computed
        in 64 bits.
    """
    ir.checked_function(f, "lower_divisions")
    if not may_divide(f) and not any(map(_is_empty_loop, statements(f.body))):
        return f
    return driver.rewritten_function(f, leave=_rules(bits, lambda _: None))


def _is_empty_loop(stmt: ir.Stmt) -> bool:
    count = constant_value(range_ends(stmt.range)[1]) if isinstance(stmt, ir.For) else None
    return count is not None and count <= 0


def may_divide(f: ir.Function) -> bool:
    """Whether a nest has divisions, or data that a function with divisions may compute."""
    return not _CHANGING.isdisjoint(occurring(f.body).operations)


def lowered_parts(f: ir.Function, bits: int = 64) -> tuple[Lowered[Node], ...]:
    """The lowering of each distinct expression with a division, as `lower_divisions` performs it.

    Each entry gives the reason for its form and, for a corrected form, the missing fact. Conditions of assertions are
    left out: their lowering must not use the facts that they check.
    """
    lowerings: list[Lowered[Node]] = []
    driver.rewritten_function(f, leave=_rules(bits, lowerings.append))
    return tuple({(one.asked[0], one.expr): one for one in lowerings if one.steps}.values())


def _rules(bits: int, note: Note) -> driver.StmtRules[driver.Cursor]:
    """Lower the divisions of every operand under the scope of its statement, those of a scope's equal operands once."""
    once = cache(lower_division)

    def lower_operand(operand: walk.Part, cursor: driver.Cursor) -> walk.Part:
        return lowered(operand, cursor.scope, bits, note, once)

    def lower_storage(stmt: ir.Allocate, cursor: driver.Cursor) -> ir.Allocate:
        """An allocation, but for its padding: no code computes that."""
        new = map_operands(ir.with_fields(stmt, padding=None), lambda e: lower_operand(e, cursor))
        return ir.with_fields(new, padding=stmt.padding)

    def lower_assertion(stmt: ir.Assert, cursor: driver.Cursor) -> ir.Assert:
        is_lowered = _LOWERED.isdisjoint(dag.operations(stmt.cond))
        return stmt if is_lowered else ir.Assert(_unaided(stmt.cond, bits), stmt.message)

    on_operands = driver.each_operand(lower_operand)
    return {
        ir.Stmt: (on_operands,),
        ir.For: (on_operands, drop_empty_loop),
        ir.Allocate: (lower_storage,),
        ir.Assert: (lower_assertion,),
    }


def _unaided(cond: Cond, bits: int) -> Cond:
    """The condition of an assertion lowered without what its variables declare: that is what it checks."""
    plain = {var: Var(var.name) for var in cond.free_vars()}
    inside = lower_division(walk.substitute(cond, plain), Context(), bits).expr
    answer: Cond = walk.substitute(inside, {new: old for old, new in plain.items()})
    return answer


def lowered(operand: walk.Part, scope: Scope, bits: int, note: Note, lower: Callable[..., Lowered[Any]]) -> walk.Part:
    """An operand with its divisions lowered by `lower`."""
    if _CHANGING.isdisjoint(walk.operations(operand)):
        return operand

    def change(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        present = dag.operations(part)
        if _LOWERED.isdisjoint(present):
            return part
        is_data = ops.LOAD in present or ops.CAST in present
        lowering = lower(part, scope.where(*conditions).ctx, 64 if is_data else bits)
        note(lowering)
        changed: Expr | Cond = lowering.expr
        return changed if not is_data or fits_words(changed) or not fits_words(part) else part

    return map_integers(operand, change)


# -- strength reduction ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CarriedDivision:
    """A quotient and a remainder that a loop carries.

    Protocol: assign first values before the loop, and next values simultaneously *between* two iterations.

    Guarantee: every iteration with a nonzero divisor sees `dividend // divisor` and `dividend % divisor`. The update
    does not overflow at widths that represent dividend, quotient and remainder in every iteration.

    Attributes
    ----------
    dividend, divisor: the operands; the divisor is a loop invariant and never negative.
    quotient, remainder: the carried variables. Their first values are free of the loop variable, and their floor
        divisions are defined even where the divisor is 0 or the loop does not run; the following ones are over both and
        loop invariants.
    invariants: further variables, to be computed once before the loop.
    proof: that the divisor is not negative.
    """

    dividend: Expr
    divisor: Expr
    quotient: ir.Carry
    remainder: ir.Carry
    invariants: dict[Var, Expr]
    proof: Proof


def induction(e: Expr, var: Var, limits: Range, ctx: Context | None = None, bits: int = 32) -> CarriedDivision | None:
    """The quotient and remainder that a loop over `var` carries for the division `e`; `None` if it cannot.

    Parameters
    ----------
    e: `x // n` or `x % n`, x affine in `var` with a loop-invariant coefficient, n invariant and proved not negative.
    var: the loop variable; it grows by 1.
    limits: its range, with a finite first value.
    ctx: ranges and facts outside of the loop.
    bits: the width in which the quotient may be computed after the last iteration as well.

    Raises
    ------
    InputError: `e` is neither a floor division nor its remainder.
    """
    if e.op not in (ops.FLOORDIV, ops.FLOORMOD):
        raise InputError(f"induction takes x // n or x % n, not {shown(e)}")
    x, n = e.args
    outer = Context() if ctx is None else ctx
    first, extent = limits.min, limits.extent
    if not isinstance(first, Expr) or not isinstance(extent, Expr) or any(_varies(e, var) for e in (n, first, extent)):
        return None
    runs = extent >= 1
    inner = outer.extended(ranges={var: limits}, facts=[runs])
    step = inner.canonical(x.substitute({var: var + 1}) - x)
    proof = inner.prove(n >= 0)
    if not proof or _varies(step, var):
        return None
    unsafe = [cond for cond in dict.fromkeys((runs, n >= 1)) if not outer.prove(cond)]
    invariants: dict[Var, Expr] = {}

    def outside(value: Expr) -> Expr:
        """`value` computed before the loop; 0 for an empty loop or a zero divisor."""
        simple = outer.canonical(value)
        if not simple.args:
            answer: Expr = simple
            return answer
        return select(logical_and(*unsafe), value, 0) if unsafe else value

    def invariant(name: str, value: Expr) -> Expr:
        value = outside(value)
        if not value.args:
            return value
        fresh = Var(name)
        invariants[fresh] = value
        return fresh

    q, r = Var("q"), Var("r")
    amount = constant_value(step)
    parts: tuple[Cond, Expr, Expr, Expr, Expr]
    if amount == 1:
        parts = (r.eq(plus(n, -1)), q + 1, const(0), q, r + 1)
    elif amount == -1:
        parts = (r.eq(0), q - 1, plus(n, -1), q, r - 1)
    else:
        dq, dr = invariant("dq", step // n), invariant("dr", step % n)
        left = plus(n, -dr.data) if dr.op is ops.CONST else n - dr
        parts = (r >= left, q + plus(dq, 1), r - left, plus(q, dq), plus(r, dr))
    wraps, up, over, stay, back = parts
    start = outer.canonical(x.substitute({var: first}))
    after_last = bool(_update_after_last(outer, x, n, var, limits, bits))
    quotient = ir.Carry(q, outside(start // n), select(wraps, up, stay), after_last)
    remainder = ir.Carry(r, outside(start % n), select(wraps, over, back))  # never as large as the divisor
    return CarriedDivision(x, n, quotient, remainder, invariants, proof)


def _update_after_last(outer: Context, x: Expr, n: Expr, var: Var, limits: Range, bits: int) -> Proof:
    """The proof that x is representable one iteration after the last if x and its inputs are in all iterations."""
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert isinstance(limits.min, Expr) and isinstance(limits.extent, Expr)
    end = outer.canonical(limits.min + limits.extent)
    after, last = (outer.canonical(x.substitute({var: value})) for value in (end, end - 1))
    inputs = dict.fromkeys(
        (limits.extent, outer.canonical(end - 1), last, *dag.free_vars(x, limits.extent, limits.min))
    )
    facts = [limit for e in inputs if e is not var and not e.is_const for limit in (e >= least, e <= most)]
    ctx = outer.extended(facts=[limits.extent >= 1, n >= 1, *facts])
    return ctx.prove((after >= least) & (after <= most))


def _varies(e: Node, var: Var) -> bool:
    return var in dag.free_vars(e)


class WidthCursor(driver.Cursor):
    """A cursor that records which integers the machine has computed before.

    Attributes
    ----------
    computed: integers known to be representable here.
    bits: the width of indices.
    """

    computed: tuple[Expr, ...]
    bits: int

    def inside(self, loop: ir.For) -> WidthCursor:
        low, extent = range_ends(loop.range)
        ends = (low, extent, low + extent)
        return super().inside(loop).moved(computed=(*self.computed, *(e for e in ends if e.args)))

    def fits(self, e: Expr) -> bool:
        """Whether every step of `e` is representable at every point, in whatever branch it is evaluated."""
        if dag.opaque_terms(e):
            return False
        least, most = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        below = [node for node in dag.postorder((e,)) if isinstance(node, Expr) and node.op is not ops.CONST]
        inputs = dict.fromkeys((*self.computed, *dag.free_vars(e, *self.computed)))
        facts = [Fact(cond, DERIVED) for known in inputs for cond in (known >= least, known <= most)]
        ctx = self.scope.ctx.extended(facts=facts)
        with intset.using(tiers=tiers_within(Effort.DEFAULT)):
            return all(
                any(ctx.prove(node >= low) for low in (const(least), *self.computed))
                and any(ctx.prove(node <= high) for high in (const(most), *self.computed))
                for node in below
                if node not in inputs
            )


def strength_reduce(f: ir.Function, bits: int = 64) -> ir.Function:
    """Strength reduction: let serial loops carry `x // n` and `x % n` of their variable.

    The divisor n is loop-invariant and not constant; divisions by constants are left to the C compiler. Loop-invariant
    divisions move in front of the loop. Run this pass before `lower_divisions`, which lowers the remaining divisions,
    the initial quotients included.

    Guarantee: equal values; no step of a carried value overflows `bits`.
    Premise: the number of elements of each array is representable in 64 bits; fewer bits need a proof.
    """
    ir.checked_function(f, "strength_reduce")
    scope = scope_of(f)
    counts = [e for e in dict.fromkeys(product(tensor.extents) for tensor in f.params) if e.args]
    seen = (e for e in counts if bits == 64 or fits_by_intervals(scope.ctx, e, bits))
    around = WidthCursor(scope).moved(computed=tuple(seen), bits=bits)
    rules: driver.StmtRules[WidthCursor] = {ir.For: (_hoist_and_carry,)}
    return f.with_body(driver.rewritten(f.body, around, leave=rules))


def _hoist_and_carry(loop: ir.For, around: WidthCursor) -> ir.Stmt:
    """Move invariant divisions in front of a loop; a serial loop carries the others."""
    lets, loop = hoist(loop, around.scope)
    for let in lets:
        around = around.after(let, let)
    return ir.seq(*lets, _reduced(loop, around) if loop.kind is ir.LoopKind.SERIAL else loop)


def _reduced(loop: ir.For, around: WidthCursor) -> ir.Stmt:
    lets: list[ir.Stmt] = []
    carried = list(loop.carried)
    new: dict[Expr, Var] = {}
    known: dict[tuple[Expr, Expr], CarriedDivision] = {}  # by the canonical form of what is divided
    always = always_evaluated(loop.body)
    inside = around.inside(loop)
    pairs = {e: (inside.scope.ctx.canonical(e.args[0]), e.args[1]) for e in _candidates(loop)}
    for e, pair in pairs.items():
        is_computed = e in always or all(arg in always or inside.fits(arg) for arg in e.args)
        if pair in known or not is_computed or not _may_be_read_before(e, inside):
            continue
        with intset.using(tiers=tiers_within(Effort.FAST)):
            step = induction(e, loop.var, loop.range, around.scope.ctx, around.bits)
        if step is None:
            continue
        known[pair] = step
        lets += [ir.Let(var, value) for var, value in step.invariants.items()]
        carried += _stated(step.quotient, step.remainder, step.dividend, step.divisor, inside.scope.ctx)
    for e, pair in pairs.items():
        if pair in known:
            new |= {floordiv(*e.args): known[pair].quotient.var, floormod(*e.args): known[pair].remainder.var}
    if not new:
        return loop
    loop = _rewritten(loop, carried, new)
    return ir.seq(*lets, _chained(loop, around))


def _chained(loop: ir.For, around: WidthCursor) -> ir.Stmt:
    """The loop that carries also the quotients and remainders of quotients that it carries, as in `i // p % m`.

    A quotient that grows by d, or by d + 1 where its own remainder wraps, divides like a loop variable that does:

        q' = q + dq + 1, r' = r - (m - dr - 1)   if r >= m - dr - 1   else  q' = q + dq, r' = r + dr + 1     by d + 1
        q' = q + dq + 1, r' = r - (m - dr)       if r >= m - dr       else  q' = q + dq, r' = r + dr         by d

    with dq = d // m and dr = d % m; d = 0 leaves both as they are. Every step lies in [-m, m].
    """
    carried = list(loop.carried)
    new: dict[Expr, Var] = {}
    lets: list[ir.Let] = []
    within, outside = around.inside(loop), around.scope.ctx
    inside = within.scope.ctx
    always = always_evaluated(loop.body)
    runs = range_ends(loop.range)[1] >= 1
    steps = {c.var: (c, *grows) for c in carried if (grows := _grows(c)) is not None}
    for e in _divisions(loop.body):
        x, m = e.args
        if e in new or x not in steps or set(dag.free_vars(m)) & {loop.var, *bound_in(loop.body)}:
            continue
        if dag.opaque_terms(m) or not (e in always or within.fits(m)):
            continue
        with intset.using(tiers=tiers_within(Effort.FAST)):
            if not inside.prove(m >= 0):
                continue
            unsafe = [cond for cond in (runs, m >= 1) if not outside.prove(cond)]
        start, wraps, d = steps[x]
        q, r = Var("q"), Var("r")
        first_q, first_r = (_divided(divide, start.first, m, unsafe) for divide in (floordiv, floormod))
        if constant_value(d) == 0:
            is_last = r.eq(m - 1)
            following_q = select(wraps, select(is_last, q + 1, q), q)
            following_r = select(wraps, select(is_last, 0, r + 1), r)
        else:
            dq, dr = Var("dq"), Var("dr")
            lets += [ir.Let(dq, _divided(floordiv, d, m, unsafe)), ir.Let(dr, _divided(floormod, d, m, unsafe))]
            left = m - dr
            more, as_much = r >= left - 1, r >= left
            following_q = select(wraps, select(more, q + (dq + 1), q + dq), select(as_much, q + (dq + 1), q + dq))
            following_r = select(wraps, select(more, r - (left - 1), r + dr + 1), select(as_much, r - left, r + dr))
        quotient, remainder = ir.Carry(q, first_q, following_q, start.after_last), ir.Carry(r, first_r, following_r)
        carried += _stated(quotient, remainder, x, m, inside)
        new |= {floordiv(x, m): q, floormod(x, m): r}
    return ir.seq(*lets, _rewritten(loop, carried, new)) if new else loop


def _divided(divide: Callable[[Expr, Expr], Expr], e: Expr, m: Expr, unsafe: Sequence[Cond]) -> Expr:
    """`e` divided by `m` in front of the loop; 0 if one of `unsafe` fails. `e` may itself be such a select."""
    conditions = tuple(dict.fromkeys(unsafe))
    if e.op is ops.SELECT and constant_value(e.args[2]) == 0:
        conditions = tuple(dict.fromkeys((*dag.conjuncts(e.args[0]), *unsafe)))
        e = e.args[1]
    if constant_value(e) == 0:
        return e
    return select(logical_and(*conditions), divide(e, m), 0) if conditions else divide(e, m)


def _grows(carry: ir.Carry) -> tuple[Cond, Expr] | None:
    """The condition under which a carried quotient grows by d + 1 instead of d, and d."""
    step, q = carry.following, carry.var
    if step.op is not ops.SELECT:
        return None
    wraps, more, less = step.args
    if less is q:
        return (wraps, const(0)) if more is q + 1 else None
    if less.op is not ops.ADD or less.args[0] is not q:
        return None
    d = less.args[1]
    return (wraps, d) if d.op is ops.VAR and more is q + (d + 1) else None


def _may_be_read_before(e: Expr, around: WidthCursor) -> bool:
    """Whether the loads in `e` may move in front of the loop: the function writes none of their tensors."""
    tensors = [ir.tensor_of(term.data) for term in dag.opaque_terms(e)]
    if any(t is None or t in around.scope.written() for t in tensors):
        return False
    return not tensors or around.bits == 64 or fits_by_intervals(around.scope.ctx, e, around.bits)


def _rewritten(loop: ir.For, carried: Sequence[ir.Carry], new: dict[Expr, Var]) -> ir.For:
    body = transform(loop.body, lambda operand: walk.rewrite(operand, dict(new)))
    return replace(loop, body=body, carried=tuple(carried))


def _stated(q: ir.Carry, r: ir.Carry, x: Expr, n: Expr, inside: Context) -> list[ir.Carry]:
    """Quotient and remainder of x by n, with the facts that define them."""
    meanings = (q.var.eq(floordiv(x, n)), r.var.eq(floormod(x, n)))
    return [replace(c, fact=_where_defined(is_so, n, inside)) for c, is_so in zip((q, r), meanings, strict=True)]


def _where_defined(meaning: Cond, divisor: Expr, inside: Context) -> Cond:
    with intset.using(z3_rlimit=STRENGTH_Z3):  # `i < n * n` says it, but not in linear terms
        return meaning if inside.prove(divisor.ne(0)) else divisor.eq(0) | meaning


def _divisions(body: ir.Stmt) -> list[Expr]:
    """The floor divisions and remainders by what is no constant."""
    below = (node for stmt in statements(body) for node in dag.postorder(operands(stmt)) if isinstance(node, Expr))
    divisions = (node for node in below if node.op is ops.FLOORDIV or node.op is ops.FLOORMOD)
    return [node for node in dict.fromkeys(divisions) if constant_value(node.args[1]) is None]


def _candidates(loop: ir.For) -> list[Expr]:
    """Divisions of loop-variant dividends by invariant divisors, free of variables bound further inside."""
    inside = bound_in(loop) - {loop.var}
    candidates: list[Expr] = []
    for node in _divisions(loop.body):
        x, n = node.args
        if loop.var in dag.free_vars(n) or loop.var not in dag.free_vars(x):
            continue
        if not inside & set(dag.free_vars(node)):
            candidates.append(node)
    return candidates
