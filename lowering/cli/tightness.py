"""The report of `intset compare --report`: a row for each question and each domain or peer, as Parquet and HTML."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from string import Template
from typing import Any, Final

from intset import InputError
from lowering.cli.reports import JsonObject, duration, percent
from lowering.explore.dataset import MAX_INT64, arrow_schema, require

Row = dict[str, Any]
COLUMNS: Final = {
    "file": "string",
    "question": "int64",  # the row of a corpus, the tensor of a schedule, from 0
    "source": "string",  # the operator, or the schedule
    "kind": "string",  # "index", "sized index", "region"
    "asked": "string",  # the expression, or the tensor
    "domain": "string",  # the domain, or the peer
    "is_peer": "bool",
    "low": "string",
    "high": "string",
    "true_low": "int64",
    "true_high": "int64",
    "elements": "int64",  # of a region, in one instance
    "allocated": "int64",
    "ratio": "double",  # the size of the answer's hull or region, divided by the true size; 1 is tight
    "is_tight": "bool",  # found by the comparison, not claimed; null where the truth is not known
    "is_claimed": "bool",
    "by": "string",
    "notes": "string",
    "refused": "string",
    "wrong": "string",
    "seconds": "double",
}


def write_report(reports: Sequence[JsonObject], folder: Path) -> tuple[Path, int]:
    """Write `tightness.parquet` and `tightness.html` from the reports of `compare`; the page and the number of rows.

    Raises
    ------
    InputError: pyarrow is not installed, or the folder cannot be written.
    """
    pa, parquet = require("pyarrow"), require("pyarrow.parquet")
    rows = [{**dict.fromkeys(COLUMNS), **row} for report in reports for row in rows_of(report)]
    schema = arrow_schema(COLUMNS.items())
    page = folder / "tightness.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "tightness.parquet").open("wb") as sink:
            parquet.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
        page.write_text(page_of(rows), encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"--report: {folder} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return page, len(rows)


def rows_of(report: JsonObject) -> Iterator[Row]:
    """The rows of one file's report."""
    if report["kind"] == "corpus":
        for is_peer, answerers in ((False, report["domains"]), (True, report.get("peers", []))):
            for answerer in answerers:
                told = {"file": report["file"], "domain": answerer["domain"], "is_peer": is_peer}
                yield from ({**told, **_index_row(score, is_peer)} for score in answerer["index"])
                for score in answerer["sized"]:
                    tight = score["attained"] == score["samples"] if score["samples"] else None
                    yield {**told, **_asked(score), "kind": "sized index", "is_tight": tight}
        return
    for schedule in report["schedules"]:
        for number, tensor in enumerate(schedule.get("tensors", ())):
            told = {"file": report["file"], "source": schedule["name"], "question": number}
            yield from ({**told, **row} for row in _region_rows(tensor))


def _asked(score: Mapping[str, Any]) -> Row:
    told = {name: score[name] for name in ("low", "high", "by", "seconds")}
    told |= {"question": score["row"], "source": score["op"], "asked": score["expr"], "is_claimed": score["tight"]}
    return told | {"wrong": "; ".join(score["violations"]) or None}


def _index_row(score: Mapping[str, Any], is_peer: bool) -> Row:
    low, high = score["truth"] or (None, None)
    row = _asked(score) | {"kind": "index", "true_low": _fitting(low), "true_high": _fitting(high)}
    row |= {"ratio": score["ratio"], "notes": "; ".join(score["notes"]) or None, "is_tight": score["ratio"] == 1}
    if is_peer and not score["by"]:
        row |= {"refused": row["notes"], "notes": None, "low": None, "high": None, "is_tight": None}
    if score["truth"] is None:  # an empty set
        row["is_tight"] = score["low"] == "POS_INF"
    return row | ({"is_claimed": None} if is_peer else {})


def _region_rows(tensor: Mapping[str, Any]) -> Iterator[Row]:
    """The regions of a tensor; where a domain's is exact, its size is the true one."""
    domains = tensor["domains"]
    exact = [_fitting(found["required_max"]) for found in domains.values() if found.get("is_exact")]
    true = next((count for count in exact if count is not None), None)
    for domain, found in domains.items():
        elements = _fitting(found.get("required_max"))
        ratio = None if elements is None or not true else elements / true
        yield {
            "kind": "region",
            "asked": tensor["tensor"],
            "domain": domain,
            "is_peer": False,
            "elements": elements,
            "allocated": _fitting(found.get("allocated")),
            "ratio": ratio,
            "is_tight": None if ratio is None else ratio == 1,
            "is_claimed": found.get("is_exact"),
        }


def _fitting(value: object) -> int | None:
    return value if isinstance(value, int) and -MAX_INT64 <= value < MAX_INT64 else None


# -- the page -----------------------------------------------------------------------------------------------------

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Tightness of bounds</title>
<style>
body { font: 14px sans-serif; margin: 2em; color: #1b1f24 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: 2px 8px; border-bottom: 1px solid #d8dde2; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
td.text { font-family: monospace; max-width: 40em; overflow-wrap: anywhere }
tr.wide td { background: #fcebdb }
tr.wrong td { background: #f6c9c9 }
</style>
<h1>Tightness of bounds</h1>
<p>A ratio is the size of an answer over that of the true set, 1 where it is tight. Shaded rows are not tight; red ones
are wrong. The same rows, with all columns, are in <a href="tightness.parquet">tightness.parquet</a>.</p>
$summary
<h2>Questions</h2>
$questions
</html>
""")


def page_of(rows: Sequence[Row]) -> str:
    """The page: a line for each domain and peer, then every row."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["domain"]), []).append(row)
    heads = ("kind", "domain or peer", "questions", "refused", "tight", "mean ratio", "wrong", "seconds")
    summary = _table(heads, (("", _summed(kind, domain, group)) for (kind, domain), group in groups.items()))
    shown = ("question", "source", "kind", "asked", "domain", "low", "high", "ratio", "by", "notes", "refused", "wrong")
    order = sorted(rows, key=lambda row: (row["file"], row["source"], row["question"], row["kind"]))
    questions = []
    for row in order:
        kind = "wrong" if row["wrong"] else "wide" if row["is_tight"] is False else ""
        size = {"high": row["elements"]} if row["kind"] == "region" else {}  # the ends of a region are its number
        questions.append((kind, [{**row, **size}[name] for name in shown]))
    return _PAGE.substitute(summary=summary, questions=_table(shown, questions))


def _summed(kind: str, domain: str, rows: Sequence[Row]) -> list[object]:
    answered = [row for row in rows if row["refused"] is None]
    known = [row["is_tight"] for row in answered if row["is_tight"] is not None]
    ratios = [row["ratio"] for row in answered if row["ratio"] is not None]
    return [
        kind,
        domain,
        len(rows),
        len(rows) - len(answered),
        percent(sum(known) / len(known) if known else None),
        f"{fmean(ratios):.3f}" if ratios else "-",
        sum(row["wrong"] is not None for row in rows),
        duration(sum(row["seconds"] or 0 for row in rows)),
    ]


def _table(heads: Sequence[str], rows: Iterable[tuple[str, Sequence[object]]]) -> str:
    head = "".join(f"<th>{escape(name)}" for name in heads)
    lines = [f'<tr class="{kind}">{"".join(map(_cell, cells))}' for kind, cells in rows]
    return "\n".join([f"<table>\n<tr>{head}", *lines, "</table>"])


def _cell(value: object) -> str:
    if isinstance(value, float):
        value = f"{value:.4g}"
    kind = "number" if not isinstance(value, str) or value[:1].isdecimal() else "text"
    return f'<td class="{kind}">{"" if value is None else escape(str(value))}'
