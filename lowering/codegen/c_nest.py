"""Nests as statements of C."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import intset
from bound import dtypes
from bound.declare import placeholder
from bound.schedule import simple
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp, constant, load
from bound.tir.value import make as make_value
from intset.config import Effort, tiers_within
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Expr, Var, const, constant_value
from intset.expr.node import make as make_node
from intset.expr.walk import opaque_terms, postorder
from lowering.codegen.assigned import conditional_storage
from lowering.codegen.c_ops import CSyntax
from lowering.codegen.c_parts import is_part, part_of
from lowering.codegen.c_storage import CStorage, count
from lowering.codegen.c_text import comment
from lowering.codegen.c_types import c_type
from lowering.codegen.held import held
from lowering.codegen.place import place_of
from lowering.codegen.simd import is_simd, reduction_of
from lowering.codegen.straight import Straight
from lowering.codegen.tables import Table, tables_below
from lowering.codegen.text import compared, opened
from lowering.nest.combine import update_of
from lowering.nest.ir import Allocate, Assert, Evaluate, For, Function, If, Let, LoopKind, Seq, ShapeOf, Stmt, Store
from lowering.nest.scope import Scope, scope_of
from lowering.nest.text import end_of
from lowering.nest.walk import Visit, drive, free_variables, needed_variables, range_ends, statements, touched
from lowering.passes.values.index_width import offset
from lowering.storage.plan import parallel_plan

ZEROED: Final = 64  # elements up to which an array is set to zero first, when that avoids a warning


class _NamingLines(NamedTuple):
    """The lines from `start` up to `stop` that give a value its name."""

    start: int
    stop: int
    name: str


class CNest:
    """The statements of a function, one text a line, without indentation of the whole."""

    def __init__(self, f: Function, syntax: CSyntax, label: str) -> None:
        self.f = f
        self.label = label  # what the names of its parts begin with
        self.syntax = syntax
        self.parallel, self.plan = parallel_plan(f)
        self.storage = CStorage(self.plan, syntax)
        self.shapes: dict[Tensor, tuple[Expr, ...]] = {t: t.extents for t in f.params}
        self.checks = 0
        self.heap: list[str] = []  # arrays to be freed at the end, once they are there
        self.messages: list[str] = []
        self.tables: list[str] = []  # their definitions
        self.parts: list[str] = []  # functions that stand in front of this one
        self._is_in_part = False
        self._is_in_parallel = False
        self._scope = scope_of(f)
        syntax.may_be_zero = self._may_be_zero
        self._stored: set[Tensor] = set()  # allocated tensors that are not on the stack
        self._types: dict[Any, str] = {p: c_type(p.dtype, str(p.data[0])) for p in f.scalars}
        self._spans: dict[Var, tuple[int, int]] = {}  # of the loops around, where they are known
        self._table_of: dict[Any, Tensor] = {}
        self.needed = needed_variables(f.body)
        self.conditional = conditional_storage(f.body)

    def lines(self) -> list[str]:
        """The body."""
        stmts = self.f.body.stmts if isinstance(self.f.body, Seq) else (self.f.body,)
        begin = next((k for k, stmt in enumerate(stmts) if not isinstance(stmt, (Assert, Let))), len(stmts))
        lines, names = drive(self._statements(stmts[:begin]))
        for stmt in stmts[:begin]:
            self._scope = self._scope.after(stmt)
        lines += self.storage.head()
        if self.storage.held:
            self.heap.append(self.storage.held)
        lines += drive(self._sequence(stmts[begin:]))
        lines = _without_unused(lines, names)
        lines += self._frees(0)
        if not self.syntax.undefined:
            return [*lines, "return 0;"]
        self.messages.append(divides_by_0(self.f))
        return [
            f"int {self.syntax.undefined}[1] = {{0}};",
            *lines,
            f"return {self.syntax.undefined}[0] ? {self.checks + 1} : 0;",
        ]

    def _may_be_zero(self, divisor: Expr) -> bool:
        with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
            return not self._scope.ctx.prove(divisor.ne(0))

    def _sequence(self, stmts: Sequence[Stmt]) -> Visit[list[str]]:
        """Statements one after another, without the names that none of their lines uses: compilers warn of those.

        An index may need fewer names in C than in the nest: what is known at an access shortens its place.
        """
        lines, names = yield self._statements(stmts)
        return _without_unused(lines, names)

    def _statements(self, stmts: Sequence[Stmt]) -> Visit[tuple[list[str], list[_NamingLines]]]:
        """The lines of statements one after another, and those of them that only give a name to a value."""
        lines: list[str] = []
        names: list[_NamingLines] = []
        outside = self._scope
        brief = self._brief(stmts)
        for stmt in stmts:
            if isinstance(stmt, Allocate) and stmt in brief.values():
                self._note_shape(stmt)
                continue
            if self._is_part(stmt):
                lines.append((yield self._part(stmt, brief)))
                continue
            if stmt in self.plan.stack and all(constant_value(range_ends(r)[1]) == 1 for r in stmt.ranges):
                self.syntax.scalars.add(stmt.tensor)
            made = yield self._stmt(stmt)
            if isinstance(stmt, Let) and made:
                names.append(_NamingLines(len(lines), len(lines) + len(made), self._name(stmt.var)))
            used = [brief[t] for t in touched(stmt) if t in brief] if brief else []
            pointers = [text for a in dict.fromkeys(used) if (text := self.storage.pointer(a)) is not None]
            lines += ["{", *_in([*pointers, *made]), "}"] if pointers else self._declared(lines, made)
            self._scope = self._scope.after(stmt)
        self._scope = outside
        return lines, names

    def _declared(self, lines: list[str], made: list[str]) -> list[str]:
        """The lines that follow, the first of them in one with the declaration before it where it gives its value."""
        found = re.fullmatch(r"(\w+) (\w+);", lines[-1]) if lines and made else None
        if found is None or not made[0].startswith(f"{found[2]} = "):
            return made
        lines.pop()
        return [f"{found[1]} {made[0]}", *made[1:]]

    def _is_part(self, stmt: Stmt) -> bool:
        """Whether a statement is to be a function: not one with parallel loops, whose bodies are functions instead, or
        that gives a variable of its surroundings a value."""
        if self._is_in_part or any(s in self.parallel or self._gives(s) for s in statements(stmt)):
            return False
        return is_part(stmt, self._stored, self.plan.stack, self._is_in_parallel)

    def _gives(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Store) and stmt.tensor in self.syntax.scalars

    def _part(self, stmt: Stmt, brief: Mapping[Tensor, Allocate]) -> Visit[str]:
        """The call of a function that does what a statement says."""
        tables, known = self.tables, self._table_of
        self.tables, self._table_of, self._is_in_part = [], {}, True
        made = yield self._stmt(stmt)
        addresses = {t: text for t, a in brief.items() if (text := self.storage.address(a)) is not None}
        body, scalars = [*self.tables, *made], self.syntax.scalars
        undefined = self.syntax.undefined if any(self.syntax.undefined in line for line in body) else ""
        definition, call = part_of(
            self.label, stmt, body, self._name, addresses, self.shapes, self._type_of, scalars, undefined
        )
        self.parts += [*definition, ""]
        self.tables, self._table_of, self._is_in_part = tables, known, False
        return call

    def _name(self, thing: Any) -> str:
        return self.syntax.names.of(thing, thing.name) if isinstance(thing, Tensor) else str(self.syntax.leaf(thing))

    def _type_of(self, var: Any) -> str:
        return self._types.get(var, self.syntax.index)

    def _brief(self, stmts: Sequence[Stmt]) -> dict[Tensor, Allocate]:
        """The allocations that share their bytes: a pointer to one is in scope only in statements that use it.

        So each pointer is the only one to its bytes while it is in scope, which `restrict` says.
        """
        shared = {s.tensor: s for s in stmts if isinstance(s, Allocate) and self.storage.is_shared(s)}
        if shared:
            for stmt in stmts:
                if isinstance(stmt, (Let, Assert)):
                    for tensor in touched(stmt):
                        shared.pop(tensor, None)
        return shared

    def _stmt(self, stmt: Stmt) -> Visit[list[str]]:
        lines: list[str]
        if isinstance(stmt, Seq):
            live = len(self.heap)
            lines = yield self._sequence(stmt.stmts)
            lines += self._frees(live)
            del self.heap[live:]
            return lines
        if isinstance(stmt, For):
            lines = yield self._loop(stmt)
            return lines
        if isinstance(stmt, If):
            before, (cond,) = self._operands(stmt.cond)
            then = yield self._block(stmt.then)
            lines = [*before, f"if ({opened(cond)}) {{", *_in(then)]
            if stmt.orelse is not None:
                lines += ["} else {", *_in((yield self._block(stmt.orelse)))]
            return [*lines, "}"]
        return self._simple(stmt)

    def _block(self, stmt: Stmt) -> Visit[list[str]]:
        live, begun = len(self.heap), self.syntax.names.begin()
        lines: list[str] = yield self._sequence(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
        lines += self._frees(live)
        del self.heap[live:]
        self.syntax.names.end(begun)
        return lines

    def _frees(self, live: int) -> list[str]:
        return [f"free({name});" for name in reversed(self.heap[live:])]

    def _loop(self, loop: For) -> Visit[list[str]]:
        low, extent = range_ends(loop.range)
        if constant_value(extent) == 1 and not loop.carried and loop not in self.parallel and not _names(loop):
            return ["{", *_in((yield self._block(loop.body))), "}"]  # an iteration with names of its own
        end = end_of(low, extent)
        firsts = [c.first for c in loop.carried]
        before, (start, stop, *initial) = self._operands(low, end, *firsts)
        index = self.syntax.index
        lines = list(before)
        if any(node.op is ops.SELECT for node in walk.nodes(end)):  # else compilers do not see how often it runs
            stop, text = self.syntax.names.local("end"), stop
            lines.append(f"const {index} {stop} = {opened(text)};")
        names = [self.syntax.names.local(c.var.name, c.var) for c in loop.carried]  # they are declared around the loop
        begun = self.syntax.names.begin()
        var = self.syntax.names.local(loop.var.name, loop.var)
        for name, first, text in zip(names, firsts, initial, strict=True):
            is_wide = self.syntax.bits < 64 and opaque_terms(first)  # it fits, but is computed in 64 bits
            lines.append(f"{index} {name} = {f'({index}){text}' if is_wide else opened(text)};")
        own = self.storage.thread_head(loop)
        if loop.range.ends is not None:
            self._spans[loop.var] = loop.range.ends
        outside, self._scope = self._scope, self._scope.inside(loop)
        around, self._is_in_parallel = self._is_in_parallel, self._is_in_parallel or loop in self.parallel
        body = yield self._block(loop.body)
        self._scope, self._is_in_parallel = outside, around
        self._spans.pop(loop.var, None)
        if names:
            more, following = self._operands(*(c.following for c in loop.carried))
            fresh = [self.syntax.names.local("next") for _ in names]
            update = [*more, *(f"const {index} {t} = {opened(x)};" for t, x in zip(fresh, following, strict=True))]
            update += [f"{name} = {t};" for name, t in zip(names, fresh, strict=True)]
            if not all(c.after_last for c in loop.carried):
                update = [f"if ({var} + 1 < {compared(stop)}) {{", *_in(update), "}"]
            body += update
        head = f"for ({index} {var} = {opened(start)}; {var} < {compared(stop)}; ++{var}) {{"
        nest = [head, *_in(body), "}"]
        if loop in self.parallel:
            nest = (
                [*pragma("parallel"), "{", *_in([*own, *pragma("for"), *nest]), "}"]
                if own
                else [*pragma("parallel for"), *nest]
            )
        else:
            is_noting = bool(self.syntax.undefined) and any(self.syntax.undefined in line for line in body)
            simd = [] if is_noting else self._simd(loop)
            nest = [*(simd or self._remark(loop)), *nest]
        self.syntax.names.end(begun)
        lines += nest
        return ["{", *_in(lines), "}"] if names else lines

    def _simd(self, loop: For) -> list[str]:
        """What says that iterations of a loop may run side by side."""
        if is_simd(loop, self.shapes):
            return pragma("simd")
        combined = reduction_of(loop) if self.f.reassociate else None
        if combined is None or combined[1] not in self.syntax.scalars:
            return []
        operator, tensor = combined
        return pragma(f"simd reduction({operator}:{self.syntax.names.of(tensor, tensor.name)})")

    def _remark(self, loop: For) -> list[str]:
        what = loop.thread or ("" if loop.kind is LoopKind.SERIAL else str(loop.kind))
        return [comment(what)] if what else []

    # -- simple statements --------------------------------------------------------------------------------------

    def _simple(self, stmt: Stmt) -> list[str]:
        if isinstance(stmt, Store):
            return self._store(stmt)
        if isinstance(stmt, Allocate):
            return self._allocate(stmt)
        if isinstance(stmt, Assert):
            return self._assert(stmt)
        if isinstance(stmt, Let):
            if stmt.var not in self.needed:  # a compiler would warn
                return []
            before, (value,) = self._operands(stmt.value)
            label = stmt.var.name if isinstance(stmt.var, Var) else str(stmt.var.data[0])
            name = self.syntax.names.local(label, stmt.var)
            self._types[stmt.var] = self._let_type(stmt)
            self.syntax.spans.name(stmt.var, stmt.value)
            return [*before, f"const {self._types[stmt.var]} {name} = {opened(value)};"]
        assert isinstance(stmt, Evaluate)
        raise InputError(f"{self.f.name} calls {stmt.call.name}, a function of the host: C code cannot call it")

    def _let_type(self, stmt: Let) -> str:
        if isinstance(stmt.value, Expr):
            return "int64_t" if opaque_terms(stmt.value) else self.syntax.type_of(stmt.value)
        return c_type(getattr(stmt.value, "dtype", "bool"), f"a value in {self.f.name}")

    def _store(self, stmt: Store) -> list[str]:
        tensor = stmt.tensor
        place = place_of(stmt.indices, self.shapes[tensor], self._scope)
        operator, operand = update_of(stmt) or ("", held(stmt.value, tensor.dtype))
        before, (value, where) = self._operands(operand, place)
        is_plain = isinstance(stmt.value, Expr) and constant_value(stmt.value) is not None
        if isinstance(stmt.value, Expr) and not is_plain:
            value = f"({c_type(tensor.dtype, tensor.name)}){value}"
        return [*before, f"{self.syntax.element(tensor, where)} {operator}= {opened(value)};"]

    def _assert(self, stmt: Assert) -> list[str]:
        if any(node.op is ops.LOAD and isinstance(node.data, ShapeOf) for node in postorder((stmt.cond,))):
            return [comment(f"the caller sees to it that {stmt.message}")]
        before, (cond,) = self._operands(stmt.cond)
        self.checks += 1
        self.messages.append(stmt.message)
        leave = [*self._frees(0), f"return {self.checks};"]
        if len(leave) == 1:
            return [*before, f"if (!({opened(cond)})) {leave[0]}"]
        return [*before, f"if (!({opened(cond)})) {{", *_in(leave), "}"]

    def _note_shape(self, stmt: Allocate) -> tuple[Expr, ...]:
        tensor = stmt.tensor
        self.syntax.names.local(tensor.name, tensor)
        for r in stmt.ranges:
            if constant_value(range_ends(r)[0]) != 0:
                raise InputError(f"the storage of {tensor.name} does not begin at 0: apply rebase before to_c")
        self.shapes[tensor] = extents = tuple(range_ends(r)[1] for r in stmt.ranges)
        if stmt not in self.plan.stack:
            self._stored.add(tensor)
        return extents

    def _allocate(self, stmt: Allocate) -> list[str]:
        tensor = stmt.tensor
        extents = self._note_shape(stmt)
        pointer = self.storage.pointer(stmt, not self.storage.is_shared(stmt))
        if pointer is not None:
            return [pointer]
        dtype = c_type(tensor.dtype, tensor.name)
        name = self.syntax.names.of(tensor, tensor.name)
        if stmt in self.plan.stack:
            number = prod(max(0, constant_value(e) or 0) for e in extents)
            if tensor in self.syntax.scalars:
                return [f"{dtype} {name}{' = 0' if tensor in self.conditional else ''};"]
            # filled under conditions, a small array looks uninitialised to compilers that keep it in registers
            is_zeroed = number <= ZEROED and tensor in self.conditional
            return [f"{dtype} {name}[{max(1, number)}]{' = {0}' if is_zeroed else ''};"]
        before, sizes = self._operands(*extents)
        counts = [count(e, text) for e, text in zip(extents, sizes, strict=True) if constant_value(e) != 1]
        factors = " * ".join(counts) or "1"
        lines = [*before, f"{dtype} *{name} = ({dtype} *)malloc(sizeof({dtype}) * ({factors}) + 1);"]
        leave = [*self._frees(0), "return -1;"]
        self.heap.append(name)
        if len(leave) == 1:
            return [*lines, f"if ({name} == NULL) return -1;"]
        return [*lines, f"if ({name} == NULL) {{", *_in(leave), "}"]

    # -- operands -----------------------------------------------------------------------------------------------

    def _operands(self, *operands: Operand) -> tuple[list[str], list[str]]:
        return Straight(self.syntax).emit([flat(self._tabulated(e), self.shapes, self._scope) for e in operands])

    def _tabulated(self, operand: Operand) -> Operand:
        """The operand with selections between constants as elements of tables."""
        if not isinstance(operand, Value):
            return operand
        found = tables_below(operand, self._spans)
        if not found:
            return operand
        new: Operand = walk.rewrite(operand, {node: self._element(table) for node, table in found.items()})
        return new

    def _element(self, table: Table) -> Value:
        key = (table.values, table.dtype)
        if key not in self._table_of:
            tensor = self._table_of[key] = placeholder((len(table.values),), table.dtype, name="table")
            self.shapes[tensor] = tensor.extents
            name = self.syntax.names.of(tensor, "table")
            values = ", ".join(str(self.syntax.leaf(constant(value, table.dtype))) for value in table.values)
            ctype = c_type(table.dtype, "a constant table")
            self.tables.append(f"static const {ctype} {name}[{len(table.values)}] = {{{values}}};")
        indices = [simple.sub(v, low) for v, low in zip(table.variables, table.firsts, strict=True)]
        place = offset(indices, [const(n) for n in table.extents])
        return load(self._table_of[key], (place,))


def _without_unused(lines: list[str], names: Sequence[_NamingLines]) -> list[str]:
    """The lines without those that name a value which no later line uses."""
    kept = list(lines)
    for start, stop, name in reversed(names):  # a name may be used for another that nothing uses
        if not any(re.search(rf"\b{name}\b", line) for line in kept[stop:]):
            del kept[start:stop]
    return kept


def _names(loop: For) -> bool:
    """Whether the variable of a loop is used in it."""
    return loop.var in free_variables(loop.body)


def divides_by_0(f: Function) -> str:
    """What does not hold where a division by 0 was noted."""
    return f"{f.name} divides an integer by 0"


def pragma(what: str) -> list[str]:
    """An OpenMP pragma, which compilers without OpenMP ignore: see `lowering.codegen.c.QUIET`."""
    return [f"#pragma omp {what}"]


def flat(operand: Operand, shapes: dict[Tensor, tuple[Expr, ...]], scope: Scope | None = None) -> Any:
    """An operand that reads elements by their number in storage."""

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand:
        if tensor not in shapes:
            raise InputError(f"{tensor.name} is read where it has no storage")
        place = place_of(indices, shapes[tensor], scope)
        if dtypes.is_int(tensor.dtype):
            answer: Operand = make_node(ops.LOAD, (place,), tensor.element)
            return answer
        return make_value(ValueOp.LOAD, (place,), tensor.dtype, tensor)

    return walk.rewrite(operand, on_load=on_load)


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
