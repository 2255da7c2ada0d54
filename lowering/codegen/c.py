"""`to_c`: a lowered function as C99, its statements by rules; `program_text`: a program that times it.

A C compiler must be told which storage to initialise, which loops may run as vectors, and which arrays are apart.
Outlining tells it the latter: a nest becomes a function with `restrict` parameters. Compilers believe `restrict` of the
parameters of a function, even once it is inlined. Some forget it for pointers declared in a block, such as those into
an arena, and test before every inner loop whether arrays overlap. The same happens to captured parameters: OpenMP
outlines a parallel region with one pointer to all captured variables.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple
from zlib import crc32

from bound import dtypes
from bound.declare import placeholder
from bound.tensor import Tensor
from bound.tir.build import FUNCTIONS, all_of
from bound.tir.value import CALL, IntFunction, Operand, Value, constant
from bound.tir.walk import nodes, operations, read_indices, rewrite
from intset.errors import InputError
from intset.expr import Cond, Expr, arguments, constant_value, dag, ops
from intset.linear.canonical import form_of
from intset.linear.form import Linear
from lowering.allocation import parallel_plan, with_fixed_storage
from lowering.codegen import c_operands, emitter
from lowering.codegen.c_words import RESERVED, RESERVED_IN_FILE, c_type, defined_once, function_name, storage_type
from lowering.nest import driver, ir, walk
from lowering.nest.names import label_of, with_own_storage
from lowering.nest.printer import end_of
from lowering.passes.loops.index_set_splitting import partition_loops, unroll
from lowering.passes.loops.interchange import run_over_digits
from lowering.passes.loops.invariants import decide_rows
from lowering.passes.simplify import fold_constants
from lowering.passes.stores.dead_code import drop_dead, drop_identities
from lowering.passes.stores.placement import accumulate, forward_copies
from lowering.passes.values.cse import inline_values
from lowering.passes.values.index_width import Width, narrow, offset, sizes_that_fit, with_short_signs

_REDUCTIONS: Final = {ops.ADD: "+", ops.MUL: "*", ops.MIN: "min", ops.MAX: "max"}  # OpenMP's words


def conditional_scalars(root: ir.Stmt) -> frozenset[Tensor]:
    """The allocations of one element that a C compiler may believe to be read before they are stored.

    Stores under a condition or in a possibly empty loop, or no store at all: a copy of a nest loses its stores if a
    false condition guards the reads.
    """
    allocated = {s.tensor for s in walk.statements(root) if isinstance(s, ir.Allocate) and walk.is_scalar(s)}
    if not allocated:
        return frozenset()
    branches = (stmt for stmt in walk.statements(root) if isinstance(stmt, ir.If))
    guarded = {inner.tensor for stmt in branches for inner in walk.statements(stmt) if isinstance(inner, ir.Store)}
    certain: set[Tensor] = set()

    def surely_stored(stmt: ir.Stmt, inside: Sequence[frozenset[Tensor]]) -> frozenset[Tensor]:
        """The tensors that a statement stores to whenever it runs; storage allocated before such a store is certain."""
        if isinstance(stmt, ir.Store):
            return frozenset((stmt.tensor,))
        if isinstance(stmt, ir.Seq):
            stored = frozenset[Tensor]().union(*inside)
            certain.update(stored.intersection(inner.tensor for inner in stmt.stmts if isinstance(inner, ir.Allocate)))
            return stored
        if isinstance(stmt, ir.For):
            return inside[0] if (constant_value(walk.range_ends(stmt.range)[1]) or 0) > 0 else frozenset()
        if isinstance(stmt, ir.If) and stmt.orelse is not None:
            return inside[0] & inside[1]
        return frozenset()

    walk.folded(root, surely_stored)
    return frozenset((guarded & allocated) | (allocated - certain))


def is_simd(loop: ir.For, shapes: Mapping[Tensor, Sequence[Expr]]) -> bool:
    """Whether iterations of a vectorized loop may run side by side.

    Guarantee: the loop holds stores alone, and no two iterations touch an element that one of them stores.

    Parameters
    ----------
    shapes: extents of tensors as they are stored.
    """
    if loop.kind is not ir.LoopKind.VECTORIZED or loop.carried:
        return False
    inside = loop.body.stmts if isinstance(loop.body, ir.Seq) else (loop.body,)
    stores = [stmt for stmt in inside if isinstance(stmt, ir.Store)]
    if len(stores) < len(inside):
        return False
    for tensor in dict.fromkeys(stmt.tensor for stmt in stores):
        stored = [s.indices for s in stores if s.tensor is tensor]
        loads = (load for stmt in stores for load in walk.elements_read(*walk.operands(stmt)))
        read = [read_indices(node) for node, own in loads if own is tensor]
        accesses = [form_of(offset(indices, shapes[tensor])) for indices in (*stored, *read)]
        if not all(_is_apart(loop, store, accesses) for store in accesses[: len(stored)]):
            return False
    return True


def _is_apart(loop: ir.For, store: Linear, accesses: Sequence[Linear]) -> bool:
    """Prove a store independent of accesses in other iterations: each distance is a constant between multiples of the
    stride, or exceeds the loop's length."""
    stride = store.terms.get(loop.var, 0)
    if not stride or any(loop.var in atom.free_vars() for atom in store.terms if atom is not loop.var):
        return False
    _, extent = walk.range_ends(loop.range)
    length = form_of(extent).scale(abs(stride))
    distances = [access.minus(store) for access in accesses]
    return all(
        (distance.is_const and (distance.const == 0 or distance.const % stride != 0))
        or any((beyond := distance.scale(sign).minus(length)).is_const and beyond.const >= 0 for sign in (1, -1))
        for distance in distances
    )


def reduction_of(loop: ir.For) -> tuple[str, Tensor] | None:
    """The operator, as OpenMP spells it, and the tensor of a loop that only combines floats into one fixed element.

    Reordering its iterations changes rounding alone.
    """
    store = loop.body
    if loop.kind not in (ir.LoopKind.SERIAL, ir.LoopKind.UNROLLED) or loop.carried or not isinstance(store, ir.Store):
        return None
    value = store.value
    if not walk.is_combining(store) or value.op not in _REDUCTIONS:
        return None
    is_fixed = all(constant_value(i) is not None for i in store.indices)
    is_apart = store.tensor not in walk.tensors_read(value.args[1])
    return (_REDUCTIONS[value.op], store.tensor) if is_fixed and is_apart else None


class _Definition(NamedTuple):
    """The lines from `start` up to `stop`, which define a name and do nothing else."""

    start: int
    stop: int
    name: str


class CNest(emitter.Emitter[driver.Cursor]):
    """The body of a function in C.

    Attributes
    ----------
    label: the prefix of the names of outlined functions.
    parallel, plan, storage: the parallel loops, where allocations lie, and the texts of the arena.
    shapes: the extents of the tensors in sight.
    heap: malloced arrays in allocation order, freed before every return.
    checks, messages: the number of assertions; what does not hold where the function returns 1, 2, ...
    tables: definitions of constant tables of the function that is being emitted.
    outlined: definitions of outlined functions.
    """

    syntax: c_operands.CSyntax

    def __init__(self, f: ir.Function, syntax: c_operands.CSyntax, label: str) -> None:
        self.f, self.syntax, self.label = f, syntax, label
        self.parallel, self.plan = parallel_plan(f)
        self.storage = c_operands.CStorage(self.plan, syntax)
        self.shapes: dict[Tensor, tuple[Expr, ...]] = {t: t.extents for t in f.params}
        self.heap: list[str] = []
        self.checks = 0
        self.messages: list[str] = []
        self.tables: list[str] = []
        self.outlined: list[str] = []
        self._is_outlining = False
        self._stored: set[Tensor] = set()  # allocated tensors in sight that are not on the stack
        self._types: dict[Any, str] = {p: c_type(p.dtype, str(p.data[0])) for p in f.scalars}
        self._table_of: dict[Any, Tensor] = {}
        self._conditional = conditional_scalars(f.body)

    @property
    def rules(self) -> emitter.EmissionRules[driver.Cursor]:
        return {
            ir.Seq: self.sequence,
            ir.For: self.loop,
            ir.If: self.branch,
            ir.Store: self.store,
            ir.Allocate: self.allocate,
            ir.Let: self.let,
            ir.Assert: self.check,
            ir.Evaluate: self.call,
        }

    def lines(self) -> list[str]:
        """The lines of the body."""
        root = driver.Cursor.root(self.f)
        lines = self.emitted(_sequence(self.f.body), root)
        self.syntax.scope = root.scope
        undefined = self.syntax.undefined
        if not undefined:
            return [*lines, "return 0;"]
        self.messages.append(divides_by_0(self.f))
        return [f"int {undefined}[1] = {{0}};", *lines, f"return {undefined}[0] ? {self.checks + 1} : 0;"]

    def operands(self, cursor: driver.Cursor, *operands: Operand) -> tuple[list[str], list[str]]:
        self.syntax.scope = cursor.scope
        flat = [c_operands.flattened(self._tabulated(e, cursor), self.shapes, cursor.scope) for e in operands]
        return super().operands(cursor, *flat)

    # -- blocks -------------------------------------------------------------------------------------------------

    def block(self, stmt: ir.Stmt, descent: driver.Cursor) -> emitter.Emission[driver.Cursor]:
        """The lines between two braces. The closing brace releases the names defined inside."""
        begun = self.syntax.names.begin()
        lines: list[str] = yield _sequence(stmt), descent
        self.syntax.names.end(begun)
        return lines

    def sequence(self, seq: ir.Seq, cursor: driver.Cursor) -> emitter.Emission[driver.Cursor]:
        """The statements of a sequence; the body of the function takes its arena behind the leading assertions."""
        is_body, stmts = not cursor.path, seq.stmts
        first = next((k for k, stmt in enumerate(stmts) if not isinstance(stmt, (ir.Assert, ir.Let))), len(stmts))
        live = len(self.heap)
        lines: list[str] = []
        definitions: list[_Definition] = []
        arena = self._shared_storage(stmts)
        for k, (stmt, here) in enumerate(driver.inside(seq, cursor)):
            if is_body and k == first:
                lines += self._arena(here)
            if isinstance(stmt, ir.Allocate) and stmt in arena.values():
                self._declare_shape(stmt)
                continue
            if self._is_outlined(stmt, here):
                lines += yield from self._outlined(stmt, here, arena)
                continue
            if isinstance(stmt, ir.Allocate) and stmt in self.plan.stack and walk.is_scalar(stmt):
                self.syntax.scalars.add(stmt.tensor)
            inner = yield stmt, here
            if isinstance(stmt, ir.Let) and inner:
                definitions.append(_Definition(len(lines), len(lines) + len(inner), self._name(stmt.var)))
            used = dict.fromkeys(arena[t] for t in walk.touched(stmt) if t in arena) if arena else {}
            pointers = [text for a in used if (text := self.storage.pointer(a)) is not None]
            lines += ["{", *emitter.indented([*pointers, *inner]), "}"] if pointers else _declared(lines, inner)
        if is_body and first == len(stmts):
            lines += self._arena(cursor)
        lines = _without_unused(lines, definitions)
        lines += self._frees(0 if is_body else live)
        del self.heap[live:]
        return lines

    def _arena(self, cursor: driver.Cursor) -> list[str]:
        """The lines that allocate the arena of the function."""
        self.syntax.scope = cursor.scope
        lines = self.storage.head()
        self.heap += [self.storage.malloced] if self.storage.malloced else []
        return lines

    def _frees(self, live: int) -> list[str]:
        return [f"free({name});" for name in reversed(self.heap[live:])]

    def _unless(self, cond: str, code: int) -> list[str]:
        """Free the heap and return a code if a C condition is true, in braces if that takes several lines."""
        frees, leave = self._frees(0), f"return {code};"
        return [f"if ({cond}) {{", *emitter.indented([*frees, leave]), "}"] if frees else [f"if ({cond}) {leave}"]

    def _shared_storage(self, stmts: Sequence[ir.Stmt]) -> dict[Tensor, ir.Allocate]:
        """Allocations with shared bytes, whose pointers are declared around single statements.

        Invariant: no two pointers to the same bytes are in scope together, as `restrict` requires.
        """
        shared = {s.tensor: s for s in stmts if isinstance(s, ir.Allocate) and self.storage.is_shared(s)}
        if shared:
            for stmt in stmts:
                if isinstance(stmt, (ir.Let, ir.Assert)):
                    for tensor in walk.touched(stmt):
                        shared.pop(tensor, None)
        return shared

    def _is_outlined(self, stmt: ir.Stmt, cursor: driver.Cursor) -> bool:
        """Whether a statement becomes a function: a nest over several arrays, one of them allocated or all of them seen
        from a parallel loop.

        Statements with parallel loops are excluded, since bodies of these are outlined instead, and so are stores to
        outer scalar variables.
        """
        is_in_parallel = any(loop in self.parallel for loop in cursor.loops)
        if self._is_outlining or not (self._stored or is_in_parallel) or not isinstance(stmt, (ir.For, ir.If)):
            return False
        arrays, inner = walk.touched(stmt), list(walk.statements(stmt))
        if len(arrays) < 2 or not (is_in_parallel or any(t in self._stored for t in arrays)):
            return False
        if any(
            s in self.parallel
            or isinstance(s, (ir.Assert, ir.Evaluate))
            or (isinstance(s, ir.Allocate) and s not in self.plan.stack)
            or (isinstance(s, ir.Store) and s.tensor in self.syntax.scalars)
            for s in inner
        ):
            return False
        return any(isinstance(s, ir.For) and constant_value(walk.range_ends(s.range)[1]) != 1 for s in inner)

    def _outlined(
        self, stmt: ir.Stmt, cursor: driver.Cursor, arena: Mapping[Tensor, ir.Allocate]
    ) -> emitter.Emission[driver.Cursor]:
        """The call of a function that executes a statement.

        The function's name contains a stored tensor and a checksum of its text: equal names mean equal functions, so a
        preprocessor guard deduplicates them across concatenated files.
        """
        tables, table_of = self.tables, self._table_of
        self.tables, self._table_of, self._is_outlining = [], {}, True
        inner = yield stmt, cursor
        lines = [*self.tables, *inner]
        self.tables, self._table_of, self._is_outlining = tables, table_of, False
        allocated = {s.tensor for s in walk.statements(stmt) if isinstance(s, ir.Allocate)}
        written = dict.fromkeys(s.tensor for s in walk.statements(stmt) if isinstance(s, ir.Store))
        params, args = [], []
        for tensor in (t for t in walk.touched(stmt) if t not in allocated):
            const = "" if tensor in written else "const "
            pointer = "" if tensor in self.syntax.scalars else "*restrict "
            params.append(f"{const}{storage_type(tensor.dtype, tensor.name)} {pointer}{self._name(tensor)}")
            address = self.storage.address(arena[tensor]) if tensor in arena else None
            args.append(address or self._name(tensor))
        strides = (v for t in walk.touched(stmt) for e in self.shapes.get(t, ())[1:] for v in e.free_vars())
        text = "\n".join(lines)
        for var in dict.fromkeys((*walk.free_variables(stmt), *strides)):
            name = self._name(var)
            if re.search(rf"\b{name}\b", text):  # others occur in addresses of allocations
                params.append(f"{self._types.get(var, self.syntax.index)} {name}")
                args.append(name)
        if self._is_noting(lines):
            params.append(f"int *restrict {self.syntax.undefined}")
            args.append(self.syntax.undefined)
        rest = [f"({', '.join(params)}) {{", *emitter.indented(lines), "}"]
        target = next((t.name for t in written if t not in allocated), "part")
        checksum = crc32("\n".join(rest).encode()) & 0xFFFFFF
        name = re.sub(r"\W", "_", f"{self.label}_{target}_{checksum:06x}", flags=re.ASCII)
        self.outlined += [*defined_once(name, [f"static void {name}{rest[0]}", *rest[1:]]), ""]
        return [f"{name}({', '.join(args)});"]

    def _is_noting(self, lines: Sequence[str]) -> bool:
        """Whether lines take note of divisions by 0."""
        return bool(self.syntax.undefined) and any(self.syntax.undefined in line for line in lines)

    def _name(self, thing: Any) -> str:
        return self.syntax.names.of(thing, thing.name) if isinstance(thing, Tensor) else str(self.syntax.leaf(thing))

    # -- loops --------------------------------------------------------------------------------------------------

    def loop(self, loop: ir.For, cursor: driver.Cursor) -> emitter.Emission[driver.Cursor]:
        names, index = self.syntax.names, self.syntax.index
        low, extent = walk.range_ends(loop.range)
        is_parallel = loop in self.parallel
        is_block = constant_value(extent) == 1 and not loop.carried and not is_parallel
        if is_block and loop.var not in walk.free_variables(loop.body):
            return ["{", *emitter.indented((yield from self.block(loop.body, cursor.inside(loop)))), "}"]
        end = end_of(low, extent)
        firsts = [c.first for c in loop.carried]
        lines, (start, stop, *initial) = self.operands(cursor, low, end, *firsts)
        chosen = nodes(end) if ops.SELECT in operations(end) else ()
        is_choice = any(node.op is ops.SELECT and isinstance(node, Expr) for node in chosen)
        if is_choice:  # else compilers do not see the number of iterations
            stop, text = names.local("end"), stop
            lines.append(f"const {index} {stop} = {emitter.opened(text)};")
        carried = [names.local(c.var.name, c.var) for c in loop.carried]  # declared around the loop
        begun = names.begin()
        var = names.local(loop.var.name, loop.var)
        for name, first, text in zip(carried, firsts, initial, strict=True):
            is_wide = self.syntax.bits < 64 and dag.opaque_terms(first)  # it fits, but is computed in 64 bits
            lines.append(f"{index} {name} = {f'({index}){text}' if is_wide else emitter.opened(text)};")
        own = self.storage.thread_head(loop)
        body = yield _sequence(loop.body), cursor.inside(loop)  # its names are taken until `following` is computed
        if carried:
            more, following = self.operands(cursor, *(c.following for c in loop.carried))
            fresh = [names.local("next") for _ in carried]
            computed = zip(fresh, following, strict=True)
            update = [*more, *(f"const {index} {t} = {emitter.opened(x)};" for t, x in computed)]
            update += [f"{name} = {t};" for name, t in zip(carried, fresh, strict=True)]
            is_safe = all(c.after_last for c in loop.carried)
            body += update if is_safe else self.syntax.branch(f"{var} + 1 < {emitter.compared(stop)}", update, [])
        head = f"for ({index} {var} = {emitter.opened(start)}; {var} < {emitter.compared(stop)}; ++{var}) {{"
        nest = [head, *emitter.indented(body), "}"]
        if not is_parallel:
            nest = [*self._loop_remark(loop, body), *nest]
        elif own:
            nest = [_pragma("parallel"), "{", *emitter.indented([*own, _pragma("for"), *nest]), "}"]
        else:
            nest = [_pragma("parallel for"), *nest]
        names.end(begun)
        lines += nest
        return ["{", *emitter.indented(lines), "}"] if carried else lines

    def _loop_remark(self, loop: ir.For, body: Sequence[str]) -> list[str]:
        """The pragma of a loop whose iterations may run side by side; for other loops, a comment with their kind."""
        if not self._is_noting(body):
            if is_simd(loop, self.shapes):
                return [_pragma("simd")]
            combined = reduction_of(loop) if self.f.reassociate else None
            combined = combined if combined is not None and combined[1].dtype not in dtypes.NARROW else None
            if combined is not None and combined[1] in self.syntax.scalars:
                return [_pragma(f"simd reduction({combined[0]}:{self._name(combined[1])})")]
        kind = loop.thread or ("" if loop.kind is ir.LoopKind.SERIAL else str(loop.kind))
        return [emitter.comment(kind)] if kind else []

    # -- simple statements --------------------------------------------------------------------------------------

    def call(self, stmt: ir.Evaluate, cursor: driver.Cursor) -> list[str]:
        raise InputError(f"{self.f.name} calls {stmt.call.name}, a function of the host: C code cannot call it")

    def let(self, stmt: ir.Let, cursor: driver.Cursor) -> list[str]:
        before, (value,) = self.operands(cursor, stmt.value)
        name = self.syntax.names.local(label_of(stmt.var), stmt.var)
        self._types[stmt.var] = self._let_type(stmt)
        self.syntax.spans.name(stmt.var, stmt.value)
        return [*before, f"const {self._types[stmt.var]} {name} = {emitter.opened(value)};"]

    def _let_type(self, stmt: ir.Let) -> str:
        if isinstance(stmt.value, Expr):
            is_index = dag.opaque_terms(stmt.value) and not self.syntax.spans.is_wide(stmt.value)
            return "int64_t" if is_index else self.syntax.type_of(stmt.value)
        return c_type(getattr(stmt.value, "dtype", "bool"), f"a value in {self.f.name}")

    def store(self, stmt: ir.Store, cursor: driver.Cursor) -> list[str]:
        tensor = stmt.tensor
        index = c_operands.flat_index(stmt.indices, self.shapes[tensor], cursor.scope)
        is_narrow = tensor.dtype in dtypes.NARROW
        updated = None if is_narrow else walk.update_of(stmt)
        operator, operand = updated or ("", emitter.as_stored(stmt.value, tensor.dtype))
        before, (value, where) = self.operands(cursor, operand, index)
        if isinstance(stmt.value, Expr) and constant_value(stmt.value) is None:
            value = f"({c_type(tensor.dtype, tensor.name)}){value}"
        if is_narrow:
            value = self.syntax.stored(value, tensor.dtype)
        return [*before, f"{self.syntax.element(tensor, where)} {operator}= {emitter.opened(value)};"]

    def check(self, stmt: ir.Assert, cursor: driver.Cursor) -> list[str]:
        if ir.shapes_in(stmt.cond):
            return [emitter.comment(f"the caller sees to it that {stmt.message}")]
        before, (cond,) = self.operands(cursor, stmt.cond)
        self.checks += 1
        self.messages.append(stmt.message)
        return [*before, *self._unless(f"!({emitter.opened(cond)})", self.checks)]

    # -- storage ------------------------------------------------------------------------------------------------

    def _declare_shape(self, stmt: ir.Allocate) -> tuple[Expr, ...]:
        tensor = stmt.tensor
        self.syntax.names.local(tensor.name, tensor)
        for r in stmt.ranges:
            if constant_value(walk.range_ends(r)[0]) != 0:
                raise InputError(f"the storage of {tensor.name} does not begin at 0: apply rebase before to_c")
        self.shapes[tensor] = extents = tuple(walk.range_ends(r)[1] for r in stmt.ranges)
        if stmt not in self.plan.stack:
            self._stored.add(tensor)
        return extents

    def allocate(self, stmt: ir.Allocate, cursor: driver.Cursor) -> list[str]:
        tensor = stmt.tensor
        extents = self._declare_shape(stmt)
        pointer = self.storage.pointer(stmt, not self.storage.is_shared(stmt))
        if pointer is not None:
            return [pointer]
        dtype, name = storage_type(tensor.dtype, tensor.name), self._name(tensor)
        if tensor in self.syntax.scalars:
            return [f"{dtype} {name}{' = 0' if tensor in self._conditional else ''};"]
        if stmt in self.plan.stack:
            number = prod(max(0, constant_value(e) or 0) for e in extents)
            return [f"{dtype} {name}[{max(1, number)}];"]
        lines, sizes = self.operands(cursor, *extents)
        size = self.storage.size(f"sizeof({dtype})", extents, sizes)
        lines.append(f"{dtype} *{name} = ({dtype} *)malloc({size} + 1);")
        lines += self._unless(f"{name} == NULL", -1)
        self.heap.append(name)
        return lines

    # -- constant tables ----------------------------------------------------------------------------------------

    def _tabulated(self, operand: Operand, cursor: driver.Cursor) -> Operand:
        """The operand with selections between constants as elements of tables."""
        if not isinstance(operand, Value):
            return operand
        tables = c_operands.constant_tables(operand, cursor.loops) if operand.dtype not in dtypes.NARROW else {}
        if not tables:
            return operand
        new: Operand = rewrite(operand, {node: table.element(self._table(table)) for node, table in tables.items()})
        return new

    def _table(self, table: c_operands.ConstantTable) -> Tensor:
        key = (table.values, table.dtype)
        if key not in self._table_of:
            tensor = self._table_of[key] = placeholder((len(table.values),), table.dtype, name="table")
            self.shapes[tensor] = tensor.extents
            values = ", ".join(str(self.syntax.leaf(constant(value, table.dtype))) for value in table.values)
            ctype = c_type(table.dtype, "a constant table")
            self.tables.append(f"static const {ctype} {self._name(tensor)}[{len(table.values)}] = {{{values}}};")
        return self._table_of[key]


def _sequence(stmt: ir.Stmt) -> ir.Seq:
    return stmt if isinstance(stmt, ir.Seq) else ir.Seq((stmt,))


def _declared(lines: list[str], following: list[str]) -> list[str]:
    """The following lines; the first joins the declaration before it if it gives the declared variable its value."""
    declaration = re.fullmatch(r"(\w+) (\w+);", lines[-1]) if lines and following else None
    if declaration is None or not following[0].startswith(f"{declaration[2]} = "):
        return following
    lines.pop()
    return [f"{declaration[1]} {following[0]}", *following[1:]]


def _without_unused(lines: list[str], definitions: Sequence[_Definition]) -> list[str]:
    """The lines without definitions of names that no later line uses: compilers warn of those.

    C may need fewer names than the nest: facts at an access shorten its index.
    """
    used = list(lines)
    for start, stop, name in reversed(definitions):  # a definition may use names that nothing else uses
        if not any(re.search(rf"\b{name}\b", line) for line in used[stop:]):
            del used[start:stop]
    return used


def divides_by_0(f: ir.Function) -> str:
    """The message of the code that a function returns after a division by 0."""
    return f"{f.name} divides an integer by 0"


def _pragma(directive: str) -> str:
    """An OpenMP pragma; compilers without OpenMP ignore it, silenced by `lowering.codegen.c.QUIET`."""
    return f"#pragma omp {directive}"


QUIET: Final = ("#ifndef _OPENMP", '#pragma GCC diagnostic ignored "-Wunknown-pragmas"', "#endif")
# gcc follows paths through allocated storage that the nest does not have, and warns of what it would do there. The
# nest was proved to store before it reads, and inside of its allocations.
UNFOLLOWED: Final = (
    "#if defined(__GNUC__) && !defined(__clang__)",
    *(
        f'#pragma GCC diagnostic ignored "-W{name}"'
        for name in ("maybe-uninitialized", "uninitialized", "array-bounds")
    ),
    "#endif",
)
BUILD: Final = "cc -std=c99 -O3 -march=native"


@dataclass(frozen=True)
class CFile:
    """A function as a file of C.

    Attributes
    ----------
    text: the file.
    entry: the name of its function.
    bits: the width of its sizes.
    messages: what does not hold where the function returns 1, 2, ...
    """

    text: str
    entry: str
    bits: int
    messages: tuple[str, ...]


def to_c(f: ir.Function, width: Width | None = None) -> str:
    """The function as C99: one function of pointers to row-major arrays, then sizes and scalars.

    Result codes: 0 for success, k for a violated assertion number k, the number after the last assertion for an integer
    division by 0, -1 without memory. Index arithmetic is in 32 bits where that is proved sufficient, else in 64; a
    comment names the expression that forced it. Where 32 bits suffice for all but very large sizes, a test of the sizes
    selects one of two versions. Loops on threads run one after another. Assumptions emit nothing, and `undef()` is 0.
    Division by a constant is left to the C compiler, which multiplies by a magic number.

    Guarantee: the text compiles without warnings, also where compilers optimize; names of users are escaped and collide
    with none of C's. Where it allocates, a pragma silences gcc's guesses about uninitialized elements and array bounds.

    Parameters
    ----------
    f: the result of `lower`: allocations begin at 0, divisions are lowered.
    width: the width of indices, as `narrow` chose it.

    Raises
    ------
    InputError: the nest calls a host function, or C99 lacks an element type.
    """
    ir.checked_function(f, "to_c")
    if width is not None:
        arguments.of_kind(Width, width, "width", "what narrow gave")
    return c_file(f, width).text


def c_file(f: ir.Function, width: Width | None = None) -> CFile:
    """`to_c` with what a caller of the compiled function needs to know. Parameters and errors are those of `to_c`."""
    f = f.with_body(with_own_storage(walk.without_assumptions(f.body), f.params))
    f = inline_values(drop_dead(f))  # compilers warn of unused values
    chosen = narrow(f) if width is None else width
    f = _prepared(f, chosen.bits)
    small = with_short_signs(f) if chosen.bits == 64 else f
    fitting = sizes_that_fit(small) if width is None and chosen.bits == 64 else ()
    called = _called(f)
    name = emitter.Identifiers(RESERVED_IN_FILE, called).fresh(f.name)
    body = _CBody(f, chosen.bits, name, called)
    bodies = [_CBody(small, 32, f"{name}_32", called), body] if fitting else [body]
    inner = body.syntax.names.fresh(f"{name}_32") if fitting else ""
    dispatch = body.dispatch(inner, fitting) if fitting else []  # before helpers are listed: it may add some
    helpers = dict.fromkeys(text for each in bodies for text in each.syntax.helpers.values())
    externs = dict.fromkeys(text for each in bodies for text in each.syntax.externs.values())
    allocates = any(isinstance(stmt, ir.Allocate) for stmt in walk.statements(f.body))
    has_pragmas = any("#pragma omp" in line for each in bodies for line in (*each.nest.outlined, *each.lines))
    definitions = [*externs, *(line for text in helpers for line in defined_once(function_name(text), [text]))]
    head = f"int {name}({body.parameters})"
    lines = [
        *emitter.comment(*_remark(body, chosen, fitting, has_pragmas)).split("\n"),
        *(QUIET if has_pragmas else ()),
        *(UNFOLLOWED if allocates else ()),
        *("#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", "#include <stdlib.h>"),
        *(c_operands.THREADS if any("INTSET_THREAD" in line for line in body.lines) else ()),
        "",
        *([*definitions, ""] if definitions else ()),
        *(f"{head};", ""),
        *(line for each in bodies for line in each.nest.outlined),
    ]
    if fitting:
        lines += [f"static int {inner}({bodies[0].parameters}) {{", *emitter.indented(bodies[0].lines), "}", ""]
    lines += [f"{head} {{", *emitter.indented([*dispatch, *body.lines]), "}"]
    messages = max((each.nest.messages for each in bodies), key=len)
    return CFile("\n".join(lines) + "\n", name, chosen.bits, tuple(messages))


def _prepared(f: ir.Function, bits: int) -> ir.Function:
    """The nest with loops unrolled, split and unswitched, as far as that needs no wider integers.

    Precondition: nothing in it is dead.
    """
    given, f = f, unroll(run_over_digits(with_fixed_storage(forward_copies(f))))
    split = f
    for _ in range(2):  # the first run makes ends of loops constant, by which the second one splits
        before, split = split, unroll(run_over_digits(partition_loops(split, f)))
        if split.body is before.body:
            break
    if split.body is not f.body:
        nodes = dag.postorder([e for stmt in walk.statements(split.body) for e in walk.operands(stmt)])
        # loops split by a sign, `x >> 63`, divide by 2**63
        fits = all(-(1 << 63) <= node.data < 1 << 63 for node in nodes if node.op is ops.CONST)
        split = split if fits and (bits == 64 or narrow(split).bits == 32) else f
    prepared = fold_constants(accumulate(decide_rows(drop_identities(split), is_all=True)))
    return given if prepared.body is given.body else drop_dead(prepared)


class _CBody:
    """The parameters and the statements of a function at one width of indices."""

    def __init__(self, f: ir.Function, bits: int, label: str, called: Iterable[str]) -> None:
        self.f = f
        names = emitter.Identifiers(RESERVED, called)
        self.syntax = c_operands.CSyntax(names, bits, f.name)
        parameters = []
        for tensor in f.params:
            const = "" if tensor in f.outputs else "const "
            dtype, array = storage_type(tensor.dtype, tensor.name), names.of(tensor, tensor.name)
            parameters.append(f"{const}{dtype} *restrict {array}")
        parameters += [f"{self.syntax.index} {self.syntax.leaf(v)}" for v in f.sizes]
        parameters += [f"{c_type(p.dtype, str(p.data[0]))} {self.syntax.leaf(p)}" for p in f.scalars]
        self.parameters = ", ".join(parameters) or "void"
        self.nest = CNest(f, self.syntax, label)
        body = self.nest.lines()
        used = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", "\n".join(body))))  # not in comments
        labels = [names.of(t, t.name) for t in f.params] + [str(self.syntax.leaf(v)) for v in (*f.sizes, *f.scalars)]
        unused = [f"(void){name};" for name in labels if name not in used]
        self.lines = [*unused, *self.nest.tables, *body]

    def dispatch(self, inner: str, fitting: Sequence[Cond]) -> list[str]:
        """The lines that call the function of 32 bits for sizes that pass its test."""
        before, (test,) = emitter.straight_line(self.syntax, [all_of(*fitting)])
        f, leaf = self.f, self.syntax.leaf
        args = [self.syntax.names.of(t, t.name) for t in f.params]
        args += [f"(int32_t){leaf(v)}" for v in f.sizes] + [str(leaf(p)) for p in f.scalars]
        return [*before, f"if ({emitter.opened(test)}) return {inner}({', '.join(args)});"]


_CALLING: Final = frozenset((CALL, ops.LOAD))


def _called(f: ir.Function) -> frozenset[str]:
    """The names of called functions, reserved in the whole file."""
    called: set[str] = set()
    roots: list[Any] = [operand for stmt in walk.statements(f.body) for operand in walk.operands(stmt)]
    for node in dag.postorder([root for root in roots if not _CALLING.isdisjoint(dag.operations(root))]):
        if node.op is CALL and node.data not in FUNCTIONS:
            called.add(str(node.data))
        elif node.op is ops.LOAD and isinstance(node.data, IntFunction):
            called.update(n.data for n in dag.postorder((node.data.body,)) if n.op is CALL)
    return frozenset(called)


def _remark(body: _CBody, width: Width, fitting: Sequence[Cond], has_pragmas: bool) -> list[str]:
    """The head comment: signature, width, build command, result codes."""
    f, nest = body.f, body.nest
    shapes = ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(repr, t.extents))}]" for t in f.params)
    results = [
        f"returns {k}: {'' if k > nest.checks else 'not so that '}{message}"
        for k, message in enumerate(nest.messages, 1)
    ]
    build = f"build: {BUILD}{' -fopenmp' if has_pragmas else ''}"
    chosen = f"int32 where {' and '.join(map(str, fitting))}, else int64" if fitting else str(width)
    return [f"{f.name}({shapes})", chosen, build, *results]


# -- a program around the function ------------------------------------------------------------------------------

SIZE: Final = 256  # the default of a size
CALLS: Final = 10
_LOCALS: Final = ("argc", "argv", "seconds", "sum", "i", "double")

_FILL: Final = """\
static double next(void) {  /* the same numbers on every machine (Knuth's constants of a linear congruence) */
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 40) / 16777216.0 - 0.5;
}
"""


def program_text(f: ir.Function, sizes: Mapping[str, int] | None = None) -> str:
    """A C program that fills the inputs, calls the function, and prints seconds a call and a checksum.

    The program takes the sizes as arguments, in the order of the function's; their defaults are those in `sizes`, else
    `SIZE`. It exits with the code that the function returned.

    Raises
    ------
    InputError: as `to_c`; or the function has scalar parameters that are no integers.
    """
    if f.scalars:
        raise InputError(f"{f.name} has the parameter {f.scalars[0].data[0]}: a program cannot know its value")
    file = c_file(f)
    names = emitter.Identifiers(RESERVED_IN_FILE, (file.entry, *_LOCALS))
    draw = names.fresh("next")
    syntax = c_operands.CSyntax(names, 64, f.name)
    lines: list[str] = []
    for k, var in enumerate(f.sizes):
        value = (sizes or {}).get(var.name, SIZE)
        lines.append(f"const int64_t {syntax.leaf(var)} = argc > {k + 1} ? atoll(argv[{k + 1}]) : {value};")
    if not f.sizes:
        lines.append("(void)argc, (void)argv;")
    counts = [_count(t, syntax, lines) for t in f.params]
    arrays = [names.of(t, t.name) for t in f.params]
    for tensor, count, array in zip(f.params, counts, arrays, strict=True):
        dtype = storage_type(tensor.dtype, tensor.name)
        lines.append(f"{dtype} *{array} = ({dtype} *)malloc(sizeof({dtype}) * {count} + 1);")
        lines.append(f"if ({array} == NULL) return 1;")
        lines.append(f"for (size_t i = 0; i < {count}; ++i) {array}[i] = {_drawn(tensor, dtype, draw)};")
    args = [*arrays, *(f"(int{file.bits}_t){syntax.leaf(v)}" for v in f.sizes)]
    code, call, begin = (names.fresh(name) for name in ("code", "call", "begin"))  # the function may have such a name
    lines += [
        f"int {code} = 0;",
        f"const clock_t {begin} = clock();",
        f"for (int {call} = 0; {call} < {CALLS} && {code} == 0; ++{call}) {code} = {file.entry}({', '.join(args)});",
        f"const double seconds = (double)(clock() - {begin}) / CLOCKS_PER_SEC / {CALLS};",
        "double sum = 0;",
    ]
    for tensor, count, array in zip(f.params, counts, arrays, strict=True):
        if tensor in f.outputs:
            lines.append(f"for (size_t i = 0; i < {count}; ++i) sum += (double){array}[i] * (double)(i % 7 + 1);")
    lines.append('printf("%.9f seconds a call, checksum %.9g, returned %d\\n", seconds, sum, ' + f"{code});")
    lines += [f"free({array});" for array in arrays]
    body = "\n".join(emitter.indented((*lines, f"return {code};")))
    includes = "#include <stdio.h>\n#include <time.h>\n"
    fill = _FILL.replace("next", draw)
    return f"{file.text}\n{includes}\n{fill}\nint main(int argc, char **argv) {{\n{body}\n}}\n"


def _count(tensor: Tensor, syntax: c_operands.CSyntax, lines: list[str]) -> str:
    """The name of the number of elements of a parameter; its definition is appended to `lines`."""
    before, texts = emitter.straight_line(syntax, tensor.extents)
    factors = [f"(size_t)({emitter.compared(text)} > 0 ? {emitter.compared(text)} : 0)" for text in texts]
    name = syntax.names.fresh(f"{tensor.name}_elements")
    lines += [*before, f"const size_t {name} = {' * '.join(factors) or '1'};"]
    return name


def _drawn(tensor: Tensor, dtype: str, draw: str) -> str:
    """The expression of a random element."""
    if dtypes.is_float(tensor.dtype):
        return f"({dtype}){draw}()"
    if tensor.dtype == "bool":
        return f"{draw}() < 0"
    low, high = tensor.value_range or (0, 9)
    return f"({dtype})(({draw}() + 0.5) * {high - low + 1} + ({low}))"
