"""C compiles without warnings at the levels at which compilers follow values: drawn schedules, the corpus."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import strategies as st

from bound import te
from intset.errors import InputError
from lowering import Function, lower, parse_nest, to_c
from lowering.nest.ir import with_fields
from tests.bound.corpus import CASES
from tests.compilers import compilers
from tests.lowering.lowered import compile_c, of_corpus
from tests.strategies.schedules import Program, programs
from tests.sweeps import sampled

LEVELS = (("-O2",), ("-O3", "-march=native", "-fopenmp"))
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"strength": True},
    {"compute": "box", "strength": True},
    {"compute": "exact"},
    {"nests": "partition"},
)


def check_silent(functions: list[Function], levels: tuple[tuple[str, ...], ...] = LEVELS) -> None:
    """Compile functions as one file under distinct names."""
    texts = [to_c(with_fields(f, name=f"f{k}")) for k, f in enumerate(functions)]
    for compiler in compilers():
        for level in levels:
            compile_c("\n".join(texts), compiler, ("-std=c99", "-Wall", "-Wextra", "-Werror", "-c", *level))


CARRIED = """
def f(A: float32[n, 3], B: float32[n, 3], n):
    for i in [0, n) with q = 0, then select(r == 2, q + 1, q); r = 0, then select(r == 2, 0, r + 1):
        B[i, q - q] = A[i, r] + A[i, (i * i + r) % 3] * B[i, (i * i + r) % 3]
"""


def test_a_block_ends_behind_what_its_loop_carries() -> None:
    f = parse_nest(CARRIED)
    check_silent([f])
    text = to_c(f)
    body = text[text.index("for (") :]
    names = re.findall(r"const \w+ (\w+) =", body)
    assert len(names) >= 4, "the body and the update define names"
    assert len(set(names)) == len(names)


def test_storage_of_any_size_saturates_below_what_compilers_warn_of() -> None:
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n, 5), lambda i, j: a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    s.cache_read(a, "shared", [b])
    heap = parse_nest("""
def g(A: float32[n, m], n, m):
    for i in [0, n):
        allocate T: float32[i, m]
        for k in [0, i):
            for j in [0, m):
                T[k, j] = A[k, j] + 1.0
        for k in [0, i):
            for j in [0, m):
                A[k, j] = T[k, j]
""")
    check_silent([lower(s), heap])


@sampled(1, 60, st.lists(programs(symbolic=True, most=2, also="caches copies"), min_size=3, max_size=3), st.data())
def test_drawn_schedules(drawn: list[Program], data: st.DataObject) -> None:
    functions = []
    for program in drawn:
        options = data.draw(st.sampled_from(OPTIONS))
        if program.inferred() is None:
            continue
        try:
            functions.append(lower(program.schedule, **options))
        except InputError:
            continue
    check_silent(functions)


@pytest.mark.nightly
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_the_corpus(options: dict[str, Any]) -> None:
    functions = []
    for name in CASES:
        try:
            functions.append(lower(of_corpus(name)[0], **options))
            to_c(functions[-1])
        except InputError:  # missing in C, or forbidden by the schedule
            del functions[-1:]
    assert len(functions) > 100
    for begin in range(0, len(functions), 40):
        check_silent(functions[begin : begin + 40])
