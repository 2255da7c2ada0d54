"""Padding contracts by dataflow, for symbolic sizes and nests too long for concrete execution.

A probe nest after the function reads the padding; its reaching definitions give the final content. Unknown answers are
conservative: padding may be read, may be uninitialized, and may affect results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple

from bound.tensor import Tensor, element
from bound.tir.build import select
from bound.tir.value import Operand
from bound.tir.walk import loaded_tensor, nodes, read_indices, rewrite
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.dag import substitute
from intset.expr.node import Cond, Expr, PlainVar, as_expr, truth
from intset.expr.range import Range
from lowering.dataflow import Dataflow, Source, dataflow
from lowering.dataflow.program import Path
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.transform import probed
from lowering.nest.driver import Cursor, cursor_of, cursors
from lowering.nest.ir import Assume, Evaluate, Function, Seq, Store, flat, seq
from lowering.nest.scope import proves
from lowering.nest.undef import has_undef
from lowering.nest.walk import replaced, variables
from lowering.padding.concrete import of_type
from lowering.padding.states import NOTHING, PLACE, READABLE, UNDEF, UNTOUCHED, PadState, PadValue, folded

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

    def __init__(self, f: Function, packed: Mapping[Tensor, IndexMap]) -> None:
        said = [r.nest for r in f.requires]
        # A flat sequence keeps paths valid when a probe follows.
        self.f = replace(f, body=Seq(tuple(flat(seq(*said, f.body)))), padding={}, requires=())
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
            p: PLACE[k] if _is_zero(low) else PLACE[k] - low
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
        assert isinstance(place.stmt, Store)
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
            at = tuple(i if _is_zero(low) else i + low for i, low in zip(args, lows, strict=True))
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
        return [p for p in cursors(self.f) if not isinstance(p.stmt, (Assume, Seq))]

    @cached_property
    def _stores(self) -> list[Cursor]:
        return [p for p in self._reading if isinstance(p.stmt, Store)]

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
            if conds and not isinstance(place.stmt, Store):
                what = "a host call" if isinstance(place.stmt, Evaluate) else "what is executed"
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


def _is_zero(low: Expr) -> bool:
    return low.is_const and low.data == 0


def _is_never(place: Cursor, cond: Cond) -> bool:
    return proves(place.scope, logical_not(logical_and(cond)))
