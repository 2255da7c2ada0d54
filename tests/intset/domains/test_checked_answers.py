"""Faults injected into the bindings of isl and z3: no wrong answer is handed on.

A row of docs/checked-answers.md names its test here.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from intset import Context, Range, ShapeVar, Var, ceildiv, using
from intset.domains.isl import count, session, translate
from intset.domains.isl.presburger import IslShape, of
from intset.domains.isl.session import coalesced, context, isl
from intset.domains.isl.translate import simplified
from intset.errors import BudgetError, UndecidedError
from intset.prover.smt import SmtSession
from intset.regions.shape import collected
from tests.intset.domains.isl_sets import read

b, x, y = Var("b"), Var("x"), Var("y")
n = ShapeVar("n", lower=1, upper=64)
Fault = Callable[[Any], Any]


def points(text: str) -> IslShape:
    return IslShape(read(text), ())


def break_first(monkeypatch: pytest.MonkeyPatch, of_class: str, method: str, fault: Fault, times: int = 1) -> list[int]:
    """Let a method of isl give a wrong answer the first `times` times; the list counts the calls."""
    original, calls = getattr(getattr(isl(), of_class), method), [0]

    def wrong(*given: Any) -> Any:
        calls[0] += 1
        found = original(*given)
        return fault(found) if calls[0] <= times else found

    monkeypatch.setattr(getattr(isl(), of_class), method, wrong)
    return calls


FAULTS: dict[str, Fault] = {
    "another point of the set": lambda found: read("{ [0, 0] }"),
    "a point outside": lambda found: read("{ [40, 2] }"),
    "no point": lambda found: read("{ [x, y] : 1 = 0 }"),
    "two points": lambda found: found.union(read("{ [0, 0] }")),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_wrong_extremum_is_replaced_and_noted(monkeypatch: pytest.MonkeyPatch, fault: Fault, times: int) -> None:
    region = Context({b: Range(0, 8)}).image((b * 4, ceildiv(b, 4)))
    break_first(monkeypatch, "Set", "lexmax", fault, times)
    assert tuple(map(int, region.lexmax() or ())) == (28, 2)
    assert any("lexmax was wrong" in note for note in region.notes)


def test_an_extremum_wrong_in_every_way_comes_from_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Context({b: Range(0, 8)}).image((b * 4, ceildiv(b, 4)))
    break_first(monkeypatch, "Set", "lexmin", lambda found: read("{ [4, 1] }"), 99)
    assert tuple(map(int, region.lexmin() or ())) == (0, 0)


WRONG_FUNCTIONS: dict[str, Fault] = {
    "one too small": lambda found: found.upper_bound_val(isl().dim_type.set, 0, 0),
    "undefined for some sizes": lambda found: found.intersect_params(found.params().subtract(found.params())),
}


@pytest.mark.parametrize("fault", WRONG_FUNCTIONS.values(), ids=WRONG_FUNCTIONS)
def test_a_wrong_extremum_of_a_relation(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    relation = Context({x: Range(0, 5), y: Range(0, 3)}).relation((x,), (x * 2 + y,))
    break_first(monkeypatch, "Set", "lexmax", fault)
    last = relation.lexmax()
    assert last.contains((4,), (10,)) and last.pairs.count() == 5
    assert any("lexmax was wrong" in note for note in last.notes)


@pytest.mark.parametrize("side", ["dim_min", "dim_max"])
def test_a_wrong_end_of_symbolic_size_is_refused(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    shape = of(Context({x: Range(0, n)}).image((x * 3 + 1,), domain="isl").shape)
    expected = shape.end(0, -1 if side == "dim_min" else 1)
    for off in (-3, 1):
        with monkeypatch.context() as patch:
            break_first(patch, "Set", side, lambda found, off=off: found.add_constant_val(off))
            with pytest.raises(BudgetError, match=f"{side} was wrong"):
                shape.end(0, -1 if side == "dim_min" else 1)
            assert shape.end(0, -1 if side == "dim_min" else 1) is expected


WRONG_SAMPLES: dict[str, Fault] = {
    "a point outside": lambda found: read("{ [99] }").sample_point(),
    "no point": lambda found: read("{ [x] : 1 = 0 }").sample_point(),
}


@pytest.mark.parametrize("fault", WRONG_SAMPLES.values(), ids=WRONG_SAMPLES)
def test_a_wrong_sample_is_refused(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    region = Context({x: Range(0, 8)}).image((x * 3,), domain="isl")
    answers = [fault(None), read("{ [3] }").sample_point()]
    monkeypatch.setattr(isl().Set, "sample_point", lambda _: answers[0])
    with pytest.raises(UndecidedError):
        region.sample()
    monkeypatch.setattr(isl().Set, "sample_point", lambda _: answers[1])
    assert region.sample() == (3,)


def test_a_wrong_function_of_a_relation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, other = points("{ [x, y] : 0 <= x < 9 and y = 2x }"), isl().Map.read_from_str(context(), "{ [x] -> [x] }")
    wrong = isl().PwMultiAff.from_map(other)
    assert len(shape.functions((x,))) == 1
    monkeypatch.setattr(isl().PwMultiAff, "from_map", staticmethod(lambda _: wrong))
    with pytest.raises(BudgetError, match="another relation"):
        shape.functions((x,))


def test_a_wrong_union_or_gist_is_not_used(monkeypatch: pytest.MonkeyPatch, refused: list[str]) -> None:
    def fails(found: Any) -> Any:
        raise isl().Error("total dimensionality changed unexpectedly")

    union = read("{ [x] : 0 <= x < 4 }").union(read("{ [x] : 4 <= x < 9 }"))
    inner, around = read("{ [x] : 2 <= x < 9 }"), read("{ [x] : x < 9 }")
    assert coalesced(union).n_basic_set() == 1
    with collected() as remarks:
        break_first(monkeypatch, "Set", "coalesce", lambda found: read("{ [x] : 0 <= x < 8 }"))
        assert coalesced(union).is_equal(union) and len(remarks) == 1
        break_first(monkeypatch, "Set", "coalesce", fails)
        assert coalesced(union) is union and len(remarks) == 2 and not refused
        break_first(monkeypatch, "Set", "gist", lambda found: read("{ [x] : 3 <= x }"))
        assert simplified(inner, around).intersect(around).is_equal(inner) and len(remarks) == 3


@pytest.mark.parametrize("wrong", ["{ [x] : 0 <= x < 5 }", "{ [x] : -1 <= x < 4 }"])
def test_a_wrong_difference_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    whole, part = points("{ [x] : 0 <= x < 9 }"), points("{ [x] : 4 <= x }")
    break_first(monkeypatch, "Set", "subtract", lambda found: read(wrong))
    with pytest.raises(BudgetError, match="difference"):
        whole.subtract(part)
    assert whole.subtract(part).listed() == [(0,), (1,), (2,), (3,)]


def test_wrong_hulls_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    union = read("{ [x, y] : 0 <= x < 4 and 0 <= y < x }").union(read("{ [x, y] : 6 <= x < 9 and 0 <= y < x }"))
    small = read("{ [x, y] : 0 <= x < 4 and 0 <= y < x }").get_basic_sets()[0]
    break_first(monkeypatch, "Set", "simple_hull", lambda found: small)
    with pytest.raises(BudgetError, match="hull"):
        translate._filled(union)
    break_first(monkeypatch, "BasicSet", "affine_hull", lambda found: read("{ [0, 0] }").get_basic_sets()[0])
    with pytest.raises(BudgetError, match="affine hull"):
        IslShape(union, ()).lattice()


@pytest.mark.parametrize("wrong", [0, 1_000])
def test_a_count_beyond_the_ends_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    triangle = read("{ [x, y] : 0 <= x < 5 and 0 <= y <= x }")
    assert count.count(triangle) == 15
    break_first(monkeypatch, "Set", "count_val", lambda found: wrong)
    with pytest.raises(BudgetError, match="counted"):
        count.count(triangle)


def test_points_that_are_not_visited_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, original = points("{ [x, y] : 0 <= x < 4 and 0 <= y <= x }"), isl().Set.foreach_point
    assert len(shape.listed()) == 10
    monkeypatch.setattr(isl().Set, "foreach_point", lambda _, visit: original(read("{ [0, 0] }"), visit))
    with pytest.raises(BudgetError, match="visited"):
        shape.listed()


@pytest.mark.parametrize("stride", [1, 2, 6])
def test_a_wrong_stride_makes_no_wrong_count(monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    line = read("{ [x] : 0 <= x <= 30 and x mod 3 = 0 }")
    break_first(monkeypatch, "Set", "get_stride", lambda found: stride, 99)
    assert count.count(line) == 11


@pytest.mark.parametrize("tier", ["isl", "z3"])
def test_a_wrong_proof_meets_a_counterexample(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    if tier == "z3":
        monkeypatch.setattr(SmtSession, "check", lambda *_, **__: SimpleNamespace(status="proved", model=None))
    else:
        monkeypatch.setattr(isl().Set, "is_empty", lambda _: True)
    with using(tiers=(tier,)):
        proof = Context({x: Range(0, 9)}).prove(x < 8)
    assert proof.status == "refuted" and proof.counterexample == {x: 8}


def test_a_wrong_model_is_no_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(status="refuted", model={x: 3}, reason="")
    monkeypatch.setattr(SmtSession, "check", lambda *_, **__: answer)
    with using(tiers=("z3",)):
        assert Context({x: Range(0, 9)}).prove(x < 8).status == "unknown"


@pytest.mark.parametrize(
    ("found", "is_right"),
    [("{ [28, 2] }", True), ("{ [28, 1] }", False), ("{ [24, 2] }", False), ("{ [x, y] : 1 = 0 }", False)],
)
def test_the_check_itself(found: str, is_right: bool) -> None:
    region = of(Context({b: Range(0, 8)}).image((b * 4, ceildiv(b, 4))).shape)
    assert session.is_extremum(region.shared(), read(found), 1) is is_right
    named = [isl().Set.insert_dims(points, isl().dim_type.param, 0, 1) for points in (region.get(), read(found))]
    named = [points.set_dim_name(isl().dim_type.param, 0, "k") for points in named]
    assert session.is_extremum(*named, 1) is is_right  # by relations, as for sets with parameters
