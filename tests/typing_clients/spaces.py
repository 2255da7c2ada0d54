"""A client under strict typing: a space of configurations and its exploration."""

from collections.abc import Mapping
from pathlib import Path

from intset import ShapeVar, Space, Var
from lowering import Exploration, explore


def tiles() -> Space:
    t, n = Var("t"), ShapeVar("n", lower=1)
    space = Space({t: [8, 16, 32], n: [64, 128]}, where=[t * 2 <= n, "n % t == 0"])
    print(space.count(), space.nearest({t: 9, n: 64}), space.columns()["t"].shape)
    print(Space({"mode": ["a", "b"], "pad": [False, True]}).names)
    return space


def cost(configuration: Mapping[str, int | bool | str]) -> dict[str, float]:
    return {"cost": float(len(configuration))}


def explored(folder: Path) -> Exploration:
    results = explore(cost, [{"t": 8}, {"t": 16}], out=folder, progress=False)
    print(results.best(1), results.summary.rows)
    return results
