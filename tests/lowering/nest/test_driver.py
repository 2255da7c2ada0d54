"""The driver applies rules in order, within scope, to every statement once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intset import Range, Var
from lowering import parse_nest
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
from lowering.nest.ir import Assert, For, If, Let, Seq, Stmt, Store, seq
from lowering.nest.walk import children, statements

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


def test_paths_lead_to_their_statements() -> None:
    f = parse_nest(NEST)
    seen = list(walked(f.body, Cursor.root(f)))
    assert [stmt for stmt, _ in seen] == list(statements(f.body)) and len(seen) == 12
    assert all(at(f.body, cursor.path) is stmt for stmt, cursor in seen)


def test_a_cursor_knows_loops_branches_and_what_was_said_before() -> None:
    f = parse_nest(NEST)
    stores = {str(stmt): cursor for stmt, cursor in walked(f.body, Cursor.root(f)) if not children(stmt)}
    inside, outside = stores["A[i, x] = 1"], stores["A[0, 0] = 4"]
    (i,) = [loop.var for loop in inside.loops]
    assert [holds for _, holds in inside.branches] == [True]
    assert inside.ctx.prove(i < 2) and inside.ctx.prove(i < 4)
    assert stores["A[i, 0] = 2"].ctx.prove((i >= 2) & (i < 4))
    assert stores["A[i, j] = 3"].ctx.prove(i < 4) and not stores["A[i, j] = 3"].ctx.prove(i < 2)
    assert outside.loops == () and outside.branches == ()


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


def test_what_a_rule_puts_in_place_of_a_statement_is_entered_too() -> None:
    """A loop of one iteration becomes its body; so does the loop inside, and the list of rules ends there."""
    i, j = Var("i"), Var("j")
    body = Let(Var("x"), i + j)
    nest = For(i, Range(0, 1), For(j, Range(0, 1), body))

    def unwrap(loop: For, _: Descent) -> Stmt:
        return Seq((loop.body,))

    def never(loop: For, _: Descent) -> Stmt:
        raise AssertionError("the statement is no loop any more")

    assert rewritten(nest, Descent(), enter={For: (unwrap, never)}) is body


def test_the_only_statement_left_of_a_sequence_is_left_once() -> None:
    """A rule that is applied twice would add 2; sequences inside sequences are flattened."""
    x, y = Var("x"), Var("y")
    body = Seq((Let(y, y + 0), If(x < 2, Let(y, x + 0)), Seq((Seq(()),))))

    def drop(stmt: Let, _: Descent) -> Stmt:
        return Seq() if stmt.value is y + 0 else stmt

    def count(branch: If, _: Descent) -> Stmt:
        return If(branch.cond.args[0] + 1 < 2, branch.then)

    left = rewritten(body, Descent(), leave={Let: (drop,), If: (count,)})
    assert isinstance(left, If) and left.cond is (x + 1 < 2)


def test_rules_of_every_kind_are_those_of_kinds_without_their_own() -> None:
    f = parse_nest(NEST)
    seen: list[type[Stmt]] = []

    def note(stmt: Stmt, _: Descent) -> Stmt:
        seen.append(type(stmt))
        return stmt

    rewritten(f.body, Descent(), enter={Stmt: (note,), If: ()})
    assert seen.count(For) == 2 and seen.count(Assert) == 1 and seen.count(If) == 0


def test_operands_are_changed_under_the_descent_of_their_statement() -> None:
    f = parse_nest(NEST)
    depth: dict[str, int] = {}

    def note(operand: object, cursor: Cursor) -> object:
        depth[str(operand)] = len(cursor.loops)
        return operand

    rewritten(f.body, Cursor.root(f), enter={Stmt: (each_operand(note),)})
    assert depth["n"] == 0 and depth["i < 2"] == 1 and depth["j"] == 2


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


def test_depth_is_no_limit() -> None:
    nest: Stmt = Let(Var("x"), Var("y"))
    for _ in range(5_000):
        nest = If(Var("k") < 2, nest)
    assert sum(1 for _ in walked(nest, Descent())) == 5_001
    assert sum(1 for _ in statements(rewritten(nest, Descent()))) == 5_001


@pytest.mark.parametrize("name", ["path", "loops", "branches"])
def test_a_step_leaves_the_cursor_as_it_was(name: str) -> None:
    f = parse_nest(NEST)
    root = Cursor.root(f)
    loop = next(stmt for stmt in statements(f.body) if isinstance(stmt, For))
    before = getattr(root, name)
    root.item(0).inside(loop)
    assert getattr(root, name) == before == ()
