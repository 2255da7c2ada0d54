"""Accesses of operations with their conditions; fixed and relaxed loops of a producer."""

from __future__ import annotations

import itertools
from typing import Any

from bound import te, tir
from bound.infer.accesses import TensorAccess, accesses, create_read_graph
from bound.infer.phases.propagate import initialise_leaves, storage_rank_of
from bound.itervar import IterVar
from bound.schedule.attach import create_attach_path
from bound.schedule.relations import IterVarRelation, Ranges, pass_down_domain, pass_up_index, split_guards
from intset.expr.dag import opaque_terms
from intset.expr.evaluate import evaluate
from tests.bound.corpus import CASES

A = te.placeholder((20,), name="A")
IDX = te.placeholder((20,), "int32", name="IDX", value_range=(-3, 30))


def of(formula: Any, n: int = 16) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    op = te.compute((n,), formula, name="C").op
    return [(a.tensor.name, tuple(map(str, a.indices)), tuple(map(str, a.conditions))) for a in accesses(op)]


def test_plain_and_guarded_reads() -> None:
    assert of(lambda i: A[i] + A[i + 1] + A[i]) == [("A", ("i",), ()), ("A", ("i + 1",), ())]
    assert of(lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), A[i - 1], A[i + 2])) == [
        ("A", ("i - 1",), ("i >= 1", "i < 9")),
        ("A", ("i + 2",), ("~((i >= 1) & (i < 9))",)),
    ]
    nested = of(lambda i: tir.Select(i < 8, tir.Select(i > 2, A[i], 0.0), A[i + 4]))
    assert nested == [("A", ("i",), ("i < 8", "i > 2")), ("A", ("i + 4",), ("~(i < 8)",))]


def test_a_read_reached_in_two_ways() -> None:
    both = of(lambda i: tir.Select(i < 3, A[i], 0.0) + tir.Select(i > 9, A[i], 0.0))
    assert sorted(both) == [("A", ("i",), ("i < 3",)), ("A", ("i",), ("i > 9",))]
    always = of(lambda i: tir.Select(i < 3, A[i], 0.0) + A[i])
    assert always == [("A", ("i",), ())]
    many = of(lambda i: sum((tir.Select(tir.all(i < 15, i >= k), A[i], 0.0) for k in range(9)), A[0]))
    assert many == [("A", ("0",), ()), ("A", ("i",), ("i < 15",))]


def test_conditions_on_data_say_nothing_but_read() -> None:
    mixed = of(lambda i: tir.Select(tir.all(i < 3, A[i] > 0), A[i + 1], A[i + 2]))
    assert mixed == [("A", ("i",), ("i < 3",)), ("A", ("i + 1",), ("i < 3",)), ("A", ("i + 2",), ())]
    by_index = of(lambda i: tir.if_then_else(IDX[i] < 4, A[IDX[i]], 0.0))
    assert by_index == [("IDX", ("i",), ()), ("A", ("IDX[i]",), ("IDX[i] < 4",))]


def test_reductions_and_data_dependent_indices() -> None:
    k = te.reduce_axis((0, 12), "k")
    assert of(lambda i: te.sum(A[k], axis=k, where=k <= i)) == [("A", ("k",), ("k <= i",))]
    op = te.compute((16,), lambda i: A[i + tir.indexmod(IDX[i], 4)], name="C").op
    last = accesses(op)[-1]
    assert opaque_terms(*last.indices)
    assert [str(c) for c in last.inside()] == ["i + IDX[i] % 4 >= 0", "i + IDX[i] % 4 < 20"]
    through = te.compute((16,), lambda i: A[(A[i] * 3).astype("int32")], name="C").op
    assert len(accesses(through)) == 2 and str(accesses(through)[0].indices[0]) == "i"


def test_externs_tensorized_bodies_and_scans_read_regions() -> None:
    e = te.extern((20,), [A], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    (whole,) = accesses(e.op)
    assert whole.tensor is A and whole.indices == (whole.extra[0][0],) and int(whole.extra[0][1].extent) == 20
    b = te.placeholder((16, 20), name="B")
    tile = te.placeholder((3, 20), name="tile")
    row = te.compute((20,), lambda j: tile[0, j] + tile[1, j] + tile[2, j], name="row")
    intrin = te.decl_tensor_intrin(row.op, lambda ins, outs: None, name="add3")
    c = te.compute((14, 20), lambda i: intrin(b[i : i + 3, 0:20]), name="C")
    (region,) = accesses(c.op)
    assert str(region.indices[0]) == "i + B.d0" and [int(r.extent) for _, r in region.extra] == [3, 20]


def test_every_access_of_the_corpus_is_in_root_axes_and_sizes() -> None:
    count = 0
    for name, case in CASES.items():
        if name.startswith("reject_attach"):
            continue
        schedule = case["fn"]().normalize()
        graph = create_read_graph(schedule)
        for stage in schedule.stages:
            for access in accesses(stage.op):
                count += 1
                assert isinstance(access, TensorAccess) and len(access.indices) == access.tensor.ndim
                env = {*stage.op.root_iter_vars, *(v for v, _ in access.extra)}
                used = {v for e in (*access.indices, *access.conditions) for v in e.free_vars()}
                assert all(v in env or not isinstance(v, IterVar) for v in used)
                assert stage in graph[access.tensor] or stage.attach_type.name == "INLINED_ALREADY"
    assert count > 300


def reached(relations: list[IterVarRelation], ranges: Ranges, leaves: list[IterVar], roots: list[IterVar]) -> list[Any]:
    """Root points visited by the loops over `leaves`, by execution."""
    points = []
    values = pass_up_index(relations, ranges, {iv: iv for iv in leaves})
    guards = split_guards(relations, ranges, values)
    extents = [range(int(ranges[iv].extent)) for iv in leaves]
    for place in itertools.product(*extents):
        env = dict(zip(leaves, place, strict=True))
        if all(evaluate(guard, env) for guard in guards):
            points.append(tuple(evaluate(values[root], env) for root in roots))
    return points


def test_loops_visit_every_point_of_the_roots() -> None:
    shapes = [
        (n, m, f, g, tail)
        for n in (1, 5, 12)
        for m in (1, 7)
        for f in (1, 3, 5, 20)
        for g in (2, 4)
        for tail in ("guard", "shrink", "shift_inwards", "round_up")
    ]
    for n, m, f, g, tail in shapes:
        b = te.compute((n, m), lambda i, j: i + j, name="B")
        s = te.create_schedule(b.op)
        i, j = b.op.axis
        fused = s[b].fuse(i, j)
        _, inner = s[b].split(fused, f, tail=tail)
        s[b].split(inner, nparts=g)
        ranges = pass_down_domain(s[b].relations, {iv: iv.dom for iv in (i, j) if iv.dom is not None})
        points = reached(s[b].relations, ranges, s[b].leaf_iter_vars, [i, j])
        wanted = set(itertools.product(range(n), range(m)))
        assert wanted <= set(points)
        if tail != "round_up":
            assert set(points) == wanted
        if tail in ("guard", "shrink"):
            assert len(points) == len(wanted)


def test_loops_fixed_and_relaxed() -> None:
    schedule = CASES["thread_warp_const"]["fn"]().normalize()
    paths = create_attach_path(schedule)
    _, b, c = schedule.stages
    states = {s.iv.name: s.is_fixed for s in initialise_leaves(b, paths[b], c, paths[c])}
    assert states == {"j": True, "i.inner.inner": False, "i.inner.outer": True, "i.outer": True}
    assert storage_rank_of(b, paths[b]) == 2

    schedule = CASES["doc_relax_set"]["fn"]().normalize()
    paths = create_attach_path(schedule)
    first, d, e = schedule.stages
    assert [s.is_fixed for s in initialise_leaves(first, paths[first], d, paths[d])] == [False] * 4
    assert [s.is_fixed for s in initialise_leaves(d, paths[d], e, paths[e])] == [True] * 2
