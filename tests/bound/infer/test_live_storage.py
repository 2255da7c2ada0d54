"""Bytes of storage that lives at once, against the allocations of lowered nests; copies of the answer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.data.schedules import CASES
from bound import dtypes, infer_bound, te, tir
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import ShapeVar
from intset.errors import InputError, IntSetError
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Var, as_expr
from lowering import lower
from lowering.allocation import lifetimes_of
from lowering.build.function import nest_of
from lowering.nest.ir import For, Function
from lowering.nest.walk import statements
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, sampled

NAMES = [case["name"] for case in CASES if not case["name"].startswith("reject_")]


def allocated(f: Function, values: Mapping[Any, int], scope: str | None = None, inside: Var | None = None) -> int:
    """The largest sum of allocations of a nest that live at one time, by their first and last uses."""
    loops = [s.body for s in statements(f.body) if isinstance(s, For) and s.var is inside]
    most = 0
    for root in [f.body] if inside is None else loops:
        sized = []
        for life in lifetimes_of(root, frozenset()).all:
            number = dtypes.storage_bytes(life.allocate.tensor.dtype)
            for r in life.allocate.ranges:
                number *= max(0, at(as_expr(r.extent), values))
            if scope in (None, life.allocate.scope or "global"):
                sized.append((life, number))
        most = max(most, *(sum(n for b, n in sized if b.first <= a.first <= b.last) for a, _ in sized), 0)
    return most


def at(e: Expr, values: Mapping[Any, int]) -> int:
    return int(evaluate(e, {v: values[v] for v in e.free_vars()}))


def check(b: BoundsMap, f: Function, values: Mapping[Any, int], is_whole: bool = True) -> int:
    """Compare the bytes of each scope, and of one iteration of each loop; gives how many were not 0."""
    scopes = {None, *(stage.scope or "global" for stage in b.schedule.stages)}
    pairs = [(at(b.bytes(scope), values), allocated(f, values, scope)) for scope in scopes]
    if is_whole:
        loops = [iv for s in b.schedule.stages if b.is_computed(s) for iv in s.leaf_iter_vars]
        pairs += [(at(b.bytes(inside=iv), values), allocated(f, values, None, iv)) for iv in loops]
    assert [mine for mine, _ in pairs] == [its for _, its in pairs]
    return sum(1 for mine, _ in pairs if mine)


@pytest.mark.parametrize("name", daily(NAMES, 3))
def test_the_corpus_keeps_what_lowered_nests_allocate(name: str) -> None:
    case = next(case for case in CASES if case["name"] == name)
    for options in ({}, {"compute": "box", "compact": True}):
        s = case["fn"]()
        b = infer_bound(s, **options)
        values = {v: int(case["sub"].get(v.name, 7)) for v in b.size_variables}
        try:
            f = lower(s, bounds=b, nests="guard", unsafe=True)
        except (ScheduleError, IntSetError):
            continue
        check(b, f, {**dict.fromkeys(f.sizes, 7), **values}, is_whole=False)
        check(b, nest_of(b, unsafe=True), values)


def compared(program: Program) -> bool:
    b = program.inferred()
    if b is None:
        return False
    try:
        f = nest_of(b, unsafe=True)
    except ScheduleError:
        return False
    return sum(check(b, f, program.values(sizes)) for sizes in program.choices[:2]) > 0


@sampled(8, 1500, programs(also="caches doubled stored copies"), shows={True})
def test_double_buffers_and_windows(program: Program) -> bool:
    return compared(program)


@sampled(5, 800, programs(also="caches threads"), shows={True})
def test_storage_of_blocks_of_threads(program: Program) -> bool:
    return compared(program)


@sampled(5, 800, programs(symbolic=True, also="stored doubled"), shows={True})
def test_storage_over_sizes(program: Program) -> bool:
    return compared(program)


def product(*tiles: Any) -> tuple[Schedule, Tensor, Tensor, Any]:
    """A matrix product with shared copies of its operands in each step of the reduction."""
    a, c = te.placeholder((256, 128), name="A"), te.placeholder((128, 192), name="B")
    r = te.reduce_axis((0, 128), "r")
    d = te.compute((256, 192), lambda i, j: te.sum(a[i, r] * c[r, j], axis=r), name="C")
    s = te.create_schedule(d.op)
    near_a, near_b = s.cache_read(a, "shared", [d]), s.cache_read(c, "shared", [d])
    i, j = d.op.axis
    (io, ii), (jo, ji), (ro, ri) = (s[d].split(x, factor=t) for x, t in zip((i, j, r), tiles, strict=True))
    s[d].reorder(io, jo, ro, ii, ji, ri)
    s[near_a].compute_at(s[d], ro)
    s[near_b].compute_at(s[d], ro)
    return s, near_a, near_b, ro


def test_bytes_over_sizes_of_tiles_are_those_at_numbers() -> None:
    tm, tn, tk = ShapeVar("tm"), ShapeVar("tn"), ShapeVar("tk")
    s, near_a, _, ro = product(tm, tn, tk)
    b = infer_bound(s)
    assert b.bytes("local").is_const and at(b.bytes("local"), {}) == 0
    for values in ({tm: 8, tn: 16, tk: 4}, {tm: 300, tn: 7, tk: 5}, {tm: 1, tn: 1, tk: 1}):
        expected = 4 * min(values[tk], 128) * (min(values[tm], 256) + min(values[tn], 192))
        assert at(b.bytes("shared"), values) == at(b.bytes(inside=ro), values) == at(b.bytes(), values) == expected
        assert at(b.at(values).bytes("shared"), {}) == expected
    s[near_a].double_buffer()
    b, values = infer_bound(s), {tm: 8, tn: 16, tk: 4}
    assert at(b.bytes("shared"), values) == 4 * 4 * (2 * 8 + 16)
    assert at(b.bytes(inside=ro), values) == 4 * 4 * 16  # its buffer lives outside of the loop


def test_loops_and_scopes_that_there_are_not_are_refused() -> None:
    b = infer_bound(product(8, 8, 8)[0])
    with pytest.raises(InputError, match=r"^a storage scope is one of .*, not 'smem'$"):
        b.bytes("smem")
    with pytest.raises(InputError, match=r"^r.outer is no loop of this schedule$"):
        b.bytes(inside=product(4, 4, 4)[3])


def test_a_call_uses_its_arguments_and_results() -> None:
    a = te.placeholder((10,), name="A")
    c = te.compute((10,), lambda i: a[i] + 1.0, name="B")
    e = te.extern((10,), [c], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    d = te.compute((10,), lambda i: e[i] + 1.0, name="D")
    s = te.create_schedule(d.op)
    before, after = lifetimes_of(lower(s).body, frozenset()).all
    assert before.last == after.first  # the call reads one and writes the other
    b = infer_bound(s)
    assert at(b.bytes(), {}) == at(b.bytes("global"), {}) == 80


def answers(b: BoundsMap) -> list[str]:
    said = [str(b.items()), str(b.outside), str(b.bytes())]
    for stage in b.schedule.stages:
        for t in stage.op.outputs:
            try:
                required = b.required(t)
                said += [str(b.storage(t)), str(required), str(b.computed(t)), b.explain(t)]
                said += [str(required.count_max()), str(required.count_total())]
            except IntSetError as error:
                said.append(str(error))
    return said


@pytest.mark.parametrize("name", daily(NAMES, 8))
def test_copies_answer_alike(name: str) -> None:
    b = infer_bound(next(case for case in CASES if case["name"] == name)["fn"]())
    unasked = pickle.dumps(b)
    expected = answers(b)
    for again in (pickle.loads(unasked), pickle.loads(pickle.dumps(b)), copy.deepcopy(b)):
        assert answers(again) == expected
