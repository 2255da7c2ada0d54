"""`partition_loops`: index-set splitting into an interior without conditions, and borders; `unroll`.

    for x in [0, 58):                                       for x in [0, 1): P[x] = 0.0
        P[x] = select((x >= 1) & (x < 57), A[x - 1], 0.0)   for x in [1, 57): P[x] = A[x - 1]
                                                            for x in [57, 58): P[x] = 0.0

Conditions: affine comparisons of indices; the order of the operands of a minimum or maximum in an index, and in the
ends of short loops, which gain much from a constant number of iterations.

Choice of the loop: the innermost loop whose variable a condition mentions. If the cuts are no constants and that loop
is short, the next loop outwards that mentions it, unless copies of that loop cost more than they save. The interior of
an outer loop holds the iterations in which all inner iterations satisfy the condition; borders are cut again. A loop
whose iterations are spread over threads stays whole, and a test chooses the interior.

Subranges lie between the values at which a condition changes, as far as the order of these values is known.

Budget: the nest grows by at most `TIMES` times its statements for copies of loops with others inside, and by at most
`INNERMOST` times for copies of innermost loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

from bound.tensor import Tensor
from bound.tir.walk import operations, substitute
from intset.config import memoized
from intset.expr import Cond, Expr, Range, Var, const, constant_value, ops
from intset.expr.definedness import definedness
from intset.linear.canonical import form_of
from intset.linear.form import Linear
from lowering.nest import driver, ir, walk
from lowering.nest.names import with_fresh_names
from lowering.nest.printer import end_of
from lowering.nest.scope import scope_behind_head, written_in
from lowering.passes import estimates
from lowering.passes.simplify import FOLDED, decided, deciding_nodes, drop_idle_branch, folded, order_of
from lowering.passes.stores.dead_code import drop_unused_storage
from lowering.passes.values.cse import inline_values

TIMES: Final = 2  # growth for loops with others inside, in multiples of the function's statements
INNERMOST: Final = 8  # the same for innermost loops: they gain most, and copies are short
FEWEST: Final = 96  # statements that every function may grow by
PIECES: Final = 8  # of one loop
SHARE: Final = 0.25  # least share of decided iterations for which an outer loop is copied
_WHOLE: Final = (ir.LoopKind.PARALLEL, ir.LoopKind.THREAD, ir.LoopKind.VTHREAD)
MOST: Final = 256  # statements that a loop may become


@dataclass(frozen=True, eq=False)
class Breakpoint:
    """A value of a loop variable at which a condition starts to hold (`rises`) or stops to hold.

    Attributes
    ----------
    at: the value, written as the ends of subranges are.
    is_exact: whether the condition fails on the whole other side; otherwise that side is unknown.
    """

    at: Expr
    rises: bool
    cond: Cond
    is_exact: bool

    @cached_property
    def form(self) -> Linear:
        """The value as a linear form; a shift becomes the quotient that ranges are written with."""
        return form_of(self.at)


def partition_loops(f: ir.Function, of: ir.Function | None = None) -> ir.Function:
    """Index-set splitting: cut loops into subranges in which their conditions are decided.

    Guarantee: each iteration runs once, in the old order, so a reduction of floats keeps its value. Where nothing
    is decided, the body with its names of values inlined stays the same object.

    Parameters
    ----------
    of: the nest before an earlier pass that shares the budget.
    """
    if not _has_conditions(f):
        return f
    f = inline_values(f)  # conditions on what a loop changes are seen
    body = _with_names_of_one(f.body)
    split = _split(f, body, _Splitting(f, of or f))
    return f if split is body else f.with_body(split)


def cuts_loops(f: ir.Function) -> bool:
    """Whether `partition_loops` cuts a loop; the search ends at the first one."""
    if not _has_conditions(f):
        return False
    f = inline_values(f)
    rules = _Splitting(f, f, ends_at_cut=True)
    _split(f, _with_names_of_one(f.body), rules)
    return rules.has_cut


def _with_names_of_one(root: ir.Stmt) -> ir.Stmt:
    """The nest, with fresh names where two statements bind one name.

    A condition that is decided is replaced wherever it occurs. If two loops bound one variable, what the ends of one
    loop decide would replace conditions in the other.
    """
    bound = walk.binders(root)
    return root if len(bound) == len(set(bound)) else with_fresh_names(root)


def _split(f: ir.Function, body: ir.Stmt, rules: _Splitting) -> ir.Stmt:
    enter: driver.StmtRules[_Surroundings] = {
        ir.Stmt: (rules.fold,),
        ir.For: (rules.split,),
        ir.If: (rules.fold, _take_decided),
        ir.Assert: (),  # facts about sizes may come from it
        ir.Seq: (),
    }
    leave: driver.StmtRules[_Surroundings] = {ir.Seq: (drop_unused_storage,), ir.If: (drop_idle_branch,)}
    return driver.rewritten(body, _Surroundings(_sizes(f), {}), enter, leave)


@dataclass(slots=True, eq=False)
class _Surroundings(driver.Descent):
    """Knowledge about the loops around a statement.

    Attributes
    ----------
    loops: the loops around, with their ends.
    around: the work of each loop around, per iteration of the innermost one.
    subrange: for a subrange of a loop, the ends and the work inside the whole loop; else `None`.
    is_folded: whether all conditions here that the loops decide are constants already.
    """

    loops: estimates.Loops
    around: estimates.LoopWork
    subrange: tuple[estimates.Loops, estimates.LoopWork] | None = None
    is_folded: bool = False


def _take_decided(branch: ir.If, _: _Surroundings) -> ir.Stmt:
    """Replace a branch on a constant by its taken side."""
    if branch.cond.op is not ops.BOOL:
        return branch
    side = branch.then if branch.cond.data else branch.orelse
    return ir.Seq() if side is None else ir.Seq((side,))


def _sizes(f: ir.Function) -> estimates.Loops:
    """Constant bounds of the sizes, after the assertions at the head of the function."""
    loops, known = estimates.Loops(), scope_behind_head(f).ctx.frame.known
    for size in f.sizes:
        loops = loops.inside(size, *(() if end is None else (const(end),) for end in known.bounds(known.form(size))))
    return loops


def _has_conditions(f: ir.Function) -> bool:
    found = walk.occurring(f.body)
    return ir.If in found.kinds or not _DECIDING.isdisjoint(found.operations)


_DECIDING: Final = frozenset((ops.SELECT, ops.MIN, ops.MAX))


class _Splitting:
    """The rule of `partition_loops`, with its budget.

    Attributes
    ----------
    left, left_innermost: the statements that copies of loops may still add, of loops with others inside and of
        innermost ones.
    ends_at_cut: whether the first cut ends the search; later loops stay whole.
    has_cut: whether a loop was cut.
    """

    def __init__(self, f: ir.Function, of: ir.Function, ends_at_cut: bool = False) -> None:
        self.ends_at_cut, self.has_cut = ends_at_cut, False
        size = _statements(of.body)
        more = _statements(f.body) - size
        self.left = max(FEWEST, TIMES * size) - more
        self.left_innermost = max(FEWEST, INNERMOST * size) - more
        self._worth = estimates.Worth()
        self._written = written_in(f.body)

    def fold(self, stmt: ir.Stmt, here: _Surroundings) -> ir.Stmt:
        """Decide the conditions of a statement by the loops around."""
        return stmt if here.is_folded else self._folded(stmt, here.loops.decided)

    def _folded(self, stmt: ir.Stmt, decide: Callable[[Cond], bool | None]) -> ir.Stmt:
        """A statement with its own conditions decided."""
        return walk.map_operands(stmt, lambda e: folded(e, decide)) if self._is_foldable(stmt) else stmt

    @memoized
    def _is_foldable(self, stmt: ir.Stmt) -> bool:
        """Whether an operand of a statement itself may change where conditions are decided."""
        return not FOLDED.isdisjoint(operations(*walk.operands(stmt)))

    def _all_folded(self, body: ir.Stmt, decide: Callable[[Cond], bool | None]) -> ir.Stmt:
        """A statement with all conditions inside decided."""
        return walk.rebuilt(body, lambda stmt: self._folded(stmt, decide))

    def split(self, loop: ir.For, here: _Surroundings) -> ir.Stmt:
        """Cut a loop where its conditions change. Empty loops are dropped, single iterations inlined."""
        if self.has_cut and self.ends_at_cut:
            return driver.done(loop)
        loops = here.loops
        ends = walk.range_ends(loop.range)
        low, extent = (folded(e, loops.decided) for e in ends)
        end = end_of(low, extent)
        count = estimates.difference(low, end)
        if estimates.is_in_order(end, low, loops):
            return ir.Seq()
        inner = self._inner(loop.body)
        is_steady = not any(t in inner.written for t in walk.tensors_read(low, end))  # the ends are the same all along
        known, within = here.subrange or (self._inside(loops, loop.var, low, end), None)
        body = loop.body
        if not inner.bound.isdisjoint(known.ends):  # it hides what is known
            body = with_fresh_names(body)
            inner = self._inner(body)
        if not here.is_folded or inner.is_decided(known):
            body = self._all_folded(body, known.decided)
        if count is not None:
            extent = const(count)
        if low is not ends[0] or extent is not ends[1] or body is not loop.body:
            loop = ir.with_fields(loop, range=Range(low, extent), body=body)
            inner = self._inner(body)
        only = None if not is_steady else low if count == 1 else _only_value(loop.var, known)
        if only is not None and loop.kind not in _WHOLE and not loop.carried:
            outside = _Surroundings(loops, here.around)
            return driver.Parts(
                [(walk.substitute(loop.body, {loop.var: only}), outside)], partial(_single_iteration, loop, count == 1)
            )
        within = self._worth.inside(here.around, loop) if within is None else within
        inside = _Surroundings(known, within, is_folded=True)
        changes = [] if loop.carried or not is_steady else self._breakpoints(loop, known, here.around, within)
        if loop.kind in _WHOLE:
            return self._tested(loop, changes, inside)
        subranges = _subranges(low, end, [change for change in changes if _has_value(change.at, loop, loops)], loops)
        more = (len(subranges) - 1) * (inner.size + 1)
        is_innermost = not inner.loops
        left = self.left_innermost if is_innermost else self.left - len(subranges) * self._due(loop.body)
        if len(subranges) < 2 or more > left or not (is_innermost or _is_mostly_decided(subranges)):
            return driver.Parts([(loop.body, inside)], partial(_with_body, loop))
        self.has_cut = True
        if self.ends_at_cut:
            return driver.done(loop)
        if is_innermost:
            self.left_innermost -= more
        else:
            self.left -= more
        # the interior has the budget first
        order = sorted(range(len(subranges)), key=lambda k: not subranges[k].is_interior)
        walks = [self._subloop(loop, subranges[k], here, known, keeps_names=k == order[0]) for k in order]

        def in_order(*pieces: ir.Stmt) -> ir.Stmt:
            return ir.seq(*(pieces[order.index(k)] for k in range(len(pieces))))

        return driver.Parts(walks, in_order)

    @memoized
    def _inner(self, body: ir.Stmt) -> _Inner:
        return _Inner(body, self._deciding)

    @memoized
    def _deciding(self, stmt: ir.Stmt) -> list[tuple[Cond, Cond]]:
        """For each comparison in a statement itself, the comparison twice; for each minimum or maximum, both orders."""
        return [
            (node, node) if isinstance(node, Cond) else (order_of(node, False), order_of(node, True))
            for operand in walk.operands(stmt)
            for node in deciding_nodes(operand)
        ]

    def _inside(self, loops: estimates.Loops, var: Var, low: Expr, end: Expr) -> estimates.Loops:
        """Add a loop, with those ends that keep their value throughout the function."""
        lows, highs = ([e] if self._is_fixed(e) else [] for e in (low, end - 1))
        return loops.inside(var, lows, highs)

    def _is_fixed(self, end: Expr) -> bool:
        """Whether an end reads no element that the function writes."""
        return not any(t in self._written for t in walk.tensors_read(end))

    @memoized
    def _due(self, body: ir.Stmt) -> int:
        """Count the statements that copies of inner loops will add. Inner loops run more often and go first."""
        return sum(map(self._copies, self._inner(body).loops))

    def _copies(self, loop: ir.For) -> int:
        """The statements in copies of a loop with others inside, made for conditions on its variable alone."""
        if not self._inner(loop.body).loops:
            return 0
        conds = {cond for cond, _ in self._conditions(loop.body) if set(cond.free_vars()) == {loop.var}}
        return min(len(conds), 2) * (self._inner(loop.body).size + 1)

    def _subloop(
        self, loop: ir.For, subrange: Subrange, here: _Surroundings, whole: estimates.Loops, keeps_names: bool
    ) -> tuple[ir.For, _Surroundings]:
        """A subrange as a loop, to be split further; one subrange keeps the variable and the names inside.

        Parameters
        ----------
        whole: the ends known inside the whole loop.
        """
        count = estimates.difference(subrange.low, subrange.end)
        is_short = count is not None and count < estimates.VECTOR and loop.kind is ir.LoopKind.VECTORIZED
        kind = ir.LoopKind.SERIAL if is_short else loop.kind
        highs = [high - 1 for high in subrange.highs if self._is_fixed(high)]
        lows = [low for low in subrange.lows if self._is_fixed(low)]
        limits = Range(subrange.low, estimates.extent(subrange.low, subrange.end))
        body = self._all_folded(loop.body, subrange.truths.get)
        part = ir.with_fields(loop, range=limits, body=body, kind=kind)
        if not keeps_names:
            part = with_fresh_names(part)
        known = here.loops.inside(part.var, lows, highs, within=whole.ends[loop.var])
        inner = self._worth.inside(here.around, part)
        return part, _Surroundings(here.loops, here.around, (known, inner), is_folded=True)

    def _tested(self, loop: ir.For, changes: Sequence[Breakpoint], inside: _Surroundings) -> driver.Parts:
        """Keep a loop whole and put its interior behind one test per condition."""
        size, due = self._inner(loop.body).size, self._due(loop.body)
        most = min(PIECES, max(self.left - due, 0) // (size + due))
        conds = list(dict.fromkeys(c.cond for c in changes if c.is_exact))[:most]
        if not conds:
            return driver.Parts([(loop.body, inside)], partial(_with_body, loop))
        self.has_cut = True
        self.left -= size * len(conds)
        decided: list[Mapping[Cond, bool | None]] = [dict.fromkeys(conds, True)]
        decided += [{**dict.fromkeys(conds[:k], True), conds[k]: False} for k in reversed(range(len(conds)))]

        def build(interior: ir.Stmt, *others: ir.Stmt) -> ir.Stmt:
            for cond, other in zip(reversed(conds), others, strict=True):
                interior = ir.If(cond, interior, other)
            return _with_body(loop, interior)

        parts = [(self._holding(loop.body, truths, k == 0), inside) for k, truths in enumerate(decided)]
        return driver.Parts(parts, build)

    def _holding(self, body: ir.Stmt, truths: Mapping[Cond, bool | None], keeps_names: bool) -> ir.Stmt:
        """A copy of a statement with some conditions decided; one of the copies keeps the names."""
        copy = self._all_folded(body, truths.get)
        return copy if keeps_names else with_fresh_names(copy)

    # -- which conditions a loop is taken apart for --------------------------------------------------------------------

    def _breakpoints(
        self, loop: ir.For, inside: estimates.Loops, around: estimates.LoopWork, within: estimates.LoopWork
    ) -> list[Breakpoint]:
        breakpoints: dict[tuple[Any, bool, Cond], Breakpoint] = {}
        inner_names = self._inner(loop.body).bound
        entered: dict[tuple[ir.For, ...], tuple[estimates.Loops, Sequence[tuple[ir.For, estimates.LoopWork]]]] = {}
        for cond, path in self._conditions(loop.body):
            free = set(cond.free_vars())
            if loop.var not in free or inside.decided(cond) is not None:
                continue
            if path not in entered:
                entered[path] = self._within(inside, path), tuple(self._worth.entered(path, within))
            known, outside = entered[path]
            if any(self._worth.decides(inner, free, outer) for inner, outer in outside):
                continue  # it is decided further inside
            if not self._worth.decides(loop, free, around) and free & set(around):
                continue  # it was decided further outside
            for change in _solved(cond, loop.var, known, [inner.var for inner in path]):
                if inner_names.isdisjoint(change.at.free_vars()) and not _is_beyond(change, loop.var, inside):
                    breakpoints.setdefault((change.form.key(), change.rises, change.cond), change)
        return list(breakpoints.values())

    def _within(self, loops: estimates.Loops, path: Sequence[ir.For]) -> estimates.Loops:
        """Add the loops of a path."""
        for inner in path:
            low, extent = walk.range_ends(inner.range)
            loops = self._inside(loops, inner.var, low, end_of(low, extent))
        return loops

    def _conditions(self, root: ir.Stmt) -> Iterator[tuple[Cond, tuple[ir.For, ...]]]:
        """Comparisons below a statement that splitting could decide, each with the loops around it.

        These are comparisons in selections and branches, and the order of minimum and maximum operands in indices and
        in ends of short loops. Comparisons of names that the statement defines are left out.
        """
        inner = self._inner(root)
        for stmt, path, pairs in inner.deciding:
            is_loop = isinstance(stmt, ir.For)
            is_short = isinstance(stmt, ir.For) and self._worth.is_short(stmt)
            for still, moving in pairs:
                cond = still if is_loop else moving
                if still is not moving and is_short is not is_loop:
                    continue
                if cond.op in ops.COMPARISONS and not (inner.named and inner.named & set(cond.free_vars())):
                    yield cond, path


class _Inner:
    """Sizes, loops, names, stores and comparisons of a statement and of those inside, collected in one walk.

    Attributes
    ----------
    size: the number of statements, sequences aside.
    loops: the loops.
    bound: the variables, names and arrays that they make.
    named: names of values and carried variables.
    written: the tensors that they may write.
    deciding: statements with comparisons that may be decided, each with the loops around it and the comparisons.
    """

    def __init__(self, root: ir.Stmt, deciding: Callable[[ir.Stmt], list[tuple[Cond, Cond]]]) -> None:
        self.size = 0
        self.loops: list[ir.For] = []
        self.bound: set[Any] = set()
        self.named: set[Any] = set()
        self.written: set[Tensor] = set()
        self.deciding: list[tuple[ir.Stmt, tuple[ir.For, ...], list[tuple[Cond, Cond]]]] = []
        stack: list[tuple[ir.Stmt, tuple[ir.For, ...]]] = [(root, ())]
        while stack:
            stmt, path = stack.pop()
            if type(stmt) is ir.Seq:
                stack += [(inner, path) for inner in stmt.stmts[::-1]]
                continue
            self.size += 1
            pairs = deciding(stmt)
            if pairs:
                self.deciding.append((stmt, path, pairs))
            if type(stmt) is ir.For:
                self.loops.append(stmt)
                self.bound.add(stmt.var)
                self.named.update([c.var for c in stmt.carried])
                stack.append((stmt.body, (*path, stmt)))
            elif type(stmt) is ir.If:
                stack += [(inner, path) for inner in walk.children(stmt)[::-1]]
            elif type(stmt) is ir.Allocate:
                self.bound.add(stmt.tensor)
            elif type(stmt) is ir.Let:
                self.named.add(stmt.var)
            else:
                self.written.update(walk.written_by(stmt))
        self.bound |= self.named

    def is_decided(self, loops: estimates.Loops) -> bool:
        """Whether the loops decide a comparison."""
        return any(loops.decided(cond) is not None for _, _, pairs in self.deciding for pair in pairs for cond in pair)


def _statements(root: ir.Stmt) -> int:
    return sum(not isinstance(stmt, ir.Seq) for stmt in walk.statements(root))


def _has_value(at: Expr, loop: ir.For, around: estimates.Loops) -> bool:
    """Whether a breakpoint has a value wherever its loop is reached, also where that is empty."""
    needs = {need for need in definedness((at,)) if around.decided(need) is not True}
    return not needs or needs <= set(definedness(walk.range_ends(loop.range)))


def _is_beyond(change: Breakpoint, var: Var, inside: estimates.Loops) -> bool:
    """Whether the ends of the loop prove that it lies entirely on one side of a breakpoint."""
    ahead = change.form.minus(form_of(var))
    return inside.is_at_least_0(ahead.shift(-1)) or inside.is_at_least_0(ahead.scale(-1))


def _only_value(var: Var, inside: estimates.Loops) -> Expr | None:
    """The single value of a variable; `None` if it may have several."""
    lows, highs = inside.ends[var]
    return next((low.expr() for low in lows for high in highs if low.same(high)), None)


def _solved(cond: Cond, var: Var, known: estimates.Loops, inner: Sequence[Var]) -> Iterator[Breakpoint]:
    """Solve a comparison for a loop variable, if the solution is known before the loop begins."""
    forms = estimates.says(cond)
    if forms is None or len(forms) != 1:
        return
    hidden = {var, *inner}
    for least in known.least(forms[0], inner):
        step, rest = estimates.without(least, var)
        if not step or any(hidden & set(t.free_vars()) for t in rest.terms):
            continue
        if step > 0:  # var >= ceil(-rest / step)
            at = estimates.quotient(rest.scale(-1).shift(step - 1), step, known)
        else:  # var <= floor(rest / -step)
            at = estimates.quotient(rest, -step, known).shift(1)
        yield Breakpoint(at.expr(), step > 0, cond, not set(inner) & set(cond.free_vars()))
        return


# -- pieces ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subrange:
    """Consecutive iterations of a loop: their ends, further bounds, and decided conditions."""

    low: Expr
    end: Expr
    lows: tuple[Expr, ...]
    highs: tuple[Expr, ...]
    truths: Mapping[Cond, bool | None]
    is_interior: bool


def _subranges(low: Expr, end: Expr, changes: Sequence[Breakpoint], loops: estimates.Loops) -> list[Subrange]:
    """The subranges between breakpoints of known order.

    Each subrange ends at the next breakpoint or at the end of the loop, whichever comes first; later subranges are then
    empty. In a nonempty subrange all earlier breakpoints are therefore reached, and the next one is not.
    """
    rising, falling = (_chain([c for c in changes if c.rises is rises]) for rises in (True, False))
    is_apart = bool(rising and falling) and loops.is_at_least_0(falling[0].form.minus(rising[-1].form))
    ups, downs = ({c.form.key(): c for c in side} for side in (rising, falling))
    stops = [*ups.values(), *downs.values()]
    if len(stops) >= PIECES:  # the interior and its two neighbours alone
        stops = [*list(ups.values())[-1:], *list(downs.values())[:1]]
    subranges: list[Subrange] = []
    begin = low
    for k, ahead in enumerate((*stops, None)):
        stop = end if ahead is None else estimates.clamped(ahead.at, begin, end, loops)
        if estimates.difference(begin, stop) != 0:
            lows = (low, *(c.at for c in stops[:k]))
            highs = (end,) if ahead is None else (end, ahead.at)
            is_interior = all(c.rises for c in stops[:k]) and not any(c.rises for c in stops[k:])
            truths = {
                c.cond: t for c in (*rising, *falling) if (t := _truth(c, stops[:k], ahead, is_apart)) is not None
            }
            subranges.append(Subrange(begin, stop, lows, highs, truths, is_interior))
        begin = stop
    return subranges


def _is_mostly_decided(pieces: Sequence[Subrange]) -> bool:
    """Whether enough iterations have a decided condition to pay for copies of the loop."""
    counts = [estimates.difference(piece.low, piece.end) for piece in pieces]
    known = [min(count, estimates.UNENDING) for count in counts if count is not None]
    decided = sum(
        min(count or 0, estimates.UNENDING) for piece, count in zip(pieces, counts, strict=True) if piece.truths
    )
    return len(known) < len(pieces) or decided >= SHARE * sum(known)


def _truth(change: Breakpoint, behind: Sequence[Breakpoint], ahead: Breakpoint | None, is_apart: bool) -> bool | None:
    """Whether a condition holds between breakpoints.

    Parameters
    ----------
    is_apart: whether all rising breakpoints precede all falling ones.
    """
    of_its_kind = [c for c in behind if c.rises is change.rises]
    if of_its_kind and _distance(change, of_its_kind[-1]) >= 0:  # reached
        return True if change.rises else False if change.is_exact else None
    if ahead is None:
        return None
    is_ahead = _distance(ahead, change) >= 0 if ahead.rises is change.rises else ahead.rises and is_apart
    if not is_ahead:
        return None
    return True if not change.rises else False if change.is_exact else None


def _distance(one: Breakpoint, other: Breakpoint) -> int:
    """The constant difference of two breakpoints of one chain."""
    difference = other.form.minus(one.form)
    assert difference.is_const
    return difference.const


def _chain(changes: Sequence[Breakpoint]) -> list[Breakpoint]:
    """The breakpoints at known distances from the first, in ascending order."""
    kept = [c for c in changes if c.form.minus(changes[0].form).is_const]
    return sorted(kept, key=lambda c: c.form.minus(changes[0].form).const)


def _with_body(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """A loop with another body; empty if that body is empty."""
    return ir.Seq() if ir.is_empty(body) else loop if body is loop.body else ir.with_fields(loop, body=body)


def _single_iteration(loop: ir.For, runs: bool, body: ir.Stmt) -> ir.Stmt:
    """Inline the body of a loop of one iteration. The loop stays around local storage and names."""
    is_local = any(isinstance(part, (ir.Allocate, ir.Let)) for part in ir.flat(body))
    return body if runs and not is_local else _with_body(loop, body)


def unroll(f: ir.Function) -> ir.Function:
    """The function with unrolled loops of constant extent written out, as far as each stays below `MOST` statements.

    Conditions and integers that are constants then, and selections between them, are decided.
    """
    if ir.LoopKind.UNROLLED not in [stmt.kind for stmt in walk.statements(f.body) if type(stmt) is ir.For]:
        return f
    return f.with_body(walk.rebuilt(f.body, _written_out))


def _written_out(stmt: ir.Stmt) -> ir.Stmt:
    if not isinstance(stmt, ir.For) or stmt.kind is not ir.LoopKind.UNROLLED or stmt.carried:
        return stmt
    low, count = (constant_value(e) for e in walk.range_ends(stmt.range))
    inside = list(walk.statements(stmt.body))
    if low is None or count is None or len(inside) * count > MOST:
        return stmt
    copies = [_at(stmt.body, stmt.var, low + k) for k in range(count)]
    storage = _shared(copies)
    return ir.seq(*storage, *(_block(stmt, low + k, copy, storage) for k, copy in enumerate(copies)))


def _shared(copies: Sequence[ir.Stmt]) -> list[ir.Allocate]:
    """Storage that all copies can share: allocated in each copy with equal ranges."""
    made = [{part.tensor: part for part in ir.flat(copy) if isinstance(part, ir.Allocate)} for copy in copies]
    named = {part.var for copy in copies for part in ir.flat(copy) if isinstance(part, ir.Let)}
    return [
        first
        for tensor, first in (made[0] if made else {}).items()
        if all(other[tensor].ranges == first.ranges for other in made)
        and named.isdisjoint(walk.variables(*walk.operands(first)))
    ]


def _block(loop: ir.For, value: int, copy: ir.Stmt, storage: Sequence[ir.Allocate]) -> ir.Stmt:
    """One iteration with fresh names. A loop of one iteration remains around storage of its own."""
    shared = {part.tensor for part in storage}
    kept = [part for part in ir.flat(copy) if not (isinstance(part, ir.Allocate) and part.tensor in shared)]
    body = with_fresh_names(ir.seq(*kept))
    if not any(isinstance(part, ir.Allocate) for part in ir.flat(body)):
        return body
    return replace(loop, var=Var(loop.var.name), range=Range(value, 1), body=body, kind=ir.LoopKind.SERIAL)


def _at(body: ir.Stmt, var: Var, value: int) -> ir.Stmt:
    return walk.transform(body, lambda e: decided(substitute(e, {var: const(value)})))
