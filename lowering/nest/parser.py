"""`parse_nest`: a nest from its text, as `printer.py` writes it, with positions for error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from bound import dtypes
from bound.tensor import PlaceholderOp, Tensor
from bound.tir.build import ExternCall, is_truth
from bound.tir.value import Value, parameter
from bound.tir.walk import loaded_tensor
from intset.errors import InputError, ParseError
from intset.expr import Cond, Expr, Range, ShapeVar, Var, const, constant_value, dag, ops
from intset.expr.parser import tokens_of
from lowering.nest import ir
from lowering.nest.names import IDENTIFIER
from lowering.nest.operands import OperandReader, Untyped, typed
from lowering.nest.printer import range_between
from lowering.nest.scope import written_in

_WORD: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*|[0-9]\w*|\S")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class ParsedLine:
    """A line with something in it."""

    __slots__ = ("content", "indent", "number", "offset")

    def __init__(self, content: str, number: int, offset: int) -> None:
        self.content, self.number, self.offset = content, number, offset
        self.indent = len(content) - len(content.lstrip(" "))

    def all(self) -> Part:
        return Part(self, self.indent, len(self.content))

    def error(self, message: str, at: int) -> ParseError:
        """An error at this column, counted from 0."""
        where = f"line {self.number}, column {at + 1}"
        return ParseError(f"{message} ({where})", self.offset + at, self.number, at + 1)


def lines_of(text: str) -> list[ParsedLine]:
    """The lines that say something, without comments."""
    found: list[ParsedLine] = []
    offset = 0
    for number, whole in enumerate(text.split("\n"), 1):
        content = _without_comment(whole).rstrip()
        if content:
            line = ParsedLine(content, number, offset)
            if "\t" in content[: len(content) - len(content.lstrip())]:
                raise line.error("lines are indented by spaces, not by tabs", content.index("\t"))
            found.append(line)
        offset += len(whole) + 1
    return found


def _without_comment(line: str) -> str:
    if "#" not in line:
        return line
    strings = [match.span() for match in _STRING.finditer(line)]
    for match in re.finditer("#", line):
        if not any(start < match.start() < end for start, end in strings):
            return line[: match.start()]
    return line


class Part:
    """A section of a line, read from left to right.

    Attributes
    ----------
    start, stop: where it begins and ends in the line.
    at: where reading goes on.
    """

    __slots__ = ("at", "line", "start", "stop")

    def __init__(self, line: ParsedLine, start: int, stop: int) -> None:
        self.line, self.start, self.stop, self.at = line, start, stop, start

    @property
    def text(self) -> str:
        return self.line.content[self.start : self.stop]

    def error(self, message: str, at: int | None = None) -> ParseError:
        return self.line.error(message, self.at if at is None else at)

    def taken(self, name: str, at: int) -> ParseError:
        return self.error(f"the name {name} is taken", at)

    def unknown(self, name: str, known: Iterable[str], at: int) -> ParseError:
        names = list(known)
        close = get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return self.error(f"unknown name {name!r} (known: {', '.join(names[:30]) or 'none'}){hint}", at)

    def at_word(self) -> int:
        """Where the next word begins."""
        text = self.line.content
        k = self.at
        while k < self.stop and text[k] == " ":
            k += 1
        return k

    def peek(self) -> str:
        """The next word, or nothing."""
        found = _WORD.match(self.line.content, self.at_word(), self.stop)
        return found[0] if found else ""

    def is_pair(self) -> bool:
        """Whether the next two words are names."""
        found = _WORD.match(self.line.content, self.at_word(), self.stop)
        rest = self.line.content[found.end() : self.stop].lstrip() if found else ""
        return IDENTIFIER.match(rest) is not None

    def skip(self, word: str) -> bool:
        """Read this word, if it is next."""
        if self.peek() != word:
            return False
        self.at = self.at_word() + len(word)
        return True

    def expect(self, word: str, message: str | None = None) -> None:
        if not self.skip(word):
            raise self.error(message or f"{word!r} is expected here", self.at_word())

    def name(self, what: str) -> str:
        at = self.at_word()
        found = IDENTIFIER.match(self.line.content, at, self.stop)
        if found is None:
            raise self.error(f"{what} is expected here", at)
        self.at = found.end()
        return found[0]

    def new_name(self, what: str, names: Container[str]) -> str:
        at = self.at_word()
        label = self.name(what)
        if label in names:
            raise self.taken(label, at)
        return label

    def end(self, word: str = "") -> None:
        """Expect the end of the part, or the given last word and then the end."""
        if word:
            self.expect(word)
        at = self.at_word()
        if at < self.stop:
            raise self.error(f"{self.line.content[at : at + 20]!r} is unexpected here", at)

    def string(self) -> str:
        """A text between quotes."""
        at = self.at_word()
        found = _STRING.match(self.line.content, at, self.stop)
        if found is None:
            raise self.error("a text between quotes is expected here", at)
        self.at = found.end()
        try:
            return str(json.loads(found[0]))
        except ValueError:
            raise self.error("this is no text between quotes", at) from None

    def until(self, stops: str) -> Part:
        """The part in front of the first of these characters outside brackets, or up to the end."""
        start = self.at
        k = self._find(stops)
        self.at = k
        return Part(self.line, start, k)

    def listed(self, close: str) -> list[Part]:
        """The parts between commas up to a closing bracket, which is read too."""
        found: list[Part] = []
        while True:
            part = self.until("," + close)
            if self.at >= self.stop:
                raise self.error(f"{close!r} is expected here", self.stop)
            is_last = self.line.content[self.at] == close
            if not (is_last and not found and not part.text.strip()):
                found.append(part)
            self.at += 1
            if is_last:
                return found

    def _find(self, stops: str) -> int:
        text = self.line.content
        depth = 0
        k = self.at
        while k < self.stop:
            c = text[k]
            if depth == 0 and c in stops and not (c in "=:" and _is_operator(text, k)):
                return k
            if c == '"':
                found = _STRING.match(text, k, self.stop)
                k = found.end() if found else k + 1
                continue
            depth += (c in "([") - (c in ")]")
            k += 1
        return self.stop


def _is_operator(text: str, k: int) -> bool:
    """Whether a `=` or `:` is part of an operator such as `==` or `:=`."""
    if text[k] == ":":
        return text[k + 1 : k + 2] == "="
    return text[k + 1 : k + 2] == "=" or text[k - 1] in "=<>!:"


def start_and_steps(coordinate: Expr, places: list[Var]) -> tuple[Expr, tuple[int, ...]] | None:
    """The start and the steps of a coordinate, one per position; `None` for any other form of sum."""
    steps = [0] * len(places)
    numbers = {place: k for k, place in enumerate(places)}

    def term(e: Expr) -> tuple[int, int] | None:
        if e.op is ops.MUL and e.args[0] in numbers and (factor := constant_value(e.args[1])) is not None:
            return numbers[e.args[0]], factor
        return (numbers[e], 1) if isinstance(e, Var) and e in numbers else None

    while True:
        if (whole := term(coordinate)) is not None:
            steps[whole[0]] += whole[1]
            coordinate = const(0)
            break
        if coordinate.op not in (ops.ADD, ops.SUB) or (last := term(coordinate.args[1])) is None:
            break
        steps[last[0]] += last[1] if coordinate.op is ops.ADD else -last[1]
        coordinate = coordinate.args[0]
    if any(node in numbers for node in dag.postorder((coordinate,))):
        return None
    return coordinate, tuple(steps)


_KINDS: Final = {str(kind): kind for kind in (ir.LoopKind.PARALLEL, ir.LoopKind.VECTORIZED, ir.LoopKind.UNROLLED)}
_PROVED: Final = "proved"
Around: TypeAlias = "Callable[[ir.Stmt], ir.Stmt]"


def parse_nest(text: str) -> ir.Function:
    """The function whose text this is: what `str` writes of a function, or the same written by hand.

    The docstring of `lowering.nest.printer` describes the language. A loop that is not serial ends in its kind: `for i
    in [0, 8) parallel:`, `vectorized`, `unrolled`, or `on threadIdx.x`.

    A bare name in the head is an integer, a size (at least 0) where a shape uses it; `alpha: float32` is a scalar. A
    parameter that is stored to, or that a host call names, is an output; parameters never overlap. A host call reads
    and writes what it names. Numbers with a fraction, and `undef()`, have the type of what they stand with, else
    float32 and int32. Empty lines, and lines that begin with `#`, say nothing. An assumption that the text marks
    "proved" is the user's word unless the dataflow proves it.

    Raises
    ------
    ParseError: the text is not that of a nest; `line` and `column`, from 1, tell where.
    InputError: there is no text.

    >>> print(parse_nest('''
    ... def f(A: int32[n], n):
    ...     for i in [0, n):
    ...         if i > 0 and A[i] > 3: # only then
    ...             A[i] = undef()
    ... '''))
    def f(A: int32[n], n):
        for i in [0, n):
            if (i > 0) & (A[i] > 3):
                A[i] = undef()
    """
    if not isinstance(text, str):
        raise InputError(f"parse_nest takes the text of a nest, not something of type {type(text).__name__}")
    lines = lines_of(text)
    if not lines:
        raise InputError("parse_nest takes the text of a nest, and this text is empty")
    return ir.ABOVE.with_checked_claims(_Parser(lines).function())


class _Block:
    """Lines of one indentation that are being read.

    Attributes
    ----------
    around: the statement around the block, from what is inside it.
    """

    __slots__ = ("around", "head", "indent", "names", "stmts")

    def __init__(self, head: ParsedLine, around: Around, names: dict[str, Any]) -> None:
        self.head, self.around, self.names = head, around, names
        self.indent: int | None = None
        self.stmts: list[ir.Stmt] = []

    @property
    def stmt(self) -> ir.Stmt:
        return self.around(ir.seq(*self.stmts))


class _Parser:
    def __init__(self, lines: list[ParsedLine]) -> None:
        self.lines = lines
        self.shapes: dict[Tensor, Any] = {}
        self.padding: dict[Tensor, ir.Padding] = {}  # of parameters

    # -- the function -------------------------------------------------------------------------------------------

    def function(self) -> ir.Function:
        whole = self.lines[0].all()
        whole.expect("def", "a nest begins with its head, as in def f(A: int32[4]):")
        name = whole.name("the name of the function")
        whole.expect("(")
        parts = whole.listed(")")
        whole.end(":")
        names: dict[str, Any] = {}
        arrays: list[tuple[str, Part]] = []
        for part in parts:
            label = part.new_name("the name of a parameter", names)
            names[label] = None
            if not part.skip(":"):
                part.end()
                continue
            dtype = self.dtype(part)
            if part.skip("["):
                names[label] = dtype
                arrays.append((label, part))
            elif dtypes.is_int(dtype):
                raise part.error(f"an integer is a bare name: write {label}", part.start)
            else:
                part.end()
                names[label] = parameter(label, dtype)
        shapes = {label: part.listed("]") for label, part in arrays}
        for _, part in arrays:
            part.end()
        sized = {word.text for extents in shapes.values() for e in extents for word in tokens_of(e.text)}
        for label, value in names.items():
            if value is None:
                names[label] = ShapeVar(label) if label in sized else Var(label)
        integers = {label: value for label, value in names.items() if isinstance(value, Var)}
        for label, extents in shapes.items():
            dims = tuple(self.extent(e, integers) for e in extents)
            names[label] = _tensor(label, dims, names[label])
        found = list(names.values())
        tensors = tuple(t for t in found if isinstance(t, Tensor))
        sizes = tuple(v for v in found if isinstance(v, Var))
        scalars = tuple(p for p in found if isinstance(p, Value))
        body = self.body(names)
        written = written_in(body)
        outputs = tuple(t for t in tensors if t in written)
        return ir.Function(name, tensors, outputs, sizes, scalars, body, padding=self.padding)

    def extent(self, text: Part, names: dict[str, Any]) -> Expr:
        """How many indices an axis has."""
        found = self.integer(text, names, "an extent")
        if found.is_const and found.data < 0:
            raise text.error(f"an extent must not be negative, as {found} is", text.at_word())
        return found

    def dtype(self, part: Part) -> str:
        at = part.at_word()
        word = part.name("a type such as int32")
        try:
            return dtypes.check(word)
        except InputError as error:
            raise part.error(str(error), at) from None

    # -- blocks -------------------------------------------------------------------------------------------------

    def body(self, names: dict[str, Any]) -> ir.Stmt:
        blocks = [_Block(self.lines[0], lambda inside: inside, names)]

        def close() -> None:
            inner = blocks.pop()
            blocks[-1].stmts.append(inner.stmt)

        for line in self.lines[1:]:
            block = blocks[-1]
            if block.indent is None:
                if line.indent <= block.head.indent:
                    raise line.error("an indented block is expected here", line.indent)
                block.indent = line.indent
            while block.indent is not None and line.indent < block.indent and len(blocks) > 1:
                close()
                block = blocks[-1]
            if line.indent != block.indent:
                what = "is not that of any block around it" if line.indent < (block.indent or 0) else "is unexpected"
                raise line.error(f"this indentation {what}", line.indent)
            opened = self.statement(line, block)
            if opened is not None:
                blocks.append(_Block(line, *opened))
        last = blocks[-1]
        if last.indent is None:
            raise last.head.error("an indented block is expected below this line", len(last.head.content))
        while len(blocks) > 1:
            close()
        return blocks[0].stmt

    def statement(self, line: ParsedLine, block: _Block) -> tuple[Around, dict[str, Any]] | None:
        """Read a line: append its statement, or return what is around a nested block and the names in the block."""
        part = line.all()
        word = part.peek()
        if word == "for":
            return self.loop(part, block.names)
        if word == "if":
            part.expect("if")
            cond = self.condition(part.until(":"), block.names, "a condition")
            part.end(":")
            return lambda inside: ir.If(cond, inside), dict(block.names)
        if word == "else":
            part.expect("else")
            part.end(":")
            before = block.stmts.pop() if block.stmts else None
            if not isinstance(before, ir.If) or before.orelse is not None:
                raise line.error("there is no if for this else", line.indent)
            cond, then = before.cond, before.then
            return lambda inside: ir.If(cond, then, inside), dict(block.names)
        if word == "pass":
            part.end("pass")
        elif word == "allocate":
            block.stmts.append(self.allocation(part, block.names))
        elif word in ("assert", "assume"):
            block.stmts.append(self.claim(part, block.names))
        elif word == "padding" and part.is_pair():
            self.untouched(part, block)
        elif word == "def":
            raise line.error("a second function: parse_nest reads one", line.indent)
        else:
            block.stmts.append(self.simple(part, block.names))
        return None

    def loop(self, part: Part, names: dict[str, Any]) -> tuple[Around, dict[str, Any]]:
        part.expect("for")
        var = self.fresh(part, names, "the name of a loop variable")
        part.expect("in")
        part.expect("[")
        low = self.integer(part.until(","), names, "the start of a range")
        part.expect(",")
        end = self.integer(part.until(")"), names, "the end of a range")
        part.expect(")")
        kind, thread = ir.LoopKind.SERIAL, ""
        if part.peek() in _KINDS:
            kind = _KINDS[part.name("a kind of loop")]
        elif part.skip("on"):
            thread = part.name("the tag of a thread axis")
            kind = ir.LoopKind.VTHREAD if thread.startswith("vthread") else ir.LoopKind.THREAD
        inner = {**names, var.name: var}
        carried: list[tuple[Var, Expr, Part]] = []
        if part.skip("with"):
            while True:
                label = self.fresh(part, inner, "the name of a carried variable")
                part.expect("=")
                first = self.integer(part.until(","), names, "the first value of a carried variable")
                part.expect(",")
                part.expect("then")
                carried.append((label, first, part.until(";:")))
                inner[label.name] = label
                if not part.skip(";"):
                    break
        part.end(":")
        carries = tuple(
            ir.Carry(label, first, self.integer(text, inner, "the next value of a carried variable"), after_last=False)
            for label, first, text in carried
        )
        within = range_between(low, end)
        return lambda inside: ir.For(var, within, inside, kind, thread, carries), inner

    def fresh(self, part: Part, names: dict[str, Any], what: str) -> Var:
        return Var(part.new_name(what, names))

    # -- statements of one line ---------------------------------------------------------------------------------

    def simple(self, part: Part, names: dict[str, Any]) -> ir.Stmt:
        at = part.at_word()
        label = part.name("a statement")
        if part.peek() == "(":
            return self.host_call(label, part, names, at)
        if part.skip("="):
            if label in names:
                raise part.taken(label, at)
            value = self.built(lambda: typed(self.operand(part.until(""), names)), part)
            let = ir.let(label, value)
            names[label] = let.var
            return let
        if part.peek() != "[":
            raise part.error("a statement is expected: a store, a name for a value, a host call, for, if ...", at)
        part.at = at
        target = part.until("=")
        if not isinstance(names.get(label), Tensor):
            if label not in names:
                raise part.unknown(label, names, at)
            raise part.error(f"{label} is no array and cannot be stored to", at)
        element = self.operand(target, names)
        if loaded_tensor(element) is not names[label]:
            raise part.error("only an element of an array is stored to", at)
        part.expect("=")
        value = self.stored(part.until(""), names, names[label])
        return ir.Store(names[label], tuple(element.args), value)

    def stored(self, text: Part, names: dict[str, Any], tensor: Tensor) -> Any:
        value = self.operand(text, names)
        dtype = tensor.dtype
        if isinstance(value, Untyped):
            is_known = dtypes.is_float(dtype) or not value.has_fraction
            if not is_known or (dtype == "bool" and value.make is not None):
                raise text.error(f"{tensor.name} holds {dtype}: convert the value, as in {dtype}(...)", text.at_word())
            return typed(value, dtype)
        if is_truth(value) is not (dtype == "bool") or (dtypes.is_int(dtype) and not isinstance(value, Expr)):
            raise text.error(f"{tensor.name} holds {dtype}: convert the value, as in {dtype}(...)", text.at_word())
        return value

    def host_call(self, label: str, part: Part, names: dict[str, Any], at: int) -> ir.Stmt:
        part.expect("(")
        args: list[Any] = []
        for text in part.listed(")"):
            word = text.text.strip()
            if word.startswith('"'):
                args.append(text.string())
            elif isinstance(names.get(word), Tensor):
                args.append(names[word])
            else:
                value = typed(self.operand(text, names))
                args.append(value)
        part.end()
        tensors = tuple(dict.fromkeys(a for a in args if isinstance(a, Tensor)))
        return ir.Evaluate(ExternCall("packed", label, tuple(args)), tensors, tensors)

    def claim(self, part: Part, names: dict[str, Any]) -> ir.Stmt:
        word = part.name("a statement")
        text = part.until(",")
        cond = self.condition(text, names, "a condition", has_undef=word == "assume")
        at = part.at
        message = part.string() if part.skip(",") else None
        part.end()
        if word == "assume":
            if message not in (None, _PROVED):
                raise part.error('an assumption is marked "proved", or not at all', at)
            return ir.Assume(cond, message == _PROVED)
        if not isinstance(cond, Cond):
            raise text.error("an assertion is a condition on integers", text.at_word())
        return ir.Assert(cond, text.text.strip() if message is None else message)

    def allocation(self, part: Part, names: dict[str, Any]) -> ir.Stmt:
        part.expect("allocate")
        at = part.at_word()
        label = part.new_name("the name of an array", names)
        part.expect(":")
        dtype = self.dtype(part)
        part.expect("[")
        ranges = [self.storage_range(text, names) for text in part.listed("]")]
        scope = ""
        if part.skip("in"):
            scope = part.name("the scope of an array")
        tensor = _tensor(label, tuple(r.extent for r in ranges), dtype)
        origin: tuple[Expr, ...] | None = tuple(const(0) for _ in ranges)
        steps: tuple[tuple[int, ...], ...] | None = None
        if part.skip("at"):
            part.expect("[")
            starts = part.listed("]")
            if len(starts) != len(ranges):
                raise part.error(f"{label} has {len(ranges)} dimensions, its origin has {len(starts)}", at)
            origin = tuple(self.integer(text, names, "an origin") for text in starts)
        elif part.skip("holding"):
            part.expect(label)
            part.expect("[")
            places = [Var(f"y{k}") for k in range(len(ranges))]
            inner = {**names, **{v.name: v for v in places}}
            coordinates = [(text, self.integer(text, inner, "a coordinate")) for text in part.listed("]")]
            held = [start_and_steps(e, places) for _, e in coordinates]
            for (text, _), found in zip(coordinates, held, strict=True):
                if found is None:
                    raise text.error("a coordinate is a start plus multiples of y0, y1, ...", text.at_word())
            origin = tuple(found[0] for found in held if found is not None)
            steps = tuple(found[1] for found in held if found is not None)
        part.end()
        names[label] = tensor
        return ir.Allocate(tensor, tuple(ranges), scope, origin, steps)

    def untouched(self, part: Part, block: _Block) -> None:
        """Read `padding A[i, j] where condition`, which follows the head or the `allocate` of the array."""
        part.expect("padding")
        at = part.at_word()
        label = part.name("the name of an array")
        tensor = block.names.get(label)
        if not isinstance(tensor, Tensor):
            raise part.unknown(label, block.names, at)
        part.expect("[")
        indices: list[Var] = []
        inner = dict(block.names)
        for index in part.listed("]"):
            indices.append(self.fresh(index, inner, "the name of an index"))
            index.end()
            inner[indices[-1].name] = indices[-1]
        if len(indices) != tensor.ndim:
            raise part.error(f"{label} has {tensor.ndim} dimensions, its padding has {len(indices)}", at)
        part.expect("where")
        text = part.until("")
        cond = self.condition(text, inner, "a condition")
        if not isinstance(cond, Cond) or dag.opaque_terms(cond):
            raise text.error("the condition of a padding is one on indices and sizes", text.at_word())
        last = block.stmts[-1] if block.stmts else None
        if isinstance(last, ir.Allocate) and last.tensor is tensor and last.padding is None:
            block.stmts[-1] = replace(last, padding=ir.Padding(tuple(indices), cond))
        elif last is None and block.head is self.lines[0] and tensor not in self.padding:
            self.padding[tensor] = ir.Padding(tuple(indices), cond)
        else:
            raise part.error("a padding is told once, under the head or under the allocate of its array", at)

    def storage_range(self, text: Part, names: dict[str, Any]) -> Range:
        first = text.until(":")
        if not text.skip(":"):
            return Range(const(0), self.extent(first, names))
        text.expect("+")
        low = self.integer(first, names, "the start of a range")
        return Range(low, self.extent(text.until(""), names))

    # -- operands -----------------------------------------------------------------------------------------------

    def operand(self, part: Part, names: dict[str, Any]) -> Any:
        return self.read(part, names)[0]

    def read(self, part: Part, names: dict[str, Any]) -> tuple[Any, OperandReader]:
        reader = OperandReader(
            part.text, dict(names), lambda message, at: part.error(message, part.start + at), self.shapes
        )
        return reader.run(), reader

    def integer(self, part: Part, names: dict[str, Any], what: str) -> Expr:
        value, reader = self.read(part, names)
        reader.without_undef(0, what)
        if not isinstance(value, Expr):
            raise part.error(f"{what} must be an integer", part.at_word())
        return value

    def condition(self, part: Part, names: dict[str, Any], what: str, has_undef: bool = False) -> Any:
        value, reader = self.read(part, names)
        if not has_undef:
            reader.without_undef(0, what)
        if not isinstance(value, Cond) and not (isinstance(value, Value) and value.dtype == "bool"):
            raise part.error(f"{what} is expected here", part.at_word())
        return value

    def built(self, make: Any, part: Part) -> Any:
        try:
            return make()
        except ParseError:
            raise
        except InputError as error:
            raise part.error(str(error), part.start) from None


def _tensor(label: str, extents: tuple[Any, ...], dtype: str) -> Tensor:
    return PlaceholderOp(label, extents, dtype).outputs[0]
