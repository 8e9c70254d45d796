"""The record of a JPEG's seek points, and the smaller JPEG that is assembled with it.

Record: the struct HEADER of a `RecordHeader`, Huffman tables to put before the scan, then for each of its points (rows ·
segments, and the end) `start` uint32 where the first whole byte after the point is, `kind` uint8 = bits of the byte before it
that come before the point + 8 · bytes of its leading unit, and the leading unit, filled up to the longest.

A leading unit is a unit that nobody looks at. Its first coefficients are those that the following differences start from, and
it is as many bits long as the bits that follow need to stay where they are in their bytes.
"""

from __future__ import annotations

import itertools
import struct
from typing import NamedTuple

Piece = bytes | memoryview
"""Some bytes of a JPEG that is assembled."""

RESTARTS = tuple(bytes([0xFF, 0xD0 + number]) for number in range(8))
"""The markers that stand between segments, in turn."""
END = b"\xff\xd9"
_DEFINE_INTERVAL = 0xFFDD
PIECES_PER_SEGMENT = 4


def _filled(byte: int, phase: int) -> bytes:
    """The last byte of a segment of which `phase` bits count, the others filled up with ones."""
    byte |= 0xFF >> phase
    return b"\xff\0" if byte == 0xFF else bytes((byte,))


_TAILS = [_filled(byte, phase) for phase in range(8) for byte in range(256)]


class RecordHeader(NamedTuple):
    """What a record begins with."""

    own_checksum: int
    """CRC-32 of the record after it."""
    checksum: int
    """CRC-32 of the file up to its coded data."""
    file_bytes: int
    """Up to the end of the coded data."""
    frame_at: int
    """Where height and width stand."""
    scan_at: int
    data_at: int
    columns: int
    """Units in a row."""
    segments: int
    """Points in a row."""
    rows: int
    table_bytes: int
    step: int
    """Units between two points."""
    unit_width: int
    """Pixels."""
    unit_height: int
    lead_size: int
    """Bytes of the longest leading unit."""


HEADER = struct.Struct("<IIIIIIHHHHBBBB")


def segment_pieces(
    data: memoryview, points: memoryview, header: RecordHeader, firsts: slice, stops: slice, number: int = 0
) -> list[Piece]:
    """The segments of the JPEG `data` from points `firsts` to points `stops`, `PIECES_PER_SEGMENT` for each.

    They are: its leading unit, its bytes, the rest of its last byte, and the restart marker `number`, `number` + 1, …
    """
    kinds_at = HEADER.size + header.table_bytes + 4 * (header.rows * header.segments + 1)
    leads_at = kinds_at + header.rows * header.segments + 1
    starts, kinds = points[HEADER.size + header.table_bytes : kinds_at].cast("I"), points[kinds_at:leads_at]
    leads = range(leads_at + firsts.start * header.lead_size, len(points), (firsts.step or 1) * header.lead_size)
    restarts = itertools.cycle(RESTARTS[number & 7 :] + RESTARTS[: number & 7])
    pieces: list[Piece] = []
    for begin, begin_kind, end, end_kind, lead, restart in zip(
        starts[firsts].tolist(),
        kinds[firsts].tolist(),
        starts[stops].tolist(),
        kinds[stops].tolist(),
        leads,
        restarts,
        strict=False,
    ):
        phase, last, tail = end_kind & 7, data[end - 1], b""
        # A byte that both ends share is in the leading unit already. One of ones stays, and is followed by its zeros.
        if phase and begin < end and (last or data[end - 2] != 0xFF):
            end, tail = end - 1, _TAILS[phase << 8 | last]
        pieces += points[lead : lead + (begin_kind >> 3)], data[begin:end], tail, restart
    return pieces


def assemble(
    data: memoryview,
    points: memoryview,
    header: RecordHeader,
    pieces: list[Piece],
    interval: int,
    size: tuple[int, int],
) -> bytearray:
    """The JPEG of `size` (width, height) made of `pieces`, whose last becomes the end of the image; `interval` in units."""
    pieces[-1] = END
    front: list[Piece] = [
        data[: header.scan_at],
        points[HEADER.size : HEADER.size + header.table_bytes],
        struct.pack(">HHH", _DEFINE_INTERVAL, 4, interval),
        data[header.scan_at : header.data_at],
    ]
    jpeg = bytearray().join([*front, *pieces])
    struct.pack_into(">HH", jpeg, header.frame_at, size[1], size[0])
    return jpeg
