"""Interfaces of data sets.

A data set provides its sample counts, batches for trainers, and the preparation from a download.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from workloads.api.values import Array, Arrays


@dataclass(frozen=True)
class DatasetInfo:
    """Sample counts and other data from the manifest of a prepared data set.

    Before the clock starts, runs read no other file of the data set.
    """

    train_samples: int
    """Number of training samples, which is logged as `train_samples`."""
    evaluation_samples: int
    """Number of evaluation samples, which is logged as `eval_samples`."""
    sizes: Mapping[str, int]
    """Workload-specific sizes, such as the number of users, the number of items, or the vocabulary
    size.
    """
    fingerprint: str
    """Hash of the prepared files. Equal data have equal fingerprints."""
    notes: tuple[str, ...] = ()
    """Notes on the data that must be shown with results, such as `counts differ from the published
    data set`.
    """
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Path of the `.npy` file of each named array, such as the number of sentences by length.

    The controller copies the files next to `run.json`, so that workers do not read them from the
    data set.
    """

    def array(self, name: str) -> Array:
        """Return a memory-mapped array of `arrays`.

        The method raises ValueError if the file is missing or is not a plain array.
        """
        import numpy as np

        try:
            array: Array = np.load(self.arrays[name], mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(
                f"{self.arrays[name]}: not an array of facts ({error}). Prepare the data set again"
            ) from None
        return array


@dataclass(frozen=True)
class ArraySpec:
    """Shape and NumPy dtype of an array in a batch. The first axis is the sample axis."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Batch:
    """Data of one replica for one step."""

    arrays: Arrays
    """Arrays by name, padded to a shape in `Workload.shapes()`. Padding has the weight 0."""
    weight_sum: float
    """Sum of the loss weights over this replica's samples."""
    global_weight_sum: float
    """Sum of the loss weights over all replicas.

    The loss is the sum of terms / `global_weight_sum`, so the loss is exact even if the last batch
    is uneven.
    """
    global_samples: int
    """Number of samples in this step over all replicas, without padding."""
    global_counts: Mapping[str, int] = field(default_factory=dict)
    """Size of this step over all replicas in each of the workload's `extra_throughput_units`,
    such as tokens.
    """


class DataPipeline(Protocol):
    """Source of batches, which defines the order and the sharding of the data.

    Every process gets the same number of training steps.
    """

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of each step from `first_step` to `stop_step` - 1.

        The batches of a step are a list with one batch per local replica.
        """
        ...

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield this process's shard of the evaluation set.

        Every sample is in the shard of exactly one process.
        """
        ...

    def close(self) -> None:
        """Stop threads and release memory."""
        ...


def check_evaluation_coverage(numbers: Array, count: int, what: str) -> None:
    """Raise ValueError unless an evaluation covered each sample exactly once.

    Args:
        numbers: Indices of the samples that have a result, in any order.
        count: Number of samples in the evaluation set. The indices start at 0.
        what: Plural noun for the samples in the message.
    """
    import numpy as np

    if not np.array_equal(np.sort(numbers), np.arange(count)):
        raise ValueError(
            f"evaluation saw {len(numbers)} {what}, {len(np.unique(numbers))} different ones, of"
            f" {count}"
        )


class Dataset(ABC):
    """Data set, with its preparation and checks.

    The preparation converts a download to the form that runs read. The checks compare the prepared
    files with their manifest.
    """

    name: ClassVar[str]
    generated: ClassVar[bool] = False
    """True if `make_demo` can generate the data set. Demo runs generate the data set
    automatically.
    """
    prepare_options: ClassVar[tuple[str, ...]] = ()
    """Options of `suite data prepare` for this data set.

    The values of the options are attributes: for example, `subset` is the N of `--subset N`.
    """

    def with_options(self, options: Mapping[str, Any]) -> Dataset:
        """Set values of `prepare_options`, and return this data set.

        The method raises ValueError for an unsupported option.
        """
        for name in options:
            if name not in self.prepare_options:
                raise ValueError(
                    f"--{name.replace('_', '-')} is not an option of {type(self).name}. Leave"
                    " it out"
                )
        vars(self).update(options)
        return self

    def with_name(self, name: str) -> Dataset:
        """Return this data set with a user-defined name.

        The method raises ValueError if the name of the data set is fixed.
        """
        raise ValueError(
            f"--name {name}: {self.name} cannot be renamed. Use --name with user-defined data only:"
            " images, coco"
        )

    @abstractmethod
    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Prepare the data in `source` for runs, and return lines to print.

        The prepared data are written to `destination`. A complete preparation of different data is
        never overwritten.

        Raises:
            ValueError: The source is invalid. The message contains the file and the line.
        """

    @abstractmethod
    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared files with their manifest, and return lines to print.

        The method raises ValueError for a file that differs.
        """

    def check(self, destination: Path) -> None:  # noqa: B027 - a data set without a manifest has nothing to compare
        """Raise ValueError if the prepared files have changed.

        The message contains the command that repairs the files.

        Each machine calls this method before every run. Caches are cleared afterwards, so the files
        do not remain in memory.
        """

    def is_prepared(self, destination: Path) -> bool:
        """Return True if the folder `destination` contains a complete preparation."""
        return (destination / "manifest.json").is_file()

    def files(self, destination: Path) -> Iterator[str]:
        """Yield the path of each file that a run with this preparation may read.

        The preparation is in `destination`.

        The default is all files below `destination`. The paths are not collected in a list, because
        a data set may have millions of files. Paths of files outside of this folder must come
        first, because files in the folder are needed to find them.

        Raises:
            ValueError: The preparation is damaged.
        """
        for folder, _, names in os.walk(destination):
            yield from filter(os.path.isfile, (os.path.join(folder, name) for name in names))

    def make_demo(self, destination: Path) -> list[str]:
        """Generate and prepare the data set, and return lines to print.

        The method raises ValueError if the data set cannot be generated.
        """
        raise ValueError(
            f"{self.name} cannot be generated. Run: suite data prepare {self.name} --from FILE"
        )

    def make_vocabulary(
        self, sources: Sequence[Path], destination: Path, size: int | None
    ) -> list[str]:
        """Learn a vocabulary of `size` from text files, and write it to a new file.

        The method returns lines to print.

        Raises:
            ValueError: The data set does not use a learned vocabulary, or a source, the
                destination, or the size is invalid.
        """
        raise ValueError(
            f"{self.name} does not use a learned vocabulary. Skip: suite data make-vocabulary"
        )
