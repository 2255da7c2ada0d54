"""Choose the cheapest nest that a schedule may become.

The alternatives of a stage:

- compute: exactly the required region, or the box around it. A box may compute elements that nobody reads, and its
  producers must compute their inputs; in exchange it needs no guards and no uneven loop ends. Boxes are excluded where
  an unread element could do harm in the stage or its producers: integer division by a variable, host calls, accesses
  outside a tensor.
- nests (`NESTS`): guards, loop ends, a nest per piece, or index set splitting.
- storage: plain, or compact (`bound.infer.answers.compact`) with strides folded out or with axes of fused loops as one.
  Compact storage touches less memory and makes neighbours adjacent, at the price of index arithmetic.

Nests are priced by the model of `lowering.forms.model` after index set splitting, as C has them. Stages attached to one
another share loops and take the same form of nest; other stages choose independently. Since boxes enlarge the boxes of
producers, `compute` is chosen for all stages together among three candidates: all boxes, no boxes, and boxes where the
first two prices favour them. The number of lowerings is therefore independent of the length of the schedule.

Boxes, which are quick to infer, come first. Without regions other than boxes the choice ends there; if boxes exceed the
regions by little, even accumulated over the stages, exact regions are not inferred; if the inferred ones spare few of
the elements that boxes compute, exact nests are not built. Programs of negligible cost compute the
required regions, without index set splitting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from bound import dtypes, infer_bound
from bound.above import NEST_FUNCTIONS
from bound.infer import BoundsMap
from bound.operation import ComputeOp, Operation, PlaceholderOp
from bound.schedule import AttachType, Schedule, Stage
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.machine import TRAPPING
from bound.tir.value import CALL, CONVERT, Operand, Value
from intset.context import Context
from intset.errors import IntSetError
from intset.expr import ops
from intset.expr.node import Expr, Var, constant_value
from lowering.build.function import FunctionBuilder
from lowering.forms.candidates import SMALL, CandidateNests, names_of
from lowering.forms.model import WEIGHTS, number, typical
from lowering.nest.ir import Function

COMPUTE: Final = ("auto", "exact", "box")
LITTLE: Final = 0.05  # share of unread elements in boxes up to which exact regions are not inferred
FEW: Final = 0.1  # share of elements that exact regions spare up to which their guards, which cost more, are not built


@dataclass(frozen=True)
class Form:
    """One way to compute a stage.

    Attributes
    ----------
    compute: "exact" or "box".
    nests: "guard", "ends", "split" or "partition" (`NESTS`).
    storage: "plain", or "compact": the smallest map, as with `infer_bound(..., compact=True)`.
    cost: modelled cost of the stage, plus the change in stages decided together with it; `None` for forms excluded
        without a model.
    """

    compute: str
    nests: str
    cost: float | None
    storage: str = "plain"

    def __str__(self) -> str:
        words = [self.compute, self.nests, *([self.storage] if self.storage != "plain" else [])]
        return f"{', '.join(words)}: {'not modelled' if self.cost is None else f'{self.cost:.4g}'}"


Forms = Mapping[str, tuple[Form, ...]]


@dataclass(frozen=True)
class Choice:
    """The chosen bounds and nest.

    Attributes
    ----------
    forms: the candidate forms of each stage, the chosen one first.
    partitioned: the nest after index set splitting, if that form was chosen.
    """

    bounds: BoundsMap
    function: Function
    forms: Forms
    partitioned: Function | None


def bounds_of(
    s: Schedule,
    ctx: Context | None,
    at: Mapping[Any, int] | None,
    domain: str | None,
    compact: bool,
    whole: Iterable[Tensor] = (),
) -> BoundsMap:
    """The answer of `infer_bound(compute="auto")`."""
    required = tuple(whole)

    def infer(word: str | Mapping[Any, str]) -> BoundsMap:
        return infer_bound(s, ctx, at, domain, word, compact, required)

    made = chosen(s, FunctionBuilder(ctx=ctx, unsafe=True), infer, "auto", "auto")
    made.bounds.forms = made.forms
    return made.bounds


NEST_FUNCTIONS.auto_bounds = bounds_of


def chosen(
    s: Schedule,
    maker: FunctionBuilder,
    infer: Callable[[str | Mapping[Any, str]], BoundsMap],
    compute: str,
    nests: str,
    is_stored_as_inferred: bool = True,
) -> Choice:
    """Choose the cheapest way to compute a schedule.

    Parameters
    ----------
    infer: maps `compute`, one word or one per stage, to bounds.
    compute, nests: as in `lower`.
    is_stored_as_inferred: false makes compact storage an alternative, with `compute="auto"`.
    """
    if compute != "auto":
        return _choice([CandidateNests(maker, infer(compute), nests)])
    boxable = _boxable(s)
    box = infer(dict.fromkeys(boxable, "box") if len(boxable) < len(s.stages) else "box") if boxable else None
    made: list[CandidateNests] = []
    if box is not None and not box.outside:
        excess = _excess(box)  # None: every region is a box
        made.append(CandidateNests(maker, box, nests))
        if excess is None or (excess <= LITTLE and made[0].takes_more(SMALL)):
            return _choice(made, also=() if excess is None else ("exact",))
    exact = CandidateNests(maker, infer("exact"), nests)
    if (
        box is not None
        and made
        and (_is_large(box) or exact.starts_above(SMALL))
        and _spared(box, exact.bounds) <= FEW
        and (is_stored_as_inferred or not _compacted(maker, exact.bounds, nests))
    ):
        return _choice(made, also=("exact",))
    made.append(exact)
    if not exact.takes_more(SMALL):
        return _choice(made, first=exact)
    if not is_stored_as_inferred:
        made += _compacted(maker, exact.bounds, nests)
    known = exact.price.costs.items()
    best = {name: min((exact, *made), key=lambda one: one.price.costs.get(name, cost)) for name, cost in known}
    if len({id(one) for one in best.values()}) > 1:  # combine the cheapest form of each stage
        boxed, compact = ({t for t, one in best.items() if word in one.way(t)} for word in ("box", "compact"))
        some: dict[Any, str] = {stage: "box" for stage in boxable if boxed & names_of([stage])}
        if not compact and box is not None and _is_same(box, names_of(some)):
            return _choice(made)
        b = infer(some) if some else exact.bounds
        folded = [stage for stage in b.schedule.stages if compact & names_of([stage])]
        made.append(CandidateNests(maker, b.with_compact(folded) if folded else b, nests))
    return _choice(made)


def _is_same(box: BoundsMap, some: Collection[str]) -> bool:
    """Whether boxes of some tensors equal boxes of all, because the remaining regions are boxes."""
    computed = (t for stage in box.boxed if box.is_computed(stage) for t in stage.op.outputs)
    return all(t.name in some or box.required(t).is_box for t in computed)


def _compacted(maker: FunctionBuilder, b: BoundsMap, nests: str) -> list[CandidateNests]:
    """The exact nests with compact storage, if that is not plain for some stage."""
    every = b.with_compact(b.schedule.stages)
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    folded = [stage for stage in computed if any(not every.storage(t).is_plain for t in stage.op.outputs)]
    return [CandidateNests(maker, b.with_compact(folded), nests)] if folded else []


# -- the choice --------------------------------------------------------------------------------------------------------


def _choice(made: list[CandidateNests], also: tuple[str, ...] = (), first: CandidateNests | None = None) -> Choice:
    """The choice of `first`, by default the cheapest; `also` names candidates for `compute` that were not built."""
    best = first or (made[0] if len(made) == 1 else min(made, key=lambda nests: nests.total))
    forms = _LazyForms(lambda: _listed(best, made, also))
    partitioned = replace(best.made.partitioned, forms=forms) if best.is_partitioned else None
    return Choice(best.bounds, replace(best.made.f, forms=forms), forms, partitioned)


def _listed(best: CandidateNests, made: Sequence[CandidateNests], also: tuple[str, ...]) -> Forms:
    forms: dict[str, tuple[Form, ...]] = {}
    more = {nests: nests.more for nests in (best, *made)}
    for name, cost in best.price.costs.items():
        own = (*best.way(name), best.price.words[name])
        found = {own: cost}
        for nests in (best, *made):
            if name not in more[nests]:
                continue
            own_cost = nests.price.costs.get(name, cost)  # a form other than the cheapest saves nothing elsewhere
            base = cost + nests.total - best.total if nests.total >= best.total else own_cost
            for word, dearer in more[nests][name].items():
                key, expected = (*nests.way(name), word), max(0.0, base + dearer)
                found[key] = min(found.get(key, expected), expected)
        del found[own]
        known = [Form(compute, word, value, storage) for (compute, storage, word), value in found.items()]
        rest = [*sorted(known, key=lambda form: form.cost or 0), *(Form(compute, own[2], None) for compute in also)]
        forms[name] = (Form(own[0], own[2], cost, own[1]), *rest)
    return forms


class _LazyForms(Mapping[str, tuple[Form, ...]]):
    """Candidate forms, computed on first access, so a schedule without alternatives is never priced."""

    def __init__(self, tell: Callable[[], Forms]) -> None:
        self._tell: Callable[[], Forms] | None = tell
        self._known: Forms = {}

    @property
    def known(self) -> Forms:
        if self._tell is not None:
            self._known, self._tell = self._tell(), None
        return self._known

    def __getitem__(self, name: str) -> tuple[Form, ...]:
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def __repr__(self) -> str:
        return repr(self.known)

    def __reduce__(self) -> tuple[object, ...]:
        return (dict, (dict(self.known),))


def _boxable(s: Schedule) -> list[Stage]:
    """Stages that may compute unread elements: neither they nor their producers can trap."""
    safe: dict[Operation, bool] = {}
    for stage in s.stages:  # producers come first
        op = stage.op
        safe[op] = _is_harmless(op) and all(safe.get(t.op, True) for t in op.input_tensors)
    return [stage for stage in s.stages if safe[stage.op] and stage.attach_type is not AttachType.INLINED_ALREADY]


def _is_harmless(op: Operation) -> bool:
    if isinstance(op, PlaceholderOp):
        return True
    if not isinstance(op, ComputeOp):
        return False
    for node in walk.nodes(*op.body):
        if node.op is CALL and node.data in TRAPPING:
            return False
        if isinstance(node, Value) and node.op is CONVERT and dtypes.is_int(node.dtype):
            return False
        divisor = node.args[1] if node.op in ops.DIVISIONS and not _is_float(node) else None
        if divisor is not None and not (isinstance(divisor, Expr) and constant_value(divisor)):
            return False
    return True


def _is_float(node: Operand) -> bool:
    return isinstance(node, Value) and dtypes.is_float(node.dtype)


def _excess(box: BoundsMap) -> float | None:
    """The share of unread elements in boxes, at a middle instance; `None` if every box equals its region.

    The middle instance may be untypical, for example if `i + 3` wraps around: if some instance stores much more, the
    answer is 1, the worst case.

    Excess accumulates: a box reads more than its region, and so on along the producers. With `n` stages each excess
    counts up to `n` times; this bound is charged for all stages.
    """
    values = _middle(box)
    spared, total, count = 0.0, 0, 0
    for stage in box.schedule.stages:
        if stage.attach_type is AttachType.INLINED_ALREADY or isinstance(stage.op, PlaceholderOp):
            continue
        count += 1
        for tensor in stage.op.outputs:
            required = box.required(tensor)
            if required.is_box or stage not in box.boxed:
                continue
            try:
                needed, made = (
                    r.at({v: values[v] for v in r.params}).shape.count() for r in (required, box.computed(tensor))
                )
            except (IntSetError, KeyError):
                return 1.0
            if not isinstance(made, int) or not isinstance(needed, int) or made <= 0:
                return 1.0
            extents = [number(r.extent, values) for r in box.allocated(tensor)]
            if not box.slid(stage) and prod(n or 0 for n in extents) > made * (1 + LITTLE):
                return 1.0
            spared += (made - needed) / made
            total += 1
    return spared / total * count * count if total else None


def _is_large(b: BoundsMap) -> bool:
    """Whether the stores alone take more than `SMALL`."""
    return (_elements(b) or 0) * WEIGHTS["vector"] > SMALL


def _spared(box: BoundsMap, exact: BoundsMap) -> float:
    """The share of the elements computed in boxes that exact regions spare, at a middle instance; 1 if unknown."""
    most, least, values = _elements(box), _elements(exact), _middle(box)
    for stage in box.schedule.stages:
        for tensor in stage.op.outputs if box.is_computed(stage) else ():
            made = _computed(box, tensor, values)
            extents = [number(r.extent, values) for r in box.allocated(tensor)]
            if made is None or box.slid(stage) or prod(n or 0 for n in extents) > made * (1 + LITTLE):
                return 1.0  # the middle instance is untypical
    return 1.0 if most is None or least is None else (most - least) / most if most else 0.0


def _elements(b: BoundsMap) -> int | None:
    """How many elements all instances compute, if each is as a middle instance; `None` if unknown."""
    values, total = _middle(b), 0
    for stage in b.schedule.stages:
        if not b.is_computed(stage):
            continue
        times = prod(number(b[leaf].extent, values) or 1 for _, leaf in b.attach_path(stage))
        for tensor in stage.op.outputs:
            count = _computed(b, tensor, values)
            if count is None:
                return None
            total += count * times
    return total


def _computed(b: BoundsMap, tensor: Tensor, values: Mapping[Var, int]) -> int | None:
    """How many elements one instance computes; `None` if unknown."""
    region = b.computed(tensor)
    try:
        count = region.at({v: values[v] for v in region.params}).shape.count()
    except (IntSetError, KeyError):
        return None
    return count if isinstance(count, int) else None


def _middle(box: BoundsMap) -> dict[Var, int]:
    """Typical sizes, and for these the middle value of each loop."""
    values: dict[Var, int] = {v: box.sizes.get(v, typical(v)) for v in box.size_variables}
    for axis, r in box.items():
        low, extent = (number(e, values) for e in (r.min, r.extent))
        if low is not None and extent is not None:
            values[axis] = low + max(extent - 1, 0) // 2
    return values
