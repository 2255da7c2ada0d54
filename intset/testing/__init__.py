"""Tests for domains, and the random questions behind them: for whoever adds a domain or uses the engine.

`soundness(domain)`: the suite that every domain must pass; its report lists every wrong answer.
`sweep(count, seed, domains)`: random expressions over small boxes against enumeration; the findings as data.
`question(seed)`: a random expression over a box with conditions, and the values it takes.
`intset.testing.strategies`: Hypothesis strategies for expressions, conditions and points; needs the extra `test`.
`intset.testing.galois`: enumeration as the oracle for transfer functions of congruences and strided intervals.

Same seed, same questions, on every machine.

>>> from intset.testing import soundness
>>> soundness("stride", count=10).wrong
[]
"""

from intset.testing.cases import Case, Finding, cases, sweep
from intset.testing.questions import Question, question
from intset.testing.soundness import Report, soundness

__all__ = ["Case", "Finding", "Question", "Report", "cases", "question", "soundness", "sweep"]
