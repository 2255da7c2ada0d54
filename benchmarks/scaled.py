"""The schedule corpus at sizes that take time.

The numbers of a case are multiplied: all that are at least `least` in the function of the case and in what it calls.
With a small `least` extents, tiles and offsets grow together and the geometry stays; with a larger one tiles stay, and
there are more of them. What is no program any more (an access leaves its tensor, say) is left out by who asks.
"""

import ast
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from bound.schedule import Schedule

SOURCE: Final = Path(__file__).parent / "data" / "schedules.py"
LEAST: Final = (9, 4)  # which numbers grow


@dataclass(frozen=True)
class Scaled:
    """A case of the corpus: its name, which of its numbers grow, and how much."""

    name: str
    least: int
    factor: int

    def schedule(self) -> tuple[Schedule, Mapping[str, int]]:
        """The schedule, and the values of its sizes."""
        case = _cases(self.least, self.factor)[self.name]
        sub: dict[str, int] = {name: n * self.factor for name, n in case["sub"].items()}
        return case["fn"](), sub


def names() -> Iterator[str]:
    """The cases that are programs."""
    return (name for name in _cases(1, 1) if not name.startswith("reject_"))


@cache
def _cases(least: int, factor: int) -> dict[str, dict[str, Any]]:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    for part in tree.body:
        if isinstance(part, ast.FunctionDef) and part.name not in ("case", "P", "C", "S"):
            _Larger(least, factor).visit(part)
    module = types.ModuleType("scaled_schedules")
    exec(compile(ast.fix_missing_locations(tree), str(SOURCE), "exec"), module.__dict__)
    return {case["name"]: case for case in module.CASES}


class _Larger(ast.NodeTransformer):
    def __init__(self, least: int, factor: int) -> None:
        self.least, self.factor = least, factor

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if type(node.value) is int and node.value >= self.least:
            return ast.Constant(node.value * self.factor)
        return node
