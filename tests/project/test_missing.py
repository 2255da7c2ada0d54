"""What is left without islpy, and without z3: everything that does not need them; else a sound answer, and why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SETS = """
import sys
sys.modules["islpy"] = None
from intset import *
i, j = Var("i"), Var("j")
points = [(x, y) for x in range(8) for y in range(4) if 3 * x + 5 * y < 20]
taken = {7 * x - 9 * y for x, y in points}
for name in domain_names():
    ctx = Context({i: Range(0, 8), j: Range(0, 4)}, assume=[i * 3 + j * 5 < 20], domain=name)
    s, r = ctx.value_set(i * 7 - j * 9), ctx.image((i + j, i - j))
    both = (s, s | s, s & s, s | IntervalSet(0, 3), s & IntervalSet(-100, 100))
    assert all(v in one for v in taken for one in both), name
    for one in (r, r | r, r & r, r - ctx.image((i + 90, j)), r.project((0, 1)), r.hull()):
        assert all((x + y, x - y) in one for x, y in points), (name, one)
    try:
        assert r.count() == len({(x + y, x - y) for x, y in points}), name
    except CountError:
        assert not r.is_exact, name
    assert not r.is_empty and not s.is_empty and not s <= IntervalSet(1, 2)
    for refused in (r.sample, r.lexmin, r.pieces):
        try:
            found = refused()
        except UndecidedError:
            continue
        assert r.is_exact or refused == r.pieces, name
    assert ctx.prove(i + j < 9) and ctx.prove(i + j < 2).status == "refuted"
    assert ctx.prove(i + j < 9).certificate().check() and ctx.bounds(i * 7 - j * 9).certificate().check()
    pairs = ctx.relation((i,), (j,))
    assert all(pairs.contains((x,), (y,)) and pairs.inverse().contains((y,), (x,)) for x, y in points)
region = Context({i: Range(0, 10**6), j: Range(0, 10**6)}, domain="isl").image((i + j, i - j))
assert any("islpy cannot be imported" in note for note in region.notes), region.notes
n, m = ShapeVar("n"), ShapeVar("m")
asked = Context({i: Range(0, n)}, assume=[i * 2 < m]).prove((i * 5 // 3 + i // 2) * 3 < 6 * m)
assert asked.status != "refuted"
with using(tiers=("linear", "isl")):
    asked = Context({i: Range(0, 40), j: Range(0, 40)}).prove((i * 7 + j * 3) % 64 - i % 5 < 60)
assert asked.status == "unknown" and "islpy cannot be imported" in asked.reason, asked
"""

SCHEDULES = """
import sys
sys.modules["islpy"] = None
import numpy as np
from bound import infer_bound, te
from lowering import lower, run, to_c
A = te.placeholder((16, 16), name="A", dtype="int64")
B = te.compute((16, 16), lambda i, j: A[i, j] + 1, name="B")
C = te.compute((14, 14), lambda i, j: B[i, j] + B[i + 2, j + 1] + B[(i * 5 + j) % 7, j], name="C")
s = te.create_schedule(C.op)
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 4)
s[B].compute_at(s[C], yo)
b = infer_bound(s)
region = b.required(B)
assert region.is_exact or any("islpy cannot be imported" in note for note in region.notes), region.notes
f = lower(s, [A, C])
a = np.arange(256).reshape(16, 16)
c = np.zeros((14, 14), dtype=np.int64)
run(f, {"A": a, "C": c})
x, y = np.indices((14, 14))
assert (c == a[x, y] + a[x + 2, y + 1] + a[(x * 5 + y) % 7, y] + 3).all()
assert "C[" in to_c(f)
"""

NO_Z3 = """
import sys, threading
sys.modules["z3"] = None
threading.excepthook = lambda failure: sys.exit("a thread died")
from intset import *
i, j, k = Var("i"), Var("j"), Var("k")
ctx = Context({i: Range(0, 2**40), j: Range(0, 2**40), k: Range(0, 2**40)})
asked = ctx.prove((i * i * i + j * j * j).ne(k * k * k + 4))
assert asked.status == "unknown" and "z3 cannot be imported" in asked.reason, asked
assert ctx.prove(i + j >= 0) and ctx.bounds(i - j)[0] is const(1 - 2**40)
assert ctx.prove(i + j >= 0).certificate().check()
assert ctx.prove(i < j).certificate().check() and "No" in str(ctx.explain(i < j))
try:
    asked.certificate()
except InputError:
    pass
"""

COMMANDS = """
import sys
sys.modules[sys.argv[1]] = None
from lowering.cli import main
sys.exit(main(["bounds", "examples/resnet_conv3x3.py"]) or main(["lower", "examples/softmax_dynamic.py"]))
"""


def ran(code: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:] or done.stdout[-1000:]


@pytest.mark.parametrize("code", [SETS, SCHEDULES, NO_Z3], ids=["sets", "schedules", "z3"])
def test_the_rest_works(code: str) -> None:
    ran(code)


@pytest.mark.parametrize("library", ["islpy", "z3"])
def test_the_commands_work(library: str) -> None:
    ran(COMMANDS, library)
