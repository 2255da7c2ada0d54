"""`to_c`: a lowered function as C99."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bound.tir.build import all_of
from bound.tir.calls import FUNCTIONS
from bound.tir.opaque import IntFunction
from bound.tir.value import ValueOp
from intset.expr import ops
from intset.expr.arguments import of_kind
from intset.expr.node import Cond
from intset.expr.walk import postorder
from lowering.codegen.c_nest import CNest
from lowering.codegen.c_ops import CSyntax
from lowering.codegen.c_reserved import BUILT_IN, FILE_SCOPE
from lowering.codegen.c_storage import THREADS
from lowering.codegen.c_text import comment
from lowering.codegen.c_types import KEYWORDS, c_type
from lowering.codegen.names import Names
from lowering.codegen.straight import Straight
from lowering.codegen.text import opened
from lowering.nest.ir import Function, checked_function
from lowering.nest.walk import operands, statements, without_assumptions
from lowering.passes.alpha_renaming import with_own_storage
from lowering.passes.loops.delinearization import run_over_digits
from lowering.passes.loops.index_set_splitting import partition_loops
from lowering.passes.loops.unrolling import unroll
from lowering.passes.loops.unswitching import decide_rows
from lowering.passes.stores.copy_elimination import forward_copies
from lowering.passes.stores.dead_code import drop_dead
from lowering.passes.stores.identities import drop_identities
from lowering.passes.stores.scalar_replacement import accumulate
from lowering.passes.values.constant_folding import fold_constants
from lowering.passes.values.cse import inline_values
from lowering.passes.values.index_width import Width, narrow, sizes_that_fit, with_short_signs
from lowering.storage.fixed import with_fixed_storage

QUIET: Final = ("#ifndef _OPENMP", '#pragma GCC diagnostic ignored "-Wunknown-pragmas"', "#endif")
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

    It returns 0, or the number of an assertion that does not hold, or the number behind those where an integer was
    divided by 0, or -1 without memory. Index arithmetic is in 32 bits where that is proved to be enough, else in 64; a
    comment says which expression forced it. Where 32 bits are enough for all but very large sizes, there is a version
    for each, and a test of the sizes. Loops on threads run one after another. Assumptions are nothing in C, and
    `undef()` is 0. Division by a constant is left to the C compiler, which multiplies by a magic number.

    Parameters
    ----------
    f: what `lower` gave: allocations begin at 0, divisions are lowered.
    width: the width of indices, as `narrow` chose it.

    Raises
    ------
    InputError: the nest calls a function of the host, or has elements of a type that C99 does not have.
    """
    checked_function(f, "to_c")
    if width is not None:
        of_kind(Width, width, "width", "what narrow gave")
    return c_file(f, width).text


def c_file(f: Function, width: Width | None = None) -> CFile:
    """`to_c` with what a caller of the compiled function needs to know. Parameters and errors are those of `to_c`."""
    f = f.with_body(with_own_storage(without_assumptions(f.body), f.params))
    f = inline_values(drop_dead(f))  # what is not used would be a warning
    chosen = narrow(f) if width is None else width
    f = _prepared(f, chosen.bits)
    small = with_short_signs(f)
    fitting = sizes_that_fit(small) if width is None and chosen.bits == 64 else ()
    name = Names((*KEYWORDS, *FILE_SCOPE, *BUILT_IN, *_called(f))).fresh(f.name)
    body = _Body(f, chosen.bits, name)
    narrow_body = _Body(small, 32, f"{name}_32") if fitting else None
    bodies = [body] if narrow_body is None else [narrow_body, body]
    inner = body.syntax.names.fresh(f"{name}_32") if fitting else ""
    dispatch = body.dispatch(inner, fitting) if fitting else []  # which may need helpers of its own
    texts = dict.fromkeys(text for made in bodies for text in made.syntax.helpers.values())
    externs = dict.fromkeys(text for made in bodies for text in made.syntax.externs.values())
    lines = [
        *comment(*_remark(f, chosen, body, fitting)).split("\n"),
        *(QUIET if any("#pragma omp" in line for made in bodies for line in made.all_lines) else ()),
        *("#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", "#include <stdlib.h>"),
        *(THREADS if any("INTSET_THREAD" in line for line in body.lines) else ()),
        "",
        *externs,
        *(line for text in texts for line in _once(text)),
    ]
    if texts or externs:
        lines.append("")
    head = f"int {name}({body.parameters})"
    lines += [f"{head};", ""]
    for made in bodies:
        lines += made.nest.parts
    if narrow_body is not None:
        lines += [f"static int {inner}({narrow_body.parameters}) {{", *_in(narrow_body.lines), "}", ""]
    lines += [f"{head} {{", *_in([*dispatch, *body.lines]), "}"]
    messages = max((made.nest.messages for made in bodies), key=len)
    return CFile("\n".join(lines) + "\n", name, chosen.bits, tuple(messages))


def _prepared(f: Function, bits: int) -> Function:
    """The nest as C is to have it: loops written out and taken apart, as far as that needs no wider integers."""
    f = unroll(run_over_digits(with_fixed_storage(forward_copies(f))))
    parted = f
    for _ in range(2):  # the second time, loops that have numbers for ends only now
        parted = unroll(run_over_digits(partition_loops(parted, f)))
    chosen = parted if parted is f or bits == 64 or narrow(parted).bits == 32 else f
    return drop_dead(fold_constants(accumulate(decide_rows(drop_identities(chosen), is_all=True))))


class _Body:
    """The parameters and the statements of a function at one width."""

    def __init__(self, f: Function, bits: int, label: str) -> None:
        self.f = f
        names = Names((*KEYWORDS, *_called(f)))
        self.syntax = CSyntax(names, bits, f.name)
        tensors = []
        for tensor in f.params:
            const = "" if tensor in f.outputs else "const "
            tensors.append(f"{const}{c_type(tensor.dtype, tensor.name)} *restrict {names.of(tensor, tensor.name)}")
        sizes = [f"{self.syntax.index} {self.syntax.leaf(v)}" for v in f.sizes]
        scalars = [f"{c_type(p.dtype, str(p.data[0]))} {self.syntax.leaf(p)}" for p in f.scalars]
        self.parameters = ", ".join((*tensors, *sizes, *scalars)) or "void"
        self.nest = CNest(f, self.syntax, label)
        body = self.nest.lines()
        text = re.sub(r"/\*.*?\*/", "", "\n".join(body))  # a name that only a remark mentions is not used
        labels = [names.of(t, t.name) for t in f.params] + [str(self.syntax.leaf(v)) for v in (*f.sizes, *f.scalars)]
        unused = [f"(void){name};" for name in labels if not re.search(rf"\b{name}\b", text)]
        self.lines = [*unused, *self.nest.tables, *body]
        self.all_lines = (*self.nest.parts, *self.lines)

    def dispatch(self, inner: str, fitting: Sequence[Cond]) -> list[str]:
        """The line that calls the function of 32 bits for sizes that pass its test."""
        before, (test,) = Straight(self.syntax).emit([all_of(*fitting)])
        f, leaf = self.f, self.syntax.leaf
        args = [self.syntax.names.of(t, t.name) for t in f.params]
        args += [f"(int32_t){leaf(v)}" for v in f.sizes] + [str(leaf(p)) for p in f.scalars]
        return [*before, f"if ({opened(test)}) return {inner}({', '.join(args)});"]


def _once(helper: str) -> list[str]:
    """The definition of a helper under a guard, so that several functions may stand in one file."""
    found = re.search(r"(\w+)\(", helper)
    assert found is not None
    name = f"INTSET_{found[1].upper()}"
    return [f"#ifndef {name}", f"#define {name}", helper, "#endif"]


def _called(f: Function) -> frozenset[str]:
    """The functions that the nest calls by name: nothing else in the file may have these names."""
    found: set[str] = set()
    waiting: list[Any] = [operand for stmt in statements(f.body) for operand in operands(stmt)]
    for node in postorder(waiting):
        if node.op is ValueOp.CALL and node.data not in FUNCTIONS:
            found.add(str(node.data))
        elif node.op is ops.LOAD and isinstance(node.data, IntFunction):
            found.update(n.data for n in postorder((node.data.body,)) if n.op is ValueOp.CALL)
    return frozenset(found)


def _remark(f: Function, width: Width, body: _Body, fitting: Sequence[Cond]) -> list[str]:
    """What the comment at the head of the file says, by lines."""
    nest = body.nest
    shapes = ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(repr, t.extents))}]" for t in f.params)
    results = [
        f"returns {k}: {'' if k > nest.checks else 'not so that '}{message}"
        for k, message in enumerate(nest.messages, 1)
    ]
    has_pragmas = any("#pragma omp" in line for line in body.all_lines)
    build = f"build: {BUILD}{' -fopenmp' if has_pragmas else ''}"
    chosen = f"int32 where {' and '.join(map(str, fitting))}, else int64" if fitting else str(width)
    return [f"{f.name}({shapes})", chosen, build, *results]


def _in(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
