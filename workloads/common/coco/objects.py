"""The objects of a prepared detection data set: boxes and classes of each image, mapped into memory.

Per split: `SPLIT_object_ends.npy` int64 (n,), where the objects of each image end; `SPLIT_box.npy` float32 (4·M,), left, top,
width, height in pixels of one object after another; `SPLIT_class.npy` int32 (M,), from 1. Images are those of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Bools, Float32s, Int32s, Int64s, mapped, rows_of

TYPES = {"object_ends": "int64", "box": "float32", "class": "int32"}


@dataclass(frozen=True)
class Objects:
    """One split; arrays as above, boxes as (M, 4)."""

    ends: Int64s
    box: Float32s
    label: Int32s

    def take(self, images: Int64s, widths: npt.ArrayLike, heights: npt.ArrayLike) -> tuple[Float32s, Int32s, Int64s]:
        """Objects of images (b,) of the given sizes in pixels, end to end.

        Returns boxes (m, 4) left, top, right, bottom in shares of the image, classes (m,), and where the objects of each image
        end (b,).
        """
        rows, ends = rows_of(self.ends, images)
        counts = np.diff(ends, prepend=0)
        box = self.box[rows].astype(np.float64)
        box[:, 2:] += box[:, :2]
        box[:, 0::2] /= np.repeat(np.asarray(widths, np.float64), counts)[:, None]
        box[:, 1::2] /= np.repeat(np.asarray(heights, np.float64), counts)[:, None]
        return box.astype(np.float32), self.label[rows], ends


def corners_inside(box: Float32s, width: npt.ArrayLike, height: npt.ArrayLike) -> tuple[Float32s, Bools]:
    """Boxes (m, 4) left, top, width, height as corners whose right and bottom pixel belong to them, cut to their images (m,).

    Second result: which are more than one pixel wide and high (maskrcnn_benchmark structures/bounding_box.py: `convert`,
    `clip_to_image`).
    """
    most = np.stack([np.asarray(width), np.asarray(height)], axis=1).astype(np.float32) - 1
    low = box[:, :2]
    high = low + np.maximum(box[:, 2:] - 1, 0)
    corners = np.concatenate([np.clip(low, 0, most), np.clip(high, 0, most)], axis=1)
    return corners, np.asarray((corners[:, 2:] > corners[:, :2]).all(axis=1))


def write(folder: Path, split: str, counts: npt.ArrayLike, box: npt.ArrayLike, label: npt.ArrayLike) -> None:
    """Write one split: `counts` (n,) objects of each image, `box` (M, 4) in pixels, `label` (M,)."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "object_ends": np.cumsum(counts, dtype=np.int64),
        "box": np.asarray(box, np.float32).reshape(-1),
        "class": np.asarray(label, np.int32),
    }
    write_arrays(folder, split, arrays)


def read(folder: Path, split: str, images: int) -> Objects:
    """Map one split. Raises ValueError naming the file that is missing or something else."""
    ends = open_array(folder, split, "object_ends", TYPES["object_ends"], images)
    count = int(ends[-1])
    box = open_array(folder, split, "box", TYPES["box"], 4 * count)
    return Objects(ends, box.reshape(-1, 4), open_array(folder, split, "class", TYPES["class"], count))


def write_arrays(folder: Path, split: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write `SPLIT_NAME.npy` of each."""
    for name, array in arrays.items():
        np.save(folder / f"{split}_{name}.npy", array, allow_pickle=False)


def open_array(folder: Path, split: str, name: str, dtype: str, count: int) -> npt.NDArray[Any]:
    """Map `SPLIT_NAME.npy` (`mapped`)."""
    return mapped(folder / f"{split}_{name}.npy", dtype, count)
