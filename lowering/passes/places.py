"""The statements of a function with their lines and what is known where they stand; what a pass says of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import intset
from bound.tensor import Tensor
from bound.tir.build import truth_value
from bound.tir.opaque import IntFunction
from bound.tir.value import Operand, Truth, Value, ValueOp
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.arguments import of_kind
from intset.expr.node import Cond
from intset.expr.walk import conjuncts
from intset.prover.proof import Proof
from lowering.nest.ir import Allocate, For, Function, If, LoopKind, Padding, Seq, Stmt
from lowering.nest.printer import statement_lines
from lowering.nest.scope import Scope, scope_of
from lowering.nest.tensors import is_outside
from lowering.nest.walk import statements

MOVABLE = (LoopKind.SERIAL, LoopKind.PARALLEL)


@dataclass(frozen=True)
class Entry:
    """What a pass decided at a place.

    Attributes
    ----------
    line: the line of the place in the text of the function that was given; of a guard, that of its `if`.
    done: whether it was changed.
    reason: why, or why not.
    point: values of the loops around it, outermost first, at which it fails; `None` where none is known.
    """

    line: int
    done: bool
    reason: str
    point: tuple[int, ...] | None = None


class Report:
    """The entries of one pass, by place; the last word on a place counts.

    Parameters
    ----------
    lines: of the statements of `f`, by their paths, where they are told by those of another function.
    """

    def __init__(self, f: Function, lines: Mapping[tuple[int, ...], int] | None = None) -> None:
        self._lines = statement_lines(f) if lines is None else lines
        self._said: dict[tuple[tuple[int, ...], str], Entry] = {}

    def line(self, path: tuple[int, ...]) -> int:
        """The line of a statement; of a sequence, that of its first."""
        while path not in self._lines:
            path = (*path, 0)
        return self._lines[path]

    def say(
        self, path: tuple[int, ...], done: bool, reason: str, point: tuple[int, ...] | None = None, what: str = ""
    ) -> None:
        self._said[path, what] = Entry(self.line(path), done, reason, point)

    def give(self, report: list[Entry] | None, *more: Report) -> None:
        """Append the entries, and those of other reports, to the caller's list, in the order of the text."""
        if report is not None:
            of_kind(list, report, "report")
            entries = [entry for one in (self, *more) for entry in one._said.values()]
            report += sorted(entries, key=lambda entry: entry.line)


class Place:
    """A statement where it stands.

    Attributes
    ----------
    path: which of `children` leads to it from the body on.
    scope: what is known there.
    loops: the loops around it, outermost first.
    guards: the conditions of the branches around it, each with whether it holds.
    """

    __slots__ = ("guards", "loops", "path", "scope", "stmt")

    def __init__(
        self,
        stmt: Stmt,
        path: tuple[int, ...],
        scope: Scope,
        loops: tuple[For, ...],
        guards: tuple[tuple[If, bool], ...] = (),
    ) -> None:
        self.stmt, self.path, self.scope, self.loops, self.guards = stmt, path, scope, loops, guards

    def inside(self) -> Iterator[Place]:
        """The statements directly inside."""
        stmt, scope = self.stmt, self.scope
        if isinstance(stmt, Seq):
            for k, inner in enumerate(stmt.stmts):
                yield Place(inner, (*self.path, k), scope, self.loops, self.guards)
                scope = scope.after(inner)
        elif isinstance(stmt, For):
            yield Place(stmt.body, (*self.path, 0), scope.inside(stmt), (*self.loops, stmt), self.guards)
        elif isinstance(stmt, If):
            yield Place(stmt.then, (*self.path, 0), scope.then(stmt), self.loops, (*self.guards, (stmt, True)))
            if stmt.orelse is not None:
                other = scope.otherwise(stmt)
                yield Place(stmt.orelse, (*self.path, 1), other, self.loops, (*self.guards, (stmt, False)))

    def point(self, proof: Proof) -> tuple[int, ...] | None:
        """The values of the loops at a counterexample."""
        found: Any = proof.counterexample or {}
        values = [found.get(loop.var) for loop in self.loops]
        return None if not values or any(value is None for value in values) else tuple(values)


def root_of(f: Function) -> Place:
    return Place(f.body, (), scope_of(f), ())


def places(f: Function) -> Iterator[Place]:
    """Every statement but sequences, outer ones first, in the order of the text."""
    stack = [root_of(f)]
    while stack:
        place = stack.pop()
        stack.extend(reversed(list(place.inside())))
        if not isinstance(place.stmt, Seq):
            yield place


def proof_of(scope: Scope, cond: Cond) -> Proof:
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return scope.ctx.prove(cond)


def proves(scope: Scope, cond: object) -> bool:
    """Whether a condition is known to hold at a place."""
    return isinstance(cond, Cond) and bool(proof_of(scope, cond))


def parts_of_condition(cond: Truth) -> list[Truth]:
    """The conditions whose conjunction this is, also where they depend on floats."""
    found: list[Truth] = []
    stack = [cond]
    while stack:
        node = stack.pop()
        if node.op is ValueOp.AND:
            stack += [truth_value(arg) for arg in (node.args[1], node.args[0])]
        elif isinstance(node, Cond):
            found += conjuncts(node)
        else:
            found.append(node)
    return found


def why_not_total(operand: Operand, scope: Scope, readable: Mapping[Tensor, Padding | None] | None) -> str | None:
    """Why the value of an operand may not exist at a place: a trap, an access outside, an element that holds nothing.

    Parameters
    ----------
    readable: the tensors of which every element but the padding holds something; `None`: elements are looked at
        elsewhere.
    """
    for node in nodes(operand):
        tensor = loaded_tensor(node)
        if tensor is not None and readable is None:
            continue
        if tensor is not None and readable is not None:
            if tensor not in readable:
                return f"{node!r} may be read before it is written"
            if not proves(scope, is_outside(readable[tensor], read_indices(node))):
                return f"{node!r} may be in the padding of {tensor.name}"
            for index, extent in zip(node.args, tensor.extents, strict=True):
                if not proves(scope, (index >= 0) & (index < extent)):
                    return f"{node!r} may be outside {tensor.name}"
        elif node.op in ops.DIVISIONS:
            if not proves(scope, node.args[1].ne(0)):
                return f"{node!r} may divide by 0"
        elif node.op in (ops.SHL, ops.SHR):
            if not proves(scope, node.args[1] >= 0):
                return f"{node!r} may shift by a negative amount"
        elif node.op is ops.ASSERTING:
            if not proves(scope, node.args[0]):
                return f"{node!r} may not hold what it claims"
        elif node.op is ValueOp.CAST and isinstance(node.args[0], Value) and "int" in node.dtype:
            return f"{node.dtype}({node.args[0]!r}) has no value where that is no number"
        elif node.op is ValueOp.CALL and node.data not in _TOTAL:
            return f"{node.data} is a function that is not known here"
        elif node.op is ops.LOAD and not isinstance(node.data, IntFunction) and node.args:
            return f"{node!r} is not known to have a value"
    return None


def given_inputs(f: Function) -> dict[Tensor, Padding | None]:
    """The parameters that nothing writes, whose elements hold something, and what of them may not be touched."""
    return {t: f.padding.get(t) for t in f.inputs}


def bound_in(root: Stmt) -> set[Any]:
    """The variables, names and arrays that a statement makes."""
    found: set[Any] = set()
    for stmt in statements(root):
        if isinstance(stmt, For):
            found |= {stmt.var, *(c.var for c in stmt.carried)}
        elif isinstance(stmt, Allocate):
            found.add(stmt.tensor)
        elif hasattr(stmt, "var"):
            found.add(stmt.var)
    return found


def flat(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, or the statement itself."""
    return list(stmt.stmts) if isinstance(stmt, Seq) else [stmt]


_TOTAL = frozenset(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid erf sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh floor ceil trunc round nearbyint fmod atan2 hypot copysign nextafter ldexp pow isnan isfinite isinf "
    "popcount".split()
)
