"""`dataflow`: reaching definitions, dead stores, touched elements and accesses in bounds of a function, exactly.

Accesses are in bounds where a proof says so (`CheckedAccess`); an access that no proof covers is listed with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from bound.tensor import Tensor, element
from bound.tir.value import Operand
from intset.config import Configured, all_as_configured, as_configured, memoized
from intset.domains.sets.region import Region, region_of_shape
from intset.errors import BudgetError, InputError
from intset.expr import Cond, Expr, arguments, dag, shown
from intset.expr.build import logical_and, logical_not
from intset.expr.node import PlainVar, truth
from intset.prover.proof import PROVED, REFUTED, UNKNOWN
from intset.regions.shape import Account, Shape
from lowering.dataflow import program as programs
from lowering.dataflow.program import ReadAccess
from lowering.dataflow.reaching import (
    REACHING,
    InstanceSets,
    ReachingAnalysis,
    ReachingWrites,
    ReadInstances,
    WrittenValues,
)
from lowering.nest import driver, ir
from lowering.nest.printer import text
from lowering.nest.scope import in_storage, is_outside, proof_of, storage_of
from lowering.nest.walk import Path, operands, range_ends, replaced, statements


class CheckedAccess(NamedTuple):
    """A read or a store of one element.

    Attributes
    ----------
    line: number of the line in `str(f)`, where the head is line 1.
    access: its text.
    is_store: whether it is the target of a store.
    status: "proved" to lie in the tensor's storage, "refuted", or "unknown".
    point: of a refuted access, values of loops and sizes at which it happens outside.
    reason: why the status is unknown.
    """

    line: int
    access: str
    is_store: bool
    status: str
    point: dict[str, int] | None = None
    reason: str = ""


def located_accesses(program: programs.Program) -> Iterator[tuple[ir.Stmt, Operand, CheckedAccess]]:
    """Every access in text order: its statement, the element, and its proof if one exists.

    Guarantee: a proved access is in bounds at every execution that fulfils the assumptions. A refuted one leaves its
    storage at `point`, whatever tensors hold.
    """
    for cursor in driver.cursors(program.f):
        if cursor.path not in program.sites:
            continue
        found = [(read, False) for read in programs.reads_of(operands(cursor.stmt), lambda operand: operand)]
        if isinstance(cursor.stmt, ir.Store):
            tensor, indices = cursor.stmt.tensor, cursor.stmt.indices
            stored = programs.ElementReads(element(tensor, indices), tensor, indices, (programs.ALWAYS,))
            found.append((stored, True))
        for access, is_store in found:
            yield cursor.stmt, access.node, _checked(program, cursor, access, is_store)


def _checked(
    program: programs.Program, cursor: driver.Cursor, access: programs.ElementReads, is_store: bool
) -> CheckedAccess:
    site = program.sites[cursor.path]
    names, line = program.lines[cursor.path].names, program.line_numbers[cursor.path]
    shown = CheckedAccess(line, text(access.node, names), is_store, PROVED)
    indices = [e for e in access.node.args if isinstance(e, Expr)]
    inside = logical_and(*in_storage(indices, storage_of(program.f, access.tensor)))
    ends = [end for loop in cursor.loops for end in range_ends(loop.range)]
    on_data = not site.guard.is_complete or bool(dag.opaque_terms(*map(site.expanded, (*indices, *ends))))
    known = (*(loop.var for loop in cursor.loops), *program.f.sizes)
    for guard in access.guards:
        proof = proof_of(cursor.scope.where(*guard.conditions), inside)
        if proof.status == REFUTED and guard.is_complete and not on_data:
            found = proof.counterexample or {}
            point = {str(var): found[var] for var in known if var in found}
            return shown._replace(status=REFUTED, point=point)
        if proof.status != PROVED:
            reason = proof.reason if proof.status == UNKNOWN else "it depends on the contents of tensors"
            return shown._replace(status=UNKNOWN, reason=reason)
    return shown


DATAFLOW: Final = 700_000  # operations of a pass for all it asks of the dataflow together, in a short nest
DATAFLOW_PER_STATEMENT: Final = 10_000  # operations more for each statement of a nest
DATAFLOW_LEAST: Final = 5_000  # operations of one question to the dataflow, however many a pass has used before
BOUNDS_OF_ELEMENT: Final = 4  # assumed bounds that are considered for one element

Position: TypeAlias = "Path | driver.Cursor | int"
"""A statement: its path, a cursor at it, or its line in `str(f)`, where the head is line 1."""
Ignored: TypeAlias = "tuple[tuple[Path, Cond], ...]"
_STORES = ("store", "call")
_ALL = ("store", "call", "assume")


@dataclass(frozen=True, eq=False)
class Source:
    """A reaching definition of a read: where a value that it meets comes from.

    Attributes
    ----------
    where: the values of the reader's loops. Sources of one read are disjoint and cover every point at which it happens;
        data-dependent guards may widen the cover.
    kind: "store"; "entry", the value that was passed; "unwritten"; "assume", an assumption defines it; "unknown".
    line: line number of the writing or assuming statement; `None` for entry, unwritten and ambiguous sources.
    at: the values of the writer's loops, outermost first, over the reader's loops; `None` if unknown.
    value: the content of the element, over the reader's loops; `None` if unknown or no expression. It reads only
        elements that nothing in the nest writes.
    path: tree path of that statement.
    """

    where: Cond
    kind: str
    line: int | None = None
    at: tuple[Expr, ...] | None = None
    value: Operand | None = None
    path: Path | None = None


@all_as_configured
class Dataflow(Configured):
    """The dataflow of a function; questions are about a statement at a position.

    Guarantee: answers are exact for all sizes within their declarations and the context of the function, where
    conditions, indices and ranges are quasi-affine in loops and sizes. What depends on data is "unknown", and no store
    is dead unless it certainly is.

    Example
    -------
    >>> from lowering import dataflow, parse_nest
    >>> d = dataflow(parse_nest('''
    ... def f(A: int32[16]):
    ...     for i in [0, 4):
    ...         for j in [0, 4):
    ...             if i * 4 + j > 0:
    ...                 A[i * 4 + j] = A[i * 4 + j - 1]
    ... '''))
    >>> for source in d.sources(5)["A[i * 4 + j - 1]"]:
    ...     print(source.kind, source.at)
    store (i, j - 1)
    store (i - 1, 3)
    entry None
    """

    def __init__(self, f: ir.Function, account: Account | None = None) -> None:
        ir.checked_function(f, "dataflow")
        self.f, self._account = f, account
        # blocks entered later on `f.ctx` have no effect
        self._program = programs.Program(replace(f, ctx=f.ctx.extended()))
        self._sets = InstanceSets(self._program, account)
        self._analysis = ReachingAnalysis(self._sets, account)
        self._values = WrittenValues(self._program, self._sources_of)

    # -- reaching definitions -----------------------------------------------------------------------------------

    def sources(self, at: Position) -> dict[str, tuple[Source, ...]]:
        """The sources of each element that a statement reads, by its text, and of each tensor that a host call reads.

        Raises
        ------
        InputError: there is no statement at the position.
        """
        site = self._site(at)
        names = self._program.lines[site.path].names
        return {
            names.get(key, key.name) if isinstance(key, Tensor) else text(key, names): sources
            for key, sources in self.by_element(at).items()
        }

    def by_element(self, at: Position) -> dict[Operand | Tensor, tuple[Source, ...]]:
        """The sources of each element that a statement reads, by the element as written, or by the tensor."""
        return {key: self._sources_of(read) for key, read in self._site(at).reads.items()}

    def held(self, at: Position) -> tuple[Source, ...]:
        """The sources of the element that a store overwrites.

        Raises
        ------
        InputError: there is no store at the position.
        """
        return self._sources_of(self._overwritten(self._store_site(at)))

    def not_told(self, at: Position) -> Iterator[Cond]:
        """Conditions under which an element that a store reads or overwrites holds nothing that the nest determines.

        Cheaper than sources. Tensors without writes in the nest are skipped.
        """
        site = self._store_site(at)
        writes = self._program.writes
        reads = (r for r in site.reads.values() if writes[r.storage] or not r.storage.is_param)
        return (self._undetermined(read) for read in (*reads, self._overwritten(site)))

    def stored(self, source: Source) -> Operand | None:
        """The value in the store that is a source, over the reader's loops; `None` if no single store is.

        Unlike `source.value` it is not converted to the type of the tensor, and may read elements that the nest writes.
        """
        if source.kind != "store" or source.path is None or source.at is None:
            return None
        site = self._program.sites[source.path]
        assert isinstance(site.stmt, ir.Store)
        return replaced(site.stmt.value, dict(zip(site.loop.vars, source.at, strict=True)))

    def assumed(self, at: Position) -> dict[Operand, list[tuple[Cond, Operand]]]:
        """The comparisons that assumptions imply for each element that a statement reads, except values.

        An assumption holds until its element is stored.

        Returns
        -------
        For each element, conditions on the loops and the comparison that holds there.
        """
        return self._assumed(self._site(at))

    @memoized
    def _assumed(self, site: programs.StmtSite) -> dict[Operand, list[tuple[Cond, Operand]]]:
        relations: dict[Operand, list[tuple[Cond, Operand]]] = {}
        for node, read in site.reads.items():
            for bound in self._program.bounds.get(read.storage, ())[:BOUNDS_OF_ELEMENT]:
                if bound.site is not read.site and not isinstance(node, Tensor):
                    relations.setdefault(node, []).extend(self._relations(node, read, bound))
        return relations

    # -- dead stores --------------------------------------------------------------------------------------------

    def dead(self, at: Position, ignoring: Mapping[Path, Cond] | Mapping[int, Cond] | None = None) -> Cond:
        """The values of the loops around a store at which no statement reads its value, dead or not.

        The end of the function reads all parameters.

        Parameters
        ----------
        ignoring: by position of other statements, conditions on the loops around under which their reads do not count.

        Raises
        ------
        InputError: there is no store at the position.
        """
        site = self._store_site(at)
        what = "a mapping from positions to conditions"
        left_out = {} if ignoring is None else arguments.mapped(ignoring, "ignoring", what)
        return self._dead_at(site, tuple((self._site(where).path, cond) for where, cond in left_out.items()))

    # -- elements -----------------------------------------------------------------------------------------------

    def touched(self, name: str) -> tuple[Region, Region]:
        """Regions read and written of a tensor, over the whole run; guards are respected.

        Raises
        ------
        InputError: the function has no tensor of this name.
        """
        arguments.a_name(name, "the name of a tensor")
        storages = [s for s in self._program.storages if s.tensor.name == name]
        if not storages:
            names = ", ".join(dict.fromkeys(s.tensor.name for s in self._program.storages))
            raise InputError(f"{shown(name)} is no tensor of {self.f.name}: the tensors are {names}")
        reads = [access for s in storages for access in self._program.reads[s]]
        writes = [access for s in storages for access in self._program.writes[s] if access.kind != "assume"]
        return self._region(storages[0], reads), self._region(storages[0], writes)

    def accesses(self) -> tuple[CheckedAccess, ...]:
        """Each read and each store in the order of the text, proved or refuted to lie in its tensor.

        A statement lists its reads before its store; host calls are omitted.

        >>> from lowering import dataflow, parse_nest
        >>> f = parse_nest("def f(A: int32[8]):\\n    for i in [0, 8):\\n        A[i] = A[i + 1]\\n")
        >>> for access in dataflow(f).accesses():
        ...     print(access.line, access.access, access.status, access.point)
        3 A[i + 1] refuted {'i': 7}
        3 A[i] proved None
        """
        return tuple(access for _, _, access in located_accesses(self._program))

    # -- positions ----------------------------------------------------------------------------------------------

    def _site(self, at: Position) -> programs.StmtSite:
        is_path = isinstance(at, tuple) and all(isinstance(k, int) for k in at)
        if isinstance(at, bool) or not (is_path or isinstance(at, (int, driver.Cursor))):
            raise InputError(f"a line is a number, not {shown(at)}")
        path = at.path if isinstance(at, driver.Cursor) else self._program.paths.get(at) if isinstance(at, int) else at
        site = None if path is None else self._program.sites.get(path)
        if site is None:
            where = f"begins in line {shown(at)}" if isinstance(at, int) else f"stands at the path {shown(path)}"
            raise InputError(f"no statement {where} of {self.f.name}")
        return site

    def _store_site(self, at: Position) -> programs.StmtSite:
        site = self._site(at)
        if not isinstance(site.stmt, ir.Store):
            line = self._program.lines[site.path].text.strip()
            raise InputError(f"line {self._program.line_numbers[site.path]} stores nothing: {line}")
        return site

    # -- sets ---------------------------------------------------------------------------------------------------

    def _condition(self, shape: Shape, site: programs.StmtSite) -> Cond:
        """The condition for the loops around a statement to be in a set, inside their ranges."""
        box = self._sets.iterations(site.loop)
        if shape.is_empty():
            return truth(False)
        if shape.includes(box):
            return truth(True)
        return shape.simplified(box).condition(site.loop.vars)

    def _reaching_writes(
        self, read: ReadAccess | programs.TensorStorage, with_assumptions: bool
    ) -> ReachingWrites | None:
        """The writes that reach a read, or the end of the function; `None` beyond the budget."""
        storage = read.storage if isinstance(read, ReadAccess) else read
        has_assumptions = any(w.kind == "assume" for w in self._program.writes[storage])
        return self._reaching(read, _ALL if with_assumptions and has_assumptions else _STORES)

    @memoized
    def _reaching(self, read: ReadAccess | programs.TensorStorage, kinds: tuple[str, ...]) -> ReachingWrites | None:
        instances = self._instances(read) if isinstance(read, ReadAccess) else self._at_end(read)
        try:
            return self._analysis(instances, kinds)
        except BudgetError:
            return None

    def _instances(self, read: ReadAccess) -> ReadInstances:
        relation = self._sets.relation(read)
        names = (*read.loop.vars, *(PlainVar(f"f{k}") for k in relation.free))
        return ReadInstances(relation, names, read.loop, read.position, read.storage, read)

    def _at_end(self, storage: programs.TensorStorage) -> ReadInstances:
        """Treat the caller as reader of a parameter after the last statement."""
        relation = self._sets.elements_of(storage.tensor.extents, self._is_touchable(storage))
        names = tuple(PlainVar(f"f{k}") for k in relation.free)
        return ReadInstances(relation, names, self._program.root, programs.END, storage)

    # -- sources ------------------------------------------------------------------------------------------------

    @memoized
    def _overwritten(self, site: programs.StmtSite) -> ReadAccess:
        """A hypothetical read of the overwritten element, directly before a store."""
        (write,) = site.writes
        read = ReadAccess(site, write.storage, write.indices, write.guards)
        read.position = write.position
        return read

    @memoized
    def _sources_of(self, read: ReadAccess) -> tuple[Source, ...]:
        sources = self._analyzed(read)
        return (Source(self._everywhere(read), "unknown"),) if sources is None else sources

    def _analyzed(self, read: ReadAccess) -> tuple[Source, ...] | None:
        """The sources of a read; `None` for unknown elements and beyond the budget."""
        relation = self._sets.relation(read)
        reaching = None if relation.free else self._reaching_writes(read, True)
        if reaching is None:
            return None
        self._sets.iterations(read.site.loop)  # computed under a budget of its own
        try:
            with relation.points.budget(REACHING, self._account):
                return tuple(self._told(read, reaching))
        except BudgetError:
            return None

    def _told(self, read: ReadAccess, reaching: ReachingWrites) -> Iterator[Source]:
        site = read.site
        for one in reaching.told:
            writer = one.write.site
            for domain, values in one.pairs.functions(read.loop.vars):
                at = (*read.loop.vars[: one.shared], *values)
                content = self._values.at(one.write, at)
                where = self._condition(domain, site)
                yield Source(where, one.write.kind, self._line(writer.path), at, content, writer.path)
        if not reaching.unknown.is_empty():
            paths = {write.site.path for write in reaching.doubts}
            path = next(iter(paths)) if len(paths) == 1 else None
            yield Source(self._condition(reaching.unknown, site), "unknown", self._line(path), path=path)
        if not reaching.open.is_empty():
            yield Source(self._condition(reaching.open, site), "entry" if read.storage.is_param else "unwritten")

    def _line(self, path: Path | None) -> int | None:
        return None if path is None else self._program.line_numbers[path]

    def _everywhere(self, read: ReadAccess) -> Cond:
        """Where a read may happen."""
        reached, _ = self._sets.reached(read)
        try:
            return self._condition(reached, read.site)
        except BudgetError:
            return logical_and(*read.site.guard.conditions)

    @as_configured
    def _undetermined(self, read: ReadAccess) -> Cond:
        """Where no write, and no assumption, determines what a read meets."""
        reaching = None if self._sets.relation(read).free else self._reaching_writes(read, True)
        try:
            if reaching is not None:
                return self._condition(reaching.open.union(reaching.unknown), read.site)
        except BudgetError:
            pass
        return self._everywhere(read)

    def _relations(self, node: Operand, read: ReadAccess, bound: programs.AssumedBound) -> list[tuple[Cond, Operand]]:
        """The comparisons that an assumption implies for an element where it reaches a read; none beyond the budget."""
        relation = self._sets.relation(read)
        if self._sets.are_apart(read, bound) or relation.free:
            return []
        implied = []
        try:
            reaching = self._analysis(self._instances(read), _STORES, bound)
            with relation.points.budget(REACHING, self._account):
                for one in reaching.told:
                    for domain, values in one.pairs.functions(read.loop.vars) if one.write is bound else ():
                        at = (*read.loop.vars[: one.shared], *values)
                        own = (*bound.loop.vars, bound.element)
                        names: dict[Operand, Operand] = dict(zip(own, (*at, node), strict=True))
                        where = self._condition(domain, read.site)
                        implied += [(where, replaced(comparison, names)) for comparison in bound.relations]
        except BudgetError:
            return []
        return implied

    # -- liveness -----------------------------------------------------------------------------------------------

    @memoized
    def _dead_at(self, site: programs.StmtSite, ignoring: Ignored) -> Cond:
        (write,) = site.writes
        live = self._live_instances(write.storage, ignoring)
        if live is None:
            return truth(False)
        try:
            with self._sets.iterations(site.loop).budget(REACHING, self._account):
                reached, _ = self._sets.reached(write)
                return self._condition(reached.subtract(live[write]) if write in live else reached, site)
        except BudgetError:
            return truth(False)

    @memoized
    def _live_instances(
        self, storage: programs.TensorStorage, ignoring: Ignored
    ) -> dict[programs.WriteAccess, Shape] | None:
        """The instances of the writes to a storage whose value may be read; `None` beyond the budget."""
        readers: list[ReadAccess | programs.TensorStorage] = [*self._program.reads[storage]]
        parts: dict[programs.WriteAccess, list[Shape]] = {}
        for reader in [*readers, storage] if storage.is_param else readers:
            reaching = self._reaching_writes(reader, False)
            if reaching is None:
                return None
            counting = None
            size = storage.tensor.ndim
            if isinstance(reader, ReadAccess):
                size, counting = self._sets.relation(reader).instances, self._counting(reader, dict(ignoring))
            for write, shared, pairs in reaching.live:
                counted = pairs if counting is None else counting.product_with(pairs, size)
                own = range(size, size + write.loop.depth - shared)
                parts.setdefault(write, []).append(counted.project([*range(shared), *own]))
        return {write: shapes[0].union_all(shapes[1:]) for write, shapes in parts.items()}

    def _counting(self, read: ReadAccess, ignoring: Mapping[Path, Cond]) -> Shape | None:
        """Read instances outside the ignored condition; `None` if nothing is ignored."""
        cond = ignoring.get(read.site.path)
        if cond is None or self._sets.relation(read).free:
            return None
        shape, is_exact = self._sets.domain(read.loop, programs.AccessGuard((*read.loop.ranges, logical_not(cond))))
        return shape if is_exact else None

    # -- regions ------------------------------------------------------------------------------------------------

    def _region(self, storage: programs.TensorStorage, accesses: Sequence[programs.Access]) -> Region:
        dims = storage.tensor.ndim
        universe = self._sets.kind.everything(dims)
        shapes, is_exact = [], True
        for access in accesses:
            relation = self._sets.relation(access)
            shapes.append(relation.points.project(range(relation.instances, relation.instances + dims)))
            is_whole = isinstance(access, ReadAccess) and access.node is None  # a host call reads every element
            is_exact = is_exact and self._sets.reached(access)[1] and (not relation.free or is_whole)
        elements = universe.subtract(universe).union_all(shapes)
        notes = () if is_exact else ("what depends on data is taken for all that it may be",)
        return region_of_shape(self._inside(storage, elements), is_exact, notes)

    def _inside(self, storage: programs.TensorStorage, shape: Shape) -> Shape:
        """Clip a set to parameter extents and unpadded elements, because other accesses are errors."""
        point = [PlainVar(f"e{k}") for k in range(shape.dims)]
        extents = zip(point, storage.tensor.extents, strict=True)
        inside = [(e >= 0) & (e < extent) for e, extent in extents] if storage.is_param else []
        try:
            return shape.filter(point, logical_and(*inside, self._is_touchable(storage)(point)))
        except BudgetError:
            return shape

    def _is_touchable(self, storage: programs.TensorStorage) -> Callable[[Sequence[Expr]], Cond]:
        return lambda point: is_outside(storage.padding, point)


def account_of(f: ir.Function) -> Account:
    """The dataflow budget of one pass, shared by a function and its rewritten versions."""
    size = sum(1 for _ in statements(f.body))
    return Account(DATAFLOW + DATAFLOW_PER_STATEMENT * size, DATAFLOW_LEAST)


def dataflow(f: ir.Function, account: Account | None = None) -> Dataflow:
    """The dataflow of a function, see `Dataflow`, which caches its answers.

    Parameters
    ----------
    account: the operations that all questions share. Without an account each question has its own budget, which makes
        answers independent of earlier questions.
    """
    return Dataflow(f, account)
