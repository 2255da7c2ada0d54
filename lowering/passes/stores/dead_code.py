"""Dead code elimination: dead storage and names (`drop_dead`), no-op stores, empty loops, stores of unknown values.

`drop_empty` drops loops that are proved empty, `remove_no_op` stores that the dataflow proves dead or redundant, and
`drop_identities` stores such as `C[i] = C[i] + 0.0`, by their form.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import copysign, inf
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import NUMBER, Operand, Value, constant
from bound.tir.walk import loaded_tensor, read_indices, rewrite, substitute
from intset.config import Effort
from intset.expr import Expr, Node, Var, const, constant_value, dag, ops
from intset.expr.node import truth
from lowering.dataflow import account_of
from lowering.nest import driver, ir, walk
from lowering.nest.printer import Entry, PassReport, end_of
from lowering.nest.scope import Scope, proof_of, proves
from lowering.passes.estimates import Loops, is_in_order
from lowering.passes.simplify import drop_idle_branch, drop_idle_loop
from lowering.passes.stores.reaching_values import ReachingValues, ValueCase, check_assumptions, same

NO_OP_ROUNDS: Final = 6  # rounds of removing what earlier removals made dead


def drop_dead(f: ir.Function) -> ir.Function:
    """Drop tensors that no output depends on, with the computation of them, and unused names.

    A tensor that only its own elements read counts as dead.

    Guarantee: parameters end with the same elements, and host calls see the same arrays.
    """
    ir.checked_function(f, "drop_dead")
    live = _live_tensors(f)
    return _cleaned(f, lambda body: live)


def _cleaned(f: ir.Function, live_in: Callable[[ir.Stmt], set[Tensor]]) -> ir.Function:
    """Drop dead stores, storage, names and empty loops until nothing changes: an unused name may use another."""
    while True:
        live = live_in(f.body)
        stmts = list(walk.statements(f.body))
        used: set[Parameter] = set()
        if ir.Let in map(type, stmts):
            kept = [stmt for stmt in stmts if not isinstance(stmt, (ir.Store, ir.Allocate)) or stmt.tensor in live]
            used = {v for stmt in kept for v in walk.variables(*walk.operands(stmt))}
        is_clean = all([_is_needed(stmt, live, used) for stmt in stmts])  # noqa: C419  # hot
        body = f.body if is_clean else _without_dead(f.body, live, used)
        if body is f.body:
            return f
        f = f.with_body(body)


def _is_needed(stmt: ir.Stmt, live: set[Tensor], used: set[Parameter]) -> bool:
    """Whether a statement stays: no store or storage of a dead tensor, no unused name, neither empty nor carrying."""
    if isinstance(stmt, (ir.Store, ir.Allocate)):
        return stmt.tensor in live
    if isinstance(stmt, ir.Let):
        return stmt.var in used
    return not stmt.carried if isinstance(stmt, ir.For) else not ir.is_empty(stmt)


def _without_dead(root: ir.Stmt, live: set[Tensor], used: set[Parameter]) -> ir.Stmt:
    """Drop stores and storage of dead tensors, and unused names."""

    def drop(stmt: ir.Stmt, _: driver.Descent) -> ir.Stmt:
        return stmt if _is_needed(stmt, live, used) else ir.Seq()

    rules: driver.StmtRules[driver.Descent] = {
        ir.Store: (drop,),
        ir.Allocate: (drop,),
        ir.Let: (drop,),
        ir.For: (drop_idle_loop, _drop_unused_carries),
        ir.If: (drop_idle_branch,),
    }
    return driver.rewritten(root, driver.Descent(), leave=rules)


def _drop_unused_carries(loop: ir.For, _: driver.Descent) -> ir.For:
    """Drop the variables that a loop carries and nothing in it needs."""
    if not loop.carried:
        return loop
    used = {v for stmt in walk.statements(loop.body) for v in walk.variables(*walk.operands(stmt))}
    carried: dict[Any, ir.Carry] = {c.var: c for c in loop.carried}
    needed = dag.reachable(used, lambda v: walk.variables(carried[v].following) if v in carried else ())
    kept = tuple(c for c in loop.carried if c.var in needed)
    return loop if len(kept) == len(loop.carried) else replace(loop, carried=kept)


def _live_tensors(f: ir.Function) -> set[Tensor]:
    live = set(f.params)
    feeds: dict[Tensor, set[Tensor]] = {}
    for stmt in walk.statements(f.body):
        read = walk.read_by(stmt)
        if type(stmt) is ir.Store:
            feeds.setdefault(stmt.tensor, set()).update(read)
        elif read or type(stmt) is ir.Evaluate:
            live.update((*read, *walk.written_by(stmt)))
    return set(dag.reachable(live, lambda tensor: feeds.get(tensor, ())))


def drop_unused_storage(block: ir.Seq, _: driver.Descent) -> ir.Stmt:
    """A sequence without unused storage."""
    unused = {part.tensor for part in block.stmts if isinstance(part, ir.Allocate)}
    for stmt in walk.statements(block):
        if not unused:
            return block
        unused.difference_update(walk.read_by(stmt), walk.written_by(stmt))
    if not unused:
        return block
    return ir.seq(*(part for part in block.stmts if not isinstance(part, ir.Allocate) or part.tensor not in unused))


def remove_no_op(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Remove statements without effect: dead and redundant stores, empty branches and loops, unused storage and names.

    Guarantee: parameters end with the same elements; no statement is added.

    Parameters
    ----------
    report: receives one `Entry` per store.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "remove_no_op")
    account = account_of(f)
    reaching = ReachingValues(f, account)
    check_assumptions(f, reaching)
    stores = PassReport(f)
    for _ in range(NO_OP_ROUNDS):
        gone = _dead_stores(reaching, stores) or _redundant_stores(reaching, stores)
        if not gone:
            break
        f = _without(f, gone, stores)
        reaching = ReachingValues(f, account)
    else:
        stores.say((), False, f"after {NO_OP_ROUNDS} rounds more may be left: the budget is spent", what="rounds")
    stores.give(report)
    return _cleaned(f, lambda body: set(walk.touched(body)))


def _without(f: ir.Function, gone: set[walk.Path], report: PassReport) -> ir.Function:
    """The function without the statements at some paths, and without loops and branches left empty."""

    def drop(stmt: ir.Stmt, cursor: driver.Cursor) -> ir.Stmt:
        return ir.Seq() if cursor.path in gone else stmt

    rules: driver.StmtRules[driver.Cursor] = {
        ir.Stmt: (drop,),
        ir.For: (drop_idle_loop,),
        ir.If: (drop_idle_branch,),
        ir.Seq: (),
    }
    new, origins = driver.traced(f, rules, {})
    report.moved(origins)
    return new


def _dead_stores(reaching: ReachingValues, report: PassReport) -> set[walk.Path]:
    """The paths of stores whose every instance is dead, or redundant by the contents of its operands."""
    gone: set[walk.Path] = set()
    for cursor in driver.cursors(reaching.f):
        if not isinstance(cursor.stmt, ir.Store):
            continue
        dead = reaching.flow.dead(cursor)
        unread = proof_of(cursor.scope, dead)
        if unread or reaching.changes_nothing(cursor, cursor.scope.where(~dead)):
            gone.add(cursor.path)
            why = "nobody reads its value" if unread else "the element holds that value already"
            report.say(cursor.path, True, why)
        else:
            report.say(cursor.path, False, "its value is read, or kept at the end", cursor.point(unread))
    return gone


def _redundant_stores(reaching: ReachingValues, report: PassReport) -> set[walk.Path]:
    """The paths of stores that repeat the current contents of their element."""
    f = reaching.f
    told = (
        walk.tensors_read(s.cond) if isinstance(s, ir.Assume) else walk.written_by(s) for s in walk.statements(f.body)
    )
    writers = Counter(tensor for tensors in told for tensor in tensors)
    gone: set[walk.Path] = set()
    for cursor in driver.cursors(f):
        stmt = cursor.stmt
        if isinstance(stmt, ir.Store) and writers[stmt.tensor] > 1 and _holds_already(stmt, cursor, reaching):
            report.say(cursor.path, True, "the element holds that value already")
            gone.add(cursor.path)
    return gone


def _holds_already(stmt: ir.Store, cursor: driver.Cursor, reaching: ReachingValues) -> bool:
    """Whether a store repeats the current contents of its element."""
    if ir.has_undef(stmt.value):
        return False
    if any(not proves(cursor.scope, ~cond) for cond in reaching.flow.not_told(cursor)):
        return False
    cases: list[ValueCase] | None = None
    sources = reaching.flow.held(cursor)
    for source in sources:
        here = cursor.scope.where(source.where)
        if proves(here, truth(False)):
            continue
        if source.value is None:
            return False
        value = source.value
        cases = list(reaching.cases(cursor, stmt.value)) if cases is None else cases
        if not all(_equal(case, stmt, value, here) for case in cases):
            return False
    return bool(sources)


def _equal(case: ValueCase, stmt: ir.Store, contents: Operand, scope: Scope) -> bool:
    here = scope.where(*case.where)
    value = walk.replaced(stmt.value, case.values)
    if proves(here, truth(False)) or value is contents:
        return True
    if isinstance(value, Expr) and isinstance(contents, Expr):
        return proves(here, value.eq(contents))
    return same(stmt, value, here) if isinstance(value, Value) else False


def drop_empty(f: ir.Function) -> ir.Function:
    """Drop loops that are proved empty, and what was computed for them.

    Guarantee: the same stores in the same order. Each proof uses linear forms alone, because every loop asks for one.
    """

    def leave_out(loop: ir.For, cursor: driver.Cursor) -> ir.Stmt:
        _, extent = walk.range_ends(loop.range)
        return ir.Seq() if proof_of(cursor.scope, extent <= 0, Effort.FAST) else loop

    return drop_dead(driver.rewritten_function(f, leave={ir.For: (leave_out,)}))


# -- identity stores -------------------------------------------------------------------------------------------------


_LEAST: Final = {ops.MAX: -inf, ops.MIN: inf, ops.MUL: 1.0}  # what changes no number whatsoever


def drop_identities(f: ir.Function) -> ir.Function:
    """Drop stores that change no element, and loops left empty.

    Guarantee: every element keeps its value, the sign of zero included.
    """
    candidates = [s for s in walk.statements(f.body) if isinstance(s, ir.Store) and _may_change_nothing(s)]
    dropped = {s for s in candidates if _changes_nothing(f, s)}
    if not dropped:
        return f
    return drop_dead(f.with_body(walk.rebuilt(f.body, lambda stmt: ir.Seq() if stmt in dropped else stmt)))


def _may_change_nothing(store: ir.Store) -> bool:
    value = store.value
    if isinstance(value, Expr):
        return loaded_tensor(value) is store.tensor and read_indices(value) == store.indices
    return walk.is_combining(store) and _number(value.args[1]) is not None


def _changes_nothing(f: ir.Function, store: ir.Store) -> bool:
    if not isinstance(store.value, Value):
        return True
    op, number = store.value.op, _number(store.value.args[1])
    assert number is not None
    if op in _LEAST and number == _LEAST[op]:
        return True
    if number == 0 and (op, copysign(1, number)) in ((ops.ADD, -1), (ops.SUB, 1)):
        return True
    if not all(_keeps(stmt, store.tensor, op, number) for stmt in walk.statements(f.body)):
        return False
    if store.tensor in f.params:
        return _is_begun(f, store)
    stored = [s.value for s in walk.statements(f.body) if isinstance(s, ir.Store) and s.tensor is store.tensor]
    return any(_number(value) is not None for value in stored)


def _keeps(stmt: ir.Stmt, tensor: Tensor, op: ops.Op, number: float) -> bool:
    """Whether `op` with `number` keeps every element after a statement."""
    if isinstance(stmt, ir.Evaluate):
        return tensor not in stmt.writes
    if not isinstance(stmt, ir.Store) or stmt.tensor is not tensor:
        return True
    start = _number(stmt.value)
    if op is ops.ADD:
        begins = start is not None and (start != 0 or copysign(1, start) == 1)
        return number == 0 and (begins or (walk.is_combining(stmt) and stmt.value.op is ops.ADD))
    if op is ops.MAX:
        return (start is not None and start >= number) or (walk.is_combining(stmt) and stmt.value.op is op)
    if op is ops.MIN:
        return (start is not None and start <= number) or (walk.is_combining(stmt) and stmt.value.op is op)
    return False


# -- what begins an element that was given -----------------------------------------------------------------------------


def _is_begun(f: ir.Function, store: ir.Store) -> bool:
    """Whether a constant start precedes a store for each of its elements, in the same common iteration."""
    cursor = driver.cursor_of(f, store)
    known = Loops().within(*cursor.loops)
    around: ir.Stmt = f.body
    for k in cursor.path:
        for before in around.stmts[:k] if isinstance(around, ir.Seq) else ():
            if any(_covers(start, loops, store, known) for start, loops in _starts(before, store.tensor)):
                return True
        around = walk.children(around)[k]
    return False


def _starts(root: ir.Stmt, tensor: Tensor) -> Iterator[tuple[ir.Store, tuple[ir.For, ...]]]:
    """The constants that a statement stores in a tensor whenever it is reached, with the loops around them."""
    stack: list[tuple[ir.Stmt, tuple[ir.For, ...]]] = [(root, ())]
    while stack:
        stmt, loops = stack.pop()
        if isinstance(stmt, ir.Store) and stmt.tensor is tensor and _number(stmt.value) is not None:
            yield stmt, loops
        elif isinstance(stmt, ir.Seq):
            stack.extend((inner, loops) for inner in stmt.stmts)
        elif isinstance(stmt, ir.For):
            stack.append((stmt.body, (*loops, stmt)))


def _covers(start: ir.Store, loops: Sequence[ir.For], store: ir.Store, known: Loops) -> bool:
    """Whether one store covers all elements of another."""
    values: dict[Var, Expr] = {}
    own = {loop.var for loop in loops}
    if not all(_matches(a, b, own, values) for a, b in zip(start.indices, store.indices, strict=True)):
        return False
    for loop in loops:
        low, extent = (substitute(e, dict(values)) for e in walk.range_ends(loop.range))
        at = values.get(loop.var)
        if at is None:
            if (constant_value(extent) or 0) < 1:
                return False
        elif not (is_in_order(low, at, known) and is_in_order(at + 1, end_of(low, extent), known)):
            return False
    return True


def _matches(a: Node, b: Node, own: set[Var], values: dict[Var, Expr]) -> bool:
    """Whether one index equals another for some values of the variables `own`; these are recorded."""
    if isinstance(a, Var) and a in own and isinstance(b, Expr):
        return values.setdefault(a, b) is b
    if a.op is not b.op or a.data != b.data or len(a.args) != len(b.args) or not a.args:
        return a is b
    return all(_matches(x, y, own, values) for x, y in zip(a.args, b.args, strict=True))


def _number(value: Operand) -> float | None:
    if not isinstance(value, Value) or value.op is not NUMBER or not dtypes.is_float(value.dtype):
        return None
    return float(value.data)


def remove_undef(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Remove `undef()` everywhere except in assumptions.

    A store of an unknown value is dropped. It stores 0 instead if a later read would otherwise meet an uninitialized
    element; an `undef()` that only some points select becomes 0, too.

    Guarantee: an unknown value becomes a known one, never the reverse; passes that use element contents lose nothing.

    Parameters
    ----------
    report: receives one `Entry` per store of an `undef()`.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "remove_undef")
    check_assumptions(f)
    if not any(ir.has_undef(*walk.operands(s)) for s in walk.statements(f.body) if not isinstance(s, ir.Assume)):
        return f
    decisions = PassReport(f)
    unknown = [at for at in driver.cursors(f) if isinstance(at.stmt, ir.Store) and always_undef(at.stmt.value)]
    read = _read_before_written(ReachingValues(f), unknown) if unknown else set()
    gone = {at.path for at in unknown} - read
    for at in unknown:
        stored = "0 is stored: what reads the element would meet one that holds nothing"
        decisions.say(at.path, True, "a value that nobody knows is not stored" if at.path in gone else stored)

    def remove_store(stmt: ir.Store, cursor: driver.Cursor) -> ir.Stmt:
        if cursor.path in gone:
            return ir.Seq()
        return replace(stmt, value=zero(stmt.tensor.dtype)) if cursor.path in read else stmt

    def store_zeros(stmt: ir.Stmt, cursor: driver.Cursor) -> ir.Stmt:
        if not ir.has_undef(*walk.operands(stmt)):
            return stmt
        decisions.say(cursor.path, True, "0 takes the place of an undef() that is not always what counts")
        return walk.map_operands(stmt, _with_zeros)

    leave: driver.StmtRules[driver.Cursor] = {
        ir.Stmt: (store_zeros,),
        ir.Store: (remove_store, store_zeros),
        ir.For: (drop_idle_loop, store_zeros),
        ir.If: (drop_idle_branch, store_zeros),
        ir.Assume: (),
    }
    changed = driver.rewritten_function(f, leave=leave)
    decisions.give(report)
    return changed


def always_undef(value: Operand) -> bool:
    """Whether every evaluation of a value involves an `undef()`."""
    return any(
        ir.is_undef(node) or (node.op is ops.SELECT and all(map(always_undef, node.args[1:])))
        for node in dag.reachable([value], lambda node: () if node.op in ops.LAZY else node.args)
    )


def zero(dtype: str) -> Operand:
    """The 0 of a type."""
    if dtypes.is_int(dtype):
        return const(0)
    return truth(False) if dtype == "bool" else constant(0.0, dtype)


def _with_zeros(operand: Operand) -> Operand:
    if not ir.has_undef(operand):
        return operand
    new = {node: zero(node.dtype) if isinstance(node, Value) else const(0) for node in ir.undefs(operand)}
    return rewrite(operand, new)


def _read_before_written(reaching: ReachingValues, stores: list[driver.Cursor]) -> set[walk.Path]:
    """The paths of stores whose removal would expose an uninitialized element to a read."""
    f = reaching.f
    removed = {at.path for at in stores}
    targets = {at.stmt.tensor for at in stores if isinstance(at.stmt, ir.Store)}
    candidates: list[tuple[driver.Cursor, Operand | Tensor, set[walk.Path]]] = []
    for at in driver.cursors(f):
        if targets.isdisjoint(walk.read_by(at.stmt)):
            continue
        for node, sources in reaching.flow.by_element(at).items():
            writers = {s.path for s in sources if s.path in removed}
            if any(s.kind == "unknown" and s.path is None for s in sources):
                tensor = node if isinstance(node, Tensor) else loaded_tensor(node)
                writers |= {w.path for w in stores if isinstance(w.stmt, ir.Store) and w.stmt.tensor is tensor}
            if writers:
                candidates.append((at, node, writers))
    if not candidates:
        return set()
    # Reaching values without these stores; an assumption that reads nothing keeps the paths.
    bare = driver.with_statements(f, dict.fromkeys((at.path for at in stores), ir.Assume(truth(True), True)))
    without = ReachingValues(bare, reaching.account)
    positions = {at.path: at for at in driver.cursors(bare)}
    needed: set[walk.Path] = set()
    for at, node, writers in candidates:
        for source in without.flow.by_element(positions[at.path]).get(node, ()):
            is_written = source.kind in ("store", "assume") and source.path is not None
            if not is_written and not proves(at.scope, ~source.where):
                needed |= writers
    return needed
