"""The space of a schedule: values of its sizes that its declarations and facts allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bound.infer.footprints.environment import LoopEnvironment
from intset.errors import InputError
from intset.expr.arguments import mapped
from intset.expr.dag import opaque_terms, substitute
from intset.expr.node import Cond, Expr, Var
from intset.expr.printer import shown
from intset.spaces.space import Space


def space_of(
    env: LoopEnvironment,
    sizes: Sequence[Var],
    fixed: Mapping[Expr, int],
    values: Mapping[Any, Iterable[Any]],
    where: Cond | str | Iterable[Cond | str],
) -> Space:
    """The space of some sizes of a schedule, under the conditions `where` and what is known of the sizes.

    Parameters
    ----------
    sizes: the symbolic sizes of the schedule.
    fixed: values of its other sizes.
    values: values for each size, by variable or name.

    Raises
    ------
    InputError: a key is no symbolic size of the schedule; what `Space` refuses.
    """
    given = mapped(values, "the values of a space", "a mapping {size: values}")
    chosen = {_size_of(key, sizes): numbers for key, numbers in given.items()}
    if len(chosen) < len(given):
        raise InputError("a size has values twice, by its variable and by its name")
    return Space(chosen, where).restrict(_known(env, set(chosen), fixed))


def _size_of(key: Any, sizes: Sequence[Var]) -> Var:
    """The size that a variable or name denotes."""
    named = [size for size in sizes if size is key or (isinstance(key, str) and size.name == key)]
    if len(named) == 1:
        return named[0]
    name = key.name if isinstance(key, Var) else shown(key)
    if named:
        raise InputError(f"{len(named)} sizes of this schedule are named {name}: give the variables themselves")
    known = ", ".join(size.name for size in sizes) or "none"
    raise InputError(f"{name} is no symbolic size of this schedule; those are: {known}")


def _known(env: LoopEnvironment, chosen: set[Var], fixed: Mapping[Expr, int]) -> Iterator[Cond]:
    """The ranges and facts of the context about these sizes alone."""
    conditions = [fact.condition for fact in env.context.facts]
    for size, r in env.size_ranges.items():
        conditions += [size >= r.min] if isinstance(r.min, Expr) else []
        conditions += [size <= r.max] if isinstance(r.max, Expr) else []
    for condition in conditions:
        stated = substitute(condition, dict(fixed))
        if stated.free_vars() and chosen.issuperset(stated.free_vars()) and not opaque_terms(stated):
            yield stated
