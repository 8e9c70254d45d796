"""A smaller JPEG with the units that a part of an image needs, which any decoder reads; the file itself is left alone.

For each row of units it has a leading unit (see `record`), the bytes of the file as they are, the rest of the last byte, and a
restart marker. No coefficient changes, so neither does a pixel, except of the leading units.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from workloads.common.images.seek.record import HEADER, RecordHeader, assemble, segment_pieces

Box = tuple[int, int, int, int]
"""Left, top, width, height in pixels."""

WORTH = 0.9
"""An excerpt with more than this share of the units that would be read anyway is not worth its copy."""
MARGIN = 3
"""Pixels of the (reduced) image around a part: one for rounding, two that smooth upsampling of colour looks at."""


class Excerpt(NamedTuple):
    """A smaller JPEG with the pixels of a part."""

    data: bytearray
    header: tuple[int, int, int]
    """Width, height, and width of a unit in pixels."""
    left: int
    """To be taken from a column of the whole image for that of the excerpt; a multiple of eight, may be negative."""
    top: int


def cut_excerpt(
    data: memoryview, points: memoryview, box: Box, width: int, height: int, denominator: int
) -> Excerpt | None:
    """The part `box` of the JPEG `data` of `width` x `height` pixels, to be decoded at 1 / `denominator`; `points`: its record.

    None if it is not worth it, if the part is at the left edge, or if `points` are damaged or of another file.
    """
    if len(points) < HEADER.size:
        return None
    header = RecordHeader._make(HEADER.unpack_from(points))
    if crc32(points[4:]) != header.own_checksum:
        return None
    margin = MARGIN * denominator
    left, top, part_width, part_height = box
    if left < margin:  # the leading unit would be looked at
        return None
    segment_width = header.step * header.unit_width
    first_segment, stop_segment = (left - margin) // segment_width, -(-(left + part_width + margin) // segment_width)
    first_row = max(0, top - margin) // header.unit_height
    stop_row = -(-(top + part_height + margin) // header.unit_height)
    stop_segment, stop_row = min(header.segments, stop_segment), min(header.rows, stop_row)
    first_unit, stop_unit = first_segment * header.step, min(stop_segment * header.step, header.columns)
    columns = stop_unit - first_unit + 1
    if (stop_row - first_row) * columns > WORTH * stop_row * header.columns:
        return None
    if len(data) < header.file_bytes or crc32(data[: header.data_at]) != header.checksum:
        return None
    if struct.unpack_from(">HH", data, header.frame_at) != (height, width):
        return None
    dx, dy = (first_unit - 1) * header.unit_width, first_row * header.unit_height
    size = min(stop_unit * header.unit_width, width) - dx, min(stop_row * header.unit_height, height) - dy
    first, stop = first_row * header.segments, stop_row * header.segments
    firsts = slice(first + first_segment, stop, header.segments)
    stops = slice(first + stop_segment, stop + 1, header.segments)
    pieces = segment_pieces(data, points, header, firsts, stops)
    return Excerpt(assemble(data, points, header, pieces, columns, size), (*size, header.unit_width), dx, dy)
