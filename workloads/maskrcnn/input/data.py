"""Training and evaluation batches of Mask R-CNN.

Threads decode, resize, and pad the images, and label the anchors. `workloads.common.images.sharded`
describes the sharding and padding of batches. All images of a batch have the same orientation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np

from workloads.api import Array, DatasetInfo, Json, Settings, WorkerContext
from workloads.common import manifest as manifests
from workloads.common.arrays import Bools, Float32s, Int32s, Int64s, UInt8s, rows_of
from workloads.common.coco import masks, objects
from workloads.common.coco.masks import Polygons
from workloads.common.images import index
from workloads.common.images.counts import Shape
from workloads.common.images.index import ImageIndex
from workloads.common.images.jpeg import Reader
from workloads.common.images.resize import bounded_size, resize_into, resize_smooth_into
from workloads.common.images.shape_groups import ShapeGroup, group_by_orientation
from workloads.common.images.sharded import Begun, ImageData, ImageJob
from workloads.common.randomness import bits, fold, stream
from workloads.maskrcnn import anchors
from workloads.maskrcnn.input import dataset_info as counted
from workloads.maskrcnn.input import rpn_targets
from workloads.maskrcnn.input.order import StreamOrder
from workloads.maskrcnn.settings import MaskRCNNOptions

FLIP_CHANCE = 0.5
"""Probability of a horizontal flip, which is the only augmentation (reference defaults.py)."""


@dataclass(frozen=True)
class Objects:
    """Objects of b images after resizing and flipping, concatenated over the images."""

    box: Float32s
    """Boxes (m, 4) as left, top, right, bottom in pixels. A box includes its right and bottom edge
    pixels.
    """
    label: Int32s
    """Class (m,) of each object."""
    ends: Int64s
    """End offset (b,) of each image's objects."""
    polygons: Polygons


@dataclass
class Filling:
    """Training batch whose arrays are being filled by threads."""

    arrays: dict[str, Array]
    images: Int64s
    epoch: int
    shape: Shape
    objects: Objects
    lock: Lock = field(default_factory=Lock)


class SampleData(ImageData):
    """Input pipeline over a prepared data set with masks.

    Arrays of a training batch of B images padded to (H, W), with coordinates in pixels of the
    resized images:

    - `image` uint8 (B, H, W, 3), RGB, with zeros outside `size`;
    - `size` int32 (B, 2), height and width of each image without padding;
    - `number` int64 (B,), index of each image in the data set;
    - `anchor` int32 (B, S), indices of the sampled anchors in the order of `anchors`;
    - `anchor_label` and `anchor_weight` float32 (B, S), with weight 0 for an unused slot;
    - `anchor_offset` float32 (B, S, 4), regression targets of the sampled anchors;
    - `box` float32 (B, G, 4), boxes of the objects;
    - `label` int32 (B, G), classes from 1, or 0 for an empty slot;
    - `points` float32 (N, 2), `polygon_ends` int64 (P,), `object_ends` int64 (B·G,), the polygons
      of each object slot as ragged arrays;
    - `epoch` int64 (1,).

    Arrays of an evaluation batch:

    - `image`, `size`, and `number` as in training;
    - `width` and `height` int32 (B,), size of each original image;
    - `valid` bool (B,), False if an image is padding.
    """

    OPTIONS = MaskRCNNOptions

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.model: Mapping[str, Json] = settings.model
        self.objects_most = dataset_info.sizes["objects_per_image_most"]
        self.samples = int(settings.model["rpn_samples"])
        super().__init__(settings, dataset_info, worker, seed)
        self.objects = objects.read(self.folder, "train", len(self.images))
        self.polygons, self.trainable = masks.read(self.folder, "train", len(self.objects.label))

    def read_index(self, split: str, root: Path) -> ImageIndex:
        """Return the index of a split.

        The index of `val` includes the images without objects.
        """
        if split == "train":
            return index.read(self.folder, split, root, self.dataset_info.sizes["train_indexed"])
        return counted.evaluation_index(self.folder, manifests.read(self.folder), root)

    def grouped(self, split: str) -> list[ShapeGroup]:
        if split == "train":
            return counted.training_groups(self.folder, self.images, self.shapes)
        return group_by_orientation(self.evaluation_images, self.shapes)

    def order(self, epoch: int) -> StreamOrder:
        return StreamOrder(
            self.groups, self.global_batch_size, self.worker.num_replicas, self.seed, epoch
        )

    def batch_shape(self, split: str, images: Int64s, shape: Shape) -> Shape:
        """Return the smallest padded shape into which all images of the batch fit."""
        if not len(images):
            return shape
        of_split = self.images if split == "train" else self.evaluation_images
        return counted.smallest(self.shapes, counted.resized(of_split, images, self.model))

    # -- training
    # ----------------------------------------------------------------------------------------------

    def begin(self, job: ImageJob) -> Begun:
        count, samples = len(job.images), self.samples
        arrays: dict[str, Array] = {
            "image": self.take(count, job.shape),
            "anchor": np.empty((count, samples), np.int32),
            "anchor_label": np.empty((count, samples), np.float32),
            "anchor_weight": np.empty((count, samples), np.float32),
            "anchor_offset": np.empty((count, samples, 4), np.float32),
            "epoch": np.array([job.epoch], np.int64),
        }
        images = job.images.copy()
        filling = Filling(
            arrays, images, job.epoch, job.shape, self.draw(images, job.epoch, job.shape)
        )
        self._write_objects(filling)
        return arrays, self.pool.start(
            lambda reader, slot: self._make(filling, reader, slot), count, at_once=1
        )

    def sizes(self, images: Int64s, shape: Shape) -> Int64s:
        """Return the heights and widths (b, 2) of the resized images.

        An image that replaces a damaged image is shrunk to fit the shape of the batch.
        """
        sizes = counted.resized(self.images, images, self.model)
        share = np.minimum(1, (np.array(shape) / sizes).min(axis=1, keepdims=True))
        return np.where(share < 1, np.maximum(sizes * share, 1), sizes).astype(np.int64)

    def flips(self, images: Int64s, epoch: int) -> Bools:
        """Return whether each image (b,) is flipped in this epoch."""
        return bits(stream(self.seed, "maskrcnn flip", epoch), images) < np.uint64(
            int(FLIP_CHANCE * 2**64)
        )

    def draw(self, images: Int64s, epoch: int, shape: Shape) -> Objects:
        """Return the objects of images (b,) after resizing and this epoch's flips."""
        rows, ends = rows_of(self.objects.ends, images)
        owner = np.repeat(np.arange(len(images)), np.diff(ends, prepend=0))
        used = self.trainable[rows]
        owner, rows = owner[used], rows[used]
        widths, heights = self.images.width[images], self.images.height[images]
        corners, inside = objects.corners_inside(
            self.objects.box[rows], widths[owner], heights[owner]
        )
        assert inside.all(), "a box without pixels is trained on"
        sizes = self.sizes(images, shape)
        scale = (sizes[:, ::-1] / np.stack([widths, heights], axis=1)).astype(np.float32)
        box, taken = corners * np.tile(scale, 2)[owner], self.polygons.take(rows)
        polygons = np.diff(taken.object_ends, prepend=0)
        points = np.diff(taken.polygon_ends, prepend=0)
        of_point = np.repeat(np.repeat(owner, polygons), points)
        xy = taken.points * scale[of_point]
        last = (sizes[:, 1] - 1).astype(np.float32)
        flips = self.flips(images, epoch)
        box[:, [0, 2]] = np.where(
            flips[owner, None], last[owner, None] - box[:, [2, 0]], box[:, [0, 2]]
        )
        xy[:, 0] = np.where(flips[of_point], last[of_point] - xy[:, 0], xy[:, 0])
        ends = np.cumsum(np.bincount(owner, minlength=len(images)))
        return Objects(
            box, self.objects.label[rows], ends, Polygons(xy, taken.polygon_ends, taken.object_ends)
        )

    def _write_objects(self, filling: Filling) -> None:
        """Write the arrays of a batch that depend on all images of the batch."""
        objects, images, most = filling.objects, filling.images, self.objects_most
        box = np.zeros((len(images), most, 4), np.float32)
        label = np.zeros((len(images), most), np.int32)
        polygons = np.zeros(len(images) * most, np.int64)
        starts = np.concatenate([[0], objects.ends[:-1]])
        owner = np.repeat(np.arange(len(images)), objects.ends - starts)
        slot = np.arange(len(owner)) - starts[owner]
        box[owner, slot], label[owner, slot] = objects.box, objects.label
        polygons[owner * most + slot] = np.diff(objects.polygons.object_ends, prepend=0)
        filling.arrays |= {
            "size": self.sizes(images, filling.shape).astype(np.int32),
            "number": images,
            "box": box,
            "label": label,
            "points": objects.polygons.points,
            "polygon_ends": objects.polygons.polygon_ends,
            "object_ends": np.cumsum(polygons),
        }

    def _make(self, filling: Filling, reader: Reader, slot: int) -> None:
        """Write image `slot` of a batch and the anchor targets of the image.

        If the image is damaged, the method writes a replacement image and its anchor targets.
        """
        image, out = int(filling.images[slot]), filling.arrays["image"][slot]
        used_image = self.make_or_replace(
            image, lambda number: self._make_image(out, number, filling, reader)
        )
        if used_image != image:
            with filling.lock:
                filling.images[slot] = used_image
                filling.objects = self.draw(filling.images, filling.epoch, filling.shape)
                self._write_objects(filling)
        count = np.count_nonzero(filling.arrays["label"][slot])
        height, width = filling.arrays["size"][slot].tolist()
        box = filling.arrays["box"][slot, :count]
        sample = self.sample(box, used_image, filling.epoch, filling.shape, height, width)
        for name in ("anchor", "label", "weight", "offset"):
            filling.arrays[name if name == "anchor" else f"anchor_{name}"][slot] = getattr(
                sample, name
            )

    def sample(
        self, box: Float32s, image: int, epoch: int, shape: Shape, height: int, width: int
    ) -> rpn_targets.Sample:
        """Return the sampled anchors of an image in an epoch.

        `box` (G, 4) contains the boxes of the image's objects. `height` and `width` are the size of
        the image without padding.
        """
        levels = anchors.levels(self.model, *shape)
        labels = rpn_targets.label(levels, box, height, width)
        key = fold(stream(self.seed, "maskrcnn anchors", epoch), image)
        return rpn_targets.sample(labels, levels, box, self.samples, key)

    def _make_image(self, out: UInt8s, image: int, filling: Filling, reader: Reader) -> None:
        """Decode, resize, and flip an image, and write it to the upper left of `out`."""
        images = np.array([image])
        height, width = self.sizes(images, filling.shape)[0].tolist()
        whole = (0, 0, int(self.images.width[image]), int(self.images.height[image]))
        pixels = self.part(reader, image, whole, (height, width))
        fill(
            pixels,
            out,
            height,
            width,
            bool(self.flips(images, filling.epoch)[0]),
            plain=self.scaled,
        )

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def evaluation_facts(self, images: Int64s, valid: Bools) -> dict[str, Array]:
        """Return the indices and sizes of the images.

        A padding image has the index and size of image 0.
        """
        original_sizes = {
            "width": self.evaluation_images.width[images],
            "height": self.evaluation_images.height[images],
        }
        sizes = counted.resized(self.evaluation_images, images, self.model)
        sizes[~valid] = 1
        return {"number": images, "size": sizes.astype(np.int32), **original_sizes}

    def evaluation_image(self, pixels: UInt8s, out: UInt8s) -> None:
        """Resize an image as in training, but without a flip."""
        shorter, longest = int(self.model["image_size"]), int(self.model["image_size_most"])
        height, width = (
            int(side) for side in bounded_size(pixels.shape[0], pixels.shape[1], shorter, longest)
        )
        fill(pixels, out, height, width, flip=False)


def fill(
    pixels: UInt8s, out: UInt8s, height: int, width: int, flip: bool, plain: bool = False
) -> None:
    """Resize an image to `height` x `width` in the upper left of `out` (H, W, 3).

    All other pixels of `out` are set to 0. The resizing uses Pillow's filter, as in the reference.
    With `plain`, OpenCV enlarges images, which takes a tenth of the time of Pillow's filter. The
    pixel values of OpenCV differ from Pillow's by at most 1.
    """
    grows = height >= pixels.shape[0] and width >= pixels.shape[1]
    resize = resize_into if plain and grows else resize_smooth_into
    resize(pixels, out[:height, :width], flip)
    out[height:] = 0
    out[:height, width:] = 0
