"""Tests for domains, and the random questions behind them: for whoever adds a domain or uses the engine.

`soundness(domain)`: the suite that every domain must pass; its report lists every wrong answer.
`claims(count, seed, domains)`: every kind of question about random contexts whose ranges depend on one another and on
    sizes, and may be empty; every claim in the answers held against enumeration and against the other claims.
`sweep(count, seed, domains)`: random expressions over small boxes against enumeration; the findings as data.
`question(seed)`: a random expression over a box with conditions, and the values it takes.
`setting(number)`: a random context as `claims` draws it, with all its points.
`intset.testing.strategies`: Hypothesis strategies for expressions, conditions and points; needs the extra `test`.

Same seed, same questions, on every machine.

>>> from intset.testing import soundness
>>> soundness("stride", count=10).wrong
[]
"""

from intset.testing.claims import Finding, Report, claims, soundness, sweep
from intset.testing.contexts import Case, Question, Setting, cases, question, setting

__all__ = [
    "Case",
    "Finding",
    "Question",
    "Report",
    "Setting",
    "cases",
    "claims",
    "question",
    "setting",
    "soundness",
    "sweep",
]
