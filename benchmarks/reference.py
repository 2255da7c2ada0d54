"""The oracle for corpus rows: islpy called directly on the row's text, by nothing of the engine it measures.

It is written as one would by hand: the box and its conditions become one isl set by API calls, an index becomes an
`Aff` as long as it is quasi-affine and a `PwAff` from there on, and the image is the range of that function on the set.
It needs numbers for all sizes, and knows no products of variables.

>>> conv = Reference([("i", "0", "n"), ("j", "0", "4")], ["i * 4 + j < 14"], {"n": 8})
>>> conv.ends(conv.image("i * 4 + j"))
(0, 13)
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import islpy as isl

from intset.errors import InputError
from intset.expr.printer import shown

_SET, _IN = isl.dim_type.set, isl.dim_type.in_
_CONTEXT = isl.DEFAULT_CONTEXT


@lru_cache(maxsize=4096)
def syntax(text: str) -> ast.expr:
    """The syntax tree of an expression."""
    return ast.parse(text.strip(), mode="eval").body


class Reference:
    """A box with conditions, as an isl set.

    Parameters
    ----------
    variables: name, minimum and extent of each iteration variable; the latter two may be texts over sizes.
    conditions: texts that hold at every point.
    sizes: a number for each size.
    """

    def __init__(
        self,
        variables: Iterable[tuple[str, str, str]],
        conditions: Iterable[str] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.sizes = dict(sizes or {})
        variables = list(variables)
        self._position = {name: k for k, (name, _, _) in enumerate(variables)}
        space = isl.Space.set_alloc(_CONTEXT, 0, len(variables))
        self._local = isl.LocalSpace.from_space(space)
        self._zero = isl.Aff.zero_on_domain(self._local)
        points = isl.Set.universe(space)
        for k, (_, low, extent) in enumerate(variables):
            first = self._number(low)
            points = points.lower_bound_val(_SET, k, first).upper_bound_val(_SET, k, first + self._number(extent) - 1)
        for condition in conditions:
            points = points.intersect(self.where(syntax(condition)))
        self.points = points

    def image(self, text: str) -> Any:
        """The isl set of the values of an index expression."""
        value = self.function(syntax(text))
        if isinstance(value, int):
            value = self._constant(value)
        table = isl.Map.from_aff(value) if isinstance(value, isl.Aff) else isl.Map.from_pw_aff(value)
        return table.intersect_domain(self.points).range()

    @staticmethod
    def ends(image: Any) -> tuple[int, int] | None:
        """(min, max) of a bounded image; `None` when it is empty."""
        if image.is_empty():
            return None
        return int(image.dim_min_val(0).to_python()), int(image.dim_max_val(0).to_python())

    def holds(self, text: str) -> str:
        """ "true", "false" or "both": what a condition is over the points ("true" when there are none)."""
        inside = self.where(syntax(text))
        if self.points.is_subset(inside):
            return "true"
        return "false" if self.points.is_disjoint(inside) else "both"

    # -- functions ----------------------------------------------------------------------------------------------

    def function(self, node: ast.expr) -> Any:
        """An `int`, `Aff` or `PwAff` equal to an index expression."""
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                place = self._position.get(name)
                return self.sizes[name] if place is None else isl.Aff.var_on_domain(self._local, _SET, place)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.function(operand)
                return -value if isinstance(value, int) else value.neg()
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.function(left), self.function(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                inside = self.where(test)
                first, second = self._piecewise(self.function(body)), self._piecewise(self.function(orelse))
                return first.intersect_domain(inside).union_add(second.intersect_domain(inside.complement()))
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                return self._call(name, self.function(left), self.function(right))
        raise InputError(f"the oracle does not know {shown(ast.unparse(node))}")

    def _binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return _ARITHMETIC[type(op)](a, b)
        match op:
            case ast.Add():
                return self._sum(a, b)
            case ast.Sub():
                return self._sum(a, -b if isinstance(b, int) else b.neg())
            case ast.Mult() if isinstance(a, int) or isinstance(b, int):
                return b.scale_val(a) if isinstance(a, int) else a.scale_val(b)
            case ast.FloorDiv() if isinstance(b, int) and b > 0:
                return a.scale_down_val(b).floor()
            case ast.Mod() if isinstance(b, int) and b > 0:
                return a.mod_val(b)
        raise InputError("the oracle knows products and positive divisors by constants only")

    def _call(self, name: str, a: Any, b: Any) -> Any:
        first, second = self._piecewise(a), self._piecewise(b)
        match name:
            case "min":
                return first.min(second)
            case "max":
                return first.max(second)
            case "truncdiv":
                return first.tdiv_q(second)
            case "truncmod":
                return first.tdiv_r(second)
        raise InputError(f"the oracle does not know the function {shown(name)}")

    def _sum(self, a: Any, b: Any) -> Any:
        a, b = (self._constant(side) if isinstance(side, int) else side for side in (a, b))
        if type(a) is not type(b):
            a, b = self._piecewise(a), self._piecewise(b)
        return a.add(b)

    def _constant(self, number: int) -> Any:
        return self._zero.set_constant_val(number)

    def _piecewise(self, value: Any) -> Any:
        if isinstance(value, int):
            value = self._constant(value)
        return isl.PwAff.from_aff(value) if isinstance(value, isl.Aff) else value

    def _number(self, text: str) -> int:
        value = self.function(syntax(text))
        if not isinstance(value, int):
            raise InputError(f"the oracle needs a number for {shown(text)}")
        return value

    # -- conditions ---------------------------------------------------------------------------------------------

    def where(self, node: ast.expr) -> Any:
        """The isl set of the points where a condition holds."""
        match node:
            case ast.BoolOp(op=op, values=values):
                sets = [self.where(value) for value in values]
                result = sets[0]
                for other in sets[1:]:
                    result = result.intersect(other) if isinstance(op, ast.And) else result.union(other)
                return result
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.where(operand).complement()
            case ast.Compare(left=left, ops=signs, comparators=rights):
                result, a = None, self.function(left)
                for sign, right in zip(signs, rights, strict=True):
                    b = self.function(right)
                    one = self._compare(sign, a, b)
                    result, a = one if result is None else result.intersect(one), b
                return result
        raise InputError(f"the oracle does not know the condition {shown(ast.unparse(node))}")

    def _compare(self, sign: ast.cmpop, a: Any, b: Any) -> Any:
        a, b = (self._constant(side) if isinstance(side, int) else side for side in (a, b))
        if type(a) is not type(b) or isinstance(sign, ast.NotEq):
            a, b = self._piecewise(a), self._piecewise(b)
        return getattr(a, _COMPARISONS[type(sign)])(b)


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS = {
    ast.Lt: "lt_set",
    ast.LtE: "le_set",
    ast.Gt: "gt_set",
    ast.GtE: "ge_set",
    ast.Eq: "eq_set",
    ast.NotEq: "ne_set",
}
