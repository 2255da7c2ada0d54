"""Text format of certificates: one JSON line with a node table, in which rows refer to earlier rows.

Variables carry label, declarations and uid: equal names stay distinct, and reading in the writing process yields the
same variables. Guarantee: reading builds nodes through the public constructors, and raises ParseError for text that no
program could have written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from intset.budgets import CHECK_BRANCH_NESTING
from intset.check import evidence as names
from intset.check.evidence import Combination, Premise, WeightedProduct
from intset.errors import InputError, ParseError
from intset.expr import Cond, Expr, Node, Range, ShapeVar, Var, const, dag, ops
from intset.expr.build import Opaque
from intset.expr.evaluate import as_width
from intset.expr.node import PlainVar, make, truth
from intset.facts import PROVENANCES, Fact
from intset.infinity import NEG_INF, POS_INF, Infinity

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

CHECK_NAME: Final = 10_000  # characters of a name

VERSION = 1
_PLAIN_BITS = 62  # longer numbers are hexadecimal: Python limits decimal digits
_CONDITIONS = {ops.SELECT: (Cond, Expr, Expr), ops.ASSERTING: (Cond, Expr), ops.NOT: (Cond,)}
_UNARY = (ops.NEG, ops.ABS, ops.BITNOT, ops.CAST)
_LEAVES = (ops.CONST, ops.VAR, ops.LOAD, ops.BOOL)


def text_of(cert: Certificate) -> str:
    """Write a certificate as one line."""
    writer = CertificateWriter()
    body = writer.certificate(cert)
    return dump({"certificate": VERSION, "nodes": writer.rows, **body})


def fields_of(text: str) -> dict[str, Any]:
    """Parse the fields of a certificate from a line; ParseError for malformed text."""
    table = load(text, "certificate")
    return CertificateReader(table.pop("nodes", None)).certificate(table)


def dump(table: Mapping[str, Any]) -> str:
    return json.dumps(table, separators=(",", ":"), ensure_ascii=True)


def load(text: str, what: str) -> dict[str, Any]:
    """Parse a line into its JSON object and check the version."""
    if not isinstance(text, str):
        raise ParseError(f"a {what} is read from text, not from {type(text).__name__}")
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise ParseError(f"this is not the text of a {what}") from None
    if not isinstance(table, dict) or type(table.get(what)) is not int or table.pop(what) != VERSION:
        raise ParseError(f"this is not the text of a {what} of version {VERSION}")
    return table


def is_a(what: str, text: str) -> bool:
    """Whether a line looks like a certificate of the kind `what`."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(table, dict) and what in table


# -- writing ------------------------------------------------------------------------------------------------------


class CertificateWriter:
    """Writes certificate parts, and collects the node table.

    Invariant: a row refers to earlier rows only.
    """

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._numbers: dict[Node, int] = {}

    def node(self, root: Node) -> int:
        for node in dag.postorder((root,)):
            if node not in self._numbers:
                row = self._row(node)
                self._numbers[node] = len(self.rows)
                self.rows.append(row)
        return self._numbers[root]

    def _row(self, node: Node) -> list[Any]:
        args = [self._numbers[arg] for arg in node.args]
        if isinstance(node, Var):
            declared = [None if end is None else number(end) for end in node.declared()]
            return ["var", node.name, list(node.uid), *([] if isinstance(node, PlainVar) else declared)]
        if node.op is ops.CONST:
            return ["const", number(node.data)]
        if node.op is ops.LOAD:
            symbol: Opaque = node.data
            ends = [None if end is None else number(end) for end in (symbol.lower, symbol.upper)]
            return ["load", args, symbol.name, list(symbol.uid), *ends]
        return [node.op.name, args] if node.data is None else [node.op.name, args, node.data]

    def end(self, end: Expr | Infinity) -> int | str:
        return self.node(end) if isinstance(end, Expr) else "+inf" if end is POS_INF else "-inf"

    def stated(self, facts: Sequence[Fact], ranges: Sequence[tuple[Var, Range]]) -> dict[str, Any]:
        return {
            "facts": [[self.node(fact.condition), fact.provenance] for fact in facts],
            "ranges": [[self.node(var), self.end(r.min), self.end(r.extent)] for var, r in ranges],
        }

    def certificate(self, cert: Certificate) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": cert.kind,
            "goal": self.node(cert.goal),
            "vacuous": cert.vacuous,
            **self.stated(cert.facts, cert.ranges),
        }
        evidence: dict[str, Callable[[], Any]] = {
            "linear": lambda: {"combinations": [self.combination(one) for one in cert.combinations]},
            "points": lambda: {"count": number(cert.count)},
            "point": lambda: {"point": [[self.node(e), number(value)] for e, value in cert.point.items()]},
        }
        return {**body, **evidence.get(cert.kind, lambda: {"text": cert.text})()}

    def combination(self, one: Combination) -> dict[str, Any]:
        table: dict[str, Any] = {"case": [self.node(cond) for cond in one.case]}
        if one.terms:
            table["terms"] = [
                [number(term.factor), *([names.REASONS.index(p.why), self.node(p.cond)] for p in term.premises)]
                for term in one.terms
            ]
        if one.divisors:
            table["divisors"] = [[self.node(divisor), self.combination(shown)] for divisor, shown in one.divisors]
        if one.on is not None:
            table["on"] = self.node(one.on)
            table["branches"] = [self.combination(branch) for branch in one.branches]
        return table


def number(value: int) -> int | str:
    return int(value) if value.bit_length() <= _PLAIN_BITS else hex(value)


# -- reading ------------------------------------------------------------------------------------------------------


def refuse(what: str) -> ParseError:
    return ParseError(f"the text of a certificate has {what}")


def read_number(value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        try:
            return int(value, 16)
        except ValueError:
            pass
    raise refuse("something else in the place of a number")


def optional(value: object) -> int | None:
    return None if value is None else read_number(value)


def read_list(value: object, least: int = 0, most: int | None = None) -> list[Any]:
    if not isinstance(value, list) or len(value) < least or (most is not None and len(value) > most):
        raise refuse("a list that is missing, too short or too long")
    return value


def read_name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= CHECK_NAME:
        raise refuse("a name that is none")
    return value


class CertificateReader:
    """Rebuilds nodes from a node table, and certificate parts from JSON values."""

    def __init__(self, rows: object) -> None:
        self.nodes: list[Node] = []
        for row in read_list(rows):
            self.nodes.append(self._made(read_list(row, 1)))

    def node(self, place: object, kind: type[Node]) -> Any:
        if type(place) is not int or not 0 <= place < len(self.nodes):
            raise refuse("a reference to no node before it")
        node = self.nodes[place]
        if not isinstance(node, kind):
            raise refuse("a condition and an integer exchanged, or something else in the place of a variable")
        return node

    def _made(self, row: list[Any]) -> Node:
        name = row[0]
        if name == "var":
            return _variable(row)
        if name == "const":
            return const(read_number(read_list(row, 2, 2)[1]))
        if name == "load":
            return self._load(read_list(row, 6, 6))
        if name == "bool":
            read_list(row, 3, 3)
            if row[1] != [] or not isinstance(row[2], bool):
                raise refuse("something else in the place of a truth value")
            return truth(row[2])
        op = ops.OPS.get(name) if isinstance(name, str) else None
        if op is None or op in _LEAVES:
            raise refuse("an operation that is not known")
        kinds = _argument_kinds(op)
        indices = read_list(read_list(row, 2, 3)[1], len(kinds), len(kinds))
        args = tuple(self.node(arg, kind) for arg, kind in zip(indices, kinds, strict=True))
        if op in ops.DIVISIONS and args[1].op is ops.CONST and args[1].data == 0:
            raise refuse("a division by the constant 0")
        node: Node = make(op, args, _payload(op, row[2] if len(row) == 3 else None))
        return node

    def _load(self, row: list[Any]) -> Expr:
        _, indices, name, uid, low, high = row
        args = tuple(self.node(arg, Expr) for arg in read_list(indices))
        sample = _legal(lambda: Opaque(read_name(name), len(args), optional(low), optional(high)))
        fields = (sample.name, sample.rank, sample.lower, sample.upper)
        symbol = Opaque.restored(*fields, _uid(uid))
        if not isinstance(symbol, Opaque) or (symbol.name, symbol.rank, symbol.lower, symbol.upper) != fields:
            raise refuse(f"the symbol {sample.name!r}, which is another in this process")
        load: Expr = make(ops.LOAD, args, symbol)
        return load

    def certificate(self, table: dict[str, Any]) -> dict[str, Any]:
        """The certificate fields of a table; ParseError for unknown fields."""
        kind, goal, vacuous = table.pop("kind", None), self.node(table.pop("goal", None), Cond), table.pop("vacuous", 0)
        if not isinstance(kind, str) or not isinstance(vacuous, bool):
            raise refuse("no kind, or no word on whether it is vacuous")
        stated = self.stated(table)
        evidence: dict[str, Any] = {}
        if "combinations" in table:
            rows = read_list(table.pop("combinations"))
            evidence["combinations"] = tuple(self._combination(one, 0) for one in rows)
        if "count" in table:
            evidence["count"] = read_number(table.pop("count"))
        if "point" in table:
            pairs = [read_list(row, 2, 2) for row in read_list(table.pop("point"))]
            evidence["point"] = {self.node(e, Expr): read_number(value) for e, value in pairs}
            if len(evidence["point"]) != len(pairs):
                raise refuse("a point with two values for one term")
        if "text" in table:
            evidence["text"] = table.pop("text")
        if table:
            raise refuse("a field that has no meaning")
        return {"kind": kind, "goal": goal, "vacuous": vacuous, **stated, **evidence}

    def stated(self, table: dict[str, Any]) -> dict[str, Any]:
        """Remove the facts and ranges from a table and parse them."""
        facts = tuple(self.fact(read_list(row, 2, 2)) for row in read_list(table.pop("facts", None)))
        ranges = tuple(self.limits(read_list(row, 3, 3)) for row in read_list(table.pop("ranges", None)))
        return {"facts": facts, "ranges": ranges}

    def fact(self, row: list[Any]) -> Fact:
        if row[1] not in PROVENANCES:
            raise refuse("a fact without provenance")
        return Fact(self.node(row[0], Cond), row[1])

    def limits(self, row: list[Any]) -> tuple[Var, Range]:
        low, extent = (self.end(end) for end in row[1:])
        return self.node(row[0], Var), _legal(lambda: Range(low, extent))

    def end(self, end: object) -> Expr | Infinity:
        if end in ("+inf", "-inf"):
            return POS_INF if end == "+inf" else NEG_INF
        node: Expr = self.node(end, Expr)
        return node

    def _combination(self, table: object, depth: int) -> Combination:
        if not isinstance(table, dict) or depth > CHECK_BRANCH_NESTING or table.keys() - _COMBINATION:
            raise refuse("something else in the place of a combination")
        case = tuple(self.node(cond, Cond) for cond in read_list(table.get("case")))
        terms = tuple(self._term(read_list(row, 1)) for row in read_list(table.get("terms", [])))
        shown = [read_list(row, 2, 2) for row in read_list(table.get("divisors", []))]
        divisors = tuple((self.node(e, Expr), self._combination(one, depth + 1)) for e, one in shown)
        on = self.node(table["on"], Cond) if "on" in table else None
        branches = tuple(self._combination(one, depth + 1) for one in read_list(table.get("branches", [])))
        return Combination(case, terms, divisors, on, branches)

    def _term(self, row: list[Any]) -> WeightedProduct:
        premises = [read_list(one, 2, 2) for one in row[1:]]
        for why, _ in premises:
            if type(why) is not int or not 0 <= why < len(names.REASONS):
                raise refuse("a premise without a reason")
        return WeightedProduct(
            read_number(row[0]), tuple(Premise(names.REASONS[why], self.node(cond, Cond)) for why, cond in premises)
        )


_COMBINATION = {"case", "terms", "divisors", "on", "branches"}


def _argument_kinds(op: ops.Op) -> tuple[type[Node], ...]:
    if op in _CONDITIONS:
        return _CONDITIONS[op]
    if op in (ops.AND, ops.OR):
        return (Cond, Cond)
    return (Expr,) if op in _UNARY else (Expr, Expr)


def _payload(op: ops.Op, data: object) -> Any:
    if op is ops.CAST:
        bits, signed = read_list(data, 2, 2)
        if type(bits) is not int or not isinstance(signed, bool):
            raise refuse("a cast to no width")
        return _legal(lambda: as_width(bits, "the width of a cast")), signed
    if data is None or (op is ops.ASSERTING and data == ops.SIZE):
        return data
    raise refuse("a payload that has no meaning")


def _variable(row: list[Any]) -> Var:
    name, uid = read_name(read_list(row, 3, 6)[1]), _uid(row[2])
    kind: type[Var] = PlainVar
    fields: dict[str, Any] = {}
    if len(row) > 3:
        low, high, step = (optional(value) for value in read_list(row, 6, 6)[3:])
        kind, fields = ShapeVar, _legal(lambda: ShapeVar(name, low, high, read_number(step))).fields()
    var = kind.created(name, uid, fields)
    if type(var) is not kind or var.name != name or var.fields() != fields:
        raise refuse(f"the variable {name!r}, which is another in this process")
    return var


def _uid(value: object) -> tuple[int, int]:
    token, count = read_list(value, 2, 2)
    if type(token) is not int or type(count) is not int or token < 0 or count < 0:
        raise refuse("a variable without a number")
    return token, count


def _legal(made: Callable[[], Any]) -> Any:
    """The result of a constructor call, with InputError turned into ParseError."""
    try:
        return made()
    except ParseError:
        raise
    except InputError as error:
        raise ParseError(str(error)) from None
