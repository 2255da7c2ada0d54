"""isl's sets and maps, as objects of islpy or as text, both ways, existentially quantified variables included.

Parameters of isl are variables here, by name. Names of tuples (`S[i, j]`) and nesting are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, overload

import islpy

from intset.domains.isl import session
from intset.domains.isl.presburger import IslShape, declared
from intset.domains.isl.translate import param_name, pw_aff_to_expr, simplified
from intset.domains.sets.region import Region, Relation, region_of_shape
from intset.errors import InputError, UndecidedError
from intset.expr import Expr, Var, arguments, shown
from intset.expr.convert import isl_names, isl_set

IslSet: TypeAlias = "islpy.BasicSet | islpy.Set | islpy.UnionSet"
IslMap: TypeAlias = "islpy.BasicMap | islpy.Map | islpy.UnionMap"
Read = TypeVar("Read", islpy.Set, islpy.Map, islpy.PwAff)
_SETS: Final = (islpy.BasicSet, islpy.Set, islpy.UnionSet)
_MAPS: Final = (islpy.BasicMap, islpy.Map, islpy.UnionMap)
_FUNCTIONS: Final = (islpy.Aff, islpy.PwAff)
_PARAM: Final = islpy.dim_type.param


def region(source: IslSet | str, params: Mapping[str, Var] | None = None) -> Region:
    """The region of an isl set, exact.

    Parameters
    ----------
    source: a set of islpy, or its text: `[n] -> { [i] : exists e: i = 2e and 0 <= i < n }`.
    params: variables for parameters, by name; any other parameter becomes a `Var` of its name.

    Raises
    ------
    InputError: the text is no set, a union of sets in several spaces, or a set of rational points.

    >>> evens = region("[n] -> { S[i] : exists e : i = 2e and 0 <= i < n }")
    >>> (n,) = evens.params
    >>> evens.at({n: 9}).count()
    5
    """
    return _region(_read(islpy.Set, source, _SETS, "set"), {} if params is None else params)


def relation(source: IslMap | str, params: Mapping[str, Var] | None = None) -> Relation:
    """The relation of an isl map, exact; the parameters are those of `region`.

    >>> relation("{ [i] -> [i + 1] : 0 <= i < 4 }").contains((3,), (4,))
    True
    """
    found = _read(islpy.Map, source, _MAPS, "map")
    sources = found.dim(islpy.dim_type.in_)
    return Relation(_region(found.wrap(), {} if params is None else params), sources)


def piecewise(
    source: islpy.PwAff | islpy.Aff | str, dims: Sequence[Expr], params: Mapping[str, Var] | None = None
) -> Expr:
    """The value of a piecewise quasi-affine function of isl at coordinates `dims`; undefined outside its domain.

    Raises
    ------
    InputError: invalid text, a wrong number of dimensions, an empty domain, or fractional values (`floor` rounds
        them).
    """
    function = _read(islpy.PwAff, source, _FUNCTIONS, "piecewise affine function")
    pieces = function.get_pieces()
    if not pieces:
        raise InputError("the function is defined nowhere")
    for _, piece in pieces:
        if piece.is_nan() or not piece.get_denominator_val().is_one():
            raise InputError(f"the value of a piece is no integer: {shown(str(piece)[:80])}")
    if function.dim(islpy.dim_type.in_) != len(dims):
        raise InputError(f"the function has {function.dim(islpy.dim_type.in_)} dimensions, not {len(dims)}")
    names = _names(function)
    variables = _variables(names, {} if params is None else params)
    read = session.isl().PwAff.read_from_str(session.context(), str(function))
    value = pw_aff_to_expr(read, list(dims), [variables[name] for name in names])
    if value is None:
        raise InputError(f"the function has a piece that no condition describes: {shown(str(function)[:80])}")
    return value


@overload
def to_isl(points: Region, names: Mapping[Var, str] | None = None) -> islpy.Set: ...
@overload
def to_isl(points: Relation, names: Mapping[Var, str] | None = None) -> islpy.Map: ...
def to_isl(points: Region | Relation, names: Mapping[Var, str] | None = None) -> islpy.Set | islpy.Map:
    """The set of a region or the map of a relation, in islpy's default context. Its `str()` is isl's text.

    Bounds that sizes declare are not among the constraints.

    Parameters
    ----------
    names: names of parameters; any other parameter has its variable's name, with `_` for what isl's names lack and
        behind isl's own words.

    Raises
    ------
    InputError: two parameters of one name, or a region that is no Presburger set.
    UndecidedError: the region is a superset of the true set.
    """
    if isinstance(points, Relation):
        flat = islpy.Map.from_range(to_isl(points.pairs, names))
        return flat.move_dims(islpy.dim_type.in_, 0, islpy.dim_type.out, 0, points.sources)
    arguments.of_kind(Region, points, "the points", "a Region or a Relation")
    if not points.is_exact:
        raise UndecidedError("the region is a superset: isl would take it for the true set")
    shape = points.shape
    if isinstance(shape, IslShape) and all(isinstance(param, Var) for param in shape.params):
        found = _itself(shape, isl_names(points.params, names))
        return _read(islpy.Set, str(found), _SETS, "set") if names else found  # isl may refuse a name of the caller
    dims = [Var(f"d{k}") for k in range(points.dims)]
    return _read(islpy.Set, isl_set(points.constraints(dims), dims, points.params, names), _SETS, "set")


def _itself(shape: IslShape, names: Mapping[Var, str]) -> islpy.Set:
    """The set of a shape, its parameters renamed, without what these declare."""
    found = islpy.Set(str(simplified(shape.get(), declared(shape))) if names else shape.text())
    for param, name in names.items():
        at = found.find_dim_by_name(_PARAM, param_name(param))
        found = found if at < 0 else found.set_dim_name(_PARAM, at, name)
    return found


def _read(kind: type[Read], source: object, kinds: tuple[type[object], ...], what: str) -> Read:
    """The set, map or function that a text or an object of islpy is."""
    if not isinstance(source, (str, *kinds)):
        raise InputError(f"a {what} of islpy or its text is expected, not {shown(source)}")
    text = str(source)
    try:
        return kind(text)
    except islpy.Error as error:
        reason = "" if "syntax error" not in str(error) else ": syntax error"
        raise InputError(f"isl reads no {what} in one space from {shown(text[:80])}{reason}") from None


def _region(found: islpy.Set, params: Mapping[str, Var]) -> Region:
    if any(part.is_rational() for part in found.get_basic_sets()):
        raise InputError(f"the points of a set must be integers, not rational numbers: {shown(str(found)[:80])}")
    flat = (found.flatten() if found.is_wrapping() else found).reset_tuple_id()
    read = session.isl().Set.read_from_str(session.context(), str(flat))
    names = _names(flat)
    variables = _variables(names, params)
    for k, name in enumerate(names):
        read = read.set_dim_name(session.isl().dim_type.param, k, param_name(variables[name]))
    answer = region_of_shape(IslShape(read, tuple(variables.values())), True)
    called = [flat.get_dim_name(islpy.dim_type.set, k) for k in range(flat.dim(islpy.dim_type.set))]
    answer.point = tuple(Var(str(name)) for name in called) if all(called) else ()
    return answer


def _names(points: islpy.Set | islpy.PwAff) -> list[str]:
    return [str(points.get_dim_name(_PARAM, k)) for k in range(points.dim(_PARAM))]


def _variables(names: Sequence[str], given: Mapping[str, Var]) -> dict[str, Var]:
    known = arguments.mapped(given, "params", "a mapping from names to variables")
    for name in known:
        arguments.a_name(name, "a key of params")
    return {
        name: arguments.of_kind(Var, known[name] if name in known else Var(name), f"params[{name!r}]") for name in names
    }


__all__ = ["piecewise", "region", "relation", "to_isl"]
