"""What the kinds of work that `lowering.forms.model` counts cost, in units of one simple operation.

Fitted by `python -m benchmarks.fit`, which compiles and times programs in all their forms and prints this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "operation": 1.0,
        "vector": 0.23,
        "chain": 6.9,
        "division": 12.8,
        "call": 21.3,
        "test": 2.0,
        "turn": 1.3,
        "entry": 2.5,
        "tail": 22.8,
        "far": 0.17,
        "fresh": 0.7,
    }
)
