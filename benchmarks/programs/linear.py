"""Products of matrices: matmul in tiles, attention, an LSTM."""

from typing import Any

from benchmarks.programs.program import Built, Program, threaded
from bound import te, tir

N = 512
HEADS, LENGTH, DEPTH, ROWS = 4, 256, 64, 16
STEPS, BATCH, HIDDEN = 16, 8, 128


def matmul(n: Any, parallel: bool) -> Built:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[0], 32)
    xo, xi = s[c].split(c.op.axis[1], 64)
    ko, ki = s[c].split(k, 16)
    s[c].reorder(yo, xo, ko, yi, ki, xi)
    s[c].vectorize(xi)
    threaded(s[c], yo, parallel)
    return Built(s, (a, b, c))


def attention(length: Any, parallel: bool) -> Built:
    """softmax(Q K' / 8) V for each head, the scores of `ROWS` rows at a time."""
    q = te.placeholder((HEADS, length, DEPTH), name="Q")
    kt = te.placeholder((HEADS, DEPTH, length), name="KT")
    v = te.placeholder((HEADS, length, DEPTH), name="V")
    d = te.reduce_axis((0, DEPTH), "d")
    scores = te.compute((HEADS, length, length), lambda h, i, j: te.sum(q[h, i, d] * kt[h, d, j], axis=d), name="S")
    jm = te.reduce_axis((0, length), "jm")
    top = te.compute((HEADS, length), lambda h, i: te.max(scores[h, i, jm], axis=jm), name="top")
    weights = te.compute(
        (HEADS, length, length), lambda h, i, j: te.exp((scores[h, i, j] - top[h, i]) * 0.125), name="E"
    )
    js = te.reduce_axis((0, length), "js")
    total = te.compute((HEADS, length), lambda h, i: te.sum(weights[h, i, js], axis=js), name="total")
    jo = te.reduce_axis((0, length), "jo")
    mixed = te.compute(
        (HEADS, length, DEPTH), lambda h, i, e: te.sum(weights[h, i, jo] * v[h, jo, e], axis=jo), name="mixed"
    )
    out = te.compute((HEADS, length, DEPTH), lambda h, i, e: mixed[h, i, e] / total[h, i], name="out")
    s = te.create_schedule(out.op)
    h, i, e = out.op.axis
    io, ii = s[out].split(i, ROWS)
    s[out].reorder(h, io, ii, e)
    s[out].vectorize(e)
    threaded(s[out], h, parallel)
    for stage in (scores, top, weights, total, mixed):
        s[stage].compute_at(s[out], io)
    s[scores].reorder(scores.op.axis[1], d, scores.op.axis[2])
    s[scores].vectorize(scores.op.axis[2])
    s[weights].vectorize(weights.op.axis[2])
    s[mixed].reorder(mixed.op.axis[1], jo, mixed.op.axis[2])
    s[mixed].vectorize(mixed.op.axis[2])
    return Built(s, (q, kt, v, out))


def lstm(parallel: bool) -> Built:
    """An LSTM over `STEPS` rows of inputs that were multiplied by their weights already; the gates are i, g, f, o."""
    x = te.placeholder((STEPS, BATCH, 4, HIDDEN), name="X")
    w = te.placeholder((4, HIDDEN, HIDDEN), name="W")
    state_c = te.placeholder((STEPS, BATCH, HIDDEN), name="state_c")
    state_h = te.placeholder((STEPS, BATCH, HIDDEN), name="state_h")
    zero = tir.const(0.0, "float32")
    init_c = te.compute((1, BATCH, HIDDEN), lambda t, n, h: zero, name="init_c")
    init_h = te.compute((1, BATCH, HIDDEN), lambda t, n, h: zero, name="init_h")
    k = te.reduce_axis((0, HIDDEN), "k")
    inner = te.compute(
        (STEPS, BATCH, 4, HIDDEN), lambda t, n, g, h: te.sum(state_h[t - 1, n, k] * w[g, k, h], axis=k), name="inner"
    )
    gates = te.compute((STEPS, BATCH, 4, HIDDEN), lambda t, n, g, h: inner[t, n, g, h] + x[t, n, g, h], name="gates")
    in_gate = te.compute((STEPS, BATCH, HIDDEN), lambda t, n, h: te.sigmoid(gates[t, n, 0, h]), name="in_gate")
    change = te.compute((STEPS, BATCH, HIDDEN), lambda t, n, h: te.tanh(gates[t, n, 1, h]), name="change")
    forget = te.compute((STEPS, BATCH, HIDDEN), lambda t, n, h: te.sigmoid(gates[t, n, 2, h]), name="forget")
    out_gate = te.compute((STEPS, BATCH, HIDDEN), lambda t, n, h: te.sigmoid(gates[t, n, 3, h]), name="out_gate")
    next_c = te.compute(
        (STEPS, BATCH, HIDDEN),
        lambda t, n, h: forget[t, n, h] * state_c[t - 1, n, h] + in_gate[t, n, h] * change[t, n, h],
        name="next_c",
    )
    next_h = te.compute(
        (STEPS, BATCH, HIDDEN), lambda t, n, h: out_gate[t, n, h] * te.tanh(next_c[t, n, h]), name="next_h"
    )
    scan_c, scan_h = te.scan([init_c, init_h], [next_c, next_h], [state_c, state_h], inputs=[x], name="lstm")
    s = te.create_schedule(scan_h.op)
    for gate in (gates, in_gate, change, forget, out_gate):
        s[gate].compute_inline()
    _, n, g, h = inner.op.axis
    s[inner].reorder(n, g, k, h)
    s[inner].vectorize(h)
    threaded(s[inner], n, parallel)
    return Built(s, (x, w, scan_c, scan_h))


PROGRAMS = {
    "matmul": Program(lambda p: matmul(N, p), "matmul", numbers=(N,), scales=True),
    "attention": Program(lambda p: attention(LENGTH, p), "attention", numbers=(LENGTH,), scales=True),
    "lstm": Program(lstm, "lstm"),
}
