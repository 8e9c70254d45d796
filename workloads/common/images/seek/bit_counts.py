"""How many bits each unit of a baseline JPEG takes in the file.

Nothing is decoded here: the quantised coefficients come from libjpeg-turbo, and the lengths of their codes (ITU-T T.81,
annex F) are added up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from workloads.common.images.seek.baseline import Baseline
from workloads.common.images.seek.huffman import END_OF_BLOCK, SIXTEEN_ZEROS, NotBaseline

Int64s = npt.NDArray[np.int64]
Coefficients = npt.NDArray[np.int16]

_LARGEST = 2047
"""Of a first coefficient of 8-bit samples, quantised by 1; larger ones may have been cut off to 16 bits unnoticed."""
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


def in_order(jpeg: Baseline, planes: Sequence[Coefficients]) -> list[Coefficients]:
    """Coefficients (rows, columns, 64) of each component as they are coded: (units, blocks, 64), each block in zigzag order."""
    columns, rows = jpeg.units
    ordered = []
    for part, plane in zip(jpeg.components, planes, strict=True):
        units = plane.reshape(rows, part.vertical, columns, part.horizontal, 64).transpose(0, 2, 1, 3, 4)
        ordered.append(units[..., ZIGZAG].reshape(rows * columns, part.blocks, 64))
    return ordered


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
    nonzero = np.flatnonzero(blocks != 0).astype(np.int32)
    place = nonzero & 63
    nonzero, place = nonzero[place > 0], place[place > 0]
    block = nonzero >> 6
    run = np.empty_like(nonzero)
    run[:1], run[1:] = place[:1] - 1, nonzero[1:] - nonzero[:-1] - 1
    opens = np.flatnonzero(block[1:] != block[:-1]) + 1
    run[opens] = place[opens] - 1
    category = _CATEGORY[np.abs(blocks.reshape(-1)[nonzero])]
    bits = lengths[(run & 15) << 4 | category] + category
    long = np.flatnonzero(run > 15)
    bits[long] += (run[long] >> 4) * lengths[SIXTEEN_ZEROS]
    total = np.bincount(block, bits, len(blocks)).astype(np.int64)
    return total + np.where(blocks[:, 63] == 0, lengths[END_OF_BLOCK], 0)
