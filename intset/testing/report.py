"""What a suite of random questions reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Report:
    """What a domain answered: `wrong` says every answer that lacks a value and every claim that is false.

    `tally` counts the questions asked (`asked`, `contexts`) and what was claimed: `exact hull`, `exact set`.
    """

    domain: str
    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
