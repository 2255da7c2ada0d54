"""C text for arena allocation and arena pointers."""

from __future__ import annotations

from typing import Final

from bound.tensor import Tensor
from intset.expr.node import Expr, constant_value
from lowering.codegen.c_operands import CSyntax
from lowering.codegen.c_words import SIZE_HELPERS, c_type
from lowering.codegen.spelling import compared
from lowering.codegen.straight_line import straight_line
from lowering.nest.ir import Allocate, For
from lowering.storage.placement import ALIGNMENT
from lowering.storage.plan import Arena, Size, StoragePlan

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

    Attributes
    ----------
    malloced: the name of the pointer to be freed; empty without an arena.
    """

    def __init__(self, plan: StoragePlan, syntax: CSyntax) -> None:
        self.plan, self.syntax = plan, syntax
        self.malloced = ""
        self._bases: dict[Arena, str] = {}
        self._slots: dict[Arena, list[str]] = {}
        self._strides: dict[For, tuple[str, str]] = {}

    def head(self) -> list[str]:
        """The lines that allocate the arena; the part of each thread lies behind the common part."""
        if not self.plan.arena and not self.plan.private:
            return []
        names = self.syntax.names
        self.malloced = names.fresh("storage")
        first = self._call("aligned_start", self.malloced)
        lines, end = self._layout(self.plan.arena)
        if self.plan.private:
            start = end
            parts = []
            for loop, arena in self.plan.private.items():
                more, size = self._layout(arena)
                stride = names.fresh("stride")
                lines += [*more, f"const size_t {stride} = {self._call('after_size', size, '0')};"]
                self._strides[loop] = (stride, start)
                parts.append(self._call("times_size", stride, "INTSET_THREADS"))
            end = names.fresh("end")
            lines.append(f"const size_t {end} = {self._call('after_size', start, self._largest(parts))};")
        base = self._bases[self.plan.arena] = names.fresh("arena")
        return [
            *lines,
            f"char *const {self.malloced} = (char *)malloc({end} + {ALIGNMENT});",
            f"if ({self.malloced} == NULL) return -1;",
            f"char *const {base} = {first};",
        ]

    def thread_head(self, loop: For) -> list[str]:
        """The declaration of a thread's arena base, placed at the start of a parallel region."""
        arena = self.plan.private.get(loop)
        if arena is None:
            return []
        stride, start = self._strides[loop]
        base = self._bases[arena] = self.syntax.names.fresh("own")
        return [f"char *const {base} = {self._bases[self.plan.arena]} + {start} + {stride} * INTSET_THREAD;"]

    def is_shared(self, stmt: Allocate) -> bool:
        """Whether other allocations use the same bytes at other times."""
        arena = self._arena(stmt)
        return arena is not None and stmt in arena.shared

    def pointer(self, stmt: Allocate, is_alone: bool = True) -> str | None:
        """Declare a pointer into an arena; `None` for stack and heap allocations.

        Parameters
        ----------
        is_alone: whether no other pointer in scope reaches these bytes.
        """
        address = self.address(stmt)
        if address is None:
            return None
        tensor: Tensor = stmt.tensor
        name = self.syntax.names.of(tensor, tensor.name)
        return f"{c_type(tensor.dtype, tensor.name)} *{'restrict ' if is_alone else ''}{name} = {address};"

    def address(self, stmt: Allocate) -> str | None:
        """The address of an allocation in an arena; `None` if it lies elsewhere."""
        arena = self._arena(stmt)
        if arena is None:
            return None
        offset = str(arena.offsets[stmt]) if stmt in arena.offsets else self._slots[arena][arena.slot_of[stmt]]
        base = self._bases[arena]
        return f"({c_type(stmt.tensor.dtype, stmt.tensor.name)} *){base if offset == '0' else f'({base} + {offset})'}"

    def _arena(self, stmt: Allocate) -> Arena | None:
        return next((arena for arena in (self.plan.arena, *self.plan.private.values()) if stmt in arena), None)

    def _layout(self, arena: Arena) -> tuple[list[str], str]:
        """The lines that compute the offset of each slot, and the text of the arena's end."""
        lines: list[str] = []
        end = str(arena.fixed)
        self._slots[arena] = []
        for slot in arena.slots:
            offset = self.syntax.names.fresh("at")
            lines.append(f"const size_t {offset} = {end};")
            self._slots[arena].append(offset)
            texts = []
            for size in slot.sizes:
                before, text = self._bytes(size)
                lines += before
                texts.append(text)
            end = self._call("after_size", offset, self._largest(texts))
        return lines, end

    def _bytes(self, size: Size) -> tuple[list[str], str]:
        lines, texts = straight_line(self.syntax, size.extents)
        whole = str(size.width)
        for extent, text in zip(size.extents, texts, strict=True):
            whole = self._call("times_size", whole, count(extent, text))
        return lines, whole

    def _largest(self, sizes: list[str]) -> str:
        whole = sizes[0]
        for text in sizes[1:]:
            whole = self._call("larger_size", whole, text)
        return whole

    def _call(self, helper: str, *args: str) -> str:
        self.syntax.helpers[helper, "size"] = SIZE_HELPERS[helper]
        return f"{helper}({', '.join(args)})"


def count(extent: Expr, text: str) -> str:
    """The number of elements along an axis, at least 0."""
    number = constant_value(extent)
    if number is not None:
        return str(max(0, number))
    return f"(size_t)({compared(text)} > 0 ? {compared(text)} : 0)"
