"""ResNet-50's 3x3 convolution on 1x64x56x56, its padding stage attached inside the tiles.

Each 14x14 tile of the output needs a 16x16 tile of the padded input, for 8 channels at a time: this `pad` stores.

    intset bounds examples/resnet_conv3x3.py
    intset lower examples/resnet_conv3x3.py
"""

from bound import infer_bound, te, tir
from lowering import lower

CHANNELS, FILTERS, SIZE, KERNEL, PAD = 64, 64, 56, 3, 1
TILE, CHANNEL_TILE = 14, 8

data = te.placeholder((1, CHANNELS, SIZE, SIZE), name="data")
weight = te.placeholder((FILTERS, CHANNELS, KERNEL, KERNEL), name="weight")

pad = te.compute(
    (1, CHANNELS, SIZE + 2 * PAD, SIZE + 2 * PAD),
    lambda n, c, y, x: tir.if_then_else(
        tir.all(y >= PAD, y < SIZE + PAD, x >= PAD, x < SIZE + PAD),
        data[n, c, y - PAD, x - PAD],
        tir.const(0.0, "float32"),
    ),
    name="pad",
)

rc = te.reduce_axis((0, CHANNELS), name="rc")
ry = te.reduce_axis((0, KERNEL), name="ry")
rx = te.reduce_axis((0, KERNEL), name="rx")
conv = te.compute(
    (1, FILTERS, SIZE, SIZE),
    lambda n, f, y, x: te.sum(pad[n, rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]),
    name="conv",
)

s = te.create_schedule(conv.op)
n, f, y, x = conv.op.axis
yo, xo, yi, xi = s[conv].tile(y, x, TILE, TILE)
rco, rci = s[conv].split(rc, factor=CHANNEL_TILE)
s[conv].reorder(n, yo, xo, rco, f, rci, ry, rx, yi, xi)
s[pad].compute_at(s[conv], rco)

if __name__ == "__main__":
    print(infer_bound(s).explain(pad))
    print(lower(s, [data, weight, conv]))
