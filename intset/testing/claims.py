"""Random contexts with dependent and empty ranges: every claim of every kind of answer, held against enumeration.

Beside what `intset.testing.held` asks of each answer alone:

- sets are ordered rightly: beside the empty sets of other domains, beside themselves, joined and met with others;
- claims hold together: bounds, set, proofs and counts of one expression say the same of it, also where sizes are larger
  than what is enumerated;
- facts of blocks (`assuming`) hold while their block lasts, whatever order blocks end in;
- an answer is the same after hard questions, and in another order of questions.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from intset.config import using
from intset.context import Context
from intset.domains.sets.base import Bounds, IntSet, empty_set
from intset.errors import BudgetError, ContradictionWarning
from intset.expr.arguments import listed
from intset.expr.build import truncmod
from intset.expr.node import Cond, Expr, Var, as_int
from intset.expr.range import Range
from intset.names import check_name
from intset.testing.contexts import Setting, setting
from intset.testing.held import FalseClaimError, Held
from intset.testing.report import Report

DOMAINS = ("auto", "interval", "stride", "modular", "interval*modular", "points", "isl", "interval*isl")
HARD_RLIMIT = 60_000  # what z3 may spend on a question that is hard


def claims(count: int = 100, seed: int = 0, domains: Sequence[str] = (), thorough: bool = False) -> Report:
    """Put every kind of question to `count` random contexts, and hold each claim against enumeration.

    Parameters
    ----------
    count, seed: the contexts with the numbers `seed` to `seed + count - 1`, the same on every machine.
    domains: the domains to ask; by default each context asks one of `DOMAINS`, every second time `auto`.
    thorough: ask every domain for everything, instead of bounds, the set and one thing more.

    The report's `wrong` names each false claim with its context.

    >>> claims(20, domains=["interval"]).wrong
    []
    """
    names = [check_name(name, "domains") for name in listed(domains, "domains", "a list of names")]
    report = Report(", ".join(names) or "any")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        for number in range(as_int(seed, "seed"), seed + as_int(count, "count")):
            drawn = setting(number)
            if drawn is None:
                report.tally["too large"] += 1
                continue
            report.tally["contexts"] += 1
            report.tally["with points"] += bool(drawn.points)
            try:
                _ask(drawn, names, thorough, report.tally)
            except FalseClaimError as false:
                report.wrong.append(str(false))
            except Exception as error:  # a domain must not raise, whatever it is asked
                report.wrong.append(f"raises {type(error).__name__}: {error} in {drawn.text()}")
    return report


def _ask(drawn: Setting, domains: Sequence[str], thorough: bool, tally: Counter[str]) -> None:
    rng = random.Random(-1 - drawn.number)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ContradictionWarning)
        held = Held(drawn, Context(drawn.ranges, assume=drawn.facts), tally, rng)
    held.require(not (warned and drawn.points), "a contradiction where there is none")
    for domain in domains or (rng.choice(("auto", rng.choice(DOMAINS))),):
        bounds, found = held.bounds(drawn.exprs[0], domain), held.values(drawn.exprs[0], domain)
        parts: tuple[Callable[[], None], ...] = (
            lambda: held.region(domain),  # noqa: B023  # called before the loop goes on
            held.goals,
            lambda: ordered(held, found, domain),  # noqa: B023
            lambda: together(held, bounds, found),  # noqa: B023
            lambda: blocks(held, domain),  # noqa: B023
            lambda: again(held, bounds, found, domain),  # noqa: B023
        )
        for part in parts if thorough else rng.choices(parts, (4, 4, 3, 3, 3, 1)):
            part()


# -- claims about claims -----------------------------------------------------------------------------------------------


def ordered(held: Held, found: IntSet, domain: str) -> None:
    """The set beside empty sets, itself, and the set that another domain gives."""
    setting, e = held.setting, held.setting.exprs[0]
    truth = held.truth(e)
    other = held.ctx.value_set(e, keep=setting.keep, domain=held.rng.choice(DOMAINS))
    nowhere = Var("nowhere")
    try:
        for nothing in (empty_set(domain), Context({nowhere: Range(0, 0)}, domain=other.by).value_set(nowhere)):
            held.require(nothing <= found and nothing.is_empty, "lacks the empty set", found)
            held.require(not truth or not (found <= nothing or found == nothing), "is called empty", found)
            held.require(not found.is_empty or (found <= nothing and found == nothing), "is not empty", found)
        held.require(found <= found and found == found and not found < found, "is not itself", found)
        if truth and found.is_exact and not setting.params:
            held.require(not other < found, "is smaller than what is exact", other, found)
        joined, met = found | other, found & other
    except BudgetError:
        held.tally["out of budget"] += 1
        return
    for params, taken in held.some(truth):
        env = setting.env(params)
        for s in (joined, met):
            is_exact = found.is_exact and other.is_exact
            held.members(s.at(env), taken, ("of", found, "and", other, s, env), claims=is_exact)
    held.tally["ordered"] += 1


def together(held: Held, bounds: Bounds, found: IntSet) -> None:
    """Bounds, set and proofs about one expression."""
    e, ctx, what = held.setting.exprs[0], held.ctx, (bounds, found)
    for end, inside, strictly in ((bounds[0], e.__ge__, e.__gt__), (bounds[1], e.__le__, e.__lt__)):
        if not isinstance(end, Expr):
            continue
        held.require(ctx.prove(inside(end)).status != "refuted", "refuted:", inside(end), *what)
        beyond = ctx.prove(strictly(end))
        is_nowhere = beyond.vacuous or bool(ctx.prove(e.ne(e)))
        held.require(not (beyond and bounds.is_tight) or is_nowhere, "proved:", strictly(end), *what)
    if bounds.is_empty or found.is_empty:
        held.require(ctx.prove(e.ne(e)).status != "refuted", "refuted, and there is no value", *what)
    if found.is_exact and not held.setting.params and not found.params and not found.is_empty:
        _elements_and_proofs(held, found)
    held.tally["together"] += 1


def _elements_and_proofs(held: Held, found: IntSet) -> None:
    e = held.setting.exprs[0]
    low, high = found.ends()
    for value in {held.rng.randint(int(low) - 1, int(high) + 1) for _ in range(3)} if isinstance(low, Expr) else ():
        proof = held.ctx.prove(e.ne(value))
        held.require(proof.status != ("proved" if value in found else "refuted"), proof, found)


def blocks(held: Held, domain: str) -> None:
    """Two blocks of facts that overlap, ended in either order."""
    setting, ctx, e = held.setting, held.ctx, held.setting.exprs[0]
    conditions = [setting.goals[0], setting.goals[1] | setting.goals[0]]
    in_force: list[Cond] = []
    entered = [(cond, ctx.assuming(cond)) for cond in conditions]
    for cond, block in entered:
        block.__enter__()
        in_force.append(cond)
        _under(held, in_force, e, domain)
    held.rng.shuffle(entered)
    for cond, block in entered:
        block.__exit__(None, None, None)
        in_force.remove(cond)
        _under(held, in_force, e, domain)
    held.require([fact.condition for fact in ctx.facts] == [f.condition for f in Context(assume=setting.facts).facts])
    held.tally["blocks"] += 1


def _under(held: Held, conditions: Sequence[Cond], e: Expr, domain: str) -> None:
    narrowed = Held(held.setting.under(*conditions), held.ctx, held.tally, held.rng)
    bounds = narrowed.bounds(e, domain)
    facts = [*held.setting.facts, *conditions]
    alone = Context(held.setting.ranges, assume=facts).bounds(e, keep=held.setting.keep, domain=domain)
    narrowed.require(str(bounds) == str(alone), "another answer than", alone, bounds)
    narrowed.goal(held.setting.goals[-1])


def again(held: Held, bounds: Bounds, found: IntSet, domain: str) -> None:
    """The same questions about the same context of other variables, in another order, after a question that is hard."""
    new = setting(held.setting.number)
    assert new is not None
    ctx, e = Context(new.ranges, assume=new.facts), new.exprs[0]
    with using(z3_rlimit=HARD_RLIMIT):
        x, y = Var("x"), Var("y")
        ctx.prove(truncmod(y * x * 32 * x * (y + e), x * y).eq(0))
    for first, second in zip(reversed(held.setting.goals), reversed(new.goals), strict=True):
        before, after = held.ctx.prove(first), ctx.prove(second)
        held.require(repr(before) == repr(after), "asked again", before, after)
    found_again = ctx.value_set(e, keep=new.keep, domain=domain)
    held.require(_claimed(found) == _claimed(found_again), "asked again", found, found_again)
    bounds_again = ctx.bounds(e, keep=new.keep, domain=domain)
    held.require((repr(bounds), bounds.notes) == (repr(bounds_again), bounds_again.notes), bounds, bounds_again)
    held.tally["again"] += 1


def _claimed(s: IntSet) -> tuple[object, ...]:
    """What a set says, without its variables; isl may write the same elements in another way."""
    return str(s.ends()), s.is_exact, s.is_tight, s.is_empty, s.by, s.notes
