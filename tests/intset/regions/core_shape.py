"""A shape that implements the core alone, so that tests reach the default implementations of all other methods."""

from __future__ import annotations

from collections.abc import Sequence

from intset.domains.isl.presburger import IslShape, of
from intset.expr.node import Cond, Expr, Var
from intset.regions.shape import End, Shape


class CoreShape(Shape):
    """The nine methods of the core, answered by isl; everything else is by default."""

    def __init__(self, shape: IslShape) -> None:
        self.shape, self.dims = shape, shape.dims

    def union(self, other: Shape) -> CoreShape:
        return CoreShape(self.shape.union(_inside(other)))

    def intersect(self, other: Shape) -> CoreShape:
        return CoreShape(self.shape.intersect(_inside(other)))

    def subtract(self, other: Shape) -> CoreShape:
        return CoreShape(self.shape.subtract(_inside(other)))

    def project(self, dims: Sequence[int]) -> CoreShape:
        return CoreShape(self.shape.project(dims))

    def filter(self, point: Sequence[Var], condition: Cond) -> CoreShape:
        return CoreShape(self.shape.filter(point, condition))

    def is_empty(self) -> bool:
        return self.shape.is_empty()

    def condition(self, point: Sequence[Expr]) -> Cond:
        return self.shape.condition(point)

    def end(self, k: int, side: int) -> End:
        return self.shape.end(k, side)

    def everything(self, dims: int) -> CoreShape:
        return CoreShape(self.shape.everything(dims))


def _inside(shape: Shape) -> IslShape:
    return shape.shape if isinstance(shape, CoreShape) else of(shape)
