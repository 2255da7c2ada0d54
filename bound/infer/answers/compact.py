"""Compact storage: the bounding box of lattice coordinates instead of tensor coordinates.

The elements of all instances lie on a lattice (`intset.linear.lattice`). In Hermite normal form, given instance and
preceding coordinates, each coordinate lies in one residue class modulo a stride, or is determined. The lattice
coordinates `t` identify the elements, and their bounding box is allocated: `T[2*i]` is kept at `i`, `T[i, i]` at
`[i, 0]`.

- A lattice basis may be sheared: `T[i + j, i - j]` is kept at `[i, j]` up to constants, a diagonal band at its width.
  Shears are tried one at a time as long as one shrinks the box, for constant extents only.
- Joint coordinates cost index arithmetic. For constant extents they must save a quarter of all places, or half if the
  lattice is full. For symbolic extents no axis may be provably longer than in plain storage; else the lattice is made
  denser in that direction, down to plain storage.

Flat storage: axes over which fused loops run as one are one axis of the storage.

The bounding box of a run of the flattened tensor is almost the tensor. In flat coordinates (`fused_axes.py`) it is an
interval, and its places are the loop variables below the outer loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import combinations, permutations
from typing import Final

from bound.infer.answers.storage import FORMS, Storage, fold_axes, fold_window, places_of, plain, window
from bound.infer.footprints.box import guarded
from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.extents import max_extent
from bound.infer.footprints.footprint import Footprint, footprint_of_shape
from bound.infer.phases.fused_axes import FlatAxes, flat_image, fused_axes
from bound.infer.phases.infer_root_bound import InferenceState, storage_loops
from bound.infer.phases.stage_bounds import StageBounds
from bound.operation import ComputeOp, PlaceholderOp
from bound.schedule import Stage, simple
from bound.schedule.simple import low
from bound.tensor import Tensor
from intset.errors import BudgetError
from intset.expr.dag import is_small
from intset.expr.node import Expr, Var, as_expr
from intset.expr.range import Range
from intset.linear.form import constant
from intset.linear.lattice import Lattice, Vector, unit
from intset.regions.shape import has_select


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
    best = None
    for axes in fused_axes(state, bounds, tensor):
        footprint = flat_image(state, bounds, tensor, axes)
        try:
            storage = _flattened(state, bounds, tensor, axes, footprint, axis)
        except BudgetError:  # no ends: loops that overrun the tensor leave no other box
            continue
        if bounds.stays_inside and bounds.region.box is None and footprint.box is not None:
            return storage
        if _pays(state, storage, best or most()):
            best = storage
    return best


def _flattened(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    axes: FlatAxes,
    footprint: Footprint,
    axis: Callable[[int], Range],
) -> Storage:
    env, first, shape = state.env, axes.dims[0], axes.shape(state.sizes.shape(tensor))
    start = footprint.hull(env).sides[first].range().min
    run = Range(start, max_extent(env, footprint, first, bounds.fixed, shape[first]))
    ranges = [run if k == first else Range(0, 1) if k in axes.dims else axis(k) for k in range(tensor.ndim)]
    return replace(plain(ranges), flat=axes)


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
    """The storage of an output: the smallest of plain, compact, flat and circular storage."""
    stage, shape = bounds.stage, state.sizes.shape(tensor)
    if stage.is_output or tensor in state.whole or isinstance(stage.op, PlaceholderOp):
        return plain([Range(0, e) for e in shape])
    env = state.env
    footprint, fixed = (
        (window(state, bounds), storage_loops(state, bounds))
        if bounds.slid
        else (bounds.computed_of(tensor), bounds.fixed)
    )

    @cache
    def axis(k: int) -> Range:
        return Range(footprint.hull(env).sides[k].range().min, max_extent(env, footprint, k, fixed, shape[k]))

    @cache
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
        return storage if all(is_small(_MAX_NODES, (low,)) and not has_select(low) for low in lows) else None

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
                rest = FORMS.form(self.params[pivot]).minus(offset[pivot])
                times = FORMS.form(rest.expr() // vector[pivot])
                offset = [form.plus(times, step) if step else form for form, step in zip(offset, vector, strict=True)]
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
