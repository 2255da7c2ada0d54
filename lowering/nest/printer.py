"""Nests as text, one statement a line, four spaces a level; operands in Python's syntax and precedence.

    def C(A: float32[10], C: float32[10]):
        for i.outer in [0, 3):
            allocate B: float32[4] at [i.outer * 4]
            for i in [0, 4):
                if i.outer * 4 + i < 10:
                    B[i] = A[i.outer * 4 + i] + 1.0
            for i.inner in [0, 4) parallel:
                ...

- A range is written `[first, end)`. A loop that is not serial ends in its kind, a loop on threads in its tag: `for
  i.inner in [0, 16) on threadIdx.x:`. Variables carried by a loop follow, as in `with q = 0, then q + 1`.
- `allocate T: type[extents] in scope at [origin]` is storage up to the end of its block. An unset scope and the origin
  0 are omitted. Before `rebase`, the extents are ranges. `holding T[y0 * 2]` gives the element kept at the place `[y0]`
  of storage with steps.
- `padding T[i, j] where condition` lists untouchable elements. It follows the head, or the `allocate` of the array.
- `assert condition, "message"` is checked when it is reached. `assume condition` is taken for true until an element it
  reads is stored, `assume condition, "proved"` is a consequence. `x = value` names a value. `undef()` is any value.
- The head lists tensors, then sizes, then scalars: `def f(A: float32[n], n, alpha: float32):`.
- Names in sight are unique: the text changes clashing and invalid names.

`parser.py` reads nests back, `operands.py` what their statements compute with. A function unknown to `bound.tir` is
written with its result type, as in `float32.twice(A[i])`.

A pass reports on places by the lines of the text (`PassReport`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import FUNCTIONS, PREDICATES
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, SHORT, SPELLED, IntFunction, Operand, Value
from bound.tir.walk import loaded_tensor, substitute
from intset.expr import Expr, Range, Var, arguments, const, constant_value, dag, ops
from intset.expr.node import make
from intset.expr.printer import INFIX as WHOLE_INFIX
from intset.expr.printer import Placed, Precedence, composed, layout_of, listed
from intset.linear.form import Linear
from lowering.nest import ir
from lowering.nest.names import Naming, identifier, label_of, place_names
from lowering.nest.walk import Path, children, is_operand

Names = Mapping[Any, str]
PLAIN: Final[Names] = {}

_LEVELS: Final = {DIV: Precedence.PRODUCT, ops.AND: Precedence.AND, ops.OR: Precedence.OR}
INFIX: Final = {op: (symbol, _LEVELS.get(op) or WHOLE_INFIX[op][1]) for op, symbol in SPELLED.items()}
_KNOWN: Final = {*FUNCTIONS, "pow"}
_INDENT = "    "


def text(operand: Operand, names: Names = PLAIN) -> str:
    """An operand as text. Long texts bind repeated subexpressions to names, as the printer of `intset` does.

    Parameters
    ----------
    names: replacements for the names of variables, parameters and tensors.
    """
    if not names and isinstance(operand, Var):
        return operand.name
    return composed(operand, lambda node: _layout(node, names))


def _layout(node: Operand, names: Names) -> Placed:
    if isinstance(node, Var):
        return Precedence.ATOM, [names.get(node, node.name)]
    if ir.is_undef(node):
        return Precedence.ATOM, ["undef()"]
    tensor = loaded_tensor(node)
    if tensor is not None:
        return Precedence.ATOM, listed(f"{names.get(tensor, tensor.name)}[", node.args, "]")
    if isinstance(node, Value):
        return _value(node, names)
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        return _value(substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True))), names)
    if node.op is ops.LOAD and isinstance(node.data, ir.ShapeOf):
        of = node.data.tensor
        return Precedence.ATOM, listed(f"{names.get(of, of.name)}.shape[", node.args, "]")
    if node.op is ops.ASSERTING and node.data == ops.SIZE and isinstance(node.args[1], Var):
        return _layout(node.args[1], names)
    return layout_of(node)


def _value(node: Operand, names: Names) -> Placed:
    op, args = node.op, node.args
    if op in INFIX:
        symbol, level = INFIX[op]
        left = level + 1 if level is Precedence.COMPARE else level
        return level, [(args[0], left), f" {symbol} ", (args[1], level + 1)]
    if op is NUMBER:
        dtype = getattr(node, "dtype", "bool")
        written = str(node.data) if dtype == "bool" else dtypes.decimal(node.data, dtype)
        return (Precedence.UNARY if written.startswith("-") else Precedence.ATOM), [written]
    if op is PARAM:
        return Precedence.ATOM, [names.get(node, str(node.data[0]))]
    if op is ops.NEG:
        return Precedence.UNARY, ["-", (args[0], Precedence.CLOSED if args[0].op is NUMBER else Precedence.UNARY)]
    if op is ops.NOT:
        return Precedence.NOT, ["not ", (args[0], Precedence.NOT)]
    if isinstance(node, Value) and op is CALL:
        return Precedence.ATOM, listed(f"{_function(node)}(", args, ")")
    if isinstance(node, Value) and op is CONVERT:
        return Precedence.ATOM, listed(f"{node.dtype}(", args, ")")
    return Precedence.ATOM, listed(f"{SHORT.get(op, op.name)}(", args, ")")


def _function(node: Value) -> str:
    """The name of a function, qualified by its result type if that is ambiguous."""
    if node.data == "popcount":
        return "popcount"
    dtype = "bool" if node.data in PREDICATES else node.dtype
    is_plain = all(isinstance(arg, Value) and arg.dtype != "bool" for arg in node.args) and node.dtype == dtype
    return str(node.data) if node.data in _KNOWN and is_plain else f"{node.dtype}.{node.data}"


def range_text(r: Range, names: Names = PLAIN) -> str:
    """A range as `[min, end)`."""
    low, extent = r.min, r.extent
    assert isinstance(low, Expr) and isinstance(extent, Expr)
    return f"[{text(low, names)}, {text(end_of(low, extent), names)})"


def end_of(low: Expr, extent: Expr) -> Expr:
    """The end of a range, with cancelled terms; divisions keep their machine form."""
    if extent.op is ops.SUB and extent.args[1] is low:
        answer: Expr = extent.args[0]
        return answer
    if constant_value(low) == 0:
        return extent
    short = weighed((extent, 1), (low, 1))
    return short if dag.size(short) < dag.size(low + extent) else low + extent


def weighed(*summands: tuple[Expr, int]) -> Expr:
    """The sum of expressions, each so many times, without what cancels in it; products by constants are opened."""
    rest = 0
    terms: dict[Expr, int] = {}
    stack = list(summands)
    while stack:
        e, times = stack.pop()
        factor = constant_value(e.args[1]) if e.op is ops.MUL else None
        if e.op is ops.ADD or e.op is ops.SUB:
            stack += [(e.args[1], -times if e.op is ops.SUB else times), (e.args[0], times)]
        elif e.is_const:
            rest += times * e.data
        elif factor is not None:
            stack.append((e.args[0], times * factor))
        else:
            terms[e] = terms.get(e, 0) + times
    return Linear(rest, {e: times for e, times in terms.items() if times}).expr()


def range_between(low: Expr, end: Expr) -> Range:
    """The range from `low` to `end`, exclusive. Guarantee: `end_of` returns `end`.

    The extent is `end - low` with cancelled terms, if that reproduces the end.
    """
    if low.is_const and end.is_const:
        count = end.data - low.data
        # the parser accepts an end before the start: keep the difference as written
        return Range(low, const(count) if count >= 0 else make(ops.SUB, (end, low)))
    if constant_value(low) == 0:
        return Range(low, end)
    likely = end.args[1] if end.op is ops.ADD and end.args[0] is low else weighed((low, -1), (end, 1))
    extent = likely if end_of(low, likely) is end else end - low
    return Range(low, extent)


class PrintedLine(NamedTuple):
    """A line of the text of a nest.

    Attributes
    ----------
    text: the line with its indentation.
    stmt: the statement it begins; `None` for the head and for `else:`.
    path: the path of the statement, by indices into `children` from the body of the function.
    names: printed names that differ from the objects' own names.
    """

    text: str
    stmt: ir.Stmt | None
    path: Path = ()
    names: Mapping[object, str] = {}


def function_text(f: ir.Function) -> str:
    """The whole function; an assumption is marked "proved" where the dataflow proves it."""
    return "\n".join(line.text for line in function_lines(ir.ABOVE.with_checked_claims(f)))


def function_lines(f: ir.Function) -> Iterator[PrintedLine]:
    """The lines of the function; the first, number 1, is its head."""
    names = Naming(place_names(f.body))
    tensors = [names.bound(t, t.name, 0) for t in f.params]
    sizes = [names.bound(v, v.name, 0) for v in f.sizes]
    scalars = [names.bound(p, label_of(p), 0) for p in f.scalars]
    params = [
        f"{name}: {t.dtype}[{', '.join(text(e, names.of) for e in t.extents)}]"
        for name, t in zip(tensors, f.params, strict=True)
    ]
    params += sizes + [f"{name}: {p.dtype}" for name, p in zip(scalars, f.scalars, strict=True)]
    yield PrintedLine(f"def {identifier(f.name)}({', '.join(params)}):", None)
    for t in f.params:
        if t in f.padding:
            yield PrintedLine(_INDENT + _padding(t, f.padding[t], 1, names), None)
    yield from _lines(f.body, 1, names)


def stmt_text(stmt: ir.Stmt) -> str:
    """A statement with all inside it."""
    return "\n".join(line.text for line in stmt_lines(stmt))


def stmt_lines(stmt: ir.Stmt) -> Iterator[PrintedLine]:
    """The printed lines of a statement, nested statements included."""
    return _lines(stmt, 0, Naming(place_names(stmt)))


def statement_lines(f: ir.Function) -> dict[Path, int]:
    """The first line of each statement in `str(f)`, by path: indices into `children` from the body of the function.

    Only empty sequences have a line.
    """
    return {line.path: number for number, line in enumerate(function_lines(f), 1) if line.stmt is not None}


def _lines(root: ir.Stmt, level: int, names: Naming) -> Iterator[PrintedLine]:
    stack: list[tuple[ir.Stmt | None, int, tuple[int, ...]]] = [(root, level, ())]
    while stack:
        stmt, depth, path = stack.pop()
        names.leave(depth)
        indent = _INDENT * depth
        if stmt is None:
            yield PrintedLine(f"{indent}else:", None)
            continue
        if isinstance(stmt, ir.Seq) and not ir.is_empty(stmt):
            stack.extend((inner, depth, (*path, k)) for k, inner in reversed(list(enumerate(stmt.stmts))))
            continue
        yield PrintedLine(indent + _first_line(stmt, depth, names), stmt, path, dict(names.of))
        if isinstance(stmt, ir.Allocate) and stmt.padding is not None:
            yield PrintedLine(indent + _padding(stmt.tensor, stmt.padding, depth, names), None)
        inside = list(enumerate(children(stmt)))
        if len(inside) == 2:
            stack += [(inside[1][1], depth + 1, (*path, 1)), (None, depth, ())]
        if inside:
            stack.append((inside[0][1], depth + 1, (*path, 0)))


def _first_line(stmt: ir.Stmt, depth: int, names: Naming) -> str:
    if isinstance(stmt, ir.Seq):
        return "pass"
    if isinstance(stmt, ir.For):
        return _loop(stmt, depth, names)
    if isinstance(stmt, ir.If):
        return f"if {text(stmt.cond, names.of)}:"
    if isinstance(stmt, ir.Store):
        target = names.of.get(stmt.tensor, stmt.tensor.name)
        return f"{target}[{', '.join(text(e, names.of) for e in stmt.indices)}] = {text(stmt.value, names.of)}"
    if isinstance(stmt, ir.Assert):
        return f"assert {text(stmt.cond, names.of)}, {quoted(stmt.message)}"
    if isinstance(stmt, ir.Assume):
        return f"assume {text(stmt.cond, names.of)}" + (', "proved"' if stmt.proved else "")
    if isinstance(stmt, ir.Let):
        value = text(stmt.value, names.of)
        return f"{names.bound(stmt.var, label_of(stmt.var), depth)} = {value}"
    if isinstance(stmt, ir.Evaluate):
        return f"{identifier(stmt.call.name)}({', '.join(_argument(a, names) for a in stmt.call.args)})"
    if isinstance(stmt, ir.Allocate):
        return _allocation(stmt, depth, names)
    return repr(type(stmt).__name__)


def quoted(message: str) -> str:
    """A text between quotes, on one line."""
    return json.dumps(message, ensure_ascii=False)


def _loop(loop: ir.For, depth: int, names: Naming) -> str:
    on = ""
    if loop.thread:
        on = f" on {loop.thread}"
    elif loop.kind is not ir.LoopKind.SERIAL:
        on = f" {loop.kind}"
    within = range_text(loop.range, names.of)
    firsts = [text(c.first, names.of) for c in loop.carried]
    var = names.bound(loop.var, loop.var.name, depth + 1)
    labels = [names.bound(c.var, c.var.name, depth + 1) for c in loop.carried]
    carried = [
        f"{label} = {first}, then {text(c.following, names.of)}"
        for label, first, c in zip(labels, firsts, loop.carried, strict=True)
    ]
    return f"for {var} in {within}{on}{' with ' + '; '.join(carried) if carried else ''}:{_remark(loop.annotations)}"


def _remark(annotations: Iterable[tuple[str, object]]) -> str:
    """The comment that shows annotations, on one line."""
    shown = ", ".join(f"{key} = {value}".replace("\n", " ") for key, value in annotations)
    return f"  # {shown}" if shown else ""


def _argument(arg: Any, names: Naming) -> str:
    if isinstance(arg, Tensor):
        return names.of.get(arg, arg.name)
    if is_operand(arg):
        return text(arg, names.of)
    if isinstance(arg, str):
        return quoted(arg)
    return str(getattr(arg, "name", None) or arg)


def _allocation(stmt: ir.Allocate, depth: int, names: Naming) -> str:
    parts = []
    for r in stmt.ranges:
        assert isinstance(r.min, Expr) and isinstance(r.extent, Expr)
        is_from_zero = r.min.is_const and r.min.data == 0
        extent = text(r.extent, names.of)
        parts.append(extent if is_from_zero else f"{text(r.min, names.of)} : + {extent}")
    scope = f" in {stmt.scope}" if stmt.scope else ""
    origin = stmt.origin or ()
    starts = [text(e, names.of) for e in origin]
    name = names.bound(stmt.tensor, stmt.tensor.name, depth)
    if stmt.steps is not None:
        held = ", ".join(_held(start, row, names) for start, row in zip(origin, stmt.steps, strict=True))
        at = f" holding {name}[{held}]"
    else:
        is_zero = all(e.is_const and e.data == 0 for e in origin)
        at = "" if is_zero else f" at [{', '.join(starts)}]"
    return f"allocate {name}: {stmt.tensor.dtype}[{', '.join(parts)}]{scope}{at}"


def _padding(tensor: Tensor, padding: ir.Padding, depth: int, names: Naming) -> str:
    indices = [names.bound(v, v.name, depth + 1) for v in padding.indices]
    cond = text(padding.cond, names.of)
    names.leave(depth)
    return f"padding {names.of.get(tensor, tensor.name)}[{', '.join(indices)}] where {cond}"


def _held(start: Expr, row: Sequence[int], names: Naming) -> str:
    """A coordinate of the element at the place `y0, y1, ...`."""
    total = start
    for k, step in enumerate(row):
        if step:
            place = Var(f"y{k}")
            term = place if abs(step) == 1 else place * abs(step)
            total = total - term if step < 0 else term if constant_value(total) == 0 else total + term
    return text(total, names.of)


ir.ABOVE.function_text = function_text
ir.ABOVE.stmt_text = stmt_text


# -- reports of places in a text --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """What a pass decided at a place.

    Attributes
    ----------
    line: the line in the text of the original function; for a guard, the line of its `if`.
    done: whether it was changed.
    reason: why, or why not.
    point: values of the loops around it, outermost first, at which it fails; `None` where none is known.
    """

    line: int
    done: bool
    reason: str
    point: tuple[int, ...] | None = None


class PassReport:
    """The entries of one pass, by place; the last word on a place counts.

    Parameters
    ----------
    lines: the reported line of each path of `f`, if reports refer to another function's text.
    """

    def __init__(self, f: ir.Function, lines: Mapping[Path, int] | None = None) -> None:
        self._lines = statement_lines(f) if lines is None else lines
        self._said: dict[tuple[Path, str], Entry] = {}
        self._origins: Mapping[Path, Path] = {}

    def line(self, path: Path) -> int:
        """The line of a statement; of a sequence, that of its first."""
        while path not in self._lines:
            path = (*path, 0)
        return self._lines[path]

    def say(self, path: Path, done: bool, reason: str, point: tuple[int, ...] | None = None, what: str = "") -> None:
        first = self._origins.get(path, path)
        self._said[first, what] = Entry(self.line(first), done, reason, point)

    def moved(self, origins: Mapping[Path, Path]) -> None:
        """From now on paths are those of a rewritten nest; `origins` gives the present path of each."""
        self._origins = {path: self._origins.get(first, first) for path, first in origins.items()}

    def follow(self, later: PassReport) -> None:
        """Add the entries of a later round, by line; a change overrides a refusal."""
        for entry in later._said.values():
            key = (entry.line,), ""
            if entry.done or not (key in self._said and self._said[key].done):
                self._said[key] = entry

    def give(self, report: list[Entry] | None, *more: PassReport) -> None:
        """Append the entries, and those of other reports, to the caller's list, in the order of the text."""
        if report is not None:
            arguments.of_kind(list, report, "report")
            entries = [entry for one in (self, *more) for entry in one._said.values()]
            report += sorted(entries, key=lambda entry: entry.line)
