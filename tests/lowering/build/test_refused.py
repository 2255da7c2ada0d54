"""Questions that isl refuses are answered without it, lattices of hulls with undefined divisions among them."""

from __future__ import annotations

import numpy as np
import pytest

from bound import te
from intset import Context, Range, Var
from intset.domains.isl import bindings
from intset.domains.isl.presburger import Presburger, lattice_of
from intset.domains.isl.session import context, isl
from intset.linear.lattice import lattice
from intset.prover.proof import PROOFS
from lowering import lower, run
from tests.sweeps import daily

# Sets whose hulls have quantified variables that no division defines.
LOST = [(7, 7, 2, 5, 3, 5), (3, 7, 7, 4, 2, 2), (5, 5, 5, 3, 3, 3), (6, 7, 6, 5, 2, 2)]
METHODS = "Set.compute_divs Set.coalesce BasicSet.affine_hull Set.dim_max PwAff.coalesce".split()


@pytest.mark.parametrize(("a", "b", "c", "d", "e", "f"), daily(LOST, 2))
def test_the_lattice_of_a_hull_whose_quantified_variables_have_no_definition(
    a: int, b: int, c: int, d: int, e: int, f: int
) -> None:
    ends = f"0 <= x < {a} and 0 <= y < {b} and 0 <= q < {e}"
    text = f"{{ [i, j] : exists x, y, q : {ends} and i = {c}x + {d}q and j = ({e}x + {f}y) mod {a * b} }}"
    points = isl().Set.read_from_str(context(), text)
    with pytest.raises(isl().Error, match="unknown divs"):
        points.get_basic_sets()[0].affine_hull().get_constraints()
    own = [(c * x + d * q, (e * x + f * y) % (a * b)) for x in range(a) for y in range(b) for q in range(e)]
    found = lattice_of(Presburger(points, ()))
    assert found is not None and found[0] == lattice((0, 0), own)


@pytest.mark.parametrize("name", daily(METHODS, 2))
def test_a_question_is_answered_where_isl_refuses(
    name: str, monkeypatch: pytest.MonkeyPatch, refused: list[str]
) -> None:
    def refuse(*_: object) -> None:
        asked.append(name)
        raise bindings.Error("not today")

    asked: list[str] = []
    of, method = name.split(".")
    monkeypatch.setattr(getattr(isl(), of), method, refuse)
    PROOFS.clear()
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 9), j: Range(0, 4)}, assume=[i * 4 + j < 14])
    every = {(x * 6 + y * 4) // 5 for x in range(9) for y in range(4) if x * 4 + y < 14}
    low, high = ctx.bounds((i * 6 + j * 4) // 5, domain="isl")
    assert int(low) <= min(every) and max(every) <= int(high)
    box = ctx.image(((i * 6 + j * 4) // 5, i - j), domain="isl").box
    assert set(every) <= set(range(int(box[0].min), int(box[0].min) + int(box[0].extent)))
    source = te.placeholder((40,), name="A", dtype="int32")
    strided = te.compute((40,), lambda x: source[x] + 1, name="P")
    sums = te.compute((12,), lambda x: strided[x * 3] + strided[x * 3 // 2 * 2], name="C")
    s = te.create_schedule(sums.op)
    s[strided].compute_at(s[sums], s[sums].split(sums.op.axis[0], 4)[0])
    given, out = np.arange(40, dtype=np.int32), np.zeros(12, dtype=np.int32)
    run(lower(s, [source, sums]), {"A": given, "C": out})
    x = np.arange(12)
    assert (out == given[x * 3] + given[x * 3 // 2 * 2] + 2).all()
    assert asked
    refused.clear()
