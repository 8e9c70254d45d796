"""Batches of sentence pairs in a few padded shapes, and evaluation batches, for any number of replicas.

A pair belongs to the bucket of its longer side; the plan of an epoch (workloads/common/batch_plan.py) comes from lengths and a
hash alone, so every process has it. Pairs that fill no global batch of their bucket are left out, as in
GNMT's reference, or go on to the next bucket (`Batching.every_pair`).

Arrays of a training batch of B pairs whose bucket's edge is L, all int32, padded at the end with 0:
    source (B, L)   source_length (B,)   target (B, W): what a decoder is fed   label (B, W): what it is to say
    target_length (B,): ids of the label
where W = L - 1 if BOS counts in lengths (GNMT), else L; and `dropout_key` int64 (B,) (workloads/common/dropout.py). To
translate: `source`, `source_length`, `number` int64 (B,) of the sentence, `valid` bool (B,). For the validation loss: all but
the key.
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
"""Steps whose batches are made ahead."""


@dataclass(frozen=True)
class Batching:
    """How pairs become batches."""

    framing: Framing
    buckets: tuple[Bucket, ...]
    """Edges count the framing's special ids; the longest edge is the longest pair that is trained on."""
    evaluation_edges: tuple[int, ...]
    """Padded lengths of evaluation sentences; the last one holds every sentence."""
    evaluation_sentences: int
    """Of one replica in one step."""
    weigh_tokens: bool
    """What a batch's weight counts: target tokens, or sentences."""
    replicas: int
    every_pair: bool = False
    """Whether pairs that fill no batch of their bucket go on to the next, instead of being left out of the epoch."""

    def target_width(self, edge: int) -> int:
        """Columns of `target` and `label`."""
        return edge if self.framing.begin is None else edge - 1

    def sentences(self, bucket: Bucket) -> int:
        """Pairs of one replica in one step."""
        return bucket.batch_samples // self.replicas

    def train_shape(self, bucket: Bucket) -> dict[str, ArraySpec]:
        """Of a training batch of one replica."""
        count = self.sentences(bucket)
        return {**self._pair(count, bucket.edge), "dropout_key": ArraySpec((count,), "int64")}

    def evaluation_shapes(self) -> list[dict[str, ArraySpec]]:
        """Of all evaluation batches of one replica, longest first: to translate, and for the validation loss."""
        count = self.evaluation_sentences
        pairs = [self._pair(count, edge) for edge in sorted(self.evaluation_edges, reverse=True)]
        return [{name: specs[name] for name in ("source", "source_length")} for specs in pairs] + pairs

    def _pair(self, count: int, edge: int) -> dict[str, ArraySpec]:
        width = self.target_width(edge)
        sizes = {"source": (count, edge), "source_length": (count,), "target": (count, width), "label": (count, width)}
        return {name: ArraySpec(size, "int32") for name, size in [*sizes.items(), ("target_length", (count,))]}


def equal_edges(longest: int, count: int) -> tuple[int, ...]:
    """Edges of `count` buckets of equal width: length n has bucket ⌊n / width⌋, width = ⌈longest / count⌉, at most the last.

    GNMT's reference (seq2seq/data/sampler.py, BucketingSampler): 50 in five gives 9, 19, 29, 39, 50.
    """
    width = -(-longest // count)
    inner = [width * number - 1 for number in range(1, count) if 0 < width * number - 1 < longest]
    return (*inner, longest)


def growing_edges(shortest: int, growth: float, multiple: int, longest: int) -> tuple[int, ...]:
    """Edges that grow by a factor, at least by 1, rounded up to a multiple (Transformer's reference: 8, 1.1, 1, 256)."""
    edges, edge = [], shortest
    while edge < longest:
        edges.append(-(-edge // multiple) * multiple)
        edge = max(edge + 1, int(edge * growth))
    return tuple(sorted({min(edge, longest) for edge in [*edges, longest]}))


@dataclass(frozen=True)
class Counts:
    """What follows from lengths and buckets alone, the same in every epoch."""

    bucket_steps: tuple[int, ...]
    """Batches of each bucket, all of them full."""
    too_long: int
    left_out: int
    """Pairs that are short enough and in no batch."""
    repeated: int
    """Pairs that fill up the last bucket's last batch for a second time."""
    fill: float
    """Tokens of both sides over places with padding."""

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return sum(self.bucket_steps)


def count(length_counts: Int64s, batching: Batching) -> Counts:
    """`length_counts` (2, L): `prepared.length_counts`. The fill is of all pairs that are short enough, in their buckets."""
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
    return Counts(tuple(steps), int(pairs.sum()) - short, left_out, repeated, filled / places if places else 0.0)


def plan(lengths: UInt16s, batching: Batching, seed: int, epoch: int) -> BatchPlan:
    """The batches of an epoch."""
    longer = np.maximum(lengths[0], lengths[1]).astype(np.int32) + batching.framing.extra
    return BatchPlan(longer, batching.buckets, seed, epoch, batching.every_pair)


class TranslationData:
    """`workloads.api.DataPipeline` over the pairs of a prepared or synthetic corpus."""

    def __init__(
        self,
        batching: Batching,
        lengths: UInt16s,
        splits: dict[str, Parallel],
        worker: WorkerContext,
        seed: int,
        steps_per_epoch: int,
    ) -> None:
        """`lengths` (2, N) of the training pairs. `splits`: `train`, `test` and, where there is a validation loss, `dev`.

        `steps_per_epoch`: as `count` gives it.
        """
        self.batching, self.lengths, self.splits, self.worker, self.seed = batching, lengths, splits, worker, seed
        self.steps_per_epoch = steps_per_epoch
        self._running: weakref.WeakSet[Prefetch[list[Batch]]] = weakref.WeakSet()

    # -- training -------------------------------------------------------------------------------------------------

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """The batches of steps first_step … stop_step - 1, made on a background thread; may run across epochs."""
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
        """Of the training pairs, or those for the validation loss. A synthetic corpus has fewer pairs and repeats."""
        sentences, framing = sentences % len(pairs), self.batching.framing
        source, source_length = framed(pairs.source, sentences, edge, framing, begin=True, end=True)
        label, target_length = framed(
            pairs.target, sentences, self.batching.target_width(edge), framing, begin=False, end=True
        )
        target = np.zeros_like(label)
        target[:, 0] = framing.start
        target[:, 1:] = np.where(np.arange(1, label.shape[1]) < target_length[:, None], label[:, :-1], 0)
        arrays = {"source": source, "source_length": source_length, "target": target, "label": label}
        return {**arrays, "target_length": target_length}

    # -- evaluation -----------------------------------------------------------------------------------------------

    def evaluation(self) -> Iterator[list[Batch]]:
        """Batches to translate, then those for the validation loss, if there is a split for it; long sentences first."""
        yield from self._evaluation("test", translate=True)
        if "dev" in self.splits:
            yield from self._evaluation("dev", translate=False)

    def _evaluation(self, split: str, translate: bool) -> Iterator[list[Batch]]:
        """Sentences sorted by length; each global batch is dealt out to the replicas and padded to one of the edges."""
        pairs, size, replicas = self.splits[split], self.batching.evaluation_sentences, self.worker.num_replicas
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
                self._evaluation_batch(pairs, chunk, replica, edge, translate) for replica in self.worker.replica_ids
            ]

    def _evaluation_batch(self, pairs: Parallel, chunk: Int64s, replica: int, edge: int, translate: bool) -> Batch:
        """One replica's share; where it is short, its first sentence (or sentence 0) fills it up without being valid."""
        size = self.batching.evaluation_sentences
        mine = chunk[replica :: self.worker.num_replicas]
        number = np.resize(mine, size) if len(mine) else np.zeros(size, np.int64)
        if len(mine):
            number[len(mine) :] = mine[0]
        else:
            number[:] = chunk[0]
        arrays: dict[str, Array]
        if translate:
            source, length = framed(pairs.source, number, edge, self.batching.framing, begin=True, end=True)
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
    """A side of these lengths (N,) over ids (T,) that repeat: for synthetic corpora."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Side(np.resize(ids, int(offsets[-1])), offsets)
