"""Interfaces of data sets.

A data set provides the number of its samples, batches for trainers, and the preparation of
downloaded files.
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
    """Sample counts and other properties from the manifest of a prepared data set.

    Before the clock starts, a run reads no file of the data set except the manifest.
    """

    train_samples: int
    """Number of training samples, which is logged as `train_samples`."""
    evaluation_samples: int
    """Number of evaluation samples, which is logged as `eval_samples`."""
    sizes: Mapping[str, int]
    """Workload-specific sizes, such as the numbers of users and items, or the vocabulary size."""
    fingerprint: str
    """Hash of the prepared files. Data sets with equal files have equal fingerprints."""
    notes: tuple[str, ...] = ()
    """Notes on the data set that must be displayed with results, such as `counts differ from the
    published data set`.
    """
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Maps the name of an array to the path of its `.npy` file. An example is the number of
    sentences by length.

    The controller copies these files to the folder of `run.json`, so that workers do not read
    them from the data set.
    """

    def array(self, name: str) -> Array:
        """Return the memory-mapped array with the given name in `arrays`.

        Raises ValueError if the file is missing or does not contain a plain array.
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
    """Shape and NumPy dtype of an array in a batch.

    The first axis is the sample axis.
    """

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Batch:
    """Data of one replica for one training step."""

    arrays: Arrays
    """Arrays by name, padded to a shape in `Workload.shapes()`. Padded samples have the loss
    weight 0.
    """
    weight_sum: float
    """Sum of the loss weights over this replica's samples."""
    global_weight_sum: float
    """Sum of the loss weights over the samples of all replicas.

    The loss of a step is the sum of all loss terms divided by `global_weight_sum`. The loss is
    therefore exact even if the last batch is uneven.
    """
    global_samples: int
    """Number of samples of all replicas in this step, without padding."""
    global_counts: Mapping[str, int] = field(default_factory=dict)
    """Total size of this step over all replicas in each unit of `extra_throughput_units`, such as
    tokens.
    """


class DataPipeline(Protocol):
    """Source of batches, which defines the order and the sharding of the samples.

    All processes get the same number of training steps.
    """

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield the batches of each step from `first_step` to `stop_step` - 1.

        For each step, a list with one batch per local replica is yielded.
        """
        ...

    def evaluation(self) -> Iterator[list[Batch]]:
        """Yield this process's shard of the evaluation set.

        Each sample belongs to the shard of exactly one process.
        """
        ...

    def close(self) -> None:
        """Stop threads and release memory."""
        ...


def check_evaluation_coverage(numbers: Array, count: int, what: str) -> None:
    """Raise ValueError unless each sample was evaluated exactly once.

    Args:
        numbers: Indices of the evaluated samples, in any order.
        count: Number of samples in the evaluation set. The indices start at 0.
        what: Plural noun that describes the samples in the error message.
    """
    import numpy as np

    if not np.array_equal(np.sort(numbers), np.arange(count)):
        raise ValueError(
            f"evaluation saw {len(numbers)} {what}, {len(np.unique(numbers))} different ones, of"
            f" {count}"
        )


class Dataset(ABC):
    """A data set, with its preparation and checks.

    The preparation converts downloaded files to the format that runs read. The checks compare the
    prepared files with their manifest.
    """

    name: ClassVar[str]
    generated: ClassVar[bool] = False
    """True if `make_demo` can generate the data set. Demo runs then generate the data set
    automatically.
    """
    prepare_options: ClassVar[tuple[str, ...]] = ()
    """Options of `suite data prepare` for this data set.

    The values of the options are stored as attributes: for example, `subset` is the N of `--subset
    N`.
    """

    def with_options(self, options: Mapping[str, Any]) -> Dataset:
        """Set values of `prepare_options`, and return this data set.

        Raises ValueError for an option that the data set does not support.
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
        """Set a user-defined name, and return this data set.

        Raises ValueError if the name of the data set is fixed.
        """
        raise ValueError(
            f"--name {name}: {self.name} cannot be renamed. Use --name with user-defined data only:"
            " images, coco"
        )

    @abstractmethod
    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Prepare the data in `source` for runs, and return lines to print.

        The prepared data are written to `destination`. If `destination` contains a complete
        preparation of different data, it is never overwritten.

        Raises:
            ValueError: The source is invalid. The message contains the file and the line.
        """

    @abstractmethod
    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared files with their manifest, and return lines to print.

        Raises ValueError if a file differs from the manifest.
        """

    def check(self, destination: Path) -> None:  # noqa: B027 - a data set without a manifest has nothing to compare
        """Raise ValueError if the prepared files have changed since their preparation.

        The error message contains the command that repairs the files.

        Each machine calls this method before every run. The page caches are cleared after the
        check, so that the files do not remain in memory.
        """

    def is_prepared(self, destination: Path) -> bool:
        """Return True if the folder `destination` contains a completely prepared data set."""
        return (destination / "manifest.json").is_file()

    def files(self, destination: Path) -> Iterator[str]:
        """Yield the path of each file that a run may read from the prepared data set.

        By default, the method yields all files below `destination`. The paths are not collected in
        a list, because a data set may have millions of files. If a data set reads files outside of
        `destination`, their paths must be yielded first, because files in `destination` are needed
        to find them.

        Raises:
            ValueError: The prepared data set is damaged.
        """
        for folder, _, names in os.walk(destination):
            yield from filter(os.path.isfile, (os.path.join(folder, name) for name in names))

    def make_demo(self, destination: Path) -> list[str]:
        """Generate and prepare the data set, and return lines to print.

        Raises ValueError if the data set cannot be generated.
        """
        raise ValueError(
            f"{self.name} cannot be generated. Run: suite data prepare {self.name} --from FILE"
        )

    def make_vocabulary(
        self, sources: Sequence[Path], destination: Path, size: int | None
    ) -> list[str]:
        """Learn a vocabulary from text files, and return lines to print.

        The vocabulary has `size` entries and is written to a new file.

        Raises:
            ValueError: The data set does not use a learned vocabulary, or a source, the
                destination, or the size is invalid.
        """
        raise ValueError(
            f"{self.name} does not use a learned vocabulary. Skip: suite data make-vocabulary"
        )
