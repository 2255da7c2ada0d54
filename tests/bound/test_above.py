"""What the layer of loop nests provides: named in an error before it is imported, there afterwards."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from bound import infer_bound, te
from intset import InputError
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i], name="B")
s = te.create_schedule(B.op)
b = te.schedule.InferBound(s)
questions = (lambda: infer_bound(s, compute="auto"), lambda: te.schedule.ScheduleOps(s, b))
for ask in questions:
    try:
        ask()
    except InputError as error:
        print(error)
print("<table" in b._repr_html_(), "<table" in s._repr_html_(), {m for m in sys.modules if m.startswith("lowering")})
import lowering
print(sorted(questions[0]().forms))
print(questions[1]())
"""


def test_each_function_needs_its_layer() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        'compute="auto" is chosen by the cost model of loop nests: import lowering first',
        "ScheduleOps builds a loop nest: import lowering first",
        "True True set()",
        "['B']",
        "for i in [0, 8):",
        "    B[i] = A[i]",
    ], done.stderr
