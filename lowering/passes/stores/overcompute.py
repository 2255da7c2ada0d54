"""Branching against overcompute: drop harmless guards, or guard useless stores.

Without some guards a nest runs additional store instances. It is equivalent if each additional instance is dead in the
new nest or keeps its element unchanged; removing all of them restores the old nest. The proof of the latter reads the
element, so that store is live. Instances whose values only additional instances read are removed together.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeAlias

from bound.tir.build import together
from bound.tir.value import Operand, Truth
from bound.tir.walk import read_indices
from intset.config import memoized
from intset.expr import Cond, dag
from intset.expr.build import logical_and, logical_or
from intset.expr.node import truth
from intset.regions.shape import Account
from lowering.dataflow import account_of
from lowering.nest import driver, ir
from lowering.nest import scope as scopes
from lowering.nest.printer import Entry, PassReport
from lowering.nest.walk import Path, elements_read, operands, statements
from lowering.passes.definedness import why_not_total
from lowering.passes.loops.fusion import conflict
from lowering.passes.simplify import OVERCOMPUTE_ROUNDS, mirrored, until_stable
from lowering.passes.stores.reaching_values import ReachingValues, check_assumptions, deciding_tensors

MAX_NODES: Final = 48  # of a guard that is put in


class _Guard:
    """A guard with droppable parts.

    Attributes
    ----------
    place: the branch.
    parts, rest: the dropped and the remaining parts of its conjunction.
    is_exposed: whether a remaining part follows a dropped one; then additional points compute it.
    """

    def __init__(self, cursor: driver.Cursor, parts: list[Truth], rest: list[Truth], is_exposed: bool = False) -> None:
        self.cursor, self.parts, self.rest, self.is_exposed = cursor, parts, rest, is_exposed


def remove_branching_through_overcompute(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Drop guards whose removal changes no result: the additional stores are dead, or keep their elements.

    A guard is dropped whole, else some parts of its conjunction. Each dropped guard may free others: the pass repeats.

    Guarantee: parameters end with the same elements; every additional access is proved in bounds, initialized and free
    of traps.

    Parameters
    ----------
    report: receives one `Entry` per guard, at the line of its `if`.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "remove_branching_through_overcompute")
    check_assumptions(f)
    decisions = PassReport(f)
    lines = {cursor.path: decisions.line(cursor.path) for cursor in _branches(f)}
    while True:
        account, here = account_of(f), PassReport(f, lines)
        shorter, dropped = _dropped(f, _guards(f, here), here, account)
        if not dropped:
            shorter = _without_parts(f, here, account)
        decisions.follow(here)
        if shorter is f:
            decisions.give(report)
            return f
        # the remaining branches keep their order
        left = [line for path, line in lines.items() if path not in dropped]
        f, lines = shorter, dict(zip((cursor.path for cursor in _branches(shorter)), left, strict=True))


def _branches(f: ir.Function) -> list[driver.Cursor]:
    return [cursor for cursor in driver.cursors(f) if isinstance(cursor.stmt, ir.If)]


def _without_parts(f: ir.Function, decisions: PassReport, account: Account) -> ir.Function:
    """Drop the first harmless part of a conjunction, if there is one."""
    for guard in _guards(f, PassReport(f)):
        parts = guard.parts
        for k in range(len(parts) if len(parts) > 1 else 0):
            one = _Guard(guard.cursor, [parts[k]], parts[:k] + parts[k + 1 :], k + 1 < len(parts))
            shorter, dropped = _dropped(f, [one], PassReport(f), account)
            if dropped:
                decisions.say(guard.cursor.path, True, f"{parts[k]!r} makes no difference")
                return shorter
    return f


def _guards(f: ir.Function, decisions: PassReport) -> list[_Guard]:
    """The guards that pass all checks but those by dataflow."""
    guards = []
    for cursor in _branches(f):
        stmt = cursor.stmt
        assert isinstance(stmt, ir.If)
        if stmt.orelse is not None:
            why = "there is another branch"
        elif any(isinstance(s, (ir.Assert, ir.Assume, ir.Evaluate)) for s in statements(stmt.then)):
            why = "it guards a check, an assumption or a host call"
        elif any(ir.has_undef(*operands(s)) and not isinstance(s, ir.Store) for s in statements(stmt.then)):
            why = "it guards names for undef()"
        else:
            guards.append(_Guard(cursor, scopes.parts_of_condition(stmt.cond), []))
            continue
        decisions.say(cursor.path, False, why)
    return guards


def _dropped(
    f: ir.Function, guards: list[_Guard], decisions: PassReport, account: Account
) -> tuple[ir.Function, set[Path]]:
    """The function without a maximal tried set of harmless guards, and the paths of these."""
    tried = {guard.cursor.path: guard for guard in guards}
    for _ in range(OVERCOMPUTE_ROUNDS):
        if not tried:
            return f, set()
        attempt = _Attempt(f, tried, account)
        refused: dict[Path, _WhyNot] = {}
        for cursor, around in attempt.positions:
            for guard in around:
                why = None if guard.cursor.path in refused else attempt.why_not(cursor, guard)
                if why is not None:
                    refused[guard.cursor.path] = why
        for path, (reason, point) in refused.items():
            decisions.say(path, False, reason, point)
            del tried[path]
        if not refused:
            for path in tried:
                decisions.say(path, True, "what it keeps from running makes no difference")
            return attempt.bare, set(tried)
    for path in tried:
        decisions.say(path, False, "the budget of attempts is spent")
    return f, set()


def _without_guards(
    f: ir.Function, dropped: dict[Path, _Guard]
) -> tuple[ir.Function, list[tuple[driver.Cursor, list[_Guard]]]]:
    """The function without guards, and its formerly guarded statements with their guards."""
    under: dict[int, list[_Guard]] = {}

    def note(stmt: ir.Stmt, cursor: driver.Cursor) -> ir.Stmt:
        around = [guard for k in range(len(cursor.path)) if (guard := dropped.get(cursor.path[:k])) is not None]
        return noted(stmt, around)

    def drop(branch: ir.If, cursor: driver.Cursor) -> ir.Stmt:
        guard = dropped.get(cursor.path)
        if guard is None:
            return note(branch, cursor)
        if not guard.rest:
            return branch.then
        outer = [g for k in range(len(cursor.path)) if (g := dropped.get(cursor.path[:k])) is not None]
        return noted(ir.If(together(*guard.rest), branch.then), [*outer, guard] if guard.is_exposed else outer)

    def noted(stmt: ir.Stmt, around: list[_Guard]) -> ir.Stmt:
        if around:
            stmt = replace(stmt)  # an object of its own: a statement may stand at several places
            under[id(stmt)] = around
        return stmt

    bare = driver.rewritten_function(f, leave={ir.Stmt: (note,), ir.If: (drop,), ir.Seq: ()})
    return bare, [(cursor, under[id(cursor.stmt)]) for cursor in driver.cursors(bare) if id(cursor.stmt) in under]


def _unread(
    stores: Mapping[Path, driver.Cursor], among: Mapping[Path, Cond], reaching: ReachingValues
) -> dict[Path, Cond]:
    """The largest set of store instances among some whose values only these instances read; none beyond the budget."""
    idle = dict(among)
    for _ in range(OVERCOMPUTE_ROUNDS):
        unread = {path: reaching.flow.dead(stores[path], idle) for path in idle}
        read = [path for path, cond in idle.items() if not scopes.proves(stores[path].scope.where(cond), unread[path])]
        if not read:
            return idle
        # Fewer removed stores leave fewer unread, so `unread` need not be intersected over the rounds.
        idle.update((path, logical_and(among[path], unread[path])) for path in read)
    return {}


_WhyNot: TypeAlias = tuple[str, tuple[int, ...] | None]  # a reason, and loop values of a counterexample


class _Attempt:
    """A function without some guards.

    Attributes
    ----------
    bare, positions: that function, and its formerly guarded statements with their guards.
    """

    def __init__(self, f: ir.Function, dropped: dict[Path, _Guard], account: Account) -> None:
        self.bare, self.positions = _without_guards(f, dropped)
        self.reaching = ReachingValues(self.bare, account)

    @cached_property
    def idle(self) -> dict[Path, Cond]:
        """Additional store instances, by path, whose values only additional instances read.

        Removing all of them together changes no result.
        """
        idle: dict[Path, Cond] = {}
        stores: dict[Path, driver.Cursor] = {}
        for cursor, around in self.positions:
            parts = [_against(guard) for guard in around]
            conditions = [cond for cond in parts if cond is not None]
            if isinstance(cursor.stmt, ir.Store) and len(conditions) == len(parts):
                idle[cursor.path], stores[cursor.path] = logical_or(*conditions), cursor
        return _unread(stores, idle, self.reaching)

    @memoized
    def may_meet(self, loop: ir.For) -> bool:
        """Whether a loop is parallel and its iterations may conflict."""
        is_parallel = loop.kind is ir.LoopKind.PARALLEL
        return is_parallel and conflict(loop, loop, driver.cursor_of(self.bare, loop)) is not None

    def why_not(self, cursor: driver.Cursor, guard: _Guard) -> _WhyNot | None:
        """The reason why a statement may not run outside of its guard, and loop values of a counterexample."""
        stmt = cursor.stmt
        against = _against(guard)
        scope = cursor.scope if against is None else cursor.scope.where(against)
        if scopes.proves(scope, truth(False)):
            return None
        reads = operands(stmt) if not isinstance(stmt, ir.Allocate) else ()
        unclear = next((t for t in deciding_tensors(stmt) if t in self.reaching.unclear), None)
        if unclear is not None:
            return f"without the guard, an undef() in {unclear.name} might decide something", None
        missing = self._missing(reads, cursor, scope)
        if missing is not None:
            return f"without the guard, {missing[0]}", missing[1]
        if isinstance(stmt, ir.For):
            return None if not stmt.carried else ("it guards a loop that carries values", None)
        if not isinstance(stmt, ir.Store):
            return None
        for k, in_bounds in enumerate(scopes.in_storage(stmt.indices, scopes.storage_of(self.bare, stmt.tensor))):
            inside = scopes.proof_of(scope, in_bounds)
            if not inside:
                return f"without the guard, index {k} of {stmt.tensor.name} may be outside", cursor.point(inside)
        touchable = scopes.proof_of(scope, scopes.is_outside(scopes.padding_of(self.bare, stmt.tensor), stmt.indices))
        if not touchable:
            text = f"without the guard, the padding of {stmt.tensor.name} may be stored to"
            return text, cursor.point(touchable)
        raced = next((loop.var for loop in cursor.loops if self.may_meet(loop)), None)
        if raced is not None:
            return f"without the guard, iterations of {raced}, which run side by side, might meet at one element", None
        dead = self.reaching.flow.dead(cursor)
        unread = scopes.proof_of(scope, dead)
        if unread or self.reaching.changes_nothing(cursor, scope.where(~dead)):
            return None
        joint = self.idle.get(cursor.path)
        if joint is not None:
            rest = scope.where(~dead, ~joint)
            if scopes.proves(rest, truth(False)) or self.reaching.changes_nothing(cursor, rest):
                return None
        text = f"the store to {stmt.tensor.name} would be read, or kept at the end"
        return text, cursor.point(unread)

    def _missing(self, values: tuple[Operand, ...], cursor: driver.Cursor, scope: scopes.Scope) -> _WhyNot | None:
        """The reason why values may be missing: out of bounds, uninitialized, or a trap."""
        for value in values:
            why = why_not_total(value, scope, None)
            if why is not None:
                return why, None
            for node, tensor in elements_read(value):
                for in_bounds in scopes.in_storage(read_indices(node), scopes.storage_of(self.bare, tensor)):
                    inside = scopes.proof_of(scope, in_bounds)
                    if not inside:
                        return f"{node!r} may be outside {tensor.name}", cursor.point(inside)
                touchable = scopes.proof_of(
                    scope, scopes.is_outside(scopes.padding_of(self.bare, tensor), read_indices(node))
                )
                if not touchable:
                    return f"{node!r} may be in the padding of {tensor.name}", cursor.point(touchable)
                if tensor in self.bare.inputs:
                    continue
                sources = self.reaching.flow.by_element(cursor).get(node, ())
                for source in sources:
                    if source.kind == "unwritten" or (source.kind == "unknown" and tensor not in self.bare.params):
                        reached = scopes.proof_of(scope, ~source.where)
                        if not reached:
                            return f"{node!r} may hold nothing yet", cursor.point(reached)
                if not sources:
                    return f"{node!r} is not known to hold anything", None
        return None


def _against(guard: _Guard) -> Cond | None:
    """The condition that some dropped part fails; `None` if parts depend on data."""
    parts = [part for part in guard.parts if isinstance(part, Cond)]
    return ~logical_and(*parts) if len(parts) == len(guard.parts) else None


def remove_overcompute_through_branching(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Guard each store against instances that are dead or keep their element unchanged, until no other is.

    Guarantee: parameters end with the same elements.

    Parameters
    ----------
    report: receives one `Entry` per store.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "remove_overcompute_through_branching")
    check_assumptions(f)
    decisions = PassReport(f)
    guarded = _guarded(f, decisions)
    decisions.give(report)
    return f if guarded is f else until_stable(lambda g: _guarded(g, PassReport(g)), guarded)


def _guarded(f: ir.Function, decisions: PassReport) -> ir.Function:
    """Guard each store against instances that do not matter in `f`; the function itself if there are none."""
    reaching = ReachingValues(f)
    guards: dict[Path, Cond] = {}
    stores = {cursor.path: cursor for cursor in driver.cursors(f) if isinstance(cursor.stmt, ir.Store)}
    idle = _unread(stores, dict.fromkeys(stores, truth(True)), reaching)
    for cursor in stores.values():
        assert isinstance(cursor.stmt, ir.Store)
        stored = scopes.in_storage(cursor.stmt.indices, scopes.storage_of(f, cursor.stmt.tensor))
        scope = cursor.scope.where(*stored)  # a store out of bounds is an error
        dead = idle[cursor.path] if idle else reaching.flow.dead(cursor)
        useless = [cond for cond in (dead, *reaching.unchanged(cursor)) if not scopes.proves(scope, ~cond)]
        if not useless:
            decisions.say(cursor.path, False, "every instance matters")
            continue
        needed = _short(~logical_or(*useless), scope)
        if needed is None:
            decisions.say(cursor.path, False, "the instances that matter have no short condition")
            continue
        guards[cursor.path] = needed
        decisions.say(cursor.path, True, f"it matters only where {needed!r}")

    def guard_store(stmt: ir.Store, cursor: driver.Cursor) -> ir.Stmt:
        return ir.If(guards[cursor.path], stmt) if cursor.path in guards else stmt

    return driver.rewritten_function(f, leave={ir.Store: (guard_store,)}) if guards else f


def _short(cond: Cond, scope: scopes.Scope) -> Cond | None:
    """A condition simplified at a position; `None` if it is longer than `MAX_NODES`."""
    simple = scope.ctx.simplify(cond)
    return mirrored(simple) if isinstance(simple, Cond) and dag.is_small(MAX_NODES, (simple,)) else None
