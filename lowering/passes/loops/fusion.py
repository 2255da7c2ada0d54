"""Loop fusion (`merge_adjacent_loops`), its inverse, loop distribution, and races between iterations of parallel loops.

Fusion: iteration j of the second loop then runs before iterations i > j of the first. Results are equal if no element
is accessed by two such iterations, one of which stores it.

Races are decided in two steps. First by index: `c * i + r` tells iterations apart if inner loops change `r` by less
than `c`. Otherwise by the dependences of the loop, exactly. Undecided races (data-dependent indices, an exhausted
budget) are left to the user's responsibility.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

from bound.tensor import Tensor
from bound.tir.build import negation
from bound.tir.value import Operand, Truth
from intset.errors import BudgetError, IntSetError
from intset.expr import Cond, Expr, Var, dag, shown
from intset.expr.build import logical_and
from intset.linear.canonical import form_of
from intset.linear.form import Linear
from lowering.dataflow.program import Access
from lowering.dataflow.reaching import Dependences, precedes
from lowering.errors import LayoutError
from lowering.nest import driver, ir
from lowering.nest.names import with_fresh_names
from lowering.nest.printer import Entry, PassReport
from lowering.nest.scope import ElementAccess, Scope, element_accesses, proof_of, proves, written_in
from lowering.nest.walk import bound_in, operands, range_ends, statements, substitute, tensors_read, touched
from lowering.passes.estimates import Loops
from lowering.passes.stores.reaching_values import check_assumptions
from lowering.passes.values.cse import with_inlined_names

FUSED_PAIRS = 400  # pairs of accesses that two loops are compared by


class Race(NamedTuple):
    """Two iterations of a parallel loop that touch an element of a tensor, and which; `None` where that depends on
    sizes."""

    loop: ir.For
    tensor: Tensor
    iterations: tuple[int, int] | None
    element: tuple[int, ...] | None


class NestedAccess(NamedTuple):
    """An access, and the loops and conditions around it inside a given loop."""

    access: ElementAccess
    steps: tuple[ir.For | Cond, ...]

    @property
    def loops(self) -> tuple[ir.For, ...]:
        return tuple(step for step in self.steps if isinstance(step, ir.For))


def races(f: ir.Function) -> Iterator[Race]:
    """The parallel loops of a function with iterations that certainly touch one element, one of them storing."""
    if not any(isinstance(s, ir.For) and s.kind is ir.LoopKind.PARALLEL for s in statements(f.body)):
        return
    for place in driver.cursors(f):
        loop = place.stmt
        if isinstance(loop, ir.For) and loop.kind is ir.LoopKind.PARALLEL and not _is_apart(loop):
            found = _race(loop, Dependences(f, loop, place.scope))
            if found is not None:
                yield found


# -- by one index ------------------------------------------------------------------------------------------------------


def _is_apart(loop: ir.For) -> bool:
    """Whether indices alone show that no two iterations access one element that one of them stores."""
    every = nested_accesses(loop, bound_in(loop))
    stores = [one for one in every if one.access.is_store]
    return all(_are_apart(loop.var, a, b) for a in stores for b in every if a.access.tensor is b.access.tensor)


class _Inside(driver.Descent):
    """The loops and conditions around a position, outermost first."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[ir.For | Cond, ...] = ()) -> None:
        self.steps = steps

    def inside(self, loop: ir.For) -> _Inside:
        return _Inside((*self.steps, loop))

    def then(self, branch: ir.If) -> _Inside:
        return self._where(branch.cond)

    def otherwise(self, branch: ir.If) -> _Inside:
        return self._where(~branch.cond) if isinstance(branch.cond, Cond) else self

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _Inside:
        if isinstance(old, ir.Let) and isinstance(old.var, Var) and isinstance(old.value, Expr):
            return self._where(old.var.eq(old.value))
        return self

    def _where(self, cond: object) -> _Inside:
        return _Inside((*self.steps, cond)) if isinstance(cond, Cond) else self


def nested_accesses(loop: ir.For, own: Collection[object]) -> list[NestedAccess]:
    """The accesses in the body of a loop, except to the tensors in `own`."""
    return [
        NestedAccess(access, here.steps)
        for stmt, here in driver.walked(loop.body, _Inside())
        for access in element_accesses(stmt)
        if access.tensor not in own
    ]


def _are_apart(var: Var, a: NestedAccess, b: NestedAccess) -> bool:
    pairs = zip(a.access.indices, b.access.indices, strict=True)
    return any(_tells_apart(var, x, y, a.loops, b.loops) for x, y in pairs)


def _tells_apart(var: Var, a: Expr, b: Expr, inside_a: Sequence[ir.For], inside_b: Sequence[ir.For]) -> bool:
    """Whether two indices differ wherever the loop variable does."""
    x, y = form_of(a), form_of(b)
    step = x.terms.get(var, 0)
    if not step or step != y.terms.get(var, 0):
        return False
    (outer, first), (other, second) = _split(x, var, inside_a), _split(y, var, inside_b)
    if not outer.same(other) or any(var in t.free_vars() for t in (*outer.terms, *first.terms, *second.terms)):
        return False
    one, two = _span(first, inside_a), _span(second, inside_b)
    return one is not None and two is not None and max(abs(one[0] - two[1]), abs(one[1] - two[0])) < abs(step)


def _split(form: Linear, var: Var, loops: Sequence[ir.For]) -> tuple[Linear, Linear]:
    """Split an index into the contributions of outer and of inner loops."""
    inner = {loop.var for loop in loops}
    moving = {t: k for t, k in form.terms.items() if inner & set(t.free_vars())}
    rest = {t: k for t, k in form.terms.items() if t not in moving and t is not var}
    return Linear(form.const, rest), Linear(0, moving)


def _span(form: Linear, loops: Sequence[ir.For]) -> tuple[int, int] | None:
    known = Loops().within(*loops)
    lows = [f.const for f in known.least(form) if f.is_const]
    highs = [-f.const for f in known.least(form.scale(-1)) if f.is_const]
    return (max(lows), min(highs)) if lows and highs else None


# -- by sets -----------------------------------------------------------------------------------------------------------


def _race(loop: ir.For, dependences: Dependences) -> Race | None:
    """Find a race between accesses whose iterations are known exactly."""
    for a, b in dependences.pairs():
        if not (dependences.is_exact(a) and dependences.is_exact(b)):
            continue
        try:
            shape = dependences.meetings(a, b, lambda x, y: x[0].ne(y[0]), with_element=True)
        except (BudgetError, LayoutError):
            continue
        if shape is None:
            continue
        tensor, depth = a.storage.tensor, a.loop.depth
        try:
            point = shape.sample()
        except IntSetError:
            point = None
        if point is None:
            return Race(loop, tensor, None, None)
        return Race(loop, tensor, (point[0], point[depth]), point[depth + b.loop.depth :])
    return None


def merge_adjacent_loops(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Fuse adjacent loops over the same range where no result changes.

    Storage and data-independent names between two loops move in front of both.

    Guarantee: dependent accesses keep their order.

    Parameters
    ----------
    report: receives one `Entry` per pair of loops, at the line of the second.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "merge_adjacent_loops")
    check_assumptions(f)
    fusion = _Fusion(f)
    fused = driver.rewritten_function(f, enter={ir.Seq: (fusion.fuse_adjacent,)})
    fusion.report.give(report)
    return fused


class _Fusion:
    """The rule of `merge_adjacent_loops`, with the original path of every statement for reports."""

    def __init__(self, f: ir.Function) -> None:
        self.report = PassReport(f)
        self._paths = {id(stmt): cursor.path for stmt, cursor in driver.walked(f.body, driver.Cursor.root(f))}
        self._alive: list[ir.Stmt] = []  # statements whose ids are keys

    def fuse_adjacent(self, block: ir.Seq, cursor: driver.Cursor) -> ir.Stmt:
        """Fuse each loop of a sequence with the loop before it, over storage and names between the two."""
        done: list[tuple[ir.Stmt, driver.Cursor]] = []
        for stmt, here in driver.inside(block, cursor):
            last = next(
                (k for k in reversed(range(len(done))) if not isinstance(done[k][0], (ir.Allocate, ir.Let))), None
            )
            first = None if last is None else done[last][0]
            if last is None or not isinstance(first, ir.For) or not isinstance(stmt, ir.For):
                done.append((stmt, here))
                continue
            path, between = self._paths[id(stmt)], done[last + 1 :]
            refused = _why_not(first, stmt, done[last][1], [part for part, _ in between])
            if refused is not None:
                self.report.say(path, False, *refused)
                done.append((stmt, here))
                continue
            self.report.say(path, True, f"it runs in the loop at line {self.report.line(self._paths[id(first)])}")
            done[last:] = [*between, (self._fused(first, stmt), done[last][1])]
        return block if len(done) == len(block.stmts) else ir.seq(*(stmt for stmt, _ in done))

    def _fused(self, first: ir.For, second: ir.For) -> ir.For:
        # A loop inside the second may have the first one's variable, which it would capture.
        moved = with_fresh_names(second) if first.var in bound_in(second.body) else second
        assert isinstance(moved, ir.For)
        later = substitute(moved.body, {moved.var: first.var})
        for old, new in zip(statements(second.body), statements(later), strict=True):
            self._paths[id(new)] = self._paths[id(old)]
        kind = first.kind if first.kind is second.kind else ir.LoopKind.SERIAL
        fused = replace(first, body=ir.seq(*ir.flat(first.body), *ir.flat(later)), kind=kind)
        self._paths[id(fused)] = self._paths[id(first)]
        self._alive += [later, fused]
        return fused


def _why_not(
    first: ir.For, second: ir.For, cursor: driver.Cursor, between: list[ir.Stmt]
) -> tuple[str, tuple[int, ...] | None] | None:
    """Why two loops cannot be fused, and values of the loops at which it fails; `cursor` is that of the first."""
    for loop in (first, second):
        if loop.kind not in ir.MOVABLE:
            return f"a loop that is {loop.kind} stays as it is", None
        if loop.annotations:
            return "an annotated loop stays as it is", None
        if loop.carried:
            return "a loop carries values from one iteration to the next", None
        if any(isinstance(stmt, (ir.Assert, ir.Evaluate)) for stmt in statements(loop.body)):
            return "a host call or a check would run in another order", None
    ends = [e for stmt in (first, second, *between) for e in operands(stmt)]
    if tensors_read(*ends):
        return "a range of the loops, or what stands between them, depends on data", None
    low, extent = range_ends(first.range)
    other, count = range_ends(second.range)
    if not proves(cursor.scope, low.eq(other) & extent.eq(count)):
        return "the loops do not run over the same range", None
    return conflict(first, second, cursor)


def conflict(first: ir.For, second: ir.For, cursor: driver.Cursor) -> tuple[str, tuple[int, ...] | None] | None:
    """Why the iterations of two loops over one range cannot be interleaved, and values of the loops at which it fails.

    Two parallel loops must not conflict in either order.

    Parameters
    ----------
    cursor: the position of the first loop.
    """
    own = bound_in(first.body) | bound_in(second.body)
    later = with_fresh_names(second)  # the loops may share variables
    assert isinstance(later, ir.For)
    late = later.var
    own |= bound_in(later.body)
    is_parallel = first.kind is second.kind and first.kind is ir.LoopKind.PARALLEL
    order = first.var.ne(late) if is_parallel else first.var > late
    every_pair = itertools.product(nested_accesses(first, own), nested_accesses(later, own))
    pairs = [(a, b) for a, b in every_pair if a.access.tensor is b.access.tensor]
    pairs = [(a, b) for a, b in pairs if a.access.is_store or b.access.is_store]
    if len(pairs) > FUSED_PAIRS:
        return f"the loops have more than {FUSED_PAIRS} pairs of accesses: the budget is spent", None
    changed = written_in(first.body) | written_in(second.body)
    both = cursor.scope.inside(first).inside(later)
    for a, b in pairs:
        x, y = a.access, b.access
        if any(t in changed for t in tensors_read(*x.indices, *y.indices)):
            return f"which elements of {x.tensor.name} are touched depends on data that the loops write", None
        here = both
        for step in (*a.steps, *b.steps):
            here = here.inside(step) if isinstance(step, ir.For) else here.where(step)
        meet = logical_and(order, *(i.eq(j) for i, j in zip(x.indices, y.indices, strict=True)))
        proof = proof_of(here, ~meet)
        if not proof:
            what = (
                f"an iteration of the second loop touches an element of {x.tensor.name} that a later one of the first"
                " does"
            )
            values: Any = proof.counterexample or {}
            point = [values.get(var) for var in (*(loop.var for loop in cursor.loops), late)]
            if any(v is None for v in point):
                return f"it is not known whether {what}", None
            return what, tuple(point)
    return None


class StaysError(Exception):
    """The reason why a loop stays unchanged."""


class Nest(NamedTuple):
    """A statement inside of loops, the outermost first, and of conditions between these.

    Attributes
    ----------
    guards: conditions on integers alone.
    tests: conditions on data that nothing in the nest changes.
    """

    body: ir.Stmt
    loops: tuple[ir.For, ...] = ()
    guards: tuple[Cond, ...] = ()
    tests: tuple[Truth, ...] = ()

    def stmt(self) -> ir.Stmt:
        """The nest as a statement, its guards inside of all loops."""
        inner = ir.guarded(self.body, *self.guards)
        for loop in reversed(self.loops):
            inner = replace(loop, body=inner)
        return inner

    def under(self, body: ir.Stmt, cond: Truth) -> Nest:
        """A statement under one more condition."""
        if isinstance(cond, Cond) and not dag.opaque_terms(cond):
            return self._replace(body=body, guards=(*self.guards, cond))
        return self._replace(body=body, tests=(*self.tests, cond))


def stored_indices(stmt: ir.Stmt, tensor: Tensor) -> dict[tuple[Expr, ...], None]:
    """The indices with which a statement stores to a tensor."""
    stores = (s for s in statements(stmt) if isinstance(s, ir.Store) and s.tensor is tensor)
    return dict.fromkeys(s.indices for s in stores)


def nests_of(root: ir.For, tensor: Tensor) -> list[Nest]:
    """Distribute a loop into nests, in order.

    Each nest has loops around a statement without a loop over the tensor, whose stores to the tensor have equal
    indices.

    Raises
    ------
    StaysError: a loop is immovable.
    LayoutError: the statements of a loop are inseparable.
    """
    nests: list[Nest] = []
    stack = [Nest(with_inlined_names(root, _is_plain))]
    written = written_in(root)
    while stack:
        part = stack.pop()
        inner = _inside(part, tensor, written)
        if inner is None:
            nests.append(part._replace(body=ir.guarded(part.body, *part.tests), tests=()))
        else:
            stack.extend(reversed(inner))
    if sum(any(isinstance(s, ir.Evaluate) for s in statements(nest.body)) for nest in nests) > 1:
        raise LayoutError("host calls would be made in another order")
    return nests


def _inside(part: Nest, tensor: Tensor, written: Set[Tensor]) -> list[Nest] | None:
    """Distribute a statement into components; `None` if it stays whole."""
    stmt = part.body
    if isinstance(stmt, ir.For):
        if tensor not in touched(stmt):
            return None
        if stmt.kind not in ir.MOVABLE or stmt.carried:
            what = "carries values" if stmt.carried else f"is {stmt.kind}"
            raise StaysError(f"the loop {stmt.var} {what}, and stays as it is")
        return [part._replace(body=stmt.body, loops=(*part.loops, stmt))]
    if not _is_to_split(stmt, tensor):
        return None
    if isinstance(stmt, ir.Seq):
        return _sequence(part, tensor)
    if isinstance(stmt, ir.If) and not any(t in written for t in tensors_read(stmt.cond)):
        other = [] if stmt.orelse is None else [part.under(stmt.orelse, negation(stmt.cond))]
        return [part.under(stmt.then, stmt.cond), *other]
    raise LayoutError(f"what {tensor.name} is touched by in one loop cannot be told apart: it depends on data")


def _is_to_split(stmt: ir.Stmt, tensor: Tensor) -> bool:
    """Whether a statement has inner loops over the tensor or accesses it with different indices."""
    inner = list(statements(stmt))
    if any(isinstance(s, ir.For) and tensor in touched(s) for s in inner) or len(stored_indices(stmt, tensor)) > 1:
        return len(inner) > 1
    return isinstance(stmt, ir.Seq) and tensor in touched(stmt) and any(isinstance(s, ir.Evaluate) for s in inner)


def _sequence(part: Nest, tensor: Tensor) -> list[Nest]:
    """Distribute a sequence. Statements in the scope of storage or of a name stay together."""
    stmts = ir.flat(part.body)
    components: list[Nest] = []
    others: list[ir.Stmt] = []

    def note() -> None:
        if others:
            components.append(part._replace(body=ir.seq(*others)))
            others.clear()

    for k, stmt in enumerate(stmts):
        if isinstance(stmt, (ir.Let, ir.Allocate)):
            note()
            rest = ir.seq(*stmts[k:])
            if k == 0 or _is_to_split(rest, tensor):
                what = stmt.tensor.name if isinstance(stmt, ir.Allocate) else stmt.var
                raise LayoutError(f"what stands behind {what} in a loop cannot get loops of its own")
            return [*components, part._replace(body=rest)]
        if tensor in touched(stmt):
            note()
            components.append(part._replace(body=stmt))
        else:
            others.append(stmt)
    note()
    return components


def _is_plain(value: Operand) -> bool:
    """Whether a value is an integer that depends on loops and sizes alone."""
    return isinstance(value, Expr) and not dag.opaque_terms(value) and not ir.has_undef(value)


def _second_first(shared: int) -> Callable[[Sequence[Var], Sequence[Var]], Cond]:
    """That of two instances the second one was run in an earlier iteration of the shared loops."""
    return lambda x, y: precedes(y[:shared], x[:shared])


def check_split(f: ir.Function, item: ir.For, scope: Scope, nests: Sequence[Nest]) -> None:
    """Refuse nests whose distribution would change a result.

    Raises
    ------
    LayoutError: accesses to an element would change their order, or a range reads elements that the loop writes.
    BudgetError: that is out of the budget.
    """
    of: dict[int, int] = {}
    for k, nest in enumerate(nests):
        of.update((id(stmt), k) for stmt in statements(nest.body))
    dependences = Dependences(f, ir.seq(*(nest.stmt() for nest in nests)), scope)

    def number(access: Access) -> int:
        return of.get(id(access.site.stmt), -1)

    for one, two in dependences.pairs():
        early, late = (one, two) if number(one) <= number(two) else (two, one)
        if number(early) == number(late):
            continue
        if number(early) < 0:
            raise LayoutError(f"the range of a loop reads {one.storage.tensor.name}, which the loop writes")
        a, b = nests[number(early)], nests[number(late)]
        shared = len([1 for x, y in zip(a.loops, b.loops, strict=False) if x.var is y.var])
        point = dependences.witness(early, late, _second_first(shared))
        if point is not None:
            line = dependences.text(early)
            raise LayoutError(f"{shown(line)} cannot be split off: it depends on what the loop does before", (point,))
