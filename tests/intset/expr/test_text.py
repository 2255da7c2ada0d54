"""`to_text` and `parse`: round trips to the same object, and parse errors."""

import ast
import re
import time
import warnings
from typing import Any

import pytest
from hypothesis import strategies as st

from intset.errors import ParseError
from intset.expr import build, ops, printer
from intset.expr.build import Opaque, select, sum_of
from intset.expr.node import ShapeVar, Var, const, truth
from intset.expr.parser import parse
from intset.expr.printer import to_text
from intset.testing.strategies import CONDITION_OPS, INTEGER_OPS, conditions, expressions
from tests.strategies.refusals import refused_with_words
from tests.sweeps import sampled

i, j, k = Var("i"), Var("j"), Var("i.outer")
n = ShapeVar("n")
T, u = Opaque("T", 2), Opaque("u")
ENV: dict[str, Any] = {"i": i, "j": j, "i.outer": k, "n": n, "T": T, "u": u}
LEAVES = [i, j, k, n, u(), T[i, j // 2]]


@sampled(40, 120, expressions(LEAVES, depth=4) | conditions(LEAVES, depth=4))
def test_a_printed_node_parses_to_itself(node: Any) -> None:
    assert parse(to_text(node), ENV) is node
    assert parse("(" + to_text(node).replace(" ", "\n") + ")", ENV) is node


def _cast(e: Any, bits: Any, signed: Any = None) -> Any:
    return build.cast(e, int(bits), signed is None or signed.data)


@sampled(40, 120, expressions([i, j, n, u()], depth=4) | conditions([i, j, n, u()], depth=4))
def test_pythons_own_parser_agrees(node: Any) -> None:
    # with every number and truth value a node, evaluating the text in Python builds the expression
    text = re.sub(r"-?\b\d+\b", r"const(\g<0>)", to_text(node))
    text = re.sub(r"True|False", r"truth(\g<0>)", text)
    names: dict[str, Any] = {name: getattr(build, name) for name in dir(build) if not name.startswith("_")}
    names |= {"i": i, "j": j, "n": n, "u": u(), "const": const, "truth": truth, "cast": _cast}
    assert eval(text, names) is node


def test_the_strategies_and_the_printer_know_every_operation() -> None:
    leaves = {ops.CONST, ops.VAR, ops.LOAD, ops.BOOL}
    assert {*INTEGER_OPS, *CONDITION_OPS, *leaves} == set(ops.OPS.values())


PRINTED = {
    "i * 4 + j": i * 4 + j,
    "i * (4 + j)": i * (4 + j),
    "i + j + n": (i + j) + n,
    "i + (j + n)": i + (j + n),
    "i - (j - n)": i - (j - n),
    "i // (j * n) % 3": i // (j * n) % 3,
    "i << 2 | j >> 1 ^ n & 7": (i << 2) | ((j >> 1) ^ (n & 7)),
    "(i | j) & n": (i | j) & n,
    "-3": const(-3),
    "-(3)": -const(3),
    "-(-3)": -const(-3),
    "--(3)": -(-const(3)),  # noqa: B002
    "~-3": ~const(-3),
    "-3 * i": -3 * i,
    "-(3 * i)": -(3 * i),
    "-i * j": -i * j,
    "i - -3": i - (-3),
    "-~i": -~i,
    "(i < 8) & (j > 0) | ~(i == j)": (i < 8) & (j > 0) | ~i.eq(j),
    "((i < 8) | (j > 0)) & (i != j)": ((i < 8) | (j > 0)) & i.ne(j),
    "i & 8 <= j | 1": (i & 8) <= (j | 1),
    "ceildiv(i, truncdiv(j, -2))": build.ceildiv(i, build.truncdiv(j, -2)),
    "truncmod(i + 1, 3)": build.truncmod(i + 1, 3),
    "minimum(minimum(i, j), maximum(n, 1))": build.minimum(i, j, build.maximum(n, 1)),
    "select(i < 3, abs(j), 0)": select(i < 3, abs(j), 0),
    "cast(i, 8) + cast(j, 16, False)": build.cast(i, 8) + build.cast(j, 16, False),
    "nonneg(i * j)": build.nonneg(i * j),
    "asserting(0 <= i, i)": build.asserting(const(0) <= i, i),
    "asserting(i >= 0, j)": build.asserting(i >= 0, j),
    "asserting(i >= 1, i)": build.asserting(i >= 1, i),
    "asserting((i >= 0) & (i <= 7), i)": build.bounded(i, 0, 7),
    "T[i, j + 1] + u": T[i, j + 1] + u(),
    "i.outer % 4": k % 4,
    "True": truth(True),
    "~False & True": ~truth(False) & truth(True),
}


@pytest.mark.parametrize("text", PRINTED)
def test_printed_form(text: str) -> None:
    assert to_text(PRINTED[text]) == str(PRINTED[text]) == repr(PRINTED[text]) == text
    assert parse(text, ENV) is PRINTED[text]


READ = {
    "+i": i,
    "- 3": const(-3),
    "0x1F + 1_000": const(31) + 1000,
    "min(1, i, 2)": build.minimum(1, i, 2),
    "max(i)": i,
    "i if i < 3 else j if j < 2 else 1": select(i < 3, i, select(j < 2, j, 1)),
    "i + 1 if not i < 3 or True else j": select(~(i < 3) | truth(True), i + 1, j),
    "i < 3 and j < 2 or i > 5": (i < 3) & (j < 2) | (i > 5),
    "i < 3 and (j < 2 or i > 5)": (i < 3) & ((j < 2) | (i > 5)),
    "not not i < 3": ~~(i < 3),
    "0 <= i < 8": (const(0) <= i) & (i < 8),
    "0 <= i < 8 == j": (const(0) <= i) & (i < 8) & const(8).eq(j),
    "i < 8 & j": i < (8 & j),
    "floordiv(i, 2) - floormod(i, 2)": i // 2 - i % 2,
    "logical_and(i < 1, i < 2, i < 3)": (i < 1) & (i < 2) & (i < 3),
    "logical_and()": truth(True),
    "logical_or(i < 1, logical_not(i < 2))": (i < 1) | ~(i < 2),
    "bounded(i, 0)": build.asserting(i >= 0, i),
    "bounded(i)": i,
    "(t := i + 1) * t": (i + 1) * (i + 1),
    "abs(t := i) + t": abs(i) + i,
    "(i := j) + i": j + j,
    "(c := i < 3) & c": (i < 3) & (i < 3),
    " ( ( i ) ) \n": i,
    "T [ i , j ]": T[i, j],
    "T[(T := i), T]": T[i, i],
    "min (i, j)": build.minimum(i, j),
}


@pytest.mark.parametrize("text", READ)
def test_read_form(text: str) -> None:
    assert parse(text, ENV) is READ[text]


ERRORS = {
    "": (0, "the text is empty"),
    " \n": (0, "the text is empty"),
    "i + ": (4, "an operand is expected"),
    "i + foo": (4, "unknown name 'foo' (known: i, j, i.outer, n, T, u)"),
    "i.outr": (0, "did you mean i.outer?"),
    "selct(i)": (0, "did you mean select?"),
    "i(3)": (0, "unknown function 'i'"),
    "(i": (0, "'(' is never closed"),
    "min(i, T[i, j)": (13, "')' does not close '['"),
    "T[i, j": (1, "'[' is never closed"),
    "i)": (1, "')' closes nothing"),
    ")": (0, "')' closes nothing"),
    "()": (1, "an operand is expected before ')'"),
    "[i]": (0, "an operand is expected before '['"),
    "i + 1.5": (4, "1.5 is not an integer"),
    "1e3": (0, "1e3 is not an integer"),
    ".5": (0, ".5 is not an integer"),
    "007": (0, "007 is not an integer literal"),
    "3j": (0, "3j is not an integer literal"),
    "i / 2": (2, "'/' is not an integer operation"),
    "i ** 2": (2, "'**' is not supported"),
    "i < 3 && j < 2": (6, "'&&' is not an operator"),
    "i = 3": (2, "use == to compare"),
    "!i": (0, "use ~ or 'not'"),
    "i @ j": (2, "unexpected '@'"),
    "'i'": (0, 'unexpected "\'"'),
    "i j": (2, "an operator is expected before 'j'"),
    "i in j": (2, "an operator is expected before 'in'"),
    "i is not j": (2, "an operator is expected before 'is'"),
    "1 + not i < 2": (4, "needs parentheses"),
    "i, j": (1, "a comma belongs between"),
    "(i, j)": (2, "a comma belongs between"),
    "min(i,)": (6, "an operand is expected before ')'"),
    "t := 3": (2, "':=' belongs right after"),
    "min(1 + t := 3)": (10, "':=' belongs right after"),
    "i if j < 2": (2, "'if' without 'else'"),
    "(i if j < 2) + 1": (3, "'if' without 'else'"),
    "i else 2": (2, "'else' without 'if'"),
    "i if i < 2 if j < 2 else 1 else 2": (11, "'else' is expected"),
    "i if j else 2": (5, "the condition of 'if' must be a condition, not the integer j"),
    "i < 1 if i < 2 else 2": (0, "what stands before 'if' must be an integer, not the condition i < 1"),
    "(i < 2) + 1": (0, "an operand of '+' must be an integer, not the condition i < 2"),
    "(i < 2) == (j < 2)": (0, "an operand of '==' must be an integer"),
    "i and j < 2": (0, "an operand of 'and' must be a condition, not the integer i"),
    "i < 2 or j": (9, "an operand of 'or' must be a condition, not the integer j"),
    "not i": (4, "the operand of 'not' must be a condition"),
    "-(i < 2)": (1, "the operand of '-' must be an integer"),
    "i & (j < 2)": (2, "'&' joins two integers or two conditions"),
    "(j < 2) | i": (8, "'|' joins two integers or two conditions"),
    "(i < 2) ^ (j < 2)": (0, "an operand of '^' must be an integer"),
    "select(i, 1, 2)": (7, "argument 1 of select must be a condition, not the integer i"),
    "abs(i < 2)": (4, "argument 1 of abs must be an integer"),
    "select(i < 1, 2)": (0, "select takes 3 arguments, not 2"),
    "nonneg()": (0, "nonneg takes 1 argument, not 0"),
    "cast(i)": (0, "cast takes 2 to 3 arguments, not 1"),
    "min ( )": (0, "min takes at least 1 argument, not 0"),
    "i // 0": (2, "division by the constant 0"),
    "1 + truncmod(i, 0)": (4, "division by the constant 0"),
    "cast(i, 0)": (0, "at least 1"),
    "cast(i, j)": (0, "not a constant"),
    "cast(i, 8, i == i)": (0, "True or False"),
    "T": (0, "T takes 2 indices"),
    "T[i]": (0, "T takes 2 indices, not 1"),
    "T[i, j < 2]": (5, "an index of T must be an integer"),
    "i[0]": (1, "only an opaque symbol"),
}


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text[:20])
def test_parse_errors(text: str) -> None:
    position, message = ERRORS[text]
    with pytest.raises(ParseError) as caught:
        parse(text, ENV)
    assert message in str(caught.value)
    assert caught.value.position == position


def test_an_error_shows_the_place_and_deep_nesting_parses() -> None:
    with pytest.raises(ParseError, match=re.escape("\n    i + foo * 2\n        ^")):
        parse("i +\nfoo * 2", ENV)
    with pytest.raises(ParseError) as caught:
        parse("i + " * 1000 + "foo" + " + i" * 1000, ENV)
    _, excerpt, caret = str(caught.value).split("\n")
    assert len(excerpt) < 100 and excerpt[caret.index("^") :].startswith("foo")
    assert parse("(" * 3_000 + "i" + ")" * 3_000, ENV) is i
    assert parse("i if i < 1 else " * 3_000 + "j", ENV).args[2].args[2].args[1] is i
    assert parse("abs(" * 3_000 + "-" * 3_000 + "i" + ")" * 3_000, ENV).op is ops.ABS
    assert parse(" < ".join("i" * 3_000), ENV).op is ops.AND
    with pytest.raises(ParseError, match="never closed"):
        parse("(" * 3_000 + "i", ENV)


REFUSED: list[tuple[str, Any]] = [
    *(("parse takes a text", lambda text=text: parse(text, ENV)) for text in (None, 3, b"i", i, ["i"])),
    *(
        ("env", lambda env=env: parse("1", env))
        for env in ({"i": 1.5}, {"i": True}, {"i": "j"}, {"i": None}, {3: i}, ["i"], "i")
    ),
]
test_parse_takes_a_text_and_an_env = refused_with_words(REFUSED)


WORDS = "i j T u 0 3 0x1 1.5 + - * // % & | ^ ~ << >> < <= == != ( ) [ ] , if else and or not True min abs select := t"


SOME = st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join) | st.text("ij()[]+-<&|~.0 ", max_size=12)


@sampled(80, 200, SOME)
def test_any_text_parses_as_python_does_or_raises_parse_error(text: str) -> None:
    try:
        node = parse(text, ENV)
    except ParseError as error:
        assert error.position is not None and 0 <= error.position <= len(text)  # noqa: PT017
        return
    assert parse(to_text(node), ENV) is node
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(text.strip(), mode="eval")


def test_long_sums_print_and_parse_in_linear_time() -> None:
    variables = [Var(f"x{c}") for c in range(8_000)]
    env: dict[str, Any] = {var.name: var for var in variables}
    start = time.process_time()
    left = sum_of(variables)
    text = to_text(left)
    assert text.startswith("x0 + x1 + x2 + ") and parse(text, env) is left
    right = variables[-1]
    for var in reversed(variables[:2_000]):
        right = var - right
    assert parse(to_text(right), env) is right
    assert time.process_time() - start < 20  # quadratic work would take hours


def test_shared_subexpressions_are_named_where_the_text_would_be_long() -> None:
    tower = i
    for _ in range(200):
        tower = tower * tower + tower
    text = to_text(tower)
    assert len(text) < 5_000 and text.startswith("(t1 := (t2 := ")
    assert parse(text, ENV) is tower
    assert str(i * i + i * i) == "i * i + i * i"
    t1, t2 = Var("t1"), Opaque("t2", 1)
    tower = t1 + t2[t1]
    for _ in range(40):
        tower = build.minimum(tower, tower * 2)
    text = to_text(tower)
    assert "(t3 := " in text and "t1 :=" not in text and "t2 :=" not in text
    assert parse(text, {"t1": t1, "t2": t2, "t3": i}) is tower
    tower = build.nonneg(i * j)
    for _ in range(2000):
        tower = build.nonneg(tower + i)
    text = to_text(tower)
    assert len(text) > 20_000 and ":=" not in text
    assert parse(text, ENV) is tower
    mixed = select(tower.args[0], tower, 0)  # here the claim is written as well
    assert to_text(mixed).count(":=") == 1
    assert parse(to_text(mixed), ENV) is mixed


def test_limit_abbreviates_without_walking_the_whole_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    e = i * 4 + j
    assert to_text(e, limit=9) == "i * 4 + j"
    assert to_text(e, limit=8) == "i * 4 +…"
    assert to_text(e, limit=0) == "…"
    tower, left, right = i, i, i
    for _ in range(5_000):
        tower, left, right = tower * tower + tower, left + j, j + right
    visited: list[Any] = []
    layout = printer.layout_of
    monkeypatch.setattr(printer, "layout_of", lambda node: visited.append(node) or layout(node))
    for node in (tower, left, right, -right, abs(left), select(left < 3, tower, right)):
        for limit in (0, 1, 10, 100, 1000):
            visited.clear()
            text = to_text(node, limit)
            assert len(text) <= max(limit, 1) and text.endswith("…")
            assert len(visited) <= 3 * limit + 3
    assert to_text(left, 40) == "… + j + j + j + j + j + j + j + j + j +…"
    assert repr(right).startswith("j + (j + (j + ")
    assert len(repr(right)) == 2000


@sampled(40, 100, expressions(LEAVES, depth=4), st.integers(0, 60))
def test_a_limited_text_is_the_text_or_a_beginning_of_it(e: Any, limit: int) -> None:
    text, short = to_text(e), to_text(e, limit)
    if short != text:
        assert len(text) > limit and short.endswith("…") and len(short) <= max(limit, 1)
        assert "…" in short[:-1] or text.startswith(short[:-1])
