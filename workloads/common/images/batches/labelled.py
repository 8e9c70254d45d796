"""Batches of image classifiers. Threads decode, crop, and flip JPEGs during training.

`workloads.common.images.sharded` defines the order of the images, their distribution over replicas,
and the padding of batches.
"""

from __future__ import annotations

import numpy as np

from workloads.api import Array, DatasetInfo, Settings, WorkerContext
from workloads.common.arrays import Int64s, UInt8s
from workloads.common.images.batches.augment import crop_boxes, flips
from workloads.common.images.jpeg import Reader
from workloads.common.images.resize import central_into, resize_into
from workloads.common.images.sharded import Begun, ImageData, ImageJob
from workloads.common.images.synthetic import SyntheticData
from workloads.common.randomness import bits, integers


class ImageNetData(ImageData):
    """`workloads.api.DataPipeline` over a prepared image data set.

    A training batch contains `image` uint8 (B, H, W, 3) RGB and `label` int32 (B,). B is the same
    in every step. An evaluation batch also contains `valid` bool (B,), which is False for padding
    images (black, label 0).
    """

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        super().__init__(settings, dataset_info, worker, seed)
        self.resize_size = int(settings.model["resize_size"])
        self.area_minimum = float(settings.model["area_minimum"])

    def begin(self, job: ImageJob) -> Begun:
        images, out = job.images.tolist(), self.take(len(job.images), job.shape)
        arrays: dict[str, Array] = {"image": out, "label": self.images.label[job.images]}
        boxes, mirrored = (
            self._boxes(job.images, job.epoch),
            flips(self.seed, job.epoch, job.images).tolist(),
        )

        def work(reader: Reader, slot: int) -> None:
            def make(image: int) -> None:
                box = (
                    boxes[slot]
                    if image == images[slot]
                    else self._boxes(np.array([image]), job.epoch)[0]
                )
                left, top, width, height = box.tolist()
                resize_into(
                    self.part(reader, image, (left, top, width, height), job.shape),
                    out[slot],
                    mirrored[slot],
                )

            used = self.make_or_replace(images[slot], make)
            if used != images[slot]:
                arrays["label"][slot] = self.images.label[used]

        return arrays, self.pool.start(work, len(images))

    def _boxes(self, images: Int64s, epoch: int) -> Int64s:
        """Return the random crops (n, 4) of images (n,) in an epoch."""
        widths, heights = self.images.width[images], self.images.height[images]
        return crop_boxes(self.seed, epoch, images, widths, heights, self.area_minimum)

    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """Resize the shorter side of an image to `resize_size`, and write the center to `out`.

        The resized shape is computed as in the reference (see `resize.evaluation_size`).
        """
        central_into(pixels, out, self.resize_size)


class SyntheticImageData(SyntheticData):
    """Synthetic batches with the arrays `image` and `label` of `ImageNetData`."""

    BATCHES = 4
    STREAM = "image synthetic"

    def targets(self, key: np.uint64, count: int) -> dict[str, Array]:
        """Return random labels (count,)."""
        return {
            "label": integers(
                bits(key, 1, np.arange(count)), self.dataset_info.sizes["classes"]
            ).astype(np.int32)
        }
