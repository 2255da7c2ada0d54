"""Blocks are active in the thread or task that entered them until their end, in any order."""

import asyncio
import contextvars
import copy
import gc
import pickle
import random
import weakref
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import strategies as st

import intset
from intset import Cond, Context, Fact, InputError, Range, ShapeVar, Var
from intset.config import current
from tests.intset.elsewhere import in_threads
from tests.sweeps import sampled

i = Var("i")
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


def test_threads_on_one_context_have_their_own_blocks() -> None:
    """A block that ends while others are entered leaves its fact in force nowhere."""
    contexts = [new_context(), new_context()]

    def work(seed: int) -> int:
        return Script(contexts).played(random.Random(seed).choices(range(10_000), k=30))

    assert sum(in_threads(work, 8)) > 80
    assert all(stated(ctx) == [] and upper(ctx) == SIZE - 1 for ctx in contexts)


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


def test_a_task_or_thread_started_in_a_block_does_not_have_its_facts() -> None:
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


def test_blocks_hold_nothing_alive() -> None:
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
