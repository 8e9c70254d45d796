"""All-reduce benchmark: sizes and order of the buffers, and their expected sums.

The module is framework-independent, and no model is trained.

A step sums a buffer over all devices. For each buffer size, there are WARMUPS steps whose sums are
checked, followed by TIMED steps whose times are reported. An epoch is a pass over all sizes. A
sample is a byte, so the global batch size is the size of the largest buffer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workloads.api import (
    Array,
    ArraySpec,
    Batch,
    DataPipeline,
    DatasetInfo,
    Defaults,
    EpochSamples,
    Json,
    Round,
    Settings,
    WorkerContext,
    Workload,
    option,
)

SMALLEST, FACTOR, LARGEST = 1 << 10, 4, 1 << 30
"""Smallest size, ratio of successive sizes, and largest size of the buffers: 1 KiB to 1 GiB in
factors of 4 (the range of studies.md, R9).

The examples of nccl-tests start at 8 B and use factors of 2.
"""
WARMUPS, TIMED = 5, 20
"""Number of warm-up steps and timed steps per size (defaults of `-w` and `-n` in nccl-tests)."""
PERIOD = 64
"""Number of values after which the contents of a buffer repeat.

The smallest buffer contains four periods in fp32.
"""
MAX_EXACT = {"bf16": 256, "fp16": 2048}
"""Maximum number of devices at which every sum of zeros and ones is exact. bf16 has 8 bits of
mantissa, and fp16 has 11 bits.
"""
BUFFERS = 4
"""Minimum number of buffers of the largest size that must fit into a device's memory at the same
time.

TensorFlow needs the input buffer, its chunks, and their sums. MXNet's KVStore needs two
buffers.
"""
EVENT = "suite_all_reduce"


@dataclass(frozen=True)
class AllReduceOptions:
    """Options `workload.*` of this workload, which has no specific options."""

    name: str = "allreduce"
    hyperparameter_set: str = option("auto", "named set; auto: the only one")


def sizes(largest: int) -> list[int]:
    """Return the buffer sizes in bytes, up to `largest`, in ascending order."""
    result = [SMALLEST]
    while result[-1] * FACTOR <= largest:
        result.append(result[-1] * FACTOR)
    return result


def contribution(replica: int) -> Array:
    """Return the zeros and ones that are repeated in the buffer of a device.

    The array is float32 (PERIOD,). The contents differ between devices.
    """
    return np.random.default_rng(replica).integers(0, 2, PERIOD).astype(np.float32)


class AllReduce(Workload):
    """All-reduce of buffers of ascending size, with the same collectives as for gradients."""

    name = "allreduce"
    mlperf_name = "allreduce"
    sample_unit = "bytes"
    batch_unit = "bytes"
    gpu_precisions = ()  # The precision is the data type of the buffers.
    Options = AllReduceOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.sizes = sizes(settings.global_batch_size)

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return defaults for a pass over all buffer sizes.

        The benchmark has no data set, no model, and no target.

        Raises:
            ValueError: The profile is not `synthetic`.
        """
        if profile != "synthetic":
            raise ValueError(
                f"profile={profile}: allreduce trains no model and reads no data. Set"
                " profile=synthetic or study=allreduce"
            )
        return Defaults("", "sizes", stop="epochs:1")

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return a `DatasetInfo` with 0 samples, because the benchmark has no data set.

        Raises:
            ValueError: With these settings, no all-reduce would be timed, or the sums could not be
                checked.
        """
        if settings.devices < 2:
            raise ValueError("gpus=1: an all-reduce needs several devices. Set gpus=2 or more")
        if settings.mode != "train":
            raise ValueError(
                f"mode={settings.mode}: allreduce has no forward and backward passes. Set"
                " mode=train"
            )
        if settings.timing_each != "steps":
            raise ValueError(
                "workload=allreduce: each all-reduce is timed separately. Set timing=steps or"
                " study=allreduce"
            )
        if settings.global_batch_size < SMALLEST:
            raise ValueError(
                f"batch={settings.batch_rule}: expected at least {SMALLEST} bytes for the largest"
                f" buffer. Set batch=global:{SMALLEST} or more"
            )
        max_devices = MAX_EXACT.get(settings.precision, settings.devices)
        if settings.devices > max_devices:
            raise ValueError(
                f"precision={settings.precision}: sums over more than {max_devices} devices are not"
                " exact and cannot be checked. Set precision=fp32"
            )
        return DatasetInfo(0, 0, {}, "no data")

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the required device memory in bytes per byte of the largest buffer.

        Each device needs memory for BUFFERS buffers.
        """
        return BUFFERS * settings.devices

    # -- steps
    # ----------------------------------------------------------------------------------------------

    @property
    def epoch_samples(self) -> EpochSamples:
        """Return the total number of bytes of all buffers in a pass over all sizes."""
        return EpochSamples((WARMUPS + TIMED) * sum(self.sizes))

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps in a pass over all sizes."""
        return (WARMUPS + TIMED) * len(self.sizes)

    def place_of_step(self, step: int) -> tuple[int, int]:
        """Return the buffer size of a step in bytes, and the index of the step.

        The index is 0 for the first step with this buffer size.
        """
        size, number = divmod(step % self.steps_per_epoch, WARMUPS + TIMED)
        return self.sizes[size], number

    def learning_rate(self, step: int) -> float:
        return 0.0

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of the batch arrays `bytes` and `number`, which are int64 (1,)."""
        return [{name: ArraySpec((1,), "int64") for name in ("bytes", "number")}]

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return iter(())

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        return Steps(self, worker)

    def expected(self) -> Array:
        """Return one period of the expected buffer contents after the all-reduce.

        The array is float32 (PERIOD,).
        """
        total: Array = np.stack(
            [contribution(replica) for replica in range(self.settings.devices)]
        ).sum(axis=0)
        return total

    def summarize_step_times(self, seconds: Sequence[float], how: str) -> Mapping[str, Json]:
        """Return statistics of the step times for each buffer size, without warm-up steps.

        `suite.results.logs.all_reduce` computes bandwidths and the constants of the link from these
        statistics.
        """
        times_by_size: dict[int, list[float]] = {size: [] for size in self.sizes}
        for step, taken in enumerate(seconds, start=self.settings.timing_warmup_steps):
            size, number = self.place_of_step(step)
            if number >= WARMUPS:
                times_by_size[size].append(taken * 1e6)
        timed = [
            {"bytes": size, **_statistics(times)} for size, times in times_by_size.items() if times
        ]
        return {
            EVENT: {
                "devices": self.settings.devices,
                "warmups": WARMUPS,
                "how": how,
                "sizes": timed,
            }
        }


def _statistics(microseconds: Sequence[float]) -> dict[str, Json]:
    kinds: dict[str, Callable[[Sequence[float]], float]] = {
        "median": statistics.median,
        "mean": statistics.fmean,
        "minimum": min,
        "maximum": max,
    }
    return {
        "count": len(microseconds),
        **{f"{name}_us": round(kind(microseconds), 3) for name, kind in kinds.items()},
    }


class Steps:
    """Data pipeline without a data set.

    All devices run the same steps in the same order.
    """

    def __init__(self, workload: AllReduce, worker: WorkerContext) -> None:
        self.workload, self.replicas = workload, len(worker.replica_ids)

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """Yield a list with one batch per local replica for each step.

        A batch contains the size of the buffer, and the index of the step among the steps with this
        size.
        """
        for step in range(first_step, stop_step):
            size, number = self.workload.place_of_step(step)
            arrays = {"bytes": np.array([size], np.int64), "number": np.array([number], np.int64)}
            yield [Batch(arrays, float(size), float(size), size)] * self.replicas

    def evaluation(self) -> Iterator[list[Batch]]:
        return iter(())

    def close(self) -> None:
        """Do nothing, because no file is open."""
