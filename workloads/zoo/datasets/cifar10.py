"""CIFAR-10 in its published Python or binary format, as an archive or a folder.

The data set is from Krizhevsky 2009. The Python format consists of pickles of Python 2, which are
read without executing code (`workloads.common.networks.caffe2_files`). The binary format consists
of records with a label and 3,072 bytes. Both formats contain the same images in the same order, so
both give the same fingerprint.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from workloads.common import manifest as manifests
from workloads.common.data.archives import DAMAGED, why
from workloads.common.data.hidden import is_hidden_path
from workloads.common.images.batches import arrays
from workloads.common.networks import caffe2_files
from workloads.files import open_stream

SIDE, CLASSES = 32, 10
FILES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "val": ("test_batch",)}
MD5 = {"c58f30108f718f92721af3b95e74349a": "python", "c32a1d4ab5d03f1284b67883e8d87530": "binary"}
"""Format of each published archive by its MD5. The MD5 is from the data set's page
(cs.toronto.edu/~kriz/cifar.html).
"""
FORMS = {"cifar-10-batches-py": "", "cifar-10-batches-bin": ".bin"}
"""Suffix of the file names, by name of the folder in the archive."""
MEMBER_BYTES_MAXIMUM = 64 << 20
"""Maximum size of a file in bytes. The largest file of the data set has 31 MB."""
RECORD = 1 + 3 * SIDE * SIDE

Reader = Callable[[str], bytes]
"""Function that returns the content of a file by name."""


class Cifar10(arrays.ArrayDataset):
    """CIFAR-10, prepared as arrays."""

    name = "cifar10"
    image_size = SIDE

    def prepare(self, source: Path, destination: Path) -> list[str]:
        with opened(source) as (ending, read):
            splits = {split: split_of(split, ending, read) for split in FILES}
        notes = []
        if not source.is_dir() and (digest := manifests.sha256(source, "md5")) not in MD5:
            notes = [
                f"{source.name} has the MD5 {digest}, which differs from the published archives"
            ]
        return self.published(splits, "cifar-10", CLASSES, destination, notes)

    def how(self) -> str:
        return f"suite data prepare {self.name} --from ARCHIVE"


@contextmanager
def opened(source: Path) -> Iterator[tuple[str, Reader]]:
    """Open an archive or folder of CIFAR-10.

    The function yields the suffix of the file names, and a function that reads a file. The function
    raises ValueError if `source` is not an archive or folder of CIFAR-10.
    """
    if source.is_dir():
        folder = next((source / name for name in FORMS if (source / name).is_dir()), source)
        ending = ".bin" if (folder / "test_batch.bin").is_file() else ""
        yield ending, lambda name: _from_folder(folder, name)
        return
    try:
        with open_stream(source) as file, tarfile.open(fileobj=file) as archive:
            members = {
                Path(item.name).name: item
                for item in archive
                if item.isfile() and not is_hidden_path(item.name)
            }
            ending = ".bin" if "test_batch.bin" in members else ""
            yield ending, lambda name: _from_archive(source, archive, members.get(name), name)
    except DAMAGED as error:
        raise ValueError(f"{source}: not a tar archive, or damaged ({why(error)})") from None


def _from_folder(folder: Path, name: str) -> bytes:
    try:
        with open_stream(folder / name) as file:
            return file.read(MEMBER_BYTES_MAXIMUM)
    except OSError as error:
        raise ValueError(
            f"{folder / name}: {error.strerror}. CIFAR-10 consists of data_batch_1 … 5 and"
            " test_batch"
        ) from None


def _from_archive(
    source: Path, archive: tarfile.TarFile, member: tarfile.TarInfo | None, name: str
) -> bytes:
    if member is None or member.size > MEMBER_BYTES_MAXIMUM:
        raise ValueError(f"{source}: CIFAR-10's file {name} is missing or too large")
    content = archive.extractfile(member)
    assert content is not None, "a file, checked before"
    return content.read()


def split_of(split: str, ending: str, read: Reader) -> arrays.Split:
    """Return the images (N, 32, 32, 3) and labels of a split.

    The function raises ValueError if a file is invalid. The error message contains the file name.
    """
    parts = []
    for stem in FILES[split]:
        name = f"{stem}{ending}"
        content = read(name)
        try:
            planes, labels = _binary(content) if ending else _pickled(content)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if labels.size and not 0 <= labels.min() <= labels.max() < CLASSES:
            raise ValueError(
                f"{name}: expected labels from 0 to {CLASSES - 1}, got {labels.min()} to"
                f" {labels.max()}"
            )
        parts.append(
            (planes.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), labels.astype(np.int32))
        )
    images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return np.ascontiguousarray(images), labels


def _binary(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    if not content or len(content) % RECORD:
        raise ValueError(
            f"expected records of {RECORD:,} bytes, got {len(content):,} bytes in total"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


def _pickled(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    content_by_key = caffe2_files.dictionary(content)
    data, labels = content_by_key.get(b"data"), content_by_key.get(b"labels")
    numbers = isinstance(labels, list) and all(
        isinstance(label, int) and 0 <= label < 256 for label in labels
    )
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 2
        or data.shape[1] != RECORD - 1
    ):
        raise ValueError("`data` does not contain images of 3,072 bytes")
    if not numbers or len(labels) != len(data):  # type: ignore[arg-type]
        raise ValueError("`labels` does not contain a label for each image")
    return data, np.array(labels, np.int64)
