"""Copied statements get fresh names and storage in nests, text and C."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st

from bound import te
from bound.errors import ScheduleError
from lowering import Function, lower, parse_nest, run, to_c, unique_names
from lowering.codegen.c import _prepared
from lowering.nest.ir import Allocate, Let, Stmt, seq
from lowering.nest.names import with_fresh_names, with_own_storage
from lowering.nest.walk import statements
from tests.lowering.lowered import check_c, check_run, close, compile_c, problem, run_sanitized, text_of
from tests.strategies.schedules import Program, programs
from tests.sweeps import sampled

NESTS = ("auto", "guard", "ends", "split", "partition")
STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-pedantic", "-fsyntax-only")


def made_twice(root: Stmt) -> list[str]:
    """Tensors and variables that a nest defines twice."""
    made: Counter[Any] = Counter()
    for stmt in statements(root):
        if isinstance(stmt, Allocate):
            made[stmt.tensor] += 1
        elif isinstance(stmt, Let):
            made[stmt.var] += 1
    return [str(thing) for thing, count in made.items() if count > 1]


def rows(n: int, factor: int, inner: bool, nests: str, width: int = 1) -> Any:
    """Sums of two columns; the producer is computed in a loop over rows that is unrolled."""
    A = te.placeholder((n, width + 2), name="A")
    B = te.compute((n, width + 2), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((n, width), lambda y, x: B[y, x] + B[y, x + 2], name="C")
    s = te.create_schedule(C.op)
    loops = s[C].split(C.op.axis[0], factor)
    s[C].unroll(loops[int(inner)])
    s[B].compute_at(s[C], loops[int(inner)])
    return s, lower(s, [A, C], nests=nests)


@pytest.mark.parametrize("nests", NESTS)
@pytest.mark.parametrize(("n", "factor", "width"), [(13, 8, 1), (18, 4, 18)])
def test_storage_inside_an_unrolled_loop_whose_factor_does_not_divide(
    n: int, factor: int, width: int, nests: str
) -> None:
    for inner in (True, False):
        s, f = rows(n, factor, inner, nests, width)
        check_run(f, s)
        check_c(f, s)
        assert not made_twice(_prepared(f, 32).body)


@sampled(4, 4000, programs(also="copies"), st.sampled_from(NESTS), shows={True})
def test_random_schedules_of_copies(program: Program, nests: str) -> bool:
    try:
        f = lower(program.schedule, nests=nests)
    except ScheduleError:
        return False
    assert not made_twice(f.body)
    assert str(parse_nest(str(f))) == str(f)
    text = text_of(f)
    compile_c(text, flags=(*STRICT, "-c"))
    given, expected = problem(program.schedule, program.sizes)
    close(run_sanitized(f, text, given, expected, program.sizes), expected)
    return True


def test_c_of_an_array_with_elements_that_no_copy_stores() -> None:
    program = Program(586, also="copies")  # gcc may believe that a copy, never run, reads them
    text = to_c(lower(program.schedule, nests="guard"))
    assert "{0}" not in text  # no loop fills the array
    for level in ("-O0", "-O1", "-O2"):
        compile_c(text, flags=("-std=c99", level, "-Wall", "-Wextra", "-Werror", "-c"))


NEST = """
def f(A: int32[4], C: int32[4]):
    for i in [0, 4):
        allocate T: int32[2]
        x = A[i] * 3
        T[0] = x
        T[1] = T[0] + 1
        C[i] = T[1]
"""


def copied_twice() -> Function:
    """A nest with its loop twice, the second time as the same statements."""
    f = parse_nest(NEST)
    return f.with_body(seq(f.body, f.body))


def test_a_tensor_that_is_allocated_twice_becomes_two() -> None:
    f = copied_twice()
    assert made_twice(f.body)
    for g in (unique_names(f), f.with_body(with_own_storage(f.body))):
        tensors = [stmt.tensor for stmt in statements(g.body) if isinstance(stmt, Allocate)]
        assert len(set(tensors)) == 2
        assert tensors[0] in {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)}
        assert run(g, {"A": [1, 2, 3, 4]})["C"].tolist() == [4, 7, 10, 13]
    assert not made_twice(unique_names(f).body)


def test_a_copy_shares_no_name_with_what_it_copies() -> None:
    f = parse_nest(NEST)
    copy = with_fresh_names(f.body)
    own, other = ({s.tensor for s in statements(root) if isinstance(s, Allocate)} for root in (f.body, copy))
    assert own and other and own.isdisjoint(other)
    assert str(copy) == str(f.body)
