"""Training and evaluation batches of ResNet-50: JPEGs decoded, cropped and flipped by threads while training runs.

Step s of an epoch takes positions s·G … of the epoch's random permutation; the last step is filled up from the beginning
of the same permutation, so that every batch is full (batch norm would see padding). Replica r of R takes positions
r·G/R … (r + 1)·G/R - 1 of each. What happens to an image depends on (seed, epoch, image) alone.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.api import Array, Batch, Facts, Place, Settings
from workloads.common import manifest as manifests
from workloads.common.images import index
from workloads.common.images.jpeg import BadImage, Reader
from workloads.common.images.pool import Ahead, Buffers, ReaderPool
from workloads.common.images.resize import central_into, resize_into
from workloads.common.randomness import Permutation, bits, integers, stream
from workloads.resnet50.augment import crop_boxes, flips
from workloads.resnet50.facts import source_folder

EVALUATION_BATCH_SIZE = 64
"""Images of one replica, unless the option `evaluation_batch_size` says otherwise."""
DENOMINATORS = (8, 4, 2)
SUBSTITUTES = 100
"""With `skip_bad`, so many images in a row may be damaged before the run ends."""

Making = tuple[list[Batch], "list[Future[None]]"]


class ImageNetData:
    """`workloads.api.Data` over a prepared image data set.

    Arrays of a training batch: `image` uint8 (B, S, S, 3) RGB, `label` int32 (B,), B the same in every step. Of an
    evaluation batch: the same and `valid` bool (B,), False where an image only fills the batch up (black, label 0). A batch
    stays as it is for as long as anything refers to its arrays or to views of them.
    """

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        self.facts, self.place, self.seed = facts, place, seed
        self.size = int(settings.model["image_size"])
        self.resize_size = int(settings.model["resize_size"])
        self.area_minimum = float(settings.model["area_minimum"])
        self.scaled = settings.options.get("decode", "exact") == "scaled"
        self.skip_bad = bool(settings.options.get("skip_bad", False))
        self.batch_size_global = settings.batch_size_global
        self.batch_size = settings.batch_size_global // place.replicas_total
        self.steps_per_epoch = -(-facts.train_samples // self.batch_size_global)
        share = -(-facts.evaluation_samples // place.replicas_total)
        wanted = int(settings.options.get("evaluation_batch_size", EVALUATION_BATCH_SIZE))
        self.evaluation_batch_size = min(wanted, share)
        folder = Path(settings.data_dir)
        manifest = manifests.read(folder)
        if manifest is None:
            raise ValueError(f"no prepared data in {folder}")
        root = source_folder(folder, manifest)
        self.images = index.read(folder, "train", root, facts.train_samples)
        self.evaluation_images = index.read(folder, "val", root, facts.evaluation_samples)
        self.pool = ReaderPool(int(settings.options.get("data_threads", 0)) or len(os.sched_getaffinity(0)))
        self._running: weakref.WeakSet[Ahead[list[Batch]]] = weakref.WeakSet()
        self._buffers: dict[int, Buffers] = {}
        self._skipped: set[int] = set()

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

    def _ahead(self, making: Iterator[Making]) -> Iterator[list[Batch]]:
        ahead = Ahead(making)
        self._running.add(ahead)
        try:
            yield from ahead
        finally:
            ahead.close()

    def _take(self, count: int) -> npt.NDArray[np.uint8]:
        """Memory for `count` images."""
        if count not in self._buffers:
            self._buffers[count] = Buffers((count, self.size, self.size, 3))
        return self._buffers[count].take()

    # -- training -------------------------------------------------------------------------------------------------

    def _train(self, first_step: int, stop_step: int) -> Iterator[Making]:
        order: Permutation | None = None
        for step in range(first_step, stop_step):
            epoch, place = divmod(step, self.steps_per_epoch)
            if order is None or place == 0:
                order = Permutation(stream(self.seed, "image order", epoch), len(self.images))
            batches, tasks = [], []
            for replica in self.place.replicas:
                first = place * self.batch_size_global + replica * self.batch_size
                positions = np.arange(first, first + self.batch_size) % len(self.images)
                batch, begun = self._train_batch(order(positions), epoch)
                batches.append(batch)
                tasks += begun
            yield batches, tasks

    def _train_batch(self, images: npt.NDArray[np.int64], epoch: int) -> tuple[Batch, list[Future[None]]]:
        """A batch whose images are being made."""
        arrays: dict[str, Array] = {"image": self._take(len(images)), "label": self.images.label[images]}
        boxes = self._boxes(images, epoch)
        mirrored = flips(self.seed, epoch, images).tolist()
        make = partial(self._make_train, arrays, images.tolist(), boxes.tolist(), mirrored, epoch)
        batch = Batch(arrays, float(len(images)), float(self.batch_size_global), self.batch_size_global)
        return batch, self.pool.start(make, len(images))

    def _boxes(self, images: npt.NDArray[np.int64], epoch: int) -> npt.NDArray[np.int64]:
        """Crops (n, 4) of images (n,)."""
        widths, heights = self.images.width[images], self.images.height[images]
        return crop_boxes(self.seed, epoch, images, widths, heights, self.area_minimum)

    def _make_train(
        self,
        arrays: dict[str, Array],
        images: list[int],
        boxes: list[list[int]],
        mirrored: list[bool],
        epoch: int,
        reader: Reader,
        slot: int,
    ) -> None:
        """Write image `slot` of a batch."""
        image, box = images[slot], boxes[slot]
        for _ in range(SUBSTITUTES):
            try:
                part = self._part(reader, image, (box[0], box[1], box[2], box[3]))
                break
            except BadImage as error:
                if not self.skip_bad:
                    raise BadImage(f"{self.images.path(image)}: {error}") from None
                self._say_skipped(image, error)
            # The next image of the data set in its place, in every framework alike.
            image = (image + 1) % len(self.images)
            box = self._boxes(np.array([image]), epoch)[0].tolist()
            arrays["label"][slot] = self.images.label[image]
        else:
            raise BadImage(f"{self.images.path(image)}: and {SUBSTITUTES - 1} images before it cannot be decoded")
        resize_into(part, arrays["image"][slot], mirrored[slot])

    def _say_skipped(self, image: int, error: BadImage) -> None:
        """A line on stderr, once for each image."""
        if image not in self._skipped:
            self._skipped.add(image)
            print(f"left out: {self.images.path(image)}: {error}", file=sys.stderr, flush=True)

    def _part(self, reader: Reader, image: int, box: tuple[int, int, int, int]) -> npt.NDArray[np.uint8]:
        """The pixels of a crop of a training image."""
        data = reader.read(self.images.path(image), int(self.images.bytes[image]))
        denominator = self._denominator(box) if self.scaled else 1
        return reader.decode_part(data, box, int(self.images.width[image]), int(self.images.height[image]), denominator)

    def _denominator(self, box: tuple[int, int, int, int]) -> int:
        """The strongest reduction of a crop that is larger than what it is resized to; half of that side must be left."""
        for denominator in DENOMINATORS:
            if 2 * min(box[2], box[3]) >= denominator * self.size:
                return denominator
        return 1

    # -- evaluation -----------------------------------------------------------------------------------------------

    def _evaluation(self) -> Iterator[Making]:
        count, size = len(self.evaluation_images), self.evaluation_batch_size
        share = -(-count // self.place.replicas_total)
        for first in range(0, share, size):
            batches, tasks, total = [], [], 0
            for replica in range(self.place.replicas_total):
                start = min(replica * share + first, count)
                images = range(start, min(start + size, (replica + 1) * share, count))
                total += len(images)
                if replica in self.place.replicas:
                    arrays, begun = self._evaluation_arrays(images)
                    batches.append((arrays, len(images)))
                    tasks += begun
            yield [Batch(arrays, float(real), float(total), total) for arrays, real in batches], tasks

    def _evaluation_arrays(self, images: range) -> tuple[dict[str, Array], list[Future[None]]]:
        """Arrays of an evaluation batch, whose images are being made."""
        size, real = self.evaluation_batch_size, len(images)
        arrays: dict[str, Array] = {
            "image": self._take(size),
            "label": np.zeros(size, np.int32),
            "valid": np.arange(size) < real,
        }
        arrays["image"][real:] = 0
        arrays["label"][:real] = self.evaluation_images.label[images.start : images.stop]
        make = partial(self._make_evaluation, arrays["image"], images.start)
        return arrays, self.pool.start(make, real)

    def _make_evaluation(self, out: npt.NDArray[np.uint8], first: int, reader: Reader, slot: int) -> None:
        """Write image `slot` of an evaluation batch; a damaged one always ends the run, since none may be lost."""
        path = self.evaluation_images.path(first + slot)
        try:
            pixels = reader.decode(reader.read(path, int(self.evaluation_images.bytes[first + slot])))
        except BadImage as error:
            raise BadImage(f"{path}: {error}") from None
        central_into(pixels, out[slot], self.resize_size)


class SyntheticImageData:
    """Made-up batches, for throughput alone: a few are made once and handed out in turn, never copied."""

    BATCHES = 4

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        self.place = place
        self.batch_size_global = settings.batch_size_global
        size, count = int(settings.model["image_size"]), settings.batch_size_global // place.replicas_total
        self.batches = []
        for number in range(self.BATCHES):
            key = stream(seed, "image synthetic", number)
            pixels = bits(key, 0, np.arange(-(-count * size * size * 3 // 8))).view(np.uint8)
            image = pixels[: count * size * size * 3].reshape(count, size, size, 3)
            label = integers(bits(key, 1, np.arange(count)), facts.sizes["classes"]).astype(np.int32)
            self.batches.append(Batch({"image": image, "label": label}, float(count), *self._totals()))

    def _totals(self) -> tuple[float, int]:
        return float(self.batch_size_global), self.batch_size_global

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Batches of the real sizes; which made-up images they hold means nothing."""
        for step in range(first_step, stop_step):
            yield [self.batches[(step + replica) % self.BATCHES] for replica in self.place.replicas]

    def evaluation(self) -> Iterator[list[Batch]]:
        """Nothing: made-up data has no quality."""
        return iter(())

    def close(self) -> None:
        """Nothing to release."""
