"""Passes over loops: bounds, order, invariant code, strength reduction.

strength_reduction.py   `strength_reduce`: loops carry quotients and remainders. Guarantee: equal values at every width.
licm.py                 loop-invariant divisions and selects. Guarantee: moved code has a value in front of the loop.
unswitching.py          `hoist_expression`, `decide_rows`: loop-invariant conditions. Guarantee: equal stores, in order.
index_set_splitting.py  `partition_loops`: an interior without conditions, and borders. Guarantee: each iteration runs
                        once, in order.
tightening.py           `reduce_loop_extents`, `follow_guards`: guards become ends of loops. Guarantee: only idle
                        iterations disappear.
unrolling.py            `unroll`: loops of constant extent. Guarantee: equal stores, in order.
delinearization.py      `run_over_digits`: a divided variable becomes its digits. Guarantee: equal stores, in order.
distribution.py, interchange.py, fusion.py
                        statements get loops of their own, loops trade places (`sequential_buffer_access`) or join
                        (`merge_adjacent_loops`). Guarantee: dependent accesses keep their order.
races.py                races of parallel loops. Guarantee: every race reported is one.
"""
