"""`sequential_buffer_access`, and parallel loops whose iterations touch one element: nests, refusals, results."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bound import te
from bound.errors import ScheduleError
from lowering import lower, parse_nest
from lowering.passes.loops.fusion import races
from tests.sweeps import daily


def scan(parallel_over_time: bool) -> Any:
    x, state = te.placeholder((8, 4), name="X"), te.placeholder((8, 4), name="state")
    first = te.compute((1, 4), lambda _, i: x[0, i], name="first")
    following = te.compute((8, 4), lambda t, i: state[t - 1, i] + x[t, i], name="following")
    result = te.scan(first, following, state, inputs=[x], name="result")
    s = te.create_schedule(result.op)
    if parallel_over_time:
        s[result].parallel(result.op.scan_axis)
    else:
        s[following].parallel(following.op.axis[1])
    return s


def test_a_scan_over_time_is_not_parallel() -> None:
    with pytest.raises(ScheduleError, match=r"stage result: iterations of result.idx run in parallel, but .* result\["):
        lower(scan(True))
    assert "parallel" in str(lower(scan(False)))


def test_elements_chosen_by_data_are_the_word_of_the_user() -> None:
    at = te.placeholder((8,), "int32", name="at", value_range=(0, 15))
    a = te.placeholder((16,), name="A")
    b = te.compute((8,), lambda i: a[at[i]], name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    assert "parallel" in str(lower(s))
    scattered = "def f(at: int32[8], B: float32[16]):\n    for i in [0, 8) parallel:\n        B[at[i]] = 1.0\n"
    assert not list(races(parse_nest(scattered)))


@pytest.mark.parametrize("seed", daily(range(300), 10))
def test_random_loops_against_their_elements(seed: int) -> None:
    """What is refused is refused for two iterations that meet; what is not has none. Also without the first answer."""
    rng = random.Random(seed)
    n, m = rng.randint(1, 6), rng.randint(1, 4)

    def index(*names: str) -> str:
        terms = [f"{rng.choice((0, 0, 1, 1, 1, 2, m, -1))} * {name}" for name in names]
        text = " + ".join((*terms, str(rng.randint(10, 14))))
        return rng.choice((text, text, f"({text}) // 2", f"({text}) % 5", f"min({text}, 13)"))

    store, load = (tuple(index("i", "j", "o") for _ in range(2)) for _ in range(2))
    guard = rng.choice(("", f"if j < {rng.randint(0, 3)}:", f"if i + j >= {rng.randint(0, 3)}:"))
    pad = "            " + ("    " if guard else "")
    lines = ["def F(A: float32[64, 64]):", "    for o in [0, 2):", f"        for i in [0, {n}) parallel:"]
    lines += [f"            for j in [0, {rng.choice((str(m), 'i + 1', f'min({m}, {n} - i)'))}):"]
    lines += [f"                {guard}"] if guard else []
    lines.append(f"    {pad}A[{', '.join(store)}] = A[{', '.join(load)}] + 1.0")
    f = parse_nest("\n".join(lines) + "\n")

    def value(text: str, i: int, j: int, o: int) -> int:
        return int(eval(text, {"i": i, "j": j, "o": o, "min": min}))

    end = lines[3].split("[0, ")[1][:-2]
    met: set[Any] = set()
    for o in range(2):
        stores: dict[Any, set[int]] = {}
        touches: dict[Any, set[int]] = {}
        for i in range(n):
            for j in range(value(end, i, 0, o)):
                if guard and not value(guard[3:-1], i, j, o):
                    continue
                at, read = (tuple(value(e, i, j, o) for e in place) for place in (store, load))
                stores.setdefault(at, set()).add(i)
                touches.setdefault(at, set()).add(i)
                touches.setdefault(read, set()).add(i)
        met |= {(p, a, b) for p, who in stores.items() for a in who for b in touches[p] if a != b}
    found = list(races(f))
    assert len(found) == bool(met), f
    for race in found:
        if race.element is not None and race.iterations is not None:
            a, b = race.iterations
            assert {(race.element, a, b), (race.element, b, a)} & met
