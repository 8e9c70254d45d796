"""Decodes image files to RGB, with libjpeg-turbo for JPEG and OpenCV for PNG.

The format is detected from the content of a file, not from its name.

`exact` decoding produces the pixels of libjpeg's default settings, for a whole image and for a
region. `scaled` decoding may decode at 1/2, 1/4, or 1/8 of the image size. `scaled` decoding is
faster than `exact` decoding and produces softer pixels. Both modes release the GIL. Errors are
raised as `BadImage`.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from workloads.common.arrays import UInt8s
from workloads.common.images import turbo
from workloads.files import open_stream

Box = tuple[int, int, int, int]
"""Box as (left, top, width, height) in pixels."""

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8"
"""First bytes of PNG and JPEG files."""
MAX_PIXELS = 100_000_000
"""Maximum number of pixels of an image. For an image of this size, each decoding thread needs
300 MB. ImageNet's largest image has about 61 million pixels.
"""
MAX_ASPECT = 100
"""Maximum ratio of an image's longer side to its shorter side. Evaluation resizes the shorter
side to 256 pixels, so the longer side then has at most 25,600 pixels.
"""
_HARMLESS = re.compile(
    r"extraneous bytes before marker|unknown JFIF revision|Unknown Adobe color transform",
    re.IGNORECASE,
)
"""Warnings of libjpeg that do not affect the pixels. All other warnings indicate damage."""


class BadImage(ValueError):
    """Error for an invalid image file.

    The message is a single line without the file name, which the caller adds.
    """


@dataclass(frozen=True)
class Header:
    """Properties of an image that are read without decoding the image."""

    width: int
    height: int
    kind: str
    """File format: `jpeg` or `png`."""
    colours: str
    """Color space: `rgb`, `grey`, or `cmyk`. All images are decoded to RGB."""


def read_header(data: bytes | memoryview) -> Header:
    """Return the header of an image file.

    `data` is the content of the file, or a sufficiently long prefix. The function raises BadImage
    for an invalid header.
    """
    start = bytes(data[:26])
    if not start:
        raise BadImage("empty (0 bytes)")
    if start.startswith(PNG):
        if len(start) < 26:
            raise BadImage("incomplete PNG header")
        width, height, _, colour = struct.unpack(">IIBB", start[16:26])
        return _checked(Header(width, height, "png", "grey" if colour in (0, 4) else "rgb"))
    if not start.startswith(JPEG):
        raise BadImage(f"neither a JPEG nor a PNG file (it begins with {start[:8]!r})")
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data, strict=False)
    except KeyError:  # simplejpeg raises KeyError if the header is incomplete.
        raise BadImage("damaged JPEG header (ends before it is complete)") from None
    except ValueError as error:
        raise BadImage(f"damaged JPEG header ({error})") from None
    return _checked(
        Header(
            width,
            height,
            "jpeg",
            {"Gray": "grey", "CMYK": "cmyk", "YCCK": "cmyk"}.get(colours, "rgb"),
        )
    )


def _checked(header: Header) -> Header:
    """Return `header`, or raise BadImage if the image is empty or too large."""
    width, height = header.width, header.height
    if min(width, height) < 1:
        raise BadImage(f"{width} x {height} pixels")
    if width * height > MAX_PIXELS:
        raise BadImage(
            f"{width:,} x {height:,} pixels, more than the maximum of {MAX_PIXELS:,} in total"
        )
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise BadImage(
            f"{width:,} x {height:,} pixels, more than the maximum aspect ratio of {MAX_ASPECT}"
        )
    return header


class Reader:
    """Reads and decodes images in a single thread.

    The reader reuses its buffers, which grow to the size of the largest image.

    A result of `read`, `decode`, or `decode_part` is valid until the next call of these methods.
    """

    def __init__(self) -> None:
        self._file = np.empty(1 << 18, np.uint8)
        self._pixels = np.empty(1 << 20, np.uint8)
        self._regions = turbo.RegionDecoder() if turbo.library() else None

    def read(self, path: str | Path, size: int | None = None) -> memoryview:
        """Return the content of a file.

        The method raises BadImage if the file is unreadable or not `size` bytes long.
        """
        try:
            with open_stream(path) as file:
                length = os.fstat(file.fileno()).st_size
                if size is not None and length != size:
                    raise BadImage(f"{length:,} bytes, but {size:,} when it was prepared")
                if length > self._file.size:
                    self._file = np.empty(length * 5 // 4, np.uint8)
                done = file.readinto(self._file.data[:length])  # type: ignore[attr-defined]
        except OSError as error:
            raise BadImage(f"cannot be read ({error.strerror})") from None
        if done < length:
            raise BadImage(f"ends after {done:,} of {length:,} bytes")
        return self._file.data[:length]

    def decode(self, data: memoryview) -> UInt8s:
        """Return a whole image as (height, width, 3) uint8 RGB, or raise BadImage."""
        header = read_header(data)
        if header.kind == "png":
            return _decode_png(data, header)
        if header.colours == "cmyk":
            return _decode_cmyk(data)
        return decode_jpeg(data, self._room(header.height * header.width * 3))

    def decode_part(
        self, data: memoryview, box: Box, width: int, height: int, denominator: int = 1
    ) -> UInt8s:
        """Return the pixels of the region `box` of an image, as uint8 RGB.

        `width` and `height` are the expected size of the image.

        With `denominator` 2, 4, or 8, the region of a JPEG is decoded at 1 / `denominator` of the
        image size (rounded outwards). For PNG and CMYK images, the denominator is ignored. The
        method raises BadImage if the image is invalid or has a different size than expected.
        """
        if self._regions is not None:
            part = self._decode_region(self._regions, data, box, width, height, denominator)
            if part is not None:
                return part
        header = read_header(data)
        _same_size(header.width, header.height, width, height)
        if denominator > 1 and header.kind == "jpeg" and header.colours != "cmyk":
            limits = (-(-height // denominator), -(-width // denominator))
            pixels = decode_jpeg(data, self._room(limits[0] * limits[1] * 3), limits)
            box = reduced(box, denominator)
        else:
            pixels = self.decode(data)
        left, top, box_width, box_height = box
        return pixels[top : top + box_height, left : left + box_width]

    def _decode_region(
        self,
        regions: turbo.RegionDecoder,
        data: memoryview,
        box: Box,
        width: int,
        height: int,
        denominator: int,
    ) -> UInt8s | None:
        """Decode a region of a JPEG with a library that decodes only that region.

        The method returns None if the library cannot crop this image.
        """
        if bytes(data[:2]) != JPEG or not _has_tables(data):
            return None
        try:
            header = regions.open(data)
            _same_size(header[0], header[1], width, height)
            return (
                regions.decode(header, reduced(box, denominator), self._room, denominator)
                if header[2]
                else None
            )
        except turbo.DecoderWarning as error:
            if error.warning and _HARMLESS.search(str(error)):
                return None
            raise BadImage(f"damaged JPEG ({error})") from None

    def _room(self, size: int) -> UInt8s:
        """Return the pixel buffer, enlarged to at least `size` bytes."""
        if size > self._pixels.size:
            self._pixels = np.empty(size, np.uint8)
        return self._pixels


def _has_tables(data: memoryview) -> bool:
    """Return whether a JPEG contains its decoding tables.

    Without decoding tables in the file, the library would use the tables of the previously decoded
    file. The pixels would then depend on the order of the files.
    """
    for part in (data[:4096], data):
        start = bytes(part)
        if b"\xff\xc4" in start and b"\xff\xdb" in start:
            return True
    return False


def reduced(box: Box, denominator: int) -> Box:
    """Scale a box to the pixels of an image at 1 / `denominator` of its size.

    The edges of the box are rounded outwards.
    """
    left, top, width, height = box
    right, bottom = -(-(left + width) // denominator), -(-(top + height) // denominator)
    left, top = left // denominator, top // denominator
    return left, top, right - left, bottom - top


def decode_jpeg(data: memoryview, room: UInt8s, size: tuple[int, int] | None = None) -> UInt8s:
    """Decode a JPEG that is not CMYK into the buffer `room`.

    `size` is the (height, width) of a reduced image. The function also raises BadImage for
    recoverable errors, unless an error does not affect the pixels.
    """
    height, width = size or (0, 0)
    options = {"min_height": height, "min_width": width, "buffer": room}
    try:
        try:
            return np.asarray(simplejpeg.decode_jpeg(data, **options))
        except ValueError as error:
            if not _HARMLESS.search(str(error)):
                raise
        return np.asarray(simplejpeg.decode_jpeg(data, strict=False, **options))
    except ValueError as error:
        raise BadImage(f"damaged JPEG ({error})") from None


def _decode_png(data: memoryview, header: Header) -> UInt8s:
    """Decode a PNG to RGB with 8 bits per channel. An alpha channel is removed."""
    pixels = cv2.imdecode(
        np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    )
    if pixels is None:
        raise BadImage("damaged PNG")
    _same_size(pixels.shape[1], pixels.shape[0], header.width, header.height)
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


def _decode_cmyk(data: memoryview) -> UInt8s:
    """Decode a CMYK or YCCK JPEG to RGB.

    JPEGs with Adobe's marker contain inverted inks: red = C·K / 255.
    """
    try:
        inks = simplejpeg.decode_jpeg(data, colorspace="CMYK")
    except ValueError as error:
        raise BadImage(f"damaged JPEG ({error})") from None
    if b"\xff\xee\x00\x0eAdobe" not in bytes(data[:65536]):
        inks = 255 - inks
    return np.asarray(
        cv2.multiply(inks[:, :, :3], cv2.merge([inks[:, :, 3]] * 3), scale=1 / 255), np.uint8
    )


def _same_size(width: int, height: int, expected_width: int, expected_height: int) -> None:
    if (width, height) != (expected_width, expected_height):
        raise BadImage(f"{width} x {height} pixels instead of {expected_width} x {expected_height}")
