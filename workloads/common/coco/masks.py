"""Converts masks in COCO annotation files to flat arrays, and checks the masks.

Masks are polygons or run lengths. In addition to the files of `objects.py`, the prepared folder
contains the following files.

Training:

- `SPLIT_polygon_points.npy` float32 (2·N,): x and y in pixels, alternating
- `SPLIT_polygon_ends.npy` int64 (P,): end offset of each polygon among the N points
- `SPLIT_object_polygon_ends.npy` int64 (M,): end offset of each object's polygons among the P
  polygons
- `SPLIT_trainable.npy` bool (M,): False for crowds and for boxes of at most one pixel

Evaluation:

- `SPLIT_mask_counts.npy` uint8: masks of all annotations in the order of the ground truth, as
  concatenated compressed run lengths of COCO
- `SPLIT_mask_ends.npy` int64: end offset of each annotation's mask
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Bools, Float32s, Float64s, Int64s, UInt8s, rows_of
from workloads.common.coco.objects import open_array, write_arrays

POINTS_LEAST = 3
"""Minimum number of points of a polygon."""
MASKS_AT_ONCE = 10_000
"""Number of masks that are checked in one NumPy operation. The operation needs a few megabytes of
memory.
"""
TYPES = {
    "polygon_points": "float32",
    "polygon_ends": "int64",
    "object_polygon_ends": "int64",
    "trainable": "bool",
}


class Mask(NamedTuple):
    """Mask of one object, as polygons or run lengths like in the annotation file."""

    coordinates: array[float]
    """Coordinates of all polygons, concatenated. The array alternates x and y."""
    lengths: tuple[int, ...]
    """Number of coordinates of each polygon."""
    runs: tuple[int, ...] = ()
    """Run lengths in column-major order, starting with a run of zeros. The tuple is empty if the
    mask has polygons.
    """
    size: tuple[int, int] = (0, 0)
    """Height and width of the run-length mask."""


@dataclass(frozen=True)
class Polygons:
    """Polygons of several objects as flat arrays."""

    points: Float32s
    """Vertices (N, 2) of all polygons as x, y in pixels."""
    polygon_ends: Int64s
    """End offset (P,) of each polygon in `points`."""
    object_ends: Int64s
    """End offset (M,) of each object's polygons in `polygon_ends`. An object may have no
    polygon.
    """

    def take(self, objects: Int64s) -> Polygons:
        """Return the polygons of the given objects, in the given order."""
        polygons, object_ends = rows_of(self.object_ends, objects)
        points, polygon_ends = rows_of(self.polygon_ends, polygons)
        return Polygons(self.points[points], polygon_ends, object_ends)


# -- parsing annotation files
# -------------------------------------------------------------------------------------


def compact(value: Any) -> Mask | str | None:
    """Return the `segmentation` value of an annotation in a memory-efficient form.

    The function returns None if the mask is null or has no pixels. For an invalid mask, the
    function returns a description of the problem.
    """
    if not value and value in (None, [], {}):
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
        return "its mask is neither a list of polygons nor run lengths"
    return Mask(coordinates, tuple(filter(None, map(len, value)))) if coordinates else None


def _compact_runs(value: dict[str, Any]) -> Mask | str | None:
    counts, size = value.get("counts"), value.get("size")
    if counts in ([], ""):
        return None
    if not isinstance(size, list) or len(size) != 2 or not all(type(side) is int for side in size):
        return "the run lengths of its mask have no size"
    if isinstance(counts, str):
        counts = _decompressed(counts)
    if not isinstance(counts, list) or not all(
        type(count) is int and count >= 0 for count in counts
    ):
        return "the run lengths of its mask are not integers of at least 0"
    if sum(counts) != size[0] * size[1]:
        return f"the run lengths of its mask have {sum(counts)} pixels, not {size[0]} x {size[1]}"
    if not any(counts[1::2]):
        return None
    return Mask(array("d"), (), tuple(counts), (size[0], size[1]))


def _decompressed(text: str) -> list[int] | None:
    """Decode COCO's compressed run lengths (maskApi.c, rleFrString).

    The function returns None for an invalid string. Each character encodes six bits. From the
    fourth run length on, the string encodes the difference from the run length two positions
    before.
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


def problems(masks: Sequence[Mask], width: Int64s, height: Int64s, crowd: Bools) -> dict[int, str]:
    """Check masks (M,) against the size of their images.

    As in the reference, which does not check the border, polygons may extend beyond their image. A
    mask is invalid if a vertex is further outside the image than the length of the image's longer
    side.

    Args:
        masks: Masks to check.
        width: Width of each mask's image in pixels.
        height: Height of each mask's image in pixels.
        crowd: True for crowds, whose masks may be run lengths.

    Returns:
        Description of each problem, by index in `masks`.
    """
    problem_of: dict[int, str] = {}
    for first in range(0, len(masks), MASKS_AT_ONCE):
        some = range(first, min(first + MASKS_AT_ONCE, len(masks)))
        problem_of |= _polygon_problems(masks, some, width, height)
    for number, mask in enumerate(masks):
        if mask.runs and mask.size != (height[number], width[number]):
            problem_of[number] = (
                f"its mask is {mask.size[1]} x {mask.size[0]} pixels, its image {width[number]} x"
                f" {height[number]}"
            )
        elif mask.runs and not crowd[number]:
            problem_of[number] = "its mask has run lengths, which are allowed only for crowds"
    return problem_of


def _polygon_problems(
    masks: Sequence[Mask], some: range, width: Int64s, height: Int64s
) -> dict[int, str]:
    problem_of: dict[int, str] = {}
    full: list[int] = []
    for number in some:
        lengths = masks[number].lengths
        if not lengths:
            continue
        least, odd = min(lengths), next((length for length in lengths if length % 2), 0)
        if least < 2 * POINTS_LEAST or odd:
            count = f"{odd} coordinates" if odd else f"{least // 2} points"
            problem_of[number] = (
                f"a polygon of its mask has {count}, not {POINTS_LEAST} points or more"
            )
        else:
            full.append(number)
    if not full:
        return problem_of
    numbers = np.array(full)
    points = _coordinates([masks[number] for number in full]).reshape(-1, 2)
    counts = np.array([sum(masks[number].lengths) // 2 for number in full])
    starts = np.cumsum(counts) - counts
    low, high = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    sizes = np.stack([width[numbers], height[numbers]], axis=1)
    beyond = np.maximum(-low, high - sizes).max(axis=1)
    for row in np.flatnonzero(~(beyond <= sizes.max(axis=1))).tolist():
        across, down = sizes[row].tolist()
        excess = f"its mask reaches {beyond[row]:g} pixels beyond its image of {across} x {down}"
        problem_of[full[row]] = (
            excess if np.isfinite(beyond[row]) else "its mask has a point that is not finite"
        )
    return problem_of


def _coordinates(masks: Sequence[Mask]) -> Float64s:
    return np.frombuffer(b"".join([mask.coordinates for mask in masks]), np.float64)


def describe_missing(counts: Mapping[str, int]) -> str:
    """Return a message with the number of objects that have no mask.

    The message is empty if all objects have masks. `counts` are the counts in the manifest of the
    prepared data.
    """
    if not any(counts.get(f"{split}_without_mask") for split in ("train", "val")):
        return ""
    missing = [
        f"{counts[f'{split}_without_mask']:,} of {counts[f'{split}_objects']:,} {kind} objects"
        for split, kind in (("train", "training"), ("val", "validation"))
    ]
    return f"{' and '.join(missing)} have no mask"


# -- files of the prepared data
# -----------------------------------------------------------------------------------


def write(folder: Path, split: str, masks: Sequence[Mask], trainable: npt.ArrayLike) -> None:
    """Write the polygons of one split's objects (M,), in the order of `objects.write`.

    An object with a run-length mask is written without polygons.
    """
    lengths = np.fromiter(chain.from_iterable(mask.lengths for mask in masks), np.int64)
    arrays: dict[str, npt.NDArray[Any]] = {
        "polygon_points": _coordinates(masks).astype(np.float32),
        "polygon_ends": np.cumsum(lengths // 2),
        "object_polygon_ends": np.cumsum([len(mask.lengths) for mask in masks], dtype=np.int64),
        "trainable": np.asarray(trainable, bool),
    }
    write_arrays(folder, split, arrays)


def read(folder: Path, split: str, objects: int) -> tuple[Polygons, Bools]:
    """Map the polygons of one split's objects, and the flags of trainable objects.

    The function raises ValueError with the file's name if a file is invalid.
    """
    trainable = open_array(folder, split, "trainable", "bool", objects)
    object_ends = open_array(folder, split, "object_polygon_ends", "int64", objects)
    polygon_ends = open_array(
        folder, split, "polygon_ends", "int64", int(object_ends[-1]) if objects else 0
    )
    count = 2 * int(polygon_ends[-1]) if len(polygon_ends) else 0
    points = open_array(folder, split, "polygon_points", "float32", count)
    return Polygons(points.reshape(-1, 2), polygon_ends, object_ends), trainable


def write_run_lengths(
    folder: Path, split: str, masks: Sequence[Mask], width: Int64s, height: Int64s
) -> None:
    """Write the masks (M,) of a ground truth as run lengths for COCO's metric.

    `width` and `height` are the sizes of the masks' images.
    """
    encoded = [
        run_lengths(mask, int(down), int(across))
        for mask, across, down in zip(masks, width, height, strict=True)
    ]
    arrays: dict[str, npt.NDArray[Any]] = {
        "mask_counts": np.frombuffer(b"".join(encoded), np.uint8),
        "mask_ends": np.cumsum([len(counts) for counts in encoded], dtype=np.int64),
    }
    write_arrays(folder, split, arrays)


def run_lengths(mask: Mask, height: int, width: int) -> bytes:
    """Return a mask as compressed run lengths, computed by COCO's tool (`COCO.annToRLE`)."""
    from pycocotools import mask as tool

    if mask.runs:
        return bytes(
            tool.frPyObjects({"counts": list(mask.runs), "size": list(mask.size)}, height, width)[
                "counts"
            ]
        )
    ends = np.cumsum(mask.lengths)
    polygons = [
        mask.coordinates[end - length : end].tolist()
        for end, length in zip(ends, mask.lengths, strict=True)
    ]
    return bytes(tool.merge(tool.frPyObjects(polygons, height, width))["counts"])


def read_run_lengths(folder: Path, split: str, annotations: int) -> list[bytes]:
    """Read the masks of a ground truth.

    The function raises ValueError with the file's name if a file is invalid.
    """
    ends = open_array(folder, split, "mask_ends", "int64", annotations)
    counts = open_array(folder, split, "mask_counts", "uint8", int(ends[-1]) if annotations else 0)
    return split_bytes(counts, ends)


def split_bytes(values: UInt8s, ends: Int64s) -> list[bytes]:
    """Split concatenated byte strings at `ends`."""
    data, starts = values.tobytes(), np.concatenate([[0], ends[:-1]]).tolist() if len(ends) else []
    return [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]
