"""Cost model of nests: expected time by stage, in units of one simple operation.

The model walks a nest as it would run, with numbers for its variables, and counts work by kind (`KINDS`). A loop whose
variable decides no range and no condition inside is walked once, for all of its iterations. Of other loops the first,
the last and a few iterations between are walked; those between stand for the rest. So guards cost time at the borders
of a tile and none in its interior.

The cost is the sum of the work, each kind times its weight (`WEIGHTS`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, lcm
from types import MappingProxyType
from typing import Any, Final

from bound.dtypes import storage_bytes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import CALL, DIV
from intset.errors import IntSetError
from intset.expr import Cond, Expr, ShapeVar, Var, constant_value, ops
from intset.expr.evaluate import repeatable
from intset.linear.canonical import form_of
from lowering.nest import driver, ir
from lowering.nest.walk import children, operands, range_ends, statements, variables
from lowering.passes.estimates import UNENDING

_KINDS: Final = {
    "operation": (1.0, "scalar additions, products, comparisons, minima and element accesses"),
    "vector": (0.23, "the same operations in an innermost loop that compilers vectorize"),
    "chain": (6.9, "iterations of an innermost loop with a dependence on the previous one: a sum of floats"),
    "division": (12.8, "divisions of integers by variables, and of floats"),
    "call": (21.3, "calls of the mathematical library"),
    "test": (2.0, "comparisons of branches"),
    "turn": (1.3, "loop iterations: count, compare, jump"),
    "entry": (2.5, "entries into loops, exits included"),
    "tail": (22.8, "remainder loops of innermost loops with a variable or odd number of iterations"),
    "far": (0.17, "bytes accessed of arrays larger than the near cache"),
    "fresh": (0.7, "bytes of pages accessed for the first time, in storage so large that each call maps it anew"),
}
KINDS: Final[Mapping[str, str]] = MappingProxyType({kind: text for kind, (_, text) in _KINDS.items()})
WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({kind: weight for kind, (weight, _) in _KINDS.items()})
"""Cost of each kind of work, fitted to compiled programs by `python -m benchmarks.fit`."""

SIZE: Final = 256  # value of an unknown size
UNKNOWN: Final = 8  # iterations of a loop whose ends depend on data
MOST_VISITS: Final = 4_000  # of loops; beyond that one iteration stands for all
SHORT: Final = 16  # iterations up to which a compiler unrolls a loop
SAMPLES: Final = (8, 8, 6, 4)  # iterations walked of deciding loops, by depth
NEAR: Final = 1 << 18  # bytes of the near cache
LANES: Final = 8  # iterations of a vector; half a vector takes as long
LINE: Final = 64  # bytes of a cache line
PAGE: Final = 4096  # bytes of a page
KEPT: Final = 1 << 25  # bytes of storage that allocators keep between two calls
DIVIDED: Final = 4.0  # operations of a division of integers by a constant
LONGEST: Final = 16  # period of which all iterations are walked
_GOLDEN: Final = 0.6180339887498949
_DIVISIONS: Final = (DIV, ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV)

Work = dict[str, float]


def modelled(f: ir.Function, sizes: Mapping[Var, int] | None = None) -> dict[str, float]:
    """The expected cost of each stage of a function, by the name of its tensor.

    Parameters
    ----------
    sizes: values of sizes; others have their `typical` value.
    """
    return _weighed(work(f, sizes))


def modelled_up_to(f: ir.Function, limit: float, sizes: Mapping[Var, int] | None = None) -> dict[str, float] | None:
    """The same; `None` if their sum exceeds a limit, as soon as it does."""
    counter = _WorkCounter(f, sizes, limit)
    counter.run(f)
    return None if counter.total > limit else _weighed(counter.done)


def work(f: ir.Function, sizes: Mapping[Var, int] | None = None) -> dict[str, Work]:
    """Count the work of each stage, by tensor name and kind."""
    counter = _WorkCounter(f, sizes)
    counter.run(f)
    return counter.done


def _weighed(done: Mapping[str, Work]) -> dict[str, float]:
    return {name: sum(WEIGHTS[kind] * count for kind, count in kinds.items()) for name, kinds in done.items()}


def typical(var: Var) -> int:
    """The value closest to `SIZE` that the declaration of a size permits."""
    if not isinstance(var, ShapeVar):
        return SIZE
    low, high, step = var.declared()
    value = SIZE if high is None else min(SIZE, high)
    value = value if low is None else max(value, low)
    return value - value % step if low is None or value - value % step >= low else value


@dataclass(frozen=True)
class _Body:
    """The work of one iteration of a store, without branches and loops.

    Attributes
    ----------
    vector: operations that may be vectorized.
    far: bytes accessed, by array larger than the near cache.
    """

    kinds: Mapping[str, float]
    vector: float
    far: Mapping[Tensor, float]
    is_vector: bool


@dataclass(frozen=True)
class _Head:
    """Loop properties, independent of values.

    Attributes
    ----------
    ends: operations that compute its ends, if the number of iterations is not constant.
    is_short: compilers unroll it.
    lanes: factor by which vectorization rounds up the number of iterations.
    scalars: share of iterations that run in the remainder loop.
    has_tail: there is a remainder loop.
    period: the least common period of the remainders that its variable decides.
    fresh: stores to fresh storage in an innermost loop, with the bytes between two iterations.
    """

    ends: int | None
    is_innermost: bool
    is_vector: bool
    is_short: bool
    lanes: float
    scalars: float
    has_tail: bool
    period: int
    fresh: tuple[tuple[ir.Store, int], ...]


class _CountedIterations(driver.Descent):
    """Iterations that are counted together.

    Attributes
    ----------
    env: values of loop variables and sizes.
    times: the number of iterations.
    loop: the innermost loop around, if its body is a basic block.
    """

    __slots__ = ("env", "loop", "times")

    def __init__(self, env: Mapping[Any, int], times: float, loop: ir.For | None) -> None:
        self.env, self.times, self.loop = env, times, loop


class _WorkCounter:
    """Counts the work of a function by stage and kind, up to a limit of cost."""

    def __init__(self, f: ir.Function, sizes: Mapping[Var, int] | None, limit: float = inf) -> None:
        self._env = env = {v: (sizes or {}).get(v, typical(v)) for v in f.sizes}
        self.done: dict[str, Work] = {}
        self.total, self.limit = 0.0, limit  # cost so far, and that at which the walk ends
        self.visits = 0
        stored = {s.tensor: _bytes(s, env) for s in statements(f.body) if isinstance(s, ir.Allocate)}
        self._far = {t for t, size in ({t: _bytes(t, env) for t in f.params} | stored).items() if size > NEAR}
        left = stored if sum(stored.values()) > KEPT else {}
        self._fresh: dict[Tensor, float] = dict(left)  # bytes not accessed yet
        self._controls: dict[ir.Stmt, frozenset[Any]] = {}
        self._owner: dict[ir.Stmt, str] = {}
        self._tests: dict[ir.Stmt, tuple[float, float, frozenset[Any]]] = {}
        self._deciding: set[Any] = set()
        self._heads: dict[ir.For, _Head] = {}
        self._short = written_out(f.body)
        self._numbers: dict[tuple[Any, ...], int | None] = {}
        self._functions: dict[Expr | Cond, Callable[..., Any]] = {}
        self._stores: dict[tuple[ir.Stmt, Any], _Body] = {}
        self._reached: dict[Tensor, float] = {}  # bytes of arrays that are far

    def run(self, f: ir.Function) -> None:
        """Count the work of a function."""
        rules: dict[type[ir.Stmt], driver.SynthesisRule[_CountedIterations, None]] = {
            ir.Seq: self._sequence,
            ir.Store: self._stored,
            ir.If: self._branch,
            ir.For: self._loop,
            ir.Stmt: lambda stmt, here: None,
        }
        driver.synthesized(f.body, _CountedIterations(self._env, 1.0, None), rules)

    # -- rules by kind of statement --------------------------------------------------------------------------------

    def _stored(self, stmt: ir.Store, here: _CountedIterations) -> None:
        if self.total > self.limit:
            return
        body, head = self._store(stmt, here.loop), None if here.loop is None else self._heads.get(here.loop)
        for kind, count in body.kinds.items():
            self._charge(stmt, kind, here.times * count)
        if body.vector:
            self._charge(stmt, "vector", here.times * body.vector * (1.0 if head is None else head.lanes))
            self._charge(stmt, "operation", here.times * body.vector * (0.0 if head is None else head.scalars))
        for tensor, size in body.far.items():
            self._charge(stmt, "far", here.times * size)
            self._reached[tensor] = self._reached.get(tensor, 0.0) + here.times * size

    def _sequence(self, stmt: ir.Seq, here: _CountedIterations) -> driver.Synthesis[_CountedIterations, None]:
        """Count the parts; far bytes that one part loads are near for later parts if all of them fit."""
        if self.total > self.limit:
            return
        around, together = self._reached, dict[Tensor, float]()
        env, times = dict(here.env), here.times
        for part in stmt.stmts:
            if isinstance(part, ir.Let) and isinstance(part.value, Expr):
                value = self._number(part.value, env)
                if value is not None:
                    env[part.var] = value
                continue
            self._reached = {}
            yield part, _CountedIterations(env, times, here.loop)
            stay_near = sum(together.values()) <= NEAR * times
            for tensor, size in self._reached.items():
                again = min(size, together.get(tensor, 0.0)) if stay_near else 0.0
                if again:
                    self._charge(part, "far", -again)
                together[tensor] = together.get(tensor, 0.0) + size - again
        self._reached = around
        for tensor, size in together.items():
            around[tensor] = around.get(tensor, 0.0) + size

    def _branch(self, stmt: ir.If, here: _CountedIterations) -> driver.Synthesis[_CountedIterations, None]:
        if self.total > self.limit:
            return
        test = self._tests.get(stmt)
        if test is None:
            test = self._tests[stmt] = (*_comparing(stmt.cond), frozenset(variables(stmt.cond)))
        if here.loop is None or test[2] - {here.loop.var}:  # else unrolling decides it
            self._charge(stmt, "test", here.times * test[0])
            self._charge(stmt, "operation", here.times * test[1])
        holds = self._number(stmt.cond, here.env) if isinstance(stmt.cond, Cond) else None
        inside = _CountedIterations(here.env, here.times, None)
        if holds is None or holds:
            yield stmt.then, inside
        if stmt.orelse is not None and not holds:
            yield stmt.orelse, inside

    def _loop(self, loop: ir.For, here: _CountedIterations) -> driver.Synthesis[_CountedIterations, None]:
        if self.total > self.limit:
            return
        env, times = here.env, here.times
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
            yield loop.body, _CountedIterations({**env, loop.var: first + count // 2}, times * count, around)
            return
        self._deciding.add(loop.var)
        for value, share in _samples(first, count, SAMPLES[min(level, len(SAMPLES) - 1)], head.period):
            yield loop.body, _CountedIterations({**env, loop.var: value}, times * share, around)

    # -- work of single statements ---------------------------------------------------------------------------------

    def _number(self, e: Expr | Cond, env: Mapping[Any, int]) -> int | None:
        """The value of an expression or condition, cached by the values of its variables."""
        if e.op is ops.CONST:
            return int(e.data)
        key = (e, *[env.get(v) for v in e.free_vars()])
        if key not in self._numbers:
            function = self._functions.get(e)
            if function is None:
                function = self._functions[e] = repeatable(e, e.free_vars())
            self._numbers[key] = _value(function, e, env)
        return self._numbers[key]

    def _head(self, loop: ir.For) -> _Head:
        fixed = constant_value(range_ends(loop.range)[1])
        inside = list(statements(loop.body))
        is_innermost = not any(isinstance(s, (ir.For, ir.If)) for s in inside)
        is_vector = is_innermost and all(self._store(s, loop).is_vector for s in inside if isinstance(s, ir.Store))
        is_short = self._short[loop] is not None
        made = sum(1 for e in operands(loop) for node in walk.nodes(e) if node.op in _ENDS and isinstance(node, Expr))
        fresh = () if any(isinstance(s, ir.For) for s in inside) else tuple(self._first_touched(loop, inside))
        deciding = (e for s in inside if isinstance(s, (ir.For, ir.If, ir.Let)) for e in operands(s))
        period = _period(e for e in deciding if loop.var in variables(e))
        ends = None if fixed is not None else made
        has_tail = is_vector and (fixed is None or (fixed > LANES // 2 and fixed % 2 == 1))
        return _Head(ends, is_innermost, is_vector, is_short, *_lanes(fixed), has_tail, period, fresh)

    def _first_touched(self, loop: ir.For, inside: Sequence[ir.Stmt]) -> Iterator[tuple[ir.Store, int]]:
        for stmt in inside:
            if isinstance(stmt, ir.Store) and stmt.tensor in self._fresh:
                width = storage_bytes(stmt.tensor.dtype)
                step = min(abs(_step(stmt.indices, loop.var) or 0) * width, PAGE)
                yield stmt, step

    def _control(self, stmt: ir.Stmt) -> frozenset[Any]:
        """The variables that decide ranges and conditions inside."""
        found = self._controls.get(stmt)
        if found is None:
            deciding = (inner for inner in statements(stmt) if isinstance(inner, (ir.For, ir.If, ir.Let)))
            found = self._controls[stmt] = frozenset(v for inner in deciding for v in variables(*operands(inner)))
        return found

    def _charge(self, stmt: ir.Stmt, kind: str, count: float) -> None:
        name = self._owner.get(stmt)
        if name is None:
            stores = (inner.tensor.name for inner in statements(stmt) if isinstance(inner, ir.Store))
            name = self._owner[stmt] = next(stores, "")
        done = self.done.setdefault(name, {})
        done[kind] = done.get(kind, 0.0) + count
        self.total += WEIGHTS[kind] * count

    def _store(self, stmt: ir.Store, loop: ir.For | None) -> _Body:
        key = (stmt, None if loop is None else loop.var)
        found = self._stores.get(key)
        if found is None:
            found = self._stores[key] = self._body_of(stmt, loop)
        return found

    def _body_of(self, stmt: ir.Store, loop: ir.For | None) -> _Body:
        """The work of a store in one iteration of an innermost loop.

        A sum stays in a register. Unrolled iterations form no chain, as iterations of outer loops come between.
        """
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
            elif node.op is CALL:
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


def written_out(body: ir.Stmt) -> dict[ir.For, int | None]:
    """Map each loop that a compiler unrolls to its iterations, those of inner loops included; other loops to `None`.

    Each statement is visited once.
    """
    unrolled: dict[ir.For, int | None] = {}

    def product_of_parts(stmt: ir.Stmt, here: driver.Descent) -> driver.Synthesis[driver.Descent, int | None]:
        """Multiply the iterations of all loops inside."""
        product: int | None = 1
        for part in children(stmt):
            below = yield part, here
            product = None if product is None or below is None else product * below
        return product

    def of_loop(loop: ir.For, here: driver.Descent) -> driver.Synthesis[driver.Descent, int | None]:
        product = yield from product_of_parts(loop, here)
        count = constant_value(range_ends(loop.range)[1])
        if count is None or count > SHORT or product is None:
            unrolled[loop] = None
            return None
        own = max(count, count * product)
        unrolled[loop] = own if own <= SHORT else None
        return max(1, own) * product if own <= SHORT else None

    rules: dict[type[ir.Stmt], driver.SynthesisRule[driver.Descent, int | None]] = {
        ir.For: of_loop,
        ir.Stmt: product_of_parts,
    }
    driver.synthesized(body, driver.Descent(), rules)
    return unrolled


_ENDS: Final = (ops.MIN, ops.MAX, ops.SELECT, *ops.DIVISIONS)
_REMAINDERS: Final = (ops.FLOORMOD, ops.TRUNCMOD)


def _step(indices: Sequence[Expr], var: Var | None) -> int | None:
    """The stride of an access in the last dimension; `None` if other dimensions vary, or it is not affine."""
    if var is None or not indices:
        return 0
    if any(var in e.free_vars() for e in indices[:-1]):
        return None
    form = form_of(indices[-1])
    if any(t is not var and var in t.free_vars() for t in form.terms):
        return None
    return form.terms.get(var, 0)


def _index_nodes(indices: Sequence[Expr], var: Var | None) -> set[Any]:
    """The minima, maxima, selections and divisions of an index that vary with the loop."""
    return {
        node
        for e in indices
        for node in walk.nodes(e)
        if node.op in _ENDS and isinstance(node, Expr) and (var is None or var in node.free_vars())
    }


def _lanes(count: int | None) -> tuple[float, float]:
    """`_Head.lanes` and `_Head.scalars` of a number of iterations."""
    if not count:
        return 1.0, 0.0
    rest = count % LANES
    halves = rest // (LANES // 2)
    return (count - rest + LANES * halves) / count, rest % (LANES // 2) / count


def _touched(tensor: Tensor, step: int | None) -> int:
    """The bytes that an access loads into the cache per iteration, unused neighbours included."""
    width = storage_bytes(tensor.dtype)
    return max(width, min(abs(step or 0) * width, LINE))


def _bytes(stored: Tensor | ir.Allocate, env: Mapping[Any, int]) -> int:
    tensor = stored if isinstance(stored, Tensor) else stored.tensor
    total = storage_bytes(tensor.dtype)
    for e in tensor.extents if isinstance(stored, Tensor) else (r.extent for r in stored.ranges):
        size = number(e, env)
        total *= SIZE if size is None else max(size, 0)
    return min(total, UNENDING)


def _comparing(cond: Any) -> tuple[float, float]:
    """Count comparisons and other operations of a condition."""
    nodes = [node for node in walk.nodes(cond) if isinstance(node, (Expr, Cond))]
    compared = sum(1 for node in nodes if node.op in ops.COMPARISONS)
    divided = sum(1 for node in nodes if node.op in ops.DIVISIONS)
    return max(1.0, compared), DIVIDED * divided


def _period(conditions: Iterable[Any]) -> int:
    """The least common multiple of the constant moduli in conditions; 1 if there are none."""
    nodes = (node for e in conditions for node in walk.nodes(e) if isinstance(node, Expr) and node.op in _REMAINDERS)
    return lcm(*(abs(m) for node in nodes if (m := constant_value(node.args[1]))))


def _samples(first: int, count: int, most: int, period: int) -> list[tuple[int, float]]:
    """About `most` values of a loop variable, each with the number of iterations that it represents.

    The ends represent themselves. Between them: whole periods, or a golden-ratio sequence, which aliases no period.
    """
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
    """The value of an expression or condition; `None` if it depends on data."""
    return _value(repeatable(e, e.free_vars()), e, env)


def _value(function: Callable[..., Any], e: Any, env: Mapping[Any, int]) -> int | None:
    try:
        return int(function(*[env[v] for v in e.free_vars()]))
    except (ArithmeticError, LookupError, IntSetError):
        return None
