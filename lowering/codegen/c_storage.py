"""Storage in C: the arena of a function, and the pointers into it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bound.tensor import Tensor
from intset.expr.node import Expr, constant_value
from lowering.codegen.c_ops import CSyntax
from lowering.codegen.c_types import c_type
from lowering.codegen.straight import Straight
from lowering.codegen.text import compared
from lowering.nest.ir import Allocate, For
from lowering.storage.placement import ALIGNMENT
from lowering.storage.plan import Arena, Plan, Size

_TIMES: Final = (
    "static inline size_t times_size(size_t a, size_t b) { return b && a > SIZE_MAX / 2 / b ? SIZE_MAX / 2 : a * b; }"
)
_AFTER: Final = (
    "static inline size_t after_size(size_t at, size_t n) "
    f"{{ return n > SIZE_MAX / 2 - at ? SIZE_MAX / 2 : (at + n + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT}; }}"
)
_LARGER: Final = "static inline size_t larger_size(size_t a, size_t b) { return a > b ? a : b; }"
_START: Final = (
    "static inline char *aligned_start(char *p) "
    f"{{ return p + ({ALIGNMENT} - (uintptr_t)p % {ALIGNMENT}) % {ALIGNMENT}; }}"
)
THREADS: Final = (
    "#ifdef _OPENMP",
    "#include <omp.h>",
    "#define INTSET_THREADS ((size_t)omp_get_max_threads())",
    "#define INTSET_THREAD ((size_t)omp_get_thread_num())",
    "#else",
    "#define INTSET_THREADS ((size_t)1)",
    "#define INTSET_THREAD ((size_t)0)",
    "#endif",
)


class CStorage:
    """The texts of one function's arena.

    Parameters
    ----------
    plan: where allocations lie.
    syntax: of the function.
    """

    def __init__(self, plan: Plan, syntax: CSyntax) -> None:
        self.plan = plan
        self.syntax = syntax
        self.held = ""  # what is given back, empty without an arena
        self._bases: dict[Arena, str] = {}
        self._slots: dict[Arena, list[str]] = {}
        self._strides: dict[For, tuple[str, str]] = {}

    def head(self) -> list[str]:
        """The lines that take the arena."""
        if not self.plan.arena and not self.plan.private:
            return []
        names = self.syntax.names
        self._need("aligned", _START)
        lines, end = self._layout(self.plan.arena, "0")
        if self.plan.private:
            starts = end
            wholes = []
            for loop, arena in self.plan.private.items():
                more, size = self._layout(arena, "0")
                stride = names.fresh("stride")
                self._need("after", _AFTER)
                self._need("times", _TIMES)
                lines += [*more, f"const size_t {stride} = after_size({size}, 0);"]
                self._strides[loop] = (stride, starts)
                wholes.append(f"times_size({stride}, INTSET_THREADS)")
            end = names.fresh("end")
            whole = wholes[0]
            for text in wholes[1:]:
                self._need("larger", _LARGER)
                whole = f"larger_size({whole}, {text})"
            lines.append(f"const size_t {end} = after_size({starts}, {whole});")
        self.held = names.fresh("storage")
        base = names.fresh("arena")
        self._bases[self.plan.arena] = base
        return [
            *lines,
            f"char *const {self.held} = (char *)malloc({end} + {ALIGNMENT});",
            f"if ({self.held} == NULL) return -1;",
            f"char *const {base} = aligned_start({self.held});",
        ]

    def thread_head(self, loop: For) -> list[str]:
        """The line at the start of a parallel region that finds the thread's own part."""
        arena = self.plan.private.get(loop)
        if arena is None:
            return []
        stride, start = self._strides[loop]
        base = self._bases[arena] = self.syntax.names.fresh("own")
        whole = self._bases[self.plan.arena]
        return [f"char *const {base} = {whole} + {start} + {stride} * INTSET_THREAD;"]

    def is_shared(self, stmt: Allocate) -> bool:
        """Whether others use the same bytes at other times."""
        arena = self._arena(stmt)
        return arena is not None and stmt in arena.shared

    def pointer(self, stmt: Allocate, is_alone: bool = True) -> str | None:
        """The declaration of the pointer to an allocation in an arena, or `None`.

        `is_alone`: whether no other pointer reaches these bytes where this one is in scope.
        """
        address = self.address(stmt)
        if address is None:
            return None
        tensor = stmt.tensor
        restrict = "restrict " if is_alone else ""
        return f"{c_type(tensor.dtype, tensor.name)} *{restrict}{self._name(tensor)} = {address};"

    def address(self, stmt: Allocate) -> str | None:
        """Where an allocation in an arena lies, or `None`."""
        arena = self._arena(stmt)
        if arena is None:
            return None
        place = str(arena.offsets[stmt]) if stmt in arena.offsets else self._slots[arena][arena.slot_of[stmt]]
        base = self._bases[arena]
        where = base if place == "0" else f"({base} + {place})"
        return f"({c_type(stmt.tensor.dtype, stmt.tensor.name)} *){where}"

    def _name(self, tensor: Tensor) -> str:
        return self.syntax.names.of(tensor, tensor.name)

    def _arena(self, stmt: Allocate) -> Arena | None:
        arenas: Iterable[Arena] = (self.plan.arena, *self.plan.private.values())
        return next((arena for arena in arenas if stmt in arena), None)

    def _layout(self, arena: Arena, start: str) -> tuple[list[str], str]:
        """The lines that find where each slot begins, and where the arena ends."""
        lines: list[str] = []
        at = str(arena.fixed) if arena.fixed else start
        self._slots[arena] = []
        for slot in arena.slots:
            begins = self.syntax.names.fresh("at")
            lines.append(f"const size_t {begins} = {at};")
            self._slots[arena].append(begins)
            texts = []
            for size in slot.sizes:
                before, text = self._bytes(size)
                lines += before
                texts.append(text)
            whole = texts[0]
            for text in texts[1:]:
                self._need("larger", _LARGER)
                whole = f"larger_size({whole}, {text})"
            self._need("after", _AFTER)
            at = f"after_size({begins}, {whole})"
        return lines, at

    def _bytes(self, size: Size) -> tuple[list[str], str]:
        lines, texts = Straight(self.syntax).emit(list(size.extents))
        factors = [count(e, text) for e, text in zip(size.extents, texts, strict=True)]
        whole = str(size.width)
        for factor in factors:
            self._need("times", _TIMES)
            whole = f"times_size({whole}, {factor})"
        return lines, whole

    def _need(self, name: str, text: str) -> None:
        self.syntax.helpers[name, "size"] = text


def count(extent: Expr, text: str) -> str:
    """The number of places along an axis, at least 0."""
    known = constant_value(extent)
    if known is not None:
        return str(max(0, known))
    return f"(size_t)({compared(text)} > 0 ? {compared(text)} : 0)"
