"""Built-in measures: equal to what the packages answer, together as apart, also in another process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from bound import infer_bound, te
from intset import InputError
from lowering import Footprints, Lowering, ModelledCost, Timing, explore, lower
from lowering.explore.measures import source_of
from lowering.forms.model import modelled
from lowering.nest.walk import statements

N = 24


def tiled(config: dict[str, Any]) -> Any:
    """Two stages; the first is computed in tiles of the second."""
    A = te.placeholder((N, N), name="A")
    B = te.compute((N, N), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((N - 1, N - 2), lambda i, j: B[i, j] + B[i + 1, j + 2], name="C")
    s = te.create_schedule(C.op)
    o, _ = s[C].split(C.op.axis[0], factor=config["rows"])
    s[B].compute_at(s[C], o)
    return s, [A, C]


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 23])
def test_measures_are_the_answers_of_the_packages(rows: int) -> None:
    s, args = tiled({"rows": rows})
    b, f = infer_bound(s), lower(s, args)
    stored = (min(rows, N - 1) + 1) * N
    instances = -(-(N - 1) // rows)
    found = (Footprints() + ModelledCost() + Lowering())((s, args))
    B = next(stage.op.output(0) for stage in s.stages if stage.op.name == "B")
    assert found["bytes"] == found["bytes_B"] == 4 * stored
    assert found["elements_B"] == b.computed(B).count_total() and found["elements_B"] >= N * N - 4 + instances - 1
    assert found["cost"] == sum(modelled(f).values()) > 0
    assert found["statements"] == sum(1 for _ in statements(f.body)) and found["lower_seconds"] > 0
    alone = {**Footprints()(s), **ModelledCost()(f), **Lowering()((s, args))}
    assert alone.keys() == found.keys()
    assert {k: v for k, v in alone.items() if k != "lower_seconds"} == {
        k: v for k, v in found.items() if k != "lower_seconds"
    }


def test_measures_pickle_and_have_a_key() -> None:
    both = Footprints() + Timing(3, {"n": 8})
    assert source_of(pickle.loads(pickle.dumps(both))) == source_of(both)
    assert source_of(both) != source_of(Footprints() + Timing(4, {"n": 8}))
    assert source_of(Timing(3)) != source_of(Timing(3, {"n": 8})) and "Timing" in repr(both)


def test_an_exploration_in_two_processes_equals_one_in_this(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    space = [{"rows": k} for k in range(1, 9)]
    measure = Footprints() + ModelledCost()
    results = [explore(tiled, space, measure, n, out=tmp_path / str(n)) for n in (None, 2)]
    here, there = (
        sorted(result.to_arrow().drop_columns(["seconds"]).to_pylist(), key=lambda row: row["rows"])
        for result in results
    )
    assert here == there and [row["error"] for row in here] == [None] * 8
    assert results[0].best(1, by="bytes")[0]["rows"] == 1


def test_compiled_code_is_timed_at_sizes() -> None:
    n = te.size_var("n")
    A, I = te.placeholder((n,), name="A"), te.placeholder((n,), name="I", dtype="int32", value_range=(0, 7))
    C = te.compute((n,), lambda i: A[I[i]] + 1.0, name="C")
    s = te.create_schedule(C.op)
    found = (Timing(5) + Lowering({"n": 64}))((s, [A, I, C]))
    assert 0 < found["time"] < 1 and found["spread"] >= 0
    with pytest.raises(InputError, match="the size n is not given"):
        Timing(5)((s, [A, I, C]))


def test_what_cannot_be_measured_is_told() -> None:
    with pytest.raises(InputError, match="make must give a schedule"):
        Footprints()(3)
    with pytest.raises(InputError, match="bounds of a nest are not known"):
        Footprints()(lower(*tiled({"rows": 3})))
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(te.compute((n,), lambda i: B[i] + 1.0, name="C").op)
    with pytest.raises(InputError, match="B depends on sizes"):
        Footprints()(s)
    assert Footprints({"n": 10})(s)["bytes"] == 40
