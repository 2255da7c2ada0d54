"""Images: resize with half pixels, roi_align."""

from typing import Any

import numpy as np

from examples.operators.common import INJECTIVE, Operator, Tensors, generic, thread_blocks
from lowering.tvm import te, tir

SIZE = (7, 9)  # of what resize makes
BINS, SAMPLES = 3, 2  # of roi_align: bins along a side, samples along a side of a bin


def _source(place: Any, of: Any, to: int) -> Any:
    """Where the middle of a pixel lies in the input."""
    return (place + tir.const(0.5, "float32")) * (tir.Cast("float32", of) / float(to)) - tir.const(0.5, "float32")


def _clamped(place: Any, extent: Any) -> Any:
    return te.max(te.min(place, extent - 1), 0)


def resize_nearest(data: te.Tensor) -> te.Tensor:
    """The nearest pixel: a float, rounded, is the index."""
    n, c, h, w = data.shape

    def element(b: Any, f: Any, y: Any, x: Any) -> Any:
        row, column = te.round(_source(y, h, SIZE[0])).astype("int32"), te.round(_source(x, w, SIZE[1])).astype("int32")
        return data[b, f, _clamped(row, h), _clamped(column, w)]

    return te.compute((n, c, *SIZE), element, name="resize", tag="injective")


def resize_bilinear(data: te.Tensor) -> te.Tensor:
    """Between the four pixels around."""
    n, c, h, w = data.shape

    def element(b: Any, f: Any, y: Any, x: Any) -> Any:
        row, column = _source(y, h, SIZE[0]), _source(x, w, SIZE[1])
        top, left = te.floor(row).astype("int32"), te.floor(column).astype("int32")
        down, right = row - top, column - left

        def pixel(dy: int, dx: int) -> Any:
            return data[b, f, _clamped(top + dy, h), _clamped(left + dx, w)]

        upper = pixel(0, 0) * (1.0 - right) + pixel(0, 1) * right
        lower = pixel(1, 0) * (1.0 - right) + pixel(1, 1) * right
        return upper * (1.0 - down) + lower * down

    return te.compute((n, c, *SIZE), element, name="resize", tag="injective")


def roi_align(data: te.Tensor, rois: te.Tensor) -> te.Tensor:
    """Means of samples in the bins of regions; a region is the number of its image and two corners."""
    _, c, h, w = data.shape
    sy, sx = te.reduce_axis((0, SAMPLES), "sy"), te.reduce_axis((0, SAMPLES), "sx")

    def between(image: Any, f: Any, y: Any, x: Any) -> Any:
        y, x = (te.max(te.min(p, tir.Cast("float32", n - 1)), 0.0) for p, n in ((y, h), (x, w)))
        top, left = te.floor(y).astype("int32"), te.floor(x).astype("int32")
        down, right = y - top, x - left

        def pixel(dy: int, dx: int) -> Any:
            return data[image, f, _clamped(top + dy, h), _clamped(left + dx, w)]

        upper = pixel(0, 0) * (1.0 - right) + pixel(0, 1) * right
        lower = pixel(1, 0) * (1.0 - right) + pixel(1, 1) * right
        return upper * (1.0 - down) + lower * down

    def element(r: Any, f: Any, i: Any, j: Any) -> Any:
        image = te.max(te.min(rois[r, 0].astype("int32"), data.shape[0] - 1), 0)
        x0, y0, x1, y1 = (rois[r, k] for k in range(1, 5))
        high, wide = (te.max(end - start, 1.0) / float(BINS) for start, end in ((y0, y1), (x0, x1)))
        y = y0 + high * (i + (sy + tir.const(0.5, "float32")) / float(SAMPLES))
        x = x0 + wide * (j + (sx + tir.const(0.5, "float32")) / float(SAMPLES))
        return te.sum(between(image, f, y, x) / float(SAMPLES * SAMPLES), axis=[sy, sx])

    return te.compute((rois.shape[0], c, BINS, BINS), element, name="roi_align")


def roi_align_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    s[outs[0]].parallel(s[outs[0]].fuse(*outs[0].op.axis[:2]))
    return s


def roi_align_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    held = s.cache_write(outs[0], "local")
    s[held].compute_at(s[outs[0]], thread_blocks(s, outs[0], 16))
    return s


def _places(of: int, to: int) -> Any:
    return (np.arange(to, dtype="float32") + np.float32(0.5)) * np.float32(of / np.float32(to)) - np.float32(0.5)


def _nearest(a: Any) -> Any:
    def near(of: int, to: int) -> Any:
        place = _places(of, to)
        away = np.where(place < 0, np.ceil(place - 0.5), np.floor(place + 0.5))  # halves are rounded away from 0
        return np.clip(away.astype(int), 0, of - 1)

    return a[:, :, near(a.shape[2], SIZE[0])][..., near(a.shape[3], SIZE[1])]


def _sampled(image: Any, y: Any, x: Any) -> Any:
    """The image (CHW) at all pairs of the places, between pixels."""
    rows, columns = image.shape[-2:]
    top, left = np.floor(y).astype(int), np.floor(x).astype(int)
    down, right = (y - top)[:, None], x - left

    def pixels(dy: int, dx: int) -> Any:
        return image[..., np.clip(top + dy, 0, rows - 1)[:, None], np.clip(left + dx, 0, columns - 1)]

    upper = pixels(0, 0) * (1 - right) + pixels(0, 1) * right
    return upper * (1 - down) + (pixels(1, 0) * (1 - right) + pixels(1, 1) * right) * down


def _bilinear(a: Any) -> Any:
    return np.stack([_sampled(image, _places(a.shape[2], SIZE[0]), _places(a.shape[3], SIZE[1])) for image in a])


def _roi_align(a: Any, rois: Any) -> Any:
    out = np.zeros((len(rois), a.shape[1], BINS, BINS), "float32")
    for r, (image, x0, y0, x1, y1) in enumerate(rois):
        image = a[int(np.clip(np.trunc(image), 0, len(a) - 1))]
        places = []
        for start, end, extent in ((y0, y1, a.shape[2]), (x0, x1, a.shape[3])):
            step = max(end - start, 1.0) / BINS
            middles = np.arange(BINS * SAMPLES) // SAMPLES + (np.arange(BINS * SAMPLES) % SAMPLES + 0.5) / SAMPLES
            places.append(np.clip(start + step * middles, 0, extent - 1))
        samples = _sampled(image, *places)
        out[r] = samples.reshape(-1, BINS, SAMPLES, BINS, SAMPLES).mean(axis=(2, 4))
    return out


F = "float32"
OPERATORS = {
    "resize_nearest": Operator(resize_nearest, (((2, 3, 5, 4), F),), ((1, 64, 56, 56),), _nearest, INJECTIVE),
    "resize_bilinear": Operator(resize_bilinear, (((2, 3, 5, 4), F),), ((1, 64, 56, 56),), _bilinear, INJECTIVE),
    "roi_align": Operator(
        roi_align,
        (((2, 3, 6, 7), F), ((4, 5), F)),
        ((1, 64, 56, 56), (16, 5)),
        _roi_align,
        {"generic": generic, "x86": roi_align_x86, "cuda": roi_align_cuda},
    ),
}
