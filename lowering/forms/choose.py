"""Choose the cheapest nest that a schedule may become: candidate nests, their prices by stage, the choice.

The alternatives of a stage:

- compute: exactly the required region, or the box around it. A box may compute elements that nobody reads, and its
  producers must compute their inputs; in exchange it needs no guards and no uneven loop ends. Boxes are excluded where
  an unread element could do harm in the stage or its producers: integer division by a variable, host calls, accesses
  outside a tensor.
- nests (`NESTS`): guards, loop ends, a nest per piece, or index set splitting.
- storage: plain, or compact (`bound.infer.answers.storage`) with strides folded out or with axes of fused loops as one.
  Compact storage touches less memory and makes neighbours adjacent, at the price of index arithmetic.

Nests are priced by the model of `lowering.forms.model` after index set splitting, as C has them. Stages attached to one
another share loops and take the same form of nest; other stages choose independently. Since boxes enlarge the boxes of
producers, `compute` is chosen for all stages together among three candidates: all boxes, no boxes, and boxes where
exact regions cost no less, if these promise to spare something. The number of lowerings is therefore independent of
the length of the schedule.

Boxes, which are quick to infer, come first. Without regions other than boxes the choice ends there; if boxes exceed the
regions by little, even accumulated over the stages, exact regions are not inferred; if the inferred ones spare few of
the elements that boxes compute, exact nests are not built. Programs of negligible cost compute the required
regions, without index set splitting, and their nests are compared before it where that decides.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import inf, prod
from typing import Any, Final, TypeAlias

from bound import dtypes, infer_bound
from bound.infer import BoundsMap, StagePiece, StageRegion
from bound.infer.infer_bound import NEST_FUNCTIONS
from bound.schedule import AttachType, Schedule, Stage
from bound.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from bound.tir import walk
from bound.tir.machine import TRAPPING
from bound.tir.value import CALL, CONVERT, Operand, Value
from intset.config import memoized
from intset.context import Context
from intset.errors import IntSetError
from intset.expr import Expr, Var, constant_value, ops
from intset.linear.canonical import form_of
from intset.trace import passed
from lowering.build.function import FunctionBuilder, with_ends, without_ends
from lowering.build.pipeline import pieces_of
from lowering.forms.model import WEIGHTS, modelled, modelled_up_to, number, typical
from lowering.nest import ir
from lowering.nest.walk import constant_limit, occurring, range_ends, statements
from lowering.passes.loops.index_set_splitting import cuts_loops, partition_loops

NESTS: Final = ("auto", "guard", "ends", "split", "partition")
"""The nest of a stage whose region is no box.

guard       one nest over the box, with guards
ends        guards as loop ends where possible (`lowering.passes.loops.tightening`)
split       a nest for each disjoint piece of the region, if there are pieces; otherwise as "ends"
partition   index set splitting: an interior without guards, and borders (`lowering.passes.loops.index_set_splitting`)
auto        the cheapest of these
"""
SMALL: Final = 50_000  # modelled cost of a program that takes no time: required regions, in as few loops as possible
FEW: Final = 40  # statements up to which guards compete in nests where only tiles are ragged
_LIKED: Final[tuple[str, ...]] = ("split", "ends", "guard", "partition")  # preferred first among equal costs
COMPUTE: Final = ("auto", "exact", "box")
LITTLE: Final = 0.05  # share of unread elements in boxes up to which exact regions are not inferred
SPARED: Final = 0.1  # share of elements that exact regions must spare, else they are not built: guards cost more
GAINED: Final = 0.01  # share of the cost that boxes of some stages must promise to spare, else they are not inferred


class FormNest:
    """The function of a schedule in one form, with its costs, each computed lazily.

    Attributes
    ----------
    f: the function, divisions not lowered.
    sizes: values of fixed sizes.
    """

    def __init__(self, f: ir.Function, sizes: Mapping[Var, int]) -> None:
        self.f, self.sizes = f, sizes

    @cached_property
    def partitioned(self) -> ir.Function:
        """The function after index set splitting, as C has it."""
        return passed(partition_loops, self.f)

    @cached_property
    def is_partitioned(self) -> bool:
        """Whether index set splitting cuts a loop."""
        return passed(cuts_loops, self.f)

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """Modelled cost of each stage in C, by the name of its tensor."""
        if self.partitioned.body is self.f.body:
            return self.whole
        return passed(modelled, self.partitioned, self.sizes)

    @memoized
    def takes_more(self, than: float) -> bool:
        """Whether the function costs more before splitting; counting ends at the limit."""
        costs = passed(modelled_up_to, self.f, than, self.sizes)
        if costs is not None:
            self.whole = costs
        return costs is None

    @cached_property
    def whole(self) -> Mapping[str, float]:
        """Modelled costs before splitting, which decide between equals."""
        return passed(modelled, self.f, self.sizes)


class CandidateNests:
    """The candidate nests of a schedule for given bounds; nests and prices are computed lazily.

    Parameters
    ----------
    asked: a word of `NESTS`; "auto" admits all.
    """

    def __init__(self, maker: FunctionBuilder, b: BoundsMap, asked: str) -> None:
        self.bounds, self._maker, self._asked = b, maker, asked
        self._in_these: dict[tuple[Stage, ...], ir.Function] = {}  # by the stages in pieces

    @cached_property
    def _guarded(self) -> ir.Function:
        return self._maker.guarded(self.bounds)

    @cached_property
    def _ends(self) -> FormNest:
        return FormNest(with_ends(self._guarded, ()), self.bounds.sizes)

    @cached_property
    def _split(self) -> list[Stage]:
        """Stages whose regions have disjoint pieces.

        Where loop ends replace all guards, one piece that differs in its innermost loop alone is no alternative.
        """
        b = self.bounds
        made = ((stage, pieces_of(b, stage)) for stage in b.schedule.stages if b.is_computed(stage))
        split = {stage: pieces for stage, pieces in made if pieces is not None}
        if split and self._asked == "auto" and not _has_guards(self._ends.f):
            return [stage for stage, pieces in split.items() if len(pieces) > 1 or not _is_inner(b, stage, *pieces)]
        return list(split)

    @cached_property
    def _plain(self) -> FormNest | None:
        """The form with guards; `None` if it is no alternative.

        Where loop ends replace the guards of ragged tiles, the interior of both forms is the same. Where they replace
        none, both forms are one nest, and it is split and priced once.
        """
        is_auto = self._asked == "auto"
        if self._asked not in ("guard", "partition") and not (is_auto and _has_guards(self._guarded)):
            return None
        are_tiles = is_auto and _is_boxes(self.bounds)
        if are_tiles and (_is_long(self._guarded) or _is_tiled(self._ends.f, self._guarded)):
            return None
        plain = FormNest(without_ends(self._guarded), self.bounds.sizes)
        if are_tiles and not _has_guards(self._ends.f) and plain.is_partitioned:
            return None
        return self._ends if is_auto and plain.f.body is self._ends.f.body else plain

    @cached_property
    def _in_pieces(self) -> FormNest:
        return FormNest(with_ends(self._pieces(self._split), ()), self.bounds.sizes)

    @cached_property
    def _forms(self) -> Mapping[str, FormNest]:
        """All forms, by their words of `NESTS`."""
        asked, forms = self._asked, dict[str, FormNest]()
        if asked in ("auto", "ends"):
            forms["ends"] = self._ends
        if self._plain is not None:
            is_partitioned = asked != "guard" and (asked == "partition" or self._plain.is_partitioned)
            forms["partition" if is_partitioned else "guard"] = self._plain
        if asked == "split" or (asked == "auto" and self._split):
            forms["split"] = self._in_pieces
        return forms

    @cached_property
    def _is_small(self) -> bool:
        """Whether forms are first compared before splitting: nothing is to be chosen, or the program costs little."""
        is_chosen = self._plain not in (None, self._ends) or bool(self._split)
        return self._asked == "auto" and not (is_chosen and self._ends.takes_more(SMALL))

    @cached_property
    def _candidates(self) -> Mapping[str, FormNest]:
        """The forms to choose from.

        A program of negligible cost is not partitioned, and keeps guards only if they cost less before splitting.
        """
        if not self._is_small:
            return self._forms
        ends, plain = self._ends, self._plain
        forms = {"ends": ends}
        if plain not in (None, ends) and _is_cheaper(plain.whole, ends.whole) and not plain.is_partitioned:
            forms["guard"] = plain
        if self._split:
            forms["split"] = self._in_pieces
        return forms

    def _pieces(self, split: Sequence[Stage]) -> ir.Function:
        """The function with guards, with stages in pieces; made once for the same stages."""
        known = tuple(split)
        if known not in self._in_these:
            self._in_these[known] = self._maker.guarded(self.bounds, split) if split else self._guarded
        return self._in_these[known]

    @cached_property
    def words(self) -> Mapping[str, str]:
        """The word of `NESTS` of each stage in the cheapest form, by the name of its tensor."""
        forms = self._candidates
        if self._is_small:
            words = _cheapest(self.bounds, forms, {word: one.whole for word, one in forms.items()}, self._split)
            others = forms.keys() - set(words.values())
            if len(forms) - len(others) == 1 and not any(forms[word].is_partitioned for word in others):
                return words  # splitting cuts none of the others, and makes no form dearer
        return _cheapest(self.bounds, forms, {word: one.costs for word, one in forms.items()}, self._split)

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """The modelled cost of each stage in the cheapest form."""
        return {name: self._candidates[word].costs.get(name, 0.0) for name, word in self.words.items()}

    @property
    def more(self) -> Mapping[str, Mapping[str, float]]:
        """Additional cost of each form by the name of a stage's tensor, compared with the cheapest candidate."""
        costs = {word: one.costs for word, one in self._forms.items()}
        groups, words = _grouped(self.bounds, costs, self._split)
        sums = {word: _sums(own, groups) for word, own in costs.items()}
        best = {name: sums[self.words[name]].get(group, 0.0) for name, group in groups.items()}
        return {name: {w: sums[w].get(g, 0.0) - best[name] for w in words[g]} for name, g in groups.items()}

    @property
    def total(self) -> float:
        return sum(self.costs.values())

    def takes_more(self, than: float) -> bool:
        """Whether the program costs more; the first form is tried alone, as cheap programs need no other."""
        return self.starts_above(than) and (len(self._candidates) == 1 or self.total > than)

    def starts_above(self, cost: float) -> bool:
        """Whether the first form costs more before splitting."""
        first = self._ends if self._asked in ("auto", "ends") else next(iter(self._forms.values()))
        return first.takes_more(cost)

    @cached_property
    def _words(self) -> list[str]:
        """The words of `NESTS` that the cheapest form uses; a single candidate is not priced."""
        words = self._candidates if len(self._candidates) == 1 else self.words.values()
        return list(dict.fromkeys(words))

    @cached_property
    def made(self) -> FormNest:
        """The cheapest form."""
        if len(self._words) == 1:
            return self._candidates[self._words[0]]
        return _mixed(self.bounds, self.words, self._pieces)

    @property
    def is_partitioned(self) -> bool:
        return "partition" in self._words

    def way(self, name: str) -> tuple[str, str]:
        """The words of a tensor for `compute` and storage."""
        b = self.bounds
        return "box" if name in names_of(b.boxed) else "exact", "compact" if name in names_of(b.compacted) else "plain"


_Groups: TypeAlias = Mapping[str, "Stage | None"]  # the root stage around each stage, by the name of its tensor


def _grouped(
    b: BoundsMap, costs: Mapping[str, Mapping[str, float]], split: Sequence[Stage]
) -> tuple[_Groups, Mapping[Stage | None, Sequence[str]]]:
    """The stages that take one form together, and the words of `NESTS` open to each group.

    Parameters
    ----------
    costs: the cost of each stage, by form.
    split: stages whose regions have pieces.
    """
    groups = _groups(b, dict.fromkeys(name for own in costs.values() for name in own))
    words = {group: [word for word in _LIKED if word in costs] for group in groups.values()}
    if "ends" in costs and "split" in costs:
        in_pieces = {groups.get(t.name) for stage in split for t in stage.op.outputs}
        words = {group: [w for w in own if w != "split" or group in in_pieces] for group, own in words.items()}
    return groups, words


def _cheapest(
    b: BoundsMap, forms: Mapping[str, FormNest], costs: Mapping[str, Mapping[str, float]], split: Sequence[Stage]
) -> Mapping[str, str]:
    """Choose the form of least cost for each group; costs before splitting decide between equals."""
    groups, words = _grouped(b, costs, split)
    sums = {word: _sums(own, groups) for word, own in costs.items()}
    before: dict[str, Mapping[Stage | None, float]] = {}  # where it decides

    def whole(word: str, group: Stage | None) -> float:
        if word not in before:
            before[word] = _sums(forms[word].whole, groups)
        return before[word].get(group, 0.0)

    best: dict[Stage | None, str] = {}
    for group, own in words.items():
        found = [round(sums[word].get(group, 0.0), 3) for word in own]
        equal = [word for word, cost in zip(own, found, strict=True) if cost == min(found)]
        best[group] = equal[0] if len(equal) == 1 else min(equal, key=lambda word: whole(word, group))
    return {name: best[group] for name, group in groups.items()}


def _is_cheaper(costs: Mapping[str, float], than: Mapping[str, float]) -> bool:
    """Whether some stage costs less."""
    return any(cost < than.get(name, inf) for name, cost in costs.items())


def _is_inner(b: BoundsMap, stage: Stage, piece: StagePiece) -> bool:
    """Whether the nest of a piece differs from the guarded nest in its innermost loop alone, of no constant length."""
    if constant_value(range_ends(piece.nest.loops[-1].range)[1]) is not None:
        return False
    own, others = ([range_ends(loop.range) for loop in nest.loops[:-1]] for nest in (b.nest(stage), piece.nest))
    pairs = zip(chain(*own), chain(*others), strict=True)
    return all(form_of(one).same(form_of(other)) for one, other in pairs)


def _has_guards(f: ir.Function) -> bool:
    return ir.If in occurring(f.body).kinds


def _is_long(f: ir.Function) -> bool:
    return sum(1 for _ in statements(f.body)) > FEW


def _is_tiled(f: ir.Function, guarded: ir.Function) -> bool:
    """Whether all guards became ends beside numbers, as those of ragged tiles do: splitting finds the whole tiles."""
    given = {stmt.var: stmt.range for stmt in statements(guarded.body) if isinstance(stmt, ir.For)}
    loops = [stmt for stmt in statements(f.body) if isinstance(stmt, ir.For) and stmt.range is not given[stmt.var]]
    return not _has_guards(f) and all(constant_limit(range_ends(loop.range)[1]) is not None for loop in loops)


def _is_boxes(b: BoundsMap) -> bool:
    """Whether all computed regions are boxes, so that guards only cut ragged tiles and fit into loop ends."""
    made = (t for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs)
    return all(b.computed(t).is_box for t in made)


def _mixed(b: BoundsMap, words: Mapping[str, str], pieces: Callable[[Sequence[Stage]], ir.Function]) -> FormNest:
    """Combine the words of all stages in one function; `pieces` builds guarded nests with some stages in pieces."""
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    of = {stage: words.get(stage.op.outputs[0].name, "ends") for stage in computed}
    kept = {leaf for stage, word in of.items() if word in ("guard", "partition") for leaf in stage.leaf_iter_vars}
    return FormNest(with_ends(pieces([stage for stage, word in of.items() if word == "split"]), kept), b.sizes)


def _groups(b: BoundsMap, names: Iterable[str]) -> dict[str, Stage | None]:
    """Map tensor names to the root stage around their stage; with shared loops, all form one group, `None`."""
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    if any(b.shared_path(stage) for stage in computed):
        return dict.fromkeys(names)
    paths = {t.name: (stage, *(at for at, _ in b.attach_path(stage))) for stage in computed for t in stage.op.outputs}
    return {name: paths[name][-1] if name in paths else None for name in names}


def _sums(costs: Mapping[str, float], groups: Mapping[str, Stage | None]) -> dict[Stage | None, float]:
    found: dict[Stage | None, float] = {}
    for name, cost in costs.items():
        group = groups.get(name)  # `None` for checks in front of all loops
        found[group] = found.get(group, 0.0) + cost
    return found


def names_of(stages: Iterable[Stage]) -> set[str]:
    return {t.name for stage in stages for t in stage.op.outputs}


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
    function: ir.Function
    forms: Forms
    partitioned: ir.Function | None


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
    boxes = None if box is None else CandidateNests(maker, box, nests)
    if boxes is not None:
        excess = _excess(boxes.bounds)  # None: every region is a box
        if (excess is None or excess <= LITTLE) and _usable(boxes) and (excess is None or boxes.takes_more(SMALL)):
            return _choice([boxes], also=() if excess is None else ("exact",))
    exact = CandidateNests(maker, infer("exact"), nests)
    if (
        boxes is not None
        and ((_elements(boxes.bounds) or 0) * WEIGHTS["vector"] > SMALL or exact.starts_above(SMALL))
        and _spared(boxes.bounds, exact.bounds) <= SPARED
        and _usable(boxes)
        and (is_stored_as_inferred or not _compacted(maker, exact.bounds, nests))
    ):
        return _choice([boxes], also=("exact",))
    if not exact.takes_more(SMALL):
        return _choice([exact], others=lambda: _usable(boxes))
    made = [*_usable(boxes), exact]
    if not is_stored_as_inferred:
        made += _compacted(maker, exact.bounds, nests)
    best = {name: min(made, key=lambda one: one.costs.get(name, cost)) for name, cost in exact.costs.items()}
    promised = sum(best[name].costs.get(name, cost) for name, cost in exact.costs.items())
    if promised < (1 - GAINED) * min(one.total for one in made):  # combine the cheapest form of each stage
        boxed, compact = ({t for t, one in best.items() if word in one.way(t)} for word in ("box", "compact"))
        some: dict[Any, str] = {stage: "box" for stage in boxable if boxed & names_of([stage])}
        if not compact and box is not None and _is_same(box, names_of(some)):
            return _choice(made)
        b = infer(some) if some else exact.bounds
        folded = [stage for stage in b.schedule.stages if compact & names_of([stage])]
        made.append(CandidateNests(maker, b.with_compact(folded) if folded else b, nests))
    return _choice(made)


def _usable(boxes: CandidateNests | None) -> list[CandidateNests]:
    """The nests of boxes, if no access leaves its tensor in them."""
    return [] if boxes is None or boxes.bounds.has_outside else [boxes]


def _is_same(box: BoundsMap, some: Collection[str]) -> bool:
    """Whether boxes of some tensors equal boxes of all, because the remaining regions are boxes."""
    computed = (t for stage in box.boxed if box.is_computed(stage) for t in stage.op.outputs)
    return all(t.name in some or box.required(t).is_box for t in computed)


def _compacted(maker: FunctionBuilder, b: BoundsMap, nests: str) -> list[CandidateNests]:
    """The exact nests with compact storage, if that has other extents than the plain one for some stage.

    With equal extents it has as many places and the same neighbours, and its index maps alone cost more.
    """
    every = b.with_compact(b.schedule.stages)
    computed = [stage for stage in b.schedule.stages if b.is_computed(stage)]
    folded = [stage for stage in computed if any(_extents(every, t) != _extents(b, t) for t in stage.op.outputs)]
    return [CandidateNests(maker, b.with_compact(folded), nests)] if folded else []


def _extents(b: BoundsMap, tensor: Tensor) -> list[object]:
    return [r.extent for r in b.storage(tensor).allocated]


# -- the choice --------------------------------------------------------------------------------------------------------


def _choice(
    made: list[CandidateNests], also: tuple[str, ...] = (), others: Callable[[], list[CandidateNests]] = list
) -> Choice:
    """The choice of the cheapest.

    Parameters
    ----------
    also: candidates for `compute` that were not built.
    others: the candidates that are listed with those made.
    """
    best = made[0] if len(made) == 1 else min(made, key=lambda nests: nests.total)
    forms = _LazyForms(lambda: _listed(best, [*made, *others()], also))
    partitioned = replace(best.made.partitioned, forms=forms) if best.is_partitioned else None
    return Choice(best.bounds, replace(best.made.f, forms=forms), forms, partitioned)


def _listed(best: CandidateNests, made: Sequence[CandidateNests], also: tuple[str, ...]) -> Forms:
    forms: dict[str, tuple[Form, ...]] = {}
    more = {nests: nests.more for nests in (best, *made)}
    for name, cost in best.costs.items():
        own = (*best.way(name), best.words[name])
        found = {own: cost}
        for nests in (best, *made):
            if name not in more[nests]:
                continue
            own_cost = nests.costs.get(name, cost)  # a form other than the cheapest saves nothing elsewhere
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
    stages = [stage for stage in box.schedule.stages if box.is_computed(stage)]
    outputs = [(stage, tensor) for stage in stages if stage in box.boxed for tensor in stage.op.outputs]
    uneven = [(stage, tensor) for stage, tensor in outputs if not box.required(tensor).is_box]
    values = _middle(box) if uneven else {}
    spared = 0.0
    for stage, tensor in uneven:
        needed, made = _elements_of(box.required(tensor), values), _elements_of(box.computed(tensor), values)
        if not made or needed is None:
            return 1.0
        extents = [number(r.extent, values) for r in box.allocated(tensor)]
        if not box.slid(stage) and prod(n or 0 for n in extents) > made * (1 + LITTLE):
            return 1.0
        spared += (made - needed) / made
    return spared / len(uneven) * len(stages) ** 2 if uneven else None


def _spared(box: BoundsMap, exact: BoundsMap) -> float:
    """The share of the elements computed in boxes that exact regions spare, at a middle instance; 1 if unknown."""
    most, least, values = _elements(box), _elements(exact), _middle(box)
    for stage in box.schedule.stages:
        for tensor in stage.op.outputs if box.is_computed(stage) else ():
            made = _elements_of(box.computed(tensor), values)
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
            count = _elements_of(b.computed(tensor), values)
            if count is None:
                return None
            total += count * times
    return total


def _elements_of(region: StageRegion, values: Mapping[Var, int]) -> int | None:
    """How many elements a region has; `None` if unknown."""
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
