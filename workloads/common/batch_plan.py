"""Batches of samples of different lengths: buckets of fixed padded shapes, and a plan of each epoch's batches from a hash.

Every process makes the same plan from the lengths alone, so all know the batches, the weights and the number of steps of an
epoch before any sample is read. A bucket takes the lengths up to its edge and pads to it: few shapes, so nothing is compiled in
the middle of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Int64s, Integers
from workloads.common.randomness import Permutation, stream


@dataclass(frozen=True)
class Bucket:
    """Samples longer than the edge before it, up to its own."""

    edge: int
    """The longest sample that it takes, and the length that samples are padded to, in tokens."""
    batch_samples: int
    """Of a global batch; a multiple of the number of replicas."""


def buckets_by_samples(edges: Sequence[int], batch_samples: int, replicas: int) -> tuple[Bucket, ...]:
    """Batches of equally many samples. Raises ValueError if the replicas cannot share them equally."""
    if batch_samples % replicas:
        raise ValueError(
            f"batch size {batch_samples} cannot be shared equally by {replicas} devices; "
            f"type batch=global:{max(1, round(batch_samples / replicas)) * replicas}"
        )
    return tuple(Bucket(edge, batch_samples) for edge in sorted(edges))


def buckets_by_tokens(edges: Sequence[int], batch_tokens: int, replicas: int) -> tuple[Bucket, ...]:
    """Batches of at most `batch_tokens` tokens with padding. Raises ValueError if a replica could get no longest sample."""
    if batch_tokens < max(edges) * replicas:
        raise ValueError(
            f"batch size {batch_tokens} tokens cannot give each of {replicas} devices a sample of {max(edges)} tokens; "
            f"type batch=global:{max(edges) * replicas} or more"
        )
    return tuple(Bucket(edge, batch_tokens // edge // replicas * replicas) for edge in sorted(edges))


class BatchPlan:
    """The batches of one epoch: buckets filled in a random order, then all batches in a random order.

    Samples that fill no batch of their bucket are left out. Where an epoch has `every` sample they go on to the next bucket,
    and the last one fills up its last batch with samples that the epoch has already. Longer ones than any bucket are left out.
    """

    def __init__(
        self, lengths: Integers, buckets: Sequence[Bucket], seed: int, epoch: int, every: bool = False
    ) -> None:
        """`lengths` (N,): of each sample, in tokens. `buckets`: with rising edges."""
        self.buckets = tuple(buckets)
        edges = np.array([bucket.edge for bucket in buckets])
        assert (np.diff(edges) > 0).all(), edges
        owner = np.searchsorted(edges, lengths)
        parts: list[Int64s] = []
        owners: list[Int64s] = []
        rest, self.samples_repeated = np.zeros(0, np.int64), 0
        for number, bucket in enumerate(buckets):
            members = np.concatenate([rest, np.flatnonzero(owner == number)])
            if not len(members):
                continue
            permuted = Permutation(stream(seed, "bucket order", epoch, number), len(members))
            members = members[permuted(np.arange(len(members)))]
            count, remaining = divmod(len(members), bucket.batch_samples)
            rest = members[len(members) - remaining :] if every else rest
            if every and remaining and number == len(buckets) - 1:
                count, self.samples_repeated = count + 1, bucket.batch_samples - remaining
                members = np.resize(members, count * bucket.batch_samples)
            parts.append(members[: count * bucket.batch_samples])
            owners.append(np.full(count, number))
        self._samples = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        batch_owner = np.concatenate(owners) if owners else np.zeros(0, np.int64)
        sizes = np.array([bucket.batch_samples for bucket in buckets])[batch_owner]
        starts = np.cumsum(sizes) - sizes
        shuffled = np.zeros(0, np.int64)
        if len(sizes):
            shuffled = Permutation(stream(seed, "batch order", epoch), len(sizes))(np.arange(len(sizes)))
        self._owner, self._start = batch_owner[shuffled], starts[shuffled]
        self.samples_left_out = len(lengths) - len(self._samples) + self.samples_repeated

    def __len__(self) -> int:
        """Steps of the epoch."""
        return len(self._owner)

    def batch(self, step: int) -> tuple[Bucket, Int64s]:
        """The bucket of the epoch's step 0, 1, …, and the samples of its global batch, replica after replica."""
        bucket, start = self.buckets[self._owner[step]], int(self._start[step])
        return bucket, self._samples[start : start + bucket.batch_samples]
