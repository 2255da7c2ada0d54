"""Unknown padding values (metavariables) and the equations that determine them.

A padding state may be an expression over unknowns, the values a plan can choose. Affine equations over one integer
type are solved exactly, modulo `2**bits`. Other equations are inverted operation by operation, and every candidate is
checked by evaluation.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from bound import dtypes
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value, parameter
from bound.tir.walk import nodes, rewrite
from intset.expr import ops
from intset.expr.node import Expr, PlainVar, Var, as_expr, const, sum_of
from lowering.padding.inverted import candidates
from lowering.padding.packed import Place
from lowering.padding.partial_evaluation import Number, as_element, as_operand
from lowering.padding.states import PadValue, folded, numbers_at


class Unknown(NamedTuple):
    """A padding value that the planner can choose.

    Attributes
    ----------
    node: variable or parameter in expressions.
    dtype: element type.
    """

    node: Parameter
    dtype: str


class Unknowns:
    """Factory and registry of unknowns."""

    def __init__(self) -> None:
        self.known: dict[Parameter, Unknown] = {}

    def new(self, dtype: str) -> Parameter:
        if dtypes.is_int(dtype):
            return self.integer(dtype)
        node = parameter(f"u{len(self.known)}", dtype)
        self.known[node] = Unknown(node, dtype)
        return node

    def integer(self, dtype: str) -> PlainVar:
        """Create an unknown of an integer type."""
        node = PlainVar(f"u{len(self.known)}")
        self.known[node] = Unknown(node, dtype)
        return node

    def within(self, *exprs: Operand) -> list[Parameter]:
        """List the unknowns of expressions, in order of first occurrence."""
        free = (node for node in nodes(*exprs) if isinstance(node, (Var, Value))) if exprs else ()
        return [node for node in free if node in self.known]


class Bound(NamedTuple):
    """A solution: values of solved unknowns over free ones, and all unknowns now constrained to be uniform."""

    values: dict[Parameter, Operand]
    uniform: frozenset[Parameter]


def solutions(
    unknowns: Unknowns,
    expr: Operand,
    wanted: Operand,
    dtype: str,
    places: Sequence[Place],
    uniform: frozenset[Parameter],
) -> Iterator[Bound]:
    """Yield assignments of unknowns for which `expr` equals `wanted` at all padding positions.

    Parameters
    ----------
    dtype: element type, in which both sides are compared.
    uniform: unknowns constrained to one value over the whole padding.
    """
    free = unknowns.within(expr)
    if not free:
        if holds(expr, wanted, dtype, places):
            yield Bound({}, uniform)
        return
    if not places:
        yield Bound({}, uniform)
        return
    if dtypes.is_int(dtype) and all(unknowns.known[v].dtype == dtype for v in free):
        form = _affine(unknowns, as_expr(expr), dtypes.bits(dtype))
        if form is not None:
            found = _modular(unknowns, *form, wanted, dtype, places, uniform)
            if found is not None:
                yield found
            return
    number = _uniform_number(wanted, dtype, places)
    if number is not None:
        yield from _turned(unknowns, expr, number, dtype, uniform)


def shortened(
    unknowns: Unknowns, expr: Operand, dtype: str, uniform: frozenset[Parameter], taken: Container[Parameter]
) -> tuple[Operand, Bound]:
    """Normalize an integer padding state to an affine sum, which keeps long chains of calls small.

    A single unknown with an odd (invertible) coefficient, used in no other state (`taken`), makes the state arbitrary.
    A new unknown then replaces the state, and the solution expresses the old unknown by the new one.
    """
    nothing = Bound({}, uniform)
    free = unknowns.within(expr)
    if not free or not dtypes.is_int(dtype) or any(unknowns.known[v].dtype != dtype for v in free):
        return expr, nothing
    form = _affine(unknowns, as_expr(expr), dtypes.bits(dtype))
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
            new = unknowns.integer(dtype)
            value = (new - rest) * _near(pow(factor, -1, modulus), modulus)
            return new, Bound({old: value}, uniform | {new} if old in uniform else uniform)
    terms = [v if c == 1 else v * _near(c, modulus) for v, c in coefficients.items()]
    return sum_of(terms if terms and rest.is_const and rest.data == 0 else [*terms, rest]), nothing


def holds(expr: Operand, wanted: Operand, dtype: str, places: Sequence[Place]) -> bool:
    """Test that two values without unknowns agree at all positions."""
    if expr is wanted and dtypes.is_int(dtype):
        return True
    pairs = zip(numbers_at(expr, places, dtype), numbers_at(wanted, places, dtype), strict=True)
    return all(a is not None and b is not None and a == b for a, b in pairs)


def _uniform_number(wanted: Operand, dtype: str, places: Sequence[Place]) -> Number | None:
    found = set(numbers_at(wanted, places, dtype))
    return found.pop() if len(found) == 1 else None


# -- integers of one type -----------------------------------------------------------------------------------------


def _affine(unknowns: Unknowns, root: Expr, bits: int) -> tuple[dict[Var, int], Expr] | None:
    """Split an integer, modulo `2**bits`, into coefficients of unknowns and a remainder.

    Returns `None` if the expression is not affine or too large.
    """
    coefficients: dict[Var, int] = {}
    rest: list[tuple[Expr, int]] = []
    free: set[Operand] = set()
    for node in nodes(root):
        if node in unknowns.known or any(arg in free for arg in node.args):
            free.add(node)
    stack: list[tuple[Expr, int]] = [(root, 1)]
    visits = 0
    while stack:
        node, times = stack.pop()
        visits += 1
        if visits > 2_000:
            return None
        if isinstance(node, Var) and node in unknowns.known:
            coefficients[node] = coefficients.get(node, 0) + times
        elif node not in free:
            rest.append((node, times))
        elif node.op is ops.ADD or node.op is ops.SUB:
            stack += [(node.args[1], times if node.op is ops.ADD else -times), (node.args[0], times)]
        elif node.op is ops.NEG:
            stack.append((node.args[0], -times))
        elif node.op is ops.CAST and node.data[0] >= bits:
            stack.append((node.args[0], times))
        elif node.op is ops.MUL and (numbers := [k for k in (0, 1) if node.args[k].is_const]):
            stack.append((node.args[1 - numbers[0]], times * int(node.args[numbers[0]].data)))
        else:
            return None
    total: Expr = const(0)
    for part, times in rest:
        total = total + part * times
    reduced = {v: c % (1 << bits) for v, c in coefficients.items() if c % (1 << bits)}
    return reduced, total


def _modular(
    unknowns: Unknowns,
    coefficients: dict[Var, int],
    rest: Expr,
    wanted: Operand,
    dtype: str,
    places: Sequence[Place],
    uniform: frozenset[Parameter],
) -> Bound | None:
    """Solve an affine equation modulo `2**bits`, or return `None`.

    The pivot's coefficient has the least power of 2, so the other unknowns stay free.
    """
    bits = dtypes.bits(dtype)
    missing = as_expr(wanted) - rest
    numbers = numbers_at(missing, places, "int64")
    if any(n is None for n in numbers):
        return None
    if not coefficients:
        return Bound({}, uniform) if all(int(n or 0) % (1 << bits) == 0 for n in numbers) else None
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
        more = unknowns.integer(dtype)
        value = value + more * step
        if solved in uniform:
            now.add(more)
    found = folded(value, dtype)
    return Bound({solved: found.expr if isinstance(found, PadValue) else value}, frozenset(now))


def _twos(number: int) -> int:
    return (number & -number).bit_length() - 1


def _near(number: int, modulus: int) -> int:
    """Return the representative modulo `modulus` nearest to 0."""
    found = number % modulus
    return found - modulus if found > modulus // 2 else found


# -- anything else ------------------------------------------------------------------------------------------------


def _turned(
    unknowns: Unknowns, expr: Operand, wanted: Number, dtype: str, uniform: frozenset[Parameter]
) -> Iterator[Bound]:
    """Try a few values of every unknown but the last, and solve for the last."""
    free = unknowns.within(expr)
    last, others = free[-1], free[:-1]
    waiting: list[tuple[dict[Parameter, Operand], Operand]] = [({}, expr)]
    for v in others:
        kind = unknowns.known[v].dtype
        tried = [as_element(n, kind) for n in (0, 1, wanted)] + [dtypes.least(kind)]
        values = [as_operand(n, kind) for n in dict.fromkeys(tried)]
        waiting = [({**known, v: n}, rewrite(e, {v: n})) for known, e in waiting for n in values]
    for known, e in waiting[:64]:
        kind = unknowns.known[last].dtype
        for number in candidates(e, last, wanted, kind, dtype):
            values_ = {**known, last: as_operand(number, kind)}
            yield Bound(values_, uniform)
