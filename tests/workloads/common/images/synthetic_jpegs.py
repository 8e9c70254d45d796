"""JPEGs for tests: any size, chroma subsampling, colours and form; never two of the same content."""

import io

import cv2
import numpy as np
import simplejpeg
from PIL import Image


def pixels(seed: int, height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8: smooth colours, edges and noise, so that chroma upsampling and
    rounding show.
    """
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 255, (4, 5, 3)).astype(np.float32)
    image = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) + random.normal(
        0, 9, (height, width, 3)
    )
    image[height // 3 : height // 2, width // 4 : width // 2] = random.integers(0, 255, 3)
    return np.clip(image, 0, 255).astype(np.uint8)


def jpeg(seed: int, height: int, width: int, subsampling: str = "420", quality: int = 85) -> bytes:
    """A baseline colour JPEG; `subsampling` may be Gray."""
    image = pixels(seed, height, width)
    if subsampling == "Gray":
        return simplejpeg.encode_jpeg(
            np.ascontiguousarray(image[:, :, :1]), quality, "GRAY", "Gray"
        )
    return simplejpeg.encode_jpeg(image, quality, "RGB", subsampling)


def without(data: bytes, marker: int) -> bytes:
    """A JPEG without some segments of its header."""
    place, kept = 2, bytearray(data[:2])
    while data[place + 1] != 0xDA:
        stop = place + 2 + int.from_bytes(data[place + 2 : place + 4], "big")
        kept += b"" if data[place + 1] == marker else data[place:stop]
        place = stop
    return bytes(kept + data[place:])


def pillow(image: np.ndarray, mode: str = "RGB", kind: str = "JPEG", **options: object) -> bytes:
    """An image written by Pillow: progressive JPEGs, CMYK, PNG."""
    buffer = io.BytesIO()
    Image.fromarray(image, None if mode == "RGB" else mode).save(buffer, kind, **options)
    return buffer.getvalue()
