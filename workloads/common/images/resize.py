"""Bilinear resizing into a slot of a batch, in a plain and a smooth variant.

The plain variant is for ResNet-50. Pixel centers are at half-integer coordinates, the four nearest
pixels are interpolated, and the image is not smoothed before shrinking. The plain variant equals
TensorFlow's current `tf.image.resize(method="bilinear", antialias=False)`, rounded to uint8, and
OpenCV's INTER_LINEAR. ResNet's reference calls a different function, the legacy
`tf.compat.v1.image.resize`, which places pixel centers at integer coordinates. If an image is
shrunk by a factor of s, the reference therefore samples the image (s - 1) / 2 pixels further up and
left (imagenet_preprocessing.py). The pixels of the plain variant and the reference differ by 1.3 of
255 levels on average (docs/reference/workloads/resnet50.md). The libraries that this module uses do
not implement the legacy function.

The smooth variant is for SSD. The smooth variant is Pillow's bilinear filter, whose triangle is as
wide as the source pixels that are merged into a pixel. SSD's reference resizes Pillow images
(utils.py, torchvision's `Resize`), so the smooth variant and the reference produce identical
pixels. For photographs of 640 x 480 resized to 300 x 300, the plain variant differs from the smooth
variant by 1.8 to 2.8 of 255 levels on average and by up to 128 levels at edges. OpenCV's INTER_AREA
differs from the smooth variant by 1.0 level on average. The smooth variant takes 1.5 ms per image,
and the plain variant takes 0.2 ms. The complete input pipeline with the smooth variant is still
more than twice as fast as torchvision's pipeline (benchmarks/coco_input.py).
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from workloads.common.arrays import Int64s, UInt8s


def resize_into(source: UInt8s, out: UInt8s, flip: bool = False) -> None:
    """Resize `source` (h, w, 3) to the size of `out`, and write the result to `out`.

    `out` (H, W, 3) must be contiguous. `flip` mirrors the image horizontally.
    """
    cv2.resize(source, (out.shape[1], out.shape[0]), dst=out, interpolation=cv2.INTER_LINEAR)
    if flip:
        cv2.flip(out, 1, dst=out)


def resize_smooth_into(source: UInt8s, out: UInt8s, flip: bool = False) -> None:
    """Resize like `resize_into`, but with Pillow's bilinear filter.

    The filter smooths the image when the image is shrunk. The function releases the GIL while
    resizing.
    """
    resized = np.asarray(
        Image.fromarray(source).resize((out.shape[1], out.shape[0]), Image.Resampling.BILINEAR)
    )
    if flip:
        cv2.flip(resized, 1, dst=out)
    else:
        out[:] = resized


def evaluation_size(height: int, width: int, shorter: int) -> tuple[int, int]:
    """Return (height, width) with a shorter side of about `shorter`.

    The aspect ratio is preserved. As in the reference (imagenet_preprocessing.py,
    `_smallest_size_at_least`), both sides are multiplied by the same float32 ratio and rounded
    down. For 1/8 of all image sizes, rounding reduces the shorter side to `shorter` - 1 (332 x 500
    becomes 255 x 385).
    """
    ratio = np.float32(shorter) / np.float32(min(height, width))
    return int(np.float32(height) * ratio), int(np.float32(width) * ratio)


def bounded_size(
    height: npt.ArrayLike, width: npt.ArrayLike, shorter: int, longest: int
) -> tuple[Int64s, Int64s]:
    """Return sizes with the shorter side `shorter` and the aspect ratios of the images.

    The shorter side is reduced further if the longer side would exceed `longest`. Rounding follows
    maskrcnn_benchmark (data/transforms/transforms.py, `Resize.get_size`): the longer side is
    rounded down, and a reduced shorter side is rounded to the nearest integer. The longer side may
    therefore exceed `longest` by half of the aspect ratio.
    """
    sides = np.stack(np.broadcast_arrays(np.asarray(height, np.int64), np.asarray(width, np.int64)))
    least, most = sides.min(0), sides.max(0)
    bounded = np.rint(longest * least.astype(np.float64) / most).astype(np.int64)
    short = np.where(most / least * shorter > longest, bounded, shorter)
    long = np.trunc(short * most / least).astype(np.int64)
    stands = sides[1] < sides[0]
    return np.where(stands, long, short), np.where(stands, short, long)


def central_into(source: UInt8s, out: UInt8s, shorter: int) -> None:
    """Resize an image to `evaluation_size`, and write the center to `out` (H, W, 3).

    H and W must not exceed the shorter side of the resized image.
    """
    height, width = evaluation_size(source.shape[0], source.shape[1], shorter)
    assert max(out.shape[:2]) <= min(height, width), (
        f"a centre of {out.shape[:2]} of images of {height} x {width}"
    )
    resized = cv2.resize(source, (width, height), interpolation=cv2.INTER_LINEAR)
    top, left = (height - out.shape[0]) // 2, (width - out.shape[1]) // 2
    out[:] = resized[top : top + out.shape[0], left : left + out.shape[1]]
