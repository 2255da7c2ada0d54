"""The index corpus, random expressions, questions of other analyzers' own tests: every domain sound, `auto` exact."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import scoring
from benchmarks.enumeration import evaluate_many, true_values
from benchmarks.reference import Reference
from benchmarks.scoring import (
    Comparison,
    DomainScore,
    compare_rows,
    elements_of,
    sample_sizes,
    score_bound_predicates,
    score_predicates,
    score_row,
)
from bound import te
from intset import (
    NEG_INF,
    POS_INF,
    Cond,
    Context,
    Expr,
    IntervalSet,
    Range,
    ShapeVar,
    Var,
    domain_names,
    evaluate,
    parse,
)
from intset.expr.node import Infinity
from intset.testing import cases, sweep
from lowering import lower, run
from lowering.cli.inputs import CorpusRow, Problem, read_rows
from tests import ROOT
from tests.bound.reference import evaluate as reference
from tests.intset.domains.outside import registered
from tests.sweeps import daily

CORPUS = ROOT / "benchmarks" / "data" / "index_expressions.json"
DOMAINS = ("interval", "stride", "modular", "interval*modular", "isl", "points")


@cache
def rows() -> tuple[CorpusRow, ...]:
    return tuple(read_rows(CORPUS))


@cache
def problems() -> tuple[Problem, ...]:
    return tuple(Problem(row) for row in rows())


@pytest.fixture(autouse=True)
def _fewer_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Membership is tried at a part of the integers that the command line tries."""
    monkeypatch.setattr(scoring, "PROBES", 20)


@cache
def score(domain: str, part: int = 0, parts: int = 1) -> DomainScore:
    """Score of a domain on a share of the rows."""
    found = DomainScore(domain)
    for problem in problems()[part::parts]:
        if not problem.row.is_predicate:
            score_row(problem, found)
    return found


def test_the_corpus_is_complete_and_answered_soundly() -> None:
    kinds = Counter(row.kind for row in rows())
    assert kinds == {"load": 159, "pred": 152, "store": 136}
    assert sum(bool(row.params) for row in rows()) == 39
    assert len(score("auto").index) == 400 and len(score("auto").sized) == 26
    assert score("auto").violations() == []


@pytest.mark.parametrize("part", daily(range(8), 8))
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_is_sound_on_every_row_and_isl_exact(domain: str, part: int) -> None:
    """Each domain on an eighth of the rows daily, rotating per domain."""
    found = score(domain, (part + DOMAINS.index(domain)) % 8, 8)
    assert found.violations() == [] and len(found.index) > 25
    assert domain != "isl" or [(s.row, s.expr) for s in found.index if not s.set_exact] == []


def test_auto_is_exact_with_constant_bounds_and_finite_and_sound_with_sizes() -> None:
    found = score("auto").index
    assert [(s.row, s.expr, s.low, s.high, s.truth, s.notes) for s in found if not s.exact] == []
    assert [(s.row, s.expr) for s in found if not s.set_exact] == []
    sized = score("auto").sized
    assert [(s.row, s.low, s.high) for s in sized if not s.finite] == []
    assert all(s.samples >= 5 for s in sized)
    tight = [s for s in sized if s.op.startswith(("matmul_dyn", "softmax_dyn"))]
    assert all(s.attained == s.samples for s in tight), tight


def test_every_condition_and_every_bound_as_a_condition_is_decided() -> None:
    found = [s for problem in problems() if problem.row.is_predicate for s in score_predicates(problem)]
    assert len(found) == 152
    assert [(s.row, s.text, s.found, s.violations) for s in found if not s.decided or s.violations] == []
    assert all(s.found == s.truth for s in found)
    constant = [p for p in problems() if not p.row.is_predicate and not p.sizes]
    found = [s for problem in constant for s in score_bound_predicates(problem)]
    assert len(found) == 1600
    assert [(s.row, s.text, s.found, s.violations) for s in found if s.found != s.truth or s.violations] == []


def test_a_comparison_is_json() -> None:
    comparison = compare_rows(rows()[:12], ["interval", "auto"])
    assert isinstance(comparison, Comparison)
    data = json.loads(json.dumps(comparison.as_json()))
    assert [row["domain"] for row in data["domains"]] == ["interval", "auto"]
    assert data["violations"] == []


# -- the oracles --------------------------------------------------------------------------------------------------


def test_the_oracles_agree_with_the_recorded_truth() -> None:
    """islpy called directly, and enumeration, against what the corpus records (each third row)."""
    checked = 0
    for problem in problems()[::3]:
        row = problem.row
        if row.params:
            continue
        oracle = Reference(row.variables, row.conditions)
        for k, (text, truth) in enumerate(zip(row.exprs, row.truth, strict=True)):
            checked += 1
            if row.is_predicate:
                assert oracle.holds(text) == truth
                continue
            assert oracle.ends(oracle.image(text)) == tuple(truth[:2])
            elements = elements_of(problem, k)
            if elements is not None:
                assert (elements[0], elements[-1]) == tuple(truth[:2])
    assert checked > 150


def test_the_evaluations_by_numpy_and_by_enumeration_are_right() -> None:
    x, y = Var("x"), Var("y")
    points = [(a, b) for a in range(-9, 10) for b in range(-9, 10)]
    env = {x: np.array([a for a, _ in points]), y: np.array([b for _, b in points])}
    for text in (
        "x // 3 - y % 4", "truncdiv(x, 4) + truncmod(y, 3)", "ceildiv(x, 5) * y", "min(x, y) - max(x, -y) + abs(x)",
        "x if x < y and not y == 3 or x >= 5 else y - x",
    ):  # fmt: skip
        e = parse(text, {"x": x, "y": y})
        assert evaluate_many(e, env).tolist() == [evaluate(e, {x: a, y: b}) for a, b in points]
    ranges, conditions = (("i", "0", "4"), ("j", "0", "4"), ("k", "0", "9")), ("i + j < 3", "j > 0")
    problem = Problem(CorpusRow("", 0, "", "load", ranges, (), conditions, ("i * 2",), (None,)))
    elements = true_values(problem.exprs[0], problem.ranges, problem.conditions)
    assert elements is not None and elements.tolist() == [0, 2]


def test_a_wrong_answer_is_noticed_and_sizes_that_are_tried_differ() -> None:
    # The score itself is tested: a domain that leaves out the largest value is reported.

    class TooSmall:
        name = "too_small"

        def image(self, query: Any) -> IntervalSet:
            return IntervalSet(0, 1, self.name, is_exact=True)

    found, sized = DomainScore("too_small"), DomainScore("too_small")
    with registered(TooSmall()):
        score_row(problems()[10], found)
        score_row(problems()[4], sized)
    assert len(found.index) == 1 and len(found.index[0].violations) >= 3 and sized.sized[0].violations
    tried = list(sample_sizes(["n", "m"]))
    assert len({tuple(sizes.values()) for sizes in tried}) == len(tried) >= 5
    assert any(sizes["n"] != sizes["m"] for sizes in tried)


# -- random expressions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "seed"), daily([(150, 1), (10_000, 0)], 2))
def test_random_expressions(count: int, seed: int) -> None:
    found = sweep(count, seed, domain_names())
    assert found["not_empty"] > count // 2
    assert found["wrong"] == []
    unexplained = [entry for entry in found["inexact"] if not entry["notes"]]
    assert unexplained == []
    assert len(found["inexact"]) <= count // 100


def test_the_sweep_is_reproducible_and_varied() -> None:
    first = [case.text() for case in cases(60, seed=7)]
    assert first == [case.text() for case in cases(60, seed=7)]
    text = " ".join(first)
    assert all(part in text for part in ("//", "%", "truncdiv", "select", "minimum", "cast", " where ", "<<"))


def test_a_window_that_moves_down() -> None:
    """Halide's sliding window: is_monotonic((8x)/-4) was "increasing", and pixels were wrong."""
    a = te.placeholder((64,), "int32", name="A")
    shifted = te.compute((64,), lambda i: a[i] + 1, name="S")
    out = te.compute((12,), lambda i: shifted[(8 * i + 1) // -4 + 40] + shifted[(8 * i + 1) // -4 + 43], name="O")
    s = te.create_schedule(out.op)
    s[shifted].compute_at(s[out], out.op.axis[0])
    given = {"A": np.arange(64, dtype="int32") ** 2}
    (expected,) = reference([out], given)
    np.testing.assert_array_equal(run(lower(s), given)["O"], expected)


ROWS = [
    [field.strip() for field in line.split(";", 3)]
    for line in (Path(__file__).parent / "items_of_peers.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
NAMES: dict[str, Var] = {name: Var(name) for name in "x y z a b A B C i j k tx bx i0 i1 i2 i3 i4 i5 wid".split()}
NAMES |= {name: ShapeVar(name, 1) for name in ("c", "c0", "c1")}
# Right answers that are not as good as the peer's: this one is proved, not simplified.
OPEN = {"maximum(4 * a + 2, 6 * b) * minimum(x * 2, y * 4)"}


def read(text: str) -> Expr:
    return parse(text, NAMES, kind=Expr)


def listed(text: str) -> list[Expr]:
    """The expressions of a list that commas at its top level separate."""
    depth, parts = 0, [""]
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [read(part) for part in parts]


def context(row: list[str], expressions: list[Expr]) -> Context:
    ranges: dict[Var, Range | None] = {}
    facts: list[Cond] = []
    for part in filter(None, row[3].split(";")):
        stated = re.findall(r"(\w+) in \[([^,]*), ([^\]]*)\]", part)
        for name, low, high in stated:
            least = NEG_INF if low == "-inf" else read(low)
            if high == "inf":
                ranges[NAMES[name]] = Range(least, POS_INF) if low != "-inf" else None
            else:
                ranges[NAMES[name]] = Range.up_to(read(high)) if low == "-inf" else Range(least, read(high) - least + 1)
        if not stated:
            facts.append(parse(part, NAMES))
    for e in expressions if "map" not in row[0] else ():
        ranges.update({v: None for v in e.free_vars() if type(v) is not ShapeVar and v not in ranges})
    return Context(ranges, assume=facts)


def is_within(found: Expr | Infinity, wanted: str, side: int) -> bool:
    """Whether an end reaches or undercuts the wanted end; `side`: 1 for the least value, -1 for the greatest."""
    if wanted in ("?", "inf", "-inf"):
        return True
    return isinstance(found, Expr) and bool((found - read(wanted)) * side >= 0)


def holds(row: list[str]) -> bool:
    """Whether no end is looser than the peer's."""
    kind, expressions = row[0], listed(row[1])
    ctx = context(row, expressions)
    if kind == "ends":
        low, high = ctx.bounds(expressions[0])
        first, last = row[2].split(", ")
        return is_within(low, first, 1) and is_within(high, last, -1)
    if kind == "remainder":
        modulus, remainder = map(int, row[2].split(", "))
        simple = ctx.simplify(expressions[0] % modulus)
        return simple.is_const and simple.value == remainder
    iter_map = ctx.as_iter_map(expressions)
    if kind.startswith("no map"):
        return (iter_map.surjective if kind.endswith("surjective") else iter_map.injective).status == "refuted"
    outputs = [[read(part) for part in output.split(" ")] for output in row[2].split(", ")]
    for e, (extent, base, scale) in zip(expressions, outputs, strict=True):
        bounds = ctx.bounds(e)
        low, high = bounds
        if isinstance(low, Infinity) or isinstance(high, Infinity) or not bounds.is_tight:
            return False
        if not ctx.prove(low.eq(base)) or not ctx.prove(high.eq(base + (extent - 1) * scale)):
            return False
    if any(scale.value != 1 for _, _, scale in outputs):
        return True
    shifted = ctx.as_iter_map([e - base for e, (_, base, _) in zip(expressions, outputs, strict=True)])
    return bool(shifted.surjective) and (kind == "map" or bool(shifted.injective))


def test_there_are_items_of_each_kind() -> None:
    kinds = [row[0].split(" ")[0] for row in ROWS]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"ends": 47, "remainder": 40, "map": 49, "no": 5}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_an_item(row: list[str]) -> None:
    assert holds(row) is (row[1] not in OPEN)
