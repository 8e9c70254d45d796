"""Seek points of a prepared data set's training images, in the folder `seek` beside its index.

They change no pixel, only how much of a file is decoded for a crop; so they are no part of the data set's fingerprint, and may
be removed at any time. A run uses them where they are.

`ends.npy` int64 (n,): where each image's record ends in `records.bin`. A record is empty where an image has none: another
kind of file than a baseline JPEG, or a small image. `manifest.json` names the data set by its fingerprint.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.common import manifest as manifests
from workloads.common.images import turbo
from workloads.common.images.files import BadImage, FileReader
from workloads.common.images.index import ImageIndex
from workloads.common.images.seek.huffman import NotBaseline
from workloads.common.images.seek.record_writer import SEGMENT_PIXELS, make_record
from workloads.common.manifest import Manifest

FOLDER = "seek"
_FILES = ENDS, RECORDS = "ends.npy", "records.bin"
VERSION = 1
"""Of the records."""
LEAST_PIXELS, MOST_PIXELS = 1 << 16, 1 << 24
"""Smaller images, below 256 x 256, are decoded as fast without. Larger ones would take each core more than about 1 GB here."""
STALE_SECONDS = 86_400.0
"""After a day, a folder that was being written belongs to nobody any more."""
Task = list[tuple[str, int, int, int]]
"""Path, bytes, width and height of images; an empty path for one that gets no points."""
IMAGES_PER_TASK = 64
WORTH_PROCESSES = 2048
"""From so many images on, all cores work; before, starting processes would take longer."""
SECONDS_BETWEEN_LINES = 20.0


@dataclass(frozen=True)
class SeekPoints:
    """Records of all training images."""

    ends: npt.NDArray[np.int64]
    records: memoryview

    def record(self, image: int) -> memoryview | None:
        """The record of an image, None if it has none."""
        first, stop = int(self.ends[image - 1]) if image else 0, int(self.ends[image])
        return self.records[first:stop] if stop > first else None


def read_points(folder: Path, data: Manifest, count: int) -> SeekPoints | None:
    """Those of the data set prepared in `folder`; None if there are none, or those of other data or another version.

    Raises ValueError if they are damaged.
    """
    if not _present(folder, data):
        return None
    path = folder / FOLDER
    try:
        ends = np.load(path / ENDS, mmap_mode="r", allow_pickle=False).view(np.ndarray)
        records = np.memmap(path / RECORDS, np.uint8, "r")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); remove it, or prepare the data again") from None
    if ends.dtype != np.int64 or ends.shape != (count,) or int(ends[-1]) != records.size:
        raise ValueError(f"{path}: seek points of other images; remove it, or prepare the data again")
    return SeekPoints(ends, records.data)


def make_points(folder: Path, data: Manifest, images: ImageIndex) -> list[str]:
    """Make those of the data set prepared in `folder`, unless they are there; a line about them if images have any."""
    pixels = images.width.astype(np.int64) * images.height
    eligible = (pixels >= LEAST_PIXELS) & (pixels <= MOST_PIXELS)
    if turbo.library() is None or not eligible.any() or _present(folder, data):
        return []
    destination = folder / FOLDER
    _tidy(folder)
    ends, with_points = np.zeros(len(images), np.int64), 0
    with manifests.workspace(destination) as workspace:
        with (workspace / RECORDS).open("wb") as file:
            for number, record in enumerate(_records(images, eligible)):
                with_points += bool(record)
                file.write(record)
                ends[number] = file.tell()
        if not with_points:
            return []
        np.save(workspace / ENDS, ends, allow_pickle=False)
        if not _present(folder, data) and manifests.read(destination) is not None and _is_ours(destination):
            shutil.rmtree(destination, ignore_errors=True)  # of other data, or of another version
        manifests.publish(workspace, destination, _manifest(data, {"train": len(images), "with_points": with_points}))
    share = int(ends[-1]) / max(1, int(np.sum(images.bytes)))
    return [
        f"{data.dataset}: seek points of {with_points:,} of {len(images):,} training images ({int(ends[-1]) / 1e6:,.1f} MB, "
        f"{share:.1%} of the images) in {destination}: crops are decoded faster, their pixels are the same"
    ]


def verify_points(folder: Path, data: Manifest) -> list[str]:
    """Compare the files with their manifest; no line if there are none. Raises ValueError."""
    if not _present(folder, data):
        return []
    path = folder / FOLDER
    present = manifests.read(path)
    assert present is not None
    return [f"{FOLDER}/{line}" for line in manifests.verify(path, present)]


def _manifest(data: Manifest, counts: dict[str, int]) -> Manifest:
    return Manifest(
        dataset=f"{data.dataset} {FOLDER}",
        source={"name": manifests.NAME, "bytes": 0, "sha256": data.fingerprint},
        options={"version": VERSION, "segment_pixels": SEGMENT_PIXELS, "pixels": [LEAST_PIXELS, MOST_PIXELS]},
        counts=counts,
    )


def _present(folder: Path, data: Manifest) -> bool:
    """Whether there are seek points of this data set and version."""
    present = manifests.read(folder / FOLDER)
    return present is not None and present.same_origin(_manifest(data, {}))


def _tidy(folder: Path) -> None:
    """Remove what a preparation that was killed has left."""
    for path in folder.glob(f".{FOLDER}.*"):
        if time.time() - path.lstat().st_mtime > STALE_SECONDS and _is_ours(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    """True for a folder, no link, in which nothing lies but what is written here."""
    return not path.is_symlink() and path.is_dir() and {one.name for one in path.iterdir()} <= {*_FILES, manifests.NAME}


def _records(images: ImageIndex, eligible: npt.NDArray[np.bool_]) -> Iterator[bytes]:
    """The record of each image, in order; says on stderr how far it is."""
    tasks: list[Task] = []
    for first in range(0, len(images), IMAGES_PER_TASK):
        some = slice(first, min(first + IMAGES_PER_TASK, len(images)))
        paths = [images.path(number) if eligible[number] else "" for number in range(some.start, some.stop)]
        facts = (part[some].tolist() for part in (images.bytes, images.width, images.height))
        tasks.append(list(zip(paths, *facts, strict=True)))
    cores = len(os.sched_getaffinity(0))
    if cores == 1 or len(images) < WORTH_PROCESSES:
        yield from _with_progress(map(records_of, tasks), len(images))
        return
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        yield from _with_progress(pool.map(records_of, tasks), len(images))


def _with_progress(parts: Iterator[list[bytes]], total: int) -> Iterator[bytes]:
    """All records; now and then a line on stderr."""
    begun = said = time.monotonic()
    done = 0
    for part in parts:
        yield from part
        done += len(part)
        now = time.monotonic()
        if now - said > SECONDS_BETWEEN_LINES:
            said = now
            left = (now - begun) / done * (total - done)
            print(
                f"seek points: {done:,} of {total:,} images, about {left / 60:.0f} min left",
                file=sys.stderr,
                flush=True,
            )


def records_of(task: Task) -> list[bytes]:
    """The record of each file; empty where there is to be none or can be none."""
    files, coefficients = FileReader(), turbo.CoefficientReader()
    records = []
    for path, size, width, height in task:
        try:
            records.append(make_record(files.read(path, size), width, height, coefficients) if path else b"")
        except (BadImage, NotBaseline, turbo.DecoderWarning, MemoryError):
            records.append(b"")
    return records
