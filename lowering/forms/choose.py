"""The cheapest of the nests that a schedule may become.

A stage computes what is required of it exactly, or the box around that (`compute`); what is said by guards stays one,
becomes ends of loops, or takes the nest apart (`nests`, `lowering.build.pieces`). The box may compute elements that
nobody reads and that its producers then compute for it; in exchange no guard and no uneven loop end stands in the way.
It is not considered where an element that nobody reads could do harm, to the stage or to what it reads: an integer
divided by what is no constant, a call of the host, an access that leaves its tensor.

Which is cheaper is asked of the modelled nests (`lowering.forms.model`), as C will have them: taken apart. Stages that
are attached to one another share loops, so all of them take the same form of nest; other nests are chosen apart. What
is computed is chosen for all stages together, as boxes of one make others larger: all boxes, none, and boxes where the
first two say that they are cheaper. In the same way storage is chosen: strides may be folded out of what is computed
exactly (`bound.infer.answers.compact`), which touches less memory and puts neighbours next to one another, but costs
indices. So a schedule is lowered a number of times that does not depend on its length.

Asked first is the box, which is quick to infer. Where every region is a box there is nothing to choose; where the boxes
exceed the regions by little, even if the excess is passed on from stage to stage, the exact nests are not built at all.
A program that takes no time either way computes what is required, in nests that are not taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Final

from bound import infer_bound
from bound.infer import BoundsMap
from bound.operation import ComputeOp, Operation, PlaceholderOp
from bound.schedule import AttachType, Schedule, Stage
from bound.tir import walk
from bound.tir.value import Operand, ValueOp
from intset.context import Context
from intset.errors import IntSetError
from intset.expr import ops
from intset.expr.node import Expr, Var, constant_value
from lowering.build.function import Maker, with_ends, without_ends
from lowering.build.pieces import pieces_of
from lowering.forms.made import Made
from lowering.forms.model import number, typical
from lowering.nest.ir import Function, If
from lowering.nest.walk import statements

COMPUTE: Final = ("auto", "exact", "box")
SMALL: Final = 50_000  # modelled cost of a program that takes no time: what is required, in as few loops as possible
LITTLE: Final = 0.05  # of the elements of all boxes: an excess that is not worth a second inference
FEW: Final = 40  # statements of a nest up to which guards are an alternative also where only tiles are ragged
_LIKED: Final[tuple[str, ...]] = ("split", "ends", "guard", "partition")  # of equals the first
_TRAPPING: Final = (*ops.DIVISIONS, ValueOp.FLOORDIV, ValueOp.FLOORMOD, ValueOp.TRUNCDIV, ValueOp.TRUNCMOD)


@dataclass(frozen=True)
class Form:
    """One way to compute a stage.

    Attributes
    ----------
    compute: "exact" or "box".
    nests: "guard", "ends", "split" or "partition" (`lowering.build.pieces`).
    storage: "plain", or "compact" where strides are folded out of it (`bound.infer.answers.compact`).
    cost: what the model expects the stage to cost then, with what that changes in the stages that are decided together
        with it. `None` where that was not modelled, because it could not be worth it.
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
    """The bounds and the nest that were chosen, and the forms each stage was considered in, the chosen one first.

    `parted`: the nest with loops taken apart, where that is to be printed.
    """

    bounds: BoundsMap
    function: Function
    forms: Forms
    parted: Function | None


def bounds_of(
    s: Schedule, ctx: Context | None, at: Mapping[Any, int] | None, domain: str | None, compact: bool
) -> BoundsMap:
    """What `infer_bound(compute="auto")` answers."""
    made = chosen(s, Maker(ctx=ctx, unsafe=True), lambda c: infer_bound(s, ctx, at, domain, c, compact), "auto", "auto")
    made.bounds.forms = made.forms
    return made.bounds


def chosen(
    s: Schedule,
    maker: Maker,
    infer: Callable[[str | Mapping[Any, str]], BoundsMap],
    compute: str,
    nests: str,
    is_stored_as_inferred: bool = True,
) -> Choice:
    """The cheapest way to compute a schedule.

    Parameters
    ----------
    infer: the bounds by what is computed.
    compute, nests: as in `lower`.
    is_stored_as_inferred: else compact storage is an alternative, where what is computed is chosen.
    """
    if compute != "auto":
        return _told([_Nests(maker, infer(compute), nests)])
    boxable = _boxable(s)
    box = infer(dict.fromkeys(boxable, "box") if len(boxable) < len(s.stages) else "box") if boxable else None
    made: list[_Nests] = []
    if box is not None and not box.outside:
        excess = _excess(box)  # None: every region is a box
        made.append(_Nests(maker, box, nests))
        if excess is None or (excess <= LITTLE and made[0].takes_more(SMALL)):
            return _told(made, also=() if excess is None else ("exact",))
    exact = _Nests(maker, infer("exact"), nests)
    made.append(exact)
    if not made[0].takes_more(SMALL):
        return _told(made, first=exact)
    if not is_stored_as_inferred:
        made += _compacted(maker, exact.bounds, nests)
    known = exact.price.costs.items()
    best = {name: min((exact, *made), key=lambda one: one.price.costs.get(name, cost)) for name, cost in known}
    if len({id(one) for one in best.values()}) > 1:  # each stage as is cheapest for it
        boxed, compact = ({t for t, one in best.items() if word in one.way(t)} for word in ("box", "compact"))
        some: dict[Any, str] = {stage: "box" for stage in boxable if boxed & _names([stage])}
        b = infer(some) if some else exact.bounds
        folded = [stage for stage in b.schedule.stages if compact & _names([stage])]
        made.append(_Nests(maker, b.with_compact(folded) if folded else b, nests))
    return _told(made)


def _compacted(maker: Maker, b: BoundsMap, nests: str) -> list[_Nests]:
    """The nests with compact storage, where that differs for some stage."""
    every = b.with_compact(b.schedule.stages)
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    folded = [stage for stage in computed if any(every.storage(t).is_compact for t in stage.op.outputs)]
    return [_Nests(maker, b.with_compact(folded), nests)] if folded else []


# -- what becomes of guards --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Price:
    """What nests are expected to cost.

    Attributes
    ----------
    costs: of each stage in the cheapest form, by the name of its tensor.
    words: by name, what nests each stage has in it.
    more: by name, of each form of nests that was considered, by how much it would be dearer.
    """

    costs: Mapping[str, float]
    words: Mapping[str, str]
    more: Mapping[str, Mapping[str, float]]


class _Nests:
    """A schedule with its bounds in the forms of nests that are considered: in the one that is asked for, or in any.

    Forms, and what they cost, are found when they are asked for.
    """

    def __init__(self, maker: Maker, b: BoundsMap, asked: str) -> None:
        self.bounds, self._maker, self._asked = b, maker, asked
        self._guarded = maker.guarded(b)

    @cached_property
    def _ends(self) -> Made:
        return Made(with_ends(self._guarded, ()), self.bounds.sizes)

    @cached_property
    def _split(self) -> list[Stage]:
        """The stages whose regions have pieces."""
        b = self.bounds
        return [stage for stage in b.schedule.stages if b.is_computed(stage) and pieces_of(b, stage) is not None]

    @cached_property
    def _forms(self) -> Mapping[str, Made]:
        asked, b = self._asked, self.bounds
        inside = list(statements(self._guarded.body))
        has_guards = any(isinstance(stmt, If) for stmt in inside) and (len(inside) <= FEW or not _is_boxes(b))
        made: dict[str, Made] = {}
        if asked in ("auto", "ends"):
            made["ends"] = self._ends
        if asked in ("guard", "partition") or (asked == "auto" and has_guards):
            plain = Made(without_ends(self._guarded), b.sizes)
            made["partition" if asked != "guard" and (asked == "partition" or plain.is_parted) else "guard"] = plain
        if asked == "split" or (asked == "auto" and self._split):
            made["split"] = Made(with_ends(self._pieces(self._split), ()), b.sizes)
        return made

    def _pieces(self, split: Sequence[Stage]) -> Function:
        return self._maker.guarded(self.bounds, split) if split else self._guarded

    @cached_property
    def price(self) -> _Price:
        split = self._split if "split" in self._forms else ()
        return _priced(self.bounds, self._forms, self._asked == "auto", split)

    @property
    def total(self) -> float:
        return sum(self.price.costs.values())

    def takes_more(self, than: float) -> bool:
        """Whether a program costs more: as it is printed first of all, so that little work needs no other form."""
        first = self._ends if self._asked in ("auto", "ends") else next(iter(self._forms.values()))
        return first.takes_more(than) and (len(self._forms) == 1 or self.total > than)

    @cached_property
    def _words(self) -> list[str]:
        """What nests there are in the cheapest form; of one form without a price."""
        words = self._forms if len(self._forms) == 1 else self.price.words.values()
        return list(dict.fromkeys(words))

    @cached_property
    def made(self) -> Made:
        """The cheapest form."""
        if len(self._words) == 1:
            return self._forms[self._words[0]]
        return _mixed(self.bounds, self.price.words, self._pieces)

    @property
    def is_parted(self) -> bool:
        return "partition" in self._words

    def way(self, name: str) -> tuple[str, str]:
        """What is computed of a tensor, and how it is stored."""
        b = self.bounds
        return "box" if name in _names(b.boxed) else "exact", "compact" if name in _names(b.compacted) else "plain"


def _priced(b: BoundsMap, made: Mapping[str, Made], is_free: bool, split: Sequence[Stage]) -> _Price:
    """The cheapest form for the stages that are inside of each stage at the root.

    `is_free`: whether a program that takes no time stays whole; `split`: the stages that have pieces.
    """
    groups = _groups(b, dict.fromkeys(name for one in made.values() for name in one.costs))
    sums = {word: _sums(one.costs, groups) for word, one in made.items()}
    before = {word: _sums(one.whole, groups) if len(made) > 1 else {} for word, one in made.items()}
    of = {group: [word for word in _LIKED if word in made] for group in groups.values()}
    if "ends" in made and "split" in made:
        in_pieces = {groups.get(t.name) for stage in split for t in stage.op.outputs}
        of = {group: [word for word in found if word != "split" or group in in_pieces] for group, found in of.items()}
    candidates = of
    if is_free and sum(min(sums[w].get(g, 0.0) for w in found) for g, found in of.items()) <= SMALL:
        candidates = {group: [word for word in found if word != "partition"] for group, found in of.items()}
    best = {
        group: min(found, key=lambda word: (round(sums[word].get(group, 0.0), 3), before[word].get(group, 0.0)))
        for group, found in candidates.items()
    }
    words = {name: best[group] for name, group in groups.items()}
    costs = {name: made[word].costs.get(name, 0.0) for name, word in words.items()}
    more = {name: {w: sums[w].get(g, 0.0) - sums[words[name]].get(g, 0.0) for w in of[g]} for name, g in groups.items()}
    return _Price(costs, words, more)


def _is_boxes(b: BoundsMap) -> bool:
    """Whether all that is computed is boxes: what guards say then is where tiles are cut, which is an end of a loop."""
    made = (t for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs)
    return all(b.computed(t).is_box for t in made)


def _mixed(b: BoundsMap, words: Mapping[str, str], pieces: Callable[[Sequence[Stage]], Function]) -> Made:
    """The form in which each stage has nests of its own word; `pieces`: with guards, of stages in pieces."""
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    of = {stage: words.get(stage.op.outputs[0].name, "ends") for stage in computed}
    kept = {leaf for stage, word in of.items() if word in ("guard", "partition") for leaf in stage.leaf_iter_vars}
    return Made(with_ends(pieces([stage for stage, word in of.items() if word == "split"]), kept), b.sizes)


def _groups(b: BoundsMap, names: Iterable[str]) -> dict[str, Stage | None]:
    """By the name of its tensor, the stage at the root that a stage is inside of; shared loops make all of them one."""
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    if any(b.shared_path(stage) for stage in computed):
        return dict.fromkeys(names)
    paths = {t.name: (stage, *(at for at, _ in b.attach_path(stage))) for stage in computed for t in stage.op.outputs}
    return {name: paths[name][-1] if name in paths else None for name in names}


def _sums(costs: Mapping[str, float], groups: Mapping[str, Stage | None]) -> dict[Stage | None, float]:
    found: dict[Stage | None, float] = {}
    for name, cost in costs.items():
        group = groups.get(name)  # costs of no loop left, such as a check before all loops, belong to no stage
        found[group] = found.get(group, 0.0) + cost
    return found


def _names(stages: Iterable[Stage]) -> set[str]:
    return {t.name for stage in stages for t in stage.op.outputs}


# -- what is computed --------------------------------------------------------------------------------------------------


def _told(made: list[_Nests], also: tuple[str, ...] = (), first: _Nests | None = None) -> Choice:
    """The cheapest, or `first`, with all that was considered; `also`: what was not built."""
    best = first or (made[0] if len(made) == 1 else min(made, key=lambda nests: nests.total))
    forms = _Told(lambda: _listed(best, made, also))
    parted = replace(best.made.parted, forms=forms) if best.is_parted else None
    return Choice(best.bounds, replace(best.made.f, forms=forms), forms, parted)


def _listed(best: _Nests, made: Sequence[_Nests], also: tuple[str, ...]) -> Forms:
    forms: dict[str, tuple[Form, ...]] = {}
    for name, cost in best.price.costs.items():
        own = (*best.way(name), best.price.words[name])
        found = {own: cost}
        for nests in (best, *made):
            if name not in nests.price.more:
                continue
            own_cost = nests.price.costs.get(name, cost)  # where the cheapest is not taken, nothing is gained elsewhere
            base = cost + nests.total - best.total if nests.total >= best.total else own_cost
            for word, more in nests.price.more[name].items():
                key, expected = (*nests.way(name), word), max(0.0, base + more)
                found[key] = min(found.get(key, expected), expected)
        del found[own]
        known = [Form(compute, word, value, storage) for (compute, storage, word), value in found.items()]
        rest = [*sorted(known, key=lambda form: form.cost or 0), *(Form(compute, own[2], None) for compute in also)]
        forms[name] = (Form(own[0], own[2], cost, own[1]), *rest)
    return forms


class _Told(Mapping[str, tuple[Form, ...]]):
    """Forms that are listed when somebody asks: where there was nothing to choose, nothing was priced."""

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
    """The stages of which elements may be computed that nobody reads: no harm comes to them, nor to what they read."""
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
        divisor = node.args[1] if node.op in _TRAPPING and not _is_float(node) else None
        if divisor is not None and not (isinstance(divisor, Expr) and constant_value(divisor)):
            return False
    return True


def _is_float(node: Operand) -> bool:
    return str(getattr(node, "dtype", "int")).startswith("float")


def _excess(box: BoundsMap) -> float | None:
    """By how much boxes exceed what is required, as a part of what is computed, in an instance in the middle;
    `None` where no box exceeds its region in any instance.

    An instance that stores much more than the one in the middle is unlike it: where `i + 3` wraps around, say. Then
    nothing is known from that.

    An excess is passed on: the box of a stage reads more than its region does, and so on up the chain. With `n` stages
    the excess of each one counts up to `n` times in those it reads; that is charged for all of them.
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


def _middle(box: BoundsMap) -> dict[Var, int]:
    """Typical sizes, and the middle of each loop at them."""
    values: dict[Var, int] = {v: box.sizes.get(v, typical(v)) for v in box.size_variables}
    for axis, r in box.items():
        low, extent = (number(e, values) for e in (r.min, r.extent))
        if low is not None and extent is not None:
            values[axis] = low + max(extent - 1, 0) // 2
    return values
