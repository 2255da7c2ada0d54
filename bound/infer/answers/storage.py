"""`Storage`, a map from tensor elements to places of an array: plain, compact, flat, circular for sliding windows.

With `t_j` the coordinate of an element along axis `j` of the storage,

    x_k = offset_k + sum(steps[k][j] * t_j).

Guarantee: injective on the kept elements. Plain storage, the bounding box of the computed elements, has unit steps;
compact storage omits what strides and equations exclude; flat storage has unit steps in
coordinates that count several axes as one; circular storage counts `t` modulo a number of places: elements with
disjoint lifetimes share a place.

In iteration `t` of the loops between storage and stage (`StageBounds.slid`) an element is live if it was computed in
`t` or before and is read in `t` or later. Along an axis of the storage, element `x` is kept at `x % f`, with the
smallest `f` that keeps live elements apart: no difference of two live elements that is 0 along the other axes (or a
multiple of the modulus of a folded axis) is a multiple of `f`. For symbolic sizes `f` is the longest difference plus 1.

Source: Halide's storage folding, on sets instead of intervals.

Compact storage uses that the elements of all instances lie on a lattice (`intset.linear.lattice`). In Hermite normal
form, given instance and preceding coordinates, each coordinate lies in one residue class modulo a stride, or is
determined. The lattice coordinates `t` identify the elements, and their bounding box is allocated: `T[2*i]` is kept at
`i`, `T[i, i]` at `[i, 0]`.

- A lattice basis may be sheared: `T[i + j, i - j]` is kept at `[i, j]` up to constants, a diagonal band at its width.
  Shears are tried one at a time as long as one shrinks the box, for constant extents only.
- Joint coordinates cost index arithmetic. For constant extents they must save a quarter of all places, or half if the
  lattice is full. For symbolic extents no axis may be provably longer than in plain storage; else the lattice is made
  denser in that direction, down to plain storage.

Flat storage counts the axes over which fused loops run as one as one axis of the storage. The bounding box of a run of
the flattened tensor is almost the tensor. In flat coordinates (`FlatAxes`) it is an interval, and its places are
the loop variables below the outer loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import combinations, permutations
from math import lcm, prod
from typing import Final

from bound.infer.environment import LoopEnvironment, instances, project_variables, size_bounds
from bound.infer.extents import max_extent
from bound.infer.footprint import Box, Footprint, Outline, added, footprint_of_shape, guarded, whole_tensor
from bound.infer.phases import gather
from bound.infer.phases.infer_root_bound import FlatAxes, InferenceState, fixed_in, flat_image, fused_axes, requests_of
from bound.infer.phases.pass_down import SlidingWindow, StageBounds, data_axes, rounding_split
from bound.schedule import Stage, simple
from bound.schedule.simple import extent, low
from bound.tensor import ComputeOp, PlaceholderOp, Tensor
from intset import config
from intset.errors import BudgetError, InputError
from intset.expr import Cond, Expr, Infinity, IntLike, Range, Var, arguments, as_expr, const, constant_value, dag, ops
from intset.expr.build import logical_and, logical_or, maximum
from intset.expr.printer import Displayed
from intset.linear.canonical import form_of
from intset.linear.division import extremum
from intset.linear.form import ZERO, constant, is_affine
from intset.linear.lattice import Lattice, Vector, inverse, unit
from intset.regions.shape import Shape, has_select

CIRCULAR: Final = 1_000_000  # operations of the domain, for one storage


@dataclass(frozen=True)
class StorageAxis:
    """An axis of a storage.

    Attributes
    ----------
    base: the tensor coordinate at place 0 of every axis; an expression over loops around the storage.
    stride: the distance, in tensor elements, of neighbours along this axis; 0 for a coordinate determined by others.
    extent: the number of places, equal in all instances.
    """

    base: Expr
    stride: int
    extent: Expr


@dataclass(frozen=True, repr=False)
class Storage(Displayed):
    """The map of one tensor's storage in one instance of its stage.

    Attributes
    ----------
    offset: the tensor coordinates at `t = 0`.
    steps: coordinate `k` is `offset[k] + sum(steps[k][j] * t[j])`; columns are independent, or 0 for an unused axis.
    ranges: the ranges of `t`: mins over loop variables, extents equal in all instances and at least 0.
    folds: the modulus of each circular axis (circular storage), `None` for other axes; empty without circular axes.
    flat: the axes that are stored as one (flat storage), of a storage with unit steps; coordinates `t` are those of
        `FlatAxes.numbers`.
    """

    offset: tuple[Expr, ...]
    steps: tuple[tuple[int, ...], ...]
    ranges: tuple[Range, ...]
    folds: tuple[Expr | None, ...] = ()
    flat: FlatAxes | None = None

    def at(self, values: Mapping[Var, Expr]) -> Storage:
        """The storage after a substitution of loop variables."""
        if not values:
            return self
        changed = dict(values)
        ranges = tuple(Range(dag.substitute(low(r), changed), r.extent) for r in self.ranges)
        return replace(self, offset=tuple(dag.substitute(e, changed) for e in self.offset), ranges=ranges)

    @property
    def axes(self) -> tuple[StorageAxis, ...]:
        origin = self.coordinates([0] * len(self.offset))
        extents = [as_expr(r.extent) for r in self.ranges]
        return tuple(StorageAxis(origin[k], self.steps[k][k], extent) for k, extent in enumerate(extents))

    @property
    def is_compact(self) -> bool:
        """Whether the steps differ from those of the bounding box."""
        return any(row[j] != int(j == k) for k, row in enumerate(self.steps) for j in range(len(row)))

    @property
    def is_circular(self) -> bool:
        """Whether elements with disjoint lifetimes share places."""
        return any(fold is not None for fold in self.folds)

    @property
    def is_plain(self) -> bool:
        """Whether places are counted as tensor coordinates are, from the first one."""
        return not (self.is_compact or self.is_circular or self.is_flat)

    @property
    def is_flat(self) -> bool:
        """Whether several tensor axes are one axis of the storage."""
        return self.flat is not None

    @property
    def is_identity(self) -> bool:
        """Whether lattice coordinates equal tensor coordinates."""
        return not self.is_compact and not self.is_flat and all(constant_value(e) == 0 for e in self.offset)

    @property
    def is_separable(self) -> bool:
        """Whether each tensor coordinate depends on at most one storage axis."""
        return not self.is_flat and all(sum(1 for step in row if step) <= 1 for row in self.steps)

    @property
    def allocated(self) -> tuple[Range, ...]:
        """For each axis, the tensor coordinate at place 0 (the flat one for flat axes) and the number of places."""
        if not self.is_compact:
            return self.ranges
        return tuple(Range(axis.base, axis.extent) for axis in self.axes)

    def numbers(self, point: Sequence[IntLike]) -> tuple[Expr, ...]:
        """The lattice coordinates `t` of an element, reduced into the range along circular axes.

        Meaningless for a point outside the region.
        """
        element = given_point(point, len(self.offset))
        if self.flat is not None:
            return self.flat.numbers(element)
        rest = [form_of(x).minus(form_of(e)) for x, e in zip(element, self.offset, strict=True)]
        coordinates = []
        for row in inverse(self.steps):
            divisor = lcm(*(f.denominator for f in row))
            whole = added(ZERO, zip(rest, [int(f * divisor) for f in row], strict=True))
            coordinates.append(form_of(whole.expr() // divisor).expr())
        for k, fold in enumerate(self.folds):
            if fold is not None:
                start = form_of(low(self.ranges[k]))
                coordinates[k] = start.plus(form_of(form_of(coordinates[k]).minus(start).expr() % fold)).expr()
        return tuple(coordinates)

    def index(self, point: Sequence[IntLike]) -> tuple[Expr, ...]:
        """The place of an element: nonnegative coordinates below the extents of the axes."""
        numbers = self.numbers(point)
        return tuple(form_of(t - low(r)).expr() for t, r in zip(numbers, self.ranges, strict=True))

    def coordinates(self, place: Sequence[IntLike]) -> tuple[Expr, ...]:
        """The element at a place: the inverse of `index` on the region, affine unless axes are flat.

        Along a circular axis, the element within the range.
        """
        places = given_point(place, len(self.ranges))
        return self.at_numbers([y + low(r) for y, r in zip(places, self.ranges, strict=True)])

    def at_numbers(self, numbers: Sequence[Expr]) -> tuple[Expr, ...]:
        """The element with the lattice coordinates `numbers`."""
        if self.flat is not None:
            return self.flat.point(numbers)
        forms, rows = [form_of(t) for t in numbers], zip(self.offset, self.steps, strict=True)
        return tuple(added(form_of(start), zip(forms, row, strict=True)).expr() for start, row in rows)

    def __repr__(self) -> str:
        place = [Var(f"y{k}") for k in range(len(self.offset))]
        element = ", ".join(map(str, self.coordinates(place)))
        extents = " x ".join(str(r.extent) for r in self.ranges)
        turns = ", ".join(f"axis {k} modulo {fold}" for k, fold in enumerate(self.folds) if fold is not None)
        around = f", {turns}" if turns else ""
        return f"<Storage {extents}: place [{', '.join(y.name for y in place)}] holds element [{element}]{around}>"


def given_point(point: Sequence[IntLike], dims: int) -> list[Expr]:
    """Validated indices of a user.

    Raises
    ------
    InputError: `point` does not have `dims` integer expressions.
    """
    place = arguments.listed(point, "a point", f"a tuple of {dims} indices")
    if len(place) != dims:
        raise InputError(f"a point has {dims} indices here, not {len(place)}")
    return [as_expr(x, "an index") for x in place]


def plain(ranges: Sequence[Range]) -> Storage:
    """The storage of a box: unit steps."""
    dims = len(ranges)
    return Storage((as_expr(0),) * dims, tuple(unit(dims, k) for k in range(dims)), tuple(ranges))


def places_of(storage: Storage) -> int | None:
    """The number of places, or `None` for symbolic extents."""
    numbers = [simple.number(as_expr(r.extent)) for r in storage.ranges]
    return prod(n for n in numbers if n is not None) if None not in numbers else None


def window(state: InferenceState, bounds: StageBounds) -> Footprint:
    """The elements that a stage computes over all iterations of the loops between storage and stage."""
    env = state.env
    path = bounds.path[len(bounds.slid) :]
    shape = state.sizes.shape(bounds.op.outputs[0])
    footprints = [
        request.footprint for tensor in bounds.op.outputs for request in requests_of(state, bounds, tensor, path)
    ]
    required = gather.within_tensor(env, gather.union_footprints(env, len(shape), footprints), shape)
    is_exact = bounds.region.exact and bounds.stage not in state.boxed
    if is_exact and not any(rounding_split(bounds.relations, iv) for iv in data_axes(bounds.op)):
        return required
    try:  # computed is a proper superset of required
        with env.budget(CIRCULAR):
            run = instances(env, (*bounds.region.variables(), *bounds.fixed))
            computed = project_variables(bounds.region.shape(env).intersect_params(run), bounds.slid)
            both = computed.union(required.shape(env))
            footprint = footprint_of_shape(env, len(shape), both, required.exact, required.notes)
            footprint.outline = Outline(whole_tensor, env, shape)
            return footprint
    except BudgetError as error:
        return Footprint(
            len(shape), whole_tensor(env, shape), None, False, (*required.notes, f"{error}: all of it is stored")
        )


_MAX_LISTED: Final = 2_000  # differences tested one by one


def fold_axes(state: InferenceState, bounds: StageBounds, tensor: Tensor, storage: Storage) -> Storage:
    """The storage with circular axes where that saves places; unchanged beyond the budget."""
    env = state.env
    try:
        with env.budget(CIRCULAR):
            apart = _differences(env, live_elements(state, bounds, tensor), storage)
            folds: dict[int, Expr] = {}
            while True:
                moduli = {k: _fold(env, apart, k, folds) for k in range(apart.dims) if k not in folds}
                gains = {k: f for k, f in moduli.items() if f is not None and _saves(env, f, storage, k)}
                if not gains:
                    break
                best = min(gains, key=lambda k: _share(gains[k], storage, k))
                folds[best] = gains[best]
    except BudgetError:
        return storage
    return with_folds(storage, folds)


def fold_window(
    env: LoopEnvironment, window: SlidingWindow, fixed: Sequence[Var], storage: Storage, shape: Sequence[Expr]
) -> Storage:
    """The circular storage of a monotone window: as many places as its longest filling."""
    lengths = {max_extent(env, Footprint(1, Box((side,))), 0, fixed, shape[window.dim]): None for side in window.filled}
    numbers = [number for e in lengths if (number := simple.number(e)) is not None]
    fold = as_expr(max(numbers)) if len(numbers) == len(lengths) else maximum(*lengths)
    return with_folds(storage, {window.dim: fold} if _saves(env, fold, storage, window.dim) else {})


def with_folds(storage: Storage, folds: Mapping[int, Expr]) -> Storage:
    """The storage with circular axes of these moduli."""
    if not folds:
        return storage
    ranges = tuple(Range(_start(low(r)), folds[k]) if k in folds else r for k, r in enumerate(storage.ranges))
    return replace(storage, ranges=ranges, folds=tuple(folds.get(k) for k in range(len(ranges))))


def _start(low: Expr) -> Expr:
    """The origin of a circular axis: its first element if affine in variables, else 0."""
    return low if is_affine(form_of(low)) else const(0)


def live_elements(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> Shape:
    """The live elements of a tensor in an iteration, and all elements computed in it."""
    env, slid = state.env, bounds.slid
    running = gather.enclosing_guards(state.bounds, bounds)

    def run(footprint: Footprint) -> Shape:
        return gather.reached_footprint(env, bounds, footprint, running)

    new, read = run(bounds.computed_of(tensor)), run(bounds.required[tensor])
    computed = new.union(gather.in_other_iterations(env, new, slid, are_earlier=True))
    return computed.intersect(read.union(gather.in_other_iterations(env, read, slid, are_earlier=False))).union(new)


def _differences(env: LoopEnvironment, kept: Shape, storage: Storage) -> Shape:
    """The differences of simultaneously live elements, along the axes of the storage."""
    dims = kept.dims
    point = [Var(f"x{k}") for k in range(2 * dims)]
    pairs = kept.product_with(kept, 0)
    apart = pairs.image(point, [x - y for x, y in zip(point[:dims], point[dims:], strict=True)])
    apart = apart.without([e for e in apart.atoms() if any(v in env.ranges for v in e.free_vars())])
    if not storage.is_compact:
        return apart
    numbers = [Var(f"t{k}") for k in range(dims)]
    moves = [sum((step * t for step, t in zip(row, numbers, strict=True) if step), const(0)) for row in storage.steps]
    still = [t.eq(0) for k, t in enumerate(numbers) if not any(row[k] for row in storage.steps)]
    return apart.preimage(numbers, moves).filter(numbers, logical_and(*still))


def _fold(env: LoopEnvironment, apart: Shape, k: int, folds: Mapping[int, Expr]) -> Expr | None:
    """The smallest modulus of axis `k` for given moduli of other axes; `None` if unbounded."""
    point = [Var(f"d{j}") for j in range(apart.dims)]
    meeting = [_meets(d, folds.get(j)) for j, d in enumerate(point) if j != k]
    alone = apart.filter(point, logical_and(*meeting)).project([k])
    sizes = alone.atoms()
    numbers = alone.intersect_params(size_bounds(env, sizes)).without(sizes)
    if numbers.is_empty():
        return None
    last = numbers.end(0, 1)
    if isinstance(last, Expr) and last.is_const:
        if last.data > _MAX_LISTED:
            return as_expr(last.data + 1)
        distances = [d for (d,) in numbers.listed() if d > 0]
        return as_expr(next(f for f in range(1, last.data + 2) if not any(d % f == 0 for d in distances)))
    longest = alone.end(0, 1)
    if isinstance(longest, Infinity) or has_select(longest):
        return None
    return env.form(longest + 1).expr()


def _meets(d: Var, fold: Expr | None) -> Cond:
    """The condition that elements at distance `d` share a place along an axis."""
    if fold is None:
        return d.eq(0)
    return (d % fold).eq(0) if fold.is_const else logical_or(d.eq(0), d >= fold, d <= -fold)


def _saves(env: LoopEnvironment, fold: Expr, storage: Storage, k: int) -> bool:
    """Whether a modulus saves places along an axis."""
    extent = as_expr(storage.ranges[k].extent)
    more = env.form(extent - fold)
    if more.is_const:
        return more.const > 0
    if fold.is_const:  # for a size of unknown magnitude
        most = env.bounds(env.form(extent))[1]
        return most is None or most > fold.data
    goal = more.expr() >= 0
    with config.using(tiers=config.tiers_within(config.Effort.DEFAULT)):  # a size of 0 stores nothing
        return bool(env.context.extended(facts=[v >= 1 for v in goal.free_vars()]).prove(goal))


def _share(fold: Expr, storage: Storage, k: int) -> float:
    """The remaining share of places; an estimate for symbolic extents."""
    few, all_of_them = simple.number(fold), simple.number(as_expr(storage.ranges[k].extent))
    if few is None:
        return 0.5
    return 0.0 if all_of_them is None else few / max(all_of_them, 1)


def flat_storage(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    axis: Callable[[int], Range],
    most: Callable[[], Storage],
) -> Storage | None:
    """The storage with the axes of one nest of fused loops as one axis; `None` where that does not pay.

    It pays where the loops compute an interval of required elements, which is indexed by the loops then and which no
    box in coordinates of the tensor is shorter than; else from a quarter of the places saved on.

    Guarantee: injective on the tensor, and every computed element has a place.

    Parameters
    ----------
    axis: the range of an axis of plain storage.
    most: the plain storage.
    """
    if not isinstance(bounds.op, ComputeOp):
        return None
    env, best = state.env, None
    for axes in fused_axes(state, bounds, tensor):
        footprint = flat_image(state, bounds, tensor, axes)
        first = axes.dims[0]
        whole = axes.shape(state.sizes.shape(tensor))[first]
        try:
            start = footprint.hull(env).sides[first].range().min
            run = Range(start, max_extent(env, footprint, first, bounds.fixed, whole))
            ranges = [run if k == first else Range(0, 1) if k in axes.dims else axis(k) for k in range(tensor.ndim)]
        except BudgetError:  # no ends: loops that overrun the tensor leave no other box
            continue
        storage = replace(plain(ranges), flat=axes)
        if bounds.stays_inside and bounds.region.box is None and footprint.box is not None:
            return storage
        if _pays(state, storage, best or most()):
            best = storage
    return best


def _pays(state: InferenceState, storage: Storage, best: Storage) -> bool:
    """Whether a quarter of the places is saved, since a joint coordinate costs index arithmetic."""
    few, many = places_of(storage), places_of(best)
    if few is not None and many is not None:
        return few <= many * 3 // 4
    env = state.env
    a, b = (env.form(reduce(simple.mul, (as_expr(r.extent) for r in one.ranges))) for one in (storage, best))
    if env.bounds(a)[1] is not None and env.bounds(b)[1] is None:
        return True
    return not a.same(b) and env.is_nonneg(b.minus(a))


COMPACT: Final = 1_000_000  # operations of the domain, for one lattice
SHEAR: Final = 100_000  # operations of the domain for one shear
SHEARS: Final = 4  # shears of a storage, one after another

_MAX_NODES: Final = 16  # of the origin of a sheared storage
_UNKNOWN: Final = Var("unknown")  # stands for an unbounded extent


def storage_of(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> Storage:
    """The smallest of plain, compact, flat and circular storage of an output, with extents of at least 0."""
    storage = _smallest_storage(state, bounds, tensor)
    env, ranges = state.env, list(storage.ranges)
    for k, r in enumerate(ranges):
        form = env.form(extent(r))
        if not env.is_nonneg(form):
            ranges[k] = Range(r.min, extremum(env.normalizer, ops.MAX, form, ZERO).expr())
    return storage if tuple(ranges) == storage.ranges else replace(storage, ranges=tuple(ranges))


def _smallest_storage(state: InferenceState, bounds: StageBounds, tensor: Tensor) -> Storage:
    stage, shape = bounds.stage, state.sizes.shape(tensor)
    if stage.is_output or tensor in state.whole or isinstance(stage.op, PlaceholderOp):
        return plain([Range(0, e) for e in shape])
    env = state.env
    footprint, fixed = bounds.computed_of(tensor), bounds.fixed
    if bounds.slid:
        footprint, fixed = window(state, bounds), fixed_in(state, stage, bounds.path[len(bounds.slid) :])

    @cache
    def axis(k: int) -> Range:
        return Range(footprint.hull(env).sides[k].range().min, max_extent(env, footprint, k, fixed, shape[k]))

    def boxed() -> Storage:
        return plain([axis(k) for k in range(len(shape))])

    if not _may_fold(state, stage, tensor):
        return boxed()
    if (stage in state.compacted or bounds.stays_inside) and not bounds.slid:
        flat = flat_storage(state, bounds, tensor, axis, boxed)
        if flat is not None:
            return flat
    box = boxed()
    small = compact(env, footprint, fixed, box) if stage in state.compacted else box
    if not bounds.slid:
        return small
    if bounds.window is not None and bounds.window.new is bounds.computed and small is box:
        return fold_window(env, bounds.window, bounds.fixed, box, shape)
    plain_folded, compact_folded = (fold_axes(state, bounds, tensor, storage) for storage in (box, small))
    few, least = places_of(plain_folded), places_of(compact_folded)
    return compact_folded if least is not None and (few is None or least < few) else plain_folded


def _may_fold(state: InferenceState, stage: Stage, tensor: Tensor) -> bool:
    """Whether only element accesses see the layout of a tensor: no intrinsic, extern, scan or alignment does."""
    around = [stage, *(reader for reader in state.graph.get(tensor, ()))]
    if not all(isinstance(s.op, ComputeOp) for s in around):
        return False
    is_aligned = any(attr.align is not None for attr in stage.iter_var_attrs.values())
    return not is_aligned and not any(s.is_tensorized for s in around)


def compact(env: LoopEnvironment, footprint: Footprint, fixed: Sequence[Var], box: Storage) -> Storage:
    """The compact storage of a footprint, or `box` if too little is saved.

    Parameters
    ----------
    fixed: the loops that distinguish instances.
    box: the plain storage.
    """
    if footprint.box is not None or not box.ranges:
        return box
    try:
        with env.budget(COMPACT):
            lattice = footprint.unguarded.lattice()
        if lattice is None:
            return box
        around, params = lattice
        if not all(_is_visible(env, p, fixed) for p in params):
            return box
        return _smallest(LatticeRegion(env, footprint, tuple(fixed), around, params), box)
    except BudgetError:
        return box


@dataclass(frozen=True)
class LatticeRegion:
    """A footprint in coordinates of a lattice over `(params, coordinates)`.

    Attributes
    ----------
    fixed: the loops that distinguish instances.
    around: the lattice in Hermite normal form.
    params: the leading dimensions of the lattice: loops and sizes.
    columns: the basis vector of each storage axis; by default those of the normal form, at their pivots.
    """

    env: LoopEnvironment
    footprint: Footprint
    fixed: tuple[Var, ...]
    around: Lattice
    params: tuple[Expr, ...]
    columns: Mapping[int, Vector] | None = None

    @property
    def vectors(self) -> dict[int, Vector]:
        if self.columns is not None:
            return dict(self.columns)
        first, pairs = len(self.params), zip(self.around.pivots, self.around.basis, strict=True)
        return {pivot - first: vector for pivot, vector in pairs if pivot >= first}

    @cached_property
    def numbers(self) -> Footprint:
        """The footprint in lattice coordinates."""
        env, footprint = self.env, self.footprint
        with env.budget(COMPACT):
            inside = footprint.unguarded.change_basis(self.around.origin, self.all_vectors)
        counted = footprint_of_shape(env, footprint.dims, inside, footprint.exact)
        if counted.box is not None:
            box = guarded(env, counted.box, footprint.guard)
            return Footprint(footprint.dims, box, inside, footprint.exact)
        return Footprint(footprint.dims, None, counted.unguarded, footprint.exact, (), footprint.guard)

    def storage(self) -> Storage | None:
        """The bounding box of the lattice coordinates as a storage; `None` without visible ends."""
        env, numbers = self.env, self.numbers
        hull = numbers.hull(env)
        if not numbers.has_ends:
            return None
        ranges = []
        for k, side in enumerate(hull.sides):
            low, most = side.range().min, max_extent(env, numbers, k, self.fixed, _UNKNOWN)
            if not isinstance(low, Expr) or _UNKNOWN in most.free_vars():
                return None
            if not all(_is_visible(env, e, self.fixed) for e in (low, most)):
                return None
            ranges.append(Range(low, most))
        return Storage(self.offset(), self.steps(), tuple(ranges))

    def cheap_storage(self) -> Storage | None:
        """`storage` under a small budget, with a short origin; else `None`."""
        try:
            with self.env.budget(SHEAR):
                storage = self.storage()
        except BudgetError:
            return None
        lows = () if storage is None else tuple(low(r) for r in storage.ranges)
        return storage if all(dag.is_small(_MAX_NODES, (low,)) and not has_select(low) for low in lows) else None

    @property
    def all_vectors(self) -> list[tuple[int | None, Vector]]:
        """Basis vectors with a pivot among the parameters (`None`: no storage axis), then all others."""
        first, pairs = len(self.params), zip(self.around.pivots, self.around.basis, strict=True)
        return [*((None, vector) for pivot, vector in pairs if pivot < first), *self.vectors.items()]

    def steps(self) -> tuple[Vector, ...]:
        """The step of each tensor coordinate along each storage axis."""
        first, dims, columns = len(self.params), self.footprint.dims, self.vectors
        nothing = (0,) * (first + dims)
        return tuple(zip(*(columns.get(k, nothing)[first:] for k in range(dims)), strict=True))

    def offset(self) -> tuple[Expr, ...]:
        """The lattice origin, a function of the parameters."""
        first = len(self.params)
        offset = [constant(x) for x in self.around.origin]
        for pivot, vector in zip(self.around.pivots, self.around.basis, strict=True):
            if pivot < first:
                rest = form_of(self.params[pivot]).minus(offset[pivot])
                times = form_of(rest.expr() // vector[pivot])
                offset = [added(form, [(times, step)]) for form, step in zip(offset, vector, strict=True)]
        return tuple(form.expr() for form in offset[first:])

    def denser(self, axes: Iterable[int]) -> LatticeRegion:
        """The same footprint on the lattice with these coordinates free."""
        first, dims = len(self.params), len(self.around.origin)
        return replace(self, around=self.around.extended([unit(dims, first + k) for k in axes]), columns=None)

    def sheared(self) -> Iterator[LatticeRegion]:
        """All single shears of the basis: `t_j + t_k` or `t_j - t_k` replaces `t_j`.

        A pair of counts that covers the product of their values is dropped: its sum takes more values than either.
        """
        columns = self.vectors
        tied = {pair for pair in combinations(columns, 2) if self._are_tied(*pair)}
        for j, k in permutations(columns, 2):
            if (j, k) not in tied and (k, j) not in tied:
                continue
            for sign in (1, -1):
                moved = tuple(x - sign * y for x, y in zip(columns[k], columns[j], strict=True))
                yield replace(self, columns={**columns, k: moved})

    def _are_tied(self, j: int, k: int) -> bool:
        """Whether two counts may not take all pairs of their values, in each instance."""
        try:
            with self.env.budget(SHEAR):
                return self.numbers.unguarded.project([j, k]).product() is None
        except BudgetError:
            return True

    @property
    def is_sparse(self) -> bool:
        """Whether the lattice is a proper sublattice."""
        columns, first = self.vectors, len(self.params)
        return len(columns) < self.footprint.dims or any(v[first + k] > 1 for k, v in columns.items())


def _smallest(region: LatticeRegion, box: Storage) -> Storage:
    """The smallest storage on the lattice or denser ones; `box` if none is better."""
    whole = places_of(box)
    best, least = box, whole
    while True:
        storage = region.storage() if region.is_sparse else box
        if storage is None:
            return best
        worse = [k for k in range(region.footprint.dims) if not _is_at_most(region.env, storage, box, k)]
        if whole is None or least is None:
            if not worse and region.is_sparse:
                return storage
        elif places_of(storage) is not None:  # else its size is symbolic, unlike the box's
            storage, _, places = improved(region, storage)
            if places < min(least, _limit(region, storage, whole)):
                best, least = storage, places
        if not worse or not region.is_sparse:
            return best
        region = region.denser(worse)


def _limit(region: LatticeRegion, storage: Storage, whole: int) -> int:
    """The number of places below which a storage pays for its index arithmetic.

    Separable storage pays always; joint coordinates pay from a quarter saved on, on a full lattice from half.
    """
    if storage.is_separable:
        return whole
    return whole * 3 // 4 + 1 if region.is_sparse else whole // 2 + 1


def improved(region: LatticeRegion, storage: Storage) -> tuple[Storage, LatticeRegion, int]:
    """Greedy shears while one shrinks the storage.

    Returns the storage, its lattice region and its number of places.
    """
    places = places_of(storage)
    assert places is not None
    for _ in range(0 if region.numbers.box is not None else SHEARS):
        sheared = [(other, option) for option in region.sheared() if (other := option.cheap_storage()) is not None]
        numbers = [n for other, _ in sheared if (n := places_of(other)) is not None]
        if not numbers or min(numbers) >= places:
            break
        places = min(numbers)
        storage, region = next(pair for pair in sheared if places_of(pair[0]) == places)
    return storage, region, places


def _is_visible(env: LoopEnvironment, e: Expr, fixed: Sequence[Var]) -> bool:
    """Whether an expression mentions no loops inside the allocation."""
    return all(v not in env.ranges or v in fixed for v in e.free_vars())


def _is_at_most(env: LoopEnvironment, storage: Storage, box: Storage, k: int) -> bool:
    """Whether axis `k` provably has at most as many places as in plain storage.

    Sizes are at least 1 here: a size of 0 stores nothing.
    """
    mine, other = (as_expr(s.ranges[k].extent) for s in (storage, box))
    a, b = simple.number(mine), simple.number(other)
    if a is not None and b is not None:
        return a <= b
    row = storage.steps[k]
    if not row[k] or not any(row[j] for j in range(len(row)) if j != k):
        return True
    difference = env.form(other - mine)
    sizes = [env.form(v).shift(-1) for v in difference.terms if isinstance(v, Var) and v not in env.ranges]
    return env.is_nonneg(difference, sizes)
