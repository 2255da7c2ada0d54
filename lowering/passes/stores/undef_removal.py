"""`remove_undef`: no value is left open; what nobody knows is not stored, or is 0."""

from __future__ import annotations

from dataclasses import replace

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp, constant
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.node import const, truth
from lowering.nest.ir import Assume, Evaluate, Function, Seq, Stmt, Store, checked_function
from lowering.nest.undef import has_undef, is_undef, undefs
from lowering.nest.walk import Visit, drive, map_operands, operands, statements, tensors_read, with_children
from lowering.passes.places import Entry, Place, Report, places, proves, root_of
from lowering.passes.stores.assumptions import check_assumptions
from lowering.passes.stores.dead_code import rebuilt
from lowering.passes.stores.reaching_values import Known

_LAZY = (ops.SELECT, ops.AND, ops.OR, ValueOp.SELECT, ValueOp.AND, ValueOp.OR)


def remove_undef(f: Function, report: list[Entry] | None = None) -> Function:
    """The function without `undef()`, but in assumptions.

    A store of a value made of one is left out; where a later read would then meet an element that holds nothing, and
    where the value is one only sometimes, 0 takes the place of the `undef()`. What was not known there before now is
    what the element held: passes that rely on what elements hold may do more, never less.

    Parameters
    ----------
    report: gets an `Entry` for each store of an `undef()`.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "remove_undef")
    checked = check_assumptions(f)
    if not any(has_undef(*operands(s)) for s in statements(f.body) if not isinstance(s, Assume)):
        return f
    said = Report(f)
    open_ = [place for place in places(f) if isinstance(place.stmt, Store) and always_undef(place.stmt.value)]
    read = _read_before_written(checked or Known(f), open_) if open_ else set()
    gone = {place.path for place in open_} - read
    for place in open_:
        if place.path in gone:
            said.say(place.path, True, "a value that nobody knows is not stored")
        else:
            said.say(place.path, True, "0 is stored: what reads the element would meet one that holds nothing")

    def visit(place: Place) -> Visit[Stmt]:
        if place.path in gone:
            return Seq()
        inner: list[Stmt] = []
        for child in place.inside():
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        stmt = rebuilt(place.stmt, inner)
        if isinstance(stmt, (Assume, Seq)):
            return stmt
        if isinstance(stmt, Store) and place.path in read:
            return replace(stmt, value=zero(stmt.tensor.dtype))
        if has_undef(*operands(stmt)):
            said.say(place.path, True, "0 takes the place of an undef() that is not always what counts")
            return map_operands(stmt, _with_zeros)
        return stmt

    body = drive(visit(root_of(f)))
    said.give(report)
    return f.with_body(body)


def always_undef(value: Operand) -> bool:
    """Whether a value is made of an `undef()` whenever it is computed."""
    stack = [value]
    while stack:
        node = stack.pop()
        if is_undef(node):
            return True
        if node.op in _LAZY:
            if node.op in (ops.SELECT, ValueOp.SELECT) and all(always_undef(arg) for arg in node.args[1:]):
                return True
            continue
        stack += node.args
    return False


def zero(dtype: str) -> Operand:
    """The 0 of a type."""
    if dtypes.is_int(dtype):
        return const(0)
    return truth(False) if dtype == "bool" else constant(0.0, dtype)


def _with_zeros(operand: Operand) -> Operand:
    if not has_undef(operand):
        return operand
    new = {node: zero(node.dtype) if isinstance(node, Value) else const(0) for node in undefs(operand)}
    return walk.rewrite(operand, new)


def _read_before_written(known: Known, stores: list[Place]) -> set[tuple[int, ...]]:
    """The stores whose element is read later and might hold nothing without them."""
    f = known.f
    by_line = {known.line(place): place for place in stores}
    found: set[tuple[int, ...]] = set()
    probable: list[tuple[Place, Operand | Tensor, set[tuple[int, ...]]]] = []
    targets = {place.stmt.tensor for place in stores if isinstance(place.stmt, Store)}
    for place in places(f):
        if not targets & _read_by(place.stmt):
            continue
        for node, sources in known.sources(place).items():
            writers = {by_line[s.line].path for s in sources if s.line in by_line}
            unclear = any(s.kind == "unknown" and s.line is None for s in sources)
            if unclear:
                tensor = node if isinstance(node, Tensor) else loaded_tensor(node)
                writers |= {w.path for w in stores if isinstance(w.stmt, Store) and w.stmt.tensor is tensor}
            if writers:
                probable.append((place, node, writers))
    if not probable:
        return set()
    # without any of them: what would the reads meet?
    gone = {place.path for place in stores}

    def visit(place: Place) -> Visit[Stmt]:
        if place.path in gone:
            return Assume(truth(True), True)  # what reads nothing, in its place
        inner: list[Stmt] = []
        for child in place.inside():
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        return _same_shape(place.stmt, inner)

    bare = f.with_body(drive(visit(root_of(f))))
    without = Known(bare)
    at = {place.path: place for place in places(bare)}
    for place, node, writers in probable:
        for source in without.sources(at[place.path]).get(node, ()):
            is_held = source.kind in ("store", "assume") and source.line is not None
            if not is_held and not proves(place.scope, ~source.where):
                found |= writers
    return found


def _read_by(stmt: Stmt) -> set[Tensor]:
    whole = stmt.reads if isinstance(stmt, Evaluate) else ()
    return {*whole, *tensors_read(*operands(stmt))}


def _same_shape(stmt: Stmt, inner: list[Stmt]) -> Stmt:
    return with_children(stmt, tuple(inner)) if inner or isinstance(stmt, Seq) else stmt
