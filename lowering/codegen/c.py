"""`to_c`: a lowered function as C99, and `program_text`: a program that times it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import all_of
from bound.tir.calls import FUNCTIONS
from bound.tir.opaque import IntFunction
from bound.tir.value import CALL
from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import of_kind
from intset.expr.dag import postorder
from intset.expr.node import Cond
from lowering.codegen.c_memory import THREADS
from lowering.codegen.c_nest import CNest
from lowering.codegen.c_operands import CSyntax
from lowering.codegen.c_words import BUILT_IN, FILE_SCOPE, KEYWORDS, c_type, defined_once, function_name, storage_type
from lowering.codegen.emitter import Identifiers, comment, compared, indented, opened, straight_line
from lowering.nest.ir import Allocate, Function, checked_function
from lowering.nest.walk import operands, statements, without_assumptions
from lowering.passes.alpha_renaming import with_own_storage
from lowering.passes.loops.delinearization import run_over_digits
from lowering.passes.loops.index_set_splitting import partition_loops
from lowering.passes.loops.unrolling import unroll
from lowering.passes.loops.unswitching import decide_rows
from lowering.passes.stores.copy_elimination import forward_copies
from lowering.passes.stores.dead_code import drop_dead, drop_identities
from lowering.passes.stores.scalar_replacement import accumulate
from lowering.passes.values.constant_folding import fold_constants
from lowering.passes.values.cse import inline_values
from lowering.passes.values.index_width import Width, narrow, sizes_that_fit, with_short_signs
from lowering.storage.plan import with_fixed_storage

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


def to_c(f: Function, width: Width | None = None) -> str:
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
    checked_function(f, "to_c")
    if width is not None:
        of_kind(Width, width, "width", "what narrow gave")
    return c_file(f, width).text


def c_file(f: Function, width: Width | None = None) -> CFile:
    """`to_c` with what a caller of the compiled function needs to know. Parameters and errors are those of `to_c`."""
    f = f.with_body(with_own_storage(without_assumptions(f.body), f.params))
    f = inline_values(drop_dead(f))  # compilers warn of unused values
    chosen = narrow(f) if width is None else width
    f = _prepared(f, chosen.bits)
    small = with_short_signs(f)
    fitting = sizes_that_fit(small) if width is None and chosen.bits == 64 else ()
    name = Identifiers((*KEYWORDS, *FILE_SCOPE, *BUILT_IN, *_called(f))).fresh(f.name)
    body = _CBody(f, chosen.bits, name)
    bodies = [_CBody(small, 32, f"{name}_32"), body] if fitting else [body]
    inner = body.syntax.names.fresh(f"{name}_32") if fitting else ""
    dispatch = body.dispatch(inner, fitting) if fitting else []  # before helpers are listed: it may add some
    helpers = dict.fromkeys(text for each in bodies for text in each.syntax.helpers.values())
    externs = dict.fromkeys(text for each in bodies for text in each.syntax.externs.values())
    allocates = any(isinstance(stmt, Allocate) for stmt in statements(f.body))
    has_pragmas = any("#pragma omp" in line for each in bodies for line in (*each.nest.outlined, *each.lines))
    definitions = [*externs, *(line for text in helpers for line in defined_once(function_name(text), [text]))]
    head = f"int {name}({body.parameters})"
    lines = [
        *comment(*_remark(body, chosen, fitting, has_pragmas)).split("\n"),
        *(QUIET if has_pragmas else ()),
        *(UNFOLLOWED if allocates else ()),
        *("#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", "#include <stdlib.h>"),
        *(THREADS if any("INTSET_THREAD" in line for line in body.lines) else ()),
        "",
        *([*definitions, ""] if definitions else ()),
        *(f"{head};", ""),
        *(line for each in bodies for line in each.nest.outlined),
    ]
    if fitting:
        lines += [f"static int {inner}({bodies[0].parameters}) {{", *indented(bodies[0].lines), "}", ""]
    lines += [f"{head} {{", *indented([*dispatch, *body.lines]), "}"]
    messages = max((each.nest.messages for each in bodies), key=len)
    return CFile("\n".join(lines) + "\n", name, chosen.bits, tuple(messages))


def _prepared(f: Function, bits: int) -> Function:
    """The nest with loops unrolled, split and unswitched, as far as that needs no wider integers."""
    f = unroll(run_over_digits(with_fixed_storage(forward_copies(f))))
    split = f
    for _ in range(2):  # the first run makes ends of loops constant, by which the second one splits
        before, split = split, unroll(run_over_digits(partition_loops(split, f)))
        if split.body is before.body:
            break
    is_same = split.body is f.body
    chosen = split if is_same or _is_representable(split) and (bits == 64 or narrow(split).bits == 32) else f
    return drop_dead(fold_constants(accumulate(decide_rows(drop_identities(chosen), is_all=True))))


def _is_representable(f: Function) -> bool:
    """Whether every integer constant fits in 64 bits: loops split by a sign, `x >> 63`, divide by 2**63."""
    nodes = postorder([e for stmt in statements(f.body) for e in operands(stmt)])
    return all(-(1 << 63) <= node.data < 1 << 63 for node in nodes if node.op is ops.CONST)


class _CBody:
    """The parameters and the statements of a function at one width of indices."""

    def __init__(self, f: Function, bits: int, label: str) -> None:
        self.f = f
        names = Identifiers((*KEYWORDS, *_called(f)))
        self.syntax = CSyntax(names, bits, f.name)
        parameters = []
        for tensor in f.params:
            const = "" if tensor in f.outputs else "const "
            parameters.append(
                f"{const}{storage_type(tensor.dtype, tensor.name)} *restrict {names.of(tensor, tensor.name)}"
            )
        parameters += [f"{self.syntax.index} {self.syntax.leaf(v)}" for v in f.sizes]
        parameters += [f"{c_type(p.dtype, str(p.data[0]))} {self.syntax.leaf(p)}" for p in f.scalars]
        self.parameters = ", ".join(parameters) or "void"
        self.nest = CNest(f, self.syntax, label)
        body = self.nest.lines()
        text = re.sub(r"/\*.*?\*/", "", "\n".join(body))  # a name in a comment is not used
        labels = [names.of(t, t.name) for t in f.params] + [str(self.syntax.leaf(v)) for v in (*f.sizes, *f.scalars)]
        unused = [f"(void){name};" for name in labels if not re.search(rf"\b{name}\b", text)]
        self.lines = [*unused, *self.nest.tables, *body]

    def dispatch(self, inner: str, fitting: Sequence[Cond]) -> list[str]:
        """The lines that call the function of 32 bits for sizes that pass its test."""
        before, (test,) = straight_line(self.syntax, [all_of(*fitting)])
        f, leaf = self.f, self.syntax.leaf
        args = [self.syntax.names.of(t, t.name) for t in f.params]
        args += [f"(int32_t){leaf(v)}" for v in f.sizes] + [str(leaf(p)) for p in f.scalars]
        return [*before, f"if ({opened(test)}) return {inner}({', '.join(args)});"]


def _called(f: Function) -> frozenset[str]:
    """The names of called functions, reserved in the whole file."""
    called: set[str] = set()
    roots: list[Any] = [operand for stmt in statements(f.body) for operand in operands(stmt)]
    for node in postorder(roots):
        if node.op is CALL and node.data not in FUNCTIONS:
            called.add(str(node.data))
        elif node.op is ops.LOAD and isinstance(node.data, IntFunction):
            called.update(n.data for n in postorder((node.data.body,)) if n.op is CALL)
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


def program_text(f: Function, sizes: Mapping[str, int] | None = None) -> str:
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
    names = Identifiers((*KEYWORDS, *FILE_SCOPE, *BUILT_IN, file.entry, *_LOCALS))
    draw = names.fresh("next")
    syntax = CSyntax(names, 64, f.name)
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
    body = "\n".join(indented((*lines, f"return {code};")))
    includes = "#include <stdio.h>\n#include <time.h>\n"
    fill = _FILL.replace("next", draw)
    return f"{file.text}\n{includes}\n{fill}\nint main(int argc, char **argv) {{\n{body}\n}}\n"


def _count(tensor: Tensor, syntax: CSyntax, lines: list[str]) -> str:
    """The name of the number of elements of a parameter; its definition is appended to `lines`."""
    before, texts = straight_line(syntax, tensor.extents)
    factors = [f"(size_t)({compared(text)} > 0 ? {compared(text)} : 0)" for text in texts]
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
