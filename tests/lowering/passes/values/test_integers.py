"""Integer parts of operands change under their own conditions, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from bound import te, tir
from lowering import lower, run


@pytest.mark.parametrize("nests", ["guard", "ends", "split", "partition", "auto"])
def test_an_index_under_a_selection_leaves_the_condition_as_it_is(nests: str) -> None:
    """`j < 3` and the index `j` share a node: the index alone may use the condition."""
    parts = [te.placeholder((4, n), name=f"P{n}") for n in (3, 5, 2)]

    def element(i: te.IterVar, j: te.IterVar) -> object:
        last = tir.if_then_else(j < 8, parts[1][i, j - 3], parts[2][i, j - 8])
        return tir.if_then_else(j < 3, parts[0][i, j], last)

    joined = te.compute((4, 10), element, name="joined")
    s = te.create_schedule(joined.op)
    s[joined].split(joined.op.axis[1], factor=8)
    arrays = {t.name: np.random.default_rng(k).random(tuple(map(int, t.shape))) for k, t in enumerate(parts)}
    result = run(lower(s, [*parts, joined], nests=nests), arrays)["joined"]
    np.testing.assert_array_equal(result, np.concatenate([a.astype("float32") for a in arrays.values()], axis=1))
