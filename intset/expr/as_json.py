"""Expressions as JSON: `to_json` and `from_json`. The format is `docs/schemas/expression.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import listed, refusal
from intset.expr.build import Opaque
from intset.expr.dag import free_vars, postorder, symbols
from intset.expr.evaluate import as_width
from intset.expr.node import Cond, Expr, Node, ShapeVar, Var, const, divide, make, truth
from intset.expr.printer import shown

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
FORMAT: Final = "intset.expression"
VERSION: Final = 1


def to_json(*roots: Expr | Cond) -> dict[str, Json]:
    """Expressions and conditions as a table that `json.dumps` writes, shared nodes once.

    Variables and opaque symbols are numbered by first occurrence: equal structure gives equal text, in every process.

    >>> from intset import Var, to_json
    >>> to_json(Var("i") + 1)["nodes"]
    [{'op': 'var', 'variable': 0}, {'op': 'const', 'value': 1}, {'op': 'add', 'args': [0, 1]}]
    """
    for root in roots:
        if not isinstance(root, Node):
            raise refusal("an argument of to_json", "an expression or a condition", root)
    variables, opaques = free_vars(*roots), symbols(*roots)
    variable_number = {var: k for k, var in enumerate(variables)}
    symbol_number = {symbol: k for k, symbol in enumerate(opaques)}
    number: dict[Node, int] = {}
    nodes: list[Json] = []
    for node in postorder(roots):
        number[node] = len(nodes)
        row: dict[str, Json] = {"op": node.op.name}
        if node.op is ops.VAR and isinstance(node, Var):
            row["variable"] = variable_number[node]
        elif node.op in (ops.CONST, ops.BOOL):
            row["value"] = node.data
        elif node.op is ops.LOAD:
            row["symbol"] = symbol_number[node.data]
        elif node.op is ops.CAST:
            row["bits"], row["signed"] = node.data
        elif node.data is not None:
            row["data"] = node.data
        if node.args:
            row["args"] = [number[arg] for arg in node.args]
        nodes.append(row)
    return {
        "format": FORMAT,
        "version": VERSION,
        "variables": [{"name": var.name, **cast("dict[str, Json]", var.fields())} for var in variables],
        "symbols": [{"name": s.name, "rank": s.rank, "lower": s.lower, "upper": s.upper} for s in opaques],
        "nodes": nodes,
        "roots": [number[root] for root in roots],
    }


def from_json(
    table: Mapping[str, object], variables: Mapping[str, Var] | Sequence[Var] | None = None
) -> tuple[Expr | Cond, ...]:
    """The expressions and conditions that `to_json` wrote, one for each root.

    Parameters
    ----------
    table: what `json.loads` read.
    variables: variables for the names, as a mapping, or one for each row of "variables", as a sequence. A variable
        missing from the mapping is created.

    Raises
    ------
    InputError: the table is no such table; the message names the row.

    >>> from intset import Var, from_json, to_json
    >>> i = Var("i")
    >>> from_json(to_json(i + 1), [i])[0] is i + 1
    True
    """
    if not isinstance(table, Mapping) or table.get("format") != FORMAT:
        raise refusal("what from_json reads", f'a table with "format": "{FORMAT}"', table)
    if table.get("version") != VERSION:
        raise InputError(f"from_json reads version {VERSION}, not {shown(table.get('version'))}")
    known = _NodeTable(_variables(_rows(table, "variables"), variables), _symbols(_rows(table, "symbols")))
    for k, row in enumerate(_rows(table, "nodes")):
        known.read(k, row)
    roots = table.get("roots")
    return tuple(known.node(k, "a root") for k in (roots if isinstance(roots, list) else [roots]))


def _rows(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = table.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError(f'"{name}" must be a list of tables')
    return rows


def _variables(rows: list[Mapping[str, Any]], given: Mapping[str, Var] | Sequence[Var] | None) -> list[Var]:
    if given is not None and not isinstance(given, Mapping):
        given = listed(given, "the variables", "a mapping or a list of variables")
    if given is not None and not isinstance(given, Mapping) and len(given) != len(rows):
        raise InputError(f"{len(rows)} variables are needed, not {len(given)}")
    variables: list[Var] = []
    names = [row.get("name") for row in rows]
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        if not isinstance(name, str):
            raise InputError(f"variable {k} has no name")
        if isinstance(given, Mapping) and name in given and names.count(name) > 1:
            raise InputError(f"{names.count(name)} variables have the name {name!r}: give the variables as a list")
        known = None if given is None else given.get(name) if isinstance(given, Mapping) else given[k]
        if known is None:
            fields = {field: row[field] for field in ("lower", "upper", "multiple_of") if field in row}
            known = ShapeVar(name, **fields) if fields else Var(name)
        elif not isinstance(known, Var):
            raise InputError(f"a variable for {name!r} must be a Var, not {shown(known)}")
        variables.append(known)
    return variables


def _symbols(rows: list[Mapping[str, Any]]) -> list[Opaque]:
    return [Opaque(row.get("name", ""), row.get("rank", 0), row.get("lower"), row.get("upper")) for row in rows]


class _NodeTable:
    """The nodes read so far; each row may use earlier rows alone."""

    def __init__(self, variables: list[Var], symbols: list[Opaque]) -> None:
        self.variables, self.symbols = variables, symbols
        self.nodes: list[Expr | Cond] = []

    def node(self, k: object, what: str) -> Expr | Cond:
        if type(k) is not int or not 0 <= k < len(self.nodes):
            raise InputError(f"{what} must be the number of an earlier node, not {shown(k)}")
        return self.nodes[k]

    def read(self, k: int, row: Mapping[str, Any]) -> None:
        """Append the node of row `k`."""
        name = row.get("op")
        op = ops.OPS.get(name) if isinstance(name, str) else None
        args, where = row.get("args", []), f"node {k}"
        if op is None:
            raise InputError(f"{where} has the unknown operation {shown(name)}")
        if not isinstance(args, list):
            raise InputError(f"the args of {where} must be a list")
        operands = tuple(self.node(arg, f"an operand of {where}") for arg in args)
        if op.operands is not None and [kind_letter(arg) for arg in operands] != list(op.operands):
            raise InputError(f"{where} is {op.name} and has other operands than {shown(op.operands)}")
        self.nodes.append(self._made(op, operands, row, where))

    def _made(self, op: ops.Op, operands: tuple[Any, ...], row: Mapping[str, Any], where: str) -> Expr | Cond:
        if op is ops.CONST:
            return const(row.get("value"))  # type: ignore[arg-type]  # checked there
        if op is ops.BOOL:
            return truth(_exact(row.get("value"), bool, where))
        if op is ops.VAR:
            return self.variables[_index(row.get("variable"), self.variables, where)]
        if op is ops.LOAD:
            return self.symbols[_index(row.get("symbol"), self.symbols, where)](*operands)
        if op in ops.DIVISIONS:
            return divide(op, *operands)
        data: tuple[int, bool] | str | None = None
        if op is ops.CAST:
            data = (as_width(row.get("bits"), f"bits of {where}"), _exact(row.get("signed"), bool, where))
        elif op is ops.ASSERTING and row.get("data") is not None:
            data = ops.SIZE
        made: Expr | Cond = make(op, operands, data)
        return made


def kind_letter(node: Expr | Cond) -> str:
    """The letter of a node's kind in `Op.operands`."""
    return "c" if isinstance(node, Cond) else "i"


def _exact(value: object, kind: type[bool], where: str) -> bool:
    if type(value) is not kind:
        raise InputError(f"the value of {where} must be true or false, not {shown(value)}")
    return value


def _index(value: object, rows: Sequence[object], where: str) -> int:
    if type(value) is not int or not 0 <= value < len(rows):
        raise InputError(f"{where} names no row: {shown(value)}")
    return value
