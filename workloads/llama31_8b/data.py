"""Training and evaluation batches of token windows.

Window w of a split has the tokens w · S … w · S + S, with S = sequence length. The inputs are the
first S tokens and the labels the last S. In each epoch, a random permutation orders the training
windows. An evaluation uses the first windows of the validation split in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from workloads.api import Batch, DatasetInfo, Settings, WorkerContext
from workloads.common.arrays import Int64s
from workloads.common.data.prefetch import Prefetch
from workloads.common.randomness import Permutation, bits, integers, stream
from workloads.llama31_8b import token_files


def batch(
    tokens: Int64s, numbers: Int64s, weight: float, samples: int, is_evaluation: bool = False
) -> Batch:
    """Return a batch of windows.

    Args:
        tokens: (b, S + 1) int64 tokens of this replica's windows.
        numbers: (b,) numbers of the windows, or -1 for padding.
        weight: Number of label tokens of the step over all replicas.
        samples: Number of windows of the step over all replicas.
        is_evaluation: True to add the numbers of the windows.
    """
    arrays = {"token": tokens[:, :-1], "label": tokens[:, 1:]}
    if is_evaluation:
        arrays["number"] = numbers
    length = tokens.shape[1] - 1
    local = float(np.count_nonzero(numbers >= 0) * length)
    return Batch(arrays, local, weight, samples, {"tokens": samples * length})


class TokenData:
    """Input pipeline over prepared token files, or over random tokens without files.

    Arrays of a training batch: `token` and `label`, int64 (b, S). An evaluation batch also has
    `number`, int64 (b,): the number of the window, or -1 for padding.
    """

    def __init__(
        self, settings: Settings, dataset_info: DatasetInfo, worker: WorkerContext, seed: int
    ) -> None:
        self.settings, self.info, self.worker, self.seed = settings, dataset_info, worker, seed
        self.length = int(settings.model["sequence_length"])
        self.vocabulary = int(settings.model["vocabulary"])
        self._tokens = (
            {split: self._map(split) for split in ("train", "validation")}
            if settings.data_dir
            else {}
        )

    def _map(self, split: str) -> np.ndarray:
        folder = Path(self.settings.data_dir)
        index = token_files.read_index(folder / f"{split}.idx")
        return token_files.map_tokens(folder / f"{split}.bin", index)

    def windows(self, split: str, numbers: Int64s) -> Int64s:
        """Return the tokens of windows (b,), as int64 (b, S + 1).

        Raises:
            ValueError: A token is not in the vocabulary.
        """
        at = numbers[:, None] * self.length + np.arange(self.length + 1)
        if split not in self._tokens:
            return integers(bits(stream(self.seed, "tokens"), at), self.vocabulary)
        found = np.asarray(self._tokens[split][at], np.int64)
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < self.vocabulary:
            raise ValueError(
                f"{self.settings.data_dir}/{split}.bin: token {int(found.max())} is not in the"
                f" vocabulary of {self.vocabulary} tokens"
            )
        return found

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of steps first_step … stop_step - 1.

        A background thread reads the windows.
        """
        return Prefetch(self._steps(first_step, stop_step))

    def _steps(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        size, samples = self.settings.global_batch_size, self.info.train_samples
        per_epoch = samples // size
        share = size // self.worker.num_replicas
        epoch, order = -1, Permutation(0, 1)
        for step in range(first_step, stop_step):
            number, within = divmod(step, per_epoch)
            if number != epoch:
                epoch = number
                order = Permutation(stream(self.seed, "order", epoch), samples)
            windows = order(np.arange(within * size, (within + 1) * size))
            weight = float(size * self.length)
            yield [
                batch(self.windows("train", part), part, weight, size)
                for replica in self.worker.replica_ids
                for part in [windows[replica * share : (replica + 1) * share]]
            ]

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield the windows of this process. The last batches may contain padding.

        Every process has the same number of batches, because evaluating sharded parameters is a
        collective operation.
        """
        count, replicas = self.info.evaluation_samples, self.worker.num_replicas
        share = evaluation_share(self.settings, count)
        for first in range(0, count, share * replicas):
            batches = []
            for replica in self.worker.replica_ids:
                numbers = np.arange(share) + first + replica * share
                valid = numbers < count
                tokens = self.windows("validation", np.where(valid, numbers, 0))
                batches.append(
                    batch(
                        tokens,
                        np.where(valid, numbers, -1),
                        float(min(share * replicas, count - first) * self.length),
                        min(share * replicas, count - first),
                        is_evaluation=True,
                    )
                )
            yield batches

    def close(self) -> None:
        """Release the mapped files."""
        self._tokens = {}


def evaluation_share(settings: Settings, count: int) -> int:
    """Return the number of windows of a replica in an evaluation batch.

    It is the number of windows of a training batch, so that an evaluation needs no more memory than
    a training step.
    """
    return min(max(1, settings.global_batch_size // settings.devices), max(1, count))
