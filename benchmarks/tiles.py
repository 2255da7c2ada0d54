"""How exact schedules with tiles of unknown size are: `python -m benchmarks.tiles [--names]`.

Every schedule of the corpus, with each constant size of a split made a `ShapeVar`, one at a time and all at once. The
symbolic answers, evaluated at drawn sizes, are compared with the inference at these sizes: the box of each region in
instances, the counts where both are given, the extents of storage. Printed are the shares of equal answers and the
ratio of times, median and worst.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from intset.expr.node import Var, as_expr
from intset.infinity import Infinity

MOST_INSTANCES: Final = 40  # in which boxes are compared
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
    """

    name: str
    schedule: Schedule
    sizes: dict[str, int]
    tiles: dict[Var, int]


@dataclass
class Compared:
    """The comparison of symbolic answers with those at numbers.

    Attributes
    ----------
    regions, equal: the number of regions compared, and of equal ones.
    loose: a line for each region that is not equal.
    unsound: a line for each region that lacks elements.
    """

    regions: int = 0
    equal: int = 0
    loose: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)


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
    case = next(case for case in CASES if case["name"] == name)
    places = places_of(case["fn"]())
    choices = [[place] for place in places]
    for chosen in (*choices, places) if len(places) > 1 else choices:
        schedule = case["fn"]()
        tiles: dict[Var, int] = {}
        for k, (s, r) in enumerate(chosen):
            relations = schedule.stages[s].relations
            split = relations[r]
            assert isinstance(split, Split)
            number, t = _number(split), ShapeVar(f"t{k}", lower=1)
            assert number is not None
            relations[r] = replace(split, factor=None, nparts=t) if split.factor is None else replace(split, factor=t)
            tiles[t] = number
        yield Tiled(name, schedule, dict(case["sub"]), tiles)


def drawn(case: Tiled, seed: int) -> dict[Var, int]:
    """Sizes of tiles: those of the case for seed 0, else up to three times as large."""
    random_ = random.Random(f"{case.name} {seed}")
    if seed == 0:
        return dict(case.tiles)
    return {t: random_.randint(1, 3 * n) for t, n in case.tiles.items()}


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
        try:
            mine, its = getattr(symbolic, word)(tensor), getattr(numeric, word)(now)
        except IntSetError:
            continue
        result.regions += 1
        what = f"{case.name} ({said}) {word} {tensor.name}: "
        problem = _difference(symbolic, numeric, mine, its, values)
        if problem is None:
            result.equal += 1
        else:
            (result.unsound if problem.startswith("UNSOUND") else result.loose).append(what + problem)
    try:
        places, its_places = symbolic.allocated(tensor), numeric.allocated(now)
    except IntSetError:
        return
    result.regions += 1
    if len(places) != len(its_places):
        return  # another map of storage
    extents = [int(evaluate(as_expr(r.extent), dict(values))) for r in places]
    exact = [int(as_expr(r.extent).data) for r in its_places]
    what = f"{case.name} ({said}) allocated {tensor.name}: "
    if extents == exact:
        result.equal += 1
    else:
        formulas = " x ".join(str(r.extent) for r in places)
        line = what + f"{extents}, not {exact}: {formulas}"
        lacks = any(a < b for a, b in zip(extents, exact, strict=True))
        (result.unsound if lacks else result.loose).append(line)


def _difference(
    symbolic: BoundsMap, numeric: BoundsMap, mine: StageRegion, its: StageRegion, values: Mapping[Var, int]
) -> str | None:
    given = dict(values)
    same = _same_loops(symbolic, numeric)
    mapped = [same[v] for v in (*mine.params, *mine.fixed) if v in same]
    for instance in _instances(numeric, list(dict.fromkeys((*mapped, *its.fixed, *its.params)))):
        loops = {v: instance[other] for v, other in same.items() if other in instance}
        one, other = _box(mine, {**given, **loops}), _box(its, {**given, **instance})
        if one == other:
            continue
        if other is not None and (
            one is None or any(a > c or z < y for (a, z), (c, y) in zip(one, other, strict=True))
        ):
            return f"UNSOUND {one}, not {other} at {instance}: {mine}"
        if one is not None and (other is None or one != other) and (mine.is_box or other is not None):
            return f"{one}, not {other} at { {v.name: n for v, n in instance.items()} }: {mine}"
    for count in ("count_max", "count_total"):
        problem = _counts(getattr(mine, count), getattr(its, count), given)
        if problem is not None:
            return f"{count} {problem}: {mine}"
    return None


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


def _instances(b: BoundsMap, fixed: Sequence[Var]) -> Iterator[dict[Var, int]]:
    """A few instances of loops, first and last ones included."""
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
            steps = sorted({0, 1, extent // 2, extent - 2, extent - 1})
            wider += [{**point, v: low + k} for k in steps if 0 <= k < extent]
        points = wider
        if len(points) > MOST_INSTANCES:
            points = random.Random(0).sample(points, MOST_INSTANCES)
    yield from points


def inferred(case: Tiled) -> tuple[BoundsMap | str, float]:
    """The symbolic inference, or its refusal, and its time in seconds."""
    start = time.process_time()
    try:
        b: BoundsMap | str = infer_bound(case.schedule, at=case.sizes or None)
    except ScheduleError as error:
        b = f"ScheduleError: {error}"
    return b, time.process_time() - start


def ratio_of(case: Tiled) -> float | None:
    """The time of the symbolic inference over that with the constants of the case."""
    best = [float("inf"), float("inf")]
    for _ in range(3):
        b, seconds = inferred(case)
        if isinstance(b, str):
            return None
        start = time.process_time()
        infer_bound(case.schedule, at={**case.sizes, **case.tiles})
        best = [min(best[0], seconds), min(best[1], time.process_time() - start)]
    return best[0] / best[1]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="*", help="these cases alone")
    parser.add_argument("--values", type=int, default=4, help="drawn sizes of each schedule")
    parser.add_argument("--list", action="store_true", help="print each region that differs")
    parser.add_argument("--no-time", action="store_true")
    options = parser.parse_args(arguments)
    total = Compared()
    ratios: list[tuple[float, str]] = []
    refused = 0
    for name in options.names or names():
        for case in tiled(name):
            b, _ = inferred(case)
            if isinstance(b, str):
                refused += 1
                if options.list:
                    print(name, b)
                continue
            if not options.no_time:
                ratio = ratio_of(case)
                if ratio is not None:
                    ratios.append((ratio, f"{name} {[t.name for t in case.tiles]}"))
            for seed in range(options.values):
                try:
                    one = compare(case, b, drawn(case, seed))
                except ScheduleError:
                    continue
                total.regions += one.regions
                total.equal += one.equal
                total.loose += one.loose
                total.unsound += one.unsound
                if options.list:
                    for line in (*one.unsound, *one.loose):
                        print(line, flush=True)
    print(
        f"{total.regions} regions, {100 * total.equal / max(total.regions, 1):.1f} % equal, "
        f"{len(total.unsound)} unsound, {refused} schedules refused"
    )
    if ratios:
        print(
            f"time over that with numbers: median {median(r for r, _ in ratios):.1f}, worst "
            + ", ".join(f"{r:.1f} ({name})" for r, name in sorted(ratios, reverse=True)[:5])
        )


if __name__ == "__main__":
    main()
