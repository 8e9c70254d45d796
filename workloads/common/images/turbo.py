"""What libjpeg-turbo has and simplejpeg does not offer, through ctypes: decoding a part of an image, and its coefficients.

The shared library is the one inside the `turbojpeg` wheel, or the system's. Where neither is there, or an image is of a
kind that it cannot crop, callers decode the whole image; the pixels are the same, since all of them are libjpeg-turbo with
its default settings (accurate DCT, smooth upsampling of colour).

API: TurboJPEG 3 (turbojpeg.h of libjpeg-turbo 3.0): a handle for each thread, `tj3SetCroppingRegion` after the header,
`tj3Transform` without output and with a filter that looks at the coefficients.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

_DECOMPRESS, _TRANSFORM = 1, 2
_NO_OUTPUT = 16
_PIXELS_RGB = 0
_SUBSAMPLING, _WIDTH, _HEIGHT, _PRECISION, _COLOURS, _LOSSLESS = 4, 5, 6, 7, 8, 15
_COLOURS_CROPPED = frozenset({0, 1, 2})
"""RGB, YCbCr and grey; CMYK is converted from the whole image."""
_BLOCK_WIDTHS = {0: 8, 1: 16, 2: 16, 3: 8, 4: 8, 5: 32}
"""Subsampling (4:4:4, 4:2:2, 4:2:0, grey, 4:4:0, 4:1:1) to the width in pixels of the units that a region begins with."""
_MARGIN = 2
"""Pixels beside a region that are decoded too: smooth upsampling of colour looks one sample, two pixels, to each side."""
_WARNING = 0
_WIDEST_UNIT = 4
"""Blocks beside each other in a unit, at most."""


class _Region(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("x", "y", "w", "h")]


class _Factor(ctypes.Structure):
    _fields_ = [("num", ctypes.c_int), ("denom", ctypes.c_int)]


_Filter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Region, _Region, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
"""Called with a row of blocks' coefficients, its region, its component's, the component's and the transform's numbers."""


class _Transform(ctypes.Structure):
    _fields_ = [
        ("region", _Region),
        ("operation", ctypes.c_int),
        ("options", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("filter", _Filter),
    ]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The shared library, None if there is none that can crop."""
    spec = importlib.util.find_spec("turbojpeg")
    folder = Path(spec.origin).parent / "turbojpeg.libs" if spec and spec.origin else Path("nowhere")
    bundled = [str(path) for path in sorted(folder.glob("libturbojpeg*.so*"))]
    system = ctypes.util.find_library("turbojpeg") if not bundled else None
    for name in [*bundled, *([system] if system else [])]:
        try:
            return _declare(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    return None


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Argument types; AttributeError for a library older than 3.0."""
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    lib.tj3Init.argtypes, lib.tj3Init.restype = [integer], pointer
    lib.tj3Destroy.argtypes, lib.tj3Destroy.restype = [pointer], None
    lib.tj3DecompressHeader.argtypes = [pointer, pointer, size]
    lib.tj3Get.argtypes = [pointer, integer]
    lib.tj3SetScalingFactor.argtypes = [pointer, _Factor]
    lib.tj3SetCroppingRegion.argtypes = [pointer, _Region]
    lib.tj3Decompress8.argtypes = [pointer, pointer, size, pointer, integer, integer]
    lib.tj3Transform.argtypes = [pointer, pointer, size, integer, pointer, pointer, ctypes.POINTER(_Transform)]
    lib.tj3GetErrorStr.argtypes, lib.tj3GetErrorStr.restype = [pointer], ctypes.c_char_p
    lib.tj3GetErrorCode.argtypes = [pointer]
    return lib


class DecoderWarning(ValueError):
    """What the library says of an image."""

    def __init__(self, text: str, warning: bool) -> None:
        super().__init__(text)
        self.warning = warning
        """True if the pixels were decoded nevertheless."""


class _Instance:
    """The library for one thread and purpose. Raises RuntimeError where there is none (see `library`)."""

    def __init__(self, purpose: int) -> None:
        lib = library()
        if lib is None:
            raise RuntimeError("no libturbojpeg that can decode a part of an image")
        self._lib = lib
        self._handle = lib.tj3Init(purpose)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.tj3Destroy(self._handle)

    def _complain(self) -> None:
        text = self._lib.tj3GetErrorStr(self._handle).decode("utf-8", "replace")
        raise DecoderWarning(text, self._lib.tj3GetErrorCode(self._handle) == _WARNING)


class RegionDecoder(_Instance):
    """A decoder for one thread."""

    def __init__(self) -> None:
        super().__init__(_DECOMPRESS)
        self._factors = {denominator: _Factor(1, denominator) for denominator in (1, 2, 4, 8)}
        self._whole = _Region(0, 0, 0, 0)

    def open(self, data: bytes | bytearray | memoryview) -> None:
        """Read the header of a JPEG, which `header` and `decode` are about then. Raises DecoderWarning."""
        self._data = np.frombuffer(data, np.uint8)
        self._lib.tj3SetCroppingRegion(self._handle, self._whole)
        if self._lib.tj3DecompressHeader(self._handle, self._data.ctypes.data, self._data.size):
            self._complain()

    def header(self) -> tuple[int, int, int]:
        """Width, height and the width of a unit in pixels (0: cannot be cropped)."""
        lib, handle = self._lib, self._handle
        width, height = lib.tj3Get(handle, _WIDTH), lib.tj3Get(handle, _HEIGHT)
        plain = lib.tj3Get(handle, _PRECISION) == 8 and lib.tj3Get(handle, _LOSSLESS) <= 0
        unit = _BLOCK_WIDTHS.get(lib.tj3Get(handle, _SUBSAMPLING), 0)
        return width, height, unit if plain and lib.tj3Get(handle, _COLOURS) in _COLOURS_CROPPED else 0

    def decode(
        self,
        header: tuple[int, int, int],
        box: tuple[int, int, int, int],
        room: Callable[[int], npt.NDArray[np.uint8]],
        denominator: int = 1,
    ) -> npt.NDArray[np.uint8]:
        """The pixels of `box` = (left, top, width, height): a view of `room`, which gives memory of so many bytes or more.

        `denominator` 2, 4 or 8 decodes at that fraction of the size; `box` counts pixels of the reduced image. Raises
        DecoderWarning.
        """
        lib, handle = self._lib, self._handle
        lib.tj3SetScalingFactor(handle, self._factors[denominator])
        left, top, width, height = box
        first, stop = self.columns(header, left, width, denominator)
        out = room(height * (stop - first) * 3)
        if lib.tj3SetCroppingRegion(handle, _Region(first, top, stop - first, height)):
            self._complain()
        if lib.tj3Decompress8(handle, self._data.ctypes.data, self._data.size, out.ctypes.data, 0, _PIXELS_RGB):
            self._complain()
        pixels = out[: height * (stop - first) * 3].reshape(height, stop - first, 3)
        return pixels[:, left - first : left - first + width]

    @staticmethod
    def columns(header: tuple[int, int, int], left: int, width: int, denominator: int) -> tuple[int, int]:
        """First and last column (not included) that are decoded for a box."""
        full_width, _, unit = header
        unit = max(1, unit // denominator)
        first = max(0, left - _MARGIN) // unit * unit
        return first, min(-(-full_width // denominator), left + width + _MARGIN)


class CoefficientReader(_Instance):
    """Quantised coefficients, for one thread."""

    def __init__(self) -> None:
        super().__init__(_TRANSFORM)

    def read(
        self, data: bytes | bytearray | memoryview, blocks: Sequence[tuple[int, int]]
    ) -> list[npt.NDArray[np.int16]]:
        """Of each component (rows, columns, 64), in natural order; `blocks` are rows and columns, whole units of the JPEG.

        Raises DecoderWarning, also for damage that a decoder would get over.
        """
        planes = [np.zeros((*shape, 64), np.int16) for shape in blocks]
        failed: list[BaseException] = []

        def look(row: int, region: _Region, whole: _Region, component: int, number: int, transform: int) -> int:
            """Copy a row, whose memory is filled up to whole units. Nothing may be raised through the library."""
            try:
                plane = planes[component]
                rows, columns, _ = plane.shape
                if not (region.y // 8 < rows and columns - _WIDEST_UNIT < region.w // 8 <= columns):
                    raise ValueError("another size than expected")
                ctypes.memmove(plane[region.y // 8].ctypes.data, row, plane.strides[0])
            except BaseException as error:
                failed.append(error)
                return -1
            return 0

        array = np.frombuffer(data, np.uint8)
        transform = _Transform(_Region(), 0, _NO_OUTPUT, None, _Filter(look))
        nothing, none = (ctypes.c_void_p * 1)(), (ctypes.c_size_t * 1)()
        wrong = self._lib.tj3Transform(
            self._handle, array.ctypes.data, array.size, 1, nothing, none, ctypes.byref(transform)
        )
        if failed and not isinstance(failed[0], ValueError | IndexError):
            raise failed[0]
        if failed:
            raise DecoderWarning(str(failed[0]), False)
        if wrong:
            self._complain()
        return planes
