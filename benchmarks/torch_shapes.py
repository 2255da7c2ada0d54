"""Questions of PyTorch's shape environment, put to it and to `intset`: `python -m benchmarks.torch_shapes [--count N]`.

A `ShapeEnv` with the sizes and guards of `benchmarks.shapes` (40 symbols). Its questions, converted to torch's own
classes, are asked of `ShapeEnv` and of `Environment.of(shape_env)` in one run, in turn, each with its caches:

guard: may a condition be decided (`_maybe_evaluate_static`, `guard_holds`);
range: both ends of a term (`bound_sympy`, `value_range`);
simplify: a term that is written shorter (`simplify`, `simplify_index`).

Conditions and terms that sympy decides while it builds them are not asked. Every answer is held against points
that satisfy the guards. Open: a guard that is not decided, an end that is looser than the other side's, a term that is
larger than the other side's. Targets: no answer wrong, ours open at most a tenth as often as torch's, in at most
torch's time; conversion at most 3 times the time of building the same expressions by hand.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import sympy
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StrictMinMaxConstraint
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from benchmarks import shapes
from intset import Var, evaluate, fold, ops
from intset.adapters.sympy import Environment, exporter, importer
from intset.adapters.torch import torch_names
from intset.expr.node import Cond, Expr, make

COUNT = 2_000
SHARE = 0.1
CONVERSION = 3.0
POINTS = 12


def point(r: random.Random) -> dict[str, int]:
    """Values of the sizes that satisfy the guards of `benchmarks.shapes`."""

    def size(low: int = 2, high: int = 12) -> int:
        return r.randint(low, high)

    v: dict[int, int] = {i: size() for i in range(40)}
    v[0], v[1], v[2] = 8 * size(1), 16 * size(1), 3 * size(2) + 1
    v[3] = size()
    v[4] = r.choice([4 * k - v[3] % 4 for k in range(1, 5) if 4 * k - v[3] % 4 not in (1, v[3])])
    v[6] = size(2, 8)
    v[5] = v[6] * (v[3] // v[6] + size(1, 4))
    v[7] = v[6] * size(1, 4)
    v[8] = -(-(v[5] + 1) // 8) * 8 + 8 * size(0, 3)
    v[9] = v[8] + 8 * size(0, 3)
    v[10], v[12], v[14] = v[11] * 4, v[13], v[15] + v[16]
    v[15], v[16] = sorted((v[15], v[16]))
    v[18] = size(7, 20)
    v[17], v[23] = (v[18] - 1) // 2 + 1, v[11] + 2
    v[19], v[20], v[21], v[22] = r.choice([(4, 6, 3, 8), (6, 10, 12, 5), (2, 3, 3, 2), (9, 4, 6, 6)])
    v[24] = 4 * size(1, 3)
    v[26] = 2 * v[24] + size(0, 4)
    v[25] = v[26] * size(1, 3)
    v[27] = v[25] * size(1, 3)
    v[29], v[30] = size(1), size(1)
    v[28] = v[29] * v[30]
    v[31] = size(2)
    v[32], v[33] = size(1, 7), size(1, 8)
    v[34], v[35], v[36], v[37] = size(1), r.choice((0, 2, 3, 5)), size(9, 512), size(3, 514)
    v[38], v[39] = size(1), size(1)
    return {f"s{i}": value for i, value in v.items()}


class Session:
    """A shape environment, the symbols of its sizes, and questions in torch's terms."""

    def __init__(self) -> None:
        self.plain = shapes.Environment()
        self.shape_env: Any = ShapeEnv()
        hints = point(random.Random(7))
        symbols: dict[Var, Any] = {}
        for size in self.plain.sizes:
            low, _, _ = size.declared()
            assert low is not None
            limits = StrictMinMaxConstraint(vr=ValueRanges(low, int_oo), warn_only=False)
            symbols[size] = self.shape_env.create_symbol(
                hints[size.name],
                source=ConstantSource(size.name),
                dynamic_dim=DimDynamic.DYNAMIC,
                constraint_dim=limits,
                do_not_specialize_zero_one=low < 2,
            )
        self.sizes = {symbol: size for size, symbol in symbols.items()}
        self.to_torch = exporter(symbols, torch_names())
        for guard in self.plain.guards:
            holds = self.shape_env.evaluate_expr(self.to_torch(guard))
            assert holds, guard
        self.from_torch = importer(self.sizes)


def questions(session: Session, count: int, seed: int = 27) -> Iterator[tuple[str, Any]]:
    """Different questions that sympy leaves open while it builds them, seven conditions to three terms."""
    drawn = shapes.Drawn(session.plain, seed)
    r = random.Random(seed)
    found: set[Any] = set()
    while len(found) < count:
        goal: Any = drawn.question()[1]
        if not isinstance(goal, Cond):
            continue
        kind = r.choices(("guard", "range", "simplify"), (14, 3, 3))[0]
        if kind != "guard":
            while isinstance(goal.args[0], Cond):
                goal = goal.args[0]
            goal = goal.args[r.randint(0, 1)] if r.random() < 0.7 else make(ops.SUB, goal.args)
        term = session.to_torch(goal)
        if not term.free_symbols or term.is_Symbol or (kind, term) in found:
            continue
        found.add((kind, term))
        yield kind, term


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = process_time()
    answer = call()
    return answer, process_time() - start


def torch_answer(session: Session, kind: str, term: Any) -> Any:
    if kind == "guard":
        answer = session.shape_env._maybe_evaluate_static(term)
        return None if answer is None else bool(answer)
    if kind == "range":
        known = session.shape_env.bound_sympy(session.shape_env.simplify(term))
        return known.lower, known.upper
    return session.shape_env.simplify(term)


def our_answer(env: Environment, kind: str, term: Any) -> Any:
    ask = {"guard": env.guard_holds, "range": env.value_range, "simplify": env.simplify_index}[kind]
    return ask(term)


def finite(end: Any) -> Any:
    """An end of a range as a number; infinities as those of floating point."""
    if end in (int_oo, sympy.oo):
        return float("inf")
    return -float("inf") if end in (-int_oo, -sympy.oo) else int(end)


def size_of(term: Any) -> int:
    return len(list(sympy.preorder_traversal(term)))


def open_sides(kind: str, theirs: Any, ours: Any) -> tuple[bool, bool]:
    """Whether torch's answer and ours are open."""
    if kind == "guard":
        return theirs is None, ours is None
    if kind == "range":
        (a, b), (c, d) = map(finite, theirs), map(finite, ours)
        return a < c or b > d, c < a or d > b
    return size_of(theirs) > size_of(ours), size_of(ours) > size_of(theirs)


def is_wrong(session: Session, kind: str, term: Any, answer: Any, points: list[dict[str, int]]) -> bool:
    """Whether an answer is wrong at one of the points."""
    asked: Any = session.from_torch(term)
    given: Any = session.from_torch(answer) if kind == "simplify" else None
    for named in points:
        at = {size: named[size.name] for size in session.plain.sizes}
        try:
            value = evaluate(asked, at)
        except ZeroDivisionError:
            continue
        if kind == "guard" and answer is not None and answer is not value:
            return True
        if kind == "range" and not finite(answer[0]) <= value <= finite(answer[1]):
            return True
        if kind == "simplify" and evaluate(given, at) != value:
            return True
    return False


def conversion(session: Session, terms: list[Any]) -> float:
    """Time of converting terms over that of building the same expressions by hand, each from an empty cache.

    The least of five runs of each, in turn, without the collector of garbage, as `timeit` measures.
    """
    nodes = list(map(importer(session.sizes), terms))
    recipes = [recipe(node) for node in nodes]
    converting, building = [], []
    gc.disable()
    for _ in range(5):
        convert = importer(session.sizes)
        converting.append(timed(lambda convert=convert: list(map(convert, terms)))[1])  # type: ignore[misc]
        building.append(timed(lambda: [make_again() for make_again in recipes])[1])
    gc.enable()
    return min(converting) / min(building)


def recipe(node: Expr | Cond) -> Callable[[], Any]:
    """A Python function that builds an expression by the operators that a person would write."""
    names: dict[str, Any] = {"maximum": shapes.maximum, "minimum": shapes.minimum, "ceildiv": shapes.ceildiv}

    def variable(v: Any) -> str:
        names[v.name] = v
        return str(v.name)

    def infix(sign: str) -> Callable[..., str]:
        return lambda e, a, b: f"({a} {sign} {b})"

    signs = {ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.FLOORDIV: "//", ops.FLOORMOD: "%", ops.LT: "<", ops.LE: "<="}
    signs |= {ops.GT: ">", ops.GE: ">=", ops.AND: "&", ops.OR: "|"}
    text = fold(
        node,
        {op: infix(sign) for op, sign in signs.items()}
        | {
            ops.VAR: variable,
            ops.CONST: lambda e: str(e.value),
            ops.BOOL: lambda e: str(e.data),
            ops.NEG: lambda e, a: f"(-{a})",
            ops.NOT: lambda e, a: f"(~{a})",
            ops.EQ: lambda e, a, b: f"({a}).eq({b})",
            ops.NE: lambda e, a, b: f"({a}).ne({b})",
            ops.MAX: lambda e, a, b: f"maximum({a}, {b})",
            ops.MIN: lambda e, a, b: f"minimum({a}, {b})",
            ops.CEILDIV: lambda e, a, b: f"ceildiv({a}, {b})",
        },
    )
    made: Callable[[], Any] = eval(f"lambda: {text}", names)
    return made


def measure(count: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row for each question, and the figures of the run."""
    session = Session()
    asked = list(questions(session, count))
    points = [point(random.Random(seed)) for seed in range(POINTS)]
    at_points = [{size: named[size.name] for size in session.plain.sizes} for named in points]
    assert all(evaluate(guard, at) for guard in session.plain.guards for at in at_points)
    env, starting = timed(lambda: Environment.of(session.shape_env))
    rows = []
    for kind, term in asked:
        theirs, their_seconds = timed(lambda kind=kind, term=term: torch_answer(session, kind, term))  # type: ignore[misc]
        ours, our_seconds = timed(lambda kind=kind, term=term: our_answer(env, kind, term))  # type: ignore[misc]
        their_open, our_open = open_sides(kind, theirs, ours)
        rows.append(
            {
                "kind": kind,
                "term": str(term),
                "torch": str(theirs),
                "intset": str(ours),
                "open": (their_open, our_open),
                "seconds": (their_seconds, our_seconds),
                "wrong": tuple(is_wrong(session, kind, term, answer, points) for answer in (theirs, ours)),
            }
        )
    ratio = conversion(session, [term for _, term in asked])
    return rows, {"conversion": ratio, "starting": starting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many questions; default {COUNT}")
    parser.add_argument("--all", action="store_true", help="show the questions that stay open")
    parser.add_argument("--json", action="store_true", help="print every question with both answers and seconds")
    options = parser.parse_args()
    rows, figures = measure(options.count)
    if options.json:
        print(json.dumps({"questions": rows, **figures}, indent=1))
        return
    names = ("torch", "intset")
    for kind in ("guard", "range", "simplify"):
        own = [row for row in rows if row["kind"] == kind]
        parts = [
            f"{name}: {sum(row['open'][side] for row in own):4d} open {sum(row['seconds'][side] for row in own):7.2f} s"
            for side, name in enumerate(names)
        ]
        print(f"{kind:>8} {len(own):5d} questions  {'   '.join(parts)}")
    opened = [sum(row["open"][side] for row in rows) for side in range(2)]
    seconds = [sum(row["seconds"][side] for row in rows) for side in range(2)]
    seconds[1] += figures["starting"]
    wrong = Counter(name for row in rows for side, name in enumerate(names) if row["wrong"][side])
    print(f"wrong: {dict(wrong)}{'  MISSED' if wrong['intset'] else ''}")
    print(f"open: torch {opened[0]}, intset {opened[1]}, target {SHARE:.0%}{_missed(opened[1] > SHARE * opened[0])}")
    print(
        f"seconds: torch {seconds[0]:.2f}, intset {seconds[1]:.2f} ({figures['starting']:.3f} of them to start)", end=""
    )
    print(_missed(seconds[1] > seconds[0]))
    print(
        f"conversion: {figures['conversion']:.2f} times building by hand{_missed(figures['conversion'] > CONVERSION)}"
    )
    for row in sorted(rows, key=lambda row: -row["seconds"][1]):
        if any(row["wrong"]) or row["open"][1] and options.all:
            note = f"  WRONG {row['wrong']}" if any(row["wrong"]) else ""
            print(
                f"{row['seconds'][1] * 1e3:9.2f} ms  {row['term']}: torch {row['torch']}, intset {row['intset']}{note}"
            )


def _missed(missed: bool) -> str:
    return "  MISSED" if missed else ""


if __name__ == "__main__":
    main()
