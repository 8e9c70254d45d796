"""Interfaces of data sets.

They provide counts of the prepared data, batches for trainers, and preparation from a download.
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
    """Counts from the manifest of a prepared data set.

    Runs read no other file of the data set before the clock starts.
    """

    train_samples: int
    """Number of training samples, logged as `train_samples`."""
    evaluation_samples: int
    """Number of evaluation samples, logged as `eval_samples`."""
    sizes: Mapping[str, int]
    """Workload-specific counts: users, items, vocabulary, …"""
    fingerprint: str
    """Hash of the prepared files. It is equal for equal data."""
    notes: tuple[str, ...] = ()
    """Facts about the data that results must show, such as
    `counts differ from the published data set`.
    """
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Maps the name of an array, such as the number of sentences by length, to the path of its
    `.npy` file.

    The controller copies the files next to `run.json`, so workers do not read them from the data
    set.
    """

    def array(self, name: str) -> Array:
        """Return an array of `arrays`, memory-mapped.

        Raises ValueError if the file is missing or is not a plain array.
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
    """Shape and NumPy type of an array of a batch. The first axis counts samples."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Batch:
    """Data of one replica for one step."""

    arrays: Arrays
    """Arrays by name, padded to a shape of `Workload.shapes()`. Padding has the weight 0."""
    weight_sum: float
    """Sum of the loss weights of this replica's samples."""
    global_weight_sum: float
    """`weight_sum` over all replicas.

    The loss is the sum of terms / `global_weight_sum`, so uneven last batches stay exact.
    """
    global_samples: int
    """Samples of this step over all replicas, without padding."""
    global_counts: Mapping[str, int] = field(default_factory=dict)
    """Size of this step over all replicas in each of the workload's `extra_throughput_units`, such
    as tokens.
    """


class DataPipeline(Protocol):
    """Source of batches, which decides on their order and sharding.

    Every process gets the same number of training steps.
    """

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of each step from `first_step` to `stop_step` - 1.

        The batches of a step are a list with a batch per local replica.
        """
        ...

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield this process's part of the evaluation set.

        Every sample is in the part of exactly one process.
        """
        ...

    def close(self) -> None:
        """Stop threads and release memory."""
        ...


def check_evaluation_coverage(numbers: Array, count: int, what: str) -> None:
    """Raise ValueError unless an evaluation covered each sample exactly once.

    Args:
        numbers: Numbers of the samples with a result, in any order.
        count: Samples of the evaluation set, which are numbered from 0.
        what: Plural noun for the samples in the message.
    """
    import numpy as np

    if not np.array_equal(np.sort(numbers), np.arange(count)):
        raise ValueError(
            f"evaluation saw {len(numbers)} {what}, {len(np.unique(numbers))} different ones, of"
            f" {count}"
        )


class Dataset(ABC):
    """A data set.

    It has the preparation from a download into the form that runs read, and checks of the prepared
    files.
    """

    name: ClassVar[str]
    generated: ClassVar[bool] = False
    """True if `make_demo` can generate the data set. Demo runs generate it automatically."""
    prepare_options: ClassVar[tuple[str, ...]] = ()
    """Options of `suite data prepare` for the data set.

    Their values are attributes: `subset` holds N of `--subset N`.
    """

    def with_options(self, options: Mapping[str, Any]) -> Dataset:
        """Set values of `prepare_options`, and return this data set.

        Raises ValueError for an unsupported option.
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

        Raises ValueError if the name of the data set is fixed.
        """
        raise ValueError(
            f"--name {name}: {self.name} cannot be renamed. Use --name with user-defined data only:"
            " images, coco"
        )

    @abstractmethod
    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Write the prepared form of `source` to `destination`, and return lines to print.

        A finished preparation of different data is never overwritten.

        Raises:
            ValueError: The source is invalid. The message names the file and the line.
        """

    @abstractmethod
    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared files with their manifest, and return lines to print.

        Raises ValueError for a bad file.
        """

    def check(self, destination: Path) -> None:  # noqa: B027 - a data set without a manifest has nothing to compare
        """Raise ValueError, with the command that repairs them, if the prepared files have changed.

        Each machine calls this before every run. Caches are cleared afterwards, so the files do not
        stay in memory.
        """

    def is_prepared(self, destination: Path) -> bool:
        """Return True if the folder `destination` contains a finished preparation."""
        return (destination / "manifest.json").is_file()

    def files(self, destination: Path) -> Iterator[str]:
        """Yield the path of each file that a run with this preparation may read.

        The preparation is in `destination`.

        Default: all files below `destination`. The paths are not collected in a list, because a
        data set may have millions of files. If files outside this folder are used, their paths come
        first, since the files in the folder are needed to find them.

        Raises:
            ValueError: The preparation is damaged.
        """
        for folder, _, names in os.walk(destination):
            yield from filter(os.path.isfile, (os.path.join(folder, name) for name in names))

    def make_demo(self, destination: Path) -> list[str]:
        """Generate and prepare the data set, and return lines to print.

        Raises ValueError if it cannot be generated.
        """
        raise ValueError(
            f"{self.name} cannot be generated. Run: suite data prepare {self.name} --from FILE"
        )

    def make_vocabulary(
        self, sources: Sequence[Path], destination: Path, size: int | None
    ) -> list[str]:
        """Learn a vocabulary of `size` from text, and write it to a new file.

        Returns lines to print.

        Raises:
            ValueError: The data set does not use a learned vocabulary, or a source, the destination
                or the size is invalid.
        """
        raise ValueError(
            f"{self.name} does not use a learned vocabulary. Skip: suite data make-vocabulary"
        )
