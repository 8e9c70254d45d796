"""DatasetInfo about data, batches of it, and how a data set gets from its download into the prepared form that runs read."""

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
    """Counts read from a prepared data set's manifest, so that nothing else of it is touched before the clock."""

    train_samples: int
    """As logged under `train_samples`."""
    evaluation_samples: int
    """As logged under `eval_samples`."""
    sizes: Mapping[str, int]
    """Workload-specific counts: users, items, vocabulary, …"""
    fingerprint: str
    """Hash over the prepared files; two runs on the same data have the same."""
    notes: tuple[str, ...] = ()
    """What a reader of the result must know: `counts differ from the published data set`, …"""
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Name of an array (number of sentences by length) to the path of its `.npy` file. The controller copies the files next to
    `run.json`, so that workers do not read the data set for them."""

    def array(self, name: str) -> Array:
        """One of `arrays`, mapped into memory. Raises ValueError if the file is not there or holds no plain array."""
        import numpy as np

        try:
            array: Array = np.load(self.arrays[name], mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(
                f"{self.arrays[name]}: not an array of facts ({error}); prepare the data set again"
            ) from None
        return array


@dataclass(frozen=True)
class ArraySpec:
    """Shape and NumPy type of one array of a batch; the first axis counts samples."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Batch:
    """What one replica computes in one step."""

    arrays: Arrays
    """Padded to one of `Workload.shapes()`; padding carries weight 0."""
    weight_sum: float
    """Sum of the loss weights of this replica's samples."""
    global_weight_sum: float
    """The same over all replicas: loss = sum of terms / global_weight_sum, so uneven last batches stay exact."""
    global_samples: int
    """Samples of this step over all replicas, without padding."""
    global_counts: Mapping[str, int] = field(default_factory=dict)
    """The same in the workload's `extra_throughput_units`: tokens, …"""


class DataPipeline(Protocol):
    """Owns order and sharding. Every process sees the same number of training steps."""

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """The batches of steps first_step … stop_step - 1, one per local replica."""
        ...

    def evaluation(self) -> Iterator[list[Batch]]:
        """This process's part of the evaluation set; every sample stands in exactly one process's part."""
        ...

    def close(self) -> None:
        """Stop threads and release memory."""
        ...


def check_evaluation_coverage(numbers: Array, count: int, what: str) -> None:
    """Raise ValueError unless the results of an evaluation are of the samples 0 … `count` - 1, each once, in any order."""
    import numpy as np

    if not np.array_equal(np.sort(numbers), np.arange(count)):
        raise ValueError(f"evaluation saw {len(numbers)} {what}, {len(np.unique(numbers))} different ones, of {count}")


class Dataset(ABC):
    """How a data set gets from its download into the prepared form that runs read."""

    name: ClassVar[str]
    generated: ClassVar[bool] = False
    """True if `make_demo` can generate it; a demo run does so by itself."""
    prepare_options: ClassVar[tuple[str, ...]] = ()
    """What `suite data prepare` may be told of it, and the attributes that hold it: `subset` of `--subset N`."""

    def with_options(self, given: Mapping[str, Any]) -> Dataset:
        """This data set, prepared with these of `prepare_options`. Raises ValueError for one that it does not take."""
        for name in given:
            if name not in self.prepare_options:
                raise ValueError(f"--{name.replace('_', '-')} means nothing for {type(self).name}; leave it out")
        vars(self).update(given)
        return self

    def with_name(self, name: str) -> Dataset:
        """This data set under a name of the user's own. Raises ValueError for one whose content its name promises."""
        raise ValueError(
            f"--name {name}: {self.name} has its own name; --name is for images and coco, folders of your own"
        )

    @abstractmethod
    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Write the prepared form of `source` below `destination`; returns lines to print.

        Raises ValueError naming file and line of what is wrong. Never overwrites a finished preparation of other data.
        """

    @abstractmethod
    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared files with their manifest; returns lines to print. Raises ValueError naming the bad file."""

    def check(self, destination: Path) -> None:  # noqa: B027 - a data set without a manifest has nothing to compare
        """Raise ValueError, saying what to type, where the prepared files are not those that were prepared.

        Called before every run on each machine, ahead of clearing caches: so what it reads is not in memory afterwards.
        """

    def is_prepared(self, destination: Path) -> bool:
        """True if `destination` holds a finished preparation."""
        return (destination / "manifest.json").is_file()

    def files(self, destination: Path) -> Iterator[str]:
        """Full paths of the files that a run on the preparation in `destination` may read: here those that lie below it.

        They come one by one: a data set of millions needs no list. One whose content lies elsewhere names that first, since
        files of this folder are read to find it. Raises ValueError where the preparation is damaged.
        """
        for folder, _, names in os.walk(destination):
            yield from filter(os.path.isfile, (os.path.join(folder, name) for name in names))

    def make_demo(self, destination: Path) -> list[str]:
        """Generate the data set and prepare it. Raises ValueError where a data set cannot be generated."""
        raise ValueError(
            f"{self.name} cannot be generated; prepare it with: suite data prepare {self.name} --from FILE"
        )

    def make_vocabulary(self, sources: Sequence[Path], destination: Path, size: int | None) -> list[str]:
        """Learn a vocabulary of `size` from text and write it to a new file; returns lines to print.

        Raises ValueError where a data set takes none, and for what is wrong with sources, destination or size.
        """
        raise ValueError(f"{self.name} takes no vocabulary that is learned apart; leave it out")
