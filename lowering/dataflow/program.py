"""A nest as dataflow analysis sees it: a tree of loops with reads and writes in text order.

An operand accesses the elements that it reads, each under its conditions. Branches and sequences are gone: conditions
of branches and assertions guard the accesses behind them. Conditions on data are dropped; accesses under them count as
uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Final, NamedTuple, TypeAlias

from bound.tensor import Tensor
from bound.tir.build import dtype_of
from bound.tir.reduce import Parameter
from bound.tir.value import CALL, NUMBER, IntFunction, Operand, Value, constant
from bound.tir.walk import Part, loaded_tensor, nodes, read_indices
from intset.expr import Cond, Expr, Var, as_expr, dag, ops
from intset.expr.build import opaque
from lowering.nest import driver, ir
from lowering.nest.printer import PrintedLine, function_lines, statement_lines
from lowering.nest.walk import Path, elements_read, operands, range_ends, replaced, tensors_read

GUARD_VISITS: Final = 4_000  # nodes of an operand, each once under each guard
ACCESS_GUARDS: Final = 8  # guards of one element that are told apart

NamedOperands: TypeAlias = "Mapping[Parameter, Operand]"
"""The value of each name and loop-carried variable."""
IntegerIndices: TypeAlias = "tuple[Expr | None, ...]"
"""The indices of an access; `None` for one that depends on data."""


class AccessGuard(NamedTuple):
    """A conjunction of integer conditions that is necessary for an access.

    Attributes
    ----------
    is_complete: whether it is sufficient, too; otherwise the access also depends on data.
    """

    conditions: tuple[Cond, ...] = ()
    is_complete: bool = True

    def joined(self, other: AccessGuard) -> AccessGuard:
        """The conjunction of two guards."""
        return AccessGuard((*self.conditions, *other.conditions), self.is_complete and other.is_complete)


ALWAYS = AccessGuard()
SOMETIMES = AccessGuard((), False)


class ElementReads(NamedTuple):
    """The reads of one element in operands; they happen where one of the guards holds."""

    node: Operand
    tensor: Tensor
    indices: IntegerIndices
    guards: tuple[AccessGuard, ...]


class ElementDefinition(NamedTuple):
    """What a store, a host call or an assumption makes of an element; `None` is any value, as `undef()` is."""

    guard: AccessGuard
    tensor: Tensor
    indices: IntegerIndices
    value: Operand | None


def expanded(operand: Part, names: NamedOperands) -> Part:
    """An operand with names replaced by their values, and shapes of parameters by their declared extents."""
    values: dict[Operand, Operand] = dict(names.items())
    for node in nodes(operand):
        if isinstance(node, Expr) and isinstance(node.data, ir.ShapeOf) and node.args[0].is_const:
            values[node] = node.data.tensor.extents[node.args[0].data]
    return replaced(operand, values) if values else operand


def guard_of(cond: Operand, holds: bool = True) -> AccessGuard:
    """The integer conjuncts of a condition, or of its negation."""
    conditions: list[Cond] = []
    is_complete = True
    stack: list[tuple[Operand, bool]] = [(cond, holds)]
    while stack:
        node, positive = stack.pop()
        if node.op is ops.NOT:
            stack.append((node.args[0], not positive))
        elif node.op in ((ops.AND,) if positive else (ops.OR,)):
            stack += [(node.args[1], positive), (node.args[0], positive)]
        elif isinstance(node, Cond) and not dag.opaque_terms(node):
            conditions += dag.conjuncts(node if positive else ~node)
        elif not (isinstance(node, Value) and node.op is NUMBER and bool(node.data) is positive):
            is_complete = False
    return AccessGuard(tuple(conditions), is_complete)


def reads_of(operands: Sequence[Operand], expand: Callable[[Operand], Operand]) -> Iterator[ElementReads]:
    """The elements that operands read.

    Invariant: lazy operations (`and`, `or`, `select`) read a branch only where their conditions select it.

    Parameters
    ----------
    expand: replaces names in indices and guards; nodes stay as written.
    """
    guards_of: dict[Operand, list[AccessGuard]] = {}
    done: set[tuple[Operand, AccessGuard]] = set()
    stack: list[tuple[Operand, AccessGuard]] = [(operand, ALWAYS) for operand in reversed(operands)]
    visits = 0
    while stack:
        node, guard = stack.pop()
        if (node, guard) in done or (node, ALWAYS) in done:
            continue
        done.add((node, guard))
        visits += 1
        if visits > GUARD_VISITS:
            guard = SOMETIMES
        if loaded_tensor(node) is not None:
            guards_of.setdefault(node, []).append(guard)
        branches = lazy_branches(node)
        if branches is None or visits > GUARD_VISITS:
            stack.extend((arg, guard) for arg in reversed(read_arguments(node)))
            continue
        for arg, cond, holds in reversed(branches):
            stack.append((arg, guard if cond is None else guard.joined(guard_of(expand(cond), holds))))
    for node, guards in guards_of.items():
        tensor = loaded_tensor(node)
        assert tensor is not None
        told = (ALWAYS,) if ALWAYS in guards else tuple(guards) if len(guards) <= ACCESS_GUARDS else (SOMETIMES,)
        yield ElementReads(node, tensor, indices_of([as_expr(expand(e)) for e in read_indices(node)]), told)


def always_read(*operands: Operand) -> set[Operand]:
    """The elements read whenever operands are computed, outside branches of `and`, `or` and `select`."""
    return {read.node for read in reads_of(operands, lambda operand: operand) if read.guards == (ALWAYS,)}


def indices_of(args: Sequence[Expr]) -> IntegerIndices:
    """IntegerIndices, with `None` for each that depends on data."""
    return tuple(None if dag.opaque_terms(e) else e for e in args)


def read_arguments(node: Operand) -> Sequence[Operand]:
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        body = replaced(node.data.body, dict(zip(node.data.params, node.args, strict=True)))
        return (body, *node.args)
    return node.args


def lazy_branches(node: Operand) -> list[tuple[Operand, Operand | None, bool]] | None:
    """Arguments of a lazy operation, paired with their selecting condition and its required truth."""
    args = node.args
    if node.op is ops.SELECT:
        return [(args[0], None, True), (args[1], args[0], True), (args[2], args[0], False)]
    if node.op is ops.AND and len(args) == 2:
        return [(args[0], None, True), (args[1], args[0], True)]
    if node.op is ops.OR and len(args) == 2:
        return [(args[0], None, True), (args[1], args[0], False)]
    return None


# -- assumptions -----------------------------------------------------------------------------------------------------


def definitions(cond: Operand) -> list[ElementDefinition]:
    """The values that an assumption gives to elements: `i < n or A[i] == 0` defines `A[i]` where `i >= n`."""
    return [defined for node, guard in _consequences(cond) for defined in _equation(node, guard)]


def bounds(cond: Operand) -> list[tuple[AccessGuard, Operand, Operand]]:
    """The comparisons of one element that an assumption implies, except definitions.

    Returns
    -------
    Guard, element and comparison of each.
    """
    found: list[tuple[AccessGuard, Operand, Operand]] = []
    for node, guard in _consequences(cond):
        elements = [part for part, _ in elements_read(node)]
        is_bound = node.op in ops.COMPARISONS and len(elements) == 1 and not ir.has_undef(node)
        if is_bound and not _equation(node, guard) and None not in indices_of(read_indices(elements[0])):
            found.append((guard, elements[0], node))
    return found


def _consequences(cond: Operand) -> Iterator[tuple[Operand, AccessGuard]]:
    """Split an assumption into guarded conjuncts."""
    stack: list[tuple[Operand, AccessGuard]] = [(cond, ALWAYS)]
    while stack:
        node, guard = stack.pop()
        if node.op is ops.AND:
            stack += [(arg, guard) for arg in reversed(node.args)]
        elif node.op is ops.OR:
            for k, arg in enumerate(node.args):
                others = [guard_of(other, False) for j, other in enumerate(node.args) if j != k]
                unless = reduce(AccessGuard.joined, others, ALWAYS)
                if unless.is_complete:
                    stack.append((arg, guard.joined(unless)))
        else:
            yield node, guard


def _equation(node: Operand, guard: AccessGuard) -> list[ElementDefinition]:
    """The element that an equation, or `isnan`, defines; of two elements the left one."""
    sides: Sequence[Operand] = node.args if node.op is ops.EQ else ()
    if node.op is CALL and node.data == "isnan":
        sides = (node.args[0], constant(math.nan, dtype_of(node.args[0])))
    for element, value in (sides, sides[::-1]) if sides else ():
        tensor = loaded_tensor(element)
        if tensor is None:
            continue
        indices = indices_of(read_indices(element))
        if None not in indices:
            return [ElementDefinition(guard, tensor, indices, None if ir.has_undef(value) else value)]
    return []


END = 1 << 30  # a position behind all items of a loop


class LoopNode:
    """A loop, or the whole function, with the writes and loops directly inside, in text order.

    Attributes
    ----------
    vars: the variables of this loop and of the loops around it, outermost first.
    position: its index in the items of `parent`.
    ranges: integer conditions bounding `vars`.
    limits: first value and extent.
    writes: the writes inside, at any depth, by storage.
    """

    def __init__(
        self, parent: LoopNode | None, var: Var | None, ranges: tuple[Cond, ...], limits: tuple[Expr, Expr] | None
    ) -> None:
        self.parent, self.limits = parent, limits
        self.ranges: tuple[Cond, ...] = (*(() if parent is None else parent.ranges), *ranges)
        self.vars: tuple[Var, ...] = () if parent is None or var is None else (*parent.vars, var)
        self.position = 0 if parent is None else len(parent.items)
        self.items: list[WriteAccess | LoopNode] = []
        self.writes: dict[TensorStorage, list[WriteAccess]] = {}
        if parent is not None:
            parent.items.append(self)

    @property
    def depth(self) -> int:
        return len(self.vars)

    def around(self) -> Iterator[LoopNode]:
        """This loop and the loops around it, innermost first."""
        loop: LoopNode | None = self
        while loop is not None:
            yield loop
            loop = loop.parent


class TensorStorage:
    """Storage of a parameter or an `allocate`. Every iteration around an `allocate` starts with fresh storage.

    Attributes
    ----------
    loop: the innermost loop around the `allocate`; `None` for a parameter.
    position: the number of items of `loop` in front of the `allocate`.
    """

    def __init__(self, tensor: Tensor, loop: LoopNode | None, padding: ir.Padding | None) -> None:
        self.tensor, self.loop, self.padding = tensor, loop, padding
        self.position = 0 if loop is None else len(loop.items)

    @property
    def is_param(self) -> bool:
        return self.loop is None


class StmtSite(driver.Descent):
    """A statement with the loops and conditions around it.

    Attributes
    ----------
    loop: the innermost loop around it.
    guard: the conditions under which it is reached.
    names: the values of names and of loop-carried variables.
    reads: by the element as written; by the tensor, for the tensors that a host call reads.
    """

    __slots__ = ("_body", "guard", "loop", "names", "path", "reads", "stmt", "writes")
    stmt: ir.Stmt

    def __init__(self, path: Path, loop: LoopNode, guard: AccessGuard, names: NamedOperands) -> None:
        self.path, self.loop, self.guard, self.names = path, loop, guard, names
        self.reads: dict[Operand | Tensor, ReadAccess] = {}
        self.writes: list[WriteAccess] = []
        self._body: StmtSite | None = None

    def expanded(self, operand: Part) -> Part:
        """An operand over loop variables and sizes."""
        return expanded(operand, self.names)

    # -- the walk -----------------------------------------------------------------------------------------------

    def item(self, k: int) -> StmtSite:
        return StmtSite((*self.path, k), self.loop, self.guard, self.names)

    def inside(self, loop: ir.For) -> StmtSite:
        if self._body is None:
            low, extent = (expanded(e, self.names) for e in range_ends(loop.range))
            within = self.guard.joined(guard_of((loop.var >= low) & (loop.var < low + extent)))
            own = within.conditions[len(self.guard.conditions) :]
            names = {v: e for v, e in self.names.items() if v is not loop.var}
            names |= {c.var: _carried(c, loop.var, low, self.names) for c in loop.carried}
            node = LoopNode(self.loop, loop.var, own, (low, extent))
            self._body = StmtSite((*self.path, 0), node, within, names)
        return self._body

    def then(self, branch: ir.If) -> StmtSite:
        return self._branch(0, branch, True)

    def otherwise(self, branch: ir.If) -> StmtSite:
        return self._branch(1, branch, False)

    def _branch(self, k: int, branch: ir.If, holds: bool) -> StmtSite:
        guard = self.guard.joined(guard_of(self.expanded(branch.cond), holds))
        return StmtSite((*self.path, k), self.loop, guard, self.names)

    def after(self, old: ir.Stmt, new: ir.Stmt) -> StmtSite:
        if isinstance(old, ir.Assert):
            return StmtSite(self.path, self.loop, self.guard.joined(guard_of(self.expanded(old.cond))), self.names)
        if isinstance(old, ir.Let):
            return StmtSite(self.path, self.loop, self.guard, {**self.names, old.var: _named(old, self.names)})
        return self

    def at_end_of(self, loop: ir.For) -> StmtSite:
        """The end of an iteration of a loop at this site, where the next values of carried variables are computed."""
        body = self.inside(loop)
        end = StmtSite(self.path, body.loop, body.guard, body.names)
        end.stmt = loop
        return end


class Access:
    """Elements that a statement reads or writes.

    Attributes
    ----------
    position: the number of items of `loop` in front of it.
    guards: alternative conditions; the access is executed where the site's guard and one of these conditions are true.
    """

    def __init__(
        self, site: StmtSite, storage: TensorStorage, indices: IntegerIndices, guards: tuple[AccessGuard, ...]
    ) -> None:
        self.site, self.storage, self.indices, self.guards = site, storage, indices, guards
        self.loop, self.position = site.loop, len(site.loop.items)


class ReadAccess(Access):
    """A read; `node` is the element as written, `None` for a tensor that a host call reads."""

    node: Operand | None = None


class WriteAccess(Access):
    """A write, or an assumption that defines elements.

    Attributes
    ----------
    kind: "store", "call" or "assume".
    value: over the variables of the loops; `None` if unknown.
    """

    kind = "store"
    value: Operand | None = None


class AssumedBound(WriteAccess):
    """Comparisons with an element that an assumption implies.

    Invariant: items of the loop contain it, writes of the program do not.

    Attributes
    ----------
    element, relations: over the variables of the loops.
    """

    kind = "bound"
    element: Operand
    relations: Sequence[Operand] = ()


class Program:
    """The loops, sites and accesses of a function.

    Invariant: `sites` maps each statement path, except paths of sequences, to one site.
    """

    def __init__(self, f: ir.Function) -> None:
        self.f = f
        self.root = LoopNode(None, None, (), None)
        self.storages: list[TensorStorage] = []
        self.sites: dict[Path, StmtSite] = {}
        self.reads: dict[TensorStorage, list[ReadAccess]] = {}
        self.writes: dict[TensorStorage, list[WriteAccess]] = {}
        self.bounds: dict[TensorStorage, list[AssumedBound]] = {}
        self._in_sight = {t: self._new_storage(t, None, f.padding.get(t)) for t in f.params}
        for stmt, site in driver.walked(f.body, StmtSite((), self.root, ALWAYS, {})):
            if not isinstance(stmt, ir.Seq) or ir.is_empty(stmt):
                site.stmt = stmt
                self.sites[site.path] = site
                self._note(stmt, site)

    # -- text ---------------------------------------------------------------------------------------------------

    @cached_property
    def line_numbers(self) -> dict[Path, int]:
        """The line of each statement in `str(f)`, for reports."""
        return statement_lines(self.f)

    @cached_property
    def paths(self) -> dict[int, Path]:
        """The path of the statement that begins in each line."""
        return {line: path for path, line in self.line_numbers.items()}

    @cached_property
    def lines(self) -> dict[Path, PrintedLine]:
        """The printed line of each statement."""
        return {line.path: line for line in function_lines(self.f) if line.stmt is not None}

    # -- accesses -----------------------------------------------------------------------------------------------

    def _new_storage(self, tensor: Tensor, loop: LoopNode | None, padding: ir.Padding | None) -> TensorStorage:
        storage = TensorStorage(tensor, loop, padding)
        self.storages.append(storage)
        self.reads[storage], self.writes[storage] = [], []
        return storage

    def _note(self, stmt: ir.Stmt, site: StmtSite) -> None:
        """Note the accesses of a statement itself."""
        if isinstance(stmt, ir.For):
            self._note_reads(site, *range_ends(stmt.range), *(c.first for c in stmt.carried))
            self._note_carried(stmt, site)
        elif isinstance(stmt, ir.Store):
            self._note_reads(site, *stmt.indices, stmt.value)
            indices = indices_of([site.expanded(e) for e in stmt.indices])
            stored = ElementDefinition(ALWAYS, stmt.tensor, indices, site.expanded(stmt.value))
            self._note_write(site, "store", stored)
        elif isinstance(stmt, ir.Evaluate):
            for tensor in stmt.reads:
                self._note_read(tensor, ReadAccess(site, self._in_sight[tensor], (None,) * tensor.ndim, (ALWAYS,)))
            self._note_reads(site, *operands(stmt))
            for tensor in stmt.writes:
                self._note_write(site, "call", ElementDefinition(SOMETIMES, tensor, (None,) * tensor.ndim, None))
        elif isinstance(stmt, ir.Assume):
            if not ir.has_undef(stmt.cond):  # else it permits a read, and is none
                self._note_reads(site, stmt.cond)
            cond = site.expanded(stmt.cond)
            for definition in definitions(cond):
                self._note_write(site, "assume", definition)
            self._note_bounds(site, cond)
        else:
            self._note_reads(site, *operands(stmt))
            if isinstance(stmt, ir.Allocate):
                self._in_sight[stmt.tensor] = self._new_storage(stmt.tensor, site.loop, stmt.padding)

    def _note_carried(self, stmt: ir.For, site: StmtSite) -> None:
        """Note the reads for the next values of carried variables, behind each iteration."""
        for carry in stmt.carried:
            end = site.at_end_of(stmt)
            for node, tensor, indices, guards in reads_of([carry.following], end.expanded):
                read = ReadAccess(end, self._in_sight[tensor], (None,) * len(indices), guards)
                read.node, read.position = node, END
                self._note_read(node, read)
                site.reads.setdefault(node, read)

    def _note_reads(self, site: StmtSite, *values: Operand) -> None:
        for node, tensor, indices, guards in reads_of(values, site.expanded):
            read = ReadAccess(site, self._in_sight[tensor], indices, guards)
            read.node = node
            self._note_read(node, read)

    def _note_read(self, key: Operand | Tensor, read: ReadAccess) -> None:
        read.site.reads[key] = read
        self.reads[read.storage].append(read)

    def _note_bounds(self, site: StmtSite, cond: Operand) -> None:
        """Note the comparisons with elements that an assumption implies."""
        relations: dict[tuple[Operand, AccessGuard], list[Operand]] = {}
        for guard, element, relation in bounds(cond):
            relations.setdefault((element, guard), []).append(relation)
        for (element, guard), own in relations.items():
            tensor = loaded_tensor(element)
            assert tensor is not None
            bound = AssumedBound(site, self._in_sight[tensor], indices_of(read_indices(element)), (guard,))
            bound.element, bound.relations = element, own
            self.bounds.setdefault(bound.storage, []).append(bound)
            _append(bound)

    def _note_write(self, site: StmtSite, kind: str, made: ElementDefinition) -> None:
        write = WriteAccess(site, self._in_sight[made.tensor], made.indices, (made.guard,))
        write.kind, write.value = kind, made.value
        site.writes.append(write)
        self.writes[write.storage].append(write)
        _append(write)


def _append(write: WriteAccess) -> None:
    """Append a write to the items of its loop."""
    write.loop.items.append(write)
    for loop in write.loop.around():
        loop.writes.setdefault(write.storage, []).append(write)


def _named(stmt: ir.Let, names: NamedOperands) -> Operand:
    """The value of a name, if no later store changes it; otherwise an unknown of its own."""
    value = expanded(stmt.value, names)
    if not tensors_read(value) and not ir.has_undef(value):
        return value
    return opaque(stmt.var.name) if isinstance(stmt.var, Var) else stmt.var


def _carried(carry: ir.Carry, var: Var, low: Expr, names: NamedOperands) -> Operand:
    """The value of a carried variable that moves by a constant step; otherwise an unknown of its own."""
    first, following = expanded(carry.first, names), carry.following
    if following.op is ops.ADD and following.args[0] is carry.var and not dag.opaque_terms(first):
        step = following.args[1]
        if isinstance(step, Expr) and step.is_const:
            return first + (var - low) * step
    return opaque(carry.var.name)
