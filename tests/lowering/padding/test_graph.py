"""Plans of graphs and options of their functions: cost, results, explanations, rejected input."""

import importlib
import pickle
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from intset.errors import InputError
from lowering import Function, Graph, IndexMap, InterfaceError, Plan, contract, pad_options, parse_nest, with_layouts
from tests.lowering.padding import enumeration
from tests.lowering.padding.enumeration import ADDONE
from tests.sweeps import daily

ARRAY = np.arange(-3, 11, dtype=np.int32)


def chain(*calls: object) -> Graph:
    graph = Graph()
    tensor = graph.input("x", (14,), "int32")
    for options in calls:
        tensor = graph.call(options, tensor)
    graph.output(tensor)
    return graph


def kinds(plan: Plan) -> list[str]:
    return [f"{step.kind} {step.value}" for step in plan.steps if step.kind != "call"]


def test_another_price():
    graph = chain([ADDONE], [enumeration.ODD], [enumeration.TOTAL])
    assert graph.plan(cost=lambda step: 1).cost == 5  # a pad, a fill, three calls
    dear = graph.plan(cost=lambda step: 100 * step.elements if step.kind == "fill" else step.elements)
    assert (dear.cost, [s.kind for s in dear.steps if s.kind != "call"]) == (32, ["pad", "copy"])
    options = [enumeration.TOTAL, enumeration.reduction("guarded", "0", "B + A")]
    slow = chain([ADDONE], [enumeration.ODD], options).plan(
        cost=lambda step: 5 if step.function is options[1] else step.elements
    )
    assert (slow.cost, kinds(slow)) == (18, ["pad UNDEF", "fill 0"])
    for price in (lambda step: -1, lambda step: float("nan"), lambda step: "much", lambda step: True):
        with pytest.raises(InputError, match="the cost of a"):
            graph.plan(cost=price)
    with pytest.raises(InputError, match="must be a function of a step"):
        graph.plan(cost=3)


def test_over_the_budget_it_says_so(monkeypatch):
    graph = Graph()
    tensors = [graph.input("x", (14,), "int32")]
    plain = enumeration.elementwise("plain", "A + C", None)
    options = [
        enumeration.elementwise("both", "A + C"),
        enumeration.elementwise("wide", "A + C", enumeration.WIDE),
        plain,
    ]
    for k in range(6):
        tensors.append(graph.call(options, tensors[max(0, k - 2)], tensors[-1]))
    graph.output(graph.call([enumeration.TOTAL], tensors[-1]))
    full = graph.plan()
    assert full.is_cheapest
    monkeypatch.setattr("lowering.padding.graph.SEARCH_STATES", 3)
    monkeypatch.setattr("lowering.padding.graph.NARROW", 1)
    plan = graph.plan()
    assert not plan.is_cheapest
    assert plan.cost >= full.cost
    assert plan.explain().startswith(f"cost {plan.cost}, over the budget of 3 partial plans: cheaper plans may exist")
    np.testing.assert_array_equal(plan.run({"x": ARRAY})[0], full.run({"x": ARRAY})[0])


def test_explain_says_who_needs_what_and_which_guards_stay():
    plan = chain([ADDONE], [enumeration.ODD], [enumeration.TOTAL]).plan()
    text = plan.explain()
    assert text.splitlines()[0] == "cost 18, and no plan costs less"
    assert "fill odd (2 elements) with 0 in its padding, for total" in text
    assert "needs 0 in the padding of A: it is 0 by the fill of odd" in text
    assert "keeps the assumption (i1 * 4 + j1 < 14) | (A[i1, j1] == 0), of the padding of A, as is said above" in text
    assert repr(plan).startswith("<Plan of cost 18: pad x with UNDEF, 16 elements, addone = addone(...)")
    both = {"A": enumeration.TILES, "B": enumeration.TILES}
    assert shown(FLAT_ADDONE, both) == [("NOTHING", "UNTOUCHED", True), ("READABLE", "A * 2 + 1", False)]
    for f, neutral in [(FLAT_TOTAL, "0"), (FLAT_LARGEST, "-inf")]:
        assert shown(f, {"A": enumeration.TILES}) == [("NOTHING", "None", True), (neutral, "None", False)]


def test_graphs_and_plans_are_pickled_also_long_chains():
    graph = chain([ADDONE], [enumeration.ODD], [enumeration.TOTAL])
    again = pickle.loads(pickle.dumps(graph))
    assert (
        repr(again)
        == repr(graph)
        == "<Graph x = input; addone = (addone)(x); odd = (odd)(addone); total = (total)(odd); outputs total>"
    )
    plan = pickle.loads(pickle.dumps(graph.plan()))
    assert plan.explain() == again.plan().explain()
    assert plan.run({"x": ARRAY})[0] == (ARRAY * 2 + 3).sum()
    graph = chain(*[[ADDONE]] * 100, [enumeration.TOTAL])
    plan = graph.plan()
    assert (plan.cost, kinds(plan)) == (16, ["pad -100"])
    assert len(plan.explain().splitlines()) > 200


def test_a_function_with_the_same_interface_takes_the_place_of_another():
    graph = Graph()
    x = graph.input("x", (14,), "int32")
    y = graph.call([ADDONE, enumeration.elementwise("plain", "A + 1", None)], x)
    graph.output(graph.call([enumeration.TOTAL], y))
    graph.replace(y, enumeration.elementwise("add_in_halves", "A + 2 - 1"))
    assert (
        repr(graph) == "<Graph x = input; addone = (add_in_halves | plain)(x); total = (total)(addone); outputs total>"
    )
    for other in (
        enumeration.elementwise("two", "A + 2"),
        enumeration.elementwise("wide", "A + 1", enumeration.WIDE),
        enumeration.elementwise("g", "A + 1", guarded=True),
    ):
        with pytest.raises(InterfaceError, match="its neighbours are x, total"):
            graph.replace(y, other)
    with pytest.raises(InputError, match="x is an input of the graph"):
        graph.replace(x, ADDONE)


def test_bad_input_is_refused_in_one_sentence():
    graph, other = Graph(), Graph()
    x = graph.input("x", (14,), "int32")
    y = other.input("y", (14,), "int32")
    loop = "    for i in [0, 14):\n        "
    both = parse_nest(f"def both(A: int32[14], B: int32[14], C: int32[14]):\n{loop}B[i] = A[i]\n        C[i] = A[i]")
    sized = parse_nest("def sized(n, A: int32[n], B: int32[n]):\n    for i in [0, n):\n        B[i] = A[i]")
    inplace = parse_nest(f"def inplace(A: int32[14], B: int32[14]):\n{loop}B[i] = B[i] + A[i]")
    short = parse_nest("def short(A: int32[13], B: int32[13]):\n    for i in [0, 13):\n        B[i] = A[i]")
    real = enumeration.elementwise("real", "A + 1.0", dtype="float32")
    for call, words in [
        (lambda: graph.call([], x), "at least one function"),
        (lambda: graph.call([ADDONE], y), "y is a tensor of another graph"),
        (lambda: graph.call([ADDONE], x, x), "addone takes 1 tensors, not 2"),
        (lambda: graph.call([ADDONE]), "addone takes 1 tensors, not 0"),
        (lambda: graph.call([ADDONE], "x"), "input 0 of addone must be a tensor of the graph"),
        (lambda: graph.call(["f"], x), "must be a function"),
        (lambda: graph.call("f", x), "a list of functions"),
        (lambda: graph.call([both], x), "both has 2: B, C"),
        (lambda: graph.call([sized], x), "sized depends on n"),
        (lambda: graph.call([inplace], x), "inplace reads its output B"),
        (lambda: graph.call([short], x), r"input 0 of short is A: int32\[13\], not <x: int32\[14\]>"),
        (lambda: graph.call([real], x), r"input 0 of real is A: float32\[14\], not"),
        (lambda: graph.call([ADDONE, enumeration.TOTAL], x), "addone makes .* total makes"),
        (lambda: graph.plan(), "the graph has no outputs"),
        (lambda: graph.output("x"), "an output must be a tensor"),
        (lambda: graph.output(y), "y is a tensor of another graph"),
        (lambda: graph.input("x", (14,), "int32"), "a tensor x already"),
        (lambda: graph.input("", (14,), "int32"), "the name of an input"),
        (lambda: graph.input("v", (14, 0), "int32"), "extent 1 of v"),
        (lambda: graph.input("v", 14, "int32"), "the shape of v"),
        (lambda: graph.input("v", (), "int32"), "the shape of v"),
        (lambda: graph.input("v", (14,), "integer"), "the type of v"),
        (lambda: pad_options("f", {"A": enumeration.TILES}), "takes a Function"),
        (lambda: pad_options(ADDONE, {}), "layouts are a mapping"),
        (lambda: pad_options(ADDONE, {"C": enumeration.TILES}), "C"),
        (lambda: pad_options(inplace, {"A": IndexMap(lambda i: [i % 4], (14,))}), "no inverse"),
    ]:
        with pytest.raises(InputError, match=words):
            call()
    assert repr(graph) == "<Graph x = input; outputs none>"  # nothing of it was kept
    graph.output(graph.call([enumeration.TOTAL], x))
    plan = graph.plan()
    for arrays, words in [
        ({}, "the array for x is missing"),
        ({"z": ARRAY}, "z is no input of the graph: the inputs are x"),
        ({"x": ARRAY[1:]}, r"the array for x has the shape \(13,\), not \(14,\)"),
        ({"x": ARRAY * 0.5}, "the array for x has the type float64, not int32"),
        ([ARRAY], "run takes arrays by the names"),
    ]:
        with pytest.raises(InputError, match=words):
            plan.run(arrays)


def test_inputs_may_be_outputs_and_calls_that_nobody_needs_are_not_made():
    graph = Graph()
    x, y = graph.input("x", (14,), "int32"), graph.input("y", (14,), "int32")
    graph.call([enumeration.TOTAL], x)
    graph.output(y)
    graph.output(graph.call([ADDONE], y))
    graph.output(y)
    plan = graph.plan()
    assert [s.kind for s in plan.steps] == ["pad", "call", "crop"]
    assert plan.cost == 30
    given = {"x": ARRAY, "y": ARRAY * 2}
    results = plan.run(given)
    assert [list(r) for r in results] == [list(ARRAY * 2), list(ARRAY * 2 + 1), list(ARRAY * 2)]
    results[0][0] = 99
    assert given["y"][0] == -6


def test_large_tensors_are_not_followed_element_by_element():
    tiles = IndexMap(lambda i: [i // 64, i % 64], (999_999,))
    grid = "    for i in [0, 15625):\n        for j in [0, 64):\n            "
    lines = f"def f(A: int32[15625, 64], B: int32[15625, 64]):\n{grid}B[i, j] = A[i, j] * 3 + 6"
    f = with_layouts(parse_nest(lines), {"A": tiles, "B": tiles})
    said = (
        "    for k in [0, 15625):\n        for l in [0, 64):\n            assume k * 64 + l < 999999 or A[k, l] == 0\n"
    )
    lines = f"def g(A: int32[15625, 64], B: int32[1]):\n{said}    B[0] = 0\n{grid}B[0] = B[0] + A[i, j]"
    g = with_layouts(parse_nest(lines), {"A": tiles})
    graph = Graph()
    graph.output(graph.call([g], graph.call([f], graph.input("x", (999_999,), "int32"))))
    plan = graph.plan()
    assert (plan.cost, kinds(plan)) == (1_000_000, ["pad -2"])


LOOP = "    for i in [0, 14):\n        "


FLAT_ADDONE = parse_nest(f"def addone(A: int32[14], B: int32[14]):\n{LOOP}B[i] = A[i] * 2 + 1")
FLAT_TOTAL = parse_nest(f"def total(A: int32[14], B: int32[1]):\n    B[0] = 0\n{LOOP}B[0] = B[0] + A[i]")
FLAT_LARGEST = parse_nest(f"def largest(A: float32[14], B: float32[1]):\n    B[0] = -inf\n{LOOP}B[0] = max(B[0], A[i])")


def shown(f: Function, layouts: dict[str, IndexMap]) -> list[tuple[str, str, bool]]:
    """Summarize options: need of A, promise of B, presence of guards."""
    found = [(contract(g), "if " in str(g)) for g in pad_options(f, layouts)]
    return [(str(c.needs["A"]), str(c.gives.get("B")), has_guards) for c, has_guards in found]


CONVOLUTION = """
def conv(A: float32[2, 5, 3, 3], O: float32[2, 5, 3, 3]):
    for n in [0, 2):
        for c in [0, 5):
            for y in [0, 3):
                for x in [0, 3):
                    O[n, c, y, x] = 0.0
                    for r in [0, 5):
                        O[n, c, y, x] = O[n, c, y, x] + A[n, r, y, x]
"""


def test_only_padding_that_may_free_a_guard_is_tried(monkeypatch):
    calls: Counter[str] = Counter()
    module = importlib.import_module("lowering.padding.contract")  # the package's name is the function

    def count(name: str, call: Any) -> None:
        def counted(*args: Any) -> Any:
            calls[name] += 1
            return call(*args)

        monkeypatch.setattr(module, name, counted)

    for name in ("transform_layout", "remove_branching_through_overcompute"):
        count(name, getattr(module, name))
    blocks = IndexMap(lambda n, c, h, w: [n, c // 4, h, w, c % 4], (2, 5, 3, 3))
    found = pad_options(parse_nest(CONVOLUTION), {"A": blocks, "O": blocks})
    assert [str(contract(g).needs["A"]) for g in found] == ["NOTHING", "READABLE", "0.0"]
    # Three variants: guarded, unconstrained padding, zero padding of A.
    assert calls == {"transform_layout": 4, "remove_branching_through_overcompute": 3}


PLAIN = dict.fromkeys(("pad", "copy", "crop", "fill"), 1)


@pytest.mark.parametrize("seed", daily(range(2000), 260))
def test_no_plan_costs_less(seed):
    case, tried = enumeration.random_case(seed, 1 + seed % 5), 0
    for prices in (PLAIN, dict(zip(PLAIN, random.Random(seed).choices((1, 1, 2, 3, 9), k=4), strict=True))):
        plan = case.graph.plan(cost=lambda step, prices=prices: step.elements * prices.get(step.kind, 0))
        assert plan.is_cheapest
        found = enumeration.least_cost(case, plan.cost, prices)
        assert found in (None, plan.cost)  # none: too many ways to try them all
        tried += found is not None
    if not tried:
        pytest.skip("too many ways to try them all")


@pytest.mark.parametrize("seed", daily(range(2000), 190))
def test_a_plan_computes_what_numpy_does(seed):
    """Run with poisoned unwritten memory and random `undef()` values; results equal the reference."""
    rng = random.Random(seed)
    dtype = rng.choice(("int8", "int32", "int16"))
    case = enumeration.random_case(seed, 1 + seed % 8, dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.random.default_rng(seed).integers(low, high, 14, dtype, endpoint=True)
    plan = case.graph.plan()
    results = plan.run({"x": x}, undef=lambda dtype: rng.randrange(low, high + 1))
    for found, wanted in zip(results, case.reference(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
