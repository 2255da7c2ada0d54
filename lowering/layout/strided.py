"""`Layout`: shape and stride trees, as CuTe has them, and their algebra with proved conditions.

    (4,8):(8,1)      extents 4 and 8 with strides 8 and 1: a flat index k is the coordinate (k % 4, k // 4)

The first mode runs fastest. Sizes may be symbolic; the context proves each condition of an operation, or `LayoutError`
names it. The conditions are those under which the result equals the definition at every point:

============  =========================================================  ==========================================
operation     definition                                                 conditions
============  =========================================================  ==========================================
`a.then(b)`   `b(a(k))` for all k                                        the image of a lies within b's size; each
                                                                         extent and stride of a divides, or is
                                                                         divided by, the extents of b; digits of b
                                                                         do not carry
`complement`  disjoint from the layout, ascending, fills up to `size`    the layout's modes do not overlap; each
                                                                         stride is a multiple of the modes below it
inverses      `right(a)`: a(right(k)) = k;   `left(a)`: left(a(k)) = k   left: no mode overlaps, and each stride
                                                                         divides the next
============  =========================================================  ==========================================

Source: A Note on the Algebra of CuTe Layouts, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.expr import Expr, IntLike, arguments, as_expr, constant_value, shown
from intset.expr.build import ceildiv
from intset.itermap.itermap import Verdict
from lowering.errors import LayoutError

if TYPE_CHECKING:
    from lowering.layout.index_map import IndexMap

Extent: TypeAlias = "int | Expr"
Tree: TypeAlias = "int | Expr | tuple[Tree, ...]"
Coordinate: TypeAlias = "IntLike | Sequence[Coordinate]"  # an index, or one for each mode
Tiler: TypeAlias = "Layout | IntLike | tuple[Tiler, ...]"
Mode: TypeAlias = tuple[Extent, Extent]  # extent and stride


class MapMaker:
    """A hook: `index_map.py`, which stands above this module, sets `make` to `IndexMap`."""

    __slots__ = ("make",)
    make: Callable[[Callable[..., list[Expr]], tuple[Extent, ...], Context], IndexMap]


MAPS = MapMaker()


NESTING: Final = 200  # levels of a tree of sizes


@all_as_configured
class Layout(Configured):
    """A map from coordinates to offsets: the sum of each coordinate times its stride.

    Guarantee: a result equals its definition at all sizes that the context allows and at which all extents are
    positive.

    Parameters
    ----------
    shape: extents, a positive size or a nested tuple of them.
    stride: of the same structure; by default the compact one, the first mode fastest.
    ctx: ranges and facts of the sizes.

    Attributes
    ----------
    shape, stride, ctx: as given.
    modes: the pairs of extent and stride, without nesting.
    size: the number of coordinates.
    cosize: the largest offset plus 1.
    injective, surjective, bijective: a `Verdict` each, surjective onto the offsets below `cosize`.

    Raises
    ------
    LayoutError: trees of different structure or of more than `NESTING` levels, or an extent or stride that may be
        negative, or an extent 0.

    >>> a = Layout((4, 8), (8, 1))
    >>> str(a), a(5), a.size, a.then(Layout((2, 16), (16, 1))).modes
    ('(4,8):(8,1)', 9, 32, ((4, 4), (2, 16), (4, 1)))
    """

    def __init__(self, shape: Tree, stride: Tree | None = None, ctx: Context | None = None) -> None:
        self.ctx = Context() if ctx is None else arguments.of_kind(Context, ctx, "ctx", "a Context")
        self.shape: Tree = _tree(shape, "an extent")
        self.stride: Tree = _compact(self.shape, 1)[0] if stride is None else _tree(stride, "a stride")
        self.modes: tuple[Mode, ...] = tuple(_zipped(self.shape, self.stride))
        inside = self.ctx.extended()
        for extent, d in self.modes:
            if extent < 1 if isinstance(extent, int) else inside.prove(extent <= 0):
                raise LayoutError(f"an extent must be at least 1, not {shown(extent)}")
            if isinstance(d, int) and d < 0:
                raise LayoutError(f"a stride must not be negative: {d}")
        positive = [extent >= 1 for extent, _ in self.modes if isinstance(extent, Expr)]
        self._known = inside.extended(facts=positive) if positive else inside
        for _, d in self.modes:
            if isinstance(d, Expr) and not self._known.prove(d >= 0):
                raise LayoutError(f"a stride that may be negative: {shown(d)}")

    def __reduce__(self) -> tuple[object, ...]:
        return Layout, (self.shape, self.stride, self.ctx)

    def _like(self, modes: Sequence[Mode]) -> Layout:
        """The layout of modes without nesting; `1:0` for none."""
        if len(modes) == 1:
            return Layout(*modes[0], self.ctx)
        extents, strides = tuple(extent for extent, _ in modes), tuple(d for _, d in modes)
        return Layout(extents, strides, self.ctx) if modes else Layout(1, 0, self.ctx)

    # -- the map ------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> Extent:
        return _short(self._known, reduce(mul, (extent for extent, _ in self.modes), 1))

    @property
    def cosize(self) -> Extent:
        return _short(self._known, sum(((extent - 1) * d for extent, d in self.modes), 1))

    @property
    def rank(self) -> int:
        """The number of modes at the top."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    def __getitem__(self, mode: int) -> Layout:
        """One mode of the top as a layout."""
        k = arguments.as_int(mode, "a mode")
        if not -self.rank <= k < self.rank:
            raise LayoutError(f"a layout of {self.rank} modes has no mode {k}")
        if not isinstance(self.shape, tuple) or not isinstance(self.stride, tuple):
            return self
        return Layout(self.shape[k], self.stride[k], self.ctx)

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[Layout]:
        return (self[k] for k in range(self.rank))

    def __call__(self, *index: Coordinate) -> Extent:
        """The offset of a flat index `layout(k)`, or of a coordinate `layout(i, j)` with an index for each mode.

        Raises
        ------
        LayoutError: another number of indices than modes.
        """
        coordinate: Coordinate = index[0] if len(index) == 1 else index
        return _offset(coordinate, self.shape, self.stride)

    def index_map(self) -> IndexMap:
        """The map from one index a mode, without nesting, to the offset."""
        strides = [d for _, d in self.modes]

        def offset(*index: Expr) -> list[Expr]:
            terms = [i * d for i, d in zip(index, strides, strict=True)]
            return [as_expr(reduce(lambda a, b: a + b, terms))]

        return MAPS.make(offset, tuple(extent for extent, _ in self.modes), self._known)

    @property
    def injective(self) -> Verdict:
        return self.index_map().injective

    @property
    def surjective(self) -> Verdict:
        return self.index_map().surjective

    @property
    def bijective(self) -> Verdict:
        return self.index_map().bijective

    # -- the algebra --------------------------------------------------------------------------------------------------

    def coalesce(self) -> Layout:
        """The layout with the same offsets of flat indices and the fewest modes found."""
        found: list[Mode] = []
        for extent, d in self.modes:
            if self._equal(extent, 1):
                continue
            if found and self._equal(found[-1][0] * found[-1][1], d):
                found[-1] = (_short(self._known, found[-1][0] * extent), found[-1][1])
            else:
                found.append((extent, d))
        return self._like(found)

    def then(self, other: Layout) -> Layout:
        """The layout `other(self(k))` with this layout's structure.

        Raises
        ------
        LayoutError: a condition that is not proved.
        """
        after = _both(self, arguments.of_kind(Layout, other, "the next layout", "a Layout"))
        if not after._at_most(self.cosize, after.size):
            raise LayoutError(f"{self} reaches the offset {self.cosize} - 1, beyond the size {after.size} of {other}")
        digits = after.coalesce().modes
        carried: list[Extent] = [0] * len(digits)
        tree = after._composed(self.shape, self.stride, digits, carried)
        for (extent, _), most in zip(digits[:-1], carried, strict=False):
            if not after._at_most(most, extent - 1):
                raise LayoutError(f"digits of the extent {extent} of {other} may carry: their sum reaches {most}")
        return Layout(*tree, after.ctx)

    def _composed(self, shape: Tree, stride: Tree, digits: Sequence[Mode], carried: list[Extent]) -> tuple[Tree, Tree]:
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            pairs = [self._composed(s, d, digits, carried) for s, d in zip(shape, stride, strict=True)]
            return tuple(s for s, _ in pairs), tuple(d for _, d in pairs)
        assert not isinstance(shape, tuple) and not isinstance(stride, tuple)
        pieces = list(self._digits_of(shape, stride, digits, carried))
        if len(pieces) == 1:
            return pieces[0]
        return tuple(s for s, _ in pieces), tuple(d for _, d in pieces)

    def _digits_of(self, extent: Extent, step: Extent, digits: Sequence[Mode], carried: list[Extent]) -> Iterator[Mode]:
        """The modes of one mode `extent:step` after digits; adds to `carried` what each digit reaches."""
        if self._equal(step, 0) or self._equal(extent, 1):
            yield extent, 0
            return
        for k, (radix, d) in enumerate(digits):
            is_last = k == len(digits) - 1
            if not is_last and self._at_most(radix, step):
                quotient = self._quotient(step, radix)
                if quotient is None:
                    raise LayoutError(f"the extent {radix} is not proved to divide the stride {step}")
                step = quotient
                continue
            if is_last or self._at_most((extent - 1) * step, radix - 1):
                carried[k] = _short(self._known, carried[k] + (extent - 1) * step)
                yield extent, _short(self._known, step * d)
                return
            within = self._quotient(radix, step)
            rest = None if within is None else self._quotient(extent, within)
            if within is None or rest is None:
                raise LayoutError(f"a mode {extent}:{step} straddles the extent {radix}")
            carried[k] = _short(self._known, carried[k] + (within - 1) * step)
            yield within, _short(self._known, step * d)
            extent, step = rest, 1
            if self._equal(extent, 1):
                return

    def complement(self, size: IntLike = 1) -> Layout:
        """The layout whose offsets, added to those of this one, are ascending and disjoint, and fill `size`.

        Below a stride that is no multiple of the modes under it, `(4,6):(1,6)`, the last offsets stay unfilled.

        Raises
        ------
        LayoutError: modes overlap, or strides are not proved to be ordered.
        """
        return self._complement(size, is_whole=False)

    def _complement(self, size: IntLike, is_whole: bool) -> Layout:
        found: list[Mode] = []
        filled: Extent = 1
        for extent, d in self._ascending():
            if not self._at_most(filled, d):
                raise LayoutError(f"{self} overlaps itself, or is not proved not to: {filled} is above the stride {d}")
            gap = self._quotient(d, filled)
            if gap is None and not is_whole and isinstance(d, int) and isinstance(filled, int):
                gap = d // filled
            if gap is None:
                raise LayoutError(f"{filled} is not proved to divide the stride {d}")
            found.append((gap, filled))
            filled = _short(self._known, extent * d)
        whole = _size(size, "the size")
        if self._at_most(whole, filled):
            rest: Extent = 1
        elif isinstance(whole, int) and isinstance(filled, int):
            rest = -(-whole // filled)
        elif (quotient := self._quotient(whole, filled)) is not None:
            rest = quotient
        else:
            rest = _short(self._known, ceildiv(as_expr(whole), as_expr(filled)))
        return self._like([*found, (rest, filled)]).coalesce()

    def divide(self, tiler: Tiler) -> Layout:
        """The layout by tiles: first the coordinate in a tile, then the number of the tile.

        `tiler` is a layout of a tile within this layout's size, a size, or a tuple of them, one for each mode.
        """
        if isinstance(tiler, tuple):
            if len(tiler) > self.rank:
                raise LayoutError(f"a layout of {self.rank} modes has no {len(tiler)} tilers")
            tiles = [mode.divide(one) for mode, one in zip(self, tiler, strict=False)]
            return _joined([*tiles, *list(self)[len(tiler) :]])
        tile = tiler if isinstance(tiler, Layout) else Layout(_size(tiler, "a tile"), 1, self.ctx)
        return _joined([tile, tile._complement(self.size, is_whole=True)]).then(self)

    def product(self, tiler: Layout | IntLike) -> Layout:
        """Copies of this layout, placed by `tiler`: first the coordinate in a copy, then its number."""
        tile = tiler if isinstance(tiler, Layout) else Layout(_size(tiler, "a number of copies"), 1, self.ctx)
        rest = self._complement(_short(self._known, self.size * tile.cosize), is_whole=True)
        return _joined([self, tile.then(rest)])

    def right_inverse(self) -> Layout:
        """The largest layout found with `self(inverse(k)) == k`."""
        found: list[Mode] = []
        left = [(extent, d, step) for (extent, d), step in zip(self.modes, self._steps(), strict=True)]
        now: Extent = 1
        while hit := next((m for m in left if not self._equal(m[0], 1) and self._equal(m[1], now)), None):
            left.remove(hit)
            found.append((hit[0], hit[2]))
            now = _short(self._known, hit[0] * hit[1])
        return self._like(found).coalesce()

    def left_inverse(self) -> Layout:
        """The layout with `inverse(self(k)) == k`.

        Raises
        ------
        LayoutError: a stride is 0, modes overlap, or the next stride is not a multiple of this mode's span.
        """
        if any(self._equal(d, 0) and not self._equal(extent, 1) for extent, d in self.modes):
            raise LayoutError(f"{self} repeats an offset: a stride is 0")
        steps = dict(zip(self.modes, self._steps(), strict=True))
        found: list[Mode] = []  # the digits of an offset, the lowest first: a mode ends where the next stride begins
        ascending = self._ascending()
        for k, (extent, d) in enumerate(ascending):
            if k == 0 and not self._equal(d, 1):
                found.append((d, 0))
            if k + 1 < len(ascending):
                after = ascending[k + 1][1]
                if not self._at_most(extent * d, after):
                    raise LayoutError(f"{self} overlaps itself, or is not proved not to: {extent * d} is above {after}")
                radix = self._quotient(after, d)
                if radix is None:
                    raise LayoutError(f"{d} is not proved to divide the stride {after}")
                found.append((radix, steps[extent, d]))
            else:
                found.append((extent, steps[extent, d]))
        return self._like(found).coalesce()

    def _steps(self) -> list[Extent]:
        """By mode, the steps of the flat index: the products of the extents before."""
        first: Extent = 1
        before = (extent for extent, _ in self.modes[:-1])
        return list(accumulate(before, lambda step, extent: _short(self._known, step * extent), initial=first))

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _equal(self, a: Extent, b: Extent) -> bool:
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return bool(self._known.prove(as_expr(a).eq(b)))

    def _at_most(self, a: Extent, b: Extent) -> bool:
        return a <= b if isinstance(a, int) and isinstance(b, int) else bool(self._known.prove(as_expr(a) <= b))

    def _quotient(self, a: Extent, b: Extent) -> Extent | None:
        """`a / b` if it is proved to be whole; `None` otherwise."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b if b and a % b == 0 else None
        if self._equal(b, 1):
            return a
        if not self._known.prove(as_expr(b) >= 1) or not self._known.prove((as_expr(a) % b).eq(0)):
            return None
        return _short(self._known, as_expr(a) // b)

    def _ascending(self) -> list[Mode]:
        """The modes without extents 1 and strides 0, by proved order of strides."""
        left = [(extent, d) for extent, d in self.modes if not self._equal(extent, 1) and not self._equal(d, 0)]
        if all(isinstance(d, int) for _, d in left):
            return sorted(left, key=lambda mode: (int(mode[1]), isinstance(mode[0], int) and mode[0]))
        found = []
        while left:
            k = next((k for k, (_, d) in enumerate(left) if all(self._at_most(d, e) for _, e in left)), None)
            if k is None:
                raise LayoutError(f"the strides of {self} are not ordered: {', '.join(str(d) for _, d in left)}")
            found.append(left.pop(k))
        return found

    # -- text and structure -------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (_key(self.shape), _key(self.stride)) == (
            _key(other.shape),
            _key(other.stride),
        )

    def __hash__(self) -> int:
        return hash((_key(self.shape), _key(self.stride)))

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"

    def __repr__(self) -> str:
        return f"<Layout {self}>"


# -- trees -------------------------------------------------------------------------------------------------------------


def _size(x: object, what: str) -> Extent:
    e = as_expr(x, what)
    value = constant_value(e)
    return e if value is None else value


def _short(ctx: Context, x: Extent) -> Extent:
    return x if isinstance(x, int) else _size(ctx.simplify(x), "a size")


def _tree(tree: object, what: str, depth: int = 0) -> Tree:
    if not isinstance(tree, (tuple, list)):
        return _size(tree, what)
    if not tree:
        raise LayoutError("a layout has at least one mode")
    check_nesting(depth + 1)
    return tuple(_tree(part, what, depth + 1) for part in tree)


def check_nesting(depth: int) -> None:
    """Refuse a tree of sizes, `depth` levels of which are open, with `LayoutError`."""
    if depth > NESTING:
        raise LayoutError(f"the modes of a layout nest at most {NESTING} deep")


def _compact(shape: Tree, step: Extent) -> tuple[Tree, Extent]:
    """The strides of a dense layout from `step` on, the first mode fastest, and the step after it."""
    if not isinstance(shape, tuple):
        return step, shape if isinstance(step, int) and step == 1 else _size(step * shape, "a stride")
    strides = []
    for part in shape:
        stride, step = _compact(part, step)
        strides.append(stride)
    return tuple(strides), step


def _zipped(shape: Tree, stride: Tree) -> Iterator[Mode]:
    if isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) == len(stride):
        for s, d in zip(shape, stride, strict=True):
            yield from _zipped(s, d)
    elif isinstance(shape, tuple) or isinstance(stride, tuple):
        raise LayoutError(f"shape and stride have different structures: {_text(shape)} and {_text(stride)}")
    else:
        yield shape, stride


def _offset(coordinate: Any, shape: Tree, stride: Tree) -> Extent:
    if isinstance(coordinate, (tuple, list)):
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(coordinate) != len(shape):
            modes = len(shape) if isinstance(shape, tuple) else 1
            raise LayoutError(f"{len(coordinate)} indices for {modes} modes: {shown(coordinate)}")
        offset: Extent = 0
        for c, s, d in zip(coordinate, shape, stride, strict=True):
            offset = _plus(offset, _offset(c, s, d), 1)
        return offset
    left: Extent = _size(coordinate, "an index")
    total: Extent = 0
    leaves = list(_zipped(shape, stride))
    for k, (extent, d) in enumerate(leaves):
        is_last = k == len(leaves) - 1
        total = _plus(total, left if is_last else left % extent, d)
        left = left if is_last else left // extent
    return _size(total, "an offset")


def _plus(total: Extent, index: Extent, d: Extent) -> Extent:
    """`total + index * d`, without terms 0 and factors 1."""
    if isinstance(d, int) and d < 2:
        more = index if d else 0
    elif isinstance(index, int) and index < 2:
        more = d if index == 1 else index * d
    else:
        more = index * d
    if isinstance(total, int) and not total:
        return more
    return total if isinstance(more, int) and not more else total + more


def _joined(layouts: Sequence[Layout]) -> Layout:
    """The layout of these modes, with their ranges and facts."""
    contexts = {id(one.ctx): one.ctx for one in layouts}.values()
    ctx = layouts[0].ctx if len(contexts) == 1 else _merged(*contexts)
    return Layout(tuple(one.shape for one in layouts), tuple(one.stride for one in layouts), ctx)


def _both(first: Layout, other: Layout) -> Layout:
    """`other` in a context with the facts of both layouts and positive extents."""
    if first.ctx is other.ctx and not any(isinstance(e, Expr) for mode in first.modes for e in mode):
        return other
    return Layout(other.shape, other.stride, _merged(other._known, first._known))


def _merged(*contexts: Context) -> Context:
    """A context with the ranges and facts of all `contexts`."""
    ranges = {v: limits for ctx in contexts for v, limits in ctx.ranges.items()}
    return Context(ranges, list(dict.fromkeys(fact for ctx in contexts for fact in ctx.facts)))


def _key(tree: Tree) -> object:
    """A hashable key of structure and sizes; expressions are equal if they are the same."""
    return tuple(map(_key, tree)) if isinstance(tree, tuple) else tree if isinstance(tree, int) else (id(tree), "expr")


def _text(tree: Tree) -> str:
    if isinstance(tree, tuple):
        return f"({','.join(map(_text, tree))})"
    text = str(tree)
    return text.replace(" ", "") if isinstance(tree, int) or text.isidentifier() else f"{{{text}}}"
