"""Huffman tables of JPEG files (ITU-T T.81, annex C): codes, their lengths, and tables with further codes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TABLES_MARKER = 0xC4
"""Of a segment that defines Huffman tables (DHT)."""
END_OF_BLOCK, SIXTEEN_ZEROS = 0x00, 0xF0
"""Symbols without a coefficient (annex F.1.2.2)."""
_UNDEFINED = 1 << 20
"""The length of a code that a table does not have: no sum with it comes out right."""


class NotBaseline(ValueError):
    """Why a file can have no seek points: it is no baseline JPEG whose bits can be counted, in one line."""


@dataclass(frozen=True)
class HuffmanTable:
    """The symbols of a table and their codes."""

    counts: tuple[int, ...]
    """How many codes have 1, 2, … 16 bits."""
    symbols: tuple[int, ...]
    codes: dict[int, tuple[int, int]]
    """Symbol to (code, bits)."""

    @classmethod
    def from_counts(cls, counts: Sequence[int], symbols: Sequence[int]) -> HuffmanTable:
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

    def lengths(self) -> npt.NDArray[np.int64]:
        """Bits of every symbol's code (256,); very many where there is none."""
        lengths = np.full(256, _UNDEFINED, np.int64)
        for symbol, (_, bits) in self.codes.items():
            lengths[symbol] = bits
        return lengths

    def extended(self, symbols: Sequence[int]) -> HuffmanTable:
        """This table with longer codes for those of `symbols` that it lacks; all its own codes stay what they are.

        A code of ones alone is never used (annex C), so at four bits more than the longest code fifteen are free. Raises
        NotBaseline where that is not so.
        """
        missing = [symbol for symbol in sorted(set(symbols)) if symbol not in self.codes]
        if not missing:
            return self
        longest = max(bits for _, bits in self.codes.values())
        last = max(code for code, bits in self.codes.values() if bits == longest)
        if longest + 4 > 16 or len(missing) > 15 or last == (1 << longest) - 1:
            raise NotBaseline("a Huffman table that cannot be extended")
        counts = list(self.counts)
        counts[longest + 3] = len(missing)
        return HuffmanTable.from_counts(counts, [*self.symbols, *missing])

    def segment(self, identifier: int) -> bytes:
        """The DHT segment that defines this table; `identifier` is its class and number."""
        length = 2 + 17 + len(self.symbols)
        return struct.pack(">BBHB", 0xFF, TABLES_MARKER, length, identifier) + bytes([*self.counts, *self.symbols])
