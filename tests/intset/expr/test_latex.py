"""Formulas: a reader with the usual precedence reconstructs the expression; they are short and balanced."""

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from intset import (
    Expr,
    Opaque,
    ShapeVar,
    Var,
    asserting,
    cast,
    ceildiv,
    const,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
)
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.convert import LATEX, LATEX_LENGTH, latex, latex_name
from intset.expr.node import truth
from intset.expr.ops import OPS
from tests.strategies.contexts import TABLE, Expressions, value

i, j = Var("i.outer"), Var("j_0")
n = ShapeVar("n12", 1, 64, 4)
KINDS = "sums multiples products quotients divisors choices bits shifts claims casts loads"
TOKEN = re.compile(
    r"\\left(?:\\lfloor|\\lceil|.)|\\right(?:\\rfloor|\\rceil|.)|\\dfrac|\\begin\{cases\}|\\end\{cases\}"
    r"|\\text\{[^}]*\}|\\\\|\\;\\mathrm\{\w+\}\\;|\\operatorname\{\w+\}"
    r"|(?:[A-Za-z]|\\mathrm\{(?:[^{}\\]|\\.)*\})(?:_\{(?:[^{}\\]|\\.|\\mathrm\{[^{}]*\})*\})?|\\[a-z]+|\d+|[-+<>=&{},]|\S"
)
COMPARED: Mapping[str, str] = {
    "<": "__lt__", r"\leq": "__le__", ">": "__gt__", r"\geq": "__ge__", "=": "eq", r"\neq": "ne",
}  # fmt: skip
LEVELS = {r"\vee": 1, r"\wedge": 2, **dict.fromkeys(COMPARED, 4), "+": 7, "-": 7, r"\cdot": 8}
LEVELS |= dict.fromkeys((r"\;\mathrm{bitand}\;", r"\;\mathrm{bitor}\;", r"\oplus", r"\ll", r"\gg"), 5)
LEVELS[r"\;\mathrm{mod}\;"] = 6
CALLS: Mapping[str, Any] = {rf"\operatorname{{{f.__name__}}}": f for f in (truncdiv, truncmod, asserting)}
CALLS |= {r"\min": minimum, r"\max": maximum}


class Reader:
    """Reads a formula as mathematicians do: `mod` binds more loosely than a sum, a sign less tightly than a product."""

    def __init__(self, text: str, variables: Mapping[str, Expr]) -> None:
        self.tokens, self.at, self.variables = TOKEN.findall(text), 0, variables

    def next(self, wanted: str = "") -> str:
        token = self.tokens[self.at]
        assert wanted in ("", token), (wanted, token, self.tokens)
        self.at += 1
        return str(token)

    def skip(self, *wanted: str) -> None:
        for token in wanted:
            self.next(token)

    def sees(self, token: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] == token

    def whole(self) -> Any:
        answer = self.read(0)
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return answer

    def read(self, level: int) -> Any:
        left = self.first()
        while self.at < len(self.tokens) and LEVELS.get(self.tokens[self.at], -1) > level:
            operation = self.next()
            left = self.joined(operation, left, self.read(LEVELS[operation]))
        return left

    def joined(self, operation: str, a: Any, b: Any) -> Any:
        if operation in COMPARED:
            return getattr(a, COMPARED[operation])(b)
        return {
            r"\vee": lambda: logical_or(a, b), r"\wedge": lambda: logical_and(a, b), "+": lambda: a + b,
            "-": lambda: a - b, r"\cdot": lambda: a * b, r"\;\mathrm{mod}\;": lambda: a % b,
            r"\;\mathrm{bitand}\;": lambda: a & b, r"\;\mathrm{bitor}\;": lambda: a | b, r"\oplus": lambda: a ^ b,
            r"\ll": lambda: a << b, r"\gg": lambda: a >> b,
        }[operation]()  # fmt: skip

    def first(self) -> Any:
        token = self.next()
        if token == "-":
            return -self.read(7)
        if token == r"\neg":
            return logical_not(self.read(3))
        if token == r"\sim":
            return ~self.read(8)
        if token == r"\left(":
            return self.closed(r"\right)")
        if token == r"\left|":
            return abs(self.closed(r"\right|"))
        if token in (r"\left\lfloor", r"\left\lceil"):
            self.skip(r"\dfrac", "{")
            a = self.closed("}")
            self.next("{")
            b = self.closed("}")
            self.next(r"\right\rfloor" if "floor" in token else r"\right\rceil")
            return a // b if "floor" in token else ceildiv(a, b)
        if token == r"\begin{cases}":
            a = self.read(0)
            self.skip("&", r"\text{if }")
            c = self.closed(r"\\")
            b = self.read(0)
            self.skip("&", r"\text{otherwise}", r"\end{cases}")
            return select(c, a, b)
        return self.named(token)

    def named(self, token: str) -> Any:
        if token in CALLS or token.startswith(r"\operatorname{"):
            self.next(r"\left(")
            operands = [self.read(0)]
            while self.sees(","):
                self.next()
                operands.append(self.read(0))
            self.next(r"\right)")
            if token in CALLS:
                return CALLS[token](*operands)
            width = re.fullmatch(r"\\operatorname\{(u?)int(\d+)\}", token)
            assert width is not None
            return cast(operands[0], int(width[2]), not width[1])
        if token == latex_name(TABLE.name):
            self.next(r"\left[")
            return TABLE[self.closed(r"\right]")]
        if token in (r"\mathrm{true}", r"\mathrm{false}"):
            return truth("true" in token)
        return const(int(token)) if token.isdigit() else self.variables[token]

    def closed(self, end: str) -> Any:
        inside = self.read(0)
        self.next(end)
        return inside


@pytest.mark.parametrize("seed", range(150))
def test_a_reader_takes_a_formula_for_the_expression(seed: int) -> None:
    rng = random.Random(seed)
    drawn = Expressions(rng, (i, j, n), KINDS, sizes=(n,), shared=20)
    asked = 0
    for root in (drawn.integer(3), drawn.integer(4), drawn.condition(3)):
        if r"\cdots" in latex(root):
            continue
        read = Reader(latex(root), {latex_name(v.name): v for v in (i, j, n)}).whole()
        for _ in range(12):
            at: dict[Any, Any] = {i: rng.randrange(-9, 9), j: rng.randrange(-9, 9), n: rng.randrange(4, 64, 4)}
            at[TABLE] = lambda index: index * 3 % 7
            assert value(read, at) == value(root, at), (str(root), latex(root))
            asked += 1
    assert asked


def balanced(text: str) -> bool:
    """Whether braces, and `\\left` with `\\right`, match."""
    depth = sides = 0
    for token in re.findall(r"\\left|\\right|\\[^a-z]|\\[a-z]+|[{}]", text):
        depth += {"{": 1, "}": -1}.get(token, 0)
        sides += {r"\left": 1, r"\right": -1}.get(token, 0)
        if depth < 0 or sides < 0:
            return False
    return depth == sides == 0


STRANGE = [
    "a b", "$x$", "\\frac", "x'", "{", "}", "é", "i.j.k", ".a", "a.", "x12", "12", "a\x00b", "~^_#%&", "\udc80", '"',
    "x" * 900,
]  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_any_name_is_balanced(name: str) -> None:
    text = (Var(name) + 1)._repr_latex_()
    assert balanced(text) and len(text) < 300 and not re.search(r"(?<!\\)\$", text[1:-1]) and text.isprintable()
    assert balanced(latex(Opaque(name, 1)[i]))


def test_names_are_told_apart_and_a_large_expression_is_cut() -> None:
    names = ["i", "i.outer", "i_outer", "iouter", "i1", "i.1", "i.outer.inner", "I", "i ", "i\\"]
    assert len({latex_name(name) for name in names}) == len(names)
    assert set(LATEX) | {OPS["var"]} == set(OPS.values())
    for e in chains():
        text = e._repr_latex_()
        assert len(text) < LATEX_LENGTH + 300 and balanced(text) and "shortened" in text


def chains() -> Iterator[Expr]:
    deep: Expr = i
    wide: Expr = i
    for k in range(20_000):
        deep = deep + deep if k % 2 else deep * 3
        wide = wide + j * k
    yield from (deep, wide, const(1 << 100_000), i + (1 << 4000))


def test_mathtext_draws_formulas() -> None:
    mathtext = pytest.importorskip("matplotlib.mathtext")
    parser = mathtext.MathTextParser("path")
    rng = random.Random(3)
    drawn = Expressions(rng, (i, j, n), KINDS, sizes=(n,), shared=20)
    seen = 0
    for _ in range(20):
        text = (drawn.integer(3) if rng.random() < 0.7 else drawn.condition(2))._repr_latex_()
        if "cases" not in text:  # mathtext has no environments
            parser.parse(text)
            seen += 1
    assert seen > 5
