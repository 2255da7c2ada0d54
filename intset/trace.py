"""`Trace`: which tier answered each question, how long it took, what was given up; and the logger `intset`.

A question is asked through `recorded`, each of its tiers through `tried`, and a budget that ends is heard of when its
`BudgetError` is made. Callers look at `TRACES`, `OPEN` and the logger first: without a trace and without debug records
a question costs two tests.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import wraps
from logging import DEBUG as DEBUG
from time import perf_counter
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from intset.config import ScopedBlock, entered_blocks
from intset.errors import LISTENERS, BudgetError
from intset.expr import Node, shown
from intset.expr.printer import SHOWN_NAME, SHOWN_ROWS, Displayed, to_text

TRACED_RECORDS: Final = 10_000  # records that one trace keeps
TRACED_REFUSALS: Final = 8  # refusals of one tier

P = ParamSpec("P")
T = TypeVar("T")
LOG: Final = logging.getLogger("intset")
TRACES: Final[list[Trace]] = []  # entered ones, of all threads and tasks
OPEN: Final[list[TracedQuestion]] = []  # questions that are being recorded, of all threads and tasks
NONE: Final = "no answer"  # the outcome of a tier without one
SKIPPED: Final = "skipped"  # the outcome of a skipped tier
KEPT: Final = "cache"  # the tier of an answer known from before


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a tier gave up.

    Attributes
    ----------
    reason: why, in words.
    budget: the budget that ended, by its name in `Config` or of the constant; empty for another reason.
    """

    reason: str
    budget: str = ""

    def __str__(self) -> str:
        return f"{self.reason} [{self.budget}]" if self.budget else self.reason


@dataclass(slots=True)
class TracedTier:
    """One tier of a question.

    Attributes
    ----------
    name: the tier, the domain or the pass; "cache" for a cached answer.
    outcome: its answer in a word; "skipped" for a skipped tier.
    seconds: wall-clock time, inner questions included. inside: the time of the inner questions.
    gave_up: its refusals, with reasons.
    """

    name: str
    outcome: str = ""
    seconds: float = 0.0
    inside: float = 0.0
    gave_up: list[Refusal] = field(default_factory=list)

    @property
    def spent(self) -> str:
        """The time in words."""
        return SKIPPED if self.outcome == SKIPPED else f"{self.seconds * 1000:.3f} ms"

    def refused(self, refusal: Refusal) -> None:
        """Record a refusal, unless its text contains the reason of a recorded one."""
        known = [one for one in self.gave_up if one.budget == refusal.budget or not refusal.budget]
        is_new = refusal.reason and not any(one.reason in refusal.reason for one in known)
        if is_new and len(self.gave_up) < TRACED_REFUSALS:
            self.gave_up.append(refusal)


class TracedQuestion:
    """The record of one question.

    Attributes
    ----------
    what: the kind: "bounds", "value_set", "image", "prove", "simplify", "fits", "solve", "narrow", "explain";
        "infer_bound", "stage", "lower", "pass"; "operation" for a set operation that gave something up.
    by: the tier that answered; empty where an exception ended the question.
    seconds: wall-clock time, inner questions included. inside: the time of the inner questions.
    depth: the number of enclosing questions.
    tiers: the tiers in call order.
    """

    def __init__(self, what: str, subject: object, depth: int, tier: str = "") -> None:
        self.what, self.depth, self._tier = what, depth, tier or what
        self.by, self.seconds = "", 0.0
        self.tiers: list[TracedTier] = []
        self._subject = subject
        self._answer: object = ""
        self._own = TracedTier("")  # what is given up outside of every tier
        self.at = self._own

    @property
    def question(self) -> str:
        """The text of the question; each expression is cut at `SHOWN_NAME` characters."""
        if not isinstance(self._subject, tuple):
            return _short(self._subject)
        return f"({', '.join(map(_short, self._subject))}{',' if len(self._subject) == 1 else ''})"

    @property
    def answer(self) -> str:
        """The answer: the ends of bounds, the status of a proof, whether a set is exact; else its type."""
        return _short(self._answer)

    @property
    def inside(self) -> float:
        return self._own.inside + sum(tier.inside for tier in self.tiers)

    @property
    def gave_up(self) -> tuple[Refusal, ...]:
        """What all tiers gave up."""
        every = TracedTier("")
        for tier in (*self.tiers, self._own):
            for one in tier.gave_up:
                every.refused(one)
        return tuple(every.gave_up)

    def answered(self, answer: object, seconds: float) -> None:
        """Take the answer down."""
        self.seconds, self._answer = seconds, "done" if answer is None else _outcome(answer)
        self.by = str(getattr(answer, "by", "") or (self.tiers[-1].name if self.tiers else self._tier))
        if not self.tiers:
            self.tiers.append(TracedTier(self.by, self.answer, seconds, self._own.inside))
            self._own.inside = 0.0
        for note in _notes(answer):
            self._own.refused(Refusal(note))

    def failed(self, error: BaseException, seconds: float) -> None:
        """Take the exception down that ended the question."""
        self.seconds, self._answer = seconds, f"raised {type(error).__name__}"

    @property
    def times(self) -> str:
        """The tiers with their times; empty for a single tier that answered."""
        each = ", ".join(f"{tier.name} {tier.spent}" for tier in self.tiers)
        return each if [tier.name for tier in self.tiers] not in ([self.by], [KEPT]) else ""

    @property
    def losses(self) -> list[str]:
        """One line per refusal, prefixed by the tier name."""
        told = [(tier, one) for tier in self.tiers for one in tier.gave_up]
        known = [one.reason for _, one in told]
        own = [one for one in self._own.gave_up if not any(r in one.reason or one.reason in r for r in known)]
        return [*(f"{tier.name}: {one}" for tier, one in told), *map(str, own)]

    @property
    def answerer(self) -> str:
        """The answering tier, or "cache"; empty if the question has no separate tiers."""
        if [tier.name for tier in self.tiers] == [KEPT]:
            return KEPT
        return "" if self.by in (self.what, self._tier) else self.by

    def __str__(self) -> str:
        by = f" by {self.answerer}" if self.answerer else ""
        times = f" ({self.times})" if self.times else ""
        lost = "".join(f"; {line}" for line in self.losses)
        said = f"{self.what} {self.question}: {self.answer}{by}, {self.seconds * 1000:.3f} ms{times}{lost}"
        return f"{'  ' * self.depth}{said}"

    def rows(self) -> list[str]:
        """The lines of the record in a table: milliseconds, tier, question with its answer; below, tiers and losses."""
        indent = "  " * self.depth
        head = f"{self.seconds * 1000:11.3f}  {self.answerer:10}  {indent}{self.what} {self.question}: {self.answer}"
        below = [self.times] if self.times else []
        return [head, *(f"{'':25}{indent}  {line}" for line in (*below, *self.losses))]

    def to_json(self) -> dict[str, object]:
        """The record as plain data."""
        return {
            "what": self.what,
            "question": self.question,
            "answer": self.answer,
            "by": self.by,
            "seconds": self.seconds,
            "depth": self.depth,
            "tiers": [
                {
                    "tier": tier.name,
                    "outcome": tier.outcome,
                    "seconds": tier.seconds,
                    "gave_up": [asdict(one) for one in tier.gave_up],
                }
                for tier in self.tiers
            ],
            "gave_up": [asdict(one) for one in self.gave_up],
        }


@dataclass(slots=True)
class TierTotal:
    """One tier in all questions of a trace.

    Attributes
    ----------
    asked, answered: the numbers of questions tried and answered.
    seconds: wall-clock time without inner questions.
    gave_up: how often it gave up something.
    """

    asked: int = 0
    answered: int = 0
    seconds: float = 0.0
    gave_up: int = 0


class Trace(ScopedBlock["Trace"], Displayed):
    """The questions asked inside `with ctx.trace() as t:`, of any context, also those of `infer_bound` and `lower`.

    The block records the thread or task that entered it, with tasks started inside; a block inside another records
    into both. An exception ends the block and leaves what was recorded. `print(t)`, a notebook and `t.to_json()` show
    the records and the totals.

    Attributes
    ----------
    records: one `TracedQuestion` per question, in call order; inner questions follow their outer one.
    omitted: the number of questions beyond the first `TRACED_RECORDS`, in the totals alone.
    """

    entered = entered_blocks("intset_trace")
    inherited = True

    def __init__(self) -> None:
        self._records: list[TracedQuestion] = []
        self._totals: dict[str, TierTotal] = {}
        self._omitted: list[int] = [0]
        self._lock = threading.Lock()

    @property
    def records(self) -> tuple[TracedQuestion, ...]:
        return tuple(self._records)

    @property
    def omitted(self) -> int:
        return self._omitted[0]

    @property
    def totals(self) -> dict[str, TierTotal]:
        """For each tier and pass its totals, by name, the longest first."""
        with self._lock:
            return dict(sorted(self._totals.items(), key=lambda item: -item[1].seconds))

    def __getstate__(self) -> dict[str, object]:
        return {"_records": self._records, "_totals": self._totals, "_omitted": self._omitted}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def enter(self) -> Trace:
        return self

    def __enter__(self) -> Trace:
        super().__enter__()
        TRACES.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        with suppress(ValueError):  # ended before
            TRACES.remove(self)

    def began(self, record: TracedQuestion) -> None:
        with self._lock:
            if len(self._records) < TRACED_RECORDS:
                self._records.append(record)
            else:
                self._omitted[0] += 1

    def ended(self, record: TracedQuestion) -> None:
        with self._lock:
            for tier in record.tiers:
                total = self._totals.setdefault(tier.name, TierTotal())
                total.asked += tier.outcome != SKIPPED
                total.answered += tier.name == record.by and tier is record.tiers[-1]
                total.seconds += max(tier.seconds - tier.inside, 0.0)
                total.gave_up += bool(tier.gave_up)

    def outermost(self, most: int = SHOWN_ROWS) -> list[TracedQuestion]:
        """At most `most` records: every depth that fits completely, outermost first; else the first `most`."""
        records = self.records
        by_depth = Counter(record.depth for record in records)
        deepest, number = -1, 0
        for depth in sorted(by_depth):
            number += by_depth[depth]
            if number > most:
                break
            deepest = depth
        return [record for record in records if record.depth <= deepest] or list(records[:most])

    def to_json(self) -> dict[str, object]:
        """Records, totals and the number of omitted questions as plain data, by `docs/schemas/trace.json`."""
        totals = [{"tier": name, **asdict(t)} for name, t in self.totals.items()]
        records = [one.to_json() for one in self.records]
        head = {"format": "intset.trace", "version": 1}
        return {**head, "records": records, "tiers": totals, "omitted": self.omitted}

    def __str__(self) -> str:
        rows = self.outermost()
        if not rows:
            return "no questions"
        lines = [f"{'ms':>11}  {'by':10}  question: answer", *(line for record in rows for line in record.rows())]
        left = len(self.records) - len(rows) + self.omitted
        lines += [f"... {left:,} more questions"] if left else []
        lines += ["", f"{'ms':>11}  {'tier':22} {'asked':>7} {'answered':>9} {'gave up':>8}"]
        for name, t in self.totals.items():
            lines.append(f"{t.seconds * 1000:11.3f}  {name:22} {t.asked:7} {t.answered:9} {t.gave_up:8}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Trace of {len(self._records) + self.omitted:,} questions>"


# -- recording ---------------------------------------------------------------------------------------------------------

_CURRENT: ContextVar[TracedQuestion | None] = ContextVar("intset_traced_question", default=None)


def recorded(what: str, subject: object, ask: Callable[[], T], tier: str = "") -> T:
    """The answer of a question, which traces and the log hear of; `tier` answers if none is named inside."""
    around = _CURRENT.get()
    record = TracedQuestion(what, subject, 0 if around is None else around.depth + 1, tier)
    traces = Trace.in_force()
    for trace in traces:
        trace.began(record)
    token = _CURRENT.set(record)
    OPEN.append(record)
    start = perf_counter()
    try:
        answer = ask()
        record.answered(answer, perf_counter() - start)
        return answer
    except BaseException as error:
        record.failed(error, perf_counter() - start)
        raise
    finally:
        OPEN.remove(record)
        _CURRENT.reset(token)
        if around is not None:
            around.at.inside += record.seconds
        for trace in traces:
            trace.ended(record)
        if LOG.isEnabledFor(DEBUG):
            LOG.debug("%s", record)


def tried(tier: str, ask: Callable[..., T], *args: Any, budget: str = "") -> T:
    """Ask one tier of the current question, and record its outcome and time where a question is recorded.

    Parameters
    ----------
    tier: its name.
    budget: the budget recorded when the tier returns `None`.
    """
    record = _CURRENT.get() if OPEN else None
    if record is None:
        return ask(*args)
    part, around = TracedTier(tier), record.at
    record.tiers.append(part)
    record.at = part
    start = perf_counter()
    try:
        answer = ask(*args)
        outcome = _outcome(answer)
        part.outcome = outcome if isinstance(outcome, str) else _short(outcome)
        if answer is None:
            part.refused(Refusal(NONE, budget))
        if reason := getattr(answer, "reason", ""):
            part.refused(Refusal(str(reason), getattr(answer, "budget", "")))
        for note in _notes(answer):
            part.refused(Refusal(note))
        return answer
    except BaseException as error:
        part.outcome = f"raised {type(error).__name__}"
        raise
    finally:
        part.seconds = perf_counter() - start
        record.at = around


def skipped(tier: str, reason: str) -> None:
    """Record a skipped tier or domain, with the reason."""
    record = _CURRENT.get()
    if record is not None:
        record.tiers.append(TracedTier(tier, SKIPPED, gave_up=[Refusal(reason)]))
    if LOG.isEnabledFor(DEBUG):
        LOG.debug("%s was skipped: %s", tier, reason)


def from_cache(what: str, subject: object, answer: T) -> T:
    """Return a cached answer and record it in the traces as a question."""
    return recorded(what, subject, lambda: tried(KEPT, lambda: answer))


def traced(what: str, subject: Callable[..., object]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function whose calls are questions; `subject` maps its arguments to the recorded subject."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def asked(*args: P.args, **named: P.kwargs) -> T:
            if not (TRACES or LOG.isEnabledFor(DEBUG)):
                return function(*args, **named)
            return recorded(what, _subject_of(subject, *args, **named), lambda: function(*args, **named))

        return asked

    return decorate


def passed(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run a pass and record it in the traces as a question."""
    if not (TRACES or LOG.isEnabledFor(DEBUG)):
        return function(*args, **named)
    name = function.__name__.lstrip("_")
    return recorded("pass", name, lambda: function(*args, **named), name)


def _subject_of(subject: Callable[..., object], *args: Any, **named: Any) -> object:
    try:
        return subject(*args, **named)
    except (TypeError, AttributeError):  # the arguments are wrong: the function says so
        return ""


def _heard(error: BudgetError) -> None:
    """Take down that a budget ended, or that an exact computation refused."""
    record = _CURRENT.get()
    if record is not None:
        record.at.refused(Refusal(str(error), error.budget))
    elif TRACES or LOG.isEnabledFor(DEBUG):  # a set operation outside questions, such as a union or a count
        recorded("operation", "on a set", lambda: _heard(error))


LISTENERS.append(_heard)


def _outcome(answer: object) -> object:
    """An answer in a word; lazy attributes are read only if computed."""
    if answer is None:
        return NONE
    if isinstance(status := getattr(answer, "status", None), str):
        return status
    if isinstance(answer, Node):
        return answer
    if isinstance(answer, tuple) and hasattr(answer, "is_tight"):
        return answer
    exact = vars(answer).get("is_exact") if hasattr(answer, "__dict__") else None
    return ("exact" if exact else "a superset") if isinstance(exact, bool) else type(answer).__name__


def _notes(answer: object) -> tuple[str, ...]:
    own = vars(answer) if hasattr(answer, "__dict__") else {}
    notes = own.get("notes", own.get("_notes", ()))
    return tuple(map(str, notes)) if isinstance(notes, (tuple, list)) else ()


def _short(value: object) -> str:
    if isinstance(value, Node):
        return to_text(value, SHOWN_NAME)
    text = value if isinstance(value, str) else shown(value)
    return text if len(text) <= SHOWN_NAME else f"{text[: SHOWN_NAME - 1]}…"
