"""Parallel loops in C under the thread sanitizer.

OpenMP's own runtime is not instrumented: what it does between threads looks like races. So the few functions that a
parallel loop calls are defined here, on plain threads, which the sanitizer knows.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from lowering import lower, parse_nest, run, to_c
from lowering.codegen.c import program_text
from lowering.nest.ir import Function
from tests.compilers import compilers, need_compiler

RUNTIME = """
#include <pthread.h>
#define THREADS 3
static __thread int number;
static void (*volatile body)(void *);
static pthread_barrier_t all;
struct call { void (*body)(void *); void *data; int number; };
int omp_get_thread_num(void) { return number; }
int omp_get_num_threads(void) { return THREADS; }
int omp_get_max_threads(void) { return THREADS; }
void GOMP_barrier(void) { pthread_barrier_wait(&all); }
static void *one(void *call) {
    struct call *c = call;
    number = c->number;
    c->body(c->data);
    return 0;
}
void GOMP_parallel(void (*f)(void *), void *data, unsigned count, unsigned flags) {
    pthread_t threads[THREADS];
    struct call calls[THREADS];
    (void)count, (void)flags;
    pthread_barrier_init(&all, 0, THREADS);
    for (int k = 0; k < THREADS; ++k) {
        calls[k] = (struct call){f, data, k};
        pthread_create(&threads[k], 0, one, &calls[k]);
    }
    for (int k = 0; k < THREADS; ++k) pthread_join(threads[k], 0);
    pthread_barrier_destroy(&all);
}
"""
FLAGS = ("-std=gnu99", "-O1", "-g", "-fopenmp", "-fsanitize=thread", "-pthread")


def sanitized(f: Function, folder: Path, sizes: dict[str, int] | None = None) -> subprocess.CompletedProcess[str]:
    text = program_text(f, sizes)
    assert "#pragma omp parallel" in text
    (folder / "f.c").write_text(text)
    (folder / "runtime.c").write_text(RUNTIME)
    built = subprocess.run(
        [need_compiler(), *FLAGS, str(folder / "f.c"), str(folder / "runtime.c"), "-o", str(folder / "f"), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"no thread sanitizer: {built.stderr}")
    done = subprocess.run([str(folder / "f")], capture_output=True, text=True, check=False, timeout=120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run here")
    return done


def tiles(n: Any) -> Any:
    """Private storage of each iteration, too large for the stack; a border; a sum."""
    a = te.placeholder((n, n), name="A")
    pad = te.compute(
        (n + 2, n + 2),
        lambda y, x: tir.if_then_else(tir.all(y >= 1, y <= n, x >= 1, x <= n), a[y - 1, x - 1], 0.0),
        name="pad",
    )
    r = te.reduce_axis((0, 3), "r")
    b = te.compute((n, n + 2), lambda y, x: te.sum(pad[y + r, x], axis=r), name="B")
    c = te.compute((n, n), lambda y, x: b[y, x] + b[y, x + 2], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 8)
    s[pad].compute_at(s[c], outer)
    s[b].compute_at(s[c], outer)
    s[c].parallel(outer)
    s[c].vectorize(c.op.axis[1])
    return s


def divided() -> Any:
    """Concurrent divisions by 0 set one flag without a race."""
    a = te.placeholder((64,), "int32", name="A", value_range=(0, 3))
    b = te.compute((64,), lambda i: 12 // a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    return s


@pytest.mark.skipif("gcc" not in compilers(), reason="the runtime of another compiler has other functions")
def test_parallel_loops_have_no_race(tmp_path: Path) -> None:
    for f, sizes in ((lower(tiles(te.size_var("n"))), {"n": 61}), (lower(divided()), {})):
        done = sanitized(f, tmp_path, sizes)
        assert "returned" in done.stdout and "WARNING" not in done.stderr, done.stderr
    racing = "def f(A: float32[4]):\n    for i in [0, 400) parallel:\n        A[i % 4] = A[i % 4] + 1.0\n"
    assert "data race" in sanitized(parse_nest(racing), tmp_path).stderr


def test_what_parallel_iterations_do_is_a_function_whose_arrays_are_apart() -> None:
    a, w = te.placeholder((64, 40), name="A"), te.placeholder((40, 48), name="W")
    k = te.reduce_axis((0, 40), "k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="C")
    d = te.compute((64, 48), lambda i, j: c[i, j] + 1.0, name="D")
    s = te.create_schedule(d.op)
    s[c].parallel(c.op.axis[0])
    outer, _ = s[d].split(d.op.axis[0], 16)
    s[d].parallel(outer)
    f = lower(s, [a, w, d])
    text = to_c(f)
    regions = text.split("#pragma omp parallel for")[1:]
    assert len(regions) == 2
    for region in regions:  # a loop of one call
        assert re.match(r"\s*for \(.*\) \{\s*\w+\(.*\);\s*\}", region), region
    assert "static void D_C_" in text and "static void D_D_" in text
    rng = np.random.default_rng(0)
    given = {t.name: rng.standard_normal((int(t.shape[0]), int(t.shape[1])), "float32") for t in (a, w)}
    found = run(f, given, backend="c")["D"]
    np.testing.assert_allclose(found, given["A"] @ given["W"] + 1, rtol=1e-4, atol=1e-4)
