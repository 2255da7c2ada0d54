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
        "vector": 0.16,
        "chain": 4.0,
        "division": 12.0,
        "call": 20.0,
        "test": 2.0,
        "turn": 1.0,
        "entry": 2.0,
        "tail": 12.0,
        "far": 0.2,
    }
)
