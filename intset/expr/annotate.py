"""`annotate_shapes`: restore facts about sizes as assertions inside expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import asserting, bounded, logical_and, nonneg
from intset.expr.dag import free_vars, postorder, rewrite
from intset.expr.node import Cond, Expr, Kind, Node, PlainVar, Var, make
from intset.expr.printer import shown
from intset.expr.range import Range


@overload
def annotate_shapes(e: Kind, shapes: object) -> Kind: ...
@overload
def annotate_shapes(e: tuple[Expr | Cond, ...], shapes: object) -> tuple[Expr | Cond, ...]: ...
@overload
def annotate_shapes(e: list[Kind], shapes: object) -> list[Kind]: ...
def annotate_shapes(e: object, shapes: object) -> object:
    """Wrap the sizes in `e` in assertions of their bounds, so that every analysis sees them without a context.

    Parameters
    ----------
    e: an expression or condition, or a tuple or list of expressions and conditions.
    shapes: either extents and shapes (expressions, tuples of expressions, objects with a `.shape`), whose plain
        variables become nonnegative; or a mapping from variables to their bounds: a `Range`, a pair (lower, upper) with
        `None` for infinite ends, a `ShapeVar` (its bounds and divisor), or a condition.

    Each occurrence `n` becomes `nonneg(n)` or `asserting(claim, n)`. The variable stays the same object, so `evaluate`
    and `substitute` work as before, and `simplify` looks through assertions. Existing annotations are kept.

    Raises
    ------
    InputError: `shapes` has an item of another kind.

    Example
    -------
    >>> i, n = Var("i"), Var("n")
    >>> str(annotate_shapes(i % n, n))
    'i % nonneg(n)'
    """
    if isinstance(e, (tuple, list)):
        return type(e)(annotate_shapes(part, shapes) for part in e)
    if not isinstance(e, Node):
        raise InputError(f"annotate_shapes takes an expression or a condition, not {shown(e)}")
    return annotated(e, size_claims(shapes))


def carrying_sizes(e: Expr) -> Expr:
    """Wrap each plain variable `n` of `e` as `nonneg(n)`, marked as a size so that it prints as `n`."""
    plain = [var for var in free_vars(e) if type(var) is PlainVar]
    return rewrite(e, {var: make(ops.ASSERTING, (var >= 0, var), ops.SIZE) for var in plain}) if plain else e


def without_sizes(e: Expr) -> tuple[Expr, tuple[Var, ...]]:
    """`e` with `nonneg(n)` replaced by `n` for variables `n`, and these variables. Redundant in an extent."""
    sizes: dict[Node, Any] = {}
    for node in postorder((e,)):
        if node.op is ops.ASSERTING and isinstance(node.args[1], Var) and node.args[0] is (node.args[1] >= 0):
            sizes[node] = node.args[1]
    return (rewrite(e, dict(sizes)), tuple(dict.fromkeys(sizes.values()))) if sizes else (e, ())


def annotated(e: Any, claims: Mapping[Var, Expr]) -> Any:
    """`e` with each variable replaced by its annotated form, except inside such forms."""
    new: dict[Node, Any] = {form: form for form in claims.values()}
    for node in postorder((e,)):  # merge with existing annotations
        if isinstance(node, Expr) and node.op is ops.ASSERTING:
            var = node.args[1]
            if var in claims and free_vars(node) == (var,):
                new[node] = _with_claim(node, claims[var])
    return rewrite(e, new | dict(claims))


def _with_claim(known: Expr, form: Expr) -> Expr:
    return known if form.args[0] is known.args[0] else asserting(logical_and(known.args[0], form.args[0]), form.args[1])


def size_claims(shapes: Any) -> dict[Var, Expr]:
    """The annotated expression of every size."""
    if isinstance(shapes, Mapping):
        return {_size(var): _claim(_size(var), known) for var, known in shapes.items()}
    variables = dict.fromkeys(var for extent in extents_of(shapes) for var in free_vars(extent))
    return {var: nonneg(var) for var in variables if type(var) is PlainVar}


def extents_of(shapes: Any) -> Iterable[Expr]:
    """The expressions in a possibly nested shape."""
    if isinstance(shapes, Expr):
        return [shapes]
    if hasattr(shapes, "shape"):
        return extents_of(shapes.shape)
    if isinstance(shapes, int) and not isinstance(shapes, bool):
        return []
    if isinstance(shapes, (str, bytes)) or not isinstance(shapes, Iterable):
        raise InputError(f"a shape is made of expressions, not of {shown(shapes)}")
    return [extent for part in shapes for extent in extents_of(part)]


def _size(var: object) -> Var:
    if not isinstance(var, Var):
        raise InputError(f"a size is a variable, not {shown(var)}")
    return var


def _claim(var: Var, known: Any) -> Expr:
    if isinstance(known, Cond):
        return asserting(known, var)
    if isinstance(known, Range):
        ends = (end if isinstance(end, Expr) else None for end in (known.min, known.max))
        return bounded(var, *ends)
    if isinstance(known, Var):
        low, high, step = known.declared()
        claims = [] if low is None else [var >= low]
        claims += [] if high is None else [var <= high]
        claims += [] if step == 1 else [(var % step).eq(0)]
        return asserting(logical_and(*claims), var) if claims else var
    if isinstance(known, tuple) and len(known) == 2:
        return bounded(var, *known)
    raise InputError(f"what is known of {var.name} is a Range, a pair (lower, upper), a ShapeVar or a condition")
