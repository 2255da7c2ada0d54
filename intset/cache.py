"""A cache of answers on disk: the file `cache` of the configuration, off by default.

It keeps bounds, with their ends, tightness and notes, and decided proofs, with their counterexample: exact copies.
Certificates are searched on request, as for every answer. It keeps no sets, regions or unknown proofs, and no
answers with opaque terms, under a time limit, or while a domain is registered by a call.

The key is the text of ranges, facts and question, with variables numbered by first occurrence, the domain, the budgets,
and the versions of this library, its sources and dependencies. Rows are JSON with a checksum, in a table of sqlite3.

Guarantee: a damaged, locked or foreign cache file yields no answer, and never an error or a wrong answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache as remembered
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from intset.config import Config, has_registered
from intset.domains.sets.ends import Bounds
from intset.errors import IntSetError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, Node, Var, dag
from intset.expr.convert import from_json, to_json
from intset.installation import DISTRIBUTION, library_version

if TYPE_CHECKING:
    import sqlite3

    from intset.frame import Frame

STORED_BYTES: Final = 256 << 20  # bytes of a cache on disk; beyond it the older half of the answers goes

_BUDGETS = ("effort", "isl_operations", "points", "z3_rlimit", "tiers")
_ENDS: dict[str, Infinity] = {"-": NEG_INF, "+": POS_INF}


class StoredQuestion:
    """One question with its key and its cached row.

    Attributes
    ----------
    plain: the plain parts of the answer; `None` where the cache has none.
    nodes: its ends, or the terms of its counterexample.
    """

    def __init__(
        self, kind: str, scope: Frame, roots: Sequence[Expr | Cond], kept: Sequence[Var], config: Config
    ) -> None:
        self._path = config.cache
        self.plain: dict[str, Any] | None = None
        self.nodes: tuple[Any, ...] = ()
        terms: list[Expr | Cond | Infinity] = [*roots, *kept]
        for var, limits in scope.ranges.items():
            terms += (var, limits.min, limits.extent)
        terms += [*(fact.condition for fact in scope.facts), *scope.defined]
        nodes = [term for term in terms if not isinstance(term, Infinity)]
        self._variables: list[Var] = list(dag.free_vars(*nodes))
        self._key: bytes | None = None
        if config.z3_timeout_ms or has_registered() or dag.symbols(*nodes):
            return
        shape = [None if isinstance(term, Node) else _sign(term) for term in terms]
        provenances = [fact.provenance for fact in scope.facts]
        budgets = [getattr(config, name) for name in _BUDGETS]
        counts = [len(roots), len(kept), len(scope.ranges)]
        stated = [kind, config.domain, budgets, counts, shape, provenances, to_json(*nodes), *_versions()]
        self._key = hashlib.blake2b(json.dumps(stated).encode(), digest_size=24).digest()
        self._read()

    def _read(self) -> None:
        row = _store(self._path).get(self._key)
        if row is None:
            return
        try:
            answer = json.loads(row)
            variables = [self._variables[k] for k in answer["variables"]]
            nodes = iter(from_json(answer["nodes"], variables))
            self.nodes = tuple(_ENDS[sign] if sign else next(nodes) for sign in answer["signs"])
            self.plain = answer["plain"]
        except (ValueError, LookupError, TypeError, IntSetError, StopIteration):
            self.plain = None

    def keep(self, plain: Mapping[str, Any], nodes: Sequence[Expr | Infinity]) -> None:
        """Store an answer, unless it is cached already or mentions symbols foreign to the question."""
        ends = [node for node in nodes if isinstance(node, Node)]
        number = {var: k for k, var in enumerate(self._variables)}
        variables = dag.free_vars(*ends)
        if self._key is None or self.plain is not None or dag.symbols(*ends) or not number.keys() >= set(variables):
            return
        answer = {
            "plain": dict(plain),
            "variables": [number[var] for var in variables],
            "signs": ["" if isinstance(node, Node) else _sign(node) for node in nodes],
            "nodes": to_json(*ends),
        }
        _store(self._path).put(self._key, json.dumps(answer))

    def bounds(self) -> Bounds | None:
        """The stored answer as bounds."""
        if self.plain is None:
            return None
        low, high = self.nodes
        return Bounds(low, high, self.plain["is_tight"], self.plain["by"], tuple(self.plain["notes"]))

    def keep_bounds(self, answer: Bounds) -> None:
        self.keep({"is_tight": bool(answer.is_tight), "by": answer.by, "notes": list(answer.notes)}, answer)


def _sign(end: object) -> str:
    return "+" if end is POS_INF else "-"


@remembered
def _versions() -> tuple[str, ...]:
    """The versions on which answers depend; sources by their names, sizes and times."""
    from importlib import metadata

    found = [library_version(), *_sources()]
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        needed = []
    for name in (re.split(r"[^\w.-]", text)[0] for text in needed if "extra ==" not in text):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return tuple(found)


def _sources() -> Iterator[str]:
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        state = path.stat()
        yield f"{path.relative_to(folder)} {state.st_size} {state.st_mtime_ns}"


class _AnswerTable:
    """A table of answers in a file, for one thread of one process. Every error of sqlite3 is a missing answer."""

    def __init__(self, path: str) -> None:
        import sqlite3

        self._error: type[Exception] = sqlite3.Error
        self._database: sqlite3.Connection | None = None
        try:
            database = sqlite3.connect(path, timeout=1.0, isolation_level=None)
            database.execute("PRAGMA synchronous=OFF")
            (page,) = database.execute("PRAGMA page_size").fetchone()
            database.execute(f"PRAGMA max_page_count={STORED_BYTES // page}")
            columns = "key BLOB PRIMARY KEY, answer TEXT, checksum BLOB"
            database.execute(f"CREATE TABLE IF NOT EXISTS intset_answers ({columns})")
            self._database = database
        except self._error:
            return

    def get(self, key: bytes | None) -> str | None:
        if self._database is None:
            return None
        try:
            query = "SELECT answer, checksum FROM intset_answers WHERE key = ?"
            row = self._database.execute(query, (key,)).fetchone()
        except self._error:
            return None
        if row is None or not isinstance(row[0], str) or row[1] != _checksum(row[0]):
            return None
        return row[0]

    def put(self, key: bytes, answer: str) -> None:
        if self._database is None:
            return
        row = (key, answer, _checksum(answer))
        insert = "INSERT OR REPLACE INTO intset_answers VALUES (?, ?, ?)"
        try:
            self._database.execute(insert, row)
        except self._error as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_FULL":
                return
            with contextlib.suppress(self._error):
                middle = "SELECT (min(rowid) + max(rowid)) / 2 FROM intset_answers"
                self._database.execute(f"DELETE FROM intset_answers WHERE rowid <= ({middle})")
                self._database.execute(insert, row)


def _checksum(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_LOCAL = threading.local()


def _store(path: str) -> _AnswerTable:
    """The table of a file, opened once by each thread of each process: connections do not survive a fork."""
    key = (os.getpid(), os.path.abspath(path))
    tables: dict[tuple[int, str], _AnswerTable] = _LOCAL.__dict__.setdefault("tables", {})
    if key not in tables:
        tables[key] = _AnswerTable(key[1])
    return tables[key]
