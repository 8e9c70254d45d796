"""Training and evaluation batches of SSD.

Threads decode, crop, and jitter the images, and match the objects with priors.
`workloads.common.images.sharded` describes the order, sharding, and padding of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from workloads.api import Array, DatasetInfo, Settings, WorkerContext
from workloads.common.arrays import Bools, Float32s, Float64s, Int32s, Int64s, UInt8s
from workloads.common.coco import objects
from workloads.common.images.jpeg import Reader
from workloads.common.images.resize import resize_smooth_into
from workloads.common.images.sharded import Begun, ImageData, ImageJob
from workloads.ssd import boxes, colours, crops, priors
from workloads.ssd.settings import SSDOptions

MATCHED_AT_ONCE = 4
"""Number of images whose objects are matched with priors in one operation."""


@dataclass(frozen=True)
class Drawn:
    """Random choices for images (b,) of an epoch, and the images' objects after the crop."""

    images: Int64s
    pixels: Int64s
    """Crops (b, 4) as left, top, width, height in pixels."""
    mirrored: Bools
    factors: Float64s
    orders: Int64s
    box: Float32s
    label: Int32s
    ends: Int64s


@dataclass
class Filling:
    """Training batch whose arrays are being filled by threads."""

    arrays: dict[str, Array]
    drawn: Drawn
    epoch: int
    replaced: set[int] = field(default_factory=set)
    """Slots whose image replaces a damaged image. The targets of these slots must not be
    overwritten.
    """
    lock: Lock = field(default_factory=Lock)


class DetectionData(ImageData):
    """Input pipeline over a prepared detection data set.

    Arrays of a training batch:

    - `image` uint8 (B, H, W, 3), RGB;
    - `offset` float32 (B, 4, P) and `label` int32 (B, P), the results of `boxes.targets`.

    Arrays of an evaluation batch:

    - `image` as in training;
    - `number` int64 (B,), index of each image in the validation set;
    - `width` and `height` int32 (B,), size of each original image in pixels;
    - `valid` bool (B,), False if an image is padding.
    """

    OPTIONS = SSDOptions

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        super().__init__(settings, dataset_info, worker, seed)
        self.rule = crops.CropRule.of(settings.model, int(settings.hyperparameters["max_samples"]))
        self.strengths = [float(strength) for strength in settings.model["jitter"]]
        self.priors = priors.build(settings.model)
        self.objects = objects.read(self.folder, "train", dataset_info.train_samples)

    def begin(self, job: ImageJob) -> Begun:
        count, prior_count = len(job.images), len(self.priors)
        arrays: dict[str, Array] = {
            "image": self.take(count, job.shape),
            "offset": np.empty((count, 4, prior_count), np.float32),
            "label": np.empty((count, prior_count), np.int32),
        }
        filling = Filling(arrays, self.draw(job.images, job.epoch), job.epoch)
        tasks = self.pool.start(lambda reader, slot: self._make(filling, reader, slot), count)
        groups = -(-count // MATCHED_AT_ONCE)
        return arrays, tasks + self.pool.start(
            lambda reader, group: self._match(filling, group), groups
        )

    def draw(self, images: Int64s, epoch: int) -> Drawn:
        """Return all random choices for images (b,) in an epoch, and the cropped objects."""
        widths, heights = self.images.width[images], self.images.height[images]
        box, label, ends = self.objects.take(images, widths, heights)
        windows = crops.windows(self.seed, epoch, images, box, ends, self.rule)
        mirrored = crops.flips(self.seed, epoch, images)
        factors, orders = colours.draw(self.seed, epoch, images, self.strengths)
        remaining = crops.inside(windows, mirrored, box, label, ends)
        return Drawn(
            images, crops.pixels(windows, widths, heights), mirrored, factors, orders, *remaining
        )

    def _match(self, filling: Filling, group: int) -> None:
        """Write the targets of the priors for a group of images."""
        drawn = filling.drawn
        first = group * MATCHED_AT_ONCE
        stop = min(first + MATCHED_AT_ONCE, len(drawn.images))
        before = int(drawn.ends[first - 1]) if first else 0
        rows = slice(before, int(drawn.ends[stop - 1]))
        ends = drawn.ends[first:stop] - before
        offset, label = boxes.targets(drawn.box[rows], drawn.label[rows], ends, self.priors)
        with filling.lock:
            for slot in set(range(first, stop)) - filling.replaced:
                filling.arrays["offset"][slot] = offset[slot - first]
                filling.arrays["label"][slot] = label[slot - first]

    def _make(self, filling: Filling, reader: Reader, slot: int) -> None:
        """Write image `slot` of a batch.

        If the image is damaged, the method writes a replacement image and its targets.
        """
        image_drawn, out = int(filling.drawn.images[slot]), filling.arrays["image"][slot]

        def make(image: int) -> None:
            if image == image_drawn:
                self._make_image(out, filling.drawn, slot, reader)
            else:
                self._make_image(out, self.draw(np.array([image]), filling.epoch), 0, reader)

        used_image = self.make_or_replace(image_drawn, make)
        if used_image != image_drawn:
            drawn = self.draw(np.array([used_image]), filling.epoch)
            offset, label = boxes.targets(drawn.box, drawn.label, drawn.ends, self.priors)
            with filling.lock:
                filling.replaced.add(slot)
                filling.arrays["offset"][slot], filling.arrays["label"][slot] = offset[0], label[0]

    def _make_image(self, out: UInt8s, drawn: Drawn, index: int, reader: Reader) -> None:
        """Decode, crop, resize, flip, and jitter an image, and write it to `out`."""
        left, top, width, height = drawn.pixels[index].tolist()
        part = self.part(
            reader, int(drawn.images[index]), (left, top, width, height), out.shape[:2]
        )
        resize_smooth_into(part, out, bool(drawn.mirrored[index]))
        colours.jitter(out, drawn.factors[index].tolist(), drawn.orders[index].tolist())

    def evaluation_facts(self, images: Int64s, valid: Bools) -> dict[str, Array]:
        """Return the indices and sizes of the images.

        A padding image has the index and size of image 0.
        """
        sizes = {
            "width": self.evaluation_images.width[images],
            "height": self.evaluation_images.height[images],
        }
        return {"number": images, **sizes}

    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """Resize the whole image to the size of `out`. The aspect ratio is not preserved."""
        resize_smooth_into(pixels, out)
