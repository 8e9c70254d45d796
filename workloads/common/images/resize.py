"""Resizing into a slot of a batch. Several things are called bilinear.

Plain, for ResNet-50: pixel centres at one half, the four neighbours of a place, no smoothing before shrinking. That is
TensorFlow's present `tf.image.resize(method="bilinear", antialias=False)`, rounded to uint8, and OpenCV's INTER_LINEAR. Not
its reference's: that calls the legacy `tf.compat.v1.image.resize`, whose pixels begin at whole numbers, so that an image
made smaller by s is sampled (s - 1) / 2 pixels further up and left (imagenet_preprocessing.py; docs/images.md has by how
much pixels differ). No library here has that one.

Smooth, for SSD: Pillow's, whose triangle becomes as wide as the pixels that are shrunk into one. Its reference resizes Pillow
images (utils.py, torchvision's `Resize`), so these are its pixels, bit for bit. On photographs of 640 x 480 made 300 x 300
the plain kind is 1.8 to 2.8 of 255 levels away on average and up to 128 at edges; OpenCV's INTER_AREA, another function,
1.0. Such an image takes 1.5 ms instead of 0.2; the whole input is still more than twice as fast as torchvision's
(benchmarks/coco_input.py).
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from workloads.common.arrays import Int64s, UInt8s


def resize_into(source: UInt8s, out: UInt8s, flip: bool = False) -> None:
    """Resize `source` (h, w, 3) to the size of `out` (H, W, 3, contiguous), in place; `flip` mirrors left and right."""
    cv2.resize(source, (out.shape[1], out.shape[0]), dst=out, interpolation=cv2.INTER_LINEAR)
    if flip:
        cv2.flip(out, 1, dst=out)


def resize_smooth_into(source: UInt8s, out: UInt8s, flip: bool = False) -> None:
    """`resize_into` with Pillow's bilinear, smooth where it shrinks; the interpreter lock is released meanwhile."""
    resized = np.asarray(Image.fromarray(source).resize((out.shape[1], out.shape[0]), Image.Resampling.BILINEAR))
    if flip:
        cv2.flip(resized, 1, dst=out)
    else:
        out[:] = resized


def evaluation_size(height: int, width: int, shorter: int) -> tuple[int, int]:
    """(height, width) with the shorter side about `shorter` and the aspect kept.

    As in the reference (imagenet_preprocessing.py, `_smallest_size_at_least`): both sides by one ratio in float32, rounded
    down, so that of one image size in eight the shorter side is `shorter` - 1 (332 x 500 becomes 255 x 385).
    """
    ratio = np.float32(shorter) / np.float32(min(height, width))
    return int(np.float32(height) * ratio), int(np.float32(width) * ratio)


def bounded_size(height: npt.ArrayLike, width: npt.ArrayLike, shorter: int, longest: int) -> tuple[Int64s, Int64s]:
    """Heights and widths with the shorter side `shorter`, or less where the longer one would be above `longest`, aspect kept.

    Rounding as in maskrcnn_benchmark (data/transforms/transforms.py, `Resize.get_size`): the longer side down, a limited
    shorter side to the nearest; so the longer one may pass `longest` by half of the aspect ratio.
    """
    sides = np.stack(np.broadcast_arrays(np.asarray(height, np.int64), np.asarray(width, np.int64)))
    least, most = sides.min(0), sides.max(0)
    bounded = np.rint(longest * least.astype(np.float64) / most).astype(np.int64)
    short = np.where(most / least * shorter > longest, bounded, shorter)
    long = np.trunc(short * most / least).astype(np.int64)
    stands = sides[1] < sides[0]
    return np.where(stands, long, short), np.where(stands, short, long)


def central_into(source: UInt8s, out: UInt8s, shorter: int) -> None:
    """Resize to `evaluation_size`, and write the centre to `out` (H, W, 3); H and W are at most its shorter side."""
    height, width = evaluation_size(source.shape[0], source.shape[1], shorter)
    assert max(out.shape[:2]) <= min(height, width), f"a centre of {out.shape[:2]} of images of {height} x {width}"
    resized = cv2.resize(source, (width, height), interpolation=cv2.INTER_LINEAR)
    top, left = (height - out.shape[0]) // 2, (width - out.shape[1]) // 2
    out[:] = resized[top : top + out.shape[0], left : left + out.shape[1]]
