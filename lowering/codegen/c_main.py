"""A program around a function in C: it fills the inputs, calls, and prints seconds a call and a checksum."""

from __future__ import annotations

from collections.abc import Mapping

from bound import dtypes
from bound.tensor import Tensor
from intset.errors import InputError
from lowering.codegen.c import c_file
from lowering.codegen.c_ops import CSyntax
from lowering.codegen.c_reserved import BUILT_IN, FILE_SCOPE
from lowering.codegen.c_types import KEYWORDS, c_type
from lowering.codegen.names import Names
from lowering.codegen.straight import Straight
from lowering.codegen.text import compared
from lowering.nest.ir import Function

SIZE = 256  # of a size that is not given
CALLS = 10
_LOCALS = ("argc", "argv", "code", "begin", "call", "seconds", "sum", "i", "double")

_FILL = """\
static double next(void) {  /* the same numbers on every machine (Knuth's constants of a linear congruence) */
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 40) / 16777216.0 - 0.5;
}
"""


def program_text(f: Function, sizes: Mapping[str, int] | None = None) -> str:
    """The C of a function with a `main`.

    The program takes the sizes as arguments, in the order of the function's; without arguments they are what `sizes`
    says, else `SIZE`. It ends with what the function returned.

    Raises
    ------
    InputError: as `to_c`; or the function has scalar parameters that are no integers.
    """
    if f.scalars:
        raise InputError(f"{f.name} has the parameter {f.scalars[0].data[0]}: a program cannot know its value")
    file = c_file(f)
    names = Names((*KEYWORDS, *FILE_SCOPE, *BUILT_IN, file.entry, *_LOCALS))
    draw = names.fresh("next")
    syntax = CSyntax(names, 64, f.name)
    lines: list[str] = []
    for k, var in enumerate(f.sizes):
        value = (sizes or {}).get(var.name, SIZE)
        lines.append(f"const int64_t {syntax.leaf(var)} = argc > {k + 1} ? atoll(argv[{k + 1}]) : {value};")
    if not f.sizes:
        lines.append("(void)argc, (void)argv;")
    counts = [_count(t, syntax, names, lines) for t in f.params]
    arrays = [names.of(t, t.name) for t in f.params]
    for tensor, count, array in zip(f.params, counts, arrays, strict=True):
        dtype = c_type(tensor.dtype, tensor.name)
        lines.append(f"{dtype} *{array} = ({dtype} *)malloc(sizeof({dtype}) * {count} + 1);")
        lines.append(f"if ({array} == NULL) return 1;")
        lines.append(f"for (size_t i = 0; i < {count}; ++i) {array}[i] = {_value(tensor, dtype, draw)};")
    index = "int32_t" if file.bits == 32 else "int64_t"
    args = [*arrays, *(f"({index}){syntax.leaf(v)}" for v in f.sizes)]
    lines += [
        "int code = 0;",
        "const clock_t begin = clock();",
        f"for (int call = 0; call < {CALLS} && code == 0; ++call) code = {file.entry}({', '.join(args)});",
        f"const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC / {CALLS};",
        "double sum = 0;",
    ]
    for tensor, count, array in zip(f.params, counts, arrays, strict=True):
        if tensor in f.outputs:
            lines.append(f"for (size_t i = 0; i < {count}; ++i) sum += (double){array}[i] * (double)(i % 7 + 1);")
    lines.append('printf("%.9f seconds a call, checksum %.9g, returned %d\\n", seconds, sum, code);')
    lines += [f"free({array});" for array in arrays]
    body = "\n".join(f"    {line}" for line in (*lines, "return code;"))
    includes = "#include <stdio.h>\n#include <time.h>\n"
    fill = _FILL.replace("next", draw)
    return f"{file.text}\n{includes}\n{fill}\nint main(int argc, char **argv) {{\n{body}\n}}\n"


def _count(tensor: Tensor, syntax: CSyntax, names: Names, lines: list[str]) -> str:
    """The name of the number of elements of a parameter, which `lines` come to define."""
    before, texts = Straight(syntax).emit(list(tensor.extents))
    factors = [f"(size_t)({compared(text)} > 0 ? {compared(text)} : 0)" for text in texts]
    name = names.fresh(f"{tensor.name}_elements")
    lines += [*before, f"const size_t {name} = {' * '.join(factors) or '1'};"]
    return name


def _value(tensor: Tensor, dtype: str, draw: str) -> str:
    if dtypes.is_float(tensor.dtype):
        return f"({dtype}){draw}()"
    if tensor.dtype == "bool":
        return f"{draw}() < 0"
    low, high = tensor.value_range or (0, 9)
    return f"({dtype})(({draw}() + 0.5) * {high - low + 1} + ({low}))"
