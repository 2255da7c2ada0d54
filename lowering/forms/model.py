"""What a nest costs: expected time by stage, in units of one simple operation.

The nest is walked as it would run, with numbers for its variables. A loop inside of which no range and no condition
depends on its variable is walked once and counted as often as it runs; of any other loop the first and last iteration
and two between them are walked, the latter standing for all the rest. So what the borders of a tile cost is seen, and
an interior that needs no guard is not charged for one.

An iteration of an innermost loop without a branch is charged a `vector`-th of its operations: compilers run several at
a time. The weights are data (`WEIGHTS`); `benchmarks.native` times what was chosen beside hand-written loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from bound.schedule import simple
from bound.tir import walk
from bound.tir.value import ValueOp
from intset.errors import IntSetError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, ShapeVar, Var
from lowering.nest.ir import For, Function, If, Let, Seq, Stmt, Store
from lowering.nest.walk import Visit, drive, operands, range_ends, statements, variables

WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "operation": 1.0,  # additions, products, comparisons, minima, reads
        "division": 12.0,  # of integers by what is no constant, and of floats
        "call": 20.0,  # of a function of the mathematical library
        "test": 2.0,  # a comparison that decides a branch
        "iteration": 1.0,  # of a loop: count, compare, jump
        "entry": 8.0,  # into a loop and out of it
        "vector": 6.0,  # iterations of a loop without branches that run at a time
    }
)
SIZE: Final = 256  # stands for a size of which nothing is known
UNKNOWN: Final = 8  # iterations of a loop whose ends depend on data
MOST_VISITS: Final = 4_000  # of loops; beyond that one iteration stands for all
_DIVISIONS: Final = (*ops.DIVISIONS, ValueOp.DIV, ValueOp.FLOORDIV, ValueOp.FLOORMOD, ValueOp.TRUNCDIV)


def modelled(f: Function, sizes: Mapping[Var, int] | None = None) -> dict[str, float]:
    """The expected cost of each stage of a function, by the name of its tensor.

    Parameters
    ----------
    sizes: values of sizes; of the others `SIZE`, as far as they declare it to be possible.
    """
    model = _Model()
    env: dict[Any, int] = {v: (sizes or {}).get(v, typical(v)) for v in f.sizes}
    drive(model.visit(f.body, env, 1.0))
    return model.costs


def typical(var: Var) -> int:
    """`SIZE`, or what is next to it of what a size declares to be possible."""
    if not isinstance(var, ShapeVar):
        return SIZE
    low, high, step = var.declared()
    value = SIZE if high is None else min(SIZE, high)
    value = value if low is None else max(value, low)
    return value - value % step if low is None or value - value % step >= low else value


class _Model:
    def __init__(self) -> None:
        self.costs: dict[str, float] = {}
        self.visits = 0
        self._controls: dict[Stmt, frozenset[Any]] = {}
        self._owner: dict[Stmt, str] = {}
        self._work: dict[Any, float] = {}

    def visit(self, stmt: Stmt, env: Mapping[Any, int], times: float) -> Visit[None]:
        if isinstance(stmt, Seq):
            inner = dict(env)
            for part in stmt.stmts:
                if isinstance(part, Let) and isinstance(part.value, Expr):
                    value = number(part.value, inner)
                    if value is not None:
                        inner[part.var] = value
                    continue
                yield self.visit(part, inner, times)
        elif isinstance(stmt, Store):
            self._charge(stmt, times * self._operations(stmt))
        elif isinstance(stmt, If):
            yield self._branch(stmt, env, times)
        elif isinstance(stmt, For):
            yield self._loop(stmt, env, times)

    def _branch(self, stmt: If, env: Mapping[Any, int], times: float) -> Visit[None]:
        self._charge(stmt, times * self._tests(stmt))
        holds = number(stmt.cond, env) if isinstance(stmt.cond, Cond) else None
        if holds is None or holds:
            yield self.visit(stmt.then, env, times)
        if stmt.orelse is not None and not holds:
            yield self.visit(stmt.orelse, env, times)

    def _loop(self, loop: For, env: Mapping[Any, int], times: float) -> Visit[None]:
        self.visits += 1
        low, extent = (number(e, env) for e in range_ends(loop.range))
        first, count = low or 0, UNKNOWN if extent is None else extent
        self._charge(loop, times * WEIGHTS["entry"])
        if count <= 0:
            return
        is_innermost = not any(isinstance(s, (For, If)) for s in statements(loop.body))
        gain = WEIGHTS["vector"] if is_innermost else 1.0
        self._charge(loop, times * count * WEIGHTS["iteration"] / gain)
        if loop.var not in self._control(loop.body) or self.visits > MOST_VISITS:
            yield self.visit(loop.body, {**env, loop.var: first + count // 2}, times * count / gain)
            return
        for value, share in _samples(first, count):
            yield self.visit(loop.body, {**env, loop.var: value}, times * share / gain)

    def _control(self, stmt: Stmt) -> frozenset[Any]:
        """The variables that ranges and conditions inside depend on."""
        found = self._controls.get(stmt)
        if found is None:
            deciding = (inner for inner in statements(stmt) if isinstance(inner, (For, If, Let)))
            found = self._controls[stmt] = frozenset(v for inner in deciding for v in variables(*operands(inner)))
        return found

    def _charge(self, stmt: Stmt, cost: float) -> None:
        name = self._owner.get(stmt)
        if name is None:
            stores = (inner.tensor.name for inner in statements(stmt) if isinstance(inner, Store))
            name = self._owner[stmt] = next(stores, "")
        self.costs[name] = self.costs.get(name, 0.0) + cost

    def _tests(self, stmt: If) -> float:
        found = self._work.get(stmt)
        if found is None:
            count = sum(1 for node in walk.nodes(stmt.cond) if node.op in ops.COMPARISONS)
            found = self._work[stmt] = WEIGHTS["test"] * max(1, count)
        return found

    def _operations(self, stmt: Store) -> float:
        found = self._work.get(stmt)
        if found is None:
            found = self._work[stmt] = 1.0 + sum(_weight(node) for node in walk.nodes(stmt.value))
        return found


def _samples(first: int, count: int) -> list[tuple[int, float]]:
    """Values of a loop variable with how many each stands for."""
    if count <= 4:
        return [(first + k, 1.0) for k in range(count)]
    share = (count - 2) / 2
    return [(first, 1.0), (first + count // 3, share), (first + 2 * count // 3, share), (first + count - 1, 1.0)]


def _weight(node: Any) -> float:
    if not node.args:
        return 0.0
    if node.op in _DIVISIONS:
        by = node.args[1]
        is_known = isinstance(by, Expr) and simple.number(by) is not None
        return WEIGHTS["operation" if is_known else "division"]
    return WEIGHTS["call"] if node.op is ValueOp.CALL else WEIGHTS["operation"]


def number(e: Any, env: Mapping[Any, int]) -> int | None:
    """The value of an expression or condition; `None` where it depends on data."""
    try:
        return int(evaluate(e, {v: env[v] for v in e.free_vars()}))
    except (ArithmeticError, LookupError, IntSetError):
        return None
