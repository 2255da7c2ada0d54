"""The loops of a scan: the first rows are copied from `init`, each later one from `update`, computed at its step."""

from __future__ import annotations

from collections.abc import Callable

from bound.infer import BoundsMap, StageNest
from bound.itervar import IterVar
from bound.operation import ScanOp
from bound.tensor import Tensor, element
from intset.expr.node import Expr, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars
from lowering.build.formulas import Formula
from lowering.build.stages import Attach, levels_of
from lowering.nest.ir import For, If, Seq, Stmt, Store, seq
from lowering.nest.walk import Visit

Copy = Callable[[Expr], Stmt]


def scan_nest(op: ScanOp, nest: StageNest, bounds: BoundsMap, attach: Attach) -> Visit[Stmt]:
    """The loops of a scan. Its updates are attached to the innermost of them."""
    nothing = Formula((), (), (), None, Seq())
    levels = levels_of(nest, nothing)
    step = nest.values[op.scan_axis]
    first = next((k for k, level in enumerate(levels) if level.var in free_vars(step)), len(levels))
    spatial = list(op.spatial_axis)
    starts: list[Stmt] = []
    rows: list[Stmt] = []
    for output, init, update in zip(op.outputs, op.init, op.update, strict=True):
        axes, spatial = spatial[: update.ndim - 1], spatial[update.ndim - 1 :]
        row = Var("row")
        starts.append(For(row, Range(0, init.extents[0]), _copied(output, init, row, axes, bounds)))
        rows.append(_copied(output, update, step, axes, bounds))
    body = seq(*rows)
    for guard in nest.guards:
        body = If(guard, body)
    for k in range(len(levels) - 1, -1, -1):
        body = yield attach(levels[k].var, body)
        body = levels[k].around(body)
        if k == first:
            body = seq(*starts, body)
    return body if first < len(levels) else seq(*starts, body)


def _copied(target: Tensor, source: Tensor, row: Expr, axes: list[IterVar], bounds: BoundsMap) -> Stmt:
    loops = [(Var(f"i{k}"), bounds[iv]) for k, iv in enumerate(axes, 1)]
    place = (row, *(var for var, _ in loops))
    body: Stmt = Store(target, place, element(source, place))
    for var, r in reversed(loops):
        body = For(var, r, body)
    return body
