"""Batches of samples with different lengths, based on buckets with fixed shapes.

The batch plan depends only on the sample lengths and a hash. Every process computes the same plan
before it reads any sample. The plan contains the batches, the weights, and the number of steps of
an epoch. A bucket contains the samples with lengths up to its edge and pads the samples to its
edge. All batches together have only a few shapes, so the model is not compiled during a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.common.arrays import Int64s, Integers
from workloads.common.randomness import Permutation, stream


@dataclass(frozen=True)
class Bucket:
    """Samples that are longer than the previous bucket's edge, up to this bucket's edge."""

    edge: int
    """Maximum length of a sample, and the padded length of all samples, in tokens."""
    batch_samples: int
    """Number of samples in a global batch, which is a multiple of the number of replicas."""


def buckets_by_samples(
    edges: Sequence[int], batch_samples: int, replicas: int
) -> tuple[Bucket, ...]:
    """Return buckets that all have the same number of samples per batch.

    The function raises ValueError if a batch cannot be divided equally among the replicas.
    """
    if batch_samples % replicas:
        raise ValueError(
            f"batch size {batch_samples} cannot be divided equally among {replicas} devices. "
            f"Set batch=global:{max(1, round(batch_samples / replicas)) * replicas}"
        )
    return tuple(Bucket(edge, batch_samples) for edge in sorted(edges))


def buckets_by_tokens(edges: Sequence[int], batch_tokens: int, replicas: int) -> tuple[Bucket, ...]:
    """Return buckets with at most `batch_tokens` tokens per batch, including padding.

    The function raises ValueError if a batch cannot contain one sample of maximum length for each
    replica.
    """
    if batch_tokens < max(edges) * replicas:
        raise ValueError(
            f"batch size {batch_tokens} tokens cannot give each of {replicas} devices a sample of"
            f" {max(edges)} tokens. Set batch=global:{max(edges) * replicas} or more"
        )
    return tuple(
        Bucket(edge, batch_tokens // edge // replicas * replicas) for edge in sorted(edges)
    )


class BatchPlan:
    """Batches of one epoch.

    The samples of each bucket are divided into batches in a random order. Then all batches are
    shuffled. By default, the remaining samples of a bucket that do not fill a batch are omitted.
    With `every`, the remaining samples move to the next bucket. The last bucket then fills its last
    batch by repeating samples of the bucket. Samples that are longer than the last bucket's edge
    are always omitted.
    """

    def __init__(
        self,
        lengths: Integers,
        buckets: Sequence[Bucket],
        seed: int,
        epoch: int,
        every: bool = False,
    ) -> None:
        """Compute the batches of an epoch.

        Args:
            lengths: Length (N,) of each sample in tokens.
            buckets: Buckets sorted by edge.
            seed: Seed of the run.
            epoch: Number of the epoch.
            every: True if the epoch must contain every sample that fits into a bucket.
        """
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
            shuffled = Permutation(stream(seed, "batch order", epoch), len(sizes))(
                np.arange(len(sizes))
            )
        self._owner, self._start = batch_owner[shuffled], starts[shuffled]
        self.samples_left_out = len(lengths) - len(self._samples) + self.samples_repeated

    def __len__(self) -> int:
        """Return the number of steps in the epoch."""
        return len(self._owner)

    def batch(self, step: int) -> tuple[Bucket, Int64s]:
        """Return the bucket of a step, and the indices of the samples in its global batch.

        Step numbers start at 0 in each epoch. The samples are ordered by replica.
        """
        bucket, start = self.buckets[self._owner[step]], int(self._start[step])
        return bucket, self._samples[start : start + bucket.batch_samples]
