"""Values of sizes and scalars from the arrays that are passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from intset.errors import InputError
from intset.expr.arguments import mapped
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Var, as_int
from intset.expr.text import shown
from intset.expr.walk import opaque_terms, without_assertions
from lowering.nest.ir import Assert, Function, ShapeOf
from lowering.nest.walk import statements

_SEARCHED: Final = 1 << 16  # how many values are tried for a size that stands in a shape in a nonlinear way

Shapes = dict[Tensor, tuple[int, ...]]


def by_tensor(f: Function, arrays: Mapping[Any, Any]) -> dict[Tensor, Any]:
    """The arrays by parameter: a key is the parameter, its name, or the tensor of the script it stands for."""
    if not isinstance(arrays, Mapping):
        raise InputError(f"run takes arrays by tensor or name, a mapping, not a {type(arrays).__name__}")
    names: dict[Any, Tensor] = {**f.labels, **{t.name: t for t in f.params}, **{t: t for t in f.params}}
    found: dict[Tensor, Any] = {}
    for key, array in arrays.items():
        if key not in names:
            label = key.name if isinstance(key, Tensor) else shown(key)
            known = ", ".join(t.name for t in f.params)
            raise InputError(f"{label} is no parameter of {f.name}: the parameters are {known}")
        found[names[key]] = array
    return found


def bound_values(
    f: Function, arrays: Mapping[Tensor, Any], sizes: Mapping[Any, Any] | None
) -> tuple[tuple[Any, ...], Shapes]:
    """The values of `f.sizes` and `f.scalars`, and the shape of each parameter.

    A size is what `sizes` says, else what makes a shape equal to that of its array: first where it stands alone as an
    extent, then by solving for it.

    Raises
    ------
    InputError: an array has the wrong number of dimensions or a wrong constant extent, or a size is not determined.
    """
    sizes = {} if sizes is None else mapped(sizes, "sizes", "a mapping {size: integer}")
    given: dict[Tensor, tuple[int, ...]] = {}
    for tensor in f.params:
        if tensor in arrays:
            given[tensor] = _shape_of(tensor, arrays[tensor])
        elif tensor not in f.outputs:
            raise InputError(f"the array for {tensor.name} is missing")
    known = {var: as_int(value, f"the size {var.name}") for var in f.sizes if (value := _find(var, sizes)) is not None}
    pairs = [
        (without_assertions(e), actual)
        for t, shape in given.items()
        for e, actual in zip(t.extents, shape, strict=True)
    ]
    for extent, actual in pairs:
        if isinstance(extent, Var) and extent not in known:
            known[extent] = actual
    progress = True
    while progress:
        progress = False
        for extent, actual in pairs:
            unknown = [var for var in extent.free_vars() if var not in known]
            if len(unknown) == 1 and (value := _solved(extent, unknown[0], known, actual)) is not None:
                known[unknown[0]] = value
                progress = True
    missing = [var.name for var in f.sizes if var not in known]
    if missing:
        raise InputError(f"the size {missing[0]} is not determined by the shapes of the arrays: pass it in sizes")
    shapes = {t: given[t] if t in given else _computed(t, known) for t in f.params}
    _compare(f, given, known)
    scalars = [_scalar(p, sizes) for p in f.scalars]
    return (*(known[var] for var in f.sizes), *scalars), shapes


def _compare(f: Function, given: Mapping[Tensor, tuple[int, ...]], known: Mapping[Var, int]) -> None:
    """Refuse arrays of other shapes than their tensors; of those that the nest checks itself it says what is wrong."""
    asserted = {
        term.data.tensor
        for stmt in statements(f.body)
        if isinstance(stmt, Assert)
        for term in opaque_terms(stmt.cond)
        if isinstance(term.data, ShapeOf)
    }
    for tensor, shape in given.items():
        if tensor not in asserted:
            for k, (wanted, actual) in enumerate(zip(_computed(tensor, known), shape, strict=True)):
                if wanted != actual:
                    raise InputError(f"extent {k} of the array for {tensor.name} is {actual}, not {shown(wanted)}")


def _shape_of(tensor: Tensor, array: Any) -> tuple[int, ...]:
    shape = tuple(int(k) for k in getattr(array, "shape", ()))
    if len(shape) != tensor.ndim:
        raise InputError(f"the array for {tensor.name} has {len(shape)} dimensions, not {tensor.ndim}")
    for k, (extent, actual) in enumerate(zip(tensor.extents, shape, strict=True)):
        if extent.is_const and extent.data != actual:
            raise InputError(f"extent {k} of the array for {tensor.name} is {actual}, not {extent.data}")
    return shape


def _find(var: Any, sizes: Mapping[Any, Any]) -> Any:
    for key, value in sizes.items():
        plain = without_assertions(key) if isinstance(key, Expr) else key  # an extent as `T.shape` gives it
        if plain is var or (isinstance(plain, str) and plain == var.name):
            return value
    return None


def _scalar(param: Any, sizes: Mapping[Any, Any]) -> Any:
    name = param.data[0]
    for key, value in sizes.items():
        if key is param or (isinstance(key, str) and key == name):
            return _number(value, param.dtype, name)
    raise InputError(f"the scalar {name} has no value: pass it in sizes")


def _number(value: Any, dtype: str, name: str) -> float | bool:
    """The value of a scalar as its type holds it."""
    try:
        return bool(value) if dtype == "bool" else dtypes.rounded(float(value), dtype)
    except (TypeError, ValueError):
        raise InputError(f"the scalar {name} has the type {dtype}: {shown(value)} is no such number") from None


def _solved(extent: Expr, var: Var, known: Mapping[Var, int], actual: int) -> int | None:
    def at(value: int) -> int:
        return int(evaluate(extent, {**{v: known[v] for v in extent.free_vars() if v is not var}, var: value}))

    try:
        start, step = at(0), at(1) - at(0)
        if step and at(2) == start + 2 * step and at(-3) == start - 3 * step:
            value, rest = divmod(actual - start, step)
            return None if rest else value
        found = [value for value in range(min(actual, _SEARCHED) + 1) if at(value) == actual]
    except ArithmeticError:
        return None
    return found[0] if len(found) == 1 else None


def _computed(tensor: Tensor, known: Mapping[Var, int]) -> tuple[int, ...]:
    return tuple(max(0, evaluate(e, {v: known[v] for v in e.free_vars()})) for e in tensor.extents)
