"""What a workload and a trainer are: the only module that the runner and the plugins share.

Nothing here imports a framework, Hydra or the runner. Words: a *process* is an operating-system process,
a *replica* is one device that holds a copy of the model; `Place` says which replicas a process drives.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy.typing as npt

Json = Any
"""A value that `json.dumps` writes: None, bool, int, float, str, list or dict of such."""

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


class Diverged(RuntimeError):
    """The loss is not a finite number; the run ends as `failed`."""


@dataclass(frozen=True)
class Place:
    """Where this process stands among all processes and devices of a run."""

    process: int
    """0 … processes - 1; process 0 writes the log."""
    processes: int
    replicas: range
    """The global numbers of the devices that this process drives, all of one host."""
    replicas_total: int
    devices: tuple[str, ...]
    """One name per local replica, as its host numbers them: `cpu`, `cuda:0`, …"""
    cores: tuple[int, ...] = ()
    """The CPU cores this process is pinned to; empty: not pinned."""
    cores_per_device: int = 1
    role: str = "worker"
    """`worker`, or `server` / `scheduler` for MXNet's distributed key-value store."""
    host: str = ""
    """Name of the machine that this process is on; empty: the only one."""


@dataclass(frozen=True)
class Setting:
    """One hyperparameter with the place that its value comes from."""

    value: Json
    source: str
    """`published: …`, `derived: …`, `presumed: …` or `user`."""


HyperparameterSet = Mapping[str, Setting]


@dataclass(frozen=True)
class Defaults:
    """What a profile (`reference`, `demo`, `synthetic`) means for a workload."""

    dataset: str
    hyperparameter_set: str
    model: Mapping[str, Json]
    targets: Mapping[str, float]
    """Metric name to the value that must be reached; all must be met."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides what a run computes, fully resolved; written to `run.json`."""

    workload: str
    framework: str
    profile: str
    rules: str
    """Name of the rules: `v0.5`, `v0.7`."""
    clock: str
    """`v0.5`: the clock starts before the model is built; `v0.7`: after up to 20 minutes of setup."""
    device: str
    """`cpu` or `cuda`."""
    devices_total: int
    nodes: int
    cores_per_device: int
    oversubscribe: bool
    precision: str
    """`fp32`, `tf32`, `bf16` or `fp16`."""
    batch_size_global: int
    batch_rule: str
    """`set`, `global:N` or `per_device:N`: strong and weak scaling never share a table row."""
    lr_scaling: str
    """`none`, `linear`, `sqrt`, or `set` (as the hyperparameter set says)."""
    seed: int
    stop: str
    """`target`, `epochs:N`, `samples:N` or `steps:N`."""
    mode: str
    """`train` or `forward`."""
    dataset: str
    data_dir: str
    """Folder of the prepared data set; empty under `profile=synthetic`."""
    model: Mapping[str, Json]
    targets: Mapping[str, float]
    hyperparameter_set: str
    hyperparameters: Mapping[str, Json]
    hyperparameter_sources: Mapping[str, str]
    options: Mapping[str, Json] = field(default_factory=dict)
    """Further options of the workload and the framework (`framework.compile`, …)."""


@dataclass(frozen=True)
class Facts:
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
    weight: float
    """Sum of the loss weights of this replica's samples."""
    weight_global: float
    """The same over all replicas: loss = sum of terms / weight_global, so uneven last batches stay exact."""
    samples_global: int
    """Samples of this step over all replicas, without padding."""


@dataclass(frozen=True)
class TrainStats:
    """What a trainer says about a stretch of steps."""

    steps: int
    loss: float
    """Mean loss over the last reported stretch of steps (global mean per unit of weight)."""


class Data(Protocol):
    """Owns order and sharding. Every process sees the same number of training steps."""

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """The batches of steps first_step … stop_step - 1, one per local replica."""
        ...

    def evaluation(self) -> Iterator[list[Batch]]:
        """This process's share of the evaluation set; every sample stands in exactly one process's share."""
        ...

    def close(self) -> None:
        """Stop threads and release memory."""
        ...


class Workload(ABC):
    """Framework-free half of a benchmark: data, schedules, targets, metrics, log keys."""

    name: ClassVar[str]
    log_name: ClassVar[str]
    """`submission_benchmark` in the log."""
    sample_unit: ClassVar[str]
    """What `samples_per_second` counts: images, sentence pairs, …"""
    default_rules: ClassVar[str]
    precisions: ClassVar[Mapping[str, tuple[str, ...]]]
    """Framework name to the precisions that its trainer offers."""
    free_hyperparameters: ClassVar[frozenset[str]]
    """Hyperparameters that the closed rules leave to the submitter."""
    official_runs: ClassVar[int]
    """Runs that the rules ask for."""
    Options: ClassVar[type]
    """Dataclass of the keys below `workload.` on the command line; fields named like a hyperparameter override it."""

    def __init__(self, settings: Settings, facts: Facts) -> None:
        self.settings = settings
        self.facts = facts

    # -- before a run exists: what the controller asks ------------------------------------------------------------

    @classmethod
    @abstractmethod
    def defaults(cls, profile: str, rules: str) -> Defaults:
        """What `profile` means here under `rules`. Raises ValueError for a profile that the workload does not have."""

    @classmethod
    @abstractmethod
    def hyperparameter_sets(cls) -> Mapping[str, HyperparameterSet]:
        """Named sets; each holds at least `batch_size_global`, `learning_rate`, `lr_scaling` and `max_epochs`."""

    @classmethod
    @abstractmethod
    def read_facts(cls, settings: Settings) -> Facts:
        """Counts from the manifest below `settings.data_dir`, or the published ones under `profile=synthetic`.

        Raises ValueError that names what is missing and what to type.
        """

    @classmethod
    def resolve(cls, settings: Settings) -> Settings:
        """The settings after files that they name beside the data set have been checked and made ready: `backbone.weights`.

        Raises ValueError; by default for any such file.
        """
        if any(name.startswith("backbone_") for name in settings.options):
            raise ValueError(f"backbone.weights: workload={cls.name} starts from random weights; leave it out")
        return settings

    @classmethod
    def deviations(cls, settings: Settings) -> list[str]:
        """In what the settings leave the closed rules, one phrase each; any makes the division `open`."""
        return []

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Bytes that one sample leaves for the backward pass, at least; 0: not known. A batch that cannot fit is refused."""
        return 0

    # -- schedule -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def samples_per_epoch(self) -> int:
        """Samples that one epoch trains on."""

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch; the last partial batch is kept."""
        return math.ceil(self.samples_per_epoch / self.settings.batch_size_global)

    @abstractmethod
    def learning_rate(self, step: int) -> float:
        """Learning rate of step 0, 1, …"""

    def evaluation_steps(self) -> Iterator[int]:
        """Step counts after which to evaluate, rising without end (the loop stops). Default: every epoch."""
        return itertools.count(self.steps_per_epoch, self.steps_per_epoch)

    # -- weights, data, quality -----------------------------------------------------------------------------------

    @abstractmethod
    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """All shapes that a training batch of one replica can have, largest first."""

    @abstractmethod
    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """(canonical name, float32 array) of every parameter, the same in every framework.

        Batch norm's `….running_mean` and `….running_var` may come too; those that do not start at 0 and 1.
        """

    @abstractmethod
    def open_data(self, place: Place, seed: int) -> Data:
        """Open the prepared data; called after `run_start`."""

    @abstractmethod
    def measure(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Small per-sample results of one evaluation batch from the trainer's outputs."""

    @abstractmethod
    def score(self, results: Arrays) -> dict[str, float]:
        """Metric name to value, from the results of all samples (concatenated over batches and processes)."""

    @abstractmethod
    def log_keys(self) -> Mapping[str, Json]:
        """Keys and values that the rules want in the log, beyond those that the loop writes."""

    def met(self, scores: Mapping[str, float]) -> bool:
        """True if every target is reached."""
        return all(scores[metric] >= target for metric, target in self.settings.targets.items())


class Trainer(ABC):
    """The framework half: a model, a step, and moving small arrays between processes."""

    def __init__(self, workload: Workload, place: Place) -> None:
        self.workload = workload
        self.settings = workload.settings
        self.place = place

    @abstractmethod
    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Build the model, load the weights, compile; warm up on made-up tensors and leave no trace of that."""

    @abstractmethod
    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; items are consumed in order. Raises Diverged."""

    @abstractmethod
    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        """The loss of each item without any update (`mode=forward`)."""

    @abstractmethod
    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Each batch with the model's outputs for it, as NumPy arrays. No collective calls."""

    @abstractmethod
    def gather(self, arrays: Arrays) -> list[Arrays] | None:
        """Collective: the arrays of every process on process 0 (in process order), None elsewhere."""

    @abstractmethod
    def broadcast(self, value: float) -> float:
        """Collective: process 0's value."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Copies of parameters (canonical names) and optimizer state, float32."""

    @abstractmethod
    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""

    def memory_peak_bytes(self) -> int:
        """Peak device memory of the first local replica; on a CPU the peak resident set of the process."""
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @abstractmethod
    def close(self) -> None:
        """Leave collectives in an orderly way."""


class Dataset(ABC):
    """How a data set gets from its download into the prepared form that runs read."""

    name: ClassVar[str]
    generated: ClassVar[bool] = False
    """True if `make_demo` can generate it; a demo run does so by itself."""

    @abstractmethod
    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Write the prepared form of `source` below `destination`; returns lines to print.

        Raises ValueError naming file and line of what is wrong. Never overwrites a finished preparation of other data.
        """

    @abstractmethod
    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared files with their manifest; returns lines to print. Raises ValueError naming the bad file."""

    def is_prepared(self, destination: Path) -> bool:
        """True if `destination` holds a finished preparation."""
        return (destination / "manifest.json").is_file()

    def make_demo(self, destination: Path) -> list[str]:
        """Generate the data set and prepare it. Raises ValueError where a data set cannot be generated."""
        raise ValueError(
            f"{self.name} cannot be generated; prepare it with: suite data prepare {self.name} --from FILE"
        )
