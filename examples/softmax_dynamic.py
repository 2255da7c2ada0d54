"""A softmax over rows of dynamic length, each row's stages computed inside the loop over rows.

intset bounds examples/softmax_dynamic.py
intset bounds --at rows=32 --at n=1000 examples/softmax_dynamic.py
"""

from bound import te
from lowering import lower

rows = te.size_var("rows")
n = te.size_var("n")
x = te.placeholder((rows, n), name="x")

k = te.reduce_axis((0, n), name="k")
largest = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="largest")
power = te.compute((rows, n), lambda i, j: te.exp(x[i, j] - largest[i]), name="power")
k2 = te.reduce_axis((0, n), name="k2")
total = te.compute((rows,), lambda i: te.sum(power[i, k2], axis=k2), name="total")
softmax = te.compute((rows, n), lambda i, j: power[i, j] / total[i], name="softmax")

s = te.create_schedule(softmax.op)
i, j = softmax.op.axis
jo, ji = s[softmax].split(j, factor=64)
for stage in (largest, power, total):
    s[stage].compute_at(s[softmax], i)

if __name__ == "__main__":
    print(lower(s, [x, softmax]))
