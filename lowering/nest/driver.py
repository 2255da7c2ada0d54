"""The driver of passes: rules by kind of statement, applied over one walk of a nest.

A *rule* is a function `(statement, descent) -> statement`; it returns its argument to change nothing. A *descent*
carries knowledge down the nest: the scope, the path, substitutions. Each step down gives a new descent
and leaves the old one intact, so leaving a loop, a branch or a sequence restores what was known outside.

    rewritten(body, Cursor.root(f), enter={For: (shorten_ends, drop_empty_loop, inline_single_iteration)})

The walk of one statement:

    1. `enter` rules of its kind, in order; a rule that returns another kind of statement ends the list, and the result
       is walked from step 1. A rule that replaces a statement by one inside of it returns `Seq((inner,))`; a rule that
       decides what is walked inside, in which order and under which descents returns `Parts`, and steps 2 and 3 are
       left out.
    2. the statements inside, under the descent that the entered statement gives them.
    3. `leave` rules of its kind, in order, under the descent of step 1.

Invariants: a statement that no rule changes is the same object in the result, but sequences are flattened; what
follows a statement in a sequence is walked under `descent.after(old, new)`, so knowledge of a statement reaches to the
end of its sequence and no further.
"""

import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from intset.context import Context
from intset.prover.proof import Proof
from lowering.nest import ir
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import Path, children, drive, map_operands, with_children


class Descent:
    """Knowledge on the way down a nest; subclasses override the steps that add to it."""

    __slots__ = ()

    def item(self, k: int) -> Self:
        """In front of statement `k` of a sequence."""
        return self

    def inside(self, loop: ir.For) -> Self:
        """In the body of a loop."""
        return self

    def then(self, branch: ir.If) -> Self:
        """Where the condition of a branch holds."""
        return self

    def otherwise(self, branch: ir.If) -> Self:
        """In the `else` of a branch."""
        return self

    def after(self, old: ir.Stmt, new: ir.Stmt) -> Self:
        """Behind a statement of a sequence, given its old and its rewritten form."""
        return self


class Cursor(Descent):
    """A position in a nest.

    Attributes
    ----------
    scope: the ranges and conditions that hold here.
    path: indices into `children`, starting at the body of the function.
    loops: the loops around the position, outermost first.
    branches: the enclosing branches, each with its condition's truth.
    stmt: the statement at the position. Set by `cursors` alone; a rule gets its statement as an argument.
    """

    scope: Scope
    path: Path
    loops: tuple[ir.For, ...]
    branches: tuple[tuple[ir.If, bool], ...]
    stmt: ir.Stmt

    def __init__(self, scope: Scope) -> None:
        self.scope, self.path, self.loops, self.branches = scope, (), (), ()

    @classmethod
    def root(cls, f: ir.Function) -> Self:
        """The body of a function."""
        return cls(scope_of(f))

    @property
    def ctx(self) -> Context:
        return self.scope.ctx

    def item(self, k: int) -> Self:
        return self.moved(path=(*self.path, k))

    def inside(self, loop: ir.For) -> Self:
        return self.moved(scope=self.scope.inside(loop), path=(*self.path, 0), loops=(*self.loops, loop))

    def then(self, branch: ir.If) -> Self:
        branches = (*self.branches, (branch, True))
        return self.moved(scope=self.scope.then(branch), path=(*self.path, 0), branches=branches)

    def otherwise(self, branch: ir.If) -> Self:
        branches = (*self.branches, (branch, False))
        return self.moved(scope=self.scope.otherwise(branch), path=(*self.path, 1), branches=branches)

    def after(self, old: ir.Stmt, new: ir.Stmt) -> Self:
        scope = self.scope.after(old)  # passes keep meaning, so what the old statement states still holds
        return self if scope is self.scope else self.moved(scope=scope)

    def point(self, proof: Proof) -> tuple[int, ...] | None:
        """The values of the loops around at a counterexample, outermost first; `None` where one is missing."""
        counterexample: Any = proof.counterexample or {}
        values = [counterexample.get(loop.var) for loop in self.loops]
        return None if not values or any(value is None for value in values) else tuple(values)

    def moved(self, **changed: Any) -> Self:
        """A copy with some attributes changed."""
        return ir.with_fields(self, **changed)


D = TypeVar("D", bound=Descent)


@dataclass(frozen=True, eq=False, repr=False)
class Parts(ir.Stmt):
    """The result of an `enter` rule that directs the walk itself; never part of a nest.

    Attributes
    ----------
    walks: statements to walk, in this order, each with its descent.
    build: the rewritten statement, from the results of `walks`.
    """

    walks: Sequence[tuple[ir.Stmt, Any]]
    build: Callable[..., ir.Stmt]


def done(stmt: ir.Stmt) -> Parts:
    """The result of an `enter` rule that has rewritten everything inside."""
    return Parts((), lambda: stmt)


StmtRule: TypeAlias = Callable[[Any, D], ir.Stmt]
StmtRules: TypeAlias = Mapping[type[ir.Stmt], tuple[StmtRule[D], ...]]
R = TypeVar("R")
Synthesis: TypeAlias = Generator[tuple[ir.Stmt, D], R, R]
SynthesisRule: TypeAlias = Callable[[Any, D], R | Synthesis[D, R]]


def rewritten(
    root: ir.Stmt, descent: D, enter: StmtRules[D] | None = None, leave: StmtRules[D] | None = None
) -> ir.Stmt:
    """The nest with rules applied on the way down (`enter`) and on the way up (`leave`).

    Parameters
    ----------
    descent: what is known at `root`.
    enter, leave: rules by kind of statement; rules of `Stmt` apply to kinds without an entry.
    """
    walk = _Walk(enter or {}, leave or {}).visit(root, descent)
    return walk if isinstance(walk, ir.Stmt) else drive(walk)


def rewritten_function(
    f: ir.Function, enter: StmtRules[Cursor] | None = None, leave: StmtRules[Cursor] | None = None
) -> ir.Function:
    """The function with rules applied to its body under cursors; see `rewritten`."""
    return f.with_body(rewritten(f.body, Cursor.root(f), enter, leave))


def traced(f: ir.Function, leave: StmtRules[Cursor], known: dict[int, Path]) -> tuple[ir.Function, dict[Path, Path]]:
    """The rewritten function, and a map from its paths to the paths of their original statements in `f`.

    Parameters
    ----------
    known: original paths by the `id` of a statement; a rule that merges statements adds the merged one.
    """

    def note(stmt: ir.Stmt, cursor: Cursor) -> ir.Stmt:
        known[id(stmt)] = cursor.path
        return stmt

    rules: StmtRules[Cursor] = {ir.Stmt: (), **leave}
    new = rewritten_function(f, leave={kind: (*own, note) for kind, own in rules.items()})
    return new, {cursor.path: known[id(cursor.stmt)] for cursor in cursors(new)}


def each_operand(change: Callable[[Any, D], Any]) -> StmtRule[D]:
    """The rule that changes every operand of a statement, under the descent of the statement."""

    def on_operands(stmt: ir.Stmt, descent: D) -> ir.Stmt:
        return map_operands(stmt, lambda operand: change(operand, descent))

    return on_operands


def synthesized(root: ir.Stmt, descent: D, rules: Mapping[type[ir.Stmt], SynthesisRule[D, R]]) -> R:
    """The value of a nest, computed by rules from the values of the statements inside.

    A synthesized attribute (Knuth, *Semantics of context-free languages*, 1968). A rule returns the value of its
    statement; a rule that needs values from inside is a generator that yields `(inner, descent)` for each and receives
    its value.

    Parameters
    ----------
    descent: what is known at `root`.
    rules: one rule by kind of statement; a rule of `Stmt` applies to kinds without an entry.
    """

    def visit(stmt: ir.Stmt, here: D) -> Any:
        kind = type(stmt)
        return (rules[kind] if kind in rules else rules[ir.Stmt])(stmt, here)

    begun = visit(root, descent)
    value: R = drive(begun, lambda inside: visit(*inside)) if type(begun) is GeneratorType else begun
    return value


def walked(root: ir.Stmt, descent: D) -> Iterator[tuple[ir.Stmt, D]]:
    """Every statement with its descent, outer ones first, in the order of the text."""
    stack = [(root, descent)]
    while stack:
        stmt, here = stack.pop()
        yield stmt, here
        stack.extend(reversed(list(inside(stmt, here))))


def cursors(f: ir.Function) -> Iterator[Cursor]:
    """A cursor, with its `stmt`, for every statement of a function except sequences, in text order."""
    for stmt, cursor in walked(f.body, Cursor.root(f)):
        if not isinstance(stmt, ir.Seq):
            cursor.stmt = stmt
            yield cursor


def cursor_of(f: ir.Function, stmt: ir.Stmt) -> Cursor:
    """The position of a statement; its first, if it stands at several."""
    return next(cursor for cursor in cursors(f) if cursor.stmt is stmt)


def with_statements(f: ir.Function, replacements: Mapping[Path, ir.Stmt]) -> ir.Function:
    """The function with other statements at some paths; all other paths stay as they are."""
    around = {path[:k] for path in replacements for k in range(len(path))}

    def replaced(stmt: ir.Stmt, path: Path) -> ir.Stmt:
        if path in replacements:
            return replacements[path]
        if path not in around:
            return stmt
        return with_children(stmt, tuple(replaced(child, (*path, k)) for k, child in enumerate(children(stmt))))

    return f.with_body(replaced(f.body, ()))


def inside(stmt: ir.Stmt, descent: D) -> Iterator[tuple[ir.Stmt, D]]:
    """The statements directly inside, each with its descent."""
    if type(stmt) is ir.Seq:
        for k, inner in enumerate(stmt.stmts):
            yield inner, descent.item(k)
            descent = descent.after(inner, inner)
    elif type(stmt) is ir.For:
        yield stmt.body, descent.inside(stmt)
    elif type(stmt) is ir.If:
        yield stmt.then, descent.then(stmt)
        if stmt.orelse is not None:
            yield stmt.orelse, descent.otherwise(stmt)


class _Walk(Generic[D]):
    """One walk with its rules."""

    def __init__(self, enter: StmtRules[D], leave: StmtRules[D]) -> None:
        self._enter, self._leave = enter, leave

    def visit(self, stmt: ir.Stmt, descent: D) -> Generator[Any, Any, ir.Stmt] | ir.Stmt:
        """The rewritten statement, or a generator of it where there are statements inside."""
        entered = _applied(self._enter, stmt, descent) if self._enter else stmt
        kind = type(entered)
        if kind is type(stmt) and kind is not ir.For and kind is not ir.Seq and kind is not ir.If:
            return _applied(self._leave, entered, descent) if self._leave else entered
        return self._visit(stmt, entered, descent)

    def _visit(self, stmt: ir.Stmt, entered: ir.Stmt, descent: D) -> Generator[Any, Any, ir.Stmt]:
        while type(entered) is not type(stmt):
            if isinstance(entered, Parts):
                results: list[ir.Stmt] = []
                for part, own in entered.walks:
                    result = self.visit(part, own)
                    results.append(result if isinstance(result, ir.Stmt) else (yield result))
                return entered.build(*results)
            stmt, entered = entered, _applied(self._enter, entered, descent)
        if isinstance(entered, ir.For):
            walk = self.visit(entered.body, descent.inside(entered))
            body = walk if isinstance(walk, ir.Stmt) else (yield walk)
            entered = entered if body is entered.body else ir.with_fields(entered, body=body)
        elif isinstance(entered, ir.Seq):
            here = descent
            parts: list[ir.Stmt] = []
            for k, old in enumerate(entered.stmts):
                walk = self.visit(old, here.item(k))
                new = walk if isinstance(walk, ir.Stmt) else (yield walk)
                here = here.after(old, new)
                parts.append(new)
            is_flat = len(parts) != 1 and ir.Seq not in map(type, parts)
            entered = entered if is_flat and all(map(operator.is_, parts, entered.stmts)) else ir.seq(*parts)
            if not isinstance(entered, ir.Seq):
                return entered  # the statement left, whose `leave` rules have run
        else:
            inner: list[ir.Stmt] = []
            for part, own in inside(entered, descent):
                walk = self.visit(part, own)
                inner.append(walk if isinstance(walk, ir.Stmt) else (yield walk))
            entered = with_children(entered, inner)
        return _applied(self._leave, entered, descent) if self._leave else entered


def _applied(rules: StmtRules[D], stmt: ir.Stmt, descent: D) -> ir.Stmt:
    kind = type(stmt)
    for rule in rules[kind] if kind in rules else rules.get(ir.Stmt, ()):
        stmt = rule(stmt, descent)
        if type(stmt) is not kind:
            break
    return stmt
