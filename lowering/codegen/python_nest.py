"""Nests as Python source: a function over flat memory views, and outlined functions for deeply nested blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import Operand
from intset.expr.node import Expr
from lowering.codegen.emitter import Emission, EmissionRules, Emitter, Identifiers, as_stored, indented
from lowering.codegen.python_operands import PythonSyntax, UnknownSyntax, stored_text, wrapped
from lowering.nest.driver import Descent, SynthesisRule
from lowering.nest.ir import Allocate, Assert, Assume, Evaluate, For, Function, If, Let, Padding, Seq, Store
from lowering.nest.text import text
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import operands, range_ends, statements, tensors_read

MAX_BLOCKS: Final = 11  # nested blocks of one function; Python allows 20
_RESERVED: Final = (
    *"False None True and as assert async await break class continue def del elif else except finally for from".split(),
    *"global if import in is lambda nonlocal not or pass raise return try while with yield match case type".split(),
    *"min max abs int float range round shapes storage values kernel outside failed refuted undef evaluate".split(),
    *"opaque allocate unread filled permit keep known decided both either negated popcount states".split(),
    *"ceildiv truncdiv truncmod divide fmod float_floordiv float_floormod float_min float_max".split(),
    *"truncated whole reinterpret shl shr".split(),
    *(f"{name}_{dtype}" for name in ("round", "to") for dtype in (*dtypes.NARROW, "float32", "float64")),
    *(
        f"{name}_{dtype}"
        for name in ("float_floordiv", "float_floormod")
        for dtype in ("float16", "bfloat16", "float32")
    ),
)


class Blocks(Descent):
    """The number of blocks around a statement."""

    __slots__ = ("count",)

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def inside(self, loop: For) -> Blocks:
        return Blocks(self.count + 1)

    def then(self, branch: If) -> Blocks:
        return Blocks(self.count + 1)

    def otherwise(self, branch: If) -> Blocks:
        return Blocks(self.count + 1)


class PythonNest(Emitter[Blocks]):
    """The source of a function `kernel(shapes, storage, values, states)`.

    `shapes` and `storage` hold the extents and a flat view of each parameter, `values` the sizes and scalars in the
    order of the head. `states` holds, for each output that is read, a byte for each element: 0 before it is written, 2
    for an `undef()`, else 1. In a nest with `undef()`, values computed from one are `Unknown`.

    Attributes
    ----------
    constants: objects that the source refers to by name.
    is_unknown: whether values may be `Unknown`.
    """

    syntax: PythonSyntax

    def __init__(self, f: Function, checked: bool) -> None:
        self.f = f
        self.checked = checked
        self.names = Identifiers(_RESERVED)
        self.constants: dict[str, Any] = {}
        self.is_unknown = checked and any(has_undef(*operands(stmt)) for stmt in statements(f.body))
        self.syntax = (UnknownSyntax if self.is_unknown else PythonSyntax)(self.names, checked, self.constant)
        self.syntax.tracked = tracked_tensors(f) if checked else frozenset()
        self._functions: list[str] = []
        self._visible: list[str] = []  # the names that an outlined function takes

    @property
    def rules(self) -> EmissionRules[Blocks]:
        return {
            Seq: self.sequence,
            For: self._outlining(self.loop),
            If: self._outlining(self.branch),
            Store: self.store,
            Allocate: self.allocate,
            Let: self.let,
            Assert: self.check,
            Assume: self.assume,
            Evaluate: self.call,
        }

    def source(self) -> str:
        """The text of the module."""
        arguments = [str(self.syntax.leaf(v)) for v in (*self.f.sizes, *self.f.scalars)]
        self._visible = [*arguments, "shapes"]
        lines = [f"{', '.join(arguments)}, = values"] if arguments else []
        for tensor in self.f.params:
            lines += self._parameter(tensor)
        lines += self.emitted(self.f.body, Blocks())
        return "\n".join(["def kernel(shapes, storage, values, states):", *indented(lines), *self._functions]) + "\n"

    def constant(self, thing: Any) -> str:
        """The name of an object in the source."""
        name = self.names.of(("constant", thing), "c_" + str(getattr(thing, "name", "x")))
        self.constants[name] = thing
        return name

    # -- storage ------------------------------------------------------------------------------------------------

    def _assigned(self, name: str, value: str) -> str:
        """The line that defines a name for the rest of its block."""
        self._visible.append(name)
        return f"{name} = {value}"

    def _parameter(self, tensor: Tensor) -> list[str]:
        base, key = self.syntax.base(tensor), self.constant(tensor)
        lines = [self._assigned(base, f"storage[{key}]")]
        if tensor in self.syntax.tracked:
            lines.append(self._assigned(f"{base}_w", f"states[{key}]"))
        lines += self._extents(tensor, [f"shapes[{key}][{k}]" for k in range(tensor.ndim)])
        return [*lines, *self._padding(tensor, self.f.padding.get(tensor))]

    def _padding(self, tensor: Tensor, padding: Padding | None) -> list[str]:
        """A function of indices that tells whether an element is untouchable."""
        if padding is None or not self.checked:
            return []
        name = self.syntax.padding[tensor] = f"{self.syntax.base(tensor)}_p"
        indices = ", ".join(str(self.syntax.leaf(v)) for v in padding.indices)
        before, (cond,) = self.operands(Blocks(), padding.cond)
        self._visible.append(name)
        return [f"def {name}({indices}):", *indented([*before, f"return {self.syntax.decided(cond)}"])]

    def _extents(self, tensor: Tensor, extents: list[str]) -> list[str]:
        """The lines that define extents `_n` and strides `_s`, the last dimension first."""
        base = self.syntax.base(tensor)
        lines = []
        for k in reversed(range(len(extents))):
            lines.append(self._assigned(f"{base}_n{k}", extents[k]))
            if k < len(extents) - 1:
                inner = f" * {base}_s{k + 1}" if k < len(extents) - 2 else ""
                lines.append(self._assigned(f"{base}_s{k}", f"{base}_n{k + 1}{inner}"))
        return lines

    def allocate(self, stmt: Allocate, blocks: Blocks) -> list[str]:
        tensor, base = stmt.tensor, self.syntax.base(stmt.tensor)
        lines, texts = self.operands(blocks, *(e for r in stmt.ranges for e in range_ends(r)))
        mins = [f"{base}_m{k}" if start != "0" else "" for k, start in enumerate(texts[::2])]
        lines += [self._assigned(name, start) for name, start in zip(mins, texts[::2], strict=True) if name]
        self.syntax.storage[tensor] = tuple(mins)
        lines += self._extents(tensor, [f"max(0, {e})" if not e.isdigit() else e for e in texts[1::2]])
        count = " * ".join(f"{base}_n{k}" for k in range(len(mins))) or "1"
        lines.append(self._assigned(base, f"allocate({tensor.dtype!r}, {count})"))
        if tensor in self.syntax.tracked:
            lines.append(self._assigned(f"{base}_w", f"bytearray({count})"))
        return [*lines, *self._padding(tensor, stmt.padding)]

    # -- blocks -------------------------------------------------------------------------------------------------

    def sequence(self, stmt: Seq, blocks: Blocks) -> Emission[Blocks]:
        visible = len(self._visible)
        lines: list[str] = []
        for inner in stmt.stmts:
            lines += yield inner, blocks
        del self._visible[visible:]
        return lines or ["pass"]

    def _outlining(self, rule: Callable[[Any, Blocks], Emission[Blocks]]) -> SynthesisRule[Blocks, list[str]]:
        """Wrap a rule so that statements at the nesting limit are outlined."""

        def apply(stmt: For | If, blocks: Blocks) -> Emission[Blocks]:
            emission = rule(stmt, blocks)
            if not blocks.count or blocks.count % MAX_BLOCKS:
                return (yield from emission)
            name = self.names.fresh("block")
            arguments = ", ".join(dict.fromkeys(self._visible))
            body = yield from emission
            self._functions += [f"def {name}({arguments}):", *indented(body)]
            return [f"{name}({arguments})"]

        return apply

    def loop(self, loop: For, blocks: Blocks) -> Emission[Blocks]:
        low, extent = range_ends(loop.range)
        lines, (start, count, *initial) = self.operands(blocks, low, extent, *(c.first for c in loop.carried))
        name = str(self.syntax.leaf(loop.var))
        carried = [str(self.syntax.leaf(c.var)) for c in loop.carried]
        visible = len(self._visible)
        self._visible += [name, *carried]
        body = yield loop.body, blocks.inside(loop)
        del self._visible[visible:]
        if carried:
            lines += [f"{var} = {value}" for var, value in zip(carried, initial, strict=True)]
            before, following = self.operands(blocks, *(c.following for c in loop.carried))
            body = [*body, *before, f"{', '.join(carried)}, = {', '.join(following)},"]
        head = f"range({count})" if start == "0" else f"range({start}, {start} + {count})"
        return [*lines, f"for {name} in {head}:", *indented(body)]

    # -- simple statements --------------------------------------------------------------------------------------

    def let(self, stmt: Let, blocks: Blocks) -> list[str]:
        before, (value,) = self.operands(blocks, stmt.value)
        self.syntax.spans.name(stmt.var, stmt.value)
        return [*before, self._assigned(str(self.syntax.leaf(stmt.var)), value)]

    def check(self, stmt: Assert, blocks: Blocks) -> list[str]:
        return self._unless(stmt.cond, f"failed({stmt.message!r})", blocks)

    def assume(self, stmt: Assume, blocks: Blocks) -> list[str]:
        if has_undef(stmt.cond):  # it permits reads and states nothing about values
            return self._permission(stmt, blocks)
        return self._unless(stmt.cond, f"refuted({text(stmt.cond)!r})", blocks)

    def _unless(self, cond: Operand, otherwise: str, blocks: Blocks) -> list[str]:
        before, (holds,) = self.operands(blocks, cond)
        return [*before, f"if not {self.syntax.decided(holds)}: {otherwise}"]

    def _permission(self, stmt: Assume, blocks: Blocks) -> list[str]:
        """Lines for `c or T[i] == undef()`: mark the element readable unless c is true."""
        permitted = permission(stmt.cond)
        if permitted is None or permitted[1] not in self.syntax.tracked:
            return ["pass"]
        guards, tensor, indices = permitted
        before, texts = self.operands(blocks, *guards, *indices)
        index, check, message = self.syntax.access(tensor, texts[len(guards) :])
        lines = [f"if not ({check}): outside({tensor.name!r}, 'read', {message})"] if check else []
        lines.append(f"permit({self.syntax.base(tensor)}_w, {index})")
        reached = " or ".join(texts[: len(guards)])
        return [*before, *([f"if not ({reached}):", *indented(lines)] if guards else lines)]

    def call(self, stmt: Evaluate, blocks: Blocks) -> list[str]:
        before, args = self.operands(blocks, *operands(stmt))
        values = "".join(f"{arg}, " for arg in args)
        arrays = []
        for tensor in dict.fromkeys((*stmt.reads, *stmt.writes)):
            base = self.syntax.base(tensor)
            shape = "".join(f"{base}_n{k}, " for k in range(tensor.ndim))
            arrays.append(f"{self.constant(tensor)}: ({base}, ({shape}))")
        written = [self.syntax.base(t) for t in dict.fromkeys(stmt.writes) if t in self.syntax.tracked]
        call = f"evaluate({self.constant(stmt)}, ({values}), {{{', '.join(arrays)}}})"
        return [*before, call, *(f"filled({base}_w)" for base in written)]

    def store(self, stmt: Store, blocks: Blocks) -> list[str]:
        tensor, dtype = stmt.tensor, stmt.tensor.dtype
        lines, (value, *indices) = self.operands(blocks, as_stored(stmt.value, dtype), *stmt.indices)
        index, check, message = self.syntax.access(tensor, indices)
        if dtypes.is_int(dtype) and not (isinstance(stmt.value, Expr) and stmt.value.is_const):
            value = wrapped(value, dtypes.bits(dtype), dtypes.signed(dtype))
        if check:
            lines.append(f"if not ({check}): outside({tensor.name!r}, 'written', {message})")
        return [*lines, *self.syntax.store(tensor, index, stored_text(stmt.value, value, dtype))]


def tracked_tensors(f: Function) -> frozenset[Tensor]:
    """Tensors with possibly uninitialised reads: allocations and outputs that the nest reads."""
    read = {t for stmt in statements(f.body) for t in tensors_read(*operands(stmt))}
    allocated = {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)}
    return frozenset(read & (allocated | set(f.outputs)))
