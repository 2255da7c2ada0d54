"""Caches of a context: freed with it, and exact copies on disk, in other processes too. Blocks are active in the thread
or task that entered them until their end, in any order.
"""

import asyncio
import contextvars
import copy
import gc
import os
import pickle
import random
import signal
import sqlite3
import sys
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import intset
from intset import Cond, Context, Fact, InputError, Range, ShapeVar, Var, select, using
from intset import cache as stored
from intset.config import current
from intset.prover.proof import PROOFS
from tests.intset.elsewhere import forked, in_threads, ran
from tests.strategies.contexts import Drawn
from tests.sweeps import sampled

i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)

QUESTIONS = 45
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
    """Two at a time write the same answers, and this one reads them."""
    texts = in_threads(lambda _: ran("-c", PROGRAM, path), 2)
    plain = "".join(f"{shown(k)}\n" for k in range(8))
    assert texts == [plain] * 2
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    before = sqlite3.connect(path).execute(COUNT).fetchone()
    assert [shown(k, cache=path) for k in range(8)] == [shown(k) for k in range(8)]
    assert sqlite3.connect(path).execute(COUNT).fetchone() == before


def test_the_cache_is_a_setting(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTSET_CACHE", path)
    ctx, e, _ = asked(3)
    ctx.bounds(e)
    assert sqlite3.connect(path).execute(COUNT).fetchone()[0] >= 1
    for wrong in (3, None, b"x", "a\0b"):
        with pytest.raises(InputError, match="cache must name a file"):
            using(cache=wrong)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as a full disk does")
def test_a_full_disk_and_a_folder_that_is_none_are_misses(path: str) -> None:
    import resource

    def same() -> bool:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        plain = [shown(k) for k in range(12)]
        is_same = [shown(k, cache="/proc/nowhere/answers.db") for k in range(12)] == plain
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        return is_same and [shown(k, cache=path) for k in range(12)] == plain

    assert forked(same) is True
    assert Path(path).stat().st_size <= 20_000


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


# -- blocks -----------------------------------------------------------------------------------------------------------


SIZE = 64


def new_context() -> Context:
    return Context({i: Range(0, SIZE)})


def stated(ctx: Context) -> list[Cond]:
    return [fact.condition for fact in ctx.facts]


def upper(ctx: Context) -> int:
    """The maximum of `i`, equal in every kind of query."""
    high = int(ctx.bounds(i)[1])
    assert ctx.prove(i <= high) and not ctx.prove(i < high)
    assert ctx.value_set(i).count() == high + 1
    return high


class Script:
    """Interprets a list of numbers as entering and leaving blocks, and checks the active facts at each step."""

    def __init__(self, contexts: list[Context]) -> None:
        self.contexts, self.open, self.steps = contexts, list[tuple[Context, Cond, Generator[None]]](), 0

    def step(self, choice: int) -> None:
        if self.open and choice % 3 == 0:
            _, _, block = self.open.pop(choice // 3 % len(self.open))
            with pytest.raises(KeyError) if choice % 2 else ExitStack():
                block.throw(KeyError) if choice % 2 else block.close()
        else:
            self.steps += 1
            ctx, fact = self.contexts[choice % len(self.contexts)], i < SIZE - choice % 40 - 1
            block = inside(ctx, fact)
            next(block)
            self.open.append((ctx, fact, block))
        self.check()

    def check(self) -> None:
        for ctx in self.contexts:
            facts = [fact for other, fact, _ in self.open if other is ctx]
            assert stated(ctx) == facts
            assert upper(ctx) == min([SIZE - 1, *(fact.args[1].data - 1 for fact in facts)])

    def finish(self) -> int:
        while self.open:
            self.step(0)
        return self.steps

    def played(self, steps: Iterable[int]) -> int:
        for choice in steps:
            self.step(choice)
        return self.finish()


def inside(ctx: Context, fact: Cond) -> Generator[None]:
    with ctx.assuming(fact) as entered:
        assert entered is ctx
        yield


choices = st.lists(st.integers(0, 10_000), max_size=12)


@sampled(40, 100, choices)
def test_blocks_end_in_any_order(steps: list[int]) -> None:
    script = Script([new_context(), new_context()])
    script.played(steps)
    assert all(stated(ctx) == [] and upper(ctx) == SIZE - 1 for ctx in script.contexts)


def test_threads_on_one_context_have_their_own_blocks_which_hold_nothing_alive() -> None:
    # A block that ends while others are entered leaves its fact in force nowhere.
    contexts = [new_context(), new_context()]

    def work(seed: int) -> int:
        return Script(contexts).played(random.Random(seed).choices(range(10_000), k=30))

    assert sum(in_threads(work, 8)) > 80
    assert all(stated(ctx) == [] and upper(ctx) == SIZE - 1 for ctx in contexts)
    ctx = new_context()
    blocks = [inside(ctx, i < 4), inside(ctx, i < 5)]
    for block in blocks:
        next(block)
    for block in blocks:
        block.close()
    gone = weakref.finalize(ctx._root, lambda: None)
    del ctx, blocks, block
    gc.collect()
    assert not gone.alive


def test_tasks_on_one_context_have_their_own_blocks() -> None:
    contexts = [new_context(), new_context()]

    async def work(seed: int) -> int:
        script = Script(contexts)
        for choice in random.Random(seed).choices(range(10_000), k=30):
            script.step(choice)
            await asyncio.sleep(0)
            script.check()
        return script.finish()

    async def main() -> list[int]:
        return await asyncio.gather(*(work(seed) for seed in range(8)))

    assert sum(asyncio.run(main())) > 80
    assert all(stated(ctx) == [] for ctx in contexts)
    ctx, seen = new_context(), list[int]()

    async def child() -> int:
        return upper(ctx)

    async def main() -> None:
        with ctx.assuming(i < 5):
            seen.append(await asyncio.create_task(child()))
            seen.append(await asyncio.to_thread(upper, ctx))
            assert upper(ctx) == 4

    asyncio.run(main())
    assert seen == [SIZE - 1, SIZE - 1]


def test_a_block_that_is_left_elsewhere_or_dropped_has_ended() -> None:
    # In another thread, and in another context of `contextvars`.
    ctx = new_context()
    block = inside(ctx, i < 4)
    next(block)
    assert upper(ctx) == 3
    in_threads(lambda _: block.close(), 1)
    assert upper(ctx) == SIZE - 1 and stated(ctx) == []
    block = inside(ctx, i < 4)
    elsewhere = contextvars.copy_context()
    elsewhere.run(next, block)
    assert upper(ctx) == SIZE - 1 and elsewhere.run(upper, ctx) == 3
    block.close()
    assert elsewhere.run(upper, ctx) == SIZE - 1
    ctx = new_context()
    dropped = ctx.assuming(i < 4)
    assert dropped.__enter__() is ctx
    assert upper(ctx) == 3
    del dropped  # simulates an interrupt between entry and body
    gc.collect()
    assert upper(ctx) == SIZE - 1 and stated(ctx) == []


def test_blocks_are_entered_again_and_decorate_functions() -> None:
    ctx = new_context()
    block = ctx.assuming(i < 4)
    for _ in range(2):
        with block:
            assert upper(ctx) == 3
            with pytest.raises(InputError, match="has not ended"), block:
                pytest.fail("it was entered")
            assert upper(ctx) == 3
        assert upper(ctx) == SIZE - 1
    ctx = new_context()

    @ctx.assuming(i < 9)
    @intset.using(points=17)
    def deep(levels: int) -> list[tuple[int, int]]:
        here = (len(ctx.facts), current().points)
        return [here, *deep(levels - 1), here] if levels else [here]

    assert deep(1) == [(1, 17), (2, 17), (1, 17)]
    assert deep(0) == [(1, 17)] and stated(ctx) == [] and current().points != 17


def test_what_is_made_inside_a_block_keeps_its_facts() -> None:
    ctx, k = new_context(), Var("k")
    with ctx.assuming(i < 4), ctx.assuming(Fact(i > 1, "asserted")):
        facts = ctx.facts
        made = [ctx.extended({k: Range(0, 2)}), ctx.renamed({k: i})]
        made += [pickle.loads(pickle.dumps(ctx)), copy.copy(ctx), copy.deepcopy(ctx)]
    assert stated(ctx) == []
    for other in made:
        assert other.facts[:2] == facts
        assert other.bounds(i) == (2, 3)
        with other.assuming(i < 3):
            assert other.bounds(i) == (2, 2) and stated(ctx) == []
        assert other.bounds(i) == (2, 3)


# -- configuration, by the same mechanism ---------------------------------------------------------------------------


@sampled(40, 100, choices)
def test_configuration_blocks_end_in_any_order(steps: list[int]) -> None:
    ambient, entered = current(), list[tuple[dict[str, Any], Any]]()
    for choice in (*steps, *[0] * len(steps)):
        if entered and choice % 3 == 0:
            entered.pop(choice // 3 % len(entered))[1].__exit__(None, None, None)
        elif choice:
            wanted = {["points", "isl_operations"][choice % 2]: choice}
            block = intset.using(**wanted)
            block.__enter__()
            entered.append((wanted, block))
        expected = {"points": ambient.points, "isl_operations": ambient.isl_operations}
        for wanted, _ in entered:
            expected |= wanted
        now = current()
        assert {"points": now.points, "isl_operations": now.isl_operations} == expected
        assert now is current(), "it serves as a key"
    assert current() is ambient


def test_configuration_is_inherited_by_tasks_and_not_by_threads() -> None:
    async def child(told: asyncio.Event) -> list[int]:
        before = current().points
        await told.wait()
        return [before, current().points]

    async def main() -> list[int]:
        told = asyncio.Event()
        with intset.using(points=5):
            task = asyncio.create_task(child(told))
            await asyncio.sleep(0)
        told.set()
        return await task

    assert asyncio.run(main()) == [5, current().points]
    default = current().points
    with intset.using(points=5):
        assert set(in_threads(lambda _: current().points, 4)) == {default}
        assert current().points == 5


@pytest.mark.parametrize("kind", ["plain", "size", "stated"])
def test_a_namesake_of_a_variable_is_named(kind: str) -> None:
    i, n = Var("i"), ShapeVar("n", lower=1)
    ctx = Context({i: Range(0, 8)}, assume=[i < n])
    own, other = {"plain": (i, Var("i")), "size": (n, ShapeVar("n")), "stated": (n, Var("n"))}[kind]
    answers = [
        (ctx.bounds(own * 2), ctx.bounds(other * 2)),
        (ctx.value_set(own + i), ctx.value_set(other + i)),
        (ctx.image((own, i)), ctx.image((other, i))),
        (ctx.prove(own < 9), ctx.prove(other < 9)),
    ]
    for alone, about_other in answers:
        for answer in (about_other, pickle.loads(pickle.dumps(about_other))):
            assert sum("another variable" in note for note in answer.notes) == 1, answer
            assert "another variable" in repr(answer)
        assert "another variable" not in repr(alone) and not any("another" in note for note in alone.notes)
    unrelated = ctx.bounds(Var("j") + i)
    assert unrelated.notes == () and "another" not in repr(unrelated)
