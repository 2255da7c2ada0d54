"""`parse`: Python's expression syntax to expressions, with an operator-precedence parser on explicit stacks."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, overload

from intset.errors import InputError, ParseError
from intset.expr import build, ops
from intset.expr.build import Opaque
from intset.expr.node import Cond, Expr, IntLike, Node, as_expr, const, divide, make, truth
from intset.expr.printer import INFIX, KEYWORDS, Precedence, name_of, name_text, number_of, shown

Name: TypeAlias = "Expr | Cond | Opaque"
Known: TypeAlias = "IntLike | Cond | Opaque"
Parsed = TypeVar("Parsed", Expr, Cond)


@overload
def parse(text: str, env: Mapping[str, Known] | None = None) -> Expr | Cond: ...
@overload
def parse(text: str, env: Mapping[str, Known] | None = None, *, kind: type[Parsed]) -> Parsed: ...
def parse(text: str, env: Mapping[str, Known] | None = None, *, kind: type[Node] | None = None) -> Expr | Cond:
    """The expression (`Expr`) or condition (`Cond`) that a text in Python's expression syntax denotes.

    Understood are the operators `+ - * // % << >> & ^ | ~`, comparisons and chains of them, `and`, `or`, `not`,
    `x if c else y`, `name := x` within parentheses, `table[i, j]`, and the functions of `intset` (`min` and `max` too).
    Operators bind as in Python, so comparisons joined by `&` need parentheses. What is built is exactly what is
    written: `-3` is a constant, `-(3)` and `-x` are negations, `a + b + c` is `(a + b) + c`.

    Parameters
    ----------
    text: what to read.
    env: what the names in the text mean: a variable or other expression, an `Opaque` symbol, or an integer. A name may
        contain dots, as `i.outer` does.
    kind: `Expr` or `Cond`, what the text must denote and the type of the result; by default either.

    Raises
    ------
    ParseError: the text is no expression of this `kind`; the message shows the place, `position`
        is its offset.
    InputError: `text` or a key of `env` is no `str`, or a value of `env` has another type.

    >>> parse("x * 2 + 1", {"x": 20})
    20 * 2 + 1
    """
    if not isinstance(text, str):
        raise InputError(f"parse takes a text, not {shown(text)} of type {type(text).__name__}")
    if kind is not None and kind is not Expr and kind is not Cond:
        raise InputError(f"kind is Expr or Cond, not {shown(kind)}")
    reader = ExprParser(text, _names({} if env is None else env))
    node: Expr | Cond = reader.run()
    if kind is not None and not isinstance(node, kind):
        raise reader.error(f"the text must denote {'an expression' if kind is Expr else 'a condition'}", 0)
    return node


def _names(env: Mapping[str, Any]) -> dict[str, Name]:
    if not isinstance(env, Mapping):
        raise InputError(f"env maps names to expressions; it is not {shown(env)}")
    names: dict[str, Name] = {}
    for name, value in env.items():
        if not isinstance(name, str):
            raise InputError(f"a key of env is a name, not {shown(name)}")
        names[name] = value if isinstance(value, (Cond, Opaque)) else as_expr(value, f"env[{name!r}]")
    return names


_DECIMAL: Final = re.compile(r"[1-9](?:_?[0-9])*")


class Token(NamedTuple):
    kind: str  # the group of _TOKEN that matched; "keyword"; "end"
    text: str
    position: int


_TOKEN: Final = re.compile(
    r"""  \s*
        (?: (?P<float> [0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)? | \.[0-9]+ | [0-9][0-9_]*[eE][-+]?[0-9]+ )
          | (?P<number> [0-9][0-9A-Za-z_]* )
          | (?P<name> [^\W\d]\w*(?:\.\w+)* )
          | (?P<quoted> '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" )
          | (?P<refused> \*\* | && | \|\| )
          | (?P<symbol> // | << | >> | [<>=!:]= | [-+*/%&|^~<>()\[\],] )
          | (?P<foreign> \S )
          | (?P<end> \Z )
        )
    """,
    re.VERBOSE,
)
_REFUSED: Final = {
    "/": "'/' is not an integer operation: use // (floor), truncdiv (C) or ceildiv",
    "**": "'**' is not supported: write the product, as in x * x",
    "&&": "'&&' is not an operator: use & between conditions in parentheses, or 'and'",
    "||": "'||' is not an operator: use | between conditions in parentheses, or 'or'",
    "=": "'=' is not an operator: use == to compare",
    "!": "'!' is not an operator: use ~ or 'not'",
}


def tokens_of(text: str) -> list[Token]:
    """The words of a text, the last of kind `end`."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        word, position = match[kind], match.start(kind)
        tokens.append(Token("keyword" if word in KEYWORDS else kind, word, position))
        if kind == "end":
            break
    return tokens


def _cast(value: Expr, bits: Expr, signed: Cond | None = None) -> Expr:
    if signed is not None and signed.op is not ops.BOOL:
        raise InputError(f"the third argument of cast is True or False, not {shown(signed)}")
    return build.cast(value, int(bits), signed is None or signed.data)


class _Builtin(NamedTuple):
    build: Callable[..., Any]
    kinds: str  # of each argument, "i" integer or "c" condition; the last repeats
    least: int
    most: int | None


FUNCTIONS: Final = {
    "abs": _Builtin(abs, "i", 1, 1),
    "asserting": _Builtin(build.asserting, "ci", 2, 2),
    "bounded": _Builtin(build.bounded, "i", 1, 3),
    "cast": _Builtin(_cast, "iic", 2, 3),
    "ceildiv": _Builtin(build.ceildiv, "i", 2, 2),
    "floordiv": _Builtin(build.floordiv, "i", 2, 2),
    "floormod": _Builtin(build.floormod, "i", 2, 2),
    "logical_and": _Builtin(build.logical_and, "c", 0, None),
    "logical_not": _Builtin(build.logical_not, "c", 1, 1),
    "logical_or": _Builtin(build.logical_or, "c", 0, None),
    "max": _Builtin(build.maximum, "i", 1, None),
    "maximum": _Builtin(build.maximum, "i", 1, None),
    "min": _Builtin(build.minimum, "i", 1, None),
    "minimum": _Builtin(build.minimum, "i", 1, None),
    "nonneg": _Builtin(build.nonneg, "i", 1, 1),
    "select": _Builtin(build.select, "cii", 3, 3),
    "truncdiv": _Builtin(build.truncdiv, "i", 2, 2),
    "truncmod": _Builtin(build.truncmod, "i", 2, 2),
}

INTEGER: Final = {symbol: op for op, (symbol, _) in INFIX.items() if not op.boolean}
LOGICAL: Final = {"&": ops.AND, "|": ops.OR, "and": ops.AND, "or": ops.OR}
COMPARISONS: Final = {INFIX[op][0]: op for op in ops.COMPARISONS}
_LEVELS: Final = {**dict(INFIX.values()), "and": Precedence.AND, "or": Precedence.OR, "/": Precedence.PRODUCT}
_CLOSES: Final = {")": "(", "]": "["}


class ParsedOperand(NamedTuple):
    value: Any  # Expr or Cond
    position: int


class Pending:
    """An operator or open bracket on the stack."""

    __slots__ = ("first", "level", "opaque", "position", "subject", "symbols")

    def __init__(
        self,
        symbol: str,
        level: Precedence,
        position: int,
        subject: Token | None = None,
        first: int = 0,
        opaque: Opaque | None = None,
    ) -> None:
        self.symbols = [symbol]  # the symbol; of a comparison, all symbols of the chain
        self.level = level  # ANY for brackets
        self.position = position
        self.subject = subject  # the name that is called, indexed or bound
        self.first = first  # operands on the stack before the arguments
        self.opaque = opaque  # the symbol that is indexed


class ExprParser:
    """Shunting-yard: an operator waits on a stack until one that binds less tightly, or a bracket, completes it.

    Methods give tokens their meaning; a language with the same syntax overrides them.
    """

    refused: Mapping[str, str] = _REFUSED

    def __init__(self, text: str, names: dict[str, Any]) -> None:
        self.text = text
        self.names = names
        self.tokens = tokens_of(text)
        self.at = 0
        self.operands: list[ParsedOperand] = []
        self.pending: list[Pending] = []

    def run(self) -> Any:
        if self.tokens[0].kind == "end":
            raise ParseError("the text is empty: an expression is expected", 0)
        operand_next = True
        while not (self.tokens[self.at].kind == "end" and not operand_next):
            token = self.next()
            if token.kind in ("refused", "foreign") or token.text in self.refused:
                raise self.error(self.refused.get(token.text, f"unexpected {token.text!r}"), token.position)
            operand_next = self.operand(token) if operand_next else self.operator(token)
        self.reduce(Precedence.BIND)
        if self.pending:
            bracket = self.pending[-1]
            raise self.error(f"{bracket.symbols[0]!r} is never closed", bracket.position)
        return self.operands[0].value

    def next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def follows(self, symbol: str) -> bool:
        return self.tokens[self.at].text == symbol

    def operand(self, token: Token) -> bool:
        """Process a token in operand position; whether an operand is still expected."""
        kind, text, position = token
        if kind == "number":
            self.push(const(self.integer(token)), position)
            return False
        if kind == "float":
            self.push(self.fraction(token), position)
            return False
        if text == "-" and self.tokens[self.at].kind == "number":
            self.push(const(-self.integer(self.next())), position)
            return False
        if text in ("True", "False"):
            self.push(truth(text == "True"), position)
            return False
        if kind == "name":
            return self.named(token)
        if kind == "quoted":
            return self.quoted(token)
        if text in ("+", "-", "~", "not"):
            level = Precedence.NOT if text == "not" else Precedence.UNARY
            if self.pending and self.pending[-1].level > level:
                raise self.error("'not' needs parentheses here", position)
            self.pending.append(Pending(f"unary {text}", level, position))
            return True
        if text == "(":
            self.pending.append(Pending("(", Precedence.ANY, position))
            return True
        if text in _CLOSES and not any(waiting.level is Precedence.ANY for waiting in self.pending):
            raise self.error(f"{text!r} closes nothing", position)
        raise self.error(f"an operand is expected before {text!r}" if text else "an operand is expected", position)

    def named(self, token: Token) -> bool:
        _, name, position = token
        if self.follows(":="):
            if not self.pending or self.pending[-1].level is not Precedence.ANY:
                raise self.error("':=' belongs right after a parenthesis or a comma", self.next().position)
            self.next()
            self.pending.append(Pending(":=", Precedence.BIND, position, token))
            return True
        if self.follows("("):
            if not self.is_function(name):
                raise self.unknown("function", name, FUNCTIONS, position)
            return self.open(token, None)
        return self.meant(token)

    def quoted(self, token: Token) -> bool:
        """Process a quoted name."""
        try:
            name = name_of(token.text)
        except ValueError:
            raise self.error(f"{token.text} is no quoted name", token.position) from None
        if name_text(name) == name:  # quotes are for names that would read as something else
            raise self.error(f"unexpected {token.text[0]!r}", token.position)
        return self.meant(token._replace(text=name))

    def meant(self, token: Token) -> bool:
        """Process the value of a name; whether an operand is still expected."""
        _, name, position = token
        value = self.meaning(name)
        if value is None:
            raise self.unknown("name", name, self.names, position)
        if self.is_operand(value):
            self.push(value, position)
            return False
        if value.rank == 0:
            self.push(value(), position)
            return False
        if not self.follows("["):
            raise self.error(f"{name} takes {value.rank} indices in [ ]", position)
        return self.open(token, value)

    def is_function(self, name: str) -> bool:
        return name in FUNCTIONS

    def meaning(self, name: str) -> Any:
        """The value of a name, or `None`."""
        return self.names.get(name)

    def is_operand(self, value: Any) -> bool:
        """Whether `value` is an operand; otherwise it is a symbol that takes indices."""
        return isinstance(value, Node)

    def fraction(self, token: Token) -> Any:
        """The value of a decimal fraction."""
        raise self.error(f"{token.text} is not an integer", token.position)

    def open(self, token: Token, opaque: Opaque | None) -> bool:
        """Start the arguments of a call or the indices of an opaque term, both named by `token`."""
        bracket = self.next()
        opened = Pending(bracket.text, Precedence.ANY, bracket.position, token, len(self.operands), opaque)
        if bracket.text == "(" and self.follows(")"):
            self.next()
            self.call(token, [])
            return False
        self.pending.append(opened)
        return True

    def operator(self, token: Token) -> bool:
        """Process a token in operator position; whether an operand is expected next."""
        _, text, position = token
        if text in _CLOSES:
            self.close(token)
            return False
        if text == ",":
            self.reduce(Precedence.BIND)
            if not self.pending or self.pending[-1].subject is None:
                raise self.error("a comma belongs between arguments or indices only", position)
        elif text == "if":
            self.reduce(Precedence.OR)
            if self.pending and self.pending[-1].symbols[0] == "if":
                raise self.error("'else' is expected: write the inner 'if' in parentheses", position)
            self.pending.append(Pending("if", Precedence.CHOICE, position))
        elif text == "else":
            self.reduce(Precedence.OR)
            if not self.pending or self.pending[-1].symbols[0] != "if":
                raise self.error("'else' without 'if'", position)
            self.pending[-1].symbols[0] = "else"
        elif text in COMPARISONS:
            self.reduce(Precedence.BITOR)
            if self.pending and self.pending[-1].level is Precedence.COMPARE:
                self.pending[-1].symbols.append(text)
            else:
                self.pending.append(Pending(text, Precedence.COMPARE, position))
        elif text in _LEVELS:
            self.reduce(_LEVELS[text])
            self.pending.append(Pending(text, _LEVELS[text], position))
        elif text == "[":
            raise self.error("only an opaque symbol of the environment takes indices", position)
        else:
            raise self.error(f"an operator is expected before {text!r}", position)
        return True

    def close(self, token: Token) -> None:
        self.reduce(Precedence.BIND)
        if not self.pending:
            raise self.error(f"{token.text!r} closes nothing", token.position)
        bracket = self.pending.pop()
        if bracket.symbols[0] != _CLOSES[token.text]:
            raise self.error(f"{token.text!r} does not close {bracket.symbols[0]!r}", token.position)
        if bracket.subject is None:
            self.push(self.operands.pop().value, bracket.position)
            return
        args = self.operands[bracket.first :]
        del self.operands[bracket.first :]
        if bracket.opaque is None:
            self.call(bracket.subject, args)
        else:
            self.index(bracket.opaque, bracket.subject, args)

    def index(self, symbol: Opaque, subject: Token, args: list[ParsedOperand]) -> None:
        _, name, position = subject
        for arg in args:
            self.want(Expr, arg, f"an index of {name}")
        self.push(self.built(symbol, args, position), position)

    def call(self, subject: Token, args: list[ParsedOperand]) -> None:
        _, name, position = subject
        function = FUNCTIONS[name]
        if not function.least <= len(args) or (function.most is not None and len(args) > function.most):
            raise self.error(f"{name} takes {_arity(function)}, not {len(args)}", position)
        for k, arg in enumerate(args):
            kind = function.kinds[min(k, len(function.kinds) - 1)]
            self.want(Expr if kind == "i" else Cond, arg, f"argument {k + 1} of {name}")
        self.push(self.built(function.build, args, position), position)

    def reduce(self, level: Precedence) -> None:
        """Complete pending operators that bind at least as tightly as `level`."""
        while self.pending and self.pending[-1].level >= level:
            self.complete(self.pending.pop())

    def complete(self, operator: Pending) -> None:
        symbol, position = operator.symbols[0], operator.position
        if operator.level is Precedence.COMPARE:
            self.chain(operator)
        elif operator.subject is not None:
            self.names[operator.subject.text] = self.operands[-1].value
        elif symbol == "if":
            raise self.error("'if' without 'else'", position)
        elif symbol == "else":
            self.choice(*self.take(3))
        elif symbol.startswith("unary "):
            self.prefix(symbol.removeprefix("unary "), self.operands.pop(), position)
        else:
            left, right = self.take(2)
            self.binary(symbol, left, right, position)

    def choice(self, if_true: ParsedOperand, condition: ParsedOperand, if_false: ParsedOperand) -> None:
        """`if_true if condition else if_false`."""
        self.want(Cond, condition, "the condition of 'if'")
        self.want(Expr, if_true, "what stands before 'if'")
        self.want(Expr, if_false, "what stands after 'else'")
        self.push(build.select(condition.value, if_true.value, if_false.value), if_true.position)

    def prefix(self, symbol: str, operand: ParsedOperand, position: int) -> None:
        if symbol != "~":
            self.want(Cond if symbol == "not" else Expr, operand, f"the operand of {symbol!r}")
        value = operand.value
        self.push(-value if symbol == "-" else +value if symbol == "+" else ~value, position)

    def binary(self, symbol: str, a: ParsedOperand, b: ParsedOperand, position: int) -> None:
        integer = isinstance(a.value, Expr)
        if symbol in INTEGER and symbol in LOGICAL and integer is not isinstance(b.value, Expr):
            raise self.error(
                f"{symbol!r} joins two integers or two conditions, not one of each "
                "(it binds tighter than comparisons: write these in parentheses)",
                position,
            )
        likely, other = (INTEGER, LOGICAL) if integer else (LOGICAL, INTEGER)
        op = likely.get(symbol) or other[symbol]
        for operand in (a, b):
            self.want(Cond if op.boolean else Expr, operand, f"an operand of {symbol!r}")
        if op in ops.DIVISIONS:
            value = self.built(lambda x, y: divide(op, x, y), [a, b], position)
        else:
            value = make(op, (a.value, b.value))
        self.push(value, a.position)

    def chain(self, operator: Pending) -> None:
        operands = self.take(len(operator.symbols) + 1)
        for operand in operands:
            self.want(Expr, operand, f"an operand of {operator.symbols[0]!r}")
        links = zip(operator.symbols, operands, operands[1:], strict=False)
        conditions = [make(COMPARISONS[symbol], (a.value, b.value)) for symbol, a, b in links]
        self.push(build.logical_and(*conditions), operands[0].position)

    def take(self, number: int) -> list[ParsedOperand]:
        taken = self.operands[-number:]
        del self.operands[-number:]
        return taken

    def push(self, value: Any, position: int) -> None:
        self.operands.append(ParsedOperand(value, position))

    def built(self, function: Callable[..., Any], args: list[ParsedOperand], position: int) -> Any:
        try:
            return function(*(arg.value for arg in args))
        except InputError as error:
            raise self.error(str(error), position) from None

    def integer(self, token: Token) -> int:
        try:
            return int(token.text, 0)
        except ValueError:
            if _DECIMAL.fullmatch(token.text):
                return number_of(token.text.replace("_", ""))  # Python converts a limited number of digits only
            raise self.error(f"{token.text[:40]} is not an integer literal", token.position) from None

    def want(self, kind: type[Node], operand: ParsedOperand, what: str) -> None:
        if isinstance(operand.value, kind):
            return
        wanted, found = ("an integer", "the condition") if kind is Expr else ("a condition", "the integer")
        raise self.error(f"{what} must be {wanted}, not {found} {operand.value!r}", operand.position)

    def unknown(self, what: str, name: str, known: Iterable[str], position: int) -> ParseError:
        from difflib import get_close_matches

        names = list(known)
        close = get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        listed = ", ".join(names[:30]) + (", …" if len(names) > 30 else "") if names else "none"
        return self.error(f"unknown {what} {name!r} (known: {listed}){hint}", position)

    def error(self, message: str, position: int) -> ParseError:
        """The error, with the text around `position` and a caret below it."""
        start, end = max(position - 50, 0), position + 30
        before = ("…" if start else "") + self.text[start:position]
        after = self.text[position:end] + ("…" if end < len(self.text) else "")
        excerpt = re.sub(r"\s", " ", before + after)
        return ParseError(f"{message}\n    {excerpt}\n    {' ' * len(before)}^", position)


def _arity(function: _Builtin) -> str:
    least, most = function.least, function.most
    if most is None:
        return f"at least {least} argument{'s' * (least != 1)}"
    bounds = f"{least}" if least == most else f"{least} to {most}"
    return f"{bounds} argument{'s' * (most != 1)}"
