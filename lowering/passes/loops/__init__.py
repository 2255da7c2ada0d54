"""Passes over loops: bounds, order, invariant code.

invariants.py           what a loop does not change moves in front of it: conditions (`hoist_expression`,
                        `decide_rows`), divisions, selects. Guarantee: equal stores, in order; moved code has a value.
index_set_splitting.py  `partition_loops`: an interior without conditions, and borders. Guarantee: each iteration runs
                        once, in order. `unroll`: loops of constant extent. Guarantee: equal stores, in order.
tightening.py           `reduce_loop_extents`, `follow_guards`: guards become ends of loops. Guarantee: only idle
                        iterations disappear.
interchange.py          loops trade places (`sequential_buffer_access`) or run over digits (`run_over_digits`).
fusion.py               loops join (`merge_adjacent_loops`), or statements get loops of their own. Guarantee of both
                        files: dependent accesses keep their order. Races of parallel loops: every race reported is one.
"""
