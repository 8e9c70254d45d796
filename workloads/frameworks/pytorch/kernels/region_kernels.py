"""Triton kernels for regions of feature maps and for polygons.

This module may be imported under the same conditions as triton_kernels.py.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _line(at, cells):  # type: ignore[no-untyped-def]
    """Return the two cells adjacent to a coordinate along an axis, and their weights.

    ROIAlign defines the cells and the weights.
    """
    inside = ((at >= -1) & (at <= cells)).to(tl.float32)
    at = tl.maximum(at, 0.0)
    low = tl.minimum(at.to(tl.int32), cells - 1)
    high = tl.minimum(low + 1, cells - 1)
    part = tl.where(high > low, at - low.to(tl.float32), 0.0)
    return low, high, (1 - part) * inside, part * inside


@triton.jit
def pool(  # type: ignore[no-untyped-def]
    cells, boxes, levels, pooled, number, stride, height, width, channels, of_image,
    BACK: tl.constexpr, SIDE: tl.constexpr, SAMPLES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute ROIAlign of the regions of level `number`.

    Each program computes one row of bins of one region. The feature map `cells` is (B, height,
    width, channels), and `pooled` is (B · of_image, SIDE, SIDE, channels). With BACK, `pooled`
    contains gradients. The kernel adds these gradients to `cells`, which is then the float32
    gradient of the feature map.
    """
    region = tl.program_id(0)
    if tl.load(levels + region) == number:
        row, at = tl.program_id(1), tl.arange(0, CHANNELS)
        valid = at < channels
        cells += (region // of_image).to(tl.int64) * height * width * channels
        pooled += (region.to(tl.int64) * SIDE + row) * SIDE * channels
        left, top = tl.load(boxes + region * 4) / stride, tl.load(boxes + region * 4 + 1) / stride
        right, bottom = (
            tl.load(boxes + region * 4 + 2) / stride,
            tl.load(boxes + region * 4 + 3) / stride,
        )
        across, down = tl.maximum(right - left, 1.0) / SIDE, tl.maximum(bottom - top, 1.0) / SIDE
        for column in range(SIDE):
            total = tl.zeros([CHANNELS], tl.float32)
            if BACK:
                total += tl.load(pooled + column * channels + at, mask=valid, other=0.0).to(
                    tl.float32
                )
                total /= SAMPLES * SAMPLES
            for sample in tl.static_range(SAMPLES * SAMPLES):
                y = top + (row + (sample // SAMPLES + 0.5) / SAMPLES) * down
                x = left + (column + (sample % SAMPLES + 0.5) / SAMPLES) * across
                first_row, last_row, upper, lower = _line(y, height)
                first_column, last_column, near, far = _line(x, width)
                for corner in tl.static_range(4):
                    place = (last_row if corner // 2 else first_row) * width
                    place += last_column if corner % 2 else first_column
                    weight = (lower if corner // 2 else upper) * (far if corner % 2 else near)
                    cell = cells + place * channels + at
                    if BACK:
                        tl.atomic_add(cell, total * weight, mask=valid)
                    else:
                        total += tl.load(cell, mask=valid, other=0.0).to(tl.float32) * weight
            if not BACK:
                total /= SAMPLES * SAMPLES
                tl.store(
                    pooled + column * channels + at, total.to(pooled.dtype.element_ty), mask=valid
                )


@triton.jit
def _vertex(points, place, edge, ratio):  # type: ignore[no-untyped-def]
    """Return a coordinate of a polygon's vertex, in fifths of a mask pixel."""
    moved = (tl.load(points + 2 * place) - edge) * ratio
    return (5.0 * moved.to(tl.float64) + 0.5).to(tl.int32)


@triton.jit
def _crossings(x, y, to_x, to_y, columns):  # type: ignore[no-untyped-def]
    """Find the pixel columns in which a polygon's edge crosses the column center.

    Coordinates are in fifths of a pixel. In column c, the edge crosses from x = 5 c + 2 to x = 5 c
    + 3.

    Returns:
        Whether the edge crosses the center of each column c of `columns`, and the smaller y of the
        two fifths. The edge is rasterized along its longer axis, as in COCO's mask tool.
    """
    wide, high = tl.abs(to_x - x), tl.abs(to_y - y)
    swap = ((wide >= high) & (x > to_x)) | ((wide < high) & (y > to_y))
    low_x, low_y = tl.where(swap, to_x, x), tl.where(swap, to_y, y)
    end_x, end_y = tl.where(swap, x, to_x), tl.where(swap, y, to_y)
    middle = 5 * columns + 2
    crosses = (tl.minimum(low_x, end_x) <= middle) & (tl.maximum(low_x, end_x) > middle)
    begin_x, begin_y = low_x.to(tl.float64), low_y.to(tl.float64)
    if wide >= high:
        slope = (end_y - low_y).to(tl.float64) / tl.maximum(wide, 1).to(tl.float64)
        steps = (middle - low_x).to(tl.float64)
        here = (begin_y + slope * steps + 0.5).to(tl.int32)
        lesser = tl.minimum(here, (begin_y + slope * (steps + 1.0) + 0.5).to(tl.int32))
    else:
        slope = (end_x - low_x).to(tl.float64) / high.to(tl.float64)
        rises = end_x > low_x
        # `steps` becomes the first step after the crossing. Rounding changes `steps` by at most
        # two.
        steps = (middle - low_x).to(tl.float64) + 0.5
        steps = tl.floor(tl.where(crosses, steps, 0.0) / tl.where(end_x == low_x, 1.0, slope)) - 1.0
        for _ in tl.static_range(3):
            reached = (begin_x + slope * steps + 0.5).to(tl.int32)
            steps += tl.where(tl.where(rises, reached > middle, reached <= middle), 0.0, 1.0)
        lesser = low_y + steps.to(tl.int32) - 1
    return crosses, lesser


@triton.jit
def draw_masks(  # type: ignore[no-untyped-def]
    boxes,
    labels,
    owners,
    points,
    polygon_ends,
    object_ends,
    out,
    regions,
    slots,
    objects,
    side,
    SIZE: tl.constexpr,
):
    """Draw the mask targets of positive regions, (B · slots, side, side) zeros and ones.

    The masks are bit-identical to COCO's masks (workloads/maskrcnn/masks.py, `targets`). Each mask
    is drawn by a separate program. A pixel is inside of a polygon if the polygon's edges cross the
    pixel's column above the pixel an odd number of times. The compiler must not fuse products and
    sums of float64.
    """
    slot = tl.program_id(0)
    image = slot // slots
    region = image * regions + slot - image * slots
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)
    mask = tl.zeros([SIZE, SIZE], tl.int32)
    if tl.load(labels + region) > 0:
        owner = image * objects + tl.load(owners + slot)
        left, top = tl.load(boxes + region * 4), tl.load(boxes + region * 4 + 1)
        across, down = tl.load(boxes + region * 4 + 2) - left, tl.load(boxes + region * 4 + 3) - top
        wide = (side / tl.maximum(across, 1.0).to(tl.float64)).to(tl.float32)
        high = (side / tl.maximum(down, 1.0).to(tl.float64)).to(tl.float32)
        polygon, stop = (
            tl.load(object_ends + owner - 1, mask=owner > 0, other=0),
            tl.load(object_ends + owner),
        )
        while polygon < stop:
            place, last = (
                tl.load(polygon_ends + polygon - 1, mask=polygon > 0, other=0),
                tl.load(polygon_ends + polygon),
            )
            x, y = _vertex(points, last - 1, left, wide), _vertex(points + 1, last - 1, top, high)
            odd = tl.zeros([SIZE, SIZE], tl.int32)
            while place < last:
                to_x, to_y = (
                    _vertex(points, place, left, wide),
                    _vertex(points + 1, place, top, high),
                )
                crosses, fifth = _crossings(x, y, to_x, to_y, columns)
                first = tl.minimum((tl.maximum(fifth - 2, 0) + 4) // 5, side)
                odd ^= (crosses[None, :] & (rows >= first[None, :])).to(tl.int32)
                x, y = to_x, to_y
                place += 1
            mask |= odd
            polygon += 1
    inside = (rows < side) & (columns[None, :] < side)
    at = slot.to(tl.int64) * side * side + rows * side + columns[None, :]
    tl.store(out + at, mask.to(tl.float32), mask=inside)
