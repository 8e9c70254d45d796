"""Objects of a prepared detection data set: memory-mapped boxes and classes per image.

Each split has these files, with the images in the order of the index:

- `SPLIT_object_ends.npy` int64 (n,): end offset of each image's objects
- `SPLIT_box.npy` float32 (4·M,): left, top, width, height in pixels of each object
- `SPLIT_class.npy` int32 (M,): class of each object, starting at 1
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
    """Objects of one split, as memory-mapped arrays.

    The module docstring describes the arrays. The boxes are reshaped to (M, 4).
    """

    ends: Int64s
    box: Float32s
    label: Int32s

    def take(
        self, images: Int64s, widths: npt.ArrayLike, heights: npt.ArrayLike
    ) -> tuple[Float32s, Int32s, Int64s]:
        """Return the concatenated objects of images (b,) with the given sizes in pixels.

        The method returns three arrays: boxes (m, 4) as left, top, right, bottom relative to the
        image size, classes (m,), and the end offset of each image's objects (b,).
        """
        rows, ends = rows_of(self.ends, images)
        counts = np.diff(ends, prepend=0)
        box = self.box[rows].astype(np.float64)
        box[:, 2:] += box[:, :2]
        box[:, 0::2] /= np.repeat(np.asarray(widths, np.float64), counts)[:, None]
        box[:, 1::2] /= np.repeat(np.asarray(heights, np.float64), counts)[:, None]
        return box.astype(np.float32), self.label[rows], ends


def corners_inside(
    box: Float32s, width: npt.ArrayLike, height: npt.ArrayLike
) -> tuple[Float32s, Bools]:
    """Convert boxes (m, 4) from left, top, width, height to clipped corners.

    The corners of each box are clipped to its image, whose size is in `width` (m,) and `height`
    (m,). The box includes its right and bottom pixels. The second returned array (m,) is True for
    boxes that are more than one pixel wide and high (maskrcnn_benchmark structures/bounding_box.py:
    `convert`, `clip_to_image`).
    """
    most = np.stack([np.asarray(width), np.asarray(height)], axis=1).astype(np.float32) - 1
    low = box[:, :2]
    high = low + np.maximum(box[:, 2:] - 1, 0)
    corners = np.concatenate([np.clip(low, 0, most), np.clip(high, 0, most)], axis=1)
    return corners, np.asarray((corners[:, 2:] > corners[:, :2]).all(axis=1))


def write(
    folder: Path, split: str, counts: npt.ArrayLike, box: npt.ArrayLike, label: npt.ArrayLike
) -> None:
    """Write the objects of one split.

    Args:
        folder: Folder of the prepared data.
        split: Name of the split.
        counts: Number of objects (n,) of each image.
        box: Left, top, width, height (M, 4) of each object in pixels.
        label: Class (M,) of each object.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        "object_ends": np.cumsum(counts, dtype=np.int64),
        "box": np.asarray(box, np.float32).reshape(-1),
        "class": np.asarray(label, np.int32),
    }
    write_arrays(folder, split, arrays)


def read(folder: Path, split: str, images: int) -> Objects:
    """Map the arrays of one split.

    The function raises ValueError with the name of a file that is missing or invalid.
    """
    ends = open_array(folder, split, "object_ends", TYPES["object_ends"], images)
    count = int(ends[-1])
    box = open_array(folder, split, "box", TYPES["box"], 4 * count)
    return Objects(
        ends, box.reshape(-1, 4), open_array(folder, split, "class", TYPES["class"], count)
    )


def write_arrays(folder: Path, split: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write each array as `SPLIT_NAME.npy`."""
    for name, array in arrays.items():
        np.save(folder / f"{split}_{name}.npy", array, allow_pickle=False)


def open_array(folder: Path, split: str, name: str, dtype: str, count: int) -> npt.NDArray[Any]:
    """Map `SPLIT_NAME.npy` (see `mapped`)."""
    return mapped(folder / f"{split}_{name}.npy", dtype, count)
