"""InferBound: the required, computed and stored elements of each tensor, and the range of every loop.

>>> from bound import te, infer_bound
>>> A = te.placeholder((20,), name="A")
>>> B = te.compute((20,), lambda i: A[i] + 1, name="B")
>>> C = te.compute((18,), lambda i: B[i] + B[i + 2], name="C")
>>> s = te.create_schedule(C.op)
>>> xo, xi = s[C].split(C.op.axis[0], 4)
>>> s[B].compute_at(s[C], xo)
>>> b = infer_bound(s)
>>> b[B.op.axis[0]], b.allocated(B)
(Range(min=i.outer * 4, extent=minimum(6, 20 - i.outer * 4)), (Range(min=i.outer * 4, extent=6),))
>>> b.required(B).count_max(), b.required(B).count_total()
(6, 28)

The phases have the names of the InferBound document:

    infer_bound               the pass: consumers before producers, InferRootBound and PassDownDomain for each stage
    phases/infer_root_bound   phases 1 to 4 for one stage
      pass_up                 phase 1, InitialiseLeaves: fixed and relaxed loops around a read; phase 2, PassUpDomain:
                              the consumer's iteration domain in few variables
      propagate               phase 3, PropBoundToInputs: the footprint of every access, guards included
      gather                  phase 4, GatherBound: the union over consumers; the ranges of the roots
    phases/pass_down          PassDownDomain: the ranges of all other axes, and the remaining guards

They read `accesses` and the `normalized` schedule, and compute with `footprint` (boxes, else shapes of a domain),
`extents` and the `environment` of loops.
`answers/` serves, each on first use: storage, regions, pieces, explanations and accesses outside their tensors.

Interface for code generators
-----------------------------

`b = infer_bound(s)` normalizes a *copy* of the schedule, `b.schedule`. All answers refer to the copy; arguments may be
tensors, operations and stages of either schedule.

- `b.sizes`: the values fixed by `at=`, by variable. Ranges, values and guards contain them; formulas of operations keep
  the variables.
- `b.schedule.stages`: producers first. Placeholders and stages with `attach_type` INLINED_ALREADY have no nest.
- `b.attach_path(stage)`: the `(stage, leaf)` pairs around a stage, innermost first; `()` at the root.
  `b.attached(stage, leaf)`: the stages computed directly inside that loop, in execution order; `b.roots()`: those at
  the root.
- `b[axis]`: `Range` of any root, intermediate or leaf axis. Leaves start at 0 except roots that are leaves (threads).
  `min` and `extent` are over sizes and outer loop variables: leaves of the attach path and, with `tail="shrink"`, outer
  leaves of the same stage. A negative extent: the loop does not run.
- `b.nest(stage)`: a `StageNest`:
    - `nest.loops`: one `StageLoop(iv, range, thread, kind)` a leaf, outermost first. The loop variable *is* `iv`.
      `thread` is its thread axis or `None`; `kind` its `IterType` after annotations.
    - `nest.values`: root axis -> expression in leaf variables (own leaves, leaves of the attach path, sizes), to
      substitute for the axes of `stage.op` in its formula. The stored element is `[nest.values[iv] for iv in op.axis]`.
    - `nest.guards`: all conditions of the body, over leaves, leaves of the attach path and sizes, never over data.
      Empty if the loops run over exactly the computed region. Guards over outer loops come first.
    - `nest.start`: the initialisation of a reduction, before loop `nest.loops[start.place]`, with loops, values of data
      axes and guards (`bound.infer.phases.pass_down`).
- `b.allocated(T)`: a tuple of `Range`, one a dimension: element `T[x0, x1]` is kept at `x0 - min0, x1 - min1` of an
  array of these extents. Extents contain sizes only; mins also contain the fixed leaves of the attach path. The array
  lives for one iteration of the loop at `b.attach_path(stage)[0]`; at the root, for the whole program. Placeholders and
  outputs have their full shape, from 0. Guarantee: an element read by a running body is in the array and was computed
  before.
- `b.storage(T)`: the same as a map: `storage.index(point)` is the place of an element, `storage.coordinates(place)` its
  inverse. With `infer_bound(..., compact=True)` elements outside the lattice of the computed region have no place, and
  `b.allocated(T)` gives the coordinates of place 0 and the numbers of places. Inside fused loops storage may be flat
  (`storage.flat`): the axes of a group are one, counted in row-major order, at the first of them; the others have one
  place. Then code generators take indices from `storage.index` alone.
- `b.slid(stage)`: the loops between storage and stage (`store_at`). Elements of earlier iterations are kept, so
  `b.computed(T)` contains new elements only. `b.stored(leaf)`: the stages with storage directly inside a loop and
  computed further in; such storage may be circular (`b.storage(T).folds`).
- `b.pieces(stage, most)`: a stage as nests over disjoint pieces, without membership guards, if they exist
  (`bound.infer.answers.piecewise`).
- `b.outside`: accesses that may leave their tensor for some sizes or data; unchecked, they read foreign memory. Empty:
  all accesses are proved to be inside. Computed on first use (`bound.infer.answers.outside`).
- `b.computed(T)`: the elements that the nest computes, a `Region` over the fixed loop variables; `b.required(T)`: those
  that consumers read, all elements of an output and of a tensor of `infer_bound(..., whole=[T])`, which a caller
  receives. `b.computes_whole(T)`: whether the nest provably computes the whole tensor.

Thread loops are ordinary loops of a nest: sequential in `run`, parallel on a device. A stage with storage shared by
surrounding threads (`shared` at a `threadIdx` loop) is independent of these loop variables; every thread recomputes the
same elements.
"""

from bound.infer.answers.outside import Outside
from bound.infer.answers.piecewise import StagePiece
from bound.infer.answers.region import StageRegion
from bound.infer.answers.storage import Storage, StorageAxis
from bound.infer.infer_bound import BoundsMap, infer_bound
from bound.infer.phases.pass_down import ReductionInit, StageLoop, StageNest

__all__ = [
    "BoundsMap",
    "Outside",
    "ReductionInit",
    "StageLoop",
    "StageNest",
    "StagePiece",
    "StageRegion",
    "Storage",
    "StorageAxis",
    "infer_bound",
]
