"""Passes over stores: which are needed, what elements hold, where storage lies.

reaching_values.py     what elements hold where they are read. Guarantee: a superset of the cases.
dead_code.py           `drop_dead`, `remove_no_op`, `drop_empty`, `drop_identities`. Guarantee: parameters end with the
                       same elements, -0.0 included.
copy_elimination.py    `forward_copies`. Guarantee: the copy's target receives the same values.
scalar_replacement.py  `accumulate`. Guarantee: the same sequence of operations on each element.
overcompute.py         guards dropped or added where the guarded stores do not matter. Guarantee: parameters end with
                       the same elements; every access that runs is in bounds.
rebase.py              `rebase`: allocated storage counts from 0. Guarantee: the same element at the same place.
undef_removal.py       `remove_undef`. Guarantee: an unknown value becomes a known one, never the reverse.
assumptions.py         `remove_assume`, refuted assumptions, claims marked "proved". Guarantee: no mark without a proof.
"""
