"""Passes over loops: where they begin and end, what stands in front of them, in which order they run.

strength_reduction.py   `strength_reduce`: loops carry quotients and remainders. Guarantee: equal values at every width.
licm.py                 loop-invariant divisions, and `name_choices` for loop-invariant selects. Guarantee: nothing is
                        computed where it was not, or it has a value there.
unswitching.py          `hoist_expression`, `decide_rows`: loop-invariant conditions. Guarantee: the same stores in the
                        same order within each iteration.
index_set_splitting.py  `partition_loops`: an interior without conditions, and borders. Guarantee: the pieces are the
                        loop, in its order.
tightening.py           `reduce_loop_extents`, `follow_guards`: guards become ends of loops. Guarantee: only iterations
                        that do nothing are left out.
unrolling.py            `unroll`: unrolled loops of constant extent. Guarantee: the same stores in the same order.
delinearization.py      `run_over_digits`: a variable that is divided becomes its digits. Guarantee: the same order.
distribution.py, interchange.py, fusion.py
                        loops change places or join (`merge_adjacent_loops`). Guarantee: accesses to one element, one of
                        which stores, keep their order.
dependence.py           pairs of accesses to one element, and races of parallel loops.
"""
