"""Training and evaluation batches of sentence pairs, in a few padded shapes.

The length of the longer sentence of a pair determines the pair's bucket. The batch plan of an epoch
(workloads/common/batch_plan.py) depends only on the lengths and a hash, so every process computes
the same plan. Pairs that do not fill a global batch of their bucket are left out, as in the GNMT
reference. With `Batching.every_pair`, these pairs move to the next bucket instead.

A training batch of B pairs has the following arrays, padded at the end with 0. L is the edge of the
bucket. W is L - 1 if sentence lengths include BOS (GNMT). Otherwise W is L.

    source          (B, L) int32
    source_length   (B,) int32
    target          (B, W) int32: input of the decoder
    label           (B, W) int32: expected output of the decoder
    target_length   (B,) int32: number of ids of the label
    dropout_key     (B,) int64: see workloads/common/dropout.py

A batch to translate has the arrays `source`, `source_length`, `number`, and `valid`. `number` (B,)
int64 contains the sentence numbers. `valid` (B,) bool is False for padding sentences. A batch for
the validation loss has the arrays of a training batch except `dropout_key`, and the arrays `number`
and `valid`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workloads.api import Array, ArraySpec, Batch, WorkerContext
from workloads.common import dropout
from workloads.common.arrays import Int64s, Integers, UInt16s
from workloads.common.batch_plan import BatchPlan, Bucket
from workloads.common.data.prefetch import Prefetch
from workloads.common.text.prepared import Parallel, Side, framed
from workloads.common.text.vocabulary import Framing

AHEAD = 4
"""Number of steps whose batches are prepared in advance."""


@dataclass(frozen=True)
class Batching:
    """Settings that control how sentence pairs are grouped into batches."""

    framing: Framing
    buckets: tuple[Bucket, ...]
    """Length buckets.

    The edge of a bucket is a length that includes the special ids. The edge of the last bucket is
    the maximum length used in training.
    """
    evaluation_edges: tuple[int, ...]
    """Padded lengths of evaluation sentences. Every evaluation sentence fits into the longest
    padded length.
    """
    evaluation_sentences: int
    """Number of sentences per replica and evaluation step."""
    weigh_tokens: bool
    """True if the weight of a batch is its number of target tokens. False if the weight is its
    number of sentences.
    """
    replicas: int
    every_pair: bool = False
    """Whether the remaining pairs of a bucket, which do not fill a batch, move to the next bucket.

    If False, the remaining pairs are left out of the epoch.
    """

    def target_width(self, edge: int) -> int:
        """Return the number of columns of `target` and `label` in the bucket with this edge."""
        return edge if self.framing.begin is None else edge - 1

    def sentences(self, bucket: Bucket) -> int:
        """Return the number of sentence pairs per replica and training step."""
        return bucket.batch_samples // self.replicas

    def train_shape(self, bucket: Bucket) -> dict[str, ArraySpec]:
        """Return the array shapes of one replica's training batch."""
        count = self.sentences(bucket)
        return {**self._pair(count, bucket.edge), "dropout_key": ArraySpec((count,), "int64")}

    def evaluation_shapes(self) -> list[dict[str, ArraySpec]]:
        """Return the array shapes of one replica's evaluation batches, longest first.

        The shapes for translation come before the shapes for the validation loss.
        """
        count = self.evaluation_sentences
        pairs = [self._pair(count, edge) for edge in sorted(self.evaluation_edges, reverse=True)]
        return [
            {name: specs[name] for name in ("source", "source_length")} for specs in pairs
        ] + pairs

    def _pair(self, count: int, edge: int) -> dict[str, ArraySpec]:
        width = self.target_width(edge)
        sizes = {
            "source": (count, edge),
            "source_length": (count,),
            "target": (count, width),
            "label": (count, width),
        }
        return {
            name: ArraySpec(size, "int32")
            for name, size in [*sizes.items(), ("target_length", (count,))]
        }


def equal_edges(longest: int, count: int) -> tuple[int, ...]:
    """Return the edges of `count` buckets of equal width.

    The width is ⌈longest / count⌉. A sentence of length n belongs to bucket ⌊n / width⌋, or to the
    last bucket if no bucket has this number. The GNMT reference uses the same rule
    (seq2seq/data/sampler.py, BucketingSampler). For example, a maximum length of 50 in five buckets
    gives the edges 9, 19, 29, 39, 50.
    """
    width = -(-longest // count)
    inner = [width * number - 1 for number in range(1, count) if 0 < width * number - 1 < longest]
    return (*inner, longest)


def growing_edges(shortest: int, growth: float, multiple: int, longest: int) -> tuple[int, ...]:
    """Return bucket edges that grow by the factor `growth`, but at least by 1.

    Each edge is rounded up to a multiple of `multiple`. The Transformer reference uses the
    arguments 8, 1.1, 1, 256.
    """
    edges, edge = [], shortest
    while edge < longest:
        edges.append(-(-edge // multiple) * multiple)
        edge = max(edge + 1, int(edge * growth))
    return tuple(sorted({min(edge, longest) for edge in [*edges, longest]}))


@dataclass(frozen=True)
class Counts:
    """Numbers of batches and pairs in an epoch.

    The numbers depend only on sentence lengths and buckets, so the numbers are the same in all
    epochs.
    """

    bucket_steps: tuple[int, ...]
    """Number of batches in each bucket. All batches are full."""
    too_long: int
    """Number of pairs that are longer than the last bucket's edge."""
    left_out: int
    """Number of pairs that fit into a bucket but are not in any batch."""
    repeated: int
    """Number of pairs that are used a second time to fill the last batch of the last bucket."""
    fill: float
    """Number of source and target tokens divided by the number of array elements, including
    padding.
    """

    @property
    def steps(self) -> int:
        """Return the number of steps in an epoch."""
        return sum(self.bucket_steps)


def count(length_counts: Int64s, batching: Batching) -> Counts:
    """Count the batches of an epoch.

    For `Counts.fill`, every pair that fits into a bucket is counted in the bucket of its length.

    Args:
        length_counts: Array (2, L) from `prepared.length_counts`.
        batching: Rules for buckets and batches.
    """
    extra, (pairs, tokens) = batching.framing.extra, length_counts
    steps: list[int] = []
    short = places = filled = first = left_out = rest = 0
    for bucket in batching.buckets:
        stop = max(first, bucket.edge - extra + 1)
        members = int(pairs[first:stop].sum())
        full, remaining = divmod(rest + members, bucket.batch_samples)
        steps.append(full)
        left_out, rest = (left_out, remaining) if batching.every_pair else (left_out + remaining, 0)
        filled += int(tokens[first:stop].sum()) + 2 * extra * members
        places += 2 * members * bucket.edge
        short, first = short + members, stop
    repeated = -rest % batching.buckets[-1].batch_samples
    steps[-1] += rest > 0
    return Counts(
        tuple(steps),
        int(pairs.sum()) - short,
        left_out,
        repeated,
        filled / places if places else 0.0,
    )


def plan(lengths: UInt16s, batching: Batching, seed: int, epoch: int) -> BatchPlan:
    """Return the batch plan of an epoch.

    `lengths` (2, N) contains the lengths of the training pairs.
    """
    longer = np.maximum(lengths[0], lengths[1]).astype(np.int32) + batching.framing.extra
    return BatchPlan(longer, batching.buckets, seed, epoch, batching.every_pair)


class TranslationData:
    """Input pipeline over the sentence pairs of a prepared or synthetic corpus."""

    def __init__(
        self,
        batching: Batching,
        lengths: UInt16s,
        splits: dict[str, Parallel],
        worker: WorkerContext,
        seed: int,
        steps_per_epoch: int,
    ) -> None:
        """Create the pipeline.

        Args:
            batching: Rules for buckets and batches.
            lengths: Lengths (2, N) of the training pairs.
            splits: The splits `train` and `test`. The split `dev` is needed only for the validation
                loss.
            worker: Context of this worker.
            seed: Seed of the run.
            steps_per_epoch: Number of steps per epoch, computed by `count`.
        """
        self.batching, self.lengths, self.splits, self.worker, self.seed = (
            batching,
            lengths,
            splits,
            worker,
            seed,
        )
        self.steps_per_epoch = steps_per_epoch
        self._running: weakref.WeakSet[Prefetch[list[Batch]]] = weakref.WeakSet()

    # -- training
    # ----------------------------------------------------------------------------------------------

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of steps first_step … stop_step - 1.

        The steps may span several epochs. A background thread prepares the batches.
        """
        prefetch = Prefetch(self._steps(first_step, stop_step), depth=AHEAD)
        self._running.add(prefetch)
        try:
            yield from prefetch
        finally:
            prefetch.close()

    def _steps(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        order: BatchPlan | None = None
        for step in range(first_step, stop_step):
            epoch, epoch_step = divmod(step, self.steps_per_epoch)
            if order is None or epoch_step == 0:
                order = plan(self.lengths, self.batching, self.seed, epoch)
                assert len(order) == self.steps_per_epoch
            yield self._train_batches(epoch, *order.batch(epoch_step))

    def _train_batches(self, epoch: int, bucket: Bucket, samples: Int64s) -> list[Batch]:
        share, extra = self.batching.sentences(bucket), self.batching.framing.extra
        source, target = (int(side[samples].sum(dtype=np.int64)) for side in self.lengths)
        counts = {"tokens": source + target + 2 * extra * len(samples)}
        total = float(target + len(samples) if self.batching.weigh_tokens else len(samples))
        batches = []
        for replica in self.worker.replica_ids:
            mine = samples[replica * share : (replica + 1) * share]
            arrays = self._arrays(self.splits["train"], mine, bucket.edge)
            arrays["dropout_key"] = dropout.keys(self.seed, epoch, mine)
            weight = arrays["target_length"].sum() if self.batching.weigh_tokens else share
            batches.append(Batch(arrays, float(weight), total, len(samples), counts))
        return batches

    def _arrays(self, pairs: Parallel, sentences: Int64s, edge: int) -> dict[str, Array]:
        """Return the arrays of training pairs, or of pairs for the validation loss.

        A synthetic corpus repeats its pairs, so the method takes sentence numbers modulo the number
        of pairs.
        """
        sentences, framing = sentences % len(pairs), self.batching.framing
        source, source_length = framed(pairs.source, sentences, edge, framing, begin=True, end=True)
        label, target_length = framed(
            pairs.target,
            sentences,
            self.batching.target_width(edge),
            framing,
            begin=False,
            end=True,
        )
        target = np.zeros_like(label)
        target[:, 0] = framing.start
        target[:, 1:] = np.where(
            np.arange(1, label.shape[1]) < target_length[:, None], label[:, :-1], 0
        )
        arrays = {
            "source": source,
            "source_length": source_length,
            "target": target,
            "label": label,
        }
        return {**arrays, "target_length": target_length}

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield the batches to translate, then the batches for the validation loss.

        Without a `dev` split, the validation loss is not computed. Both groups of batches begin
        with the longest sentences.
        """
        yield from self._evaluation("test", translate=True)
        if "dev" in self.splits:
            yield from self._evaluation("dev", translate=False)

    def _evaluation(self, split: str, translate: bool) -> Iterator[list[Batch]]:
        """Yield the batches of a split, with sentences sorted by length.

        Each global batch is divided among the replicas. A global batch is padded to the smallest
        evaluation edge that is long enough for its sentences.
        """
        pairs, size, replicas = (
            self.splits[split],
            self.batching.evaluation_sentences,
            self.worker.num_replicas,
        )
        numbers = np.arange(len(pairs))
        lengths = pairs.source.lengths(numbers)
        if not translate:
            lengths = np.maximum(lengths, pairs.target.lengths(numbers))
        order = np.argsort(-lengths, kind="stable")
        for first in range(0, len(order), size * replicas):
            chunk = order[first : first + size * replicas]
            needed = int(lengths[chunk[0]]) + self.batching.framing.extra
            edge = next(edge for edge in sorted(self.batching.evaluation_edges) if edge >= needed)
            yield [
                self._evaluation_batch(pairs, chunk, replica, edge, translate)
                for replica in self.worker.replica_ids
            ]

    def _evaluation_batch(
        self, pairs: Parallel, chunk: Int64s, replica: int, edge: int, translate: bool
    ) -> Batch:
        """Return one replica's share of a global batch.

        A share with too few sentences is completed with copies of its first sentence. `valid` is
        False for the copies. A share without sentences is filled with copies of the first sentence
        of the global batch.
        """
        size = self.batching.evaluation_sentences
        mine = chunk[replica :: self.worker.num_replicas]
        number = np.resize(mine, size) if len(mine) else np.zeros(size, np.int64)
        if len(mine):
            number[len(mine) :] = mine[0]
        else:
            number[:] = chunk[0]
        arrays: dict[str, Array]
        if translate:
            source, length = framed(
                pairs.source, number, edge, self.batching.framing, begin=True, end=True
            )
            arrays = {"source": source, "source_length": length}
        else:
            arrays = self._arrays(pairs, number, edge)
        arrays |= {"number": number, "valid": np.arange(size) < len(mine)}
        return Batch(arrays, float(len(mine)), float(len(chunk)), len(chunk))

    def close(self) -> None:
        """Stop the threads of unfinished `train` calls."""
        for prefetch in list(self._running):
            prefetch.close()


def random_side(lengths: Sequence[int] | Integers, ids: Integers) -> Side:
    """Return one language of a synthetic corpus.

    Args:
        lengths: Length (N,) of each sentence.
        ids: Token ids (T,) of the concatenated sentences. The ids are repeated if T is too small.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Side(np.resize(ids, int(offsets[-1])), offsets)
