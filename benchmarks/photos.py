"""Made-up photographs for benchmarks of reading images."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg


def photo(seed: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    """(height, width, 3) with a photograph's spectrum: noise at several scales, edges, grain."""
    random = np.random.default_rng(seed)
    image = np.full((height, width, 3), 128, np.float32)
    for cells, strength in ((4, 60), (16, 35), (64, 22), (250, 10)):
        noise = random.normal(0, strength, (cells * height // width, cells, 3)).astype(np.float32)
        image += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(14):
        colour = [float(value) for value in random.integers(0, 255, 3)]
        place, end = ([int(value) for value in random.integers(0, width, 2)] for _ in range(2))
        if random.random() < 0.5:
            cv2.circle(image, place, int(random.integers(8, 90)), colour, -1)
        else:
            cv2.line(image, place, end, colour, int(random.integers(1, 9)))
    image += random.normal(0, 7, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def jpeg(seed: int, height: int, width: int, quality: int) -> bytes:
    """Such a photograph as a JPEG, colour at half the resolution."""
    encoded: bytes = simplejpeg.encode_jpeg(photo(seed, height, width), quality, "RGB", "420")
    return encoded
