"""Many points at once: `to_numpy`, and conditions that partial candidates of a space must meet.

`to_numpy` gives an expression as a function of numpy arrays, with the values of `evaluate`.

The table is `intset.expr.ops`; numpy names few of its operations. Arrays are computed eagerly, so undefined elements
hold arbitrary numbers; the masks of `select`, `and` and definedness discard these.

A partial candidate is rejected if no values of the open names can complete it. The linear tier bounds the difference of
both sides of a comparison over the open names, as an expression over the bound names; `and` and `or` combine such
bounds. Guarantee: no rejected candidate has a completion that is a member.
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from intset.context import Context
from intset.errors import UndefinedError
from intset.expr import Cond, Expr, Node, Range, Var, dag, ops
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.definedness import definedness, is_partial, where_it_holds
from intset.expr.evaluate import evaluate, some_may_be_long
from intset.expr.node import truth
from intset.expr.ops import Op
from intset.frame import Frame
from intset.linear.canonical import Normalizer
from intset.linear.symbolic import lowest
from intset.prover.proof import fit_conditions

Array = npt.NDArray[Any]
Ends = tuple[int, int]
Step = tuple[Callable[..., Any], tuple[int, ...]]

# one bit less: of every value the negative too
WIDTHS: Final[tuple[tuple[int, Any], ...]] = ((31, np.int32), (63, np.int64))


class ArrayFunction:
    """An expression or condition on arrays.

    Attributes
    ----------
    node: what it computes.
    variables: those that occur, in the order of their first occurrence.
    dtype: the type of the arithmetic: `int32`, `int64`, or `object` where a step may be longer.

    Guarantee: a condition is true exactly where `node` has a value and is true. An integer equals `evaluate` of `node`
    wherever that is defined and the variables lie within the ends that were stated.
    """

    def __init__(self, node: Node, ends: Mapping[Var, Ends]) -> None:
        self.node = node
        total = where_it_holds(node) if isinstance(node, Cond) else node
        order = dag.postorder((total,))
        self.variables = node.free_vars()
        self.dtype = np.dtype(_width(order, {var: ends[var] for var in self.variables}))
        slots: dict[Node, int] = {var: k for k, var in enumerate(self.variables)}
        self.constants: list[Any] = []
        steps: list[tuple[Node, Step]] = []
        table = _LONG if self.dtype == object else _SHORT
        for below in order:
            if below.op is ops.CONST or below.op is ops.BOOL:
                slots[below] = len(slots)
                self.constants.append(self._constant(below))
        for below in order:
            if below not in slots:
                args = tuple(slots[arg] for arg in below.args)
                slots[below] = len(slots)
                meaning = _NumericTerm(below.data) if below.op is ops.LOAD else table.get(below.op) or below.op.meaning
                if below.op is ops.CAST:
                    meaning = _wrapping(*below.data)
                assert meaning is not None
                steps.append((below, (meaning, args)))
        self.steps = [(slots[below], *step, below.free_vars()) for below, step in steps]
        self.ends = {var: ends[var] for var in self.variables}
        read = {k for _, _, where, below in self.steps if len(below) > 1 for k in where} | {slots[total]}
        self.gathered = [(slot, own[0]) for slot, _, _, own in self.steps if len(own) == 1 and slot in read]
        self.result = slots[total]
        needs = definedness((node,)) if isinstance(node, Expr) and is_partial(node) else ()
        self.defined = ArrayFunction(logical_and(*needs), ends) if needs else None

    def _constant(self, node: Node) -> Any:
        if node.op is ops.BOOL:
            return np.bool_(node.data)
        return np.array(node.data, object) if self.dtype == object else self.dtype.type(node.data)

    def __call__(self, columns: Mapping[Var, Array]) -> Array:
        """The values at arrays of the variables, which are broadcast together."""
        return self._values(columns, False)

    def _values(self, columns: Mapping[Var, Array], is_checked: bool) -> Array:
        args = [np.asarray(columns[var]).astype(self.dtype, copy=False) for var in self.variables]
        values: list[Any] = [*args, *self.constants, *([None] * len(self.steps))]
        undefined: list[Array] = []  # where a numeric function has no value
        tabulated = {var for var, arg in zip(self.variables, args, strict=True) if self._is_tabulated(var, arg)}
        for k, var in enumerate(self.variables):
            if var in tabulated:  # all its values, each once
                values[k] = np.arange(self.ends[var][0], self.ends[var][1] + 1, dtype=self.dtype)
        with np.errstate(all="ignore"):
            for is_gathered in (True, False):
                for slot, function, where, own in self.steps:
                    if (len(own) < 2 and tabulated.issuperset(own)) is is_gathered:
                        value = function(*[values[k] for k in where])
                        if isinstance(function, _NumericTerm):
                            value, missing = value
                            undefined += [missing] if missing.any() else []
                        values[slot] = value  # later steps read it
                if is_gathered:
                    self._gather(values, args, tabulated)
        answer: Array = np.asarray(values[self.result])
        answer = answer.astype(bool, copy=False) if isinstance(self.node, Cond) else answer
        return self._lazily(answer, args, undefined, is_checked) if undefined else answer

    def _is_tabulated(self, var: Var, arg: Array) -> bool:
        """Whether terms of this variable alone are computed for its values, and not for each element."""
        low, high = self.ends[var]
        return self.dtype != object and (high - low + 1) * _REPEATED <= arg.size

    def _gather(self, values: list[Any], args: list[Array], tabulated: set[Var]) -> None:
        """Spread the tables of the variables over the elements."""
        places = {
            var: (k, arg - self.ends[var][0])
            for k, (var, arg) in enumerate(zip(self.variables, args, strict=True))
            if var in tabulated
        }
        for slot, var in self.gathered:
            if var in places:
                values[slot] = np.asarray(values[slot])[places[var][1]]
        for k, _ in places.values():
            values[k] = args[k]

    def _lazily(self, answer: Array, args: list[Array], undefined: list[Array], is_checked: bool) -> Array:
        """The answer with points at which a numeric function has no value evaluated one by one.

        Raises
        ------
        UndefinedError: the whole has no value at such a point, if `is_checked`.
        """
        answer, *masks = np.broadcast_arrays(answer, *undefined)
        answer, columns = answer.copy(), [np.broadcast_to(arg, answer.shape) for arg in args]
        for place in zip(*np.nonzero(np.logical_or.reduce(masks)), strict=True):
            point = {var: int(column[place]) for var, column in zip(self.variables, columns, strict=True)}
            try:
                answer[place] = evaluate(self.node, point)
            except UndefinedError:
                if is_checked:
                    raise
                answer[place] = 0
        return answer

    def checked(self, columns: Mapping[Var, Array]) -> Array:
        """The values, where all are defined.

        Raises
        ------
        UndefinedError: the expression has no value at one of the points, which the message names.
        """
        if self.defined is not None and self.variables:
            missing = ~self.defined(columns)
            if missing.any():
                first = np.unravel_index(int(np.argmax(missing)), missing.shape)
                arrays = {var: np.broadcast_to(columns[var], missing.shape) for var in self.variables}
                point = ", ".join(f"{var.name}={int(array[first])}" for var, array in arrays.items())
                raise UndefinedError(f"the expression {self.node!r} has no value at {point}")
        if not self.variables:
            evaluate(self.node)
        return self._values(columns, True)


_REPEATED: Final = 8  # times that each value of a variable occurs at least, so that a table pays


class _NumericTerm:
    """A numeric function on arrays: its values, one call per distinct point, and the undefined rows."""

    def __init__(self, symbol: Any) -> None:
        self.symbol = symbol

    def __call__(self, *args: Any) -> tuple[Array, Array]:
        arrays = np.broadcast_arrays(*args)
        points = list(zip(*(array.ravel().tolist() for array in arrays), strict=True))
        known = {point: self._value(point) for point in dict.fromkeys(points)}
        values = np.empty(len(points), object)
        values[:] = [known[point] for point in points]
        missing = np.array([known[point] is None for point in points], bool)
        values[missing] = 0
        return values.reshape(arrays[0].shape), missing.reshape(arrays[0].shape)

    def _value(self, point: tuple[int, ...]) -> int | None:
        try:
            return int(self.symbol.value_at(*point))
        except ZeroDivisionError:
            return None


def to_numpy(node: Node, ends: Mapping[Var, Ends]) -> ArrayFunction:
    """The function of numpy arrays that an expression or condition denotes.

    Parameters
    ----------
    node: the expression or condition.
    ends: the minimum and maximum of each variable; arithmetic is as narrow as they allow.
    """
    return ArrayFunction(node, ends)


def ends_of(columns: Mapping[Var, Array]) -> dict[Var, Ends]:
    """The minimum and maximum of each column; 0 for an empty one."""
    return {var: (int(column.min()), int(column.max())) if len(column) else (0, 0) for var, column in columns.items()}


def _width(order: list[Node], ends: Mapping[Var, Ends]) -> Any:
    """The narrowest type in which every step has room; `object` for terms of numeric functions."""
    if any(node.op is ops.LOAD for node in order):
        return object
    longest = max([node.data.bit_length() for node in order if node.op is ops.CONST], default=0)
    lengths = {var: max(abs(low), abs(high)).bit_length() for var, (low, high) in ends.items()}
    largest = _largest(order, ends, 0)
    if largest is None or largest.bit_length() > WIDTHS[-1][0] - 1:
        largest = _largest(order, ends, _TABULATED)
    for bits, dtype in WIDTHS:
        is_short = not some_may_be_long(order, lengths, bits - 1) if largest is None else largest < 1 << (bits - 1)
        if longest < bits and is_short:
            return dtype
    bits, dtype = WIDTHS[-1]
    if longest >= bits or any(node.op is ops.CAST and node.data[0] >= bits for node in order):
        return object
    ctx = Context({var: Range(low, high - low + 1) for var, (low, high) in ends.items()})
    tops = [arg for node in order if node.op in ops.COMPARISONS for arg in node.args]
    tops += [order[-1]] if isinstance(order[-1], Expr) else []
    return object if any(fit_conditions(ctx, top, bits) for top in tops) else dtype


def _largest(order: list[Node], ends: Mapping[Var, Ends], tabulated: int) -> int | None:
    """An upper bound of the absolute value of every step; `None` where an operation has no rule, or it is huge.

    Terms of one variable with up to `tabulated` values are tabulated.
    """
    few = {var for var, (low, high) in ends.items() if high - low < tabulated}
    tables: dict[Node, Any] = {}
    most: dict[Node, int] = {}
    for node in order:
        own = node.free_vars()
        if node.op is ops.CONST:
            tables[node] = np.array(node.data, object)
        elif isinstance(node, Var):
            low, high = ends[node]
            tables[node] = np.arange(low, high + 1).astype(object) if node in few else None
            most[node] = max(abs(low), abs(high))
        elif len(own) < 2 and few.issuperset(own) and (node.op in _GROWTH or node.op in _DECIDING):
            meaning = _LONG.get(node.op) or node.op.meaning
            assert meaning is not None
            args = [tables.get(arg) for arg in node.args]
            tables[node] = None if any(arg is None for arg in args) else meaning(*args)
        if tables.get(node) is not None:
            most[node] = int(np.max(np.abs(tables[node])))
        elif isinstance(node, Cond):
            most[node] = 1
        elif node not in most:
            rule = _GROWTH.get(node.op)
            if rule is None:
                return None
            most[node] = rule(*(most[arg] for arg in node.args))
        if most[node] >> WIDTHS[-1][0]:
            return None
    return max(most.values())


_TABULATED: Final = 1024  # values of a variable up to which its terms are computed to find their largest
_DECIDING: Final = frozenset((*ops.COMPARISONS, ops.AND, ops.OR, ops.NOT))
_GROWTH: Final[dict[Op, Callable[..., int]]] = {
    ops.ADD: operator.add,
    ops.SUB: operator.add,
    ops.MUL: operator.mul,
    ops.NEG: lambda a: a,
    ops.ABS: lambda a: a,
    **dict.fromkeys((ops.FLOORDIV, ops.CEILDIV, ops.TRUNCDIV, ops.TRUNCMOD), lambda a, b: a),
    ops.FLOORMOD: lambda a, b: b,
    ops.MIN: max,
    ops.MAX: max,
    ops.SELECT: lambda _, a, b: max(a, b),
    ops.ASSERTING: lambda _, a: a,
}


# -- numpy's words for operations whose meaning is that of one number --------------------------------------------------


def _trunc_div(a: Any, b: Any) -> Any:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


def _trunc_mod(a: Any, b: Any) -> Any:
    rest = np.abs(a) % np.abs(b)
    return np.where(a < 0, -rest, rest)


def _wrapping(bits: int, signed: bool) -> Callable[[Any], Any]:
    """A cast, where the type holds every value of the register; `_width` sees to it."""
    mask = (1 << bits) - 1
    half = 1 << (bits - 1)
    return (lambda a: ((a + half) & mask) - half) if signed else (lambda a: a & mask)


def _on_objects(op: Op) -> Callable[..., Any]:
    """An operation on arrays of Python's integers; 0 where it has no value."""
    meaning = op.meaning
    assert meaning is not None

    def safe(*args: Any) -> Any:
        try:
            return meaning(*args)
        except (ZeroDivisionError, MemoryError, OverflowError):
            return 0

    function: Callable[..., Any] = np.frompyfunc(safe, 2, 1)
    return function


_LOGIC: Final[dict[Op, Callable[..., Any]]] = {
    ops.SELECT: lambda cond, a, b: np.where(np.asarray(cond, bool), a, b),
    ops.ASSERTING: lambda _, value: value,
    ops.AND: np.logical_and,
    ops.OR: np.logical_or,
    ops.NOT: np.logical_not,
    ops.MIN: np.minimum,
    ops.MAX: np.maximum,
    ops.ABS: np.abs,
}
_SHORT: Final[dict[Op, Callable[..., Any]]] = {
    **_LOGIC,
    ops.TRUNCDIV: _trunc_div,
    ops.TRUNCMOD: _trunc_mod,
    ops.SHL: np.left_shift,
    ops.SHR: np.right_shift,
}
_LONG: Final[dict[Op, Callable[..., Any]]] = {
    **_LOGIC,
    **{op: _on_objects(op) for op in (*ops.DIVISIONS, ops.SHL, ops.SHR)},
}


_CONNECTIVES = (ops.AND, ops.OR, ops.NOT)
_TRUE = truth(True)


class EarlyConditions:
    """Necessary conditions over the names that are bound, derived when they are first needed.

    Parameters
    ----------
    conditions: those that mention both bound and open names.
    bound: the names that have values.
    ends: the minimum and maximum of each name.
    """

    def __init__(self, conditions: Sequence[ArrayFunction], bound: Collection[Var], ends: Mapping[Var, Ends]) -> None:
        self.conditions, self.bound, self.ends = tuple(conditions), frozenset(bound), ends

    @cached_property
    def functions(self) -> tuple[ArrayFunction, ...]:
        known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in self.ends.items()}).known
        found: dict[Cond, None] = {}
        for function in self.conditions:
            if isinstance(function.node, Cond):
                found[necessary(known, function.node, self.bound)] = None
        found.pop(_TRUE, None)
        return tuple(to_numpy(cond, self.ends) for cond in found)


def necessary(known: Normalizer, cond: Cond, bound: Collection[Var]) -> Cond:
    """A condition over bound variables that has a value everywhere, and is true wherever `cond` is for some values of
    the other variables."""
    waiting: list[tuple[Cond, bool]] = [(cond, True)]
    for node, holds in waiting:  # grows meanwhile
        if node.op in _CONNECTIVES:
            waiting += [(arg, holds is not (node.op is ops.NOT)) for arg in node.args]
    found: dict[tuple[Cond, bool], Cond] = {}
    for node, holds in reversed(waiting):
        if node.op is ops.NOT:
            found[node, holds] = found[node.args[0], not holds]
        elif node.op in _CONNECTIVES:
            parts = [found[arg, holds] for arg in node.args]
            if (node.op is ops.AND) is holds:
                found[node, holds] = logical_and(*[part for part in parts if part is not _TRUE])
            else:
                found[node, holds] = _TRUE if _TRUE in parts else logical_or(*parts)
        else:
            found[node, holds] = _comparison(known, node, holds, bound)
    return found[cond, True]


def _comparison(known: Normalizer, node: Cond, holds: bool, bound: Collection[Var]) -> Cond:
    if node.op is ops.BOOL:
        return truth(bool(node.data) is holds)
    op = node.op if holds else ops.NEGATED[node.op]
    if all(var in bound for var in node.free_vars()):
        return where_it_holds(node if holds else logical_not(node))
    a, b = node.args
    if op is ops.NE:
        return _TRUE
    if op is ops.EQ:
        parts = [_at_most(known, a - b, 0, bound), _at_most(known, b - a, 0, bound)]
        return logical_and(*[part for part in parts if part is not _TRUE])
    if op in (ops.GT, ops.GE):
        a, b = b, a
    return _at_most(known, a - b, -1 if op in (ops.LT, ops.GT) else 0, bound)


def _at_most(known: Normalizer, e: Expr, limit: int, bound: Collection[Var]) -> Cond:
    """The condition: an expression over the open variables has a least value of at most `limit`."""
    end = lowest(known, known.form(e), lambda var: var not in bound).form
    if end is None or any(var not in bound for var in end.expr().free_vars()):
        return _TRUE
    return logical_not(where_it_holds(end.expr() > limit))


class BoundPart(NamedTuple):
    """What a new variable stands for: a part of conditions, and the ends beyond which its values decide nothing."""

    function: ArrayFunction
    ends: Ends

    @property
    def variables(self) -> tuple[Var, ...]:
        return self.function.variables


class Shortened(NamedTuple):
    """Conditions over fewer columns.

    Attributes
    ----------
    conditions: with new variables for the parts that depend on bound variables.
    terms: the definition of each new variable, over the bound variables.
    """

    conditions: tuple[ArrayFunction, ...]
    terms: dict[Var, BoundPart]


def shortened(
    conditions: Sequence[ArrayFunction], bound: Collection[Var], ends: dict[Var, Ends], most: int
) -> Shortened | None:
    """Open conditions in which each largest part over bound variables is a variable of its own, so that candidates that
    differ in nothing else are one state: of `a*b*c <= 64` with `c` open the product `a*b`, and of that none beyond 65.

    `None` where that reads more than `most` columns, or a part has no finite ends. Adds the ends of the new variables.
    """
    roots = [where_it_holds(cond.node) for cond in conditions if isinstance(cond.node, Cond)]
    order = dag.postorder(roots)
    inside: dict[Node, bool] = {}
    for node in order:
        inside[node] = node in bound if node.op is ops.VAR else all(map(inside.__getitem__, node.args))
    parts = dict.fromkeys(arg for node in order if not inside[node] for arg in node.args if inside[arg] and arg.args)
    plain = {arg for node in order if not inside[node] for arg in node.args if inside[arg] and arg.op is ops.VAR}
    if not parts or len(parts) + len(plain) > most:
        return None
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in ends.items()}).known
    functions: dict[Var, ArrayFunction] = {}
    new: dict[Node, Node] = {}
    spans: dict[Var, Ends] = {}
    for part in parts:
        low, high = (0, 1) if isinstance(part, Cond) else known.bounds(known.form(part))
        if low is None or high is None or low > high:
            return None
        var = Var("part")
        spans[var] = (low, high)
        functions[var] = to_numpy(part, ends)
        new[part] = var.ne(0) if isinstance(part, Cond) else var
    shorter = [dag.rewrite(root, dict(new)) for root in roots]
    deciding = _deciding(shorter, ends | spans)
    spans = {var: deciding.get(var, span) for var, span in spans.items()}
    ends |= spans
    terms = {var: BoundPart(function, spans[var]) for var, function in functions.items()}
    return Shortened(tuple(to_numpy(root, ends) for root in shorter), terms)


def _deciding(conditions: Sequence[Node], ends: Mapping[Var, Ends]) -> dict[Var, Ends]:
    """Of variables, the values that decide: one beyond an end may be replaced by the end in all these conditions.

    From `x < r`, where `r` is in `[l, h]`, `x` needs no values beyond `[l - 1, h + 1]`, and the operands of `x` none
    beyond what it follows that they need, whatever the values of the other operands. What is used in several places
    needs the values of each.
    """
    known = Frame.of({var: Range(low, high - low + 1) for var, (low, high) in ends.items()}).known
    order = dag.postorder(conditions)
    needed: dict[Node, tuple[int | None, int | None]] = {}

    def need(node: Node, low: int | None, high: int | None) -> None:
        if node in needed:
            least, most = needed[node]
            low = None if low is None or least is None else min(low, least)
            high = None if high is None or most is None else max(high, most)
        needed[node] = low, high

    for node in reversed(order):
        if node.op in ops.COMPARISONS and all(isinstance(arg, Expr) for arg in node.args):
            limits = [known.bounds(known.form(arg)) for arg in node.args if isinstance(arg, Expr)]
            for arg, (low, high) in zip(node.args, reversed(limits), strict=True):
                need(arg, None if low is None else low - 1, None if high is None else high + 1)
            continue
        low, high = needed.get(node, (None, None))
        for k, arg in enumerate(node.args):
            rule = _NEEDED.get(node.op) if isinstance(node, Expr) and isinstance(arg, Expr) else None
            if rule is None or (low is None and high is None):
                need(arg, None, None)
                continue
            others = [other for j, other in enumerate(node.args) if j != k and isinstance(other, Expr)]
            need(arg, *rule(k, low, high, *(known.bounds(known.form(other)) for other in others)))
    found: dict[Var, Ends] = {}
    for var, (low, high) in needed.items():
        if isinstance(var, Var):
            least, most = ends[var]
            found[var] = (
                least if low is None else min(max(low, least), most),
                most if high is None else min(max(high, least), most),
            )
    return found


_NeededEnd: TypeAlias = "int | None"
_NeededEnds: TypeAlias = "tuple[int | None, int | None]"


def _less(a: _NeededEnd, b: _NeededEnd) -> _NeededEnd:
    return None if a is None or b is None else a - b


def _of_sum(_: int, low: _NeededEnd, high: _NeededEnd, other: _NeededEnds) -> _NeededEnds:
    return _less(low, other[1]), _less(high, other[0])


def _of_difference(k: int, low: _NeededEnd, high: _NeededEnd, other: _NeededEnds) -> _NeededEnds:
    if k == 1:
        return _less(other[0], high), _less(other[1], low)
    return (
        None if low is None or other[0] is None else low + other[0],
        None if high is None or other[1] is None else high + other[1],
    )


def _of_product(_: int, low: _NeededEnd, high: _NeededEnd, other: _NeededEnds) -> _NeededEnds:
    """Beside a factor that is not negative: a product beyond an end stays beyond it, or is 0."""
    least = other[0]
    if least is None or least < 0:
        return None, None
    by = max(1, least)
    return None if low is None else min(low // by, 0), None if high is None else max(-(-high // by), 0)


_NEEDED: Final[Mapping[ops.Op, Callable[..., _NeededEnds]]] = {
    ops.ADD: _of_sum,
    ops.SUB: _of_difference,
    ops.MUL: _of_product,
    ops.NEG: lambda _, low, high: (_less(0, high), _less(0, low)),
    ops.MIN: lambda _, low, high, other: (low, high),
    ops.MAX: lambda _, low, high, other: (low, high),
    ops.SELECT: lambda _, low, high, *other: (low, high),
}


def term_values(term: BoundPart, columns: Mapping[Var, Array]) -> Array:
    """The values of a part, or the nearest end; otherwise some number between its ends."""
    values = term.function(columns)
    inside: Array = values.astype(np.int64) if values.dtype == bool else np.clip(values, *term.ends)
    return inside
