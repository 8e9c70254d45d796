"""Random crops and flips of the reference, computed from hashes.

The random numbers are integer hashes of (seed, epoch, image), so crops and flips are identical in
every framework.

The crop follows `tf.image.sample_distorted_bounding_box` with the whole image as the only object,
as the reference calls it (imagenet_preprocessing.py). First the aspect ratio is drawn. Then the
height is drawn between the heights of the smallest and the largest area. Last, the position is
drawn. The height is therefore distributed uniformly, not the area.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Bools, Int64s
from workloads.common.randomness import bits, fold, integers, stream, uniform

ASPECTS = (0.75, 1.33)
"""Minimum and maximum aspect ratio (width / height) of a crop."""
LARGEST_AREA = 1.0
LEAST_COVERED = 0.1
"""Minimum fraction of the object, which is the whole image, that a crop must cover. A crop that
covers less is drawn again.
"""
ATTEMPTS = 100
"""Maximum number of attempts to draw a crop. If all attempts fail, the whole image is used."""


def crop_boxes(
    seed: int,
    epoch: int,
    images: npt.ArrayLike,
    widths: npt.ArrayLike,
    heights: npt.ArrayLike,
    area_minimum: float,
) -> Int64s:
    """Draw crops (n, 4) as left, top, width, height in pixels for images (n,).

    `widths` and `heights` are the sizes of the images in pixels.
    """
    image, width, height = (np.asarray(values, np.int64) for values in (images, widths, heights))
    boxes = np.stack([np.zeros_like(width), np.zeros_like(height), width, height], axis=1)
    key = stream(seed, "image crop", epoch)
    open_rows = np.arange(len(image))
    for attempt in range(ATTEMPTS):
        if not open_rows.size:
            break
        drawn, fits = _attempt(
            fold(key, attempt), image[open_rows], width[open_rows], height[open_rows], area_minimum
        )
        boxes[open_rows[fits]] = drawn[fits]
        open_rows = open_rows[~fits]
    return boxes


def flips(seed: int, epoch: int, images: npt.ArrayLike) -> Bools:
    """Return whether each image (n,) is flipped horizontally, with a probability of 50 %."""
    return integers(
        bits(stream(seed, "image flip", epoch), np.asarray(images, np.int64)), 2
    ).astype(bool)


def _attempt(
    key: np.uint64, image: Int64s, width: Int64s, height: Int64s, area_minimum: float
) -> tuple[Int64s, Bools]:
    """Draw boxes (n, 4) once, with a flag for each box that satisfies the crop conditions."""
    drawn = uniform(bits(key, np.arange(4)[:, None], image))
    aspect = ASPECTS[0] + (ASPECTS[1] - ASPECTS[0]) * drawn[0]
    area = (width * height).astype(np.float64)
    smallest, largest = area_minimum * area, LARGEST_AREA * area
    tallest = np.minimum(np.rint(np.sqrt(largest / aspect)), height)
    too_wide = np.rint(tallest * aspect) > width
    tallest = np.where(too_wide, np.floor((width + 0.4999999) / aspect), tallest)
    tallest -= np.rint(tallest * aspect) > width
    shortest = np.minimum(np.rint(np.sqrt(smallest / aspect)), tallest)
    box_height = shortest + np.floor(drawn[1] * (tallest - shortest + 1))
    box_width = np.rint(box_height * aspect)
    # Rounding may lead to an area slightly outside of the allowed range. As in the reference, the
    # height is then changed by one pixel.
    box_height += box_width * box_height < smallest
    box_width = np.rint(box_height * aspect)
    box_height -= box_width * box_height > largest
    box_width = np.rint(box_height * aspect)
    covered = box_width * box_height
    fits = (covered >= smallest) & (covered <= largest) & (covered >= LEAST_COVERED * area)
    fits &= (box_width <= width) & (box_height <= height) & (box_width >= 1) & (box_height >= 1)
    left = np.floor(drawn[2] * (width - box_width))
    top = np.floor(drawn[3] * (height - box_height))
    return np.stack([left, top, box_width, box_height], axis=1).astype(np.int64), fits
