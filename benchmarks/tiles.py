"""How exact schedules with tiles of unknown size are: `python -m benchmarks.tiles [--names]`.

Every schedule of the corpus, with each constant size of a split made a `ShapeVar`, one at a time and all at once. The
symbolic answers, evaluated at drawn sizes, are compared with the inference at these sizes: the box of each region in
instances, the counts where both are given, the extents of storage. Printed are the shares of equal answers, with and
without counts, and the ratio of times: median, 90th percentile and worst.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from statistics import median
from typing import Any, Final

from benchmarks.data.schedules import CASES
from bound import infer_bound
from bound.errors import ScheduleError
from bound.infer import BoundsMap, StageRegion
from bound.schedule import Schedule, Split
from bound.tensor import Tensor
from intset import ShapeVar
from intset.errors import CountError, IntSetError
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Infinity, Var, as_expr

MOST_INSTANCES: Final = 40  # in which boxes are compared
MOST_TILES: Final = 4_000  # of which the common box is taken
COUNTS: Final = ("count_max", "count_total")
Place = tuple[int, int]  # a split, by stage and relation


@dataclass
class Tiled:
    """A schedule of the corpus with sizes of splits made unknown.

    Attributes
    ----------
    name: the case.
    schedule: with `ShapeVar` in place of constants.
    sizes: values of its other sizes.
    tiles: each new size with the constant that it replaces.
    extents: the extent of the axis that each of them splits, at these constants.
    """

    name: str
    schedule: Schedule
    sizes: dict[str, int]
    tiles: dict[Var, int]
    extents: dict[Var, int]

    @property
    def title(self) -> str:
        """The name of the case and the splits of unknown size."""
        return f"{self.name} {' '.join(t.name for t in self.tiles)}"


@dataclass
class Compared:
    """The comparison of symbolic answers with those at numbers.

    A tile of a constant size ends with its axis, one of unknown size may be longer: loops that fuse it then differ, and
    with them the regions of their iterations, which are not compared.

    Attributes
    ----------
    regions: the number of regions compared, storage included.
    equal: of those with equal boxes, equal storage, equal counts.
    same_boxes: of those with equal boxes or storage, whatever their counts.
    loose: a line for each region that is not equal.
    unsound: a line for each region that lacks elements.
    looser: a line for each region that leaves the box of all tiles.
    """

    regions: int = 0
    equal: int = 0
    same_boxes: int = 0
    loose: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    looser: list[str] = field(default_factory=list)

    def add(self, other: Compared) -> None:
        """Add the figures of another comparison."""
        self.regions += other.regions
        self.equal += other.equal
        self.same_boxes += other.same_boxes
        self.loose += other.loose
        self.unsound += other.unsound
        self.looser += other.looser


def names() -> list[str]:
    """The cases that are programs with a constant split."""
    return [case["name"] for case in CASES if not case["name"].startswith("reject_") and places_of(case["fn"]())]


def places_of(schedule: Schedule) -> list[Place]:
    """The splits by a constant."""
    return [
        (s, k)
        for s, stage in enumerate(schedule.stages)
        for k, relation in enumerate(stage.relations)
        if isinstance(relation, Split) and _number(relation) is not None
    ]


def _number(split: Split) -> int | None:
    size = split.nparts if split.factor is None else split.factor
    return size.data if size is not None and size.is_const else None


def tiled(name: str) -> Iterator[Tiled]:
    """Variants of a case: a size in place of each split factor in turn, then of all factors."""
    places = places_of(_case(name)["fn"]())
    choices = [[place] for place in places]
    for chosen in (*choices, places) if len(places) > 1 else choices:
        yield _with_tiles(name, chosen)


def plain(name: str) -> Tiled:
    """A fresh copy of a case, with its constants."""
    return _with_tiles(name, ())


def again(case: Tiled) -> Tiled:
    """A fresh copy of a variant, so that no answer about it is remembered."""
    places = places_of(_case(case.name)["fn"]())
    return _with_tiles(case.name, [places[int(t.name[1:])] for t in case.tiles])


def written(case: Tiled, values: Mapping[Var, int]) -> Schedule:
    """The schedule of a case with numbers written in place of its tiles."""
    schedule: Schedule = _case(case.name)["fn"]()
    places = places_of(schedule)
    for t, number in values.items():
        s, r = places[int(t.name[1:])]
        _resize(schedule, (s, r), as_expr(number))
    return schedule


def _case(name: str) -> dict[str, Any]:
    return next(case for case in CASES if case["name"] == name)


def _with_tiles(name: str, chosen: Sequence[Place]) -> Tiled:
    case = _case(name)
    schedule = case["fn"]()
    places, extents = places_of(schedule), _extents(name)
    tiles: dict[Var, int] = {}
    parents: dict[Var, int] = {}
    for place in chosen:
        k = places.index(place)
        t = ShapeVar(f"t{k}", lower=1)
        tiles[t], parents[t] = _resize(schedule, place, t), extents[k]
    return Tiled(name, schedule, dict(case["sub"]), tiles, parents)


def _resize(schedule: Schedule, place: Place, size: Expr) -> int:
    """Replace the constant of a split; returns the constant."""
    relations = schedule.stages[place[0]].relations
    split = relations[place[1]]
    assert isinstance(split, Split)
    number = _number(split)
    assert number is not None
    is_factor = split.factor is not None
    relations[place[1]] = replace(split, factor=size) if is_factor else replace(split, nparts=size)
    return number


@cache
def _extents(name: str) -> tuple[int, ...]:
    """The extents of the axes that the constant splits of a case divide; of symbolic ones four times the constant."""
    schedule, at = _case(name)["fn"](), dict(_case(name)["sub"])
    b = infer_bound(schedule, at=at or None)
    extents = []
    for s, r in places_of(schedule):
        split = schedule.stages[s].relations[r]
        assert isinstance(split, Split)
        extent, number = as_expr(b[split.parent].extent), _number(split)
        assert number is not None
        extents.append(extent.data if extent.is_const else 4 * number)
    return tuple(extents)


def drawn(case: Tiled, seed: int) -> dict[Var, int]:
    """Sizes of tiles: those of the case, 1, the extents, one beyond; then random ones, dividing or not."""
    fixed = (case.tiles, dict.fromkeys(case.tiles, 1), case.extents, {t: n + 1 for t, n in case.extents.items()})
    if seed < len(fixed):
        return dict(fixed[seed])
    random_ = random.Random(f"{case.title} {seed}")
    sizes = {}
    for t, extent in case.extents.items():
        divisors = [n for n in range(1, extent + 1) if extent % n == 0]
        sizes[t] = random_.choice(divisors) if random_.random() < 0.3 else random_.randint(1, extent + 3)
    return sizes


def compare(case: Tiled, symbolic: BoundsMap, values: Mapping[Var, int]) -> Compared:
    """Hold the regions and the storage of one symbolic inference against the inference at `values`."""
    result = Compared()
    numeric = infer_bound(case.schedule, at={**case.sizes, **values})
    for stage in symbolic.schedule.stages:
        for tensor in stage.op.outputs:
            now = next(
                t
                for s in numeric.schedule.stages
                if s.name == stage.name
                for t in s.op.outputs
                if t.value_index == tensor.value_index
            )
            _compare_tensor(case, symbolic, numeric, tensor, now, values, result)
    return result


def _compare_tensor(
    case: Tiled,
    symbolic: BoundsMap,
    numeric: BoundsMap,
    tensor: Tensor,
    now: Tensor,
    values: Mapping[Var, int],
    result: Compared,
) -> None:
    said = ", ".join(f"{t.name}={n}" for t, n in values.items())
    for word in ("required", "computed"):
        mine, its = getattr(symbolic, word)(tensor), getattr(numeric, word)(now)
        result.regions += 1
        what = f"{case.name} ({said}) {word} {tensor.name}: "
        different = _different_boxes(symbolic, numeric, mine, its, values, result, what)
        result.same_boxes += not different
        if not different:
            problems = (_counts(getattr(mine, word), getattr(its, word), dict(values)) for word in COUNTS)
            problem = next((f"{word} {p}: {mine}" for word, p in zip(COUNTS, problems, strict=True) if p), None)
            result.equal += problem is None
            result.loose += [] if problem is None else [what + problem]
    places, its_places = symbolic.allocated(tensor), numeric.allocated(now)
    result.regions += 1
    extents = [int(evaluate(as_expr(r.extent), dict(values))) for r in places]
    exact = [int(as_expr(r.extent).data) for r in its_places]
    is_same = extents == exact
    result.equal += is_same
    result.same_boxes += is_same
    if is_same:
        return
    formulas = " x ".join(str(r.extent) for r in places)
    line = f"{case.name} ({said}) allocated {tensor.name}: {extents}, not {exact}: {formulas}"
    if symbolic.storage(tensor).is_flat == numeric.storage(now).is_flat:
        lacks = any(a < b for a, b in zip(extents, exact, strict=True))
        (result.unsound if lacks else result.loose).append(line)
    else:  # another map: by the number of places
        (result.loose if prod(extents) > prod(exact) else result.unsound).append(line)


def _different_boxes(
    symbolic: BoundsMap,
    numeric: BoundsMap,
    mine: StageRegion,
    its: StageRegion,
    values: Mapping[Var, int],
    result: Compared,
    what: str,
) -> bool:
    """Note the first instance with different boxes, an unsound one before a loose one."""
    given = dict(values)
    same = _same_loops(symbolic, numeric)
    mapped = [same[v] for v in (*mine.params, *mine.fixed) if v in same]
    loops = list(dict.fromkeys((*mapped, *its.fixed, *its.params)))
    loose = None
    everywhere: list[tuple[int, int]] | None = None
    for instance in _instances(numeric, loops):
        at = {v: instance[other] for v, other in same.items() if other in instance}
        one, other = _box(mine, {**given, **at}), _box(its, {**given, **instance})
        if one == other:
            continue
        names = {v.name: n for v, n in instance.items()}
        if not _same_ranges(symbolic, numeric, {**given, **at}, instance, same):
            loose = loose or f"{what}other loops: {mine}"  # a fused tile of numbers is no longer than the tensor
            continue
        if other is not None and (one is None or not _contains(one, other)):
            result.unsound.append(f"{what}{one}, not {other} at {names}: {mine}")
            return True
        if one is None or (other is None and not mine.is_box):
            continue
        loose = loose or f"{what}{one}, not {other} at {names}: {mine}"
        everywhere = everywhere or _box_of_all(numeric, its, given, loops)
        if everywhere is not None and not _contains(everywhere, one):
            result.looser.append(f"{what}{one} is not inside of {everywhere} at {names}: {mine}")
            break
    if loose is not None:
        result.loose.append(loose)
    return loose is not None


def _contains(box: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    return all(a <= c and z >= y for (a, z), (c, y) in zip(box, other, strict=True))


def _box_of_all(
    numeric: BoundsMap, its: StageRegion, given: Mapping[Var, int], loops: Sequence[Var]
) -> list[tuple[int, int]] | None:
    """The box around the regions of all instances; `None` if none has an element."""
    boxes = [box for p in _instances(numeric, loops, MOST_TILES) if (box := _box(its, {**given, **p})) is not None]
    if not boxes:
        return None
    return [(min(low for low, _ in side), max(high for _, high in side)) for side in zip(*boxes, strict=True)]


def _same_loops(a: BoundsMap, b: BoundsMap) -> dict[Var, Var]:
    """Map each loop of one inference to the loop of equal name and order of the other."""
    tables: list[dict[tuple[str, int], Var]] = []
    for ranges in (a._state.env.ranges, b._state.env.ranges):
        number: dict[str, int] = {}
        table = {}
        for v in ranges:
            number[v.name] = number.get(v.name, 0) + 1
            table[v.name, number[v.name]] = v
        tables.append(table)
    return {v: tables[1][key] for key, v in tables[0].items() if key in tables[1]}


def _same_ranges(
    symbolic: BoundsMap,
    numeric: BoundsMap,
    given: Mapping[Var, int],
    instance: Mapping[Var, int],
    same: Mapping[Var, Var],
) -> bool:
    """Whether the loops of an instance have equal extents in both inferences."""
    for v, other in same.items():
        if other in instance:
            ranges = symbolic._state.env.ranges[v], numeric._state.env.ranges[other]
            a, b = (evaluate(as_expr(r.extent), dict(p)) for r, p in zip(ranges, (given, instance), strict=True))
            if a != b:
                return False
    return True


def _counts(mine: Any, its: Any, values: dict[Var, int]) -> str | None:
    try:
        exact = its()
    except CountError:
        return None
    try:
        said = mine()
        number = said if isinstance(said, (int, Infinity)) else evaluate(said, dict(values))
    except (CountError, IntSetError) as error:
        return f"refused: {error}"
    return None if number == exact else f"{number} not {exact} ({said})"


def _box(region: StageRegion, point: Mapping[Var, int]) -> list[tuple[int, int]] | None:
    """The ends in one instance; `None` where it is empty by its box or its guard."""
    box = region._footprint.box
    if box is not None:
        for cond in (*(form.expr() >= 0 for form in box.where), *box.also):
            if not evaluate(cond, dict(point)):
                return None
    else:
        at = region.at({v: n for v, n in point.items() if v in region.params})
        if at.is_empty:
            return None
    sides = []
    for r in region.box:
        low, extent = (int(evaluate(as_expr(e), dict(point))) for e in (r.min, r.extent))
        if extent <= 0:
            return None
        sides.append((low, low + extent - 1))
    return sides


def _instances(b: BoundsMap, fixed: Sequence[Var], most: int = MOST_INSTANCES) -> Iterator[dict[Var, int]]:
    """Instances of loops, first and last ones included: a few of each loop, or all where `most` is large."""
    points: list[dict[Var, int]] = [{}]
    ranges = b._state.env.ranges
    order = [v for v in ranges if v in fixed]
    for v in order:
        r = ranges[v]
        wider = []
        for point in points:
            try:
                low, extent = (int(evaluate(as_expr(e), dict(point))) for e in (r.min, r.extent))
            except IntSetError:
                continue
            if extent <= 0:
                continue
            few = {0, 1, extent // 2, extent - 2, extent - 1}
            steps = range(extent) if most > MOST_INSTANCES else sorted(few)
            wider += [{**point, v: low + k} for k in steps if 0 <= k < extent]
        points = wider
        if len(points) > most:
            points = random.Random(0).sample(points, most)
    yield from points


def inferred(case: Tiled) -> tuple[BoundsMap | str, float]:
    """The symbolic inference, or its refusal, and its time in seconds."""
    start = time.process_time()
    try:
        b: BoundsMap | str = infer_bound(case.schedule, at=case.sizes or None)
    except ScheduleError as error:
        b = f"ScheduleError: {error}"
    return b, time.process_time() - start


def ratio_of(case: Tiled, rounds: int) -> float | None:
    """The time of the symbolic inference over that with the constants; `None` where it is refused.

    Medians over rounds of one inference each, in turn, of fresh schedules.
    """
    if isinstance(inferred(case)[0], str):
        return None
    pairs = [(inferred(again(case))[1], inferred(plain(case.name))[1]) for _ in range(rounds)]
    symbolic, numeric = (median(times) for times in zip(*pairs, strict=True))
    return symbolic / numeric


def compared(case: Tiled, seeds: Iterable[int]) -> Compared | None:
    """The comparison at the sizes of several seeds; `None` if the symbolic schedule is refused."""
    b, _ = inferred(case)
    if isinstance(b, str):
        return None
    result = Compared()
    done = set()
    for seed in seeds:
        values = drawn(case, seed)
        key = tuple(values.values())
        if key in done:
            continue
        done.add(key)
        try:
            result.add(compare(case, b, values))
        except ScheduleError:  # refused at these sizes
            continue
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="*", help="these cases alone")
    parser.add_argument("--values", type=int, default=8, help="drawn sizes of each schedule")
    parser.add_argument("--list", action="store_true", help="print each region that differs")
    parser.add_argument("--rounds", type=int, default=5, help="inferences of each schedule that are timed; 0: none")
    options = parser.parse_args(arguments)
    total = Compared()
    ratios: list[tuple[float, str]] = []
    refused = []
    for name in options.names or names():
        for case in tiled(name):
            ratio = ratio_of(case, options.rounds) if options.rounds else None
            ratios += [] if ratio is None else [(ratio, case.title)]
            one = compared(case, range(options.values))
            if one is None:
                refused.append(case.title)
                continue
            total.add(one)
            if options.list:
                for line in (*one.unsound, *one.looser, *one.loose):
                    print(line, flush=True)
    share = 100 / max(total.regions, 1)
    print(
        f"{total.regions} regions, {share * total.same_boxes:.1f} % with equal boxes, "
        f"{share * total.equal:.1f} % equal with counts, {len(total.unsound)} unsound, "
        f"{len(total.looser)} looser than the box of all tiles; {len(refused)} schedules refused: {', '.join(refused)}"
    )
    if ratios:
        ratios.sort()
        numbers = [r for r, _ in ratios]
        several = median([r for r, title in ratios if " " in title.partition(" ")[2]] or [0])
        print(
            f"time over that with numbers: median {median(numbers):.1f} (all sizes at once {several:.1f}), "
            f"90th percentile {numbers[len(numbers) * 9 // 10]:.1f}, worst "
            + ", ".join(f"{r:.1f} ({title})" for r, title in ratios[:-6:-1])
        )


if __name__ == "__main__":
    main()
