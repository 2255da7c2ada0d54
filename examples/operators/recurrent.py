"""An LSTM: a scan over time with two states."""

from typing import Any

import numpy as np

from examples.operators.common import Operator, Tensors, generic
from lowering.tvm import te, tir


def lstm(x: te.Tensor, w: te.Tensor, u: te.Tensor) -> te.Tensor:
    """The hidden states after each step.

    Parameters
    ----------
    x: inputs, (steps, batch, features); the states before the first step are 0.
    w, u: weights of inputs and of hidden states, (4, hidden, features) and (4, hidden, hidden): the gates of input,
        forgetting, the cell and output.
    """
    steps, batch, features = x.shape
    hidden = u.shape[1]
    h = te.placeholder((steps + 1, batch, hidden), name="h")
    c = te.placeholder((steps + 1, batch, hidden), name="c")
    zero = [te.compute((1, batch, hidden), lambda *i: tir.const(0.0, x.dtype), name=f"{n}_init") for n in "hc"]
    p, q = te.reduce_axis((0, features), "p"), te.reduce_axis((0, hidden), "q")
    shape = (steps + 1, batch, 4, hidden)
    given = te.compute(
        (steps, batch, 4, hidden), lambda t, b, g, i: te.sum(x[t, b, p] * w[g, i, p], axis=p), name="given"
    )
    kept = te.compute(shape, lambda t, b, g, i: te.sum(h[t - 1, b, q] * u[g, i, q], axis=q), name="kept")
    gates = te.compute(shape, lambda t, b, g, i: given[t - 1, b, g, i] + kept[t, b, g, i], name="gates")
    cell = te.compute(
        (steps + 1, batch, hidden),
        lambda t, b, i: (
            te.sigmoid(gates[t, b, 1, i]) * c[t - 1, b, i] + te.sigmoid(gates[t, b, 0, i]) * te.tanh(gates[t, b, 2, i])
        ),
        name="cell",
    )
    state = te.compute(
        (steps + 1, batch, hidden), lambda t, b, i: te.sigmoid(gates[t, b, 3, i]) * te.tanh(cell[t, b, i]), name="state"
    )
    scanned, _ = te.scan(zero, [state, cell], [h, c], inputs=[given, u], name="lstm")
    return te.compute((steps, batch, hidden), lambda t, b, i: scanned[t + 1, b, i], name="states")


def _stages(out: te.Tensor) -> dict[str, te.Tensor]:
    """All stages by name, from the output."""
    found: dict[str, te.Tensor] = {}
    waiting = [out]
    while waiting:
        t = waiting.pop()
        if t.op.name not in found:
            found[t.op.name] = t
            waiting += [*t.op.input_tensors, *getattr(t.op, "update", ())]
    return found


def lstm_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    stages = _stages(outs[0])
    s[stages["gates"]].compute_inline()
    s[stages["given"]].parallel(s[stages["given"]].op.axis[0])
    kept = stages["kept"]
    _, b, g, _ = s[kept].op.axis
    s[kept].parallel(s[kept].fuse(b, g))
    for name in ("cell", "state"):
        stage = s[stages[name]]
        stage.vectorize(stage.split(stage.op.axis[2], factor=4)[1])
    return s


def lstm_cuda(outs: Tensors) -> te.Schedule:
    """Threads run over hidden units in each step."""
    s = generic(outs)
    stages = _stages(outs[0])
    s[stages["gates"]].compute_inline()
    for name in ("given", "kept", "cell", "state", "states"):
        stage = s[stages[name]]
        block, thread = stage.split(stage.op.axis[-1], factor=4)
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(thread, te.thread_axis("threadIdx.x"))
    return s


def _lstm(x: Any, w: Any, u: Any) -> Any:
    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    h = c = np.zeros((x.shape[1], u.shape[1]), x.dtype)
    states = []
    for step in x:
        gates = np.einsum("bp,gip->gbi", step, w) + np.einsum("bq,giq->gbi", h, u)
        c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * np.tanh(gates[2])
        h = sigmoid(gates[3]) * np.tanh(c)
        states.append(h)
    return np.stack(states)


F = "float32"
OPERATORS = {
    "lstm": Operator(
        lstm,
        (((4, 2, 3), F), ((4, 5, 3), F), ((4, 5, 5), F)),
        ((16, 4, 64), (4, 64, 64), (4, 64, 64)),
        _lstm,
        {"generic": generic, "x86": lstm_x86, "cuda": lstm_cuda},
    )
}
