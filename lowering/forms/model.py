"""What a nest costs: expected time by stage, in units of one simple operation.

The nest is walked as it would run, with numbers for its variables, and the kinds of work it does are counted (`KINDS`).
A loop inside of which no range and no condition depends on its variable is walked once and counted as often as it runs;
of any other loop the first and last iteration and a few between them are walked, the latter standing for all the rest.
So what the borders of a tile cost is seen, and an interior that needs no guard is not charged for one.

The cost of a nest is the sum of its work, each kind times its weight. The weights are data, fitted to what compiled
nests took (`lowering.forms.weights`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, lcm
from typing import Any, Final

from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import ValueOp
from intset.errors import IntSetError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, ShapeVar, Var, constant_value
from lowering.forms.weights import WEIGHTS
from lowering.nest.ir import Allocate, For, Function, If, Let, Seq, Stmt, Store
from lowering.nest.walk import Visit, children, drive, operands, range_ends, statements, variables
from lowering.passes.affine import form_of
from lowering.passes.profitability import UNENDING

KINDS: Final[Mapping[str, str]] = {
    "operation": "additions, products, comparisons, minima, elements touched: one at a time",
    "vector": "the same in an innermost loop that compilers run several iterations at a time",
    "chain": "iterations of an innermost loop that wait for the one before: a sum of floats",
    "division": "of integers by what is no constant, and of floats",
    "call": "of a function of the mathematical library",
    "test": "a comparison that decides a branch",
    "turn": "an iteration of a loop: count, compare, jump",
    "entry": "into a loop and out of it",
    "tail": "behind an innermost loop whose number of iterations is not constant, or is odd",
    "far": "bytes touched of arrays that no near cache holds",
    "fresh": "bytes touched first, by pages, of so much storage that the system is asked for it each time",
}
SIZE: Final = 256  # stands for a size of which nothing is known
UNKNOWN: Final = 8  # iterations of a loop whose ends depend on data
MOST_VISITS: Final = 4_000  # of loops; beyond that one iteration stands for all
SHORT: Final = 16  # iterations that a compiler writes out
SAMPLES: Final = (8, 8, 6, 4)  # iterations that are walked of a loop that decides something, from the outside in
NEAR: Final = 1 << 18  # bytes that a near cache holds
LANES: Final = 8  # iterations that run at a time; half as many take as long
LINE: Final = 64  # bytes that are touched together
PAGE: Final = 4096  # bytes that the system hands out together
KEPT: Final = 1 << 25  # bytes of storage that allocators keep between two calls
DIVIDED: Final = 4.0  # operations of a division of integers by a constant
LONGEST: Final = 16  # period of which all iterations are walked
_GOLDEN: Final = 0.6180339887498949
_DIVISIONS: Final = (*ops.DIVISIONS, ValueOp.DIV, ValueOp.FLOORDIV, ValueOp.FLOORMOD, ValueOp.TRUNCDIV)

Work = dict[str, float]


def modelled(f: Function, sizes: Mapping[Var, int] | None = None) -> dict[str, float]:
    """The expected cost of each stage of a function, by the name of its tensor.

    Parameters
    ----------
    sizes: values of sizes; of the others `SIZE`, as far as they declare it to be possible.
    """
    return {name: sum(WEIGHTS[kind] * count for kind, count in done.items()) for name, done in work(f, sizes).items()}


def is_dearer(f: Function, than: float, sizes: Mapping[Var, int] | None = None) -> bool:
    """Whether a function is expected to cost more than that. The walk ends where it is seen."""
    env: dict[Any, int] = {v: (sizes or {}).get(v, typical(v)) for v in f.sizes}
    walker = _Walker(f, env, than)
    drive(walker.visit(f.body, env, 1.0))
    return walker.total > than


def work(f: Function, sizes: Mapping[Var, int] | None = None) -> dict[str, Work]:
    """What each stage of a function does, by the name of its tensor: how much work of each of `KINDS`."""
    env: dict[Any, int] = {v: (sizes or {}).get(v, typical(v)) for v in f.sizes}
    walker = _Walker(f, env)
    drive(walker.visit(f.body, env, 1.0))
    return walker.done


def typical(var: Var) -> int:
    """`SIZE`, or what is next to it of what a size declares to be possible."""
    if not isinstance(var, ShapeVar):
        return SIZE
    low, high, step = var.declared()
    value = SIZE if high is None else min(SIZE, high)
    value = value if low is None else max(value, low)
    return value - value % step if low is None or value - value % step >= low else value


@dataclass(frozen=True)
class _Body:
    """What one iteration of a statement does: work of each kind, apart from branches and loops.

    `vector`: the operations that may run several iterations at a time; `far`: the bytes of each array that is far.
    """

    kinds: Mapping[str, float]
    vector: float
    far: Mapping[Tensor, float]
    is_vector: bool


@dataclass(frozen=True)
class _Head:
    """What is to be known of a loop.

    `ends`: the operations of its ends, where its number of iterations is not constant. `is_short`: it is written out.
    `lanes`, `scalars`: of the work that runs several iterations at a time, by how much their number is rounded up, and
    how much of it runs alone behind that.
    `has_tail`: single iterations are left over behind the vectors.
    `period`: after how many iterations what it decides by remainders repeats itself.
    `fresh`: of each store to fresh storage in an innermost loop, the bytes between two iterations.
    """

    ends: int | None
    is_innermost: bool
    is_vector: bool
    is_short: bool
    lanes: float
    scalars: float
    has_tail: bool
    period: int
    fresh: tuple[tuple[Store, int], ...]


class _Walker:
    def __init__(self, f: Function, env: Mapping[Any, int], limit: float = inf) -> None:
        self.done: dict[str, Work] = {}
        self.total, self.limit = 0.0, limit  # cost so far, and that at which the walk ends
        self.visits = 0
        stored = {s.tensor: _bytes(s, env) for s in statements(f.body) if isinstance(s, Allocate)}
        self._far = {t for t, size in ({t: _bytes(t, env) for t in f.params} | stored).items() if size > NEAR}
        left = stored if sum(stored.values()) > KEPT else {}
        self._fresh: dict[Tensor, float] = dict(left)  # the bytes that are not touched yet
        self._controls: dict[Stmt, frozenset[Any]] = {}
        self._owner: dict[Stmt, str] = {}
        self._tests: dict[Stmt, tuple[float, float, frozenset[Any]]] = {}
        self._deciding: set[Any] = set()
        self._heads: dict[For, _Head] = {}
        self._short = written_out(f.body)
        self._numbers: dict[tuple[Any, ...], int | None] = {}
        self._stores: dict[tuple[Stmt, Any], _Body] = {}
        self._reached: dict[Tensor, float] = {}  # bytes of arrays that are far

    def visit(self, stmt: Stmt, env: Mapping[Any, int], times: float, loop: For | None = None) -> Visit[None]:
        """Count `stmt`, `times` over; `loop`: the innermost loop around it, if its body is one block."""
        if self.total > self.limit:
            return
        if isinstance(stmt, Seq):
            yield self._sequence(stmt, dict(env), times, loop)
        elif isinstance(stmt, Store):
            body, head = self._store(stmt, loop), self._heads.get(loop) if loop is not None else None
            for kind, count in body.kinds.items():
                self._charge(stmt, kind, times * count)
            if body.vector:
                self._charge(stmt, "vector", times * body.vector * (1.0 if head is None else head.lanes))
                self._charge(stmt, "operation", times * body.vector * (0.0 if head is None else head.scalars))
            for tensor, size in body.far.items():
                self._charge(stmt, "far", times * size)
                self._reached[tensor] = self._reached.get(tensor, 0.0) + times * size
        elif isinstance(stmt, If):
            yield self._branch(stmt, env, times, loop)
        elif isinstance(stmt, For):
            yield self._loop(stmt, env, times)

    def _sequence(self, stmt: Seq, env: dict[Any, int], times: float, loop: For | None) -> Visit[None]:
        """Count the parts. What one reaches of an array that is far, others then find near, if all of it is little."""
        around, together = self._reached, dict[Tensor, float]()
        for part in stmt.stmts:
            if isinstance(part, Let) and isinstance(part.value, Expr):
                value = self._number(part.value, env)
                if value is not None:
                    env[part.var] = value
                continue
            self._reached = {}
            yield self.visit(part, env, times, loop)
            stay_near = sum(together.values()) <= NEAR * times
            for tensor, size in self._reached.items():
                again = min(size, together.get(tensor, 0.0)) if stay_near else 0.0
                if again:
                    self._charge(part, "far", -again)
                together[tensor] = together.get(tensor, 0.0) + size - again
        self._reached = around
        for tensor, size in together.items():
            around[tensor] = around.get(tensor, 0.0) + size

    def _branch(self, stmt: If, env: Mapping[Any, int], times: float, loop: For | None) -> Visit[None]:
        found = self._tests.get(stmt)
        if found is None:
            found = self._tests[stmt] = (*_comparing(stmt.cond), frozenset(variables(stmt.cond)))
        if loop is None or found[2] - {loop.var}:  # else it is decided where the loop is written out
            self._charge(stmt, "test", times * found[0])
            self._charge(stmt, "operation", times * found[1])
        holds = self._number(stmt.cond, env) if isinstance(stmt.cond, Cond) else None
        if holds is None or holds:
            yield self.visit(stmt.then, env, times)
        if stmt.orelse is not None and not holds:
            yield self.visit(stmt.orelse, env, times)

    def _loop(self, loop: For, env: Mapping[Any, int], times: float) -> Visit[None]:
        self.visits += 1
        level = sum(1 for v in env if v in self._deciding)
        low, extent = (self._number(e, env) for e in range_ends(loop.range))
        first, count = low or 0, UNKNOWN if extent is None else min(extent, UNENDING)
        head = self._heads.get(loop)
        if head is None:
            head = self._heads[loop] = self._head(loop)
        if not head.is_short:
            self._charge(loop, "entry", times)
        if head.ends is not None:
            self._charge(loop, "operation", times * head.ends)
        if head.has_tail:
            self._charge(loop, "tail", times)
        if count <= 0:
            return
        for store, step in head.fresh:
            touched = min(times * max(count * step, PAGE), self._fresh[store.tensor])
            self._fresh[store.tensor] -= touched
            self._charge(store, "fresh", touched)
        if not head.is_vector and not head.is_short:
            self._charge(loop, "turn", times * count)
        around = loop if head.is_innermost or head.is_short else None
        if loop.var not in self._control(loop.body) or self.visits > MOST_VISITS:
            yield self.visit(loop.body, {**env, loop.var: first + count // 2}, times * count, around)
            return
        self._deciding.add(loop.var)
        for value, share in _samples(first, count, SAMPLES[min(level, len(SAMPLES) - 1)], head.period):
            yield self.visit(loop.body, {**env, loop.var: value}, times * share, around)

    def _number(self, e: Expr | Cond, env: Mapping[Any, int]) -> int | None:
        """The value of an expression or condition, found once for the same values of its variables."""
        if e.op is ops.CONST:
            return int(e.data)
        key = (e, *[env.get(v) for v in e.free_vars()])
        if key not in self._numbers:
            self._numbers[key] = number(e, env)
        return self._numbers[key]

    def _head(self, loop: For) -> _Head:
        fixed = constant_value(range_ends(loop.range)[1])
        inside = list(statements(loop.body))
        is_innermost = not any(isinstance(s, (For, If)) for s in inside)
        is_vector = is_innermost and all(self._store(s, loop).is_vector for s in inside if isinstance(s, Store))
        is_short = self._short[loop] is not None
        made = sum(1 for e in operands(loop) for node in walk.nodes(e) if node.op in _ENDS)
        fresh = () if any(isinstance(s, For) for s in inside) else tuple(self._first_touched(loop, inside))
        deciding = (e for s in inside if isinstance(s, (For, If, Let)) for e in operands(s))
        period = _period(e for e in deciding if loop.var in variables(e))
        ends = None if fixed is not None else made
        has_tail = is_vector and (fixed is None or (fixed > LANES // 2 and fixed % 2 == 1))
        return _Head(ends, is_innermost, is_vector, is_short, *_lanes(fixed), has_tail, period, fresh)

    def _first_touched(self, loop: For, inside: Sequence[Stmt]) -> Iterator[tuple[Store, int]]:
        for stmt in inside:
            if isinstance(stmt, Store) and stmt.tensor in self._fresh:
                width = _width(stmt.tensor)
                step = min(abs(_step(stmt.indices, loop.var) or 0) * width, PAGE)
                yield stmt, step

    def _control(self, stmt: Stmt) -> frozenset[Any]:
        """The variables that ranges and conditions inside depend on."""
        found = self._controls.get(stmt)
        if found is None:
            deciding = (inner for inner in statements(stmt) if isinstance(inner, (For, If, Let)))
            found = self._controls[stmt] = frozenset(v for inner in deciding for v in variables(*operands(inner)))
        return found

    def _charge(self, stmt: Stmt, kind: str, count: float) -> None:
        name = self._owner.get(stmt)
        if name is None:
            stores = (inner.tensor.name for inner in statements(stmt) if isinstance(inner, Store))
            name = self._owner[stmt] = next(stores, "")
        done = self.done.setdefault(name, {})
        done[kind] = done.get(kind, 0.0) + count
        self.total += WEIGHTS[kind] * count

    def _store(self, stmt: Store, loop: For | None) -> _Body:
        key = (stmt, None if loop is None else loop.var)
        found = self._stores.get(key)
        if found is None:
            found = self._stores[key] = self._body_of(stmt, loop)
        return found

    def _body_of(self, stmt: Store, loop: For | None) -> _Body:
        """One store in an iteration of an innermost loop. A sum is kept in a register; iterations that are written out
        do not wait, as those of loops around them come between."""
        var = None if loop is None else loop.var
        steps = [_step(stmt.indices, var)]
        far: dict[Tensor, float] = {stmt.tensor: _touched(stmt.tensor, steps[0])} if stmt.tensor in self._far else {}
        simple_ops, kinds, waits = 1.0, {"division": 0.0, "call": 0.0}, False
        seen = _index_nodes(stmt.indices, var)
        for node in walk.nodes(stmt.value):
            tensor = walk.loaded_tensor(node)
            if tensor is not None:
                indices = walk.read_indices(node)
                steps.append(_step(indices, var))
                seen |= _index_nodes(indices, var)
                simple_ops += 1
                if tensor in self._far:
                    far[tensor] = far.get(tensor, 0.0) + _touched(tensor, steps[-1])
                waits = waits or (tensor is stmt.tensor and indices == stmt.indices)
            elif isinstance(node, (Expr, Cond)):
                continue
            elif node.op is ValueOp.CALL:
                kinds["call"] += 1
            elif node.op in _DIVISIONS:
                kinds["division"] += 1
            elif node.args:
                simple_ops += 1
        simple_ops += len(seen)
        sums = var is not None and steps[0] == 0 and waits
        is_vector = var is not None and not sums and steps[0] == 1 and all(s in (0, 1) for s in steps) and not seen
        found = {kind: count for kind, count in kinds.items() if count}
        if not is_vector:
            found["operation"] = simple_ops - 2 if sums else simple_ops
        if sums and loop is not None and self._short[loop] is None:
            found["chain"] = 1.0
        return _Body(found, simple_ops if is_vector else 0.0, far, is_vector)


def written_out(body: Stmt) -> dict[For, int | None]:
    """For each loop, its iterations with those of loops inside, where a compiler writes them out; else `None`.

    Each statement is visited once.
    """
    found: dict[For, int | None] = {}

    def visit(stmt: Stmt) -> Visit[int | None]:
        """The product over all loops in a statement."""
        product: int | None = 1
        for part in children(stmt):
            below = yield visit(part)
            product = None if product is None or below is None else product * below
        if not isinstance(stmt, For):
            return product
        count = constant_value(range_ends(stmt.range)[1])
        if count is None or count > SHORT or product is None:
            found[stmt] = None
            return None
        own = max(count, count * product)
        found[stmt] = own if own <= SHORT else None
        return max(1, own) * product if own <= SHORT else None

    drive(visit(body))
    return found


_ENDS: Final = (ops.MIN, ops.MAX, ops.SELECT, *ops.DIVISIONS)


def _step(indices: Sequence[Expr], var: Var | None) -> int | None:
    """How far apart the elements of two iterations are, in the last dimension; `None` where that is not so simple."""
    if var is None or not indices:
        return 0
    if any(var in e.free_vars() for e in indices[:-1]):
        return None
    form = form_of(indices[-1])
    if any(t is not var and var in t.free_vars() for t in form.terms):
        return None
    return form.terms.get(var, 0)


def _index_nodes(indices: Sequence[Expr], var: Var | None) -> set[Any]:
    """What is computed for an index in each iteration, beside sums of loop variables."""
    return {
        node
        for e in indices
        for node in walk.nodes(e)
        if node.args and node.op in _ENDS and (var is None or var in node.free_vars())
    }


def _width(tensor: Tensor) -> int:
    digits = "".join(c for c in tensor.dtype if c.isdigit())
    return max(1, int(digits or 8) // 8)


def _lanes(count: int | None) -> tuple[float, float]:
    """What a loop of so many iterations runs in vectors, and one by one, for each iteration."""
    if not count:
        return 1.0, 0.0
    rest = count % LANES
    halves = rest // (LANES // 2)
    return (count - rest + LANES * halves) / count, rest % (LANES // 2) / count


def _touched(tensor: Tensor, step: int | None) -> int:
    """The bytes that an access reaches in an iteration, with those that lie beside them and are not reached."""
    width = _width(tensor)
    return max(width, min(abs(step or 0) * width, LINE))


def _bytes(stored: Tensor | Allocate, env: Mapping[Any, int]) -> int:
    tensor = stored if isinstance(stored, Tensor) else stored.tensor
    total = _width(tensor)
    for e in tensor.extents if isinstance(stored, Tensor) else (r.extent for r in stored.ranges):
        size = number(e, env)
        total *= SIZE if size is None else max(size, 0)
    return min(total, UNENDING)


def _comparing(cond: Any) -> tuple[float, float]:
    """The comparisons of a condition, and what else it computes."""
    nodes = list(walk.nodes(cond))
    compared = sum(1 for node in nodes if node.op in ops.COMPARISONS)
    divided = sum(1 for node in nodes if node.op in ops.DIVISIONS)
    return max(1.0, compared), DIVIDED * divided


def _period(conditions: Iterable[Any]) -> int:
    """After how many values of a variable remainders by constants repeat themselves; 1 where there are none."""
    nodes = (node for e in conditions for node in walk.nodes(e) if node.op in (ops.FLOORMOD, ops.TRUNCMOD))
    return lcm(*(abs(m) for node in nodes if (m := constant_value(node.args[1]))))


def _samples(first: int, count: int, most: int, period: int) -> list[tuple[int, float]]:
    """Some values of a loop variable, about as many as said, with how many each stands for: the ends, and between them
    what falls into step with no period, or whole periods."""
    if count <= most + (period if period <= LONGEST else 0):
        return [(first + k, 1.0) for k in range(count)]
    if 1 < period <= LONGEST:
        runs = max(1, (most - 2) // period)
        starts = [1 + (count - 2 - period) * (2 * k + 1) // (2 * runs) for k in range(runs)]
        between = [start + k for start in starts for k in range(period)]
    else:
        between = sorted(1 + int((count - 2) * ((k + 1) * _GOLDEN % 1.0)) for k in range(most - 2))
    share = (count - 2) / len(between)
    return [(first, 1.0), *((first + k, share) for k in between), (first + count - 1, 1.0)]


def number(e: Any, env: Mapping[Any, int]) -> int | None:
    """The value of an expression or condition; `None` where it depends on data."""
    try:
        return int(evaluate(e, {v: env[v] for v in e.free_vars()}))
    except (ArithmeticError, LookupError, IntSetError):
        return None
