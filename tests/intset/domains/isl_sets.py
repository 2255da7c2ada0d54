"""Sets of isl from their texts."""

from typing import Any

from intset.domains.isl.session import context, isl


def read(text: str) -> Any:
    """An isl Set from its text."""
    return isl().Set.read_from_str(context(), text)
