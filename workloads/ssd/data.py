"""Training and evaluation batches of SSD: images decoded, cropped, jittered and matched to priors by threads.

Order, shares and padding are those of `workloads.resnet50.data`: step s of an epoch takes positions s·G … of the epoch's
permutation, the last step is filled up from its beginning, replica r of R takes its R-th part; validation images lie in
contiguous shares. What happens to an image depends on (seed, epoch, image) alone.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from workloads.api import Array, Batch, Facts, Place, Settings
from workloads.common import manifest as manifests
from workloads.common.images import index
from workloads.common.images.jpeg import BadImage, Reader
from workloads.common.images.pool import Ahead, Buffers, ReaderPool
from workloads.common.images.resize import resize_into
from workloads.common.randomness import Permutation, stream
from workloads.ssd import boxes, colours, crops, objects, priors

EVALUATION_BATCH_SIZE = 32
"""Images of one replica, unless the option `evaluation_batch_size` says otherwise."""
SUBSTITUTES = 100
"""With `skip_bad`, so many images in a row may be damaged before the run ends."""
MATCHED_AT_ONCE = 4
"""Images whose priors are matched together."""

Int64s = npt.NDArray[np.int64]
Making = tuple[list[Batch], "list[Future[None]]"]


@dataclass(frozen=True)
class Drawn:
    """What was drawn for images (b,) of an epoch, and what is left of their objects."""

    images: Int64s
    pixels: Int64s
    """(b, 4) left, top, width, height of the crops."""
    mirrored: npt.NDArray[np.bool_]
    factors: npt.NDArray[np.float64]
    orders: Int64s
    box: npt.NDArray[np.float32]
    label: npt.NDArray[np.int32]
    ends: Int64s


@dataclass
class Begun:
    """A training batch that threads are filling."""

    arrays: dict[str, Array]
    drawn: Drawn
    epoch: int
    replaced: set[int] = field(default_factory=set)
    """Places whose damaged image was replaced: their targets are not to be written again."""
    lock: Lock = field(default_factory=Lock)


class DetectionData:
    """`workloads.api.Data` over a prepared detection data set.

    Arrays of a training batch: `image` uint8 (B, S, S, 3) RGB, `offset` float32 (B, 4, P) and `label` int32 (B, P) as
    `boxes.targets` makes them. Of an evaluation batch: `image`, `number` int64 (B,) of each image in the validation set, its
    `width` and `height` int32 (B,) in pixels, and `valid` bool (B,), False where an image only fills the batch up.
    """

    def __init__(self, settings: Settings, facts: Facts, place: Place, seed: int) -> None:
        self.facts, self.place, self.seed = facts, place, seed
        self.size = int(settings.model["image_size"])
        self.rule = crops.CropRule.of(settings.model, int(settings.hyperparameters["max_samples"]))
        self.strengths = [float(strength) for strength in settings.model["jitter"]]
        self.priors = priors.build(settings.model)
        self.skip_bad = bool(settings.options.get("skip_bad", False))
        self.batch_size_global = settings.batch_size_global
        self.batch_size = settings.batch_size_global // place.replicas_total
        self.steps_per_epoch = -(-facts.train_samples // self.batch_size_global)
        wanted = int(settings.options.get("evaluation_batch_size", EVALUATION_BATCH_SIZE))
        self.evaluation_batch_size = min(wanted, -(-facts.evaluation_samples // place.replicas_total))
        folder = Path(settings.data_dir)
        manifest = manifests.read(folder)
        if manifest is None:
            raise ValueError(f"no prepared data in {folder}")
        root = folder / str(manifest.options["images"])
        self.images = index.read(folder, "train", root, facts.train_samples)
        self.objects = objects.read(folder, "train", facts.train_samples)
        self.evaluation_images = index.read(folder, "val", root, facts.evaluation_samples)
        self.pool = ReaderPool(int(settings.options.get("data_threads", 0)) or len(os.sched_getaffinity(0)))
        self._running: weakref.WeakSet[Ahead[list[Batch]]] = weakref.WeakSet()
        self._buffers: dict[int, Buffers] = {}

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
                begun = self._begin(order(positions), epoch)
                count = float(self.batch_size)
                batches.append(Batch(begun.arrays, count, float(self.batch_size_global), self.batch_size_global))
                tasks += self._start(begun)
            yield batches, tasks

    def _begin(self, images: Int64s, epoch: int) -> Begun:
        """A batch with room for everything."""
        count, of_priors = len(images), len(self.priors)
        arrays: dict[str, Array] = {
            "image": self._take(count),
            "offset": np.empty((count, 4, of_priors), np.float32),
            "label": np.empty((count, of_priors), np.int32),
        }
        return Begun(arrays, self.draw(images, epoch), epoch)

    def _start(self, begun: Begun) -> list[Future[None]]:
        """Have a batch's images and targets made."""
        count = len(begun.drawn.images)
        tasks = self.pool.start(lambda reader, slot: self._make(begun, reader, slot), count)
        groups = -(-count // MATCHED_AT_ONCE)
        return tasks + self.pool.start(lambda reader, group: self._match(begun, group), groups)

    def draw(self, images: Int64s, epoch: int) -> Drawn:
        """All random choices about some images in an epoch."""
        widths, heights = self.images.width[images], self.images.height[images]
        box, label, ends = self.objects.take(images, widths, heights)
        windows = crops.windows(self.seed, epoch, images, box, ends, self.rule)
        mirrored = crops.flips(self.seed, epoch, images)
        factors, orders = colours.draw(self.seed, epoch, images, self.strengths)
        left = crops.inside(windows, mirrored, box, label, ends)
        return Drawn(images, crops.pixels(windows, widths, heights), mirrored, factors, orders, *left)

    def _match(self, begun: Begun, group: int) -> None:
        """Write the targets of one group of images."""
        drawn = begun.drawn
        first = group * MATCHED_AT_ONCE
        stop = min(first + MATCHED_AT_ONCE, len(drawn.images))
        before = int(drawn.ends[first - 1]) if first else 0
        some = slice(before, int(drawn.ends[stop - 1]))
        ends = drawn.ends[first:stop] - before
        offset, label = boxes.targets(drawn.box[some], drawn.label[some], ends, self.priors)
        with begun.lock:
            for slot in set(range(first, stop)) - begun.replaced:
                begun.arrays["offset"][slot], begun.arrays["label"][slot] = offset[slot - first], label[slot - first]

    def _make(self, begun: Begun, reader: Reader, slot: int) -> None:
        """Write image `slot` of a batch; with `skip_bad` the data set's next one in the place of a damaged one."""
        drawn, place = begun.drawn, slot
        for _ in range(SUBSTITUTES):
            try:
                self._make_image(begun.arrays["image"][slot], drawn, place, reader)
                break
            except BadImage as error:
                image = int(drawn.images[place])
                if not self.skip_bad:
                    raise BadImage(f"{self.images.path(image)}: {error}") from None
            drawn, place = self.draw(np.array([(image + 1) % len(self.images)]), begun.epoch), 0
        else:
            raise BadImage(f"{self.images.path(image)}: and {SUBSTITUTES - 1} images before it cannot be decoded")
        if drawn is not begun.drawn:
            offset, label = boxes.targets(drawn.box, drawn.label, drawn.ends, self.priors)
            with begun.lock:
                begun.replaced.add(slot)
                begun.arrays["offset"][slot], begun.arrays["label"][slot] = offset[0], label[0]

    def _make_image(self, out: npt.NDArray[np.uint8], drawn: Drawn, place: int, reader: Reader) -> None:
        """Decode, crop, resize, mirror and jitter one image."""
        image = int(drawn.images[place])
        left, top, width, height = drawn.pixels[place].tolist()
        data = reader.read(self.images.path(image), int(self.images.bytes[image]))
        sizes = int(self.images.width[image]), int(self.images.height[image])
        part = reader.decode_part(data, (left, top, width, height), *sizes)
        resize_into(part, out, bool(drawn.mirrored[place]))
        colours.jitter(out, drawn.factors[place].tolist(), drawn.orders[place].tolist())

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
        numbers = np.zeros(size, np.int64)
        numbers[:real] = images
        arrays: dict[str, Array] = {
            "image": self._take(size),
            "number": numbers,
            "width": self.evaluation_images.width[numbers],
            "height": self.evaluation_images.height[numbers],
            "valid": np.arange(size) < real,
        }
        arrays["image"][real:] = 0
        make = self._make_evaluation
        return arrays, self.pool.start(lambda reader, slot: make(arrays["image"][slot], images[slot], reader), real)

    def _make_evaluation(self, out: npt.NDArray[np.uint8], image: int, reader: Reader) -> None:
        """Write one evaluation image; a damaged one always ends the run, since none may be lost."""
        path = self.evaluation_images.path(image)
        try:
            resize_into(reader.decode(reader.read(path, int(self.evaluation_images.bytes[image]))), out)
        except BadImage as error:
            raise BadImage(f"{path}: {error}") from None
