"""The value of a padding, as a user states it: a number, `undef()`, or a function of the new indices.

A function is first called with variables for the indices. A choice in Python (`0 if j == 2 else None`) cannot be seen
that way; so for constant shapes the function is also called at every point of the padding, and those results count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final, NamedTuple, TypeAlias

from bound import dtypes
from bound.schedule import simple
from bound.tensor import Tensor
from bound.tensor import element as element_of
from bound.tir import build, walk
from bound.tir.value import NUMBER, Operand, Value, constant
from bound.tir.walk import loaded_tensor, nodes
from intset.context import Context
from intset.domains.registry import strongest
from intset.errors import InputError
from intset.expr import Cond, Expr, IntLike, Range, Var, as_expr, const, dag, shown
from intset.expr.build import cast, logical_and, logical_not, logical_or
from intset.expr.definedness import definedness
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import PlainVar, truth
from lowering.dataflow.program import reads_of
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap, IndexNumber, as_index, parameter_names
from lowering.nest import ir
from lowering.nest.names import label_of
from lowering.nest.walk import variables

MAX_POINTS: Final = 4_096  # largest number of points at which `pad_value` is called exhaustively
MAX_VALUES: Final = 64  # different values that it may return there
MAX_SAMPLES: Final = 256  # points at which a function is called in a larger shape
IntPoint: TypeAlias = tuple[int, ...]
Cases: TypeAlias = list[tuple[Cond, Operand]]
Result: TypeAlias = "Operand | Exception | None"  # of a call at a point; an exception is what the function raised
_FAILURES: Final = (InputError, TypeError, LookupError, ValueError, AttributeError)


class Subject(NamedTuple):
    """The elements whose value is stated.

    Attributes
    ----------
    what: the subject of error messages: "the padding of A in f".
    tensor: the tensor in its new shape; its storage begins at 0.
    map: the map to its new indices, which may begin elsewhere.
    where: the condition that selects the elements, as a function of the new indices.
    sizes: the sizes on which a value may depend, by name.
    """

    what: str
    tensor: Tensor
    map: IndexMap
    where: Callable[[Sequence[Expr]], Cond]
    sizes: dict[str, Var]

    def inside(self, indices: Sequence[Var], ctx: Context, *facts: Cond) -> Context:
        """A context in which the indices select an element."""
        ranges: dict[Var, Range | None] = dict(zip(indices, self.map.ranges, strict=True))
        return ctx.extended(ranges=ranges, facts=[self.where(indices), *facts])


@dataclass(frozen=True)
class Filling:
    """The values of a padding.

    Invariant: conditions are mutually exclusive; where none holds, nothing is stated.

    Attributes
    ----------
    places: variables for the new indices of the map.
    cases: pairs of a condition on these variables and a value.
    """

    places: tuple[Var, ...]
    cases: tuple[tuple[Cond, Operand], ...]

    def at(self, indices: Sequence[Expr]) -> Cases:
        """The cases at some indices; every `undef()` is a new one."""
        values = dict(zip(self.places, indices, strict=True))
        new = [(walk.rewrite(cond, values), walk.rewrite(value, values)) for cond, value in self.cases]
        return [(cond, walk.rewrite(v, {u: ir.undef(build.dtype_of(u)) for u in ir.undefs(v)})) for cond, v in new]

    def has_value(self, indices: Sequence[Expr]) -> Cond:
        """The condition that a value is stated at some indices."""
        values = dict(zip(self.places, indices, strict=True))
        return logical_or(*(walk.rewrite(cond, values) for cond, _ in self.cases))

    @property
    def reads(self) -> bool:
        """Whether a value reads elements."""
        return any(loaded_tensor(node) is not None for _, value in self.cases for node in nodes(value))


# -- elements of the tensor itself --------------------------------------------------------------------------------

_SUBJECT: ContextVar[Subject | None] = ContextVar("_SUBJECT", default=None)


def element(name: str, indices: Sequence[IntLike]) -> Operand:
    """An element of the tensor whose padding a `pad_value` function states: `element("A", (0, i))`.

    Parameters
    ----------
    name: the name of the tensor.
    indices: new indices of an element outside the padding.

    Raises
    ------
    LayoutError: called outside a `pad_value` function; `name` is another tensor's; the indices are too many, too few or
        no integers.
    """
    subject = _SUBJECT.get()
    if subject is None:
        raise LayoutError("element stands for an element only while pad_value is asked for the padding")
    tensor = subject.tensor
    if name != tensor.name:
        raise LayoutError(f"{subject.what} may only read {tensor.name} itself, not {shown(name)}")
    if isinstance(indices, (str, Expr)) or not isinstance(indices, Sequence) or len(indices) != tensor.ndim:
        raise LayoutError(f"{subject.what} has {tensor.ndim} indices, not those of {shown(indices)}")
    new = [as_index(e, f"index {k} of {name}") for k, e in enumerate(indices)]
    return element_of(tensor, storage_indices(subject.map, new))


def check_reads(filling: Filling, subject: Subject, may_read: Callable[[Sequence[Expr]], Cond], ctx: Context) -> None:
    """Raise `LayoutError` if a value may read an element that it must not, or if data decides which it reads.

    Parameters
    ----------
    may_read: the condition on storage indices that the element may be read.
    """
    for cond, value in filling.cases:
        inside = subject.inside(filling.places, ctx, cond)
        for node, _, indices, ways in reads_of([value], lambda e: e):
            known = [e for e in indices if e is not None]
            if len(known) < len(indices):
                raise LayoutError(f"{subject.what} reads {shown(node)}, which depends on data")
            in_bounds = [(e >= 0) & (e < extent) for e, extent in zip(known, subject.tensor.extents, strict=True)]
            for way in ways:
                proof = inside.extended(facts=way.conditions).prove(logical_and(*in_bounds, may_read(known)))
                if proof:
                    continue
                values = proof.counterexample or {}
                at = ", ".join(f"{v.name} = {k}" for v, k in values.items() if isinstance(v, Var))
                why = f"at {at}" if at else f"as far as is known: {proof.reason}"
                raise LayoutError(f"{subject.what} would read padding: {shown(node)} {why}")


def storage_indices(m: IndexMap, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices into storage, which begins at 0, for new indices of a map."""
    return tuple(simple.sub(e, as_expr(limits.min)) for e, limits in zip(indices, m.ranges, strict=True))


def map_indices(m: IndexMap, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The new indices of a map for indices into storage, which begins at 0."""
    return tuple(simple.add(e, as_expr(limits.min)) for e, limits in zip(indices, m.ranges, strict=True))


# -- the value of a function --------------------------------------------------------------------------------------


def filling_of(value: Any, subject: Subject, ctx: Context) -> Filling:
    """The filling that a user passes as `pad_value`.

    Parameters
    ----------
    value: `None`, a number or `undef()`; or a function of the new indices. A function may also return an expression of
        indices, sizes and elements of the tensor, or a list of (condition, value) pairs.
    ctx: what is known of sizes.

    Raises
    ------
    LayoutError: `value` is of another kind, or the tensor's type does not represent it.
    """
    names = [f"i{k}" for k in range(len(subject.map.exprs))]
    if not callable(value):
        places = tuple(map(PlainVar, names))
        return Filling(places, tuple(_cases(value, subject, places, ctx)))
    names = parameter_names(value, len(names), f"{subject.what} has {{}} indices: pad_value")
    places = tuple(map(PlainVar, names))
    inside = subject.inside(places, ctx)
    token = _SUBJECT.set(subject)
    try:
        filling = Filling(places, tuple(_cases_of_function(value, subject, places, inside)))
    finally:
        _SUBJECT.reset(token)
    for cond, result in filling.cases:
        _check_defined(cond, result, subject.what, inside)
    return filling


def _check_defined(cond: Cond, value: Operand, what: str, ctx: Context) -> None:
    """Raise `LayoutError` if a condition may divide by 0, or its value where the condition holds."""
    inner = [arg for node in nodes(value) if isinstance(node, Value) for arg in node.args]
    integers = [part for part in (value, *inner) if isinstance(part, (Expr, Cond))]
    for requirement in definedness([cond]):
        if not ctx.prove(requirement):
            raise LayoutError(
                f"{what} is given by {cond!r}, which is not known to have a value where {requirement!r} fails"
            )
    for requirement in definedness(integers):
        if not ctx.extended(facts=[cond]).prove(requirement):
            raise LayoutError(
                f"{what} is {shown(value)}, which is not known to have a value where {shown(requirement)} fails"
            )


def _cases_of_function(fn: Callable[..., object], subject: Subject, places: tuple[Var, ...], ctx: Context) -> Cases:
    """The cases for symbolic indices, if every point called agrees with them; else the results at all points."""
    failure: Exception | None = None
    cases: Cases = []
    try:
        cases = _cases(fn(*places), subject, places, ctx)
    except LayoutError:
        raise
    except (*_FAILURES, ArithmeticError) as error:
        failure = error
    points = _all_points(subject)
    if points is not None:
        results = {point: _result_at(fn, subject, point, ctx) for point in points}
        if failure is None and all(_agree(cases, result, places, point) for point, result in results.items()):
            return cases
        return _cases_by_value(results, subject, places, failure)
    if failure is not None:
        raise LayoutError(
            f"{subject.what} is not known, as pad_value fails where indices are no numbers: {failure}"
        ) from failure
    for point in _sample_points(subject):
        try:
            result = _result_at(fn, subject, point, ctx)
        except LayoutError:
            continue  # the point may lie outside the padding
        if not _agree(cases, result, places, point):
            raise LayoutError(
                f"pad_value gives something else at {point} than for indices in general: give a list of pairs of a "
                "condition and a value"
            )
    return cases


def _result_at(fn: Callable[..., object], subject: Subject, point: IntPoint, ctx: Context) -> Result:
    """The value that a function returns at a point, or the exception that it raises."""
    try:
        cases = _cases(fn(*map(IndexNumber, point)), subject, (), ctx)
    except LayoutError:
        raise
    except ArithmeticError as error:
        raise LayoutError(f"{subject.what} has no value at {point}: {error}") from error
    except _FAILURES as error:
        return error
    if any(dag.free_vars(cond) for cond, _ in cases):
        return InputError("a condition depends on a size")
    return next((value for cond, value in cases if evaluate(cond, {})), None)


def _agree(cases: Cases, result: Result, places: tuple[Var, ...], point: IntPoint) -> bool:
    """Whether symbolic cases have the result that a function returned at a point, as far as both are decided."""
    if isinstance(result, Exception):
        return True
    values = dict(zip(places, map(const, point), strict=True))
    expected: Operand | None = None
    for cond, value in cases:
        holds = walk.rewrite(cond, values)
        if dag.free_vars(holds):
            return True
        if evaluate(holds, {}):
            expected = walk.rewrite(value, values)
    if expected is None or result is None:
        return expected is result
    if ir.is_undef(expected) or ir.is_undef(result):
        return ir.is_undef(expected) and ir.is_undef(result)
    return _canonical(expected) is _canonical(result)


def _canonical(value: Operand) -> Operand:
    """A value with its integer parts in canonical form."""
    ctx = Context()
    new: dict[Operand, Operand] = {}
    for part in [node for node in nodes(value) if isinstance(node, Expr) and node.args and loaded_tensor(node) is None]:
        new[part] = ctx.canonical(walk.rewrite(part, dict(new)))
    return walk.rewrite(value, new)


def _cases_by_value(
    results: dict[IntPoint, Result], subject: Subject, places: tuple[Var, ...], failure: Exception | None
) -> Cases:
    """One case for each value that a function returned, whose condition lists the points."""
    groups: dict[Any, list[IntPoint]] = {}
    for point, value in results.items():
        if isinstance(value, Exception):
            raise LayoutError(f"{subject.what} is not known at {point}: {value}") from (failure or value)
        if value is not None:
            groups.setdefault("undef" if ir.is_undef(value) else _canonical(value), []).append(point)
    if len(groups) > MAX_VALUES:
        raise LayoutError(
            f"{subject.what} has more than {MAX_VALUES} values that a choice in Python decides: give a list of pairs "
            "of a condition and a value"
        )
    sets = strongest().everything(0)
    return [
        (
            sets.listing(sorted(points), (), len(places)).condition(places),
            ir.undef(subject.tensor.dtype) if isinstance(value, str) else value,
        )
        for value, points in groups.items()
    ]


def _all_points(subject: Subject) -> list[IntPoint] | None:
    """The points meant; `None` if they exceed `MAX_POINTS` or depend on sizes."""
    ends = [limits.ends for limits in subject.map.ranges]
    if any(end is None for end in ends) or subject.map.sizes:
        return None
    box = [range(low, high + 1) for low, high in (end for end in ends if end is not None)]
    if math.prod(map(len, box)) > MAX_POINTS:
        return None
    axes = tuple(PlainVar(f"y{k}") for k in range(len(box)))
    cond = subject.where(axes)
    if any(v not in axes for v in dag.free_vars(cond)):
        return None
    is_meant = compiled(cond, axes)
    return [point for point in product(*box) if is_meant(*point)]


def _sample_points(subject: Subject) -> Iterator[IntPoint]:
    """Corners, their neighbours and midpoints of the new box."""
    ends = (limits.ends or (0, 3) for limits in subject.map.ranges)
    candidates = [{*range(low, high + 1)} & {low, low + 1, (low + high) // 2, high - 1, high} for low, high in ends]
    return islice(product(*map(sorted, candidates)), MAX_SAMPLES)


# -- values -------------------------------------------------------------------------------------------------------


def _cases(stated: Any, subject: Subject, places: tuple[Var, ...], ctx: Context) -> Cases:
    """A value as cases; in a list of pairs, each condition excludes all earlier conditions."""
    if stated is None:
        return []
    if not isinstance(stated, list):
        return [(truth(True), _value(stated, subject, places, ctx))]
    cases: Cases = []
    before: list[Cond] = []
    for pair in stated:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Cond | bool):
            raise LayoutError(f"{subject.what} is given by pairs of a condition and a value, not by {shown(pair)}")
        stated_cond, value = pair
        plain = truth(stated_cond) if isinstance(stated_cond, bool) else stated_cond
        cond = in_own_sizes(plain, places, subject.map, subject.sizes, subject.what)
        if value is not None:
            cases.append((logical_and(cond, *map(logical_not, before)), _value(value, subject, places, ctx)))
        before.append(cond)
    return cases


def _value(stated: Any, subject: Subject, places: tuple[Var, ...], ctx: Context) -> Operand:
    """One value, in the type of the tensor."""
    dtype = subject.tensor.dtype
    plain = stated
    if not isinstance(stated, (Expr, Cond, Value)) and getattr(stated, "shape", None) == ():  # a numpy scalar
        plain = stated.item()
    if isinstance(plain, Expr) and not dag.free_vars(plain) and not dag.opaque_terms(plain):
        plain = int(evaluate(plain, {}))
    if isinstance(plain, Value) and plain.op is NUMBER:
        plain = plain.data
    if isinstance(plain, (bool, int, float)):
        return number(plain, dtype, subject.what)
    if not isinstance(plain, (Expr, Cond, Value)):
        what = "is a number, undef(), None, or a function that gives these"
        raise LayoutError(f"{subject.what} {what}, not {shown(stated)}")
    if ir.is_undef(plain):
        return ir.undef(dtype)
    value = in_own_sizes(plain, places, subject.map, subject.sizes, subject.what)
    for node in nodes(value):
        tensor = loaded_tensor(node)
        if tensor is not None and tensor is not subject.tensor:
            own = subject.tensor.name
            other = "another" if tensor.name == own else tensor.name
            raise LayoutError(f"{subject.what} may only read {own} itself, by element({shown(own)}, ...), not {other}")
    return _in_type(value, subject, ctx)


def in_own_sizes(value: walk.Part, places: tuple[Var, ...], m: IndexMap, sizes: dict[str, Var], what: str) -> walk.Part:
    """Replace each size in a value or condition on the indices `places` of a map by the function's size of that name.

    Raises
    ------
    LayoutError: another variable; the message begins with `what`.
    """
    known = {*places, *sizes.values(), *m.ctx.ranges}
    new: dict[Var, Var] = {}
    for v in variables(value):
        if v in known:
            continue
        if not isinstance(v, Var) or v.name not in sizes:
            raise LayoutError(f"{what} depends on {label_of(v)}, which is neither one of its indices nor a size")
        new[v] = sizes[v.name]
    return walk.rewrite(value, new) if new else value


def number(value: Any, dtype: str, what: str) -> Operand:
    """A number as a constant of a type.

    Raises
    ------
    LayoutError: the type does not represent it; the message begins with `what`.
    """
    refusal = _not_representable(what, value, dtype)
    if isinstance(value, bool) or dtype == "bool":
        if dtype != "bool" or not isinstance(value, bool):
            raise refusal
        return truth(value)
    if dtypes.is_int(dtype):
        low, high = dtypes.int_range(dtype)
        if not low <= value <= high or value != int(value):
            raise refusal
        return const(int(value))
    rounded = dtypes.rounded(value, dtype)
    if not math.isfinite(rounded) and value == value and rounded != value:  # numpy would overflow without an error
        raise refusal
    return constant(rounded, dtype)


def _not_representable(what: str, value: object, dtype: str) -> LayoutError:
    return LayoutError(f"{what} cannot be {shown(value)}, which {dtype} does not hold")


def _in_type(value: Operand, subject: Subject, ctx: Context) -> Operand:
    """A value converted to the tensor's type; an integer is wrapped unless it is proved to fit."""
    dtype = subject.tensor.dtype
    is_int = dtypes.is_int(dtype)
    if build.is_truth(value) != (dtype == "bool") or (is_int and not isinstance(value, Expr)):
        raise _not_representable(subject.what, value, dtype)
    if not is_int:
        return value if dtype == "bool" else build.cast(dtype, value)
    assert isinstance(value, Expr)
    low, high = dtypes.int_range(dtype)
    proof = ctx.prove((value >= low) & (value <= high)) if loaded_tensor(value) is None else None
    if proof is None or proof:
        return value
    has_sizes = subject.map.sizes or any(v in subject.sizes.values() for v in dag.free_vars(value))
    if proof.status == "refuted" and not dag.opaque_terms(value) and not has_sizes:
        raise LayoutError(f"{subject.what} cannot be {shown(value)}, which {dtype} does not hold everywhere")
    return cast(value, dtypes.bits(dtype), dtypes.signed(dtype))
