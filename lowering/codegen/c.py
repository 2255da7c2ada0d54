"""`to_c`: a lowered function as C99."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lowering.codegen.c_nest import CNest
from lowering.codegen.c_ops import CSyntax
from lowering.codegen.c_storage import THREADS
from lowering.codegen.c_types import KEYWORDS, c_type
from lowering.codegen.names import Names
from lowering.nest.ir import Function
from lowering.nest.walk import without_assumptions
from lowering.passes.dead import drop_dead
from lowering.passes.narrow import Width, narrow
from lowering.passes.unroll import unroll

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
    """The function as C99: one function of pointers to the elements, by rows, then of the sizes and scalars.

    It returns 0, or the number of an assertion that does not hold, or -1 without memory. Index arithmetic is in 32 bits
    where that is proved to be enough, else in 64; a comment says which expression forced it. Loops on threads run one
    after another. Assumptions are nothing in C, and `undef()` is 0. Division by a constant is left to the C compiler,
    which multiplies by a magic number.

    Parameters
    ----------
    f: what `lower` gave: allocations begin at 0, divisions are lowered.
    width: the width of indices, as `narrow` chose it.

    Raises
    ------
    InputError: the nest calls a function of the host, or has elements of a type that C99 does not have.
    """
    return c_file(f, width).text


def c_file(f: Function, width: Width | None = None) -> CFile:
    """`to_c` with what a caller of the compiled function needs to know. Parameters and errors are those of `to_c`."""
    f = drop_dead(f.with_body(without_assumptions(f.body)))  # what is not used would be a warning
    chosen = narrow(f) if width is None else width
    f = drop_dead(unroll(f))
    names = Names(KEYWORDS)
    syntax = CSyntax(names, chosen.bits, f.name)
    params = []
    for tensor in f.params:
        const = "" if tensor in f.outputs else "const "
        params.append(f"{const}{c_type(tensor.dtype, tensor.name)} *restrict {names.of(tensor, tensor.name)}")
    params += [f"{syntax.index} {syntax.leaf(v)}" for v in f.sizes]
    params += [f"{c_type(p.dtype, str(p.data[0]))} {syntax.leaf(p)}" for p in f.scalars]
    nest = CNest(f, syntax)
    body = nest.lines()
    text = re.sub(r"/\*.*?\*/", "", "\n".join(body))  # a name that only a remark mentions is not used
    labels = [names.of(t, t.name) for t in f.params] + [str(syntax.leaf(v)) for v in (*f.sizes, *f.scalars)]
    unused = [f"(void){name};" for name in labels if not re.search(rf"\b{name}\b", text)]
    name = Names(KEYWORDS).fresh(f.name)
    includes = ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", "#include <stdlib.h>"]
    guarded = [line for text in dict.fromkeys(syntax.helpers.values()) for line in _once(text)]
    helpers = [*dict.fromkeys(syntax.externs.values()), *guarded]
    head = f"int {name}({', '.join(params) or 'void'});"
    lines = [
        f"/* {_remark(f, chosen, nest)} */",
        *includes,
        *(THREADS if "INTSET_THREAD" in text else ()),
        "",
        *([*helpers, ""] if helpers else []),
        head,
        "",
        f"{head[:-1]} {{",
        *(f"    {line}" for line in (*unused, *nest.tables, *body, "return 0;")),
        "}",
    ]
    return CFile("\n".join(lines) + "\n", name, chosen.bits, tuple(nest.messages))


def _once(helper: str) -> list[str]:
    """The definition of a helper under a guard, so that several functions may stand in one file."""
    found = re.search(r"(\w+)\(", helper)
    assert found is not None
    name = f"INTSET_{found[1].upper()}"
    return [f"#ifndef {name}", f"#define {name}", helper, "#endif"]


def _remark(f: Function, width: Width, nest: CNest) -> str:
    shapes = ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(repr, t.extents))}]" for t in f.params)
    results = "".join(f"\n   returns {k}: not so that {message}" for k, message in enumerate(nest.messages, 1))
    build = f"\n   build: {BUILD}{' -fopenmp' if nest.parallel else ''}"
    return f"{f.name}({shapes})\n   {width}{build}{results}".replace("*/", "* /")
