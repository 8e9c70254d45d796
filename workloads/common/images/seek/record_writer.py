"""Making the record of a JPEG's seek points when data are prepared.

Huffman codes can only be read from the beginning: each begins at some bit, and first coefficients are differences. Seek
points note, for places all over an image, at which bit a unit begins and what its differences start from. Records are read
for every crop: that is why they hold bytes ready to use.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
import numpy.typing as npt

from workloads.common.images.seek.baseline import Baseline, parse
from workloads.common.images.seek.bit_counts import Coefficients, Int64s, in_order, unit_bits
from workloads.common.images.seek.huffman import END_OF_BLOCK, HuffmanTable, NotBaseline
from workloads.common.images.seek.record import (
    END,
    HEADER,
    PIECES_PER_SEGMENT,
    RESTARTS,
    Piece,
    RecordHeader,
    assemble,
    segment_pieces,
)
from workloads.common.images.turbo import CoefficientReader, DecoderWarning

SEGMENT_PIXELS = 64
"""About so many pixels in a row lie between two points. With twice as many, random crops take an eighth more time; records
have half the size (they take 4 % of a photograph's)."""
LEAST_WIDTH = 32
"""Narrower images have no points: below five pixels colour is not smoothed, but in the wider excerpt it would be."""
LONGEST_SIDE = 65_000
"""Of a JPEG in pixels; the format ends at 65,535, libjpeg at 65,500."""
LONGEST_LEAD = 31
"""Bytes of a leading unit: five bits of a point's `kind`."""

Bits = tuple[int, int]
"""Value and count of some bits."""


def make_record(data: bytes | memoryview, width: int, height: int, reader: CoefficientReader) -> bytes:
    """The seek points of a JPEG that is known to be `width` x `height`.

    Raises NotBaseline where there can be none, `turbo.DecoderWarning` for a damaged file.
    """
    jpeg = parse(data)
    if (jpeg.width, jpeg.height) != (width, height):
        raise NotBaseline("another size than expected")
    if jpeg.width < LEAST_WIDTH:
        raise NotBaseline("narrow: smooth upsampling of colour has other rules there")
    coefficients = in_order(jpeg, reader.read(data, jpeg.blocks))
    columns, rows = jpeg.units
    step = min(columns, max(1, SEGMENT_PIXELS // jpeg.unit[0]))
    bits, last = unit_bits(jpeg, coefficients)
    ends = np.cumsum(bits)
    units = (np.arange(rows)[:, None] * columns + np.arange(0, columns, step)).ravel()
    places = np.append(np.where(units > 0, ends[units - 1], 0), ends[-1])
    scan = np.frombuffer(data, np.uint8)[jpeg.data_at :]
    raw = _raw_places(scan, places)
    before = [np.where(units > 0, values[units - 1], 0) for values in last]
    tables, lead_bits = _leading_units(jpeg, before, places[:-1] & 7)
    whole, phase = scan[np.minimum(raw, len(scan) - 1)], places & 7
    leads = [_lead_bytes(*lead, int(byte)) for lead, byte in zip(lead_bits, whole[:-1], strict=True)]
    skipped = np.where(phase > 0, 1 + (whole == 0xFF), 0)
    lead_size = max(map(len, leads))
    if lead_size > LONGEST_LEAD:
        raise NotBaseline("units with too many blocks")
    header = RecordHeader(
        own_checksum=0,
        checksum=crc32(data[: jpeg.data_at]),
        file_bytes=jpeg.data_at + int(raw[-1] + skipped[-1]),
        frame_at=jpeg.frame_at,
        scan_at=jpeg.scan_at,
        data_at=jpeg.data_at,
        columns=columns,
        segments=-(-columns // step),
        rows=rows,
        table_bytes=len(tables),
        step=step,
        unit_width=jpeg.unit[0],
        unit_height=jpeg.unit[1],
        lead_size=lead_size,
    )
    points = _packed(header, tables, jpeg.data_at + raw + skipped, phase, leads)
    _check(memoryview(data), memoryview(points), header, jpeg, coefficients, reader)
    return points


def _packed(header: RecordHeader, tables: bytes, starts: Int64s, phases: Int64s, leads: Sequence[bytes]) -> bytes:
    """The record of points that start at bytes `starts` of the file (points,), `phases` bits before them."""
    sizes = np.array([*map(len, leads), 0])
    arrays = [
        starts.astype("<u4").tobytes(),
        (phases + 8 * sizes).astype(np.uint8).tobytes(),
        *(lead.ljust(header.lead_size, b"\0") for lead in leads),
    ]
    content = b"".join([HEADER.pack(*header)[4:], tables, *arrays])
    return struct.pack("<I", crc32(content)) + content


def _check(
    data: memoryview,
    points: memoryview,
    header: RecordHeader,
    jpeg: Baseline,
    coefficients: list[Coefficients],
    reader: CoefficientReader,
) -> None:
    """Read all coefficients again, each segment from its own point. Raises NotBaseline if they are not the file's.

    Counting bits trusts that codes are what they should be; some damage keeps a decoder going with others.
    """
    for firsts, width, span in _equally_wide(header):
        pieces: list[Piece] = []
        for some in firsts:
            stops = slice(some.start + 1, some.stop + 1, some.step)
            pieces += segment_pieces(data, points, header, some, stops, len(pieces) // PIECES_PER_SEGMENT)
        count, interval = len(pieces) // PIECES_PER_SEGMENT, width + 1
        columns = min(count, LONGEST_SIDE // (interval * header.unit_width))
        pieces += [piece for i in range(-count % columns) for piece in (*pieces[:3], RESTARTS[(count + i) & 7])]
        size = columns * interval * header.unit_width, -(-count // columns) * header.unit_height
        joined = assemble(data, points, header, pieces, interval, size)
        layout = replace(jpeg, width=size[0], height=size[1])
        try:
            again = in_order(layout, reader.read(joined, layout.blocks))
        except DecoderWarning as error:
            raise NotBaseline(f"codes that lead elsewhere ({error})") from None
        for mine, original in zip(again, coefficients, strict=True):
            shape = mine.shape[1:]
            read = mine.reshape(-1, interval, *shape)[:count, 1:]
            expected = original.reshape(header.rows, header.columns, *shape)[:, span].reshape(count, width, *shape)
            if not np.array_equal(read, expected):
                raise NotBaseline("codes that lead elsewhere")


def _equally_wide(header: RecordHeader) -> Iterator[tuple[list[slice], int, slice]]:
    """Segments by their width: the points that they begin at, units of each, their columns. A row's last may be narrower."""
    full = (header.segments - 1) * header.step
    if full:
        whole = [slice(row * header.segments, (row + 1) * header.segments - 1) for row in range(header.rows)]
        yield whole, header.step, slice(0, full)
    last = slice(header.segments - 1, header.rows * header.segments, header.segments)
    yield [last], header.columns - full, slice(full, None)


def _raw_places(scan: npt.NDArray[np.uint8], places: Int64s) -> Int64s:
    """The byte of the scan in which each bit stands: after a byte of ones, a stuffed one of zeros does not count.

    The last place is the end of all units; raises NotBaseline unless the data end there too.
    """
    ones = np.flatnonzero(scan[:-1] == 0xFF)
    markers = ones[scan[ones + 1] != 0]
    if not markers.size or scan[markers[0] + 1] != END[1]:
        raise NotBaseline("no end of the image after the only scan")
    stop = int(markers[0])
    ones = ones[ones < stop]
    counted = ones - np.arange(len(ones))
    if -(-int(places[-1]) // 8) != stop - len(ones):
        raise NotBaseline("another number of bits than expected")
    byte = places // 8
    return np.asarray(byte + np.searchsorted(counted, byte, "left"))


def _leading_units(jpeg: Baseline, before: list[Int64s], phases: Int64s) -> tuple[bytes, list[Bits]]:
    """Segments of the extended tables, and the leading unit of each point.

    `before`: of each component, the first coefficient before each point. The count of bits is congruent to the point's phase
    modulo eight: superfluous coefficients of the first block see to that.
    """
    symbols: dict[int, set[int]] = {}
    for component, values in zip(jpeg.components, before, strict=True):
        categories = {int(value).bit_length() for value in np.unique(np.abs(values))}
        symbols.setdefault(component.dc, set()).update(categories, {0} if component.blocks > 1 else ())
    tables = {number: jpeg.tables[number].extended(sorted(needed)) for number, needed in symbols.items()}
    segments = b"".join(table.segment(number) for number, table in tables.items() if table is not jpeg.tables[number])
    first = jpeg.components[0]
    filler = _filler(jpeg.tables[16 + first.ac])
    inverse = pow(filler[1], -1, 8)
    ends = [_code(jpeg.tables[16 + component.ac], END_OF_BLOCK) for component in jpeg.components]
    flat = _join(_difference(tables[first.dc], 0), ends[0]) if first.blocks > 1 else (0, 0)
    grey = functools.reduce(_join, [ends[0], *[flat] * (first.blocks - 1)])
    differences = [functools.cache(functools.partial(_difference, tables[part.dc])) for part in jpeg.components]
    units = []
    for values, phase in zip(np.stack(before, axis=1).tolist(), phases.tolist(), strict=True):
        start, rest = differences[0](values[0]), grey
        for difference, value, end in zip(differences[1:], values[1:], ends[1:], strict=True):
            rest = _join(_join(rest, difference(value)), end)
        missing = (phase - start[1] - rest[1]) % 8
        for _ in range(missing * inverse % 8):
            start = _join(start, filler)
        units.append(_join(start, rest))
    return segments, units


def _filler(table: HuffmanTable) -> Bits:
    """The bits of a coefficient that take an odd number of bits: up to seven of them fill up any phase."""
    sizes = [(table.codes[symbol][1] + symbol, symbol) for symbol in range(1, 11) if symbol in table.codes]
    odd = [(bits, symbol) for bits, symbol in sizes if bits % 2]
    if not odd:
        raise NotBaseline("a Huffman table without codes of odd length")
    bits, symbol = min(odd)
    return table.codes[symbol][0] << symbol, bits


def _difference(table: HuffmanTable, value: int) -> Bits:
    """The bits of a first coefficient's difference: annex F.1.2.1."""
    category = abs(value).bit_length()
    code, bits = _code(table, category)
    return code << category | (value if value >= 0 else value + (1 << category) - 1), bits + category


def _code(table: HuffmanTable, symbol: int) -> Bits:
    if symbol not in table.codes:
        raise NotBaseline("a Huffman table without a symbol that is needed")
    return table.codes[symbol]


def _join(first: Bits, second: Bits) -> Bits:
    """Bits one after the other."""
    return first[0] << second[1] | second[0], first[1] + second[1]


def _lead_bytes(value: int, bits: int, byte: int) -> bytes:
    """A leading unit of so many bits, completed by those of `byte` that belong to the segment after it."""
    phase = bits & 7
    if phase:
        value = value << 8 - phase | byte & 0xFF >> phase
    return value.to_bytes(-(-bits // 8), "big").replace(b"\xff", b"\xff\0")
