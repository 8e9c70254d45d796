"""Fashion-MNIST (Xiao et al. 2017): gray images of 28 × 28 pixels.

The images are read from a Debian package with gzipped IDX files.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from workloads.common.arrays import UInt8s
from workloads.common.data.archives import DAMAGED
from workloads.common.data.published import COUNTS
from workloads.common.images.batches import arrays
from workloads.files import open_stream

PACKAGED = Path("/usr/share/datasets/fashion-mnist")
SPLITS = {"train": "train", "val": "t10k"}
IMAGES_MAGIC, LABELS_MAGIC = 0x803, 0x801
"""First four bytes of an IDX file as a big-endian number. The number is 2051 for unsigned bytes in
three dimensions, and 2049 for unsigned bytes in one dimension.
"""
CLASSES = (
    "T-shirt or top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
SIDE = 28
BYTES_MAXIMUM = 16 + COUNTS["fashion-mnist"]["train"] * SIDE**2
"""Maximum size of an uncompressed file in bytes."""


def read_idx(path: Path, magic: int) -> UInt8s:
    """Return the array in a gzipped IDX file.

    The function raises ValueError if the header does not match the content.
    """
    try:
        with open_stream(path) as file, gzip.open(file) as unpacked:
            content = unpacked.read(BYTES_MAXIMUM + 1)
    except (OSError, *DAMAGED) as error:
        raise ValueError(
            f"{path}: cannot be read ({error}). Run: apt-get install dataset-fashion-mnist"
        ) from None
    dimensions = magic & 0xFF
    header = np.frombuffer(content[: 4 * (1 + dimensions)], ">u4").tolist()
    if header[:1] != [magic] or len(content) != 4 * len(header) + int(np.prod(header[1:])):
        raise ValueError(f"{path}: not an IDX file of {dimensions}-dimensional bytes, or truncated")
    return np.frombuffer(content, np.uint8, offset=4 * len(header)).reshape(header[1:])


def read_split(source: Path, split: str) -> tuple[UInt8s, UInt8s]:
    """Return the images (N, 28, 28) and labels (N,) of `train` or `val`.

    The function raises ValueError if a file is invalid. The error message contains the file name.
    """
    images = read_idx(source / f"{SPLITS[split]}-images-idx3-ubyte.gz", IMAGES_MAGIC)
    labels = read_idx(source / f"{SPLITS[split]}-labels-idx1-ubyte.gz", LABELS_MAGIC)
    if len(images) != len(labels):
        raise ValueError(
            f"{source}: {len(images)} images but {len(labels)} labels in {SPLITS[split]}"
        )
    return images, labels


class FashionMNIST(arrays.ArrayDataset):
    """Fashion-MNIST, prepared as arrays.

    All three color channels contain the gray values.
    """

    name = "fashion-mnist"
    image_size = SIDE

    def prepare(self, source: Path, destination: Path) -> list[str]:
        splits: dict[str, arrays.Split] = {}
        for split in SPLITS:
            images, labels = read_split(source, split)
            if images.shape[1:] != (SIDE, SIDE) or labels.max(initial=0) >= len(CLASSES):
                raise ValueError(
                    f"{source}: the images or labels of {SPLITS[split]} belong to a different"
                    " data set"
                )
            splits[split] = images[..., None], labels
        return self.published(splits, str(source), len(CLASSES), destination)

    def how(self) -> str:
        return f"suite data prepare {self.name} --from {PACKAGED}"
