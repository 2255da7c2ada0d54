"""Names in the text of a nest, and alpha-renaming: every loop, name and allocation binds an object of its own.

Alpha-renaming: a pass that copies a statement renames the copy (`with_fresh_names`). Statements can then leave their
block without name clashes, for instance when a loop of one iteration is inlined.

Guarantee: every name is an identifier that the parser reads back, and two things in scope have different names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar, cast

from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import Value, parameter
from intset.expr import Var, dag
from lowering.nest import driver, ir
from lowering.nest.scope import redirected
from lowering.nest.walk import map_operands, read_by, replaced, statements, written_by

S = TypeVar("S", bound=ir.Stmt)

# Keywords of the text format.
RESERVED: Final = frozenset(
    "allocate and assert assume at def else False for holding if in inf nan not on or pass then True with".split()
)
IDENTIFIER: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_PLACE: Final = re.compile(r"y[0-9]+")


def unique_names(f: ir.Function) -> ir.Function:
    """Bind each loop, name and allocation to a variable or tensor of its own.

    Clashing names get a number. Of several allocations of one tensor the first keeps it.

    Guarantee: an alpha-renaming; each variable is bound once.
    """
    ir.checked_function(f, "unique_names")
    taken = frozenset((*(v.name for v in f.sizes), *(p.data[0] for p in f.scalars), *(t.name for t in f.params)))
    return f.with_body(_renamed(with_own_storage(f.body, f.params), taken))


def with_fresh_names(root: S) -> S:
    """A copy with fresh loop variables, names and storage."""
    return cast("S", _renamed(root, frozenset(), _own_storage(_allocated(root))))


def _allocated(root: ir.Stmt) -> list[Tensor]:
    return [stmt.tensor for stmt in statements(root) if isinstance(stmt, ir.Allocate)]


def with_own_storage(root: ir.Stmt, taken: Collection[Tensor] = ()) -> ir.Stmt:
    """Give every allocation its own tensor; the first in the text keeps its tensor.

    Parameters
    ----------
    taken: tensors that every allocation must replace.
    """
    allocated = _allocated(root)
    if len({*taken, *allocated}) == len(set(taken)) + len(allocated):
        return root
    return driver.rewritten(root, _OwnStorage({}), {ir.Stmt: (_own_storage(taken),)})


def _own_storage(taken: Iterable[Tensor]) -> driver.StmtRule[_OwnStorage]:
    """The rule of `with_own_storage`."""
    seen = set(taken)

    def own_tensors(stmt: ir.Stmt, here: _OwnStorage) -> ir.Stmt:
        new = here.tensors
        if isinstance(stmt, ir.Allocate):
            tensor = stmt.tensor
            another = Tensor(tensor.op, tensor.value_index, tensor.extents, tensor.dtype, tensor.value_range)
            new = {**new, tensor: another if tensor in seen else tensor}
            seen.add(tensor)
            return with_tensors(stmt, new)
        is_moved = new and not new.keys().isdisjoint((*read_by(stmt), *written_by(stmt)))
        return with_tensors(stmt, new) if is_moved else stmt

    return own_tensors


@dataclass(slots=True, eq=False)
class _OwnStorage(driver.Descent):
    """The tensors that replace allocated ones in scope."""

    tensors: Mapping[Tensor, Tensor]

    def after(self, old: ir.Stmt, new: ir.Stmt) -> Self:
        if isinstance(old, ir.Allocate) and isinstance(new, ir.Allocate):
            return replace(self, tensors={**self.tensors, old.tensor: new.tensor})
        return self


def with_tensors(stmt: ir.Stmt, new: Mapping[Tensor, Tensor]) -> ir.Stmt:
    """The statement with its own tensors replaced; statements inside are kept."""
    stmt = redirected(stmt, lambda tensor, at: (new[tensor], at) if tensor in new else None)
    if isinstance(stmt, ir.Allocate):
        return ir.with_fields(stmt, tensor=new.get(stmt.tensor, stmt.tensor))
    if isinstance(stmt, ir.Evaluate):
        args = tuple(new.get(a, a) if isinstance(a, Tensor) else a for a in stmt.call.args)
        reads, writes = (tuple(new.get(t, t) for t in tensors) for tensors in (stmt.reads, stmt.writes))
        return ir.with_fields(stmt, call=replace(stmt.call, args=args), reads=reads, writes=writes)
    return stmt


def _renamed(root: ir.Stmt, taken: frozenset[str], *before: driver.StmtRule[_Renaming]) -> ir.Stmt:
    """The nest with fresh variables; each statement is changed by other rules before."""
    enter: driver.StmtRules[_Renaming] = {
        ir.Stmt: (*before, lambda stmt, names: map_operands(stmt, names.renamed)),
        ir.For: (*before, _rename_loop),
        ir.Let: (*before, lambda stmt, names: ir.Let(names.fresh(stmt.var)[0], names.renamed(stmt.value))),
    }
    return driver.rewritten(root, _Renaming({}, {}, taken, {}), enter)


@dataclass(slots=True, eq=False)
class _Renaming(_OwnStorage):
    """Fresh variables in the place of those in sight.

    Attributes
    ----------
    new: what replaces a variable or parameter of the nest that is renamed.
    taken: the names in sight.
    old: for each fresh variable the variable that it replaces, over the whole walk.
    """

    new: Mapping[Parameter, Parameter]
    taken: frozenset[str]
    old: dict[Parameter, Parameter]

    def renamed(self, operand: Any) -> Any:
        """An operand in the fresh variables."""
        return replaced(operand, self.new)

    def binding(self, *fresh: Parameter) -> _Renaming:
        new = {**self.new, **{self.old[var]: var for var in fresh}}
        return _Renaming(self.tensors, new, self.taken.union(map(label_of, fresh)), self.old)

    def inside(self, loop: ir.For) -> _Renaming:
        return self.binding(loop.var, *(c.var for c in loop.carried))

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _Renaming:
        return self.binding(new.var) if isinstance(new, ir.Let) else _OwnStorage.after(self, old, new)

    def fresh(self, *variables: Parameter) -> list[Parameter]:
        """Fresh variables for the bound ones, with names distinct from all in sight."""
        taken = self.taken
        made: list[Parameter] = []
        for var in variables:
            made.append(_named(var, taken))
            self.old[made[-1]] = var
            taken |= {label_of(made[-1])}
        return made


def _rename_loop(loop: ir.For, names: _Renaming) -> ir.For:
    fresh = [var for var in names.fresh(loop.var, *(c.var for c in loop.carried)) if isinstance(var, Var)]
    if not loop.carried:
        return ir.with_fields(map_operands(loop, names.renamed), var=fresh[0])
    inner = names.binding(*fresh).new
    renamed = map_operands(ir.with_fields(loop, carried=()), names.renamed)
    carried: list[ir.Carry] = []
    for var, c in zip(fresh[1:], loop.carried, strict=True):
        first, following = names.renamed(c.first), replaced(c.following, inner)
        fact = None if c.fact is None else replaced(c.fact, inner)
        carried.append(ir.Carry(var, first, following, c.after_last, fact))
    return ir.with_fields(renamed, var=fresh[0], carried=tuple(carried))


def label_of(var: Var | Value) -> str:
    """The name of a variable or parameter."""
    return var.name if isinstance(var, Var) else str(var.data[0])


def untaken(stem: str, taken: Collection[str]) -> str:
    """A name that is not taken: the stem, or the stem with a number."""
    name, k = stem, 0
    while name in taken:
        k += 1
        name = f"{stem}_{k}"
    return name


def _named(var: Var | Value, taken: frozenset[str]) -> Var | Value:
    label = untaken(label_of(var), taken)
    return Var(label) if isinstance(var, Var) else parameter(label, var.dtype)


def identifier(label: str) -> str:
    """Turn a label into an identifier, changing as little as possible; reserved words get a `_`."""
    if IDENTIFIER.fullmatch(label) is None:
        parts = [re.sub(r"\W", "_", part) or "_" for part in label.split(".")]
        label = ".".join(f"_{part}" if part[0].isdigit() else part for part in parts)
        label = label if IDENTIFIER.fullmatch(label) else "_" + re.sub(r"\W", "_", label)
    return f"{label}_" if label in RESERVED else label


class Naming:
    """The names in scope while a text is written from top to bottom.

    Attributes
    ----------
    of: the names that differ from an object's own label, by object.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self.of: dict[object, str] = {}
        self._taken: dict[str, int] = dict.fromkeys(reserved, 0)
        self._bound: list[tuple[Any, str, int]] = []

    def bound(self, thing: Any, label: str, depth: int) -> str:
        """Name a thing up to the end of the block at this depth: by its label, with a number if taken."""
        name = untaken(identifier(label), self._taken)
        self._taken[name] = depth
        self._bound.append((thing, name, depth))
        if name == label:
            self.of.pop(thing, None)
        else:
            self.of[thing] = name
        return name

    def leave(self, depth: int) -> None:
        """Forget what the blocks deeper than this one have named."""
        while self._bound and self._bound[-1][2] > depth:
            thing, name, _ = self._bound.pop()
            del self._taken[name]
            self.of.pop(thing, None)


def place_names(root: ir.Stmt) -> frozenset[str]:
    """The names `y0`, `y1`, ... of variables in the origin of a storage, where `holding T[y0]` uses them for places."""
    used = (
        var.name
        for stmt in statements(root)
        if isinstance(stmt, ir.Allocate) and stmt.steps is not None
        for var in dag.free_vars(*(stmt.origin or ()))
    )
    return frozenset(name for name in used if _PLACE.fullmatch(name))
