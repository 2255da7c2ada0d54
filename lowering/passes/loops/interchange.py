"""`sequential_buffer_access`: loops that access an array become one loop per axis, in order; loops over digits.

    for i in [0, 14):                      for a0 in [0, 4):
        A[i // 4, i % 4] = f(i)    ->          for a1 in [0, 4):
                                                   if a0 * 4 + a1 < 14:
                                                       A[a0, a1] = f(a0 * 4 + a1)

Distribution first gives each statement loops of its own (the start of a reduction and its updates, for instance); loop
interchange then makes the axes of the array the outer loops. The indices of the accesses map loops to axes; the map is
inverted (`IterMap`, with the axes as ranges). A guard excludes elements that the map does not reach. A loop whose range
depends on another loop runs over its whole hull, under a condition. Loops that the indices do not mention become inner
loops. The dataflow's sets decide that no two dependent accesses change their order; sums of integers may.

    for q in [0, 144):                                     for q.2 in [0, 16):
        col[q] = A[q / 9, q / 3 % 3, q % 3]     becomes        for q.1 in [0, 3):
                                                                   for q.0 in [0, 3):
                                                                       col[q.2 * 9 + q.1 * 3 + q.0] = A[q.2, q.1, q.0]

Loops over digits (`run_over_digits`): an innermost loop qualifies if it divides its variable by numbers each of which
divides the next, the last of them the extent. C compilers would divide in every iteration and miss that neighbours in
memory are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from bound import dtypes
from bound.tensor import Tensor, element, unfinished
from bound.tir.build import logical
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, operations, read_indices, rewrite
from intset.errors import BudgetError, UndecidedError
from intset.expr import Cond, Expr, Node, Range, Var, as_expr, constant_value, dag, ops, shown
from intset.expr.node import PlainVar
from intset.itermap.itermap import IterMap, iter_map
from lowering.dataflow.program import Access, always_read
from lowering.dataflow.reaching import Dependences, precedes
from lowering.errors import LayoutError
from lowering.nest import driver, ir, walk
from lowering.nest import scope as scopes
from lowering.nest.printer import Entry, PassReport
from lowering.passes.loops.fusion import Nest, StaysError, check_split, nests_of, stored_indices
from lowering.passes.simplify import constant_truth, plain
from lowering.passes.stores.reaching_values import check_assumptions

SHORT: Final = 8  # iterations of an innermost loop that are written out
_DIVISIONS: Final = (ops.TRUNCDIV, ops.FLOORDIV)
_REMAINDERS: Final = (ops.TRUNCMOD, ops.FLOORMOD)
_TAKING_APART: Final = frozenset((*_DIVISIONS, *_REMAINDERS, ops.SHR, ops.BITAND))
_KINDS: Final = (ir.LoopKind.SERIAL, ir.LoopKind.VECTORIZED)


def sequential_buffer_access(f: ir.Function, name: str, report: list[Entry] | None = None) -> ir.Function:
    """Run every nest that accesses an array over all of its axes, in order.

    Guards exclude elements that no old iteration accessed. Loops that the indices do not mention, such as reductions,
    become inner loops. If the function stores to the array, nests that only read or assume it follow where possible
    and stay otherwise. Loops other than serial and parallel ones stay.

    Guarantee: no result changes.

    Parameters
    ----------
    name: the array.
    report: receives one `Entry` per nest that accesses it.

    Raises
    ------
    LayoutError: a result might change, or the indices have no inverse.
    InputError: the function has no array, or several arrays, of this name; an assumption is proved false.
    """
    ir.checked_function(f, "sequential_buffer_access")
    rules = _InOrder(f, scopes.tensor_named(f, name))
    check_assumptions(f)
    changed = driver.rewritten_function(f, enter={ir.For: (rules.run_in_order,)})
    rules.report.give(report)
    return changed


class _InOrder:
    """The rule of `sequential_buffer_access`.

    Attributes
    ----------
    axes: where each axis of the array begins, and its extent.
    is_stored: whether the function stores to the array.
    """

    def __init__(self, f: ir.Function, tensor: Tensor) -> None:
        self.f, self.tensor, self.report = f, tensor, PassReport(f)
        self.axes = scopes.storage_of(f, tensor)
        self.is_stored = tensor in scopes.written_in(f.body)

    def run_in_order(self, loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
        """Distribute a loop over the array and interchange each nest, where that is possible and necessary."""
        if self.tensor not in walk.touched(loop) or self.tensor in walk.bound_in(loop):
            return loop
        try:
            changed, why = self._distributed(loop, cursor)
        except (StaysError, BudgetError) as error:
            changed, why = None, str(error)
        except LayoutError as error:
            if not self.is_stored or self.tensor in scopes.written_in(loop):
                raise
            changed, why = None, str(error)
        self.report.say(cursor.path, changed is not None, why)
        return driver.done(loop if changed is None else changed)

    def _distributed(self, loop: ir.For, cursor: driver.Cursor) -> tuple[ir.Stmt | None, str]:
        """The nests of a loop over the axes of the array, or `None`; and the reason."""
        nests = nests_of(loop, self.tensor)
        if len(nests) > 1:
            check_split(self.f, loop, cursor.scope, nests)
        replacements = [self._interchanged(nest, cursor.scope) for nest in nests]
        reasons = [one for one in replacements if isinstance(one, str)]
        alone = sum(self.tensor in walk.touched(nest.body) for nest in nests) < 2
        if len(reasons) == len(replacements) and (alone or any(reasons)):
            return None, next((why for why in reasons if why), "it touches the array in order already")
        result = [nest.stmt() if isinstance(new, str) else new for nest, new in zip(nests, replacements, strict=True)]
        return ir.seq(*result), f"it runs over {self.tensor.name}, whole and in order"

    def _interchanged(self, nest: Nest, scope: scopes.Scope) -> ir.Stmt | str:
        """The nest over the axes of the array, or the reason against it; an empty reason if the order is right already.

        Parameters
        ----------
        scope: what is known where the nest stands.

        Raises
        ------
        LayoutError: results would change, or the indices have no inverse.
        BudgetError: that is out of the budget.
        """
        if self.tensor not in walk.touched(nest.body):
            return ""
        only_reads = self.is_stored and self.tensor not in scopes.written_in(nest.body)
        only_assumes = all(isinstance(stmt, (ir.Assume, ir.Seq)) for stmt in walk.statements(nest.body))
        try:
            return _over_axes(self.f, nest, self.tensor, self.axes, scope)
        except LayoutError as error:
            if only_reads or only_assumes:
                return str(error)
            raise


# -- loop interchange ------------------------------------------------------------------------------------------------


Axis: TypeAlias = "tuple[Expr, Expr]"


def _over_axes(f: ir.Function, nest: Nest, tensor: Tensor, axes: Sequence[Axis], scope: scopes.Scope) -> ir.Stmt | str:
    """The nest with the axes of the tensor as its outer loops; nothing where it has them already."""
    indices = _indices(nest.body, tensor)
    limits = [Range(low, extent) for low, extent in axes]
    used = [loop for loop in nest.loops if any(loop.var in e.free_vars() for e in indices)]
    rest = [loop for loop in nest.loops if loop not in used]
    boxes, conditions = _boxes(nest, used, scope, tensor)
    conditions += [part for guard in nest.guards for part in dag.conjuncts(guard)]
    around = scope
    for loop, box in zip(used, boxes, strict=True):
        around = around.inside(replace(loop, range=box, body=ir.Seq()))
    outer, inside = ({loop.var for loop in loops} for loops in (used, rest))
    # `iter_map` takes conditions without its loops as facts and would not repeat them as guards.
    usable = [c for c in conditions if outer.intersection(c.free_vars()) and not inside.intersection(c.free_vars())]
    inverse_map = iter_map(around.where(*usable).ctx, [loop.var for loop in used], indices, limits)
    if not inverse_map.injective:
        points = inverse_map.injective.points
        raise LayoutError(f"the indices of {tensor.name} do not tell the loops: {inverse_map.why_no_inverse()}", points)
    if _is_same(nest, inverse_map, indices, rest, boxes):
        return ""
    loaded = element(tensor, indices)
    _check_arrives(nest, loaded, axes, scope)
    _check_order(Dependences(f, nest.stmt(), scope), nest, loaded, rest)
    inner = nest._replace(loops=tuple(rest), guards=tuple(c for c in conditions if c not in usable))
    result = _interchanged_nest(inner, inverse_map, limits, loaded)
    return plain(replace(f, body=result, ctx=scope.ctx)).body


def _boxes(nest: Nest, used: Sequence[ir.For], scope: scopes.Scope, tensor: Tensor) -> tuple[list[Range], list[Cond]]:
    """Ranges of the loops independent of other loops of the nest, and the conditions that they drop."""
    own = {loop.var for loop in nest.loops}
    boxes: list[Range] = []
    conditions: list[Cond] = []
    inside = reduce(scopes.Scope.inside, nest.loops, scope)
    keep = tuple(v for v in inside.ctx.ranges if v not in own)
    for loop in used:
        low, extent = walk.range_ends(loop.range)
        if scope.may_change(low, extent):
            raise LayoutError(f"what the loop {loop.var} over {tensor.name} runs over depends on data that change")
        if not own.intersection(dag.free_vars(low, extent)):
            boxes.append(loop.range)
            continue
        first, last = inside.ctx.bounds(loop.var, keep=keep)
        if not isinstance(first, Expr) or not isinstance(last, Expr) or own.intersection(dag.free_vars(first, last)):
            raise LayoutError(f"what the loop {loop.var} over {tensor.name} runs over is not known")
        boxes.append(Range(first, inside.ctx.canonical(last - first + 1)))
        conditions += [loop.var >= low, loop.var < low + extent]
    return boxes, conditions


def _indices(body: ir.Stmt, tensor: Tensor) -> tuple[Expr, ...]:
    """The common index tuple of the accesses to a tensor; that of its stores, if it has any."""
    if walk.calls(body):
        raise LayoutError(f"a host call touches all of {tensor.name}, or would be made in another order")
    accesses = [one for stmt in walk.statements(body) for one in scopes.element_accesses(stmt) if one.tensor is tensor]
    tuples = list(stored_indices(body, tensor) or dict.fromkeys(one.indices for one in accesses))
    if len(tuples) != 1:
        raise LayoutError(f"{tensor.name} is accessed at {len(tuples)} different indices in one loop nest")
    own = walk.bound_in(body)
    if any(dag.opaque_terms(e) or own.intersection(dag.free_vars(e)) for e in tuples[0]):
        raise LayoutError(f"the indices of {tensor.name} depend on data")
    return tuples[0]


def _check_arrives(nest: Nest, loaded: Operand, axes: Sequence[Axis], scope: scopes.Scope) -> None:
    """Refuse a nest with iterations that do something and arrive at no element: loops over the axes would lose them.

    An iteration that certainly accesses `loaded` arrives, or the program is in error. One that accesses it under a
    condition on data, or in a branch of a choice, may lie outside the axes: all of these must be inside.

    Raises
    ------
    LayoutError: an iteration may miss the axes; carries loop values of a counterexample, if any.
    """
    if _arrives(nest.body, loaded):
        return
    inside = reduce(scopes.Scope.inside, nest.loops, scope)
    inside = inside.where(*nest.guards)
    for in_bounds in scopes.in_storage(read_indices(loaded), axes):
        proof = scopes.proof_of(inside, in_bounds)
        if not proof:
            values = [v for loop in nest.loops if (v := (proof.counterexample or {}).get(loop.var)) is not None]
            points = (tuple(values),) if len(values) == len(nest.loops) else ()
            what = f"{loaded!r} is accessed in some iterations only, and others may lie outside of its axes: "
            raise LayoutError(what + "loops over these would leave them out", points)


def _arrives(stmt: ir.Stmt, loaded: Operand) -> bool:
    """Whether a statement accesses an element whenever it does anything."""
    if isinstance(stmt, (ir.Let, ir.Allocate)) or _accesses(stmt, loaded):
        return True
    return isinstance(stmt, (ir.Seq, ir.If, ir.For)) and all(_arrives(inner, loaded) for inner in walk.children(stmt))


def _accesses(stmt: ir.Stmt, loaded: Operand) -> bool:
    """Whether a statement accesses an element whenever it runs."""
    if isinstance(stmt, ir.Seq):
        return any(_accesses(inner, loaded) for inner in stmt.stmts)
    if isinstance(stmt, ir.Assume):
        return loaded in always_read(stmt.cond)
    if isinstance(stmt, ir.If):
        if loaded in always_read(stmt.cond):
            return True
        return stmt.orelse is not None and _accesses(stmt.then, loaded) and _accesses(stmt.orelse, loaded)
    if isinstance(stmt, ir.Store):
        is_stored = element(stmt.tensor, stmt.indices) is loaded
        return is_stored or loaded in always_read(*stmt.indices, stmt.value)
    return False


def _is_same(
    nest: Nest, inverse_map: IterMap, indices: tuple[Expr, ...], rest: Sequence[ir.For], boxes: Sequence[Range]
) -> bool:
    """Whether the loops are the axes already."""
    names = [loop.var for loop in nest.loops]
    if not all(any(e is v for v in names) for e in indices) or [*indices, *(loop.var for loop in rest)] != names:
        return False
    if any(box is not loop.range for box, loop in zip(boxes, nest.loops, strict=False)):
        return False
    return constant_truth(inverse_map.padding) is False


def _check_order(dependences: Dependences, nest: Nest, loaded: Operand, rest: Sequence[ir.For]) -> None:
    """Refuse an interchange that reorders dependent accesses.

    Accesses to the element whose indices determine the loops meet within one iteration of these, where order is kept.
    """
    indices = read_indices(loaded)
    own = [loop.var for loop in nest.loops]
    depth = len(own)

    def time(x: Sequence[Var]) -> list[Expr]:
        values = dict(zip(own, x, strict=False))
        return [*(walk.replaced(e, values) for e in indices), *(values[loop.var] for loop in rest)]

    def swapped(x: Sequence[Var], y: Sequence[Var]) -> Cond:
        a, b = x[:depth], y[:depth]
        return (precedes(a, b) & precedes(time(b), time(a))) | (precedes(b, a) & precedes(time(a), time(b)))

    for a, b in dependences.pairs():
        if a.loop.depth < depth or b.loop.depth < depth:
            raise LayoutError(f"the range of a loop reads {a.storage.tensor.name}, which the loop writes")
        if a.site is b.site and _adds_up(a.site.stmt) or _is_of(a, loaded) and _is_of(b, loaded):
            continue
        point = dependences.witness(a, b, swapped)
        if point is not None:
            line = dependences.text(b)
            raise LayoutError(f"the order of iterations would change, and that of {shown(line)} matters", (point,))


def _is_of(access: Access, loaded: Operand) -> bool:
    """Whether an access is of this element."""
    return loaded_tensor(loaded) is access.storage.tensor and access.indices == loaded.args


def _adds_up(stmt: ir.Stmt) -> bool:
    """Whether a store adds an integer to its element: in whatever order, the sum is the same."""
    if not isinstance(stmt, ir.Store) or not isinstance(stmt.value, Expr) or stmt.value.op is not ops.ADD:
        return False
    if not dtypes.is_int(stmt.tensor.dtype):
        return False
    loaded: Operand = unfinished(stmt.tensor, stmt.indices)
    a, b = stmt.value.args
    added = b if a is loaded else a if b is loaded else None
    return added is not None and stmt.tensor not in walk.tensors_read(added)


def _interchanged_nest(nest: Nest, inverse_map: IterMap, axes: Sequence[Range], access: Operand) -> ir.Stmt:
    """The new loops around a nest.

    Parameters
    ----------
    nest: the body, the loops that stay inside, and the conditions that depend on them.
    access: the element whose indices become the loops.
    """
    tensor = loaded_tensor(access)
    assert tensor is not None
    axes_vars = tuple(PlainVar(f"{tensor.name}{k}".lower()) for k in range(len(axes)))
    try:
        back = inverse_map.inverse(axes_vars)
        guard = inverse_map.arriving_at(axes_vars)
    except (UndecidedError, BudgetError) as error:
        raise LayoutError(f"the indices of {tensor.name} have no inverse: {error}") from error
    values: dict[Operand, Operand] = dict(back.items())

    def move(accessed: Tensor, indices: scopes.Indices) -> tuple[Tensor, scopes.Indices] | None:
        return (tensor, axes_vars) if accessed is tensor and indices == read_indices(access) else None

    body = walk.substitute(walk.rebuilt(nest.body, lambda stmt: scopes.redirected(stmt, move)), values)
    body = ir.guarded(body, *(walk.replaced(cond, values) for cond in nest.guards))
    for loop in reversed(nest.loops):
        low, extent = (walk.replaced(e, values) for e in walk.range_ends(loop.range))
        body = replace(loop, range=Range(low, extent), body=body)
    if constant_truth(guard) is not True:
        if isinstance(body, ir.Assume):  # weakened, as by a guard around it
            body = replace(body, cond=logical(ops.OR, inverse_map.padding_at(axes_vars), body.cond))
        else:
            body = ir.If(guard, body)
    for var, axis in zip(reversed(axes_vars), reversed(axes), strict=True):
        body = ir.For(var, axis, body)
    return body


class _Digits(NamedTuple):
    """A range of digits: `var / low`, modulo `high / low` if `high` is set."""

    low: int
    high: int | None


def run_over_digits(f: ir.Function) -> ir.Function:
    """The same function with loops over the digits of variables that innermost loops take apart."""
    if _TAKING_APART.isdisjoint(walk.occurring(f.body).operations):
        return f
    return f.with_body(walk.rebuilt(f.body, lambda stmt: _taken_apart(stmt) if isinstance(stmt, ir.For) else stmt))


def _taken_apart(loop: ir.For) -> ir.Stmt:
    low, count = (constant_value(e) for e in walk.range_ends(loop.range))
    if low != 0 or count is None or loop.carried or loop.kind not in _KINDS:
        return loop
    inside = list(walk.statements(loop.body))
    if ir.For in set(map(type, inside)):
        return loop
    operands = [e for stmt in inside for e in walk.operands(stmt)]
    parts = _digits_in([e for e in operands if not _TAKING_APART.isdisjoint(operations(e))], loop.var)
    cuts = sorted({1, *(d.low for d in parts.values()), *(d.high for d in parts.values() if d.high is not None)})
    if len(cuts) < 2 or cuts[-1] >= count or any(b % a for a, b in pairwise((*cuts, count))):
        return loop
    digits = [Var(f"{loop.var.name}.{k}") for k in range(len(cuts))]
    new: dict[Node, Expr] = {e: _sum(digits, cuts, d) for e, d in parts.items()}
    new[loop.var] = _sum(digits, cuts, _Digits(1, None))
    body = walk.transform(loop.body, lambda e: rewrite(e, dict(new)))
    is_short = cuts[1] <= SHORT
    for k, (digit, (cut, following)) in enumerate(zip(digits, pairwise((*cuts, count)), strict=True)):
        is_vector = k == (1 if is_short else 0)
        kind = ir.LoopKind.UNROLLED if is_short and k == 0 else loop.kind if is_vector else ir.LoopKind.SERIAL
        body = replace(loop, var=digit, range=Range(0, following // cut), body=body, kind=kind)
    return body


def _digits_in(roots: Sequence[Operand], var: Var) -> Mapping[Expr, _Digits]:
    """The quotients and remainders of a variable by numbers, those inside of others included."""
    parts: dict[Expr, _Digits] = {}
    for root in roots:
        for node in nodes(root):
            if isinstance(node, Expr) and node not in parts and len(node.args) == 2:
                part = _digit(node, var, parts)
                if part is not None:
                    parts[node] = part
    return parts


def _digit(node: Expr, var: Var, known: Mapping[Expr, _Digits]) -> _Digits | None:
    of, by = (as_expr(arg) for arg in node.args)
    number = constant_value(by)
    whole = _Digits(1, None) if of is var else known.get(of)
    if whole is None or number is None or number < 1:
        return None
    if node.op is ops.SHR and number < 31:
        digit = _Digits(whole.low << number, whole.high)
    elif node.op in _DIVISIONS:
        digit = _Digits(whole.low * number, whole.high)
    elif node.op in _REMAINDERS:
        digit = _Digits(whole.low, whole.low * number)
    elif node.op is ops.BITAND and number & (number + 1) == 0:
        digit = _Digits(whole.low, whole.low * (number + 1))
    else:
        return None
    last = digit.low if digit.high is None else digit.high
    return digit if whole.high is None or (whole.high % last == 0 and digit.low < whole.high) else None


def _sum(digits: Sequence[Var], cuts: Sequence[int], part: _Digits) -> Expr:
    """The value of a range of digits; its lowest digit counts 1."""
    total: Expr | None = None
    for digit, cut in reversed(list(zip(digits, cuts, strict=True))):
        if part.low <= cut and (part.high is None or cut < part.high):
            term = digit if cut == part.low else digit * (cut // part.low)
            total = term if total is None else total + term
    return as_expr(0) if total is None else total
