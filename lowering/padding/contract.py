"""`contract`: required and promised padding of a function; `pad_options`: its variants in other layouts.

`pad_options` generates packed variants of a function, each under its contract.

A contract of numbers is found by execution, of symbolic sizes and long nests by dataflow: a probe nest after the
function reads the padding, and its reaching definitions give the final content. Unknown answers are conservative:
padding may be read, may be uninitialized, and may affect results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.build import any_of, negation, select
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, read_indices, rewrite
from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.errors import BudgetError, InputError
from intset.expr.arguments import listed, mapped
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.dag import reachable, substitute
from intset.expr.node import Cond, Expr, PlainVar, as_expr, constant_value, truth
from intset.expr.printer import shown
from intset.expr.range import Range
from lowering.dataflow import Dataflow, Source, dataflow
from lowering.dataflow.program import Path
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.transform import equals, probed, transform_layout, with_layouts
from lowering.nest import ir
from lowering.nest.driver import Cursor, cursor_of, cursors, rewritten
from lowering.nest.scope import proves, scope_of
from lowering.nest.undef import deciding_tensors, has_undef, permission, undef
from lowering.nest.walk import operands, replaced, statements, tensors_read, variables
from lowering.padding import states
from lowering.padding.concrete import ConcreteRun, exceeds_budget, generalized, of_type, piecewise
from lowering.padding.partial_evaluation import Data, as_element, as_operand, is_number, taint_of
from lowering.padding.states import NOTHING, PLACE, READABLE, UNDEF, UNTOUCHED, PadState, PadValue, folded
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.stores.dead_code import remove_undef
from lowering.passes.stores.overcompute import remove_branching_through_overcompute
from lowering.passes.stores.reaching_values import same

MAX_ROUNDS: Final = 8  # of dependence propagation
MAX_PARTS: Final = 8  # disjuncts of a dependence condition


class Probe(NamedTuple):
    """A nest that reads every element of a tensor at the end of a function.

    Attributes
    ----------
    place: cursor of the probe.
    at: storage indices of its load.
    sources: reaching definitions of the load.
    flow: dataflow of the function with the probe.
    """

    place: Cursor
    at: tuple[Expr, ...]
    sources: tuple[Source, ...]
    flow: Dataflow


class ContractDataflow:
    """Dataflow analysis of a function's padding contract.

    Guarantee: the contract is conservative.

    Parameters
    ----------
    packed: layouts of packed parameters.
    """

    def __init__(self, f: ir.Function, packed: Mapping[Tensor, IndexMap]) -> None:
        said = [r.nest for r in f.requires]
        # A flat sequence keeps paths valid when a probe follows.
        self.f = replace(f, body=ir.Seq(tuple(ir.flat(ir.seq(*said, f.body)))), padding={}, requires=())
        self.packed = packed
        self._closed = frozenset(f.padding)  # tensors with untouchable padding
        self._values: dict[Tensor, PadState | None] = {t: self._assumed(t) for t in packed if t in f.inputs}

    # -- what is asked ------------------------------------------------------------------------------------------

    def needs(self) -> dict[str, PadState]:
        """Compute padding requirements; outputs appear only if their initial padding may be read."""
        found = {t: self._need(t) for t in self.packed}
        return {t.name: state for t, state in found.items() if t in self.f.inputs or state is not NOTHING}

    def gives(self) -> dict[str, PadState]:
        """Compute padding promises of outputs.

        Raises
        ------
        LayoutError: a result may depend on unconstrained padding.
        """
        for tensor in self.f.outputs:
            self._refuse_dependent(tensor)
        return {t.name: self._given(t) for t in self.f.outputs if t in self.packed}

    def reads(self) -> tuple[str, ...]:
        """The outputs with elements that may be read before the function writes them."""
        return tuple(
            t.name for t in self.f.outputs if any(self._initial_reads(p, {t}, in_padding=False) for p in self._reading)
        )

    # -- paddings -----------------------------------------------------------------------------------------------

    def _padding(self, tensor: Tensor, at: Iterable[Expr]) -> Cond:
        """Build the condition that a storage element is padding."""
        layout = self.packed.get(tensor)
        if layout is None:
            return truth(False)
        return layout.padding(*(i + _low(r) for i, r in zip(at, layout.ranges, strict=True)))

    def _probe(self, tensor: Tensor, in_padding: bool | None) -> Probe:
        """Append a probe of a tensor: its padding (`True`), its logical elements (`False`) or both (`None`)."""
        loops = tuple(PlainVar(f"p{k}") for k in range(tensor.ndim))
        load, padding = element(tensor, loops), self._padding(tensor, loops)
        cond = None if in_padding is None else padding if in_padding else logical_not(padding)
        f, probe = probed(self.f, load, loops, tensor.extents, cond)
        place, flow = cursor_of(f, probe), dataflow(f)
        return Probe(place, loops, flow.by_element(place)[load], flow)

    def _assumed(self, tensor: Tensor) -> PadState | None:
        """Derive an input's padding value from assumptions; return `None` unless they cover the whole padding."""
        if tensor in self._closed:
            return None
        probe = self._probe(tensor, True)
        kinds = {s.kind for s in probe.sources if not _is_never(probe.place, s.where)}
        if kinds != {"assume"}:
            return None
        return self._value(tensor, probe, given=False)

    def _need(self, tensor: Tensor) -> PadState:
        if tensor in self._closed:
            return NOTHING
        value = self._values.get(tensor)
        if isinstance(value, PadValue):
            return value
        return (
            READABLE
            if value is READABLE or any(self._initial_reads(p, {tensor}, in_padding=True) for p in self._reading)
            else NOTHING
        )

    def _given(self, tensor: Tensor) -> PadState:
        if tensor in self._closed:
            return UNTOUCHED
        found = self._value(tensor, self._probe(tensor, True), given=True)
        return UNTOUCHED if found is None else found

    def _value(self, tensor: Tensor, probe: Probe, given: bool) -> PadState | None:
        """Combine a probe's reaching definitions into a padding state.

        Parameters
        ----------
        given: true for an output's final padding, false for an input's assumed padding.
        """
        lows = [_low(r) for r in self.packed[tensor].ranges]
        names = {
            p: PLACE[k] if constant_value(low) == 0 else PLACE[k] - low
            for k, (p, low) in enumerate(zip(probe.at, lows, strict=True))
        }
        parts: list[tuple[Cond, Operand]] = []
        for source in probe.sources:
            if _is_never(probe.place, source.where):
                continue
            if source.kind not in ("store", "assume"):
                return UNDEF if source.kind == "call" else None
            if not given and source.value is None:
                return READABLE
            value = self._given_by(probe, source) if given else source.value
            if value is None:
                return UNDEF
            parts.append((substitute(source.where, names), rewrite(value, names)))
        if not parts:
            return UNDEF if given else None
        expr = parts[-1][1]
        for where, value in reversed(parts[:-1]):
            expr = expr if value is expr else select(where, value, expr)
        return folded(expr, tensor.dtype)

    def _stored(self, flow: Dataflow, source: Source, depth: int = 0) -> Operand | None:
        """Express a stored value by input elements; return `None` if unknown."""
        if source.kind != "store" or source.path is None or source.at is None or depth > MAX_ROUNDS:
            return source.value if source.kind == "assume" else None
        place = next(p for p in self._stores if p.path == source.path)
        assert isinstance(place.stmt, ir.Store)
        value = place.stmt.value
        loops = [loop.var for loop in place.loops]
        if has_undef(value) or any(v not in loops and v not in self.f.sizes for v in variables(value)):
            return None
        known: dict[Operand, Operand] = {}
        reads = flow.by_element(source.path)
        for node in nodes(value):
            tensor = loaded_tensor(node)
            if tensor is None or tensor in self.f.inputs:
                continue
            sources = reads.get(node, ())
            inner = self._stored(flow, sources[0], depth + 1) if len(sources) == 1 else None
            if inner is None:
                return None
            known[node] = of_type(inner, tensor.dtype)
        return replaced(rewrite(value, known), dict(zip(loops, source.at, strict=True)))

    def _given_by(self, probe: Probe, source: Source) -> Operand | None:
        """Express a stored padding value by input padding; return `None` if it depends on logical elements.

        Loads use new indices; assumed padding values replace their loads.
        """
        value = self._stored(probe.flow, source)
        scope = probe.place.scope.where(source.where)
        known: dict[Operand, Operand] = {}
        for node in nodes(value) if value is not None else ():
            tensor = loaded_tensor(node)
            if tensor is None:
                continue
            if tensor not in self.packed or not proves(scope, self._padding(tensor, read_indices(node))):
                return None
            lows = [_low(r) for r in self.packed[tensor].ranges]
            same = [p if proves(scope, i.eq(p)) else i for i, p in zip(node.args, probe.at, strict=False)]
            args = (*same, *node.args[len(same) :])  # prefer the probe's own indices
            at = tuple(i if constant_value(low) == 0 else i + low for i, low in zip(args, lows, strict=True))
            fixed = self._values.get(tensor)
            known[node] = fixed.at(*at) if isinstance(fixed, PadValue) else element(tensor, at)
        return None if value is None else rewrite(value, known)

    # -- reads --------------------------------------------------------------------------------------------------

    @cached_property
    def _flow(self) -> Dataflow:
        return dataflow(self.f)

    @cached_property
    def _reading(self) -> list[Cursor]:
        """Cursors of all statements except assumptions and sequences."""
        return [p for p in cursors(self.f) if not isinstance(p.stmt, (ir.Assume, ir.Seq))]

    @cached_property
    def _stores(self) -> list[Cursor]:
        return [p for p in self._reading if isinstance(p.stmt, ir.Store)]

    def _initial_reads(self, place: Cursor, tensors: Collection[Tensor], in_padding: bool) -> list[Cond]:
        """Collect the conditions under which a statement may read elements that no store wrote before.

        Parameters
        ----------
        in_padding: count elements of paddings only.
        """
        conditions = []
        for key, sources in self._flow.by_element(place).items():
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

    # -- dependence ---------------------------------------------------------------------------------------------

    @cached_property
    def _tainted(self) -> dict[Path, list[Cond]]:
        """Conditions, by store path, under which the value depends on unconstrained padding.

        Raises
        ------
        LayoutError: control flow or a host call may depend on unconstrained padding.
        """
        open_ = {t for t in self.packed if t not in self._closed and not isinstance(self._values.get(t), PadValue)}
        found: dict[Path, list[Cond]] = {}
        for place in self._reading:
            conds = self._initial_reads(place, open_, in_padding=True)
            if conds and not isinstance(place.stmt, ir.Store):
                what = "a host call" if isinstance(place.stmt, ir.Evaluate) else "what is executed"
                raise LayoutError(f"{what} in {self.f.name} may depend on a padding that nothing fixes: {place.stmt!r}")
            if conds:
                found[place.path] = conds
        for _ in range(MAX_ROUNDS):
            if not self._spread(found):
                return found
        return {place.path: [truth(True)] for place in self._stores}

    def _spread(self, found: dict[Path, list[Cond]]) -> bool:
        """Propagate taint one step through storage; return whether it grew."""
        more = False
        for place in self._stores if found else ():
            for sources in self._flow.by_element(place).values():
                for cond in self._through(sources, found):
                    known = found.setdefault(place.path, [])
                    if _is_never(place, cond) or proves(place.scope.where(cond), logical_or(*known)):
                        continue
                    known.append(cond if len(known) < MAX_PARTS else truth(True))
                    more = True
        return more

    def _through(self, sources: Iterable[Source], found: Mapping[Path, list[Cond]]) -> list[Cond]:
        """Collect the conditions under which a read sees a tainted store."""
        conds = []
        loops = {p.path: [loop.var for loop in p.loops] for p in self._reading}
        for source in sources:
            if source.path is None and source.kind == "unknown" and found:
                conds.append(source.where)
            for cond in found.get(source.path, ()) if source.path is not None else ():
                if source.at is None:
                    conds.append(source.where)
                else:
                    assert source.path is not None
                    there = dict(zip(loops[source.path], source.at, strict=True))
                    conds.append(source.where & substitute(cond, there))
        return conds

    def _refuse_dependent(self, tensor: Tensor) -> None:
        """Raise `LayoutError` if a logical element of `tensor` may depend on unconstrained padding."""
        if not self._tainted:
            return
        probe = self._probe(tensor, False if tensor in self.packed else None)
        for cond in self._through(probe.sources, self._tainted):
            if not _is_never(probe.place, cond):
                what = f"an element of {tensor.name} of {self.f.name} may depend on a padding"
                raise LayoutError(f"{what} that nothing fixes, where {self.f.ctx.simplify(cond)}")


def _low(limits: Range) -> Expr:
    return as_expr(limits.min)


def _is_never(place: Cursor, cond: Cond) -> bool:
    return proves(place.scope, logical_not(logical_and(cond)))


@all_as_configured
class Contract(Configured):
    """A function's padding contract: required values in inputs, promised values in outputs.

    Attributes
    ----------
    needs: maps packed parameters (inputs, and outputs read before written) to `NOTHING`, `READABLE` or a `PadValue`.
    gives: maps packed outputs to `UNTOUCHED`, `UNDEF` or a `PadValue`, whose loads denote input padding.
    layouts: maps packed parameters to their index maps.
    reads: names of outputs read before being written; inferred by dataflow, those that may be.
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
        self.f, self.layouts, self.reads = f, dict(mapped(layouts, "layouts")), listed(reads, "reads")
        self.needs, self.gives = dict(mapped(needs, "needs")), dict(mapped(gives, "gives"))

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
        for name, state in mapped(pads, "pads", "a mapping from names to what a padding holds").items():
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

    Values fixed by assumptions are required, read or not; other requirements follow from reads. Constant-size nests
    are interpreted element by element with symbolic padding. Symbolic sizes and long nests use dataflow analysis,
    which falls back to `READABLE`, `UNTOUCHED` or `UNDEF`.

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
    if not isinstance(f, ir.Function):
        raise InputError(f"contract takes a function, not {shown(f)}")
    if layouts is not None and not isinstance(layouts, Mapping):
        raise InputError(f"layouts are a mapping from names to maps, not {shown(layouts)}")
    names = {t.name for t in f.params}
    known = {**{name: m for name, m in f.layouts.items() if name in names}, **(layouts or {})}
    if f.sizes or any(not isinstance(e, int) for m in known.values() if isinstance(m, IndexMap) for e in m.shape):
        return _by_dataflow(f, with_layouts(f, known).layouts, known)
    packed = states.packed_of(f, known)
    if exceeds_budget(f):
        return _by_dataflow(f, known, known)
    try:
        run = ConcreteRun(f, packed, {})
        if not run.unfixed.isdisjoint(run.fixed):  # rerun: some read preceded its assumption
            run = ConcreteRun(f, packed, run.fixed)
    except BudgetError:
        return _by_dataflow(f, known, known)
    for (tensor, place), said in run.restricted.items():
        if (tensor, place) not in run.fixed:
            at = f"{tensor.name}[{', '.join(map(str, place))}]"
            raise LayoutError(f"{f.name} assumes {said} of the padding {at}, which fixes no value there", (place,))
    for tensor in f.outputs:
        _refuse_dependent(f, tensor, packed.get(tensor), run)
    passed = [t for t in f.params if t in packed and (t not in f.outputs or t in run.passed)]
    needs = {t.name: _need(packed[t], run) for t in passed}
    gives = {t.name: _given(packed[t], run) for t in f.outputs if t in packed}
    reads = tuple(t.name for t in f.outputs if t in run.passed)
    return Contract(f, known, needs, gives, reads)


def _by_dataflow(f: ir.Function, layouts: Mapping[str, IndexMap], known: Mapping[str, IndexMap]) -> Contract:
    """Infer a contract by dataflow, for symbolic sizes and nests beyond the interpreter's budget."""
    packed = {t: layouts[t.name] for t in f.params if t.name in known}
    symbolic = ContractDataflow(f, packed)
    gives = symbolic.gives()
    return Contract(f, {t.name: m for t, m in packed.items()}, symbolic.needs(), gives, symbolic.reads())


def _state(given: states.PadState | int | float | bool | None, dtype: str) -> states.PadState:
    if given is None:
        return states.UNTOUCHED
    if isinstance(given, (states.State, states.PadValue)):
        return given
    try:
        return states.number_value(given, dtype)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"a padding must be a state or a number of type {dtype}, not {shown(given)}") from None


def _refuse_dependent(f: ir.Function, tensor: Tensor, packed: states.Packed | None, run: ConcreteRun) -> None:
    """Raise `LayoutError` if a logical element depends on padding without a fixed value."""
    for place, content in run.memory[tensor].items():
        if is_number(content) or (packed is not None and packed.grid.is_padding(place)):
            continue
        taint = taint_of(content)
        if taint is not None:
            at = f"{taint[0].name}[{', '.join(map(str, taint[1]))}]"
            shown = f"{tensor.name}[{', '.join(map(str, place))}]"
            raise LayoutError(
                f"{shown} of {f.name} depends on the padding {at}, which nothing fixes", (place, taint[1])
            )


def _need(packed: states.Packed, run: ConcreteRun) -> states.PadState:
    tensor, padding = packed.tensor, packed.grid.padding
    fixed = {place: run.fixed[tensor, place] for place in padding if (tensor, place) in run.fixed}
    for place, number in fixed.items():
        if is_number(number) and number == number and as_element(number, tensor.dtype) != number:
            at = f"{tensor.name}[{', '.join(map(str, place))}]"
            raise LayoutError(f"{run.f.name} assumes that {at} is {number}, which is no {tensor.dtype}", (place,))
    if fixed:
        value = _as_value(list(fixed.values()), list(fixed), tensor.dtype)
        if value is None:
            raise LayoutError(f"the padding of {tensor.name} assumed by {run.f.name} is no function of its indices")
        return value
    keys = {**run.read, **run.permitted}
    return (
        states.READABLE if any(t is tensor and packed.grid.is_padding(place) for t, place in keys) else states.NOTHING
    )


def _given(packed: states.Packed, run: ConcreteRun) -> states.PadState:
    stored = run.memory[packed.tensor]
    padding = packed.grid.padding
    contents = [stored.get(place) for place in padding]
    if any(c is None or (isinstance(c, Data) and not c.written) for c in contents):
        return states.UNTOUCHED
    if not contents or any(isinstance(c, Data) for c in contents):
        return states.UNDEF
    return _as_value(contents, padding, packed.tensor.dtype) or states.UNDEF


def _as_value(contents: Sequence[Any], places: Sequence[states.Place], dtype: str) -> states.PadValue | None:
    values = [as_operand(c, dtype) if is_number(c) else c for c in contents]
    value = generalized(values, places)
    if value is None:
        value = piecewise(values, places)
    if value is None:
        return None
    if not isinstance(value, Expr):
        return states.PadValue(value)
    short = Context().simplify(states.without_registers(value, dtypes.bits(dtype)))
    return states.PadValue(as_operand(as_element(int(short.data), dtype), dtype) if short.is_const else short)


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
    state = port.state
    if not hasattr(state, "text"):
        return str(state)
    return state.text({p.tensor: f"#{k}" for k, p in enumerate(option.inputs)})


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
    if not isinstance(f, ir.Function):
        raise InputError(f"pad_options takes a Function, not {shown(f)}")
    if not isinstance(layouts, Mapping) or not layouts:
        raise InputError(f"layouts are a mapping from names of tensors to maps, not {shown(layouts)}")
    is_unclear = any(has_undef(*operands(stmt)) for stmt in statements(f.body))
    kept = _in_layouts(f, layouts, dict.fromkeys(layouts))
    unknown = {name: undef(_dtype(f, name)) for name in layouts}
    free = _in_layouts(f, layouts, unknown)
    options = [kept]
    if _guards(free) < _guards(kept) or _promises_more(free, kept, layouts):
        options.append(free)
    inputs = [t for t in f.inputs if t.name in layouts]
    helpful: set[int] = set()  # neutral kinds that drop a guard with one input alone
    for tensors, kind in _neutral(inputs) if _guards(free) else ():
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
    padded = {t: as_operand(values[t.name], t.dtype) for t in f.params if t.name in values}
    affected = _affected(f, padded)
    for cursor in cursors(f):
        stmt = cursor.stmt
        if not cursor.branches and not isinstance(stmt, ir.Let):
            continue
        if any(t in affected for t in deciding_tensors(stmt)):
            return True
        if not isinstance(stmt, ir.Store) or stmt.tensor not in (read := set(tensors_read(stmt.value))):
            continue
        if read & affected - padded.keys() - {stmt.tensor} or (read & affected and _keeps(f, stmt, cursor, padded)):
            return True
    return False


def _affected(f: ir.Function, padded: Iterable[Tensor]) -> set[Tensor]:
    """Collect the tensors that may depend on `padded`, through stores."""
    stores = [stmt for stmt in statements(f.body) if isinstance(stmt, ir.Store)]
    reads = {stmt: frozenset(tensors_read(stmt.value)) for stmt in stores}
    return set(reachable(padded, lambda tensor: [stmt.tensor for stmt in stores if tensor in reads[stmt]]))


def _keeps(f: ir.Function, stmt: ir.Store, cursor: Cursor, padded: Mapping[Tensor, Operand]) -> bool:
    """Test that a store is a no-op outside one of its guards, given the values of its loads."""
    loads = {node: t for node in nodes(stmt.value) if (t := loaded_tensor(node)) is not None and t in padded}
    loaded = {node: padded[t] for node, t in loads.items()}
    value = rewrite(stmt.value, loaded)
    scope = scope_of(f)
    for loop in cursor.loops:
        scope = scope.inside(loop)
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
    if any(has_undef(*operands(stmt)) for stmt in statements(f.body)):
        return g
    return remove_undef(g)  # drops stores that only permit overcompute


def _with_padding(free: ir.Function, values: Mapping[str, Any]) -> ir.Function:
    """Replace assumptions of unknown padding by known values and remove the guards this makes redundant."""

    def assume_value(stmt: ir.Assume, cursor: Cursor) -> ir.Assume:
        permitted = permission(stmt.cond)
        if permitted is None or permitted[1].name not in values:
            return stmt
        guards, tensor, indices = permitted
        equal = equals(tensor, indices, as_operand(values[tensor.name], tensor.dtype))
        return replace(stmt, cond=any_of(*guards, equal))

    body = rewritten(free.body, Cursor.root(free), leave={ir.Assume: (assume_value,)})
    return remove_undef(remove_branching_through_overcompute(free.with_body(body)))


def _dtype(f: ir.Function, name: str) -> str:
    tensors = (*f.params, *(stmt.tensor for stmt in statements(f.body) if isinstance(stmt, ir.Allocate)))
    return next((t.dtype for t in tensors if t.name == name), dtypes.INDEX)


def _neutral(inputs: list[Tensor]) -> Iterator[tuple[list[Tensor], int]]:
    """Yield input subsets with a kind of neutral value: single inputs first, then all inputs."""
    for some in [[t] for t in inputs] + ([inputs] if len(inputs) > 1 else []):
        for kind in range(4):
            yield some, kind


def _neutral_value(dtype: str, kind: int) -> int | float | bool:
    number = (0, 1, dtypes.least(dtype), dtypes.greatest(dtype))[kind] if dtype != "bool" else kind % 2
    return bool(number) if dtype == "bool" else float(number) if dtypes.is_float(dtype) else number


def _guards(f: ir.Function) -> int:
    return sum(isinstance(stmt, ir.If) for stmt in statements(f.body))
