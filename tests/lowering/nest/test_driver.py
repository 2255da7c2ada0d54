"""The driver applies rules in order, within scope, to every statement once; nests with unknown values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bound.tir.build import ExternCall
from intset import InputError, Range, Var
from lowering import AccessError, CheckError, parse_nest, run
from lowering.nest.driver import (
    Cursor,
    Descent,
    StmtRules,
    Synthesis,
    SynthesisRule,
    cursors,
    each_operand,
    inside,
    rewritten,
    synthesized,
    walked,
)
from lowering.nest.ir import Assert, Evaluate, For, If, Let, Seq, Stmt, Store, seq
from lowering.nest.walk import children, map_operands, operands, statements

NEST = """
def f(A: int32[8, 8], n):
    for i in [0, n):
        assert i < 4, "small"
        if i < 2:
            x = i * 2
            A[i, x] = 1
        else:
            A[i, 0] = 2
        for j in [0, 8):
            A[i, j] = 3
    A[0, 0] = 4
"""


def at(root: Stmt, path: tuple[int, ...]) -> Stmt:
    for k in path:
        root = children(root)[k]
    return root


def test_cursors_and_paths_lead_to_statements_at_any_depth() -> None:
    f = parse_nest(NEST)
    seen = list(walked(f.body, Cursor.root(f)))
    assert [stmt for stmt, _ in seen] == list(statements(f.body)) and len(seen) == 12
    assert all(at(f.body, cursor.path) is stmt for stmt, cursor in seen)
    f = parse_nest(NEST)
    stores = {str(stmt): cursor for stmt, cursor in walked(f.body, Cursor.root(f)) if not children(stmt)}
    inside, outside = stores["A[i, x] = 1"], stores["A[0, 0] = 4"]
    (i,) = [loop.var for loop in inside.loops]
    assert [holds for _, holds in inside.branches] == [True]
    assert inside.ctx.prove(i < 2) and inside.ctx.prove(i < 4)
    assert stores["A[i, 0] = 2"].ctx.prove((i >= 2) & (i < 4))
    assert stores["A[i, j] = 3"].ctx.prove(i < 4) and not stores["A[i, j] = 3"].ctx.prove(i < 2)
    assert outside.loops == () and outside.branches == ()
    nest: Stmt = Let(Var("x"), Var("y"))
    for _ in range(5_000):
        nest = If(Var("k") < 2, nest)
    assert sum(1 for _ in walked(nest, Descent())) == 5_001
    assert sum(1 for _ in statements(rewritten(nest, Descent()))) == 5_001


def test_enter_comes_before_the_statements_inside_and_leave_behind_them() -> None:
    f = parse_nest(NEST)
    order: list[str] = []

    def note(word: str, stmt: For, _: Descent) -> For:
        order.append(f"{word} {stmt.var.name}")
        return stmt

    rules: tuple[StmtRules[Descent], ...] = tuple(
        {For: (lambda stmt, here, word=word: note(word, stmt, here),)} for word in ("enter", "leave")
    )
    assert rewritten(f.body, Descent(), *rules) is not None
    assert order == ["enter i", "enter j", "leave j", "leave i"]


def test_what_rules_put_in_place_is_entered_and_the_only_statement_is_left_once() -> None:
    # A loop of one iteration becomes its body; so does the loop inside, and the list of rules ends there.
    i, j = Var("i"), Var("j")
    body = Let(Var("x"), i + j)
    nest = For(i, Range(0, 1), For(j, Range(0, 1), body))

    def unwrap(loop: For, _: Descent) -> Stmt:
        return Seq((loop.body,))

    def never(loop: For, _: Descent) -> Stmt:
        raise AssertionError("the statement is no loop any more")

    assert rewritten(nest, Descent(), enter={For: (unwrap, never)}) is body
    # A rule that is applied twice would add 2; sequences inside sequences are flattened.
    x, y = Var("x"), Var("y")
    block = Seq((Let(y, y + 0), If(x < 2, Let(y, x + 0)), Seq((Seq(()),))))

    def drop(stmt: Let, _: Descent) -> Stmt:
        return Seq() if stmt.value is y + 0 else stmt

    def count(branch: If, _: Descent) -> Stmt:
        return If(branch.cond.args[0] + 1 < 2, branch.then)

    left = rewritten(block, Descent(), leave={Let: (drop,), If: (count,)})
    assert isinstance(left, If) and left.cond is (x + 1 < 2)


def test_rules_of_every_kind_are_those_of_kinds_without_their_own() -> None:
    f = parse_nest(NEST)
    seen: list[type[Stmt]] = []

    def note(stmt: Stmt, _: Descent) -> Stmt:
        seen.append(type(stmt))
        return stmt

    rewritten(f.body, Descent(), enter={Stmt: (note,), If: ()})
    assert seen.count(For) == 2 and seen.count(Assert) == 1 and seen.count(If) == 0


def test_operands_of_every_statement_and_call_are_changed() -> None:
    f = parse_nest(NEST)
    depth: dict[str, int] = {}

    def note(operand: object, cursor: Cursor) -> object:
        depth[str(operand)] = len(cursor.loops)
        return operand

    rewritten(f.body, Cursor.root(f), enter={Stmt: (each_operand(note),)})
    assert depth["n"] == 0 and depth["i < 2"] == 1 and depth["j"] == 2
    i = Var("i")
    stmt = Evaluate(CallOfAnotherKind("foreign", "g", (i,), "term"))
    assert operands(stmt) == (i,)
    changed = map_operands(stmt, lambda e: e + 1)
    assert str(changed.call.args) == "(i + 1,)" and isinstance(changed.call, CallOfAnotherKind)


@st.composite
def nests(draw: st.DrawFn, depth: int = 4) -> Stmt:
    kind = draw(st.sampled_from(("let", "seq", "for", "if") if depth else ("let",)))
    if kind == "let":
        return Let(Var("x"), Var("y") + draw(st.integers(0, 3)))
    if kind == "seq":
        return seq(*draw(st.lists(nests(depth - 1), max_size=3)))
    if kind == "for":
        return For(Var("i"), Range(0, draw(st.integers(0, 2))), draw(nests(depth - 1)))
    return If(Var("k") < 2, draw(nests(depth - 1)), draw(st.none() | nests(depth - 1)))


def leaves(root: Stmt) -> Iterator[Stmt]:
    return (stmt for stmt in statements(root) if isinstance(stmt, Let))


@given(nests())
def test_without_rules_nothing_changes_and_each_statement_is_seen_once(nest: Stmt) -> None:
    assert list(leaves(rewritten(nest, Descent()))) == list(leaves(nest))
    assert [stmt for stmt, _ in walked(nest, Descent())] == list(statements(nest))


def test_a_synthesized_value_is_computed_from_those_inside_under_their_descents() -> None:
    f = parse_nest(NEST)

    def sequence(stmt: Seq, cursor: Cursor) -> Synthesis[Cursor, list[str]]:
        values: list[str] = []
        for inner, here in inside(stmt, cursor):
            values += yield inner, here
        return values

    def branch(stmt: If, cursor: Cursor) -> Synthesis[Cursor, list[str]]:
        assert stmt.orelse is not None
        then = yield stmt.then, cursor.then(stmt)
        return [*then, "else", *(yield stmt.orelse, cursor.otherwise(stmt))]

    def loop(stmt: For, cursor: Cursor) -> Synthesis[Cursor, list[str]]:
        return [stmt.var.name, *(yield stmt.body, cursor.inside(stmt))]

    def simple(stmt: Stmt, cursor: Cursor) -> list[str]:
        return [f"{type(stmt).__name__}{cursor.path}"]

    rules: dict[type[Stmt], SynthesisRule[Cursor, list[str]]] = {
        Seq: sequence, If: branch, For: loop, Assert: simple, Let: simple, Store: simple
    }  # fmt: skip
    seen = synthesized(f.body, Cursor.root(f), rules)
    simple_ones = [c for c in cursors(f) if not isinstance(c.stmt, (For, If))]
    assert seen[0] == "i" and "else" in seen
    assert [one for one in seen if "(" in one] == [f"{type(c.stmt).__name__}{c.path}" for c in simple_ones]


@dataclass(frozen=True)
class CallOfAnotherKind(ExternCall):
    term: str


ARRAY = np.arange(4, dtype="int32")


def ran(body: str, head: str = "A: int32[4], B: int32[4]", **options: Any) -> dict[str, list[Any]]:
    f = parse_nest(f"def f({head}):\n" + "\n".join(f"    {line}" for line in body.split("\n")))
    given = {"A": ARRAY, **options.pop("given", {})}
    results = run(f, given, undef=lambda dtype: 7, **options)
    return {name: array.tolist() for name, array in results.items()}


ERRORS = {
    "an output that holds nothing": ("B[0] = B[1]", AccessError, r"B\[1\] is read before it is written"),
    "storage": ("allocate T: int32[2]\nT[0] = 1\nB[0] = T[1]", AccessError, r"T\[1\] is read before"),
    "storage of each iteration": (
        "for i in [0, 2):\n    allocate T: int32[1]\n    if i < 1:\n        T[0] = 1\n    B[i] = T[0]",
        AccessError,
        r"T\[0\] is read before",
    ),
    "a condition": ("B[0] = undef()\nif B[0] < 3:\n    B[1] = 1", CheckError, "a condition depends on an undef"),
    "a choice": ("B[0] = undef()\nB[1] = select(B[0] < 3, 1, 2)", CheckError, "a condition depends"),
    "an assumption": ("B[0] = undef() * 0\nassume B[0] == 0", CheckError, "a condition depends"),
    "an index": ("B[0] = undef()\nB[A[0] + B[0]] = 1", CheckError, "an index, or the end of a range"),
    "an index that is read": ("B[0] = undef()\nB[1] = A[B[0]]", CheckError, "an index, or the end of a range"),
    "a range": ("B[0] = undef()\nfor i in [0, B[0]):\n    B[1] = 1", CheckError, "an index, or the end of a range"),
    "a false assumption": ("B[0] = 1\nassume A[1] == 0", CheckError, r"an assumption does not hold: A\[1\] == 0"),
    "an access outside": ("B[4] = 1", AccessError, "written outside"),
    "an access outside what is tracked": ("B[0] = 1\nB[1] = B[0 - 1]", AccessError, r"B\[-1\] is read outside"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_of_the_program(what: str) -> None:
    body, error, message = ERRORS[what]
    with pytest.raises(error, match=message):
        ran(body)


UNKNOWN = {  # a body over A and B, and B's expected values; undef() is 7
    "B[0] = undef()\nB[1] = B[0] - B[0]\nB[2] = B[1] + undef() * 0": [7, 0, 0, -2147483625],
    "B[0] = undef()\nB[1] = select(A[0] == 0, A[1], B[0])\nif B[1] < 3:\n    B[2] = 5": [7, 1, 5],  # the branch taken
    "B[0] = undef()\nB[0] = 3\nif B[0] == 3:\n    B[1] = 1": [3, 1],
}


@pytest.mark.parametrize("body", UNKNOWN)
def test_what_is_made_of_undef_is_readable_and_unknown(body: str) -> None:
    assert ran(body)["B"][: len(UNKNOWN[body])] == UNKNOWN[body]


def test_truth_values_are_unknown_and_an_assumption_of_undef_lets_read() -> None:
    head = "A: int32[4], C: bool[3]"
    assert ran("C[0] = undef() < 9\nC[1] = not C[0] or A[0] == 1\nC[2] = C[0] and A[0] == 0", head)["C"] == [
        True,
        False,
        True,
    ]
    with pytest.raises(CheckError, match="a condition depends"):
        ran("C[0] = undef() < 9\nC[1] = A[0] == 0 and C[0]\nif C[1]:\n    C[2] = C[1]", head)
    body = "allocate T: int32[4]\nfor i in [0, 4):\n    assume i < 2 or T[i] == undef()\nB[0] = T[3] * 0"
    assert ran(body)["B"][0] in (0, -0)
    with pytest.raises(AccessError, match=r"T\[1\] is read before"):
        ran(body.replace("T[3]", "T[1]"))
    with pytest.raises(InputError, match="extent 0 of the array for B is 5, not 4"):
        ran("B[0] = 1", "A: int32[n], B: int32[n], n", given={"B": np.zeros(5, "int32")})
