"""What a query costs, side by side in one run: `python -m benchmarks.cost [--repeat N] [--json]`.

On each index expression of the corpus with constant bounds, in turn and several times over:

direct       islpy called by hand: the row's syntax tree to an isl function, conditions intersected, the range's ends
isl          the `isl` domain's bounds, from built expressions and a fresh `Context`
auto         the same by `auto`
isl+build    as `isl`, with the variables and expressions built anew by Python operators; `auto+build` likewise

The variants run one after another on each expression, so that a busy machine slows all of them alike; of each the
fastest repetition counts, and the ratio is taken per expression before the median (and of the totals as well).
Targets: isl <= 1.5 * direct; auto <= 1/3 * isl (median times); auto+build <= 1/2 * isl+build.
"""

import argparse
import ast
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from types import CodeType
from typing import Any

import intset
from benchmarks.reference import Reference
from intset import Context, Range, Var
from lowering.cli import reports
from lowering.cli.inputs import CorpusRow, Problem, read_rows

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "benchmarks" / "data" / "index_expressions.json"
TARGETS = {"isl / direct": 1.5, "auto / isl": 1 / 3, "auto+build / isl+build": 1 / 2}
_COUNTERPARTS = {"and": "logical_and", "or": "logical_or", "min": "minimum", "max": "maximum"}


class Builder(ast.NodeTransformer):
    """A row's text as the Python code a user writes: what has no operator becomes a function of `intset`."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        return _call(name, [self.visit(value) for value in node.values])

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _call("select", [self.visit(part) for part in (node.test, node.body, node.orelse)])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        return _call(_COUNTERPARTS.get(node.func.id, node.func.id), [self.visit(arg) for arg in node.args])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = [self.visit(side) for side in (node.left, *node.comparators)]
        parts: list[ast.expr] = [
            ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else _call("logical_and", parts)


def _call(name: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), args, [])


def python_code(text: str) -> CodeType:
    """The code that builds an expression of the corpus from variables."""
    tree = ast.fix_missing_locations(ast.Expression(Builder().visit(ast.parse(text, mode="eval").body)))
    return compile(tree, "<corpus>", "eval")


_NAMESPACE = {name: getattr(intset, name) for name in intset.__all__}


class Case:
    """One index expression, ready to be asked about in every way."""

    def __init__(self, row: CorpusRow, k: int) -> None:
        self.row, self.k = row, k
        self.problem = Problem(row)
        self.expr = self.problem.exprs[k]
        self.text = row.exprs[k]
        self.code = python_code(self.text)
        self.condition_codes = [python_code(text) for text in row.conditions]
        self.spans = [(name, int(low), int(extent)) for name, low, extent in row.variables]

    def direct(self) -> Any:
        return Reference.ends(Reference(self.row.variables, self.row.conditions).image(self.text))

    def ask(self, domain: str) -> Any:
        return Context(self.problem.ranges, assume=self.problem.conditions, domain=domain).bounds(self.expr)

    def build_and_ask(self, domain: str) -> Any:
        names: dict[str, Any] = dict(_NAMESPACE)
        ranges = {}
        for name, low, extent in self.spans:
            var = names[name] = Var(name)
            ranges[var] = Range(low, extent)
        conditions = [eval(code, names) for code in self.condition_codes]
        return Context(ranges, assume=conditions, domain=domain).bounds(eval(self.code, names))


VARIANTS: dict[str, Callable[[Case], Any]] = {
    "direct": Case.direct,
    "isl": lambda case: case.ask("isl"),
    "auto": lambda case: case.ask("auto"),
    "isl+build": lambda case: case.build_and_ask("isl"),
    "auto+build": lambda case: case.build_and_ask("auto"),
}


def cases() -> list[Case]:
    """The index expressions of the corpus with constant bounds."""
    rows = [row for row in read_rows(CORPUS) if not row.is_predicate and not row.params]
    return [Case(row, k) for row in rows for k in range(len(row.exprs))]


def measure(repeat: int) -> dict[str, list[float]]:
    """Seconds per expression for each variant: the fastest of `repeat` interleaved repetitions."""
    todo = cases()
    for case in todo:
        _check_agreement(case)
    best = {name: [float("inf")] * len(todo) for name in VARIANTS}
    gc.collect()
    gc.disable()
    try:
        for turn in range(repeat):
            for k, case in enumerate(todo):
                for name in _rotated(list(VARIANTS), turn):
                    variant = VARIANTS[name]
                    start = perf_counter()
                    variant(case)
                    best[name][k] = min(best[name][k], perf_counter() - start)
            gc.collect()
    finally:
        gc.enable()
    return best


def _rotated(names: list[str], turn: int) -> list[str]:
    cut = turn % len(names)
    return names[cut:] + names[:cut]


def _check_agreement(case: Case) -> None:
    """Every variant says the same; it also loads what each of them needs."""
    truth = case.direct()
    for name in list(VARIANTS)[1:]:
        bounds = VARIANTS[name](case)
        if tuple(bounds) != truth and (int(bounds[0]), int(bounds[1])) != truth:
            raise SystemExit(f"{name} disagrees with islpy on {case.row.where}, {case.text}: {bounds}, not {truth}")


def ratios(best: dict[str, list[float]]) -> Iterator[dict[str, Any]]:
    """Each ratio that has a target: of medians, the median of ratios, and of totals."""
    for label, target in TARGETS.items():
        ours, theirs = (best[name] for name in label.split(" / "))
        yield {
            "ratio": label,
            "of_medians": median(ours) / median(theirs),
            "median_of_ratios": median(a / b for a, b in zip(ours, theirs, strict=True)),
            "of_totals": sum(ours) / sum(theirs),
            "target": target,
        }


# -- other costs --------------------------------------------------------------------------------------------------


def tower(levels: int = 200) -> float:
    """Seconds to build, bound and simplify a tower in which each level uses the one below twice."""
    start = perf_counter()
    x = Var("x")
    ctx = Context({x: Range(0, 8)})
    e: Any = x
    for k in range(levels):
        e = (e + k % 3) // 2 + (e + 1) % 4
    ctx.bounds(e, domain="interval")
    ctx.bounds(e)
    ctx.simplify(e)
    return perf_counter() - start


def long_sum(terms: int = 100_000) -> float:
    """Seconds to build and bound a sum of many variables, one `+` after another."""
    start = perf_counter()
    variables = [Var(f"i{k}") for k in range(1000)]
    ctx = Context({var: Range(0, 8) for var in variables})
    e: Any = intset.const(0)
    for k in range(terms):
        e = e + variables[k % 1000] * (k % 7 - 3)
    ctx.bounds(e)
    return perf_counter() - start


_IMPORT = """
import sys, time
before = set(sys.modules); start = time.perf_counter(); import intset
seconds = time.perf_counter() - start
print(seconds, len(set(sys.modules) - before), [m for m in ("z3", "islpy", "numpy") if m in sys.modules])
"""


def import_cost(repeat: int = 5) -> tuple[float, int, str]:
    """Seconds of `import intset` in a fresh interpreter (the fastest), modules it loads, heavy ones among them."""
    outputs = [
        subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True).stdout.split(" ", 2)
        for _ in range(repeat)
    ]
    seconds, modules, heavy = min(outputs, key=lambda parts: float(parts[0]))
    return float(seconds), int(modules), heavy.strip()


def limited(function: str, seconds: int = 120) -> float:
    """What a function of this module returns, run in a process of its own; infinity when it takes too long."""
    code = f"from benchmarks.cost import {function}; print({function}())"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return float("inf")
    if done.returncode:
        raise SystemExit(f"{function} failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout)


def report(repeat: int) -> dict[str, Any]:
    """Everything that is measured, as JSON-able data."""
    best = measure(repeat)
    seconds, modules, heavy = import_cost()
    return {
        "expressions": len(best["direct"]),
        "repetitions": repeat,
        "microseconds": {
            name: {"median": median(times) * 1e6, "p95": sorted(times)[int(len(times) * 0.95)] * 1e6}
            for name, times in best.items()
        },
        "ratios": list(ratios(best)),
        "tower_200_levels_ms": limited("tower") * 1e3,
        "sum_100000_terms_ms": limited("long_sum") * 1e3,
        "import_ms": seconds * 1e3,
        "import_modules": modules,
        "import_heavy": heavy,
    }


def show(found: dict[str, Any]) -> None:
    reports.table(
        f"time per bounds query; {found['expressions']} expressions, best of {found['repetitions']} repetitions",
        ("variant", "median us", "p95 us"),
        [(name, f"{row['median']:.0f}", f"{row['p95']:.0f}") for name, row in found["microseconds"].items()],
        right=(1, 2),
    )
    kinds = ("of_medians", "median_of_ratios", "of_totals", "target")
    reports.table(
        "ratios",
        ("ratio", *(kind.replace("_", " ") for kind in kinds), "met"),
        [
            (
                row["ratio"],
                *(f"{row[kind]:.2f}" for kind in kinds),
                "yes" if row["of_medians"] <= row["target"] else "NO",
            )
            for row in found["ratios"]
        ],
        right=(1, 2, 3, 4),
    )
    print(f"tower of 200 shared levels: {found['tower_200_levels_ms']:.1f} ms")
    print(f"sum of 100,000 terms, built and bounded: {found['sum_100000_terms_ms']:.0f} ms")
    heavy = f"{found['import_modules']} modules, of z3, islpy, numpy: {found['import_heavy']}"
    print(f"import intset: {found['import_ms']:.0f} ms, {heavy}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description="What a query costs.")
    parser.add_argument("--repeat", type=int, default=9, help="repetitions; the fastest of each expression counts")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    arguments = parser.parse_args()
    measured = report(arguments.repeat)
    if arguments.json:
        print(json.dumps(measured, indent=1))
    else:
        show(measured)
