"""Parts of operands at a position of a nest: integer parts, the conditions of their evaluation, definedness.

The end of a loop over a flattened tensor divides by sizes: `ceildiv(x, n2 * n3)`. At a size of 0 nothing is computed;
the end is evaluated nevertheless.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, TypeAlias, TypeVar

from bound.infer.accesses import implied
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.build import all_of
from bound.tir.value import CALL, CONVERT, IntFunction, Operand, Value, integer
from intset.expr import Cond, Expr, Node, Range, as_expr, dag, ops
from intset.expr.build import logical_and, maximum, select
from intset.expr.definedness import PARTIAL, definedness, is_partial
from intset.expr.node import make
from lowering.nest import driver, ir
from lowering.nest.scope import Scope, is_outside, proves
from lowering.nest.walk import occurring, operands, range_ends, statements

_TOTAL: Final = frozenset(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid erf sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh floor ceil trunc round nearbyint fmod atan2 hypot copysign nextafter ldexp pow isnan isfinite isinf "
    "popcount reinterpret".split()
)
_GUARDING: Final = (ops.SELECT, ops.AND, ops.OR)

Whole = TypeVar("Whole", Expr, Cond, "Expr | Cond")
Change: TypeAlias = "Callable[[Expr | Cond, tuple[Cond, ...]], Expr | Cond]"


def why_not_total(operand: Operand, scope: Scope, readable: Mapping[Tensor, ir.Padding | None] | None) -> str | None:
    """The reason why an operand may be undefined: a trap, an out-of-bounds access, or uninitialized storage; else
    `None`.

    Parameters
    ----------
    readable: initialized tensors, each with its untouchable padding; `None` skips checks of elements.
    """
    for node in walk.nodes(operand):
        tensor = walk.loaded_tensor(node)
        if tensor is not None and readable is None:
            continue
        if tensor is not None and readable is not None:
            if tensor not in readable:
                return f"{node!r} may be read before it is written"
            if not proves(scope, is_outside(readable[tensor], walk.read_indices(node))):
                return f"{node!r} may be in the padding of {tensor.name}"
            for index, extent in zip(node.args, tensor.extents, strict=True):
                if not proves(scope, (index >= 0) & (index < extent)):
                    return f"{node!r} may be outside {tensor.name}"
        elif node.op in ops.DIVISIONS and isinstance(node, Expr):
            if not _holds(scope, node.args[1].ne(0)):
                return f"{node!r} may divide by 0"
        elif node.op in (ops.SHL, ops.SHR) and isinstance(node, Expr):
            if not proves(scope, node.args[1] >= 0):
                return f"{node!r} may shift by a negative amount"
        elif node.op is ops.ASSERTING:
            if not proves(scope, node.args[0]):
                return f"{node!r} may not hold what it claims"
        elif node.op is CONVERT and isinstance(node.args[0], Value) and "int" in node.dtype:
            return f"{node.dtype}({node.args[0]!r}) has no value where that is no number"
        elif node.op is CALL and node.data not in _TOTAL:
            return f"{node.data} is a function that is not known here"
        elif node.op is ops.LOAD and not isinstance(node.data, IntFunction) and node.args:
            return f"{node!r} is not known to have a value"
    return None


def with_total_ends(f: ir.Function) -> ir.Function:
    """Guard partial operands that every run evaluates, so that a nest does nothing at sizes of 0.

        for i in [0, x // n):     becomes     if n != 0:
            S                                     for i in [0, x // n):
                                                      S

    Loop ends and conditions get guards; extents of allocations and names get a default value instead.

    Guarantee: the same stores wherever the nest it was given is defined.
    """
    if occurring(f.body).operations.isdisjoint(PARTIAL) or not any(
        isinstance(e, (Expr, Cond)) and is_partial(e) for stmt in statements(f.body) for e in _evaluated(stmt)
    ):
        return f
    rules: driver.StmtRules[driver.Cursor] = {
        ir.For: (_guarded_loop,),
        ir.If: (_guarded_branch,),
        ir.Allocate: (_total_allocation,),
        ir.Let: (_total_name,),
    }
    return f.with_body(driver.rewritten(f.body, _TotalNames.root(f), leave=rules))


class _TotalNames(driver.Cursor):
    """A position behind total names: a name whose value was partial no longer implies the needs of that value."""

    def after(self, old: ir.Stmt, new: ir.Stmt) -> Self:
        return super().after(new if isinstance(new, ir.Let) else old, new)


def _evaluated(stmt: ir.Stmt) -> tuple[Operand, ...]:
    """What a statement evaluates before anything is stored."""
    if isinstance(stmt, ir.Allocate):
        return tuple(end for r in stmt.ranges for end in range_ends(r))
    return operands(stmt) if isinstance(stmt, (ir.For, ir.If, ir.Let)) else ()


def _needs(roots: Sequence[Operand], scope: Scope) -> list[Cond]:
    """The conditions of definedness that are not proved in a scope, in evaluation order."""
    integers = [root for root in roots if isinstance(root, (Expr, Cond)) and is_partial(root)]
    return [need for need in definedness(integers) if not _holds(scope, need)] if integers else []


def _holds(scope: Scope, need: Cond) -> bool:
    """Whether a condition of definedness is proved, by any tier: a loop over `n*m` elements runs for `m != 0` alone."""
    return proves(scope, need) or bool(scope.ctx.prove(need))


def _guarded_loop(loop: ir.For, here: driver.Cursor) -> ir.Stmt:
    return ir.guarded(loop, *_needs(range_ends(loop.range), here.scope))


def _guarded_branch(branch: ir.If, here: driver.Cursor) -> ir.Stmt:
    needs = _needs((branch.cond,), here.scope)
    return replace(branch, cond=all_of(*needs, branch.cond)) if needs else branch


def _total_allocation(stmt: ir.Allocate, here: driver.Cursor) -> ir.Stmt:
    if not _needs([end for r in stmt.ranges for end in range_ends(r)], here.scope):
        return stmt
    ranges = [Range(*(_with_divisors(end, here.scope) for end in range_ends(r))) for r in stmt.ranges]
    return replace(stmt, ranges=tuple(ranges))


def _with_divisors(e: Expr, scope: Scope) -> Expr:
    """The expression with 1 for each divisor that is 0."""
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(e):
        if node.op in ops.DIVISIONS and isinstance(node, Expr):
            a, d = (walk.rewrite(as_expr(arg), dict(new)) for arg in node.args)
            if not _holds(scope, node.args[1].ne(0)):
                d = maximum(d, 1) if proves(scope, node.args[1] >= 0) else select(d.ne(0), d, 1)
            new[node] = make(node.op, (a, d))
    return walk.rewrite(e, new)


def _total_name(stmt: ir.Let, here: driver.Cursor) -> ir.Stmt:
    value = stmt.value
    needs = _needs((value,), here.scope)
    return replace(stmt, value=select(logical_and(*needs), value, 0)) if isinstance(value, Expr) and needs else stmt


def with_decided_selects(operand: walk.Part, decide: Callable[[Any], bool | None]) -> walk.Part:
    """Replace selects whose condition `decide` knows by the chosen operand."""
    if ops.SELECT not in walk.operations(operand):
        return operand
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(operand):
        holds = decide(node.args[0]) if node.op is ops.SELECT else None
        if holds is not None:
            new[node] = walk.rewrite(node.args[1 if holds else 2], dict(new))
    return walk.rewrite(operand, new) if new else operand


def map_integers(root: walk.Part, change: Change) -> walk.Part:
    """Replace every maximal integer expression and condition of `root` by `change(part, conditions)`.

    The conditions hold wherever the part is evaluated. Bodies of integer functions of data are changed, too.

    Guarantee: what a part becomes under its conditions stays out of other parts that contain it: of
    `select(j < 3, A[j], x)`, the index alone may use `j < 3`.
    """
    if not isinstance(root, Value):
        changed: Any = change(_inside(root, change), ())
        whole: walk.Part = changed
        return whole
    conditions = _conditions(root)
    parts = ((node, holds) for node, holds in conditions.items() if not isinstance(node, Value))
    new = {node: change(_inside(node, change), holds) for node, holds in parts}  # an unchanged part is kept whole
    return root if all(part is node for node, part in new.items()) else walk.rewrite(root, new)


def parts_of(root: Operand) -> list[tuple[Operand, tuple[Cond, ...]]]:
    """The maximal integer expressions and conditions of `root`, and its values, each with the conditions of its
    evaluation.

    Bodies of integer functions of data are included.
    """
    parts: list[tuple[Operand, tuple[Cond, ...]]] = []

    def note(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        parts.append((part, conditions))
        return part

    map_integers(root, note)
    if isinstance(root, Value):
        parts += [(node, holds) for node, holds in _conditions(root).items() if isinstance(node, Value)]
    return parts


def _inside(e: Expr | Cond, change: Change) -> Expr | Cond:
    """`e` with the formulas of its integer functions of data changed."""
    functions = [load for load in dag.opaque_terms(e) if isinstance(load.data, IntFunction)]
    if not functions:
        return e
    new: dict[Node, Operand] = {}
    for call in functions:
        mapping = dict(zip(call.data.params, (walk.rewrite(a, dict(new)) for a in call.args), strict=True))
        body = walk.substitute(call.data.body, mapping)
        changed = map_integers(body, change)
        assert isinstance(changed, Value), "a formula of data stays one"
        new[call] = integer(changed)
    if isinstance(e, Expr):
        return walk.rewrite(e, new)
    return walk.rewrite(e, new)


def _conditions(root: Value) -> dict[Operand, tuple[Cond, ...]]:
    """For each value below `root`, and each largest integer part, what holds wherever it is evaluated."""
    conditions: dict[Operand, tuple[Cond, ...]] = {root: ()}
    below: list[Operand] = dag.postorder((root,))
    values = [node for node in reversed(below) if isinstance(node, Value)]
    if dag.operations(root).isdisjoint(_GUARDING):
        for node in values:
            conditions.update(dict.fromkeys(node.args, ()))
        return conditions
    for node in values:
        holds = conditions[node]
        for k, child in enumerate(node.args):
            way = (*holds, *(c for c in _added(node, k) if c not in holds))
            known = conditions.get(child)
            conditions[child] = way if known is None else tuple(c for c in known if c in way)
    return conditions


def _added(node: Value, k: int) -> tuple[Cond, ...]:
    """What holds where argument `k` of a value is evaluated."""
    if k == 0:
        return ()
    if node.op is ops.SELECT:
        return implied(node.args[0], k == 1)
    if node.op is ops.AND or node.op is ops.OR:
        return implied(node.args[0], node.op is ops.AND)
    return ()
