"""Sizes of a schedule: its size variables, and the substitution of fixed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bound.errors import InputError, ScheduleError
from bound.infer.program.accesses import TensorAccess
from bound.itervar import IterVar
from bound.operation import ComputeOp
from bound.schedule import Fuse, IterVarRelation, Schedule, Split, Stage, Tail
from bound.schedule.relations import with_ancestors, with_descendants
from bound.tensor import Tensor
from bound.tir.walk import variables
from intset.expr.annotate import without_sizes
from intset.expr.arguments import mapped
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, as_int, const
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import free_vars, substitute


class ScheduleSizes:
    """The fixed and symbolic sizes of a schedule.

    Parameters
    ----------
    at: values of sizes, by variable or name. Unknown names are ignored beside known ones.

    Raises
    ------
    InputError: all names are unknown, a name is ambiguous, a value is negative or no integer.
    """

    def __init__(self, schedule: Schedule, at: Mapping[Any, Any] | None) -> None:
        shapes = [e for stage in schedule.stages for tensor in stage.op.outputs for e in tensor.extents]
        self.all = tuple(v for v in free_vars(*shapes) if not isinstance(v, IterVar))
        others = [] if at is None else list(_variables(schedule))
        self.fixed: dict[Expr, int] = {}
        missing = []
        for key, value in ({} if at is None else mapped(at, "at", "a mapping {size: integer}")).items():
            var = self._named(key, others)
            if var is None:
                missing.append(key)
                continue
            number = as_int(value, f"at[{getattr(key, 'name', key)!r}]")
            if number < 0 and var in self.all:
                raise InputError(f"at: the size {var.name} cannot be {number}")
            self.fixed[var] = number
        if missing and not self.fixed:
            env = ", ".join(sorted({v.name for v in self.all})) or "none"
            raise InputError(f"at: no size of this schedule is named {shown(missing[0])}; the sizes are: {env}")

    def _named(self, key: Any, others: Sequence[Var]) -> Var | None:
        if isinstance(key, Expr):
            key = without_sizes(key)[0]  # an annotated extent of `T.shape`
        if isinstance(key, Var):
            return key
        if not isinstance(key, str):
            raise InputError(f"at maps variables or their names to integers, {shown(key)} is neither")
        matches = [v for v in dict.fromkeys((*self.all, *others)) if v.name == key]
        if len(matches) > 1:
            raise InputError(
                f"at: {len(matches)} sizes of this schedule are named {shown(key)}: give the variables themselves"
            )
        return matches[0] if matches else None

    @property
    def free(self) -> tuple[Var, ...]:
        """The symbolic sizes."""
        return tuple(v for v in self.all if v not in self.fixed)

    def expr(self, e: Expr) -> Expr:
        if not self.fixed or e.is_const:
            return e
        return _folded(substitute(e, self.fixed))

    def range(self, r: Range) -> Range:
        if not self.fixed or not isinstance(r.min, Expr) or not isinstance(r.extent, Expr):
            return r
        low, extent = self.expr(r.min), self.expr(r.extent)
        return Range(low, max(extent.data, 0) if extent.is_const else extent)

    def shape(self, tensor: Tensor) -> tuple[Expr, ...]:
        return tuple(self.expr(e) for e in tensor.extents)

    def access(self, access: TensorAccess) -> TensorAccess:
        """The access at the fixed sizes, with bounds of its data-dependent indices as conditions."""
        conditions: tuple[Cond, ...] = (*access.conditions, *access.inside())
        if not self.fixed:
            return access if conditions == access.conditions else replace(access, conditions=conditions)
        return TensorAccess(
            access.tensor,
            tuple(substitute(e, self.fixed) for e in access.indices),
            tuple(substitute(cond, self.fixed) for cond in conditions),
            tuple((var, self.range(r)) for var, r in access.extra),
            access.before,
        )

    def relations(self, stage: Stage) -> tuple[IterVarRelation, ...]:
        """The relations of a stage at the fixed sizes, with tails that its operation permits.

        A reduction must visit each element once and none past the end: ROUND_UP becomes GUARD, SHIFT_INWARDS is
        refused. ROUND_UP of a fused axis becomes GUARD, too.

        Raises
        ------
        ScheduleError: a shifting tile would count elements of a reduction twice.
        """
        relations = stage.relations
        if not any(isinstance(r, Split) for r in relations):
            return tuple(relations)
        return tuple(self._relation(stage, r) for r in relations)

    def _relation(self, stage: Stage, relation: IterVarRelation) -> IterVarRelation:
        if not isinstance(relation, Split):
            return relation
        tail = relation.tail
        reduces = isinstance(stage.op, ComputeOp) and stage.op.reduction is not None
        if relation.parent.is_reduce and tail is Tail.SHIFT_INWARDS:
            raise ScheduleError(
                f"stage {stage.name}: the split of {relation.parent.name} cannot shift its last tile inwards, "
                "a reduction would count elements twice"
            )
        if tail is Tail.SHIFT_INWARDS and reduces:
            _refuse_repeated(stage, relation)
        if tail is Tail.ROUND_UP and (relation.parent.is_reduce or reduces or _is_of_fused(stage, relation)):
            tail = Tail.GUARD
        factor = None if relation.factor is None else self.expr(relation.factor)
        nparts = None if relation.nparts is None else self.expr(relation.nparts)
        same = tail is relation.tail and factor is relation.factor and nparts is relation.nparts
        return relation if same else replace(relation, tail=tail, factor=factor, nparts=nparts)


def _is_of_fused(stage: Stage, split: Split) -> bool:
    """Whether a split axis descends from a fused one: values past its end denote other elements."""
    above = with_ancestors(stage.relations, (split.parent,))
    return any(isinstance(relation, Fuse) and relation.fused in above for relation in stage.relations)


def _refuse_repeated(stage: Stage, split: Split) -> None:
    """Refuse shifting tiles inside a reduction loop: repeated elements would be accumulated twice."""
    tiles = with_descendants(stage.relations, split.children)
    outside = None
    for leaf in stage.leaf_iter_vars:
        if leaf.is_reduce:
            outside = leaf if outside is None else outside
        elif leaf in tiles and outside is not None:
            raise ScheduleError(
                f"stage {stage.name}: the split of {split.parent.name} cannot shift its last tile inwards inside the "
                f"reduction loop {outside.name}, elements would be counted twice"
            )


def _variables(schedule: Schedule) -> Iterable[Var]:
    """The variables of formulas and relations, without loop axes."""
    used: dict[Var, None] = {}
    for stage in schedule.stages:
        if isinstance(stage.op, ComputeOp):
            used.update(dict.fromkeys(variables(*stage.op.body)))
        for relation in stage.relations:
            if isinstance(relation, Split):
                sizes = [e for e in (relation.factor, relation.nparts) if e is not None]
                used.update(dict.fromkeys(free_vars(*sizes)))
        for iv in stage.op.root_iter_vars:
            if iv.dom is not None:
                used.update(dict.fromkeys(iv.dom.free_vars()))
    return [v for v in used if not isinstance(v, IterVar)]


def _folded(e: Expr) -> Expr:
    """`e`, folded to a constant if it has no variables."""
    if e.is_const or e.free_vars():
        return e
    return const(int(evaluate(e)))
