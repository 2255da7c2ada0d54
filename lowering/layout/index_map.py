"""`IndexMap`: an index map from tensor indices to storage indices, by which numpy arrays are packed and unpacked."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bound.dtypes import Array, Numeric
from intset.config import Configured, all_as_configured
from intset.context import Context
from intset.domains.sets.region import Region
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr import Cond, Expr, IntLike, Range, Var, arguments, as_expr, constant_value, dag, ops, shown
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import PlainVar, as_int, truth
from intset.itermap.itermap import YES, IterMap, Verdict, iter_map
from intset.linear.form import factors, spine
from lowering.errors import LayoutError
from lowering.layout.strided import MAPS, Extent, Layout, Mode

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def _size_values(shape: Sequence[int], extents: Sequence[Extent], sizes: Mapping[Var, int] | None) -> dict[Var, int]:
    """The values of the sizes: the ones passed, and extents of the array that are a single size."""
    if len(shape) != len(extents):
        raise LayoutError(f"an array of {len(extents)} dimensions is expected, not of {len(shape)}")
    passed = {} if sizes is None else arguments.mapped(sizes, "sizes", "a mapping {size: integer}")
    values = {v: as_int(k, f"the size {shown(v)}") for v, k in passed.items()}
    for actual, extent in zip(shape, extents, strict=True):
        if isinstance(extent, Var) and extent not in values:
            values[extent] = int(actual)
    for k, (actual, extent) in enumerate(zip(shape, extents, strict=True)):
        if max(0, _number(extent, values)) != actual:
            raise LayoutError(f"extent {k} of the array is {actual}, not {extent}")
    return values


def _number(extent: Extent, values: Mapping[Var, int]) -> int:
    e = as_expr(extent)
    _check_known([v for v in e.free_vars() if v not in values])
    return int(evaluate(e, {v: values[v] for v in e.free_vars()}))


def _check_known(missing: Sequence[Var]) -> None:
    if missing:
        raise LayoutError(f"the size {missing[0]} does not follow from the shape of the array: pass it in sizes")


def _positions(
    m: IndexMap, shape: tuple[int, ...], values: Mapping[Var, int]
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The new shape, and for each new dimension an array of the old shape with the positions of the elements."""
    if not m.is_whole:
        raise LayoutError("a map that is not defined everywhere in its shape packs no arrays")
    new_shape = tuple(max(0, _number(e, values)) for e in m.new_shape)
    exprs = [dag.substitute(e, dict(values)) for e in m.exprs]
    for e in exprs:
        _check_known([v for v in e.free_vars() if v not in m.variables])
    lows = [_number(as_expr(limits.min), values) for limits in m.ranges]
    return new_shape, tuple(on_grid(e, m.variables, shape) - low for e, low in zip(exprs, lows, strict=True))


def on_grid(e: Expr, variables: tuple[Var, ...], shape: tuple[int, ...]) -> Any:
    """The values of an expression at all points `0 <= v < extent`, as an array of `int64` of that shape.

    numpy evaluates all points at once, if all have a value; otherwise the points are evaluated one by one.
    """
    import numpy as np

    from intset.spaces.vectors import to_numpy

    if not any(node.op is ops.LOAD for node in dag.postorder((e,))):
        array_function = to_numpy(e, {v: (0, max(n - 1, 0)) for v, n in zip(variables, shape, strict=True)})
        grid = dict(zip(variables, np.indices(shape, np.int64, sparse=True), strict=True))
        if array_function.defined is None or array_function.defined(grid).all():
            return np.broadcast_to(array_function(grid).astype(np.int64), shape)
    function = compiled(e, variables)
    values = (function(*map(int, point)) for point in np.ndindex(*shape))
    return np.fromiter(values, np.int64, int(np.prod(shape))).reshape(shape)


NewIndices: TypeAlias = "IntLike | Sequence[IntLike]"
LayoutFunction: TypeAlias = (
    Callable[[Var], NewIndices]
    | Callable[[Var, Var], NewIndices]
    | Callable[[Var, Var, Var], NewIndices]
    | Callable[[Var, Var, Var, Var], NewIndices]
    | Callable[..., NewIndices]
)


@all_as_configured
class IndexMap(Configured):
    """A map from old indices, within a shape, to new indices.

    Guarantee: verdicts are proved. Sizes stay symbolic in all answers; constant shapes of up to 4,096 points are
    decided completely.

    Parameters
    ----------
    fn: takes the old indices and returns a list of new indices.
    shape: the extents of the old indices: integers, or expressions of sizes.
    ctx: ranges and facts of the sizes.

    Attributes
    ----------
    shape: the old extents.
    ranges: one per new index, from the smaller of 0 and its minimum to its maximum; an index written `e % c` has the
        range `[0, c)`.
    new_shape: the extents of `ranges`.
    injective, surjective, bijective: a `Verdict` each, with `.status` as a proof has it, `.points`, `.sizes`; `bool()`
        is true when proved. `surjective` means onto `ranges`.

    Raises
    ------
    LayoutError: `fn` takes another number of indices, returns nothing, or returns a non-integer; `shape` is not a
        tuple, is empty or has a negative extent.

    Example
    -------
    >>> m = IndexMap(lambda i: [(i + 2) // 8, (i + 2) % 8], (16,))
    >>> m(5), m.new_shape, m.surjective.points
    ((0, 7), (3, 8), ((0, 0),))
    >>> m.inverse()(2, 1)
    (15,)
    """

    def __init__(self, fn: LayoutFunction, shape: tuple[IntLike, ...], ctx: Context | None = None) -> None:
        about = Context() if ctx is None else ctx
        if not isinstance(about, Context):
            raise LayoutError(f"ctx must be a Context, not {shown(about)}")
        extents = _checked_shape(shape, about)
        variables, exprs = _called(fn, len(extents))
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
        """Set the state.

        Parameters
        ----------
        box: the ranges of the old indices; `where`: conditions that restrict the map's domain.
        origin: the map whose inverse this is.
        within: ranges of the new indices; `None`: as the map implies.
        """
        self._ctx = ctx = ctx.extended()  # a copy: blocks that the caller enters later do not reach the map
        self.variables, self.exprs, self._old = tuple(variables), tuple(exprs), tuple(box)
        self._where, self._origin = tuple(where), origin
        self._within = None if within is None else tuple(within)
        self._map: IterMap = iter_map(self._inside(ctx), self.variables, self.exprs, self._within)
        return self

    @property
    def ctx(self) -> Context:
        """A new context with the ranges and facts of the map; blocks entered on it do not reach the map."""
        return self._ctx.extended()

    def _inside(self, ctx: Context) -> Context:
        """A context extended by the old indices in their ranges."""
        return ctx.extended(ranges=dict(zip(self.variables, self._old, strict=True)), facts=self._where)

    # -- the map itself -----------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Extent, ...]:
        return _extents(self._old)

    @property
    def ranges(self) -> tuple[Range, ...]:
        ranges = self._map.ranges if self._origin is None else self._origin._old
        for k, limits in enumerate(ranges):
            if not isinstance(limits.min, Expr) or not isinstance(limits.extent, Expr):
                raise LayoutError(f"new index {k}, {self.exprs[k]}, has no known end")
        return ranges

    @property
    def new_shape(self) -> tuple[Extent, ...]:
        return _extents(self.ranges)

    def __call__(self, *old: IntLike) -> tuple[IntLike, ...]:
        """The new indices at old indices: integers for integers, expressions for expressions."""
        values = dict(zip(self.variables, _checked_indices(old, len(self.variables), "old"), strict=True))
        return tuple(_plain(dag.substitute(e, values)) for e in self.exprs)

    def padding(self, *new: IntLike) -> Cond:
        """The condition that no old index maps to the new indices.

        Parameters
        ----------
        new: indices within `ranges`; integers may lie anywhere.

        Raises
        ------
        LayoutError: the condition is unknown.
        """
        point = _checked_indices(new, len(self.exprs), "new")
        try:
            padding = self._map.padding_at(point) if self._origin is None else self._outside(point)
        except (UndecidedError, BudgetError) as error:
            raise LayoutError(f"the padding of the map is not known as a condition: {error}") from error
        if dag.free_vars(*point) or dag.opaque_terms(*point):
            return padding
        outside = self._outside(point)
        if dag.free_vars(outside):
            return outside | padding
        if evaluate(outside, {}):
            return truth(True)
        return padding if dag.free_vars(padding) else truth(bool(evaluate(padding, {})))

    def _outside(self, point: Sequence[Expr]) -> Cond:
        """The condition that new indices lie outside of `ranges`: of an inverse the shape of its origin."""
        return logical_or(*(logical_not(_is_within(y, r)) for y, r in zip(point, self.ranges, strict=True)))

    @property
    def is_whole(self) -> bool:
        """Whether the map is defined everywhere in its shape. Most inverses are not."""
        return self._origin is None and not self._where

    @property
    def sizes(self) -> tuple[Var, ...]:
        """The free variables of the map other than its indices."""
        ends = [e for r in (*self._old, *(self._within or ())) for e in (r.min, r.extent) if isinstance(e, Expr)]
        return tuple(v for v in dag.free_vars(*ends, *self.exprs, *self._where) if v not in self.variables)

    def image(self) -> Region:
        """The region of new indices to which old indices map."""
        return self._map.image()

    @property
    def injective(self) -> Verdict:
        return self._map.injective if self._origin is None else YES

    @property
    def surjective(self) -> Verdict:
        self.ranges  # noqa: B018  # raises if one is unbounded
        return self._map.surjective if self._origin is None else YES

    @property
    def bijective(self) -> Verdict:
        self.ranges  # noqa: B018  # raises if one is unbounded
        return self._map.bijective if self._origin is None else YES

    # -- other maps ---------------------------------------------------------------------------------------------

    def inverse(self) -> IndexMap:
        """The map from new indices to old ones. It is correct on the image and unspecified elsewhere.

        Raises
        ------
        LayoutError: the map is not proved injective; the message names two colliding old points, or the reason.
        """
        if self._origin is not None:
            return self._origin
        self.check_injective()
        variables = self._map.places
        try:
            values = self._map.inverse(variables)
            padding = self._map.padding
        except (UndecidedError, BudgetError) as error:
            raise LayoutError(f"the inverse of the map is not known as expressions: {error}") from error
        where = [] if padding.op is ops.BOOL and not padding.data else [logical_not(padding)]
        return _restored(variables, self.ranges, [values[v] for v in self.variables], self._ctx, where, self)

    def layout(self) -> Layout:
        """The shapes and strides of a map to one index.

        Raises
        ------
        LayoutError: the index is no sum of old indices, or of their digits, times strides.

        >>> str(IndexMap(lambda i, j: i % 4 * 8 + i // 4 + j * 32, (8, 2)).layout())
        '((4,2),2):((8,1),32)'
        """
        if len(self.exprs) != 1:
            raise LayoutError(f"a layout has one new index, not {len(self.exprs)}")
        ctx = self._inside(self._ctx)
        offset, terms = spine(ctx.canonical(self.exprs[0]))
        if offset:
            raise LayoutError(f"a layout maps 0 to 0, not to {offset}")
        digits: dict[Expr, list[IndexDigit]] = {v: [] for v in self.variables}
        for term, number in terms.items():
            index, digit = _digit_of(term, number, digits)
            digits[index].append(digit)
        modes = [_modes_of(ctx, v, e, digits[v]) for v, e in zip(self.variables, self.shape, strict=True)]
        shape, stride = (tuple(_leaf_or_tree(mode[k] for mode in own) for own in modes) for k in (0, 1))
        return Layout(shape[0], stride[0], self.ctx) if len(modes) == 1 else Layout(shape, stride, self.ctx)

    def check_injective(self) -> None:
        """Raise `LayoutError`, with two colliding old points or the reason, unless the map is proved injective."""
        if not self.injective:
            raise LayoutError(self._map.why_no_inverse(), self.injective.points)

    def then(self, other: IndexMap) -> IndexMap:
        """The composition: this map first, then `other`.

        Raises
        ------
        LayoutError: `other` takes another number of indices, or some new index lies outside its shape.
        """
        if not isinstance(other, IndexMap):
            raise LayoutError(f"a map is followed by an IndexMap, not by {shown(other)}")
        if len(other.variables) != len(self.exprs):
            raise LayoutError(f"a map to {len(self.exprs)} indices is not followed by one of {len(other.variables)}")
        ctx = self._ctx if other._ctx.frame is self._ctx.frame else self._with_facts_of(other)
        values = dict(zip(other.variables, self.exprs, strict=True))
        needed = [_is_within(e, limits) for e, limits in zip(self.exprs, other._old, strict=True)]
        proof = self._inside(ctx).prove(logical_and(*needed, *(dag.substitute(cond, values) for cond in other._where)))
        if not proof:
            point = tuple((proof.counterexample or {}).get(v, 0) for v in self.variables)
            why = f"{point} does not arrive in it" if proof.counterexample else proof.reason
            shape = ", ".join(map(str, other.shape))
            raise LayoutError(f"the map that follows is for the shape ({shape}): {why}", (point,))
        return self._followed(other, ctx)

    def packed_by(self, other: IndexMap) -> IndexMap:
        """The composition with a map of the whole storage that this map fills, onto all ranges of `other`.

        Invariant: storage that this map leaves free is padding of the result.
        """
        if not isinstance(other, IndexMap):
            raise LayoutError(f"a map is packed by an IndexMap, not by {shown(other)}")
        return self.from_zero()._followed(other, self._with_facts_of(other))._changed(within=other.ranges)

    def _with_facts_of(self, other: IndexMap) -> Context:
        return self._ctx.extended(ranges=other._ctx.ranges, facts=other._ctx.facts)

    def _followed(self, other: IndexMap, ctx: Context) -> IndexMap:
        values = dict(zip(other.variables, self.exprs, strict=True))
        keeps_ranges = other._origin is None  # an inverse has its origin's shape as ranges
        inside = self._inside(ctx)
        exprs = [
            inside.canonical(e.args[0]) % e.args[1]  # a remainder stays one, since its divisor is its range
            if keeps_ranges and e.op is ops.FLOORMOD
            else inside.canonical(e)
            for e in (dag.substitute(e, values) for e in other.exprs)
        ]
        return _restored(self.variables, self._old, exprs, ctx, self._where)

    def onto(self, ranges: Sequence[Range]) -> IndexMap:
        """The same map into a larger storage, with `ranges` for its new indices.

        Raises
        ------
        LayoutError: the number of ranges is wrong, or a new index is not proved to lie within its range.
        """
        ranges = [arguments.of_kind(Range, r, "each of the ranges") for r in arguments.listed(ranges, "the ranges")]
        if len(ranges) != len(self.exprs):
            raise LayoutError(f"the map has {len(self.exprs)} new indices, not {len(ranges)}")
        inside = self._inside(self._ctx)
        for k, (e, limits) in enumerate(zip(self.exprs, ranges, strict=True)):
            proof = inside.prove(_is_within(e, limits))
            if not proof:
                raise LayoutError(f"new index {k}, {e}, is not known to be within {limits}: {proof.reason}")
        return self._changed(within=ranges)

    def from_zero(self) -> IndexMap:
        """The map with each range shifted to begin at 0: for `[-3, 13)`, 3 is added to the index."""
        lows = [limits.min for limits in self.ranges if isinstance(limits.min, Expr)]
        if all(constant_value(low) == 0 for low in lows):
            return self
        exprs = [self._ctx.canonical(e - low) for e, low in zip(self.exprs, lows, strict=True)]
        return self._changed(exprs, [Range(0, limits.extent) for limits in self.ranges])

    def renamed(self, sizes: Mapping[Var, IntLike], ctx: Context) -> IndexMap:
        """Substitute sizes in the map; `ctx` has their ranges and facts."""

        def new(e: Any) -> Any:
            return Range(new(e.min), new(e.extent)) if isinstance(e, Range) else dag.substitute(e, sizes)

        return _restored(
            self.variables,
            [new(r) for r in self._old],
            [new(e) for e in self.exprs],
            arguments.of_kind(Context, ctx, "ctx").extended(facts=[new(f.condition) for f in self._ctx.facts]),
            [new(c) for c in self._where],
            None if self._origin is None else self._origin.renamed(sizes, ctx),
            None if self._within is None else [new(r) for r in self._within],
        )

    def _changed(self, exprs: Sequence[Expr] | None = None, within: Sequence[Range] | None = None) -> IndexMap:
        exprs = self.exprs if exprs is None else exprs
        return _restored(self.variables, self._old, exprs, self._ctx, self._where, None, within)

    # -- arrays -------------------------------------------------------------------------------------------------

    def pack(self, array: ArrayLike, fill: Numeric, sizes: Mapping[Var, int] | None = None) -> Array:
        """The array in the new layout, with `fill` in the padding.

        Parameters
        ----------
        array: an array of the old shape.
        fill: a value of the array's type.
        sizes: values of sizes that do not follow from the array's shape.

        Raises
        ------
        LayoutError: the array has another shape; the map is not injective; `fill` is not representable.
        """
        import numpy as np

        old = np.asarray(array)
        self.check_injective()
        values = _size_values(old.shape, self.shape, sizes)
        new_shape, positions = _positions(self, old.shape, values)
        filled = np.asarray(fill)
        try:
            with np.errstate(all="ignore"):
                value = filled.astype(old.dtype)
        except (TypeError, ValueError, OverflowError):
            raise LayoutError(f"{shown(fill)} is no value of the type {old.dtype}") from None
        may_round = old.dtype.kind in "fc" and filled.dtype.kind in "iuf"
        if filled.shape or not (may_round or bool(value == filled)):
            raise LayoutError(f"{shown(fill)} is no value of the type {old.dtype}")
        new = np.full(new_shape, value, old.dtype)
        new[positions] = old
        return new

    def unpack(self, array: ArrayLike, sizes: Mapping[Var, int] | None = None) -> Array:
        """The array in the old layout. Guarantee: `unpack(pack(a, fill))` is `a`.

        Parameters
        ----------
        array: an array of the new shape.
        sizes: values of sizes that do not follow from the array's shape.

        Raises
        ------
        LayoutError: the array has another shape.
        """
        import numpy as np

        new = np.asarray(array)
        values = _size_values(new.shape, self.new_shape, sizes)
        old_shape = tuple(max(0, _number(e, values)) for e in self.shape)
        new_shape, positions = _positions(self, old_shape, values)
        if new_shape != new.shape:
            raise LayoutError(f"the new shape of the map is {new_shape}, that of the array is {new.shape}")
        old: Array = new[positions]
        return old

    def __reduce__(self) -> tuple[object, ...]:
        state = (self.variables, self._old, self.exprs, self._ctx, self._where, self._origin, self._within)
        return _restored, state

    def __repr__(self) -> str:
        old, new = (", ".join(map(str, names)) for names in (self.variables, self.exprs))
        return f"<IndexMap ({old}) -> ({new}) on ({', '.join(map(shown, self.shape))})>"


def _restored(*state: Any) -> IndexMap:
    """An index map with the state that `IndexMap._set` takes."""
    return IndexMap.__new__(IndexMap)._set(*state)


def _extents(ranges: Sequence[Range]) -> tuple[Extent, ...]:
    return tuple(map(_plain, (as_expr(limits.extent) for limits in ranges)))


def _plain(e: Expr) -> Extent:
    """An expression without variables as an integer."""
    return e if e.free_vars() or dag.opaque_terms(e) else int(evaluate(e, {}))


def _is_within(e: Expr, limits: Range) -> Cond:
    low, extent = as_expr(limits.min), as_expr(limits.extent)
    return (e >= low) & (e < low + extent)


# -- checked arguments --------------------------------------------------------------------------------------------


def _checked_shape(shape: Any, ctx: Context) -> tuple[Expr, ...]:
    if not isinstance(shape, tuple):
        raise LayoutError(f"the shape of a map must be a tuple of extents, not {shown(shape)}")
    if not shape:
        raise LayoutError("the shape of a map must have at least one extent")
    extents = tuple(as_index(e, f"extent {k} of the shape of a map") for k, e in enumerate(shape))
    for k, e in enumerate(extents):
        if (e.data < 0) if e.is_const else bool(ctx.prove(e < 0)):
            raise LayoutError(f"extent {k} of the shape of a map must not be negative, as {e} is")
    return extents


def as_index(index: Any, what: str) -> Expr:
    """An integer or expression as an expression; raises `LayoutError`, which begins with `what`, for others."""
    if isinstance(index, Expr):
        return index
    try:
        return as_expr(as_int(index, what))
    except InputError as error:
        raise LayoutError(str(error)) from None


def _called(fn: Any, dims: int) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """The old indices, with the names of the function's parameters, and the new indices that it returns."""
    if not callable(fn):
        raise LayoutError(f"a map is a function of the old indices, not {shown(fn)}")
    variables = tuple(PlainVar(name) for name in parameter_names(fn, dims, "a map of {} old indices"))
    try:
        new = fn(*variables)
    except ArithmeticError as error:
        raise LayoutError(f"the map fails as a function of ({', '.join(map(str, variables))}): {error}") from None
    if isinstance(new, Expr):
        new = (new,)
    if isinstance(new, (str, bytes)) or not isinstance(new, Sequence):
        raise LayoutError(f"a map gives a list of new indices, not {shown(new)}")
    if not len(new):
        raise LayoutError("a map must give at least one new index")
    return variables, tuple(as_index(e, f"new index {k}") for k, e in enumerate(new))


def parameter_names(fn: Callable[..., object], dims: int, what: str) -> list[str]:
    """The parameter names of a function of `dims` indices; `i0`, `i1`, ... if it takes `*args` or has no signature.

    Raises
    ------
    LayoutError: it takes another number of arguments; the message begins with `what`, formatted with `dims`.
    """
    plain = [f"i{k}" for k in range(dims)]
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return plain
    try:
        arguments = signature.bind(*plain).arguments
    except TypeError:
        raise LayoutError(f"{what.format(dims)} must be a function of as many, not of {signature}") from None
    kinds = signature.parameters
    if any(kinds[name].kind is inspect.Parameter.VAR_POSITIONAL for name in arguments):
        return plain
    return list(arguments)


def _checked_indices(indices: Sequence[IntLike], dims: int, what: str) -> list[Expr]:
    if len(indices) != dims:
        raise LayoutError(f"the map has {dims} {what} indices, not {len(indices)}")
    return [as_index(e, f"{what} index {k}") for k, e in enumerate(indices)]


# -- numbers as indices -------------------------------------------------------------------------------------------


class IndexNumber(int):
    """An integer with the methods of an index expression; its comparisons are constant conditions.

    So a function of indices takes numbers as well as variables, and a number decides its Python branches.
    """

    __slots__ = ()
    __hash__ = int.__hash__

    def eq(self, other: Any) -> Cond:
        """The condition that both are equal."""
        return truth(int(self) == int(other)) if isinstance(other, int) else as_expr(int(self)).eq(other)

    def ne(self, other: Any) -> Cond:
        """The condition that both differ."""
        return truth(int(self) != int(other)) if isinstance(other, int) else as_expr(int(self)).ne(other)


def _define(name: str, kind: Callable[[Any], Any]) -> None:
    """Define an operation of `IndexNumber` as that of `int`, with its result converted to a kind."""
    plain: Callable[..., Any] = getattr(int, name)

    def method(self: IndexNumber, *others: Any) -> Any:
        result = plain(self, *others)
        return result if result is NotImplemented else kind(result)

    setattr(IndexNumber, name, method)


for _name in "add sub mul floordiv mod and or xor lshift rshift".split():
    _define(f"__{_name}__", IndexNumber)
    _define(f"__r{_name}__", IndexNumber)
for _name in ("__neg__", "__pos__", "__abs__", "__invert__"):
    _define(_name, IndexNumber)
for _name in "lt le gt ge eq ne".split():
    _define(f"__{_name}__", truth)


class IndexDigit(NamedTuple):
    """The digit `x // by % extent` of an old index `x` with its stride; without an extent all of `x // by`."""

    by: int
    extent: int | None
    stride: Extent


def _digit_of(term: Expr, number: int, indices: Container[Expr]) -> tuple[Expr, IndexDigit]:
    """A term of the sum as a digit of an old index; the stride is the product of the term's other factors."""
    e, *others = sorted(factors(term), key=lambda part: not any(v in indices for v in part.free_vars()))
    if any(v in indices for part in others for v in part.free_vars()):
        raise LayoutError(f"{shown(term)} is no digit of an old index")
    stride: Extent = reduce(operator.mul, others, as_expr(number)) if others else number
    index, extent = (e.args[0], constant_value(e.args[1])) if e.op is ops.FLOORMOD else (e, None)
    by: int | None = 1
    if index.op is ops.FLOORDIV:
        index, by = index.args[0], constant_value(index.args[1])
    if index not in indices or by is None or (e.op is ops.FLOORMOD and extent is None):
        raise LayoutError(f"{shown(e)} is no digit of an old index")
    return index, IndexDigit(by, extent, stride)


def _modes_of(ctx: Context, index: Expr, whole: Extent, digits: Iterable[IndexDigit]) -> list[Mode]:
    """The modes of an index of `whole` values. Parts of the index that no digit reads have modes of stride 0."""
    modes: list[Mode] = []
    below = 1  # values that the modes so far tell apart; 0 where they tell all
    for by, extent, stride in sorted(digits, key=lambda digit: digit.by):
        if by % below:
            raise LayoutError(f"the digits of {index} overlap")
        if by > below:
            modes.append((by // below, 0))
            below = by
        size = extent if extent is not None else _whole_quotient(ctx, whole, below)
        modes.append((size, stride))
        below = below * size if isinstance(size, int) else 0
        if not below:
            break
    if not modes:
        return [(_plain(as_expr(whole)), 0)]
    if below and not ctx.prove(as_expr(whole).eq(below)):
        modes.append((_whole_quotient(ctx, whole, below), 0))
    return modes


def _leaf_or_tree(parts: Iterable[Any]) -> Any:
    found = tuple(parts)
    return found[0] if len(found) == 1 else found


def _whole_quotient(ctx: Context, whole: Extent, by: int) -> Extent:
    if not ctx.prove((as_expr(whole) % by).eq(0)):
        raise LayoutError(f"{by} is not proved to divide the extent {whole}")
    return _plain(ctx.simplify(as_expr(whole) // by))


MAPS.make = IndexMap
