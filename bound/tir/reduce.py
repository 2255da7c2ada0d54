"""Reductions: a commutative combiner, axes, initial values; ranges of the elements that a formula computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol, TypeAlias, cast, overload

from bound import dtypes
from bound.itervar import IterType, IterVar
from bound.tir import build, walk
from bound.tir.machine import in_types
from bound.tir.value import (
    PARAM,
    READ,
    REDUCE,
    Ends,
    IntFunction,
    Number,
    Operand,
    ScriptVar,
    Truth,
    Value,
    ValueLike,
    make,
    parameter,
    range_of,
)
from bound.tir.walk import nodes
from intset.errors import InputError
from intset.expr import Expr, Var, arguments, dag, ops, shown
from intset.expr.node import truth
from intset.linear.bounds import Interval
from intset.linear.canonical import bounds_of

Parameter: TypeAlias = "Value | Var"
Axes: TypeAlias = "IterVar | Sequence[IterVar]"
Reduced: TypeAlias = "Operand | tuple[Operand, ...]"


@dataclass(frozen=True, eq=False)
class CommReducer:
    """Combination of two partial results: `results` in terms of `lhs` and `rhs`, with neutral element `identity`.

    Invariant: all four tuples have the same length, the number of values reduced together.
    """

    name: str
    lhs: tuple[Parameter, ...]
    rhs: tuple[Parameter, ...]
    results: tuple[Operand, ...]
    identity: tuple[Operand, ...]

    @cached_property
    def is_closed(self) -> bool:
        """Whether it refers to no axis, size or tensor of the program."""
        own = {*self.lhs, *self.rhs}
        found = nodes(*self.results, *self.identity)
        return all(node in own or node.op not in (ops.VAR, ops.LOAD, PARAM, READ) for node in found)

    def same(self, other: CommReducer) -> bool:
        """Return whether both reducers are structurally equal."""
        mine = (*self.lhs, *self.rhs, *self.results, *self.identity)
        its = (*other.lhs, *other.rhs, *other.results, *other.identity)
        return len(mine) == len(its) and all(a is b for a, b in zip(mine, its, strict=True))


@dataclass(frozen=True)
class Reduction:
    """Payload of a REDUCE value.

    The `args` of the value are `arity` sources, the condition for an element to take part, and optional initial values.
    The value is result number `index`.
    """

    combiner: CommReducer
    axis: tuple[IterVar, ...]
    index: int

    @property
    def arity(self) -> int:
        return len(self.combiner.lhs)

    def rewritten(self, change: Callable[[Operand], Operand]) -> Reduction:
        """Apply `change` to what the combiner refers to of the program."""
        old = self.combiner
        if old.is_closed:
            return self
        results, identity = tuple(map(change, old.results)), tuple(map(change, old.identity))
        new = CommReducer(old.name, old.lhs, old.rhs, results, identity)
        return self if new.same(old) else Reduction(new, self.axis, self.index)


def reduction_of(value: Value) -> Reduction:
    """Return the payload of a REDUCE value."""
    assert value.op is REDUCE
    answer: Reduction = value.data
    return answer


def sources(value: Value) -> tuple[Operand, ...]:
    """Return the combined operands of a REDUCE value."""
    return value.args[: reduction_of(value).arity]


def condition(value: Value) -> Operand:
    """Return the condition under which elements take part in a REDUCE value."""
    return value.args[reduction_of(value).arity]


def initial(value: Value) -> tuple[Operand, ...]:
    """Return the initial values of a REDUCE value; empty if it starts from the identity."""
    return value.args[reduction_of(value).arity + 1 :]


def with_condition(value: Value, where: Operand) -> Value:
    """Replace the condition of a REDUCE value."""
    arity = reduction_of(value).arity
    return make(REDUCE, (*value.args[:arity], where, *value.args[arity + 1 :]), value.dtype, value.data)


def _parameter(name: str, dtype: str) -> Parameter:
    if not dtypes.is_int(dtype):
        return parameter(name, dtype)
    return Var(name) if dtype == dtypes.INDEX else ScriptVar.of(name, dtype, is_size=False)


def _as_tuple(x: object, what: str) -> tuple[object, ...]:
    items = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    if not items:
        raise InputError(f"{what} needs at least one value")
    return items


def reduction(
    make_combiner: Callable[[tuple[str, ...]], CommReducer],
    expr: object,
    axis: object,
    where: object = None,
    init: object = None,
) -> Reduced:
    """Make a REDUCE value, or one per source if `expr` is a tuple.

    Parameters
    ----------
    make_combiner: maps the types of the sources to the combiner.
    expr: the source, or a tuple of sources.
    axis: an `IterVar` made by `reduce_axis`, or several.
    where: the condition for an element to take part; `None`: always.
    init: initial values; `None`: the identity.

    Raises
    ------
    InputError: an axis is not a reduction axis or occurs twice, or a source is a reduction.
    """
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not isinstance(a, IterVar) or a.iter_type is not IterType.COMM_REDUCE:
            raise InputError(f"axis of a reduction must be made by reduce_axis, not {shown(a)}")
    if not axes or len(set(axes)) != len(axes):
        raise InputError("axis of a reduction must be one or more different axes")
    values = tuple(build.operand(e, "the reduced expression") for e in _as_tuple(expr, "a reduction"))
    for value in values:
        if isinstance(value, Value) and value.op is REDUCE:
            raise InputError("a reduction of a reduction: name the inner one as a tensor of its own")
    cond = truth(True) if where is None else build.truth_value(where, "where of a reduction")
    types = tuple(build.dtype_of(v) for v in values)
    combiner = make_combiner(types)
    if len(combiner.lhs) != len(values):
        raise InputError(f"{combiner.name} combines {len(combiner.lhs)} values, not {len(values)}")
    initial_values = () if init is None else zip(types, _as_tuple(init, "init of a reduction"), strict=True)
    starts = tuple(_stored(t, v) for t, v in initial_values)
    args = (*values, cond, *starts)
    results = tuple(make(REDUCE, args, t, Reduction(combiner, axes, k)) for k, t in enumerate(types))
    return results if isinstance(expr, (tuple, list)) else results[0]


class Reducer(Protocol):
    """Reduces a value over axes, or combines values."""

    @overload
    def __call__(
        self, expr: ValueLike, axis: Axes, where: Truth | None = None, init: ValueLike | None = None
    ) -> Number: ...
    @overload
    def __call__(self, expr: ValueLike, *more: ValueLike) -> Number: ...


class TupleReducer(Protocol):
    """Reduces several values together over axes."""

    def __call__(
        self, expr: Sequence[ValueLike], axis: Axes, where: Truth | None = None, init: Sequence[ValueLike] | None = None
    ) -> tuple[Operand, ...]: ...


@overload
def comm_reducer(
    fcombine: Callable[[Number, Number], ValueLike], fidentity: Callable[[str], ValueLike], name: str = "reduce"
) -> Reducer: ...
@overload
def comm_reducer(
    fcombine: Callable[[tuple[Number, ...], tuple[Number, ...]], Sequence[ValueLike]],
    fidentity: Callable[..., Sequence[ValueLike]],
    name: str = "reduce",
) -> TupleReducer: ...
def comm_reducer(
    fcombine: Callable[..., object], fidentity: Callable[..., object], name: str = "reduce"
) -> Reducer | TupleReducer:
    """Make a reducer `f(expr, axis, where=None, init=None)` from a commutative operation and its identity.

    `f(a, b, ...)` without axes combines values directly. To reduce several values together, `fcombine` maps two tuples
    to a tuple, and `fidentity` maps their types to a tuple.
    """
    arguments.a_function(fcombine, "fcombine")
    arguments.a_function(fidentity, "fidentity")
    arguments.a_name(name, "the name of a reducer")

    @cache
    def combiner(types: tuple[str, ...]) -> CommReducer:
        return _make_combiner(fcombine, fidentity, name, types)

    def reducer(expr: object, *args: object, axis: object = None, where: object = None, init: object = None) -> Reduced:
        if axis is None and args and _are_axes(args[0]):
            axis, where, init = (*args, *(where, init)[len(args) - 1 :])[:3]
        if axis is not None:
            return reduction(combiner, expr, axis, where, init)
        result = build.operand(expr)
        for other in args:
            result = build.operand(fcombine(result, build.operand(other)))
        return result

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"`{name}(expr, axis, where=None, init=None)` reduces; `{name}(a, b, ...)` combines values."
    answer: Any = reducer  # it has the signatures of both
    return cast(Reducer, answer)


def _are_axes(x: object) -> bool:
    return isinstance(x, (list, tuple)) or (isinstance(x, IterVar) and x.is_reduce)


def _make_combiner(
    fcombine: Callable[..., object], fidentity: Callable[..., object], name: str, types: Sequence[str]
) -> CommReducer:
    lhs = tuple(_parameter(f"x{k}", t) for k, t in enumerate(types))
    rhs = tuple(_parameter(f"y{k}", t) for k, t in enumerate(types))
    of = {p: t for side in (lhs, rhs) for p, t in zip(side, types, strict=True) if isinstance(p, Var)}
    single = len(types) == 1
    combined = fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs)
    results = _as_tuple(combined, name)
    identity = _as_tuple(fidentity(*types), name)
    if len(results) != len(types) or len(identity) != len(types):
        raise InputError(f"the combiner {name} must give {len(types)} results and identities")
    return CommReducer(
        name,
        lhs,
        rhs,
        tuple(_of_type(r, t, of) for r, t in zip(results, types, strict=True)),
        tuple(_stored(t, v) for t, v in zip(types, identity, strict=True)),
    )


def _stored(dtype: str, value: object) -> Operand:
    """A value converted to the type of an element; a constant is a plain number."""
    return build.plain_constant(build.cast(dtype, build.operand(value)))


def _of_type(result: object, dtype: str, types: Mapping[Any, str]) -> Operand:
    value = build.operand(result)
    is_integer = isinstance(value, Expr) and dtypes.is_int(dtype)
    typed: Operand = in_types(value if is_integer else build.cast(dtype, value), types)
    return typed


sum_of = comm_reducer(lambda x, y: x + y, lambda t: build.const(0, t), "sum")
product_of = comm_reducer(lambda x, y: x * y, lambda t: build.const(1, t), "prod")


def _extremum(name: str, op: ops.Op, of_truths: ops.Op, identity: Callable[[str], float]) -> Reducer:
    """The reducer of an extremum; of truth values, true is above false."""

    def combine(x: Number, y: Number) -> Operand:
        if build.is_truth(x) and build.is_truth(y):
            return build.logical(of_truths, x, y)
        return build.binary(op, x, y)

    def neutral(dtype: str) -> Operand:
        return truth(op is ops.MIN) if dtype == "bool" else build.cast(dtype, identity(dtype))

    return comm_reducer(combine, neutral, name)


max_of = _extremum("max", ops.MAX, ops.OR, dtypes.least)
min_of = _extremum("min", ops.MIN, ops.AND, dtypes.greatest)


def computed_range(body: Operand, axis: Sequence[IterVar], dtype: str, is_finished: bool = True) -> Ends | None:
    """Return the smallest and the largest element that `body` computes over the ranges of `axis`; `None` if unknown.

    Guarantee: the range contains every stored element. If an element may overflow its type, the range is unknown.

    Parameters
    ----------
    body: the formula of an integer tensor of type `dtype`.
    is_finished: exclude initial values and partial results of a reduction, which elements hold while it runs.
    """
    ranges = {iv: _ends(iv) for iv in axis}
    if isinstance(body, Expr):
        ends = range_of(body, ranges)
    elif isinstance(body, Value) and body.op is REDUCE:
        ends = _reduced(body, ranges, is_finished)
    else:
        ends = None
    return ends if ends is not None and _holds(dtype, ends) else None


def _ends(iv: IterVar) -> Interval:
    """Return constant ends of an axis; (None, None) for a possibly empty or unbounded axis."""
    if iv.dom is None or not isinstance(iv.dom.min, Expr) or not isinstance(iv.dom.max, Expr):
        return (None, None)
    low, high = bounds_of(iv.dom.min)[0], bounds_of(iv.dom.max)[1]
    return (None, None) if low is not None and high is not None and low > high else (low, high)


def _holds(dtype: str, ends: Ends) -> bool:
    low, high = dtypes.int_range(dtype)
    return low <= ends[0] and ends[1] <= high


def _reduced(body: Value, ranges: dict[IterVar, Interval], is_finished: bool) -> Ends | None:
    """Return the range of a reduction over any subset of the elements, in any order.

    Partial results are inside as well; initial values are, unless `is_finished`.
    """
    combiner, index = reduction_of(body).combiner, reduction_of(body).index
    terms = [range_of(e, ranges) if isinstance(e, Expr) else None for e in sources(body)]
    starts = [range_of(e, ranges) if isinstance(e, Expr) else None for e in initial(body) or combiner.identity]
    term, start = terms[index], starts[index]
    if term is None or start is None:
        return None
    if _is_sum(combiner, index):
        count = _most(ranges[iv] for iv in reduction_of(body).axis)
        return None if count is None else (start[0] + count * min(term[0], 0), start[1] + count * max(term[1], 0))
    types = [build.dtype_of(e) for e in sources(body)]
    some = is_finished and condition(body) is truth(True) and all(_has_points(iv) for iv in reduction_of(body).axis)
    if some and all(_stays_inside(combiner, index, terms, first, types) for first in (terms, starts)):
        return term
    either = [_hull(a, b) for a, b in zip(terms, starts, strict=True)]
    return either[index] if _stays_inside(combiner, index, either, either, types) else None


def _has_points(iv: IterVar) -> bool:
    """Return whether an axis is nonempty for all sizes."""
    if iv.dom is None or not isinstance(iv.dom.extent, Expr):
        return False
    least = bounds_of(iv.dom.extent)[0]
    return least is not None and least > 0


def _hull(a: Ends | None, b: Ends | None) -> Ends | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _is_sum(combiner: CommReducer, index: int) -> bool:
    result = combiner.results[index]
    return (
        isinstance(result, Expr)
        and result.op is ops.ADD
        and set(result.args) == {combiner.lhs[index], combiner.rhs[index]}
    )


def _most(spans: Iterable[Interval]) -> int | None:
    """Return the number of points of a box; `None` if unbounded."""
    total = 1
    for low, high in spans:
        if low is None or high is None:
            return None
        total *= high - low + 1
    return total


def _stays_inside(
    combiner: CommReducer, index: int, ends: Sequence[Ends | None], first: Sequence[Ends | None], types: Sequence[str]
) -> bool:
    """Return whether combining a value in `first` with one in `ends` yields a value in `ends`.

    Checks result `index` and, transitively, all results on which it depends.
    """
    number = {parameter: k for side in (combiner.lhs, combiner.rhs) for k, parameter in enumerate(side)}
    limits_of = [*zip(combiner.lhs, first, strict=True), *zip(combiner.rhs, ends, strict=True)]
    ranges = {parameter: limits for parameter, limits in limits_of if limits is not None}
    choices = [tuple(_choices(result)) for result in combiner.results]

    def stays(k: int) -> bool:
        limits = ends[k]
        if limits is None or not _holds(types[k], limits):
            return False
        results = (range_of(choice, ranges, number) if isinstance(choice, Expr) else None for choice in choices[k])
        return all(one is not None and limits[0] <= one[0] and one[1] <= limits[1] for one in results)

    needed = dag.reachable([index], lambda k: [number[v] for v in walk.variables(*choices[k]) if v in number])
    return all(map(stays, needed))


def _choices(root: Operand) -> Iterator[Operand]:
    """Yield the alternatives of nested selections by data; any other operand is its own alternative."""
    waiting = [root]
    while waiting:
        e = waiting.pop()
        if e.op is ops.LOAD and isinstance(e.data, IntFunction) and e.data.body.op is ops.SELECT:
            arguments = dict(zip(e.data.params, e.args, strict=True))
            waiting += [walk.substitute(choice, arguments) for choice in e.data.body.args[1:]]
        else:
            yield e
