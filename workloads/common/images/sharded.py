"""Batches of a prepared image data set, shared by replicas and made by threads while training runs.

Step s of an epoch takes positions s·G … of the epoch's random permutation; the last step is filled up from the beginning
of the same permutation, so that every batch is full (batch norm would see padding). Replica r of R takes positions
r·G/R … (r + 1)·G/R - 1 of each. Validation images lie in contiguous shares, each looked at by exactly one replica.
What happens to an image depends on (seed, epoch, image) alone, never on replica, process or thread.
"""

from __future__ import annotations

import os
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from workloads.api import Array, Batch, Facts, Place, Settings
from workloads.common import manifest as manifests
from workloads.common.images import index, seek
from workloads.common.images.files import BadImage
from workloads.common.images.jpeg import Box, Reader
from workloads.common.images.pool import Ahead, Buffers, ReaderPool
from workloads.common.randomness import Permutation, stream

DENOMINATORS = (8, 4, 2)
SUBSTITUTES = 100
"""With `skip_bad`, so many images in a row may be damaged before the run ends."""

UInt8s = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Begun = tuple[dict[str, Array], "list[Future[None]]"]
"""Arrays of a batch, and the tasks that complete them."""
Making = tuple[list[Batch], "list[Future[None]]"]


def reduction(box: Box, size: int) -> int:
    """The strongest reduction of a crop that is larger than the `size` it is resized to: 1, 2, 4 or 8.

    At least half of that size must be left of its shorter side.
    """
    return next((by for by in DENOMINATORS if 2 * min(box[2], box[3]) >= by * size), 1)


class ImageData(ABC):
    """`workloads.api.Data` over a prepared image data set. Subclasses say what is drawn for images and made of them.

    A batch stays as it is for as long as anything refers to its arrays or to views of them.

    Options used: `decode` (`exact` or `scaled`), `data_threads` (0: the cores of the process), `skip_bad`,
    `evaluation_batch_size`. Raises ValueError if nothing is prepared in the data folder.
    """

    EVALUATION_BATCH_SIZE: ClassVar[int]
    """Images of one replica, unless the option `evaluation_batch_size` says otherwise."""

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        self.facts, self.place, self.seed = facts, place, seed
        self.size = int(settings.model["image_size"])
        self.scaled = settings.options.get("decode", "exact") == "scaled"
        self.skip_bad = bool(settings.options.get("skip_bad", False))
        self.batch_size_global = settings.batch_size_global
        self.batch_size = settings.batch_size_global // place.replicas_total
        self.steps_per_epoch = -(-facts.train_samples // self.batch_size_global)
        self.evaluation_share = -(-facts.evaluation_samples // place.replicas_total)
        wanted = int(settings.options.get("evaluation_batch_size", self.EVALUATION_BATCH_SIZE))
        self.evaluation_batch_size = min(wanted, self.evaluation_share)
        self.folder = Path(settings.data_dir)
        manifest = manifests.read(self.folder)
        if manifest is None:
            raise ValueError(f"no prepared data in {self.folder}")
        root = index.root(self.folder, manifest)
        self.images = index.read(self.folder, "train", root, facts.train_samples)
        self.evaluation_images = index.read(self.folder, "val", root, facts.evaluation_samples)
        self.points = seek.read_points(self.folder, manifest, facts.train_samples)
        self.pool = ReaderPool(int(settings.options.get("data_threads", 0)) or len(os.sched_getaffinity(0)))
        self._running: weakref.WeakSet[Ahead[list[Batch]]] = weakref.WeakSet()
        self._buffers: dict[int, Buffers] = {}
        self._skipped: set[int] = set()

    @abstractmethod
    def begin(self, images: Int64s, epoch: int) -> Begun:
        """Begin to make the training batch of some images."""

    @abstractmethod
    def evaluation_facts(self, images: Int64s, valid: npt.NDArray[np.bool_]) -> dict[str, Array]:
        """Arrays beside `image` and `valid` of an evaluation batch; where `valid` is False, `images` has 0."""

    @abstractmethod
    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """Write a decoded evaluation image to its place (S, S, 3)."""

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """The batches of steps first_step … stop_step - 1; may run across epochs."""
        return self._ahead(self._train(first_step, stop_step))

    def evaluation(self) -> Iterator[list[Batch]]:
        """This process's images in batches; replica r has images r·⌈N/R⌉ … of the validation set."""
        return self._ahead(self._evaluation())

    def close(self) -> None:
        """Stop the threads."""
        for ahead in list(self._running):
            ahead.close()
        self.pool.close()

    def finish(self) -> None:
        """Wait until all that has been begun ahead is complete."""
        for ahead in list(self._running):
            ahead.finish()

    # -- what subclasses make batches with ------------------------------------------------------------------------

    def take(self, count: int) -> UInt8s:
        """Memory for `count` images."""
        if count not in self._buffers:
            self._buffers[count] = Buffers((count, self.size, self.size, 3))
        return self._buffers[count].take()

    def part(self, reader: Reader, image: int, box: Box) -> UInt8s:
        """The pixels of a crop of a training image; under `scaled`, of one larger than the target, reduced. Raises BadImage."""
        data = reader.read(self.images.path(image), int(self.images.bytes[image]))
        denominator = reduction(box, self.size) if self.scaled else 1
        points = self.points.record(image) if self.points else None
        width, height = int(self.images.width[image]), int(self.images.height[image])
        return reader.decode_part(data, box, width, height, denominator, points)

    def make_or_replace(self, image: int, make: Callable[[int], None]) -> int:
        """`make` a training image; with `skip_bad` the data set's next one in the place of a damaged one, in every framework
        alike. Returns the one that was made. Raises BadImage with the file's name.
        """
        for _ in range(SUBSTITUTES):
            try:
                make(image)
                return image
            except BadImage as error:
                if not self.skip_bad:
                    raise BadImage(f"{self.images.path(image)}: {error}") from None
                self._say_skipped(image, error)
                last, image = image, (image + 1) % len(self.images)
        raise BadImage(f"{self.images.path(last)}: and {SUBSTITUTES - 1} images before it cannot be decoded")

    # -- order and shares -----------------------------------------------------------------------------------------

    def _ahead(self, making: Iterator[Making]) -> Iterator[list[Batch]]:
        ahead = Ahead(making)
        self._running.add(ahead)
        try:
            yield from ahead
        finally:
            ahead.close()

    def _train(self, first_step: int, stop_step: int) -> Iterator[Making]:
        order: Permutation | None = None
        weight = float(self.batch_size), float(self.batch_size_global), self.batch_size_global
        for step in range(first_step, stop_step):
            epoch, place = divmod(step, self.steps_per_epoch)
            if order is None or place == 0:
                order = Permutation(stream(self.seed, "image order", epoch), len(self.images))
            batches, tasks = [], []
            for replica in self.place.replicas:
                first = place * self.batch_size_global + replica * self.batch_size
                positions = np.arange(first, first + self.batch_size) % len(self.images)
                arrays, begun = self.begin(order(positions), epoch)
                batches.append(Batch(arrays, *weight))
                tasks += begun
            yield batches, tasks

    def _evaluation(self) -> Iterator[Making]:
        count, size, share = len(self.evaluation_images), self.evaluation_batch_size, self.evaluation_share
        for first in range(0, share, size):
            batches, tasks, total = [], [], 0
            for replica in range(self.place.replicas_total):
                start = min(replica * share + first, count)
                images = range(start, min(start + size, (replica + 1) * share, count))
                total += len(images)
                if replica in self.place.replicas:
                    arrays, begun = self._begin_evaluation(images)
                    batches.append((arrays, len(images)))
                    tasks += begun
            yield [Batch(arrays, float(real), float(total), total) for arrays, real in batches], tasks

    def _begin_evaluation(self, images: range) -> Begun:
        """A batch that some images do not fill up: the rest is black."""
        size, real = self.evaluation_batch_size, len(images)
        numbers, valid, pixels = np.zeros(size, np.int64), np.arange(size) < real, self.take(size)
        numbers[:real] = images
        pixels[real:] = 0
        arrays = {"image": pixels, **self.evaluation_facts(numbers, valid), "valid": valid}
        return arrays, self.pool.start(lambda reader, slot: self._evaluate(pixels[slot], images[slot], reader), real)

    def _evaluate(self, out: UInt8s, image: int, reader: Reader) -> None:
        """Write one evaluation image; a damaged one always ends the run, since none may be lost."""
        path = self.evaluation_images.path(image)
        try:
            self.evaluation_image(reader.decode(reader.read(path, int(self.evaluation_images.bytes[image]))), out)
        except BadImage as error:
            raise BadImage(f"{path}: {error}") from None

    def _say_skipped(self, image: int, error: BadImage) -> None:
        """A line on stderr, once for each image."""
        if image not in self._skipped:
            self._skipped.add(image)
            print(f"left out: {self.images.path(image)}: {error}", file=sys.stderr, flush=True)
