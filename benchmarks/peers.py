"""Other analyzers, asked for the ends of index expressions at constant bounds, where they are installed: TVM, Halide.

Each gets what a user of it can state. TVM's analyzer has the ranges bound and the conditions entered, and gives the
constant bounds of the simplified expression. Halide infers the part of an input that a reduction over the box reads at
the expression, its conditions being the reduction's predicate.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Protocol

from benchmarks.scoring import IndexScore, elements_of, ratio_of, true_ends
from benchmarks.simplify import Theirs
from intset.errors import InputError
from intset.expr import ops
from intset.expr.convert import fold
from intset.expr.node import Expr, as_expr
from lowering.cli.inputs import Problem

Ends = tuple[int | None, int | None]
MOST_LOOPS = 4  # of Halide, whose inference was seen to take minutes beyond
_INFINITE = 2**63 - 1  # TVM's; its negative stands for the other end


class Peer(Protocol):
    """An analyzer that tells the ends of an expression; `None` for an end that it does not bound."""

    name: str

    def asking(self, problem: Problem, k: int) -> Callable[[], Ends]:
        """The question about expression `k`, converted; raises `InputError` for what the peer cannot state."""


def installed_peers() -> Iterator[Peer]:
    """The peers that can be imported."""
    if find_spec("tvm") is not None and find_spec("tvm.sym") is not None:
        yield Tvm()
    if find_spec("halide") is not None:
        yield Halide()


class Tvm:
    """`tvm.sym.Analyzer.const_int_bound` of the simplified expression."""

    def __init__(self) -> None:
        self.name = f"tvm {importlib.import_module('tvm').__version__}"

    def asking(self, problem: Problem, k: int) -> Callable[[], Ends]:
        theirs = Theirs()
        try:
            analyzer, scope, asked = theirs.entered(problem, problem.exprs[k])
        except (AttributeError, KeyError) as error:
            raise InputError(f"not converted: {error}") from None

        def ask() -> Ends:
            with scope():
                ends = analyzer.const_int_bound(analyzer.simplify(asked))
            low, high = int(ends.min_value), int(ends.max_value)
            return (None if low <= -_INFINITE else low), (None if high >= _INFINITE else high)

        return ask


class Halide:
    """The bounds that Halide infers for an input, read at the expression over a reduction domain."""

    def __init__(self) -> None:
        self._hl: Any = importlib.import_module("halide")
        self.name = "halide"
        hl = self._hl
        self._table: dict[Any, Callable[..., Any]] = {
            ops.CONST: lambda e: hl.i32(e.data),
            ops.BOOL: lambda e: hl.cast(hl.Bool(), hl.i32(int(e.data))),
            ops.ADD: lambda e, a, b: a + b,
            ops.SUB: lambda e, a, b: a - b,
            ops.MUL: lambda e, a, b: a * b,
            ops.FLOORDIV: lambda e, a, b: a / b,  # Halide's integer division is the floor's, for divisors above 0
            ops.FLOORMOD: lambda e, a, b: a % b,
            ops.MIN: lambda e, a, b: hl.min(a, b),
            ops.MAX: lambda e, a, b: hl.max(a, b),
            ops.LT: lambda e, a, b: a < b,
            ops.LE: lambda e, a, b: a <= b,
            ops.GT: lambda e, a, b: a > b,
            ops.GE: lambda e, a, b: a >= b,
            ops.EQ: lambda e, a, b: a == b,
            ops.NE: lambda e, a, b: a != b,
            ops.AND: lambda e, a, b: a & b,
            ops.OR: lambda e, a, b: a | b,
            ops.NOT: lambda e, a: ~a,
            ops.SELECT: lambda e, c, a, b: hl.select(c, a, b),
        }

    def asking(self, problem: Problem, k: int) -> Callable[[], Ends]:
        hl = self._hl
        if len(problem.ranges) > MOST_LOOPS:
            raise InputError(f"not asked: more than {MOST_LOOPS} loops")
        sides = [(as_expr(side.min), as_expr(side.extent)) for side in problem.ranges.values()]
        if not all(end.is_const for side in sides for end in side):
            raise InputError("a loop's bounds depend on another loop")
        if not sides:
            raise InputError("no loops")
        box = hl.RDom([(int(low), int(extent)) for low, extent in sides])
        places = {var: box[number] for number, var in enumerate(problem.ranges)}
        table = self._table | {ops.VAR: lambda e: hl.Expr(places[e])}
        source, sink = hl.ImageParam(hl.Int(32), 1), hl.Func()
        index = fold(problem.exprs[k], table)
        for condition in problem.conditions:
            box.where(fold(condition, table))
        sink[()] = 0
        sink[()] += source[index]

        def ask() -> Ends:
            sink.infer_input_bounds([])
            side = source.get().dim(0)
            return side.min(), side.min() + side.extent() - 1

        return ask


def ends_of(peer: Peer, problem: Problem, k: int) -> Callable[[], Ends]:
    """The question to a peer about an index expression; an error of the peer itself is an `InputError` as well."""
    if not isinstance(problem.exprs[k], Expr):
        raise InputError("not an index expression")
    ask = peer.asking(problem, k)

    def asked() -> Ends:
        try:
            return ask()
        except Exception as error:  # whatever a foreign library raises is its answer
            raise InputError(f"{type(error).__name__}: {str(error).strip().splitlines()[-1:]}") from None

    return asked


def peer_scores(peer: Peer, problems: Iterable[Problem]) -> list[IndexScore]:
    """The answers of a peer on every index expression at constant bounds."""
    asked = (problem for problem in problems if not problem.row.is_predicate and not problem.sizes)
    return [_score_by_peer(peer, problem, k) for problem in asked for k in range(len(problem.exprs))]


def _score_by_peer(peer: Peer, problem: Problem, k: int) -> IndexScore:
    truth = true_ends(problem, k, elements_of(problem, k))
    notes, wrong, ends, seconds = (), (), (None, None), 0.0
    try:
        ask, begin = ends_of(peer, problem, k), perf_counter()
        ends, seconds = ask(), perf_counter() - begin
    except InputError as error:
        notes = (str(error),)
    low, high = ends
    if truth is not None and ((low is not None and low > truth[0]) or (high is not None and high < truth[1])):
        wrong = (f"[{low}, {high}] lacks a part of [{truth[0]}, {truth[1]}]",)
    return IndexScore(
        row=problem.row.number,
        op=problem.row.op,
        expr=problem.row.exprs[k],
        low="NEG_INF" if low is None else str(low),
        high="POS_INF" if high is None else str(high),
        truth=truth,
        tight=False,
        ratio=ratio_of(low, high, truth),
        seconds=seconds,
        set_exact=None,
        set_seconds=0.0,
        by="" if notes else peer.name,  # nothing by which it was refused
        notes=notes,
        violations=wrong,
    )
