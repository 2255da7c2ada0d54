"""What a padding is to hold: a number, `undef()`, or what a function of the new indices gives, in places `None`.

A function is called with variables for the indices. Python's own choices (`0 if j == 2 else None`) cannot be seen that
way; so where shapes are constant it is also called with every place of the padding, and that is what counts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor
from bound.tensor import element as element_of
from bound.tir import build, walk
from bound.tir.value import Operand, Value, ValueOp, constant
from bound.tir.walk import loaded_tensor, nodes
from intset.context import Context
from intset.domains.registry import strongest
from intset.errors import InputError
from intset.expr.build import cast, logical_and, logical_not, logical_or
from intset.expr.definedness import definedness
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import Cond, Expr, IntLike, PlainVar, Var, as_expr, const, constant_value, truth
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import free_vars, opaque_terms
from lowering.dataflow.accesses import reads_of
from lowering.errors import LayoutError
from lowering.layout.given import as_index, parameter_names
from lowering.layout.index_map import IndexMap
from lowering.layout.numbers import Number
from lowering.nest.undef import is_undef, undef, undefs
from lowering.nest.walk import variables

MAX_PLACES: Final = 4_096  # of a new shape in which a function is called with each place
MAX_VALUES: Final = 64  # different ones that it may give there
MAX_TRIED: Final = 256  # places that are tried of a larger shape
_FORMATS: Final = {"float16": "<e", "float32": "<f", "float64": "<d"}  # of no machine: too large is an error
_FAILS: Final = (InputError, TypeError, LookupError, ValueError, AttributeError)


class Subject(NamedTuple):
    """The tensor whose padding is spoken of.

    Attributes
    ----------
    what: how errors begin: "the padding of A in f".
    tensor: with the new shape; its storage counts from 0.
    map: to the new indices, which may begin elsewhere.
    where: on new indices, that they are among the places that are spoken of.
    sizes: what else a value may depend on, by name.
    """

    what: str
    tensor: Tensor
    map: IndexMap
    where: Callable[[Sequence[Expr]], Cond]
    sizes: dict[str, Var]


@dataclass(frozen=True)
class Filling:
    """What a padding holds.

    Attributes
    ----------
    places: variables for the new indices, as the map gives them.
    cases: conditions on them of which never two hold, each with the value there; where none holds nothing is said.
    """

    places: tuple[Var, ...]
    cases: tuple[tuple[Cond, Operand], ...]

    def at(self, place: Sequence[Expr]) -> list[tuple[Cond, Operand]]:
        """The cases at a place; each `undef()` in them is another one."""
        values = dict(zip(self.places, place, strict=True))
        return [(walk.rewrite(cond, values), _renewed(walk.rewrite(v, values))) for cond, v in self.cases]

    def is_told(self, place: Sequence[Expr]) -> Cond:
        """That the padding holds something at a place."""
        values = dict(zip(self.places, place, strict=True))
        return logical_or(*(walk.rewrite(cond, values) for cond, _ in self.cases))

    @property
    def reads(self) -> bool:
        """Whether a value is made of elements."""
        return any(loaded_tensor(node) is not None for _, value in self.cases for node in nodes(value))


def _renewed(value: Operand) -> Operand:
    old = list(undefs(value))
    return walk.rewrite(value, {node: undef(build.dtype_of(node)) for node in old}) if old else value


# -- elements of the tensor itself --------------------------------------------------------------------------------

_SUBJECT: ContextVar[tuple[str, Subject] | None] = ContextVar("_SUBJECT", default=None)


def element(name: str, indices: Sequence[IntLike]) -> Operand:
    """An element of the tensor whose padding a function gives, for `pad_value`: `element("A", (0, i))`.

    Parameters
    ----------
    name: of the tensor.
    indices: new ones, of an element that is no padding.

    Raises
    ------
    LayoutError: it is called elsewhere; the name is that of another tensor; the indices are no integers, or too many.
    """
    now = _SUBJECT.get()
    if now is None:
        raise LayoutError("element stands for an element only while pad_value is asked for the padding")
    own, subject = now
    if name != own:
        raise LayoutError(f"{subject.what} may only read {own} itself, not {shown(name)}")
    if isinstance(indices, (str, Expr)) or not isinstance(indices, Sequence) or len(indices) != subject.tensor.ndim:
        raise LayoutError(f"{subject.what} has {subject.tensor.ndim} indices, not those of {shown(indices)}")
    place = [as_index(e, f"index {k} of {name}") for k, e in enumerate(indices)]
    return element_of(subject.tensor, storage_place(subject.map, place))


def check_reads(filling: Filling, subject: Subject, is_meant: Callable[[Sequence[Expr]], Cond], ctx: Context) -> None:
    """Refuse values that read other elements than those that are meant.

    Parameters
    ----------
    is_meant: on places of the storage, that their elements may be read.

    Raises
    ------
    LayoutError: an element may be another one, or which it is depends on data.
    """
    axes = filling.places
    ranges: dict[Var, Range | None] = dict(zip(axes, subject.map.ranges, strict=True))
    for cond, value in filling.cases:
        here = ctx.extended(ranges=ranges, facts=[subject.where(axes), cond])
        for node, _, indices, ways in reads_of([value], lambda e: e):
            place = [e for e in indices if e is not None]
            if len(place) < len(indices):
                raise LayoutError(f"{subject.what} reads {shown(node)}, which depends on data")
            inside = [(e >= 0) & (e < extent) for e, extent in zip(place, subject.tensor.extents, strict=True)]
            for way in ways:
                proof = here.extended(facts=way.conditions).prove(logical_and(*inside, is_meant(place)))
                if proof:
                    continue
                values = proof.counterexample or {}
                at = ", ".join(f"{v.name} = {k}" for v, k in values.items() if isinstance(v, Var))
                why = f"at {at}" if at else f"as far as is known: {proof.reason}"
                raise LayoutError(f"{subject.what} would read padding: {shown(node)} {why}")


def storage_place(m: IndexMap, place: Sequence[Expr]) -> tuple[Expr, ...]:
    """Where new indices of a map lie in a storage that counts from 0."""
    return tuple(_plus(e, as_expr(limits.min), -1) for e, limits in zip(place, m.ranges, strict=True))


def own_place(m: IndexMap, place: Sequence[Expr]) -> tuple[Expr, ...]:
    """The new indices that the map has for a place of the storage."""
    return tuple(_plus(e, as_expr(limits.min), 1) for e, limits in zip(place, m.ranges, strict=True))


def _plus(e: Expr, low: Expr, sign: int) -> Expr:
    if constant_value(low) == 0:
        return e
    if e.is_const and low.is_const:
        return const(e.data + sign * low.data)
    answer: Expr = e + low if sign > 0 else e - low
    return answer


@contextmanager
def _speaking_of(subject: Subject) -> Iterator[None]:
    token = _SUBJECT.set((subject.tensor.name, subject))
    try:
        yield
    finally:
        _SUBJECT.reset(token)


# -- what is given ------------------------------------------------------------------------------------------------


def filling_of(given: Any, subject: Subject, ctx: Context) -> Filling:
    """What a user gives as `pad_value`.

    Parameters
    ----------
    given: `None`, a number, an `undef()`, or a function of the new indices that gives one of these, an expression of
        indices, sizes and elements of the tensor itself, or a list of pairs of a condition and such a value.
    ctx: what is known of sizes.

    Raises
    ------
    LayoutError: it is none of these, or a value that the tensor does not hold.
    """
    names = [f"i{k}" for k in range(len(subject.map.exprs))]
    if not callable(given):
        places = tuple(map(PlainVar, names))
        return Filling(places, tuple(_cases(given, subject, places, ctx)))
    names = parameter_names(given, len(names), f"{subject.what} has {{}} indices: pad_value")
    places = tuple(map(PlainVar, names))
    ranges: dict[Var, Range | None] = dict(zip(places, subject.map.ranges, strict=True))
    there = ctx.extended(ranges=ranges, facts=[subject.where(places)])
    with _speaking_of(subject):
        found = Filling(places, tuple(_of_function(given, subject, places, there)))
    for cond, value in found.cases:
        _check_defined(cond, value, subject.what, there)
    return found


def _check_defined(cond: Cond, value: Operand, what: str, ctx: Context) -> None:
    """Refuse a value that may divide by 0 where it counts."""
    inner = [arg for node in nodes(value) if isinstance(node, Value) for arg in node.args]
    whole = [part for part in (value, *inner) if isinstance(part, (Expr, Cond))]
    for need in definedness([cond]):
        if not ctx.prove(need):
            raise LayoutError(f"{what} is given by {cond!r}, which is not known to have a value where {need!r} fails")
    for need in definedness(whole):
        if not ctx.extended(facts=[cond]).prove(need):
            raise LayoutError(f"{what} is {shown(value)}, which is not known to have a value where {shown(need)} fails")


def _of_function(
    fn: Callable[..., object], subject: Subject, places: tuple[Var, ...], ctx: Context
) -> list[tuple[Cond, Operand]]:
    failure: Exception | None = None
    found: list[tuple[Cond, Operand]] = []
    try:
        found = _cases(fn(*places), subject, places, ctx)
    except LayoutError:
        raise
    except (*_FAILS, ArithmeticError) as error:
        failure = error
    listed = _places_of(subject)
    if listed is None:
        if failure is not None:
            raise LayoutError(
                f"{subject.what} is not known, as pad_value fails where indices are no numbers: {failure}"
            ) from failure
        for place in _some_places(subject):
            if not _agree(found, _tried(fn, subject, place, ctx), places, place):
                raise LayoutError(
                    f"pad_value gives something else at {place} than for indices in general: give a list of pairs of a "
                    "condition and a value"
                )
        return found
    at = {place: _at(fn, subject, place, ctx) for place in listed}
    if failure is None and all(_agree(found, one, places, place) for place, one in at.items()):
        return found
    return _grouped(at, subject, places, failure)


def _tried(
    fn: Callable[..., object], subject: Subject, place: tuple[int, ...], ctx: Context
) -> Operand | Exception | None:
    """What a function gives at a place that may not be spoken of."""
    try:
        return _at(fn, subject, place, ctx)
    except LayoutError as error:
        return error


def _at(
    fn: Callable[..., object], subject: Subject, place: tuple[int, ...], ctx: Context
) -> Operand | Exception | None:
    """What a function gives at one place: a value, `None`, or what it raised."""
    try:
        cases = _cases(fn(*map(Number, place)), subject, (), ctx)
    except LayoutError:
        raise
    except ArithmeticError as error:
        raise LayoutError(f"{subject.what} has no value at {place}: {error}") from error
    except _FAILS as error:
        return error
    if any(free_vars(cond) for cond, _ in cases):
        return InputError("a condition depends on a size")
    return next((value for cond, value in cases if evaluate(cond, {})), None)


def _agree(
    cases: list[tuple[Cond, Operand]],
    there: Operand | Exception | None,
    places: tuple[Var, ...],
    place: tuple[int, ...],
) -> bool:
    """Whether what was found in general is what is given at a place."""
    if isinstance(there, Exception):
        return True
    values = dict(zip(places, map(const, place), strict=True))
    here: Operand | None = None
    for cond, value in cases:
        at = walk.rewrite(cond, values)
        if free_vars(at):
            return True
        if evaluate(at, {}):
            here = walk.rewrite(value, values)
    if here is None or there is None:
        return here is there
    if is_undef(here) or is_undef(there):
        return is_undef(here) and is_undef(there)
    return _settled(here) is _settled(there)


def _settled(value: Operand) -> Operand:
    """A value with its integer parts in one form."""
    known = Context()
    parts = [node for node in nodes(value) if isinstance(node, Expr) and node.args and loaded_tensor(node) is None]
    new: dict[Operand, Operand] = {}
    for part in parts:
        new[part] = known.canonical(walk.rewrite(part, dict(new)))
    answer: Operand = walk.rewrite(value, new)
    return answer


def _grouped(
    at: dict[tuple[int, ...], Operand | Exception | None],
    subject: Subject,
    places: tuple[Var, ...],
    failure: Exception | None,
) -> list[tuple[Cond, Operand]]:
    """What a function gave at all places, by value."""
    groups: dict[Any, list[tuple[int, ...]]] = {}
    for place, value in at.items():
        if isinstance(value, Exception):
            raise LayoutError(f"{subject.what} is not known at {place}: {value}") from (failure or value)
        if value is not None:
            groups.setdefault("undef" if is_undef(value) else _settled(value), []).append(place)
    if len(groups) > MAX_VALUES:
        raise LayoutError(
            f"{subject.what} has more than {MAX_VALUES} values that a choice in Python decides: give a list of pairs "
            "of a condition and a value"
        )
    kind = strongest().everything(0)
    found = []
    for value, where in groups.items():
        cond = kind.listing(sorted(where), (), len(places)).condition(places)
        found.append((cond, undef(subject.tensor.dtype) if isinstance(value, str) else value))
    return found


def _places_of(subject: Subject) -> list[tuple[int, ...]] | None:
    """The places that are spoken of; `None` where they are many, or not known."""
    ends = [limits.ends for limits in subject.map.ranges]
    if any(end is None for end in ends) or subject.map.sizes:
        return None
    box = [range(low, high + 1) for low, high in (end for end in ends if end is not None)]
    if math.prod(len(side) for side in box) > MAX_PLACES:
        return None
    variables = tuple(PlainVar(f"y{k}") for k in range(len(box)))
    cond = subject.where(variables)
    if any(v not in variables for v in free_vars(cond)):
        return None
    is_meant = compiled(cond, variables)
    return [place for place in product(*box) if is_meant(*place)]


def _some_places(subject: Subject) -> Iterator[tuple[int, ...]]:
    sides: list[list[int]] = []
    for limits in subject.map.ranges:
        low, high = limits.ends or (0, 3)
        sides.append(sorted({low, low + 1, (low + high) // 2, high - 1, high} & set(range(low, high + 1))))
    for k, place in enumerate(product(*sides)):
        if k == MAX_TRIED:
            return
        yield place


# -- values -------------------------------------------------------------------------------------------------------


def _cases(given: Any, subject: Subject, places: tuple[Var, ...], ctx: Context) -> list[tuple[Cond, Operand]]:
    if given is None:
        return []
    if not isinstance(given, list):
        return [(truth(True), _value(given, subject, places, ctx))]
    found: list[tuple[Cond, Operand]] = []
    before: list[Cond] = []
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Cond | bool):
            raise LayoutError(f"{subject.what} is given by pairs of a condition and a value, not by {shown(pair)}")
        cond, value = pair
        cond = truth(cond) if isinstance(cond, bool) else _in_own_sizes(cond, subject, places)
        if value is not None:
            found.append((logical_and(cond, *map(logical_not, before)), _value(value, subject, places, ctx)))
        before.append(cond)
    return found


def _value(given: Any, subject: Subject, places: tuple[Var, ...], ctx: Context) -> Operand:
    """One value, of the type of the tensor."""
    dtype = subject.tensor.dtype
    plain = given
    if not isinstance(given, (Expr, Cond, Value)) and getattr(given, "shape", None) == ():  # a number of numpy
        plain = given.item()
    if isinstance(plain, Expr) and not free_vars(plain) and not opaque_terms(plain):
        plain = int(evaluate(plain, {}))
    if isinstance(plain, Value) and plain.op is ValueOp.CONST:
        plain = plain.data
    if isinstance(plain, (bool, int, float)):
        return number(plain, dtype, subject.what)
    if not isinstance(plain, (Expr, Cond, Value)):
        what = "is a number, undef(), None, or a function that gives these"
        raise LayoutError(f"{subject.what} {what}, not {shown(given)}")
    if is_undef(plain):
        return undef(dtype)
    value = _in_own_sizes(plain, subject, places)
    for node in nodes(value):
        tensor = loaded_tensor(node)
        if tensor is not None and tensor is not subject.tensor:
            own = subject.tensor.name
            other = "another" if tensor.name == own else tensor.name
            raise LayoutError(f"{subject.what} may only read {own} itself, by element({shown(own)}, ...), not {other}")
    return _of_type(value, subject, ctx)


def _in_own_sizes(value: walk.Part, subject: Subject, places: tuple[Var, ...]) -> walk.Part:
    known = {*places, *subject.sizes.values(), *subject.map.ctx.ranges}
    new: dict[Var, Var] = {}
    for v in variables(value):
        if v in known:
            continue
        label = v.name if isinstance(v, Var) else str(v.data[0])
        if not isinstance(v, Var) or label not in subject.sizes:
            raise LayoutError(f"{subject.what} depends on {label}, which is neither one of its indices nor a size")
        new[v] = subject.sizes[label]
    return walk.rewrite(value, new) if new else value


def number(given: Any, dtype: str, what: str) -> Operand:
    """A number as an element of a type holds it.

    Raises
    ------
    LayoutError: no element does.
    """
    refusal = LayoutError(f"{what} cannot be {shown(given)}, which {dtype} does not hold")
    if isinstance(given, bool) or dtype == "bool":
        if dtype != "bool" or not isinstance(given, bool):
            raise refusal
        return truth(given)
    if dtypes.is_int(dtype):
        low, high = dtypes.int_range(dtype)
        if not low <= given <= high or given != int(given):
            raise refusal
        return const(int(given))
    try:
        held: float = struct.unpack(_FORMATS[dtype], struct.pack(_FORMATS[dtype], float(given)))[0]
    except (OverflowError, struct.error):
        raise refusal from None
    return constant(held, dtype)


def _of_type(value: Operand, subject: Subject, ctx: Context) -> Operand:
    dtype = subject.tensor.dtype
    if build.is_truth(value) != (dtype == "bool"):
        raise LayoutError(f"{subject.what} cannot be {shown(value)}, which {dtype} does not hold")
    if dtypes.is_int(dtype):
        if not isinstance(value, Expr):
            raise LayoutError(f"{subject.what} cannot be {shown(value)}, which {dtype} does not hold")
        return value if loaded_tensor(value) is not None else _held_integer(value, subject, ctx)
    return value if dtype == "bool" else build.cast(dtype, value)


def _held_integer(value: Expr, subject: Subject, ctx: Context) -> Expr:
    """An integer expression, as an element holds it."""
    dtype = subject.tensor.dtype
    low, high = dtypes.int_range(dtype)
    proof = ctx.prove((value >= low) & (value <= high))
    if proof:
        return value
    is_any_size = subject.map.sizes or any(v in subject.sizes.values() for v in free_vars(value))
    if proof.status == "refuted" and not opaque_terms(value) and not is_any_size:
        raise LayoutError(f"{subject.what} cannot be {shown(value)}, which {dtype} does not hold everywhere")
    return cast(value, dtypes.bits(dtype), dtypes.signed(dtype))
