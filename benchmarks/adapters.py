"""The cost of conversions relative to hand-written code: `python -m benchmarks.adapters [--json] [NAME ...]`.

For each adapter whose library is installed, in one run, on the index expressions of the corpus, a sum of 1,000 terms
and DAGs with shared terms:

to      an expression to a term of the library, beside Python code that builds this term with the library's operators
from    the term back to an expression, beside Python code that builds this expression with operators here

The hand-written code has one line per operation and is compiled beforehand. Every repetition has new variables, so both
sides build new terms. One converter serves all expressions, as in the translation of a kernel; `alone` creates a
converter for each expression of at least 20 operations. Terms of `mlir` are texts, joined by hand and parsed on the
way back. `islpy` converts the sets of the corpus, built by hand of islpy's affine functions and by `Context.image`.

Of each expression the fastest repetition counts. Target: at most 3 times the hand-written code, for the median
and for the total.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from statistics import median
from time import perf_counter
from typing import Any, ClassVar, Final

import intset
from benchmarks.cost import CORPUS
from intset import Context, IntSetError, Var, fold, ops
from intset.expr.convert import MLIR, written
from intset.expr.dag import postorder
from intset.expr.node import Node
from intset.expr.ops import Op
from lowering.cli import reports
from lowering.cli.inputs import Problem, read_rows

TARGET: Final = 3.0
LARGE: Final = 20  # operations

Spelling = Mapping[Op, Any]  # a template of Python code, or a function from a node to one

_INFIX: Final = {
    ops.ADD: "{} + {}", ops.SUB: "{} - {}", ops.MUL: "{} * {}", ops.NEG: "-{}",
    ops.FLOORDIV: "{} // {}", ops.FLOORMOD: "{} % {}",
    ops.LT: "{} < {}", ops.LE: "{} <= {}", ops.GT: "{} > {}", ops.GE: "{} >= {}",
}  # fmt: skip


def by_hand(root: Node, library: Library, order: Sequence[Var]) -> Callable[..., Any]:
    """The function of the variables in `order` that builds an expression by a library's operators, a line for each.

    Numbers beside a term are literals, provided the library converts them.

    Raises
    ------
    KeyError: an operation that the library's spelling lacks.
    """
    places = {var: f"v{k}" for k, var in enumerate(order)}
    lines: list[str] = []

    def line(e: Any, *parts: str) -> str:
        template = library.spelling[e.op]
        code = template if isinstance(template, str) else template(e)
        if all(arg.op is ops.CONST for arg in e.args) or ("(" in code and not library.takes_numbers):
            parts = tuple([library.number.format(p) if p.lstrip("-").isdigit() else p for p in parts])
        lines.append(f"    t{len(lines)} = {code.format(*[f'({p})' if p.startswith('-') else p for p in parts])}")
        return f"t{len(lines) - 1}"

    leaves = {ops.VAR: lambda v: places[v], ops.CONST: lambda e: str(e.value)}
    result = fold(root, {**dict.fromkeys(library.spelling, line), **leaves})
    scope = dict(library.names)
    exec(f"def build({', '.join(places.values())}):\n" + "\n".join([*lines, f"    return {result}"]), scope)
    build: Callable[..., Any] = scope["build"]
    return build


class Library:
    """A library: its leaves, how its users write operations, and the adapter's converters.

    Attributes
    ----------
    name: names both the adapter and the required module.
    spelling: Python code for operations. names: what it refers to.
    number: code for a number that is a term. takes_numbers: whether functions convert numbers to terms.
    shares: whether a converter takes many terms.
    """

    name: str
    spelling: ClassVar[Spelling]
    names: ClassVar[Mapping[str, Any]]
    room, number, takes_numbers, shares = "intset", "number({})", True, True

    def __init__(self) -> None:
        self.adapter: Any = importlib.import_module(f"{self.room}.adapters.{self.name}")

    def leaf(self, name: str) -> Any: ...

    def exporter(self, variables: Mapping[Var, Any]) -> Any:
        return self.adapter.exporter(variables)

    def importer(self, variables: Mapping[Any, Var]) -> Any:
        return self.adapter.importer(variables)


class Ours(Library):
    """Expressions here."""

    spelling: ClassVar[Spelling] = {
        **_INFIX,
        ops.BITAND: "{} & {}", ops.BITOR: "{} | {}", ops.BITXOR: "{} ^ {}", ops.SHL: "{} << {}", ops.SHR: "{} >> {}",
        ops.BITNOT: "~{}", ops.ABS: "abs({})", ops.EQ: "{}.eq({})", ops.NE: "{}.ne({})",
        ops.MIN: "minimum({}, {})", ops.MAX: "maximum({}, {})", ops.SELECT: "select({}, {}, {})",
        ops.CEILDIV: "ceildiv({}, {})", ops.TRUNCDIV: "truncdiv({}, {})", ops.TRUNCMOD: "truncmod({}, {})",
        ops.CAST: lambda e: f"cast({{}}, {e.data[0]}, {e.data[1]})", ops.ASSERTING: "asserting({}, {})",
        ops.AND: "{} & {}", ops.OR: "{} | {}", ops.NOT: "~{}", ops.BOOL: lambda e: "TRUE" if e.data else "FALSE",
    }  # fmt: skip
    names: ClassVar[Mapping[str, Any]] = {
        "number": intset.const,
        **{name: getattr(intset, name) for name in intset.__all__},
    }
    leaf = staticmethod(Var)

    def __init__(self) -> None: ...  # no adapter


_OPERATORS: Final = {op: text for op, text in Ours.spelling.items() if isinstance(text, str) and "(" not in text}


class OfSympy(Library):
    name = "sympy"
    spelling: ClassVar[Spelling] = {
        **_INFIX,
        ops.FLOORDIV: "floor({} / {})", ops.MIN: "Min({}, {})", ops.MAX: "Max({}, {})", ops.ABS: "abs({})",
        ops.CEILDIV: "ceiling({} / {})", ops.SELECT: "Piecewise(({1}, {0}), ({2}, True))",
        ops.EQ: "Eq({}, {})", ops.NE: "Ne({}, {})", ops.AND: "And({}, {})", ops.OR: "Or({}, {})", ops.NOT: "Not({})",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        import sympy

        self.symbols = sympy
        type(self).names = {**vars(sympy), "number": sympy.Integer}

    def leaf(self, name: str) -> Any:
        return self.symbols.Symbol(name, integer=True)


def _euclidean(e: Any) -> str:
    """Floor division by z3's quotient, whose remainder is never negative."""
    divisor = e.args[1]
    if divisor.is_const:
        return "{} / {}" if divisor.value > 0 else "-{} / -{}"
    return "If({1} > 0, {0} / {1}, -{0} / -{1})"


class OfZ3(Library):
    name = "z3"
    spelling: ClassVar[Spelling] = {
        **_INFIX,
        ops.FLOORDIV: _euclidean,
        ops.FLOORMOD: lambda e: "{} % {}" if e.args[1].is_const else "{0} - {1} * " + _euclidean(e),
        ops.MIN: "If({0} <= {1}, {0}, {1})", ops.MAX: "If({0} >= {1}, {0}, {1})",
        ops.ABS: "If({0} >= 0, {0}, -{0})", ops.SELECT: "If({}, {}, {})", ops.EQ: "{} == {}", ops.NE: "{} != {}",
        ops.AND: "And({}, {})", ops.OR: "Or({}, {})", ops.NOT: "Not({})",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        import z3

        self.z3 = z3
        type(self).names = {**vars(z3), "number": z3.IntVal}

    def leaf(self, name: str) -> Any:
        return self.z3.Int(name)


class OfPymbolic(Library):
    name = "pymbolic"
    spelling: ClassVar[Spelling] = {
        **{op: text for op, text in _OPERATORS.items() if not op.boolean},
        ops.MIN: "Min(({}, {}))", ops.MAX: "Max(({}, {}))", ops.ABS: "Max(({0}, -{0}))",
        ops.SELECT: "If({}, {}, {})", ops.AND: "LogicalAnd(({}, {}))", ops.OR: "LogicalOr(({}, {}))",
        ops.NOT: "LogicalNot({})", ops.EQ: "Comparison({}, '==', {})", ops.NE: "Comparison({}, '!=', {})",
        ops.LT: "Comparison({}, '<', {})", ops.LE: "Comparison({}, '<=', {})",
        ops.GT: "Comparison({}, '>', {})", ops.GE: "Comparison({}, '>=', {})",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        import pymbolic.primitives as p

        type(self).leaf = staticmethod(p.Variable)  # type: ignore[method-assign]
        type(self).names = {**vars(p), "number": int}

    def exporter(self, variables: Mapping[Var, Any]) -> Any:
        return self.adapter.exporter({var: variable.name for var, variable in variables.items()})

    def importer(self, variables: Mapping[Any, Var]) -> Any:
        return self.adapter.importer({variable.name: var for variable, var in variables.items()})


class OfTinygrad(Library):
    name = "tinygrad"
    spelling: ClassVar[Spelling] = {
        **_OPERATORS,
        ops.EQ: "{}.eq({})", ops.NE: "{}.ne({})",
        ops.MIN: "{}.minimum({})", ops.MAX: "{}.maximum({})", ops.ABS: "{0}.maximum(-{0})", ops.CEILDIV: "-(-{} // {})",
        ops.SELECT: "{}.where({}, {})", ops.NOT: "{}.logical_not()",
    }  # fmt: skip

    def __init__(self) -> None:
        os.environ.setdefault("DEV", "PYTHON")
        super().__init__()
        from tinygrad.uop.ops import UOp

        self.uop = UOp
        type(self).names = {"number": UOp.const}

    def leaf(self, name: str) -> Any:
        return self.uop.variable(name, 0, 64)

    def importer(self, variables: Mapping[Any, Var]) -> Any:
        return self.adapter.KernelTerms(variables)


class OfJax(Library):
    name = "jax"
    spelling: ClassVar[Spelling] = {
        **{op: text for op, text in _INFIX.items() if op not in ops.COMPARISONS},
        ops.MIN: "min_dim({}, {})",
        ops.MAX: "max_dim({}, {})",
        ops.CEILDIV: "-(-{} // {})",
    }

    def __init__(self) -> None:
        super().__init__()
        import jax
        import jax.export

        self.export = jax.export
        type(self).names = {"min_dim": jax.core.min_dim, "max_dim": jax.core.max_dim, "number": int}
        self.scope = jax.export.SymbolicScope()

    def leaf(self, name: str) -> Any:
        (dimension,) = self.export.symbolic_shape(name, scope=self.scope)
        return dimension

    def exporter(self, variables: Mapping[Var, Any]) -> Any:
        convert = self.adapter.exporter(self.scope)
        for var in variables:
            convert(var)
        return convert

    def importer(self, variables: Mapping[Any, Var]) -> Any:
        return self.adapter.importer({str(dimension): var for dimension, var in variables.items()})


class OfTvm(Library):
    name = "tvm"
    room = "lowering"
    spelling: ClassVar[Spelling] = {
        **{op: text for op, text in _OPERATORS.items() if op not in (ops.AND, ops.OR, ops.NOT)},
        ops.MIN: "Min({}, {})", ops.MAX: "Max({}, {})", ops.SELECT: "Select({}, {}, {})", ops.NOT: "Not({})",
        ops.TRUNCDIV: "Div({}, {})", ops.TRUNCMOD: "Mod({}, {})", ops.CEILDIV: "-(-{} // {})",
        ops.EQ: "EQ({}, {})", ops.NE: "NE({}, {})", ops.AND: "And({}, {})", ops.OR: "Or({}, {})",
        ops.ABS: "Max({0}, -{0})",
    }  # fmt: skip
    takes_numbers = False

    def __init__(self) -> None:
        super().__init__()
        from tvm import ir, tirx

        from lowering.adapters.tvm import terms

        self.ir, self.tirx, self.terms = ir, tirx, terms
        type(self).names = {**vars(tirx), "number": lambda value: tirx.IntImm("int64", value)}

    def leaf(self, name: str) -> Any:
        return self.tirx.Var(name, "int64")

    def exporter(self, variables: Mapping[Var, Any]) -> Any:
        from lowering.nest import ir

        writing = importlib.import_module("lowering.adapters.tvm.writing")
        writer = writing.PrimFuncWriter(ir.Function("f", (), (), (), (), ir.Seq()), None)
        writer._variables.update(variables)
        return writer._terms

    def importer(self, variables: Mapping[Any, Var]) -> Any:
        return self.terms.converter({self.ir.Var: lambda term: variables[term]})


class OfMlir(Library):
    """Its terms are texts, which the code by hand joins."""

    name = "mlir"
    spelling: ClassVar[Spelling] = {
        op: f"f'({text})'".replace("{}", "{{{}}}").replace("//", "floordiv").replace("%", "mod")
        for op, text in {**_INFIX, ops.CEILDIV: "{} ceildiv {}"}.items()
        if not op.boolean
    }
    shares = False
    names: ClassVar[Mapping[str, Any]] = {}

    def leaf(self, name: str) -> str:
        return name

    def exporter(self, variables: Mapping[Var, Any]) -> Any:
        return lambda e: written(e, MLIR, variables)

    def importer(self, variables: Mapping[Any, Var]) -> Any:
        dims, names = list(variables.values()), ", ".join(variables)
        return lambda text: self.adapter.affine_map(f"({names}) -> ({text})", dims).results[0]


HERE: Final = Ours()
LIBRARIES: Final[dict[str, type[Library]]] = {
    "sympy": OfSympy,
    "z3": OfZ3,
    "pymbolic": OfPymbolic,
    "tinygrad": OfTinygrad,
    "jax": OfJax,
    "tvm": OfTvm,
    "mlir": OfMlir,
}
NAMES: Final = (*LIBRARIES, "islpy")


def expressions() -> Iterator[Node]:
    """The index expressions of the corpus, each once; a long sum; shared terms."""
    yield from dict.fromkeys(e for row in read_rows(CORPUS) for e in Problem(row).exprs)
    x: list[Any] = [Var(f"x{k}") for k in range(50)]
    yield intset.sum_of(x[k % 50] * (k % 7 + 1) + k for k in range(334))
    for levels in (6, 10):
        yield reduce(lambda e, k: (e + k % 3) // 2 + e % 4 * x[k + 1], range(levels), x[0])


class Recipe:
    """An expression, with hand-written code for it: here, in a library, and here for the expression converted back.

    Raises
    ------
    KeyError, InputError: the library lacks an operation.
    """

    def __init__(self, library: Library, root: Any, number: int) -> None:
        self.vars = root.free_vars()
        self.number = number
        self.size = sum(1 for node in postorder((root,)) if node.args)
        self.here = by_hand(root, HERE, self.vars)
        self.there = by_hand(root, library, self.vars)
        leaves = self.leaves(library, "first")
        converted = library.importer(dict(zip(leaves, self.vars, strict=True)))(self.there(*leaves))
        self.back = by_hand(converted, HERE, self.vars)
        library.exporter(dict(zip(self.vars, leaves, strict=True)))(root)

    def leaves(self, library: Library, turn: str) -> list[Any]:
        return [library.leaf(f"{var.name}{k}_{self.number}{turn}") for k, var in enumerate(self.vars)]


Timed = tuple[str, int, float, float]  # way, number of the expression, seconds of the conversion, seconds by hand


def seconds(action: Callable[..., object], *args: Any) -> tuple[float, Any]:
    """The time of a call, and its result."""
    start = perf_counter()
    return (action(*args), perf_counter() - start)[::-1]


def one_turn(library: Library, recipes: Sequence[Recipe], turn: int, alone: bool) -> Iterator[Timed]:
    """Both ways of every expression, once."""
    kept: list[object] = []
    for way, make in (("to", library.exporter), ("from", library.importer)):
        own = f"{way}{turn}{alone}"
        sides: list[tuple[dict[Any, Any], Any]] = []
        for recipe in recipes:
            here, there = recipe.leaves(HERE, own), recipe.leaves(library, own)
            if way == "to":
                sides.append((dict(zip(here, there, strict=True)), recipe.here(*here)))
            else:
                sides.append((dict(zip(there, here, strict=True)), recipe.there(*there)))
        one = None if alone else make({source: target for known, _ in sides for source, target in known.items()})
        for k, (recipe, (known, source)) in enumerate(zip(recipes, sides, strict=True)):
            unseen = recipe.leaves(library if way == "to" else HERE, own + "h")
            build = recipe.there if way == "to" else recipe.back
            converting = partial(_at_once, make, known, source) if one is None else partial(one, source)
            found = seconds(converting), seconds(build, *unseen)
            kept.append(found)
            yield way + ", alone" * (alone and library.shares), k, found[0][0], found[1][0]


def _at_once(make: Callable[[Any], Any], known: Mapping[Any, Any], source: Any) -> object:
    return make(known)(source)


def measure(library: Library, repeat: int) -> dict[str, Any]:
    """Ratios of each way, and how many expressions the library cannot take."""
    recipes, skipped = [], 0
    for number, root in enumerate(expressions()):
        if root.args:
            try:
                recipes.append(Recipe(library, root, number))
            except (KeyError, IntSetError):
                skipped += 1
    large = [recipe for recipe in recipes if recipe.size >= LARGE]

    def turns(turn: int) -> Iterator[Timed]:
        yield from one_turn(library, recipes, turn, not library.shares)
        if library.shares:
            yield from one_turn(library, large, turn, True)

    return {"expressions": len(recipes), "skipped": skipped, "ways": fastest(turns, repeat)}


def measure_sets(repeat: int) -> dict[str, Any]:
    """Measure the conversion of the corpus sets to and from islpy."""
    from benchmarks.reference import Reference
    from intset.adapters import islpy as adapter

    rows = [row for row in read_rows(CORPUS) if not row.params]
    problems = [Problem(row) for row in rows]

    def region(problem: Problem) -> Any:
        return Context(problem.ranges, assume=problem.conditions, domain="isl").image(list(problem.ranges))

    def turns(turn: int) -> Iterator[Timed]:
        for k, (row, problem) in enumerate(zip(rows, problems, strict=True)):
            points = region(problem)
            spent, term = seconds(adapter.to_isl, points)
            yield "to", k, spent, seconds(Reference, row.variables, row.conditions)[0]
            yield "from", k, seconds(adapter.region, term)[0], seconds(region, problem)[0]

    return {"expressions": len(rows), "skipped": 0, "ways": fastest(turns, repeat)}


def fastest(turns: Callable[[int], Iterator[Timed]], repeat: int) -> dict[str, Any]:
    """Ratios of each way over several turns."""
    best: dict[tuple[str, int], tuple[float, float]] = {}
    for turn in range(repeat):
        gc.collect()
        gc.disable()
        try:
            for way, k, converted, built in turns(turn):
                a, b = best.get((way, k), (converted, built))
                best[way, k] = min(a, converted), min(b, built)
        finally:
            gc.enable()
    ways: dict[str, Any] = {}
    for way in sorted({way for way, _ in best}):
        pairs = [pair for (own, _), pair in best.items() if own == way]
        spent, built = (sum(side) for side in zip(*pairs, strict=True))
        ratios = [a / b for a, b in pairs]
        ways[way] = {"count": len(pairs), "median": median(ratios), "totals": spent / built, "worst": max(ratios)}
    return ways


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default all")
    parser.add_argument("--repeat", type=int, default=7, help="how many repetitions; default 7")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    for name in set(options.names) - set(NAMES):
        parser.error(f"no adapter {name}")
    chosen = [name for name in NAMES if not options.names or name in options.names]
    missing = [name for name in chosen if name != "mlir" and importlib.util.find_spec(name) is None]
    found = {
        name: measure(LIBRARIES[name](), options.repeat) if name in LIBRARIES else measure_sets(options.repeat)
        for name in chosen
        if name not in missing
    }
    missed = {
        name: [way for way, cell in row["ways"].items() if max(cell["median"], cell["totals"]) > TARGET]
        for name, row in found.items()
    }
    if options.json:
        print(json.dumps({"target": TARGET, "not installed": missing, "adapters": found}, indent=1))
    else:
        rows = [
            (name, way, cell["count"], *(f"{cell[key]:.2f}" for key in ("median", "totals", "worst")), met)
            for name, row in found.items()
            for way, cell in row["ways"].items()
            for met in ("MISSED" if way in missed[name] else "",)
        ]
        columns = ("adapter", "way", "expressions", "median", "of totals", "worst", f"target {TARGET:.0f}")
        reports.table("conversion / by hand", columns, rows, right=(2, 3, 4, 5))
        print("not installed, skipped:", ", ".join(missing) or "none")
    return int(any(missed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
