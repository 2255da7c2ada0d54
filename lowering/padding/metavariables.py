"""Metavariables, the padding values that a plan can choose, and the equations that determine them.

A padding state may be an expression over metavariables. Affine equations over one integer
type are solved exactly, modulo `2**bits`. Other equations are inverted operation by operation, and every candidate is
checked by evaluation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bound import dtypes
from bound.dtypes import Numeric
from bound.tir.reduce import Parameter
from bound.tir.value import CALL, CONVERT, DIV, Operand, Value, parameter
from bound.tir.walk import nodes, rewrite
from intset.config import memoized
from intset.expr import Expr, Var, as_expr, const, ops
from intset.expr.build import sum_of
from intset.expr.node import PlainVar
from intset.expr.ops import Op
from intset.linear.form import spine
from lowering.interpreter import as_element
from lowering.padding import states
from lowering.padding.states import PadValue, Place, Planned, State, folded

Uniform: TypeAlias = frozenset[Parameter]  # metavariables constrained to one value over the whole padding
SumForm: TypeAlias = tuple[dict[Var, int], Expr]  # coefficients of metavariables, and the rest


class Metavariables:
    """Padding values that the planner can choose.

    Attributes
    ----------
    dtypes: the element type of every metavariable so far.
    """

    def __init__(self) -> None:
        self.dtypes: dict[Parameter, str] = {}

    def new(self, dtype: str) -> Any:
        """Create a metavariable; one of an integer type is a `PlainVar`."""
        node = _parameter(f"u{len(self.dtypes)}", dtype)
        self.dtypes[node] = dtype
        return node

    def canonical(self, states: Sequence[Planned]) -> tuple[tuple[Planned, ...], list[Parameter]]:
        """The states with metavariables renamed by type and occurrence, and the old metavariables in this order."""
        free = self.within(*(state for state in states if not isinstance(state, State)))
        taken = Counter[str]()
        names: dict[Parameter, Operand] = {}
        for v in free:
            dtype = self.dtypes[v]
            names[v] = self._name(dtype, taken[dtype])
            taken[dtype] += 1
        return tuple(state if isinstance(state, State) else rewrite(state, names) for state in states), free

    @memoized
    def _name(self, dtype: str, k: int) -> Parameter:
        return _parameter(f"{dtype}.{k}", dtype)

    def within(self, *exprs: Operand) -> list[Parameter]:
        """List the metavariables of expressions, in order of first occurrence."""
        free = (node for node in nodes(*exprs) if isinstance(node, (Var, Value))) if exprs else ()
        return [node for node in free if node in self.dtypes]


def _parameter(name: str, dtype: str) -> Parameter:
    return PlainVar(name) if dtypes.is_int(dtype) else parameter(name, dtype)


class Solution(NamedTuple):
    """Values of the solved metavariables over free ones, and all metavariables now constrained to be uniform."""

    values: dict[Parameter, Operand]
    uniform: Uniform


class Substitution(NamedTuple):
    """Values of solved metavariables over those that later substitutions solve.

    Attributes
    ----------
    is_renaming: the values only rename metavariables, which requires no number.
    """

    values: Mapping[Parameter, Operand]
    is_renaming: bool


def final_values(substitutions: Sequence[Substitution], metavariables: Metavariables) -> dict[Parameter, Operand]:
    """Final value of every metavariable that successive substitutions solve; unconstrained ones inside become 0."""
    values: dict[Parameter, Operand] = {}
    for substitution in reversed(substitutions):
        for solved, expr in substitution.values.items():
            left = [other for other in metavariables.within(expr) if other not in values]
            if left and substitution.is_renaming:
                continue
            values.update((other, states.as_operand(0, metavariables.dtypes[other])) for other in left)
            known = rewrite(expr, values)
            short = folded(known, metavariables.dtypes[solved])
            values[solved] = short.expr if isinstance(short, PadValue) else known
    return values


def solutions(
    metavariables: Metavariables, expr: Operand, wanted: Operand, dtype: str, places: Sequence[Place], uniform: Uniform
) -> Iterator[Solution]:
    """Yield solutions for which `expr` equals `wanted` at all padding positions.

    Parameters
    ----------
    dtype: element type, in which both sides are compared.
    places: at least one.
    uniform: metavariables constrained to one value over the whole padding.
    """
    free = metavariables.within(expr)
    if not free:
        pairs = zip(states.numbers_at(expr, places, dtype), states.numbers_at(wanted, places, dtype), strict=True)
        is_same = expr is wanted and dtypes.is_int(dtype)
        if is_same or all(a is not None and b is not None and a == b for a, b in pairs):
            yield Solution({}, uniform)
        return
    if dtypes.is_int(dtype) and all(metavariables.dtypes[v] == dtype for v in free):
        form = _affine(metavariables, as_expr(expr), dtypes.bits(dtype))
        if form is not None:
            found = _modular(metavariables, form, wanted, dtype, places, uniform)
            if found is not None:
                yield found
            return
    numbers = set(states.numbers_at(wanted, places, dtype))
    number = numbers.pop() if len(numbers) == 1 else None
    if number is not None:
        yield from _sampled(metavariables, expr, number, dtype, uniform)


def normalized(
    metavariables: Metavariables, expr: Operand, dtype: str, uniform: Uniform, taken: Container[Parameter]
) -> tuple[Operand, Solution]:
    """Normalize an integer padding state to an affine sum, which keeps long chains of calls small.

    A single metavariable with an odd (invertible) coefficient, used in no other state (`taken`), makes the state
    arbitrary. A new metavariable then replaces the state, and the solution expresses the old one by the new one.
    """
    nothing = Solution({}, uniform)
    free = metavariables.within(expr)
    if not free or not dtypes.is_int(dtype) or any(metavariables.dtypes[v] != dtype for v in free):
        return expr, nothing
    form = _affine(metavariables, as_expr(expr), dtypes.bits(dtype))
    if form is None:
        return expr, nothing
    coefficients, rest = form
    modulus = 1 << dtypes.bits(dtype)
    found = folded(rest, dtype)
    rest = as_expr(found.expr) if isinstance(found, PadValue) else rest
    if len(coefficients) == 1:
        ((old, factor),) = coefficients.items()
        if factor % 2 and old not in taken and (old not in uniform or rest.is_const):
            if factor == 1 and rest.is_const and rest.data == 0:
                return old, nothing
            new = metavariables.new(dtype)
            value = (new - rest) * _near(pow(factor, -1, modulus), modulus)
            return new, Solution({old: value}, uniform | {new} if old in uniform else uniform)
    terms = [v if c == 1 else v * _near(c, modulus) for v, c in coefficients.items()]
    return sum_of(terms if terms and rest.is_const and rest.data == 0 else [*terms, rest]), nothing


# -- integers of one type -----------------------------------------------------------------------------------------


def _affine(metavariables: Metavariables, root: Expr, bits: int) -> SumForm | None:
    """Split an integer, modulo `2**bits`, into coefficients of metavariables and a remainder; `None` if not affine."""
    offset, terms = spine(states.without_registers(root, bits))
    free = {v: c for v, c in terms.items() if isinstance(v, Var) and v in metavariables.dtypes}
    others = {term: c for term, c in terms.items() if term not in free}
    if metavariables.within(*others):
        return None
    reduced = {v: c % (1 << bits) for v, c in free.items() if c % (1 << bits)}
    return reduced, sum_of([*(term * c for term, c in others.items()), offset])


def _modular(
    metavariables: Metavariables, form: SumForm, wanted: Operand, dtype: str, places: Sequence[Place], uniform: Uniform
) -> Solution | None:
    """Solve an affine equation modulo `2**bits`, or return `None`.

    The pivot's coefficient has the least power of 2, so the other metavariables stay free.
    """
    bits = dtypes.bits(dtype)
    coefficients, rest = form
    missing = as_expr(wanted) - rest
    numbers = states.numbers_at(missing, places, "int64")
    if any(n is None for n in numbers):
        return None
    if not coefficients:
        return Solution({}, uniform) if all(int(n or 0) % (1 << bits) == 0 for n in numbers) else None
    power = min(_twos(c) for c in coefficients.values())
    step = 1 << (bits - power)
    if any(int(n or 0) % (1 << power) for n in numbers):
        return None
    able = [v for v, c in coefficients.items() if _twos(c) == power]
    solved = next((v for v in able if v not in uniform), able[0])
    inverse = pow(coefficients[solved] >> power, -1, step)
    constant = len(set(numbers)) == 1
    if constant:
        value: Expr = const(_near(inverse * (int(numbers[0] or 0) >> power), step))
    elif solved in uniform:
        return None  # a uniform unknown cannot vary by position
    else:
        value = missing // (1 << power) * inverse if power else missing * _near(inverse, step)
    others = [v for v in coefficients if v is not solved]
    for v in others:
        value = value + v * _near(-inverse * (coefficients[v] >> power), step)
    now = set(uniform)
    if solved in uniform:
        now.update(others)
    if power:
        more = metavariables.new(dtype)
        value = value + more * step
        if solved in uniform:
            now.add(more)
    found = folded(value, dtype)
    return Solution({solved: found.expr if isinstance(found, PadValue) else value}, frozenset(now))


def _twos(number: int) -> int:
    return (number & -number).bit_length() - 1


def _near(number: int, modulus: int) -> int:
    """Return the representative modulo `modulus` nearest to 0."""
    found = number % modulus
    return found - modulus if found > modulus // 2 else found


# -- anything else ------------------------------------------------------------------------------------------------


def _sampled(
    metavariables: Metavariables, expr: Operand, wanted: Numeric, dtype: str, uniform: Uniform
) -> Iterator[Solution]:
    """Try a few values of every unknown but the last, and solve for the last."""
    free = metavariables.within(expr)
    last, others = free[-1], free[:-1]
    waiting: list[tuple[dict[Parameter, Operand], Operand]] = [({}, expr)]
    for v in others:
        kind = metavariables.dtypes[v]
        tried = [as_element(n, kind) for n in (0, 1, wanted)] + [dtypes.least(kind)]
        values = [states.as_operand(n, kind) for n in dict.fromkeys(tried)]
        waiting = [({**known, v: n}, rewrite(e, {v: n})) for known, e in waiting for n in values]
    for known, e in waiting[:64]:
        kind = metavariables.dtypes[last]
        for number in candidates(e, last, wanted, kind, dtype):
            values_ = {**known, last: states.as_operand(number, kind)}
            yield Solution(values_, uniform)


MAX_TRIED: Final = 512  # candidates
MAX_FOUND: Final = 16  # solutions
_SMALL: Final = (0, 1, -1, 2, -2)
Tried: TypeAlias = "Numeric | tuple[Numeric, ...]"


def candidates(expr: Operand, unknown: Operand, wanted: Numeric, dtype: str, result: str) -> Iterator[Numeric]:
    """Yield values of `unknown` for which `expr`, stored as type `result`, equals `wanted`.

    Guarantee: every yielded number solves the equation. For integers of at most 8 bits the search is exhaustive, up to
    `MAX_FOUND` solutions nearest to 0. Other types try inverted operations and common constants.

    Parameters
    ----------
    dtype: type of the unknown.
    """
    tried: list[Numeric] = []
    if dtype == "bool":
        tried = [False, True]
    elif dtypes.is_int(dtype) and dtypes.bits(dtype) <= 8:
        low, high = dtypes.int_range(dtype)
        tried = sorted(range(low, high + 1), key=lambda n: (abs(n), n < 0))
    else:
        some = (_kept(n, dtype) for n in (*_inverted(expr, unknown, wanted), *_common(expr, wanted, dtype)))
        for number in some:
            if number is not None:  # prefer 0.0 to -0.0
                tried += [0.0, -0.0] if number == 0 and isinstance(number, float) else [number]
    found = 0
    for number in list({repr(n): n for n in tried}.values())[:MAX_TRIED]:
        value = states.number_of(expr, {unknown: number}, result)
        if value is not None and value == as_element(wanted, result):
            yield number
            found += 1
            if found == MAX_FOUND:
                return


def _kept(number: Any, dtype: str) -> Numeric | None:
    """Convert a number to the type; return `None` if the type cannot represent it."""
    if isinstance(number, complex) or number != number:
        return None
    if dtypes.is_float(dtype):
        return dtypes.rounded(float(number), dtype)
    if math.isinf(number):
        return None
    low, high = dtypes.int_range(dtype)
    return int(number) if low <= number <= high and number == int(number) else None


def _common(expr: Operand, wanted: Numeric, dtype: str) -> Iterator[Numeric]:
    yield wanted
    yield from _SMALL
    yield from (dtypes.least(dtype), dtypes.greatest(dtype))
    for node in nodes(expr):
        number = states.as_number(node)
        if number is not None and not isinstance(number, bool):
            yield from (number, -number, number + 1, number - 1)


def _inverted(root: Operand, unknown: Operand, wanted: Numeric) -> Iterator[Numeric]:
    """Yield candidates by inverting operations from the root down to the unknown."""
    below: set[Operand] = {unknown}
    for node in nodes(root):
        if any(arg in below for arg in node.args):
            below.add(node)
    stack: list[tuple[Operand, Numeric]] = [(root, wanted)]
    for _ in range(MAX_TRIED):
        if not stack:
            return
        node, value = stack.pop()
        if node is unknown:
            yield value
            continue
        ways = [(arg, x) for arg, x in _below(node, value, below) if not isinstance(x, complex) and x == x]
        stack += reversed(ways)


def _below(node: Operand, value: Numeric, below: set[Operand]) -> Iterator[tuple[Operand, Numeric]]:
    """Invert one operation: yield each argument that contains the unknown, with its required value."""
    args = node.args
    mine = [k for k, arg in enumerate(args) if arg in below]
    op, is_value = node.op, isinstance(node, Value)
    one = _CALLS.get(node.data) if op is CALL else _ONE.get(op)
    two = _TWO_FLOATS if is_value else _TWO
    if op is ops.SELECT:
        yield from ((args[k], value) for k in (1, 2) if k in mine)
    elif op in (ops.CAST, CONVERT, ops.ASSERTING):
        yield args[-1], value
    elif len(mine) == 1 and one is not None and len(args) == 1:
        yield from ((args[0], x) for x in _tried(one, value))
    elif len(mine) == 1 and op in two and len(args) == 2:
        other = states.number_of(args[1 - mine[0]], {}, "float64" if is_value else "int64")
        if other is not None:
            yield from ((args[mine[0]], x) for x in _tried(lambda v: two[op](v, other, mine[0]), value))


def _tried(function: Callable[[Any], Tried], value: Numeric) -> list[Numeric]:
    try:
        found = function(value)
    except (ArithmeticError, ValueError):
        return []
    return list(found) if isinstance(found, tuple) else [found]


def _log(x: float) -> float:
    return -math.inf if x == 0 else math.inf if x == math.inf else math.log(x)


def _difference(v: Numeric, c: Numeric, side: int) -> Numeric:
    return v + c if side == 0 else c - v


def _product(v: Numeric, c: Numeric, side: int) -> Tried:
    is_whole = isinstance(v, int) and isinstance(c, int)
    return (0, 1) if v == 0 and c == 0 else v // c if is_whole else v / c


_ONE: Final[dict[Op, Callable[[Any], Tried]]] = {
    ops.NEG: lambda v: -v, ops.BITNOT: lambda v: ~v, ops.ABS: lambda v: (v, -v),
}  # fmt: skip
_TWO: Final[dict[Op, Callable[[Any, Any, int], Tried]]] = {
    ops.ADD: lambda v, c, side: v - c, ops.SUB: _difference, ops.MUL: _product,
    ops.MAX: lambda v, c, side: (v, c, c - 1), ops.MIN: lambda v, c, side: (v, c, c + 1),
    ops.FLOORDIV: lambda v, c, side: (v * c, v * c + c - 1), ops.FLOORMOD: lambda v, c, side: (v, v + c),
    ops.TRUNCDIV: lambda v, c, side: (v * c,), ops.BITXOR: lambda v, c, side: v ^ c,
}  # fmt: skip
_TWO_FLOATS: Final[dict[Op, Callable[[Any, Any, int], Tried]]] = {
    ops.ADD: _TWO[ops.ADD], ops.SUB: _difference, ops.MUL: _product,
    DIV: lambda v, c, side: v * c if side == 0 else c / v,
    ops.MAX: lambda v, c, side: (v, c, -math.inf), ops.MIN: lambda v, c, side: (v, c, math.inf),
}  # fmt: skip
_CALLS: Final[dict[str, Callable[[Any], Tried]]] = {
    "exp": _log, "exp2": lambda v: _log(v) / math.log(2), "log2": lambda v: 2.0**v,
    "log": lambda v: math.exp(v) if v < 700 else math.inf,
    "sqrt": lambda v: v * v, "rsqrt": lambda v: math.inf if v == 0 else 1 / (v * v),
    "tanh": lambda v: math.copysign(math.inf, v) if abs(v) == 1 else math.atanh(v),
    "sigmoid": lambda v: -math.inf if v == 0 else math.inf if v == 1 else _log(v / (1 - v)),
    "sin": math.asin, "cos": math.acos, "tan": math.atan, "sinh": math.asinh, "erf": lambda v: v,
    "floor": lambda v: v, "ceil": lambda v: v, "trunc": lambda v: v, "round": lambda v: v,
}  # fmt: skip
