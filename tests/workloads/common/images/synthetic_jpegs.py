"""JPEGs of any size, chroma subsampling, colors, and format. No two have equal content."""

import io

import cv2
import numpy as np
import simplejpeg
from PIL import Image


def pixels(seed: int, height: int, width: int) -> np.ndarray:
    """Return (height, width, 3) uint8: smooth colors, edges, and noise.

    Differences in chroma upsampling and rounding are visible in such an image.
    """
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 255, (4, 5, 3)).astype(np.float32)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) + random.normal(
        0, 9, (height, width, 3)
    )
    image[height // 3 : height // 2, width // 4 : width // 2] = random.integers(0, 255, 3)
    return np.clip(image, 0, 255).astype(np.uint8)


def jpeg(seed: int, height: int, width: int, subsampling: str = "420", quality: int = 85) -> bytes:
    """Return a baseline color JPEG. `subsampling` may be Gray."""
    image = pixels(seed, height, width)
    if subsampling == "Gray":
        return simplejpeg.encode_jpeg(
            np.ascontiguousarray(image[:, :, :1]), quality, "GRAY", "Gray"
        )
    return simplejpeg.encode_jpeg(image, quality, "RGB", subsampling)


def without(data: bytes, marker: int) -> bytes:
    """Return a JPEG without the segments of its header that have a marker."""
    position, kept = 2, bytearray(data[:2])
    while data[position + 1] != 0xDA:
        stop = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        kept += b"" if data[position + 1] == marker else data[position:stop]
        position = stop
    return bytes(kept + data[position:])


def pillow(image: np.ndarray, mode: str = "RGB", kind: str = "JPEG", **options: object) -> bytes:
    """Return an image written by Pillow, such as a progressive JPEG, CMYK, or PNG."""
    buffer = io.BytesIO()
    Image.fromarray(image, None if mode == "RGB" else mode).save(buffer, kind, **options)
    return buffer.getvalue()
