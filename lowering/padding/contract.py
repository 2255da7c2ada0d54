"""`contract`: required and promised padding of a function; `pad_options`: its variants in other layouts.

`contract`: infer required input padding and promised output padding of a function.

`pad_options` generates packed variants of a function under different padding contracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import any_of, negation
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, rewrite
from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.errors import BudgetError, InputError
from intset.expr.arguments import listed, mapped
from intset.expr.node import Expr, constant_value
from intset.expr.printer import shown
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.transform import equals, transform_layout, with_layouts
from lowering.nest.driver import Cursor, cursors, rewritten
from lowering.nest.ir import Allocate, Assume, Function, If, Let, Store, checked_function
from lowering.nest.scope import scope_of
from lowering.nest.undef import deciding_tensors, has_undef, permission, undef
from lowering.nest.walk import operands, statements, tensors_read
from lowering.padding import states
from lowering.padding.anti_unification import generalized, piecewise
from lowering.padding.concrete import ConcreteRun, exceeds_budget
from lowering.padding.partial_evaluation import Data, as_element, as_operand, is_number, taint_of
from lowering.padding.symbolic import ContractDataflow
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.stores.overcompute import remove_branching_through_overcompute
from lowering.passes.stores.reaching_values import same
from lowering.passes.stores.undef_removal import remove_undef


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
        f: Function,
        layouts: Mapping[str, IndexMap],
        needs: Mapping[str, states.PadState],
        gives: Mapping[str, states.PadState],
        reads: tuple[str, ...] = (),
    ) -> None:
        checked_function(f, "a contract")
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


def contract(f: Function, layouts: Mapping[str, IndexMap] | None = None) -> Contract:
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
    if not isinstance(f, Function):
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


def _by_dataflow(f: Function, layouts: Mapping[str, IndexMap], known: Mapping[str, IndexMap]) -> Contract:
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


def _refuse_dependent(f: Function, tensor: Tensor, packed: states.Packed | None, run: ConcreteRun) -> None:
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

    function: Function
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
    if not isinstance(f, Function):
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


def _port(f: Function, tensor: Tensor, layout: Any, state: states.PadState) -> Port:
    grid = None if layout is None else states.Grid(layout)
    if grid is not None:
        if not grid.layout.injective:
            raise LayoutError(f"the layout of {tensor.name} in {f.name} is not one to one")
        return Port(tensor.name, tuple(int(e) for e in grid.layout.shape), tensor.dtype, grid, state, tensor)
    shape = tuple(constant_value(e) for e in tensor.extents)
    if None in shape:
        raise InputError(f"the shape of {tensor.name} in {f.name} is not constant")
    return Port(tensor.name, shape, tensor.dtype, None, state, tensor)  # type: ignore[arg-type]  # numbers


def pad_options(f: Function, layouts: Mapping[str, IndexMap]) -> list[Function]:
    """Generate packed variants of a function as options for a graph call.

    The first variant leaves padding alone and keeps every guard. The second accesses padding of unknown value and drops
    the guards this makes redundant. Further variants assume neutral input padding (0, 1, lowest or highest value; one
    input or all) and appear only if they drop another guard.

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
    if not isinstance(f, Function):
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


def _promises_more(free: Function, kept: Function, layouts: Mapping[str, IndexMap]) -> bool:
    """Test whether `free` promises more output padding than `kept`, which leaves padding untouched."""
    gives = contract(free).gives
    if not gives.keys() <= layouts.keys():
        return gives != contract(kept).gives
    return any(gives.get(t.name, states.UNTOUCHED) is not states.UNTOUCHED for t in kept.padding)


def _may_free_a_guard(f: Function, values: Mapping[str, Any]) -> bool:
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
        if not cursor.branches and not isinstance(stmt, Let):
            continue
        if any(t in affected for t in deciding_tensors(stmt)):
            return True
        if not isinstance(stmt, Store) or stmt.tensor not in (read := set(tensors_read(stmt.value))):
            continue
        if read & affected - padded.keys() - {stmt.tensor} or (read & affected and _keeps(f, stmt, cursor, padded)):
            return True
    return False


def _affected(f: Function, padded: Iterable[Tensor]) -> set[Tensor]:
    """Collect the tensors that may depend on `padded`, by a fixed point over stores."""
    affected, size = set(padded), -1
    while size != len(affected):
        size = len(affected)
        for stmt in statements(f.body):
            if isinstance(stmt, Store) and not affected.isdisjoint(tensors_read(stmt.value)):
                affected.add(stmt.tensor)
    return affected


def _keeps(f: Function, stmt: Store, cursor: Cursor, padded: Mapping[Tensor, Operand]) -> bool:
    """Test that a store is a no-op outside one of its guards, given the values of its loads."""
    loads = {node: t for node in nodes(stmt.value) if (t := loaded_tensor(node)) is not None and t in padded}
    loaded = {node: padded[t] for node, t in loads.items()}
    value = rewrite(stmt.value, loaded)
    scope = scope_of(f)
    for loop in cursor.loops:
        scope = scope.inside(loop)
    return any(same(stmt, value, scope.where(negation(branch.cond))) for branch, _ in cursor.branches)


def _in_layouts(f: Function, layouts: Mapping[str, IndexMap], pads: Mapping[str, Any]) -> Function:
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


def _with_padding(free: Function, values: Mapping[str, Any]) -> Function:
    """Replace assumptions of unknown padding by known values and remove the guards this makes redundant."""

    def assume_value(stmt: Assume, cursor: Cursor) -> Assume:
        permitted = permission(stmt.cond)
        if permitted is None or permitted[1].name not in values:
            return stmt
        guards, tensor, indices = permitted
        equal = equals(tensor, indices, as_operand(values[tensor.name], tensor.dtype))
        return replace(stmt, cond=any_of(*guards, equal))

    body = rewritten(free.body, Cursor.root(free), leave={Assume: (assume_value,)})
    return remove_undef(remove_branching_through_overcompute(free.with_body(body)))


def _dtype(f: Function, name: str) -> str:
    tensors = (*f.params, *(stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)))
    return next((t.dtype for t in tensors if t.name == name), dtypes.INDEX)


def _neutral(inputs: list[Tensor]) -> Iterator[tuple[list[Tensor], int]]:
    """Yield input subsets with a kind of neutral value: single inputs first, then all inputs."""
    for some in [[t] for t in inputs] + ([inputs] if len(inputs) > 1 else []):
        for kind in range(4):
            yield some, kind


def _neutral_value(dtype: str, kind: int) -> int | float | bool:
    number = (0, 1, dtypes.least(dtype), dtypes.greatest(dtype))[kind] if dtype != "bool" else kind % 2
    return bool(number) if dtype == "bool" else float(number) if dtypes.is_float(dtype) else number


def _guards(f: Function) -> int:
    return sum(isinstance(stmt, If) for stmt in statements(f.body))
