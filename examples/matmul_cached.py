"""A tiled matrix product with a cached operand: a tile of B is copied once for each tile of C and step of k.

100 is no multiple of 32: what is copied, and where it is stored, is exact at the edges as well.

    intset bounds examples/matmul_cached.py
    intset lower --emit c examples/matmul_cached.py
"""

from bound import te
from lowering import lower

M, N, K = 128, 100, 96
TILE, STEP = 32, 16

A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
k = te.reduce_axis((0, K), name="k")
C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

s = te.create_schedule(C.op)
cached = s.cache_read(B, "local", [C])
i, j = s[C].op.axis
io, jo, ii, ji = s[C].tile(i, j, TILE, TILE)
ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=STEP)
s[C].reorder(io, jo, ko, ii, ki, ji)
s[cached].compute_at(s[C], ko)

if __name__ == "__main__":
    print(lower(s, [A, B, C]))
