"""The header of a baseline JPEG: its segments (ITU-T T.81, annex B) up to the coded data, and the layout of its units."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from workloads.common.images.seek.huffman import TABLES_MARKER, HuffmanTable, NotBaseline

_START, _END, _SCAN, _QUANTISATION = 0xD8, 0xD9, 0xDA, 0xDB
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})
_BASELINE = (0xC0, 0xC1)
"""Start-of-frame markers of sequential Huffman coding."""
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {TABLES_MARKER, 0xC8, 0xCC}
_RESTARTS, _LINES = 0xDD, 0xDC


@dataclass(frozen=True)
class Component:
    """A colour of the only scan."""

    horizontal: int
    """Blocks in a unit, beside each other."""
    vertical: int
    """Blocks in a unit, one below the other."""
    dc: int
    """Number of the table for the first coefficients."""
    ac: int

    @property
    def blocks(self) -> int:
        """Blocks in a unit."""
        return self.horizontal * self.vertical


@dataclass(frozen=True)
class Baseline:
    """A JPEG of one sequential scan with all its colours and without restart markers.

    A unit ("MCU") is what is coded together: for colour at half the resolution, four blocks of grey and two of colour.
    """

    width: int
    height: int
    frame_at: int
    """Where height and width stand, two bytes each."""
    scan_at: int
    """Where the scan's marker stands."""
    data_at: int
    """Where the coded data begin."""
    components: tuple[Component, ...]
    tables: dict[int, HuffmanTable]
    """Class · 16 + number to table; class 0 is for first coefficients."""

    @property
    def unit(self) -> tuple[int, int]:
        """Width and height of a unit in pixels."""
        return 8 * self.components[0].horizontal, 8 * self.components[0].vertical

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Rows and columns of each component's blocks, whole units of them."""
        columns, rows = self.units
        return [(rows * part.vertical, columns * part.horizontal) for part in self.components]

    @property
    def units(self) -> tuple[int, int]:
        """Units beside each other, and one below the other."""
        width, height = self.unit
        return -(-self.width // width), -(-self.height // height)


def parse(data: bytes | memoryview) -> Baseline:
    """The segments of a JPEG up to its first scan. Raises NotBaseline for any other kind of file."""
    try:
        return _parse(data)
    except (struct.error, IndexError, KeyError):
        raise NotBaseline("a header that ends too early") from None


def _parse(data: bytes | memoryview) -> Baseline:
    tables: dict[int, HuffmanTable] = {}
    frame: tuple[int, bytes] | None = None
    quantised, place = False, 2
    while True:
        if data[place] != 0xFF:
            raise NotBaseline("no marker where one is expected")
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        if marker in _WITHOUT_LENGTH:
            raise NotBaseline("a marker that has no place in a header")
        (length,) = struct.unpack_from(">H", data, place + 2)
        if length < 2:
            raise NotBaseline("a segment shorter than its own length")
        content = bytes(data[place + 4 : place + 2 + length])
        if marker in _OTHER_FRAMES or marker in (_START, _END, _LINES):
            raise NotBaseline("another kind of JPEG")
        if marker == _RESTARTS and content != b"\0\0":
            raise NotBaseline("restart markers")
        if marker == TABLES_MARKER:
            tables |= _tables(content)
        quantised |= marker == _QUANTISATION
        if marker in _BASELINE:
            frame = place + 5, content
        if marker == _SCAN:
            break
        place += 2 + length
    if frame is None:
        raise NotBaseline("no frame")
    at, described = frame
    height, width = struct.unpack_from(">HH", data, at)
    components = _components(described, content)
    if not quantised or any({part.dc, 16 + part.ac} - set(tables) for part in components):
        raise NotBaseline("no tables of its own")
    return Baseline(width, height, at, place, place + 2 + length, components, tables)


def _tables(content: bytes) -> dict[int, HuffmanTable]:
    """The tables of a DHT segment."""
    tables: dict[int, HuffmanTable] = {}
    place = 0
    while place < len(content):
        counts = content[place + 1 : place + 17]
        stop = place + 17 + sum(counts)
        if stop > len(content):
            raise NotBaseline("a header that ends too early")
        tables[content[place]] = HuffmanTable.from_counts(counts, content[place + 17 : stop])
        place = stop
    return tables


def _components(frame: bytes, scan: bytes) -> tuple[Component, ...]:
    """The colours, if all of them are in the scan, and grey or the first has the most blocks."""
    precision, count = frame[0], frame[5]
    sampling = {frame[6 + 3 * i]: divmod(frame[7 + 3 * i], 16) for i in range(count)}
    if precision != 8 or count not in (1, 3) or scan[0] != count or scan[1 + 2 * count :] != b"\0\x3f\0":
        raise NotBaseline("another kind of scan")
    if len(sampling) != count:
        raise NotBaseline("colours of one name")
    components = []
    for i in range(count):
        identifier, chosen = scan[1 + 2 * i], scan[2 + 2 * i]
        if identifier != frame[6 + 3 * i]:
            raise NotBaseline("colours in another order")
        components.append(Component(*sampling[identifier], *divmod(chosen, 16)))
    if (
        any(part.blocks != 1 for part in components[1:])
        or (count == 1 and components[0].blocks != 1)
        or not components[0].blocks
    ):
        raise NotBaseline("colours of other sizes")
    return tuple(components)
