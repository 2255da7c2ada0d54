"""Passes over stores: which are needed, what elements hold, where storage lies.

reaching_values.py  what elements hold where they are read. Guarantee: a superset of the cases. `remove_assume`, refuted
                    assumptions, claims marked "proved". Guarantee: no mark without a proof. `with_bounds_checks`.
                    Guarantee: a nest that returns touched nothing outside of its tensors.
dead_code.py        `drop_dead`, `remove_no_op`, `drop_empty`, `drop_identities`. Guarantee: parameters end with the
                    same elements, -0.0 included. `remove_undef`. Guarantee: an unknown value becomes a known one,
                    never the reverse.
placement.py        `forward_copies`, `accumulate`, `rebase`. Guarantee: equal operations on each element, in order.
overcompute.py      guards dropped or added where the guarded stores do not matter. Guarantee: parameters end with the
                    same elements; every access that runs is in bounds.
"""
