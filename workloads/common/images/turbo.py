"""ctypes bindings to libjpeg-turbo's partial decoding, which simplejpeg lacks.

The shared library comes from the `turbojpeg` wheel or from the system. If both are missing, or if
the library cannot crop an image, callers decode the whole image. Partial and full decoding produce
the same pixels, because all decoders in this package are libjpeg-turbo with its default settings
(accurate DCT, smooth chroma upsampling).

The bindings use the API of TurboJPEG 3 (turbojpeg.h of libjpeg-turbo 3.0), with a handle for each
thread. `tj3SetCroppingRegion` is called after the header is read.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from workloads.common.arrays import UInt8s

_DECOMPRESS = 1
_PIXELS_RGB = 0
_SUBSAMPLING, _WIDTH, _HEIGHT, _PRECISION, _COLOURS, _LOSSLESS = 4, 5, 6, 7, 8, 15
_COLOURS_CROPPED = frozenset({0, 1, 2})
"""Color spaces of images that can be cropped: RGB, YCbCr, and gray. A CMYK image must be decoded
completely.
"""
_BLOCK_WIDTHS = {0: 8, 1: 16, 2: 16, 3: 8, 4: 8, 5: 32}
"""Alignment of a region's left edge in pixels, by chroma subsampling (4:4:4, 4:2:2, 4:2:0, gray,
4:4:0, 4:1:1).
"""
_MARGIN = 2
"""Number of additional pixels that are decoded on each side of a region. Smooth chroma upsampling
reads one additional chroma sample on each side of the region, which corresponds to two pixels.
"""
_WARNING = 0


class _Region(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("x", "y", "w", "h")]


class _Factor(ctypes.Structure):
    _fields_ = [("num", ctypes.c_int), ("denom", ctypes.c_int)]


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the shared library, or None if no available library can crop images."""
    spec = importlib.util.find_spec("turbojpeg")
    folder = (
        Path(spec.origin).parent / "turbojpeg.libs" if spec and spec.origin else Path("nowhere")
    )
    bundled = [str(path) for path in sorted(folder.glob("libturbojpeg*.so*"))]
    system = ctypes.util.find_library("turbojpeg") if not bundled else None
    for name in [*bundled, *([system] if system else [])]:
        try:
            return _declare(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    return None


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Set the argument types of the library's functions. Raise AttributeError before 3.0."""
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    lib.tj3Init.argtypes, lib.tj3Init.restype = [integer], pointer
    lib.tj3Destroy.argtypes, lib.tj3Destroy.restype = [pointer], None
    lib.tj3DecompressHeader.argtypes = [pointer, pointer, size]
    lib.tj3Get.argtypes = [pointer, integer]
    lib.tj3SetScalingFactor.argtypes = [pointer, _Factor]
    lib.tj3SetCroppingRegion.argtypes = [pointer, _Region]
    lib.tj3Decompress8.argtypes = [pointer, pointer, size, pointer, integer, integer]
    lib.tj3GetErrorStr.argtypes, lib.tj3GetErrorStr.restype = [pointer], ctypes.c_char_p
    lib.tj3GetErrorCode.argtypes = [pointer]
    return lib


class DecoderWarning(ValueError):
    """Error or warning that libjpeg-turbo reported for an image."""

    def __init__(self, text: str, warning: bool) -> None:
        super().__init__(text)
        self.warning = warning
        """True if the library decoded the pixels despite the problem."""


class RegionDecoder:
    """Decoder of image regions, for use in a single thread.

    The constructor raises RuntimeError if `library` returns None.
    """

    def __init__(self) -> None:
        lib = library()
        if lib is None:
            raise RuntimeError("libturbojpeg with support for partial decoding is not available")
        self._lib = lib
        self._handle = lib.tj3Init(_DECOMPRESS)
        self._data = np.empty(0, np.uint8)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.tj3Destroy(self._handle)

    def _complain(self) -> None:
        text = self._lib.tj3GetErrorStr(self._handle).decode("utf-8", "replace")
        raise DecoderWarning(text, self._lib.tj3GetErrorCode(self._handle) == _WARNING)

    def open(self, data: memoryview) -> tuple[int, int, int]:
        """Open a JPEG for `decode`, and return its width, height, and crop alignment.

        The three values are in pixels. The alignment is 0 if the image cannot be cropped. The
        method raises DecoderWarning for an invalid image.
        """
        lib, handle = self._lib, self._handle
        self._data = np.frombuffer(data, np.uint8)
        lib.tj3SetCroppingRegion(handle, _Region(0, 0, 0, 0))
        if lib.tj3DecompressHeader(handle, self._data.ctypes.data, self._data.size):
            self._complain()
        plain = lib.tj3Get(handle, _PRECISION) == 8 and lib.tj3Get(handle, _LOSSLESS) <= 0
        unit = _BLOCK_WIDTHS.get(lib.tj3Get(handle, _SUBSAMPLING), 0)
        cropped = plain and lib.tj3Get(handle, _COLOURS) in _COLOURS_CROPPED
        return lib.tj3Get(handle, _WIDTH), lib.tj3Get(handle, _HEIGHT), unit if cropped else 0

    def decode(
        self,
        header: tuple[int, int, int],
        box: tuple[int, int, int, int],
        room: Callable[[int], UInt8s],
        denominator: int = 1,
    ) -> UInt8s:
        """Decode the pixels of `box` = (left, top, width, height) in the opened JPEG.

        Args:
            header: Result of `open`.
            box: Region in pixels of the reduced image.
            room: Function that returns a buffer with at least the given number of bytes. The result
                of `decode` is a view of this buffer.
            denominator: 1 for the full image size. 2, 4, or 8 to decode at 1/2, 1/4, or 1/8 of the
                image size.

        Raises:
            DecoderWarning: The image cannot be decoded.
        """
        lib, handle = self._lib, self._handle
        full_width, _, unit = header
        left, top, width, height = box
        unit = max(1, unit // denominator)
        first = max(0, left - _MARGIN) // unit * unit
        columns = min(-(-full_width // denominator), left + width + _MARGIN) - first
        out = room(height * columns * 3)
        lib.tj3SetScalingFactor(handle, _Factor(1, denominator))
        if lib.tj3SetCroppingRegion(handle, _Region(first, top, columns, height)):
            self._complain()
        if lib.tj3Decompress8(
            handle, self._data.ctypes.data, self._data.size, out.ctypes.data, 0, _PIXELS_RGB
        ):
            self._complain()
        pixels = out[: height * columns * 3].reshape(height, columns, 3)
        return pixels[:, left - first : left - first + width]
