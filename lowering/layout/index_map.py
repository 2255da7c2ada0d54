"""`IndexMap`: where the elements of a tensor lie in another layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.domains.sets.region import Region
from intset.errors import BudgetError, UndecidedError
from intset.expr import ops
from intset.expr.arguments import listed, mapped, of_kind
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, IntLike, Var, as_int, constant_value, truth
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import free_vars, opaque_terms, substitute
from intset.itermap.itermap import IterMap, iter_map
from intset.itermap.listed import YES, Verdict
from lowering.errors import LayoutError
from lowering.layout.given import checked_fn, checked_place, checked_shape
from lowering.layout.vectors import on_grid

if TYPE_CHECKING:
    import numpy as np

Extent = int | Expr


@all_as_configured
class IndexMap(Configured):
    """A map from old indices, within a shape, to new ones.

    Parameters
    ----------
    fn: a function of the old indices that gives a list of new ones.
    shape: the extents of the old indices: integers, or expressions of sizes.
    ctx: what is known of the sizes.

    Attributes
    ----------
    shape: the old extents.
    ranges: of each new index, from the smallest, or 0 where that is below it, to the largest; an index written `e % c`
        has the range `[0, c)`.
    new_shape: the extents of `ranges`.
    injective, surjective, bijective: a `Verdict` each: `.status` as that of a proof, `.points`, `.sizes`, and `bool()`
        is true when proved. `surjective` is onto `ranges`.

    Sizes stay symbolic in all answers. Of constant shapes of at most 4,096 points everything is known.

    Raises
    ------
    LayoutError: the function takes another number of indices, gives none, or one that is no integer; the shape is no
        tuple, has no extents or a negative one.

    Example
    -------
    >>> m = IndexMap(lambda i: [(i + 2) // 8, (i + 2) % 8], (16,))
    >>> m(5), m.new_shape, m.surjective.points
    ((0, 7), (3, 8), ((0, 0),))
    >>> m.inverse()(2, 1)
    (15,)
    """

    def __init__(self, fn: Callable[..., object], shape: tuple[IntLike, ...], ctx: Context | None = None) -> None:
        about = Context() if ctx is None else ctx
        if not isinstance(about, Context):
            raise LayoutError(f"ctx must be a Context, not {shown(about)}")
        extents = checked_shape(shape, about)
        variables, exprs = checked_fn(fn, len(extents))
        self._set(variables, [Range(0, e) for e in extents], exprs, about)

    def _set(
        self,
        variables: Sequence[Var],
        box: Sequence[Range],
        exprs: Sequence[Expr],
        ctx: Context,
        where: Sequence[Cond] = (),
        origin: IndexMap | None = None,
        within: Sequence[Range] | None = None,
    ) -> IndexMap:
        self._ctx = ctx = ctx.extended()  # of its own: no block that is entered later bears on it
        self.variables, self.exprs, self._old = tuple(variables), tuple(exprs), tuple(box)
        self._where, self._origin = tuple(where), origin
        self._within = None if within is None else tuple(within)
        inside = ctx.extended(ranges=dict(zip(variables, box, strict=True)), facts=where)
        self._map: IterMap = iter_map(inside, self.variables, self.exprs, self._within)
        return self

    @property
    def ctx(self) -> Context:
        """A new context with the ranges and facts of the map; blocks entered on it do not reach the map."""
        return self._ctx.extended()

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Extent, ...]:
        return _extents(self._old)

    @property
    def ranges(self) -> tuple[Range, ...]:
        found = self._map.ranges if self._origin is None else self._origin._old
        for k, limits in enumerate(found):
            if not isinstance(limits.min, Expr) or not isinstance(limits.extent, Expr):
                raise LayoutError(f"new index {k}, {self.exprs[k]}, has no end that is known")
        return found

    @property
    def new_shape(self) -> tuple[Extent, ...]:
        return _extents(self.ranges)

    def __call__(self, *old: IntLike) -> tuple[IntLike, ...]:
        """The new indices of old ones: integers of integers, expressions of expressions."""
        values = dict(zip(self.variables, checked_place(old, len(self.variables), "old"), strict=True))
        return tuple(_plain(substitute(e, values)) for e in self.exprs)

    def padding(self, *new: IntLike) -> Cond:
        """The condition that no old index arrives at new ones, which lie within `ranges`; of numbers, in any place.

        Raises
        ------
        LayoutError: no such condition is known.
        """
        place = checked_place(new, len(self.exprs), "new")
        try:
            found = _origin_padding(self._origin, place) if self._origin is not None else self._map.padding_at(place)
        except (UndecidedError, BudgetError) as error:
            raise LayoutError(f"the padding of the map is not known as a condition: {error}") from error
        if free_vars(*place):
            return found
        outside = logical_or(*(logical_not(_inside(y, limits)) for y, limits in zip(place, self.ranges, strict=True)))
        if free_vars(outside):
            return outside | found
        if evaluate(outside, {}):
            return truth(True)
        return found if free_vars(found) else truth(bool(evaluate(found, {})))

    @property
    def is_whole(self) -> bool:
        """Whether the map is defined everywhere in its shape, as an inverse mostly is not."""
        return self._origin is None and not self._where

    @property
    def sizes(self) -> tuple[Var, ...]:
        """The variables in the map that are no indices."""
        ends = [e for r in (*self._old, *(self._within or ())) for e in (r.min, r.extent) if isinstance(e, Expr)]
        return tuple(v for v in free_vars(*ends, *self.exprs, *self._where) if v not in self.variables)

    def image(self) -> Region:
        """The new indices that old ones arrive at."""
        return self._map.image()

    @property
    def injective(self) -> Verdict:
        return self._map.injective if self._origin is None else YES

    @property
    def surjective(self) -> Verdict:
        self.ranges  # noqa: B018  # refused where there are none
        return self._map.surjective if self._origin is None else YES

    @property
    def bijective(self) -> Verdict:
        self.ranges  # noqa: B018  # refused where there are none
        return self._map.bijective if self._origin is None else YES

    # -- other maps ---------------------------------------------------------------------------------------------

    def inverse(self) -> IndexMap:
        """The map from the new indices back to the old ones, right on the image; elsewhere it may give anything.

        Raises
        ------
        LayoutError: the map is not proved injective; the message has two old points that collide, or the reason.
        """
        if self._origin is not None:
            return self._origin
        self.check_injective()
        places = self._map.places
        try:
            values = self._map.inverse(places)
            padding = self._map.padding
        except (UndecidedError, BudgetError) as error:
            raise LayoutError(f"the inverse of the map is not known as expressions: {error}") from error
        where = [] if padding.op is ops.BOOL and not padding.data else [logical_not(padding)]
        exprs = [values[v] for v in self.variables]
        return IndexMap.__new__(IndexMap)._set(places, self.ranges, exprs, self._ctx, where, self)

    def check_injective(self) -> None:
        """Refuse a map that is not proved injective, with two old points that collide, or with the reason."""
        if not self.injective:
            raise LayoutError(self._map.why_no_inverse(), self.injective.points)

    def then(self, other: IndexMap) -> IndexMap:
        """The map that takes what this one gives on to what another makes of it.

        Raises
        ------
        LayoutError: the other one is for another number of indices, or this one gives some outside its shape.
        """
        if not isinstance(other, IndexMap):
            raise LayoutError(f"a map is followed by an IndexMap, not by {shown(other)}")
        if len(other.variables) != len(self.exprs):
            raise LayoutError(f"a map to {len(self.exprs)} indices is not followed by one of {len(other.variables)}")
        ctx = (
            self._ctx.extended(ranges=other._ctx.ranges, facts=other._ctx.facts)
            if other._ctx.frame is not self._ctx.frame
            else self._ctx
        )
        values = dict(zip(other.variables, self.exprs, strict=True))
        own = dict(zip(self.variables, self._old, strict=True))
        inside = ctx.extended(ranges=own, facts=self._where)
        needed = [_inside(e, limits) for e, limits in zip(self.exprs, other._old, strict=True)]
        proof = inside.prove(logical_and(*needed, *(substitute(cond, values) for cond in other._where)))
        if not proof:
            point = tuple((proof.counterexample or {}).get(v, 0) for v in self.variables)
            why = f"{point} does not arrive in it" if proof.counterexample else proof.reason
            shape = ", ".join(map(str, other.shape))
            raise LayoutError(f"the map that follows is for the shape ({shape}): {why}", (point,))
        return self._followed(other, inside, ctx)

    def packed_by(self, other: IndexMap) -> IndexMap:
        """The map to where another one, of the storage that this one fills, puts the elements; into all of its ranges.

        What this one leaves free is padding of the result, whatever the other one makes of it.
        """
        if not isinstance(other, IndexMap):
            raise LayoutError(f"a map is packed by an IndexMap, not by {shown(other)}")
        ctx = self._ctx.extended(ranges=other._ctx.ranges, facts=other._ctx.facts)
        here = self.from_zero()
        inside = ctx.extended(ranges=dict(zip(here.variables, here._old, strict=True)), facts=here._where)
        made = here._followed(other, inside, ctx)
        return made._with(within=other.ranges)

    def _followed(self, other: IndexMap, inside: Context, ctx: Context) -> IndexMap:
        values = dict(zip(other.variables, self.exprs, strict=True))
        keeps_places = other._origin is None  # an inverse goes back to a shape, whatever it is written with
        exprs = [_simplified(inside, substitute(e, values), keeps_places) for e in other.exprs]
        return IndexMap.__new__(IndexMap)._set(self.variables, self._old, exprs, ctx, self._where)

    def onto(self, ranges: Sequence[Range]) -> IndexMap:
        """The same map into a larger storage: its new indices are looked at within these ranges.

        Raises
        ------
        LayoutError: not as many ranges as new indices, or one that is not known to hold all that arrives.
        """
        ranges = [of_kind(Range, r, "each of the ranges") for r in listed(ranges, "the ranges")]
        if len(ranges) != len(self.exprs):
            raise LayoutError(f"the map has {len(self.exprs)} new indices, not {len(ranges)}")
        inside = self._ctx.extended(ranges=dict(zip(self.variables, self._old, strict=True)), facts=self._where)
        for k, (e, limits) in enumerate(zip(self.exprs, ranges, strict=True)):
            proof = inside.prove(_inside(e, limits))
            if not proof:
                raise LayoutError(f"new index {k}, {e}, is not known to be within {limits}: {proof.reason}")
        return self._with(within=ranges)

    def from_zero(self) -> IndexMap:
        """The map whose new indices are counted from the first of each range: of `[-3, 13)`, 3 is added."""
        lows = [limits.min for limits in self.ranges if isinstance(limits.min, Expr)]
        if all(constant_value(low) == 0 for low in lows):
            return self
        exprs = [self._ctx.canonical(e - low) for e, low in zip(self.exprs, lows, strict=True)]
        return self._with(exprs, [Range(0, limits.extent) for limits in self.ranges])

    def renamed(self, sizes: Mapping[Var, IntLike], ctx: Context) -> IndexMap:
        """The map with other expressions in the place of sizes, in a context that knows them."""

        def new(e: Any) -> Any:
            return substitute(e, sizes)

        def moved(limits: Range) -> Range:
            return Range(new(limits.min), new(limits.extent))

        known = of_kind(Context, ctx, "ctx").extended(facts=[new(f.condition) for f in self._ctx.facts])
        state = (
            self.variables,
            [moved(r) for r in self._old],
            [new(e) for e in self.exprs],
            known,
            [new(c) for c in self._where],
            None if self._origin is None else self._origin.renamed(sizes, ctx),
            None if self._within is None else [moved(r) for r in self._within],
        )
        return _made(*state)

    def _with(self, exprs: Sequence[Expr] | None = None, within: Sequence[Range] | None = None) -> IndexMap:
        made = self.exprs if exprs is None else exprs
        return _made(self.variables, self._old, made, self._ctx, self._where, None, within)

    # -- arrays -------------------------------------------------------------------------------------------------

    def pack(self, array: Any, fill: Any, sizes: Mapping[Var, int] | None = None) -> np.ndarray[Any, Any]:
        """The array in the new layout, with `fill` where no element arrives.

        Parameters
        ----------
        array: of the old shape.
        fill: a value of the type of the array.
        sizes: values of sizes that the shape of the array does not tell.

        Raises
        ------
        LayoutError: the array has another shape; two elements would arrive at one place; `fill` is none of its values.
        """
        import numpy as np

        old = np.asarray(array)
        self.check_injective()
        values = self._sizes(old.shape, self.shape, sizes)
        new_shape, places = self._at(old.shape, values)
        filled = np.asarray(fill)
        try:
            with np.errstate(all="ignore"):
                kept = filled.astype(old.dtype)
        except (TypeError, ValueError, OverflowError):
            raise LayoutError(f"{shown(fill)} is no value of the type {old.dtype}") from None
        rounds = old.dtype.kind in "fc" and filled.dtype.kind in "iuf"
        if filled.shape or not (rounds or bool(kept == filled)):
            raise LayoutError(f"{shown(fill)} is no value of the type {old.dtype}")
        found = np.full(new_shape, kept, old.dtype)
        found[places] = old
        return found

    def unpack(self, array: Any, sizes: Mapping[Var, int] | None = None) -> np.ndarray[Any, Any]:
        """The array in the old layout: `unpack(pack(a, fill))` is `a`.

        Parameters
        ----------
        array: of the new shape.
        sizes: values of sizes that the shape of the array does not tell.

        Raises
        ------
        LayoutError: the array has another shape.
        """
        import numpy as np

        new = np.asarray(array)
        values = self._sizes(new.shape, self.new_shape, sizes)
        old_shape = tuple(max(0, self._number(e, values)) for e in self.shape)
        new_shape, places = self._at(old_shape, values)
        if new_shape != new.shape:
            raise LayoutError(f"the new shape of the map is {new_shape}, that of the array is {new.shape}")
        found: np.ndarray[Any, Any] = new[places]
        return found

    def _sizes(
        self, shape: Sequence[int], extents: Sequence[Extent], given: Mapping[Var, int] | None
    ) -> dict[Var, int]:
        """Values of the sizes: those that are given, and those that stand alone as an extent."""
        if len(shape) != len(extents):
            raise LayoutError(f"an array of {len(extents)} dimensions is expected, not of {len(shape)}")
        told = {} if given is None else mapped(given, "sizes", "a mapping {size: integer}")
        values = {v: as_int(k, f"the size {shown(v)}") for v, k in told.items()}
        for actual, extent in zip(shape, extents, strict=True):
            if isinstance(extent, Var) and extent not in values:
                values[extent] = int(actual)
        for k, (actual, extent) in enumerate(zip(shape, extents, strict=True)):
            if max(0, self._number(extent, values)) != actual:
                raise LayoutError(f"extent {k} of the array is {actual}, not {extent}")
        return values

    def _number(self, extent: Extent, values: Mapping[Var, int]) -> int:
        if isinstance(extent, int):
            return extent
        missing = [v for v in extent.free_vars() if v not in values]
        if missing:
            raise LayoutError(f"the size {missing[0]} is not told by the shape of the array: pass it in sizes")
        return int(evaluate(extent, {v: values[v] for v in extent.free_vars()}))

    def _at(self, shape: tuple[int, ...], values: Mapping[Var, int]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """The new shape, and where each element lies in it."""
        if not self.is_whole:
            raise LayoutError("a map that is not defined everywhere in its shape packs no arrays")
        at = dict(values)
        new_shape = tuple(max(0, self._number(e, at)) for e in self.new_shape)
        first = [r.min for r in self.ranges]
        exprs = [substitute(e, at) for e in self.exprs]
        for e in exprs:
            if missing := [v for v in e.free_vars() if v not in self.variables]:
                raise LayoutError(f"the size {missing[0]} is not told by the shape of the array: pass it in sizes")
        places = []
        for e, low in zip(exprs, first, strict=True):
            assert isinstance(low, Expr)
            places.append(on_grid(e, self.variables, shape) - self._number(low, at))
        return new_shape, tuple(places)

    def __reduce__(self) -> tuple[object, ...]:
        state = (self.variables, self._old, self.exprs, self._ctx, self._where, self._origin, self._within)
        return _made, state

    def __repr__(self) -> str:
        old, new = (", ".join(map(str, names)) for names in (self.variables, self.exprs))
        return f"<IndexMap ({old}) -> ({new}) on ({', '.join(map(shown, self.shape))})>"


def _made(*state: Any) -> IndexMap:
    return IndexMap.__new__(IndexMap)._set(*state)


def _extents(ranges: Sequence[Range]) -> tuple[Extent, ...]:
    found: list[Extent] = []
    for limits in ranges:
        extent = limits.extent
        assert isinstance(extent, Expr)
        value = constant_value(extent)
        found.append(extent if value is None else value)
    return tuple(found)


def _plain(e: Expr) -> Extent:
    return e if e.free_vars() or opaque_terms(e) else int(evaluate(e, {}))


def _inside(e: Expr, limits: Range) -> Cond:
    low, extent = limits.min, limits.extent
    assert isinstance(low, Expr) and isinstance(extent, Expr)
    return (e >= low) & (e < low + extent)


def _origin_padding(origin: IndexMap, place: Sequence[Expr]) -> Cond:
    """Of the inverse of a map: every old index of the map is arrived at."""
    return logical_or(*(logical_not(_inside(x, limits)) for x, limits in zip(place, origin._old, strict=True)))


def _simplified(ctx: Context, e: Expr, keeps_places: bool) -> Expr:
    """A shorter index; one written as a remainder stays one where it is to keep its places."""
    if keeps_places and e.op is ops.FLOORMOD and isinstance(e.args[0], Expr) and isinstance(e.args[1], Expr):
        return ctx.canonical(e.args[0]) % e.args[1]
    return ctx.canonical(e)
