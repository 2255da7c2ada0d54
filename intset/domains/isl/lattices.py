"""The lattice that the points of an isl set lie on, and the set in the coordinates of a lattice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from intset.domains.isl.checked import affine_hull_of
from intset.domains.isl.coalesced import coalesced
from intset.domains.isl.presburger import Presburger
from intset.domains.isl.session import isl, number, val
from intset.expr.node import Expr
from intset.linear.lattice import Lattice, Vector, everything

if TYPE_CHECKING:
    from islpy import BasicSet


def lattice_of(shape: Presburger) -> tuple[Lattice, list[Expr]] | None:
    """A lattice around the points `(params, dims)` of a set, and what its first coordinates, the parameters, are.

    The equations of each disjunct say which lattice it lies on, exactly, divisions included; the lattices of the
    disjuncts are joined. Taking a superset only loses strides. `None` for the empty set.
    """
    kinds = isl().dim_type
    current = shape.get()
    found: Lattice | None = None
    for part in current.get_basic_sets():
        hull = affine_hull_of(part)
        if hull.is_empty():
            continue
        one = _of_equations(hull)
        if one is not None:
            found = one if found is None else found.joined(one)
    if found is None:
        return None
    assert len(found.origin) == current.dim(kinds.param) + current.dim(kinds.set)
    return found, shape.ordered_params(current)


def _of_equations(part: BasicSet) -> Lattice | None:
    """The lattice of a part without inequalities. Its quantified variables may be any numbers: those that no division
    defines, which isl keeps where a hull lost what defined them, are left out of the lattice like the others."""
    kinds = isl().dim_type
    rows = part.equalities_matrix(kinds.param, kinds.set, kinds.div, kinds.cst)
    dims = sum(part.dim(kind) for kind in (kinds.param, kinds.set, kinds.div))
    found: Lattice | None = everything(dims)
    for k in range(rows.rows()):
        *row, constant = (number(rows.get_element_val(k, column)) for column in range(dims + 1))
        found = None if found is None else found.restricted(row, constant)
    return None if found is None else found.projected(part.dim(kinds.param) + part.dim(kinds.set))


def in_coordinates(shape: Presburger, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> Presburger:
    """The set in the coordinates of a lattice: each point `(params, dims)` by how often it takes each vector.

    The parameters keep their meaning.

    Parameters
    ----------
    vectors: each with the dimension of the result that counts it, or `None`: nobody counts those that say where the
        lattice lies for which parameters. Dimensions that count nothing are 0.
    """
    m = isl()
    kinds = m.dim_type
    current = shape.get()
    params, dims = current.dim(kinds.param), current.dim(kinds.set)
    others = sum(1 for place, _ in vectors if place is None)
    lifted = current.add_dims(kinds.set, dims + others)
    uncounted = iter(range(2 * dims, 2 * dims + others))
    columns = [(next(uncounted) if place is None else dims + place, vector) for place, vector in vectors]
    local = m.LocalSpace.from_space(lifted.get_space())
    for k in range(params + dims):  # coordinate == origin + sum of what is counted
        row = m.Constraint.alloc_equality(local).set_constant_val(val(-origin[k]))
        own = (kinds.param, k) if k < params else (kinds.set, k - params)
        row = row.set_coefficient_val(*own, val(1))
        for column, vector in columns:
            if vector[k]:
                row = row.set_coefficient_val(kinds.set, column, val(-vector[k]))
        lifted = lifted.add_constraint(row)
    counted = {place for place, _ in vectors}
    for k in range(dims):
        if k not in counted:
            lifted = lifted.fix_val(kinds.set, dims + k, val(0))
    lifted = lifted.project_out(kinds.set, 2 * dims, others).project_out(kinds.set, 0, dims)
    return Presburger(coalesced(lifted), shape.params)
