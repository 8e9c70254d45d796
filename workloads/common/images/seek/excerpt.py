"""Decoding a part of a JPEG without reading what lies before and beside it.

Huffman codes can only be read from the beginning: each begins at some bit, and first coefficients are differences. Seek
points note, for places all over an image, at which bit a unit begins and what its differences start from. From them and
the bytes between them `Excerpt` builds a smaller JPEG of the units that a part needs, which any decoder reads: the header
with another size, and for each row of units

    a unit that nobody looks at, whose first coefficients are those that the following differences start from, and
    which is as many bits long as the bits that follow need to stay where they are in their bytes;
    the bytes of the file as they are; the rest of the last byte filled up; a restart marker.

No coefficient changes, so neither does a pixel, except of the unit in front. The file itself is left alone.
Records are made by `record` when data are prepared, and read for every crop: that is why they hold bytes ready to use.

Record: the struct _HEAD of a `_Head`, Huffman tables to put before the scan, then for each of its points (rows · segments,
and the end) `start` uint32 where the first whole byte behind the point is, `kind` uint8 = bits of the byte before it that
come before the point + 8 · bytes of its head, and the head, filled up to the longest.
"""

from __future__ import annotations

import functools
import itertools
import struct
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from workloads.common.images.seek.baseline import (
    END_OF_BLOCK,
    Baseline,
    Coefficients,
    HuffmanTable,
    NotBaseline,
    in_order,
    parse,
    unit_bits,
)
from workloads.common.images.turbo import CoefficientReader, Complaint

Box = tuple[int, int, int, int]
Piece = bytes | memoryview

SEGMENT_PIXELS = 64
"""About so many pixels in a row lie between two points. With twice as many, random crops take an eighth more time; records
have half the size (they take 4 % of a photograph's)."""
WORTH = 0.9
"""An excerpt with more than this share of the units that would be read anyway is not worth its copy."""
MARGIN = 3
"""Pixels of the (reduced) image around a part: one for rounding, two that smooth upsampling of colour looks at."""
LEAST_WIDTH = 32
"""Narrower images have no points: below five pixels colour is not smoothed, but in the wider excerpt it would be."""
LONGEST_SIDE = 65_000
"""Of a JPEG in pixels; the format ends at 65,535, libjpeg at 65,500."""
_RESTARTS = tuple(bytes([0xFF, 0xD0 + number]) for number in range(8))
_END = b"\xff\xd9"


def _filled(byte: int, phase: int) -> bytes:
    """The last byte of a segment of which `phase` bits count, the others filled up with ones."""
    byte |= 0xFF >> phase
    return b"\xff\0" if byte == 0xFF else bytes((byte,))


_TAILS = [_filled(byte, phase) for phase in range(8) for byte in range(256)]


class _Head(NamedTuple):
    """What a record begins with."""

    own_checksum: int
    """CRC-32 of the record behind it."""
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
    unit_height: int
    head_size: int
    """Bytes of the longest head."""


_HEAD = struct.Struct("<IIIIIIHHHHBBBB")


class Excerpt(NamedTuple):
    """A smaller JPEG with the pixels of a part."""

    data: bytearray
    header: tuple[int, int, int]
    """Width, height, and width of a unit in pixels."""
    left: int
    """To be taken from a column of the whole image for that of the excerpt; a multiple of eight, may be negative."""
    top: int


def excerpt(
    data: memoryview, points: memoryview, box: Box, width: int, height: int, denominator: int
) -> Excerpt | None:
    """The part `box` (left, top, width, height) of the JPEG `data` of `width` x `height` pixels, decoded at 1 / `denominator`.

    None if it is not worth it, if the part is at the left edge, or if `points` are damaged or of another file.
    """
    if len(points) < _HEAD.size:
        return None
    head = _Head._make(_HEAD.unpack_from(points))
    if crc32(points[4:]) != head.own_checksum:
        return None
    margin = MARGIN * denominator
    left, top, part_width, part_height = box
    if left < margin:  # the unit in front would be looked at
        return None
    segment_width = head.step * head.unit_width
    first_segment, stop_segment = (left - margin) // segment_width, -(-(left + part_width + margin) // segment_width)
    first_row, stop_row = max(0, top - margin) // head.unit_height, -(-(top + part_height + margin) // head.unit_height)
    stop_segment, stop_row = min(head.segments, stop_segment), min(head.rows, stop_row)
    first_unit, stop_unit = first_segment * head.step, min(stop_segment * head.step, head.columns)
    columns = stop_unit - first_unit + 1
    if (stop_row - first_row) * columns > WORTH * stop_row * head.columns:
        return None
    if len(data) < head.file_bytes or crc32(data[: head.data_at]) != head.checksum:
        return None
    if struct.unpack_from(">HH", data, head.frame_at) != (height, width):
        return None
    dx, dy = (first_unit - 1) * head.unit_width, first_row * head.unit_height
    size = min(stop_unit * head.unit_width, width) - dx, min(stop_row * head.unit_height, height) - dy
    first, stop = first_row * head.segments, stop_row * head.segments
    firsts = slice(first + first_segment, stop, head.segments)
    stops = slice(first + stop_segment, stop + 1, head.segments)
    pieces = _pieces(data, points, head, firsts, stops)
    return Excerpt(_joined(data, points, head, pieces, columns, size), (*size, head.unit_width), dx, dy)


def _joined(
    data: memoryview, points: memoryview, head: _Head, pieces: list[Piece], interval: int, size: tuple[int, int]
) -> bytearray:
    """The JPEG of `size` (width, height) made of pieces, each but the last followed by a restart marker."""
    pieces[-1] = _END
    header = [
        data[: head.scan_at],
        points[_HEAD.size : _HEAD.size + head.table_bytes],
        struct.pack(">HHH", 0xFFDD, 4, interval),
        data[head.scan_at : head.data_at],
    ]
    made = bytearray().join([*header, *pieces])
    struct.pack_into(">HH", made, head.frame_at, size[1], size[0])
    return made


def _pieces(
    data: memoryview, points: memoryview, head: _Head, firsts: slice, stops: slice, number: int = 0
) -> list[Piece]:
    """The bytes between points, and the restart marker `number`, `number` + 1, … behind each."""
    kinds_at = _HEAD.size + head.table_bytes + 4 * (head.rows * head.segments + 1)
    heads_at = kinds_at + head.rows * head.segments + 1
    starts, kinds = points[_HEAD.size + head.table_bytes : kinds_at].cast("I"), points[kinds_at:heads_at]
    fronts = range(heads_at + firsts.start * head.head_size, len(points), (firsts.step or 1) * head.head_size)
    restarts = itertools.cycle(_RESTARTS[number & 7 :] + _RESTARTS[: number & 7])
    pieces: list[Piece] = []
    for begin, begin_kind, end, end_kind, front, restart in zip(
        starts[firsts].tolist(),
        kinds[firsts].tolist(),
        starts[stops].tolist(),
        kinds[stops].tolist(),
        fronts,
        restarts,
        strict=False,
    ):
        phase, last, tail = end_kind & 7, data[end - 1], b""
        # A byte that both ends share is in the front already. One of ones stays, and is followed by its zeros.
        if phase and begin < end and (last or data[end - 2] != 0xFF):
            end, tail = end - 1, _TAILS[phase << 8 | last]
        pieces += points[front : front + (begin_kind >> 3)], data[begin:end], tail, restart
    return pieces


def record(data: bytes | memoryview, width: int, height: int, reader: CoefficientReader) -> bytes:
    """The seek points of a JPEG that is known to be `width` x `height`.

    Raises NotBaseline where there can be none, `turbo.Complaint` for a damaged file.
    """
    jpeg = parse(data)
    if (jpeg.width, jpeg.height) != (width, height):
        raise NotBaseline("another size than expected")
    if jpeg.width < LEAST_WIDTH:
        raise NotBaseline("narrow: smooth upsampling of colour has other rules there")
    coefficients = in_order(jpeg, reader.read(data, jpeg.blocks))
    columns, rows = jpeg.units
    unit_width, unit_height = jpeg.unit
    step = min(columns, max(1, SEGMENT_PIXELS // unit_width))
    segments = -(-columns // step)
    bits, last = unit_bits(jpeg, coefficients)
    ends = np.cumsum(bits)
    units = (np.arange(rows)[:, None] * columns + np.arange(0, columns, step)).ravel()
    places = np.append(np.where(units > 0, ends[units - 1], 0), ends[-1])
    scan = np.frombuffer(data, np.uint8)[jpeg.data_at :]
    raw = _raw_places(scan, places)
    before = [np.where(units > 0, values[units - 1], 0) for values in last]
    tables, heads = _heads(jpeg, before, places[:-1] & 7)
    whole, phase = scan[np.minimum(raw, len(scan) - 1)], places & 7
    fronts = [_front(*head, int(byte)) for head, byte in zip(heads, whole[:-1], strict=True)]
    skipped = np.where(phase > 0, 1 + (whole == 0xFF), 0)
    head_size = max(map(len, fronts))
    if head_size > 31:
        raise NotBaseline("units with too many blocks")
    described = _Head(
        own_checksum=0,
        checksum=crc32(data[: jpeg.data_at]),
        file_bytes=jpeg.data_at + int(raw[-1] + skipped[-1]),
        frame_at=jpeg.frame_at,
        scan_at=jpeg.scan_at,
        data_at=jpeg.data_at,
        columns=columns,
        segments=segments,
        rows=rows,
        table_bytes=len(tables),
        step=step,
        unit_width=unit_width,
        unit_height=unit_height,
        head_size=head_size,
    )
    sizes = np.array([*map(len, fronts), 0])
    arrays = [
        (jpeg.data_at + raw + skipped).astype("<u4").tobytes(),
        (phase + 8 * sizes).astype(np.uint8).tobytes(),
        *(front.ljust(head_size, b"\0") for front in fronts),
    ]
    content = b"".join([_HEAD.pack(*described)[4:], tables, *arrays])
    points = struct.pack("<I", crc32(content)) + content
    _check(memoryview(data), memoryview(points), described, jpeg, coefficients, reader)
    return points


def _check(
    data: memoryview,
    points: memoryview,
    head: _Head,
    jpeg: Baseline,
    coefficients: list[Coefficients],
    reader: CoefficientReader,
) -> None:
    """Read all coefficients again, each segment from its own point. Raises NotBaseline if they are not the file's.

    Counting bits trusts that codes are what they should be; some damage keeps a decoder going with others.
    """
    full = (head.segments - 1) * head.step
    whole = [slice(row * head.segments, (row + 1) * head.segments - 1) for row in range(head.rows)]
    groups = [(whole, head.step, slice(0, full))] if full else []
    groups.append(
        ([slice(head.segments - 1, head.rows * head.segments, head.segments)], head.columns - full, slice(full, None))
    )
    for firsts, width, of_row in groups:
        pieces: list[Piece] = []
        for some in firsts:
            stops = slice(some.start + 1, some.stop + 1, some.step)
            pieces += _pieces(data, points, head, some, stops, len(pieces) // 4)
        count, interval = len(pieces) // 4, width + 1
        columns = min(count, LONGEST_SIDE // (interval * head.unit_width))
        pieces += [piece for i in range(-count % columns) for piece in (*pieces[:3], _RESTARTS[(count + i) & 7])]
        size = columns * interval * head.unit_width, -(-count // columns) * head.unit_height
        made = _joined(data, points, head, pieces, interval, size)
        layout = replace(jpeg, width=size[0], height=size[1])
        try:
            found = in_order(layout, reader.read(made, layout.blocks))
        except Complaint as complaint:
            raise NotBaseline(f"codes that lead elsewhere ({complaint})") from None
        for mine, given in zip(found, coefficients, strict=True):
            shape = mine.shape[1:]
            again = mine.reshape(-1, interval, *shape)[:count, 1:]
            expected = given.reshape(head.rows, head.columns, *shape)[:, of_row].reshape(count, width, *shape)
            if not np.array_equal(again, expected):
                raise NotBaseline("codes that lead elsewhere")


def _raw_places(scan: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The byte of the scan in which each bit stands: after a byte of ones, a stuffed one of zeros does not count.

    The last place is the end of all units; raises NotBaseline unless the data end there too.
    """
    ones = np.flatnonzero(scan[:-1] == 0xFF)
    markers = ones[scan[ones + 1] != 0]
    if not markers.size or scan[markers[0] + 1] != _END[1]:
        raise NotBaseline("no end of the image after the only scan")
    stop = int(markers[0])
    ones = ones[ones < stop]
    counted = ones - np.arange(len(ones))
    if -(-int(places[-1]) // 8) != stop - len(ones):
        raise NotBaseline("another number of bits than expected")
    found = places // 8
    return np.asarray(found + np.searchsorted(counted, found, "left"))


def _heads(
    jpeg: Baseline, before: list[npt.NDArray[np.int64]], phases: npt.NDArray[np.int64]
) -> tuple[bytes, list[tuple[int, int]]]:
    """Segments of the extended tables, and for each point the bits (value, count) of its unit in front.

    The count is congruent to the point's phase modulo eight: superfluous coefficients of the first block see to that.
    """
    wanted: dict[int, set[int]] = {}
    for component, values in zip(jpeg.components, before, strict=True):
        found = {int(value).bit_length() for value in np.unique(np.abs(values))}
        wanted.setdefault(component.dc, set()).update(found, {0} if component.blocks > 1 else ())
    tables = {number: jpeg.tables[number].extended(sorted(symbols)) for number, symbols in wanted.items()}
    segments = b"".join(table.segment(number) for number, table in tables.items() if table is not jpeg.tables[number])
    first = jpeg.components[0]
    filler = _filler(jpeg.tables[16 + first.ac])
    inverse = pow(filler[1], -1, 8)
    ends = [_code(jpeg.tables[16 + component.ac], END_OF_BLOCK) for component in jpeg.components]
    flat = _join(_difference(tables[first.dc], 0), ends[0]) if first.blocks > 1 else (0, 0)
    grey = functools.reduce(_join, [ends[0], *[flat] * (first.blocks - 1)])
    differences = [functools.cache(functools.partial(_difference, tables[part.dc])) for part in jpeg.components]
    heads = []
    for values, phase in zip(np.stack(before, axis=1).tolist(), phases.tolist(), strict=True):
        front = differences[0](values[0])
        behind = grey
        for difference, value, end in zip(differences[1:], values[1:], ends[1:], strict=True):
            behind = _join(_join(behind, difference(value)), end)
        missing = (phase - front[1] - behind[1]) % 8
        for _ in range(missing * inverse % 8):
            front = _join(front, filler)
        heads.append(_join(front, behind))
    return segments, heads


def _filler(table: HuffmanTable) -> tuple[int, int]:
    """The bits of a coefficient that take an odd number of bits: up to seven of them fill up any phase."""
    sizes = [(table.codes[symbol][1] + symbol, symbol) for symbol in range(1, 11) if symbol in table.codes]
    odd = [(bits, symbol) for bits, symbol in sizes if bits % 2]
    if not odd:
        raise NotBaseline("a Huffman table without codes of odd length")
    bits, symbol = min(odd)
    return table.codes[symbol][0] << symbol, bits


def _difference(table: HuffmanTable, value: int) -> tuple[int, int]:
    """The bits of a first coefficient's difference: annex F.1.2.1."""
    category = abs(value).bit_length()
    code, bits = _code(table, category)
    return code << category | (value if value >= 0 else value + (1 << category) - 1), bits + category


def _code(table: HuffmanTable, symbol: int) -> tuple[int, int]:
    if symbol not in table.codes:
        raise NotBaseline("a Huffman table without a symbol that is needed")
    return table.codes[symbol]


def _join(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Bits one after the other."""
    return first[0] << second[1] | second[0], first[1] + second[1]


def _front(value: int, bits: int, byte: int) -> bytes:
    """A head of so many bits, completed by those of `byte` that belong to the segment behind it."""
    phase = bits & 7
    if phase:
        value = value << 8 - phase | byte & 0xFF >> phase
    return value.to_bytes(-(-bits // 8), "big").replace(b"\xff", b"\xff\0")
