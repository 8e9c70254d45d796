"""Order of the training images: each replica builds batches of a single orientation.

Each replica builds batches from its share of the images. The order matches maskrcnn_benchmark
(data/samplers, mlcommons/training at v0.5), which uses a GroupedBatchSampler over a
DistributedSampler. In the same step, different replicas therefore often have batches of different
orientations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workloads.common.arrays import Int64s
from workloads.common.images.counts import Shape, stream_steps
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.randomness import Permutation, stream


class StreamOrder:
    """Assignment of the images of an epoch to steps and replicas.

    The permutation of an epoch is divided into R equal slices, and replica r gets slice r. The
    batches of a replica are ordered by the position of their first image. The last batch of an
    orientation is padded with the first images of the same orientation. If a replica has fewer
    batches than the epoch has steps, the replica repeats its batches from the first batch on.
    """

    def __init__(
        self, groups: Sequence[ShapeGroup], batch_size: int, replicas: int, seed: int, epoch: int
    ) -> None:
        self.groups, self.batch_size = groups, batch_size // replicas
        self.images = np.concatenate([group[np.arange(group.count)] for group in groups])
        self.group_of = np.repeat(np.arange(len(groups)), [group.count for group in groups])
        self.share = -(-len(self.images) // replicas)
        self.steps = stream_steps(len(self.images), batch_size, replicas, len(groups))
        self.permutation = Permutation(stream(seed, "image order", epoch), len(self.images))
        self._batches: dict[int, tuple[Int64s, Int64s]] = {}

    def __call__(self, step: int, first: int, stop: int) -> tuple[Int64s, Shape]:
        """Return a replica's images in a step, and their padded shape.

        The replica processes the positions `first` … `stop` - 1 of the global batch.
        """
        replica = first // self.batch_size
        if replica not in self._batches:
            self._batches[replica] = self._planned(replica)
        images, group = self._batches[replica]
        return images[step], self.groups[group[step]].shape

    def _planned(self, replica: int) -> tuple[Int64s, Int64s]:
        """Return the images (steps, B) and the shape groups (steps,) of a replica's batches."""
        positions = np.arange(replica * self.share, (replica + 1) * self.share) % len(self.images)
        drawn = self.permutation(positions)
        images, begins, groups = [], [], []
        for number in range(len(self.groups)):
            in_group = np.flatnonzero(self.group_of[drawn] == number)
            count = -(-len(in_group) // self.batch_size)
            filled = np.resize(in_group, (count, self.batch_size))
            images.append(self.images[drawn[filled]])
            begins.append(filled[:, 0])
            groups.append(np.full(count, number))
        order = np.resize(np.argsort(np.concatenate(begins)), self.steps)
        return np.concatenate(images)[order], np.concatenate(groups)[order]
