"""A form of the nests of a schedule: as it is printed, taken apart, and what it is expected to cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from intset.expr.node import Var
from lowering.forms.model import is_dearer, modelled
from lowering.nest.ir import Function
from lowering.nest.walk import statements
from lowering.passes.loops.index_set_splitting import partition_loops


class Made:
    """The nests of a schedule in one form. What follows from them is found when it is asked for, once.

    Attributes
    ----------
    f: the nests, with divisions as they were written.
    sizes: values of sizes that are fixed.
    """

    def __init__(self, f: Function, sizes: Mapping[Var, int]) -> None:
        self.f, self.sizes = f, sizes

    @cached_property
    def parted(self) -> Function:
        """The nests with loops taken apart, as C has them."""
        return partition_loops(self.f)

    @cached_property
    def is_parted(self) -> bool:
        """Whether that makes a difference to what is printed."""
        return _size(self.parted) != _size(self.f)

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """The expected cost of each stage in C, by the name of its tensor."""
        return modelled(self.parted, self.sizes)

    def takes_more(self, than: float) -> bool:
        """Whether the nests as they are cost more; the count ends there."""
        return is_dearer(self.f, than, self.sizes)

    @cached_property
    def whole(self) -> Mapping[str, float]:
        """The same of the nests as they are: what decides between equals."""
        return modelled(self.f, self.sizes)


def _size(f: Function) -> int:
    return sum(1 for _ in statements(f.body))
