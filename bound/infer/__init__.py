"""InferBound: which elements of each tensor are needed, computed and stored, and the range of every loop.

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

The phases are the ones of the InferBound document, under its names:

    infer_bound               the pass: consumers before producers, InferRootBound and PassDownDomain for each stage
    phases/infer_root_bound   phases 1 to 4 for one stage
      relax                   phase 1, InitialiseLeaves: which loops around a read are fixed, which are relaxed
      pass_up                 phase 2, PassUpDomain: a consumer's iterations in as few variables as possible
      propagate               phase 3, PropBoundToInputs: the image of every access, guards included
      gather                  phase 4, GatherBound: the union over consumers; the ranges of the roots
    phases/pass_down          PassDownDomain: the ranges of all other axes, and the guards that remain

They read `program/` (accesses, sizes), reckon with the regions of `needs/`, and leave to `storage/` where elements are
kept and to `answers/` what is told of them.

What a code generator needs
---------------------------

`b = infer_bound(s)` normalizes a *copy* of the schedule. Everything below speaks of that copy, `b.schedule`; a
tensor, an operation or a stage of the schedule as written is accepted wherever one is asked for.

- `b.sizes`: the values that `at=` fixed, by variable. Ranges, values and guards have them put in; the formulas of the
  operations still hold the variables.
- `b.schedule.stages`: producers first. Stages with `attach_type` INLINED_ALREADY and placeholders have no nest.
- `b.attach_path(stage)`: the `(stage, leaf)` pairs around a stage, innermost first; `()` at the root.
  `b.attached(stage, leaf)`: the stages computed inside that loop (directly), in the order in which they run;
  `b.roots()`: those computed at the root, in order.
- `b[axis]`: `Range` of any root, intermediate or leaf axis. Leaves start at 0 except roots that are leaves (threads).
  `min` and `extent` are in the sizes and in *loop variables outside of that loop*: leaves of the attach path, and
  (with `tail="shrink"`) leaves of the same stage further out. An extent may be below 0: the loop does not run.
- `b.nest(stage)`: a `StageNest`, everything above and below for one stage:
    - `nest.loops`: one `StageLoop(iv, range, thread, kind)` a leaf, outermost first. The loop variable *is* `iv`.
      `thread` is the thread axis it runs on, or `None`; `kind` is the `IterType` after annotations.
    - `nest.values`: root axis -> expression in leaf variables (own leaves, leaves of the attach path, sizes): what to
      put in the place of the axes of `stage.op` in its formula. The element written is `[nest.values[iv] for iv in
      op.axis]`.
    - `nest.guards`: conditions under which the body runs, all of them; over leaves, leaves of the attach path, sizes.
      Empty when the loops run over exactly what is to be computed. Never on data. They come in an order that allows to
      test each as soon as its variables are known.
    - `nest.start`: what initialises a reduction, before loop `nest.loops[start.place]`: loops, values of the axes of
      the data, and guards of its own (`bound.infer.phases.start`).
- `b.allocated(T)`: a tuple of `Range`, one a dimension: element `T[x0, x1]` is kept at `x0 - min0, x1 - min1` of an
  array of the extents. Extents are free of loop variables (sizes only). Mins are in the leaves of the attach path of
  the stage (those that are not relaxed). The array lives for one iteration of the loop at `b.attach_path(stage)[0]`;
  at the root for the whole program. Placeholders and outputs of the schedule have their full shape, from 0. Every
  element read at a point where a consumer's body runs is in the array, and was computed before.
- `b.storage(T)`: the same as a map: `storage.index(point)` is the place of an element, `storage.coordinates(place)`
  the affine map back. With `infer_bound(..., compact=True)` the lattice of what is computed is folded out: the place is
  no longer the distance from the mins, and `b.allocated(T)` gives the coordinates of place 0 and the number of places.
- `b.slid(stage)`: the loops between the storage of a stage and the stage (`store_at`): what their iterations computed
  is kept, so `b.computed(T)` is what is new. `b.stored(leaf)`: the stages that have their storage directly inside a
  loop and are computed further in; that storage may be circular (`b.storage(T).folds`).
- `b.pieces(stage, most)`: a stage with a guard for its region as nests without it, one for each disjoint piece, where
  there are such (`bound.infer.answers.pieces`).
- `b.outside`: the accesses that leave their tensor, or may for some sizes or data: where nobody checks, they read
  other memory. Empty says that all are proved to be inside. Found when it is first asked for
  (`bound.infer.answers.outside`).
- `b.computed(T)`: the elements the nest computes, a `Region` over the fixed loop variables (`b.required(T)`: those
  that are needed).

A loop bound to a thread is to the nest what any loop is: one after another in `run`, at once on a device. A stage
whose storage is shared by threads that run around it (`shared` at a `threadIdx` loop) does not depend on these loop
variables; run again for each of them it computes the same again.
"""

from bound.infer.answers.outside import Outside
from bound.infer.answers.pieces import LoopOverhead, StagePiece, StagePieces
from bound.infer.answers.region import StageRegion
from bound.infer.infer_bound import BoundsMap, infer_bound
from bound.infer.phases.stage_bounds import ReductionInit, StageLoop, StageNest
from bound.infer.storage.storage import Storage, StorageAxis
from intset.deprecation import renamed

__all__ = [
    "BoundsMap",
    "LoopOverhead",
    "Outside",
    "ReductionInit",
    "StageLoop",
    "StageNest",
    "StagePiece",
    "StagePieces",
    "StageRegion",
    "Storage",
    "StorageAxis",
    "infer_bound",
]
__getattr__ = renamed(
    globals(),
    {
        "Loop": "StageLoop",
        "Nest": "StageNest",
        "Piece": "StagePiece",
        "Pieces": "StagePieces",
        "Start": "ReductionInit",
        "Work": "LoopOverhead",
    },
)
