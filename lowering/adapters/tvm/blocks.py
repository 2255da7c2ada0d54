"""A nest as a `PrimFunc` with blocks, as schedules of TVM need it.

Each store is a block over the loops around it. Branches, names of data and loops over dependent ranges get a block of
their own, with inner blocks for the stores inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import stmt as tir

from intset.errors import InputError
from intset.expr.arguments import of_kind
from intset.expr.dag import opaque_terms
from intset.expr.printer import shown
from lowering.adapters.tvm.foreign import ForeignCall, written_tensors
from lowering.adapters.tvm.initialization import guarded, is_initialization, with_guarded_initializations
from lowering.adapters.tvm.iterations import iterations
from lowering.adapters.tvm.reading import DETECTED, PrimFunc, annotations_of
from lowering.adapters.tvm.writing import INDEX, PrimFuncWriter, TirStmt, TirTerm
from lowering.nest.driver import Cursor, synthesized
from lowering.nest.ir import (
    Allocate,
    Assert,
    Assume,
    BlockLabel,
    Evaluate,
    For,
    Function,
    If,
    Let,
    LoopKind,
    Seq,
    Stmt,
    Store,
    checked_function,
    seq,
)
from lowering.nest.scope import Scope
from lowering.nest.walk import range_ends, statements, touched, variables
from lowering.passes.values.cse import inline_values

_READS_AND_WRITES = 3
_SEQUENTIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


def to_tvm(f: Function, like: PrimFunc | None = None, blocks: bool = True) -> PrimFunc:
    """A nest as a function of TVM, which TVM schedules and compiles.

    Each store is a block over the loops around it, named after its tensor. Indices that fuse split loops become
    iteration variables of the block, limits on them its predicate, stores of a reduction's first iteration `T.init`.
    Branches, names of data and loops over dependent ranges get a block of their own.

    Integers are computed in 64 bits, as the interpreter does, and converted to the type of the tensor where they are
    stored. `and`, `or` and `select` whose later operands read elements or divide are `if_then_else`, so they stay lazy.
    Parameters are the tensors, then the sizes that no shape tells, then the scalars. Assumptions become `T.assume`, and
    `undef()` becomes `T.undef`, whose stores TVM's `RemoveStoreUndef` removes; padding declarations are dropped.

    Parameters
    ----------
    like: the function that the nest was read from. Parameters keep its order and, where name, type and shape are the
        same, its buffers with strides, offsets and alignment; its attributes stay.
    blocks: whether to write blocks, which `s_tir.Schedule` requires. Without them statements correspond one to one.

    Raises
    ------
    InputError: a statement or operation unsupported by TVM, named in the message.
    """
    checked_function(f, "to_tvm")
    if like is not None and not isinstance(like, tirx.PrimFunc):
        raise InputError(f"like must be a PrimFunc of TVM, not {shown(like)}")
    return (BlockWriter if of_kind(bool, blocks, "blocks", "True or False") else PrimFuncWriter)(f, like).function()


class BlockCursor(Cursor):
    """A position among blocks.

    Attributes
    ----------
    around: the loops between the enclosing block and here, outermost first.
    is_inside: whether statements here are the body of a block, which no block divides any further.
    opened: the body of the enclosing block.
    storage: the buffers that the enclosing block allocates.
    """

    __slots__ = ("around", "is_inside", "opened", "storage")
    around: tuple[For, ...]
    is_inside: bool
    opened: Stmt | None
    storage: list[TirTerm]

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.around, self.is_inside, self.opened, self.storage = (), False, None, []

    def inside(self, loop: For) -> BlockCursor:
        return super().inside(loop).moved(around=(*self.around, loop))


class BlockWriter(PrimFuncWriter):
    """The conversion of one nest to blocks."""

    _widens = True

    def __init__(self, f: Function, like: PrimFunc | None) -> None:
        super().__init__(with_guarded_initializations(inline_values(f)), like)
        self._allocated: list[TirTerm] = []
        self._labels: dict[str, int] = {"root": 1}
        self._sizes = {*self.f.sizes, *self.f.scalars}

    def function(self) -> PrimFunc:
        params = self._parameters()
        body = synthesized(self.f.body, BlockCursor.root(self.f), self._rules())
        former = None if self.like is None else self.like.body
        marks = dict(annotations_of(former.block)) if isinstance(former, SBlockRealize) else {}
        root = SBlock([], [], [], "root", body, None, self._allocated, annotations=marks)
        func = self._named(tirx.PrimFunc(params, SBlockRealize([], True, root)), has_blocks=True)
        return tvm.get_global_func("script.Complete")(func, [], True)

    def _rules(self) -> dict[type[Stmt], Callable[[Any, Any], Any]]:
        rules = super()._rules()
        kinds: tuple[type[Stmt], ...] = (Store, If, Let, Assert, Assume, Evaluate)
        outside = {kind: self._or_block(rules[kind]) for kind in kinds}
        return {**rules, **outside, For: self._loop, Seq: self._sequence, Allocate: self._allocation}

    def _or_block(self, rule: Callable[[Any, Any], Any]) -> Callable[[Any, BlockCursor], Any]:
        """A rule that opens a block around a statement, unless the cursor is already inside one."""
        return lambda stmt, here: rule(stmt, here) if here.is_inside or here.opened is stmt else self._block(stmt, here)

    def _loop(self, stmt: For, here: BlockCursor) -> TirStmt:
        ends = range_ends(stmt.range)
        own = {loop.var for loop in here.around}
        if here.opened is not stmt and (own & set(variables(*ends)) or opaque_terms(*ends)):
            return self._block(stmt, here)
        return self._for(stmt, here)

    def _sequence(self, stmt: Seq, here: BlockCursor) -> TirStmt:
        parts, waiting = [], list(stmt.stmts)
        is_divided = not here.is_inside and here.opened is not stmt
        while waiting:
            count = self._together(waiting, here) if is_divided else 1
            together, waiting = seq(*waiting[:count]), waiting[count:]
            own = here if is_divided or isinstance(together, For) else here.moved(opened=together)
            if count > 1:
                part = yield from self._block(together, own)
            else:
                part = yield together, own
            parts += [] if part is None else [part]
        if len(parts) == 1:
            return parts[0]
        return tir.SeqStmt(parts) if parts else tir.Evaluate(0)

    def _together(self, stmts: Sequence[Stmt], here: BlockCursor) -> int:
        """How many statements at the front stand in one block."""
        first = stmts[0]
        if isinstance(first, Let) or (isinstance(first, Allocate) and not self._is_common(first, here)):
            return len(stmts)  # its name reaches to the end
        start = guarded(first)
        if not isinstance(first, If) or start is None or not is_initialization(start.stmts):
            return 1
        missing = {s.tensor for s in start.stmts if isinstance(s, Store)}
        for k, stmt in enumerate(stmts[1:], 1):
            if isinstance(stmt, Let):
                return len(stmts)
            if not isinstance(stmt, Store):
                return 1
            missing.discard(stmt.tensor)
            if not missing:
                return k + 1
        return 1

    def _is_common(self, stmt: Allocate, here: BlockCursor) -> bool:
        """Whether the function allocates it: fixed extents inside sequential loops."""
        return self._is_fixed(stmt) and all(loop.kind in _SEQUENTIAL for loop in here.loops)

    def _is_fixed(self, stmt: Allocate) -> bool:
        """Whether extents of a storage depend on sizes alone."""
        ends = [e for r in stmt.ranges for e in range_ends(r)[1:]]
        return set(variables(*ends)) <= self._sizes and not opaque_terms(*ends)

    def _allocation(self, stmt: Allocate, here: BlockCursor) -> TirTerm:
        made = self._allocate(stmt, here)
        if not self._is_fixed(stmt):
            return made
        (self._allocated if self._is_common(stmt, here) else here.storage).append(made.buffer)
        return None

    def _block(self, stmt: Stmt, here: BlockCursor) -> TirStmt:
        found = iterations(here.around, here.scope, stmt)
        name = self._label(stmt)
        values = [self._terms(axis.value) for axis in found.axes]
        predicate = [self._terms(cond) for cond in found.predicate]
        scope, iter_vars = here.scope, []
        for axis in found.axes:
            low, extent = (self._terms(end) for end in range_ends(axis.domain))
            var = self._bound(axis.var, tirx.Var(axis.var.name, INDEX))
            iter_vars.append(tirx.IterVar(tvm.ir.Range.from_min_extent(low, extent), var, int(axis.kind)))
            scope = scope.inside(For(axis.var, axis.domain, seq()))
        is_leaf = not any(isinstance(part, For) for part in statements(found.body))
        inside = here.moved(scope=scope, around=(), is_inside=is_leaf, opened=found.body, storage=[])
        init = None
        if found.init is not None:
            init = yield found.init, inside
        body = yield found.body, inside
        labels = _labels(found.body) if is_leaf else ()
        marks = {key: value for label in labels for key, value in label.annotations}
        reads, writes = self._regions(found.body) if is_leaf else ([], [])
        if not reads and not writes:
            marks[DETECTED] = tirx.IntImm("int32", _READS_AND_WRITES)
        block = SBlock(iter_vars, reads, writes, name, body, init, inside.storage, annotations=marks)
        return SBlockRealize(values, functools.reduce(tirx.And, predicate) if predicate else True, block)

    def _regions(self, stmt: Stmt) -> tuple[list[TirTerm], list[TirTerm]]:
        """The tensors that a block reads and writes, whole, if it passes pointers to them; else TVM infers regions."""
        calls = [part for part in statements(stmt) if isinstance(part, Evaluate)]
        if all(isinstance(part.call, ForeignCall) and part.call.is_plain for part in calls):
            return [], []
        tensors = dict.fromkeys((*touched(stmt), *(t for part in calls for t in (*part.reads, *part.writes))))
        regions = {t: _whole(self._buffers[t]) for t in tensors if t in self._buffers}
        return list(regions.values()), [regions[t] for t in written_tensors(stmt) if t in regions]

    def _label(self, stmt: Stmt) -> str:
        """A name that no other block has: that of the former block, else the first tensor that a block stores."""
        stores = [part.tensor.name for part in statements(stmt) if isinstance(part, Store)]
        calls = [part.call.name for part in statements(stmt) if isinstance(part, Evaluate)]
        labels = _labels(stmt)
        first = labels[-1].name if labels else [*stores, *calls, type(stmt).__name__.lower()][0]
        stem = f"{first}_o" if any(isinstance(part, For) for part in statements(stmt)) else first
        count = self._labels[stem] = self._labels.get(stem, 0) + 1
        return stem if count == 1 else f"{stem}_{count - 1}"


def _whole(buffer: TirTerm) -> TirTerm:
    """The region of all elements of a buffer."""
    return tirx.BufferRegion(buffer, [tvm.ir.Range.from_min_extent(tirx.IntImm(e.ty, 0), e) for e in buffer.ty.shape])


def _labels(stmt: Stmt) -> tuple[BlockLabel, ...]:
    """The former labels of the statements in a block, initialization first."""
    parts = [part.block for part in statements(stmt) if isinstance(part, (Store, Evaluate))]
    return tuple(dict.fromkeys(label for label in parts if label is not None))
