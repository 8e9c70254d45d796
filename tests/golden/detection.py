"""Digests of SSD's crops, boxes, colors, resizing, priors, matches and weights.

They must be the same in every environment. The module needs NumPy, OpenCV and Pillow, which every
framework's environment contains.
"""

import cv2
import numpy as np

from tests.golden.randomness import digest
from workloads.common.images.resize import resize_smooth_into
from workloads.common.randomness import bits, uniform
from workloads.ssd import boxes, colours, crops, network, priors
from workloads.ssd.settings import DEMO_MODEL, REFERENCE_MODEL

IMAGES, OBJECTS = 4000, 3


def some_boxes() -> tuple[np.ndarray, np.ndarray]:
    """Return boxes of objects, and the end index of each image's boxes."""
    corners = uniform(bits(3, np.arange(IMAGES * OBJECTS * 4))).reshape(-1, 2, 2)
    return np.sort(corners, axis=1).reshape(-1, 4).astype(np.float32), np.arange(
        1, IMAGES + 1
    ) * OBJECTS


def augmentation() -> dict[str, str]:
    """Return the digests of both kinds of crops, the remaining objects, and colors."""
    corners, ends = some_boxes()
    images = np.arange(IMAGES)
    windows = crops.windows(1, 2, images, corners, ends, crops.CropRule())
    flips = crops.flips(1, 2, images)
    left = crops.inside(windows, flips, corners, np.ones(len(corners), np.int32), ends)
    demo = crops.windows(1, 2, images, corners, ends, crops.CropRule.of(DEMO_MODEL, 1))
    return {
        "windows": digest(windows),
        "windows of the demo": digest(demo),
        "flips": digest(flips),
        "objects inside": digest(*left),
        "pixels": digest(crops.pixels(windows, 300 + images, 700 - images % 500)),
        "colours": digest(*colours.draw(1, 2, images, REFERENCE_MODEL["jitter"])),
    }


def jittered() -> dict[str, str]:
    """Return the digest of a smooth image after ten color changes of all four kinds."""
    noise = integers_of(bits(9, np.arange(100 * 100 * 3))).reshape(100, 100, 3)
    image = cv2.resize(noise, (300, 300), interpolation=cv2.INTER_LINEAR)
    factors, orders = colours.draw(1, 2, np.arange(10), REFERENCE_MODEL["jitter"])
    for factor, order in zip(factors.tolist(), orders.tolist(), strict=True):
        colours.jitter(image, factor, order)
    return {"jittered image": digest(image)}


def resized() -> dict[str, str]:
    """Return the digest of noise that was reduced, enlarged, and reduced in one direction."""
    noise = integers_of(bits(8, np.arange(321 * 433 * 3))).reshape(321, 433, 3)
    out = [np.empty((*size, 3), np.uint8) for size in ((150, 150), (500, 500), (400, 300))]
    for number, image in enumerate(out):
        resize_smooth_into(noise[number:, 7:], image, flip=number == 1)
    return {"resized images": digest(*out)}


def integers_of(random: np.ndarray) -> np.ndarray:
    """Return the upper eight bits of random numbers."""
    return (random >> np.uint64(56)).astype(np.uint8)


def model_values() -> dict[str, str]:
    """Return the digests of priors, matched objects, and initial weights."""
    corners, ends = some_boxes()
    prior_boxes = priors.build(REFERENCE_MODEL)
    weights = [value for _, value in network.initial_weights(network.build(DEMO_MODEL), 1)]
    return {
        "priors": digest(prior_boxes.centres, prior_boxes.corners),
        "matches": digest(boxes.match(corners[: 20 * OBJECTS], ends[:20], prior_boxes)),
        "weights": digest(*weights),
    }


def digests() -> dict[str, str]:
    """Return all digests by name."""
    return {**augmentation(), **jittered(), **resized(), **model_values()}
