"""Sets of isl from their texts, and drawn texts."""

import random
from typing import Any

from intset.domains.isl.session import context, isl


def read(text: str) -> Any:
    """An isl Set from its text."""
    return isl().Set.read_from_str(context(), text)


def affine(rng: random.Random, names: str, most: int = 7) -> str:
    return " + ".join(f"{rng.randint(-most, most)}{name}" for name in names) + f" + {rng.randint(-12, 12)}"


def condition(rng: random.Random, names: str, part: int, most: int = 7) -> str:
    """A condition, with quantified variables and divisions; `part` tells its variables from those of others."""

    def e() -> str:
        return affine(rng, names, most)

    return rng.choice(
        (
            lambda: f"{e()} >= 0",
            lambda: f"({e()}) mod {rng.randint(2, 7)} <= {rng.randint(0, 2)}",
            lambda: f"{e()} >= {rng.randint(1, 7)}*floor(({e()})/{rng.randint(2, 14)})",
            lambda: f"(exists e{part}: {rng.randint(2, 5)}e{part} <= {e()} and 4e{part} >= {e()})",
        )
    )()
