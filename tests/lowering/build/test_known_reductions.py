"""Reductions whose identity lies outside the known range of their results."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from bound.tensor import Tensor
from intset import Expr, Var
from lowering import lower, run

A = te.placeholder((9,), name="A", dtype="int32")
DATA = {"A": np.array([7, -3, 7, 0, 2, -8, 5, 5, 1], np.int32)}
Term = Callable[[Expr, Expr], Any]

TERMS: dict[str, Term] = {
    "a number": lambda i, k: tir.const(5),
    "a number that is computed": lambda i, k: i // 9 + 5,
    "a choice that is decided": lambda i, k: tir.if_then_else(k > 4, A[i], 0),
    "the loop": lambda i, k: k + i,
    "a remainder": lambda i, k: (i * 3 + k * 5) % 4 + 7,
    "data, kept within ends": lambda i, k: te.max(te.min(A[i + k], 6), 2),
}
REDUCERS = {"max": (te.max, max), "min": (te.min, min)}


def value_of(term: Term, i: int, k: int) -> int:
    made = te.compute((1,), lambda _: term(tir.const(i), tir.const(k)), name="one")
    return int(run(lower(te.create_schedule(made.op), [A, made]), DATA)["one"][0])


def scheduled(out: Tensor, rng: random.Random) -> Any:
    s = te.create_schedule(out.op)
    kind = rng.choice(("plain", "split", "outer", "rfactor", "local"))
    if kind == "local":
        s.cache_write(out, "local")
        return s
    stage = s[out]
    outer, inner = stage.split(stage.op.reduce_axis[0], 2)
    if kind == "outer":
        stage.reorder(outer, stage.op.axis[0], inner)
    elif kind == "rfactor":
        s.rfactor(out, rng.choice((outer, inner)))
    return s


@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("term", TERMS)
def test_what_a_reduction_starts_from_is_no_result(term: str, reducer: str) -> None:
    rng = random.Random(f"{term} {reducer}")
    reduce, truth = REDUCERS[reducer]
    first, count = rng.choice(((0, 3), (1, 3), (2, 4)))
    terms = [[value_of(TERMS[term], i, k) for k in range(first, first + count)] for i in range(4)]
    for _ in range(2):
        out = reduced(reduce, TERMS[term], first, count)
        f = lower(scheduled(out, rng), [A, out], compute=rng.choice(("auto", "exact")))
        for g in (f, pickle.loads(pickle.dumps(f))):
            assert run(g, DATA)["out"].tolist() == [truth(row) for row in terms], f


def reduced(reduce: Any, term: Term, first: int, count: int) -> Tensor:
    k = te.reduce_axis((first, first + count), "k")
    out: Tensor = te.compute((4,), lambda i: reduce(term(i, k.var), axis=k), name="out")
    return out


def larger(a: Any, b: Any) -> Any:
    return tir.Select(a[1] >= b[1], a[0], b[0]), tir.Select(a[1] >= b[1], a[1], b[1])


@pytest.mark.parametrize(
    ("term", "places"), [("a number", [1] * 4), ("a remainder", [3, 4, 1, 2]), ("the loop", [4] * 4)]
)
def test_the_place_of_a_maximum_that_is_known(term: str, places: list[int]) -> None:
    argmax = te.comm_reducer(larger, lambda x, y: (tir.const(-1, x), te.min_value(y)), name="argmax")
    k = te.reduce_axis((1, 5), "k")
    place, best = te.compute((4,), lambda i: argmax((k.var, TERMS[term](i, k.var)), axis=k), name="am")
    read = te.compute((4,), lambda i: A[place[i]] + best[i] * 100, name="read")
    rows = [[value_of(TERMS[term], i, k) for k in range(1, 5)] for i in range(4)]
    assert places == [1 + row.index(max(row)) for row in rows]
    found = run(lower(te.create_schedule(read.op), [A, read]), DATA)["read"]
    assert found.tolist() == [DATA["A"][at] + max(row) * 100 for at, row in zip(places, rows, strict=True)]


def test_a_finished_element_is_known_and_an_unfinished_one_is_not() -> None:
    k, x = te.reduce_axis((0, 3), "k"), Var("x")
    out = te.compute((4,), lambda i: te.max(k.var + i, axis=k), name="out")
    assert (out.element.lower, out.element.upper) == (0, 5)
    assert out.unfinished.lower == -(2**31) and out.unfinished.upper == 5
    total = te.compute((4,), lambda i: te.sum(k.var + i, axis=k), name="total")
    assert total.unfinished is total.element and str(out.unfinished(x)) == str(out[x])
