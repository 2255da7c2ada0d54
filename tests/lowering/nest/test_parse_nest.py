"""Nests as text: what is printed is read back, and bad text is refused at its place."""

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te
from bound.errors import ScheduleError
from intset import InputError, ParseError
from lowering import lower, parse_nest, run, simplify, undef
from lowering.build.function import nest_of
from lowering.nest.ir import Function
from lowering.nest.printer import function_lines, statement_lines
from tests.bound.corpus import CASES
from tests.lowering.lowered import of_corpus
from tests.strategies.schedules import Program, programs
from tests.sweeps import RANDOMS, daily, sampled

RUN = tuple(name for name in CASES if not name.startswith("reject_"))
OPTIONS: tuple[dict[str, Any], ...] = (
    {"strength": True},
    {"compact": True},
    {"nests": "split"},
    {"nests": "guard", "compact": True, "strength": True},
)


def same(f: Function) -> Function:
    """Parse the text of a function and check that it prints alike."""
    text = str(f)
    read = parse_nest(text)
    assert str(read) == text
    assert "..." not in text and "…" not in text
    return read


@pytest.mark.parametrize("name", daily(RUN, 12))
def test_every_nest_of_the_corpus_survives(name: str) -> None:
    s, f = of_corpus(name)
    same(f)
    for options in OPTIONS:
        same(lower(s, **options))
    same(nest_of(infer_bound(s)))
    same(lower(s, bounds=infer_bound(s, compute="box")))


EVERYTHING = """
def g(A: float32[n, 4], B: int8[4], C: bool[4], D: float64[], X: float16[n * 2], n, m, alpha: float32):
  allocate T: float64[n + 1, 3] in shared at [n, 4]   # a comment
  allocate U: uint16[4 : + n]

  assert n > 3, "x, \\"y\\" # no comment"
  for i.o in [0, n) parallel:
    x = A[i.o, 0] * alpha + 1
    y = i.o * 3
    z = x < 3 and (i.o < 2 or not isnan(x))
    for j in [y, y + 4) on threadIdx.x with q = 0, then q + 1; r = 3, then q + r:
        if z:
            T[j, 0] = select(i.o < 2, undef() * 2, 3.5) - exp(0.5)
        else:
            pass
        B[j] = int8(x) + undef() - undef() + popcount(j) // 3
    host(A, B, 3, "abc", i.o)
    for k in [-3, -1) vectorized:
        if (k < 2) & ~(k == 1) | (k % 2 == 0):
            U[4] = min(k, 3, m) << 2
    assume A[0, 0] == undef()
    assume A[0, 0] == 0, "proved"  # it is not
    assume y == i.o * 3, "proved"
    allocate H: float32[5] holding H[n + y0 * 3, 4 - y0]
    C[0] = undef()
    C[1] = (A[0, 0] < inf) == (m < 3)
    D[] = D[] / 2 + float32.twice(A[0, 0], m) if m < 3 else -(1e-07) * float64(nan)
    B[1] = int32.count(m) + A.shape[0]
"""


def test_every_kind_of_statement_survives_on_its_line() -> None:
    f = parse_nest(EVERYTHING)
    assert [t.name for t in f.outputs] == ["A", "B", "C", "D"]
    assert same(f).name == "g"
    text = str(f)
    for part in (
        "A: float32[n, 4], B: int8[4], C: bool[4], D: float64[], X: float16[n * 2], n, m, alpha: float32",
        "allocate T: float64[n + 1, 3] in shared at [n, 4]",
        "allocate U: uint16[4 : + n]",
        "for j in [y, y + 4) on threadIdx.x with q = 0, then q + 1; r = 3, then q + r:",
        "allocate H: float32[5] holding H[n + y0 * 3, 4 - y0]",
        'host(A, B, 3, "abc", i.o)',
        "assume A[0, 0] == 0.0\n",
        'assume y == i.o * 3, "proved"\n',
        "float32.twice(A[0, 0], m)",
    ):
        assert part in text
    f = parse_nest(
        "def f(A: int32[4]):\n  for i in [0, 4):\n    if i < 2:\n      A[i] = 1\n    else:\n      pass\n  A[0] = 2"
    )
    lines = str(f).split("\n")
    found = statement_lines(f)
    assert found == {(0,): 2, (0, 0): 3, (0, 0, 0): 4, (0, 0, 1): 6, (1,): 7}
    assert [line.text for line in function_lines(f)] == lines


@pytest.mark.parametrize(
    "operand", ["exp(" * 2_000 + "A[i]" + ")" * 2_000, "1.0 + " * 4_000 + "A[i]", "-" * 2_001 + "i"]
)
def test_deep_operands_survive(operand: str) -> None:
    target = "B[i]" if operand.endswith("-i") else "A[i]"
    same(parse_nest(f"def f(A: float32[4], B: int32[4]):\n    for i in [0, 4):\n        {target} = {operand}"))


def test_names_that_are_taken_are_changed_and_long_texts_name_what_they_repeat() -> None:
    A = te.placeholder((4, 4), name="my array")
    B = te.compute((4, 4), lambda i, j: A[i, j] + 1, name="for")
    C = te.compute((4, 4), lambda i, j: B[i, j] + 1, name="my array")
    f = same(lower(te.create_schedule(C.op)))
    assert [t.name for t in f.params] == ["my_array", "my_array_1"]
    A = te.placeholder((4,), "float64", name="A")

    def formula(i: Any) -> Any:
        value: Any = A[i]
        for _ in range(40):
            value = value * value + value
        return value

    text = str(same(lower(te.create_schedule(te.compute((4,), formula, name="B").op))))
    assert ":=" in text and len(text) < 4000


def test_undef_is_drawn_at_each_execution_and_ranges_are_empty_by_numbers() -> None:
    f = parse_nest("def f(A: int32[4]):\n    for i in [0, 4):\n        A[i] = undef() - undef()\n")
    numbers = iter(range(100))
    assert run(f, {}, undef=lambda dtype: next(numbers) ** 2)["A"].tolist() == [-1, -5, -9, -13]
    assert run(f, {})["A"].tolist() == [0, 0, 0, 0]
    assert undef() is not undef() and repr(undef("float32")) == "undef()"
    for low, end in product(range(-3, 4), range(-4, 5)):
        text = "def f(A: int32[9]{}):\n    for i in [{}, {}):\n        A[i + 3] = A[i + 3] + i * 2 + 7"
        fixed = same(parse_nest(text.format("", low, end)))
        sized = parse_nest(text.format(", n", low, f"n + {end}"))
        wanted = run(sized, {"A": np.zeros(9, np.int32)}, {"n": 0})["A"]
        for f in (fixed, simplify(fixed)):
            assert (run(f, {"A": np.zeros(9, np.int32)})["A"] == wanted).all()


BAD = {  # text after the head, line, column
    "an unknown name": ("    B[q] = 0", 2, 7),
    "an unknown array": ("    Q[0] = 0", 2, 5),
    "an unknown array that is read": ("    B[0] = 1 + Q[0]", 2, 16),
    "a taken loop": ("    for i in [0, 2):\n        for i in [0, 2):\n            pass", 3, 13),
    "a taken size": ("    for n in [0, 2):\n        pass", 2, 9),
    "a taken array": ("    allocate A: int32[2]", 2, 14),
    "a taken value": ("    x = 1\n    x = 2", 3, 5),
    "too many indices": ("    B[0, 1] = 0", 2, 5),
    "too few indices": ("    B[0] = A[0]", 2, 12),
    "a float index": ("    B[F[0]] = 0", 2, 7),
    "a fraction as index": ("    B[0.5] = 0", 2, 7),
    "a condition as index": ("    B[n < 3] = 0", 2, 7),
    "undef in an index": ("    B[1 + undef()] = 0", 2, 11),
    "undef in an index that is read": ("    B[0] = A[0, undef()]", 2, 17),
    "undef in a range": ("    for i in [0, undef()):\n        pass", 2, 18),
    "undef in the start of a range": ("    for i in [undef() * 2, 4):\n        pass", 2, 15),
    "undef in a condition": ("    if n < undef():\n        pass", 2, 12),
    "undef in a choice": ("    B[0] = select(undef() < 3, 1, 2)", 2, 19),
    "undef in an inline choice": ("    B[0] = 1 if undef() < 3 else 2", 2, 17),
    "undef in an assertion": ('    assert undef() == 3, "x"', 2, 12),
    "undef in an extent": ("    allocate T: int32[undef()]", 2, 23),
    "a fraction in an array of integers": ("    B[0] = 0.5", 2, 12),
    "a float in an array of integers": ("    B[0] = F[0]", 2, 12),
    "a number as condition": ("    if n:\n        pass", 2, 8),
    "no block": ("    for i in [0, 4):\n    B[0] = 1", 3, 5),
    "no block at the end": ("    for i in [0, 4):", 2, 21),
    "an unexpected indentation": ("    B[0] = 1\n      B[1] = 1", 3, 7),
    "an indentation of no block": ("    if n < 1:\n        pass\n      pass", 4, 7),
    "else without if": ("    else:\n        pass", 2, 5),
    "no statement": ("    B", 2, 5),
    "no colon": ("    if n < 3\n        pass", 2, 13),
    "an empty operand": ("    B[0] = ", 2, 11),
    "an unclosed bracket": ("    B[0] = (1 + 2", 2, 12),
    "a number that is stored to": ("    n[0] = 3", 2, 5),
    "a whole array as value": ("    B[0] = A", 2, 12),
    "division by zero": ("    B[0] = n // 0", 2, 14),
    "a division of integers": ("    B[0] = n / 2", 2, 14),
    "an unknown function": ("    B[0] = foo(n)", 2, 12),
    "a word too many": ("    pass pass", 2, 10),
    "a mark that is none": ('    assume n > 3, "sure"', 2, 17),
    "a tab": ("\tB[0] = 1", 2, 1),
    "a negative extent": ("    allocate T: int32[2, -1]", 2, 26),
    "an axis that is none": ("    B[0] = A.shape[2]", 2, 12),
    "a second function": ("    pass\ndef g(A: int32[2]):\n    pass", 3, 1),
}
HEAD = "def f(A: int32[n, 4], B: int32[4], F: float32[4], n):\n"


HEADS = {
    "f(A: int32[4]):": 1, "def f(A: int32[4])": 19, "def (A: int32[4]):": 5, "def f(A: int32[4], A: int32[4]):": 20,
    "def f(A: int32[4], n, n):": 23, "def f(A: int33x[4]):": 10, "def f(A: int32[m]):": 16, "def f(k: int32):": 7,
    "def f(A: int32[0.5]):": 16, "def f(A: int32[2, -3]):": 19,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        *((HEAD + text, line, column) for text, line, column in BAD.values()),
        *((f"{head}\n    pass", 1, column) for head, column in HEADS.items()),
    ],
    ids=[*BAD, *HEADS],
)
def test_bad_text_is_refused_at_its_place(text: str, line: int, column: int) -> None:
    for lines in (0, 2):
        error, _ = refusal("\n" * lines + text)
        assert error is not None and (error.line, error.column) == (line + lines, column), str(error)
        assert "\n" not in str(error) and f"(line {line + lines}, column {column})" in str(error)


@pytest.mark.parametrize("text", ["", "  \n\n", "# nothing\n", 3, None, b"def f():\n    pass"])
def test_no_text_is_an_input_error(text: Any) -> None:
    with pytest.raises(InputError) as caught:
        parse_nest(text)
    assert not isinstance(caught.value, ParseError)


def refusal(text: str) -> tuple[ParseError | None, Function | None]:
    try:
        return None, parse_nest(text)
    except ParseError as error:
        return error, None


def spoiled(rng: random.Random, text: str) -> str:
    """The text with a few characters lost, doubled or moved."""
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(text))
        choice = rng.randrange(4)
        if choice == 0:
            text = text[:k] + text[k + 1 :]
        elif choice == 1:
            text = text[:k] + rng.choice('()[]:=,.+*i0n #\n"') + text[k:]
        elif choice == 2:
            j = rng.randrange(len(text))
            text = text[:k] + text[j : j + 5] + text[k:]
        else:
            text = text[:k] + text[k + rng.randint(1, 8) :]
    return text


@sampled(130, 8000, RANDOMS, shows={"read", "refused"})
def test_spoiled_text_is_read_or_refused(rng: random.Random) -> str:
    bad = spoiled(rng, EVERYTHING)
    error, f = refusal(bad)
    if f is not None:
        same(f)
        return "read"
    assert error is not None and error.line is not None and error.column is not None, bad
    lines = bad.split("\n")
    assert 1 <= error.line <= len(lines) and 1 <= error.column <= len(lines[error.line - 1]) + 1
    return "refused"


@sampled(4, 300, programs(also="others"))
def test_random_schedules_survive(program: Program) -> None:
    try:
        f = lower(program.schedule)
    except ScheduleError:  # a stage attached to a loop that contains only part of its readers
        return
    same(f)
    same(simplify(f))


@pytest.mark.parametrize("dtype", ["int99", "int65", "uint0", "int07", "integer", "float12", "float128", "bool8"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f(A: {}[4]):\n    A[0] = A[1]", 1),
        ("def f(A: int32[4], s: {}):\n    A[0] = 1", 1),
        ("def f(A: int32[4]):\n    allocate T: {}[2]\n    A[0] = 1", 2),
        ("def f(A: int32[4]):\n    A[1] = 2\n    A[0] = {}(A[1])", 3),
    ],
)
def test_an_unknown_type_is_refused_at_its_line(text: str, line: int, dtype: str) -> None:
    error, _ = refusal(text.format(dtype))
    assert error is not None and error.line == line
