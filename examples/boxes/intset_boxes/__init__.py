"""Finite unions of boxes with strides, as a domain of intset: everything follows from their shapes."""

from intset.domains.regional import ShapeDomain

from .boxes import Union, fresh
from .elimination import EVERYTHING


class Boxes(ShapeDomain):
    """Sets that are finite unions of boxes with strides, in each instance: exact on these, a superset of all others."""

    name, strength = "boxes", 50

    def everything(self, dims: int) -> Union:
        return Union(fresh(dims), [EVERYTHING])
