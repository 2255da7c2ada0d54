"""`contract`: required and promised padding of a function; `pad_options`: its variants in other layouts.

`pad_options` generates packed variants of a function, each under its contract.

A contract is found by dataflow: a probe nest after the function reads the padding, and its reaching definitions give
the final content. Unknown answers are conservative: padding may be read, may be uninitialized, and may affect results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import product
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.build import any_of, negation, select
from bound.tir.value import Operand, Truth
from bound.tir.walk import loaded_tensor, nodes, read_indices, rewrite
from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, arguments, const, constant_value, dag, ops, shown
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.node import PlainVar, truth
from intset.prover.proof import REFUTED
from lowering.dataflow import Dataflow, Source, dataflow
from lowering.dataflow.program import definitions, guard_of
from lowering.errors import LayoutError
from lowering.interpreter import as_element
from lowering.layout import IndexMap
from lowering.layout.padding_value import map_indices, storage_indices
from lowering.layout.transform import equals, probed, transform_layout, with_layouts
from lowering.nest import driver, ir
from lowering.nest.printer import text
from lowering.nest.scope import Scope, proof_of, proves, scope_of, tensor_named
from lowering.nest.walk import Path, elements_read, operands, rebuilt, replaced, statements, tensors_read, variables
from lowering.padding import states
from lowering.padding.states import NOTHING, PLACE, READABLE, UNDEF, UNTOUCHED, PadState, PadValue, folded
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.stores.dead_code import remove_undef
from lowering.passes.stores.overcompute import remove_branching_through_overcompute
from lowering.passes.stores.reaching_values import deciding_tensors, same
from lowering.passes.values.cse import with_inlined_names

MAX_ROUNDS: Final = 8  # of dependence propagation
MAX_PARTS: Final = 8  # disjuncts of a dependence condition


class FunctionFlow:
    """A function with its dataflow, and cursors of its statements."""

    def __init__(self, f: ir.Function) -> None:
        self.f = f

    @cached_property
    def flow(self) -> Dataflow:
        return dataflow(self.f)

    @cached_property
    def by_path(self) -> dict[Path, driver.Cursor]:
        return {p.path: p for p in driver.cursors(self.f)}

    @cached_property
    def reading(self) -> list[driver.Cursor]:
        """All statements but assumptions and sequences."""
        return [p for p in self.by_path.values() if not isinstance(p.stmt, (ir.Assume, ir.Seq))]

    @cached_property
    def assuming(self) -> list[driver.Cursor]:
        return [p for p in self.by_path.values() if isinstance(p.stmt, ir.Assume)]

    @cached_property
    def stores(self) -> list[driver.Cursor]:
        return [p for p in self.reading if isinstance(p.stmt, ir.Store)]


class Probe(NamedTuple):
    """A nest that reads every element of a tensor at the end of a function.

    Attributes
    ----------
    known: the function before the probe was appended; its paths are the same.
    place: cursor of the probe.
    at: storage indices of its load.
    sources: reaching definitions of the load that may occur.
    flow: dataflow of the function with the probe.
    """

    known: FunctionFlow
    place: driver.Cursor
    at: tuple[Expr, ...]
    sources: list[Source]
    flow: Dataflow


class ContractDataflow:
    """Dataflow analysis of a function's padding contract.

    Guarantee: the contract is conservative.

    Three variants of the function are analysed: as it stands, for its reads; its assumptions alone, for the paddings
    that they fix; with values in place of branches on data (`_by_values`) and without idle stores, for its results.

    Parameters
    ----------
    packed: layouts of packed parameters.

    Raises
    ------
    LayoutError: an assumption restricts a padding without fixing its value, or fixes one that its type cannot hold.
    """

    def __init__(self, f: ir.Function, packed: Mapping[Tensor, IndexMap]) -> None:
        said = [r.nest for r in f.requires]
        body = with_inlined_names(ir.seq(*said, f.body), lambda e: isinstance(e, Expr) and not dag.opaque_terms(e))
        self.f, self.packed = replace(f, body=_flat(body), padding={}, requires=()), packed
        self._plain = FunctionFlow(self.f)
        self._values = self._assumed() if self._plain.assuming else {}
        root = driver.Cursor.root(self.f)
        by_values = driver.rewritten(_by_values(self.f), root, leave={ir.Store: (self._unless_idle,)})
        is_same = by_values is self.f.body
        self._decided = self._plain if is_same else FunctionFlow(self.f.with_body(_flat(by_values)))

    # -- what is asked ------------------------------------------------------------------------------------------

    def needs(self) -> dict[str, PadState]:
        """Compute padding requirements; outputs appear only if their initial contents may be read."""
        read = self.reads
        return {t.name: self._need(t) for t in self.packed if t in self.f.inputs or t.name in read}

    def gives(self) -> dict[str, PadState]:
        """Compute padding promises of outputs.

        Raises
        ------
        LayoutError: a result may depend on unconstrained padding.
        """
        for tensor in self.f.outputs:
            self._refuse_dependent(tensor)
        probes = {t: self._probe(self._decided, t, True) for t in self.f.outputs if t in self.packed}
        return {t.name: self._value(t, probe, given=True) or UNTOUCHED for t, probe in probes.items()}

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names of outputs; the function may read an element of each output before storing that element."""
        places = self._plain.reading
        return tuple(
            t.name for t in self.f.outputs if any(self._initial_reads(self._plain, p, {t}, False) for p in places)
        )

    # -- paddings -----------------------------------------------------------------------------------------------

    def _padding(self, tensor: Tensor, at: Sequence[Expr]) -> Cond:
        """Build the condition that a storage element is padding."""
        layout = self.packed.get(tensor)
        return truth(False) if layout is None else layout.padding(*map_indices(layout, at))

    def _probe(self, known: FunctionFlow, tensor: Tensor, in_padding: bool | None) -> Probe:
        """Append a probe of a tensor: its padding (`True`), its logical elements (`False`) or both (`None`)."""
        loops = tuple(PlainVar(f"p{k}") for k in range(tensor.ndim))
        load, padding = element(tensor, loops), self._padding(tensor, loops)
        conditions = [] if in_padding is None else [padding if in_padding else logical_not(padding)]
        g, probe = probed(known.f, load, loops, tensor.extents, *conditions)
        place, flow = driver.cursor_of(g, probe), dataflow(g)
        sources = [s for s in flow.by_element(place)[load] if not _is_never(place, s.where)]
        return Probe(known, place, loops, sources, flow)

    def _unless_idle(self, store: ir.Store, cursor: driver.Cursor) -> ir.Stmt:
        """Guard a store against the padding that leaves its element as it is: a sum adds no 0."""
        own = element(store.tensor, store.indices)
        idle: list[Cond] = []
        for node, read in elements_read(store.value):
            value = self._values.get(read)
            if isinstance(value, PadValue):
                fixed = value.at(*map_indices(self.packed[read], read_indices(node)))
                if states.evaluated(rewrite(store.value, {node: fixed})) is own:
                    idle.append(self._padding(read, read_indices(node)))
        return ir.If(logical_not(logical_or(*idle)), store) if idle else store

    def _need(self, tensor: Tensor) -> PadState:
        value = self._values.get(tensor)
        if isinstance(value, PadValue):
            return value
        read = (self._initial_reads(self._plain, p, {tensor}, True) for p in self._plain.reading)
        return READABLE if value is READABLE or any(read) else NOTHING

    def _value(self, tensor: Tensor, probe: Probe, given: bool) -> PadState | None:
        """Combine reaching definitions into a padding state; `None` if a part keeps what the caller passed.

        Parameters
        ----------
        given: true for an output's final padding, false for an input's assumed padding.
        """
        names = self._names(tensor, probe)
        parts: list[tuple[Cond, Operand]] = []
        is_known = True
        for source in probe.sources if given else [s for s in probe.sources if s.kind == "assume"]:
            if source.kind not in ("store", "assume"):
                return None
            assert source.path is not None
            if not given and ir.has_undef(*operands(probe.known.by_path[source.path].stmt)):
                continue  # permits reads, and fixes nothing
            value = self._given_by(probe, source, tensor, given)
            if value is KEPT:
                return None
            if value is None and not given:
                raise LayoutError(
                    f"the padding of {tensor.name} assumed by {self.f.name} is no function of its indices"
                )
            if value is None:
                is_known = False
                continue
            if not given:
                self._refuse_unheld(tensor, probe, source.where, value)
            parts.append((dag.substitute(source.where, names), value))
        if not is_known or not parts:
            return UNDEF if given else READABLE if any(s.kind == "assume" for s in probe.sources) else None
        expr = parts[-1][1]
        for where, value in reversed(parts[:-1]):
            expr = expr if value is expr else select(where, value, expr)
        state = folded(expr, tensor.dtype)
        if isinstance(state, PadValue) and isinstance(state.expr, Expr):
            return folded(Context().simplify(state.expr), tensor.dtype)
        return state

    def _names(self, tensor: Tensor, probe: Probe) -> dict[Expr, Expr]:
        """The new indices of a tensor by the loops of a probe, which run over its storage."""
        stored = storage_indices(self.packed[tensor], PLACE[: tensor.ndim])
        return {p: Context().simplify(e) for p, e in zip(probe.at, stored, strict=True)}

    def _stored(self, probe: Probe, source: Source, tensor: Tensor, depth: int = 0) -> Operand | None:
        """Express a stored or assumed value by elements as they were passed; return `None` if unknown."""
        if source.path is None or source.at is None or depth > MAX_ROUNDS:
            return None
        place = probe.known.by_path[source.path]
        value, loops = _written(place.stmt, tensor), [loop.var for loop in place.loops]
        if (
            value is None
            or ir.has_undef(value)
            or any(v not in loops and v not in self.f.sizes for v in variables(value))
        ):
            return None
        inside: dict[Operand, Operand] = {}
        at = dict(zip(loops, source.at, strict=True))
        reads = probe.flow.by_element(source.path)
        for node, read in elements_read(value):
            if read in self.f.inputs:
                continue
            sources = list(reads.get(node, ()))
            if not depth:  # `at` is over the loops of the probe
                sources = [s for s in sources if not _is_never(probe.place, source.where & dag.substitute(s.where, at))]
            if read in self.f.params and [s.kind for s in sources] == ["entry"]:
                continue
            inner = self._stored(probe, sources[0], read, depth + 1) if len(sources) == 1 else None
            if inner is None:
                return None
            inside[node] = states.of_type(inner, read.dtype)
        return replaced(rewrite(value, inside), at)

    def _given_by(self, probe: Probe, source: Source, tensor: Tensor, given: bool) -> Operand | None:
        """Express a padding value by new indices and input padding, by assumed values of that where they are known.

        Returns
        -------
        `None` if it depends on logical elements; `KEPT` if an output's old content may remain.
        """
        scope = probe.place.scope.where(source.where)

        def at_probe(k: int, index: Expr) -> Expr:
            """A loop of the probe, if the index at position `k` equals one."""
            equal = next((p for p in (*probe.at[k : k + 1], *probe.at) if proves(scope, index.eq(p))), None)
            return scope.ctx.simplify(index) if equal is None else equal

        at = None if source.at is None else tuple(at_probe(k, index) for k, index in enumerate(source.at))
        value = self._stored(probe, replace(source, at=at), tensor)
        if value is None:
            return None
        value = states.evaluated(value)
        inside, names = dict[Operand, Operand](), self._names(tensor, probe)
        loads = dict(elements_read(value))
        if given and any(read in self.f.outputs for read in loads.values()):
            return KEPT
        for node, read in loads.items():
            indices = read_indices(node)
            if read not in self.packed or (given and not proves(scope, self._padding(read, indices))):
                return None
            stored = [dag.substitute(at_probe(k, index), names) for k, index in enumerate(indices)]
            place = tuple(Context().simplify(e) for e in map_indices(self.packed[read], stored))
            fixed = self._values.get(read) if given else None
            inside[node] = fixed.at(*place) if isinstance(fixed, PadValue) else element(read, place)
        return rewrite(value, {**inside, **names})

    # -- reads --------------------------------------------------------------------------------------------------

    def _initial_reads(
        self, known: FunctionFlow, place: driver.Cursor, tensors: Collection[Tensor], in_padding: bool
    ) -> list[Cond]:
        """Collect the conditions under which a statement may read elements that no store wrote before.

        Parameters
        ----------
        in_padding: count elements of paddings only.
        """
        conditions = []
        for key, sources in known.flow.by_element(place).items():
            tensor = key if isinstance(key, Tensor) else loaded_tensor(key)
            if tensor is None or tensor not in tensors:
                continue
            inside = (
                truth(True) if isinstance(key, Tensor) or not in_padding else self._padding(tensor, read_indices(key))
            )
            for source in sources:
                cond = source.where & inside
                if source.kind != "store" and not _is_never(place, cond):
                    conditions.append(cond)
        return conditions

    # -- assumptions --------------------------------------------------------------------------------------------

    def _assumed(self) -> dict[Tensor, PadState | None]:
        """Derive padding states from the assumptions on them, which fix all of a padding or a part.

        Raises
        ------
        LayoutError: an assumption restricts a padding that none fixes.
        """
        dropped = dict.fromkeys((ir.Store, ir.Evaluate), (lambda stmt, cursor: ir.Seq(),))
        body = _flat(driver.rewritten(self.f.body, driver.Cursor.root(self.f), leave=dropped))
        alone = FunctionFlow(self.f.with_body(body))
        values: dict[Tensor, PadState | None] = {}
        for tensor in self.packed:
            said = [p for p in self._plain.assuming if self._initial_reads(self._plain, p, {tensor}, True)]
            if said or tensor in self.f.inputs:
                values[tensor] = self._value(tensor, self._probe(alone, tensor, True), given=False)
            if said and not isinstance(values[tensor], PadValue):
                told = f"{self.f.name} assumes {text(said[0].stmt.cond)}"
                raise LayoutError(f"{told} of the padding of {tensor.name}, which fixes no value there")
        return values

    def _refuse_unheld(self, tensor: Tensor, probe: Probe, where: Cond, value: Operand) -> None:
        """Raise `LayoutError` if the type of a tensor cannot hold an assumed padding value."""
        number = states.as_number(value)
        if number is not None:
            is_held = number != number or as_element(number, tensor.dtype) == number
        elif isinstance(value, Expr) and dtypes.is_int(tensor.dtype) and not dag.opaque_terms(value):
            low, high = dtypes.int_range(tensor.dtype)
            value = dag.substitute(value, dict(zip(PLACE, map_indices(self.packed[tensor], probe.at), strict=False)))
            is_held = proof_of(probe.place.scope.where(where), (value >= low) & (value <= high)).status != REFUTED
        else:
            is_held = True
        if not is_held:
            place = self._example(tensor, probe, where)
            at = _element_text(tensor, place or probe.at)
            points = () if place is None else (place,)
            raise LayoutError(f"{self.f.name} assumes that {at} is {text(value)}, which is no {tensor.dtype}", points)

    # -- dependence ---------------------------------------------------------------------------------------------

    @cached_property
    def _open(self) -> list[Tensor]:
        """Tensors whose padding no assumption fixes."""
        return [t for t in self.packed if not isinstance(self._values.get(t), PadValue)]

    @cached_property
    def _tainted(self) -> dict[Path, list[Cond]]:
        """Conditions, by store path, under which the value depends on unconstrained padding.

        Raises
        ------
        LayoutError: control flow or a host call may depend on unconstrained padding.
        """
        found: dict[Path, list[Cond]] = {}
        for place in self._decided.reading:
            for tensor in self._open:
                conds = self._initial_reads(self._decided, place, {tensor}, in_padding=True)
                if conds and not isinstance(place.stmt, ir.Store):
                    what = "a host call" if isinstance(place.stmt, ir.Evaluate) else "what is executed"
                    raise LayoutError(
                        f"{what} in {self.f.name} may depend on the padding of {tensor.name}, which nothing fixes: "
                        f"{place.stmt!r}"
                    )
                if conds:
                    found.setdefault(place.path, []).extend(conds)
        for _ in range(MAX_ROUNDS):
            if not self._spread(found):
                return found
        return {place.path: [truth(True)] for place in self._decided.stores}

    def _spread(self, found: dict[Path, list[Cond]]) -> bool:
        """Propagate taint one step through storage; return whether it grew."""
        more = False
        for place in self._decided.stores if found else ():
            for key, sources in self._decided.flow.by_element(place).items():
                for cond in self._through(key, sources, found):
                    known = found.setdefault(place.path, [])
                    if _is_never(place, cond) or proves(place.scope.where(cond), logical_or(*known)):
                        continue
                    known.append(cond if len(known) < MAX_PARTS else truth(True))
                    more = True
        return more

    def _through(
        self, key: Operand | Tensor, sources: Iterable[Source], found: Mapping[Path, list[Cond]]
    ) -> list[Cond]:
        """Collect the conditions under which a read of an element, or of a tensor, sees a tainted store."""
        conds = []
        read = key if isinstance(key, Tensor) else loaded_tensor(key)
        stores = [self._decided.by_path[path].stmt for path in found]
        stored = {stmt.tensor for stmt in stores if isinstance(stmt, ir.Store)}
        for source in sources:
            if source.path is None:
                conds += [source.where] if source.kind == "unknown" and read in stored else []
                continue
            for cond in found.get(source.path, ()):
                if source.at is None:
                    conds.append(source.where)
                else:
                    loops = [loop.var for loop in self._decided.by_path[source.path].loops]
                    conds.append(source.where & dag.substitute(cond, dict(zip(loops, source.at, strict=True))))
        return conds

    def _refuse_dependent(self, tensor: Tensor) -> None:
        """Raise `LayoutError` if a logical element of `tensor` may depend on unconstrained padding."""
        if not self._tainted:
            return
        probe = self._probe(self._decided, tensor, False if tensor in self.packed else None)
        for cond in self._through(tensor, probe.sources, self._tainted):
            if not _is_never(probe.place, cond):
                place = self._example(tensor, probe, cond)
                what = f"an element of {tensor.name}" if place is None else _element_text(tensor, place)
                where = f", where {self.f.ctx.simplify(cond)}" if place is None else ""
                read = " or ".join(dict.fromkeys(t.name for t in self._open if self._need(t) is not NOTHING))
                raise LayoutError(
                    f"{what} of {self.f.name} may depend on the padding of {read}, which nothing fixes{where}",
                    () if place is None else (place,),
                )

    def _example(self, tensor: Tensor, probe: Probe, where: Cond) -> tuple[int, ...] | None:
        """New indices of an element at which a condition on a probe holds; `None` if no proof tells one."""
        point = proof_of(probe.place.scope, logical_not(where)).counterexample or {}
        layout = self.packed.get(tensor)
        if any(p not in point for p in probe.at):
            return None
        stored = [const(point[p]) for p in probe.at]
        place = [constant_value(e) for e in (stored if layout is None else map_indices(layout, stored))]
        return None if None in place else tuple(e for e in place if e is not None)


KEPT: Final = ir.undef(dtypes.INDEX)  # the old content of an output


def _flat(body: ir.Stmt) -> ir.Seq:
    """A sequence whose paths stay valid when a probe follows."""
    return ir.Seq(tuple(ir.flat(body)))


def _written(stmt: ir.Stmt, tensor: Tensor) -> Operand | None:
    """Return the value of a store, or of an assumption's only equation, for an element of the tensor."""
    if isinstance(stmt, ir.Store):
        return stmt.value
    if not isinstance(stmt, ir.Assume):
        return None
    values = [defined.value for defined in definitions(stmt.cond) if defined.tensor is tensor]
    return values[0] if len(values) == 1 else None


def _by_values(f: ir.Function) -> ir.Stmt:
    """The body of a function with stores of `select(c, value, old)` in place of branches on data, and without products
    by 0.

    Branches stay that contain more than stores and loops, or that store to a tensor of their condition.
    """

    def as_values(branch: ir.If, cursor: driver.Cursor) -> ir.Stmt:
        guard = guard_of(branch.cond)
        inside = [*statements(branch.then), *(() if branch.orelse is None else statements(branch.orelse))]
        stored = {stmt.tensor for stmt in inside if isinstance(stmt, ir.Store)}
        are_plain = all(isinstance(stmt, (ir.Store, ir.Seq, ir.For)) for stmt in inside)
        if guard.is_complete or not are_plain or not stored.isdisjoint(tensors_read(branch.cond)):
            return branch
        both = [stmt for stmt in (branch.then, branch.orelse) if isinstance(stmt, ir.Store)]
        if len(both) == 2 and both[0].tensor is both[1].tensor and both[0].indices == both[1].indices:
            return _selected(both[0], branch.cond, states.of_type(both[1].value, both[1].tensor.dtype))
        then = _where(branch.then, branch.cond)
        orelse = ir.Seq() if branch.orelse is None else _where(branch.orelse, negation(branch.cond))
        return ir.seq(ir.guarded(then, *guard.conditions), orelse)

    body = driver.rewritten(f.body, driver.Cursor.root(f), leave={ir.If: (as_values,)})
    return driver.rewritten(body, driver.Cursor.root(f), leave={ir.Store: (_without_products_by_0,)})


def _where(stmt: ir.Stmt, cond: Truth) -> ir.Stmt:
    """Make the stores of a nest conditional."""

    def stored(inner: ir.Stmt) -> ir.Stmt:
        if not isinstance(inner, ir.Store):
            return inner
        return _selected(inner, cond, element(inner.tensor, inner.indices))

    return rebuilt(stmt, stored)


def _selected(store: ir.Store, cond: Truth, otherwise: Operand) -> ir.Store:
    return replace(store, value=select(cond, states.of_type(store.value, store.tensor.dtype), otherwise))


def _without_products_by_0(store: ir.Store, cursor: driver.Cursor) -> ir.Store:
    """Rewrite `x * select(c, y, 0)` as `select(c, x * y, 0)`, which reads `x` under `c` alone."""
    products: dict[Operand, Operand] = {}
    for node in nodes(store.value):
        if node.op is ops.MUL and isinstance(node, Expr):
            for x, chosen in (node.args, node.args[::-1]):
                if chosen.op is ops.SELECT and any(constant_value(arm) == 0 for arm in chosen.args[1:]):
                    products[node] = select(chosen.args[0], *(states.evaluated(x * arm) for arm in chosen.args[1:]))
    return replace(store, value=rewrite(store.value, products)) if products else store


def _element_text(tensor: Tensor, indices: Sequence[object]) -> str:
    return f"{tensor.name}[{', '.join(map(str, indices))}]"


def _is_never(place: driver.Cursor, cond: Cond) -> bool:
    return proves(place.scope, logical_not(logical_and(cond)))


@all_as_configured
class Contract(Configured):
    """A function's padding contract: required values in inputs, promised values in outputs.

    Attributes
    ----------
    needs: maps packed parameters to `NOTHING`, `READABLE` or a `PadValue`: inputs, and outputs of which the function
        may read an element before it stores it.
    gives: maps packed outputs to `UNTOUCHED`, `UNDEF` or a `PadValue`, whose loads denote input padding.
    layouts: maps packed parameters to their index maps.
    reads: names of the outputs of which the function may read an element before it stores it.
    """

    def __init__(
        self,
        f: ir.Function,
        layouts: Mapping[str, IndexMap],
        needs: Mapping[str, states.PadState],
        gives: Mapping[str, states.PadState],
        reads: tuple[str, ...] = (),
    ) -> None:
        ir.checked_function(f, "a contract")
        self.f, self.layouts = f, dict(arguments.mapped(layouts, "layouts"))
        self.reads = arguments.listed(reads, "reads")
        self.needs, self.gives = dict(arguments.mapped(needs, "needs")), dict(arguments.mapped(gives, "gives"))

    def promises(self, pads: Mapping[str, states.PadState | int | float | bool | None]) -> dict[str, states.PadState]:
        """Substitute known input paddings into `gives`.

        Parameters
        ----------
        pads: maps input names to a number, a state or `None` (unwritten); omitted inputs remain symbolic.

        Raises
        ------
        InputError: a key names no packed parameter, or a padding is neither state nor number.
        """
        given: dict[Tensor, states.PadState] = {}
        for name, state in arguments.mapped(pads, "pads", "a mapping from names to what a padding holds").items():
            tensor = next((t for t in self.f.params if t.name == name and name in self.layouts), None)
            if tensor is None:
                raise InputError(f"{shown(name)} is no packed parameter of {self.f.name}")
            given[tensor] = _state(state, tensor.dtype)
        types = {t.name: t.dtype for t in self.f.params}
        return {name: states.applied(state, given, types[name]) for name, state in self.gives.items()}

    def __repr__(self) -> str:
        needs = ", ".join(f"{name}: {state}" for name, state in self.needs.items())
        gives = ", ".join(f"{name}: {state}" for name, state in self.gives.items())
        return f"<contract of {self.f.name}: needs {needs or 'nothing packed'}; gives {gives or 'nothing packed'}>"


def contract(f: ir.Function, layouts: Mapping[str, IndexMap] | None = None) -> Contract:
    """Infer the padding contract of a function.

    Guarantee: input paddings satisfying `needs` leave logical outputs independent of padding, and output paddings as
    stated in `gives`.

    Values fixed by assumptions are required, read or not; other requirements follow from reads. What dataflow analysis
    does not decide is `READABLE`, `UNTOUCHED` or `UNDEF`.

    Parameters
    ----------
    f: the function.
    layouts: maps parameter names to index maps, extending or overriding `f.layouts`.

    Raises
    ------
    LayoutError: a logical output element depends on unconstrained padding; an assumption restricts padding without
        fixing its value; a layout does not match its tensor.

    Example
    -------
    >>> from lowering import IndexMap, contract, parse_nest
    >>> f = parse_nest('''
    ... def twice(A: int32[4, 4], B: int32[4, 4]):
    ...     for i in [0, 4):
    ...         for j in [0, 4):
    ...             B[i, j] = A[i, j] * 2
    ... ''')
    >>> m = IndexMap(lambda i: [i // 4, i % 4], (14,))
    >>> contract(f, {"A": m, "B": m})
    <contract of twice: needs A: READABLE; gives B: A * 2>
    """
    ir.checked_function(f, "contract")
    if layouts is not None and not isinstance(layouts, Mapping):
        raise InputError(f"layouts are a mapping from names to maps, not {shown(layouts)}")
    names = {t.name for t in f.params}
    known = {**{name: m for name, m in f.layouts.items() if name in names}, **(layouts or {})}
    if f.sizes or any(not isinstance(e, int) for m in known.values() if isinstance(m, IndexMap) for e in m.shape):
        known = {name: m for name, m in with_layouts(f, known).layouts.items() if name in known}
    else:
        states.check_layouts(f, known)
    flow = ContractDataflow(f, {t: known[t.name] for t in f.params if t.name in known})
    gives = flow.gives()
    return Contract(f, {t.name: m for t, m in flow.packed.items()}, flow.needs(), gives, flow.reads)


def _state(given: states.PadState | int | float | bool | None, dtype: str) -> states.PadState:
    if given is None:
        return states.UNTOUCHED
    if isinstance(given, (states.State, states.PadValue)):
        return given
    try:
        return states.PadValue(states.as_operand(as_element(given, dtype), dtype))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"a padding must be a state or a number of type {dtype}, not {shown(given)}") from None


class Port(NamedTuple):
    """The interface of one parameter.

    Attributes
    ----------
    name: parameter name.
    shape, dtype: logical shape and element type.
    grid: packed layout; `None` for a logical parameter.
    state: padding state, required for inputs, promised for the output; meaningless without a layout.
    tensor: the parameter.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    grid: states.Grid | None
    state: states.PadState
    tensor: Tensor

    @property
    def meets(self) -> tuple[Any, ...]:
        """Key of shape, type and layout; interchangeable ports have equal keys."""
        return self.shape, self.dtype, None if self.grid is None else self.grid.key

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        packed = "" if self.grid is None else f" as {self.grid.layout!r}, padding {self.state}"
        return f"{self.name}: {self.dtype}[{shape}]{packed}"


class CallOption(NamedTuple):
    """A function with its ports."""

    function: ir.Function
    inputs: tuple[Port, ...]
    output: Port

    def is_like(self, other: CallOption) -> bool:
        """Test that both options have equal ports, up to parameter names."""
        mine, theirs = (*self.inputs, self.output), (*other.inputs, other.output)
        return len(mine) == len(theirs) and all(
            a.meets == b.meets and _text(self, a) == _text(other, b) for a, b in zip(mine, theirs, strict=True)
        )


def _text(option: CallOption, port: Port) -> str:
    """Print a port's padding state, naming inputs by position."""
    if not isinstance(port.state, PadValue):
        return str(port.state)
    return port.state.text({p.tensor: f"#{k}" for k, p in enumerate(option.inputs)})


def option_of(f: Any) -> CallOption:
    """Derive the ports of a function from its contract.

    Raises
    ------
    InputError: `f` is not a function with one output and constant shapes, or reads its output first.
    LayoutError: `f` has no contract, or a layout is not injective.
    """
    if not isinstance(f, ir.Function):
        raise InputError(f"an option of a call must be a function, not {shown(f)}")
    if len(f.outputs) != 1:
        outputs = ", ".join(t.name for t in f.outputs)
        raise InputError(f"an option must have one output, {f.name} has {len(f.outputs)}: {outputs or 'none'}")
    (output,) = f.outputs
    free = [v.name for v in f.sizes] + [str(v.data[0]) for v in f.scalars]
    if free:
        raise InputError(f"{f.name} depends on {free[0]}: functions in a graph take tensors of constant shapes alone")
    c = contract(f)
    if output.name in c.reads:
        raise InputError(f"{f.name} reads its output {output.name} before it writes it: a graph passes nothing in it")
    inputs = tuple(_port(f, t, c.layouts.get(t.name), c.needs.get(t.name, states.NOTHING)) for t in f.inputs)
    return CallOption(f, inputs, _port(f, output, c.layouts.get(output.name), c.gives.get(output.name, states.UNDEF)))


def _port(f: ir.Function, tensor: Tensor, layout: Any, state: states.PadState) -> Port:
    grid = None if layout is None else states.Grid(layout)
    if grid is not None:
        if not grid.layout.injective:
            raise LayoutError(f"the layout of {tensor.name} in {f.name} is not one to one")
        return Port(tensor.name, tuple(int(e) for e in grid.layout.shape), tensor.dtype, grid, state, tensor)
    shape = tuple(constant_value(e) for e in tensor.extents)
    if None in shape:
        raise InputError(f"the shape of {tensor.name} in {f.name} is not constant")
    return Port(tensor.name, shape, tensor.dtype, None, state, tensor)  # type: ignore[arg-type]  # numbers


def pad_options(f: ir.Function, layouts: Mapping[str, IndexMap]) -> list[ir.Function]:
    """Generate packed variants of a function as options for a graph call.

    The first variant leaves padding alone and keeps every guard. The second accesses padding of unknown value and drops
    the guards this makes redundant. Further variants assume neutral input padding (0, 1, lowest or highest value; one
    input or all inputs) and appear only if they remove another guard.

    Parameters
    ----------
    layouts: map from tensor names to index maps, see `transform_layout`.

    Raises
    ------
    InputError: `f` is not a function, `layouts` is empty, or a name is unknown.
    LayoutError: a layout has the wrong shape or no inverse.

    Example
    -------
    >>> from lowering import IndexMap, contract, parse_nest
    >>> f = parse_nest('''
    ... def total(A: int32[14], B: int32[1]):
    ...     B[0] = 0
    ...     for i in [0, 14):
    ...         B[0] = B[0] + A[i]
    ... ''')
    >>> for option in pad_options(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (14,))}):
    ...     print(contract(option).needs["A"])
    NOTHING
    0
    """
    ir.checked_function(f, "pad_options")
    if not isinstance(layouts, Mapping) or not layouts:
        raise InputError(f"layouts are a mapping from names of tensors to maps, not {shown(layouts)}")
    is_unclear = any(ir.has_undef(*operands(stmt)) for stmt in statements(f.body))
    kept = _in_layouts(f, layouts, dict.fromkeys(layouts))
    unknown = {name: ir.undef(tensor_named(f, name).dtype) for name in layouts}
    free = _in_layouts(f, layouts, unknown)
    options = [kept]
    if _guards(free) < _guards(kept) or _promises_more(free, kept, layouts):
        options.append(free)
    inputs = [t for t in f.inputs if t.name in layouts]
    subsets = [[t] for t in inputs] + ([inputs] if len(inputs) > 1 else [])
    helpful: set[int] = set()  # neutral kinds that drop a guard with one input alone
    for tensors, kind in product(subsets, range(4)) if _guards(free) else ():
        values = {t.name: _neutral_value(t.dtype, kind) for t in tensors}
        if (len(tensors) > 1 and kind in helpful) or not _may_free_a_guard(free, values):
            continue
        neutral = _with_padding(free, values) if not is_unclear else _in_layouts(f, layouts, unknown | values)
        if _guards(neutral) < _guards(free):
            options.append(neutral)
            helpful.add(kind)
    return options


def _promises_more(free: ir.Function, kept: ir.Function, layouts: Mapping[str, IndexMap]) -> bool:
    """Test whether `free` promises more output padding than `kept`, which leaves padding untouched."""
    gives = contract(free).gives
    if not gives.keys() <= layouts.keys():
        return gives != contract(kept).gives
    return any(gives.get(t.name, states.UNTOUCHED) is not states.UNTOUCHED for t in kept.padding)


def _may_free_a_guard(f: ir.Function, values: Mapping[str, Any]) -> bool:
    """Test whether known padding values may make a guard redundant.

    Three uses qualify: a guarded store becomes a no-op (adding 0), a guarded store reads padding through other tensors,
    or padding decides control flow. False skips the expensive transformation.

    Parameters
    ----------
    values: padding values by tensor name.
    """
    padded = {t: states.as_operand(values[t.name], t.dtype) for t in f.params if t.name in values}
    stores = [stmt for stmt in statements(f.body) if isinstance(stmt, ir.Store)]
    reads = {stmt: frozenset(tensors_read(stmt.value)) for stmt in stores}
    affected = set(dag.reachable(padded, lambda tensor: [stmt.tensor for stmt in stores if tensor in reads[stmt]]))
    for cursor in driver.cursors(f):
        stmt = cursor.stmt
        if not cursor.branches and not isinstance(stmt, ir.Let):
            continue
        if any(t in affected for t in deciding_tensors(stmt)):
            return True
        if not isinstance(stmt, ir.Store) or stmt.tensor not in (read := reads[stmt]):
            continue
        if read & affected - padded.keys() - {stmt.tensor} or (read & affected and _keeps(f, stmt, cursor, padded)):
            return True
    return False


def _keeps(f: ir.Function, stmt: ir.Store, cursor: driver.Cursor, padded: Mapping[Tensor, Operand]) -> bool:
    """Test that a store is a no-op outside one of its guards, given the values of its loads."""
    loaded = {node: padded[t] for node, t in elements_read(stmt.value) if t in padded}
    value = rewrite(stmt.value, loaded)
    scope = reduce(Scope.inside, cursor.loops, scope_of(f))
    return any(same(stmt, value, scope.where(negation(branch.cond))) for branch, _ in cursor.branches)


def _in_layouts(f: ir.Function, layouts: Mapping[str, IndexMap], pads: Mapping[str, Any]) -> ir.Function:
    """Transform layouts, loop over the new axes, and remove guards that the padding values make redundant."""
    g = f
    for name, layout in layouts.items():
        g = transform_layout(g, name, layout, pads[name])
    outputs = [t.name for t in f.outputs]
    for name in sorted(layouts, key=lambda name: name not in outputs):
        try:
            g = sequential_buffer_access(g, name)
        except LayoutError:  # its iteration order matters
            continue
    g = remove_branching_through_overcompute(g)
    if any(ir.has_undef(*operands(stmt)) for stmt in statements(f.body)):
        return g
    return remove_undef(g)  # drops stores that only permit overcompute


def _with_padding(free: ir.Function, values: Mapping[str, Any]) -> ir.Function:
    """Replace assumptions of unknown padding by known values and remove the guards this makes redundant."""

    def assume_value(stmt: ir.Assume, cursor: driver.Cursor) -> ir.Assume:
        permitted = ir.permission(stmt.cond)
        if permitted is None or permitted[1].name not in values:
            return stmt
        guards, tensor, indices = permitted
        equal = equals(tensor, indices, states.as_operand(values[tensor.name], tensor.dtype))
        return replace(stmt, cond=any_of(*guards, equal))

    body = driver.rewritten(free.body, driver.Cursor.root(free), leave={ir.Assume: (assume_value,)})
    return remove_undef(remove_branching_through_overcompute(free.with_body(body)))


def _neutral_value(dtype: str, kind: int) -> int | float | bool:
    number = (0, 1, dtypes.least(dtype), dtypes.greatest(dtype))[kind] if dtype != "bool" else kind % 2
    return bool(number) if dtype == "bool" else float(number) if dtypes.is_float(dtype) else number


def _guards(f: ir.Function) -> int:
    return sum(isinstance(stmt, ir.If) for stmt in statements(f.body))
