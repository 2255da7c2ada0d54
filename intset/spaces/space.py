"""`Space`: finitely many configurations, the choices of values for names that fulfil conditions.

Conditions of a space, and expressions over its names: objects of this project, or their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from intset.errors import CountError, InputError, ParseError
from intset.expr import Cond, Expr, IntLike, Node, Var, arguments, as_expr, const, dag, ops, shown
from intset.expr.evaluate import all_hold
from intset.expr.node import truth
from intset.expr.parser import ExprParser, ParsedOperand, Pending, Token
from intset.expr.printer import Displayed
from intset.installation import ModuleLater
from intset.spaces.axes import LABELS, SPACE_BLOCK, TRUTHS, SpaceAxis, read_axes
from intset.spaces.axes import SpaceValue as SpaceValue
from intset.spaces.axes import VarKey as VarKey

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from intset.spaces import members
    from intset.spaces.members import ListedRows, Members
else:
    members = ModuleLater("intset.spaces.members")  # numpy, when a question needs it


def read_conditions(axes: Sequence[SpaceAxis], where: object) -> tuple[Cond, ...]:
    """Read conditions or texts as a list of conjuncts, without constants.

    Guarantee: the conjuncts are satisfied by the same configurations as the original conditions; a conjunction holds
    where each part has a value and is true.

    Raises
    ------
    InputError: a part is not a condition, or a name is unknown or names strings.
    """
    given: Iterable[Any] = (
        (where,) if isinstance(where, (str, Node)) else arguments.listed(_parts(where), "where", "conditions")
    )
    parts: dict[Cond, None] = {}
    for item in given:
        cond = _condition(axes, item)
        parts.update(dict.fromkeys(part for part in dag.conjuncts(cond) if part is not truth(True)))
    return tuple(parts)


def _parts(where: object) -> Iterable[Any]:
    if isinstance(where, bool) or not isinstance(where, Iterable):
        raise InputError(f"where= takes conditions, a list of them or of their texts, not {shown(where)}")
    return where


def _condition(axes: Sequence[SpaceAxis], item: object) -> Cond:
    node = _parsed(axes, item) if isinstance(item, str) else item
    if isinstance(node, bool):
        raise InputError(f"a condition of a space is an expression, not Python's {node}: was it made by 'in' or 'and'?")
    if isinstance(node, Expr):
        is_negated = node.op is ops.BITNOT
        flag = node.args[0] if is_negated else node
        axis = next((axis for axis in axes if axis.var is flag), None)
        if axis is None or axis.kind is not TRUTHS:
            raise InputError(f"a condition of a space is a comparison or a truth value, not the integer {shown(node)}")
        node = axis.var.eq(0) if is_negated else axis.var.ne(0)
    if not isinstance(node, Cond):
        raise InputError(f"a condition of a space is an expression or a text, not {shown(node)}")
    _check(axes, node, "the condition")
    return node


def read_expression(axes: Sequence[SpaceAxis], item: object, what: str) -> Expr:
    """An expression over the names of a space; a condition counts as 0 or 1.

    Raises
    ------
    InputError: `item` is not an expression, or a name is unknown or names strings.
    """
    node = _parsed(axes, item) if isinstance(item, str) else item
    if isinstance(node, Cond):
        raise InputError(f"{what} is an integer, not the condition {shown(node)}: use select(condition, 1, 0)")
    e = as_expr(node, what)
    _check(axes, e, what)
    return e


def _check(axes: Sequence[SpaceAxis], node: Node, what: str) -> None:
    own = {axis.var: axis for axis in axes}
    for var in node.free_vars():
        axis = own.get(var)
        if axis is not None and axis.kind is not LABELS:
            continue
        what = f"{what} {shown(node)}"
        if axis is None:
            known = ", ".join(axis.name for axis in axes)
            twin = any(axis.name == var.name for axis in axes)
            hint = ", but by another variable: write the text, or make the variable the key" if twin else ""
            raise InputError(f"{what} mentions {var.name}, which is no name of the space ({known}){hint}")
        if axis.kind is LABELS:
            raise InputError(f"{what} mentions {var.name}, whose values are strings: choose among them instead")
    unknown = [term for term in dag.opaque_terms(node) if term.data.value_at is None]
    if unknown:
        raise InputError(f"{what} has the unknown {shown(unknown[0])}: a space knows its names only")


def _parsed(axes: Sequence[SpaceAxis], text: str) -> Any:
    """The meaning of a text, with errors of one line."""
    try:
        return SpaceParser(text, axes).run()
    except ParseError as error:
        raise InputError(f"{str(error).partition(chr(10))[0]}, in the text {shown(text)}") from None


class SpaceParser(ExprParser):
    """Reads expressions over the names of a space.

    A name of truth values is a condition where one is expected, and 0 or 1 elsewhere; so are `True` and `False`.
    """

    def __init__(self, text: str, axes: Sequence[SpaceAxis]) -> None:
        super().__init__(text, {axis.name: axis.var for axis in axes})
        self.truths = {axis.var for axis in axes if axis.kind is TRUTHS}

    def quoted(self, token: Token) -> bool:
        """Process a quoted name; any other string is refused."""
        try:
            return super().quoted(token)
        except ParseError:
            if token.text[1:-1] in self.names:
                raise
            reason = "a condition over strings is not possible: choose among the values instead"
            raise self.error(reason, token.position) from None

    def as_condition(self, operand: ParsedOperand) -> ParsedOperand:
        value = operand.value
        return operand._replace(value=value.ne(0)) if value in self.truths else operand

    def as_number(self, operand: ParsedOperand) -> ParsedOperand:
        value = operand.value
        return operand._replace(value=const(int(value.data))) if value.op is ops.BOOL else operand

    def binary(self, symbol: str, a: ParsedOperand, b: ParsedOperand, position: int) -> None:
        if symbol in ("and", "or") or isinstance(a.value, Cond) or isinstance(b.value, Cond):
            a, b = self.as_condition(a), self.as_condition(b)
        super().binary(symbol, a, b, position)

    def prefix(self, symbol: str, operand: ParsedOperand, position: int) -> None:
        super().prefix(symbol, self.as_condition(operand) if symbol in ("not", "~") else operand, position)

    def choice(self, if_true: ParsedOperand, condition: ParsedOperand, if_false: ParsedOperand) -> None:
        super().choice(if_true, self.as_condition(condition), if_false)

    def chain(self, operator: Pending) -> None:
        first = len(self.operands) - len(operator.symbols) - 1
        self.operands[first:] = map(self.as_number, self.operands[first:])
        super().chain(operator)


# the byte limit for a space's members; beyond it they are made anew each time they are read
SPACE_MEMORY: Final = 256 << 20

_LONGEST_LEN = (1 << 63) - 1
_SHOWN = 6  # names and conditions in a representation


class Space(Displayed):
    """Finitely many configurations, as a set.

    Parameters
    ----------
    values: `{Var, ShapeVar or name: values}`, the values of a name all integers, all truth values or all strings.
    where: conditions, or one: expressions over the variables, or texts in Python's syntax over the names. A
        condition without a value excludes the configuration; `and`, `or` and `select` are lazy. Names of
        strings occur in no condition.
    memory: limit in bytes for listed members; a larger space is streamed.

    Raises
    ------
    InputError: two variables share a name; a name has no values, values of mixed types, or values outside its
        `ShapeVar`; a condition has another type, an unknown name, or a name of strings.

    Guarantee: the members are exactly the configurations where each condition has the value true; integers
    do not overflow. Members are listed as by nested loops, the first name outermost, values in the given order. A
    question tries at most `SPACE_CANDIDATES` candidates and raises a `CountError` beyond.

    >>> tile, threads = Var("tile"), Var("threads")
    >>> space = Space({tile: [8, 16, 32], threads: [32, 64], "pad": [False, True]}, where=[tile * threads <= 1024])
    >>> space.count(), (16, 64, True) in space, (32, 64, True) in space
    (8, True, False)
    """

    def __init__(
        self,
        values: Mapping[VarKey, Iterable[SpaceValue]],
        where: Cond | str | Iterable[Cond | str] = (),
        memory: int = SPACE_MEMORY,
    ) -> None:
        axes = read_axes(values)
        self._fill(axes, read_conditions(axes, where), (), arguments.as_count(memory, "memory"))

    def _fill(
        self, axes: tuple[SpaceAxis, ...], conditions: tuple[Cond, ...], listed: tuple[ListedRows, ...], memory: int
    ) -> None:
        self._axes, self._conditions, self._listed, self._memory = axes, conditions, listed, memory

    def _like(self, axes: tuple[SpaceAxis, ...], conditions: Sequence[Cond], listed: tuple[ListedRows, ...]) -> Space:
        return _restored(axes, tuple(dict.fromkeys(conditions)), listed, self._memory)

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self._axes, self._conditions, self._listed, self._memory))

    # -- what is stated ------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the given order."""
        return tuple(axis.name for axis in self._axes)

    @property
    def values(self) -> dict[str, tuple[SpaceValue, ...]]:
        """The stated values of each name."""
        return {axis.name: axis.values for axis in self._axes}

    @property
    def where(self) -> tuple[Cond, ...]:
        """The conditions, conjunctions taken apart."""
        return self._conditions

    def __repr__(self) -> str:
        parts = [f"{axis.name}: {_values_text(axis.values)}" for axis in self._axes[:_SHOWN]]
        parts += ["…"] * (len(self._axes) > _SHOWN)
        conditions = [shown(cond) for cond in self._conditions[:_SHOWN]]
        conditions += ["…"] * (len(self._conditions) > _SHOWN)
        return f"<Space {', '.join(parts)}{' | ' if conditions else ''}{', '.join(conditions)}>"

    # -- membership and counting ---------------------------------------------------------------------------------------

    @cached_property
    def _members(self) -> Members:
        return members.Members(self._axes, self._conditions, self._listed, self._memory)

    def count(self) -> int:
        """The number of members, found without listing them where names are independent or can be forgotten.

        Raises
        ------
        CountError: too many candidates have to be tried.
        """
        return self._members.count

    def __len__(self) -> int:
        number = self.count()
        if number > _LONGEST_LEN:
            raise OverflowError(f"the space has {number} members, more than len() may say: use count()")
        return number

    def __bool__(self) -> bool:
        return not self._members.is_empty

    def __contains__(self, point: object) -> bool:
        numbers = self._numbers(self._point(point))
        if None in numbers:
            return False
        at = {axis.var: int(number or 0) for axis, number in zip(self._axes, numbers, strict=True)}
        if not all(axis.value(at[axis.var]) in axis.values for axis in self._axes):
            return False
        return all_hold(self._conditions, at) and all(one.has(at) for one in self._listed)

    def _point(self, point: object) -> tuple[Any, ...]:
        """The values of a configuration, in the order of the names."""
        if isinstance(point, Mapping):
            unknown = [name for name in point if name not in self.names and name not in {a.var for a in self._axes}]
            if unknown:
                raise InputError(f"{shown(unknown[0])} is no name of the space ({', '.join(self.names)})")
            row = []
            for axis in self._axes:
                if axis.name not in point and axis.var not in point:
                    raise InputError(f"the configuration gives no value for {axis.name}")
                row.append(point[axis.name] if axis.name in point else point[axis.var])
            return tuple(row)
        if isinstance(point, (str, bytes)) or not isinstance(point, Sequence):
            raise arguments.refusal("a configuration", "a tuple in the order of the names, or a dict by name", point)
        if len(point) != len(self._axes):
            raise InputError(
                f"a configuration has {len(self._axes)} values ({', '.join(self.names)}), not {len(point)}"
            )
        return tuple(point)

    def _numbers(self, point: Sequence[Any]) -> list[int | None]:
        return [axis.number(value) for axis, value in zip(self._axes, point, strict=True)]

    # -- listing -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, SpaceValue]]:
        for _, block in self._members.blocks(SPACE_BLOCK >> 4):
            yield from members.configurations(self._members, block)

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """All members as numpy arrays, one a name: `int64` (`object` beyond), `bool`, or strings.

        Raises
        ------
        CountError: the arrays take more than `memory`.
        """
        return self._plain(self._listed_columns("columns()"))

    def to_arrow(self) -> pa.Table:
        """All members as a table of pyarrow; InputError where it is not installed or an integer is too long."""
        module = _module("pyarrow", "to_arrow")
        try:
            return module.table(self.columns())
        except OverflowError:
            raise InputError("Space.to_arrow takes integers of 64 bits; use columns() or to_pandas()") from None

    def to_pandas(self) -> pd.DataFrame:
        """All members as a data frame of pandas; InputError where it is not installed."""
        return _module("pandas", "to_pandas").DataFrame(self.columns())

    def table(self, expressions: Mapping[str, IntLike | str]) -> dict[str, NDArray[np.generic]]:
        """The columns of all members, and a column of values for each expression.

        Raises
        ------
        UndefinedError: an expression has no value at a member.
        InputError: the name of an expression is a name of the space.

        >>> Space({"x": [1, 2]}).table({"area": "x * x"})
        {'x': array([1, 2]), 'area': array([1, 4])}
        """
        asked = arguments.mapped(expressions, "the expressions of a table", "a mapping {name: expression}")
        for name in asked:
            if arguments.a_name(name, "the name of an expression") in self.names:
                raise InputError(f"the table has a column {name!r} already, the name of the space")
        read = {name: read_expression(self._axes, e, f"the expression {name}") for name, e in asked.items()}
        columns = self._listed_columns("table()", len(read))
        values = {name: members.values_at(self._members, e, columns) for name, e in read.items()}
        return self._plain(columns) | values

    def _listed_columns(self, what: str, more: int = 0) -> dict[Var, Any]:
        number = self.count()
        if number * 8 * (len(self._axes) + more) > self._memory:
            raise CountError(
                f"{what} of {number} members takes more than memory={self._memory} bytes: restrict or sample the space"
            )
        return members.all_columns(self._members)

    def _plain(self, columns: Mapping[Var, Any]) -> dict[str, Any]:
        return {axis.name: members.plain_column(axis, columns[axis.var]) for axis in self._axes}

    # -- members of interest -------------------------------------------------------------------------------------------

    def sample(self, k: int, seed: int | None = None) -> list[dict[str, SpaceValue]]:
        """`k` distinct members in random order, each choice equally likely; the rest is not listed.

        Parameters
        ----------
        k: the number of members to draw; at most all members are drawn.
        seed: the same seed draws the same members, on every machine; `None` draws others each time.
        """
        number = arguments.as_count(k, "the number of members of a sample")
        return members.sampled(self._members, number, None if seed is None else arguments.as_int(seed, "seed"))

    def minimize(self, e: IntLike | str, k: int = 1) -> list[dict[str, SpaceValue]]:
        """The `k` members with the least values of an expression, least first; all members if there are fewer.

        Members of equal value come in the order in which the space lists them: by the first name, then the next.

        Raises
        ------
        UndefinedError: the expression has no value at a member.
        """
        read = read_expression(self._axes, e, "the expression to minimize")
        return members.best(self._members, read, arguments.as_count(k, "k"))

    def neighbours(
        self, point: Sequence[SpaceValue] | Mapping[VarKey, SpaceValue], distance: int = 1
    ) -> list[dict[str, SpaceValue]]:
        """The members that differ from a configuration in 1 to `distance` names.

        Members are sorted by the number of differing names, then as the space lists them. The configuration itself
        need not be a member.

        Raises
        ------
        CountError: too many configurations lie within this distance.
        """
        reach = arguments.as_count(distance, "the distance")
        return members.neighbours(self._members, self._numbers(self._point(point)), reach)

    def nearest(self, point: Sequence[SpaceValue] | Mapping[VarKey, SpaceValue]) -> dict[str, SpaceValue] | None:
        """The member nearest to a configuration; `None` of an empty space.

        It differs in the fewest names; between equals it is fewer steps away along the sorted values of integers, then
        first in the order of the names. A member is nearest to itself.
        """
        return members.nearest(self._members, self._numbers(self._point(point)))

    # -- other spaces --------------------------------------------------------------------------------------------------

    def restrict(self, where: Cond | str | Iterable[Cond | str]) -> Space:
        """The members that fulfil further conditions."""
        return self._like(self._axes, (*self._conditions, *read_conditions(self._axes, where)), self._listed)

    def __and__(self, other: object) -> Space:
        """The natural join: each space's part of a configuration is a member of that space."""
        if not isinstance(other, Space):
            raise arguments.refusal("what a space is joined with", "a Space", other)
        own = {axis.name: axis for axis in self._axes}
        joined: dict[str, SpaceAxis] = dict(own)
        variables: dict[Var, Var] = {}
        for axis in other._axes:
            known = own.get(axis.name)
            if known is not None and known.kind is not axis.kind:
                raise InputError(f"{axis.name} has {known.kind} in one space and {axis.kind} in the other")
            joined[axis.name] = axis if known is None else known.holding(axis.values)
            variables[axis.var] = joined[axis.name].var
        axes = tuple(joined.values())
        conditions = [cond.substitute(variables) for cond in other._conditions]
        listed = [*_recoded(self._listed, self._axes, axes), *_recoded(other._listed, other._axes, axes)]
        return self._like(axes, (*self._conditions, *conditions), tuple(listed))

    def project(self, names: str | Var | Iterable[str | Var]) -> Space:
        """The configurations of some names that members have.

        Raises
        ------
        CountError: the configurations of names that constraints connect with others take more than `memory`.
        """
        given = (names,) if isinstance(names, (str, Var)) else arguments.listed(names, "the names of a projection")
        wanted = []
        for name in given:
            axis = next((a for a in self._axes if a.var is name or (isinstance(name, str) and a.name == name)), None)
            if axis is None:
                raise InputError(f"{shown(name)} is no name of the space ({', '.join(self.names)})")
            wanted.append(axis)
        if not wanted:
            raise InputError("a projection keeps at least one name")
        axes = tuple(dict.fromkeys(wanted))
        own = {axis.var for axis in axes}
        rows = members.projected(self._members, axes)
        conditions = [cond for cond in self._conditions if own.issuperset(cond.free_vars())]
        return self._like(axes, conditions if rows is not None else [truth(False)], tuple(rows or ()))

    # -- what is known before listing ----------------------------------------------------------------------------------

    def ranges(self) -> TakenValues:
        """Propagate the conditions and return the values left for each name; nothing is listed.

        Guarantee: a superset of the values of the members. If a name has no value left, `contradiction` of the answer
        names the conflicting conditions.
        """
        left = {axis.var: set(numbers) for axis, numbers in zip(self._axes, self._members.left(), strict=True)}
        taken = {
            axis.name: tuple(v for v, n in zip(axis.values, axis.numbers(), strict=True) if n in left[axis.var])
            for axis in self._axes
        }
        return TakenValues(taken, self._members.contradiction() if not all(taken.values()) else ())

    @property
    def contradiction(self) -> tuple[Cond, ...]:
        """An irredundant set of conflicting conditions; `()` for a space with members."""
        return members.contradiction(self._members)


class TakenValues(dict[str, tuple[SpaceValue, ...]]):
    """The values left for each name of a space after propagation.

    Attributes
    ----------
    contradiction: the conflicting conditions if a name has no value left; else empty.
    """

    def __init__(self, values: Mapping[str, tuple[SpaceValue, ...]], contradiction: tuple[Cond, ...]) -> None:
        super().__init__(values)
        self.contradiction = contradiction

    def __reduce__(self) -> tuple[object, ...]:
        return (TakenValues, (dict(self), self.contradiction))

    def __repr__(self) -> str:
        if not self.contradiction:
            return f"{{{', '.join(f'{name}: {_values_text(values)}' for name, values in self.items())}}}"
        return f"{{}} since {' contradicts '.join(shown(cond) for cond in self.contradiction)}"


def _module(name: str, method: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"Space.{method} needs {name}: pip install {name}") from None


def _recoded(sets: Iterable[ListedRows], old: Iterable[SpaceAxis], new: Sequence[SpaceAxis]) -> Iterator[ListedRows]:
    """Listed sets by the variables and the numbers of other axes of the same names."""
    by_name = {axis.name: axis for axis in new}
    variables = {axis.var: by_name[axis.name].var for axis in old}
    codes = {
        axis.var: [by_name[axis.name].values.index(v) if v in by_name[axis.name].values else -1 for v in axis.values]
        for axis in old
        if axis.kind is LABELS
    }
    for one in sets:
        yield one.recoded(codes, variables)


def _restored(axes: tuple[SpaceAxis, ...], conditions: tuple[Cond, ...], listed: tuple[Any, ...], memory: int) -> Space:
    new = object.__new__(Space)
    new._fill(axes, conditions, listed, memory)
    return new


def _values_text(values: Sequence[SpaceValue]) -> str:
    if len(values) <= _SHOWN:
        return f"[{', '.join(map(repr, values))}]"
    return f"[{values[0]!r}, {values[1]!r}, …, {values[-1]!r}] ({len(values)})"
