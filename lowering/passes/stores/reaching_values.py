"""What elements hold, by the dataflow; what a nest assumes of them; checks of its accesses.

Reaching values are the contents of elements at reads: they decide conditions, and show stores redundant. Anybody can
write the mark "proved" of an assumption. It is verified when a nest is parsed or printed, and before `remove_assume`
drops a marked assumption without a requirement. `with_bounds_checks` puts assertions in front of statements whose
accesses are not proved to lie in their tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from bound import dtypes
from bound.infer.accesses import TensorAccess, reached
from bound.tensor import Tensor, element, unfinished
from bound.tir import build, walk
from bound.tir.reduce import Parameter
from bound.tir.value import CONVERT, DIV, NUMBER, Operand, Truth, Value
from intset.errors import InputError
from intset.expr import Cond, Expr, constant_value, dag, ops, shown
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.node import truth
from intset.prover.proof import PROVED, REFUTED
from intset.regions.shape import Account
from lowering.dataflow import Dataflow, Source, account_of, dataflow
from lowering.dataflow.flow import located_accesses
from lowering.dataflow.program import Program, always_read
from lowering.errors import AccessError
from lowering.nest import driver, ir
from lowering.nest.printer import Entry, PassReport, text
from lowering.nest.scope import Scope, in_storage, limits_of_elements, proof_of, proves, storage_of, written_in
from lowering.nest.walk import elements_read, operands, rebuilt, replaced, statements, tensors_read, variables

KNOWN_CASES: Final = 16  # cases of the contents of the elements in a condition


class ValueCase(NamedTuple):
    """The contents of elements under a condition on the loops."""

    where: tuple[Cond, ...]
    values: dict[Operand, Operand]


class ReachingValues:
    """The dataflow of a function, asked at cursors.

    Guarantee: cases cover every point of a position; a decided condition has that value wherever it is computed.

    Attributes
    ----------
    flow: the dataflow.
    account: the dataflow operations left for a pass on this function and on the functions it derives.
    """

    def __init__(self, f: ir.Function, account: Account | None = None) -> None:
        self.f = f
        self.account = account_of(f) if account is None else account
        self.flow: Dataflow = dataflow(f, self.account)
        self._has_assumptions = any(isinstance(stmt, ir.Assume) for stmt in statements(f.body))

    @cached_property
    def unclear(self) -> frozenset[Tensor]:
        """The tensors whose elements may hold an `undef()`."""
        return unclear_tensors(self.f)

    # -- cases --------------------------------------------------------------------------------------------------

    def cases(self, cursor: driver.Cursor, *operands: Operand) -> Iterator[ValueCase]:
        """Element contents for all reads in operands, by cases that cover every point that computes the operands.

        Lazy operations (`and`, `or`, `select`) skip reads at some points, about which reaching definitions say
        nothing. Each such read adds an unreached case, which gives its element no value.

        Parameters
        ----------
        operands: parts of the statement at the cursor. Parts of a branch of a select concern that branch's points only.

        Returns
        -------
        Cases, possibly overlapping. Beyond `KNOWN_CASES`: one case without conditions and contents.
        """
        told: list[list[tuple[Cond, Operand, Operand | None]]] = []
        count = 1
        read = list(elements_read(*operands))
        sources = self.flow.by_element(cursor) if read else {}
        always = always_read(*operands) if read else set()
        for node, tensor in read:
            values = [(s.where, node, _value(s, tensor)) for s in sources.get(node, ())]
            if any(value is not None for _, _, value in values):
                if node not in always:
                    unreached = logical_not(logical_or(*(where for where, _, _ in values)))
                    values += [] if unreached is truth(False) else [(unreached, node, None)]
                count *= len(values)
                if count > KNOWN_CASES:
                    break
                told.append(values)
        for combination in itertools.product(*told) if count <= KNOWN_CASES else [()]:
            where = tuple(cond for cond, _, _ in combination)
            yield ValueCase(where, {node: value for _, node, value in combination if value is not None})

    def decides(self, cursor: driver.Cursor, part: Operand) -> bool | None:
        """The constant truth of a condition at a position; `None` if unknown."""
        if ir.has_undef(part):
            return None
        answer = self._decides(cursor, part, [])
        facts = self.assumed(cursor, part) if answer is None else []
        for cond in (fact for fact in facts if not isinstance(fact, Cond)):
            if part is cond or build.negation(part) is cond:
                return part is cond
        return self._decides(cursor, part, facts) if facts else answer

    def _decides(self, cursor: driver.Cursor, part: Operand, facts: list[Truth]) -> bool | None:
        truths = {
            decided(replaced(part, case.values), here)
            for case, here in self._known_to(cursor, part, facts)
            if not proves(here, truth(False))
        }
        return truths.pop() if len(truths) == 1 else None if truths else True

    def _known_to(self, cursor: driver.Cursor, part: Operand, facts: list[Truth]) -> Iterator[tuple[ValueCase, Scope]]:
        """The cases of a condition, each paired with its scope."""
        said = [fact for fact in facts if isinstance(fact, Cond)]
        for case in self.cases(cursor, part):
            known = [*said, *(new for fact in said if (new := replaced(fact, case.values)) is not fact)]
            yield case, cursor.scope.where(*case.where).during(*known)

    def assumed(self, cursor: driver.Cursor, *operands: Operand) -> list[Truth]:
        """Assumptions about elements in operands, other than their values."""
        read = list(elements_read(*operands)) if self._has_assumptions else []
        assumed = self.flow.assumed(cursor) if read else {}
        told: list[Any] = []
        for where, fact in (one for node, _ in read for one in assumed.get(node, ())):
            if isinstance(fact, Cond):
                told.append(logical_or(logical_not(where), fact))
            elif proves(cursor.scope, where):
                told.append(fact)
        return told

    def why_not_decided(self, cursor: driver.Cursor, part: Operand) -> tuple[str, tuple[int, ...] | None]:
        """The reason why a condition is undecided, and loop values of a counterexample."""
        for node, tensor in elements_read(part):
            for source in self.flow.by_element(cursor).get(node, ()):
                here = cursor.scope.where(source.where)
                if _value(source, tensor) is None and not proves(here, truth(False)):
                    point = cursor.point(proof_of(cursor.scope, ~source.where))
                    return f"{text(node)} may be {_told(source, tensor)}", point
        proof = proof_of(cursor.scope, part) if isinstance(part, Cond) else None
        point = None if proof is None else cursor.point(proof)
        return f"{text(part)} may hold, and may not", point

    # -- stores -------------------------------------------------------------------------------------------------

    def changes_nothing(self, cursor: driver.Cursor, scope: Scope) -> bool:
        """Whether a store keeps its element unchanged at every point of `scope`."""
        return _may_keep(cursor.stmt) and all(is_kept for _, is_kept in self._kept(cursor, scope))

    def unchanged(self, cursor: driver.Cursor) -> list[Cond]:
        """Conditions on the loops under which a store keeps its element unchanged."""
        cases = self._kept(cursor, cursor.scope) if _may_keep(cursor.stmt) else ()
        return [logical_and(*case.where) for case, is_kept in cases if case.where and is_kept]

    def _kept(self, cursor: driver.Cursor, scope: Scope) -> Iterator[tuple[ValueCase, bool]]:
        """The cases of a store that a scope reaches; whether the element stays unchanged in each."""
        stmt = cursor.stmt
        assert isinstance(stmt, ir.Store)
        for case in self.cases(cursor, stmt.value):
            here = scope.where(*case.where)
            if not proves(here, truth(False)):
                yield case, same(stmt, replaced(stmt.value, case.values), here)


def _told(source: Source, tensor: Tensor) -> str:
    """Describe element contents of unknown value."""
    return {
        "entry": "what it was given",
        "unwritten": "unwritten",
        "assume": f"what line {source.line} assumes, which is no value that is known",
        "store": f"what line {source.line} stores, of which it is not known that {tensor.dtype} holds it as it is"
        " written",
    }.get(source.kind, "one of several values, or one that nobody knows")


def _may_keep(stmt: ir.Stmt) -> bool:
    """Whether a store reads its own tensor: necessary for keeping the element."""
    assert isinstance(stmt, ir.Store)
    return stmt.tensor in tensors_read(stmt.value) and not ir.has_undef(stmt.value)


def _value(source: Source, tensor: Tensor) -> Operand | None:
    """The contents that a reaching definition implies; `None` unless that is a stable expression."""
    value = source.value
    if value is None or ir.has_undef(value):
        return None
    if isinstance(value, Value) and dtypes.is_float(value.dtype):
        return value if value.op is NUMBER and source.kind != "unknown" else None
    return value


def decided(cond: Operand, scope: Scope) -> bool | None:
    """The constant truth of a condition in a scope; `None` if unknown."""
    if isinstance(cond, Cond):
        proof = proof_of(scope, cond)
        if proof:
            return True
        return False if proof_of(scope, ~cond) else None
    if cond.op is NUMBER:
        return bool(cond.data)
    if cond.op in ops.COMPARISONS:
        a, b = (_number(arg) for arg in cond.args)
        assert cond.op.meaning is not None
        return None if a is None or b is None else bool(cond.op.meaning(a, b))
    if cond.op is ops.NOT:
        inner = decided(cond.args[0], scope)
        return None if inner is None else not inner
    if cond.op in (ops.AND, ops.OR):
        sides = [decided(arg, scope) for arg in cond.args]
        settling = cond.op is ops.OR
        if settling in sides:
            return settling
        return None if None in sides else not settling
    return None


def _number(e: Operand) -> float | None:
    """The value of a constant that every machine represents exactly, else `None`."""
    if isinstance(e, Expr):
        value = constant_value(e)
        return None if value is None or abs(value) > 1 << 24 else float(value)
    if e.op is CONVERT and isinstance(e.args[0], Expr) and dtypes.is_float(e.dtype):
        value = constant_value(e.args[0])
        return None if value is None else dtypes.rounded(value, e.dtype)
    if e.op is NUMBER and dtypes.is_float(e.dtype):
        return float(e.data)
    return None


def same(stmt: ir.Store, value: Operand, scope: Scope) -> bool:
    """Whether a value equals the current contents of the stored element."""
    contents = unfinished(stmt.tensor, stmt.indices)
    dtype = stmt.tensor.dtype
    value = walk.rewrite(value, {node: contents for node in walk.nodes(value) if _is_element(node, stmt, scope)})
    if isinstance(value, Expr):
        return isinstance(contents, Expr) and proves(
            scope.always(*limits_of_elements(value, contents)), value.eq(contents)
        )
    if isinstance(value, Cond) or value.dtype != dtype:
        return False
    return reduced(value) is contents


def _is_element(node: Operand, stmt: ir.Store, scope: Scope) -> bool:
    """Whether a node loads the stored element."""
    if walk.loaded_tensor(node) is not stmt.tensor:
        return False
    return all(proves(scope, a.eq(b)) for a, b in zip(node.args, stmt.indices, strict=True))


def reduced(value: Operand) -> Operand:
    """Remove float operations that keep every number: `x + 0.0`, `x * 1.0`, a maximum with `-inf`.

    `x - x` and `0.0 * x` stay, because of infinities and NaN. Equality is that of `==`.
    """
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(value):
        if isinstance(node, Value):
            args = tuple(new.get(arg, arg) for arg in node.args)
            operation = walk.rewrite(node, {a: b for a, b in zip(node.args, args, strict=True) if a is not b})
            new[node] = _identity(operation) if isinstance(operation, Value) else operation
    return new.get(value, value)


def _identity(node: Value) -> Operand:
    if len(node.args) != 2 or node.op not in _NEUTRAL:
        return node
    a, b = node.args
    right, left = _NEUTRAL[node.op]
    if right is not None and _number(b) == right:
        return a
    return b if left is not None and _number(a) == left else node


_INF: Final = float("inf")
_NEUTRAL: Final[dict[ops.Op, tuple[float | None, float | None]]] = {
    ops.ADD: (0.0, 0.0),
    ops.SUB: (0.0, None),
    ops.MUL: (1.0, 1.0),
    DIV: (1.0, None),
    ops.MAX: (-_INF, -_INF),
    ops.MIN: (_INF, _INF),
}


# -- unknown values ---------------------------------------------------------------------------------------------------


def unclear_tensors(f: ir.Function) -> frozenset[Tensor]:
    """The tensors whose elements may depend on an `undef()`."""
    unclear: list[Tensor | Parameter] = []
    feeds: dict[Tensor | Parameter, list[Tensor | Parameter]] = {}
    for stmt in statements(f.body):
        if isinstance(stmt, ir.Assume):
            unclear += tensors_read(stmt.cond) if ir.has_undef(stmt.cond) else ()
        elif isinstance(stmt, (ir.Store, ir.Let)):
            made = stmt.tensor if isinstance(stmt, ir.Store) else stmt.var
            unclear += [made] if ir.has_undef(stmt.value) else ()
            for source in (*tensors_read(stmt.value), *variables(stmt.value)):
                feeds.setdefault(source, []).append(made)
    found = dag.reachable(unclear, lambda source: feeds.get(source, ()))
    return frozenset(thing for thing in found if isinstance(thing, Tensor))


def deciding_tensors(stmt: ir.Stmt) -> Iterator[Tensor]:
    """The tensors that control a statement: in conditions, ranges, indices, and values of names."""
    if not isinstance(stmt, ir.Store):
        yield from walk.input_tensors(operands(stmt))
        return
    yield from walk.input_tensors(stmt.indices)
    for node in walk.nodes(stmt.value):
        if walk.loaded_tensor(node) is not None:
            yield from walk.input_tensors(node.args)
        elif node.op is ops.SELECT:
            yield from walk.input_tensors(node.args[:1])


# -- assumptions ------------------------------------------------------------------------------------------------------


def remove_assume(f: ir.Function, report: list[Entry] | None = None) -> ir.Function:
    """Remove assumptions: proved ones disappear, each other one moves to `requires`.

    Run it last: later passes lose these facts. An assumption that permits to read allocated storage
    that nothing writes stays.

    Guarantee: `requires` lists every unproved assumption that was removed.

    Parameters
    ----------
    report: receives one `Entry` per assumption.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    ir.checked_function(f, "remove_assume")
    check_assumptions(f)
    f = with_checked_claims(f)
    decisions = PassReport(f)
    local = {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, ir.Allocate)}
    required: list[ir.Requirement] = []

    def remove(stmt: ir.Assume, cursor: _WithNames) -> ir.Stmt:
        permitted = ir.permission(stmt.cond)
        if permitted is not None and permitted[1] in local and not stmt.proved:
            decisions.say(cursor.path, False, f"it lets {permitted[1].name} be read before it is written")
            return stmt
        decisions.say(cursor.path, True, "it is proved" if stmt.proved else "it moves to the requirements")
        if not stmt.proved:
            required.append(ir.Requirement(stmt.cond, _within(stmt, cursor)))
        return ir.Seq()

    body = driver.rewritten(f.body, _WithNames.root(f).moved(names=()), leave={ir.Assume: (remove,)})
    decisions.give(report)
    return replace(f, body=body, requires=(*f.requires, *required))


class _WithNames(driver.Cursor):
    """A cursor with the names in sight."""

    names: tuple[ir.Let, ...]

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _WithNames:
        here = super().after(old, new)
        return here.moved(names=(*self.names, old)) if isinstance(old, ir.Let) else here


def _within(assumption: ir.Stmt, cursor: _WithNames) -> ir.Stmt:
    """An assumption inside the loops, names and branches around it."""
    nest = assumption
    for branch, holds in reversed(cursor.branches):
        nest = ir.If(branch.cond, nest) if holds else ir.If(branch.cond, ir.Seq(), nest)
    nest = ir.seq(*cursor.names, nest)
    for loop in reversed(cursor.loops):
        nest = replace(loop, body=nest)
    return nest


# -- claims --------------------------------------------------------------------------------------------------------


_CHECKED: Final[WeakKeyDictionary[ir.Function, ir.Function]] = WeakKeyDictionary()


def with_checked_claims(f: ir.Function) -> ir.Function:
    """Remove the mark "proved" of assumptions that the dataflow does not prove.

    Guarantee: what stays marked follows from the stores of the nest and from assumptions before it in time, each of
    which is proved or the user's word. No assumption is marked that was not.
    """
    if not any(isinstance(stmt, ir.Assume) and stmt.proved for stmt in statements(f.body)):
        return f
    if f not in _CHECKED:
        checked = _checked(f)
        _CHECKED[f] = _CHECKED[checked] = checked
    return _CHECKED[f]


def _checked(f: ir.Function) -> ir.Function:
    reaching = ReachingValues(f)
    demoted = {
        cursor.path: replace(cursor.stmt, proved=False)
        for cursor in driver.cursors(f)
        if isinstance(cursor.stmt, ir.Assume) and cursor.stmt.proved and not _follows(f, cursor.stmt, cursor, reaching)
    }
    return driver.with_statements(f, demoted)


def _follows(f: ir.Function, claim: ir.Assume, cursor: driver.Cursor, reaching: ReachingValues) -> bool:
    """Whether preceding statements prove an assumption."""
    if ir.has_undef(claim.cond):
        return _is_readable(f, claim, cursor)
    return reaching.decides(cursor, claim.cond) is True


def _is_readable(f: ir.Function, claim: ir.Assume, cursor: driver.Cursor) -> bool:
    """Whether the element that `c or T[i] == undef()` permits to read holds something wherever c is false."""
    permitted = ir.permission(claim.cond)
    if permitted is None:
        return False
    unless, tensor, indices = permitted
    contents = element(tensor, indices)
    probe = ir.let("held", contents)
    body = ir.guarded(probe, *(build.negation(cond) for cond in unless))
    g = driver.with_statements(f, {cursor.path: body})
    at = driver.cursor_of(g, probe)
    sources = ReachingValues(g).flow.by_element(at).get(contents, ())
    return bool(sources) and all(s.kind in ("store", "assume") or proves(at.scope, ~s.where) for s in sources)


# -- refuted assumptions ---------------------------------------------------------------------------------------------


def check_assumptions(f: ir.Function, reaching: ReachingValues | None = None) -> None:
    """Refuse a nest with an assumption that is proved false where it stands.

    Parameters
    ----------
    reaching: the reaching values of `f`, if the caller asks them, too.

    Raises
    ------
    InputError: an assumption is proved false.
    """
    written = written_in(f.body)
    for cursor in driver.cursors(f) if any(isinstance(stmt, ir.Assume) for stmt in statements(f.body)) else ():
        stmt = cursor.stmt
        if not isinstance(stmt, ir.Assume) or ir.has_undef(stmt.cond):
            continue
        is_false = False
        if any(t in written for t in tensors_read(stmt.cond)):
            reaching = reaching or ReachingValues(f)
            is_false = reaching.decides(cursor, stmt.cond) is False
        elif isinstance(stmt.cond, Cond):
            proof = proof_of(cursor.scope, ~stmt.cond)
            is_false = bool(proof) and not proof.vacuous
        if is_false:
            raise InputError(f"the assumption {shown(stmt.cond)} is false wherever it is reached")


# -- checks of accesses -----------------------------------------------------------------------------------------------


def with_bounds_checks(f: ir.Function) -> ir.Function:
    """The function with a check in front of each access that is not proved.

    Raises
    ------
    AccessError: an access is outside at given values of its loops, whatever the sizes and the tensors are.
    """
    unproved: dict[tuple[object, ...], dict[object, bool]] = {}
    sizes = set(map(str, f.sizes))
    for stmt, node, access in located_accesses(Program(f)):
        if access.status == REFUTED and not sizes & set(access.point or ()):
            at = ", ".join(f"{name} = {value}" for name, value in (access.point or {}).items())
            verb = "stores" if access.is_store else "reads"
            raise AccessError(f"{f.name} {verb} {access.access} outside of its tensor{at and ' at ' + at}")
        if access.status != PROVED:
            unproved.setdefault(_key(stmt), {})[walk.loaded_tensor(node), node.args] = access.is_store

    def check(stmt: ir.Stmt) -> ir.Stmt:
        wanted = {} if isinstance(stmt, ir.Seq) else unproved.get(_key(stmt), {})
        found = reached(_accessed(stmt)) if wanted else ()
        unsure = [(access, wanted.get((access.tensor, access.indices))) for access in found]
        return ir.seq(*(_asserted(f, access, is_store) for access, is_store in unsure if is_store is not None), stmt)

    return f.with_body(rebuilt(f.body, check)) if unproved else f


def _accessed(stmt: ir.Stmt) -> list[Operand]:
    """The operands of a statement, then the element that it stores."""
    return [*operands(stmt), *([element(stmt.tensor, stmt.indices)] if isinstance(stmt, ir.Store) else [])]


def _key(stmt: ir.Stmt) -> tuple[object, ...]:
    """A key of the accesses of a statement, which a change of the statements inside keeps."""
    return (type(stmt), *_accessed(stmt))


def _asserted(f: ir.Function, access: TensorAccess, is_store: bool) -> ir.Stmt:
    inside = logical_and(*in_storage(access.indices, storage_of(f, access.tensor)))
    verb, shown_access = "stores" if is_store else "reads", text(element(access.tensor, access.indices))
    return ir.guarded(ir.Assert(inside, f"{f.name} {verb} {shown_access} inside {access.tensor.name}"), access.when)
