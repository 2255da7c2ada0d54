"""What statements compute with, read from text: the words of `intset.parse`, with fractions, types and elements."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir import build
from bound.tir.value import CALL, CONVERT, DIV, Value, constant, integer, make
from intset.errors import InputError, ParseError
from intset.expr import Cond, Expr, ops
from intset.expr import build as ints
from intset.expr.node import divide
from intset.expr.node import make as make_node
from intset.expr.parser import FUNCTIONS as INTEGER_FUNCTIONS
from intset.expr.parser import ExprParser, ParsedOperand, Token
from intset.expr.printer import INFIX
from lowering.nest import ir

_NUMBERS: Final = {"inf": float("inf"), "nan": float("nan")}
_BINARY: Final[dict[str, ops.Op]] = {
    **{symbol: op for op, (symbol, _) in INFIX.items() if op in (*ops.DIVISIONS, *ops.COMPARISONS)},
    "+": ops.ADD,
    "-": ops.SUB,
    "*": ops.MUL,
    "/": DIV,
    **{op.name: op for op in (ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV, ops.TRUNCMOD, ops.MIN, ops.MAX)},
    "min": ops.MIN,
    "max": ops.MAX,
}
_LOGICAL: Final = {"and": ops.AND, "&": ops.AND, "or": ops.OR, "|": ops.OR}
_SHAPE: Final = ".shape"
_FLOATS: Final = {*build.FLOAT_FUNCTIONS, *build.ROUNDINGS}
_FLOAT_PAIRS: Final = {*build.FLOAT_PAIRS, "pow"}
_FUNCTIONS: Final = {"undef", "popcount", *INTEGER_FUNCTIONS, *_BINARY, *build.FUNCTIONS, *_FLOAT_PAIRS}


class OperandReader(ExprParser):
    """Reads one operand of a nest.

    Parameters
    ----------
    text: of the operand alone.
    names: what is in sight: variables, values, tensors.
    where: the error at an offset of the text.
    shapes: the symbols of shapes that were met so far.
    """

    refused: Mapping[str, str] = {word: why for word, why in ExprParser.refused.items() if word != "/"}

    def __init__(
        self,
        text: str,
        names: dict[str, Any],
        where: Callable[[str, int], ParseError],
        shapes: dict[Tensor, ir.ShapeOf],
    ) -> None:
        super().__init__(text, names)
        self.where = where
        self.shapes = shapes
        self.undefs: list[int] = []

    def error(self, message: str, position: int) -> ParseError:
        return self.where(message, position)

    def run(self) -> Any:
        if self.tokens[0].kind == "end":
            raise self.error("an operand is expected here", len(self.text))
        return super().run()

    # -- names and calls ----------------------------------------------------------------------------------------

    def is_function(self, name: str) -> bool:
        head, _, tail = name.partition(".")
        return name in _FUNCTIONS or _is_type(name) or (bool(tail) and _is_type(head))

    def meaning(self, name: str) -> Any:
        found = self.names.get(name)
        if found is None and name in _NUMBERS:
            return fraction(_NUMBERS[name])
        if found is None and name.endswith(_SHAPE):
            tensor = self.names.get(name.removesuffix(_SHAPE))
            if isinstance(tensor, Tensor):
                return self.shapes.setdefault(tensor, ir.ShapeOf(tensor))
        return found

    def is_operand(self, value: Any) -> bool:
        return isinstance(value, (Expr, Cond, Value, Untyped))

    def named(self, token: Token) -> bool:
        value = self.names.get(token.text)
        if isinstance(value, Tensor) and not self.follows("("):
            if not self.follows("["):
                raise self.error(f"{token.text} is an array: its elements are read with indices in [ ]", token.position)
            if self.tokens[self.at + 1].text == "]":
                self.at += 2
                self.index(value, token, [])
                return False
            return self.open(token, value)  # type: ignore[arg-type]  # what `index` takes
        return super().named(token)

    def fraction(self, token: Token) -> Any:
        return fraction(float(token.text.replace("_", "")))

    def index(self, symbol: Any, subject: Token, args: list[ParsedOperand]) -> None:
        _, name, position = subject
        for arg in args:
            self.want(Expr, arg, f"an index of {name}")
        self.without_undef(position, f"an index of {name}")
        if isinstance(symbol, ir.ShapeOf):
            axis = args[0].value if len(args) == 1 else None
            if axis is None or not axis.is_const or not 0 <= axis.data < symbol.tensor.ndim:
                raise self.error(f"{name} has the axes 0 to {symbol.tensor.ndim - 1}", position)
        if not isinstance(symbol, Tensor):
            self.push(self.built(symbol, args, position), position)
            return
        if len(args) != symbol.ndim:
            count = f"{symbol.ndim} {'index' if symbol.ndim == 1 else 'indices'}"
            raise self.error(f"{name} has {count}, not {len(args)}", position)
        self.push(element(symbol, tuple(arg.value for arg in args)), position)

    def without_undef(self, start: int, what: str) -> None:
        """Refuse an `undef()` that was read since this place."""
        for position in self.undefs:
            if position >= start:
                raise self.error(f"{what} is no place for undef()", position)

    def call(self, subject: Token, args: list[ParsedOperand]) -> None:
        _, name, position = subject
        of_one = _function_of_one(name)
        if name == "undef":
            self._count(name, 0, args, position)
            self.undefs.append(position)
            self.push(unknown(), position)
        elif name == "select":
            self._count(name, 3, args, position)
            self.choice(args[1], args[0], args[2])
        elif name in _BINARY and len(args) == 2:
            self.binary(name, args[0], args[1], position)
        elif name in ("logical_and", "logical_or") and args:
            self.push(args[0].value, args[0].position)
            for arg in args[1:]:
                self.binary(name.removeprefix("logical_"), self.operands.pop(), arg, position)
        elif name == "logical_not" and args:
            self._count(name, 1, args, position)
            self.prefix("not", args[0], position)
        elif of_one is not None and (args or name != "abs"):
            self._count(name, 1, args, position)
            if name == "popcount":
                self.want(Expr, args[0], "the argument of popcount")
            self.push(self.built(of_one, args, position), position)
        elif name in _FLOAT_PAIRS:
            self._count(name, 2, args, position)
            self.push(self._joined(lambda x, y: make(CALL, (x, y), x.dtype, name), args, position), position)
        elif "." in name:
            self.push(self.built(partial(_extern, *name.split(".", 1)), args, position), position)
        else:
            super().call(subject, [arg._replace(value=typed(arg.value)) for arg in args])

    def _count(self, name: str, count: int, args: list[ParsedOperand], position: int) -> None:
        if len(args) != count:
            raise self.error(f"{name} takes {count} argument{'s' * (count != 1)}, not {len(args)}", position)

    # -- operators ----------------------------------------------------------------------------------------------

    def choice(self, if_true: ParsedOperand, condition: ParsedOperand, if_false: ParsedOperand) -> None:
        first = min(if_true.position, condition.position)
        end = min(x.position for x in (if_true, if_false) if x.position > condition.position)
        for position in self.undefs:
            if condition.position <= position < end:
                raise self.error("the condition of a choice is no place for undef()", position)
        cond = self._truth(condition, "the condition of a choice")
        a, b = if_true.value, if_false.value
        if build.is_truth(a) or build.is_truth(b):
            a, b = (typed(x, "bool") if isinstance(x, Untyped) else x for x in (a, b))
            self.push(self.built(lambda: build.select(cond, a, b), [], first), first)
            return
        both = [if_true, if_false]
        self.push(self._joined(lambda x, y: _select(cond, x, y), both, first), first)

    def prefix(self, symbol: str, operand: ParsedOperand, position: int) -> None:
        value = operand.value
        if symbol == "not" or (symbol == "~" and not isinstance(value, Expr)):
            cond = self._truth(operand, f"the operand of {symbol!r}")
            self.push(build.negation(cond), position)
        elif symbol == "~":
            super().prefix(symbol, operand, position)
        elif build.is_truth(value):
            raise self.error(f"the operand of {symbol!r} must be a number, not a condition", operand.position)
        elif symbol == "-":
            is_literal = isinstance(value, Untyped) and value.make is None and value.data is not None
            self.push(fraction(-value.data) if is_literal else _unary(ops.NEG, value), position)
        else:
            self.push(value, position)

    def binary(self, symbol: str, a: ParsedOperand, b: ParsedOperand, position: int) -> None:
        if symbol in _LOGICAL and (build.is_truth(a.value) or build.is_truth(b.value) or symbol in ("and", "or")):
            pair = [self._truth(x, f"an operand of {symbol!r}") for x in (a, b)]
            op = _LOGICAL[symbol]
            if isinstance(pair[0], Cond) and isinstance(pair[1], Cond):
                self.push(make_node(op, tuple(pair)), a.position)
            else:
                self.push(make(op, tuple(pair), "bool"), a.position)
            return
        if symbol not in _BINARY:
            a, b = (x._replace(value=typed(x.value)) for x in (a, b))
            super().binary(symbol, a, b, position)
            return
        self.push(self._pair(symbol, a, b, position), a.position)

    def chain(self, operator: Any) -> None:
        taken = self.take(len(operator.symbols) + 1)
        links = zip(operator.symbols, taken, taken[1:], strict=False)
        conditions = [self._pair(symbol, a, b, operator.position) for symbol, a, b in links]
        total = conditions[0]
        for more in conditions[1:]:
            total = build.logical(ops.AND, total, more)
        self.push(total, taken[0].position)

    def _pair(self, symbol: str, a: ParsedOperand, b: ParsedOperand, position: int) -> Any:
        op = _BINARY[symbol]
        if op in (ops.EQ, ops.NE) and build.is_truth(a.value) and build.is_truth(b.value):
            return make(op, (a.value, b.value), "bool")
        for x in (a, b):
            if build.is_truth(x.value):
                raise self.error(f"an operand of {symbol!r} must be a number, not a condition", x.position)
        return self._joined(lambda x, y: _operation(op, x, y), [a, b], position, op in ops.COMPARISONS)

    def _joined(
        self, function: Callable[..., Any], args: list[ParsedOperand], position: int, settles: bool = False
    ) -> Any:
        """`function` of two numbers, which get the type they have in common."""

        def make_pair(x: Any, y: Any) -> Any:
            pair = _matched(x, y)
            if any(isinstance(p, Untyped) for p in pair):
                if not settles:
                    return operation(function, *pair)
                dtype = dtypes.DEFAULT if any(isinstance(p, Untyped) and p.has_fraction for p in pair) else None
                pair = _matched(*(typed(p, dtype) for p in pair))
            return function(*pair)

        return self.built(make_pair, args, position)

    def _truth(self, operand: ParsedOperand, what: str) -> Any:
        value = operand.value
        if isinstance(value, Untyped) and not value.has_fraction and value.make is None:
            return typed(value, "bool")
        if not build.is_truth(value):
            raise self.error(f"{what} must be a condition, not {_kind(value)}", operand.position)
        return value

    def want(self, kind: Any, operand: ParsedOperand, what: str) -> None:
        if kind is Expr and isinstance(operand.value, Untyped) and not operand.value.has_fraction:
            return
        if not isinstance(operand.value, kind):
            wanted = "an integer" if kind is Expr else "a condition"
            raise self.error(f"{what} must be {wanted}, not {_kind(operand.value)}", operand.position)


def _is_type(name: str) -> bool:
    try:
        return bool(dtypes.check(name))
    except InputError:
        return False


def _kind(value: Any) -> str:
    if build.is_truth(value):
        return "a condition"
    if isinstance(value, Expr):
        return "an integer"
    return f"a {value.dtype}" if isinstance(value, Value) else "a number with a fraction"


def _matched(x: Any, y: Any) -> tuple[Any, Any]:
    """Convert two numbers to their common type; untyped ones stay untyped if the other gives no type."""
    if isinstance(x, Untyped) and isinstance(y, Untyped):
        return x, y
    if isinstance(x, Untyped):
        b, a = _matched(y, x)
        return a, b
    if isinstance(y, Untyped):
        if isinstance(x, Value):
            return x, typed(y, x.dtype)
        if x.is_const or y.has_fraction:
            return x, y
        return x, typed(y, build.dtype_of(x))
    if isinstance(x, Expr) and isinstance(y, Expr) or getattr(x, "dtype", 0) == getattr(y, "dtype", 1):
        return x, y
    a, b = build.matched(x, y)
    return a, b


def _operation(op: ops.Op, x: Any, y: Any) -> Any:
    if isinstance(x, Expr) and isinstance(y, Expr):
        if op is DIV:
            raise InputError("'/' is no operation on integers: use // (floor), truncdiv (C), or cast one to a float")
        return divide(op, x, y) if op in ops.DIVISIONS else make_node(op, (x, y))
    return make(op, (x, y), "bool" if op in ops.COMPARISONS else x.dtype)


def _select(cond: Any, x: Any, y: Any) -> Any:
    if not isinstance(x, Expr) or not isinstance(y, Expr):
        return make(ops.SELECT, (cond, x, y), x.dtype)
    return ints.select(cond, x, y) if isinstance(cond, Cond) else build.select(cond, x, y)


def _unary(op: ops.Op, x: Any) -> Any:
    if isinstance(x, Untyped):
        return operation(lambda y: _unary(op, y), x)
    if isinstance(x, Expr):
        return -x if op is ops.NEG else abs(x)
    return make(op, (x,), x.dtype)


def _cast(dtype: str, x: Any) -> Any:
    x = typed(x, "float64" if isinstance(x, Untyped) and x.has_fraction else None)
    if dtype == "bool" or build.is_truth(x):
        return build.cast(dtype, x)
    if isinstance(x, Expr) and dtypes.is_int(dtype):
        return ints.cast(x, dtypes.bits(dtype), dtypes.signed(dtype))
    made = make(CONVERT, (x,), dtype)
    return integer(made) if dtypes.is_int(dtype) else made


def _function_of_one(name: str) -> Callable[[Any], Any] | None:
    """The function of one argument with a name that `intset.parse` lacks, or reads for integers alone."""
    if name == "abs":
        return partial(_unary, ops.ABS)
    if name == "popcount":
        return _popcount
    if name in _FLOATS or name in build.PREDICATES:
        return partial(_float_call, name)
    return partial(_cast, name) if _is_type(name) else None


def _popcount(x: Any) -> Any:
    x = typed(x)
    return integer(make(CALL, (x,), build.dtype_of(x), "popcount"))


def _float_call(name: str, x: Any) -> Any:
    if isinstance(x, Untyped):
        return operation(lambda y: _float_call(name, y), x, fractional=True)
    if isinstance(x, (Expr, Cond)):
        return build.FUNCTIONS[name](x)
    return make(CALL, (x,), "bool" if name in build.PREDICATES else x.dtype, name)


def _extern(dtype: str, name: str, *args: Any) -> Any:
    made = make(CALL, tuple(typed(x) for x in args), dtype, name)
    return integer(made) if dtypes.is_int(dtype) else made


UNDEF: Final = "undef"


class Untyped(NamedTuple):
    """An operation on values of unknown type.

    Attributes
    ----------
    make: builds the operation from typed arguments; `None` for a leaf.
    args: `Untyped` values and integers; integers take the other arguments' type.
    data: the number of a leaf; `None` for `undef()`.
    has_fraction: whether it cannot be an integer.
    """

    make: Callable[..., Any] | None
    args: tuple[Any, ...]
    data: float | None
    has_fraction: bool


def fraction(number: float) -> Untyped:
    return Untyped(None, (), number, True)


def unknown() -> Untyped:
    return Untyped(None, (), None, False)


def operation(make: Callable[..., Any], *args: Any, fractional: bool = False) -> Untyped:
    """An operation with at least one untyped argument."""
    return Untyped(make, args, None, fractional or any(isinstance(a, Untyped) and a.has_fraction for a in args))


def typed(root: Any, dtype: str | None = None) -> Any:
    """Convert to a type; by default `float32` for fractions, else an integer.

    Raises
    ------
    InputError: a fraction would become an integer.
    """
    if not isinstance(root, Untyped):
        return root
    wanted = (dtypes.DEFAULT if root.has_fraction else dtypes.INDEX) if dtype is None else dtype
    if root.has_fraction and not dtypes.is_float(wanted):
        raise InputError(f"a number with a fraction is no {wanted}")
    done: dict[int, Any] = {}
    stack: list[Untyped] = [root]
    while stack:
        node = stack[-1]
        waiting = [a for a in node.args if isinstance(a, Untyped) and id(a) not in done]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        args = [done[id(a)] if isinstance(a, Untyped) else _converted(a, wanted) for a in node.args]
        if node.make is not None:
            done[id(node)] = node.make(*args)
        else:
            done[id(node)] = ir.undef(wanted) if node.data is None else constant(node.data, wanted)
    return done[id(root)]


def _converted(arg: Any, dtype: str) -> Any:
    if isinstance(arg, Expr) and dtypes.is_float(dtype):
        return build.cast(dtype, arg)
    return arg
