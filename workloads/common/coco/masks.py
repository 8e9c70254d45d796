"""Masks as COCO's annotation files have them, polygons or run lengths, to flat arrays; with what is wrong with one.

Prepared form, beside that of `objects.py`. Training: `SPLIT_polygon_points.npy` float32 (2·N,), x and y in pixels in turn;
`SPLIT_polygon_ends.npy` int64 (P,), where each polygon ends among the N points; `SPLIT_object_polygon_ends.npy` int64 (M,),
where the polygons of each object end among the P; `SPLIT_trainable.npy` bool (M,), False for crowds and for boxes of at most
one pixel. Evaluation: `SPLIT_mask_counts.npy` uint8, the masks of all annotations of the ground truth in its order, in COCO's
compressed run lengths, end to end; `SPLIT_mask_ends.npy` int64, where each ends.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.common.coco.objects import open_array, write_arrays

Float32s = npt.NDArray[np.float32]
Int64s = npt.NDArray[np.int64]

POINTS_LEAST = 3
"""Of a polygon."""
TYPES = {"polygon_points": "float32", "polygon_ends": "int64", "object_polygon_ends": "int64", "trainable": "bool"}


class Mask(NamedTuple):
    """One object's mask as its file has it."""

    coordinates: array[float]
    """x and y in turn, of one polygon after another."""
    lengths: tuple[int, ...]
    """Coordinates of each polygon."""
    runs: tuple[int, ...] = ()
    """Or run lengths, column by column, zeros first."""
    size: tuple[int, int] = (0, 0)
    """Height and width that the run lengths are for."""


@dataclass(frozen=True)
class Polygons:
    """The polygons of several objects, ragged and flat."""

    points: Float32s
    """(N, 2) x, y in pixels."""
    polygon_ends: Int64s
    """(P,) where each polygon ends in `points`."""
    object_ends: Int64s
    """(M,) where the polygons of each object end in `polygon_ends`; an object may have none."""

    def take(self, objects: Int64s) -> Polygons:
        """Only some objects, in the given order."""
        polygons, object_ends = _rows(self.object_ends, objects)
        points, polygon_ends = _rows(self.polygon_ends, polygons)
        return Polygons(self.points[points], polygon_ends, object_ends)


def _rows(ends: Int64s, groups: Int64s) -> tuple[Int64s, Int64s]:
    """Rows of some groups, of which group g has rows ends[g - 1] … ends[g] - 1; and where the rows of each taken one end."""
    starts = np.where(groups > 0, ends[groups - 1], 0) if len(ends) else np.zeros(0, np.int64)
    counts = ends[groups] - starts
    taken_ends = np.cumsum(counts)
    total = int(taken_ends[-1]) if len(taken_ends) else 0
    return np.arange(total) + np.repeat(starts - (taken_ends - counts), counts), taken_ends


# -- reading what files say ---------------------------------------------------------------------------------------


def compact(value: Any) -> Mask | str | None:
    """A `segmentation` in little memory; a phrase about what is wrong with it; None where there is none."""
    if value is None:
        return None
    if isinstance(value, dict):
        return _compact_runs(value)
    coordinates = array("d")
    try:
        if not isinstance(value, list):
            raise TypeError
        for polygon in value:
            coordinates.fromlist(polygon)
    except (TypeError, OverflowError):
        return "its mask is no list of polygons and no run lengths"
    return Mask(coordinates, tuple(map(len, value))) if value else "its mask is empty (no polygon)"


def _compact_runs(value: dict[str, Any]) -> Mask | str:
    counts, size = value.get("counts"), value.get("size")
    if not isinstance(size, list) or len(size) != 2 or not all(type(side) is int for side in size):
        return "the run lengths of its mask have no size"
    if isinstance(counts, str):
        counts = _decompressed(counts)
    if not isinstance(counts, list) or not all(type(count) is int and count >= 0 for count in counts):
        return "the run lengths of its mask are no whole numbers"
    if sum(counts) != size[0] * size[1]:
        return f"the run lengths of its mask have {sum(counts)} pixels, not {size[0]} x {size[1]}"
    if not sum(counts[1::2]):
        return "its mask is empty (run lengths without a pixel)"
    return Mask(array("d"), (), tuple(counts), (size[0], size[1]))


def _decompressed(text: str) -> list[int] | None:
    """COCO's compressed run lengths (maskApi.c, rleFrString), six bits a letter; None for something else.

    From the fourth on they are differences to the last but one.
    """
    counts: list[int] = []
    value = shift = 0
    for letter in text:
        bits = ord(letter) - 48
        if not 0 <= bits < 64 or shift > 60:
            return None
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return counts if not shift else None


def problems(
    masks: Sequence[Mask], width: Int64s, height: Int64s, crowd: npt.NDArray[np.bool_], slack: float
) -> dict[int, str]:
    """Number of each mask (of `masks`, in images of these sizes (M,) in pixels) with which something is wrong, and what.

    Points may lie `slack` pixels outside their image: annotators round.
    """
    found: dict[int, str] = {}
    counts = np.array([len(mask.lengths) for mask in masks], np.int64)
    lengths = np.fromiter(chain.from_iterable(mask.lengths for mask in masks), np.int64, int(counts.sum()))
    owner = np.repeat(np.arange(len(masks)), counts)
    for row in np.flatnonzero((lengths < 2 * POINTS_LEAST) | (lengths % 2 == 1)):
        what = f"{lengths[row]} coordinates" if lengths[row] % 2 else f"{lengths[row] // 2} points"
        found.setdefault(int(owner[row]), f"a polygon of its mask has {what}, not {POINTS_LEAST} points or more")
    values = _coordinates(masks)
    ends = np.cumsum(np.bincount(owner, lengths, len(masks)).astype(np.int64))
    full = np.flatnonzero(np.diff(ends, prepend=0) > 0)
    if len(full):
        starts = np.concatenate([[0], ends[:-1]])[full]
        # An object with an odd polygon has x and y confused, but is named for that already.
        beyond = _beyond(values, starts, ends[full], width[full], height[full])
        for number, pixels in zip(full[~(beyond <= slack)].tolist(), beyond[~(beyond <= slack)].tolist(), strict=True):
            what = f"its mask reaches {pixels:g} pixels beyond its image of {width[number]} x {height[number]}"
            found.setdefault(number, what if np.isfinite(pixels) else "its mask has a point that is not finite")
    for number, mask in enumerate(masks):
        if mask.runs and mask.size != (height[number], width[number]):
            found[number] = (
                f"its mask is {mask.size[1]} x {mask.size[0]} pixels, its image {width[number]} x {height[number]}"
            )
        elif mask.runs and not crowd[number]:
            found[number] = "its mask has run lengths though it is no crowd; polygons are needed"
    return found


def _coordinates(masks: Sequence[Mask]) -> npt.NDArray[np.float64]:
    return np.frombuffer(b"".join([mask.coordinates.tobytes() for mask in masks]), np.float64)


def _beyond(
    values: npt.NDArray[np.float64], starts: Int64s, ends: Int64s, width: Int64s, height: Int64s
) -> npt.NDArray[np.float64]:
    """By how many pixels the points of each object lie outside its image, at most; not finite where one is not."""
    owner = np.repeat(np.arange(len(starts)), ends - starts)
    is_y = (np.arange(len(values)) - starts[owner]) % 2 == 1
    most = np.where(is_y, height[owner], width[owner])
    with np.errstate(invalid="ignore"):
        outside = np.maximum(-values, values - most)
        return np.asarray(np.maximum.reduceat(outside, starts))


# -- the prepared form --------------------------------------------------------------------------------------------


def write(folder: Path, split: str, masks: Sequence[Mask], trainable: npt.ArrayLike) -> None:
    """Write the polygons of one split's objects (M,), in the order of `objects.write`; run lengths have none."""
    lengths = np.fromiter(chain.from_iterable(mask.lengths for mask in masks), np.int64)
    arrays: dict[str, npt.NDArray[Any]] = {
        "polygon_points": _coordinates(masks).astype(np.float32),
        "polygon_ends": np.cumsum(lengths // 2),
        "object_polygon_ends": np.cumsum([len(mask.lengths) for mask in masks], dtype=np.int64),
        "trainable": np.asarray(trainable, bool),
    }
    write_arrays(folder, split, arrays)


def read(folder: Path, split: str, objects: int) -> tuple[Polygons, npt.NDArray[np.bool_]]:
    """Map the polygons of one split's objects, and which of these are trained on. Raises ValueError naming the file."""
    trainable = open_array(folder, split, "trainable", "bool", objects)
    object_ends = open_array(folder, split, "object_polygon_ends", "int64", objects)
    polygon_ends = open_array(folder, split, "polygon_ends", "int64", int(object_ends[-1]) if objects else 0)
    points = open_array(
        folder, split, "polygon_points", "float32", 2 * int(polygon_ends[-1]) if len(polygon_ends) else 0
    )
    return Polygons(points.reshape(-1, 2), polygon_ends, object_ends), trainable


def write_run_lengths(folder: Path, split: str, masks: Sequence[Mask], width: Int64s, height: Int64s) -> None:
    """Write the masks of a ground truth (M,), of images of these sizes, as COCO's metric compares them."""
    encoded = [
        run_lengths(mask, int(down), int(across)) for mask, across, down in zip(masks, width, height, strict=True)
    ]
    arrays: dict[str, npt.NDArray[Any]] = {
        "mask_counts": np.frombuffer(b"".join(encoded), np.uint8),
        "mask_ends": np.cumsum([len(counts) for counts in encoded], dtype=np.int64),
    }
    write_arrays(folder, split, arrays)


def run_lengths(mask: Mask, height: int, width: int) -> bytes:
    """The compressed run lengths that COCO's own tool makes of a mask of an image (`COCO.annToRLE`)."""
    from pycocotools import mask as tool

    if mask.runs:
        return bytes(tool.frPyObjects({"counts": list(mask.runs), "size": list(mask.size)}, height, width)["counts"])
    ends = np.cumsum(mask.lengths)
    polygons = [mask.coordinates[end - length : end].tolist() for end, length in zip(ends, mask.lengths, strict=True)]
    return bytes(tool.merge(tool.frPyObjects(polygons, height, width))["counts"])


def read_run_lengths(folder: Path, split: str, annotations: int) -> list[bytes]:
    """The masks of a ground truth. Raises ValueError naming the file."""
    ends = open_array(folder, split, "mask_ends", "int64", annotations)
    counts = open_array(folder, split, "mask_counts", "uint8", int(ends[-1]) if annotations else 0)
    return split_bytes(counts, ends)


def split_bytes(values: npt.NDArray[np.uint8], ends: Int64s) -> list[bytes]:
    """Byte strings that lie end to end."""
    data, starts = values.tobytes(), np.concatenate([[0], ends[:-1]]).tolist() if len(ends) else []
    return [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
