"""The bits of a baseline JPEG: its segments and Huffman tables, and how many bits each of its units takes.

ITU-T T.81: markers and segments (annex B), Huffman codes and categories (annexes C and F). Nothing is decoded here: the
quantised coefficients come from libjpeg-turbo, and the length of their codes is added up.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Coefficients = npt.NDArray[np.int16]

_START, _END, _SCAN, _TABLES, _QUANTISATION = 0xD8, 0xD9, 0xDA, 0xC4, 0xDB
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})
_BASELINE = (0xC0, 0xC1)
"""Start-of-frame markers of sequential Huffman coding."""
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {_TABLES, 0xC8, 0xCC}
_RESTARTS, _LINES = 0xDD, 0xDC
_LARGEST = 2047
"""Of a first coefficient of 8-bit samples, quantised by 1; larger ones may have been cut off to 16 bits unnoticed."""
_UNDEFINED = 1 << 20
"""The length of a code that a table does not have: no sum with it comes out right."""
END_OF_BLOCK, SIXTEEN_ZEROS = 0x00, 0xF0
ZIGZAG = np.array(
    [
        place
        for line in range(15)
        for place in sorted(
            (8 * y + x for y in range(8) for x in range(8) if x + y == line),
            reverse=line % 2 == 0,
            key=lambda p: p // 8,
        )
    ]
)
"""Natural index (8 · row + column) of the coefficients in the order in which they are coded."""
_CATEGORY = np.array([value.bit_length() for value in range(1 << 15)] + [16], np.uint8)
"""Bits of a coefficient's magnitude."""


class NotBaseline(ValueError):
    """Why a file has no bits that can be counted here."""


@dataclass(frozen=True)
class HuffmanTable:
    """Symbols and their codes; see annex C."""

    counts: tuple[int, ...]
    """How many codes have 1, 2, … 16 bits."""
    symbols: tuple[int, ...]
    codes: dict[int, tuple[int, int]]
    """Symbol to (code, bits)."""

    @classmethod
    def of(cls, counts: Sequence[int], symbols: Sequence[int]) -> HuffmanTable:
        """The table of a DHT segment. Raises NotBaseline unless each symbol has one code, and each code its bits."""
        if sum(counts) != len(symbols) or len(set(symbols)) != len(symbols):
            raise NotBaseline("a Huffman table that gives a symbol two codes or none")
        codes: dict[int, tuple[int, int]] = {}
        code, place = 0, 0
        for bits, count in enumerate(counts, 1):
            for symbol in symbols[place : place + count]:
                codes[symbol] = (code, bits)
                code += 1
            if code > 1 << bits:
                raise NotBaseline("a Huffman table with too many codes")
            place += count
            code <<= 1
        return cls(tuple(counts), tuple(symbols), codes)

    def lengths(self) -> Int64s:
        """Bits of every symbol's code (256,); very many where there is none."""
        found = np.full(256, _UNDEFINED, np.int64)
        for symbol, (_, bits) in self.codes.items():
            found[symbol] = bits
        return found

    def extended(self, wanted: Sequence[int]) -> HuffmanTable:
        """This table with longer codes for symbols that it lacks; all its own codes stay what they are.

        A code of ones alone is never used (annex C), so at four bits more than the longest code fifteen are free. Raises
        NotBaseline where that is not so.
        """
        missing = [symbol for symbol in sorted(set(wanted)) if symbol not in self.codes]
        if not missing:
            return self
        longest = max(bits for _, bits in self.codes.values())
        last = max(code for code, bits in self.codes.values() if bits == longest)
        if longest + 4 > 16 or len(missing) > 15 or last == (1 << longest) - 1:
            raise NotBaseline("a Huffman table that cannot be extended")
        counts = list(self.counts)
        counts[longest + 3] = len(missing)
        return HuffmanTable.of(counts, [*self.symbols, *missing])

    def segment(self, identifier: int) -> bytes:
        """The DHT segment that defines this table; `identifier` is its class and number."""
        length = 2 + 17 + len(self.symbols)
        return struct.pack(">BBHB", 0xFF, _TABLES, length, identifier) + bytes([*self.counts, *self.symbols])


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
        if marker == _TABLES:
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
    found, place = {}, 0
    while place < len(content):
        counts = content[place + 1 : place + 17]
        stop = place + 17 + sum(counts)
        if stop > len(content):
            raise NotBaseline("a header that ends too early")
        found[content[place]] = HuffmanTable.of(counts, content[place + 17 : stop])
        place = stop
    return found


def _components(frame: bytes, scan: bytes) -> tuple[Component, ...]:
    """The colours, if all of them are in the scan, and grey or the first has the most blocks."""
    precision, count = frame[0], frame[5]
    sampling = {frame[6 + 3 * i]: divmod(frame[7 + 3 * i], 16) for i in range(count)}
    if precision != 8 or count not in (1, 3) or scan[0] != count or scan[1 + 2 * count :] != b"\0\x3f\0":
        raise NotBaseline("another kind of scan")
    if len(sampling) != count:
        raise NotBaseline("colours of one name")
    found = []
    for i in range(count):
        identifier, chosen = scan[1 + 2 * i], scan[2 + 2 * i]
        if identifier != frame[6 + 3 * i]:
            raise NotBaseline("colours in another order")
        found.append(Component(*sampling[identifier], *divmod(chosen, 16)))
    if any(part.blocks != 1 for part in found[1:]) or (count == 1 and found[0].blocks != 1) or not found[0].blocks:
        raise NotBaseline("colours of other sizes")
    return tuple(found)


def in_order(jpeg: Baseline, planes: Sequence[Coefficients]) -> list[Coefficients]:
    """Coefficients (rows, columns, 64) of each component as they are coded: (units, blocks, 64), each block in zigzag order."""
    columns, rows = jpeg.units
    found = []
    for part, plane in zip(jpeg.components, planes, strict=True):
        units = plane.reshape(rows, part.vertical, columns, part.horizontal, 64).transpose(0, 2, 1, 3, 4)
        found.append(units[..., ZIGZAG].reshape(rows * columns, part.blocks, 64))
    return found


def unit_bits(jpeg: Baseline, coefficients: Sequence[Coefficients]) -> tuple[Int64s, list[Int64s]]:
    """Bits of every unit (units,), and for each component the last first coefficient of every unit (units,).

    `coefficients` as `in_order` gives them. Raises NotBaseline for first coefficients that are none of a picture's.
    """
    total = np.zeros(len(coefficients[0]), np.int64)
    last = []
    for component, blocks in zip(jpeg.components, coefficients, strict=True):
        first = blocks[:, :, 0].astype(np.int64)
        if np.abs(first).max(initial=0) > _LARGEST:
            raise NotBaseline("a first coefficient beyond all pictures")
        steps = np.diff(first.ravel(), prepend=0)
        categories = _CATEGORY[np.abs(steps)]
        bits = jpeg.tables[component.dc].lengths()[categories] + categories
        bits += _rest_bits(blocks.reshape(-1, 64), jpeg.tables[16 + component.ac].lengths())
        total += bits.reshape(-1, component.blocks).sum(axis=1)
        last.append(first[:, -1])
    return total, last


def _rest_bits(blocks: Coefficients, lengths: Int64s) -> Int64s:
    """Bits of all coefficients but the first of blocks (n, 64): annex F.1.2.2."""
    found = np.flatnonzero(blocks != 0).astype(np.int32)
    place = found & 63
    found, place = found[place > 0], place[place > 0]
    block = found >> 6
    run = np.empty_like(found)
    run[:1], run[1:] = place[:1] - 1, found[1:] - found[:-1] - 1
    opens = np.flatnonzero(block[1:] != block[:-1]) + 1
    run[opens] = place[opens] - 1
    category = _CATEGORY[np.abs(blocks.reshape(-1)[found])]
    bits = lengths[(run & 15) << 4 | category] + category
    long = np.flatnonzero(run > 15)
    bits[long] += (run[long] >> 4) * lengths[SIXTEEN_ZEROS]
    total = np.bincount(block, bits, len(blocks)).astype(np.int64)
    return total + np.where(blocks[:, 63] == 0, lengths[END_OF_BLOCK], 0)
