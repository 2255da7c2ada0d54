"""What lowered nests execute: `python -m benchmarks.executed [--json] [--against FILE] [--rows]`.

Every schedule of the corpus and of the examples is lowered with the options as they are by default, and the integer
work of its nest is counted at the sizes of the corpus (sizes without one: 24):

operations    additions, subtractions, products, minima, maxima, choices, left shifts and other bit operations
comparisons   of integers
divisions     quotients and remainders of every kind, and the right shifts and masks that stand for them

An operation counts as often as it is executed: what a branch that is not taken holds is not. The tree that is written
is counted, not what a compiler makes of it; addresses of elements, the counters of loops, assertions and conditions on
data are not counted (of a branch on data, what it guards is). To compare two versions, write `--json` with one of them
and pass the file to the other with `--against`.

Against nests whose indices have no names, and whose rows are not decided as a whole, that is two thirds of the
operations less, 47 % of the comparisons and 72 % of the divisions; at the median nest a third of the operations and
39 % of the divisions. What is left: a product and a sum in the innermost loop of a tile (a line for `outer * 14` alone
would cost a reader more than it saves), the ends of loops, which stay as they are for what is known of them, and
conditions on the innermost loop itself, which only pieces of that loop decide: C has these, the nest has not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bound.tir.value import Value
from intset import EvaluationError, IntSetError, evaluate
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from lowering import lower
from lowering.cli.inputs import load_script
from lowering.nest.ir import Allocate, For, If, Let, Seq, Stmt, Store
from lowering.nest.walk import children, operands

ROOT = Path(__file__).parent.parent
SIZE = 24  # of what the corpus gives no size for
FREE = (ops.CONST, ops.VAR, ops.BOOL, ops.LOAD, ops.CAST, ops.ASSERTING, ops.AND, ops.OR, ops.NOT)


class Work(NamedTuple):
    """How often each kind of operation is executed."""

    operations: int = 0
    comparisons: int = 0
    divisions: int = 0

    def plus(self, other: Work, times: int = 1) -> Work:
        return Work(*(a + times * b for a, b in zip(self, other, strict=True)))


NOTHING = Work()
OPERATION, COMPARISON, DIVISION = Work(1), Work(0, 1), Work(0, 0, 1)


def own_work(node: Any) -> Work:
    """What a node adds to that of its arguments."""
    if isinstance(node, Value) or node.op in FREE:
        return NOTHING
    if isinstance(node, Cond):
        return COMPARISON
    is_division = node.op in ops.DIVISIONS or node.op is ops.SHR or node.op is ops.BITAND
    return DIVISION if is_division else OPERATION


def is_choice(node: Any) -> bool:
    return node.op is ops.SELECT


def is_lazy(node: Any) -> bool:
    """Whether an argument of the node is evaluated only where an earlier one says so."""
    return is_choice(node) or node.op in (ops.AND, ops.OR)


def below(root: Any) -> Iterator[Any]:
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        yield node
        stack += [arg for arg in node.args if arg not in seen]
        seen.update(node.args)


class Counter:
    """Counts what one nest executes at given sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.found: dict[Any, Work] = {}
        self.deciding: dict[Any, tuple[Any, ...]] = {}

    def stmt(self, stmt: Stmt, point: dict[Any, int]) -> Work:
        """What the statement executes where the variables have these values."""
        key = (stmt, tuple(point.get(v) for v in self.deciding_in(stmt)))
        if key not in self.found:
            self.found[key] = self._stmt(stmt, point)
        return self.found[key]

    def _stmt(self, stmt: Stmt, point: dict[Any, int]) -> Work:
        if isinstance(stmt, Seq):
            point, total = dict(point), NOTHING
            for inner in stmt.stmts:
                total = total.plus(self.stmt(inner, point))
                if isinstance(inner, Let) and isinstance(inner.var, Var) and isinstance(inner.value, Expr):
                    value = self.value(inner.value, point)
                    point.pop(inner.var, None)
                    if value is not None:
                        point[inner.var] = value
            return total
        if isinstance(stmt, For):
            return self._loop(stmt, point)
        if isinstance(stmt, If):
            taken = self.value(stmt.cond, point) if isinstance(stmt.cond, Cond) else None
            total = self.operand(stmt.cond, point)
            if taken is None or taken:
                return total.plus(self.stmt(stmt.then, point))
            return total if stmt.orelse is None else total.plus(self.stmt(stmt.orelse, point))
        if isinstance(stmt, Store):
            parts: tuple[Any, ...] = (*stmt.indices, stmt.value)
        elif isinstance(stmt, Let):
            parts = (stmt.value,)
        else:
            parts = ()
        return self._sum(parts, point)

    def _loop(self, loop: For, point: dict[Any, int]) -> Work:
        low, extent = self.value(loop.range.min, point), self.value(loop.range.extent, point)
        total = self._sum((loop.range.min, loop.range.extent, *(c.first for c in loop.carried)), point)
        if low is None or extent is None:
            low, extent = 0, SIZE  # the end is data
        each = tuple(c.following for c in loop.carried)
        inside, moving = dict(point), (loop.var, *(c.var for c in loop.carried))
        if not self.decides(moving, loop.body):
            for v in moving:
                inside.pop(v, None)
            once = self.stmt(loop.body, inside).plus(self._sum(each, inside))
            return total.plus(once, max(extent, 0))
        carried = {c.var: self.value(c.first, point) for c in loop.carried}
        for k in range(extent):
            inside = {**point, **{v: value for v, value in carried.items() if value is not None}, loop.var: low + k}
            total = total.plus(self.stmt(loop.body, inside)).plus(self._sum(each, inside))
            carried = {c.var: self.value(c.following, inside) for c in loop.carried}
        return total

    def decides(self, moving: tuple[Any, ...], body: Stmt) -> bool:
        """Whether what the body executes depends on one of these variables."""
        return any(v is one for v in self.deciding_in(body) for one in moving)

    def operand(self, root: Any, point: dict[Any, int]) -> Work:
        """What evaluating an operand executes."""
        if not any(is_lazy(node) for node in below(root)):
            return self._tree(root)
        return self._lazily(root, point)

    def _sum(self, parts: tuple[Any, ...], point: dict[Any, int]) -> Work:
        total = NOTHING
        for part in parts:
            total = total.plus(self.operand(part, point))
        return total

    def _tree(self, root: Any) -> Work:
        found = self.found.get(root)
        if found is None:
            found = own_work(root)
            for arg in root.args:
                found = found.plus(self._tree(arg))
            self.found[root] = found
        return found

    def _lazily(self, node: Any, point: dict[Any, int]) -> Work:
        if not is_lazy(node):
            total = own_work(node)
            for arg in node.args:
                total = total.plus(self._lazily(arg, point))
            return total
        first, *others = node.args
        value = self.value(first, point) if isinstance(first, Cond) else None
        total = own_work(node).plus(self._lazily(first, point))
        if is_choice(node):
            return total.plus(self._lazily(others[0 if value is None or value else 1], point))
        goes_on = value is None or bool(value) is (node.op is ops.AND)
        return total.plus(self._lazily(others[0], point)) if goes_on else total

    def value(self, e: Expr | Cond, point: dict[Any, int]) -> int | bool | None:
        """The value, or `None` where it depends on data."""
        try:
            return evaluate(e, {v: point[v] if v in point else self.sizes.get(v.name, SIZE) for v in e.free_vars()})
        except (EvaluationError, IntSetError, TypeError):
            return None

    def deciding_in(self, stmt: Stmt) -> tuple[Any, ...]:
        """The variables on which it depends what the statement executes."""
        found = self.deciding.get(stmt)
        if found is None:
            names: dict[Any, None] = {}
            for node in self._deciding_nodes(stmt):
                names.update(dict.fromkeys(node.free_vars()))
            for inner in reversed(children(stmt)):
                if isinstance(inner, Let) and isinstance(inner.value, Expr) and inner.var in names:
                    names.pop(inner.var)
                    names.update(dict.fromkeys(inner.value.free_vars()))
                names.update(dict.fromkeys(self.deciding_in(inner)))
            found = self.deciding[stmt] = tuple(names)
        return found

    def _deciding_nodes(self, stmt: Stmt) -> Iterator[Expr | Cond]:
        if isinstance(stmt, For):
            yield from (stmt.range.min, stmt.range.extent)
            yield from (e for c in stmt.carried for e in (c.first, c.following))
        if not isinstance(stmt, Allocate):
            for root in operands(stmt):
                if isinstance(stmt, If) and isinstance(root, Cond):
                    yield root
                for node in below(root):
                    if is_lazy(node) and isinstance(node.args[0], Cond):
                        yield node.args[0]


def schedules() -> Iterator[tuple[str, Any, Mapping[str, int]]]:
    """(name, schedule, sizes) of the corpus and the examples."""
    spec = importlib.util.spec_from_file_location("corpus_schedules", ROOT / "benchmarks" / "data" / "schedules.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for case in module.CASES:
        if not case["name"].startswith("reject_"):
            yield case["name"], case["fn"](), case["sub"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        if "create_schedule" in path.read_text(encoding="utf-8"):
            for one in load_script(path):
                if one.schedule is not None:
                    yield f"{path.stem}:{one.name}", one.schedule, {}


def table() -> dict[str, Work]:
    """What each nest executes."""
    return {name: Counter(sizes).stmt(lower(s).body, {}) for name, s, sizes in schedules()}


def main() -> None:
    parser = argparse.ArgumentParser(description="count the integer work that lowered nests execute")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.add_argument("--against", type=Path, help="counts that another version printed with --json")
    parser.add_argument("--rows", action="store_true", help="print every nest, not only the sums")
    given = parser.parse_args()
    found = table()
    if given.json:
        print(json.dumps(found, indent=1))
        return
    before = {name: Work(*row) for name, row in json.loads(given.against.read_text()).items()} if given.against else {}
    rows = [(name, before.get(name, work), work) for name, work in found.items()]
    if given.rows:
        for name, old, new in sorted(rows, key=lambda row: -sum(row[2])):
            print(
                f"{name:36}"
                + "".join(f"{a:>12,} -> {b:>12,}" if before else f"{b:>14,}" for a, b in zip(old, new, strict=True))
            )
    for k, kind in enumerate(Work._fields):
        old, new = (sum(row[side][k] for row in rows) for side in (1, 2))
        shares = sorted(row[2][k] / row[1][k] for row in rows if row[1][k])
        median = f", median of {len(shares)} nests {shares[len(shares) // 2] - 1:+.1%}" if before and shares else ""
        print(f"{kind:12} {new:>14,}" + (f" before {old:,}: {new / old - 1:+.1%}{median}" if before and old else ""))


if __name__ == "__main__":
    main()
