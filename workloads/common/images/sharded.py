"""Batches of a prepared image data set, distributed over replicas.

Threads prefetch the batches.

Each epoch has a random permutation of the images. Step s uses the positions from s·G of the
permutation, where G is the global batch size. The last batch of an epoch is completed with images
from the beginning of the same permutation, because padding would change the statistics of batch
norm. Replica r of R uses positions r·G/R … (r + 1)·G/R - 1 of each step. Validation images are
divided into contiguous shares, and exactly one replica evaluates each image.

The processing of an image depends only on (seed, epoch, image), never on the replica, process, or
thread. If a model pads images to several shapes, each replica separately fills batches of a single
shape (Mask R-CNN's `StreamOrder`).
"""

from __future__ import annotations

import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from workloads.api import (
    Array,
    Batch,
    DatasetInfo,
    Settings,
    WorkerContext,
    build_options,
    num_steps,
)
from workloads.common import manifest as manifests
from workloads.common.arrays import Bools, Int64s, UInt8s
from workloads.common.cores import DataThreadsOptions, process_cores
from workloads.common.images import index
from workloads.common.images.batches.pool import BatchesAhead, Buffers, ReaderPool
from workloads.common.images.counts import Shape, image_shapes
from workloads.common.images.index import ImageIndex
from workloads.common.images.jpeg import BadImage, Box, Reader
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.images.workload import ImageOptions
from workloads.common.randomness import Permutation, stream

DENOMINATORS = (8, 4, 2)
SUBSTITUTES = 100
"""Maximum number of consecutive damaged images with `skip_bad`. The run ends after this number of
damaged images.
"""

Begun = tuple[dict[str, Array], "list[Future[None]]"]
"""Arrays of a batch, and the tasks that fill the arrays."""
Making = tuple[list[Batch], "list[Future[None]]"]
"""Batches of the local replicas, and the tasks that fill the batches."""


class ImageJob(NamedTuple):
    """Specification of a training batch to prepare."""

    images: Int64s
    """Indices (B,) of the images."""
    epoch: int
    shape: Shape


class Order(Protocol):
    """Assignment of images to the steps of an epoch."""

    steps: int

    def __call__(self, step: int, first: int, stop: int) -> tuple[Int64s, Shape]:
        """Return images `first` … `stop` - 1 of a step's global batch, and their shape.

        The images from `first` to `stop` - 1 belong to one replica.
        """


class EpochOrder:
    """Assignment of images to the steps of an epoch if all batches have the same shape."""

    def __init__(self, group: ShapeGroup, batch_size: int, seed: int, epoch: int) -> None:
        self.group, self.batch_size = group, batch_size
        self.steps = num_steps(group.count, batch_size)
        self.permutation = Permutation(stream(seed, "image order", epoch), group.count)

    def __call__(self, step: int, first: int, stop: int) -> tuple[Int64s, Shape]:
        """Return images `first` … `stop` - 1 of a step's global batch, and their shape."""
        places = step * self.batch_size + np.arange(first, stop)
        return self.group[self.permutation(places % self.group.count)], self.group.shape


def reduction(box: Box, shape: Shape) -> int:
    """Return the largest denominator (1, 2, 4, or 8) for decoding a crop.

    The crop will be resized to `shape`. The height and width of the decoded crop must be at least
    half of the height and width of `shape`.
    """
    return next(
        (by for by in DENOMINATORS if 2 * box[3] >= by * shape[0] and 2 * box[2] >= by * shape[1]),
        1,
    )


class ImageData(ABC):
    """Data pipeline (`workloads.api.DataPipeline`) of a prepared image data set.

    Subclasses define the random draws and the arrays of a batch. The memory of a batch is not
    reused while a reference to an array of the batch or to a view of an array exists. With
    `data_threads=0`, the number of threads is the number of cores of the process (`process_cores`).
    The constructor raises ValueError if the data folder contains no prepared data.
    """

    OPTIONS: ClassVar[type[ImageOptions]] = ImageOptions
    """Dataclass with the options of the data pipeline. Subclasses may set different defaults."""

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.dataset_info, self.worker, self.seed = dataset_info, worker, seed
        self.shapes = image_shapes(settings.model)
        options = build_options(self.OPTIONS, settings)
        self.scaled, self.skip_bad = options.decode == "scaled", options.skip_bad
        self.global_batch_size = settings.global_batch_size
        self.batch_size = settings.global_batch_size // worker.num_replicas
        self.evaluation_share = -(-dataset_info.evaluation_samples // worker.num_replicas)
        self.evaluation_batch_size = min(options.evaluation_batch_size, self.evaluation_share)
        self.folder = Path(settings.data_dir)
        manifest = manifests.read(self.folder)
        if manifest is None:
            raise ValueError(f"no prepared data in {self.folder}")
        root = index.root(self.folder, manifest)
        self.images, self.evaluation_images = (
            self.read_index("train", root),
            self.read_index("val", root),
        )
        self.groups, self.evaluation_groups = self.grouped("train"), self.grouped("val")
        self.steps_per_epoch = self.order(0).steps
        self.pool = ReaderPool(
            build_options(DataThreadsOptions, settings).data_threads or process_cores(worker)
        )
        self._running: weakref.WeakSet[BatchesAhead[list[Batch]]] = weakref.WeakSet()
        self._buffers: dict[int, Buffers] = {}
        self._skipped: set[int] = set()
        """Indices of damaged images that have already been reported on stderr."""

    def read_index(self, split: str, root: Path) -> ImageIndex:
        """Return the index of `train` or `val`."""
        count = (
            self.dataset_info.train_samples
            if split == "train"
            else self.dataset_info.evaluation_samples
        )
        return index.read(self.folder, split, root, count)

    def grouped(self, split: str) -> list[ShapeGroup]:
        """Return the images of a split, grouped by the shape of their batches."""
        return [
            ShapeGroup(
                self.shapes[0], len(self.images if split == "train" else self.evaluation_images)
            )
        ]

    def order(self, epoch: int) -> Order:
        """Return the assignment of images to the steps of an epoch."""
        (group,) = self.groups
        return EpochOrder(group, self.global_batch_size, self.seed, epoch)

    def batch_shape(self, split: str, images: Int64s, shape: Shape) -> Shape:
        """Return the shape of a replica's batch of `images`.

        The returned shape is the group's `shape` or a smaller shape.
        """
        return shape

    @abstractmethod
    def begin(self, job: ImageJob) -> Begun:
        """Start the preparation of a training batch.

        The tasks write the images to memory from `take(…, job.shape)`.
        """

    def evaluation_facts(self, images: Int64s, valid: Bools) -> dict[str, Array]:
        """Return the arrays of an evaluation batch, except `image` and `valid`.

        By default, the method returns the labels. Padding has the label 0, `valid` False, and the
        index 0 in `images`.
        """
        return {"label": self.evaluation_images.label[images] * valid}

    @abstractmethod
    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """Write a decoded evaluation image to its slot (H, W, 3)."""

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of steps first_step … stop_step - 1.

        The steps may span several epochs.
        """
        return self._ahead(self._train(first_step, stop_step))

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield the batches of this process's validation images.

        Replica r evaluates the images from index r·⌈N/R⌉ of the validation set, where N is the
        number of images and R is the number of replicas.
        """
        return self._ahead(self._evaluation())

    def close(self) -> None:
        for ahead in list(self._running):
            ahead.close()
        self.pool.close()

    def finish(self) -> None:
        """Wait for all started batches."""
        for ahead in list(self._running):
            ahead.finish()

    # -- helpers of subclasses
    # ------------------------------------------------------------------------------------

    def take(self, count: int, shape: Shape) -> UInt8s:
        """Return memory for `count` images of the given shape."""
        if count not in self._buffers:
            self._buffers[count] = Buffers(
                count * 3 * max(height * width for height, width in self.shapes)
            )
        return self._buffers[count].take((count, *shape, 3))

    def part(self, reader: Reader, image: int, box: Box, shape: Shape) -> UInt8s:
        """Return the pixels of a training image's crop that will be resized to `shape`.

        With `scaled` decoding, a crop that is larger than `shape` is decoded at a fraction of the
        image size. The method raises BadImage for an invalid image.
        """
        data = reader.read(self.images.path(image), int(self.images.bytes[image]))
        denominator = reduction(box, shape) if self.scaled else 1
        width, height = int(self.images.width[image]), int(self.images.height[image])
        return reader.decode_part(data, box, width, height, denominator)

    def make_or_replace(self, image: int, make: Callable[[int], None]) -> int:
        """Call `make` with a training image, and return the index of the image that was used.

        With `skip_bad`, the next image of the data set replaces a damaged image. The replacement is
        the same in every framework. Without `skip_bad`, the method raises BadImage with the file's
        name.
        """
        for _ in range(SUBSTITUTES):
            try:
                make(image)
                return image
            except BadImage as error:
                if not self.skip_bad:
                    raise BadImage(f"{self.images.path(image)}: {error}") from None
                if image not in self._skipped:
                    self._skipped.add(image)
                    print(
                        f"left out: {self.images.path(image)}: {error}", file=sys.stderr, flush=True
                    )
                last, image = image, (image + 1) % len(self.images)
        raise BadImage(
            f"{self.images.path(last)}: and {SUBSTITUTES - 1} images before it cannot be decoded"
        )

    # -- training and evaluation batches of each replica ------------------------------------

    def _ahead(self, making: Iterator[Making]) -> Iterator[list[Batch]]:
        ahead = BatchesAhead(making)
        self._running.add(ahead)
        try:
            yield from ahead
        finally:
            ahead.close()

    def _train(self, first_step: int, stop_step: int) -> Iterator[Making]:
        order: Order | None = None
        weight = float(self.batch_size), float(self.global_batch_size), self.global_batch_size
        for step in range(first_step, stop_step):
            epoch, epoch_step = divmod(step, self.steps_per_epoch)
            if order is None or epoch_step == 0:
                order = self.order(epoch)
            batches, tasks = [], []
            for replica in self.worker.replica_ids:
                images, shape = order(
                    epoch_step, replica * self.batch_size, (replica + 1) * self.batch_size
                )
                arrays, begun = self.begin(
                    ImageJob(images, epoch, self.batch_shape("train", images, shape))
                )
                batches.append(Batch(arrays, *weight))
                tasks += begun
            yield batches, tasks

    def _evaluation(self) -> Iterator[Making]:
        size, replicas = self.evaluation_batch_size, self.worker.num_replicas
        for group in self.evaluation_groups:
            share = -(-group.count // replicas)
            for first in range(0, share, size):
                starts = [min(replica * share + first, group.count) for replica in range(replicas)]
                stops = [
                    min(start + size, (r + 1) * share, group.count)
                    for r, start in enumerate(starts)
                ]
                total = sum(stops) - sum(starts)
                batches, tasks = [], []
                for replica in self.worker.replica_ids:
                    images = group[np.arange(starts[replica], stops[replica])]
                    arrays, begun = self._begin_evaluation(
                        images, self.batch_shape("val", images, group.shape)
                    )
                    batches.append(Batch(arrays, float(len(images)), float(total), total))
                    tasks += begun
                yield batches, tasks

    def _begin_evaluation(self, images: Int64s, shape: Shape) -> Begun:
        """Start the preparation of an evaluation batch. Padding images are black."""
        size, real = self.evaluation_batch_size, len(images)
        numbers, valid, pixels = (
            np.zeros(size, np.int64),
            np.arange(size) < real,
            self.take(size, shape),
        )
        numbers[:real] = images
        pixels[real:] = 0
        arrays = {"image": pixels, **self.evaluation_facts(numbers, valid), "valid": valid}
        return arrays, self.pool.start(
            lambda reader, slot: self._evaluate(pixels[slot], int(images[slot]), reader), real
        )

    def _evaluate(self, out: UInt8s, image: int, reader: Reader) -> None:
        """Write an evaluation image to its slot in the batch.

        A damaged image always ends the run, because every validation image must be evaluated.
        """
        path = self.evaluation_images.path(image)
        try:
            self.evaluation_image(
                reader.decode(reader.read(path, int(self.evaluation_images.bytes[image]))), out
            )
        except BadImage as error:
            raise BadImage(f"{path}: {error}") from None
