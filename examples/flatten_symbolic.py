"""Flattening a matrix of symbolic size (the example of TVM's RFC on integer analysis): B[i] = A[i % n, i // n].

`n` is a size: at least 0, by declaration. Hence `i // n` and `i % n`, floor division and its remainder, are those of C.

    intset bounds examples/flatten_symbolic.py
    intset lower examples/flatten_symbolic.py
"""

from bound import te, tir
from lowering import lower

n = te.size_var("n")
A = te.placeholder((n, n), name="A")
B = te.compute((n * n,), lambda i: A[tir.floormod(i, n), tir.floordiv(i, n)], name="B")

s = te.create_schedule(B.op)

if __name__ == "__main__":
    print(lower(s, [A, B]))
