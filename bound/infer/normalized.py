"""The normalized schedule at fixed sizes, in which each loop that stages share (`bound.replay`) is one variable.

A loop of several stages becomes one variable, owned by the stage that runs it:

- a stage that shares leading loops with its readers is attached to the innermost one. These loops are no longer its
  leaves; its relations end in the variables of the loops around it;
- stages that run a loop together, because a common input is computed in it, have its variable as a leaf each.

A stage whose axes differ from the shared loops (a broadcast axis was fused into them) is attached likewise, but runs
private loops over its footprint there.

Guarantee: the normalized schedule computes the same outputs; the given one is not changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bound.errors import InputError, ScheduleError
from bound.infer.accesses import TensorAccess
from bound.itervar import IterVar
from bound.replay.loops import ExtendedLoops, Leaf, ScheduleSnapshot, SharedLoop, SharedNest
from bound.replay.transform_replay import BROADCAST
from bound.schedule import AttachType, Fuse, IterVarAttr, IterVarRelation, Rebase, Schedule, Split, Stage, Tail
from bound.schedule.attach import AttachPath, check_attachments
from bound.schedule.relations import with_ancestors, with_descendants
from bound.schedule.schedule import inject_inline, legalize_invalid_attach, rebase_non_zero_min_loop
from bound.tensor import ComputeOp, Operation, Tensor
from bound.tir.walk import variables
from intset.context import Context
from intset.expr import Expr, Range, Var, arguments, as_expr, const, dag, shown
from intset.expr.definedness import without_sizes
from intset.expr.evaluate import evaluate
from intset.expr.node import as_int
from intset.facts import ASSERTED

_WHOLE: Final[tuple[Tail, ...]] = (Tail.ROUND_UP, Tail.SHIFT_INWARDS)  # tails with excess or repeated elements


@dataclass(eq=False)
class Sharing:
    """The shared loops of a normalized schedule.

    Attributes
    ----------
    loops: each shared loop with its owner, the stage that determines its range.
    stages: all stages of each shared loop, in schedule order.
    outer: for each stage, the shared loops in place of its leading leaves, outermost first.
    path: for each stage, the loops around its formula from the outermost to the innermost shared one.
    aligned: for each stage, the root axes with shared loops, which run over the whole axis.
    foreign: for each stage that keeps loops of its own, the root axes above its leading loops, which other stages run.
    replacements: each replaced leaf with its former stage and its replacement.
    added: for each stage inside loops longer than its own, the additional axes of these loops.
    """

    loops: dict[IterVar, Stage] = field(default_factory=dict)
    stages: dict[IterVar, tuple[Stage, ...]] = field(default_factory=dict)
    outer: dict[Stage, tuple[IterVar, ...]] = field(default_factory=dict)
    path: dict[Stage, tuple[IterVar, ...]] = field(default_factory=dict)
    aligned: dict[Stage, frozenset[IterVar]] = field(default_factory=dict)
    foreign: dict[Stage, frozenset[IterVar]] = field(default_factory=dict)
    replacements: dict[IterVar, tuple[Stage, IterVar]] = field(default_factory=dict)
    added: dict[Stage, tuple[IterVar, ...]] = field(default_factory=dict)

    def name(self, stage: Stage, iv: IterVar) -> str:
        """The name of a loop, qualified by its stage; for a shared loop by the last stage that shares it."""
        return f"{self.stages.get(iv, (stage,))[-1].name}.{iv.name}"


def normalized(schedule: Schedule) -> tuple[Schedule, dict[Stage, AttachPath], Sharing]:
    """The normalized copy of a schedule, the attach path of each of its stages, and its shared loops.

    Raises
    ------
    ScheduleError: the schedule is illegal.
    """
    if not any(stage.compute_at_position for stage in schedule.stages):
        return *schedule.normalized_with_paths(), Sharing()
    new = schedule.copy()
    inject_inline(new)
    snapshot = ScheduleSnapshot(new)
    loops = snapshot.nest()
    if loops.conflict is not None:
        (op, _), (other, _) = loops.conflict.apart
        raise ScheduleError(
            f"stage {op.name}: it cannot run in one loop with {other.name} any more ({loops.conflict.rule})"
        )
    added = {new[op]: _lengthen(new[op], extended) for op, extended in loops.extended.items()}
    rebase_non_zero_min_loop(new)
    legalize_invalid_attach(new)
    sharing = _shared(new, loops) if loops.loop_of else Sharing()
    sharing.added = added
    for op, extended in loops.extended.items():
        for old, leaf in zip(loops.domains[op].loop, extended.loop, strict=False):
            if old is not leaf:
                sharing.replacements[old] = sharing.replacements.get(leaf, (new[op], leaf))
    return new, check_attachments(new), sharing


def _lengthen(stage: Stage, extended: ExtendedLoops) -> tuple[IterVar, ...]:
    """Replace the loops of a stage by longer ones; returns the added axes."""
    stage.relations = list(extended.relations)
    stage.all_iter_vars = list(dict.fromkeys((*stage.all_iter_vars, *extended.added, *extended.loop)))
    stage.iter_var_attrs |= {
        new: stage.iter_var_attrs[old]
        for old, new in zip(stage.leaf_iter_vars, extended.loop, strict=False)
        if old in stage.iter_var_attrs
    }
    moved = dict(zip(stage.leaf_iter_vars, extended.loop, strict=False))
    for placed in (*stage.schedule.stages, *stage.schedule.groups):
        placed.relocate(lambda at, iv: (at, moved.get(iv, iv)) if at is stage else (at, iv))
    stage.leaf_iter_vars = list(extended.loop)
    return tuple(extended.added)


def _shared(schedule: Schedule, loops: SharedNest) -> Sharing:
    sharing = Sharing()
    leaves = {op: tuple(schedule[op].leaf_iter_vars) for op in loops.chain}
    nodes = loops.loops
    variable: dict[SharedLoop, IterVar] = {}
    for node in nodes:
        op, position = loops.owner(node)
        variable[node] = leaves[op][position]
        if len(node.leaves) > 1:
            _join_attrs(schedule, leaves, node, variable[node])
    moved: dict[tuple[Stage, IterVar], SharedLoop] = {}
    for op in loops.chain:
        stage = schedule[op]
        moved |= {(stage, iv): loops.loop_of[op, k] for k, iv in enumerate(leaves[op]) if (op, k) in loops.loop_of}
        if loops.strict[op]:
            _rename(schedule, loops, sharing, variable, leaves[op], op)
    for op, home in loops.home.items():
        stage = schedule[op]
        if home is not None:
            stage.attach_type = AttachType.SCOPE
            stage.attach_stage, stage.attach_ivar = _runner(schedule, loops, home), variable[home]
        chain = loops.chain[op]
        if loops.strict[op] and chain:
            sharing.path[stage] = tuple(variable[node] for node in reversed(chain[-1].path()))
        elif home is not None:
            sharing.path[stage] = tuple(variable[node] for node in reversed(home.path()))
            domain = loops.domains[op]
            above = with_ancestors(domain.relations, domain.loop[: loops.shared[op]])
            sharing.foreign[stage] = frozenset(iv for iv in domain.root if iv in above)
            stage.relations = _with_unit_loops(stage.relations, leaves[op][: loops.shared[op]])
    around = {node.parent for node in nodes}
    for node in sorted(nodes, key=lambda node: node.depth):
        if len(node.leaves) > 1 or node in around:
            sharing.loops[variable[node]] = schedule[loops.owner(node)[0]]
            sharing.stages[variable[node]] = tuple(schedule[op] for op, _ in node.leaves)

    def relocated(target: Stage, axis: IterVar) -> tuple[Stage, IterVar]:
        node = moved.get((target, axis))
        if node is None or not loops.strict.get(target.op, False) or any(iv is axis for iv in target.leaf_iter_vars):
            return target, axis
        return _runner(schedule, loops, node), variable[node]

    for placed in (*schedule.stages, *schedule.groups):
        placed.relocate(relocated)
    return sharing


def _with_unit_loops(relations: Sequence[IterVarRelation], first: Iterable[IterVar]) -> list[IterVarRelation]:
    """Relations with extent 1 for leading loops run by other stages; the remaining loops cover the footprint."""
    foreign = set(first)
    changed: list[IterVarRelation] = []
    for relation in reversed(relations):
        if isinstance(relation, Split) and not (relation.outer in foreign and relation.inner in foreign):
            if relation.outer in foreign:
                relation = replace(relation, factor=None, nparts=as_expr(1), tail=Tail.GUARD)
            elif relation.inner in foreign:
                relation = replace(relation, factor=as_expr(1), nparts=None, tail=Tail.GUARD)
        elif any(iv in foreign for iv in relation.children):
            foreign.update(relation.parents)
        changed.append(relation)
    return changed[::-1]


def _runner(schedule: Schedule, loops: SharedNest, node: SharedLoop) -> Stage:
    """The owner of a loop: the last stage that also runs, or is computed in, all loops around it."""
    owners = [leaf for leaf in node.leaves if loops.owns(leaf) and loops.kind(leaf) != BROADCAST]
    full = [op for op, _ in owners if all(_is_around(loops, op, outer) for outer in node.path())]
    return schedule[full[-1] if full else loops.owner(node)[0]]


def _is_around(loops: SharedNest, op: Operation, node: SharedLoop) -> bool:
    """Whether a loop is around a stage: the stage runs it, or shares an inner loop."""
    home, leaf = loops.home[op], node.leaf_of(op)
    if home is not None and node in home.path():
        return True
    # a single broadcast element is no loop
    return leaf is not None and (loops.kind(leaf) != BROADCAST or loops.owner(node) == leaf)


def _rename(
    schedule: Schedule,
    loops: SharedNest,
    sharing: Sharing,
    variable: Mapping[SharedLoop, IterVar],
    leaves: tuple[IterVar, ...],
    op: Operation,
) -> None:
    """Replace the leaves of one stage by variables of shared loops."""
    stage, domain = schedule[op], loops.domains[op]
    outer: list[IterVar] = []
    joined: list[Leaf] = []
    apart: set[Leaf] = set()
    for position, leaf in enumerate(leaves):
        node = loops.loop_of.get((op, position))
        if node is None:
            continue
        joined.append((op, position))
        if (op, position) not in loops.links:
            continue
        if loops.kind((op, position)) == BROADCAST and variable[node] is not leaf:
            apart.add((op, position))
            continue  # a broadcast axis takes no part in the loop
        loop = variable[node]
        if loop is not leaf:
            stage.relations = _with_leaf(stage.relations, leaf, loop)
            stage.all_iter_vars = [loop if iv is leaf else iv for iv in stage.all_iter_vars]
            stage.leaf_iter_vars = [loop if iv is leaf else iv for iv in stage.leaf_iter_vars]
            sharing.replacements[leaf] = (stage, loop)
        if not loops.owns((op, position)):
            stage.leaf_iter_vars = [iv for iv in stage.leaf_iter_vars if iv is not loop]
            outer.append(loop)
    shared = {variable[loops.loop_of[leaf]] for leaf in joined}  # broadcast axes move inside of them
    stage.leaf_iter_vars = sorted(stage.leaf_iter_vars, key=lambda iv: iv not in shared)
    # A shared loop has one length for all stages: tails must not pass the end. A broadcast element is computed once,
    # even inside a reduction loop.
    ancestors = with_ancestors(domain.relations, map(loops.axis, joined))
    cut: dict[IterVar, tuple[Tail, ...]] = dict.fromkeys(ancestors, _WHOLE[:1])
    cut |= {iv: _WHOLE for iv, kind in domain.kinds.items() if kind == BROADCAST}
    stage.relations = [
        replace(r, tail=Tail.GUARD) if isinstance(r, Split) and r.tail in cut.get(r.parent, ()) else r
        for r in stage.relations
    ]
    above = with_ancestors(domain.relations, [loops.axis(leaf) for leaf in joined if leaf not in apart])
    sharing.outer[stage] = tuple(outer)
    sharing.aligned[stage] = frozenset(iv for iv in op.root_iter_vars if iv in above and not iv.is_reduce)


def _with_leaf(relations: list[IterVarRelation], leaf: IterVar, loop: IterVar) -> list[IterVarRelation]:
    """The relations with another variable for one leaf."""
    if not any(child is leaf for relation in relations for child in relation.children):
        return [*relations, Rebase(leaf, loop)]
    return [relation.renamed({leaf: loop}) if leaf in relation.children else relation for relation in relations]


def _join_attrs(
    schedule: Schedule, leaves: Mapping[Operation, tuple[IterVar, ...]], node: SharedLoop, loop: IterVar
) -> None:
    """Merge the annotations of all stages for a shared loop."""
    said = [schedule[op].iter_var_attrs.get(leaves[op][position], IterVarAttr()) for op, position in node.leaves]
    kind = next((attr.iter_type for attr in said if attr.iter_type is not None), None)
    thread = next((attr.bind_thread for attr in said if attr.bind_thread is not None), None)
    pragmas = tuple(dict.fromkeys(pragma for attr in said for pragma in attr.pragmas))
    if kind is None and thread is None and not pragmas:
        return
    for op, _ in node.leaves:
        attrs = schedule[op].iter_var_attrs
        attrs[loop] = replace(attrs.get(loop, IterVarAttr()), iter_type=kind, bind_thread=thread, pragmas=pragmas)


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
        self.all = tuple(v for v in dag.free_vars(*shapes) if not isinstance(v, IterVar))
        others = [] if at is None else list(_variables(schedule))
        self.fixed: dict[Expr, int] = {}
        missing = []
        for key, value in ({} if at is None else arguments.mapped(at, "at", "a mapping {size: integer}")).items():
            var = self._named(key, others)
            if var is None:
                missing.append(key)
                continue
            number = as_int(value, f"at[{getattr(key, 'name', key)!r}]")
            if number < 0 and var in self.all:
                raise InputError(f"at: the size {var.name} cannot be {number}")
            self.fixed[var] = number
        if missing and not self.fixed:
            known = ", ".join(sorted({v.name for v in self.all})) or "none"
            raise InputError(f"at: no size of this schedule is named {shown(missing[0])}; the sizes are: {known}")

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
        fixed = dag.substitute(e, self.fixed)
        return fixed if fixed.is_const or fixed.free_vars() else const(int(evaluate(fixed)))

    def range(self, r: Range) -> Range:
        if not self.fixed or not isinstance(r.min, Expr) or not isinstance(r.extent, Expr):
            return r
        low, extent = self.expr(r.min), self.expr(r.extent)
        return Range(low, max(extent.data, 0) if extent.is_const else extent)

    def shape(self, tensor: Tensor) -> tuple[Expr, ...]:
        return tuple(map(self.expr, tensor.extents)) if self.fixed else tensor.extents

    def access(self, access: TensorAccess) -> TensorAccess:
        """The access at the fixed sizes, with bounds of its data-dependent indices as conditions."""
        inside = access.inside()
        if not self.fixed:
            return replace(access, conditions=(*access.conditions, *inside)) if inside else access
        return replace(
            access,
            indices=tuple(dag.substitute(e, self.fixed) for e in access.indices),
            conditions=tuple(dag.substitute(cond, self.fixed) for cond in (*access.conditions, *inside)),
            extra=tuple((var, self.range(r)) for var, r in access.extra),
        )

    def relations(self, stage: Stage) -> tuple[IterVarRelation, ...]:
        """The relations of a stage at the fixed sizes, with tails that its operation permits.

        A reduction must visit each element once and none past the end: ROUND_UP becomes GUARD, SHIFT_INWARDS is
        refused. ROUND_UP of a fused axis becomes GUARD, too.

        Raises
        ------
        ScheduleError: a shifting tile would count elements of a reduction twice.
        """
        return tuple([self._split(stage, r) if isinstance(r, Split) else r for r in stage.relations])

    def _split(self, stage: Stage, split: Split) -> Split:
        tail, op = split.tail, stage.op
        reduces = isinstance(op, ComputeOp) and op.reduction is not None
        if split.parent.is_reduce and tail is Tail.SHIFT_INWARDS:
            raise ScheduleError(
                f"stage {stage.name}: the split of {split.parent.name} cannot shift its last tile inwards, "
                "a reduction would count elements twice"
            )
        if tail is Tail.SHIFT_INWARDS and reduces:
            _refuse_repeated(stage, split)
        if tail is Tail.ROUND_UP and (split.parent.is_reduce or reduces or _is_of_fused(stage, split)):
            tail = Tail.GUARD
        factor = None if split.factor is None else self._tile(stage, split, split.factor)
        nparts = None if split.nparts is None else self._tile(stage, split, split.nparts)
        if tail is split.tail and factor is split.factor and nparts is split.nparts:
            return split
        return replace(split, tail=tail, factor=factor, nparts=nparts)

    def _tile(self, stage: Stage, split: Split, size: Expr) -> Expr:
        """The size of a split at the fixed sizes.

        Raises
        ------
        ScheduleError: it is below 1.
        """
        e = self.expr(size)
        if e.is_const and e.data < 1:
            what = "nparts" if split.factor is None else "factor"
            raise ScheduleError(f"stage {stage.name}: {what} of {split.parent.name} must be positive, not {shown(e)}")
        return e

    def tiles(self, schedule: Schedule) -> tuple[Expr, ...]:
        """The symbolic sizes of splits, each at least 1."""
        splits = (r for stage in schedule.stages for r in self.relations(stage) if isinstance(r, Split))
        sizes = (r.nparts if r.factor is None else r.factor for r in splits)
        return tuple(dict.fromkeys(e for e in sizes if e is not None and not e.is_const))


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
        body = stage.op.body if isinstance(stage.op, ComputeOp) else ()
        splits = [r for r in stage.relations if isinstance(r, Split)]
        sizes = [e for r in splits for e in (r.factor, r.nparts) if e is not None]
        domains = [iv.dom for iv in stage.op.root_iter_vars if iv.dom is not None]
        used |= dict.fromkeys((*variables(*body), *dag.free_vars(*sizes), *(v for r in domains for v in r.free_vars())))
    return [v for v in used if not isinstance(v, IterVar)]


def with_positive(context: Context, tiles: Iterable[Expr]) -> Context:
    """The context with the asserted fact `t >= 1` for each size `t` of a split that is not known to be positive.

    Raises
    ------
    ScheduleError: a size is known to be below 1.
    """
    known = context.frame.known
    unproved = [t for t in tiles if not known.is_positive(known.form(t))]
    for t in unproved:
        most = known.bounds(known.form(t))[1]
        if most is not None and most < 1:
            raise ScheduleError(f"the size {t} of a split is at most {most}: it must be positive")
    return context.extended(facts=[t >= 1 for t in unproved], provenance=ASSERTED) if unproved else context
