"""Nests as Python source: one function over flat memory views, more where Python's nesting limits need them."""

from __future__ import annotations

from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from intset.expr.node import Expr
from lowering.codegen.held import held
from lowering.codegen.names import Names
from lowering.codegen.python_ops import PythonSyntax, stored_text, wrapped
from lowering.codegen.python_unknown import UnknownSyntax
from lowering.codegen.straight import Straight
from lowering.nest.ir import Allocate, Assert, Assume, Evaluate, For, Function, If, Let, Padding, Seq, Stmt, Store
from lowering.nest.text import text
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import Visit, drive, operands, range_ends, statements, tensors_read

# Python allows 20 blocks inside one another; a function of its own starts afresh.
MAX_BLOCKS: Final = 12
_RESERVED: Final = (
    *"False None True and as assert async await break class continue def del elif else except finally for from".split(),
    *"global if import in is lambda nonlocal not or pass raise return try while with yield match case type".split(),
    *"min max abs int float range round shapes storage values kernel outside failed refuted undef evaluate".split(),
    *"opaque allocate unread filled permit keep known decided both either negated popcount states".split(),
    *"ceildiv truncdiv truncmod divide fmod float_floordiv float_floormod float_min float_max".split(),
    *"truncated whole shl shr".split(),
    *(f"{name}_{dtype}" for name in ("round", "to") for dtype in ("float16", "float32", "float64")),
    *(f"{name}_{dtype}" for name in ("float_floordiv", "float_floormod") for dtype in ("float16", "float32")),
)


class PythonNest:
    """The source of a function `kernel(shapes, storage, values, states)`.

    `storage` maps tensors of the parameters to flat views, `values` holds sizes and scalars in the order of the head.
    `states` maps those of which an element may be read before it is written to a byte for each element: 0 where
    nothing is written, 2 where an `undef()` is, else 1. Where there are such, values made of one are `Unknown`.
    """

    def __init__(self, f: Function, checked: bool) -> None:
        self.f = f
        self.checked = checked
        self.names = Names(_RESERVED)
        self.constants: dict[str, Any] = {}  # objects that the source refers to by name
        self.is_unknown = checked and any(has_undef(*operands(stmt)) for stmt in statements(f.body))
        self.syntax = (UnknownSyntax if self.is_unknown else PythonSyntax)(self.names, checked, self.constant)
        self.syntax.tracked = tracked_tensors(f) if checked else frozenset()
        self.functions: list[str] = []
        self.visible: list[str] = []

    def source(self) -> str:
        """The text of the module."""
        lines = ["def kernel(shapes, storage, values, states):"]
        arguments = [self.syntax.leaf(v) for v in (*self.f.sizes, *self.f.scalars)]
        self.visible = [a for a in arguments if a is not None] + ["shapes"]
        if arguments:
            lines.append(f"    {', '.join(map(str, arguments))}, = values")
        for tensor in self.f.params:
            lines += [f"    {line}" for line in self._parameter(tensor)]
        lines += drive(self._stmt(self.f.body, 1, 1))
        return "\n".join([*lines, *self.functions]) + "\n"

    def _parameter(self, tensor: Tensor) -> list[str]:
        base = self.names.of(tensor, tensor.name)
        self.visible.append(base)
        lines = [f"{base} = storage[{self.constant(tensor)}]"]
        if tensor in self.syntax.tracked:
            self.visible.append(f"{base}_w")
            lines.append(f"{base}_w = states[{self.constant(tensor)}]")
        lines += self._extents(tensor, [f"shapes[{self.constant(tensor)}][{k}]" for k in range(tensor.ndim)])
        return [*lines, *self._padding(tensor, self.f.padding.get(tensor))]

    def _padding(self, tensor: Tensor, padding: Padding | None) -> list[str]:
        """A function that tells whether an element may not be touched."""
        if padding is None or not self.checked:
            return []
        name = self.syntax.padding[tensor] = f"{self.names.of(tensor, tensor.name)}_p"
        indices = ", ".join(str(self.syntax.leaf(v)) for v in padding.indices)
        before, (cond,) = self._operands(padding.cond)
        self.visible.append(name)
        return [f"def {name}({indices}):", *_at(1, [*before, f"return {self.syntax.decided(cond)}"])]

    def _extents(self, tensor: Tensor, extents: list[str]) -> list[str]:
        base = self.names.of(tensor, tensor.name)
        lines = []
        stride = ""
        for k in range(len(extents) - 1, -1, -1):
            lines.append(f"{base}_n{k} = {extents[k]}")
            self.visible.append(f"{base}_n{k}")
            if k < len(extents) - 1:
                stride = f"{base}_n{k + 1} * {base}_s{k + 1}" if k < len(extents) - 2 else f"{base}_n{k + 1}"
                lines.append(f"{base}_s{k} = {stride}")
                self.visible.append(f"{base}_s{k}")
        return lines

    def constant(self, thing: Any) -> str:
        """A name under which the source finds `thing`."""
        name = self.names.of(("constant", thing), "c_" + str(getattr(thing, "name", "x")))
        self.constants[name] = thing
        return name

    # -- statements; each gives lines at its own depth ----------------------------------------------------------

    def _stmt(self, stmt: Stmt, depth: int, blocks: int) -> Visit[list[str]]:
        lines: list[str]
        if isinstance(stmt, Seq):
            lines = []
            seen = len(self.visible)
            for inner in stmt.stmts:
                lines += yield self._stmt(inner, depth, blocks)
            del self.visible[seen:]
            return lines or [f"{'    ' * depth}pass"]
        if isinstance(stmt, (For, If)) and blocks >= MAX_BLOCKS:
            lines = yield self._outlined(stmt, depth)
            return lines
        if isinstance(stmt, For):
            lines = yield self._loop(stmt, depth, blocks)
            return lines
        if isinstance(stmt, If):
            before, (cond,) = self._operands(stmt.cond)
            then = yield self._stmt(stmt.then, depth + 1, blocks + 1)
            lines = [*_at(depth, [*before, f"if {self.syntax.decided(cond)}:"]), *then]
            if stmt.orelse is not None:
                lines += [*_at(depth, ["else:"]), *(yield self._stmt(stmt.orelse, depth + 1, blocks + 1))]
            return lines
        return _at(depth, self._simple(stmt))

    def _outlined(self, stmt: Stmt, depth: int) -> Visit[list[str]]:
        name = self.names.fresh("block")
        arguments = ", ".join(dict.fromkeys(self.visible))
        body = yield self._stmt(stmt, 1, 1)
        self.functions += [f"def {name}({arguments}):", *body]
        return _at(depth, [f"{name}({arguments})"])

    def _loop(self, loop: For, depth: int, blocks: int) -> Visit[list[str]]:
        low, extent = range_ends(loop.range)
        firsts = tuple(c.first for c in loop.carried)
        before, (start, count, *initial) = self._operands(low, extent, *firsts)
        name = self.syntax.leaf(loop.var)
        carried = [str(self.syntax.leaf(c.var)) for c in loop.carried]
        seen = len(self.visible)
        self.visible += [str(name), *carried]
        body = yield self._stmt(loop.body, depth + 1, blocks + 1)
        del self.visible[seen:]
        after: list[str] = []
        if carried:
            before += [f"{var} = {value}" for var, value in zip(carried, initial, strict=True)]
            lines, following = self._operands(*(c.following for c in loop.carried))
            after = [*lines, f"{', '.join(carried)}, = {', '.join(following)},"]
        head = f"range({count})" if start == "0" else f"range({start}, {start} + {count})"
        return [*_at(depth, [*before, f"for {name} in {head}:"]), *body, *_at(depth + 1, after)]

    def _operands(self, *operands: Any) -> tuple[list[str], list[str]]:
        return Straight(self.syntax).emit(operands)

    def _simple(self, stmt: Stmt) -> list[str]:
        if isinstance(stmt, Store):
            return self._store(stmt)
        if isinstance(stmt, Allocate):
            return self._allocate(stmt)
        if isinstance(stmt, Let):
            before, (value,) = self._operands(stmt.value)
            name = str(self.syntax.leaf(stmt.var))
            self.visible.append(name)
            self.syntax.spans.name(stmt.var, stmt.value)
            return [*before, f"{name} = {value}"]
        if isinstance(stmt, Assert):
            before, (cond,) = self._operands(stmt.cond)
            return [*before, f"if not {self.syntax.decided(cond)}: failed({stmt.message!r})"]
        if isinstance(stmt, Assume):
            if has_undef(stmt.cond):  # it says what may be read, not what is there
                return self._permission(stmt)
            before, (cond,) = self._operands(stmt.cond)
            return [*before, f"if not {self.syntax.decided(cond)}: refuted({text(stmt.cond)!r})"]
        assert isinstance(stmt, Evaluate)
        before, args = self._operands(*operands(stmt))
        given = "".join(f"{arg}, " for arg in args)
        written = [self.names.of(t, t.name) for t in dict.fromkeys(stmt.writes) if t in self.syntax.tracked]
        return [
            *before,
            f"evaluate({self.constant(stmt)}, ({given}), {{{self._whole(stmt)}}})",
            *(f"filled({base}_w)" for base in written),
        ]

    def _permission(self, stmt: Assume) -> list[str]:
        """`c or T[i] == undef()`: where c is false, the element may be read, whatever it holds."""
        found = permission(stmt.cond)
        if found is None or found[1] not in self.syntax.tracked:
            return ["pass"]
        guards, tensor, indices = found
        before, texts = self._operands(*guards, *indices)
        place, check, given = self.syntax.place(tensor, texts[len(guards) :])
        base = self.names.of(tensor, tensor.name)
        reached = " or ".join(texts[: len(guards)])
        lines = [*([f"if not ({check}): outside({tensor.name!r}, 'read', {given})"] if check else [])]
        lines.append(f"permit({base}_w, {place})")
        return [*before, *([f"if not ({reached}):", *_at(1, lines)] if guards else lines)]

    def _whole(self, stmt: Evaluate) -> str:
        parts = []
        for tensor in dict.fromkeys((*stmt.reads, *stmt.writes)):
            base = self.names.of(tensor, tensor.name)
            shape = "".join(f"{base}_n{k}, " for k in range(tensor.ndim))
            parts.append(f"{self.constant(tensor)}: ({base}, ({shape}))")
        return ", ".join(parts)

    def _store(self, stmt: Store) -> list[str]:
        before, (value, *indices) = self._operands(held(stmt.value, stmt.tensor.dtype), *stmt.indices)
        place, check, given = self.syntax.place(stmt.tensor, indices)
        dtype = stmt.tensor.dtype
        if dtypes.is_int(dtype):
            is_const = isinstance(stmt.value, Expr) and stmt.value.is_const
            value = value if is_const else wrapped(value, dtypes.bits(dtype), dtypes.signed(dtype))
        value = stored_text(stmt.value, value, dtype)
        lines = [*before, f"if not ({check}): outside({stmt.tensor.name!r}, 'written', {given})"] if check else before
        return [*lines, *self.syntax.store(stmt.tensor, place, value)]

    def _allocate(self, stmt: Allocate) -> list[str]:
        ends = [e for r in stmt.ranges for e in range_ends(r)]
        before, texts = self._operands(*ends)
        tensor = stmt.tensor
        base = self.names.of(tensor, tensor.name)
        starts, extents = texts[::2], texts[1::2]
        lines = [*before]
        mins = []
        for k, start in enumerate(starts):
            if start == "0":
                mins.append("")
                continue
            lines.append(f"{base}_m{k} = {start}")
            mins.append(f"{base}_m{k}")
        self.visible += [m for m in mins if m]
        self.syntax.storage[tensor] = tuple(mins)
        lines += self._extents(tensor, [f"max(0, {e})" if not e.isdigit() else e for e in extents])
        count = " * ".join(f"{base}_n{k}" for k in range(len(extents))) or "1"
        self.visible.append(base)
        lines.append(f"{base} = allocate({tensor.dtype!r}, {count})")
        if tensor in self.syntax.tracked:
            self.visible.append(f"{base}_w")
            lines.append(f"{base}_w = bytearray({count})")
        return [*lines, *self._padding(tensor, stmt.padding)]


def _at(depth: int, lines: list[str]) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def tracked_tensors(f: Function) -> frozenset[Tensor]:
    """The tensors of which an element could be read before it is written: what is allocated or put out, and read."""
    read = {t for stmt in statements(f.body) for t in tensors_read(*operands(stmt))}
    made = {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)}
    return frozenset(read & (made | set(f.outputs)))
