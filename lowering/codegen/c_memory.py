"""Memory in C: the arena and pointers into it, elements by their row-major number, constant tables.

`A[i // n][i % n]` with n columns is element i: quotient and remainder of one division cancel. A tree of selections,

    select(r == 0 and c == 0, 1.0, select(r == 0 and c == 1, 0.0, ...))    becomes    table[r * 4 + c]

Schedules write constant matrices (Winograd transforms, filters, lookup tables) as such trees; a rolled loop would
compare for every element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from bound import dtypes
from bound.schedule import simple
from bound.tensor import Tensor, load
from bound.tir import walk
from bound.tir.value import NUMBER, READ, Operand, Value
from bound.tir.value import make as make_value
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import is_small, opaque_terms, postorder, rewrite
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, Var, const, constant_value, make
from lowering.codegen.c_operands import CSyntax
from lowering.codegen.c_words import SIZE_HELPERS, storage_type
from lowering.codegen.emitter import compared, straight_line
from lowering.nest.ir import Allocate, For
from lowering.nest.scope import Scope
from lowering.passes.values.index_width import offset
from lowering.storage.placement import ALIGNMENT
from lowering.storage.plan import Arena, Size, StoragePlan

MAX_NODES: Final = 100  # larger indices are not simplified
MIN_SELECTS: Final = 4  # smaller trees do not pay for the memory of a table
MAX_ELEMENTS: Final = 4096  # of a table
_DIVIDING: Final = frozenset((*ops.DIVISIONS, ops.SHR, ops.BITAND))
_BY_BITS: Final = {ops.FLOORDIV: ops.SHR, ops.FLOORMOD: ops.BITAND}
_ROUNDED: Final = (ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV)  # operations that C does not have


def flat_index(indices: Iterable[Expr], shape: Iterable[Expr], scope: Scope) -> Expr:
    """The number of an element in row-major storage.

    Guarantee: its steps are those of the row-major sum, which `narrow` examines, or need no wider type than these.

    Parameters
    ----------
    scope: what holds at the access.
    """
    index = offset(indices, shape)
    if is_small(MAX_NODES, (index,)) and any(node.op in _DIVIDING for node in postorder((index,))):
        return _without_rounding(scope.ctx.simplify(index, bits=32), index)
    return index


def _without_rounding(e: Expr, plain: Expr) -> Expr:
    """`e` with shifts and masks for divisions by powers of two; `plain` if a rounding remains that it lacks."""
    new: dict[Node, Node] = {}
    for node in postorder((e,)):
        if node.op in _BY_BITS and node.args[1].op is ops.CONST and (c := node.args[1].data) > 0 and c & (c - 1) == 0:
            number = c.bit_length() - 1 if node.op is ops.FLOORDIV else c - 1
            new[node] = make(_BY_BITS[node.op], (rewrite(node.args[0], new), const(number)))
    lowered: Expr = rewrite(e, new)
    own = {node.op for node in postorder((plain,))}
    return plain if any(node.op in _ROUNDED and node.op not in own for node in postorder((lowered,))) else lowered


def flattened(operand: Operand, shapes: Mapping[Tensor, tuple[Expr, ...]], scope: Scope) -> Operand:
    """An operand whose loads read elements by their number in storage.

    Raises
    ------
    InputError: a tensor has no storage at this point.
    """

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand:
        if tensor not in shapes:
            raise InputError(f"{tensor.name} is read where it has no storage")
        index = flat_index(indices, shapes[tensor], scope)
        if dtypes.is_int(tensor.dtype):
            element: Operand = make(ops.LOAD, (index,), tensor.element)
            return element
        return make_value(READ, (index,), tensor.dtype, tensor)

    rewritten: Operand = walk.rewrite(operand, on_load=on_load)
    return rewritten


@dataclass(frozen=True)
class ConstantTable:
    """A tree of selections as values over a box of loop variables, the last variable fastest."""

    variables: tuple[Var, ...]
    firsts: tuple[int, ...]
    extents: tuple[int, ...]
    values: tuple[Any, ...]
    dtype: str

    def element(self, table: Tensor) -> Value:
        """The load from `table` that replaces the tree."""
        indices = [simple.sub(v, low) for v, low in zip(self.variables, self.firsts, strict=True)]
        return load(table, (offset(indices, [const(n) for n in self.extents]),))


def constant_tables(operand: Operand, loops: Iterable[For]) -> dict[Value, ConstantTable]:
    """The largest selections below an operand that are tables over variables of `loops`."""
    tables: dict[Value, ConstantTable] = {}
    inside: set[Any] = set()
    for node in reversed(list(walk.nodes(operand))):  # users before operands
        if node in inside or not isinstance(node, Value) or node.op is not ops.SELECT:
            continue
        tree = _select_tree(node)
        if tree is None:
            continue
        inside.update(tree)
        limits = {loop.var: loop.range.ends for loop in loops}
        table = _table(node, tree, {v: ends for v, ends in limits.items() if ends is not None})
        if table is not None:
            tables[node] = table
    return tables


def _select_tree(root: Value) -> dict[Any, Cond] | None:
    """Selections of a constant-leaf tree, mapped to their conditions; `None` for data-dependent conditions."""
    selects: dict[Any, Cond] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node in selects or node.op is NUMBER:
            continue
        if node.op is not ops.SELECT or not isinstance(node.args[0], Cond) or opaque_terms(node.args[0]):
            return None
        selects[node] = node.args[0]
        stack += [node.args[2], node.args[1]]
    return selects


def _table(root: Value, tree: Mapping[Any, Cond], limits: Mapping[Var, tuple[int, int]]) -> ConstantTable | None:
    variables = tuple(dict.fromkeys(v for cond in tree.values() for v in cond.free_vars()))
    if len(tree) < MIN_SELECTS or any(v not in limits for v in variables):
        return None
    ranges = [range(limits[v][0], limits[v][1] + 1) for v in variables]
    if not 0 < prod(map(len, ranges)) <= MAX_ELEMENTS:
        return None
    values = []
    for point in product(*ranges):
        at = dict(zip(variables, point, strict=True))
        node: Any = root
        while node.op is ops.SELECT:
            try:
                holds = evaluate(node.args[0], at)
            except ArithmeticError:
                return None
            node = node.args[1] if holds else node.args[2]
        values.append(node.data)
    return ConstantTable(variables, tuple(r[0] for r in ranges), tuple(map(len, ranges)), tuple(values), root.dtype)


THREADS: Final = (
    "#ifdef _OPENMP",
    "#include <omp.h>",
    "#define INTSET_THREADS ((size_t)omp_get_max_threads())",
    "#define INTSET_THREAD ((size_t)omp_get_thread_num())",
    "#else",
    "#define INTSET_THREADS ((size_t)1)",
    "#define INTSET_THREAD ((size_t)0)",
    "#endif",
)


class CStorage:
    """The texts of one function's arena.

    Attributes
    ----------
    malloced: the name of the pointer to be freed; empty without an arena.
    """

    def __init__(self, plan: StoragePlan, syntax: CSyntax) -> None:
        self.plan, self.syntax = plan, syntax
        self.malloced = ""
        self._bases: dict[Arena, str] = {}
        self._slots: dict[Arena, list[str]] = {}
        self._strides: dict[For, tuple[str, str]] = {}

    def head(self) -> list[str]:
        """The lines that allocate the arena; the part of each thread lies behind the common part."""
        if not self.plan.arena and not self.plan.private:
            return []
        names = self.syntax.names
        self.malloced = names.fresh("storage")
        first = self._call("aligned_start", self.malloced)
        lines, end = self._layout(self.plan.arena)
        if self.plan.private:
            start = end
            parts = []
            for loop, arena in self.plan.private.items():
                more, size = self._layout(arena)
                stride = names.fresh("stride")
                lines += [*more, f"const size_t {stride} = {self._call('after_size', size, '0')};"]
                self._strides[loop] = (stride, start)
                parts.append(self._call("times_size", stride, "INTSET_THREADS"))
            end = names.fresh("end")
            lines.append(f"const size_t {end} = {self._call('after_size', start, self._largest(parts))};")
        base = self._bases[self.plan.arena] = names.fresh("arena")
        return [
            *lines,
            f"char *const {self.malloced} = (char *)malloc({end} + {ALIGNMENT});",
            f"if ({self.malloced} == NULL) return -1;",
            f"char *const {base} = {first};",
        ]

    def thread_head(self, loop: For) -> list[str]:
        """The declaration of a thread's arena base, placed at the start of a parallel region."""
        arena = self.plan.private.get(loop)
        if arena is None:
            return []
        stride, start = self._strides[loop]
        base = self._bases[arena] = self.syntax.names.fresh("own")
        return [f"char *const {base} = {self._bases[self.plan.arena]} + {start} + {stride} * INTSET_THREAD;"]

    def is_shared(self, stmt: Allocate) -> bool:
        """Whether other allocations use the same bytes at other times."""
        arena = self._arena(stmt)
        return arena is not None and stmt in arena.shared

    def pointer(self, stmt: Allocate, is_alone: bool = True) -> str | None:
        """Declare a pointer into an arena; `None` for stack and heap allocations.

        Parameters
        ----------
        is_alone: whether no other pointer in scope reaches these bytes.
        """
        address = self.address(stmt)
        if address is None:
            return None
        tensor: Tensor = stmt.tensor
        name = self.syntax.names.of(tensor, tensor.name)
        return f"{storage_type(tensor.dtype, tensor.name)} *{'restrict ' if is_alone else ''}{name} = {address};"

    def address(self, stmt: Allocate) -> str | None:
        """The address of an allocation in an arena; `None` if it lies elsewhere."""
        arena = self._arena(stmt)
        if arena is None:
            return None
        offset = str(arena.offsets[stmt]) if stmt in arena.offsets else self._slots[arena][arena.slot_of[stmt]]
        base = self._bases[arena]
        ctype = storage_type(stmt.tensor.dtype, stmt.tensor.name)
        return f"({ctype} *){base if offset == '0' else f'({base} + {offset})'}"

    def _arena(self, stmt: Allocate) -> Arena | None:
        return next((arena for arena in (self.plan.arena, *self.plan.private.values()) if stmt in arena), None)

    def _layout(self, arena: Arena) -> tuple[list[str], str]:
        """The lines that compute the offset of each slot, and the text of the arena's end."""
        lines: list[str] = []
        end = str(arena.fixed)
        self._slots[arena] = []
        for slot in arena.slots:
            offset = self.syntax.names.fresh("at")
            lines.append(f"const size_t {offset} = {end};")
            self._slots[arena].append(offset)
            texts = []
            for size in slot.sizes:
                before, text = self._bytes(size)
                lines += before
                texts.append(text)
            end = self._call("after_size", offset, self._largest(texts))
        return lines, end

    def _bytes(self, size: Size) -> tuple[list[str], str]:
        lines, texts = straight_line(self.syntax, size.extents)
        return lines, self.size(str(size.width), size.extents, texts)

    def size(self, width: str, extents: Iterable[Expr], texts: Iterable[str]) -> str:
        """The text of an array's size in bytes. `width`: bytes per element; `texts`: the extents in C."""
        for extent, text in zip(extents, texts, strict=True):
            if constant_value(extent) != 1:
                width = self._call("times_size", width, count(extent, text))
        return width

    def _largest(self, sizes: list[str]) -> str:
        whole = sizes[0]
        for text in sizes[1:]:
            whole = self._call("larger_size", whole, text)
        return whole

    def _call(self, helper: str, *args: str) -> str:
        self.syntax.helpers[helper, "size"] = SIZE_HELPERS[helper]
        return f"{helper}({', '.join(args)})"


def count(extent: Expr, text: str) -> str:
    """The number of elements along an axis, at least 0."""
    number = constant_value(extent)
    if number is not None:
        return str(max(0, number))
    return f"(size_t)({compared(text)} > 0 ? {compared(text)} : 0)"
