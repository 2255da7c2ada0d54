"""Candidate nests of a schedule for given bounds, and their prices by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf
from typing import Final, TypeAlias

from bound.infer import BoundsMap, StagePiece
from bound.schedule import Stage
from intset.expr.node import Var, constant_value
from intset.trace import passed
from lowering.build.function import FunctionBuilder, with_ends, without_ends
from lowering.build.pipeline import pieces_of
from lowering.forms.model import modelled, modelled_up_to
from lowering.nest.ir import Function, If, Stmt
from lowering.nest.walk import range_ends, statements
from lowering.passes.affine import form_of
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


class FormNest:
    """The function of a schedule in one form, with its costs, each computed lazily.

    Attributes
    ----------
    f: the function, divisions not lowered.
    sizes: values of fixed sizes.
    """

    def __init__(self, f: Function, sizes: Mapping[Var, int]) -> None:
        self.f, self.sizes = f, sizes

    @cached_property
    def partitioned(self) -> Function:
        """The function after index set splitting, as C has it."""
        return passed(partition_loops, self.f)

    @cached_property
    def is_partitioned(self) -> bool:
        """Whether index set splitting changes the number of statements."""
        return _size(self.partitioned) != _size(self.f)

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """Modelled cost of each stage in C, by the name of its tensor."""
        if self.partitioned.body is self.f.body:
            return self.whole
        return passed(modelled, self.partitioned, self.sizes)

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


def _size(f: Function) -> int:
    return sum(1 for _ in statements(f.body))


@dataclass(frozen=True)
class NestPrices:
    """Modelled costs of nests, by the name of a stage's tensor.

    Attributes
    ----------
    costs: cost of each stage in the cheapest form.
    words: its word of `NESTS` in the cheapest form.
    """

    costs: Mapping[str, float]
    words: Mapping[str, str]


class CandidateNests:
    """The candidate nests of a schedule for given bounds; nests and prices are computed lazily.

    Parameters
    ----------
    asked: a word of `NESTS`; "auto" admits all.
    """

    def __init__(self, maker: FunctionBuilder, b: BoundsMap, asked: str) -> None:
        self.bounds, self._maker, self._asked = b, maker, asked
        self._in_these: dict[tuple[Stage, ...], Function] = {}  # by the stages in pieces

    @cached_property
    def _guarded(self) -> Function:
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
        if split and self._asked == "auto" and not _has_guards(statements(self._ends.f.body)):
            return [stage for stage, pieces in split.items() if len(pieces) > 1 or not _is_inner(b, stage, *pieces)]
        return list(split)

    @cached_property
    def _plain(self) -> FormNest | None:
        """The form with guards; `None` if it is no alternative.

        Where loop ends replace the guards of ragged tiles, the interior of both forms is the same.
        """
        inside = list(statements(self._guarded.body))
        if self._asked not in ("guard", "partition") and (self._asked != "auto" or not _has_guards(inside)):
            return None
        plain = without_ends(self._guarded)
        are_tiles = self._asked == "auto" and _is_boxes(self.bounds)
        if are_tiles and (len(inside) > FEW or (not _has_guards(statements(self._ends.f.body)) and cuts_loops(plain))):
            return None
        return FormNest(plain, self.bounds.sizes)

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
    def _candidates(self) -> Mapping[str, FormNest]:
        """The forms to choose from.

        A program of negligible cost is not partitioned, and keeps guards only if they cost less before splitting.
        """
        if self._asked != "auto" or ((self._plain is not None or self._split) and self._ends.takes_more(SMALL)):
            return self._forms
        forms, plain = {"ends": self._ends}, self._plain
        if plain is not None and _is_cheaper(plain.whole, self._ends.whole) and not plain.is_partitioned:
            forms["guard"] = plain
        if self._split:
            forms["split"] = self._in_pieces
        return forms

    def _pieces(self, split: Sequence[Stage]) -> Function:
        """The function with guards, with stages in pieces; made once for the same stages."""
        known = tuple(split)
        if known not in self._in_these:
            self._in_these[known] = self._maker.guarded(self.bounds, split) if split else self._guarded
        return self._in_these[known]

    @cached_property
    def price(self) -> NestPrices:
        groups, words = _grouped(self.bounds, self._candidates, self._split)
        return _priced(self._candidates, groups, words)

    @property
    def more(self) -> Mapping[str, Mapping[str, float]]:
        """Additional cost of each form by the name of a stage's tensor, compared with the cheapest candidate."""
        groups, words = _grouped(self.bounds, self._forms, self._split)
        sums = {word: _sums(one.costs, groups) for word, one in self._forms.items()}
        best = {name: sums[self.price.words[name]].get(group, 0.0) for name, group in groups.items()}
        return {name: {w: sums[w].get(g, 0.0) - best[name] for w in words[g]} for name, g in groups.items()}

    @property
    def total(self) -> float:
        return sum(self.price.costs.values())

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
        words = self._candidates if len(self._candidates) == 1 else self.price.words.values()
        return list(dict.fromkeys(words))

    @cached_property
    def made(self) -> FormNest:
        """The cheapest form."""
        if len(self._words) == 1:
            return self._candidates[self._words[0]]
        return _mixed(self.bounds, self.price.words, self._pieces)

    @property
    def is_partitioned(self) -> bool:
        return "partition" in self._words

    def way(self, name: str) -> tuple[str, str]:
        """The words of a tensor for `compute` and storage."""
        b = self.bounds
        return "box" if name in names_of(b.boxed) else "exact", "compact" if name in names_of(b.compacted) else "plain"


_Groups: TypeAlias = Mapping[str, "Stage | None"]  # the root stage around each stage, by the name of its tensor


def _grouped(
    b: BoundsMap, forms: Mapping[str, FormNest], split: Sequence[Stage]
) -> tuple[_Groups, Mapping[Stage | None, Sequence[str]]]:
    """The stages that take one form together, and the words of `NESTS` open to each group.

    Parameters
    ----------
    split: stages whose regions have pieces.
    """
    groups = _groups(b, dict.fromkeys(name for one in forms.values() for name in one.costs))
    words = {group: [word for word in _LIKED if word in forms] for group in groups.values()}
    if "ends" in forms and "split" in forms:
        in_pieces = {groups.get(t.name) for stage in split for t in stage.op.outputs}
        words = {group: [w for w in own if w != "split" or group in in_pieces] for group, own in words.items()}
    return groups, words


def _priced(forms: Mapping[str, FormNest], groups: _Groups, words: Mapping[Stage | None, Sequence[str]]) -> NestPrices:
    """Choose the cheapest form for each group; costs before splitting decide between equals."""
    sums = {word: _sums(one.costs, groups) for word, one in forms.items()}
    before: dict[str, Mapping[Stage | None, float]] = {}  # where it decides

    def whole(word: str, group: Stage | None) -> float:
        if word not in before:
            before[word] = _sums(forms[word].whole, groups)
        return before[word].get(group, 0.0)

    best: dict[Stage | None, str] = {}
    for group, own in words.items():
        costs = [round(sums[word].get(group, 0.0), 3) for word in own]
        equal = [word for word, cost in zip(own, costs, strict=True) if cost == min(costs)]
        best[group] = equal[0] if len(equal) == 1 else min(equal, key=lambda word: whole(word, group))
    chosen_words = {name: best[group] for name, group in groups.items()}
    return NestPrices({name: forms[word].costs.get(name, 0.0) for name, word in chosen_words.items()}, chosen_words)


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


def _has_guards(stmts: Iterable[Stmt]) -> bool:
    return any(isinstance(stmt, If) for stmt in stmts)


def _is_boxes(b: BoundsMap) -> bool:
    """Whether all computed regions are boxes, so that guards only cut ragged tiles and fit into loop ends."""
    made = (t for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs)
    return all(b.computed(t).is_box for t in made)


def _mixed(b: BoundsMap, words: Mapping[str, str], pieces: Callable[[Sequence[Stage]], Function]) -> FormNest:
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
