"""Certificates of bounds as text, one a line, and back; as `text.py` does it for their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from intset.check.certificate import Certificate
from intset.check.text import VERSION, Reader, Writer, dump, load, number, read_list, read_number, refuse
from intset.check.wellformed import is_well_formed
from intset.errors import ParseError
from intset.expr.node import Expr, Var

if TYPE_CHECKING:
    from intset.check.ends import At, BoundsCertificate

KEY = "bounds"
_PARTS = ("lower", "upper", "attained lower", "attained upper", "empty")


def bounds_text(cert: BoundsCertificate) -> str:
    """The certificate as one line."""
    writer = Writer()
    parts = zip(_PARTS, (cert.lower, cert.upper, *cert.attained, cert.empty), strict=True)
    body: dict[str, Any] = {
        "expr": writer.node(cert.expr),
        "ends": [writer.end(cert.low), writer.end(cert.high)],
        "keep": [writer.node(var) for var in cert.keep],
        **writer.stated(cert.facts, cert.ranges),
        "at lower": _point(writer, cert.at_lower),
        "at upper": _point(writer, cert.at_upper),
        **{name: writer.certificate(part) for name, part in parts if part is not None},
    }
    return dump({KEY: VERSION, "nodes": writer.rows, **body})


def _point(writer: Writer, at: At | None) -> list[list[Any]] | None:
    """Each entry has a number, or in a list of its own the expression that is the value."""
    if at is None:
        return None
    values = [[writer.node(value)] if isinstance(value, Expr) else number(value) for value in at.values()]
    return [[writer.node(e), value] for e, value in zip(at, values, strict=True)]


def bounds_fields(text: str) -> dict[str, Any]:
    """The fields of the certificate that a line of text is; `ParseError` when it is none."""
    table = load(text, KEY)
    reader = Reader(table.pop("nodes", None))
    low, high = (reader.end(end) for end in read_list(table.pop("ends", None), 2, 2))
    keep = tuple(reader.node(place, Var) for place in read_list(table.pop("keep", None)))
    fields = {"expr": reader.node(table.pop("expr", None), Expr), "low": low, "high": high, "keep": keep}
    fields |= reader.stated(table)
    at = [_read_point(reader, table.pop(name, None)) for name in ("at lower", "at upper")]
    lower, upper, first, last, empty = (_part(reader, table.pop(name, None)) for name in _PARTS)
    if table:
        raise refuse("a field that has no meaning")
    parts = {"lower": lower, "upper": upper, "attained": (first, last), "empty": empty}
    return {**fields, **parts, "at_lower": at[0], "at_upper": at[1]}


def _part(reader: Reader, table: object) -> Certificate | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise refuse("something else in the place of a part")
    found = Certificate(**reader.certificate(table))
    if not is_well_formed(found):
        raise ParseError("the fields of a part do not fit its kind")
    return found


def _read_point(reader: Reader, rows: object) -> At | None:
    if rows is None:
        return None
    found: dict[Expr, int | Expr] = {}
    for row in read_list(rows):
        place, value = read_list(row, 2, 2)
        e = reader.node(place, Expr)
        if e in found:
            raise refuse("a point with two values for one term")
        found[e] = reader.node(read_list(value, 1, 1)[0], Expr) if isinstance(value, list) else read_number(value)
    return found
