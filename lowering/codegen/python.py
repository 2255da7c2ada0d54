"""Nests as Python source, with the arithmetic of their machine types.

A nest becomes a function over flat memory views, with functions of their own for deeply nested blocks.

Guarantee: results equal those of emitted C code. A float is a Python float of its type's values: each
result is rounded at once, which gives the type's own result, since a double has more than twice the bits of a narrower
float. Integers are Python's; a result that depends on data and may leave 64 bits wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import FLOAT_FUNCTIONS, FLOAT_PAIRS, PREDICATES, ROUNDINGS, dtype_of
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, READ, IntFunction, Operand, Value
from bound.tir.walk import loaded_tensor
from intset.expr import Expr, Node, ops, printer
from lowering.codegen import emitter
from lowering.codegen.python_runtime import reserved_names
from lowering.nest import driver, ir
from lowering.nest.printer import text
from lowering.nest.walk import operands, range_ends, statements, tensors_read

_INFIX: Final[dict[ops.Op, str]] = {
    **{op: symbol for op, (symbol, _) in printer.INFIX.items()}, ops.AND: "and", ops.OR: "or",
}  # fmt: skip
_PREFIX: Final = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "not "}
_CALLS: Final[dict[ops.Op, str]] = {
    ops.CEILDIV: "ceildiv", ops.TRUNCDIV: "truncdiv", ops.TRUNCMOD: "truncmod", ops.MIN: "min", ops.MAX: "max",
    ops.ABS: "abs",
}  # fmt: skip
_FLOAT_CALLS: Final = {
    DIV: "divide", ops.TRUNCMOD: "fmod", ops.MIN: "float_min", ops.MAX: "float_max", ops.ABS: "abs"
}  # fmt: skip
_FAR_SHIFTS: Final = {ops.SHL: "shl", ops.SHR: "shr"}
_FLOORS: Final = {ops.FLOORDIV: "float_floordiv", ops.FLOORMOD: "float_floormod"}
_OWN_CALLS: Final = frozenset((*FLOAT_FUNCTIONS, *FLOAT_PAIRS, *ROUNDINGS, *PREDICATES, "pow"))  # others: the host
_INEXACT: Final = (ops.ADD, ops.SUB, ops.MUL, DIV)  # may leave the type of the operands
_INDEX_BITS: Final = 48  # of integer variables: no loop that is run goes further, so sums with data do not wrap


class PythonSyntax:
    """Python texts of operands.

    Parameters
    ----------
    names: identifiers of variables, parameters and tensors.
    checked: whether every access is checked.
    constant: registers a Python object and returns its identifier.

    Attributes
    ----------
    storage: for each tensor and dimension, the name of its first index; empty for 0.
    padding: the function that tells whether an element of a tensor is untouchable.
    tracked: tensors with a byte of state for each element.
    """

    def __init__(self, names: emitter.Identifiers, checked: bool, constant: Callable[[Any], str]) -> None:
        self.names, self.checked, self.constant = names, checked, constant
        self.spans = emitter.WordSpans(_INDEX_BITS)
        self.storage: dict[Tensor, tuple[str, ...]] = {}
        self.padding: dict[Tensor, str] = {}
        self.tracked: frozenset[Tensor] = frozenset()

    # -- the methods of `Syntax` --------------------------------------------------------------------------------

    def leaf(self, node: Any) -> str | None:
        if node.op is ops.CONST or node.op is ops.BOOL:
            return str(node.data) if node.op is ops.BOOL or node.data >= 0 else f"({node.data})"
        if node.op is NUMBER:
            return _constant(node)
        if node.op is ops.VAR:
            return self.names.of(node, node.name)
        if node.op is PARAM:
            return self.names.of(node, node.data[0])
        return None

    def operation(self, node: Any, args: list[str]) -> str:
        if ir.is_undef(node):
            return f"undef({(node.data.dtype if node.op is ops.LOAD else node.dtype)!r})"
        if isinstance(node, Value):
            return self._value(node, args)
        overflows = isinstance(node, Expr) and self.spans.enter(node)
        text = self._integer(node, args)
        return wrapped(text, 64, True) if overflows else text

    def bind(self, node: Any, text: str) -> tuple[str, list[str]]:
        name = self.names.fresh("t")
        return name, [f"{name} = {emitter.opened(text)}"]

    def declare(self, node: Any) -> tuple[str, list[str]]:
        if isinstance(node, Expr):
            self.spans.enter(node)
        return self.names.fresh("t"), []

    def assign(self, name: str, text: str) -> str:
        return f"{name} = {emitter.opened(text)}"

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        lines = [f"if {emitter.opened(cond)}:", *emitter.indented(then)]
        return [*lines, "else:", *emitter.indented(orelse)] if orelse else lines

    def negated(self, text: str) -> str:
        return f"not {text}"

    def decided(self, cond: str) -> str:
        """The text of a truth value that controls execution."""
        return cond

    # -- operations ---------------------------------------------------------------------------------------------

    def _common(self, node: Any, args: list[str]) -> str:
        """Operations that integers and values share."""
        op = node.op
        calls = _FLOAT_CALLS if isinstance(node, Value) else _CALLS
        if op in calls:
            return f"{calls[op]}({', '.join(map(emitter.opened, args))})"
        if op in _PREFIX:
            return f"({_PREFIX[op]}{args[0]})"
        if op is ops.SELECT:
            return f"({args[1]} if {args[0]} else {args[2]})"
        return f"({args[0]} {_INFIX[op]} {args[1]})"

    def _integer(self, node: Node, args: list[str]) -> str:
        op = node.op
        tensor = loaded_tensor(node)
        if tensor is not None:
            return self.load(tensor, args)
        if op in _FAR_SHIFTS and not emitter.is_plain_shift(node, 32):
            return f"{_FAR_SHIFTS[op]}({', '.join(map(emitter.opened, args))})"
        if op is ops.CAST:
            return wrapped(args[0], *node.data)
        if op is ops.LOAD and isinstance(node.data, ir.ShapeOf):
            return f"shapes[{self.constant(node.data.tensor)}][{args[0]}]"
        if op is ops.ASSERTING or (op is ops.LOAD and isinstance(node.data, IntFunction)):
            return args[0]
        return f"opaque({node.data.name!r})" if op is ops.LOAD else self._common(node, args)

    def _value(self, node: Value, args: list[str]) -> str:
        op = node.op
        if op is READ:
            return self.load(node.data, args)
        if op in _FLOORS:
            return f"{_FLOORS[op]}{_suffix(node.dtype)}({', '.join(map(emitter.opened, args))})"
        if op is ops.TRUNCDIV:
            return f"truncated({_rounded(f'divide({emitter.opened(args[0])}, {emitter.opened(args[1])})', node.dtype)})"
        if op is CALL:
            return self._call(node, args)
        if op is CONVERT:
            return self._cast(node, args[0])
        text = self._common(node, args)
        return _rounded(text, node.dtype) if op in _INEXACT else text

    def _call(self, node: Value, args: list[str]) -> str:
        name, dtype = node.data, node.dtype
        if name == "popcount":
            return f"({args[0]} & {(1 << dtypes.bits(dtype)) - 1}).bit_count()"
        if name == "reinterpret":
            source = dtype_of(node.args[0])
            bits, signed = dtypes.bits(source), dtypes.signed(source)
            number = wrapped(args[0], bits, signed) if dtypes.is_int(source) else args[0]
            return f"reinterpret({emitter.opened(number)}, {source!r}, {dtype!r})"
        inner = ", ".join(map(emitter.opened, args))
        if name in TRAPPING:
            limit = dtypes.bits(dtype) if Trapping(name).op in _FAR_SHIFTS else dtypes.int_range(dtype)[0]
            return wrapped(f"checked_{name}({inner}, {limit})", dtypes.bits(dtype), dtypes.signed(dtype))
        if name in _OWN_CALLS and (dtypes.is_float(dtype) or name in PREDICATES):
            return f"call_{name}{'' if name in PREDICATES else _suffix(dtype)}({inner})"
        result = f"call_{name}({inner})"  # of the host: any number
        if dtypes.is_int(dtype):
            return wrapped(f"int({result})", dtypes.bits(dtype), dtypes.signed(dtype))
        return f"bool({result})" if dtype == "bool" else _rounded(f"float({result})", dtype)

    def _cast(self, node: Value, arg: str) -> str:
        source: Any = node.args[0]
        if dtypes.is_int(node.dtype):
            low, high = dtypes.int_range(node.dtype)
            return f"whole({emitter.opened(arg)}, {low}, {high})"
        if isinstance(source, Value) and dtypes.is_float(source.dtype):
            is_exact = node.dtype == "float64" or (node.dtype == "float32" and source.dtype in dtypes.NARROW)
            return arg if is_exact else _rounded(arg, node.dtype)
        return f"to_{node.dtype}({emitter.opened(arg)})"

    # -- storage ------------------------------------------------------------------------------------------------

    def base(self, tensor: Tensor) -> str:
        """The identifier of a tensor, with which the names of its extents, strides and states begin."""
        return self.names.of(tensor, tensor.name)

    def load(self, tensor: Tensor, indices: list[str]) -> str:
        """The element at the indices."""
        index, check, message = self.access(tensor, indices)
        if tensor not in self.tracked:
            element = self.element(tensor, index)
            return f"({element} if {check} else outside({tensor.name!r}, 'read', {message}))" if check else element
        at = self.names.fresh("p")
        is_written = f"{self.base(tensor)}_w[({at} := {index})]"
        element = self.element(tensor, at)
        if check and tensor in self.padding:
            element = f"({element} if {is_written} else unread({tensor.name!r}, {message}))"
            return f"({element} if {check} else outside({tensor.name!r}, 'read', {message}))"
        cond = f"{check} and {is_written}" if check else is_written
        return f"({element} if {cond} else unread({tensor.name!r}, {message}))"

    def store(self, tensor: Tensor, index: str, value: str) -> list[str]:
        """The lines that store a value; the value is computed first, since it may read what the store changes."""
        base = self.base(tensor)
        if tensor not in self.tracked:
            return [f"{base}[{index}] = {value}"]
        at = self.names.fresh("p")
        return [f"{at} = {index}", f"{base}[{at}] = {value}", f"{base}_w[{at}] = 1"]

    def element(self, tensor: Tensor, index: str) -> str:
        """The text of an element, by its flat index."""
        text = f"{self.base(tensor)}[{index}]"
        return f"float({text})" if tensor.dtype in dtypes.NARROW else text  # a numpy array, not a memory view

    def access(self, tensor: Tensor, indices: list[str]) -> tuple[str, str, str]:
        """The number of an element in its storage, the check of its indices, and the arguments of an error message."""
        base = self.base(tensor)
        starts = self.storage.get(tensor, ("",) * len(indices))
        checks: list[str] = []
        relative: list[str] = []
        for k, (absolute, start) in enumerate(zip(indices, starts, strict=True)):
            index = tested = f"({absolute} - {start})" if start else absolute
            if self.checked and not index.isidentifier() and not index.isdigit():
                name = self.names.fresh("x")
                index, tested = name, f"({name} := {emitter.opened(index)})"
            if self.checked:
                checks.append(f"0 <= {tested} < {base}_n{k}")
            relative.append(index)
        terms = [f"{index} * {base}_s{k}" for k, index in enumerate(relative[:-1])] + relative[-1:]
        numbers = "".join(f"{index}, " for index in relative)
        extents = "".join(f"{base}_n{k}, " for k in range(len(relative)))
        origin = "".join(f"{start or 0}, " for start in starts)
        # `&` evaluates every check, so the error message finds all indices assigned
        names_late = any(":=" in check for check in checks[1:])
        check = " & ".join(f"({check})" for check in checks) if names_late else " and ".join(checks)
        if self.checked and tensor in self.padding:
            point = (f"{i} + {s}" if s else i for i, s in zip(relative, starts, strict=True))
            check = f"{check} and not {self.padding[tensor]}({', '.join(point)})"
        return " + ".join(terms) or "0", check, f"({numbers}), ({extents}), ({origin})"


class UnknownSyntax(PythonSyntax):
    """`PythonSyntax` for nests with `undef()`: a value computed from one is an `Unknown`, which must not control
    execution."""

    def operation(self, node: Operand, args: list[str]) -> str:
        if node.op is ops.AND:
            return f"both({emitter.opened(args[0])}, lambda: {args[1]})"
        if node.op is ops.OR:
            return f"either({emitter.opened(args[0])}, lambda: {args[1]})"
        if node.op is ops.NOT:
            return f"negated({emitter.opened(args[0])})"
        if node.op is ops.SELECT:
            return f"({args[1]} if {self.decided(args[0])} else {args[2]})"
        if node.op is CALL and node.data == "popcount":
            return f"popcount({super().operation(node, args).removesuffix('.bit_count()')})"
        return super().operation(node, args)

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        return super().branch(self.decided(cond), then, orelse)

    def negated(self, text: str) -> str:
        return f"negated({text})"

    def decided(self, cond: str) -> str:
        return f"decided({emitter.opened(cond)})"

    def access(self, tensor: Tensor, indices: list[str]) -> tuple[str, str, str]:
        return super().access(tensor, [i if i.isdigit() else f"known({emitter.opened(i)})" for i in indices])

    def element(self, tensor: Tensor, index: str) -> str:
        text = super().element(tensor, index)
        return f"keep({text}, {self.base(tensor)}_w[{index}])" if tensor in self.tracked else text

    def store(self, tensor: Tensor, index: str, value: str) -> list[str]:
        base = self.base(tensor)
        states = f"{base}_w" if tensor in self.tracked else "None"
        return [f"store({base}, {states}, {index}, {value})"]


def wrapped(text: str, bits: int, signed: bool) -> str:
    """An integer modulo `2**bits`, as a machine of that width represents it."""
    mask = (1 << bits) - 1
    if not signed:
        return f"({text} & {mask})"
    half = 1 << (bits - 1)
    return f"((({text} + {half}) & {mask}) - {half})"


def _suffix(dtype: str) -> str:
    """The suffix of a function's name for narrow floats."""
    return "" if dtype == "float64" else f"_{dtype}"


def _rounded(text: str, dtype: str) -> str:
    """A Python float rounded to a float type."""
    return text if dtype == "float64" else f"round_{dtype}({emitter.opened(text)})"


def stored_text(value: Any, text: str, dtype: str) -> str:
    """The text of a value for a store to an element, which rounds floats itself."""
    prefix = f"round_{dtype}("
    is_twice = isinstance(value, Value) and value.op in _INEXACT and text.startswith(prefix) and dtype == "float32"
    return text.removeprefix(prefix).removesuffix(")") if is_twice else text


def _constant(node: Value) -> str:
    value = node.data
    if isinstance(value, bool):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    return repr(value) if not str(value).startswith("-") else f"({value!r})"


MAX_BLOCKS: Final = 11  # nested blocks of one function; Python allows 20


class Blocks(driver.Descent):
    """The number of blocks around a statement."""

    __slots__ = ("count",)

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def inside(self, loop: ir.For) -> Blocks:
        return Blocks(self.count + 1)

    def then(self, branch: ir.If) -> Blocks:
        return Blocks(self.count + 1)

    def otherwise(self, branch: ir.If) -> Blocks:
        return Blocks(self.count + 1)


class PythonNest(emitter.Emitter[Blocks]):
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

    def __init__(self, f: ir.Function, checked: bool) -> None:
        self.f = f
        self.checked = checked
        self.names = emitter.Identifiers(reserved_names())
        self.constants: dict[str, Any] = {}
        self.is_unknown = checked and any(ir.has_undef(*operands(stmt)) for stmt in statements(f.body))
        self.syntax = (UnknownSyntax if self.is_unknown else PythonSyntax)(self.names, checked, self.constant)
        self.syntax.tracked = tracked_tensors(f) if checked else frozenset()
        self._functions: list[str] = []
        self._visible: list[str] = []  # the names that an outlined function takes

    @property
    def rules(self) -> emitter.EmissionRules[Blocks]:
        return {
            ir.Seq: self.sequence,
            ir.For: self._outlining(self.loop),
            ir.If: self._outlining(self.branch),
            ir.Store: self.store,
            ir.Allocate: self.allocate,
            ir.Let: self.let,
            ir.Assert: self.check,
            ir.Assume: self.assume,
            ir.Evaluate: self.call,
        }

    def source(self) -> str:
        """The text of the module."""
        arguments = [str(self.syntax.leaf(v)) for v in (*self.f.sizes, *self.f.scalars)]
        self._visible = [*arguments, "shapes"]
        lines = [f"{', '.join(arguments)}, = values"] if arguments else []
        for tensor in self.f.params:
            lines += self._parameter(tensor)
        lines += self.emitted(self.f.body, Blocks())
        head = "def kernel(shapes, storage, values, states):"
        return "".join(f"{line}\n" for line in (head, *emitter.indented(lines), *self._functions))

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

    def _padding(self, tensor: Tensor, padding: ir.Padding | None) -> list[str]:
        """A function of indices that tells whether an element is untouchable."""
        if padding is None or not self.checked:
            return []
        name = self.syntax.padding[tensor] = f"{self.syntax.base(tensor)}_p"
        indices = ", ".join(str(self.syntax.leaf(v)) for v in padding.indices)
        before, (cond,) = self.operands(Blocks(), padding.cond)
        self._visible.append(name)
        return [f"def {name}({indices}):", *emitter.indented([*before, f"return {self.syntax.decided(cond)}"])]

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

    def allocate(self, stmt: ir.Allocate, blocks: Blocks) -> list[str]:
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

    def sequence(self, stmt: ir.Seq, blocks: Blocks) -> emitter.Emission[Blocks]:
        visible = len(self._visible)
        lines: list[str] = []
        for inner in stmt.stmts:
            lines += yield inner, blocks
        del self._visible[visible:]
        return lines or ["pass"]

    def _outlining(
        self, rule: Callable[[Any, Blocks], emitter.Emission[Blocks]]
    ) -> driver.SynthesisRule[Blocks, list[str]]:
        """Wrap a rule so that statements at the nesting limit are outlined."""

        def apply(stmt: ir.For | ir.If, blocks: Blocks) -> emitter.Emission[Blocks]:
            emission = rule(stmt, blocks)
            if not blocks.count or blocks.count % MAX_BLOCKS:
                return (yield from emission)
            name = self.names.fresh("block")
            arguments = ", ".join(dict.fromkeys(self._visible))
            body = yield from emission
            self._functions += [f"def {name}({arguments}):", *emitter.indented(body)]
            return [f"{name}({arguments})"]

        return apply

    def loop(self, loop: ir.For, blocks: Blocks) -> emitter.Emission[Blocks]:
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
        return [*lines, f"for {name} in {head}:", *emitter.indented(body)]

    # -- simple statements --------------------------------------------------------------------------------------

    def let(self, stmt: ir.Let, blocks: Blocks) -> list[str]:
        before, (value,) = self.operands(blocks, stmt.value)
        self.syntax.spans.name(stmt.var, stmt.value)
        return [*before, self._assigned(str(self.syntax.leaf(stmt.var)), value)]

    def check(self, stmt: ir.Assert, blocks: Blocks) -> list[str]:
        return self._unless(stmt.cond, f"failed({stmt.message!r})", blocks)

    def assume(self, stmt: ir.Assume, blocks: Blocks) -> list[str]:
        if ir.has_undef(stmt.cond):  # it permits reads and states nothing about values
            return self._permission(stmt, blocks)
        return self._unless(stmt.cond, f"refuted({text(stmt.cond)!r})", blocks)

    def _unless(self, cond: Operand, otherwise: str, blocks: Blocks) -> list[str]:
        before, (holds,) = self.operands(blocks, cond)
        return [*before, f"if not {self.syntax.decided(holds)}: {otherwise}"]

    def _permission(self, stmt: ir.Assume, blocks: Blocks) -> list[str]:
        """Lines for `c or T[i] == undef()`: mark the element readable unless c is true."""
        permitted = ir.permission(stmt.cond)
        if permitted is None or permitted[1] not in self.syntax.tracked:
            return ["pass"]
        guards, tensor, indices = permitted
        before, texts = self.operands(blocks, *guards, *indices)
        index, check, message = self.syntax.access(tensor, texts[len(guards) :])
        lines = [f"if not ({check}): outside({tensor.name!r}, 'read', {message})"] if check else []
        lines.append(f"permit({self.syntax.base(tensor)}_w, {index})")
        reached = " or ".join(texts[: len(guards)])
        return [*before, *([f"if not ({reached}):", *emitter.indented(lines)] if guards else lines)]

    def call(self, stmt: ir.Evaluate, blocks: Blocks) -> list[str]:
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

    def store(self, stmt: ir.Store, blocks: Blocks) -> list[str]:
        tensor, dtype = stmt.tensor, stmt.tensor.dtype
        lines, (value, *indices) = self.operands(blocks, emitter.as_stored(stmt.value, dtype), *stmt.indices)
        index, check, message = self.syntax.access(tensor, indices)
        if dtypes.is_int(dtype) and not (isinstance(stmt.value, Expr) and stmt.value.is_const):
            value = wrapped(value, dtypes.bits(dtype), dtypes.signed(dtype))
        if check:
            lines.append(f"if not ({check}): outside({tensor.name!r}, 'written', {message})")
        return [*lines, *self.syntax.store(tensor, index, stored_text(stmt.value, value, dtype))]


def tracked_tensors(f: ir.Function) -> frozenset[Tensor]:
    """Tensors with possibly uninitialised reads: allocations and outputs that the nest reads."""
    read = {t for stmt in statements(f.body) for t in tensors_read(*operands(stmt))}
    allocated = {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, ir.Allocate)}
    return frozenset(read & (allocated | set(f.outputs)))
