"""Elements counted along fused loops: axes of a tensor that loops run over as one, as one flat coordinate.

Loops that were fused and split again run over the flattened tensor. One iteration of the outer ones computes a run of
it: an interval in the flat coordinate `x0*n1*n2 + x1*n2 + x2`, where the delinearization that the loops write cancels,
and in the coordinates of the tensor a set that crosses rows and planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from bound.infer.accesses import TensorAccess
from bound.infer.footprints.box import contains, whole_tensor
from bound.infer.footprints.footprint import Footprint
from bound.infer.phases.infer_root_bound import InferenceState, iterations_of, own_propagation
from bound.infer.phases.pass_down import overruns_unguarded
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.operation import ComputeOp
from bound.schedule import Fuse, Split, simple
from bound.tensor import Tensor
from intset.expr import Expr, Var, as_expr, const
from intset.linear.canonical import Normalizer

_FORMS = Normalizer({})


@dataclass(frozen=True)
class FlatAxes:
    """Axes of a tensor as one axis, counted in row-major order.

    Invariant: `numbers` is injective on the tensor.

    Attributes
    ----------
    dims: the axes, outermost first; the flat coordinate takes the place of the first, and the others become 0.
    extents: the extents of these axes in the tensor.
    """

    dims: tuple[int, ...]
    extents: tuple[Expr, ...]

    def numbers(self, point: Sequence[Expr]) -> tuple[Expr, ...]:
        """The coordinates of an element: the flat index, zeros for the group's other axes, the rest unchanged."""
        flat = as_expr(0)
        for k, extent in zip(self.dims, self.extents, strict=True):
            flat = flat * extent + point[k]
        flat = _FORMS.form(flat).expr()
        return tuple(flat if k == self.dims[0] else const(0) if k in self.dims else x for k, x in enumerate(point))

    def point(self, numbers: Sequence[Expr]) -> tuple[Expr, ...]:
        """The element with these coordinates: the inverse of `numbers`."""
        left = numbers[self.dims[0]]
        own: dict[int, Expr] = {}
        for k, extent in list(zip(self.dims, self.extents, strict=True))[:0:-1]:
            own[k], left = _FORMS.form(left % extent).expr(), _FORMS.form(left // extent).expr()
        own[self.dims[0]] = left
        return tuple(own.get(k, x) for k, x in enumerate(numbers))

    def shape(self, shape: Sequence[Expr]) -> tuple[Expr, ...]:
        """The extents of the tensor in these coordinates."""
        total = reduce(simple.mul, self.extents)
        return tuple(
            total if k == self.dims[0] else const(1) if k in self.dims else extent for k, extent in enumerate(shape)
        )


def fused_axes(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> list[FlatAxes]:
    """The axes of a tensor over which fused loops of its stage or of a reader run as one.

    None for a reduction over nothing: its loops, whose image the flat questions ask for, never run, but the nest that
    initialises it does.
    """
    reduced = bounds.op.reduce_axis if isinstance(bounds.op, ComputeOp) else ()
    if any(simple.number(as_expr(bounds.ranges[iv].extent)) == 0 for iv in reduced):
        return []
    groups: dict[tuple[int, ...], None] = {}
    own = data_axes(bounds.op)
    for axes in _fusions(bounds):
        groups[tuple(own.index(iv) for iv in axes if iv in own)] = None
    for stage in state.graph.get(tensor, ()):
        reader = state.bounds.get(stage)
        for axes in () if reader is None else _fusions(reader):
            for access in state.accesses(stage.op, tensor):
                order = [k for iv in axes for k, e in enumerate(access.indices) if iv in e.free_vars()]
                groups[tuple(dict.fromkeys(order))] = None
    shape = state.sizes.shape(tensor)
    return [FlatAxes(dims, tuple(shape[k] for k in dims)) for dims in groups if len(dims) > 1]


def _fusions(bounds: StageBounds) -> Iterator[list[Var]]:
    """The root axes of each outermost fusion, in order."""
    fusions: dict[Var, Fuse] = {r.fused: r for r in bounds.relations if isinstance(r, Fuse)}
    inner = {iv for r in fusions.values() for iv in r.parents}

    def roots(iv: Var) -> list[Var]:
        fusion = fusions.get(iv)
        return [iv] if fusion is None else [*roots(fusion.outer), *roots(fusion.inner)]

    for fused in fusions:
        if fused not in inner:
            yield roots(fused)


def flat_image(state: InferenceState, bounds: StageBounds, tensor: Tensor, axes: FlatAxes) -> Footprint:
    """The elements that the loops of a stage compute in one instance, in flat coordinates."""
    point: Sequence[Expr] = data_axes(bounds.op)
    access = TensorAccess(tensor, axes.numbers(point))
    return own_propagation(state, bounds).image(access, axes.shape(state.sizes.shape(tensor)))


def region_of_loops(state: InferenceState, bounds: StageBounds) -> Footprint | None:
    """A region that the loops of a stage, without guards of its region, are proved to stay in; `None` if unproved.

    It is the computed region or the required one, whose elements the loops compute in any case. A flat question, asked
    where the region is no box or shared loops run over whole axes: an interval of required elements around that of the
    loops.
    """
    if not isinstance(bounds.op, ComputeOp) or len(bounds.op.outputs) > 1 or bounds.slid:
        return None
    if bounds.region.box is not None and not bounds.aligned:
        return None
    (tensor,) = bounds.op.outputs
    if bounds.region.box is not None and _is_whole(state, bounds, tensor):
        return bounds.region
    bounds.stays_inside = True  # for the image of the loops alone
    try:
        is_required = any(_is_required(state, bounds, tensor, axes) for axes in fused_axes(state, bounds, tensor))
    finally:
        bounds.stays_inside = False
    return bounds.required[tensor] if is_required else None


def _is_whole(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> bool:
    """Whether the region is the tensor, which loops leave only where a split rounds up without a guard."""
    if any(isinstance(r, Split) and overruns_unguarded(bounds, r) for r in bounds.relations):
        return False
    box, whole = bounds.region.box, whole_tensor(state.env, state.sizes.shape(tensor))
    assert box is not None
    if box.is_conditional() or not bounds.aligned >= set(data_axes(bounds.op)):
        return False
    return all(a.same(b) for a, b in zip(box.sides, whole.sides, strict=True))


def _is_required(state: InferenceState, bounds: StageBounds, tensor: Tensor, axes: FlatAxes) -> bool:
    shape = axes.shape(state.sizes.shape(tensor))
    needed = []
    for request in state.requests[tensor]:
        access = request.access
        flat = TensorAccess(tensor, axes.numbers(access.indices), access.conditions, access.extra, access.before)
        propagation, _ = iterations_of(state, bounds, request.consumer, bounds.path)
        footprint = propagation.image(flat, shape)
        if footprint.exact and footprint.box is not None:
            needed.append(footprint.box)
    own = own_propagation(state, bounds)
    point = axes.numbers(data_axes(bounds.op))
    needed = [box for box in needed if not own.leaves(box, point)]
    if not needed:
        return False
    computed = own.image(TensorAccess(tensor, point), shape).box
    return computed is not None and any(contains(state.env, box, computed) for box in needed)
