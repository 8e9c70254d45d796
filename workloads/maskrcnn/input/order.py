"""The order of the training images: each replica fills batches of one orientation from images of its own.

As in maskrcnn_benchmark (data/samplers, mlcommons/training at v0.5): a GroupedBatchSampler over a DistributedSampler, so that
the replicas of a step rarely all have the same orientation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workloads.common.arrays import Int64s
from workloads.common.images.counts import Shape, stream_steps
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.randomness import Permutation, stream


class StreamOrder:
    """Which images the steps of an epoch have.

    Replica r of R has the r-th part of the epoch's permutation, and its batches follow each other as their first images do. The
    last batch of an orientation is filled up from that orientation's beginning; a replica that needs fewer steps than there are
    goes on with its first batch.
    """

    def __init__(self, groups: Sequence[ShapeGroup], batch_size: int, replicas: int, seed: int, epoch: int) -> None:
        self.groups, self.batch_size = groups, batch_size // replicas
        self.images = np.concatenate([group[np.arange(group.count)] for group in groups])
        self.group_of = np.repeat(np.arange(len(groups)), [group.count for group in groups])
        self.share = -(-len(self.images) // replicas)
        self.steps = stream_steps(len(self.images), batch_size, replicas, len(groups))
        self.permutation = Permutation(stream(seed, "image order", epoch), len(self.images))
        self._batches: dict[int, tuple[Int64s, Int64s]] = {}

    def __call__(self, step: int, first: int, stop: int) -> tuple[Int64s, Shape]:
        """The images that a replica, whose are first … stop - 1 of the global batch, has in a step, and their shape."""
        replica = first // self.batch_size
        if replica not in self._batches:
            self._batches[replica] = self._made(replica)
        images, group = self._batches[replica]
        return images[step], self.groups[group[step]].shape

    def _made(self, replica: int) -> tuple[Int64s, Int64s]:
        """(steps, B) images of a replica's batches, and (steps,) their groups."""
        places = np.arange(replica * self.share, (replica + 1) * self.share) % len(self.images)
        drawn = self.permutation(places)
        images, begins, groups = [], [], []
        for number in range(len(self.groups)):
            mine = np.flatnonzero(self.group_of[drawn] == number)
            count = -(-len(mine) // self.batch_size)
            filled = np.resize(mine, (count, self.batch_size))
            images.append(self.images[drawn[filled]])
            begins.append(filled[:, 0])
            groups.append(np.full(count, number))
        order = np.resize(np.argsort(np.concatenate(begins)), self.steps)
        return np.concatenate(images)[order], np.concatenate(groups)[order]
