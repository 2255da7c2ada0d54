"""The C of nests whose stages share loops: all of it in one translation unit, called and compared."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import replay, te, tir
from bound.schedule import Schedule
from bound.tensor import Tensor
from lowering import lower, run, to_c
from lowering.forms import NESTS
from tests.bound.reference import evaluate
from tests.bound.replay.programs import given, two_reductions
from tests.bound.replay.random_dags import Dag
from tests.lowering.lowered import compile_c
from tests.strategies.written import broadcast, over, pointwise, reduced
from tests.sweeps import daily

WAYS = [
    {"compute": compute, "nests": nests, "compact": compact}
    for compute, nests, compact in product(("auto", "exact", "box"), NESTS, (False, True))
]
A = np.linspace(-3, 5, 72, dtype="float32").reshape(8, 9)


def two() -> tuple[Schedule, list[Tensor]]:
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    return s, [ts[3]]


def softmax() -> tuple[Schedule, list[Tensor]]:
    t0 = given(8, 9)
    t3 = over("T3", t0, broadcast("T2", reduced("T1", t0, by=te.max), 1))
    t6 = over("T6", t3, broadcast("T5", reduced("T4", t3), 1))
    s = te.create_schedule(t6.op)
    s[t6].split(t6.op.axis[0], 3)
    replay.propagate(s, t6)
    replay.inline_most(s)
    return s, [t6]


def longer() -> tuple[Schedule, list[Tensor]]:
    """A stage in loops longer than its own, outputs that share loops, guards."""
    t1 = pointwise("T1", given(8, 9))
    t2 = pointwise("T2", t1)
    t3 = broadcast("T3", t1, 1)
    t4 = te.compute((8, 5, 9), lambda i, j, k: t3[i, 0, k] + j, name="T4")
    s = te.create_schedule([t2.op, t1.op, t4.op])
    s[t4].split(s[t4].fuse(*t4.op.axis[:2]), 3)
    replay.compute_at(s, t1, t4, 2)
    return s, [t1, t2, t4]


def tuples() -> tuple[Schedule, list[Tensor]]:
    """Two results of one operation, and of one reduction."""
    t0 = given(8, 9)
    a, b = te.compute((8, 9), lambda i, j: (t0[i, j] + 1, t0[i, j] * 2), name="P")
    most = te.comm_reducer(
        lambda x, y: (tir.Select(x[0] >= y[0], x[0], y[0]), x[1] + y[1]),
        lambda p, q: (te.min_value(p), tir.const(0, q)),
        name="most",
    )
    r = te.reduce_axis((0, 9), "r")
    m, t = te.compute((8,), lambda i: most((a[i, r], b[i, r]), axis=r), name="M")
    out = te.compute((8,), lambda i: m[i] + t[i], name="O")
    s = te.create_schedule([out.op, b.op])
    replay.compute_at(s, a, m, -1, "best_effort")
    replay.inline_most(s)
    return s, [out, b, a]


def drawn(step: int) -> list[tuple[Schedule, list[Tensor], dict[str, Any], dict[str, Any]]]:
    """Random programs, each in one way; with what is given and the sizes."""
    found = []
    for seed in range(0, 24, step):
        d = Dag.wide(seed) if seed % 4 else Dag(seed, 5, symbolic=seed % 3 == 0)
        s = d.schedule()
        d.transform(s, 3)
        replay.inline_most(s)
        numbers = dict(zip(d.tensors[0].extents, d.input.shape, strict=True))
        sizes = {v.name: n for v, n in numbers.items() if not v.is_const}
        found.append((s, list(d.wanted), {"A": d.input}, sizes))
    return found


def entered(functions: list[Any], *more: Any, s: Schedule, **how: Any) -> None:
    """One more function, if its body is new."""
    f = lower(s.copy(), name=f"f{len(functions)}", **how)
    text = to_c(f)
    body = text[text.index("\nint ") :].replace(f.name, "f")
    if all(body != other for _, other, *_ in functions):
        functions.append((f, body, text, *more))


@pytest.mark.parametrize("share", daily([2, 1], 2))
def test_c_of_shared_loops(share: int) -> None:
    functions: list[Any] = []
    for k, program in enumerate((two, softmax, longer, tuples)):
        s, outputs = program()
        for way in WAYS[k :: 4 * share]:
            entered(functions, outputs, {"T0": A}, {}, s, s=s, **way)
    for k, (s, outputs, arrays, sizes) in enumerate(drawn(1 + 2 * share)):
        entered(functions, outputs, arrays, sizes, s, s=s, **WAYS[k * 5 % len(WAYS)])
    library = ctypes.CDLL(str(compile_c("\n".join(text for _, _, text, *_ in functions))))
    for f, _, text, outputs, arrays, sizes, s in functions:
        wanted = {s.current(t).name: evaluate(t, arrays) for t in outputs}
        found = {t.name: np.full(wanted[t.name].shape, 77, t.dtype) for t in f.outputs}
        index = ctypes.c_int64 if "int64_t " in text.split("{")[0] else ctypes.c_int32
        args: list[Any] = [{**arrays, **found}[t.name].ctypes.data_as(ctypes.c_void_p) for t in f.params]
        assert getattr(library, f.name)(*args, *(index(sizes[v.name]) for v in f.sizes)) == 0
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, err_msg=text)
    assert len(functions) > 16 // share


@pytest.mark.parametrize("program", [longer, tuples])
def test_run_compiles_it(program):
    s, outputs = program()
    wanted = {t.name: evaluate(t, {"T0": A}) for t in outputs}
    found = {name: np.zeros_like(array) for name, array in wanted.items()}
    run(lower(s), {"T0": A, **found}, backend="c")
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5)


def test_a_place_that_only_an_allocation_depends_on_is_no_parameter():
    """M is allocated at [i, j], but its computation does not use i; C compilers warn of unused parameters."""
    n = te.var("n")
    a = te.placeholder((n, 2, n), name="A")
    t = te.compute((n, 2, n), lambda i, q, j: a[i, q, j] * 2, name="T")
    m = reduced("M", t, 1, by=te.max)
    c = pointwise("C", m)
    u = te.compute((n, 2, n), lambda i, q, j: t[i, q, j] - c[i, j], name="U")
    s = te.create_schedule(u.op)
    replay.compute_at(s, t, u, 1)
    replay.inline_at(s, m, 2)
    compile_c(to_c(lower(s)))
