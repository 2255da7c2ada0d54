"""The tilings of a 3x3 convolution: for `intset space` and `intset explore`.

A tile of `ty` rows and `tx` columns is computed from a padded copy of the input that is kept for that tile.
"""

from bound import te, tir
from intset import Space
from lowering import Footprints, ModelledCost

N, CHANNELS = 56, 16
DIVISORS = [d for d in range(1, N + 1) if N % d == 0]

space = Space(
    {"ty": DIVISORS, "tx": DIVISORS, "unroll": [1, 2, 4]},
    where=["16 <= ty * tx <= 512", "tx % unroll == 0", "ty <= tx"],
)


def make(config):
    """The schedule at one configuration."""
    data = te.placeholder((CHANNELS, N, N), name="data")
    weight = te.placeholder((CHANNELS, 3, 3), name="weight")
    inside = lambda y, x: tir.all(y >= 1, y < N + 1, x >= 1, x < N + 1)  # noqa: E731
    pad = te.compute(
        (CHANNELS, N + 2, N + 2), lambda c, y, x: tir.if_then_else(inside(y, x), data[c, y - 1, x - 1], 0.0), name="pad"
    )
    c, ry, rx = (te.reduce_axis((0, extent), name=name) for extent, name in ((CHANNELS, "c"), (3, "ry"), (3, "rx")))
    conv = te.compute(
        (N, N), lambda y, x: te.sum(pad[c, y + ry, x + rx] * weight[c, ry, rx], axis=[c, ry, rx]), name="conv"
    )
    s = te.create_schedule(conv.op)
    y, x = conv.op.axis
    _, xo, _, xi = s[conv].tile(y, x, config["ty"], config["tx"])
    _, xu = s[conv].split(xi, factor=config["unroll"])
    s[conv].unroll(xu)
    s[pad].compute_at(s[conv], xo)
    return s, [data, weight, conv]


measure = Footprints() + ModelledCost()

if __name__ == "__main__":
    print(space.count(), "tilings, for instance", space.sample(3))
    print("measured at the first:", measure(make(next(iter(space)))))
