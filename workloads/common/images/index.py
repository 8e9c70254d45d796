"""Index of a prepared image data set: path, label, and size of each image.

The images are not copied. The arrays of a split are memory-mapped and sorted by the paths of the
images:

- `SPLIT_names.npy`: concatenated paths relative to the source folder, UTF-8
- `SPLIT_ends.npy` int64 (n,): end offset of each path
- `SPLIT_label.npy` int32 (n,)
- `SPLIT_width.npy` and `SPLIT_height.npy` int32 (n,): size in pixels
- `SPLIT_bytes.npy` int64 (n,): file size
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Int32s, Int64s, UInt8s, mapped
from workloads.common.manifest import Manifest

TYPES = {
    "names": "uint8",
    "ends": "int64",
    "label": "int32",
    "width": "int32",
    "height": "int32",
    "bytes": "int64",
}


@dataclass(frozen=True)
class ImageIndex:
    """Index of one split. The module docstring describes the arrays."""

    root: Path
    names: UInt8s
    ends: Int64s
    label: Int32s
    width: Int32s
    height: Int32s
    bytes: Int64s

    def __len__(self) -> int:
        return len(self.label)

    def name(self, number: int) -> str:
        """Return the path of image `number` relative to the root folder."""
        first = int(self.ends[number - 1]) if number else 0
        return str(self.names[first : int(self.ends[number])].tobytes(), "utf-8", "surrogateescape")

    def path(self, number: int) -> str:
        """Return the full path of image `number`."""
        return f"{self.root}/{self.name(number)}"


def root(folder: Path, manifest: Manifest) -> Path:
    """Return the root folder of the images of the data set that is prepared in `folder`.

    The manifest contains the root as a path relative to `folder`.
    """
    return folder / str(manifest.options["images"])


def write(
    folder: Path,
    split: str,
    names: Sequence[str],
    label: npt.ArrayLike,
    width: npt.ArrayLike,
    height: npt.ArrayLike,
    sizes: npt.ArrayLike,
) -> None:
    """Write the arrays of one split to `folder`."""
    encoded = [name.encode("utf-8", "surrogateescape") for name in names]
    arrays: dict[str, npt.NDArray[Any]] = {
        "names": np.frombuffer(b"".join(encoded), np.uint8),
        "ends": np.cumsum([len(name) for name in encoded], dtype=np.int64),
        "label": np.asarray(label, np.int32),
        "width": np.asarray(width, np.int32),
        "height": np.asarray(height, np.int32),
        "bytes": np.asarray(sizes, np.int64),
    }
    for name, array in arrays.items():
        np.save(folder / f"{split}_{name}.npy", array, allow_pickle=False)


def read(folder: Path, split: str, root: Path, count: int) -> ImageIndex:
    """Map the arrays of one split.

    The function raises ValueError with the name of a missing or invalid file.
    """
    ends = mapped(folder / f"{split}_ends.npy", TYPES["ends"], count)
    lengths = {"names": int(ends[-1]) if count else 0}
    arrays = {
        name: mapped(folder / f"{split}_{name}.npy", dtype, lengths.get(name, count))
        for name, dtype in TYPES.items()
    }
    return ImageIndex(root, **arrays)


def join(first: ImageIndex, second: ImageIndex) -> ImageIndex:
    """Concatenate in memory the indexes of two splits that have the same root folder."""
    ends = np.concatenate([first.ends, second.ends + (first.ends[-1] if len(first) else 0)])
    joined = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in TYPES
        if name != "ends"
    }
    return ImageIndex(first.root, ends=ends, **joined)
