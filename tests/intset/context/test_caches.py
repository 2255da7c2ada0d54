"""Caches of a context: freed with it, and exact copies on disk, in other processes too."""

import gc
import os
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from intset import Context, InputError, Range, ShapeVar, Var, select, using
from intset import cache as stored
from intset.prover.proof import PROOFS
from tests.intset.elsewhere import in_threads, ran
from tests.strategies.contexts import Drawn

QUESTIONS = 60
COUNT = "SELECT count(*) FROM intset_answers"


def asked(number: int) -> tuple[Context, Any, Any]:
    """A context with an expression and a condition, made anew: only the text is the same each time."""
    drawn = Drawn(f"caches {number}", "multiples quotients", "box sized", sizes=1, facts=30)
    return drawn.ctx, drawn.exprs[0], drawn.goals[0]


def shown(number: int, **choices: Any) -> tuple[object, ...]:
    """The whole answer to both questions, as text: names are the same each time."""
    PROOFS.clear()
    ctx, e, condition = asked(number)
    with using(**choices):
        b, p = ctx.bounds(e), ctx.prove(condition)
        point = None if p.counterexample is None else {v.name: k for v, k in p.counterexample.items()}
        used, requires = list(map(repr, p.used)), list(map(repr, p.requires))
        return repr(b), b.is_tight, b.by, b.notes, p.status, p.by, p.vacuous, point, p.reason, used, requires


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "answers.db")
    PROOFS.clear()


def test_answers_of_the_cache_are_copies(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [shown(k) for k in range(QUESTIONS)]
    assert {answer[4] for answer in plain} >= {"proved", "refuted"}
    assert [shown(k, cache=path) for k in range(QUESTIONS)] == plain
    kept = sqlite3.connect(path).execute(COUNT).fetchone()[0]
    assert kept > QUESTIONS
    hits = 0
    read = stored.StoredQuestion._read

    def counted(question: Any) -> None:
        nonlocal hits
        read(question)
        hits += question.plain is not None

    monkeypatch.setattr(stored.StoredQuestion, "_read", counted)
    assert [shown(k, cache=path) for k in range(QUESTIONS)] == plain
    assert hits >= kept and sqlite3.connect(path).execute(COUNT).fetchone()[0] == kept
    for k in range(10):
        ctx, e, condition = asked(k)
        PROOFS.clear()
        with using(cache=path):
            b, p = ctx.bounds(e), ctx.prove(condition)
            if b.is_tight:
                assert b.certificate().check(ctx)
            if p.status != "unknown":
                assert p.certificate().check(ctx)


@pytest.mark.parametrize("damage", ["text", "cut", "checksum", "json", "folder", "readonly"])
def test_damage_is_a_miss(damage: str, path: str) -> None:
    plain = [shown(k) for k in range(12)]
    assert [shown(k, cache=path) for k in range(12)] == plain
    other = f"{path}.other"
    data = Path(path).read_bytes()
    if damage == "text":
        Path(other).write_text("no database at all\n" * 400)
    elif damage == "cut":
        Path(other).write_bytes(data[: len(data) // 2] + b"\xff" * 999)
    elif damage == "folder":
        Path(other).mkdir()
    else:
        Path(other).write_bytes(data)
        with sqlite3.connect(other) as database:
            if damage == "checksum":
                database.execute("UPDATE intset_answers SET answer = replace(answer, '1', '2')")
            elif damage == "json":
                rows = database.execute("SELECT key FROM intset_answers").fetchall()
                texts = ["", "[]", "{}", "null", '{"plain": {}, "variables": [99], "nodes": {}, "signs": [""]}']
                for k, (key,) in enumerate(rows):
                    text = texts[k % len(texts)]
                    values = (text, stored._checksum(text), key)
                    database.execute("UPDATE intset_answers SET answer = ?, checksum = ? WHERE key = ?", values)
        database.close()
        if damage == "readonly":
            os.chmod(other, 0o400)
    assert [shown(k, cache=other) for k in range(12)] == plain


def test_the_size_is_bounded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "STORED_BYTES", 1 << 17)
    table = stored._AnswerTable(path)
    for k in range(500):
        table.put(b"%d" % k, "x" * 1000)
    assert Path(path).stat().st_size <= 1 << 17
    assert table.get(b"499") == "x" * 1000 and table.get(b"0") is None


PROGRAM = """
import sys
from tests.intset.context.test_caches import shown
for number in range(8):
    print(shown(number, cache=sys.argv[1]))
"""


def test_processes_share_a_cache(path: str) -> None:
    """Several at a time write the same answers, and a later one reads them."""

    texts = in_threads(lambda _: ran("-c", PROGRAM, path), 3)
    plain = "".join(f"{shown(k)}\n" for k in range(8))
    assert texts == [plain] * 3
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    before = sqlite3.connect(path).execute(COUNT).fetchone()
    assert ran("-c", PROGRAM, path) == plain and sqlite3.connect(path).execute(COUNT).fetchone() == before


def test_the_cache_is_a_setting(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTSET_CACHE", path)
    ctx, e, _ = asked(3)
    ctx.bounds(e)
    assert sqlite3.connect(path).execute(COUNT).fetchone()[0] >= 1
    for wrong in (3, None, b"x", "a\0b"):
        with pytest.raises(InputError, match="cache must name a file"):
            using(cache=wrong)


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from tests.intset.context.test_caches import shown
plain = [shown(k) for k in range(12)]
assert [shown(k, cache="/proc/nowhere/answers.db") for k in range(12)] == plain
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
assert [shown(k, cache=sys.argv[1]) for k in range(12)] == plain
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as a full disk does")
def test_a_full_disk_and_a_folder_that_is_none_are_misses(path: str) -> None:
    assert ran("-c", FULL, path) == ""
    assert Path(path).stat().st_size <= 20_000


i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)

CONTEXTS: dict[str, Callable[[], Context]] = {
    "ranges": lambda: Context({i: Range(0, 8), j: Range(0, 4)}),
    "facts": lambda: Context({i: Range(0, 8), j: Range(0, 4)}, assume=[i + j < 6]),
    "symbolic": lambda: Context({i: Range(0, n), j: Range(0, 4)}),
    "dependent": lambda: Context({i: Range(0, 8), j: Range(i, 4)}),
    "stated": lambda: Context.from_constraints([i, j], [i >= 0, i < n, j >= 0, j < 5]),
}


CYCLE_FREE: dict[str, Callable[[Context], Any]] = {
    "bounds": lambda ctx: ctx.bounds(i * 4 + j),
    "bounds by isl": lambda ctx: ctx.bounds(i * 4 + j, domain="isl"),
    "bounds where defined": lambda ctx: ctx.bounds(i // j),
    "certificate": lambda ctx: ctx.bounds(i * 4 + j).certificate(),
    "set": lambda ctx: ctx.value_set(i * 3 + j // 2),
    "set by isl": lambda ctx: ctx.value_set(i * 3 + j // 2, domain="isl"),
    "image": lambda ctx: ctx.image((i, i + j)).box,
    "image where defined": lambda ctx: ctx.image((i // j, i)),
    "proved": lambda ctx: ctx.prove(i < 9),
    "refuted": lambda ctx: ctx.prove(i < 3),
    "nonlinear": lambda ctx: ctx.prove(i * j * j * n >= 0),
    "simplify": lambda ctx: ctx.simplify(select(i < 3, j, i * 2)),
    "assuming": lambda ctx: ctx.assuming(i < 2)(ctx.bounds)(i + j),
    "fits": lambda ctx: ctx.fits(i * 4),
    "explain": lambda ctx: str(ctx.explain(i < 9)),
}


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collector")
@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_context_is_freed_when_it_is_dropped(kind: str) -> None:
    for name, ask in CYCLE_FREE.items():
        ctx = CONTEXTS[kind]()
        frames = [weakref.ref(ctx._root), weakref.ref(ctx._root.bounded)]
        ask(ctx)
        del ctx
        assert [ref() for ref in frames] == [None, None], name
